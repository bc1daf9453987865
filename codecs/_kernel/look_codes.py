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
AS_WRITTEN = 524288
NOTED = 1048576
"""A name that is not a column yet, and contributes itself if it comes with null."""
NESTED = ROW | ARRAY | MAP
STRIDE = 5
"""Numbers of a column: flags, largest whole number or length, digits before the point, digits after the point, and the
forms that each text must have (`codecs/discovery/text_forms.py`)."""
TRIMMED, GROUPED, AT_LEAST_ONE = 1 << 39, 1 << 40, 1 << 41
MOST_FIXED = 38  # digits after the point, as many as a DECIMAL has
ALL_FORMS = (1 << 42) - 1
"""Forms that no text has together."""
TIMES = DATE | LOCAL | ZONED
CLOSER = -5
"""The result of a check: the value may not fit, so the Python rule looks at the message."""
