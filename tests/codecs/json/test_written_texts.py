"""Texts as format json writes them: characters, repeated and null keys of maps; and, with csv, years of five digits."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kvformat.codecs.json.settings import WriteSettings
from kvformat.codecs.json.write import JsonWriter
from kvformat.registry import get_format
from kvformat.registry.contract.ddl import parse_schema, parse_type
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import arrow_type

_SHORT = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
_PLAIN = [0x20, 0x21, 0x23, 0x2F, 0x5B, 0x5D, 0x7E, 0x7F]
_WIDE = [0x80, 0x7FF, 0x800, 0x2028, 0xD7FF, 0xE000, 0xFFFD, 0xFFFF]
_ABOVE = [0x10000, 0x103FF, 0x10400, 0x1F600, 0x3FFFF, 0x40000, 0xFFFFF, 0x100000, 0x10FFFF]
"""The first and last characters of each number of bytes, and of each first byte above U+FFFF."""
_CHARACTERS = [*range(0x20), 34, 92, *_PLAIN, *_WIDE, *_ABOVE]


def _written(code: int) -> str:
    """Return how Jackson writes a character: above U+FFFF as two surrogates, and control characters as hex digits."""
    if code < 0x20 or code in _SHORT:
        return _SHORT.get(code, f"\\u{code:04X}")
    if code > 0xFFFF:
        halves = chr(code).encode("utf-16-be")
        return "".join(f"\\u{halves[at : at + 2].hex().upper()}" for at in (0, 2))
    return chr(code)


def _messages(texts: list[str | None]) -> list[str]:
    rows = [{"s": text, "a": [text, "x"], "m": {"k": "y", "z": text}} for text in texts]
    kinds = {"s": pa.string(), "a": pa.list_(pa.string()), "m": pa.map_(pa.string(), pa.string())}
    columns = [pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()]
    given = pa.StructArray.from_arrays(columns, [*kinds])
    batch = get_format("json").encode_batch(given, "s STRING, a ARRAY<STRING>, m MAP<STRING, STRING>")
    return [message.decode() for message in batch.messages.to_pylist()]


def _wanted(text: str | None) -> str:
    written = "null" if text is None else f'"{"".join(_written(ord(c)) for c in text)}"'
    return f'{{"s":{written},"a":[{written},"x"],"m":{{"k":"y","z":{written}}}}}'


@pytest.mark.parametrize("code", _CHARACTERS, ids=hex)
def test_each_character_is_written_as_jackson_does(code: int) -> None:
    character = chr(code)
    texts = [character, f"{character}ab", f"ab{character}", f"a{character}{character}b", f"\u00e9{character}\u20ac", ""]
    for some in ([character], texts, [*texts, None], [None, "plain", *texts]):
        assert _messages([*some]) == [_wanted(text) for text in some]
    assert json.loads(_messages(texts)[1])["s"] == f"{character}ab"


def test_a_text_of_all_characters_is_written_by_each_of_them() -> None:
    text = "".join(map(chr, _CHARACTERS))
    texts = [text, text[::-1], *(text[at:] for at in range(len(text)))]
    assert _messages([*texts]) == [_wanted(text) for text in texts]


@pytest.mark.parametrize("code", [*_CHARACTERS[1:], 0x2E], ids=hex)
def test_a_name_is_written_as_a_text_is(code: int) -> None:
    name = f"n{chr(code)}x"
    rows = pa.array([{name: {"k" + name: 1}}], pa.struct([(name, pa.map_(pa.string(), pa.int32()))]))
    quoted = name.replace("`", "``")
    (message,) = get_format("json").encode_batch(rows, f"`{quoted}` MAP<STRING, INT>").messages.to_pylist()
    written = "".join(_written(ord(c)) for c in name)
    assert message.decode() == f'{{"{written}":{{"k{written}":1}}}}'


@pytest.mark.parametrize("mode", ["FAIL", "DROP", "LITERAL"])
def test_a_repeated_key_is_written_once_with_its_last_value_at_its_first_place(mode: str) -> None:
    maps = [
        [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("b", None)],
        [],
        None,
        [("b", 1), ("a", 2), ("b", 3)],
        [("b", 4), ("b", 5)],
    ]
    wanted = ['{"a":3,"b":null,"c":4}', "{}", "null", '{"b":3,"a":2}', '{"b":5}']
    kind = pa.map_(pa.string(), pa.int32())
    rows = pa.StructArray.from_arrays([pa.array(maps, kind)], ["m"])
    format = get_format("json", {"map-null-key.mode": mode})
    for start in range(len(maps)):
        messages = format.encode_batch(rows.slice(start), "m MAP<STRING, INT>").messages
        assert messages.to_pylist() == [f'{{"m":{text}}}'.encode() for text in wanted[start:]]


@pytest.mark.parametrize("t", ["MAP<STRING, INT>", "MULTISET<STRING>"])
@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("DROP", ['{"a":1}', "{}", "{}", '{"null":1}', '{"b":3}', "{}", "null"]),
        ("LITERAL", ['{"a":1,"null":2}', '{"null":3}', '{"null":5}', '{"null":2}', '{"b":3,"null":2}', "{}", "null"]),
    ],
)
def test_null_keys_are_dropped_or_are_the_literal_alone_and_in_a_batch(t: str, mode: str, wanted: list[str]) -> None:
    maps = [[("a", 1), (None, 2)], [(None, 3)], [(None, 4), (None, 5)], [("null", 1), (None, 2)]]
    maps += [[("b", 1), (None, 2), ("b", 3)], []]
    pairs = pa.list_(pa.struct({"key": pa.string(), "value": pa.int32()}))  # a pa.MapArray takes no null
    rows = pa.array([*({"m": one} for one in maps), {"m": None}], pa.struct({"m": pairs}))
    writer = JsonWriter(parse_schema(f"m {t}"), WriteSettings(null_key_mode=mode))
    messages = [f'{{"m":{text}}}'.encode() for text in wanted]
    assert writer.write(rows).messages.to_pylist() == messages
    assert [writer.write(rows.slice(at, 1)).messages[0].as_py() for at in range(len(rows))] == messages


def _pairs(values: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct({"key": pa.string(), "value": values}))  # a pa.MapArray takes no null


def _values_of_keys(values: list[Any]) -> list[Any]:
    return [(f"k{at}", value) for at, value in enumerate(values)]


_NESTINGS: dict[str, tuple[Callable[[pa.DataType], pa.DataType], Callable[[list[Any]], list[Any]]]] = {
    "ARRAY<{}>": (pa.list_, list),
    "MAP<STRING, {}>": (_pairs, _values_of_keys),
}
_LEAVES: dict[str, tuple[pa.DataType, Any, Any]] = {  # a good and a bad value
    "MAP<STRING, INT>": (_pairs(pa.int32()), [("a", 1)], [("a", 1), (None, 2)]),
    "VARIANT": (arrow_type(parse_type("VARIANT")), *({"value": v, "metadata": b"\1\0\0"} for v in (b"\0", b"\x0d"))),
}


@pytest.mark.parametrize("innermost", _LEAVES)
@pytest.mark.parametrize("inner", _NESTINGS)
@pytest.mark.parametrize("outer", _NESTINGS)
def test_an_error_in_a_list_or_map_within_another_fails_its_row_and_no_other(
    outer: str, inner: str, innermost: str
) -> None:
    kind, good, bad = _LEAVES[innermost]
    (outer_type, outer_of), (inner_type, inner_of) = _NESTINGS[outer], _NESTINGS[inner]
    rng = random.Random(5)
    rows, fails = [], []
    for _ in range(200):
        lists = [rng.choices((good, bad), (15, 1), k=rng.randrange(4)) for _ in range(rng.randrange(4))]
        rows.append({"v": outer_of([inner_of(some) or rng.choice(([], None)) for some in lists])})
        fails.append(any(bad in some for some in lists))
    assert 20 < sum(fails) < 100
    given = pa.array(rows, pa.struct({"v": outer_type(inner_type(kind))}))
    writer = JsonWriter(parse_schema(f"v {outer.format(inner.format(innermost))}"), WriteSettings())
    written = writer.write(given)
    assert written.errors is not None
    assert written.errors.is_valid().to_pylist() == written.messages.is_null().to_pylist() == fails
    assert written.messages.drop_null() == writer.write(given.filter(pc.invert(pa.array(fails)))).messages


def test_the_literal_for_null_keys_is_that_of_the_option() -> None:
    options = get_format("json", {"map-null-key.mode": "LITERAL", "map-null-key.literal": "none"}).options
    pairs = pa.list_(pa.struct({"key": pa.string(), "value": pa.int32()}))  # a pa.MapArray takes no null
    rows = pa.array([{"m": [(None, 1)]}], pa.struct({"m": pairs}))
    batch = JsonWriter(parse_schema("m MAP<STRING, INT>"), WriteSettings.of(options)).write(rows)
    assert batch.messages.to_pylist() == [b'{"m":{"none":1}}']


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ([], '{"d":1E+2,"n":null,"r":{"d":1.5,"n":null}}'),
        (["decimal-as-plain-number"], '{"d":100.00,"n":null,"r":{"d":1.50,"n":null}}'),
        (["ignore-null-fields"], '{"d":1E+2,"r":{"d":1.5}}'),
        (["decimal-as-plain-number", "ignore-null-fields"], '{"d":100.00,"r":{"d":1.50}}'),
    ],
)
def test_plain_decimals_and_omitted_nulls_are_two_options(options: list[str], wanted: str) -> None:
    row = {"d": Decimal("100.00"), "n": None, "r": {"d": Decimal("1.50"), "n": None}}
    kinds: dict[str, pa.DataType] = {"d": pa.decimal128(5, 2), "n": pa.int32()}
    rows = pa.array([row], pa.struct(kinds | {"r": pa.struct(kinds)}))
    format = get_format("json", {f"encode.{name}": "true" for name in options})
    messages = format.encode_batch(rows, "d DECIMAL(5, 2), n INT, r ROW<d DECIMAL(5, 2), n INT>").messages
    assert messages.to_pylist() == [wanted.encode()]


@pytest.mark.parametrize("kind", ["json", "csv"])
@pytest.mark.parametrize(
    ("t", "stored", "a_day"),
    [
        ("DATE", pa.date32(), 1),
        ("TIMESTAMP(0)", pa.timestamp("s"), 86_400),
        ("TIMESTAMP(3)", pa.timestamp("ms"), 86_400_000),
        ("TIMESTAMP_LTZ(6)", pa.timestamp("us", "UTC"), 86_400_000_000),
    ],
)
def test_years_before_0_and_after_9999_have_a_sign(kind: str, t: str, stored: pa.DataType, a_day: int) -> None:
    low, high = -719_528 * a_day, 2_932_897 * a_day
    wanted = {low - 1: "-0001-12-31", low: "0000-01-01", high - 1: "9999-12-31", high: "+10000-01-01"}
    format, moments = get_format(kind), pa.array([*wanted], pa.int32() if t == "DATE" else pa.int64())
    rows = pa.StructArray.from_arrays([moments.cast(stored)], ["a"])
    for some in (rows, *(rows.slice(at, 1) for at in range(len(rows)))):
        messages = format.encode_batch(some, f"a {t}").messages.to_pylist()
        texts = [message.decode().lstrip('{"a:') for message in messages]
        days = [wanted[moment] for moment in some.field("a").cast(moments.type).to_pylist()]
        assert [text[: len(day)] for text, day in zip(texts, days, strict=True)] == days


_TEXT_KINDS = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()))
_LISTS = (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast values also to types that Arrow can't cast to."""
    if pa.types.is_dictionary(kind):
        return values.dictionary_encode().cast(kind)
    return (
        pa.array(values.to_pylist(), kind)
        if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
        else values.cast(kind)
    )


@pytest.mark.parametrize(
    ("t", "value", "kinds"),
    [
        ("STRING", "a\U0001f600", _TEXT_KINDS),
        ("BYTES", b"ab", (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2))),
        ("BIGINT", 7, (pa.int64(), pa.int8(), pa.uint32(), pa.dictionary(pa.int8(), pa.int64()))),
        ("DOUBLE", 1.5, (pa.float64(), pa.float32())),
        ("DECIMAL(5, 2)", Decimal("1.50"), (pa.decimal128(5, 2), pa.decimal128(9, 4), pa.decimal256(40, 2))),
        ("TIMESTAMP(3)", 1_500_000, [pa.timestamp(unit) for unit in ("us", "ms", "ns")]),
        ("ARRAY<STRING>", ["a", None], [kind(text) for kind in _LISTS for text in _TEXT_KINDS[:2]]),
        ("ARRAY<INT>", [1, 2], [*(kind(pa.int32()) for kind in _LISTS), pa.list_(pa.int32(), 2)]),
    ],
)
def test_each_arrow_type_of_a_kind_is_written_in_the_same_way(t: str, value: Any, kinds: list[pa.DataType]) -> None:
    writer = JsonWriter(parse_schema(f"a {t}"), WriteSettings())
    plain = pa.array([None, value, None, value], kinds[0])
    rows = [pa.StructArray.from_arrays([_cast(plain, kind)], ["a"]).slice(1) for kind in kinds]
    first, *others = [writer.write(some).messages for some in rows]
    assert first[1].as_py() == b'{"a":null}'
    assert first[0] == first[2]
    assert [messages.to_pylist() for messages in others] == [first.to_pylist()] * len(others)
    nothing = pa.StructArray.from_arrays([pa.nulls(2)], ["a"])
    assert writer.write(nothing).messages.to_pylist() == [b'{"a":null}'] * 2


@pytest.mark.parametrize(
    ("t", "values", "path"),
    [
        ("TINYINT", pa.array([300]), "a"),
        ("INT", pa.array(["7"]), "a"),
        ("STRING", pa.array([7]), "a"),
        ("STRING", pa.array([b"x"]), "a"),
        ("FLOAT", pa.array([0.1]), "a"),
        ("DECIMAL(3, 2)", pa.array([Decimal("100.00")]), "a"),
        ("TIMESTAMP(3)", pa.array([0], pa.timestamp("us", "UTC")), "a"),
        ("TIMESTAMP_LTZ(3)", pa.array([0], pa.timestamp("us")), "a"),
        ("TIME(3)", pa.array([0]), "a"),
        ("VARIANT", pa.array(["{}"]), "a"),
        ("ROW<b INT>", pa.array([7]), "a"),
        ("ROW<b INT>", pa.array([{"b": "x"}]), "a.b"),
        ("ROW<b INT>", pa.array([{"c": 7}]), "a.b"),
        ("ARRAY<INT>", pa.array([7]), "a"),
        ("ARRAY<INT>", pa.array([["x"]]), "a.element"),
        ("MAP<STRING, INT>", pa.array([[7]]), "a"),
        ("MAP<STRING, INT>", pa.array([[(7, 7)]], pa.map_(pa.int32(), pa.int32())), "a.key"),
        ("MAP<STRING, INT>", pa.array([[("k", "x")]], pa.map_(pa.string(), pa.string())), "a.value"),
        ("MULTISET<STRING>", pa.array([[("k", "x")]], pa.map_(pa.string(), pa.string())), "a.value"),
    ],
)
def test_a_column_of_another_kind_or_beyond_its_type_is_an_error_that_names_it(
    t: str, values: pa.Array, path: str
) -> None:
    rows = pa.StructArray.from_arrays([values], ["a"])
    with pytest.raises(SchemaError, match=f"column '{path}'") as caught:
        JsonWriter(parse_schema(f"a {t}"), WriteSettings()).write(rows)
    assert caught.value.field == path


@pytest.mark.parametrize("t", ["ARRAY<MAP<STRING, INT>>", "ARRAY<ROW<m MAP<STRING, INT>>>"])
def test_a_null_key_in_a_list_is_an_error_of_its_own_row(t: str) -> None:
    good, bad = [{"key": "k", "value": 1}], [{"key": None, "value": 1}]
    lists = [[], [good], [good, good], None, [bad], [good], [good, bad, good], [], [bad, bad], [good]]
    pairs = pa.list_(pa.struct({"key": pa.string(), "value": pa.int32()}))
    if "ROW" in t:
        lists = [one and [{"m": pairs_} for pairs_ in one] for one in lists]
        pairs = pa.struct({"m": pairs})
    rows = pa.array([{"a": one} for one in lists], pa.struct({"a": pa.list_(pairs)}))
    wanted = [number in (4, 6, 8) for number in range(len(lists))]
    for start in range(len(lists)):
        batch = JsonWriter(parse_schema(f"a {t}"), WriteSettings()).write(rows.slice(start))
        errors = [None] * len(batch.messages) if batch.errors is None else batch.errors.to_pylist()
        assert [error is not None for error in errors] == wanted[start:]
        assert [message is None for message in batch.messages.to_pylist()] == wanted[start:]


def test_a_null_key_of_a_map_that_is_null_is_no_error() -> None:
    entries = pa.StructArray.from_arrays([pa.array([None, "k"]), pa.array([1, 2])], ["key", "value"])
    maps = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), entries, mask=pa.array([True, False]))
    rows = pa.StructArray.from_arrays([maps], ["a"])
    batch = JsonWriter(parse_schema("a MAP<STRING, BIGINT>"), WriteSettings()).write(rows)
    assert (batch.errors, batch.messages.to_pylist()) == (None, [b'{"a":null}', b'{"a":{"k":2}}'])
