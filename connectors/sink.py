"""What Spark's Kafka sink is asked for, from the options of a table."""

from __future__ import annotations

from kvformat.connectors.properties import client_options
from kvformat.registry.key_value import KeyValueFormat


def options(kv: KeyValueFormat) -> dict[str, str]:
    """The options of Spark's Kafka sink."""
    topics = kv.connector_options("encode")["topic"]
    found = client_options(kv.options)
    if topics is not None and len(topics) == 1:
        found["topic"] = topics[0]
    return found
