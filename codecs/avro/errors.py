"""The error texts for a datum that can't be read, from the code and numbers that the kernel recorded."""

from __future__ import annotations

from typing import Any

from kvformat.codecs._kernel import avro_codes as codes
from kvformat.codecs._kernel.messages import Said
from kvformat.registry.contract.error_codes import ErrorCode

_TEXTS = {
    codes.CUT_NUMBER: ("the message ends within a number",),
    codes.LONG_INT: (f"Invalid int encoding: a number of more than {codes.INT_BYTES} bytes",),
    codes.LONG_LONG: (f"Invalid long encoding: a number of more than {codes.LONG_BYTES} bytes",),
    codes.NEGATIVE_SIZE: ("Malformed data. Length is negative: ", ""),
    codes.CUT_VALUE: ("a value has ", " bytes, but the message has only ", " left"),
    codes.NO_BRANCH: ("there is no union branch ", "; the schema has ", ""),
    codes.NO_SYMBOL: ("there is no enum symbol ", "; the schema has ", ""),
    codes.TOO_MANY_ITEMS: ("", " items do not fit into the ", " bytes that are left in the message"),
    codes.TOO_MANY_EMPTY_ITEMS: ("", f" items without bytes, but a message may have at most {codes.MAX_EMPTY_ITEMS}"),
    codes.NESTED_TOO_DEEPLY: (f"a skipped value has more than {codes.MAX_LEVELS} levels",),
    codes.NO_DATUM: ("the message has ", " bytes, but the datum starts after ", ""),
    codes.COLUMN_TOO_LARGE: ("more than 2 GB of values in one column of the batch",),
}
"""The words before, between and after the numbers of a fault."""
_CODES = {
    codes.TOO_MANY_EMPTY_ITEMS: ErrorCode.TOO_LARGE,
    codes.TOO_MANY_ADDED_BYTES: ErrorCode.TOO_LARGE,
    codes.NUMBER_OUT_OF_RANGE: ErrorCode.OUT_OF_RANGE,
    codes.NESTED_TOO_DEEPLY: ErrorCode.TOO_DEEP,
    codes.COLUMN_TOO_LARGE: ErrorCode.TOO_LARGE,
}
_SIGNED = (codes.NEGATIVE_SIZE, codes.NO_BRANCH, codes.NO_SYMBOL, codes.NUMBER_OUT_OF_RANGE)
"""Faults whose number may be negative. The kernel has it modulo 2**64."""


PLACED = [
    (_CODES.get(fault, ErrorCode.MALFORMED).number, [words.encode() for words in _TEXTS[fault]])
    if fault in _TEXTS
    else None
    for fault in range(codes.COLUMN_TOO_LARGE + 1)
]
"""The code and the words of each fault, for the kernel to write."""


def path_words(path: tuple[str, ...]) -> bytes:
    """Return the words before an error in a field, given the names of the fields to it."""
    return f"field {'.'.join(path)}: ".encode()


def decimal_error(data: bytes, cause: ValueError) -> Said:
    """Return the error of bytes that are not a decimal of the reader's type."""
    return ErrorCode.OUT_OF_RANGE if data else ErrorCode.MALFORMED, str(cause)


def describe(w: Any) -> Said:
    """Return the error of a fault, given the kernel's `AvroWire`. The text has no path."""
    code, first = _CODES.get(w.code, ErrorCode.MALFORMED), w.first
    if w.code in _SIGNED and first >= 2**63:
        first -= 2**64
    if w.code == codes.NUMBER_OUT_OF_RANGE:
        number = first * w.culprit.times // w.culprit.divisor
        return code, f"{number} is out of range for {w.culprit.kind} in the reader's unit"
    if w.code == codes.TOO_MANY_ADDED_BYTES:
        added = f"{first} items that each add up to {w.second} bytes of the schema's columns, symbols and defaults"
        return code, f"{added}; the limit for this message of {w.end - w.begin} bytes is {w.most_added}"
    before, *words = _TEXTS[w.code]
    return code, before + "".join(f"{number}{after}" for number, after in zip((first, w.second), words, strict=False))
