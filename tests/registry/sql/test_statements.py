"""Files of Flink SQL: splitting statements, choosing a table, and LIKE."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kvformat.registry import KeyValueFormat
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.sql.create_table import parse_create_table
from kvformat.registry.sql.statements import created_tables, find_table, statements, table_names
from kvformat.registry.sql.table_definition import TableDefinition
from tests.support import cost, interop

_WITH = "WITH ('connector' = 'kafka', 'topic' = 't;u', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json')"
_FILE = f"""
-- settings; of the job
SET 'execution.checkpointing.interval' = '10 s; or more';
RESET 'x'; ADD JAR '/a.jar';
USE CATALOG default_catalog; /* ; */ USE default_database;
CREATE CATALOG c WITH ('type' = 'generic_in_memory');
DROP TABLE IF EXISTS orders;
CREATE TABLE IF NOT EXISTS orders (id INT COMMENT 'it''s ; a key', `semi;colon` STRING) {_WITH}; // the first; one

create temporary table shop.`Order Items` (id INT) {_WITH};
CREATE TABLE IF NOT EXISTS orders (other STRING) {_WITH};
CREATE VIEW v AS SELECT /*+ OPTIONS('a' = 'b') */ "x", id -> 1 FROM orders;
EXECUTE STATEMENT SET BEGIN
INSERT INTO shop.`Order Items` SELECT id FROM orders;
INSERT OVERWRITE orders VALUES (1, 'a;b');
END;
"""


def test_a_file_is_split_into_statements() -> None:
    found = [(one.kind, one.name, one.line) for one in KeyValueFormat.statements(_FILE)]
    assert found == [
        ("SET", "", 3),
        ("RESET", "", 4),
        ("ADD", "", 4),
        ("USE CATALOG", "default_catalog", 5),
        ("USE", "default_database", 5),
        ("CREATE CATALOG", "c", 6),
        ("DROP TABLE", "orders", 7),
        ("CREATE TABLE", "orders", 8),
        ("CREATE TABLE", "shop.`Order Items`", 10),
        ("CREATE TABLE", "orders", 11),
        ("CREATE VIEW", "v", 12),
        ("EXECUTE", "", 13),
        ("INSERT", "orders", 15),
        ("END", "", 16),
    ]
    assert "10 s" not in repr(statements(_FILE))
    assert statements("") == statements(" ; -- nothing\n;") == ()


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("orders", ["id", "semi;colon"]),
        ("default_database.orders", ["id", "semi;colon"]),
        ("default_catalog.default_database.orders", ["id", "semi;colon"]),
        ("Order Items", ["id"]),
        ("shop.`Order Items`", ["id"]),
    ],
)
def test_a_table_is_chosen_by_its_name(name: str, columns: list[str]) -> None:
    assert [column.name for column in find_table(_FILE, name).columns] == columns
    assert KeyValueFormat.from_ddl(_FILE, table=name)._table == find_table(_FILE, name)


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (_FILE, None, r"creates the tables orders, shop.Order Items: choose one, .*table='orders'\)"),
        (_FILE, "order", "creates no table 'order'. Did you mean 'orders'"),
        (_FILE, "shop.orders", "creates no table 'shop.orders'.* It creates the tables orders, "),
        ("SET 'a' = 'secret'; CREATE VIEW v AS SELECT 1", None, r"no CREATE TABLE; it has SET \(line 1\), CREATE VIEW"),
        ("", None, "no CREATE TABLE; it has no statement"),
        ("CREATE TABLE t (a INT); DROP TABLE t", None, "no CREATE TABLE; it has CREATE TABLE .* DROP TABLE"),
        ("CREATE TABLE a.t (a INT); CREATE TABLE b.t (a INT)", "t", "creates more than one table 't'"),
        ("CREATE TABLE t (a INT);\nCREATE TABLE t (b INT)", "t", "'t' is created at line 1 and again at line 2"),
        ("CREATE TABLE t (a INT);\nALTER TABLE t ADD b INT", None, "changed by ALTER TABLE, at line 2"),
        ("SET x = 'a;\nb", None, "the quote is not closed, at line 1, column 9"),
        ("SET x; `a", None, "the quote is not closed, at line 1, column 8"),
        ("SET x;\n /* a", None, "the comment is not closed, at line 2, column 2"),
        ("SET x;\n hunter2 y", None, "no statement begins like the text at line 2, column 2"),
        ("SET x; 'hunter2'", None, "no statement begins like the text at line 1, column 8"),
        ("SET x;\nCREATE TABLE t (\n a INTT)", None, "unknown type 'INTT'.* at line 3, column 4"),
        ("CREATE TABLE t (a INT) WITH ('k' = 'v') AS SELECT 1", None, "AS takes its columns from a query"),
        ("CREATE TABLE t", None, "expected '\\(', found the end of the text"),
        ("CREATE TABLE t WITH ('k' = 'v')", None, "the table has no columns"),
    ],
)
def test_errors_of_files_are_reported(text: str, name: str | None, message: str) -> None:
    with pytest.raises(SchemaError, match=f"(?s){message}") as caught:
        find_table(text, name)
    assert "hunter2" not in str(caught.value)


def test_an_error_lists_twenty_statements() -> None:
    with pytest.raises(SchemaError, match=r"it has SET \(line 1\), .*, SET \(line 20\)$"):
        find_table("SET x;\n" * 21)


def test_a_later_statement_can_replace_a_table() -> None:
    for text in (
        "CREATE TABLE t (a INT); DROP TABLE t; CREATE TABLE t (b INT)",
        "CREATE TABLE t (a INT); CREATE OR REPLACE TABLE t (b INT)",
        "CREATE TABLE t (a INT); CREATE TEMPORARY TABLE t (b INT)",
        "CREATE TABLE t (a INT); ALTER TABLE t DROP a; DROP TABLE t; CREATE TABLE t (b INT)",
        "CREATE TABLE t (a INT); DROP TABLE t; CREATE TABLE IF NOT EXISTS t (b INT)",
    ):
        assert [column.name for column in find_table(text).columns] == ["b"]
    text = "CREATE TABLE a (x INT); CREATE TABLE b LIKE a; DROP TABLE a; CREATE TABLE a (y INT)"
    assert [column.name for column in find_table(text, "b").columns] == ["x"]
    text = "USE db1; CREATE TABLE t (a INT); USE db2; CREATE TABLE t (b INT); CREATE TABLE u LIKE db1.t"
    assert [column.name for column in find_table(text, "db2.t").columns] == ["b"]
    assert [column.name for column in find_table(text, "u").columns] == ["a"]


@pytest.mark.parametrize("after", ["", "; DROP TABLE k; CREATE TABLE k (c INT)"])
def test_alter_table_counts_for_the_statements_after_it_until_the_table_is_created_again(after: str) -> None:
    create, change, like = "CREATE TABLE k (a INT)", "ALTER TABLE k ADD b INT", "CREATE TABLE t LIKE k"
    assert [column.name for column in find_table(f"{create}; {like};\n{change}{after}", "t").columns] == ["a"]
    for text in (f"{create};\n{change}; {like}{after}", f"{create};\n{change};\n{change}; {like}{after}"):
        with pytest.raises(SchemaError, match=f"'k' is changed by ALTER TABLE, at line {text.count(change) + 1},"):
            find_table(text, "t")
    if after:
        assert [column.name for column in find_table(f"{create}; {change}{after}", "k").columns] == ["c"]


def test_given_options_replace_those_of_the_table_and_none_removes_one() -> None:
    given = {"format": "csv", "topic": None, "csv.ignore-parse-errors": "true", "absent": None}
    assert find_table(_TABLE, options=given).options == {
        "connector": "kafka", "properties.bootstrap.servers": "b:9092", "format": "csv",
        "csv.ignore-parse-errors": "true",
    }  # fmt: skip


def test_use_catalog_of_the_default_catalog_sets_its_database() -> None:
    text = f"CREATE TABLE t (a INT) {_WITH}; USE db; USE CATALOG default_catalog; DROP TABLE t; CREATE TABLE t (b INT)"
    assert [column.name for column in find_table(text, "default_catalog.default_database.t").columns] == ["b"]
    assert find_table(f"USE CATALOG; USE; CREATE TABLE t (a INT) {_WITH}").name == "t"
    assert table_names("USE db; USE CATALOG c; CREATE TABLE t (a INT)") == {"c.t": ("c", "", "t")}


# --- client commands -----------------------------------------------------------------------------------------

_TABLE = f"CREATE TABLE t (a INT) {_WITH}"


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("SET state.checkpoints.dir = s3://bucket/x", "SET"),
        ("set execution.checkpointing.interval=10 s", "SET"),
        ("SET state.checkpoints.dir =\n  file:///tmp/x", "SET"),
        ("SET pipeline.name = it's Bob's -- 50% /* off", "SET"),
        ("SET pipeline.name = 'a; b // c'", "SET"),
        ("SET pipeline.name = 'a;\n b'", "SET"),
        ("SET pipeline.classpaths = 'file:///a.jar', 'file:///b.jar;c'", "SET"),
        ("SET 'pipeline.name' = s3://a", "SET"),
        ("SET 'pipeline.name' = 'it''s; one' // a comment; with a semicolon\n", "SET"),
        ("SET 'a' /* ; */ = -- ;\n 'b'", "SET"),
        ("SET U&'a\\003b' = E'it\\'s;'", "SET"),
        ("SET 'a' = 'b' 'c;'", "SET"),
        ("SET", "SET"),
        ("RESET state.checkpoints.dir", "RESET"),
        ("RESET 'a;b'", "RESET"),
        ("ADD JAR hdfs:///x.jar", "ADD"),
        ("ADD JARS https://repo/a.jar s3://b/c.jar", "ADD"),
        ("ADD JAR 'a;b.jar'", "ADD"),
        ("remove jar hdfs:///x.jar", "REMOVE"),
        ("USE CATALOG default_catalog", "USE CATALOG"),
        ("LOAD MODULE hive WITH ('hive-version' = '3;1')", "LOAD"),
        ("UNLOAD MODULE core", "UNLOAD"),
        ("USE MODULES hive, core", "USE MODULES"),
        ("SHOW CREATE TABLE t", "SHOW"),
        ("EXPLAIN\nCREATE TABLE x AS SELECT 1", "EXPLAIN"),
        ("explain create table x as select 1", "EXPLAIN"),
    ],
)
@pytest.mark.parametrize("between", [";\n", "; ", ";", ";\r\n", ";; -- a comment; of a line\n"])
def test_a_command_ends_at_its_semicolon_whatever_is_in_it(command: str, kind: str, between: str) -> None:
    text = f"{command}{between}{_TABLE}{between}{command}"
    assert [one.kind for one in statements(text)] == [kind, "CREATE TABLE", kind]
    assert find_table(text).name == "t"


@pytest.mark.parametrize(
    "statement",
    ["SET a = s3://b/x", "SET 'a' = 'b'", "SET", "RESET", "ADD JAR hdfs:///x.jar", "ADD JAR 'x.jar'", "USE db",
     "LOAD MODULE m", "INSERT INTO s VALUES ('a;b')", "CREATE TABLE s (a INT) WITH ('k' = 'v')",
     "CREATE VIEW v AS SELECT 1"],
)  # fmt: skip
@pytest.mark.parametrize("between", ["\n", "\r\n", " -- x\n  ", " "])
@pytest.mark.parametrize("create", ["CREATE", "create  or\nreplace", "CREATE TEMPORARY"])
def test_a_missing_semicolon_before_a_table_is_an_error_and_hides_no_table(
    statement: str, between: str, create: str
) -> None:
    """Flink's SQL client, too, refuses the two statements as one."""
    text = f"SELECT 1;\n{statement}{between}{_TABLE.replace('CREATE', create)}"
    with pytest.raises(SchemaError, match=r"a ; is missing after the statement at line 2, column 1, .* at line [234]"):
        find_table(text)


@pytest.mark.parametrize("following", ["DROP TABLE t", "SET x = y", "INSERT INTO t SELECT 1", "use db", "END"])
def test_a_missing_semicolon_after_a_command_is_an_error(following: str) -> None:
    with pytest.raises(SchemaError, match=r"a ; is missing after the statement at line 1, column 1, .* at line 2"):
        statements(f"SET a = s3://b/x\n{following};")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(SELECT 1); ((WITH a AS (SELECT 1) SELECT * FROM a))", [("SELECT", ""), ("WITH", "")]),
        ("TABLE t; MERGE INTO t USING s ON TRUE; VALUES (1)", [("TABLE", ""), ("MERGE", ""), ("VALUES", "")]),
        ("REPLACE TABLE a.t AS SELECT 1", [("REPLACE TABLE", "a.t")]),
        ('CREATE TABLE U&"a\\003b" (a INT); USE $db', [("CREATE TABLE", "`a;`"), ("USE", "$db")]),
        ("CREATE TABLE db.U&\"a!003b\" UESCAPE '!' (a INT)", [("CREATE TABLE", "db.`a;`")]),
        ("SELECT /*+ OPTIONS('path' = '/a/*/b;c') */ * FROM t; END", [("SELECT", ""), ("END", "")]),
        ("SELECT '//', \"it's\"; END", None),
        ("INSERT INTO t SELECT E'it\\'s; // -- /*', 'http://x;', NAME'y' FROM s; END", [("INSERT", "t"), ("END", "")]),
        ("SELECT 1 /***/; SELECT 2 /* */; END", [("SELECT", ""), ("END", "")]),
        ("SELECT 1 -- x\r; END", [("SELECT", ""), ("END", "")]),
        ("DROP MATERIALIZED TABLE IF EXISTS a.t; END", [("DROP MATERIALIZED TABLE", "a.t"), ("END", "")]),
        ("CREATE MODEL m; CREATE CONNECTION c; END", [("CREATE MODEL", "m"), ("CREATE CONNECTION", "c"), ("END", "")]),
    ],
)
def test_statements_end_where_flink_ends_them(text: str, found: list[tuple[str, str]] | None) -> None:
    if found is None:
        with pytest.raises(SchemaError, match="the quote is not closed"):
            statements(text)
    else:
        assert [(one.kind, one.name) for one in statements(text)] == found


def test_a_table_with_escapes_in_its_name_is_chosen_by_its_name() -> None:
    text = f'CREATE TABLE U&"t\\0031" (a INT) {_WITH}; CREATE TABLE t2 LIKE U&"t!0031" UESCAPE \'!\''
    assert find_table(text, "t1").columns == find_table(text, "t2").columns


def test_a_replaced_table_has_the_columns_of_its_query() -> None:
    with pytest.raises(SchemaError, match="AS takes its columns from a query"):
        find_table(f"CREATE TABLE t (a INT) {_WITH}; REPLACE TABLE t {_WITH} AS SELECT 1 AS b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SET a = 'b", "the quote is not closed, at line 1, column 9"),
        ("()", "no statement begins like the text at line 1, column 1"),
        ("(", "no statement begins like the text"),
        ("ADD JAR 'x' hunter2 'y", "the quote is not closed, at line 1, column 21"),
    ],
)
def test_errors_of_commands_are_reported(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message) as raised:
        statements(text)
    assert "hunter2" not in str(raised.value)


# --- LIKE ----------------------------------------------------------------------------------------------------


def _plain(table: TableDefinition) -> TableDefinition:
    """Return the table without the spelling of its expressions."""
    return replace(table, columns=tuple(replace(column, source="") for column in table.columns))


@pytest.mark.parametrize("case", interop.likes(), ids=lambda case: case["like"])
def test_like_copies_the_same_parts_as_in_flink(case: interop.Case) -> None:
    text = f"{case['bases']}; CREATE TABLE l {case['like']}"
    if case["error"] is not None and "Unknown identifier" in case["error"]:
        assert find_table(text, "l").columns[-1].refused  # decode reports it
    elif case["error"] is not None:
        with pytest.raises(SchemaError, match="at line 1, column"):
            find_table(text, "l")
    else:
        assert _plain(find_table(text, "l")) == _plain(parse_create_table(case["flink"]))


def test_like_of_like_and_of_another_database() -> None:
    text = f"""
        CREATE TABLE shop.base (id INT, PRIMARY KEY (id) NOT ENFORCED) {_WITH};
        CREATE TABLE first_one (n STRING) WITH ('topic' = 'one') LIKE shop.base (EXCLUDING CONSTRAINTS);
        CREATE TABLE two (x AS UPPER(n)) WITH ('topic' = 'two', 'scan.startup.mode' = 'earliest-offset')
        LIKE first_one"""
    kv = KeyValueFormat.from_ddl(text, table="two")
    assert (kv.value_schema.names, kv.options["topic"], kv.options["connector"]) == (["id", "n"], "two", "kafka")
    assert eval(repr(kv), {"KeyValueFormat": KeyValueFormat}) == kv
    for base, message in (("nope", "only the tables .*first_one, two"), ("three", "only the tables")):
        with pytest.raises(SchemaError, match=f"LIKE: the table does not exist before it, {message}"):
            find_table(f"{text}; CREATE TABLE three LIKE {base}", "three")
    with pytest.raises(SchemaError, match="LIKE: the text creates no table before it: put the CREATE TABLE"):
        find_table(f"CREATE TABLE t (id INT) {_WITH} LIKE u")
    chain = "".join(f"; CREATE TABLE t{i} LIKE t{i - 1}" for i in range(1, 60))
    assert find_table(f"CREATE TABLE t0 (a INT){chain}", "t50").columns[0].name == "a"
    with pytest.raises(SchemaError, match="more than 50 tables are LIKE one another in a chain"):
        find_table(f"CREATE TABLE t0 (a INT){chain}", "t51")


@cost.at_most(20)
def test_a_huge_file_is_parsed_in_linear_time() -> None:
    tables = "".join(f"CREATE TABLE t{i} (a INT) {_WITH};\n" for i in range(20_000))
    again = "DROP TABLE t0; CREATE TABLE t0 (a INT);" * 20_000
    assert find_table(tables + again, "t19999").name == "t19999"
    for text in (
        "SET x;" * 100_000,
        "SET x = '" + "a" * 1_000_000,
        "SET 'x' = " * 100_000,
        "SET " + "'x' " * 100_000 + "x",
        "SELECT E'" + "\\'" * 100_000,
        "CREATE " * 100_000,
        "U&" * 100_000,
        "/**/" * 100_000,
        "/***/" * 100_001,
        "/*" * 100_000,
        "-" * 100_001,
        "`" * 100_001,
        "(" * 100_000,
    ):
        with pytest.raises(SchemaError):
            find_table(text)


@pytest.mark.parametrize("action", ["DO NOTHING", "DO ERROR", "DO DEDUPLICATE"])
def test_on_conflict_belongs_to_an_insert(action: str) -> None:
    """Flink 2.3 requires it if the upsert key of a query is not the primary key of its table."""
    columns = "id INT, PRIMARY KEY (id) NOT ENFORCED"
    table = "'connector' = 'upsert-kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b:9092'"
    table = f"CREATE TABLE t ({columns}) WITH ({table}, 'key.format' = 'json', 'value.format' = 'json')"
    text = f"{table}; INSERT INTO t SELECT id FROM s ON CONFLICT {action}; INSERT INTO t SELECT 1 on conflict {action}"
    found = [(one.kind, one.name) for one in statements(text)]
    assert found == [("CREATE TABLE", "t"), ("INSERT", "t"), ("INSERT", "t")]
    assert KeyValueFormat.from_ddl(text).primary_key == ("id",)
    with pytest.raises(SchemaError, match="ON CONFLICT is a clause of INSERT INTO"):
        KeyValueFormat.from_ddl(table.replace("NOT ENFORCED", f"NOT ENFORCED ON CONFLICT {action}"))


def test_a_byte_order_mark_is_reported() -> None:
    with pytest.raises(SchemaError, match=r"byte order mark \(U\+FEFF\).*utf-8-sig"):
        KeyValueFormat.from_ddl("\ufeff" + _FILE)


@pytest.mark.parametrize(
    "text",
    ["job.sql", " my jobs/Orders.SQL\n", "/home/me/job", "./job", "../job", "~/job", "C:\\jobs", "a.txt"],
)
def test_a_path_is_not_parsed_as_text(text: str) -> None:
    with pytest.raises(SchemaError, match=r"is the path of a file.*Path\(\.\.\.\)\.read_text"):
        KeyValueFormat.from_ddl(text)
    with pytest.raises(SchemaError, match=r"not \w*Path: read it"):
        KeyValueFormat.from_ddl(Path(text))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["DESCRIBE orders.sql", "// a.sql\n", "/* a.sql */", "SELECT 'a'", "USE a.sql", ""])
def test_a_text_that_is_not_a_path_is_reported(text: str) -> None:
    with pytest.raises(SchemaError, match="the text has no CREATE TABLE"):
        KeyValueFormat.from_ddl(text)


def test_all_tables_of_a_text_by_the_parts_of_their_names() -> None:
    found = created_tables("CREATE TABLE db.t (a INT);\n-- a comment\nCREATE TABLE `a.b` (c STRING);")
    assert {name: str(table.physical()) for name, table in found.items()} == {
        ("db", "t"): "ROW<`a` INT> NOT NULL",
        ("a.b",): "ROW<`c` STRING> NOT NULL",
    }
    assert created_tables(" ; ") == {}
    assert created_tables("CREATE TABLE `d``b`.`t``` (a INT)").keys() == {("d`b", "t`")}


def test_the_names_of_tables_choose_them() -> None:
    text = """CREATE TABLE t (a INT); CREATE TABLE db.t (b INT); USE db; CREATE TABLE u (c INT);
        CREATE TABLE gone (d INT); DROP TABLE gone; CREATE TABLE cat.db.v (e INT); CREATE TABLE `w.x` (f INT);
        USE default_database; CREATE TABLE alone (g INT); CREATE TABLE cat.db.t (h INT)"""
    found = table_names(text)
    assert found == {
        "default_database.t": ("default_catalog", "default_database", "t"),
        "db.t": ("default_catalog", "db", "t"),
        "db.u": ("default_catalog", "db", "u"),
        "cat.db.v": ("cat", "db", "v"),
        "db.w.x": ("default_catalog", "db", "w.x"),
        "alone": ("default_catalog", "default_database", "alone"),
        "cat.db.t": ("cat", "db", "t"),
    }
    for name, full in found.items():
        if full[-1] != "w.x":
            assert table_names(text, [name]) == {name: full}
    assert table_names(text, ["w.x", "u"]) == {name: found[name] for name in ("db.w.x", "db.u")}
    with pytest.raises(SchemaError, match="creates more than one table 't'"):
        table_names(text, ["t"])
    with pytest.raises(SchemaError, match=r"creates no table 'gone'.* It creates the tables t, db\.t"):
        table_names(text, ["gone"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("CREATE TABLE t (a INT);\nDROP TABLE t", "only CREATE TABLE is allowed here, not DROP TABLE, at line 2"),
        ("CREATE TABLE t (a INT);\nCREATE TABLE t (a INT)", "table 't' is created twice, again at line 2"),
        ("CREATE TABLE t (a INT);\nCREATE TABLE u LIKE t", "LIKE needs the CREATE TABLE of its base table"),
        ("CREATE TABLE t (a NT)", "unknown type 'NT'"),
    ],
)
def test_a_text_of_tables_has_nothing_else(text: str, reason: str) -> None:
    with pytest.raises(SchemaError) as caught:
        created_tables(text)
    assert reason in str(caught.value)
