"""Runs the programs of a file one after the other; prints what each printed, raised and warned, as JSON."""

import contextlib
import io
import json
import re
import sys
import warnings

import torch
import torch._dynamo


def printed(name, code):
    """What one program prints, without addresses and places in C++ code."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        torch.manual_seed(0)
        torch._dynamo.reset()
        try:
            exec(compile(code, f"<{name}>", "exec"), {"__name__": "program"})
        except Exception as error:
            print("RAISED", type(error).__name__, error)
    for one in found:
        print("WARN", one.category.__name__, str(one.message)[:300].split(" (Triggered")[0], file=out)
    return re.sub(r"0x[0-9a-f]+", "0x", out.getvalue())


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        parts = [part.split("\n", 1) for part in re.split(r"(?m)^### ", file.read())[1:]]
    json.dump({name: printed(name, code) for name, code in parts}, sys.stdout)
