"""The bytes of VARIANT, as Spark's `VariantUtil` and Parquet's specification of VARIANT define them."""

from __future__ import annotations

VERSION = 1
"""The first byte of the metadata, besides the size of its offsets."""
MOST_OF_A_VARIANT = 2**27
"""Spark's limit in bytes of a value, and of its metadata."""

# the two lowest bits of a value: its kind
PRIMITIVE, SHORT_STRING, OBJECT, ARRAY = range(4)
LARGE_OBJECT, LARGE_ARRAY = OBJECT | 1 << 6, ARRAY | 1 << 4
"""Containers whose number of elements has four bytes instead of one."""

# the first byte of each primitive value
NULL_BYTE, TRUE_BYTE, FALSE_BYTE, INT1, INT2, INT4, INT8, DOUBLE, DECIMAL4, DECIMAL8, DECIMAL16 = (
    i << 2 for i in range(11)
)
DATE, TIMESTAMP, TIMESTAMP_NTZ, FLOAT, BINARY, LONG_STRING = (i << 2 for i in range(11, 17))
UUID = 20 << 2

# reasons why a value is not a VARIANT
DUPLICATE_KEY = 1
TOO_LARGE_VARIANT = 2

# reasons why VARIANT can't be written
MALFORMED_VARIANT = 3
TOO_DEEP_VARIANT = 4
TOO_LARGE_TEXT = 5
MOST_OF_A_TEXT = 2**28
"""Limit in bytes of the text of a value. A text may be much larger than its value if a long key comes often."""
