"""The options for timestamps in forms of the user's choice, and the settings that they give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvformat.codecs._timestamps.patterns import TimestampForm, parse_forms
from kvformat.registry.contract.errors import OptionError
from kvformat.registry.contract.options import Option
from kvformat.registry.java.zones import Zone, zone_named

PATTERNS, ZONE = "timestamp-format.patterns", "timestamp-format.zone"
FORM_OPTIONS = (
    Option(
        name=PATTERNS,
        doc="Ours. The forms of timestamps, separated by `;` and tried in order: `SQL`, `ISO-8601`, `epoch-seconds`, "
        "`epoch-millis`, `epoch-micros`, `epoch-nanos`, and patterns such as `dd.MM.yyyy HH:mm[:ss]`.",
    ),
    Option(
        name=ZONE,
        doc="Ours. The time zone of a TIMESTAMP_LTZ whose text has none, such as `Europe/Berlin` or `+02:00`. It needs "
        f"`{PATTERNS}`.",
    ),
)


@dataclass(frozen=True, slots=True)
class TimestampForms:
    """The forms of timestamps, and the zone of texts without one."""

    forms: tuple[TimestampForm, ...]
    zone: Zone | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any], format: str) -> TimestampForms | None:
        """Take the forms from options; None if none are set. Raises `OptionError`."""
        patterns, zone = options.get(PATTERNS), options.get(ZONE)
        if patterns is None and zone is not None:
            raise OptionError(
                f"option '{ZONE}' of format '{format}' needs '{PATTERNS}': set it too, or remove '{ZONE}'",
                format=format,
                option=ZONE,
            )
        if patterns is None:
            return None
        forms = _parsed(PATTERNS, patterns, format, parse_forms)
        return cls(forms, None if zone is None else _parsed(ZONE, zone, format, zone_named))


def _parsed(option: str, value: str, format: str, parse: Any) -> Any:
    try:
        return parse(value)
    except ValueError as error:
        raise OptionError(
            f"invalid value {value!r} for option '{option}' of format '{format}': {error}",
            format=format,
            option=option,
            reason=str(error),
        ) from None
