"""Messages that are not proper UTF-8, as Jackson, the parser in Flink, reads them: other encodings, and loose UTF-8."""

from __future__ import annotations

import codecs
import re

from kvformat.codecs._java.charsets import utf16_text, utf32_text

_LOOSE = re.compile(rb"[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf7][\x80-\xbf]{3}")
_LOOSE_ERRORS = "kvformat.jackson"


def text_of(message: bytes) -> tuple[str, bool]:
    """The text of a message, and whether it is malformed UTF-8; if so, the text ends where Jackson fails."""
    encoding, start = _encoding(message)
    body = message[start:]
    if encoding.startswith("utf-16"):
        return utf16_text(body, encoding), False
    if encoding.startswith("utf-32"):
        return utf32_text(body, encoding)
    try:
        return body.decode(), False
    except UnicodeDecodeError:
        pass
    try:
        return body.decode("utf-8", _LOOSE_ERRORS), True
    except UnicodeDecodeError as fault:
        return body[: fault.start].decode("utf-8", _LOOSE_ERRORS), True


def _encoding(message: bytes) -> tuple[str, int]:
    """Python's name of the encoding and the length of the byte order mark (Jackson's ByteSourceJsonBootstrapper)."""
    head = message[:4]
    if len(head) == 4:
        for mark, encoding in (
            (codecs.BOM_UTF32_BE, "utf-32-be"),
            (codecs.BOM_UTF32_LE, "utf-32-le"),
            (codecs.BOM_UTF16_BE, "utf-16-be"),
            (codecs.BOM_UTF16_LE, "utf-16-le"),
            (codecs.BOM_UTF8, "utf-8"),
        ):
            if head.startswith(mark):
                return encoding, len(mark)
        if head.startswith(b"\0\0\0"):
            return "utf-32-be", 0
        if head.endswith(b"\0\0\0"):
            return "utf-32-le", 0
    if len(head) >= 2 and 0 in head[:2]:
        return ("utf-16-be" if head[0] == 0 else "utf-16-le"), 0
    return "utf-8", 0


def _read_loosely(fault: UnicodeError) -> tuple[str, int]:
    """What Jackson makes of bytes that are not proper UTF-8 but have its shape, as JSON escapes.

    It takes overlong forms, surrogates and numbers above U+10FFFF in strings and names. As escapes they mean the
    same there, and stay an error elsewhere.
    """
    assert isinstance(fault, UnicodeDecodeError)
    found = _LOOSE.match(fault.object, fault.start)
    before = fault.object[max(0, fault.start - 1) : fault.start]
    if not found or (before == b"\\" and _is_escape(fault.object, fault.start)):
        raise fault
    first, *rest = found.group()
    number = first & (0x1F, 0x0F, 0x07)[len(rest) - 1]
    for byte in rest:
        number = number << 6 | byte & 0x3F
    if len(rest) < 3:
        return f"\\u{number:04x}", found.end()
    number -= 0x10000
    high, low = (0xD800 | number >> 10) & 0xFFFF, 0xDC00 | number & 0x3FF
    return f"\\u{high:04x}\\u{low:04x}", found.end()


def _is_escape(body: bytes, end: int) -> bool:
    """Whether the backslash before `end` is not itself escaped."""
    at = end
    while at and body[at - 1] == 0x5C:
        at -= 1
    return (end - at) % 2 == 1


codecs.register_error(_LOOSE_ERRORS, _read_loosely)


# --- as proper UTF-8 -----------------------------------------------------------------------------------

_HALVES = "kvformat.halves"


def recoded(message: bytes) -> tuple[bytes, bool]:
    """A message as proper UTF-8, and whether it was malformed; if so, it ends where Jackson fails.

    Half a surrogate pair is written as the escape that means the same in a string, and is as wrong elsewhere.
    """
    text, malformed = text_of(message)
    return text.encode("utf-8", _HALVES), malformed


def _escape_halves(fault: UnicodeError) -> tuple[str, int]:
    assert isinstance(fault, UnicodeEncodeError)
    escapes = [f"\\u{ord(half):04x}" for half in fault.object[fault.start : fault.end]]
    at = fault.start
    while at and fault.object[at - 1] == "\\":
        at -= 1
    if (fault.start - at) % 2:
        escapes[0] = "?"  # a backslash before it makes it an escape that there is not
    return "".join(escapes), fault.end


codecs.register_error(_HALVES, _escape_halves)
