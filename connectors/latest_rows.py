"""The current rows of a table from its changes in Kafka's order, in Arrow: the last row of each key.

`latest_by_key` does the same by Spark, with its rules: the last row counts, unless it deletes the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.changelog import UNCHANGED
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.spark.decoded_columns import ROW_KIND
from kvformat.registry.streams.change_columns import ADDED_KINDS

_LEAST = 100_000  # rows that are kept before the first reduction
_PLACE = "_kvformat_place"


def check_latest(kv: KeyValueFormat, schema: pa.Schema) -> None:
    """Raise `ConfigurationError` if the current rows of a table can't be computed here."""
    advice = "read the changes, changelog=True, or the current rows by Spark, read(spark)"
    if UNCHANGED in schema.names:
        raise ConfigurationError(
            f"table '{kv.name}': an update does not contain all columns ('unchanged.columns'), and their values are in "
            f"earlier rows: {advice}"
        )
    nested = [name for name in kv.key_columns if pa.types.is_nested(schema.field(name).type)]
    if nested:
        raise ConfigurationError(
            f"table '{kv.name}': column '{nested[0]}' of the key has fields: {advice}", field=nested[0]
        )


class LatestRows:
    """Reduces changes to current rows. It holds the current rows, and at most as many changes, or `_LEAST`.

    schema: the columns of the result, those of the changes without `row_kind`.
    """

    def __init__(self, changes: pa.Schema, keys: Sequence[str]) -> None:
        self._keys = list(keys)
        self._rows = changes.empty_table()
        self._new: list[pa.RecordBatch] = []
        self.schema = pa.schema([field for field in changes if field.name != ROW_KIND])

    def of(self, changes: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the current rows after all changes, in the order of their last change."""
        count = 0
        for batch in changes:
            self._new.append(batch)
            count += len(batch)
            if count > max(len(self._rows), _LEAST):
                self._reduce()
                count = 0
        self._reduce()
        yield from self._rows.select(self.schema.names).to_batches()

    def _reduce(self) -> None:
        """Keep the last row of each key, unless it deletes the key."""
        rows = pa.concat_tables([self._rows, pa.Table.from_batches(self._new, self._rows.schema)])
        self._new = []
        places = rows.select(self._keys).append_column(_PLACE, pa.array(np.arange(len(rows))))
        last = places.group_by(self._keys).aggregate([(_PLACE, "max")])[f"{_PLACE}_max"]
        kept = np.zeros(len(rows), np.bool_)
        kept[np.asarray(last)] = True
        added = pc.is_in(rows[ROW_KIND], pa.array(ADDED_KINDS))
        self._rows = rows.filter(pc.and_(pa.array(kept), added))
