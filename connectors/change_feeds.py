"""The order of the changes of a lake's change feed, which Spark reads in any order.

    is_feed(kv, columns)    whether rows are a feed that must be put in order
    in_order(kv, df)        the rows in the order in which they are written

A feed has the version of the commit of each change (`_commit_version`), as Delta's change data feed and Spark's
`changes()` have. All changes of a key go to one task, by version; in a version the old row of a key comes before its
new row, so that an update is a pair. Without a key all changes go to one task.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.spark.decoded_columns import exact_column
from kvformat.registry.table.change_types import CHANGE_TYPE, kinds_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_VERSION, _ORDINAL = "_commit_version", "_change_ordinal"
_OLD = ("delete", "update_preimage", "DELETE", "UPDATE_BEFORE")
"""Change types of rows that are not there any more."""


def is_feed(kv: KeyValueFormat, columns: Collection[str]) -> bool:
    """Return whether rows with these columns are changes of several commits, for a table that writes changes."""
    declared = [column.name for column in kv.columns]
    writes_changes = kv.changelog_mode is not ChangelogMode.INSERT_ONLY
    return writes_changes and _VERSION in columns and kinds_column(columns, declared) == CHANGE_TYPE


def in_order(kv: KeyValueFormat, df: DataFrame) -> DataFrame:
    """Return the rows of a feed in order."""
    from pyspark.sql import functions as F

    keys = [exact_column(name) for name in kv.key_columns]
    together = df.repartition(*keys) if keys else df.coalesce(1)
    ordinal = [exact_column(_ORDINAL)] if _ORDINAL in df.columns else []
    is_old = F.when(exact_column(CHANGE_TYPE).isin(*_OLD), 0).otherwise(1)
    return together.sortWithinPartitions(exact_column(_VERSION), *ordinal, *keys, is_old)
