"""Conversions of wire values to column values: the parts of nested values, slices, and the errors of rows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kvformat.codecs._conversions import EachValue, Nested, RefusedValues, RowErrors
from kvformat.codecs._decimals import decimal_parser
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.error_codes import ErrorCode, Reason

_NUMBER = EachValue(parse_type("DECIMAL(5, 2)"), "text", decimal_parser(5, 2))
_LIST = Nested(parse_type("ARRAY<DECIMAL(5, 2)>"), "text", {"element": _NUMBER})
_MAP = Nested(parse_type("MAP<STRING, DECIMAL(5, 2)>"), "text", {"value": _NUMBER})
_ROW = Nested(
    parse_type("ROW<a DECIMAL(5, 2), l ARRAY<DECIMAL(5, 2)>, m MAP<STRING, DECIMAL(5, 2)>, s STRING>"),
    "text",
    {"a": _NUMBER, "l": _LIST, "m": _MAP},
)
_TEXT = pa.string()
_WIRE = pa.struct({"a": _TEXT, "l": pa.list_(_TEXT), "m": pa.map_(_TEXT, _TEXT), "s": _TEXT})
_ROWS: list[Any] = [
    {"a": "1", "l": ["2", None, "3"], "m": [("k", "4"), ("x", None)], "s": "5"},
    {"a": "x", "l": ["1", "y"], "m": [("k", "z")], "s": "x"},
    None,
    {"a": None, "l": None, "m": None, "s": None},
    {"a": "6", "l": [], "m": [], "s": ""},
    {"a": "7", "l": ["8"], "m": [("k", "?"), ("x", "9")], "s": "s"},
    {"a": "7", "l": ["8", "1", "!"], "m": [("k", "1")], "s": "s"},
]


def _wanted(value: Any) -> Any:
    return Decimal(value) if value is not None and value.isdigit() else None


@pytest.mark.parametrize("start", range(len(_ROWS)))
def test_each_part_is_converted_and_the_first_bad_one_is_the_error_of_its_row(start: int) -> None:
    for count in range(1, len(_ROWS) - start + 1):
        wire, errors = pa.array(_ROWS, _WIRE).slice(start, count), RowErrors()
        found = _ROW.convert(wire, "", lambda rows: rows, errors)
        found.validate(full=True)
        assert found.to_pylist() == [
            row
            and {
                "a": _wanted(row["a"]),
                "l": row["l"] and [*map(_wanted, row["l"])] if row["l"] else row["l"],
                "m": [(key, _wanted(value)) for key, value in row["m"]] if row["m"] else row["m"],
                "s": row["s"],
            }
            for row in _ROWS[start : start + count]
        ]
        places = {1: "field 'a': cannot read \"x\"", 5: "field 'm.value': cannot read \"?\""}
        places[6] = "field 'l.element': cannot read \"!\""
        told = {row + start: reason.text.partition(" (text)")[0] for row, reason in errors.reasons.items()}
        assert told == {row: text for row, text in places.items() if start <= row < start + count}


def test_null_is_not_refused() -> None:
    conversion, errors = RefusedValues(parse_type("INT"), "schema", "; drop it"), RowErrors()
    found = conversion.convert(pa.array(["x", None, b"\1".decode()]), "a", lambda rows: rows + 10, errors)
    assert found.to_pylist() == [None] * 3
    assert {row: reason.text for row, reason in errors.reasons.items()} == {
        10: "field 'a': cannot read \"x\" (schema) as INT; drop it",
        12: "field 'a': cannot read \"\\u0001\" (schema) as INT; drop it",
    }


def test_the_first_reason_of_a_row_counts() -> None:
    errors = RowErrors()
    errors.add(np.array([3, -1, 3, 4]), lambda at: Reason(ErrorCode.WRONG_TYPE, f"first {at}"))
    errors.add(np.array([4, 3]), lambda at: Reason(ErrorCode.WRONG_TYPE, f"second {at}"))
    assert {row: reason.text for row, reason in errors.reasons.items()} == {3: "first 0", 4: "first 3"}
