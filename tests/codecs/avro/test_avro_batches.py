"""Batches of Avro messages: compared with fastavro, both kernels, hostile messages, writing."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tracemalloc
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvformat.codecs import KERNEL
from kvformat.codecs.avro.batches import encode
from kvformat.codecs.avro.bounds import added_per_item
from kvformat.codecs.avro.resolve import plan
from kvformat.codecs.avro.write_datum import write_datum
from kvformat.registry.contract.errors import SchemaError
from tests.support import avro_mutation
from tests.support.avro_cases import MANY, array, decode, error, read, record, schema_of, shown, texts
from tests.support.avro_mutation import Case
from tests.support.avro_random import Maker, arrow_value, written
from tests.support.extent import case_count

_ROOT = Path(__file__).parents[3]
_SEEDS = st.integers(0, 2**32)
_MUTATIONS = case_count("KVFORMAT_AVRO_MUTATIONS", quick=2_000, night=6_000)  # for a night, set a million


# --- against fastavro ----------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(_SEEDS)
def test_reads_and_writes_as_fastavro(seed: int) -> None:
    maker = Maker(seed)
    node = maker.record() if seed % 3 else maker.schema()
    schema = schema_of(node)
    values = [maker.value(node) for _ in range(maker.rng.choice([1, 5, 30, 60]))]
    messages = written(node, values)
    array = pa.array([arrow_value(schema, value) for value in values], schema.arrow_type)

    decoded = decode(pa.array(messages, pa.binary()), schema)
    assert decoded.errors is None
    assert decoded.values.type == schema.arrow_type
    decoded.values.validate()
    assert shown(decoded.values, schema) == shown(array, schema)

    encoded = encode(array, schema)
    assert encoded.errors is None
    assert encoded.messages.to_pylist() == messages
    values = array.view(schema.storage_type).to_pylist()
    assert [write_datum(schema, value) for value in values] == messages


# --- hostile messages ----------------------------------------------------------------------------------


def test_both_kernels_give_the_same_values_and_errors() -> None:
    if KERNEL != "compiled":
        pytest.skip("no compiled kernel")
    command = [sys.executable, "-m", "tests.support.avro_mutation", str(_MUTATIONS)]
    environment = {**os.environ, "KVFORMAT_KERNEL": "python"}
    good = bad = 0
    with subprocess.Popen(command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE) as source:
        assert source.stdout is not None
        assert pickle.load(source.stdout) == "python"
        for messages, values, errors in avro_mutation.batches(_MUTATIONS):
            same, *wanted = pickle.load(source.stdout)
            assert same == messages
            assert [values, errors] == wanted
            good += errors.count(None)
            bad += len(errors) - errors.count(None)
        assert source.wait() == 0
    assert good + bad >= _MUTATIONS
    assert min(good, bad) > 0.2 * _MUTATIONS


@settings(max_examples=40, deadline=None)
@given(_SEEDS)
def test_mutated_messages_are_read_alike_in_batches_and_alone(seed: int) -> None:
    case = Case(seed)
    decoded = case.decoded()
    decoded.values.validate()
    alone = [case.decoded([message]) for message in case.messages]
    assert shown(decoded.values, case.reader) == [shown(one.values, case.reader)[0] for one in alone]
    assert texts(decoded) == [texts(one)[0] for one in alone]


@settings(max_examples=20, deadline=None)
@given(_SEEDS)
def test_a_mutated_message_does_not_change_others(seed: int) -> None:
    case = Case(seed)
    untouched = list(range(0, len(case.messages), 3))
    alone, among = case.decoded(case.whole), case.decoded()
    wanted = [shown(alone.values, case.reader)[i] for i in untouched]
    assert [shown(among.values, case.reader)[i] for i in untouched] == wanted


@settings(max_examples=20, deadline=None)
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=60), _SEEDS)
def test_random_bytes_are_read_alike_in_batches_and_alone(messages: list[bytes], seed: int) -> None:
    case = Case(seed, count=1)
    alone = [case.decoded([message]) for message in messages]
    decoded = case.decoded(messages)
    assert shown(decoded.values, case.reader) == [shown(one.values, case.reader)[0] for one in alone]
    assert texts(decoded) == [texts(one)[0] for one in alone]


_HUGE = "feffffffffffffffff01"  # 2^63 - 1
_BILLION = "8094ebdc03"  # 500 million


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("string", _HUGE),
        ("bytes", _BILLION + "00"),
        ({"type": "array", "items": "int"}, _HUGE + "00"),
        ({"type": "array", "items": "int"}, _BILLION + "00"),
        ({"type": "array", "items": record(name="Empty")}, _BILLION + "00"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, _BILLION + "00"),
        ({"type": "array", "items": record(name="Empty")}, "02" * 5000),
        ({"type": "array", "items": {"type": "array", "items": "double"}}, "02" + _BILLION + "00"),
        ({"type": "array", "items": "double"}, "ffffffffffffffffff0100"),
        ({"type": "map", "values": record(name="Empty")}, _BILLION + "00"),
        ({"type": "map", "values": "int"}, "02" + _BILLION + "00"),
        ({"type": "fixed", "name": "F", "size": 2**31 - 1}, "00"),
        (["null", {"type": "fixed", "name": "F", "size": 2**31 - 1}], "02"),
    ],
)
def test_a_huge_length_is_refused_quickly(node: Any, message: str) -> None:
    for writer, reader in ((node, None), (record(node), record())):
        w, r = schema_of(writer), schema_of(reader or writer)
        plan(w, r)  # before memory is measured
        tracemalloc.start()
        try:
            decoded = decode(array(*[message] * MANY), w, r)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 5_000_000
        if reader is None:
            assert decoded.errors is not None
            assert decoded.errors.null_count == 0


def test_items_without_bytes_are_counted_per_message() -> None:
    node = record({"type": "array", "items": {"type": "array", "items": record(name="Empty")}})
    items = "e807" + "00"  # 500 items without bytes
    few, many = "04" + items * 2 + "00", "06" + items * 3 + "00"
    assert read(few, node)["f0"] == [[{}] * 500] * 2
    found = "[TOO_LARGE] field f0.element.element: 1500 items without bytes, but a message may have at most 1000"
    assert error(many, node) == found
    decoded = decode(array(*[few, many] * MANY), schema_of(node))  # each message may have a thousand
    assert texts(decoded) == [None, found] * MANY


_LONG = "x" * 3000
_ITEM = {"type": "record", "name": "I", "fields": [{"name": "a", "type": "int"}]}
_ITEM_WITH_DEFAULT = {**_ITEM, "fields": [*_ITEM["fields"], {"name": "d", "type": "string", "default": _LONG}]}
_ENUM = {"type": "enum", "name": "E", "symbols": ["s", _LONG]}


@pytest.mark.parametrize(
    ("writer", "reader", "item", "value"),
    [
        (_ENUM, _ENUM, "02", _LONG),
        (["null", _ENUM], ["null", _ENUM], "0202", _LONG),
        (_ITEM, _ITEM_WITH_DEFAULT, "0e", {"a": 7, "d": _LONG}),
    ],
)
@pytest.mark.parametrize("kind", ["items", "values"])
def test_bytes_that_symbols_and_defaults_add_are_limited(
    writer: Any, reader: Any, item: str, value: Any, kind: str
) -> None:
    name = {"items": "array", "values": "map"}[kind]
    w, r = (record({"type": name, kind: node}) for node in (writer, reader))
    entry = item if kind == "items" else "02" + "6b" + item
    some, many = "c801" + entry * 100 + "00", "e0da01" + entry * 14_000 + "00"
    found = read(some, w, r)["f0"]
    assert found == [value] * 100 if kind == "items" else found == [("k", value)]
    assert "that each add up to 30" in error(many, w, r)
    decoded = decode(array(*[some] * MANY, many, *[some] * MANY), schema_of(w), schema_of(r))
    assert decoded.errors is not None
    assert decoded.errors.is_valid().to_pylist() == [False] * MANY + [True] + [False] * MANY


def test_bytes_that_defaults_add_are_summed_over_the_arrays_and_blocks_of_a_message() -> None:
    w, r = (
        record({"type": "array", "items": node}, {"type": "array", "items": "I"})
        for node in (_ITEM, _ITEM_WITH_DEFAULT)
    )
    half, few = "b06d" + "0e" * 7_000, "02" + "0e"
    assert "that each add up to 30" in error(f"{half}00{half}00", w, r)
    assert "that each add up to 30" in error(f"{half}{half}0000", w, r)
    decoded = decode(array(f"{half}00{few}00", f"{half}00{half}00", f"{few}00{few}00"), schema_of(w), schema_of(r))
    assert [text is None for text in texts(decoded)] == [True, False, True]


def test_short_symbols_and_defaults_are_not_counted() -> None:
    item = {**_ITEM, "fields": [*_ITEM["fields"], {"name": "d", "type": "string", "default": "x" * 40}]}
    for node, long in ((item, False), (_ITEM_WITH_DEFAULT, True)):
        writer, reader = (schema_of(record({"type": "array", "items": n})) for n in (_ITEM, node))
        assert bool(added_per_item(plan(writer, reader).steps[0].action)) is long


def test_a_skipped_map_with_negative_lengths_ends() -> None:
    writer = record("int", {"type": "map", "values": "string"}, "string")
    reader = record("long")
    assert "Length is negative" in error("02" + "04" + "0101" + "000000", writer, reader)


def test_long_and_short_arrays_side_by_side() -> None:
    schema = schema_of({"type": "array", "items": ["null", "long"]})
    values = [[1], [None, 2], [], list(range(2000))] * 20 + [[3]]
    messages = encode(pa.array(values, schema.arrow_type), schema).messages
    decoded = decode(messages, schema)
    assert decoded.errors is None
    assert decoded.values.to_pylist() == values


@pytest.mark.parametrize("kind", ["int", "long", "float", "boolean"])
def test_arrays_of_many_numbers(kind: str) -> None:
    node = record({"type": "array", "items": kind}, "string")
    schema = schema_of(node)
    maker = Maker(7)
    rows = [{"f0": [maker.value(kind) for _ in range(i * 5 % 77)], "f1": str(i)} for i in range(2 * MANY)]
    whole = written(node, rows)
    values = pa.array(rows, schema.arrow_type)
    assert shown(decode(array(*whole), schema).values, schema) == shown(values, schema)
    torn = [message[: i % (len(message) + 1)] if i % 2 else message for i, message in enumerate(whole)]
    decoded = decode(array(*torn), schema)
    alone = [decode(array(message), schema) for message in torn]
    assert shown(decoded.values, schema) == [shown(one.values, schema)[0] for one in alone]
    assert texts(decoded) == [texts(one)[0] for one in alone]
    assert sum(text is not None for text in texts(decoded)) > 30


# --- unusual but valid messages -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "message", "value"),
    [
        ("int", "8000", 0),
        ("int", "ffffffff7f", -(2**31)),
        ("int", "feffffff0f", 2**31 - 1),
        ("long", "feffffffffffffffff01", 2**63 - 1),
        ("long", "ffffffffffffffffff7f", -(2**63)),
        ("long", "80808080808080808000", 0),
        ("long", "8080808080808001", 2**48),
        ("boolean", "02", False),
        ("boolean", "01", True),
        ("string", "02ff", "\ufffd"),
        ("string", "06eda080", "\ufffd"),
        ("string", "820078", "x"),
        (["null", "int"], "800000", None),
        (["null", "int"], "820004", 2),
        (["int", "null"], "0004", 2),
        (["int"], "0004", 2),
        ({"type": "array", "items": "int"}, "0602060800", [1, 3, 4]),
        ({"type": "array", "items": "int"}, "01020203040406020800", [1, 2, 3, 4]),
        ({"type": "array", "items": "int"}, "01ff010200", [1]),
        ({"type": "map", "values": "int"}, "0402610202610400", [("a", 2)]),
        ({"type": "map", "values": "int"}, "020261020402620402610600", [("a", 3), ("b", 2)]),
        ({"type": "map", "values": "int"}, "0402ff0202fe0400", [("\ufffd", 2)]),
        ({"type": "fixed", "name": "F", "size": 2}, "6162", b"ab"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, "0800007fff", Decimal("327.67")),
        ({"type": "int", "logicalType": "unheard-of"}, "04", 2),
    ],
)
def test_reads(node: Any, message: str, value: Any) -> None:
    assert read(message, node) == value


@pytest.mark.parametrize(
    ("node", "message", "reason", "code"),
    [
        ("int", "", "the message ends within a number", "MALFORMED"),
        ("int", "ffffffffff00", "Invalid int encoding", "MALFORMED"),
        ("long", "ffffffffffffffffffff00", "Invalid long encoding", "MALFORMED"),
        ("double", "00000000", "a value has 8 bytes, but the message has only 4 left", "MALFORMED"),
        ("string", "01", "Length is negative", "MALFORMED"),
        ("string", "0461", "a value has 2 bytes, but the message has only 1 left", "MALFORMED"),
        (["null", "int"], "04", "there is no union branch 2", "MALFORMED"),
        (["null", "int"], "01", "there is no union branch -1", "MALFORMED"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "02", "there is no enum symbol 1", "MALFORMED"),
        ({"type": "array", "items": "int"}, "0202", "the message ends within a number", "MALFORMED"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, "00", "a decimal has no bytes", "MALFORMED"),
    ],
)
def test_errors_name_code_field_and_reason(node: Any, message: str, reason: str, code: str) -> None:
    assert reason in error(message, node)
    assert error(message, record(record(node, name="S"))).startswith(f"[{code}] field f0.f0")


def test_bytes_after_the_datum_are_ignored() -> None:
    decoded = decode(array("04ffff", "0402", "04"), schema_of("int"))
    assert decoded.values.to_pylist() == [2, 2, 2]


def test_start_skips_framing() -> None:
    decoded = decode(array("000000000704", None, "0000", "0000000007"), schema_of("int"), start=5)
    assert decoded.values.to_pylist() == [2, None, None, None]
    assert decoded.errors is not None
    assert [error is None for error in decoded.errors.to_pylist()] == [True, True, False, False]


def test_null_messages_among_bad_ones() -> None:
    schema = schema_of(record("string", ["null", "int"]))
    good = bytes.fromhex("02610204")
    decoded = decode(array(None, good, b"", None, good, b"\x01"), schema)
    value = {"f0": "a", "f1": 2}
    assert decoded.values.to_pylist() == [None, value, None, None, value, None]
    assert decoded.errors is not None
    assert decoded.errors.is_valid().to_pylist() == [False, False, True, False, False, True]


def test_no_messages() -> None:
    schema = schema_of(record("string"))
    assert decode(array(), schema).values.type == schema.arrow_type
    assert len(encode(pa.array([], schema.arrow_type), schema).messages) == 0


def test_more_messages_than_are_read_at_once() -> None:
    schema = schema_of(record("int", {"type": "array", "items": "string"}))
    values = pa.array([{"f0": i, "f1": [str(i)] * (i % 3)} for i in range(70_000)], schema.arrow_type)
    messages = encode(values, schema)
    assert messages.errors is None
    torn = pa.concat_arrays([messages.messages, array("02")])
    decoded = decode(torn, schema)
    assert decoded.values[:-1].equals(values)
    assert decoded.errors is not None
    assert decoded.errors.null_count == len(values)


def test_slices_are_read_and_written() -> None:
    schema = schema_of(record("string", ["null", "int"], {"type": "map", "values": ["null", "boolean"]}))
    rows = [{"f0": str(i), "f1": i if i % 2 else None, "f2": [("k", i % 3 == 0)] * (i % 2)} for i in range(100)]
    values = pa.array(rows, schema.arrow_type)
    messages = encode(values, schema).messages
    assert encode(values[13:57], schema).messages.equals(messages[13:57])
    assert decode(messages[13:57], schema).values.to_pylist() == values[13:57].to_pylist()


def test_a_record_of_many_kinds() -> None:
    schema = schema_of(
        record(
            "long",
            ["null", "string"],
            ["double", "null"],
            {"type": "array", "items": record("string", ["null", "int"], name="Item")},
            {"type": "map", "values": "string"},
            ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}],
            ["string"],
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        )
    )
    row = {
        "f0": -(2**63),
        "f1": "é",
        "f2": 1.5,
        "f3": [{"f0": "a", "f1": None}, {"f0": "b", "f1": 2}],
        "f4": [("k", "v"), ("l", "w")],
        "f5": Decimal("-1.29"),
        "f6": "x",
        "f7": "B",
    }
    empty = {**row, "f1": None, "f2": None, "f3": [], "f4": [], "f5": None, "f6": ""}
    values = pa.array([row, empty] * MANY, schema.arrow_type)
    messages = encode(values, schema).messages
    assert decode(messages, schema).values.to_pylist() == values.to_pylist()


# --- writing -------------------------------------------------------------------------------------------


def test_prefix_and_null_values() -> None:
    schema = schema_of(record("int"))
    encoded = encode(pa.array([{"f0": 1}, None, {"f0": 2}], schema.arrow_type), schema, prefix=b"\0\0\0\0\x07more")
    assert encoded.messages.to_pylist() == [b"\0\0\0\0\x07more\x02", None, b"\0\0\0\0\x07more\x04"]
    assert encoded.errors is None


def test_a_value_that_can_not_be_written_does_not_change_others() -> None:
    schema = schema_of(
        record(
            "long",
            {"type": "enum", "name": "E", "symbols": ["A"]},
            {"type": "array", "items": "string"},
            ["int"],
        )
    )
    good = {"f0": 1, "f1": "A", "f2": ["x"], "f3": 1}
    rows = [
        good,
        {**good, "f0": None},
        {**good, "f1": "B"},
        {**good, "f2": ["x", None]},
        {**good, "f3": None},
        good,
    ]
    encoded = encode(pa.array(rows, schema.arrow_type), schema)
    first = encode(pa.array([good], schema.arrow_type), schema).messages[0].as_py()
    assert encoded.messages.to_pylist() == [first, None, None, None, None, first]
    assert encoded.errors is not None
    assert encoded.codes is not None
    assert encoded.codes.to_pylist() == [None, "NULL_VALUE", "WRONG_TYPE", "NULL_VALUE", "NULL_VALUE", None]
    texts = encoded.errors.to_pylist()
    assert texts[0] is None
    assert texts[1] == "field f0: null value for (non-nullable) long"
    assert "field f1: 'B' is not a symbol of enum E; it has A" in texts[2]
    assert "field f2.element: null value" in texts[3]
    assert "field f3: null value for (non-nullable) [int]" in texts[4]


def test_invalid_utf8_is_replaced_when_written() -> None:
    schema = schema_of(record("string"))
    texts = pa.array([b"ok", b"\xff"], pa.binary()).view(pa.string())
    encoded = encode(pa.StructArray.from_arrays([texts], ["f0"]), schema)
    assert encoded.messages.to_pylist() == [b"\x04ok", b"\x06\xef\xbf\xbd"]


@pytest.mark.parametrize("text", [b"fast", b"exact\xff"])
@pytest.mark.parametrize("keys", ["aba", "aab", "aaa"])
def test_both_writers_write_all_entries_of_a_key_in_their_order(text: bytes, keys: str) -> None:
    """Rows with text that is not UTF-8 go to the exact writer."""
    schema = schema_of(record("string", {"type": "map", "values": "int"}))
    maps = pa.array([list(zip(keys, range(3), strict=True)), []], schema.arrow_type[1].type)
    texts = pa.array([text, b"fast"]).view(pa.string())
    encoded = encode(pa.StructArray.from_arrays([texts, maps], ["f0", "f1"]), schema)
    entries = b"".join(b"\x02" + key.encode() + bytes([2 * value]) for value, key in enumerate(keys))
    assert encoded.messages[0].as_py().endswith(b"\x06" + entries + b"\0")
    assert encoded.messages[1].as_py() == b"\x08fast\0"


def test_a_decimal_that_does_not_fit_its_bytes_is_an_error() -> None:
    node = {"type": "fixed", "name": "D", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 0}
    schema = schema_of(node)
    wide = pa.array([Decimal(9999), Decimal(99999)], pa.decimal128(5, 0))
    storage = pa.Array.from_buffers(schema.arrow_type, 2, wide.buffers())  # unchecked, as from an Arrow kernel
    encoded = encode(storage, schema)
    assert encoded.messages.to_pylist() == [b"\x27\x0f", None]
    assert encoded.errors is not None
    assert "does not fit into 2 bytes" in encoded.errors[1].as_py()


def test_values_of_another_type_are_refused() -> None:
    with pytest.raises(SchemaError, match="can't be written as long"):
        encode(pa.array([[1]]), schema_of("long"))


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 63, 64, 255, 256, 257, 8191, 8192, 100_000])
def test_strings_of_any_length(size: int) -> None:
    schema = schema_of(record("string", ["null", "bytes"], "string"))
    row = {"f0": "x" * size, "f1": b"\xff" * size, "f2": "end"}
    values = pa.array([row, {"f0": "", "f1": None, "f2": ""}, row], schema.arrow_type)
    messages = encode(values, schema).messages
    assert messages.to_pylist() == [write_datum(schema, _as_bytes(v)) for v in values.to_pylist()]
    assert decode(messages, schema).values.to_pylist() == values.to_pylist()


def _as_bytes(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value.encode() if isinstance(value, str) else value for key, value in row.items()}


# --- each message, item and entry begins with nothing ------------------------------------------------------

_PAIR = record("int", "string", name="Pair")
_STATES = {  # a schema, a good message, and a message that fails after a part of the value
    "array": ({"type": "array", "items": "int"}, "04020400", "040204"),
    "array of records": ({"type": "array", "items": _PAIR}, "0202026100", "0402026104"),
    "second block": ({"type": "array", "items": "int"}, "0202020400", "02020402"),
    "map": ({"type": "map", "values": "int"}, "0202610200", "0402610202"),
    "map of records": ({"type": "map", "values": _PAIR}, "020261020261" + "00", "0402610202610262" + "04"),
    "map of maps": (
        {"type": "map", "values": {"type": "map", "values": "int"}},
        "0202610202620200" + "00",
        "02026104026202",
    ),
    "nullable record": (["null", _PAIR], "02020261", "0202"),
}


@pytest.mark.parametrize("name", _STATES)
def test_nothing_of_a_message_that_fails_shows_in_the_next_one(name: str) -> None:
    node, good, bad = _STATES[name]
    outer = record("int", node, ["null", "string"])
    good, bad = "02" + good + "00", "04" + bad
    schema = schema_of(outer)
    alone = decode(array(good), schema)
    assert alone.errors is None
    found = decode(array(good, bad, good, bad, bad, good), schema)
    assert [text is None for text in texts(found)] == [True, False, True, False, False, True]
    row = shown(alone.values, schema)[0]
    assert [one for one in shown(found.values, schema) if one != "None"] == [row] * 3


# --- limits ------------------------------------------------------------------------------------------------

_EMPTY = record(name="Empty")


@pytest.mark.parametrize(
    ("counts", "good"),
    [
        ((1000,), True),
        ((1001,), False),
        ((400, 600), True),
        ((400, 601), False),
        ((1000, 1), False),
        ((400, 400, 200), True),
        ((400, 400, 201), False),
    ],
)
@pytest.mark.parametrize("blocks", [False, True], ids=["arrays", "blocks of an array"])
def test_a_thousand_items_without_bytes_are_read_and_one_more_is_an_error(
    counts: tuple[int, ...], good: bool, blocks: bool
) -> None:
    def number(value: int) -> bytes:
        value <<= 1
        return bytes([value & 127 | 128, value >> 7])

    items = {"type": "array", "items": _EMPTY}
    if blocks:
        node, message = record(items), b"".join(map(number, counts)) + b"\0"
    else:
        other = {"type": "array", "items": "Empty"}
        node, message = record(items, *[other] * (len(counts) - 1)), b"".join(number(n) + b"\0" for n in counts)
    decoded = decode(array(message, message), schema_of(node))
    assert [text is None for text in texts(decoded)] == [good, good]


@pytest.mark.parametrize("size", [1, 7, 8, 9])
def test_a_decimal_has_the_same_value_in_a_number_of_bytes(size: int) -> None:
    """Numbers of up to eight bytes are read in another way than longer ones."""
    digits = len(str(2 ** (8 * size - 1) - 1)) - 1
    for scale in {0, min(2, digits)}:
        node = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": scale}
        fixed = {**node, "type": "fixed", "name": "F", "size": size, "precision": digits}
        for number in (-(2 ** (8 * size - 1)), 1 - 10**digits, -1, 0, 1, 10**digits - 1, 2 ** (8 * size - 1) - 1):
            data = number.to_bytes(size, "big", signed=True)
            value = Decimal(number).scaleb(-scale)
            assert read(bytes([2 * size]) + data, node) == value
            assert read(data, fixed) == (value if abs(number) < 10**digits else None)


@pytest.mark.parametrize("precision", [1, 2, 17, 18, 19])
def test_a_decimal_of_the_most_digits_is_read_and_one_more_digit_is_null(precision: int) -> None:
    node = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 0}
    for sign in (1, -1):
        for number, good in ((10**precision - 1, True), (10**precision, False)):
            data = (sign * number).to_bytes(9, "big", signed=True)
            assert read(b"\x12" + data, node) == (Decimal(sign * number) if good else None)
            short = (sign * number).to_bytes((number.bit_length() + 8) // 8, "big", signed=True)
            assert read(bytes([2 * len(short)]) + short, node) == (Decimal(sign * number) if good else None)


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 18])
def test_the_last_value_of_a_key_counts_at_the_key_s_first_position(count: int) -> None:
    """Within a block and in a later one. Keys of which one begins with the other are different."""
    schema = schema_of({"type": "map", "values": "int"})

    def entry(number: int, value: int) -> bytes:
        return bytes([2 * number]) + b"a" * number + bytes([2 * value])

    entries = b"".join(entry(number, number) for number in range(count))
    plain = [("a" * number, number) for number in range(count)]
    for again in {0, count // 2, count - 1}:
        merged = [(name, 60 if len(name) == again else value) for name, value in plain]
        one_block = bytes([2 * (count + 1)]) + entries + entry(again, 60) + b"\0"
        two_blocks = bytes([2 * count]) + entries + b"\x02" + entry(again, 60) + b"\0"
        distinct = bytes([2 * count]) + entries + b"\0"
        for _ in range(2):
            found = decode(array(distinct, one_block, two_blocks, distinct), schema)
            assert found.values.to_pylist() == [plain, merged, merged, plain]


def test_keys_that_are_equal_after_invalid_utf8_is_replaced_are_one_entry() -> None:
    schema = schema_of({"type": "map", "values": "int"})
    invalid, valid = array("04" + "02ff02" + "02fe04" + "00"), array("04" + "026102" + "026204" + "00")
    for _ in range(2):
        assert decode(invalid, schema).values.to_pylist() == [[("\ufffd", 2)]]
        assert decode(valid, schema).values.to_pylist() == [[("a", 1), ("b", 2)]]


def test_the_error_of_a_nested_value_names_the_fields_outermost_first_and_nothing_of_earlier_errors() -> None:
    inner = record("int", {"type": "array", "items": record("boolean", "int", name="I")}, name="M")
    schema = schema_of(record("int", inner, "long"))
    deep, flat, good = "0202" + "020180", "020200", "02020002"
    found = texts(decode(array(deep, flat, good, "", deep), schema))
    places = [None if text is None else text.partition("field ")[2].partition(":")[0] for text in found]
    assert places == ["f1.f1.element.f1", "f2", None, "f0", "f1.f1.element.f1"]
