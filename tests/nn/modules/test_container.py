"""Containers: lists and dicts of modules and parameters."""

from collections import OrderedDict

import pytest

import weft
from weft import nn


class A(nn.Module):
    def forward(self, x):
        return [*x, type(self).__name__]


class B(A):
    pass


class C(A):
    pass


def names(container):
    return [type(module).__name__ for module in container]


def parameter(*size):
    return nn.Parameter(weft.zeros(*size))


# -- Sequential ----------------------------------------------------------------------------------------------
def test_sequential_calls_in_order():
    assert nn.Sequential(A(), B(), C())([]) == ["A", "B", "C"]
    assert nn.Sequential()(3) == 3


def test_sequential_by_name():
    s = nn.Sequential(OrderedDict(first=A(), second=B()))
    assert repr(s) == "Sequential(\n  (first): A()\n  (second): B()\n)"
    assert s[0] is s.first and s[-1] is s.second
    assert list(s[1:]._modules) == ["second"]
    s.append(C())
    assert list(s._modules) == ["first", "second", "2"]
    with pytest.raises(KeyError):
        s.insert(0, C())
    assert len(s) == 3


@pytest.mark.parametrize("given", [[A()], {"a": A()}])
def test_sequential_takes_modules_or_an_ordered_dict(given):
    with pytest.raises(TypeError, match=f"{type(given).__name__} is not a Module subclass"):
        nn.Sequential(given)


def test_sequential_items():
    s = nn.Sequential(A(), B(), C())
    assert names(s[::2]) == ["A", "C"] and list(s[::2]._modules) == ["0", "2"]
    s[1] = C()
    assert names(s) == ["A", "C", "C"] and list(s._modules) == ["0", "1", "2"]
    del s[0]
    assert names(s) == ["C", "C"] and list(s._modules) == ["0", "1"]
    s = nn.Sequential(A(), B(), C(), A())
    del s[1:3]
    assert names(s) == ["A", "A"] and list(s._modules) == ["0", "1"]
    assert type(s.pop(0)) is A and len(s) == 1


@pytest.mark.parametrize("kind", [nn.Sequential, lambda *modules: nn.ModuleList(modules)])
@pytest.mark.parametrize("index", [3, -4])
def test_indices_out_of_range(kind, index):
    s = kind(A(), B(), C())
    for use in (
        lambda: s[index],
        lambda: s.__delitem__(index),
        lambda: s.__setitem__(index, A()),
        lambda: s.pop(index),
    ):
        with pytest.raises(IndexError, match=f"index {index} is out of range"):
            use()
    with pytest.raises(TypeError):
        s["a"]


def test_sequential_grows():
    s = nn.Sequential(A(), C())
    assert s.insert(1, B()) is s and names(s) == ["A", "B", "C"]
    s.insert(-1, A())
    assert names(s) == ["A", "B", "A", "C"]
    s.insert(4, B())
    assert names(s)[-1] == "B" and list(s._modules) == ["0", "1", "2", "3", "4"]
    assert s.append(C()).extend(nn.Sequential(A())) is s and len(s) == 7
    with pytest.raises(IndexError, match="Index out of range: 9"):
        s.insert(9, A())
    with pytest.raises(AssertionError, match="module should be of type"):
        s.insert(0, 3)
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        s.append(3)


def test_sequential_arithmetic():
    s, t = nn.Sequential(A()), nn.Sequential(B(), C())
    assert names(s + t) == ["A", "B", "C"] and len(s) == 1
    before = s
    s += t
    assert s is before and names(s) == ["A", "B", "C"]
    assert names(t * 2) == names(2 * t) == ["B", "C", "B", "C"]
    before = t
    t *= 2
    assert t is before and names(t) == ["B", "C", "B", "C"] and t[0] is t[2]
    with pytest.raises(ValueError, match="add operator supports only objects of Sequential class"):
        s + 3
    with pytest.raises(ValueError, match="Non-positive multiplication factor 0"):
        s * 0
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \*"):
        s * "x"


# -- ModuleList ----------------------------------------------------------------------------------------------
def test_module_list():
    modules = nn.ModuleList([A(), B()])
    modules += [C()]
    assert names(modules) == ["A", "B", "C"] and len(modules) == 3
    assert names(modules[1:]) == ["B", "C"] and list(modules[1:]._modules) == ["0", "1"]
    assert names(modules + [A()]) == ["A", "B", "C", "A"]
    modules.insert(1, C())
    assert names(modules) == ["A", "C", "B", "C"] and list(modules._modules) == ["0", "1", "2", "3"]
    modules.insert(-1, A())
    assert names(modules) == ["A", "C", "B", "A", "C"]
    assert names(modules.pop(slice(0, 2))) == ["A", "C"] and names(modules) == ["B", "A", "C"]
    del modules[-1]
    assert names(reversed(modules)) == ["A", "B"]
    assert modules[0] in modules
    modules.extend(modules)
    assert len(modules) == 4
    with pytest.raises(TypeError, match="ModuleList.extend should be called with an iterable, but got int"):
        modules.extend(3)
    with pytest.raises(NotImplementedError, match="ModuleList"):
        modules(1)


def test_module_list_shows_equal_neighbours_once():
    assert repr(nn.ModuleList()) == "ModuleList()"
    nested = nn.Sequential(A())
    modules = nn.ModuleList([A(), A(), B(), nested, nested, A()])
    assert repr(modules) == (
        "ModuleList(\n"
        "  (0-1): 2 x A()\n"
        "  (2): B()\n"
        "  (3-4): 2 x Sequential(\n"
        "    (0): A()\n"
        "  )\n"
        "  (5): A()\n"
        ")"
    )


def test_numbers_are_no_attributes_to_type():
    assert not any(name.isdigit() for name in dir(nn.ModuleList([A()])))


# -- ModuleDict ----------------------------------------------------------------------------------------------
def test_module_dict():
    d = nn.ModuleDict({"a": A(), "b": B()})
    assert repr(d) == "ModuleDict(\n  (a): A()\n  (b): B()\n)"
    assert list(d) == list(d.keys()) == ["a", "b"] and names(d.values()) == ["A", "B"] and "a" in d
    assert [key for key, _ in d.items()] == ["a", "b"]
    d["c"] = C()
    assert type(d.pop("a")) is A
    del d["b"]
    d.update([("x", A()), ["y", B()]])
    d.update(nn.ModuleDict({"z": C()}))
    assert list(d) == ["c", "x", "y", "z"] and len(d) == 4
    d.clear()
    assert len(d) == 0
    with pytest.raises(KeyError):
        d["c"]
    with pytest.raises(KeyError, match="attribute 'keys' already exists"):
        d["keys"] = A()
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        d["k"] = 3


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (3, TypeError, "Dict.update should be called with an iterable of key/value pairs, but got int"),
        ([3], TypeError, "Dict update sequence element #0 should be Iterable; isint"),
        ([("a",)], ValueError, "Dict update sequence element #0 has length 1; 2 is required"),
        (
            [("a", None), ("a", 1, 2)],
            ValueError,
            "Dict update sequence element #1 has length 3; 2 is required",
        ),
    ],
)
@pytest.mark.parametrize("kind", [nn.ModuleDict, nn.ParameterDict])
def test_updates_take_pairs(kind, given, error, text):
    with pytest.raises(error) as caught:
        kind().update(given)
    assert text.removeprefix("Dict") in str(caught.value)


# -- ParameterList -------------------------------------------------------------------------------------------
def test_parameter_list():
    values = nn.ParameterList([parameter(1), weft.zeros(2), 3, None])
    assert list(values.state_dict()) == ["0", "1"] and len(values) == 4
    assert isinstance(values[1], nn.Parameter) and values[2] == 3 and values[-1] is None
    assert repr(values) == (
        "ParameterList(\n"
        "    (0): Parameter containing: [weft.float32 of size 1]\n"
        "    (1): Parameter containing: [weft.float32 of size 2]\n"
        "    (2): Object of type: int\n"
        "    (3): Object of type: NoneType\n"
        ")"
    )
    values[0] = weft.ones(3, 2)
    assert isinstance(values[0], nn.Parameter) and values[0].shape == (3, 2)
    assert values.append(parameter(1)).extend([5]) is values
    values += [parameter(2)]
    assert len(values) == 7 and values[5] == 5
    assert type(values[1:3]) is nn.ParameterList and len(values[1:3]) == 2
    assert [p.numel() for p in values.parameters()] == [6, 2, 1, 2]


def test_parameter_lists_refuse():
    values = nn.ParameterList([parameter(1)])
    with pytest.raises(IndexError, match="index 1 is out of range"):
        values[1]
    with pytest.raises(
        TypeError, match="ParameterList.extend should be called with an iterable, but got Parameter"
    ):
        values.extend(parameter(2))
    with pytest.raises(TypeError, match="cannot assign 'str' as parameter '0'"):
        values[0] = "s"
    with pytest.raises(RuntimeError, match="ParameterList should not be called."):
        values(1)


# -- ParameterDict -------------------------------------------------------------------------------------------
def test_parameter_dict_sorts_the_keys_of_plain_mappings():
    x, a = parameter(1), parameter(2)
    assert list(nn.ParameterDict({"x": x, "a": a})) == ["a", "x"]
    assert [name for name, _ in nn.ParameterDict({"x": x, "a": a}).named_parameters()] == ["a", "x"]
    for ordered in (OrderedDict(x=x, a=a), [("x", x), ("a", a)], nn.ParameterDict([("x", x), ("a", a)])):
        assert list(nn.ParameterDict(ordered)) == ["x", "a"]
    assert list(nn.ModuleDict({"x": nn.ReLU(), "a": nn.ReLU()})) == ["x", "a"]


def test_parameter_dict():
    d = nn.ParameterDict({"a": parameter(1), "b": weft.zeros(2), "c": 3})
    assert repr(d) == (
        "ParameterDict(\n"
        "    (a): Parameter containing: [weft.FloatTensor of size 1]\n"
        "    (b): Parameter containing: [weft.FloatTensor of size 2]\n"
        "    (c): Object of type: int\n"
        ")"
    )
    assert (
        list(d) == ["a", "b", "c"]
        and list(reversed(d)) == ["c", "b", "a"]
        and list(d.state_dict()) == ["a", "b"]
    )
    assert d.popitem() == ("c", 3)
    assert d.pop("a").shape == (1,)
    assert d.get("z", 7) == 7 and d.get("b") is d["b"]
    assert d.setdefault("q", 5) == 5 and d.setdefault("q", 6) == 5
    assert list(d.fromkeys(["k", "j"], 1).items()) == [("k", 1), ("j", 1)]
    copied = d.copy()
    assert copied is not d and copied["b"] is d["b"]
    del d["b"]
    assert "b" not in d and "b" in copied
    d.clear()
    assert len(d) == 0 and not hasattr(d, "q")


def test_parameter_dicts_join():
    one, two = nn.ParameterDict({"a": parameter(1), "b": parameter(2)}), nn.ParameterDict({"b": parameter(7)})
    assert (one | two)["b"] is two["b"] and (two | one)["b"] is one["b"]
    assert sorted({"x": 1} | two) == ["b", "x"]
    one |= two
    assert one["b"] is two["b"] and list(one.values()) == [one["a"], two["b"]]


def test_parameter_dicts_refuse():
    d = nn.ParameterDict()
    with pytest.raises(TypeError, match=r"cannot be used as a key as it is not a string \(type is 'int'\)"):
        d[3] = parameter(1)
    assert list(d) == []
    with pytest.raises(AttributeError, match="'ParameterDict' object has no attribute 'z'"):
        d["z"]
    with pytest.raises(KeyError):
        del d["z"]
    with pytest.raises(RuntimeError, match="ParameterDict should not be called."):
        d(1)
