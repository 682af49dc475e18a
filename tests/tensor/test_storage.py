"""Storages: bytes under tensors, identity, and tensors that move to other memory."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import weft
from weft.tensor import storage


def refuses(error: type[Exception], text: str, call: Any) -> None:
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


def test_views_share_one_storage() -> None:
    x = weft.arange(12, dtype=weft.int16).reshape(3, 4)
    views = [
        x,
        x[1:, 2],
        x.t(),
        x.view(weft.int8),
        x.data,
        x.detach(),
        x.as_strided((2, 2), (4, 1), 5),
        x.unbind(1)[2],
    ]
    held = x.untyped_storage()
    assert all(view.untyped_storage() is held for view in views)
    assert [view.storage_offset() for view in views] == [0, 6, 0, 0, 0, 0, 5, 2]
    assert held.nbytes() == held.size() == len(held) == 24 and held.data_ptr() == x.data_ptr()
    assert x.clone().untyped_storage() != held and weft.is_storage(held) and not weft.is_storage(x)
    assert x[1:].data_ptr() == x.data_ptr() + 8


def test_bytes() -> None:
    x = weft.tensor([1, 2], dtype=weft.int16)
    held = x.untyped_storage()
    assert held.tolist() == list(held) == [1, 0, 2, 0] and held[2] == 2 and held[1:3].tolist() == [0, 2]
    held[0] = 7
    assert x.tolist() == [7, 2]
    assert held.element_size() == 1 and held.device == weft.device("cpu") and held.resizable()
    copied = held.clone()
    assert copied.tolist() == held.tolist() and copied != held
    held.fill_(0)
    assert x.tolist() == [0, 0]
    held.copy_(copied)
    assert x.tolist() == [7, 2]
    assert repr(held) == " 7\n 0\n 2\n 0\n[weft.storage.UntypedStorage(device=cpu) of size 4]"
    refuses(IndexError, "out of range", lambda: held[4])
    refuses(RuntimeError, "size does not match", lambda: held.copy_(weft.UntypedStorage(2)))


def test_typed_storage() -> None:
    with pytest.warns(UserWarning, match="TypedStorage is deprecated"):
        held = weft.tensor([1.5, 2.5]).storage()
    assert (
        held.tolist() == [1.5, 2.5] and held.size() == 2 and held.nbytes() == 8 and held.dtype is weft.float32
    )
    held[0] = 4
    assert held[0] == 4


def test_set() -> None:
    base = weft.arange(6.0)
    x = weft.zeros(6)
    assert x.set_(base, 1, (2, 2), (2, 1)).tolist() == [[1, 2], [3, 4]]
    x.zero_()
    assert base.tolist() == [0, 0, 0, 0, 0, 5]
    assert x.set_(base.untyped_storage(), 1, (2, 2)).stride() == (2, 1)
    assert x.set_(base) is x and x.is_set_to(base) and not x.is_set_to(base[1:])
    assert x.set_().shape == (0,)
    refuses(
        RuntimeError,
        "Could not set tensor of type long int to a tensor of type float",
        lambda: x.set_(weft.arange(2)),
    )


def test_resize() -> None:
    x = weft.arange(6.0)
    pointer = x.data_ptr()
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]] and x.data_ptr() == pointer and x._version == 1
    assert x.resize_(6).tolist() == [0, 1, 2, 3, 4, 5]
    assert x.resize_(8)[:6].tolist() == [0, 1, 2, 3, 4, 5] and x.shape == (8,)
    assert weft.zeros(2).resize_as_(weft.zeros(3, 3)).shape == (3, 3)
    assert weft.zeros(2, device="meta").resize_(5).shape == (5,)
    refuses(
        RuntimeError,
        "cannot resize variables that require grad",
        lambda: weft.ones(2, requires_grad=True).resize_(3),
    )
    refuses(RuntimeError, "negative dimension", lambda: weft.ones(2).resize_(-1))
    held = x.untyped_storage()
    assert held.resize_(64).nbytes() == 64 and x.untyped_storage().nbytes() == 64
    assert x[:6].tolist() == [0, 1, 2, 3, 4, 5]


def test_sharing_between_processes_is_a_no_op() -> None:
    x = weft.ones(2)
    assert x.share_memory_() is x and not x.is_shared() and not x.is_pinned()
    refuses(RuntimeError, "Cannot access accelerator device", x.pin_memory)


def test_data_has_its_own_version() -> None:
    x = weft.ones(2, requires_grad=True)
    x.data.zero_()
    assert x.tolist() == [0, 0] and x._version == 0 and x.data.untyped_storage() == x.untyped_storage()


def test_meta_storage() -> None:
    held = weft.zeros(3, device="meta").untyped_storage()
    assert held.nbytes() == 12 and held.data_ptr() == 0 and held.device.type == "meta"


def test_sizes_of_storages_count_their_bytes() -> None:
    x = weft.zeros(100)
    storage = x.untyped_storage()
    assert sys.getsizeof(storage) - sys.getsizeof(weft.UntypedStorage(0)) == 400
    assert storage.__sizeof__() - object.__sizeof__(storage) == 400
    with pytest.warns(UserWarning, match="TypedStorage is deprecated"):
        typed = x.storage()
    assert typed.__sizeof__() - object.__sizeof__(typed) == 400


def test_memory_of_arrays_is_not_resized() -> None:
    """The array would not see what is written to the tensor from then on."""
    array = np.arange(6.0)
    text = "Trying to resize storage that is not resizable"
    lent = (
        weft.from_numpy(array),
        weft.from_numpy(array[2:]),
        weft.frombuffer(bytearray(48), dtype=weft.int64),
    )
    for x in lent:
        assert not x.untyped_storage().resizable()
        refuses(RuntimeError, text, lambda x=x: x.resize_(9))
        refuses(RuntimeError, text, lambda x=x: x.untyped_storage().resize_(8))
    x = weft.from_numpy(array)
    x.resize_(2, 2)[0, 0] = 9
    assert array[0] == 9
    assert weft.tensor(array).resize_(9).shape == (9,) and x.clone().resize_(9).shape == (9,)


def grown(how: str) -> tuple[Any, Any, Any]:
    """A base and two views of its memory, one of which outgrew it."""
    base = weft.arange(6.0)
    view, sibling = base[2:4], base.detach()[5:]
    if how == "resize_":
        view.resize_(8)
    elif how == "resize_as_":
        view.resize_as_(weft.zeros(8))
    elif how == "out":
        with pytest.warns(UserWarning, match="was resized"):
            weft.add(weft.arange(2.0, 10.0), 0, out=view)
    else:
        view.untyped_storage().resize_(40)
        view.resize_(8)
    return base, view, sibling


@pytest.mark.filterwarnings("ignore:weft.compile built programs for 3 values")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("how", ["resize_", "resize_as_", "out", "storage"])
def test_memory_that_grows_takes_all_along_that_lie_in_it(how: str, compiled: bool) -> None:
    function = weft.compile(grown) if compiled else grown
    base, view, sibling = function(how)
    assert (base.tolist(), view[:4].tolist(), sibling.tolist()) == ([0, 1, 2, 3, 4, 5], [2, 3, 4, 5], [5])
    assert view.shape == (8,) and view.storage_offset() == 2 and view._base is base
    assert {x.untyped_storage().nbytes() for x in (base, view, sibling)} == {40}
    view.fill_(7)
    assert (base.tolist(), sibling.tolist()) == ([0, 1, 7, 7, 7, 7], [7])
    sibling.fill_(9)
    assert (base[5].item(), view[3].item()) == (9, 9)


def test_views_follow_a_base_that_grows() -> None:
    base = weft.arange(6.0)
    view, held = base.view(2, 3)[:, 1], base.untyped_storage()
    base.resize_(20).fill_(3)
    assert view.tolist() == [3, 3] and held.nbytes() == 80
    view.fill_(1)
    assert base[:6].tolist() == [3, 1, 3, 3, 1, 3]


def test_outputs_are_resized_in_their_memory() -> None:
    base = weft.arange(6.0)
    out, pointer = base[1:3], base.data_ptr()
    with pytest.warns(UserWarning, match="was resized"):
        weft.add(weft.zeros(3), 1, out=out)
    assert base.tolist() == [0, 1, 1, 1, 4, 5] and out.tolist() == [1, 1, 1]
    with pytest.warns(UserWarning, match="was resized"):
        weft.neg(weft.ones(2), out=base)
    assert base.tolist() == [-1, -1] and base.data_ptr() == pointer and out.tolist() == [-1, 1, 1]
    lent = weft.from_numpy(np.ones(2, np.float32))
    with (
        pytest.warns(UserWarning, match="was resized"),
        pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"),
    ):
        weft.add(weft.zeros(3), 1, out=lent)


def test_memory_of_one_tensor_grows_without_a_look_at_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwanted(root: Any) -> Any:
        raise AssertionError("all objects were asked")

    monkeypatch.setattr(storage, "_tensors_in", unwanted)
    x = weft.arange(3.0)
    x.resize_(5).resize_(9)
    weft.exp(weft.zeros(4), out=weft.empty(0))
    y = weft.empty(0)
    weft.exp(weft.zeros(4), out=y)
    y.resize_(7)
    assert x[:3].tolist() == [0, 1, 2] and y[:4].tolist() == [1, 1, 1, 1]


def test_a_storage_that_was_emptied_and_filled_again_is_under_the_same_tensors() -> None:
    """As sharded training frees parameters and gets them back."""
    x = weft.arange(6.0)
    view, weight = x.view(2, 3), weft.nn.Parameter(weft.ones(6))
    loss = (weight * weight).sum()
    for tensor in (x, weight):
        tensor.untyped_storage().resize_(0)
        held = tensor.untyped_storage()
        assert held.nbytes() == held.data_ptr() == 0 and tensor.shape == (6,) and tensor._version == 0
        held.resize_(24)
    x.copy_(weft.arange(6.0) * 2)
    assert view.tolist() == [[0, 2, 4], [6, 8, 10]] and view.data_ptr() == x.data_ptr()
    weight.data.fill_(3)
    loss.backward()
    assert weight.grad.tolist() == [6] * 6


def test_storages_of_elements_are_resized_by_elements() -> None:
    x = weft.arange(6)
    with pytest.warns(UserWarning, match="TypedStorage is deprecated"):
        assert x.storage().resize_(2).size() == 2
    assert x.untyped_storage().nbytes() == 16 and x[:2].tolist() == [0, 1]
    x.untyped_storage().resize_(80)
    assert x.tolist()[:2] == [0, 1] and x.untyped_storage().nbytes() == 80
    key = id(x.untyped_storage().root)
    x.untyped_storage().resize_(0)
    assert key in storage._SHORTENED
    del x
    assert key not in storage._SHORTENED


def test_storages_from_files(tmp_path: Any) -> None:
    """Bytes of a file as memory: writes reach it where it is shared; tensors lie on it."""
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(16)))
    own = weft.UntypedStorage.from_file(str(path), False, 16)
    values = weft.asarray(own, dtype=weft.uint8)
    assert values.tolist() == list(range(16)) and own.nbytes() == 16
    values[0] = 9
    assert own[0] == 9 and path.read_bytes()[0] == 0
    shared = weft.UntypedStorage.from_file(str(path), True, 16)
    weft.asarray(shared, dtype=weft.uint8)[0] = 7
    assert path.read_bytes()[0] == 7
    assert weft.UntypedStorage.from_file(str(tmp_path / "new"), True, 8).nbytes() == 8
