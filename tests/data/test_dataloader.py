"""The loader: the same batches with and without workers, errors that travel, workers that end."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import weft
from weft.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, get_worker_info

TWO = [{"num_workers": 2}, {"num_workers": 2, "threads": True}]
ALL = [{}, *TWO]


def name_of(options):
    return "threads" if "threads" in options else "processes" if options else "here"


each_way = pytest.mark.parametrize("options", ALL, ids=name_of)
each_worker = pytest.mark.parametrize("options", TWO, ids=name_of)


class Odd(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


class Failing(Dataset):
    def __init__(self, error, at=5):
        self.error, self.at = error, at

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == self.at:
            raise self.error
        return index


class Stream(IterableDataset):
    """Numbers, shared out among workers; so many of them."""

    def __init__(self, size, length=None):
        self.size, self.length = size, length

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.size, step))

    def __len__(self):
        return self.size if self.length is None else self.length


class Told(Dataset):
    """What a worker knows, and draws."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        info = get_worker_info()
        draws = (random.random(), float(np.random.rand()), weft.rand(()).item())
        return info.id, info.num_workers, info.seed, info.dataset is self, weft.get_num_threads(), draws


class Slow(Dataset):
    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 4

    def __getitem__(self, index):
        time.sleep(self.seconds[index])
        return index


class Dying(Dataset):
    def __init__(self, how):
        self.how = how

    def __len__(self):
        return 4

    def __getitem__(self, index):
        if index == 2:
            os.kill(os.getpid(), signal.SIGKILL) if self.how == "kill" else os._exit(3)
        return index


class Compiled(Dataset):
    """Its samples come from compiled code, of the parent and of its own."""

    def __init__(self):
        self.function = weft.compile(lambda x: (x * 2).sin().sum())
        self.function(weft.ones(64))

    def __len__(self):
        return 2

    def __getitem__(self, index):
        x = weft.full((64,), float(index))
        return self.function(x) + (weft.ones(40, 40) @ weft.ones(40, 40)).sum()


def batches(loader):
    return [batch.tolist() for batch in loader]


@each_way
def test_order_and_batches(options):
    assert batches(DataLoader(range(5), 2, **options)) == [[0, 1], [2, 3], [4]]
    assert batches(DataLoader(range(5), 2, drop_last=True, **options)) == [[0, 1], [2, 3]]
    assert list(DataLoader(range(3), None, **options)) == [0, 1, 2]
    assert batches(DataLoader(range(9), sampler=[4, 2], **options)) == [[4], [2]]
    assert batches(DataLoader(range(9), batch_sampler=[[4, 2], [7]], **options)) == [[4, 2], [7]]
    assert list(DataLoader(range(3), 2, collate_fn=tuple, **options)) == [(0, 1), (2,)]
    assert batches(DataLoader([], 2, **options)) == []


@each_way
def test_a_seed_decides_the_order(options):
    def run():
        return batches(
            DataLoader(range(20), 3, shuffle=True, generator=weft.Generator().manual_seed(4), **options)
        )

    found = run()
    assert sorted(itertools.chain(*found)) == list(range(20)) != list(itertools.chain(*found))
    assert found == run()
    here = DataLoader(range(20), 3, shuffle=True, generator=weft.Generator().manual_seed(4))
    assert found == batches(here) != batches(here)


@hypothesis.settings(max_examples=25)
@hypothesis.given(
    st.integers(0, 25),
    st.integers(1, 7),
    st.booleans(),
    st.integers(1, 4),
    st.integers(1, 3),
    st.booleans(),
    st.integers(0, 9),
)
def test_workers_give_what_the_loader_alone_gives(size, batch, drop, workers, ahead, shuffle, seed):
    data = TensorDataset(weft.arange(size * 2).reshape(size, 2), weft.arange(size))

    def found(**options):
        generator = weft.Generator().manual_seed(seed)
        chosen = {"shuffle": True, "generator": generator} if shuffle and size else {}
        loader = DataLoader(data, batch, drop_last=drop, **chosen, **options)
        made = [[part.tolist() for part in each] for each in loader]
        assert len(made) == len(loader)
        return made

    alone = found()
    assert alone == found(num_workers=workers, threads=True, prefetch_factor=ahead)
    flat = Counter(itertools.chain(*(labels for _, labels in alone)))
    assert max(flat.values(), default=1) == 1
    assert len(flat) == (size // batch * batch if drop else size)
    unordered = found(num_workers=workers, threads=True, in_order=False)
    assert sorted(unordered) == sorted(alone)


@hypothesis.settings(max_examples=20)
@hypothesis.given(st.integers(0, 20), st.integers(1, 5), st.integers(1, 4), st.booleans())
def test_streams_are_given_whole(size, batch, workers, in_order):
    loader = DataLoader(Stream(size), batch, num_workers=workers, threads=True, in_order=in_order)
    assert sorted(itertools.chain(*batches(loader))) == list(range(size))


@each_way
def test_streams(options):
    assert sorted(itertools.chain(*batches(DataLoader(Stream(7), 2, **options)))) == list(range(7))
    dropped = batches(DataLoader(Stream(7), 2, drop_last=True, **options))
    assert all(len(each) == 2 for each in dropped)
    assert sorted(DataLoader(Stream(3), None, **options)) == [0, 1, 2]
    assert len(DataLoader(Stream(7), 2)) == 4 and len(DataLoader(Stream(7), 2, drop_last=True)) == 3
    loader = DataLoader(Stream(3, length=2), None, **options)
    assert len(loader) == 2
    with pytest.warns(
        UserWarning, match=r"reported to be 2\(when accessing len\(dataloader\)\), but 3 samples"
    ):
        list(loader)


def test_gathered_batches_are_those_of_single_rows():
    data = TensorDataset(weft.randn(6, 3), weft.arange(6, dtype=weft.int16))
    for chosen in (data, Subset(data, [5, 0, 3])):
        quick = list(DataLoader(chosen, 2))
        slow = list(DataLoader(chosen, 2, collate_fn=lambda rows: weft.data.default_collate(rows)))
        for one, two in zip(quick, slow, strict=True):
            assert type(one) is type(two) is list
            assert all(weft.equal(a, b) and a.dtype is b.dtype for a, b in zip(one, two, strict=True))
    with pytest.raises(IndexError):
        list(DataLoader(data, 2, sampler=[7]))
    leaf = TensorDataset(weft.ones(2, requires_grad=True))
    (batch,) = next(iter(DataLoader(leaf, 2)))
    assert batch.requires_grad


@each_worker
def test_workers_know_themselves(options):
    def run(seed):
        loader = DataLoader(Told(), None, generator=weft.Generator().manual_seed(seed), **options)
        return list(loader)

    found = run(1)
    assert get_worker_info() is None
    assert [each[:2] for each in found] == [[0, 2], [1, 2], [0, 2], [1, 2]]
    assert found[1][2] == found[0][2] + 1 and all(each[3] for each in found)
    assert [each[2] for each in run(1)] == [each[2] for each in found] != [each[2] for each in run(2)]
    if "threads" not in options:
        assert [each[4] for each in found] == [1] * 4
        assert [each[5] for each in found] == [each[5] for each in run(1)]
        assert len({each[5][2] for each in found}) == 4


def test_processes_leave_the_parents_randomness_alone():
    weft.manual_seed(0)
    expected = (weft.empty((), dtype=weft.int64).random_(), weft.rand(()).item())[1]
    weft.manual_seed(0)
    list(DataLoader(Told(), None, num_workers=1))
    assert weft.rand(()).item() == expected


def test_worker_info_is_fixed():
    from weft.data.worker import WorkerInfo

    info = WorkerInfo(id=1, num_workers=2)
    assert repr(info) == "WorkerInfo(id=1, num_workers=2)"
    with pytest.raises(RuntimeError, match="^Cannot assign attributes to WorkerInfo objects$"):
        info.id = 2


@each_worker
def test_errors_travel(options):
    kind = "thread" if "threads" in options else "process"
    for error in (ValueError("wrong"), KeyError("wrong"), StopIteration("wrong")):
        iterator = iter(DataLoader(Failing(error), 2, **options))
        assert [next(iterator).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
        with pytest.raises(type(error)) as caught:
            next(iterator)
        text = str(caught.value)
        assert text.startswith(
            f"Caught {type(error).__name__} in DataLoader worker {kind} 0.\nOriginal Traceback"
        )
        assert "in __getitem__\n    raise self.error" in text and "wrong" in text
        assert next(iterator).tolist() == [6, 7]  # as PyTorch: the others still come
    with pytest.raises(RuntimeError, match=r"^Caught Odd in DataLoader worker"):
        list(DataLoader(Failing(Odd(1, 2)), 2, **options))

    class Local(Exception):
        pass

    with pytest.raises(
        RuntimeError if kind == "process" else Local, match=r"^Caught Local in DataLoader worker"
    ):
        list(DataLoader(Failing(Local("x")), 2, **options))


@each_worker
def test_init_functions(options):
    told = []

    def note(number):
        told.append(number)
        weft.data.get_worker_info().dataset.tag = number * 10

    class Tagged(Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return self.tag

    found = batches(DataLoader(Tagged(), 1, worker_init_fn=note, **options))
    if "threads" in options:
        assert sorted(told) == [0, 1]
    else:
        assert told == [] and found == [[0], [10]]

    def fail(number):
        raise ValueError("cannot begin")

    with pytest.raises(ValueError, match="cannot begin"):
        list(DataLoader(Tagged(), 1, worker_init_fn=fail, **options))


@each_worker
def test_persistent_workers(options):
    loader = DataLoader(Stream(8), 2, persistent_workers=True, **options)
    first = iter(loader)
    next(first)
    for _ in range(3):
        iterator = iter(loader)
        assert iterator is first
        assert batches(iterator) == [[0, 2], [1, 3], [4, 6], [5, 7]]
        next(iter(loader))  # an epoch that is left in the middle


def test_workers_end():
    def count():
        gc.collect()
        return len(multiprocessing.active_children())

    loader = DataLoader(range(6), 2, num_workers=2)
    list(loader)
    assert count() == 0
    iterator = iter(loader)
    next(iterator)
    assert count() == 2
    del iterator
    assert count() == 0
    with pytest.raises(ValueError):
        list(DataLoader(Failing(ValueError("x"), 0), 2, num_workers=2))
    assert len(multiprocessing.active_children()) == 0  # without a collection
    large = iter(DataLoader([weft.zeros(300_000)] * 8, 1, num_workers=2))
    next(large)  # by now both are waiting to be read
    began = time.monotonic()
    del large
    assert count() == 0 and time.monotonic() - began < 4.9


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_a_worker_that_dies_is_reported(how):
    with pytest.raises(
        RuntimeError, match=r"^DataLoader worker \(pid\(s\) \d+\) exited unexpectedly$"
    ) as caught:
        list(DataLoader(Dying(how), 1, num_workers=1))
    reason = "is killed by signal: Killed" if how == "kill" else "exited unexpectedly with exit code 3"
    assert reason in str(caught.value.__cause__)


@each_worker
def test_timeouts(options):
    iterator = iter(DataLoader(Slow([0, 0, 1, 0]), 1, timeout=100, **options))
    assert next(iterator).tolist() == [0] and next(iterator).tolist() == [1]
    iterator._timeout = 0.1
    with pytest.raises(RuntimeError, match=r"^DataLoader timed out after 0\.1 seconds$"):
        next(iterator)


class Waiting(Dataset):
    """The first sample comes when all others have been fetched."""

    def __init__(self):
        self.others = multiprocessing.Semaphore(0)

    def __len__(self):
        return 4

    def __getitem__(self, index):
        for _ in range(3 if index == 0 else 0):
            self.others.acquire()
        if index:
            self.others.release()
        return index


@each_worker
def test_out_of_order(options):
    found = batches(DataLoader(Waiting(), 1, in_order=False, prefetch_factor=1, **options))
    assert found[:2] == [[1], [2]] and sorted(found) == [[0], [1], [2], [3]]


def test_what_cannot_travel_is_an_error_and_not_a_wait():
    class Box:
        pass

    with pytest.raises(
        (AttributeError, pickle.PicklingError, RuntimeError), match=r"Can't (pickle|get) local object"
    ):
        list(DataLoader([Box()], None, num_workers=1))


def test_forks_after_native_code_has_run():
    data = Compiled()
    expected = [data[index].item() for index in range(2)]
    assert [each.item() for each in DataLoader(data, None, num_workers=2)] == expected
    assert [data[index].item() for index in range(2)] == expected


def test_large_keys_and_large_batches_do_not_wait_for_each_other():
    keys = [list(range(1000)) * 40] * 6
    loader = DataLoader(
        range(1000), batch_sampler=keys, num_workers=1, collate_fn=lambda rows: bytes(400_000)
    )
    assert [len(each) for each in loader] == [400_000] * 6


def test_control_c_ends_all():
    source = (
        "import weft.data, time, signal, multiprocessing as m\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in the background
        "class D(weft.data.Dataset):\n"
        "    def __len__(self): return 100\n"
        "    def __getitem__(self, i): time.sleep(0.05); return i\n"
        "i = iter(weft.data.DataLoader(D(), 1, num_workers=2)); next(i)\n"
        "print(*(p.pid for p in m.active_children()), flush=True)\n"
        "for _ in i: pass\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", source],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    children = [int(pid) for pid in process.stdout.readline().split()]
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=20)
    assert error.rstrip().endswith("KeyboardInterrupt") and error.count("Traceback") == 1
    assert len(children) == 2
    for pid in children:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, "prefetch_factor option could only be specified in multiprocessing"),
        ({"num_workers": 1, "prefetch_factor": -2}, "prefetch_factor option should be non-negative"),
        ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
        ({"sampler": [1], "shuffle": True}, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": [[1]], "batch_size": 2}, "batch_sampler option is mutually exclusive with"),
        ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching"),
        ({"multiprocessing_context": "fork"}, "can only be used with multi-process loading"),
        ({"num_workers": 1, "multiprocessing_context": "x"}, "should specify a valid start method in"),
        ({"dataset": Stream(1), "shuffle": True}, "expected unspecified shuffle option"),
        ({"dataset": Stream(1), "sampler": [1]}, "expected unspecified sampler option"),
        ({"dataset": Stream(1), "batch_sampler": [1]}, "expected unspecified batch_sampler option"),
        ({"batch_size": 0}, "batch_size should be a positive integer value"),
    ],
)
def test_what_is_refused(options, text):
    with pytest.raises(ValueError, match=text):
        DataLoader(**{"dataset": range(3), **options})


def test_facts_of_a_loader():
    loader = DataLoader(range(3), 2)
    with pytest.raises(
        ValueError, match="batch_size attribute should not be set after DataLoader is initialized"
    ):
        loader.batch_size = 3
    assert batches(pickle.loads(pickle.dumps(loader))) == [[0, 1], [2]]
    with pytest.raises(NotImplementedError):
        pickle.dumps(iter(loader))
    with pytest.raises(TypeError, match="multiprocessing_context option should be a valid context object"):
        DataLoader(range(3), num_workers=1, multiprocessing_context=3)
    with pytest.warns(UserWarning, match="This DataLoader will create 9999 worker processes in total"):
        DataLoader(range(3), num_workers=9999)
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accelerator is found"):
        list(DataLoader(range(3), pin_memory=True))
    with pytest.raises(AssertionError):
        list(DataLoader(range(3), timeout=1))


def test_workers_whose_stream_is_over_end_early():
    class Uneven(IterableDataset):
        def __iter__(self):
            return iter(range(1 if get_worker_info().id == 0 else 6))

    iterator = iter(DataLoader(Uneven(), None, num_workers=2, prefetch_factor=1))
    found = [next(iterator) for _ in range(4)]
    first, second = iterator._workers
    first.join(10)
    assert not first.is_alive() and second.is_alive()
    assert sorted(found + list(iterator)) == [0, 0, 1, 2, 3, 4, 5]
    assert not second.is_alive()


def test_names_of_pytorch():
    from weft.utils.data import _utils, dataloader

    assert isinstance(iter(DataLoader([1])), dataloader._SingleProcessDataLoaderIter)
    assert issubclass(dataloader._MultiProcessingDataLoaderIter, dataloader._BaseDataLoaderIter)
    assert _utils.collate.default_collate is weft.data.default_collate and _utils.MP_STATUS_CHECK_INTERVAL > 0
    assert weft.utils.data._DatasetKind.Iterable == 1 and _utils.worker.get_worker_info is get_worker_info


def test_large_memory_travels_whole():
    base = weft.arange(60_000.0).reshape(200, 300)
    sample = {
        "base": base,
        "row": base[7],
        "turned": base.t(),
        "array": np.arange(50_000),
        "columns": np.asfortranarray(np.arange(20_000.0).reshape(100, 200)),
        "half": base.to(weft.bfloat16),
        "small": weft.ones(2),
        "again": [base],
    }
    found = list(DataLoader([sample] * 3, None, num_workers=2, collate_fn=lambda sample: sample))
    for each in found:
        for name in ("base", "row", "turned", "half", "small"):
            assert weft.equal(each[name], sample[name]) and each[name].stride() == sample[name].stride()
        assert all(np.array_equal(each[name], sample[name]) for name in ("array", "columns"))
        assert each["again"][0] is each["base"]
        each["base"][7] = -1.0
        assert each["row"][0] == -1 and each["turned"][0, 7] == -1
        each["array"][0] = 5  # it is ours to write to
    assert base[7, 0] == 2100
