"""Messages that are JSON null. Connect's `JsonConverter` writes them for deletions of records with a schema.

    null                                  without schemas in the messages
    {"schema": {...}, "payload": null}    with them

For a record without a schema and a value, Connect writes a Kafka message without a value.
"""

from __future__ import annotations

import json

_BLANKS = b" \t\r\n"


def is_null(message: bytes, *, wrapped: bool = False) -> bool:
    """Whether a message is JSON null. If `wrapped`: whether it is an object with a schema and a null payload."""
    text = message.strip(_BLANKS)
    if not wrapped:
        return text == b"null"
    if not (text.startswith(b"{") and b"null" in text):
        return False
    try:
        node = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(node, dict) and "schema" in node and "payload" in node and node["payload"] is None
