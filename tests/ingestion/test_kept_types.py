"""Columns whose types never change: a value that would be rounded, cut off or lost makes a bad record."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kvformat.ingestion import Pipeline
from kvformat.ingestion.decode import TableDecoder, layout_of
from kvformat.ingestion.decoded_rows import ROW_ERROR, TIMESTAMP
from kvformat.ingestion.looking import NEWS, RECORD_COLUMNS, merged_news
from kvformat.ingestion.planning import Planner
from kvformat.ingestion.rules import look_stage, plan_rules
from kvformat.ingestion.schemas.known import IngestState
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema
from tests.ingestion.history import SOURCE

_SHOP = TableId(("shop",))
_KINDS = (pa.binary(), pa.binary(), pa.string(), pa.int32(), pa.int64(), pa.timestamp("us", "UTC"))
BAD = object()


def _values(source: dict[str, str], *batches: list[Any]) -> list[Any]:
    """Return the values of column v of all batches, `BAD` for a bad record."""
    pipeline = Pipeline({**SOURCE, "value.format": "json", **source}, {"type": "values"})
    rules = plan_rules(pipeline, quarantine=False)
    planner, state, found = Planner(rules, lambda *_: TableSchema(())), IngestState(), []
    for values in batches:
        rows = [(None, json.dumps({"v": v}).encode(), "shop", 0, n, None) for n, v in enumerate(values)]
        columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), _KINDS, strict=True)]
        records = pa.RecordBatch.from_arrays(columns, list(RECORD_COLUMNS[: len(columns)]))
        stage = look_stage(pipeline).knowing(planner.known(state))
        lines = pa.Table.from_batches(stage.mapped()(iter([records])))
        state = planner.plan(state, merged_news(lines[NEWS].drop_null().to_pylist())).state
        schema = planner.message_schema(state, _SHOP)
        assert pipeline.source.value_format is not None
        layout, flat = layout_of(state.sources[_SHOP], schema, rules, pipeline.source.value_format, None)
        decoder = TableDecoder(_SHOP, layout, schema, (), None, False, "UTC", flat)
        decoded = decoder.decoded(records.append_column(TIMESTAMP, pa.nulls(len(records), pa.int64())))
        by_offset = sorted(
            (row["_kvformat_offset"], BAD if row[ROW_ERROR] else row["c0"]) for row in decoded.to_pylist()
        )
        found += [value for _, value in by_offset]
    return found


_CASES = [
    ("BIGINT", [7, "8", 1.0, 1.5, "x", 2**63, True, {"a": 1}, 1e2], [7, 8, 1, BAD, BAD, BAD, BAD, BAD, 100]),
    ("INT", [7, 3_000_000_000, 1.5], [7, BAD, BAD]),
    ("TINYINT", [7, 300, 1.5], [7, BAD, BAD]),
    ("BOOLEAN", [True, "false", 1, 0, "yes", 2], [True, False, True, False, BAD, BAD]),
    ("DECIMAL(5, 2)", [1.25, "1.50", 1.005, 123456, True], [Decimal("1.25"), Decimal("1.50"), BAD, BAD, BAD]),
    ("DATE", ["2024-02-29", "2024-02-30", 5], [dt.date(2024, 2, 29), BAD, BAD]),
    ("TIMESTAMP(3)", ["2024-02-29 12:00:00", "noon"], [dt.datetime(2024, 2, 29, 12), BAD]),
    ("TIMESTAMP(3)", ["2024-02-29", "2024-02-29T12:00:00"], [dt.datetime(2024, 2, 29), dt.datetime(2024, 2, 29, 12)]),
    ("DOUBLE", [1.5, 7, "x"], [1.5, 7.0, BAD]),
    ("STRING", [1, "x", True], ["1", "x", "true"]),
]


@pytest.mark.parametrize(("t", "values", "expected"), _CASES)
def test_values_of_fixed_types(t: str, values: list[Any], expected: list[Any]) -> None:
    fixed = {"json.infer-schema.fixed-types": f"v {t}"}
    assert _values(fixed, values) == expected
    assert _values(fixed, *([value] for value in values)) == expected


@pytest.mark.parametrize(("t", "values", "expected"), _CASES)
def test_values_of_static_schemas(t: str, values: list[Any], expected: list[Any]) -> None:
    declared = {"scan.value.initial-schemas.ddls": f"CREATE TABLE shop (v {t})", "schema.inference.strategy": "static"}
    assert _values(declared, values) == expected
    assert _values(declared, *([value] for value in values)) == expected


def test_values_of_a_static_schema_that_the_first_batch_made() -> None:
    static = {"schema.inference.strategy": "static"}
    assert _values(static, [1], [2, 1.5, "x", 3]) == [1, 2, BAD, BAD, 3]
    assert _values(static, [True], [False, "yes", None]) == [True, False, BAD, None]
