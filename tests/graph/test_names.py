"""Names of nodes and spelled paths."""

import math
import operator

import pytest

import weft
from weft.graph.names import Names, Paths, public_path, snake_case, wished_name


@pytest.mark.parametrize(
    ("wishes", "names"),
    [
        (["add", "add", "add"], ["add", "add_1", "add_2"]),
        (["add_1", "add", "add"], ["add_1", "add", "add_2"]),
        (["sum", "max", "lambda", "weft", "self"], ["sum_1", "max_1", "lambda_1", "weft_1", "self_1"]),
        (["s.0.weight", "0", ""], ["s_0_weight", "_0", "_unnamed"]),
        (["l_x_", "l_x_"], ["l_x_", "l_x__1"]),
        (["layer_0", "layer_0"], ["layer_0", "layer_1"]),
    ],
)
def test_names_are_unique_and_legal(wishes, names):
    taken = Names()
    assert [taken.create(wish) for wish in wishes] == names


def test_copied_names_go_on_apart():
    names = Names()
    names.create("add")
    other = names.copy()
    assert (names.create("add"), other.create("add")) == ("add_1", "add_1")


def test_snake_case():
    assert snake_case("FunctionCtx") == "function_ctx"
    assert snake_case("L_x_") == "l_x_"


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (operator.add, "add"),
        (operator.and_, "and_"),
        (weft.relu, "relu"),
        (weft.linalg.inv, "linalg_inv"),
        (weft.nn.functional.dropout, "dropout"),
        ("__add__", "add"),
        ("view", "view"),
        (weft.relu.op, "relu"),
    ],
)
def test_wished_name(target, name):
    assert wished_name(target) == name


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (weft.relu, "weft.relu"),
        (weft.nn.functional.dropout, "weft.nn.functional.dropout"),
        (weft.linalg.inv, "weft.linalg.inv"),
        (weft.manual_seed, "weft.manual_seed"),
        (weft.Tensor, "weft.Tensor"),
        (weft.relu.op, "weft.relu"),
        (operator.add, "operator.add"),
        (math.sqrt, "math.sqrt"),
        (getattr, "getattr"),
    ],
)
def test_public_path(target, path):
    assert public_path(target) == path


def test_paths_in_another_namespace():
    torch = Paths("torch")
    assert torch.of(weft.relu) == "torch.relu"
    assert torch.of(weft.linalg.inv) == "torch._C._linalg.linalg_inv"
    assert torch.of(math.sqrt) == "math.sqrt"
    assert Paths("own", {"weft.relu": "mine"}).of(weft.relu) == "mine"
