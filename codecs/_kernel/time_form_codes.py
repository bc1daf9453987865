"""The steps of the programs of `time_forms`, which `_timestamps.patterns` compiles. A step is a code with arguments."""

from __future__ import annotations

UNKNOWN = 1 << 30
"""An offset that is not known."""
WIDTH = 4
"""Numbers of a step."""
LITERAL, DIGITS, YEAR, SHORT_YEAR, FRACTION, HALF, OFFSET, ZONE, OPTIONAL, DATE_AT_ONCE, TIME_AT_ONCE = range(11)
"""
LITERAL (a byte, another byte that is allowed too)
DIGITS (field, least, most): a number of so many digits
YEAR (whether it may have a sign and more than four digits); SHORT_YEAR: two digits, from 2000 on
FRACTION (least, most): digits of a fraction of a second; HALF: AM or PM; OFFSET (style); ZONE
OPTIONAL (steps of the section, which follow)
DATE_AT_ONCE, TIME_AT_ONCE (steps that follow, and say the same for any form): digits of fixed width with `-` or `:`
"""
MONTH, DAY, HOUR, HOUR_OF_HALF, MINUTE, SECOND = range(6)
"""Fields of DIGITS. HOUR_OF_HALF is from 1 to 12."""
ANY, SHORT, MINUTES, COLON_MINUTES, SECONDS, COLON_SECONDS = range(6)
"""Styles of offsets: of all kinds; +02 or +0230; +0200; +02:00; +0200 or +020000; +02:00 or +02:00:00."""
Z_ZERO = 8
"""Added to a style in which Z stands for no offset."""
