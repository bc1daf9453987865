"""Tables on a real broker: written rows are read back, in batches and streams."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors import KafkaTable, brokers, topics
from kvformat.registry.contract.errors import BrokerError, OptionError

pytestmark = [pytest.mark.spark, pytest.mark.services]

ORDERS = """CREATE TABLE orders (id INT, name STRING, place INT METADATA FROM 'partition' VIRTUAL) WITH (
    'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
    'scan.startup.mode' = 'earliest-offset', 'key.format' = 'json', 'key.fields' = 'id', 'value.format' = 'json')"""


def test_written_rows_are_read(spark: Any, broker: Any, tmp_path: Path) -> None:
    table = KafkaTable.from_ddl(ORDERS.format(topic=broker.create("written-is-read", 3), bootstrap=broker.bootstrap))
    table.write(spark.createDataFrame([(n, f"n{n}") for n in range(100)], "id INT, name STRING"))
    assert sorted((row.id, row.name) for row in table.read(spark).collect()) == [(n, f"n{n}") for n in range(100)]

    target = table.with_options({"topic": broker.create("written-by-stream", 3)})
    stream = table.read_stream(spark).drop("place")
    query = target.write_stream(stream, checkpoint_location=str(tmp_path), trigger={"availableNow": True})
    assert query.awaitTermination(120)
    assert sorted(row.id for row in target.read(spark).collect()) == list(range(100))
    assert {m.key(): m.partition() for m in broker.records("written-by-stream")} == {
        m.key(): m.partition() for m in broker.records("written-is-read")
    }


def test_missing_topics_are_reported_before_a_job_reads(
    spark: Any, broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading gives the same error as writing, also with Spark Connect."""
    broker.create("reads-orders")
    table = KafkaTable.from_ddl(ORDERS.format(topic="reads-ordesr", bootstrap=broker.bootstrap))
    for read in (table.read, table.read_stream, table.records, table.records_stream):
        with pytest.raises(OptionError, match=r"no topic 'reads-ordesr'.*Did you mean 'reads-orders'\?") as raised:
            read(spark)
        assert raised.value.option == "topic"
    several = table.with_options({"topic": "reads-orders;reads-nowhere"})
    with pytest.raises(OptionError, match="no topic 'reads-nowhere'"):
        several.read(spark)
    # A pattern may match no topic yet. A resumed query waits for its brokers, as in Spark.
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1")
    table.read_stream(spark, checkpoint_location=str(tmp_path))
    assert table.with_options({"topic": None, "topic-pattern": "no[w]here"}).read(spark).count() == 0

    monkeypatch.setattr(brokers, "TIMEOUT", 3.0)
    monkeypatch.setattr("kvformat.connectors.source.TIMEOUT", 3.0)
    dead = table.with_options({"properties.bootstrap.servers": "127.0.0.1:1"})
    for read in (dead.read, dead.read_stream):
        with pytest.raises(BrokerError, match=r"brokers at '127\.0\.0\.1:1' could not be asked for their topics"):
            read(spark)


def test_spark_checks_topics_if_the_client_is_missing(spark: Any, broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.send(broker.create("asked-of-spark"), [(b'{"id":1}', b'{"id":1}')])
    table = KafkaTable.from_ddl(ORDERS.format(topic="asked-of-spark", bootstrap=broker.bootstrap))
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    monkeypatch.setattr("kvformat.connectors.source.TIMEOUT", 3.0)
    assert table.read(spark).count() == 1
    words = r"no topic 'asked-nobody'.*UnknownTopicOrPartition.*kvformat\[kafka\]"
    with pytest.raises(OptionError, match=words) as raised:
        table.with_options({"topic": "asked-nobody"}).read(spark)
    assert raised.value.option == "topic"
    with pytest.raises(BrokerError, match=r"brokers at '127\.0\.0\.1:1'.*Timeout.*kvformat\[kafka\]"):
        table.with_options({"properties.bootstrap.servers": "127.0.0.1:1"}).read_stream(spark)


def test_brokers_that_only_spark_reaches(spark: Any, broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not an error if the client of Spark Connect cannot reach the brokers but Spark can."""
    if not type(spark).__module__.startswith("pyspark.sql.connect"):
        pytest.skip("a classic session is where Spark's driver is")
    broker.send(broker.create("far-away"), [(b'{"id":1}', b'{"id":1}')])
    table = KafkaTable.from_ddl(ORDERS.format(topic="far-away", bootstrap=broker.bootstrap))

    asked = []

    def far(*_: Any) -> Any:
        asked.append(1)
        raise BrokerError("too far away", option="properties.bootstrap.servers")

    monkeypatch.setattr(brokers, "ask", far)
    monkeypatch.setattr(topics, "_unreached", {})
    assert table.read(spark).count() == 1
    table.write(spark.createDataFrame([(2, "n")], "id INT, name STRING"))
    assert table.read(spark).count() == 2
    with pytest.raises(OptionError, match="no topic 'far-nowhere'"):
        table.with_options({"topic": "far-nowhere"}).read(spark)
    assert len(asked) == 1, "that no broker answers the client is remembered"
