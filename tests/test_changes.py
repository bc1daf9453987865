"""Change data: fast path against exact path, metadata, filters, what is wrong with a message, writing."""

from __future__ import annotations

import json
import pickle
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kvformat.codecs._changes.envelope import KINDS, ChangeSettings
from kvformat.codecs._changes.exact import ExactChanges
from kvformat.codecs._changes.fast import ChangesNode, FastChanges
from kvformat.codecs._changes.format import ChangeFormat
from kvformat.codecs._changes.templates import Template, parts_of
from kvformat.codecs._changes.write import ChangeWriter
from kvformat.codecs._json.node import JsonBytes
from kvformat.codecs._json.settings import WriteSettings
from kvformat.codecs._json.syntax import JsonParser
from kvformat.codecs._two_paths import to_arrow
from kvformat.registry import get_format
from kvformat.registry.ddl import parse_schema
from kvformat.registry.errors import OptionError, SchemaError
from kvformat.registry.types import FlinkField, FlinkType
from tests import vectors

_FORMATS = ("debezium-json", "canal-json", "maxwell-json", "ogg-json")
_SCHEMA = (
    "id BIGINT, name STRING, price DECIMAL(10, 2), at TIMESTAMP(3), tags ARRAY<STRING>, "
    "more MAP<STRING, INT>, rec ROW<x INT, name STRING>"
)
_COLUMNS = ("id", "name", "price", "at", "tags", "more", "rec")


# --- messages -------------------------------------------------------------------------------------------


def _row(rng: random.Random) -> dict[str, Any]:
    row = {
        "id": rng.choice([rng.randrange(10**9), str(rng.randrange(99)), None]),
        "name": rng.choice(["plain", "é 世界", 'quote " \\', "😀", "", None]),
        "price": rng.choice([12.5, 100, "5.18", 1e16, 0.005, None]),
        "at": rng.choice(["2024-02-29 23:59:59.123", "1969-12-31 00:00:00", None]),
        "tags": rng.choice([[], ["a", None], ["b"] * 5, None]),
        "more": rng.choice([{}, {"k": 1, "l": None}, {"name": 3}, None]),
        "rec": rng.choice([{}, {"x": 1, "name": "in"}, {"name": None}, None]),
    }
    return {key: row[key] for key in row if rng.random() < 0.95}


def _images(rng: random.Random, name: str, values: str) -> dict[str, Any]:
    create, update, delete = values
    operation = rng.choice(values)
    before = None if operation == create or rng.random() < 0.02 else _row(rng)
    after = None if operation == delete and rng.random() < 0.9 else _row(rng)
    assert update in values
    return {"before": before, "after": after, name: operation}


def _debezium(rng: random.Random) -> dict[str, Any]:
    source = {"version": "2.7", "db": "shop", "schema": None, "table": f"t{rng.randrange(3)}", "ts_ms": 1700000000000}
    message = {**_images(rng, "op", "cud"), "ts_ms": rng.choice([1700000000123, "17", None])}
    message["source"] = rng.choice([source, source, {"ts_ms": "5"}, None])
    return {"schema": rng.choice(["s", None]), "payload": message} if rng.random() < 0.02 else message


def _wrapped(rng: random.Random) -> dict[str, Any]:
    return {"schema": rng.choice([None, {"type": "struct"}, "text"]), "payload": _debezium(rng)}


def _ogg(rng: random.Random) -> dict[str, Any]:
    times = ["2024-05-13 15:40:06.123456", "2024-05-13T15:40:07.327000", "2024-5-3", None, 7]
    return {
        "table": rng.choice(["A.B", None, 5]),
        **_images(rng, "op_type", "IUD"),
        "op_ts": rng.choice([times[0], times[0], times[0], rng.choice(times)]),
        "current_ts": rng.choice(times),
        "primary_keys": rng.choice([["id"], [], None]),
    }


def _old(rng: random.Random) -> dict[str, Any]:
    return {key: value for key, value in _row(rng).items() if rng.random() < 0.3}


def _maxwell(rng: random.Random) -> dict[str, Any]:
    kind = rng.choice(["insert", "update", "update", "delete"])
    message = {"database": "shop", "table": "t", "type": kind, "ts": rng.choice([1700000000, "17", None])}
    old = _old(rng) if kind == "update" and rng.random() < 0.97 else None
    return {**message, "primary_key_columns": ["id"], "data": _row(rng), "old": old}


def _canal(rng: random.Random) -> dict[str, Any]:
    kind = rng.choice(["INSERT", "UPDATE", "UPDATE", "DELETE", "CREATE"])
    count = rng.choice([1, 1, 1, 2, 5, 0])
    data = None if kind == "CREATE" else [_row(rng) for _ in range(count)]
    old = [_old(rng) for _ in range(count + rng.choice([0, 0, 0, 0, 1, -1]))] if kind == "UPDATE" else None
    tables = ["orders", "orders_1", "tmp", None, 7]
    return {
        "data": data,
        "old": old,
        "type": kind,
        "database": rng.choice(["shop", "shop", "other"]),
        "table": rng.choice(tables),
        "sqlType": rng.choice([{"id": 4, "name": 12}, None, "x"]),
        "pkNames": rng.choice([["id"], None]),
        "es": 1700000000000,
        "ts": rng.choice([1700000000123, None]),
    }


@dataclass(frozen=True)
class _Producer:
    format: str
    message: Callable[[random.Random], dict[str, Any]]
    options: tuple[tuple[str, str], ...] = ()


_PRODUCERS = [
    _Producer("debezium-json", _debezium),
    _Producer("debezium-json", _wrapped, (("schema-include", "true"),)),
    _Producer("debezium-json", _debezium, (("ignore-parse-errors", "true"),)),
    _Producer("ogg-json", _ogg),
    _Producer("maxwell-json", _maxwell),
    _Producer("canal-json", _canal),
    _Producer("canal-json", _canal, (("database.include", "shop"), ("table.include", "orders.*"))),
    _Producer("canal-json", _canal, (("ignore-parse-errors", "true"),)),
]


def _messages(rng: random.Random, producer: _Producer, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        message = producer.message(rng)
        if rng.random() < 0.1:
            message = dict(rng.sample(list(message.items()), len(message)))
        blanks = rng.random() < 0.1
        separators = (", ", ": ") if blanks else (",", ":")
        found.append(json.dumps(message, ensure_ascii=rng.random() < 0.2, separators=separators).encode())
    return found


def _mutated(rng: random.Random, message: bytes) -> bytes:
    data = bytearray(message)
    for _ in range(rng.randrange(1, 3)):
        place = rng.randrange(len(data))
        kind = rng.randrange(4)
        if kind == 0:
            data[place] = rng.choice(b'"\\{}[],:0-+.eE truefalsnu\x00\x1f\x80\xc3\xff')
        elif kind == 1:
            data.insert(place, rng.choice(b'"\\{}[],:019 \n'))
        else:
            del data[place : place + 1]
    return bytes(data)


# --- fast against exact ---------------------------------------------------------------------------------


def _settings(format: ChangeFormat) -> ChangeSettings:
    return ChangeSettings(
        lenient=format.options["ignore-parse-errors"],
        iso=format.options["timestamp-format.standard"] == "ISO-8601",
        wrapped=format.options.get("schema-include", False),
        filters=format.filters(),
    )


def _taken_and_equal(
    format: Any, schema: str, metadata: tuple[str, ...], messages: list[bytes], *, few: int = 16
) -> float:
    """The share of messages that the fast reader takes; each must have the exact reader's answer."""
    row, settings = parse_schema(schema), _settings(format)
    columns = (FlinkField(key, format.envelope.metadata[key].type) for key in metadata)
    changes = FlinkType("ROW", fields=(FlinkField("", FlinkType("TINYINT")), *row.fields, *columns))
    fast = FastChanges(row, changes, format.envelope, settings, metadata, few=few)
    exact = ExactChanges(row, format.envelope, settings, metadata)
    lists, refused = fast.read(pa.array(messages, pa.binary()))
    taken = np.flatnonzero(~refused)
    for index in taken.tolist():
        wanted, error = exact.read(messages[index])
        assert error is None, f"taken, but the exact reader says {error}: {messages[index]!r}"
        got, expected = (
            [vectors.from_arrow(change, changes) for change in found]
            for found in (lists[index].values, to_arrow(wanted or [], changes))
        )
        assert repr(got) == repr(expected), messages[index]
    return len(taken) / len(messages)


def _metadata_sets(format: str) -> list[tuple[str, ...]]:
    keys = tuple(get_format(format).metadata_types)
    return [(), *((key,) for key in keys), keys, tuple(reversed(keys))]


_IDS = [f"{p.format}-{'-'.join(v for _, v in p.options)}" for p in _PRODUCERS]


@pytest.mark.parametrize("producer", _PRODUCERS, ids=_IDS)
def test_the_fast_path_answers_as_the_exact_one(producer: _Producer) -> None:
    rng = random.Random(20260101)
    messages = _messages(rng, producer, 300)
    format = get_format(producer.format, dict(producer.options))
    for metadata in _metadata_sets(producer.format):
        _taken_and_equal(format, _SCHEMA, metadata, messages)


@pytest.mark.parametrize("producer", _PRODUCERS, ids=_IDS)
def test_the_fast_path_answers_as_the_exact_one_on_broken_messages(producer: _Producer) -> None:
    rng = random.Random(7)
    messages = [_mutated(rng, message) for message in _messages(rng, producer, 1000)]
    format = get_format(producer.format, dict(producer.options))
    keys = tuple(format.metadata_types)
    _taken_and_equal(format, _SCHEMA, keys, messages)
    _taken_and_equal(format, "id STRING, name STRING", (), messages)


@pytest.mark.parametrize("format", _FORMATS)
def test_the_fast_path_answers_as_the_exact_one_on_recorded_messages(format: str) -> None:
    for case in vectors.cases(format):
        if case["direction"] == "decode" and "factory_error" not in case and case["messages"]:
            messages = [vectors.message_bytes(m["in"]) or b"" for m in case["messages"]]
            fmt = get_format(format, case["options"])
            _taken_and_equal(fmt, vectors.columns(case), tuple(case.get("metadata", ())), messages, few=0)


_ORDINARY: dict[str, list[dict[str, Any]]] = {
    "debezium-json": [
        {"before": None, "after": {"id": 1, "name": "a"}, "source": {"db": "d", "ts_ms": 1}, "op": "c", "ts_ms": 2},
        {
            "before": {"id": 1, "name": "a"},
            "after": {"id": 1},
            "source": {"db": "d", "ts_ms": 1},
            "op": "u",
            "ts_ms": 2,
        },
        {"before": {"id": 1, "name": "a"}, "after": None, "source": {"db": "d", "ts_ms": 1}, "op": "d", "ts_ms": 2},
    ],
    "canal-json": [
        {"data": [{"id": "1", "name": "a"}], "database": "d", "table": "t", "old": None, "type": "INSERT", "ts": 1},
        {
            "data": [{"id": "1"}, {"id": "2"}],
            "database": "d",
            "table": "t",
            "old": [{"name": "b"}, {}],
            "type": "UPDATE",
        },
        {"data": [{"id": "1", "name": "a"}], "database": "d", "table": "t", "old": None, "type": "DELETE", "ts": 1},
    ],
    "maxwell-json": [
        {"database": "d", "type": "insert", "ts": 1, "data": {"id": 1, "name": "a"}},
        {"database": "d", "type": "update", "ts": 1, "data": {"id": 1, "name": "a"}, "old": {"name": None}},
        {"database": "d", "type": "delete", "ts": 1, "data": {"id": 1, "name": "a"}},
    ],
    "ogg-json": [
        {"table": "t", "op_type": "I", "op_ts": "2024-05-13 15:40:06.123456", "after": {"id": 1}},
        {"table": "t", "op_type": "U", "op_ts": "2024-05-13 15:40:06.123456", "before": {"id": 1}, "after": {"id": 2}},
        {"table": "t", "op_type": "D", "op_ts": "2024-05-13 15:40:06.123456", "before": {"id": 1}},
    ],
}


@pytest.mark.parametrize("format", _FORMATS)
def test_the_fast_path_takes_ordinary_messages(format: str) -> None:
    texts = [json.dumps(message, separators=(",", ":")).encode() for message in _ORDINARY[format]] * 100
    fmt = get_format(format)
    for metadata in _metadata_sets(format):
        assert _taken_and_equal(fmt, "id BIGINT, name STRING", metadata, texts) == 1.0, metadata


# --- whole batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("producer", _PRODUCERS, ids=_IDS)
def test_a_batch_does_not_depend_on_its_neighbours(producer: _Producer) -> None:
    rng = random.Random(11)
    messages: list[bytes | None] = [*_messages(rng, producer, 150)]
    messages += [_mutated(rng, message) for message in _messages(rng, producer, 100)]
    messages += [None, b""] * 25
    rng.shuffle(messages)
    format = get_format(producer.format, dict(producer.options))
    metadata = tuple(format.metadata_types)
    together = format.decode_batch(pa.array([None, *messages], pa.binary()).slice(1), _SCHEMA, metadata=metadata)
    together.rows.validate(full=True)
    errors = together.errors.to_pylist() if together.errors is not None else [None] * len(messages)
    kinds = together.row_kinds.to_pylist() if together.row_kinds is not None else []
    assert len(kinds) == len(together.rows.values)
    for index, message in enumerate(messages):
        alone = format.decode_batch(pa.array([message], pa.binary()), _SCHEMA, metadata=metadata)
        assert repr(together.rows[index].as_py()) == repr(alone.rows[0].as_py()), message
        assert errors[index] == (alone.errors[0].as_py() if alone.errors is not None else None), message
        start, stop = together.rows.offsets[index].as_py(), together.rows.offsets[index + 1].as_py()
        assert kinds[start:stop] == (alone.row_kinds.to_pylist() if alone.row_kinds is not None else None), message


def _decoded(
    format: str, message: Any, schema: str = "id INT, name STRING", *, metadata: Any = (), **options: str
) -> Any:
    """The rows of a message as `('+I', (1, 'a'))`, or its error."""
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    given = {name.replace("_", "-"): value for name, value in options.items()}
    batch = get_format(format, given).decode_batch(pa.array([data]), schema, metadata=metadata)
    if batch.errors is not None:
        assert not batch.rows[0].is_valid
        return batch.errors[0].as_py()
    assert batch.row_kinds is not None
    rows = [tuple(row.values()) for row in batch.rows.values.to_pylist()]
    return list(zip(batch.row_kinds.to_pylist(), rows, strict=True))


def test_rows_and_kinds() -> None:
    a, b = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}
    update = [("-U", (1, "a")), ("+U", (1, "b"))]
    assert _decoded("debezium-json", {"before": a, "after": b, "op": "u"}) == update
    assert _decoded("debezium-json", {"after": a, "op": "r"}) == [("+I", (1, "a"))]
    assert _decoded("debezium-json", {"before": a, "after": b, "op": "d"}) == [("-D", (1, "a"))]
    assert _decoded("ogg-json", {"before": a, "after": b, "op_type": "U"}) == update
    assert _decoded("maxwell-json", {"data": b, "old": {"name": "a"}, "type": "update"}) == update
    assert _decoded("maxwell-json", {"data": b, "old": a, "type": "delete"}) == [("-D", (1, "b"))]
    assert _decoded("canal-json", {"data": [b], "old": [{"name": "a"}], "type": "UPDATE"}) == update
    assert _decoded("canal-json", {"data": [a, b], "type": "DELETE"}) == [("-D", (1, "a")), ("-D", (1, "b"))]
    assert _decoded("canal-json", {"type": "CREATE"}) == []
    wrapped = {"schema": {}, "payload": {"before": a, "after": b, "op": "u"}}
    assert _decoded("debezium-json", wrapped, schema_include="true") == update


def test_what_an_old_row_does_not_say_is_as_in_the_new_one() -> None:
    data = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    old = [{"name": None}, {"id": 9}]  # Flink asks all old rows together whether they have a column
    rows = _decoded("canal-json", {"data": data, "old": old, "type": "UPDATE"})
    assert rows == [("-U", (1, None)), ("+U", (1, "a")), ("-U", (9, "b")), ("+U", (2, "b"))]
    nested = {"data": {"id": 1, "doc": {"name": "y"}, "name": "n"}, "old": {"doc": {"name": "x"}}, "type": "update"}
    schema = "id INT, doc STRING, name STRING"  # Flink finds `name` inside of `doc`
    assert _decoded("maxwell-json", nested, schema)[0] == ("-U", (1, '{"name":"x"}', "n"))


def test_pairs_before_a_gap_stay_with_ignore_parse_errors() -> None:
    message = {"data": [{"id": 1}, {"id": 2}], "old": [{"id": 0}], "type": "UPDATE"}
    assert "'old'" in _decoded("canal-json", message)
    lenient = _decoded("canal-json", message, ignore_parse_errors="true")
    assert lenient == [("-U", (0, None)), ("+U", (1, None))]
    after_null = _decoded("canal-json", {"data": [{"id": 1}, None], "type": "INSERT"}, ignore_parse_errors="true")
    assert after_null == [("+I", (1, None))]


# --- metadata -------------------------------------------------------------------------------------------


def test_metadata_of_debezium() -> None:
    source = {"ts_ms": 1589362344455, "db": "inv", "schema": "s1", "table": "t", "f": 1.10, "n": None, "o": {"a": [1]}}
    message = {"before": {}, "after": {}, "source": source, "op": "u", "ts_ms": 1589362330904}
    keys = tuple(get_format("debezium-json").metadata_types)
    both = {"schema": {"a": 1.50}, "payload": message}
    wrapped = _decoded("debezium-json", both, "id INT", metadata=keys, schema_include="true")
    assert [kind for kind, _ in wrapped] == ["-U", "+U"]
    assert wrapped[0][1] == wrapped[1][1]
    values = dict(zip(("id", *keys), wrapped[0][1], strict=True))
    assert values["schema"] == '{"a":1.5}'
    assert values["ingestion-timestamp"].isoformat() == "2020-05-13T09:32:10.904000+00:00"
    assert values["source.timestamp"].isoformat() == "2020-05-13T09:32:24.455000+00:00"
    assert [values[f"source.{name}"] for name in ("database", "schema", "table")] == ["inv", "s1", "t"]
    properties = dict(values["source.properties"])
    assert (properties["f"], properties["n"], properties["o"]) == ("1.1", None, '{"a":[1]}')
    plain = _decoded("debezium-json", {"schema": "x", **message}, "id INT", metadata=["schema"])
    assert plain == [("-U", (None, None)), ("+U", (None, None))]


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2020-05-13T15:40:07.327999", 1589384407_327_000),
        ("2020-02-30T00:00:00.000000", 1582934400_000_000),
        ("2020-05-13T15:40:07.327", None),
        ("2020-05-13T15:40:07.327000Z", None),
        (" 2020-5-1 1:2:3.1234567 ", 1588294923_123_456),
        ("2020-02-30 00:00:00", 1583020800_000_000),
        ("2020-5-1", 1588291200_000_000),
        ("2020-5-1 1:2", None),
        ("2020-+5-1", 1588291200_000_000),
        ("2020-+05-1", None),
        ("bad", None),
        ("", None),
        (7, None),
    ],
)
def test_current_ts_of_ogg_is_never_an_error(text: Any, micros: int | None) -> None:
    message = {"after": {"id": 1}, "op_type": "I", "current_ts": text}
    batch = get_format("ogg-json").decode_batch(
        pa.array([json.dumps(message).encode()]), "id INT", metadata=["ingestion-timestamp"]
    )
    assert batch.errors is None
    assert batch.rows.values.field(1).cast(pa.int64()).to_pylist() == [micros]


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2020-05-13 15:40:06.123456", 1589384406_123_000),
        ("2020-5-3 1:2:3", 1588467723_000_000),
        ("2020-02-30", 1582934400_000_000),
        ("2020-05-13 24:00:00", 1589414400_000_000),
        ("2020-055-1313", 1589328000_000_000),  # both widths of a part, one after the other, if they are equal
        ("2020-05-133", None),
        ("2020-5-", 1588291200_000_000),
        ("2020--", 1577836800_000_000),
        ("2020--13", None),
        ("2020-05-13 1:2:.5", 1589331720_500_000),
        ("2020-05-13 ::", 1589328000_000_000),
        ("2020-05-13 24::", 1589414400_000_000),
        ("2020-05-13 24:00:.", None),
        ("2020-05- 24:00:00", 1588291200_000_000),  # only a whole date has a next day
        ("2020-05- 24:00:01", None),
        ("+0000002020-05-13", 1589328000_000_000),
        ("0000-05-13", None),
        ("2020-05-13T15:40:06", None),
        (" 2020-05-13", None),
        ("2020-13-01", None),
    ],
)
def test_op_ts_of_ogg_is_an_error_of_the_message(text: str, micros: int | None) -> None:
    message = json.dumps({"after": {"id": 1}, "op_type": "I", "op_ts": text}).encode()
    batch = get_format("ogg-json").decode_batch(pa.array([message]), "id INT", metadata=["event-timestamp"])
    if micros is None:
        assert batch.errors is not None
        assert "field 'op_ts'" in batch.errors[0].as_py()
    else:
        assert batch.rows.values.field(1).cast(pa.int64()).to_pylist() == [micros]


def test_times_beyond_what_a_timestamp_holds() -> None:
    message = {"after": {"id": 1}, "op": "c", "ts_ms": 9223372036854775807, "source": {"ts_ms": -(2**63)}}
    for key in ("ingestion-timestamp", "source.timestamp"):
        assert "out of the range" in _decoded("debezium-json", message, metadata=[key])


# --- what is wrong with a message -----------------------------------------------------------------------

_WRONG: list[tuple[str, Any, str]] = [
    ("debezium-json", {"after": None, "op": "c"}, "field 'after': is missing or null, but an insert needs it"),
    ("debezium-json", {"after": {"id": 1}, "op": "u"}, "field 'before': is missing or null.*REPLICA IDENTITY FULL"),
    ("debezium-json", {"after": {"id": 1}, "op": "d"}, "field 'before': .*a deletion needs it.*binlog_row_image"),
    ("debezium-json", {"after": {"id": 1}, "op": "t"}, 'field \'op\': unknown value "t"; known are "c", "r"'),
    ("debezium-json", {"after": {"id": 1}}, "field 'op': is missing or null; it must be one of"),
    ("debezium-json", {"payload": {"op": "c"}}, "set 'schema-include' to true"),
    ("debezium-json", {"after": {"id": "x"}, "op": "c"}, "field 'after.id': cannot read \"x\" as INT"),
    ("debezium-json", [{"op": "c"}, {"op": "c"}], "an array of 2"),
    ("debezium-json", b'{"after":{"id":1},"op":"c"', "not JSON"),
    ("debezium-json", b'{"after":{"id":1},"op":"c"} {}', "not JSON: more after the end"),
    ("ogg-json", {"after": {"id": 1}, "op_type": "U"}, "field 'before': .*supplemental logging"),
    ("ogg-json", {"after": {"id": 1}, "op_type": "T"}, "field 'op_type': unknown value \"T\""),
    ("maxwell-json", {"data": None, "type": "insert"}, "field 'data': is missing or null"),
    ("maxwell-json", {"data": {"id": 1}, "type": "update"}, "field 'old': is missing or null, but an update needs it"),
    ("maxwell-json", {"data": {"id": 1}, "type": "bootstrap-insert"}, "field 'type': unknown value"),
    ("maxwell-json", [{"data": {"id": 1}, "type": "insert"}], "expected a JSON object, found an array"),
    ("canal-json", {"data": {"id": 1}, "type": "INSERT"}, "field 'data'"),
    ("canal-json", {"data": [{"id": 1}, None], "type": "INSERT"}, r"field 'data\[1\]': is missing or null"),
    ("canal-json", {"data": [{"id": 1}], "old": [], "type": "UPDATE"}, "field 'old': has 0 rows, but 'data' has 1"),
    ("canal-json", {"data": [{"id": 1}], "type": "ALTER"}, "field 'type': unknown value \"ALTER\""),
    ("canal-json", {"data": [{"id": "1"}, {"id": "x"}], "type": "INSERT"}, r"field 'data\[1\].id': cannot read"),
]


@pytest.mark.parametrize(("format", "message", "reason"), _WRONG)
def test_errors_name_the_field_and_what_to_do(format: str, message: Any, reason: str) -> None:
    error = _decoded(format, message)
    assert isinstance(error, str), error
    assert re.search(reason, error), error
    if "cannot read" not in reason:
        dropped = _decoded(format, message, ignore_parse_errors="true")
        assert [row for _, row in dropped] in ([], [(1, None)])


def test_an_unwrapped_message_says_what_to_set() -> None:
    error = _decoded("debezium-json", {"after": {"id": 1}, "op": "c"}, schema_include="true")
    assert "field 'payload': is missing or null; with 'schema-include'" in error
    inner = _decoded("debezium-json", {"payload": {"after": {"id": "x"}, "op": "c"}}, schema_include="true")
    assert "field 'payload.after.id'" in inner


_HOSTILE: dict[str, bytes] = {
    "50 MB in a member that nobody asked for": b'{"x":"' + b"x" * 50_000_000 + b'","after":{"id":7},"op":"c"}',
    "100,000 objects in each other": b'{"after":' * 100_000,
    "a million times the same member": b"{" + b'"after":{"id":1},' * 1_000_000 + b'"op":"c"}',
    "a million operations": b'{"op":"' + b"c" * 1_000_000 + b'"}',
    "bytes that are not UTF-8": b'{"after":{"name":"\xff"},"op":"c"}',
    "nothing but zeros": b"\x00" * 1000,
}


@pytest.mark.parametrize("name", _HOSTILE)
def test_hostile_messages_cost_bounded_time_and_no_neighbour(name: str) -> None:
    good = b'{"after":{"id":7},"op":"c"}'
    messages = [good] * 100 + [_HOSTILE[name]] + [good] * 100
    start = time.process_time()
    batch = get_format("debezium-json").decode_batch(pa.array(messages, pa.binary()), "id INT, name STRING")
    assert time.process_time() - start < 60  # seconds; nothing here may be quadratic
    errors = batch.errors.to_pylist() if batch.errors is not None else [None] * len(messages)
    assert [index for index, error in enumerate(errors) if error is not None] in ([], [100])
    assert all(error is None or len(error) < 300 for error in errors)
    assert all(row.as_py() == [{"id": 7, "name": None}] for i, row in enumerate(batch.rows) if i != 100)


# --- templates ------------------------------------------------------------------------------------------


def _objects(rng: random.Random, count: int) -> list[bytes]:
    """Objects that differ in numbers alone, long enough for several windows."""
    found = []
    for _ in range(count):
        source = {
            "version": "2.7.3.Final",
            "connector": "mysql",
            "n1": rng.randrange(10),
            "ts_ms": rng.randrange(10**12, 10**13),
            "gtid": f"3E11FA47:{rng.randrange(10**9)}",
            "file": "mysql-bin.000003",
            "pos": -rng.randrange(1, 10 ** rng.randrange(1, 20)),
            "snapshot": None,
            "rate": 0.25,
            "more": {"lsn": [rng.randrange(99), rng.randrange(99)], "at": "\u00e9", "x\\": 'a "quote"'},
        }
        found.append(json.dumps(source, separators=(",", ":")).encode())
    return found


def _template(texts: list[bytes]) -> Template:
    return Template([parts_of(text) for text in texts])


def _read(template: Template, texts: list[bytes]) -> tuple[list[int], list[bool]]:
    """How far each text is read, and which are taken."""
    batch = JsonBytes(pa.array(texts, pa.binary()), few=1)
    window, ok = template.read(batch, batch.start)
    return (window.position - batch.start).tolist(), ok.tolist()


def test_texts_that_differ_in_numbers_fit_one_template() -> None:
    rng = random.Random(3)
    template = _template(_objects(rng, 60))
    texts = _objects(rng, 200)
    assert _read(template, texts) == ([len(text) for text in texts], [True] * 200)
    assert _read(template, [b'{"version":"3.0"}', b"null", b"{}", b'{"version":', b"[]"])[1] == [False] * 5


def test_a_template_takes_nothing_that_is_no_json() -> None:
    rng = random.Random(4)
    template = _template(_objects(rng, 60))
    texts = [_mutated(rng, text) for text in _objects(rng, 10_000)] + _objects(rng, 12_000)
    ends, ok = _read(template, texts)
    assert 200 < sum(ok[:10_000]) < 5000
    for end, text in [(end, text) for end, text, taken in zip(ends, texts, ok, strict=True) if taken]:
        assert isinstance(JsonParser().parse(text[:end]), dict)
        assert end <= len(text)


_GIVEN = (
    b"",
    b"0",
    b"00",
    b"07",
    b"-1",
    b"1" * 24,
    b"1" * 25,
    b"9" * 1001,
    b"1.5",
    b"x",
    b"1e5",
    b"1234567890",
    b"0123456789",
)


@pytest.mark.parametrize(
    ("seen", "taken"),
    [
        ([b"1", b"22", b"333"], [b"0", b"1" * 24, b"1234567890"]),  # any number of digits
        ([b"1111111111", b"2222222222"], [b"1234567890"]),  # as many as all of them have
        ([b"1", b"2"], [b"0"]),
        ([b"1", b"1"], []),  # no gap at all
    ],
)
def test_digits_of_numbers(seen: list[bytes], taken: list[bytes]) -> None:
    def text(number: bytes) -> bytes:
        return b'{"version":"2.7.3.Final","pos":' + number + b',"table":"orders"}'

    texts = [text(number) for number in _GIVEN]
    _, ok = _read(_template([text(number) for number in seen]), texts)
    assert [number for number, fits in zip(_GIVEN, ok, strict=True) if fits] == taken


def test_digits_in_strings_may_begin_with_zeros() -> None:
    template = _template([b'{"file":"bin.000003"}', b'{"file":"bin.000004"}'])
    assert _read(template, [b'{"file":"bin.%s"}' % n for n in (b"000009", b"123456", b"00001", b"00000x")])[1] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    "text",
    [
        rb'{"a":"\u00%d"}',  # digits of an escape
        rb'{"a%d":1}',  # of a name: two may become one
        rb'{"a":1.%d}',  # of a fraction
        rb'{"a":1e%d}',  # of an exponent
    ],
)
def test_only_whole_numbers_and_digits_in_plain_strings_may_differ(text: bytes) -> None:
    assert parts_of(text % 10)[::2] != parts_of(text % 11)[::2]


# --- outlines -------------------------------------------------------------------------------------------


def _alike(rng: random.Random, format: str, count: int) -> list[bytes]:
    """Messages that are the same but for their rows, operations, and numbers."""
    texts = []
    for _ in range(count):
        name, number = rng.choice(["a", "longer name", "é", None]), rng.randrange(10**9)
        row = {"id": number, "name": name, "price": rng.choice([12.5, None]), "tags": rng.choice([[], ["x", "y"]])}
        at = 1_700_000_000_000 + number
        source = {"version": "2.7", "db": "shop", "table": "t", "ts_ms": at, "pos": number, "gtid": None}
        old = {"name": rng.choice(["b", None])}
        message: dict[str, Any] = {
            "debezium-json": {"before": None, "after": None, "source": source, "transaction": None, "ts_ms": at},
            "ogg-json": {"table": "A.B", "op_ts": "2024-05-13 15:40:06.123456", "before": None, "after": None},
            "maxwell-json": {
                "database": "shop",
                "table": "t",
                "ts": at // 1000,
                "xid": number,
                "data": row,
                "old": None,
            },
            "canal-json": {"data": [row], "database": "shop", "es": at, "old": None, "table": "t", "ts": at},
        }[format]
        kind = rng.choice("iud")
        if format in ("debezium-json", "ogg-json"):
            message |= {"before": row if kind in "ud" else None, "after": row if kind in "iu" else None}
        elif kind == "u":
            message["old"] = [old] if format == "canal-json" else old
        names = {"debezium-json": "cud", "ogg-json": "IUD"}.get(format)
        operation = names["iud".index(kind)] if names else {"i": "insert", "u": "update", "d": "delete"}[kind]
        member = {"debezium-json": "op", "ogg-json": "op_type"}.get(format, "type")
        message[member] = operation.upper() if format == "canal-json" else operation
        texts.append(json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode())
    return texts


def _wrap(texts: list[bytes]) -> list[bytes]:
    schema = json.dumps({"type": "struct", "fields": [{"field": name} for name in _COLUMNS] * 9}).encode()
    return [b'{"schema":' + schema + b',"payload":' + text + b"}" for text in texts]


_OUTLINED = [(format, ()) for format in _FORMATS]
_OUTLINED += [("debezium-json", (("schema-include", "true"),)), ("canal-json", (("table.include", "t|u"),))]


@pytest.mark.parametrize(("format", "options"), _OUTLINED)
def test_an_outline_of_earlier_batches_changes_no_answer(format: str, options: tuple[tuple[str, str], ...]) -> None:
    rng = random.Random(17)
    fmt = get_format(format, dict(options))

    def messages(count: int) -> list[bytes]:
        found = _alike(rng, format, count)
        return _wrap(found) if ("schema-include", "true") in options else found

    every = tuple(key for key in fmt.metadata_types if key != "schema")  # that is an object, so not read fast
    for metadata in ((), every):
        row, settings = parse_schema(_SCHEMA), _settings(fmt)
        columns = (FlinkField(key, fmt.envelope.metadata[key].type) for key in metadata)
        changes = FlinkType("ROW", fields=(FlinkField("", FlinkType("TINYINT")), *row.fields, *columns))
        fast = FastChanges(row, changes, fmt.envelope, settings, metadata)
        exact = ExactChanges(row, fmt.envelope, settings, metadata)
        assert isinstance(fast._node, ChangesNode)
        outline = fast._node.outline
        assert not fast.read(pa.array(messages(300), pa.binary()))[1].any()
        learned = outline.learned
        assert learned is not None
        assert not fast.read(pa.array(messages(300), pa.binary()))[1].any()
        for few_broken in (False, True):
            broken = [_mutated(rng, text) for text in messages(100 if few_broken else 1000)]
            batch = [*broken, *messages(1500)]
            rng.shuffle(batch)
            lists, refused = fast.read(pa.array(batch, pa.binary()))
            for index in np.flatnonzero(~refused).tolist():
                wanted, error = exact.read(batch[index])
                assert error is None, (error, batch[index])
                assert lists[index].values.to_pylist() == to_arrow(wanted or [], changes).to_pylist(), batch[index]
            assert np.count_nonzero(refused) < len(broken)
        assert outline.learned is learned
        # messages that are laid out in another way drive the outline out
        others = [json.dumps(json.loads(text)).encode() for text in messages(300)]
        assert not fast.read(pa.array(others, pa.binary()))[1].any()
        assert outline.learned is not learned


# --- filters --------------------------------------------------------------------------------------------


def test_filters_match_whole_names_before_anything_else_is_looked_at() -> None:
    message = {"data": [{"id": 1}], "type": "INSERT", "database": "shop", "table": "orders"}
    bad = {"data": 5, "type": "ALTER", "database": "shop", "table": "orders"}
    for pattern, taken in (("shop", True), ("sho", False), ("sh.*", True), ("(?i)SHOP", True), ("", False)):
        found = _decoded("canal-json", message, **{"database.include": pattern})
        assert found == ([("+I", (1, None))] if taken else []), pattern
    assert _decoded("canal-json", bad, **{"table.include": "other"}) == []
    assert "'type'" in _decoded("canal-json", {**bad, "data": []}, **{"table.include": "ord.*"})
    nameless = {"data": [{"id": 1}], "type": "INSERT"}
    assert "field 'table': is missing" in _decoded("canal-json", nameless, **{"table.include": "x"})
    assert _decoded("canal-json", {**nameless, "table": None}, **{"table.include": "null"}) == [("+I", (1, None))]


@pytest.mark.parametrize("option", ["database.include", "table.include"])
def test_a_filter_that_is_no_pattern_is_an_error_before_any_message(option: str) -> None:
    with pytest.raises(
        OptionError, match=r"option '.*\.include' of format 'canal-json'.*unclosed group at character 6"
    ) as caught:
        get_format("canal-json", {option: "shop("}).decode_batch(pa.array([], pa.binary()), "id INT")
    assert caught.value.option == option


# --- writing --------------------------------------------------------------------------------------------

_WRITTEN = {
    "debezium-json": ('{"before":null,"after":%s,"op":"c"}', '{"before":%s,"after":null,"op":"d"}'),
    "canal-json": ('{"data":[%s],"type":"INSERT"}', '{"data":[%s],"type":"DELETE"}'),
    "maxwell-json": ('{"data":%s,"type":"insert"}', '{"data":%s,"type":"delete"}'),
    "ogg-json": ('{"before":null,"after":%s,"op_type":"I"}', '{"before":%s,"after":null,"op_type":"D"}'),
}


@pytest.mark.parametrize("format", _FORMATS)
def test_rows_are_written_as_inserts_and_deletes(format: str) -> None:
    rows = pa.array([{"id": 1, "name": "é"}] * 4 + [None], pa.struct({"id": pa.int32(), "name": pa.string()}))
    kinds = pa.array([*KINDS, "-D"])
    insert, delete = (text % '{"id":1,"name":"é"}' for text in _WRITTEN[format])
    written = get_format(format).encode_batch(rows, "id INT, name STRING", row_kinds=kinds)
    assert written.errors is None
    texts = [message and message.decode() for message in written.messages.to_pylist()]
    assert texts == [insert, delete, insert, delete, None]
    inserts = get_format(format).encode_batch(rows, "id INT, name STRING").messages.to_pylist()
    assert inserts == [insert.encode()] * 4 + [None]


@pytest.mark.parametrize("format", _FORMATS)
def test_null_columns_and_null_sides_are_left_out(format: str) -> None:
    rows = pa.array([{"id": 1, "name": None}], pa.struct({"id": pa.int32(), "name": pa.string()}))
    fmt = get_format(format, {"encode.ignore-null-fields": "true"})
    for kind, text in zip(("+U", "-U"), _WRITTEN[format], strict=True):
        wanted = (text % '{"id":1}').replace('"before":null,', "").replace(',"after":null', "")
        written = fmt.encode_batch(rows, "id INT, name STRING", row_kinds=pa.array([kind]))
        assert written.messages.to_pylist() == [wanted.encode()]


@pytest.mark.parametrize("format", _FORMATS)
def test_what_is_written_reads_back(format: str) -> None:
    rng = random.Random(5)
    fmt = get_format(format)
    messages = [json.dumps({"data": _row(rng), "type": "insert"}).encode() for _ in range(300)]
    rows = get_format("maxwell-json", {"ignore-parse-errors": "true"}).decode_batch(pa.array(messages), _SCHEMA)
    kinds = pa.array([rng.choice(["+I", "-D"]) for _ in range(len(rows.rows.values))])
    written = fmt.encode_batch(rows.rows.values, _SCHEMA, row_kinds=kinds)
    again = fmt.decode_batch(written.messages, _SCHEMA)
    assert again.errors is None
    assert again.rows.values.equals(rows.rows.values)
    assert again.row_kinds == kinds


def test_a_row_that_cannot_be_written_has_an_error() -> None:
    pairs = pa.list_(pa.struct({"key": pa.string(), "value": pa.int32()}))
    rows = pa.array([{"m": [{"key": None, "value": 1}]}, {"m": []}], pa.struct({"m": pairs}))
    writer = ChangeWriter(parse_schema("m MAP<STRING, INT>"), WriteSettings(), get_format("canal-json").envelope.writes)  # type: ignore[attr-defined]
    written = writer.write(rows, None)
    assert written.messages.to_pylist() == [None, b'{"data":[{"m":{}}],"type":"INSERT"}']
    assert written.errors is not None
    assert "map-null-key.mode" in written.errors[0].as_py()


# --- options and objects --------------------------------------------------------------------------------


def test_options_that_one_direction_refuses() -> None:
    fmt = get_format("debezium-json", {"schema-include": "true"})
    with pytest.raises(OptionError, match="schema-include"):
        fmt.encode_batch(pa.array([], pa.struct({"id": pa.int32()})), "id INT")
    with pytest.raises(SchemaError, match="non-string as key type"):
        get_format("ogg-json").decode_batch(pa.array([], pa.binary()), "m MAP<INT, INT>")


@pytest.mark.parametrize("format", _FORMATS)
def test_formats_are_values(format: str) -> None:
    fmt = get_format(format, {"ignore-parse-errors": "true"})
    fmt.decode_batch(pa.array([b"{}"]), "id INT")
    again = pickle.loads(pickle.dumps(fmt))
    assert again == fmt
    assert again.decode_batch(pa.array([b"{}"]), "id INT").rows.to_pylist() == [[]]


@pytest.mark.parametrize("format", _FORMATS)
def test_a_table_without_columns(format: str) -> None:
    message = {"before": {}, "after": {}, "op": "u", "op_type": "U", "data": {}, "old": {}, "type": "update"}
    if format == "canal-json":
        message |= {"data": [{}], "old": [{}], "type": "UPDATE"}
    messages = pa.array([json.dumps(message).encode()] * 200)
    batch = get_format(format).decode_batch(messages, pa.schema([]))
    assert len(batch.rows.values) == 400
