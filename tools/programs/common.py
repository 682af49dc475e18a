"""What the programs of `tools/packages.py` share: the library asked for, formulas, and what they say."""

from __future__ import annotations

import atexit
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

warnings.simplefilter("ignore")
if sys.argv[1] == "weft":
    import weft.compat

    weft.compat.install()
import torch  # noqa: E402

SAID: dict[str, Any] = {}
atexit.register(lambda: np.savez(sys.argv[2], **SAID))


def say(name: str, value: Any) -> None:
    """Notes an array, or several."""
    if isinstance(value, (list, tuple)):
        for place, each in enumerate(value):
            say(f"{name}.{place}", each)
        return
    if isinstance(value, torch.Tensor):
        wide = torch.complex128 if value.is_complex() else torch.float64
        value = value.detach().to(wide).cpu().numpy()
    SAID[name] = np.asarray(value)


def fill(module: Any) -> Any:
    """Sets all parameters by a formula of their place."""
    with torch.no_grad():
        for place, parameter in enumerate(module.parameters()):
            count = torch.arange(parameter.numel(), dtype=torch.float64)
            values = ((count * 0.7 + place).sin() * 0.3).reshape(parameter.shape)
            parameter.copy_(values.to(parameter.dtype))
    return module


def wave(*shape: int, dtype: Any = torch.float32, phase: float = 0.0) -> Any:
    """A tensor of a formula."""
    count = torch.arange(int(np.prod(shape)), dtype=torch.float64)
    return (count * 0.37 + phase).sin().reshape(shape).to(dtype)


def train(module: Any, loss: Callable[[], Any], steps: int = 3, optimizer: Any = None) -> None:
    """Steps an optimizer, and says the losses and at last the parameters' sums."""
    optimizer = optimizer or torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        say(f"loss{step}", value)
        optimizer.step()
    say("parameters", [parameter.detach().double().sum() for parameter in module.parameters()])
