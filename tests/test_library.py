"""weft.library: registering by name, `define` and `impl`, and what `opcheck` finds."""

import pytest

import weft
from weft import Tensor, library
from weft.autograd.custom_op import DEFINITIONS


@pytest.fixture(autouse=True)
def forget():
    yield
    for definition in list(DEFINITIONS.values()):
        definition._destroy()


def square(x: Tensor) -> Tensor:
    return x.detach() ** 2


def complete():
    op = library.custom_op("mine::square", square, mutates_args=())
    op.register_fake(lambda x: weft.empty_like(x))
    op.register_autograd(
        lambda ctx, g: 2 * g * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return op


def test_registering_by_name():
    library.custom_op("mine::square", square, mutates_args=())
    fake = library.register_fake("mine::square")(lambda x: weft.empty_like(x))
    assert fake(weft.ones(2)).shape == (2,)
    library.register_autograd(
        "mine::square",
        lambda ctx, g: g * ctx.twice,
        setup_context=lambda ctx, inputs, output: setattr(ctx, "twice", 2 * inputs[0]),
    )
    library.register_vmap("mine::square", lambda info, dims, x: (x**2, dims[0]))
    x = weft.tensor([1.0, 3.0], requires_grad=True)
    weft.ops.mine.square(x).sum().backward()
    assert x.grad.tolist() == [2, 6]
    assert weft.vmap(weft.ops.mine.square)(x.detach()).tolist() == [1, 9]
    library.register_kernel(weft.ops.mine.square.default, "cpu", lambda x: x * 0)
    assert library.ops.mine.square(x.detach()).tolist() == [0, 0]
    assert weft.ops.mine.square(weft.ones(3, device="meta")).shape == (3,)


def test_unknown_ops_are_refused():
    for register in (library.register_fake, library.register_vmap):
        with pytest.raises(RuntimeError, match="operator mine::nonesuch does not exist"):
            register("mine::nonesuch", lambda x: x)
        with pytest.raises(ValueError, match=r"\(3\): got unexpected type for op: <class 'int'>"):
            register(3, lambda x: x)
    with pytest.raises(AttributeError, match="'_OpNamespace' 'nonesuch' object has no attribute 'op'"):
        library.ops.nonesuch.op


def test_define_and_impl():
    library.define("mine::twice", "(Tensor x, float k=2.0) -> Tensor")
    with pytest.raises(NotImplementedError, match="Could not run 'mine::twice'"):
        weft.ops.mine.twice(weft.ones(1))

    @library.impl("mine::twice", "cpu")
    def kernel(x, k):
        return x * k

    assert weft.ops.mine.twice(weft.ones(1)).item() == 2 and kernel(weft.ones(1), 1).item() == 1
    library.impl("mine::twice", "default", lambda x, k: x * k * 2)
    assert weft.ops.mine.twice(weft.ones(1), 1.0).item() == 2
    assert "mine" in dir(library.ops)


def test_namespaces_that_are_modules_too():
    library.custom_op("linalg::square", square, mutates_args=())
    assert library.ops.linalg.square(weft.ones(1)).item() == 1
    assert weft.ops.linalg.__name__ == "weft.ops.linalg"


def test_opcheck_passes_what_is_right():
    names = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    success = dict.fromkeys(names, "SUCCESS")
    op = complete()
    x = weft.rand(3, requires_grad=True)
    assert library.opcheck(op, (x,)) == success
    assert library.opcheck(weft.ops.mine.square, (x.detach(),)) == success
    assert library.opcheck("mine::square", (), {"x": x}, test_utils="test_schema") == {
        "test_schema": "SUCCESS"
    }
    assert x.grad is None

    @library.custom_op("mine::write", mutates_args={"x"})
    def write(x: Tensor, xs: list[Tensor]) -> None:
        x.add_(xs[0])

    kept = weft.ones(2)
    assert library.opcheck(write, (kept, [weft.ones(2)])) == success
    assert kept.tolist() == [1, 1]


def test_opcheck_finds():
    x = weft.rand(3, requires_grad=True)
    op = library.custom_op("mine::square", square, mutates_args=())
    with pytest.raises(
        library.OpCheckError, match=r"opcheck\(op, ...\): test_faketensor failed with There was no fake"
    ):
        library.opcheck(op, (x,))
    op = complete()
    op.register_fake(lambda x: weft.empty(7))
    with pytest.raises(
        library.OpCheckError, match="the fake impl of .* gives f32.7., but its kernel gives f32.3."
    ):
        library.opcheck(op, (x,))
    op = complete()
    factors = iter(range(9))
    op.register_autograd(lambda ctx, g: g * next(factors))
    with pytest.raises(library.OpCheckError, match="but the gradient rule alone gives"):
        library.opcheck(op, (x,))

    @library.custom_op("mine::sneaky", mutates_args=())
    def sneaky(x: Tensor) -> Tensor:
        x.add_(1)
        return x.clone()

    sneaky.register_fake(lambda x: weft.empty_like(x))
    found = library.opcheck(sneaky, (weft.ones(2),), raise_exception=False)
    assert "Argument x is not defined as mutable but was mutated" in str(found["test_schema"])
    assert found["test_faketensor"] == "SUCCESS"
    with pytest.raises(RuntimeError, match="test_util 'test_more' is none of"):
        library.opcheck(op, (x,), test_utils="test_more")


def test_a_library_defines_and_forgets() -> None:
    with weft.library._scoped_library("scoped", "FRAGMENT") as made:
        assert made.define("twice(Tensor x) -> Tensor") == "twice"
        made.impl("twice", lambda x: x * 2, "CPU")
        made.impl("twice", lambda x: weft.empty_like(x), "Meta")
        assert weft.ops.scoped.twice(weft.ones(2)).tolist() == [2.0, 2.0]
        assert weft.ops.scoped.twice.default(weft.ones(2, device="meta")).is_meta
        compiled = weft.compile(lambda x: weft.ops.scoped.twice(x) + 1, fullgraph=True, backend="eager")
        assert compiled(weft.ones(2)).tolist() == [3.0, 3.0]
    with pytest.raises(AttributeError):
        weft.ops.scoped.twice


def test_implementations_by_decorator() -> None:
    made = weft.library.Library("decorated", "DEF")
    try:
        made.define("thrice(Tensor x) -> Tensor")

        @weft.library.impl(made, "thrice", "CompositeExplicitAutograd")
        def thrice(x: weft.Tensor) -> weft.Tensor:
            return x * 3

        assert thrice(weft.ones(1)).item() == 3
        assert weft.ops.decorated.thrice(weft.ones(1)).item() == 3
        with pytest.raises(TypeError, match="required to be a callable"):
            made.impl("thrice", 3)  # type: ignore[arg-type]
    finally:
        made._destroy()
    with pytest.raises(ValueError, match="Unsupported kind"):
        weft.library.Library("decorated", "OTHER")
    with pytest.raises(RuntimeError, match="cannot define new operators"):
        weft.library.Library("decorated", "IMPL").define("f(Tensor x) -> Tensor")
