"""Start the query of a pipeline.

The first start looks at the newest records of each partition. Then `foreachBatch` calls `IngestBatch`.
"""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from kvformat.connectors import offsets, python_source, source_choice, topics
from kvformat.connectors.broker_offsets import GROUP
from kvformat.connectors.offset_plan import OffsetPlan
from kvformat.connectors.range_records import range_rows
from kvformat.connectors.reader.ranges import PartitionRange, by_topic
from kvformat.ingestion import looking
from kvformat.ingestion.pipeline.options import plain_text
from kvformat.ingestion.pipeline.source import RECORDS
from kvformat.ingestion.planning import Planner
from kvformat.ingestion.query import IngestBatch, QuerySettings
from kvformat.ingestion.range_reader import RangeReader
from kvformat.ingestion.rules import look_stage, plan_rules
from kvformat.ingestion.schemas.known import BatchPlan, IngestState
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.ingestion.store import FIRST_BATCH, SchemaStore
from kvformat.ingestion.targets.discovery import target_of
from kvformat.registry.contract.errors import ConfigurationError, KafkaSourceWarning, MissingExtraError, listed
from kvformat.registry.sql.connector_options import is_client_property
from kvformat.registry.streams.dead_letters import DeadLetters
from kvformat.registry.streams.foreach_batch import foreach_batch
from kvformat.registry.table.producer import producer_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kvformat.connectors.kafka import KafkaTable
    from kvformat.ingestion.pipeline.pipeline import Pipeline
    from kvformat.ingestion.targets.target import Target
    from kvformat.registry.streams.dead_letters import DeadLetterTarget

_LOG = logging.getLogger("kvformat.ingest")
_NEEDED = looking.RECORD_COLUMNS[:6]
OnTableError = Literal["stop", "quarantine"]


def start_query(
    pipeline: Pipeline,
    spark: SparkSession,
    *,
    checkpoint_location: str | PathLike[str] | None,
    records: DataFrame | None = None,
    target: Target | None = None,
    dead_letters: DeadLetterTarget | None = None,
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    on_table_error: OnTableError = "stop",
    take_over: bool = False,
    probe: bool = True,
    spark_options: Mapping[str, Any] | None = None,
    step: Callable[[str], None] | None = None,
) -> StreamingQuery:
    """Check everything that needs a session, and start the query; `Pipeline.start` describes the arguments."""
    refused = pipeline.refused if records is None else pipeline.refused_for_records
    if refused:
        raise ConfigurationError("the pipeline can't be started:\n" + "\n".join(f"- {why}" for why in refused))
    checkpoint = os.fspath(checkpoint_location or pipeline.settings.values["checkpoint"] or "")
    if not checkpoint:
        raise ConfigurationError("a query needs a checkpoint: checkpoint_location=..., or 'checkpoint' in 'pipeline'")
    if on_table_error not in ("stop", "quarantine"):
        raise ConfigurationError(f"on_table_error must be 'stop' or 'quarantine', not {on_table_error!r}")
    letters, logs = _letters(pipeline, dead_letters)
    if on_table_error == "quarantine" and letters is None:
        raise ConfigurationError(
            "on_table_error='quarantine' writes the records of a failed table to dead letters: set dead_letters"
        )
    _check_time_zone(pipeline, spark)
    target = target or target_of(pipeline.sink)
    in_session = target.with_session(spark)
    if probe:
        in_session.probe()
    if in_session.forgets_tables:
        in_session.remember(SchemaStore(spark, checkpoint).load()[0].schemas.targets)
    settings = QuerySettings(checkpoint, letters, logs, on_table_error, take_over)
    if records is None and pipeline.source.type == RECORDS:
        raise ConfigurationError(f"the source has the type '{RECORDS}': give the stream, start(spark, records=...)")
    if records is None:
        records = _records(pipeline, spark, checkpoint, letters, spark_options)
    else:
        check_records(records)
    for note in pipeline.notes:
        _LOG.warning("%s", note)
    batch = IngestBatch(pipeline, target, settings, step)
    writer = foreach_batch(records, batch).option("checkpointLocation", checkpoint)
    trigger = trigger or pipeline.settings.trigger or _bounded(pipeline)
    writer = writer.trigger(**trigger) if trigger else writer
    name = query_name or pipeline.settings.values["name"]
    return (writer.queryName(name) if name else writer).start()


def _check_time_zone(pipeline: Pipeline, spark: SparkSession) -> None:
    """Raise `ConfigurationError` if Spark would evaluate Flink SQL in another time zone than that of the pipeline."""
    zone, setting = pipeline.settings.values["local-time-zone"], "spark.sql.session.timeZone"
    by_spark = any(rule.is_flink and (rule.computed or rule.filter) for rule in pipeline.transforms)
    for column in pipeline.source.metadata.values():  # Spark casts the time of the record, too
        by_spark |= column.key == "timestamp" and column.type is not None and column.type.root != "TIMESTAMP_LTZ"
    if zone is not None and by_spark and zone != spark.conf.get(setting):
        raise ConfigurationError(
            f"'local-time-zone' is '{zone}', and the session's {setting} is '{spark.conf.get(setting)}'. Spark "
            f"evaluates expressions and casts in the session's: set {setting} = {zone}"
        )


def check_records(records: DataFrame) -> None:
    """Raise `ConfigurationError` for a DataFrame that is not a stream of Kafka records."""
    if not records.isStreaming:
        raise ConfigurationError("records must be a stream of Kafka records (spark.readStream)")
    missing = [name for name in _NEEDED if name not in records.columns]
    if missing:
        raise ConfigurationError(
            f"the records have no column {missing[0]!r}; they need {', '.join(_NEEDED)}, as Spark's Kafka source gives "
            f"them. The columns: {listed(records.columns)}"
        )


def _bounded(pipeline: Pipeline) -> dict[str, Any]:
    return {"availableNow": True} if pipeline.source.values["scan.bounded.mode"] == "latest-offset" else {}


def _letters(pipeline: Pipeline, dead_letters: DeadLetterTarget | None) -> tuple[DeadLetters | None, bool]:
    """Return the target of bad records, and whether they are logged."""
    values = pipeline.settings.values
    kind, location = values["dirty-data.collector.type"], values["dirty-data.collector.location"]
    to = dead_letters
    if to is None and kind in ("topic", "path"):
        to = location if kind == "topic" else os.path.join(".", location) if "://" not in location else location
    if to is None:
        return None, kind == "logger"
    client = {key: text for key, text in pipeline.source.options.items() if is_client_property(key)}
    letters = DeadLetters.of(to, producer_options({key: plain_text(text) for key, text in client.items()}))
    letters.check_reading(pipeline.source.values)
    return letters, kind == "logger"


def _records(
    pipeline: Pipeline,
    spark: SparkSession,
    checkpoint: str,
    letters: DeadLetters | None,
    spark_options: Mapping[str, Any] | None,
) -> DataFrame:
    """Return the stream of the source's records, after a first look at the newest ones."""
    table = pipeline.source.records
    assert table is not None
    if letters is not None:
        topics.check(table.kv, letters.topics, spark)
    if pipeline.source.values["scan.check.duplicated.group.id"] and GROUP in table.kv.options:
        offsets.check_group_is_unused(table.kv)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "table '", KafkaSourceWarning)  # the pipeline's notes have them
        chosen = source_choice.planned(
            spark,
            table.kv,
            "auto",
            streaming=True,
            headers=True,
            checkpoint_location=checkpoint,
            spark_options=spark_options,
        )
        in_python = chosen.choice.source == "python"
        if not chosen.resumed:
            first_look(pipeline, spark, checkpoint, in_python=in_python)
        if in_python:
            return python_source.ranges(spark, table.kv, spark_options, streaming=True)
        return chosen.records(spark, table.kv, streaming=True)


def first_look(pipeline: Pipeline, spark: SparkSession, checkpoint: str, *, in_python: bool) -> None:
    """Look at the newest records of each partition, and store the columns of their tables.

    `in_python` says which source reads them.
    """
    most, table = pipeline.source.values["scan.max.pre.fetch.records"], pipeline.source.records
    assert table is not None
    store = SchemaStore(spark, checkpoint)
    if most == 0 or store.load()[0].sources:
        return
    try:
        ranges = OffsetPlan(table.kv).newest(most)
    except MissingExtraError as error:
        _LOG.warning("no first look at the newest records, because the brokers can't be asked: %s", error)
        return
    if not ranges:
        return
    planner = Planner(plan_rules(pipeline, quarantine=False), lambda *_: TableSchema(()))
    state = planner.known(IngestState())
    look = look_stage(pipeline).knowing(state)
    if in_python:
        rows = spark.createDataFrame(pa.Table.from_batches([range_rows(ranges, skips_lost=True, tasks=1)]))
        looked = replace(look, reader=RangeReader.of(table.kv, (), "UTC")).looked(rows)
    else:
        looked = look.looked(_newest_by_spark(spark, table, ranges))
    sources = planner.merged(state, looked.run().news)
    store.make_query_id()
    store.write(FIRST_BATCH, IngestState(), BatchPlan(IngestState(sources)))


def _newest_by_spark(spark: SparkSession, table: KafkaTable, ranges: Sequence[PartitionRange]) -> DataFrame:
    """Return the records of ranges by Spark's own Kafka source."""
    options = {**table.source_options(streaming=False), "includeHeaders": "true"}
    for name in ("startingTimestamp", "startingOffsetsByTimestampStrategy", "endingTimestamp"):
        options.pop(name, None)
    for side in ("start", "end"):
        offsets_of = {(bounds.topic, bounds.partition): getattr(bounds, side) for bounds in ranges}
        options[f"{side}ingOffsets"] = json.dumps(by_topic(offsets_of))
    return spark.read.format("kafka").options(**options).load().select(*looking.RECORD_COLUMNS)
