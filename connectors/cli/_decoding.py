"""Batches of messages to lines of JSON: rows to stdout, what is bad to stderr, nothing lost without being counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from kvformat.connectors.cli._framing import MessageBatch
from kvformat.connectors.cli._output import head, tell, write_json
from kvformat.connectors.cli._table import ShownColumn, ShownTable
from kvformat.connectors.cli._values import json_values
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.schemas import row_type
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.table.metadata import VALUE_PREFIX

_MICROS, _INSTANT = pa.timestamp("us", "UTC"), FlinkType("TIMESTAMP_LTZ", precision=3)
_FAR = 2**63


class Decoder:
    """Decodes batches of a table's messages and prints them; counts messages, rows, bad and skipped ones.

    shown: how a row is printed, given with what is known of its record; by default as JSON. told: the same for what is
    said of a bad message. wanted: whether a row is printed and counted, given with its kind; by default each is.
    """

    def __init__(
        self,
        table: ShownTable,
        *,
        stop: bool = False,
        shown: Callable[[list[tuple[Mapping[str, Any], Any]]], None] | None = None,
        told: Callable[[dict[str, Any]], None] = tell,
        wanted: Callable[[Mapping[str, Any], str], bool] = lambda _row, _kind: True,
    ) -> None:
        self._table, self._stop, self._shown, self._told, self._wanted = table, stop, shown, told, wanted
        self.counts = {"messages": 0, "rows": 0, "skipped": 0, "bad": 0}
        self.is_framed_otherwise = False  # perhaps: a bad message is no text, or no record
        self._of_value = [column for column in table.columns if column.key.startswith(VALUE_PREFIX)]

    def batch(self, batch: MessageBatch) -> bool:
        """Decode a batch; returns whether to go on, which is not so after a bad message with `stop`."""
        values = [None if place in batch.faults else value for place, value in enumerate(batch.values)]
        keys = None if batch.keys is None else pa.array(batch.keys, pa.binary())
        decoded = self._table.kv.decode_batch(
            keys, pa.array(values, pa.binary()), metadata=[column.key for column in self._of_value]
        )
        rows = self._rows(decoded.rows.values, batch, decoded.rows)
        kinds = None if decoded.row_kinds is None else decoded.row_kinds.to_pylist()
        reasons, codes = _texts(decoded.errors), _texts(decoded.codes)
        parts = _texts(decoded.parts)
        ends = decoded.rows.offsets.to_pylist()
        found: list[tuple[Mapping[str, Any], Any]] = []
        goes_on = True
        for place, value in enumerate(batch.values):
            self.counts["messages"] += 1
            about = batch.about[place] if batch.about else {}
            fault: dict[str, Any] | None = None
            if place in batch.faults:
                fault = {"part": "record", "code": ErrorCode.MALFORMED.value, "reason": batch.faults[place]}
                self.is_framed_otherwise = True
            elif place in reasons:
                fault = {"part": parts[place], "code": codes[place], "reason": reasons[place]}
            if fault is not None:
                key = batch.keys[place] if batch.keys else None
                self._bad(batch.first + place, fault, about, key, value)
                if self._stop:
                    goes_on = False
                    break
                continue
            if ends[place] == ends[place + 1]:
                self.counts["skipped"] += 1
            for at in range(ends[place], ends[place + 1]):
                row, kind = rows[at], kinds[at] if kinds else "+I"
                if self._wanted(row, kind):
                    found.append((about, {"row_kind": kind, "row": row} if self._table.has_kinds else row))
        self.counts["rows"] += len(found)
        if self._shown is not None:
            self._shown(found)
        else:
            write_json(row for _, row in found)
        return goes_on

    def _bad(
        self, number: int, fault: dict[str, Any], about: Mapping[str, Any], key: bytes | None, value: bytes | None
    ) -> None:
        self.counts["bad"] += 1
        message = key if fault["part"] == "key" else value
        self.is_framed_otherwise = self.is_framed_otherwise or not _is_text(message)
        place = {name: about[name] for name in ("topic", "partition", "offset") if name in about}
        self._told({"message": number, **place, **fault, "head": head(message)})

    def _rows(self, values: pa.StructArray, batch: MessageBatch, lists: pa.ListArray) -> list[dict[str, Any]]:
        """All rows of a batch, with the columns of the table."""
        names = [column.name for column in self._table.columns]
        fields = self._table.physical
        columns: dict[int, list[Any]] = {}
        given = [values.field(place) for place in range(values.type.num_fields)]
        metadata_types = row_type(pa.schema(list(values.type)[len(fields) :])).fields
        of_value = {
            column.key: json_values(array, field.type)
            for column, array, field in zip(self._of_value, given[len(fields) :], metadata_types, strict=True)
        }
        for i, column in enumerate(self._table.columns):
            if column.place >= 0:
                columns[i] = json_values(given[column.place], fields[column.place].type)
            elif column in self._of_value:
                columns[i] = of_value[column.key]
            else:
                columns[i] = _of_records(column, batch, lists)
        texts = [columns[i] for i in range(len(names))]
        return [dict(zip(names, row, strict=True)) for row in zip(*texts, strict=True)] if names else [{}] * len(values)


def _of_records(column: ShownColumn, batch: MessageBatch, lists: pa.ListArray) -> list[Any]:
    """A column of Kafka's metadata, for each row that of its record; null where it is not known."""
    per_record = [_metadata(column.key, about) for about in batch.about or [{}] * len(batch.values)]
    ends = lists.offsets.to_pylist()
    return [per_record[place] for place in range(len(per_record)) for _ in range(ends[place], ends[place + 1])]


def _metadata(key: str, about: Mapping[str, Any]) -> Any:
    """A metadata key of the connector in JSON, by the type of the key."""
    value = about.get("headers" if key == "header-list" else key)
    if value is None:
        return None
    if key == "timestamp":
        micros = 1000 * value
        # Kafka takes any number
        return json_values(pa.array([micros], _MICROS), _INSTANT)[0] if -_FAR <= micros < _FAR else micros
    if key in ("headers", "header-list"):
        pairs = [(name, json_values(pa.array([data], pa.binary()), _BYTES)[0]) for name, data in value]
        return dict(pairs) if key == "headers" else [{"key": name, "value": data} for name, data in pairs]
    return value


_BYTES = FlinkType("VARBINARY")


def _texts(array: pa.StringArray | None) -> dict[int, str]:
    """The texts of an array by their places."""
    return {} if array is None else {i: text for i, text in enumerate(array.to_pylist()) if text is not None}


def _is_text(message: bytes | None) -> bool:
    try:
        (message or b"").decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
