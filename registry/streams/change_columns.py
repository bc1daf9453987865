"""Key, order and kind of changes, as columns of a DataFrame.

PySpark is imported when a function is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kvformat.registry.contract.changelog import RowKind
from kvformat.registry.contract.errors import ConfigurationError, SchemaError, did_you_mean, listed
from kvformat.registry.spark.decoded_columns import ROW_INDEX, ROW_KIND, exact_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    Columns: TypeAlias = Sequence[str | Column] | str | Column

KAFKA_ORDER = ("partition", "offset")
ADDED_KINDS = ("+I", "+U")
"""The kinds of rows that are in the table after the change."""


class HasKeyColumns(Protocol):
    """A table that knows its key, such as `KeyValueFormat`."""

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The names of the key columns; empty if the table has no key."""


def named_column(df: DataFrame, name: str | Column) -> Column:
    """Return the column `name`, or the field at that path if `df` has no such column; a Column is returned as it is."""
    from pyspark.sql import functions as F

    if not isinstance(name, str):
        return name
    return exact_column(name) if name in df.columns else F.col(name)  # "*" selects all columns


def _existing_column(df: DataFrame, name: str | Column, purpose: str) -> Column:
    """Return the column `name`; raise `SchemaError` with `purpose` if `df` does not have it."""
    from pyspark.errors import AnalysisException

    column = named_column(df, name)
    if isinstance(name, str) and name not in df.columns:
        try:
            df.select(column).schema  # noqa: B018 - makes Spark Connect analyse it now
        except AnalysisException as cause:
            near = did_you_mean(name, df.columns)
            raise SchemaError(
                f"there is no column {name!r} {purpose}.{near} The columns: {listed(df.columns)}", field=name
            ) from cause
    return column


def key_columns(df: DataFrame, keys: Columns | HasKeyColumns) -> list[Column]:
    """Return the key columns, at least one. Raises `ConfigurationError` or `SchemaError`."""
    from pyspark.sql import Column

    if not isinstance(keys, str | Sequence | Column):
        if not keys.key_columns:
            raise ConfigurationError("the table has neither a PRIMARY KEY nor 'key.fields': name the key columns")
        keys = keys.key_columns
    columns = [_existing_column(df, key, "to use as a key") for key in column_list(keys)]
    if not columns:
        raise ConfigurationError("name at least one key column")
    return columns


def order_columns(df: DataFrame, order_by: Columns | None) -> list[Column]:
    """Return the columns to sort changes by: `order_by`, else Kafka's order, followed by `row_index` if `df` has it.

    Raises `ConfigurationError` or `SchemaError`.
    """
    if order_by is None:
        missing = [name for name in KAFKA_ORDER if name not in df.columns]
        if missing:
            raise ConfigurationError(
                f"there is no column {missing[0]!r} to sort the changes by: keep Kafka's columns 'partition' and "
                f"'offset', or name others, order_by=[...]. The columns: {listed(df.columns)}"
            )
        order_by = KAFKA_ORDER
    columns = [_existing_column(df, name, "to sort the changes by") for name in column_list(order_by)]
    if not columns:
        raise ConfigurationError("name at least one column to sort the changes by, order_by=[...]")
    return [*columns, exact_column(ROW_INDEX)] if ROW_INDEX in df.columns else columns


def row_kind(df: DataFrame) -> Column:
    """Return the kind of each row: the column `row_kind`, or '+I' if `df` does not have it.

    An unknown kind fails the job.
    """
    from pyspark.sql import functions as F

    if ROW_KIND not in df.columns:
        return F.lit(RowKind.INSERT.value)
    kind = exact_column(ROW_KIND)
    shown = F.coalesce(F.concat(F.lit("'"), kind.cast("string"), F.lit("'")), F.lit("NULL"))
    wrong = F.concat(F.lit("row_kind must be '+I', '-U', '+U' or '-D', not "), shown)
    return F.when(kind.isin([kind.value for kind in RowKind]), kind).otherwise(F.raise_error(wrong))


def column_list(columns: Columns) -> list[str | Column]:
    """Return one or several columns as a list."""
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        return [columns]
    return list(columns)
