"""Types of a target's columns, without Spark."""

from __future__ import annotations

import pytest

from kvformat.ingestion.schemas.types import parse_column_type
from kvformat.ingestion.targets.types import NOT_IN_LAKES, ONLY_IN_FLINK, normalized_type, stored_type, type_ddl


@pytest.mark.parametrize(
    ("given", "standard", "broaden", "bigint_or_text"),
    [
        ("TINYINT", "TINYINT", "BIGINT", "BIGINT"),
        ("INT NOT NULL", "INT NOT NULL", "BIGINT NOT NULL", "BIGINT NOT NULL"),
        ("FLOAT", "FLOAT", "DOUBLE", "STRING"),
        ("DECIMAL(10, 2)", "DECIMAL(10, 2)", "DECIMAL(38, 2)", "STRING"),
        ("VARCHAR(10)", "STRING", "STRING", "STRING"),
        ("BINARY(3)", "BINARY(3)", "BYTES", "STRING"),
        ("TIMESTAMP(3)", "TIMESTAMP(3)", "TIMESTAMP(3)", "STRING"),
        ("BOOLEAN", "BOOLEAN", "BOOLEAN", "STRING"),
        ("ARRAY<INT>", "ARRAY<INT>", "ARRAY<INT>", "STRING"),
        ("TIMESTAMP_TZ(3)", "STRING", "STRING", "STRING"),
        ("VARIANT", "STRING", "STRING", "STRING"),
    ],
)
def test_types_by_strategy(given: str, standard: str, broaden: str, bigint_or_text: str) -> None:
    t = parse_column_type(given)
    assert str(normalized_type(t, "standard")) == standard
    assert str(normalized_type(t, "broaden")) == broaden
    assert str(normalized_type(t, "only-bigint-or-text")) == bigint_or_text


def test_lakes_have_no_times() -> None:
    without = (*ONLY_IN_FLINK, *NOT_IN_LAKES)
    for text in ("TIME(3)", "INTERVAL DAY TO SECOND", "ROW<a ARRAY<TIME(0)>>"):
        assert str(normalized_type(parse_column_type(text), "standard", without)) == "STRING"
    assert str(normalized_type(parse_column_type("TIME(3)"), "standard")) == "TIME(3)"


def test_types_in_statements_have_quoted_names() -> None:
    t = stored_type(
        parse_column_type("ROW<`a b` ARRAY<MAP<STRING, DECIMAL(5, 2)>>, `c``d` ROW<e TIMESTAMP(3)>> NOT NULL")
    )
    assert type_ddl(t) == "STRUCT<`a b`: ARRAY<MAP<STRING, DECIMAL(5,2)>>, `c``d`: STRUCT<`e`: TIMESTAMP_NTZ>>"
