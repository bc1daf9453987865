"""Change messages: metadata beside the rows of a table, and hints at the end of errors."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from kvformat.registry import get_format


@pytest.mark.parametrize(
    ("columns", "text"), [("id INT", "1.0"), ("id INT, v DECIMAL(5, 2)", "1.00000000000000000001")]
)
def test_numbers_of_metadata_keep_all_digits_if_the_table_has_a_decimal(columns: str, text: str) -> None:
    """Flink reads all numbers of a message as decimals, or none."""
    message = b'{"after":{"id":1},"op":"c","source":{"f":1.00000000000000000001}}'
    batch = get_format("debezium-json").decode_batch(pa.array([message]), columns, metadata=["source.properties"])
    assert dict(batch.rows.to_pylist()[0][0]["source.properties"]) == {"f": text}


@pytest.mark.parametrize(
    ("format", "hinted"), [("debezium-json", True), ("canal-json", False), ("maxwell-json", False), ("ogg-json", False)]
)
def test_only_an_error_of_a_format_with_schemas_in_messages_names_schema_include(format: str, hinted: bool) -> None:
    message = json.dumps({"schema": {}, "payload": {}}).encode()
    batch = get_format(format).decode_batch(pa.array([message]), "id INT")
    assert batch.errors is not None
    assert ("schema-include" in batch.errors[0].as_py()) is hinted
