"""The small GPT: it sees only what came before, and learns."""

from __future__ import annotations

import pytest

import weft
from weft.cli import gpt


@pytest.fixture
def text():
    return gpt.Text("the loom goes to and fro, " * 8)


def test_texts_are_numbers_and_back(text):
    assert text.written(text.numbers) == "the loom goes to and fro, " * 8
    weft.manual_seed(0)
    given, wanted = text.batch(3, 10)
    assert given.shape == wanted.shape == (3, 10)
    assert weft.equal(given[:, 1:], wanted[:, :-1])


def test_nothing_is_known_of_what_comes_later(text):
    model = gpt.GPT(len(text.alphabet), 12, 16, 2, 2)
    given, _ = text.batch(1, 12)
    other = given.clone()
    other[0, 8:] = 0
    assert weft.allclose(model(given)[0, :8], model(other)[0, :8], atol=1e-6)
    assert not weft.allclose(model(given)[0, 8:], model(other)[0, 8:], atol=1e-3)


def test_samples_go_on_from_a_beginning(text):
    model = gpt.GPT(len(text.alphabet), 12, 16, 2, 1)
    written = gpt.sample(model, text, "the ", 20)
    assert written.startswith("the ") and len(written) == 24
    assert len(gpt.sample(model, text, "?", 3)) == 4  # a beginning that the text has nothing of


def test_samples_are_those_of_the_model_alone(text):
    weft.manual_seed(0)
    model = gpt.GPT(len(text.alphabet), 6, 16, 2, 1)
    numbers = [text.known["t"]]
    weft.manual_seed(1)
    for _ in range(10):
        scores = model(weft.tensor([numbers[-6:]]))[0, -1] / 0.8
        numbers.append(int(weft.multinomial(scores.softmax(-1).detach(), 1)))
    weft.manual_seed(1)
    assert gpt.sample(model, text, "t", 10) == text.written(numbers)
