"""Arithmetic of DECIMAL on unscaled integers, with Java's rounding.

Rules: `DecimalDataUtils`, `BigDecimal`.
"""

from __future__ import annotations

from kvformat.registry.expressions.types import MOST_DIGITS

_MOST_COMPACT = 18
"""Digits up to which Flink holds a DECIMAL as a long."""


def half_up(number: int, divisor: int) -> int:
    """Divide and round half away from zero. `divisor` is positive."""
    quotient, rest = divmod(abs(number), divisor)
    quotient += 2 * rest >= divisor
    return -quotient if number < 0 else quotient


def truncated(number: int, divisor: int) -> int:
    """Divide and drop the rest."""
    quotient = abs(number) // abs(divisor)
    return -quotient if (number < 0) != (divisor < 0) else quotient


def rescaled(number: int, scale: int, to_scale: int) -> int:
    """Return an unscaled number with another scale, rounded half up."""
    if to_scale >= scale:
        return number * int(10 ** (to_scale - scale))
    return half_up(number, 10 ** (scale - to_scale))


def fitted(number: int, scale: int, precision: int, to_scale: int) -> int | None:
    """Return an unscaled number as one of DECIMAL(precision, to_scale); None if it has too many digits."""
    unscaled = rescaled(number, scale, to_scale)
    return unscaled if abs(unscaled) < 10**precision else None


def divided(left: int, left_scale: int, right: int, right_scale: int) -> tuple[int, int]:
    """Divide two unscaled numbers to 38 significant digits, rounded half up; return the quotient and its scale."""
    if not left:
        return 0, 0
    negative = (left < 0) != (right < 0)
    left, right = abs(left), abs(right)
    # enough digits that the quotient has at least 38
    more = max(0, MOST_DIGITS + 1 + len(str(right)) - len(str(left)))
    quotient, rest = divmod(left * 10**more, right)
    scale = left_scale - right_scale + more
    extra = len(str(quotient)) - MOST_DIGITS
    if extra > 0:
        unit = 10**extra
        rounded, below = divmod(quotient, unit)
        rounded += 2 * below >= unit
        quotient, scale = rounded, scale - extra
    elif rest:
        raise AssertionError("a quotient with a rest has 38 digits")
    return (-quotient if negative else quotient), scale


def to_double(number: int, precision: int, scale: int) -> float:
    """Return the double of an unscaled number, as `DecimalDataUtils.doubleValue`."""
    if precision <= _MOST_COMPACT:
        return float(number) / float(10**scale)
    return number / int(10**scale)


def text(number: int, scale: int) -> str:
    """Return `BigDecimal.toPlainString` of an unscaled number."""
    if not scale:
        return str(number)
    figures = str(abs(number)).rjust(scale + 1, "0")
    return f"{'-' if number < 0 else ''}{figures[:-scale]}.{figures[-scale:]}"
