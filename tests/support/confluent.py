"""Confluent's client and (de)serializers as peers. Without these settings, a test may wait forever.

By default they ask the registry for associations of subjects, without a timeout. Other registries have none: Apicurio
answers 404, but about once in 7,000 requests, and more often just after its start, not at all.
"""

from __future__ import annotations

from typing import Any

BY_TOPIC = {"subject.name.strategy.type": "TOPIC"}
"""Settings of (de)serializers that name subjects by the topic, without asking the registry."""


def registry_client(url: str, **settings: Any) -> Any:
    """Return a `SchemaRegistryClient` whose requests end after ten seconds."""
    from confluent_kafka.schema_registry import SchemaRegistryClient

    return SchemaRegistryClient({"url": url, "timeout": 10, **settings})
