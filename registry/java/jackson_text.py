"""Decode messages to text as Jackson, the parser in Flink, does for JSON and for CSV.

A byte order mark decides the encoding, else zero bytes among the first four. All other messages are UTF-8.

Jackson also decodes *loose* UTF-8: overlong forms, surrogates and numbers above U+10FFFF. It decodes ahead of its
parser, but reports malformed UTF-8 only when the parser gets there. Malformed UTF-32 is reported with its block.

Rules: Jackson's `ByteSourceJsonBootstrapper` and `UTF8StreamJsonParser` (JSON), `CsvParserBootstrapper` and
`UTF8Reader` (CSV), `UTF32Reader`, and Java's UTF-16 decoder.
"""

from __future__ import annotations

import codecs
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from kvformat.registry.java.charsets import utf16_text, utf32_text

_MARKS = (
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF8, "utf-8"),
)
_UNUSUAL_MARKS = (b"\0\0\xff\xfe", b"\xfe\xff\0\0")
_LOOSE = re.compile(rb"[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf7][\x80-\xbf]{3}")


class BadEncoding(ValueError):
    """The message has an encoding that Jackson does not support. The code is `WRONG_CHARSET`, `str()` the reason."""

    def __init__(self) -> None:
        super().__init__("UTF-32 in an unusual byte order")


@dataclass(frozen=True, slots=True)
class JacksonText:
    """Decodes messages as one of Jackson's parsers does. The fields are the differences between the parsers.

    `handler` is the name under which Python's `codecs` finds the error handler for loose UTF-8.
    With `refuse_unusual_order`, UTF-32 in an unusual byte order raises `BadEncoding`. Else it is read as UTF-16, and
    fails at a zero character.
    With `loose_is_malformed`, `decode` reports loose UTF-8 as malformed.
    With `escape_loose`, loose characters become JSON escapes. These mean the same in strings and names, and are an
    error elsewhere. A loose character after a backslash is malformed.
    `combine` computes the high surrogate of a 4-byte form from 0xD800 and the upper bits. The operators differ for
    overlong forms and above U+10FFFF.
    """

    handler: str
    refuse_unusual_order: bool
    loose_is_malformed: bool
    escape_loose: bool
    combine: Callable[[int, int], int]

    def __post_init__(self) -> None:
        codecs.register_error(self.handler, self._decode_loose)

    def decode(self, message: bytes) -> tuple[str, bool]:
        """Decode a message up to the first malformed byte. Returns the text, and whether malformed bytes follow it.

        Raises `BadEncoding`.
        """
        if message.isascii() and b"\0" not in message[:4]:
            return message.decode("ascii"), False
        encoding, start = self._encoding(message[:4])
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
            return body.decode("utf-8", self.handler), self.loose_is_malformed
        except UnicodeDecodeError as fault:
            return body[: fault.start].decode("utf-8", self.handler), True

    def _encoding(self, head: bytes) -> tuple[str, int]:
        """Python's name of the encoding and the length of the byte order mark, from the first four bytes."""
        if len(head) == 4:
            if self.refuse_unusual_order and head in _UNUSUAL_MARKS:
                raise BadEncoding
            for mark, encoding in _MARKS:
                if head.startswith(mark):
                    return encoding, len(mark)
            if head.startswith(b"\0\0\0"):
                return "utf-32-be", 0
            if head.endswith(b"\0\0\0"):
                return "utf-32-le", 0
            if self.refuse_unusual_order and head.count(0) == 3:
                raise BadEncoding
        if len(head) >= 2 and 0 in head[:2]:
            return ("utf-16-be" if head[0] == 0 else "utf-16-le"), 0
        return "utf-8", 0

    def _decode_loose(self, fault: UnicodeError) -> tuple[str, int]:
        """Decode one loose character: an error handler of `codecs`. Raises the error if the bytes are malformed."""
        assert isinstance(fault, UnicodeDecodeError)
        match = _LOOSE.match(fault.object, fault.start)
        if not match or (self.escape_loose and _ends_with_backslash(fault.object, fault.start)):
            raise fault
        first, *rest = match.group()
        number = first & (0x1F, 0x0F, 0x07)[len(rest) - 1]
        for byte in rest:
            number = number << 6 | byte & 0x3F
        units = [number]
        if len(rest) == 3:
            number -= 0x10000
            units = [self.combine(0xD800, number >> 10) & 0xFFFF, 0xDC00 | number & 0x3FF]
        return "".join(f"\\u{unit:04x}" if self.escape_loose else chr(unit) for unit in units), match.end()


def _ends_with_backslash(body: bytes, end: int) -> bool:
    """Whether `body[:end]` ends with a backslash that is not itself escaped."""
    at = end
    while at and body[at - 1] == 0x5C:
        at -= 1
    return (end - at) % 2 == 1


JSON = JacksonText(
    "kvformat.jackson-json",
    refuse_unusual_order=False,
    loose_is_malformed=True,
    escape_loose=True,
    combine=operator.or_,
)
CSV = JacksonText(
    "kvformat.jackson-csv",
    refuse_unusual_order=True,
    loose_is_malformed=False,
    escape_loose=False,
    combine=operator.add,
)
