"""L-BFGS: steps along the gradient times an estimate of the inverse Hessian, kept as the last few changes.

Takes parameters and a closure that computes the loss and its gradients anew; writes to parameters, and to the
state of the first parameter. One idea: all parameters are one vector, and a step is a whole descent of at
most `max_iter` iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from weft.autograd.grad_mode import enable_grad, no_grad
from weft.core.types import contiguous_format
from weft.ops.record import ops
from weft.optim.line_search import Point, strong_wolfe
from weft.optim.optimizer import Optimizer, to_number
from weft.optim.rules import checked
from weft.tensor.base import Tensor

__all__ = ["LBFGS"]

KEPT = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")


class LBFGS(Optimizer):
    """A quasi-Newton method; `step` takes a closure that clears gradients, computes them and returns the
    loss.

    >>> import weft
    >>> x = weft.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = weft.optim.LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (x * x).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item()
    13.0
    >>> closure().item() < 1e-6
    True
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1, max_iter: int = 20, max_eval: int | None = None,
        tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:  # fmt: skip
        options = {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
            "history_size": history_size, "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, checked(options, {}))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_params": self._params}

    # -- all parameters as one vector ------------------------------------------------------------------------
    def _gather_flat_grad(self) -> Any:
        parts = []
        for param in self._params:
            grad = ops.zeros_like(param) if param.grad is None else param.grad
            parts.append((ops.view_as_real(grad) if grad.is_complex() else grad).reshape(-1))
        return ops.cat(parts, 0)

    def _add_grad(self, step_size: Any, direction: Any) -> None:
        offset = 0
        for param in self._params:
            real = ops.view_as_real(param) if param.is_complex() else param
            count = real.numel()
            real.add_(direction[offset : offset + count].view_as(real), alpha=to_number(step_size))
            offset += count

    def _evaluated(self, closure: Callable[[], Any]) -> tuple[float, Any]:
        with enable_grad():
            loss = float(closure())
        return loss, self._gather_flat_grad()

    def _searched(
        self, closure: Callable[[], Any], loss: float, grad: Any, direction: Any, length: Any, slope: Any,
        most: int,
    ) -> tuple[Point, int]:  # fmt: skip
        """The point that a line search finds, and its evaluations; parameters are left where they were."""
        home = [param.clone(memory_format=contiguous_format) for param in self._params]

        def at(size: Any) -> Point:
            self._add_grad(size, direction)
            value, gradient = self._evaluated(closure)
            for param, known in zip(self._params, home):
                param.copy_(known)
            return Point(size, value, gradient, gradient.dot(direction).item())

        start = Point(0, loss, grad.clone(), slope)
        return strong_wolfe(at, start, length, direction.abs().max().item(), most)

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Descends until a tolerance or the count of iterations is reached; gives the loss it began with."""
        # By way of a generator, whose frames are never compiled piece by piece: which turn a descent takes
        # depends on losses, so that no piece would serve twice.
        (first_loss,) = self._descend(closure)
        return first_loss

    def _descend(self, closure: Callable[[], Any] | None) -> Iterator[Any]:
        if len(self.param_groups) != 1:
            raise AssertionError("Expected exactly one param_group, but got " + str(len(self.param_groups)))
        if closure is None:
            raise TypeError("LBFGS.step() needs a closure that computes the loss and its gradients")
        group = self.param_groups[0]
        search = group["line_search_fn"]
        lr, tolerance = to_number(group["lr"]), group["tolerance_change"]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        with enable_grad():
            first_loss = closure()
        loss, evaluations = float(first_loss), 1
        state["func_evals"] += 1
        grad = self._gather_flat_grad()
        flat = grad.abs().max().item() <= group["tolerance_grad"]
        if flat:
            yield first_loss
            return
        memory = {name: state.get(name) for name in KEPT}
        iterations = 0
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            direction = self._direction(state, memory, grad, group["history_size"])
            if memory["prev_flat_grad"] is None:
                memory["prev_flat_grad"] = grad.clone(memory_format=contiguous_format)
            else:
                memory["prev_flat_grad"].copy_(grad)
            memory["prev_loss"] = loss
            first = state["n_iter"] == 1
            length = min(1.0, 1.0 / grad.abs().sum().item()) * lr if first else lr
            memory["t"] = length
            slope = grad.dot(direction).item()
            if slope > -tolerance:
                break
            more = 0
            if search is not None:
                if search != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                most = group["max_eval"] - evaluations
                point, more = self._searched(closure, loss, grad, direction, length, slope, most)
                loss, grad, length = point.value, point.gradient, point.length
                memory["t"] = length
                self._add_grad(length, direction)
                flat = grad.abs().max().item() <= group["tolerance_grad"]
            else:
                self._add_grad(length, direction)
                if iterations != group["max_iter"]:
                    loss, grad = self._evaluated(closure)
                    flat = grad.abs().max().item() <= group["tolerance_grad"]
                    more = 1
            evaluations += more
            state["func_evals"] += more
            if iterations == group["max_iter"] or evaluations >= group["max_eval"] or flat:
                break
            if (direction * length).abs().max().item() <= tolerance:
                break
            if abs(loss - memory["prev_loss"]) < tolerance:
                break
        state.update(memory)
        yield first_loss

    @staticmethod
    def _direction(state: dict[str, Any], memory: dict[str, Any], grad: Any, history: int) -> Any:
        """Downhill by what is known of the curvature: the two loops of L-BFGS."""
        if state["n_iter"] == 1:
            memory.update(d=grad.neg(), old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return memory["d"]
        changes, steps, inverses = memory["old_dirs"], memory["old_stps"], memory["ro"]
        change, step = grad - memory["prev_flat_grad"], memory["d"] * memory["t"]
        curvature = change.dot(step)
        if curvature.item() > 1e-10:
            if len(changes) == history:
                for kept in (changes, steps, inverses):
                    kept.pop(0)
            changes.append(change)
            steps.append(step)
            inverses.append(1.0 / curvature)
            memory["H_diag"] = curvature / change.dot(change)
        weights = state.setdefault("al", [None] * history)
        turned = grad.neg()
        for i in reversed(range(len(changes))):
            weights[i] = steps[i].dot(turned) * inverses[i]
            turned.sub_(changes[i] * weights[i])
        result = turned * memory["H_diag"]
        for i in range(len(changes)):
            result.add_(steps[i] * (weights[i] - changes[i].dot(result) * inverses[i]))
        memory["d"] = result
        return result
