"""Computed columns of the rows that commands print, without Spark. The session's time zone is UTC."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from kvformat.connectors.cli._framing import MessageBatch
from kvformat.registry.contract.types import FlinkType, arrow_type, nullable
from kvformat.registry.table.computed_columns import ComputedColumns
from kvformat.registry.table.metadata import RAW
from kvformat.registry.table.raw_records import raw_array

_FAR = 2**63


def computed_values(
    computed: ComputedColumns, keys: Mapping[str, str], rows: pa.StructArray, batch: MessageBatch, lists: pa.ListArray
) -> tuple[dict[str, pa.Array], Mapping[int, str]]:
    """Return the computed columns of decoded rows, and the reason for each record with a row that fails.

    `keys` has the metadata key of each metadata column. `rows` has physical columns by name, and metadata of the value
    by key; `lists` has the rows of each record.
    """
    record_of = np.repeat(np.arange(len(batch.values)), np.diff(np.asarray(lists.offsets)))
    places = {rows.type.field(i).name: i for i in range(rows.type.num_fields)}
    inputs = []
    for name, type_ in computed.decoded:
        place = places.get(keys.get(name, name))
        if place is not None:
            inputs.append(rows.field(place))
        else:
            inputs.append(_of_records(keys[name], nullable(type_), batch).take(pa.array(record_of)))
    arrays, failed = computed.evaluate(inputs, len(rows), time.time_ns() // 1000)
    reasons: dict[int, str] = {}
    for row, reason in sorted(failed.items()):
        reasons.setdefault(int(record_of[row]), reason)
    return dict(zip((name for name, _ in computed.columns), arrays, strict=True)), reasons


def _of_records(key: str, type_: FlinkType, batch: MessageBatch) -> pa.Array:
    """Return a metadata key of Kafka for each record, NULL where it is not known."""
    if key in RAW:
        messages = batch.values if RAW[key] == "value" else batch.keys or [None] * len(batch.values)
        return raw_array(pa.array(messages, pa.binary()), type_)
    values = [_metadata(key, about) for about in batch.about or [{}] * len(batch.values)]
    return pa.array(values, arrow_type(type_))


def _metadata(key: str, about: Mapping[str, Any]) -> Any:
    """Return a metadata key of a record; None if it is not known."""
    value = about.get("headers" if key == "header-list" else key)
    if key == "timestamp" and value is not None:
        return 1000 * value if -_FAR <= 1000 * value < _FAR else None
    if key == "headers" and value is not None:
        return list(dict(value).items())
    if key == "header-list" and value is not None:
        return [{"key": name, "value": data} for name, data in value]
    return value
