"""The bad records of a batch: which they are, their bytes for the dead letters, their number, and the log.

errors: one line per bad record: table, position, part, reason, code. letters: the same with the bytes and all columns
of the record, as `split_errors` gives them, and `table`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kvformat.ingestion import looking
from kvformat.ingestion.decode import NO_KEY
from kvformat.ingestion.decoded_rows import POSITION, ROW_ERROR, DecodedRows, united
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.store import SchemaStore
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import DecodeError
from kvformat.registry.spark.decoded_columns import exact_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kvformat.ingestion.looking import Looking

_LOG = logging.getLogger("kvformat.ingest")
_MOST_LOGGED = 1000  # bad records of a batch that are logged
_MOST_BYTES = 1024  # of a value that is logged
_KAFKA = ("topic", "partition", "offset")
_TABLE = "_kvformat_table"


def errors_of(
    looked: Looking,
    decoded: Sequence[DecodedRows],
    refused: Mapping[TableId, str],
    *,
    has_unread: bool,
) -> DataFrame | None:
    """Return one line per bad record: `_kvformat_table`, the position, `part`, `reason`, `code`; None without records.

    `decoded` are rows with errors. All records of a table in `refused` are bad. `has_unread` says
    whether there are records without a table.
    """
    from pyspark.sql import functions as F

    places = [F.col(name).alias(to) for name, to in zip(_KAFKA, POSITION, strict=True)]
    frames = []
    if has_unread:
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
    for table, why in refused.items():
        texts = {"part": "record", "reason": why, "code": ErrorCode.SCHEMA.value}
        errors = [F.lit(text).alias(name) for name, text in texts.items()]
        of_table = looked.unpacked(looked.of_table(table))
        frames.append(of_table.select(F.lit(looking.table_name(table)).alias(_TABLE), *places, *errors))
    for rows in decoded:
        error = exact_column(ROW_ERROR)
        columns = [error[name].alias(name) for name in ("part", "reason", "code")]
        name = F.lit(looking.table_name(rows.table)).alias(_TABLE)
        frames.append(rows.rows().where(error.isNotNull()).select(name, *map(exact_column, POSITION), *columns))
    if not frames:
        return None
    found = united(frames)
    several = len(decoded) > len({rows.table for rows in decoded})  # a record may be bad for each of its targets
    return found.dropDuplicates(list(POSITION)) if several else found


@dataclass(frozen=True)
class Summary:
    """The bad records of a batch in numbers.

    count: the records that count, without those of quarantined tables and those that a format skips. first: the one
    with the lowest topic, partition and offset. of_rows: whether any record was decoded and has a bad row.
    """

    count: int = 0
    is_empty: bool = True
    first: Mapping[str, Any] | None = None
    of_rows: bool = False
    tables_without_key: frozenset[TableId] = field(default_factory=frozenset)

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
        return cls(
            sum(group["count"] for group in counted),
            not groups,
            min(firsts, key=lambda error: tuple(error[name] for name in POSITION), default=None),
            any(group["first"]["part"] == "record" for group in groups),
            frozenset(looking.table_of(group[_TABLE]) for group in groups if group["code"] == NO_KEY),
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
