"""Error messages for JSON, made from the state of the kernel's reader."""

from __future__ import annotations

from typing import Any

from kvformat.codecs._json.encodings import recoded
from kvformat.codecs._json.scalars import BadValue, conversion_error_code, conversion_error_text, field_path, preview
from kvformat.codecs._kernel import codes
from kvformat.codecs._kernel.containers import MISSING
from kvformat.codecs._kernel.messages import Said
from kvformat.codecs._kernel.reader import Reader
from kvformat.registry.contract.error_codes import ErrorCode

_FAULTS = {
    codes.EXPECTED_VALUE: "expecting value",
    codes.EXPECTED_NAME: "expecting property name enclosed in double quotes",
    codes.EXPECTED_COLON: "expecting ':' delimiter",
    codes.EXPECTED_COMMA: "expecting ',' delimiter",
    codes.OPEN_STRING: "unterminated string starting",
    codes.BAD_ESCAPE: "invalid \\escape",
    codes.BAD_HEX: "invalid \\uXXXX escape",
    codes.TOO_DEEP: f"more than {codes.MAX_DEPTH} levels",
    codes.TRAILING: "extra data after the document",
    codes.TOO_LARGE: "more than 2 GB of text in one column of the batch, in the message that ends",
    codes.CONTROL: "invalid control character",
}
_CODES = {
    codes.TOO_DEEP: ErrorCode.TOO_DEEP,
    codes.TOO_LARGE: ErrorCode.TOO_LARGE,
    codes.TOO_MANY_DIGITS: ErrorCode.TOO_LARGE,
    codes.BAD_EXPONENT: ErrorCode.TOO_LARGE,
}
_WRONG_TYPE = ErrorCode.WRONG_TYPE
_LONGEST_CONSTANT = 9  # -Infinity


class JsonErrorMessages:
    """The error messages of JSON: implements `kvformat.codecs._kernel.messages.ErrorWords`."""

    @staticmethod
    def recoded(message: bytes) -> tuple[bytes, bool]:
        return recoded(message)

    @staticmethod
    def placed() -> dict[int, Said]:
        placed = {
            code: (syntax_error_code(code), f"not JSON: {reason} at character ") for code, reason in _FAULTS.items()
        }
        return placed | {codes.TOO_MANY_CELLS: (ErrorCode.TOO_LARGE, f"{codes.TOO_MANY}; reached at character ")}

    @staticmethod
    def malformed() -> Said:
        return ErrorCode.WRONG_CHARSET, "not JSON: bytes that are not UTF-8"

    @staticmethod
    def fault(reader: Reader) -> Said:
        return syntax_error_code(reader.code), f"not JSON: {syntax_error_text(reader)}"

    @staticmethod
    def bad_value(steps: list[str | int], reason: Any, name: str, value: Any) -> Said:
        path = field_path(steps)
        if reason is MISSING:
            return ErrorCode.MISSING_FIELD, f"field {path!r} is missing"
        if isinstance(reason, BadValue):
            code, text = reason.code, reason.reason
        else:
            code, text = conversion_error_code(value, name), conversion_error_text(value, name)
        return code, f"field {path!r}: {text}" if path else text

    @staticmethod
    def no_rows(node: Any) -> Said:
        found = "nothing or null" if node is None else preview(node)
        return _WRONG_TYPE, f"expected a JSON object or an array of objects, found {found}"


def syntax_error_code(code: int) -> ErrorCode:
    """Return the error code for the kernel's number of a syntax error."""
    return _CODES.get(code, ErrorCode.MALFORMED)


def syntax_error_text(reader: Reader) -> str:
    """Describe the syntax error that the reader found, and its position."""
    reason = _FAULTS.get(reader.code)
    if reason is None and reader.code == codes.CONSTANT:
        head = reader.text(reader.where, min(reader.where + _LONGEST_CONSTANT, reader.end))
        for constant in ("NaN", "Infinity", "-Infinity"):
            if head.startswith(constant):
                return f"{constant} is not valid in JSON"
        reason = _FAULTS[codes.EXPECTED_VALUE]
    if reason is not None:
        return f"{reason} at character {reader.characters(reader.begin, reader.where) + 1}"
    if reader.code == codes.TOO_MANY_DIGITS:
        return f"a number of more than {codes.MAX_DIGITS} digits"
    token = reader.text(reader.where, min(reader.where + 2 * codes.MAX_DIGITS, reader.end))
    exponent = token.lower().partition("e")[2]
    length = next((i for i, c in enumerate(exponent) if c not in "+-0123456789"), len(exponent))
    return f"a number with the exponent {exponent[: min(length, 30)]}"
