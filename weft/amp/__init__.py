"""Automatic mixed precision: `autocast` runs some ops in half precision, `GradScaler` keeps small gradients
alive."""

from weft.amp.autocast_mode import autocast as autocast
from weft.amp.autocast_mode import custom_bwd as custom_bwd
from weft.amp.autocast_mode import custom_fwd as custom_fwd
from weft.amp.grad_scaler import GradScaler as GradScaler
from weft.amp.state import is_autocast_available as is_autocast_available

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
