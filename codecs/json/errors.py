"""Error messages for JSON, made from the state of the kernel's reader."""

from __future__ import annotations

from typing import Any

from kvformat.codecs._json_documents import FAULTS, recoded, syntax_error_code, syntax_error_text
from kvformat.codecs._kernel import codes
from kvformat.codecs._kernel.containers import MISSING
from kvformat.codecs._kernel.messages import Said
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs.json.scalars import BadValue, conversion_error_code, conversion_error_text, field_path, preview
from kvformat.registry.contract.error_codes import ErrorCode

_WRONG_TYPE = ErrorCode.WRONG_TYPE


class JsonErrorMessages:
    """The functions that `Batch` calls: for other encodings than UTF-8, and for the texts of errors."""

    recoded = staticmethod(recoded)

    @staticmethod
    def placed() -> dict[int, Said]:
        """Return errors by fault number to whose text the batch appends the position, in characters."""
        placed = {
            code: (syntax_error_code(code), f"not JSON: {reason} at character ") for code, reason in FAULTS.items()
        }
        return placed | {codes.TOO_MANY_CELLS: (ErrorCode.TOO_LARGE, f"{codes.TOO_MANY}; reached at character ")}

    @staticmethod
    def malformed() -> Said:
        """Return the error of all malformed messages."""
        return ErrorCode.WRONG_CHARSET, "not JSON: bytes that are not UTF-8"

    @staticmethod
    def fault(reader: Reader) -> Said:
        """Return why the reader's message is not JSON, for faults that `placed` does not contain."""
        return syntax_error_code(reader.code), f"not JSON: {syntax_error_text(reader)}"

    @staticmethod
    def bad_value(steps: list[str | int], reason: Any, name: str, value: Any) -> Said:
        """Return which value can't be read. `steps` is the path to it, innermost step first; `value` is its node."""
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
        """Return the error of a message that is a value but not a row."""
        shown = "nothing or null" if node is None else preview(node)
        return _WRONG_TYPE, f"expected a JSON object or an array of objects, found {shown}"
