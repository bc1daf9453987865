"""The rows of a table from its records: rows of inserts, current rows, or changes.

Current rows are the last row of each key in Kafka's order: `topic` (if there are several), `partition` and `offset`.
These columns are decoded with names that clash with no other column, and dropped from the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kvformat.registry.contract.changelog import UNCHANGED, ChangelogMode
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.format import Errors
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.spark.decoded_columns import ERROR, ROW_INDEX, ROW_KIND
from kvformat.registry.streams.changes import latest_by_key, normalize_changes
from kvformat.registry.table.metadata import MetadataKeys, requested_metadata

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Decode(Protocol):
    """Decodes the records of a table, with the arguments of `KeyValueFormat.decode`."""

    def __call__(self, *, metadata: MetadataKeys | None, errors: Errors = "raise", row_index: bool) -> DataFrame:
        """Return the rows, or the changes."""


_ORDER = {f"_kvformat_{key}": key for key in ("topic", "partition", "offset")}
_HEADERS = ("headers", "header-list")


def needs_headers(kv: KeyValueFormat, metadata: MetadataKeys | None, errors: Errors) -> bool:
    """Return whether headers are needed: for a metadata column, or to keep bad records as they came."""
    metadata_columns = [*(column for column in kv.columns if column.kind == "metadata"), *requested_metadata(metadata)]
    return errors == "capture" or any(column.key in _HEADERS for column in metadata_columns)


def gives_changes(kv: KeyValueFormat, *, changelog: bool | None, errors: Errors, row_index: bool) -> bool:
    """Return whether a batch gives changes or inserts, not current rows; raises `ConfigurationError` for a conflict."""
    if kv.changelog_mode is ChangelogMode.INSERT_ONLY:
        if changelog:
            raise ConfigurationError(f"table '{kv.name}' has only inserts and no changes: leave changelog out")
        return True
    if not kv.primary_key:
        if changelog is False:
            raise ConfigurationError(
                f"table '{kv.name}' has no PRIMARY KEY, so it is unknown which row a change replaces: declare one in "
                "the DDL, PRIMARY KEY (...) NOT ENFORCED, or read the changes and name the key, "
                "latest_by_key(table.read(spark, metadata=['partition', 'offset']), [...])"
            )
        return True
    if not changelog and (errors == "capture" or row_index):
        argument = "errors='capture'" if errors == "capture" else "row_index=True"
        raise ConfigurationError(
            f"{argument} needs records, but the current rows of '{kv.name}' are not single records: read the changes, "
            "read(spark, changelog=True, ...), and reduce the good ones to current rows, latest_by_key(good, table.kv)"
        )
    return bool(changelog)


def current(kv: KeyValueFormat, decode: Decode, metadata: MetadataKeys | None) -> DataFrame:
    """Return the last row of each key, without deleted ones: the table's columns, then those of `metadata`."""
    changes, order = _ordered(kv, decode, metadata)
    return latest_by_key(changes, kv, order).drop(*order)


def normalized(kv: KeyValueFormat, decode: Decode, metadata: MetadataKeys | None) -> DataFrame:
    """Return the changes as a complete changelog; they are ordered within a micro-batch."""
    if kv.changelog_mode is ChangelogMode.INSERT_ONLY:
        raise ConfigurationError(f"table '{kv.name}' has only inserts, which are complete: leave normalize out")
    changes, order = _ordered(kv, decode, metadata)
    columns = [name for name in changes.columns if name not in (*order, ROW_KIND, ROW_INDEX, UNCHANGED)]
    return normalize_changes(changes, kv, order, columns=columns)


def check_normalized(kv: KeyValueFormat, *, errors: Errors, row_index: bool) -> None:
    """Raise `ConfigurationError` if bad records or row indices are requested: a normalized changelog has neither."""
    if errors == "capture" or row_index:
        raise ConfigurationError(
            f"normalize=True gives the rows of '{kv.name}' without {ERROR} and {ROW_INDEX}: read the changes without "
            "normalize, separate bad records with split_errors, and call normalize_changes(good, table.kv)"
        )


def _ordered(kv: KeyValueFormat, decode: Decode, metadata: MetadataKeys | None) -> tuple[DataFrame, list[str]]:
    """Return the changes with columns that order them, and the names of these columns."""
    topics = kv.connector_options("decode")["topic"] or ()
    order = {name: key for name, key in _ORDER.items() if key != "topic" or len(topics) != 1}
    wanted = {column.name: column.key for column in requested_metadata(metadata)}
    return decode(metadata={**wanted, **order}, row_index=True), list(order)
