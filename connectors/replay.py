"""Dead letters once more through a table: what can be read now goes on, what is still bad stays a dead letter.

    letters of a topic -> stream with a checkpoint -> decode -> rows -> target
                                                             -> still bad -> the end of the topic, for the next replay
    letters of a path  -> folder by folder         -> decode -> rows -> target
                                                             -> still bad -> a new folder; the old one is emptied

A replay that failed may be called again, and one that succeeded, too: each letter is taken until its rows are written.
Rows are written at least once. Letters that are still bad are written before the rows of their batch, so none is lost.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

from kvformat.connectors import topics
from kvformat.connectors.jars import check_stream_jar, kafka_source_missing
from kvformat.connectors.properties import client_options
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.streams.changes import observe_records, split_errors
from kvformat.registry.streams.dead_letters import content_name, is_topic, original_records, write_dead_letters
from kvformat.registry.table.producer import producer_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kvformat.connectors.kafka import KafkaTable
    from kvformat.registry.key_value_format import KeyValueFormat
    from kvformat.registry.table.metadata import MetadataKeys

    Target: TypeAlias = "KafkaTable | Callable[[DataFrame, int], None]"

_COUNTS = "kvformat_replay"
# How folders of letters are named within a path, in the URL of one of their files.
_FOLDER = r"/batch=([A-Za-z0-9_-]+)/[^/]*$"


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay did: how many dead letters it took, and how many of them are still bad and stay."""

    letters: int
    still_bad: int


def replay(
    kv: KeyValueFormat,
    spark: SparkSession,
    dead_letters: str | PathLike[str],
    to: Target,
    *,
    checkpoint_location: str | None,
    metadata: MetadataKeys | None,
) -> Replayed:
    """`KafkaTable.replay`."""
    if isinstance(dead_letters, PathLike):
        dead_letters = os.path.join(".", os.fspath(dead_letters))
    if not isinstance(dead_letters, str) or not dead_letters.strip():
        raise ConfigurationError(f"dead letters are replayed from a topic or a path, not from {dead_letters!r}")
    if not callable(to) and not hasattr(to, "write_stream"):
        raise ConfigurationError(
            "replay writes to a KafkaTable or calls a function of the rows and the batch's number, not "
            f"{type(to).__name__}"
        )
    if not is_topic(dead_letters):
        return _from_path(kv, spark, dead_letters.rstrip("/"), to, metadata)
    if checkpoint_location is None:
        raise ConfigurationError(
            f"replay of the topic '{dead_letters}' needs checkpoint_location=..., a folder that says which letters "
            f"were taken: use the same one each time. For a folder of that name write './{dead_letters}'"
        )
    return _from_topic(kv, spark, dead_letters, to, checkpoint_location, metadata)


# --- a topic -------------------------------------------------------------------------------------------------


def _from_topic(
    kv: KeyValueFormat,
    spark: SparkSession,
    topic: str,
    to: Target,
    checkpoint_location: str,
    metadata: MetadataKeys | None,
) -> Replayed:
    """Take the letters that the checkpoint does not know, up to the end that the topic has now."""
    options = {"subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "true"}
    with kafka_source_missing(spark):
        letters = spark.readStream.format("kafka").options(**client_options(kv.options), **options).load()
        letters.schema  # noqa: B018 - makes Spark Connect look for the source now
    check_stream_jar(spark)
    topics.check(kv, [topic], spark)
    decoded = kv.decode(original_records(letters), metadata=metadata, errors="capture")
    writer = Replay(kv, topic, to)
    query = (
        observe_records(decoded, _COUNTS)
        .writeStream.foreachBatch(writer)
        .option("checkpointLocation", checkpoint_location)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    from kvformat.connectors.progress import observed_counts  # of PySpark's listeners

    progress = [one for one in query.recentProgress if one.numInputRows]
    counts = [observed_counts(one).get(_COUNTS, {}) for one in progress]
    bad = sum(one.get("bad", 0) + one.get("skipped", 0) for one in counts)
    return Replayed(sum(one.numInputRows for one in progress), bad)


@dataclass(frozen=True, repr=False)
class Replay:
    """What `foreachBatch` does with a batch of decoded letters; pickled to the server by Spark Connect."""

    kv: KeyValueFormat
    topic: str
    to: Target

    def __call__(self, decoded: DataFrame, batch_id: int) -> None:
        """Letters that are still bad first, then the rows. An error leaves both to the next try."""
        decoded = decoded.persist()
        try:
            good, bad = split_errors(decoded)
            write_dead_letters(bad, self.topic, options=producer_options(self.kv.options), batch_id=batch_id)
            _write(good, self.to, batch_id)
        finally:
            decoded.unpersist()


def _write(rows: DataFrame, to: Any, batch_id: int) -> None:
    if callable(to):
        to(rows, batch_id)
    else:
        to.write(rows)


# --- a path --------------------------------------------------------------------------------------------------


def _from_path(
    kv: KeyValueFormat, spark: SparkSession, path: str, to: Target, metadata: MetadataKeys | None
) -> Replayed:
    """Take the folders that hold letters one by one."""
    taken = left = 0
    for name in _folders(spark, path):
        folder = f"{path}/batch={name}"
        letters = spark.read.parquet(folder)
        decoded = kv.decode(original_records(letters), metadata=metadata, errors="capture").persist()
        try:
            good, bad = split_errors(decoded)
            count, still_bad = letters.count(), bad.count()
            taken, left = taken + count, left + still_bad
            if still_bad == count:
                continue  # they stay where they are
            if still_bad:
                # Fewer letters than the folder has, so its name is another one; the same again after a failure.
                bad.write.mode("overwrite").parquet(f"{path}/batch=replayed-{content_name(bad)}")
            _write(good, to, -1)
            spark.createDataFrame([], letters.schema).write.mode("overwrite").parquet(folder)
        finally:
            decoded.unpersist()
    return Replayed(taken, left)


def _folders(spark: SparkSession, path: str) -> list[str]:
    """The names of the folders with letters: those of batches before those of replays."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    try:
        files = spark.read.parquet(path).select(F.col("_metadata.file_path").alias("file")).distinct().collect()
    except AnalysisException as cause:
        if "PATH_NOT_FOUND" in str(cause) or "UNABLE_TO_INFER_SCHEMA" in str(cause):
            return []  # no record has been bad so far
        raise
    found = [re.search(_FOLDER, row.file) for row in files]
    if not all(found):
        raise ConfigurationError(
            f"'{path}' holds Parquet files that are not in folders batch=..., as dead letters are: name the path that "
            "was given as dead_letters"
        )
    return sorted({one[1] for one in found if one})
