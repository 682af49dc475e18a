"""The side of the loader in a loader with workers: who has which task, and what has come back.

Takes a loader; gives an iterator. One idea: a worker is known by two things, how to send it a task and what
to wait for; whether it is a process or a thread is a matter of these alone.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
import sys
import threading
import time
import warnings
from multiprocessing.connection import wait
from multiprocessing.reduction import ForkingPickler
from typing import Any

import weft.data.worker as worker
from weft.core.interrupts import let_through
from weft.core.threads import start
from weft.data.iterators import BaseIterator
from weft.data.worker import CHECK_SECONDS, ENDED, FAILED, Failure, Orders


class Threads:
    """Workers that are threads of this process."""

    def __init__(self, loader: Any, orders: Orders) -> None:
        self.results: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.latest = [-1]
        self.lines = [worker.Line(self.results) for _ in range(orders.num_workers)]
        for number, line in enumerate(self.lines):
            given = (number, orders, line, self.latest)
            start(threading.Thread(target=worker.run_thread, args=given, daemon=True))

    def send(self, number: int, task: Any) -> None:
        self.latest[0] = max(self.latest[0], task[0])
        self.lines[number].tasks.put(task)

    def receive(self, seconds: float | None) -> Any:
        """(worker, epoch, task, kind, content), or None when time is up."""
        try:
            return self.results.get(timeout=seconds)
        except queue.Empty:
            return None

    def retire(self, number: int) -> None:
        """Lets a worker go that has nothing left to do."""
        self.lines[number].tasks.put(None)

    def close(self) -> None:
        """Threads end by themselves after what they are doing."""
        self.latest[0] = 2**63
        for line in self.lines:
            line.tasks.put(None)


class Processes:
    """Workers that are processes."""

    def __init__(self, loader: Any, orders: Orders) -> None:
        context = loader.multiprocessing_context or multiprocessing.get_context()
        self.owner = os.getpid()
        self.pipes: list[Any] = []
        self.processes: list[Any] = []
        self.ready: list[Any] = []
        self.active: list[Any] = []
        try:
            for number in range(orders.num_workers):
                self._start(context, number, orders)
        except BaseException:
            self.close()
            raise

    def _start(self, context: Any, number: int, orders: Orders) -> None:
        ours, theirs = context.Pipe(duplex=True)
        worker.parents_ends.add(ours)
        self.pipes.append(ours)
        self.active.append(ours)
        process = context.Process(
            target=worker.run_process, args=(number, orders, theirs, os.getpid()), daemon=True
        )
        with warnings.catch_warnings():
            # Weft's own threads are ready for forks: their pool is made anew in the child.
            warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
            process.start()
        self.processes.append(process)
        theirs.close()

    def send(self, number: int, task: Any) -> None:
        try:
            self.pipes[number].send_bytes(worker.packed(task))
        except (BrokenPipeError, ConnectionResetError) as error:
            let_through(error)
            self._report([number])

    def receive(self, seconds: float | None) -> Any:
        """(worker, epoch, task, kind, content), or None when time is up."""
        if not self.ready:
            self.ready = wait(self.active, seconds)
            if not self.ready:
                return None
        pipe: Any = self.ready.pop()
        number = self.pipes.index(pipe)
        try:
            header = ForkingPickler.loads(pipe.recv_bytes())
            body = pipe.recv_bytes()
            large = [worker.receive_raw(pipe, size) for size in header[3]]
        except (
            EOFError,
            OSError,
        ) as error:  # also a TimeoutError of a handler, who waits for no batch any more
            let_through(error)
            self._report([number])
        epoch, task, kind, _ = header
        try:
            content = ForkingPickler.loads(body, buffers=large)
        except Exception as error:
            let_through(error)
            where = f"while receiving from DataLoader worker process {number}"
            kind, content = FAILED, Failure(error, where)
        return number, epoch, task, kind, content

    def retire(self, number: int) -> None:
        """Lets a worker go that has nothing left to do."""
        self.active.remove(self.pipes[number])
        self.ready = [pipe for pipe in self.ready if pipe is not self.pipes[number]]
        try:
            self.pipes[number].send_bytes(worker.packed(None))
        except OSError as error:
            let_through(error)

    def _report(self, numbers: list[int]) -> None:
        """Raises what PyTorch does when workers have died."""
        found = [self.processes[number] for number in numbers]
        for process in found:
            process.join(1)
        found += [each for each in self.processes if each not in found and not each.is_alive()]
        pids = ", ".join(str(process.pid) for process in found)
        code, pid = found[0].exitcode, found[0].pid
        if code is not None and code < 0:
            name = signal.strsignal(-code)
            reason = f"DataLoader worker (pid {pid}) is killed by signal: {name}. "
        else:
            reason = (
                f"DataLoader worker (pid {pid}) exited unexpectedly with exit code {code}. "
                "Details are lost due to multiprocessing. Rerunning with num_workers=0 may give better error "
                "trace."
            )
        text = f"DataLoader worker (pid(s) {pids}) exited unexpectedly"
        raise RuntimeError(text) from RuntimeError(reason)

    def close(self) -> None:
        """Ends the workers: asks first, then waits a while, then makes them."""
        if os.getpid() != self.owner:
            return  # a copy of the loader in a fork has no children
        for pipe in self.pipes:
            try:
                pipe.send_bytes(worker.packed(None))
            except (OSError, ValueError) as error:
                let_through(error)
            pipe.close()
        until = time.monotonic() + CHECK_SECONDS
        for process in self.processes:
            process.join(max(0.0, until - time.monotonic()))
        for process in self.processes:
            if process.is_alive():
                process.terminate()
                process.join(1)
            if process.is_alive():
                process.kill()
                process.join()
        self.pipes = self.active = self.ready = []


class WorkersIterator(BaseIterator):
    """Hands out batches that workers fetch ahead of time."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._team: Any = None
        self._in_order = loader.in_order
        self._prefetch = loader.prefetch_factor or 0
        if self._prefetch <= 0:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        self._persistent = loader.persistent_workers
        self._epoch = -1
        orders = Orders(
            self._kind,
            loader.dataset,
            loader._auto_collation,
            loader.collate_fn,
            loader.drop_last,
            self._base_seed,
            loader.num_workers,
            loader.worker_init_fn,
        )
        try:
            self._team = (Threads if loader.threads else Processes)(loader, orders)
        except (AttributeError, pickle.PicklingError, TypeError) as error:
            if "pickle" in str(error):
                warnings.warn(
                    "Got pickle error when attempting to start a worker Process. This might be because the "
                    "worker Process arguments are not picklable. You can also try "
                    "multiprocessing.set_start_method('fork').",
                    stacklevel=4,
                )
            raise
        self._started = self._team
        self._begin()

    def _reset(self, loader: Any) -> None:
        super()._reset(loader)
        self._begin()

    def _begin(self) -> None:
        """A new epoch; answers to tasks of the last one will be thrown away."""
        self._epoch += 1
        self._sent = self._handed = 0
        self._whose: dict[int, int] = {}
        self._arrived: dict[int, tuple[str, Any]] = {}
        self._active = [True] * self._num_workers
        self._busy = [0] * self._num_workers
        self._turn = 0
        for number in range(self._num_workers):
            self._team.send(number, (self._epoch, None, None))
        for _ in range(self._prefetch * self._num_workers):
            if not self._send_next():
                break

    def _choose(self) -> int | None:
        """The worker whose turn it is, among those that have samples left and room for a task."""
        for step in range(self._num_workers):
            number: int = (self._turn + step) % self._num_workers
            if self._active[number] and (self._in_order or self._busy[number] < self._prefetch):
                return number
        return None

    def _send_next(self) -> bool:
        if sum(self._busy) >= self._prefetch * self._num_workers:
            return False
        number = self._choose()
        if number is None:
            return False
        try:
            keys = next(self._keys)
        except StopIteration:
            return False
        self._turn = number + 1
        self._whose[self._sent] = number
        self._busy[number] += 1
        self._team.send(number, (self._epoch, self._sent, keys))
        self._sent += 1
        return True

    def _next_data(self) -> Any:
        if self._team is None:
            raise StopIteration
        while True:
            found = self._ready()
            if found is not None:
                kind, content = found
                self._send_next()
                if kind == FAILED:
                    content.reraise()
                return content
            if not self._whose:
                if not self._persistent:
                    self._shutdown_workers()
                raise StopIteration
            self._take(self._receive())

    def _ready(self) -> tuple[str, Any] | None:
        """The next answer to hand out, if it is there."""
        if not self._in_order:
            return self._arrived.pop(next(iter(self._arrived))) if self._arrived else None
        while self._handed < self._sent:
            found = self._arrived.pop(self._handed, None)
            if found is None and self._handed in self._whose:
                return None
            self._handed += 1
            if found is not None:
                return found
        return None

    def _receive(self) -> Any:
        try:
            if self._timeout == 0:
                return self._team.receive(None)
            answer = self._team.receive(self._timeout)
        except RuntimeError:
            self._shutdown_workers()
            raise
        if answer is None:
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
        return answer

    def _take(self, answer: Any) -> None:
        number, epoch, task, kind, content = answer
        if epoch != self._epoch or task not in self._whose:
            return
        del self._whose[task]
        self._busy[number] -= 1
        if kind == ENDED:
            self._active[number] = False
            for other in [each for each, owner in self._whose.items() if owner == number]:
                del self._whose[other]  # a worker answers in order: nothing else will come of it
            self._busy[number] = 0
            if not self._persistent:
                self._team.retire(number)
            self._send_next()
        else:
            self._arrived[task] = (kind, content)

    @property
    def _workers(self) -> list[Any]:
        """The processes, if workers are processes."""
        return list(getattr(self._started, "processes", ()))

    def _shutdown_workers(self) -> None:
        team, self._team = self._team, None
        if team is not None:
            team.close()

    def __del__(self) -> None:
        if getattr(self, "_team", None) is not None and not sys.is_finalizing():
            self._shutdown_workers()
