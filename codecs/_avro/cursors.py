"""Cursors into all messages of a batch, and functions that read Avro's numbers at them.

Offsets are checked after every string, before the items of arrays and maps, after `_MOST_UNCHECKED` bytes of fixed
width and numbers, and at the end. Between checks, a truncated message may read bytes after its end. This is harmless:
the batch has padding after its bytes, and the next check refuses the message. Cursors of refused messages point to
zeros in the padding.
"""

from __future__ import annotations

from typing import Any, Final, NewType

import numpy as np
import numpy.typing as npt

from kvformat.codecs._avro.bounds import ADDED_PER_BYTE, MAX_ADDED, AddedBytesBudget
from kvformat.codecs._columnar import BACK, Ints, Mask, MessageBytes, MessageNumbers, Positions, WordArray
from kvformat.registry.contract.fork_safe import cached_property

CursorNumbers = NewType("CursorNumbers", npt.NDArray[np.int64])
"""Indices into `Cursors`, not into the messages."""
MOST_WIDTH: Final = 24
"""The most bytes that a reader reads after a cursor at once."""
_MOST_UNCHECKED: Final = BACK - MOST_WIDTH - 8
_INT_BYTES: Final = 5

_U = np.uint64
_HIGH_BITS: Final = {8: _U(0x8080808080808080), 7: _U(0x0080808080808080)}
_LOW_BITS: Final = _U(0x7F7F7F7F7F7F7F7F)
_HIGH, _ONE, _SEVEN, _TWO_HIGH, _NEXT_SEVEN = _U(0x80), _U(1), _U(0x7F), _U(0x8080), _U(0x3F80)
# Steps that join groups of seven bits: (longest number in bytes without this step, bits that move, bits that stay,
# distance in bits)
_STEPS: Final = (
    (1, _U(0x7F007F007F007F00), _U(0x007F007F007F007F), _U(1)),
    (2, _U(0x3FFF00003FFF0000), _U(0x00003FFF00003FFF), _U(2)),
    (4, _U(0x0FFFFFFF00000000), _U(0x000000000FFFFFFF), _U(4)),
)


class AvroBatch(MessageBytes):
    """The bytes of a batch of messages, and which messages the fast reader has refused."""

    def __init__(self, messages: Any, budget: AddedBytesBudget | None = None) -> None:
        super().__init__(messages)
        self._budget = budget or AddedBytesBudget()
        self.refused: Mask = np.zeros(len(messages), bool)
        self._added: Ints = np.zeros(len(messages), np.int64)
        self.doubles = np.ndarray((len(self.bytes) - 7,), "<f8", self.bytes.data, strides=(1,))
        self.floats = np.ndarray((len(self.bytes) - 3,), "<f4", self.bytes.data, strides=(1,))

    def added_too_much(self, messages: MessageNumbers, added: Ints) -> Mask:
        """Count bytes that are added to some messages. Returns which of them exceed their limit."""
        self._added[messages] += added
        beyond = self._beyond()
        too_much: Mask = beyond[messages] > MAX_ADDED
        if beyond.sum() > self._budget.left:  # the exact reader counts message by message
            too_much |= beyond[messages] > 0
        return too_much

    def _beyond(self) -> Ints:
        """Return the bytes of each message beyond `ADDED_PER_BYTE`."""
        return np.maximum(self._added - ADDED_PER_BYTE * (self.end - self.start), 0)

    def charge_budget(self) -> None:
        """Subtract the bytes that were added to the messages that were read."""
        if self._added.any():
            self._budget.left -= int(self._beyond()[~self.refused].sum())

    @cached_property
    def last_bytes(self) -> Positions:
        """The offsets of all bytes that can be the last byte of a varint."""
        return Positions(np.flatnonzero(self.bytes[: self.size] < 0x80))


class Cursors:
    """Cursors into some messages.

    message: the index of each cursor's message; no index repeats.
    pos, end: each cursor's offset, and the end of its message.
    """

    __slots__ = ("_unchecked", "batch", "end", "message", "pos")

    def __init__(self, batch: AvroBatch, message: MessageNumbers, pos: Positions, end: Positions) -> None:
        self.batch, self.message, self.pos, self.end = batch, message, pos, end
        self._unchecked = 0

    def __len__(self) -> int:
        return len(self.pos)

    def move(self, by: Any, most: int) -> None:
        """Move all cursors by `by` bytes, at most `most`."""
        self.pos = Positions(self.pos + by)
        self._unchecked += most
        if self._unchecked > _MOST_UNCHECKED:
            self.check()

    def check(self) -> None:
        """Refuse messages with a cursor after their end."""
        self._unchecked = 0
        over = self.pos > self.end
        if over.any():
            self.refuse(over)

    def jump(self, target: Positions, bad: Mask) -> None:
        """Set all cursors to offsets within their messages, and refuse the `bad` ones."""
        self.pos = target
        self._unchecked = 0
        if bad.any():
            self.refuse(bad)

    def refuse(self, bad: Mask) -> None:
        """Leave the `bad` messages to the exact reader."""
        numbers = np.flatnonzero(bad)
        self.batch.refused[self.message[numbers]] = True
        self.pos, self.end = Positions(self.pos.copy()), Positions(self.end.copy())
        self.pos[numbers] = self.end[numbers] = self.batch.size

    def refuse_all(self) -> None:
        """Leave the messages of all cursors to the exact reader."""
        self.refuse(np.ones(len(self), bool))

    def select(self, numbers: CursorNumbers) -> Cursors:
        """Return some of the cursors as independent cursors."""
        messages, pos, end = (
            MessageNumbers(self.message[numbers]),
            Positions(self.pos[numbers]),
            Positions(self.end[numbers]),
        )
        some = Cursors(self.batch, messages, pos, end)
        some._unchecked = self._unchecked
        return some

    def rejoin(self, numbers: CursorNumbers, some: Cursors) -> None:
        """Copy the offsets of cursors from `select` back."""
        self.pos, self.end = Positions(self.pos.copy()), Positions(self.end.copy())
        self.pos[numbers], self.end[numbers] = some.pos, some.end
        self._unchecked = max(self._unchecked, some._unchecked)


def read_varints(cursors: Cursors, shift: int, valid: Mask | None) -> tuple[WordArray, Any]:
    """Read a varint `shift` (0 or 1) bytes after each cursor. Returns the numbers, still zigzag, and their lengths.

    The number is 0 where `valid` is false. The lengths are one int if all are equal. A number of more than ten bytes
    gets the length 0; the exact reader reports it.
    """
    word = cursors.batch.words[cursors.pos]
    if shift:
        word >>= _U(8)
    if valid is not None:
        word *= valid
    if not (word & _HIGH).any():
        return word & _SEVEN, 1
    if not ((word & _TWO_HIGH) == _TWO_HIGH).any():
        two = (word >> _U(7)) & _ONE
        return (word & _SEVEN) | (((word >> _ONE) & _NEXT_SEVEN) * two), two.view(np.int64) + 1
    stop = ~word & _HIGH_BITS[8 - shift]
    last = stop & (~stop + _ONE)
    lowest = last[0]
    if lowest and (last == lowest).all():
        longest = length = int(lowest).bit_length() // 8
        return _join_groups(word & _U((1 << (8 * longest)) - 1) & _LOW_BITS, longest), length
    mask = (last << _ONE) - _ONE
    lengths = (np.bitwise_count(mask) >> 3).astype(np.int64)
    number = _join_groups(word & mask & _LOW_BITS, int(lengths.max()))
    open_ends = CursorNumbers(np.flatnonzero(last == 0))
    if len(open_ends):
        _read_long_varints(cursors, open_ends, shift, number, lengths)
    return number, lengths


def _join_groups(groups: WordArray, longest: int) -> WordArray:
    """Join the groups of seven bits, which have a gap at the top bit of each byte."""
    for enough, moving, staying, by in _STEPS:
        if longest > enough:
            groups = ((groups & moving) >> by) | (groups & staying)
    return groups


def _read_long_varints(cursors: Cursors, some: CursorNumbers, shift: int, number: WordArray, lengths: Ints) -> None:
    """Read numbers of 8 to 10 bytes and drop bits beyond 64. Longer numbers get the length 0."""
    at = cursors.pos[some] + shift
    word, more = cursors.batch.words[at], cursors.batch.words[at + 8]
    eighth, ninth, tenth = word >> _U(56), more & _U(0xFF), (more >> _U(8)) & _U(0xFF)
    has_ninth = eighth >= _HIGH
    has_tenth = has_ninth & (ninth >= _HIGH)
    value = _join_groups(word & _LOW_BITS, 8)
    value |= np.where(has_ninth, (ninth & _SEVEN) << _U(56), _U(0))
    value |= np.where(has_tenth, (tenth & _ONE) << _U(63), _U(0))
    number[some] = value
    lengths[some] = np.where(has_tenth & (tenth >= _HIGH), 0, 8 + has_ninth.astype(np.int64) + has_tenth)


def decode_longs(number: WordArray) -> Ints:
    """Decode zigzag numbers to 64-bit integers."""
    return ((number >> _ONE) ^ (~(number & _ONE) + _ONE)).view(np.int64)


def decode_ints(number: WordArray) -> npt.NDArray[np.int32]:
    """Decode the lower 32 bits of zigzag numbers to 32-bit integers."""
    narrow = number.astype(np.uint32)
    return ((narrow >> np.uint32(1)) ^ (~(narrow & np.uint32(1)) + np.uint32(1))).view(np.int32)


def is_too_long(length: Any, *, is_int: bool) -> Mask | None:
    """Return which numbers are longer than an int or a long may be, None if all fit. `length` is in bytes."""
    if isinstance(length, int):
        return None if length <= _INT_BYTES or not is_int else np.ones(1, bool)
    wrong: Mask = length == 0
    if is_int:
        wrong |= length > _INT_BYTES
    return wrong if wrong.any() else None
