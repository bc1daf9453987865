"""Named numbers of csv, for the compiled modules and for the texts of error messages."""

from __future__ import annotations

# reasons why a message is not a record of the schema
NO_RECORD = 1
NOT_TEXT = 2
UNKNOWN_ENCODING = 3
OPEN_QUOTE = 4
AFTER_QUOTE = 5
OPEN_ESCAPE = 6
TOO_MANY_COLUMNS = 7
NOT_ENOUGH_COLUMNS = 8
LENGTH_MISMATCH = 9
TOO_MUCH_TEXT = 10
