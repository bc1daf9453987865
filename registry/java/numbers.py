"""Format numbers as Java does: `Double.toString`, `Float.toString`, `BigDecimal.toString`.

A floating-point number has the fewest digits that identify it, as in Java 19 and later (JDK-4511638). Numbers from
0.001 to below 10 million have no exponent (`100.0`), others have one (`1.0E7`). Each rule has two functions, for one
value and for an array. `double_text_java17` formats as Java 17 and before, which sometimes write a digit too many
(`1.9999999999999998E23` for 2e23).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_SMALLEST_PLAIN, _SMALLEST_SCIENTIFIC = 1e-3, 1e7
_PLAIN_SCALE = 6  # Arrow, like Java, writes an exponent for decimals below 1E-6 only
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


# --- one value -----------------------------------------------------------------------------------------


def double_text(value: float) -> str:
    """Format as `Double.toString`."""
    if _stands_plain(value):
        return repr(value)
    return _special_text(value) or _scientific(repr(value), value)


def float_text(value: float) -> str:
    """Format as `Float.toString`. The value is a 32-bit number in a Python float."""
    special = _special_text(value)
    if special:
        return special
    digits: str = pa.array([value], pa.float32()).cast(pa.string())[0].as_py()
    if not _stands_plain(value):
        return _scientific(digits, value)
    return digits if "." in digits else digits + ".0"


def decimal_text(value: Decimal) -> str:
    """Format as `BigDecimal.toString`: as Python does, but zero has no sign."""
    return str(value.copy_abs() if value.is_zero() else value)


def plain_decimal_text(value: Decimal) -> str:
    """Format as `BigDecimal.toPlainString`: all digits of the scale, without an exponent."""
    return format(value.copy_abs() if value.is_zero() else value, "f")


def stripped_decimal(value: Decimal) -> Decimal:
    """Return the result of `BigDecimal.stripTrailingZeros`: 1E+2 for 100, 0 for every zero."""
    return Decimal(0) if value.is_zero() else _EXACT.normalize(value)


def _stands_plain(value: float) -> bool:
    return value == 0 or _SMALLEST_PLAIN <= abs(value) < _SMALLEST_SCIENTIFIC


def _special_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return ""


def _scientific(shortest: str, value: float) -> str:
    """Reformat the shortest digits, in any notation, as `d.dddE±x`."""
    mantissa, _, power = shortest.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = len(digits) - len(fraction) - 1 + int(power or 0)
    digits = digits.rstrip("0")
    if len(digits) == 1:
        # Java writes the nearest number of two digits (4.9E-324, not 5.0E-324)
        digits, _, power = f"{abs(value):.1e}".replace(".", "").partition("e")
        exponent = int(power)
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:]}E{exponent}"


# --- one value, in Java 17 -----------------------------------------------------------------------------

_LONG_BITS, _INT_BITS = 64, 32
_BITS_OF_5_POW = (0, *((5**power).bit_length() for power in range(1, 27)))


def double_text_java17(value: float) -> str:
    """Format as `Double.toString` of Java 17."""
    if _stands_plain(value):
        return repr(value)  # never a digit too many in this range
    return _special_text(value) or _text_17(struct.unpack("<Q", struct.pack("<d", value))[0], 52, 1023)


def float_text_java17(value: float) -> str:
    """Format as `Float.toString` of Java 17. The value is a 32-bit number in a Python float."""
    special = "0.0" if value == 0 else _special_text(value)
    if special:
        return "-0.0" if value == 0 and math.copysign(1, value) < 0 else special
    return _text_17(struct.unpack("<I", struct.pack("<f", value))[0], 23, 127)


def _text_17(bits: int, size: int, bias: int) -> str:
    """Format the number with these bits: a sign, an exponent, and `size` bits of a fraction.

    It must be finite and not zero.
    """
    exponent, fraction = divmod(bits, 1 << size)
    sign, exponent = divmod(exponent, 2 * (bias + 1))
    significant = size + 1
    if exponent:
        fraction += 1 << size
    else:
        significant = fraction.bit_length()
        fraction <<= size + 1 - significant
        exponent = significant - size
    digits, point = _digits_17(fraction << 52 - size, exponent - bias, significant)
    return "-" * sign + _notation(digits, point)


def _notation(digits: str, point: int) -> str:
    """Format the number 0.`digits` * 10**`point`."""
    if 0 < point <= 7:
        return f"{digits[:point]:0<{point}}.{digits[point:] or '0'}"
    if -3 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    return f"{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _digits_17(fraction: int, exponent: int, significant: int) -> tuple[str, int]:
    """Return the digits of `fraction` * 2**(`exponent` - 52) and their decimal point, as `FloatingDecimal.dtoa` does.

    The fraction has 53 bits; the first `significant` bits count. Digits are generated until the remainder (`rest`) is
    less than half the distance to the next number (`margin`), both in units of the last digit (`unit`).
    """
    trailing = (fraction & -fraction).bit_length() - 1
    length = 53 - trailing
    fraction_bits = max(0, length - exponent - 1)
    if fraction_bits == 0 and exponent <= 62:
        return _integer_digits(fraction << exponent >> 52, exponent - significant - 1)
    # an estimate of the decimal exponent: right, or one too high
    estimate = (fraction / 2**52 - 1 - 0.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981
    power = math.floor(estimate)
    fives, unit_fives = max(0, -power), max(0, power)
    twos, unit_twos = fives + exponent + fraction_bits, unit_fives + fraction_bits
    margin_twos = twos - significant - (length == 1)  # below a power of two the distance is half
    twos -= length - 1
    common = min(twos, unit_twos, margin_twos)
    twos, unit_twos, margin_twos = twos - common, unit_twos - common, margin_twos - common
    largest = max(length + twos + _bits_of_5_pow(fives), unit_twos + 1 + _bits_of_5_pow(unit_fives + 1))
    rest = (fraction >> trailing) * 5**fives << twos
    width = next((width for width in (_INT_BITS, _LONG_BITS) if largest < width), 0)
    return _generated(rest, 5**unit_fives << unit_twos, 5**fives << margin_twos, width, power)


def _bits_of_5_pow(power: int) -> int:
    return _BITS_OF_5_POW[power] if power < len(_BITS_OF_5_POW) else power * 3


def _integer_digits(value: int, spare_bits: int) -> tuple[str, int]:
    """Return the digits of an integer that its significant bits determine, and their decimal point."""
    dropped = len(str(1 << spare_bits)) - 1 if spare_bits > 1 else 0
    kept, residue = divmod(value, 10**dropped)
    digits = str(kept + (dropped > 0 and 2 * residue >= 10**dropped))
    return digits.rstrip("0"), len(digits) + dropped


def _generated(rest: int, unit: int, margin: int, width: int, power: int) -> tuple[str, int]:
    """Return the digits of rest / unit and their decimal point.

    Java's integers of `width` bits overflow. With width 0 they have any size.
    """
    sign, mask = 1 << width >> 1, (1 << width) - 1

    def wrapped(value: int) -> int:
        return ((value + sign) & mask) - sign if width else value

    ten = wrapped(10 * unit)
    digits: list[int] = []
    low = high = first = True
    while first or not (low or high):
        digit, rest = divmod(rest, unit)
        rest, margin = wrapped(10 * rest), wrapped(10 * margin)
        low = high = True
        if margin > 0 or first:  # otherwise it has overflowed
            above = wrapped(rest + margin)
            low, high = rest < margin, above > ten or (above == ten and not width)
        if first and digit == 0 and not high:
            power -= 1
        else:
            digits.append(digit)
        if first and not -3 <= power < 8:
            low = high = False  # a digit after the point is required
        first = False
    text = "".join(map(str, digits))
    odd = digits[-1] & 1
    if high and (not low or wrapped(2 * rest - ten) + odd > 0):
        text = str(int(text) + 1).rjust(len(text), "0")
    carried = len(text) > len(digits)
    return text[: len(digits)], power + 1 + carried


# --- an array ------------------------------------------------------------------------------------------


def double_texts(values: pa.Array) -> pa.StringArray:
    """Format a float64 array as `Double.toString`, a float32 array as `Float.toString`. Null stays null."""
    numbers = (values.fill_null(0) if values.null_count else values).to_numpy(zero_copy_only=False)
    texts = values.cast(pa.string())
    magnitude = np.abs(numbers)
    plain = ((magnitude >= _SMALLEST_PLAIN) & (magnitude < _SMALLEST_SCIENTIFIC)) | (magnitude == 0)
    with np.errstate(invalid="ignore"):  # NaN
        whole = plain & (np.trunc(numbers) == numbers)
    # Arrow's digits are the shortest, too, but it writes 100 for 100.0
    texts = replace_where(texts, whole, lambda some: pc.binary_join_element_wise(some, ".0", ""))
    return replace_where(texts, ~plain, lambda some: _scientific_texts(some, numbers[~plain]))


def plain_decimal_texts(values: pa.Array) -> pa.StringArray:
    """Format a decimal array as `BigDecimal.toPlainString`, with all digits of its scale. Null stays null."""
    texts = values.cast(pa.string())
    if values.type.scale <= _PLAIN_SCALE:
        return texts
    tiny = _flags(pc.match_substring(texts, "E"))
    return replace_where(texts, tiny, lambda _: _format_each(values, tiny, plain_decimal_text))


def stripped_decimal_texts(values: pa.Array) -> pa.StringArray:
    """Format a decimal array as `BigDecimal.stripTrailingZeros().toString()`: `1.5`, `1E+2`. Null stays null."""
    texts = values.cast(pa.string())
    tiny = _flags(pc.match_substring(texts, "E")) if values.type.scale > _PLAIN_SCALE else None
    if values.type.scale:
        texts = pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")
    round_ = _flags(pc.and_(pc.ends_with(texts, "0"), pc.not_equal(texts, "0")))
    if tiny is None:
        return replace_where(texts, round_, _with_exponent)
    texts = replace_where(texts, round_ & ~tiny, _with_exponent)
    return replace_where(
        texts, tiny, lambda _: _format_each(values, tiny, lambda value: decimal_text(stripped_decimal(value)))
    )


def replace_where(
    texts: pa.StringArray, where: npt.NDArray[np.bool_], change: Callable[[pa.StringArray], pa.StringArray]
) -> pa.StringArray:
    """Replace the texts in the mask by the result of `change`. It is not called if the mask is empty."""
    if not where.any():
        return texts
    mask = pa.array(where)
    return pc.replace_with_mask(texts, mask, change(texts.filter(mask)))


def _scientific_texts(texts: pa.StringArray, numbers: npt.NDArray[np.floating]) -> pa.StringArray:
    """Convert Arrow's texts to Java's notation, for numbers that Java writes with an exponent or as a word."""
    magnitude = np.abs(numbers)
    exponent = _flags(pc.match_substring(texts, "e"))
    usual = exponent & (magnitude >= np.finfo(numbers.dtype).tiny)
    texts = replace_where(texts, usual, _java_exponent)
    large = ~exponent & (magnitude >= _SMALLEST_SCIENTIFIC) & np.isfinite(magnitude)
    texts = replace_where(texts, large, _shifted_point)
    rest = ~(usual | large)
    text = float_text if numbers.dtype == np.float32 else double_text
    return replace_where(
        texts, rest, lambda _: pa.array([text(value) for value in numbers[rest].tolist()], pa.string())
    )


def _java_exponent(texts: pa.StringArray) -> pa.StringArray:
    """Write `2.5E23` for `2.5e+23`, and `2.0E23` for `2e+23`."""
    return pc.replace_substring_regex(pc.replace_substring_regex(texts, r"e\+?", "E"), r"^(-?\d)E", r"\1.0E")


def _shifted_point(texts: pa.StringArray) -> pa.StringArray:
    """Write `1.23456789E7` for `12345678.9`, and `1.0E7` for `10000000`."""
    whole = pc.replace_substring_regex(texts, r"^-|\..*", "")
    places = pc.subtract(pc.binary_length(whole), 1)
    digits = pc.replace_substring_regex(texts, r"^(-?\d)(\d+)\.?", r"\1.\2")
    mantissa = pc.replace_substring_regex(pc.ascii_rtrim(digits, "0"), r"\.$", ".0")
    return pc.binary_join_element_wise(mantissa, places.cast(pa.string()), "E")


def _flags(values: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = values.fill_null(False).to_numpy(zero_copy_only=False)
    return flags


def _format_each(values: pa.Array, where: npt.NDArray[np.bool_], text: Callable[[Decimal], str]) -> pa.StringArray:
    return pa.array([text(value) for value in values.filter(pa.array(where)).to_pylist()], pa.string())


def _with_exponent(whole: pa.StringArray) -> pa.StringArray:
    """Write `1.2E+3` for 1200. The texts are integers that end with zeros and are not zero."""
    digits = pc.ascii_rtrim(whole, "0")
    places = pc.subtract(pc.binary_length(pc.ascii_ltrim(whole, "-")), 1)
    mantissa = pc.replace_substring_regex(digits, r"^(-?\d)(\d+)$", r"\1.\2")
    return pc.binary_join_element_wise(mantissa, places.cast(pa.string()), "E+")
