"""Equal code is compiled once in a process, and by one process."""

from __future__ import annotations

import ctypes
import gc
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.core.settings import settings
from weft.native.cpu import engine
from weft.native.cpu.engine import NAME, Functions, Loaded, host
from weft.native.ir.kernels import Access, Kernel, Phase, Step, Store
from weft.native.ir.scalar import Builder
from weft.native.target import Uncompiled
from weft.testing import assert_close

ROOT = str(Path(weft.__file__).parents[1])


@pytest.fixture(autouse=True)
def cold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    engine.forget()
    gc.collect()
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What LLVM was asked to compile."""
    seen: list[str] = []
    real = engine.compiled

    def compiled(text: str, level: int) -> bytes:
        seen.append(text)
        return real(text, level)

    monkeypatch.setattr(engine, "compiled", compiled)
    return seen


def adding(number: float) -> Kernel:
    """A kernel that no program has: it adds nothing first."""
    builder = Builder()
    nothing = builder.sub(builder.const(7.25, "f32"), builder.const(7.25, "f32"))
    made = builder.add(builder.load(0, "f32"), builder.const(number, "f32"))
    made = builder.sub(made, nothing)
    accesses = (Access("f32", Step.ONE), Access("f32", Step.ONE, True))
    return Kernel(0, accesses, (Phase(builder.body(), (Store(made.place, 1),)),))


def ran(functions: Functions, name: str, values: list[float]) -> Any:
    given = np.array(values, np.float32)
    made = np.empty_like(given)
    record = np.array([len(given), 0, 0, 1, 1, 0, 1], np.int64)
    buffers = np.array([given.ctypes.data, made.ctypes.data], np.uint64)
    shape = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3)
    shape(functions.address(name))(record.ctypes.data, buffers.ctypes.data, None, 0, len(given), 0)
    return made


def test_equal_kernels_are_compiled_once(texts: list[str]) -> None:
    first, second = Functions(), Functions()
    names = [first.kernel(adding(1.0)), first.kernel(adding(2.0)), first.kernel(adding(1.0))]
    first.load()
    assert names[0] == names[2] != names[1]
    again = [second.kernel(adding(2.0)), second.kernel(adding(3.0))]
    second.load()
    assert [text.count("define") for text in texts] == [2, 1]
    assert first.address(names[1]) == second.address(again[0])
    assert ran(second, again[1], [1, 2, 3]).tolist() == [4, 5, 6]


def test_zeros_of_different_sign_are_different_kernels() -> None:
    assert adding(0.0) == adding(-0.0)
    functions = Functions()
    names = [functions.kernel(adding(0.0)), functions.kernel(adding(-0.0))]
    functions.load()
    signs = [np.signbit(ran(functions, name, [-0.0])).item() for name in names]
    assert signs == [False, True]


def test_layers_and_recompiles_share_code(texts: list[str]) -> None:
    def f(x: weft.Tensor, layers: int) -> weft.Tensor:
        for _ in range(layers):
            x = weft.softmax((x * 2).sin() + 1, -1)
            x = x.reshape(x.shape[1], x.shape[0]).t().contiguous()
        return x

    compiled = weft.compile(f, backend="native", fullgraph=True)
    x = weft.randn(8, 12)
    assert_close(compiled(x, 2), f(x, 2))
    before = sum(text.count("define") for text in texts)
    assert_close(compiled(x, 12), f(x, 12))
    assert sum(text.count("define") for text in texts) <= before + 2
    weft.compiler.reset()
    seen = len(texts)
    compiled(x, 2)
    assert len(texts) == seen


def test_code_on_disk_is_not_compiled_again(texts: list[str]) -> None:
    functions = Functions()
    name = functions.kernel(adding(5.0))
    functions.load()
    assert len(texts) == 1
    del functions
    engine.forget()
    gc.collect()
    again = Functions()
    assert again.kernel(adding(5.0)) == name and name in again.missing
    again.load()
    assert len(texts) == 1
    assert ran(again, name, [1.0]).tolist() == [6.0]


def test_damaged_code_on_disk_is_made_anew(texts: list[str], cold: Path) -> None:
    for turn in range(3):
        functions = Functions()
        name = functions.kernel(adding(6.0))
        functions.load()
        assert ran(functions, name, [1.0]).tolist() == [7.0]
        assert len(texts) == turn + 1
        (file,) = cold.iterdir()
        content = bytearray(file.read_bytes())
        content[200 + turn] ^= 16
        file.write_bytes(content)
        del functions
        engine.forget()
        gc.collect()


def test_levels_are_apart(texts: list[str]) -> None:
    slow, fast = Functions(0), Functions(2)
    for functions in (slow, fast):
        functions.kernel(adding(1.0))
        functions.load()
    assert len(texts) == 2


def modules() -> set[Any]:
    """The modules that live: those of other tests among them."""
    return set(engine._modules.values())


def test_code_lives_as_long_as_it_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "LIVING", 3)
    before = modules()
    held = Functions()
    name = held.kernel(adding(-1.0))
    held.load()
    for number in range(10):
        functions = Functions()
        functions.kernel(adding(float(number)))
        functions.load()
    del functions
    gc.collect()
    assert len(modules() - before) == 4
    assert ran(held, name, [1.0]).tolist() == [0.0]
    again = Functions()
    again.kernel(adding(-1.0))
    assert not again.missing


def test_threads_that_compile_at_once() -> None:
    results: list[Any] = []

    def work() -> None:
        functions = Functions()
        names = [functions.kernel(adding(float(number))) for number in range(8)]
        functions.load()
        results.append([ran(functions, name, [1.0]).item() for name in names])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[float(number + 1) for number in range(8)]] * 4


def test_functions_with_texts_of_their_own() -> None:
    functions = Functions()
    name = functions.text([f"define i64 @{NAME}(i64 %x) {{", "  ret i64 %x", "}"])
    functions.load()
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(functions.address(name))(7) == 7


# -- processes -----------------------------------------------------------------------------------------------
PROGRAM = """
import weft
from weft.native.program.cache import counts
f = lambda x: weft.softmax(x * 2, -1) @ x.t()
x = weft.ones(3, 4)
weft.testing.assert_close(weft.compile(f, backend="native")(x), f(x))
print(sorted(counts.items()))
"""


def process(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env={"PYTHONPATH": ROOT, **environment}, capture_output=True, text=True, timeout=120
    )


def test_a_second_process_compiles_nothing(cold: Path) -> None:
    first, second = (process(PROGRAM, WEFT_CACHE_DIR=str(cold)) for _ in range(2))
    assert (first.stderr, second.stderr) == ("", "")
    assert "written" in first.stdout and "found" not in first.stdout
    assert "object found" in second.stdout and "program found" in second.stdout
    assert "object missed" not in second.stdout and "program missed" not in second.stdout
    assert "written" not in second.stdout


def test_the_cache_can_be_switched_off(cold: Path) -> None:
    result = process(PROGRAM, WEFT_CACHE_DIR=str(cold), WEFT_CACHE="0")
    assert result.returncode == 0 and result.stderr == "" and not cold.exists()


def test_a_refused_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    result = process(PROGRAM, WEFT_CACHE_DIR=str(tmp_path / "open"))
    assert result.returncode == 0
    assert result.stderr == f"weft: the cache {tmp_path / 'open'} is not used: others may write it\n"
    assert list((tmp_path / "open").iterdir()) == []


REFUSED = """
import ctypes, warnings
assert ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0, "old kernel"  # no memory becomes code from now on
import weft
f = weft.compile(lambda x: weft.softmax(x * 2, -1) + 1, backend="native")
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for size in (3, 4, 5):
        x = weft.ones(3, size, requires_grad=True)
        f(x).sum().backward()
print(*[str(each.message) for each in seen], sep="\\n")
"""


def test_a_process_that_may_not_make_code(cold: Path) -> None:
    result = process(REFUSED, WEFT_CACHE_DIR=str(cold))
    if "old kernel" in result.stderr:
        pytest.skip("this kernel cannot refuse code")
    assert result.returncode == 0, result.stderr
    assert "may not make code" in result.stdout and result.stdout.count("\n") == 1
    strictly = REFUSED.replace("import weft\n", "import weft\nweft.compiler.settings.strict = True\n")
    result = process(strictly, WEFT_CACHE_DIR=str(cold))
    assert result.returncode == 1 and "NotCompiled" in result.stderr and "may not make code" in result.stderr


def test_refused_code_is_an_error_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "executing", lambda: "Permission denied")
    with pytest.raises(Uncompiled, match="this process may not make code: Permission denied"):
        Loaded("")


def test_code_that_cannot_be_made_is_an_error_under_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_text: str, _level: int) -> bytes:
        raise Uncompiled("LLVM rejects the generated text")

    def f(x: weft.Tensor) -> weft.Tensor:
        return weft.cosh(x * 3.375) - 0.4375

    x = weft.randn(3)
    monkeypatch.setattr(engine, "compiled", refused)
    monkeypatch.setattr(settings, "strict", False)
    monkeypatch.setattr("weft.native.backend._warned", set())
    with pytest.warns(UserWarning, match="op by op, since it has no native program: LLVM rejects"):
        assert_close(weft.compile(f, backend="native", fullgraph=True)(x), f(x))
    monkeypatch.setattr(settings, "strict", True)
    weft.compiler.reset()
    with pytest.raises(weft.compiler.NotCompiled, match="no native program: LLVM rejects the generated text"):
        weft.compile(f, backend="native", fullgraph=True)(x)


def held() -> int:
    """How many KiB this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


def test_compiling_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", "0")
    monkeypatch.setattr(engine, "LIVING", 4)
    before = modules()
    sizes = []
    for turn in range(3):
        for number in range(150):
            functions = Functions(0)
            functions.kernel(adding(1000.0 * turn + number))
            functions.load()
        gc.collect()
        sizes.append(held())
    assert sizes[2] - sizes[1] < 1500
    assert len(modules() - before) <= 5


def test_this_machine() -> None:
    assert host()[2] in (16, 32, 64)
    assert engine.executing() == ""


def test_machines_that_cannot_convert_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", "0")
    name, features, width = engine.host()
    without = ",".join(each for each in features.split(",") if each != "+f16c") + ",-f16c,-avx512fp16"
    monkeypatch.setattr(engine, "host", lambda: (name, without, width))
    text = """
define void @widen(ptr %from, ptr %to) {
  %half = load <8 x half>, ptr %from, align 2
  %wide = fpext <8 x half> %half to <8 x float>
  store <8 x float> %wide, ptr %to, align 4
  ret void
}
define void @narrow(ptr %from, ptr %to) {
  %wide = load <8 x float>, ptr %from, align 4
  %half = fptrunc <8 x float> %wide to <8 x half>
  store <8 x half> %half, ptr %to, align 2
  ret void
}
"""
    loaded = Loaded(text)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    widen, narrow = (call(loaded.address(each)) for each in ("widen", "narrow"))
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    made = np.empty(1 << 16, np.float32)
    for start in range(0, 1 << 16, 8):
        widen(halves[start:].ctypes.data, made[start:].ctypes.data)
    np.testing.assert_array_equal(made, halves.astype(np.float32))
    assert np.array_equal(np.signbit(made), np.signbit(halves))
    bits = np.concatenate([np.arange(0, 1 << 32, 65537), np.arange(0x38000000, 0x38010000, 3)]).astype(
        np.uint32
    )
    floats = bits[: len(bits) // 8 * 8].view(np.float32)
    short = np.empty(len(floats), np.float16)
    for start in range(0, len(floats), 8):
        narrow(floats[start:].ctypes.data, short[start:].ctypes.data)
    with np.errstate(all="ignore"):
        expected = floats.astype(np.float16)
    np.testing.assert_array_equal(short, expected)
    assert np.array_equal(np.signbit(short), np.signbit(expected))


COLLECTED = """
import gc
import signal
from weft.native.cpu import engine
def fail(level):
    raise KeyError
engine.target = fail
for _ in range(5):
    try:
        engine.compiled("define void @f() { ret void }", 0)
    except KeyError as error:
        error.itself = error
    gc.collect()
"""


def test_a_collector_may_find_what_a_failed_compilation_leaves() -> None:
    """A module of LLVM's is taken down before its context is, though the traceback holds both."""
    subprocess.run([sys.executable, "-c", COLLECTED], check=True, cwd=ROOT, timeout=60)


class Late(Exception):
    """What a handler of signals raises."""


@pytest.mark.parametrize("use", ["compiled", "loaded", "asked", "finalised"])
def test_interrupts_where_llvmlite_takes_its_lock(use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads get it, wherever an interrupt has struck."""
    text = "define void @f() { ret void }"
    content = engine.compiled(text, 0)
    library = sys.modules["llvmlite.binding.ffi"].lib
    codes = {getattr(type(library._lock), name).__code__ for name in ("__enter__", "__exit__")}
    monkeypatch.setattr(sys, "unraisablehook", lambda _unraisable: None)
    count = point = 0

    def handle(_number: int, _frame: Any) -> None:
        raise Late

    def profile(frame: Any, event: str, _value: Any) -> None:
        nonlocal count
        if frame.f_code in codes and event != "c_call":
            count += 1
            if count == point:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGUSR1)

    def get(found: list[bool]) -> None:
        found.append(library._lock._lock.acquire(timeout=1))
        if found[0]:
            library._lock._lock.release()

    def work(made: list[Any]) -> None:
        if use == "finalised":
            made.clear()
        elif use == "asked":
            assert made[0].address("f")
        elif use == "loaded":
            made[0].load(content, 0)
        else:
            engine.compiled(text, 0)

    handler = signal.signal(signal.SIGUSR1, handle)
    try:
        for point in range(1, 200):
            count, made = 0, [Loaded(text, 0)]
            sys.setprofile(profile)
            try:
                work(made)
            except Late:
                pass
            finally:
                sys.setprofile(None)
            if count < point:
                break
            found: list[bool] = []
            thread = threading.Thread(target=get, args=(found,))
            thread.start()
            thread.join()
            assert found == [True], point
    finally:
        signal.signal(signal.SIGUSR1, handler)
    assert point == 1  # nobody takes it where an interrupt may strike


def test_unknown_processors_get_no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """How threads wait there, and what Linux calls `futex`, is not known."""
    monkeypatch.setattr(engine, "triple", lambda: "riscv64-unknown-linux-gnu")
    assert "riscv64" in engine.unusable.__wrapped__()
    for known in ("x86_64-pc-linux-gnu", "aarch64-unknown-linux-gnu"):
        monkeypatch.setattr(engine, "triple", lambda known=known: known)
        assert engine.unusable.__wrapped__() == ""


def test_joined_functions_can_be_told_apart() -> None:
    kinds = [
        [f"declare float @llvm.{op}.f32(float)", f"define float @f{op}(float %x) {{"]
        + [f"  %y = call float @llvm.{op}.f32(float %x)", "  ret float %y", "}"]
        for op in ("sqrt", "fabs")
    ]
    found = engine.apart(engine.joined([*kinds, kinds[0][1:]]))
    assert list(found) == ["fsqrt", "ffabs"]
    alone = engine.Loaded(engine.joined([found["ffabs"]]))
    assert list(alone.addresses) == ["ffabs"]


OTHER_SYSTEMS = """
import sys
import llvmlite.binding  # its library is that of this system
sys.platform = {platform!r}
import weft
import weft.native.cpu.engine as engine
engine.triple = lambda: {triple!r}
def no_such_call(): raise AttributeError("module 'mmap' has no attribute 'PROT_READ'")
engine.executing = no_such_call
square = weft.compile(lambda x: (x * x).sum())
for _ in range(2):
    x = weft.ones(3, requires_grad=True)
    square(x).backward()
    print(x.grad.tolist())
"""


@pytest.mark.parametrize(
    ("platform", "triple"),
    [
        ("darwin", "arm64-apple-darwin23.5.0"),
        ("darwin", "x86_64-apple-macosx"),
        ("win32", "x86_64-pc-windows-msvc"),
    ],
)
def test_other_systems_run_op_by_op_and_say_so_once(platform: str, triple: str) -> None:
    code = OTHER_SYSTEMS.format(platform=platform, triple=triple)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[2.0, 2.0, 2.0]\n" * 2
    assert done.stderr.count("Warning") == 1 and "runs op by op" in done.stderr and triple in done.stderr
