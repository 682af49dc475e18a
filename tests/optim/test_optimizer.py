"""The base class: groups, errors, state dicts, hooks, names, closures, copies."""

from __future__ import annotations

import copy
import io
import pickle

import pytest

import weft
from weft.optim import SGD, Adam, AdamW, Optimizer, RMSprop
from weft.optim import optimizer as base


def parameter(*values):
    return weft.nn.Parameter(weft.tensor(values or (1.0, 2.0)))


def with_gradient(*values):
    x = parameter(*values)
    x.grad = weft.ones_like(x)
    return x


# -- groups --------------------------------------------------------------------------------------------------
def test_groups_take_defaults_for_what_they_leave_out():
    x, y = parameter(), parameter()
    optimizer = SGD([{"params": x}, {"params": [y], "lr": 5.0}], lr=0.5, momentum=0.9)
    first, second = optimizer.param_groups
    assert first["params"] == [x] and second["params"] == [y]
    assert (first["lr"], second["lr"], second["momentum"]) == (0.5, 5.0, 0.9)
    assert optimizer.defaults["lr"] == 0.5
    z = with_gradient(1.0)
    optimizer.add_param_group({"params": iter([z]), "lr": 1.0, "momentum": 0})
    optimizer.step()
    assert z.item() == 0.0 and x.tolist() == [1.0, 2.0]


def test_parameters_may_come_from_a_generator():
    model = weft.nn.Linear(2, 3)
    assert len(SGD(model.parameters()).param_groups[0]["params"]) == 2


class Demanding(Optimizer):
    def __init__(self, params):
        super().__init__(params, {"depth": base.required, "lr": 1.0})

    def step(self, closure=None):
        return closure() if closure else "stepped"


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda: SGD(parameter()), TypeError,
            "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
            "weft.FloatTensor",
        ),
        (lambda: SGD([]), ValueError, "optimizer got an empty parameter list"),
        (
            lambda: SGD([{"params": {parameter()}}]), TypeError,
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors "
            "in "
            "sets will change between runs. Please use a list instead.",
        ),
        (lambda: SGD([1]), TypeError, "optimizer can only optimize Tensors, but one of the params is int"),
        (lambda: SGD([parameter() * 2]), ValueError, "can't optimize a non-leaf Tensor"),
        (
            lambda: SGD([parameter()]).add_param_group([1]), TypeError,
            "param_group must be a dict, but got <class 'list'>",
        ),
        (
            lambda: Demanding([parameter()]), ValueError,
            "parameter group didn't specify a value of required optimization parameter depth",
        ),
        (
            lambda: SGD([("a", parameter()), parameter()]), ValueError,
            "all optimizer params should be with/without names. Some param names are missing",
        ),
        (
            lambda: SGD([{"params": [("a", parameter())]}, {"params": [parameter()]}]), ValueError,
            "all optimizer param groups should be with/without names. cannot add param group without names "
            "to "
            "the optimizer",
        ),
        (
            lambda: SGD([{"params": [parameter()]}, {"params": [("a", parameter())]}]), ValueError,
            "all optimizer param groups should be with/without names. cannot add param group with names to "
            "the "
            "optimizer",
        ),
    ],
)  # fmt: skip
def test_refuses(make, error, text):
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == text


def test_a_parameter_belongs_to_one_group():
    x = parameter()
    with pytest.raises(ValueError, match="^some parameters appear in more than one parameter group$"):
        SGD([{"params": [x]}, {"params": [x]}])
    with pytest.warns(UserWarning, match="parameter group with duplicate parameters; in future"):
        SGD([x, x])


def test_a_tensor_that_retains_its_gradient_can_be_optimized():
    x = parameter() * 2
    x.retain_grad()
    SGD([x])


def test_required_says_so():
    assert repr(base.required) == "<required parameter>"
    optimizer = Demanding([{"params": [parameter()], "depth": 3}])
    assert optimizer.param_groups[0]["depth"] == 3


def test_repr():
    optimizer = SGD([{"params": [parameter()], "lr": 0.5}], nesterov=False)
    assert repr(optimizer) == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n    "
        "fused: None\n"
        "    lr: 0.5\n    maximize: False\n    momentum: 0\n    nesterov: False\n    weight_decay: 0\n)"
    )


def test_repr_sets_groups_apart():
    optimizer = SGD([{"params": [parameter()]}, {"params": [parameter()]}], lr=0.5)
    assert "weight_decay: 0\n\nParameter Group 1\n    dampening: 0\n" in repr(optimizer)


def test_base_has_no_step():
    with pytest.raises(NotImplementedError):
        Optimizer([parameter()], {}).step()


# -- gradients -----------------------------------------------------------------------------------------------
def test_zero_grad():
    x, y = with_gradient(), parameter()
    optimizer = SGD([x, y])
    kept = x.grad
    optimizer.zero_grad(set_to_none=False)
    assert x.grad is kept and kept.tolist() == [0.0, 0.0] and y.grad is None
    optimizer.zero_grad()
    assert x.grad is None


def test_zero_grad_cuts_the_history_of_a_gradient():
    x = parameter()
    (gradient,) = weft.autograd.grad((x**3).sum(), [x], create_graph=True)
    x.grad = gradient
    SGD([x]).zero_grad(set_to_none=False)
    assert x.grad.grad_fn is None and not x.grad.requires_grad and x.grad.tolist() == [0.0, 0.0]


def test_parameters_without_gradient_stay_and_have_no_state():
    x, y = with_gradient(), parameter()
    optimizer = Adam([x, y])
    optimizer.step()
    assert y.tolist() == [1.0, 2.0] and y not in optimizer.state and x in optimizer.state


def test_closure_runs_with_recording_on_and_its_loss_is_given():
    x = parameter(3.0)
    optimizer = SGD([x], lr=0.5)

    def closure():
        assert weft.is_grad_enabled()
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    with weft.no_grad():
        assert optimizer.step(closure).item() == 9.0
        assert not weft.is_grad_enabled()
    assert x.item() == 0.0 and x.grad.item() == 6.0
    assert weft.is_grad_enabled()


def test_grad_mode_is_restored_when_a_step_fails():
    x = with_gradient()
    optimizer = SGD([x])

    def closure():
        raise KeyError("no data")

    with pytest.raises(KeyError):
        optimizer.step(closure)
    assert weft.is_grad_enabled()


# -- state dicts ---------------------------------------------------------------------------------------------
def test_state_dict_numbers_parameters_in_order():
    x, y, z = with_gradient(), parameter(), with_gradient()
    optimizer = Adam([{"params": [x]}, {"params": [y, z], "lr": 0.5}])
    optimizer.step()
    saved = optimizer.state_dict()
    assert list(saved) == ["state", "param_groups"]
    assert [group["params"] for group in saved["param_groups"]] == [[0], [1, 2]]
    assert list(saved["param_groups"][0])[-1] == "params"
    assert list(saved["state"]) == [0, 2]
    assert saved["state"][0]["exp_avg"] is optimizer.state[x]["exp_avg"]


@pytest.mark.parametrize("kind", [SGD, Adam, AdamW, RMSprop])
def test_loading_continues_the_trajectory(kind):
    options = {"lr": 0.1, "momentum": 0.9} if kind in (SGD, RMSprop) else {"lr": 0.1}

    def train(x, optimizer, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            (x**4).sum().backward()
            optimizer.step()

    x = parameter()
    optimizer = kind([x], **options)
    train(x, optimizer, 3)
    saved = pickle.loads(pickle.dumps(optimizer.state_dict()))
    y = weft.nn.Parameter(x.detach().clone())
    other = kind([y], lr=7.0)
    other.load_state_dict(saved)
    train(x, optimizer, 3)
    train(y, other, 3)
    assert weft.equal(x, y)


def test_loading_takes_options_and_copies_groups():
    x = with_gradient()
    optimizer = SGD([x], lr=0.1, momentum=0.5)
    saved = optimizer.state_dict()
    saved["param_groups"][0]["lr"] = 3.0
    saved["param_groups"][0]["extra"] = "kept"
    other = SGD([x], lr=0.2)
    other.load_state_dict(saved)
    assert other.param_groups[0]["lr"] == 3.0 and other.param_groups[0]["extra"] == "kept"
    other.param_groups[0]["lr"] = 4.0
    assert saved["param_groups"][0]["lr"] == 3.0
    assert other.param_groups[0]["params"] == [x]
    assert other.defaults["lr"] == 0.2


def test_loaded_state_takes_the_dtype_of_its_parameter_but_steps_keep_theirs():
    x = with_gradient()
    optimizer = Adam([x])
    optimizer.step()
    y = weft.nn.Parameter(x.detach().double())
    other = Adam([y])
    other.load_state_dict(optimizer.state_dict())
    assert other.state[y]["exp_avg"].dtype is weft.float64
    assert other.state[y]["step"].dtype is weft.float32
    same = Adam([x])
    same.load_state_dict(optimizer.state_dict())
    assert same.state[x]["exp_avg"] is optimizer.state[x]["exp_avg"]  # nothing to convert, nothing copied


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        ([{"params": 1}, {"params": 1}], "loaded state dict has a different number of parameter groups"),
        (
            [{"params": 2}],
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
        ),
    ],
)
def test_loading_what_does_not_fit(groups, text):
    other = SGD([{"params": [parameter() for _ in range(group["params"])]} for group in groups])
    with pytest.raises(ValueError) as caught:
        SGD([parameter()]).load_state_dict(other.state_dict())
    assert str(caught.value) == text


def test_state_under_other_keys_is_kept():
    x = parameter()
    optimizer = SGD([x])
    optimizer.state["global"] = {"count": 3}
    other = SGD([x])
    other.load_state_dict(optimizer.state_dict())
    assert other.state["global"] == {"count": 3}


def test_names():
    model = weft.nn.Linear(2, 1)
    optimizer = SGD(model.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.param_groups[0]["params"][0] is model.weight
    saved = optimizer.state_dict()
    assert saved["param_groups"][0]["param_names"] == ["weight", "bias"]
    plain = SGD(model.parameters())
    plain.load_state_dict(saved)
    assert plain.param_groups[0]["param_names"] == ["weight", "bias"]
    optimizer.load_state_dict(SGD(model.parameters()).state_dict())
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]


# -- hooks ---------------------------------------------------------------------------------------------------
def test_step_hooks_run_in_order():
    optimizer = SGD([with_gradient()])
    seen = []
    note = lambda name: lambda *given: seen.append((name, given[0] is optimizer, given[1:]))
    handles = [
        optimizer.register_step_pre_hook(note("pre")),
        optimizer.register_step_post_hook(note("post")),
        base.register_optimizer_step_pre_hook(note("all pre")),
        base.register_optimizer_step_post_hook(note("all post")),
    ]
    optimizer.step()
    expected = ((optimizer,), {})
    assert seen == [(name, True, expected) for name in ("all pre", "pre", "post", "all post")]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 4


def test_pre_hook_may_change_arguments():
    optimizer = Demanding([{"params": [parameter()], "depth": 1}])
    assert optimizer.step() == "stepped"
    with optimizer.register_step_pre_hook(lambda self, args, kwargs: ((self, lambda: "changed"), {})):
        assert optimizer.step() == "changed"
    assert optimizer.step() == "stepped"
    optimizer.register_step_pre_hook(lambda *_: 3)
    with pytest.raises(
        RuntimeError, match=r"must return None or a tuple of \(new_args, new_kwargs\), but got 3\."
    ):
        optimizer.step()


def test_step_is_wrapped_once_per_class():
    Demanding([{"params": [parameter()], "depth": 1}])
    step = Demanding.step
    Demanding([{"params": [parameter()], "depth": 1}])
    assert Demanding.step is step and step.hooked and step.__name__ == "step"


def test_state_dict_hooks():
    optimizer = SGD([parameter()])
    seen = []
    optimizer.register_state_dict_pre_hook(lambda self: seen.append("second"))
    optimizer.register_state_dict_pre_hook(lambda self: seen.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda self, saved: {**saved, "more": 1})
    optimizer.register_state_dict_post_hook(lambda self, saved: seen.append("more" in saved))
    assert optimizer.state_dict()["more"] == 1
    assert seen == ["first", "second", True]


def test_load_state_dict_hooks():
    optimizer = SGD([parameter()], lr=0.1)
    seen = []

    def double(self, saved):
        group = {**saved["param_groups"][0], "lr": 2 * saved["param_groups"][0]["lr"]}
        return {**saved, "param_groups": [group]}

    optimizer.register_load_state_dict_pre_hook(double)
    optimizer.register_load_state_dict_post_hook(lambda self: seen.append(self.param_groups[0]["lr"]))
    given = optimizer.state_dict()
    optimizer.load_state_dict(given)
    assert seen == [0.2] and given["param_groups"][0]["lr"] == 0.1


# -- copies --------------------------------------------------------------------------------------------------
def test_pickling_keeps_state_and_drops_hooks():
    x = with_gradient()
    optimizer = Adam([x], lr=0.5)
    optimizer.register_step_pre_hook(lambda *_: pytest.fail("hooks are not pickled"))
    optimizer._optimizer_step_pre_hooks.clear()
    optimizer.step()
    loaded = pickle.load(io.BytesIO(pickle.dumps(optimizer)))
    (y,) = loaded.param_groups[0]["params"]
    assert weft.equal(x, y) and y is not x
    assert loaded.state[y]["step"].item() == 1
    y.grad = x.grad.clone()
    loaded.step()
    optimizer.step()
    assert weft.equal(x, y)


def test_deepcopy_of_model_and_optimizer_together():
    model = weft.nn.Linear(2, 2)
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(weft.ones(1, 2)).sum().backward()
    optimizer.step()
    other, others = copy.deepcopy((model, optimizer))
    assert others.param_groups[0]["params"][0] is other.weight
    assert others.state[other.weight]["momentum_buffer"].shape == (2, 2)


@pytest.mark.torch
def test_errors_and_reprs_are_those_of_torch():
    torch = pytest.importorskip("torch")

    def text(library, call):
        try:
            return repr(call(library, library.nn.Parameter(library.ones(2))))
        except Exception as error:
            return type(error), str(error).replace("torch.", "weft.")

    calls = [
        lambda lib, x: lib.optim.Adam([x], lr=0.5),
        lambda lib, x: lib.optim.RMSprop([x]),
        lambda lib, x: lib.optim.AdamW([("w", x)]),
        lambda lib, x: lib.optim.SGD(x),
        lambda lib, x: lib.optim.SGD([x * 2]),
        lambda lib, x: lib.optim.SGD([[x]]),
        lambda lib, x: lib.optim.SGD([{"params": ["x"]}]),
        lambda lib, x: lib.optim.SGD([x], lr="fast"),
        lambda lib, x: lib.optim.Adam([x], betas=(1, 2)),
        lambda lib, x: lib.optim.SGD([{"param": x}]),
    ]
    for call in calls:
        assert text(weft, call) == text(torch, call)
