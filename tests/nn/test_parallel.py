"""Modules on many devices, where there is one."""

from __future__ import annotations

import pytest

import weft
from weft.nn.parallel import DataParallel, DistributedDataParallel


def test_one_device_runs_the_module():
    layer = weft.nn.Linear(2, 1)
    spread = DataParallel(layer)
    assert weft.equal(spread(weft.ones(1, 2)), layer(weft.ones(1, 2)))
    assert list(spread.state_dict()) == ["module.weight", "module.bias"]


def test_many_processes_are_not_there():
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        DistributedDataParallel(weft.nn.Linear(1, 1))
    import weft.distributed as distributed

    assert not distributed.is_available() and not distributed.is_initialized()
    with pytest.raises(RuntimeError, match="Weft runs in one process"):
        distributed.init_process_group("gloo")
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        distributed.get_rank()
