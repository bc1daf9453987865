"""Read and write JSON: values, layouts, hostile input, round trips."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvformat.codecs.json import scalars
from kvformat.registry import get_format
from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.java.parse import python_float_text
from tests.support import cost, vectors
from tests.support.decoding import Answer, alone, answers, checked, decoded
from tests.support.extent import case_count
from tests.support.json_mutation import DEEP, LAYOUTS, MORE, ORDERS, deep, mutated, order

_TREE = {"decode.json-parser.enabled": "false"}
_LENIENT = {"ignore-parse-errors": "true"}
_SETTINGS: list[dict[str, str]] = [
    {},
    _LENIENT,
    {"fail-on-missing-field": "true"},
    {"timestamp-format.standard": "ISO-8601"},
    _TREE,
    {**_TREE, **_LENIENT},
]


def _read(schema: str, messages: Sequence[bytes | str], options: dict[str, str] | None = None) -> list[Answer]:
    """The result of each message, checked to be equal in one batch and alone."""
    format = get_format("json", options or {})
    data = [message.encode() if isinstance(message, str) else message for message in messages]
    found = answers(decoded(format, data, schema))
    assert found == alone(format, data, schema)
    return found


def _rows(schema: str, messages: Sequence[bytes | str], options: dict[str, str] | None = None) -> list[Any]:
    """The row of each message, a dict; None for an error."""
    data = [message.encode() if isinstance(message, str) else message for message in messages]
    rows = decoded(get_format("json", options or {}), data, schema).rows.to_pylist()
    assert all(row is None or len(row) == 1 for row in rows)
    return [row and row[0] for row in rows]


def _fitting(text: str, precision: int, scale: int) -> Decimal | None:
    """Round a number half up. Returns None if it then has too many digits."""
    unscaled = int(Decimal(text).scaleb(scale).to_integral_value(ROUND_HALF_UP))
    return Decimal(unscaled).scaleb(-scale) if abs(unscaled) < 10**precision else None


def _good(found: list[Answer]) -> float:
    return sum(answer.error is None for answer in found) / len(found)


# --- values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, _TREE, _LENIENT], ids=str)
def test_values_of_each_type(options: dict[str, str]) -> None:
    """Ordinary rows, compared with Python's own JSON parser."""
    rng = random.Random(20260101)
    wanted = [order(rng) for _ in range(1500)]
    rows = _rows(f"{ORDERS}, {MORE}", [LAYOUTS["plain"](rng, row) for row in wanted], options)
    for row, said in zip(rows, wanted, strict=True):
        for name in ("id", "customer", "note", "paid", "tags", "i1", "i2", "s"):
            assert row[name] == said[name]
        price = None if said["price"] is None else float(said["price"])
        if options == _TREE and price is not None:
            price += 0.0  # with a DECIMAL in the schema there is no -0.0
        assert repr(row["price"]) == repr(price)
        assert row["i"] == int(said["i"])
        assert row["f"] == {1.5: 1.5, 0.1: 0.10000000149011612, 16777217: 16777216.0}[said["f"]]
        amount = said["amount"]
        assert row["amount"] == (None if amount is None else _fitting(json.dumps(amount).strip('"'), 10, 2))
        assert row["wide"] == _fitting(json.dumps(said["wide"]), 38, 18)
        at = said["at"] and said["at"][:26]  # digits below a microsecond are truncated
        assert (row["at"] and row["at"].isoformat(" ")) == (
            at and (at + "000" if "123" in at and len(at) == 23 else at)
        )
        ship = said["ship"]
        assert (row["ship"] is None) == (ship is None)
        if ship is not None:
            assert [row["ship"][name] for name in ("city", "zip")] == [ship.get("city"), ship.get("zip")]
            assert (row["ship"]["at"] is not None) == ("at" in ship)
        assert row["d"].isoformat() == said["d"]
        assert row["t"].isoformat().removesuffix("000") == said["t"]
        assert row["b"] == {"AAH/": b"\0\1\xff", "": b"", "YQ==": b"a"}[said["b"]]
        assert row["m"] == list(said["m"].items())
        assert row["r"] == [item and {"x": item.get("x"), "y": item["y"]} for item in said["r"]]


@pytest.mark.parametrize("options", _SETTINGS, ids=str)
def test_a_batch_gives_the_rows_of_its_messages_alone(options: dict[str, str]) -> None:
    rng, count = random.Random(7), case_count(quick=150, night=500)
    iso = "timestamp-format.standard" in options
    whole = [LAYOUTS[rng.choice(list(LAYOUTS))](rng, order(rng, iso=iso)).encode() for _ in range(count)]
    found = _read(f"{ORDERS}, {MORE}", [*whole, *(mutated(rng, message) for message in whole)], options)
    if "fail-on-missing-field" not in options:
        assert _good(found[:count]) > 0.9
    assert _good(found) == 1 if "ignore-parse-errors" in options else _good(found) < 0.9


def test_part_of_a_message_is_an_error_with_any_neighbours() -> None:
    """Not even a neighbour that would complete it helps."""
    whole = b'{"id":1,"customer":"a","tags":["b","c"],"ship":{"city":"d"}}'
    cuts = [part for at in range(1, len(whole)) for part in (whole[:at], whole[at:])]
    assert _good(_read(ORDERS, cuts)) == 0
    found = _read(ORDERS, [part for cut in cuts for part in (whole, cut)])
    assert len(set(found[::2])) == 1
    assert _good(found[::2]) == 1
    assert _good(found[1::2]) == 0


_ELEMENTS = ("", "a", "x, y", "]", "[", "é", "a long text that goes on beyond the window", "b" * 8)
_UNUSUAL = (*_ELEMENTS, 'q"', "\\", "\n", None, 5, True, {})
_AS_TEXT = {"5": "5", "True": "true", "{}": "{}"}


@pytest.mark.parametrize("end", [" x", "]", ' {"a":3}', ",", "[", " 1"])
@pytest.mark.parametrize("message", ['[{"a":1},{"a":2}]', '{"a":1}'])
def test_a_message_with_more_after_its_value_has_no_rows(message: str, end: str) -> None:
    for options in (_LENIENT, {**_TREE, **_LENIENT}):
        assert _read("a INT", [message + end], options)[0].rows == "[]"
    assert _read("a INT", [message + end])[0].error is not None


@pytest.mark.parametrize("elements", [_ELEMENTS, _UNUSUAL], ids=["plain", "unusual"])
def test_arrays_of_texts(elements: tuple[Any, ...]) -> None:
    rng = random.Random(8)
    messages, wanted = [], []
    for _ in range(3000):
        array = rng.choices(elements, k=rng.choice([0, 1, 1, 2, 3, 9]))
        text = json.dumps(array, ensure_ascii=rng.random() < 0.5, separators=rng.choice([(",", ":"), (" , ", ":")]))
        messages.append(f'{{"tags":{text},"id":{len(array)}}}')
        wanted.append([_AS_TEXT[str(item)] if isinstance(item, int | dict) else item for item in array])
    rows = _rows(ORDERS, messages)
    assert [(row["tags"], row["id"]) for row in rows] == [(array, len(array)) for array in wanted]
    _read(ORDERS, [mutated(rng, message.encode()) for message in messages[:1000]])


_JSON_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)? *")


@pytest.mark.parametrize("fraction", [0, 0.5, 1])
@pytest.mark.parametrize("most", [8, 20])
def test_numbers_of_any_length(fraction: float, most: int) -> None:
    rng = random.Random(most)

    def number() -> str:
        text = rng.choice(["", "", "", "-"]) + str(rng.randrange(10 ** rng.randrange(1, most)))
        if rng.random() < fraction:
            text += "." + "".join(rng.choices("0123456789", k=rng.randrange(0 if rng.random() < 0.1 else 1, most)))
        return text + rng.choice([""] * 20 + ["e2", "E-3", "0", " ", "x", "."])

    texts = [(number(), number(), number()) for _ in range(3000)]
    messages = [f'{{"price":{price},"amount":{amount},"id":{id}}}' for price, amount, id in texts]
    for three, row in zip(texts, _rows("price DOUBLE, amount DECIMAL(20, 6), id DOUBLE", messages), strict=True):
        if not all(map(_JSON_NUMBER.fullmatch, three)):
            assert row is None, three
        else:
            price, amount, id = three
            wanted = [float(price), _fitting(amount.strip(), 20, 6), float(id)]
            assert repr(list(row.values())) == repr(wanted) or list(row.values()) == wanted, three
    found = _read("price STRING, amount DECIMAL(18, 2), id BIGINT", messages[:1000])
    assert 0.1 < _good(found) < 0.95


def test_words_for_a_number_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text that begins with a letter is not a number, except Java's two words for a DOUBLE."""
    seen: list[str] = []

    def noted(text: str) -> str:
        seen.append(text)
        return python_float_text(text)

    monkeypatch.setattr(scalars, "python_float_text", noted)
    texts = ["none", "x", "~", "[]", "abc1", "NaN", "Infinity", "-Infinity", "Nan", "Inf", " 1", "+1", ".5", "1f"]
    for schema in ("d DOUBLE NOT NULL", "d FLOAT NOT NULL"):  # no reader is cached for these
        seen.clear()
        found = _read(schema, [json.dumps({"d": text}) for text in texts])
        good = {"NaN", "Infinity", "-Infinity", " 1", "+1", ".5", "1f"}
        assert [text for text, answer in zip(texts, found, strict=True) if answer.error is None] == [
            text for text in texts if text in good
        ]
        assert found[0].error == f"field 'd': cannot read \"none\" as {schema.split()[1]}"
        assert set(seen) == set(texts) - {"none", "x", "~", "[]", "abc1"}


def test_decimals_with_exponents() -> None:
    rng = random.Random(5)
    texts = []
    for _ in range(2000):
        number = rng.choice(["0", "1", "-1", "5", "49", "-150", "123456789", "9999999", "1234567890123456789"])
        number += rng.choice(["", ".5", ".00", ".4999999", ".50000000001"])
        texts.append(
            number
            + rng.choice(["E+2", "e2", "E-2", "e-3", "e0", "e-18", "e-19", "e-20", "e18", "e-300", "e400", "E00000001"])
        )
    for options in ({}, _TREE):
        rows = _rows("n DECIMAL(10, 2), w DECIMAL(30, 6)", [f'{{"n":{text},"w":"{text}"}}' for text in texts], options)
        for text, row in zip(texts, rows, strict=True):
            if "e400" not in text and "e-300" not in text:
                assert (row["n"], row["w"]) == (_fitting(text, 10, 2), _fitting(text, 30, 6)), text
            elif "e-300" in text or float(text[: text.index("e")]) == 0:
                assert (row["n"], row["w"]) == (0, 0), text
            else:
                assert (row["n"], row["w"]) == (None, None), text


_CUT_NUMBERS = ("0.0", "-0.0", "7.0", "-7.25", "2147483646.999", "-2147483646.5", "12", "-0")
_TREES = ({}, [], [[], {}], {"a": [1, None, "é", True]}, [{"b": {"c": -12345678901234567890}}], {'"': 'say "hi"\n\t\\'})


@pytest.mark.parametrize("options", _SETTINGS, ids=str)
def test_values_of_other_kinds(options: dict[str, str]) -> None:
    """Fractions for integers, booleans in quotes, objects and arrays for texts."""
    rng = random.Random(31)
    messages, wanted = [], []
    for _ in range(2000):
        value = rng.choice(_TREES)
        tree = json.dumps(value, ensure_ascii=False, separators=rng.choice([(",", ":"), (" , ", ": ")]))
        number, bool_ = rng.choice(_CUT_NUMBERS), rng.choice(["true", "false", '"true"', '"false"'])
        messages.append(f'{{"i":{number},"n":{number},"b":{bool_},"s":{tree},"l":[{tree},"x"]}}')
        cut, text = int(float(number)), json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        wanted.append({"i": cut, "n": cut, "b": "true" in bool_, "s": text, "l": [text, "x"]})
    assert _rows("i INT, n BIGINT, b BOOLEAN, s STRING, l ARRAY<STRING>", messages, options) == wanted


_FAR_NUMBERS = (
    *("2147483647.5", "-2147483648.5", "2147483648.0", "9223372036854775807.0", "0.9999999999999999"),
    *("3.9999999999999999", "999999999999999.9", "1e2", "1.5e1", "1.", ".5", '"7.0"', '"true"', "[1]", "{}"),
)
_OTHER_TREES = (
    *('{"a":1.50}', '{"a":1,"b":2,"a":3}', '{"a":"\\u0041\\u001f"}', '["\x01"]', "[-0,1e3]", "[01]", "[1", "{,}"),
    *('{"a":NaN}', "[" * 1100 + "]" * 1100, "[" + "9" * 1001 + "]", "[" + "9" * 99 + "]", '["\\ud800"]'),
    *('["a\\/b"]', "[tru]", '{"":""}'),
)


@pytest.mark.parametrize("options", _SETTINGS, ids=str)
def test_unusual_values_of_other_kinds(options: dict[str, str]) -> None:
    rng = random.Random(37)
    messages = []
    for _ in range(1000):
        unusual = rng.random() < 0.5
        tree = rng.choice(_OTHER_TREES) if unusual else json.dumps(rng.choice(_TREES))
        number = "5" if unusual else rng.choice(_FAR_NUMBERS)
        bool_ = rng.choice(["true", '"true"', '"TRUE"', '" true"', '"1"', '"tru\\u0065"', '""'])
        messages.append(f'{{"i":{number},"n":{number},"t":{number},"b":{bool_},"s":{tree}}}')
    assert _good(_read("i INT, n BIGINT, b BOOLEAN, s STRING", messages, options)) > 0.2
    schema = "t SMALLINT, n INTERVAL DAY TO SECOND, price DECIMAL(10, 2), s STRING"
    found = _read(schema, messages, options)
    if "fail-on-missing-field" not in options:  # there is no price
        assert _good(found) == 1 if "ignore-parse-errors" in options else 0.01 < _good(found) < 0.9


@pytest.mark.parametrize(
    ("tree", "streaming", "by_tree"),
    [
        ('{"a":1.50}', '{"a":1.5}', '{"a":1.5}'),
        ('{"a":1,"b":2,"a":3}', '{"a":3,"b":2}', '{"a":3,"b":2}'),
        ('{"a":"\\u0041\\u001f"}', '{"a":"A\\u001F"}', '{"a":"A\\u001F"}'),
        ("[-0,1e3]", "[0,1000.0]", "[0,1000.0]"),
        ("[1e400,-1e400]", '["Infinity","-Infinity"]', '["Infinity","-Infinity"]'),
        ("[1234567.1234567891]", "[1234567.1234567892]", "[1234567.1234567892]"),
        ("[9999999.5,12345678.5]", "[9999999.5,1.23456785E7]", "[9999999.5,1.23456785E7]"),
        ("[0.001,0.0123,0.0009,-0.0005]", "[0.001,0.0123,9.0E-4,-5.0E-4]", "[0.001,0.0123,9.0E-4,-5.0E-4]"),
        ('["a\\/b"]', '["a/b"]', '["a/b"]'),
        ('{"":""}', '{"":""}', '{"":""}'),
        ("1e3", "1e3", "1000.0"),
        ("-0", "-0", "0"),
        ("1.50", "1.50", "1.5"),
    ],
)
def test_other_values_as_text(tree: str, streaming: str, by_tree: str) -> None:
    for options, wanted in (({}, streaming), (_TREE, by_tree)):
        assert _rows("s STRING", [f'{{"s":{tree}}}'], options) == [{"s": wanted}]


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


def _said(message: str) -> Any:
    """The result of Python's parser, with `?` for a lone surrogate; None for invalid JSON."""
    try:
        return {
            name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
            for name, value in json.loads(message, strict=False).items()
        }
    except ValueError:
        return None


@pytest.mark.parametrize("unusual", [(), _PAIRS, _BROKEN], ids=["plain", "pairs", "broken"])
def test_escapes(unusual: tuple[str, ...]) -> None:
    rng = random.Random(len(unusual))
    texts = [
        rng.choices((*_PIECES, *rng.choices(unusual or _PIECES, k=2)), k=rng.randrange(1, 12)) for _ in range(1500)
    ]
    messages = [f'{{"a":"{"".join(text)}","skipped":"{"".join(reversed(text))}","b":"\\n"}}' for text in texts]
    rows = _rows("a STRING, b STRING", messages)
    for message, row in zip(messages, rows, strict=True):
        said = _said(message)
        assert row == (said and {"a": said["a"], "b": said["b"]}), message
    refused = sum(row is None for row in rows)
    assert 100 < refused < 1400 if unusual == _BROKEN else refused == 0


def test_long_texts_with_escapes() -> None:
    """Texts of writers that escape all characters except ASCII. The last message is truncated after a backslash."""
    rng = random.Random(23)
    letters = 'абвгдежз и\n\t世界😀"\\/x'
    texts = ["".join(rng.choices(letters, k=rng.randrange(300))) for _ in range(3000)]
    texts[7] = "\n".join(texts[:400])
    said = [{"a": text, "b": len(text)} if i % 3 else {"a": None, "b": i} for i, text in enumerate(texts)]
    rows = _rows("a STRING, b INT", [*map(json.dumps, said), '{"b":1,"a":"' + 200 * "\\n" + "\\"])
    assert rows == [*said, None]


# --- layouts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_layouts_give_the_same_row(layout: str) -> None:
    rng = random.Random(layout)
    options = _TREE if layout == "repeated" else {}  # the streaming reader reads all values of a name
    said = [deep(rng) for _ in range(600)]
    messages = [LAYOUTS[layout](rng, value) for value in said]
    plain = _rows(DEEP, [LAYOUTS["plain"](rng, value) for value in said], options)
    mixed = [message if i % 10 == 0 else LAYOUTS["plain"](rng, said[i]) for i, message in enumerate(messages)]
    for rows in (_rows(DEEP, messages, options), _rows(DEEP, mixed, options)):
        for row, wanted in zip(rows, plain, strict=True):
            assert wanted is not None
            assert row | {"m": sorted(row["m"])} == wanted | {"m": sorted(wanted["m"])}


@pytest.mark.parametrize("options", _SETTINGS, ids=str)
def test_a_batch_of_all_layouts_gives_the_rows_of_its_messages_alone(options: dict[str, str]) -> None:
    """Messages that are truncated or changed anywhere, each between valid messages."""
    rng = random.Random(str(options))
    messages = []
    for _ in range(case_count(quick=150, night=500)):
        whole, broken = (LAYOUTS[rng.choice(list(LAYOUTS))](rng, deep(rng)).encode() for _ in range(2))
        cut = rng.random() < 0.5
        messages += [whole, broken[: rng.randrange(1, len(broken))] if cut else mutated(rng, broken)]
    _read(DEEP, messages, options)


def test_names_without_an_end() -> None:
    """Texts that look like a name, but begin at its end, or end another text."""
    rng = random.Random(1)
    messages = []
    for _ in range(1500):
        members = ['"id":1', '"name":"a"', '"other":2', '"price":3', '"more":{"id":4}', '"x":null']
        rng.shuffle(members)
        odd = ('":5', '":"b"', '":":6', '"":7', '"c\\":","d"', '"o":"\\":"', '":x":8', '"y":":"', "")
        members.insert(rng.randrange(len(members)), rng.choice(odd))
        messages.append("{" + ",".join(filter(None, members)) + "}")
    rows = _rows("id INT, name STRING, price INT, x INT", messages)
    for message, row in zip(messages, rows, strict=True):
        said = _said(message)
        assert row == (said and {name: said[name] for name in ("id", "name", "price", "x")}), message
    assert 300 < sum(row is None for row in rows) < 1200


_NAMES = [
    "a",
    "ab",
    "b",
    "abcdef",
    "abcdefg",
    "abcdefgh",
    "abcdefghi",
    "é",
    "éa",
    "x y",
    'q"',
    "back\\slash",
    "",
    " ",
    "\t",
    "n" * 300,
]


def test_names_of_any_length() -> None:
    """Names are compared in words of eight bytes: names with equal words, prefixes, escapes, and empty names."""
    rng = random.Random(2)
    names = [name for name in _NAMES if name.strip()]
    schema = ", ".join(f"`{name}` INT" for name in names)
    messages, wanted = [], []
    for _ in range(500):
        said = {name: rng.randrange(100) for name in rng.sample([*_NAMES, "abcdefgx", "A", "ab "], k=9)}
        messages.append(json.dumps(said, ensure_ascii=rng.random() < 0.5))
        wanted.append({name: said.get(name) for name in names})
    assert _rows(schema, messages) == wanted


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
    "no code point after the object": ('{"id":1} '.encode("utf-32-le") + b"????", True),
    "a million backslashes": (b'{"customer":"' + b"\\\\" * 1_000_000 + b'"}', False),
    "nothing but zeros": (b"\x00" * 1000, True),
}


@pytest.mark.parametrize("name", _HOSTILE)
def test_hostile_messages_take_bounded_time_and_do_not_affect_neighbours(name: str) -> None:
    message, is_error = _HOSTILE[name]
    good = b'{"id":7,"customer":"c","tags":["a"],"amount":1.25}'
    format = get_format("json")
    messages = pa.array([good, message, good], pa.binary())
    with cost.at_most(20):
        batch = format.decode_batch(messages, ORDERS)
    checked(batch, messages)
    errors = batch.errors.to_pylist() if batch.errors is not None else [None] * 3
    assert (errors[1] is not None) == is_error, errors
    assert is_error == (not batch.rows[1].is_valid)
    assert errors[0] is None
    assert errors[2] is None
    assert batch.rows[0].as_py() == batch.rows[2].as_py()
    assert batch.rows[0].as_py()[0]["amount"] == Decimal("1.25")
    assert all(error is None or len(error) < 300 for error in errors)
    lenient = decoded(get_format("json", {"ignore-parse-errors": "true"}), [message], ORDERS)
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
    """The tree reader turns -0.0 into 0.0 if the schema has a DECIMAL, as in Flink."""
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
def test_written_rows_read_back(rows: list[dict[str, Any]], options: dict[str, str]) -> None:
    format = get_format("json", options)
    row = parse_schema(_ROUND)
    nested = [value | {"r": value["r"] and (value["r"]["x"], value["r"]["y"])} for value in rows]
    array = vectors.to_arrow([tuple(value[field.name] for field in row.fields) for value in nested], row)
    encoded = format.encode_batch(array, _ROUND)
    assert encoded.errors is None
    batch = decoded(format, encoded.messages, _ROUND)
    assert batch.errors is None
    assert repr(batch.rows.values.to_pylist()) == repr(array.to_pylist())
    again = format.encode_batch(batch.rows.values, _ROUND)
    assert again.messages.equals(encoded.messages)
    for message in encoded.messages.to_pylist():
        json.loads(message)
