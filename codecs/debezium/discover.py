"""Looks at Debezium's JSON messages: changes, rows without an envelope (`flattened`), and keys of records.

The schema of a message declares the types of its columns. With `types` = `debezium` they are Debezium's own; otherwise
they are the types by which Flink's format reads the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvformat.codecs.changes.discover import (
    ChangeLayout,
    ChangeLooker,
    Declared,
    KernelShape,
    Object,
    is_text,
    value_rules,
)
from kvformat.codecs.changes.unchanged import placeholder_of
from kvformat.codecs.debezium.connect_schema import ConnectSchema, image_schema_from_json
from kvformat.codecs.debezium.connect_types import connect_fields
from kvformat.codecs.debezium.envelopes import CHANGE, ROW_ALONE
from kvformat.codecs.debezium.options import DEBEZIUM, FLATTENED
from kvformat.codecs.debezium.own_types import MARKS, type_of_connect
from kvformat.codecs.discovery.column_types import Notes
from kvformat.codecs.discovery.deletions import DeletionTables
from kvformat.registry.contract.look import LookRequest, TableName
from kvformat.registry.contract.types import FlinkType

if TYPE_CHECKING:
    from kvformat.codecs.changes.format import JsonChangeFormat


def debezium_looker(format: JsonChangeFormat, request: LookRequest) -> ChangeLooker:
    """Return the looker of format debezium-json."""
    flat, wrapped = bool(format.options[FLATTENED.name]), bool(format.options["schema-include"])
    placeholder = placeholder_of(format.options)
    layout = ChangeLayout(
        table=_row_table if flat else _source_table,
        values=value_rules(format, request),
        declared=_Declared(flat=flat, typed=format.options["types"] == DEBEZIUM),
        trusted=format.options["types"] == DEBEZIUM,
        wrapped=wrapped,
        shape=None
        if flat
        else KernelShape(
            ("db", "schema", "table"),
            source="source",
            optional=True,
            others=("transaction", "ts_ms", "ts_us", "ts_ns"),
        ),
        hidden=frozenset(MARKS),
        placeholder=None if placeholder is None else placeholder.decode(errors="replace"),
        deletions=DeletionTables(request.known) if flat else None,
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
        schema = message.get("schema")
        if self._typed:
            image = image_schema_from_json(schema, flat=self._flat)
            if image is None:
                return None
            return connect_types(image)
        fields = schema.get("fields") if isinstance(schema, dict) else None
        if not self._flat:
            structs = (
                {str(f.get("field")): f for f in fields if isinstance(f, dict)} if isinstance(fields, list) else {}
            )
            fields = (structs.get("after") or structs.get("before") or {}).get("fields")
        return connect_fields(fields, "", Notes())


def connect_types(image: ConnectSchema) -> dict[str, FlinkType]:
    """Return the types of the columns of a row's schema. The precision of TIME says the unit of its values."""
    types = {name: type_of_connect(part) for name, part in image.fields.items()}
    nanos = (name for name, part in image.fields.items() if part.name == "io.debezium.time.NanoTime")
    return types | dict.fromkeys(nanos, FlinkType("TIME", precision=9))


def _source_table(change: Object, topic: str) -> TableName | None:
    """Return `source.db`, `source.schema` and `source.table`, without those that are missing or null."""
    source = change.get("source")
    if not isinstance(source, dict) or not is_text(source.get("table")):
        return None
    parts = [source.get(name) for name in ("db", "schema")]
    if any(part not in (None, "") and not is_text(part) for part in parts):
        return None
    return (*(str(part) for part in parts if part), str(source["table"]))


def _row_table(row: Object, topic: str) -> TableName | None:
    """Return the table of a row without an envelope by its members `__db`, `__schema`, `__table`."""
    return row_table([row.get(name) for name in ("__db", "__schema", "__table")], topic)


def row_table(parts: Sequence[object], topic: str) -> TableName:
    """Return the table of a row without an envelope: the parts that the transform adds, or else the topic.

    A table's name alone may be that of two schemas, so the topic is the table then. On a topic of another name, which
    may have several tables, it is the topic and the name.
    """
    found = tuple(str(part) for part in parts if is_text(part))
    if not is_text(parts[-1]):
        return (topic,)
    if len(found) > 1:
        return found
    return (topic,) if topic.split(".")[-1] == found[0] else (topic, *found)


def _topic(row: Object, topic: str) -> TableName | None:
    return (topic,)
