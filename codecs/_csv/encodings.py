"""The bytes of a message to text, as Jackson's csv reader finds and reads encodings.

A byte order mark decides, else zero bytes among the first four, else it is UTF-8. Jackson decodes ahead of its
parser but reports malformed UTF-8 only when the parser gets there, so that what stands behind the record may be
malformed; of UTF-32 it reports it with the block of text that it is in. Rules: Jackson's `CsvParserBootstrapper`,
`UTF8Reader` (csv) and `UTF32Reader`, Java's UTF-16 decoder.
"""

from __future__ import annotations

import codecs
import re

from kvformat.codecs._java.charsets import utf16_text, utf32_text
from kvformat.registry.contract.error_codes import ErrorCode

_MARKS = (
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (b"\0\0\xff\xfe", ""),
    (b"\xfe\xff\0\0", ""),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF8, "utf-8"),
)
_LOOSE = re.compile(rb"[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf7][\x80-\xbf]{3}")
_LOOSE_ERRORS = "kvformat.jackson-csv"


class BadEncoding(ValueError):
    """The encoding of a message is none that can be read; `str()` has the code and says why."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.WRONG_CHARSET.marked("UTF-32 in an unusual order of bytes"))


def text_of(message: bytes) -> tuple[str, bool]:
    """The text of a message, and whether something malformed follows it.

    Raises `BadEncoding` where not even the first character can be had.
    """
    if message.isascii() and b"\0" not in message[:4]:
        return message.decode("ascii"), False
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
        return body.decode("utf-8", _LOOSE_ERRORS), False
    except UnicodeDecodeError as fault:
        return body[: fault.start].decode("utf-8", _LOOSE_ERRORS), True


def _encoding(message: bytes) -> tuple[str, int]:
    """Python's name of the encoding and the length of the byte order mark."""
    head = message[:4]
    if len(head) == 4:
        for mark, encoding in _MARKS:
            if head.startswith(mark):
                if not encoding:
                    raise BadEncoding
                return encoding, len(mark)
        if head.startswith(b"\0\0\0"):
            return "utf-32-be", 0
        if head.endswith(b"\0\0\0"):
            return "utf-32-le", 0
        if head.count(0) == 3:
            raise BadEncoding
    if 0 in head[:2] and len(head) >= 2:
        return ("utf-16-be" if head[0] == 0 else "utf-16-le"), 0
    return "utf-8", 0


def _read_loosely(fault: UnicodeError) -> tuple[str, int]:
    """What Jackson makes of bytes that are not proper UTF-8 but have its shape.

    It takes overlong forms, surrogates and numbers above U+10FFFF.
    """
    assert isinstance(fault, UnicodeDecodeError)
    found = _LOOSE.match(fault.object, fault.start)
    if not found:
        raise fault
    first, *rest = found.group()
    number = first & (0x1F, 0x0F, 0x07)[len(rest) - 1]
    for byte in rest:
        number = number << 6 | byte & 0x3F
    if len(rest) < 3:
        return chr(number), found.end()
    number -= 0x10000
    high, low = (0xD800 + (number >> 10)) & 0xFFFF, 0xDC00 | number & 0x3FF
    return chr(high) + chr(low), found.end()


codecs.register_error(_LOOSE_ERRORS, _read_loosely)
