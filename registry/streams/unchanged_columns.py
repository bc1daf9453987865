"""Fill the columns that an update did not contain with the last known value of the same key.

    unchanged_columns   the names of a row's columns that are NULL only because the message does not contain them

The value comes from an earlier row of the batch, unless the key was deleted in between; else from the stored table.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as F

from kvformat.registry.contract.changelog import UNCHANGED
from kvformat.registry.spark.decoded_columns import ROW_KIND, exact_column
from kvformat.registry.streams.change_columns import ADDED_KINDS

_ROW, _DELETED = "_kvformat_row", "_kvformat_deleted"


def latest_with_unchanged(
    groups: GroupedData, last: Column, names: Sequence[str], kind: Column, order: Column
) -> DataFrame:
    """Return the last row of each key, with its unchanged columns filled from earlier rows of the batch.

    `groups` are the changes grouped by key, `last` aggregates the last row as the struct `_kvformat_row`, and `names`
    are the columns of the result. `unchanged_columns` keeps the names for which the batch has no value.
    """
    added, values = kind.isin(*ADDED_KINDS), [name for name in names if name != UNCHANGED]
    known = [
        F.max_by(
            F.struct(exact_column(name).alias("value"), order.alias("at")),
            F.when(added & ~_is_unchanged(exact_column(UNCHANGED), name), order),
        ).alias(f"_kvformat_known{n}")
        for n, name in enumerate(values)
    ]
    rows = groups.agg(last, F.max(F.when(kind == "-D", order)).alias(_DELETED), *known)
    row, deleted = F.col(_ROW), F.col(_DELETED)
    columns, missing = dict[str, Column](), list[Column]()
    for n, name in enumerate(values):
        at = F.col(f"_kvformat_known{n}.at")
        is_known = F.coalesce(at.isNotNull() & (deleted.isNull() | (at > deleted)), F.lit(False))
        of_row, unchanged = row.getField(name), _is_unchanged(row.getField(UNCHANGED), name)
        columns[name] = F.when(~unchanged, of_row).when(is_known, F.col(f"_kvformat_known{n}.value"))
        missing.append(F.when(unchanged & ~is_known, F.lit(name)))
    left = F.array_compact(F.array(*missing))
    is_row = row.getField(ROW_KIND).isin(*ADDED_KINDS)
    columns[UNCHANGED] = F.when(is_row & (F.size(left) > 0), left)
    return rows.select(*(columns[name].alias(name) for name in names), row.getField(ROW_KIND).alias(ROW_KIND))


def with_old_values(rows: DataFrame, old: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return `rows` without `unchanged_columns`, whose columns get the values of the row of `old` with the same key."""
    values = old.columns
    before = old.select(*(exact_column(name).alias(f"_kvformat_old{n}") for n, name in enumerate(values)))
    same_key = [exact_column(name).eqNullSafe(F.col(f"_kvformat_old{values.index(name)}")) for name in keys]
    columns = []
    for n, name in enumerate(values):
        unchanged = _is_unchanged(exact_column(UNCHANGED), name)
        column = F.when(unchanged, F.col(f"_kvformat_old{n}")).otherwise(exact_column(name))
        columns.append(column.alias(name))
    return rows.join(before, same_key, "left").select(*columns)


def _is_unchanged(unchanged: Column, name: str) -> Column:
    return F.coalesce(F.array_contains(unchanged, name), F.lit(False))
