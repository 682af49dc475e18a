"""Anomaly detection: NaN is found where it arises, and the forward line is named."""

from __future__ import annotations

import warnings

import pytest

import weft
from weft.autograd import detect_anomaly, set_detect_anomaly


def watched(**options):
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        return detect_anomaly(**options)


def test_nan_names_the_node_and_the_forward_line():
    with watched():
        x = weft.tensor([-1.0, 0.0], requires_grad=True)
        y = x.sqrt()  # the culprit
        total = y.sum()
        with (
            pytest.warns(
                UserWarning, match="Error detected in SqrtBackward0. Traceback of forward call"
            ) as caught,
            pytest.raises(
                RuntimeError, match="^Function 'SqrtBackward0' returned nan values in its 0th output.$"
            ),
        ):
            total.backward()
    text = str(caught[0].message)
    assert "the culprit" in text
    assert __file__ in text
    assert "weft/tensor" not in text


def test_nan_without_check():
    with watched(check_nan=False):
        assert weft.is_anomaly_enabled()
        assert not weft.is_anomaly_check_nan_enabled()
        x = weft.tensor([-1.0], requires_grad=True)
        x.sqrt().sum().backward()
    assert x.grad.isnan().item()
    assert not weft.is_anomaly_enabled()


def test_forward_outside_the_mode():
    x = weft.tensor([-1.0], requires_grad=True)
    y = x.sqrt().sum()
    with (
        watched(),
        pytest.warns(
            UserWarning, match="SqrtBackward0. No forward pass information available. Enable detect anomaly"
        ),
        pytest.raises(RuntimeError, match="returned nan"),
    ):
        y.backward()


def test_stale_saved_tensors_hint_at_the_traceback():
    with set_detect_anomaly(True):
        x = weft.tensor([1.0], requires_grad=True)
        y = x.exp()  # saved here
        y.add_(1)
        with (
            pytest.warns(UserWarning, match="saved here"),
            pytest.raises(RuntimeError, match="the backtrace further above shows the operation that failed"),
        ):
            y.sum().backward()


def test_gradients_of_gradients_name_both_places():
    with set_detect_anomaly(True):
        x = weft.tensor([0.0], dtype=weft.float64, requires_grad=True)
        y = x.pow(1.5)  # finite slope, infinite curvature
        (first,) = weft.autograd.grad(y.sum(), x, create_graph=True)
        with (
            warnings.catch_warnings(record=True) as caught,
            pytest.raises(RuntimeError, match="returned nan"),
        ):
            warnings.simplefilter("always")
            (first * 0).sum().backward()
    words = [str(warning.message) for warning in caught]
    assert words[0].startswith("Error detected in")
    assert any(
        "Previous calculation was induced by PowBackward0" in text and "finite slope" in text
        for text in words
    )


def test_set_detect_anomaly_as_function():
    set_detect_anomaly(True, check_nan=False)
    try:
        assert weft.is_anomaly_enabled()
        assert not weft.is_anomaly_check_nan_enabled()
    finally:
        set_detect_anomaly(False)
    assert not weft.is_anomaly_enabled()
    assert weft.is_anomaly_check_nan_enabled()


def test_gradients_are_right_under_the_mode():
    with set_detect_anomaly(True):
        x = weft.tensor([1.0, 2.0], requires_grad=True)
        y = x * x
        y.register_hook(lambda g: g * 2)
        y.sum().backward()
    assert x.grad.array.tolist() == [4, 8]


def test_detection_is_switched_by_a_function():
    assert not weft.is_anomaly_enabled()
    weft.set_anomaly_enabled(True, check_nan=False)
    try:
        assert weft.is_anomaly_enabled() and not weft.is_anomaly_check_nan_enabled()
    finally:
        weft.set_anomaly_enabled(False)
    assert not weft.is_anomaly_enabled()
