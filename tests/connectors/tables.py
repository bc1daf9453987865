"""Tables on a broker for several test modules."""

from __future__ import annotations

from typing import Any

from kvformat.connectors import KafkaTable

SCHEMA = "id INT NOT NULL, n BIGINT"


def upsert(bootstrap: str, topic: str, schema: str = SCHEMA, **options: Any) -> KafkaTable:
    """Return an upsert table in JSON with `id` in the key and the other columns in the value."""
    given = {
        "connector": "upsert-kafka",
        "topic": topic,
        "properties.bootstrap.servers": bootstrap,
        "key.format": "json",
        "value.format": "json",
        "value.fields-include": "EXCEPT_KEY",
    }
    return KafkaTable(schema, given | options, primary_key=["id"])
