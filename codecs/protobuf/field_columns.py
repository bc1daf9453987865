"""Columns of a table as fields of a Protobuf message, both ways: types that the format protobuf does not have.

| field | column |
| --- | --- |
| google.protobuf.Timestamp | TIMESTAMP, TIMESTAMP_LTZ |
| google.type.Date, google.type.TimeOfDay, confluent.type.Decimal | DATE, TIME, DECIMAL |
| int32 and others of 32 bits | TINYINT, SMALLINT |
| uint32, fixed32, sfixed32 | BIGINT, when reading |
| int64 and others of 64 bits | TINYINT, SMALLINT, INT, when reading: another number is an error |
| float | DOUBLE, when reading |
| repeated, map | the type of its element, ARRAY of ROW, when reading (`evolve.py`) |
| google.protobuf.Int64Value and the other wrappers | the type of their value |
| a message whose only field is repeated | ARRAY, MAP, MULTISET |
| repeated messages of key and value | MAP, MULTISET |
| repeated messages with one field, with the parameter `flink.wrapped` | ARRAY of its values |

The kernel reads a message as a row of *wire* types, such as ROW<seconds BIGINT, nanos INT>. Conversions make the
columns of it. A column without a field is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import (
    Mask,
    RowsOf,
    as_integers,
    as_type,
    field_lookup,
    map_value_type,
    row_lookup,
    stored_type,
    with_elements,
    with_entries,
    with_fields,
)
from kvformat.codecs._conversions import Conversion, RowErrors
from kvformat.codecs._decimals import decimal_array, digit_counts, unscaled_bytes, unscaled_number
from kvformat.codecs.protobuf.registry_schema import DATE, DECIMAL, TIME_OF_DAY, TIMESTAMP
from kvformat.codecs.protobuf.schema_text import VALUE, WRAPPED
from kvformat.codecs.protobuf.types import MESSAGE, OF_32_BITS, OF_64_BITS, FieldType, MessageType, MessageTypes
from kvformat.registry.contract.error_codes import ErrorCode, Reason
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import BYTES, INTEGER_BITS, FlinkField, FlinkType, arrow_type
from kvformat.registry.java.parse import fit_decimal

_INT, _BIGINT, _FLOAT = FlinkType("INT"), FlinkType("BIGINT"), FlinkType("FLOAT")
_NARROW = ("TINYINT", "SMALLINT", "INT")
_UNSIGNED = ("uint32", "fixed32", "uint64", "fixed64")
WRAPPERS = tuple(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_MICROS, _MILLION, _BILLION = 1_000_000, 10**6, 10**9
_MOST_SECONDS = (2**63 - 1) // _MICROS - 1
_REPEATED = ("ARRAY", "MAP", "MULTISET")
_Integers = npt.NDArray[np.integer]
_Members = tuple[tuple[str, FlinkType], ...]


@dataclass(frozen=True)
class TwoWay(Conversion):
    """A conversion that also converts column values to wire values, if `check_writable` accepts it."""

    def to_wire(self, values: pa.Array) -> pa.Array:
        """Return the wire values of column values."""
        raise NotImplementedError


@dataclass(frozen=True)
class Binding:
    """How values of a column are read and written: as `wire` values, converted if there is a conversion."""

    wire: FlinkType
    conversion: TwoWay | None = None

    def read(self, wire: pa.Array, path: str, rows_of: RowsOf, errors: RowErrors) -> pa.Array:
        return wire if self.conversion is None else self.conversion.convert(wire, path, rows_of, errors)

    def write(self, values: pa.Array) -> pa.Array:
        return values if self.conversion is None else self.conversion.to_wire(values)


def bind_row(row: FlinkType, message: MessageType, types: MessageTypes) -> Binding:
    """Bind the fields of a ROW to the fields of a message with the same names."""
    bound: list[tuple[str, Binding | None]] = []
    for column in row.fields:
        message_field = message.field(column.name)
        bound.append((column.name, None if message_field is None else _bind(column.type, message_field, types)))
    wire = FlinkType("ROW", fields=tuple(FlinkField(name, part.wire) for name, part in bound if part is not None))
    if all(part is not None and part.conversion is None for _, part in bound):
        return Binding(row)
    return Binding(wire, _Row(row, "", tuple(part for _, part in bound)))


def _bind(t: FlinkType, field: FieldType, types: MessageTypes) -> Binding:
    entry = types.entry(field)
    if entry is not None and t.root == "MAP":
        value = _bind_value(t.fields[1].type, entry.fields[1], types)
        wire = replace(t, fields=(t.fields[0], FlinkField(VALUE, value.wire)))
        return Binding(t) if value.conversion is None else Binding(wire, _Map(t, "", value))
    if entry is not None and t.root == "ARRAY" and t.fields[0].type.root == "ROW":
        rows = bind_row(t.fields[0].type, entry, types)
        members = {part.name: part.type for part in rows.wire.fields}
        if members.keys() == {"key", VALUE}:
            wire = FlinkType("MAP", fields=tuple(FlinkField(name, members[name]) for name in ("key", VALUE)))
            return Binding(wire, _MapAsRows(t, "a map", rows))
    if not field.repeated:
        return _bind_value(t, field, types)
    if t.root == "ARRAY":
        element = _bind_value(t.fields[0].type, field, types)
        wire = replace(t, fields=(FlinkField("element", element.wire),))
        return Binding(t) if element.conversion is None else Binding(wire, _Array(t, "", element))
    if t.root in ("MAP", "MULTISET") and field.kind == MESSAGE:
        message = types.messages[field.type_name]
        key, value_field = message.field("key"), message.field(VALUE)
        if key is not None and value_field is not None:
            parts = (_bind(t.fields[0].type, key, types), _bind(map_value_type(t), value_field, types))
            pair = FlinkType("ROW", fields=(FlinkField("key", parts[0].wire), FlinkField(VALUE, parts[1].wire)))
            wire = FlinkType("ARRAY", fields=(FlinkField("element", pair),))
            return Binding(wire, _Entries(t, "the entries", parts))
    if entry is None and t.root not in _REPEATED:
        inner = _bind_value(t, field, types)
        wire = FlinkType("ARRAY", fields=(FlinkField("element", inner.wire),))
        return Binding(wire, _OneOf(t, f"repeated {field.kind}", inner))
    return Binding(t)


def _bind_value(t: FlinkType, field: FieldType, types: MessageTypes) -> Binding:
    """Bind a single value: of a field, or of an element of a repeated one."""
    if field.kind != MESSAGE:
        return _bind_scalar(t, field)
    if is_of_message(t, field):
        conversion = _OF_MESSAGES[field.type_name, t.root]
        members = tuple(FlinkField(name, kind) for name, kind in conversion.members)
        return Binding(FlinkType("ROW", fields=members), conversion(t, field.type_name))
    only = only_value(t, field, types)
    if only is not None:
        inner = _bind(t, only, types)
        wire = FlinkType("ROW", fields=(FlinkField(only.name, inner.wire),))
        return Binding(wire, _Wrapped(t, "", inner))
    return bind_row(t, types.messages[field.type_name], types) if t.root == "ROW" else Binding(t)


def _bind_scalar(t: FlinkType, field: FieldType) -> Binding:
    if t.root in _NARROW and t.root != "INT" and field.kind in OF_32_BITS:
        return Binding(_INT, _Small(t, field.kind))
    if t.root in _NARROW and field.kind in OF_64_BITS:
        return Binding(_BIGINT, _Narrowed(t, field.kind))
    if t.root == "BIGINT" and field.kind in ("uint32", "fixed32"):
        return Binding(_INT, _Unsigned(t, field.kind))
    if t.root == "BIGINT" and field.kind == "sfixed32":
        return Binding(_INT, _Widened(t, field.kind))
    return Binding(_FLOAT, _Widened(t, field.kind)) if t.root == "DOUBLE" and field.kind == "float" else Binding(t)


def is_of_message(t: FlinkType, field: FieldType) -> bool:
    """Return whether a column has the value that a message stands for, such as a TIMESTAMP."""
    return (field.type_name, t.root) in _OF_MESSAGES


def only_value(t: FlinkType, field: FieldType, types: MessageTypes) -> FieldType | None:
    """Return the only field of a message whose value a column has, None for other messages and other fields."""
    fields = types.messages[field.type_name].fields if field.kind == MESSAGE else ()
    if len(fields) != 1:
        return None
    is_wrapped = (WRAPPED, "true") in field.params
    if t.root == "ROW":
        return fields[0] if is_wrapped else None
    is_value = is_wrapped or field.type_name in WRAPPERS or (t.root in _REPEATED and fields[0].repeated)
    return fields[0] if is_value else None


def check_writable(row: FlinkType, binding: Binding, format: str) -> None:
    """Raise `SchemaError` if rows can't be written by a binding: a column has no field, or an unsigned one."""
    for name, part in _parts(row, binding):
        if part is None:
            raise SchemaError(f"the message has no field for column '{name}'", format=format, field=name)
        if isinstance(part.conversion, _ReadOnly):
            raise SchemaError(
                f"column '{name}' is {part.conversion.type.summary()}, but its field is {part.conversion.source}: it "
                f"can only be read. {part.conversion.to_write}",
                format=format,
                field=name,
            )


def _parts(row: FlinkType, binding: Binding) -> Sequence[tuple[str, Binding | None]]:
    conversion = binding.conversion
    parts: Sequence[Binding | None] = ()
    names: Sequence[str] = ()
    if isinstance(conversion, _Row):
        parts, names = conversion.bindings, [field.name for field in conversion.type.fields]
    elif isinstance(conversion, _Array | _Map | _Wrapped | _OneOf):
        parts, names = (conversion.inner,), ("",)
    elif isinstance(conversion, _Entries):
        parts, names = conversion.pair, ("key", VALUE)
    named_parts: list[tuple[str, Binding | None]] = []
    for name, part in zip(names, parts, strict=True):
        named_parts.append((name, part))
        if part is not None:
            named_parts += [(f"{name}.{inner}".strip("."), of) for inner, of in _parts(row, part)]
    return named_parts


# --- values ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Small(TwoWay):
    """TINYINT and SMALLINT in a number of 32 bits."""

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        most = 2 ** (INTEGER_BITS[self.type.root] - 1)
        numbers = as_integers(wire)
        least = 0 if self.source in _UNSIGNED else -most  # a negative number is one of more than 31 or 63 bits
        bad = ((numbers < least) | (numbers >= most)) & np.asarray(wire.is_valid())
        return as_type(np.where(bad, 0, numbers), stored_type(self.type), wire), bad

    def to_wire(self, values: pa.Array) -> pa.Array:
        return values.cast(pa.int32())


@dataclass(frozen=True)
class _ReadOnly(TwoWay):
    """A conversion of another type, or of another number of values, which `check_writable` refuses to write."""

    to_write: ClassVar[str] = "Declare it as the type of the field"


@dataclass(frozen=True)
class _Narrowed(_ReadOnly, _Small):
    """TINYINT, SMALLINT and INT of a number of 64 bits."""

    to_write: ClassVar[str] = "Declare it as BIGINT"


@dataclass(frozen=True)
class _Widened(_ReadOnly):
    """BIGINT and DOUBLE of 32 bits."""

    to_write: ClassVar[str] = "Declare it as the type of the field, INT or FLOAT"

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        return wire.cast(stored_type(self.type)), None


@dataclass(frozen=True)
class _Unsigned(_ReadOnly):
    """BIGINT of an unsigned number of 32 bits, whose bits the kernel reads as a signed one."""

    to_write: ClassVar[str] = "Declare it as INT to write its bits"

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        return as_type(as_integers(wire) & 0xFFFFFFFF, pa.int64(), wire), None


@dataclass(frozen=True)
class _OfMessage(TwoWay):
    """A value in a message of numbers. `members` are the message's fields."""

    members: ClassVar[_Members] = ()

    def numbers(self, wire: pa.StructArray) -> list[_Integers]:
        """Return the fields as integers; those of a null message are undefined."""
        return [as_integers(wire.field(place)) for place in range(len(self.members))]

    def struct(self, values: pa.Array, columns: Sequence[_Integers]) -> pa.StructArray:
        """Return a message for each value that is not null."""
        types = [arrow_type(kind) for _, kind in self.members]
        arrays = [pa.array(column.astype(f"i{t.bit_width // 8}"), t) for column, t in zip(columns, types, strict=True)]
        names = [name for name, _ in self.members]
        return pa.StructArray.from_arrays(arrays, names=names, mask=values.is_null())


@dataclass(frozen=True)
class _Timestamp(_OfMessage):
    members: ClassVar[_Members] = (("seconds", _BIGINT), ("nanos", _INT))

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        seconds, nanos = self.numbers(wire)
        bad = (seconds > _MOST_SECONDS) | (seconds < -_MOST_SECONDS) | (nanos < 0) | (nanos >= _BILLION)
        bad &= np.asarray(wire.is_valid())
        micros = np.where(bad, 0, seconds) * _MICROS + nanos // 1000
        return as_type(micros, stored_type(self.type), wire), bad

    def to_wire(self, values: pa.Array) -> pa.Array:
        micros = as_integers(values)
        return self.struct(values, [micros // _MICROS, micros % _MICROS * 1000])


@dataclass(frozen=True)
class _Date(_OfMessage):
    members: ClassVar[_Members] = (("year", _INT), ("month", _INT), ("day", _INT))

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        year, month, day = self.numbers(wire)
        valid = np.asarray(wire.is_valid())
        bad = (year < 1) | (year > 9999) | (month < 1) | (month > 12) | (day < 1)
        months = np.where(bad | ~valid, 0, (year - 1970) * 12 + month - 1).astype("datetime64[M]")
        first, following = (at.astype("datetime64[D]").astype(np.int64) for at in (months, months + 1))
        bad = (bad | (day > following - first)) & valid
        return as_type(np.where(bad, 0, first + day - 1), pa.date32(), wire), bad

    def to_wire(self, values: pa.Array) -> pa.Array:
        days = as_integers(values).astype("datetime64[D]")
        months = days.astype("datetime64[M]")
        number = months.astype(np.int64)
        day = (days - months.astype("datetime64[D]")).astype(np.int64) + 1
        return self.struct(values, [number // 12 + 1970, number % 12 + 1, day])


@dataclass(frozen=True)
class _Time(_OfMessage):
    members: ClassVar[_Members] = (("hours", _INT), ("minutes", _INT), ("seconds", _INT), ("nanos", _INT))

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        hours, minutes, seconds, nanos = self.numbers(wire)
        bad = np.zeros(len(wire), np.bool_)
        for numbers, limit in ((hours, 24), (minutes, 60), (seconds, 60), (nanos, _BILLION)):
            bad |= (numbers < 0) | (numbers >= limit)
        bad &= np.asarray(wire.is_valid())
        of_day = ((hours * 60 + minutes) * 60 + seconds) * _BILLION + nanos // _MILLION * _MILLION
        return as_type(np.where(bad, 0, of_day), stored_type(self.type), wire), bad

    def to_wire(self, values: pa.Array) -> pa.Array:
        seconds, nanos = np.divmod(as_integers(values) // _MILLION * _MILLION, _BILLION)
        minutes, hours = seconds // 60, seconds // 3600
        return self.struct(values, [hours, minutes % 60, seconds % 60, nanos])


@dataclass(frozen=True)
class _Decimal(_OfMessage):
    members: ClassVar[_Members] = (("value", BYTES), ("precision", _INT), ("scale", _INT))

    def values(self, wire: pa.Array) -> tuple[pa.Array, Mask | None]:
        scales = as_integers(wire.field(2))
        data = pc.if_else(wire.is_valid(), wire.field(0), None)
        decimals, bad = decimal_array(data, self.type, scales)
        places = np.flatnonzero(bad)
        if len(places):  # no bytes, which are zero, and numbers to round
            exact = [self._exact(data[place].as_py(), int(scales[place])) for place in places]
            decimals = pc.replace_with_mask(decimals, pa.array(bad), pa.array(exact, decimals.type))
            bad[places] = [number is None for number in exact]
        return decimals, bad

    def _exact(self, data: bytes, scale: int) -> Decimal | None:
        number = unscaled_number(data or b"\0", scale)
        return None if number is None else fit_decimal(number, self.type.precision or 0, self.type.scale or 0)

    def to_wire(self, values: pa.Array) -> pa.Array:
        scales = pa.array(np.full(len(values), self.type.scale or 0, np.int32))
        columns = [unscaled_bytes(values), digit_counts(values), scales]
        return pa.StructArray.from_arrays(columns, names=[name for name, _ in self.members], mask=values.is_null())


_OF_MESSAGES: dict[tuple[str, str], type[_OfMessage]] = {
    (TIMESTAMP, "TIMESTAMP"): _Timestamp,
    (TIMESTAMP, "TIMESTAMP_LTZ"): _Timestamp,
    (DATE, "DATE"): _Date,
    (TIME_OF_DAY, "TIME"): _Time,
    (DECIMAL, "DECIMAL"): _Decimal,
}


# --- what contains others --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Row(TwoWay):
    """ROW. `bindings` has one item for each field, None for one that the message lacks."""

    bindings: tuple[Binding | None, ...] = ()

    def convert(self, wire: pa.Array, path: str, rows_of: RowsOf, errors: RowErrors) -> pa.Array:
        above, children, place = field_lookup(wire, rows_of), list[pa.Array](), 0
        for field_, binding in zip(self.type.fields, self.bindings, strict=True):
            if binding is None:
                children.append(pa.nulls(len(wire), stored_type(field_.type)))
                continue
            inner = f"{path}.{field_.name}" if path else field_.name
            children.append(binding.read(wire.field(place), inner, above, errors))
            place += 1
        return with_fields(wire, stored_type(self.type), children)

    def to_wire(self, values: pa.Array) -> pa.Array:
        children = values.flatten() if values.null_count else [values.field(i) for i in range(values.type.num_fields)]
        bound = [(f.name, b.write(c)) for f, b, c in zip(self.type.fields, self.bindings, children, strict=True) if b]
        mask = values.is_null() if values.null_count else None
        return pa.StructArray.from_arrays([part for _, part in bound], names=[name for name, _ in bound], mask=mask)


@dataclass(frozen=True)
class _Array(TwoWay):
    inner: Binding = field(default_factory=lambda: Binding(_INT))

    def convert(self, wire: pa.Array, path: str, rows_of: RowsOf, errors: RowErrors) -> pa.Array:
        items = self.inner.read(wire.values, f"{path}.element", row_lookup(wire, rows_of), errors)
        return with_elements(wire, stored_type(self.type), items)

    def to_wire(self, values: pa.Array) -> pa.Array:
        items = self.inner.write(values.values)
        return with_elements(values, pa.list_(items.type), items)


@dataclass(frozen=True)
class _OneOf(_ReadOnly):
    """The only element of a list. More elements are an error, because all but one would be lost."""

    to_write: ClassVar[str] = "Declare it as an ARRAY"
    inner: Binding = field(default_factory=lambda: Binding(_INT))

    def convert(self, wire: pa.Array, path: str, rows_of: RowsOf, errors: RowErrors) -> pa.Array:
        counts = pc.fill_null(pc.list_value_length(wire), 0).to_numpy()
        bad = counts > 1
        if bad.any():
            places = np.flatnonzero(bad)
            errors.add(rows_of(places), lambda i: self._several(int(counts[places[i]]), path))
        first = np.asarray(wire.offsets)[:-1]
        items = wire.values.take(pa.array(first, pa.int64(), mask=counts != 1))
        return self.inner.read(items, path, rows_of, errors)

    def _several(self, count: int, path: str) -> Reason:
        wanted = f"ARRAY<{self.type.summary()}>"
        text = f"field '{path}': {count} values of a {self.source}, but the column has one. Declare it as {wanted}"
        return Reason(ErrorCode.WRONG_TYPE, text)


@dataclass(frozen=True)
class _MapAsRows(_ReadOnly):
    """ARRAY of rows of key and value of a map."""

    to_write: ClassVar[str] = "Declare it as a MAP"
    pair: Binding = field(default_factory=lambda: Binding(_INT))

    def convert(self, wire: pa.Array, path: str, rows_of: RowsOf, errors: RowErrors) -> pa.Array:
        names = [part.name for part in self.pair.wire.fields]
        parts = {"key": wire.keys, VALUE: wire.items}
        rows = pa.StructArray.from_arrays([parts[name] for name in names], names=names)
        items = self.pair.read(rows, f"{path}.element", row_lookup(wire, rows_of), errors)
        return with_elements(wire, stored_type(self.type), items)


@dataclass(frozen=True)
class _Map(TwoWay):
    inner: Binding = field(default_factory=lambda: Binding(_INT))

    def convert(self, wire: pa.Array, path: str, rows_of: RowsOf, errors: RowErrors) -> pa.Array:
        items = self.inner.read(wire.items, f"{path}.value", row_lookup(wire, rows_of), errors)
        return with_entries(wire, stored_type(self.type), wire.keys, items)

    def to_wire(self, values: pa.Array) -> pa.Array:
        items = self.inner.write(values.items)
        return with_entries(values, pa.map_(values.type.key_type, items.type), values.keys, items)


@dataclass(frozen=True)
class _Wrapped(TwoWay):
    """A value in a message with one field."""

    inner: Binding = field(default_factory=lambda: Binding(_INT))

    def convert(self, wire: pa.Array, path: str, rows_of: RowsOf, errors: RowErrors) -> pa.Array:
        (only,) = wire.flatten()
        return self.inner.read(only, path, rows_of, errors)

    def to_wire(self, values: pa.Array) -> pa.Array:
        inner = self.inner.write(values)
        mask = values.is_null() if values.null_count else None
        return pa.StructArray.from_arrays([inner], names=[VALUE], mask=mask)


@dataclass(frozen=True)
class _Entries(TwoWay):
    """MAP and MULTISET in repeated messages of key and value. A key that is NULL, or comes twice, is an error."""

    pair: tuple[Binding, Binding] = (Binding(_INT), Binding(_INT))

    def convert(self, wire: pa.Array, path: str, rows_of: RowsOf, errors: RowErrors) -> pa.Array:
        above = row_lookup(wire, rows_of)
        keys = self.pair[0].read(wire.values.field(0), f"{path}.key", above, errors)
        items = self.pair[1].read(wire.values.field(1), f"{path}.value", above, errors)
        bad = np.asarray(keys.is_null()) | _repeated_keys(wire, keys)
        if bad.any():
            places = np.flatnonzero(bad)
            refused = keys.take(pa.array(places)).to_pylist()
            errors.add(above(places), lambda i: self.reason(refused[i], path))
            keys = _without_nulls(keys)
        return with_entries(wire, stored_type(self.type), keys, items)

    def to_wire(self, values: pa.Array) -> pa.Array:
        keys, items = self.pair[0].write(values.keys), self.pair[1].write(values.items)
        entries = pa.StructArray.from_arrays([keys, items], names=["key", VALUE])
        return with_elements(values, pa.list_(entries.type), entries)


def _without_nulls(keys: pa.Array) -> pa.Array:
    """Replace null keys, whose rows are errors, by any value, because a map of Arrow has none."""
    if not keys.null_count:
        return keys
    valid = np.flatnonzero(np.asarray(keys.is_valid()))
    if not len(valid) and pa.types.is_nested(keys.type):
        return pa.array([{} if pa.types.is_struct(keys.type) else []] * len(keys), keys.type)
    if not len(valid):
        return pa.Array.from_buffers(keys.type, len(keys), [None, *keys.buffers()[1:]], offset=keys.offset)
    return keys.take(pa.array(np.where(np.asarray(keys.is_valid()), np.arange(len(keys)), valid[0])))


def _repeated_keys(lists: pa.Array, keys: pa.Array) -> Mask:
    """Return which keys come again later in the same list."""
    if pa.types.is_nested(keys.type) or len(keys) < 2:
        return np.zeros(len(keys), np.bool_)
    owners = np.searchsorted(lists.offsets.to_numpy(), np.arange(len(keys)), side="right")
    codes = pc.fill_null(keys.dictionary_encode().indices, -1).to_numpy().astype(np.int64)
    marks = owners.astype(np.int64) * (len(keys) + 1) + codes
    _, first = np.unique(marks, return_index=True)
    is_repeated = np.ones(len(keys), np.bool_)
    is_repeated[first] = False
    return is_repeated
