"""The error texts for a bad message, from the code and position that the kernel recorded."""

from __future__ import annotations

from kvformat.codecs._kernel import protobuf_codes as codes
from kvformat.codecs._kernel.codes import TOO_MANY
from kvformat.codecs._kernel.messages import Said
from kvformat.registry.contract.error_codes import ErrorCode

_FAULTS = {
    codes.TRUNCATED: "the input ends in the middle of a field",
    codes.LONG_VARINT: "a varint of more than ten bytes",
    codes.NEGATIVE_SIZE: "a negative size",
    codes.ZERO_TAG: "a tag with the field number zero",
    codes.WRONG_WIRE_TYPE: "a tag with an unknown wire type",
    codes.STRAY_GROUP_END: "the end of a group is missing, or ends no open group",
    codes.NESTED_TOO_DEEPLY: f"more than {codes.MAX_LEVELS} levels",
    codes.INVALID_UTF8: "text that is not UTF-8",
    codes.TOO_MUCH_TEXT: "more than 2 GB of text in one column of the batch",
}
_CODES = {
    codes.NESTED_TOO_DEEPLY: ErrorCode.TOO_DEEP,
    codes.INVALID_UTF8: ErrorCode.WRONG_CHARSET,
    codes.TOO_MANY_CELLS: ErrorCode.TOO_LARGE,
    codes.TOO_MUCH_TEXT: ErrorCode.TOO_LARGE,
}


def said(code: int, place: int, steps: list[str]) -> Said:
    """Return why a message is not protobuf. `place` is an offset, `steps` are names of fields, innermost first."""
    if code == codes.NULL_MESSAGE:
        return ErrorCode.NULL_VALUE, "a null message. A protobuf message without fields has zero bytes, but is not null"
    path = ".".join(reversed(steps))
    if code == codes.TOO_MANY_CELLS:
        text = f"{TOO_MANY}; reached at byte {place + 1}"
    else:
        text = f"not protobuf: {_FAULTS[code]} at byte {place + 1}"
    return _CODES.get(code, ErrorCode.MALFORMED), f"field {path!r}: {text}" if path else text
