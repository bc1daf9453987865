"""Named numbers of the compiled modules. The texts of error messages use them too."""

from __future__ import annotations

from kvformat.registry.contract.cells import CELLS_PER_BYTE, MOST_CELLS, MOST_CELLS_OF_A_BATCH

FAULT, BAD, NEEDS_PYTHON = -2, -3, -4
"""Results that are not offsets: the message is not JSON, a column can't take a value, Python must read the value."""

MAX_DEPTH = 1000
MAX_DIGITS = 1000
"""Jackson's limits: levels of a document, digits of a number."""

MOST_BYTES = 2**31 - 1
"""Limit of a column's texts in bytes: the largest offset of an Arrow string array."""
MOST_OF_A_MESSAGE = 2**28
"""Limit in bytes of the metadata in all rows of one message. Each row repeats the metadata of its message."""
MOST_OF_A_BATCH = MOST_BYTES
"""Limit in bytes of the metadata in all rows of a batch."""
BYTES_OF_A_CELL = 8
"""Bytes of an enum's name, or of a default in the schema, that count as one more cell."""
TOO_MANY = (
    f"too many cells: the rows of a message may have {MOST_CELLS} values and NULLs in their columns and "
    f"{CELLS_PER_BYTE} for each byte of the message, those of a batch {MOST_CELLS_OF_A_BATCH} and as many for each "
    "byte; send fewer rows in a message, declare fewer columns, or take smaller batches"
)
"""The error text for a message with too many cells. The reader adds the position."""

# reasons why a message is not JSON
EXPECTED_VALUE = 1
EXPECTED_NAME = 2
EXPECTED_COLON = 3
EXPECTED_COMMA = 4
OPEN_STRING = 5
BAD_ESCAPE = 6
BAD_HEX = 7
TOO_DEEP = 8
TOO_MANY_DIGITS = 9
BAD_EXPONENT = 10
CONSTANT = 11
TRAILING = 12
TOO_LARGE = 13
CONTROL = 14
TOO_MANY_CELLS = 15

# texts as little-endian integers of up to eight bytes
NULL_TEXT = int.from_bytes(b"null", "little")
TRUE_TEXT = int.from_bytes(b"true", "little")
FALSE_TEXT = int.from_bytes(b"false", "little")

# numbers of the first members of a change's envelope
BEFORE, AFTER, OPERATION = 0, 1, 2
# the first member of a wrapped message
PAYLOAD = 0
