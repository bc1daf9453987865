"""The table of a message of Debezium: by the names in `source`, or those that `add.fields` puts beside a row's columns.

    MySQL, TiCDC           db, table
    PostgreSQL, Oracle     db, schema, table
    MongoDB                db, collection
    Vitess                 keyspace, table            db is "" there
    Spanner                database_id, table
    Cassandra              keyspace_name, table_name

A name that lacks the database is that of several tables, so it is none: the record is bad. Flink CDC writes null for
the database of a table without one. A message without `source` is of the table of its topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kvformat.codecs.discovery.column_types import is_text_name
from kvformat.registry.contract.look import TableName

DATABASES: Final = ("db", "keyspace", "database_id", "keyspace_name")
TABLES: Final = ("table", "collection", "table_name")
SCHEMA: Final = "schema"
NAMES: Final = (*DATABASES, SCHEMA, *TABLES)
_PREFIXES = ("__", "__source_")
"""In front of the names that `add.fields` adds, for `table` and for `source.table`."""
ADDED_DATABASES, ADDED_SCHEMAS, ADDED_TABLES = (
    tuple(prefix + name for prefix in _PREFIXES for name in names) for names in (DATABASES, (SCHEMA,), TABLES)
)
ADDED: Final = (*ADDED_DATABASES, *ADDED_SCHEMAS, *ADDED_TABLES)
_PARTS = 3  # of a topic of Debezium: the prefix, the database or schema, the table


def source_table(source: object, topic: str) -> TableName | None:
    """Return the table that a message's `source` names, that of the topic without `source`; None for no table."""
    if source is None:
        return (topic,)
    if not isinstance(source, Mapping):
        return None
    table = _first(source, TABLES)
    database = _first(source, DATABASES)
    schema = source.get(SCHEMA)
    if not is_text_name(table) or any(part not in (None, "") and not is_text_name(part) for part in (database, schema)):
        return None
    if database in (None, "") and not schema and not ("db" in source and source["db"] is None):
        return None
    return tuple(str(part) for part in (database, schema, table) if part)


def row_table(row: Mapping[str, object], topic: str) -> TableName:
    """Return the table of a row without an envelope: the names that the transform adds, or else the topic.

    A name that lacks a part may be that of several tables, so the topic completes it. Without the name of the table,
    the topic is the table, after the parts that it does not have. A table's name alone is that of the topic; on a
    topic of another name, which may have several tables, it is the topic and the name. A topic with a schema between
    its prefix and the table gives the schema.
    """
    added = (_first(row, names) for names in (ADDED_DATABASES, ADDED_SCHEMAS, ADDED_TABLES))
    database, schema, table = (str(part) if is_text_name(part) else "" for part in added)
    parts = topic.split(".")
    if not table:
        return (*(part for part in (database, schema) if part and part not in parts), topic)
    if not database and not schema:
        return (topic,) if parts[-1] == table else (topic, table)
    if not schema and len(parts) >= _PARTS and parts[-1] == table and parts[-2] != database:
        schema = parts[-2]
    return tuple(part for part in (database, schema, table) if part)


def fields_table(source: Mapping[str, object], fields: Sequence[str]) -> TableName | None:
    """Return the table that these members name; None if one of them is not a text."""
    parts = [source.get(name) for name in fields]
    return tuple(map(str, parts)) if all(map(is_text_name, parts)) else None


def _first(source: Mapping[str, object], names: Sequence[str]) -> object:
    """Return the first value that is there and not empty; None if there is none."""
    return next((value for name in names if (value := source.get(name)) not in (None, "")), None)
