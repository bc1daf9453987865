"""Whole messages of each connector, with all members around the row: they are read as documented.

The messages have the members, order and types in the documentation of each producer. Their data is our own.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from kvformat.registry import get_format

_DECIMAL = "org.apache.kafka.connect.data.Decimal"


class Shape(NamedTuple):
    """A message, the format, options and columns to read it with, and its rows."""

    format: str
    options: dict[str, str]
    columns: str
    message: dict[str, Any]
    rows: list[tuple[str, dict[str, Any]]]
    metadata: dict[str, Any] = {}  # noqa: RUF012


def source(connector: str, **more: Any) -> dict[str, Any]:
    """Return the `source` of an event of Debezium 3."""
    common = {"version": "3.1.1.Final", "connector": connector, "name": "shop", "ts_ms": 1_740_989_700_041}
    common |= {"snapshot": "false", "db": "shop", "sequence": None}
    return common | {"ts_us": 1_740_989_700_041_233, "ts_ns": 1_740_989_700_041_233_000} | more


def event(op: str, before: Any, after: Any, of: dict[str, Any], transaction: Any = None) -> dict[str, Any]:
    """Return an event of Debezium 3."""
    times = {"ts_ms": 1_740_989_700_352, "ts_us": 1_740_989_700_352_975, "ts_ns": 1_740_989_700_352_975_037}
    return {"before": before, "after": after, "source": of, "transaction": transaction, "op": op} | times


def column(type: str, field: str, name: str = "", **more: Any) -> dict[str, Any]:
    """Return a field of Connect's schema."""
    named = {"name": name, "version": 1} if name else {}
    return {"type": type, "optional": True, **named, **more, "field": field}


def wrapped(payload: dict[str, Any], *fields: dict[str, Any]) -> dict[str, Any]:
    """Wrap an event with its schema, as Connect's JsonConverter writes it."""
    image = {"type": "struct", "fields": list(fields), "optional": True, "name": "shop.goods.Value"}
    around = [column("string", "version"), column("string", "connector"), column("int64", "ts_ms")]
    members = [
        {**image, "field": "before"},
        {**image, "field": "after"},
        {"type": "struct", "fields": around, "name": "io.debezium.connector.Source", "field": "source"},
        column("string", "op"),
        column("int64", "ts_ms"),
    ]
    schema = {"type": "struct", "fields": members, "optional": False, "name": "shop.goods.Envelope", "version": 2}
    return {"schema": schema, "payload": payload}


_WITH_SCHEMA = {"schema-include": "true", "types": "debezium"}
_MYSQL = source("mysql", table="goods", server_id=223344, gtid=None, file="binlog.000003", pos=484, row=0, thread=7)
_MYSQL_ROW = {
    "id": 7,
    "big": "/////////w==",
    "price": "AdTA",
    "rate": 0.5,
    "flag": 1,
    "bits": "BQE=",
    "made": 20_150,
    "at": 1_740_998_941_000,
    "seen": 1_740_998_941_000_001,
    "stamp": "2025-03-03T10:49:01.5Z",
    "opens": 34_200_000_000,
    "born": 2025,
    "color": "red",
    "sizes": "s,l",
    "doc": '{"a": 1}',
    "body": "AP8=",
    "place": {"x": 1.5, "y": 2.0, "wkb": "AQE=", "srid": None},
}
_MYSQL_FIELDS = [
    column("int32", "id"),
    column("bytes", "big", _DECIMAL, parameters={"scale": "0", "connect.decimal.precision": "20"}),
    column("bytes", "price", _DECIMAL, parameters={"scale": "2", "connect.decimal.precision": "10"}),
    column("double", "rate"),
    column("int16", "flag"),
    column("bytes", "bits", "io.debezium.data.Bits", parameters={"length": "16"}),
    column("int32", "made", "io.debezium.time.Date"),
    column("int64", "at", "io.debezium.time.Timestamp"),
    column("int64", "seen", "io.debezium.time.MicroTimestamp"),
    column("string", "stamp", "io.debezium.time.ZonedTimestamp"),
    column("int64", "opens", "io.debezium.time.MicroTime"),
    column("int32", "born", "io.debezium.time.Year"),
    column("string", "color", "io.debezium.data.Enum", parameters={"allowed": "red,blue"}),
    column("string", "sizes", "io.debezium.data.EnumSet", parameters={"allowed": "s,m,l"}),
    column("string", "doc", "io.debezium.data.Json"),
    column("bytes", "body"),
    column(
        "struct",
        "place",
        "io.debezium.data.geometry.Point",
        fields=[column("double", "x"), column("double", "y"), column("bytes", "wkb"), column("int32", "srid")],
    ),
]
_AT, _SEEN = datetime(2025, 3, 3, 10, 49, 1), datetime(2025, 3, 3, 10, 49, 1, 1)
_POSTGRES = source("postgresql", schema="public", table="goods", txId=771, lsn=34_466_432, xmin=None)
_ORACLE = source("oracle", schema="SHOP", table="GOODS", txId="0500080076ca0000", scn="289815835")
_ORACLE |= {"commit_scn": "289815836", "lcr_position": None, "rs_id": "0x0034b1.00143517.0010", "ssn": 0}
_SQL_SERVER = source("sqlserver", schema="dbo", table="goods", change_lsn="0000002b:000002e3:0002")
_SQL_SERVER |= {"commit_lsn": "0000002b:000002e3:0003", "event_serial_no": 2}
_DB2 = source("db2", schema="DB2INST1", table="GOODS", change_lsn="00000000:00000000:00000000:00055da7")
_PEN, _RED = {"id": 7, "name": "pen"}, {"id": 7, "name": "red pen"}
_NAMED = "id INT, name STRING"
_CANAL: dict[str, Any] = {"database": "shop", "table": "goods", "es": 1_662_819_010_000, "ts": 1_662_819_010_724}
_CANAL |= {"id": 7, "gtid": "", "isDdl": False, "sql": "", "pkNames": ["id"]}
_CANAL |= {"mysqlType": {"id": "int unsigned", "name": "varchar(32)"}, "sqlType": {"id": 4, "name": 12}}
_MAXWELL: dict[str, Any] = {"database": "shop", "table": "goods", "ts": 1_477_053_217, "xid": 23_396, "commit": True}
_MAXWELL |= {"position": "master.000006:800911", "server_id": 23_042, "thread_id": 108, "primary_key_columns": ["id"]}
_TICDC = {**source("TiCDC", table="goods", server_id=0, gtid=None, file="", pos=0, row=0, thread=0, query=None)}
_TICDC |= {"commit_ts": 447_507_027_004_751_877, "cluster_id": "default"}

SHAPES = {
    "MySQL, a snapshot's row of every type, with its schema": Shape(
        "debezium-json",
        _WITH_SCHEMA,
        "id INT, big DECIMAL(20, 0), price DECIMAL(10, 2), rate DOUBLE, flag BOOLEAN, bits BIGINT, made DATE, "
        "at TIMESTAMP(3), seen TIMESTAMP(6), stamp TIMESTAMP_LTZ(3), opens TIME(6), born INT, color STRING, "
        "sizes ARRAY<STRING>, doc STRING, body BYTES, place ROW<x DOUBLE, y DOUBLE, wkb BYTES, srid INT>",
        wrapped(event("r", None, _MYSQL_ROW, _MYSQL), *_MYSQL_FIELDS),
        [
            (
                "+I",
                {
                    "id": 7,
                    "big": Decimal(-1),
                    "price": Decimal("1200.00"),
                    "rate": 0.5,
                    "flag": True,
                    "bits": 261,
                    "made": date(2025, 3, 3),
                    "at": _AT,
                    "seen": _SEEN,
                    "stamp": datetime(2025, 3, 3, 10, 49, 1, 500_000, UTC),
                    "opens": time(9, 30),
                    "born": 2025,
                    "color": "red",
                    "sizes": ["s", "l"],
                    "doc": '{"a": 1}',
                    "body": b"\0\xff",
                    "place": {"x": 1.5, "y": 2.0, "wkb": b"\1\1", "srid": None},
                },
            )
        ],
        {"source.table": "goods", "source.timestamp": datetime(2025, 3, 3, 8, 15, 0, 41_000, UTC)},
    ),
    "PostgreSQL, an update within a transaction": Shape(
        "debezium-json",
        _WITH_SCHEMA,
        "id INT, total DECIMAL(20, 4), tags ARRAY<STRING>, attrs MAP<STRING, STRING>, took INTERVAL DAY TO SECOND, "
        "host STRING, span STRING, words STRING, vec ARRAY<DOUBLE>, half ARRAY<FLOAT>, sparse STRING",
        wrapped(
            event(
                "u",
                {"id": 7, "total": {"scale": 1, "value": "fQ=="}, "tags": None, "attrs": None},
                {
                    "id": 7,
                    "total": {"scale": 3, "value": "AMg="},
                    "tags": ["a", None],
                    "attrs": {"k": "v", "n": None},
                    "took": 90_000_000_005,
                    "host": "10.0.0.1/8",
                    "span": "[1,5)",
                    "words": "'fat':2",
                    "vec": [1.5, -2.0],
                    "half": [0.5],
                    "sparse": {"dimensions": 9, "vector": [[1, 2.5]]},
                },
                _POSTGRES,
                {"id": "771:34466432", "total_order": 1, "data_collection_order": 1},
            ),
            column("int32", "id"),
            column(
                "struct",
                "total",
                "io.debezium.data.VariableScaleDecimal",
                fields=[column("int32", "scale"), column("bytes", "value")],
            ),
            column("array", "tags", items={"type": "string", "optional": True}),
            column("map", "attrs", keys={"type": "string"}, values={"type": "string", "optional": True}),
            column("int64", "took", "io.debezium.time.MicroDuration"),
            column("string", "host"),
            column("string", "span"),
            column("string", "words", "io.debezium.data.Tsvector"),
            column("array", "vec", "io.debezium.data.DoubleVector", items={"type": "double"}),
            column("array", "half", "io.debezium.data.FloatVector", items={"type": "float"}),
            column(
                "struct",
                "sparse",
                "io.debezium.data.SparseDoubleVector",
                fields=[
                    column("int16", "dimensions"),
                    column("map", "vector", keys={"type": "int16"}, values={"type": "double"}),
                ],
            ),
        ),
        [
            (
                "-U",
                dict.fromkeys(("tags", "attrs", "took", "host", "span", "words", "vec", "half", "sparse"))
                | {"id": 7, "total": Decimal("12.5000")},
            ),
            (
                "+U",
                {
                    "id": 7,
                    "total": Decimal("0.2000"),
                    "tags": ["a", None],
                    "attrs": [("k", "v"), ("n", None)],
                    "took": timedelta(days=1, seconds=3600, microseconds=5),
                    "host": "10.0.0.1/8",
                    "span": "[1,5)",
                    "words": "'fat':2",
                    "vec": [1.5, -2.0],
                    "half": [0.5],
                    "sparse": '{"dimensions":9,"vector":[[1,2.5]]}',
                },
            ),
        ],
        {"source.schema": "public"},
    ),
    "PostgreSQL, a delete without schemas": Shape(
        "debezium-json",
        {"types": "debezium", "decimal.handling.mode": "string", "time.precision.mode": "adaptive"},
        "id INT, price DECIMAL(10, 2), made DATE, at TIMESTAMP(3), seen TIMESTAMP(6), stamp TIMESTAMP_LTZ(6)",
        event(
            "d",
            {
                "id": 7,
                "price": "1200.00",
                "made": 20_150,
                "at": 1_740_998_941_000,
                "seen": 1_740_998_941_000_001,
                "stamp": "2025-03-03T10:49:01.000001Z",
            },
            None,
            _POSTGRES,
        ),
        [
            (
                "-D",
                {
                    "id": 7,
                    "price": Decimal("1200.00"),
                    "made": date(2025, 3, 3),
                    "at": _AT,
                    "seen": _SEEN,
                    "stamp": _SEEN.replace(tzinfo=UTC),
                },
            )
        ],
    ),
    "Oracle, numbers without a scale": Shape(
        "debezium-json",
        _WITH_SCHEMA,
        "ID DECIMAL(38, 0), PRICE DECIMAL(10, 2), NOTE STRING, MADE TIMESTAMP(3), SEEN TIMESTAMP(6), "
        "ZONED TIMESTAMP_LTZ(6), SPAN STRING",
        wrapped(
            event(
                "c",
                None,
                {
                    "ID": {"scale": 0, "value": "AQ=="},
                    "PRICE": "AdTA",
                    "NOTE": None,
                    "MADE": 1_740_998_941_000,
                    "SEEN": 1_740_998_941_000_001,
                    "ZONED": "2025-03-03T12:49:01.000001+02:00",
                    "SPAN": "P1Y2M",
                },
                _ORACLE,
            ),
            column("struct", "ID", "io.debezium.data.VariableScaleDecimal"),
            column("bytes", "PRICE", _DECIMAL, parameters={"scale": "2", "connect.decimal.precision": "10"}),
            column("string", "NOTE"),
            column("int64", "MADE", "io.debezium.time.Timestamp"),
            column("int64", "SEEN", "io.debezium.time.MicroTimestamp"),
            column("string", "ZONED", "io.debezium.time.ZonedTimestamp"),
            column("string", "SPAN", "io.debezium.time.Interval"),
        ),
        [
            (
                "+I",
                {
                    "ID": Decimal(1),
                    "PRICE": Decimal("1200.00"),
                    "NOTE": None,
                    "MADE": _AT,
                    "SEEN": _SEEN,
                    "ZONED": _SEEN.replace(tzinfo=UTC),
                    "SPAN": "P1Y2M",
                },
            )
        ],
        {"source.properties": [*_ORACLE]},
    ),
    "SQL Server, times of seven digits without schemas": Shape(
        "debezium-json",
        {"types": "debezium", "decimal.handling.mode": "precise", "time.precision.mode": "adaptive"},
        "id INT, price DECIMAL(10, 2), made DATE, at TIMESTAMP(3), seen TIMESTAMP(7), zoned TIMESTAMP_LTZ(3), "
        "body BYTES",
        event(
            "c",
            None,
            {
                "id": 7,
                "price": "AdTA",
                "made": 20_150,
                "at": 1_740_998_941_000,
                "seen": 1_740_998_941_000_001_000,
                "zoned": "2025-03-03T10:49:01.5Z",
                "body": "AQ==",
            },
            _SQL_SERVER,
        ),
        [
            (
                "+I",
                {
                    "id": 7,
                    "price": Decimal("1200.00"),
                    "made": date(2025, 3, 3),
                    "at": _AT,
                    "seen": _SEEN,
                    "zoned": datetime(2025, 3, 3, 10, 49, 1, 500_000, UTC),
                    "body": b"\1",
                },
            )
        ],
    ),
    "SQL Server, times as text": Shape(
        "debezium-json",
        {"types": "debezium", "time.precision.mode": "isostring"},
        "id INT, made DATE, at TIMESTAMP(3), opens TIME(3)",
        event(
            "c", None, {"id": 7, "made": "2025-03-03Z", "at": "2025-03-03T10:49:01Z", "opens": "09:30:00Z"}, _SQL_SERVER
        ),
        [("+I", {"id": 7, "made": date(2025, 3, 3), "at": _AT, "opens": time(9, 30)})],
    ),
    "Db2, an update": Shape(
        "debezium-json",
        {},
        _NAMED,
        event("u", _PEN, _RED, _DB2),
        [("-U", _PEN), ("+U", _RED)],
        {"source.database": "shop", "source.schema": "DB2INST1"},
    ),
    "TiCDC as Debezium, the payload before its schema": Shape(
        "debezium-json",
        _WITH_SCHEMA,
        _NAMED,
        dict(
            reversed(wrapped(event("u", _PEN, _RED, _TICDC), column("int32", "id"), column("string", "name")).items())
        ),
        [("-U", _PEN), ("+U", _RED)],
    ),
    "a row of the table of signals": Shape(
        "debezium-json",
        {},
        "id STRING, type STRING, data STRING",
        event(
            "c",
            None,
            {"id": "d139b9b7-open", "type": "snapshot-window-open", "data": '{"openWindowTimestamp": "2025"}'},
            {**_POSTGRES, "table": "debezium_signal"},
        ),
        [
            (
                "+I",
                {"id": "d139b9b7-open", "type": "snapshot-window-open", "data": '{"openWindowTimestamp": "2025"}'},
            )
        ],
        {"source.table": "debezium_signal"},
    ),
    "Canal 1.1, an update of two rows, all values texts": Shape(
        "canal-json",
        {},
        "id BIGINT, name STRING, price DECIMAL(10, 2), adult BOOLEAN, at TIMESTAMP(0), made DATE",
        {
            "data": [
                {
                    "id": "8",
                    "name": "pen",
                    "price": "5.18",
                    "adult": "0",
                    "at": "2022-09-10 22:10:10",
                    "made": "2022-09-10",
                },
                {"id": "9", "name": None, "price": "1500.62", "adult": "1", "at": None, "made": None},
            ],
            **_CANAL,
            "old": [{"price": "5.15", "at": "2022-09-10 22:03:26"}, {"name": "ink"}],
            "type": "UPDATE",
        },
        [
            (kind, dict(zip(("id", "name", "price", "adult", "at", "made"), values, strict=True)))
            for kind, values in (
                ("-U", (8, "pen", Decimal("5.15"), False, datetime(2022, 9, 10, 22, 3, 26), date(2022, 9, 10))),
                ("+U", (8, "pen", Decimal("5.18"), False, datetime(2022, 9, 10, 22, 10, 10), date(2022, 9, 10))),
                ("-U", (9, "ink", Decimal("1500.62"), False, None, None)),
                ("+U", (9, None, Decimal("1500.62"), False, None, None)),
            )
        ],
        {"table": "goods", "pk-names": ["id"]},
    ),
    "TiCDC as Canal, a delete": Shape(
        "canal-json",
        {},
        _NAMED,
        {
            **_CANAL,
            "type": "DELETE",
            "old": None,
            "data": [{"id": "7", "name": "pen"}],
            "_tidb": {"commitTs": 163963314122145239},
        },
        [("-D", _PEN)],
        {"event-timestamp": datetime(2022, 9, 10, 14, 10, 10, tzinfo=UTC)},
    ),
    "Maxwell, an update": Shape(
        "maxwell-json",
        {},
        "id INT, name STRING, c TIMESTAMP(6), tags ARRAY<STRING>, doc STRING",
        {
            **_MAXWELL,
            "type": "update",
            "data": {
                "id": 7,
                "name": "red pen",
                "c": "2016-10-21 05:33:54.631000",
                "tags": ["b", "c"],
                "doc": {"a": 1},
            },
            "old": {"name": "pen", "c": "2016-10-21 05:33:37.523000"},
        },
        [
            (
                "-U",
                {
                    "id": 7,
                    "name": "pen",
                    "c": datetime(2016, 10, 21, 5, 33, 37, 523_000),
                    "tags": ["b", "c"],
                    "doc": '{"a":1}',
                },
            ),
            (
                "+U",
                {
                    "id": 7,
                    "name": "red pen",
                    "c": datetime(2016, 10, 21, 5, 33, 54, 631_000),
                    "tags": ["b", "c"],
                    "doc": '{"a":1}',
                },
            ),
        ],
        {"primary-key-columns": ["id"], "ingestion-timestamp": datetime(2016, 10, 21, 12, 33, 37, tzinfo=UTC)},
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_connectors_message_is_read_as_documented(name: str) -> None:
    shape = SHAPES[name]
    fmt = get_format(shape.format, shape.options)
    messages = pa.array([json.dumps(shape.message).encode()])
    batch = fmt.decode_batch(messages, shape.columns, metadata=list(shape.metadata))
    assert batch.errors is None, batch.errors
    batch.rows.validate(full=True)
    assert batch.row_kinds is not None
    found = batch.rows.to_pylist()[0]
    metadata = [{key: row.pop(key) for key in shape.metadata} for row in found]
    assert list(zip(batch.row_kinds.to_pylist(), found, strict=True)) == shape.rows
    for given in metadata:
        if "source.properties" in given:
            given["source.properties"] = [key for key, _ in given["source.properties"]]
        assert given == shape.metadata


WRONG_OPTIONS: list[tuple[Shape, str]] = [
    (
        SHAPES["MySQL, a snapshot's row of every type, with its schema"]._replace(options={"schema-include": "true"}),
        "message's schema it is",
    ),
    (SHAPES["TiCDC as Debezium, the payload before its schema"]._replace(options={}), "'schema-include' to true"),
    (SHAPES["Db2, an update"]._replace(options={"schema-include": "true"}), "set 'schema-include' to false"),
    (
        SHAPES["Db2, an update"]._replace(message=event("u", None, _RED, _POSTGRES)),
        "ALTER TABLE ... REPLICA IDENTITY FULL",
    ),
    (
        SHAPES["MySQL, a snapshot's row of every type, with its schema"]._replace(
            message=wrapped(
                event("c", None, {"opens": -1}, _MYSQL), column("int64", "opens", "io.debezium.time.MicroTime")
            )
        ),
        "field 'opens': cannot read -1",
    ),
]


@pytest.mark.parametrize(("shape", "words"), WRONG_OPTIONS)
def test_the_error_of_a_message_names_the_missing_option(shape: Shape, words: str) -> None:
    batch = get_format(shape.format, shape.options).decode_batch(
        pa.array([json.dumps(shape.message).encode()]), shape.columns
    )
    assert batch.errors is not None
    assert words in batch.errors[0].as_py()
