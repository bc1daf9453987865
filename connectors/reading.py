"""The rows of a table from its records: rows of inserts, the current table of an upsert table, or its changes.

A current table is the last row of each key, in the order of Kafka: `topic`, where there are several, `partition` and
`offset`. The columns for that are decoded under names of their own, and left out of the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvformat.registry.contract.changelog import UNCHANGED, ChangelogMode
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.format import Errors
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.spark.decoded_columns import ERROR, ROW_INDEX, ROW_KIND
from kvformat.registry.streams.changes import latest_by_key, normalize_changes
from kvformat.registry.table.metadata import MetadataKeys, requested_metadata

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ORDER = {f"_kvformat_{key}": key for key in ("topic", "partition", "offset")}
_HEADERS = ("headers", "header-list")


def needs_headers(kv: KeyValueFormat, metadata: MetadataKeys | None, errors: Errors) -> bool:
    """Whether the records' headers are read: for a column, or for bad records to be sent again as they came."""
    metadata_columns = [*(column for column in kv.columns if column.kind == "metadata"), *requested_metadata(metadata)]
    return errors == "capture" or any(column.key in _HEADERS for column in metadata_columns)


def gives_changes(kv: KeyValueFormat, *, changelog: bool | None, errors: Errors, row_index: bool) -> bool:
    """Whether a batch gives changes rather than a table; raises `ConfigurationError` for what can't be given."""
    if kv.changelog_mode is ChangelogMode.INSERT_ONLY:
        if changelog:
            raise ConfigurationError(f"table '{kv.name}' has inserts alone: there are no changes, leave changelog out")
        return True
    if not kv.primary_key:
        if changelog is False:
            raise ConfigurationError(
                f"table '{kv.name}' has no PRIMARY KEY, so nothing says which row a change takes the place of: declare "
                "one in the DDL, PRIMARY KEY (...) NOT ENFORCED, or read the changes and name the key, "
                "latest_by_key(table.read(spark, metadata=['partition', 'offset']), [...])"
            )
        return True
    if not changelog and (errors == "capture" or row_index):
        given = "errors='capture'" if errors == "capture" else "row_index=True"
        raise ConfigurationError(
            f"{given} is about records, which the current table of '{kv.name}' has no more: read its changes, "
            "read(spark, changelog=True, ...), and fold the good ones, latest_by_key(good, table.kv)"
        )
    return bool(changelog)


def current(kv: KeyValueFormat, records: DataFrame, metadata: MetadataKeys | None) -> DataFrame:
    """The last row of each key, unless that deletes it: the table's columns, then those of `metadata`."""
    changes, order = _ordered(kv, records, metadata)
    return latest_by_key(changes, kv, order).drop(*order)


def normalized(kv: KeyValueFormat, records: DataFrame, metadata: MetadataKeys | None) -> DataFrame:
    """The changes as a complete changelog; order counts within a micro-batch."""
    if kv.changelog_mode is ChangelogMode.INSERT_ONLY:
        raise ConfigurationError(f"table '{kv.name}' has inserts alone, which are complete: leave normalize out")
    changes, order = _ordered(kv, records, metadata)
    columns = [name for name in changes.columns if name not in (*order, ROW_KIND, ROW_INDEX, UNCHANGED)]
    return normalize_changes(changes, kv, order, columns=columns)


def check_normalized(kv: KeyValueFormat, *, errors: Errors, row_index: bool) -> None:
    """Neither bad records nor places in them come out of a changelog that is made anew."""
    if errors == "capture" or row_index:
        raise ConfigurationError(
            f"normalize=True gives the rows of '{kv.name}', without {ERROR} and {ROW_INDEX}: read the changes without "
            "it, split_errors them, and give normalize_changes(good, table.kv) the good ones"
        )


def _ordered(kv: KeyValueFormat, records: DataFrame, metadata: MetadataKeys | None) -> tuple[DataFrame, list[str]]:
    """The changes with all that puts them in order, and the names of its columns."""
    topics = kv.connector_options("decode")["topic"] or ()
    order = {name: key for name, key in _ORDER.items() if key != "topic" or len(topics) != 1}
    wanted = {column.name: column.key for column in requested_metadata(metadata)}
    return kv.decode(records, metadata={**wanted, **order}, row_index=True), list(order)
