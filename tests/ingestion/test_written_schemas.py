"""Messages with a schema registry whose fields change type: values are read by their own schema, then converted."""

from __future__ import annotations

import datetime as dt
import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvformat.ingestion.decode import TableDecoder, layout_of
from kvformat.ingestion.decoded_rows import ROW_ERROR, TIMESTAMP
from kvformat.ingestion.looking import NEWS, merged_news
from kvformat.ingestion.rules import look_stage
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.registry import get_format
from kvformat.registry.table.record_headers import HEADERS_TYPE
from tests.ingestion.folding import Folded, batchings

_ENDINGS = {"avro-confluent": "avsc", "debezium-avro-confluent": "avsc", "proto-registry": "proto"}
_ENDINGS |= {"json-registry": "json"}


def _int(value: int) -> bytes:
    """Return a number as Avro writes it."""
    zigzag, found = (value << 1) ^ (value >> 63), bytearray()
    while zigzag > 127:
        found.append(zigzag & 127 | 128)
        zigzag >>= 7
    return bytes([*found, zigzag])


def _text(value: str) -> bytes:
    return _int(len(value)) + value.encode()


def _double(value: float) -> bytes:
    return struct.pack("<d", value)


def _logical(base: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


def _record(*fields: tuple[str, Any], name: str = "A") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": t} for field, t in fields]}


_DECIMAL = _logical("bytes", "decimal", precision=6, scale=2)
_MILLIS, _DATE = _logical("long", "timestamp-millis"), _logical("int", "date")
_NOON = dt.datetime(2024, 2, 29, 12)
_AT_NOON = _int(1709208000000)
_R1, _R2 = _record(("x", "int"), name="R"), _record(("x", "long"), ("y", "string"), name="R")
_AVRO: dict[str, tuple[list[tuple[Any, bytes]], str, list[Any]]] = {
    "a number, then a text": ([("long", _int(5)), ("string", _text("x"))], "STRING", ["5", "x"]),
    "a text, then a number": ([("string", _text("x")), ("int", _int(5))], "STRING", ["x", "5"]),
    "a wider number": ([("int", _int(5)), ("long", _int(2**40))], "BIGINT", [5, 2**40]),
    "a whole number, then a fraction": ([("long", _int(5)), ("double", _double(2.5))], "DOUBLE", [5.0, 2.5]),
    "a boolean, then a number": ([("boolean", b"\1"), ("int", _int(5))], "STRING", ["true", "5"]),
    "a decimal, then a text": ([(_DECIMAL, b"\x02\x7d"), ("string", _text("x"))], "STRING", ["1.25", "x"]),
    "a decimal, then a double": ([(_DECIMAL, b"\x02\x7d"), ("double", _double(2.5))], "STRING", ["1.25", "2.5"]),
    "a decimal of more digits": (
        [(_DECIMAL, b"\x02\x7d"), (_DECIMAL | {"precision": 8, "scale": 4}, b"\x02\x7d")],
        "DECIMAL(8, 4)",
        [Decimal("1.25"), Decimal("0.0125")],
    ),
    "a date, then a timestamp": (
        [(_DATE, _int(19782)), (_MILLIS, _AT_NOON)],
        "TIMESTAMP(9)",
        [dt.datetime(2024, 2, 29), _NOON],
    ),
    "a timestamp, then a text": (
        [(_MILLIS, _AT_NOON), ("string", _text("x"))],
        "STRING",
        ["2024-02-29T12:00:00", "x"],
    ),
    "a number, then a timestamp": (
        [("long", _int(5)), (_MILLIS, _AT_NOON)],
        "STRING",
        ["5", "2024-02-29T12:00:00"],
    ),
    "bytes, then a text": ([("bytes", b"\x02\xff"), ("string", _text("x"))], "STRING", ["/w==", "x"]),
    "an enum, then a text": (
        [({"type": "enum", "name": "E", "symbols": ["P"]}, b"\0"), ("string", _text("x"))],
        "STRING",
        ["P", "x"],
    ),
    "an array of wider elements": (
        [({"type": "array", "items": t}, b"\2" + _int(5) + b"\0") for t in ("int", "long")],
        "STRING",
        ["[5]", "[5]"],
    ),
    "a record with another field": (
        [(_R1, _int(5)), (_R2, _int(6) + _text("q"))],
        "STRING",
        ['{"x":5}', '{"x":6,"y":"q"}'],
    ),
    "a nullable field": ([(["null", "long"], b"\0"), ("string", _text("x"))], "STRING", [None, "x"]),
    "a field of nulls": ([("null", b""), (["null", "int"], b"\2" + _int(5))], "INT", [None, 5]),
    "and back": ([("long", _int(5)), ("string", _text("x")), ("long", _int(6))], "STRING", ["5", "x", "6"]),
}


def _framed(folder: Path, value_format: str, schemas: list[tuple[str, bytes]]) -> list[tuple[None, bytes, str]]:
    """Store the schemas, and return a record for each; equal schemas have the same id."""
    ids: dict[str, int] = {}
    for schema, _ in schemas:
        ids.setdefault(schema, len(ids) + 1)
    for schema, number in ids.items():
        (folder / f"{number}.{_ENDINGS[value_format]}").write_text(schema)
    return [(None, b"\0" + ids[schema].to_bytes(4, "big") + datum, "t") for schema, datum in schemas]


def _compare(
    folder: Path, value_format: str, records: list[Any], column: str, values: list[Any], **options: str
) -> None:
    """Compare the column `v` in all batchings."""
    given = {f"{value_format}.{name}": text for name, text in {"url": f"file:{folder}", **options}.items()}
    compared = 0
    for batches in batchings(records):
        folded = Folded(value_format, given, "id")
        for batch in batches:
            folded.add(batch)
        assert folded.errors == []
        ((table, rows),) = folded.tables().items()
        assert folded.types(table)["v"] == column
        assert [row["v"] for row in sorted(rows, key=lambda row: row["id"])] == values
        compared += 1
    assert compared >= 3


@pytest.mark.parametrize(("steps", "column", "values"), _AVRO.values(), ids=_AVRO)
def test_values_of_avro_are_read_by_the_schema_that_wrote_them(
    steps: list[tuple[Any, bytes]], column: str, values: list[Any], tmp_path: Path
) -> None:
    schemas = [(json.dumps(_record(("id", "long"), ("v", t))), _int(n) + datum) for n, (t, datum) in enumerate(steps)]
    _compare(tmp_path, "avro-confluent", _framed(tmp_path, "avro-confluent", schemas), column, values)


def test_a_record_without_a_schema_stays_beside_records_that_are_read_by_other_types(tmp_path: Path) -> None:
    steps, _, values = _AVRO["a boolean, then a number"]
    schemas = [(json.dumps(_record(("id", "long"), ("v", t))), _int(n) + datum) for n, (t, datum) in enumerate(steps)]
    records = _framed(tmp_path, "avro-confluent", schemas)
    folded = Folded("avro-confluent", {"avro-confluent.url": f"file:{tmp_path}"}, "id")
    folded.add(records)
    folded._decode(TableId.parse("t"), folded._records([*records, (None, b"x", "t")]))
    assert [error.partition(":")[0] for error in folded.errors] == ["avro-confluent"]
    assert [row["v"] for row in folded.tables()["t"]] == values


@pytest.mark.parametrize("in_header", [False, True])
@pytest.mark.parametrize("case", ["a boolean, then a number", "and back"])
def test_rows_have_the_columns_of_their_table_and_their_order_whatever_schema_wrote_them(
    in_header: bool, case: str, tmp_path: Path
) -> None:
    """Before they are fitted to a target; a header may have the id of the schema."""
    steps, _, values = _AVRO[case]
    schemas = [(json.dumps(_record(("id", "long"), ("v", t))), _int(n) + datum) for n, (t, datum) in enumerate(steps)]
    framed = _framed(tmp_path, "avro-confluent", schemas)
    folded = Folded("avro-confluent", {"avro-confluent.url": f"file:{tmp_path}"}, "id").add(framed)
    ids = [[("__value_schema_id", value[:5])] if in_header else [] for _, value, _ in framed]
    records = folded._records([(None, value[5 if in_header else 0 :], "t") for _, value, _ in framed])
    records = records.append_column("headers", pa.array(ids, HEADERS_TYPE))
    looked = pa.Table.from_batches(look_stage(folded.pipeline).mapped()(iter([records])))
    news = merged_news(looked[NEWS].drop_null().to_pylist())
    assert ({column.name for column in news.columns}, news.errors) == ({"id", "v"}, 0)
    (table,) = folded.state.sources
    schema = folded._planner.message_schema(folded.state, table)
    source = folded.pipeline.source
    assert source.value_format is not None
    layout, _ = layout_of(folded.state.sources[table], schema, folded._rules, source.value_format, None)
    decoder = TableDecoder(table, layout, schema, (), None, False, "UTC")
    rows = decoder.decoded(records.append_column(TIMESTAMP, pa.nulls(len(records), pa.int64())))
    assert rows[ROW_ERROR].null_count == len(rows)
    assert rows.columns[1].to_pylist() == values


@pytest.mark.parametrize("types", ["debezium", "flink"])
@pytest.mark.parametrize(
    "case",
    [
        "a number, then a text",
        "a whole number, then a fraction",
        "a decimal, then a text",
        "a boolean, then a number",
        "a wider number",
        "and back",
    ],
)
def test_changes_in_avro_are_read_by_the_schema_that_wrote_them(case: str, types: str, tmp_path: Path) -> None:
    steps, column, values = _AVRO[case]
    source = _record(("db", "string"), ("table", "string"), name="S")
    schemas = []
    for number, (t, datum) in enumerate(steps):
        image = _record(("id", "long"), ("v", t), name="Value")
        fields = ("before", ["null", image]), ("after", ["null", "Value"]), ("op", "string"), ("source", source)
        end = _text("c") + _text("shop") + _text("o")
        schemas.append((json.dumps(_record(*fields, name="Envelope")), b"\0\2" + _int(number) + datum + end))
    name = "debezium-avro-confluent"
    _compare(tmp_path, name, _framed(tmp_path, name, schemas), column, values, types=types)


_PROTO: dict[str, tuple[list[tuple[str, bytes]], str, list[Any]]] = {
    "a wider number": ([("int32 v=2;", b"\x10\5"), ("int64 v=2;", b"\x10\6")], "BIGINT", [5, 6]),
    "a number, then a text": ([("int32 v=2;", b"\x10\5"), ("string v=2;", b"\x12\1x")], "STRING", ["5", "x"]),
    "a number, then a double": (
        [("int32 v=2;", b"\x10\5"), ("double v=2;", b"\x11" + _double(2.5))],
        "DOUBLE",
        [5, 2.5],
    ),
    "an enum, then a number": ([("E v=2;", b"\x10\1"), ("int32 v=2;", b"\x10\5")], "STRING", ["O", "5"]),
    "a text, then bytes": ([("string v=2;", b"\x12\1x"), ("bytes v=2;", b"\x12\1\xff")], "STRING", ["x", "/w=="]),
    "a message with another field": (
        [("R v=2;", b"\x12\2\10\5"), ("S v=2;", b"\x12\5\10\6\x12\1q")],
        "STRING",
        ['{"x":5}', '{"x":6,"y":"q"}'],
    ),
    "a message, then several": (
        [("R v=2;", b"\x12\2\10\5"), ("repeated R v=2;", b"\x12\2\10\6")],
        "STRING",
        ['{"x":5}', '[{"x":6}]'],
    ),
    "another number of the field": ([("int32 v=2;", b"\x10\5"), ("int32 v=3;", b"\x18\6")], "INT", [5, 6]),
}


@pytest.mark.parametrize(("steps", "column", "values"), _PROTO.values(), ids=_PROTO)
def test_values_of_protobuf_are_read_by_the_schema_that_wrote_them(
    steps: list[tuple[str, bytes]], column: str, values: list[Any], tmp_path: Path
) -> None:
    types = "message R { int32 x=1; } message S { int64 x=1; string y=2; } enum E { Z=0; O=1; }"
    schemas = [
        (f'syntax="proto3"; message M {{ int64 id=1; {field} }} {types}', b"\0\10" + bytes([n + 1]) + datum)
        for n, (field, datum) in enumerate(steps)
    ]
    _compare(tmp_path, "proto-registry", _framed(tmp_path, "proto-registry", schemas), column, values)


_JSON: dict[str, tuple[list[tuple[Any, Any]], str, list[Any]]] = {
    "a number, then a text": ([({"type": "integer"}, 5), ({"type": "string"}, "x")], "STRING", ["5", "x"]),
    "a fraction, then a whole number": ([({"type": "number"}, 1.5), ({"type": "integer"}, 5)], "DOUBLE", [1.5, 5.0]),
    "an object with another member": (
        [
            ({"type": "object", "properties": {"x": {"type": "integer"}}}, {"x": 1}),
            (
                {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "string"}}},
                {"x": 2.5, "y": "q"},
            ),
        ],
        "STRING",
        ['{"x":1}', '{"x":2.5,"y":"q"}'],
    ),
    "a boolean, then an array": (
        [({"type": "boolean"}, True), ({"type": "array", "items": {"type": "integer"}}, [1])],
        "STRING",
        ["true", "[1]"],
    ),
    "any value": ([({}, 5), ({}, "x")], "STRING", ["5", "x"]),
}


@pytest.mark.parametrize(("steps", "column", "values"), _JSON.values(), ids=_JSON)
def test_values_of_json_schemas_have_the_same_columns_in_all_batchings(
    steps: list[tuple[Any, Any]], column: str, values: list[Any], tmp_path: Path
) -> None:
    schemas = []
    for number, (t, value) in enumerate(steps):
        schema = {"title": "A", "type": "object", "properties": {"id": {"type": "integer"}, "v": t}}
        schemas.append((json.dumps(schema), json.dumps({"id": number, "v": value}).encode()))
    _compare(tmp_path, "json-registry", _framed(tmp_path, "json-registry", schemas), column, values)


@pytest.mark.parametrize("value_format", ["avro-confluent", "proto-registry", "json-registry"])
def test_messages_without_a_schema_that_can_be_read_do_not_change_others(value_format: str, tmp_path: Path) -> None:
    good = {
        "avro-confluent": (json.dumps(_record(("id", "long"), ("v", "long"))), b"\2\4"),
        "proto-registry": ('syntax="proto3"; message M { int64 id=1; int64 v=2; }', b"\0\10\1\x10\2"),
        "json-registry": (
            '{"type":"object","properties":{"id":{"type":"integer"},"v":{"type":"integer"}}}',
            b'{"id":1,"v":2}',
        ),
    }[value_format]
    records = _framed(tmp_path, value_format, [good, ("{", good[1])])
    unknown = (None, b"\0\0\0\0\7" + good[1], "t")
    folded = Folded(value_format, {f"{value_format}.url": f"file:{tmp_path}"}, "id")
    folded.add([unknown, records[1], (None, b"x", "t"), (None, b"", "u"), records[0], (None, None, "t")])
    assert folded.tables()["t"] == [{"id": 1, "v": 2}]
    assert len(folded.errors) >= (2 if value_format == "json-registry" else 3)  # a reader of JSON needs no schema
    formats = get_format(value_format, {"url": f"file:{tmp_path}"})
    written = formats.written_columns(pa.array([records[0][1], None, b"x", unknown[1], records[0][1]], pa.binary()))
    assert written is not None
    numbers = written.numbers.to_pylist()
    assert numbers[1:3] == [None, None]
    assert {name: str(t) for name, t in written.columns[numbers[0]].items()} == {"id": "BIGINT", "v": "BIGINT"}
    assert written.columns[numbers[3]] == {}
    assert numbers[4] == numbers[0]
    assert get_format("json", {}).written_columns(pa.array([b"{}"])) is None
