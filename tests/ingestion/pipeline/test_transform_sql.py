"""Expressions of transforms in Spark SQL."""

from __future__ import annotations

import time

import pytest

from kvformat.ingestion.pipeline.transform_sql import translate_filter, translate_projection
from kvformat.registry import SchemaError


@pytest.mark.parametrize(
    ("flink", "spark_sql"),
    [
        (r"\*", ["*"]),
        ("*", ["*"]),
        (r"\*, __table_name__ AS shard", ["*", "__table_name__ AS `shard`"]),
        ("id, `a b` , UPPER(name) as name", ["`id` AS `id`", "`a b` AS `a b`", "UPPER(name) AS `name`"]),
        ("a * b AS c, 2 * (a) AS `d``e`", ["a * b AS `c`", "2 * (a) AS `d``e`"]),
        ("localtimestamp AS t, CURRENT_DATE AS d", ["localtimestamp() AS `t`", "current_date() AS `d`"]),
        ("LOCALTIME AS t, CURRENT_TIME AS u", ["current_time() AS `t`", "current_time() AS `u`"]),
        ("NOW() AS t, UUID() AS u", ["NOW() AS `t`", "UUID() AS `u`"]),
        ("CAST(a AS VARCHAR) AS b", ["CAST(a AS STRING) AS `b`"]),
        ("CAST(a AS TIMESTAMP(3)) AS b", ["CAST(a AS TIMESTAMP_NTZ) AS `b`"]),
        ("TRY_CAST(a AS TIMESTAMP_LTZ(3)) AS b", ["TRY_CAST(a AS TIMESTAMP_LTZ) AS `b`"]),
        ("CAST(a AS DECIMAL(10, 2)) AS b", ["CAST(a AS DECIMAL(10, 2)) AS `b`"]),
        ("CAST(PARSE_JSON(a) AS VARIANT) AS b", ["CAST(PARSE_JSON(a) AS VARIANT) AS `b`"]),
        ("TO_TIMESTAMP(a) AS b", ["to_timestamp_ntz(a) AS `b`"]),
        ("TO_TIMESTAMP_LTZ(n, 3) AS b", ["timestamp_millis(n) AS `b`"]),
        ("TO_TIMESTAMP_LTZ(f(a, 3), 0) AS b", ["timestamp_seconds(f(a, 3)) AS `b`"]),
        ("TO_TIMESTAMP_LTZ(n , 6 ) AS b", ["timestamp_micros(n ) AS `b`"]),
        ("TO_TIMESTAMP_LTZ(a, 'yyyy') AS b", ["to_timestamp(a, 'yyyy') AS `b`"]),
        ("DATE_FORMAT(a, 'yyyy-MM-dd''T''HH') AS b", [r"DATE_FORMAT(a, 'yyyy-MM-dd\'T\'HH') AS `b`"]),
        ("DATE_FORMAT(a, 'd ''Week''') AS b", [r"DATE_FORMAT(a, 'd \'Week\'') AS `b`"]),
        ("TO_DATE('2024-W09') AS b", ["TO_DATE('2024-W09') AS `b`"]),
        ("TIMESTAMP '2020-01-01 00:00:00' AS b", ["TIMESTAMP_NTZ '2020-01-01 00:00:00' AS `b`"]),
        ("DATE '2020-01-01' AS b", ["DATE '2020-01-01' AS `b`"]),
        (r"REGEXP_REPLACE(a, '\d', '') AS b", [r"REGEXP_REPLACE(a, '\\d', '') AS `b`"]),
        (r"'it''s' AS a, r'\d' AS b", [r"'it\'s' AS `a`", r"r'\d' AS `b`"]),
        (
            "a || 'x' AS b, a <> 1 AS c, a.b AS d, m['k'] AS e",
            ["a || 'x' AS `b`", "a <> 1 AS `c`", "a.b AS `d`", "m['k'] AS `e`"],
        ),
        ("transform(a, x -> x + 1) AS b", ["transform(a, x -> x + 1) AS `b`"]),
        ("CASE WHEN a THEN 1 ELSE 2 END AS b", ["CASE WHEN a THEN 1 ELSE 2 END AS `b`"]),
        ("SUBSTRING(a FROM 2 FOR 3) AS b", ["SUBSTRING(a FROM 2 FOR 3) AS `b`"]),
        ("TIMESTAMPADD(DAY, 1, t) AS b", ["TIMESTAMPADD(DAY, 1, t) AS `b`"]),
        ("a -- a comment\n + 1 AS b", ["a + 1 AS `b`"]),
        ("t.localtimestamp AS b", ["t.localtimestamp AS `b`"]),
        ("`__x__` AS b, __deleted AS c", ["`__x__` AS `b`", "__deleted AS `c`"]),
    ],
)
def test_projections(flink: str, spark_sql: list[str]) -> None:
    assert list(map(str, translate_projection(flink).columns)) == spark_sql


def test_filters() -> None:
    found = translate_filter("id > 1 AND __data_event_type__ <> '-D' AND CAST(a AS VARCHAR) LIKE 'x%'")
    assert found.spark == "id > 1 AND __data_event_type__ <> '-D' AND CAST(a AS STRING) LIKE 'x%'"
    assert found.metadata == {"__data_event_type__"}


def test_metadata_columns_and_divisions_are_found() -> None:
    found = translate_projection("__schema_name__, f(__namespace_name__) AS a, b / c AS d")
    assert found.metadata == {"__schema_name__", "__namespace_name__"}
    assert found.divides
    assert translate_projection("a / b AS c, d + 1 AS e").divides, "it is not the last operator"
    assert translate_filter("a / b > 1").divides
    assert not translate_projection("a AS b").divides


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected a column or an expression, at character 1"),
        ("a,", "expected a column or an expression, at character 3"),
        (",a", "expected a column or an expression, at character 1"),
        ("a, , b", "expected a column or an expression, at character 4"),
        ("a + 1", "an expression needs a name: write <expression> AS <name>, at character 6"),
        ("UPPER(a) b", "an expression needs a name"),
        ("AS b", "expected an expression before AS"),
        ("a AS", "expected a column name, found the end of the text"),
        ("a AS b c", "'c': unexpected after the name of a column"),
        ("a, a", "there are two columns named 'a', at character 4"),
        ("a AS b, c AS b", "there are two columns named 'b'"),
        (r"*, \*", "'*' is written twice"),
        (r"\* AS b", r"'\\*': unexpected here"),
        ("(a AS b", "')' is missing"),
        ("a) AS b", "')' without its opening bracket, at character 2"),
        ("(a] AS b", "']' without its opening bracket"),
        ("f(a AS b", "')' is missing"),
        ("'a AS b", "the quote is not closed"),
        ("`a AS b", "the quote is not closed"),
        ('"a AS b', "unexpected here"),
        ("/* a AS b", "the comment is not closed"),
        ("/*+ x */ a", "begins a hint"),
        ("a; b AS c", "';': unexpected here"),
        ("id FROM t", "'FROM': only expressions on the table's columns are allowed, and no queries"),
        ("(SELECT 1) AS a", "'SELECT': only expressions"),
        ("a WHERE b AS c", "'WHERE': only expressions"),
        ("CAST(a AS BIGNT) AS b", "unknown type 'BIGNT'. Did you mean 'BIGINT'?"),
        ("CAST(a AS INT b) AS c", "expected ')' after the type"),
        ("CAST(a AS TIMESTAMP(3) WITH TIME ZONE) AS c", "no format supports TIMESTAMP WITH TIME ZONE"),
        ("AI_CHAT_PREDICT('m', a) AS b", "'AI_CHAT_PREDICT': functions of models are not supported"),
        ("TO_TIMESTAMP_LTZ(a) AS b", "TO_TIMESTAMP_LTZ: write a number with its precision"),
        ("TO_TIMESTAMP_LTZ(a, 9) AS b", "TO_TIMESTAMP_LTZ: write a number with its precision"),
        ("TO_TIMESTAMP_LTZ() AS b", "TO_TIMESTAMP_LTZ: write a number with its precision"),
        ("TO_TIMESTAMP_LTZ(a, 3", "TO_TIMESTAMP_LTZ: write a number with its precision"),
        ("DATE_FORMAT(a, 'YYYY-MM') AS b", "DATE_FORMAT: Spark's patterns of times don't have the letter 'Y'"),
        (
            "__tablename__",
            "there is no such metadata column. Did you mean '__table_name__'? Columns: __namespace_name__",
        ),
    ],
)
def test_malformed_projections_are_errors(text: str, reason: str) -> None:
    with pytest.raises(SchemaError) as caught:
        translate_projection(text)
    assert reason in str(caught.value)
    assert str(caught.value).startswith("cannot read the projection: ")


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "expected a condition"), ("a = (1", "')' is missing"), ("a)", "without its opening bracket")],
)
def test_malformed_filters_are_errors(text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match="cannot read the filter: ") as caught:
        translate_filter(text)
    assert reason in str(caught.value)


def test_deep_expressions_need_no_stack_and_no_square_of_time() -> None:
    depth = 20_000
    assert len(translate_filter("(" * depth + "a" + ")" * depth).spark) == 2 * depth + 1
    start = time.process_time()
    assert translate_filter("TO_DATE(" * depth + "a" + ")" * depth).spark.count("TO_DATE") == depth
    assert time.process_time() - start < 5
