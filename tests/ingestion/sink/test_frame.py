"""Rows in batches to records: pairs across batches, and the rows that can't be written. No Spark."""

from __future__ import annotations

import functools
import json
from typing import Any

import pyarrow as pa
import pytest

from kvformat.ingestion.pipeline.sink import parse_sink
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.sink.frame import RecordStage
from kvformat.ingestion.sink.records import TableRecords, UpsertTableRecords
from kvformat.ingestion.sink.settings import SinkSettings
from kvformat.ingestion.testing.targets import table_schema
from kvformat.registry.contract.errors import EncodeError

TABLE, SCHEMA = TableId(("db", "t")), table_schema("id INT", "v INT", key=["id"])


def _written(batches: list[list[tuple[Any, ...]]], columns: str = "id v kind", strategy: str = "all-to-zero") -> Any:
    """Return operation, row before and row after of each record, by the batch that it comes out with."""
    sink = {"type": "kafka", "properties.bootstrap.servers": "b:1", "partition.strategy": strategy}
    make = functools.partial(TableRecords, TABLE, SCHEMA, SinkSettings.of(parse_sink(sink)))
    types = {"id": pa.int32(), "v": pa.int32(), "kind": pa.string()}
    fields = [pa.field(name, types[name]) for name in columns.split()]
    given = [
        pa.RecordBatch.from_arrays(
            [pa.array([row[n] for row in rows], f.type) for n, f in enumerate(fields)], schema=pa.schema(fields)
        )
        for rows in batches
    ]
    found = []
    for batch in RecordStage("db.t", SCHEMA, make).mapped()(iter(given)):
        values = [json.loads(value) for value in batch["value"].to_pylist()]
        found.append([(v["op"], *(v[name] and v[name]["v"] for name in ("before", "after"))) for v in values])
    return found


def test_a_row_before_an_update_waits_for_the_next_batch() -> None:
    batches = [[(1, 1, "+I"), (1, 1, "-U")], [], [(1, 2, "+U"), (1, 2, "-U")], [(1, 3, "+U")], [(1, 3, "-U")]]
    assert _written(batches) == [[("c", None, 1)], [("u", 1, 2)], [("u", 2, 3)], [("d", 3, None)]]
    assert _written([[(1, 1, "-U"), (2, 1, "+I")]]) == [[("d", 1, None), ("c", None, 1)]]


def test_an_update_of_the_key_is_two_records_if_records_are_sent_by_their_keys() -> None:
    batches = [[(1, 1, "-U")], [(2, 1, "+U")]]
    assert _written(batches) == [[("u", 1, 1)]]
    assert _written(batches, strategy="hash-by-key") == [[("d", 1, None), ("u", None, 1)]]


def test_an_update_of_the_key_of_an_upsert_is_a_tombstone_and_a_row() -> None:
    columns = [pa.array([1, 2], pa.int32()), pa.array([7, 8], pa.int32()), pa.array(["-U", "+U"])]
    given = pa.RecordBatch.from_arrays(columns, ["id", "v", "kind"])
    stage = RecordStage("db.t", SCHEMA, functools.partial(UpsertTableRecords, TABLE, SCHEMA))
    (found,) = stage.mapped()(iter([given]))
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (b'{"id":1}', None),
        (b'{"id":2}', b'{"id":2,"v":8}'),
    ]


def test_rows_without_kinds_are_inserts() -> None:
    assert _written([[(1, 1)], [(2, 2)]], "id v") == [[("c", None, 1)], [("c", None, 2)]]


def test_a_null_in_the_key_is_an_error() -> None:
    for columns, row in (("id v", (None, 1)), ("id v kind", (None, 1, "-D"))):
        with pytest.raises(EncodeError, match=r"table db\.t: .* column 'id' of the PRIMARY KEY is NULL") as caught:
            _written([[(1, 1, "+I"), row]], columns)
        assert caught.value.code == "NULL_KEY"
