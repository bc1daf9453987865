"""Rows that say which of their columns an update left as they were: how these keep their values.

    unchanged_columns   the names of a row's columns that are NULL only because the message does not have them

Their value is the last one of the same key: in the batch, since it was deleted there, else in the table that is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as F

from kvformat.registry.contract.format import UNCHANGED
from kvformat.registry.streams.changes import ROW_KIND, quoted

_ROW, _DELETED = "_kvformat_row", "_kvformat_deleted"


def latest(groups: GroupedData, last: Column, names: Sequence[str], kind: Column, order: Column) -> DataFrame:
    """The last row of each key, its unchanged columns with the last values that the key's rows have of them."""
    added, values = kind.isin("+I", "+U"), [name for name in names if name != UNCHANGED]
    known = [
        F.max_by(
            F.struct(quoted(name).alias("value"), order.alias("at")),
            F.when(added & ~_names(quoted(UNCHANGED), name), order),
        ).alias(f"_kvformat_known{n}")
        for n, name in enumerate(values)
    ]
    rows = groups.agg(last, F.max(F.when(kind == "-D", order)).alias(_DELETED), *known)
    row, deleted = F.col(_ROW), F.col(_DELETED)
    columns, missing = dict[str, Column](), list[Column]()
    for n, name in enumerate(values):
        at = F.col(f"_kvformat_known{n}.at")
        found = F.coalesce(at.isNotNull() & (deleted.isNull() | (at > deleted)), F.lit(False))
        of_row, unchanged = row.getField(name), _names(row.getField(UNCHANGED), name)
        columns[name] = F.when(~unchanged, of_row).when(found, F.col(f"_kvformat_known{n}.value"))
        missing.append(F.when(unchanged & ~found, F.lit(name)))
    left = F.array_compact(F.array(*missing))
    is_row = row.getField(ROW_KIND).isin("+I", "+U")
    columns[UNCHANGED] = F.when(is_row & (F.size(left) > 0), left)
    return rows.select(*(columns[name].alias(name) for name in names), row.getField(ROW_KIND).alias(ROW_KIND))


def with_old(rows: DataFrame, old: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The rows to be written, without the column of names: what it names they take from the old row of their key."""
    values = old.columns
    before = old.select(*(quoted(name).alias(f"_kvformat_old{n}") for n, name in enumerate(values)))
    same = [quoted(name).eqNullSafe(F.col(f"_kvformat_old{values.index(name)}")) for name in keys]
    columns = [
        F.when(_names(quoted(UNCHANGED), name), F.col(f"_kvformat_old{n}")).otherwise(quoted(name)).alias(name)
        for n, name in enumerate(values)
    ]
    return rows.join(before, same, "left").select(*columns)


def _names(unchanged: Column, name: str) -> Column:
    return F.coalesce(F.array_contains(unchanged, name), F.lit(False))
