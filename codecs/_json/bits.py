"""Eight characters at a time: digits, quotes and blanks found and read in 64-bit words.

A word holds eight characters, the first one in the lowest byte. The tests mark characters by the highest bit of
their byte; only the lowest mark of a word counts, the ones above it may be false.
"""

from __future__ import annotations

import numpy as np

from kvformat.codecs._columnar import Bytes, Ints, Mask, MessageBytes, Words

_U = np.uint64
_ONES = _U(0x0101010101010101)
_HIGH = _U(0x8080808080808080)
_LOW = _U(0x7F7F7F7F7F7F7F7F)
_ZEROS = _U(0x3030303030303030)
_ABOVE_NINE = _U(0x7676767676767676)
_QUOTES = _U(0x2222222222222222)
_BACKSLASHES = _U(0x5C5C5C5C5C5C5C5C)
_ONE = _U(1)
_PAIRS = _U(0x00FF00FF00FF00FF)
_FOURS = _U(0x0000FFFF0000FFFF)
_EIGHT = _U(0xFFFFFFFF)
_BYTE = _U(0xFF)

QUOTE, BACKSLASH, COMMA, COLON, MINUS, DOT, ZERO = b'"\\,:-.0'
OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY = b"{}[]"
_BLANKS = np.isin(np.arange(256), list(b" \t\r\n"))
_BLANK_PATTERNS = tuple(_ONES * _U(blank) for blank in b" \t\r\n")
_MOST_BLANKS = 64


def zero_bytes(word: Words) -> Words:
    """Marks the bytes that are zero."""
    marks: Words = (word - _ONES) & ~word & _HIGH
    return marks


def first_mark(marks: Words) -> Bytes:
    """How many characters stand before the first mark; 8 without a mark."""
    count: Bytes = np.bitwise_count((marks - _ONE) & ~marks) >> np.uint8(3)
    return count


def first_bit(marks: Words) -> tuple[Bytes, Words]:
    """How many bits stand below the lowest one that is set (64 without one), and that bit alone."""
    lowest: Words = marks & (~marks + _ONE)
    return np.bitwise_count(lowest - _ONE), lowest


def quotes(word: Words) -> Words:
    """Marks the quotes."""
    return zero_bytes(word ^ _QUOTES)


def backslashes(word: Words) -> Words:
    """Marks the backslashes."""
    return zero_bytes(word ^ _BACKSLASHES)


def digits(word: Words) -> Bytes:
    """How many digits a word begins with, at most 8."""
    values = word ^ _ZEROS
    return first_mark((((values & _LOW) + _ABOVE_NINE) | values) & _HIGH)


def digit_run(word: Words) -> tuple[Bytes, Words]:
    """How many digits a word begins with (at most 8), and the number they are."""
    count = digits(word)
    return count, number((word ^ _ZEROS) << (_U(64) - (count.astype(_U) << _U(3))))


def number(digits: Words) -> Words:
    """The number whose eight digits (0 to 9, not their characters) a word holds."""
    pairs = (digits * _U(10) + (digits >> _U(8))) & _PAIRS
    fours = (pairs * _U(100) + (pairs >> _U(16))) & _FOURS
    result: Words = (fours * _U(10000) + (fours >> _U(32))) & _EIGHT
    return result


def character(word: Words, index: int) -> Bytes:
    """One character of a word."""
    shifted = word >> _U(8 * index) if index else word
    return shifted.astype(np.uint8)


def character_at(word: Words, index: Bytes) -> Bytes:
    """The character of a word at an index that differs from word to word; 0 beyond the word."""
    return (word >> (index.astype(_U) << _U(3))).astype(np.uint8)


def skip_blanks(batch: MessageBytes, position: Ints) -> tuple[Ints, Bytes]:
    """The positions of the next characters that are no blanks, and these characters.

    After more than 64 blanks a position may still be at one.
    """
    found = batch.byte(position)
    if not (found <= 0x20).any():
        return position, found
    # most often it is one space
    position = position + (found == 0x20)
    found = batch.byte(position)
    rows = np.flatnonzero(found <= 0x20)
    rows = rows[_BLANKS[found[rows]]]
    here = position[rows]
    for _ in range(_MOST_BLANKS // 8):
        if not len(rows):
            break
        count = _leading_blanks(batch.word(here))
        here = here + count
        following = batch.byte(here)
        position[rows], found[rows] = here, following
        more = np.flatnonzero(count == 8)
        rows, here = rows[more], here[more]
    return position, found


def _leading_blanks(word: Words) -> Bytes:
    """How many blanks a word begins with."""
    solid = np.full(len(word), _HIGH)
    for pattern in _BLANK_PATTERNS:
        other = word ^ pattern
        solid &= ((other & _LOW) + _LOW) | other
    return first_mark(solid)


def is_digit(found: Bytes) -> Mask:
    """Where the character is a digit."""
    result: Mask = (found - np.uint8(ZERO)) <= 9
    return result
