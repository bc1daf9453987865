"""Columns of a source that its user declares: `table.columns`, and which members of keys and values are columns.

    table.columns          key_id INT NOT NULL, val_name STRING, part BIGINT METADATA FROM 'partition'
    key.fields             key_id             the member `id` of keys
    key.fields-prefix      key_
    value.fields-prefix    val_               the member `name` of values; other members become columns as they come

Rules: Flink's `KafkaConnectorOptionsUtil`. A key column without a declared type gets it from the keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.errors import ConfigurationError, OptionError, add_context, did_you_mean
from kvformat.registry.contract.types import FlinkType, nullable
from kvformat.registry.sql.column_list import parse_column_list
from kvformat.registry.sql.table_definition import TableColumn
from kvformat.registry.table.metadata import READABLE, VALUE_PREFIX, castable

METADATA: Mapping[str, str] = {
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP_LTZ(3)",
    "timestamp-type": "STRING",
    "headers": "MAP<STRING, BYTES>",
}
"""The metadata of a record that columns may have, and their types in `metadata.list`."""
LEADER_EPOCH = "leader-epoch"
_COLUMNS, _KEY_FIELDS, _INCLUDE = "table.columns", "key.fields", "value.fields-include"
_KEY_PREFIX, _VALUE_PREFIX = "key.fields-prefix", "value.fields-prefix"
_POSITIONAL = ("csv", "raw")  # formats whose messages do not name their columns


@dataclass(frozen=True)
class DeclaredColumns:
    """The columns that each table of a source has from its beginning; by default none.

    names: all of them, in order. key, value: types of members of keys and values, by their names in the messages.
    fixed: types of members of values, if they are there: those of `value`, and of key columns that values may have.
    metadata: the metadata columns by name. not_null: columns of messages that are NULL in no row. key_members: the
    members of keys that are columns, None for all. left_out: members of values that are not columns.
    """

    names: tuple[str, ...] = ()
    key: Mapping[str, FlinkType] = field(default_factory=dict)
    value: Mapping[str, FlinkType] = field(default_factory=dict)
    fixed: Mapping[str, FlinkType] = field(default_factory=dict)
    metadata: Mapping[str, TableColumn] = field(default_factory=dict)
    not_null: frozenset[str] = frozenset()
    key_members: frozenset[str] | None = None
    left_out: frozenset[str] = frozenset()

    def is_column(self, part: str, member: str) -> bool:
        """Whether a member of keys (`part` is `key`) or of values is a column."""
        if part == "key":
            return self.key_members is None or member in self.key_members
        return member not in self.left_out


def parse_declared(values: Mapping[str, Any], value_format: str) -> DeclaredColumns:
    """Check the options of declared columns.

    `values` are the parsed options of a source, `value_format` is the name of its format. Raises `OptionError`.
    """
    columns = _columns(values[_COLUMNS])
    fields: tuple[str, ...] | None = values[_KEY_FIELDS]
    key_prefix, value_prefix = values[_KEY_PREFIX] or "", values[_VALUE_PREFIX] or ""
    _check_key_fields(fields, values, columns, key_prefix)
    members = None if fields is None else {name: _member(_KEY_PREFIX, name, key_prefix) for name in fields}
    metadata = {column.name: column for column in columns if column.kind == "metadata"}
    for column in metadata.values():
        _check_metadata(column)
    key: dict[str, FlinkType] = {}
    value: dict[str, FlinkType] = {}
    fixed: dict[str, FlinkType] = {}
    for column in columns:
        if column.kind != "physical" or column.type is None:
            continue
        if members is not None and column.name in members:
            key[members[column.name]] = nullable(column.type)
            if values[_INCLUDE] == "ALL" and column.name.startswith(value_prefix):
                fixed[column.name.removeprefix(value_prefix)] = nullable(column.type)
        else:
            value[_member(_VALUE_PREFIX, column.name, value_prefix)] = nullable(column.type)
    if value and value_format in _POSITIONAL:
        raise OptionError(
            f"source: '{_COLUMNS}': the messages of '{value_format}' do not name their columns, so they can't be "
            "declared here. To keep one declared table current, use KafkaTable.maintain",
            option=_COLUMNS,
        )
    left_out = [n.removeprefix(value_prefix) for n in members or () if n.startswith(value_prefix)]
    return DeclaredColumns(
        tuple(column.name for column in columns),
        key,
        value,
        {**fixed, **value},
        metadata,
        frozenset(c.name for c in columns if c.kind == "physical" and c.type is not None and not c.type.nullable),
        None if members is None else frozenset(members.values()),
        frozenset(left_out if values[_INCLUDE] == "EXCEPT_KEY" else ()),
    )


def _columns(text: str | None) -> tuple[TableColumn, ...]:
    if text is None:
        return ()
    try:
        return parse_column_list(text)
    except ConfigurationError as error:
        raise add_context(error, f"source: option '{_COLUMNS}': ", option=_COLUMNS) from None


def _check_key_fields(
    fields: tuple[str, ...] | None, values: Mapping[str, Any], columns: tuple[TableColumn, ...], prefix: str
) -> None:
    if values["key.format"] is None:
        if fields is not None:
            raise OptionError(f"source: '{_KEY_FIELDS}' needs 'key.format'", option=_KEY_FIELDS)
        return
    if fields is None:
        if values[_INCLUDE] == "EXCEPT_KEY":
            raise OptionError(
                f"source: '{_INCLUDE}' = 'EXCEPT_KEY' needs '{_KEY_FIELDS}', the columns of the key", option=_INCLUDE
            )
        return
    kinds = {column.name: column.kind for column in columns}
    for name in fields:
        if kinds.get(name, "physical") != "physical":
            raise OptionError(
                f"source: '{_KEY_FIELDS}': column '{name}' is metadata of the record, not a column of its key",
                option=_KEY_FIELDS,
            )
        if not name.startswith(prefix):
            raise OptionError(
                f"source: '{_KEY_FIELDS}': '{name}' does not begin with '{_KEY_PREFIX}' = '{prefix}', as all columns "
                "of the key must",
                option=_KEY_FIELDS,
            )


def _member(option: str, name: str, prefix: str) -> str:
    """Return the name of a column in the messages."""
    if not name.startswith(prefix):
        raise OptionError(
            f"source: '{_COLUMNS}': column '{name}' does not begin with '{option}' = '{prefix}', as all columns of the "
            "value must",
            option=option,
        )
    member = name.removeprefix(prefix)
    if not member.strip():
        raise OptionError(f"source: column '{name}' has no name without '{option}' = '{prefix}'", option=option)
    return member


def _check_metadata(column: TableColumn) -> None:
    where = f"source: '{_COLUMNS}': column '{column.name}'"
    if column.key not in METADATA:
        why = "is unknown"
        if column.key == LEADER_EPOCH:
            why = "is not in Spark's Kafka source"
        elif column.key.startswith(VALUE_PREFIX):
            why = "belongs to a format, and only that of the record can be a column here"
        raise OptionError(
            f"{where}: the metadata '{column.key}' {why}.{did_you_mean(column.key, METADATA)} Metadata: "
            f"{', '.join(METADATA)}",
            option=_COLUMNS,
        )
    readable = READABLE[column.key].removesuffix(" NOT NULL")
    declared = column.type
    assert declared is not None
    if declared.root == "TIME" or not castable(parse_type(readable), declared):
        raise OptionError(
            f"{where}: metadata '{column.key}' is {readable}, which can't be read as {declared}", option=_COLUMNS
        )
