"""Messages on Debezium's topics that do not change a row: truncates, heartbeats, transactions, schema changes."""

from __future__ import annotations

import re

from kvformat.codecs._changes.other_messages import OtherMessage

OTHER_BY_OPERATION = {
    "t": OtherMessage("a TRUNCATE", empties_table=True),
    "m": OtherMessage("a logical decoding message, or a watermark of TiCDC"),
}
"""Messages that are no change of a row, by `op`."""
_CHANGED = ("ddl", "databaseName")
_LOSING = re.compile(r"(?:\s|/\*.*?\*/|--[^\n]*\n)*(?:DROP\s+(?:TABLE|DATABASE|SCHEMA)|TRUNCATE)\b", re.I | re.S)
"""A statement after which tables have lost their rows."""
OTHER_BY_MEMBERS = (
    OtherMessage("a heartbeat", required=("ts_ms",), allowed=frozenset({"ts_ms", "ts_us", "ts_ns"})),
    OtherMessage("the begin or end of a transaction", required=("event_count", "status", "id")),
    OtherMessage("a DROP or TRUNCATE", empties_table=True, required=_CHANGED, pattern=_LOSING),
    OtherMessage("a schema change", required=_CHANGED),
)
"""The same, of messages without one: those of Debezium's topics for heartbeats, transactions and schema changes."""
