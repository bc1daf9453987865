"""Replaying dead letters, and the listener that logs query progress, on a real broker."""

from __future__ import annotations

import logging
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors import KafkaTable, Replayed, log_progress
from kvformat.registry import ConfigurationError, observe_records
from tests.connectors.tables import upsert

pytestmark = [pytest.mark.spark, pytest.mark.services]

GOOD = [(b'{"id":%d}' % n, b'{"n":%d}' % n) for n in range(4)]
MENDED = [(b'{"id":10}', b'{"n":1}x'), (b'{"id":11}', b'{"n":2}x')]
"""Not valid JSON, because text follows the object. A table with a raw text value reads it."""
BAD = [(b"{", b'{"n":3}')]


def _tables(broker: Any, name: str) -> tuple[KafkaTable, KafkaTable, KafkaTable]:
    """Create topics, and return the table with bad records, its corrected copy, and a target for the corrected rows."""
    source = upsert(broker.bootstrap, broker.create(name, 1))
    broker.create(f"{name}-target", 1)
    given = {"value.format": "raw", "key.fields": "id", "connector": "kafka", "scan.startup.mode": "earliest-offset"}
    common = {"properties.bootstrap.servers": broker.bootstrap, "key.format": "json"} | given
    common["value.fields-include"] = "EXCEPT_KEY"
    mended = KafkaTable("id INT, n STRING", common | {"topic": name})
    return source, mended, mended.with_options({"topic": f"{name}-target"})


def _letters(source: KafkaTable, spark: Any, to: Any) -> None:
    """Write the bad records of a table as dead letters."""
    from kvformat.registry import split_errors

    changes = source.read(spark, changelog=True, errors="capture")
    source.write_dead_letters(split_errors(changes)[1], to, batch_id=0)


def _offsets(spark: Any, path: Path) -> list[int]:
    return sorted(row.offset for row in spark.read.parquet(str(path)).collect())


def test_replayed_letters_are_removed_from_a_path(spark: Any, broker: Any, tmp_path: Path) -> None:
    source, mended, target = _tables(broker, "replay-path")
    broker.send("replay-path", [*GOOD, *MENDED, *BAD], headers=[("trace", b"\x01")])
    dead = tmp_path / "dead"
    assert mended.replay(spark, dead, target) == Replayed(0, 0), "no record has been bad so far"
    _letters(source, spark, dead)
    assert _offsets(spark, dead) == [4, 5, 6]
    assert source.replay(spark, dead, target) == Replayed(3, 3), "nothing is mended yet, and all of them stay"
    assert _offsets(spark, dead) == [4, 5, 6]
    assert broker.records("replay-path-target") == []

    assert mended.replay(spark, dead, target) == Replayed(3, 1)
    assert [(m.key(), m.value()) for m in broker.records("replay-path-target")] == MENDED
    assert _offsets(spark, dead) == [6]
    (letter,) = spark.read.parquet(str(dead)).collect()
    assert (letter.key, letter.value, letter.topic, letter.code) == (*BAD[0], "replay-path", "MALFORMED")
    assert [(header.key, bytes(header.value)) for header in letter.headers] == [("trace", b"\x01")]
    # A second call reads the remaining letters, and writes no row twice.
    assert mended.replay(spark, str(dead), target) == Replayed(1, 1)
    assert len(broker.records("replay-path-target")) == 2
    assert _offsets(spark, dead) == [6]


@pytest.mark.slow
def test_failed_replays_lose_no_letter(spark: Any, broker: Any, tmp_path: Path) -> None:
    source, mended, _ = _tables(broker, "replay-fails")
    broker.send("replay-fails", [*GOOD, *MENDED, *BAD])
    dead, written = tmp_path / "dead", tmp_path / "rows"
    _letters(source, spark, dead)

    def fails(rows: Any, batch_id: int) -> None:
        assert batch_id == -1
        raise RuntimeError("the lake is away")

    with pytest.raises(RuntimeError, match="the lake is away"):
        mended.replay(spark, dead, fails)
    assert sorted(set(_offsets(spark, dead))) == [4, 5, 6], "what was bad may be there twice, none is missing"

    def keeps(rows: Any, batch_id: int) -> None:
        rows.write.mode("append").json(str(written))

    mended.replay(spark, dead, keeps, metadata=["offset"])
    found = spark.read.json(str(written)).collect()
    assert sorted((row.id, row.n, row.offset) for row in found) == [(10, '{"n":1}x', 4), (11, '{"n":2}x', 5)]
    assert _offsets(spark, dead) == [6]


@pytest.mark.slow
def test_letters_of_a_topic_are_replayed_once(spark: Any, broker: Any, tmp_path: Path) -> None:
    source, mended, target = _tables(broker, "replay-topic")
    broker.send("replay-topic", [*GOOD, *MENDED, *BAD], headers=[("trace", b"\x01")])
    dead = broker.create("replay-topic-dead", 1)
    _letters(source, spark, dead)
    first = broker.records(dead)
    assert len(first) == 3
    given = {"checkpoint_location": str(tmp_path / "checkpoint")}
    assert mended.replay(spark, dead, target, **given) == Replayed(3, 1)
    assert [(m.key(), m.value()) for m in broker.records("replay-topic-target")] == MENDED
    *_, again = broker.records(dead)
    assert len(broker.records(dead)) == 4
    assert (again.key(), again.value()) == BAD[0]
    assert again.headers() == first[2].headers(), "it still says where the record was, and has the record's own headers"
    assert mended.replay(spark, dead, target, **given) == Replayed(1, 1), "only what was bad, and is"
    assert mended.replay(spark, dead, target, **given) == Replayed(1, 1)
    assert len(broker.records("replay-topic-target")) == 2


def test_errors_for_invalid_replays(spark: Any, broker: Any, tmp_path: Path) -> None:
    _, mended, target = _tables(broker, "replay-refused")
    with pytest.raises(ConfigurationError, match=r"the topic 'letters' needs checkpoint_location.*write './letters'"):
        mended.replay(spark, "letters", target)
    with pytest.raises(ConfigurationError, match=r"no topic 'replay-refusd'.*Did you mean 'replay-refused'"):
        mended.replay(spark, "replay-refusd", target, checkpoint_location=str(tmp_path / "c"))
    with pytest.raises(ConfigurationError, match=r"must be a KafkaTable, or a function.*not str"):
        mended.replay(spark, "./dead", "target")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="must be a topic or a path, not 7"):
        mended.replay(spark, 7, target)  # type: ignore[arg-type]
    spark.range(1).write.parquet(str(tmp_path / "others"))
    with pytest.raises(ConfigurationError, match=r"outside of folders batch=\.\.\."):
        mended.replay(spark, tmp_path / "others", target)


def test_query_progress_is_logged(spark: Any, broker: Any, tmp_path: Path) -> None:
    source = upsert(broker.bootstrap, broker.create("logged", 1))
    broker.send("logged", [*GOOD, *BAD])
    lines: list[tuple[int, str]] = []
    ended = threading.Event()

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append((record.levelno, record.getMessage()))
            if ": ended" in record.getMessage():
                ended.set()

    logger = logging.getLogger("kvformat.tests.progress")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler := Kept())
    listener = log_progress(spark, logger=logger)
    try:
        counted = observe_records(
            source.read_stream(spark, errors="capture", spark_options={"maxOffsetsPerTrigger": 3}), "orders"
        )
        query = (
            counted.writeStream.format("noop")
            .queryName("logged")
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert ended.wait(60)
    finally:
        spark.streams.removeListener(listener)
        logger.removeHandler(handler)
    batches = [(level, text) for level, text in lines if ", batch " in text]
    assert lines[0] == (logging.INFO, "query logged: started")
    assert [level for level, _ in batches[:2]] == [logging.INFO, logging.WARNING]
    assert "query logged, batch 0: 3 records in " in batches[0][1]
    assert re.search(
        r"lag 2 records \(logged-0 2\), the oldest waits [\d.]+ s; orders: rows 3, bad 0, update_after 3", batches[0][1]
    )
    assert "lag 0 records; orders: rows 1, bad 1, update_after 1, MALFORMED 1" in batches[1][1]
