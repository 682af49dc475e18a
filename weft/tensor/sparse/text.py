"""Sparse tensors as text, as PyTorch writes them: their parts, each as a tensor, and the facts."""

from __future__ import annotations

from typing import Any

from weft.core.devices import device_of
from weft.core.dtypes import bool_, get_default_dtype, int64
from weft.core.naming import naming
from weft.core.types import sparse_coo
from weft.tensor.base import Tensor
from weft.tensor.node_names import node_name
from weft.tensor.printing import format_elements, get_printoptions, with_suffixes
from weft.tensor.sparse.base import SparseTensor
from weft.tensor.sparse.places import BY_ROWS

LABELS = {True: ("crow_indices", "col_indices"), False: ("ccol_indices", "row_indices")}
PREFIX = "tensor("
INDENT = len(PREFIX)


def _part(label: str, tensor: Tensor) -> str:
    prefix = f"{label}=tensor("
    array: Any = tensor.detach().array
    return f"{prefix}{format_elements(device_of(array).asnumpy(array), INDENT + len(prefix))})"


def describe(tensor: SparseTensor) -> str:
    """The text of `repr`."""
    coordinates = tensor.form is sparse_coo
    labels = ("indices",) if coordinates else LABELS[tensor.form in BY_ROWS]
    parts = [_part(label, place) for label, place in zip(labels, tensor.places)]
    parts.append(_part("values", tensor.elements))
    facts = [] if tensor.device.type == "cpu" else [f"device='{tensor.device}'"]
    facts += [f"size={tuple(tensor.sizes)}", f"nnz={tensor.elements.shape[0]}"]
    default = get_default_dtype()
    if tensor.dtype not in (default, default.to_complex(), int64, bool_):
        facts.append(f"dtype={naming.namespace}.{tensor.dtype.name}")
    facts.append(f"layout={tensor.form!r}")
    node = tensor.elements.grad_fn
    if node is not None:
        facts.append(f"grad_fn=<{getattr(node, 'name', lambda: node_name(node))()}>")
    elif tensor.requires_grad:
        facts.append("requires_grad=True")
    text = PREFIX + f",\n{' ' * INDENT}".join(parts)
    return with_suffixes(text, facts, 0, INDENT, int(get_printoptions()["linewidth"]), coordinates)
