"""The registry of array classes: which device an array is on, ways between devices, and who asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft
from tests.alien import ALIENS, Alien, Leak, aliens, registered
from weft.core.arrays import MODULES, as_array, is_array, namespace
from weft.core.devices import DEVICES, HOST, device_at, device_of, on_host, special_functions, transfer
from weft.ops.record import REGISTRY, type_of
from weft.tensor.base import storage_root, wrap


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with registered():
        yield


def far(*values: float, grad: bool = False) -> Any:
    return weft.tensor(values, dtype=weft.float64, device="cuda", requires_grad=grad)


def test_the_class_of_an_array_decides() -> None:
    array = aliens.asarray([1.0, 2.0])
    assert device_of(array) is ALIENS
    assert device_of(1.0, np.ones(2)) is HOST
    assert device_of(np.ones(2), array) is ALIENS
    assert namespace(array) is aliens and namespace(np.ones(2), array) is aliens
    assert namespace(np.float64(1)) is np and namespace(2.0) is np
    assert wrap(array).device == weft.device("cuda", 0)
    assert type_of(array).device == weft.device("cuda", 0)
    assert is_array(array) and is_array(np.ones(2)) and not is_array(1.0)
    assert as_array(array) is array and type(as_array(np.float64(1))) is np.ndarray


def test_what_is_forgotten_is_unknown() -> None:
    with registered():
        pass
    assert Alien not in DEVICES and Alien not in MODULES
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        weft.ones(2, device="cuda")


def test_devices_by_name() -> None:
    assert device_at(None) is HOST and device_at("cpu") is HOST
    assert device_at("cuda") is ALIENS and device_at(weft.device("cuda:0")) is ALIENS


def test_nothing_crosses_silently() -> None:
    array = aliens.asarray([1.0, 2.0])
    for attempt in (
        lambda: np.asarray(array),
        lambda: np.exp(array),
        lambda: np.stack([array]),
        lambda: np.ones(2) + array,
        lambda: array + np.ones(2),
        lambda: aliens.add(array, np.ones(2)),
        lambda: array[np.array([0])],
        lambda: array.__setitem__(0, np.ones(())),
    ):
        with pytest.raises(Leak):
            attempt()


def test_ways_across() -> None:
    there = transfer(np.arange(3.0), ALIENS)
    assert type(there) is Alien
    assert transfer(there, ALIENS) is there
    assert np.array_equal(transfer(there, HOST), np.arange(3.0))


def test_tensors_move_and_gradients_move_back() -> None:
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    y = x.to("cuda")
    assert type(y.array) is Alien and y.is_cuda and not y.is_cpu and y.get_device() == 0
    (y * y).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 4.0] and x.grad.device == weft.device("cpu")
    assert type(y.detach().cpu().array) is np.ndarray
    assert type(x.to("cuda", weft.float64).array) is Alien


def test_numpy_asks_for_a_copy() -> None:
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu()"):
        far(1.0).numpy()


def test_new_tensors_go_where_they_are_told() -> None:
    for made in (
        weft.zeros(2, device="cuda"),
        weft.arange(3, device="cuda"),
        weft.rand(2, device="cuda"),
        weft.hann_window(4, device="cuda"),
        weft.eye(2, device="cuda"),
        weft.zeros_like(weft.ones(2), device="cuda"),
        weft.as_tensor([1.0], device="cuda"),
    ):
        assert type(made.array) is Alien
    assert type(weft.zeros_like(far(1.0), device="cpu").array) is np.ndarray
    with weft.device("cuda"):
        assert type(weft.ones(2).array) is Alien
        assert type(weft.randn(2).array) is Alien


def test_draws_are_those_of_the_cpu() -> None:
    weft.manual_seed(3)
    here = weft.randn(5)
    weft.manual_seed(3)
    assert np.allclose(weft.randn(5, device="cuda").array.held, here.array, rtol=1e-6)


def test_devices_do_not_mix() -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        far(1.0, 2.0) + weft.ones(2)
    assert (far(1.0, 2.0) + 1).tolist() == [2.0, 3.0]


def test_copies_and_indices_cross() -> None:
    x = far(1.0, 2.0, 3.0)
    x.copy_(weft.tensor([4.0, 5.0, 6.0]))
    assert x.tolist() == [4.0, 5.0, 6.0]
    y = weft.zeros(3)
    y.copy_(x)
    assert y.tolist() == [4.0, 5.0, 6.0]
    assert x[[0, 2]].tolist() == [4.0, 6.0]
    x[1:] = 0.5
    assert x.tolist() == [4.0, 0.5, 0.5]
    x[[0]] = 7
    assert x.tolist() == [7.0, 0.5, 0.5]


def test_storages() -> None:
    x = far(1.0, 2.0, 3.0, 4.0)
    view = x[1:3]
    assert storage_root(view.array) is x.array
    assert view.storage_offset() == 1 and view.data_ptr() == x.data_ptr() + 8
    assert x.untyped_storage().nbytes() == 32 and x.untyped_storage().is_cuda
    assert x.as_strided((2,), (2,), 1).tolist() == [2.0, 4.0]
    x.resize_(6)
    assert type(x.array) is Alien and x[:4].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_text() -> None:
    assert repr(far(1.0, 2.5)) == "tensor([1.0000, 2.5000], device='cuda:0', dtype=weft.float64)"


def test_optimizers_step_there() -> None:
    for make in (weft.optim.SGD, weft.optim.Adam, weft.optim.AdamW):
        both = []
        for where in ("cpu", "cuda"):
            weight = weft.tensor([1.0, -2.0], device=where, requires_grad=True)
            optimizer = make([weight], lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                (weight * weight).sum().backward()
                optimizer.step()
            both.append(weight.tolist())
        assert np.allclose(*both)


def test_modules_train_there() -> None:
    losses = []
    for where in ("cpu", "cuda"):
        weft.manual_seed(0)
        model = weft.nn.Sequential(
            weft.nn.Linear(3, 4), weft.nn.ReLU(), weft.nn.LayerNorm(4), weft.nn.Linear(4, 2)
        )
        model.to(where)
        optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
        x = weft.arange(6.0).reshape(2, 3).to(where)
        for _ in range(3):
            optimizer.zero_grad()
            loss = weft.nn.functional.cross_entropy(model(x), weft.tensor([0, 1], device=where))
            loss.backward()
            optimizer.step()
        assert type(model[0].weight.array) is (Alien if where == "cuda" else np.ndarray)
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1])


def test_kernels_of_the_host_alone() -> None:
    @on_host
    def kernel(x: Any, factor: float) -> Any:
        assert type(x) is np.ndarray
        return x * factor, x.sum()

    product, total = kernel(aliens.asarray([1.0, 2.0]), 3.0)
    assert type(product) is Alien and product.tolist() == [3.0, 6.0] and float(total) == 3
    assert special_functions(np.ones(2)) is HOST.special
    assert type(special_functions(product).erf(product)) is Alien


def test_ufuncs_of_records_are_found_by_name() -> None:
    for op in REGISTRY.values():
        if isinstance(op.kernel, np.ufunc):
            assert ALIENS.ufunc(op.kernel).ufunc is op.kernel
            assert HOST.ufunc(op.kernel) is op.kernel
