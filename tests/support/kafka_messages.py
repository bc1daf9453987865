"""librdkafka in memory: its functions as ctypes callbacks, and random messages, to test the kernel without a broker.

`python -m tests.support.kafka_messages COUNT` prints what the kernel makes of COUNT queues, to compare two kernels.
"""

from __future__ import annotations

import ctypes
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from kvformat.codecs._kernel.kafka_records import COLUMNS, KafkaRecords
from kvformat.codecs._kernel.librdkafka import Library

END_OF_PARTITION, OUT_OF_RANGE = -191, 1
_P = ctypes.c_void_p


class RdMessage(ctypes.Structure):
    """`rd_kafka_message_t`."""

    _fields_ = (
        *(
            ("err", ctypes.c_int),
            ("topic", _P),
            ("partition", ctypes.c_int32),
            ("payload", _P),
            ("len", ctypes.c_size_t),
        ),
        *(("key", _P), ("key_len", ctypes.c_size_t), ("offset", ctypes.c_int64), ("private", _P)),
    )


@dataclass
class KafkaMessage:
    """A record, or an error if `error` is not 0."""

    offset: int
    key: bytes | None = None
    value: bytes | None = None
    headers: list[tuple[bytes, bytes | None]] | None = None
    timestamp: int = -1
    timestamp_type: int = 0
    epoch: int = -1
    error: int = 0


@dataclass
class Held:
    """A message in C's memory, and what must live as long as it."""

    message: KafkaMessage
    structure: RdMessage
    buffers: list[Any] = field(default_factory=list)


class MemoryQueue:
    """A queue of messages, which arrive in `bursts`: a call takes messages of one burst at most.

    `destroyed` has the offsets of destroyed messages, and `alive` those that were taken and not destroyed.
    """

    def __init__(self, bursts: list[list[KafkaMessage]]) -> None:
        self.bursts = [list(burst) for burst in bursts]
        self.alive: dict[int, Held] = {}
        self.destroyed: list[int] = []
        size = ctypes.c_size_t
        kinds = (
            (ctypes.CFUNCTYPE(ctypes.c_ssize_t, _P, ctypes.c_int, ctypes.POINTER(_P), size), self._consume),
            (ctypes.CFUNCTYPE(None, _P), self._destroy),
            (ctypes.CFUNCTYPE(ctypes.c_int64, _P, ctypes.POINTER(ctypes.c_int)), self._timestamp),
            (ctypes.CFUNCTYPE(ctypes.c_int, _P, ctypes.POINTER(_P)), self._headers),
            (
                ctypes.CFUNCTYPE(ctypes.c_int, _P, size, ctypes.POINTER(_P), ctypes.POINTER(_P), ctypes.POINTER(size)),
                self._header,
            ),
            (ctypes.CFUNCTYPE(ctypes.c_int32, _P), self._epoch),
        )
        self._functions = [kind(function) for kind, function in kinds]
        self.library = Library([ctypes.cast(function, _P).value or 0 for function in self._functions])

    def _consume(self, queue: int, milliseconds: int, found: Any, count: int) -> int:
        while self.bursts and not self.bursts[0]:
            self.bursts.pop(0)
            if milliseconds == 0:
                return 0
        taken = self.bursts[0][:count] if self.bursts else []
        if self.bursts:
            del self.bursts[0][:count]
        for place, message in enumerate(taken):
            found[place] = self._hold(message)
        return len(taken)

    def _hold(self, message: KafkaMessage) -> int:
        held = Held(message, RdMessage(err=message.error, topic=7, partition=3, offset=message.offset))
        for name, content in (("payload", message.value), ("key", message.key)):
            if content is not None:
                buffer = (ctypes.c_char * len(content)).from_buffer_copy(
                    content
                )  # exactly as long: sanitizers see more
                held.buffers.append(buffer)
                setattr(held.structure, name, ctypes.addressof(buffer) if content else 8)
                setattr(held.structure, "len" if name == "payload" else "key_len", len(content))
        address = ctypes.addressof(held.structure)
        self.alive[address] = held
        return address

    def _destroy(self, address: int) -> None:
        self.destroyed.append(self.alive.pop(address).message.offset)

    def _timestamp(self, address: int, kind: Any) -> int:
        message = self.alive[address].message
        kind[0] = message.timestamp_type
        return message.timestamp

    def _headers(self, address: int, found: Any) -> int:
        if self.alive[address].message.headers is None:
            return -156  # _NOENT
        found[0] = address
        return 0

    def _header(self, headers: int, index: int, name: Any, value: Any, size: Any) -> int:
        held = self.alive[headers]
        assert held.message.headers is not None
        if index >= len(held.message.headers):
            return -156
        key, content = held.message.headers[index]
        buffers = [
            ctypes.create_string_buffer(key),
            ctypes.create_string_buffer(content or b"", len(content or b"") + 1),
        ]
        held.buffers += buffers
        name[0] = ctypes.addressof(buffers[0])
        value[0] = None if content is None else ctypes.addressof(buffers[1])
        size[0] = 0 if content is None else len(content)
        return 0

    def _epoch(self, address: int) -> int:
        return self.alive[address].message.epoch


def random_bursts(r: random.Random) -> list[list[KafkaMessage]]:
    """Return messages with gaps between offsets, ends of the partition and errors."""

    def some(most: int) -> bytes | None:
        return r.choice([None, b"", r.randbytes(r.randrange(most))])

    offset, bursts = r.randrange(100), []
    for _ in range(r.randrange(1, 6)):
        burst = []
        for _ in range(r.randrange(40)):
            offset += r.choice([1, 1, 1, 5])
            headers = r.choice(
                [None, None, [], [(r.randbytes(3).replace(b"\0", b"?"), some(9)) for _ in range(r.randrange(4))]]
            )
            burst.append(
                KafkaMessage(
                    *(offset, some(9), some(r.choice([20, 300]))),
                    headers=headers,
                    timestamp=r.choice([-1, 0, r.randrange(10**13), 2**62]),
                    timestamp_type=r.randrange(3),
                    epoch=r.choice([-1, r.randrange(9)]),
                )
            )
        if r.random() < 0.3:
            burst.append(KafkaMessage(offset + 1, error=END_OF_PARTITION))
        if r.random() < 0.2:
            burst.append(KafkaMessage(-1001, value=b"lost", error=OUT_OF_RANGE))
        bursts.append(burst)
    return bursts


def answers(bursts: list[list[KafkaMessage]], end: int, names: list[str], most: int, capacity: int) -> Iterator[Any]:
    """Yield the batches of a queue, the position after each, and errors; then the offsets of destroyed messages."""
    queue = MemoryQueue(bursts)
    records = KafkaRecords(queue.library, 1, capacity)
    records.begin(3, end, sum(COLUMNS[name] for name in names))
    while records.receive(1):
        count = records.copy(most)
        if records.error:
            yield records.error, records.position
            records.drop_first()
        elif count:
            arrays = records.arrays()
            for array in arrays.values():
                array.validate(full=True)
            shown = {name: array.cast(pa.int64()) if name == "timestamp" else array for name, array in arrays.items()}
            yield count, records.position, {name: array.to_pylist() for name, array in shown.items()}
        else:
            yield count, records.position
    records.drop()
    yield queue.destroyed, len(queue.alive)


def cases(count: int) -> Iterator[tuple[list[list[KafkaMessage]], int, list[str], int, int]]:
    """Yield random arguments of `answers`."""
    for seed in range(count):
        r = random.Random(seed)
        names = [name for name in COLUMNS if r.random() < 0.6]
        yield (
            random_bursts(r),
            r.choice([0, 50, 150, 10**9]),
            names,
            r.choice([1, 100, 10**6]),
            r.choice([1, 2, 7, 100]),
        )


if __name__ == "__main__":
    for case in cases(int(sys.argv[1])):
        for answer in answers(*case):
            print(answer)
