"""Fit a table's rows to a schema that was not derived from the table, such as one that others have registered.

Columns and fields are matched by name, in any order and at every level. A field without a column gets its default. The
schema may have other types than Flink would derive:

| column | types of the schema |
| --- | --- |
| TINYINT, SMALLINT, INT | int, long, float, double |
| BIGINT | long, float, double |
| FLOAT / DOUBLE / BOOLEAN | float, double / double / boolean |
| CHAR, VARCHAR | string, enum |
| VARIANT | string, for its JSON text |
| BINARY, VARBINARY | bytes, fixed |
| DECIMAL(p, s) | bytes or fixed with a decimal that has as many digits before and after the decimal point, or more |
| DATE / TIME | date / time-millis, time-micros |
| TIMESTAMP | local-timestamp of any unit; with legacy timestamps, timestamp of any unit |
| TIMESTAMP_LTZ | timestamp of any unit |
| ARRAY / MAP of text keys, MULTISET of text / ROW | array / map / record |

All of them may be in a union, with null at any place. Of the types of a union, a column gets the first one of its list
above; several records, enums or fixed that fit are an error. If the schema itself is a union, a name chooses the type
of the rows.

Values are checked when they are written: an unknown symbol, bytes of another length than the fixed, a number or a time
that would lose digits, and null in a field that is not nullable are errors of their row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kvformat.codecs.avro.logical import TIMES
from kvformat.codecs.avro.parse import joined
from kvformat.codecs.avro.schema import BIG_DECIMAL, CONSTANT, MISSING, Field, Schema
from kvformat.codecs.avro.types import row_of_schema
from kvformat.codecs.avro.write_datum import BadDatum, write_default
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.errors import SchemaError, did_you_mean, listed
from kvformat.registry.contract.types import FlinkField, FlinkType

_WHOLE: Final = ("int", "long", "float", "double")
_TEXTS: Final = ("string", "enum")
_BYTES: Final = ("bytes", "fixed")
_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "BOOLEAN": ("boolean",),
    "TINYINT": _WHOLE,
    "SMALLINT": _WHOLE,
    "INT": _WHOLE,
    "BIGINT": _WHOLE[1:],
    "FLOAT": _WHOLE[2:],
    "DOUBLE": _WHOLE[3:],
    "CHAR": _TEXTS,
    "VARCHAR": _TEXTS,
    "VARIANT": ("string",),
    "BINARY": _BYTES,
    "VARBINARY": _BYTES,
    "DECIMAL": _BYTES,
    "DATE": ("int",),
    "TIME": ("int", "long"),
    "TIMESTAMP": ("long",),
    "TIMESTAMP_LTZ": ("long",),
    "ARRAY": ("array",),
    "MAP": ("map",),
    "MULTISET": ("map",),
    "ROW": ("record",),
}
"""The types of a schema that a column fits, the nearest first."""
_CHOOSE = " Set the option 'record-name' to the full name of the type to write"
_MOST_DIGITS = 38  # of a DECIMAL


@cached_by_identity
def fit(schema: Schema, row: FlinkType, legacy: bool, record: str | None = None) -> Schema:
    """Return the schema for writing rows of a type as data of `schema`.

    Its Arrow type has the columns in the order of the fields. Fields without a column, and the branches of unions that
    no value has, are of the type 'constant'.
    legacy: Flink's option `timestamp_mapping.legacy`, with which TIMESTAMP is `timestamp-*`.
    record: the full name of the type to write, if the schema is a union. None for the only one that fits.
    Raises `SchemaError` for a column without a field, for a field with neither a column nor a default, and for a column
    whose type does not fit its field.
    """
    return _union(schema, row, "", legacy, record) if schema.type == "union" else _fit(schema, row, "", legacy)


def _fit(schema: Schema, t: FlinkType, path: str, legacy: bool) -> Schema:
    if schema.type == "union":
        return _union(schema, t, path, legacy)
    if schema.type not in _TYPES.get(t.root, ()):
        raise _misfit(schema, t, path, legacy)
    if schema.type == "record":
        return replace(schema, fields=tuple(_fields(schema, t, path, legacy)))
    if schema.items is not None:
        return replace(schema, items=_fit(schema.items, t.fields[0].type, f"{path}.element", legacy))
    if schema.values is not None:
        if t.fields[0].type.root not in ("CHAR", "VARCHAR"):
            raise _misfit(schema, t, path, legacy)
        value = t.fields[1].type if t.root == "MAP" else FlinkType("INT")
        return replace(schema, values=_fit(schema.values, value, f"{path}.value", legacy))
    scalar = _scalar(schema, t, legacy)
    if scalar is None:
        raise _misfit(schema, t, path, legacy)
    return scalar


def _scalar(schema: Schema, t: FlinkType, legacy: bool) -> Schema | None:
    """Return the schema for writing a scalar, None if its logical type or its size does not fit."""
    logical = "" if schema.logical is None else schema.logical.name
    time = TIMES.get(logical)
    if t.root == "DECIMAL":
        return _decimal(schema, t)
    if t.root == "DATE":
        return schema if logical == "date" else None
    if t.root == "TIME":
        return schema if time is not None and time.quantity == "time" else None
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        if time is None or time.quantity != "timestamp":
            return None
        return schema if time.local == (t.root == "TIMESTAMP") or (legacy and not time.local) else None
    if schema.type in _WHOLE:
        number = row_of_schema(schema, legacy=legacy).root  # INT and BIGINT for a logical type that Flink ignores
        return replace(schema, logical=None) if number in ("INT", "BIGINT", "FLOAT", "DOUBLE") else None
    if schema.type not in _BYTES:
        return schema
    shortest = t.length if t.root == "BINARY" else 0
    never = schema.type == "fixed" and not (shortest or 0) <= schema.size <= (t.length or 1)
    return None if never or logical in ("decimal", BIG_DECIMAL) else schema


def _decimal(schema: Schema, t: FlinkType) -> Schema | None:
    """Return the schema for writing a DECIMAL, with no more digits than Arrow's decimals have."""
    if schema.logical is None or schema.logical.name != "decimal":
        return None
    before, after = (t.precision or 0) - (t.scale or 0), schema.logical.scale
    if after < (t.scale or 0) or before > schema.logical.precision - after or before + after > _MOST_DIGITS:
        return None
    return replace(schema, logical=replace(schema.logical, precision=min(schema.logical.precision, _MOST_DIGITS)))


def _union(schema: Schema, t: FlinkType, path: str, legacy: bool, record: str | None = None) -> Schema:
    names = [branch.full_name for branch in schema.branches]
    if record is not None and record not in names:
        raise SchemaError(f"the union {schema} has no type {record}.{did_you_mean(record, names)}{_CHOOSE}")
    types = _TYPES.get(t.root, ())
    fitting: dict[int, Schema] = {}
    refused: list[SchemaError] = []
    for index, branch in enumerate(schema.branches):
        if branch.type in types and record in (None, branch.full_name):
            try:
                fitting[index] = _fit(branch, t, path, legacy)
            except SchemaError as bad:
                refused.append(bad)
    if not fitting:
        why = refused[0] if len(refused) == 1 else _misfit(schema, t, path, legacy)
        if len(refused) > 1 and not path:
            raise SchemaError(f"{why}.{_CHOOSE}. Then the error says what does not fit")
        raise why
    nearest = min(types.index(branch.type) for branch in fitting.values())
    chosen = [index for index, branch in fitting.items() if types.index(branch.type) == nearest]
    if len(chosen) > 1:
        several = ", ".join(str(schema.branches[index]) for index in chosen)
        raise SchemaError(
            f"{_shown(path)} is {t.summary()}, which fits {len(chosen)} types of the union {schema} equally well: "
            f"{several}.{' Write such records with a schema that has one of them' if path else _CHOOSE}",
            field=path or None,
        )
    branches = [
        fitting[index]
        if index == chosen[0]
        else branch
        if branch.type == "null"
        else Schema(CONSTANT, branch.full_name)
        for index, branch in enumerate(schema.branches)
    ]
    return replace(schema, branches=tuple(branches))


def _fields(schema: Schema, t: FlinkType, path: str, legacy: bool) -> list[Field]:
    """Return the fields for writing a ROW as a record."""
    columns, fields = {column.name: column for column in t.fields}, {field.name: field for field in schema.fields}
    within = f" of {_shown(path)}" if path else ""
    unknown = [name for name in columns if name not in fields]
    if unknown:
        raise SchemaError(
            f"{schema} has no field for {_several('column', unknown)}{within}."
            f"{did_you_mean(unknown[0], [name for name in fields if name not in columns])} Its fields are "
            f"{listed(fields)}. Rename or leave out the column, or register a schema with such a field",
            field=joined(path, unknown[0]),
        )
    missing = [name for name, field in fields.items() if name not in columns and _needs_column(field)]
    if missing:
        raise SchemaError(
            f"{_several('field', missing)} of {schema} has neither a column{within} nor a default. The columns are "
            f"{listed(columns)}. Add a column of this name, or register a schema with a default for the field",
            field=joined(path, missing[0]),
        )
    return [replace(f, schema=_field(f, columns.get(f.name), path, legacy)) for f in schema.fields]


def _needs_column(field: Field) -> bool:
    return field.default is MISSING and field.schema.type != "null"


def _field(field: Field, column: FlinkField | None, path: str, legacy: bool) -> Schema:
    if column is not None:
        return _fit(field.schema, column.type, joined(path, field.name), legacy)
    default = None if field.default is MISSING else field.default
    try:
        return Schema(CONSTANT, constant=write_default(field.schema, default))
    except BadDatum as bad:
        raise SchemaError(
            f"field '{joined(path, field.name)}' has no column, and its default can't be written: {bad.args[0]}",
            field=joined(path, field.name),
        ) from None


def _misfit(schema: Schema, t: FlinkType, path: str, legacy: bool) -> SchemaError:
    """Return the error of a column that its field does not take."""
    wanted = None if schema.is_recursive else row_of_schema(schema, legacy=legacy)
    possible = wanted is not None and all(part.root not in ("RAW", "NULL") for _, part in wanted.walk())
    how = f". Declare it as {wanted.summary()}" if wanted is not None and possible else ""
    return SchemaError(f"{_shown(path)} is {t.summary()}, which does not fit {schema}{how}", field=path or None)


def _shown(path: str) -> str:
    return f"column '{path}'" if path else "the row of the table"


def _several(what: str, names: list[str]) -> str:
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"
