"""Computed columns: supported expressions, their Spark SQL, and refused expressions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvformat.registry.sql import expressions, shared_functions
from kvformat.registry.sql.create_table import parse_create_table
from kvformat.registry.sql.table_definition import TableColumn

_COLUMNS = (
    "id INT, n BIGINT, d DOUBLE, s STRING, b BOOLEAN, ts TIMESTAMP(3), m MAP<STRING, ROW<v DOUBLE>>, a ARRAY<INT>, "
    "payload BYTES"
)


def _column(expression: str) -> TableColumn:
    table = parse_create_table(f"CREATE TABLE t ({_COLUMNS}, x AS {expression}, y INT METADATA FROM 'partition')")
    assert [column.name for column in table.columns][-2:] == ["x", "y"]
    return table.columns[-2]


@pytest.mark.parametrize(
    ("expression", "spark_sql"),
    [
        ("id * 2 + n", "`id` * 2 + `n`"),
        ("y + 1", "`y` + 1"),
        ("n / CAST(id AS DECIMAL(10, 2))", "`n` / CAST(`id` AS DECIMAL(10, 2))"),
        ("id / m['k'].v", "`id` / `m`['k'].`v`"),
        ("- -id", "- - `id`"),
        ("(id + 1) * d / n", "(`id` + 1) * `d` / `n`"),
        ("`UPPER`(s) || 'it''s \\ '", "UPPER(`s`) || 'it\\'s \\\\ '"),
        ("CASE WHEN id > 1 AND NOT b THEN 'a' ELSE LOWER(s) END",
         "CASE WHEN `id` > 1 AND NOT `b` THEN 'a' ELSE LOWER(`s`) END"),
        ("CASE id WHEN 1 THEN 'a' END", "CASE `id` WHEN 1 THEN 'a' END"),
        ("s IS NOT DISTINCT FROM 'a' OR s NOT LIKE 'b!%' ESCAPE '!'",
         "`s` IS NOT DISTINCT FROM 'a' OR `s` NOT LIKE 'b!%' ESCAPE '!'"),
        ("id NOT IN (1, 2) AND id BETWEEN 1 AND 3", "`id` NOT IN(1, 2) AND `id` BETWEEN 1 AND 3"),
        ("TRIM(BOTH 'x' FROM s)", "TRIM(BOTH 'x' FROM `s`)"),
        ("SUBSTRING(s FROM 2 FOR 3)", "SUBSTRING(`s` FROM 2 FOR 3)"),
        ("OVERLAY(s PLACING 'x' FROM 1)", "OVERLAY(`s` PLACING 'x' FROM 1)"),
        ("POSITION('x' IN s)", "POSITION('x' IN `s`)"),
        ("EXTRACT(YEAR FROM ts)", "EXTRACT(YEAR FROM `ts`)"),
        ("TIMESTAMPADD(DAY, 1, ts)", "TIMESTAMPADD(DAY, 1, `ts`)"),
        ("ts > TIMESTAMP '2024-01-02 03:04:05'", "`ts` > TIMESTAMP_NTZ '2024-01-02 03:04:05'"),
        ("ts - INTERVAL '1:30' MINUTE TO SECOND(3)", "`ts` - INTERVAL '1:30' MINUTE TO SECOND"),
        ("CURRENT_DATE", "current_date()"),
        ("TO_TIMESTAMP(s)", "to_timestamp_ntz(`s`)"),
        ("TO_TIMESTAMP_LTZ(TO_TIMESTAMP_LTZ(n, 3), 0)", "timestamp_seconds(timestamp_millis(`n`))"),
        ("CAST(id AS ROW<`a``b` INT>)", "CAST(`id` AS STRUCT<`a``b`: INT>)"),
        ("TRY_CAST(s AS INT)", "TRY_CAST(`s` AS INT)"),
        ("CAST(payload AS STRING)", "make_valid_utf8(CAST(`payload` AS STRING))"),
        ("TRY_CAST(UNHEX(s) AS VARCHAR(3))", "make_valid_utf8(TRY_CAST(UNHEX(`s`) AS STRING))"),
        ("CAST(id AS STRING)", "CAST(`id` AS STRING)"),
        ("1.5e-3 + .5 + 1e3", "1.5e-3 + .5 + 1e3"),
        ("COALESCE(s, 'x') = '' COMMENT 'c'", "COALESCE(`s`, 'x') = ''"),
    ],
)  # fmt: skip
def test_common_expressions_of_flink_and_spark_become_spark_sql(expression: str, spark_sql: str) -> None:
    column = _column(expression)
    assert (column.refused, column.expression) == ("", spark_sql)


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("reflect('java.lang.System', 'getProperty', 'user.home')", "REFLECT"),
        ("`reflect`('java.lang.System', 'getenv')", "REFLECT"),
        ("java_method('java.lang.System', 'exit', 1)", "JAVA_METHOD"),
        ("UPPER(try_reflect('java.lang.System', 'getenv'))", "TRY_REFLECT"),
        ("input_file_name()", "INPUT_FILE_NAME"),
        ("read_files('/etc')", "READ_FILES"),
        ("url_decode(from_json(s, 'a INT'))", "FROM_JSON"),
        ("version()", "VERSION"),
        ("raise_error(s)", "RAISE_ERROR"),
        ("current_user()", "CURRENT_USER"),
        ("explode(a)", "EXPLODE"),
        ("inline(a)", "INLINE"),
        ("COUNT(id)", "COUNT"),
        ("SUM(id) OVER (ORDER BY id)", "SUM"),
        ("LAG(id)", "LAG"),
        ("transform(a, x -> x)", "TRANSFORM"),
        ("session_window(ts, '1 day')", "SESSION_WINDOW"),
        ("monotonically_increasing_id()", "MONOTONICALLY_INCREASING_ID"),
        ("GREATEST(id, n)", "GREATEST"),
        ("ARRAY[id, 2]", "ARRAY[...]"),
        ("a[1]", "[...]"),
        ("n / 2", "/"),
        ("(id + 1) / n", "/"),
        ("id + 2.0 / n / 2 + n / 2", "/"),
        ("CAST(b AS STRING)", "CAST"),
        ("CAST(id = 1 AS VARCHAR(5))", "CAST"),
        ("REGEXP_REPLACE(s, '(a)', '$1')", "REGEXP_REPLACE"),
        ("TO_TIMESTAMP_LTZ(n, 6)", "TO_TIMESTAMP_LTZ"),
        ("PROCTIME()", "PROCTIME"),
        ("ABS(id, n)", "ABS"),
    ],
)
def test_unknown_functions_are_refused_by_name(expression: str, named: str) -> None:
    column = _column(expression)
    assert column.expression == ""
    assert column.refused.partition(":")[0] == named
    assert ", at line 1, column " in column.refused
    assert "compute it in a query" in column.refused


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("(SELECT secret FROM other)", "'SELECT'"),
        ("(FROM other)", "'FROM'"),
        ("(TABLE other)", "'TABLE'"),
        ("(VALUES 1)", "'VALUES'"),
        ("(WITH c AS (SELECT 1) SELECT * FROM c)", "not a physical or metadata column"),
        ("id IN (SELECT id FROM other)", "'SELECT'"),
        ("id IN (FROM other)", "'FROM'"),
        ("EXISTS (SELECT 1)", "EXISTS"),
        ("TRIM(FROM s)", "'FROM'"),
        ("TRIM((FROM s))", "'FROM'"),
        ("UPPER(DISTINCT s)", "'DISTINCT'"),
        ("UPPER(s) FILTER (WHERE b)", "'FILTER'"),
        ("MAX(id) OVER w", "MAX"),
        ("current_user", "'current_user'"),
        ("USER", "'USER'"),
        ("id AS z", "'AS'"),
        ("id z", "'z'"),
        ("(id AS z)", "'AS'"),
        ("(id, n)", "','"),
        ("m.*", "'*'"),
        ("*", "'*'"),
        ("ID + 1", "'ID'"),
        ("nope + 1", "'nope'"),
        ("m['k'].nope", "nope"),
        ("id::STRING", "':'"),
        (":id", "':'"),
        ("?", "'?'"),
        ("{fn UPPER(s)}", "'{'"),
        ("spark_catalog.default.f(id)", "'spark_catalog'"),
        ("id = 1 = b", "'='"),
        ("id +", "','"),
        ("s LIKE ANY ('a')", "ANY"),
        ("s COLLATE UNICODE", "'COLLATE'"),
        ("CAST(id AS SECRET)", "'SECRET'"),
        ("EXTRACT(SECOND FROM ts)", "'SECOND'"),
        ("INTERVAL 'x'", "','"),
    ],
)
def test_unsupported_expressions_are_refused(expression: str, shown: str) -> None:
    column = _column(expression)
    assert column.expression == ""
    assert shown in column.refused.partition(", at line 1, column ")[0]
    assert ", at line 1, column " in column.refused


def test_an_error_has_a_position_and_a_next_step() -> None:
    table = parse_create_table(
        "CREATE TABLE t (\n  s STRING,\n  x AS UPPER(s) ||\n    reflect('java.lang.System', 'exit')\n)"
    )
    assert table.columns[1].refused.startswith("REFLECT: not a function that means the same in Flink and in Spark.")
    assert "at line 4, column 5" in table.columns[1].refused


def test_the_depth_of_brackets_is_limited() -> None:
    assert _column("(" * 50 + "id" + ")" * 50).refused == ""
    for opened, closed in (("(", ")"), ("UPPER(", ")"), ("TO_TIMESTAMP_LTZ(", ", 3)"), ("CASE WHEN ", ""), ("m[", "]")):
        assert "nested more than 60 levels deep" in _column(f"{opened * 8000}id{closed * 8000}").refused


def test_columns_can_be_used_before_their_declaration() -> None:
    table = parse_create_table("CREATE TABLE t (x AS price / 2, price DECIMAL(4, 2), z AS x)")
    assert table.columns[0].expression == "`price` / 2"
    assert table.columns[2].refused.startswith("'x': not a physical or metadata column")


def test_the_documentation_names_all_functions() -> None:
    page = (Path(__file__).parents[3] / "docs" / "key-value.md").read_text(encoding="utf-8")
    listed = page.partition("### Computed columns")[2].partition("Functions that Spark would evaluate differently")[0]
    allowed = {*shared_functions.FUNCTIONS, *expressions._SPECIAL, *shared_functions.WITHOUT_BRACKETS}
    words = set(re.findall(r"[A-Z][A-Z0-9_]*", listed.partition("- numbers")[2])) | {"CAST", "TRY_CAST"}
    assert words - {"E"} >= allowed - {"E"}
    assert words - allowed == set()
