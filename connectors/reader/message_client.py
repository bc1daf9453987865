"""A consumer that reads a range by confluent-kafka's `Message` objects.

It is used where the compiled loop can't run, and costs more CPU for each record. confluent-kafka can't read headers
whose keys are not UTF-8.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kvformat.connectors import brokers
from kvformat.connectors.reader.client_settings import LOOK_UP, ReaderSettings
from kvformat.connectors.reader.fetched import Fetched
from kvformat.connectors.reader.ranges import PartitionRange
from kvformat.connectors.reader.records import KAFKA_FIELDS, record_batch

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

_AT_ONCE: Final = 1000  # messages of a call: the objects of more of them leave the processor's cache
_MOST_MILLIS: Final = (2**63 - 1) // 1000  # the last time with a number of microseconds; later times become this one


class MessageClient:
    """A consumer of confluent-kafka. Raises `OptionError` if librdkafka refuses a setting."""

    def __init__(self, settings: ReaderSettings) -> None:
        from confluent_kafka import Consumer

        self._settings = settings
        self._said: collections.deque[tuple[str, str]] = collections.deque(maxlen=3)
        client_settings = settings.for_client() | {
            "error_cb": lambda error: self._said.append((error.name(), error.str()))
        }
        self._consumer: Consumer = brokers.make_client(Consumer, client_settings, dict(settings.options))
        self._at = PartitionRange("", 0, 0, 0)
        self._fields: tuple[str, ...] = ()
        self._seen = set[tuple[str, int]]()
        _open.append(self._consumer)

    def begin(self, at: PartitionRange, fields: tuple[str, ...]) -> None:
        """Begin to fetch a range."""
        from confluent_kafka import TopicPartition

        self._at, self._fields = at, fields
        self._said.clear()
        self._consumer.assign([TopicPartition(at.topic, at.partition, at.start)])
        if self._seen and (at.topic, at.partition) not in self._seen:
            self._look_up()
        self._seen.add((at.topic, at.partition))

    def _look_up(self) -> None:
        """Ask for the leader of the assigned partition; see `LOOK_UP`."""
        from confluent_kafka import KafkaException

        with contextlib.suppress(KafkaException):
            self._consumer.list_topics(self._at.topic, timeout=LOOK_UP)

    def fetch(self, seconds: float) -> Fetched:
        """Wait for records of the range, and return those that have arrived."""
        messages = self._consumer.consume(1, timeout=seconds)
        if messages and messages[0].error() is None:  # what was fetched with it is there, too
            messages += self._consumer.consume(_AT_ONCE - 1, timeout=0)
        return self._fetched(messages)

    def _fetched(self, messages: Sequence[Message]) -> Fetched:
        from confluent_kafka import KafkaError

        records, position, name, reason = [], -1, "", ""
        for message in messages:
            error, offset = message.error(), message.offset()
            if error is None:
                assert offset is not None
                position = offset + 1
                if offset < self._at.end:
                    records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                position = max(position, -1 if offset is None else offset)
            else:
                name, reason = error.name(), error.str()
        return Fetched(self._batch(records) if records else None, position, name, reason)

    def _batch(self, messages: Sequence[Message]) -> pa.RecordBatch:
        arrays = {name: make(messages) for name, make in _ARRAYS.items() if name in self._fields}
        return record_batch(arrays, self._fields, self._at.topic, self._at.partition, len(messages))

    def edges(self, at: PartitionRange, seconds: float) -> tuple[int, int] | None:
        """Ask the brokers for the first offset of a range's partition, and the offset after its last record.

        Returns None if the partition is not there. Raises `ConnectionError` with the text of librdkafka.
        """
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        try:
            offsets = self._consumer.get_watermark_offsets(TopicPartition(at.topic, at.partition), timeout=seconds)
        except KafkaException as cause:
            if cause.args[0].code() in (KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART):
                return None
            raise ConnectionError(cause.args[0].str()) from cause
        if offsets is None:
            raise ConnectionError("there was no answer in time")
        return offsets

    def said(self) -> list[tuple[str, str]]:
        """Return the names and texts of the last errors of the connections."""
        return list(dict.fromkeys(self._said))

    def stop(self) -> None:
        """Stop to fetch, and free the records that were fetched ahead."""
        self._consumer.unassign()

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()
        _open.remove(self._consumer)


def _timestamps(messages: Sequence[Message]) -> pa.Array:
    micros = [min(message.timestamp()[1], _MOST_MILLIS) * 1000 for message in messages]
    return pa.array(micros, pa.int64()).cast(KAFKA_FIELDS.field("timestamp").type)


def _epochs(messages: Sequence[Message]) -> pa.Array:
    epochs = (message.leader_epoch() for message in messages)
    return pa.array([None if epoch is None or epoch < 0 else epoch for epoch in epochs], pa.int32())


def _named(message: Message) -> list[tuple[str, bytes | None]] | None:
    return message.headers()  # type: ignore[return-value]  # typed as a mapping, too


def _headers(messages: Sequence[Message]) -> pa.Array:
    lists = [
        None if headers is None else [{"key": key, "value": value} for key, value in headers]
        for headers in (_named(message) for message in messages)
    ]
    return pa.array(lists, KAFKA_FIELDS.field("headers").type)


_ARRAYS: Final[dict[str, Callable[[Sequence[Any]], pa.Array]]] = {
    "key": lambda messages: pa.array([message.key() for message in messages], pa.binary()),
    "value": lambda messages: pa.array([message.value() for message in messages], pa.binary()),
    "headers": _headers,
    "offset": lambda messages: pa.array([message.offset() for message in messages], pa.int64()),
    "timestamp": _timestamps,
    "timestampType": lambda messages: pa.array([message.timestamp()[0] - 1 for message in messages], pa.int32()),
    "leaderEpoch": _epochs,
}


# Consumers that are not closed. A child of a fork must not destroy its copies: that waits for threads of the parent.
_open: list[Any] = []


def _keep_in_child() -> None:
    for consumer in _open:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(consumer))
    _open.clear()


os.register_at_fork(after_in_child=_keep_in_child)
