"""Rules by which the kernel compares columns with values of messages; see `look`."""

from __future__ import annotations

# what a column reads: flags, with numbers beside them
ANY = 1
BOOLEAN = 2
WHOLE = 4
DOUBLE = 8
DECIMAL = 16
FLOAT = 32
NUMBER_TEXT = 64
DATE = 128
LOCAL = 256
ZONED = 512
WITH_SPACE = 1024
WITH_LETTER = 2048
SHORT = 4096
TRUTH_TEXT = 8192
LATIN = 16384
CLOCK = 32768
ROW = 65536
ARRAY = 131072
MAP = 262144
NESTED = ROW | ARRAY | MAP
STRIDE = 4
"""Numbers of a column: flags, largest whole number or length, digits before the point, digits after the point."""
TIMES = DATE | LOCAL | ZONED
CLOSER = -5
"""The result of a check: the value may not fit, so the Python rule looks at the message."""
