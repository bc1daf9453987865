"""Looks at Debezium's JSON messages: changes, rows without an envelope (`flattened`), and keys of records.

The schema of a message declares the types of its columns. With `types` = `debezium` they are Debezium's own; otherwise
they are the types by which Flink's format reads the values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kvformat.codecs.changes.discover import ChangeLayout, ChangeLooker, Declared, KernelShape, Object, value_rules
from kvformat.codecs.changes.unchanged import placeholder_of
from kvformat.codecs.debezium.connect_schema import image_schema_from_json
from kvformat.codecs.debezium.connect_types import flink_types, own_types
from kvformat.codecs.debezium.envelopes import CHANGE, ROW_ALONE
from kvformat.codecs.debezium.options import DEBEZIUM, FLATTENED
from kvformat.codecs.debezium.other_messages import OTHER_MEMBERS
from kvformat.codecs.debezium.own_types import MARKS
from kvformat.codecs.debezium.table_names import fields_table, row_table, source_table
from kvformat.codecs.discovery.column_types import Notes
from kvformat.codecs.discovery.deletions import DeletionTables
from kvformat.codecs.json.discover import TABLE_FIELDS
from kvformat.registry.contract.look import LookRequest, TableName

if TYPE_CHECKING:
    from kvformat.codecs.changes.format import JsonChangeFormat


def debezium_looker(format: JsonChangeFormat, request: LookRequest) -> ChangeLooker:
    """Return the looker of format debezium-json."""
    flat, wrapped = bool(format.options[FLATTENED.name]), bool(format.options["schema-include"])
    placeholder = placeholder_of(format.options)
    fields = request.options.get(TABLE_FIELDS)
    layout = ChangeLayout(
        table=_table(flat, [name.strip() for name in fields.split(",")] if fields else []),
        values=value_rules(format, request),
        declared=_Declared(flat=flat, typed=format.options["types"] == DEBEZIUM),
        trusted=format.options["types"] == DEBEZIUM,
        wrapped=wrapped,
        shape=None
        if flat or fields
        else KernelShape(
            ("db", "schema", "table"), source="source", optional=True, others=("transaction", "ts_ms", "ts_us", "ts_ns")
        ),
        hidden=frozenset(MARKS),
        placeholder=None if placeholder is None else placeholder.decode(errors="replace"),
        deletions=DeletionTables(request.known) if flat else None,
        other_members=OTHER_MEMBERS,
        no_table_advice=f". '{format.identifier}.{TABLE_FIELDS}' names other members",
    )
    return ChangeLooker(format, ROW_ALONE if flat else CHANGE, request, layout)


def key_looker(format: JsonChangeFormat, request: LookRequest) -> ChangeLooker:
    """Return the looker of keys that Debezium's connectors write. Each key tells whether it has a schema."""
    typed = format.options["types"] == DEBEZIUM
    layout = ChangeLayout(
        table=_topic,
        values=value_rules(format, request),
        declared=_Declared(flat=True, typed=typed),
        trusted=typed,
        wrapped=None,
    )
    return ChangeLooker(format, ROW_ALONE, request, layout)


class _Declared:
    """Finds the types that the schema of a message declares."""

    def __init__(self, *, flat: bool, typed: bool) -> None:
        self._flat, self._typed = flat, typed

    def __call__(self, message: Object, envelope: Object) -> Declared | None:
        """Return the types of the columns, None if the message has no schema."""
        if message is envelope:
            return None
        image = image_schema_from_json(message.get("schema"), flat=self._flat)
        if self._typed:
            return None if image is None else own_types(image)
        return flink_types(image, Notes())


def _table(flat: bool, fields: Sequence[str]) -> Callable[[Object, str], TableName | None]:
    """Return the function that finds the table of a message; `fields` are the members that a user names."""

    def by_fields(change: Object, topic: str) -> TableName | None:
        source = change if flat else change.get("source")
        return fields_table(source, fields) if isinstance(source, dict) else None

    def by_source(change: Object, topic: str) -> TableName | None:
        source = change.get("source")
        return source_table(source, topic) if source is not None or type(change.get("op")) is str else None

    return by_fields if fields else row_table if flat else by_source


def _topic(row: Object, topic: str) -> TableName | None:
    return (topic,)
