"""Transactions of Kafka with confluent-kafka: the brokers of `transactions.py`, and the records of Arrow batches.

    TransactionSettings.of(kv, ...)    what drivers and tasks need, checked before a job; pickled to executors
    KafkaBrokers(settings)             begins transactions and reads marks

Spark's sink uses Java's producer. The partition of a record is the same here, by the murmur2 of its key.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from kvformat.connectors import brokers
from kvformat.connectors.java_settings import milliseconds, properties
from kvformat.connectors.producer_settings import largest_messages, producer_settings
from kvformat.connectors.properties import PREFIX
from kvformat.connectors.transactions import Fenced, Mark, QueryNames
from kvformat.registry.contract.errors import BrokerError, ConfigurationError, DeliveryError, OptionError
from kvformat.registry.contract.fork_safe import cached_property
from kvformat.registry.contract.secrets import scrubbed
from kvformat.registry.sql.connector_options import masked

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient

_Answer = TypeVar("_Answer")
TIMEOUT_OPTION: Final = f"{PREFIX}transaction.timeout.ms"
_LONGEST_TRANSACTION: Final = 900_000  # milliseconds: the default of brokers' transaction.max.timeout.ms
_SHORTEST_RETENTION: Final = 86_400.0  # seconds: the default of brokers before Kafka 2.0
_DELIVERY: Final = 120_000  # milliseconds: Java's default of delivery.timeout.ms
_BLOCK: Final = 60_000  # milliseconds: Java's default of max.block.ms
_PATIENCE: Final = 0.5
"""Seconds to wait before a record is added to a full queue again."""
_CONNECTED: Final = 5
"""Seconds to wait for a connection. With one, librdkafka begins at once; without one, it tries twice a second."""
_LATE: Final = 5.0
"""Seconds after which a request that librdkafka should have ended is given up."""
_SHOWN_KEY: Final = 100  # bytes of a key in an error
_FENCED: Final = (
    "_FENCED",
    "PRODUCER_FENCED",
    "INVALID_PRODUCER_EPOCH",
    "INVALID_TXN_STATE",
    "INVALID_PRODUCER_ID_MAPPING",
)
_UNSUPPORTED: Final = ("_UNSUPPORTED_FEATURE", "UNSUPPORTED_VERSION", "UNSUPPORTED_FOR_MESSAGE_FORMAT")
_FORBIDDEN: Final = (
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TOPIC_AUTHORIZATION_FAILED",
)
_COMMIT: Final = "commit a transaction"
_REACHED: Final = "Check that executors reach the brokers"
_GUARANTEE: Final = "'sink.delivery-guarantee' = 'exactly-once'"


@dataclass(frozen=True, repr=False)
class TransactionSettings:
    """Settings with which drivers and tasks write transactions. Contains secrets, so it has no `repr` of its fields.

    options: the table's options, for `properties.*`.
    producer: librdkafka's settings of a producer.
    topics: the topics that the table writes. The first one that exists carries the marks.
    topic: the topic of records without a column `topic`.
    """

    options: Mapping[str, str]
    producer: Mapping[str, Any]
    topics: tuple[str, ...]
    topic: str | None
    prefix: str

    @classmethod
    def of(cls, options: Mapping[str, str], topics: Sequence[str], prefix: str) -> TransactionSettings:
        """Check the options of a table; raises `OptionError` for `properties.*` that can't be kept."""
        client_properties = properties(options)
        for name, allowed, why in (
            ("acks", ("all", "-1"), "a transaction needs the acknowledgement of all replicas"),
            ("enable.idempotence", ("true",), "a transaction needs an idempotent producer"),
            ("max.in.flight.requests.per.connection", tuple("12345"), "a transaction allows 5 requests at most"),
        ):
            if name in client_properties and client_properties[name].strip().lower() not in allowed:
                raise OptionError(
                    f"'{PREFIX}{name}' = '{client_properties[name]}' does not fit {_GUARANTEE}: {why}. "
                    "Remove the option",
                    option=f"{PREFIX}{name}",
                )
        timeout = milliseconds(options, "transaction.timeout.ms", _LONGEST_TRANSACTION)
        if not 1000 <= timeout < 2**31:
            raise OptionError(
                f"'{TIMEOUT_OPTION}' must be at least 1000 milliseconds, not {timeout}", option=TIMEOUT_OPTION
            )
        producer = producer_settings(options)
        delivery = milliseconds(options, "delivery.timeout.ms", _DELIVERY)
        producer |= {"transaction.timeout.ms": timeout, "delivery.timeout.ms": min(delivery, timeout)}
        settings = cls(dict(options), producer, tuple(topics), topics[0] if len(topics) == 1 else None, prefix)
        settings.client()
        return settings

    def client(self) -> dict[str, Any]:
        """Return the settings of any client of these brokers. Raises `OptionError` for settings of Java only."""
        try:
            return brokers.client_settings(self.options)
        except OptionError as cause:
            if cause.reason is None:
                raise
            raise OptionError(
                f"{cause.reason}. librdkafka, which writes the transactions of {_GUARANTEE}, does not support that. "
                "Use PEM or PKCS12 files and the mechanisms PLAIN, SCRAM or OAUTHBEARER, or set 'at-least-once', which "
                "is written by Java's client",
                option=cause.option,
                reason=cause.reason,
            ) from cause

    def shown(self) -> dict[str, str]:
        """Return the settings of the producer by name, with secrets masked."""
        named = {"transactional.id": f"{self.prefix}-<query>-<task>"}
        settings = self.client() | dict(self.producer) | named
        return {name: str(masked(name, settings[name])) for name in sorted(settings)}

    @property
    def patience(self) -> float:
        """Seconds that a request about a transaction may take, with its repetitions."""
        return max(milliseconds(self.options, "max.block.ms", _BLOCK), int(self.producer["delivery.timeout.ms"])) / 1000

    def names(self, query: str) -> QueryNames:
        """Return the names of a query's transactional ids and groups."""
        return QueryNames(self.prefix, query)

    def limited(self) -> TransactionSettings:
        """Return the settings with limits that the brokers told.

        Raises `OptionError` for a `transaction.timeout.ms` that brokers refuse, `BrokerError` if none answers.
        """
        told = broker_settings(self.options)
        most = int(told.get("transaction.max.timeout.ms", _LONGEST_TRANSACTION))
        timeout = int(self.producer["transaction.timeout.ms"])
        if TIMEOUT_OPTION in self.options and "transaction.max.timeout.ms" in told and timeout > most:
            raise OptionError(
                f"'{TIMEOUT_OPTION}' = '{timeout}' is larger than the brokers allow, "
                f"'transaction.max.timeout.ms' = {most}: set at most {most}, or change the brokers' setting",
                option=TIMEOUT_OPTION,
            )
        timeout = min(timeout, most)
        delivery = min(int(self.producer["delivery.timeout.ms"]), timeout)
        limits: dict[str, Any] = {"transaction.timeout.ms": timeout, "delivery.timeout.ms": delivery}
        sizes = largest_messages(self.options, self.topics)
        if sizes:
            limits["batch.size"] = min(int(self.producer["batch.size"]), *sizes)
        if sizes and self.producer.get("compression.type", "none") == "none":
            # So a record that is too large is refused by itself, not with its batch.
            limits["message.max.bytes"] = min(int(self.producer["message.max.bytes"]), max(sizes))
        return replace(self, producer={**self.producer, **limits})


def broker_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of one broker; empty without the permission to read them. Raises `BrokerError`."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

    client = brokers.admin(options)
    broker_ids = brokers.ask(
        client, options, "their names", lambda: client.list_topics(timeout=brokers.TIMEOUT)
    ).brokers
    with contextlib.suppress(KafkaException, TimeoutError, StopIteration):
        futures = client.describe_configs([ConfigResource(ConfigResource.Type.BROKER, str(next(iter(broker_ids))))])
        settings = next(iter(futures.values())).result(brokers.TIMEOUT)
        return {name: setting.value for name, setting in settings.items() if setting.value is not None}
    return {}


class KafkaBrokers:
    """The brokers of a table, for drivers and tasks; see `transactions.Brokers`."""

    def __init__(self, settings: TransactionSettings) -> None:
        self._settings = settings

    @cached_property
    def _admin(self) -> AdminClient:
        return brokers.admin(self._settings.options)

    def begin(self, name: str) -> KafkaTransaction:
        """Fence the older transaction with this transactional id, and begin a new one."""
        return KafkaTransaction(self._settings, name, self._topic)

    def marks(self, names: Sequence[str]) -> dict[str, Mark]:
        """Return the marks of groups that have one."""
        return {name: mark for name in names if (mark := self._mark(name)) is not None}

    def retention(self) -> float:
        """Return the seconds after which brokers delete marks; a short time if they do not tell."""
        minutes = broker_settings(self._settings.options).get("offsets.retention.minutes")
        return _SHORTEST_RETENTION if minutes is None else 60.0 * int(minutes)

    def longest(self) -> float:
        """Return the seconds after which brokers abort a transaction."""
        return int(self._settings.producer["transaction.timeout.ms"]) / 1000

    def _mark(self, name: str) -> Mark | None:
        """Return the mark of a group; a topic that was the first one earlier may have one with a smaller number.

        A consumer asks. librdkafka's client for administration ends the process if the coordinator of a group moves.
        """
        what = f"the marks of the group '{name}'"
        try:
            with _group(self._settings, name) as consumer:
                offsets = brokers.ask(consumer, self._settings.options, what, lambda: self._offsets(consumer))
        except BrokerError as cause:
            if not self._answers_uncommitted(name, cause.__cause__):
                raise
            raise BrokerError(
                f"the brokers do not tell {what}, because a transaction that wrote one has not ended. They abort it "
                f"after '{TIMEOUT_OPTION}', here {self.longest():g} s; start the query again. If that does not help, "
                "they have lost the transaction's end: Kafka's kafka-transactions.sh has find-hanging and abort for it",
                option=f"{PREFIX}bootstrap.servers",
                reason=cause.reason,
            ) from cause
        marks = [Mark.of(name, answer.offset, answer.metadata) for answer in offsets if answer.offset >= 0]
        return max(marks, key=lambda mark: mark.batch, default=None)

    def _offsets(self, consumer: Consumer) -> list[Any]:
        from confluent_kafka import KafkaException, TopicPartition

        asked = [TopicPartition(topic, 0) for topic in self._settings.topics]
        answers: list[Any] = consumer.committed(asked, timeout=brokers.TIMEOUT)
        for answer in answers:
            if answer.error is not None:
                raise KafkaException(answer.error)
        return answers

    def _answers_uncommitted(self, name: str, error: BaseException | None) -> bool:
        """Tell whether brokers that gave no answer, with this error, have one for readers of uncommitted offsets."""
        from confluent_kafka import KafkaException

        if not isinstance(error, KafkaException) or error.args[0].name() != "_TIMED_OUT":
            return False
        try:
            with _group(self._settings, name, "read_uncommitted") as consumer:
                self._offsets(consumer)
        except KafkaException:
            return False
        return True

    @cached_property
    def _topic(self) -> str:
        """The topic of the marks' offsets, which must exist."""
        client, topics = self._admin, self._settings.topics
        there = brokers.ask(
            client, self._settings.options, "their topics", lambda: client.list_topics(timeout=brokers.TIMEOUT)
        ).topics
        for name in topics:
            if name in there:
                return name
        raise ConfigurationError(
            f"there is no topic {' or '.join(map(repr, topics)) or 'to write'}: with {_GUARANTEE} it must exist before "
            "the first record. Create it",
            option="topic",
        )


class KafkaTransaction:
    """A transaction of one transactional id: records, then the mark, committed together.

    The producer begins the transaction with its first record, so that the brokers' clock starts late.
    """

    def __init__(self, settings: TransactionSettings, name: str, topic: str) -> None:
        from confluent_kafka import KafkaException, Producer

        self._settings, self._name, self._topic = settings, name, topic
        self._open = False
        self._refused: list[str] = []
        self._said: list[str] = []
        self._fatal: Any = None
        quiet = {"log_level": 0, "error_cb": lambda error: self._said.append(error.str())}
        transactional = {"transactional.id": name, "on_delivery": self._delivered, "delivery.report.only.error": True}
        client_settings = settings.client() | dict(settings.producer) | quiet | transactional
        self._producer: Producer = brokers.make_client(Producer, client_settings, settings.options)
        with contextlib.suppress(KafkaException):  # if no broker answers, `init_transactions` tells why
            for _ in range(2):  # the first answer names the broker; for a moment, its connection is then not used
                self._producer.list_topics(topic, timeout=_CONNECTED)
        self._done("begin a transaction", self._producer.init_transactions)

    def write(self, rows: pa.RecordBatch) -> None:
        """Add records: columns `key`, `value`, `headers`, `topic`, `partition` and `timestamp` (milliseconds)."""
        from confluent_kafka import KafkaException

        self._begin()
        produce, only = self._producer.produce, self._settings.topic
        if rows.schema.names == ["key", "value"] and only is not None:  # most tables; a loop without other arguments
            for key, value in zip(rows.column(0).to_pylist(), rows.column(1).to_pylist(), strict=True):
                try:
                    produce(only, value, key)
                except (BufferError, KafkaException) as cause:
                    self._produce_later(cause, only, value, key, {})
        else:
            for topic, value, key, more in records(rows, only):
                try:
                    produce(topic, value, key, **more)
                except (BufferError, KafkaException) as cause:
                    self._produce_later(cause, topic, value, key, more)
        self._poll()
        self._check()

    def _produce_later(
        self, cause: Exception, topic: str, value: bytes | None, key: bytes | None, more: Mapping[str, Any]
    ) -> None:
        """Add a record when the queue has room; raises `BrokerError` for any other exception of the first attempt."""
        from confluent_kafka import KafkaException

        while isinstance(cause, BufferError):
            self._poll(_PATIENCE)
            self._check()
            try:
                self._producer.produce(topic, value, key, **more)
            except (BufferError, KafkaException) as again:
                cause = again
            else:
                return
        if cause.args[0].name() == "_FATAL":
            self._poll(_PATIENCE)  # tells the reason
        self._check(cause)
        self._refuse(topic, more.get("partition"), key, cause.args[0])
        self._check(cause)
        raise self._error("take a record", cause.args[0]) from cause

    def commit(self, mark: Mark) -> None:
        """Commit the records and the mark, as the offset of the group of the transactional id."""
        from confluent_kafka import TopicPartition

        self._begin()
        offset = TopicPartition(self._topic, 0, mark.batch + 1, mark.metadata)
        with _group(self._settings, self._name) as consumer:
            group, send = consumer.consumer_group_metadata(), self._producer.send_offsets_to_transaction
            self._done("commit a mark", lambda timeout: _in_time(lambda: send([offset], group, timeout), timeout))
        self._done(_COMMIT, self._producer.commit_transaction)
        self._check()
        self._open = False

    def close(self) -> None:
        """Abort what is not committed; an abort that fails is left to the brokers' timeout or the next attempt."""
        from confluent_kafka import KafkaException

        with contextlib.suppress(KafkaException):
            if self._open:
                self._open = False
                self._producer.purge()
                self._producer.abort_transaction(brokers.TIMEOUT)
        del self._producer

    def _begin(self) -> None:
        if not self._open:
            self._done("begin a transaction", lambda _: self._producer.begin_transaction())
            self._open = True

    def _done(self, what: str, call: Callable[[float], _Answer]) -> _Answer:
        """Call librdkafka, again while it says so, and translate its errors."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self._settings.patience
        while True:
            try:
                return call(max(deadline - time.monotonic(), 1.0))
            except KafkaException as cause:
                self._poll()
                self._check(cause, what)
                error = cause.args[0]
                if error.retriable() and time.monotonic() < deadline:
                    continue
                raise self._error(what, error) from cause
            except TimeoutError:
                self._open = False  # its abort would wait for the request
                raise self._failure(what, "_TIMED_OUT", "librdkafka does not answer", _REACHED) from None

    def _poll(self, seconds: float = 0.0) -> None:
        """Let librdkafka call `on_delivery` and `error_cb`, and remember a fatal error, which it raises only once."""
        from confluent_kafka import KafkaException

        try:
            self._producer.poll(seconds)
        except KafkaException as cause:
            self._fatal = cause.args[0]

    def _error(self, what: str, error: Any) -> Exception:
        code, hint = error.name(), _REACHED
        if code in _FENCED:
            return Fenced(
                f"'{self._name}' was fenced ({error.str()}): a newer attempt of this task or a newer driver has begun, "
                f"or the transaction took longer than {self._settings.producer['transaction.timeout.ms']} ms "
                f"('{TIMEOUT_OPTION}'). {_left(what)}",
                reason=error.str(),
            )
        if code in _UNSUPPORTED:
            hint = f"{_GUARANTEE} needs brokers with transactions, Kafka 2.5 or newer; set 'at-least-once'"
        elif code in _FORBIDDEN:
            hint = (
                "The user needs the permissions Write and Describe for the transactional ids, and Read for the groups, "
                f"that begin with '{self._settings.prefix}-', Write for the topics, and Read for '{self._topic}'"
            )
        elif code == "INVALID_TRANSACTION_TIMEOUT":
            hint = f"Set '{TIMEOUT_OPTION}' to at most the brokers' 'transaction.max.timeout.ms'"
        return self._failure(what, code, error.str(), hint)

    def _failure(self, what: str, code: str, text: str, hint: str) -> BrokerError:
        secrets = brokers.secrets(self._settings.options)
        said = "; ".join(dict.fromkeys(self._said[-3:]))
        reason = scrubbed(f"{code}: {text}{f' ({said})' if said else ''}", secrets)
        servers = self._settings.options[f"{PREFIX}bootstrap.servers"]
        return BrokerError(
            f"the brokers at '{servers}' could not {what} of '{self._name}': {reason}. {hint}. {_left(what)}",
            option=f"{PREFIX}bootstrap.servers",
            reason=reason,
        )

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._refuse(message.topic(), message.partition(), message.key(), error)

    def _refuse(self, topic: str | None, partition: int | None, key: bytes | None, error: Any) -> None:
        """Remember the first record that was not written. The others then fail, too, because the transaction does."""
        if self._refused or error.name() in (*_FENCED, "_FATAL", "_PURGE_QUEUE", "_PURGE_INFLIGHT", "_STATE"):
            return
        at = "a partition that was not chosen yet" if partition is None or partition < 0 else f"partition {partition}"
        shown = "no key" if key is None else f"key {bytes(key[:_SHOWN_KEY])!r}"
        more = "..." if key is not None and len(key) > _SHOWN_KEY else ""
        others = " (this record, or another one of its batch)" if partition is not None else ""
        self._refused.append(f"topic '{topic}', {at}, {shown}{more}: {error.name()}, {error.str()}{others}")

    def _check(self, cause: BaseException | None = None, what: str = "take a record") -> None:
        """Raise `BrokerError` if a record was not written, `Fenced` or `BrokerError` after a fatal error."""
        if self._refused:
            raise BrokerError(
                f"a record can't be written exactly once ('{self._name}'): {self._refused[0]}. The transaction is "
                "aborted, nothing of it is visible",
                reason=self._refused[0],
            ) from cause
        if self._fatal is not None:
            raise self._error(what, self._fatal) from cause


def _left(what: str) -> str:
    """Tell what remains of an attempt that could not do `what`."""
    if what == _COMMIT:
        return "The next attempt finds out whether this one was committed"
    return "Nothing of this attempt is visible"


def _in_time(request: Callable[[], _Answer], seconds: float) -> _Answer:
    """Call librdkafka in a thread, because `send_offsets_to_transaction` may wait much longer than it is told.

    It waits for the next change of a connection if it misses the one to the group's coordinator. Raises `TimeoutError`
    when it is late; the thread then ends with the request, or with the process.
    """
    answer: Future[_Answer] = Future()

    def call() -> None:
        try:
            answer.set_result(request())
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    return answer.result(seconds + _LATE)


@contextlib.contextmanager
def _group(settings: TransactionSettings, name: str, isolation: str = "read_committed") -> Iterator[Consumer]:
    """A consumer that joins no group, but reads and names the group of a mark.

    By default it reads committed data only, whatever the table's readers do: so brokers do not answer while a mark is
    committed.
    """
    options = {**settings.options, f"{PREFIX}isolation.level": isolation}
    consumer = brokers.consumer(options, group_id=name)
    try:
        yield consumer
    finally:
        consumer.close()


def records(
    rows: pa.RecordBatch, topic: str | None
) -> Iterator[tuple[str, bytes | None, bytes | None, Mapping[str, Any]]]:
    """Yield topic, value and key of each record, and the other arguments of `Producer.produce`.

    `topic` is that of records without a column for it. Raises `DeliveryError` for a time that librdkafka can't write.
    """
    names = rows.schema.names

    def column(name: str, missing: Any = None) -> Iterable[Any]:
        return rows.column(name).to_pylist() if name in names else itertools.repeat(missing, len(rows))

    records = zip(column("topic", topic), column("value"), column("key"), strict=True)
    optional = [name for name in ("headers", "partition", "timestamp") if name in names]
    if not optional:
        nothing: dict[str, Any] = {}
        for place, value, key in records:
            yield place, value, key, nothing
        return
    for (place, value, key), values in zip(records, zip(*map(column, optional), strict=True), strict=True):
        more = {name: what for name, what in zip(optional, values, strict=True) if what is not None}
        if "headers" in more:
            more["headers"] = [(header["key"], header["value"]) for header in more["headers"]]
        if more.get("timestamp", 1) <= 0:
            raise DeliveryError(
                f"the timestamp {more['timestamp']} (milliseconds since 1970) of a record can't be written: librdkafka "
                "takes 0 for the time of writing, and brokers refuse negative ones. Set it to NULL or to at least 1"
            )
        yield place, value, key, more
