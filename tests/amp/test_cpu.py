"""The older spelling of mixed precision on the processor."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.amp import cpu


@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_products_run_in_half_precision(backend: str) -> None:
    def product(x: Any) -> Any:
        with cpu.autocast():
            return x @ x

    run = product if backend == "eager" else weft.compile(product, backend=backend)
    assert run(weft.ones(2, 2)).dtype is weft.bfloat16
    assert not weft.is_autocast_enabled("cpu")


@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
def test_scalers_take_the_scale_first() -> None:
    assert cpu.GradScaler(1024.0).get_scale() == 1024.0
    with pytest.warns(FutureWarning, match=r"Please use `weft.amp.GradScaler\('cpu', args...\)` instead"):
        cpu.GradScaler()
