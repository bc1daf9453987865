"""Change messages one by one, exactly as Flink reads them: the path for everything the fast one refuses.

A message is read into a tree, and the tree is bound to the type of the envelope, by json's rules (of the tree reader).
What is missing in an old row was not changed: it is taken from the new one. Where Flink looks for it in the wrong
place (in other rows, or inside of nested values), ours looks into the old row itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from kvformat.codecs._changes.envelope import (
    DELETE,
    INSERT,
    TEXT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    ChangeSettings,
    Envelope,
    Operation,
    bad,
)
from kvformat.codecs._json.exact import BadValue, ExactReader, JsonFault
from kvformat.codecs._json.scalars import Rules, scalar_converter, shown
from kvformat.codecs._json.settings import ReadSettings
from kvformat.codecs._json.syntax import Node
from kvformat.registry.types import FlinkField, FlinkType

Change: TypeAlias = tuple[Any, ...]
"""A row with its kind before it (an index into `KINDS`) and its metadata after it."""


class ExactChanges:
    """Reads change messages of one row type and some metadata keys.

    Raises `SchemaError` for types that JSON has no place for.
    """

    def __init__(self, row: FlinkType, envelope: Envelope, settings: ChangeSettings, metadata: tuple[str, ...]) -> None:
        self._envelope, self._settings = envelope, settings
        self._names = [column.name for column in row.fields]
        self._metadata = [envelope.metadata[key] for key in metadata]
        inside = {m.member: m.member_type for m in self._metadata if not m.outside}
        outside = {m.member: m.member_type for m in self._metadata if m.outside} if settings.wrapped else {}
        self._maps = [member for member, t in inside.items() if t.root == "MAP"]
        self._places = {member: place for place, member in enumerate(inside, 3)}
        self._outer_places = {member: place for place, member in enumerate(outside, 1)}
        reading = ReadSettings(streaming=False, lenient=settings.lenient, iso=settings.iso)
        image = FlinkType("ROW", fields=row.fields)
        self._reader = ExactReader(self._message_type(image, inside, outside), reading)
        decimals = any(t.root == "DECIMAL" for _, t in row.walk())
        self._text = scalar_converter(TEXT, Rules(streaming=False, iso=settings.iso, decimals=decimals))

    def _message_type(self, image: FlinkType, inside: dict[str, FlinkType], outside: dict[str, FlinkType]) -> FlinkType:
        images = FlinkType("ARRAY", fields=(FlinkField("element", image),)) if self._envelope.many else image
        members = {self._envelope.before: images, self._envelope.after: images, self._envelope.operation: TEXT}
        payload = _row({**members, **inside})
        return _row({"payload": payload, **outside}) if self._settings.wrapped else payload

    def read(self, message: bytes | None) -> tuple[list[Change] | None, str | None]:
        """The changes in a message and None, or None and what is wrong with it.

        No changes mean that the message is skipped; both are None for a null message. Never raises.
        """
        if message is None:
            return None, None
        changes: list[Change] = []
        try:
            if message:
                # with ignore-parse-errors what was complete before the fault stays, as in Flink
                changes.extend(self._changes(self._reader.parse(message)))
        except JsonFault as fault:
            return ([], None) if self._settings.lenient else (None, f"not JSON: {fault}")
        except BadValue as fault:
            return (changes, None) if self._settings.lenient else (None, str(fault))
        return changes, None

    def _changes(self, tree: Node) -> Iterator[Change]:
        root = self._root(tree)
        payload = root.get("payload") if self._settings.wrapped else root
        if isinstance(payload, dict):
            if not self._is_wanted(payload):
                return
            wrong = [name for name in self._maps if not isinstance(payload.get(name), dict | None)]
            if wrong:  # Flink's tree reader: what is no object is a map without entries
                payload = {**payload, **{member: {} for member in wrong}}
                root = {**root, "payload": payload} if self._settings.wrapped else payload
        bound = self._reader.bind(root)
        assert bound is not None
        outer = bound
        if self._settings.wrapped:
            bound = bound[0]
        if bound is None:
            raise bad(
                'is missing or null; with \'schema-include\' a message is {"schema": ..., "payload": {...}}. '
                "For messages without this wrapping set 'schema-include' to false",
                "payload",
            )
        operation = self._operation(bound[2], root)
        if operation is Operation.SKIP:
            return
        metadata = self._metadata_values(bound, outer)
        for kind, row in self._rows(operation, bound, payload):
            yield kind, *row, *metadata

    def _root(self, tree: Node) -> dict[str, Node]:
        """The one object that a message is."""
        if self._envelope.array and isinstance(tree, list):
            lenient = self._settings.lenient
            elements = [e for e in tree if e is not None and (isinstance(e, dict) or not lenient)]
            if len(elements) != 1:
                raise BadValue(f"expected one JSON object, found an array of {len(elements)}: send one per message")
            tree = elements[0]
        if not isinstance(tree, dict):
            raise BadValue(f"expected a JSON object, found {'nothing or null' if tree is None else shown(tree)}")
        return tree

    def _is_wanted(self, payload: dict[str, Node]) -> bool:
        for member, pattern in self._settings.filters:
            if member not in payload:
                raise bad(f"is missing, but '{member}.include' asks for it", member)
            value = payload[member]
            text = "null" if value is None else "" if isinstance(value, dict | list) else self._text(value)
            if not pattern.fullmatch(text):
                return False
        return True

    def _operation(self, text: str | None, root: dict[str, Node]) -> Operation:
        name = self._envelope.operation
        found = self._envelope.operations.get(text) if text is not None else None
        if found is not None:
            return found
        known = ", ".join(f'"{known}"' for known in self._envelope.operations)
        if text is not None:
            raise bad(f"unknown value {shown(text)}; known are {known}, in this spelling", self._path(name))
        hint = ""
        if self._envelope.wrappable and not self._settings.wrapped and "payload" in root:
            hint = ". The message has a payload: if its connector adds schemas, set 'schema-include' to true"
        raise bad(f"is missing or null; it must be one of {known}{hint}", self._path(name))

    def _metadata_values(self, bound: Change, outer: Change) -> list[Any]:
        values = []
        for column in self._metadata:
            if not column.outside:
                read = bound[self._places[column.member]]
            else:
                read = outer[self._outer_places[column.member]] if self._settings.wrapped else None
            values.append(None if read is None else column.value(read))
        return values

    # --- rows ------------------------------------------------------------------------------------------

    def _rows(self, operation: Operation, bound: Change, payload: Any) -> Iterator[tuple[int, Change]]:
        before, after = bound[:2]
        if self._envelope.many:
            yield from self._many(operation, before, after, payload)
        elif operation is Operation.INSERT:
            yield INSERT, self._present(after, self._envelope.after, operation)
        elif operation is Operation.DELETE:
            deleted = after if self._envelope.deleted == self._envelope.after else before
            yield DELETE, self._present(deleted, self._envelope.deleted, operation)
        else:
            old = self._present(before, self._envelope.before, operation)
            new = self._present(after, self._envelope.after, operation)
            yield UPDATE_BEFORE, self._whole(old, new, payload[self._envelope.before])
            yield UPDATE_AFTER, new

    def _many(
        self, operation: Operation, before: list[Any] | None, after: list[Any] | None, payload: Any
    ) -> Iterator[tuple[int, Change]]:
        """The rows of arrays, pair by pair."""
        new_name, old_name = self._envelope.after, self._envelope.before
        rows = self._present(after, new_name, operation)
        olds = self._present(before, old_name, operation) if operation is Operation.UPDATE and rows else ()
        for index, row in enumerate(rows):
            new = self._present(row, f"{new_name}[{index}]", operation)
            if operation is not Operation.UPDATE:
                yield INSERT if operation is Operation.INSERT else DELETE, new
                continue
            if index >= len(olds):
                raise bad(
                    f"has {len(olds)} rows, but '{new_name}' has {len(rows)}: an UPDATE needs an old row for each",
                    self._path(old_name),
                )
            old = self._present(olds[index], f"{old_name}[{index}]", operation)
            yield UPDATE_BEFORE, self._whole(old, new, payload[old_name][index])
            yield UPDATE_AFTER, new

    def _whole(self, old: Change, new: Change, node: dict[str, Node]) -> Change:
        """The row before an update: what was not changed is as in the new row."""
        if not self._envelope.partial:
            return old
        return tuple(o if name in node else n for name, o, n in zip(self._names, old, new, strict=True))

    def _present(self, rows: Any, member: str, operation: Operation) -> Any:
        if rows is None:
            remedy = self._envelope.remedy if member.partition("[")[0] == self._envelope.before else ""
            raise bad(f"is missing or null, but {_A[operation]} needs it{remedy}", self._path(member))
        return rows

    def _path(self, member: str) -> str:
        return f"payload.{member}" if self._settings.wrapped else member


_A = {Operation.INSERT: "an insert", Operation.UPDATE: "an update", Operation.DELETE: "a deletion"}


def _row(members: dict[str, FlinkType]) -> FlinkType:
    return FlinkType("ROW", fields=tuple(FlinkField(name, t) for name, t in members.items()))
