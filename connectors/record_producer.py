"""Writes records at least once with librdkafka, in the process that encodes them.

    ProducerSettings.of(kv)    what tasks need, checked before a job; pickled to executors
    write_records(settings, batches)

`transaction_client.py` writes exactly once. The partition of a record is that of Java's client, by the murmur2 of its
key.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kvformat.connectors import brokers
from kvformat.connectors.java_settings import milliseconds, properties
from kvformat.connectors.producer_settings import largest_messages, producer_settings
from kvformat.connectors.properties import PREFIX
from kvformat.connectors.transaction_client import records
from kvformat.registry.contract.errors import BrokerError, OptionError
from kvformat.registry.contract.fork_safe import Guarded
from kvformat.registry.contract.secrets import scrubbed
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.table.producer import is_idempotent

if TYPE_CHECKING:
    from collections.abc import Hashable

_DELIVERY: Final = 120_000  # milliseconds: Java's default of delivery.timeout.ms
_PATIENCE: Final = 0.5  # seconds to wait before a record is added to a full queue again
_LATE: Final = 5.0  # seconds after which a delivery that librdkafka should have given up is given up
_SHOWN_KEY: Final = 100  # bytes of a key in an error
_MOST_KEPT: Final = 2  # idle producers of a process


@dataclass(frozen=True, repr=False)
class ProducerSettings:
    """Settings with which tasks write. Contains secrets, so it has no `repr` of its fields.

    options: the table's options, for `properties.*`. producer: librdkafka's settings of a producer. topic: the topic of
    records without a column `topic`.
    """

    options: Mapping[str, str]
    producer: Mapping[str, Any]
    topic: str | None

    @classmethod
    def of(cls, kv: KeyValueFormat) -> ProducerSettings:
        """Check the options of a table, and ask the brokers for the largest record of its topics.

        Raises `OptionError` for `properties.*` that only Java's client has, `MissingExtraError`, `BrokerError`.
        """
        topics: tuple[str, ...] = kv.connector_options("encode")["topic"] or ()
        try:
            brokers.client_settings(kv.options)
            producer = producer_settings(kv.options)
        except OptionError as cause:
            if cause.reason is None:
                raise
            raise OptionError(
                f"table '{kv.name}': {cause.reason}, so librdkafka, which writes for the data source, can't. Write "
                "with KafkaTable.from_ddl(...).write(df) or write_stream(df, ...), which use Java's client",
                option=cause.option,
                reason=cause.reason,
            ) from cause
        if is_idempotent(properties(kv.options)):
            producer["enable.idempotence"] = "true"
        sizes = largest_messages(kv.options, topics)
        if sizes:
            producer["batch.size"] = min(int(producer["batch.size"]), *sizes)
        return cls(dict(kv.options), producer, topics[0] if len(topics) == 1 else None)

    @property
    def patience(self) -> float:
        """Seconds after which a record that was not written is an error."""
        return milliseconds(self.options, "delivery.timeout.ms", _DELIVERY) / 1000

    @property
    def key(self) -> Hashable:
        """The key of the producer; settings with equal keys may share it."""
        client_options = {name: text for name, text in self.options.items() if name.startswith(PREFIX)}
        return tuple(sorted(client_options.items())), tuple(
            sorted((name, str(value)) for name, value in self.producer.items())
        )


class _Client:
    """A producer of this process, and what it has said."""

    def __init__(self, settings: ProducerSettings) -> None:
        from confluent_kafka import Producer

        self.refused: list[str] = []
        self.said: list[str] = []
        callbacks = {"log_level": 0, "error_cb": lambda error: self.said.append(error.str())}
        callbacks |= {"on_delivery": self._delivered, "delivery.report.only.error": True}
        client_settings = brokers.client_settings(settings.options) | dict(settings.producer) | callbacks
        self.producer: Producer = brokers.make_client(Producer, client_settings, settings.options)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and not self.refused:
            key = message.key()
            shown = "no key" if key is None else f"key {bytes(key[:_SHOWN_KEY])!r}"
            where = f"topic '{message.topic()}', partition {message.partition()}, {shown}"
            self.refused.append(f"{where}: {error.name()}, {error.str()}")


_idle: Guarded[list[tuple[Hashable, _Client]]] = Guarded(list)


@contextlib.contextmanager
def _client(settings: ProducerSettings) -> Iterator[_Client]:
    """Return a producer for one task. It is kept for the next task, unless an error ends the context."""
    key, process = settings.key, os.getpid()
    with _idle.use() as idle:
        idle_client = next((client for of, client in idle if of == key), None)
        idle[:] = [entry for entry in idle if entry[1] is not idle_client]
    client = idle_client or _Client(settings)
    try:
        yield client
    except BaseException:
        client.producer.purge()
        raise
    if process == os.getpid():
        client.said.clear()
        with _idle.use() as idle:
            idle.append((key, client))
            del idle[:-_MOST_KEPT]


def write_records(settings: ProducerSettings, batches: Iterator[pa.RecordBatch]) -> int:
    """Write the records of batches, as `row_encoder.py` makes them, and return their number when brokers have them.

    Raises `BrokerError` if a record was not written; others may have been.
    """
    count = 0
    with _client(settings) as client:
        for batch in batches:
            _add(settings, client, batch)
            count += len(batch)
        left = client.producer.flush(settings.patience + _LATE)
        _check(settings, client)
        if left:
            raise _failure(settings, client, f"{left} records were not delivered in {settings.patience:g} s")
    return count


def _add(settings: ProducerSettings, client: _Client, batch: pa.RecordBatch) -> None:
    """Give records to librdkafka's queue, and wait while it is full."""
    from confluent_kafka import KafkaException

    produce, poll = client.producer.produce, client.producer.poll
    for topic, value, key, more in records(batch, settings.topic):
        deadline = 0.0
        while True:
            try:
                produce(topic, value, key, **more)
                break
            except BufferError:
                deadline = deadline or time.monotonic() + settings.patience + _LATE
                poll(_PATIENCE)
                _check(settings, client)
                if time.monotonic() > deadline:
                    raise _failure(settings, client, "the queue of records stays full") from None
            except KafkaException as cause:
                _check(settings, client)
                shown = "no key" if key is None else f"key {bytes(key[:_SHOWN_KEY])!r}"
                told = f"topic '{topic}', {shown}: {cause.args[0].name()}, {cause.args[0].str()}"
                raise _failure(settings, client, told) from cause
    poll(0)
    _check(settings, client)


def _check(settings: ProducerSettings, client: _Client) -> None:
    if client.refused:
        raise _failure(settings, client, client.refused[0])


def _failure(settings: ProducerSettings, client: _Client, told: str) -> BrokerError:
    said = "; ".join(dict.fromkeys(client.said[-3:]))
    reason = scrubbed(f"{told}{f' ({said})' if said else ''}", brokers.secrets(settings.options))
    servers = settings.options[f"{PREFIX}bootstrap.servers"]
    return BrokerError(
        f"a record can't be written to the brokers at '{servers}': {reason}. Other records of this task may be "
        "written; the next attempt writes all of them again",
        option=f"{PREFIX}bootstrap.servers",
        reason=reason,
    )
