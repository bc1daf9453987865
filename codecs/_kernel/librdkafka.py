"""The messages of librdkafka, by its public C functions and its public structure `rd_kafka_message_t`.

`librdkafka.pxd` has the compiled versions of the functions, which the kernel uses. The functions here do the same with
ctypes, to compare with them. Addresses of functions come from the caller, because the library is loaded by its client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cython
else:
    from kvformat.codecs._kernel import pure_cython as cython

FUNCTIONS = (
    "rd_kafka_consume_batch_queue",
    "rd_kafka_message_destroy",
    "rd_kafka_message_timestamp",
    "rd_kafka_message_headers",
    "rd_kafka_header_get_all",
    "rd_kafka_message_leader_epoch",
)
"""The functions of librdkafka that the kernel calls, in the order of `Library`."""


class Library:
    """The addresses of `FUNCTIONS`."""

    def __init__(self, addresses: Sequence[int]) -> None:
        (
            self.consume_batch_queue,
            self.message_destroy,
            self.message_timestamp,
            self.message_headers,
            self.header_get_all,
            self.message_leader_epoch,
        ) = addresses


class Header:
    """The addresses and sizes of a header's name and value; a null value has the size -1."""

    def __init__(self) -> None:
        self.name = self.name_size = self.value = self.size = 0


def refuse() -> int:
    """Raise an error for a part that does not fit its destination."""
    with cython.gil:
        raise IndexError("a part of a message outside of its buffer")


if not cython.compiled:
    import ctypes
    import functools

    class _Message(ctypes.Structure):
        _fields_ = (
            ("err", ctypes.c_int),
            ("topic", ctypes.c_void_p),
            ("partition", ctypes.c_int32),
            ("payload", ctypes.c_void_p),
            ("size", ctypes.c_size_t),
            ("key", ctypes.c_void_p),
            ("key_size", ctypes.c_size_t),
            ("offset", ctypes.c_int64),
            ("own", ctypes.c_void_p),
        )

    _P = ctypes.c_void_p

    @functools.cache
    def _function(address: int, result: Any, *arguments: Any) -> Any:
        return ctypes.CFUNCTYPE(result, *arguments)(address)

    def _at(message: int) -> Any:
        return _Message.from_address(message)

    def consume(
        library: Library, queue: int, milliseconds: int, addresses: memoryview[int], start: int, count: int
    ) -> int:
        """Take up to `count` messages from a queue, and put their addresses to `addresses[start:]`. Return how many."""
        call = _function(library.consume_batch_queue, ctypes.c_ssize_t, _P, ctypes.c_int, _P, ctypes.c_size_t)
        taken = (_P * count)()
        number = max(call(queue, milliseconds, ctypes.addressof(taken), count), 0)
        for i in range(number):
            addresses[start + i] = taken[i] or 0
        return int(number)

    def destroy(library: Library, message: int) -> None:
        """Free a message."""
        _function(library.message_destroy, None, _P)(message)

    def error_of(message: int) -> int:
        """Return the number of the message's error, 0 for a record."""
        return int(_at(message).err)

    def offset_of(message: int) -> int:
        """Return the offset of a message."""
        return int(_at(message).offset)

    def partition_of(message: int) -> int:
        """Return the partition of a message."""
        return int(_at(message).partition)

    def topic_of(message: int) -> int:
        """Return the address of a message's topic."""
        return _at(message).topic or 0

    def size_of(message: int, key: bool) -> int:
        """Return the number of bytes of a message's key or payload, -1 if it is null."""
        struct = _at(message)
        if (struct.key if key else struct.payload) is None:
            return -1
        return int(struct.key_size if key else struct.size)

    def copy_part(message: int, key: bool, out: memoryview[int], at: int) -> int:
        """Copy a message's key or payload to `out[at:]`. Return its size, 0 if it is null."""
        struct, size = _at(message), size_of(message, key)
        return copy_bytes(struct.key if key else struct.payload, size, out, at) if size > 0 else 0

    def copy_bytes(address: int, size: int, out: memoryview[int], at: int) -> int:
        """Copy `size` bytes from an address to `out[at:]`. Return the size."""
        if len(out) - at < size:
            return refuse()
        out[at : at + size] = ctypes.string_at(address, size)
        return size

    def timestamp_of(library: Library, message: int, kind: memoryview[int], at: int) -> int:
        """Return the timestamp of a message in milliseconds, and its type in `kind[at]`."""
        type_ = ctypes.c_int(0)
        call = _function(library.message_timestamp, ctypes.c_int64, _P, _P)
        millis = call(message, ctypes.addressof(type_))
        kind[at] = type_.value
        return int(millis)

    def epoch_of(library: Library, message: int) -> int:
        """Return the leader epoch of a message, -1 if it is unknown."""
        return int(_function(library.message_leader_epoch, ctypes.c_int32, _P)(message))

    def headers_of(library: Library, message: int) -> int:
        """Return the address of a message's headers, 0 if it has none."""
        headers = ctypes.c_void_p()
        error = _function(library.message_headers, ctypes.c_int, _P, _P)(message, ctypes.addressof(headers))
        return 0 if error else headers.value or 0

    def next_header(library: Library, headers: int, index: int, header: Header) -> bool:
        """Read the header with an index. Return whether there is one."""
        if not headers:
            return False
        name, value, size = ctypes.c_char_p(), ctypes.c_void_p(), ctypes.c_size_t()
        call = _function(library.header_get_all, ctypes.c_int, _P, ctypes.c_size_t, _P, _P, _P)
        if call(headers, index, ctypes.addressof(name), ctypes.addressof(value), ctypes.addressof(size)):
            return False
        header.name = ctypes.cast(name, ctypes.c_void_p).value or 0
        header.name_size = len(name.value or b"")
        header.value = value.value or 0
        header.size = -1 if value.value is None else size.value
        return True
