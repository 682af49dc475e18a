"""Text: strings, bytes and formatting in captured code."""

# ruff: noqa: F507, F522, F524, PLE1307, SIM905, UP030, UP031, UP032 - unusual writing is what is tested

from __future__ import annotations

import pytest

from tests.capture.features.harness import check, tensor


def test_f_strings():
    def function(x, name, n):
        width = 8
        return x + n, (
            f"{name} {n:03d} {n!r:>4} {name!s:^{width}} {name:*<{n}} {n=} "
            f"{3.14159:.2f} {1e9:g} {1234567:,} {0.5:%} {n:#x}"
            f"{{}} {name + '!'} {[1, 'a']} {None} {n:+} {name!a} {255:b} {1 / 3:8.3e}"
        )

    check(
        function,
        lambda: (tensor(), "né", 5),
        lambda: (tensor(), "né", 5),
        lambda: (tensor(), "b", 6),
        frames=2,
    )


def test_percent_formatting():
    def function(x, name, n):
        return (
            x + n,
            "%s is %d" % (name, n),
            "%5.2f|%-5s|%r" % (1.234, name, name),
            "%(a)s %(b)x" % {"a": 1, "b": 255},
            "%%",
        )

    check(function, lambda: (tensor(), "a", 5))


def test_format_method():
    def function(x, name, n):
        return (
            x + n, "{} {}".format(name, n), "{1} {0}".format(1, 2), "{a[0]} {b:>5}".format(a=[1], b=name),
            format(n, "05d"),
            "{0.real} {0!r}".format(3), "{:{}}".format("a", 4), "{k}".format_map({"k": 1}), format(3.0),
            format("a", ">3"),
        )  # fmt: skip

    check(function, lambda: (tensor(), "a", 5))


def test_shapes_and_dtypes_in_text():
    def function(x):
        return (
            x + 1,
            f"{x.shape} {x.dtype} {tuple(x.shape)}",
            str(x.dtype),
            repr(x.shape),
            f"{x.dim()}d",
            f"{x.device}",
        )

    check(function)


def test_formatting_of_user_objects():
    def function(x, tag):
        return x + 1, f"{tag}", f"{tag!r}", f"{tag:wide}", str(tag), repr([tag]), "%s" % tag, "{}".format(tag)

    check(function, lambda: (tensor(), Tag("a")))


class Tag:
    """An object with texts of its own."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"<{self.name}>"

    def __repr__(self):
        return f"Tag({self.name!r})"

    def __format__(self, spec):
        return f"{self.name}:{spec}"


def test_split_and_join():
    def function(x, text):
        return (
            x + len(text), text.split(), text.split("b"), text.split(" ", 1), text.rsplit(" ", 1),
            ", ".join(["a", "b"]),
            "-".join(str(i) for i in range(3)), "".join(map(str, [1, 2])), text.partition("b"),
            text.rpartition("z"),
            "a\nb".splitlines(True), "".join({"k": 1}), text.splitlines(),
        )  # fmt: skip

    check(function, lambda: (tensor(), "ab bc  cd"))


def test_string_methods():
    def function(x, text):
        return (
            x + 1, text.upper(), text.lower(), text.title(), text.capitalize(), text.swapcase(),
            text.strip(), text.lstrip(" a"),
            text.rstrip(), text.replace("l", "L", 1), text.find("l"), text.rfind("l"), text.index("l"),
            text.count("l"),
            text.startswith((" h", "x")), text.endswith("o "), text.center(11, "*"), text.ljust(9),
            text.rjust(9, "."),
            text.zfill(9), text.isalpha(), "12".isdigit(), "a1".isalnum(), "a_b".isidentifier(),
            "\t".expandtabs(4),
            text.removeprefix(" "), text.removesuffix("x"), text.casefold(), text.isspace(), text.encode(),
            "A".isupper(),
        )  # fmt: skip

    check(function, lambda: (tensor(), " hello "), lambda: (tensor(), " hollo "), frames=2)


def test_translate():
    def function(x, text):
        table = str.maketrans("ab", "xy", "c")
        return (
            x + 1,
            text.translate(table),
            text.translate({97: None, 98: "bee"}),
            table,
            b"abc".translate(None, b"b"),
        )

    check(function, lambda: (tensor(), "abc"))


def test_string_operators():
    def function(x, text):
        text += "!"
        return (
            x + len(text), text * 2, 2 * text, text[0], text[-2:], text[::-1], "b" in text, "z" not in text,
            text < "b",
            text == "ab!", list(text), sorted(text), max(text), ord("a"), chr(233), text[1:1], "é" > "e",
            "a" "b", ascii("é"),
        )  # fmt: skip

    check(function, lambda: (tensor(), "ab"))


def test_bytes_and_bytearrays():
    def function(x, data):
        buffer = bytearray(b"ab")
        buffer.append(99)
        buffer[0] = 65
        buffer += b"d"
        return (
            x + data[0], data + b"c", data.hex(), bytes.fromhex("ff00"), data.decode(), b"%d" % 5, data[0:1],
            list(data),
            buffer, bytes(buffer), data.split(b"b"), b",".join([b"a", b"b"]), int.from_bytes(data, "big"),
            bytes(3),
            (258).to_bytes(2, "little"), bytes([1, 2]), data.startswith(b"a"), data.upper(), data == b"ab",
            b"a" in data,
        )  # fmt: skip

    check(function, lambda: (tensor(), b"ab"), lambda: (tensor(), b"cd"), frames=2)


def test_numbers_and_text():
    def function(x):
        return (
            x + int("12"), int("ff", 16), int(" 7 "), float("1e3"), float("inf"), str(1.0), str(-0.0),
            repr(0.1), str(True),
            complex("1+2j"), bin(5), oct(8), hex(255), int("0b11", 0), str(10**30), (255).bit_length(),
            (1.5).as_integer_ratio(),
            (0.1).hex(), float.fromhex("0x1p-1"), (3.0).is_integer(), str(None), repr("it's"), repr(b"x"),
            str([1.5, "a"]),
        )  # fmt: skip

    check(function)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: "a" + 1,
        lambda: "abc"[9],
        lambda: "%d" % "a",
        lambda: "%s %s" % ("a",),
        lambda: "%s" % ("a", "b"),
        lambda: "{}".format(),
        lambda: "{a}".format(b=1),
        lambda: f"{'a':d}",
        lambda: f"{1:zz}",
        lambda: int("x"),
        lambda: int("9", 5),
        lambda: float("y"),
        lambda: "a".index("z"),
        lambda: ",".join([1]),
        lambda: "a".split(""),
        lambda: b"a" + "a",
        lambda: "é".encode("ascii"),
        lambda: b"\xff".decode(),
        lambda: bytes([300]),
        lambda: chr(-1),
        lambda: ord("ab"),
        lambda: "a".none,
        lambda: "a" < 1,
        lambda: "a" * "b",
        lambda: 1 in "a",
    ],
)
def test_wrong_use_raises_the_same(wrong):
    def function(x):
        y = x + 1
        try:
            wrong()
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            return y, type(error), str(error)

    check(function)


def test_text_built_in_a_loop_chooses_the_path():
    def function(x, words):
        name = ""
        for word in words:
            name += word[0].upper()
        return x + 1 if name == "AB" else x - 1, name

    check(function, lambda: (tensor(), ["ant", "bee"]), lambda: (tensor(), ["cat"]), frames=2)


def test_text_with_an_address_breaks():
    def function(x, box):
        y = x + 1
        text = str(box)
        return y * 2, "object" in text

    box = object()
    check(function, lambda: (tensor(), box), breaks=1, frames=2)


def test_print_breaks(capsys):
    def function(x):
        y = x + 1
        print("shape", y.shape)
        return y * 2

    check(function, breaks=1, frames=2, watch=lambda: capsys.readouterr().out)


def test_text_of_containers_that_hold_themselves():
    def function(x, given):
        made = {"x": 1}
        made["y"] = [made]
        return x + 1, str(made), repr(given), f"{[given]}"

    def arguments():
        given = [1, (2,)]
        given.append(given)
        return tensor(), given

    check(function, arguments)
