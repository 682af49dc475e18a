"""The report names what Weft runs on, and its exit status says whether Weft works."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from types import SimpleNamespace

import numpy as np

import weft
from weft.cli import doctor
from weft.cli.main import main


def report(capsys) -> dict[str, str]:
    lines = capsys.readouterr().out.splitlines()
    return {line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1] for line in lines}


def test_report_of_a_machine_where_weft_works(capsys, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert main(["doctor"]) == 0
    facts = report(capsys)
    assert facts["python"].startswith(platform.python_version())
    assert facts["numpy"] == np.__version__
    assert facts["cores"].endswith(f" usable of {os.cpu_count()}")
    assert "OMP_NUM_THREADS=3" in facts["threads"]
    assert facts["gradient"] == "as expected"
    assert facts["processor"] and facts["blas"]


def test_missing_requirement_is_trouble(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "REQUIRED", ("numpy", "no-such-distribution"))
    assert main(["doctor"]) == 1
    facts = report(capsys)
    assert facts["no-such-distribution"] == "not installed"
    assert facts["trouble"].startswith("no-such-distribution is required and is not installed.")
    assert "gradient" not in facts


def test_wrong_gradient_is_trouble(monkeypatch):
    class Wrong:
        grad = SimpleNamespace(tolist=lambda: [0.0, 0.0])

        def __mul__(self, _other):
            return self

        def sum(self):
            return self

        def backward(self):
            pass

    monkeypatch.setattr(doctor, "REQUIRED", ())
    monkeypatch.setattr(weft, "tensor", lambda *_, **__: Wrong())
    assert list(doctor.find_troubles()) == [
        "the gradient of the sum of squares at [0.5, -2.0] is [0.0, 0.0], not [1.0, -4.0]",
        "the compiled gradient of the sum of squares is [0.0, 0.0], not [1.0, -4.0]",
    ]


def test_version_reads_metadata():
    assert doctor.version("numpy") == importlib.metadata.version("numpy")
    assert doctor.version("no-such-distribution") is None


def test_a_cache_that_cannot_be_used_is_not_shown_as_one_that_can(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "file" / "weft"))
    assert main(["doctor"]) == 0  # Weft works without
    assert report(capsys)["cache"].startswith(f"{tmp_path / 'file' / 'weft'} (cannot be used: ")
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    assert main(["doctor"]) == 0
    assert report(capsys)["cache"] == str(tmp_path / "cache")
    monkeypatch.setenv("WEFT_CACHE", "0")
    assert main(["doctor"]) == 0
    assert report(capsys)["cache"] == "turned off"
