"""Read undecoded records of topics without Spark, without joining a group and without committing offsets."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kvformat.connectors import brokers
from kvformat.connectors.cli._framing import MessageBatch
from kvformat.connectors.cli._output import note
from kvformat.connectors.reader.client_settings import settings_of
from kvformat.connectors.topics import matching
from kvformat.registry.contract.errors import OptionError, did_you_mean, listed

if TYPE_CHECKING:
    from confluent_kafka import Message

_AT_ONCE: Final = 500
"""Records of a batch."""
_PATIENCE: Final = 0.2
"""Seconds to wait for a full batch of records."""
_TIMESTAMP_TYPES: Final = {1: "CreateTime", 2: "LogAppendTime"}  # by librdkafka's numbers


def partitions_of(
    options: Mapping[str, str], topics: Sequence[str] | None, pattern: str | None
) -> dict[str, list[int]]:
    """Return the partitions of topics, given by name or by a Java pattern for whole names.

    Raises `OptionError` for a missing topic, `BrokerError` if no broker answers.
    """
    client = brokers.admin(options)
    cluster = brokers.ask(client, options, "the topics", lambda: client.list_topics(timeout=brokers.TIMEOUT))
    there = cluster.topics
    wanted = list(topics or ())
    if pattern is not None:
        wanted = sorted(matching(pattern, there))
        if not wanted:
            raise OptionError(f"no topic matches 'topic-pattern' = '{pattern}'", option="topic-pattern")
    for name in wanted:
        if name not in there:
            shown = [known for known in there if not known.startswith("__")]
            raise OptionError(
                f"there is no topic {name!r}.{did_you_mean(name, shown)} Topics: {listed(shown)}", option="topic"
            )
    return {name: sorted(there[name].partitions) for name in wanted}


class Topics:
    """The records of some partitions, in batches.

    start: "earliest", "latest", or milliseconds since 1970; the first record of each partition.
    say: called with the text of errors of the connection; the client then tries again.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        partitions: Mapping[str, Sequence[int]],
        start: str | int,
        say: Callable[[str], None],
    ) -> None:
        from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

        self._options, self._tell, self._said = options, say, set[int]()
        self._all = [(topic, partition) for topic, numbers in partitions.items() for partition in numbers]
        self._ended: set[tuple[str | None, int | None]] = set()
        self._count = 0
        from confluent_kafka import Consumer

        settings = settings_of(self._options).for_client() | {"auto.offset.reset": "earliest", "error_cb": self._say}
        self._consumer = brokers.make_client(Consumer, settings, self._options)
        if isinstance(start, int):
            times = [TopicPartition(topic, partition, start) for topic, partition in self._all]
            places = self._ask("offsets", lambda: self._consumer.offsets_for_times(times, timeout=brokers.TIMEOUT))
        else:
            place = OFFSET_BEGINNING if start == "earliest" else OFFSET_END
            places = [TopicPartition(topic, partition, place) for topic, partition in self._all]
        self._ask("offsets", lambda: self._consumer.assign(places))

    def _ask(self, what: str, question: Callable[[], Any]) -> Any:
        return brokers.ask(self._consumer, self._options, what, question)

    def _say(self, error: Any) -> None:
        """Report each error of the client once, until a record arrives; the client continues to try."""
        if error.code() not in self._said:
            self._said.add(error.code())
            self._tell(brokers.without_secrets(error.str(), self._options))

    @property
    def at_end(self) -> bool:
        """Whether every partition was read to the end that the client saw last."""
        return len(self._ended) == len(self._all)

    def batches(self, *, most: int | None = None, until_end: bool = False) -> Iterator[MessageBatch]:
        """Yield batches of records, in total at most `most`; an empty batch if no record arrives for a moment."""
        while (most is None or self._count < most) and not (until_end and self.at_end):
            wanted = _AT_ONCE if most is None else min(_AT_ONCE, most - self._count)
            messages: list[Message] = self._ask("records", functools.partial(self._records, wanted))
            first = self._count + 1
            self._count += len(messages)
            yield _batch(first, messages)

    def spread(self, places: int, most: int) -> Iterator[MessageBatch]:
        """Yield batches of at most `most` records from about `places` places of the partitions, ends included.

        The places are far enough from each other that no record is read twice. A short partition is read whole. Of
        many partitions, only some are read: each has at least two places.
        """
        from confluent_kafka import TopicPartition

        chosen = self._all[:: -(-2 * len(self._all) // places) or 1]
        for topic, number in chosen:
            partition = TopicPartition(topic, number)
            low, high = self._ask(
                "offsets", functools.partial(self._consumer.get_watermark_offsets, partition, timeout=brokers.TIMEOUT)
            )
            pieces = max(places // len(chosen), 2)
            if high - low <= pieces * most:
                yield self._at(topic, number, low, high - low)
            else:
                for place in range(pieces):
                    yield self._at(topic, number, low + (high - most - low) * place // (pieces - 1), most)

    def _at(self, topic: str, number: int, start: int, most: int) -> MessageBatch:
        """Return the records from an offset on, as many as arrive in time."""
        from confluent_kafka import TopicPartition

        self._ask("offsets", lambda: self._consumer.assign([TopicPartition(topic, number, start)]))
        self._ended.discard((topic, number))
        records: list[Message] = []
        ends = time.monotonic() + brokers.TIMEOUT
        while len(records) < most and (topic, number) not in self._ended and time.monotonic() < ends:
            records += self._ask("records", functools.partial(self._records, most - len(records)))
        return _batch(1, records)

    def _records(self, most: int) -> list[Message]:
        """Return the records that arrive within a moment, at most `most`."""
        return [message for message in self._consumer.consume(most, timeout=_PATIENCE) if self._is_record(message)]

    def _is_record(self, message: Message) -> bool:
        from confluent_kafka import KafkaError, KafkaException

        error, place = message.error(), (message.topic(), message.partition())
        if error is None:
            self._ended.discard(place)
            self._said.clear()
            return True
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        self._ended.add(place)
        return False

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()


@contextlib.contextmanager
def reading(
    options: Mapping[str, str],
    partitions: Mapping[str, Sequence[int]],
    start: str | int,
    say: Callable[[str], None] = note,
) -> Iterator[Topics]:
    """Open `Topics`, and close them at the end of the context."""
    topics = Topics(options, partitions, start, say)
    try:
        yield topics
    finally:
        topics.close()


def _batch(first: int, messages: Sequence[Message]) -> MessageBatch:
    return MessageBatch(
        first,
        [message.value() for message in messages],
        [message.key() for message in messages],
        [_about(message) for message in messages],
    )


def _about(message: Message) -> dict[str, Any]:
    kind, millis = message.timestamp()
    about: dict[str, Any] = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
    about["timestamp-type"] = _TIMESTAMP_TYPES.get(kind, "NoTimestampType")
    if kind in _TIMESTAMP_TYPES:
        about["timestamp"] = millis
    epoch = message.leader_epoch()
    if epoch is not None and epoch >= 0:
        about["leader-epoch"] = epoch
    # without headers an empty list, as in Flink
    about["headers"] = list(message.headers() or [])
    return about
