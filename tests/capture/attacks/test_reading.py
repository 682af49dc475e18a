"""Reading: what captured code reads of the world, and what tells it that the world has changed."""

from __future__ import annotations

import builtins
import enum
import sys
import types
from collections import deque
from typing import Any, Protocol, runtime_checkable

import pytest

import weft
from tests.capture.attacks.scenario import Compile, same, tensor


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    return put(monkeypatch, types.ModuleType("attacked"))


def put(monkeypatch: pytest.MonkeyPatch, made: Any) -> Any:
    monkeypatch.setitem(sys.modules, "attacked", made)
    return made


# -- modules -------------------------------------------------------------------------------------------------
def test_a_name_deleted_from_a_module_is_gone(module: Any) -> None:
    def scenario(compile: Compile) -> Any:
        def forward(x: Any) -> Any:
            scaled = x * module.scale
            del module.scale
            try:
                return scaled * module.scale
            except AttributeError as error:
                return scaled - 1, str(error)

        compiled = compile(forward)
        module.scale = 2
        first = compiled(tensor())
        module.scale = 3
        return first, compiled(tensor()), "scale" in vars(module)

    same(scenario, breaks=0)


def test_a_name_that_a_module_lacks_may_come(module: Any) -> None:
    def scenario(compile: Compile) -> Any:
        vars(module).pop("scale", None)
        compiled = compile(lambda x: x * getattr(module, "scale", 5))
        first = compiled(tensor())
        module.scale = 2
        return first, compiled(tensor())

    same(scenario, frames=2, breaks=0)


def test_properties_and_setattr_of_a_module_s_class(monkeypatch: pytest.MonkeyPatch) -> None:
    def scenario(compile: Compile) -> Any:
        written = []

        class Module(types.ModuleType):
            @property
            def scale(self) -> int:
                return self.base + 1  # type: ignore[no-any-return]

            def __setattr__(self, name: str, value: Any) -> None:
                written.append(name)
                super().__setattr__(name, value)

        module: Any = put(monkeypatch, Module("attacked"))
        module.base = 1
        module.__dict__["scale"] = 100

        def forward(x: Any) -> Any:
            y = x * module.scale
            module.base = module.base + 1
            return y * module.scale

        compiled = compile(forward)
        return compiled(tensor()), compiled(tensor()), module.base, written

    same(scenario)


def test_getattr_of_a_module_runs_once_a_call(module: Any) -> None:
    def scenario(compile: Compile) -> Any:
        asked = []

        def __getattr__(name: str) -> int:
            asked.append(name)
            return 3 + len(name)

        module.__getattr__ = __getattr__
        compiled = compile(lambda x: x * module.missing)
        return compiled(tensor()), compiled(tensor()), asked

    same(scenario, breaks=0)


def test_a_builtin_may_come(monkeypatch: pytest.MonkeyPatch) -> None:
    def scenario(compile: Compile) -> Any:
        monkeypatch.delattr(builtins, "attacked", raising=False)

        def forward(x: Any) -> Any:
            try:
                return x * attacked  # type: ignore[name-defined]
            except NameError:
                return x - 1

        compiled = compile(forward)
        first = compiled(tensor())
        monkeypatch.setattr(builtins, "attacked", 7, raising=False)
        return first, compiled(tensor())

    same(scenario)


def test_builtins_of_a_function_s_own() -> None:
    def scenario(compile: Compile) -> Any:
        scope: dict[str, Any] = {"__builtins__": {"abs": lambda x: x * 10}}
        exec("def forward(x): return abs(x) + 1", scope)
        compiled = compile(scope["forward"])
        first = compiled(tensor())
        scope["__builtins__"]["abs"] = lambda x: x * 20
        return first, compiled(tensor())

    same(scenario)


# -- classes -------------------------------------------------------------------------------------------------
def test_a_class_attribute_written_is_seen_by_objects_and_subclasses() -> None:
    def scenario(compile: Compile) -> Any:
        class Base:
            scale = 1

        class Derived(Base):
            pass

        class Last(Derived):
            def above(self) -> Any:
                return super().scale

        thing = Last()

        def forward(x: Any) -> Any:
            Derived.scale = 5
            Base.shift = 2  # type: ignore[attr-defined]
            return x * thing.scale + Last.scale + thing.shift + thing.above()  # type: ignore[attr-defined]

        compiled = compile(forward)
        return compiled(tensor()), Base.scale, Derived.scale, compiled(tensor())

    same(scenario)


# -- numbers and texts of users' classes ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ("base", "values"), [(int, (2, 3, 4)), (float, (1.0, 1.5, 3.0)), (str, ("a", "bbb", "bb"))]
)
def test_the_value_of_a_subclass_of_a_number_or_text(base: Any, values: tuple[Any, ...]) -> None:
    class Own(base):  # type: ignore[misc]
        pass

    def scenario(compile: Compile) -> Any:
        def forward(x: Any, own: Any) -> Any:
            if own > values[1]:
                return x * 2
            return x * (len(own) if base is str else own), own in (values[0], values[2])

        compiled = compile(forward)
        return [compiled(tensor(), Own(value)) for value in values]

    same(scenario, breaks=0)


def test_integer_enumerations() -> None:
    class Level(enum.IntEnum):
        LOW = 1
        HIGH = 3

    def scenario(compile: Compile) -> Any:
        compiled = compile(lambda x, level: x * level + (level > 2))
        return [compiled(tensor(), level).tolist() for level in Level]

    same(scenario, frames=2, breaks=0)


# -- containers of users' classes ----------------------------------------------------------------------------
def test_methods_of_containers_do_not_run_while_they_are_read() -> None:
    def scenario(compile: Compile) -> Any:
        ran = []

        class Dict(dict):  # type: ignore[type-arg]
            def __new__(cls, *args: Any, **kwargs: Any) -> Any:
                ran.append("new")
                return super().__new__(cls, *args, **kwargs)

        class List(list):  # type: ignore[type-arg]
            def __len__(self) -> int:
                return 99

        class Tuple(tuple):  # type: ignore[type-arg]
            def __len__(self) -> int:
                return 98

            def __iter__(self) -> Any:
                return iter([7.0])

        def forward(x: Any, items: Any, pair: Any, table: Any) -> Any:
            items.append(x)
            (number,) = pair
            return items[0] * table["a"] + len(items) + len(pair) + number + pair[1]

        compiled = compile(forward)
        items, pair, table = List([tensor()]), Tuple([1.0, 2.0]), Dict(a=2)
        first = compiled(tensor(), items, pair, table)
        return first, compiled(tensor(), items, pair, table), list.__len__(items), ran

    same(scenario, breaks=0)


# -- dicts under two names -----------------------------------------------------------------------------------
def test_objects_that_share_their_dict() -> None:
    def scenario(compile: Compile) -> Any:
        class Shared:
            state: dict[str, Any] = {}

            def __init__(self) -> None:
                self.__dict__ = Shared.state

        one, other = Shared(), Shared()
        one.count = 1  # type: ignore[attr-defined]

        def forward(x: Any, one: Any, other: Any) -> Any:
            one.count = one.count + 1
            return x * other.count

        compiled = compile(forward)
        return [compiled(tensor(), one, other) for _ in range(3)]

    same(scenario)


def test_the_dict_of_an_object_read_as_a_dict() -> None:
    def scenario(compile: Compile) -> Any:
        class Thing:
            count = 0

        thing = Thing()
        fields = vars(thing)

        def forward(x: Any) -> Any:
            fields["count"] = 3
            y = x * thing.count
            thing.count = 4
            return y * fields["count"]

        compiled = compile(forward)
        return compiled(tensor()), compiled(tensor()), fields

    same(scenario)


# -- what is around ------------------------------------------------------------------------------------------
def test_defaults_changed_between_calls() -> None:
    def scenario(compile: Compile) -> Any:
        def forward(x: Any) -> Any:
            made, half = weft.zeros(2), weft.tensor([1, 2]) / 2
            if made.device.type == "meta" or half.dtype == weft.float64:
                return x - 1, str(weft.get_default_device()), weft.get_default_dtype() is weft.float64
            return made + 1, half.dtype

        compiled = compile(forward)
        results = [compiled(tensor())]
        for dtype in (weft.float64, weft.float32, weft.float64, weft.float32):
            weft.set_default_dtype(dtype)
            results.append(compiled(tensor()))
        for device in ("meta", None):
            weft.set_default_device(device)
            results.append(compiled(tensor()))
        with weft.device("meta"):
            results.append(compiled(tensor()))
        return [*results, compiled(tensor())]

    same(scenario, frames=4)


def test_attributes_that_users_add_to_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    def scenario(compile: Compile) -> Any:
        read = []

        def doubled(self: Any) -> Any:
            read.append("doubled")
            return self * 2

        def added(self: Any, by: Any) -> Any:
            read.append("added")
            return self + by

        monkeypatch.setattr(weft.Tensor, "doubled", property(doubled), raising=False)
        monkeypatch.setattr(weft.Tensor, "added", added, raising=False)
        compiled = compile(lambda x: (x.doubled, (x * 1).added(4), weft.Tensor.added(x, 1)))
        results = [compiled(tensor()), compiled(tensor())]
        monkeypatch.setattr(weft.Tensor, "added", lambda self, by: self - by)
        return *results, compiled(tensor()), read

    same(scenario, breaks=0)


# -- functions, descriptors, protocols -----------------------------------------------------------------------
def test_defaults_that_come_later() -> None:
    def scenario(compile: Compile) -> Any:
        def scaled(x: Any, by: Any, *, shift: Any) -> Any:
            return x * by + shift

        def forward(x: Any) -> Any:
            try:
                return scaled(x)  # type: ignore[call-arg]
            except TypeError as error:
                return x - 1, str(error)

        compiled = compile(forward)
        results = [compiled(tensor())]
        scaled.__defaults__ = (4,)
        results.append(compiled(tensor()))
        scaled.__kwdefaults__ = {"shift": 2}
        return [*results, compiled(tensor())]

    same(scenario, breaks=0)


def test_a_descriptor_that_becomes_one_of_data() -> None:
    def scenario(compile: Compile) -> Any:
        class Descriptor:
            def __get__(self, owner: Any, cls: Any) -> int:
                return 7

        class Thing:
            scale = Descriptor()

        thing = Thing()
        vars(thing)["scale"] = 3
        compiled = compile(lambda x: x * thing.scale)
        results = [compiled(tensor())]
        Descriptor.__set__ = lambda self, owner, value: None  # type: ignore[attr-defined]
        return [*results, compiled(tensor())]

    same(scenario, breaks=0)


def test_protocols_ask_for_names() -> None:
    @runtime_checkable
    class Scales(Protocol):
        scale: int

        def apply(self, x: Any) -> Any: ...

    def scenario(compile: Compile) -> Any:
        class Thing:
            def apply(self, x: Any) -> Any:
                return x * 2

        compiled = compile(lambda x, thing: thing.apply(x) if isinstance(thing, Scales) else x)
        thing = Thing()
        results = [compiled(tensor(), thing)]
        thing.scale = 2  # type: ignore[attr-defined]
        results.append(compiled(tensor(), thing))
        Thing.apply = None  # type: ignore[assignment, method-assign]
        return [*results, compiled(tensor(), thing)]

    same(scenario, breaks=0)


# -- not a number --------------------------------------------------------------------------------------------
def test_containers_know_nan_by_identity() -> None:
    def scenario(compile: Compile) -> Any:
        one, other = float("nan"), float("nan")
        table = {one: 2, other: 3}
        items = [one, 1.0]

        def forward(x: Any, key: Any) -> Any:
            found = (key in items, key in [key], [key] == [key], key == key, items.count(key), one in items)
            return x * table.get(key, 5), found, [key].index(key), key in table

        compiled = compile(forward)
        return [compiled(tensor(), key) for key in (one, other, float("nan"), 1.0, one)]

    same(scenario, breaks=1)


def test_an_empty_slot_is_told_as_python_tells_it() -> None:
    def scenario(compile: Compile) -> Any:
        class Thing:
            __slots__ = ("scale",)

        def forward(x: Any, thing: Any) -> Any:
            try:
                del thing.scale
                return x * thing.scale
            except AttributeError as error:
                return x + 1, str(error), error.name

        compiled = compile(forward)
        things = [Thing(), Thing()]
        things[1].scale = 2
        return [compiled(tensor(), thing) for thing in things]

    same(scenario, breaks=0)


def test_keys_that_change_while_they_are_keys() -> None:
    def scenario(compile: Compile) -> Any:
        class Key:
            def __init__(self, number: int) -> None:
                self.number = number

            def __hash__(self) -> int:
                return hash(self.number)

            def __eq__(self, other: object) -> bool:
                return isinstance(other, Key) and self.number == other.number

        one, two = Key(1), Key(2)
        table, items = {one: 10, two: 20}, {one, two}

        def forward(x: Any, number: int) -> Any:
            key = Key(number)
            return x * len(table), key in table, key in items, list(table.values()), len(items)

        compiled = compile(forward)
        results = []
        for now in (1, 2, 7, 1):
            one.number = now
            results += [compiled(tensor(), number) for number in (1, 2, 7)]
        return results

    same(scenario)


# -- what Python itself keeps --------------------------------------------------------------------------------
def test_the_dict_and_the_name_of_a_class() -> None:
    def scenario(compile: Compile) -> Any:
        class Thing:
            """First."""

            scale = 1

        def forward(x: Any) -> Any:
            names = Thing.__dict__
            Thing.count = 1  # type: ignore[attr-defined]
            scaled = x * names["scale"] + names.get("shift", 5)
            return scaled, "shift" in vars(Thing), Thing.__name__, Thing.__doc__, names["count"], type(names)

        compiled = compile(forward)
        results = [compiled(tensor())]
        for name, value in {"scale": 2, "shift": 8, "__name__": "Other", "__doc__": "Second."}.items():
            setattr(Thing, name, value)
            results.append(compiled(tensor()))
        return results

    same(scenario, breaks=0)


def test_imports_find_what_stands_in_the_list_of_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    def scenario(compile: Compile) -> Any:
        def forward(x: Any) -> Any:
            import attacked  # type: ignore[import-not-found]
            from attacked import scale

            return x * attacked.scale + scale

        compiled = compile(forward)
        results = []
        for scale in (2, 3):
            put(monkeypatch, types.ModuleType("attacked")).scale = scale
            results.append(compiled(tensor()))
        return results

    same(scenario, breaks=0)


def test_functions_of_one_code_and_two_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    def scenario(compile: Compile) -> Any:
        first, second = types.ModuleType("attacked"), types.ModuleType("attacked_too")
        monkeypatch.setitem(sys.modules, "attacked_too", second)
        put(monkeypatch, first)
        exec("def apply(x): return x * scale", vars(first))
        second.apply = types.FunctionType(first.apply.__code__, vars(second))  # type: ignore[attr-defined]
        first.scale, second.scale = 2, 3  # type: ignore[attr-defined]
        inlined = compile(lambda x, apply: apply(x))

        def calls(x: Any, apply: Any) -> Any:
            weft.compiler.graph_break()
            return apply(x)

        called = compile(calls)
        functions = [first.apply, second.apply, first.apply]  # type: ignore[attr-defined]
        return [(inlined(tensor(), apply), called(tensor(), apply)) for apply in functions]

    same(scenario)


def test_flags_put_together() -> None:
    class Flags(enum.IntFlag):
        LOW = 1
        HIGH = 2

    def scenario(compile: Compile) -> Any:
        compiled = compile(lambda x, flags: (x * (flags & Flags.HIGH), bool(flags & Flags.LOW)))
        return [compiled(tensor(), flags) for flags in (Flags.LOW, Flags.LOW | Flags.HIGH, Flags(0))]

    same(scenario, frames=3, breaks=0)


def test_c_code_that_wants_numbers_gets_them() -> None:
    def scenario(compile: Compile) -> Any:
        compiled = compile(lambda x, n: (x + n, deque([1, 2, 3], n), deque([x], maxlen=n), "%.*f" % (n, 1.5)))  # noqa: UP031
        return [compiled(tensor(), n) for n in (2, 3, 4)]

    same(scenario, breaks=0)


def test_defaults_changed_while_capturing() -> None:
    def backend(graph: Any, inputs: Any) -> Any:
        weft.set_default_dtype(weft.float64)
        return graph.forward

    try:
        compiled = weft.compile(
            lambda x: x * (2 if weft.zeros(1).dtype == weft.float64 else 3), backend=backend
        )
        compiled(tensor())
        assert compiled(tensor()).tolist() == [2.0, 4.0, 6.0]
    finally:
        weft.set_default_dtype(weft.float32)
