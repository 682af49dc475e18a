"""Which modules run: names in forward, in backward, and after it."""

from __future__ import annotations

import weft
from weft import nn
from weft.utils.checkpoint import checkpoint
from weft.utils.module_tracker import ModuleTracker


class Spy(nn.Module):
    """Notes what runs when it does."""

    def __init__(self, tracker, notes):
        super().__init__()
        self.tracker, self.notes = tracker, notes

    def forward(self, x):
        self.notes.append((self.tracker.is_bw, set(self.tracker.parents)))
        y = x * 2
        if y.requires_grad:
            y.register_hook(lambda g: self.notes.append((self.tracker.is_bw, set(self.tracker.parents))))
        return y * 1


def test_forward_and_backward():
    tracker, notes = ModuleTracker(), []
    net = nn.Sequential(nn.Sequential(Spy(tracker, notes)), nn.ReLU())
    names = {"Global", "Sequential", "Sequential.0", "Sequential.0.0"}
    with tracker:
        loss = net(weft.ones(2, requires_grad=True)).sum()
        assert tracker.parents == {"Global"}
        loss.backward()
        assert tracker.parents == {"Global"} and not tracker.is_bw
    assert notes == [(False, names), (True, names)]


def test_without_gradients_and_afterwards():
    tracker, notes = ModuleTracker(), []
    net = nn.Sequential(Spy(tracker, notes))
    with tracker:
        net(weft.ones(2))
    net(weft.ones(2))
    assert notes == [(False, {"Global", "Sequential", "Sequential.0"}), (False, {"Global"})]


def test_a_forward_that_raises_ends():
    class Raises(nn.Module):
        def forward(self, x):
            raise ValueError

    with ModuleTracker() as tracker:
        try:
            Raises()(1)
        except ValueError:
            pass
        assert tracker.parents == {"Global"}


def test_recomputation_is_part_of_backward():
    tracker, notes = ModuleTracker(), []
    net = Spy(tracker, notes)
    with tracker:
        checkpoint(net, weft.ones(2, requires_grad=True), use_reentrant=False).sum().backward()
    assert tracker.parents == {"Global"}
    assert notes[0] == (False, {"Global", "Spy"})
