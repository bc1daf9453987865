"""Values of columns that became STRING, while the target kept its type."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from kvformat.ingestion.decode import fit_columns
from kvformat.ingestion.testing.targets import table_schema


@pytest.mark.parametrize(
    ("target", "texts", "expected"),
    [
        ("BIGINT", ["7", "-7", "007", "7.5", "x", "", " 7", "7 ", "+7", "99999999999999999999"], [7, -7, *[None] * 8]),
        ("DOUBLE", ["7", "0.5", "1e3", "x", "00.5", ".5", "-.5"], [7.0, 0.5, 1000.0, *[None] * 4]),
        ("DATE", ["2024-02-29", "2023-02-29", "x"], [dt.date(2024, 2, 29), None, None]),
        ("TIMESTAMP(3)", ["2024-02-29 10:00:00", "10:00"], [dt.datetime(2024, 2, 29, 10), None]),
        ("BOOLEAN", ["true"], [None]),
    ],
)
def test_texts_fit_what_they_are_written_as(target: str, texts: list[str], expected: list[Any]) -> None:
    source, wanted = table_schema("v STRING"), table_schema(f"v {target}")
    (column,), errors = fit_columns([pa.array([*texts, None])], source, wanted, "UTC", len(texts) + 1)
    assert column.to_pylist() == [*expected, None]
    assert [row in errors for row in range(len(texts) + 1)] == [value is None for value in expected] + [False]
