"""Named numbers of Protocol Buffers, for the compiled module and for Python."""

from __future__ import annotations

# reasons why a message is not protobuf
TRUNCATED = 1
LONG_VARINT = 2
NEGATIVE_SIZE = 3
ZERO_TAG = 4
WRONG_WIRE_TYPE = 5
STRAY_GROUP_END = 6
NESTED_TOO_DEEPLY = 7
INVALID_UTF8 = 8
TOO_MUCH_TEXT = 9
NULL_MESSAGE = 10
TOO_MANY_CELLS = 11

# wire types
VARINT, FIXED64, SIZED, GROUP_START, GROUP_END, FIXED32 = range(6)

# encodings of a number
SIGNED32, SIGNED64, ZIGZAG32, ZIGZAG64, BOOL, BITS32, BITS32_SIGNED, BITS64 = range(8)

MAX_LEVELS = 100
"""Limit of protobuf's own readers: nested messages, groups and map entries."""
LOW_32_BITS = 0xFFFFFFFF
"""Mask of the low 32 bits."""
