"""Values that are JSON null: deletions, in tables that change rows by key.

Connect's `JsonConverter` writes a null value that has a schema as `null`, or as `{"schema": ..., "payload": null}` with
schemas in the messages; ExtractNewRecordState leaves such values for deletions.
"""

from __future__ import annotations

import datetime as dt
import json
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry import KeyValueFormat, get_format
from kvformat.registry.table.decode_records import DecodedRecords, decode_records

_COLUMNS = "id INT, name STRING"
_PEN = b'{"id":7,"name":"pen"}'
_BLOCK = {
    "type": "struct",
    "fields": [{"type": "int32", "field": "id"}, {"type": "string", "optional": True, "field": "name"}],
}
_KEY_BLOCK = {"type": "struct", "fields": _BLOCK["fields"][:1]}


def wrapped(payload: Any, block: Any = _BLOCK) -> bytes:
    return json.dumps({"schema": block, "payload": payload}).encode()


def upserts(value: str, **options: str) -> KeyValueFormat:
    given = {"connector": "upsert-kafka", "key.format": "json", "value.format": value}
    return KeyValueFormat(_COLUMNS, given | {f"value.{value}.{k}": v for k, v in options.items()}, primary_key=["id"])


def by_key(**options: str) -> KeyValueFormat:
    """A table of the connector kafka that reads the keys of its records."""
    given = {
        "key.format": "json",
        "key.fields": "id",
        "value.format": "debezium-json",
        "value.debezium-json.flattened": "true",
    }
    return KeyValueFormat(
        _COLUMNS, given | {f"value.debezium-json.{k}": v for k, v in options.items()}, primary_key=["id"]
    )


def changes(kv: KeyValueFormat, *values: bytes | None, key: bytes = b'{"id":7}') -> list[tuple[Any, ...]]:
    batch = kv.decode_batch(pa.array([key] * len(values)), pa.array(values, pa.binary()))
    assert batch.errors is None, batch.errors
    return kinds_of(batch)


def kinds_of(batch: DecodedRecords) -> list[tuple[Any, ...]]:
    assert batch.row_kinds is not None
    rows = batch.rows.flatten().to_pylist()
    return [(kind, *row.values()) for kind, row in zip(batch.row_kinds.to_pylist(), rows, strict=True)]


_DELETED = [("+U", 7, "pen"), ("-D", 7, None)]


@pytest.mark.parametrize("null", [b"null", b" null\n", None])
@pytest.mark.parametrize(
    "kv",
    [
        upserts("json"),
        upserts("json", **{"ignore-parse-errors": "true"}),
        upserts("json", **{"decode.json-parser.enabled": "false"}),
        upserts("debezium-json", flattened="true"),
        upserts("debezium-json", flattened="true", types="debezium"),
        by_key(),
        by_key(types="debezium"),
    ],
)
def test_null_deletes_the_row_of_its_key(kv: KeyValueFormat, null: bytes | None) -> None:
    assert changes(kv, _PEN, null) == _DELETED
    layout = pickle.loads(pickle.dumps(kv._plan("decode").layout))
    found = decode_records(layout, pa.array([b'{"id":7}'] * 2), pa.array([null, _PEN]), capture=True)
    assert found.reasons is None
    assert found.kinds.to_pylist() == ["-D", "+U"]


@pytest.mark.parametrize("types", ["flink", "debezium"])
@pytest.mark.parametrize("block", [_BLOCK, None])
@pytest.mark.parametrize("make", [lambda **options: upserts("debezium-json", flattened="true", **options), by_key])
def test_a_null_payload_deletes_the_row_of_its_key(make: Any, block: Any, types: str) -> None:
    kv = make(types=types, **{"schema-include": "true"})
    assert changes(kv, wrapped({"id": 7, "name": "pen"}), wrapped(None, block)) == _DELETED
    key = wrapped({"id": 7}, _KEY_BLOCK)
    assert changes(kv, wrapped({"id": 7, "name": "pen"}), wrapped(None, block), None, key=key) == [
        *_DELETED,
        ("-D", 7, None),
    ]


def test_many_deletions_of_other_schemas() -> None:
    kv = upserts("debezium-json", flattened="true", **{"schema-include": "true"})
    values = [wrapped(None, {**_BLOCK, "version": number % 150}) for number in range(300)]
    assert changes(kv, *values) == [("-D", 7, None)] * 300


@pytest.mark.parametrize(
    "value",
    [b"nul", b"null null", b'"null"', b"[null]", b"0", b'{"payload":null}', b'{"schema":{},"payload":{}}', b"{}x"],
)
def test_no_other_message_deletes(value: bytes) -> None:
    for kv in (
        upserts("json"),
        upserts("debezium-json", flattened="true"),
        upserts("debezium-json", flattened="true", **{"schema-include": "true"}),
        by_key(),
    ):
        batch = kv.decode_batch(pa.array([b'{"id":7}']), pa.array([value]))
        assert batch.row_kinds is None or "-D" not in batch.row_kinds.to_pylist()


def test_null_without_a_key_is_an_error() -> None:
    """Without a key, JSON null is an error that says what to do, and a null value gives no rows, as in Flink."""
    options = {"format": "debezium-json", "debezium-json.flattened": "true"}
    kv = KeyValueFormat(_COLUMNS, options, primary_key=["id"])
    batch = kv.decode_batch(None, pa.array([b"null", None, _PEN]))
    assert kinds_of(batch) == [("+U", 7, "pen")]
    (error, *others) = batch.errors.to_pylist()  # type: ignore[union-attr]
    assert others == [None, None]
    assert "read it by the connector 'upsert-kafka'" in error
    wrapping = get_format("debezium-json", {"flattened": "true", "schema-include": "true"})
    errors = wrapping.decode_batch(pa.array([wrapped(None)]), _COLUMNS).errors
    assert "read it by the connector 'upsert-kafka'" in errors[0].as_py()  # type: ignore[index]


def test_complete_changes_do_not_delete_twice() -> None:
    options = {"key.format": "json", "key.fields": "id", "value.format": "debezium-json"}
    options["value.debezium-json.changelog.mode"] = "upsert"
    kv = KeyValueFormat(_COLUMNS, options, primary_key=["id"])
    assert changes(kv, b'{"before":{"id":7},"op":"d"}', None) == [("-D", 7, None)]


# --- keys ----------------------------------------------------------------------------------------------------

_TYPED = "day DATE, price DECIMAL(10, 2), at TIMESTAMP(6), raw BYTES, v INT"
_KEY = {"day": 18_266, "price": "ASw=", "at": 1_577_836_800_000_001, "raw": "00ff"}
_FIELDS = [
    {"type": "int32", "name": "io.debezium.time.Date", "field": "day"},
    {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2"},
        "field": "price",
    },
    {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "field": "at"},
    {"type": "string", "field": "raw"},
]
_ROW_OF_KEY = (dt.date(2020, 1, 5), Decimal("3.00"), dt.datetime(2020, 1, 1, 0, 0, 0, 1), b"\0\xff")
_MODES = {
    "types": "debezium",
    "flattened": "true",
    "decimal.handling.mode": "precise",
    "time.precision.mode": "adaptive",
    "binary.handling.mode": "hex",
}


@pytest.mark.parametrize("connector", ["upsert-kafka", "kafka"])
@pytest.mark.parametrize("with_schema", [False, True])
def test_keys_are_read_by_the_types_of_the_values(with_schema: bool, connector: str) -> None:
    key = ["day", "price", "at", "raw"]
    options = {"connector": connector, "key.format": "json", "value.format": "debezium-json"}
    options |= {f"value.debezium-json.{name}": text for name, text in _MODES.items()}
    options |= {} if connector == "upsert-kafka" else {"key.fields": ";".join(key)}
    row: Any = {**_KEY, "v": 1}
    keys = [json.dumps(_KEY).encode()] * 2
    values = [json.dumps(row).encode(), b"null"]
    if with_schema:
        for name in ("decimal.handling.mode", "time.precision.mode"):
            del options[f"value.debezium-json.{name}"]
        options["value.debezium-json.schema-include"] = "true"
        block = {"type": "struct", "fields": [*_FIELDS, {"type": "int32", "field": "v"}]}
        keys = [wrapped(_KEY, {"type": "struct", "fields": _FIELDS})] * 2
        values = [wrapped(row, block), wrapped(None, block)]
    kv = KeyValueFormat(_TYPED, options, primary_key=key)
    batch = kv.decode_batch(pa.array(keys), pa.array(values))
    assert batch.errors is None, batch.errors
    assert kinds_of(batch) == [("+U", *_ROW_OF_KEY, 1), ("-D", *_ROW_OF_KEY, None)]


def test_keys_with_and_without_schemas_and_bad_ones_stay_apart() -> None:
    kv = upserts("debezium-json", flattened="true", types="debezium", **{"schema-include": "true"})
    keys = [b'{"id":1}', wrapped({"id": 2}, _KEY_BLOCK), b"{", None, wrapped({"id": "x"}, _KEY_BLOCK), b'{"id":3}']
    batch = kv.decode_batch(pa.array(keys, pa.binary()), pa.array([None] * 6, pa.binary()))
    assert kinds_of(batch) == [("-D", 1, None), ("-D", 2, None), ("-D", 3, None)]
    parts = batch.parts.to_pylist()  # type: ignore[union-attr]
    assert parts == [None, None, "key", "key", "key", None]
    texts = batch.errors.drop_null().to_pylist()  # type: ignore[union-attr]
    assert texts[1] == "the key is null, but an upsert table needs one"
    assert texts[2].startswith("json: field 'payload.id': cannot read")


def test_keys_of_other_tables_are_read_as_json() -> None:
    assert repr(upserts("json")._plan("decode").layout.key_format) == "JsonFormat()"
    flattened = upserts("debezium-json", flattened="true")._plan("decode").layout.key_format
    assert repr(flattened) == "ConnectSchemaKeyFormat()", "a key may have a schema though the values have none"
