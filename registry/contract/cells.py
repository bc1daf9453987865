"""Limits on the cells of a message. A cell is a value or NULL of a column, also of a field in a nested row."""

from __future__ import annotations

CELLS_PER_BYTE = 8
"""Cells that the rows of a message may have per byte of the message."""
MOST_CELLS = 2**22
"""Cells that a message may have in addition: enough for 2,000 nearly empty rows of 2,000 columns.

The first row of a message is not counted.
"""
MOST_CELLS_OF_A_BATCH = 2**26
"""Cells that all messages of a batch may have in addition. A cell takes up to 28 bytes while columns grow."""
