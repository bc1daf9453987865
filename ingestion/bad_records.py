"""The bad records of a batch: which they are, their bytes for the dead letters, their number, and the log.

errors: one line per bad record: table, position, part, reason, code. letters: the same with the bytes and all columns
of the record, as `split_errors` gives them, and `table`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kvformat.ingestion import looking
from kvformat.ingestion.decode import NO_KEY
from kvformat.ingestion.decoded_rows import POSITION, ROW_ERROR, united
from kvformat.ingestion.errors import table_error
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.store import SchemaStore
from kvformat.ingestion.target_writer import TableFailedError
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import DecodeError
from kvformat.registry.spark.decoded_columns import ROW_INDEX, exact_column

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kvformat.ingestion.batch_decoder import BatchRows
    from kvformat.ingestion.looking import Looking
    from kvformat.ingestion.pipeline.source import PipelineSource
    from kvformat.ingestion.query import QuerySettings
    from kvformat.ingestion.query_memory import QueryMemory

_LOG = logging.getLogger("kvformat.ingest")
_MOST_LOGGED = 1000  # bad records of a batch that are logged
_MOST_BYTES = 1024  # of a value that is logged
_KAFKA = ("topic", "partition", "offset")
_TABLE = "_kvformat_table"


@dataclass(frozen=True)
class BadRecords:
    """The bad records of one batch. cached: keeps a DataFrame until the end of the batch."""

    source: PipelineSource
    settings: QuerySettings
    memory: QueryMemory
    batch_id: int
    cached: Callable[[DataFrame], DataFrame]

    def checked(self, rows: BatchRows, quarantined: Iterable[TableId]) -> tuple[BatchRows, Summary, Callable[[], None]]:
        """Count the bad records. Returns the rows of the good ones, and a function that writes the dead letters.

        Raises `TableFailedError` for tables that need a key, and `DecodeError` if there are more bad records than the
        options allow.
        """
        looked = rows.looked
        errors = errors_of(rows)
        if errors is None:
            if self.settings.on_table_error == "stop" and looked.decoders.keys() <= rows.returned.keys():
                looked.lines.unpersist()  # its records are decoded, and go to no dead letters
            return rows, Summary(), lambda: None
        errors = self.cached(errors)
        summary = Summary.of(errors, quarantined)
        if summary.tables_without_key:
            raise self._without_key(summary.tables_without_key)
        if summary.is_empty:
            return rows, summary, lambda: None
        if summary.first is not None and not self.source.values["ingestion.ignore-errors"]:
            raise first_error(summary.first)

        def write_letters() -> None:
            letters = letters_of(looked, errors)
            if self.settings.dead_letters is not None:
                self.settings.dead_letters.write(letters, self.batch_id)
            if self.settings.logs_bad_records:
                log(letters, sum(summary.codes.values()))

        most = self.source.values["ingestion.error-tolerance.max-count"]
        try:
            check_count(self.memory.store, self.batch_id, summary, most)
        except DecodeError:  # the query ends here, and its last dead letters say why
            write_letters()
            raise
        if summary.of_rows:
            places = errors.select(*(exact_column(name) for name in POSITION))
            frames = [
                replace(frame, rows=self._without_places(frame.rows, places)) if frame.is_fitted else frame
                for frame in rows.frames
            ]
            rows = replace(rows, frames=frames)
        return rows, summary, write_letters

    def _without_key(self, tables: Collection[TableId]) -> TableFailedError:
        table, stops = min(tables), self.settings.on_table_error == "stop"
        cause = table_error(
            table,
            "it has no primary key, and its messages update or delete rows. Set 'primary-keys' "
            "in a transform, or 'key.format' for the keys of the records, and "
            + ("start with a new checkpoint" if stops else "release the table"),
        )
        return TableFailedError(tables, cause)

    def _without_places(self, rows: DataFrame, places: DataFrame) -> DataFrame:
        """Return the rows of other records. A join loses their order, which a target of changes needs."""
        rows = rows.join(places, list(POSITION), "left_anti")
        if self.memory.target.rows == "latest":
            return rows
        topic, partition, offset = map(exact_column, POSITION)
        return rows.repartition(topic, partition).sortWithinPartitions(topic, partition, offset, ROW_INDEX)


def errors_of(batch: BatchRows) -> DataFrame | None:
    """Return one line per bad record: `_kvformat_table`, the position, `part`, `reason`, `code`; None without records.

    Bad are records without a table, all records of a refused table, and those with a bad row.
    """
    from pyspark.sql import functions as F

    looked = batch.looked
    places = [F.col(name).alias(to) for name, to in zip(_KAFKA, POSITION, strict=True)]
    frames = []
    if looked.news.errors:
        text = exact_column(looking.ERROR)
        code = F.regexp_extract(text, r"^\[([A-Z_]+)\] ", 1)
        frames.append(
            looked.unpacked(looked.without_table()).select(
                F.lit(None).cast("string").alias(_TABLE),
                *places,
                F.lit("value").alias("part"),
                F.regexp_replace(text, r"^\[[A-Z_]+\] ", "").alias("reason"),
                F.when(code == "", ErrorCode.BAD_RECORD.value).otherwise(code).alias("code"),
            )
        )
    for table, why in batch.refused.items():
        texts = {"part": "record", "reason": why, "code": ErrorCode.SCHEMA.value}
        errors = [F.lit(text).alias(name) for name, text in texts.items()]
        of_table = looked.unpacked(looked.of_table(table))
        frames.append(of_table.select(F.lit(looking.table_name(table)).alias(_TABLE), *places, *errors))
    for rows in batch.bad:
        error = exact_column(ROW_ERROR)
        columns = [error[name].alias(name) for name in ("part", "reason", "code")]
        name = F.lit(looking.table_name(rows.table)).alias(_TABLE)
        frames.append(rows.rows().where(error.isNotNull()).select(name, *map(exact_column, POSITION), *columns))
    lines = [line for table, rows in batch.returned.items() for line in _error_lines(table, rows)]
    if lines:
        ddl = f"{_TABLE} STRING, {POSITION[0]} STRING, {POSITION[1]} INT, {POSITION[2]} BIGINT"
        frames.append(
            looked.lines.sparkSession.createDataFrame(lines, f"{ddl}, part STRING, reason STRING, code STRING")
        )
    if not frames:
        return None
    records = united(frames)
    several = len(batch.bad) > len({rows.table for rows in batch.bad})  # a record may be bad for each of its targets
    return records.dropDuplicates(list(POSITION)) if several else records


def _error_lines(table: TableId, rows: pa.Table) -> list[tuple[Any, ...]]:
    bad = rows.filter(rows.column(ROW_ERROR).is_valid())
    errors = bad.column(ROW_ERROR).combine_chunks().flatten()
    columns = [*(bad.column(name).to_pylist() for name in POSITION), *(texts.to_pylist() for texts in errors)]
    return [(looking.table_name(table), *line) for line in zip(*columns, strict=True)]


@dataclass(frozen=True)
class Summary:
    """The bad records of a batch in numbers.

    count: the records that count, without those of quarantined tables and those that a format skips. first: the one
    with the lowest topic, partition and offset. of_rows: whether any record was decoded and has a bad row. codes: all
    bad records by code.
    """

    count: int = 0
    is_empty: bool = True
    first: Mapping[str, Any] | None = None
    of_rows: bool = False
    tables_without_key: frozenset[TableId] = field(default_factory=frozenset)
    codes: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, errors: DataFrame, quarantined: Iterable[TableId]) -> Summary:
        """Count the lines of `errors_of` by one job, which also decodes the tables."""
        from pyspark.sql import functions as F

        columns = [_TABLE, *POSITION, "part", "reason", "code"]
        first = F.min_by(F.struct(*map(exact_column, columns)), F.struct(*map(exact_column, POSITION)))
        rows = errors.groupBy(_TABLE, "code").agg(F.count(F.lit(1)).alias("count"), first.alias("first")).collect()
        return cls.of_groups([row.asDict(recursive=True) for row in rows], quarantined)

    @classmethod
    def of_groups(cls, groups: Sequence[Mapping[str, Any]], quarantined: Iterable[TableId]) -> Summary:
        """Sum up the bad records of each table and code: their `count`, and the `first` of them."""
        names = {looking.table_name(table) for table in quarantined}
        counted = [g for g in groups if g["code"] != ErrorCode.SKIPPED.value and g[_TABLE] not in names]
        firsts = [group["first"] for group in counted]
        codes: dict[str, int] = {}
        for group in groups:
            codes[group["code"]] = codes.get(group["code"], 0) + group["count"]
        return cls(
            sum(group["count"] for group in counted),
            not groups,
            min(firsts, key=lambda error: tuple(error[name] for name in POSITION), default=None),
            any(group["first"]["part"] == "record" for group in groups),
            frozenset(looking.table_of(group[_TABLE]) for group in groups if group["code"] == NO_KEY),
            codes,
        )


def first_error(error: Mapping[str, Any]) -> DecodeError:
    """Return the error of a query that does not ignore errors."""
    topic, partition, offset = (error[name] for name in POSITION)
    table = "" if error[_TABLE] is None else f"table {looking.table_of(error[_TABLE])}, "
    return DecodeError(
        f"cannot read a record: {table}topic {topic}, partition {partition}, offset {offset}: {error['reason']}. To go "
        "on without bad records, set 'ingestion.ignore-errors' to true; 'dirty-data.collector' keeps them",
        reason=error["reason"],
        code=error["code"],
    )


def check_count(store: SchemaStore, batch: int, summary: Summary, most: int) -> None:
    """Count the bad records of a batch; raises `DecodeError` if the query has more than `most` (-1: no limit)."""
    total = store.add_errors(batch, summary.count)
    if most >= 0 and total > most and summary.first is not None:
        raise DecodeError(
            f"the query has {total} bad records since its checkpoint began; 'ingestion.error-tolerance.max-count' "
            f"allows {most}. One of them: {summary.first['reason']}",
            reason=summary.first["reason"],
            code=summary.first["code"],
        )


def letters_of(looked: Looking, errors: DataFrame) -> DataFrame:
    """Return the bad records as dead letters."""
    from pyspark.sql import functions as F

    names = [name for name in looking.RECORD_COLUMNS if name in looked.records_type.names]
    records = looked.unpacked(looked.lines.where(F.col(looking.NEWS).isNull())).select(*names)
    same = [F.col(name) == exact_column(to) for name, to in zip(_KAFKA, POSITION, strict=True)]
    parts = F.from_json(exact_column(_TABLE), "ARRAY<STRING>")
    return records.join(errors, same).select(F.array_join(parts, ".").alias("table"), "part", "reason", *names, "code")


def log(letters: DataFrame, count: int) -> None:
    """Log bad records as warnings, at most 1,000."""
    from pyspark.sql import functions as F

    head = F.base64(F.substring(F.col("value"), 1, _MOST_BYTES)).alias("head")
    for row in letters.select("table", *_KAFKA, "code", "reason", head).limit(_MOST_LOGGED).collect():
        _LOG.warning("bad record: table %s, topic %s, partition %d, offset %d, %s: %s, value (base64) %s", *row)
    if count > _MOST_LOGGED:
        _LOG.warning("bad records: %d more are not logged", count - _MOST_LOGGED)
