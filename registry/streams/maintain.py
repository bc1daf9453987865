"""A stream of Kafka records that keeps a table current: `KeyValueFormat.maintain`.

    micro-batch -> decode once -> bad records -> dead letters
                               -> the last row of each key -> merge(changes, batch_id), or the next version at a path

A batch that failed anywhere is run again by Spark with the same records, so each step comes out the same when it is
done twice. The rows of a batch are written after its dead letters: what is in the table has its bad records kept.

A path has the last versions of the table and a note of each that is complete, written after it:

    rows/0 rows/1 rows/2          Parquet; the next version takes the place of the oldest
    commits/0 commits/1 ...       which batch made the version in the folder of this number
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import ConfigurationError, too_many_bad
from kvformat.registry.contract.format import UNCHANGED
from kvformat.registry.streams.changes import ROW_INDEX, ROW_KIND, latest_by_key, quoted, split_errors
from kvformat.registry.streams.dead_letters import DeadLetters
from kvformat.registry.table.producer import producer_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kvformat.registry.contract.format import Errors
    from kvformat.registry.key_value_format import KeyValueFormat
    from kvformat.registry.streams.dead_letters import DeadLetterTarget

    Merge: TypeAlias = Callable[[DataFrame, int], None]

_VERSIONS = 3
"""So many versions are kept: who began to read one has the time of two batches to end."""
_ORDER = {"_kvformat_partition": "partition", "_kvformat_offset": "offset"}
_COMMIT = "batch BIGINT, slot INT"


def maintain(
    kv: KeyValueFormat,
    stream: DataFrame,
    target: str | PathLike[str] | Merge,
    *,
    checkpoint_location: str,
    dead_letters: DeadLetterTarget | None,
    trigger: Mapping[str, Any] | None,
    query_name: str | None,
) -> StreamingQuery:
    """`KeyValueFormat.maintain`."""
    if not stream.isStreaming:
        raise ConfigurationError(
            "maintain takes a stream of Kafka records (spark.readStream); the current table of a batch is "
            "latest_by_key(kv.decode(batch, metadata=['partition', 'offset'], row_index=True), kv)"
        )
    letters = None
    if dead_letters is not None:
        letters = DeadLetters.of(dead_letters, producer_options(kv.options))
        if letters.topic is not None and letters.topic in (kv.connector_options("decode")["topic"] or ()):
            raise ConfigurationError(f"dead letters can't go to the topic that is read, '{letters.topic}'")
    if not callable(target):
        target = ParquetTable(_folder(target), kv.key_columns)
    batch = MaintainedBatch(kv, target, letters)
    batch.check(stream)
    writer = stream.writeStream.foreachBatch(batch).option("checkpointLocation", checkpoint_location)
    writer = writer.trigger(**trigger) if trigger else writer
    return (writer.queryName(query_name) if query_name else writer).start()


@dataclass(frozen=True, repr=False)
class MaintainedBatch:
    """What `foreachBatch` does with each micro-batch; pickled to the server by Spark Connect."""

    kv: KeyValueFormat
    merge: Merge
    dead_letters: DeadLetters | None

    def check(self, stream: DataFrame) -> None:
        """Raises what is wrong with the table or with the columns of the stream, before the query starts."""
        if not self.kv.key_columns:
            raise ConfigurationError(
                f"table '{self.kv.name}' has no key to keep the last row of: give it a PRIMARY KEY or 'key.fields'"
            )
        self.kv.decode(stream, metadata=_ORDER, errors="capture", row_index=True)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Dead letters first, then the rows. An error leaves both to the next try."""
        most = self._most_errors()
        capture = self.dead_letters is not None or most is not None
        errors: Errors = "capture" if capture else "raise"
        decoded = self.kv.decode(batch, metadata=_ORDER, errors=errors, row_index=True).persist()
        try:
            good = decoded
            if capture:
                good, bad = split_errors(decoded)
                if self.dead_letters is not None:
                    self.dead_letters.write(bad, batch_id)
                if most is not None:
                    _check_count(bad, most)
            if not good.isEmpty():
                changes = latest_by_key(good, self.kv, list(_ORDER), deletes=True)
                self.merge(changes.drop(*_ORDER), batch_id)
        finally:
            decoded.unpersist()

    def _most_errors(self) -> int | None:
        """How many bad records of a batch may be dropped, None where they are not counted."""
        options = self.kv.connector_options("decode")
        most: int = options["ingestion.error-tolerance.max-count"]
        return most if options["ingestion.ignore-errors"] and most >= 0 else None


def _check_count(bad: DataFrame, most: int) -> None:
    """What a format passes over is not bad."""
    faults = bad.where(bad["code"] != ErrorCode.SKIPPED.value).select("reason", "code").limit(most + 1).collect()
    if len(faults) > most:
        raise too_many_bad(most, *faults[0], where=" in a micro-batch")


# --- a table as Spark's own Parquet files ------------------------------------------------------------------


@dataclass(frozen=True)
class ParquetTable:
    """The next version of a table at a path for each batch that changes it."""

    path: str
    keys: tuple[str, ...]

    def __call__(self, changes: DataFrame, batch_id: int) -> None:
        """Write the version of this batch, from the last one before: the same again when the batch is."""
        from pyspark.sql import functions as F

        from kvformat.registry.streams import unchanged_columns as changes_kept

        spark = changes.sparkSession
        commits = _commits(spark, self.path)
        later = [batch for batch in commits if batch > batch_id]
        if later:
            raise ConfigurationError(
                f"'{self.path}' has the table of batch {max(later)}, and this is batch {batch_id}: another query, or "
                "one with another checkpoint, wrote it. Give each a path of its own; to begin anew, take an empty one"
            )
        before = max((batch for batch in commits if batch < batch_id), default=None)
        slot = 0 if before is None else (commits[before] + 1) % _VERSIONS
        rows = changes.where(F.col(ROW_KIND) == "+U").drop(ROW_KIND, ROW_INDEX)
        table = rows.drop(UNCHANGED)
        if before is not None:
            # Columns that the table has got since are NULL.
            old = _looked_at_anew(spark).schema(table.schema).parquet(f"{self.path}/rows/{commits[before]}")
            keys = changes.select(*(quoted(name).alias(f"_kvformat_key{n}") for n, name in enumerate(self.keys)))
            same = [quoted(name).eqNullSafe(F.col(f"_kvformat_key{n}")) for n, name in enumerate(self.keys)]
            if UNCHANGED in rows.columns:
                table = changes_kept.with_old(rows, old, self.keys)
            table = old.join(keys, same, "left_anti").unionByName(table)
        table.write.mode("overwrite").parquet(f"{self.path}/rows/{slot}")
        commit = spark.range(1).select(F.lit(batch_id).cast("bigint").alias("batch"), F.lit(slot).alias("slot"))
        commit.coalesce(1).write.mode("overwrite").json(f"{self.path}/commits/{slot}")


def current_table(spark: SparkSession, path: str | PathLike[str]) -> DataFrame:
    """The rows of the last complete version of a table that `KeyValueFormat.maintain` keeps at a path.

    It stays readable while the next two versions are written; call it again for newer rows. Raises
    `ConfigurationError` where there is no table, or none yet.
    """
    folder = _folder(path)
    commits = _commits(spark, folder)
    if not commits:
        raise ConfigurationError(f"'{folder}' has no table that maintain keeps, or its first batch is still to come")
    return _looked_at_anew(spark).parquet(f"{folder}/rows/{commits[max(commits)]}")


def _looked_at_anew(spark: SparkSession) -> DataFrameReader:
    """A reader that lists its files now: Spark Connect's server keeps plans, and with them the files that were there.

    To Spark it is an option that nobody knows; no two plans with it are equal.
    """
    return spark.read.option("kvformat.looked-at", uuid.uuid4().hex)


def _folder(path: str | PathLike[str]) -> str:
    return os.fspath(path).rstrip("/")


def _commits(spark: SparkSession, path: str) -> dict[int, int]:
    """The number of the folder of each complete version, by the batch that made it."""
    from pyspark.errors import AnalysisException

    # A note may be taken away for its next version while it is read; the others say enough then.
    options = {"recursiveFileLookup": "true", "ignoreMissingFiles": "true"}
    notes = _looked_at_anew(spark).schema(_COMMIT).options(**options)
    try:
        found = notes.json(f"{path}/commits").where("batch IS NOT NULL AND slot IS NOT NULL").collect()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return {}
    return {row["batch"]: row["slot"] for row in found}
