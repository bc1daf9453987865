"""Readers of Debezium's JSON by its own types, and hints in errors for the formats that read without them.

Messages that carry their schema are read by it (wrapped.py). The others are read by the connector's settings.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._changes.envelope import ChangeSettings, Envelope, Reads
from kvformat.codecs._changes.read import ChangeReader
from kvformat.codecs._debezium.connect import image_of_json
from kvformat.codecs._debezium.rows import RowPlan
from kvformat.codecs._debezium.types import Modes
from kvformat.codecs._debezium.wrapped import SchemaReader
from kvformat.registry.contract.error_codes import parted
from kvformat.registry.contract.fork_safe import Guarded
from kvformat.registry.contract.format import DecodedBatch
from kvformat.registry.contract.types import FlinkType

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


class TypedReader:
    """Reads change messages in JSON as `ChangeReader` does, but values by Debezium's types.

    Messages that have their schema with them are read by `SchemaReader`, the others by the connector's `modes` alone.
    """

    def __init__(
        self, row: FlinkType, envelope: Envelope, settings: ChangeSettings, metadata: tuple[str, ...], modes: Modes
    ) -> None:
        def reader() -> Reads:
            if settings.wrapped:
                return SchemaReader(row, envelope, settings, metadata, modes)
            return _OptionsReader(RowPlan.of(row, None, modes, "json"), envelope, settings, metadata)

        self._reader = Guarded(reader)

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """One list of rows per message: null for a null message or an error, empty for a skipped one."""
        with self._reader.use() as reader:  # it keeps plans of schemas
            batch = reader.read(messages)
        if batch.errors is None or batch.codes is not None:
            return batch
        errors, codes = parted(batch.errors)
        return replace(batch, errors=errors, codes=codes)


class _OptionsReader:
    """Reads messages without a schema, by one plan."""

    def __init__(
        self, plan: RowPlan, envelope: Envelope, settings: ChangeSettings, metadata: tuple[str, ...]
    ) -> None:
        self._plan, self._lenient = plan, settings.values.lenient
        self._reader = ChangeReader(plan.wire, envelope, settings, metadata)

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """The rows of a batch; a value that the columns can't hold is an error, or null where that is asked for."""
        return self._plan.applied(self._reader.read(messages), lenient=self._lenient)


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
