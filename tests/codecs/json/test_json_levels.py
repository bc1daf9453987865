"""How deep and how large messages may be, at the limit.

Levels that columns read count as much as those of a value that is kept as text. Cells are values and NULLs of columns.
"""

from __future__ import annotations

import pytest

from kvformat.registry import get_format
from kvformat.registry.contract.cells import CELLS_PER_BYTE
from tests.support.decoding import alone, answers, decoded

_LEVELS = 1000
_LENIENT = {"ignore-parse-errors": "true"}

# columns, message with a value at %
_PLACES = [
    ("s STRING", '{"s":%}'),
    ("s STRING", '[{"s":%}]'),
    ("s STRING", '{"x":%,"s":"y"}'),  # no column reads it
    ("s STRING", '{"s":1,"s":%}'),
    ("a ARRAY<STRING>", '{"a":[%]}'),
    ("a ARRAY<STRING>", '{"a":["x",%]}'),
    ("a ARRAY<ARRAY<STRING>>", '{"a":[["x"],[%]]}'),
    ("m MAP<STRING, STRING>", '{"m":{"k":%}}'),
    ("m MAP<STRING, STRING>", '{"m":{"k":1,"k":%}}'),
    ("m MAP<STRING, STRING>", '{"m":{"k":%,"k":1}}'),
    ("m MAP<STRING, MAP<STRING, STRING>>", '{"m":{"k":{"x":"y"},"l":{"x":%}}}'),
    ("m MAP<STRING, MAP<STRING, STRING>>", '{"m":{"k":{"x":"y","x":"z"},"l":{"x":%}}}'),
    ("r ROW<s STRING>", '{"r":{"s":%}}'),
    ("r ROW<s STRING>", '{"r":{"x":%,"s":"y"}}'),
    ("r ROW<s STRING>", '{"r":{"s":1,"s":%}}'),
    ("r ROW<a ARRAY<MAP<STRING, ROW<s STRING>>>>", '{"r":{"a":[{"k":{"s":%}}]}}'),
    ("a ARRAY<STRING>, s STRING", '{"a":["x",[]],"s":%}'),  # what was read before does not count
    ("m MAP<STRING, STRING>, s STRING", '{"m":{"k":"x","l":{}},"s":%}'),
    ("m MAP<STRING, STRING>, s STRING", '{"m":{"k":"x","k":{}},"s":%}'),
    ("r ROW<s STRING>, s STRING", '{"r":{"s":{},"x":[{}]},"s":%}'),
    ("r ROW<s STRING>, s STRING", '{"r":{"s":{},"s":{}},"s":%}'),
    ("m MULTISET<STRING>, s STRING", '{"m":{"k":1},"s":%}'),
]


def _levels_before(message: str) -> int:
    before = message[: message.index("%")]
    return sum(before.count(c) for c in "[{") - sum(before.count(c) for c in "]}")


@pytest.mark.parametrize("options", [{}, _LENIENT], ids=["strict", "lenient"])
@pytest.mark.parametrize(("columns", "message"), _PLACES)
def test_a_message_may_have_exactly_1000_levels_whatever_its_columns_are(
    columns: str, message: str, options: dict[str, str]
) -> None:
    levels = _LEVELS - _levels_before(message)
    good, bad = (message.replace("%", "[" * n + "]" * n).encode() for n in (levels, levels + 1))
    given = [good, bad, good]
    found = answers(decoded(get_format("json", options), given, columns))
    assert found == alone(get_format("json", options), given, columns)
    assert (found[0].error, found[0].rows != "[]") == (None, True)
    assert found[2] == found[0]
    if options:
        assert (found[1].error, found[1].rows) == (None, "[]")
    else:
        assert (found[1].error or "").startswith(f"not JSON: more than {_LEVELS} levels at character")


@pytest.mark.parametrize("columns", ["s STRING", "s DOUBLE", "s DECIMAL(38, 0)", "s BIGINT", "x INT"])
@pytest.mark.parametrize("message", ['{"s":%}', '{"s":%,"x":1}', '{"y":[0,%]}', '{"y":%}'])
@pytest.mark.parametrize(
    ("before", "after", "digits"),
    [("", "", "1"), ("-", "", "1"), ("0.", "", "1"), ("", ".0", "1"), ("", "e-10", "1"), ("1E+", "", "0")],
)
def test_a_number_may_have_exactly_1000_digits(
    columns: str, message: str, before: str, after: str, digits: str
) -> None:
    rest = sum(c.isdigit() for c in before + after)
    good, bad = (message.replace("%", before + digits * (n - rest) + after).encode() for n in (1000, 1001))
    found = answers(decoded(get_format("json"), [good, bad, good], columns))
    assert "digits" not in (found[0].error or "")
    assert found[0] == found[2]
    assert (found[1].error or "").startswith("not JSON: a number of more than 1000 digits")


@pytest.mark.parametrize(
    ("number", "good"),
    [
        *(("1e2147483647", True), ("1e2147483648", False), ("1.5E+2147483647", True)),
        *(("1e-2147483647", True), ("1e-2147483648", False), ("1.5e-2147483646", True), ("1.5e-2147483647", False)),
    ],
)
def test_the_tree_reader_takes_exponents_of_javas_bigdecimal_if_a_column_is_decimal(number: str, good: bool) -> None:
    format = get_format("json", {"decode.json-parser.enabled": "false"})
    messages = [text.replace("%", number).encode() for text in ('{"x":%,"i":1}', '{"x":[0,%],"i":1}')]
    for columns, is_read in (("i INT, d DECIMAL(5, 2)", good), ("i INT, d DOUBLE", True)):
        for answer in answers(decoded(format, messages, columns)):
            assert (answer.error is None) == is_read
            assert is_read or str(answer.error).startswith("not JSON")


_WIDE = 2000
_WIDE_ROW = f"ROW<{', '.join(f'c{number} INT' for number in range(_WIDE))}>"


@pytest.mark.parametrize("options", [{}, _LENIENT], ids=["strict", "lenient"])
@pytest.mark.parametrize(
    ("columns", "message", "value"),
    [
        (f"r {_WIDE_ROW}", '{"r":{},%}', '"r":{}'),
        (f"r {_WIDE_ROW}", '[{"r":{},%}]', '"r":{}'),
        (_WIDE_ROW[4:-1], "[{},%]", "{}"),
        (f"a ARRAY<{_WIDE_ROW}>", '{"a":[%]}', "{}"),
    ],
    ids=["member", "member in an array", "rows", "elements"],
)
def test_a_message_with_too_many_cells_is_an_error_even_if_bad_messages_are_skipped(
    columns: str, message: str, value: str, options: dict[str, str], cell_limits: tuple[int, int]
) -> None:
    """Each value at % has a cell for itself and for each column. The first row of a message does not count."""

    def made(count: int) -> str:
        return message.replace("%", ",".join([value] * count))

    count = 1
    while (_WIDE + 1) * count <= cell_limits[0] + CELLS_PER_BYTE * len(made(count)):
        count += 1
    found = decoded(get_format("json", options), [made(n).encode() for n in (count - 1, count)], columns)
    assert found.codes is not None
    assert found.codes.to_pylist() == [None, "TOO_LARGE"]
