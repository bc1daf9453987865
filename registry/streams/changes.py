"""Changes in Spark: explode decoded rows, split off bad records, build the current table, normalize a changelog.

    decode_rows -> explode_changes -> latest_by_key       batch: the current table
                                   -> normalize_changes   stream: the result of Flink's ChangelogNormalize

A change is a row with the column `row_kind` ('+I', '-U', '+U', '-D'); in a DataFrame without it all rows are inserts.
PySpark is imported when a function is called. The functions use only PySpark's public API, so they work on classic
Spark and on Spark Connect. They change no Spark setting, and no result depends on a time zone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvformat.registry.contract.changelog import UNCHANGED, RowKind
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import ConfigurationError, SchemaError, listed
from kvformat.registry.spark.decoded_columns import ERROR, ROW_INDEX, ROW_KIND, check_errors_split, exact_column
from kvformat.registry.streams.change_columns import (
    ADDED_KINDS,
    KAFKA_ORDER,
    column_list,
    key_columns,
    named_column,
    order_columns,
    row_kind,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation
    from pyspark.sql.types import DataType, StructType

    from kvformat.registry.streams.change_columns import Columns, HasKeyColumns

_ROWS, _ROW = "_kvformat_rows", "_kvformat_row"
_SHOWN_SCHEMAS = 100
_KEPT_KEY = "kvformat.kept"
"""Key in the metadata of `error`: the columns of the input that are kept beside a bad message."""
OBSERVED = "kvformat."
"""The beginning of the names of observations that are made without the user."""


def explode_changes(df: DataFrame, rows: Column | str, *, keep: Columns = (), outer: bool = False) -> DataFrame:
    """Return one line per decoded row: `explode_changes(df, fmt.decode_rows("value", schema))`.

    The result has the columns of `df` named in `keep` ("*" for all), the decoded columns and metadata, `row_kind`, and
    `row_index` (INT, the row's position in its message, from 0). With `errors="capture"` it ends in `error`. Each bad
    message then has a line of its own, in which every column except `error` and the kept ones is NULL. Null messages
    and messages that the format skips have no line. With `outer=True` they have one, in which every column except the
    kept ones is NULL.

    Works in batch and in streams, and leaves one Python node in the plan. Raises `ConfigurationError` if `rows` is not
    a result of `decode_rows`, or if two columns would have the same name.
    """
    from pyspark.sql import functions as F

    decoded = F.col(rows) if isinstance(rows, str) else rows
    base = df.select(*(named_column(df, name) for name in column_list(keep)), decoded.alias(_ROWS))
    struct, captured = _row_type(base.schema[_ROWS].dataType)
    names = base.columns[:-1]
    columns = [name for name in struct.names if name != ROW_KIND]
    _check_names([*names, *columns, ROW_KIND, ROW_INDEX, *([ERROR] if captured else [])])

    lists, error = F.col(_ROWS), []
    if captured:
        lists, error = F.col(f"{_ROWS}.rows"), [F.col(f"{_ROWS}.error").alias(ERROR)]
    explode = F.posexplode_outer if outer or captured else F.posexplode
    exploded = base.select(*map(exact_column, names), *error, explode(lists).alias(ROW_INDEX, _ROW))
    if captured and not outer:
        exploded = exploded.where(F.col(ERROR).isNotNull() | F.col(ROW_INDEX).isNotNull())
    fields = [F.col(_ROW).getField(name).alias(name) for name in (*columns, ROW_KIND)]
    last = [F.col(ERROR).alias(ERROR, metadata={_KEPT_KEY: names})] if captured else []
    return exploded.select(*map(exact_column, names), *fields, ROW_INDEX, *last)


def split_errors(df: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Split a DataFrame with captured errors into the good rows, without the column `error`, and the bad records.

    `df` is the result of `KeyValueFormat.decode(df, errors="capture")`. Its bad records have the columns `part`,
    `reason`, `key`, `value`, the other Kafka columns that the records had, and `code`. Or `df` is the result of
    `explode_changes` after `decode_rows(..., errors="capture")`. Its bad messages have the columns that
    `explode_changes` kept, `reason`, `message` and `code`.

    Each of the two DataFrames decodes the records when it is read, in one Python node. To decode them once, call
    `persist()` and write both in one `foreachBatch`. Raises `ConfigurationError` if `df` has no captured errors.
    """
    from pyspark.sql import functions as F

    field = df.schema[ERROR] if ERROR in df.columns else None
    inner: list[str] = [] if field is None else getattr(field.dataType, "names", [])
    kept: list[str] = [] if field is None else (field.metadata or {}).get(_KEPT_KEY, [])
    if "reason" not in inner:
        raise ConfigurationError(
            "split_errors takes the result of KeyValueFormat.decode(df, errors='capture'), or of explode_changes after "
            "decode_rows(..., errors='capture')"
        )
    _check_names([*kept, *inner])
    is_bad = F.col(ERROR).isNotNull()
    return df.where(~is_bad).drop(ERROR), df.where(is_bad).select(*map(exact_column, kept), f"{ERROR}.*")


def observe_records(df: DataFrame, observation: Observation | str, *, schema_id: str | None = None) -> DataFrame:
    """Return `df`, and count its rows and bad records whenever it is read: in a stream, for each micro-batch.

    `df` is the result of `KeyValueFormat.decode` or `explode_changes`, with `errors="capture"` or without. The counts
    (BIGINT) are:

    - `rows`, the `bad` records, and the `skipped` ones,
    - the rows of each kind, `insert`, `update_before`, `update_after` and `delete`, if there is a `row_kind` (the
      tombstones of an upsert table count as deletes),
    - `records`, those with a row or an error, if there is a `row_index`,
    - the bad records of each `ErrorCode`, under its name,
    - with `schema_id`, the column of the metadata `value.registry.schema-id`: `schemas`, a list of structs of `id`
      (STRING, an id or a GUID) and `records` (BIGINT), the most frequent ids first, at most 100. Records without a row,
      such as bad ones, have no id.

    A batch reports them in the `Observation`. A stream reports them to listeners, in
    `event.progress.observedMetrics` under the name. Nothing is decoded twice. Call it on the result of decode, before
    any filter. Raises `ConfigurationError` if `df` has none of these columns, `SchemaError` without the column
    `schema_id`.
    """
    from pyspark.sql import functions as F

    inner: list[str] = getattr(df.schema[ERROR].dataType, "names", []) if ERROR in df.columns else []
    captured = "reason" in inner and "code" in inner
    if not captured and ROW_KIND not in df.columns:
        raise ConfigurationError(
            "observe_records takes the result of KeyValueFormat.decode(df, errors='capture') or explode_changes, a "
            f"DataFrame with the column 'error' or 'row_kind'. The columns: {listed(df.columns)}"
        )
    code = F.col(f"{ERROR}.code") if captured else F.lit(None).cast("string")
    good, skipped = code.isNull(), code == ErrorCode.SKIPPED.value
    counts = {"rows": good, "bad": code.isNotNull() & ~skipped, "skipped": skipped}
    if ROW_KIND in df.columns:
        counts |= {kind.name.lower(): good & (F.col(ROW_KIND) == kind.value) for kind in RowKind}
    if ROW_INDEX in df.columns:
        counts["records"] = ~good | (F.col(ROW_INDEX) == 0)
    if captured:
        counts |= {known.value: code == known.value for known in ErrorCode if known is not ErrorCode.SKIPPED}
    metrics = [F.count_if(where).alias(name) for name, where in counts.items()]
    if schema_id is not None:
        _check_columns(df, [schema_id])
        is_first = F.col(ROW_INDEX) == 0 if ROW_INDEX in df.columns else F.lit(True)
        ids = F.when(good & is_first, exact_column(schema_id)).cast("string")
        metrics.append(_counted(ids).alias("schemas"))
    return df.observe(observation, *metrics)


def observe_table(df: DataFrame, table: str) -> DataFrame:
    """Return a stream with bad records, and count it as `observe_records` does, under the name of a table.

    The name begins with `OBSERVED`, so that users may count the same stream under the same name.
    """
    return observe_records(df, f"{OBSERVED}{table}")


def _counted(values: Column) -> Column:
    """Return the most frequent values that are not NULL with their numbers, as an aggregate.

    The numbers are exact as long as there are no more than 7,500 values.
    """
    from pyspark.sql import functions as F

    top = F.call_function("approx_top_k", values, F.lit(_SHOWN_SCHEMAS + 1), F.lit(10_000))
    known = F.filter(top, lambda entry: entry["item"].isNotNull())
    return F.transform(
        F.slice(known, 1, _SHOWN_SCHEMAS),
        lambda entry: F.struct(entry["item"].alias("id"), entry["count"].alias("records")),
    )


def latest_by_key(
    df: DataFrame, keys: Columns | HasKeyColumns, order_by: Columns | None = None, *, deletes: bool = False
) -> DataFrame:
    """Fold a batch of changes into the current table: the last row of each key, unless that row deletes the key.

    The last row is the one with the greatest `order_by` (ascending, NULL first). Ties are broken by `row_index`, if
    there is one; then a row wins over a delete. Among rows that are equal in all of this, any may win. The default
    order is Kafka's, the columns `partition` and `offset`. `-D` and `-U` delete the key, and a later row of the key
    brings it back, so an update may change the key. Keys may be NULL, structs, or fields of structs ("customer.id").
    For a `KeyValueFormat` its `key_columns` are used.

    The result has the columns of `df` without `row_kind` and `row_index`. With `deletes=True` it has one line for every
    key and a `row_kind`: '+U' for a row to write, '-D' for a key to remove. This is what a MERGE needs.

    A row's `unchanged_columns` (ARRAY<STRING>), if `df` has them, name columns that the update did not contain. These
    take the last value in `df` since the key was deleted. The column stays in the result and names the columns that
    have no value in `df`. They are NULL here and must keep their value in a stored table.

    Uses only Spark SQL functions, one shuffle, and no Python. Raises `ConfigurationError` for streams (call it in
    `foreachBatch`) and for DataFrames that still contain bad records, `SchemaError` for a missing column. A row of an
    unknown kind fails the job.
    """
    from pyspark.sql import functions as F

    from kvformat.registry.streams.unchanged_columns import latest_with_unchanged

    check_errors_split(df)
    if df.isStreaming:
        raise ConfigurationError("latest_by_key needs a batch: in a stream call it in foreachBatch (docs/changes.md)")
    names = [name for name in df.columns if name not in (ROW_KIND, ROW_INDEX)]
    row = F.struct(*map(exact_column, names), row_kind(df).alias(ROW_KIND))
    groups = [key.alias(f"_kvformat_key{n}") for n, key in enumerate(key_columns(df, keys))]
    order = F.struct(*order_columns(df, order_by), row_kind(df).isin(*ADDED_KINDS).alias("added"))
    last = F.max_by(row, order).alias(_ROW)
    if UNCHANGED in names:
        rows = latest_with_unchanged(df.groupBy(*groups), last, names, row_kind(df), order)
    else:
        rows = df.groupBy(*groups).agg(last).select(f"{_ROW}.*")
    added = F.col(ROW_KIND).isin(*ADDED_KINDS)
    if deletes:
        return rows.withColumn(ROW_KIND, F.when(added, "+U").otherwise("-D"))
    return rows.where(added).drop(ROW_KIND)


def normalize_changes(
    df: DataFrame,
    keys: Columns | HasKeyColumns,
    order_by: Columns | None = None,
    *,
    columns: Sequence[str] | None = None,
    update_before: bool = True,
) -> DataFrame:
    """Turn a changelog with repeats, deletes of unknown keys and incomplete rows into a complete one.

    Does what Flink's ChangelogNormalize does. The first row of a key becomes '+I'. A later row becomes '-U' with the
    old row and '+U' with the new one, or only '+U' with `update_before=False` (for an upsert consumer). A row equal to
    the one before is dropped. '-D' becomes '-D' with the complete old row, or is dropped if the key is unknown. '-U'
    does the same, unless the next row of the key follows it in the batch: then it is the first half of that update.
    Spark's state store keeps the last row of each key, so a restarted query continues where it stopped.

    Within a micro-batch rows are sorted by `order_by` (ties by `row_index`, then deletes before rows). The default
    order is Kafka's, the columns `partition` and `offset`. Batches follow each other as they arrive. `columns` are the
    table's columns, which are compared and returned, followed by `row_kind`. The default is all columns of `df` except
    those in `order_by`, `row_kind`, `row_index` and `unchanged_columns`. A column that a row's `unchanged_columns` name
    keeps the value of the key's last row. Keys may be NULL, structs, or fields of structs; for a `KeyValueFormat` its
    `key_columns` are used.

    Works for streams in output mode append, and for batches. It needs RocksDB as
    `spark.sql.streaming.stateStore.providerClass`, and protobuf where Python runs (`kvformat[state]`). Both are checked
    here, before a query starts.
    Source: Flink's DeduplicateFunctionHelper.processLastRowOnChangelog. Its planner drops every '-U' before that, so an
    old key stays in the table when an update changes the key.
    """
    from kvformat.registry.streams.changelog_state import check_session, normalized

    check_errors_split(df)
    check_session(df)
    kind = row_kind(df)
    order = [*order_columns(df, order_by), kind.isin(*ADDED_KINDS)]
    if columns is None:
        ordering = column_list(KAFKA_ORDER if order_by is None else order_by)
        left_out = {name for name in ordering if isinstance(name, str)} | {ROW_KIND, ROW_INDEX, UNCHANGED}
        columns = [name for name in df.columns if name not in left_out]
    _check_columns(df, columns)
    return normalized(
        df.select(*map(exact_column, columns)).schema,
        df,
        key_columns(df, keys),
        order,
        kind,
        exact_column(UNCHANGED) if UNCHANGED in df.columns else None,
        update_before=update_before,
    )


# --- checks, before a job --------------------------------------------------------------------------------


def _row_type(decoded: DataType) -> tuple[StructType, bool]:
    """Return the struct of a decoded row, and whether errors were captured beside the rows."""
    from pyspark.sql.types import ArrayType, StructType

    captured = isinstance(decoded, StructType) and decoded.names == ["rows", ERROR]
    lists = decoded["rows"].dataType if isinstance(decoded, StructType) and captured else decoded
    if isinstance(lists, ArrayType) and isinstance(lists.elementType, StructType):
        struct = lists.elementType
        if ROW_KIND in struct.names:
            return struct, captured
    raise ConfigurationError(
        f"explode_changes takes the column that decode_rows returns, not one of type {decoded.simpleString()}"
    )


def _check_names(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(
                f"two columns would be named {name!r}; keep it under another name: keep=[F.col({name!r}).alias(...)]",
                field=name,
            )


def _check_columns(df: DataFrame, columns: Sequence[str]) -> None:
    for name in columns:
        if name not in df.columns:
            raise SchemaError(f"there is no column {name!r}. The columns: {listed(df.columns)}", field=name)
    if not columns:
        raise SchemaError("the table would have no columns: name them, columns=[...]")
