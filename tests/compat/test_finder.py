# ruff: noqa: E501 - questions and answers, one a line
"""What `import torch` gives under compat: one interpreter answers many questions, each is a test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
ASKING = """
import json, sys
import weft.compat
weft.compat.install()
weft.compat.install()  # again changes nothing
answers = {}
for question in json.load(sys.stdin):
    space = {}
    try:
        exec(question, space)
        answers[question] = space.get("answer")
    except BaseException as error:
        answers[question] = f"{type(error).__name__}: {error}"
json.dump(answers, sys.stdout, default=repr)
"""
QUESTIONS = {
    # -- the same module objects
    "import torch, weft\nanswer = torch is weft": True,
    "import torch.nn.functional as F, weft\nanswer = F is weft.nn.functional": True,
    "import torch.optim.lr_scheduler as s, weft\nanswer = s is weft.optim.lr_scheduler": True,
    "import torch.fx, weft.fx\nanswer = torch.fx is weft.fx": True,
    "import torch.backends.cudnn as c\nfrom weft.backends import cudnn\nanswer = c is cudnn": True,
    "import torch.compiler, weft.compiler\nanswer = torch.compiler is weft.compiler": True,
    "import weft.nn\nanswer = [weft.nn.__name__, weft.nn.__spec__.name]": ["weft.nn", "weft.nn"],
    "import torch\nimport torch.autograd.gradcheck\nanswer = callable(torch.autograd.gradcheck)": True,
    "import torch\nanswer = torch.nn.zzzzzzq": "AttributeError: module 'torch.nn' has no attribute 'zzzzzzq': Weft has no such name",
    "import torch\nanswer = torch.cuda.amp.GradScaler.__name__": "GradScaler",
    "import torch\nfrom weft.amp import cuda, cpu\n"
    "answer = torch.cuda.amp.autocast is cuda.autocast and torch.cpu.amp.autocast is cpu.autocast": True,
    "import torch\nanswer = torch.nn.parallel.DistributedDataParallel.__name__": "DistributedDataParallel",
    # -- gathered names
    "from torch._dynamo.testing import CompileCounter, same\nfrom weft.testing import same as ours\n"
    "answer = same is ours": True,
    "from torch._dynamo.utils import counters\nimport weft.compiler\n"
    "answer = counters is weft.compiler.counters": True,
    "from torch import _inductor as inductor\nimport weft.compiler\n"
    "answer = inductor.compile is weft.compiler.native": True,
    "import torch\nanswer = torch._dynamo.graph_break is torch.compiler.graph_break": True,
    "import torch._C\nfrom weft.trace.recorder import _set_grad_enabled as ours\n"
    "answer = torch._C._set_grad_enabled is ours": True,
    "from torch.testing import FileCheck\nfrom torch._C import FileCheck as ours\nanswer = FileCheck is ours": True,
    "import torch\nanswer = [str(torch._dynamo.exc.RecompileError), torch._dynamo.skip_frame.__name__]": [
        "<class 'torch._dynamo.exc.RecompileError'>", "skip_frame",
    ],
    "import torch, torch._dynamo.testing\ncounter = torch._dynamo.testing.CompileCounter()\n"
    "def f(x):\n    torch._dynamo.dont_skip_tracing\n    return x * 2\n"
    "compiled = torch.compile(f, backend=counter)\ncompiled(torch.ones(2)), compiled(torch.ones(2))\n"
    "answer = [counter.frame_count, 'dont_skip_tracing' in vars(torch._dynamo)]": [1, True],
    "from torch.testing._internal.autograd_function_db import autograd_function_db\nanswer = autograd_function_db": [],
    "from torch.testing._internal.two_tensor import TwoTensor\nimport pickle\n"
    "answer = [str(TwoTensor), pickle.loads(pickle.dumps(TwoTensor)) is TwoTensor]": [
        "<class 'torch.testing._internal.two_tensor.TwoTensor'>", True,
    ],
    "from torch.fx.experimental.proxy_tensor import make_fx\nanswer = make_fx.__name__": "make_fx",
    "from functorch import vmap, grad\nanswer = vmap.__name__": "vmap",
    # -- programs get no placeholders
    "from torch.nn.attention.bias import CausalBias": "ModuleNotFoundError: No module named "
    "'torch.nn.attention.bias': Weft has no such name; the nearest is 'torch.nn.attention.flex_attention'",
    "import torch.utils.bottleneck": "ModuleNotFoundError: No module named 'torch.utils.bottleneck': Weft has "
    "no such name; the nearest is 'torch.utils.dlpack'",
    "import torch\ntorch.export.export(len)": "AttributeError: module 'torch' has no attribute 'export': Weft has "
    "no such name; the nearest is 'exp'",
    "from torch import export": "ImportError: cannot import name 'export' from 'torch': Weft has no such name; the "
    "nearest is 'exp'",
    "from torch.serialization import register_package": "ImportError: cannot import name 'register_package' from "
    "'torch.serialization': Weft has no such name",
    "import torch\ntorch.serialization.register_package([])": "AttributeError: module 'torch.serialization' has no "
    "attribute 'register_package': Weft has no such name",
    "from torch._dynamo import export": "ImportError: cannot import name 'export' from 'torch._dynamo': Weft has no "
    "such name; the nearest is 'is_exporting'",
    "from torch.testing._internal import common_moon as moon\nimport sys, types\n"
    "program = types.ModuleType('program')\n"
    "exec('import torch.testing\\ndef probe():\\n    return torch.testing._internal.common_moon.moon_db', vars(program))\n"
    "program.probe()": "AttributeError: module 'torch.testing._internal.common_moon' has no attribute 'moon_db': Weft "
    "has no such name",
    "import torch\nanswer = [hasattr(torch, 'export'), getattr(torch.utils, 'bottleneck', 5), "
    "hasattr(torch.serialization, 'skip_data'), hasattr(torch.func, 'functionalize')]": [False, 5, False, False],
    "try:\n    from torch.utils.checkpoint import GraphExecGroup\n"
    "except ImportError as error:\n    answer = [type(error).__name__, error.name]": [
        "ImportError", "GraphExecGroup",
    ],
    "from importlib.util import find_spec\n"
    "answer = [find_spec('torch.export'), find_spec('torch.package'), find_spec('torch.nn') is None]": [
        None, None, False,
    ],
    # -- helpers of PyTorch's own tests, of which there are always more
    "from torch.testing._internal.common_utils import skipIfMoonIsFull, TEST_MOON\n"
    "answer = [skipIfMoonIsFull(len) is len, skipIfMoonIsFull('why')(len) is len, TEST_MOON]": [True, True, False],
    "from torch.testing._internal.common_moon import moon_db\nanswer = moon_db.__name__": "moon_db",
    "from torch.testing._internal.common_nn import NNTestCase, module_tests\nimport unittest\n"
    "answer = [issubclass(NNTestCase, unittest.TestCase), module_tests]": [True, []],
    "import torch.testing._internal.common_utils as c\nanswer = hasattr(c, 'anything')": False,
    "import torch.testing._internal.common_utils\n"
    "from torch.autograd import _calculate_shape, Function\nimport torch\n"
    "answer = hasattr(torch.autograd, '_calculate_shape')": False,
    "import torch._dynamo.test_case\nfrom torch.export import export\nimport torch.utils._stats\n"
    "class Case:\n    from torch._dynamo.utils import timed\n"
    "answer = [export.__name__, Case.timed.__name__, torch._dynamo.utils.compile_times.__name__]": [
        "export", "timed", "compile_times",
    ],
    "def inside():\n    from torch.testing._internal.common_moon import moon_db\n    return moon_db\n"
    "answer = inside().__name__": "moon_db",
    # -- what is not there
    "from torch.nn import Lineer": "ImportError: cannot import name 'Lineer' from 'torch.nn': Weft has no such "
    "name; the nearest is 'Linear'",
    "import torch\ntorch.rellu": "AttributeError: module 'torch' has no attribute 'rellu': Weft has no such name; "
    "the nearest is 'relu'",
    "import torch.nn.functionel": "ModuleNotFoundError: No module named 'torch.nn.functionel': Weft has no such "
    "name; the nearest is 'torch.nn.functional'",
    "import torch._dynamo\nfrom torch._dynamo.testing import CompileCountre": "ImportError: cannot import name "
    "'CompileCountre' from 'torch._dynamo.testing': Weft has no such name; the nearest is 'CompileCounter'",
    "import torch\nanswer = [hasattr(torch, 'zzzzq'), getattr(torch.nn, 'zzzzq', 5)]": [False, 5],
    "try:\n    import torch.capture\nexcept ModuleNotFoundError as error:\n    answer = error.name": "torch.capture",
    # -- names that are printed
    "import torch\nanswer = repr(torch.ones(1, dtype=torch.float64))": "tensor([1.], dtype=torch.float64)",
    "import torch\nanswer = [str(torch.ones(2, 3).shape), str(torch.int8)]": ["torch.Size([2, 3])", "torch.int8"],
    "import torch\nanswer = [str(type(torch.ones(1))), str(torch.nn.Linear), str(torch.nn.Parameter)]": [
        "<class 'torch.Tensor'>", "<class 'torch.nn.modules.linear.Linear'>",
        "<class 'torch.nn.parameter.Parameter'>",
    ],
    "import torch\nanswer = [str(torch.optim.SGD), str(torch.dtype), str(torch.autograd.Function)]": [
        "<class 'torch.optim.sgd.SGD'>", "<class 'torch.dtype'>",
        "<class 'torch.autograd.function.Function'>",
    ],
    "import torch\ntorch.zeros(2, dtype='x')": "TypeError: zeros(): argument 'dtype' must be torch.dtype, not str",
    "import torch, pickle\nkind = pickle.loads(pickle.dumps(torch.nn.Linear))\n"
    "answer = kind is torch.nn.Linear": True,
    # -- facts
    "import torch\nanswer = [torch.__version__ >= '2.9', torch.__version__ > (2, 13), torch.version.cuda]": [
        True, False, None,
    ],
    "import torch\nanswer = [torch.cuda.is_available(), torch.cuda.device_count(), "
    "torch.backends.mps.is_available()]": [False, 0, False],
    "import torch\ntorch.cuda.synchronize()": "AssertionError: Torch not compiled with CUDA enabled",
    "import torch\nf = torch.compile(lambda x: x * 2 + 1, backend='inductor')\n"
    "answer = f(torch.ones(2)).tolist()": [3.0, 3.0],
    "import torch\ntorch.compile(lambda x: x, backend='nothing')": "InvalidBackend: Invalid backend: 'nothing', "
    "see `torch._dynamo.list_backends()` for available backends.",
    "import torch, operator\ntraced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))\n"
    "answer = traced.code": "\n\n\ndef forward(self, input):\n    input_1 = input\n"
    '    _0 = getattr(self, "0")(input_1);  input_1 = None\n    return _0\n    ',
}  # fmt: skip


@pytest.fixture(scope="module")
def answers() -> dict[str, object]:
    command = [sys.executable, "-c", ASKING]
    result = subprocess.run(
        command,
        cwd=REPOSITORY,
        input=json.dumps(list(QUESTIONS)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    found: dict[str, object] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize("question", QUESTIONS)
def test_answer(answers: dict[str, object], question: str) -> None:
    assert answers[question] == QUESTIONS[question]


FACTS = """
import importlib.metadata, importlib.util, typing
import weft.compat
weft.compat.install()
import torch
assert importlib.metadata.version("torch") == torch.__version__ and torch.__name__ == "torch"
assert importlib.metadata.metadata("torch")["Name"] == "torch" and importlib.metadata.version("numpy")
assert importlib.util.find_spec("torch.zzzzq") is None and importlib.util.find_spec("torch.nn") is not None
def f(x: torch.FloatTensor | None, y: "int | torch.LongTensor") -> "torch.Tensor | torch.FloatTensor": ...
hints = typing.get_type_hints(f)
assert typing.get_args(hints["x"])[1] is type(None) and hints["x"] == typing.Optional[torch.FloatTensor]
assert "NumPy" in torch.__config__.show() and "threads" in torch.__config__.parallel_info()
import torch.hub, torch.utils.model_zoo
for call in (lambda: torch.hub.load("someone/models", "net"),
             lambda: torch.utils.model_zoo.load_url("http://127.0.0.1:9/x.pth", model_dir="{folder}")):
    try:
        call()
    except (RuntimeError, OSError) as error:
        assert "hub: " in str(error), error
    else:
        raise AssertionError("nothing was refused")
import torch.futures
first = torch.futures.Future()
second = first.then(lambda done: done.value() + 1)
first.set_result(2)
assert second.wait() == 3 and torch.futures.wait_all([first, second]) == [2, 3]
"""


def test_facts_that_packages_ask_for(tmp_path: Path) -> None:
    """Metadata, names, unions in annotations; what needs a network says so; futures."""
    source = FACTS.replace("{folder}", str(tmp_path))
    command = [sys.executable, "-W", "error", "-c", source]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
