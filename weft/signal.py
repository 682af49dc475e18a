"""The `signal` namespace: `signal.windows`, generated from the op records."""

from __future__ import annotations

import sys
from types import ModuleType

from weft.tensor.faces import FUNCTIONS

windows = ModuleType("weft.signal.windows", "Windows for spectra, generated from the op records.")
vars(windows).update(
    {name.rpartition(".")[2]: face for name, face in FUNCTIONS.items() if name.startswith("signal.windows.")}
)
sys.modules[windows.__name__] = windows
