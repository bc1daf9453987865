"""`msgpack`: a message is a MessagePack map, the columns by their names.

    id BIGINT, name STRING      7, 'Ada'      82 a2 69 64 07 a4 6e 61 6d 65 a3 41 64 61

Read: names that are no column are passed over, of a name that comes twice the last value counts, and a column without a
name is null. A value of another type is an error of its message: neither "7" nor 7.0 is an INT. A FLOAT or DOUBLE is
the nearest to the number that is there. Written: all columns in their order, null as nil; STRING as str, BYTES as bin,
FLOAT and DOUBLE as float 64, whole numbers as short as they can be. Types without a value in MessagePack are refused:
DECIMAL, DATE, TIME, TIMESTAMP, INTERVAL, MULTISET.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from reprlib import repr as short  # a message may be nested deeper than repr can
from typing import Any

import msgpack
import pyarrow as pa

from kvformat.registry import DecodedBatch, EncodedBatch, ErrorCode, Format, SchemaError
from kvformat.registry.contract.schemas import row_type
from kvformat.registry.contract.types import FlinkType, arrow_type, nullable

__all__ = ["MsgpackFormat"]

_WHOLE = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}  # bits
_HELD: dict[str, Any] = {
    "BOOLEAN": bool,
    **dict.fromkeys(_WHOLE, int),
    **dict.fromkeys(("FLOAT", "DOUBLE"), (float, int)),
    **dict.fromkeys(("CHAR", "VARCHAR"), str),
    **dict.fromkeys(("BINARY", "VARBINARY"), bytes),
    "ARRAY": list,
    **dict.fromkeys(("MAP", "ROW"), dict),
}
"""The types of columns, and what their values are for `msgpack`."""
_MOST_FLOAT = (2 - 2**-23) * 2.0**127


class MsgpackFormat(Format):
    """MessagePack maps by column name, both ways."""

    identifier = "msgpack"

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        """The columns of each map."""
        row = self._held(schema)
        rows: list[Any] = []
        errors: list[str | None] = []
        for message in messages.to_pylist():
            decoded, error = (None, None) if message is None else _decoded(message, row)
            rows.append(None if decoded is None else [decoded])
            errors.append(error)
        return DecodedBatch(pa.array(rows, pa.list_(arrow_type(row))), errors=pa.array(errors, pa.string()))

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        """A map of the columns of each row."""
        row = self._held(schema)
        values = [None if value is None else msgpack.packb(_written(value, row)) for value in rows.to_pylist()]
        return EncodedBatch(pa.array(values, pa.binary()))

    def _held(self, schema: pa.Schema) -> FlinkType:
        """The columns as a ROW; raises `SchemaError` for what MessagePack has no values for."""
        row = nullable(row_type(schema))
        for path, found in _inside(row, ""):
            if found.root not in _HELD or (path.endswith(".key") and found.fields):
                allowed = ", ".join(sorted(_HELD))
                raise SchemaError(
                    f"format 'msgpack': field '{path}' is {found}, which MessagePack has no values for; it has them "
                    f"for {allowed}, and keys of a MAP are no ARRAY, MAP or ROW. Declare it as STRING, and cast it",
                    format=self.identifier,
                    field=path,
                )
        return row


def _inside(type: FlinkType, path: str) -> Iterator[tuple[str, FlinkType]]:
    """All types inside of a type, with the paths of their fields."""
    for field in type.fields:
        inner = f"{path}.{field.name}" if path else field.name
        yield inner, field.type
        yield from _inside(field.type, inner)


def _decoded(message: bytes, row: FlinkType) -> tuple[Any, str | None]:
    """The columns of a message, or what is wrong with it."""
    try:
        value = msgpack.unpackb(message, strict_map_key=False)
        if value is None:
            return None, ErrorCode.WRONG_TYPE.marked("$: a nil, not a map")
    except (ValueError, TypeError) as cause:  # a name that is a list or a map is a TypeError
        return None, ErrorCode.MALFORMED.marked(f"no MessagePack: {type(cause).__name__} {cause}")
    try:
        return _read(value, row, "$"), None
    except OverflowError as cause:
        return None, ErrorCode.OUT_OF_RANGE.marked(str(cause))
    except TypeError as cause:
        return None, ErrorCode.WRONG_TYPE.marked(str(cause))


def _read(value: Any, type: FlinkType, path: str) -> Any:
    """A value of `msgpack` as Arrow takes it; raises `TypeError` or `OverflowError`, which say where."""
    if value is None:
        return None
    held, bits = _HELD[type.root], _WHOLE.get(type.root)
    if not isinstance(value, held) or (isinstance(value, bool) and held is not bool):
        raise TypeError(f"{path}: cannot read {short(value)} as {type.root if type.fields else type}")
    if bits and not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise OverflowError(f"{path}: {value} is beyond {type}")
    if type.root == "FLOAT" and math.isfinite(value) and abs(value) > _MOST_FLOAT:
        raise OverflowError(f"{path}: {value} is beyond {type}")
    if type.root in ("FLOAT", "DOUBLE"):
        return float(value)
    if type.root == "ROW":
        return {field.name: _read(value.get(field.name), field.type, f"{path}.{field.name}") for field in type.fields}
    if type.root == "ARRAY":
        return [_read(element, type.fields[0].type, f"{path}[{place}]") for place, element in enumerate(value)]
    if type.root == "MAP":
        if None in value:
            raise TypeError(f"{path}: a key is nil, which no {type} has")
        of_key, of_value = (field.type for field in type.fields)
        return [(_read(k, of_key, f"{path}.key"), _read(v, of_value, f"{path}[{short(k)}]")) for k, v in value.items()]
    return value


def _written(value: Any, type: FlinkType) -> Any:
    """A value of Arrow as `msgpack` takes it; Arrow's maps are lists of pairs."""
    if value is None or not type.fields:
        return value
    if type.root == "ROW":
        return {field.name: _written(value[field.name], field.type) for field in type.fields}
    if type.root == "ARRAY":
        return [_written(element, type.fields[0].type) for element in value]
    return {key: _written(inner, type.fields[1].type) for key, inner in value}
