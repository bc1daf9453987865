"""What Spark's Kafka source is asked for, from the options of a table; where it begins and ends is in offsets.py.

    planned(kv, streaming=)        all options of the source, and what is to be warned of
    records(spark, kv, plan, ...)  the records, after the header filter, by as many tasks as the table wants

Which option of the table becomes what: effects.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvformat.connectors import header_filter, offsets, topics
from kvformat.connectors.brokers import TIMEOUT
from kvformat.connectors.effects import READING
from kvformat.connectors.jars import check_stream_jar, kafka_source_missing
from kvformat.connectors.properties import PREFIX, client_options, misspelt, unreadable_key
from kvformat.registry.contract.errors import OptionError, did_you_mean, listed
from kvformat.registry.contract.options import OptionValues
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.sql.connector_options import masked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DISCOVERY, _DUPLICATED = "scan.topic-partition-discovery.interval", "scan.check.duplicated.group.id"
#: Options of Spark's source that a table has no words for.
SPARKS = (
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "kafka.group.id",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
)
# Those that the table's own options say.
_STARTING = "startingOffsets", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "startingTimestamp"
_ENDING = "endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"
_OF_TABLE = {
    "assign": "topic",
    "subscribe": "topic",
    "subscribePattern": "topic-pattern",
    "includeHeaders": "the columns of metadata",
    **dict.fromkeys(_STARTING, "scan.startup.mode"),
    **dict.fromkeys(_ENDING, "scan.bounded.mode"),
}
# What the source needs to find its topics.
_ASKED = ("assign", "subscribe", "subscribePattern")
_FAR_FUTURE = 32_503_680_000_000  # the year 3000, in milliseconds
# What a backslash begins: a quote up to its end, or up to the end of the pattern (then a group is not empty).
_QUOTES = re.compile(r"\\Q(?:.*?\\E|(.*)\Z)|\\.", re.DOTALL)
_COMMITS = (f"{PREFIX}enable.auto.commit", f"{PREFIX}commit.offsets.on.checkpoint")
_JAVAS = tuple(f"{PREFIX}{name}" for name in ("interceptor.classes", "key.deserializer", "value.deserializer"))


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What Spark's source is given (secrets included, shown without), and by option what Spark does otherwise."""

    options: Mapping[str, str]
    notes: Mapping[str, str]


def planned(
    kv: KeyValueFormat,
    *,
    streaming: bool,
    headers: bool = False,
    resumed: bool = False,
    ask: bool = True,
    spark_options: Mapping[str, Any] | None = None,
) -> SourcePlan:
    """All options of Spark's source.

    `headers` asks for them; the filter of the table does so too. `resumed` says that a checkpoint has offsets already.
    `ask=False` asks no broker, and leaves the offsets out that it would be asked for. `spark_options` are options of
    Spark's source that the table says nothing of. Raises `OptionError` by name for what Spark can't do, `BrokerError`.
    """
    values = kv.connector_options("decode")
    given = _checked(kv, spark_options or {}, streaming)
    found = client_options(kv.options)
    if values["topic"]:
        found["subscribe"] = ",".join(_names(values["topic"]))
    else:
        found["subscribePattern"] = whole(values["topic-pattern"])
    start = not resumed and "startingOffsets" not in given and (ask or not offsets.asks(kv, "startup"))
    end = not streaming and "endingOffsets" not in given and (ask or not offsets.asks(kv, "bounded"))
    bounds, notes = offsets.within(kv, streaming=streaming, start=start, end=end)
    found |= bounds
    notes |= _notes(kv, streaming)
    if resumed:
        found["startingOffsets"] = "earliest"  # Spark passes over it, as it has offsets
    if headers or _filter(kv):
        found["includeHeaders"] = "true"
    found |= given
    return SourcePlan(OptionValues(found, {name: masked(name, found[name]) for name in found}), notes)


def _names(names: tuple[str, ...]) -> tuple[str, ...]:
    """The topics, none of which is several for Spark."""
    for name in names:
        if "," in name:
            raise OptionError(
                f"'topic': no topic has a comma in its name; write '{name.replace(',', ';')}'", option="topic"
            )
    return names


def options(kv: KeyValueFormat, *, streaming: bool) -> dict[str, str]:
    """The options of Spark's Kafka source, which secrets are among."""
    return dict(planned(kv, streaming=streaming).options)


def records(
    spark: SparkSession, kv: KeyValueFormat, plan: SourcePlan, *, streaming: bool, check: bool = True
) -> DataFrame:
    """The Kafka records of the table as Spark gives them; `check` asks first whether its topics are there.

    Raises `MissingExtraError` without Spark's Kafka source, `OptionError` for a missing topic, `BrokerError`.
    """
    reader = spark.readStream if streaming else spark.read
    with kafka_source_missing(spark):
        found = reader.format("kafka").options(**plan.options).load()
        found.schema  # noqa: B018 - makes Spark Connect look for the source now
    if streaming:
        check_stream_jar(spark)
    if check:
        topics.check_reading(kv, spark, lambda: _read_nothing(spark, plan))
    conditions = _filter(kv)
    if conditions:
        found = found.where(header_filter.column(conditions))
    tasks = kv.connector_options("decode")["scan.parallelism"]
    # Partitions of Kafka are put together, and none is torn apart: the changes of a key stay in order.
    return found if tasks is None else found.coalesce(tasks)


def _read_nothing(spark: SparkSession, plan: SourcePlan) -> None:
    """Let Spark's source find the topics and their ends, and read no record: from a time that is yet to come."""
    asked = {name: text for name, text in plan.options.items() if name in _ASKED or name.startswith("kafka.")}
    timeouts = dict.fromkeys(("kafka.request.timeout.ms", "kafka.default.api.timeout.ms"), str(int(TIMEOUT * 1000)))
    future = {"startingTimestamp": str(_FAR_FUTURE), "startingOffsetsByTimestampStrategy": "latest"}
    options = {"fetchOffset.numRetries": "1", **timeouts, **asked, **future}
    spark.read.format("kafka").options(**options).load().isEmpty()


def _filter(kv: KeyValueFormat) -> tuple[header_filter.Condition, ...]:
    text = kv.connector_options("decode").get(header_filter.OPTION)
    return () if text is None else header_filter.parse(text)


def whole(pattern: str) -> str:
    r"""A pattern of Java for which to find is to match from end to end, as Flink does; Spark finds anywhere in a name.

    An open `\Q` is closed. Behind `(?x)` a comment may be open: then the line break ends it, and what is before the
    line break is in it, so that `]{0}` stands for nothing; else `[.\n]{0}` does.
    """
    offsets.topic_pattern(pattern)
    return rf"\A(?:{pattern}{_open_quote(pattern)}[." + "\n" + r"]{0})\z"


def _open_quote(pattern: str) -> str:
    r"""`\E` where a `\Q` has none."""
    return r"\E" if any(open_end for open_end in _QUOTES.findall(pattern)) else ""


def _notes(kv: KeyValueFormat, streaming: bool) -> dict[str, str]:
    """What the table says and Spark does otherwise."""
    values, given = kv.connector_options("decode"), kv.options
    effects = {key: READING[key] for key in given if key in READING}
    notes = {key: f"'{key}' has no effect: {one.why}" for key, one in effects.items() if one.kind == "warned"}
    notes |= misspelt(given) | unreadable_key(given)
    if streaming:
        notes |= _notes_of_stream(kv)
    interval = values[_DISCOVERY]
    if streaming and interval is not None and not interval:
        notes[_DISCOVERY] = (
            f"'{_DISCOVERY}' = '0' has no effect: Spark looks for new partitions before each micro-batch"
        )
    if values.get(_DUPLICATED):
        notes[_DUPLICATED] = f"'{_DUPLICATED}' has no effect: Spark reads beside the group's consumers, and joins none"
    for key in _COMMITS:
        if given.get(key, "false").lower() == "true":
            notes[key] = f"'{key}' has no effect: Spark keeps offsets in its checkpoint, and commits none to the group"
    for key in _JAVAS:
        if key in given:
            notes[key] = f"'{key}' has no effect: Spark's Kafka source takes the bytes as they are"
    return notes


def _notes_of_stream(kv: KeyValueFormat) -> dict[str, str]:
    """A stream of Spark can't stop at an offset, but at what is there when it starts."""
    key = "scan.bounded.mode"
    mode = offsets.mode(kv, "bounded")
    if mode == "latest-offset":
        return {key: f"'{key}' = '{mode}' is said to the query: start it with trigger(availableNow=True)"}
    if mode != "unbounded":
        raise OptionError(
            f"'{key}' = '{mode}': a stream of Spark can't stop there. Read a batch, read(spark), or stop the stream "
            f"at what is there when it starts: with_options({{'{key}': 'latest-offset'}}) and "
            "trigger(availableNow=True)",
            option=key,
        )
    return {}


# --- options of Spark's source, given by the caller ---------------------------------------------------------


def _checked(kv: KeyValueFormat, given: Mapping[str, Any], streaming: bool) -> dict[str, str]:
    """The caller's options by Spark's spelling, as texts; none says what the table says."""
    known = {name.lower(): name for name in (*SPARKS, *_OF_TABLE)}
    found: dict[str, str] = {}
    for key, value in given.items():
        name = known.get(key.lower(), key)
        if key.lower().startswith("kafka.") and key != "kafka.group.id":
            raise OptionError(
                f"spark_options: '{key}' is said by the table: with_options({{'{PREFIX}{key[6:]}': ...}})", option=key
            )
        if name not in SPARKS and not _is_answer(kv, name, streaming):
            if name in _OF_TABLE:
                raise OptionError(
                    f"spark_options: '{name}' is said by the table, by {_OF_TABLE[name]}. Change that by with_options",
                    option=name,
                )
            raise OptionError(
                f"spark_options: Spark's Kafka source has no option '{key}'.{did_you_mean(key, SPARKS)} Those that a "
                f"table does not say: {listed(SPARKS)}",
                option=key,
            )
        found[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def _is_answer(kv: KeyValueFormat, name: str, streaming: bool) -> bool:
    """Whether the caller says what the brokers would be asked for."""
    if name == "startingOffsets":
        return offsets.asks(kv, "startup")
    return name == "endingOffsets" and not streaming and offsets.asks(kv, "bounded")
