"""`msgpack`: a message is a MessagePack map from column names to values.

    id BIGINT, name STRING      7, 'Ada'      82 a2 69 64 07 a4 6e 61 6d 65 a3 41 64 61

Reading: names without a column are ignored. If a name occurs twice, the last value counts. A column without an entry is
null. A value of another type is an error of its message: neither "7" nor 7.0 is an INT. Numbers are rounded to the
nearest FLOAT or DOUBLE.

Writing: all columns in order, null as nil, STRING as str, BYTES as bin, FLOAT and DOUBLE as float 64, integers in the
shortest form.

MessagePack has no values for DECIMAL, DATE, TIME, TIMESTAMP, INTERVAL and MULTISET. They raise `SchemaError`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from reprlib import repr as short  # repr fails for deeply nested messages
from typing import Any

import msgpack
import pyarrow as pa

from kvformat.registry import DecodedBatch, EncodedBatch, ErrorCode, Format, SchemaError
from kvformat.registry.authoring import FlinkType, arrow_type, nullable, row_type

__all__ = ["MsgpackFormat"]

_INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_PYTHON_TYPES: dict[str, Any] = {
    "BOOLEAN": bool,
    **dict.fromkeys(_INTEGER_BITS, int),
    **dict.fromkeys(("FLOAT", "DOUBLE"), (float, int)),
    **dict.fromkeys(("CHAR", "VARCHAR"), str),
    **dict.fromkeys(("BINARY", "VARBINARY"), bytes),
    "ARRAY": list,
    **dict.fromkeys(("MAP", "ROW"), dict),
}
"""The Python types of `msgpack`'s values, by the column's type."""
_MOST_FLOAT = (2 - 2**-23) * 2.0**127


class MsgpackFormat(Format):
    """MessagePack maps from column names to values."""

    identifier = "msgpack"

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        """Decode each map to a row."""
        row = self._row_type(schema)
        rows: list[Any] = []
        errors: list[str | None] = []
        for message in messages.to_pylist():
            decoded, error = (None, None) if message is None else _decode(message, row)
            rows.append(None if decoded is None else [decoded])
            errors.append(error)
        return DecodedBatch(pa.array(rows, pa.list_(arrow_type(row))), errors=pa.array(errors, pa.string()))

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        """Encode each row to a map."""
        row = self._row_type(schema)
        values = [None if value is None else msgpack.packb(_to_msgpack(value, row)) for value in rows.to_pylist()]
        return EncodedBatch(pa.array(values, pa.binary()))

    def _row_type(self, schema: pa.Schema) -> FlinkType:
        """Return the columns as a ROW. Raises `SchemaError` for a type that MessagePack has no values for."""
        row = nullable(row_type(schema))
        for path, found in _nested_types(row, ""):
            if found.root not in _PYTHON_TYPES or (path.endswith(".key") and found.fields):
                allowed = ", ".join(sorted(_PYTHON_TYPES))
                raise SchemaError(
                    f"format 'msgpack': field '{path}' has the unsupported type {found}. Supported types are "
                    f"{allowed}; keys of a MAP cannot be ARRAY, MAP or ROW. Declare the field as STRING and cast it",
                    format=self.identifier,
                    field=path,
                )
        return row


def _nested_types(type: FlinkType, path: str) -> Iterator[tuple[str, FlinkType]]:
    """Yield all types inside a type, with the paths of their fields."""
    for field in type.fields:
        inner = f"{path}.{field.name}" if path else field.name
        yield inner, field.type
        yield from _nested_types(field.type, inner)


def _decode(message: bytes, row: FlinkType) -> tuple[Any, str | None]:
    """Decode a message. Returns the columns, or None and the error."""
    try:
        value = msgpack.unpackb(message, strict_map_key=False)
        if value is None:
            return None, ErrorCode.WRONG_TYPE.marked("$: expected a map, got nil")
    except (ValueError, TypeError) as cause:  # TypeError: a list or a map as a name
        return None, ErrorCode.MALFORMED.marked(f"not MessagePack: {type(cause).__name__} {cause}")
    try:
        return _to_arrow(value, row, "$"), None
    except OverflowError as cause:
        return None, ErrorCode.OUT_OF_RANGE.marked(str(cause))
    except TypeError as cause:
        return None, ErrorCode.WRONG_TYPE.marked(str(cause))


def _to_arrow(value: Any, type: FlinkType, path: str) -> Any:
    """Convert a value of `msgpack` for Arrow. Raises `TypeError` or `OverflowError` with the path of the value."""
    if value is None:
        return None
    expected, bits = _PYTHON_TYPES[type.root], _INTEGER_BITS.get(type.root)
    if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
        raise TypeError(f"{path}: cannot read {short(value)} as {type.root if type.fields else type}")
    if bits and not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise OverflowError(f"{path}: {value} is out of range for {type}")
    if type.root == "FLOAT" and math.isfinite(value) and abs(value) > _MOST_FLOAT:
        raise OverflowError(f"{path}: {value} is out of range for {type}")
    if type.root in ("FLOAT", "DOUBLE"):
        return float(value)
    if type.root == "ROW":
        return {
            field.name: _to_arrow(value.get(field.name), field.type, f"{path}.{field.name}") for field in type.fields
        }
    if type.root == "ARRAY":
        return [_to_arrow(element, type.fields[0].type, f"{path}[{index}]") for index, element in enumerate(value)]
    if type.root == "MAP":
        if None in value:
            raise TypeError(f"{path}: a key of {type} is nil")
        of_key, of_value = (field.type for field in type.fields)
        return [
            (_to_arrow(k, of_key, f"{path}.key"), _to_arrow(v, of_value, f"{path}[{short(k)}]"))
            for k, v in value.items()
        ]
    return value


def _to_msgpack(value: Any, type: FlinkType) -> Any:
    """Convert a value of Arrow for `msgpack`. Arrow's maps are lists of pairs."""
    if value is None or not type.fields:
        return value
    if type.root == "ROW":
        return {field.name: _to_msgpack(value[field.name], field.type) for field in type.fields}
    if type.root == "ARRAY":
        return [_to_msgpack(element, type.fields[0].type) for element in value]
    return {key: _to_msgpack(inner, type.fields[1].type) for key, inner in value}
