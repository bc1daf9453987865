"""Debezium's envelopes: the operations and their rows, in JSON and in Avro. Only JSON has metadata."""

from __future__ import annotations

from kvformat.codecs.changes.envelope import Envelope, Frame, RowImage
from kvformat.codecs.changes.metadata import Epoch, EpochText, PlainMember
from kvformat.codecs.debezium.hints import NO_BEFORE_HINT
from kvformat.codecs.debezium.other_messages import OTHER_BY_MEMBERS, OTHER_BY_OPERATION
from kvformat.codecs.debezium.table_names import ADDED_DATABASES, ADDED_SCHEMAS, ADDED_TABLES
from kvformat.codecs.discovery.column_types import map_of
from kvformat.registry.contract.types import STRING

NEEDED_BY = {"c": "a creation", "r": "a snapshot's row", "u": "an update", "d": "a deletion"}
"""What needs a row, by operation, for errors of messages without it."""
CHANGE = Envelope(
    operation="op",
    rows={
        "c": (RowImage("+I", "after"),),
        "r": (RowImage("+I", "after"),),
        "u": (RowImage("-U", "before"), RowImage("+U", "after")),
        "d": (RowImage("-D", "before"),),
    },
    before="before",
    after="after",
    frames=(Frame('{"before":null,"after":', ',"op":"c"}'), Frame('{"before":', ',"after":null,"op":"d"}')),
    frames_without_nulls=(Frame('{"after":', ',"op":"c"}'), Frame('{"before":', ',"op":"d"}')),
    metadata={
        "schema": PlainMember("schema", beside_payload=True),
        "ingestion-timestamp": Epoch("ts_ms"),
        "source.timestamp": EpochText("source", key="ts_ms"),
        "source.database": PlainMember("source", key="db"),
        "source.schema": PlainMember("source", key="schema"),
        "source.table": PlainMember("source", key="table"),
        "source.properties": PlainMember("source", map_of(STRING)),
    },
    no_before_hint=NO_BEFORE_HINT,
    array_of_one=True,
    wrappable=True,
    other_by_operation=OTHER_BY_OPERATION,
    other_by_members=OTHER_BY_MEMBERS,
    no_operation_hint=(
        ". If the messages are rows without an envelope (the transform ExtractNewRecordState), set 'flattened' to "
        "true, or read them as plain rows by format json"
    ),
)
"""Messages with the rows before and after a change."""
ROW_ALONE = Envelope(
    operation="__op",
    rows={
        "c": (RowImage("+I", ""),),
        "r": (RowImage("+I", ""),),
        "u": (RowImage("+U", ""),),
        "d": (RowImage("-D", ""),),
    },
    before="__deleted",
    after="",
    metadata={
        "schema": PlainMember("schema", beside_payload=True),
        "ingestion-timestamp": Epoch("__ts_ms"),
        "source.timestamp": Epoch("__source_ts_ms"),
        "source.database": PlainMember(ADDED_DATABASES[0], others=ADDED_DATABASES[1:]),
        "source.schema": PlainMember(ADDED_SCHEMAS[0], others=ADDED_SCHEMAS[1:]),
        "source.table": PlainMember(ADDED_TABLES[0], others=ADDED_TABLES[1:]),
        "source.properties": PlainMember("__source", map_of(STRING)),
    },
    array_of_one=True,
    wrappable=True,
    other_by_operation=OTHER_BY_OPERATION,
    other_by_members=OTHER_BY_MEMBERS,
    flattened=True,
)
"""Rows without an envelope. Their metadata is what the transform's `add.fields` puts beside the columns."""
