"""Parse a JSON document to a tree, for Avro's JSON encoding and for schema inference."""

from __future__ import annotations

from kvformat.codecs._json.error_messages import syntax_error_code, syntax_error_text
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs._kernel.tree import Node, Tree
from kvformat.registry.contract.error_codes import ErrorCode

_BLANKS = b" \t\r\n"


class JsonSyntaxError(Exception):
    """A message is not valid JSON. `str()` has the reason, and the character if its offset (`at`) is known."""

    def __init__(self, reason: str, at: int | None = None, *, code: ErrorCode = ErrorCode.MALFORMED) -> None:
        self.at, self.code = at, code
        super().__init__(reason if at is None else f"{reason} at character {at + 1}")


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

    def read_document(self, document: bytes) -> Node:
        """Parse a UTF-8 document of one value. Raises `JsonSyntaxError`, also for data after the value."""
        tree = self.read_first_value(document)
        if document[self._tree.end :].strip(_BLANKS):
            raise JsonSyntaxError("extra data after the document")
        return tree
