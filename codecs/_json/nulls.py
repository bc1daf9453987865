"""Messages that are null in JSON: Connect's `JsonConverter` writes the deletion of a record with a schema so.

    null                                  without schemas in the messages
    {"schema": {...}, "payload": null}    with them

A record that has neither a schema nor a value is a null value of Kafka.
"""

from __future__ import annotations

import json

_BLANKS = b" \t\r\n"


def is_null(message: bytes, *, wrapped: bool = False) -> bool:
    """Whether a message is JSON's null, or if `wrapped` an object with a schema whose payload is null."""
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
