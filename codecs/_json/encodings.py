"""Messages in other encodings and in malformed UTF-8, recoded as UTF-8."""

from __future__ import annotations

import codecs

from kvformat.registry.java import jackson_text

_LONE_SURROGATES = "kvformat.lone-surrogates"


def recoded(message: bytes) -> tuple[bytes, bool]:
    """Recode a message as UTF-8. Returns the bytes up to where Jackson fails, and whether the message was malformed.

    A lone surrogate becomes its JSON escape. The escape means the same in a string, and is an error elsewhere.
    """
    text, malformed = jackson_text.JSON.decode(message)
    return text.encode("utf-8", _LONE_SURROGATES), malformed


def _escape_surrogates(fault: UnicodeError) -> tuple[str, int]:
    """Write lone surrogates as JSON escapes: an error handler of `codecs`."""
    assert isinstance(fault, UnicodeEncodeError)
    escapes = [f"\\u{ord(half):04x}" for half in fault.object[fault.start : fault.end]]
    at = fault.start
    while at and fault.object[at - 1] == "\\":
        at -= 1
    if (fault.start - at) % 2:
        escapes[0] = "?"  # after a backslash, the escape would change into another one
    return "".join(escapes), fault.end


codecs.register_error(_LONE_SURROGATES, _escape_surrogates)
