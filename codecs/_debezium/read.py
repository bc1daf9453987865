"""Batches of Debezium's messages, read by the types that their schemas say.

    messages of one schema -> the kernel, with columns as they are on the wire -> convert.py -> rows with kinds

In JSON each message has its schema beside its payload, some kilobytes that are the same in most messages: a batch is
read by the schema of the one before, and what has another schema is read again by its own.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._changes.envelope import ChangeSettings, Envelope, Reads
from kvformat.codecs._changes.metadata import TEXT, SchemaNumber
from kvformat.codecs._changes.read import ChangeReader
from kvformat.codecs._columnar import Ints
from kvformat.codecs._debezium.connect import Connect, image_of_json
from kvformat.codecs._debezium.convert import Change, RefusedValues, RowFaults
from kvformat.codecs._debezium.types import Carrier, Modes, absent, reading_of
from kvformat.registry._parts import joined_rows, with_reasons
from kvformat.registry.error_codes import ErrorCode, parted
from kvformat.registry.errors import SchemaError
from kvformat.registry.format import DecodedBatch
from kvformat.registry.types import FlinkField, FlinkType

_KEPT = 64
"""Schemas whose readers are kept; a topic has a few."""
_NUMBER = "kvformat.schema-number"
_OWN_TYPE = (
    r"^field '[^']*': cannot read .* as (?:DECIMAL|DATE|TIME|TIMESTAMP|TIMESTAMP_LTZ|BYTES|DOUBLE|BOOLEAN)(?:\(|$)"
)
"""An error of a type that Debezium writes in its own way."""
_IMAGE = r"^field '(?:payload\.)?(?:before|after)': "
"""An error of a whole row before or after a change."""
OF_MONGODB = (
    ". The message is MongoDB's: its documents are texts, and before a change there is mostly none. Let the connector "
    "write rows (the transform ExtractNewDocumentState) and set 'flattened' to true, or read `op` and `after` as "
    "columns of type STRING by format json"
)


@dataclass(frozen=True)
class RowPlan:
    """How the images of one schema become rows of a table: read as `wire`, then changed column by column."""

    row: FlinkType
    wire: FlinkType
    changes: Sequence[Change | None]

    @classmethod
    def of(cls, row: FlinkType, image: Connect | None, modes: Modes, carrier: Carrier) -> RowPlan:
        """The plan for a table. Raises `SchemaError` as `reading_of` does."""
        readings = []
        for column in row.fields:
            if image is not None and column.name not in image.fields:
                readings.append(absent(column.type, carrier))
                continue
            said = None if image is None else image.fields[column.name]
            readings.append(reading_of(column.type, said, modes, carrier, column.name))
        fields = (FlinkField(f.name, reading.wire) for f, reading in zip(row.fields, readings, strict=True))
        return cls(row, replace(row, fields=tuple(fields)), [reading.change for reading in readings])

    @classmethod
    def refusing(cls, row: FlinkType) -> RowPlan:
        """A plan that reads any value, as none."""
        fields = tuple(FlinkField(field.name, TEXT) for field in row.fields)
        return cls(row, replace(row, fields=fields), [RefusedValues(field.type, "") for field in row.fields])

    def applied(self, batch: DecodedBatch, faults: RowFaults, *, lenient: bool = False) -> DecodedBatch:
        """The rows of the wire as those of the table, further columns as they are. Rows with faults are errors.

        If `lenient`, a value that the column can't hold is null instead.
        """
        rows = batch.rows.values
        known = dict(faults.reasons)
        columns = [rows.field(place) for place in range(rows.type.num_fields)]
        for place, (change, field) in enumerate(zip(self.changes, self.row.fields, strict=False)):
            if change is not None:
                columns[place] = change.convert(columns[place], field.name, lambda places: places, faults)
        kind = pa.struct([pa.field(f.name, c.type) for f, c in zip(rows.type, columns, strict=True)])
        changed = pa.Array.from_buffers(kind, len(rows), [None], children=columns)
        items = pa.list_(pa.field("item", kind))
        lists = pa.Array.from_buffers(items, len(batch.rows), batch.rows.buffers()[:2], children=[changed])
        reasons = known if lenient else faults.reasons
        changed_batch = replace(batch, rows=lists)
        return with_reasons(changed_batch, dict(sorted(reasons.items()))) if reasons else changed_batch


class TypedReader:
    """Reads change messages in JSON as `ChangeReader` does, but values by Debezium's types."""

    def __init__(
        self, row: FlinkType, envelope: Envelope, settings: ChangeSettings, metadata: tuple[str, ...], modes: Modes
    ) -> None:
        self._row, self._modes = row, modes
        self._reading, self._flat = (envelope, settings, metadata), envelope.flat
        self._readers: dict[str, _SchemaReader] = {}
        self._plans: dict[str, str] = {}
        self._usual: str | None = None
        self._lock = threading.Lock()
        self._only = None if settings.wrapped else _SchemaReader(RowPlan.of(row, None, modes, "json"), *self._reading)

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """One list of rows per message: null for a null message or an error, empty for a skipped one."""
        with self._lock:  # the columns grow in place
            batch = self._by_schemas(messages) if self._only is None else self._only.read(messages)
        if batch.errors is None or batch.codes is not None:
            return batch
        errors, codes = parted(batch.errors)
        return replace(batch, errors=errors, codes=codes)

    def _by_schemas(self, messages: pa.BinaryArray) -> DecodedBatch:
        """By the usual plan first; messages whose schema asks for another one are read again by that."""
        if len(self._plans) > _KEPT:
            self._plans, self._readers, self._usual = {}, {}, None
        if self._usual is None:
            first = next((message.as_py() for message in messages if message.is_valid and len(message.as_py())), b"")
            self._usual = self._plan_of(_schema_of(first))
        usual = self._usual
        reader = self._readers[usual]
        batch = reader.read(messages)
        found: dict[str, list[int]] = {}
        plans = [self._plan_of(text) for text in reader.schemas]
        if any(plan != usual for plan in plans):
            for place in np.flatnonzero(reader.numbers >= 0).tolist():
                found.setdefault(plans[reader.numbers[place]], []).append(place)
            self._usual = max(found, key=lambda plan: len(found[plan]), default=usual)
        if batch.errors is not None:
            for place in np.flatnonzero(np.asarray(batch.errors.is_valid()) & (reader.numbers < 0)).tolist():
                found.setdefault(self._plan_of(_schema_of(messages[place].as_py())), []).append(place)
        parts = [(np.arange(len(messages)), batch)]
        for plan, places in found.items():
            if plan != usual:
                parts.append((np.array(places), self._readers[plan].read(messages.take(pa.array(places)))))
        return batch if len(parts) == 1 else joined(parts)

    def _plan_of(self, schema: str | bytes) -> str:
        """The name of the plan for a schema's text, whose reader is then there; schemas of equal types have one."""
        key = schema if isinstance(schema, str) else schema.decode(errors="replace")
        if key not in self._plans:
            image, refusal = image_of_json(_parsed(key), flat=self._flat), ""
            try:
                plan = RowPlan.of(self._row, image, self._modes, "json")
            except SchemaError as unset:
                plan = RowPlan.refusing(self._row)
                refusal = f"'schema': is missing, or none of rows before and after a change; {unset}"
            name = f"{plan} {refusal}"
            if name not in self._readers:
                self._readers[name] = _SchemaReader(plan, *self._reading, refusal)
            self._plans[key] = name
        return self._plans[key]


class _SchemaReader:
    """Reads messages of one schema. `numbers` are those of the schemas that the last messages had, in `schemas`.

    A message whose rows did not come out has -1. With a `refusal` all messages that have rows are errors.
    """

    def __init__(
        self, plan: RowPlan, envelope: Envelope, settings: ChangeSettings, metadata: tuple[str, ...], refusal: str = ""
    ) -> None:
        self._plan, self._refusal, self._lenient = plan, refusal, settings.values.lenient
        self._number = SchemaNumber("schema", outside=True)
        self._wrapped = settings.wrapped
        if settings.wrapped:
            envelope = replace(envelope, metadata={**envelope.metadata, _NUMBER: self._number})
            metadata = (*metadata, _NUMBER)
        self._reader = ChangeReader(plan.wire, envelope, settings, metadata)
        self.numbers: Ints = np.zeros(0, np.int64)

    @property
    def schemas(self) -> list[bytes]:
        """The different schemas among the last messages, by their numbers."""
        return self._number.texts

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """The rows of a batch; a value that the columns can't hold is an error, or null where that is asked for."""
        batch, faults = self._reader.read(messages), RowFaults()
        firsts, has = np.asarray(batch.rows.offsets)[:-1], np.asarray(batch.rows.value_lengths().fill_null(0)) > 0
        if self._wrapped:
            rows = batch.rows.values
            self.numbers = np.full(len(messages), -1, np.int64)
            self.numbers[has] = np.asarray(rows.field(rows.type.num_fields - 1).fill_null(-1))[firsts[has]]
            batch = _without_last_column(batch)
        if self._refusal:
            faults.add(firsts[has], lambda _: ErrorCode.MISSING_FIELD.marked(self._refusal))
        return self._plan.applied(batch, faults, lenient=self._lenient)


def _without_last_column(batch: DecodedBatch) -> DecodedBatch:
    rows = batch.rows.values
    fields = list(rows.type)[:-1]
    values = pa.Array.from_buffers(
        pa.struct(fields), len(rows), [None], children=[rows.field(place) for place in range(len(fields))]
    )
    items = pa.list_(pa.field("item", values.type))
    lists = pa.Array.from_buffers(items, len(batch.rows), batch.rows.buffers()[:2], children=[values])
    return replace(batch, rows=lists)


class HintingReader:
    """Reads change messages; an error says what to do where the message has another layout, or Debezium's own types.

    `typed` messages are read by those already.
    """

    def __init__(self, reader: Reads, envelope: Envelope, settings: ChangeSettings, *, typed: bool) -> None:
        self._reader, self._envelope, self._wrapped, self._typed = reader, envelope, settings.wrapped, typed

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """What the reader reads."""
        batch = self._reader.read(messages)
        if batch.errors is None:
            return batch
        texts: list[str | None] = batch.errors.to_pylist()
        pattern = _IMAGE if self._typed else f"{_IMAGE}|{_OWN_TYPE}"
        for place in np.flatnonzero(np.asarray(pc.match_substring_regex(batch.errors, pattern).fill_null(False))):
            texts[place] = self._told(str(texts[place]), messages[place].as_py())
        return replace(batch, errors=pa.array(texts, pa.string()))

    def _told(self, error: str, message: bytes) -> str:
        if not re.match(_IMAGE, error):
            return error + self._hint(error, message)
        if _is_of_mongodb(_parsed(message), wrapped=self._wrapped):
            return error.removesuffix(self._envelope.remedy) + OF_MONGODB
        return error

    def _hint(self, error: str, message: bytes) -> str:
        how = "set 'types' = 'debezium' to read values so"
        if not self._wrapped:
            return (
                f". If it is one of Debezium's own types, {how}, with 'decimal.handling.mode' and "
                "'time.precision.mode' as the connector has them"
            )
        column = re.sub(r"^field 'payload\.(.*?)': .*", r"\1", error, flags=re.DOTALL)
        if not self._envelope.flat:
            column = column.partition(".")[2]
        image = image_of_json(_parsed(_schema_of(message)), flat=self._envelope.flat)
        said = None if image is None else image.fields.get(column) or image.fields.get(column.split(".")[0])
        return f". The message's schema says {said}: {how}" if said is not None else ""


def joined(parts: list[tuple[Ints, DecodedBatch]]) -> DecodedBatch:
    """One batch of several, each with the places of its messages; a later one takes the place of an earlier one."""
    places, start = np.zeros(1 + max(int(at.max()) for at, _ in parts if len(at)), np.int64), 0
    for at, _ in parts:
        places[at] = start + np.arange(len(at))
        start += len(at)
    chosen = pa.array(places)
    batch = joined_rows([part for _, part in parts])
    buffers = batch.rows.buffers()[:2]
    kinds = pa.Array.from_buffers(pa.list_(pa.string()), len(batch.rows), buffers, children=[batch.row_kinds])
    errors = None if batch.errors is None else batch.errors.take(chosen)
    return replace(batch, rows=batch.rows.take(chosen), row_kinds=kinds.take(chosen).flatten(), errors=errors)


def _is_of_mongodb(message: Any, *, wrapped: bool) -> bool:
    event = message.get("payload") if wrapped and isinstance(message, dict) else message
    source = event.get("source") if isinstance(event, dict) else None
    return isinstance(source, dict) and source.get("connector") == "mongodb"


def _schema_of(message: bytes) -> str:
    """The schema of a message as text, "null" where there is none."""
    node = _parsed(message)
    if isinstance(node, list) and len(node) == 1:
        node = node[0]
    return json.dumps(node.get("schema")) if isinstance(node, dict) else "null"


def _parsed(text: str | bytes) -> Any:
    """JSON as Python has it, None for what is none."""
    try:
        node = json.loads(text)
        json.dumps(node)  # not deeper than it can be written
    except (ValueError, RecursionError):
        return None
    return node
