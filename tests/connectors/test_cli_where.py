"""Conditions of `tail --where` on rows, without a topic."""

from __future__ import annotations

from typing import Any

import click
import pytest

from kvformat.connectors.cli._row_filter import Conditions
from kvformat.connectors.cli._table import ShownTable, of_format

SCHEMA = """id INT, big BIGINT, name STRING, price DECIMAL(30, 2), ratio DOUBLE, flag BOOLEAN, `a.b` INT, `x=y` INT,
    place ROW<x INT, inner_ ROW<y STRING>>, moment TIMESTAMP_LTZ(3), local_ TIMESTAMP(6), day_ DATE, at_ TIME(3),
    tags ARRAY<INT>, shares MAP<STRING, ARRAY<DOUBLE>>, few FLOAT, data BYTES, span INTERVAL DAY TO SECOND"""
ROW: dict[str, Any] = {
    "id": 7,
    "big": 9_007_199_254_740_993,
    "name": "n7",
    "price": "10000000000000000000000.01",
    "ratio": 0.1,
    "flag": True,
    "a.b": 5,
    "x=y": 6,
    "place": {"x": 3, "inner_": {"y": "deep"}},
    "moment": "2024-02-29T12:00:00.123Z",
    "local_": "2024-02-29T12:00:00.123456",
    "day_": "2024-02-29",
    "at_": "12:00:00.5",
    "tags": [1, 2],
    "shares": {"a": [0.1, 2.0]},
    "few": 0.1,
    "data": "/w==",
    "span": 5,
}


@pytest.fixture(scope="module")
def table() -> ShownTable:
    return of_format("json", SCHEMA, {}, ["offset", "timestamp"])


def holds(table: ShownTable, *conditions: str, kind: str = "+I", **row: Any) -> bool:
    return Conditions(conditions, table).hold(ROW | {"offset": 4, "timestamp": "2024-02-29T12:00:00.123Z"} | row, kind)


@pytest.mark.parametrize("value", [6, 7, 8])
@pytest.mark.parametrize(
    ("sign", "wanted"),
    [("=", (0, 1, 0)), ("!=", (1, 0, 1)), ("<", (0, 0, 1)), ("<=", (0, 1, 1)), (">", (1, 0, 0)), (">=", (1, 1, 0))],
)
def test_operators_at_their_boundary(sign: str, wanted: tuple[int, ...], value: int, table: ShownTable) -> None:
    assert holds(table, f"id {sign} {value}") is bool(wanted[value - 6])
    assert holds(table, f"id{sign}{value}") is bool(wanted[value - 6]), "without blanks"


@pytest.mark.parametrize(
    "condition",
    [
        "big > 9007199254740992",  # as DOUBLE these are equal
        "big < 9007199254740994",
        "price = 10000000000000000000000.01",
        "price > 10000000000000000000000",
        "price < 10000000000000000000000.02",
        "ratio = 0.1",
        "ratio < Infinity",
        "ratio >= 0.1",
        "ratio > 0",
        "few = 0.1",
        "few < 1e1",
        'shares = {"a": [0.1, 2.0]}',
        'shares != {"a": [0.1, 2.1]}',
        "flag = true",
        "flag != false",
        "name = n7",
        "name = 'n7'",
        'name = "n7"',
        "name < n8",
        "name ~ ^n.$",
        "name ~ 7",
        "id ~ ^7$",
        "`a.b` = 5",
        "a.b = 5",
        "`x=y` = 6",
        "place.x = 3",
        "place.inner_.y = deep",
        "moment = 2024-02-29T12:00:00.123Z",
        "moment = 2024-02-29T17:45:00.123+05:45",
        "moment > 2024-02-29T12:00:00.122Z",
        "moment < 2024-02-29T12:00:00.124Z",
        "local_ = 2024-02-29 12:00:00.123456",
        "local_ > 2024-02-29T12:00:00.123455",
        "day_ < 2024-03-01",
        "at_ >= 12:00:00.500",
        "tags = [1, 2]",
        "data = /w==",
        "span >= 5",
        "offset = 4",
        "timestamp < 2024-02-29T12:00:00.124Z",
        "name != null",
    ],
)
def test_values_are_compared_by_the_type_of_their_column(condition: str, table: ShownTable) -> None:
    assert holds(table, condition)


@pytest.mark.parametrize(
    "condition", ["name ~ ^7", "name = N7", "name = null", "tags = [1]", "place.x = 4", "ratio < NaN", "ratio > 0.1"]
)
def test_conditions_that_do_not_hold(condition: str, table: ShownTable) -> None:
    assert not holds(table, condition)


@pytest.mark.parametrize(
    ("column", "far", "usual"),
    [
        ("moment", 2**62, "2024-02-29T12:00:00Z"),
        ("local_", 2**62, "2024-02-29T12:00:00"),
        ("day_", 2**30, "2024-02-29"),
    ],
)
def test_days_and_times_that_no_calendar_has_are_compared(column: str, far: int, usual: str, table: ShownTable) -> None:
    """PostgreSQL's infinity is one, and is shown as a number."""
    assert holds(table, f"{column} > {usual}", f"{column} != {usual}", **{column: far})
    assert holds(table, f"{column} < {usual}", **{column: -far})
    assert not holds(table, f"{column} = {usual}", **{column: far})


def test_all_conditions_must_hold(table: ShownTable) -> None:
    assert holds(table, "id = 7", "name = n7")
    assert not holds(table, "id = 7", "name = n8")
    assert not holds(table, "id = 8", "name = n7")
    assert holds(table)


@pytest.mark.parametrize("sign", ["=", "!=", "<", ">=", "~"])
def test_a_comparison_with_a_null_is_false(sign: str, table: ShownTable) -> None:
    assert not holds(table, f"id {sign} 7", id=None)
    assert not holds(table, f"place.inner_.y {sign} deep", place={"x": 1, "inner_": None})
    assert not holds(table, f"place.x {sign} 3", place=None)


@pytest.mark.parametrize("pattern", [".*", "None", "^$", "null"])
def test_a_pattern_does_not_match_null(pattern: str, table: ShownTable) -> None:
    assert not holds(table, f"name ~ {pattern}", name=None)
    assert not holds(table, f"place.inner_.y ~ {pattern}", place=None)


def test_null_is_compared_by_name(table: ShownTable) -> None:
    assert holds(table, "id = null", id=None)
    assert not holds(table, "id != null", id=None)
    assert holds(table, "place.inner_.y = null", place=None)
    assert holds(table, "name = 'null'", name="null")
    assert not holds(table, "name = null", name="null")


def test_a_row_does_not_depend_on_the_row_before_it(table: ShownTable) -> None:
    """The same conditions are used for all rows; a row without a field has a NULL."""
    conditions = Conditions(["place.x = 3"], table)
    rows = [{"place": {"x": 3}}, {"place": {}}, {"place": None}, {}, {"place": {"x": 3}}]
    assert [conditions.hold(row, "+I") for row in rows] == [True, False, False, False, True]


def test_row_kinds_are_conditions_of_tables_with_changes() -> None:
    changes = of_format("debezium-json", "id INT", {})
    for kind in ("+I", "-U", "+U", "-D"):
        assert Conditions([f"row_kind = {kind}"], changes).hold({"id": 1}, kind)
        assert not Conditions([f"row_kind != {kind}"], changes).hold({"id": 1}, kind)
    assert not Conditions(["row_kind = -D"], changes).hold({"id": 1}, "+I")
    with pytest.raises(click.BadParameter, match=r"row_kind is = or != one of \+I, \+U, -D, -U, not < '-D'"):
        Conditions(["row_kind < -D"], changes)
    own = of_format("debezium-json", "row_kind STRING", {})
    assert Conditions(["row_kind = x"], own).hold({"row_kind": "x"}, "+I"), "a column of this name"


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("id", "is not a condition: write COLUMN OP VALUE"),
        ("id == 7", "field 'id': INT is written as a whole number"),
        ("idd = 1", "there is no column 'idd'. Did you mean 'id'?"),
        ("id = x", "field 'id'"),
        ("id = 1.5", "INT is written as a whole number"),
        ("id = 2147483648", "is beyond the range of INT"),
        ("price = 1.005", "fits its precision and scale"),
        ("name < null", "< null is never true"),
        ("name ~ (", "is not a regular expression"),
        ("place.y = 1", "there is no column 'place.y'"),
        ("id.x = 1", "there is no column 'id.x'"),
        ("row_kind = +I", "there is no column 'row_kind'"),
        ("moment = 2024-02-29T12:00:00", 'such as "2024-02-29T23:59:59.123Z"'),
    ],
)
def test_invalid_conditions_are_refused(condition: str, words: str, table: ShownTable) -> None:
    with pytest.raises(click.BadParameter) as raised:
        Conditions([condition], table)
    assert words in raised.value.message
