"""Decode batches of messages to lines of JSON: rows to stdout, errors to stderr. Every message is counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from kvformat.connectors.cli._computed import computed_values
from kvformat.connectors.cli._framing import MessageBatch
from kvformat.connectors.cli._output import head, tell, write_json
from kvformat.connectors.cli._table import ShownColumn, ShownTable
from kvformat.connectors.cli._values import json_values
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.schemas import row_type
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.table.metadata import RAW, VALUE_PREFIX
from kvformat.registry.table.raw_records import raw_array
from kvformat.registry.table.record_headers import HEADERS_TYPE

_MICROS, _INSTANT = pa.timestamp("us", "UTC"), FlinkType("TIMESTAMP_LTZ", precision=3)
_FAR = 2**63


class Decoder:
    """Decodes and prints batches of a table's messages; counts messages, rows, skipped and bad messages.

    print_rows: prints pairs of record metadata and row; the default writes JSON to stdout.
    print_error: prints the report of a bad message; the default writes JSON to stderr.
    wants: decides by a row and its kind whether the row is printed and counted; the default accepts every row.
    """

    def __init__(
        self,
        table: ShownTable,
        *,
        stop: bool = False,
        print_rows: Callable[[list[tuple[Mapping[str, Any], Any]]], None] | None = None,
        print_error: Callable[[dict[str, Any]], None] = tell,
        wants: Callable[[Mapping[str, Any], str], bool] = lambda _row, _kind: True,
    ) -> None:
        self._table, self._stop = table, stop
        self._print_rows, self._print_error, self._wants = print_rows, print_error, wants
        self.counts = {"messages": 0, "rows": 0, "skipped": 0, "bad": 0}
        self.may_have_other_framing = False  # a bad message that is not text or not a record suggests it
        self._of_value = [column for column in table.columns if column.key.startswith(VALUE_PREFIX)]

    def batch(self, batch: MessageBatch) -> bool:
        """Decode and print a batch; returns whether to continue: False after a bad message with `stop`."""
        values = [None if place in batch.faults else value for place, value in enumerate(batch.values)]
        keys = None if batch.keys is None else pa.array(batch.keys, pa.binary())
        metadata = [column.key for column in self._of_value]
        read = self._table.kv.record_headers.values()
        names = {
            name
            for header_names in read
            for name in ((header_names,) if isinstance(header_names, str) else header_names)
        }
        headers = [
            [{"key": name, "value": data} for name, data in about.get("headers") or () if name in names]
            for about in batch.about or ()
        ]
        headers_array = pa.array(headers, HEADERS_TYPE) if names and headers else None
        decoded = self._table.kv.decode_batch(
            keys, pa.array(values, pa.binary()), metadata=metadata, headers=headers_array
        )
        computed: dict[str, pa.Array] = {}
        failed: Mapping[int, str] = {}
        if self._table.computed is not None:
            keys = {column.name: column.key for column in self._table.columns if column.key}
            computed, failed = computed_values(self._table.computed, keys, decoded.rows.values, batch, decoded.rows)
        rows = self._rows(decoded.rows.values, batch, decoded.rows, computed)
        kinds = None if decoded.row_kinds is None else decoded.row_kinds.to_pylist()
        reasons, codes = _texts(decoded.errors), _texts(decoded.codes)
        parts = _texts(decoded.parts)
        for place, reason in failed.items():
            if place not in reasons:
                reasons[place], codes[place], parts[place] = reason, ErrorCode.COMPUTED_COLUMN.value, "record"
        ends = decoded.rows.offsets.to_pylist()
        shown: list[tuple[Mapping[str, Any], Any]] = []
        proceed = True
        for place, value in enumerate(batch.values):
            self.counts["messages"] += 1
            about = batch.about[place] if batch.about else {}
            fault: dict[str, Any] | None = None
            if place in batch.faults:
                fault = {"part": "record", "code": ErrorCode.MALFORMED.value, "reason": batch.faults[place]}
                self.may_have_other_framing = True
            elif place in reasons:
                fault = {"part": parts[place], "code": codes[place], "reason": reasons[place]}
            if fault is not None:
                self._bad(batch.first + place, fault, about, batch.keys[place] if batch.keys else None, value)
                if self._stop:
                    proceed = False
                    break
                continue
            if ends[place] == ends[place + 1]:
                self.counts["skipped"] += 1
            for at in range(ends[place], ends[place + 1]):
                row, kind = rows[at], kinds[at] if kinds else "+I"
                if self._wants(row, kind):
                    shown.append((about, {"row_kind": kind, "row": row} if self._table.has_kinds else row))
        self.counts["rows"] += len(shown)
        if self._print_rows is not None:
            self._print_rows(shown)
        else:
            write_json(row for _, row in shown)
        return proceed

    def _bad(
        self, number: int, fault: dict[str, Any], about: Mapping[str, Any], key: bytes | None, value: bytes | None
    ) -> None:
        self.counts["bad"] += 1
        message = key if fault["part"] == "key" else value
        self.may_have_other_framing |= not _is_text(message)
        place = {name: about[name] for name in ("topic", "partition", "offset") if name in about}
        self._print_error({"message": number, **place, **fault, "head": head(message)})

    def _rows(
        self, values: pa.StructArray, batch: MessageBatch, lists: pa.ListArray, computed: Mapping[str, pa.Array]
    ) -> list[dict[str, Any]]:
        """Return all rows of a batch as dicts, with the columns of the table."""
        names = [column.name for column in self._table.columns]
        fields = self._table.physical
        columns: dict[int, list[Any]] = {}
        arrays = [values.field(place) for place in range(values.type.num_fields)]
        metadata_types = row_type(pa.schema(list(values.type)[len(fields) :])).fields
        of_value = {
            column.key: json_values(array, field.type)
            for column, array, field in zip(self._of_value, arrays[len(fields) :], metadata_types, strict=True)
        }
        for i, column in enumerate(self._table.columns):
            if column.computed and column.type is not None:
                columns[i] = json_values(computed[column.name], column.type)
            elif column.place >= 0:
                columns[i] = json_values(arrays[column.place], fields[column.place].type)
            elif column in self._of_value:
                columns[i] = of_value[column.key]
            else:
                columns[i] = _of_records(column, batch, lists)
        texts = [columns[i] for i in range(len(names))]
        return [dict(zip(names, row, strict=True)) for row in zip(*texts, strict=True)] if names else [{}] * len(values)


def _of_records(column: ShownColumn, batch: MessageBatch, lists: pa.ListArray) -> list[Any]:
    """Return a column of Kafka's metadata: for each row the value of its record, or null if unknown."""
    if column.key in RAW:
        assert column.type is not None
        messages = batch.values if RAW[column.key] == "value" else batch.keys or [None] * len(batch.values)
        per_record = json_values(raw_array(pa.array(messages, pa.binary()), column.type), column.type)
    else:
        per_record = [_metadata(column.key, about) for about in batch.about or [{}] * len(batch.values)]
    ends = lists.offsets.to_pylist()
    return [per_record[place] for place in range(len(per_record)) for _ in range(ends[place], ends[place + 1])]


def _metadata(key: str, about: Mapping[str, Any]) -> Any:
    """Convert the value of a Kafka metadata key to JSON; None if the record does not have it."""
    value = about.get("headers" if key == "header-list" else key)
    if value is None:
        return None
    if key == "timestamp":
        micros = 1000 * value
        # Kafka accepts any number, but a timestamp in Arrow has 64 bits
        return json_values(pa.array([micros], _MICROS), _INSTANT)[0] if -_FAR <= micros < _FAR else micros
    if key in ("headers", "header-list"):
        pairs = [(name, json_values(pa.array([data], pa.binary()), _BYTES)[0]) for name, data in value]
        return dict(pairs) if key == "headers" else [{"key": name, "value": data} for name, data in pairs]
    return value


_BYTES = FlinkType("VARBINARY")


def _texts(array: pa.StringArray | None) -> dict[int, str]:
    """Return the texts of an array by their indexes."""
    return {} if array is None else {i: text for i, text in enumerate(array.to_pylist()) if text is not None}


def _is_text(message: bytes | None) -> bool:
    try:
        (message or b"").decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
