"""Decode dead letters again: write the rows of the letters that decode now, and keep the others as dead letters.

    letters of a topic -> stream with a checkpoint -> decode -> rows -> target
                                                             -> still bad -> the end of the topic, for the next replay
    letters of a path  -> folder by folder         -> decode -> rows -> target
                                                             -> still bad -> a new folder; the old one is emptied

A replay may be called again, after a failure and after a success: each letter is read until its rows are written. Rows
are written at least once. Letters that are still bad are written before the rows of their batch, so none is lost.
"""

from __future__ import annotations

import os
import re
import zlib
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
from kvformat.registry.streams.foreach_batch import foreach_batch
from kvformat.registry.table.producer import producer_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kvformat.connectors.kafka import KafkaTable
    from kvformat.registry.key_value_format import KeyValueFormat
    from kvformat.registry.table.metadata import MetadataKeys

    Target: TypeAlias = "KafkaTable | Callable[[DataFrame, int], None]"

_COUNTS = "kvformat_replay"
# The name of a folder of letters, in the URL of one of its files.
_FOLDER = r"/batch=([A-Za-z0-9_-]+)/[^/]*$"


@dataclass(frozen=True, slots=True)
class Replayed:
    """Result of a replay: the number of dead letters that it read, and how many of them are still bad."""

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
    """Replay dead letters of a topic or a path; see `KafkaTable.replay`."""
    if isinstance(dead_letters, PathLike):
        dead_letters = os.path.join(".", os.fspath(dead_letters))
    if not isinstance(dead_letters, str) or not dead_letters.strip():
        raise ConfigurationError(f"dead_letters must be a topic or a path, not {dead_letters!r}")
    if not callable(to) and not hasattr(to, "write_stream"):
        raise ConfigurationError(
            f"to must be a KafkaTable, or a function of the rows and the batch's number, not {type(to).__name__}"
        )
    if not is_topic(dead_letters):
        return _from_path(kv, spark, dead_letters.rstrip("/"), to, metadata)
    if checkpoint_location is None:
        raise ConfigurationError(
            f"replay of the topic '{dead_letters}' needs checkpoint_location=..., a folder that stores which letters "
            f"were read: use the same folder each time. If '{dead_letters}' is a folder, write './{dead_letters}'"
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
    """Read the letters that are not in the checkpoint yet, up to the current end of the topic."""
    options = {"subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "true"}
    with kafka_source_missing(spark):
        letters = spark.readStream.format("kafka").options(**client_options(kv.options), **options).load()
        letters.schema  # noqa: B018 - makes Spark Connect look for the source now
    check_stream_jar(spark)
    topics.check(kv, [topic], spark)
    decoded = kv.decode(original_records(letters), metadata=metadata, errors="capture")
    writer = Replay(kv, topic, to)
    query = (
        foreach_batch(observe_records(decoded, _COUNTS), writer)
        .option("checkpointLocation", checkpoint_location)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    from kvformat.connectors.batch_progress import observed_counts  # imports PySpark's listeners

    batches = [progress for progress in query.recentProgress if progress.numInputRows]
    counts = [observed_counts(progress).get(_COUNTS, {}) for progress in batches]
    bad = sum(count.get("bad", 0) + count.get("skipped", 0) for count in counts)
    return Replayed(sum(progress.numInputRows for progress in batches), bad)


@dataclass(frozen=True, repr=False)
class Replay:
    """The function for `foreachBatch`, which writes a batch of decoded letters; Spark Connect pickles it."""

    kv: KeyValueFormat
    topic: str
    to: Target

    def __call__(self, decoded: DataFrame, batch_id: int) -> None:
        """Write letters that are still bad, then the rows. After an error the next replay repeats both."""
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
    """Read the folders with letters one after the other."""
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
                continue  # the letters stay in their folder
            if still_bad:
                # The name depends on the letters: it differs from the old folder's, and is equal after a failure. It
                # depends on the old folder, too: the letters of another one may be equal.
                kept = f"replayed-{content_name(bad)}-{zlib.crc32(name.encode()):08x}"
                bad.write.mode("overwrite").parquet(f"{path}/batch={kept}")
            _write(good, to, -1)
            spark.createDataFrame([], letters.schema).write.mode("overwrite").parquet(folder)
        finally:
            decoded.unpersist()
    return Replayed(taken, left)


def _folders(spark: SparkSession, path: str) -> list[str]:
    """Return the names of the folders with letters, sorted: folders of batches come before folders of replays."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    try:
        files = spark.read.parquet(path).select(F.col("_metadata.file_path").alias("file")).distinct().collect()
    except AnalysisException as cause:
        if "PATH_NOT_FOUND" in str(cause) or "UNABLE_TO_INFER_SCHEMA" in str(cause):
            return []  # there was no bad record yet
        raise
    matches = [re.search(_FOLDER, row.file) for row in files]
    if not all(matches):
        raise ConfigurationError(
            f"'{path}' has Parquet files outside of folders batch=..., unlike dead letters: give the path that "
            "was given as dead_letters when they were written"
        )
    return sorted({match[1] for match in matches if match})
