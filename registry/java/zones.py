"""Time zones: Java's names of them, and their offsets by the rules of java.time.

A local time in a gap, when clocks go forward, is read with the offset before the gap. So it is as much later as the gap
is long. A local time that comes twice has the earlier offset of the two. Both are what Python's `fold=0` means.
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


def zone_named(name: str) -> Zone:
    """Return the zone with this name. Raises `ValueError` if there is none."""
    found = find_zone(name)
    if found is None:
        hint = did_you_mean(name, _regions())
        raise ValueError(f"there is no such time zone.{hint} Expected a name such as Europe/Berlin, UTC or +02:00")
    return found


@functools.lru_cache(maxsize=1024)
def find_zone(name: str) -> Zone | None:
    """Return the zone with this name: that of a region, an offset, or UTC, GMT or UT, maybe with an offset."""
    if name in ("Z", "UTC", "GMT", "UT"):
        return 0
    found = _OFFSET.fullmatch(name)
    if found:
        hours, minutes, seconds = (int(found[part] or 0) for part in (2, 3, 4))
        size = (hours * 60 + minutes) * 60 + seconds
        return None if size > MOST_OFFSET else -size if found[1] == "-" else size
    return zoneinfo.ZoneInfo(name) if name in _regions() else None


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


def _datetime(micros: int) -> dt.datetime:
    seconds = micros // 1_000_000
    if seconds > _LAST - 86_400:
        seconds -= ((seconds - _LAST) // _CYCLE + 1) * _CYCLE
    return _EPOCH + dt.timedelta(seconds=max(seconds, _FIRST + 86_400))


def _seconds(offset: dt.timedelta | None) -> int:
    assert offset is not None
    return offset.days * 86_400 + offset.seconds
