"""What Flink's streaming reader may not come to (strict mode).

It loses its place at a BOOLEAN that is an object or array, and stops looking at columns after as many as there are.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvformat.codecs._json.exact import ExactReader
from kvformat.codecs._json.settings import ReadSettings
from kvformat.registry.ddl import parse_schema


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
    assert ExactReader(parse_schema(columns), ReadSettings()).read(message.encode()) == (rows, None)


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
    rows, error = ExactReader(parse_schema(columns), ReadSettings()).read(message.encode())
    assert rows is None
    assert error is not None
    assert error.startswith(f"field {field!r}: an ")


def test_fields_that_flink_loses_are_missing() -> None:
    schema, message = parse_schema("a BOOLEAN, b STRING"), b'{"a":{},"b":"outer"}'
    assert ExactReader(schema, ReadSettings(fail_on_missing=True)).read(message)[1]


@pytest.mark.parametrize("settings", [ReadSettings(lenient=True), ReadSettings(streaming=False)])
def test_other_modes_never_fail(settings: ReadSettings) -> None:
    reader = ExactReader(parse_schema("a BOOLEAN, b STRING"), settings)
    assert reader.read(b'{"a":[1,2],"b":"outer"}') == ([(False, "outer")], None)


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
    rows, error = ExactReader(parse_schema(columns), ReadSettings()).read(message.encode())
    assert (rows, error is None) == ((None, False) if answer is None else ([answer], True))
