"""The producer of the data source, with a client in memory, and the settings that librdkafka accepts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from kvformat.connectors import KafkaTable, brokers, record_producer
from kvformat.connectors.cli import produce
from kvformat.connectors.record_producer import ProducerSettings, write_records
from kvformat.registry import BrokerError
from kvformat.registry.contract.fork_safe import Guarded

GIVEN = {"connector": "kafka", "topic": "t", "format": "json", "properties.bootstrap.servers": "127.0.0.1:1"}
DENIED, LARGE = b"denied", b"large"
"""A value that brokers refuse later, and one that librdkafka refuses at once."""


class Producer:
    """Keeps records. `full` is how often its queue is full, `left` what a flush leaves, `said` an error of it."""

    full = left = 0
    said = ""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.records: list[tuple[Any, ...]] = []
        self.purged = False

    def produce(self, topic: str, value: bytes, key: bytes | None, **more: Any) -> None:
        if self.full:
            self.full -= 1
            raise BufferError
        if value == LARGE:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        self.records.append((topic, key, value))

    def poll(self, _: float) -> None:
        pass

    def flush(self, _: float) -> int:
        if self.said:
            self.settings["error_cb"](KafkaError(KafkaError._TRANSPORT, self.said))
        for topic, key, value in self.records:
            if value.startswith(DENIED):
                message = SimpleNamespace(topic=lambda t=topic: t, partition=lambda: 3, key=lambda k=key: k)
                self.settings["on_delivery"](KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), message)
        return self.left

    def purge(self) -> None:
        self.purged = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Producer]:
    """The clients that were made; none is kept from an earlier test."""
    clients: list[Producer] = []
    monkeypatch.setattr(record_producer, "_idle", Guarded(list))
    monkeypatch.setattr(brokers, "make_client", lambda kind, of, options: clients.append(Producer(of)) or clients[-1])
    return clients


def settings(topics: str = "t", sizes: tuple[int, ...] = (), **properties: str) -> ProducerSettings:
    options = GIVEN | {"topic": topics} | {f"properties.{name}": text for name, text in properties.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_producer, "largest_messages", lambda *_: [*sizes])
        return ProducerSettings.of(KafkaTable("id INT", options).kv)


def write(*values: bytes, key: bytes | None = b"k", **properties: str) -> int:
    batches = [pa.record_batch({"key": pa.array([key], pa.binary()), "value": [value]}) for value in values]
    return write_records(settings(**properties), iter(batches))


# --- settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "idempotent"),
    [
        ({}, True),
        ({"acks": "-1", "retries": "1", "max.in.flight.requests.per.connection": "5"}, True),
        ({"acks": "1"}, False),
        ({"acks": "0"}, False),
        ({"retries": "0"}, False),
        ({"enable.idempotence": "False"}, False),
        ({"max.in.flight.requests.per.connection": "6"}, False),
    ],
)
def test_settings_of_java_that_rule_out_idempotence_turn_it_off(
    given: dict[str, str], idempotent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java's producer then goes on without it, and librdkafka would refuse to start."""
    found: list[dict[str, Any]] = []
    make = brokers.make_client
    monkeypatch.setattr(brokers, "make_client", lambda kind, of, options: found.append(of) or make(kind, of, options))
    record_producer._Client(settings(**given))
    with produce._producing(GIVEN | {f"properties.{name}": text for name, text in given.items()}, 77):
        pass
    of_source, of_command = (one.get("enable.idempotence", "false").lower() == "true" for one in found)
    assert of_source is idempotent
    assert of_command is (idempotent or "max.in.flight.requests.per.connection" in given), "it does not take that one"


@pytest.mark.parametrize(
    ("given", "sizes", "wanted"),
    [({}, (), 1_000_000), ({}, (2000, 3000), 2000), ({"batch.size": "1500"}, (2000,), 1500)],
)
def test_a_batch_fits_the_table_and_the_smallest_topic(
    given: dict[str, str], sizes: tuple[int, ...], wanted: int
) -> None:
    assert settings(sizes=sizes, **given).producer["batch.size"] == wanted


def test_records_of_one_topic_need_no_column_for_it() -> None:
    assert (settings("t").topic, settings("t;u").topic) == ("t", None)


# --- records -----------------------------------------------------------------------------------------------------


def test_tasks_with_equal_settings_share_a_producer(made: list[Producer]) -> None:
    assert (write(b"1", b"2"), write(b"3"), write(b"4", acks="1")) == (2, 1, 1)
    assert [client.records for client in made] == [[("t", b"k", value) for value in (b"1", b"2", b"3")],
                                                   [("t", b"k", b"4")]]  # fmt: skip
    for linger in ("1", "2"):
        write(b"", **{"linger.ms": linger})
    write(b"5")
    assert len(made) == 5, "two are kept"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (DENIED, "topic 't', partition 3, key b'k': TOPIC_AUTHORIZATION_FAILED, "),
        (LARGE, "topic 't', key b'k': MSG_SIZE_TOO_LARGE, "),
    ],
)
def test_a_refused_record_is_an_error_and_its_producer_is_not_kept(
    value: bytes, told: str, made: list[Producer]
) -> None:
    with pytest.raises(BrokerError, match=r"at '127\.0\.0\.1:1': .*\. Other records of this task may be") as raised:
        write(b"1", value)
    assert str(raised.value.reason).startswith(told)
    assert write(b"2") == 1
    assert [client.purged for client in made] == [True, False]


def test_the_first_refused_record_and_a_hundred_bytes_of_its_key_are_told(made: list[Producer]) -> None:
    with pytest.raises(BrokerError, match=r"key b'x{100}':"):
        write(DENIED + b"1", DENIED + b"2", key=b"x" * 101)
    with pytest.raises(BrokerError, match=r"partition 3, no key:"):
        write(DENIED, key=None)


def test_a_full_queue_is_waited_for_until_the_delivery_is_late(
    made: list[Producer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Producer, "full", 2)
    assert write(b"1") == 1
    assert made[0].records == [("t", b"k", b"1")]
    monkeypatch.setattr(Producer, "full", 10**9)
    monkeypatch.setattr(record_producer, "_LATE", 0.01)
    with pytest.raises(BrokerError, match="the queue of records stays full"):
        write(b"1", **{"delivery.timeout.ms": "10", "linger.ms": "0"})


def test_records_that_are_not_delivered_in_time_are_an_error(
    made: list[Producer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Producer, "left", 2)
    with pytest.raises(BrokerError, match=r"2 records were not delivered in 1\.5 s"):
        write(b"1", **{"delivery.timeout.ms": "1500"})


def test_an_error_tells_what_the_connection_said_of_this_task_without_secrets(
    made: list[Producer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One secret begins with the other."""
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hunter2000";'
    secured = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    secured |= {"ssl.key.password": "hunter"}
    monkeypatch.setattr(Producer, "said", "earlier")
    assert write(b"1", **secured) == 1
    monkeypatch.setattr(Producer, "said", "refused hunter2000 and hunter")
    with pytest.raises(BrokerError, match=r"\(refused \*{6} and \*{6}\)") as raised:
        write(DENIED, **secured)
    assert len(made) == 1
    for hidden in ("hunter", "2000", "earlier"):
        assert hidden not in str(raised.value)
        assert hidden not in str(raised.value.reason)
