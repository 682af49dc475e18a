"""Classes, functions and objects that change after compiling: captured code notices."""

# ruff: noqa: B024

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import weft
from tests.capture.features.harness import check, everything_strict, tensor
from weft.testing import CompileCounter


def noticed(
    function: Callable[..., Any], make: Callable[[], Any], change: Callable[[], Any], frames: int = 2
) -> None:
    """Compiled before the change, then called after it: as eager after it, with so many graphs."""
    counter = CompileCounter()
    with everything_strict():
        compiled = weft.compile(function, backend=counter, fullgraph=True)
        before = function(make()), compiled(make()), compiled(make())
        change()
        after = function(make()), compiled(make()), compiled(make())
    for eager, *others in (before, after):
        assert all(other.tolist() == eager.tolist() for other in others)
    assert counter.frame_count == frames


def classes() -> tuple[type, type]:
    """Two classes of their own for each test."""

    class Base:
        offset = 1.0

        def __init__(self, value: Any) -> None:
            self.value = value

        def scale(self) -> Any:
            return self.value * 2

        def helper(self) -> float:
            return 10.0

    class Child(Base):
        def run(self) -> Any:
            return self.scale() + self.offset + self.helper()

    return Base, Child


def test_method_replaced_on_the_base() -> None:
    base, child = classes()
    noticed(
        lambda o: o.run(), lambda: child(tensor()), lambda: setattr(base, "scale", lambda self: self.value)
    )


def test_method_added_to_the_child() -> None:
    _, child = classes()
    noticed(lambda o: o.run(), lambda: child(tensor()), lambda: setattr(child, "helper", lambda self: 3.0))


def test_class_attribute_changed() -> None:
    base, child = classes()
    noticed(lambda o: o.run(), lambda: child(tensor()), lambda: setattr(base, "offset", 5.0))


def test_class_attribute_added_in_the_middle_of_the_mro() -> None:
    base, _ = classes()

    class Middle(base):
        pass

    class Last(Middle):
        pass

    noticed(lambda o: o.value + o.offset, lambda: Last(tensor()), lambda: setattr(Middle, "offset", 7.0))


def test_class_attribute_deleted() -> None:
    base, child = classes()
    child.offset = 4.0
    noticed(lambda o: o.run(), lambda: child(tensor()), lambda: delattr(child, "offset"))


def test_unrelated_attribute_added_changes_nothing() -> None:
    base, child = classes()
    noticed(lambda o: o.run(), lambda: child(tensor()), lambda: setattr(base, "other", 7.0), frames=1)


def test_object_attribute_shadows_a_method() -> None:
    _, child = classes()
    shadowing = False

    def make() -> Any:
        made = child(tensor())
        if shadowing:
            made.helper = lambda: 100.0
        return made

    def change() -> None:
        nonlocal shadowing
        shadowing = True

    noticed(lambda o: o.run(), make, change)


def test_property_in_place_of_an_attribute() -> None:
    base, child = classes()
    noticed(
        lambda o: o.value + 1,
        lambda: child.__new__(child) if "value" in vars(base) else child(tensor()),
        lambda: setattr(base, "value", property(lambda self: tensor(9.0, 9.0, 9.0))),
    )


def test_property_replaced() -> None:
    base, child = classes()
    base.twice = property(lambda self: self.value * 2)
    change = lambda: setattr(base, "twice", property(lambda self: self.value * 3))
    noticed(lambda o: o.twice, lambda: child(tensor()), change)


def test_special_method_added() -> None:
    _, child = classes()
    change = lambda: setattr(child, "__bool__", lambda self: False)
    noticed(lambda o: o.value + (1 if o else 2), lambda: child(tensor()), change)


def test_getattr_added() -> None:
    _, child = classes()
    change = lambda: setattr(child, "__getattr__", lambda self, name: 5)
    noticed(lambda o: o.value + getattr(o, "missing", 0), lambda: child(tensor()), change)


def test_setattr_added() -> None:
    _, child = classes()

    def f(o: Any) -> Any:
        o.extra = 1
        return o.value + o.extra

    def twice(self: Any, name: str, value: Any) -> None:
        object.__setattr__(self, name, value * 2)

    noticed(f, lambda: child(tensor()), lambda: setattr(child, "__setattr__", twice))


def test_init_replaced() -> None:
    _, child = classes()

    def start(self: Any, value: Any) -> None:
        self.value = value * 100

    noticed(lambda x: child(x).run(), tensor, lambda: setattr(child, "__init__", start))


def test_bases_replaced() -> None:
    class One:
        def run(self, x: Any) -> Any:
            return x + 1

    class Two:
        def run(self, x: Any) -> Any:
            return x + 2

    class First(One):
        pass

    def change() -> None:
        First.__bases__ = (Two,)

    noticed(lambda x: First().run(x), tensor, change)


def test_class_of_an_object_replaced() -> None:
    base, child = classes()

    class Other(child):
        def helper(self) -> float:
            return -1.0

    made = child(tensor())
    noticed(lambda o: o.run(), lambda: made, lambda: setattr(made, "__class__", Other))


def test_code_of_a_method_replaced() -> None:
    base, child = classes()
    noticed(
        lambda o: o.run(),
        lambda: child(tensor()),
        lambda: setattr(base.helper, "__code__", (lambda self: 77.0).__code__),
    )


def test_default_of_a_method_replaced() -> None:
    class Own:
        def run(self, x: Any, by: int = 2) -> Any:
            return x * by

    noticed(lambda x: Own().run(x), tensor, lambda: setattr(Own.run, "__defaults__", (3,)))


def test_global_function_replaced() -> None:
    def change() -> None:
        global called
        called = lambda x: x - 1

    with restored("called"):
        noticed(lambda x: called(x), tensor, change)


def called(x: Any) -> Any:
    return x + 1


@contextlib.contextmanager
def restored(name: str) -> Iterator[None]:
    before = globals()[name]
    try:
        yield
    finally:
        globals()[name] = before


def test_static_and_class_methods_replaced() -> None:
    class Own:
        @staticmethod
        def one(x: Any) -> Any:
            return x + 1

        @classmethod
        def two(cls, x: Any) -> Any:
            return x + 2

    def change() -> None:
        Own.one = staticmethod(lambda x: x * 10)
        Own.two = classmethod(lambda cls, x: x * 20)

    noticed(lambda x: Own.one(x) + Own().two(x), tensor, change)


def test_descriptor_of_a_class_changed_in_place() -> None:
    class Times:
        def __init__(self, by: float) -> None:
            self.by = by

        def __get__(self, instance: Any, owner: Any) -> Any:
            return instance.value * self.by

    class Own:
        times = Times(2.0)

        def __init__(self, value: Any) -> None:
            self.value = value

    noticed(lambda x: Own(x).times, tensor, lambda: setattr(vars(Own)["times"], "by", 8.0))


def test_list_on_a_class_changed_in_place() -> None:
    class Own:
        sizes = [1.0, 2.0]

    noticed(lambda x: x * sum(Own.sizes), tensor, lambda: Own.sizes.append(4.0))


def test_method_of_a_module_replaced() -> None:
    class Net(weft.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = 2.0

        def forward(self, x: Any) -> Any:
            return self.inner(x) * self.scale

        def inner(self, x: Any) -> Any:
            return x + 1

    net = Net()
    noticed(lambda x: net(x), tensor, lambda: setattr(Net, "inner", lambda self, x: x - 1))
    noticed(lambda x: net(x), tensor, lambda: setattr(net, "forward", lambda x: x * 5))


def test_super_target_replaced() -> None:
    base, _ = classes()

    class Own(base):
        def scale(self) -> Any:
            return super().scale() + 1

    noticed(
        lambda o: o.scale(), lambda: Own(tensor()), lambda: setattr(base, "scale", lambda self: self.value)
    )


def test_super_target_added_between() -> None:
    base, child = classes()

    class Own(child):
        def scale(self) -> Any:
            return super().scale() + 1

    change = lambda: setattr(child, "scale", lambda self: self.value * 50)
    noticed(lambda o: o.scale(), lambda: Own(tensor()), change)


def test_patched_inside_the_function() -> None:
    base, child = classes()

    def f(x: Any) -> Any:
        y = child(x).run()
        base.helper = lambda self: 20.0
        return y + child(x).run()

    original = base.helper

    def back() -> None:
        base.helper = original

    check(f, frames=3, breaks=2, state=back)


def test_isinstance_answer_changes_with_registration() -> None:
    class Family(abc.ABC):
        pass

    class Member:
        pass

    member = Member()
    noticed(lambda x: x + (1 if isinstance(member, Family) else 2), tensor, lambda: Family.register(Member))
