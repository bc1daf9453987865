"""Numbers with names of Protocol Buffers, for the compiled module and for Python."""

from __future__ import annotations

# why a message is no protobuf
TORN = 1
LONG_VARINT = 2
NEGATIVE_SIZE = 3
ZERO_TAG = 4
WRONG_WIRE_TYPE = 5
STRAY_GROUP_END = 6
NESTED_TOO_DEEPLY = 7
NO_UTF8 = 8
TOO_MUCH_TEXT = 9
NO_MESSAGE = 10
TOO_MANY_CELLS = 11

# wire types
VARINT, FIXED64, SIZED, GROUP_START, GROUP_END, FIXED32 = range(6)

# how a number is on the wire
SIGNED32, SIGNED64, ZIGZAG32, ZIGZAG64, TRUTH, BITS32, BITS32_SIGNED, BITS64 = range(8)

MAX_LEVELS = 100
"""What protobuf's own readers take: messages, groups and map entries in one another."""
LOW = 0xFFFFFFFF
"""The bits of a number of 32."""
