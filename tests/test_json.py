"""The readers and the writer of JSON: hostile input, fast path against exact path, round trips."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvformat.codecs._json.exact import ExactReader
from kvformat.codecs._json.fast import FEW, FastReader
from kvformat.codecs._json.settings import ReadSettings
from kvformat.codecs._two_paths import to_arrow
from kvformat.registry import get_format
from kvformat.registry.ddl import parse_schema
from kvformat.registry.types import FlinkType
from tests import vectors

_ORDERS = (
    "id BIGINT, customer STRING, note STRING, price DOUBLE, amount DECIMAL(10, 2), at TIMESTAMP(3), paid BOOLEAN, "
    "tags ARRAY<STRING>, ship ROW<city STRING, zip INT, at TIMESTAMP_LTZ(3)>"
)
_MORE = (
    "i1 TINYINT, i2 SMALLINT, i INT, f FLOAT, d DATE, t TIME(3), b BYTES, m MAP<STRING, BIGINT>, "
    "r ARRAY<ROW<x INT, y ARRAY<INT>>>, wide DECIMAL(38, 18), s CHAR(3)"
)


def _order(rng: random.Random) -> dict[str, Any]:
    text = rng.choice(["", "plain", "with blank", "é ß 世界", 'quote " and \\ and \n', "😀", "a\u2028b", "x" * 70])
    return {
        "id": rng.choice([rng.randrange(-(2**63), 2**63), rng.randrange(1000), 0, None]),
        "customer": f"c-{rng.randrange(10**6)}",
        "note": rng.choice([text, None]),
        "price": rng.choice([rng.random() * 1000, 1e-7, -0.0, 1.5e300, 3, None]),
        "amount": rng.choice(
            [round(rng.random() * 10**5, 2), 100, 1e16, 2e-7, 0.005, 123456789012.5, "12.50", "1E+2", None]
        ),
        "at": rng.choice(["2024-02-29 23:59:59.123", "1969-12-31 00:00:00", "2024-06-01 12:00:00.123456789", None]),
        "paid": rng.choice([True, False, None]),
        "tags": rng.choice([[], ["a"], ["a", None, text], None]),
        "ship": rng.choice([{"city": text, "zip": 12345, "at": "2024-01-01 00:00:00Z"}, {}, {"zip": -1}, None]),
        "i1": rng.choice([-128, 127, 5]),
        "i2": rng.choice([-32768, 3]),
        "i": rng.choice([2**31 - 1, 7, 1.9]),
        "f": rng.choice([1.5, 0.1, 16777217]),
        "d": rng.choice(["2024-02-29", "0001-01-01", "9999-12-31"]),
        "t": rng.choice(["10:11:12", "10:11:12.345", "00:00:00"]),
        "b": rng.choice(["AAH/", "", "YQ=="]),
        "m": rng.choice([{}, {"k": 1}, {"k": 1, "é": None}]),
        "r": rng.choice([[], [{"x": 1, "y": [1, 2]}, None, {"y": []}]]),
        "wide": rng.choice([1, 0.123456789012345678, -12345678901234567.25, 1e19, 1e-18, 5e-19, 1e25]),
        "s": rng.choice(["abc", "abcdef"]),
    }


def _messages(rng: random.Random, count: int) -> list[bytes]:
    """Ordinary messages of several producers: other orders, blanks, escapes, missing and extra keys."""
    found = []
    for _ in range(count):
        order = _order(rng)
        keys = list(order)
        if rng.random() < 0.3:
            rng.shuffle(keys)
        if rng.random() < 0.3:
            keys = [key for key in keys if rng.random() < 0.8]
        value = {key: order[key] for key in keys}
        if rng.random() < 0.3:
            value |= {"extra": rng.choice([1, "x", None, {"a": [1, {"b": "}"}]}, [[]]]), "more": True}
        ascii_only, indent = rng.random() < 0.3, rng.choice([None, None, None, 1])
        separators = rng.choice([(",", ":"), (",", ":"), (", ", ": "), (" , ", " : ")])
        found.append(json.dumps(value, ensure_ascii=ascii_only, indent=indent, separators=separators).encode())
    return found


def _mutated(rng: random.Random, message: bytes) -> bytes:
    data = bytearray(message)
    for _ in range(rng.randrange(1, 3)):
        place = rng.randrange(len(data) or 1)
        kind = rng.randrange(4)
        if kind == 0:
            data[place : place + 1] = bytes([rng.choice(b'"\\{}[],:0-+.eE truefalsnu\x00\x1f\x7f\x80\xc3\xed\xff')])
        elif kind == 1:
            del data[place : place + 1]
        elif kind == 2:
            data.insert(place, rng.choice(b'"\\{}[],:019-+.e \n'))
        else:
            del data[place:]
    return bytes(data) or b"{"


def _taken_and_equal(schema: str, reading: ReadSettings, messages: list[bytes], *, few: int = FEW) -> float:
    """The share of messages that the fast reader takes; each must have the exact reader's answer."""
    row: FlinkType = parse_schema(schema)
    exact, fast = ExactReader(row, reading), FastReader(row, reading, few=few)
    rows, refused = fast.read(pa.array(messages, pa.binary()))
    taken = np.flatnonzero(~refused)
    answers = [exact.read(messages[index]) for index in taken]
    wrong = [messages[i] for i, (found, _) in zip(taken, answers, strict=True) if found is None or len(found) != 1]
    assert not wrong, f"taken, but the exact reader has an error or no row: {wrong[:3]}"
    wanted = to_arrow([found[0] for found, _ in answers if found], row)
    got = rows.take(pa.array(taken))
    if not got.equals(wanted):
        for index, a, b in zip(taken, got.to_pylist(), wanted.to_pylist(), strict=True):
            assert repr(a) == repr(b), messages[index]
    assert got.to_pylist().__repr__() == wanted.to_pylist().__repr__()  # also NaN and the sign of zero
    return len(taken) / len(messages)


_SETTINGS = [
    ReadSettings(),
    ReadSettings(lenient=True),
    ReadSettings(fail_on_missing=True),
    ReadSettings(iso=True),
    ReadSettings(streaming=False),
]


@pytest.mark.parametrize("reading", _SETTINGS, ids=str)
def test_the_fast_path_answers_as_the_exact_one(reading: ReadSettings) -> None:
    rng = random.Random(20260101)
    messages = _messages(rng, 1500)
    _taken_and_equal(f"{_ORDERS}, {_MORE}", reading, messages)
    _taken_and_equal(_ORDERS, reading, messages)


@pytest.mark.parametrize("reading", _SETTINGS, ids=str)
def test_the_fast_path_answers_as_the_exact_one_on_broken_messages(reading: ReadSettings) -> None:
    rng = random.Random(7)
    messages = [_mutated(rng, message) for message in _messages(rng, 3000)]
    _taken_and_equal(_ORDERS, reading, messages)


def test_the_fast_path_takes_ordinary_messages() -> None:
    rng = random.Random(3)
    orders = []
    for n in range(2000):
        order = {k: v for k, v in _order(rng).items() if k in ("id", "customer", "paid", "tags")}
        orders.append(
            json.dumps(order | {"id": n, "price": n / 8, "amount": n + 0.25, "at": "2024-02-29 23:59:59.123"})
        )
    assert _taken_and_equal(_ORDERS, ReadSettings(), [text.encode() for text in orders]) == 1.0


def test_the_fast_path_answers_as_flink() -> None:
    for case in vectors.cases("json"):
        if case["direction"] != "decode" or "factory_error" in case or not case["messages"]:
            continue
        format = get_format("json", case["options"])
        reading = ReadSettings(
            streaming=format.options["decode.json-parser.enabled"],
            lenient=format.options["ignore-parse-errors"],
            fail_on_missing=format.options["fail-on-missing-field"],
            iso=format.options["timestamp-format.standard"] == "ISO-8601",
        )
        messages = [vectors.message_bytes(message["in"]) or b"" for message in case["messages"]]
        _taken_and_equal(vectors.columns(case), reading, messages)


def test_a_batch_does_not_depend_on_its_neighbours() -> None:
    rng = random.Random(11)
    messages = [*_messages(rng, 150), *(_mutated(rng, message) for message in _messages(rng, 150))]
    rng.shuffle(messages)
    format = get_format("json")
    together = format.decode_batch(pa.array([None, *messages], pa.binary()).slice(1), _ORDERS)
    errors = together.errors.to_pylist() if together.errors is not None else [None] * len(messages)
    for index, message in enumerate(messages):
        alone = format.decode_batch(pa.array([message], pa.binary()), _ORDERS)
        assert repr(together.rows[index].as_py()) == repr(alone.rows[0].as_py()), message
        assert errors[index] == (alone.errors[0].as_py() if alone.errors is not None else None), message


def test_messages_that_only_their_neighbour_would_complete_are_refused() -> None:
    whole = b'{"id":1,"customer":"a","tags":["b","c"],"ship":{"city":"d"}}'
    cuts = [part for at in range(1, len(whole)) for part in (whole[:at], whole[at:])]
    assert _taken_and_equal(_ORDERS, ReadSettings(), cuts, few=1) == 0
    assert 0 < _taken_and_equal(_ORDERS, ReadSettings(), [part for cut in cuts for part in (whole, cut)]) <= 0.5


_ELEMENTS = ("", "a", "x, y", "]", "[", "é", "a long text that goes on beyond the window", "b" * 8)
_UNUSUAL = (*_ELEMENTS, 'q"', "\\", "\n", None, 5, True, {})


@pytest.mark.parametrize("elements", [_ELEMENTS, _UNUSUAL], ids=["plain", "unusual"])
def test_the_fast_path_reads_arrays_of_texts_as_the_exact_one(elements: tuple[Any, ...]) -> None:
    rng = random.Random(8)
    messages = []
    for _ in range(3000):
        array = rng.choices(elements, k=rng.choice([0, 1, 1, 2, 3, 9]))
        text = json.dumps(array, ensure_ascii=rng.random() < 0.5, separators=rng.choice([(",", ":"), (" , ", ":")]))
        messages.append(f'{{"tags":{text},"id":{len(array)}}}'.encode())
    assert _taken_and_equal(_ORDERS, ReadSettings(), messages, few=1) > (0.99 if elements is _ELEMENTS else 0.5)
    _taken_and_equal(_ORDERS, ReadSettings(), [_mutated(rng, message) for message in messages])


@pytest.mark.parametrize("fraction", [0, 0.5, 1])
@pytest.mark.parametrize("most", [8, 20])
def test_the_fast_path_reads_numbers_of_any_length_as_the_exact_one(fraction: float, most: int) -> None:
    rng = random.Random(most)

    def number() -> str:
        text = rng.choice(["", "", "", "-"]) + str(rng.randrange(10 ** rng.randrange(1, most)))
        if rng.random() < fraction:
            text += "." + "".join(rng.choices("0123456789", k=rng.randrange(0 if rng.random() < 0.1 else 1, most)))
        return text + rng.choice([""] * 20 + ["e2", "E-3", "0", " ", "x", "."])

    messages = [f'{{"price":{number()},"amount":{number()},"id":{number()}}}'.encode() for _ in range(3000)]
    taken = _taken_and_equal("price DOUBLE, amount DECIMAL(20, 6), id DOUBLE", ReadSettings(), messages, few=1)
    assert taken > 0.2
    _taken_and_equal("price STRING, amount DECIMAL(18, 2), id BIGINT", ReadSettings(), messages, few=1)


# --- other layouts than that of Flink -------------------------------------------------------------------

_DEEP = (
    "id BIGINT, name STRING, price DECIMAL(10, 2), ok BOOLEAN, tags ARRAY<STRING>, m MAP<STRING, INT>, "
    "a ROW<id INT, name STRING, b ROW<id INT, ok BOOLEAN, c ROW<name STRING, x DOUBLE>>>, "
    'lines ARRAY<ROW<id INT, price DECIMAL(5, 1), sub ROW<id INT, name STRING>>>, `\u00e9 "q` INT, x INT'
)
_BLANK = (" ", "\t", "\r\n", "\n      ", " " * 9, " " * 60)


def _deep(rng: random.Random) -> dict[str, Any]:
    number = rng.randrange(1000)
    return {
        "id": number,
        "name": rng.choice(["plain", "x" * 30, 'say "id": {1}', "a\\", "é\n😀", ""]),
        "price": rng.choice([number / 4, 100, None]),
        "ok": rng.choice([True, False, None]),
        "tags": rng.choice([[], ["id"], ["a", '","id":1', None]]),
        "m": rng.choice([{}, {"id": 1}, {"a": 1, "id": None, "name": 3}]),
        "a": rng.choice(
            [{"id": number, "name": "n", "b": {"id": 1, "ok": True, "c": {"name": "deep", "x": 0.5}}}, {"b": {}}, None]
        ),
        "lines": [{"id": n, "price": n / 2, "sub": {"id": n, "name": "s"}} for n in range(rng.randrange(4))],
        "x": number,
    }


def _written(value: Any, rng: random.Random, *, blanks: bool = False, shuffled: bool = False, **how: Any) -> str:
    """A value as JSON, with random blanks between all tokens, or keys in random order at every level."""
    between = (lambda: rng.choice(_BLANK[:5]) if rng.random() < 0.3 else "") if blanks else lambda: ""
    if isinstance(value, dict):
        items = list(value.items())
        if shuffled:
            rng.shuffle(items)
        parts = [
            between() + json.dumps(key, **how) + between() + ":" + between()
            + _written(item, rng, blanks=blanks, shuffled=shuffled, **how) + between()
            for key, item in items
        ]  # fmt: skip
        return "{" + (",".join(parts) or between()) + "}"
    if isinstance(value, list):
        parts = [between() + _written(item, rng, blanks=blanks, shuffled=shuffled, **how) + between() for item in value]
        return "[" + (",".join(parts) or between()) + "]"
    return json.dumps(value, **how)


def _random_order(rng: random.Random, value: dict[str, Any]) -> str:
    return _written(value, rng, shuffled=True, ensure_ascii=False)


def _random_blanks(rng: random.Random, value: dict[str, Any]) -> str:
    return _written(value, rng, blanks=True, ensure_ascii=False)


def _blanks_around(rng: random.Random, value: dict[str, Any]) -> str:
    return rng.choice(_BLANK) + _written(value, rng) + rng.choice(_BLANK)


def _extra(rng: random.Random, value: dict[str, Any]) -> str:
    """Members of no column at any place, with names and members of columns inside of them."""
    others = {"k1": 1, "k\u00e92": "text", "k3": {"id": 7, "name": ["x", {"ok": 1}], "a": {"b": {"id": 1}}}, "k4": [[]]}
    items = [*value.items(), *((key, other) for key, other in others.items() if rng.random() < 0.6)]
    nested = value["a"] and {**value["a"], "other": {"id": "none", "b": 2}}
    return _written(dict(sorted(items, key=lambda _: rng.random())) | {"a": nested}, rng, ensure_ascii=False)


def _repeated(rng: random.Random, value: dict[str, Any]) -> str:
    """The same key twice, in the object or in one inside of it."""
    key = rng.choice(["id", "name", "a", "lines"])
    again = _written({key: value[key]}, rng)[1:-1]
    text = _written(value, rng)
    return text[:-1] + "," + again + "}" if rng.random() < 0.7 else text.replace('"b":{', '"b":{"id":2,', 1)


_LAYOUTS: dict[str, Callable[[random.Random, dict[str, Any]], str]] = {
    "plain": lambda rng, value: json.dumps(value, separators=(",", ":"), ensure_ascii=False),
    "sorted": lambda rng, value: json.dumps(value, separators=(",", ":"), sort_keys=True),
    "reversed": lambda rng, value: json.dumps(dict(reversed(value.items())), separators=(",", ":")),
    "random order": _random_order,
    "blanks": lambda rng, value: json.dumps(value),
    "pretty": lambda rng, value: json.dumps(value, indent=2),
    "pretty, other order": lambda rng, value: json.dumps(value, indent="\t", sort_keys=True),
    "random blanks": _random_blanks,
    "blanks around": _blanks_around,
    "missing": lambda rng, value: _written({k: v for k, v in value.items() if rng.random() < 0.8}, rng),
    "extra": _extra,
    "repeated": _repeated,
    "escaped keys": lambda rng, value: (
        _written(value, rng).replace('"id"', '"\\u0069d"').replace('"x"', '"\\u0078"', 1)
    ),
    "a quote in a name": lambda rng, value: _written({**value, 'é "q': 5}, rng, ensure_ascii=rng.random() < 0.5),
}
_REFUSED = {"repeated", "escaped keys", "a quote in a name"}  # partly or all, as they are no ordinary input
_CUT = ("plain", "random order", "random blanks", "extra")


def _laid_out(rng: random.Random, names: Sequence[str], count: int) -> list[bytes]:
    return [_LAYOUTS[rng.choice(names)](rng, _deep(rng)).encode() for _ in range(count)]


@pytest.mark.parametrize("layout", _LAYOUTS)
@pytest.mark.parametrize("share", [1.0, 0.1])
def test_the_fast_path_answers_as_the_exact_one_whatever_the_layout(layout: str, share: float) -> None:
    rng = random.Random(f"{layout} {share}")
    names = [layout] if share == 1 else [layout, *["plain"] * 9]
    taken = _taken_and_equal(_DEEP, ReadSettings(), _laid_out(rng, names, 400), few=0)
    assert taken >= (0.99 if layout not in _REFUSED else 0 if share == 1 else 0.8)


@pytest.mark.parametrize("few", [1, FEW])
@pytest.mark.parametrize("reading", _SETTINGS, ids=str)
def test_the_fast_path_answers_as_the_exact_one_on_mixed_layouts(reading: ReadSettings, few: int) -> None:
    rng = random.Random(f"{reading} {few}")
    _taken_and_equal(_DEEP, reading, _laid_out(rng, list(_LAYOUTS), 900), few=few)


@pytest.mark.parametrize("few", [0, 1, 4])
def test_the_fast_path_answers_as_the_exact_one_beside_broken_messages(few: int) -> None:
    """Messages cut off or changed anywhere, each between whole ones, which are still taken."""
    rng = random.Random(few)
    messages = []
    for whole in _laid_out(rng, _CUT, 500):
        broken = rng.choice(_laid_out(rng, _CUT, 1))
        messages += [whole, broken[: rng.randrange(1, len(broken))] if rng.random() < 0.5 else _mutated(rng, broken)]
    assert _taken_and_equal(_DEEP, ReadSettings(), messages, few=few) > 0.49


@pytest.mark.parametrize("few", [0, 1, FEW])
def test_the_fast_path_answers_as_the_exact_one_on_names_without_an_end(few: int) -> None:
    """What looks like a key, but begins where it should end, or ends a text."""
    rng = random.Random(few)
    messages = []
    for _ in range(1500):
        members = ['"id":1', '"name":"a"', '"other":2', '"price":3', '"more":{"id":4}', '"x":null']
        rng.shuffle(members)
        odd = ('":5', '":"b"', '":":6', '"":7', '"c\\":","d"', '"o":"\\":"', '":x":8', '"y":":"', "")
        members.insert(rng.randrange(len(members)), rng.choice(odd))
        messages.append(b"{" + ",".join(filter(None, members)).encode() + b"}")
    assert _taken_and_equal("id INT, name STRING, price INT, x INT", ReadSettings(), messages, few=few) > 0.3


def test_the_fast_path_takes_messages_of_all_layouts_in_one_batch() -> None:
    rng = random.Random(17)
    names = [name for name in _LAYOUTS if name not in _REFUSED]
    assert _taken_and_equal(_DEEP, ReadSettings(), _laid_out(rng, names, 4000)) > 0.9


_PIECES = (
    *"ab{:,é世\x7f\x01",
    "😀",
    '\\"',
    "\\\\",
    "\\/",
    "\\b\\f\\n\\r\\t",
    "\\u0041",
    "\\u00e9",
    "\\u4E16",
    "\\u0000",
)
_PAIRS = ("\\ud83d\\ude00", "\\uDBFF\\uDFFF", "\\ud83d", "\\ude00", "\\ud83d\\u0041", "\\ud83d\\ud83d\\ude00")
_BROKEN = ("\\x", "\\u12", "\\u12g4", "\\", "\\u", '\\"')


@pytest.mark.parametrize("odd", [(), _PAIRS, _BROKEN], ids=["plain", "pairs", "broken"])
def test_the_fast_path_reads_escapes_as_the_exact_one(odd: tuple[str, ...]) -> None:
    rng = random.Random(len(odd))
    texts = [rng.choices((*_PIECES, *rng.choices(odd or _PIECES, k=2)), k=rng.randrange(1, 12)) for _ in range(1500)]
    messages = [f'{{"a":"{"".join(text)}","skipped":"{"".join(reversed(text))}","b":"\\n"}}'.encode() for text in texts]
    taken = _taken_and_equal("a STRING, b STRING", ReadSettings(), messages, few=1)
    assert taken == 1 if not odd else 0 < taken < 1


def test_the_fast_path_takes_long_texts_with_escapes() -> None:
    """As writers leave them that escape all but ASCII; the last message is cut off behind a backslash."""
    rng = random.Random(23)
    letters = 'абвгдежз и\n\t世界😀"\\/x'
    texts = ["".join(rng.choices(letters, k=rng.randrange(300))) for _ in range(3000)]
    texts[7] = "\n".join(texts[:400])
    messages = [json.dumps({"a": text, "b": len(text)} if i % 3 else {"b": i}).encode() for i, text in enumerate(texts)]
    messages.append(b'{"b":1,"a":"' + 200 * b"\\n" + b"\\")
    assert _taken_and_equal("a STRING, b INT", ReadSettings(), messages) == 3000 / 3001


_CUT_NUMBERS = ("0.0", "-0.0", "7.0", "-7.25", "2147483646.999", "-2147483646.5", "12", "-0")
_TREES = ({}, [], [[], {}], {"a": [1, None, "é", True]}, [{"b": {"c": -12345678901234567890}}], {'"': 'say "hi"\n\t\\'})


@pytest.mark.parametrize("reading", _SETTINGS, ids=str)
def test_the_fast_path_takes_values_of_other_kinds(reading: ReadSettings) -> None:
    """Fractions for integers, booleans in quotes, objects and arrays for texts."""
    rng = random.Random(31)
    messages = []
    for _ in range(2000):
        tree = json.dumps(rng.choice(_TREES), ensure_ascii=False, separators=rng.choice([(",", ":"), (" , ", ": ")]))
        number, bool_ = rng.choice(_CUT_NUMBERS), rng.choice(["true", "false", '"true"', '"false"'])
        messages.append(f'{{"i":{number},"n":{number},"b":{bool_},"s":{tree},"l":[{tree},"x"]}}'.encode())
    assert _taken_and_equal("i INT, n BIGINT, b BOOLEAN, s STRING, l ARRAY<STRING>", reading, messages) == 1


_FAR_NUMBERS = (
    *(
        "2147483647.5",
        "-2147483648.5",
        "2147483648.0",
        "9223372036854775807.0",
        "0.9999999999999999",
        "3.9999999999999999",
    ),
    *("999999999999999.9", "1e2", "1.5e1", "1.", ".5", '"7.0"', '"true"', "[1]", "{}"),
)
_OTHER_TREES = (
    *('{"a":1.50}', '{"a":1,"b":2,"a":3}', '{"a":"\\u0041\\u001f"}', '["\x01"]', "[-0,1e3]", "[01]", "[1", "{,}"),
    *('{"a":NaN}', "[" * 1100 + "]" * 1100, "[" + "9" * 1001 + "]", "[" + "9" * 99 + "]", '["\\ud800"]'),
    *('["a\\/b"]', "[tru]", '{"":""}'),
)


@pytest.mark.parametrize("reading", _SETTINGS, ids=str)
def test_the_fast_path_answers_as_the_exact_one_on_values_of_other_kinds(reading: ReadSettings) -> None:
    rng = random.Random(37)
    messages = []
    for _ in range(2000):
        odd = rng.random() < 0.5
        tree = rng.choice(_OTHER_TREES) if odd else json.dumps(rng.choice(_TREES))
        number = "5" if odd else rng.choice(_FAR_NUMBERS)
        bool_ = rng.choice(["true", '"true"', '"TRUE"', '" true"', '"1"', '"tru\\u0065"', '""'])
        messages.append(f'{{"i":{number},"n":{number},"t":{number},"b":{bool_},"s":{tree}}}'.encode())
    assert _taken_and_equal("i INT, n BIGINT, b BOOLEAN, s STRING", reading, messages) > 0.01
    _taken_and_equal("t SMALLINT, n INTERVAL DAY TO SECOND, price DECIMAL(10, 2), s STRING", reading, messages)


def test_the_fast_path_reads_decimals_with_exponents_as_the_exact_one() -> None:
    rng = random.Random(5)
    messages = []
    for _ in range(2000):
        number = rng.choice(["0", "1", "-1", "5", "49", "-150", "123456789", "9999999", "1234567890123456789"])
        number += rng.choice(["", ".5", ".00", ".4999999", ".50000000001"])
        exponent = rng.choice(
            ["E+2", "e2", "E-2", "e-3", "e0", "e-18", "e-19", "e-20", "e18", "e-300", "e400", "E00000001"]
        )
        messages.append(f'{{"n":{number}{exponent},"w":{number}{exponent}}}'.encode())
    assert _taken_and_equal("n DECIMAL(10, 2), w DECIMAL(30, 6)", ReadSettings(), messages) > 0.8


# --- hostile input --------------------------------------------------------------------------------------

_HOSTILE: dict[str, tuple[bytes, bool]] = {  # name -> message, whether it is an error
    "50 MB of text": (b'{"customer":"' + b"x" * 50_000_000 + b'"}', False),
    "50 MB of text in a field that nobody asked for": (b'{"skipped":"' + b"x" * 50_000_000 + b'","id":1}', False),
    "50 MB of small fields": (b"{" + b'"k":1,' * 8_000_000 + b'"id":1}', False),
    "100,000 arrays in each other": (b'{"skipped":' + b"[" * 100_000 + b"]" * 100_000 + b"}", True),
    "100,000 objects in each other": (b'{"ship":' * 100_000 + b"1" + b"}" * 100_000, True),
    "100,000 opened arrays": (b"[" * 100_000, True),
    "a number of a million digits": (b'{"amount":' + b"9" * 1_000_000 + b"}", True),
    "a text of a million digits": (b'{"amount":"' + b"9" * 1_000_000 + b'"}', False),
    "a huge exponent": (b'{"amount":1e100000000}', False),
    "a tiny exponent": (b'{"amount":1e-100000000,"price":1e-100000000}', False),
    "a million times the same field": (b"{" + b'"id":1,' * 1_000_000 + b'"id":2}', False),
    "a million elements": (b'{"tags":[' + b'"a",' * 1_000_000 + b'"b"]}', False),
    "bytes that are not UTF-8": (b'{"customer":"\xff\xfe"}', True),
    "no code point behind the object": ('{"id":1} '.encode("utf-32-le") + b"????", True),
    "a million backslashes": (b'{"customer":"' + b"\\\\" * 1_000_000 + b'"}', False),
    "nothing but zeros": (b"\x00" * 1000, True),
}


@pytest.mark.parametrize("name", _HOSTILE)
def test_hostile_messages_cost_bounded_time_and_no_neighbour(name: str) -> None:
    message, is_error = _HOSTILE[name]
    good = b'{"id":7,"customer":"c","tags":["a"],"amount":1.25}'
    format = get_format("json")
    start = time.process_time()
    batch = format.decode_batch(pa.array([good, message, good], pa.binary()), _ORDERS)
    assert time.process_time() - start < 60  # seconds; nothing here may be quadratic
    errors = batch.errors.to_pylist() if batch.errors is not None else [None] * 3
    assert (errors[1] is not None) == is_error, errors
    assert is_error == (not batch.rows[1].is_valid)
    assert errors[0] is None
    assert errors[2] is None
    assert batch.rows[0].as_py() == batch.rows[2].as_py()
    assert batch.rows[0].as_py()[0]["amount"] == Decimal("1.25")
    assert all(error is None or len(error) < 300 for error in errors)
    lenient = get_format("json", {"ignore-parse-errors": "true"}).decode_batch(
        pa.array([message], pa.binary()), _ORDERS
    )
    assert lenient.errors is None


def test_errors_name_the_field() -> None:
    schema = "id INT, ship ROW<items ARRAY<ROW<price DECIMAL(5, 2)>>>"
    for message, reason in (
        (b'{"id":"x"}', "field 'id': cannot read \"x\" as INT"),
        (
            b'{"ship":{"items":[{"price":1},{"price":"?"}]}}',
            "field 'ship.items[1].price': cannot read \"?\" as DECIMAL(5, 2)",
        ),
        (b'{"id":1} x', "not JSON"),
        (b'{"id":1', "not JSON"),
    ):
        errors = get_format("json").decode_batch(pa.array([message]), schema).errors
        assert reason in errors[0].as_py(), message
    missing = get_format("json", {"fail-on-missing-field": "true"}).decode_batch(pa.array([b"{}"]), schema)
    assert "field 'id'" in missing.errors[0].as_py()


# --- round trips ----------------------------------------------------------------------------------------


def _no_negative_zero(value: float) -> float:
    """The tree reader turns -0.0 into 0.0 where the schema has a DECIMAL, as Flink's does."""
    return value + 0.0


_TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
_ROWS = st.fixed_dictionaries(
    {
        "b": st.none() | st.booleans(),
        "i": st.none() | st.integers(-(2**31), 2**31 - 1),
        "l": st.integers(-(2**63), 2**63 - 1),
        "d": st.none() | st.floats(allow_nan=False).map(_no_negative_zero),
        "f": st.floats(width=32, allow_nan=False).map(_no_negative_zero),
        "de": st.none() | st.decimals(-(10**15), 10**15, places=4, allow_nan=False),
        "s": st.none() | _TEXT,
        "by": st.none() | st.binary(max_size=20),
        "ts": st.none() | st.integers(-62135596800 * 10**6, 253402300799 * 10**6),
        "z": st.integers(-62135596800 * 10**6, 253402300799 * 10**6),
        "da": st.integers(-719162, 2932896),
        "t": st.integers(0, 86_399_999).map(lambda ms: ms * 10**6),
        "a": st.none() | st.lists(st.none() | st.integers(-9, 9), max_size=4),
        "m": st.none() | st.dictionaries(_TEXT, st.none() | _TEXT, max_size=3).map(lambda d: list(d.items())),
        "r": st.none()
        | st.fixed_dictionaries({"x": st.none() | _TEXT, "y": st.lists(st.none() | st.booleans(), max_size=3)}),
    }
)
_ROUND = (
    "b BOOLEAN, i INT, l BIGINT, d DOUBLE, f FLOAT, de DECIMAL(20, 4), s STRING, by BYTES, ts TIMESTAMP(6), "
    "z TIMESTAMP_LTZ(6), da DATE, t TIME(3), a ARRAY<INT>, m MAP<STRING, STRING>, r ROW<x STRING, y ARRAY<BOOLEAN>>"
)
_OPTIONS = st.fixed_dictionaries(
    {
        "timestamp-format.standard": st.sampled_from(["SQL", "ISO-8601"]),
        "encode.decimal-as-plain-number": st.sampled_from(["true", "false"]),
        "encode.ignore-null-fields": st.sampled_from(["true", "false"]),
        "decode.json-parser.enabled": st.sampled_from(["true", "false"]),
    }
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_ROWS, max_size=8), _OPTIONS)
def test_what_is_written_reads_back(rows: list[dict[str, Any]], options: dict[str, str]) -> None:
    format = get_format("json", options)
    row = parse_schema(_ROUND)
    nested = [value | {"r": value["r"] and (value["r"]["x"], value["r"]["y"])} for value in rows]
    array = vectors.to_arrow([tuple(value[field.name] for field in row.fields) for value in nested], row)
    encoded = format.encode_batch(array, _ROUND)
    assert encoded.errors is None
    decoded = format.decode_batch(encoded.messages, _ROUND)
    assert decoded.errors is None
    assert repr(decoded.rows.values.to_pylist()) == repr(array.to_pylist())
    again = format.encode_batch(decoded.rows.values, _ROUND)
    assert again.messages.equals(encoded.messages)
    for message in encoded.messages.to_pylist():
        json.loads(message)
