"""Discovery: the contribution of each format's messages to the schemas of their tables."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs.discovery.text_forms import AT_LEAST_ONE, FRACTIONS, GROUPED, TRIMMED, forms_of
from kvformat.registry import get_format
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.look import KnownTable, LookRequest, SeenKey
from tests.support.looking import Known, as_bytes, columns, look, merged, table, types_of

_T = ("topic",)


# --- values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "BOOLEAN"),
        (5, "BIGINT"),
        (2**63 - 1, "BIGINT"),
        (-(2**63), "BIGINT"),
        (2**63, "DECIMAL(20, 0)"),
        (10**24, "DECIMAL(25, 0)"),
        (10**37, "DECIMAL(38, 0)"),
        (10**38, "STRING"),
        (1.0, "DOUBLE"),
        (1e300, "DOUBLE"),
        ("x", "STRING"),
        ("", "STRING"),
        ("5", "STRING"),
        ("2024-02-29", "DATE"),
        ("2023-02-29", "STRING"),
        ("12:00:00", "STRING"),
        ("2024-02-29 12:00:00", "TIMESTAMP(0)"),
        ("2024-02-29 12:00:00.1", "TIMESTAMP(3)"),
        ("2024-02-29 12:00:00.1234", "TIMESTAMP(6)"),
        ("2024-02-29 12:00:00.123456789", "STRING"),
        ("2024-02-29 12:00:00.123Z", "TIMESTAMP_LTZ(3)"),
        ("2024-02-29T12:00:00", "STRING"),
        ({"x": 1}, "STRING"),
        ([1], "STRING"),
    ],
)
def test_type_of_a_value(value: Any, expected: str) -> None:
    looked = look("json", [{"v": value}])
    assert columns(looked) == {"v": expected}
    assert looked.tables == (_T,)
    assert looked.indices.to_pylist() == [0]


@pytest.mark.parametrize(
    ("values", "types"),
    [((5, 6, "x"), ["STRING"]), (("x", 5), ["STRING"]), ((5, 6), ["BIGINT"]), ((5, True, 6), ["BIGINT", "BOOLEAN"])],
)
def test_a_column_has_each_type_once_and_text_alone(values: tuple[Any, ...], types: list[str]) -> None:
    (column,) = look("json", [{"v": value} for value in values]).columns
    assert [*map(str, column.types)] == types


@pytest.mark.parametrize(
    ("t", "text", "known"),
    [
        ("DECIMAL(5, 2)", "0", True),
        ("DECIMAL(5, 2)", "-0", False),
        ("DECIMAL(5, 2)", "-0.00", False),
        ("DECIMAL(5, 2)", "-0.10", True),
        ("DECIMAL(5, 2)", "007", False),
        ("DECIMAL(5, 2)", "1e2", False),
        ("INT", "-0", False),
        ("INT", "-7", True),
        ("BOOLEAN", "1", True),
        ("BOOLEAN", "True", False),
        ("TIMESTAMP(3)", "2024-02-29T12:00", False),
        ("TIMESTAMP(3)", "2024-02-29T12:00:00", True),
        ("TIMESTAMP_LTZ(3)", "2024-02-29T12:00Z", False),
        ("TIMESTAMP_LTZ(3)", "2024-02-29T12:00:00Z", True),
        ("TIMESTAMP_LTZ(6)", "2024-02-29T12:00:00.1234567Z", False),
    ],
)
def test_a_text_that_its_value_cannot_give_back_has_no_form(t: str, text: str, known: bool) -> None:
    assert bool(forms_of(text, parse_type(t))) is known


@pytest.mark.parametrize(
    ("fraction", "fixed", "others"),
    [
        ("", 0, TRIMMED | GROUPED),
        (".5", 1, TRIMMED | AT_LEAST_ONE),
        (".0", 1, AT_LEAST_ONE),
        (".50", 2, 0),
        (".05", 2, TRIMMED | AT_LEAST_ONE),
        (".500", 3, GROUPED),
        (".005", 3, TRIMMED | GROUPED | AT_LEAST_ONE),
        (".000", 3, 0),
        (".120000", 6, 0),
        (".120500", 6, GROUPED),
        (".000001", 6, TRIMMED | GROUPED | AT_LEAST_ONE),
    ],
)
def test_a_text_has_the_forms_of_the_digits_after_its_point(fraction: str, fixed: int, others: int) -> None:
    found = forms_of(f"12:00:00{fraction}", parse_type("TIME(6)"))
    assert found & FRACTIONS == 1 << fixed | others


def test_timestamps_of_the_other_standard() -> None:
    found = look("json", [{"v": "2024-02-29T12:00:00Z"}], given={"timestamp-format.standard": "ISO-8601"})
    assert columns(found) == {"v": "TIMESTAMP_LTZ(0)"}


def test_primitives_of_values_as_strings() -> None:
    row = {"a": 1, "b": True, "c": "2024-02-29", "d": None}
    for format, message in (("json", row), ("debezium-json", _debezium(**row))):
        found = look(format, [message], infer_schema__primitive_as_string=True)
        assert columns(found) == {"a": "STRING", "b": "STRING", "c": "STRING"}
        found = look(format, [message], infer_schema__primitive_as_string=True, part="key")
        assert columns(found) == {"a": "BIGINT", "b": "BOOLEAN", "c": "DATE"}


@pytest.mark.parametrize(
    ("known", "value", "expected"),
    [
        ("INT", 5, None),
        ("INT", 2**31, "BIGINT"),
        ("INT", "5", None),
        ("BIGINT", "5", "STRING"),
        ("BIGINT", 1.5, "DOUBLE"),
        ("DOUBLE", 5, None),
        ("DOUBLE", 2**64, "DECIMAL(20, 0)"),
        ("FLOAT", 1.1, None),
        ("FLOAT", 1.123456789, "DOUBLE"),
        ("DECIMAL(10, 2)", 12.25, None),
        ("DECIMAL(10, 2)", "12.25", None),
        ("DECIMAL(10, 2)", 12.255, "DOUBLE"),
        ("DECIMAL(20, 0)", 2**64, None),
        ("DECIMAL(20, 0)", 10**21, "DECIMAL(22, 0)"),
        ("DECIMAL(20, 0)", 1.0, "DOUBLE"),
        ("STRING", {"x": 1}, None),
        ("VARCHAR(3)", "abc", None),
        ("VARCHAR(3)", "abcd", "STRING"),
        ("VARCHAR(3)", 12, None),
        ("VARCHAR(4)", True, None),
        ("VARCHAR(4)", False, "BOOLEAN"),
        ("VARCHAR(5)", False, None),
        ("TINYINT", 127, None),
        ("TINYINT", 128, "BIGINT"),
        ("SMALLINT", -(2**15), None),
        ("SMALLINT", -(2**15) - 1, "BIGINT"),
        ("INT", 2**31 - 1, None),
        ("BIGINT", -(2**63), None),
        ("BIGINT", -(2**63) - 1, "DECIMAL(20, 0)"),
        ("DOUBLE", -(2**63), None),
        ("FLOAT", 1e39, "DOUBLE"),
        ("DECIMAL(38, 0)", 10**38 - 1, None),
        ("DECIMAL(38, 0)", 10**38, "STRING"),
        ("DECIMAL(37, 0)", 10**37, "DECIMAL(38, 0)"),
        ("TIME(3)", "12:00:00", None),
        ("TIME(3)", "12:00:00.123", None),
        ("TIME(6)", "12:00:00.1234", "STRING"),
        ("TIME(0)", "12:00:00.1", "STRING"),
        ("TIMESTAMP(3)", "2024-02-29 12:00:00.123", None),
        ("TIMESTAMP(3)", "2024-02-29 12:00:00.1234", "TIMESTAMP(6)"),
        ("BOOLEAN", 1, "BIGINT"),
        ("BOOLEAN", "true", "STRING"),
        ("DATE", "2024-02-29", None),
        ("DATE", "2024-02-29 12:00:00", "TIMESTAMP(0) as text"),
        ("TIMESTAMP(3)", "2024-02-29", "DATE as text"),
        ("TIMESTAMP(9)", "2024-02-29", "as text"),
        ("TIMESTAMP(3)", "2024-02-29 12:00:00.123456", "TIMESTAMP(6)"),
        ("TIMESTAMP(3)", "2024-02-29 12:00:00Z", "TIMESTAMP_LTZ(0) as text"),
        ("TIMESTAMP_LTZ(3)", "2024-02-29 12:00:00", "as text"),
        ("TIMESTAMP_LTZ(3)", "2024-02-29 12:00:00.123Z", None),
        ("BYTES", "YWJj", None),
        ("BYTES", "a", "STRING"),
        ("ARRAY<INT>", [1], None),
        ("ARRAY<INT>", ["x"], "STRING"),
        ("ARRAY<INT>", [True], "STRING"),
        ("ARRAY<INT>", [[1]], "STRING"),
        ("ARRAY<BOOLEAN>", [1], "STRING"),
        ("MAP<STRING, INT>", {"x": {"y": 1}}, "STRING"),
        ("ROW<a INT, b STRING>", {"a": 1, "b": None}, None),
        ("ROW<a INT, b STRING>", {"b": "x"}, None),
        ("ROW<a INT, b STRING>", {"a": 1, "c": 2}, "STRING"),
        ("ROW<a INT, b STRING>", {"a": "x"}, "STRING"),
        ("ROW<a INT, b STRING>", [], "STRING"),
    ],
)
def test_a_value_that_fits_changes_nothing(known: str, value: Any, expected: str | None) -> None:
    tables = {_T: table(f"v {known}")}
    assert columns(look("json", [{"v": value}], known=tables)).get("v") == expected
    assert columns(look("json", [{"v": None}], known=tables)) == {}


def test_a_number_of_many_characters_that_fits_changes_nothing() -> None:
    message = b'{"v":1e' + b"0" * 500 + b"1}"
    assert columns(look("json", [message])) == {"v": "DOUBLE"}
    assert columns(look("json", [message], known={_T: table("v DOUBLE")})) == {}


def test_a_column_that_is_read_as_text_stays_so() -> None:
    known = {_T: table("v TIMESTAMP(9)", as_text=["v"])}
    assert not columns(look("json", [{"v": "2024-02-29"}, {"v": "2024-02-29 12:00:00"}], known=known))


def test_fixed_types() -> None:
    fixed = {"v": parse_type("INT")}
    assert columns(look("json", [{"v": 7}], fixed=fixed)) == {"v": "INT"}
    assert columns(look("json", [{"v": "x"}], fixed=fixed)) == {"v": "INT as text"}
    assert columns(look("json", [{"v": None}], fixed=fixed)) == {}
    for value, expected in ((7, {}), ("7", {}), ("x", {"v": "as text"}), (7.5, {"v": "as text"})):
        assert columns(look("json", [{"v": value}], fixed=fixed, known={_T: table("v INT")})) == expected
    as_text = {_T: table("v INT", as_text=["v"])}
    assert columns(look("json", [{"v": 7.5}, {"v": "x"}], fixed=fixed, known=as_text)) == {}


# --- json ----------------------------------------------------------------------------------------------------


def test_json_tables_and_bad_messages() -> None:
    looked = look("json", [{"a": 1}, b"{", None, b"null", [{"a": 1}, {"b": 2}]], topic="a.b.c.d")
    assert looked.tables == (("a.b.c.d",),)
    assert looked.indices.to_pylist() == [0, 0, None, None, 0]
    assert [(c.name, c.message, c.place) for c in looked.columns] == [("a", 0, 0), ("b", 4, 1)]
    assert not looked.errors


def test_a_member_that_spark_does_not_tell_from_a_column_is_an_error_of_its_message() -> None:
    known = {("topic",): table("id INT, maße INT")}
    messages = [{"id": 1}, {"Id": 1}, {"ID": None, "masse": 2}, {"id": 1, "iD": 2}, {"MAßE": 3}, {"new": 1}]
    found = look("json", messages, known=known)
    assert found.errors.keys() == {1, 3, 4}
    assert found.errors[1] == (
        "[UNEXPECTED_FIELD] the member 'Id' and the column 'id' differ in upper and lower case only, which Spark does "
        "not tell apart"
    )
    assert columns(found) == {"masse": "BIGINT", "new": "BIGINT"}
    assert found.indices.to_pylist() == [0, None, 0, None, None, 0]
    for request in (
        LookRequest(known, static=True),
        LookRequest(known, part="key"),
    ):
        assert not get_format("json").looker(request).look(pa.array([b'{"Id": 1}']), pa.array(["topic"])).errors


def test_json_tables_by_members() -> None:
    messages = [{"p": "a.b", "q": 1}, {"p": "x"}, {"p": True, "q": None}, [{"p": 1, "q": 2}, {"p": 1, "q": 3}], b"{"]
    looked = look("json", messages, decode__parser_table_id__fields="p, q")
    assert looked.tables == (("a.b", "1"),)
    assert looked.indices.to_pylist() == [0, None, None, None, None]
    assert [looked.errors[i].partition("]")[0] for i in range(1, 5)] == ["[TABLE_ID"] * 3 + ["[MALFORMED"]


@pytest.mark.parametrize("name", ["", " ", "\ud800"])
def test_a_text_that_cannot_name_a_table(name: str) -> None:
    """Such a message is a bad record, and does not stop the job."""
    row = {"id": 1}
    messages: dict[str, Any] = {
        "json": {"p": name},
        "debezium-json": {"op": "c", "after": row, "source": {"db": "d", "table": name}},
        "canal-json": {"type": "INSERT", "database": "d", "table": name, "data": [row]},
        "maxwell-json": {"type": "insert", "database": "d", "table": name, "data": row},
        "ogg-json": {"op_type": "I", "table": f"d.{name}", "after": row},
    }
    for format, message in messages.items():
        options = {"decode__parser_table_id__fields": "p"} if format == "json" else {}
        looked = look(format, [message, b'{"p": "t"}'], **options)
        assert looked.errors[0].startswith("[TABLE_ID]"), format
        assert looked.tables == ((("t",),) if format == "json" else ())
    no_schema = {"op": "c", "after": row, "source": {"db": "d", "schema": "\ud800", "table": "t"}}
    assert look("debezium-json", [no_schema]).errors[0].startswith("[TABLE_ID]")


def test_flattened_columns() -> None:
    options = {"infer_schema__flatten_nested_columns__enable": True}
    found = look("json", [{"a": {"b": {"c": 1}, "d": []}, "e": {}}], **options)
    assert columns(found) == {"a.b.c": "BIGINT", "a.d": "STRING"}
    found = look("json", [{"a": {"": 1, " ": {"x": 1}, "b": 2}, "": {"c": 3}}], **options)
    assert columns(found) == {"a.b": "BIGINT"}, "a member without a name is no column at any level"
    found = look("json", [{"a": {"b.c": 1}}, {"a": {"t": "x"}}], decode__parser_table_id__fields="a.t", **options)
    assert found.indices.to_pylist() == [None, 0] or set(found.errors) == {0}


# --- change data ---------------------------------------------------------------------------------------------


def _debezium(table: str = "t", **row: Any) -> dict[str, Any]:
    return {"before": None, "after": row, "op": "c", "source": {"db": "d", "table": table}}


def test_debezium_messages() -> None:
    with_schema = _debezium(id=1)
    with_schema["source"]["schema"] = "public"
    truncate = {"before": None, "after": None, "op": "t", "source": {"db": "d", "table": "t"}}
    others = [{"ts_ms": 1}, {"status": "BEGIN", "id": "1", "event_count": None}, None, b"", {"op": "m"}]
    looked = look("debezium-json", [_debezium(id=1, v="x"), with_schema, truncate, *others])
    assert looked.tables == (("d", "t"), ("d", "public", "t"))
    assert looked.indices.to_pylist() == [0, 1, 0] + [None] * 5
    assert looked.changes == {2: "truncate"}
    assert not looked.errors


def test_debezium_messages_without_a_table() -> None:
    messages: list[Any] = [{"before": None, "after": {"a": 1}, "op": "c", "source": {}}, b"{", {"x": 1}]
    looked = look("debezium-json", messages)
    assert [looked.errors[i].partition("]")[0] for i in range(3)] == ["[TABLE_ID", "[MALFORMED", "[MISSING_FIELD"]
    lenient = look("debezium-json", messages, given={"ignore-parse-errors": "true"})
    assert set(lenient.errors) == {0}
    without_source = look("debezium-json", [{"before": None, "after": {"a": 1}, "op": "c"}])
    assert without_source.tables == (("topic",),)


def test_debezium_columns_of_both_rows() -> None:
    message = {**_debezium(id=1, w=2), "before": {"id": 1, "v": 1.5}, "op": "u"}
    assert columns(look("debezium-json", [message])) == {"id": "BIGINT", "v": "DOUBLE", "w": "BIGINT"}


def _wrapped(fields: list[dict[str, Any]], **row: Any) -> dict[str, Any]:
    image = {"type": "struct", "field": "after", "fields": fields}
    return {"schema": {"type": "struct", "fields": [image]}, "payload": _debezium(**row)}


def test_debezium_declared_types() -> None:
    parameters = {"scale": "2", "connect.decimal.precision": "10"}
    fields = [
        {"type": "int32", "field": "id"},
        {"type": "int32", "name": "io.debezium.time.Date", "field": "d"},
        {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": parameters, "field": "p"},
    ]
    given = {"schema-include": "true", "types": "debezium"}
    looked = look("debezium-json", [_wrapped(fields, id=1, d=19000, p="AfQ=")], given=given)
    assert columns(looked) == {"id": "INT", "d": "DATE", "p": "DECIMAL(10, 2)"}
    known = {("d", "t"): table("id BIGINT, d DATE, p DECIMAL(12, 2)")}
    assert not look("debezium-json", [_wrapped(fields, id=1, d=None, p="AfQ=")], given=given, known=known).columns


@pytest.mark.parametrize(("name", "unit"), [("Time", 10**3), ("MicroTime", 10**6), ("NanoTime", 10**9)])
def test_a_time_that_is_not_one_of_a_day_makes_its_column_text(name: str, unit: int) -> None:
    fields = [{"type": "int64", "name": f"io.debezium.time.{name}", "field": "t"}]
    given = {"schema-include": "true", "types": "debezium"}
    good = [_wrapped(fields, t=value) for value in (0, None, 86_400 * unit - 1)]
    looked = look("debezium-json", good, given=given)
    (time,) = columns(looked).values()
    assert time.startswith("TIME(")
    known = merged({}, looked)
    for bad in (-1, 86_400 * unit):
        found = look("debezium-json", [*good, _wrapped(fields, t=bad), *good], given=given, known=known)
        assert columns(found) == {"t": "STRING"}
    assert not look("debezium-json", good, given=given, known=known).columns


def test_rows_alone_name_their_table_or_are_those_of_their_topic() -> None:
    def tables(topic: str, *rows: dict[str, Any] | None, known: Known | None = None) -> list[Any]:
        looked = look("debezium-json", rows, given={"flattened": "true"}, topic=topic, known=known)
        return [None if i is None else looked.tables[i] for i in looked.indices.to_pylist()]

    row = {"id": 1, "__op": "c", "__table": "alt"}
    assert tables("pg.def.alt", row) == [("pg.def.alt",)], "tables of two schemas have this name"
    assert tables("all", row, {**row, "__table": "x"}) == [("all", "alt"), ("all", "x")]
    named = {**row, "__db": "shop", "__schema": "def"}
    assert tables("pg.def.alt", named, None, b"null") == [("shop", "def", "alt")] * 3  # type: ignore[arg-type]
    assert tables("pg.def.alt", None, {"id": 1}) == [("pg.def.alt",)] * 2
    known = {("shop", "full", "alt"): table("id BIGINT"), ("shop", "def", "alt"): table("id BIGINT")}
    assert tables("pg.def.alt", None, known=known) == [("shop", "def", "alt")]


def test_a_record_without_a_value_deletes_a_row_of_the_table_that_its_topic_tells() -> None:
    def looked(topic: str, *rows: dict[str, Any] | None, known: Known | None = None) -> tuple[list[Any], list[str]]:
        found = look("debezium-json", rows, given={"flattened": "true"}, topic=topic, known=known)
        return [None if i is None else found.tables[i] for i in found.indices.to_pylist()], list(found.errors.values())

    alt, x = ({"id": 1, "__op": "c", "__db": "shop", "__schema": "def", "__table": name} for name in ("alt", "x"))
    names = {row["__table"]: ("shop", "def", row["__table"]) for row in (alt, x)}
    of_alt = {names["alt"]: table("id BIGINT")}
    assert looked("all", None) == ([("all",)], []), "no table is named otherwise than its topic"
    assert looked("all", None, known={("pg.b",): table("id BIGINT")}) == ([("all",)], [])
    cases = [((alt, x, None), None), ((None, x), of_alt), ((alt, None), None), ((None,), of_alt), ((alt, None), of_alt)]
    for rows, known in cases:
        tables, errors = looked("all", *rows, known=known)
        assert [place is None for place in tables] == [row is None for row in rows]
        assert [error.partition(", but ")[0] for error in errors] == [
            "[TABLE_ID] the record has no value, so it deletes a row"
        ]
    marked = ({**row, "__deleted": "false"} for row in (alt, x))
    assert looked("all", *marked, None) == ([names["alt"], names["x"], None], []), "rows say what is deleted"
    assert looked("pg.def.x", None, alt, known=of_alt)[0] == [None, names["alt"]]
    assert looked("pg.def.x", None, x, alt, known=of_alt)[0] == [names["x"], names["x"], names["alt"]]
    routed = {("all", "alt"): table("id BIGINT"), **of_alt}
    assert looked("all", None, known=routed) == ([("all", "alt")], [])


def test_keys_of_debezium_are_looked_at_without_their_schemas() -> None:
    key = {"schema": {"type": "struct", "fields": [{"type": "int32", "field": "id"}]}, "payload": {"id": 7}}
    value = get_format("debezium-json", {"schema-include": "true", "types": "debezium"})
    looker = value.for_key(get_format("json", {})).looker(LookRequest(part="key"))
    looked = looker.look(pa.array([as_bytes(key)]), pa.array(["t"]))
    assert columns(looked) == {"id": "INT"}


def test_null_in_the_wrapper_of_connect_is_a_record_without_a_value() -> None:
    null, row = {"schema": None, "payload": None}, {"id": 1, "__op": "c"}
    wrapped = {"schema": None, "payload": row}
    given = {"flattened": "true", "schema-include": "true"}
    found = look("debezium-json", [null, wrapped, None], given=given, topic="x")
    assert [found.tables[i] for i in found.indices.to_pylist()] == [("x",)] * 3
    assert (dict(found.errors), columns(found)) == ({}, {"id": "BIGINT"})


def _canal(**more: Any) -> dict[str, Any]:
    message = {"database": "d", "table": "t", "type": "INSERT", "isDdl": False, "data": [], "old": None}
    return {**message, **more}


def test_canal_messages() -> None:
    messages = [
        _canal(data=[{"id": "1"}, {"id": "2", "v": "2024-02-29"}], pkNames=["id"]),
        _canal(type="ALTER", isDdl=True),
        _canal(type="TRUNCATE", isDdl=True),
        _canal(type="ERASE", isDdl=True),
        _canal(table="other", data=[{"w": "1"}]),
        _canal(database=None),
        _canal(type="CREATE", isDdl=True),
    ]
    looked = look("canal-json", messages, given={"table.include": "t"})
    assert looked.tables == (("d", "t"),)
    assert looked.indices.to_pylist() == [0, None, 0, 0, None, None, None]
    assert looked.changes == {2: "truncate", 3: "drop"}
    assert columns(looked) == {"id": "STRING", "v": "DATE"}
    assert looked.keys == (SeenKey(("d", "t"), ("id",), 0),)
    assert not look("canal-json", messages[:1], known={("d", "t"): table("id INT, v DATE", key=("id",))}).keys


def test_canal_types_of_mysql() -> None:
    types = {
        "a": "tinyint(1)",
        "b": "bigint(20) unsigned",
        "c": "decimal(10,2)",
        "d": "datetime(3)",
        "e": "timestamp",
        "f": "varchar(20)",
        "g": "blob",
        "h": "date",
        "i": "enum('x','y')",
        "j": "time(6)",
        "k": "bit(8)",
        "l": "year",
    }
    row = {"a": "1", "b": "7", "c": "1.50", "d": "2024-02-29 12:00:00.123", "e": "2024-02-29 12:00:00", "f": "x"}
    row |= {"g": "\u00ff", "h": "0000-00-00", "i": "x"}
    looked = look("canal-json", [_canal(data=[row | dict.fromkeys("jkl")], mysqlType=types)],
                  infer_schema__strategy="MYSQL_TYPE")  # fmt: skip
    assert columns(looked) == {
        "a": "BOOLEAN as text",
        "b": "DECIMAL(20, 0)",
        "c": "DECIMAL(10, 2)",
        "d": "TIMESTAMP(3)",
        "e": "TIMESTAMP(0)",
        "f": "VARCHAR(20)",
        "g": "BYTES as text",
        "h": "STRING",
        "i": "STRING",
        "j": "TIME(3)",
        "k": "BYTES as text",
        "l": "INT",
    }
    options = {
        "infer-schema.strategy": "MYSQL_TYPE",
        "mysql.treat-mysql-timestamp-as-datetime-enabled": False,
        "mysql.treat-tinyint1-as-boolean.enabled": False,
    }
    looked = look("canal-json", [_canal(data=[row], mysqlType=types)],
                  given={"bytes.encoding": "ISO-8859-1"}, **options)  # fmt: skip
    found = columns(looked)
    assert (found["a"], found["e"], found["g"]) == ("TINYINT", "TIMESTAMP_LTZ(0) as text", "BYTES")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-02-29 12:00:00", "TIMESTAMP(0)"),
        ("2024-02-29T12:00:00", "TIMESTAMP(0) as text"),
        ("2024-02-29", "TIMESTAMP(0) as text"),
        ("2024-02-29 12:00:00.5", "STRING"),
        ("0000-00-00 00:00:00", "STRING"),
    ],
)
def test_declared_timestamps_are_read_in_both_standards(text: str, expected: str) -> None:
    message = _canal(data=[{"v": text}], mysqlType={"v": "datetime"})
    found = columns(look("canal-json", [message], **{"infer-schema__strategy": "MYSQL_TYPE"}))
    assert found == {"v": expected}


def test_canal_types_of_jdbc() -> None:
    types = {"a": -7, "b": -5, "c": 3, "d": 93, "e": 12, "f": 92, "g": 999}
    looked = look("canal-json", [_canal(data=[dict.fromkeys("abcdefg")], sqlType=types)],
                  infer_schema__strategy="SQL_TYPE")  # fmt: skip
    found = ["BOOLEAN", "BIGINT", "DECIMAL(38, 18)", "TIMESTAMP(6)", "STRING", "TIME(3)", "STRING"]
    assert columns(looked) == dict(zip("abcdefg", found, strict=True))
    looked = look("canal-json", [_canal(data=[{"a": "1"}])], infer_schema__strategy="SQL_TYPE")
    assert "AUTO" in looked.errors[0]
    assert looked.errors[0].startswith("[MISSING_FIELD]")


def test_declared_types_merge_in_any_order_and_any_batches() -> None:
    texts = ("time", "time(3)", "datetime", "datetime(3)", "timestamp(6)", "date", "int", "bigint", "decimal(5,2)")
    texts = (*texts, "double", "float", "char(3)", "varchar(3)", "varchar(9)", "bit(1)", "blob")
    texts = (*texts, "decimal(37,0)", "decimal(38,0)", "decimal(38,1)", "tinyint(1)", "year", "bigint unsigned")
    options = {"infer_schema__strategy": "MYSQL_TYPE"}
    for one, other in itertools.product(texts, repeat=2):
        messages = [_canal(data=[{"v": None}], mysqlType={"v": t}) for t in (one, other)]
        together = merged({}, look("canal-json", messages, **options))
        apart: Known = {}
        for message in messages:
            apart = merged(apart, look("canal-json", [message], known=apart, **options))
        assert together["d", "t"].columns == apart["d", "t"].columns, f"{one}, {other}"


def test_canal_numbers_of_a_declared_table() -> None:
    known = {("d", "t"): table("id INT, p DECIMAL(10, 2)")}
    assert not columns(look("canal-json", [_canal(data=[{"id": "5", "p": "1.25"}])], known=known))
    found = look("canal-json", [_canal(data=[{"id": "5000000000", "p": "x"}])], known=known)
    assert columns(found) == {"id": "BIGINT", "p": "STRING"}


def test_maxwell_messages() -> None:
    update = {"database": "d", "table": "t", "type": "update", "data": {"id": 1, "v": 2.5}, "old": {"w": None}}
    messages = [
        {**update, "primary_key_columns": ["id"]},
        {"database": "d", "table": "t", "type": "table-drop"},
        {"database": "d", "table": "t", "type": "bootstrap-start", "data": {}},
        {**update, "type": "bootstrap-insert"},
    ]
    looked = look("maxwell-json", messages)
    assert looked.indices.to_pylist() == [0, 0, None, 0]
    assert looked.changes == {1: "drop"}
    assert columns(looked) == {"id": "BIGINT", "v": "DOUBLE"}
    assert looked.keys == (SeenKey(("d", "t"), ("id",), 0),)


def test_ogg_messages() -> None:
    row = {"table": "S.T", "op_type": "I", "after": {"id": 1}, "primary_keys": ["id"]}
    looked = look("ogg-json", [row, {**row, "table": "A.B.C.D"}, {**row, "op_type": "T"}, {**row, "table": "A.B.C"}])
    assert looked.tables == (("S", "T"), ("A", "B", "C"))
    assert looked.indices.to_pylist() == [0, None, 0, 1]
    assert looked.changes == {2: "truncate"}
    assert looked.errors[1].startswith("[TABLE_ID]")


def test_formats_without_names() -> None:
    assert columns(look("csv", [b"1,a", b"2,b"])) == {"f0": "INT", "f1": "STRING"}
    assert columns(look("raw", [b"text"])) == {"value": "STRING"}


# --- order ---------------------------------------------------------------------------------------------------

_VALUES: tuple[Any, ...] = (
    None, True, False, 1, -5, 2**40, 2**63, 10**25, 10**37, 10**40, 1.5, 1e30, "x", "", "5", "true", "2024-02-29",
    "2024-02-29 12:00:00", "2024-02-29 12:00:00.123", "2024-02-29 12:00:00.123456789", "2024-02-29 12:00:00Z",
    "2024-02-29T12:00:00.123456Z", "2024-02-29T12:00:00", "24:00", {"x": 1}, [1], {}, "0000-00-00",
)  # fmt: skip


def _row(chance: random.Random) -> dict[str, Any]:
    names = chance.sample("abcdefg", chance.randint(0, 5))
    spread = chance.randint(1, len(_VALUES))
    return {name: chance.choice(_VALUES[-spread:]) for name in names}


def _message(format: str, chance: random.Random) -> Any:
    table = chance.choice("tu")
    if format == "json":
        return _row(chance)
    if format == "debezium-json":
        return {**_debezium(table, **_row(chance)), "before": _row(chance), "op": "u"}
    row = {"database": "d", "table": table}
    if format == "maxwell-json":
        return {**row, "type": "update", "data": _row(chance), "old": _row(chance)}
    texts = [{name: v if v is None else str(v) for name, v in _row(chance).items()} for _ in range(2)]
    return {**row, "type": "INSERT", "data": texts}


@pytest.mark.parametrize("format", ["json", "debezium-json", "maxwell-json", "canal-json"])
def test_one_look_finds_what_many_find(format: str) -> None:
    """The columns, their order and their types do not depend on how messages are divided into batches and tasks."""
    compared = 0
    for seed in range(60):
        chance = random.Random(f"{format} {seed}")
        messages = [_message(format, chance) for _ in range(chance.randint(1, 12))]
        whole = merged({}, look(format, messages))
        one_by_one: Known = {}
        for message in messages:
            one_by_one = merged(one_by_one, look(format, [message], known=one_by_one))
        assert types_of(one_by_one) == types_of(whole), messages
        assert [list(t.columns) for t in one_by_one.values()] == [list(t.columns) for t in whole.values()]
        middle = len(messages) // 2
        apart: Known = {}
        for looked in [look(format, messages[:middle]), look(format, messages[middle:])]:
            apart = merged(apart, looked)
        assert types_of(apart) == types_of(whole), messages
        assert not look(format, messages, known=whole).columns, messages
        compared += sum(len(t.columns) for t in whole.values())
    print(f"{format}: {compared} columns compared")
    assert compared > 200


# --- recordings ----------------------------------------------------------------------------------------------


def test_a_thousand_columns_are_not_a_table() -> None:
    """A message with too many names, or with a huge one, is a bad record and adds nothing."""
    many = {f"n{i}": 1 for i in range(100_000)}
    looked = look("json", [many, {"a": 1}, {"x" * 5000: 1}])
    assert columns(looked) == {"a": "BIGINT"}
    assert [looked.errors[i].partition("]")[0] for i in (0, 2)] == ["[TOO_LARGE"] * 2
    assert looked.indices.to_pylist() == [None, 0, None]


@pytest.mark.parametrize(
    ("known", "counts", "bad"), [(4_999, [1], []), (5_000, [1], [0]), (4_998, [1, 1, 1], [2]), (4_998, [3, 2], [0])]
)
def test_a_table_has_at_most_5000_columns(known: int, counts: list[int], bad: list[int]) -> None:
    there = KnownTable({f"k{n}": parse_type("BIGINT") for n in range(known)})
    looked = look("json", [{f"n{i}_{n}": 1 for n in range(c)} for i, c in enumerate(counts)], known={_T: there})
    assert [*looked.errors] == bad
    assert looked.indices.to_pylist() == [None if n in bad else 0 for n in range(len(counts))]
    assert {column.message for column in looked.columns} == {*range(len(counts))} - {*bad}


def test_a_column_has_a_name_of_at_most_1024_characters() -> None:
    assert [*look("json", [{"x" * 1024: 1}, {"x" * 1025: 1}]).errors] == [1]
    there = KnownTable({f"k{n}": parse_type("BIGINT") for n in range(4_998)})
    looked = look("json", [{"a": 1, "x" * 1025: 1}, {"b": 1}], known={_T: there})
    assert [*looked.errors] == [0], "the columns of a message that is refused do not count"


def test_a_message_whose_table_cannot_be_told_has_its_own_error() -> None:
    good = _debezium(id=1)
    nameless = {"op": "c", "after": {"a": 1}, "source": {"db": "d"}}
    looked = look("debezium-json", [good, b"{", good, nameless, good])
    assert {at: error.partition("]")[0] for at, error in looked.errors.items()} == {1: "[MALFORMED", 3: "[TABLE_ID"}
    assert looked.indices.to_pylist() == [0, None, 0, None, 0]


def test_a_key_is_that_of_the_first_message_that_has_it() -> None:
    messages = [
        _canal(data=[{"id": "1"}]),
        *(_canal(data=[{"id": "1"}], pkNames=names) for names in (["id"], ["v"], ["id"])),
    ]
    assert {key.names: key.message for key in look("canal-json", messages).keys} == {("id",): 1, ("v",): 2}


@pytest.mark.parametrize(("levels", "name"), [(31, "a"), (32, "a"), (33, "a")])
def test_objects_are_flattened_down_to_32_levels(levels: int, name: str) -> None:
    message: Any = 1
    for _ in range(levels):
        message = {name: message}
    (found,) = columns(look("json", [message], infer_schema__flatten_nested_columns__enable=True)).items()
    assert found == (".".join([name] * min(levels, 32)), "BIGINT" if levels <= 32 else "STRING")


def test_places_of_columns_count_over_the_rows_of_a_message() -> None:
    looked = look("json", [[{"a": 1, "b": 1}, {"c": 1}], {"d": 1}])
    assert [(c.name, c.message, c.place) for c in looked.columns] == [
        ("a", 0, 0),
        ("b", 0, 1),
        ("c", 0, 2),
        ("d", 1, 0),
    ]


def test_deep_and_hostile_messages() -> None:
    deep = b'{"a":' + b"[" * 900 + b"]" * 900 + b"}"
    nested = b'{"a":' * 900 + b"1" + b"}" * 900
    too_deep = b"[" * 100_000
    for options in ({}, {"infer_schema__flatten_nested_columns__enable": True}):
        looked = look("json", [deep, nested, too_deep, b'{"":1," ":2}', b'{"a":1,"a":"x"}'], **options)
        assert set(looked.indices.to_pylist()) == {0}
        assert "" not in columns(looked)


def test_bytes_of_a_message_do_not_matter() -> None:
    message = {"a": 1, "b": "2024-02-29"}
    utf16 = json.dumps(message).encode("utf-16")
    assert columns(look("json", [utf16])) == columns(look("json", [as_bytes(message)]))


_SOURCE = {"db": "d", "table": "t"}


@pytest.mark.parametrize(
    ("format", "given", "message", "reason"),
    [
        ("debezium-json", {}, {"op": "c", "after": '{"_id": 1}'}, "field 'after': cannot read"),
        ("debezium-json", {}, {"op": "c", "after": [1]}, "field 'after': cannot read an array as ROW"),
        ("debezium-json", {}, {"op": "i", "after": {"id": {"value": 1}}}, "field 'op': unknown value \"i\""),
        ("debezium-json", {}, {"op": "C", "after": {"id": 1}}, "field 'op': unknown value \"C\""),
        ("debezium-json", {"flattened": "true"}, {"op": "c", "after": {"id": 1}}, "set 'flattened' to false"),
        (
            "maxwell-json",
            {},
            {"database": "d", "table": "t", "type": "put", "data": {"id": 1}},
            "field 'type': unknown",
        ),
        (
            "maxwell-json",
            {},
            {"database": "d", "table": "t", "type": "insert", "data": "x"},
            "field 'data': cannot read",
        ),
        (
            "canal-json",
            {},
            {"database": "d", "table": "t", "type": "INSERT", "data": {"id": "1"}},
            "field 'data': cannot",
        ),
    ],
)
def test_a_message_that_is_no_change_has_the_error_of_decoding(
    format: str, given: dict[str, str], message: dict[str, Any], reason: str
) -> None:
    """It names its table, but a table without columns can't report what is wrong with its messages."""
    found = look(format, [message | ({"source": _SOURCE} if format == "debezium-json" else {})], given=given)
    assert list(found.errors) == [0]
    assert reason in found.errors[0]
    assert not found.columns


@pytest.mark.parametrize(
    ("statement", "table", "change"),
    [
        ("DROP TABLE `t`", "t", "drop"),
        ("drop table if exists d.t", "t", "drop"),
        ("/* by hand */ TRUNCATE TABLE t", "t", "truncate"),
        ("truncate t", "t", "truncate"),
        ("DROP DATABASE d", "", None),
        ("ALTER TABLE t DROP COLUMN c", "t", None),
        ("ALTER TABLE t TRUNCATE PARTITION p", "t", None),
        ("CREATE TABLE t (id INT)", "t", None),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_statements_of_debezium_that_empty_their_table(
    statement: str, table: str, change: str | None, wrapped: bool
) -> None:
    """TiCDC sends them among the rows."""
    source = {"db": "d", "table": table}
    message: Any = {"source": source, "ts_ms": 1, "databaseName": "d", "schemaName": None, "ddl": statement}
    message = {"schema": None, "payload": message} if wrapped else message
    found = look("debezium-json", [message], given={"schema-include": str(wrapped).lower()})
    assert dict(found.changes) == ({} if change is None else {0: change})
    assert found.tables == (() if change is None else (("d", "t"),))
    assert not found.errors
    flat = look("debezium-json", [message], given={"flattened": "true", "schema-include": str(wrapped).lower()})
    assert not flat.changes
