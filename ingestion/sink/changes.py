"""The changes of a table as operations, with the rows before and after each.

rows   kinds          operations  before  after
a      +I             c           null    a
a      -U         ->  u           a       b
b      +U             d           b       null
b      -D
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

CREATE, UPDATE, DELETE = "c", "u", "d"
_UPDATE_BEFORE, _UPDATE_AFTER = "-U", "+U"


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Changes of one table. All arrays have the same length.

    operations: `c`, `u` or `d`. before: rows before an update or delete, null if they are unknown. after: rows after a
    creation or update, null for a delete.
    """

    operations: pa.StringArray
    before: pa.StructArray
    after: pa.StructArray

    def __len__(self) -> int:
        return len(self.operations)

    def key_rows(self) -> pa.StructArray:
        """Return the row of each change that has its key: the row after it, of a delete the row before it."""
        indices = np.arange(len(self)) + np.where(_is(self.operations, DELETE), len(self), 0)
        return pa.concat_arrays([self.after, self.before]).take(pa.array(indices))


def changes_of_rows(rows: pa.StructArray, row_kinds: pa.StringArray | None, same: Sequence[str] = ()) -> TableChanges:
    """Return the changes of rows with kinds; without kinds, all rows are created.

    A `-U` and the `+U` after it are one update, if they have the same values in the columns `same`. A single `+U` is an
    update of an unknown row, a single `-U` a delete.
    """
    count = len(rows)
    if row_kinds is None:
        return TableChanges(pa.repeat(pa.scalar(CREATE), count), pa.nulls(count, rows.type), rows)
    befores, afters = _is(row_kinds, _UPDATE_BEFORE), _is(row_kinds, _UPDATE_AFTER)
    paired = np.zeros(count, np.bool_)  # whether a -U belongs to the row after it
    paired[:-1] = befores[:-1] & afters[1:]
    if same and paired.any():
        paired[:-1] &= _same_as_next(rows, same)
    kept = np.flatnonzero(~paired)
    deleted = (befores | _is(row_kinds, "-D"))[kept]
    updated = afters[kept]
    has_before = updated & np.concatenate([[False], paired])[kept]
    operations = np.where(deleted, DELETE, np.where(updated, UPDATE, CREATE))
    before = np.ma.masked_array(kept - has_before, mask=~(deleted | has_before))
    after = np.ma.masked_array(kept, mask=deleted)
    return TableChanges(
        pa.array(operations.tolist(), pa.string()), rows.take(_indices(before)), rows.take(_indices(after))
    )


def _same_as_next(rows: pa.StructArray, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return for each row but the last whether the next one has the same values in these columns."""
    same = np.ones(max(len(rows) - 1, 0), np.bool_)
    for field, column in zip(rows.type, rows.flatten(), strict=True):
        if field.name in names and pa.types.is_nested(field.type):
            same &= [value == following for value, following in itertools.pairwise(column.to_pylist())]
        elif field.name in names:
            same &= np.asarray(pc.equal(column[:-1], column[1:]).fill_null(False))
    return same


def _is(texts: pa.StringArray, text: str) -> npt.NDArray[np.bool_]:
    return np.asarray(texts.to_numpy(zero_copy_only=False) == text, np.bool_)


def _indices(indices: np.ma.MaskedArray[tuple[int, ...], np.dtype[np.int64]]) -> pa.Array:
    return pa.array(indices.data, pa.int64(), mask=np.ma.getmaskarray(indices))
