"""State dicts: what is saved, what is loaded, and what is said where the two do not fit."""

from collections import OrderedDict

import pytest

import weft
from weft import nn
from weft.nn.modules.module import _IncompatibleKeys


class Leaf(nn.Module):
    _version = 2

    def __init__(self, size=2):
        super().__init__()
        self.weight = nn.Parameter(weft.arange(float(size)))
        self.register_buffer("count", weft.tensor(3))
        self.register_buffer("cache", weft.ones(1), persistent=False)
        self.register_buffer("nothing", None)
        self.register_parameter("bias", None)


class Extra(nn.Module):
    def __init__(self, state=None):
        super().__init__()
        self.state = state

    def get_extra_state(self):
        return self.state

    def set_extra_state(self, state):
        self.state = state


def tree():
    root = nn.Module()
    root.a, root.b = Leaf(), Leaf()
    root._modules["none"] = None
    return root


# -- saving --------------------------------------------------------------------------------------------------
def test_what_a_state_dict_holds():
    state = tree().state_dict()
    assert type(state) is OrderedDict
    assert list(state) == ["a.weight", "a.count", "b.weight", "b.count"]
    assert state._metadata == {"": {"version": 1}, "a": {"version": 2}, "b": {"version": 2}}
    assert not state["a.weight"].requires_grad


def test_state_dicts_share_memory_with_the_module():
    m = Leaf()
    m.state_dict()["weight"].fill_(7)
    assert m.weight.tolist() == [7, 7]
    assert m.state_dict(keep_vars=True)["weight"] is m.weight


def test_prefix_and_destination():
    m = Leaf()
    destination = {}
    assert m.state_dict(destination=destination, prefix="p.") is destination
    assert list(destination) == ["p.weight", "p.count"]
    assert m.state_dict(prefix="p.")._metadata == {"p": {"version": 2}}
    with pytest.warns(FutureWarning, match="Positional args are being deprecated"):
        assert m.state_dict({}, "q.", True)["q.weight"] is m.weight


def test_hooks_on_saving():
    root, log = tree(), []
    root.a.register_state_dict_pre_hook(lambda m, prefix, keep: log.append(("before", prefix, keep)))
    root.a._register_state_dict_hook(lambda m, state, prefix, meta: log.append((list(state), prefix, meta)))
    root.a.register_state_dict_post_hook(lambda m, state, prefix, meta: state.update(more=1))
    state = root.state_dict()
    assert log == [("before", "a.", False), (["a.weight", "a.count"], "a.", {"version": 2})]
    assert state["more"] == 1


def test_private_hooks_may_replace_the_dict_and_public_ones_not():
    m = Leaf()
    with m._register_state_dict_hook(lambda *_: {"other": 1}):
        assert m.state_dict() == {"other": 1}
    m.register_state_dict_post_hook(lambda *_: {})
    with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
        m.state_dict()

    def hook(*_):
        return None

    m.register_state_dict_post_hook(hook)
    with pytest.raises(RuntimeError, match="Cannot register the same function as the state dict post hook"):
        m._register_state_dict_hook(hook)


# -- loading -------------------------------------------------------------------------------------------------
def test_loading_copies():
    one, two = Leaf(), Leaf()
    two.weight.data.fill_(9)
    before = one.weight
    result = one.load_state_dict(two.state_dict())
    assert one.weight is before and one.weight.tolist() == [9, 9]
    assert one.weight.requires_grad and one.weight.grad_fn is None
    two.weight.data.fill_(0)
    assert one.weight.tolist() == [9, 9]
    assert repr(result) == str(result) == "<All keys matched successfully>"
    assert result == _IncompatibleKeys([], [])


def test_loading_may_take_the_tensors_themselves():
    m = Leaf()
    m.weight.requires_grad_(False)
    given = OrderedDict(weight=weft.zeros(2, dtype=weft.float64), count=weft.tensor(5))
    m.load_state_dict(given, assign=True)
    assert (
        isinstance(m.weight, nn.Parameter) and m.weight.dtype is weft.float64 and not m.weight.requires_grad
    )
    assert m.count is given["count"]
    own = nn.Parameter(weft.ones(2))
    m.load_state_dict({"weight": own, "count": weft.tensor(5)}, assign=True)
    assert m.weight is own and not own.requires_grad


def test_missing_and_unexpected_keys():
    root = tree()
    state = root.state_dict()
    del state["b.weight"]
    state |= {"x": 1, "a.q": 2, "y.z": 3}
    with pytest.raises(RuntimeError) as caught:
        root.load_state_dict(state)
    assert str(caught.value) == (
        "Error(s) in loading state_dict for Module:\n"
        '\tMissing key(s) in state_dict: "b.weight". \n'
        '\tUnexpected key(s) in state_dict: "x", "y.z", "a.q". '
    )
    result = root.load_state_dict(state, strict=False)
    assert result.missing_keys == ["b.weight"] and result.unexpected_keys == ["x", "y.z", "a.q"]
    assert repr(result).startswith("_IncompatibleKeys(missing_keys=['b.weight'], ")


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("assign", [True, False])
def test_shapes_must_fit(strict, assign):
    m = Leaf()
    with pytest.raises(RuntimeError) as caught:
        m.load_state_dict({"weight": weft.ones(5, 5), "count": "x"}, strict=strict, assign=assign)
    assert str(caught.value) == (
        "Error(s) in loading state_dict for Leaf:\n"
        "\tsize mismatch for weight: copying a param with shape weft.Size([5, 5]) from checkpoint, the shape "
        "in "
        "current model is weft.Size([2]).\n"
        '\tWhile copying the parameter named "count", expected weft.Tensor or Tensor-like object from '
        "checkpoint "
        "but received <class 'str'>"
    )
    assert m.weight.tolist() == [0, 1]


def test_one_element_may_stand_for_a_number():
    m = Leaf()
    m.load_state_dict({"weight": weft.ones(2), "count": weft.tensor([7])})
    assert m.count.shape == () and m.count.item() == 7


def test_tensors_without_elements():
    state = {"weight": weft.ones(2, device="meta"), "count": weft.tensor(1)}
    with pytest.raises(
        RuntimeError, match=r"an exception occurred : \('Cannot copy out of meta tensor; no data!',\)."
    ):
        Leaf().load_state_dict(state)
    m = Leaf().to("meta")
    with pytest.warns(UserWarning, match="for weight: copying from a non-meta parameter .* is a no-op"):
        m.load_state_dict({"weight": weft.ones(2), "count": weft.tensor(1, device="meta")})
    m.load_state_dict(Leaf().state_dict(), assign=True)
    assert m.weight.tolist() == [0, 1]


def test_a_state_dict_is_a_mapping():
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like, got <class 'int'>."):
        Leaf().load_state_dict(3)


def test_names_without_a_tensor_expect_none():
    m = Leaf()
    with pytest.raises(RuntimeError, match='Unexpected key.*: "cache", "nothing", "bias". $'):
        m.load_state_dict({**m.state_dict(), "cache": 1, "nothing": 1, "bias": 1})


def test_extra_state():
    root = nn.Module()
    root.e = Extra({"a": 1})
    state = root.state_dict()
    assert state == {"e._extra_state": {"a": 1}}
    other = nn.Module()
    other.e = Extra()
    other.load_state_dict(state)
    assert other.e.state == {"a": 1}
    with pytest.raises(RuntimeError, match='Missing key.*: "e._extra_state". $'):
        other.load_state_dict({})
    with pytest.raises(RuntimeError, match='Unexpected key.*: "_extra_state". $'):
        nn.Module().load_state_dict({"_extra_state": 1})
    for method in (nn.Module().get_extra_state, lambda: nn.Module().set_extra_state(1)):
        with pytest.raises(RuntimeError, match="Reached a code path in Module"):
            method()


def test_hooks_on_loading():
    root, log = tree(), []
    root.a._register_load_state_dict_pre_hook(lambda *given: log.append(given[1:4]))
    root.a.register_load_state_dict_pre_hook(
        lambda module, state, prefix, *_: log.append((module, sorted(state)))
    )
    root.a.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    state = root.state_dict()
    del state["a.weight"]
    assert root.load_state_dict(state) == ([], [])
    assert log == [("a.", {"version": 2}, True), (root.a, ["a.count"])]
    root.register_load_state_dict_post_hook(lambda module, keys: keys)
    with pytest.raises(AssertionError, match="are not expected to return new values"):
        root.load_state_dict(state)


def test_pre_hooks_may_rename_keys():
    m = Leaf()

    def rename(state, prefix, *_):
        state[prefix + "weight"] = state.pop(prefix + "old")

    m._register_load_state_dict_pre_hook(rename)
    given = {"old": weft.full((2,), 4.0), "count": weft.tensor(0)}
    m.load_state_dict(given)
    assert m.weight.tolist() == [4, 4] and "old" in given
