"""Jobs of CREATE TABLE ... AS TABLE: what is read, and what is an error, with its place."""

from __future__ import annotations

import contextlib

import pytest

from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.sql.create_as_table import CreateAsTable, followed_by_table, following_tables, read_job
from kvformat.registry.sql.expressions import Expression

_SECRET = "s3same"
_K = f"""CREATE TEMPORARY TABLE k (
  id INT NOT NULL,
  price DOUBLE,
  `ts` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
  `day` AS CAST(ts AS DATE),
  PRIMARY KEY (id) NOT ENFORCED
) WITH ('connector' = 'kafka', 'topic' = 'k', 'properties.sasl.password' = '{_SECRET}', 'format' = 'json');
"""
_T = "CREATE TABLE IF NOT EXISTS lake.t WITH ('connector' = 'delta') AS TABLE k"


def _read(text: str = _T, before: str = _K) -> CreateAsTable:
    (found,) = read_job(f"{before}{text}").tables
    return found


def _error(text: str, before: str = _K) -> str:
    with pytest.raises(SchemaError) as caught:
        read_job(f"{before}{text}")
    assert _SECRET not in str(caught.value)
    return str(caught.value)


def test_a_statement_has_a_target_and_a_followed_table() -> None:
    found = _read()
    assert (found.name, found.options, found.primary_key) == (("lake", "t"), {"connector": "delta"}, ("id",))
    assert (found.line, found.notes, found.added, found.comment) == (8, (), (), "")
    assert found.places == {"": "line 8, column 28", "connector": "line 8, column 41"}
    assert [column.name for column in found.source.table.columns] == ["id", "price", "ts", "day"]
    assert (found.source.name, found.source.places["topic"]) == ("k", "line 7, column 32")


def test_all_clauses() -> None:
    found = _read(
        "create table lake.t (CONSTRAINT c PRIMARY KEY (id, `day`) NOT ENFORCED) COMMENT 'it''s'\n"
        "PARTITIONED BY (`day`) WITH ('connector' = 'delta', 'namespace' = 'n')\n"
        "AS TABLE k /*+ OPTIONS('topic' = 'other', 'scan.startup.mode' = 'latest-offset') */\n"
        "ADD COLUMN (half AS price / 2 COMMENT 'c' FIRST, `next` AS `day` + INTERVAL '1' DAY AFTER id,\n"
        "  x AS COALESCE(y, 1))"
    )
    assert (found.primary_key, found.partition_keys, found.comment) == (("id", "day"), ("day",), "it's")
    assert found.source.table.options["topic"] == "other"
    assert found.source.places["topic"] == "line 10, column 24"
    assert found.source.places["format"].startswith("line 7")
    half, following, x = found.added
    assert (half.name, half.first, half.expression) == ("half", True, Expression("price / 2", parse_type("DOUBLE")))
    assert (following.name, following.after) == ("next", "id")
    assert following.expression == Expression("(CAST(ts AS DATE)) + INTERVAL '1' DAY", parse_type("DATE"))
    assert (x.expression.source, x.place, x.first, x.after) == ("COALESCE(y, 1)", "line 12, column 3", False, "")
    assert found.notes == ("lake.t (line 8, column 14): the table is used if it exists, as with IF NOT EXISTS",)


@pytest.mark.parametrize("before", ["id", "price", "day", "a"])
def test_a_column_is_added_after_a_declared_one_or_one_that_is_added_before_it(before: str) -> None:
    assert [c.after for c in _read(f"{_T} ADD COLUMN a AS 1, b AS 2 AFTER `{before}`").added] == ["", before]


def test_a_followed_table_needs_no_columns_and_its_key_may_be_metadata() -> None:
    options = "WITH ('connector' = 'kafka')"
    for columns in ("", "()"):
        assert _read(before=f"CREATE TABLE k {columns} {options};").source.table.columns == ()
    found = _read(before=f"CREATE TABLE k (`offset` INT METADATA, PRIMARY KEY (`offset`) NOT ENFORCED) {options};")
    assert found.primary_key == ("offset",)
    for text in ("CREATE TABLE k () LIKE b", "CREATE TABLE k LIKE b", "CREATE TABLE k WITH ('format' = 'csv') LIKE b"):
        found = _read(before=f"CREATE TABLE b (id INT) {options};\n{text};")
        assert [column.name for column in found.source.table.columns] == ["id"]
        assert found.source.places["connector"] == "line 1, column 31"


def test_a_bracket_that_is_not_closed_before_with_is_read_as_if_it_was_not_there() -> None:
    found = _read("CREATE TABLE IF NOT EXISTS t(\nWITH ('connector' = 'delta'\n) AS TABLE k;")
    assert (found.name, found.options) == (("t",), {"connector": "delta"})
    assert found.notes == ("t (line 8, column 28): the bracket '(' at line 8, column 29 is not closed: remove it",)
    assert _read("CREATE TABLE IF NOT EXISTS t() WITH ('connector' = 'delta') AS TABLE k").notes == ()


@pytest.mark.parametrize(
    ("before", "name", "target"),
    [
        (_K, "vvp.`default`.k", ("t",)),
        (_K, "`default`.k", ("t",)),
        (_K, "default_catalog.default_database.k", ("t",)),
        (f"USE CATALOG c; USE d; {_K}", "k", ("c", "d", "t")),
        (f"USE d; {_K}", "default_catalog.d.k", ("d", "t")),
        (f"USE CATALOG vvp; USE `default`; {_K}", "vvp.`default`.k", ("vvp", "default", "t")),
        (_K.replace("TABLE k", "TABLE other.k"), "other.k", ("t",)),
    ],
)
def test_names_are_those_of_the_current_catalog(before: str, name: str, target: tuple[str, ...]) -> None:
    found = _read(f"CREATE TABLE IF NOT EXISTS t WITH ('path' = '/') AS TABLE {name}", before)
    assert (found.name, found.source.table.short_name) == (target, "k")


@pytest.mark.parametrize(
    "text",
    [
        "BEGIN STATEMENT SET;\n{0};\n{1};\nEND;",
        "EXECUTE STATEMENT SET\nBEGIN\n{0};\n{1};\nEND;",
        "{0};{1}",
    ],
)
def test_several_statements_may_be_a_set(text: str) -> None:
    job = read_job(_K + text.format(_T, _T.replace("lake.t", "lake.u")))
    assert [table.name[-1] for table in job.tables] == ["t", "u"]


def test_settings_and_statements_without_effect_are_told() -> None:
    before = (
        "SET 'a' = 'it''s';\nSET b = 1 s ; SET;\nCREATE CATALOG c WITH ('x' = 'y'); CREATE DATABASE d;\n"
        "ADD JAR '/a.jar'; DROP TABLE IF EXISTS old; SHOW TABLES;\n"
    )
    job = read_job(before + _K + _T)
    assert (job.settings, job.places) == ({"a": "it's", "b": "1 s"}, {"a": "line 1, column 1", "b": "line 2, column 1"})
    assert job.notes == (
        "CREATE CATALOG at line 3 is not run: the catalogs are those of the Spark session",
        "CREATE DATABASE at line 3 is not run: targets create the namespaces of their tables",
        "ADD at line 4 is not run: functions of the JVM can't be called",
        "SHOW at line 4 is not run",
    )


def test_alter_table_counts_for_the_statements_after_it() -> None:
    job = read_job(f"{_K}{_T};\nALTER TABLE k ADD (x INT)")
    assert [table.source.name for table in job.tables] == ["k"]
    assert job.notes == ("ALTER TABLE at line 9 is not run: the tables are those of the CREATE TABLE statements",)


def test_an_expression_that_cannot_be_evaluated_is_refused_with_its_place() -> None:
    (column,) = _read(f"{_T} ADD COLUMN\n  v AS COALESCE(JSON_VALUE(p, '$.a'), 'x')").added
    assert column.expression == Expression("COALESCE(JSON_VALUE(p, '$.a'), 'x')")  # the type of p is not known
    (column,) = _read(f"{_T} ADD COLUMN\n  v AS COALESCE(JSON_TABLE(p, '$.a'), 'x')").added
    assert column.expression.refused.startswith("JSON_TABLE: no function that can be evaluated here")
    assert "at line 9, column 17: COALESCE( ⟨here⟩ JSON_TABLE(p" in column.expression.refused
    (column,) = _read(f"{_T} ADD COLUMN v AS price + 1 2").added
    assert column.expression.refused.startswith("'2': unexpected here, at line 8, column ")
    (column,) = _read(f"{_T} ADD COLUMN v AS MAP[id, 1]").added
    assert column.expression.refused.startswith("MAP[]: a key may be NULL"), "also if the table declares NOT NULL"
    (column,) = _read(f"{_T} ADD COLUMN v AS").added
    assert column.expression.refused.startswith("expected an expression, at line 8, column ")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "",
            "the text has no CREATE TABLE ... AS TABLE, .* it has CREATE TABLE k .line 1.. To read a Kafka table, use",
        ),
        ("INSERT INTO k SELECT 1", "INSERT is a query, and a job has either .* at line 8, column 1"),
        (f"{_T};\nSELECT 1", "SELECT is not allowed in a job of .* at line 9, column 1"),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO k SELECT 1; END", "EXECUTE is not allowed in a job"),
        ("CREATE DATABASE d WITH ('a' = 'b') AS DATABASE c.e INCLUDING ALL TABLES", "DATABASE ... AS DATABASE is not"),
        ("CREATE OR REPLACE TABLE t AS TABLE k", "OR REPLACE would empty the table at each start.* line 8, column 8"),
        ("CREATE TEMPORARY TABLE t AS TABLE k", "a TEMPORARY table has no rows of its own"),
        ("CREATE TABLE t AS SELECT * FROM k", "only AS TABLE is supported, and no query; .* at line 8, column 19"),
        ("CREATE TABLE t (id INT) AS TABLE k", "only a PRIMARY KEY is allowed here: .* at line 8, column 17"),
        ("CREATE TABLE t (PRIMARY KEY (id)) AS TABLE k", "must be NOT ENFORCED"),
        ("CREATE TABLE t (CONSTRAINT c) AS TABLE k", "is a reserved word|expected PRIMARY KEY"),
        ("CREATE TABLE t DISTRIBUTED BY HASH(id) AS TABLE k", "DISTRIBUTED BY is not supported"),
        ("CREATE TABLE t WITH ('a' 'b') AS TABLE k", "expected '=' after an option, at line 8, column 26$"),
        (
            "CREATE TABLE t AS TABLE kk",
            "AS TABLE: the table 'kk' does not exist before it, only the tables k, .* column 25",
        ),
        ("CREATE TABLE t AS TABLE t", "AS TABLE: the table 't' does not exist before it"),
        (f"CREATE TABLE u AS TABLE k; {_T.replace('TABLE k', 'TABLE u')}", "the table 'u' follows another one itself"),
        (f"{_T} ADD COLUMN", "expected a column name, found the end of the text, at line 8, column"),
        (f"{_T} ADD COLUMN v INT", "ADD COLUMN adds computed columns only: name AS expression"),
        (f"{_T} ADD COLUMN (v AS 1", "expected '\\)'"),
        (f"{_T} ADD COLUMN id AS 1", "there are two columns named 'id', at line 8, column"),
        (f"{_T} ADD COLUMN a AS 1, a AS 2", "there are two columns named 'a'"),
        (f"{_T} ADD COLUMN a AS 1 AFTER b", "AFTER b: the followed table does not declare this column"),
        (f"{_T} ADD COLUMN a AS 1 AFTER b, b AS 2", "AFTER b: the followed table does not declare this column"),
        (f"{_T} ADD COLUMN a AS 1 FIRST AFTER id", "expected ADD COLUMN or the end of the statement, found 'AFTER'"),
        (f"{_T} WHERE 1 = 1", "expected ADD COLUMN or the end of the statement, found 'WHERE', at line 8, column 75"),
        (f"{_T} /*+ OPTIONS('topic' 'x') */", "expected '=' after option 'topic', at line 8, column 95$"),
        (f"{_T} /*+ OPTIONS('topic' = 'x')", r"expected '\*/', found the end of the text"),
        (f"{_T} /*+ SHUFFLE(a) */", "expected 'OPTIONS', found something else"),
        (f"SET a b; {_T}", "expected the name of a setting in single quotes"),
        (f"SET 'a' 'b'; {_T}", "cannot read the SET: expected '='"),
        (f"ALTER TABLE k ADD (x INT); {_T}", "AS TABLE: table 'k' is changed by ALTER TABLE, at line 8"),
    ],
)
def test_errors(text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        read_job(_K + text)
    _error(text)


def test_errors_of_the_followed_table_have_its_place() -> None:
    assert "at line 2, column 6" in _error(_T, _K.replace("id INT", "id IMT"))
    assert "column 'x' of the PRIMARY KEY does not exist, at line 6, column 16" in _error(
        _T, _K.replace("KEY (id)", "KEY (x)")
    )


def test_statements_are_found_without_checking_them() -> None:
    text = f"{_K} CREATE TABLE a.`b c`( WITH ('as table' = 'x') -- AS TABLE y\n as /* */ table vvp.`default`.k ADD;"
    assert following_tables(text) == {"a.`b c`": "vvp.`default`.k"}
    assert following_tables("CREATE TABLE `a``b` . c AS TABLE `d``.e`") == {"`a``b`.c": "`d``.e`"}
    assert following_tables("EXECUTE STATEMENT SET BEGIN CREATE TABLE IF NOT EXISTS a AS TABLE b; END") == {"a": "b"}
    assert following_tables(_K) == {}


def test_of_statements_with_the_same_name_the_last_says_which_table_is_followed() -> None:
    target = ("default_catalog", "default_database", "t")
    text = "CREATE TABLE t AS TABLE a; DROP TABLE t; CREATE TABLE t AS TABLE b"
    assert followed_by_table(text) == {target: "b"}
    assert followed_by_table(f"{text}; DROP TABLE t") == {}
    assert followed_by_table(f"{text}; DROP TABLE t; CREATE TABLE t (id INT)") == {}


def test_each_option_has_the_place_of_its_name_however_that_is_written() -> None:
    names = ("'it''s'", "'a' 'b'", r"U&'k\0065y'", "E'x=y'")
    options = ", ".join(f"{name} = 'v=w'" for name in names)
    text = f"CREATE TABLE IF NOT EXISTS t WITH ({options}) AS TABLE k"
    found = _read(text)
    assert list(found.options) == ["it's", "ab", "key", "x=y"]
    assert found.places.keys() == {"", *found.options}
    columns = [int(found.places[name].rpartition(" ")[2]) for name in found.options]
    assert [text[column - 1 :][: len(name)] for column, name in zip(columns, names, strict=True)] == list(names)


@pytest.mark.parametrize("cut", range(0, 240, 4))
def test_a_text_that_ends_early_is_an_error_or_a_job(cut: int) -> None:
    hint = f"/*+ OPTIONS('topic' = 'x', 'properties.sasl.password' = '{_SECRET}') */"
    whole = f"{_T} {hint} ADD COLUMN (a AS CASE WHEN id > 1 THEN 'x' END AFTER id, b AS m['x'])"
    with contextlib.suppress(SchemaError):
        read_job(_K + whole[:cut])
        return
    _error(whole[:cut])
