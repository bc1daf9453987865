"""Discovery by options and declarations: static and fixed types, names of tables, keys, and types of MySQL."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry import get_format
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.look import LookRequest
from tests.support.looking import Known, as_bytes, columns, look, table

_T = ("topic",)


def _canal(data: list[Any], types: dict[str, str]) -> dict[str, Any]:
    return {"type": "INSERT", "isDdl": False, "database": "d", "table": "t", "data": data, "mysqlType": types}


@pytest.mark.parametrize("part", ["key", "value"])
def test_a_static_type_of_a_known_column_never_changes(part: Any) -> None:
    """A value that it does not hold is read as text; only new columns are added."""
    values = [7, "7", None, 2**40, "x", 7.5]
    messages = pa.array([as_bytes({"v": value, "s": value, "n": 1}) for value in values])
    for as_text, expected in (([], {"v": "as text", "n": "BIGINT"}), (["v"], {"n": "BIGINT"})):
        known: Known = {_T: table("v INT, s STRING", as_text=as_text)}
        for some, other in ((messages, expected), (messages[:3], {"n": "BIGINT"})):
            looker = get_format("json").looker(LookRequest(known, part=part, static=True))
            assert columns(looker.look(some, pa.array(["topic"] * len(some)))) == other


@pytest.mark.parametrize(
    ("value", "name"), [(True, "true"), (False, "false"), (7, "7"), (1.5, "1.5"), ("a.b", "a.b"), ("True", "True")]
)
def test_a_member_names_a_table_by_its_text_in_json(value: Any, name: str) -> None:
    looked = look("json", [{"p": value, "q": {"r": value}}], decode__parser_table_id__fields="p")
    assert looked.tables == ((name,),)
    options: dict[str, Any] = {"infer_schema__flatten_nested_columns__enable": True}
    looked = look("json", [{"q": {"r": value}}], decode__parser_table_id__fields="q.r , q.r", **options)
    assert looked.tables == ((name, name),)


def test_a_key_is_not_flattened_and_names_no_table() -> None:
    """The options of tables are for the values of records: a key has its columns, in the table of its topic."""
    options: dict[str, Any] = {"infer_schema__flatten_nested_columns__enable": True}
    options |= {"infer_schema__primitive_as_string": True, "decode__parser_table_id__fields": "p"}
    found = look("json", [{"a": {"b": 1}, "c": 1}, {"p": "x"}], part="key", **options)
    assert columns(found) == {"a": "STRING", "c": "BIGINT", "p": "STRING"}
    assert (found.tables, found.errors) == ((_T,), {})


@pytest.mark.parametrize(
    ("t", "fits", "other"),
    [
        ("bit(8)", "255", "256"),
        ("bit(9)", "65535", "65536"),
        ("bit(64)", str(2**64 - 1), str(2**64)),
        ("bit(8)", 7, -1),
    ],
)
def test_bits_are_the_numbers_that_their_bytes_hold(t: str, fits: Any, other: Any) -> None:
    for value, expected in ((fits, "BYTES as text"), (0, "BYTES as text"), (None, "BYTES as text"), (other, "STRING")):
        found = look("canal-json", [_canal([{"a": value}], {"a": t})], infer_schema__strategy="MYSQL_TYPE")
        assert columns(found) == {"a": expected}, value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1.50", "DECIMAL(12, 2)"),
        ("9" * 38, "DECIMAL(38, 0)"),
        ("9" * 39, "STRING"),
        ("-0." + "1" * 28, "DECIMAL(38, 28)"),
        ("0." + "1" * 29, "STRING"),
    ],
)
def test_a_decimal_of_more_digits_than_declared_is_as_wide_as_a_decimal_can_be(value: str, expected: str) -> None:
    message = _canal([{"a": "7"}, {"a": value}], {"a": "decimal"})
    assert columns(look("canal-json", [message], infer_schema__strategy="MYSQL_TYPE")) == {"a": expected}


def test_a_fixed_type_goes_before_the_one_that_a_message_declares() -> None:
    message, fixed = _canal([{"a": "1"}], {"a": "int(11)"}), {"a": parse_type("SMALLINT")}
    for given, expected in ((fixed, "SMALLINT"), ({}, "INT")):
        assert columns(look("canal-json", [message], fixed=given, infer_schema__strategy="MYSQL_TYPE")) == {
            "a": expected
        }
