"""The kernel takes no value that the Python rule would report: values at the limits of each type, form and option."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kvformat.codecs._json_documents import JsonDocuments
from kvformat.codecs._kernel.look import LookBatch
from kvformat.codecs.discovery.findings import Findings
from kvformat.codecs.json.discover_row import RowRules
from kvformat.codecs.json.known_tables import prepared_table
from kvformat.codecs.json.value_types import ValueRules
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.look import KnownTable, LookRequest
from kvformat.registry.contract.types import FlinkType

_T = ("topic",)
_WHOLE = [str(sign * 2**bits + more) for bits in (7, 15, 31, 63) for sign in (1, -1) for more in (-1, 0, 1)]
_NUMBERS = [
    *(*_WHOLE, "0", "-0", "7", "99", "100", "-99", "-100", "99999999", "100000000", "9" * 17, "9" * 18, "9" * 19),
    *("9" * 20, "9" * 38, "9" * 39, "0.0", "-0.0", "1.0", "1.5", "1.25", "1.255", "1.250", "99.99", "0.001"),
    *("1.500000", "123456.5", "1234567.5", "12345678.5", "0.1234567", "1e2", "1E2", "1e-2", "1.5e1", "1e0", "16777217"),
    *("0." + "1" * 38, "0." + "1" * 39, "1.1", "9007199254740993", "86399999", "86400000", "86400000000", "-1"),
]  # fmt: skip
_CLOCKS = [
    f"{time}{fraction}"
    for time in ("00:00:00", "23:59:59", "24:00:00", "12:00:60", "12:60:00", "1:00:00")
    for fraction in (
        "",
        ".",
        ".0",
        ".1",
        ".12",
        ".123",
        ".120",
        ".000",
        ".1234",
        ".123456",
        ".123000",
        ".1234567",
        ",1",
    )
]
_DAYS = ["0001-01-01", "0000-12-31", "2023-02-29", "2024-02-29", "2024-02-30", "2024-2-9", "9999-12-31", "2024-13-01"]
_TEXTS = [
    *(*_NUMBERS, *_CLOCKS, *_DAYS, "", "a", "ab", "abc", "abcd", "é", "éé", "ééé", "ÿ", "Ā", "€", "aĀ", "true"),
    *("false", "True", "2", "00", "01", "+1", " 1", "1 ", "NaN", "1.", ".5", "YWJj", "2024-02-29T12:00Z"),
    *(f"2024-02-29{mark}{time}{zone}" for mark in " Tt" for time in _CLOCKS[:14] for zone in ("", "Z", "z", "ZZ")),
    *(f"{day} 12:00:00" for day in _DAYS),
]  # fmt: skip
_VALUES = [
    *("null", "true", "false", "{}", "[]", "[1]", '{"a":1}', "[null]", '["x"]', *_NUMBERS),
    *(f'"{text}"' for text in _TEXTS),
    *('"\\u0031"', '"\\u00ff"', '"a\\u0100"', '"\\ud83d\\ude00"', '"\\n"'),
]
_FIRST = ["7", "1.5", "1.25", "1.0", "true", '"0"', '"true"', '"7"', '"1.25"', '"12:00:00.120"', '"2024-02-29"']
_FIRST += [
    f'"2024-02-29{end}"' for end in (" 12:00:00", " 12:00:00.5", "T12:00:00.123", "T12:00:00Z", " 12:00:00.000Z")
]
_TYPES = [
    *("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(4, 2)", "DECIMAL(4, 0)", "DECIMAL(20, 0)"),
    *("DECIMAL(38, 38)", "BOOLEAN", "STRING", "VARCHAR(3)", "CHAR(2)", "DATE", "TIME(0)", "TIME(3)", "TIME(6)"),
    *("BYTES", *(f"{root}({digits})" for root in ("TIMESTAMP", "TIMESTAMP_LTZ") for digits in (0, 3, 9))),
    *("ARRAY<INT>", "ARRAY<STRING>", "MAP<STRING, INT>", "ROW<a INT>"),
]  # fmt: skip
_RULES = {
    "SQL": ValueRules(),
    "ISO-8601": ValueRules(iso=True, as_written=True),
    "strings": ValueRules(as_strings=True),
    "Canal": ValueRules(texts=True, latin=False),
    "Canal of MySQL": ValueRules(texts=True, flexible_booleans=True, latin=True),
    "Maxwell": ValueRules(flexible_booleans=True, latin=False),
}


_DECLARED = {"SQL": (False, None)} | dict.fromkeys(("Canal", "Canal of MySQL", "Maxwell"), (False, True))
"""Whether messages declare the types of their columns; None if the format then reads each value by its type."""


def _tree(value: str) -> Any:
    return JsonDocuments().parse_valid(f'{{"c":{value}}}'.encode())


def _taken(known: KnownTable, rules: ValueRules, t: FlinkType, declared: bool | None, fixed: bool) -> list[str]:
    """Return the values that the kernel takes. `declared` are values whose types messages declare; None: trusted."""
    batch = LookBatch()
    types = None if declared is False else {"c": t}
    table = prepared_table(known, rules, {"c": t} if fixed else {}, types, trusted=declared is None)
    if table is None:
        return []
    table.number = 0
    batch.tables, batch.topics = [table], np.zeros(len(_VALUES), np.int32).data
    answers = batch.look(pa.array([f'{{"c":{value}}}'.encode() for value in _VALUES]), lambda at: None)
    return [value for value, answer in zip(_VALUES, answers, strict=True) if answer == 0]


def _states(t: FlinkType, rules: RowRules, given: Mapping[str, FlinkType] | None) -> Iterator[KnownTable]:
    """Yield a table with a column of the type before its first value, and after one that the column reads."""
    yield KnownTable({"c": t})
    for value in _FIRST:
        table = Findings(1, LookRequest({_T: KnownTable({"c": t})})).table(_T)
        found = list(rules.contributions(_tree(value), table, 0, given))
        if found and all(one.type is None for one in found):
            table.add(0, found)
            yield table.effective()


@pytest.mark.parametrize("name", _TYPES)
def test_a_value_that_the_kernel_takes_contributes_nothing_by_the_rule(name: str) -> None:
    t, compared = parse_type(name), 0
    trees = {value: _tree(value) for value in _VALUES}
    for (kind, rules), declared, fixed in itertools.product(_RULES.items(), (False, True, None), (False, True)):
        if (declared is None and fixed) or declared not in _DECLARED.get(kind, (False,)):
            continue
        types, given = {"c": t} if fixed else {}, None if declared is False else {"c": t}
        row_rules = RowRules(rules, types, trusted=declared is None)
        for known in _states(t, row_rules, given):
            table = Findings(1, LookRequest({_T: known}, types)).table(_T)
            for value in _taken(known, rules, t, declared, fixed):
                if rules.texts and value in _NUMBERS:  # Canal writes texts only
                    continue
                found = list(row_rules.contributions(trees[value], table, 0, given))
                if name == "BIGINT":  # which has one text for each number
                    found = [one for one in found if one.type is not None or one.as_text]
                assert not found, (value, kind, declared, fixed, known, found)
                compared += 1
    assert compared > 20
