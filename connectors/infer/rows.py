"""`json` and the rows within change data: from trees to columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvformat.codecs._json.document_reader import JsonSyntaxError
from kvformat.connectors.infer.inferred import InferredSchema
from kvformat.connectors.infer.sample import Documents, MessageSample
from kvformat.connectors.infer.seen import Seen
from kvformat.connectors.infer.types import STANDARD, Notes, Types, standard_of


def json_schema(sample: MessageSample, options: Mapping[str, Any]) -> InferredSchema:
    """The columns of JSON objects, one a message or several in an array."""
    seen, documents, notes = Seen(), Documents(), Notes()
    broken = other = arrays = 0
    for message in sample.present():
        try:
            tree = documents.read(message)
        except JsonSyntaxError:
            broken += 1
            continue
        arrays += isinstance(tree, list)
        for row in tree if isinstance(tree, list) else [tree]:
            if isinstance(row, dict):
                seen.look(row)
            else:
                other += row is not None
    if broken:
        notes.add(f"{broken} messages are no JSON and were passed over")
    if other:
        notes.add(f"{other} values are no JSON objects and were passed over")
    if arrays:
        notes.add(f"{arrays} messages are arrays, of a row for each element: read them with decode_rows")
    given, iso = with_standard(options, seen)
    return InferredSchema("json", Types(notes, iso=iso).columns(seen), given, (), notes.texts())


def with_standard(options: Mapping[str, Any], *places: Seen) -> tuple[dict[str, Any], bool]:
    """The options with the standard of timestamps that reads most of the columns, and whether that is ISO-8601."""
    given = dict(options)
    if STANDARD not in given:
        whole = Seen(members={str(at): place for at, place in enumerate(places)})
        standard = standard_of(whole)
        given |= {} if standard == "SQL" else {STANDARD: standard}
    return given, given.get(STANDARD) == "ISO-8601"
