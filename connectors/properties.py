"""`properties.*` of a table: what is handed to the Kafka client within Spark, and what Spark keeps for itself."""

from __future__ import annotations

from collections.abc import Mapping

PREFIX = "properties."
# Spark sets these itself, and refuses a job that names them. A group it takes, and then fails where one application
# reads a partition twice with other settings; it joins none, commits to none, and so needs no right to one.
_SPARKS_OWN = (
    "auto.offset.reset",
    "enable.auto.commit",
    "group.id",
    "interceptor.classes",
    "key.deserializer",
    "key.serializer",
    "value.deserializer",
    "value.serializer",
)
# Flink's own, which it keeps among those of the client.
_FLINKS = (
    "client.id.prefix",
    "commit.offsets.on.checkpoint",
    "partition.discovery.interval.ms",
    "register.consumer.metrics",
)


def client_options(given: Mapping[str, str]) -> dict[str, str]:
    """`properties.x` as `kafka.x`, without what Spark sets itself, and what Flink's source reads."""
    names = [key.removeprefix(PREFIX) for key in given if key.startswith(PREFIX)]
    return {f"kafka.{name}": given[PREFIX + name] for name in names if name not in (*_SPARKS_OWN, *_FLINKS)}
