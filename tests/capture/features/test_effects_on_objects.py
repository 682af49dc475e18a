"""Effects of captured code on what it was given: which objects change, in which order, and who is whom."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import Any

import weft
from tests.capture.features.harness import check, tensor


class Box:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


SHARED: dict[str, Any] = {}
COUNT = 0


def test_attributes_created_changed_and_deleted() -> None:
    def f(box: Any, x: Any) -> Any:
        box.new = x + 1
        box.old = box.old * 2
        del box.gone
        box.gone_and_back = 1
        del box.gone_and_back
        return box.new

    check(f, lambda: (Box(old=tensor(), gone=3), tensor()))


def test_attribute_order_after_delete_and_set() -> None:
    def f(box: Any, x: Any) -> Any:
        del box.a
        box.c = 1
        box.a = 2
        return list(vars(box)), dict(vars(box)), {**vars(box)}, x + 1

    check(f, lambda: (Box(a=1, b=2), tensor()))


def test_list_of_arguments_changed() -> None:
    def f(items: list[Any], x: Any) -> Any:
        items.append(x + 1)
        items.insert(0, "first")
        items[1] = items[1] * 2
        items.extend([3, 4])
        del items[-1]
        return items.pop(1), len(items)

    check(f, lambda: ([tensor(), 2], tensor()))


def test_list_sorted_reversed_sliced_cleared() -> None:
    def f(a: list[int], b: list[int], c: list[int], d: list[int], x: Any) -> Any:
        a.sort(reverse=True)
        b.reverse()
        c[1:3] = [7, 8, 9]
        d.clear()
        a *= 2
        return x + sum(a)

    check(f, lambda: ([2, 1, 3], [1, 2], [1, 2, 3, 4], [5], tensor()))


def test_dict_of_arguments_changed() -> None:
    def f(table: dict[str, Any], x: Any) -> Any:
        table["new"] = x + 1
        table["old"] += 1
        table.update(more=x * 2)
        removed = table.pop("gone")
        table.setdefault("old", 5)
        del table["new"]
        table["new"] = 0
        return removed, list(table), x - 1

    check(f, lambda: ({"old": 1, "gone": 2, "kept": tensor()}, tensor()))


def test_other_containers_changed() -> None:
    def f(a: Any, b: Any, c: Any, d: Any, x: Any) -> Any:
        a.append(x + 1)
        a.popleft()
        b["k"].append(x)
        c.move_to_end("a")
        c["z"] = 1
        d |= {3}
        d.discard(1)
        return x * 2

    check(
        f,
        lambda: (
            deque([1, 2], maxlen=3),
            defaultdict(list),
            OrderedDict(a=1, b=2),
            {1, 2},
            tensor(),
        ),
    )


def test_nested_containers_changed() -> None:
    def f(tree: dict[str, Any], x: Any) -> Any:
        tree["a"][0]["b"].append(x + 1)
        tree["a"].append({"c": tree["a"][0]})
        return tree["a"][1]["c"] is tree["a"][0]

    check(f, lambda: ({"a": [{"b": [1]}]}, tensor()))


def test_object_in_a_container_in_an_object() -> None:
    def f(box: Any, x: Any) -> Any:
        box.items[0].value = x + 1
        box.items.append(Box(value=box))
        return box.items[1].value is box

    check(f, lambda: (Box(items=[Box(value=1)]), tensor()))


def test_same_list_twice_then_different() -> None:
    def f(a: list[Any], b: list[Any], x: Any) -> Any:
        a.append(x + 1)
        b.append(2)
        return len(a), len(b), a is b

    def same() -> tuple[Any, ...]:
        one: list[Any] = []
        return one, one, tensor()

    check(f, same, lambda: ([], [], tensor()), same, frames=2)


def test_different_lists_then_the_same() -> None:
    def f(a: list[Any], b: list[Any], x: Any) -> Any:
        a.append(x + 1)
        return len(b)

    def same() -> tuple[Any, ...]:
        one: list[Any] = []
        return one, one, tensor()

    check(f, lambda: ([], [], tensor()), same, frames=2)


def test_same_object_twice_then_different() -> None:
    def f(a: Any, b: Any, x: Any) -> Any:
        a.value = x + 1
        return b.value * 2

    def same() -> tuple[Any, ...]:
        one = Box(value=tensor())
        return one, one, tensor()

    check(f, same, lambda: (Box(value=tensor()), Box(value=tensor()), tensor()), frames=2)
    check(f, lambda: (Box(value=tensor()), Box(value=tensor()), tensor()), same, frames=2)


def test_same_tensor_twice_then_different() -> None:
    def f(a: Any, b: Any) -> Any:
        a.add_(1)
        return b * 2, a is b

    def same() -> tuple[Any, ...]:
        one = tensor()
        return one, one

    check(f, same, lambda: (tensor(), tensor()), frames=2)
    check(f, lambda: (tensor(), tensor()), same, frames=2)


def test_views_of_the_same_tensor() -> None:
    def f(a: Any, b: Any) -> Any:
        a.mul_(2)
        return b + 1

    def views() -> tuple[Any, ...]:
        base = weft.arange(6.0)
        return base[:4], base[2:]

    check(f, views)


def test_object_reachable_by_two_paths() -> None:
    def f(a: Any, b: Any, x: Any) -> Any:
        a.inner.value = x + 1
        b.inner.other = 2
        return a.inner is b.inner, a.inner.value

    def shared() -> tuple[Any, ...]:
        inner = Box(value=0)
        return Box(inner=inner), Box(inner=inner), tensor()

    check(f, shared, lambda: (Box(inner=Box(value=0)), Box(inner=Box(value=0)), tensor()), frames=2)


def test_alias_of_an_argument_and_a_global() -> None:
    def f(table: dict[str, Any], x: Any) -> Any:
        table["k"] = x + 1
        return SHARED.get("k", 0) * 2

    check(f, lambda: (SHARED, tensor()), lambda: ({}, tensor()), frames=2, state=SHARED.clear)


def test_outputs_that_are_inputs() -> None:
    def f(x: Any, items: list[Any], box: Any) -> Any:
        return x, items, [items, items], box, x + 1, (x, x)

    check(f, lambda: (tensor(), [1], Box(a=1)))


def test_outputs_that_share() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        shared = [y]
        return {"a": shared, "b": shared, "c": (shared, y)}, y, Box(one=shared, two=Box(y=y))

    check(f)


def test_views_in_outputs_share_storage() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        return y, y[1:], y.view(3, 1), x[:2], x.detach()

    check(f)


def test_cyclic_structures_made() -> None:
    def f(x: Any) -> Any:
        ring: list[Any] = [x + 1]
        ring.append(ring)
        box = Box(ring=ring)
        box.me = box
        table: dict[str, Any] = {"box": box}
        table["table"] = table
        return ring, box, table

    check(f)


def test_cyclic_structures_given() -> None:
    def ring() -> tuple[Any, ...]:
        items: list[Any] = [tensor()]
        items.append(items)
        box = Box(items=items)
        box.me = box
        return items, box

    def f(items: list[Any], box: Any) -> Any:
        items[1][1][0] = box.me.me.items[0] + 1
        box.me.new = items
        return items[1] is items, box.me is box

    check(f, ring)


def test_order_of_effects_within_one_list() -> None:
    def f(log: list[Any], x: Any) -> Any:
        class_like = Box(log=log)
        class_like.log.append("a")
        y = x + 1
        log.append(y)
        class_like.log += ["b"]
        return log[-1]

    check(f, lambda: ([], tensor()), lambda: (["before"], tensor()), frames=2)


def test_globals_written() -> None:
    def f(x: Any) -> Any:
        global COUNT
        COUNT += 1
        SHARED["count"] = COUNT
        return x + COUNT  # 0 and 1 are never symbols

    def reset() -> None:
        global COUNT
        COUNT = 0
        SHARED.clear()

    check(f, *[lambda: (tensor(),)] * 4, frames=1, state=reset, watch=lambda: (COUNT, dict(SHARED)))


def test_tensors_written_in_place() -> None:
    def f(x: Any, box: Any, items: list[Any]) -> Any:
        x.add_(1)
        box.t.mul_(2)
        items[0][1:] = 5
        items[0] += x
        return x.sum()

    check(f, lambda: (tensor(), Box(t=tensor()), [tensor()]))


def test_tensors_swapped_between_objects() -> None:
    def f(a: Any, b: Any) -> Any:
        a.t, b.t = b.t, a.t
        a.t.add_(1)
        return a.t + b.t

    check(f, lambda: (Box(t=tensor()), Box(t=tensor(4.0, 5.0, 6.0))))


def test_attribute_set_to_a_view_of_another() -> None:
    def f(box: Any, x: Any) -> Any:
        box.view = x[1:]
        x.add_(1)
        return box.view * 2

    check(f, lambda: (Box(), tensor()))


def test_default_argument_changed() -> None:
    def make() -> Any:
        def f(x: Any, seen: list[Any] = []) -> Any:  # noqa: B006
            seen.append(len(seen))
            return x + len(seen), list(seen)

        return f

    check(make(), frames=2, state=make)


def test_closure_changed() -> None:
    def make() -> Any:
        total = 0
        items: list[Any] = []

        def f(x: Any) -> Any:
            nonlocal total
            total += 2
            items.append(total)
            return x + total, list(items)

        return f

    check(make(), frames=2, state=make)


def test_function_attribute_changed() -> None:
    def make() -> Any:
        def f(x: Any) -> Any:
            helper.calls += 1
            return x * helper.calls

        def helper() -> None: ...

        helper.calls = 0
        return f

    check(make(), *[lambda: (tensor(),)] * 4, frames=1, state=make)


def test_effects_in_called_methods() -> None:
    class Meter:
        def __init__(self) -> None:
            self.total, self.count, self.history = 0.0, 0, []

        def update(self, value: Any) -> Any:
            self.total = self.total + value
            self.count += 1
            self.history.append(value)
            return self

        @property
        def mean(self) -> Any:
            return self.total / self.count

    def f(meter: Meter, x: Any) -> Any:
        meter.update(x.sum()).update(x.max())
        return meter.mean

    check(f, lambda: (Meter(), tensor()))


def test_nothing_written_when_nothing_changes() -> None:
    class Watched:
        writes = 0

        def __init__(self) -> None:
            self.__dict__["items"] = [1, 2]
            self.__dict__["value"] = 3

        def __setattr__(self, name: str, value: Any) -> None:
            Watched.writes += 1
            super().__setattr__(name, value)

    def f(x: Any, w: Any) -> Any:
        return x + w.value + sum(w.items)

    check(f, lambda: (tensor(), Watched()), watch=lambda: Watched.writes)


def test_mutation_while_iterating() -> None:
    def f(items: list[Any], x: Any) -> Any:
        for item in items:
            if item < 3:
                items.append(item + 2)
        return x + sum(items)

    check(f, lambda: ([1, 2], tensor()))


def test_dict_changed_while_iterating() -> None:
    def f(table: dict[str, int], x: Any) -> Any:
        try:
            for key in table:
                table[key + "x"] = 1
        except RuntimeError as error:
            return x + len(table), str(error)

    check(f, lambda: ({"a": 1}, tensor()))


def test_copies_are_independent() -> None:
    def f(items: list[Any], table: dict[str, Any], x: Any) -> Any:
        mine, yours = list(items), dict(table)
        mine.append(x + 1)
        yours["new"] = mine
        return mine, yours, items[:] == items, mine[0] is items[0]

    check(f, lambda: ([[1]], {"a": tensor()}, tensor()))


def test_objects_made_and_kept_in_arguments() -> None:
    def f(registry: dict[str, Any], x: Any) -> Any:
        box = Box(value=x + 1, parent=registry)
        registry["box"] = box
        registry["again"] = [box]
        return registry["again"][0] is box

    check(f, lambda: ({}, tensor()))


def test_module_buffers_and_attributes() -> None:
    class Net(weft.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", weft.zeros(3))
            self.calls = 0
            self.outputs: list[Any] = []

        def forward(self, x: Any) -> Any:
            self.calls += 1
            self.seen += x
            self.outputs.append(self.seen * 2)
            self.last = x
            return x + self.calls

    net = Net()

    def reset() -> None:
        net.calls = 0
        net.seen.zero_()
        net.outputs = []
        net.__dict__.pop("last", None)

    check(lambda x: net(x), *[lambda: (tensor(),)] * 3, frames=1, state=reset, watch=lambda: vars(net))
