r"""Avro's JSON encoding, for `avro` with `encoding` = `json`. It is not the format `json`.

    {"id":7,"name":{"string":"ab"},"r":{"org.apache.flink.avro.generated.record_r":{"x":null}},"b":{"bytes":"\u0000ÿ"}}

A value of a union is an object with one member, named after the branch; null is `null`. Logical types are written as
their numbers and bytes. Bytes are a string of the characters U+0000 to U+00FF. Messages are read one by one as trees of
nodes. Rows are written column by column.

Rules: "JSON Encoding" of the Avro specification, `org.apache.avro.io.JsonDecoder` and `JsonEncoder`, and Jackson.
Records skip members that are not fields. The first value of a repeated field counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Ints, map_value_type, stored_type
from kvformat.codecs._decimals import unscaled_bytes
from kvformat.codecs._json_documents import DocumentReader, JsonSyntaxError, recoded
from kvformat.codecs._kernel.codes import TOO_MANY
from kvformat.codecs._kernel.tree import Fraction, Integer, Node, Repeated
from kvformat.codecs._timestamps.texts import TEXT
from kvformat.codecs.avro.decimals import DecimalReading
from kvformat.codecs.avro.schema import Schema
from kvformat.codecs.json.scalars import BadValue, preview
from kvformat.codecs.json.write import (
    Parts,
    escape_json,
    float_texts,
    join_lists,
    join_texts,
    keep_nulls,
    list_counts,
    list_offsets,
    map_entries,
    member_name,
    quote_texts,
)
from kvformat.registry.contract.batches import EncodedBatch
from kvformat.registry.contract.cells import CELLS_PER_BYTE, MOST_CELLS, MOST_CELLS_OF_A_BATCH
from kvformat.registry.contract.error_codes import ErrorCode, Reason, reason_arrays
from kvformat.registry.contract.types import INTEGER_BITS, FlinkType, nullable
from kvformat.registry.java.parse import parse_double, parse_float, replace_lone_surrogates

_Converter = Callable[[Any], Any]

_BITS = {"int": 32, "long": 64}
_NANOS = 1_000_000  # in a millisecond, the unit of TIME
_LONGEST = 25  # digits; more than any integer has
_MISSING = "is missing; every field must be there, as null if it is null"


def micros_per_unit(schema: Schema, *, micros_as_millis: bool) -> int:
    """Return the unit of a timestamp in microseconds. Flink before 2.4 ignores the unit in the schema."""
    millis = schema.logical is None or schema.logical.name.endswith("millis")
    return 1000 if millis or micros_as_millis else 1


# --- reading -------------------------------------------------------------------------------------------


class AvroJsonReader:
    """Reads messages as rows. `schema` is derived from the type `row`."""

    def __init__(self, row: FlinkType, schema: Schema, *, micros_as_millis: bool) -> None:
        self._type = stored_type(row)
        self._budget = _CellBudget()
        self._record = _Readers(micros_as_millis, self._budget).record(schema, row)
        self._empty_row = _empty_row(schema)

    def read(self, messages: pa.BinaryArray) -> tuple[pa.StructArray, list[Reason | None]]:
        """Return a row and an error per message: the row is null for a null or failed message."""
        rows: list[Any] = []
        errors: list[Reason | None] = []
        reader = DocumentReader()
        self._budget.start_batch()
        for message in messages.to_pylist():
            row, error = (None, None) if message is None else self._read_message(message, reader)
            if row is not None:
                self._budget.finish_message()
            rows.append(row)
            errors.append(error)
        return pa.array(rows, self._type), errors

    def _read_message(self, message: bytes, reader: DocumentReader) -> tuple[Any, Reason | None]:
        if self._empty_row is not None:
            return self._empty_row, None
        self._budget.start_message(len(message))
        try:
            return self._record(reader.read_first_value(recoded(message)[0])), None
        except JsonSyntaxError as fault:
            return None, Reason(fault.code, f"not JSON: {fault}")
        except BadValue as bad:
            return None, Reason(*bad.said)


def _empty_row(schema: Schema) -> tuple[Any, ...] | None:
    """Return the row if the schema has only records without fields, else None.

    Avro's encoder writes nothing for this row, not even braces, and its decoder reads nothing.
    """
    if schema.optional is not None or schema.type != "record":
        return None
    values = tuple(_empty_row(field.schema) for field in schema.fields)
    return None if None in values else values


class _CellBudget:
    """Limits the cells of a message, and the cells of a batch that exceed the number its bytes allow."""

    def __init__(self) -> None:
        self._left = self._free = self._batch = 0

    def start_batch(self) -> None:
        self._batch = MOST_CELLS_OF_A_BATCH

    def start_message(self, size: int) -> None:
        """Start a message of `size` bytes."""
        self._free = min(MOST_CELLS, self._batch)
        self._left = self._free + CELLS_PER_BYTE * size

    def finish_message(self) -> None:
        """Subtract the cells of a message that was read from those of the batch."""
        self._batch -= max(self._free - self._left, 0)

    def take(self, cells: int) -> None:
        """Count the cells of a value. Raises `BadValue` if the message has too many."""
        self._left -= cells
        if self._left < 0:
            raise BadValue(TOO_MANY, ErrorCode.TOO_LARGE)


class _Readers:
    """Makes the reader of a schema. Readers convert a node of the document to a value of the column."""

    def __init__(self, micros_as_millis: bool, budget: _CellBudget) -> None:
        self._micros_as_millis, self._budget = micros_as_millis, budget

    def record(self, schema: Schema, t: FlinkType) -> _Converter:
        fields = zip(schema.fields, t.fields, strict=True)
        return _Record([(field.name, self._value(field.schema, column.type)) for field, column in fields]).value

    def _value(self, schema: Schema, t: FlinkType) -> _Converter:
        if schema.optional is not None:
            return _Union(schema.optional.full_name, self._value(schema.optional, t)).value
        if schema.type == "record":
            return self.record(schema, t)
        if schema.items is not None:
            return _Array(self._value(schema.items, t.fields[0].type), schema.items.cells, self._budget).value
        if schema.values is not None:
            return _Map(self._value(schema.values, map_value_type(t)), schema.values.cells, self._budget).value
        if schema.type in ("int", "long"):
            return self._integer(schema, t)
        if schema.type == "boolean":
            return _boolean
        if schema.type == "string":
            return lambda node: replace_lone_surrogates(_text(node))
        if t.root == "DECIMAL":
            return _decimal(t)
        return _bytes if schema.type == "bytes" else _floating(schema.type)

    def _integer(self, schema: Schema, t: FlinkType) -> _Converter:
        number = _whole(schema.type, t)
        if t.root == "TIME":
            return lambda node: number(node) * _NANOS
        if t.root not in ("TIMESTAMP", "TIMESTAMP_LTZ"):
            return number
        unit = micros_per_unit(schema, micros_as_millis=self._micros_as_millis)

        def read(node: Node) -> int:
            micros: int = number(node) * unit
            if not -(2**63) <= micros < 2**63:
                raise BadValue(f"{preview(node)} is too far from 1970 for a {t.root}", ErrorCode.OUT_OF_RANGE)
            return micros

        return read


class _Record:
    """Reads the fields by name and skips other members."""

    def __init__(self, fields: list[tuple[str, _Converter]]) -> None:
        self._fields = fields

    def value(self, node: Any) -> tuple[Any, ...]:
        if not isinstance(node, dict):
            raise _expected("an object", node)
        members, values = _members(node), []
        for name, read in self._fields:
            try:
                if name not in members:
                    raise BadValue(_MISSING, ErrorCode.MISSING_FIELD)
                values.append(read(members[name]))
            except BadValue as bad:
                raise _at(bad, name) from None
        return tuple(values)


class _Union:
    """Reads null or the one other branch."""

    def __init__(self, name: str, read: _Converter) -> None:
        self._name, self._read = name, read

    def value(self, node: Any) -> Any:
        if node is None:
            return None
        if not isinstance(node, dict) or len(node) != 1:
            raise BadValue(f"expected null or an object with one member, named {self._name}, found {preview(node)}")
        ((branch, value),) = _members(node).items()
        if branch == self._name:
            return self._read(value)
        if branch == "null" and value is None:
            return None
        raise BadValue(f"{preview(branch)} is not a branch of the union; the branches are null and {self._name}")


class _Array:
    def __init__(self, read: _Converter, cells: int, budget: _CellBudget) -> None:
        self._read, self._cells, self._budget = read, cells, budget

    def value(self, node: Any) -> list[Any]:
        if not isinstance(node, list):
            raise _expected("an array", node)
        self._budget.take(self._cells * len(node))
        values = []
        for index, item in enumerate(node):
            try:
                values.append(self._read(item))
            except BadValue as bad:
                raise _at(bad, index) from None
        return values


class _Map:
    def __init__(self, read: _Converter, cells: int, budget: _CellBudget) -> None:
        self._read, self._cells, self._budget = read, cells, budget

    def value(self, node: Any) -> list[tuple[str, Any]]:
        if not isinstance(node, dict):
            raise _expected("an object", node)
        self._budget.take(self._cells * len(node))
        entries = {}
        for key, value in node.members if isinstance(node, Repeated) else node.items():
            try:
                entries[replace_lone_surrogates(key)] = self._read(value)
            except BadValue as bad:
                raise _at(bad, key) from None
        return list(entries.items())


def _members(node: dict[str, Node]) -> dict[str, Node]:
    """Return an object's members. The first value of a repeated name counts, as in Flink."""
    return dict(reversed(node.members)) if isinstance(node, Repeated) else node


def _at(bad: BadValue, step: str | int) -> BadValue:
    bad.steps.append(step)
    return bad


def _expected(what: str, node: Node) -> BadValue:
    return BadValue(f"expected {what}, found {preview(node)}")


def _boolean(node: Node) -> bool:
    if not isinstance(node, bool):
        raise _expected("true or false", node)
    return node


def _text(node: Node) -> str:
    if type(node) is not str:
        raise _expected("a string", node)
    return node


def _bytes(node: Node) -> bytes:
    return _text(node).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode("latin-1", "replace")


def _decimal(t: FlinkType) -> _Converter:
    reading = DecimalReading(t.precision or 0, t.scale or 0, t.scale or 0, overflow_as_null=True)

    def read(node: Node) -> Any:
        try:
            return reading.value(_bytes(node))
        except BadValue:
            raise
        except ValueError as bad:
            raise BadValue(str(bad), ErrorCode.MALFORMED) from None

    return read


def _floating(kind: str) -> _Converter:
    nearest = parse_float if kind == "float" else parse_double

    def read(node: Node) -> float:
        if not isinstance(node, Integer | Fraction):
            raise _expected("a number", node)
        return nearest(node) + 0.0 if isinstance(node, Integer) else nearest(node)  # the integer -0 has no sign

    return read


def _whole(kind: str, t: FlinkType) -> Callable[[Any], int]:
    """Read an int or long. A fraction is read as a double and truncated, as in Jackson."""
    bits = _BITS[kind]
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    narrow = 2 ** ((INTEGER_BITS[t.root] if t.root in ("TINYINT", "SMALLINT") else bits) - 1)

    def read(node: Node) -> int:
        if isinstance(node, Integer):
            number = int(node) if len(node) <= _LONGEST else 2**bits
        elif isinstance(node, Fraction):
            value = float(node)
            number = min(max(int(value), least), most) if float(least) <= value <= float(most) else 2**bits
        else:
            raise _expected("a number", node)
        if not least <= number <= most:
            raise BadValue(f"{preview(node)} is out of the range of {kind}", ErrorCode.OUT_OF_RANGE)
        if not -narrow <= number < narrow:
            raise BadValue(f"{preview(node)} does not fit {t.root}", ErrorCode.OUT_OF_RANGE)
        return number

    return read


# --- writing -------------------------------------------------------------------------------------------


class AvroJsonWriter:
    """Writes rows as messages. `schema` is derived from the type `row`."""

    def __init__(self, row: FlinkType, schema: Schema, *, micros_as_millis: bool) -> None:
        self._row, self._schema, self._micros_as_millis = nullable(row), schema, micros_as_millis

    def write(self, rows: pa.StructArray) -> EncodedBatch:
        """Return a message per row, null for a null or failed row."""
        batch = _Batch(self._micros_as_millis, len(rows))
        valid = rows.is_valid()
        row_lookup = np.where(valid.to_numpy(zero_copy_only=False), np.arange(len(rows)), -1)
        texts = join_texts(batch.record(rows, self._schema, self._row, "", row_lookup), len(rows))
        if _empty_row(self._schema) is not None:
            texts = pa.array([""] * len(rows), TEXT)
        failed = [error is not None for error in batch.errors]
        if rows.null_count or any(failed):
            texts = pc.if_else(pc.and_(valid, pc.invert(pa.array(failed, pa.bool_()))), texts, pa.scalar(None, TEXT))
        return EncodedBatch(texts.cast(pa.large_binary()).cast(pa.binary()), *reason_arrays(batch.errors))


class _Batch:
    """Writes one batch. `row_lookup` are the row indices of nested values, -1 for values inside a null."""

    def __init__(self, micros_as_millis: bool, rows: int) -> None:
        self.errors: list[Reason | None] = [None] * rows
        self._micros_as_millis = micros_as_millis

    def value(self, values: pa.Array, schema: Schema, t: FlinkType, path: str, row_lookup: Ints) -> Parts:
        if schema.optional is not None:
            inner = self._plain(values, schema.optional, t, path, row_lookup)
            return keep_nulls(values, ["{" + member_name(schema.optional.full_name) + ":", *inner, "}"])
        if values.null_count:
            self._fail(values, schema, path, row_lookup)
        return self._plain(values, schema, t, path, row_lookup)

    def _fail(self, values: pa.Array, schema: Schema, path: str, row_lookup: Ints) -> None:
        rows_of_nulls = row_lookup[values.is_null().to_numpy(zero_copy_only=False)]
        for row in rows_of_nulls[rows_of_nulls >= 0].tolist():
            if self.errors[row] is None:
                text = f"field '{path}': null value for (non-nullable) {schema.full_name}"
                self.errors[row] = Reason(ErrorCode.NULL_VALUE, text)

    def _plain(self, values: pa.Array, schema: Schema, t: FlinkType, path: str, row_lookup: Ints) -> Parts:
        if schema.type == "record":
            valid = values.is_valid().to_numpy(zero_copy_only=False)
            return keep_nulls(values, self.record(values, schema, t, path, np.where(valid, row_lookup, -1)))
        if schema.items is not None:
            counts = list_counts(pc.list_value_length(values))
            items = values.flatten()
            below = self.value(items, schema.items, t.fields[0].type, f"{path}.element", np.repeat(row_lookup, counts))
            return keep_nulls(values, ["[", *join_lists(below, list_offsets(counts)), "]"])
        if schema.values is not None:
            return self._map(values, schema.values, t, path, row_lookup)
        return self._scalar(values, schema, t)

    def record(self, values: pa.StructArray, schema: Schema, t: FlinkType, path: str, row_lookup: Ints) -> Parts:
        parts: Parts = ["{"]
        for index, (field, column) in enumerate(zip(schema.fields, t.fields, strict=True)):
            at = f"{path}.{field.name}" if path else field.name
            parts.append(("," if index else "") + member_name(field.name) + ":")
            parts += self.value(values.field(index), field.schema, column.type, at, row_lookup)
        return [*parts, "}"]

    def _map(self, values: pa.MapArray, inner: Schema, t: FlinkType, path: str, row_lookup: Ints) -> Parts:
        counts, keys, items = map_entries(values)
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        below = np.repeat(np.where(valid, row_lookup, -1), counts)
        parts = self.value(items, inner, map_value_type(t), f"{path}.value", below)
        entries: Parts = ['"', escape_json(keys.cast(TEXT)), '":', *parts]
        return keep_nulls(values, ["{", *join_lists(entries, list_offsets(counts)), "}"])

    def _scalar(self, values: pa.Array, schema: Schema, t: FlinkType) -> Parts:
        if schema.type == "string":
            return quote_texts(escape_json(values.cast(TEXT)))
        if schema.type == "bytes":
            return quote_texts(escape_json(_latin(unscaled_bytes(values) if t.root == "DECIMAL" else values)))
        if schema.type in ("float", "double"):
            return [float_texts(values)]
        if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
            micros = micros_per_unit(schema, micros_as_millis=self._micros_as_millis)
            return [_whole_texts(values, micros)]
        if t.root == "TIME":
            return [_whole_texts(values, _NANOS)]
        return [(values.view(pa.int32()) if t.root == "DATE" else values).cast(TEXT)]


def _whole_texts(values: pa.Array, unit: int) -> pa.LargeStringArray:
    """Return the texts of numbers in a coarser unit, rounded down."""
    numbers = values.view(pa.int64())
    filled: Ints = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(filled // unit, mask=numbers.is_null().to_numpy(zero_copy_only=False)).cast(TEXT)


def _latin(values: pa.BinaryArray) -> pa.LargeStringArray:
    return pa.array([None if value is None else value.decode("latin-1") for value in values.to_pylist()], TEXT)
