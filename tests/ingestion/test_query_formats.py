"""Micro-batches of other formats than Debezium's: keys of records, fixed and static schemas, other behaviors."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from kvformat.ingestion import DeltaPathTarget
from kvformat.ingestion.errors import SchemaChangeError
from kvformat.ingestion.pipeline.sink import parse_sink
from kvformat.registry.contract.errors import DecodeError
from tests.ingestion.history import BatchQuery

pytestmark = pytest.mark.spark

_TIME = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def _records(*values: Any, topic: str = "shop", first: int = 0, keys: Any = None) -> list[Any]:
    texts = [None if value is None else json.dumps(value).encode() for value in values]
    found = [None if key is None else json.dumps(key).encode() for key in keys or [None] * len(texts)]
    return [(k, v, topic, 0, first + n, _TIME, 0, None) for n, (k, v) in enumerate(zip(found, texts, strict=True))]


def test_json_by_topic_with_keys_of_records(spark: Any, tmp_path: Path) -> None:
    source = {
        "value.format": "json",
        "key.format": "json",
        "key.fields-prefix": "k_",
        "metadata.list": "timestamp",
        "json.infer-schema.flatten-nested-columns.enable": "true",
    }
    query = BatchQuery(spark, tmp_path, source, transform=[])
    values = [{"a": 1, "n": {"x": "2024-01-01", "y": {"z": True}}}, {"a": "b", "n": {"x": "2024-01-01 10:00:00"}}]
    query.run([*_records(*values, topic="t.one", keys=[{"id": 7}, {"id": 8}]), *_records({"c": [1]}, topic="two")])
    local = query.table(("t.one",)).schema["timestamp"].dataType
    assert local.simpleString() == "timestamp"
    assert query.rows(("t.one",), "k_id") == [
        {"k_id": 7, "a": "1", "n.x": "2024-01-01", "n.y.z": True, "timestamp": _TIME},
        {"k_id": 8, "a": "b", "n.x": "2024-01-01 10:00:00", "n.y.z": None, "timestamp": _TIME},
    ]
    assert query.rows("two", "c") == [{"c": "[1]", "timestamp": _TIME}]


def test_json_with_tables_by_members_and_fixed_types(spark: Any, tmp_path: Path) -> None:
    source = {
        "value.format": "json",
        "json.decode.parser-table-id.fields": "db,table",
        "json.infer-schema.fixed-types": "id INT",
        "ingestion.ignore-errors": "true",
    }
    query = BatchQuery(spark, tmp_path, source, transform=[])
    rows = [{"db": "a", "table": "b", "id": 1}, {"db": "a", "table": "c", "id": "x"}, {"db": "a", "id": 3}]
    query.run(_records(*rows))
    assert query.rows("a.b") == [{"db": "a", "table": "b", "id": 1}]
    assert query.rows("a.c") == []


def _canal(kind: str, *rows: Any, old: Any = None, keys: Any = ("id",), types: Any = None) -> dict[str, Any]:
    return {
        "database": "shop",
        "table": "orders",
        "type": kind,
        "data": [*rows],
        "old": old,
        "pkNames": None if keys is None else [*keys],
        "mysqlType": types,
        "isDdl": False,
    }


def test_canal_with_the_types_of_mysql(spark: Any, tmp_path: Path) -> None:
    source = {"value.format": "canal-json", "canal-json.infer-schema.strategy": "MYSQL_TYPE"}
    query = BatchQuery(spark, tmp_path, source, transform=[])
    types = {"id": "bigint(20)", "ok": "tinyint(1)", "price": "decimal(5,2)", "at": "datetime(3)", "name": "varchar(9)"}
    rows = [
        {"id": "1", "ok": "1", "price": "1.50", "at": "2024-01-01 10:00:00.123", "name": "x"},
        {"id": "2", "ok": "0", "price": None, "at": None, "name": None},
    ]
    query.run(_records(_canal("INSERT", *rows, types=types)))
    changed = {**rows[0], "name": "y"}
    query.run(
        _records(
            _canal("UPDATE", changed, old=[{"name": "x"}], types=types),
            _canal("DELETE", rows[1], types=types),
            first=9,
        )
    )
    assert query.table("shop.orders").dtypes == [
        ("id", "bigint"),
        ("ok", "boolean"),
        ("price", "decimal(5,2)"),
        ("at", "timestamp_ntz"),
        ("name", "string"),
    ]
    (row,) = query.rows("shop.orders")
    assert (row["id"], row["ok"], str(row["price"]), row["name"]) == (1, True, "1.50", "y")
    assert row["at"] == dt.datetime(2024, 1, 1, 10, 0, 0, 123000)
    with pytest.raises(SchemaChangeError, match=r"its primary key was \(id\), and is now \(id, name\)"):
        query.run(_records(_canal("INSERT", rows[0], keys=("id", "name"), types=types)))


@pytest.mark.slow
def test_behaviors_that_keep_the_target(spark: Any, tmp_path: Path) -> None:
    source = {"value.format": "json", "ingestion.ignore-errors": "true"}
    query = BatchQuery(spark, tmp_path, source, transform=[], pipeline={"schema.change.behavior": "ignore"})
    query.run(_records({"id": 1, "v": 2}))
    query.run(_records({"id": 2, "v": 3.0, "w": 1}, {"id": 3, "v": 3.5}, {"id": 4}, first=5))
    assert query.rows("shop") == [{"id": 1, "v": 2}, {"id": 2, "v": 3}, {"id": 4, "v": None}]
    again = BatchQuery(spark, tmp_path / "e", source, transform=[], pipeline={"schema.change.behavior": "exception"})
    again.run(_records({"id": 1}))
    with pytest.raises(SchemaChangeError, match=r"add\.column.*'schema.change.behavior' is exception"):
        again.run(_records({"id": 1, "w": 2}, first=5))


@pytest.mark.slow
def test_rows_that_do_not_fit_are_in_no_target_of_changes(spark: Any, tmp_path: Path) -> None:
    source = {"value.format": "json", "ingestion.ignore-errors": "true"}
    route = [{"source-table": "shop", "sink-table": table} for table in ("ods.a", "ods.b")]
    target = DeltaPathTarget(str(tmp_path / "out"), write_mode="append")
    ignore = {"schema.change.behavior": "ignore"}
    query = BatchQuery(spark, tmp_path, source, transform=[], route=route, target=target, pipeline=ignore)
    query.run(_records({"id": 1, "v": 2}))
    query.run(_records({"id": 2, "v": 3.0}, {"id": 3, "v": 3.5}, {"id": 4}, first=5))
    for table in ("ods.a", "ods.b"):
        assert [(row["id"], row["v"]) for row in query.rows(table)] == [(1, 2), (2, 3), (4, None)]


@pytest.mark.slow
def test_a_record_that_does_not_fit_one_of_its_targets_is_in_none(spark: Any, tmp_path: Path) -> None:
    source = {"value.format": "json", "ingestion.ignore-errors": "true"}
    route = [{"source-table": one, "sink-table": f"ods.{to}"} for one, to in ("ax", "bx", "by")]
    target = DeltaPathTarget(str(tmp_path / "out"), write_mode="append")
    ignore = {"schema.change.behavior": "ignore"}
    query = BatchQuery(spark, tmp_path, source, transform=[], route=route, target=target, pipeline=ignore)
    query.run(_records({"id": 1, "v": 2}, topic="a"))
    query.run(_records({"id": 2, "v": 3.5}, {"id": 3, "v": 3.0}, topic="b"))
    assert query.table("ods.x").schema["v"].dataType != query.table("ods.y").schema["v"].dataType
    found = {name: [(row["id"], row["v"]) for row in query.rows(f"ods.{name}")] for name in "xy"}
    assert found == {"x": [(1, 2), (3, 3)], "y": [(3, 3.0)]}


def test_static_schemas_come_from_declared_tables(spark: Any, tmp_path: Path) -> None:
    source = {
        "value.format": "json",
        "schema.inference.strategy": "static",
        "scan.value.initial-schemas.ddls": "CREATE TABLE `shop` (id INT, name VARCHAR(10))",
    }
    query = BatchQuery(spark, tmp_path, source, transform=[])
    query.run(_records({"id": 1, "name": "x", "more": 1}, {"name": None, "id": 2}))
    assert query.table("shop").dtypes == [("id", "int"), ("name", "string")]
    assert query.rows("shop") == [{"id": 1, "name": "x"}, {"id": 2, "name": None}]
    with pytest.raises(DecodeError, match="table shop, topic shop, partition 0, offset 5"):
        query.run(_records({"id": "seven"}, first=5))


def test_ids_and_guids_in_headers(spark: Any, tmp_path: Path) -> None:
    """Records with the id of their schema before the datum, in a header, and as a GUID in a header."""
    guid = uuid.UUID(int=77)
    plain = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
    more = {**plain, "fields": [*plain["fields"], {"name": "v", "type": "string"}]}
    (tmp_path / "7.avsc").write_text(json.dumps(plain))
    (tmp_path / f"{guid}.avsc").write_text(json.dumps(more))
    source = {"value.format": "avro-confluent", "avro-confluent.url": f"file:{tmp_path}"}
    query = BatchQuery(spark, tmp_path, source, transform=[])

    def record(offset: int, value: bytes, *headers: tuple[str, bytes]) -> Any:
        return (None, value, "shop", 0, offset, _TIME, 0, list(headers) or None)

    name, of_guid, of_id = "__value_schema_id", b"\1" + guid.bytes, b"\0\0\0\0\7"
    first = [record(0, of_id + b"\x02"), record(1, b"\x04", (name, of_id))]
    query.run([*first, record(2, b"\x06\x02a", ("other", b"x"), (name, of_guid))])
    query.run([record(3, b"\x08\x02b", (name, of_guid)), record(4, of_id + b"\x0a")])
    assert query.rows(("shop",)) == [
        {"id": 1, "v": None},
        {"id": 2, "v": None},
        {"id": 3, "v": "a"},
        {"id": 4, "v": "b"},
        {"id": 5, "v": None},
    ]


_ALL_TYPES = (
    "id INT, a BOOLEAN, b TINYINT, c SMALLINT, d BIGINT, e FLOAT, f DOUBLE, g DECIMAL(10, 3), h CHAR(3), i BYTES, "
    "j DATE, k TIME(3), l TIMESTAMP(3), m TIMESTAMP_LTZ(6), n ARRAY<DECIMAL(4, 1)>, o MAP<STRING, TIMESTAMP(6)>, "
    "p ROW<x INT, y ARRAY<ROW<z TIME(0)>>>, q INTERVAL DAY TO SECOND(3), r INTERVAL YEAR TO MONTH"
)
_FULL = {
    **{"a": True, "b": -128, "c": 32767, "d": -(2**63), "e": 0.1, "f": 1e300, "g": 1234567.125, "h": "äbc"},
    **{"i": "AAE=", "j": "2024-02-29", "k": "23:59:59.123", "l": "1900-01-01 00:00:00.001"},
    **{"m": "2024-03-31 01:30:00.000001Z", "n": [1.5, None, -0.1], "o": {"k": "2024-01-01 00:00:00.000001", "n": None}},
    "p": {"x": 1, "y": [{"z": "10:00:00"}, None]},
    **{"q": -277200001, "r": -14},
}
_SINKS = {
    "standard": {"sink.type-normalize-strategy": "standard"},
    "broaden": {"sink.type-normalize-strategy": "broaden"},
    "texts": {"sink.type-normalize-strategy": "only-bigint-or-text"},
    "append": {"write-mode": "append"},
}


@pytest.mark.parametrize("sink", [*_SINKS])
def test_rows_are_the_same_whether_the_driver_or_spark_writes_them(spark: Any, tmp_path: Path, sink: str) -> None:
    source = {
        "value.format": "json",
        "json.timestamp-format.standard": "SQL",
        "schema.inference.strategy": "static",
        "scan.value.initial-schemas.ddls": f"CREATE TABLE `shop` ({_ALL_TYPES}); CREATE TABLE `keyed` ({_ALL_TYPES})",
    }
    values = [{"id": 1, **_FULL}, {"id": 2}, {"id": 3, "e": -0.0, "f": 0.5}, {"id": 1, **_FULL, "d": 7}]
    batches = [[*_records(*values), *_records(*values, topic="keyed")], _records({"id": 2, **_FULL}, topic="keyed")]
    options = {"type": "delta", "path": "x", **_SINKS[sink]}
    compared = 0
    tables: list[dict[str, Any]] = []
    for most in ("1 mb", "0"):
        folder = tmp_path / most
        block = {**options, "path": str(folder / "out"), "driver.max-bytes": most}
        target = DeltaPathTarget.from_sink(parse_sink(block))
        transform = [{"source-table": "keyed", "primary-keys": "id"}]
        query = BatchQuery(spark, folder, source, transform=transform, sink=options, target=target)
        for batch in batches:
            query.run(batch)
        found = {name: query.table(name) for name in ("shop", "keyed")}
        tables.append({n: (df.dtypes, sorted(map(repr, df.toArrow().to_pylist()))) for n, df in found.items()})
        compared += sum(len(types) * len(rows) for types, rows in tables[-1].values())
    assert tables[0] == tables[1]
    assert len(tables[0]["keyed"][1]) == (5 if sink == "append" else 3)
    assert compared >= 200
