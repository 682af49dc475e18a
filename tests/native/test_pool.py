"""Chunks of kernels on several threads: the same bits, whoever runs them."""

from __future__ import annotations

import threading

import numpy as np

import weft
import weft.nn.functional as F
from weft.native import pool


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
            assert used.threads == number and used.state[pool.THREADS] == (number if used.started else 1)
            assert not used.started or len(used.workers) >= number - 1
    finally:
        weft.set_num_threads(before)
