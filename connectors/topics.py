"""A table's topics: those that a pattern matches, and checks with the brokers before a job reads or writes them."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from kvformat.connectors import brokers
from kvformat.connectors.properties import PREFIX
from kvformat.registry.contract.errors import (
    BrokerError,
    ConfigurationError,
    MissingExtraError,
    OptionError,
    did_you_mean,
)
from kvformat.registry.java.regex import JavaPattern, RegexError, SlowMatchError, compile_java
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.spark.sessions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Topics that librdkafka lists and Java's client does not.
_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_CREATES = "auto.create.topics.enable"
_SOURCE = "Spark's Kafka source"
_FAR_TIMEOUT = 5.0  # seconds that a client of Spark Connect waits for brokers, which it may not reach
_REMEMBERED = 600.0  # seconds before that client asks the same brokers again
_MOST_UNREACHED = 100  # cached lists of brokers: each belongs to a session, and a process has few sessions
_unreached: dict[str, tuple[float, str]] = {}  # list of brokers -> time and text of the error
_INSTALL = " With kvformat[kafka] installed, such an error comes sooner and names the most similar topic"
# An exception of Kafka's client in the text of one of Spark's exceptions: its class and its message.
_OF_KAFKA = re.compile(r"org\.apache\.kafka\.[\w.$]*?(\w+(?:Exception|Error))\b:?([^\n]*)")


class Named(Protocol):
    """A table for these checks, such as `KeyValueFormat`."""

    @property
    def name(self) -> str:
        """The name of the table, for errors."""

    @property
    def options(self) -> Mapping[str, str]:
        """The options with `properties.*` of the brokers."""


def topic_pattern(text: str | None) -> JavaPattern:
    """Return the pattern as Python can match it; raises `OptionError` if it is not a regular expression of Java."""
    if text is None:
        raise OptionError("'topic' names no topic, and there is no 'topic-pattern'", option="topic")
    try:
        return compile_java(text)
    except RegexError as cause:
        raise OptionError(
            f"'topic-pattern' is not a regular expression of Java: {cause}", option="topic-pattern"
        ) from cause


def matching(text: str | None, names: Iterable[str]) -> list[str]:
    """Return the topics that a pattern matches, which must match whole names; Kafka's own topics are left out.

    Raises `OptionError` if it is not a regular expression of Java, or takes too long.
    """
    pattern = topic_pattern(text)
    try:
        return [name for name in names if name not in _INTERNAL and pattern.matches(name)]
    except SlowMatchError as cause:
        raise OptionError(
            f"'topic-pattern' takes more than {cause.seconds:g} s for the name of a topic: write it with fewer "
            "repetitions within each other",
            option="topic-pattern",
        ) from cause


def partitions(kv: KeyValueFormat) -> dict[str, int]:
    """Return the number of partitions of each topic that the table may write.

    Raises `BrokerError`, `MissingExtraError` without confluent-kafka, and `ConfigurationError` for a missing topic.
    """
    values = kv.connector_options("encode")
    counts = {name: len(topic.partitions) for name, topic in _topics(brokers.admin(kv.options), kv).items()}
    names = matching(values["topic-pattern"], counts) if values["topic"] is None else values["topic"]
    for name in names:
        if name not in counts:
            raise missing_topic(kv, name, counts, "but 'sink.partitioner' = 'fixed' needs its partitions")
    return {name: counts[name] for name in names}


def check(kv: Named, names: Iterable[str], spark: object) -> dict[str, int]:
    """Check that the topics to be written exist, or that the brokers will create them.

    Returns the number of partitions of those that exist, as far as the brokers were asked.

    Spark would fail only after a minute. Nothing is checked without confluent-kafka, or with security settings that
    only Java's client supports. `spark` is a session or a DataFrame. A client of Spark Connect may not reach the
    brokers, so there it is not an error if they do not answer.
    Raises `ConfigurationError` for a missing topic, `BrokerError` if no broker answers.
    """
    try:
        client = brokers.admin(kv.options)
    except (MissingExtraError, OptionError):
        return {}
    try:
        there = _topics_seen(client, kv, spark)
    except BrokerError:
        if is_connect(spark):
            return {}
        raise
    names = list(names)
    missing = [name for name in names if name not in there]
    if missing and not _creates_topics(client):
        raise missing_topic(kv, missing[0], there, f"and the brokers do not create topics ('{_CREATES}')")
    return {name: len(there[name].partitions) for name in names if name in there}


def check_reading(kv: KeyValueFormat, spark: SparkSession, ask_spark: Callable[[], object]) -> None:
    """Check that the topics to be read exist; Spark's source creates no topics.

    `ask_spark` uses Spark's own source. It is called without confluent-kafka, with security settings that only Java's
    client supports, and if the brokers do not answer a client of Spark Connect, which may not reach them.
    Raises `ConfigurationError` for a missing topic, `BrokerError` if no broker answers.
    """
    try:
        client = brokers.admin(kv.options)
    except MissingExtraError:
        return _asked_of_spark(kv, ask_spark, _INSTALL)
    except OptionError as cause:
        if cause.option == f"{PREFIX}bootstrap.servers":
            raise
        return _asked_of_spark(kv, ask_spark, "")
    try:
        there = _topics_seen(client, kv, spark)
    except BrokerError as error:
        if not is_connect(spark):
            raise
        try:
            return _asked_of_spark(kv, ask_spark, "")
        except BrokerError:
            raise error from error.__cause__
    for name in kv.connector_options("decode")["topic"] or ():
        if name not in there:
            raise missing_topic(kv, name, there, f"which {_SOURCE} needs")
    return None


def _asked_of_spark(kv: KeyValueFormat, ask_spark: Callable[[], object], hint: str) -> None:
    """Ask Spark's own Kafka client, and raise its error about brokers or topics in one line."""
    try:
        ask_spark()
    except Exception as cause:  # of Py4J, PySpark or Connect, by the kind of session
        exceptions = _OF_KAFKA.findall(str(cause))
        if not exceptions:
            raise
        kind, text = exceptions[-1]  # the innermost cause
        said = f"{kind}: {text.strip()}" if text.strip() else kind
        if kind == "UnknownTopicOrPartitionException":
            names = ", ".join(f"'{name}'" for name in kv.connector_options("decode")["topic"] or ())
            raise missing_topic(kv, names, (), f"which {_SOURCE} needs ({said}).{hint}", quote="") from cause
        where = f"'{PREFIX}bootstrap.servers'"
        raise BrokerError(
            f"table '{kv.name}': {_SOURCE} could not ask the brokers at '{kv.options[f'{PREFIX}bootstrap.servers']}' "
            f"({where}) for the table's topics: {said}. Check that Spark's driver reaches them, and that '{PREFIX}*' "
            f"has the security settings that they need.{hint}",
            option=f"{PREFIX}bootstrap.servers",
            reason=said,
        ) from cause


def _topics_seen(client: Any, kv: Named, spark: object) -> dict[str, Any]:
    """Return the topics that this machine's client sees; raises `BrokerError`.

    With Spark Connect an error is cached for a while, so that a client that can't reach the brokers waits only once.
    """
    if not is_connect(spark):
        return _topics(client, kv)
    option = f"{PREFIX}bootstrap.servers"
    servers = kv.options[option]
    since, told = _unreached.get(servers, (0.0, ""))
    if told and time.monotonic() - since < _REMEMBERED:
        raise BrokerError(told, option=option)
    try:
        return _topics(client, kv, min(brokers.TIMEOUT, _FAR_TIMEOUT))
    except BrokerError as error:
        if len(_unreached) >= _MOST_UNREACHED:
            _unreached.clear()
        _unreached[servers] = (time.monotonic(), str(error))
        raise


def _topics(client: Any, kv: Named, timeout: float | None = None) -> dict[str, Any]:
    question = functools.partial(client.list_topics, timeout=brokers.TIMEOUT if timeout is None else timeout)
    described: dict[str, Any] = brokers.ask(client, kv.options, "their topics", question).topics
    return described


def _creates_topics(client: Any) -> bool:
    """Return whether brokers create a topic with its first record; also if the setting can't be read."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

    try:
        broker = next(iter(client.list_topics(timeout=brokers.TIMEOUT).brokers))
        futures = client.describe_configs([ConfigResource(ConfigResource.Type.BROKER, str(broker))])
        settings = next(iter(futures.values())).result(brokers.TIMEOUT)
    except (KafkaException, TimeoutError):
        return True
    return _CREATES not in settings or settings[_CREATES].value != "false"


def missing_topic(kv: Named, name: str, there: Iterable[str], why: str, *, quote: str = "'") -> ConfigurationError:
    """Make the error for a topic that does not exist, or that the user may not see."""
    return OptionError(
        f"table '{kv.name}': there is no topic {quote}{name}{quote}, {why}.{did_you_mean(name, there)} Create it, or "
        "correct 'topic', or get the permission to describe it",
        option="topic",
    )
