"""Sources print, compare, and read without running user code; Refs keep nothing of a user's alive."""

from __future__ import annotations

import enum
import functools
import gc
import math
import sys
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from typing import Any

import numpy as np
import pytest

import weft
from weft.capture.sources import (
    Nothing,
    Ref,
    Source,
    Unholdable,
    builtin,
    by_name,
    constant,
    fetch,
    function,
    importable_name,
    instance_dict,
    local,
    module,
    safe_member,
)
from weft.tensor.base import Tensor

RAN: list[str] = []


class Base: ...


class Nosy(Base):
    """Every way of looking at it that Python offers is noted."""

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        RAN.append("__dict__")
        return {"x": "wrong"}

    def __getattribute__(self, name: str) -> Any:
        RAN.append(name)
        return "wrong"

    def __len__(self) -> int:
        RAN.append("len")
        return 3


class NosyList(list[Any]):
    def __getitem__(self, index: Any) -> Any:
        RAN.append("getitem")
        return "wrong"

    def __iter__(self) -> Any:
        RAN.append("iter")
        return iter(["wrong"])


class NosyDict(dict[Any, Any]):
    def __missing__(self, key: Any) -> Any:
        RAN.append("missing")
        return "wrong"

    def __getitem__(self, key: Any) -> Any:
        RAN.append("getitem")
        return "wrong"


class Colour(enum.Enum):
    RED = 1


class Slotted:
    __slots__ = ("x",)


def module_function() -> None: ...


@pytest.fixture(autouse=True)
def nothing_ran() -> Any:
    RAN.clear()
    yield
    assert RAN == []


def read(source: Source, owner: Any = None, **values: Any) -> Any:
    return fetch(source, owner, values)


# -- text ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("source", "text", "name"),
    [
        (local("x"), "L['x']", "L_x_"),
        (local("self").field("weight"), "L['self'].weight", "L_self_weight"),
        (
            local("self").field("_modules").item("fc").field("_parameters").item("weight"),
            "L['self']._modules['fc']._parameters['weight']",
            "L_self_modules_fc_parameters_weight_",
        ),
        (function().member("__globals__").item("w"), "G['w']", "G_w_"),
        (module("math").item("pi"), "M['math']['pi']", "M_math_pi_"),
        (builtin("len"), "B['len']", "B_len_"),
        (function().member("__closure__").item(0).cell(), "F.__closure__[0].cell_contents", None),
        (local("d").key(2), "list(L['d'])[2]", None),
        (local("d").value(2), "list(L['d'].values())[2]", None),
        (local("x").member("f").referent(), "L['x'].f()", None),
        (local("x").plain(), "plain(L['x'])", None),
        (local("x").field("not a name"), "L['x'].__dict__['not a name']", None),
        (local("x").slot(Slotted, "x"), "L['x'].x", None),
        (local("x").length(), "len(L['x'])", None),
        (local("d").maybe("a", list), "L['d'].get('a')", None),
        (local("x").size(1), "L['x'].size()[1]", None),
        (constant("Slotted", Slotted).entry("x"), "Slotted.__dict__['x']", None),
        (local(".0"), "L['.0']", "L_0_"),
    ],
)
def test_sources_print(source: Source, text: str, name: str | None) -> None:
    assert str(source) == text
    if name is not None:
        assert source.placeholder_name() == name
    assert source.placeholder_name().isidentifier()


def test_sources_are_equal_by_path() -> None:
    one, two = local("x").field("y").item(0), local("x").field("y").item(0)
    assert one == two and hash(one) == hash(two) and one is not two
    assert one != local("x").field("y").item(1)
    assert one != local("x").member("y").item(0)
    assert one != "L['x'].y[0]"
    assert constant("a", Slotted) == constant("b", Slotted) != constant("a", Nosy)
    assert one.root() == local("x")
    assert one.path() == [local("x"), local("x").field("y"), one]


def test_sources_are_immutable() -> None:
    with pytest.raises(AttributeError):
        local("x").kind = "module"  # type: ignore[misc]


# -- reading -------------------------------------------------------------------------------------------------
def test_roots() -> None:
    assert read(local("x"), x=3) == 3
    assert read(function(), module_function) is module_function
    assert read(module("math").item("pi")) == math.pi
    assert read(builtin("len")) is len
    assert read(constant("f", module_function)) is module_function
    assert read(constant("None", None)) is None


def test_steps() -> None:
    slotted = Slotted()
    slotted.x = 5
    assert read(local("o").slot(Slotted, "x"), o=slotted) == 5
    assert read(local("f").member("__code__"), f=module_function) is module_function.__code__
    assert read(local("d").length(), d=deque([1, 2])) == 2
    assert read(local("d").maybe("a", list), d=(held := {"a": []})) is held["a"]
    assert type(read(local("d").maybe("b", list), d=held)) is Nothing
    with pytest.raises(TypeError, match="not a dict"):
        fetch(local("d").maybe("a", dict), None, {"d": held})
    assert read(local("d").key(1), d={"a": 1, "b": 2}) == "b"
    assert read(local("d").value(1), d={"a": 1, "b": 2}) == 2
    assert read(local("d").element(1), d=deque([1, 2])) == 2
    assert read(local("d").item(1), d=deque([1, 2])) == 2
    assert read(local("c").cell(), c=types.CellType(4)) == 4
    assert read(local("c").entry("x"), c=Slotted) is Slotted.__dict__["x"]
    assert read(local("p").member("keywords").item("a"), p=functools.partial(module_function, a=7)) == 7
    assert read(local("d").member("maxlen"), d=deque(maxlen=3)) == 3
    assert read(local("s").member("stop"), s=slice(1, 2)) == 2
    assert read(local("m").member("__func__"), m=types.MethodType(module_function, 3)) is module_function


def test_members_of_tensors() -> None:
    x = weft.ones(2, 3, requires_grad=True)
    assert read(local("x").size(1), x=x) == 3
    assert read(local("x").member("array").member("shape").item(1), x=x) == 3
    assert read(local("x").member("grad"), x=x) is None
    assert read(local("x").slot(Tensor, "tracked"), x=x) is True
    assert read(local("x").member("array").member("shape"), x=weft.ones(4, device="meta")) == (4,)


def test_a_wrapped_function_lies_in_the_functions_dict() -> None:
    @functools.wraps(module_function)
    def wrapper() -> None: ...

    assert read(local("f").member("__wrapped__"), f=wrapper) is module_function


def test_order_of_an_ordered_dict_is_its_own() -> None:
    mapping = OrderedDict(a=1, b=2)
    mapping.move_to_end("a")
    assert list(dict.__iter__(mapping)) == ["a", "b"] and read(local("d").key(0), d=mapping) == "b"
    assert read(local("d").value(0), d=mapping) == 2


def test_reading_runs_no_user_code() -> None:
    nosy, sequence, mapping = Nosy(), NosyList([10]), NosyDict(a=1)
    instance_dict(nosy)["x"] = "right"
    assert read(local("o").field("x"), o=nosy) == "right"
    assert read(local("o").member("__dict__"), o=nosy) == {"x": "right"}
    assert read(local("s").item(0), s=sequence) == 10
    assert read(local("s").element(0), s=sequence) == 10
    assert read(local("d").item("a"), d=mapping) == 1
    assert read(local("d").value(0), d=mapping) == 1
    with pytest.raises(KeyError):
        read(local("d").item("b"), d=mapping)
    with pytest.raises(TypeError):
        read(local("o").item(0), o=nosy)
    with pytest.raises(TypeError):
        read(local("o").cell(), o=nosy)
    with pytest.raises(KeyError):
        safe_member(nosy, "__func__")


def test_a_default_factory_stays_untouched() -> None:
    mapping: defaultdict[str, int] = defaultdict(lambda: RAN.append("factory") or 1)
    with pytest.raises(KeyError):
        read(local("d").item("a"), d=mapping)
    assert not mapping


def test_a_metaclass_does_not_get_asked() -> None:
    class Meta(type):
        @property
        def __mro__(cls) -> Any:  # type: ignore[override]
            RAN.append("mro")
            return ()

        def __getattribute__(cls, name: str) -> Any:
            RAN.append(name)
            return None

    class Class(metaclass=Meta):
        x = 3

    kind = local("c")
    RAN.clear()  # what the class statement itself asked
    assert read(kind.entry("x"), c=Class) == 3
    assert read(kind.member("__dict__").item("x"), c=Class) == 3


@pytest.mark.parametrize(
    "source",
    [
        local("missing"),
        local("x").field("a"),
        local("x").slot(Slotted, "x"),
        local("x").member("__code__"),
        module("no such module"),
        builtin("no such builtin"),
        local("cell").cell(),
        local("unset").slot(Slotted, "x"),
    ],
)
def test_what_is_not_there_raises(source: Source) -> None:
    with pytest.raises((LookupError, AttributeError, TypeError, ValueError)):
        read(source, x=3, cell=types.CellType(), unset=Slotted())


# -- holding -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "name"),
    [
        (math, "math:"),
        (math.sin, "math:sin"),
        (len, "builtins:len"),
        (deque, "collections:deque"),
        (np.add, "numpy:add"),
        (np.sum, "numpy:sum"),
        (np.float32, "numpy:float32"),
        (weft.float32, "weft:float32"),
        (weft.relu, "weft:relu"),
        (str.join, "builtins:str.join"),
        (Colour.RED, f"{__name__}:Colour.RED"),
        (Slotted, f"{__name__}:Slotted"),
        (module_function, f"{__name__}:module_function"),
    ],
)
def test_what_has_a_name_is_held_by_it(value: Any, name: str) -> None:
    sys.modules.setdefault(__name__, sys.modules[test_sources_print.__module__])
    assert importable_name(value) == name
    assert by_name(name) is value
    reference = Ref(value)
    assert reference() is value and reference.weak is None


def test_what_only_claims_a_name_has_none() -> None:
    def imposter() -> None: ...

    imposter.__qualname__ = "module_function"
    assert importable_name(imposter) is None
    assert importable_name(lambda: 1) is None
    assert importable_name(types.ModuleType("math")) is None
    assert importable_name(3) is None


def test_objects_of_users_are_held_weakly() -> None:
    class Class:
        __slots__ = ("slot", "__weakref__")

        @property
        def value(self) -> int:
            return 1

        def method(self) -> None: ...

    for make in (
        lambda: weft.nn.Linear(2, 3),
        lambda: weft.ones(2),
        lambda: lambda: None,
        lambda: type("Local", (), {}),
        lambda: Class(),
    ):
        value = make()
        reference, watch = Ref(value), weakref.ref(value)
        assert reference() is value and not reference.is_none
        del value
        gc.collect()
        assert watch() is None and reference() is None


@pytest.mark.parametrize("name", ["slot", "value", "method", "shared", "made", "__weakref__"])
def test_what_a_class_holds_does_not_keep_the_class(name: str) -> None:
    class Class:
        __slots__ = ("slot", "__weakref__")
        value = property(lambda self: 1)
        shared = staticmethod(lambda: 1)
        made = classmethod(lambda cls: 1)

        def method(self) -> None: ...

    reference, watch = Ref(Class.__dict__[name]), weakref.ref(Class)
    assert reference == Ref(Class.__dict__[name])
    del Class
    gc.collect()
    assert watch() is None and reference() is None


def test_members_of_local_enums() -> None:
    class Level(enum.IntEnum):
        LOW = 1
        HIGH = 2

    reference, watch = Ref(Level.LOW), weakref.ref(Level)
    assert reference() is Level.LOW and reference == Ref(Level.LOW) != Ref(Level.HIGH)
    del Level
    gc.collect()
    assert watch() is None and reference() is None


def test_refs_compare_by_object() -> None:
    one, two = weft.ones(2), weft.ones(2)
    assert Ref(one) == Ref(one) != Ref(two)
    assert hash(Ref(one)) == hash(Ref(one))
    assert Ref(None).is_none and Ref(None)() is None
    assert Ref(one) != 3


def test_a_ref_is_not_equal_to_a_later_object_at_the_same_address() -> None:
    value = weft.ones(2)
    reference = Ref(value)
    del value
    for _ in range(50):
        other = weft.ones(2)
        assert Ref(other) != reference
        if id(other) == reference.identity:
            break


@pytest.mark.parametrize("value", [[1], {"a": 1}, (1, 2), 3.5, "text", Slotted()])
def test_what_cannot_be_held_says_so(value: Any) -> None:
    with pytest.raises(Unholdable):
        Ref(value)


def test_a_property_is_no_constant_source() -> None:
    with pytest.raises(Unholdable):
        constant("p", property(lambda self: 1))


def test_a_constant_that_is_gone_is_not_there() -> None:
    value = weft.ones(2)
    source = constant("value", value)
    assert read(source) is value
    del value
    with pytest.raises(ReferenceError):
        read(source)
