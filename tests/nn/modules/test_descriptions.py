"""Every layer says what its arguments mean, the shapes of what it takes and gives, and shows an example that
holds."""

from __future__ import annotations

import doctest
import inspect

import pytest

import weft
from weft.nn.modules import descriptions

LAYERS = [getattr(weft.nn, name) for name in weft.nn.modules.__all__]
BASES = {base.__name__: base for layer in LAYERS for base in layer.__mro__}


PUBLIC = [value for name, value in vars(weft.nn).items() if isinstance(value, type) and name[0] != "_"]


@pytest.mark.parametrize("layer", PUBLIC, ids=lambda layer: layer.__name__)
def test_each_class_has_all_three_parts(layer: type) -> None:
    text = inspect.cleandoc(layer.__doc__ or "")
    for name, parameter in inspect.signature(layer).parameters.items():
        catches_all = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if not name.startswith("_") and not catches_all:
            assert f"\n- `{name}`: " in text, f"{layer.__name__} does not describe {name}"
    assert text.count("\nShapes:\n\n- ") == 1
    assert "{" not in text.partition(">>> ")[0]
    found = doctest.DocTestFinder(recurse=False).find(layer, globs={"weft": weft})
    assert any(test.examples for test in found), f"{layer.__name__} has no example"
    for test in found:
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__)
def test_shapes_are_those_of_the_class_or_a_family(layer: type) -> None:
    general = descriptions.SHAPES["Module"]
    assert layer is weft.nn.Module or descriptions.shapes(layer) not in (None, general)


def test_the_short_text_comes_first_and_the_example_last() -> None:
    text = weft.nn.Conv2d.__doc__ or ""
    assert text.startswith(
        "A convolution over `(N, C, H, W)` or `(C, H, W)`.\n\nArguments:\n\n- `in_channels`: "
    )
    assert "result `(N, out_channels, H_out, W_out)`" in text
    assert text.index("Shapes:") < text.index(">>> ")


def test_a_class_says_otherwise_than_its_bases() -> None:
    assert "same" in (descriptions.argument(weft.nn.Conv1d, "padding") or "")
    assert "cut off" in (descriptions.argument(weft.nn.ConvTranspose1d, "padding") or "")
    assert descriptions.argument(weft.nn.MaxPool1d, "padding") == descriptions.ARGUMENTS["padding"]


def test_classes_of_users_keep_their_own_docstring() -> None:
    class Told(weft.nn.Linear):
        """Mine."""

    class Untold(weft.nn.Linear):
        pass

    assert Told.__doc__ == "Mine."
    assert Untold.__doc__ is None
    assert (inspect.getdoc(Untold) or "").startswith("`y = x @ weight.T + bias`.")


def test_nothing_is_described_that_is_not_there() -> None:
    for key in descriptions.ARGUMENTS:
        owner, _, name = key.rpartition(".")
        members = [layer for layer in LAYERS if not owner or BASES[owner] in layer.__mro__]
        assert any(name in inspect.signature(layer).parameters for layer in members), key
    assert not [name for name in descriptions.SHAPES if name not in BASES]


def test_compile_describes_every_option() -> None:
    for name in inspect.signature(weft.compile).parameters:
        assert f"- `{name}`: " in (inspect.getdoc(weft.compile) or "")


def test_compiled_code_may_read_the_text() -> None:
    layer = weft.nn.Linear(2, 2)
    compiled = weft.compile(lambda x: x + len(layer.__doc__ or ""), fullgraph=True)
    assert compiled(weft.zeros(1)).item() == len(weft.nn.Linear.__doc__ or "")
