"""Readers of Debezium's JSON by its own types, and hints in errors for the formats that read without them.

Messages that carry their schema are read by it (wrapped.py). The others are read by the connector's settings.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from kvformat.codecs._changes.envelope import BatchReader, ChangeSettings, Envelope
from kvformat.codecs._changes.read import ChangeReader
from kvformat.codecs._changes.row_plan import RowPlan
from kvformat.codecs._debezium.embedded_schema import EmbeddedSchemaReader
from kvformat.codecs._debezium.value_readings import ConnectorModes, plan_row
from kvformat.registry.contract.error_codes import parted
from kvformat.registry.contract.fork_safe import Guarded
from kvformat.registry.contract.format import DecodedBatch
from kvformat.registry.contract.types import FlinkType


class TypedReader:
    """Reads change messages in JSON as `ChangeReader` does, but values by Debezium's types.

    `EmbeddedSchemaReader` reads messages that carry their schema. The connector's `modes` say how to read the others.
    """

    def __init__(
        self,
        row: FlinkType,
        envelope: Envelope,
        settings: ChangeSettings,
        metadata: tuple[str, ...],
        modes: ConnectorModes,
    ) -> None:
        def reader() -> BatchReader:
            if settings.wrapped:
                return EmbeddedSchemaReader(row, envelope, settings, metadata, modes)
            return _OptionsReader(plan_row(row, None, modes, "json"), envelope, settings, metadata)

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

    def __init__(self, plan: RowPlan, envelope: Envelope, settings: ChangeSettings, metadata: tuple[str, ...]) -> None:
        self._plan, self._lenient = plan, settings.values.lenient
        self._reader = ChangeReader(plan.wire, envelope, settings, metadata)

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """The rows of a batch; a value that the columns can't hold is an error, or null where that is asked for."""
        return self._plan.apply(self._reader.read(messages), lenient=self._lenient)
