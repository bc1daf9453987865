"""What Spark's Kafka source is asked for, from the options of a table."""

from __future__ import annotations

from kvformat.connectors.properties import client_options
from kvformat.registry.key_value import KeyValueFormat


def options(kv: KeyValueFormat, *, streaming: bool) -> dict[str, str]:
    """The options of Spark's Kafka source."""
    values = kv.connector_options("decode")
    found = client_options(kv.options)
    if values["topic"]:
        found["subscribe"] = ",".join(values["topic"])
    else:
        found["subscribePattern"] = rf"\A(?:{values['topic-pattern']})\z"
    found["startingOffsets"] = "earliest"
    return found
