"""The kit's values of cases and answers of Flink CDC: the table in `ingestion/testing/values.py`."""

from __future__ import annotations

from typing import Any

import pytest

from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.testing.answers import _java_order
from kvformat.ingestion.testing.values import array_of, values_of
from kvformat.registry.contract.ddl import parse_type


@pytest.mark.parametrize(
    ("type", "case", "answer"),
    [
        ("BOOLEAN", True, True),
        ("INT", -7, -7),
        ("DOUBLE", 1.5, {"double": "1.5"}),
        ("DECIMAL(5, 2)", "1.50", "1.50"),
        ("STRING", "é", "é"),
        ("DATE", "2024-02-29", "2024-02-29"),
        ("TIME(0)", "10:20:00", "10:20"),
        ("TIMESTAMP(3)", "2024-02-29T10:20:00", "2024-02-29T10:20"),
        ("TIMESTAMP(9)", "2024-02-29T10:20:30.123456789", "2024-02-29T10:20:30.123456789"),
        ("TIMESTAMP_LTZ(3)", "2024-02-29T10:20:00Z", "2024-02-29T10:20:00Z"),
        ("VARBINARY(9)", "AP8=", {"bytes": "AP8="}),
        ("ARRAY<INT>", [1, None, 3], [1, None, 3]),
        ("ARRAY<ROW<a TIME(0), b INT>>", [["10:20:00", 1], None], [["10:20", 1], None]),
        ("ROW<a INT, b ARRAY<DOUBLE>>", [None, [0.5]], [None, [{"double": "0.5"}]]),
        ("MAP<STRING, INT>", {"a": 1, "b": None}, {"a": 1, "b": None}),
    ],
)
def test_a_value_of_a_case_has_its_form_in_an_answer(type: str, case: Any, answer: Any) -> None:
    """Between nulls, which are nulls."""
    t = parse_type(type)
    assert values_of(array_of([None, case, None], t), t) == [None, answer, None]


def _hash(text: str) -> int:
    return sum(ord(letter) * 31**place for place, letter in enumerate(reversed(text)))


@pytest.mark.parametrize(("schema", "table"), [("db", "t1"), ("shop", "orders"), ("a", "b")])
def test_tables_have_the_places_of_a_hash_set_of_java(schema: str, table: str) -> None:
    """The hash of a table is `Objects.hash` of its namespace, which is missing here, its schema and its name."""
    code = (31**3 + 31 * _hash(schema) + _hash(table)) % 2**32
    assert _java_order(TableId((schema, table))) == (code ^ code >> 16) % 16
