"""Unusual messages on topics of change data: each gives a row, no rows, or an error that says what to do.

The messages have the shapes in the documentation of Debezium, Canal, Maxwell and TiCDC.
"""

from __future__ import annotations

import datetime
import io
import json
import pickle
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kvformat.registry import ChangelogMode, DecodedBatch, KeyValueFormat, get_format
from kvformat.registry.contract.errors import DebeziumTypesWarning, OptionError
from kvformat.registry.contract.look import LookRequest
from kvformat.registry.table.decode_records import decode_records
from tests.support.registry_server import Registry

_COLUMNS = "id INT, name STRING"


def decoded(format: str, message: Any, columns: str = _COLUMNS, **options: str) -> DecodedBatch:
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return get_format(format, options).decode_batch(pa.array([data]), columns)


def rows_of(batch: DecodedBatch) -> list[tuple[str, Any]]:
    """Return the rows of the only message, with their kinds."""
    assert batch.errors is None, batch.errors
    kinds = ["+I"] * len(batch.rows.values) if batch.row_kinds is None else batch.row_kinds.to_pylist()
    return list(zip(kinds, batch.rows.to_pylist()[0], strict=True))


def error_of(batch: DecodedBatch) -> str:
    assert batch.errors is not None, batch.rows
    assert batch.rows.to_pylist() == [None]
    text: str = batch.errors[0].as_py()
    return text


# --- messages that do not change a row ---------------------------------------------------------------------

_SOURCE = {"version": "2.7.4.Final", "connector": "postgresql", "name": "shop", "db": "shop", "table": "goods"}
_CANAL: dict[str, Any] = {"id": 3, "database": "shop", "table": "goods", "es": 1, "ts": 2, "data": None, "old": None}
_CANAL |= {"isDdl": True, "mysqlType": None, "sqlType": None, "pkNames": None}
_DEFINITION = {"database": "shop", "table": "goods", "columns": [{"type": "int", "name": "id"}], "id": "no number"}

# format, message, words of the error, and whether the table has lost its rows
OTHERS: list[tuple[str, Any, str, bool]] = [
    ("debezium-json", {"before": None, "after": None, "source": _SOURCE, "op": "t", "ts_ms": 5}, "a TRUNCATE", True),
    (
        "debezium-json",
        {"op": "m", "ts_ms": 5, "source": _SOURCE, "message": {"prefix": "audit", "content": "aGk="}},
        "a logical decoding message",
        False,
    ),
    ("debezium-json", {"ts_ms": 1_718_000_000_000}, "a heartbeat", False),
    ("debezium-json", {"ts_ms": 5, "ts_us": 5_000, "ts_ns": 5_000_000}, "a heartbeat", False),
    (
        "debezium-json",
        {"status": "BEGIN", "id": "571:53195829", "event_count": None, "data_collections": None, "ts_ms": 5},
        "the start or end of a transaction",
        False,
    ),
    (
        "debezium-json",
        {
            "status": "END",
            "id": "571:53195832",
            "event_count": 2,
            "data_collections": [{"data_collection": "public.goods", "event_count": 2}],
            "ts_ms": 6,
        },
        "the start or end of a transaction",
        False,
    ),
    (
        "debezium-json",
        {
            "source": _SOURCE,
            "ts_ms": 5,
            "databaseName": "shop",
            "schemaName": None,
            "ddl": "ALTER TABLE goods ADD COLUMN size INT",
            "tableChanges": [{"type": "ALTER", "id": '"shop"."goods"', "table": {"columns": []}}],
        },
        "a schema change",
        False,
    ),
    *(  # TiCDC's `EncodeDDLEvent` has no table changes for a TRUNCATE
        (
            "debezium-json",
            {"source": _SOURCE, "ts_ms": 5, "databaseName": "shop", "schemaName": None, "ddl": ddl, "tableChanges": []},
            "a DROP or TRUNCATE",
            True,
        )
        for ddl in (
            "TRUNCATE TABLE `goods`",
            "truncate goods",
            "  /* from the\n app */ DROP TABLE IF EXISTS goods",
            "-- old\ndrop  database shop",
        )
    ),
    *(
        (
            "debezium-json",
            {"source": _SOURCE, "ts_ms": 5, "databaseName": "shop", "schemaName": None, "ddl": ddl, "tableChanges": []},
            "a schema change",
            False,
        )
        for ddl in (
            "ALTER TABLE goods DROP COLUMN size",
            "DROP INDEX i ON goods",
            "CREATE TABLE dropped (id INT)",
            None,
            7,
        )
    ),
    *(
        ("canal-json", {**_CANAL, "type": type, "sql": f"{type} ..."}, "a statement", False)
        for type in ("ALTER", "RENAME", "CINDEX", "DINDEX", "QUERY")
    ),
    ("canal-json", {**_CANAL, "type": "TRUNCATE", "sql": "TRUNCATE TABLE goods"}, "a TRUNCATE", True),
    ("canal-json", {**_CANAL, "type": "ERASE", "sql": "DROP TABLE goods"}, "a DROP", True),
    *(  # the rest of `EventType` in Canal's EntryProtocol.proto
        ("canal-json", {**_CANAL, "type": type, "isDdl": False}, words, False)
        for type, words in [
            *((mark, "a transaction mark") for mark in ("GTID", "XACOMMIT", "XAROLLBACK")),
            ("MHEARTBEAT", "a heartbeat"),
        ]
    ),
    (
        "canal-json",
        {**_CANAL, "isDdl": False, "type": "TIDB_WATERMARK", "_tidb": {"watermarkTs": 429918007904436226}},
        "a watermark of TiCDC",
        False,
    ),
    *(
        (
            "maxwell-json",
            {"database": "shop", "table": "goods", "type": type, "ts": 5, "data": {}},
            "the start or end of a bootstrap",
            False,
        )
        for type in ("bootstrap-start", "bootstrap-complete")
    ),
    *(
        (
            "maxwell-json",
            {"type": type, "database": "shop", "old": _DEFINITION, "def": _DEFINITION, "ts": 5_000, "sql": "..."},
            "a statement on a",
            False,
        )
        for type in ("table-create", "table-alter", "database-create", "database-alter")
    ),
    ("maxwell-json", {"type": "table-drop", "database": "shop", "table": "goods", "ts": 5}, "a DROP TABLE", True),
    ("maxwell-json", {"type": "database-drop", "database": "shop", "ts": 5}, "a DROP DATABASE", True),
    (
        "ogg-json",
        {"table": "SHOP.GOODS", "op_type": "T", "op_ts": "2020-05-13 15:40:06.1", "current_ts": "x", "pos": "1"},
        "a TRUNCATE",
        True,
    ),
]
_IDS = [f"{format} {message.get('type', message.get('op', next(iter(message))))}" for format, message, _, _ in OTHERS]


@pytest.mark.parametrize(("format", "message", "words", "empties"), OTHERS, ids=_IDS)
def test_a_message_that_does_not_change_a_row_is_an_error_or_is_skipped(
    format: str, message: dict[str, Any], words: str, empties: bool
) -> None:
    remedy = "'skip-all' to keep the rows it had" if empties else "'skip' to skip such messages"
    error = error_of(decoded(format, message))
    assert f". The message is {words}" in error
    assert error.endswith(f"set 'other-messages' to {remedy}")
    if empties:
        assert error_of(decoded(format, message, **{"other-messages": "skip"})).endswith(error[-100:])
    else:
        assert rows_of(decoded(format, message, **{"other-messages": "skip"})) == []
    assert rows_of(decoded(format, message, **{"other-messages": "skip-all"})) == []
    assert rows_of(decoded(format, message, **{"ignore-parse-errors": "true"})) == []


@pytest.mark.parametrize(
    "message", [message for format, message, _, empties in OTHERS if format == "debezium-json" and not empties]
)
@pytest.mark.parametrize("types", [{}, {"types": "debezium"}])
def test_a_wrapped_message_without_a_row_is_an_error_or_skipped(message: dict[str, Any], types: dict[str, str]) -> None:
    wrapped = {"schema": {"type": "struct", "fields": [], "optional": False}, "payload": message}
    options = {"schema-include": "true"} | types
    assert "set 'other-messages' to 'skip'" in error_of(decoded("debezium-json", wrapped, **options))
    assert rows_of(decoded("debezium-json", wrapped, **options, **{"other-messages": "skip"})) == []


@pytest.mark.parametrize("setting", ["error", "skip", "skip-all"])
@pytest.mark.parametrize(
    ("format", "message"),
    [
        ("debezium-json", {"after": {"id": 1}, "op": "T"}),
        ("debezium-json", {"after": {"id": 1}, "ts_ms": 5}),
        ("debezium-json", {"ts_ms": 5, "id": 1}),
        ("debezium-json", {}),
        ("canal-json", {"data": [{"id": 1}], "type": "alter"}),
        ("maxwell-json", {"data": {"id": 1}, "type": "INSERT"}),
        ("ogg-json", {"after": {"id": 1}, "op_type": "t"}),
    ],
)
def test_an_unknown_message_stays_an_error_with_every_setting(format: str, message: Any, setting: str) -> None:
    assert "must be one of" in (error := error_of(decoded(format, message, **{"other-messages": setting}))) or (
        "unknown value" in error
    )


def test_maxwells_bootstrap_insert_is_a_row_unless_other_messages_are_errors() -> None:
    message = {"database": "shop", "table": "goods", "type": "bootstrap-insert", "ts": 5, "data": {"id": 7}}
    assert "Flink does not read: set 'other-messages' to 'skip'" in error_of(decoded("maxwell-json", message))
    assert rows_of(decoded("maxwell-json", message, **{"ignore-parse-errors": "true"})) == []
    for setting in ("skip", "skip-all"):
        found = rows_of(decoded("maxwell-json", message, **{"other-messages": setting}))
        assert found == [("+I", {"id": 7, "name": None})]
    incomplete = error_of(decoded("maxwell-json", {**message, "data": None}, **{"other-messages": "skip"}))
    assert incomplete == "field 'data': is missing or null, but an insert needs it"


def test_canals_filters_skip_a_message_before_its_type_is_checked() -> None:
    message = {**_CANAL, "type": "TRUNCATE"}
    assert rows_of(decoded("canal-json", message, **{"other-messages": "skip", "table.include": "orders"})) == []


@pytest.mark.parametrize("format", ["debezium-json", "canal-json", "maxwell-json", "ogg-json"])
def test_skipped_messages_do_not_change_the_rows_of_other_messages(format: str) -> None:
    fmt = get_format(format, {"other-messages": "skip-all"})
    rows = pa.array([{"id": n, "name": "n"} for n in range(50)], pa.struct({"id": pa.int32(), "name": pa.string()}))
    good = fmt.encode_batch(rows, _COLUMNS).messages.to_pylist()
    others = [json.dumps(message).encode() for of, message, _, _ in OTHERS if of == format]
    mixed = [message for n, one in enumerate(good) for message in (one, others[n % len(others)])]
    batch = fmt.decode_batch(pa.array(mixed), _COLUMNS)
    assert batch.errors is None
    assert batch.rows.value_lengths().to_pylist() == [1, 0] * 50
    assert batch.rows.values.to_pylist() == rows.to_pylist()


@pytest.mark.parametrize(("format", "message", "words", "empties"), OTHERS, ids=_IDS)
def test_a_skipped_message_has_the_code_skipped(format: str, message: Any, words: str, empties: bool) -> None:
    kv = KeyValueFormat(_COLUMNS, {"format": format, f"{format}.other-messages": "skip-all"})
    values = pa.array([json.dumps(message).encode()])
    found = decode_records(kv._plan("decode").layout, None, values, capture=True)
    assert found.codes is not None
    assert found.codes.to_pylist() == ["SKIPPED"]


def _record(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    listed = [{"name": field, "type": type, "default": None} for field, type in fields.items()]
    return {"type": "record", "name": name, "namespace": "io.debezium.connector.common", "fields": listed}


_LONG, _TEXT = ["null", "long"], ["null", "string"]
_IMAGE = _record("Value", {"id": ["null", "int"], "name": _TEXT})
AVRO: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    (_record("Heartbeat", {"ts_ms": _LONG}), {"ts_ms": 5}, False),
    (
        _record("TransactionMetadataValue", {"status": _TEXT, "id": _TEXT, "event_count": _LONG, "ts_ms": _LONG}),
        {"status": "BEGIN", "id": "571"},
        False,
    ),
    (
        _record("SchemaChangeValue", {"ts_ms": _LONG, "databaseName": _TEXT, "schemaName": _TEXT, "ddl": _TEXT}),
        {"databaseName": "shop", "ddl": "DROP TABLE goods"},
        False,
    ),
    (_record("Envelope", {"before": ["null", _IMAGE], "op": _TEXT}), {"op": "m"}, False),
    (_record("Envelope", {"before": ["null", _IMAGE], "op": _TEXT}), {"op": "t"}, True),
]


_GOOD = _record("Envelope", {"before": ["null", _IMAGE], "after": ["null", "Value"], "op": _TEXT})
pytestmark = pytest.mark.schemas(
    {1: json.dumps(_GOOD)} | {2 + n: json.dumps(schema) for n, (schema, _, _) in enumerate(AVRO)}
)


def _datum(registry: Registry, number: int, value: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(registry.ids[number])), value)
    return b"\0" + number.to_bytes(4, "big") + stream.getvalue()


@pytest.mark.parametrize("types", ["flink", "debezium"])
def test_an_avro_message_that_does_not_change_a_row_is_an_error_or_is_skipped(registry: Registry, types: str) -> None:
    good = _datum(registry, 1, {"after": {"id": 7, "name": "n"}, "op": "c"})
    others = [_datum(registry, 2 + n, value) for n, (_, value, _) in enumerate(AVRO)]
    messages = pa.array([good, *others, good, None, b""])
    empties = [empties for _, _, empties in AVRO]

    def errors(setting: str) -> list[bool]:
        options = {"url": registry.url, "types": types, "other-messages": setting}
        batch = get_format("debezium-avro-confluent", options).decode_batch(messages, _COLUMNS)
        batch.rows.validate(full=True)
        assert batch.rows.values.to_pylist() == [{"id": 7, "name": "n"}] * 2
        texts = [None] * len(messages) if batch.errors is None else batch.errors.to_pylist()
        assert all(text is None or "set 'other-messages' to 'skip" in text for text in texts)
        lengths = [None if text else 0 for text in texts[1:-3]]
        assert batch.rows.value_lengths().to_pylist() == [1, *lengths, 1, None, 0]
        return [text is not None for text in texts[1:-3]]

    assert errors("error") == [True] * len(others)
    assert errors("skip") == empties
    assert errors("skip-all") == [False] * len(others)


# --- flattened messages: ExtractNewRecordState -------------------------------------------------------------

_PEN = {"id": 7, "name": "pen"}
FLAT: list[tuple[dict[str, Any], str]] = [
    (_PEN, "+U"),
    ({**_PEN, "__op": "c"}, "+I"),
    ({**_PEN, "__op": "r", "__table": "goods", "__lsn": 33842736}, "+I"),
    ({**_PEN, "__op": "u", "__source_ts_ms": 1_718_000_000_000}, "+U"),
    ({**_PEN, "__op": "d"}, "-D"),
    ({**_PEN, "__deleted": "false"}, "+U"),
    ({**_PEN, "__deleted": "true"}, "-D"),
    ({**_PEN, "__deleted": True, "__op": "d"}, "-D"),
    ({**_PEN, "__deleted": False, "__op": "c"}, "+I"),
    ({"__deleted": "true", "__op": "u", **_PEN}, "-D"),
    ({**_PEN, "__op": None, "__deleted": None}, "+U"),
    ({**_PEN, "status": "BEGIN", "event_count": 5}, "+U"),
    ({**_PEN, "ts_ms": 5, "op": "sold"}, "+U"),
    ({**_PEN, "op": "sold", "after": 5, "__op": None, "__deleted": "false"}, "+U"),
]
_FLAT = {"flattened": "true"}


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(("row", "kind"), FLAT)
def test_a_flattened_message_is_a_row_of_the_right_kind(row: dict[str, Any], kind: str, wrapped: bool) -> None:
    message = {"schema": None, "payload": row} if wrapped else row
    options = _FLAT | ({"schema-include": "true"} if wrapped else {})
    assert rows_of(decoded("debezium-json", message, **options)) == [(kind, _PEN)]
    assert rows_of(decoded("debezium-json", json.dumps([message]).encode(), **options)) == [(kind, _PEN)]


NO_ROW: list[tuple[Any, str]] = [
    ({"ts_ms": 5}, "a heartbeat, which does not change a row: set 'other-messages' to 'skip'"),
    ({**_PEN, "__op": "t"}, "a TRUNCATE: the table has lost its rows"),
    ({**_PEN, "__op": "x"}, 'field \'__op\': unknown value "x"; it must be one of "c", "r", "u", "d"'),
    ({"before": None, "after": _PEN, "op": "c"}, "there is 'op': for messages with 'before' and 'after' set"),
    ({"schema": {}, "payload": _PEN}, "there is a payload: set 'schema-include' to true"),
    ({"id": "x"}, "field 'id': cannot read \"x\" as INT"),
    ("x", "expected a JSON object"),
    (b'{"id":7', "not JSON"),
]


@pytest.mark.parametrize(("message", "words"), NO_ROW)
def test_a_message_that_is_not_a_flattened_row_is_an_error(message: Any, words: str) -> None:
    assert words in error_of(decoded("debezium-json", message, **_FLAT))


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    ("message", "words", "empties"),
    [other[1:] for other in OTHERS if other[0] == "debezium-json" and "op" not in other[1]],
)
def test_other_messages_among_flattened_rows_are_errors_or_are_skipped(
    message: dict[str, Any], words: str, empties: bool, wrapped: bool
) -> None:
    whole = {"schema": None, "payload": message} if wrapped else message
    options = _FLAT | ({"schema-include": "true"} if wrapped else {})
    assert f". The message is {words}" in error_of(decoded("debezium-json", whole, "k INT", **options))
    skip = options | {"other-messages": "skip-all" if empties else "skip"}
    assert rows_of(decoded("debezium-json", whole, "k INT", **skip)) == []
    row = {**message, "k": 7}
    whole = {"schema": None, "payload": row} if wrapped else row
    assert rows_of(decoded("debezium-json", whole, "k INT", **options)) == [("+U", {"k": 7})]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("ts_ms BIGINT", {"ts_ms": 5}),
        ("status STRING, id STRING", {"status": "BEGIN", "id": "5", "event_count": None, "ts_ms": 5}),
    ],
)
def test_a_table_with_the_columns_of_another_message_needs_one_more_column_for_a_row(
    registry: Registry, columns: str, message: dict[str, Any]
) -> None:
    batch = decoded("debezium-json", message, columns, **_FLAT, **{"other-messages": "skip"})
    assert rows_of(batch) == []
    fmt = get_format("debezium-avro-confluent", {"url": registry.url, "other-messages": "skip"} | _FLAT)
    datum = _flat_datum(registry, 470, {**message, "id": 5} if "id" in message else message)
    assert rows_of(fmt.decode_batch(pa.array([datum]), columns)) == []


def test_the_error_of_a_flattened_message_names_the_option() -> None:
    for row, _ in FLAT[:8]:
        error = error_of(decoded("debezium-json", row))
        assert "set 'flattened' to true, or read them as plain rows by format json" in error
    assert "flattened" not in error_of(decoded("debezium-json", {"after": {"id": 1}}))


def test_metadata_of_flattened_messages() -> None:
    row = {**_PEN, "__op": "u", "__ts_ms": 6, "__source_ts_ms": 5, "__db": "shop", "__schema": "public", "__table": "t"}
    keys = ["ingestion-timestamp", "source.timestamp", "source.database", "source.schema", "source.table"]
    batch = get_format("debezium-json", _FLAT).decode_batch(
        pa.array([json.dumps(row).encode()]), "__op STRING, id INT", metadata=[*keys, "source.properties"]
    )
    assert batch.errors is None
    (found,) = batch.rows.to_pylist()[0]
    assert [str(value) for value in found.values()] == [
        "u",
        "7",
        "1970-01-01 00:00:00.006000+00:00",
        "1970-01-01 00:00:00.005000+00:00",
        "shop",
        "public",
        "t",
        "None",
    ]


def test_flattened_messages_are_read_by_debeziums_types() -> None:
    block = {
        "type": "struct",
        "name": "shop.public.goods.Value",
        "fields": [
            {"type": "int32", "field": "id"},
            {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "version": 1, "field": "at"},
            {"type": "string", "optional": True, "field": "__deleted"},
        ],
    }
    message = {"schema": block, "payload": {"id": 7, "at": 1_740_998_941_000_001, "__deleted": "true"}}
    options = _FLAT | {"schema-include": "true"}
    columns = "id INT, at TIMESTAMP(6)"
    at = datetime.datetime(2025, 3, 3, 10, 49, 1, 1)
    found = rows_of(decoded("debezium-json", message, columns, **options, types="debezium"))
    assert found == [("-D", {"id": 7, "at": at})]
    error = error_of(decoded("debezium-json", message, columns, **options))
    assert "field 'payload.at': " in error
    assert error.endswith("schema it is io.debezium.time.MicroTimestamp: set 'types' = 'debezium' to read it")
    bare = {"id": 7, "at": 1_740_998_941_000_001}
    modes = _FLAT | {"types": "debezium", "time.precision.mode": "microseconds"}
    assert rows_of(decoded("debezium-json", bare, columns, **modes)) == [("+U", {"id": 7, "at": at})]


@pytest.mark.parametrize(
    ("message", "include", "hint"),
    [
        (b"null", "false", True),
        ({"schema": None, "payload": None}, "true", True),
        ({"schema": None}, "true", True),
        (b"5", "false", False),
        ({"schema": None, "payload": 5}, "true", False),
    ],
)
def test_the_error_of_a_flattened_null_says_who_knows_the_deleted_row(message: Any, include: str, hint: bool) -> None:
    error = error_of(decoded("debezium-json", message, "id INT", **_FLAT, **{"schema-include": include}))
    assert ("If it is a deletion, the record's key says which row was deleted" in error) is hint, error


def test_flattened_messages_are_in_upsert_mode() -> None:
    fmt = get_format("debezium-json", _FLAT)
    assert pickle.loads(pickle.dumps(fmt)).changelog_mode is fmt.changelog_mode is ChangelogMode.UPSERT
    assert get_format("debezium-json").changelog_mode is ChangelogMode.ALL
    with pytest.raises(OptionError, match="'flattened' = 'true' is for reading only"):
        fmt.encode_batch(pa.array([_PEN]), "id BIGINT, name STRING")
    options = {"format": "debezium-json", "debezium-json.flattened": "true"}
    assert KeyValueFormat(_COLUMNS, options, primary_key=["id"]).changelog_mode is ChangelogMode.UPSERT


@pytest.mark.parametrize("types", ["flink", "debezium"])
def test_columns_of_flattened_messages_may_have_the_names_of_an_envelope(registry: Registry, types: str) -> None:
    row = {"op": "x", "before": 1, "after": 2, "payload": "p", "schema": "s", "id": 7}
    columns = "op STRING, `before` BIGINT, `after` BIGINT, payload STRING, `schema` STRING, id INT"
    batch = decoded("debezium-json", row, columns, **_FLAT, types=types)
    assert rows_of(batch) == [("+U", row)]
    wrapped = {"schema": None, "payload": {**_PEN, "payload": "p", "schema": "s"}}
    options = _FLAT | {"schema-include": "true"}
    if types == "flink":
        assert rows_of(decoded("debezium-json", wrapped, **options)) == [("+U", _PEN)]
    error = error_of(decoded("debezium-json", row, "id INT", **_FLAT, types=types))
    assert "for messages with 'before' and 'after' set 'flattened' to false" in error
    datum = _flat_datum(registry, 480, row)
    fmt = get_format("debezium-avro-confluent", {"url": registry.url, "types": types} | _FLAT)
    assert rows_of(fmt.decode_batch(pa.array([datum]), columns)) == [("+U", row)]
    assert "for messages with" in error_of(fmt.decode_batch(pa.array([datum]), "id INT"))


def test_a_tombstone_of_a_flattened_table_deletes_by_the_key() -> None:
    options = {
        "connector": "upsert-kafka",
        "key.format": "json",
        "value.format": "debezium-json",
        "value.debezium-json.flattened": "true",
    }
    layout = KeyValueFormat(_COLUMNS, options, primary_key=["id"])._plan("decode").layout
    values = [{**_PEN, "__op": "c"}, None, {**_PEN, "__deleted": "true"}, {**_PEN, "__op": "?"}, {**_PEN, "id": 8}]
    messages = [None if value is None else json.dumps(value).encode() for value in values]
    keys = [b'{"id":7}'] * 4 + [b'{"id":8}']
    found = decode_records(layout, pa.array(keys), pa.array(messages), capture=True)
    kinds: Any = found.kinds
    assert kinds.to_pylist() == ["+U", "-D", "-D", None, "+U"]
    assert found.columns[0].to_pylist() == [7, 7, 7, None, 8]
    assert found.columns[1].to_pylist() == ["pen", None, "pen", None, "pen"]
    found = decode_records(layout, pa.array(keys[:2]), pa.array([messages[0], messages[2]]))
    kinds = found.kinds
    assert kinds.to_pylist() == ["+U", "-D"]
    whole = {key: text for key, text in options.items() if "flattened" not in key}
    with pytest.raises(OptionError, match="'debezium-json' is not in insert-only mode"):
        KeyValueFormat(_COLUMNS, whole, primary_key=["id"])._plan("decode")


# --- MongoDB -----------------------------------------------------------------------------------------------

_MONGODB = {"connector": "mongodb", "db": "shop", "collection": "goods"}
MONGODB: list[dict[str, Any]] = [
    {"after": '{"_id":{"$numberLong":"7"},"name":"pen"}', "source": _MONGODB, "op": "c", "ts_ms": 5},
    {"after": '{"_id":{"$numberLong":"7"}}', "source": _MONGODB, "op": "r", "ts_ms": 5, "updateDescription": None},
    {
        "before": None,
        "after": None,
        "updateDescription": {"removedFields": None, "updatedFields": '{"name":"ink"}', "truncatedArrays": None},
        "source": _MONGODB,
        "op": "u",
    },
    {"after": None, "patch": '{"$set":{"name":"ink"}}', "filter": '{"_id":7}', "source": _MONGODB, "op": "u"},
    {"before": None, "after": None, "source": _MONGODB, "op": "d"},
]


@pytest.mark.parametrize("message", MONGODB)
@pytest.mark.parametrize("options", [{}, {"types": "debezium"}, {"schema-include": "true"}])
def test_the_error_of_a_mongodb_document_says_what_to_do(message: dict[str, Any], options: dict[str, str]) -> None:
    wrapped = {"schema": None, "payload": message} if "schema-include" in options else message
    for one in (wrapped, [wrapped]):
        error = error_of(decoded("debezium-json", one, **options))
        assert "The message comes from MongoDB, whose documents are texts" in error
        assert "ExtractNewDocumentState) and set 'flattened' to true" in error
        assert "Postgres" not in error


def test_both_remedies_for_mongodb_documents_work() -> None:
    flat = {"_id": "66f0", "name": "pen", "__deleted": False}
    assert rows_of(decoded("debezium-json", flat, "_id STRING, name STRING", **_FLAT)) == [
        ("+U", {"_id": "66f0", "name": "pen"})
    ]
    plain = decoded("json", MONGODB[0], "op STRING, after STRING, source ROW<collection STRING>")
    assert plain.rows.to_pylist() == [[{"op": "c", "after": MONGODB[0]["after"], "source": {"collection": "goods"}}]]


def _source_of(connector: str) -> dict[str, Any]:
    """Return the schema of `source`. MongoDB's has another name than its connector (`MongoDbSourceInfoStructMaker`)."""
    name = f"io.debezium.connector.{connector}"
    return {"type": "record", "name": "Source", "namespace": name, "fields": [{"name": "db", "type": "string"}]}


@pytest.mark.parametrize("options", [{}, {"types": "debezium"}, {"changelog.mode": "upsert"}])
@pytest.mark.parametrize("connector", ["mongo", "postgresql"])
def test_the_error_of_a_mongodb_document_in_avro_says_what_to_do(
    registry: Registry, connector: str, options: dict[str, str]
) -> None:
    image = _TEXT if connector == "mongo" else ["null", _IMAGE]
    envelope = _record("Envelope", {"before": image, "op": _TEXT, "source": ["null", _source_of(connector)]})
    envelope["fields"].insert(1, {"name": "after", "type": _TEXT if connector == "mongo" else ["null", "Value"]})
    number = 101 if connector == "mongo" else 102
    registry.ids[number] = json.dumps(envelope)
    source = {"db": "shop"}
    bad = [{"before": None, "after": None, "op": op, "source": source} for op in "crud"]
    bad += [{"after": '{"_id": 7}', "op": "c", "source": source}] if connector == "mongo" else []
    messages = pa.array([_datum(registry, number, value) for value in bad] + [b"\0\0\0\0" + bytes([number])])
    fmt = get_format("debezium-avro-confluent", {"url": registry.url} | options)
    texts = fmt.decode_batch(messages, _COLUMNS).errors.to_pylist()  # type: ignore[union-attr]
    for_mongodb = ["ExtractNewDocumentState) and set 'flattened' to true" in text for text in texts]
    assert for_mongodb == [connector == "mongo"] * len(texts)
    assert not any("Postgres" in text for text, found in zip(texts, for_mongodb, strict=True) if found)
    good = _datum(registry, 1, {"after": {"id": 7, "name": "n"}, "op": "c"})
    mixed = fmt.decode_batch(pa.array([good, messages[0].as_py(), _datum(registry, 1, {"op": "c"})]), _COLUMNS)
    assert mixed.rows.value_lengths().to_pylist() == [1, None, None]
    hints = [error and "ExtractNewDocumentState" in error for error in mixed.errors.to_pylist()]  # type: ignore[union-attr]
    assert hints == [None, connector == "mongo", False]


# --- flattened messages in Avro ----------------------------------------------------------------------------

_OF_TYPE = {bool: "boolean", str: "string", int: "long", type(None): "string"}


def _flat_datum(registry: Registry, number: int, row: dict[str, Any]) -> bytes:
    """Register a schema for a row, and return the row in Avro."""
    types = {name: ["null", "int" if name == "id" else _OF_TYPE[type(value)]] for name, value in row.items()}
    registry.ids[number] = json.dumps(_record("Value", types))
    return _datum(registry, number, row)


@pytest.mark.parametrize("types", ["flink", "debezium"])
def test_a_flattened_message_in_avro_is_a_row_of_the_right_kind(registry: Registry, types: str) -> None:
    messages: list[bytes | None] = [_flat_datum(registry, 200 + n, row) for n, (row, _) in enumerate(FLAT)]
    options = {"url": registry.url, "types": types} | _FLAT
    fmt = get_format("debezium-avro-confluent", options)
    batch = fmt.decode_batch(pa.array([None, *messages, b"", *messages[::-1]]), _COLUMNS)
    assert batch.errors is None, batch.errors
    kinds = [kind for _, kind in FLAT]
    assert batch.row_kinds.to_pylist() == kinds + kinds[::-1]  # type: ignore[union-attr]
    assert batch.rows.to_pylist() == [None, *[[_PEN]] * len(FLAT), [], *[[_PEN]] * len(FLAT)]
    own = fmt.decode_batch(pa.array(messages), f"{_COLUMNS}, __op STRING, __table STRING")
    assert own.row_kinds.to_pylist() == kinds  # type: ignore[union-attr]
    assert [row[0]["__op"] for row in own.rows.to_pylist()] == [row.get("__op") for row, _ in FLAT]


NO_ROW_IN_AVRO: list[tuple[dict[str, Any], str]] = [
    ({**_PEN, "__op": "t"}, "a TRUNCATE: the table has lost its rows"),
    ({**_PEN, "__op": "x"}, '\'__op\': unknown value \'x\'; it must be one of "c", "r", "u", "d"'),
    ({"ts_ms": 5}, "a heartbeat, which does not change a row: set 'other-messages' to 'skip'"),
]


@pytest.mark.parametrize("types", ["flink", "debezium"])
def test_an_avro_message_that_is_not_a_flattened_row_is_an_error(registry: Registry, types: str) -> None:
    good = _flat_datum(registry, 299, _PEN)
    bad = [_flat_datum(registry, 300 + n, row) for n, (row, _) in enumerate(NO_ROW_IN_AVRO)]
    whole = _datum(registry, 1, {"after": _PEN, "op": "c"})
    messages = pa.array([good, *bad, whole, b"\0\0\0\x7f\x7f\0", good])
    options = {"url": registry.url, "types": types} | _FLAT
    batch = get_format("debezium-avro-confluent", options).decode_batch(messages, _COLUMNS)
    batch.rows.validate(full=True)
    assert batch.rows.value_lengths().to_pylist() == [1, *[None] * (len(bad) + 2), 1]
    texts = batch.errors.to_pylist()  # type: ignore[union-attr]
    words = [*(words for _, words in NO_ROW_IN_AVRO), "for messages with 'before' and 'after'", "Could not find"]
    assert [word in text for word, text in zip(words, texts[1:-1], strict=True)] == [True] * len(words)
    codes = batch.codes.to_pylist()  # type: ignore[union-attr]
    assert codes[1:-1] == ["UNKNOWN_OPERATION"] * 2 + ["MISSING_FIELD"] * 2 + ["UNKNOWN_SCHEMA"]
    lengths = {"skip": [1, None, None, 0, None, None, 1], "skip-all": [1, 0, None, 0, None, None, 1]}
    for setting, expected in lengths.items():
        fmt = get_format("debezium-avro-confluent", options | {"other-messages": setting})
        assert fmt.decode_batch(messages, _COLUMNS).rows.value_lengths().to_pylist() == expected


def test_flattened_messages_in_avro_are_read_by_debeziums_types(registry: Registry) -> None:
    micros = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp", "connect.version": 1}
    registry.ids[400] = json.dumps(
        _record("Value", {"id": ["null", "int"], "at": ["null", micros], "__deleted": _TEXT})
    )
    row = {"id": 7, "at": 1_740_998_941_000_001, "__deleted": "true"}
    message = _datum(registry, 400, row)
    options = {"url": registry.url, "types": "debezium"} | _FLAT
    batch = get_format("debezium-avro-confluent", options).decode_batch(pa.array([message]), "id INT, at TIMESTAMP(6)")
    assert rows_of(batch) == [("-D", {"id": 7, "at": datetime.datetime(2025, 3, 3, 10, 49, 1, 1)})]
    options = {"url": registry.url} | _FLAT
    with pytest.warns(DebeziumTypesWarning, match="column 'at' .* Set 'types' = 'debezium'"):
        get_format("debezium-avro-confluent", options).decode_batch(pa.array([message]), "id INT, at TIMESTAMP(3)")


def test_flattened_messages_in_avro_are_in_upsert_mode(registry: Registry) -> None:
    fmt = get_format("debezium-avro-confluent", {"url": registry.url, "subject": "s"} | _FLAT)
    assert pickle.loads(pickle.dumps(fmt)).changelog_mode is fmt.changelog_mode is ChangelogMode.UPSERT
    with pytest.raises(OptionError, match=r"for reading only\. Rows without an envelope are written by format avro"):
        fmt.encode_batch(pa.array([_PEN]), "id BIGINT, name STRING")
    given = get_format("debezium-avro-confluent", {"url": registry.url, "schema": '"string"'} | _FLAT)
    with pytest.raises(OptionError, match=r"with 'flattened' = 'true' .* leave the option 'schema' out"):
        given.decode_batch(pa.nulls(0, pa.binary()), _COLUMNS)
    assert fmt.decode_batch(pa.nulls(0, pa.binary()), _COLUMNS).rows.to_pylist() == []
    options = {
        "connector": "upsert-kafka",
        "key.format": "json",
        "value.format": "debezium-avro-confluent",
        "value.debezium-avro-confluent.url": registry.url,
        "value.debezium-avro-confluent.flattened": "true",
    }
    layout = KeyValueFormat(_COLUMNS, options, primary_key=["id"])._plan("decode").layout
    deleted = _flat_datum(registry, 500, {**_PEN, "__deleted": "true"})
    found = decode_records(
        layout, pa.array([b'{"id":7}'] * 3), pa.array([_flat_datum(registry, 501, _PEN), None, deleted])
    )
    assert found.kinds.to_pylist() == ["+U", "-D", "-D"]  # type: ignore[union-attr]
    assert found.columns[1].to_pylist() == ["pen", None, "pen"]


def test_the_error_of_a_flattened_message_in_avro_names_the_option(registry: Registry) -> None:
    message = pa.array([_flat_datum(registry, 600, {**_PEN, "__deleted": "true"})])
    for types in ("flink", "debezium"):
        fmt = get_format("debezium-avro-confluent", {"url": registry.url, "types": types})
        error = error_of(fmt.decode_batch(message, _COLUMNS))
        assert "ExtractNewRecordState), set 'flattened' to true, or read them as plain rows by format avro-c" in error
    columns = f"{_COLUMNS}, __deleted STRING"
    plain = get_format("avro-confluent", {"url": registry.url}).decode_batch(message, columns)
    assert plain.rows.to_pylist() == [[{**_PEN, "__deleted": "true"}]]


_ROW, _TEXTS = {"id": 1, "n": "a"}, {"id": "1", "n": "a"}
_DELETIONS = {
    "canal-json": [
        {"type": "DELETE", "data": None, "old": [_TEXTS]},
        {"type": "DELETE", "old": [_TEXTS]},
        {"type": "DELETE", "data": [], "old": [_TEXTS]},
        {"old": [_TEXTS], "data": None, "database": None, "type": "DELETE"},
        {"type": "DELETE", "data": [_TEXTS], "old": [{"id": "2", "n": "b"}]},
    ],
    "maxwell-json": [
        {"type": "delete", "old": _ROW},
        {"type": "delete", "data": None, "old": _ROW},
        {"type": "delete", "data": {}, "old": _ROW},
        {"old": _ROW, "type": "delete", "data": { }},
        {"type": "delete", "data": _ROW, "old": {"id": 2}},
    ],
}  # fmt: skip


@pytest.mark.parametrize("mode", ["all", "upsert"])
@pytest.mark.parametrize("format", _DELETIONS)
def test_the_row_of_a_deletion_may_be_among_the_old_values(format: str, mode: str) -> None:
    """TiCDC writes Maxwell's deletions so, and early versions of Flink CDC those of Canal."""
    messages = [json.dumps(message).encode() for message in _DELETIONS[format]]
    found = get_format(format, {"changelog.mode": mode})
    batch = found.decode_batch(pa.array(messages), "id INT, n STRING")
    assert batch.errors is None
    assert batch.rows.to_pylist() == [[_ROW]] * len(messages)
    assert batch.row_kinds.to_pylist() == ["-D"] * len(messages)
    looked = found.looker(LookRequest()).look(
        pa.array([json.dumps({"database": "d", "table": "t"} | m).encode() for m in _DELETIONS[format][:3]]),
        pa.array(["t"] * 3),
    )
    assert [column.name for column in looked.columns] == ["id", "n"]


@pytest.mark.parametrize("format", _DELETIONS)
def test_a_deletion_without_any_row_needs_the_key_of_its_record(format: str) -> None:
    kind = "DELETE" if format == "canal-json" else "delete"
    messages = [{"type": kind}, {"type": kind, "data": None, "old": None}]
    messages += [{"type": kind, "old": []}, {"type": kind, "data": None, "old": {}}]
    values = pa.array([json.dumps(message).encode() for message in messages])
    plain = get_format(format, {"changelog.mode": "upsert"}).decode_batch(values, "id INT, n STRING")
    assert plain.errors is not None
    assert all("takes the row to delete from the key of the record" in error for error in plain.errors.to_pylist())
    options = {"connector": "kafka", "key.format": "json", "key.fields": "id", "value.format": format}
    keyed = KeyValueFormat(
        "id INT, n STRING", {**options, f"value.{format}.changelog.mode": "upsert"}, primary_key=["id"]
    )
    batch = keyed.decode_batch(pa.array([b'{"id":1}'] * len(messages)), values)
    assert batch.errors is None
    assert batch.rows.to_pylist() == [[{"id": 1, "n": None}]] * len(messages)
    assert {*batch.row_kinds.to_pylist()} == {"-D"}


@pytest.mark.parametrize(
    ("format", "message", "path"),
    [
        ("canal-json", {"type": "DELETE", "data": None, "old": [{"id": "1"}, {"id": "x"}]}, "old[1].id"),
        ("maxwell-json", {"type": "delete", "old": {"id": "x"}}, "old.id"),
        ("maxwell-json", {"type": "delete", "data": {"id": "x"}, "old": {"id": 1}}, "data.id"),
        ("maxwell-json", {"type": "delete", "data": {"id": 1}, "old": {"id": "x"}}, "old.id"),
    ],
)
def test_an_error_of_a_deletion_names_the_member_of_its_row(format: str, message: dict[str, Any], path: str) -> None:
    batch = get_format(format, {}).decode_batch(pa.array([json.dumps(message).encode()]), "id INT, n STRING")
    assert batch.errors is not None
    assert batch.errors.to_pylist()[0].startswith(f"field '{path}': ")
