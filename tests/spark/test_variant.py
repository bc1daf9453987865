"""VARIANT in Spark: values equal to those of `parse_json`, and what Spark's functions do with them."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from kvformat.registry import KeyValueFormat, explode_changes, get_format, latest_by_key
from tests.support.extent import case_count
from tests.support.variants import random_document

pytestmark = pytest.mark.spark
_JSON = get_format("json")


def _bytes(value: Any) -> tuple[bytes, bytes] | None:
    return None if value is None else (bytes(value.value), bytes(value.metadata))


def test_values_are_those_of_parse_json(spark: Any) -> None:
    rng, count = random.Random(2), case_count(quick=20_000, night=60_000)
    documents = [random_document(rng) for _ in range(count)]
    df = spark.createDataFrame([(n, document) for n, document in enumerate(documents)], "n INT, document STRING")
    ours = _JSON.decode("value", "v VARIANT", errors="capture").alias("d")
    rows = (
        df.selectExpr("n", "document", "concat('{\"v\":', document, '}') AS value")
        .select("n", ours, "document")
        .selectExpr("n", "d.row.v AS ours", "d.error.reason AS error", "try_parse_json(document) AS theirs")
        .collect()
    )
    same = nulls = errors = 0
    for row in rows:
        document = documents[row.n]
        if row.theirs is None:
            assert row.ours is None, document
            assert re.search("VARIANT does not allow|more than 1000 levels", row.error), (document, row.error)
            errors += 1
        elif document == "null":
            assert row.ours is None
            nulls += 1
        else:
            assert _bytes(row.ours) == _bytes(row.theirs), document
            same += 1
    assert same + nulls + errors == count
    assert same > 0.9 * count
    assert errors > 0.005 * count


def test_functions_of_spark_read_it(spark: Any) -> None:
    df = spark.createDataFrame([(b'{"v":{"a":[1,{"b":"x"}],"c":12.50},"l":[1,null]}',)], "value BINARY")
    decoded = df.select(_JSON.decode("value", "v VARIANT, l ARRAY<VARIANT>").alias("r")).select("r.*")
    assert decoded.schema.simpleString() == "struct<v:variant,l:array<variant>>"
    (row,) = decoded.selectExpr(
        "variant_get(v, '$.a[1].b', 'string') AS b",
        "try_variant_get(v, '$.c', 'decimal(5,2)') AS c",
        "to_json(v) AS text",
        "schema_of_variant(v) AS schema",
        "l[1] IS NULL AS missing",
    ).collect()
    assert (row.b, str(row.c), row.missing) == ("x", "12.50", True)
    assert row.text == '{"a":[1,{"b":"x"}],"c":12.5}'
    assert row.schema == "OBJECT<a: ARRAY<VARIANT>, c: DECIMAL(3,1)>"


def test_it_is_written_as_to_json_writes_it(spark: Any) -> None:
    rng = random.Random(3)
    documents = [random_document(rng) for _ in range(2000)]
    df = spark.createDataFrame([(document,) for document in documents], "document STRING")
    rows = (
        df.selectExpr("struct(try_parse_json(document) AS v) AS r")
        .where("r.v IS NOT NULL")
        .select(_JSON.encode("r", "v VARIANT").cast("string").alias("ours"), "r")
        .selectExpr("ours", "concat('{\"v\":', to_json(r.v), '}') AS theirs", "parse_json(ours) IS NOT NULL AS read")
        .collect()
    )
    other = [row for row in rows if row.ours != row.theirs]
    assert len(rows) > 1900
    # Java 17 writes some doubles with a digit too many
    assert all("E" in row.ours for row in other)
    assert len(other) < 0.02 * len(rows)


def test_values_that_json_does_not_have_are_written_too(spark: Any) -> None:
    (row,) = (
        spark.sql(
            """SELECT struct(CAST(array(DATE'2024-02-29') AS VARIANT) AS d, CAST(X'616263' AS VARIANT) AS b,
                  CAST(TIMESTAMP_NTZ'2024-02-29 23:59:59.5' AS VARIANT) AS t, CAST(CAST(1.5 AS FLOAT) AS VARIANT) AS f,
                  parse_json('null') AS n, CAST(NULL AS VARIANT) AS s) AS r"""
        )
        .select(
            _JSON.encode("r", "d VARIANT, b VARIANT, t VARIANT, f VARIANT, n VARIANT, s VARIANT")
            .cast("string")
            .alias("m")
        )
        .collect()
    )
    assert row.m == '{"d":["2024-02-29"],"b":"YWJj","t":"2024-02-29 23:59:59.5","f":1.5,"n":null,"s":null}'


def test_a_table_with_keys_reads_and_writes_it(spark: Any) -> None:
    table = KeyValueFormat.from_ddl(
        """CREATE TABLE t (id INT, v VARIANT, more ROW<x VARIANT>) WITH (
            'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = '127.0.0.1:1',
            'key.format' = 'json', 'key.fields' = 'id', 'value.format' = 'json',
            'scan.startup.mode' = 'earliest-offset',
            'value.fields-include' = 'EXCEPT_KEY')"""
    )
    records = [(b'{"id":1}', b'{"v":{"b":1,"a":[2.50]},"more":{"x":"y"}}'), (b'{"id":2}', b'{"v":null}')]
    df = spark.createDataFrame(records, "key BINARY, value BINARY")
    rows = table.decode(df)
    assert [row.asDict() for row in rows.selectExpr("id", "to_json(v) AS v", "to_json(more.x) AS x").collect()] == [
        {"id": 1, "v": '{"a":[2.5],"b":1}', "x": '"y"'},
        {"id": 2, "v": None, "x": None},
    ]
    written = table.encode(rows).selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)").collect()
    assert [tuple(row) for row in written] == [
        ('{"id":1}', '{"v":{"a":[2.5],"b":1},"more":{"x":"y"}}'),
        ('{"id":2}', '{"v":null,"more":null}'),
    ]


def test_a_deletion_has_a_null_instead(spark: Any) -> None:
    table = KeyValueFormat.from_ddl(
        """CREATE TABLE t (id INT, v VARIANT, l ARRAY<VARIANT>, PRIMARY KEY (id) NOT ENFORCED) WITH (
            'connector' = 'upsert-kafka', 'topic' = 't', 'properties.bootstrap.servers' = '127.0.0.1:1',
            'key.format' = 'json', 'value.format' = 'json')"""
    )
    records = [(b'{"id":1}', None), (b'{"id":2}', b'{"id":2,"v":[1]}'), (b'{"id":3}', None)]
    rows = table.decode(spark.createDataFrame(records, "key BINARY, value BINARY"))
    found = rows.selectExpr("id", "to_json(v) AS v", "v IS NULL AS missing").orderBy("id").collect()
    assert [tuple(row) for row in found] == [(1, None, True), (2, "[1]", False), (3, None, True)]


def test_the_current_table_keeps_it(spark: Any) -> None:
    messages = [b'{"id":1,"v":{"n":1}}', b'{"id":2,"v":[2]}', b'{"id":1,"v":{"n":3}}']
    df = spark.createDataFrame([(n, message) for n, message in enumerate(messages)], "offset INT, value BINARY")
    changes = explode_changes(df, _JSON.decode_rows("value", "id INT, v VARIANT"), keep="offset")
    latest = latest_by_key(changes, "id", order_by="offset").selectExpr("id", "to_json(v) AS v")
    assert sorted(tuple(row) for row in latest.collect()) == [(1, '{"n":3}'), (2, "[2]")]


def test_large_types_of_arrow_are_written(spark: Any) -> None:
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        rows = spark.sql("SELECT struct(parse_json('{\"a\":[1,null]}') AS v) AS r")
        (row,) = rows.select(_JSON.encode("r", "v VARIANT").cast("string").alias("m")).collect()
        again = rows.select(_JSON.decode(_JSON.encode("r", "v VARIANT"), "v VARIANT").alias("r")).selectExpr(
            "to_json(r.v)"
        )
        assert (row.m, again.first()[0]) == ('{"v":{"a":[1,null]}}', '{"a":[1,null]}')
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
