"""Whole files of Flink SQL: each table of Kafka is found as Flink 2.3 creates it (fixtures/flink-sql/README.md)."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import quoted
from kvformat.registry.sql.statements import find_table, statements
from kvformat.registry.sql.table_definition import TableColumn

_FOLDER = Path(__file__).parents[3] / "fixtures" / "flink-sql"
_LEAST = 50  # tables in all files
_ALTERED = ("15_altered.sql", "changed")
# Milliseconds of the delays that Flink stores as expressions.
_DELAYS = {
    "`ts`": 0,
    "`update_time`": 0,
    "`bidtime` - INTERVAL '1' SECOND": 1000,
    "`cTime` - INTERVAL '15' MINUTE": 900_000,
    "`order_time` - INTERVAL '30' SECOND": 30_000,
    "`order_time` - INTERVAL '5' SECOND": 5000,
    "`rowtime` - INTERVAL '1' SECOND": 1000,
    "`t` - INTERVAL '1 00:00:00' DAY TO SECOND": 86_400_000,
    "`ts` - INTERVAL '0.001' SECOND": 1,
    "`ts` - INTERVAL '1' MINUTE": 60_000,
    "`ts` - INTERVAL '1:30' MINUTE TO SECOND": 90_000,
    "`ts` - INTERVAL '2' HOUR": 7_200_000,
    "`ts` - INTERVAL '5' SECOND - INTERVAL '1' MINUTE": 65_000,
    "`ts` - (INTERVAL 5 SECOND)": 5000,
    "CAST(`ts` AS TIMESTAMP(3)) - INTERVAL '10' MINUTE": 600_000,
    "`viewtime` - INTERVAL '2' SECOND": 2000,
}


@functools.cache
def _files() -> dict[str, list[dict[str, Any]]]:
    """Return the tables of Kafka that Flink has after each file."""
    lines = (_FOLDER / "tables.jsonl").read_text(encoding="ascii").splitlines()
    return {file["file"]: file["tables"] for file in map(json.loads, lines)}


def _text(file: str) -> str:
    return (_FOLDER / file).read_bytes().decode()


def _column(column: TableColumn) -> list[Any]:
    if column.kind == "computed":
        return [column.name, column.kind]
    found: list[Any] = [column.name, column.kind, str(column.type)]
    return [*found, column.key, column.virtual] if column.kind == "metadata" else found


@pytest.mark.parametrize("file", _files())
def test_each_table_of_a_file_is_the_one_that_flink_creates(file: str) -> None:
    text = _text(file)
    for expected in _files()[file]:
        name = ".".join(map(quoted, expected["name"]))
        if (file, expected["name"][-1]) == _ALTERED:
            with pytest.raises(SchemaError, match="is changed by ALTER TABLE, at line 3"):
                find_table(text, name)
            continue
        table = find_table(text, name)
        computed = [column[:2] if column[1] == "computed" else column for column in expected["columns"]]
        assert list(map(_column, table.columns)) == json.loads(re.sub(r" 'a comment'", "", json.dumps(computed)))
        assert table.options == expected["options"]
        assert table.primary_key == (None if expected["key"] is None else tuple(expected["key"]))
        assert list(table.partition_keys) == expected["partitions"]
        mark = table.watermark
        found = None if mark is None else [mark.column, mark.delay_ms]
        assert found == (expected["watermark"] and [expected["watermark"][0], _DELAYS[expected["watermark"][1]]])


def test_all_files_are_compared() -> None:
    assert {path.name for path in _FOLDER.glob("*.sql")} == _files().keys()
    assert sum(map(len, _files().values())) >= _LEAST
    assert len(statements(_text("30_everything.sql"))) == 9


@pytest.mark.parametrize("file", _files())
def test_line_ends_do_not_change_a_table(file: str) -> None:
    text = _text(file).replace("\r\n", "\n")
    windows = text.replace("\n", "\r\n")
    found = [(one.kind, one.name, one.line) for one in statements(text)]
    assert [(one.kind, one.name, one.line) for one in statements(windows)] == found
