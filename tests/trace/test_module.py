"""GraphModule: callable, printable, copyable."""

import copy
import functools
import gc
import inspect
import operator
import pickle
import weakref

import pytest

import weft
from weft import nn
from weft.autograd.function_context import FunctionCtx
from weft.graph.graph import Graph
from weft.trace.module import GraphModule


def pair():
    graph = Graph()
    a = graph.placeholder("L_a_", val=weft.ones(10))
    b = graph.placeholder("L_b_", val=weft.ones(10))
    add = graph.call_function(operator.add, (a, b))
    add.meta["val"] = weft.ones(10)
    graph.output((add,))
    return graph


def higher_order(name, module):
    def apply(body, *args, **kwargs):
        return body(*args)

    apply.__name__ = apply.__qualname__ = name
    apply.__module__ = module
    return apply


def test_a_call_runs_the_graph():
    module = GraphModule({}, pair())
    x = weft.arange(10.0)
    assert weft.equal(module(x, x)[0], x + x)
    assert weft.equal(module(L_b_=x, L_a_=x)[0], x + x)
    assert weft.equal(module.forward(x, x)[0], x + x)
    assert isinstance(module, nn.Module)
    assert isinstance(module, GraphModule)


def test_code_and_print(capsys):
    module = GraphModule(nn.Module(), pair())
    assert (
        module.code
        == """\



def forward(self, L_a_, L_b_):
    l_a_ = L_a_
    l_b_ = L_b_
    add = l_a_ + l_b_;  l_a_ = l_b_ = None
    return (add,)
    """
    )
    assert str(module) == f"GraphModule()\n{module.code}"
    text = module.print_readable(namespace="torch")
    assert capsys.readouterr().out == text + "\n"
    assert (
        text
        == """\
class GraphModule(torch.nn.Module):
    def forward(self, L_a_: "f32[10]", L_b_: "f32[10]"):
        l_a_ = L_a_
        l_b_ = L_b_

        # No stacktrace found for following nodes
        add: "f32[10]" = l_a_ + l_b_;  l_a_ = l_b_ = None
        return (add,)
"""
    )
    assert module.print_readable(print_output=False).startswith("class GraphModule(weft.nn.Module):\n")
    assert capsys.readouterr().out == ""


def test_list_of_inputs():
    """A graph of compiled autograd takes its inputs as one list."""
    graph = Graph()
    inputs = graph.placeholder("L_inputs_", type_expr=list)

    class Sized:
        dtype = weft.float32
        shape = ("s0",)

    getitem = graph.call_function(operator.getitem, (inputs, 0))
    first = graph.call_function(weft.clone, (getitem,), name="new_grad")
    result = graph.call_function(operator.mul, (getitem, getitem), name="result")
    second = graph.call_function(weft.clone, (result,), name="new_grad")
    for node in (getitem, first, result, second):
        node.meta = {"val": Sized(), "source": ("hooks.py", 3, "hook", "return grad * grad")}
    graph.output((first, second))
    module = GraphModule({}, graph)
    assert (
        module.print_readable(False, namespace="torch")
        == """\
class GraphModule(torch.nn.Module):
    def forward(self, L_inputs_ : list):
        l_inputs_ = L_inputs_

        # File: hooks.py:3 in hook, code: return grad * grad
        getitem: "f32[s0]" = l_inputs_[0];  l_inputs_ = None
        new_grad: "f32[s0]" = torch.clone(getitem)
        result: "f32[s0]" = getitem * getitem;  getitem = None
        new_grad_1: "f32[s0]" = torch.clone(result);  result = None
        return (new_grad, new_grad_1)
"""
    )
    assert module([weft.tensor([3.0])])[1].item() == 9.0


def custom_function():
    """The graph of a custom Function: two bodies, behind a context."""
    zero = weft.ones(())
    forward = Graph()
    _, x, z = (forward.placeholder(name) for name in ("function_ctx", "l_x_", "l_z_"))
    x.meta["val"] = z.meta["val"] = zero
    mul = forward.call_function(operator.mul, (x, z))
    mul.meta["val"] = zero
    forward.output((mul, [x, z]))
    backward = Graph()
    backward.placeholder("function_ctx")
    backward.output(backward.placeholder("mul", val=zero))
    graph = Graph()
    x, z = graph.placeholder("L_x_", val=zero), graph.placeholder("L_z_", val=zero)
    graph.call_function(FunctionCtx)
    bodies = graph.subgraph("fwd_body_0", forward), graph.subgraph("bwd_body_0", backward)
    apply = higher_order("autograd_function_apply", "weft._functorch.autograd_function")
    node = graph.call_function(apply, (*bodies, x, z), {"args_tensor_mask": [True, False, True]})
    node.meta["val"] = zero
    graph.output((node,))
    return graph


BODIES = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[]", L_z_: "f32[]"):
        l_x_ = L_x_
        l_z_ = L_z_

        # No stacktrace found for following nodes
        function_ctx = torch.autograd.function.FunctionCtx();  function_ctx = None
        fwd_body_0 = self.fwd_body_0
        bwd_body_0 = self.bwd_body_0
        autograd_function_apply: "f32[]" = torch._functorch.autograd_function.autograd_function_apply(\
fwd_body_0, bwd_body_0, l_x_, l_z_, args_tensor_mask = [True, False, True]);  \
fwd_body_0 = bwd_body_0 = l_x_ = l_z_ = None
        return (autograd_function_apply,)

    class fwd_body_0(torch.nn.Module):
        def forward(self, function_ctx, l_x_: "f32[]", l_z_: "f32[]"):
            # No stacktrace found for following nodes
            mul: "f32[]" = l_x_ * l_z_
            return (mul, [l_x_, l_z_])

    class bwd_body_0(torch.nn.Module):
        def forward(self, function_ctx, mul: "f32[]"):
            return mul
"""


def test_sub_graphs_are_nested_classes():
    module = GraphModule({}, custom_function())
    assert module.print_readable(False, namespace="torch") == BODIES
    older = module.print_readable(False, namespace="torch", nested_names=False)
    assert older == BODIES.replace("class fwd_body_0", "class GraphModule").replace(
        "class bwd_body_0", "class GraphModule"
    )


def test_sub_graphs_run():
    inner = Graph()
    inner.output((inner.call_function(operator.mul, (inner.placeholder("l_x_"), inner.get_attr("scale"))),))
    graph = Graph()
    x = graph.placeholder("x")
    apply = higher_order("wrap", "weft.ops")
    graph.output(graph.call_function(apply, (graph.subgraph("wrap_body_0", inner), x)))
    module = GraphModule({"scale": weft.tensor(3.0)}, graph)
    assert module(weft.tensor(2.0))[0].item() == 6.0
    assert isinstance(module.wrap_body_0, GraphModule)
    assert list(module.state_dict()) == ["wrap_body_0.scale"]


def test_graphs_among_arguments_are_nested_classes():
    inner = Graph(name="body")
    inner.output((inner.call_function(operator.neg, (inner.placeholder("a"),)),))
    graph = Graph()
    x = graph.placeholder("x", val=weft.ones(2, 3))
    graph.output(graph.call_function(higher_order("wrap", "weft.ops"), (inner, x)))
    module = GraphModule({}, graph)
    assert module(3) == (-3,)
    assert (
        module.print_readable(False, True, True)
        == """\
class GraphModule(weft.nn.Module):
    def forward(self, x: "f32[2, 3][3, 1]cpu"):
        # No stacktrace found for following nodes
        wrap = weft.ops.wrap(body_0, x);  x = None
        return wrap

    class body_0(weft.nn.Module):
        def body(self, a):
            # No stacktrace found for following nodes
            neg = -a;  a = None
            return (neg,)
"""
    )


def test_submodules():
    module = GraphModule(Layered(), layered_graph())
    assert module.add_submodule("extra.deep", nn.ReLU())
    assert not module.add_submodule("weight.deep", nn.ReLU())
    assert isinstance(module.extra.deep, nn.ReLU)
    module.delete_all_unused_submodules()
    assert [path for path, _ in module.named_modules()] == ["", "layers", "layers.0"]
    assert module.delete_submodule("layers.0")
    assert not module.delete_submodule("layers.0")
    assert not module.delete_submodule("missing.0")


class Layered(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        self.weight = nn.Parameter(weft.ones(2))
        self.register_buffer("shift", weft.ones(2))
        self.plain = 3


def layered_graph():
    graph = Graph()
    x = graph.placeholder("x")
    value = graph.call_module("layers.0", (x,))
    for path in ("weight", "shift", "layers.0.bias", "plain"):
        value = graph.call_function(operator.add, (value, graph.get_attr(path)))
    graph.output(value)
    return graph


def test_attributes_are_taken_from_the_root():
    root = Layered()
    module = GraphModule(root, layered_graph(), "Layered")
    x = weft.randn(3, 2)
    expected = root.layers[0](x) + root.weight + root.shift + root.layers[0].bias + 3
    assert weft.equal(module(x), expected)
    assert type(module).__name__ == "Layered"
    assert getattr(module.layers, "0") is root.layers[0]
    assert set(dict(module.named_parameters())) == {"weight", "layers.0.weight", "layers.0.bias"}
    assert set(dict(module.named_buffers())) == {"shift"}
    same = GraphModule({path: getattr(root, path) for path in ("weight", "shift", "plain")} | {
        "layers.0": root.layers[0], "layers.0.bias": root.layers[0].bias,
    }, layered_graph())  # fmt: skip
    assert weft.equal(same(x), expected)


@pytest.mark.parametrize("root", [None, {}, nn.Module()])
def test_missing_attribute(root):
    graph = Graph()
    graph.output(graph.get_attr("a.b"))
    with pytest.raises(RuntimeError, match=r"the graph reads 'a\.b', but the root"):
        GraphModule(root, graph)


def test_training_follows_the_root():
    assert not GraphModule(nn.Module().eval(), pair()).training


def test_recompile():
    module = GraphModule({}, pair())
    add = module.graph.nodes[2]
    add.target = operator.sub
    x = weft.ones(10)
    assert module(x, x)[0][0].item() == 2.0
    module.recompile()
    assert module(x, x)[0][0].item() == 0.0
    module.graph = pair()
    assert module(x, x)[0][0].item() == 2.0


def test_each_module_has_its_own_forward():
    one = GraphModule({}, pair())
    graph = Graph()
    graph.output(7)
    other = GraphModule({}, graph, "Seven")
    x = weft.ones(10)
    assert (one(x, x)[0][0].item(), other()) == (2.0, 7)
    assert (type(one).__name__, type(other).__name__) == ("GraphModule", "Seven")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(copied):
    module = GraphModule(Layered(), layered_graph(), "Layered")
    module.eval()
    other = copied(module)
    x = weft.randn(3, 2)
    assert weft.equal(module(x), other(x))
    assert (other.code, type(other).__name__, other.training) == (module.code, "Layered", False)
    assert (other.weight is module.weight) is (copied is copy.copy)
    other.graph.output_node().args = (1,)
    other.recompile()
    assert other(x) == 1
    assert weft.equal(module(x), module(x))


def test_a_subclass_stays_one():
    class Mine(GraphModule):
        def extra(self):
            return 5

    assert Mine({}, pair()).extra() == 5


def test_modules_and_constants_are_let_go():
    class Held:
        pass

    held = Held()
    graph = Graph()
    graph.output((held,))
    module = GraphModule({}, graph)
    watch = weakref.ref(module), weakref.ref(held)
    del module, held, graph
    gc.collect()
    assert watch[0]() is watch[1]() is None


def test_gradients_flow():
    module = GraphModule(Layered(), layered_graph())
    module(weft.randn(3, 2)).sum().backward()
    assert module.weight.grad.tolist() == [3.0, 3.0]


# -- put off -------------------------------------------------------------------------------------------------
def test_forward_may_be_generated_when_it_is_called_first():
    module = GraphModule({}, pair(), lazily=True)
    kept = module.forward
    x = weft.arange(10.0)
    assert weft.equal(kept(x, x)[0], x + x)
    assert inspect.signature(module.forward).parameters.keys() == {"L_a_", "L_b_"}
    assert weft.equal(kept(x, x)[0], x + x)


def test_compilers_that_read_graphs_need_no_forward():
    def reads(graph_module, inputs): ...

    reads.reads_graph = True
    module = GraphModule({}, pair(), lazily=True)
    put_off = type(module).forward
    module.materialise(functools.partial(reads, mode="fast"))
    assert type(module).forward is put_off
    module.materialise(lambda graph_module, inputs: None)
    assert type(module).forward is not put_off


def test_backends_of_users_get_modules_with_a_forward_of_their_own():
    seen = []

    def backend(graph_module, inputs):
        seen.append(inspect.signature(graph_module.forward))
        return graph_module.forward

    weft.compile(lambda a, b: a + b, backend=backend)(weft.ones(3), weft.ones(3))
    assert [*seen[0].parameters] == ["L_a_", "L_b_"]


def test_wrappers_of_compilers_that_read_graphs_may_call_modules() -> None:
    """What a module computes does not follow changes of its graph, until it is told to recompile."""

    @functools.wraps(weft.compiler.lookup_backend("native"))
    def changing(module: GraphModule, _inputs: list[weft.Tensor]) -> object:
        for node in module.graph.nodes:
            if node.op == "call_function":
                node.target = operator.sub
        return module.forward

    assert weft.compile(lambda x: x + 2, backend=changing)(weft.ones(1)).item() == 3
