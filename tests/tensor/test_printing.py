"""Printed tensors: texts recorded from PyTorch 2.13 and the options that govern them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from weft.tensor.printing import (
    PrintOptions,
    format_tensor,
    get_printoptions,
    printoptions,
    set_printoptions,
)

nan, inf = math.nan, math.inf
OPTION_NAMES = {"precision", "threshold", "edgeitems", "linewidth", "profile", "sci_mode"}


def host_array(values: Any, dtype_name: str) -> np.ndarray:
    return np.asarray(values).astype(ml_dtypes.bfloat16 if dtype_name == "bfloat16" else dtype_name)


def case(name: str, values: Any, dtype_name: str, text: str, **given: Any) -> Any:
    """One recorded text; further arguments are print options or facts about the tensor, by their names."""
    options = {key: given.pop(key) for key in OPTION_NAMES & given.keys()}
    return pytest.param(values, dtype_name, text, given, options, id=name)


@pytest.fixture(autouse=True)
def default_options() -> Iterator[None]:
    set_printoptions(profile="default")
    yield
    set_printoptions(profile="default")


GOLDEN = [
    case("int", [1, -20, 300], "int64", "tensor([  1, -20, 300])"),
    case("int32", [[1, 2], [3, 40]], "int32", "tensor([[ 1,  2],\n        [ 3, 40]], dtype=torch.int32)"),
    case("uint8-extremes", [0, 255], "uint8", "tensor([  0, 255], dtype=torch.uint8)"),
    case(
        "int64-extremes",
        [-(2**63), 2**63 - 1, 0],
        "int64",
        "tensor([-9223372036854775808,  9223372036854775807,                    0])",
    ),
    case(
        "int-wrapped",
        np.arange(40),
        "int64",
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
        "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35,\n"
        "        36, 37, 38, 39])",
    ),
    case("bool", [True, False], "bool", "tensor([ True, False])"),
    case("bool-all-true", [[True], [True]], "bool", "tensor([[True],\n        [True]])"),
    case("scalar-bool", True, "bool", "tensor(True)"),
    case("scalar-int", 7, "int64", "tensor(7)"),
    case("scalar-int16", -7, "int16", "tensor(-7, dtype=torch.int16)"),
    case("scalar-whole", 3.0, "float32", "tensor(3.)"),
    case("scalar-fixed", 3.14159, "float32", "tensor(3.1416)"),
    case("scalar-small", 0.00001, "float32", "tensor(1.0000e-05)"),
    case("scalar-nan", nan, "float32", "tensor(nan)"),
    case(
        "scalar-requires-grad",
        2.0,
        "float64",
        "tensor(2., dtype=torch.float64, requires_grad=True)",
        requires_grad=True,
    ),
    case("whole", [1.0, -2.0, 300.0], "float32", "tensor([  1.,  -2., 300.])"),
    case("whole-limit", [1.0, 1000.0], "float32", "tensor([   1., 1000.])"),
    case("whole-beyond-limit", [1.0, 1001.0], "float32", "tensor([1.0000e+00, 1.0010e+03])"),
    case("whole-large", [1e8], "float64", "tensor([100000000.], dtype=torch.float64)"),
    case("whole-too-large", [1e8 + 1], "float64", "tensor([1.0000e+08], dtype=torch.float64)"),
    case("fixed", [0.5, -1.25, 100.0], "float32", "tensor([  0.5000,  -1.2500, 100.0000])"),
    case("fixed-smallest", [1e-4], "float64", "tensor([0.0001], dtype=torch.float64)"),
    case(
        "fixed-too-small", [9.9e-5, 0.001], "float64", "tensor([9.9000e-05, 1.0000e-03], dtype=torch.float64)"
    ),
    case("fixed-spread", [0.5, 501.0], "float32", "tensor([5.0000e-01, 5.0100e+02])"),
    case(
        "scientific-long-exponent",
        [1e-300, -1e300, 0.0],
        "float64",
        "tensor([ 1.0000e-300, -1.0000e+300,   0.0000e+00], dtype=torch.float64)",
    ),
    case("denormals", [5e-324, 1e308], "float64", "tensor([4.9407e-324, 1.0000e+308], dtype=torch.float64)"),
    case("zeros", np.zeros(3), "float32", "tensor([0., 0., 0.])"),
    case("negative-zero", [-0.0, 0.0], "float32", "tensor([-0., 0.])"),
    case("not-finite", [nan, inf, -inf, 0.0], "float32", "tensor([nan, inf, -inf, 0.])"),
    case("not-finite-whole", [nan, inf, -inf, 1.0], "float32", "tensor([nan, inf, -inf, 1.])"),
    case(
        "not-finite-fixed",
        [nan, inf, -inf, 1.5, 0.0],
        "float32",
        "tensor([   nan,    inf,   -inf, 1.5000, 0.0000])",
    ),
    case("half", [0.1, 65504.0], "float16", "tensor([9.9976e-02, 6.5504e+04], dtype=torch.float16)"),
    case(
        "bfloat16", [0.1, 2.0, -3.0], "bfloat16", "tensor([ 0.1001,  2.0000, -3.0000], dtype=torch.bfloat16)"
    ),
    case(
        "bfloat16-matrix",
        [[1.0, 2.0], [3.0, -4.0]],
        "bfloat16",
        "tensor([[ 1.,  2.],\n        [ 3., -4.]], dtype=torch.bfloat16, requires_grad=True)",
        requires_grad=True,
    ),
    case(
        "default-float64",
        [1.5, 2.0],
        "float64",
        "tensor([1.5000, 2.0000])",
        default_float="float64",
        default_complex="complex128",
    ),
    case(
        "not-default-float32",
        [1.5, 2.0],
        "float32",
        "tensor([1.5000, 2.0000], dtype=torch.float32)",
        default_float="float64",
        default_complex="complex128",
    ),
    case("complex", [1 + 2j, -3.5 - 4j], "complex64", "tensor([ 1.0000+2.j, -3.5000-4.j])"),
    case(
        "complex-whole", [1 + 2j, -30 - 4j, 5 + 100j], "complex64", "tensor([  1.+2.j, -30.-4.j,   5.+100.j])"
    ),
    case(
        "complex-scientific",
        [1e-6 + 2j, 1 + 2e9j],
        "complex128",
        "tensor([1.0000e-06+2.0000e+00j, 1.0000e+00+2.0000e+09j],\n       dtype=torch.complex128)",
    ),
    case(
        "complex-not-finite",
        [complex(nan, inf), complex(-inf, -0.0), 1.5j],
        "complex64",
        "tensor([nan+infj, -inf-0.0000j, 0.+1.5000j])",
    ),
    case("complex-scalar", 1.5 - 2j, "complex64", "tensor(1.5000-2.j)"),
    case(
        "complex-wrapped",
        np.arange(9) * (1.5 - 0.25j),
        "complex64",
        "tensor([ 0.0000+0.0000j,  1.5000-0.2500j,  3.0000-0.5000j,  4.5000-0.7500j,\n"
        "         6.0000-1.0000j,  7.5000-1.2500j,  9.0000-1.5000j, 10.5000-1.7500j,\n"
        "        12.0000-2.0000j], requires_grad=True)",
        requires_grad=True,
    ),
    case("empty", np.zeros(0), "float32", "tensor([])"),
    case("empty-int", np.zeros(0), "int64", "tensor([], dtype=torch.int64)"),
    case("empty-bool", np.zeros((2, 0)), "bool", "tensor([], size=(2, 0), dtype=torch.bool)"),
    case("empty-sized", np.zeros((0, 3)), "float32", "tensor([], size=(0, 3))"),
    case(
        "empty-complex",
        np.zeros((3, 0)),
        "complex64",
        "tensor([], size=(3, 0), dtype=torch.complex64, requires_grad=True)",
        requires_grad=True,
    ),
    case(
        "three-dimensional",
        np.arange(12).reshape(2, 2, 3),
        "int64",
        "tensor([[[ 0,  1,  2],\n         [ 3,  4,  5]],\n\n        [[ 6,  7,  8],\n         [ 9, 10, 11]]])",
    ),
    case(
        "four-dimensional",
        np.arange(8).reshape(2, 1, 2, 2) / 4,
        "float64",
        "tensor([[[[0.0000, 0.2500],\n"
        "          [0.5000, 0.7500]]],\n"
        "\n"
        "\n"
        "        [[[1.0000, 1.2500],\n"
        "          [1.5000, 1.7500]]]], dtype=torch.float64)",
    ),
    case(
        "row-wrapped",
        np.arange(26).reshape(2, 13) / 8,
        "float32",
        "tensor([[0.0000, 0.1250, 0.2500, 0.3750, 0.5000, 0.6250, 0.7500, 0.8750, 1.0000,\n"
        "         1.1250, 1.2500, 1.3750, 1.5000],\n"
        "        [1.6250, 1.7500, 1.8750, 2.0000, 2.1250, 2.2500, 2.3750, 2.5000, 2.6250,\n"
        "         2.7500, 2.8750, 3.0000, 3.1250]])",
    ),
    case("summarised", np.arange(1001), "int64", "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    case(
        "summarised-matrix",
        np.arange(2000).reshape(40, 50) / 2,
        "float32",
        "tensor([[0.0000e+00, 5.0000e-01, 1.0000e+00,  ..., 2.3500e+01, 2.4000e+01,\n"
        "         2.4500e+01],\n"
        "        [2.5000e+01, 2.5500e+01, 2.6000e+01,  ..., 4.8500e+01, 4.9000e+01,\n"
        "         4.9500e+01],\n"
        "        [5.0000e+01, 5.0500e+01, 5.1000e+01,  ..., 7.3500e+01, 7.4000e+01,\n"
        "         7.4500e+01],\n"
        "        ...,\n"
        "        [9.2500e+02, 9.2550e+02, 9.2600e+02,  ..., 9.4850e+02, 9.4900e+02,\n"
        "         9.4950e+02],\n"
        "        [9.5000e+02, 9.5050e+02, 9.5100e+02,  ..., 9.7350e+02, 9.7400e+02,\n"
        "         9.7450e+02],\n"
        "        [9.7500e+02, 9.7550e+02, 9.7600e+02,  ..., 9.9850e+02, 9.9900e+02,\n"
        "         9.9950e+02]])",
    ),
    case(
        "summarised-cube",
        np.arange(1200).reshape(2, 100, 6),
        "int32",
        "tensor([[[   0,    1,    2,    3,    4,    5],\n"
        "         [   6,    7,    8,    9,   10,   11],\n"
        "         [  12,   13,   14,   15,   16,   17],\n"
        "         ...,\n"
        "         [ 582,  583,  584,  585,  586,  587],\n"
        "         [ 588,  589,  590,  591,  592,  593],\n"
        "         [ 594,  595,  596,  597,  598,  599]],\n"
        "\n"
        "        [[ 600,  601,  602,  603,  604,  605],\n"
        "         [ 606,  607,  608,  609,  610,  611],\n"
        "         [ 612,  613,  614,  615,  616,  617],\n"
        "         ...,\n"
        "         [1182, 1183, 1184, 1185, 1186, 1187],\n"
        "         [1188, 1189, 1190, 1191, 1192, 1193],\n"
        "         [1194, 1195, 1196, 1197, 1198, 1199]]], dtype=torch.int32)",
    ),
    case(
        "summarised-deep",
        np.arange(2401).reshape(7, 7, 7, 7),
        "int64",
        "tensor([[[[   0,  ...,    6],\n"
        "          ...,\n"
        "          [  42,  ...,   48]],\n"
        "\n"
        "         ...,\n"
        "\n"
        "         [[ 294,  ...,  300],\n"
        "          ...,\n"
        "          [ 336,  ...,  342]]],\n"
        "\n"
        "\n"
        "        ...,\n"
        "\n"
        "\n"
        "        [[[2058,  ..., 2064],\n"
        "          ...,\n"
        "          [2100,  ..., 2106]],\n"
        "\n"
        "         ...,\n"
        "\n"
        "         [[2352,  ..., 2358],\n"
        "          ...,\n"
        "          [2394,  ..., 2400]]]])",
        edgeitems=1,
    ),
    case(
        "summarised-complex",
        np.arange(1100) * (1 + 1j),
        "complex64",
        "tensor([0.0000e+00+0.0000e+00j, 1.0000e+00+1.0000e+00j, 2.0000e+00+2.0000e+00j,\n"
        "         ..., 1.0970e+03+1.0970e+03j, 1.0980e+03+1.0980e+03j,\n"
        "        1.0990e+03+1.0990e+03j])",
    ),
    case(
        "summary-ignores-middle",
        [0.5] * 3 + [1e9] * 1000 + [0.25] * 3,
        "float32",
        "tensor([0.5000, 0.5000, 0.5000,  ..., 0.2500, 0.2500, 0.2500])",
    ),
    case("no-edges", np.arange(1100), "int64", "tensor([...], size=(1100,))", edgeitems=0),
    case(
        "no-edges-matrix",
        np.zeros((40, 40)),
        "float64",
        "tensor([...], size=(40, 40), dtype=torch.float64)",
        edgeitems=0,
    ),
    case("no-edges-short", [1.0, 2.0], "float32", "tensor([1., 2.], size=(2,))", edgeitems=0),
    case("threshold-zero-scalar", 1.5, "float32", "tensor(1.5000)", threshold=0),
    case("requires-grad", [1.0, 2.0], "float32", "tensor([1., 2.], requires_grad=True)", requires_grad=True),
    case(
        "suffix-wrapped",
        np.arange(7) / 4 + 0.5,
        "float32",
        "tensor([0.5000, 0.7500, 1.0000, 1.2500, 1.5000, 1.7500, 2.0000],\n       requires_grad=True)",
        requires_grad=True,
    ),
    case(
        "suffix-wrapped-twice",
        np.arange(9) / 4 + 0.5,
        "float64",
        "tensor([0.5000, 0.7500,\n"
        "        1.0000, 1.2500,\n"
        "        1.5000, 1.7500,\n"
        "        2.0000, 2.2500,\n"
        "        2.5000],\n"
        "       dtype=torch.float64,\n"
        "       requires_grad=True)",
        requires_grad=True,
        linewidth=30,
    ),
    case(
        "grad-fn",
        [1.0, 2.0],
        "float32",
        "tensor([1., 2.], grad_fn=<MulBackward0>)",
        requires_grad=True,
        grad_fn_name="MulBackward0",
    ),
    case(
        "grad-fn-wrapped",
        np.ones((2, 9)) / 2,
        "float64",
        "tensor([[0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000],\n"
        "        [0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000]],\n"
        "       dtype=torch.float64, grad_fn=<MulBackward0>)",
        requires_grad=True,
        grad_fn_name="MulBackward0",
    ),
    case(
        "parameter",
        [[1.0, 2.0]],
        "float32",
        "Parameter containing:\ntensor([[1., 2.]], requires_grad=True)",
        requires_grad=True,
        is_parameter=True,
    ),
    case(
        "parameter-frozen",
        [1.5],
        "float64",
        "Parameter containing:\ntensor([1.5000], dtype=torch.float64)",
        is_parameter=True,
    ),
    case(
        "subclass",
        [[1.0, 2.0], [3.0, 4.0]],
        "float32",
        "Measured([[1., 2.],\n          [3., 4.]])",
        class_name="Measured",
    ),
    case("meta", np.zeros((2, 3)), "float32", "tensor(..., device='meta', size=(2, 3))", device="meta"),
    case(
        "meta-int",
        np.zeros(4),
        "int64",
        "tensor(..., device='meta', size=(4,), dtype=torch.int64)",
        device="meta",
    ),
    case(
        "meta-scalar",
        0.0,
        "float64",
        "tensor(..., device='meta', size=(), dtype=torch.float64, requires_grad=True)",
        device="meta",
        requires_grad=True,
    ),
    case(
        "meta-parameter",
        np.zeros((2, 0)),
        "float32",
        "Parameter containing:\ntensor(..., device='meta', size=(2, 0), requires_grad=True)",
        device="meta",
        requires_grad=True,
        is_parameter=True,
    ),
    case(
        "contents-given",
        [1.0],
        "float64",
        "tensor(<hidden>, dtype=torch.float64)",
        tensor_contents="<hidden>",
    ),
    case(
        "precision",
        [0.5, 1 / 3],
        "float64",
        "tensor([0.50000000, 0.33333333], dtype=torch.float64)",
        precision=8,
    ),
    case("precision-zero", [0.5, 1.5], "float32", "tensor([0, 2])", precision=0),
    case(
        "sci-mode", [1.0, 20.0, 0.0], "float32", "tensor([1.0000e+00, 2.0000e+01, 0.0000e+00])", sci_mode=True
    ),
    case("sci-mode-zeros", [0.0, nan], "float32", "tensor([0., nan])", sci_mode=True),
    case(
        "sci-mode-off",
        [1e-6, 1234.5],
        "float64",
        "tensor([   0.0000, 1234.5000], dtype=torch.float64)",
        sci_mode=False,
    ),
    case(
        "sci-mode-off-whole", [1.0, -1e9], "float32", "tensor([          1., -1000000000.])", sci_mode=False
    ),
    case("sci-mode-int", [1, 20], "int64", "tensor([ 1, 20])", sci_mode=True),
    case("sci-mode-complex", [1 + 20j], "complex64", "tensor([1.0000e+00+2.0000e+01j])", sci_mode=True),
    case(
        "short",
        np.arange(1100) / 8,
        "float32",
        "tensor([0.00e+00, 1.25e-01,  ..., 1.37e+02, 1.37e+02])",
        profile="short",
    ),
    case("short-but-precise", [1 / 3], "float32", "tensor([0.33333])", profile="short", precision=5),
    case("narrow", np.arange(6), "int64", "tensor([0, 1, 2, 3,\n        4, 5])", linewidth=20),
    case("narrower-than-one", [[100, 200]], "int64", "tensor([[100,\n         200]])", linewidth=1),
]


@pytest.mark.parametrize(("values", "dtype_name", "text", "facts", "options"), GOLDEN)
def test_text_is_pytorchs(
    values: Any, dtype_name: str, text: str, facts: dict[str, Any], options: dict[str, Any]
) -> None:
    set_printoptions(**options)
    array = host_array(values, dtype_name)
    assert format_tensor(array, dtype_name=dtype_name, namespace="torch", **facts) == text


def test_namespace_is_weft_unless_given() -> None:
    array = np.array([1.5])
    assert format_tensor(array, dtype_name="float64") == "tensor([1.5000], dtype=weft.float64)"


def test_exactly_threshold_elements_are_all_shown() -> None:
    text = format_tensor(np.arange(1000), dtype_name="int64")
    assert "..." not in text
    assert text.count(",") == 999
    assert "..." in format_tensor(np.arange(1001), dtype_name="int64")


def test_views_print_like_their_copies() -> None:
    array = np.arange(24.0).reshape(4, 6).T[::-2]
    assert format_tensor(array, dtype_name="float64") == format_tensor(array.copy(), dtype_name="float64")
    wide = np.broadcast_to(np.float32(0.5), (10**6, 10**6))  # would not fit in memory if it were copied
    assert format_tensor(wide, dtype_name="float32").count("0.5000") == 36


def test_signalling_nan_does_not_warn() -> None:
    bits = np.array([0x7FA00000], np.uint32)
    assert format_tensor(bits.view(np.float32), dtype_name="float32") == "tensor([nan])"


@pytest.mark.parametrize("indent", [1, 5, 30])
@pytest.mark.parametrize("length", [1, 5, 8, 40])
@pytest.mark.parametrize("is_parameter", [False, True])
def test_indent_moves_the_text_as_a_block(indent: int, length: int, is_parameter: bool) -> None:
    array = np.arange(length) / 4 + 0.5
    facts: dict[str, Any] = {"dtype_name": "float64", "requires_grad": True, "is_parameter": is_parameter}
    plain = format_tensor(array, **facts)
    moved = format_tensor(array, **facts, indent=indent, options=PrintOptions(linewidth=80 + indent))
    assert moved == plain.replace("\n", "\n" + " " * indent)


def test_options_start_as_pytorchs() -> None:
    assert get_printoptions() == {
        "precision": 4,
        "threshold": 1000,
        "edgeitems": 3,
        "linewidth": 80,
        "sci_mode": None,
    }


@pytest.mark.parametrize(
    ("profile", "changes"),
    [("default", {}), ("short", {"precision": 2, "edgeitems": 2}), ("full", {"threshold": math.inf})],
)
def test_profiles(profile: str, changes: dict[str, Any]) -> None:
    expected = get_printoptions() | changes
    set_printoptions(precision=9, threshold=9, edgeitems=9, linewidth=9, sci_mode=True)
    set_printoptions(profile=profile)
    assert get_printoptions() == expected


def test_unknown_profile_keeps_the_options() -> None:
    set_printoptions(precision=2, profile="Short")
    assert (get_printoptions()["precision"], get_printoptions()["edgeitems"]) == (2, 3)


def test_sci_mode_goes_back_to_automatic_when_not_given() -> None:
    set_printoptions(sci_mode=True)
    set_printoptions(precision=3)
    assert get_printoptions()["sci_mode"] is None
    assert get_printoptions()["precision"] == 3


def test_printoptions_restores_also_after_an_error() -> None:
    set_printoptions(precision=3, sci_mode=False)
    before = get_printoptions()
    with pytest.raises(ZeroDivisionError), printoptions(precision=1, profile="full", sci_mode=True):
        assert get_printoptions() == before | {"precision": 1, "threshold": math.inf, "sci_mode": True}
        1 / 0
    assert get_printoptions() == before


def test_explicit_options_win_over_those_in_force() -> None:
    set_printoptions(precision=1)
    array = np.array([0.5], np.float32)
    assert format_tensor(array, dtype_name="float32", options=PrintOptions(precision=2)) == "tensor([0.50])"
    assert format_tensor(array, dtype_name="float32") == "tensor([0.5])"
