r"""`debezium-json`: one change of a row per message, with the row before and after it.

    {"before": null, "after": {"id": 1, "name": "a"}, "op": "c", "source": {...}, "ts_ms": 1589362330904}

    c, r  +I(after)     u  -U(before), +U(after)     d  -D(before)     a null or empty message  nothing

With `schema-include` messages are `{"schema": {...}, "payload": {"before": ...}}`, with `flattened` they are the row
alone (the transform ExtractNewRecordState), which is then a change of an upsert table. Written are only `before`,
`after` and `op`, an update as a deletion and a creation.
Rules: Flink's "Debezium Format" page, its `DebeziumJsonDeserializationSchema` and `DebeziumJsonSerializationSchema`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from kvformat.codecs._changes.envelope import ChangeSettings, Envelope, Frame, Reads, RowOf
from kvformat.codecs._changes.format import CHANGE_OPTIONS, ChangeFormat
from kvformat.codecs._changes.metadata import TEXT, Epoch, EpochText, Plain, map_of
from kvformat.codecs._changes.others import Other
from kvformat.codecs._changes.read import ChangeReader
from kvformat.codecs._changes.unchanged import UNCHANGED_OPTIONS
from kvformat.codecs._changes.upsert import OR_UPSERT
from kvformat.codecs._debezium.options import (
    DEBEZIUM,
    FLATTENED,
    TYPE_OPTIONS,
    check_flattened,
    check_types,
    modes_of,
)
from kvformat.codecs._debezium.read import HintingReader, TypedReader
from kvformat.codecs._json.nulls import is_null
from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.errors import ReadingOnlyError
from kvformat.registry.contract.format import Format
from kvformat.registry.contract.options import Direction, Option
from kvformat.registry.contract.types import FlinkType

NO_BEFORE = (
    ". A table of Postgres must be told to send it: ALTER TABLE ... REPLICA IDENTITY FULL; "
    "with another database, check that its log holds whole rows (MySQL: binlog_row_image=FULL)" + OR_UPSERT
)
"""What to do about a message without the row before a change."""
OTHERS = {"t": Other("a TRUNCATE", empties=True), "m": Other("a logical decoding message, or a watermark of TiCDC")}
"""Messages that are no change of a row, by `op`."""
_CHANGED = ("ddl", "databaseName")
_LOSING = re.compile(r"(?:\s|/\*.*?\*/|--[^\n]*\n)*(?:DROP\s+(?:TABLE|DATABASE|SCHEMA)|TRUNCATE)\b", re.I | re.S)
"""A statement after which tables have lost their rows."""
UNMARKED = (
    Other("a heartbeat", needs=("ts_ms",), only=frozenset({"ts_ms", "ts_us", "ts_ns"})),
    Other("the begin or end of a transaction", needs=("event_count", "status", "id")),
    Other("a DROP or TRUNCATE", empties=True, needs=_CHANGED, words=_LOSING),
    Other("a schema change", needs=_CHANGED),
)
"""The same, of messages without one: those of Debezium's topics for heartbeats, transactions and schema changes."""
_FLAT = Envelope(
    operation="__op",
    rows={
        "c": (RowOf("+I", ""),),
        "r": (RowOf("+I", ""),),
        "u": (RowOf("+U", ""),),
        "d": (RowOf("-D", ""),),
    },
    before="__deleted",
    after="",
    writes=(Frame("", ""), Frame("", "")),
    writes_without_nulls=(Frame("", ""), Frame("", "")),
    metadata={
        "schema": Plain("schema", outside=True),
        "ingestion-timestamp": Epoch("__ts_ms"),
        "source.timestamp": Epoch("__source_ts_ms"),
        "source.database": Plain("__db"),
        "source.schema": Plain("__schema"),
        "source.table": Plain("__table"),
        "source.properties": Plain("__source", map_of(TEXT)),
    },
    array=True,
    wrappable=True,
    others=OTHERS,
    unmarked=UNMARKED,
    flat=True,
)
"""Messages that are the row alone, with what `add.fields` puts beside the columns."""


class DebeziumJsonFormat(ChangeFormat):
    """The `debezium-json` format."""

    identifier: ClassVar[str] = "debezium-json"
    option_specs: ClassVar[tuple[Option, ...]] = (
        Option(
            name="schema-include",
            type="boolean",
            default=False,
            doc="Whether messages come in `schema` and `payload` (the connector's `schemas.enable`). For reading only.",
        ),
        *CHANGE_OPTIONS,
        *UNCHANGED_OPTIONS,
        *TYPE_OPTIONS,
        FLATTENED,
    )
    envelope: ClassVar[Envelope] = Envelope(
        operation="op",
        rows={
            "c": (RowOf("+I", "after"),),
            "r": (RowOf("+I", "after"),),
            "u": (RowOf("-U", "before"), RowOf("+U", "after")),
            "d": (RowOf("-D", "before"),),
        },
        before="before",
        after="after",
        writes=(Frame('{"before":null,"after":', ',"op":"c"}'), Frame('{"before":', ',"after":null,"op":"d"}')),
        writes_without_nulls=(Frame('{"after":', ',"op":"c"}'), Frame('{"before":', ',"op":"d"}')),
        metadata={
            "schema": Plain("schema", outside=True),
            "ingestion-timestamp": Epoch("ts_ms"),
            "source.timestamp": EpochText("source", key="ts_ms"),
            "source.database": Plain("source", key="db"),
            "source.schema": Plain("source", key="schema"),
            "source.table": Plain("source", key="table"),
            "source.properties": Plain("source", map_of(TEXT)),
        },
        remedy=NO_BEFORE,
        array=True,
        wrappable=True,
        others=OTHERS,
        unmarked=UNMARKED,
        alone=(
            ". If the messages are rows alone (the transform ExtractNewRecordState), set 'flattened' to true; as plain "
            "rows they are read by format json"
        ),
    )
    metadata_types = envelope.metadata_types

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        if self.options[FLATTENED.name]:
            self.changelog_mode = ChangelogMode.UPSERT
            self.nulls_delete = True
        if self.options["types"] == DEBEZIUM:
            self.time_digits = 6  # a CREATE TABLE declares three at most, as in Flink, and databases have six

    def for_key(self, key: Format) -> Format:
        from kvformat.codecs._debezium.keys import ConnectKeyFormat

        typed = self.options["types"] == DEBEZIUM or self.options["schema-include"]
        return ConnectKeyFormat.beside(key, self) if typed and key.identifier == "json" else key

    def is_tombstone(self, message: bytes) -> bool:
        return self.nulls_delete and is_null(message, wrapped=self.options["schema-include"])

    @property
    def presences(self) -> bool:
        return not self.options[FLATTENED.name] and super().presences

    def reader(self, row: FlinkType, settings: ChangeSettings, metadata: tuple[str, ...]) -> Reads:
        envelope = self.envelope
        if self.options[FLATTENED.name]:  # its rows are those after a change already
            envelope, settings = _FLAT, replace(settings, upsert=False, bare_deletes=False)
        typed = self.options["types"] == DEBEZIUM
        found: Reads
        if typed:
            found = TypedReader(row, envelope, settings, metadata, modes_of(self.options))
        else:
            found = ChangeReader(row, envelope, settings, metadata)
        return HintingReader(found, envelope, settings, typed=typed)

    def validate(self, direction: Direction) -> None:
        super().validate(direction)
        check_types(self.identifier, self.options, direction)
        check_flattened(self.identifier, self.options, direction, "json")
        if direction == "encode" and self.options["schema-include"]:
            raise ReadingOnlyError(
                "Debezium JSON serialization doesn't support 'debezium-json.schema-include' option been set to true.",
                format=self.identifier,
                option="schema-include",
            )
