"""Named numbers of binary Avro, for the compiled modules and for Python."""

from __future__ import annotations

from kvformat.codecs._kernel.codes import BYTES_OF_A_CELL
from kvformat.registry.contract.cells import CELLS_PER_BYTE, MOST_CELLS, MOST_CELLS_OF_A_BATCH

# reasons why a datum can't be read
KNOWN_TEXT = 1
"""The error is in `AvroWire.text` and `AvroWire.error`."""
CUT_NUMBER = 2
LONG_INT = 3
LONG_LONG = 4
NEGATIVE_SIZE = 5
CUT_VALUE = 6
NO_BRANCH = 7
NO_SYMBOL = 8
TOO_MANY_ITEMS = 9
TOO_MANY_EMPTY_ITEMS = 10
TOO_MANY_ADDED_BYTES = 11
NUMBER_OUT_OF_RANGE = 12
NESTED_TOO_DEEPLY = 13
NO_DATUM = 14
COLUMN_TOO_LARGE = 15

BOOLEAN, SINGLE, DOUBLE, SINGLE_AS_DOUBLE = range(4)
"""Ways to read a value of fixed width: a boolean, a float, a double, and a float as a double."""
PLAIN, SCALED, AS_SINGLE, AS_DOUBLE = range(4)
"""Ways to use an integer: as it is, in another unit, as a float, and as a double."""
ANY_FORM, INT_FORM, LONG_FORM, BOOLEAN_FORM, DOUBLE_FORM, TEXT_FORM = range(6)
"""Forms of values that records read without a call: see `read_field`."""
SKIPPED_INT, SKIPPED_LONG, SKIPPED_TEXT = range(6, 9)
"""Forms of values that are skipped without a call: see `skip_field`."""
INT_BYTES, LONG_BYTES = 5, 10
"""The most bytes of an int and of a long."""
LOW_32_BITS = 0xFFFFFFFF
"""Mask of the low 32 bits."""
MAX_LEVELS = 200
"""Levels of a recursive value that is skipped. Java fails with a StackOverflowError after some thousand levels."""
MAX_EMPTY_ITEMS = 1000
"""Items without bytes in all arrays of a message."""
MAX_ADDED = MOST_CELLS * BYTES_OF_A_CELL
"""Bytes that cells, enum symbols and defaults may add to the items of a message, beyond `ADDED_PER_BYTE`.

The limit equals the limit on cells of the other formats.
"""
ADDED_PER_BYTE = CELLS_PER_BYTE * BYTES_OF_A_CELL
"""Bytes that may be added for each byte of a message. An item that adds less for each of its bytes is not counted."""
MAX_ADDED_OF_A_BATCH = MOST_CELLS_OF_A_BATCH * BYTES_OF_A_CELL
"""Bytes that the messages of a batch may add in all, beyond `ADDED_PER_BYTE`."""
