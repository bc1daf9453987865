"""Tables with declared and computed columns, from records to rows: types and order, keys, metadata, NOT NULL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvformat.ingestion import Pipeline
from kvformat.ingestion.errors import SchemaChangeError
from kvformat.registry.contract.errors import ConfigurationError, DecodeError
from tests.ingestion.history import SOURCE, BatchQuery

pytestmark = pytest.mark.spark
_ANY = r"\.*.\.*.\.*"
_KEYED = {
    "value.format": "json",
    "key.format": "json",
    "key.fields": "key_id",
    "key.fields-prefix": "key_",
    "value.fields-prefix": "val_",
    "value.fields-include": "EXCEPT_KEY",
    "table.columns": "val_name VARCHAR(200), part BIGINT NOT NULL METADATA FROM 'partition', key_id INT NOT NULL",
}


class Sent:
    """Makes records of one topic, each with its offset."""

    def __init__(self) -> None:
        self.offset = -1

    def __call__(self, *pairs: tuple[Any, Any], partition: int = 0) -> list[tuple[Any, ...]]:
        return [self._record(key, value, partition) for key, value in pairs]

    def _record(self, key: Any, value: Any, partition: int) -> tuple[Any, ...]:
        self.offset += 1
        messages = (None if part is None else json.dumps(part).encode() for part in (key, value))
        return (*messages, "shop", partition, self.offset, None, 0, None)


def _types(query: BatchQuery) -> list[tuple[str, str]]:
    types: list[tuple[str, str]] = query.table("shop").dtypes
    return types


def test_declared_columns_come_first_and_others_as_they_come(spark: Any, tmp_path: Path) -> None:
    query, sent = BatchQuery(spark, tmp_path, _KEYED, transform=()), Sent()
    query.run(sent(({"id": 7, "other": 1}, {"id": 1, "no": 2}), ({"id": "8"}, {"name": "Ada", "no": 3}), partition=3))
    first = [("val_name", "string"), ("part", "bigint"), ("key_id", "int"), ("val_id", "bigint"), ("val_no", "bigint")]
    assert _types(query) == first
    assert [tuple(row.values()) for row in query.rows("shop", "key_id")] == [
        (None, 3, 7, 1, 2),
        ("Ada", 3, 8, None, 3),
    ]
    query.restart()
    query.run(sent(({"id": 9}, {"at": "2024-02-29", "no": 2.5, "name": 5})))
    assert _types(query) == [*first[:-1], ("val_no", "double"), ("val_at", "date")]
    assert query.rows("shop", "key_id")[-1]["val_name"] == "5"
    query.run(sent(({"id": 10}, {})))
    assert query.rows("shop", "key_id")[-1]["part"] == 0


def test_a_key_of_metadata_keeps_each_record_once(spark: Any, tmp_path: Path) -> None:
    columns = "`offset` INT NOT NULL METADATA, part BIGINT NOT NULL METADATA FROM 'partition'"
    key = [{"source-table": _ANY, "primary-keys": "part, offset"}]
    query = BatchQuery(spark, tmp_path, {"value.format": "json", "table.columns": columns}, transform=key)
    sent = Sent()
    one, two = sent((None, {"a": 1})), sent((None, {"a": 2}), (None, {"partition": 5}))
    query.run([*one, *two], kill="written")
    query.run(one)
    assert _types(query) == [("offset", "int"), ("part", "bigint"), ("a", "bigint"), ("partition", "bigint")]
    assert [tuple(row.values()) for row in query.rows("shop", "offset")] == [
        (0, 0, 1, None),
        (1, 0, 2, None),
        (2, 0, None, 5),
    ]


def test_key_columns_without_a_type_have_that_of_the_keys(spark: Any, tmp_path: Path) -> None:
    keyed = {**_KEYED, "table.columns": "val_name STRING"}
    query, sent = BatchQuery(spark, tmp_path, keyed, transform=()), Sent()
    query.run(sent(({"id": 7, "other": 1}, {"name": "a"}), (None, {"name": "b"})))
    query.run(sent(({"id": 1.5}, {"name": "c"})))
    assert _types(query) == [("val_name", "string"), ("key_id", "double")]
    assert [tuple(row.values()) for row in query.rows("shop", "val_name")] == [("a", 7.0), ("b", None), ("c", 1.5)]


def test_values_have_the_columns_of_the_key_too(spark: Any, tmp_path: Path) -> None:
    both = {"value.format": "json", "key.format": "json", "key.fields": "id", "table.columns": "id INT, v STRING"}
    for include, ids in (("ALL", [2, None]), ("EXCEPT_KEY", [1, 3])):
        query = BatchQuery(spark, tmp_path / include, {**both, "value.fields-include": include}, transform=())
        query.run(Sent()(({"id": 1}, {"id": 2, "v": "a"}), ({"id": 3}, {"v": "b"})))
        assert _types(query) == [("id", "int"), ("v", "string")]
        assert [row["id"] for row in query.rows("shop", "v")] == ids


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ({"id": 1.5}, {}, "'key_id'"),
        ({"id": None}, {}, "column 'key_id' is NOT NULL, and the record has no value for it"),
        (None, {}, "column 'key_id' is NOT NULL, and the record has no value for it"),
        ({"id": 2**40}, {}, "'key_id': a text does not fit INT"),
    ],
)
def test_values_that_a_declared_column_does_not_hold_are_bad(
    spark: Any, tmp_path: Path, key: Any, value: Any, reason: str
) -> None:
    query, sent = BatchQuery(spark, tmp_path, _KEYED, transform=()), Sent()
    with pytest.raises(DecodeError, match=reason):
        query.run(sent((key, value)))
    dropping = {**_KEYED, "ingestion.ignore-errors": "true"}
    query = BatchQuery(spark, tmp_path / "dropping", dropping, transform=())
    query.run(sent((key, value), ({"id": 3}, {"name": "c"})))
    assert [row["key_id"] for row in query.rows("shop", "key_id")] == [3]


def test_a_column_that_is_declared_later_is_added(spark: Any, tmp_path: Path) -> None:
    plain = {"value.format": "json"}
    query, sent = BatchQuery(spark, tmp_path, {**plain, "table.columns": "a INT"}, transform=()), Sent()
    query.run(sent((None, {"a": 1, "b": 1})))
    later = BatchQuery(spark, tmp_path, {**plain, "table.columns": "a BIGINT, c ROW<x INT>, b INT"}, transform=())
    later.batch_id = query.batch_id
    later.run(sent((None, {"c": {"x": 5}, "b": 2})))
    assert _types(later) == [("a", "bigint"), ("b", "bigint"), ("c", "struct<x:int>")]
    assert [tuple(row.values()) for row in later.rows("shop", "b")] == [(1, 1, None), (None, 2, {"x": 5})]


# --- computed columns in Flink SQL -----------------------------------------------------------------------------


def _flink(projection: str) -> list[dict[str, str]]:
    return [{"source-table": _ANY, "dialect": "flink", "projection": projection}]


def test_computed_columns_of_declared_and_of_other_columns(spark: Any, tmp_path: Path) -> None:
    columns = "price DOUBLE, sent TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'"
    projection = "price, CAST(sent AS DATE) AS `day`, *, COALESCE(UPPER(name), 'none') AS upper_name, price / 2 AS half"
    source = {"value.format": "json", "table.columns": columns}
    query, sent = BatchQuery(spark, tmp_path, source, transform=_flink(projection)), Sent()
    query.run(sent((None, {"id": 1, "name": "a", "price": 3})))
    query.run(sent((None, {"id": 2, "new": True})))
    names = ["price", "day", "sent", "id", "name", "upper_name", "half", "new"]
    assert [name for name, _ in _types(query)] == names
    assert dict(_types(query))["day"] == "date"
    rows = [{name: row[name] for name in ("price", "upper_name", "half", "new")} for row in query.rows("shop", "id")]
    assert rows == [
        {"price": 3.0, "upper_name": "A", "half": 1.5, "new": None},
        {"price": None, "upper_name": "none", "half": None, "new": True},
    ]


@pytest.mark.parametrize(
    ("projection", "value", "reason"),
    [
        ("*, flag + 1 AS c", {"flag": True}, r"\+: .*BOOLEAN"),
        ("*, pric + 1 AS c", {"price": 1}, r"'pric': not a physical or metadata column.*Did you mean 'price'"),
        ("*, price + 1 AS c", {"price": 1, "c": 2}, "the messages have a column 'c', and so has the transform"),
    ],
)
def test_expressions_are_checked_with_the_types_of_the_messages(
    spark: Any, tmp_path: Path, projection: str, value: dict[str, Any], reason: str
) -> None:
    query = BatchQuery(spark, tmp_path, {"value.format": "json"}, transform=_flink(projection))
    with pytest.raises(SchemaChangeError, match=f"table shop: .*{reason}"):
        query.run(Sent()((None, value)))


def test_flink_sql_is_evaluated_in_the_time_zone_of_the_pipeline_only(spark: Any, tmp_path: Path) -> None:
    other = "Asia/Tokyo" if spark.conf.get("spark.sql.session.timeZone") != "Asia/Tokyo" else "Asia/Shanghai"
    zone, plain = {"local-time-zone": other}, {"value.format": "json"}
    cast = {**plain, "table.columns": "sent TIMESTAMP(3) METADATA FROM 'timestamp'"}
    for source, transform, pipeline in (
        (plain, _flink("*, a + 1 AS b"), zone),
        (cast, [], zone),
        (plain, _flink("*"), zone),
        (cast, _flink("*, a + 1 AS b"), {}),
    ):
        made = Pipeline({**SOURCE, **source}, {"type": "values"}, transform=transform, pipeline=pipeline)
        is_wrong = pipeline and (source is cast or "AS b" in transform[0]["projection"])
        with pytest.raises(
            ConfigurationError, match="'local-time-zone' is" if is_wrong else "records must be a stream"
        ):
            made.start(spark, checkpoint_location=tmp_path, records=spark.range(1), probe=False)
