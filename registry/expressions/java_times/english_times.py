"""The English texts of dates and times that Java writes and reads, for the locale `en`.

Source: Java 17's CLDR data, asked with `Calendar.getDisplayNames` and `DateTimeFormatter`.
"""

from __future__ import annotations

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
SHORT_MONTHS = tuple(name[:3] for name in MONTHS)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
"""From Monday, as in java.time; java.util counts from Sunday."""
SHORT_WEEKDAYS = tuple(name[:3] for name in WEEKDAYS)
HALF_DAYS = ("AM", "PM")
ERAS, LONG_ERAS = ("BC", "AD"), ("Before Christ", "Anno Domini")
QUARTERS, LONG_QUARTERS = ("Q1", "Q2", "Q3", "Q4"), ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")


def day_period(hour: int, minute: int, *, narrow: bool = False) -> str:
    """Return the part of the day that the letter B writes: `noon`, `in the morning`."""
    if minute == 0 and hour in (0, 12):
        return ("n" if hour else "mi") if narrow else "noon" if hour else "midnight"
    if 6 <= hour < 12:
        return "in the morning"
    if 12 <= hour < 18:
        return "in the afternoon"
    return "in the evening" if 18 <= hour < 21 else "at night"
