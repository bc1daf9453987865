"""Transforms of changes: their order, which says what a row is at the end."""

from __future__ import annotations

from typing import Any

import pytest

from kvformat.ingestion.decoded_rows import POSITION, ROW_ERROR, TIMESTAMP
from kvformat.ingestion.errors import SchemaChangeError
from kvformat.ingestion.pipeline.transform import parse_transforms
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.testing.targets import table_schema
from kvformat.ingestion.transforming import analyzed, needs_rows, transformed
from kvformat.registry.spark.decoded_columns import ROW_INDEX, ROW_KIND

_TOPIC, _PARTITION, _OFFSET = POSITION
_INTERNAL = (
    f"{ROW_KIND} STRING, {ROW_INDEX} INT, {_TOPIC} STRING, {_PARTITION} INT, {_OFFSET} BIGINT, {TIMESTAMP} BIGINT, "
    f"{ROW_ERROR} STRUCT<part: STRING, reason: STRING, code: STRING>"
)


@pytest.mark.spark
def test_a_filter_keeps_the_changes_of_a_partition_in_one_task_and_in_order(spark: Any) -> None:
    """The producer of a topic writes the changes of a key in the order of their task. NULL does not match either."""
    from pyspark.sql import functions as F

    changes = [
        (n % 7, (n + i) % 3 or (None if n % 4 < 2 else 0), kind, i, "t", n % 2, n, 0, None)
        for n in range(90)
        for i, kind in enumerate(("-U", "+U"))
    ]
    (rule,) = parse_transforms([{"source-table": "t", "filter": "v > 0", "primary-keys": "id"}])
    settings = {"spark.sql.shuffle.partitions": "4", "spark.sql.adaptive.coalescePartitions.enabled": "false"}
    before = {key: spark.conf.get(key) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        rows = spark.createDataFrame(changes, f"id INT, v INT, {_INTERNAL}").repartition(2)
        made = transformed(rows, rule, TableId(("t",)), table_schema("id INT", "v INT"), changes=True)
        found = made.withColumn("task", F.spark_partition_id()).collect()
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)
    expected = {
        partition: [
            (n, "-D" if n % 3 == 2 else "-U" if i == 0 else "+I" if n % 3 == 0 else "+U")
            for n in range(partition, 90, 2)
            for i in (0, 1)
            if (n + i) % 3
        ]
        for partition in (0, 1)
    }
    for partition, wanted in expected.items():
        own = [row for row in found if row[_PARTITION] == partition]
        assert len({row["task"] for row in own}) == 1
        assert [(row[_OFFSET], row[ROW_KIND]) for row in own] == wanted


@pytest.mark.spark
@pytest.mark.parametrize(
    ("rule", "kinds"),
    [
        ({"primary-keys": "id"}, ["+I", "-U", "+U", "+U", "+U"]),
        ({}, ["+I", "-U", "+U", "+I", "+I"]),
        ({"primary-keys": "id", "filter": "v > 1"}, ["-D", "-U", "+U", "+U", "-D"]),
    ],
    ids=["with a key", "without a key", "with a filter"],
)
def test_a_soft_deleted_row_stays_in_its_table_if_it_matches_the_filter(
    spark: Any, rule: dict[str, str], kinds: list[str]
) -> None:
    given = {"source-table": "t", "projection": r"\*, __data_event_type__ AS op"}
    (parsed,) = parse_transforms([{**given, "converter-after-transform": "SOFT_DELETE", **rule}])
    before = ["+I", "-U", "+U", "-D", "-D"]
    values = zip(before, (1, 1, 2, 2, 1), strict=True)
    changes = [(1, v, kind, 0, "t", 0, n, 0, None) for n, (kind, v) in enumerate(values)]
    rows = spark.createDataFrame(changes, f"id INT, v INT, {_INTERNAL}")
    made = transformed(rows, parsed, TableId(("t",)), table_schema("id INT", "v INT"), changes=False)
    found = sorted(made.collect(), key=lambda row: row[_OFFSET])
    assert [row[ROW_KIND] for row in found] == kinds
    assert [row["op"] for row in found] == before


@pytest.mark.spark
@pytest.mark.parametrize("dialect", ["spark", "flink"])
def test_a_column_without_a_value_is_left_out_unless_it_is_computed(spark: Any, dialect: str) -> None:
    """The messages have `b` with NULL only."""
    table, schema = TableId(("t",)), table_schema("a INT")
    for projection, names in (("b, a", ["a"]), ("a, COALESCE(b, a) AS b", ["a", "b"])):
        (rule,) = parse_transforms([{"source-table": "t", "dialect": dialect, "projection": projection}])
        assert [*analyzed(spark, rule, table, schema, frozenset("b")).names] == names


@pytest.mark.spark
def test_a_computed_column_of_a_type_that_no_table_has_is_an_error_of_the_table(spark: Any) -> None:
    (rule,) = parse_transforms([{"source-table": "t", "projection": "id, NULL AS x"}])
    with pytest.raises(SchemaChangeError, match=r"table t: the transform of 't' can't be applied: .*'x'.* by CAST"):
        analyzed(spark, rule, TableId(("t",)), table_schema("id INT"))


@pytest.mark.parametrize(
    ("rule", "needs"),
    [
        ({"primary-keys": "id", "partition-keys": "id", "table-options": "a=b"}, False),
        ({"projection": "id"}, True),
        ({"filter": "v > 1"}, True),
        ({"dialect": "flink", "filter": "v > 1"}, True),
        ({"converter-after-transform": "SOFT_DELETE"}, True),
    ],
)
def test_only_a_rule_that_changes_rows_needs_them(rule: dict[str, str], needs: bool) -> None:
    (found,) = parse_transforms([{"source-table": "t", **rule}])
    assert needs_rows(found) is needs
    assert needs_rows(None) is False


@pytest.mark.parametrize(
    ("rule", "columns", "reason"),
    [
        (
            {"projection": "id, v * 2 AS w"},
            ["id INT", "v BOOLEAN"],
            r"column 'w' of the transform of 't' can't be computed",
        ),
        ({"filter": "v > 1"}, ["id INT", "v BYTES"], r"the filter of the transform of 't' can't be computed"),
        ({"projection": "\\*, v * 2 AS id"}, ["id INT", "v INT"], r"have a column 'id', and so has the transform"),
    ],
)
def test_an_expression_of_flink_is_checked_with_the_types_that_columns_have_now(
    rule: dict[str, str], columns: list[str], reason: str
) -> None:
    """Before Spark is asked."""
    (found,) = parse_transforms([{"source-table": "t", "dialect": "flink", **rule}])
    with pytest.raises(SchemaChangeError, match=rf"table t: .*{reason}"):
        analyzed(None, found, TableId(("t",)), table_schema(*columns))  # type: ignore[arg-type]
