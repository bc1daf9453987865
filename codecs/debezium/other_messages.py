"""Messages on Debezium's topics that do not change a row: truncates, heartbeats, transactions, schema changes."""

from __future__ import annotations

import re

from kvformat.codecs.changes.other_messages import OtherMessage

OTHER_BY_OPERATION = {
    "t": OtherMessage("a TRUNCATE", empties_table=True),
    "m": OtherMessage("a logical decoding message, or a watermark of TiCDC"),
}
"""Messages that do not change a row, by operation (`op`)."""
_SCHEMA_CHANGE = ("ddl", "databaseName")
_DROP = re.compile(
    r"(?:\s|/\*.*?\*/|--[^\n]*\n)*(?:(?P<drop>DROP\s+(?:TABLE|DATABASE|SCHEMA))|TRUNCATE)\b", re.I | re.S
)
"""A statement after which a table has lost its rows."""
OTHER_BY_MEMBERS = (
    OtherMessage("a heartbeat", required=("ts_ms",), allowed=frozenset({"ts_ms", "ts_us", "ts_ns"})),
    OtherMessage("the start or end of a transaction", required=("event_count", "status", "id")),
    OtherMessage("a DROP or TRUNCATE", empties_table=True, required=_SCHEMA_CHANGE, pattern=_DROP),
    OtherMessage("a schema change", required=_SCHEMA_CHANGE),
)
"""Messages without an operation, on Debezium's topics for heartbeats, transactions and schema changes."""
OTHER_MEMBERS = frozenset(("source", "data_collections", "schemaName", "tableChanges")).union(
    *(message.allowed.union(message.required) for message in OTHER_BY_MEMBERS)
)
"""All members of these messages. A row without an envelope has a member beside them, such as `__deleted`."""
