"""NumPy and DLPack: shared memory both ways, and what may not be shared."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft


def test_numpy_shares_memory_both_ways() -> None:
    array = np.arange(6.0).reshape(2, 3)
    tensor = weft.from_numpy(array)
    tensor.add_(1)
    assert array[0, 0] == 1
    tensor.t().numpy()[0, 0] = 9
    assert array[0, 0] == 9
    assert tensor.numpy() is not tensor.array  # whoever changes its shape does not change the tensor's


def test_storage_begins_with_the_array() -> None:
    part = np.arange(10, dtype=np.float32)[2:8:2]
    tensor = weft.from_numpy(part)
    assert tensor.storage_offset() == 0 and tensor.stride() == (2,) and tensor[1:].storage_offset() == 2
    assert weft.from_numpy(np.ones(4, ml_dtypes.bfloat16)[1:]).dtype is weft.bfloat16


def test_from_numpy_refuses() -> None:
    with pytest.raises(TypeError, match=r"expected np.ndarray \(got list\)"):
        weft.from_numpy([1])
    with pytest.raises(TypeError, match=r"expected np.ndarray \(got numpy.float32\)"):
        weft.from_numpy(np.float32(1))
    with pytest.warns(UserWarning, match="not writable"):
        weft.from_numpy(np.broadcast_to(np.arange(3), (2, 3)))


def test_numpy_refuses_gradients_and_meta() -> None:
    leaf = weft.ones(2, requires_grad=True)
    for call in (leaf.numpy, lambda: np.asarray(leaf), lambda: np.multiply(leaf, 2)):
        with pytest.raises(RuntimeError, match=r"Use tensor.detach\(\).numpy\(\) instead."):
            call()
    assert leaf.numpy(force=True).tolist() == leaf.detach().numpy().tolist() == [1, 1]
    with pytest.raises(TypeError, match="can't convert meta device type tensor to numpy"):
        weft.ones(2, device="meta").numpy()


def test_array_protocol() -> None:
    tensor = weft.arange(3)
    assert np.asarray(tensor).ctypes.data == tensor.data_ptr()
    assert np.array(tensor).ctypes.data != tensor.data_ptr()
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        np.asarray(tensor, dtype=np.float64, copy=False)
    assert np.concatenate([tensor, tensor]).tolist() == [0, 1, 2, 0, 1, 2]


def test_ufuncs_and_numpy_scalars_give_tensors() -> None:
    tensor = weft.ones(2)
    for made in (np.add(tensor, 1), np.float32(2) * tensor, tensor * np.float32(2), np.float64(2) * tensor):
        assert isinstance(made, weft.Tensor) and made.tolist() == [2, 2]
    assert (tensor * np.float64(2)).dtype is weft.float32
    assert isinstance(np.sin(tensor), weft.Tensor) and np.less(tensor, 2).dtype is weft.bool
    with pytest.raises(TypeError):
        np.ones(2) * tensor


def test_dlpack_both_ways() -> None:
    tensor = weft.arange(6).reshape(2, 3).t()
    assert tensor.__dlpack_device__() == (1, 0)
    lent = np.from_dlpack(tensor)
    assert lent.ctypes.data == tensor.data_ptr() and lent.strides == tensor.numpy().strides
    back = weft.from_dlpack(lent)
    assert back.data_ptr() == tensor.data_ptr()
    assert (
        weft.from_dlpack(tensor.__dlpack__()).data_ptr()
        == weft.from_dlpack(weft.to_dlpack(tensor)).data_ptr()
    )
    assert weft.from_dlpack(tensor, copy=True).data_ptr() != tensor.data_ptr()
    back.add_(1)
    assert tensor[0, 0].item() == 1


def test_dlpack_refuses() -> None:
    with pytest.raises(BufferError, match="Can't export tensors that require gradient, use tensor.detach"):
        weft.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="Cannot pack tensors on meta"):
        weft.ones(2, device="meta").__dlpack__()
    with pytest.raises(AssertionError, match="stream should be None on cpu"):
        weft.ones(2).__dlpack__(stream=3)
    with pytest.raises(RuntimeError, match="invalid capsule"):
        weft.from_dlpack(3)


def test_frombuffer() -> None:
    buffer = bytearray(8)
    tensor = weft.frombuffer(buffer, dtype=weft.uint8, count=2, offset=3)
    tensor.fill_(7)
    assert list(buffer) == [0, 0, 0, 7, 7, 0, 0, 0]
    with pytest.raises(ValueError, match="must be a multiple of element size"):
        weft.frombuffer(bytearray(7), dtype=weft.float32)
    with pytest.raises(ValueError, match="must not be 0"):
        weft.frombuffer(bytearray(0), dtype=weft.float32)
    with pytest.raises(ValueError, match="must not be greater than actual buffer length"):
        weft.frombuffer(bytearray(8), dtype=weft.float32, count=3)
    with pytest.warns(UserWarning, match="not writable"):
        weft.frombuffer(b"abcd", dtype=weft.uint8)


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_compiled_frombuffer_shares_memory_with_bytes_made_inside(backend: str) -> None:
    def program() -> tuple[int, list[float]]:
        content = bytearray(8)
        tensor = weft.frombuffer(content, dtype=weft.float32)
        tensor[0] = 1
        content[7] = 0x40
        return content[3], tensor.tolist()

    compiled = weft.compile(program, backend=backend)
    assert program() == compiled() == compiled() == (0x3F, [1.0, 2.0])


@pytest.mark.parametrize("part", [lambda t: t, lambda t: t[1:3], lambda t: t.detach()])
def test_memory_that_numpy_has_seen_is_not_resizable(part: Any) -> None:
    tensor = weft.arange(6.0)
    part(tensor).numpy()
    assert not tensor.untyped_storage().resizable()
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        tensor.resize_(100)
    assert tensor.resize_(3).tolist() == [0.0, 1.0, 2.0]


def test_arrays_of_tensors_that_require_grad_are_given_where_nothing_is_recorded():
    x = weft.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        x.numpy()
    with weft.no_grad():
        array = x.numpy()
    array[0] = 3
    assert x.tolist() == [3.0, 1.0]


def test_files_are_memory(tmp_path):
    path = str(tmp_path / "numbers")
    shared = weft.from_file(path, True, 4, dtype=weft.float64)
    assert shared.tolist() == [0.0] * 4 and shared.dtype is weft.float64
    shared[1] = 5
    alone = weft.from_file(path, False, 3, dtype=weft.float64)
    assert alone.tolist() == [0.0, 5.0, 0.0]
    alone.mul_(2)
    shared.add_(1)
    assert np.fromfile(path).tolist() == [1.0, 6.0, 1.0, 1.0]
    assert alone.tolist() == [0.0, 10.0, 0.0]
    with pytest.raises(RuntimeError, match="smaller than the required mapping size <40>"):
        weft.from_file(path, False, 5, dtype=weft.float64)
    with pytest.raises(RuntimeError, match="unable to open file"):
        weft.from_file(str(tmp_path / "nothing"), size=1)
    assert weft.from_file(path).shape == (0,)
