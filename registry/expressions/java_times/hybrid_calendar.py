"""The calendar of `java.util.GregorianCalendar`: Julian before 1582-10-15, Gregorian since then.

Weeks begin on Sunday, and the first week of a year is that of January 1, as in the locale `en`. Days are counted since
1970-01-01. A year is astronomical: 0 is 1 BC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvformat.registry.expressions.local_times import date_of, days_of

CUTOVER = -141_427
"""1582-10-15, the first Gregorian day."""
CUTOVER_YEAR = 1582
_JULIAN_DAYS_BEFORE_1970 = 719_164
"""Days from 0001-01-01 of the Julian calendar."""
SUNDAY = 1
_MONTH_DAYS = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
_CYCLE_DAYS = 1461


@dataclass(frozen=True, slots=True)
class HybridDate:
    """A day of the calendar; `month` and `weekday` count from 1, `weekday` from Sunday."""

    days: int
    year: int
    month: int
    day: int

    @property
    def era(self) -> int:
        """Return 1 for AD and 0 for BC."""
        return int(self.year > 0)

    @property
    def year_of_era(self) -> int:
        """Return the year, counted backward before 1 AD."""
        return self.year if self.year > 0 else 1 - self.year

    @property
    def weekday(self) -> int:
        """Return 1 for Sunday to 7 for Saturday."""
        return (self.days + 4) % 7 + 1

    @property
    def day_of_year(self) -> int:
        """Return the day of the year, without the days that 1582 does not have."""
        return self.days - first_day_of_year(self.year) + 1

    @property
    def week_of_year(self) -> int:
        """Return the week, which is 1 for the last days of a year in the week of January 1."""
        next_year = first_day_of_year(self.year + 1)
        if self.days >= sunday_from(next_year) and sunday_from(next_year) < next_year:
            return 1
        return _week(first_day_of_year(self.year), self.days)

    @property
    def week_year(self) -> int:
        """Return the year to which the week belongs."""
        return self.year + (self.week_of_year == 1 and self.month == 12)

    @property
    def week_of_month(self) -> int:
        """Return the week of the month."""
        return _week(self._first_of_month(), self.days)

    @property
    def weekday_in_month(self) -> int:
        """Return 2 for the second Monday of a month."""
        return (self.days - self._first_of_month()) // 7 + 1

    def _first_of_month(self) -> int:
        if self.year == CUTOVER_YEAR and self.month == 10:
            return julian_days(CUTOVER_YEAR, 10, 1)
        return self.days - self.day + 1


def hybrid_date(days: int) -> HybridDate:
    """Return the date of a day."""
    year, month, day = date_of(days) if days >= CUTOVER else _julian_date(days)
    return HybridDate(days, year, month, day)


def julian_days(year: int, month: int, day: int) -> int:
    """Return the day of a date of the Julian calendar; `day` may be out of range."""
    before = year - 1
    leap = month > 2 and year % 4 == 0
    return before * 365 + before // 4 + _MONTH_DAYS[month - 1] + leap + day - 1 - _JULIAN_DAYS_BEFORE_1970


def _julian_date(days: int) -> tuple[int, int, int]:
    cycles, of_cycle = divmod(days + _JULIAN_DAYS_BEFORE_1970, _CYCLE_DAYS)
    years = min(of_cycle // 365, 3)
    year, of_year = cycles * 4 + years + 1, of_cycle - years * 365
    leap = year % 4 == 0
    month = next(m for m in range(12, 0, -1) if of_year >= _MONTH_DAYS[m - 1] + (leap and m > 2))
    return year, month, of_year - _MONTH_DAYS[month - 1] - (leap and month > 2) + 1


def first_day_of_year(year: int) -> int:
    """Return January 1 of a year."""
    return days_of(year, 1, 1) if year > CUTOVER_YEAR else julian_days(year, 1, 1)


def sunday_from(day: int) -> int:
    """Return the Sunday that begins the week of a day."""
    return day - (day + 4) % 7


def _week(first: int, day: int) -> int:
    return (day - sunday_from(first)) // 7 + 1


# --- from fields to days -------------------------------------------------------------------------------------

_WEEKLY = ("WEEK_OF_MONTH", "WEEKDAY_IN_MONTH", "WEEK_OF_YEAR")


class InvalidEra(ValueError):
    """An era that is neither AD nor BC."""


def days_of_fields(fields: Mapping[str, int], extra: int = 0) -> int:
    """Return the day that some fields mean, plus `extra` days, by the rules of the lenient GregorianCalendar.

    fields: the values in the order in which they were set, the last one last; `MONTH` counts from 0. A missing year is
    1970. Rules: `Calendar.selectFields`, `GregorianCalendar.computeTime`.
    """
    year = fields.get("YEAR", 1970)
    era = fields.get("ERA", 1)
    if era not in (0, 1):
        raise InvalidEra
    year = year if era else 1 - year
    chosen = _chosen(fields)
    gregorian = extra + _fixed_days(fields, chosen, year, julian=False)
    julian = extra + _fixed_days(fields, chosen, year, julian=True)
    by_year = year == CUTOVER_YEAR and ("DAY_OF_YEAR" in chosen or "WEEK_OF_YEAR" in chosen)
    return gregorian if year >= CUTOVER_YEAR and gregorian >= CUTOVER and not by_year else julian


def _chosen(fields: Mapping[str, int]) -> tuple[str, ...]:
    """Return the fields that decide about the day: those of the group that was set last."""
    stamp = {name: number for number, name in enumerate(fields, 1)}
    weekday, month_day = stamp.get("WEEKDAY", 0), stamp.get("DAY_OF_MONTH", 0)
    week_of_month, in_month, week_of_year = (_aggregate(stamp.get(name, 0), weekday) for name in _WEEKLY)
    year_day = stamp.get("DAY_OF_YEAR", 0)
    best = max(month_day, week_of_month, in_month, year_day, week_of_year)
    if not best:
        week_of_month, week_of_year = stamp.get("WEEK_OF_MONTH", 0), stamp.get("WEEK_OF_YEAR", 0)
        in_month = max(stamp.get("WEEKDAY_IN_MONTH", 0), weekday)
        best = max(week_of_month, in_month, week_of_year)
        if not best:
            best = month_day = stamp.get("MONTH", 0)
    set_week_of_year = stamp.get("WEEK_OF_YEAR", 0)
    if best == month_day:
        return ("MONTH", "DAY_OF_MONTH")
    of_weekday = ("WEEKDAY",) if weekday else ()
    by_month = best == week_of_month and stamp.get("WEEK_OF_MONTH", 0) >= set_week_of_year
    if by_month or (best == in_month and stamp.get("WEEKDAY_IN_MONTH", 0) >= set_week_of_year):
        return ("MONTH", *of_weekday, *_weekly_field(stamp, week_of_month, in_month, best))
    if best == year_day:
        return ("DAY_OF_YEAR",)
    return ("WEEK_OF_YEAR", *of_weekday)


def _weekly_field(stamp: Mapping[str, int], week_of_month: int, in_month: int, best: int) -> tuple[str, ...]:
    if week_of_month == in_month:
        later = stamp.get("WEEK_OF_MONTH", 0) >= stamp.get("WEEKDAY_IN_MONTH", 0)
        return ("WEEK_OF_MONTH",) if later else ("WEEKDAY_IN_MONTH",)
    if best == week_of_month:
        return ("WEEK_OF_MONTH",)
    return ("WEEKDAY_IN_MONTH",) if "WEEKDAY_IN_MONTH" in stamp else ()


def _aggregate(left: int, right: int) -> int:
    return max(left, right) if left and right else 0


def _fixed_days(fields: Mapping[str, int], chosen: tuple[str, ...], year: int, *, julian: bool) -> int:
    """Return the day in one of the two calendars (`GregorianCalendar.getFixedDate`)."""
    if "MONTH" not in chosen:
        first = _first_of_month(year, 0, julian=julian)
        if "DAY_OF_YEAR" in chosen:
            return first + fields["DAY_OF_YEAR"] - 1
        begin = sunday_from(first)
        if "WEEKDAY" in chosen and fields["WEEKDAY"] != SUNDAY:
            begin = weekday_until(begin + 6, fields["WEEKDAY"])
        return begin + 7 * (fields.get("WEEK_OF_YEAR", 0) - 1)
    years, month = divmod(fields.get("MONTH", 0), 12)
    year += years
    first = _first_of_month(year, month, julian=julian)
    if "DAY_OF_MONTH" in chosen:
        return first + fields.get("DAY_OF_MONTH", 1) - 1
    if "WEEK_OF_MONTH" in chosen:
        begin = sunday_from(first)
        if "WEEKDAY" in chosen:
            begin = weekday_until(begin + 6, fields["WEEKDAY"])
        return begin + 7 * (fields.get("WEEK_OF_MONTH", 0) - 1)
    weekday = fields["WEEKDAY"] if "WEEKDAY" in chosen else SUNDAY
    number = fields["WEEKDAY_IN_MONTH"] if "WEEKDAY_IN_MONTH" in chosen else 1
    if number >= 0:
        return weekday_until(first + 7 * number - 1, weekday)
    last = _month_length(year, month) + 7 * (number + 1)
    return weekday_until(first + last - 1, weekday)


def _first_of_month(year: int, month: int, *, julian: bool) -> int:
    return julian_days(year, month + 1, 1) if julian else days_of(year, month + 1, 1)


def _month_length(year: int, month: int) -> int:
    """Return the days of a month by the calendar that is in force in the year (`isLeapYear`)."""
    if month == 1:
        leap = year % 4 == 0 and (year <= CUTOVER_YEAR or year % 100 != 0 or year % 400 == 0)
        return 29 if leap else 28
    return 30 if month in (3, 5, 8, 10) else 31


def weekday_until(day: int, weekday: int) -> int:
    """Return the last day up to `day` that has a weekday, which may be out of range as in Java."""
    return day - (day + 4 - (weekday - 1)) % 7
