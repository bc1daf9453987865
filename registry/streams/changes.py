"""Changes in Spark: decoded rows with their kinds as a DataFrame, a changelog as its current table, or normalised.

    decode_rows -> explode_changes -> latest_by_key       batch: the current table
                                   -> normalize_changes   stream: what Flink's ChangelogNormalize gives

A change is a row with the column `row_kind` ('+I', '-U', '+U', '-D'); a DataFrame without one holds inserts.
PySpark is imported when a function is called. Only public PySpark functions are used: classic and Spark Connect
alike; no Spark setting is changed, and no result depends on a time zone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from kvformat.registry.contract.changelog import RowKind
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import ConfigurationError, SchemaError, did_you_mean, listed
from kvformat.registry.contract.format import UNCHANGED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation
    from pyspark.sql.types import DataType, StructType

    from kvformat.registry.key_value_format import KeyValueFormat

    Columns: TypeAlias = Sequence[str | Column] | str | Column

ROW_KIND, ROW_INDEX, ERROR = "row_kind", "row_index", "error"
_ROWS, _ROW = "_kvformat_rows", "_kvformat_row"
_ADDED = ["+I", "+U"]
_KAFKA_ORDER = ("partition", "offset")
#: metadata of `error`: the columns that were kept beside a bad message
_KEPT_KEY = "kvformat.kept"


def explode_changes(df: DataFrame, rows: Column | str, *, keep: Columns = (), outer: bool = False) -> DataFrame:
    """What `decode_rows` gives, one line per row: `explode_changes(df, fmt.decode_rows("value", schema))`.

    The result has the columns of `df` named in `keep` ("*" for all), the decoded columns and metadata, `row_kind`, and
    `row_index` (INT, the row's place in its message, from 0). With `errors="capture"` it ends in `error`: each bad
    message keeps a line of its own, in which all but `error` and the kept columns is NULL. A null message and one
    that the format skips give no line, or with `outer=True` one in which all but the kept columns is NULL.

    Works in batch and in streams, and leaves one Python node in the plan. Raises `ConfigurationError` when `rows` is
    no result of `decode_rows`, or when two columns would have one name.
    """
    from pyspark.sql import functions as F

    decoded = F.col(rows) if isinstance(rows, str) else rows
    base = df.select(*(column(df, name) for name in _list(keep)), decoded.alias(_ROWS))
    struct, captured = _row_type(base.schema[_ROWS].dataType)
    names = base.columns[:-1]
    columns = [name for name in struct.names if name != ROW_KIND]
    _check_names([*names, *columns, ROW_KIND, ROW_INDEX, *([ERROR] if captured else [])])

    lists, error = F.col(_ROWS), []
    if captured:
        lists, error = F.col(f"{_ROWS}.rows"), [F.col(f"{_ROWS}.error").alias(ERROR)]
    explode = F.posexplode_outer if outer or captured else F.posexplode
    exploded = base.select(*map(quoted, names), *error, explode(lists).alias(ROW_INDEX, _ROW))
    if captured and not outer:
        exploded = exploded.where(F.col(ERROR).isNotNull() | F.col(ROW_INDEX).isNotNull())
    fields = [F.col(_ROW).getField(name).alias(name) for name in (*columns, ROW_KIND)]
    last = [F.col(ERROR).alias(ERROR, metadata={_KEPT_KEY: names})] if captured else []
    return exploded.select(*map(quoted, names), *fields, ROW_INDEX, *last)


def split_errors(df: DataFrame) -> tuple[DataFrame, DataFrame]:
    """A DataFrame with captured errors, parted: the good rows without the column `error`, and the bad records.

    Takes what `KeyValueFormat.decode(df, errors="capture")` gives: bad records have the columns `part`, `reason`,
    `key`, `value`, those of Kafka's other columns that the records had, and `code`. Or what `explode_changes` makes of
    `decode_rows(..., errors="capture")`: bad messages have the columns that it kept, `reason`, `message` and `code`.

    Each of the two decodes the records when it is read, in one Python node; write both in one `foreachBatch` after
    `persist()` to decode them once. Raises `ConfigurationError` for a DataFrame without such a column.
    """
    from pyspark.sql import functions as F

    field = df.schema[ERROR] if ERROR in df.columns else None
    inner: list[str] = [] if field is None else getattr(field.dataType, "names", [])
    kept: list[str] = [] if field is None else (field.metadata or {}).get(_KEPT_KEY, [])
    if "reason" not in inner:
        raise ConfigurationError(
            "split_errors takes what KeyValueFormat.decode(df, errors='capture') gives, or explode_changes of "
            "decode_rows(..., errors='capture')"
        )
    _check_names([*kept, *inner])
    is_bad = F.col(ERROR).isNotNull()
    return df.where(~is_bad).drop(ERROR), df.where(is_bad).select(*map(quoted, kept), f"{ERROR}.*")


def observe_records(df: DataFrame, observation: Observation | str) -> DataFrame:
    """The same DataFrame, whose rows and bad records are counted whenever it is read: in a stream, for each batch.

    Takes what `KeyValueFormat.decode` or `explode_changes` gives, of `errors="capture"` or not. The counts (BIGINT):
    `rows`; `bad` records and those that were `skipped`; the rows of each kind, `insert`, `update_before`,
    `update_after` and `delete` (of an upsert table, tombstones), where there is `row_kind`; `records` that have a row
    or an error, where there is `row_index`; and the bad records of each `ErrorCode`, under its name.

    They arrive in an `Observation` (batch) or, under the name, in a listener's `event.progress.observedMetrics`
    (stream). Nothing is decoded twice. Call it on the result of decode, before filters. Raises `ConfigurationError`
    for a DataFrame with none of these columns.
    """
    from pyspark.sql import functions as F

    inner: list[str] = getattr(df.schema[ERROR].dataType, "names", []) if ERROR in df.columns else []
    captured = "reason" in inner and "code" in inner
    if not captured and ROW_KIND not in df.columns:
        raise ConfigurationError(
            "observe_records takes what KeyValueFormat.decode(df, errors='capture') gives, or explode_changes: a "
            f"DataFrame with 'error' or 'row_kind'. The columns: {listed(df.columns)}"
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
    return df.observe(observation, *(F.count_if(where).alias(name) for name, where in counts.items()))


def latest_by_key(
    df: DataFrame, keys: Columns | KeyValueFormat, order_by: Columns | None = None, *, deletes: bool = False
) -> DataFrame:
    """A batch changelog as its current table: the last row of each key, unless that row deletes the key.

    The last is the one with the greatest `order_by` (ascending, NULL first), ties broken by `row_index` where there
    is one, then a row wins over a delete; what is equal in all of it may win by chance. Without `order_by` it is
    Kafka's order, the columns `partition` and `offset`. `-D` and `-U` delete, which a later row of the same key
    undoes: so an update may change its key. Keys may be NULL, structs, or fields of structs ("customer.id"); a
    `KeyValueFormat` stands for its `key_columns`.

    The result has the columns of `df` without `row_kind` and `row_index`. With `deletes=True` it has a line for every
    key, with `row_kind` '+U' for a row to be written and '-D' for a key to be removed: what a MERGE needs.

    Where `df` has `unchanged_columns` (ARRAY<STRING>), the columns that a row names there take the last value that they
    had in `df` since the key was deleted. The column stays: it names what `df` has no value of, which is NULL here and
    stays as it is in a table that is kept.

    Spark SQL functions only, one shuffle, no Python. Raises `ConfigurationError` for streams (call it in
    `foreachBatch`) and for DataFrames that still hold bad records, `SchemaError` for a column that is not there; a row
    of an unknown kind fails the job.
    """
    from pyspark.sql import functions as F

    from kvformat.registry.streams import unchanged_columns as changes_kept

    check_split(df)
    if df.isStreaming:
        raise ConfigurationError("latest_by_key folds a batch: in a stream call it in foreachBatch (docs/changes.md)")
    names = [name for name in df.columns if name not in (ROW_KIND, ROW_INDEX)]
    row = F.struct(*map(quoted, names), row_kind(df).alias(ROW_KIND))
    groups = [key.alias(f"_kvformat_key{n}") for n, key in enumerate(key_columns(df, keys))]
    order = F.struct(*order_columns(df, order_by), row_kind(df).isin(_ADDED).alias("added"))
    last = F.max_by(row, order).alias(_ROW)
    if UNCHANGED in names:
        rows = changes_kept.latest(df.groupBy(*groups), last, names, row_kind(df), order)
    else:
        rows = df.groupBy(*groups).agg(last).select(f"{_ROW}.*")
    added = F.col(ROW_KIND).isin(_ADDED)
    if deletes:
        return rows.withColumn(ROW_KIND, F.when(added, "+U").otherwise("-D"))
    return rows.where(added).drop(ROW_KIND)


def normalize_changes(
    df: DataFrame,
    keys: Columns | KeyValueFormat,
    order_by: Columns | None = None,
    *,
    columns: Sequence[str] | None = None,
    update_before: bool = True,
) -> DataFrame:
    """A changelog with repeats, unknown deletes and half rows as a complete one, as Flink's ChangelogNormalize.

    The first row of a key comes out as '+I', a further one as '-U' with the old row and '+U' with the new, or as '+U'
    alone with `update_before=False` (what an upsert consumer wants). A row equal to the one before gives nothing.
    '-D' comes out with the whole old row, or not at all when the key is unknown. So does a '-U', unless the key's next
    row follows it in the batch: then it is the first half of that update. The last row of each key is kept in
    Spark's state store, so the query goes on after a restart where it stopped.

    Within a micro-batch rows are put in `order_by` (ties by `row_index`, then deletes before rows; without `order_by`
    in Kafka's order, the columns `partition` and `offset`); batches follow each other as they arrive. `columns` are
    the table's, which are compared and come out, followed by `row_kind`: by default all of `df` but those in
    `order_by`, `row_kind`, `row_index`, and `unchanged_columns`: those that a row names there keep the value of the
    last row. Keys may be NULL, structs, or fields of structs; a `KeyValueFormat` stands for its `key_columns`.

    For streams in output mode append (and for batches). It needs `spark.sql.streaming.stateStore.providerClass` set to
    RocksDB's, and protobuf where Python runs (`kvformat[state]`): both are checked here, before a query starts.
    Source: Flink's DeduplicateFunctionHelper.processLastRowOnChangelog; its planner drops every '-U' before that, so
    that an old key stays for ever when an update changes it.
    """
    from kvformat.registry.streams import changelog_state as changes_state

    check_split(df)
    changes_state.check_session(df)
    kind = row_kind(df)
    order = [*order_columns(df, order_by), kind.isin(_ADDED)]
    if columns is None:
        ordering = _names(_KAFKA_ORDER if order_by is None else order_by)
        columns = [name for name in df.columns if name not in (*ordering, ROW_KIND, ROW_INDEX, UNCHANGED)]
    _check_columns(df, columns)
    return changes_state.normalized(
        df.select(*map(quoted, columns)).schema,
        df,
        key_columns(df, keys),
        order,
        kind,
        quoted(UNCHANGED) if UNCHANGED in df.columns else None,
        update_before=update_before,
    )


# --- columns ---------------------------------------------------------------------------------------------


def quoted(name: str) -> Column:
    """The column of exactly this name, which may hold dots."""
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")


def column(df: DataFrame, name: str | Column) -> Column:
    """A column given by name, or by the path to a field where no column has that name."""
    from pyspark.sql import functions as F

    if not isinstance(name, str):
        return name
    return quoted(name) if name in df.columns else F.col(name)  # "*" is all of them


def _existing(df: DataFrame, name: str | Column, what: str) -> Column:
    """The same, which must be there; `what` says what it is for."""
    from pyspark.errors import AnalysisException

    found = column(df, name)
    if isinstance(name, str) and name not in df.columns:
        try:
            df.select(found).schema  # noqa: B018 - makes Spark Connect analyse it now
        except AnalysisException as cause:
            near = did_you_mean(name, df.columns)
            raise SchemaError(
                f"no column {name!r} {what}.{near} The columns: {listed(df.columns)}", field=name
            ) from cause
    return found


def key_columns(df: DataFrame, keys: Columns | KeyValueFormat) -> list[Column]:
    """The columns of the key; at least one."""
    from kvformat.registry.key_value_format import KeyValueFormat

    if isinstance(keys, KeyValueFormat):
        if not keys.key_columns:
            raise ConfigurationError("the table has neither a PRIMARY KEY nor 'key.fields': name the key columns")
        keys = keys.key_columns
    columns = [_existing(df, key, "to be a key") for key in _list(keys)]
    if not columns:
        raise ConfigurationError("name at least one key column")
    return columns


def order_columns(df: DataFrame, order_by: Columns | None) -> list[Column]:
    """What rows are put in order by: the columns given, or Kafka's, and then the row's place in its message."""
    if order_by is None:
        missing = [name for name in _KAFKA_ORDER if name not in df.columns]
        if missing:
            raise ConfigurationError(
                f"no column {missing[0]!r} to put the changes in order: keep Kafka's columns 'partition' and 'offset', "
                f"or name others, order_by=[...]. The columns: {listed(df.columns)}"
            )
        order_by = _KAFKA_ORDER
    columns = [_existing(df, name, "to put the changes in order") for name in _list(order_by)]
    if not columns:
        raise ConfigurationError("name at least one column to put the changes in order, order_by=[...]")
    return [*columns, quoted(ROW_INDEX)] if ROW_INDEX in df.columns else columns


def row_kind(df: DataFrame) -> Column:
    """The row's kind, '+I' for all where there is no such column; anything but a kind fails the job."""
    from pyspark.sql import functions as F

    if ROW_KIND not in df.columns:
        return F.lit(RowKind.INSERT.value)
    kind = quoted(ROW_KIND)
    shown = F.coalesce(F.concat(F.lit("'"), kind.cast("string"), F.lit("'")), F.lit("NULL"))
    wrong = F.concat(F.lit("row_kind is '+I', '-U', '+U' or '-D', not "), shown)
    return F.when(kind.isin([kind.value for kind in RowKind]), kind).otherwise(F.raise_error(wrong))


def _list(columns: Columns) -> list[str | Column]:
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        return [columns]
    return list(columns)


def _names(columns: Columns) -> list[str]:
    return [name for name in _list(columns) if isinstance(name, str)]


# --- checks, before a job --------------------------------------------------------------------------------


def _row_type(decoded: DataType) -> tuple[StructType, bool]:
    """The struct of a decoded row, and whether errors were captured beside the rows."""
    from pyspark.sql.types import ArrayType, StructType

    captured = isinstance(decoded, StructType) and decoded.names == ["rows", ERROR]
    lists = decoded["rows"].dataType if isinstance(decoded, StructType) and captured else decoded
    if isinstance(lists, ArrayType) and isinstance(lists.elementType, StructType):
        struct = lists.elementType
        if ROW_KIND in struct.names:
            return struct, captured
    raise ConfigurationError(
        f"explode_changes takes the column that decode_rows gives, not one of type {decoded.simpleString()}"
    )


def _check_names(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(
                f"two columns would be named {name!r}; keep it under another name: keep=[F.col({name!r}).alias(...)]",
                field=name,
            )


def check_split(df: DataFrame) -> None:
    """Bad records are no rows of a table: they are split off first."""
    from pyspark.sql.types import StructType

    if ERROR in df.columns:
        error = df.schema[ERROR].dataType
        if isinstance(error, StructType) and "reason" in error.names:
            raise ConfigurationError(
                "the DataFrame holds bad records too, in its column 'error': good, bad = split_errors(df), go on with "
                "the good rows, and keep the bad ones elsewhere"
            )


def _check_columns(df: DataFrame, columns: Sequence[str]) -> None:
    for name in columns:
        if name not in df.columns:
            raise SchemaError(f"no column {name!r}. The columns: {listed(df.columns)}", field=name)
    if not columns:
        raise SchemaError("no column is left for the table: name them, columns=[...]")
