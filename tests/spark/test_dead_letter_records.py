"""Records of dead letters and back, without a broker: what the letters of a topic say about their records."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pyspark.sql import functions as F

from kvformat.registry.streams.dead_letters import HEADER, content_name, letter_records, original_records

pytestmark = pytest.mark.spark

_RECORD = "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY"
_HEADERS = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
_MOMENT = dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, dt.UTC)
_RECORDS: list[tuple[Any, ...]] = [
    ("orders", 3, 2**40, _MOMENT, b"k", b"{", [("h", b"1"), ("h", None), ("h", b"\xff")]),
    ("orders", 0, 0, _MOMENT, None, None, None),
    ("o.2", 1, 7, _MOMENT, b"", b"", []),
]


def _in_topic(letters: Any, topic: str) -> Any:
    """Return letters as Spark's Kafka source reads them from a topic."""
    place = [F.lit(topic).alias("topic"), F.lit(9).alias("partition"), F.lit(99).cast("long").alias("offset")]
    time = [F.timestamp_seconds(F.lit(7)).alias("timestamp"), F.lit(0).alias("timestampType")]
    return letters.select("key", "value", "headers", *place, *time)


def _records(spark: Any) -> Any:
    bad = spark.createDataFrame(_RECORDS, f"{_RECORD}, {_HEADERS}").coalesce(1)
    return bad.withColumns({"table": F.lit("t"), "part": F.lit("value"), "reason": F.lit("é"), "code": F.lit("SCHEMA")})


def _tuples(records: Any) -> list[tuple[Any, ...]]:
    columns = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
    found = [tuple(row.values()) for row in records.select(*columns).toArrow().to_pylist()]
    return [(*row[:-1], row[-1] and [(one["key"], one["value"]) for one in row[-1]]) for row in found]


def test_the_records_of_letters_are_those_that_were_bad(spark: Any) -> None:
    letters = _in_topic(letter_records(_records(spark)), "dead")
    wanted = [(*row[:-1], row[-1] or None) for row in _RECORDS]
    assert _tuples(original_records(letters)) == wanted
    first, second, _ = (row["headers"] for row in letters.toArrow().to_pylist())
    ours = {"table": b"t", "topic": b"orders", "partition": b"0", "offset": b"0", "timestamp": b"-1"}
    ours |= {"part": b"value", "code": b"SCHEMA", "reason": "é".encode()}
    assert [(one["key"], one["value"]) for one in second] == [(HEADER + name, text) for name, text in ours.items()]
    assert [(one["key"], one["value"]) for one in first[:3]] == _RECORDS[0][-1], "ours are after those of the record"


def test_the_last_place_counts_if_a_letter_became_a_letter_of_another_topic(spark: Any) -> None:
    """A table reads the topic of letters as it is, and finds them bad."""
    letters = _in_topic(letter_records(_records(spark)), "dead")
    again = original_records(_in_topic(letter_records(letters.withColumn("reason", F.lit("again"))), "dead2"))
    assert [row[:3] for row in _tuples(again)] == [("dead", 9, 99)] * 3
    assert [row[3].timestamp() for row in _tuples(again)] == [7.0] * 3
    assert [row[-1] for row in _tuples(again)] == [_RECORDS[0][-1], None, None]


def test_a_letter_of_somebody_else_is_a_record_of_its_topic(spark: Any) -> None:
    records = _in_topic(_records(spark), "theirs")
    found = _tuples(original_records(records))
    assert [row[:3] for row in found] == [("theirs", 9, 99)] * 3
    assert [row[4:] for row in found] == [(*row[4:-1], row[-1] or None) for row in _RECORDS]


def test_only_the_same_letters_have_the_same_name_in_any_order(spark: Any) -> None:
    """Letters without a place in a topic may be equal: of `a, a` and `b, b` in one batch, both are kept."""
    letters = [
        [(None, b"a")], [(None, b"b")], [(b"a", None)], [(None, b"a")] * 2, [(None, b"b")] * 2,
        [(None, b"a"), (None, b"b")], [(None, b"a")] * 3, [],
    ]  # fmt: skip
    names = [content_name(spark.createDataFrame(rows, "key BINARY, value BINARY")) for rows in letters]
    assert len({name.partition("-")[2] for name in names}) == len(letters), "the hash alone names a folder"
    turned = spark.createDataFrame(letters[5][::-1], "key BINARY, value BINARY")
    assert content_name(turned) == names[5]
