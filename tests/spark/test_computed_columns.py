"""Computed columns in Spark: the same values in every session, and errors of records instead of failed queries."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from kvformat.registry import DecodeError, KeyValueFormat, split_errors

pytestmark = pytest.mark.spark

_DDL = """CREATE TABLE shop (
    ts BIGINT, n INT, s STRING, seen TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', part STRING METADATA FROM 'partition',
    sold_at AS TO_TIMESTAMP(FROM_UNIXTIME(ts / 1000)), half AS n / 2, big AS n * 3, share AS 10 / n,
    label AS part || '-' || CAST(seen AS STRING), `day` AS CAST(seen AS DATE), kind AS JSON_VALUE(s, '$.kind'),
    now_ AS PROCTIME(), odd AS NOPE(n)
) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b', 'properties.group.id' = 'g',
        'format' = 'json'{})"""
_SEEN = dt.datetime(2024, 1, 31, 23, 30, tzinfo=dt.UTC)


def _records(spark: Any, *values: str) -> Any:
    rows = [(value.encode(), 3, 7 + i, _SEEN) for i, value in enumerate(values)]
    return spark.createDataFrame(rows, "value BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP").coalesce(1)


_GOOD = '{"ts":1700000000123,"n":2147483647,"s":"{\\"kind\\":\\"new\\"}"}'
_BAD = '{"ts":1700000000123,"n":0,"s":"x"}'


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(
    ("zone", "at", "label", "day"),
    [
        ("UTC", dt.datetime(2023, 11, 14, 22, 13, 20), "3-2024-01-31 23:30:00.000", dt.date(2024, 1, 31)),
        ("Asia/Kolkata", dt.datetime(2023, 11, 15, 3, 43, 20), "3-2024-02-01 05:00:00.000", dt.date(2024, 2, 1)),
    ],
)
def test_values_follow_flink_and_not_the_session(
    spark: Any, zone: str, at: dt.datetime, label: str, day: dt.date, ansi: str
) -> None:
    before = {key: spark.conf.get(key) for key in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")}
    spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        kv = KeyValueFormat.from_ddl(_DDL.format(""))
        decoded = kv.decode(_records(spark, _GOOD), skip_computed=["odd"])
        assert decoded.columns == [column.name for column in kv.columns if column.name != "odd"]
        (row,) = (one.asDict() for one in decoded.collect())
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)
    assert (row["sold_at"], row["half"], row["big"], row["share"]) == (at, 1073741823, 2147483645, 0)
    assert (row["label"], row["day"], row["kind"]) == (label, day, "new")
    assert abs(row["now_"].timestamp() - dt.datetime.now().timestamp()) < 600


def test_a_row_that_flink_cannot_compute_makes_a_bad_record(spark: Any) -> None:
    kv = KeyValueFormat.from_ddl(_DDL.format("")).without_computed("odd")
    records = _records(spark, _GOOD, _BAD, _GOOD)
    good, bad = split_errors(kv.decode(records, errors="capture", metadata={"place": "offset"}))
    assert [row["place"] for row in good.select("place").collect()] == [7, 9]
    (error,) = bad.collect()
    assert (error["part"], error["code"], bytes(error["value"])) == ("record", "COMPUTED_COLUMN", _BAD.encode())
    assert error["reason"] == "computed column 'share' of table 'shop': /: division by zero"
    with pytest.raises(Exception, match=r"(?s)computed column 'share' of table 'shop': /: division by zero.*offset 8"):
        kv.decode(records).collect()
    ignoring = KeyValueFormat.from_ddl(_DDL.format(", 'ingestion.ignore-errors' = 'true'"))
    assert ignoring.decode(records, skip_computed=["odd"]).count() == 2
    assert issubclass(DecodeError, ValueError)


def test_the_plan_has_one_python_stage(spark: Any) -> None:
    kv = KeyValueFormat.from_ddl(_DDL.format(""))
    decoded = kv.decode(_records(spark, _GOOD), skip_computed=["odd"]).where("half > 1 AND kind = 'new'")
    plan = decoded._explain_string() if hasattr(decoded, "_explain_string") else ""
    if plan:
        assert plan.count("MapInArrow") == 1
    assert decoded.count() == 1
