"""Make a local time of parsed fields, as `java.time.format.Parsed` does with the style SMART, and Flink after it.

A date needs year, month and day, or year and day of the year, or a week date. Flink takes what is missing from
1970-01-01 00:00:00 (`DateTimeUtils.fromTemporalAccessor`). A day that a month does not have is the last one, if it is
at most 31; 24:00 is the next day.
"""

from __future__ import annotations

from kvformat.registry.expressions.java_times.formatter_fields import (
    HOUR_NANOS,
    MINUTE_NANOS,
    MODIFIED_JULIAN_1970,
    RANGES,
    SECOND_NANOS,
    TIME_FIELDS,
    date_fields,
    time_value,
    week_begin,
    weeks_of_year,
)
from kvformat.registry.expressions.java_times.formatter_parsing import Parsed, ParseFailure
from kvformat.registry.expressions.local_times import days_of, month_length

_MOST_OFFSET = 64_800
"""Seconds: java.time's largest offset, 18 hours."""
_INTS = 2**31
_MOST_WEEKS = 53
"""Weeks of a year; in a year with 52 weeks, Java reads week 53 as week 52."""


class InvalidDate(Exception):
    """Fields that Java accepts, but that do not make a date together: Java's `DateTimeException` after parsing."""


def resolved(parsed: Parsed) -> tuple[int, int]:
    """Return the days since 1970 and the nanoseconds of the day. Raises `ParseFailure` and `InvalidDate`."""
    resolver = _Resolver(dict(parsed.fields), parsed.day_period)
    resolver.resolve()
    return resolver.local_time()


class _Resolver:
    """Turns fields into a date and a time, of which either may stay unknown."""

    def __init__(self, fields: dict[str, int], day_period: tuple[int, int] | None) -> None:
        self.fields = fields
        self.day_period = day_period
        self.days: int | None = None
        self.nanos: int | None = None
        self.next_day = False

    def resolve(self) -> None:
        self._date()
        self._time()
        if self._other_fields():
            self._date()
            self._time()
        self._lenient_time()
        self._cross_check()
        if self.days is not None and self.nanos is not None:
            self.days += self.next_day
            if abs(self.fields.get("OFFSET", 0)) > _MOST_OFFSET:
                raise ParseFailure

    def local_time(self) -> tuple[int, int]:
        """Return date and time with Flink's defaults."""
        days, nanos = self.days, self.nanos
        if days is None:
            year, month, day = self._or("YEAR", 1970), self._or("MONTH", 1), self._or("DAY_OF_MONTH", 1)
            if day > month_length(year, month):
                raise InvalidDate
            days = days_of(year, month, day)
        if nanos is None:
            nanos = self._or("HOUR", 0) * HOUR_NANOS + self._or("MINUTE", 0) * MINUTE_NANOS
            nanos += self._or("SECOND", 0) * SECOND_NANOS + self._or("NANO", 0)
        return days, nanos

    def _or(self, name: str, value: int) -> int:
        value = self.fields.get(name, value)
        least, most = RANGES[name]
        if not least <= value <= most:
            raise InvalidDate
        return value

    # --- fields ----------------------------------------------------------------------------------------------

    def _pop(self, name: str) -> int:
        """Remove a field and return its value, which must be in its range."""
        value = self.fields.pop(name)
        least, most = RANGES[name]
        if not least <= value <= most:
            raise ParseFailure
        return value

    def _put(self, name: str, value: int) -> None:
        """Set a field, which must not have another value."""
        if self.fields.setdefault(name, value) != value:
            raise ParseFailure

    def _has(self, *names: str) -> bool:
        return all(name in self.fields for name in names)

    # --- dates -----------------------------------------------------------------------------------------------

    def _set_date(self, days: int) -> None:
        if self.days not in (None, days):
            raise ParseFailure
        self.days = days

    def _date(self) -> None:
        """`IsoChronology.resolveDate`."""
        self._year_of_era()
        if self._has("YEAR", "MONTH", "DAY_OF_MONTH"):
            year, month, day = (self._pop(name) for name in ("YEAR", "MONTH", "DAY_OF_MONTH"))
            self._set_date(days_of(year, month, min(day, month_length(year, month))))
        elif self._has("YEAR", "DAY_OF_YEAR"):
            year, day = self._pop("YEAR"), self._pop("DAY_OF_YEAR")
            days = days_of(year, 1, 1) + day - 1
            if days >= days_of(year + 1, 1, 1):
                raise ParseFailure
            self._set_date(days)

    def _year_of_era(self) -> None:
        if not self._has("YEAR_OF_ERA"):
            if self._has("ERA") and not 0 <= self.fields["ERA"] <= 1:
                raise ParseFailure
            return
        of_era = self._pop("YEAR_OF_ERA")
        era = self.fields.pop("ERA", None)
        if era is None:
            era = int(self.fields.get("YEAR", 1) > 0)
        self._put("YEAR", of_era if era else 1 - of_era)

    def _other_fields(self) -> bool:
        """Resolve the fields of weeks and days that `ChronoField` does not have; return whether anything changed."""
        changed = False
        if any(not -_INTS <= self.fields.get(name, 0) < _INTS for name in ("WEEK_YEAR", "WEEK", "WEEK_OF_MONTH")):
            raise ParseFailure
        if self._has("LOCAL_WEEKDAY"):
            # Java replaces a weekday that was parsed, too
            self.fields["WEEKDAY"] = (self._pop("LOCAL_WEEKDAY") + 5) % 7 + 1
            changed = True
        if self._has("MODIFIED_JULIAN_DAY"):
            self._set_date(self._pop("MODIFIED_JULIAN_DAY") - MODIFIED_JULIAN_1970)
            changed = True
        if self._has("WEEKDAY", "WEEK_OF_MONTH", "YEAR", "MONTH"):
            year, month, day, week = (self._pop(name) for name in ("YEAR", "MONTH", "WEEKDAY", "WEEK_OF_MONTH"))
            self._set_date(week_begin(days_of(year, month, 1)) + 7 * (week - 1) + day % 7)
            changed = True
        elif self._has("WEEKDAY", "WEEK", "WEEK_YEAR") and not self._has("YEAR"):
            year, day, week = self._pop("WEEK_YEAR"), self._pop("WEEKDAY"), self.fields.pop("WEEK")
            if not 1 <= week <= _MOST_WEEKS:
                raise ParseFailure
            week = min(week, weeks_of_year(year))
            self._set_date(week_begin(days_of(year, 1, 1)) + 7 * (week - 1) + day % 7)
            changed = True
        return changed

    # --- times -----------------------------------------------------------------------------------------------

    def _set_time(self, nanos: int, *, next_day: bool = False) -> None:
        if self.nanos not in (None, nanos):
            raise ParseFailure
        self.nanos, self.next_day = nanos, next_day

    def _time(self) -> None:
        """`Parsed.resolveTimeFields`."""
        self._clock_hour("CLOCK_HOUR", "HOUR", 24)
        self._clock_hour("CLOCK_HOUR_OF_HALF", "HOUR_OF_HALF", 12)
        if self._has("HALF", "HOUR_OF_HALF"):
            self._put("HOUR", self._pop("HALF") * 12 + self._pop("HOUR_OF_HALF"))
        if self._has("NANO_OF_DAY"):
            nanos = self._pop("NANO_OF_DAY")
            for name in ("HOUR", "MINUTE", "SECOND", "NANO"):
                self._put(name, time_value(name, nanos))
        if self._has("MILLI_OF_DAY"):
            seconds, millis = divmod(self._pop("MILLI_OF_DAY"), 1000)
            for name in ("HOUR", "MINUTE", "SECOND"):
                self._put(name, time_value(name, seconds * SECOND_NANOS))
            self._put("MILLI", millis)
        if self._has("NANO"):
            least, most = RANGES["NANO"]
            if not least <= self.fields["NANO"] <= most:
                raise ParseFailure
            if self._has("MILLI"):
                self._put("NANO", self._pop("MILLI") * 1_000_000 + self.fields["NANO"] % 1_000_000)
        if self.day_period and self._has("HOUR_OF_HALF"):
            hour = self._pop("HOUR_OF_HALF")
            minute = self.fields.get("MINUTE", 0) % 60
            self._put("HOUR", hour + 12 * _includes(self.day_period, (hour % 12 + 12) * 60 + minute))
            self.day_period = None
        if self._has("HOUR", "MINUTE", "SECOND", "NANO"):
            self._resolve_time(*(self.fields.pop(name) for name in ("HOUR", "MINUTE", "SECOND", "NANO")))

    def _clock_hour(self, name: str, target: str, most: int) -> None:
        """Turn an hour that counts from 1 into one that counts from 0; 0 itself is accepted."""
        if self._has(name):
            hour = self._pop(name) if self.fields[name] else self.fields.pop(name)
            self._put(target, 0 if hour == most else hour)

    def _resolve_time(self, hour: int, minute: int, second: int, nano: int) -> None:
        if not (0 <= minute <= 59 and 0 <= nano < SECOND_NANOS):
            raise ParseFailure
        if hour == 24 and not (minute or second or nano):
            self._set_time(0, next_day=True)
        elif 0 <= hour <= 23 and 0 <= second <= 59:
            self._set_time(hour * HOUR_NANOS + minute * MINUTE_NANOS + second * SECOND_NANOS + nano)
        else:
            raise ParseFailure

    def _lenient_time(self) -> None:
        """`Parsed.resolveTimeLenient`: an hour without minutes is a time, too."""
        if self.nanos is None:
            if self._has("MILLI"):
                self.fields["NANO"] = self.fields.pop("MILLI") * 1_000_000
            self._time_of_period()
            if not self._time_of_hour():
                return
        for name in TIME_FIELDS.intersection(self.fields):
            least, most = RANGES[name]
            if not least <= self.fields[name] <= most:
                raise ParseFailure

    def _time_of_period(self) -> None:
        """Take the middle of a part of the day that stands alone."""
        if any(self._has(name) for name in ("HOUR", "MINUTE", "SECOND", "NANO")):
            return
        if self.day_period:
            begin, end = self.day_period
            length = end - begin if begin <= end else 1440 - begin + end
            middle = (begin + length // 2) % 1440
            self._resolve_time(middle // 60, middle % 60, 0, 0)
            self.day_period = None
        elif self._has("HALF"):
            self._resolve_time(self._pop("HALF") * 12 + 6, 0, 0, 0)

    def _time_of_hour(self) -> bool:
        """Resolve an hour and what follows it; return False if a part in between is missing."""
        if not self._has("HOUR"):
            return True
        hour, minute, second, nano = (self.fields.get(name) for name in ("HOUR", "MINUTE", "SECOND", "NANO"))
        if (minute is None and (second is not None or nano is not None)) or (second is None and nano is not None):
            return False
        if self.day_period and not _includes(self.day_period, (hour or 0) * 60 + (minute or 0)):
            raise ParseFailure
        self._resolve_time(hour or 0, minute or 0, second or 0, nano or 0)
        for name in ("HOUR", "MINUTE", "SECOND", "NANO"):
            self.fields.pop(name, None)
        return True

    def _cross_check(self) -> None:
        """Check the fields that are left against date and time."""
        known = {} if self.days is None else dict(date_fields(self.days))
        if self.nanos is not None:
            known |= {name: time_value(name, self.nanos) for name in TIME_FIELDS}
        for name, value in list(self.fields.items()):
            if name in known:
                if known[name] != value:
                    raise ParseFailure
                del self.fields[name]


def _includes(period: tuple[int, int], minute: int) -> bool:
    begin, end = period
    if begin == end:
        return begin == minute or (begin == 0 and minute == 1440)
    return begin <= minute < end if begin < end else minute >= begin or minute < end
