"""Checks of topics before a job, with brokers in memory."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kvformat.connectors import KafkaTable, brokers, topics
from kvformat.connectors.cli._topics import partitions_of
from kvformat.registry.contract.errors import BrokerError, ConfigurationError, MissingExtraError, OptionError
from kvformat.registry.java.regex import SlowMatchError

CREATES = "auto.create.topics.enable"


class Admin:
    """Brokers with topics of these numbers of partitions. `asked` has the timeouts of requests for topics."""

    def __init__(self, there: Mapping[str, int], creates: str | None = "false", *, denied: bool = False) -> None:
        self._there, self._creates, self._denied = there, creates, denied
        self.asked: list[float] = []

    def list_topics(self, timeout: float) -> Any:
        self.asked.append(timeout)
        found = {name: SimpleNamespace(partitions=dict.fromkeys(range(count))) for name, count in self._there.items()}
        return SimpleNamespace(topics=found, brokers={1: None})

    def describe_configs(self, _: list[Any]) -> dict[str, Future[Any]]:
        future: Future[Any] = Future()
        if self._denied:
            future.set_exception(KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)))
        else:
            future.set_result({} if self._creates is None else {CREATES: SimpleNamespace(value=self._creates)})
        return {"broker": future}


def kv(topic: str | None = "orders", **options: str | None) -> Any:
    given = {"connector": "kafka", "topic": topic, "format": "raw", "properties.bootstrap.servers": "b:1"}
    given |= {"scan.startup.mode": "earliest-offset", **options}
    return KafkaTable("v BYTES", {key: value for key, value in given.items() if value is not None}).kv


@pytest.fixture
def connect() -> Any:
    """An object of a module of Spark Connect."""
    kind = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})
    return kind()


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_unreached", {})


def use(admin: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(brokers, "admin", lambda _: admin)
    return admin


def refuse(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no client be made."""

    def admin(_: Any) -> None:
        raise error

    monkeypatch.setattr(brokers, "admin", admin)


# --- writing -----------------------------------------------------------------------------------------------------


def test_topics_that_exist_are_told_with_their_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = use(Admin({"orders": 3, "dead": 1, "other": 9}), monkeypatch)
    assert topics.check(kv(), ["orders", "dead"], None) == {"orders": 3, "dead": 1}
    assert admin.asked == [brokers.TIMEOUT]


@pytest.mark.parametrize("missing", [["ordesr", "orders"], ["orders", "ordesr"]])
def test_a_missing_topic_is_an_error_if_brokers_create_none(
    missing: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(Admin({"orders": 3}), monkeypatch)
    words = rf"no topic 'ordesr', and the brokers do not create topics \('{CREATES}'\)\. Did you mean 'orders'\?"
    with pytest.raises(ConfigurationError, match=words):
        topics.check(kv(), missing, None)


@pytest.mark.parametrize(
    ("creates", "denied"), [("true", False), (None, False), (None, True)], ids=["true", "unknown", "denied"]
)
def test_a_missing_topic_is_no_error_if_brokers_may_create_it(
    creates: str | None, denied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(Admin({"orders": 3}, creates, denied=denied), monkeypatch)
    assert topics.check(kv(), ["new", "orders"], None) == {"orders": 3}


@pytest.mark.parametrize("error", [MissingExtraError("no client"), OptionError("Java only", option="x")])
def test_nothing_is_checked_without_a_client(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(error, monkeypatch)
    assert topics.check(kv(), ["nowhere"], None) == {}


def test_the_partitioner_fixed_needs_the_partitions_of_each_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    use(Admin({"a1": 3, "a2": 1, "xa1": 7, "b": 9}), monkeypatch)
    assert topics.partitions(kv("b;a1")) == {"b": 9, "a1": 3}
    assert topics.partitions(kv(None, **{"topic-pattern": "a."})) == {"a1": 3, "a2": 1}
    with pytest.raises(ConfigurationError, match=r"no topic 'c', but 'sink\.partitioner' = 'fixed' needs"):
        topics.partitions(kv("b;c"))


def test_a_pattern_does_not_match_topics_of_kafka_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java's client does not list them. Marks of transactions would be offsets of one, and `tail` would show it."""
    own = ("__consumer_offsets", "__transaction_state", "__share_group_state")
    use(Admin(dict.fromkeys((*own, "__mine", "a"), 1)), monkeypatch)
    of_pattern = kv(None, **{"topic-pattern": ".*"})
    assert topics.partitions(of_pattern) == {"__mine": 1, "a": 1}
    assert partitions_of(of_pattern.options, None, ".*") == {"__mine": [0], "a": [0]}
    assert partitions_of(of_pattern.options, [own[0]], None) == {own[0]: [0]}, "by name"


def test_a_pattern_that_takes_too_long_is_an_error_of_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    def matches(_: str) -> bool:
        raise SlowMatchError(0.5)

    monkeypatch.setattr(topics, "topic_pattern", lambda _: SimpleNamespace(matches=matches))
    with pytest.raises(OptionError, match=r"'topic-pattern' takes more than 0\.5 s for the name of a topic") as raised:
        topics.matching("(a+)+", ["aaab"])
    assert raised.value.option == "topic-pattern"


# --- brokers that do not answer ------------------------------------------------------------------------------------


class Away(Admin):
    def list_topics(self, timeout: float) -> Any:
        self.asked.append(timeout)
        raise TimeoutError("away")

    def poll(self, _: float) -> None:
        """There are no callbacks."""


def test_a_classic_session_fails_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = use(Away({}), monkeypatch)
    for _ in range(2):
        with pytest.raises(BrokerError, match="away"):
            topics.check(kv(), ["orders"], None)
    assert admin.asked == [brokers.TIMEOUT] * 2


def test_a_client_of_connect_waits_once_and_for_a_short_time(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = use(Away({}), monkeypatch)
    clock = SimpleNamespace(monotonic=lambda: clock.now, now=50.0)
    monkeypatch.setattr(topics, "time", clock)
    other = kv(**{"properties.bootstrap.servers": "c:1"})
    assert [topics.check(table, ["orders"], connect) for table in (kv(), kv(), other)] == [{}, {}, {}]
    assert admin.asked == [5.0, 5.0], "once for each list of brokers"
    clock.now += 599.0
    topics.check(kv(), ["orders"], connect)
    assert len(admin.asked) == 2
    clock.now += 2.0
    topics.check(kv(), ["orders"], connect)
    assert len(admin.asked) == 3, "asked again after ten minutes"


def test_errors_of_a_hundred_lists_of_brokers_are_remembered(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_MOST_UNREACHED", 3)
    use(Away({}), monkeypatch)
    for count, number in ((1, 1), (2, 2), (2, 2), (3, 3), (1, 4)):
        topics.check(kv(**{"properties.bootstrap.servers": f"b:{number}"}), ["orders"], connect)
        assert len(topics._unreached) == count


def test_a_client_of_connect_that_reaches_the_brokers_checks_as_others(
    connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(Admin({"orders": 3}), monkeypatch)
    assert topics.check(kv(), ["orders"], connect) == {"orders": 3}
    with pytest.raises(ConfigurationError, match="no topic 'nowhere'"):
        topics.check(kv(), ["nowhere"], connect)


# --- reading -------------------------------------------------------------------------------------------------------


def never() -> None:
    raise AssertionError("Spark is asked")


def test_each_topic_to_read_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the brokers would create it: Spark's source does not."""
    use(Admin({"orders": 3, "b": 1}, "true"), monkeypatch)
    topics.check_reading(kv("orders;b"), None, never)  # type: ignore[arg-type]
    topics.check_reading(kv(None, **{"topic-pattern": "nothing"}), None, never)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="no topic 'c', which Spark's Kafka source needs"):
        topics.check_reading(kv("orders;c"), None, never)  # type: ignore[arg-type]


def spark_says(text: str) -> Any:
    def ask() -> None:
        raise RuntimeError(text)

    return ask


DENIED = "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed\n at x"
UNKNOWN = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host it.\n at x"


def test_the_innermost_exception_of_kafkas_client_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(MissingExtraError("no client"), monkeypatch)
    outer = "java.util.concurrent.ExecutionException: org.apache.kafka.common.KafkaException: Failed to construct\n"
    with pytest.raises(BrokerError, match=r"brokers at 'b:1' .*: SaslAuthenticationException: Auth.*kvformat\[kafka\]"):
        topics.check_reading(kv(), None, spark_says(f"{outer}Caused by: {DENIED}"))  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"there is no topic 'a', 'b', which .*does not host"):
        topics.check_reading(kv("a;b"), None, spark_says(UNKNOWN))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="out of memory"):
        topics.check_reading(kv(), None, spark_says("out of memory"))  # type: ignore[arg-type]


def test_spark_is_asked_with_settings_of_java_only_but_not_without_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    refuse(OptionError("a class of Java", option="properties.sasl.login.class"), monkeypatch)
    topics.check_reading(kv(), None, lambda: asked.append(1))  # type: ignore[arg-type]
    assert asked == [1]
    refuse(OptionError("no brokers", option="properties.bootstrap.servers"), monkeypatch)
    with pytest.raises(OptionError, match="no brokers"):
        topics.check_reading(kv(), None, never)  # type: ignore[arg-type]


def test_with_connect_the_error_of_the_client_is_told_if_spark_fails_too(
    connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(Away({}), monkeypatch)
    topics.check_reading(kv(), connect, lambda: None)
    with pytest.raises(BrokerError, match="away"):
        topics.check_reading(kv(), connect, spark_says(DENIED))
    with pytest.raises(OptionError, match="there is no topic 'orders'"):
        topics.check_reading(kv(), connect, spark_says(UNKNOWN))
    with pytest.raises(BrokerError, match="away"):
        topics.check_reading(kv(), None, never)  # type: ignore[arg-type]
