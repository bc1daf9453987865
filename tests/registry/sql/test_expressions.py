"""Computed columns as text: the types that Flink gives them, and refused expressions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import STRING, FlinkType, arrow_type
from kvformat.registry.expressions.bind import functions
from kvformat.registry.expressions.bound import Bound
from kvformat.registry.expressions.rows import Rows, Session
from kvformat.registry.expressions.vectors import Vector
from kvformat.registry.sql.create_table import parse_create_table
from kvformat.registry.sql.expressions import _SPECIAL_CALLS, _WITHOUT_BRACKETS, read_expression, uses_current_time
from kvformat.registry.sql.table_definition import TableColumn

_COLUMNS = (
    "id INT, n BIGINT, d DOUBLE, s STRING, b BOOLEAN, ts TIMESTAMP(3), m MAP<STRING, ROW<v DOUBLE>>, a ARRAY<INT>, "
    "payload BYTES, price DECIMAL(10, 2)"
)


def _column(expression: str) -> TableColumn:
    table = parse_create_table(f"CREATE TABLE t ({_COLUMNS}, x AS {expression}, y INT METADATA FROM 'partition')")
    assert [column.name for column in table.columns][-2:] == ["x", "y"]
    return table.columns[-2]


def _values(expression: str, rows: dict[str, list[Any]]) -> list[Any]:
    types = {"id": FlinkType("INT"), "b": FlinkType("BOOLEAN"), "s": STRING}
    arrays = {name: pa.array(values, arrow_type(types[name])) for name, values in rows.items()}
    return read_expression(expression, types).evaluate(Rows(arrays, types, 4, Session())).values()


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("id * 2 + n", "BIGINT"),
        ("y + 1", "INT"),
        ("price * id", "DECIMAL(21, 2)"),
        ("n / CAST(id AS DECIMAL(10, 2))", "DECIMAL(32, 11)"),
        ("id / m['k'].v", "DOUBLE"),
        ("id / 2", "INT"),
        ("- -id", "INT"),
        ("-(2) * 2", "INT"),
        (r"`UPPER`(s) || 'it''s \ '", "STRING"),
        ("CASE WHEN id > 1 AND NOT b THEN 'a' ELSE LOWER(s) END", "STRING"),
        ("CASE id WHEN 1 THEN 'a' WHEN 2 THEN 'abc' END", "VARCHAR(3)"),
        ("CASE WHEN b THEN CAST(s AS TIME(1)) ELSE CAST(s AS TIME(3)) END", "TIME(3)"),
        ("COALESCE(CAST(s AS TIME(3)), CAST(s AS TIME(1)))", "TIME(3)"),
        ("COALESCE(CAST(ts AS TIMESTAMP(1)), ts)", "TIMESTAMP(3)"),
        ("s IS NOT DISTINCT FROM 'a' OR s NOT LIKE 'b!%' ESCAPE '!'", "BOOLEAN"),
        ("id NOT IN (1, 2) AND id BETWEEN 1 AND 3", "BOOLEAN"),
        ("TRIM(BOTH 'x' FROM s)", "STRING"),
        ("SUBSTRING(s FROM 2 FOR 3)", "STRING"),
        ("OVERLAY(s PLACING 'x' FROM 1)", "STRING"),
        ("POSITION('x' IN s)", "INT"),
        ("EXTRACT(YEAR FROM ts)", "BIGINT"),
        ("TIMESTAMPADD(DAY, 1, ts)", "TIMESTAMP(3)"),
        ("ts > TIMESTAMP '2024-01-02 03:04:05'", "BOOLEAN"),
        ("ts - INTERVAL '1:30' MINUTE TO SECOND(3)", "TIMESTAMP(3)"),
        ("CURRENT_DATE", "DATE"),
        ("TO_TIMESTAMP(FROM_UNIXTIME(n / 1000))", "TIMESTAMP(3)"),
        ("PROCTIME()", "TIMESTAMP_LTZ(3)"),
        ("CAST(id AS STRING)", "STRING"),
        ("TRY_CAST(s AS INT)", "INT"),
        ("CAST(payload AS VARCHAR(3))", "VARCHAR(3)"),
        ("1.5e-3 + .5 + 1e3", "DOUBLE"),
        ("0.05", "DECIMAL(3, 2)"),
        ("5.", "INT"),
        ("3000000000", "BIGINT"),
        ("-2147483648", "INT"),
        ("-2147483649", "BIGINT"),
        ("-9223372036854775808", "BIGINT"),
        ("9223372036854775808", "DECIMAL(19, 0)"),
        ("TIME '12:34:56.7891'", "TIME(3)"),
        ("TIMESTAMP '2024-01-02 03:04:05.1234560'", "TIMESTAMP(7)"),
        ("X'41 42'", "BINARY(2)"),
        ("COALESCE(s, 'x') = '' COMMENT 'c'", "BOOLEAN"),
        ("JSON_VALUE(s, '$.a' RETURNING INT DEFAULT 1 ON EMPTY NULL ON ERROR)", "INT"),
        ("a[1]", "INT"),
    ],
)
def test_an_expression_has_the_type_that_flink_gives_it(expression: str, type_: str) -> None:
    column = _column(expression)
    assert (column.refused, str(column.type)) == ("", type_)


@pytest.mark.parametrize(
    ("expression", "same"),
    [
        ("id + id * 2", "id + (id * 2)"),
        ("NOT id = 1 AND b", "(NOT (id = 1)) AND b"),
        ("b OR b AND id < 1", "b OR (b AND (id < 1))"),
        ("'a' || s = s", "('a' || s) = s"),
        ("id - 1 - 1", "(id - 1) - 1"),
        ("id = 1 IS TRUE", "(id = 1) IS TRUE"),
        ("id BETWEEN 1 AND 2 AND b", "(id BETWEEN 1 AND 2) AND b"),
        ("id BETWEEN ASYMMETRIC 1 AND 2", "id >= 1 AND id <= 2"),
        ("id BETWEEN SYMMETRIC 2 AND 1", "id >= 1 AND id <= 2"),
        ("id != 1", "id <> 1"),
    ],
)
def test_operators_bind_as_in_flink(expression: str, same: str) -> None:
    rows = {"id": [1, 2, 0, None], "b": [True, False, None, True], "s": ["a", "aa", None, ""]}
    assert _values(expression, rows) == _values(same, rows)


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("(id, s) IN ((1, 'a'), (2, 'b'))", [True, False, None, False]),
        ("(id, s) = (1, 'a')", [True, False, None, False]),
        # a part of the rows of a part of the rows
        ("CASE WHEN id > 1 THEN CASE WHEN id > 2 THEN s ELSE 'x' END END", [None, "x", None, "d"]),
        ("CASE WHEN s IS NULL THEN 1 WHEN id > 1 AND s > 'b' THEN id END", [None, 2, 1, 4]),
        ("COALESCE(NULLIF(s, 'a'), CASE WHEN id < 2 THEN s END)", ["a", "c", None, "d"]),
    ],
)
def test_rows_that_are_selected_twice_keep_their_values(expression: str, values: list[Any]) -> None:
    rows = {"id": [1, 2, 1, 4], "b": [True] * 4, "s": ["a", "c", None, "d"]}
    assert _values(expression, rows) == values


def test_a_row_that_is_selected_twice_fails_at_its_place() -> None:
    row = {"id": FlinkType("INT")}
    rows = Rows({"id": pa.array([0, 1, 2, 3], pa.int32())}, row, 4, Session())
    bound = read_expression("CASE WHEN id > 0 THEN CASE WHEN id > 1 THEN 6 / (id - 2) ELSE 5 END END", row)
    assert bound.evaluate(rows).values() == [None, 5, None, 6]
    assert list(rows.failures) == [2]


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
        ("d % 2", "%"),
        ("id = 'a'", "="),
        ("ts < id", "<"),
        ("CAST(n AS TIMESTAMP(3))", "CAST"),
        ("CASE WHEN b THEN id ELSE s END", "CASE"),
        ("RAND(1)", "RAND"),
        ("ROUND(price, id)", "ROUND"),
        ("UPPER(id)", "UPPER"),
        ("CURRENT_WATERMARK(ts)", "CURRENT_WATERMARK"),
        ("ABS(id, n)", "ABS"),
        ("-s", "-"),
        ("s || id", "||"),
        ("id IN ('1', '2')", "IN"),
        ("m['k'] = m['j']", "="),
        ("ARRAY[ROW(id)][1] = ARRAY[ROW(n)][1]", "="),
        ("a[0]", "[...]"),
        ("a['1']", "[...]"),
        ("CASE WHEN id THEN 1 END", "CASE"),
        ("CASE WHEN b THEN NULL END", "CASE"),
        ("TRUNCATE(CAST(id AS TINYINT), 1)", "TRUNCATE"),
        ("ROUND(price, CAST(NULL AS INT))", "ROUND"),
        ("INTERVAL '1' DAY + INTERVAL '1' MONTH", "+"),
        ("INTERVAL '1' DAY * 1.5", "*"),
        ("INTERVAL '1' DAY - ts", "-"),
    ],
)
def test_functions_and_operators_are_refused_by_name(expression: str, named: str) -> None:
    column = _column(expression)
    assert column.type is None
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
        ("(WITH c AS (SELECT 1) SELECT * FROM c)", "is a reserved word"),
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
        ("m.*", "'*'"),
        ("*", "'*'"),
        ("ID + 1", "'ID'"),
        ("nope + 1", "'nope'"),
        ("m['k'].nope", "nope"),
        ("id::STRING", "':'"),
        (":id", "':'"),
        ("?", "'?'"),
        ("{fn UPPER(s)}", "'{'"),
        ("spark_catalog.f(id)", "'('"),
        ("id +", "','"),
        ("s LIKE ANY ('a')", "ANY"),
        ("s COLLATE UNICODE", "'COLLATE'"),
        ("CAST(id AS SECRET)", "'SECRET'"),
        ("CAST(n AS TIMESTAMP(3))", "use TO_TIMESTAMP_LTZ(n, 3) for milliseconds"),
        ("EXTRACT(SECONDS_OF_DAY FROM ts)", "'SECONDS_OF_DAY'"),
        ("INTERVAL 'x'", "','"),
        ("DATE '0000-01-01'", "expected yyyy-MM-dd"),
        ("TIME '24:00:00'", "expected HH:mm:ss"),
        ("TIMESTAMP '2024-01-02 03:04:05.1234567'", "at most 6 digits of a second"),
        ("X'414'", "expected an even number of hexadecimal digits"),
        ("1.23456789012345678901234567890123456789", "a number has at most 38 digits"),
        ("ts + INTERVAL '1-12' YEAR TO MONTH", "is not an interval of YEAR TO MONTH"),
        ("ts + INTERVAL '178956971' YEAR", "longer than the longest interval"),
        ("ts + INTERVAL '106751991168' DAY", "longer than the longest interval"),
        ("TRIM(BOTH 'x')", "')': expected FROM"),
        ("JSON_VALUE(s, '$' NULL ON EMPTY ERROR ON EMPTY)", "ON EMPTY is given twice"),
        ("JSON_OBJECT('a' 1)", "expected 'VALUE'"),
        ("JSON_OBJECT('a')", "expected 'VALUE'"),
        ("NULL", "every value is NULL"),
        ("INTERVAL '1' DAY", "a column of the type INTERVAL"),
        ("ROW(id, INTERVAL '1' MONTH)", "a column of the type INTERVAL"),
    ],
)
def test_unsupported_expressions_are_refused(expression: str, shown: str) -> None:
    column = _column(expression)
    assert column.type is None
    assert shown in column.refused.partition(", at line 1, column ")[0]
    assert ", at line 1, column " in column.refused


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("NULLIF(id, 2)", [1, None, None, 3]),
        ("NULLIF(id, NULLIF(2, id))", [1, 2, None, 3]),
        ("id IS DISTINCT FROM 2", [True, False, True, True]),
        ("2 IS NOT DISTINCT FROM id", [False, True, False, False]),
        ("id IS NOT DISTINCT FROM NULL", [False, False, True, False]),
    ],
)
def test_a_value_that_is_compared_and_returned_is_computed_once(expression: str, values: list[Any]) -> None:
    given, asked = [1, 2, None, 3], list[int]()

    def evaluate(rows: Rows) -> Vector:
        asked.append(rows.length)
        return Vector.of_values(FlinkType("INT"), given)

    bound = read_expression(expression, {"id": FlinkType("INT")}, {"id": Bound(FlinkType("INT"), evaluate)})
    for _ in range(2):  # a batch is computed anew
        assert bound.evaluate(Rows({}, {}, 4, Session())).values() == values
    assert asked == [4] * 2 * expression.count("id")


def test_an_error_has_a_position_and_a_next_step() -> None:
    table = parse_create_table(
        "CREATE TABLE t (\n  s STRING,\n  x AS UPPER(s) ||\n    reflect('java.lang.System', 'exit')\n)"
    )
    assert table.columns[1].refused.startswith("REFLECT: no function that can be evaluated here")
    assert "at line 4, column 5" in table.columns[1].refused


def test_the_depth_of_brackets_is_limited() -> None:
    assert _column("(" * 50 + "id" + ")" * 50).refused == ""
    for opened, closed in (("(", ")"), ("UPPER(", ")"), ("TO_TIMESTAMP_LTZ(", ", 3)"), ("CASE WHEN ", ""), ("m[", "]")):
        assert "nested more than 60 levels deep" in _column(f"{opened * 8000}id{closed * 8000}").refused


def test_the_depth_of_operators_is_limited_but_not_the_number_of_conditions() -> None:
    for count, reason in {150: "", 151: "operators are nested more than 150 levels deep"}.items():
        assert reason in _column(" + ".join(["id"] * count)).refused
        assert (_column(" || ".join(["s"] * count)).refused == "") is (reason == "")
    for sign in ("AND", "OR"):
        assert _column(f" {sign} ".join(["b"] * 1000)).refused == ""


def test_nothing_follows_an_expression_that_stands_alone() -> None:
    with pytest.raises(SchemaError, match="'b': unexpected here"):
        read_expression("id b", {"id": FlinkType("INT")})


def test_columns_can_be_used_before_their_declaration() -> None:
    table = parse_create_table("CREATE TABLE t (x AS price / 2, price DECIMAL(4, 2), z AS x)")
    assert str(table.columns[0].type) == "DECIMAL(15, 13)"
    assert table.columns[2].refused.startswith("'x': not a physical or metadata column")


def test_only_functions_of_the_current_time_use_it() -> None:
    with_time = ("NOW()", "UNIX_TIMESTAMP() - 1", "CASE WHEN CURRENT_DATE > x THEN 1 END")
    assert [uses_current_time(text) for text in with_time] == [True] * 3
    assert [uses_current_time(text) for text in ("UNIX_TIMESTAMP(s)", "`now` + 1", "'NOW()'")] == [False] * 3


def test_the_documentation_names_all_functions() -> None:
    page = (Path(__file__).parents[3] / "docs" / "key-value.md").read_text(encoding="utf-8")
    listed = page.partition("### Computed columns")[2].partition("<!-- end of the functions -->")[0]
    allowed = {name for name in (*functions(), *_SPECIAL_CALLS, *_WITHOUT_BRACKETS) if name.isidentifier()}
    words = set(re.findall(r"[A-Z][A-Z0-9_]*", listed.partition("- numbers")[2])) | {"CAST", "TRY_CAST"}
    assert words - {"E"} == allowed - {"E"}
