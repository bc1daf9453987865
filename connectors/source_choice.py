"""Which of two sources reads a table: Spark's Python data source `kvformat`, or Spark's own Kafka source in the JVM.

    choose(kv, source, ...)            the source, and why; `auto` takes Python's where it reads the same
    planned(spark, kv, source, ...)    the same, with the options of Spark's source, and after a look at the brokers

Both give the same rows. Python's needs no jar and decodes where it reads, so it is faster. Spark's has Java's Kafka
client, which some settings need. A checkpoint that has offsets keeps the source that wrote them.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kvformat.connectors import lag, offsets, python_source, source, topics
from kvformat.connectors.data_source import NAME
from kvformat.connectors.reader.client_settings import unsupported
from kvformat.connectors.reader.ranges import TOPIC_IDS
from kvformat.registry.contract.errors import ConfigurationError, install_extra
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.spark.sessions import is_connect, python_missing_here
from kvformat.registry.spark.workers import missing_module, spark_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kvformat.connectors.source import SourcePlan

Source: TypeAlias = Literal["auto", "python", "spark"]
_CLIENT = "confluent_kafka"
_LIMITS = (4, 2)
"""The first PySpark whose data sources have limits for micro-batches."""
#: Options of Spark's source that Python's has, too.
_SHARED = ("failOnDataLoss", "maxOffsetsPerTrigger", "maxRecordsPerPartition", "minPartitions")
_MOST_ERRORS = "ingestion.error-tolerance.max-count"


@dataclass(frozen=True, slots=True)
class SourceChoice:
    """A source, `python` or `spark`, and a sentence that tells why."""

    source: Literal["python", "spark"]
    why: str


def choose(
    kv: KeyValueFormat,
    wanted: Source,
    *,
    streaming: bool,
    spark: SparkSession | None = None,
    spark_options: Mapping[str, Any] | None = None,
    checkpoint: Sequence[str] = (),
) -> SourceChoice:
    """Return the source for a table; `wanted` is what the caller asks for.

    Without `spark` only the table and this process are looked at. `checkpoint` are lines of the offsets in the query's
    checkpoint. Raises `ConfigurationError` if the wanted source can't read the table, or if the checkpoint is that of
    the other source.
    """
    if wanted not in ("auto", "python", "spark"):
        raise ConfigurationError(f"source must be 'auto', 'python' or 'spark', not {wanted!r}")
    wrote = _written_by(checkpoint, kv.connector_options("decode")["topic"] or ())
    if wrote is not None:
        if wanted not in ("auto", wrote):
            raise ConfigurationError(
                f"source={wanted!r}: the checkpoint has offsets of the source {wrote!r}. A query can't go on with the "
                f"other one: leave source out, or give the query a new checkpoint"
            )
        return SourceChoice(wrote, "the checkpoint has its offsets")
    if wanted == "spark":
        return SourceChoice("spark", "source='spark'")
    why = _reason(kv, streaming=streaming, spark=spark, spark_options=spark_options)
    if why is None:
        return SourceChoice("python", "it needs no jar, and decodes where it reads")
    if wanted == "python":
        raise ConfigurationError(f"table '{kv.name}', source='python': {why}. Leave source out, or set it to 'spark'")
    return SourceChoice("spark", why)


def _written_by(lines: Sequence[str], topics: Sequence[str]) -> Literal["python", "spark"] | None:
    """Return the source that wrote the offsets of a table's topics; None if there are none."""
    for line in lines:
        try:
            by_topic = json.loads(line)
        except ValueError:
            continue
        if not isinstance(by_topic, dict) or (topics and not by_topic.keys() & {*topics}):
            continue
        if TOPIC_IDS in by_topic:
            return "python"
        if by_topic and all(isinstance(numbers, dict) for numbers in by_topic.values()):
            return "spark"
    return None


def _reason(
    kv: KeyValueFormat, *, streaming: bool, spark: SparkSession | None, spark_options: Mapping[str, Any] | None
) -> str | None:
    """Return why Python's source can't read the table; None if it can."""
    if importlib.util.find_spec(_CLIENT) is None:
        return f"confluent-kafka is not installed: {install_extra('kafka')}"
    of_client = unsupported(kv)
    if of_client is not None:
        return f"only Java's client can: {of_client}"
    values = kv.connector_options("decode")
    if values["ingestion.ignore-errors"] and values[_MOST_ERRORS] >= 0:
        return f"'{_MOST_ERRORS}' counts the bad records of a whole batch before it is read"
    if streaming and _uses_now(kv):
        return "computed columns use the time of the micro-batch, which only Spark repeats after a failure"
    shared = {name.lower() for name in _SHARED}
    others = [name for name in spark_options or () if name.lower() not in shared]
    if others:
        return f"spark_options has '{others[0]}', an option of Spark's source"
    if streaming and _version(spark) < _LIMITS:
        return "PySpark before 4.2 has no limits for the micro-batches of a data source in Python"
    if spark is None:
        return None
    python = python_missing_here(spark)
    if python is not None:
        return (
            f"Spark's driver starts the workers' Python too, to plan what is read, and there is no {python!r} here: "
            "submit the job from the folder that has it (PYSPARK_PYTHON)"
        )
    missing = missing_module(spark, _CLIENT)
    return None if missing is None else f"Spark's workers lack confluent-kafka ({missing})"


def _uses_now(kv: KeyValueFormat) -> bool:
    try:
        computed = kv.computed_columns()
    except ConfigurationError:  # `decode` raises it
        return False
    return computed is not None and computed.uses_now


def _version(spark: SparkSession | None) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)", spark_version(spark))
    return (0, 0) if match is None else (int(match[1]), int(match[2]))


def in_words(choice: SourceChoice) -> str:
    """Return the name of a source for people, and why it reads."""
    name = f"the data source '{NAME}', in Python" if choice.source == "python" else "Spark's Kafka source"
    return f"{name}: {choice.why}"


@dataclass(frozen=True, slots=True)
class ChosenSource:
    """A choice, with the options of Spark's source and notes. `resumed` says that the checkpoint has offsets."""

    choice: SourceChoice
    plan: SourcePlan
    resumed: bool

    def records(self, spark: SparkSession, kv: KeyValueFormat, *, streaming: bool) -> DataFrame:
        """Return the records by Spark's source; a query that continues waits for brokers that are restarting."""
        return source.records(spark, kv, self.plan, streaming=streaming, check=not self.resumed)


def planned(
    spark: SparkSession,
    kv: KeyValueFormat,
    wanted: Source,
    *,
    streaming: bool,
    headers: bool,
    checkpoint_location: str | None = None,
    spark_options: Mapping[str, Any] | None,
) -> ChosenSource:
    """Choose the source, check the options, and for Python's source that the topics exist.

    Raises `OptionError` for options that are not supported and for a missing topic, `BrokerError` if no broker answers,
    `ConfigurationError` as `choose` does.
    """
    lines = [] if checkpoint_location is None else offsets.checkpoint_lines(spark, checkpoint_location)
    choice = choose(kv, wanted, streaming=streaming, spark=spark, spark_options=spark_options, checkpoint=lines)
    in_python = choice.source == "python"
    # With Spark Connect, the client may not reach the brokers; the data source asks them where Spark's driver is.
    ask = not (in_python and is_connect(spark))
    resumed = bool(lines)
    if streaming:
        lag.watched(kv)
    plan = source.planned(
        kv, streaming=streaming, headers=headers, resumed=resumed, ask=ask, spark_options=spark_options
    )
    if in_python and not resumed:
        topics.check_reading(kv, spark, lambda: python_source.ask_topics(spark, kv))
    return ChosenSource(choice, plan, resumed)
