"""Short names of time zones, for the letter z of Java's patterns: `EST`, `CEST`, `UTC`.

Java has names of its own, which differ between its versions. Where the time zone database has an abbreviation such as
CET, Java 17 to 25 have the same one; only these are known here.
"""

from __future__ import annotations

import datetime as dt
import functools
import re

from kvformat.registry.expressions.rows import RowError
from kvformat.registry.java.zones import Zone, is_daylight_time, raw_offset, util_offset_of_moment

_OTHERWISE = (
    "Africa/Windhoek", "America/Adak", "America/Atka", "Pacific/Johnston", "US/Aleutian", "MET", "EST", "HST", "MST",
    "Factory",
)  # fmt: skip
"""Zones for which Java does not use the abbreviation of the database."""
_OFFSET = re.compile(r"[+-]\d\d:\d\d", re.ASCII)
_RECENT = (dt.datetime(2024, 1, 1), dt.datetime(2024, 7, 1))
_HOUR = 3600
_NONE, _AN_HOUR = dt.timedelta(), dt.timedelta(hours=1)
_STANDARD = {
    "CEST": "CET", "EEST": "EET", "EDT": "EST", "CDT": "CST", "MDT": "MST", "PDT": "PST",
}  # fmt: skip
OFFSETS = {
    "UTC": 0, "CET": _HOUR, "CEST": 2 * _HOUR, "EET": 2 * _HOUR, "EEST": 3 * _HOUR, "JST": 9 * _HOUR,
    "EST": -5 * _HOUR, "EDT": -4 * _HOUR, "CST": -6 * _HOUR, "CDT": -5 * _HOUR, "MST": -7 * _HOUR, "MDT": -6 * _HOUR,
    "PST": -8 * _HOUR, "PDT": -7 * _HOUR,
}  # fmt: skip
"""Names that Java reads, with their offsets in seconds since 1970, if the zone of the session does not use them."""


def short_zone_name(name: str, zone: Zone, micros: int) -> str:
    """Return the short name of a zone at a moment. Raises `RowError` if it is not known here."""
    if isinstance(zone, int):
        if name in ("UTC", "Z", "GMT"):
            return "GMT" if name == "GMT" else "UTC"
        if _OFFSET.fullmatch(name):
            return f"GMT{name}"
    else:
        names = _names(zone)
        if -_AN_HOUR in _daylight_times(zone):  # Ireland, whose daylight time is that of the winter in the database
            daylight = util_offset_of_moment(zone, micros) != raw_offset(zone)
        else:
            daylight = is_daylight_time(zone, micros)
        if name not in _OTHERWISE and len(names) > daylight:
            return names[daylight]
    raise RowError(f"the letter z: Java's name of the time zone {name} is not known here")


def own_names(zone: Zone) -> tuple[str, ...]:
    """Return the abbreviations that a zone uses itself: that of standard time, and that of daylight time.

    There are none if Java has another standard time than Python: in Ireland, whose standard time is that of the summer
    in the database, and where Python computes two hours of daylight time.
    """
    if isinstance(zone, int) or zone.key in _OTHERWISE or not _daylight_times(zone) <= {_NONE, _AN_HOUR}:
        return ()
    return _names(zone)


@functools.lru_cache(maxsize=256)
def _daylight_times(zone: dt.tzinfo) -> frozenset[dt.timedelta | None]:
    """Return how much later the clocks are because of daylight time, as Python computes it for winter and summer."""
    return frozenset(month.replace(tzinfo=zone).dst() for month in _RECENT)


def offset_named(name: str, zone: Zone) -> int | None:
    """Return the offset of a name that the zone of the session does not use; None if it is not known here."""
    zone_names = own_names(zone)
    return None if name in zone_names or _STANDARD.get(name) in zone_names else OFFSETS.get(name)


@functools.lru_cache(maxsize=256)
def _names(zone: dt.tzinfo) -> tuple[str, ...]:
    """Return the abbreviation of standard time and that of daylight time, if the zone has one."""
    by_offset = {}
    for month in _RECENT:
        local = zone.fromutc(month.replace(tzinfo=zone))
        by_offset[local.utcoffset()] = local.tzname() or ""
    names = tuple(by_offset[offset] for offset in sorted(by_offset, key=lambda offset: offset or dt.timedelta()))
    return names if all(name.isalpha() for name in names) else ()
