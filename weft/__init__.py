"""Weft: a PyTorch-shaped tensor library whose autograd is compiled whole."""
# ruff: noqa: E402

from weft.core import starting as _starting

if _starting.is_command():
    _starting.answer_interrupts()  # before all else: the rest takes a while

from weft.core import collection as _collection

_held = _collection.put_off()  # nothing of what is made here becomes garbage

import weft.ops as _ops  # noqa: F401
import weft.trace as _trace  # noqa: F401 - first: the function of that name is to hide the package
from weft.tensor import conversion as _conversion  # noqa: F401
from weft.tensor import creation as _creation  # noqa: F401
from weft.tensor import display as _display  # noqa: F401
from weft.tensor import faces as _faces
from weft.tensor import facts as _facts  # noqa: F401
from weft.tensor import indexing as _indexing  # noqa: F401
from weft.tensor import interchange as _interchange  # noqa: F401
from weft.tensor import layouts as _layouts  # noqa: F401
from weft.tensor import legacy as _legacy  # noqa: F401
from weft.tensor import lowrank as _lowrank  # noqa: F401
from weft.tensor import older as _older  # noqa: F401
from weft.tensor import operators as _operators  # noqa: F401
from weft.tensor import parameter as _parameter  # noqa: F401
from weft.tensor import pickling as _pickling  # noqa: F401
from weft.tensor import random_state as _random_state  # noqa: F401
from weft.tensor import storage as _storage  # noqa: F401
from weft.tensor import subclassing as _subclassing  # noqa: F401
from weft.tensor import switches as _switches  # noqa: F401
from weft.tensor.base import PUBLIC as _PUBLIC
from weft.tensor.base import Parameter as Parameter
from weft.tensor.base import Tensor as Tensor
from weft.version import __version__ as __version__

_faces.install_all()
globals().update({name: face for name, face in _faces.FUNCTIONS.items() if "." not in name})
globals().update({name: value for name, value in _PUBLIC.items() if "." not in name})

from typing import Any as _Any

from weft import amp as amp
from weft import autograd as autograd
from weft import fft as fft
from weft import func as func
from weft import library as library
from weft import linalg as linalg
from weft import masked as masked
from weft import nn as nn
from weft import optim as optim
from weft import overrides as overrides
from weft import partners as _partners
from weft import random as random
from weft import signal as signal
from weft import special as special
from weft import utils as utils
from weft.amp import autocast as autocast
from weft.amp.state import *  # noqa: F403
from weft.autograd.anomaly import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from weft.autograd.anomaly import is_anomaly_enabled as is_anomaly_enabled
from weft.autograd.anomaly import set_anomaly_enabled as set_anomaly_enabled
from weft.autograd.control_flow import cond as cond
from weft.autograd.control_flow import map as map
from weft.autograd.control_flow import scan as scan
from weft.autograd.control_flow import while_loop as while_loop
from weft.autograd.grad_mode import *  # noqa: F403
from weft.core.errors import AcceleratorError as AcceleratorError
from weft.core.errors import OutOfMemoryError as OutOfMemoryError
from weft.core.lazy import lazy as _lazy
from weft.core.lazy import load as _load
from weft.core.seams import seams as _seams
from weft.func import vmap as vmap
from weft.nn import functional as _functional  # noqa: F401
from weft.nn.in_place import *  # noqa: F403
from weft.nn.recurrent import *  # noqa: F403
from weft.ops import custom as _custom
from weft.ops import return_types as return_types

DisableTorchFunction = overrides.DisableTorchFunction
DisableTorchFunctionSubclass = overrides.DisableTorchFunctionSubclass
_LATE = (
    "accelerator", "array_api", "backends", "compiler", "cpu", "cuda", "data", "distributed", "distributions",
    "files", "fx", "jit", "mps", "profiler", "quantization", "report", "sparse", "testing", "xpu",
)  # fmt: skip
"""Modules that are loaded when they are first asked for."""


_OF_LATE = {"CompilationUnit": "jit", "Future": "jit", "ScriptFunction": "jit", "ScriptModule": "jit",
            "fork": "jit", "wait": "jit", "qscheme": "quantization",
            "fake_quantize_per_channel_affine": "quantization",
            "fake_quantize_per_tensor_affine": "quantization",
            "per_channel_affine": "quantization", "per_channel_symmetric": "quantization",
            "per_tensor_affine": "quantization", "per_tensor_symmetric": "quantization"}  # fmt: skip
"""Names that are also those of such modules."""


def __getattr__(name: str) -> _Any:
    if name in _OF_LATE:
        return getattr(__getattr__(_OF_LATE[name]), name)
    if name in _LATE:
        found = _load(f"weft.{name}")
        if name == "compiler":
            _partners.mark()
        return found
    raise AttributeError(f"module 'weft' has no attribute {name!r}")


def get_device_module(device: _Any = None) -> _Any:
    """The module of functions for a kind of device: `weft.cpu`, where none is named."""
    make, default = _PUBLIC["device"], _PUBLIC["get_default_device"]
    named = default() if device is None else make(device)
    if named.type not in _LATE:
        raise RuntimeError(f"there is no module of functions for devices of type '{named.type}'")
    return __getattr__(named.type)


def _first_native_kernel(op: _Any, bound: _Any) -> _Any:
    """The first eager op that may use machine code loads what makes it, where this process may have any."""
    try:
        found = _load("weft.native.eager").kernels()
    except ImportError:  # of what Python has without us
        found = None
    if _seams.native_kernel is _first_native_kernel:
        _seams.native_kernel = found
    return None if found is None else found(op, bound)


_seams.native_kernel = _first_native_kernel


def compile(
    model: _Any = None,
    *,
    fullgraph: _Any = False,
    dynamic: _Any = None,
    backend: _Any = None,
    mode: _Any = None,
    options: _Any = None,
    disable: _Any = False,
    recompile_limit: _Any = None,
) -> _Any:
    """The function, method, module or other callable in a form that runs compiled.

    Called first, it captures what the function does as graphs, which the backend makes callable; later calls
    run these where everything that was read is still the same, and capture again elsewhere. A module stays a
    module, with the same parameters. Without `model`, gives a decorator.

    Arguments:

    - `model`: what to compile; nothing runs before the first call
    - `fullgraph`: whether code that one graph cannot hold raises `Unsupported`, instead of running in pieces
    - `dynamic`: whether sizes may vary: True from the first capture on, False never (each size is compiled
      for itself), None once two sizes were seen
    - `backend`: a name of `weft.compiler.list_backends()`, or a function `(graph_module, example_inputs) ->
      callable`; by default "native", which differentiates graphs ahead of time and compiles them to machine
      code
    - `mode`: one of PyTorch's, accepted and without effect on "native"; other backends receive it as a
      keyword
    - `options`: keywords for a backend function; "native" has none, see `weft.compiler.settings` for its
      switches; not together with `mode`
    - `disable`: whether to give `model` back as it is, for comparing
    - `recompile_limit`: how many times one function is captured before its original runs instead; by default
      `weft.compiler.settings.recompile_limit`

    >>> step = weft.compile(lambda x: (x * 2).sum(), fullgraph=True)
    >>> step(weft.tensor([1.0, 2.0]))
    tensor(6.)
    """
    given = dict(locals())
    return __getattr__("compiler").compile(**given)


def save(
    obj: _Any, f: _Any, pickle_module: _Any = None, pickle_protocol: _Any = None, **options: _Any
) -> None:
    """Writes nested data with tensors to a path or a file object; see `weft.files.checkpoint.save`."""
    __getattr__("files").save(obj, f, pickle_module, pickle_protocol, **options)


def load(
    f: _Any,
    map_location: _Any = None,
    pickle_module: _Any = None,
    *,
    weights_only: _Any = None,
    mmap: _Any = None,
    **options: _Any,
) -> _Any:
    """Reads what `save` wrote, safetensors or a checkpoint of PyTorch; see `weft.files.checkpoint.load`."""
    return __getattr__("files").load(
        f, map_location, pickle_module, weights_only=weights_only, mmap=mmap, **options
    )


def _array_namespace(self: _Any, *, api_version: str | None = None) -> _Any:
    """The functions of the array API standard for this tensor: `weft.array_api`."""
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"the array API standard {api_version!r} is not known here")
    return __getattr__("array_api")


Tensor.__array_namespace__ = _array_namespace  # type: ignore[method-assign]
_seams.compile = compile
_seams.below = _lazy("weft.tensor.below")
_custom.LATE["aten"] = lambda: _load("weft.tensor.overloads").aten
_partners.install()

_collection.promote()
del _held
