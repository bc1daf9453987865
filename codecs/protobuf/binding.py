"""Match columns with fields by their exact names, at every level of ROW.

| proto | column |
| --- | --- |
| bool, float, double | BOOLEAN, FLOAT, DOUBLE |
| int32, sint32, sfixed32, uint32, fixed32 | INT |
| int64, sint64, sfixed64, uint64, fixed64 | BIGINT |
| string | CHAR, VARCHAR, STRING |
| bytes | BINARY, VARBINARY, BYTES |
| enum | CHAR, VARCHAR, STRING: the name; INT, BIGINT: the number |
| message, group | ROW |
| map | MAP |
| repeated | ARRAY |

Rules: Flink's `PbSchemaValidationUtils`.
"""

from __future__ import annotations

from kvformat.codecs.protobuf.types import GROUP, MESSAGE, OF_32_BITS, OF_64_BITS, FieldType, MessageType, MessageTypes
from kvformat.registry.contract.errors import SchemaError, did_you_mean, listed
from kvformat.registry.contract.types import FlinkType

TEXTS = ("CHAR", "VARCHAR")
_ROOTS = {
    "bool": ("BOOLEAN",),
    "float": ("FLOAT",),
    "double": ("DOUBLE",),
    "string": TEXTS,
    "bytes": ("BINARY", "VARBINARY"),
    "enum": (*TEXTS, "INT", "BIGINT"),
    **dict.fromkeys(OF_32_BITS, ("INT",)),
    **dict.fromkeys(OF_64_BITS, ("BIGINT",)),
}
_JAVA_TYPES = {"bool": "BOOLEAN", "bytes": "BYTE_STRING", "INT": "INT", "BIGINT": "LONG"}


def check_table(row: FlinkType, types: MessageTypes, format: str) -> None:
    """Raise `SchemaError` if a column has no field, or if its type does not match the field's type."""
    try:
        _check_row(row, types.message, types, "")
    except _Misfit as misfit:
        text, path = misfit.args
        raise SchemaError(f"{text} (column '{path}')", format=format, field=path) from None


class _Misfit(Exception):
    """The problem, and the path of the column."""


def _check_row(row: FlinkType, message: MessageType, types: MessageTypes, path: str) -> None:
    for column in row.fields:
        field, place = message.field(column.name), f"{path}.{column.name}" if path else column.name
        if field is None:
            names = [known.name for known in message.fields]
            raise _Misfit(
                f"Column {column.name} does not exists in definition of proto class. The message {message.name} has no "
                f"such field.{did_you_mean(column.name, names)} Fields: {listed(names)}",
                place,
            )
        _check_field(column.type, field, types, place)


def _check_field(t: FlinkType, field: FieldType, types: MessageTypes, path: str) -> None:
    entry = types.entry(field)
    if entry is not None:
        if t.root != "MAP":
            raise _Misfit(f"Unexpected LogicalType: {t.summary()}. It should be MapType", path)
        for part, member in zip(t.fields, entry.fields, strict=True):
            _check_value(part.type, member, types, f"{path}.{part.name}")
    elif field.repeated and t.root == "ARRAY":
        _check_value(t.fields[0].type, field, types, f"{path}.element")
    elif field.repeated and field.kind in (MESSAGE, GROUP):
        raise _Misfit(f"Unexpected LogicalType: {t.summary()}. It should be ArrayType", path)
    elif field.repeated:
        raise _mismatch(t, field, "ARRAY", path)
    else:
        _check_value(t, field, types, path)


def _check_value(t: FlinkType, field: FieldType, types: MessageTypes, path: str) -> None:
    if field.kind in (MESSAGE, GROUP):
        if t.root != "ROW":
            raise _Misfit(f"Unexpected LogicalType: {t.summary()}. It should be RowType", path)
        _check_row(t, types.messages[field.type_name], types, path)
    elif t.root not in _ROOTS[field.kind]:
        raise _mismatch(t, field, ", ".join(_ROOTS[field.kind]), path)


def _mismatch(t: FlinkType, field: FieldType, allowed: str, path: str) -> _Misfit:
    roots = _ROOTS[field.kind]
    java = _JAVA_TYPES.get(field.kind) or (_JAVA_TYPES.get(roots[0]) if len(roots) == 1 else None) or field.kind.upper()
    return _Misfit(
        f"Protobuf field type does not match column type, {java}(protobuf) is not compatible of {t.root}. "
        f"A {'repeated ' if field.repeated and allowed == 'ARRAY' else ''}{field.kind} is read as: {allowed}",
        path,
    )
