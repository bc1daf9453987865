"""Micro-batches from records to tables at a path: histories in batches of any size, failures at each step, errors."""

from __future__ import annotations

import base64
import datetime as dt
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from kvformat.ingestion import DeltaPathTarget, Pipeline, batch_decoder, ingest, query_memory
from kvformat.ingestion.errors import SchemaChangeError
from kvformat.ingestion.looking import Looking, LookStage
from kvformat.ingestion.schemas.events import SchemaEvent, TruncateTable
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.ingestion.store import SchemaStore
from kvformat.ingestion.targets.target import BatchWrite
from kvformat.registry.contract.errors import ConfigurationError, DecodeError
from tests.ingestion.history import BY_ID, RECORDS, SOURCE, BatchQuery, History, expected, generated

pytestmark = pytest.mark.spark


def _changes(*changes: tuple[Any, Any], table: str = "orders") -> list[Any]:
    history = History()
    for before, after in changes:
        operation = "c" if before is None else "d" if after is None else "u"
        source = {"db": "shop", "table": table}
        message = {"before": before, "after": after, "op": operation, "source": source}
        history.add(table, 0, message)
    return history.records


def _compare(query: BatchQuery, history: History) -> int:
    """Compare all tables with their expected rows; returns how many values were compared."""
    compared = 0
    for table in history.tables:
        types = dict(query.table(table).dtypes)
        found = {row["id"]: row for row in query.rows(table)}
        assert found == expected(history, table, types)
        compared += len(types) * len(found)
    return compared


@pytest.mark.slow
def test_a_history_in_one_batch_and_in_many(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = generated(3, 40)
    compared, types = 0, []
    ways = [(1000, 10, 0), (11, 10_000, 0), (11, 0, 0)]  # by Spark: many tasks decode, one, the look
    ways += [(11, 10_000, 2**26), (1000, 10_000, 2**26)]  # the rows are in the driver
    ways += [(11, 10_000, 1500)]  # and tasks merge some of them
    for size, few, most in ways:
        monkeypatch.setattr(batch_decoder, "_FEW", few)
        folder = tmp_path / f"{size}-{few}-{most}"
        query = BatchQuery(spark, folder, target=DeltaPathTarget(str(folder / "out"), driver_max_bytes=most))
        for records in history.batches(size):
            query.run(records)
        compared += _compare(query, history)
        types.append({table: sorted(query.table(table).dtypes) for table in history.tables})
    assert all(of == types[0] for of in types)
    assert compared >= 180


def _count_looks(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Let the look decode all tables, and return a list that gets the tables that each look may decode."""
    monkeypatch.setattr(batch_decoder, "_FEW", 0)
    looks: list[list[str]] = []
    looked = LookStage.looked

    def counted(stage: LookStage, records: Any) -> Any:
        looks.append(sorted(map(str, stage.decoders)))
        return looked(stage, records)

    monkeypatch.setattr(LookStage, "looked", counted)
    return looks


def test_the_look_decodes_tables_with_many_records(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = _count_looks(monkeypatch)
    kept = str(tmp_path / "dead")
    settings = {"on_table_error": "quarantine"}
    query = BatchQuery(spark, tmp_path, {"ingestion.ignore-errors": "true"}, letters=kept, settings=settings)
    ids = iter(range(100))

    def orders(*rows: dict[str, Any]) -> list[Any]:
        return _changes(*((None, {"id": next(ids), **row}) for row in rows))

    def looks_of(records: list[Any], kill: str | None = None) -> list[list[str]]:
        looks.clear()
        query.run(records, kill)
        return [*looks]

    items = _changes((None, {"id": 1}), table="items")
    assert looks_of([*orders({"v": 1}, {"v": 2}), *items]) == [[]]
    assert looks_of([*orders({"v": 3}), *items]) == [[]]  # the batch before had news
    both = ["shop.items", "shop.orders"]
    assert looks_of(orders({"v": 4}, {})) == [both]
    assert looks_of(orders({"v": 5}), "written") == [both, []]  # a new start knows no decoders
    assert looks_of(orders({"v": 6}, {"v": 7}, {"v": 8, "w": "x"})) == [["shop.orders"], []]  # a column is new
    assert looks_of(orders({"v": 9}, {"w": "y"})) == [[]]
    assert looks_of(orders({"v": 10}, {"id": None}, {"v": 11})) == [["shop.orders"]]  # a record is bad
    assert looks_of([*orders({"v": 12}), (None, b"{", "shop", 1, 0, None, 0, None)]) == [["shop.orders"]]
    rows = query.rows("shop.orders")
    assert [row["v"] for row in rows] == [1, 2, 3, 4, None, 5, 6, 7, 8, 9, None, 10, 11, 12]
    assert [row["w"] for row in rows if row["w"]] == ["x", "y"]
    letters = spark.read.parquet(kept).toArrow().to_pylist()
    assert sorted((row["table"] or "", row["partition"]) for row in letters) == [("", 1), ("shop.orders", 0)]


class _RefusingTarget(DeltaPathTarget):
    def write_rows(self, table: TableId, schema: TableSchema, rows: Any, batch: BatchWrite) -> None:
        if batch.batch_id == 2:
            raise SchemaChangeError("no room", table=str(table))
        super().write_rows(table, schema, rows, batch)


def test_records_that_the_look_decodes_are_kept_if_their_table_fails(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = _count_looks(monkeypatch)
    kept = str(tmp_path / "dead")
    settings = {"on_table_error": "quarantine"}
    target = _RefusingTarget(str(tmp_path / "out"))
    query = BatchQuery(spark, tmp_path, target=target, letters=kept, settings=settings)
    for ids in ([1, 2], [3], [4, 5]):
        query.run(_changes(*((None, {"id": n}) for n in ids)))
    assert looks == [[], [], ["shop.orders"], []]
    assert query.rows("shop.orders") == [{"id": 1}, {"id": 2}, {"id": 3}]
    letters = spark.read.parquet(kept).orderBy("offset").toArrow().to_pylist()
    assert [json.loads(row["value"])["after"]["id"] for row in letters] == [4, 5]
    assert {row["table"] for row in letters} == {"shop.orders"}
    assert "no room" in letters[0]["reason"]


class _ArrowTarget(DeltaPathTarget):
    def write(self, table: TableId, schema: TableSchema, rows: Any, batch: BatchWrite) -> None:
        raise AssertionError(f"{table} is written by Spark")


def test_rows_that_fit_the_driver_are_fetched_if_a_task_may_not_return_them(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_memory, "_LEAST_TASKS", 10**9)  # a task of a look returns nothing
    fetched: list[list[str]] = []
    fetch = Looking.fetched
    monkeypatch.setattr(Looking, "fetched", lambda look, of: fetched.append([*map(str, of)]) or fetch(look, of))
    query = BatchQuery(spark, tmp_path, target=_ArrowTarget(str(tmp_path / "out")))
    for ids in ([1, 2], [3], [4, 1]):
        changes = [_changes(*((None, {"id": n, "v": n * 10}) for n in ids), table=name) for name in ("a", "b")]
        query.run([record for records in changes for record in records])
    assert [sorted(names) for names in fetched] == [["shop.a", "shop.b"]]  # the first two batches had no decoders
    for table in ("shop.a", "shop.b"):
        assert [(row["id"], row["v"]) for row in query.rows(table)] == [(1, 10), (2, 20), (3, 30), (4, 40)]


class _UntruncatedTarget(DeltaPathTarget):
    def change(self, event: SchemaEvent, schema: TableSchema, batch: BatchWrite) -> None:
        if event == TruncateTable(TableId(("ods", "all"))):
            raise SchemaChangeError("no TRUNCATE", table=str(event.table))
        super().change(event, schema, batch)


@pytest.mark.slow
def test_a_quarantined_table_is_not_truncated(spark: Any, tmp_path: Path) -> None:
    """Neither by the batch that puts it into quarantine nor again and again, if that is what fails."""
    query = BatchQuery(
        spark,
        tmp_path,
        transform=[],
        route=[{"source-table": "shop.items", "sink-table": "ods.all"}],
        target=_UntruncatedTarget(str(tmp_path / "out")),
        letters=str(tmp_path / "dead"),
        settings={"on_table_error": "quarantine"},
        pipeline={"schema.change.behavior": "evolve"},
    )
    tables = ("orders", "notes", "items")
    inserts = {table: _changes((None, {"id": 1}), table=table) for table in tables}
    deletes = {table: _changes(({"id": 1}, None), table=table) for table in tables}
    source = {table: {"db": "shop", "table": table} for table in tables}
    truncates = {
        t: json.dumps({"before": None, "after": None, "op": "t", "source": source[t]}).encode() for t in tables
    }

    query.run([*inserts["orders"], *inserts["items"]])
    # Tables without a key can't delete. One is new, and the target refuses to truncate the third.
    truncated = [(None, truncates[table], "shop", 1, n, None, 0, None) for n, table in enumerate(tables)]
    query.run([*deletes["orders"], *inserts["notes"], *deletes["notes"], *truncated])
    state, _ = SchemaStore(spark, query.settings.checkpoint).load()
    assert {str(table) for table in state.quarantined} == {"shop.orders", "shop.notes", "shop.items"}
    assert query.rows("shop.orders") == query.rows("ods.all") == [{"id": 1}]
    assert not (tmp_path / "out" / "shop" / "notes").exists()


@pytest.mark.parametrize("size", [*(pytest.param(size, marks=pytest.mark.slow) for size in (1, 7)), 1000])
def test_a_history_with_a_failure_after_each_step(spark: Any, tmp_path: Path, size: int) -> None:
    history = generated(5, 24 if size == 1 else 60)
    steps = ["looked", "planned", "stored", "decoded", "letters", "changed", "written", "done"]
    query, killed = BatchQuery(spark, tmp_path), set()
    for number, records in enumerate(history.batches(size)):
        for step in steps if size == 1000 else [steps[number % len(steps)]]:
            messages = [json.loads(record[1]) for record in records if record[1] is not None]
            table = messages[-1]["source"]["table"] if messages else None
            names = {"changed": f"changed shop.{table}", "done": f"written shop.{table}"}
            if table is None and step in names:  # a tombstone alone has no table
                step = "written"
            query.run(records, kill=names.get(step, step))
            killed.add(step)
            if size == 1000 and step != steps[-1]:
                query.batch_id -= 1
                query.restart()
    assert killed == {*steps}
    assert _compare(query, history) >= 20


def test_a_stored_plan_is_used_again(spark: Any, tmp_path: Path) -> None:
    query = BatchQuery(spark, tmp_path)
    records = _changes((None, {"id": 1, "v": 2}))
    query.run(records, kill="stored")
    assert query.steps.count("planned") == 2
    store = SchemaStore(spark, query.settings.checkpoint)
    assert [(batch, caused.event.tag) for batch, caused in store.history()] == [(0, "create.table")]
    assert query.rows("shop.orders") == [{"id": 1, "v": 2}]


def test_bad_records_go_to_the_dead_letters_and_are_counted_once(spark: Any, tmp_path: Path) -> None:
    source = {"ingestion.ignore-errors": "true", "ingestion.error-tolerance.max-count": "3"}
    kept = str(tmp_path / "dead")
    query = BatchQuery(spark, tmp_path, source, letters=kept)
    good = _changes((None, {"id": 1, "v": 2}), (None, {"id": None, "v": 3}))
    broken = [(None, b"{", "shop", 1, 0, dt.datetime(2024, 1, 1), 0, None)]
    query.run([*good, *broken], kill="written")
    assert query.rows("shop.orders") == [{"id": 1, "v": 2}]
    letters = spark.read.parquet(kept).orderBy("partition", "offset").toArrow().to_pylist()
    assert [row["table"] for row in letters] == ["shop.orders", None]
    assert {row["value"] for row in letters} == {good[1][1], b"{"}
    store = SchemaStore(spark, query.settings.checkpoint)
    assert store.errors() == 2
    with pytest.raises(DecodeError, match="the query has 4 bad records since its checkpoint began"):
        query.run([*broken, *_changes((None, {"id": None}))])


def test_without_ignore_errors_the_first_bad_record_stops_the_query(spark: Any, tmp_path: Path) -> None:
    query = BatchQuery(spark, tmp_path)
    records = _changes((None, {"id": 1}), (None, {"id": None, "v": 3}))
    with pytest.raises(DecodeError, match=r"table shop\.orders, topic shop, partition 0, offset 1: .*'id'"):
        query.run(records)
    assert not (tmp_path / "out").exists()


def test_bad_records_are_logged(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    query = BatchQuery(spark, tmp_path, {"ingestion.ignore-errors": "true"}, settings={"logs_bad_records": True})
    with caplog.at_level(logging.WARNING, "kvformat.ingest"):
        query.run([*_changes((None, {"id": 1})), (None, b"{oops", "shop", 2, 7, None, 0, None)])
    (text,) = [record.getMessage() for record in caplog.records if "bad record" in record.getMessage()]
    assert "partition 2, offset 7" in text
    assert base64.b64encode(b"{oops").decode() in text


@pytest.mark.slow
def test_a_table_without_a_key_takes_inserts_only(spark: Any, tmp_path: Path) -> None:
    query = BatchQuery(spark, tmp_path, transform=[])
    query.run(_changes((None, {"id": 1}), (None, {"id": 1})), kill="written")
    assert query.rows("shop.orders") == [{"id": 1}, {"id": 1}]
    with pytest.raises(SchemaChangeError, match=r"table shop\.orders: it has no primary key.*'primary-keys'"):
        query.run(_changes(({"id": 1}, {"id": 2})))


@pytest.mark.slow
def test_a_table_that_fails_is_quarantined(spark: Any, tmp_path: Path) -> None:
    kept = str(tmp_path / "dead")
    settings = {"on_table_error": "quarantine"}
    query = BatchQuery(spark, tmp_path, transform=[], letters=kept, settings=settings)
    bad, good = _changes((None, {"id": 1}), ({"id": 1}, None)), _changes((None, {"id": 5}), table="items")
    good = [(*row[:3], 2, *row[4:]) for row in good]
    for kill in (None, "stored"):
        query.run([*bad, *good], kill)
        bad = [(*row[:4], row[4] + 10, *row[5:]) for row in bad]
    assert query.rows("shop.items") == [{"id": 5}, {"id": 5}]
    assert not (tmp_path / "out" / "shop" / "orders").exists()
    letters = spark.read.parquet(kept).toArrow().to_pylist()
    assert len(letters) == 4
    assert {row["table"] for row in letters} == {"shop.orders"}
    assert "it has no primary key" in letters[0]["reason"]
    assert SchemaStore(spark, query.settings.checkpoint).errors() == 0


@pytest.mark.slow
def test_transforms(spark: Any, tmp_path: Path) -> None:
    rule = {
        "source-table": r"shop.\.*",
        "projection": r"\*, UPPER(name) AS name, v * 2 AS twice, __table_name__ AS shard",
        "filter": "v > 1",
        "primary-keys": "id",
    }
    query = BatchQuery(spark, tmp_path, transform=[rule])
    first = [(None, {"id": key, "v": key, "name": "n"}) for key in (1, 2, 3, 4)]
    query.run(_changes(*first, ({"id": 3, "v": 3, "name": "n"}, {"id": 3, "v": 0, "name": "n"})))
    shown = {"name": "N", "shard": "orders"}
    assert query.rows("shop.orders") == [{"id": 2, "v": 2, "twice": 4, **shown}, {"id": 4, "v": 4, "twice": 8, **shown}]
    query.run(_changes(({"id": 2, "v": 2}, {"id": 2, "v": 1}), ({"id": 1, "v": 1}, {"id": 1, "v": 9.5, "name": None})))
    rows = query.rows("shop.orders")
    assert rows == [
        {"id": 1, "v": 9.5, "twice": 19.0, "name": None, "shard": "orders"},
        {"id": 4, "v": 4.0, "twice": 8.0, **shown},
    ]
    with pytest.raises(SchemaChangeError, match=r"the transform of 'shop.*nowhere.* The table's columns are id, v"):
        BatchQuery(spark, tmp_path / "2", transform=[{**rule, "filter": "nowhere = 1"}]).run(_changes(*first))


@pytest.mark.slow
def test_a_filter_on_changes_without_the_rows_before_them(spark: Any, tmp_path: Path) -> None:
    """A row that may have matched is deleted, also in a target that takes all changes."""
    target = DeltaPathTarget(str(tmp_path / "out"), write_mode="append")
    rule = {"source-table": r"shop.\.*", "filter": "v > 1", "primary-keys": "id"}
    upsert = {"debezium-json.changelog.mode": "upsert"}
    query = BatchQuery(spark, tmp_path, upsert, target=target, transform=[rule])
    inserts = [(None, {"id": key, "v": key}) for key in (1, 2, 3, 4)]
    updates = [({"id": 2}, {"id": 2, "v": 0}), ({"id": 4}, {"id": 4, "v": 9}), ({"id": 3}, None)]
    query.run(_changes(*inserts, *updates))
    rows = query.rows("shop.orders", "_kvformat_partition", "_kvformat_offset")
    assert [(row["row_kind"], row["id"]) for row in rows] == [
        ("+I", 2),
        ("+I", 3),
        ("+I", 4),
        ("-D", 2),
        ("+U", 4),
        ("-D", 3),
    ]


@pytest.mark.parametrize(
    "more",
    [
        {"transform": [{"source-table": r"shop.\.*", "projection": r"\*, v AS w", "primary-keys": "id"}]},
        {"route": [{"source-table": r"shop.\.*", "sink-table": table} for table in ("ods.a", "ods.b")]},
    ],
    ids=["transform", "two targets"],
)
def test_unchanged_values_are_never_written_as_null(spark: Any, tmp_path: Path, more: dict[str, Any]) -> None:
    query = BatchQuery(spark, tmp_path, {"debezium-json.unchanged.columns": "keep"}, **more)
    with pytest.raises(ConfigurationError, match=r"table shop\.orders: 'unchanged\.columns' = 'keep'"):
        query.run(_changes((None, {"id": 1, "v": 1})))


def test_unchanged_values_keep_their_values_in_a_table(spark: Any, tmp_path: Path) -> None:
    query = BatchQuery(spark, tmp_path, {"debezium-json.unchanged.columns": "keep"})
    query.run(_changes((None, {"id": 1, "v": 1, "text": "long"})))
    after = {"id": 1, "v": 2, "text": "__debezium_unavailable_value"}
    query.run(_changes(({"id": 1, "v": 1, "text": None}, after)))
    assert query.rows("shop.orders") == [{"id": 1, "v": 2, "text": "long"}]


@pytest.mark.slow
def test_soft_deletes(spark: Any, tmp_path: Path) -> None:
    rule = {
        "source-table": r"shop.\.*",
        "projection": r"\*, __data_event_type__ AS op_type",
        "primary-keys": "id",
        "converter-after-transform": "SOFT_DELETE",
    }
    query = BatchQuery(spark, tmp_path, transform=[rule])
    query.run(_changes((None, {"id": 1, "v": 1}), (None, {"id": 2, "v": 2}), ({"id": 1, "v": 1}, None)))
    assert query.rows("shop.orders") == [{"id": 1, "v": 1, "op_type": "-D"}, {"id": 2, "v": 2, "op_type": "+I"}]


@pytest.mark.slow
def test_soft_deletes_with_a_filter(spark: Any, tmp_path: Path) -> None:
    """A row that does not match is not in the table, whether it is new, changed or deleted."""
    rule = {
        "source-table": r"shop.\.*",
        "projection": r"\*, __data_event_type__ AS op_type",
        "filter": "v > 1",
        "primary-keys": "id",
        "converter-after-transform": "SOFT_DELETE",
    }
    query = BatchQuery(spark, tmp_path, transform=[rule])
    first = [(None, {"id": key, "v": key}) for key in (1, 2, 3, 4)]
    changes = [({"id": 2, "v": 2}, None), ({"id": 3, "v": 3}, {"id": 3, "v": 0}), ({"id": 1, "v": 1}, None)]
    query.run(_changes(*first, *changes))
    assert query.rows("shop.orders") == [{"id": 2, "v": 2, "op_type": "-D"}, {"id": 4, "v": 4, "op_type": "+I"}]


@pytest.mark.slow
def test_several_sources_of_one_target_and_metadata(spark: Any, tmp_path: Path) -> None:
    route = [{"source-table": r"shop.\.*", "sink-table": "ods.all"}]
    query = BatchQuery(spark, tmp_path, {"metadata.list": "offset,topic"}, route=route)
    query.run([*_changes((None, {"id": 1, "v": 1})), *_changes((None, {"id": 2, "w": "x"}), table="items")])
    query.run(_changes((None, {"id": 3, "v": 1.5})))
    assert query.rows("ods.all") == [
        {"id": 1, "v": 1.0, "offset": 0, "topic": "shop", "w": None},
        {"id": 2, "v": None, "offset": 0, "topic": "shop", "w": "x"},
        {"id": 3, "v": 1.5, "offset": 0, "topic": "shop", "w": None},
    ]


@pytest.mark.slow
def test_truncate_is_between_the_rows_of_a_batch(spark: Any, tmp_path: Path) -> None:
    query = BatchQuery(spark, tmp_path, pipeline={"schema.change.behavior": "evolve"})
    history = History()
    source = {"db": "shop", "table": "orders"}
    for key, message in enumerate(
        [
            {"before": None, "after": {"id": 1}, "op": "c", "source": source},
            {"before": None, "after": {"id": 2}, "op": "c", "source": source},
            {"before": None, "after": None, "op": "t", "source": source},
            {"before": None, "after": {"id": 3}, "op": "c", "source": source},
        ]
    ):
        history.add("orders", key, message)
    for kill in ("truncated shop.orders", "written shop.orders", None):
        query.run(history.records, kill)
        query.batch_id = 0
        query.restart()
        assert query.rows("shop.orders") == [{"id": 3}]


@pytest.mark.slow
def test_a_table_of_another_query_is_refused(spark: Any, tmp_path: Path) -> None:
    records = _changes((None, {"id": 1, "v": "x"}))
    BatchQuery(spark, tmp_path).run(records)
    (tmp_path / "checkpoint").rename(tmp_path / "lost")
    with pytest.raises(ConfigurationError, match=r"table shop\.orders is written by another query"):
        BatchQuery(spark, tmp_path).run(records)
    query = BatchQuery(spark, tmp_path, settings={"take_over": True})
    query.batch_id = 1
    query.run(_changes((None, {"id": 2, "v": 7})))
    assert query.rows("shop.orders") == [{"id": 1, "v": "x"}, {"id": 2, "v": "7"}]


def test_a_stream_of_records(spark: Any, tmp_path: Path) -> None:
    history = generated(8, 20)
    records = spark.createDataFrame(history.records, RECORDS)
    records.coalesce(1).write.parquet(str(tmp_path / "records"))
    stream = spark.readStream.schema(RECORDS).parquet(str(tmp_path / "records"))
    for _ in range(2):
        query = ingest(
            spark,
            stream,
            str(tmp_path / "out"),
            checkpoint_location=str(tmp_path / "checkpoint"),
            transform=BY_ID,
            trigger={"availableNow": True},
        )
        query.awaitTermination()
    reader = BatchQuery(spark, tmp_path)
    assert _compare(reader, history) >= 10


def test_refused_pipelines_do_not_start(spark: Any, tmp_path: Path) -> None:
    pipeline = Pipeline({"type": "mysql"}, {"type": "doris"})
    with pytest.raises(ConfigurationError, match=r"can't be started:\n- source 'mysql'.*\n- sink 'doris'"):
        pipeline.start(spark, checkpoint_location=str(tmp_path))
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ConfigurationError, match="no column 'key'"):
        ingest(spark, stream, str(tmp_path), checkpoint_location=str(tmp_path / "c"))
    with pytest.raises(ConfigurationError, match="needs a checkpoint"):
        Pipeline(SOURCE, {"type": "delta", "path": "x"}).start(spark)
    with pytest.raises(ConfigurationError, match="set dead_letters"):
        ingest(spark, stream, str(tmp_path), checkpoint_location="c", on_table_error="quarantine")
