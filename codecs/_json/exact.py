"""Messages of JSON to rows, one by one, exactly as Flink reads them: the path for everything the fast one refuses.

A document is read into a tree and the tree is bound to the schema. Where Flink's streaming reader gets out of step
with the document (it goes on inside of a value of the wrong kind), the tree decides; but where that makes it fail, the
message is an error here, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kvformat.codecs._json.scalars import (
    BadValue,
    Converter,
    MissingField,
    Rules,
    scalar_converter,
    shown,
    unreadable,
)
from kvformat.codecs._json.settings import ReadSettings
from kvformat.codecs._json.streaming import StreamingModel
from kvformat.codecs._json.syntax import JsonFault, JsonParser, Node, Repeated
from kvformat.codecs._scalars import clean
from kvformat.codecs._two_paths import Row, map_value_type
from kvformat.registry.errors import SchemaError
from kvformat.registry.types import FlinkType

__all__ = ["BadValue", "ExactReader", "JsonFault"]

_ABSENT: Any = object()


class ExactReader:
    """Reads messages as rows of a schema.

    A row is a tuple of values in column order, in the forms that `to_arrow` takes. Raises `SchemaError` for a MAP or
    MULTISET whose key is no text. Made once per schema: the converters of all types are put together here.
    """

    def __init__(self, row: FlinkType, settings: ReadSettings) -> None:
        for path, t in row.walk():
            if t.root in ("MAP", "MULTISET") and t.fields[0].type.root not in ("CHAR", "VARCHAR"):
                raise SchemaError(
                    f"JSON format doesn't support non-string as key type of map. The type is: {t}", field=path
                )
        self._settings = settings
        roots = {t.root for _, t in row.walk()}
        self._parser = JsonParser(  # of a repeated name the streaming reader reads every value, and may fail at each
            keep_repeats=settings.streaming and not settings.lenient,
            decimals=not settings.streaming and "DECIMAL" in roots,
        )
        rules = Rules(settings.streaming, settings.iso, "DECIMAL" in roots)
        self._row = _Compiler(settings, rules).row(row)
        self._row_in_step, self._model = self._row, None
        if settings.streaming and not settings.lenient:
            self._row_in_step = _Compiler(settings, replace(rules, in_step=True)).row(row)
            self._model = StreamingModel(row, rules, fail_on_missing=settings.fail_on_missing)

    def read(self, message: bytes | None) -> tuple[list[Row] | None, str | None]:
        """The rows of a message and None, or None and what is wrong with it.

        No rows mean that the message is skipped; both are None for a null message. Never raises.
        """
        if message is None:
            return None, None
        if not message:
            return [], None
        try:
            tree = self.parse(message)
        except JsonFault as fault:
            if not self._settings.lenient:
                return None, f"not JSON: {fault}"
            elements = self._parser.elements_before_fault(message) if self._settings.streaming else []
            return self._rows(elements, self._row), None
        try:
            if isinstance(tree, dict | list):
                return self._bind_all(tree), None
        except BadValue as bad:
            return None, str(bad)
        if self._settings.lenient or (tree is None and not self._settings.streaming):
            return [], None
        found = "nothing or null" if tree is None else shown(tree)
        return None, f"expected a JSON object or an array of objects, found {found}"

    def parse(self, message: bytes) -> Node:
        """The tree of a message, None for `null` and for blanks; raises `JsonFault` when it is not JSON."""
        return self._parser.parse(message)

    def bind(self, node: Node) -> Row | None:
        """The row of one JSON object of a tree; None for None.

        Raises `BadValue`: if lenient, only for what is no object.
        """
        if node is None:
            return None
        row: Row = self._row(node)
        return row

    def _bind_all(self, tree: dict[str, Node] | list[Node]) -> list[Row]:
        """The rows of an object or of an array of objects."""

        def rows(convert: Converter) -> list[Row]:
            return [convert(tree)] if isinstance(tree, dict) else self._rows(tree, convert)

        try:
            return rows(self._row_in_step)
        except BadValue as bad:
            if not bad.doubtful or self._model is None or self._model.fails(tree):
                raise
        return rows(self._row)

    def _rows(self, elements: list[Node], convert: Converter) -> list[Row]:
        """One row per object of a top-level array; nulls are skipped, and if lenient all that is no object."""
        rows = []
        for index, element in enumerate(elements):
            if element is None or (self._settings.lenient and not isinstance(element, dict)):
                continue
            try:
                rows.append(convert(element))
            except BadValue as bad:
                bad.steps.append(index)
                raise
        return rows


class _Compiler:
    """Makes the converter of each type: a function of a tree node that is not None.

    A converter raises ValueError for a node it can't take. The container around it answers with null, if lenient, or
    makes it a `BadValue` that knows the field.
    """

    def __init__(self, settings: ReadSettings, rules: Rules) -> None:
        self._settings, self._rules = settings, rules

    def converter(self, t: FlinkType) -> Converter:
        if t.root == "ROW":
            return self.row(t)
        if t.root == "ARRAY":
            return self.array(t)
        if t.root in ("MAP", "MULTISET"):
            return self.map(t)
        return scalar_converter(t, self._rules)

    def member(self, t: FlinkType) -> Converter:
        """The converter of a type as a member of a container."""
        convert = self.converter(t)
        return _lenient(convert) if self._settings.lenient else convert

    def row(self, t: FlinkType) -> Converter:
        members = [(field.name, self.member(field.type)) for field in t.fields]
        converters, types = dict(members), {field.name: field.type for field in t.fields}
        absent, in_step = _ABSENT if self._settings.fail_on_missing else None, self._rules.in_step

        def read(node: Node) -> Row:
            if not isinstance(node, dict):
                raise unreadable(node, t)
            if in_step and type(node) is Repeated:
                check_repeats(node)
            get = node.get
            values: list[Any] = []
            append = values.append
            try:
                for name, convert in members:
                    value = get(name, absent)
                    if value is None:
                        append(None)
                    elif value is _ABSENT:
                        raise MissingField
                    else:
                        append(convert(value))
            except ValueError as fault:
                raise _located(fault, name, value, types[name]) from None
            return tuple(values)

        def check_repeats(node: Repeated) -> None:
            for name, value in node.members:
                if value is not None and name in converters:
                    try:
                        converters[name](value)
                    except ValueError as fault:
                        bad = _located(fault, name, value, types[name])
                        bad.doubtful = True
                        raise bad from None

        return read

    def array(self, t: FlinkType) -> Converter:
        element_type = t.fields[0].type
        convert = self.member(element_type)

        def read(node: Node) -> list[Any]:
            if not isinstance(node, list):
                raise unreadable(node, t)
            values: list[Any] = []
            try:
                for element in node:
                    values.append(None if element is None else convert(element))
            except ValueError as fault:
                raise _located(fault, len(values), element, element_type) from None
            return values

        return read

    def map(self, t: FlinkType) -> Converter:
        value_type = map_value_type(t)
        convert = self.member(value_type)

        def read(node: Node) -> list[tuple[str, Any]]:
            if not isinstance(node, dict):
                raise unreadable(node, t)
            members: Iterable[tuple[str, Node]] = node.members if isinstance(node, Repeated) else node.items()
            entries: dict[str, Any] = {}
            try:
                for key, value in members:
                    entries[clean(key)] = None if value is None else convert(value)
            except ValueError as fault:
                raise _located(fault, key, value, value_type) from None
            return list(entries.items())

        return read


def _lenient(convert: Converter) -> Converter:
    def read(value: Node) -> Any:
        try:
            return convert(value)
        except ValueError:
            return None

    return read


def _located(fault: ValueError, step: str | int, value: Node, t: FlinkType) -> BadValue:
    """The fault of a member, with the step that leads to it."""
    bad = fault if isinstance(fault, BadValue) else unreadable(value, t)
    bad.steps.append(step)
    return bad
