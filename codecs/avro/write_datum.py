"""The exact writer: one datum at a time, with the results of Avro's Java library.

It gets the values that the fast writer refuses, and reports their errors. Values have the Python types of
`Schema.storage_type`: numbers (also for dates and times), bytes, `Decimal`, lists, lists of pairs for maps, dicts for
records.
"""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from typing import Any, Final

from kvformat.codecs._decimals import to_bytes
from kvformat.codecs.avro.decimals import unscaled
from kvformat.codecs.avro.parse import is_valid_default
from kvformat.codecs.avro.schema import MISSING, Schema
from kvformat.registry.contract.error_codes import ErrorCode, Reason
from kvformat.registry.java.charsets import java_text

_KEY: Final = Schema("string")


class BadDatum(ValueError):
    """A value that can't be written. `path` has the names of fields to it."""

    def __init__(self, reason: str, code: ErrorCode) -> None:
        super().__init__(reason)
        self.code = code
        self.path: list[str] = []

    @property
    def error(self) -> Reason:
        """The error of the row."""
        where = f"field {'.'.join(self.path)}: " if self.path else ""
        return Reason(self.code, where + str(self.args[0]))


def write_datum(schema: Schema, value: Any) -> bytes:
    """Encode a value of `schema.storage_type`. Raises `BadDatum` for a value that the schema does not allow."""
    out = bytearray()
    _write_value(schema, value, out)
    return bytes(out)


def _write_value(schema: Schema, value: Any, out: bytearray) -> None:
    if value is None and not schema.is_nullable:
        raise BadDatum(f"null value for (non-nullable) {schema}", ErrorCode.NULL_VALUE)
    match schema.type:
        case "boolean":
            out.append(value)
        case "int" | "long":
            _write_long(value, out)
        case "float" | "double":
            out += struct.pack("<f" if schema.type == "float" else "<d", value)
        case "bytes" | "string" | "fixed":
            _write_bytes(schema, value, out)
        case "enum":
            _write_enum(schema, value, out)
        case "record":
            for f in schema.fields:
                _write_part(f.schema, value[f.name], f.name, out)
        case "array" | "map":
            if value:
                _write_long(len(value), out)
            for item in value:
                if schema.items is not None:
                    _write_part(schema.items, item, "element", out)
                else:
                    _write_part(_KEY, item[0], "key", out)
                    _write_part(next(schema.children), item[1], "value", out)
            out.append(0)
        case "union":  # null, or a value of the branch that all values have
            index = schema.null_index if value is None else schema.value_index
            assert index is not None
            _write_long(index, out)
            if value is not None:
                _write_value(schema.branches[index], value, out)
        case _:
            out += schema.constant


def _write_part(schema: Schema, value: Any, name: str, out: bytearray) -> None:
    try:
        _write_value(schema, value, out)
    except BadDatum as bad:
        bad.path.insert(0, name)
        raise


def _write_long(number: int, out: bytearray) -> None:
    number = (number << 1) ^ (number >> 63)
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _write_bytes(schema: Schema, value: bytes | Decimal, out: bytearray) -> None:
    """Write bytes, a decimal or a string. Replaces invalid UTF-8 in strings, as Java does."""
    data = _decimal_bytes(schema, value) if isinstance(value, Decimal) else value
    if schema.type == "string":
        data = java_text(data).encode()
    if schema.type != "fixed":
        _write_long(len(data), out)
    elif len(data) != schema.size:
        raise BadDatum(f"{len(data)} bytes for {schema}, which has {schema.size}", ErrorCode.WRONG_TYPE)
    out += data


def _decimal_bytes(schema: Schema, value: Decimal) -> bytes:
    number = unscaled(value)
    if schema.type == "bytes":
        return to_bytes(number)
    try:
        return number.to_bytes(schema.size, "big", signed=True)
    except OverflowError:
        raise BadDatum(f"{value} does not fit into {schema.size} bytes", ErrorCode.OUT_OF_RANGE) from None


def _write_enum(schema: Schema, value: bytes, out: bytearray) -> None:
    text = java_text(value)
    if text not in schema.symbols:
        raise BadDatum(
            f"{text!r} is not a symbol of enum {schema.full_name}; it has {', '.join(schema.symbols)}",
            ErrorCode.WRONG_TYPE,
        )
    _write_long(schema.symbols.index(text), out)


# --- defaults ------------------------------------------------------------------------------------------


def write_default(schema: Schema, default: Any) -> bytes:
    """Encode the default of a field, a JSON value. Raises `BadDatum` for a default that the schema does not allow.

    A union takes the first branch that fits, as since Avro 1.12; before, its first branch had to fit.
    """
    out = bytearray()
    try:
        _write_default(schema, default, out)
    except (OverflowError, RecursionError):
        raise _bad_default(schema, default) from None
    return bytes(out)


def _write_default(schema: Schema, value: Any, out: bytearray) -> None:
    branch = next(
        (i for i, branch_schema in enumerate(schema.branches) if is_valid_default(branch_schema, value)), None
    )
    if branch is not None:
        _write_long(branch, out)
        _write_default(schema.branches[branch], value, out)
    elif schema.type == "union" or not is_valid_default(schema, value):
        raise _bad_default(schema, value)
    elif schema.type == "record":
        for f in schema.fields:
            _write_default(f.schema, value.get(f.name, f.default), out)
    elif schema.type in ("array", "map"):
        if value:
            _write_long(len(value), out)
        for item in value:
            if schema.items is not None:
                _write_default(schema.items, item, out)
            else:
                _write_bytes(_KEY, _utf8(item), out)
                _write_default(next(schema.children), value[item], out)
        out.append(0)
    elif schema.type in ("bytes", "fixed"):
        data = value.encode("latin-1", "replace")
        _write_bytes(schema, data[: schema.size].ljust(schema.size, b"\0") if schema.type == "fixed" else data, out)
    elif schema.type != "null":
        _write_value(schema, _utf8(value) if isinstance(value, str) else value, out)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _bad_default(schema: Schema, value: Any) -> BadDatum:
    shown = "nothing" if value is MISSING else json.dumps(value)
    return BadDatum(f"{shown} is not a valid {schema}", ErrorCode.WRONG_TYPE)
