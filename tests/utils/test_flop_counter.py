"""Counting operations: totals as PyTorch's for the same programs, by module, with formulas of users."""

from __future__ import annotations

import pytest

import weft
from weft import nn
from weft.nn import functional as F
from weft.ops import aten
from weft.utils import flop_counter
from weft.utils.flop_counter import FlopCounterMode, register_flop_formula


def counted(work):
    with FlopCounterMode(display=False) as counter:
        work()
    return counter


def leaf(*shape):
    return weft.randn(*shape, requires_grad=True)


def attention():
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True), weft.randn(2, 5, 8)
    layer(x, x, x)[0].sum().backward()


@pytest.mark.parametrize(
    ("work", "total"),
    [
        (lambda: weft.randn(2, 3) @ weft.randn(3, 4), 48),
        (lambda: F.linear(leaf(2, 5, 3), leaf(4, 3), leaf(4)).sum().backward(), 3 * 240),
        (lambda: F.conv1d(leaf(2, 4, 5), leaf(6, 4, 3)).sum().backward(), 3 * 864),
        (lambda: F.conv_transpose1d(leaf(2, 3, 5), leaf(3, 4, 3), stride=2).sum().backward(), 2160),
        (lambda: F.conv1d(leaf(2, 4, 5), leaf(6, 2, 3), groups=2).sum().backward(), 1728),
        (lambda: weft.einsum("bij,bkj->bik", leaf(2, 3, 5), leaf(2, 3, 5)).sum().backward(), 3 * 180),
        (lambda: weft.baddbmm(weft.ones(2, 3, 3), weft.ones(2, 3, 5), weft.ones(2, 5, 3)), 180),
        (attention, 16320),
    ],
)
def test_totals(work, total):
    assert counted(work).get_total_flops() == total


def model():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))


def test_modules_are_charged_in_forward_and_backward():
    net = model()
    counts = counted(lambda: net(leaf(2, 3, 8, 8)).sum().backward()).get_flop_counts()
    totals = {name: sum(each.values()) for name, each in counts.items()}
    assert totals == {"Global": 55296, "Sequential": 55296, "Sequential.0": 46656, "Sequential.3": 8640}
    assert counts["Sequential.3"] == {aten.addmm: 2880, aten.mm: 5760}


def test_the_table_names_modules_operators_and_parts(capsys):
    net = model()
    with FlopCounterMode(depth=1):
        net(weft.randn(2, 3, 8, 8))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if "-" * 5 not in line] == [
        ["Module", "FLOP", "%", "Total"],
        ["Sequential", "18.432K", "100.00%"],
        ["-", "aten.convolution", "15.552K", "84.38%"],
        ["-", "aten.addmm", "2.880K", "15.62%"],
    ]


def test_what_is_outside_of_modules_is_in_the_table_too():
    net, x = nn.Linear(3, 4), weft.randn(2, 3)

    def work():
        net(x)
        x @ weft.ones(3, 3)

    table = counted(work).get_table()
    assert table.splitlines()[2].split() == ["Global", "84", "100.00%"]
    assert "   - aten.addmm" in table or " - aten.addmm" in table


def test_nothing_counted():
    assert counted(lambda: weft.ones(2) + 1).get_table().splitlines()[-1].split() == ["Global", "0", "0%"]


def test_formulas_of_users():
    @weft.library.custom_op("tests_flops::twice", mutates_args=())
    def twice(x: weft.Tensor) -> weft.Tensor:
        return x * 2

    packet = weft.ops.tests_flops.twice
    try:
        register_flop_formula(packet)(lambda shape, out_shape=None, **_more: shape[0])
        assert counted(lambda: packet(weft.ones(7))).get_total_flops() == 7
        with pytest.raises(RuntimeError, match="duplicate registrations"):
            register_flop_formula(packet)(lambda *_args, **_more: 0)
    finally:
        flop_counter.flop_registry.pop(packet, None)
        twice._destroy()
    mapping = {aten.mm: lambda a, b, out_shape=None: out_shape[0]}
    with FlopCounterMode(display=False, custom_mapping=mapping) as counter:
        weft.ones(2, 3) @ weft.ones(3, 4)
    assert counter.get_total_flops() == 2


def test_numbers_in_short():
    assert flop_counter.convert_num_with_suffix(12345, "K") == "12.345K"
    assert [flop_counter.get_suffix_str(n) for n in (12, 123456, 10**8)] == ["", "K", "M"]
    assert flop_counter.convert_to_percent_str(1, 3) == "33.33%"
    assert flop_counter.convert_to_percent_str(1, 0) == "0%"


def test_a_compiled_model_is_counted():
    net = weft.compile(nn.Linear(3, 4))
    net(weft.randn(2, 3))
    assert counted(lambda: net(weft.randn(2, 3))).get_total_flops() == 48
