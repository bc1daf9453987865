"""Dead letters of batches and streams, in a topic and at a path: they keep everything of a bad record."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors.batch_progress import observed_counts
from kvformat.registry import ConfigurationError, explode_changes, get_format, split_errors, write_dead_letters
from tests.connectors.tables import upsert

pytestmark = [pytest.mark.spark, pytest.mark.services]

GOOD = [(b'{"id":%d}' % n, b'{"n":%d}' % n) for n in range(5)]
BAD = [(b'{"id":1}', b'{"n":'), (b"{", b'{"n":2}'), (None, b'{"n":3}')]


def headers(message: Any) -> dict[str, str]:
    return {name.removeprefix("__kvformat.errors."): value.decode() for name, value in message.headers()}


def run(query: Any) -> None:
    assert query.awaitTermination(120)
    assert query.exception() is None


def test_streams_separate_good_rows_and_dead_letters(spark: Any, broker: Any, tmp_path: Path) -> None:
    source = upsert(broker.bootstrap, broker.create("letters-source", 1))
    broker.send("letters-source", [*GOOD, *BAD], headers=[("trace", b"\x01")])
    target = upsert(broker.bootstrap, broker.create("letters-target", 1))
    broker.create("letters-dead", 1)
    stream = source.read_stream(spark, errors="capture")
    query = target.write_stream(
        stream,
        checkpoint_location=str(tmp_path / "c"),
        trigger={"availableNow": True},
        dead_letters="letters-dead",
    )
    run(query)
    # The progress has the counts without `observe_records`.
    counted = [counts for batch in query.recentProgress if (counts := observed_counts(batch))]
    told = [{name: n for name, n in counts[target.kv.name].items() if n} for counts in counted]
    assert told == [{"rows": 5, "bad": 3, "update_after": 5, "MALFORMED": 2, "NULL_KEY": 1}]
    assert [(m.key(), m.value()) for m in broker.records("letters-target")] == GOOD
    dead = broker.records("letters-dead")
    assert [(m.key(), m.value()) for m in dead] == BAD
    assert [headers(m)["offset"] for m in dead] == ["5", "6", "7"]
    assert [headers(m)["part"] for m in dead] == ["value", "key", "key"]
    assert [headers(m)["code"] for m in dead] == ["MALFORMED", "MALFORMED", "NULL_KEY"]
    sent = broker.records("letters-source")[5:]
    for message, first in zip(dead, sent, strict=True):
        told = headers(message)
        assert (told["topic"], told["partition"]) == ("letters-source", "0")
        assert int(told["timestamp"]) == first.timestamp()[1]
        assert told["reason"]


def test_dead_letter_headers_follow_those_of_the_record(spark: Any, broker: Any) -> None:
    bad = spark.sql(
        "SELECT X'01' AS key, X'02' AS value, array(named_struct('key', 'trace', 'value', X'ff'), named_struct('key', "
        "'none', 'value', CAST(NULL AS BINARY))) AS headers, 'r' AS reason, 7L AS offset, CAST(NULL AS STRING) AS part"
        " UNION ALL SELECT NULL, NULL, NULL, 'because', 8L, 'value'"
    )
    options = {"kafka.bootstrap.servers": broker.bootstrap}
    write_dead_letters(bad.coalesce(1), broker.create("letters-headers"), options=options)
    first, second = broker.records("letters-headers")
    ours = [("__kvformat.errors.offset", b"7"), ("__kvformat.errors.reason", b"r")]
    assert first.headers() == [("trace", b"\xff"), ("none", None), *ours]
    assert (second.key(), second.value()) == (None, None)
    assert headers(second) == {"offset": "8", "part": "value", "reason": "because"}


def test_dead_letters_of_a_format_without_a_table(spark: Any, broker: Any) -> None:
    kafka = spark.createDataFrame([(1, b'{"id":1}'), (2, b"{")], "offset BIGINT, value BINARY")
    rows = get_format("json").decode_rows("value", "id INT", errors="capture")
    _, bad = split_errors(explode_changes(kafka, rows, keep="offset"))
    write_dead_letters(bad, broker.create("letters-alone"), options={"kafka.bootstrap.servers": broker.bootstrap})
    (message,) = broker.records("letters-alone")
    assert message.value() == b"{"
    assert headers(message)["offset"] == "2"


@pytest.mark.slow
def test_rewriting_a_batch_replaces_its_folder(spark: Any, tmp_path: Path) -> None:
    def bad(*offsets: int) -> Any:
        rows = [("t", 0, offset, b"k", b"v", "r") for offset in offsets]
        return spark.createDataFrame(
            rows, "topic STRING, partition INT, offset BIGINT, key BINARY, value BINARY, reason STRING"
        )

    path = str(tmp_path / "dead")
    write_dead_letters(bad(1, 2), path, batch_id=0)
    write_dead_letters(bad(1, 2), path, batch_id=0)
    write_dead_letters(bad(3), path, batch_id=1)
    write_dead_letters(bad(), path, batch_id=2)
    assert sorted(row.offset for row in spark.read.parquet(path).collect()) == [1, 2, 3]
    assert len(list(Path(path).glob("batch=*"))) == 2
    # A restarted query without its checkpoint counts batches from 0 again.
    write_dead_letters(bad(9), path, batch_id=0)
    write_dead_letters(bad(10), path)
    assert sorted(row.offset for row in spark.read.parquet(path).collect()) == [1, 2, 3, 9, 10]


def test_write_bad_records_of_a_batch_in_one_call(
    spark: Any, broker: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = upsert(broker.bootstrap, broker.create("letters-batch", 1), **{"scan.bounded.mode": "latest-offset"})
    broker.send("letters-batch", [*GOOD, *BAD])
    target = upsert(broker.bootstrap, broker.create("letters-batch-target", 1))
    with caplog.at_level(logging.WARNING, "kvformat.progress"):
        target.write(table.read(spark, changelog=True, errors="capture"), dead_letters=tmp_path / "dead")
    told = f"table {target.kv.name}: 3 bad records went to the dead letters: MALFORMED 2, NULL_KEY 1"
    assert [record.getMessage() for record in caplog.records if record.name == "kvformat.progress"] == [told]
    assert len(broker.records("letters-batch-target")) == len(GOOD)
    rows = spark.read.parquet(str(tmp_path / "dead")).orderBy("offset").collect()
    assert [(row.key, row.value, row.topic) for row in rows] == [(key, value, "letters-batch") for key, value in BAD]
    _, bad = split_errors(table.read(spark, changelog=True, errors="capture"))
    table.write_dead_letters(bad, broker.create("letters-batch-dead"))
    assert len(broker.records("letters-batch-dead")) == len(BAD)


def test_writing_bad_records_without_a_target_is_an_error(spark: Any, broker: Any, tmp_path: Path) -> None:
    table = upsert(broker.bootstrap, broker.create("letters-refused", 1))
    captured = table.read_stream(spark, errors="capture")
    with pytest.raises(ConfigurationError, match="holds bad records too"):
        table.write_stream(captured, checkpoint_location=str(tmp_path))
    with pytest.raises(ConfigurationError, match="must not go to the topic that the table writes, 'letters-refused'"):
        table.write_stream(captured, checkpoint_location=str(tmp_path), dead_letters="letters-refused")
    with pytest.raises(ConfigurationError, match="split_errors takes the result of"):
        table.write_stream(table.read_stream(spark), checkpoint_location=str(tmp_path), dead_letters="./dead")
    with pytest.raises(ConfigurationError, match="there is no topic 'letters-nowhere'"):
        table.write_stream(captured, checkpoint_location=str(tmp_path), dead_letters="letters-nowhere")


def test_a_function_gets_the_records_and_the_number_of_the_batch(spark: Any, broker: Any, tmp_path: Path) -> None:
    source = upsert(broker.bootstrap, broker.create("letters-function", 1))
    broker.send("letters-function", [*GOOD, *BAD])
    path = str(tmp_path / "counted")

    def keep(bad: Any, batch_id: int) -> None:
        bad.selectExpr("offset", f"{batch_id} AS batch").write.mode("append").json(path)

    query = upsert(broker.bootstrap, broker.create("letters-function-target")).write_stream(
        source.read_stream(spark, errors="capture"),
        checkpoint_location=str(tmp_path / "c"),
        trigger={"availableNow": True},
        dead_letters=keep,
    )
    run(query)
    found = [json.loads(line) for part in Path(path).glob("part-*") for line in part.read_text().splitlines()]
    assert sorted(row["offset"] for row in found) == [5, 6, 7]
    assert {row["batch"] for row in found} == {0}
