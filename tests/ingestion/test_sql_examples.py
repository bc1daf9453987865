"""The SQL of the product page runs, with a target of ours in place of its own: columns and rows of the tables."""

from __future__ import annotations

import datetime as dt
import json
import zoneinfo
from pathlib import Path
from typing import Any

import pytest

from kvformat.ingestion import Pipeline
from kvformat.ingestion.targets.discovery import target_of
from tests.ingestion.history import BatchQuery
from tests.support.pipeline_examples import SQL_EXAMPLES

pytestmark = pytest.mark.spark
_TABLE = "hologres.kafka.sync_kafka"
_START = dt.datetime(2024, 2, 29, 23, 30, tzinfo=dt.UTC)


class SqlQuery(BatchQuery):
    """The query of an example, on batches of records of its topic."""

    def __init__(self, spark: Any, folder: Path, text: str) -> None:
        super().__init__(spark, folder)
        ours = f"'connector' = 'delta', 'path' = '{folder / 'out'}'"
        assert text.count("'connector' = 'hologres'") == 1
        self.pipeline = Pipeline.from_sql(text.replace("'connector' = 'hologres'", ours))
        assert self.pipeline.refused == ()
        self.target = target_of(self.pipeline.sink)
        self.offsets: dict[int, int] = {}
        self.restart()

    def send(self, *pairs: tuple[Any, Any], partition: int = 0, kill: str | None = None) -> None:
        """Run a batch of keys and values."""
        self.run([self._record(*pair, partition) for pair in pairs], kill)

    def _record(self, key: Any, value: Any, partition: int) -> tuple[Any, ...]:
        offset = self.offsets[partition] = self.offsets.get(partition, -1) + 1
        messages = (None if part is None else json.dumps(part).encode() for part in (key, value))
        time = _START + dt.timedelta(hours=offset)
        return (*messages, "kafka_evolution_demo", partition, offset, time, 0, None)

    def found(self, *order: str) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
        """Return names and types of the columns, and the rows."""
        rows = self.rows(_TABLE, *order)
        return self.table(_TABLE).dtypes, [tuple(row.values()) for row in rows]


def test_synchronize_table_schema_and_data(spark: Any, tmp_path: Path) -> None:
    query = SqlQuery(spark, tmp_path, SQL_EXAMPLES["follow_table"])
    query.send((None, {"id": 101, "properties": {"owner": "Alibaba Cloud", "size": {"w": 1}}}), partition=3)
    columns = [("offset", "int"), ("part", "bigint"), ("id", "bigint")]
    columns += [("properties.owner", "string"), ("properties.size.w", "bigint")]
    assert query.found("part") == (columns, [(0, 3, 101, "Alibaba Cloud", 1)])
    query.send((None, {"id": 102.5, "new": "2024-02-29"}), (None, {"id": 101}), kill="written")
    columns[2] = ("id", "double")
    assert query.found("part", "offset") == (
        [*columns, ("new", "date")],
        [
            (0, 0, 102.5, None, None, dt.date(2024, 2, 29)),
            (1, 0, 101.0, None, None, None),
            (0, 3, 101.0, "Alibaba Cloud", 1, None),
        ],
    )


def test_synchronize_keys_and_values(spark: Any, tmp_path: Path) -> None:
    query = SqlQuery(spark, tmp_path, SQL_EXAMPLES["follow_key_and_value"])
    query.send(({"id": 1, "other": "x"}, {"name": "VVP", "id": 7}), ({"id": 2}, {"name": 5, "tags": ["a"]}))
    query.send(({"id": 3}, {"at": True}))
    columns = [("key_id", "int"), ("val_name", "string"), ("val_id", "bigint")]
    assert query.found("key_id") == (
        [*columns, ("val_tags", "string"), ("val_at", "boolean")],
        [(1, "VVP", 7, None, None), (2, "5", None, '["a"]', None), (3, None, None, None, True)],
    )


def _days(spark: Any, count: int) -> list[dt.date]:
    """Return the days of the first records in the session's time zone."""
    zone = zoneinfo.ZoneInfo(spark.conf.get("spark.sql.session.timeZone"))
    return [(_START + dt.timedelta(hours=n)).astimezone(zone).date() for n in range(count)]


def _computing(spark: Any, folder: Path, added: str | None) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
    """Run the example that computes columns, perhaps with another expression; the timestamps are left out."""
    text = SQL_EXAMPLES["follow_and_compute"]
    if added is not None:
        text = f"{text.partition('`order_id` AS')[0]}`order_id` AS {added}"
    query = SqlQuery(spark, folder, text)
    query.send(
        ({"id": "a"}, {"distinct_id": 1, "properties": {"order_id": "A-7", "x": None}, "event": "buy"}),
        ({"id": "b"}, {"distinct_id": 2, "properties": '{"order_id": {"a": 1}}'}),
        (None, {"distinct_id": 3, "properties": "no JSON", "event": "look"}),
        partition=1,
    )
    columns, rows = query.found("distinct_id")
    place = [name for name, _ in columns].index("timestamp")
    assert [row[place].astimezone(dt.UTC) for row in rows] == [_START + dt.timedelta(hours=n) for n in range(3)]
    return columns, [(*row[:place], *row[place + 1 :]) for row in rows]


_COMPUTED = [
    *(("distinct_id", "int"), ("properties", "string"), ("timestamp", "timestamp"), ("date", "date")),
    *(("key_id", "string"), ("event", "string"), ("order_id", "string")),
]
_PROPERTIES = ['{"order_id":"A-7","x":null}', '{"order_id": {"a": 1}}', "no JSON"]


def test_synchronize_data_and_compute(spark: Any, tmp_path: Path) -> None:
    columns, rows = _computing(spark, tmp_path, "COALESCE(UPPER(event), 'default')")
    assert columns == _COMPUTED
    days = _days(spark, 3)
    assert rows == [
        (1, _PROPERTIES[0], days[0], "a", "buy", "BUY"),
        (2, _PROPERTIES[1], days[1], "b", None, "default"),
        (3, _PROPERTIES[2], days[2], None, "look", "LOOK"),
    ]


def test_synchronize_data_and_compute_with_json_value(spark: Any, tmp_path: Path) -> None:
    columns, rows = _computing(spark, tmp_path, None)
    assert columns == _COMPUTED
    assert [row[-1] for row in rows] == ["A-7", "default", "default"]


def test_nested_columns(spark: Any, tmp_path: Path) -> None:
    target = (
        "CREATE TABLE IF NOT EXISTS hologres.kafka.sync_kafka WITH ('connector' = 'hologres') AS TABLE kafka_source"
    )
    query = SqlQuery(spark, tmp_path, SQL_EXAMPLES["nested_columns"] + target)
    message = {"id": 101, "name": "VVP", "properties": {"owner": "Alibaba Cloud", "engine": "Flink", "new": 1}}
    query.send((None, message), (None, {"id": 102, "more": {"a": 1}}))
    assert query.found("id") == (
        [
            *(("id", "string"), ("name", "string"), ("properties", "struct<owner:string,engine:string>")),
            ("more", "string"),
        ],
        [
            ("101", "VVP", {"owner": "Alibaba Cloud", "engine": "Flink"}, None),
            ("102", None, None, '{"a":1}'),
        ],
    )
