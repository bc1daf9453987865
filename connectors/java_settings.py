"""Settings of Java's Kafka clients that any client, or a consumer, of librdkafka has, too.

    connection_settings(options)   settings of connections, for every client
    consumer_settings(options)     settings of a consumer, without security (brokers.py)
    properties(options)            `properties.*` of a table without their prefix

The names and units are mostly the same. producer_settings.py has those of producers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvformat.connectors.properties import PREFIX
from kvformat.registry.contract.errors import OptionError

CONNECTION: Final = (
    "connections.max.idle.ms",
    "enable.metrics.push",
    "metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "socket.connection.setup.timeout.ms",
)
"""Settings of connections with the same name, unit and meaning in Java's clients and in librdkafka."""
BUFFERS: Final = {
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}
"""Sizes of socket buffers, and their names in librdkafka. The system's default is -1 in Java, and 0 in librdkafka."""
_CONSUMER: Final = {
    "check.crcs": "check.crcs",
    "fetch.max.bytes": "fetch.max.bytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "fetch.min.bytes": "fetch.min.bytes",
    "isolation.level": "isolation.level",
    "max.partition.fetch.bytes": "max.partition.fetch.bytes",
    "request.timeout.ms": "socket.timeout.ms",
}
"""Settings of Java's consumer, and their names in librdkafka."""


def properties(options: Mapping[str, str]) -> dict[str, str]:
    """Return `properties.*` of a table without their prefix, and without blanks around them, as Java's clients do."""
    return {key.removeprefix(PREFIX): text.strip() for key, text in options.items() if key.startswith(PREFIX)}


def connection_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Return librdkafka's settings of connections. Raises `OptionError` for a size that is not a number."""
    client_properties = properties(options)
    settings: dict[str, Any] = {name: client_properties[name] for name in CONNECTION if name in client_properties}
    return settings | {
        ours: str(max(number(client_properties, name, 0), 0))
        for name, ours in BUFFERS.items()
        if name in client_properties
    }


def consumer_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Return librdkafka's settings of a consumer and its connections. The consumer's group is not among them."""
    client_properties = properties(options)
    settings = {ours: client_properties[name] for name, ours in _CONSUMER.items() if name in client_properties}
    return connection_settings(options) | settings


def milliseconds(options: Mapping[str, str], name: str, default: int) -> int:
    """Return a time of `properties.*` in milliseconds. Raises `OptionError` for a text that is not a number."""
    return number(properties(options), name, default)


def number(properties: Mapping[str, str], name: str, default: int) -> int:
    """Return a number among a table's properties. Raises `OptionError` for a text that is not a number."""
    try:
        return int(properties.get(name, str(default)))
    except ValueError:
        raise OptionError(
            f"'{PREFIX}{name}' = {properties[name]!r} must be a whole number", option=f"{PREFIX}{name}"
        ) from None
