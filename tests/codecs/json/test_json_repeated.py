"""Messages in which Flink's streaming reader loses its position: repeated fields; objects or arrays for a BOOLEAN."""

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


@pytest.mark.parametrize("options", [{}, {"ignore_parse_errors": "true"}, {"decode__json_parser__enabled": "false"}])
@pytest.mark.parametrize(
    ("columns", "message", "rows"),
    [
        ("a BOOLEAN, b STRING", '{"a":{"b":"inner"},"b":"outer"}', [(False, "outer")]),
        ("a BOOLEAN, b STRING", '{"b":"outer","a":[1,2]}', [(False, "outer")]),
        ("a BOOLEAN, b INT", '{"a":[5,77],"b":92}', [(False, 92)]),
        ("a BOOLEAN", '[{"a":{}},{"a":true}]', [(False,), (True,)]),
        ("a ARRAY<BOOLEAN>", '{"a":[[1],{"x":2}]}', [([False, False],)]),
        ("r ROW<a BOOLEAN, b INT>, c INT", '{"r":{"a":[1,2],"b":3},"c":4}', [((False, 3), 4)]),
        ("m MAP<STRING, BOOLEAN>, n INT", '{"m":{"k":[1,2]},"n":4}', [([("k", False)], 4)]),
    ],
)
def test_an_object_or_array_is_false_for_a_boolean(
    columns: str, message: str, rows: list[Any], options: dict[str, str]
) -> None:
    assert _read(columns, message, **options) == (rows, None)


@pytest.mark.parametrize(
    ("columns", "message", "answer"),
    [
        ("a INT, b INT", '{"a":1,"b":2,"a":3}', (3, 2)),
        ("a INT, b INT", '{"a":"x","b":2,"a":3}', (3, 2)),
        ("a INT, b INT", '{"a":1,"b":2,"a":"x"}', None),
        ("a INT, b INT", '{"a":1,"b":2,"a":"x","a":3}', (3, 2)),
        ("a INT, b INT", '{"a":1,"a":"x","a":3,"b":2}', (3, 2)),
        ("r ROW<a INT, b INT>, c INT", '{"r":{"a":1,"b":2,"a":"x"},"r":{"a":3},"c":4}', ((3, None), 4)),
        ("r ROW<a INT, b INT>, c INT", '{"r":{"a":1,"a":"x","b":2},"r":{"a":3},"c":4}', ((3, None), 4)),
        ("r ROW<a INT, b INT>, c INT", '{"c":4,"r":null,"r":{"a":"x"},"r":{"a":3}}', ((3, None), 4)),
    ],
)
def test_the_last_value_of_a_repeated_name_counts(columns: str, message: str, answer: Any) -> None:
    rows, error = _read(columns, message)
    assert (rows, error is None) == ((None, False) if answer is None else ([answer], True))
