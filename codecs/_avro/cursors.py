"""A cursor and an end for every message of a batch, moved together, and Avro's numbers read at them.

Positions are only checked where it matters: after every text (its end must lie in its message), before the items of
arrays and maps, when fixed widths and numbers add up to `_MOST_UNCHECKED` bytes, and at the end. Until then a message
that is cut short reads what follows it, which is harmless: the bytes of a batch have room behind them, and the message
is refused at the next check. Refused messages stand in that room, in zeros.
"""

from __future__ import annotations

import functools
from typing import Any, Final, NewType

import numpy as np
import numpy.typing as npt

from kvformat.codecs._avro.bounds import ADDED_PER_BYTE, MAX_ADDED, AddedBytesBudget
from kvformat.codecs._columnar import BACK, Ints, Mask, MessageBytes, MessageNumbers, Positions, WordArray

CursorNumbers = NewType("CursorNumbers", npt.NDArray[np.int64])
"""Which of some cursors: their numbers among these, not among the messages."""
MOST_WIDTH: Final = 24
"""The most bytes that a reader looks at behind a cursor in one go."""
_MOST_UNCHECKED: Final = BACK - MOST_WIDTH - 8
_INT_BYTES: Final = 5

_U = np.uint64
_HIGH_BITS: Final = {8: _U(0x8080808080808080), 7: _U(0x0080808080808080)}
_LOW_BITS: Final = _U(0x7F7F7F7F7F7F7F7F)
_HIGH, _ONE, _SEVEN, _TWO_HIGH, _NEXT_SEVEN = _U(0x80), _U(1), _U(0x7F), _U(0x8080), _U(0x3F80)
# How the groups of seven bits move together: (longest that needs no such step, bits that move, bits that stay, by)
_STEPS: Final = (
    (1, _U(0x7F007F007F007F00), _U(0x007F007F007F007F), _U(1)),
    (2, _U(0x3FFF00003FFF0000), _U(0x00003FFF00003FFF), _U(2)),
    (4, _U(0x0FFFFFFF00000000), _U(0x000000000FFFFFFF), _U(4)),
)


class AvroBatch(MessageBytes):
    """The bytes of the messages, and which messages have been refused so far."""

    def __init__(self, messages: Any, budget: AddedBytesBudget | None = None) -> None:
        super().__init__(messages)
        self._budget = budget or AddedBytesBudget()
        self.refused: Mask = np.zeros(len(messages), bool)
        self._added: Ints = np.zeros(len(messages), np.int64)
        self.doubles = np.ndarray((len(self.bytes) - 7,), "<f8", self.bytes.data, strides=(1,))
        self.floats = np.ndarray((len(self.bytes) - 3,), "<f4", self.bytes.data, strides=(1,))

    def added_too_much(self, messages: MessageNumbers, added: Ints) -> Mask:
        """Count bytes that are added to some of the messages; which have more than they may have."""
        self._added[messages] += added
        beyond = self._beyond()
        too_much: Mask = beyond[messages] > MAX_ADDED
        if beyond.sum() > self._budget.left:  # the exact reader counts message by message
            too_much |= beyond[messages] > 0
        return too_much

    def _beyond(self) -> Ints:
        """How many bytes each message has that its own do not allow for."""
        return np.maximum(self._added - ADDED_PER_BYTE * (self.end - self.start), 0)

    def charge_budget(self) -> None:
        """Count what was added to the messages that were read."""
        if self._added.any():
            self._budget.left -= int(self._beyond()[~self.refused].sum())

    @functools.cached_property
    def last_bytes(self) -> Positions:
        """The positions of all bytes that can be the last one of a number."""
        return Positions(np.flatnonzero(self.bytes[: self.size] < 0x80))


class Cursors:
    """Cursors of some of the messages: `message` says of which, and one may not be there twice."""

    __slots__ = ("_unchecked", "batch", "end", "message", "pos")

    def __init__(self, batch: AvroBatch, message: MessageNumbers, pos: Positions, end: Positions) -> None:
        self.batch, self.message, self.pos, self.end = batch, message, pos, end
        self._unchecked = 0

    def __len__(self) -> int:
        return len(self.pos)

    def move(self, by: Any, most: int) -> None:
        """Move all cursors, by at most so many bytes."""
        self.pos = Positions(self.pos + by)
        self._unchecked += most
        if self._unchecked > _MOST_UNCHECKED:
            self.check()

    def check(self) -> None:
        """Refuse the messages whose cursors have left them."""
        self._unchecked = 0
        over = self.pos > self.end
        if over.any():
            self.refuse(over)

    def jump(self, target: Positions, bad: Mask) -> None:
        """Put the cursors to positions that lie in their messages, but refuse the `bad` ones."""
        self.pos = target
        self._unchecked = 0
        if bad.any():
            self.refuse(bad)

    def refuse(self, bad: Mask) -> None:
        """Leave the messages that are `bad` to the exact reader."""
        numbers = np.flatnonzero(bad)
        self.batch.refused[self.message[numbers]] = True
        self.pos, self.end = Positions(self.pos.copy()), Positions(self.end.copy())
        self.pos[numbers] = self.end[numbers] = self.batch.size

    def refuse_all(self) -> None:
        """Leave all of these messages to the exact reader."""
        self.refuse(np.ones(len(self), bool))

    def select(self, numbers: CursorNumbers) -> Cursors:
        """Some of the cursors, to be read from by themselves."""
        messages, pos, end = (
            MessageNumbers(self.message[numbers]),
            Positions(self.pos[numbers]),
            Positions(self.end[numbers]),
        )
        some = Cursors(self.batch, messages, pos, end)
        some._unchecked = self._unchecked
        return some

    def rejoin(self, numbers: CursorNumbers, some: Cursors) -> None:
        """Take over where selected cursors stand now."""
        self.pos, self.end = Positions(self.pos.copy()), Positions(self.end.copy())
        self.pos[numbers], self.end[numbers] = some.pos, some.end
        self._unchecked = max(self._unchecked, some._unchecked)


def read_varints(cursors: Cursors, shift: int, valid: Mask | None) -> tuple[WordArray, Any]:
    """The numbers at a distance of `shift` (0 or 1) behind the cursors, as they stand there, and their lengths.

    Where not `valid` the number is 0. The length is one number if it is the same for all. Numbers of more than ten
    bytes have length 0: they are for the exact reader.
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
    """Close the gaps that the top bits of the bytes leave."""
    for enough, moving, staying, by in _STEPS:
        if longest > enough:
            groups = ((groups & moving) >> by) | (groups & staying)
    return groups


def _read_long_varints(cursors: Cursors, some: CursorNumbers, shift: int, number: WordArray, lengths: Ints) -> None:
    """Numbers of 8 to 10 bytes, whose surplus bits are dropped; one of more gets the length 0."""
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
    """Zigzag numbers of 64 bits as what they stand for."""
    return ((number >> _ONE) ^ (~(number & _ONE) + _ONE)).view(np.int64)


def decode_ints(number: WordArray) -> npt.NDArray[np.int32]:
    """Zigzag numbers of which 32 bits count as what they stand for."""
    narrow = number.astype(np.uint32)
    return ((narrow >> np.uint32(1)) ^ (~(narrow & np.uint32(1)) + np.uint32(1))).view(np.int32)


def is_too_long(length: Any, *, is_int: bool) -> Mask | None:
    """Which numbers have more bytes than an int or a long may have; None if none has."""
    if isinstance(length, int):
        return None if length <= _INT_BYTES or not is_int else np.ones(1, bool)
    wrong: Mask = length == 0
    if is_int:
        wrong |= length > _INT_BYTES
    return wrong if wrong.any() else None
