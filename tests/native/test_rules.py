"""The table of rules names what the files register, and files are loaded for the ops that need them alone."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import weft.native.lower as lower
from weft.native import rules

LATE = """
import sys
import weft

function = weft.compile(lambda a: (a * a).sum(), backend="native")
print(float(function(weft.ones(3))))
print(" ".join(name for name in sys.modules if name.startswith("weft.native.lower_")))
"""


def test_the_table_says_what_files_register() -> None:
    for module in set(rules.FILES.values()):
        import_module(module)
    registered = {name: function.__module__ for name, function in lower.RULES.items()}
    elsewhere = {name for name, module in registered.items() if module == "weft.native.lower"}
    assert {name: module for name, module in rules.FILES.items() if module != registered.get(name)} == {}
    assert set(registered) - elsewhere == set(rules.FILES), "list new rules in weft/native/rules.py"


def test_all_files_are_in_the_table() -> None:
    folder = Path(rules.__file__).parent
    written = {
        path.stem.removeprefix("lower_")
        for path in folder.glob("lower_*.py")
        if "\n@rule(" in path.read_text()
    }
    assert written <= set(rules.FAMILIES)


def test_files_are_loaded_on_demand() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=True)
    result, loaded = done.stdout.splitlines()
    assert result == "3.0"
    assert "weft.native.lower_folds" in loaded.split()
    assert "weft.native.lower_conv" not in loaded.split()


SLOW = """
import threading
from weft.native.lower import RULES, rule_of

seen = []

def slowly_loaded():
    return helper

RULES["slowly_loaded"] = slowly_loaded

def ask():
    seen.append("helper" in rule_of("slowly_loaded").__globals__)

thread = threading.Thread(target=ask)
thread.start()
thread.join(0.05)  # what asks here either waits until this file is loaded, or has its answer by then
helper = True
"""


def test_rules_of_files_that_another_thread_loads_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "weft_slowly_loaded.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(rules.FILES, "slowly_loaded", "weft_slowly_loaded")
    try:
        assert lower.rule_of("slowly_loaded") is not None
        module = sys.modules["weft_slowly_loaded"]
        module.thread.join()
        assert module.seen == [True]
    finally:
        lower.RULES.pop("slowly_loaded", None)
        sys.modules.pop("weft_slowly_loaded", None)
