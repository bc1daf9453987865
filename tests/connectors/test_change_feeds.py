"""Changes of a lake to a topic: Delta's change data feed, as deltalake reads it, becomes records of several formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvformat.connectors import KafkaTable
from kvformat.registry.contract.errors import EncodeError
from kvformat.registry.table.change_types import KINDS, kinds_column, kinds_of
from tests.connectors.tables import upsert


def test_each_change_type_is_a_row_kind() -> None:
    assert kinds_of(pa.array([*KINDS])).to_pylist() == ["+I", "-U", "+U", "-D"] * 2
    with pytest.raises(EncodeError, match="column '_change_type' is upsert, but must be one of"):
        kinds_of(pa.array(["insert", "upsert"]))
    with pytest.raises(EncodeError, match="column '_change_type' is NULL"):
        kinds_of(pa.array([None], pa.string()))


@pytest.mark.parametrize(
    ("columns", "own", "found"),
    [
        (["id", "_change_type"], ["id"], "_change_type"),
        (["id", "_change_type", "row_kind"], ["id"], "row_kind"),
        (["id", "_change_type"], ["id", "_change_type"], None),
        (["id"], ["id"], None),
    ],
)
def test_a_column_of_the_table_is_no_row_kind(columns: list[str], own: list[str], found: str | None) -> None:
    assert kinds_column(columns, own) == found


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """The feed of a table with five commits: three rows, an update, an update of a key, a delete, and an insert."""
    deltalake = pytest.importorskip("deltalake")
    folder = str(tmp_path_factory.mktemp("delta"))
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "n": pa.array([10, 20, 30], pa.int64())})
    deltalake.write_deltalake(folder, rows, configuration={"delta.enableChangeDataFeed": "true"})
    table = deltalake.DeltaTable(folder)
    table.update(predicate="id = 1", updates={"n": "11"})
    table.update(predicate="id = 2", updates={"id": "4"})
    table.delete("id = 3")
    deltalake.write_deltalake(folder, rows.slice(2), mode="append")
    found = pa.table(deltalake.DeltaTable(folder).load_cdf())
    types = {pa.string_view(): pa.string(), pa.uint64(): pa.int64()}  # types that Spark does not take
    found = found.cast(pa.schema([field.with_type(types.get(field.type, field.type)) for field in found.schema]))
    assert set(found["_change_type"].to_pylist()) == {"insert", "update_preimage", "update_postimage", "delete"}
    return found


def frame(spark: Any, feed: pa.Table) -> Any:
    """The feed as rows of Spark, in another order than that of the commits."""
    shuffled = feed.take(list(range(len(feed)))[::-1])
    return spark.createDataFrame(shuffled.to_pandas()).repartition(3)


@pytest.mark.spark
@pytest.mark.services
def test_a_feed_becomes_an_upsert_topic(spark: Any, broker: Any, feed: pa.Table, tmp_path: Path) -> None:
    table = upsert(broker.bootstrap, broker.create("feed-upsert", 2))
    table.write(frame(spark, feed).selectExpr("CAST(id AS INT) id", "n", "_change_type", "_commit_version"))
    assert sorted(map(tuple, table.read(spark).collect())) == [(1, 11), (3, 30), (4, 20)]
    written = [(json.loads(m.key())["id"], m.value()) for m in broker.records("feed-upsert")]
    assert [value for key, value in written if key == 1] == [b'{"n":10}', b'{"n":11}'], "an update is one record"
    assert [value for key, value in written if key == 2] == [b'{"n":20}', None]
    assert [value for key, value in written if key == 3] == [b'{"n":30}', None, b'{"n":30}']


@pytest.mark.spark
@pytest.mark.services
@pytest.mark.parametrize("format", ["debezium-json", "canal-json", "maxwell-json", "ogg-json"])
def test_a_feed_becomes_changes_of_every_format(spark: Any, broker: Any, feed: pa.Table, format: str) -> None:
    options = {"connector": "kafka", "topic": broker.create(f"feed-{format}"), "format": format}
    options |= {"properties.bootstrap.servers": broker.bootstrap, "scan.startup.mode": "earliest-offset"}
    table = KafkaTable("id INT NOT NULL, n BIGINT", options, primary_key=["id"])
    rows = frame(spark, feed).selectExpr("CAST(id AS INT) id", "n", "_change_type", "_commit_version")
    table.write(rows)
    assert sorted(map(tuple, table.read(spark).collect())) == [(1, 11), (3, 30), (4, 20)]
    if format == "debezium-json":  # the data source writes them in the order of the rows
        one_task = rows.orderBy("_commit_version", "id", "_change_type").coalesce(1)
        other = table.with_options({"topic": broker.create("feed-by-source")})
        one_task.write.format("kvformat").option("ddl", other.kv.ddl).mode("append").save()
        expected = [m.value() for m in broker.records(f"feed-{format}")]
        assert sorted(m.value() for m in broker.records("feed-by-source")) == sorted(expected)
