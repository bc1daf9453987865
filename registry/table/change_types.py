"""Row kinds of other systems' change feeds: the column `_change_type` of Delta's change data feed, and of others.

| `_change_type` | row kind |
| --- | --- |
| `insert`, `INSERT` | `+I` |
| `update_preimage`, `UPDATE_BEFORE` | `-U` |
| `update_postimage`, `UPDATE_AFTER` | `+U` |
| `delete`, `DELETE` | `-D` |

Rules: Delta's protocol ("Change Data Files"), which Spark's `changes()` follows, and Iceberg's `ChangelogOperation`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import EncodeError, listed
from kvformat.registry.spark.decoded_columns import ROW_KIND

if TYPE_CHECKING:
    from pyspark.sql import Column

CHANGE_TYPE = "_change_type"
FEED_COLUMNS = (CHANGE_TYPE, "_commit_version", "_commit_timestamp", "_change_ordinal", "_commit_snapshot_id")
"""The columns that change feeds add to those of the table."""
KINDS: Mapping[str, str] = {
    "insert": "+I",
    "update_preimage": "-U",
    "update_postimage": "+U",
    "delete": "-D",
    "INSERT": "+I",
    "UPDATE_BEFORE": "-U",
    "UPDATE_AFTER": "+U",
    "DELETE": "-D",
}
"""The row kind of each change type."""


def kinds_column(names: Collection[str], table: Collection[str]) -> str | None:
    """Return the column of the rows with their kinds: `row_kind`, or else `_change_type`; None without one.

    `names` are the columns of the rows, `table` those of the table, which may have a column of such a name itself.
    """
    return next((name for name in (ROW_KIND, CHANGE_TYPE) if name in names and name not in table), None)


def kinds_of_changes() -> Column:
    """Return the row kinds of the column `_change_type` as a Column; an unknown type fails the job."""
    from pyspark.sql import functions as F

    change = F.col(CHANGE_TYPE).cast("string")
    kind = None
    for change_type, row_kind in KINDS.items():
        is_type = change == change_type
        kind = F.when(is_type, row_kind) if kind is None else kind.when(is_type, row_kind)
    assert kind is not None
    before, after = F.lit(ErrorCode.UNKNOWN_OPERATION.marked(_BEFORE)), F.lit(_AFTER)
    return kind.otherwise(F.raise_error(F.concat(before, F.coalesce(change, F.lit("NULL")), after)))


def kinds_of(change_types: pa.Array) -> pa.StringArray:
    """Return the row kinds of change types. Raises `EncodeError` for an unknown type, and for null."""
    texts = change_types.cast(pa.string())
    places = pc.index_in(texts, pa.array(KINDS, pa.string()))
    if places.null_count:
        wrong = texts[pc.index(places.is_null(), True).as_py()].as_py()
        raise EncodeError(f"{_BEFORE}{wrong or 'NULL'}{_AFTER}", code=ErrorCode.UNKNOWN_OPERATION)
    return pa.array(KINDS.values(), pa.string()).take(places)


_BEFORE = f"column '{CHANGE_TYPE}' is "
_AFTER = f", but must be one of {listed(KINDS)}"
