"""`weft.utils.checkpoint`: PyTorch's name for what `weft.autograd.checkpoint` gives."""

from weft.autograd.checkpoint import CheckpointError as CheckpointError
from weft.autograd.checkpoint import CheckpointFunction as CheckpointFunction
from weft.autograd.checkpoint import check_backward_validity as check_backward_validity
from weft.autograd.checkpoint import checkpoint as checkpoint
from weft.autograd.checkpoint import checkpoint_sequential as checkpoint_sequential
from weft.autograd.checkpoint import detach_variable as detach_variable
from weft.autograd.checkpoint import noop_context_fn as noop_context_fn
from weft.autograd.checkpoint import set_checkpoint_debug_enabled as set_checkpoint_debug_enabled
from weft.autograd.checkpoint import set_checkpoint_early_stop as set_checkpoint_early_stop
