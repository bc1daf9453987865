"""A stream that maintains a table: rows, deletes, bad records, repeated batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors import KafkaTable
from kvformat.registry import ConfigurationError, KeyValueFormat, current_table
from tests.connectors.tables import Maintained, change, rows, upsert

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]


def test_a_table_follows_its_topic(spark: Any, broker: Any, tmp_path: Path) -> None:
    table, kept = upsert(broker.bootstrap, broker.create("maintained", 2)), Maintained(spark, tmp_path)
    with pytest.raises(ConfigurationError, match="has no table written by maintain"):
        current_table(spark, kept.path)
    broker.send("maintained", [change(1, 1), change(2, 2), change(1, 3), change(3, None)])
    kept.update(table)
    assert rows(spark, kept.path) == [(1, 3), (2, 2)]
    broker.send("maintained", [change(2, None), change(4, 4), change(4, 5)])
    kept.update(table)
    assert rows(spark, kept.path) == [(1, 3), (4, 5)]
    before = sorted(kept.path.glob("_delta_log/*.json"))
    kept.update(table)  # without new records, nothing is written
    assert sorted(kept.path.glob("_delta_log/*.json")) == before
    for n in range(6, 10):
        broker.send("maintained", [change(4, n), change(n, n)])
        kept.update(table)
    assert rows(spark, kept.path) == [(1, 3), (4, 9), (6, 6), (7, 7), (8, 8), (9, 9)]
    broker.send("maintained", [change(key, None) for key in range(10)])
    kept.update(table)
    assert rows(spark, kept.path) == []


@pytest.mark.once  # with availableNow, Spark 4.1's Kafka source fails at the progress report of such a batch
def test_bad_records_are_kept_and_rows_continue(spark: Any, broker: Any, tmp_path: Path) -> None:
    table, kept = upsert(broker.bootstrap, broker.create("maintained-bad", 1)), Maintained(spark, tmp_path)
    broker.send("maintained-bad", [change(1, 1), (b'{"id":1}', b'{"n":'), (None, b"{}"), change(2, 2)])
    with pytest.raises(Exception, match="cannot decode"):
        kept.update(table)
    kept.update(table, dead_letters=broker.create("maintained-dead"))
    assert rows(spark, kept.path) == [(1, 1), (2, 2)]
    assert [m.value() for m in broker.records("maintained-dead")] == [b'{"n":', b"{}"]
    broker.send("maintained-bad", [(None, b"only bad")])
    kept.update(table, dead_letters=str(tmp_path / "dead"))
    assert [row.value for row in spark.read.parquet(str(tmp_path / "dead")).collect()] == [b"only bad"]


@pytest.mark.once  # with availableNow, Spark 4.1's Kafka source fails at the progress report of such a batch
def test_tolerated_errors_are_counted_in_each_batch(spark: Any, broker: Any, tmp_path: Path) -> None:
    options = {"ingestion.ignore-errors": True, "ingestion.error-tolerance.max-count": 1}
    table = upsert(broker.bootstrap, broker.create("maintained-tolerant", 1), **options)
    kept = Maintained(spark, tmp_path)
    for n in range(2):
        broker.send("maintained-tolerant", [change(n, n), (None, b"{}")])
        kept.update(table)
    assert rows(spark, kept.path) == [(0, 0), (1, 1)]
    broker.send("maintained-tolerant", [change(2, 2), (None, b"{}"), (b"{", b"{}")])
    with pytest.raises(Exception, match="more than 1 bad records in a micro-batch"):
        kept.update(table)
    kept.update(table.with_options({"ingestion.error-tolerance.max-count": 2}))
    assert rows(spark, kept.path) == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.once
def test_a_merge_function_gets_one_row_per_key(spark: Any, broker: Any, tmp_path: Path) -> None:
    table, kept = upsert(broker.bootstrap, broker.create("maintained-merge", 1)), Maintained(spark, tmp_path)
    broker.send("maintained-merge", [change(1, 1), change(2, 2), change(1, 3), change(3, 1), change(3, None)])
    path = str(tmp_path / "merged")

    def merge(changes: Any, batch_id: int) -> None:
        changes.selectExpr("*", f"{batch_id} AS batch").write.mode("append").parquet(path)

    kept.update(table, merge)
    found = spark.read.parquet(path)
    assert found.columns == ["id", "n", "row_kind", "batch"]
    assert sorted(map(tuple, found.collect())) == [(1, 3, "+U", 0), (2, 2, "+U", 0), (3, None, "-D", 0)]


@pytest.mark.once
def test_an_update_that_changes_its_key_moves_the_row(spark: Any, broker: Any, tmp_path: Path) -> None:
    options = {
        "connector": "kafka",
        "topic": broker.create("maintained-debezium", 1),
        "properties.bootstrap.servers": broker.bootstrap,
        "scan.startup.mode": "earliest-offset",
        "format": "debezium-json",
    }
    # The table also has columns with the names of the columns that order the changes.
    table = KafkaTable("id INT, `partition` STRING, `offset` INT", options, primary_key=["id"])
    broker.send(
        "maintained-debezium",
        [
            (None, b'{"before":null,"after":{"id":1,"partition":"a","offset":9},"op":"c"}'),
            (
                None,
                b'{"before":{"id":1,"partition":"a","offset":9},"after":{"id":2,"partition":"a","offset":1},"op":"u"}',
            ),
        ],
    )
    kept = Maintained(spark, tmp_path)
    kept.update(table)
    assert rows(spark, kept.path) == [(2, "a", 1)]


@pytest.mark.once  # with availableNow, Spark 4.1's Kafka source fails at the progress report of such a batch
def test_a_batch_run_again_gives_the_same(spark: Any, broker: Any, tmp_path: Path) -> None:
    """The last commit file is removed, as after a crash after the writes: Spark runs the batch again."""
    table, kept = upsert(broker.bootstrap, broker.create("maintained-again", 1)), Maintained(spark, tmp_path)
    for n in range(3):
        broker.send("maintained-again", [change(1, n), change(10 + n, n), (None, b"bad %d" % n)])
        kept.update(table, dead_letters=str(tmp_path / "dead"))
    wanted = [(1, 2), (10, 0), (11, 1), (12, 2)]
    assert rows(spark, kept.path) == wanted
    commits = tmp_path / "checkpoint" / "commits"
    for name in ("2", ".2.crc"):  # Spark writes a checksum by default
        (commits / name).unlink(missing_ok=True)
    kept.update(table, dead_letters=str(tmp_path / "dead"))
    assert rows(spark, kept.path) == wanted
    assert (commits / "2").exists()
    assert len(spark.read.parquet(str(tmp_path / "dead")).collect()) == 3


def test_added_columns_are_null_in_old_rows(spark: Any, broker: Any, tmp_path: Path) -> None:
    topic, kept = broker.create("maintained-wider", 1), Maintained(spark, tmp_path)
    broker.send(topic, [change(1, 1), change(2, 2)])
    kept.update(upsert(broker.bootstrap, topic))
    broker.send(topic, [change(2, 3, note='"new"')])
    kept.update(upsert(broker.bootstrap, topic, "id INT NOT NULL, note STRING, n BIGINT"))
    assert current_table(spark, kept.path).columns == ["id", "n", "note"]  # a new column is the last one of the table
    assert rows(spark, kept.path) == [(1, 1, None), (2, 3, "new")]


def test_a_table_of_another_query_is_not_overwritten(spark: Any, broker: Any, tmp_path: Path) -> None:
    table, kept = upsert(broker.bootstrap, broker.create("maintained-twice", 1)), Maintained(spark, tmp_path)
    for n in range(2):
        broker.send("maintained-twice", [change(n, n)])
        kept.update(table)
    kept.checkpoint += "-new"
    with pytest.raises(Exception, match="has the table of batch 1, but this is batch 0"):
        kept.update(table)
    assert rows(spark, kept.path) == [(0, 0), (1, 1)]


@pytest.mark.once
def test_invalid_arguments_are_reported_before_the_query(spark: Any, broker: Any, tmp_path: Path) -> None:
    kv = upsert(broker.bootstrap, "maintained").kv
    batch = spark.createDataFrame([], "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT")
    with pytest.raises(ConfigurationError, match="takes a stream of Kafka records"):
        kv.maintain(batch, tmp_path / "t", checkpoint_location=str(tmp_path / "c"))
    stream = spark.readStream.schema(batch.schema).parquet(str(tmp_path))
    with pytest.raises(ConfigurationError, match="has no key: give it a PRIMARY KEY"):
        KeyValueFormat("id INT", {"format": "json"}).maintain(stream, tmp_path / "t", checkpoint_location="c")
    with pytest.raises(ConfigurationError, match="'offset'"):
        kv.maintain(stream.drop("offset"), tmp_path / "t", checkpoint_location="c")
    table = upsert(broker.bootstrap, broker.create("maintained-nowhere"))
    with pytest.raises(ConfigurationError, match="there is no topic 'maintained-lost'"):
        table.maintain(spark, tmp_path / "t", checkpoint_location="c", dead_letters="maintained-lost")
    with pytest.raises(ConfigurationError, match="cannot go to the topic that is read, 'maintained'"):
        kv.maintain(stream, tmp_path / "t", checkpoint_location="c", dead_letters="maintained")
