"""What is read of Kafka's columns, and what a result has, in Arrow and with Spark's types. No session is started."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from kvformat.registry import ConfigurationError, DecodeError, KeyValueFormat
from kvformat.registry.table.decode_stage import HEADERS
from kvformat.registry.table.record_decoding import KAFKA_TYPES

_METHODS = pytest.mark.parametrize("method", ["record_decoding", "decode_stage"])


def _decoded(decoding: Any, **columns: Any) -> Any:
    count = len(next(iter(columns.values())))
    arrays = [pa.array(columns[name], t) if name in columns else pa.nulls(count, t) for name, t in KAFKA_TYPES.items()]
    records = pa.RecordBatch.from_arrays(arrays, list(KAFKA_TYPES))
    return decoding.decoder.decoded(decoding.input.of(records, 1_000_000), 0)


@_METHODS
@pytest.mark.parametrize("format", ["json", "debezium-json"])
def test_a_captured_record_has_its_key_also_if_the_table_has_no_key_format(method: str, format: str) -> None:
    kv = KeyValueFormat("id INT", {"format": format})
    decoding = getattr(kv, method)(errors="capture")
    rows = _decoded(decoding, key=[b"k", None], value=[b"{", b"["], topic=["t", "u"], offset=[7, 8])
    found = [(e["key"], e["value"], e["topic"], e["offset"], e["part"]) for e in rows.column("error").to_pylist()]
    assert found == [(b"k", b"{", "t", 7, "value"), (None, b"[", "u", 8, "value")]
    assert "key" not in getattr(kv, method)().input.fields


@pytest.mark.parametrize(
    ("key", "value", "part", "format"),
    [
        (b"{" + b"k" * 200, b"1", "key", "json"),
        (b'{"id":1}', b"x" * 101, "value", "csv"),
        (b"{", b"x" * 100, "record", None),
    ],
)
def test_a_raised_error_has_the_format_and_the_first_bytes_of_its_part(
    key: bytes, value: bytes, part: str, format: str | None
) -> None:
    options = {"topic": "orders", "key.format": "json", "key.fields": "id", "value.format": "csv"}
    kv = KeyValueFormat("id INT, n INT", {**options, "value.fields-include": "EXCEPT_KEY"})
    told = rf"cannot decode the {part} of a record: .*The record: topic orders, partition 3, offset 7, key b'"
    with pytest.raises(DecodeError, match=told) as caught:
        _decoded(kv.record_decoding(), key=[b'{"id":0}', key], value=[b"0", value], partition=[3, 3], offset=[6, 7])
    assert (caught.value.format, caught.value.head) == (format, (key if part == "key" else value)[:100])


def test_the_topic_of_a_bad_record_is_its_own_if_the_table_has_several() -> None:
    kv = KeyValueFormat("id INT", {"format": "json", "topic": "a;b"})
    for metadata in (None, {"place": "offset", "t": "topic"}):
        decoding = kv.record_decoding(metadata=metadata)
        with pytest.raises(DecodeError, match="The record: topic b, partition 3, offset 7, value"):
            _decoded(decoding, value=[b"{"], topic=["b"], partition=[3], offset=[7])


@pytest.mark.parametrize(("headers", "read"), [(None, False), (T.StringType(), False), (HEADERS, True)])
def test_ids_of_schemas_are_read_from_headers_only_if_they_are_those_of_kafka(headers: Any, read: bool) -> None:
    kv = KeyValueFormat("a BIGINT", {"format": "json-registry", "json-registry.url": "mock://x"})
    types = {"value": T.BinaryType()} if headers is None else {"value": T.BinaryType(), "headers": headers}
    stage = kv.decode_stage(input_types=types)
    assert stage.input.fields == (("headers", "value") if read else ("value",))
    assert len(stage.decoder.record_headers) == int(read)


def test_bad_records_are_raised_or_captured_and_nothing_else() -> None:
    kv = KeyValueFormat("id INT", {"format": "json", "ingestion.ignore-errors": "true"})
    rows = _decoded(kv.record_decoding(errors="capture"), value=[b"{", b"{}"])
    assert [error is None for error in rows.column("error").to_pylist()] == [False, True]
    assert _decoded(kv.record_decoding(), value=[b"{", b"{}"]).num_rows == 1
    with pytest.raises(ConfigurationError, match="errors must be 'raise' or 'capture', not 'ignore'"):
        kv.record_decoding(errors="ignore")  # type: ignore[arg-type]


def test_a_change_that_deletes_is_a_deletion_in_an_upsert_table_as_a_null_value_is() -> None:
    options = {"connector": "upsert-kafka", "key.format": "json", "value.format": "debezium-json"}
    kv = KeyValueFormat("id INT", options | {"value.debezium-json.changelog.mode": "upsert"}, primary_key=["id"])
    changes = [b'{"after":{"id":1},"op":"c"}', b'{"before":{"id":1},"op":"d"}', None]
    batch = kv.decode_batch(pa.array([b'{"id":1}'] * 3), pa.array(changes))
    assert batch.row_kinds is not None
    assert (batch.errors, batch.row_kinds.to_pylist()) == (None, ["+U", "-D", "-D"])


def test_an_empty_batch_has_no_rows_also_if_a_column_needs_the_time() -> None:
    kv = KeyValueFormat.from_ddl(
        """CREATE TABLE t (a INT, b AS a + 1, c AS NOW()) WITH ('connector' = 'kafka', 'topic' = 't',
        'properties.bootstrap.servers' = 'b', 'properties.group.id' = 'g', 'format' = 'json')"""
    )
    decoding = kv.record_decoding()
    assert [_decoded(decoding, value=values).column("c").to_pylist() for values in ([], [b"{}"])] == [
        [],
        [dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)],
    ]


@pytest.mark.parametrize("value_format", ["json", "debezium-json"])
def test_a_captured_bad_record_has_no_kind(value_format: str) -> None:
    options = {"key.format": "json", "value.format": value_format}
    if value_format == "json":
        kv = KeyValueFormat("id INT", {"connector": "upsert-kafka", **options}, primary_key=["id"])
    else:
        kv = KeyValueFormat("id INT", {"key.fields": "id", **options})
    rows = _decoded(kv.record_decoding(errors="capture"), key=[b'{"id":1}'] * 2, value=[b"{", b"["])
    assert rows.column("row_kind").to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("key", "primary_key", "deleted"),
    [
        ("id", ["id"], [{"id": 1, "n": None}]),
        ("id;n", ["id"], [{"id": 1, "n": 5}]),
        ("n;id", ["id", "n"], [{"id": 1, "n": 5}]),
        ("id", ["id", "n"], []),
        ("n", ["id"], []),
    ],
)
def test_a_null_value_deletes_a_row_only_if_the_key_has_the_whole_primary_key(
    key: str, primary_key: list[str], deleted: list[dict[str, int | None]]
) -> None:
    options = {"key.format": "json", "key.fields": key, "value.format": "debezium-json"}
    flattened = options | {"value.debezium-json.flattened": "true"}
    kv = KeyValueFormat("id INT NOT NULL, n INT", flattened, primary_key=primary_key)
    batch = kv.decode_batch(pa.array([b'{"id":1,"n":5}']), pa.nulls(1, pa.binary()))
    assert (batch.errors, batch.rows.to_pylist()) == (None, [deleted])
    assert batch.row_kinds is not None
    assert batch.row_kinds.to_pylist() == ["-D"] * len(deleted)


@pytest.mark.parametrize(
    ("options", "types"),
    [
        ({}, ["time(0)", "struct<a:array<time(3)>>"]),
        (
            {"debezium-json.types": "debezium", "debezium-json.schema-include": "true"},
            ["time(6)", "struct<a:array<time(6)>>"],
        ),
    ],
)
def test_times_of_a_result_have_at_least_the_digits_of_the_format(options: dict[str, str], types: list[str]) -> None:
    kv = KeyValueFormat("t TIME(0), r ROW<a ARRAY<TIME(3)>>", {"format": "debezium-json", **options})
    assert [column.final.simpleString() for column in kv.decode_stage().columns] == types


@_METHODS
@pytest.mark.parametrize("name", ["Row_Kind", "ROW_INDEX", "Error", "ID"])
def test_columns_that_differ_in_letter_case_only_have_other_names_in_spark(method: str, name: str) -> None:
    """Spark ignores the case of names, also those of the columns that are added."""
    kv = KeyValueFormat(f"id INT, {name} INT", {"format": "debezium-json"})
    decoding = getattr(kv, method)(errors="capture", row_index=True)
    assert [column.name for column in decoding.columns] == ["id", name]
    assert len({one.lower() for one in decoding.names}) == len(decoding.names) == 5
    rows = _decoded(decoding, value=[f'{{"after":{{"id":1,"{name}":2}},"op":"c"}}'.encode()])
    values = [rows.column(decoding.names.index(column.wire_name))[0].as_py() for column in decoding.columns]
    assert values == [1, 2]
