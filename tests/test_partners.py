"""einops and opt_einsum on tensors: told whether they come before Weft or after; tried where installed."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest

import weft
from weft import partners


def test_functions_in_the_spelling_of_numpy():
    a, b = np.random.rand(2, 3, 4).astype("f4"), np.random.rand(4, 3, 5).astype("f4")
    found = partners.tensordot(weft.from_numpy(a), weft.from_numpy(b), axes=((2, 1), (0, 1)))
    np.testing.assert_allclose(found.numpy(), np.tensordot(a, b, ((2, 1), (0, 1))), rtol=1e-5)
    assert partners.transpose(weft.from_numpy(a), (2, 0, 1)).shape == (4, 2, 3)


def test_what_einops_is_told():
    module = SimpleNamespace(AbstractBackend=object, _loaded_backends={})
    partners.register_einops(module)
    backend = module._loaded_backends["weft"]
    x = weft.arange(24.0).reshape(2, 3, 4)
    assert backend.is_appropriate_type(x) and not backend.is_appropriate_type(x.numpy())
    for operation in ("sum", "mean", "max", "min", "prod"):
        expected = getattr(np, operation)(x.numpy(), axis=(0, 2))
        np.testing.assert_allclose(backend.reduce(x, operation, (0, 2)).numpy(), expected)
    assert backend.reduce(x > 0, "any", [1]).shape == (2, 4)
    with pytest.raises(NotImplementedError):
        backend.reduce(x, "mode", (0,))
    assert backend.transpose(x, (2, 0, 1)).shape == (4, 2, 3)
    assert backend.tile(x, (1, 2, 1)).shape == (
        2,
        6,
        4,
    )
    assert backend.add_axes(x, 5, {1: 7, 3: 2}).shape == (2, 7, 3, 2, 4)
    assert backend.stack_on_zeroth_dimension([x, x]).shape == (2, 2, 3, 4)
    assert backend.concat([x, x], 1).shape == (2, 6, 4)
    assert backend.from_numpy(np.ones(2)).requires_grad and backend.to_numpy(x) is not None
    assert backend.arange(1, 3).tolist() == [1, 2] and backend.is_float_type(x)
    assert backend.einsum("ij,jk->ik", x[0], x[0].t()).shape == (3, 3)


@pytest.mark.parametrize("first", ["weft", "einops"])
def test_partners_are_told_whoever_comes_first(tmp_path, first):
    """With stand-ins of the modules that matter, in an interpreter of its own."""
    for name, text in {
        "einops/__init__.py": "from einops import _backends, einops",
        "einops/_backends.py": "class AbstractBackend: pass\n_loaded_backends = {}",
        "einops/einops.py": "def rearrange(x): return x",
        "opt_einsum/__init__.py": "import opt_einsum.backends.dispatch",
        "opt_einsum/backends/__init__.py": "",
        "opt_einsum/backends/dispatch.py": "_aliases = {}",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    order = ["import weft", "import einops, opt_einsum"]
    source = f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        {"; ".join(order if first == "weft" else order[::-1])}
        assert "weft" in einops._backends._loaded_backends
        assert opt_einsum.backends.dispatch._aliases == {{"weft": "weft.partners"}}
        weft.compiler
        assert einops.einops.rearrange._weft_capture_policy
    """
    subprocess.run([sys.executable, "-W", "error", "-c", textwrap.dedent(source)], check=True)


def test_einops():
    einops = pytest.importorskip("einops")
    x = weft.randn(2, 3, 4, 6, requires_grad=True)
    for pattern, options in [
        ("b c h w -> b (h w) c", {}),
        ("b c (h two) w -> b (c two) h w", {"two": 2}),
        ("b c h w -> (b h) (c w)", {}),
    ]:
        found = einops.rearrange(x, pattern, **options)
        assert weft.equal(found, weft.from_numpy(einops.rearrange(x.detach().numpy(), pattern, **options)))
    for operation in ("mean", "max", "sum", "prod"):
        found = einops.reduce(x, "b c (h 2) w -> b h c", operation)
        expected = einops.reduce(x.detach().numpy(), "b c (h 2) w -> b h c", operation)
        np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    assert einops.repeat(x, "b c h w -> b c (h 2) w r", r=3).shape == (2, 3, 8, 6, 3)
    assert einops.einsum(x, x, "b c h w, b c k w -> b h k").shape == (2, 4, 4)
    packed, shapes = einops.pack([x, x[0]], "* c h w")
    assert packed.shape == (3, 3, 4, 6) and len(einops.unpack(packed, shapes, "* c h w")) == 2
    weft.compile(lambda x: einops.rearrange(x.sin(), "b c h w -> b (h w) c").sum(), fullgraph=True)(
        x
    ).backward()
    weft.testing.assert_close(x.grad, x.detach().cos())


def test_opt_einsum():
    opt_einsum = pytest.importorskip("opt_einsum")
    a, b, c = weft.randn(3, 4), weft.randn(4, 5, requires_grad=True), weft.randn(5, 6)
    found = opt_einsum.contract("ij,jk,kl->il", a, b, c)
    weft.testing.assert_close(found, a @ b @ c, rtol=1e-4, atol=1e-5)
    found.sum().backward()
    assert b.grad.shape == b.shape
    found = opt_einsum.contract("abc,cd,b->da", weft.ones(2, 3, 4), weft.ones(4, 2), weft.ones(3))
    assert found.tolist() == [[12.0] * 2] * 2
    function = weft.compile(lambda a, b, c: opt_einsum.contract("ij,jk,kl->il", a, b, c), fullgraph=True)
    weft.testing.assert_close(function(a, b, c), a @ b @ c, rtol=1e-4, atol=1e-5)
