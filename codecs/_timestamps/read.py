"""Timestamps that are read in forms of the user's choice, with the kernel's `TimeForms`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kvformat.codecs._kernel.time_form_codes import UNKNOWN
from kvformat.codecs._kernel.time_forms import TimeForms
from kvformat.codecs._kernel.tree import Fraction, Integer, Node
from kvformat.codecs._timestamps.options import ZONE, TimestampForms
from kvformat.codecs._timestamps.patterns import programs
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.java.parse import parse_decimal
from kvformat.registry.java.zones import find_zone, offset_of_local

_MOST_MAGNITUDE = 40
"""Digits before the point, or zeros after it, of a number: with more, it is outside of every unit's range, or 0."""
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""The texts of numbers. `Decimal` reads others too, such as 1e1_0."""


class FormReader:
    """Reads values of a TIMESTAMP or TIMESTAMP_LTZ in some forms: `convert` of the kernel's columns.

    `numbers` reads numbers if none of the forms is a number.
    """

    def __init__(self, t: FlinkType, forms: TimestampForms, numbers: Callable[[Node], Any] | None = None) -> None:
        self._zone, self._numbers = forms.zone, numbers
        self._programs = programs(forms.forms)
        self._names = ", ".join(form.name for form in forms.forms)
        zone = forms.zone
        self.kernel = TimeForms(
            self._programs,
            zoned=t.root == "TIMESTAMP_LTZ",
            offset=zone if zone is None or isinstance(zone, int) else UNKNOWN,
            zone=self._offset,
            number=self._micros,
        )

    def __call__(self, value: Node) -> int:
        """Return microseconds. Raises `ValueError` for a value in another form."""
        parsed = None
        if type(value) is str:
            parsed = self.kernel.parse(value.encode("utf-8", "surrogatepass"))
        elif type(value) is Integer or type(value) is Fraction:
            if self._numbers is not None and not self.kernel.has_epochs:
                return int(self._numbers(value))
            epochs = (self._micros(value, form) for form, program in enumerate(self._programs) if program.is_epoch)
            parsed = next((micros for micros in epochs if micros is not None), None)
        if parsed is None:
            raise ValueError
        return parsed

    def hint(self, value: Node) -> str:
        """Return the end of the error for a value that can't be read: the forms that were tried."""
        text = f"; its form must be one of: {self._names}"
        if type(value) is str:
            self.kernel.parse(value.encode("utf-8", "surrogatepass"))
            text += f". It has no time zone: set '{ZONE}'" if self.kernel.missed_zone else ""
        return text

    def _offset(self, name: str, local: int) -> int | None:
        """Return the offset in seconds of local microseconds in the named zone, "" for the option's zone."""
        zone = find_zone(name) if name else self._zone
        return None if zone is None else offset_of_local(zone, local)

    def _micros(self, text: str, form: int) -> int | None:
        """Return the microseconds of a number of any length, rounded down, or None if the form does not read it."""
        power, low, high = self._programs[form].steps[0]
        if not _NUMBER.fullmatch(text):
            return None
        try:
            number = parse_decimal(text)
        except (ArithmeticError, ValueError):
            return None
        magnitude = 0 if number.is_zero() else number.adjusted() + 1
        if magnitude > _MOST_MAGNITUDE or not low < max(magnitude, 0) <= high:
            return None
        if magnitude < -_MOST_MAGNITUDE:
            return -1 if number < 0 else 0
        sign, mantissa, exponent = number.as_tuple()
        size = int("".join(map(str, mantissa)))
        shift = int(exponent) + power
        size = -size if sign else size
        micros = size * 10**shift if shift >= 0 else size // 10**-shift
        return micros if -(2**63) < micros < 2**63 else None
