"""What the brokers say about the topics of a table, before a job reads or writes them."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kvformat.codecs._java.regex import compile_java
from kvformat.connectors import brokers
from kvformat.connectors.properties import PREFIX
from kvformat.registry.contract.errors import (
    BrokerError,
    ConfigurationError,
    MissingExtraError,
    OptionError,
    did_you_mean,
)
from kvformat.registry.key_value_format import KeyValueFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CREATES = "auto.create.topics.enable"
_SOURCE = "Spark's Kafka source"
_FAR_TIMEOUT = 5.0  # seconds that the client of Spark Connect waits for brokers that it may be far from
_REMEMBERED = 600.0  # seconds for which it is remembered that they did not answer
_MOST_UNREACHED = 100  # lists of brokers that are remembered: each is a session's, of which there are few
_unreached: dict[str, tuple[float, str]] = {}  # by list of brokers: when, and what the error said
_INSTALL = " With kvformat[kafka] installed, such an error is found sooner and names the nearest topic"
# An exception of Kafka's client in the text of one of Spark's, by its simple name and its message.
_OF_KAFKA = re.compile(r"org\.apache\.kafka\.[\w.$]*?(\w+(?:Exception|Error))\b:?([^\n]*)")


def partitions(kv: KeyValueFormat) -> dict[str, int]:
    """How many partitions each topic has that a table may be written to.

    Raises `BrokerError`, `MissingExtraError` without confluent-kafka, and `ConfigurationError` for a topic that is not
    there.
    """
    values = kv.connector_options("encode")
    counts = {name: len(topic.partitions) for name, topic in _topics(brokers.admin(kv.options), kv).items()}
    names: Iterable[str] = values["topic"] or ()
    if values["topic"] is None:
        pattern = compile_java(values["topic-pattern"])
        names = [name for name in counts if pattern.matches(name)]
    for name in names:
        if name not in counts:
            raise missing_topic(kv, name, counts, "of which 'sink.partitioner' = 'fixed' needs the partitions")
    return {name: counts[name] for name in names}


def check(kv: KeyValueFormat, names: Iterable[str], spark: object) -> None:
    """Raise for topics to be written that are not there and won't be made, and for brokers that don't answer.

    Spark would find out after a minute. Nobody is asked without confluent-kafka, or where a setting of security is only
    for Java's client. `spark` is a session or a DataFrame: the client of Spark Connect may be far from the brokers, so
    that brokers that don't answer it are no error there. Raises `BrokerError`, `ConfigurationError`.
    """
    try:
        client = brokers.admin(kv.options)
    except (MissingExtraError, OptionError):
        return
    try:
        there = _topics_seen(client, kv, spark)
    except BrokerError:
        if _is_connect(spark):
            return
        raise
    missing = [name for name in names if name not in there]
    if missing and not _creates_topics(client):
        raise missing_topic(kv, missing[0], there, f"and the brokers make none by themselves ('{_CREATES}')")


def check_reading(kv: KeyValueFormat, spark: SparkSession, ask_spark: Callable[[], object]) -> None:
    """Raise for topics to be read that are not there, and for brokers that don't answer.

    Spark's source makes no topic, whatever the brokers do. `ask_spark` asks Spark's own source: without
    confluent-kafka, where a setting of security is only for Java's client, and where brokers don't answer the client of
    Spark Connect, which may be far from them. Raises `BrokerError`, `ConfigurationError`.
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
        if not _is_connect(spark):
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
    """Raise what Spark's own Kafka client says of brokers and topics, in one line."""
    try:
        ask_spark()
    except Exception as cause:  # of Py4J, PySpark or Connect, by the kind of session
        found = _OF_KAFKA.findall(str(cause))
        if not found:
            raise
        kind, text = found[-1]  # the cause of the others
        said = f"{kind}: {text.strip()}" if text.strip() else kind
        if kind == "UnknownTopicOrPartitionException":
            names = ", ".join(f"'{name}'" for name in kv.connector_options("decode")["topic"] or ())
            raise missing_topic(kv, names, (), f"which {_SOURCE} needs ({said}).{hint}", quote="") from cause
        where = f"'{PREFIX}bootstrap.servers'"
        raise BrokerError(
            f"table '{kv.name}': {_SOURCE} could not ask the brokers at '{kv.options[f'{PREFIX}bootstrap.servers']}' "
            f"({where}) for the table's topics: {said}. Are they reached from Spark's driver, and do '{PREFIX}*' say "
            f"what they ask for?{hint}",
            option=f"{PREFIX}bootstrap.servers",
            reason=said,
        ) from cause


def _is_connect(spark: object) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _topics_seen(client: Any, kv: KeyValueFormat, spark: object) -> dict[str, Any]:
    """The topics that the client here sees; raises `BrokerError`.

    A client of Spark Connect that is far from the brokers does not wait for them again and again: that they did not
    answer is remembered for a while.
    """
    if not _is_connect(spark):
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


def _topics(client: Any, kv: KeyValueFormat, timeout: float | None = None) -> dict[str, Any]:
    question = functools.partial(client.list_topics, timeout=brokers.TIMEOUT if timeout is None else timeout)
    found: dict[str, Any] = brokers.ask(client, kv.options, "their topics", question).topics
    return found


def _creates_topics(client: Any) -> bool:
    """Whether a topic comes with its first record; also where nobody may know."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

    try:
        broker = next(iter(client.list_topics(timeout=brokers.TIMEOUT).brokers))
        asked = client.describe_configs([ConfigResource(ConfigResource.Type.BROKER, str(broker))])
        settings = next(iter(asked.values())).result(brokers.TIMEOUT)
    except (KafkaException, TimeoutError):
        return True
    return _CREATES not in settings or settings[_CREATES].value != "false"


def missing_topic(
    kv: KeyValueFormat, name: str, there: Iterable[str], why: str, *, quote: str = "'"
) -> ConfigurationError:
    """The error of a topic that is not there, or that who asks may not see."""
    return OptionError(
        f"table '{kv.name}': there is no topic {quote}{name}{quote}, {why}.{did_you_mean(name, there)} Make it, or set "
        "'topic'; or ask for the right to describe it",
        option="topic",
    )
