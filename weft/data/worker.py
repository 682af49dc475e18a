"""Workers: processes or threads that fetch batches ahead of the loader.

Takes tasks (number, keys) and gives (number, kind, batch). One idea: each worker has a pipe of its own and
shares no lock with anybody, so that a worker that dies takes nothing along; a thread in each worker always
reads, so that no two sides ever wait for each other to read.

# Note [Messages]
To a worker: (epoch, number, keys) is a task; (epoch, None, None) begins an epoch; None ends the worker.
From a worker: a header (epoch, number, kind, sizes of large memory), then what the kind says: DATA a batch,
FAILED a `Failure`, ENDED nothing (the stream of this worker is over). Both parts are bytes, so that a batch
that cannot be unpickled spoils no other; then large memory, byte by byte.

# Note [Forks]
A worker that is forked has all files of its parent, among them the parent's ends of other workers' pipes. It
closes them: a pipe whose other end is closed must break.
"""

from __future__ import annotations

import io
import os
import pickle
import queue
import random
import signal
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final
from weakref import WeakSet

import numpy as np

from weft.core import threads
from weft.core.generator import default_generator
from weft.data.fetch import DatasetKind, IterableFetcher, MapFetcher
from weft.tensor.storage import UntypedStorage

__all__ = ["get_worker_info"]

LARGE: Final = 1 << 14
RAW: Final = hasattr(os, "readv")
"""From how many bytes on memory goes by itself, and whether it can go around the pipe's own messages."""
DATA, FAILED, ENDED = "data", "failed", "ended"
CHECK_SECONDS: Final = 5.0
"""How often a worker looks whether its parent lives, and how long a parent waits for workers to end."""


class WorkerInfo:
    """What a worker knows of itself: `id`, `num_workers`, `seed`, and `dataset`, its copy."""

    id: int
    num_workers: int
    seed: int
    dataset: Any

    def __init__(self, **kwargs: Any) -> None:
        self.__dict__.update(kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        raise RuntimeError(f"Cannot assign attributes to {type(self).__name__} objects")

    def __repr__(self) -> str:
        items = ", ".join(f"{name}={value}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({items})"


class _Here(threading.local):
    info: WorkerInfo | None = None


_here = _Here()
_in_process: list[WorkerInfo] = []


def get_worker_info() -> WorkerInfo | None:
    """What the worker that asks is; None outside of workers."""
    return _here.info or (_in_process[0] if _in_process else None)


class Packer(ForkingPickler):
    """Pickles that leave out large memory: it goes by itself, and is copied once on each side."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is UntypedStorage and value.bytes is not None and value.nbytes() >= LARGE:
            return received_storage, (pickle.PickleBuffer(value.bytes),)
        return NotImplemented


def received_storage(content: Any) -> UntypedStorage:
    """The storage of memory that was sent beside the pickle."""
    made = UntypedStorage(0)
    made._hold(np.asarray(content))
    return made


def packed(value: Any, large: list[Any] | None = None) -> bytes:
    """A value as bytes on their way to another process; `large` takes the memory that goes by itself."""
    file = io.BytesIO()
    if large is None:
        ForkingPickler(file, pickle.HIGHEST_PROTOCOL).dump(value)
        return file.getvalue()

    def aside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < LARGE:
            return True  # with the rest
        large.append(raw)
        return False

    Packer(file, pickle.HIGHEST_PROTOCOL, True, aside).dump(value)
    return file.getvalue()


def send_raw(pipe: Any, part: memoryview) -> None:
    """Sends bytes of which the other side knows how many there are."""
    if not RAW:
        pipe.send_bytes(part)
        return
    while part.nbytes:
        part = part[os.write(pipe.fileno(), part) :]


def receive_raw(pipe: Any, size: int) -> Any:
    """As many bytes, in an array of their own."""
    made = np.empty(size, np.uint8)
    view, done = memoryview(made.data), 0
    if not RAW:
        pipe.recv_bytes_into(view)
        return made
    while done < size:
        count = os.readv(pipe.fileno(), [view[done:]])
        if not count:
            raise EOFError
        done += count
    return made


class Failure:
    """An exception on its way from a worker: its class, if it can travel, and its traceback as text."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.kind: type[BaseException] | None = type(error)
        self.name = type(error).__name__
        self.text = "".join(traceback.format_exception(error))
        self.where = where

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        try:
            packed(self.kind)
        except Exception:
            state["kind"] = None
        return state

    def reraise(self) -> None:
        """Raises an exception of the original class, if one can be made from a text."""
        text: Any = f"Caught {self.name} {self.where}.\nOriginal {self.text}"
        if self.kind is None:
            raise RuntimeError(text)
        if self.kind is KeyError:
            text = _Plain(text)
        elif getattr(self.kind, "message", None):
            kind: Any = self.kind
            raise kind(message=text)
        try:
            error = self.kind(text)
        except Exception:
            raise RuntimeError(text) from None
        try:
            raise error
        finally:
            del error  # or it would be a cycle, which keeps workers alive until collected


class _Plain(str):
    """A text that a KeyError shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass
class Orders:
    """What every worker of a loader is told at its start."""

    kind: int
    dataset: Any
    auto_collation: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    base_seed: int
    num_workers: int
    worker_init_fn: Callable[[int], Any] | None


class Line:
    """A pair of queues between the loader and a worker that is a thread."""

    def __init__(self, results: queue.SimpleQueue[Any]) -> None:
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.results = results


def work(number: int, orders: Orders, where: str, tasks: Any, latest: list[int], give: Any) -> None:
    """Answers tasks until it gets None. `latest` holds the newest epoch: older tasks are left out."""
    failure: Failure | None = None
    fetcher: MapFetcher | IterableFetcher | None = None
    epoch = -1
    try:
        if orders.worker_init_fn is not None:
            orders.worker_init_fn(number)
    except Exception as error:
        failure = Failure(error, where)
    while (task := tasks.get()) is not None:
        task_epoch, task_number, keys = task
        if task_epoch < latest[0]:
            continue
        if task_epoch != epoch:
            epoch, fetcher = task_epoch, None
        if task_number is None:
            continue
        try:
            if failure is not None:
                raise _Known
            if fetcher is None:
                fetcher = DatasetKind.create_fetcher(
                    orders.kind, orders.dataset, orders.auto_collation, orders.collate_fn, orders.drop_last
                )
            give(epoch, task_number, DATA, fetcher.fetch(keys))
        except _Known:
            give(epoch, task_number, FAILED, failure)
            failure = None
        except Exception as error:
            if isinstance(error, StopIteration) and orders.kind == DatasetKind.Iterable:
                if fetcher is not None:
                    fetcher.ended = True
                give(epoch, task_number, ENDED, None)
            else:
                give(epoch, task_number, FAILED, Failure(error, where))


class _Known(Exception):
    """Something failed before."""


# -- threads -------------------------------------------------------------------------------------------------
def run_thread(number: int, orders: Orders, line: Line, latest: list[int]) -> None:
    """The life of a worker that is a thread. It shares the data set and all generators."""
    _here.info = WorkerInfo(
        id=number,
        num_workers=orders.num_workers,
        seed=orders.base_seed + number,
        dataset=orders.dataset,
    )

    def give(epoch: int, task: int, kind: str, content: Any) -> None:
        line.results.put((number, epoch, task, kind, content))

    work(number, orders, f"in DataLoader worker thread {number}", line.tasks, latest, give)


# -- processes -----------------------------------------------------------------------------------------------
parents_ends: WeakSet[Any] = WeakSet()
"""This process's ends of the pipes to its workers."""


def _forget_pipes() -> None:
    for end in list(parents_ends):
        try:
            end.close()
        except OSError:
            pass
    parents_ends.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pipes)  # see Note [Forks]


def run_process(number: int, orders: Orders, pipe: Any, parent: int) -> None:
    """The life of a worker that is a process."""
    # Control-C goes to the whole group of processes: the parent will end its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threads.ask(1)
    seed = orders.base_seed + number
    random.seed(seed)
    default_generator.manual_seed(seed)
    np.random.seed(np.random.SeedSequence([orders.base_seed, number]).generate_state(4))
    _in_process[:] = [
        WorkerInfo(id=number, num_workers=orders.num_workers, seed=seed, dataset=orders.dataset)
    ]
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    latest = [-1]
    ended = threading.Event()
    reader = threading.Thread(target=_read, args=(pipe, tasks, latest, ended, parent), daemon=True)
    reader.start()
    where = f"in DataLoader worker process {number}"

    def give(epoch: int, task: int, kind: str, content: Any) -> None:
        try:
            large: list[Any] = []
            body = packed(content, large)
        except Exception as error:
            kind, large, body = FAILED, [], packed(Failure(error, where))
        pipe.send_bytes(packed((epoch, task, kind, [part.nbytes for part in large])))
        pipe.send_bytes(body)
        for part in large:
            send_raw(pipe, part)

    try:
        work(number, orders, where, tasks, latest, give)
    except (BrokenPipeError, ConnectionResetError):
        pass  # nobody wants to know any more
    finally:
        ended.set()


def _read(pipe: Any, tasks: Any, latest: list[int], ended: threading.Event, parent: int) -> None:
    """Takes tasks from the pipe as they come. Where the parent has gone, the process ends at once."""
    while True:
        try:
            while not pipe.poll(CHECK_SECONDS):
                if os.getppid() != parent:
                    os._exit(1)
            task = pipe.recv()
        except (EOFError, OSError):
            task = None
        except Exception:  # keys that cannot be unpickled: nobody would get an answer
            traceback.print_exc()
            os._exit(1)
        if task is not None:
            latest[0] = max(latest[0], task[0])
        else:
            latest[0] = 2**63  # leave out what waits
        tasks.put(task)
        if task is None:
            return
