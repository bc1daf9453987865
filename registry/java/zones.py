"""Time zones: Java's names of them, and their offsets by the rules of java.time and of java.util.

A local time in a gap, when clocks go forward, is read with the offset before the gap. So it is as much later as the gap
is long. A local time that comes twice has the earlier offset of the two. Both are what Python's `fold=0` means.

`java.util.TimeZone` differs in two ways. A local time that comes twice has the later offset of the two, which is
standard time. And before 1900 every zone has the standard offset that it has now (`sun.util.calendar.ZoneInfo`).
"""

from __future__ import annotations

import datetime as dt
import functools
import re
import zoneinfo

from kvformat.registry.contract.errors import did_you_mean

Zone = int | zoneinfo.ZoneInfo
"""An offset in seconds, or a zone with rules."""
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d\d):([0-5]\d)(?::([0-5]\d))?", re.ASCII)
MOST_OFFSET = 64_800
"""Seconds of the largest offset, 18 hours, as in Java."""
_EPOCH = dt.datetime(1970, 1, 1)
_CYCLE = 146_097 * 86_400
"""Seconds of 400 years, after which the calendar and the rules of zones repeat."""
_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""Seconds of the years 1 to 9999, which Python supports."""
_FIRST_OF_UTIL = -2_208_988_800
"""Seconds of 1900-01-01 in UTC, where the transitions of `java.util.TimeZone` begin."""
_RECENT_MONTHS = tuple(dt.datetime(year, month, 1) for year in range(2026, 2038) for month in range(1, 13))
_OFFSET_ID = re.compile(r"([+-])(\d\d?)(?::?([0-5]\d)(?::?([0-5]\d))?)?", re.ASCII)
_OFFSET_ID_FORMS = re.compile(r".\d|.\d\d|.\d{4}|.\d\d:\d\d|.\d{6}|.\d\d:\d\d:\d\d", re.ASCII)
_UTIL_OFFSET = re.compile(r"GMT([+-])(?:(\d\d?)|(\d{1,2})(\d\d)|(\d{0,2}):(\d\d))", re.ASCII)
_NOT_IN_JAVA = frozenset(("EST", "HST", "MST", "ROC", "Factory", "GMT+0", "GMT-0", "localtime"))
"""Names of the time zone database that `ZoneId.of` does not know."""
_SHORT_IDS: dict[str, int | str] = {
    "EST": -18_000, "HST": -36_000, "MST": -25_200, "ACT": "Australia/Darwin", "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo", "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
"""Names that only `java.util.TimeZone` knows (`ZoneId.SHORT_IDS`)."""


def zone_named(name: str) -> Zone:
    """Return the zone with this name. Raises `ValueError` if there is none."""
    zone = find_zone(name)
    if zone is None:
        hint = did_you_mean(name, _regions())
        raise ValueError(f"there is no such time zone.{hint} Expected a name such as Europe/Berlin, UTC or +02:00")
    return zone


@functools.lru_cache(maxsize=1024)
def find_zone(name: str) -> Zone | None:
    """Return the zone with this name: that of a region, an offset, or UTC, GMT or UT, maybe with an offset."""
    if name in ("Z", "UTC", "GMT", "UT"):
        return 0
    match = _OFFSET.fullmatch(name)
    if match:
        hours, minutes, seconds = (int(match[part] or 0) for part in (2, 3, 4))
        size = (hours * 60 + minutes) * 60 + seconds
        return None if size > MOST_OFFSET else -size if match[1] == "-" else size
    return zoneinfo.ZoneInfo(name) if name in _regions() else None


@functools.lru_cache(maxsize=1024)
def zone_of_id(name: str) -> Zone:
    """Return the zone that `java.time.ZoneId.of` finds. Raises `ValueError` if there is none."""
    prefix = next((prefix for prefix in ("UTC", "GMT", "UT") if name.startswith(prefix)), "")
    rest = name.removeprefix(prefix)
    if name == "Z" or (prefix and not rest):
        return 0
    if rest[:1] in ("+", "-"):
        return _zone_offset(rest)
    if name in _regions() and name not in _NOT_IN_JAVA:
        return zoneinfo.ZoneInfo(name)
    raise ValueError(f"'{name:.60}' is not a time zone")


def _zone_offset(text: str) -> int:
    """Return the seconds of an offset as `ZoneOffset.of` reads it."""
    match = _OFFSET_ID.fullmatch(text)
    if not match or not _OFFSET_ID_FORMS.fullmatch(text):
        raise ValueError(f"'{text:.60}' is not an offset")
    hours, minutes, seconds = (int(match[part] or 0) for part in (2, 3, 4))
    size = (hours * 60 + minutes) * 60 + seconds
    if size > MOST_OFFSET:
        raise ValueError(f"'{text:.60}' is more than 18 hours")
    return -size if match[1] == "-" else size


@functools.lru_cache(maxsize=1024)
def zone_of_util_id(name: str) -> Zone:
    """Return the zone that `java.util.TimeZone.getTimeZone` finds: GMT for a name that it does not know.

    Raises `ValueError` for the old names `SystemV/...`, whose rules are only in Java's own data.
    """
    if name.startswith("SystemV/"):
        raise ValueError(f"'{name:.60}' is a zone whose rules are not known here")
    short = _SHORT_IDS.get(name)
    if isinstance(short, int):
        return short
    name = name if short is None else short
    if name in _regions() and name not in _NOT_IN_JAVA:
        return zoneinfo.ZoneInfo(name)
    match = _UTIL_OFFSET.fullmatch(name)
    if not match:
        return 0
    hours = int(match[2] or match[3] or match[5] or 0)
    minutes = int(match[4] or match[6] or 0)
    if hours > 23 or minutes > 59:
        return 0
    size = (hours * 60 + minutes) * 60
    return -size if match[1] == "-" else size


@functools.cache
def _regions() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def offset_of_local(zone: Zone, micros: int) -> int:
    """Return the offset in seconds of a local time, given in microseconds."""
    if isinstance(zone, int):
        return zone
    return _seconds(_datetime(micros).replace(tzinfo=zone).utcoffset())


def offset_of_moment(zone: Zone, micros: int) -> int:
    """Return the offset in seconds of a moment, given in microseconds since 1970 in UTC."""
    if isinstance(zone, int):
        return zone
    return _seconds(zone.fromutc(_datetime(micros).replace(tzinfo=zone)).utcoffset())


def util_offset_of_moment(zone: Zone, micros: int) -> int:
    """Return the offset in seconds of a moment, by the rules of java.util."""
    if isinstance(zone, int):
        return zone
    return raw_offset(zone) if micros < _FIRST_OF_UTIL * 1_000_000 else offset_of_moment(zone, micros)


def util_offset_of_local(zone: Zone, micros: int) -> int:
    """Return the offset in seconds of a local time, by the rules of java.util.

    In a gap that is the offset before it, and of a time that comes twice the later one: the smaller of two in both.
    """
    if isinstance(zone, int):
        return zone
    first = _FIRST_OF_UTIL * 1_000_000
    if micros - offset_of_moment(zone, first) * 1_000_000 < first:
        return raw_offset(zone)
    local = _datetime(micros).replace(tzinfo=zone)
    return min(_seconds(local.utcoffset()), _seconds(local.replace(fold=1).utcoffset()))


def standard_offset_of_local(zone: Zone, micros: int) -> int:
    """Return the standard offset in seconds at a local time since 1900, without daylight time."""
    if isinstance(zone, int):
        return zone
    local = _datetime(micros).replace(tzinfo=zone)
    # of a gap and of a time that comes twice the smaller offset counts
    return min(_seconds(time.utcoffset()) - _seconds(time.dst()) for time in (local, local.replace(fold=1)))


def is_daylight_time(zone: Zone, micros: int) -> bool:
    """Return whether a moment is in daylight time, whose offset is not the standard one of its time."""
    return not isinstance(zone, int) and bool(zone.fromutc(_datetime(micros).replace(tzinfo=zone)).dst())


@functools.lru_cache(maxsize=1024)
def raw_offset(zone: Zone) -> int:
    """Return the standard offset of a zone today in seconds: the smallest of the offsets in the years to come."""
    if isinstance(zone, int):
        return zone
    return min(_seconds(zone.fromutc(month.replace(tzinfo=zone)).utcoffset()) for month in _RECENT_MONTHS)


def _datetime(micros: int) -> dt.datetime:
    seconds = micros // 1_000_000
    if seconds > _LAST - 86_400:
        seconds -= ((seconds - _LAST) // _CYCLE + 1) * _CYCLE
    return _EPOCH + dt.timedelta(seconds=max(seconds, _FIRST + 86_400))


def _seconds(offset: dt.timedelta | None) -> int:
    assert offset is not None
    return offset.days * 86_400 + offset.seconds
