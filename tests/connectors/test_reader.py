"""Ranges of partitions as Arrow batches from a real broker, by the compiled loop and by Message objects."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition

from kvformat.connectors.reader import clients, direct_client, librdkafka, message_client
from kvformat.connectors.reader.client_settings import ReaderSettings, reader_settings
from kvformat.connectors.reader.fetched import LayoutError
from kvformat.connectors.reader.ranges import PartitionRange
from kvformat.connectors.reader.read import read_range
from kvformat.connectors.reader.records import KAFKA_FIELDS
from kvformat.registry.contract.errors import ConfigurationError, DataLossError, OptionError, ReadError
from kvformat.registry.key_value_format import KeyValueFormat
from tests.support import c_producer, services

pytestmark = [pytest.mark.services]
ROOT = Path(__file__).parents[2]
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@pytest.fixture(params=["compiled", "messages"])
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Read by one of the loops only."""
    clients.close_all()
    if request.param == "messages":
        monkeypatch.setattr(clients, "librdkafka", lambda: "taken away")
    else:
        assert isinstance(librdkafka.librdkafka(), librdkafka.Librdkafka)
        monkeypatch.setattr(clients, "MessageClient", None)
    yield request.param
    clients.close_all()


def table(bootstrap: str, **properties: str) -> KeyValueFormat:
    given = {"connector": "kafka", "topic": "t", "format": "raw", "properties.bootstrap.servers": bootstrap}
    given |= {f"properties.{name.replace('_', '.')}": text for name, text in properties.items()}
    return KeyValueFormat("v BYTES", given | {"scan.startup.mode": "earliest-offset"}).planned()


def settings(broker: Any, **properties: str) -> ReaderSettings:
    return reader_settings(table(broker.bootstrap, **properties))


def read(found: ReaderSettings, at: PartitionRange, fields: Any = tuple(KAFKA_FIELDS.names), **more: Any) -> pa.Table:
    schema = pa.schema([KAFKA_FIELDS.field(name) for name in fields])
    result = pa.Table.from_batches(read_range(found, at, fields, **more), schema)
    result.validate(full=True)
    return result


def offsets(found: ReaderSettings, topic: str, start: int, end: int, **more: Any) -> list[int]:
    numbers: list[int] = read(found, PartitionRange(topic, 0, start, end), ["offset"], **more)["offset"].to_pylist()
    return numbers


# --- what a record has -------------------------------------------------------------------------------------


def test_keys_and_values_of_all_kinds(broker: Any, loop: str) -> None:
    topic = broker.create(f"reader-kinds-{loop}")
    records = [(b"k", b"v"), (None, b""), (b"", None), (None, None), (b"\xff\0", b"x" * 100_000), (b"k", b"\0")]
    broker.send(topic, records)
    found = read(settings(broker), PartitionRange(topic, 0, 0, len(records))).to_pydict()
    assert list(zip(found["key"], found["value"], strict=True)) == records
    assert found["offset"] == list(range(len(records)))
    assert found["topic"] == [topic] * len(records)
    assert found["partition"] == [0] * len(records)
    assert found["leaderEpoch"] == [0] * len(records)
    assert found["headers"] == [None] * len(records)


def test_headers_of_all_shapes(broker: Any, loop: str) -> None:
    topic = broker.create(f"reader-headers-{loop}")
    shapes: list[list[tuple[str, bytes | None]]] = [
        [("a", b"1")],
        [],
        [("a", b"1"), ("b", None), ("a", b""), ("a", b"2")],
        [("", b"\xff\0")],
        [("ä€𝄞", b"x" * 1000)] * 50,
    ]
    for headers in shapes:
        broker.send(topic, [(None, b"v")], headers=headers)
    found = read(settings(broker), PartitionRange(topic, 0, 0, len(shapes)), ["headers"])["headers"].to_pylist()
    wanted = [[{"key": key, "value": value} for key, value in headers] or None for headers in shapes]
    assert found == wanted


@pytest.mark.parametrize("loop", ["compiled"], indirect=True)  # confluent-kafka's Message.headers crashes
def test_keys_of_headers_that_are_not_utf8_are_decoded_as_in_java(broker: Any, loop: str) -> None:
    topic = broker.create("reader-names")
    c_producer.send(broker.bootstrap, topic, b"v", [(b"\xff\xfe", b"1"), (b"a\xc3", None), (b"\xed\xa0\x80", b"2")])
    (found,) = read(settings(broker), PartitionRange(topic, 0, 0, 1), ["headers"])["headers"].to_pylist()
    assert [(one["key"], one["value"]) for one in found] == [
        ("\ufffd\ufffd", b"1"),
        ("a\ufffd", None),
        ("\ufffd", b"2"),
    ]


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_timestamps_have_the_type_of_the_topic(broker: Any, loop: str, kind: str) -> None:
    topic = broker.create(
        f"reader-{kind}-{loop}", message_timestamp_type=kind, message_timestamp_after_max_ms=str(2**62)
    )
    times = [1, 1_700_000_000_123, 4_102_444_800_999]
    before = time.time()
    for millis in times:
        broker.send(topic, [(None, b"v")], timestamp=millis)
    found = read(settings(broker), PartitionRange(topic, 0, 0, 3), ["timestamp", "timestampType"]).to_pydict()
    assert found["timestampType"] == [0 if kind == "CreateTime" else 1] * 3
    if kind == "CreateTime":
        assert [(found_time - EPOCH) // dt.timedelta(milliseconds=1) for found_time in found["timestamp"]] == times
    else:
        assert all(before - 1 <= found_time.timestamp() <= time.time() + 1 for found_time in found["timestamp"])


def test_times_after_the_last_one_of_arrow_become_the_last_one(broker: Any, loop: str) -> None:
    topic = broker.create(f"reader-late-{loop}", message_timestamp_after_max_ms=str(2**63 - 1))
    for millis in (9_223_372_036_854_775, 9_223_372_036_854_776, 2**62):
        broker.send(topic, [(None, b"v")], timestamp=millis)
    found = read(settings(broker), PartitionRange(topic, 0, 0, 3), ["timestamp"])["timestamp"].cast(pa.int64())
    assert found.to_pylist() == [9_223_372_036_854_775_000] * 3


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_all_compressions(broker: Any, loop: str, codec: str) -> None:
    topic = broker.create(f"reader-{codec}-{loop}")
    values = [b"%d " % n * 20 for n in range(3000)]
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 50})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0
    found = read(settings(broker), PartitionRange(topic, 0, 17, 2900), ["value"])
    assert found["value"].to_pylist() == values[17:2900]


# --- which records -----------------------------------------------------------------------------------------


def test_only_the_range_and_the_columns_that_are_asked_for(broker: Any, loop: str) -> None:
    topic = broker.create(f"reader-part-{loop}")
    broker.send(topic, [(None, str(n).encode()) for n in range(25_000)])
    found = read(settings(broker), PartitionRange(topic, 0, 1234, 24_321), ["offset", "value"])
    assert found.column_names == ["offset", "value"]
    assert found["value"].to_pylist() == [str(n).encode() for n in range(1234, 24_321)]
    assert offsets(settings(broker), topic, 7, 7) == []
    assert offsets(settings(broker), topic, 9, 3) == []
    assert sum(map(len, read_range(settings(broker), PartitionRange(topic, 0, 3, 10), []))) == 7
    with pytest.raises(ConfigurationError, match="a Kafka record has no column 'Offset', only headers, key"):
        read_range(settings(broker), PartitionRange(topic, 0, 3, 10), ["Offset"]).__next__()


def transact(broker: Any, topic: str, name: str, *, commit: bool, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    producer.commit_transaction(30) if commit else producer.abort_transaction(30)


def test_aborted_transactions_and_control_records_do_not_delay_the_end(broker: Any, loop: str) -> None:
    """The offsets: a 0, b 1, a marker 2, c 3, d 4, a marker 5, e 6, a marker 7, f 8."""
    topic = broker.create(f"reader-transactions-{loop}")
    for number, (commit, values) in enumerate([(True, [b"a", b"b"]), (False, [b"c", b"d"]), (True, [b"e"])]):
        transact(broker, topic, f"{topic}-{number}", commit=commit, values=values)
    broker.send(topic, [(None, b"f")])
    committed, all_records = settings(broker, isolation_level="read_committed"), settings(broker)
    cases = 0
    for start in range(9):
        for end in range(start, 10):
            begun = time.monotonic()
            wanted = [at for at in (0, 1, 3, 4, 6, 8) if start <= at < end]
            assert offsets(all_records, topic, start, end) == wanted
            assert offsets(committed, topic, start, end) == [at for at in wanted if at not in (3, 4)]
            assert time.monotonic() - begun < 5
            cases += 1
    assert cases == 54


def test_gaps_of_compaction_do_not_delay_the_end(broker: Any, loop: str) -> None:
    quick = {"cleanup_policy": "compact", "segment_ms": "1000", "min_cleanable_dirty_ratio": "0.01"}
    topic = broker.create(f"reader-compact-{loop}", **quick, max_compaction_lag_ms="1000", delete_retention_ms="100")
    broker.send(topic, [(b"same", str(n).encode()) for n in range(50)])
    deadline = time.monotonic() + 60
    while offsets(settings(broker), topic, 0, 50) != [49]:
        assert time.monotonic() < deadline, "nothing was compacted"
        time.sleep(1.1)
        broker.send(topic, [(b"other", b"")])  # the last segment is never compacted
    begun = time.monotonic()
    for start, end in ((0, 50), (10, 49), (48, 49), (0, 1)):
        assert offsets(settings(broker), topic, start, end) == [49] * (end == 50)
    assert time.monotonic() - begun < 5


# --- sizes -------------------------------------------------------------------------------------------------


def test_a_record_of_20_mb_passes(broker: Any, loop: str) -> None:
    topic = broker.create(f"reader-large-{loop}", max_message_bytes=str(30 << 20))
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 30 << 20})
    large = bytes(range(256)) * (20 << 12)
    for value in (b"small", large, b"last"):
        producer.produce(topic, value)
        assert producer.flush(60) == 0
    found = read(settings(broker), PartitionRange(topic, 0, 0, 3), ["value"])
    assert found["value"].to_pylist() == [b"small", large, b"last"]


def test_bytes_limit_a_batch(broker: Any, loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if loop == "messages":
        pytest.skip("a thousand messages and the size of what is fetched ahead limit a batch")
    monkeypatch.setattr(direct_client, "_MOST_BYTES", 1000)
    topic = broker.create(f"reader-limit-{loop}")
    values = [b"x" * size for size in (10, 985, 1, 2, 3, 5000, 1, 999, 0, 1000)]
    broker.send(topic, [(b"k", value) for value in values], headers=[("h", b"v")])
    time.sleep(1)  # so that one response has all
    fields = ["key", "value", "headers"]
    batches = list(read_range(settings(broker), PartitionRange(topic, 0, 0, len(values)), fields))
    assert [value for batch in batches for value in batch.column("value").to_pylist()] == values
    sizes = [sum(len(value) + 3 for value in batch.column("value").to_pylist()) for batch in batches]
    assert all(size <= 1003 or len(batch) == 1 for size, batch in zip(sizes, batches, strict=True)), sizes
    assert len(batches) >= 5


# --- faults ------------------------------------------------------------------------------------------------


def delete_before(broker: Any, topic: str, offset: int) -> None:
    admin = broker.admin()  # its futures must finish before it is closed
    admin.delete_records([TopicPartition(topic, 0, offset)])[TopicPartition(topic, 0)].result(30)


def test_deleted_records_are_lost_or_skipped(broker: Any, loop: str) -> None:
    topic = broker.create(f"reader-deleted-{loop}")
    broker.send(topic, [(None, b"v")] * 10)
    delete_before(broker, topic, 6)
    with pytest.raises(
        DataLossError, match=rf"cannot read {topic}-0, offsets 2 to 9: .*has offsets 6 to 10\."
    ) as raised:
        offsets(settings(broker), topic, 2, 9)
    error = raised.value
    assert (error.topic, error.partition, error.start, error.end, error.offset) == (topic, 0, 2, 9, 2)
    for start, end, wanted in ((2, 9, [6, 7, 8]), (0, 6, []), (0, 3, []), (5, 7, [6])):
        lost: list[DataLossError] = []
        assert offsets(settings(broker), topic, start, end, on_loss=lost.append) == wanted
        assert [one.offset for one in lost] == [start]
    assert offsets(settings(broker), topic, 6, 10) == [6, 7, 8, 9]


def test_a_start_after_the_end_of_the_partition_is_lost(broker: Any, loop: str) -> None:
    """A topic that was created again is shorter."""
    topic = broker.create(f"reader-shorter-{loop}")
    broker.send(topic, [(None, b"v")] * 3)
    with pytest.raises(DataLossError, match=r"offsets 5 to 9: .*has offsets 0 to 3\."):
        offsets(settings(broker), topic, 5, 9)
    lost: list[DataLossError] = []
    assert offsets(settings(broker), topic, 5, 9, on_loss=lost.append) == []
    assert len(lost) == 1


def test_a_topic_that_is_not_there_is_lost(broker: Any, loop: str) -> None:
    begun = time.monotonic()
    with pytest.raises(DataLossError, match=f"cannot read reader-nowhere-{loop}-0, offsets 0 to 9: .*[Uu]nknown topic"):
        offsets(settings(broker), f"reader-nowhere-{loop}", 0, 9)
    assert time.monotonic() - begun < 30
    lost: list[DataLossError] = []
    assert offsets(settings(broker), f"reader-nowhere-{loop}", 0, 9, on_loss=lost.append) == []
    assert len(lost) == 1


def test_an_end_that_does_not_come_is_an_error_after_the_wait(broker: Any, loop: str) -> None:
    topic = broker.create(f"reader-end-{loop}")
    broker.send(topic, [(None, b"v")] * 3)
    begun = time.monotonic()
    with pytest.raises(
        ReadError, match=rf"{topic}-0, offsets 1 to 9, of which those before 3 were read: no record .*1\.5 s"
    ) as raised:
        offsets(settings(broker, default_api_timeout_ms="1500"), topic, 1, 9)
    assert 1.4 < time.monotonic() - begun < 10
    assert not isinstance(raised.value, DataLossError)
    assert raised.value.offset == 3


def test_a_slow_caller_is_not_a_slow_broker(broker: Any, loop: str) -> None:
    topic = broker.create(f"reader-slow-{loop}")
    broker.send(topic, [(None, b"x" * 1000) for _ in range(30_000)])
    reading = read_range(
        settings(broker, default_api_timeout_ms="500"), PartitionRange(topic, 0, 0, 30_000), ["offset"]
    )
    total = 0
    for number, batch in enumerate(reading):
        total += len(batch)
        time.sleep(0.7 if number < 3 else 0)
    assert total == 30_000


def test_brokers_that_are_down_for_a_while(tmp_path: Path, loop: str) -> None:
    broker = services.KafkaBroker(tmp_path)
    broker.start()
    topic = broker.create("reader-down")
    broker.send(topic, [(None, b"x" * 1000) for _ in range(40_000)])
    reading = read_range(settings(broker), PartitionRange(topic, 0, 0, 40_000), ["offset"])
    total = len(next(reading))
    broker.kill()
    with pytest.raises(
        ReadError, match=r"reader-down-0, offsets 5 to 9: no record arrived for 2 s \(.*\)\. Check that"
    ):
        offsets(settings(broker, default_api_timeout_ms="2000"), topic, 5, 9)
    broker.start()
    assert total + sum(map(len, reading)) == 40_000
    broker.kill()


def test_a_kept_consumer_sees_new_partitions_and_topics_that_are_created_again(broker: Any, loop: str) -> None:
    topic = broker.create(f"reader-again-{loop}")
    broker.send(topic, [(None, b"old")] * 5)
    kept = settings(broker)
    assert offsets(kept, topic, 0, 5) == [0, 1, 2, 3, 4]
    broker.add_partitions(topic, 2)
    broker.send(topic, [(None, b"new")] * 3, partition=1)
    assert read(kept, PartitionRange(topic, 1, 0, 3), ["value"])["value"].to_pylist() == [b"new"] * 3
    broker.delete(topic)
    with pytest.raises(DataLossError):
        offsets(kept, topic, 0, 5)
    broker.create(topic)
    broker.send(topic, [(None, b"again")] * 7)
    assert read(kept, PartitionRange(topic, 0, 0, 7), ["value"])["value"].to_pylist() == [b"again"] * 7
    broker.delete(topic)
    broker.create(topic)
    broker.send(topic, [(None, b"last")] * 9)
    assert read(kept, PartitionRange(topic, 0, 0, 9), ["value"])["value"].to_pylist() == [b"last"] * 9


def test_a_kept_consumer_asks_once_for_each_partition(broker: Any, loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself, librdkafka asks when it connects, and otherwise once a second."""
    topics = [broker.create(f"reader-asks-{number}-{loop}", 2) for number in range(2)]
    for topic in topics:
        for partition in range(2):
            broker.send(topic, [(None, b"v")], partition=partition)
    asked: list[str] = []
    kind: Any = {"compiled": direct_client.DirectClient, "messages": message_client.MessageClient}[loop]
    look_up = kind._look_up
    monkeypatch.setattr(kind, "_look_up", lambda client: (asked.append(reading), look_up(client)))
    kept = settings(broker)
    for _ in range(2):
        for topic in topics:
            for partition in range(2):
                reading = f"{topic} {partition}"
                assert read(kept, PartitionRange(topic, partition, 0, 1), ["value"])["value"].to_pylist() == [b"v"]
    assert asked == [f"{topics[0]} 1", *(f"{topics[1]} {partition}" for partition in range(2))]


def test_passwords_are_used_and_not_shown(broker: Any, loop: str) -> None:
    topic = broker.create(f"reader-secured-{loop}")
    broker.send(topic, [(None, b"v")] * 3)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"

    def secured(password: str) -> ReaderSettings:
        given = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "bootstrap_servers": broker.secured}
        jaas = f'{module} required username="{broker.user}" password="{password}";'
        return settings(broker, **given, sasl_jaas_config=jaas, default_api_timeout_ms="3000")

    assert offsets(secured(broker.password), topic, 0, 3) == [0, 1, 2]
    with pytest.raises(ReadError, match=r"no record arrived for 3 s \(.*[Aa]uthentication failed") as raised:
        offsets(secured("wr0ng-one"), topic, 0, 3)
    assert "wr0ng-one" not in f"{raised.value} {raised.value.__cause__} {raised.value.reason}"


# --- consumers of a process --------------------------------------------------------------------------------


def test_a_consumer_is_kept_for_the_next_range(broker: Any, loop: str) -> None:
    topic = broker.create(f"reader-kept-{loop}")
    broker.send(topic, [(None, b"v")] * 5)
    made = []
    real = clients._new
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clients, "_new", lambda found: made.append(real(found)) or made[-1])
        for _ in range(3):
            assert offsets(settings(broker), topic, 0, 5) == [0, 1, 2, 3, 4]
        assert len(made) == 1
        first = next(read_range(settings(broker), PartitionRange(topic, 0, 0, 5), ["offset"]))  # ends early
        assert offsets(settings(broker), topic, 1, 3) == [1, 2]
        assert len(made) == 1
        assert len(first) > 0
        with pytest.raises(ReadError):
            offsets(settings(broker, default_api_timeout_ms="600"), topic, 0, 9)
        assert offsets(settings(broker, default_api_timeout_ms="600"), topic, 0, 5) == [0, 1, 2, 3, 4]
        assert len(made) == 3, "a consumer is closed after an error"
        at = PartitionRange(topic, 0, 0, 5)
        both = [read_range(settings(broker), at, ["offset"]) for _ in range(2)]
        assert [len(next(one)) for one in both] == [5, 5]
        assert len(made) == 4, "two ranges at the same time have two consumers"
        for one in both:
            one.close()
        for group in "abcdef":
            assert len(offsets(settings(broker, group_id=group), topic, 0, 5)) == 5
    with clients._idle.use() as idle:
        assert len(idle) == clients._MOST_KEPT


@pytest.mark.parametrize("ending", ["exit", "exec"])
def test_a_forked_child_reads_with_consumers_of_its_own(broker: Any, loop: str, ending: str) -> None:
    """Also if the parent is in the middle of a range. Neither process hangs at its end."""
    topic = broker.create(f"reader-fork-{loop}-{ending}")
    broker.send(topic, [(None, b"x" * 1000) for _ in range(20_000)])
    code = f"""
        import os, sys
        from kvformat.connectors.reader import clients
        from kvformat.connectors.reader.client_settings import ReaderSettings
        from kvformat.connectors.reader.ranges import PartitionRange
        from kvformat.connectors.reader.read import read_range
        if {loop!r} == "messages":
            clients.librdkafka = lambda: "taken away"
        settings = ReaderSettings((("properties.bootstrap.servers", {broker.bootstrap!r}),), 30_000)
        at = PartitionRange({topic!r}, 0, 0, 20_000)
        def count():
            return sum(map(len, read_range(settings, at, ["value"])))
        assert count() == 20_000
        reading = read_range(settings, at, ["value"])
        total = len(next(reading))
        child = os.fork()
        if child == 0:
            assert count() == 20_000
            reading.close()
            if {ending!r} == "exit":
                sys.exit(7)
            os._exit(7)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7, status
        assert total + sum(map(len, reading)) == 20_000
        assert count() == 20_000
        print("read")
    """
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert (run.returncode, run.stdout) == (0, "read\n"), run.stderr


# --- which loop --------------------------------------------------------------------------------------------


def test_messages_are_read_where_the_loop_can_not_run(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = broker.create("reader-fallback")
    broker.send(topic, [(None, b"v")] * 5)
    find = librdkafka.librdkafka.__wrapped__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kvformat.codecs._kernel.COMPILED", False)
        assert find().startswith("the kernel is not compiled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(librdkafka.ctypes, "CDLL", lambda _: object())
        assert "does not give librdkafka's functions" in find()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(librdkafka, "_NEWEST", 0x02010001)
        assert find().startswith("librdkafka has version 2.")
        clients.close_all()
        monkeypatch.setattr(clients, "librdkafka", find)
        assert offsets(settings(broker), topic, 0, 5) == [0, 1, 2, 3, 4]
        with clients._idle.use() as idle:
            assert [type(one.client).__name__ for one in idle] == ["MessageClient"]
    clients.close_all()


def test_messages_are_read_if_their_structure_is_another_one(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = broker.create("reader-layout", 2)
    broker.send(topic, [(None, b"v")] * 5, partition=1)
    clients.close_all()
    faults: list[str] = []
    monkeypatch.setattr(clients, "_layout_faults", faults)
    real = direct_client.KafkaRecords

    class Wrong:
        def __init__(self, *arguments: Any) -> None:
            self._records = real(*arguments)

        def peek(self) -> Any:
            error, topic, _, offset = self._records.peek()
            return error, topic, 0, offset

        def __getattr__(self, name: str) -> Any:
            return getattr(self._records, name)

    monkeypatch.setattr(direct_client, "KafkaRecords", Wrong)
    found = read(settings(broker), PartitionRange(topic, 1, 0, 5), ["offset"])
    assert found["offset"].to_pylist() == [0, 1, 2, 3, 4]
    assert len(faults) == 1
    assert f"a record of {topic}-1, offsets 0 to 5 has partition 0 and offset 0" in faults[0]
    with clients._idle.use() as idle:
        assert [type(one.client).__name__ for one in idle] == ["MessageClient"]
    clients.close_all()


def test_a_setting_that_librdkafka_refuses_is_named(broker: Any, loop: str) -> None:
    wrong = settings(broker, fetch_max_wait_ms="soon")
    with pytest.raises(OptionError, match=r"can't be configured by 'properties\.\*': .*fetch\.wait\.max\.ms"):
        offsets(wrong, "t", 0, 1)
    assert issubclass(LayoutError, RuntimeError)
