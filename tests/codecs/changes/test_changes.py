"""Change data: rows and kinds, metadata, filters, errors, writing."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs.changes.envelope import KINDS
from kvformat.codecs.changes.write import ChangeWriter
from kvformat.codecs.json.settings import WriteSettings
from kvformat.registry import get_format
from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.contract.errors import OptionError, SchemaError
from kvformat.registry.java.regex import compile_java
from tests.support import cost
from tests.support.decoding import Answer, alone, answers, checked, decoded
from tests.support.extent import case_count
from tests.support.json_mutation import CHANGED, PRODUCERS, Producer, mutated, row

_FORMATS = ("debezium-json", "canal-json", "maxwell-json", "ogg-json")
_COLUMNS = ("id", "name", "price", "at", "tags", "more", "rec")


def _read(format: Any, schema: str, messages: list[bytes | None], metadata: tuple[str, ...] = ()) -> list[Answer]:
    """Decode messages in one batch, check that each gets the same answer by itself, and return the answers."""
    found = answers(decoded(format, messages, schema, metadata=metadata))
    assert found == alone(format, messages, schema, metadata=metadata)
    return found


def _good(found: list[Answer]) -> float:
    return sum(answer.error is None for answer in found) / len(found)


def _metadata_sets(format: str) -> list[tuple[str, ...]]:
    keys = tuple(get_format(format).metadata_types)
    return [(), *((key,) for key in keys), keys, tuple(reversed(keys))]


# --- whole batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("producer", PRODUCERS, ids=str)
def test_a_message_gets_the_same_answer_in_a_batch_and_by_itself(producer: Producer) -> None:
    rng = random.Random(11)
    count = case_count(quick=120, night=300)
    whole = producer.texts(rng, count)
    messages: list[bytes | None] = [*whole, *(mutated(rng, message) for message in whole[: count * 2 // 3])]
    messages += [None, b""] * (count // 12)
    rng.shuffle(messages)
    format = get_format(producer.format, dict(producer.options))
    for metadata in ((), tuple(format.metadata_types)):
        found = _read(format, CHANGED, messages, metadata)
        assert _good(found) == 1 if format.options["ignore-parse-errors"] else 0.3 < _good(found) < 0.95
        sliced = decoded(format, pa.array([None, *messages], pa.binary()).slice(1), CHANGED, metadata=metadata)
        assert answers(sliced) == found
    _read(format, "id STRING, name STRING", messages)


@pytest.mark.parametrize("producer", PRODUCERS, ids=str)
def test_metadata_is_the_same_with_any_other_keys_and_does_not_change_rows(producer: Producer) -> None:
    """Requests no keys, each key by itself, all keys, and all keys in reverse."""
    messages = producer.texts(random.Random(5), 300)
    format = get_format(producer.format, dict(producer.options))
    known: dict[str, list[Any]] = {}
    plain = decoded(format, messages, CHANGED)
    for metadata in _metadata_sets(producer.format):
        batch = decoded(format, messages, CHANGED, metadata=metadata)
        errors = batch.errors.to_pylist() if batch.errors is not None else [None] * len(messages)
        start = len(_COLUMNS)
        for index, (found, wanted) in enumerate(zip(batch.rows.to_pylist(), plain.rows.to_pylist(), strict=True)):
            if errors[index] is not None or wanted is None or (found == [] and format.options["ignore-parse-errors"]):
                continue  # with `ignore-parse-errors`, a bad op_ts drops the message
            rows = [list(change.values()) for change in found]
            assert [change[:start] for change in rows] == [list(change.values()) for change in wanted]
            for place, key in enumerate(metadata):
                values = [change[start + place] for change in rows]
                if len(metadata) == 1:
                    known.setdefault(key, [None] * len(messages))[index] = values
                else:
                    assert values == known[key][index]
                assert all(value == values[0] for value in values)  # all rows of a message have the same metadata


_ORDINARY: dict[str, list[tuple[dict[str, Any], list[tuple[str, int, str | None]]]]] = {
    "debezium-json": [
        (
            {"before": None, "after": {"id": 1, "name": "a"}, "source": {"db": "d", "ts_ms": 1}, "op": "c", "ts_ms": 2},
            [("+I", 1, "a")],
        ),
        (
            {"before": {"id": 1, "name": "a"}, "after": {"id": 1}, "source": {"db": "d", "ts_ms": 1}, "op": "u"},
            [("-U", 1, "a"), ("+U", 1, None)],
        ),
        ({"before": {"id": 1, "name": "a"}, "after": None, "source": {"db": "d"}, "op": "d"}, [("-D", 1, "a")]),
    ],
    "canal-json": [
        (
            {"data": [{"id": "1", "name": "a"}], "database": "d", "table": "t", "old": None, "type": "INSERT", "ts": 1},
            [("+I", 1, "a")],
        ),
        (
            {"data": [{"id": "1"}, {"id": "2"}], "database": "d", "old": [{"name": "b"}, {}], "type": "UPDATE"},
            [("-U", 1, "b"), ("+U", 1, None), ("-U", 2, None), ("+U", 2, None)],
        ),
        ({"data": [{"id": "1", "name": "a"}], "old": None, "type": "DELETE", "ts": 1}, [("-D", 1, "a")]),
    ],
    "maxwell-json": [
        ({"database": "d", "type": "insert", "ts": 1, "data": {"id": 1, "name": "a"}}, [("+I", 1, "a")]),
        (
            {"database": "d", "type": "update", "ts": 1, "data": {"id": 1, "name": "a"}, "old": {"name": None}},
            [("-U", 1, None), ("+U", 1, "a")],
        ),
        ({"database": "d", "type": "delete", "ts": 1, "data": {"id": 1, "name": "a"}}, [("-D", 1, "a")]),
    ],
    "ogg-json": [
        ({"table": "t", "op_type": "I", "op_ts": "2024-05-13 15:40:06.1", "after": {"id": 1}}, [("+I", 1, None)]),
        (
            {"table": "t", "op_type": "U", "before": {"id": 1}, "after": {"id": 2, "name": "x"}},
            [("-U", 1, None), ("+U", 2, "x")],
        ),
        ({"table": "t", "op_type": "D", "before": {"id": 1}}, [("-D", 1, None)]),
    ],
}


@pytest.mark.parametrize("format", _FORMATS)
def test_members_in_any_order_with_or_without_blanks_give_the_same_rows(format: str) -> None:
    rng = random.Random(format)
    messages, wanted = [], []
    for _ in range(600):
        message, rows = rng.choice(_ORDINARY[format])
        members = list(message.items())
        if rng.random() < 0.5:
            rng.shuffle(members)
        messages.append(json.dumps(dict(members), indent=rng.choice([None, None, 2])).encode())
        wanted.append(rows)
    for metadata in _metadata_sets(format):
        batch = decoded(get_format(format), messages, "id BIGINT, name STRING", metadata=metadata)
        assert batch.errors is None
        assert batch.row_kinds is not None
        kinds = iter(batch.row_kinds.to_pylist())
        found = [[(next(kinds), change["id"], change["name"]) for change in rows] for rows in batch.rows.to_pylist()]
        assert found == wanted


def _similar_messages(rng: random.Random, format: str, count: int) -> list[bytes]:
    """Return messages that differ only in their rows, operations and numbers."""
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


@pytest.mark.parametrize(
    ("format", "options"),
    [
        *((format, {}) for format in _FORMATS),
        ("debezium-json", {"schema-include": "true"}),
        ("canal-json", {"table.include": "t|u"}),
    ],
    ids=str,
)
def test_other_messages_between_similar_messages_do_not_change_answers(format: str, options: dict[str, str]) -> None:
    """A reader caches the names of members. Broken messages and messages in another order must not spoil the cache."""
    rng = random.Random(17)
    fmt = get_format(format, options)

    def messages(count: int) -> list[bytes]:
        found = _similar_messages(rng, format, count)
        return _wrap(found) if "schema-include" in options else found

    every, count = tuple(fmt.metadata_types), case_count(quick=100, night=300)
    for metadata in ((), every):
        assert _good(_read(fmt, CHANGED, [*messages(count)], metadata)) == 1
        batch: list[bytes | None] = [*(mutated(rng, text) for text in messages(count)), *messages(count)]
        batch += [json.dumps(json.loads(text), sort_keys=True, indent=1).encode() for text in messages(count)]
        rng.shuffle(batch)
        assert 0.7 < _good(_read(fmt, CHANGED, batch, metadata)) < 1
        assert _good(_read(fmt, CHANGED, [*messages(count)], metadata)) == 1


def _decoded(
    format: str, message: Any, schema: str = "id INT, name STRING", *, metadata: Any = (), **options: str
) -> Any:
    """Return the rows of a message, such as `('+I', (1, 'a'))`, or its error."""
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    given = {name.replace("_", "-"): value for name, value in options.items()}
    batch = decoded(get_format(format, given), [data], schema, metadata=metadata)
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


def test_a_column_that_the_old_row_does_not_have_is_taken_from_the_new_row() -> None:
    data = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    old = [{"name": None}, {"id": 9}]  # Flink checks in all old rows together whether a column is there
    rows = _decoded("canal-json", {"data": data, "old": old, "type": "UPDATE"})
    assert rows == [("-U", (1, None)), ("+U", (1, "a")), ("-U", (9, "b")), ("+U", (2, "b"))]
    nested = {"data": {"id": 1, "doc": {"name": "y"}, "name": "n"}, "old": {"doc": {"name": "x"}}, "type": "update"}
    schema = "id INT, doc STRING, name STRING"  # Flink finds the `name` in `doc`
    assert _decoded("maxwell-json", nested, schema)[0] == ("-U", (1, '{"name":"x"}', "n"))


def test_rows_before_a_missing_row_stay_with_ignore_parse_errors() -> None:
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
        ("2020-5-1 1:2:3.5", 1588294923_500_000),
        ("2020-5-1 1:2:3.000012", 1588294923_000_012),
        ("\0\t2020-5-1\x1f ", 1588291200_000_000),  # Java's `trim`: everything up to a space
        ("!2020-5-1", None),
        ("2020-02-30 00:00:00", 1583020800_000_000),
        ("2020-5-1", 1588291200_000_000),
        ("0001-01-01T00:00:00.000999", -62135596800_000_000),
        ("0000-12-31T23:59:59.999999", None),
        ("2020-5-1 1:2", None),
        ("2020-+5-1", 1588291200_000_000),
        ("2020-+05-1", None),
        ("202-5-1", None),
        ("2020-0-1", None),
        ("2020-5-32", None),
        ("2020-5-1 25:0:0", 1588381200_000_000),
        ("2020-5-1 -1:0:0", 1588287600_000_000),
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
        ("2020-5-3 1:2:3.123456", 1588467723_123_000),
        ("2020-02-30", 1582934400_000_000),
        ("2020-05-13 24:00:00", 1589414400_000_000),
        ("2020-05-13 24:00:00.000", 1589414400_000_000),
        ("2020-05-13 24:00:00.001", None),
        ("2020-055-1313", 1589328000_000_000),  # a part may have both widths in a row if they are equal
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
        ("0000-05-13 15:40:06.123456", None),
        ("2020-05-13T15:40:06", None),
        (" 2020-05-13", None),
        ("2020-13-01", None),
    ],
)
def test_a_bad_op_ts_of_ogg_is_an_error_of_the_message(text: str, micros: int | None) -> None:
    message = json.dumps({"after": {"id": 1}, "op_type": "I", "op_ts": text}).encode()
    batch = get_format("ogg-json").decode_batch(pa.array([message]), "id INT", metadata=["event-timestamp"])
    if micros is None:
        assert batch.errors is not None
        assert "field 'op_ts'" in batch.errors[0].as_py()
    else:
        assert batch.rows.values.field(1).cast(pa.int64()).to_pylist() == [micros]


_FLAT = {"flattened": "true"}
# format, options, message with a number at %, metadata, microseconds of a unit
_EPOCHS: list[tuple[str, dict[str, str], str, str, int]] = [
    ("debezium-json", {}, '{"after":{"id":1},"op":"c","ts_ms":%}', "ingestion-timestamp", 1000),
    ("debezium-json", {}, '{"after":{"id":1},"op":"c","source":{"ts_ms":%}}', "source.timestamp", 1000),
    ("debezium-json", _FLAT, '{"id":1,"__source_ts_ms":%}', "source.timestamp", 1000),
    ("canal-json", {}, '{"data":[{"id":1}],"type":"INSERT","ts":%}', "ingestion-timestamp", 1000),
    ("canal-json", {}, '{"data":[{"id":1}],"type":"INSERT","es":%}', "event-timestamp", 1000),
    ("maxwell-json", {}, '{"data":{"id":1},"type":"insert","ts":%}', "ingestion-timestamp", 1_000_000),
]


@pytest.mark.parametrize(("format", "options", "message", "key", "unit"), _EPOCHS)
@pytest.mark.parametrize("quoted", [False, True])
def test_a_metadata_time_out_of_the_range_of_timestamps_is_an_error(
    format: str, options: dict[str, str], message: str, key: str, unit: int, quoted: bool
) -> None:
    most = (2**63 - 1) // unit
    good, bad = [0, 1, -1, most, -most, 1589362330904], [most + 1, -most - 1, 2**63 - 1, -(2**63)]
    messages = [message.replace("%", f'"{n}"' if quoted else str(n)).encode() for n in (*good, *bad, *good)]
    for lenient in ("false", "true"):
        made = get_format(format, {**options, "ignore-parse-errors": lenient})
        batch = decoded(made, messages, "id INT", metadata=[key])
        assert batch.rows.values.field(1).cast(pa.int64()).to_pylist() == [n * unit for n in good] * 2
        errors = [None] * len(messages) if batch.errors is None else batch.errors.to_pylist()
        assert [error is None or "the time is out of the range" in error for error in errors] == [True] * len(messages)
        failed = [None if lenient == "false" else 0] * len(bad)  # the message is skipped
        assert batch.rows.value_lengths().to_pylist() == [*[1] * len(good), *failed, *[1] * len(good)]


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**29, "", "-", "1.0", "1e3", " 1", "9" * 31])
def test_the_time_of_a_source_is_a_long_of_java(number: Any) -> None:
    message = {"after": {"id": 1}, "op": "c", "source": {"ts_ms": str(number)}}
    error = f"field 'source.ts_ms': cannot read \"{number}\" as milliseconds since 1970"
    assert _decoded("debezium-json", message, metadata=["source.timestamp"]) == error
    wrapped = _decoded("debezium-json", {"payload": message}, metadata=["source.timestamp"], schema_include="true")
    assert wrapped == error.replace("source", "payload.source", 1)


def test_a_bad_metadata_time_names_its_member_and_the_payload() -> None:
    message = {"after": {"id": 1}, "op": "c", "ts_ms": "x"}
    assert "field 'ts_ms': cannot" in _decoded("debezium-json", message, metadata=["ingestion-timestamp"])
    wrapped = {"payload": message}
    error = _decoded("debezium-json", wrapped, metadata=["ingestion-timestamp"], schema_include="true")
    assert "field 'payload.ts_ms': cannot" in error


@pytest.mark.parametrize("value", [5, "x", [], [1], True, None, {}, {"db": "a"}])
def test_metadata_of_a_map_has_no_entries_if_its_member_is_not_an_object(value: Any) -> None:
    entries = value if value is None else [*value.items()] if isinstance(value, dict) else []
    database = value.get("db") if isinstance(value, dict) else None
    keys = ["source.properties", "source.database"]
    event = {"after": {"id": 1}, "op": "c", "source": value}
    assert _decoded("debezium-json", event, "id INT", metadata=keys) == [("+I", (1, entries, database))]
    numbers = {"id": 4} if isinstance(value, dict) and value else value
    entries = [("id", 4)] if isinstance(value, dict) and value else entries
    change = {"data": [{"id": 1}], "type": "INSERT", "sqlType": numbers}
    assert _decoded("canal-json", change, "id INT", metadata=["sql-type"]) == [("+I", (1, entries))]


@pytest.mark.parametrize("lenient", ["false", "true"])
@pytest.mark.parametrize(("operation", "error"), [("CREATE", False), ("ALTER", False), ("INSERT", True)])
def test_bad_metadata_of_a_message_without_rows_is_not_an_error(operation: str, error: bool, lenient: str) -> None:
    options = {"other_messages": "skip", "ignore_parse_errors": lenient}
    message = {"data": [{"id": 1}], "type": operation, "es": 2**62}
    found = _decoded("canal-json", message, metadata=["event-timestamp"], **options)
    assert isinstance(found, str) if error and lenient == "false" else found == []


# --- errors ---------------------------------------------------------------------------------------------

_WRONG: list[tuple[str, Any, str]] = [
    ("debezium-json", {"after": None, "op": "c"}, "field 'after': is missing or null, but an insert needs it"),
    ("debezium-json", {"after": {"id": 1}, "op": "u"}, "field 'before': is missing or null.*REPLICA IDENTITY FULL"),
    ("debezium-json", {"after": {"id": 1}, "op": "d"}, "field 'before': .*a deletion needs it.*binlog_row_image"),
    ("debezium-json", {"after": {"id": 1}, "op": "t"}, 'field \'op\': unknown value "t"; it must be one of "c", "r"'),
    ("debezium-json", {"after": {"id": 1}}, "field 'op': is missing or null; it must be one of"),
    ("debezium-json", {"payload": {"op": "c"}}, "set 'schema-include' to true"),
    ("debezium-json", {"after": {"id": "x"}, "op": "c"}, "field 'after.id': cannot read \"x\" as INT"),
    ("debezium-json", [{"op": "c"}, {"op": "c"}], "an array of 2"),
    ("debezium-json", b'{"after":{"id":1},"op":"c"', "not JSON"),
    ("debezium-json", b'{"after":{"id":1},"op":"c"} {}', "not JSON: extra data after the document"),
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
def test_an_error_names_the_field_and_what_to_do(format: str, message: Any, reason: str) -> None:
    error = _decoded(format, message)
    assert isinstance(error, str), error
    assert re.search(reason, error), error
    if "cannot read" not in reason:
        dropped = _decoded(format, message, ignore_parse_errors="true")
        assert [row for _, row in dropped] in ([], [(1, None)])


def test_the_error_of_an_unwrapped_message_names_the_option() -> None:
    error = _decoded("debezium-json", {"after": {"id": 1}, "op": "c"}, schema_include="true")
    assert "field 'payload': is missing or null; with 'schema-include'" in error
    inner = _decoded("debezium-json", {"payload": {"after": {"id": "x"}, "op": "c"}}, schema_include="true")
    assert "field 'payload.after.id'" in inner


_HOSTILE: dict[str, bytes] = {
    "50 MB in an unrequested member": b'{"x":"' + b"x" * 50_000_000 + b'","after":{"id":7},"op":"c"}',
    "100,000 nested objects": b'{"after":' * 100_000,
    "the same member a million times": b"{" + b'"after":{"id":1},' * 1_000_000 + b'"op":"c"}',
    "an operation of a million characters": b'{"op":"' + b"c" * 1_000_000 + b'"}',
    "bytes that are not UTF-8": b'{"after":{"name":"\xff"},"op":"c"}',
    "only zero bytes": b"\x00" * 1000,
}


@pytest.mark.parametrize("name", _HOSTILE)
def test_a_hostile_message_takes_bounded_time_and_does_not_change_other_messages(name: str) -> None:
    good = b'{"after":{"id":7},"op":"c"}'
    messages = [good] * 100 + [_HOSTILE[name]] + [good] * 100
    array = pa.array(messages, pa.binary())
    with cost.at_most(20):
        batch = get_format("debezium-json").decode_batch(array, "id INT, name STRING")
    checked(batch, array)
    errors = batch.errors.to_pylist() if batch.errors is not None else [None] * len(messages)
    assert [index for index, error in enumerate(errors) if error is not None] in ([], [100])
    assert all(error is None or len(error) < 300 for error in errors)
    assert all(row.as_py() == [{"id": 7, "name": None}] for i, row in enumerate(batch.rows) if i != 100)


# --- filters --------------------------------------------------------------------------------------------


def test_filters_match_whole_names_before_other_members_are_checked() -> None:
    message = {"data": [{"id": 1}], "type": "INSERT", "database": "shop", "table": "orders"}
    bad = {"data": 5, "type": "ALTER", "database": "shop", "table": "orders"}
    for pattern, taken in (("shop", True), ("sho", False), ("sh.*", True), ("(?i)SHOP", True), ("", False)):
        found = _decoded("canal-json", message, **{"database.include": pattern})
        assert found == ([("+I", (1, None))] if taken else []), pattern
    assert _decoded("canal-json", bad, **{"table.include": "other"}) == []
    assert "'type'" in _decoded("canal-json", {**bad, "data": []}, **{"table.include": "ord.*"})
    nameless = {"data": [{"id": 1}], "type": "INSERT"}
    assert "field 'table': is missing" in _decoded("canal-json", nameless, **{"table.include": "x"})
    for value, pattern in ((None, "null"), ({"a": 1}, ""), ([], ""), (7, "7"), (True, "true")):
        assert _decoded("canal-json", {**nameless, "table": value}, **{"table.include": pattern}) == [("+I", (1, None))]


def test_maxwell_has_the_same_filters_for_reading() -> None:
    message = {"data": {"id": 1}, "type": "insert", "database": "shop", "table": "orders"}
    for options, taken in (
        ({"database.include": "shop"}, True),
        ({"database.include": "sho"}, False),
        ({"table.include": "ord.*"}, True),
        ({"table.include": "items", "database.include": "shop"}, False),
    ):
        assert _decoded("maxwell-json", message, **options) == ([("+I", (1, None))] if taken else []), options
    # in messages of other tables, nothing else is checked; a message without a table passes the filters
    other = {**message, "table": "items", "data": {"id": "x"}}
    assert _decoded("maxwell-json", other, **{"table.include": "orders"}) == []
    statement = {"type": "database-create", "database": "shop", "sql": "CREATE DATABASE shop"}
    assert "a statement on a database" in _decoded("maxwell-json", statement, **{"table.include": "orders"})
    options = {"table.include": "orders", "other-messages": "skip"}
    assert _decoded("maxwell-json", statement, **options) == []
    dropped = {"type": "table-drop", "database": "shop", "table": "items", "sql": "DROP TABLE items"}
    assert _decoded("maxwell-json", dropped, **options) == []
    assert "a DROP TABLE" in _decoded("maxwell-json", {**dropped, "table": "orders"}, **options)
    with pytest.raises(OptionError, match=r"'table\.include' = '.*' is for reading only"):
        get_format("maxwell-json", {"table.include": "x"}).encode_batch(pa.array([{"id": 1}]), "id INT")


def test_canals_bytes_are_latin_1_texts_if_the_option_says_so() -> None:
    every = bytes(range(256))
    schema = "id INT, b BYTES, f BINARY(2), a ARRAY<BYTES>"

    def message(**row: Any) -> bytes:
        return json.dumps({"data": [{"id": "1", **row}], "type": "INSERT", "table": "t"}).encode()

    good = message(b=every.decode("latin-1"), f="AB", a=["AB=="])
    bad = message(b="\u20ac")
    fmt = get_format("canal-json", {"bytes.encoding": "ISO-8859-1"})
    batch = fmt.decode_batch(pa.array([good, bad, message(b=None), good]), schema)
    row = {"id": 1, "b": every, "f": b"AB", "a": [b"\x00"]}
    assert batch.rows.to_pylist() == [[row], None, [{"id": 1, "b": None, "f": None, "a": None}], [row]]
    assert batch.errors is not None
    assert batch.codes is not None
    assert batch.codes[1].as_py() == "WRONG_TYPE"
    error = batch.errors[1].as_py()
    assert "field 'b': cannot read" in error
    assert "(text in ISO-8859-1) as BYTES" in error
    lenient = get_format("canal-json", {"bytes.encoding": "ISO-8859-1", "ignore-parse-errors": "true"})
    assert lenient.decode_batch(pa.array([bad]), schema).rows.to_pylist()[0][0]["b"] is None
    base64 = get_format("canal-json").decode_batch(pa.array([message(b="AB==")]), schema)
    assert base64.rows.to_pylist()[0][0]["b"] == b"\x00"
    # the old bytes of an update are converted too
    update = {"data": [{"id": "1", "b": "\xff"}], "old": [{"b": "\x80"}], "type": "UPDATE"}
    rows = fmt.decode_batch(pa.array([json.dumps(update).encode()]), "id INT, b BYTES").rows.to_pylist()
    assert rows == [[{"id": 1, "b": b"\x80"}, {"id": 1, "b": b"\xff"}]]
    with pytest.raises(OptionError, match=r"'bytes\.encoding' = 'ISO-8859-1' is for reading only"):
        fmt.encode_batch(pa.array([{"id": 1}]), "id INT")


@pytest.mark.parametrize("format", ["canal-json", "maxwell-json"])
@pytest.mark.parametrize("database", ["shop", "shops", "hop"])
@pytest.mark.parametrize("table", ["order", "orders", "rder"])
def test_a_message_is_read_if_its_database_and_its_table_match(format: str, database: str, table: str) -> None:
    def message(database: str, table: str) -> bytes:
        row = {"id": 1} if format == "maxwell-json" else [{"id": 1}]
        kind = "insert" if format == "maxwell-json" else "INSERT"
        return json.dumps({"data": row, "type": kind, "database": database, "table": table}).encode()

    names = [(d, t) for d in ("shop", "shops", "hop") for t in ("order", "orders", "rder")]
    for options in ({"database.include": database}, {"table.include": table}):
        wanted = [int((d if "database.include" in options else t) == next(iter(options.values()))) for d, t in names]
        found = decoded(get_format(format, options), [message(*name) for name in names], "id INT")
        assert found.rows.value_lengths().to_pylist() == wanted
    both = get_format(format, {"database.include": database, "table.include": table})
    found = decoded(both, [message(*name) for name in names], "id INT")
    assert found.rows.value_lengths().to_pylist() == [int(name == (database, table)) for name in names]


@pytest.mark.parametrize("lenient", ["false", "true"])
def test_a_filter_that_takes_too_long_is_an_error_of_that_message_only(lenient: str) -> None:
    compile_java.cache_clear()  # a cached pattern has less time left
    long, short = "a" * 10_000, "aab"
    options = {"table.include": "(a|aa)+b", "ignore-parse-errors": lenient}
    messages = [
        json.dumps({"data": [{"id": 1}], "type": "INSERT", "table": table}).encode()
        for table in (short, long, "other", long + "a", short)
    ]
    batch = get_format("canal-json", options).decode_batch(pa.array(messages), "id INT")
    assert batch.errors is not None
    assert batch.codes is not None
    assert batch.codes.to_pylist() == [None, "TOO_LARGE", None, "TOO_LARGE", None]
    assert batch.rows.to_pylist() == [[{"id": 1}], None, [], None, [{"id": 1}]]
    error = batch.errors[1].as_py()
    assert "field 'table': matching 'table.include' with \"aaa" in error
    assert "(10000 characters) took longer than 1 s; write the pattern" in error
    assert "took longer than 0.5 s" in batch.errors[3].as_py()


@pytest.mark.parametrize("option", ["database.include", "table.include"])
def test_an_invalid_pattern_is_an_error_before_the_first_message(option: str) -> None:
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
def test_ignore_null_fields_leaves_out_null_columns_and_null_rows(format: str) -> None:
    rows = pa.array([{"id": 1, "name": None}], pa.struct({"id": pa.int32(), "name": pa.string()}))
    fmt = get_format(format, {"encode.ignore-null-fields": "true"})
    for kind, text in zip(("+U", "-U"), _WRITTEN[format], strict=True):
        wanted = (text % '{"id":1}').replace('"before":null,', "").replace(',"after":null', "")
        written = fmt.encode_batch(rows, "id INT, name STRING", row_kinds=pa.array([kind]))
        assert written.messages.to_pylist() == [wanted.encode()]


@pytest.mark.parametrize("format", _FORMATS)
def test_written_messages_are_read_as_the_same_rows_and_kinds(format: str) -> None:
    rng = random.Random(5)
    fmt = get_format(format)
    messages = [json.dumps({"data": row(rng), "type": "insert"}).encode() for _ in range(300)]
    rows = get_format("maxwell-json", {"ignore-parse-errors": "true"}).decode_batch(pa.array(messages), CHANGED)
    kinds = pa.array([rng.choice(["+I", "-D"]) for _ in range(len(rows.rows.values))])
    written = fmt.encode_batch(rows.rows.values, CHANGED, row_kinds=kinds)
    reread = fmt.decode_batch(written.messages, CHANGED)
    assert reread.errors is None
    assert reread.rows.values.equals(rows.rows.values)
    assert reread.row_kinds == kinds


def test_a_row_that_cannot_be_written_is_an_error() -> None:
    pairs = pa.list_(pa.struct({"key": pa.string(), "value": pa.int32()}))
    rows = pa.array([{"m": [{"key": None, "value": 1}]}, {"m": []}], pa.struct({"m": pairs}))
    writer = ChangeWriter(parse_schema("m MAP<STRING, INT>"), WriteSettings(), get_format("canal-json").envelope.frames)  # type: ignore[attr-defined]
    written = writer.write(rows, None)
    assert written.messages.to_pylist() == [None, b'{"data":[{"m":{}}],"type":"INSERT"}']
    assert written.errors is not None
    assert "map-null-key.mode" in written.errors[0].as_py()


# --- options and objects --------------------------------------------------------------------------------


def test_options_and_types_that_only_one_direction_allows() -> None:
    fmt = get_format("debezium-json", {"schema-include": "true"})
    with pytest.raises(OptionError, match="schema-include"):
        fmt.encode_batch(pa.array([], pa.struct({"id": pa.int32()})), "id INT")
    with pytest.raises(SchemaError, match="non-string as key type"):
        get_format("ogg-json").decode_batch(pa.array([], pa.binary()), "m MAP<INT, INT>")


@pytest.mark.parametrize("format", _FORMATS)
def test_a_table_without_columns_has_all_rows(format: str) -> None:
    message = {"before": {}, "after": {}, "op": "u", "op_type": "U", "data": {}, "old": {}, "type": "update"}
    if format == "canal-json":
        message |= {"data": [{}], "old": [{}], "type": "UPDATE"}
    messages = pa.array([json.dumps(message).encode()] * 200)
    batch = get_format(format).decode_batch(messages, pa.schema([]))
    assert len(batch.rows.values) == 400
