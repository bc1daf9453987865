"""Queries that are killed, that run twice, and that meet at a table."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from kvformat.ingestion import DeltaPathTarget, Pipeline, ingest, read_table
from kvformat.ingestion.errors import SchemaChangeError
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.start import start_query
from kvformat.ingestion.store import SchemaStore
from tests.ingestion import crashes
from tests.ingestion.crashes import SINK, SOURCE, IngestQuery, check_store
from tests.ingestion.database import Database, check_tables, generated
from tests.ingestion.history import BatchQuery

pytestmark = pytest.mark.spark
KILLS = int(os.environ.get("KVFORMAT_CRASH_KILLS", "3"))


@pytest.mark.services
@pytest.mark.slow
@pytest.mark.once
def test_a_killed_query_loses_nothing_and_writes_nothing_twice(spark: Any, broker: Any, tmp_path: Path) -> None:
    report = crashes.ingest_with_kills(broker, tmp_path, KILLS, random.Random(1), batch=16, spark=spark)
    assert sum(report.kills.values()) == KILLS
    assert report.mid_batch > 0
    assert report.rows >= 12


# --- batches of any size -----------------------------------------------------------------------------------


def _query(spark: Any, folder: Path, **more: Any) -> BatchQuery:
    """Return a query on the records of a generated database."""
    settings = {"on_table_error": "quarantine"}
    more = {"letters": str(folder / "dead"), "settings": settings, "transform": [], "sink": SINK, **more}
    return BatchQuery(spark, folder, {**SOURCE}, **more)


def _letters(spark: Any, folder: Path) -> list[tuple[int, int]]:
    """Return the places of the dead letters."""
    if not (folder / "dead").exists():
        return []
    return [(row.partition, row.offset) for row in spark.read.parquet(str(folder / "dead")).collect()]


def _check(spark: Any, folder: Path, database: Database, tables: str = "tables") -> int:
    """Compare the tables and dead letters below a folder, and the store, with the database."""

    def read(name: str) -> Any:
        return crashes.read(spark, folder, "path", name, tables)

    return check_tables(database, read, _letters(spark, folder))


@pytest.mark.slow
@pytest.mark.parametrize(("size", "count", "fewest"), [(1, 21, 5), (7, 84, 18), (1000, 84, 18)])
def test_a_database_in_batches_of_any_size(spark: Any, tmp_path: Path, size: int, count: int, fewest: int) -> None:
    database = generated(11, count, spread=True)
    query = _query(spark, tmp_path)
    for records in database.batches(size):
        query.run(records)
    assert _check(spark, tmp_path, database, "out") >= fewest


# --- what repeats must not change --------------------------------------------------------------------------


class _Refusing(DeltaPathTarget):
    """A target that does not take one table."""

    def create(self, table: TableId, *arguments: Any) -> None:
        if table.table == "notes":
            raise SchemaChangeError("this target takes no notes", table=str(table))
        super().create(table, *arguments)


def _canal(table: str, kind: str, *rows: dict[str, Any] | None) -> dict[str, Any]:
    types = {"id": "bigint"}
    return {
        "data": [*rows] or None,
        "database": "shop",
        "table": table,
        "type": kind,
        "isDdl": not rows,
        "mysqlType": types if rows else None,
        "pkNames": ["id"] if rows else None,
        "old": None,
    }


def _records(*messages: dict[str, Any]) -> list[tuple[Any, ...]]:
    database = Database(random.Random(0))
    for message in messages:
        database.send(message, 0)
    return database.records


def test_a_table_that_fails_while_it_is_written_does_not_repeat_the_dead_letters(spark: Any, tmp_path: Path) -> None:
    query = _query(spark, tmp_path, target=_Refusing(str(tmp_path / "out")))
    first = _canal("items", "INSERT", {"id": "1"})
    records = _records(first, _canal("items", "INSERT", {"id": None}), _canal("notes", "INSERT", {"id": "1"}))
    query.run(records, kill="written")
    assert query.rows("shop.items") == [{"id": 1}]
    assert sorted(_letters(spark, tmp_path)) == [(0, 1), (0, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("kill", [None, "truncated shop.draft", "written shop.draft", "letters"])
def test_a_table_that_is_dropped_is_dropped(spark: Any, tmp_path: Path, kill: str | None) -> None:
    query = _query(spark, tmp_path)
    insert, drop = _canal("draft", "INSERT", {"id": "1"}), _canal("draft", "ERASE")
    query.run(_records(insert, drop), kill)
    assert query.target.with_session(spark).schema(TableId.parse("shop.draft")) is None
    query.run(_records(insert, drop, _canal("draft", "INSERT", {"id": "2"})), kill)
    assert query.rows("shop.draft") == [{"id": 2}]


# --- two drivers, two queries ------------------------------------------------------------------------------


class _Held:
    """Stops a query at a step until it is released."""

    def __init__(self, step: str) -> None:
        self.step, self.reached, self.released = step, threading.Event(), threading.Event()

    def __call__(self, step: str) -> None:
        if step == self.step and not self.reached.is_set():
            self.reached.set()
            assert self.released.wait(300)


@pytest.mark.services
@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("step", ["decoded", "written"])
def test_of_two_drivers_on_a_checkpoint_the_first_ends(spark: Any, broker: Any, tmp_path: Path, step: str) -> None:
    database, topic = generated(21, 60), broker.create(f"drivers-{step}", 3)
    crashes.send(broker, database, topic)
    held = _Held(step)
    first = start_query(
        Pipeline({**SOURCE, "topic": topic, "properties.bootstrap.servers": broker.bootstrap}, SINK),
        spark,
        checkpoint_location=tmp_path / "checkpoint",
        target=DeltaPathTarget(str(tmp_path / "tables")),
        dead_letters=str(tmp_path / "dead"),
        on_table_error="quarantine",
        spark_options={"maxOffsetsPerTrigger": 20},
        step=held,
    )
    second = IngestQuery(
        tmp_path,
        "ingest",
        bootstrap=broker.bootstrap,
        topic=topic,
        target="path",
        write_mode="merge",
        batch="20",
        dead_letters=str(tmp_path / "dead"),
        step="",
        passes=0,
        batches=0,
    )
    try:
        assert held.reached.wait(300)
        second.start()
        second.wait(lambda: second.batches() >= 2)
        held.released.set()
        with pytest.raises(Exception, match=r"another driver has started with the checkpoint .*this driver stops"):
            first.awaitTermination(300)
        second.wait(lambda: second.read() >= len(database.records))
    finally:
        held.released.set()
        first.stop()
        second.kill()
    assert _check(spark, tmp_path, database) >= 5
    check_store(spark, tmp_path, "path")


@pytest.mark.services
@pytest.mark.slow
@pytest.mark.once
def test_a_second_query_is_refused_until_it_takes_over(spark: Any, broker: Any, tmp_path: Path) -> None:
    topic = broker.create("two-queries")
    source = {"topic": topic, "properties.bootstrap.servers": broker.bootstrap, "scan.startup.mode": "earliest-offset"}
    source |= {"value.format": "canal-json", "canal-json.infer-schema.strategy": "MYSQL_TYPE"}

    def send(number: int) -> None:
        database = Database(random.Random(0))
        database.send(_canal("items", "INSERT", {"id": str(number)}), 0)
        crashes.send(broker, database, topic)

    def start(name: str, **more: Any) -> Any:
        return ingest(spark, source, str(tmp_path / "tables"), checkpoint_location=tmp_path / name, **more)

    def numbers() -> list[int]:
        return sorted(row.id for row in read_table(spark, tmp_path / "tables", "shop.items").collect())

    send(1)
    first = start("first")
    try:
        first.processAllAvailable()
        with pytest.raises(Exception, match=r"table shop\.items is written by another query"):
            start("second", trigger={"availableNow": True}).awaitTermination(300)
        start("second", trigger={"availableNow": True}, take_over=True).awaitTermination(300)
        send(2)
        with pytest.raises(Exception, match=r"table shop\.items is written by another query .* take_over=True"):
            first.awaitTermination(300)
    finally:
        first.stop()
    assert numbers() == [1]
    start("second", trigger={"availableNow": True}).awaitTermination(300)
    assert numbers() == [1, 2]


def test_drivers_are_counted(spark: Any, tmp_path: Path) -> None:
    stores = [SchemaStore(spark, str(tmp_path)) for _ in range(5)]
    for store in stores:
        store.begin_driver()
        store.check_driver()
    assert len([*(tmp_path / "kvformat" / "drivers").iterdir()]) == 3
    for store in stores[:-1]:
        store._checked = 0.0
        with pytest.raises(Exception, match="another driver"):
            store.check_driver()
