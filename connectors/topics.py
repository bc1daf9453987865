"""What the brokers say about the topics that a table is written to."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from kvformat.codecs._java.regex import compile_java
from kvformat.connectors import brokers
from kvformat.registry.errors import ConfigurationError, MissingExtraError, OptionError, did_you_mean
from kvformat.registry.key_value import KeyValueFormat

_CREATES = "auto.create.topics.enable"


def partitions(kv: KeyValueFormat) -> dict[str, int]:
    """How many partitions each topic has that a table may be written to.

    Raises `BrokerError`, `MissingExtraError` without confluent-kafka, and `ConfigurationError` for a topic that is not
    there.
    """
    values = kv.connector_options("encode")
    counts = {name: len(topic.partitions) for name, topic in _topics(brokers.admin(kv.options), kv).items()}
    names: Iterable[str] = values["topic"] or ()
    if values["topic"] is None:
        pattern = compile_java(values["topic-pattern"])
        names = [name for name in counts if pattern.matches(name)]
    for name in names:
        if name not in counts:
            raise _missing(kv, name, counts, "of which 'sink.partitioner' = 'fixed' needs the partitions")
    return {name: counts[name] for name in names}


def check(kv: KeyValueFormat, names: Iterable[str], spark: object) -> None:
    """Raise for topics that are not there and won't be made, and for brokers that are not.

    Spark would find out after a minute. Nobody is asked without confluent-kafka, where a setting of security is only
    for Java's client, or where `spark` (a session or a DataFrame) is Spark Connect's: its client may be far from the
    brokers. Raises `BrokerError`, `ConfigurationError`.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return
    try:
        client = brokers.admin(kv.options)
    except (MissingExtraError, OptionError):
        return
    there = _topics(client, kv)
    missing = [name for name in names if name not in there]
    if missing and not _creates_topics(client):
        raise _missing(kv, missing[0], there, f"and the brokers make none by themselves ('{_CREATES}')")


def _topics(client: Any, kv: KeyValueFormat) -> dict[str, Any]:
    question = functools.partial(client.list_topics, timeout=brokers.TIMEOUT)
    found: dict[str, Any] = brokers.ask(client, kv.options, "their topics", question).topics
    return found


def _creates_topics(client: Any) -> bool:
    """Whether a topic comes with its first record; also where nobody may know."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

    try:
        broker = next(iter(client.list_topics(timeout=brokers.TIMEOUT).brokers))
        asked = client.describe_configs([ConfigResource(ConfigResource.Type.BROKER, str(broker))])
        settings = next(iter(asked.values())).result(brokers.TIMEOUT)
    except (KafkaException, TimeoutError):
        return True
    return _CREATES not in settings or settings[_CREATES].value != "false"


def _missing(kv: KeyValueFormat, name: str, there: Iterable[str], why: str) -> ConfigurationError:
    return ConfigurationError(
        f"table '{kv.name}': there is no topic '{name}', {why}.{did_you_mean(name, there)} Make it, or set 'topic'",
        option="topic",
    )
