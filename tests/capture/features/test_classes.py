"""Classes of users in captured code: how they are made, read, written and asked."""

# ruff: noqa: B009, B010, B024, PLE0101, UP008

from __future__ import annotations

import abc
from typing import Any

import weft
from tests.capture.features.harness import check, tensor


class Scaled:
    factor = 2.0
    made = 0

    def __init__(self, value: Any, by: float = 3.0) -> None:
        self.value = value
        self.by = by

    def total(self) -> Any:
        return self.value * self.by * self.factor

    @property
    def double(self) -> Any:
        return self.value * 2

    @double.setter
    def double(self, new: Any) -> None:
        self.value = new / 2

    @double.deleter
    def double(self) -> None:
        del self.value

    @classmethod
    def make(cls, value: Any) -> Any:
        return cls(value, by=cls.factor)

    @staticmethod
    def shift(value: Any, by: int = 1) -> Any:
        return value + by


def scaled(value: float = 1.0, by: float = 3.0) -> Scaled:
    return Scaled(tensor(value, 2.0), by)


def test_object_made_inside_and_returned() -> None:
    check(lambda x: Scaled(x + 1, by=4.0))


def test_object_made_inside_and_used() -> None:
    check(lambda x: Scaled(x).total(), ops=2)


def test_object_as_argument() -> None:
    check(lambda s: s.total(), lambda: (scaled(),), lambda: (scaled(2.0),), ops=2)


def test_object_attribute_that_changes_is_noticed() -> None:
    check(lambda s: s.total(), lambda: (scaled(by=3.0),), lambda: (scaled(by=5.0),), frames=2)


def test_new_makes_the_object() -> None:
    class Made:
        def __new__(cls, value: Any, *rest: Any) -> Any:
            made = super().__new__(cls)
            made.before = value + 1
            return made

        def __init__(self, value: Any, scale: float) -> None:
            self.after = self.before * scale

    check(lambda x: Made(x, 2.0))


def test_new_gives_something_else() -> None:
    class Never:
        def __new__(cls, value: Any) -> Any:
            return [value]

        def __init__(self, value: Any) -> None:
            raise AssertionError

    check(lambda x: Never(x * 2))


def test_new_of_an_immutable_base() -> None:
    class Pair(tuple):
        def __new__(cls, left: Any, right: Any) -> Any:
            return super().__new__(cls, (left, right))

    check(lambda x: Pair(x + 1, 2))


def test_init_that_returns_something() -> None:
    class Wrong:
        def __init__(self, x: Any) -> None:
            return x

    def f(x: Any) -> Any:
        try:
            return Wrong(x + 1)
        except TypeError as error:
            return x * 2, str(error)

    check(f)


def test_wrong_arguments_of_a_constructor() -> None:
    def f(x: Any) -> Any:
        try:
            return Scaled(x, 1, 2, 3)
        except TypeError as error:
            return x * 2, str(error)

    check(f)


def test_class_attribute_read_through_object_and_class() -> None:
    check(lambda s: s.value * s.factor + Scaled.factor, lambda: (scaled(),))


def test_class_attribute_shadowed_by_the_object() -> None:
    def shadowed() -> tuple[Scaled]:
        s = scaled()
        s.factor = 7.0
        return (s,)

    check(lambda s: s.value * s.factor, lambda: (scaled(),), shadowed, frames=2)


def test_class_attribute_written() -> None:
    def f(x: Any) -> Any:
        Scaled.made += 1
        return x + Scaled.made

    def reset() -> None:
        Scaled.made = 0

    check(f, frames=2, state=reset, watch=lambda: Scaled.made)
    reset()


def test_property_read() -> None:
    check(lambda s: s.double + 1, lambda: (scaled(),))


def test_property_set() -> None:
    def f(s: Scaled) -> Any:
        s.double = s.value + 4
        return s.double

    check(f, lambda: (scaled(),))


def test_property_deleted() -> None:
    def f(s: Scaled, x: Any) -> Any:
        del s.double
        return hasattr(s, "value"), x + 1

    check(f, lambda: (scaled(), tensor()))


def test_property_without_a_setter() -> None:
    class Fixed:
        @property
        def one(self) -> int:
            return 1

    def f(x: Any) -> Any:
        try:
            Fixed().one = 2
        except AttributeError as error:
            return x + Fixed().one, str(error)

    check(f)


def test_property_that_raises_attribute_error_falls_to_getattr() -> None:
    class Odd:
        @property
        def one(self) -> int:
            raise AttributeError("inner")

        def __getattr__(self, name: str) -> int:
            return 5

    check(lambda x: x + Odd().one)


def test_property_inherited_and_extended() -> None:
    class Further(Scaled):
        @property
        def double(self) -> Any:
            return super().double + 1

    check(lambda x: Further(x).double)


class Checked:
    """A data descriptor that stores beside itself."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = "_" + name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else getattr(instance, self.name) * self.scale

    def __set__(self, instance: Any, value: Any) -> None:
        setattr(instance, self.name, value + 1)

    def __delete__(self, instance: Any) -> None:
        delattr(instance, self.name)


class Holder:
    width = Checked(2.0)
    height = Checked(3.0)

    def __init__(self, width: Any, height: Any) -> None:
        self.width, self.height = width, height


def test_data_descriptor_with_set_name() -> None:
    check(lambda x: (Holder(x, x + 1).width, Holder(x, x).height))


def test_data_descriptor_on_an_argument() -> None:
    def f(h: Holder) -> Any:
        h.width = h.height * 2
        return h.width

    check(f, lambda: (Holder(tensor(), tensor()),))


def test_data_descriptor_deletes() -> None:
    def f(h: Holder) -> Any:
        del h.width
        return hasattr(h, "_width"), h.height + 1

    check(f, lambda: (Holder(tensor(), tensor()),))


def test_data_descriptor_through_the_class() -> None:
    check(lambda x: x * Holder.width.scale)


def test_data_descriptor_state_that_changes_is_noticed() -> None:
    def with_scale(scale: float) -> tuple[Holder]:
        Holder.width.scale = scale
        return (Holder(tensor(), tensor()),)

    check(lambda h: h.width + 1, lambda: with_scale(2.0), lambda: with_scale(9.0), frames=2)
    Holder.width.scale = 2.0


def test_non_data_descriptor_yields_to_the_object() -> None:
    class Lazy:
        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            instance.value = instance.x * 2
            return instance.value

    class Owner:
        value = Lazy()

        def __init__(self, x: Any) -> None:
            self.x = x

    def f(o: Owner) -> Any:
        return o.value + o.value

    check(f, lambda: (Owner(tensor()),), ops=2)


def test_getattr_for_what_is_missing() -> None:
    class Fallback:
        def __init__(self) -> None:
            self.have = 1

        def __getattr__(self, name: str) -> Any:
            if name.startswith("no"):
                raise AttributeError(name)
            return len(name)

    def f(x: Any, o: Any) -> Any:
        return x * o.have + o.abc, hasattr(o, "nothing"), getattr(o, "nope", 7)

    check(f, lambda: (tensor(), Fallback()))


def test_getattribute_for_everything() -> None:
    class Watched:
        def __init__(self, value: Any) -> None:
            self.value = value
            self.seen: list[str] = []

        def __getattribute__(self, name: str) -> Any:
            if name == "seen":
                return object.__getattribute__(self, "seen")
            self.seen.append(name)
            return super().__getattribute__(name)

        def twice(self) -> Any:
            return self.value * 2

    def f(o: Any) -> Any:
        return o.twice() + o.value

    check(f, lambda: (Watched(tensor()),), watch=lambda: None)
    check(lambda x: f(Watched(x)))


def test_setattr_and_delattr_hooks() -> None:
    class Logged:
        def __init__(self) -> None:
            object.__setattr__(self, "log", [])

        def __setattr__(self, name: str, value: Any) -> None:
            self.log.append(("set", name))
            super().__setattr__(name, value)

        def __delattr__(self, name: str) -> None:
            self.log.append(("delete", name))
            object.__delattr__(self, name)

    def f(x: Any, o: Any) -> Any:
        o.a = x + 1
        o.b = 2
        del o.b
        return o

    check(f, lambda: (tensor(), Logged()))
    check(lambda x: f(x, Logged()))


def test_call_makes_objects_callable() -> None:
    class Adder:
        def __init__(self, by: float) -> None:
            self.by = by

        def __call__(self, x: Any, *, times: int = 1) -> Any:
            return x * times + self.by

    adder = Adder(2.0)
    check(lambda x: adder(x, times=3) + Adder(1.0)(x))


def test_class_and_static_methods() -> None:
    check(lambda x: (Scaled.make(x), Scaled.shift(x), Scaled(x).make(x), Scaled(x).shift(x, by=5)))


def test_methods_as_values() -> None:
    def f(s: Scaled) -> Any:
        bound, unbound = s.total, Scaled.total
        return bound() + unbound(s), bound.__name__, bound.__self__ is s

    check(f, lambda: (scaled(),))


def test_bound_method_returned() -> None:
    check(lambda x: Scaled(x + 1).total, after=lambda method: method())


class Base:
    def __init__(self, x: Any) -> None:
        self.x = x
        self.order = ["Base"]

    def run(self) -> Any:
        return self.x + 1

    @classmethod
    def name(cls) -> str:
        return "base " + cls.__name__

    @staticmethod
    def fixed() -> int:
        return 3


class Left(Base):
    def __init__(self, x: Any) -> None:
        super().__init__(x * 2)
        self.order.append("Left")

    def run(self) -> Any:
        return super().run() * 2

    @classmethod
    def name(cls) -> str:
        return "left " + super().name()


class Right(Base):
    def __init__(self, x: Any) -> None:
        super().__init__(x + 5)
        self.order.append("Right")

    def run(self) -> Any:
        return super().run() - 7


class Both(Left, Right):
    def run(self) -> Any:
        def inner() -> Any:
            return super(Both, self).run()

        return inner() + super().fixed()

    @classmethod
    def name(cls) -> str:
        return "both " + super(Both, cls).name()


def test_super_without_arguments_along_a_diamond() -> None:
    check(lambda x: (Both(x).order, Both(x).run(), Both.name()))


def test_super_in_nested_functions() -> None:
    class Nested(Base):
        def run(self) -> Any:
            return [super(Nested, self).run() for _ in range(2)], (lambda: super(Nested, self).run())()

        def here(self) -> Any:
            def inner(me: Any) -> Any:
                return super().run()

            return inner(self)

    check(lambda x: (Nested(x).run(), Nested(x).here()))


def test_super_as_a_value() -> None:
    class Kept(Base):
        def run(self) -> Any:
            above = super()
            return above.run() + above.fixed()

    check(lambda x: Kept(x).run())


def test_super_attribute_missing() -> None:
    class Lost(Base):
        def run(self) -> Any:
            try:
                return super().nothing()
            except AttributeError as error:
                return str(error), self.x + 1

    check(lambda x: Lost(x).run())


def test_super_of_objects_that_existed() -> None:
    check(lambda b: b.run(), lambda: (Both(tensor()),))


def test_slots() -> None:
    class Slotted:
        __slots__ = ("left", "right")

        def __init__(self, left: Any) -> None:
            self.left = left

    def f(s: Any) -> Any:
        s.right = s.left + 1
        s.left = 4
        made = Slotted(s.right * 2)
        return made, hasattr(made, "right")

    check(f, lambda: (Slotted(tensor()),))


def test_slot_deleted_and_slot_unset() -> None:
    class Slotted:
        __slots__ = ("left", "right")

    def made() -> tuple[Any]:
        s = Slotted()
        s.left = tensor()
        return (s,)

    def f(s: Any) -> Any:
        y = s.left + 1
        del s.left
        return y, hasattr(s, "left"), hasattr(s, "right")

    check(f, made)


def test_slots_refuse_other_names() -> None:
    class Slotted:
        __slots__ = ("left",)

    def f(x: Any, s: Any) -> Any:
        try:
            s.other = x
        except AttributeError as error:
            return x + 1, str(error)

    check(f, lambda: (tensor(), Slotted()))


def test_abstract_class() -> None:
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self) -> Any: ...

        def twice(self) -> Any:
            return self.area() * 2

    class Square(Shape):
        def __init__(self, side: Any) -> None:
            self.side = side

        def area(self) -> Any:
            return self.side * self.side

    def f(x: Any) -> Any:
        try:
            Shape()
        except TypeError as error:
            return Square(x).twice(), isinstance(Square(x), Shape), str(error)

    check(f)


def test_abstract_class_with_registered_classes() -> None:
    class Family(abc.ABC):
        pass

    Family.register(Scaled)
    check(lambda s: (s.value + 1, isinstance(s, Family), issubclass(int, Family)), lambda: (scaled(),))


def test_metaclass_call() -> None:
    class Counting(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            made = super().__call__(*args, **kwargs)
            made.by_meta = len(args)
            return made

        def describe(cls) -> str:
            return "<" + cls.__name__ + ">"

    class Made(metaclass=Counting):
        def __init__(self, x: Any) -> None:
            self.x = x + 1

    check(lambda x: (Made(x), Made.describe()))


def test_metaclass_that_gives_attributes_its_own_way() -> None:
    class Own(type):
        def __getattribute__(cls, name: str) -> Any:
            return 5.0 if name == "scale" else type.__getattribute__(cls, name)

    class Later(type):
        pass

    class Made(metaclass=Own):
        scale = 2.0

    class Other(metaclass=Later):
        scale = 2.0

    def f(x: Any) -> Any:
        return x * Other.scale

    compiled = weft.compile(f, backend="eager")
    assert weft.compile(lambda x: x * Made.scale, backend="eager")(weft.ones(2)).tolist() == [5.0, 5.0]
    assert compiled(weft.ones(2)).tolist() == [2.0, 2.0]
    Later.__getattribute__ = Own.__getattribute__  # type: ignore[method-assign]
    assert compiled(weft.ones(2)).tolist() == [5.0, 5.0]


def test_metaclass_singleton() -> None:
    class Single(type):
        instances: dict[Any, Any] = {}

        def __call__(cls, *args: Any) -> Any:
            if cls not in cls.instances:
                cls.instances[cls] = super().__call__(*args)
            return cls.instances[cls]

    class Config(metaclass=Single):
        def __init__(self, x: Any) -> None:
            self.x = x + 1

    check(
        lambda x: Config(x).x * 2 + x,
        frames=2,
        state=Single.instances.clear,
        watch=lambda: len(Single.instances),
    )


def test_metaclass_properties_and_iteration() -> None:
    class Listed(type):
        @property
        def size(cls) -> int:
            return len(cls.members)

        def __iter__(cls) -> Any:
            return iter(cls.members)

        def __contains__(cls, item: Any) -> bool:
            return item in cls.members

        def __len__(cls) -> int:
            return 3

        def __getitem__(cls, key: int) -> Any:
            return cls.members[key]

    class Colours(metaclass=Listed):
        members = [1, 2, 3]

    check(lambda x: ([x * c for c in Colours], Colours.size, 2 in Colours, len(Colours), x + Colours[1]))


def test_init_subclass_ran_before() -> None:
    class Plugin:
        registry: dict[str, type] = {}

        def __init_subclass__(cls, key: str = "", **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            Plugin.registry[key] = cls

    class Adding(Plugin, key="add"):
        def run(self, x: Any) -> Any:
            return x + 1

    check(lambda x: Plugin.registry["add"]().run(x))


def test_mixins() -> None:
    class Doubling:
        def run(self) -> Any:
            return super().run() * 2

    class Negating:
        def run(self) -> Any:
            return -super().run()

    class Mixed(Doubling, Negating, Base):
        pass

    check(lambda x: Mixed(x).run())


def test_type_questions() -> None:
    def f(b: Any, x: Any) -> Any:
        known = isinstance(b, Left), isinstance(b, (int, Right)), issubclass(type(b), Base), type(b) is Both
        return (
            known,
            type(b).__name__,
            b.__class__ is Both,
            Both.__mro__[1] is Left,
            isinstance(b, int | Base),
            x + 1,
        )

    check(f, lambda: (Both(tensor()), tensor()))


def test_instancecheck_of_a_metaclass() -> None:
    class Odd(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return value == 3

        def __subclasscheck__(cls, other: type) -> bool:
            return other is int

    class Three(metaclass=Odd):
        pass

    check(lambda x: (isinstance(3, Three), isinstance(4, Three), issubclass(int, Three), x + 1))


def test_attribute_functions() -> None:
    def f(s: Any) -> Any:
        setattr(s, "new", getattr(s, "value") + 1)
        present = hasattr(s, "by"), hasattr(s, "none"), callable(s.total), callable(s)
        delattr(s, "by")
        return present, getattr(s, "by", None), sorted(vars(s)), s.__dict__["new"] * 2

    check(f, lambda: (scaled(),))


def test_vars_written() -> None:
    def f(s: Any, x: Any) -> Any:
        vars(s)["extra"] = x + 1
        s.__dict__.update(by=5.0)
        return s.extra * s.by

    check(f, lambda: (scaled(), tensor()))
    check(lambda x: f(Scaled(x), x))


def test_attributes_by_computed_names() -> None:
    def f(x: Any) -> Any:
        s = Scaled(x)
        for number in range(3):
            setattr(s, f"part{number}", x * number)
        return sum(getattr(s, f"part{number}") for number in range(3)), s

    check(f)


def test_private_names() -> None:
    class Private:
        def __init__(self, x: Any) -> None:
            self.__x = x

        def get(self) -> Any:
            return self.__x + 1

    check(lambda x: (Private(x).get(), Private(x)))


def test_generic_class_subscript() -> None:
    class Box:
        def __class_getitem__(cls, item: Any) -> Any:
            return (cls.__name__, item)

    check(lambda x: (Box[3], x + 1))


def test_subclasses_of_builtin_containers() -> None:
    class Stack(list):
        def push(self, value: Any) -> Any:
            self.append(value)
            return self

    class Table(dict):
        def __missing__(self, key: str) -> str:
            return key + "!"

    def f(x: Any, stack: Any, table: Any) -> Any:
        stack.push(x + 1).push(2)
        table["a"] = x * 2
        return Stack([x]).push(3), table["b"], Table(q=x + 2), len(stack)

    check(f, lambda: (tensor(), Stack([1]), Table()))


def test_class_defined_inside_breaks() -> None:
    def f(x: Any) -> Any:
        y = x + 1

        class Inner:
            def run(self, z: Any) -> Any:
                return z * 2

        return Inner().run(y)

    check(f, frames=3, breaks=1)  # a class of its own each time


def test_object_with_a_finaliser_breaks_once() -> None:
    class Final:
        def __init__(self, x: Any) -> None:
            self.x = x

        def __del__(self) -> None:
            pass

    def f(x: Any) -> Any:
        y = x + 1
        return Final(y).x * 2

    check(f, frames=2, breaks=1)
