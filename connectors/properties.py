"""`properties.*` of a table: what is handed to the Kafka client within Spark, and what Spark keeps for itself."""

from __future__ import annotations

from collections.abc import Mapping

PREFIX = "properties."
#: Spark sets these itself, and refuses a job that names them.
_SPARKS_OWN = (
    "auto.offset.reset",
    "enable.auto.commit",
    "interceptor.classes",
    "key.deserializer",
    "key.serializer",
    "value.deserializer",
    "value.serializer",
)


def client_options(given: Mapping[str, str]) -> dict[str, str]:
    """`properties.x` as `kafka.x`, without what Spark sets itself."""
    names = [key.removeprefix(PREFIX) for key in given if key.startswith(PREFIX)]
    return {f"kafka.{name}": given[PREFIX + name] for name in names if name not in _SPARKS_OWN}
