r"""`debezium-json`: one change of a row per message, with the row before and after it.

    {"before": null, "after": {"id": 1, "name": "a"}, "op": "c", "source": {...}, "ts_ms": 1589362330904}

    c, r  +I(after)     u  -U(before), +U(after)     d  -D(before)     a null or empty message  no rows

With `schema-include`, messages are `{"schema": {...}, "payload": {"before": ...}}`. With `flattened`, a message is the
row without an envelope (the transform ExtractNewRecordState), as a change of an upsert table. The format writes only
`before`, `after` and `op`, and an update as a deletion and a creation.
Rules: Flink's "Debezium Format" page, its `DebeziumJsonDeserializationSchema` and `DebeziumJsonSerializationSchema`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._json_documents import WRAPPED
from kvformat.codecs._rows import join_parts
from kvformat.codecs.changes.envelope import BatchReader, ChangeSettings, Envelope
from kvformat.codecs.changes.format import CHANGE_OPTIONS, JsonChangeFormat
from kvformat.codecs.changes.read import ChangeReader
from kvformat.codecs.changes.reading_only import check_reading_only
from kvformat.codecs.changes.record_keys import ConnectSchemaKeyFormat
from kvformat.codecs.changes.row_plan import PlannedReader
from kvformat.codecs.changes.unchanged import UNCHANGED_OPTIONS
from kvformat.codecs.debezium.embedded_schema import EmbeddedSchemaReader, GuardedReader
from kvformat.codecs.debezium.envelopes import CHANGE, ROW_ALONE
from kvformat.codecs.debezium.hints import HintingReader
from kvformat.codecs.debezium.options import DEBEZIUM, FLATTENED, TYPE_OPTIONS, check_types, modes_of
from kvformat.codecs.debezium.value_readings import plan_row
from kvformat.codecs.json.nulls import is_null
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.errors import ReadingOnlyError, SchemaError
from kvformat.registry.contract.look import Looker, LookRequest
from kvformat.registry.contract.options import Direction, Option
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.format import Format


class DebeziumJsonFormat(JsonChangeFormat):
    """The `debezium-json` format."""

    identifier: ClassVar[str] = "debezium-json"
    option_specs: ClassVar[tuple[Option, ...]] = (
        Option(
            name="schema-include",
            type="boolean",
            default=False,
            doc="Whether messages have `schema` and `payload` (the connector's `schemas.enable`). For reading only.",
        ),
        *CHANGE_OPTIONS,
        *UNCHANGED_OPTIONS,
        *TYPE_OPTIONS,
        FLATTENED,
    )
    envelope: ClassVar[Envelope] = CHANGE
    metadata_types = envelope.metadata_types

    @classmethod
    def recognize(cls, sample: MessageSample) -> Sequence[Recognition]:
        from kvformat.codecs.debezium.columns import recognize_debezium

        return recognize_debezium(sample)

    def propose_columns(self, sample: MessageSample) -> SchemaProposal:
        from kvformat.codecs.debezium.columns import propose_debezium

        return propose_debezium(sample, self._raw_options)

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        if self.options[FLATTENED.name]:
            self.changelog_mode = ChangelogMode.UPSERT
            self.nulls_delete = True
        if self.options["types"] == DEBEZIUM:
            self.time_digits = 6  # a CREATE TABLE declares at most three, as in Flink, but databases have six

    @classmethod
    def look_options(cls, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Read values as the types of the database, if the messages have schemas."""
        has_schemas = str(options.get("schema-include", "")).lower() == "true"
        return super().look_options({"types": DEBEZIUM, **options} if has_schemas else options)

    def looker(self, request: LookRequest) -> Looker:
        from kvformat.codecs.debezium.discover import debezium_looker

        return debezium_looker(self, request)

    def for_key(self, key: Format) -> Format:
        typed = self.options["types"] == DEBEZIUM or self.options.get("schema-include", False)
        if key.identifier != "json":
            return key
        return ConnectKeyFormat.beside(key, self) if typed else ConnectSchemaKeyFormat(key._raw_options)

    def is_tombstone(self, message: bytes) -> bool:
        return self.nulls_delete and is_null(message, wrapped=self.options.get("schema-include", False))

    @property
    def reads_presence(self) -> bool:
        return not self.options[FLATTENED.name] and super().reads_presence

    def reader(self, row: FlinkType, settings: ChangeSettings, metadata: tuple[str, ...]) -> BatchReader:
        envelope = self.envelope
        if self.options[FLATTENED.name]:  # its rows are already the rows after changes
            envelope, settings = ROW_ALONE, replace(settings, upsert=False, bare_deletes=False)
        typed, modes = self.options["types"] == DEBEZIUM, modes_of(self.options)
        reader: BatchReader
        if not typed:
            reader = ChangeReader(row, envelope, settings, metadata)
        elif settings.wrapped:
            reader = GuardedReader(lambda: EmbeddedSchemaReader(row, envelope, settings, metadata, modes))
        else:
            reader = PlannedReader(plan_row(row, None, modes, "json"), envelope, settings, metadata)
        return HintingReader(reader, envelope, settings, typed=typed)

    def validate(self, direction: Direction) -> None:
        super().validate(direction)
        check_types(self, direction)
        advice = ". Rows without an envelope are written by format json"
        check_reading_only(self, direction, FLATTENED, "whole changes", advice)
        if direction == "encode" and self.options.get("schema-include", False):
            raise ReadingOnlyError(
                "Debezium JSON serialization doesn't support 'debezium-json.schema-include' option been set to true.",
                format=self.identifier,
                option="schema-include",
            )


# --- keys of records -----------------------------------------------------------------------------------

_KEY_OPTIONS = ("types", "decimal.handling.mode", "time.precision.mode", "binary.handling.mode")
"""Options of the format of values that hold for keys too."""


class ConnectKeyFormat(DebeziumJsonFormat):
    """Format `json` for the keys of Debezium's records, which the connector writes with its types, as it does values.

        {"id": 7, "day": 18266}                                      without a schema
        {"schema": {...}, "payload": {"id": 7, "day": 18266}}        with a schema

    It reads keys of format json beside values of `debezium-json` with `types` = `debezium` or `schema-include`. Each
    key tells whether it has a schema. The format does not write.
    """

    identifier: ClassVar[str] = "json"

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self.changelog_mode = ChangelogMode.INSERT_ONLY

    def looker(self, request: LookRequest) -> Looker:
        from kvformat.codecs.debezium.discover import key_looker

        return key_looker(self, request)

    @classmethod
    def beside(cls, key: Format, value: DebeziumJsonFormat) -> ConnectKeyFormat:
        """Return the format that reads keys declared as json, for records with values of format `value`."""
        value_options = {name: value.options[name] for name in _KEY_OPTIONS if value.options[name] is not None}
        key_names = ("ignore-parse-errors", "timestamp-format.standard")
        return cls({**value_options, **{name: key.options[name] for name in key_names}, "flattened": True})

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        wrapped = np.zeros(len(messages), np.bool_)
        if not {"schema", "payload"} <= set(schema.names):
            matches = pc.match_substring_regex(messages, WRAPPED)
            wrapped = np.asarray(pc.fill_null(matches, False))
        parts = []
        for is_wrapped in (False, True):
            at = np.flatnonzero(wrapped == is_wrapped)
            if len(at) or (is_wrapped and not len(messages)):
                parts.append((at, self._part(messages.take(pa.array(at)), schema, wrapped=is_wrapped)))
        batch = parts[0][1] if len(parts) == 1 else join_parts(parts)
        return replace(batch, row_kinds=None)

    def _part(self, messages: pa.BinaryArray, schema: pa.Schema, *, wrapped: bool) -> DecodedBatch:
        """Decode keys that all have a schema, if `wrapped`, or all have none."""
        options = {**self._raw_options, "schema-include": wrapped}
        try:
            return DebeziumJsonFormat(options).decode_arrow(messages, schema)
        except SchemaError:
            if wrapped or not len(messages):
                raise
            return DebeziumJsonFormat({**options, "schema-include": True}).decode_arrow(messages, schema)

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        raise self.unsupported("encode")
