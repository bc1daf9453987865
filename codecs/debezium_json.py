r"""`debezium-json`: one change of a row per message, with the row before and after it.

    {"before": null, "after": {"id": 1, "name": "a"}, "op": "c", "source": {...}, "ts_ms": 1589362330904}

    c, r  +I(after)     u  -U(before), +U(after)     d  -D(before)     a null or empty message  nothing

With `schema-include` messages are `{"schema": {...}, "payload": {"before": ...}}`. Written are only `before`, `after`
and `op`, an update as a deletion and a creation.
Rules: Flink's "Debezium Format" page, its `DebeziumJsonDeserializationSchema` and `DebeziumJsonSerializationSchema`.
"""

from __future__ import annotations

from typing import ClassVar

from kvformat.codecs._changes.envelope import ChangeSettings, Envelope, Frame, Reads, RowOf
from kvformat.codecs._changes.format import CHANGE_OPTIONS, ChangeFormat
from kvformat.codecs._changes.metadata import TEXT, Epoch, EpochText, Plain, map_of
from kvformat.codecs._changes.read import ChangeReader
from kvformat.codecs._changes.unchanged import UNCHANGED_OPTIONS
from kvformat.codecs._changes.upsert import OR_UPSERT
from kvformat.codecs._debezium.options import DEBEZIUM, TYPE_OPTIONS, check_types, modes_of
from kvformat.codecs._debezium.read import HintingReader, TypedReader
from kvformat.registry.errors import OptionError
from kvformat.registry.options import Direction, Option
from kvformat.registry.types import FlinkType

NO_BEFORE = (
    ". A table of Postgres must be told to send it: ALTER TABLE ... REPLICA IDENTITY FULL; "
    "with another database, check that its log holds whole rows (MySQL: binlog_row_image=FULL)" + OR_UPSERT
)
"""What to do about a message without the row before a change."""


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
    )
    metadata_types = envelope.metadata_types

    def reader(self, row: FlinkType, settings: ChangeSettings, metadata: tuple[str, ...]) -> Reads:
        if self.options["types"] != DEBEZIUM:
            return HintingReader(ChangeReader(row, self.envelope, settings, metadata), wrapped=settings.wrapped)
        return TypedReader(row, self.envelope, settings, metadata, modes_of(self.options))

    def validate(self, direction: Direction) -> None:
        super().validate(direction)
        check_types(self.identifier, self.options, direction)
        if direction == "encode" and self.options["schema-include"]:
            raise OptionError(
                "Debezium JSON serialization doesn't support 'debezium-json.schema-include' option been set to true.",
                format=self.identifier,
                option="schema-include",
            )
