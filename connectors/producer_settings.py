"""Settings of librdkafka's producer for those of Java's, which a table gives as `properties.*`.

    producer_settings(options)     the settings of a producer, without security and transactions
    without_effect(options)        a note for each setting that librdkafka does not have and does not need

Spark's sink and Flink use Java's producer. Most settings have the same name in librdkafka, some have another name or
unit. A setting that would change what is written, and that librdkafka does not have, raises `OptionError`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kvformat.connectors import brokers
from kvformat.connectors.java_settings import BUFFERS, CONNECTION, connection_settings, number, properties
from kvformat.connectors.properties import CLIENT_SETTINGS, PREFIX
from kvformat.registry.contract.errors import OptionError

_SAME: Final = (
    "acks",
    "compression.type",
    "delivery.timeout.ms",
    "enable.idempotence",
    "linger.ms",
    "max.in.flight.requests.per.connection",
    "request.timeout.ms",
    "retries",
)
"""Settings with the same name, unit and meaning in Java's producer and in librdkafka."""
_LEVEL: Final = "compression.{}.level"
_LARGEST_RECORD: Final = 1 << 20  # bytes: Java's default of max.request.size
_MEMORY: Final = 32 << 20  # bytes: Java's default of buffer.memory
LARGEST_BATCH: Final = 1_000_000
"""Size of a batch of records in bytes: librdkafka's own default, and nearly that of brokers."""
_LINGER: Final = "20"  # milliseconds: a task writes many records, so larger batches cost less and delay nothing
# Settings that choose partitions or change records by a class of Java.
_CLASSES: Final = ("partitioner.class", "interceptor.classes")
# Settings that another part of the table replaces, or that only readers have.
_SET_ELSEWHERE: Final = ("bootstrap.servers", "key.serializer", "transaction.timeout.ms", "value.serializer")
_OWN: Final = ("batch.size", "buffer.memory", "max.block.ms", "max.request.size", "partitioner.ignore.keys")
_READERS: Final = (
    "auto.",
    "commit.",
    "default.api.timeout",
    "enable.auto",
    "exclude.internal",
    "fetch.",
    "group.",
    "heartbeat.",
    "isolation.level",
    "key.deserializer",
    "max.partition.fetch",
    "max.poll",
    "partition.",
    "register.consumer",
    "session.timeout",
    "share.",
    "value.deserializer",
    "check.crcs",
    "allow.auto.create",
    "client.id.prefix",
)
# Settings that `brokers.client_settings` uses or refuses.
_OF_CLIENTS: Final = ("client.", "sasl.", "security.", "ssl.")


def producer_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Return librdkafka's settings for those of Java's producer; the default of each setting is Java's.

    Raises `OptionError` for a setting that can't be kept.
    """
    client_properties = properties(options)
    for name in _CLASSES:
        if client_properties.get(name):
            raise _refused(name, "is a class of Java, and librdkafka writes the records")
    if client_properties.get("partitioner.ignore.keys", "false").lower() == "true":
        raise _refused("partitioner.ignore.keys", "has no counterpart in librdkafka, which chooses partitions by key")
    settings = connection_settings(options) | {
        name: client_properties[name] for name in _SAME if name in client_properties
    }
    level = _LEVEL.format(client_properties.get("compression.type", "none"))
    if level in client_properties:
        settings["compression.level"] = client_properties[level]
    largest = number(client_properties, "max.request.size", _LARGEST_RECORD)
    # A record that does not fit the queue would wait for ever.
    memory = max(number(client_properties, "buffer.memory", _MEMORY), 2 * largest)
    return {
        "linger.ms": _LINGER,
        **settings,
        "message.max.bytes": largest,
        "batch.size": min(number(client_properties, "batch.size", LARGEST_BATCH) or 1, largest),
        "partitioner": "murmur2_random",
        "queue.buffering.max.kbytes": memory >> 10,
        "queue.buffering.max.messages": 0,  # no limit: the limit is their size
    }


def without_effect(options: Mapping[str, str]) -> dict[str, str]:
    """Return a note for each setting of a producer that librdkafka does not have, and that changes no record."""
    told = (*_SAME, *CONNECTION, *BUFFERS, *_CLASSES, *_SET_ELSEWHERE, *_OWN)
    notes = {}
    for name in properties(options):
        level = name.startswith("compression.") and name.endswith(".level")
        if (
            name in CLIENT_SETTINGS
            and name not in told
            and not level
            and not name.startswith((*_READERS, *_OF_CLIENTS))
        ):
            why = "librdkafka, which writes the records, does not have it"
            if name == "transactional.id":
                why = "transactions are named by 'sink.transactional-id-prefix'"
            notes[f"{PREFIX}{name}"] = f"'{PREFIX}{name}' has no effect: {why}"
    return notes


def largest_messages(options: Mapping[str, str], topics: Iterable[str]) -> list[int]:
    """Return `max.message.bytes` of the topics that tell it; the brokers are asked.

    A broker rejects a whole batch that is larger, with all its records. Java's client then splits the batch;
    librdkafka does not, so it must not make one.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

    client, sizes = brokers.admin(options), []  # it must live until its futures have finished
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
    for future in client.describe_configs(resources).values() if resources else ():
        with contextlib.suppress(KafkaException, TimeoutError, KeyError):  # the user may have no permission
            sizes.append(max(int(future.result(brokers.TIMEOUT)["max.message.bytes"].value), 1))
    return sizes


def _refused(name: str, why: str) -> OptionError:
    return OptionError(
        f"'{PREFIX}{name}' {why}, which writes transactions ('sink.delivery-guarantee' = 'exactly-once'). Remove the "
        "option, or set 'at-least-once', which is written by Java's client",
        option=f"{PREFIX}{name}",
        reason=why,
    )
