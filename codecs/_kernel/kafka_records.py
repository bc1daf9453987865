"""Records of a Kafka partition: messages of librdkafka, copied once into Arrow buffers.

    records.begin(partition, end, wanted)     a new range; `wanted` has a bit for each column
    records.receive(milliseconds)             waits for messages, and takes what has arrived
    records.copy(most)                        the next records, as far as they fit in `most` bytes
    records.arrays()                          their columns

Only wanted columns are read. Messages are destroyed as soon as they are copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kvformat.codecs._kernel.librdkafka import Header, Library
from kvformat.codecs._kernel.memory import filled, grown

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

if not cython.compiled:
    from kvformat.codecs._kernel.librdkafka import (
        consume,
        copy_bytes,
        copy_part,
        destroy,
        epoch_of,
        error_of,
        headers_of,
        next_header,
        offset_of,
        partition_of,
        size_of,
        timestamp_of,
        topic_of,
    )

KEY, VALUE, HEADERS, OFFSET, TIMESTAMP, TIMESTAMP_TYPE, LEADER_EPOCH = (1 << i for i in range(7))
COLUMNS = {
    "key": KEY,
    "value": VALUE,
    "headers": HEADERS,
    "offset": OFFSET,
    "timestamp": TIMESTAMP,
    "timestampType": TIMESTAMP_TYPE,
    "leaderEpoch": LEADER_EPOCH,
}
"""The bit of each column."""
MOST_MILLIS = (2**63 - 1) // 1000
"""The last time in milliseconds that has a number of microseconds; later times become this one."""
END_OF_PARTITION = -191


class BytesColumn:
    """An Arrow array of bytes, whose size is known before it is filled."""

    def __init__(self) -> None:
        self.length = self.size = self.nulls = 0

    def start(self, count: int, size: int) -> int:
        """Make room for `count` values with `size` bytes together."""
        self.ends, self.data = grown(None, 0, count + 1, "i"), grown(None, 0, size, "B")
        self.valid = grown(None, 0, count, "B")
        self.length = self.size = self.nulls = 0
        self.ends[0] = 0
        return 0

    def end_value(self, size: int, valid: bool) -> int:
        """End a value of so many bytes, which are in the buffer, or a null."""
        self.size += size
        self.valid[self.length] = valid
        self.length += 1
        self.ends[self.length] = self.size
        if not valid:
            self.nulls += 1
        return 0

    def add_part(self, message: int, key: bool) -> int:
        """Append a message's key or payload."""
        return self.end_value(copy_part(message, key, self.data, self.size), size_of(message, key) >= 0)

    def add(self, address: int, size: int) -> int:
        """Append the bytes at an address; a negative size is a null."""
        if size < 0:
            return self.end_value(0, False)
        return self.end_value(copy_bytes(address, size, self.data, self.size), True)

    def finish(self) -> pa.BinaryArray:
        """Return the array."""
        validity = bits(self.valid, self.length) if self.nulls else None
        buffers = [validity, filled(self.ends, self.length + 1), filled(self.data, self.size)]
        return pa.Array.from_buffers(pa.binary(), self.length, buffers, self.nulls)


class KafkaRecords:
    """The records of one partition at a time, from a queue of librdkafka that is at an address.

    At most `capacity` messages are held. `position` is the offset after the last record, or the end of the partition,
    that was seen, -1 if none was. `error` is the number of librdkafka's error, 0 without one. `count` is the number of
    records that were copied last.
    """

    def __init__(self, library: Library, queue: int, capacity: int) -> None:
        self.library, self.queue = library, queue
        self.messages: memoryview[int] = grown(None, 0, capacity, "Q")
        self.header = Header()
        self.keys, self.values, self.names, self.header_values = (BytesColumn() for _ in range(4))
        self.held = self.next = self.stop = self.count = self.wanted = self.partition = self.error = 0
        self.end, self.position = 0, -1

    def begin(self, partition: int, end: int, wanted: int) -> int:
        """Begin a range that ends before an offset; messages that are still held are dropped."""
        self.drop()
        self.partition, self.end, self.wanted = partition, end, wanted
        self.position, self.error = -1, 0
        return 0

    def receive(self, milliseconds: int) -> int:
        """Wait for a message if none is held, and take it with all that have arrived. Return how many are held."""
        if self.next < self.held:
            return self.held - self.next
        self.next = self.held = 0
        with cython.nogil:
            self.held = consume(self.library, self.queue, milliseconds, self.messages, 0, 1)
            if self.held and not error_of(self.messages[0]):
                self.held += consume(self.library, self.queue, 0, self.messages, 1, len(self.messages) - 1)
        return self.held

    def first(self) -> int:
        """Return the address of the first message that is held, 0 if there is none."""
        return self.messages[self.next] if self.next < self.held else 0

    def peek(self) -> tuple[int, int, int, int]:
        """Return the error, the address of the topic, the partition and the offset of the first message."""
        message = self.first()
        return error_of(message), topic_of(message), partition_of(message), offset_of(message)

    def drop_first(self) -> int:
        """Destroy the first message that is held."""
        if self.next < self.held:
            destroy(self.library, self.messages[self.next])
            self.next += 1
        return 0

    def drop(self) -> int:
        """Destroy all messages that are held."""
        while self.next < self.held:
            self.drop_first()
        return 0

    def copy(self, most: int) -> int:
        """Copy records to the columns, as far as their bytes do not exceed `most`, at least one. Return how many.

        Afterwards `position` and `error` have what was seen with them.
        """
        self.error = 0
        self.count = 0
        self.note_errors()
        if not self.error:
            with cython.nogil:
                self.measure(most)
            self.allocate()
            with cython.nogil:
                self.fill()
        return self.count

    def note_errors(self) -> int:
        """Take errors, and ends of the partition, from the front of the messages."""
        while self.next < self.held and not self.error:
            message = self.messages[self.next]
            code = error_of(message)
            if not code:
                break
            if code == END_OF_PARTITION:
                self.position = max(self.position, offset_of(message))
                self.drop_first()
            else:
                self.error = code
        return 0

    def measure(self, most: int) -> int:
        """Count the records to be copied, and their bytes; `stop` is the index after the last message."""
        self.key_bytes = self.value_bytes = self.header_count = self.name_bytes = self.header_bytes = 0
        total = 0
        self.stop = self.next
        while self.stop < self.held:
            message = self.messages[self.stop]
            if error_of(message):
                break
            if offset_of(message) < self.end:
                size = 0
                if self.wanted & KEY:
                    size += max(size_of(message, True), 0)
                if self.wanted & VALUE:
                    size += max(size_of(message, False), 0)
                if self.count and total + size > most:
                    break
                total += size
                if self.wanted & HEADERS:
                    total += self.measure_headers(message)
                if self.wanted & KEY:
                    self.key_bytes += max(size_of(message, True), 0)
                if self.wanted & VALUE:
                    self.value_bytes += max(size_of(message, False), 0)
                self.count += 1
            self.stop += 1
        return 0

    def measure_headers(self, message: int) -> int:
        """Count the headers of a message, and return their bytes."""
        headers = headers_of(self.library, message)
        size, i = 0, 0
        while next_header(self.library, headers, i, self.header):
            self.name_bytes += self.header.name_size
            self.header_bytes += max(self.header.size, 0)
            size += self.header.name_size + max(self.header.size, 0)
            i += 1
        self.header_count += i
        return size

    def allocate(self) -> int:
        """Make room for the records that were counted."""
        if self.wanted & KEY:
            self.keys.start(self.count, self.key_bytes)
        if self.wanted & VALUE:
            self.values.start(self.count, self.value_bytes)
        if self.wanted & HEADERS:
            self.names.start(self.header_count, self.name_bytes)
            self.header_values.start(self.header_count, self.header_bytes)
            self.header_ends = grown(None, 0, self.count + 1, "i")
            self.header_ends[0] = 0
            self.have_headers = grown(None, 0, self.count, "B")
        if self.wanted & OFFSET:
            self.offsets = grown(None, 0, self.count, "q")
        if self.wanted & (TIMESTAMP | TIMESTAMP_TYPE):
            self.timestamps = grown(None, 0, self.count, "q")
            self.timestamp_types = grown(None, 0, self.count, "i")
        if self.wanted & LEADER_EPOCH:
            self.epochs = grown(None, 0, self.count, "i")
        return 0

    def fill(self) -> int:
        """Copy the records that were counted, and destroy their messages."""
        at = 0
        while self.next < self.stop:
            message = self.messages[self.next]
            self.position = max(self.position, offset_of(message) + 1)
            if offset_of(message) < self.end:
                if self.wanted & KEY:
                    self.keys.add_part(message, True)
                if self.wanted & VALUE:
                    self.values.add_part(message, False)
                if self.wanted & HEADERS:
                    self.fill_headers(message, at)
                if self.wanted & OFFSET:
                    self.offsets[at] = offset_of(message)
                if self.wanted & (TIMESTAMP | TIMESTAMP_TYPE):
                    millis = timestamp_of(self.library, message, self.timestamp_types, at)
                    self.timestamps[at] = min(millis, MOST_MILLIS) * 1000
                    self.timestamp_types[at] -= 1
                if self.wanted & LEADER_EPOCH:
                    self.epochs[at] = epoch_of(self.library, message)
                at += 1
            destroy(self.library, message)
            self.next += 1
        return 0

    def fill_headers(self, message: int, at: int) -> int:
        """Copy the headers of a message."""
        headers = headers_of(self.library, message)
        i = 0
        while next_header(self.library, headers, i, self.header):
            self.names.add(self.header.name, self.header.name_size)
            self.header_values.add(self.header.value, self.header.size)
            i += 1
        self.header_ends[at + 1] = self.header_ends[at] + i
        self.have_headers[at] = i > 0
        return 0

    def arrays(self) -> dict[str, pa.Array]:
        """Return the wanted columns. The keys of headers are bytes, which need not be UTF-8."""
        columns: dict[str, pa.Array] = {}
        if self.wanted & KEY:
            columns["key"] = self.keys.finish()
        if self.wanted & VALUE:
            columns["value"] = self.values.finish()
        if self.wanted & HEADERS:
            entries = pa.StructArray.from_arrays([self.names.finish(), self.header_values.finish()], ["key", "value"])
            buffers = [bits(self.have_headers, self.count), filled(self.header_ends, self.count + 1)]
            columns["headers"] = pa.Array.from_buffers(pa.list_(entries.type), self.count, buffers, children=[entries])
        if self.wanted & OFFSET:
            columns["offset"] = numbers(self.offsets, self.count, pa.int64())
        if self.wanted & TIMESTAMP:
            columns["timestamp"] = numbers(self.timestamps, self.count, pa.timestamp("us", "UTC"))
        if self.wanted & TIMESTAMP_TYPE:
            columns["timestampType"] = numbers(self.timestamp_types, self.count, pa.int32())
        if self.wanted & LEADER_EPOCH:
            epochs = np.frombuffer(memoryview(self.epochs), np.int32, self.count)
            columns["leaderEpoch"] = pa.array(epochs, mask=epochs < 0)
        return columns


def numbers(view: memoryview[int], count: int, kind: pa.DataType) -> pa.Array:
    """Return the first numbers of a view as an array without nulls."""
    return pa.Array.from_buffers(kind, count, [None, filled(view, count)])


def bits(view: memoryview[int], count: int) -> pa.Buffer:
    """Return the first bytes of a view, each 0 or 1, as a bitmap of Arrow."""
    return pa.py_buffer(np.packbits(np.frombuffer(memoryview(view), np.uint8, count), bitorder="little"))
