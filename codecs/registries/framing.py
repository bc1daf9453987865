"""The frame of a message: what stands before its datum, or in a header of its record, and says which schema it has.

    03  00  16 bytes   0e 02 04 61 62     the frame of AWS Glue, and a datum of Avro

A format has one `Framing`, which reads and writes the frames of a batch. `known.py` lists those of this library.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Ints, Mask, validity
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.error_codes import ErrorCode, Reason, reason_arrays
from kvformat.registry.contract.format_hooks import HeaderNames, Part

Reasons = npt.NDArray[np.object_]
"""A `Reason`, or None, for each message."""

_GUIDS = 2**32  # numbers from here on are GUIDs, not ids
_NEAR = 2**16
"""Ids in a range of this size are counted in an array, which is much faster than sorting them."""


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a batch of messages.

    messages: the messages with `size` bytes before each datum, which may be the last ones of a GUID.
    ids: schema ids, or numbers that stand for a GUID in this batch; see `schemas`.
    good: which messages have one. present: which messages are not null.
    originals: the messages as they came. reason: returns what is wrong with the frame of a message.
    guids: the GUIDs, as 16 bytes. failures: errors that are found otherwise, by message.
    keys: what the numbers in `ids` stand for, if they are neither ids nor numbers of GUIDs.
    """

    messages: pa.BinaryArray
    ids: Ints
    good: Mask
    present: Mask
    originals: pa.BinaryArray
    reason: Callable[[pa.Buffer], str]
    guids: tuple[bytes, ...] = ()
    size: int = 0
    failures: Mapping[int, Reason] = field(default_factory=dict)
    keys: tuple[int | str, ...] | None = None

    def schemas(self, ids: list[int]) -> list[int | str]:
        """Return the schema id or the text of the GUID of each number."""
        if self.keys is not None:
            return [self.keys[number] for number in ids]
        if not self.guids:
            return [*ids]
        return [number if number < _GUIDS else str(uuid.UUID(bytes=self.guids[number - _GUIDS])) for number in ids]

    def errors(self) -> Reasons:
        """Return an error for each message that is not null and has no id, None for all others."""
        errors = np.full(len(self.ids), None, dtype=object)
        for row in np.flatnonzero(self.present & ~self.good).tolist():
            errors[row] = self.failures.get(row) or Reason(
                ErrorCode.MALFORMED, self.reason(self.originals[row].as_buffer())
            )
        return errors


class Framing(ABC):
    """How messages say which schema they have."""

    text: ClassVar[str]
    """The first bytes of messages in words, for notes."""
    headers: ClassVar[Mapping[Part, HeaderNames]] = {}
    """The headers of records that `add_header` gets."""
    kinds: ClassVar[tuple[str, ...]]
    """The answers of `kind_of`: what discovery calls messages with these frames."""

    @property
    def keeps_datums(self) -> bool:
        """Whether a written message is the prefix and the datum as it is."""
        return True

    @abstractmethod
    def prefix(self, schema_id: Any) -> bytes:
        """Return the bytes before the datum that is written. Raises `SchemaError` for an id that does not fit."""

    @abstractmethod
    def read(self, messages: pa.BinaryArray, present: Mask, *, only_ids: bool = False) -> Frames:
        """Return the frames of messages. `present`: which messages are not null.

        With `only_ids`, their datums need not be ready for reading.
        """

    def add_header(self, messages: pa.BinaryArray, headers: pa.BinaryArray | pa.StructArray) -> pa.BinaryArray:
        """Put the headers of records before their messages, so that `read` finds all frames in one place."""
        return messages

    @classmethod
    def id_headers(cls, part: Part) -> tuple[str, ...]:
        """Return the headers that have an id, without those that only describe the datum."""
        names = cls.headers.get(part, ())
        return (names,) if isinstance(names, str) else names

    @classmethod
    @abstractmethod
    def kind_of(cls, message: bytes, *, in_header: bool) -> str:
        """Return the kind of a message that begins with one of these frames, "" for others.

        in_header: whether the frame was in a header of the record, and `add_header` has put it there.
        """

    def finished(self, messages: pa.BinaryArray) -> pa.BinaryArray:
        """Return messages to write, given the prefix and the datum of each."""
        return messages


def layout(messages: pa.BinaryArray, present: Mask, size: int) -> tuple[npt.NDArray[np.uint8], Ints, Ints, Mask]:
    """Return the bytes of an array that is not empty, and the start and the length of each message in them.

    Also returns which messages are present and have at least `size` bytes. The starts of others are moved so that
    `size` bytes follow them.
    """
    _, offsets_buffer, data_buffer = messages.buffers()
    count = len(messages)
    offsets = np.frombuffer(offsets_buffer, np.int32)[messages.offset : messages.offset + count + 1].astype(np.int64)
    data = np.frombuffer(data_buffer or b"", np.uint8)
    if len(data) < size:
        data = np.pad(data, (0, size - len(data)))  # all messages are too short, but the caller needs bytes
    starts, lengths, long = offsets[:-1], np.diff(offsets), present
    if not present.all() or lengths.min() < size:
        lengths = np.where(present, lengths, 0)
        long = lengths >= size
        starts = np.minimum(starts, len(data) - size)
    return data, starts, lengths, long


def numbered(guids: npt.NDArray[np.void]) -> tuple[Ints, tuple[bytes, ...]]:
    """Return a number for each GUID, and the distinct GUIDs, for `Frames`. The array is contiguous."""
    array = pa.Array.from_buffers(pa.binary(16), len(guids), [None, pa.py_buffer(guids)])
    encoded = array.dictionary_encode()
    return np.asarray(encoded.indices) + np.int64(_GUIDS), tuple(encoded.dictionary.to_pylist())


def cut(messages: pa.BinaryArray, long: Mask, less: int) -> pa.BinaryArray:
    """Return the messages without the first `less` bytes of those that are `long`, so that all frames have one size.

    `pyarrow.compute.binary_slice` fails for messages that are shorter than the start of the slice.
    """
    _, places, buffer = messages.buffers()
    count = len(messages)
    offsets = np.frombuffer(places, np.int32, count + 1, messages.offset * 4)
    offsets, data = offsets - offsets[0], np.frombuffer(buffer, np.uint8)[offsets[0] : offsets[-1]]
    kept = np.ones(len(data), np.bool_)
    starts = offsets[:-1][long]
    for at in range(less):
        kept[starts + at] = False
    offsets[1:] -= less * np.cumsum(long, dtype=np.int32)
    valid = None if not messages.null_count else validity(np.asarray(messages.is_valid()))
    return pa.Array.from_buffers(pa.binary(), count, [valid, pa.py_buffer(offsets), pa.py_buffer(data[kept])])


def with_prefix(batch: EncodedBatch, prefix: bytes) -> EncodedBatch:
    """Return a batch with these bytes before each message."""
    return replace(batch, messages=pc.binary_join_element_wise(pa.scalar(prefix), batch.messages, pa.scalar(b"")))


def with_errors(batch: DecodedBatch, reasons: Iterable[Reason | None]) -> DecodedBatch:
    """Return a batch whose messages with a reason, one for each message or none at all, have this error."""
    errors, codes = reason_arrays(reasons)
    if errors is None:
        return batch
    if batch.errors is not None:
        errors, codes = pc.coalesce(errors, batch.errors), pc.coalesce(codes, batch.codes)
    return replace(batch, errors=errors, codes=codes)


def distinct_ids(ids: Ints) -> tuple[npt.NDArray[np.integer], Ints]:
    """Return the distinct ids, the most frequent first, and for each id in `ids` its index among them."""
    if not len(ids):
        return ids, np.zeros(0, np.int64)
    low, high = int(ids.min()), int(ids.max())
    if low == high:
        return ids[:1], np.zeros(len(ids), np.int64)
    if high - low < _NEAR:
        nearby = ids - low
        counts = np.bincount(nearby)
        places = np.flatnonzero(counts)
        places = places[np.argsort(-counts[places], kind="stable")]
        numbers = np.zeros(len(counts), np.int64)
        numbers[places] = np.arange(len(places))
        return places + low, numbers.take(nearby)
    distinct, which, counts = np.unique(ids, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return distinct[order], np.argsort(order)[which]
