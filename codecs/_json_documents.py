"""JSON documents as trees, for schemas and for Avro's JSON encoding; their encodings, and what is said of bad ones."""

from __future__ import annotations

import codecs
from typing import Final

from kvformat.codecs._kernel import codes
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs._kernel.tree import Node, Tree
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.java import jackson_text

BYTE_ORDER_MARK = "\ufeff"
"""The character that some editors put before a text. Schemas are read without it."""
_LONE_SURROGATES = "kvformat.lone-surrogates"
_BLANKS = b" \t\r\n"
FAULTS = {
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
_LONGEST_CONSTANT = 9  # -Infinity


# --- encodings -----------------------------------------------------------------------------------------------


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


# --- syntax --------------------------------------------------------------------------------------------------


def syntax_error_code(code: int) -> ErrorCode:
    """Return the error code for the kernel's number of a syntax error."""
    return _CODES.get(code, ErrorCode.MALFORMED)


def syntax_error_text(reader: Reader) -> str:
    """Describe the syntax error that the reader found, and its position."""
    reason = FAULTS.get(reader.code)
    if reason is None and reader.code == codes.CONSTANT:
        head = reader.text(reader.where, min(reader.where + _LONGEST_CONSTANT, reader.end))
        for constant in ("NaN", "Infinity", "-Infinity"):
            if head.startswith(constant):
                return f"{constant} is not valid in JSON"
        reason = FAULTS[codes.EXPECTED_VALUE]
    if reason is not None:
        return f"{reason} at character {reader.characters(reader.begin, reader.where) + 1}"
    if reader.code == codes.TOO_MANY_DIGITS:
        return f"a number of more than {codes.MAX_DIGITS} digits"
    token = reader.text(reader.where, min(reader.where + 2 * codes.MAX_DIGITS, reader.end))
    exponent = token.lower().partition("e")[2]
    length = next((i for i, c in enumerate(exponent) if c not in "+-0123456789"), len(exponent))
    return f"a number with the exponent {exponent[: min(length, 30)]}"


class JsonSyntaxError(Exception):
    """A message is not valid JSON. `str()` has the reason."""

    def __init__(self, reason: str, *, code: ErrorCode = ErrorCode.MALFORMED) -> None:
        super().__init__(reason)
        self.code = code


class DocumentReader:
    """Parses JSON documents to trees. Not safe for several threads.

    Objects with a repeated name are `Repeated`. `of_rows` selects the rules by which the JSON formats read rows:
    strings may have unescaped control characters, and a number must have an exponent that Java's BigDecimal supports.
    """

    def __init__(self, *, of_rows: bool = False) -> None:
        self._reader = Reader(raw_controls=of_rows, decimals=of_rows)
        self._tree = Tree(keep_repeats=True)

    def read_first_value(self, document: bytes) -> Node:
        """Parse the value at the start of a UTF-8 document. Raises `JsonSyntaxError` if there is none."""
        self._reader.open_message(document)
        tree: Node = self._tree.read_node(self._reader, self._reader.first_token())
        if self._tree.end < 0:
            raise JsonSyntaxError(syntax_error_text(self._reader), code=syntax_error_code(self._reader.code))
        return tree


# --- messages ------------------------------------------------------------------------------------------------


class JsonDocuments(DocumentReader):
    """Parses messages as the JSON formats do, also in UTF-16 and with a byte order mark."""

    def __init__(self) -> None:
        super().__init__(of_rows=True)

    def parse(self, message: bytes) -> Node:
        """Return the tree of a message; raises `JsonSyntaxError` if it is not valid JSON of one value."""
        text, malformed = recoded(message)
        if malformed:
            raise JsonSyntaxError("bytes that are not UTF-8")
        tree = self.read_first_value(text)
        if text[self._tree.end :].strip(_BLANKS):
            raise JsonSyntaxError("extra data after the document")
        return tree

    def parse_valid(self, message: bytes | None) -> Node:
        """Return the tree of a message; None, as for JSON null, if there is none or it is not valid JSON."""
        try:
            return self.parse(message) if message else None
        except JsonSyntaxError:
            return None


def without_array(tree: Node) -> Node:
    """Return the element of an array with one element; any other tree as it is."""
    return tree[0] if isinstance(tree, list) and len(tree) == 1 else tree


WRAPPED: Final = (
    r'(?s)^\s*\{\s*"(?:schema"\s*:\s*(?:\{|null\b).*"payload"\s*:|payload"\s*:.*"schema"\s*:\s*(?:\{|null\b))'
)
"""Matches the beginning of keys that Kafka Connect writes with a schema, also of texts with further members."""


def is_wrapped(tree: Node) -> bool:
    """Return whether a tree is a row of Kafka Connect with its schema: `schema` and `payload`, objects or null."""
    has_both = isinstance(tree, dict) and tree.keys() == {"schema", "payload"}
    return has_both and isinstance(tree, dict) and all(isinstance(part, dict | None) for part in tree.values())


def is_tombstone(tree: Node) -> bool:
    """Return whether a tree is JSON null, or a wrapper with the payload null: JsonConverter writes tombstones so."""
    return tree is None or (is_wrapped(tree) and isinstance(tree, dict) and tree["payload"] is None)
