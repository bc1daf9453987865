"""The forms in which a column writes its values as texts, so that its type can give back the exact texts.

    2024-02-29 12:00:00        no digits after the point; or as many as the value needs; or 0, 3 or 6 of them
    2024-02-29 12:00:00.500    three digits; or 0, 3 or 6 of them
    both                       0, 3 or 6 digits, the fewest that hold the value

The forms of a text are a set of bits, and those of a column are the bits that all its texts have in common. While each
group has a bit, the values and the texts are one to one: the column can become STRING without another text, and two
keys are never one. A column whose type was inferred from texts is STRING if no form writes all of them. A declared type
is kept: then its values have their usual texts.
"""

from __future__ import annotations

import re
from typing import Final

from kvformat.codecs._kernel.tree import Fraction, Integer
from kvformat.codecs.discovery.value_summary import DATE, ISO, ISO_ZONED, SQL, SQL_ZONED, TIME, form_of
from kvformat.registry.contract.types import INTEGER_BITS, FlinkType

_MOST_FIXED = 38  # digits after the point, as many as a DECIMAL has
FIXED: Final = (1 << _MOST_FIXED + 1) - 1
"""Always the same number of digits after the point: bit n for n digits."""
TRIMMED: Final = 1 << 39
"""As many digits after the point as the value needs."""
GROUPED: Final = 1 << 40
"""0, 3 or 6 digits after the point, the fewest that hold the value."""
AT_LEAST_ONE: Final = 1 << 41
"""As many digits after the point as the value needs, and at least one: `1.0`, as Java writes it."""
DAY, SPACE, LETTER = 1 << 42, 1 << 43, 1 << 44
"""A date alone; a space or a T between date and time."""
LOCAL, ZONED = 1 << 45, 1 << 46
"""A time without and with Z."""
DIGITS, WORDS = 1 << 47, 1 << 48
"""A BOOLEAN as 0 and 1, as false and true."""
INFERRED: Final = 1 << 49
"""The type of the column comes from its texts, not from a declaration."""
NUMBER: Final = 255 << 50
"""Bytes as the number that they are, big-endian: bit 49 + n, and those above it, for n bytes."""
FRACTIONS: Final = FIXED | TRIMMED | GROUPED | AT_LEAST_ONE
_SEPARATORS, _ZONES, _TRUTHS = DAY | SPACE | LETTER, LOCAL | ZONED, DIGITS | WORDS
_GROUPS = (FRACTIONS, _SEPARATORS, _ZONES, _TRUTHS)
ANY: Final = FRACTIONS | _SEPARATORS | _ZONES | _TRUTHS
_TIME_DIGITS = 6  # of a second, in Spark
_TIME_FRACTIONS = (1 << _TIME_DIGITS + 1) - 1 | TRIMMED | GROUPED | AT_LEAST_ONE
_OF_TIMES = {SQL: SPACE | LOCAL, SQL_ZONED: SPACE | ZONED, ISO: LETTER | LOCAL, ISO_ZONED: LETTER | ZONED}
_WHOLE = re.compile(r"0|-?[1-9][0-9]*")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.([0-9]+))?")
_FLOATING = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE][+-]?[0-9]+)?")
_SHORT_CLOCK = len("2024-02-29T12:00Z")
_NEGATIVE_ZERO = re.compile(r"-0(?:\.0*)?")
TRACKED = frozenset(("BOOLEAN", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "DECIMAL", "FLOAT", "DOUBLE"))
"""Types whose values have several texts. A column of another type has one text of each value, or is STRING."""


def forms_of(text: str, t: FlinkType) -> int:
    """Return the forms of a text that a column of the type reads; 0 if the type can't give the text back."""
    if t.root in INTEGER_BITS:
        return ANY if _WHOLE.fullmatch(text) else 0
    if t.root == "BOOLEAN":
        truths = DIGITS if text in ("0", "1") else WORDS if text in ("false", "true") else 0
        return truths and ANY & ~_TRUTHS | truths
    if t.root in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"):
        return _forms_of_time(text)
    if t.root == "DECIMAL":
        number = _DECIMAL.fullmatch(text)
        if number is None or _NEGATIVE_ZERO.fullmatch(text):
            return 0
        fractions = _fractions(number[1] or "") & (FIXED | TRIMMED | AT_LEAST_ONE)
    elif t.root in ("FLOAT", "DOUBLE"):
        number = _FLOATING.fullmatch(text)
        fractions = 0 if number is None else _fractions(number[1] or "") & (TRIMMED | AT_LEAST_ONE)
    else:
        return ANY
    return fractions and ANY & ~FRACTIONS | fractions


def _forms_of_time(text: str) -> int:
    form, digits = form_of(text)
    if form == DATE:
        return ANY & ~_SEPARATORS | DAY
    forms = _SEPARATORS | _ZONES if form == TIME else _OF_TIMES.get(form, 0)
    if not forms or (form in (ISO, ISO_ZONED) and len(text) <= _SHORT_CLOCK):
        return 0
    end = len(text) - bool(forms & ZONED and not forms & LOCAL)
    fractions = _fractions(text[end - digits : end]) & _TIME_FRACTIONS if digits <= _TIME_DIGITS else 0
    return fractions and _TRUTHS | forms | fractions


def _fractions(digits: str) -> int:
    """Return the forms of the digits after the point, "" for a number without a point."""
    count = len(digits)
    is_short = not digits.endswith("0")
    forms = 1 << count if count <= _MOST_FIXED else 0
    forms |= TRIMMED if is_short else 0
    forms |= GROUPED if count in (0, 3, 6) and not digits.endswith("000") else 0
    return forms | (AT_LEAST_ONE if count == 1 or (count and is_short) else 0)


def forms_of_number(token: Integer | Fraction, *, as_written: bool) -> int:
    """Return the forms of a number of JSON in a column of DOUBLEs.

    `as_written` says that a STRING column has the digits of the message; otherwise it has those of Java's double.
    """
    if isinstance(token, Integer):
        return ANY & ~FRACTIONS | TRIMMED | (1 if as_written else 0)
    if as_written:
        number = _DECIMAL.fullmatch(token)
        fractions = 0 if number is None else _fractions(number[1] or "") & ~GROUPED
        return fractions and ANY & ~FRACTIONS | fractions
    return ANY & ~FRACTIONS | AT_LEAST_ONE | (0 if float(token).is_integer() else TRIMMED)


WHOLE_NUMBERS: Final = ANY & ~FRACTIONS | TRIMMED | 1
"""The forms of whole numbers."""


def forms_of_bits(size: int) -> int:
    """Return the forms of a BIT column of so many bytes, at most eight: those of all longer ones, too."""
    return ANY | (NUMBER << size - 1 & NUMBER)


def size_of_bits(forms: int | None) -> int:
    """Return how many bytes the numbers of a BIT column have; 0 for other columns."""
    numbers = 0 if forms is None else forms & NUMBER
    return (numbers & -numbers).bit_length() - 50 if numbers else 0


def writes_all(forms: int) -> bool:
    """Whether one form writes all texts that have these forms in common."""
    return all(forms & group for group in _GROUPS)


def merged_forms(left: int | None, right: int | None) -> int | None:
    """Return the forms that texts have in common; None if there are no texts."""
    return right if left is None else left if right is None else left & right


_ONE_DIGIT = (r"^([^.]*)$", ".0")
_GROUPS_OF_THREE = ((r"^(.*\.(?:\d\d\d)*\d)$", "00"), (r"^(.*\.(?:\d\d\d)*\d\d)$", "0"))
_WITHOUT_ZEROS = ((r"^([^E]*\.[^E]*?)0+$", ""), (r"^(.*)\.$", ""))


def text_steps(forms: int, root: str) -> tuple[tuple[str, str], ...]:
    """Return how a usual text becomes one of a column's form: patterns whose group 1 stays, and what follows it then.

    The usual text of a time has no zeros at its end and no Z, that of a DECIMAL all digits of its scale, and that of a
    FLOAT or DOUBLE is Java's.
    """
    if root in ("FLOAT", "DOUBLE") and forms & AT_LEAST_ONE:
        return ()
    before = _WITHOUT_ZEROS if root in ("DECIMAL", "FLOAT", "DOUBLE") else ()
    if forms & TRIMMED:
        return before
    if forms & AT_LEAST_ONE:
        return *before, _ONE_DIGIT
    if forms & GROUPED:
        return *before, *_GROUPS_OF_THREE
    fixed = forms & FIXED
    digits = (fixed & -fixed).bit_length() - 1
    if not digits:
        return before
    return *before, (r"^([^.]*)$", "."), (r"^([^E]*)$", "0" * digits), (rf"^([^E]*\.\d{{{digits}}})0*$", "")
