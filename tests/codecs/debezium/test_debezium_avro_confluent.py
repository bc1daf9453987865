"""`debezium-avro-confluent`, beyond the vectors: error messages, slices, nulls, tables, registration."""

from __future__ import annotations

import io
import json
import pickle
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kvformat.codecs.debezium_avro_confluent import DebeziumAvroConfluentFormat
from kvformat.registry import Format, KeyValueFormat, get_format
from kvformat.registry.contract.errors import OptionError, SchemaError
from tests.support.registry_server import Registry, RegistryServer

_NAME = "debezium-avro-confluent"
_COLUMNS = "id INT NOT NULL, name STRING"
_VALUE = {
    "type": "record",
    "name": "Value",
    "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"], "default": None}],
}
_ENVELOPE: dict[str, Any] = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.public.goods",
    "fields": [
        {"name": "before", "type": ["null", _VALUE], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": [{"name": "lsn", "type": "long"}]}},
        {"name": "op", "type": ["null", "string"]},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}


pytestmark = pytest.mark.schemas({7: json.dumps(_ENVELOPE), 8: '["null", "string"]'})


def _event(op: str | None, before: Any = None, after: Any = None) -> bytes:
    stream = io.BytesIO()
    event = {"before": before, "after": after, "source": {"lsn": 1}, "op": op, "ts_ms": None}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(_ENVELOPE), event)
    return b"\0\0\0\0\7" + stream.getvalue()


_PEN, _INK = {"id": 1, "name": "pen"}, {"id": 2, "name": None}


def _format(registry: Registry, **options: str) -> Format:
    return get_format(_NAME, {"url": registry.url} | options)


def _rows(fmt: Format, messages: pa.Array) -> list[list[tuple[str, Any]] | None]:
    batch = fmt.decode_batch(messages, _COLUMNS)
    batch.rows.validate(full=True)
    assert batch.row_kinds is not None
    kinds = batch.row_kinds.to_pylist()
    bounds = batch.rows.offsets.to_pylist()
    return [
        None if rows is None else list(zip(kinds[start:], rows, strict=False))
        for rows, start in zip(batch.rows.to_pylist(), bounds, strict=False)
    ]


def test_a_connectors_events_give_rows_with_kinds(registry: Registry) -> None:
    messages = [
        _event("r", None, _PEN),
        _event("u", _PEN, _INK),
        None,
        b"",
        _event("d", _INK, _PEN),
        _event("c", _INK, _PEN),
    ]
    fmt = _format(registry)
    expected = [
        [("+I", _PEN)],
        [("-U", _PEN), ("+U", _INK)],
        None,
        [],
        [("-D", _INK)],
        [("+I", _PEN)],
    ]
    assert _rows(fmt, pa.array(messages)) == expected
    assert _rows(fmt, pa.array([b"x", *messages, b"y"]).slice(1, len(messages))) == expected
    assert _rows(fmt, pa.array(messages).slice(2, 2)) == [None, []]
    assert _rows(fmt, pa.array([], pa.binary())) == []


_NULL_BEFORE = "'before': is missing or null, but an update needs it. Postgres sends it only after ALTER TABLE"
FAULTS = {
    "MALFORMED": [(b"{}", "Magic number does not match"), (b"\0\0\0\0\7\1", "")],
    "UNKNOWN_SCHEMA": [(b"\0\0\0\0\t\0", "id 9")],
    "UNKNOWN_OPERATION": [(_event("t", None, _PEN), "'op': unknown value 't'; it must be one of")],
    "MISSING_FIELD": [
        (_event("u", None, _PEN), _NULL_BEFORE),
        (_event("d", None, _PEN), "but a deletion needs it. Postgres sends"),
        (_event("u", _PEN, None), "'after': is missing or null, but an update needs it"),
        (_event("r"), "'after': is missing or null, but a snapshot's row needs it"),
        (_event(None, None, _PEN), "'op': is missing or null"),
        (b"\0\0\0\0\10\0", "null in place of a record"),
    ],
}


def test_a_bad_message_is_an_error_and_does_not_change_other_messages(registry: Registry) -> None:
    faults = [(code, *fault) for code, given in FAULTS.items() for fault in given]
    good = _event("u", _PEN, _INK)
    messages = [part for _, message, _ in faults for part in (message, good)]
    batch = _format(registry).decode_batch(pa.array(messages), _COLUMNS)
    assert batch.errors is not None
    assert batch.codes is not None
    assert batch.codes.to_pylist() == [part for code, *_ in faults for part in (code, None)]
    for (_, message, words), error in zip(faults, batch.errors.to_pylist()[::2], strict=True):
        assert words in error, message
    assert batch.rows.value_lengths().to_pylist() == [None, 2] * len(faults)
    assert batch.row_kinds is not None
    assert batch.row_kinds.to_pylist() == ["-U", "+U"] * len(faults)


def test_written_messages_are_read_as_the_same_rows(registry: Registry) -> None:
    fmt = _format(registry, subject="goods-value")
    rows = pa.array([_PEN, None, _INK, _PEN, _INK], pa.struct([("id", pa.int32()), ("name", pa.string())]))
    kinds = pa.array(["+I", "+I", "-U", "+U", "-D"])
    written = fmt.encode_batch(rows, _COLUMNS, row_kinds=kinds)
    assert written.errors is None
    assert written.messages.is_null().to_pylist() == [False, True, False, False, False]
    assert _rows(fmt, written.messages) == [[("+I", _PEN)], None, [("-D", _INK)], [("+I", _PEN)], [("-D", _INK)]]
    assert fmt.encode_batch(rows.slice(2), _COLUMNS, row_kinds=kinds.slice(2)).messages.equals(
        written.messages.slice(2)
    )
    assert fmt.encode_batch(rows.slice(0, 1), _COLUMNS).messages.equals(written.messages.slice(0, 1))
    ((subject, _, schema),) = registry.registered
    assert subject == "goods-value"
    assert [branch if isinstance(branch, str) else branch["name"] for branch in schema] == ["null", "record"]


def test_writing_a_null_in_a_not_null_column_is_an_error(registry: Registry) -> None:
    rows = pa.array([{"id": None, "name": "x"}, _PEN], pa.struct([("id", pa.int32()), ("name", pa.string())]))
    written = _format(registry, subject="s").encode_batch(rows, _COLUMNS, row_kinds=pa.array(["-D", "-D"]))
    assert written.codes is not None
    assert written.codes.to_pylist() == ["NULL_VALUE", None]


def test_a_connectors_schema_cannot_be_used_for_writing(registry: Registry) -> None:
    fmt = _format(registry, subject="s", schema=json.dumps(_ENVELOPE))
    with pytest.raises(SchemaError, match="must be a nullable record type with fields 'before', 'after', 'op'"):
        fmt.decode_batch(pa.array([], pa.binary()), _COLUMNS)
    with pytest.raises(SchemaError, match="Could not parse Avro schema string"):
        _format(registry, schema="{").decode_batch(pa.array([], pa.binary()), _COLUMNS)


def test_the_latest_version_of_a_subject_must_fit(server: RegistryServer) -> None:
    known = Registry(ids={7: json.dumps(_ENVELOPE)}, subjects={"s": [7]})
    with server.serving(known) as registry:
        fmt = _format(registry, subject="s", **{"use-latest-version": "true"})
        rows = pa.array([_PEN], pa.struct([("id", pa.int32()), ("name", pa.string())]))
        with pytest.raises(SchemaError, match=r"field 'source' of record shop\.public\.goods\.Envelope has neither"):
            fmt.encode_batch(rows, _COLUMNS)


def test_the_format_is_refused_for_keys_and_upsert_tables() -> None:
    key = {"key.format": "debezium-avro-confluent", "key.debezium-avro-confluent.url": "mock://x", "key.fields": "id"}
    with pytest.raises(OptionError, match="A key format should only deal with INSERT-only records"):
        KeyValueFormat("id INT, name STRING", key | {"value.format": "json"})
    value = {"value.format": "debezium-avro-confluent", "value.debezium-avro-confluent.url": "mock://x"}
    with pytest.raises(
        OptionError, match="'upsert-kafka' connector doesn't support 'debezium-avro-confluent' as value"
    ):
        KeyValueFormat(
            "id INT, name STRING",
            value | {"connector": "upsert-kafka", "key.format": "json"},
            primary_key=["id"],
        )


def test_the_subject_follows_the_topic() -> None:
    options = {"connector": "kafka", "topic": "goods", "format": "debezium-avro-confluent"}
    table = KeyValueFormat("id BIGINT", options | {"debezium-avro-confluent.url": "mock://follows"})
    written = table.encode_batch(pa.array([{"id": 1}]), row_kinds=pa.array(["-D"]))
    reread = table.decode_batch(None, written.values)
    assert reread.rows.to_pylist() == [[{"id": 1}]]
    with pytest.raises(OptionError, match=r"debezium-avro-confluent\.subject is required for serialization"):
        get_format("debezium-avro-confluent", {"url": "mock://x"}).encode_batch(pa.array([{"id": 1}]), "id INT")


def test_the_format_pickles_and_hides_the_password() -> None:
    fmt = get_format("debezium-avro-confluent", {"url": "http://me:hunter2@registry:8081"})
    assert isinstance(fmt, DebeziumAvroConfluentFormat)
    assert pickle.loads(pickle.dumps(fmt)) == fmt
    assert "hunter2" not in repr(fmt)


@pytest.mark.parametrize("option", [{"types": "debezium"}, {"flattened": "true"}])
def test_a_schema_is_not_given_where_that_of_each_message_decides(registry: Registry, option: dict[str, str]) -> None:
    fmt = _format(registry, **option, schema=json.dumps(_ENVELOPE))
    with pytest.raises(
        OptionError, match=f"with '{'.*'.join(*option.items())}' values .* leave the option 'schema' out"
    ):
        fmt.decode_batch(pa.nulls(0, pa.binary()), _COLUMNS)


@pytest.mark.schemas({1: '{"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}'})
def test_the_schema_of_a_key_format_does_not_count_beside_debeziums_types(registry: Registry) -> None:
    key = get_format("avro-confluent", {"url": registry.url, "schema": json.dumps(_VALUE)})
    keys = _format(registry, types="debezium").for_key(key)
    assert keys.decode_batch(pa.array([b"\0\0\0\0\1\x0e"]), "id INT").rows.to_pylist() == [[{"id": 7}]]


@pytest.mark.parametrize(("types", "digits"), [("flink", 0), ("debezium", 6)])
def test_a_time_of_day_keeps_its_microseconds_in_spark_with_debeziums_types(
    registry: Registry, types: str, digits: int
) -> None:
    """A CREATE TABLE declares at most three digits, as in Flink."""
    assert _format(registry, types=types).time_digits == digits
    assert get_format("debezium-json", {"types": types}).time_digits == digits


@pytest.mark.parametrize("mark", ["__op", "__deleted", "name"])
def test_a_row_with_a_mark_is_a_row_though_it_has_the_members_of_another_message(registry: Registry, mark: str) -> None:
    """Here those of Debezium's messages about transactions, and the table has no other column."""
    row = {"id": "7", "status": "NEW", "event_count": "5", mark: "false" if mark == "__deleted" else "c"}
    schema = {"type": "record", "name": "Value", "fields": [{"name": name, "type": "string"} for name in row]}
    registry.ids[1] = json.dumps(schema)
    datum = io.BytesIO()
    fastavro.schemaless_writer(datum, fastavro.parse_schema(schema), row)
    for fmt, message in (
        (_format(registry, flattened="true"), b"\0\0\0\0\1" + datum.getvalue()),
        (get_format("debezium-json", {"flattened": "true"}), json.dumps(row).encode()),
    ):
        batch = fmt.decode_batch(pa.array([message]), "id STRING")
        assert batch.rows.to_pylist() == [None if mark == "name" else [{"id": "7"}]], fmt.identifier


def test_a_null_deletes_the_row_of_its_key_among_rows_without_an_envelope(registry: Registry) -> None:
    options = {"connector": "kafka", "key.format": "json", "key.fields": "id", "value.format": _NAME}
    options |= {f"value.{_NAME}.url": registry.url, f"value.{_NAME}.flattened": "true"}
    kv = KeyValueFormat(_COLUMNS, options, primary_key=["id"])
    batch = kv.decode_batch(pa.array([b'{"id":7}']), pa.array([None], pa.binary()))
    assert batch.row_kinds.to_pylist() == ["-D"]
    assert batch.rows.to_pylist() == [[{"id": 7, "name": None}]]


def test_an_update_without_its_new_row_gives_no_row_to_a_reader_of_all_rows(registry: Registry) -> None:
    messages = [_event("u", before=_PEN), _event("c", after=_INK)]
    batch = _format(registry).decode_batch(pa.array(messages), _COLUMNS)
    assert batch.row_kinds.to_pylist() == ["+I"]
    assert batch.rows.values.to_pylist() == [_INK]


@pytest.mark.parametrize(
    ("option", "known"), [({}, True), ({"types": "debezium"}, False), ({"schema": json.dumps(_ENVELOPE)}, False)]
)
def test_columns_are_told_by_the_schemas_of_messages_if_these_alone_decide_how_values_are_read(
    registry: Registry, option: dict[str, str], known: bool
) -> None:
    written = _format(registry, **option).written_columns(pa.array([_event("c", after=_INK)]))
    assert (written is not None) is known
