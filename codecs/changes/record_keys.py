"""Format json for the keys of records that connectors wrap. Each key is read as the JSON object with its columns.

    Kafka Connect    {"schema": {...}, "payload": {"id": 7}}                  -> {"id": 7}
    Maxwell          {"database": "shop", "table": "item", "pk.id": 7}        -> {"id": 7}
                     ["shop", "item", [{"id": 7}]]                            -> {"id": 7}

A key of another shape is read as it is. The texts of the values stay as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs.json.format import JsonFormat
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.look import Looked, Looker, LookRequest
from kvformat.registry.contract.schemas import row_type

_BLANKS = re.compile(r"[ \t\n\r]*")
_SCAN = json.JSONDecoder(strict=False).raw_decode
_MAXWELL_PREFIX = "pk."
_MAXWELL_MEMBERS = ("database", "table")
_MAXWELL_PARTS = 3  # database, table, columns


class WrappedKeyFormat(JsonFormat):
    """Format `json` for keys of one connector. A table that has all members of `wrapper` reads the whole key."""

    wrapper: ClassVar[frozenset[str]]
    likely: ClassVar[str]
    """A regular expression that finds a part of each wrapped key; other keys are not parsed here."""

    @staticmethod
    def unwrap(key: str) -> str:
        """Return the object with the columns of a key. Raises `ValueError` for a key of another shape."""
        raise NotImplementedError

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        names = {field.name for field in row_type(schema).fields}
        if not self.wrapper <= names:
            messages = self._unwrapped(messages)
        return super().decode_arrow(messages, schema, metadata=metadata)

    def looker(self, request: LookRequest) -> Looker:
        return _KeyLooker(super().looker(request), self._unwrapped)

    def _unwrapped(self, keys: pa.BinaryArray) -> pa.BinaryArray:
        unwrap = type(self).unwrap

        def unwrapped_key(key: bytes) -> bytes:
            try:
                return unwrap(key.decode()).encode()
            except (ValueError, RecursionError):
                return key

        wrapped = pc.fill_null(pc.match_substring_regex(keys, self.likely), False)
        if not pc.any(wrapped, min_count=0).as_py():
            return keys
        return pc.replace_with_mask(
            keys, wrapped, pa.array(map(unwrapped_key, keys.filter(wrapped).to_pylist()), keys.type)
        )


class _KeyLooker:
    """Looks at keys without their wrapper."""

    def __init__(self, looker: Looker, unwrapped: Callable[[pa.BinaryArray], pa.BinaryArray]) -> None:
        self._looker, self._unwrapped = looker, unwrapped

    def look(self, messages: pa.BinaryArray, topics: pa.StringArray) -> Looked:
        """Return what the keys contribute."""
        return self._looker.look(self._unwrapped(messages), topics)


def connect_payload(key: str) -> str:
    """Return the payload of a key that Kafka Connect writes with a schema."""
    members = _members(key)
    if members.keys() != {"schema", "payload"} or members["schema"][:1] not in ("{", "n"):
        raise ValueError
    return members["payload"]


def maxwell_columns(key: str) -> str:
    """Return the columns of a key that Maxwell writes, in one of its two forms."""
    if key.lstrip().startswith("["):
        json.loads(key)  # raises `ValueError` for data after the array
        parts = _elements(key)
        if len(parts) != _MAXWELL_PARTS:
            raise ValueError
        columns = [_members(text) for text in _elements(parts[2])]
        return _object({name: value for each in columns for name, value in each.items()})
    members = _members(key)
    if not {*_MAXWELL_MEMBERS} <= members.keys():
        raise ValueError
    return _object({n.removeprefix(_MAXWELL_PREFIX): v for n, v in members.items() if n.startswith(_MAXWELL_PREFIX)})


def _object(members: dict[str, str]) -> str:
    return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in members.items()) + "}"


def _members(text: str) -> dict[str, str]:
    """Return the texts of the values of an object. Raises `ValueError` if the text is not an object."""
    members: dict[str, str] = {}
    at = _after(text, 0, "{")
    if text[at : at + 1] == "}":
        return members
    while True:
        name, at = _SCAN(text, at)
        if not isinstance(name, str):
            raise ValueError
        at = _after(text, at, ":")
        _, end = _SCAN(text, at)
        members[name] = text[at:end]
        at = _BLANKS.match(text, end).end()  # type: ignore[union-attr]
        if text[at : at + 1] != ",":
            break
        at = _after(text, at, ",")
    if text[at:].strip() != "}":
        raise ValueError
    return members


def _elements(text: str) -> list[str]:
    """Return the texts of the elements at the beginning of a text."""
    elements: list[str] = []
    at = _after(text, 0, "[")
    while text[at : at + 1] != "]":
        _, end = _SCAN(text, at)
        elements.append(text[at:end])
        at = _BLANKS.match(text, end).end()  # type: ignore[union-attr]
        if text[at : at + 1] == ",":
            at = _after(text, at, ",")
    return elements


def _after(text: str, at: int, expected: str) -> int:
    """Return the place after a character, and after the blanks that follow it."""
    at = _BLANKS.match(text, at).end()  # type: ignore[union-attr]
    if text[at : at + 1] != expected:
        raise ValueError
    return _BLANKS.match(text, at + 1).end()  # type: ignore[union-attr]


class ConnectSchemaKeyFormat(WrappedKeyFormat):
    """Format `json` for keys that may have Connect's schema, whether the values have one or not."""

    wrapper = frozenset(("schema", "payload"))
    likely = '"payload"'
    unwrap = staticmethod(connect_payload)


class MaxwellKeyFormat(WrappedKeyFormat):
    """Format `json` for Maxwell's keys."""

    wrapper = frozenset(_MAXWELL_MEMBERS)
    likely = r'"database"|^\s*\['
    unwrap = staticmethod(maxwell_columns)
