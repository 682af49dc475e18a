"""NumPy's arrays in captured code: objects that stand for them, each on the memory of a tensor.

Takes calls of NumPy's functions, methods and operators on arrays, and gives more of these objects. One idea:
an array is the tensor that shares its memory, so that calls are nodes on tensors (`array_program`), views are
views, and the array itself is `tensor.numpy()` wherever it leaves the captured code.

# Note [Arrays that are captured]
    a = x.numpy()                  stands on x
    b = np.sin(a).T                a node that calls np.sin; a permuted view of its result
    return b, a                    the node's view.numpy(), and x.numpy()
Elements are never known: what depends on them (a scalar, a truth, a mask) breaks the graph, and so does
writing, which would not be counted as writing to tensors is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from weft.capture.array_program import follow, numpy_op, results_of, trial_of, tried, written
from weft.capture.calls import HANDLERS
from weft.capture.values import Args, BoundMethod, Kwargs, has_type
from weft.tensor.base import PLAIN, Tensor
from weft.tensor.interchange import from_numpy
from weft.trace.breaks import Break

if TYPE_CHECKING:
    from weft.capture.machine import Machine

METHODS: Final = frozenset(
    {
        "sum", "prod", "mean", "std", "var", "min", "max", "argmin", "argmax", "cumsum", "cumprod", "any",
        "all", "clip", "round", "astype", "copy", "dot", "trace", "conj", "conjugate", "flatten", "repeat",
        "argsort", "searchsorted", "ptp", "transpose", "reshape", "ravel", "squeeze", "swapaxes",
        "diagonal", "take",
    }
)  # fmt: skip
"""Methods of arrays whose results have a type that depends on nothing but types."""
FUNCTIONS: Final = """
    array asarray
    sum prod mean std var min max amin amax argmin argmax cumsum cumprod any all median ptp average
    percentile quantile count_nonzero nansum nanprod nanmean nanstd nanvar nanmin nanmax nanmedian
    concatenate stack vstack hstack dstack column_stack tile repeat roll flip flipud fliplr rot90 pad clip
    where dot vdot inner outer tensordot einsum kron trace cross ones_like zeros_like full_like copy sort
    argsort searchsorted diff gradient interp round around nan_to_num isclose array_equal allclose meshgrid
    triu tril diag sinc real imag angle convolve correlate cov corrcoef digitize transpose reshape ravel
    squeeze expand_dims swapaxes moveaxis atleast_1d atleast_2d atleast_3d take diagonal broadcast_arrays
    ascontiguousarray split array_split linalg.norm linalg.inv linalg.det linalg.solve linalg.cholesky
    linalg.pinv linalg.matrix_power linalg.eigvalsh linalg.multi_dot fft.fft fft.ifft fft.rfft fft.irfft
    fft.fft2 fft.ifft2 fft.fftn fft.ifftn fft.fftshift fft.ifftshift
"""
"""Functions of the same kind, by their paths in `numpy`."""
PERMUTED: Final = frozenset({"transpose", "swapaxes", "moveaxis"})
RESHAPED: Final = frozenset(
    {"reshape", "ravel", "squeeze", "expand_dims", "atleast_1d", "atleast_2d", "atleast_3d"}
)
PRIMES: Final = (2, 3, 5, 7, 11, 13, 17, 19)
FACTS: Final = ("shape", "dtype", "ndim", "size", "itemsize", "nbytes")


class CapturedArray:
    """An array whose elements only running can tell. `model` is an array of its type, with other elements."""

    __slots__ = ("tensor", "model")

    def __init__(self, tensor: Tensor, model: Any) -> None:
        self.tensor, self.model = tensor, model

    def refuse(self, *_args: object) -> NoReturn:
        raise Break("numpy-call", seen="the elements of an array")

    __getattr__ = __bool__ = __len__ = __iter__ = __contains__ = __hash__ = refuse
    __getitem__ = __setitem__ = __delitem__ = refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = refuse
    __add__ = __radd__ = __mul__ = __rmul__ = __mod__ = __rmod__ = refuse
    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ifloordiv__ = __imod__ = __ipow__ = __imatmul__ = refuse
    __str__ = __repr__ = __format__ = __int__ = __float__ = __complex__ = __index__ = refuse
    __copy__ = __deepcopy__ = __reduce_ex__ = __array__ = refuse


ARRAYS: Final = (CapturedArray, np.ndarray)


# -- arrays and tensors --------------------------------------------------------------------------------------
def array_on(machine: Machine, tensor: Any) -> CapturedArray:
    """The array that lies on a tensor's memory."""
    if (
        type(tensor) not in PLAIN
        or tensor.requires_grad
        or tensor.is_conj()
        or tensor.dtype.numpy.kind not in "biufc"
    ):
        raise Break("numpy-call", seen=".numpy() of a tensor that has no such array")
    machine.native(machine.recorder.call_method, "stride", (tensor,))  # which leaves a guard
    return CapturedArray(tensor, trial_of(tensor))


def tensor_under(machine: Machine, array: Any) -> Any:
    """The tensor on whose memory an array lies."""
    if type(array) is CapturedArray:
        return array.tensor
    if not array.flags.writeable or array.dtype.kind not in "biufc" or not array.dtype.isnative:
        raise Break("numpy-call", seen="an array that no tensor can share memory with")
    return machine.native(machine.recorder.call, from_numpy, (array,), {})


def tensor_from(machine: Machine, array: CapturedArray) -> Any:
    """A tensor of its own on the memory of an array, as `from_numpy` makes one."""
    return machine.native(machine.recorder.call_method, "detach", (array.tensor,))


def array_of(tensor: Tensor) -> Any:
    """What an array that leaves captured code is made by."""
    return tensor.detach().numpy()


# -- calls ---------------------------------------------------------------------------------------------------
class Gathering:
    """The tensors of one call, in the order of first use."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.tensors: list[Any] = []
        self.models: list[Any] = []
        self.places: dict[int, int] = {}

    def place(self, value: Any) -> int | None:
        """Which of the tensors an argument lies on; None where it is no array."""
        if has_type(value, Tensor):
            raise Break("numpy-call", seen="a tensor among the arguments")
        if type(value) not in ARRAYS:
            return None
        found = self.places.get(id(value))
        if found is None:
            tensor = tensor_under(self.machine, value)
            found = self.places[id(value)] = len(self.tensors)
            self.tensors.append(tensor)
            self.models.append(value.model if type(value) is CapturedArray else trial_of(tensor))
        return found


def has_arrays(values: Any) -> bool:
    """Whether one of these is an array, or a list or tuple with one."""
    return any(
        type(value) in ARRAYS or (type(value) in (list, tuple) and has_arrays(value)) for value in values
    )


def call_arrays(machine: Machine, how: str, name: str, args: Args, kwargs: Kwargs) -> Any:
    """A call of NumPy's on arrays: a view of one of them, or a node."""
    if kwargs.get("out") is not None or "where" in kwargs:
        raise Break("numpy-call", seen="an array that is written")
    gathered = Gathering(machine)
    arguments = tuple([written(value, gathered.place) for value in args])
    named = tuple([(key, written(value, gathered.place)) for key, value in kwargs.items()])
    recipe = repr((how, name, arguments, named, tuple(machine.world.float_errors.items())))
    models = gathered.models
    if name == "getitem":
        refuse_masks(args[1])
        models = [trial_of(tensor, indexes=True) for tensor in gathered.tensors]
    found = tried(recipe, models)
    items = results_of(found)
    refuse_counts(name, recipe, args, gathered, items)
    if any(np.may_share_memory(item, model) for item in items for model in models):
        if any(found is model for model in models):  # the array itself, as `asarray` gives it
            return args[0]
        if type(found) is not np.ndarray or type(args[0]) not in ARRAYS:
            raise Break("numpy-call", seen=f"{name}: views in a container")
        return viewed(machine, name, recipe, args, gathered.tensors[0], found)
    results = machine.native(numpy_op(), gathered.tensors, recipe)
    made = [CapturedArray(tensor, trial_of(tensor)) for tensor in results]
    if type(found) is np.ndarray:
        return made[0]
    return made if type(found) is list else tuple(made)


def refuse_counts(name: str, recipe: str, args: Args, gathered: Gathering, items: list[Any]) -> None:
    """Breaks where shapes depend on elements: how often to repeat, which axis to sum, where a mask holds."""
    if name == "where" and len(args) == 1:
        raise Break("numpy-call", seen="where elements are not zero")
    if not any(model.dtype.kind in "biu" for model in gathered.models):
        return
    others = results_of(tried(recipe, [trial_of(tensor, indexes=True) for tensor in gathered.tensors]))
    if [(a.shape, a.dtype) for a in items] != [(b.shape, b.dtype) for b in others]:
        raise Break("numpy-call", seen=f"{name}: a shape that depends on elements")


def refuse_masks(key: Any) -> None:
    """The shape of what a mask picks out depends on its elements."""
    for part in key if type(key) is tuple else (key,):
        if type(part) in ARRAYS and (part.model if type(part) is CapturedArray else part).dtype == bool:
            raise Break("numpy-call", seen="a mask as an index")


def viewed(machine: Machine, name: str, recipe: str, args: Args, tensor: Any, found: Any) -> CapturedArray:
    """The view of an array that the call gave, as a view of its tensor."""
    method = name.rpartition(".")[2]
    if method in PERMUTED and tensor.ndim <= len(PRIMES):
        shown = follow(recipe, [np.empty(PRIMES[: tensor.ndim], np.uint8)])
        steps = ("permute", tuple(PRIMES.index(size) for size in shown.shape))
    elif method in RESHAPED:
        steps = ("view", tuple(found.shape))
    elif method == "getitem" and is_forward(args[1]):
        view = machine.native(machine.recorder.call, operator.getitem, (tensor, args[1]), {})
        return CapturedArray(view, trial_of(view))
    else:
        raise Break("numpy-call", seen=f"{name}: a view")
    view = machine.native(machine.recorder.call_method, steps[0], (tensor, steps[1]))
    return CapturedArray(view, trial_of(view))


def is_forward(key: Any) -> bool:
    """Whether this index is made of numbers, forward slices, `...` and `None`."""
    return all(
        part is None or part is Ellipsis or type(part) is int
        or (type(part) is slice and (part.step is None or (type(part.step) is int and part.step > 0)))
        for part in (key if type(key) is tuple else (key,))
    )  # fmt: skip


# -- attributes ----------------------------------------------------------------------------------------------
def attribute(machine: Machine, value: CapturedArray, name: str) -> Any:
    """`value.name`: what its type tells, a view, or a method."""
    if name in FACTS:
        return getattr(value.model, name)
    if name == "T":
        return call_arrays(machine, "method", "transpose", (value,), {})
    if name == "__class__":
        return np.ndarray
    if name in METHODS:
        return BoundMethod(call_method, machine, value, name)
    raise Break("numpy-call", seen=f".{name} of an array")


def call_method(machine: Machine, value: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    return call_arrays(machine, "method", name, (value, *args), kwargs)


HANDLERS[id(call_method)] = lambda machine, args, kwargs: call_method(*args, **kwargs)


def operate(machine: Machine, function: Callable[..., Any], *operands: Any) -> Any:
    """An operator of which one operand is an array."""
    if any(has_type(value, Tensor) for value in operands):
        raise Break("numpy-call", seen="an operator between an array and a tensor")
    return call_arrays(machine, "operator", function.__name__, operands, {})
