"""How many cells one message may become. A cell is a value or a NULL of a column, also of one within a row."""

from __future__ import annotations

CELLS_PER_BYTE = 8
"""How many cells the rows of a message may have for each of its bytes."""
MOST_CELLS = 2**22
"""How many cells it may have beside these: 2,000 rows of 2,000 columns, of which a row holds next to nothing.

The row that every message has does not count.
"""
MOST_CELLS_OF_A_BATCH = 2**26
"""How many all messages of a batch may have beside these: one takes up to 28 bytes while columns grow."""
