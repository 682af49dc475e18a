"""What a module holds, how it is named, walked over, called, shown and copied."""

import copy
import pickle

import pytest

import weft
from weft import nn
from weft.core.seams import seams
from weft.nn.modules import module as module_file


class Echo(nn.Module):
    def forward(self, *args, **kwargs):
        return args, kwargs


class Scale(nn.Module):
    def __init__(self, factor=2.0):
        super().__init__()
        self.weight = nn.Parameter(weft.tensor([factor]))

    def forward(self, x):
        return x * self.weight


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(weft.ones(2))
        self.register_buffer("b", weft.ones(2))
        self.child = Scale()
        self.plain = None


class Unready(nn.Module):
    def __init__(self):
        pass


# -- attributes ----------------------------------------------------------------------------------------------
def test_attributes_are_filed_by_kind():
    m = Mixed()
    assert list(m._parameters) == ["w"]
    assert list(m._buffers) == ["b"]
    assert list(m._modules) == ["child"]
    assert m.__dict__["plain"] is None
    m.plain = nn.Parameter(weft.ones(1))
    assert "plain" not in m.__dict__ and "plain" in m._parameters
    m.b = nn.Parameter(weft.ones(1))
    assert list(m._buffers) == [] and list(m._parameters) == ["w", "plain", "b"]
    m.child = nn.Parameter(weft.ones(1))
    assert list(m._modules) == []
    m.w = None
    assert m._parameters["w"] is None


def test_a_module_may_replace_a_buffer_but_no_parameter():
    m = Mixed()
    m.b = Scale()
    assert list(m._buffers) == [] and list(m._modules) == ["child", "b"]
    with pytest.raises(TypeError, match=r"as parameter 'w' \(weft.nn.Parameter or None expected\)"):
        m.w = Scale()


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("w", weft.ones(2), "cannot assign 'weft.FloatTensor' as parameter 'w'"),
        ("w", 3, "cannot assign 'int' as parameter 'w'"),
        ("child", 3, "cannot assign 'int' as child module 'child' (weft.nn.Module or None expected)"),
        ("child", weft.ones(1), "cannot assign 'weft.FloatTensor' as child module 'child'"),
        ("b", "x", "cannot assign 'str' as buffer 'b' (weft.nn.Buffer, weft.Tensor or None expected)"),
    ],
)
def test_wrong_kinds_are_refused(name, value, text):
    with pytest.raises(TypeError) as caught:
        setattr(Mixed(), name, value)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (nn.Parameter(weft.ones(1)), "cannot assign parameters before Module.__init__() call"),
        (Scale(), "cannot assign module before Module.__init__() call"),
        (nn.Buffer(weft.ones(1)), "cannot assign buffer before Module.__init__() call"),
    ],
)
def test_nothing_can_be_assigned_before_init(value, text):
    with pytest.raises(AttributeError) as caught:
        Unready().thing = value
    assert str(caught.value) == text


def test_unready_modules_say_so():
    with pytest.raises(AttributeError, match="cannot assign parameter before"):
        Unready().register_parameter("p", None)
    with pytest.raises(AttributeError, match="cannot assign buffer before"):
        Unready().register_buffer("p", None)
    with pytest.raises(AttributeError, match="'Unready' object has no attribute '_backward_hooks'"):
        Unready()(1)
    with pytest.raises(AttributeError, match="'Unready' object has no attribute 'weight'"):
        Unready().weight


@pytest.mark.parametrize("kind", ["parameter", "buffer", "module"])
@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        (1, TypeError, "{} name should be a string. Got int"),
        ("a.b", KeyError, '{} name can\'t contain "."'),
        ("", KeyError, '{} name can\'t be empty string ""'),
        ("training", KeyError, "attribute 'training' already exists"),
        ("forward", KeyError, "attribute 'forward' already exists"),
    ],
)
def test_names_are_checked(kind, name, error, text):
    with pytest.raises(error) as caught:
        getattr(nn.Module(), f"register_{kind}")(name, None)
    assert caught.value.args[0].startswith(text.format(kind))


def test_registration_refuses_other_kinds():
    m = nn.Module()
    with pytest.raises(TypeError, match="cannot assign 'weft.FloatTensor' object to parameter 'p'"):
        m.register_parameter("p", weft.ones(1))
    with pytest.raises(TypeError, match=r"'int' object to buffer 'p' \(weft Tensor or None required\)"):
        m.register_buffer("p", 3)
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        m.add_module("p", 3)
    computed = nn.Parameter(weft.ones(1)) * 1
    computed._is_param = True
    with pytest.raises(ValueError, match="Cannot assign non-leaf Tensor to parameter 'p'"):
        m.register_parameter("p", computed)


def test_deleting():
    m = Mixed()
    m.register_buffer("u", weft.ones(1), persistent=False)
    for name in ("w", "b", "child", "u", "plain"):
        delattr(m, name)
        assert not hasattr(m, name)
    assert m._non_persistent_buffers_set == set()
    with pytest.raises(AttributeError):
        del m.w


def test_buffers_keep_their_persistence_until_told():
    m = nn.Module()
    m.x = nn.Buffer(weft.ones(1), persistent=False)
    assert m._non_persistent_buffers_set == {"x"}
    m.x = weft.zeros(1)
    assert m._non_persistent_buffers_set == {"x"} and m._buffers["x"].item() == 0
    m.x = nn.Buffer(weft.ones(1))
    assert m._non_persistent_buffers_set == set()
    m.x = None
    assert m._buffers == {"x": None}


def test_a_subclass_without_persistent_in_its_register_buffer():
    class Old(nn.Module):
        def register_buffer(self, name, tensor):
            super().register_buffer(name, tensor)

    m = Old()
    m.x = nn.Buffer(weft.ones(1))
    assert list(m._buffers) == ["x"]
    with pytest.raises(RuntimeError, match="Registering a non-persistent buffer"):
        m.y = nn.Buffer(weft.ones(1), persistent=False)


def test_init_takes_no_arguments_unless_it_passes_them_on():
    with pytest.raises(TypeError, match=r"^Echo.__init__\(\) got an unexpected keyword argument 'a'$"):
        Echo(a=1)
    with pytest.raises(TypeError, match=r"^Echo.__init__\(\) takes 1 positional argument but 3 were given$"):
        Echo(1, 2)

    class Base:
        def __init__(self, a, b=0):
            self.seen = (a, b)

    class Both(nn.Module, Base):
        call_super_init = True

    assert Both(1, b=2).seen == (1, 2)


# -- finding -------------------------------------------------------------------------------------------------
def test_finding_by_dotted_name():
    m = Mixed()
    assert m.get_submodule("") is m
    assert m.get_submodule("child") is m.child
    assert m.get_parameter("child.weight") is m.child.weight
    assert m.get_buffer("b") is m.b


@pytest.mark.parametrize(
    ("method", "path", "text"),
    [
        ("get_submodule", "w", "`w` is not an nn.Module"),
        ("get_submodule", "child.none", "Scale has no attribute `none`"),
        ("get_parameter", "b", "`b` is not an nn.Parameter"),
        ("get_parameter", "none.w", "Mixed has no attribute `none`"),
        ("get_parameter", "child.weight.x", "`weight` is not an nn.Module"),
        ("get_buffer", "w", "`w` is not a buffer"),
        ("get_buffer", "", "Mixed has no attribute ``"),
    ],
)
def test_what_is_not_there(method, path, text):
    with pytest.raises(AttributeError) as caught:
        getattr(Mixed(), method)(path)
    assert str(caught.value) == text


def test_set_submodule():
    m = Mixed()
    new = Echo()
    m.set_submodule("child", new, strict=True)
    assert m.child is new
    m.set_submodule("child.inner", Scale())
    assert isinstance(m.child.inner, Scale)
    with pytest.raises(ValueError, match="Cannot set the submodule without a target name!"):
        m.set_submodule("", new)
    with pytest.raises(AttributeError, match="Mixed has no attribute `other`"):
        m.set_submodule("other", new, strict=True)
    with pytest.raises(AttributeError, match="`w` is not an nn.Module"):
        m.set_submodule("w", new)
    with pytest.raises(ValueError, match="`module` is not an nn.Module, found <class 'int'>"):
        m.set_submodule("child", 3)


# -- walking -------------------------------------------------------------------------------------------------
def test_walks_name_each_thing_once():
    shared = Scale()
    root = nn.Module()
    root.a, root.b, root.none = shared, shared, None
    root._modules["none"] = None
    root.w = shared.weight
    assert [name for name, _ in root.named_modules()] == ["", "a"]
    assert [name for name, _ in root.named_modules(prefix="p", remove_duplicate=False)] == ["p", "p.a", "p.b"]
    assert [name for name, _ in root.named_children()] == ["a"]
    assert [name for name, _ in root.named_parameters()] == ["w"]
    assert [name for name, _ in root.named_parameters(prefix="p", remove_duplicate=False)] == [
        "p.w",
        "p.a.weight",
        "p.b.weight",
    ]
    assert [name for name, _ in root.named_parameters(recurse=False)] == ["w"]
    assert list(root.modules()) == [root, shared]
    assert list(root.children()) == [shared]


def test_buffers_are_walked_alike():
    m = Mixed()
    m.child.register_buffer("c", weft.zeros(1))
    m.child.register_buffer("none", None)
    assert [name for name, _ in m.named_buffers()] == ["b", "child.c"]
    assert list(m.buffers(recurse=False)) == [m.b]


def test_apply_goes_from_the_leaves_to_the_root():
    seen = []
    m = Mixed()
    assert m.apply(seen.append) is m
    assert seen == [m.child, m]


def test_train_and_eval():
    m = Mixed()
    assert m.eval() is m and not m.training and not m.child.training
    assert m.train().child.training
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        m.train(1)


def test_requires_grad_and_zero_grad():
    m = Mixed()
    m.requires_grad_(False)
    assert not m.w.requires_grad and not m.child.weight.requires_grad
    m.requires_grad_(True)
    m.w.grad = m.w * 2
    kept = m.w.grad
    m.zero_grad(set_to_none=False)
    assert m.w.grad is kept and kept.grad_fn is None and kept.tolist() == [0, 0]
    m.zero_grad()
    assert m.w.grad is None


# -- calling -------------------------------------------------------------------------------------------------
def test_calls_reach_forward_as_they_are():
    assert Echo()(1, 2, a=3) == ((1, 2), {"a": 3})
    with pytest.raises(
        NotImplementedError, match=r'Module \[Module\] is missing the required "forward" function'
    ):
        nn.Module()(1)


def test_forward_may_be_set_on_the_instance():
    m = Echo()
    m.forward = lambda x: x + 1
    assert m(1) == 2


def test_compile_is_the_compilers():
    m = nn.Linear(2, 2)
    x = weft.ones(1, 2)
    eager = m(x)
    m.compile(fullgraph=True)
    assert m._compiled_call_impl is not None and weft.equal(m(x), eager)


def test_compile_goes_through_its_seam(monkeypatch):
    monkeypatch.setattr(seams, "compile", lambda call, **options: lambda *a: (call(*a), options))
    m = Echo()
    m.compile(mode="x")
    assert m(1) == (((1,), {}), {"mode": "x"})
    assert pickle.loads(pickle.dumps(m))(1) == ((1,), {})


def test_compiled_forms_of_forward_come_by_the_seam(monkeypatch):
    m = Echo()
    asked = []
    monkeypatch.setattr(seams, "callee", lambda f: asked.append(f) or (lambda *a: "compiled"))
    assert m(1) == "compiled"
    assert asked == [m.forward]


# -- registration hooks --------------------------------------------------------------------------------------
def test_registration_hooks_of_all_modules():
    log = []
    other = nn.Parameter(weft.zeros(1))
    handles = [
        module_file.register_module_parameter_registration_hook(
            lambda m, n, p: log.append(("p", n)) or other
        ),
        module_file.register_module_buffer_registration_hook(lambda m, n, b: log.append(("b", n))),
        module_file.register_module_module_registration_hook(lambda m, n, c: log.append(("m", n))),
    ]
    try:
        m = Mixed()
    finally:
        for handle in handles:
            handle.remove()
    assert log == [("p", "w"), ("b", "b"), ("p", "weight"), ("m", "child")]
    assert m.w is other
    nn.Module().x = Scale()
    assert len(log) == 4


# -- showing -------------------------------------------------------------------------------------------------
class Described(nn.Module):
    def __init__(self, text):
        super().__init__()
        self.text = text

    def extra_repr(self):
        return self.text


def test_repr():
    assert repr(nn.Module()) == "Module()"
    assert repr(Described("a=1")) == "Described(a=1)"
    assert repr(Described("a\nb")) == "Described(\n  a\n  b\n)"
    m = Described("a=1")
    m.none = Described("b\nc")
    m.register_module("other", None)
    assert repr(m) == "Described(\n  a=1\n  (none): Described(\n    b\n    c\n  )\n  (other): None\n)"


def test_dir_lists_what_can_be_asked_for():
    m = Mixed()
    m._modules["0"] = Echo()
    names = dir(m)
    assert {"w", "b", "child", "plain", "forward", "training"} <= set(names)
    assert "0" not in names and names == sorted(names)


# -- copies --------------------------------------------------------------------------------------------------
def hook_for_pickles(module, *_rest):
    module.seen = True


def test_deepcopy_keeps_shared_parameters_shared():
    m = Mixed()
    m.again = m.w
    m.w.grad = weft.ones(2)
    c = copy.deepcopy(m)
    assert c.w is c.again and c.w is not m.w and isinstance(c.w, nn.Parameter)
    c.w.data.fill_(7)
    assert m.w.tolist() == [1, 1]
    assert list(c.state_dict()) == list(m.state_dict())


def test_pickles():
    m = Mixed()
    m.again = m.w
    m.register_forward_hook(hook_for_pickles)
    c = pickle.loads(pickle.dumps(m))
    assert type(c) is Mixed and c.w is c.again and len(c._forward_hooks) == 1
    assert c.child(weft.ones(1)).item() == 2


def test_a_copied_hook_is_given_the_copy():
    m = Mixed()
    m.register_load_state_dict_pre_hook(hook_for_pickles)
    c = copy.deepcopy(m)
    c.load_state_dict(c.state_dict())
    assert c.seen and not hasattr(m, "seen")


def test_old_pickles_lack_tables():
    state = Scale().__getstate__()
    for table in ("_forward_hooks_with_kwargs", "_backward_pre_hooks", "_is_full_backward_hook"):
        del state[table]
    m = Scale.__new__(Scale)
    m.__setstate__(state)
    m.register_full_backward_pre_hook(lambda *_: None)
    assert m(weft.ones(1)).item() == 2
