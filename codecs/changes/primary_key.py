"""The PRIMARY KEY of change data: the columns that the keys of records name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from kvformat.codecs._json_documents import JsonDocuments
from kvformat.codecs.discovery.column_types import Notes, shown

KeyNames = tuple[str, ...]
_MOST_SHOWN = 3  # different keys in a note


def names_of_json(keys: Iterable[bytes | None]) -> Counter[KeyNames]:
    """Count the sets of member names of keys that are JSON objects, alone or as Connect's `payload`."""
    documents, counts = JsonDocuments(), Counter[KeyNames]()
    for key in keys:
        tree = documents.parse_valid(key)
        if isinstance(tree, dict) and isinstance(tree.get("payload"), dict) and "schema" in tree:
            tree = tree["payload"]
        if isinstance(tree, dict) and tree:
            counts[tuple(map(str, tree))] += 1
    return counts


def primary_key(keys: Counter[KeyNames], columns: Collection[str], notes: Notes) -> KeyNames:
    """The names that all keys have, if each is a column; otherwise no names, with a note where keys differ."""
    if len(keys) > 1:
        several = " and ".join(f"({', '.join(map(shown, key))})" for key, _ in keys.most_common(_MOST_SHOWN))
        notes.add(f"the keys of messages differ: {several}; no PRIMARY KEY is proposed")
        return ()
    key = next(iter(keys), ())
    return key if set(columns).issuperset(key) and len(set(key)) == len(key) else ()
