"""Batches of Avro that are written in parts: large ones, and rows that only the exact writer takes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kvformat.codecs.avro import batches
from kvformat.codecs.avro.format import encode_rows
from kvformat.codecs.avro.schema import MAX_FIXED
from kvformat.registry.contract.ddl import parse_type
from tests.support.avro_cases import record, schema_of


@pytest.mark.parametrize("count", range(1, 14))
def test_each_row_of_a_batch_that_is_written_in_parts_is_written_as_alone(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last part may have one row. Each fifth row is an error, and each seventh has no message."""
    schema = schema_of(record("int"))
    rows = [{"f0": i if i % 5 else None} if i % 7 else None for i in range(1, count + 1)]
    values = pa.array(rows, schema.arrow_type)
    alone = [batches.encode(values[i : i + 1], schema) for i in range(count)]
    monkeypatch.setattr(batches, "_CHUNK_ROWS", 4)
    written = batches.encode(values, schema)
    assert written.messages.to_pylist() == [one.messages[0].as_py() for one in alone]
    errors = [None if one.errors is None else one.errors[0].as_py() for one in alone]
    assert ([None] * count if written.errors is None else written.errors.to_pylist()) == errors


def test_a_row_that_fails_behind_one_of_the_exact_writer_has_no_message() -> None:
    schema = schema_of(record("string", {"type": "enum", "name": "E", "symbols": ["A"]}))
    texts = pa.array([b"\xff", b"x", b"y"]).view(pa.string())
    rows = pa.StructArray.from_arrays([texts, pa.array(["A", "B", "A"])], ["f0", "f1"])
    written = batches.encode(rows, schema)
    assert written.errors is not None
    assert written.messages.to_pylist() == [b"\x06\xef\xbf\xbd\0", None, b"\x02y\0"]
    assert [text is None for text in written.errors.to_pylist()] == [True, False, True]


@pytest.mark.parametrize("last", ["A", "B"])
def test_a_null_row_has_no_message_also_where_its_schema_has_a_null(last: str) -> None:
    """Whether another row is an error or not."""
    schema = schema_of(["null", record({"type": "enum", "name": "E", "symbols": ["A"]})])
    rows = pa.array([{"f0": "A"}, None, {"f0": last}], pa.struct([("f0", pa.string())]))
    written = encode_rows(rows, schema, parse_type("ROW<f0 STRING>"))
    assert written.messages.to_pylist() == [b"\2\0", None, b"\2\0" if last == "A" else None]


def test_bytes_of_another_size_than_their_fixed_are_errors_of_their_rows() -> None:
    """A larger fixed is binary in Arrow, which can have any size."""
    schema = schema_of({"type": "fixed", "name": "F", "size": MAX_FIXED + 1})
    values = [bytes(MAX_FIXED + more) for more in (1, 0, 2)]
    written = batches.encode(pa.array(values, schema.arrow_type), schema)
    assert written.messages.to_pylist() == [values[0], None, None]
    assert written.codes is not None
    assert written.codes.to_pylist() == [None, "WRONG_TYPE", "WRONG_TYPE"]


def test_an_error_in_a_nullable_record_is_that_of_its_row() -> None:
    schema = schema_of(record(["null", record({"type": "enum", "name": "E", "symbols": ["A"]}, name="I")]))
    rows = [{"f0": None}, {"f0": {"f0": "B"}}, {"f0": {"f0": "A"}}]
    assert batches.encode(pa.array(rows, schema.arrow_type), schema).messages.to_pylist() == [b"\0", None, b"\2\0"]


def test_items_behind_a_null_list_are_not_written() -> None:
    schema = schema_of(record(["null", {"type": "array", "items": "int"}]))
    items, offsets = pa.array([7] * 200 + [1], pa.int32()), pa.array([0, 200, 201], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, items, mask=pa.array([True, False]))
    written = batches.encode(pa.StructArray.from_arrays([lists], ["f0"]), schema)
    assert written.messages.to_pylist() == [b"\0", b"\2\2\2\0"]
