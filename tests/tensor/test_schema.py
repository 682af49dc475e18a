"""Schemas from annotations and from text, and what binding refuses."""

# ruff: noqa: UP006, UP007, UP035, UP045, B006, B008  (users write it so)

import collections.abc
from typing import Any, List, Optional, Sequence, Tuple, Union

import pytest

import weft
from weft import Tensor
from weft.tensor.schema import Number, Schema, infer_schema


def f1(x: Tensor, y: int, z: float = 3.14, s: str = "a", b: bool = False) -> Tensor: ...
def f2(x: Optional[Tensor], y: Optional[int] = None, z: Tensor | None = None) -> Tensor: ...
def f3(
    x: Sequence[Tensor], y: List[int], z: collections.abc.Sequence[float], w: list[bool]
) -> List[Tensor]: ...
def f4(x: Tensor, *, d: weft.dtype, e: weft.device, n: Number) -> Tuple[Tensor, int, float, bool]: ...
def f5(x: Tensor, d: weft.dtype = weft.float32, e: weft.device = weft.device("cpu")) -> None: ...
def f6(x: "Tensor", y: "Optional[List[int]]" = None) -> "tuple[Tensor, list[Tensor]]": ...
def f7(xs: list[Optional[Tensor]], n: Optional[Union[int, float, bool]] = None) -> Tensor: ...


@pytest.mark.parametrize(
    ("function", "mutates", "text"),
    [
        (f1, (), '(Tensor x, SymInt y, float z=3.14, str s="a", bool b=False) -> Tensor'),
        (f2, (), "(Tensor? x, SymInt? y=None, Tensor? z=None) -> Tensor"),
        (f3, (), "(Tensor[] x, SymInt[] y, float[] z, bool[] w) -> Tensor[]"),
        (f4, (), "(Tensor x, *, ScalarType d, Device e, Scalar n) -> (Tensor, SymInt, float, bool)"),
        (f5, (), '(Tensor x, ScalarType d=float32, Device e="cpu") -> ()'),
        (f6, (), "(Tensor x, SymInt[]? y=None) -> (Tensor, Tensor[])"),
        (f7, (), "(Tensor?[] xs, Scalar? n=None) -> Tensor"),
        (f5, {"x"}, '(Tensor(a0!) x, ScalarType d=float32, Device e="cpu") -> ()'),
        (f2, ["z"], "(Tensor? x, SymInt? y=None, Tensor(a2!)? z=None) -> Tensor"),
        (f3, "unknown", "(Tensor(a0!)[] x, SymInt[] y, float[] z, bool[] w) -> Tensor[]"),
    ],
)
def test_inferred(function, mutates, text):
    assert infer_schema(function, mutates_args=mutates) == text
    assert infer_schema(function, mutates_args=mutates, op_name="a::b") == f"a::b{text}"
    assert str(Schema("a::b", text)) == f"a::b{text}"  # and it can be read again


def b1(x) -> Tensor: ...
def b2(x: Tensor): ...
def b3(x: dict[str, Tensor]) -> Tensor: ...
def b4(x: Tensor) -> str: ...
def b5(*x: Tensor) -> Tensor: ...
def b6(x: Tensor, y: Any) -> Tensor: ...
def b7(x: tuple[int, int]) -> Tensor: ...
def b8(x: Tensor, y: List[int] = [1]) -> Tensor: ...
def b9(x: Tensor, y: int) -> None: ...
def b10(x: Optional[Sequence[Tensor]]) -> Tensor: ...
def b11(x: Union[int, float]) -> Tensor: ...
def b12(x: "Unknown") -> Tensor: ...  # noqa: F821


@pytest.mark.parametrize(
    ("function", "mutates", "text"),
    [
        (b1, (), r"Parameter x must have a type annotation. Got func with signature \(x\) -> weft.Tensor\)"),
        (b2, (), "No return type annotation was provided. Please add one."),
        (
            b3,
            (),
            r"Parameter x has unsupported type dict\[str, weft.Tensor\]. The valid types are: ",
        ),
        (b4, (), "Return has unsupported type <class 'str'>. The valid types are: "),
        (b5, (), "We do not support positional-only args, varargs, or varkwargs."),
        (b6, (), "Parameter y has unsupported type typing.Any."),
        (
            b7,
            (),
            "We do not support Tuple inputs in schema. As a workaround, please try to use List instead.",
        ),
        (b8, (), "Parameter y has an unsupported default value type <class 'list'>."),
        (
            b9,
            {"y"},
            "Parameter y is in mutable_args but only Tensors or collections of Tensors can be mutated",
        ),
        (b9, {"q"}, "{'q'} in mutates_args were not found in the custom op's signature."),
        (b10, (), "Parameter x has unsupported type"),
        (b11, (), "Parameter x has unsupported type"),
        (b12, (), "It is not a type."),
    ],
)
def test_refused(function, mutates, text):
    with pytest.raises(ValueError, match=text):
        infer_schema(function, mutates_args=mutates)


def test_read_from_text():
    schema = Schema(
        "a::b", '(Tensor(a!) x, int[2] y=[1, 2], *, str s="p, q", ScalarType? d=float64) -> (Tensor, int)'
    )
    assert [a.name for a in schema.arguments] == ["x", "y", "s", "d"]
    assert [a.kind for a in schema.arguments] == ["Tensor", "SymInt[]", "str", "ScalarType?"]
    assert schema.arguments[1].default == [1, 2] and schema.arguments[2].default == "p, q"
    assert schema.arguments[3].default is weft.float64
    assert schema.mutated == {"x"} and schema.is_mutable and schema.positional == 2
    assert schema.returns == ["Tensor", "SymInt"] and not schema.single
    for wrong in ("Tensor x -> Tensor", "(Tensor x)", "(Tensor) -> Tensor"):
        with pytest.raises(RuntimeError, match="expected a"):
            Schema("a::b", wrong)


def test_bound():
    schema = Schema("a::b", "(Tensor x, float y=2.0, int[] z=[], *, Device? d=None, bool f=False) -> Tensor")
    x = weft.ones(2)
    assert schema.bind((x,), {}) == (x, 2.0, [], None, False)
    bound = schema.bind((x, 3), {"z": (1, 2), "d": "meta", "f": 1})
    assert bound == (x, 3.0, [1, 2], weft.device("meta"), True) and type(bound[1]) is float
    assert schema.bind((x, weft.tensor(1.5)), {})[1] == 1.5
    assert schema.bind((None,), {})[0] is None


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        (
            (),
            {},
            r"a::b\(\) is missing value for argument 'x'. Declaration: a::b\(Tensor x, int k=1\) -> Tensor",
        ),
        (
            (1, 2, 3),
            {},
            r"a::b\(\) expected at most 2 argument\(s\) but received 3 argument\(s\). Declaration: ",
        ),
        (
            (3,),
            {},
            "Expected a value of type 'Tensor' for argument 'x' but instead found type 'int'.\nPosition: 0",
        ),
        ((None, 1.5), {}, "Expected a value of type 'int' for argument 'k' but instead found type 'float'"),
        ((None,), {"q": 1}, "Unknown keyword argument 'q' for operator 'a::b'. Schema: "),
        ((None,), {"x": None}, "got multiple values for argument 'x'"),
    ],
)
def test_refused_arguments(args, kwargs, text):
    with pytest.raises(RuntimeError, match=text):
        Schema("a::b", "(Tensor x, int k=1) -> Tensor").bind(args, kwargs)


def test_types_are_named_as_users_write_them():
    schema = Schema("a::b", "(Tensor?[] x, SymInt[]? y=None) -> Tensor")
    with pytest.raises(RuntimeError, match=r"type 'List\[Optional\[Tensor\]\]'"):
        schema.bind((3,), {})
    with pytest.raises(RuntimeError, match=r"type 'Optional\[List\[int\]\]'"):
        schema.bind(([None], "a"), {})
