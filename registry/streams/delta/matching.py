"""Rows of a table by the keys of changed rows, on Arrow arrays. NULL is a value of a key, as in Spark's `<=>`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.changelog import UNCHANGED
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.spark.decoded_columns import ROW_KIND
from kvformat.registry.streams.delta.files import DataFile, has_order

Places = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


def can_match(schema: pa.Schema, keys: Sequence[str]) -> bool:
    """Whether `KeyIndex` takes keys of these types: all but nested ones."""
    return not any(pa.types.is_nested(schema.field(key).type) for key in keys)


class KeyIndex:
    """The keys of some rows, each of which is there once.

    A key is a number: the place of its first column's value among all values of that column, then the place of the pair
    of this number and the next column's value among all pairs, and so on.
    """

    def __init__(self, rows: pa.Table, keys: Sequence[str]) -> None:
        codes, self._columns = _numbered(rows, keys)
        self._rows = np.full(rows.num_rows, -1, np.int64)
        self._rows[codes] = np.arange(rows.num_rows)
        if (self._rows < 0).any():
            raise ConfigurationError(
                f"the rows of a batch have the same key twice ({', '.join(keys)}): a table takes the last row of each "
                "key, as latest_by_key(df, keys, deletes=True) returns them"
            )

    def places(self, rows: pa.Table) -> Places:
        """Return for each row the number of the row of the index that has its key, or -1."""
        if not len(self._rows):  # all records of a batch may be bad
            return np.full(rows.num_rows, -1, np.int64)
        codes = np.zeros(rows.num_rows, np.int64)
        for number, (key, values, pairs) in enumerate(self._columns):
            digits = _digits(_comparable(rows.column(key)), values)
            if number == 0:  # the digits of the first column are the numbers of its pairs
                codes = digits
                continue
            wanted = codes * len(values) + digits
            at = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
            codes = np.where((codes >= 0) & (digits >= 0) & (pairs[at] == wanted), at, -1)
        return np.where(codes >= 0, self._rows[codes], -1)

    def may_be_in(self, file: DataFile) -> bool:
        """Whether one of the keys may be in a file, by the least and greatest values of its columns."""
        for key, values, _ in self._columns:
            if key not in file.low or key not in file.high or values.null_count or not has_order(values.type):
                continue
            low, high = (pa.scalar(end[key], values.type) for end in (file.low, file.high))
            if not pc.any(pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))).as_py():
                return False
        return True


def last_rows(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the last row of each key, as `latest_by_key` does, in their order. The keys are not nested."""
    is_last = last_places(rows, keys) == np.arange(rows.num_rows)
    return rows if is_last.all() else rows.filter(pa.array(is_last))


def last_places(rows: pa.Table, keys: Sequence[str]) -> Places:
    """Return for each row the number of the last row that has its key. The keys are not nested."""
    codes, _ = _numbered(rows, keys)
    last = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    last[codes] = np.arange(rows.num_rows)  # a later row replaces an earlier one
    return last[codes]


def merged(rows: pa.Table, changes: pa.Table, places: Places) -> pa.Table:
    """Return the rows of a table after changes.

    places: for each row the number of its change, or -1. A deleted row is left out. A changed row gets the values of
    its change, but not those of its `unchanged_columns`, nor of columns that the changes lack.
    """
    changed, here = places >= 0, np.arange(len(places))
    of_changes = np.where(changed, len(places) + places, here)
    alive = ~changed | is_written(changes)[places]
    unchanged = _unchanged(changes)
    columns = []
    for number, name in enumerate(rows.column_names):
        if name not in changes.column_names:  # a column that the batch does not know
            columns.append(rows.column(number).take(pa.array(here[alive])))
            continue
        taken = np.where(changed & unchanged[name][places], here, of_changes) if name in unchanged else of_changes
        both = [*rows.column(number).chunks, *changes.column(name).chunks]
        columns.append(pa.concat_arrays(both).take(pa.array(taken[alive])))
    return pa.table(columns, schema=rows.schema)


def is_written(changes: pa.Table) -> Mask:
    """Return for each change whether it writes a row. The others delete one."""
    return np.asarray(pc.equal(changes.column(ROW_KIND), "+U"))


def _unchanged(changes: pa.Table) -> dict[str, Mask]:
    """Return for each name in `unchanged_columns` which changes have it."""
    if UNCHANGED not in changes.column_names:
        return {}
    lists = changes.column(UNCHANGED).combine_chunks()
    names, of = lists.flatten(), pc.list_parent_indices(lists)
    masks = {}
    for name in names.unique().to_pylist():
        mask = np.zeros(changes.num_rows, np.bool_)
        mask[np.asarray(of.filter(pc.equal(names, name)))] = True
        masks[name] = mask
    return masks


def _numbered(rows: pa.Table, keys: Sequence[str]) -> tuple[Places, list[tuple[str, pa.Array, Places]]]:
    """Return the number of each row's key, and for each column of the key its values and the pairs of `KeyIndex`."""
    columns: list[tuple[str, pa.Array, Places]] = []
    codes = np.zeros(rows.num_rows, np.int64)
    for key in keys:
        encoded = _comparable(rows.column(key)).combine_chunks().dictionary_encode("encode")
        values, digits = encoded.dictionary, np.asarray(encoded.indices).astype(np.int64)
        codes, pairs = _with_digit(codes, digits, len(values)) if columns else (digits, np.arange(len(values)))
        columns.append((key, values, pairs))
    return codes, columns


def _with_digit(codes: Places, digits: Places, base: int) -> tuple[Places, Places]:
    """Return numbers from 0 for the pairs of a code and a digit, and the pairs in the order of their numbers."""
    pairs = codes * base + digits
    known = np.unique(pairs)
    return np.searchsorted(known, pairs), known


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values that are equal if Spark's are: 0.0 is -0.0."""
    return pc.add(column, pa.scalar(0.0, column.type)) if pa.types.is_floating(column.type) else column


def _digits(column: pa.ChunkedArray, values: pa.Array) -> Places:
    """Return the place of each value among others, or -1."""
    return np.asarray(pc.fill_null(pc.index_in(column, value_set=values), -1), np.int64)
