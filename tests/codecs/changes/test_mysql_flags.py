"""BOOLEAN in messages of Canal and Maxwell, which write MySQL's TINYINT(1) as a number or its text."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry import DecodedBatch, KeyValueFormat, get_format
from kvformat.registry.contract.errors import OptionError, SchemaError

_FORMATS = {"canal-json": "INSERT", "maxwell-json": "insert"}


def decoded(name: str, value: Any, type: str = "BOOLEAN", **options: str) -> DecodedBatch:
    row = {"v": value}
    message = {"data": [row] if name == "canal-json" else row, "type": _FORMATS[name]}
    return get_format(name, options).decode_batch(pa.array([json.dumps(message).encode()]), f"v {type}")


@pytest.mark.parametrize("name", _FORMATS)
@pytest.mark.parametrize(
    ("value", "flag"), [(1, True), ("1", True), (0, False), ("0", False), (True, True), ("false", False), (None, None)]
)
def test_option_types_reads_0_and_1_as_boolean(name: str, value: Any, flag: bool | None) -> None:
    assert decoded(name, value, types="mysql").rows.to_pylist() == [[{"v": flag}]]
    assert decoded(name, [value], "ARRAY<BOOLEAN>", types="mysql").rows.to_pylist() == [[{"v": [flag]}]]
    as_in_flink = None if value is None else value is True
    assert decoded(name, value).rows.to_pylist() == [[{"v": as_in_flink}]]


@pytest.mark.parametrize("name", _FORMATS)
@pytest.mark.parametrize(("text", "flag"), [("TRUE", True), (" False\t", False), (" 1 ", True), ("0 ", False)])
def test_a_text_may_have_blanks_and_any_case(name: str, text: str, flag: bool) -> None:
    assert decoded(name, text, types="mysql").rows.to_pylist() == [[{"v": flag}]]


@pytest.mark.parametrize("name", _FORMATS)
@pytest.mark.parametrize("value", [2, -1, "2", "", "yes", 1.0, {}, []])
def test_any_other_value_is_an_error(name: str, value: Any) -> None:
    (error,) = decoded(name, value, types="mysql").errors.to_pylist()  # type: ignore[union-attr]
    assert error.startswith("field 'data")
    assert error.endswith("as BOOLEAN (true, false, 1 or 0)")


@pytest.mark.parametrize("name", _FORMATS)
def test_the_option_is_for_reading_only(name: str) -> None:
    with pytest.raises(OptionError, match="for reading only"):
        get_format(name, {"types": "mysql"}).encode_batch(pa.array([{"v": True}]), "v BOOLEAN")


def test_the_error_of_a_type_that_is_read_does_not_mention_writing() -> None:
    options = {"format": "maxwell-json", "maxwell-json.types": "mysql"}
    with pytest.raises(SchemaError) as caught:
        KeyValueFormat("m MAP<INT, INT>", options)
    assert "writing" not in str(caught.value)
