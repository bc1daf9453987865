"""Tables of Delta Lake and Iceberg, with the real libraries. They need PySpark 4.1 and a session of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kvformat.ingestion import Pipeline
from kvformat.ingestion.apply import TargetTables
from kvformat.ingestion.behaviors import SchemaChangeBehavior
from kvformat.ingestion.errors import SchemaChangeError, UnsupportedChangeError
from kvformat.ingestion.schemas.events import AddColumns, AddedColumn, AlterColumnTypes, TruncateTable
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn
from kvformat.ingestion.schemas.types import parse_column_type
from kvformat.ingestion.targets.delta import DeltaTarget
from kvformat.ingestion.targets.iceberg import IcebergTarget
from kvformat.ingestion.targets.session_settings import shared_settings
from kvformat.ingestion.targets.sql import SqlTarget
from kvformat.ingestion.targets.target import BatchWrite, TableOptions, Target
from kvformat.ingestion.testing import TargetSuite
from kvformat.ingestion.testing.targets import table_schema
from kvformat.registry import KeyValueFormat
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.types import quoted
from tests.ingestion.history import BY_ID, SOURCE, expected, generated
from tests.support.sessions import FEW_PROCESSES, JAVA, LOCAL, QUICK, without_checksums

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]
KILLS = int(os.environ.get("KVFORMAT_CRASH_KILLS", "2"))
REQUIRED = "KVFORMAT_TEST_LAKES"
"""The environment variable with which scripts/test makes missing versions an error instead of a skip."""


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session whose own catalog has tables of Delta, and whose catalog `lake` has tables of Iceberg."""
    import pyspark
    from pyspark.sql import SparkSession

    from tests.support import services

    why = ""
    if not pyspark.__version__.startswith("4.1."):
        why = f"Delta 4.4.0 and Iceberg 1.12.0 run with PySpark 4.1, and this is {pyspark.__version__}"
    elif SparkSession.getActiveSession() is not None:
        why = "another test has started Spark without their extensions: run this file alone"
    if why:
        assert not os.environ.get(REQUIRED), why
        pytest.skip(why)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    folder = tmp_path_factory.mktemp("lakes")
    settings = {
        **LOCAL,
        **FEW_PROCESSES,
        **QUICK,
        "spark.driver.extraJavaOptions": f"{JAVA} -Dderby.system.home={folder}",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.jars": f"{services.jars('delta')},{services.jars('iceberg')},{services.kafka_jars()}",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",  # 50 tasks for each small log would be most of the time
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(folder / "lake"),
    }
    strict = {name.replace("catalog.lake", "catalog.strict"): value for name, value in settings.items()}
    settings |= {**strict, "spark.sql.catalog.strict.use-nullable-query-schema": "false"}
    session = SparkSession.builder.master("local[2]").appName("kvformat tests").config(map=settings).getOrCreate()
    without_checksums(session)
    yield session
    session.stop()


class LakeSuite(TargetSuite):
    keeps_required: ClassVar[bool] = True

    def read(self, target: Target, table: TableId) -> Any:
        assert isinstance(target, SqlTarget)
        parts = [*([target.catalog] if target.catalog else []), *table.parts]
        return target.spark.table(".".join(map(quoted, parts)))

    def test_it_passes_its_probe(self, target: Target) -> None:
        target.probe()

    def test_columns_have_their_places(self, target: Target) -> None:
        schema = table_schema("a INT", "b INT")
        table = self.created(target, schema)
        column = {name: SchemaColumn(name, parse_column_type("INT")) for name in "vwxyz"}
        added = (
            AddedColumn(column["v"], "FIRST"),
            AddedColumn(column["w"], "BEFORE", "b"),
            AddedColumn(column["x"], "AFTER", "w"),
            AddedColumn(column["y"]),
        )
        changed = self.change(target, AddColumns(table, added), schema)
        found = target.schema(table)
        assert found is not None
        assert found.columns.names == [*changed.names] == [*"vawxby"]

    def test_a_table_of_changes(self, target: Target) -> None:
        assert isinstance(target, SqlTarget)
        appending = type(target)(catalog=target.catalog, write_mode="append").with_session(target.spark)
        schema = table_schema("id INT", key=["id"])
        table = self.created(appending, schema)
        names = "id INT, row_kind STRING, _kvformat_topic STRING, _kvformat_partition INT, _kvformat_offset LONG"
        changes = [(1, "+I", "t", 0, 5, 0), (1, "-D", "t", 0, 6, 0)]
        rows = target.spark.createDataFrame(changes, f"{names}, row_index INT")
        for _ in range(2):
            appending.write(table, schema, rows, BatchWrite(self.query, 0))
        assert self.rows(appending, table) == changes
        found = appending.schema(table)
        assert found is not None
        assert found.columns.names == ["id"]

    def test_created_tables_have_partitions_properties_and_comments(self, target: Target) -> None:
        assert isinstance(target, SqlTarget)
        schema = table_schema("id INT", "day DATE", key=["id"])
        comment = 'it\'s \\ "the" key'
        columns = (SchemaColumn("id", schema.columns[0].type, comment=comment), replace(schema.columns[1], comment="d"))
        schema = type(schema)(columns, schema.primary_key)
        table = self.table()
        target.create(table, schema, TableOptions(("day",), {"owner.team": "o'hara"}), self.query)
        self.write(target, table, schema, [(1, None, "+U")])
        found = target.schema(table)
        assert found is not None
        assert found.columns["id"].metadata.get("comment") == comment
        assert not found.columns["id"].nullable
        name = target._name(table)
        assert target._properties(name)["owner.team"] == "o'hara"
        described = [row["col_name"] for row in target.spark.sql(f"DESCRIBE TABLE {name}").collect()]
        assert any("artition" in text for text in described)
        if target.size(name) is not None:
            event = AlterColumnTypes(table, (("day", parse_column_type("STRING")),))
            target.rewrite(table, event.apply(schema))
            assert self.rows(target, table) == [(1, None)]
            described = [row["col_name"] for row in target.spark.sql(f"DESCRIBE TABLE {name}").collect()]
            assert any("artition" in text for text in described), "a rewritten table keeps its partitions"
            assert target._properties(name)["owner.team"] == "o'hara"
            kept = {column.name: column.metadata.get("comment") for column in target._columns(name).fields}
            assert kept == {"id": comment, "day": "d"}

    def test_key_columns_stay_required(self, target: Target, caplog: pytest.LogCaptureFixture) -> None:
        """A rewritten table refuses a null in its key, and its key can be widened again."""
        assert isinstance(target, SqlTarget)
        schema = table_schema("v INT", "id INT", "the key INT", key=["id", "the key"])
        table = self.created(target, schema)
        name = target._name(table)
        self.write(target, table, schema, [(1, 2, 3, "+U")])
        for change in ({"v": "STRING"}, {"id": "BIGINT NOT NULL"}, {"the key": "STRING NOT NULL"}):
            event = AlterColumnTypes(table, tuple((c, parse_column_type(t)) for c, t in change.items()))
            schema = event.apply(schema)
            try:
                target.change(event, schema, BatchWrite(self.query, 1))
            except UnsupportedChangeError:
                target.rewrite(table, schema)
        assert self.rows(target, table) == [("1", 2, "3")]
        assert [t for _, t in self.read(target, table).dtypes] == ["string", "bigint", "string"]
        for values in ("('x', NULL, 'y')", "('x', 5, NULL)"):
            if self.keeps_required:
                with pytest.raises(Exception, match=r"(?i)null"):
                    target.spark.sql(f"INSERT INTO {name} VALUES {values}")
        assert self.keeps_required or "columns id, the key are no longer NOT NULL" in caplog.text

    def test_a_change_that_fails_names_the_statement(self, target: Target) -> None:
        assert isinstance(target, SqlTarget)
        schema = table_schema("id INT", "v INT", key=["id"])
        table = self.created(target, schema)
        event = AddColumns(table, (AddedColumn(SchemaColumn("ID", parse_column_type("INT"))),))  # names fold case
        with pytest.raises(SchemaChangeError, match=rf"{table}: add\.column fails: ALTER TABLE .* ADD COLUMNS .*: \S"):
            target.change(event, schema, BatchWrite(self.query, 1))

    def test_changed_options_of_a_table_are_told(self, target: Target, caplog: pytest.LogCaptureFixture) -> None:
        assert isinstance(target, SqlTarget)
        schema = table_schema("id INT", "day DATE", key=["id"])
        table, options = self.table(), TableOptions(("day",), {"owner.team": "a"})
        for later, told in ((options, ""), (TableOptions((), {"owner.team": "b"}), "owner.team, partition-keys")):
            tables = TargetTables(target, SchemaChangeBehavior.LENIENT, self.query, take_over=False)
            tables.ready(table, schema, options)
            caplog.clear()
            again = TargetTables(target, SchemaChangeBehavior.LENIENT, self.query, take_over=False)
            again.ready(table, schema, later)
            assert (f"the changed {told} of its transform" in caplog.text) is bool(told), caplog.text

    def test_a_change_beside_writes_of_other_tables_is_not_a_write(self, target: Target) -> None:
        """Writes of other tables give the session their position, which is that of the table's own write, too."""
        assert isinstance(target, SqlTarget)
        batch = BatchWrite(self.query, 3)
        schema = table_schema("id INT", "v INT", key=["id"])
        table = self.created(target, schema)
        position = target.position_settings(self.query, batch.position(1))
        if position is None:
            pytest.skip("the catalog keeps the positions of appends only")
        added = AddColumns(table, (AddedColumn(SchemaColumn("w", parse_column_type("INT"))),))
        wider = AlterColumnTypes(table, (("v", parse_column_type("STRING")),))

        def change() -> None:
            target.change(added, added.apply(schema), batch)
            target.rewrite(table, wider.apply(added.apply(schema)))

        with ThreadPoolExecutor(1) as pool:
            with shared_settings(target.spark, self.query, position):
                changed = pool.submit(change)
                with pytest.raises(TimeoutError):
                    changed.result(3)
            changed.result(120)
        self.write(target, table, wider.apply(added.apply(schema)), [(1, "a", 2, "+U")], 3)
        assert self.rows(target, table) == [(1, "a", 2)]

    def test_a_large_table_is_not_rewritten(self, target: Target) -> None:
        assert isinstance(target, SqlTarget)
        small = type(target)(catalog=target.catalog, rewrite_max_bytes=10).with_session(target.spark)
        schema = table_schema("id INT", key=["id"])
        table = self.created(small, schema)
        self.write(small, table, schema, [(1, "+U")])
        event = AlterColumnTypes(table, (("id", parse_column_type("STRING NOT NULL")),))
        with pytest.raises(UnsupportedChangeError, match=r"'id' from INT to STRING in place \(ALTER .* TYPE STRING"):
            small.change(event, event.apply(schema), BatchWrite(self.query, 1))
        with pytest.raises(UnsupportedChangeError, match=r"It has [\d,]+ bytes.*'rewrite.max-bytes' is 10.*'broaden'"):
            small.rewrite(table, event.apply(schema))


class TestDeltaTarget(LakeSuite):
    table_names: ClassVar[tuple[str, ...]] = ("select",)  # Spark's own catalog takes no others

    @pytest.fixture
    def target(self, lakes: Any) -> Target:
        return DeltaTarget().with_session(lakes)

    def test_delta_leaves_out_a_late_merge(self, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
        """The guard does not depend on the look at the history, which is not one transaction with the merge."""
        schema = table_schema("id INT", "v INT", key=["id"])
        table = self.created(target, schema)
        for batch in (1, 2):
            self.write(target, table, schema, [(1, batch, "+U")], batch)
        monkeypatch.setattr(DeltaTarget, "written", lambda *_: -1)
        self.write(target, table, schema, [(1, 1, "+U")], 1)
        self.change(target, TruncateTable(table), schema, 1)
        assert self.rows(target, table) == [(1, 2)]
        self.write(target, table, schema, [(1, 3, "+U")], 3)
        assert self.rows(target, table) == [(1, 3)]

    def test_names_that_the_catalog_refuses_or_folds(self, target: Target) -> None:
        with pytest.raises(SchemaChangeError, match=r"'a-b' can't be a name in Spark's own catalog.*route it"):
            target.schema(TableId(("a-b",)))
        table = self.created(target, table_schema("id INT"), "fold")
        upper = TableId((table.parts[0], table.parts[1].upper()))
        with pytest.raises(SchemaChangeError, match=r"the catalog has it already, as .*: it folds case"):
            target.create(upper, table_schema("id INT"), TableOptions(), self.query)
        joined = TableId(("kvformat", "suite", table.parts[1]))
        with pytest.raises(SchemaChangeError, match=r"or joins namespaces\. Route one of them"):
            target.schema(joined)


class TestIcebergTarget(LakeSuite):
    keeps_required: ClassVar[bool] = False

    @pytest.fixture
    def target(self, lakes: Any) -> Target:
        return IcebergTarget(catalog="lake").with_session(lakes)

    def test_key_columns_stay_required_in_a_strict_catalog(self, lakes: Any, caplog: pytest.LogCaptureFixture) -> None:
        LakeSuite().test_key_columns_stay_required(IcebergTarget(catalog="strict").with_session(lakes), caplog)

    def test_namespaces_are_nested(self, target: Target, lakes: Any) -> None:
        nested = IcebergTarget(catalog="lake", namespace="one.two").with_session(lakes)
        schema = table_schema("id INT", key=["id"])
        table = self.created(nested, schema)
        self.write(nested, table, schema, [(1, "+U")])
        assert lakes.sql(f"SELECT * FROM lake.one.two.kvformat_suite.{table.table}").collect() == [(1,)]


@dataclass(frozen=True)
class ExampleTarget(SqlTarget):
    """A target of another package for a catalog that widens nothing in place, and tells the sizes of its tables."""

    identifier: ClassVar[str] = "example"
    provider: str | None = "iceberg"

    def size(self, name: str) -> int | None:
        return 0

    def kept_properties(self, properties: Any) -> dict[str, str]:
        return {key: value for key, value in properties.items() if key.startswith(("kvformat.", "owner."))}


class TestExampleTarget(LakeSuite):
    keeps_required: ClassVar[bool] = False
    orders_merges: ClassVar[bool] = False

    @pytest.fixture
    def target(self, lakes: Any) -> Target:
        return ExampleTarget(catalog="lake", provider="iceberg").with_session(lakes)

    def test_a_large_table_is_not_rewritten(self, target: Target) -> None:
        table = self.created(
            SqlTarget(catalog="lake", provider="iceberg").with_session(target.spark), table_schema("a INT")
        )
        with pytest.raises(UnsupportedChangeError, match="It has an unknown size"):
            SqlTarget(catalog="lake").with_session(target.spark).rewrite(table, table_schema("a STRING"))


# --- queries ---------------------------------------------------------------------------------------------------

_SINKS: list[dict[str, str]] = [{"type": "delta"}, {"type": "iceberg", "catalog": "lake"}]


def _run(pipeline: Pipeline, lakes: Any, folder: Path, **more: Any) -> None:
    query = pipeline.start(lakes, checkpoint_location=folder, trigger={"availableNow": True}, **more)
    assert query.awaitTermination(500), "the query did not end"
    if query.exception() is not None:
        raise query.exception()


@pytest.mark.parametrize("sink", _SINKS, ids=lambda sink: sink["type"])
def test_a_history_of_a_topic(lakes: Any, broker: Any, tmp_path: Path, sink: dict[str, str]) -> None:
    """Columns are added and get wider types, rows are changed and deleted, in three runs of a query."""
    history = generated(11, 75)
    topic = broker.create(f"history-{sink['type']}", 3)
    source = {**SOURCE, "topic": topic, "properties.bootstrap.servers": broker.bootstrap}
    pipeline = Pipeline(source, {**sink, "namespace": "history"}, transform=BY_ID)
    for records in history.batches(40):
        for partition in range(3):
            broker.send(topic, [(None, r[1]) for r in records if r[3] == partition], partition=partition)
        _run(pipeline, lakes, tmp_path)
    compared, types = 0, set()
    for name in history.tables:
        where = f"lake.history.{name}" if "catalog" in sink else name.replace("shop.", "history_shop.")
        found = lakes.table(where)
        types |= {t for _, t in found.dtypes}
        rows = {row["id"]: row for row in found.toArrow().to_pylist()}
        assert rows == expected(history, name, dict(found.dtypes)), name
        compared += len(rows)
    assert compared >= 5
    assert types >= {"bigint", "double", "string"}  # columns of all these got wider


_IN_MEMORY = """
import logging, sys
from pathlib import Path
from kvformat.ingestion import Pipeline
from tests.connectors.crashes import session
from tests.ingestion.crashes import lake_settings
from tests.ingestion.history import BY_ID

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
folder, bootstrap, topic = Path(sys.argv[1]), *sys.argv[2:4]
settings = lake_settings("delta", folder) | {"spark.sql.catalogImplementation": "in-memory"}
spark = session(**settings)
source = {"type": "kafka", "topic": topic, "properties.bootstrap.servers": bootstrap}
source |= {"scan.startup.mode": "earliest-offset", "value.format": "debezium-json"}
pipeline = Pipeline(source, {"type": "delta"}, transform=BY_ID)
query = pipeline.start(spark, checkpoint_location=folder / "checkpoint", trigger={"availableNow": True}, probe=False)
query.awaitTermination()
if query.exception() is not None:
    raise query.exception()
rows = {name: sorted(row.id for row in spark.table(f"shop.{name}").collect()) for name in ("orders", "items")}
print("ROWS", *(part for pair in rows.items() for part in pair))
"""


@pytest.mark.usefixtures("lakes")
def test_a_catalog_in_memory_gets_its_tables_back(broker: Any, tmp_path: Path) -> None:
    """PySpark's default catalog forgets all tables when its session ends; their files stay."""
    topic, outputs = broker.create("in-memory"), []
    for number in range(2):
        for table in ("orders", "items"):
            source = {"db": "shop", "table": table}
            message = {"before": None, "after": {"id": number}, "op": "c", "source": source}
            broker.send(topic, [(None, json.dumps(message).encode())])
        command = [sys.executable, "-c", _IN_MEMORY, str(tmp_path), broker.bootstrap, topic]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout + run.stderr[-5000:]
        outputs.append(run.stdout)
        shutil.rmtree(tmp_path / "warehouse" / "shop.db" / "items")
    assert "ROWS orders [0] items [0]" in outputs[0]
    assert "forgotten" not in outputs[0]
    assert "had forgotten the table `shop`.`orders`; it is registered again, with its rows" in outputs[1]
    lost = "forgotten these tables of the query, and their files are not where"
    assert [line.endswith(": shop.items") for line in outputs[1].splitlines() if lost in line] == [True]
    assert "ROWS orders [0, 1] items [1]" in outputs[1]


def test_a_catalog_that_loses_its_rows_is_refused(lakes: Any) -> None:
    setting = "spark.sql.catalog.lost.catalog-impl"
    lakes.conf.set(setting, "org.apache.iceberg.inmemory.InMemoryCatalog")
    with pytest.raises(ConfigurationError, match=rf"{setting} is .*InMemoryCatalog: its tables end with the session"):
        IcebergTarget(catalog="lost").with_session(lakes).probe()


@pytest.mark.usefixtures("lakes")
@pytest.mark.parametrize(("target", "mode"), [("delta", "merge"), ("iceberg", "append")])
def test_a_killed_query_loses_nothing_and_writes_nothing_twice(target: str, mode: str) -> None:
    """In processes of their own, because the tables have a catalog of their own."""
    command = [sys.executable, "-m", "tests.ingestion.crashes", "--kills", str(KILLS)]
    command += ["--target", target, "--write-mode", mode]
    command += ["--batch", "36", "--spare", "1"]  # a batch of a table takes seconds, of any number of records
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr[-9000:]
    report = json.loads(run.stdout)
    assert sum(report["kills"].values()) == KILLS
    assert report["mid_batch"] > 0
    assert report["rows"] >= 10


@pytest.mark.parametrize("sink", _SINKS, ids=lambda sink: sink["type"])
def test_what_a_target_can_not_do_is_left_out_by_try_evolve(
    lakes: Any, broker: Any, tmp_path: Path, sink: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    topic, dead = broker.create(f"try-{sink['type']}"), tmp_path / "dead"
    source = {
        **SOURCE,
        "topic": topic,
        "properties.bootstrap.servers": broker.bootstrap,
        "value.format": "json",
        "ingestion.ignore-errors": "true",
    }
    settings = {"schema.change.behavior": "try_evolve"}
    pipeline = Pipeline(
        source,
        {**sink, "namespace": "tries"},
        route=[{"source-table": topic, "sink-table": "t"}],
        transform=[{"source-table": topic, "primary-keys": "id"}],
        pipeline=settings,
    )
    broker.send(topic, [(None, b'{"id":1,"v":5}')])
    _run(pipeline, lakes, tmp_path / "checkpoint", dead_letters=str(dead))
    broker.send(topic, [(None, b'{"id":%d,"v":%b,"w":"x"}' % row) for row in ((2, b'"text"'), (3, b'"7"'), (4, b"8"))])
    _run(pipeline, lakes, tmp_path / "checkpoint", dead_letters=str(dead))
    found = lakes.table("lake.tries.t" if "catalog" in sink else "tries.t")
    assert found.dtypes == [("id", "bigint"), ("v", "bigint"), ("w", "string")]
    assert sorted(map(tuple, found.collect())) == [(1, 5, None), (3, 7, "x"), (4, 8, "x")]
    (letter,) = lakes.read.parquet(str(dead)).collect()
    assert (letter["code"], letter["offset"], letter["table"]) == ("SCHEMA", 1, topic)
    assert "alter.column.type is left out, rows are fitted to the table" in caplog.text


def test_a_table_that_is_maintained_takes_batches_of_a_new_checkpoint(lakes: Any) -> None:
    table = KeyValueFormat("id INT NOT NULL, v INT", {"value.format": "debezium-json"}, primary_key=["id"])
    merge = DeltaTarget().merging(table, "maintained")
    for batch, v in ((7, 1), (0, 2)):
        merge(lakes.sql(f"SELECT 1 AS id, {v} AS v, '+U' AS row_kind"), batch)
    assert lakes.table("default.maintained").collect() == [(1, 2)]


def test_a_failed_probe_names_the_versions(lakes: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"tables of nowhere.*spark.sql.catalog.nowhere.*PySpark 4\.1"):
        DeltaTarget(catalog="nowhere").with_session(lakes).probe()


def test_a_table_of_others_is_not_rewritten(lakes: Any, tmp_path: Path) -> None:
    lakes.sql("CREATE TABLE default.others (id INT) USING delta")
    target = DeltaTarget(namespace="default").with_session(lakes)
    target.own(TableId(("others",)), "q")
    found = target.schema(TableId(("others",)))
    assert found is not None
    assert found.owner == "q"
    with pytest.raises(UnsupportedChangeError, match="the ingestion has not created it: change it by hand"):
        target.rewrite(TableId(("others",)), table_schema("id STRING"))
