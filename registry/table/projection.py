"""Select the columns of a table that are in the key and in the value, and their names there.

    key    the columns of `key.fields`, in that order, without `key.fields-prefix`
    value  all physical columns, or all but the key's, in the table's order, without `value.fields-prefix`

Rules: Flink's `KafkaConnectorOptionsUtil.createKeyFormatProjection` and `createValueFormatProjection`; for the names of
repeated columns `Projection.project`; the prefix of value columns is Ververica's.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from kvformat.registry.contract.errors import OptionError, SchemaError, did_you_mean, listed
from kvformat.registry.contract.types import FlinkField, FlinkType
from kvformat.registry.sql.table_definition import TableDefinition
from kvformat.registry.table.record_layout import RecordLayout


def key_columns(physical: FlinkType, fields: Sequence[str] | None, prefix: str, *, has_format: bool) -> tuple[int, ...]:
    """Return the indexes of the key columns in the table, in the order of `key.fields`.

    `fields` is `key.fields`, None if it is not set; `has_format` is whether the table has a key format. Raises
    `OptionError`, in Flink's order and with its messages.
    """
    if fields is not None and not has_format:
        raise OptionError(
            "The option 'key.fields' can only be declared if a key format is defined using 'key.format'.",
            option="key.fields",
        )
    if has_format and not fields:
        raise OptionError(
            "A key format 'key.format' requires the declaration of one or more of key fields using 'key.fields'.",
            option="key.fields",
        )
    names = {field.name: i for i, field in enumerate(physical.fields)}
    for name in fields or ():
        if name not in names:
            parts = [part.strip() for part in name.split(",")]
            several = len(parts) > 1 and all(part in names for part in parts)
            hint = f" Separate columns by ';': '{';'.join(parts)}'." if several else did_you_mean(name, names)
            raise OptionError(
                f"Could not find the field '{name}' in the table schema for usage in the key format. A key field must "
                f"be a regular, physical column.{hint} The following columns can be selected in the 'key.fields' "
                f"option: [{', '.join(names)}]",
                option="key.fields",
            )
        if not name.startswith(prefix):
            raise OptionError(
                f"All fields in 'key.fields' must be prefixed with '{prefix}' when option 'key.fields-prefix' is set "
                f"but field '{name}' is not prefixed.",
                option="key.fields-prefix",
            )
    return tuple(names[name] for name in fields or ())


def value_columns(
    physical: FlinkType, key: Sequence[int], include: str, key_prefix: str, value_prefix: str
) -> tuple[int, ...]:
    """Return the indexes of the value columns in the table, without those of the key if `include` is EXCEPT_KEY.

    `include` is `value.fields-include`. Raises `OptionError`.
    """
    if include == "ALL" and key_prefix:
        raise OptionError(
            "A key prefix is not allowed when option 'value.fields-include' is set to 'ALL'. Set it to 'EXCEPT_KEY' "
            "instead to avoid field overlaps. ('key.fields-prefix')",
            option="key.fields-prefix",
        )
    left_out = frozenset() if include == "ALL" else frozenset(key)
    indexes = tuple(i for i in range(len(physical.fields)) if i not in left_out)
    if not value_prefix:
        return indexes
    if key_prefix and (key_prefix.startswith(value_prefix) or value_prefix.startswith(key_prefix)):
        raise OptionError(
            f"'value.fields-prefix' = '{value_prefix}' and 'key.fields-prefix' = '{key_prefix}': neither may be a "
            "prefix of the other",
            option="value.fields-prefix",
        )
    for i in indexes:
        if not physical.fields[i].name.startswith(value_prefix):
            raise OptionError(
                f"All value columns must be prefixed with '{value_prefix}' when option 'value.fields-prefix' is set "
                f"but field '{physical.fields[i].name}' is not prefixed.",
                option="value.fields-prefix",
            )
    return indexes


def projected(physical: FlinkType, indexes: Sequence[int], prefix: str) -> FlinkType:
    """Return the columns at these indexes as a ROW, without their prefix.

    A column that is selected again gets another name, like in Flink, where one number counts the repeats of all
    columns: `id`, `id_$0`, `v`, `v_$1`. Raises `SchemaError` for a name that is empty without its prefix.
    """
    fields: list[FlinkField] = []
    seen: set[str] = set()
    repeats = itertools.count()
    for i in indexes:
        full = name = physical.fields[i].name
        while name in seen:
            name += f"_${next(repeats)}"
        seen.add(name)
        stripped = name[len(prefix) :]
        if not stripped.strip():
            raise SchemaError(
                f"column '{full}' without the prefix '{prefix}': Field names must contain at least one non-whitespace "
                "character.",
                field=full,
            )
        fields.append(FlinkField(stripped, physical.fields[i].type))
    return replace(physical, nullable=False, fields=tuple(fields))


def only_columns(table: TableDefinition, layout: RecordLayout, names: Sequence[str]) -> TableDefinition:
    """Return the table for reading these columns only; `KeyValueFormat.only` says which others stay.

    Raises `SchemaError` for a column that the table does not have.
    """
    known = [column.name for column in table.columns]
    for name in names:
        if name not in known:
            raise SchemaError(
                f"table '{table.name}' has no column '{name}'.{did_you_mean(name, known)} It has {listed(known)}",
                field=name,
            )
    kept = {*names, *(table.primary_key or ()), *(layout.physical.fields[i].name for i in layout.key_indexes)}
    kept |= set() if table.watermark is None else {table.watermark.column}
    is_computed = any(column.kind == "computed" and column.name in kept for column in table.columns)
    of_value = {layout.physical.fields[i].name for i in layout.value_indexes}
    if is_computed:
        kept |= {column.name for column in table.columns if column.kind != "computed"}
    elif not layout.value_format.reads_by_name or not of_value & kept:
        kept |= of_value
    return replace(table, columns=tuple(column for column in table.columns if column.name in kept))
