"""Flink SQL's literals and types in Spark's spelling."""

from __future__ import annotations

import pytest

from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.sql.spark_sql import spark_string, spark_type_text


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        ("'a'", "'a'"),
        ("''", "''"),
        ("'it''s'", r"'it\'s'"),
        (r"'a\b'", r"'a\\b'"),
        ("''''", r"'\''"),
        ("'é😀'", "'é😀'"),
    ],
)
def test_a_backslash_and_a_quote_are_escaped(literal: str, text: str) -> None:
    assert spark_string(literal) == text


@pytest.mark.parametrize(
    ("flink", "text"),
    [
        ("VARCHAR(10)", "STRING"),
        ("CHAR(3)", "STRING"),
        ("BINARY(2)", "BINARY"),
        ("BYTES", "BINARY"),
        ("DECIMAL(10, 2)", "DECIMAL(10, 2)"),
        ("TIMESTAMP(3)", "TIMESTAMP_NTZ"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ"),
        ("TIME", "TIME(0)"),
        ("TIME(6)", "TIME(6)"),
        ("TIME(9)", "TIME(6)"),  # Spark has microseconds
        ("ARRAY<INT>", "ARRAY<INT>"),
        ("MAP<STRING, ARRAY<TIME(3)>>", "MAP<STRING, ARRAY<TIME(3)>>"),
        ("MULTISET<STRING>", "MAP<STRING, INT>"),
        ("ROW<a INT, `b``c` ROW<d STRING>>", "STRUCT<`a`: INT, `b``c`: STRUCT<`d`: STRING>>"),
    ],
)
def test_a_type_has_the_name_and_digits_that_spark_gives_it(flink: str, text: str) -> None:
    assert spark_type_text(parse_type(flink)) == text
