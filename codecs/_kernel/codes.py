"""Numbers with names, for the compiled modules and for the words of an error."""

from __future__ import annotations

from kvformat.registry.contract.cells import CELLS_PER_BYTE, MOST_CELLS, MOST_CELLS_OF_A_BATCH

FAULT, BAD, NEEDS_PYTHON = -2, -3, -4
"""No places: not JSON, a value that a column can't take, a value that is left to Python."""

MAX_DEPTH = 1000
MAX_DIGITS = 1000
"""What Jackson takes: levels of a document, digits of a number."""

MOST_BYTES = 2**31 - 1
"""Of the texts of a column: what the offsets of an Arrow string array reach."""
MOST_OF_A_MESSAGE = 2**28
"""How many bytes of metadata the rows of one message may have in all: it is written once and repeated for each row."""
MOST_OF_A_BATCH = MOST_BYTES
"""The same for a batch."""
BYTES_OF_A_CELL = 8
"""Of a name of an enum and of a default of the schema; so many are one cell more."""
TOO_MANY = (
    f"too many cells: the rows of a message may have {MOST_CELLS} values and NULLs in their columns and "
    f"{CELLS_PER_BYTE} for each byte of the message, those of a batch {MOST_CELLS_OF_A_BATCH} and as many for each "
    "byte; send fewer rows in a message, declare fewer columns, or take smaller batches"
)
"""The words for a message that becomes too large; where it does is added."""

# why a message is not JSON
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

# texts as words of eight bytes, the first one lowest
NULL_TEXT = int.from_bytes(b"null", "little")
TRUE_TEXT = int.from_bytes(b"true", "little")
FALSE_TEXT = int.from_bytes(b"false", "little")

# the first members of the envelope of a change
BEFORE, AFTER, OPERATION = 0, 1, 2
