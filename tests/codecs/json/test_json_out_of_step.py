"""What Flink's streaming reader may not come to (strict mode).

It loses its place at a BOOLEAN that is an object or array, and stops looking at columns after as many as there are.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvformat.registry import get_format
from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.contract.types import FlinkType, nullable
from tests.support import vectors
from tests.support.decoding import decoded


def _read(columns: str, message: str, **options: str) -> tuple[list[Any] | None, str | None]:
    """The rows of a message as tuples, and its error."""
    format = get_format("json", {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()})
    batch = decoded(format, [message.encode()], columns)
    if batch.errors is not None:
        return None, batch.errors[0].as_py()
    row: FlinkType = nullable(parse_schema(columns))
    return [vectors.from_arrow(found, row) for found in batch.rows.values], None


@pytest.mark.parametrize(
    ("columns", "message", "rows"),
    [
        ("a BOOLEAN, b STRING", '{"a":{"b":"inner"},"b":"outer"}', [(False, "outer")]),
        ("a BOOLEAN, b STRING", '{"a":[1],"b":"outer"}', [(False, "outer")]),
        ("a BOOLEAN, b STRING", '{"a":{},"b":"outer"}', [(False, "outer")]),
        ("a BOOLEAN, b STRING", '{"b":"outer","a":[1,2]}', [(False, "outer")]),
        ("a BOOLEAN", '[{"a":[1,2]},{"a":true}]', [(False,), (True,)]),
        ("a ARRAY<BOOLEAN>", '{"a":[[1],{"x":2}]}', [([False, False],)]),
    ],
)
def test_it_is_false_where_flink_comes_out_with_a_row(columns: str, message: str, rows: list[Any]) -> None:
    assert _read(columns, message) == (rows, None)


@pytest.mark.parametrize(
    ("columns", "message", "field"),
    [
        ("a BOOLEAN, b STRING", '{"a":[1,2],"b":"outer"}', "a"),
        ("a BOOLEAN, b INT", '{"a":{"b":"x"},"b":1}', "a"),
        ("r ROW<a BOOLEAN, b INT>, c INT", '{"r":{"a":[1,2],"b":3},"c":4}', "r.a"),
        ("m MAP<STRING, BOOLEAN>, n INT", '{"m":{"k":[1,2]},"n":4}', "m.k"),
        ("a BOOLEAN", '[{"a":{}},{"a":true}]', "[0].a"),
    ],
)
def test_it_is_an_error_where_flink_fails(columns: str, message: str, field: str) -> None:
    rows, error = _read(columns, message)
    assert rows is None
    assert error is not None
    assert error.startswith(f"field {field!r}: an ")


def test_fields_that_flink_loses_are_missing() -> None:
    assert _read("a BOOLEAN, b STRING", '{"a":{},"b":"outer"}', fail_on_missing_field="true")[1]


@pytest.mark.parametrize("options", [{"ignore_parse_errors": "true"}, {"decode__json_parser__enabled": "false"}])
def test_other_modes_never_fail(options: dict[str, str]) -> None:
    assert _read("a BOOLEAN, b STRING", '{"a":[1,2],"b":"outer"}', **options) == ([(False, "outer")], None)


@pytest.mark.parametrize(
    ("columns", "message", "answer"),
    [
        ("a INT, b INT", '{"a":1,"b":2,"a":3}', (3, 2)),
        ("a INT, b INT", '{"a":"x","b":2,"a":3}', None),
        ("a INT, b INT", '{"a":1,"b":2,"a":"x"}', None),
        ("a INT, b INT", '{"a":1,"b":2,"a":"x","a":3}', (3, 2)),
        ("a INT, b INT", '{"a":1,"a":"x","a":3,"b":2}', None),
        ("r ROW<a INT, b INT>, c INT", '{"r":{"a":1,"b":2,"a":"x"},"r":{"a":3},"c":4}', ((3, None), 4)),
        ("r ROW<a INT, b INT>, c INT", '{"r":{"a":1,"a":"x","b":2},"r":{"a":3},"c":4}', None),
        ("r ROW<a INT, b INT>, c INT", '{"c":4,"r":null,"r":{"a":"x"},"r":{"a":3}}', ((3, None), 4)),
    ],
)
def test_a_repeated_name_fails_where_flink_reads_a_bad_value_of_it(columns: str, message: str, answer: Any) -> None:
    rows, error = _read(columns, message)
    assert (rows, error is None) == ((None, False) if answer is None else ([answer], True))
