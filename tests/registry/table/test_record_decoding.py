"""What is read of Kafka's columns, and what a result has, in Arrow and with Spark's types. No session is started."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry import KeyValueFormat
from kvformat.registry.table.record_decoding import KAFKA_TYPES

_METHODS = pytest.mark.parametrize("method", ["record_decoding", "decode_stage"])


def _decoded(decoding: Any, **columns: Any) -> Any:
    count = len(next(iter(columns.values())))
    arrays = [pa.array(columns[name], t) if name in columns else pa.nulls(count, t) for name, t in KAFKA_TYPES.items()]
    records = pa.RecordBatch.from_arrays(arrays, list(KAFKA_TYPES))
    return decoding.decoder.decoded(decoding.input.of(records, 0), 0)


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
