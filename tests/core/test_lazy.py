"""Modules that are loaded when they are first used: no interrupt strikes in their import."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from weft.core.lazy import lazy


class Late(Exception):
    pass


@pytest.fixture
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    name = f"late_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


def strike_by_signal() -> None:
    signal.raise_signal(signal.SIGUSR1)


def strike_by_thread() -> None:
    me = ctypes.c_ulong(threading.get_ident())
    ctypes.pythonapi.PyThreadState_SetAsyncExc(me, ctypes.py_object(Late))


@pytest.mark.parametrize("strike", [strike_by_signal, strike_by_thread])
def test_an_interrupted_import_keeps_no_lock(name: str, strike: Any) -> None:
    """Struck behind the line that takes it, if that is in reach."""
    kept: list[Late] = []

    def handle(_number: int, _frame: Any) -> None:
        raise Late

    def profile(frame: Any, event: str, _value: Any) -> None:
        if event == "c_return" and frame.f_code.co_qualname == "_ModuleLock.acquire":
            if frame.f_locals["self"].owner == threading.get_ident():
                sys.setprofile(None)
                strike()

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        sys.setprofile(profile)
        lazy(name).value
    except Late as error:
        kept.append(error)  # with the lock, in its traceback
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGUSR1, before)
    found = []
    thread = threading.Thread(target=lambda: found.append(lazy(name).value), daemon=True)
    thread.start()
    thread.join(5)
    assert found == [1]


def test_a_module_that_is_being_imported_loads_others(name: str, tmp_path: Path) -> None:
    """It may be waited for by them: they are imported in the same thread."""
    (tmp_path / f"{name}_too.py").write_text(f"import {name}\nvalue = {name}.first\n")
    text = f"from weft.core.lazy import load\nfirst = 2\nvalue = load('{name}_too').value\n"
    (tmp_path / f"{name}.py").write_text(text)
    try:
        assert lazy(name).value == 2
    finally:
        sys.modules.pop(f"{name}_too", None)
