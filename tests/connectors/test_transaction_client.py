"""Settings, marks, records and errors of transactions, without brokers."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from kvformat.connectors import brokers, producer_settings, transaction_client
from kvformat.connectors.properties import CLIENT_SETTINGS
from kvformat.connectors.transaction_client import KafkaBrokers, KafkaTransaction, TransactionSettings, records
from kvformat.connectors.transactions import Fenced, Mark
from kvformat.registry import BrokerError, ConfigurationError, DeliveryError, OptionError

SERVERS = {"properties.bootstrap.servers": "b:1"}


def settings(topics: Sequence[str] = ("t",), **properties: str) -> TransactionSettings:
    given = {f"properties.{name}": text for name, text in properties.items()}
    return TransactionSettings.of(SERVERS | given, topics, "p")


# --- settings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [1000, 2**31 - 1])
def test_the_longest_and_shortest_transaction_are_accepted(timeout: int) -> None:
    made = settings(**{"transaction.timeout.ms": f" {timeout} "})
    assert made.producer["transaction.timeout.ms"] == timeout
    assert KafkaBrokers(made).longest() == timeout / 1000


@pytest.mark.parametrize("timeout", [999, 2**31])
def test_longer_and_shorter_transactions_are_refused(timeout: int) -> None:
    with pytest.raises(OptionError, match=rf"at least 1000 milliseconds, not {timeout}"):
        settings(**{"transaction.timeout.ms": str(timeout)})


def test_defaults_are_those_of_java_and_of_brokers() -> None:
    made = settings()
    assert made.producer["transaction.timeout.ms"] == 900_000
    assert made.producer["delivery.timeout.ms"] == 120_000
    assert made.patience == 120.0
    assert (made.topics, made.topic) == (("t",), "t")
    assert settings(("t", "u")).topic is None


@pytest.mark.parametrize(
    ("delivery", "transaction", "wanted"), [(60_000, 60_001, 60_000), (60_001, 60_000, 60_000), (None, 90_000, 90_000)]
)
def test_a_delivery_takes_at_most_the_time_of_its_transaction(
    delivery: int | None, transaction: int, wanted: int
) -> None:
    given = {"transaction.timeout.ms": str(transaction)}
    given |= {} if delivery is None else {"delivery.timeout.ms": str(delivery)}
    assert settings(**given).producer["delivery.timeout.ms"] == wanted


@pytest.mark.parametrize(("block", "delivery", "wanted"), [(None, 30_000, 60.0), (30_000, 45_000, 45.0)])
def test_patience_is_the_longer_of_two_times(block: int | None, delivery: int, wanted: float) -> None:
    given = {"delivery.timeout.ms": str(delivery)} | ({} if block is None else {"max.block.ms": str(block)})
    assert settings(**given).patience == wanted


@pytest.mark.parametrize(
    ("name", "text"),
    [("acks", " ALL "), ("acks", "-1"), ("enable.idempotence", "True")]
    + [("max.in.flight.requests.per.connection", n) for n in "15"],
)
def test_settings_of_a_safe_producer_are_accepted(name: str, text: str) -> None:
    assert settings(**{name: text}).producer[name] == text.strip()


@pytest.mark.parametrize(
    ("name", "text"),
    [("acks", "0"), ("max.in.flight.requests.per.connection", "6"), ("max.in.flight.requests.per.connection", "0")],
)
def test_settings_of_an_unsafe_producer_are_refused(name: str, text: str) -> None:
    with pytest.raises(OptionError, match="Remove the option") as raised:
        settings(**{name: text})
    assert raised.value.option == f"properties.{name}"


def _told(monkeypatch: pytest.MonkeyPatch, told: Mapping[str, str], sizes: Sequence[int] = ()) -> None:
    """Let brokers tell these settings, and these largest sizes of messages."""
    monkeypatch.setattr(transaction_client, "broker_settings", lambda _: dict(told))
    monkeypatch.setattr(transaction_client, "largest_messages", lambda *_: list(sizes))


def test_a_given_timeout_is_at_most_that_of_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    _told(monkeypatch, {"transaction.max.timeout.ms": "60000"})
    assert settings(**{"transaction.timeout.ms": "60000"}).limited().producer["transaction.timeout.ms"] == 60_000
    with pytest.raises(OptionError, match=r"'60001' is larger than the brokers allow, .* = 60000: set at most 60000"):
        settings(**{"transaction.timeout.ms": "60001"}).limited()
    by_default = settings().limited().producer
    assert (by_default["transaction.timeout.ms"], by_default["delivery.timeout.ms"]) == (60_000, 60_000)


def test_a_given_timeout_is_kept_if_brokers_tell_none(monkeypatch: pytest.MonkeyPatch) -> None:
    _told(monkeypatch, {})
    assert settings(**{"transaction.timeout.ms": "60001"}).limited().producer["transaction.timeout.ms"] == 60_001
    assert settings().limited().producer["transaction.timeout.ms"] == 900_000


@pytest.mark.parametrize(
    ("sizes", "compression", "batch", "message"),
    [
        ([], "none", 1_000_000, 1 << 20),
        ([5000, 2000], "none", 2000, 5000),  # a batch fits each topic, a record its own
        ([5000, 2000], "zstd", 2000, 1 << 20),  # it may be small enough when it is compressed
        ([1 << 24], "none", 1_000_000, 1 << 20),
    ],
)
def test_sizes_are_limited_by_the_topics(
    sizes: list[int], compression: str, batch: int, message: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _told(monkeypatch, {}, sizes)
    found = settings(**{"compression.type": compression}).limited().producer
    assert (found["batch.size"], found["message.max.bytes"]) == (batch, message)


def test_settings_are_shown_without_secrets() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hush-hush";'
    secured = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    shown = settings(**secured).shown()
    assert shown["sasl.password"] == "******"
    assert "hush" not in str(shown)
    assert shown["transactional.id"] == "p-<query>-<task>"
    assert list(shown) == sorted(shown)


# --- settings of a producer ------------------------------------------------------------------------------------


def produced(**properties: str) -> dict[str, Any]:
    given = {f"properties.{name}": text for name, text in properties.items()}
    return producer_settings.producer_settings(given)


def test_a_producer_has_the_defaults_of_java() -> None:
    assert produced() == {
        "linger.ms": "20",
        "message.max.bytes": 1 << 20,
        "batch.size": 1_000_000,
        "partitioner": "murmur2_random",
        "queue.buffering.max.kbytes": 32 << 10,
        "queue.buffering.max.messages": 0,
    }


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"linger.ms": "0"}, {"linger.ms": "0"}),
        ({"batch.size": "0"}, {"batch.size": 1}),  # Java's form of no batches
        ({"batch.size": "2000", "max.request.size": "1999"}, {"batch.size": 1999, "message.max.bytes": 1999}),
        # A record that does not fit the queue would wait for ever.
        ({"max.request.size": "33554432"}, {"queue.buffering.max.kbytes": 64 << 10}),
        ({"max.request.size": "1048576", "buffer.memory": "1024"}, {"queue.buffering.max.kbytes": 2048}),
        ({"compression.type": "lz4", "compression.lz4.level": "9"}, {"compression.level": "9"}),
        ({"send.buffer.bytes": "-1"}, {"socket.send.buffer.bytes": "0"}),
        ({"receive.buffer.bytes": "1"}, {"socket.receive.buffer.bytes": "1"}),
        ({"partitioner.ignore.keys": " False "}, {"partitioner": "murmur2_random"}),
        # Java takes no blanks around a value, and librdkafka refuses them.
        ({"acks": " all ", "enable.idempotence": "true "}, {"acks": "all", "enable.idempotence": "true"}),
        (
            {"compression.type": " gzip", "compression.gzip.level": "9 "},
            {"compression.type": "gzip", "compression.level": "9"},
        ),
    ],
)
def test_settings_of_java_are_converted(given: dict[str, str], wanted: dict[str, Any]) -> None:
    found = produced(**given)
    assert {name: found.get(name) for name in wanted} == wanted


@pytest.mark.parametrize(
    "given",
    [
        *({f"compression.{kind}.level": "9"} for kind in ("gzip", "lz4", "zstd")),
        {"compression.type": "zstd", "compression.lz4.level": "9"},
    ],
)
def test_the_level_of_another_compression_does_not_count(given: dict[str, str]) -> None:
    assert "compression.level" not in produced(**given)


@pytest.mark.parametrize("text", ["TRUE", " true "])
def test_ignored_keys_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="chooses partitions by key"):
        produced(**{"partitioner.ignore.keys": text})


@pytest.mark.parametrize("name", ["partitioner.class", "interceptor.classes"])
def test_classes_of_java_are_refused_unless_they_are_empty(name: str) -> None:
    assert produced(**{name: ""}) == produced()
    with pytest.raises(OptionError, match=f"'properties.{name}' is a class of Java") as raised:
        produced(**{name: "a.B"})
    assert raised.value.option == f"properties.{name}"


def test_settings_of_readers_and_of_clients_give_no_note() -> None:
    names = ("auto.offset.reset", "group.id", "max.poll.records", "session.timeout.ms", "value.deserializer")
    names += ("acks", "batch.size", "send.buffer.bytes", "retry.backoff.ms", "compression.lz4.level", "ssl.protocol")
    names += ("sasl.jaas.config", "client.id", "bootstrap.servers", "transaction.timeout.ms", "unknown.setting")
    assert set(names) - {"unknown.setting"} <= CLIENT_SETTINGS
    assert producer_settings.without_effect({f"properties.{name}": "x" for name in names}) == {}
    assert set(producer_settings.without_effect({"properties.metadata.max.idle.ms": "5", "x": "y"})) == {
        "properties.metadata.max.idle.ms"
    }


def test_topics_that_may_not_be_described_have_no_largest_message(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def described(resources: Any) -> dict[Any, Any]:
        asked.extend(resource.name for resource in resources)
        futures: list[Future[Any]] = [Future() for _ in range(4)]
        futures[0].set_exception(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
        futures[1].set_result({"max.message.bytes": SimpleNamespace(value="2000")})
        futures[2].set_result({})
        futures[3].set_exception(TimeoutError())
        return dict(zip(resources, futures, strict=True))

    monkeypatch.setattr(producer_settings.brokers, "admin", lambda _: SimpleNamespace(describe_configs=described))
    assert producer_settings.largest_messages({}, ["a", "b", "c", "d"]) == [2000]
    assert producer_settings.largest_messages({}, []) == []
    assert asked == ["a", "b", "c", "d"]


# --- marks -----------------------------------------------------------------------------------------------------


class Consumer:
    """Answers with committed offsets by topic."""

    def __init__(
        self, known: Mapping[str, tuple[int, str]], error: KafkaError | None = None, raised: KafkaError | None = None
    ) -> None:
        self._known, self._error, self._raised = known, error, raised

    def committed(self, partitions: Sequence[Any], timeout: float) -> list[Any]:
        if self._raised is not None:
            raise KafkaException(self._raised)
        unknown = (-1001, None)
        found = [(at, self._known.get(at.topic, unknown)) for at in partitions]
        assert all(at.partition == 0 for at, _ in found), "marks are offsets of the first partition"
        return [SimpleNamespace(offset=n, metadata=text, error=self._error) for _, (n, text) in found]

    def poll(self, timeout: float) -> None:
        """There are no records."""

    def close(self) -> None:
        """There is no connection."""


def _marks(
    known: Mapping[str, tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
    uncommitted: KafkaError | None = None,
    **more: Any,
) -> dict[str, Mark]:
    def consumer(options: Mapping[str, str], *, group_id: str) -> Consumer:
        if options["properties.isolation.level"] == "read_uncommitted":
            assert "raised" in more, "only after an error"
            return Consumer({}, raised=uncommitted)
        return Consumer(known if group_id == "p-q" else {}, **more)

    monkeypatch.setattr(brokers, "consumer", consumer)
    made = settings(("one", "two"), **{"isolation.level": "read_uncommitted"})
    return KafkaBrokers(made).marks(["p-q", "p-none"])


@pytest.mark.parametrize("batches", [(7, 8), (8, 7)])
def test_the_mark_of_the_newest_batch_counts(batches: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that was the first one earlier may have an older mark."""
    one, two = (Mark(batch, batch) for batch in batches)
    known = {"one": (one.batch + 1, one.metadata), "two": (two.batch + 1, two.metadata)}
    assert _marks(known, monkeypatch) == {"p-q": Mark(8, 8)}


def test_a_mark_before_the_first_batch_is_a_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its offset is 0; a group without a mark has a negative one."""
    assert _marks({"one": (0, Mark(-1, 2).metadata)}, monkeypatch) == {"p-q": Mark(-1, 2)}
    assert _marks({}, monkeypatch) == {}


def test_an_error_of_a_partition_is_not_a_missing_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    error = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(BrokerError, match="the marks of the group 'p-q': Broker: Group authorization failed"):
        _marks({}, monkeypatch, error=error)


@pytest.mark.parametrize("answers", [True, False])
def test_an_open_transaction_is_not_a_broker_out_of_reach(answers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that tell uncommitted offsets only are reached; those that tell none are not."""
    late = KafkaError(KafkaError._TIMED_OUT)
    wanted = r"has not ended\. They abort it after 'properties\.transaction\.timeout\.ms', here 900 s; start the query"
    with pytest.raises(BrokerError, match=wanted if answers else "Check that this machine reaches them"):
        _marks({}, monkeypatch, raised=late, uncommitted=None if answers else late)


@pytest.mark.parametrize(("told", "seconds"), [({"offsets.retention.minutes": "7"}, 420.0), ({}, 86_400.0)])
def test_retention_is_told_in_minutes(told: Mapping[str, str], seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    _told(monkeypatch, told)
    assert KafkaBrokers(settings()).retention() == seconds


@pytest.mark.parametrize(
    ("there", "wanted"), [(("two", "one"), "one"), (("two",), "two")], ids=["both exist", "the first does not"]
)
def test_the_first_topic_that_exists_carries_the_marks(
    there: tuple[str, ...], wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = SimpleNamespace(list_topics=lambda timeout: SimpleNamespace(topics=dict.fromkeys(there)))
    monkeypatch.setattr(brokers, "admin", lambda _: client)
    assert KafkaBrokers(settings(("one", "two")))._topic == wanted
    with pytest.raises(ConfigurationError, match=r"there is no topic 'three' or 'four': .*must exist") as raised:
        KafkaBrokers(settings(("three", "four")))._topic  # noqa: B018 - asks
    assert raised.value.option == "topic"


# --- records ---------------------------------------------------------------------------------------------------


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RECORD = pa.schema(
    {"key": pa.binary(), "value": pa.binary(), "topic": pa.string(), "partition": pa.int32()}
    | {"timestamp": pa.int64(), "headers": HEADERS}
)


def test_records_have_their_own_topic_and_only_arguments_that_are_set() -> None:
    rows = pa.RecordBatch.from_pylist(
        [
            {"key": b"k", "value": b"v", "topic": "u", "partition": 0, "timestamp": 1, "headers": None},
            {"key": None, "value": None, "topic": "w", "partition": None, "timestamp": None, "headers": []},
            {"key": b"", "value": b"", "topic": "u", "partition": 3, "timestamp": 5}
            | {"headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]},
        ],
        RECORD,
    )
    assert list(records(rows, "t")) == [
        ("u", b"v", b"k", {"partition": 0, "timestamp": 1}),
        ("w", None, None, {"headers": []}),
        ("u", b"", b"", {"headers": [("a", b"1"), ("a", None)], "partition": 3, "timestamp": 5}),
    ]
    assert list(records(rows.select(["value"]), "t")) == [
        ("t", b"v", None, {}),
        ("t", None, None, {}),
        ("t", b"", None, {}),
    ]


@pytest.mark.parametrize("timestamp", [0, -1])
def test_times_that_librdkafka_cannot_write_are_errors(timestamp: int) -> None:
    rows = pa.RecordBatch.from_pydict({"value": [b"v"], "timestamp": [timestamp]})
    with pytest.raises(DeliveryError, match=rf"the timestamp {timestamp} \(milliseconds since 1970\)"):
        list(records(rows, "t"))


# --- a transaction ---------------------------------------------------------------------------------------------


class Producer:
    """Fails the first calls of `produce` with these exceptions."""

    def __init__(self, *failures: Exception) -> None:
        self.failures, self.produced, self.calls = list(failures), list[Any](), list[Any]()

    def produce(self, topic: str, value: Any, key: Any, **more: Any) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.produced.append((topic, value, key, more))

    def poll(self, _: float) -> None:
        self.calls.append("poll")

    def begin_transaction(self) -> None:
        self.calls.append("begin")

    def send_offsets_to_transaction(self, offsets: Sequence[Any], group: str, _: float) -> None:
        self.calls.append(("mark", *((at.topic, at.partition, at.offset, at.metadata) for at in offsets), group))

    def commit_transaction(self, _: float) -> None:
        self.calls.append("commit")

    def abort_transaction(self, _: float) -> None:
        self.calls.append("abort")

    def purge(self) -> None:
        self.calls.append("purge")


def transaction(producer: Any, given: TransactionSettings | None = None) -> KafkaTransaction:
    made = KafkaTransaction.__new__(KafkaTransaction)
    made._settings, made._name, made._topic = given or settings(), "p-q-3", "t"
    made._open, made._refused, made._said, made._fatal = False, [], [], None
    made._producer = producer
    return made


ROWS = pa.RecordBatch.from_pydict({"key": [b"k", None], "value": [b"v", b"w"]})


def test_a_request_is_repeated_until_the_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt has the rest of the time."""
    clock, waits = itertools.count(0, 30), list[float]()
    monkeypatch.setattr(transaction_client, "time", SimpleNamespace(monotonic=lambda: next(clock)))

    def call(seconds: float) -> None:
        waits.append(seconds)
        raise KafkaException(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, "loading", False, True))

    with pytest.raises(BrokerError, match="could not begin of 'p-q-3': COORDINATOR_LOAD_IN_PROGRESS"):
        transaction(Producer())._done("begin", call)
    assert waits == [90, 30]


def test_a_record_waits_for_room_in_the_queue() -> None:
    producer = Producer(BufferError(), BufferError())
    transaction(producer).write(ROWS)
    assert producer.produced == [("t", b"v", b"k", {}), ("t", b"w", None, {})]


def test_a_transaction_begins_with_its_first_record_and_is_aborted_once() -> None:
    producer = Producer()
    made = transaction(producer)
    assert producer.calls == []
    made.write(ROWS)
    made.write(ROWS)
    assert producer.calls.count("begin") == 1
    made.close()
    assert producer.calls[-2:] == ["purge", "abort"]
    unused = Producer()
    transaction(unused).close()
    assert unused.calls == [], "there is nothing to abort"


def test_a_mark_is_the_batch_plus_one_and_another_transaction_may_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is committed after the records, to the first partition of the topic of marks."""
    group = contextlib.nullcontext(SimpleNamespace(consumer_group_metadata=lambda: "group of p-q-3"))
    monkeypatch.setattr(transaction_client, "_group", lambda *_: group)
    producer = Producer()
    made = transaction(producer)
    marks = [Mark(batch, 2, 5, 7, "g") for batch in (-1, 0, 9)]
    for mark in marks:
        made.write(ROWS)
        made.commit(mark)
    made.close()
    calls = [call for call in producer.calls if call != "poll"]
    assert calls == [
        call
        for mark in marks
        for call in (
            "begin",
            ("mark", ("t", 0, mark.batch + 1, mark.metadata), "group of p-q-3"),
            "commit",
        )
    ], "nothing is left to abort"


def test_a_commit_that_fails_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Producer):
        def commit_transaction(self, _: float) -> None:
            raise KafkaException(KafkaError(KafkaError.INVALID_PRODUCER_EPOCH))

    group = contextlib.nullcontext(SimpleNamespace(consumer_group_metadata=lambda: None))
    monkeypatch.setattr(transaction_client, "_group", lambda *_: group)
    producer = Failing()
    made = transaction(producer)
    with pytest.raises(Fenced, match=r"was fenced.*The next attempt finds out whether this one was committed"):
        made.commit(Mark(0, 1))
    made.close()
    assert producer.calls[-1] == "abort"


def test_a_record_that_does_not_fit_is_named() -> None:
    failure = KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    with pytest.raises(BrokerError, match=r"topic 't', a partition that was not chosen yet, key b'k': MSG_SIZE_TOO_L"):
        transaction(Producer(failure)).write(ROWS)


@pytest.mark.parametrize(
    ("key", "shown"),
    [(None, "no key"), (b"k" * 100, f"key b'{'k' * 100}'"), (b"k" * 101, f"key b'{'k' * 100}'...")],
    ids=["none", "100", "101"],
)
def test_an_error_shows_a_hundred_bytes_of_a_key(key: bytes | None, shown: str) -> None:
    made = transaction(Producer())
    made._refuse("t", 4, key, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    assert f"topic 't', partition 4, {shown}: MSG_SIZE" in made._refused[0]


def test_the_first_refused_record_is_told() -> None:
    """The others fail because the transaction does. Errors of the transaction are not errors of a record."""
    made = transaction(Producer())
    made._refuse("t", 0, b"fenced", KafkaError(KafkaError._FENCED))
    made._refuse("t", 0, b"purged", KafkaError(KafkaError._PURGE_QUEUE))
    assert made._refused == []
    made._refuse("t", 0, b"first", KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    made._refuse("t", 0, b"second", KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    with pytest.raises(BrokerError, match=r"'first'.*nothing of it is visible") as raised:
        made._check()
    assert "second" not in str(raised.value)
    assert len(made._refused) == 1


@pytest.mark.parametrize(
    ("code", "kind", "hint"),
    [
        (KafkaError._FENCED, Fenced, "a newer attempt"),
        (KafkaError.INVALID_PRODUCER_EPOCH, Fenced, "took longer than 900000 ms"),
        (KafkaError.UNSUPPORTED_VERSION, BrokerError, "Kafka 2.5 or newer; set 'at-least-once'"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, BrokerError, r"that begin with 'p-', .* and Read for 't'"),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, BrokerError, "'transaction.max.timeout.ms'"),
        (KafkaError._TRANSPORT, BrokerError, "Check that executors reach the brokers"),
    ],
)
@pytest.mark.parametrize(
    ("what", "left"),
    [("commit a transaction", "The next attempt finds out"), ("commit a mark", "Nothing of this attempt is visible")],
)
def test_errors_say_what_to_do_and_what_was_left(
    code: int, kind: type[Exception], hint: str, what: str, left: str
) -> None:
    found = transaction(Producer())._error(what, KafkaError(code))
    assert type(found) is kind
    with pytest.raises(kind, match=rf"{hint}.*{left}"):
        raise found


def test_secrets_that_begin_with_each_other_are_in_no_error() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hush-1";'
    stores = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/k.p12", "ssl.keystore.password": "hush-1-more"}
    secured = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas} | stores
    made = transaction(Producer(), settings(**secured, **{"ssl.key.password": "hush-1-more-still"}))
    made._said = ["old hush-1", "hush-1-more", "hush-1-more", "x hush-1-more-still y"]
    error = made._failure("begin", "_TRANSPORT", "hush-1-more-still hush-1", "Do")
    assert error.reason == "_TRANSPORT: ****** ****** (******; x ****** y)"
    for word in ("hush", "more", "still"):
        assert word not in str(error)
