"""A JSON document as a tree, for a format that wants all of it: Avro's JSON encoding."""

from __future__ import annotations

from kvformat.codecs._json.words import fault_code, fault_text
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs._kernel.tree import Node, Tree
from kvformat.registry.error_codes import ErrorCode


class JsonFault(Exception):
    """A message is not JSON; `str()` says why, and where unless the place (`at`) is not known."""

    def __init__(self, reason: str, at: int | None = None, *, code: ErrorCode = ErrorCode.MALFORMED) -> None:
        self.at, self.code = at, code
        super().__init__(reason if at is None else f"{reason} at character {at + 1}")


class FirstValue:
    """Reads the value that a document begins with, whatever follows it. Not for several threads at once.

    Objects with a repeated name are `Repeated`; control characters in strings must be escaped.
    """

    def __init__(self) -> None:
        self._reader = Reader(raw_controls=False)
        self._tree = Tree(keep_repeats=True)

    def read(self, document: bytes) -> Node:
        """The tree of proper UTF-8; raises `JsonFault` where it begins with no value."""
        self._reader.show(document)
        tree: Node = self._tree.read(self._reader, self._reader.start())
        if self._tree.end < 0:
            raise JsonFault(fault_text(self._reader), code=fault_code(self._reader.code))
        return tree
