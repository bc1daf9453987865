"""The exact reader and writer: one datum at a time, with the results of Avro's Java library.

They get the messages and values that the fast reader and writer refuse.
Values have the Python types that `pyarrow.array` accepts for the reader's Arrow type: numbers (also for dates and
times), str, bytes, `Decimal`, lists, lists of pairs for maps, dicts for records and for unions that are structs.
Rules: `org.apache.avro.io.BinaryDecoder` and `ResolvingDecoder`. Negative lengths in skipped values make Java read
backwards or forever; here they are an error. Each length is checked before it is used.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import numpy as np

from kvformat.codecs._avro.bounds import ADDED_PER_BYTE, MAX_ADDED, MAX_EMPTY_ITEMS, AddedBytesBudget, added_per_item
from kvformat.codecs._avro.decimals import to_bytes, unscaled
from kvformat.codecs._avro.resolve import (
    Action,
    Array,
    ByteString,
    Constant,
    Enum,
    Fail,
    Map,
    Null,
    Number,
    Record,
    Skip,
    ToBranch,
    Union,
)
from kvformat.codecs._avro.schema import Schema
from kvformat.codecs._java.charsets import java_text
from kvformat.registry.contract.error_codes import ErrorCode

MAX_LEVELS: Final = 200
"""Levels of a recursive value that is skipped. Java fails with a StackOverflowError after some thousand levels."""

_INT_BYTES, _LONG_BYTES = 5, 10
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_RANGE: Final = {"int": 2**31, "long": 2**63}


class BadDatum(ValueError):
    """A datum that can't be read, or a value that can't be written. `path` has the names of fields to it."""

    def __init__(self, reason: str, code: ErrorCode = ErrorCode.MALFORMED) -> None:
        super().__init__(reason)
        self.code = code
        self.path: list[str] = []

    def in_field(self, name: str) -> BadDatum:
        """Prefix the path with the name of a field, and return the error."""
        self.path.insert(0, name)
        return self

    def __str__(self) -> str:
        where = f"field {'.'.join(self.path)}: " if self.path else ""
        return self.code.marked(where + str(self.args[0]))


def read_datum(action: Action, message: bytes, start: int, budget: AddedBytesBudget | None = None) -> tuple[Any, int]:
    """Read the value at offset `start`. Returns the value and the offset after it. Raises only `BadDatum`.

    `budget` is shared by the messages of a batch; the bytes that this message adds are subtracted.
    """
    if start > len(message):
        raise BadDatum(f"the message has {len(message)} bytes, but the datum starts after {start}")
    budget = budget or AddedBytesBudget()
    cursor = _Cursor(message, start, budget.left)
    value = _read_action(action, cursor)
    budget.left -= max(cursor.added - ADDED_PER_BYTE * cursor.end, 0)
    return value, cursor.at


class _Cursor:
    """A message, the current offset, and counts of items without bytes and of added bytes."""

    __slots__ = ("added", "at", "data", "empty", "end", "most_added")

    def __init__(self, data: bytes, at: int, budget: int) -> None:
        self.data, self.at, self.end = data, at, len(data)
        self.most_added = min(MAX_ADDED, budget) + ADDED_PER_BYTE * self.end
        self.empty = self.added = 0

    def read_varint(self, most: int) -> int:
        """Read a zigzag number of at most `most` bytes. Drops bits beyond 32 (5 bytes) or 64 (10 bytes)."""
        number = 0
        for index in range(most):
            if self.at >= self.end:
                raise BadDatum("the message ends within a number")
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                number &= 0xFFFFFFFF if most == _INT_BYTES else 0xFFFFFFFFFFFFFFFF
                return (number >> 1) ^ -(number & 1)
        raise BadDatum(
            f"Invalid {'int' if most == _INT_BYTES else 'long'} encoding: a number of more than {most} bytes"
        )

    def skip(self, count: int) -> int:
        """Skip some bytes and return their start offset."""
        if count < 0:
            raise BadDatum(f"Malformed data. Length is negative: {count}")
        if count > self.end - self.at:
            raise BadDatum(f"a value has {count} bytes, but the message has only {self.end - self.at} left")
        self.at += count
        return self.at - count

    def read_bytes(self) -> bytes:
        """Read a length and this number of bytes."""
        start = self.skip(self.read_varint(_LONG_BYTES))
        return self.data[start : self.at]

    def read_index(self, count: int, what: str) -> int:
        """Read the index of a union branch or an enum symbol, of `count` in the schema."""
        index = self.read_varint(_INT_BYTES)
        if not 0 <= index < count:
            raise BadDatum(f"there is no {what} {index}; the schema has {count}")
        return index

    def read_block_count(self) -> int:
        """Read the number of items in the next block of an array or a map. Ignores the block's size in bytes."""
        count = self.read_varint(_LONG_BYTES)
        if count < 0:
            self.read_varint(_LONG_BYTES)
            count = -count
        return count

    def check_count(self, count: int, least_size: int, added: int = 0) -> None:
        """Raise `BadDatum` for items that do not fit into the rest of the message or that add too many bytes.

        added: the bytes of cells, enum symbols and defaults that an item may add.
        """
        if least_size and count > (self.end - self.at) // least_size:
            raise BadDatum(f"{count} items do not fit into the {self.end - self.at} bytes that are left in the message")
        self.empty += 0 if least_size else count
        if self.empty > MAX_EMPTY_ITEMS:
            text = f"{self.empty} items without bytes, but a message may have at most {MAX_EMPTY_ITEMS}"
            raise BadDatum(text, ErrorCode.TOO_LARGE)
        self.added += count * added
        if self.added > self.most_added:
            most = f"the limit for this message of {self.end} bytes is {self.most_added}"
            text = (
                f"{count} items that each add up to {added} bytes of the schema's columns, symbols and defaults; {most}"
            )
            raise BadDatum(text, ErrorCode.TOO_LARGE)


def _read_action(action: Action, cursor: _Cursor) -> Any:
    return _READERS[type(action)](action, cursor)


def _read_null(action: Null, cursor: _Cursor) -> None:
    return None


def _read_fail(action: Fail, cursor: _Cursor) -> Any:
    raise BadDatum(action.reason, ErrorCode.INCOMPATIBLE_SCHEMA)


def _read_constant(action: Constant, cursor: _Cursor) -> Any:
    return action.value


def _read_number(action: Number, cursor: _Cursor) -> Any:
    kind = action.writer
    if kind == "boolean":
        return cursor.data[cursor.skip(1)] == 1
    if kind == "float":
        return _FLOAT.unpack_from(cursor.data, cursor.skip(4))[0]
    if kind == "double":
        return _DOUBLE.unpack_from(cursor.data, cursor.skip(8))[0]
    number = cursor.read_varint(_INT_BYTES if kind == "int" else _LONG_BYTES)
    if action.reader == "float":
        return float(np.float32(np.int64(number)))  # in one step: through a double it would be rounded twice
    if action.reader == "double":
        return float(number)
    number = number * action.times // action.divisor
    bound = _RANGE[action.reader]
    if not -bound <= number < bound:
        raise BadDatum(f"{number} is out of range for {action.reader} in the reader's unit", ErrorCode.OUT_OF_RANGE)
    return number


def _read_bytes(action: ByteString, cursor: _Cursor) -> Any:
    if action.size is None:
        data = cursor.read_bytes()
    else:
        start = cursor.skip(action.size)
        data = cursor.data[start : cursor.at]
    if action.decimal is not None:
        try:
            return action.decimal.value(data)
        except ValueError as cause:
            raise BadDatum(str(cause), ErrorCode.OUT_OF_RANGE if data else ErrorCode.MALFORMED) from None
    return java_text(data) if action.reader == "string" else data


def _read_enum(action: Enum, cursor: _Cursor) -> str:
    index = cursor.read_index(len(action.texts), "enum symbol")
    text = action.texts[index]
    if text is None:
        raise BadDatum(f"No match for {action.names[index]} in the reader's enum", ErrorCode.INCOMPATIBLE_SCHEMA)
    return text


def _read_record(action: Record, cursor: _Cursor) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for step in action.steps:
        try:
            value = _read_action(step.action, cursor)
        except BadDatum as bad:
            raise bad.in_field(step.target or step.name) from None
        if step.target is not None:
            values[step.target] = value
    for name, default in action.defaults.items():
        try:
            values[name] = _read_action(default, cursor)
        except BadDatum as bad:
            raise bad.in_field(name) from None
    return values


def _read_array(action: Array, cursor: _Cursor) -> list[Any]:
    items: list[Any] = []
    try:
        while count := cursor.read_block_count():
            cursor.check_count(count, action.least_size, added_per_item(action))
            items.extend(_read_action(action.item, cursor) for _ in range(count))
    except BadDatum as bad:
        raise bad.in_field("element") from None
    return items


def _read_map(action: Map, cursor: _Cursor) -> list[tuple[str, Any]]:
    entries: dict[str, Any] = {}
    try:
        while count := cursor.read_block_count():
            cursor.check_count(count, 1, added_per_item(action))
            for _ in range(count):
                key = java_text(cursor.read_bytes())
                entries[key] = _read_action(action.value, cursor)
    except BadDatum as bad:
        raise bad.in_field("value") from None
    return list(entries.items())


def _read_union(action: Union, cursor: _Cursor) -> Any:
    return _read_action(action.branches[cursor.read_index(len(action.branches), "union branch")], cursor)


def _read_to_branch(action: ToBranch, cursor: _Cursor) -> dict[str, Any]:
    return {action.branch: _read_action(action.action, cursor)}


def _read_skipped(action: Skip, cursor: _Cursor) -> None:
    _skip_value(action.schema, cursor, 0)


_READERS: Final[dict[type, Callable[[Any, _Cursor], Any]]] = {
    Null: _read_null,
    Fail: _read_fail,
    Constant: _read_constant,
    Number: _read_number,
    ByteString: _read_bytes,
    Enum: _read_enum,
    Record: _read_record,
    Array: _read_array,
    Map: _read_map,
    Union: _read_union,
    ToBranch: _read_to_branch,
    Skip: _read_skipped,
}
_WIDTHS: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def _skip_value(schema: Schema, cursor: _Cursor, level: int) -> None:
    """Skip a value that the reader's schema does not have."""
    if level > MAX_LEVELS:
        raise BadDatum(f"a skipped value has more than {MAX_LEVELS} levels", ErrorCode.TOO_DEEP)
    kind = schema.type
    if kind in ("string", "bytes"):
        cursor.skip(cursor.read_varint(_LONG_BYTES))
    elif kind in ("int", "enum"):
        cursor.read_varint(_INT_BYTES)  # the enum need not have this symbol, as in Java
    elif kind == "long":
        cursor.read_varint(_LONG_BYTES)
    elif kind == "record":
        for f in schema.fields:
            _skip_value(f.schema, cursor, level + 1)
    elif kind == "union":
        _skip_value(schema.branches[cursor.read_index(len(schema.branches), "union branch")], cursor, level + 1)
    elif schema.items is not None:
        _skip_blocks(schema.items, cursor, level + 1, keyed=False)
    elif schema.values is not None:
        _skip_blocks(schema.values, cursor, level + 1, keyed=True)
    else:
        cursor.skip(_WIDTHS.get(kind, schema.size))


def _skip_blocks(item: Schema, cursor: _Cursor, level: int, *, keyed: bool) -> None:
    """Skip the blocks of an array or a map, by their size in bytes if it is given, else item by item."""
    least_size = item.least_size + keyed
    while count := cursor.read_varint(_LONG_BYTES):
        if count < 0:
            cursor.skip(cursor.read_varint(_LONG_BYTES))
            continue
        if not least_size:
            continue  # the items have no bytes
        cursor.check_count(count, least_size)
        for _ in range(count):
            if keyed:
                cursor.skip(cursor.read_varint(_LONG_BYTES))
            _skip_value(item, cursor, level)


# --- writing -------------------------------------------------------------------------------------------------


def write_datum(schema: Schema, value: Any) -> bytes:
    """Encode a value of `schema.storage_type`. Raises `BadDatum` for a value that the schema does not allow."""
    out = bytearray()
    _write_value(schema, value, out)
    return bytes(out)


def _write_value(schema: Schema, value: Any, out: bytearray) -> None:
    if value is None and schema.type not in ("null", "union"):
        raise BadDatum(f"null value for (non-nullable) {schema}", ErrorCode.NULL_VALUE)
    _WRITERS[schema.type](schema, value, out)


def _write_long(number: int, out: bytearray) -> None:
    number = (number << 1) ^ (number >> 63)
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _write_null(schema: Schema, value: Any, out: bytearray) -> None:
    if value is not None:
        raise BadDatum(f"{value!r} is not null", ErrorCode.WRONG_TYPE)


def _write_integer(schema: Schema, value: int, out: bytearray) -> None:
    _write_long(value, out)


def _write_boolean(schema: Schema, value: bool, out: bytearray) -> None:
    out.append(value)


def _write_float(schema: Schema, value: float, out: bytearray) -> None:
    out += (_FLOAT if schema.type == "float" else _DOUBLE).pack(value)


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


def _write_record(schema: Schema, value: dict[str, Any], out: bytearray) -> None:
    for f in schema.fields:
        try:
            _write_value(f.schema, value[f.name], out)
        except BadDatum as bad:
            raise bad.in_field(f.name) from None


def _write_array(schema: Schema, value: list[Any], out: bytearray) -> None:
    assert schema.items is not None
    if value:
        _write_long(len(value), out)
        for item in value:
            _write_part(schema.items, item, "element", out)
    out.append(0)


def _write_map(schema: Schema, value: list[tuple[bytes, Any]], out: bytearray) -> None:
    assert schema.values is not None
    if value:
        _write_long(len(value), out)
        for key, item in value:
            _write_part(_KEY, key, "key", out)
            _write_part(schema.values, item, "value", out)
    out.append(0)


def _write_part(schema: Schema, value: Any, name: str, out: bytearray) -> None:
    try:
        _write_value(schema, value, out)
    except BadDatum as bad:
        raise bad.in_field(name) from None


def _write_union(schema: Schema, value: Any, out: bytearray) -> None:
    kinds = [branch.type for branch in schema.branches]
    if value is None:
        if "null" not in kinds:
            raise BadDatum(f"null value for (non-nullable) {schema}", ErrorCode.NULL_VALUE)
        _write_long(kinds.index("null"), out)
    elif schema.optional is not None or len(kinds) == 1:
        index = 1 - kinds.index("null") if schema.optional is not None else 0
        _write_long(index, out)
        _write_value(schema.branches[index], value, out)
    else:
        _write_branch(schema, value, out)


def _write_branch(schema: Schema, value: dict[str, Any], out: bytearray) -> None:
    """Write a union that is a struct in Arrow. Exactly one field of the struct may be set."""
    names = [name for name, inner in value.items() if inner is not None]
    if len(names) != 1:
        raise BadDatum(
            f"{len(names)} branches of the union {schema} are set, but it takes exactly one", ErrorCode.WRONG_TYPE
        )
    index = next(i for i, branch in enumerate(schema.branches) if branch.full_name == names[0])
    _write_long(index, out)
    _write_part(schema.branches[index], value[names[0]], names[0], out)


_KEY: Final = Schema("string")
_WRITERS: Final[dict[str, Callable[[Schema, Any, bytearray], None]]] = {
    "null": _write_null,
    "boolean": _write_boolean,
    "int": _write_integer,
    "long": _write_integer,
    "float": _write_float,
    "double": _write_float,
    "bytes": _write_bytes,
    "string": _write_bytes,
    "fixed": _write_bytes,
    "enum": _write_enum,
    "record": _write_record,
    "array": _write_array,
    "map": _write_map,
    "union": _write_union,
}
