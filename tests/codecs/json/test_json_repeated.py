"""Messages in which Flink's streaming reader loses its position: repeated fields; objects or arrays for a BOOLEAN.

And messages that are bad in two ways, or after some rows.
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


_TREE = {"decode__json_parser__enabled": "false"}


@pytest.mark.parametrize(
    ("message", "streaming", "tree"),
    [
        ('{"k\\ud800":1,"x":2,"k\\udbff":3}', [("k?", 3), ("x", 2)], [("k?", 3), ("x", 2)]),
        ('{"k\\ud800":"bad","x":2,"k?":3}', None, None),  # two names for the tree reader
        ('{"k":"bad","x":2,"k":3}', None, [("k", 3), ("x", 2)]),
        ('{"k":1,"x":2,"k":"bad"}', None, None),
        ('{"k":1,"k":2,"x":"bad","x":3}', None, [("k", 2), ("x", 3)]),
        ('{"k":1,"k":2,"x":}', None, None),
        ('{"k":1,"k":2,}', None, None),
    ],
)
def test_the_last_value_of_a_repeated_key_counts(message: str, streaming: Any, tree: Any) -> None:
    for options, answer in (({}, streaming), (_TREE, tree)):
        rows, error = _read("m MAP<STRING, INT>", f'{{"m":{message}}}', **options)
        assert (rows, error is None) == ((None, False) if answer is None else ([(answer,)], True))


@pytest.mark.parametrize("options", [{}, _TREE], ids=["streaming", "tree"])
@pytest.mark.parametrize(
    "message",
    ['{"a":"x"} y', '{"a":"x","b":}', '{"a":"x"', '[{"a":"x"},{]', '[{"a":"x"}', '[{"a":"x"}]]', '[{"a":"x"},y]'],
)
def test_what_is_no_json_is_no_error_of_a_value(message: str, options: dict[str, str]) -> None:
    for end in ("", "\n"):
        assert str(_read("a INT, b INT", message + end, **options)[1]).startswith("not JSON")


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ('[{"a":1},null,{"a":"x"}]', "field '[2].a'"),
        ('[null,5,{"a":"x"}]', "field '[1]'"),
        ('[{"a":"x"},{"a":"y"}]', "field '[0].a'"),
        ('[{"a":[{"b":"x"}]},{"a":1}]', "field '[0].a'"),
        ('{"l":[[1],[2,null,"x"]]}', "field 'l[1][2]'"),
        ('{"l":[[1],[2,3],"x"]}', "field 'l[2]'"),
        ('{"m":{"k":[1],"l":[1,"x"]}}', "field 'm.l[1]'"),
    ],
)
def test_an_error_counts_the_elements_of_each_array(message: str, error: str) -> None:
    columns = "a INT, l ARRAY<ARRAY<INT>>, m MAP<STRING, ARRAY<INT>>"
    for options in ({}, _TREE):
        assert str(_read(columns, message, **options)[1]).startswith(f"{error}: cannot read")


@pytest.mark.parametrize("end", ['{"a":', "x]", '{"a":3}', '{"a":3,}]'])
def test_only_the_streaming_reader_keeps_rows_before_a_fault_with_ignore_parse_errors(end: str) -> None:
    message = '[{"a":1},null,{"a":"x"},' + end
    assert _read("a INT", message)[0] is None
    kept = [(1,), (None,)] + ([(3,)] if end == '{"a":3}' else [])
    assert _read("a INT", message, ignore_parse_errors="true") == (kept, None)
    assert _read("a INT", message, ignore_parse_errors="true", **_TREE) == ([], None)


@pytest.mark.parametrize("options", [{}, _TREE], ids=["streaming", "tree"])
@pytest.mark.parametrize(
    ("t", "most"), [("INTERVAL DAY TO SECOND", (2**63 - 1) // 1000), ("INTERVAL YEAR TO MONTH", 2**31 - 1)]
)
def test_an_interval_of_one_more_than_arrow_holds_is_an_error(t: str, most: int, options: dict[str, str]) -> None:
    least = -most - (t == "INTERVAL YEAR TO MONTH")
    for number, good in ((most, True), (most + 1, False), (least, True), (least - 1, False), (-(2**63), False)):
        for text in (f"{number}", f'"{number}"', f'"{number:+}"'):
            assert (_read(f"a {t}", f'{{"a":{text}}}', **options)[1] is None) is good, text
