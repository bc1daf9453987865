"""A JSON document as a tree, for who wants all of it: Avro's JSON encoding, and who guesses a schema."""

from __future__ import annotations

from kvformat.codecs._json.error_messages import syntax_error_code, syntax_error_text
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs._kernel.tree import Node, Tree
from kvformat.registry.contract.error_codes import ErrorCode

_BLANKS = b" \t\r\n"


class JsonSyntaxError(Exception):
    """A message is not JSON; `str()` says why, and where unless the place (`at`) is not known."""

    def __init__(self, reason: str, at: int | None = None, *, code: ErrorCode = ErrorCode.MALFORMED) -> None:
        self.at, self.code = at, code
        super().__init__(reason if at is None else f"{reason} at character {at + 1}")


class DocumentReader:
    """Reads the value that a document begins with, whatever follows it. Not for several threads at once.

    Objects with a repeated name are `Repeated`. As the JSON formats read rows (`of_rows`), control characters in
    strings may stand as they are, and no number has an exponent that Java's BigDecimal lacks.
    """

    def __init__(self, *, of_rows: bool = False) -> None:
        self._reader = Reader(raw_controls=of_rows, decimals=of_rows)
        self._tree = Tree(keep_repeats=True)

    def read_first_value(self, document: bytes) -> Node:
        """The tree of proper UTF-8; raises `JsonSyntaxError` where it begins with no value."""
        self._reader.open_message(document)
        tree: Node = self._tree.read_node(self._reader, self._reader.first_token())
        if self._tree.end < 0:
            raise JsonSyntaxError(syntax_error_text(self._reader), code=syntax_error_code(self._reader.code))
        return tree

    def read_document(self, document: bytes) -> Node:
        """The same, of a document that has nothing but blanks behind the value."""
        tree = self.read_first_value(document)
        if document[self._tree.end :].strip(_BLANKS):
            raise JsonSyntaxError("more after the end of the document")
        return tree
