"""JSON messages as trees, and the wrapper that Kafka Connect's JsonConverter puts around rows."""

from __future__ import annotations

from kvformat.codecs._json.document_reader import DocumentReader, JsonSyntaxError
from kvformat.codecs._json.encodings import recoded
from kvformat.codecs._kernel.tree import Node


class JsonDocuments:
    """Parses messages as the JSON formats do, also in UTF-16 and with a byte order mark."""

    def __init__(self) -> None:
        self._reader = DocumentReader(of_rows=True)

    def parse(self, message: bytes) -> Node:
        """Return the tree of a message; raises `JsonSyntaxError` if it is not valid JSON."""
        text, malformed = recoded(message)
        if malformed:
            raise JsonSyntaxError("bytes that are not UTF-8")
        return self._reader.read_document(text)


def without_array(tree: Node) -> Node:
    """Return the element of an array with one element; any other tree as it is."""
    return tree[0] if isinstance(tree, list) and len(tree) == 1 else tree


def is_wrapped(tree: Node) -> bool:
    """Return whether a tree is Kafka Connect's object of `schema` and `payload`, and the payload an object or null."""
    has_both = isinstance(tree, dict) and tree.keys() == {"schema", "payload"}
    return has_both and isinstance(tree, dict) and isinstance(tree["payload"], dict | None)


def is_tombstone(tree: Node) -> bool:
    """Return whether a tree is JSON null, or a wrapper with the payload null: JsonConverter writes tombstones so."""
    return tree is None or (is_wrapped(tree) and isinstance(tree, dict) and tree["payload"] is None)
