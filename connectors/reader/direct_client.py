"""A consumer that reads a range by the compiled loop, without an object for each record.

It is a client of librdkafka's C functions. The kernel takes the messages of its queue
(`codecs/_kernel/kafka_records.py`).
"""

from __future__ import annotations

import collections
import ctypes
import os
from collections.abc import Callable
from typing import Any, Final

from kvformat.codecs._kernel.kafka_records import COLUMNS, KafkaRecords
from kvformat.codecs._kernel.librdkafka import Library
from kvformat.connectors import brokers
from kvformat.connectors.reader.client_settings import LOOK_UP, ReaderSettings
from kvformat.connectors.reader.fetched import Fetched, LayoutError
from kvformat.connectors.reader.librdkafka import ERROR_CALLBACK, TOKEN_CALLBACK, Librdkafka, TopicPartitions
from kvformat.connectors.reader.ranges import PartitionRange
from kvformat.connectors.reader.records import record_batch, with_header_names

_MOST_MESSAGES: Final = 10_000  # held at once; a batch is also limited by its bytes
_MOST_BYTES: Final = 32 << 20
"""Bytes of keys, values and headers after which a batch ends; one record may be larger."""
_TEXT: Final = 512  # bytes for the text of an error
_CONSUMER: Final = 1  # RD_KAFKA_CONSUMER


class DirectClient:
    """A consumer of librdkafka's C functions. Raises `OptionError` if librdkafka refuses a setting."""

    def __init__(self, settings: ReaderSettings, library: Librdkafka) -> None:
        self._library, self._process = library, os.getpid()
        self._said: collections.deque[tuple[str, str]] = collections.deque(maxlen=3)
        self._at = PartitionRange("", 0, 0, 0)
        self._fields: tuple[str, ...] = ()
        self._seen = set[tuple[str, int]]()
        self._checked = False
        # librdkafka calls them until the client is closed.
        self._callback, self._refresh_callback = ERROR_CALLBACK(self._say), TOKEN_CALLBACK(self._refresh)
        self._client = self._new(settings)
        library.poll_set_consumer(self._client)
        self._queue = library.queue_get_consumer(self._client)
        self._records = KafkaRecords(Library(library.addresses), self._queue, _MOST_MESSAGES)

    def _new(self, settings: ReaderSettings) -> int:
        library, text = self._library, ctypes.create_string_buffer(_TEXT)
        configured, client_settings = library.conf_new(), settings.for_client()
        self._token: Callable[[str], tuple[Any, ...]] | None = client_settings.pop("oauth_cb", None)
        for name, value in client_settings.items():
            if library.conf_set(configured, name.encode(), str(value).encode(), text, _TEXT):
                library.conf_destroy(configured)
                raise brokers.refused_setting(text.value.decode(errors="replace"), dict(settings.options))
        library.conf_set_error_cb(configured, ctypes.cast(self._callback, ctypes.c_void_p))
        if self._token is not None:
            refresh = ctypes.cast(self._refresh_callback, ctypes.c_void_p)
            library.conf_set_oauthbearer_token_refresh_cb(configured, refresh)
        client = library.new(_CONSUMER, configured, text, _TEXT)
        if not client:
            library.conf_destroy(configured)
            raise brokers.refused_setting(text.value.decode(errors="replace"), dict(settings.options))
        return int(client)

    def _say(self, client: Any, error: int, text: bytes, opaque: Any) -> None:
        self._said.append((self._library.name_of(error), text.decode(errors="replace")))

    def _refresh(self, client: Any, setting: bytes | None, opaque: Any) -> None:
        """Give librdkafka a token: that of `oauth_cb`, a setting of confluent-kafka."""
        assert self._token is not None
        library, text = self._library, ctypes.create_string_buffer(_TEXT)
        try:
            token, expires, principal, extensions = (*self._token((setting or b"").decode()), "", {})[:4]
            pairs = [part.encode() for pair in dict(extensions).items() for part in pair]
            texts = (ctypes.c_char_p * len(pairs))(*pairs)
            millis = int(expires * 1000)
            if library.oauthbearer_set_token(
                client, token.encode(), millis, principal.encode(), texts, len(pairs), text, _TEXT
            ):
                library.oauthbearer_set_token_failure(client, text.value)
        except Exception as error:  # of the function that makes tokens; librdkafka tries again
            library.oauthbearer_set_token_failure(client, f"{type(error).__name__}: {error}".encode())

    def begin(self, at: PartitionRange, fields: tuple[str, ...]) -> None:
        """Begin to fetch a range."""
        self._at, self._fields = at, fields
        self._said.clear()
        self._records.begin(at.partition, at.end, sum(COLUMNS.get(name, 0) for name in set(fields)))
        self._assign(at)
        if self._seen and (at.topic, at.partition) not in self._seen:
            self._look_up()
        self._seen.add((at.topic, at.partition))

    def _look_up(self) -> None:
        """Ask for the leader of the assigned partition; see `LOOK_UP`."""
        found = ctypes.c_void_p()
        if not self._library.metadata(self._client, 0, None, ctypes.byref(found), int(LOOK_UP * 1000)):
            self._library.metadata_destroy(found)

    def _assign(self, at: PartitionRange | None) -> None:
        """Assign a partition, or none."""
        library = self._library
        partitions = library.topic_partition_list_new(1)
        if at is not None:
            library.topic_partition_list_add(partitions, at.topic.encode(), at.partition)
            library.topic_partition_list_set_offset(partitions, at.topic.encode(), at.partition, at.start)
        error = library.assign(self._client, partitions if at is not None else None)
        library.topic_partition_list_destroy(partitions)
        if error:
            raise RuntimeError(f"librdkafka can't assign {at}: {library.err2str(error).decode()}")

    def fetch(self, seconds: float) -> Fetched:
        """Wait for records of the range, and return those that have arrived.

        Raises `LayoutError` before the first records of the process if they can't be read.
        """
        records = self._records
        if not records.receive(int(seconds * 1000)):
            return Fetched()
        if not self._checked:
            self._check()
        count = records.copy(_MOST_BYTES)
        if records.error:
            text = self._library.message_errstr(self._records.first())
            self._records.drop_first()
            return Fetched(None, -1, self._library.name_of(records.error), (text or b"").decode(errors="replace"))
        if not count:
            return Fetched(position=records.position)
        arrays = records.arrays()
        if "headers" in arrays:
            arrays["headers"] = with_header_names(arrays["headers"])
        batch = record_batch(arrays, self._fields, self._at.topic, self._at.partition, count)
        return Fetched(batch, records.position)

    def edges(self, at: PartitionRange, seconds: float) -> tuple[int, int] | None:
        """Ask the brokers for the first offset of a range's partition, and the offset after its last record.

        Returns None if the partition is not there. Raises `ConnectionError` with the text of librdkafka.
        """
        first, last = ctypes.c_int64(), ctypes.c_int64()
        error = self._library.query_watermark_offsets(
            self._client, at.topic.encode(), at.partition, ctypes.byref(first), ctypes.byref(last), int(seconds * 1000)
        )
        if self._library.name_of(error) in ("_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_OR_PART"):
            return None
        if error:
            raise ConnectionError(self._library.err2str(error).decode())
        return first.value, last.value

    def said(self) -> list[tuple[str, str]]:
        """Return the names and texts of the last errors of the connections."""
        return list(dict.fromkeys(self._said))

    def stop(self) -> None:
        """Stop to fetch, and free the records that were fetched ahead."""
        self._assign(None)
        self._records.drop()

    def close(self) -> None:
        """Close the connections."""
        if self._client and self._process == os.getpid():
            self._records.drop()
            self._library.consumer_close(self._client)
            self._library.queue_destroy(self._queue)
            self._library.destroy(self._client)
        self._client = 0

    def _check(self) -> None:
        """Compare the first record with what librdkafka's functions say of it; raises `LayoutError`.

        The topic's address is used last: everything else must be right before.
        """
        library, at = self._library, self._at
        error, topic, partition, offset = self._records.peek()
        if error:
            return  # there is no record yet
        if not (partition == at.partition and at.start <= offset < self._position()):
            raise LayoutError(f"a record of {at} has partition {partition} and offset {offset}")
        if library.topic_name(topic) != at.topic.encode():
            raise LayoutError(f"a record of {at} has another topic")
        self._checked = True

    def _position(self) -> int:
        """Return librdkafka's own offset after the last record that it has given."""
        library, topic = self._library, self._at.topic.encode()
        partitions = library.topic_partition_list_new(1)
        library.topic_partition_list_add(partitions, topic, self._at.partition)
        library.position(self._client, partitions)
        answered = TopicPartitions.from_address(partitions)
        offset = answered.elements[0].offset
        library.topic_partition_list_destroy(partitions)
        return int(offset)
