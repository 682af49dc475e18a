"""Chunks of kernels on several threads: the same bits, whoever runs them."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft.core.threads import stack_asked_for
from weft.native.cpu import pool, pool_text
from weft.testing import assert_close


def program(x: weft.Tensor) -> weft.Tensor:
    return F.softmax(x * 2 + 1, -1).sum(-1) + x.amax(-1)


def test_threads_do_not_change_bits() -> None:
    compiled = weft.compile(program, backend="native", fullgraph=True)
    x = weft.randn(700, 300)
    results = []
    before = list(pool._pool)
    for threads in (1, 3):
        pool._pool[:] = [pool.Pool(threads)]
        results += [compiled(x).numpy() for _ in range(5)]
        pool._pool[0].close()
    pool._pool[:] = before
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


def test_programs_from_several_threads_at_once() -> None:
    compiled = weft.compile(program, backend="native", fullgraph=True)
    x = weft.randn(400, 300)
    expected = compiled(x).numpy()
    found: list[bool] = []

    def work() -> None:
        found.extend(bool((compiled(x).numpy() == expected).all()) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 80


def test_the_number_of_threads_that_was_asked_for() -> None:
    compiled = weft.compile(program, backend="native", fullgraph=True)
    x = weft.randn(700, 300)
    expected = compiled(x).numpy()
    before = weft.get_num_threads()
    try:
        for number in (1, 4, 2):
            weft.set_num_threads(number)
            np.testing.assert_array_equal(compiled(x).numpy(), expected)
            used = pool.pool()
            assert used.threads == number and used.state[pool_text.THREADS] == (number if used.started else 1)
            assert not used.started or len(used.workers) >= number - 1
    finally:
        weft.set_num_threads(before)


def test_nothing_is_taken_of_a_job_that_is_over() -> None:
    """A thread that comes late reads the numbers of the next job for those of the one that it saw."""
    used = pool.Pool(1)
    ran: list[int] = []
    kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3)(
        lambda record, buffers, outside, low, high, chunk: ran.append(chunk)
    )
    address = ctypes.cast(kernel, ctypes.c_void_p).value
    code = np.array([address, 0, 2, 2, pool_text.WORTH_WAKING, 0, 0, 0], np.uint64)
    numbers = [ctypes.c_void_p, *[ctypes.c_int64] * 2, *[ctypes.c_void_p] * 4]
    run = ctypes.CFUNCTYPE(ctypes.c_int64, *numbers)(used.run_address)
    used.state[pool_text.THREADS] = 2
    assert run(code.__array_interface__["data"][0], 0, 1, None, None, used.here, None) == 1
    assert ran == [0, 1]
    job = int(used.state[pool_text.COUNT])
    used.state[pool_text.JOB + 2 : pool_text.JOB + 4] = 5
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(used.loaded.address("share"))(used.here, job)
    assert ran == [0, 1]


@pytest.mark.parametrize("shortly", [False, True])
def test_threads_are_woken_where_there_was_work_shortly_before(
    shortly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first time, nobody is woken for a little work; later on, if that was not long ago."""
    if shortly:
        monkeypatch.setattr(pool_text, "SHORTLY", 2**63 - 1)
    used = pool.Pool(1)
    ran: list[int] = []
    kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3)(
        lambda record, buffers, outside, low, high, chunk: ran.append(chunk)
    )
    address = ctypes.cast(kernel, ctypes.c_void_p).value
    numbers = [ctypes.c_void_p, *[ctypes.c_int64] * 2, *[ctypes.c_void_p] * 4]
    run = ctypes.CFUNCTYPE(ctypes.c_int64, *numbers)(used.run_address)
    used.state[pool_text.THREADS], used.state[pool_text.ASLEEP] = 2, 1
    jobs = []
    for work in (pool_text.WORTH_SHARING - 1, pool_text.WORTH_SHARING, pool_text.WORTH_WAKING):
        code = np.array([address, 0, 2, 2, work, 0, 0, 0], np.uint64)
        assert run(code.__array_interface__["data"][0], 0, 1, None, None, used.here, None) == 1
        jobs.append(int(used.state[pool_text.COUNT]))
    assert ran == [0, 1] * 3
    assert jobs == ([0, 1, 2] if shortly else [0, 0, 1])


def test_threads_have_room_whatever_others_ask_for() -> None:
    before = threading.stack_size(1 << 16)
    held = list(pool._pool)
    try:
        pool._pool[:] = [pool.Pool(2)]
        made = weft.compile(lambda a, b: a @ b, backend="native", fullgraph=True)
        x = weft.randn(300, 600)
        for _ in range(20):
            assert_close(made(x, x.t()), x @ x.t(), rtol=1e-4, atol=1e-3)
        assert threading.stack_size() == 1 << 16 and pool._pool[0].workers
    finally:
        threading.stack_size(before)
        pool._pool[0].close()
        pool._pool[:] = held


def test_the_stack_that_users_ask_for_stays() -> None:
    before = threading.stack_size(1 << 23)
    try:
        weft.compile(lambda x: x * 2 + 40.5, backend="native", fullgraph=True)(weft.ones(3))
        assert stack_asked_for() == 1 << 23
    finally:
        threading.stack_size(before)
