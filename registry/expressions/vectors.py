"""Columns of values during evaluation: an Arrow array, a NumPy array or a Python list, converted when needed.

| Flink | in a list | in NumPy |
| --- | --- | --- |
| BOOLEAN, TINYINT to BIGINT, FLOAT, DOUBLE | bool, int, float | the same, of the type's size |
| DECIMAL(p, s) | int: the number times 10^s | - |
| CHAR, VARCHAR, BINARY, VARBINARY | str, bytes | - |
| DATE | int: days since 1970 | int32 |
| TIME | int: milliseconds of the day | int64 |
| TIMESTAMP, TIMESTAMP_LTZ | int: microseconds since 1970, local or in UTC | int64 |
| INTERVAL DAY TO SECOND, INTERVAL YEAR TO MONTH | int: milliseconds, months | int64, int32 |
| ARRAY; MAP and MULTISET; ROW | list; list of pairs; tuple | - |

NULL is None in a list; NumPy arrays come with an array that is False for NULL.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kvformat.registry.contract.types import FlinkType, arrow_type, nullable

Numbers = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]

DTYPES: dict[str, type[np.generic]] = {
    "BOOLEAN": np.bool_,
    "TINYINT": np.int8,
    "SMALLINT": np.int16,
    "INT": np.int32,
    "BIGINT": np.int64,
    "FLOAT": np.float32,
    "DOUBLE": np.float64,
    "DATE": np.int32,
    "TIME": np.int64,
    "TIMESTAMP": np.int64,
    "TIMESTAMP_LTZ": np.int64,
    "INTERVAL DAY TO SECOND": np.int64,
    "INTERVAL YEAR TO MONTH": np.int32,
}
_UNITS = {"TIME": 1_000_000, "INTERVAL DAY TO SECOND": 1000}  # of Arrow's values in one of ours
_DECIMAL_BYTES = 16


class Vector:
    """The values of an expression for some rows. All three forms have equal values."""

    __slots__ = ("_array", "_numbers", "_values", "length", "type")

    def __init__(
        self,
        type_: FlinkType,
        length: int,
        *,
        array: pa.Array | None = None,
        values: list[Any] | None = None,
        numbers: tuple[Numbers, Bools] | None = None,
    ) -> None:
        self.type, self.length = type_, length
        self._array, self._values, self._numbers = array, values, numbers

    @classmethod
    def of_array(cls, type_: FlinkType, array: pa.Array) -> Vector:
        """Return a vector of an Arrow array of `arrow_type(nullable(type_))`."""
        return cls(type_, len(array), array=array)

    @classmethod
    def of_values(cls, type_: FlinkType, values: list[Any]) -> Vector:
        """Return a vector of a list."""
        return cls(type_, len(values), values=values)

    @classmethod
    def of_numbers(cls, type_: FlinkType, numbers: Numbers, valid: Bools) -> Vector:
        """Return a vector of a NumPy array, whose numbers fit the type; `valid` is False for NULL."""
        return cls(type_, len(numbers), numbers=(numbers.astype(DTYPES[type_.root], copy=False), valid))

    def array(self) -> pa.Array:
        """Return an Arrow array of `arrow_type(nullable(type))`."""
        if self._array is None:
            if self.type.root in DTYPES:
                self._array = _array_of_numbers(self.type, *self.numbers())
            else:
                assert self._values is not None
                self._array = array_of_values(self.type, self._values)
        return self._array

    def values(self) -> list[Any]:
        """Return a list. It must not be changed."""
        if self._values is None:
            if self.type.root in DTYPES:
                numbers, valid = self.numbers()
                values = numbers.tolist()
                if not valid.all():
                    values = [value if ok else None for value, ok in zip(values, valid.tolist(), strict=True)]
                self._values = values
            else:
                assert self._array is not None
                self._values = values_of_array(self.type, self._array)
        return self._values

    def numbers(self) -> tuple[Numbers, Bools]:
        """Return a NumPy array and its validity, for a type that has one. They must not be changed."""
        if self._numbers is None:
            dtype = DTYPES[self.type.root]
            if self._array is not None:
                self._numbers = _numbers_of_array(self.type, self._array)
            else:
                assert self._values is not None
                valid = np.fromiter((value is not None for value in self._values), np.bool_, self.length)
                filled = self._values if valid.all() else [0 if value is None else value for value in self._values]
                self._numbers = np.array(filled, dtype) if self.length else np.empty(0, dtype), valid
        return self._numbers

    def valid(self) -> Bools:
        """Return which values are not NULL. The array must not be changed."""
        if self._numbers is not None or self.type.root in DTYPES:
            return self.numbers()[1]
        if self._array is not None:
            return validity(self._array)
        assert self._values is not None
        return np.fromiter((value is not None for value in self._values), np.bool_, self.length)

    def relabelled(self, type_: FlinkType) -> Vector:
        """Return the same values as those of another type of the same representation."""
        if type_.fields or self._array is None:
            if self._numbers is not None:
                return Vector.of_numbers(type_, *self._numbers)
            return Vector.of_values(type_, self.values())
        return Vector.of_array(type_, self._array)

    def take(self, indexes: npt.NDArray[np.intp]) -> Vector:
        """Return the values at these indexes."""
        if self._array is not None:
            return Vector.of_array(self.type, self._array.take(pa.array(indexes)))
        if self._numbers is not None:
            return Vector.of_numbers(self.type, self._numbers[0][indexes], self._numbers[1][indexes])
        assert self._values is not None
        return Vector.of_values(self.type, [self._values[i] for i in indexes.tolist()])


def validity(array: pa.Array) -> Bools:
    """Return which values of an array are not null."""
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    return np.asarray(array.is_valid())


def joined(type_: FlinkType, parts: Sequence[Vector], indexes: npt.NDArray[np.intp]) -> Vector:
    """Return the values of several vectors, one after the other, at these indexes."""
    if type_.root in DTYPES:
        numbers = [part.numbers() for part in parts]
        return Vector.of_numbers(
            type_,
            np.concatenate([values for values, _ in numbers])[indexes],
            np.concatenate([valid for _, valid in numbers])[indexes],
        )
    values = [value for part in parts for value in part.values()]
    return Vector.of_values(type_, [values[i] for i in indexes.tolist()])


# --- from Arrow ----------------------------------------------------------------------------------------------


def _numbers_of_array(type_: FlinkType, array: pa.Array) -> tuple[Numbers, Bools]:
    dtype, root = DTYPES[type_.root], type_.root
    valid = validity(array)
    if root == "BOOLEAN":
        filled = array.fill_null(False) if array.null_count else array
        return np.asarray(filled.to_numpy(zero_copy_only=False), np.bool_), valid
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if root in ("DATE", "INTERVAL YEAR TO MONTH") else pa.int64())
    filled = array.fill_null(0) if array.null_count else array
    numbers = filled.to_numpy(zero_copy_only=False).astype(dtype, copy=False)
    unit = _UNITS.get(root)
    return (numbers if unit is None else numbers // unit), valid


def values_of_array(type_: FlinkType, array: pa.Array) -> list[Any]:
    """Return the list of an array, whose type is `arrow_type(nullable(type_))`."""
    root = type_.root
    if root in DTYPES:
        return Vector.of_array(type_, array).values()
    values: list[Any]
    if root in ("CHAR", "VARCHAR", "BINARY", "VARBINARY"):
        values = _pieces(array, text=root in ("CHAR", "VARCHAR"))
    elif root == "DECIMAL":
        values = _decimals(array)
    elif root == "ARRAY":
        items = values_of_array(type_.fields[0].type, array.values)
        ends = array.offsets.to_numpy().tolist()
        values = [items[start:end] for start, end in itertools.pairwise(ends)]
    elif root in ("MAP", "MULTISET"):
        keys = values_of_array(type_.fields[0].type, array.keys)
        items = values_of_array(_map_value(type_), array.items)
        ends = array.offsets.to_numpy().tolist()
        pairs = list(zip(keys, items, strict=True))
        values = [pairs[start:end] for start, end in itertools.pairwise(ends)]
    elif root == "ROW":
        fields = [values_of_array(f.type, array.field(i)) for i, f in enumerate(type_.fields)]
        values = list(zip(*fields, strict=True)) if fields else [()] * len(array)
    else:
        return list(array.to_pylist())
    if array.null_count:
        return [value if ok else None for value, ok in zip(values, validity(array).tolist(), strict=True)]
    return values


def _map_value(type_: FlinkType) -> FlinkType:
    return type_.fields[1].type if type_.root == "MAP" else FlinkType("INT")


def _pieces(array: pa.Array, *, text: bool) -> list[Any]:
    """Return the bytes or texts of a binary or string array; an empty one for null."""
    _, offsets, data = array.buffers()
    if not len(array):
        return []
    ends = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4)
    first, last = int(ends[0]), int(ends[-1])
    content = b"" if data is None else data.slice(first, last - first).to_pybytes()
    places = (ends - first).tolist()
    if not text:
        return [content[start:end] for start, end in itertools.pairwise(places)]
    if content.isascii():
        letters = content.decode("ascii")
        return [letters[start:end] for start, end in itertools.pairwise(places)]
    return [content[start:end].decode() for start, end in itertools.pairwise(places)]


def _decimals(array: pa.Array) -> list[Any]:
    """Return the unscaled numbers of a decimal array; any number for null."""
    start = array.offset * _DECIMAL_BYTES
    data = array.buffers()[1].slice(start, len(array) * _DECIMAL_BYTES).to_pybytes()
    words = np.frombuffer(data, np.int64).reshape(-1, 2)
    low, high = words[:, 0], words[:, 1]
    if bool(np.all(high == low >> 63)):  # all of them fit 64 bits
        small: list[int] = low.tolist()
        return small
    return [
        int.from_bytes(data[at : at + _DECIMAL_BYTES], "little", signed=True)
        for at in range(0, len(data), _DECIMAL_BYTES)
    ]


# --- to Arrow ------------------------------------------------------------------------------------------------


def _array_of_numbers(type_: FlinkType, numbers: Numbers, valid: Bools) -> pa.Array:
    target, unit = arrow_type(type_), _UNITS.get(type_.root)
    if unit is not None:
        numbers = numbers * unit
    array = pa.array(numbers, mask=None if valid.all() else ~valid)
    return array.view(target) if pa.types.is_temporal(target) else array.cast(target)


def array_of_values(type_: FlinkType, values: list[Any]) -> pa.Array:
    """Return the array of a list, of `arrow_type(nullable(type_))`."""
    root, target = type_.root, arrow_type(nullable(type_))
    if root in DTYPES:
        return Vector.of_values(type_, values).array()
    if root in ("CHAR", "VARCHAR", "BINARY", "VARBINARY"):
        return pa.array(values, target)
    if root == "DECIMAL":
        data = b"".join([(value or 0).to_bytes(_DECIMAL_BYTES, "little", signed=True) for value in values])
        return pa.Array.from_buffers(target, len(values), [_bitmap(values), pa.py_buffer(data)])
    if root in ("ARRAY", "MAP", "MULTISET"):
        if root != "ARRAY":
            values = [value and _entries(value) for value in values]
        sizes = np.fromiter((len(value or ()) for value in values), np.int32, len(values))
        offsets = pa.py_buffer(np.concatenate(([0], np.cumsum(sizes))).astype(np.int32))
        items = [item for value in values if value for item in value]
        if root == "ARRAY":
            child = array_of_values(type_.fields[0].type, items)
        else:
            keys = array_of_values(type_.fields[0].type, [key for key, _ in items])
            child = pa.StructArray.from_arrays(
                [keys, array_of_values(_map_value(type_), [item for _, item in items])],
                fields=[target.field(0).type.field(0), target.field(0).type.field(1)]
                if target.num_fields == 1
                else [target.key_field, target.item_field],
            )
        return pa.Array.from_buffers(target, len(values), [_bitmap(values), offsets], children=[child])
    if root == "ROW":
        columns = [
            array_of_values(f.type, [None if value is None else value[i] for value in values])
            for i, f in enumerate(type_.fields)
        ]
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(columns, fields=list(target), mask=mask)
    return pa.array(values, target)


def _entries(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the entries of a map without those whose key comes again. Raises `ValueError` for the key NULL."""
    keys = [key for key, _ in pairs]
    if None in keys:
        raise ValueError("a map has the key NULL, with which Arrow would end the process")
    try:
        return list(dict(pairs).items()) if len(keys) > 1 else pairs
    except TypeError:  # keys that are lists
        return [(key, item) for i, (key, item) in enumerate(pairs) if key not in keys[i + 1 :]]


def _bitmap(values: list[Any]) -> pa.Buffer | None:
    if None not in values:
        return None
    return pa.py_buffer(np.packbits([value is not None for value in values], bitorder="little"))
