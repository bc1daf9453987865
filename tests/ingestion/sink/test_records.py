"""Records of tables: what the vectors of Flink CDC do not have."""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kvformat.ingestion.pipeline.sink import parse_sink
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.ingestion.schemas.types import parse_column_type
from kvformat.ingestion.sink.changes import TableChanges, changes_of_rows
from kvformat.ingestion.sink.connect_payload import connect_values
from kvformat.ingestion.sink.connect_schema import connect_schema
from kvformat.ingestion.sink.records import SinkRecords, TableRecords, UpsertTableRecords
from kvformat.ingestion.sink.settings import SinkSettings
from kvformat.registry import get_format
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import arrow_type, nullable

TABLE = TableId(("ns", "db", "t"))


def _schema(*columns: tuple[str, str], key: tuple[str, ...] = ("id",)) -> TableSchema:
    return TableSchema(tuple(SchemaColumn(name, parse_column_type(text)) for name, text in columns), key)


def _settings(options: dict[str, str]) -> SinkSettings:
    return SinkSettings.of(parse_sink({"type": "kafka", "properties.bootstrap.servers": "b:1", **options}))


def _changes(schema: TableSchema, *changes: tuple[str, Any, Any]) -> TableChanges:
    rows = arrow_type(nullable(schema.row_type()))
    operations, before, after = zip(*changes, strict=True) if changes else ((), (), ())
    return TableChanges(pa.array(operations, pa.string()), pa.array(before, rows), pa.array(after, rows))


def _texts(records: SinkRecords) -> list[tuple[str, str]]:
    pairs = zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True)
    return [(key.decode(), value.decode()) for key, value in pairs]


SCHEMA = _schema(("id", "BIGINT NOT NULL"), ("v", "STRING"))
A, B = {"id": 1, "v": "a"}, {"id": 1, "v": "b"}


def test_an_update_of_an_unknown_row_has_no_row_before() -> None:
    changes = _changes(SCHEMA, ("u", None, A))
    debezium = TableRecords(TABLE, SCHEMA, _settings({})).write(changes)
    value = '{"before":null,"after":{"id":1,"v":"a"},"op":"u","source":{"db":"db","table":"t"}}'
    assert _texts(debezium) == [('{"TableId":"ns.db.t","id":1}', value)]
    canal = TableRecords(TABLE, SCHEMA, _settings({"value.format": "canal-json"})).write(changes)
    value = '{"old":null,"data":[{"id":1,"v":"a"}],"type":"UPDATE","database":"db","table":"t","pkNames":["id"]}'
    assert _texts(canal)[0][1] == value


@pytest.mark.parametrize(
    ("parts", "source"),
    [
        (("t",), {"db": None, "schema": None, "table": "t"}),
        (("s", "t"), {"db": "s", "table": "t"}),
        (("n", "s", "t"), {"db": "n", "schema": "s", "table": "t"}),
    ],
)
def test_the_full_name_of_a_table(parts: tuple[str, ...], source: dict[str, str | None]) -> None:
    settings = _settings({"debezium-json.emit.full-table-id.enabled": "true"})
    ((_, value),) = _texts(TableRecords(TableId(parts), SCHEMA, settings).write(_changes(SCHEMA, ("c", None, A))))
    assert list(json.loads(value)["source"].items()) == list(source.items())


def test_values_follow_connects_schema_only_beside_it() -> None:
    schema = _schema(("id", "INT"), ("at", "TIMESTAMP(3)"))
    changes = _changes(schema, ("c", None, {"id": 1, "at": dt.datetime(1970, 1, 1, 0, 0, 1)}))
    found = []
    for enabled in ("false", "true"):
        options = {"debezium-json.include-schema.enabled": enabled, "debezium-json.payload": "connect"}
        ((_, value),) = _texts(TableRecords(TABLE, schema, _settings(options)).write(changes))
        message = json.loads(value)
        found.append(message.get("payload", message)["after"]["at"])
    assert found == ["1970-01-01 00:00:01", 1000]


def test_an_empty_batch_has_no_records() -> None:
    for options in ({}, {"key.format": "csv", "value.format": "canal-json"}):
        records = TableRecords(TABLE, SCHEMA, _settings(options)).write(_changes(SCHEMA))
        assert len(records.keys) == len(records.values) == 0


def test_a_bad_row_never_harms_its_neighbours() -> None:
    schema = _schema(("id", "INT NOT NULL"), ("m", "MAP<STRING, INT>"))
    pairs = pa.struct([("key", pa.string()), ("value", pa.int32())])
    rows = pa.array(
        [{"id": i, "m": [{"key": key, "value": 1}]} for i, key in enumerate(["a", None, "b"])],
        pa.struct([("id", pa.int32()), ("m", pa.list_(pairs))]),
    )
    records = TableRecords(TABLE, schema, _settings({})).write(changes_of_rows(rows, None))
    assert [value is None for value in records.values.to_pylist()] == [False, True, False]
    assert [key is None for key in records.keys.to_pylist()] == [False, True, False]
    assert [reason and reason.code for reason in records.reasons] == [None, "NULL_VALUE", None]
    replaced = _settings({"debezium-json.map-null-key.mode": "DROP"})
    assert TableRecords(TABLE, schema, replaced).write(changes_of_rows(rows, None)).reasons == []


def test_rows_with_kinds_become_changes() -> None:
    kinds = ["+I", "-U", "+U", "+U", "-D", "-U", "-U", "+U", "-U"]
    rows = pa.array([{"n": n} for n in range(len(kinds))], pa.struct([("n", pa.int32())]))
    changes = changes_of_rows(rows, pa.array(kinds))
    numbers = [
        [None if row is None else row["n"] for row in images.to_pylist()]
        for images in (changes.before, changes.after, changes.key_rows())
    ]
    assert changes.operations.to_pylist() == ["c", "u", "u", "d", "d", "u", "d"]
    assert numbers == [[None, 1, None, 4, 5, 6, 8], [0, 2, 3, None, None, 7, None], [0, 2, 3, 4, 5, 7, 8]]
    assert len(changes_of_rows(rows.slice(0, 0), pa.array([], pa.string()))) == 0


@pytest.mark.parametrize(
    ("same", "operations"), [((), ["u"]), (("id",), ["u"]), (("v",), ["d", "u"]), (("n",), ["d", "u"]), (("m",), ["u"])]
)
def test_only_the_columns_of_the_key_must_be_equal_for_one_update(same: tuple[str, ...], operations: list[str]) -> None:
    nested = pa.struct([("x", pa.int32())])
    rows = pa.array(
        [{"id": 1, "v": v, "n": {"x": v}, "m": {"x": 7}} for v in (1, 2)],
        pa.struct([("id", pa.int32()), ("v", pa.int32()), ("n", nested), ("m", nested)]),
    )
    assert changes_of_rows(rows, pa.array(["-U", "+U"]), same).operations.to_pylist() == operations


def test_changes_of_one_key_in_turn_are_one_update_only_for_the_row_before_and_the_row_after() -> None:
    kinds = ["+I", "-U", "+U", "+U", "-U", "+U", "-D", "+I", "-U", "-U", "+U"]
    rows = pa.array([{"id": 1, "v": n} for n in range(len(kinds))], pa.struct([("id", pa.int32()), ("v", pa.int32())]))
    for same in ((), ("id",)):
        assert "".join(changes_of_rows(rows, pa.array(kinds), same).operations.to_pylist()) == "cuuudcdu"


@pytest.mark.parametrize("t", ["INT", "STRING", "ROW<x INT>", "ARRAY<INT>"])
@pytest.mark.parametrize("null_is", ["before", "after"])
def test_null_is_not_the_value_of_another_row(t: str, null_is: str) -> None:
    value: Any = {"INT": 1, "STRING": "a", "ROW<x INT>": {"x": 1}, "ARRAY<INT>": [1]}[t]
    values = [None, value] if null_is == "before" else [value, None]
    rows = pa.array([{"k": k, "l": 1} for k in values], arrow_type(parse_column_type(f"ROW<k {t}, l INT>")))
    for same in (("k",), ("l", "k"), ("k", "l")):
        assert changes_of_rows(rows, pa.array(["-U", "+U"]), same).operations.to_pylist() == ["d", "u"]


def test_the_formats_read_what_the_sink_writes() -> None:
    schema = _schema(
        ("id", "BIGINT NOT NULL"),
        ("d", "DECIMAL(10, 2)"),
        ("at", "TIMESTAMP(3)"),
        ("ltz", "TIMESTAMP_LTZ(6)"),
        ("day", "DATE"),
        ("b", "BYTES"),
        ("l", "ARRAY<STRING>"),
    )
    rows = [
        {
            "id": i,
            "d": Decimal("-0.10") * i,
            "at": dt.datetime(2024, 2, 29, 12, 0, i),
            "ltz": dt.datetime(2024, 2, 29, tzinfo=dt.UTC),
            "day": dt.date(1, 1, 1),
            "b": b"\xff",
            "l": ['"', None],
        }
        for i in range(3)
    ]
    changes = _changes(
        schema, ("c", None, rows[0]), ("u", rows[0], rows[1]), ("d", rows[1], None), ("u", rows[1], rows[2])
    )
    compared, columns = 0, ", ".join(f"{column.name} {column.type}" for column in schema.columns)
    for format in ("debezium-json", "canal-json"):
        records = TableRecords(TABLE, schema, _settings({"value.format": format})).write(changes)
        decoded = get_format(format).decode_batch(records.values, columns)
        assert decoded.errors is None
        read = decoded.rows.flatten()
        assert decoded.row_kinds.to_pylist() == ["+I", "-U", "+U", "-D", "-U", "+U"]
        assert read.to_pylist() == [rows[i] for i in (0, 0, 1, 1, 1, 2)]
        compared += len(read)
    assert compared == 12


def test_upserts_have_a_tombstone_for_a_delete() -> None:
    schema = _schema(("v", "STRING"), ("b", "INT NOT NULL"), ("a", "TIME(3)"), key=("a", "b"))
    row = {"v": "x", "b": 1, "a": dt.time(12, 0, 0, 123000)}
    records = UpsertTableRecords(TableId(("ods", "t")), schema).write(
        _changes(schema, ("c", None, row), ("d", row, None))
    )
    assert records.keys.to_pylist() == [b'{"a":"12:00:00","b":1}'] * 2
    assert records.values.to_pylist() == [b'{"v":"x","b":1,"a":"12:00:00"}', None]
    with pytest.raises(SchemaError, match=r"table ods\.t: the sink 'upsert-kafka' needs a primary key"):
        UpsertTableRecords(TableId(("ods", "t")), _schema(("id", "INT"), key=()))


def test_a_key_that_cannot_be_written_is_the_error_of_its_record() -> None:
    schema = _schema(("m", "MAP<STRING, INT> NOT NULL"), key=("m",))
    pairs = pa.struct([("key", pa.string()), ("value", pa.int32())])
    rows = pa.array([{"m": [{"key": key, "value": 1}]} for key in ("a", None)], pa.struct([("m", pa.list_(pairs))]))
    records = UpsertTableRecords(TABLE, schema).write(changes_of_rows(rows, pa.array(["-D", "-D"])))
    assert records.keys.to_pylist() == [b'{"m":{"a":1}}', None]
    assert [reason and reason.code for reason in records.reasons] == [None, "NULL_VALUE"]


@pytest.mark.parametrize(
    ("t", "values"),
    [
        ("DECIMAL(38, 2)", [Decimal("1.28"), Decimal("-1.29"), None, Decimal(10**35)]),
        ("TIMESTAMP(3)", [dt.datetime(2024, 1, n) for n in (1, 2, 3, 4)]),
        ("ARRAY<DECIMAL(4, 1)>", [[Decimal(1)], [Decimal(2), None], None, [Decimal(3)]]),
        ("ROW<d DECIMAL(4, 1)>", [{"d": Decimal(1)}, None, {"d": Decimal(2)}, {"d": None}]),
        ("MAP<STRING, DATE>", [[("a", dt.date(1970, 1, 2))], None, [("b", None), ("c", dt.date(1970, 1, 3))], []]),
    ],
)
def test_a_slice_of_values_is_converted_as_the_whole(t: str, values: list[Any]) -> None:
    parsed = parse_column_type(t)
    array = pa.array(values, arrow_type(parsed))
    whole = connect_values(array, parsed).to_pylist()
    for first in range(len(values)):
        assert connect_values(array.slice(first), parsed).to_pylist() == whole[first:]


def test_a_key_that_is_no_column_is_an_error() -> None:
    with pytest.raises(SchemaError, match="the primary key has 'q', and the columns are id"):
        TableRecords(TABLE, _schema(("id", "INT"), key=("q",)), _settings({}))


def test_defaults_have_the_type_of_their_column() -> None:
    def default(text: str, type: str) -> Any:
        column = SchemaColumn("c", parse_column_type(type), default=text)
        field = json.loads(connect_schema(TableSchema((column,))))["fields"][0]["fields"][0]
        return field.get("default", "none")

    assert [default("7", t) for t in ("INT", "DATE", "DOUBLE", "STRING", "BYTES")] == [7, 7, 7.0, "7", "Nw=="]
    assert [default(text, "BOOLEAN") for text in ("TRUE", "1")] == [True, False]
    bits = {"TINYINT": 16, "SMALLINT": 16, "INT": 32, "DATE": 32, "BIGINT": 64, "TIME(3)": 64, "TIMESTAMP(3)": 64}
    for t, count in bits.items():  # those of Connect's types
        least, most = -(2 ** (count - 1)), 2 ** (count - 1) - 1
        found = [default(str(number), t) for number in (least - 1, least, most, most + 1)]
        assert found == ["none", least, most, "none"], t
    assert default("x", "SMALLINT") == "none"
    assert [default("16777217", t) for t in ("FLOAT", "DOUBLE")] == [16777216.0, 16777217.0]
    assert [default(text, "DECIMAL(5, 2)") for text in ("1.28", "-1.28", "1.275", "x")] == [
        "AIA=",
        "gA==",
        "AIA=",
        "none",
    ]
    digits = "9" * 38
    unscaled = int.from_bytes(base64.b64decode(default("-0." + digits, "DECIMAL(38, 38)")), "big", signed=True)
    assert unscaled == -int(digits)


def test_topics_and_headers_of_a_table() -> None:
    settings = _settings(
        {
            "sink.tableId-to-topic.mapping": r" db.t : one ;db.\.*:two;;",
            "sink.custom-header": "k1:v1; k2 : v 2 ;",
            "sink.add-tableId-to-header-enabled": "TRUE",
            "partition.strategy": "HASH-BY-KEY",
            "properties.acks": "all",
        }
    )
    assert [settings.topic_of(TableId.parse(table)) for table in ("db.t", "db.x", "y")] == ["one", "two", "two"]
    assert settings.headers_of(TableId.parse("db.t")) == (
        ("namespace", b""),
        ("schemaName", b"db"),
        ("tableName", b"t"),
        ("k1", b"v1"),
        ("k2", b"v 2"),
    )
    assert settings.partition is None
    assert _settings({"topic": "all", "sink.tableId-to-topic.mapping": "t:u"}).topic_of(TABLE) == "all"


def test_plain_decimals_have_no_zeros_at_their_end() -> None:
    schema = _schema(("id", "INT"), ("d", "DECIMAL(12, 2)"), ("n", "DECIMAL(12, 0)"))
    settings = _settings({"debezium-json.encode.decimal-as-plain-number": "true"})
    row = {"id": 1, "d": Decimal("100.10"), "n": Decimal(100)}
    other = {"id": 1, "d": Decimal("100.00"), "n": Decimal(0)}
    values = [v for _, v in _texts(TableRecords(TABLE, schema, settings).write(_changes(schema, ("u", row, other))))]
    assert '"before":{"id":1,"d":100.1,"n":100},"after":{"id":1,"d":100,"n":0}' in values[0]


@pytest.mark.parametrize(
    ("type", "number", "text"),
    [("DECIMAL(5, 0)", "100", "100"), ("DECIMAL(5, 2)", "100.00", "100"), ("DECIMAL(5, 2)", "1.10", "1.1")],
)
def test_a_decimal_in_a_key_of_csv_has_no_zeros_at_the_end_of_its_fraction(type: str, number: str, text: str) -> None:
    schema = _schema(("id", f"{type} NOT NULL"))
    records = TableRecords(TABLE, schema, _settings({"key.format": "csv"}))
    ((key, _),) = _texts(records.write(_changes(schema, ("c", None, {"id": Decimal(number)}))))
    assert key == f"{TABLE},{text}"


def test_a_payload_that_follows_its_schema_is_read_by_it() -> None:
    schema = _schema(
        ("id", "BIGINT NOT NULL"),
        ("d", "DECIMAL(38, 2)"),
        ("at", "TIMESTAMP(3)"),
        ("fine", "TIMESTAMP(6)"),
        ("ltz", "TIMESTAMP_LTZ(6)"),
        ("day", "DATE"),
        ("t", "TIME(3)"),
        ("b", "BYTES"),
    )
    numbers = [Decimal(n).scaleb(-2) for n in (0, 127, 128, -128, -129, 255, 10**35, -(10**35))]
    rows = [
        {
            "id": i,
            "d": number,
            "at": dt.datetime(1969, 12, 31, 23, 59, 59, 123000),
            "fine": dt.datetime(2024, 2, 29, 12, 0, 0, 123456),
            "ltz": dt.datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=dt.UTC),
            "day": dt.date(1969, 12, 31),
            "t": dt.time(23, 59, 59, 123000),
            "b": b"\xff",
        }
        for i, number in enumerate(numbers)
    ] + [{column: 8 if column == "id" else None for column in schema.names}]
    options = {"debezium-json.include-schema.enabled": "true", "debezium-json.payload": "connect"}
    records = TableRecords(TABLE, schema, _settings(options)).write(
        _changes(schema, *(("c", None, row) for row in rows))
    )
    value = json.loads(records.values[3].as_py())["payload"]["after"]
    assert [value[name] for name in ("d", "at", "day", "t")] == ["gA==", -877, -1, 86399123000]
    assert value["ltz"] == "2024-02-29T12:00:00.000001Z"
    columns = ", ".join(f"{column.name} {column.type}" for column in schema.columns)
    reader = get_format("debezium-json", {"schema-include": True, "types": "debezium"})
    decoded = reader.decode_batch(records.values, columns)
    assert decoded.errors is None
    assert decoded.rows.flatten().to_pylist() == rows


def test_nested_values_of_a_payload_that_follows_its_schema() -> None:
    schema = _schema(("id", "INT"), ("r", "ROW<l ARRAY<DATE>, m MAP<STRING, DECIMAL(4, 1)>>"), ("n", "ARRAY<TIME(3)>"))
    rows = [
        {"id": 1, "r": {"l": [dt.date(1970, 1, 2), None], "m": [("a", Decimal("12.8")), ("b", None)]}, "n": None},
        {"id": 2, "r": None, "n": []},
        {"id": 3, "r": {"l": None, "m": None}, "n": [dt.time(0, 0, 1)]},
    ]
    options = {"debezium-json.include-schema.enabled": "true", "debezium-json.payload": "connect"}
    records = TableRecords(TABLE, schema, _settings(options)).write(
        _changes(schema, *(("c", None, row) for row in rows))
    )
    assert [json.loads(value)["payload"]["after"] for value in records.values.to_pylist()] == [
        {"id": 1, "r": {"l": [1, None], "m": {"a": "AIA=", "b": None}}, "n": None},
        {"id": 2, "r": None, "n": []},
        {"id": 3, "r": {"l": None, "m": None}, "n": [1000000]},
    ]


_HALF_PAST = dt.time(12, 30, 15, 999000)


@pytest.mark.parametrize(
    ("type", "value", "text"),
    [
        ("TIME(3)", _HALF_PAST, '"12:30:15"'),
        ("ARRAY<TIME(3)>", [_HALF_PAST, None], '["12:30:15",null]'),
        ("MAP<STRING, TIME(3)>", [("k", _HALF_PAST), ("n", None)], '{"k":"12:30:15","n":null}'),
        ("ROW<a TIME(3), b ROW<c TIME(3)>>", {"a": None, "b": {"c": _HALF_PAST}}, '{"a":null,"b":{"c":"12:30:15"}}'),
        ("ARRAY<ROW<m MAP<STRING, TIME(3)>>>", [{"m": [("k", _HALF_PAST)]}], '[{"m":{"k":"12:30:15"}}]'),
    ],
)
def test_times_of_day_have_whole_seconds_at_every_level(type: str, value: Any, text: str) -> None:
    schema = _schema(("id", "INT NOT NULL"), ("v", type), key=("v",))
    changes = _changes(schema, ("c", None, {"id": 1, "v": value}))
    for options in ({}, {"value.format": "canal-json"}):
        ((key, found),) = _texts(TableRecords(TABLE, schema, _settings(options)).write(changes))
        assert key == f'{{"TableId":"ns.db.t","v":{text}}}'
        assert f'{{"id":1,"v":{text}}}' in found
    assert _texts(UpsertTableRecords(TABLE, schema).write(changes)) == [(f'{{"v":{text}}}', f'{{"id":1,"v":{text}}}')]


def test_keys_and_values_have_options_of_their_own() -> None:
    schema = _schema(("at", "TIMESTAMP(3) NOT NULL"), key=("at",))
    changes = _changes(schema, ("c", None, {"at": dt.datetime(2024, 2, 29, 12)}))
    for format in ("json", "debezium-json"):
        settings = _settings({f"{format}.timestamp-format.standard": "ISO-8601"})
        found = _texts(TableRecords(TABLE, schema, settings).write(changes))[0]
        assert ["2024-02-29T12:00:00" in text for text in found] == [format == "json", format != "json"]
