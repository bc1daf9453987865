"""`kvformat ingest`, `kvformat schemas` and `kvformat tables` as users see them."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from kvformat.ingestion import BatchWrite, DeltaPathTarget, TableOptions, cli, read_table
from kvformat.ingestion.local_store import LocalSchemaStore
from kvformat.ingestion.pipeline.source import parse_source
from kvformat.ingestion.schemas.events import (
    AddColumns,
    AddedColumn,
    AlterColumnTypes,
    CreateTable,
    DropColumns,
    DropTable,
    RenameColumns,
    TruncateTable,
)
from kvformat.ingestion.schemas.known import BatchPlan, IngestState, SourceTable
from kvformat.ingestion.schemas.state import Cause, CausedEvent, SchemaState
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.ingestion.schemas.types import parse_column_type
from kvformat.ingestion.store import SchemaStore
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.look import KnownTable
from kvformat.registry.streams.delta.files import write_file
from kvformat.registry.streams.delta.log import DeltaLog, WriterTransaction
from tests.support.cli import run

_SECRET = "sesame"
_YAML = """\
source:
  type: kafka
  properties.bootstrap.servers: ${kafka.bootstrap}
  properties.sasl.jaas.config: m required password="${secret_values.kafka}";
  topic: shop
  scan.startup.mode: earliest-offset
sink:
  type: delta
  path: /lake
"""


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SECRET_VALUES_KAFKA", _SECRET)
    file = tmp_path / "pipeline.yaml"
    file.write_text(_YAML)
    return file


# --- ingest ----------------------------------------------------------------------------------------------------


def test_explain_starts_nothing_and_shows_no_secret(pipeline: Path) -> None:
    for file, given in ((pipeline, ""), ("-", _YAML)):
        result = run("ingest", file, "--explain", "--set", "kafka.bootstrap=b:1", given=given)
        assert (result.exit_code, result.stderr) == (0, "")
        assert "Source: kafka, topics shop" in result.stdout
        assert "'b:1'" in result.stdout
        assert _SECRET not in result.output
    assert "'b:1=x=y'" in run("ingest", pipeline, "--explain", "--set", "kafka.bootstrap=b:1=x=y").stdout
    told = json.loads(run("ingest", pipeline, "--explain", "--json", "--set", "kafka.bootstrap=b:1").stdout)
    assert told["refused"] == []
    assert told["explain"].startswith("Pipeline\nSource: kafka")


@pytest.mark.parametrize(
    ("arguments", "change", "words"),
    [
        (["--explain"], None, "the variable 'kafka.bootstrap' has no value. Set it with --set"),
        (["--set", "kafka.bootstrap"], None, "--set needs NAME=VALUE"),
        (["--set", "kafka.bootstrap=b:1"], None, "--checkpoint DIR is missing"),
        (["--set", "kafka.bootstrap=b:1", "--checkpont", "x"], None, "--checkpoint"),
        (["--set", "kafka.bootstrap=b:1"], ("topic:", "tpoic:"), "Did you mean 'topic'?"),
        (
            ["--set", "kafka.bootstrap=b:1", "--checkpoint", "x"],
            ("type: delta\n  path: /lake", "type: hologres"),
            "the pipeline can't be started: sink 'hologres' is not supported",
        ),
        (["--set", "kafka.bootstrap=b:1", "--checkpoint", "x", "--conf", "spark"], None, "--conf needs NAME=VALUE"),
    ],
)
def test_errors_before_anything_starts(
    pipeline: Path, arguments: list[str], change: tuple[str, str] | None, words: str
) -> None:
    if change is not None:
        pipeline.write_text(_YAML.replace(*change))
    result = run("ingest", pipeline, *arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert _SECRET not in result.output


def test_a_refused_pipeline_is_explained_with_status_2(pipeline: Path) -> None:
    pipeline.write_text(_YAML.replace("type: delta\n  path: /lake", "type: hologres"))
    result = run("ingest", pipeline, "--explain", "--set", "kafka.bootstrap=b:1")
    assert result.exit_code == 2
    assert "Refused, this pipeline can't be started:" in result.stdout


# --- ingest of SQL ---------------------------------------------------------------------------------------------

_SQL = """\
-- a job
CREATE TABLE {name} (`offset` BIGINT METADATA, PRIMARY KEY (`offset`) NOT ENFORCED) WITH (
  'connector' = 'kafka', 'topic' = '{name}', 'properties.bootstrap.servers' = '${{kafka.bootstrap}}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json'
);
CREATE TABLE IF NOT EXISTS lake.{name} WITH ('connector' = '{target}', 'path' = '/lake') AS TABLE {name};
"""
_BROKER = ("--set", "kafka.bootstrap=b:1")


def _sql(*names: str, target: str = "delta") -> str:
    return "".join(_SQL.format(name=name, target=target) for name in names)


def test_a_job_of_sql_is_explained(tmp_path: Path) -> None:
    for name, given in (("job.sql", ""), ("job.txt", ""), ("-", _sql("orders"))):
        if name != "-":
            (tmp_path / name).write_text(_sql("orders"))
        result = run("ingest", name if given else tmp_path / name, "--explain", *_BROKER, given=given)
        assert (result.exit_code, result.stderr) == (0, "")
        assert "Source 'orders': kafka, topics orders" in result.stdout
    several = run("ingest", "-", "--explain", "--json", *_BROKER, given=_sql("orders", "items"))
    assert [json.loads(line)["follows"] for line in several.stdout.splitlines()] == ["orders", "items"]
    one = run("ingest", "-", "--explain", "--table", "items", *_BROKER, given=_sql("orders", "items"))
    assert one.stdout.startswith("Pipeline\nSource 'items'")
    refused = _sql("items", target="hologres")
    for text in (refused, _sql("orders") + refused, refused + _sql("orders")):
        assert run("ingest", "-", "--explain", *_BROKER, given=text).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "text", "words"),
    [
        ((), _sql("orders"), "line 3, column 46: the variable 'kafka.bootstrap' has no value. Set it with --set"),
        (_BROKER, _sql("orders"), "--checkpoint DIR is missing"),
        ((*_BROKER, "--table", "order"), _sql("orders"), "follows no table 'order'. Did you mean 'orders'?"),
        ((*_BROKER, "--table", "orders"), _YAML, "--table chooses a query of a job of SQL"),
        (_BROKER, "CREATE TABLE t (id INT) WITH ('a' = 'b')", "has no CREATE TABLE ... AS TABLE"),
        (
            (*_BROKER, "--checkpoint", "x"),
            _sql("orders", "items", target="hologres"),
            "the pipeline that follows 'orders' can't be started: the connector 'hologres'",
        ),
    ],
)
def test_errors_of_a_job_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], text: str, words: str
) -> None:
    monkeypatch.setenv("SECRET_VALUES_KAFKA", _SECRET)
    result = run("ingest", "-", *arguments, given=text)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


# --- tables ----------------------------------------------------------------------------------------------------


def test_tables_are_shown_with_their_last_batch(tmp_path: Path) -> None:
    assert "there are no Delta tables at" in run("tables", tmp_path).stderr
    target = DeltaPathTarget(str(tmp_path))
    schema = TableSchema((SchemaColumn("id", parse_column_type("INT")),))
    for name in ("a.b", "c"):
        target.create(TableId(("shop", name)), schema, TableOptions(), "q")
    write_deltalake(tmp_path / "foreign", pa.table({"id": [1, 2]}))
    storage = target.folder(TableId(("shop", "c"))).storage
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32())})
    log = DeltaLog.open(storage)
    assert log is not None
    log.commit([write_file(storage, rows)], [], WriterTransaction("kvformat q", BatchWrite("q", 7).position(1)))
    target.change(DropTable(TableId(("shop", "a.b"))), schema, BatchWrite("q", 0))
    (tmp_path / "other").mkdir()
    lines = [line.split() for line in run("tables", tmp_path).stdout.splitlines()]
    assert lines[0] == ["table", "rows", "files", "bytes", "version", "batch", "last", "file"]
    assert [line[:3] for line in lines[1:]] == [["foreign", "2", "1"], ["shop.c", "3", "1"]]
    found = [json.loads(line) for line in run("tables", tmp_path, "--json").stdout.splitlines()]
    assert [(t["table"], t["rows"], t["version"], t["batch"]) for t in found] == [
        ("foreign", 2, 0, None),
        ("shop.c", 3, 1, 7),
    ]


def test_a_table_of_which_one_file_does_not_say_its_rows_has_an_unknown_number(tmp_path: Path) -> None:
    target, table = DeltaPathTarget(str(tmp_path)), TableId(("t",))
    target.create(table, TableSchema((SchemaColumn("id", parse_column_type("INT")),)), TableOptions(), "q")
    storage, rows = target.folder(table).storage, pa.table({"id": pa.array([1, 2, 3], pa.int32())})
    log = DeltaLog.open(storage)
    assert log is not None
    files = [write_file(storage, rows), replace(write_file(storage, rows), stats="{}")]
    log.commit(files, [], WriterTransaction("kvformat q", 1))
    (found,) = [json.loads(line) for line in run("tables", tmp_path, "--json").stdout.splitlines()]
    assert (found["rows"], found["files"]) == (None, 2)
    assert run("tables", tmp_path).stdout.splitlines()[1].split()[:3] == ["t", "?", "2"]


def test_tables_are_in_order_with_the_bytes_of_all_files_and_the_time_of_the_last(tmp_path: Path) -> None:
    target, rows = DeltaPathTarget(str(tmp_path)), pa.table({"id": pa.array([1], pa.int32())})
    for name in ("t.b", "T", "t"):
        table = TableId((name,))
        target.create(table, TableSchema((SchemaColumn("id", parse_column_type("INT")),)), TableOptions(), "q")
        storage = target.folder(table).storage
        log = DeltaLog.open(storage)
        assert log is not None
        files = [replace(write_file(storage, rows), written=time, size=9) for time in (2_000, 7_000, 5_000)]
        log.commit(files, [], WriterTransaction("kvformat q", 1))
    found = [json.loads(line) for line in run("tables", tmp_path, "--json").stdout.splitlines()]
    assert [each["table"] for each in found] == ["T", "t", "t.b"]
    assert {(each["files"], each["bytes"], each["written"]) for each in found} == {(3, 27, "1970-01-01 00:00:07+00:00")}


def test_the_time_of_the_last_file_is_in_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_deltalake(tmp_path / "t", pa.table({"id": [1]}))
    times = []
    try:
        for zone in ("Asia/Tokyo", "UTC"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            times.append(json.loads(run("tables", tmp_path, "--json").stdout)["written"])
    finally:
        monkeypatch.undo()
        time.tzset()
    assert times[0] == times[1]
    assert times[0].endswith("+00:00")


# --- schemas ---------------------------------------------------------------------------------------------------


ORDERS, NOTES = TableId(("shop", "orders")), TableId(("a.b.c.d",))


def _schema(columns: str, *key: str) -> TableSchema:
    pairs = (column.strip().split(" ", 1) for column in columns.split(";"))
    return TableSchema(tuple(SchemaColumn(name, parse_column_type(text)) for name, text in pairs), key)


@pytest.fixture
def checkpoint(spark: Any, tmp_path: Path) -> Path:
    """A checkpoint with two batches of changes, and a table in quarantine."""
    first, second = _schema("id BIGINT NOT NULL; v INT", "id"), _schema("id BIGINT NOT NULL; v DOUBLE; w DATE", "id")
    value = KnownTable({c.name: c.type for c in second.columns}, key=("id",))
    other = SourceTable(KnownTable({"we`ird": parse_column_type("DECIMAL(5, 2)")}))
    before = IngestState(
        {ORDERS: SourceTable(KnownTable({c.name: c.type for c in first.columns}, key=("id",)))},
        SchemaState({ORDERS: first}, {TableId(("ods", "orders")): first}),
    )
    after = IngestState(
        {ORDERS: SourceTable(value), NOTES: other},
        SchemaState({ORDERS: second, NOTES: _schema("n DECIMAL(5, 2)")}, {TableId(("ods", "orders")): second}),
        {NOTES: "its key changed"},
    )
    store = SchemaStore(spark, str(tmp_path))
    store.write(0, IngestState(), BatchPlan(before, (CausedEvent(CreateTable(ORDERS, first), Cause("shop", 0, 7)),)))
    added = AddColumns(ORDERS, (AddedColumn(second.columns[2]),))
    wider = AlterColumnTypes(ORDERS, (("v", second.columns[1].type),))
    caused = tuple(CausedEvent(event, Cause("shop", 1, 9)) for event in (added, wider))
    store.write(1, before, BatchPlan(after, caused))
    return tmp_path


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a command fail that starts Spark."""
    for name in cli._ELSEWHERE:
        monkeypatch.delenv(name, raising=False)

    def refused(_: Any) -> Any:
        raise ConfigurationError("the command starts Spark")

    monkeypatch.setattr(cli, "_session", refused)


@pytest.mark.spark
@pytest.mark.once
def test_schemas_show_tables_history_and_ddl(checkpoint: Path, no_session: None) -> None:
    assert run("schemas", checkpoint).stdout.splitlines() == [
        "kind    table        columns  key  state",
        "source  a.b.c.d      1             quarantined: its key changed",
        "source  shop.orders  3        id",
        "target  ods.orders   3        id",
    ]
    assert run("schemas", checkpoint, "shop.orders").stdout.splitlines() == [
        "of the  column  type",
        "source  id      BIGINT NOT NULL  key",
        "source  v       DOUBLE",
        "source  w       DATE",
    ]
    assert run("schemas", checkpoint, "--history").stdout.splitlines() == [
        "batch  table        change             columns                    caused by",
        "0      shop.orders  create.table       id BIGINT NOT NULL, v INT  shop, partition 0, offset 7",
        "1      shop.orders  add.column         w DATE                     shop, partition 1, offset 9",
        "1      shop.orders  alter.column.type  v DOUBLE                   shop, partition 1, offset 9",
    ]
    rows = [json.loads(line) for line in run("schemas", checkpoint, "--history", "--json").stdout.splitlines()]
    assert [(row["batch"], row["cause"]["offset"]) for row in rows] == [(0, 7), (1, 9), (1, 9)]
    tables = [json.loads(line) for line in run("schemas", checkpoint, "--json").stdout.splitlines()]
    assert [(t["kind"], t["quarantined"]) for t in tables] == [
        ("source", "its key changed"),
        ("source", None),
        ("target", None),
    ]


@pytest.mark.spark
@pytest.mark.once
def test_the_ddl_is_read_as_first_schemas(checkpoint: Path) -> None:
    ddl = run("schemas", checkpoint, "--ddl").stdout
    source = {
        "type": "kafka",
        "topic": "t",
        "properties.bootstrap.servers": "b:1",
        "scan.startup.mode": "earliest-offset",
        "scan.value.initial-schemas.ddls": ddl,
    }
    tables = parse_source(source).schemas
    assert list(tables) == [NOTES, ORDERS]
    assert [str(column.type) for column in tables[ORDERS].columns] == ["BIGINT NOT NULL", "DOUBLE", "DATE"]
    assert tables[ORDERS].primary_key == ("id",)
    assert [(column.name, str(column.type)) for column in tables[NOTES].columns] == [("we`ird", "DECIMAL(5, 2)")]
    assert run("schemas", checkpoint, "shop.orders", "--ddl").stdout in ddl


def test_the_ddl_has_no_tables_and_keys_without_columns(tmp_path: Path, no_session: None) -> None:
    """Their columns had no value yet. A statement needs columns, also those of the key, so nothing could be read."""
    types = {"v": parse_column_type("INT"), "id": parse_column_type("INT")}
    tables = {
        ORDERS: KnownTable(types, key=("id",)),
        TableId(("shop", "half")): KnownTable({"v": types["v"]}, key=("v", "id")),
        NOTES: KnownTable({}, key=("id",)),
    }
    state = IngestState({table: SourceTable(known) for table, known in tables.items()})
    LocalSchemaStore(tmp_path).write(0, IngestState(), BatchPlan(state))
    assert run("schemas", tmp_path, "--ddl").stdout.splitlines() == [
        "CREATE TABLE `shop`.`half` (`v` INT);",
        "CREATE TABLE `shop`.`orders` (`v` INT, `id` INT NOT NULL, PRIMARY KEY (`id`) NOT ENFORCED)",
    ]
    lines = run("schemas", tmp_path, "--ddl", "--json").stdout.splitlines()
    assert [json.loads(line)["table"] for line in lines] == ["shop.half", "shop.orders"]
    without = run("schemas", tmp_path, NOTES, "--ddl")
    assert (without.exit_code, "no table 'a.b.c.d' is known with columns" in without.stderr) == (2, True)


def test_a_target_with_the_name_of_a_source_is_not_in_quarantine(tmp_path: Path, no_session: None) -> None:
    """A source may get there before it has columns."""
    schema = _schema("id BIGINT; v INT", "id")
    state = IngestState({}, SchemaState({ORDERS: schema}, {ORDERS: schema}), {ORDERS: "its key changed", NOTES: "why"})
    LocalSchemaStore(tmp_path).write(0, IngestState(), BatchPlan(state, ()))
    shown = [re.split("  +", line) for line in run("schemas", tmp_path).stdout.splitlines()]
    assert shown[1:] == [
        ["source", "a.b.c.d", "0", "quarantined: why"],
        ["source", "shop.orders", "2", "id", "quarantined: its key changed"],
        ["target", "shop.orders", "2", "id"],
    ]
    told = [json.loads(line) for line in run("schemas", tmp_path, "--json").stdout.splitlines()]
    assert [table["quarantined"] for table in told] == ["why", "its key changed", None]


def test_the_history_of_one_table_has_each_kind_of_change(tmp_path: Path, no_session: None) -> None:
    changes = (
        CreateTable(ORDERS, _schema("id BIGINT; v INT")),
        CreateTable(NOTES, _schema("n INT")),
        RenameColumns(ORDERS, (("v", "w"),)),
        DropColumns(NOTES, ("n",)),
        DropColumns(ORDERS, ("w",)),
        TruncateTable(ORDERS),
    )
    causes = (None, *(Cause("t", 0, offset) for offset in range(5)))
    state = IngestState({}, SchemaState({}, {ORDERS: _schema("id BIGINT")}))
    caused = tuple(CausedEvent(event, cause) for event, cause in zip(changes, causes, strict=True))
    LocalSchemaStore(tmp_path).write(3, IngestState(), BatchPlan(state, caused))
    shown = [
        re.split("  +", line.rstrip()) for line in run("schemas", tmp_path, ORDERS, "--history").stdout.splitlines()
    ]
    assert shown[1:] == [
        ["3", "shop.orders", "create.table", "id BIGINT, v INT", "declared"],
        ["3", "shop.orders", "rename.column", "v to w", "t, partition 0, offset 1"],
        ["3", "shop.orders", "drop.column", "w", "t, partition 0, offset 3"],
        ["3", "shop.orders", "truncate.table", "t, partition 0, offset 4"],
    ]
    told = [json.loads(line) for line in run("schemas", tmp_path, NOTES, "--history", "--json").stdout.splitlines()]
    assert [change["cause"]["offset"] for change in told] == [0, 2]
    unknown = run("schemas", tmp_path, "shop.oders", "--history")
    assert (unknown.exit_code, "Did you mean 'shop.orders'?" in unknown.stderr) == (2, True)


@pytest.mark.spark
@pytest.mark.once
def test_a_table_is_released_from_quarantine(spark: Any, checkpoint: Path, no_session: None) -> None:
    wrong = run("schemas", checkpoint, "--release", "shop.orders")
    assert (wrong.exit_code, "no table 'shop.orders' is in quarantine" in wrong.stderr) == (2, True)
    assert "table a.b.c.d is released; start the query again" in run("schemas", checkpoint, "--release", NOTES).stderr
    assert "quarantined" not in run("schemas", checkpoint).stdout
    assert not SchemaStore(spark, str(checkpoint)).load()[0].quarantined


@pytest.mark.parametrize(
    ("path", "variable", "conf", "starts"),
    [
        ("here", "", "", False),
        ("file:{}/here", "", "", False),
        ("here", "HADOOP_CONF_DIR", "", False),
        ("here", "SPARK_REMOTE", "", True),  # the server has another file system
        ("nowhere", "", "", False),
        ("nowhere", "HADOOP_CONF_DIR", "", True),
        ("nowhere", "", "spark.hadoop.fs.defaultFS=hdfs://h", True),
        ("s3a://bucket/here", "", "", True),
    ],
)
def test_only_a_checkpoint_elsewhere_starts_spark(
    path: str, variable: str, conf: str, starts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_session: None
) -> None:
    monkeypatch.chdir(tmp_path)
    if variable:
        monkeypatch.setenv(variable, "x")
    schema = _schema("id BIGINT")
    state = IngestState({}, SchemaState({}, {ORDERS: schema}))
    LocalSchemaStore("here").write(0, IngestState(), BatchPlan(state, ()))
    result = run("schemas", path.format(tmp_path), *(["--conf", conf] if conf else []))
    assert ("the command starts Spark" in result.stderr) == starts
    if not starts:
        assert ("shop.orders" in result.stdout) == ("here" in path and "nowhere" not in path)
        assert result.exit_code == (2 if "nowhere" in path else 0)


def test_files_of_jobs_that_have_not_ended_are_not_read(tmp_path: Path) -> None:
    """Spark leaves them out, too."""
    store = LocalSchemaStore(tmp_path)
    store.choose("query", "q")
    for name in ("_temporary/0/part-0", "_SUCCESS", ".part-0.crc"):
        file = tmp_path / "kvformat" / "query" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("nonsense")
    assert LocalSchemaStore(tmp_path).chosen("query") == "q"


@pytest.mark.spark
@pytest.mark.once
def test_what_is_no_checkpoint_or_table_is_an_error(checkpoint: Path, tmp_path: Path) -> None:
    for arguments, words in (
        (("schemas", tmp_path / "nothing"), "has no schemas: it is not the checkpoint of an ingestion"),
        (("schemas", checkpoint, "shop.oders"), "no table 'shop.oders' is known. Did you mean 'shop.orders'?"),
        (("schemas", checkpoint, "shop.oders", "--ddl"), "Did you mean 'shop.orders'?"),
        (("schemas", checkpoint, "--ddl", "--history"), "can't be given together"),
    ):
        result = run(*arguments)
        assert (result.exit_code, words in result.stderr) == (2, True), result.stderr


# --- a broker --------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.services
@pytest.mark.slow
@pytest.mark.once
def test_a_pipeline_runs_once_and_stops_with_a_message(spark: Any, broker: Any, pipeline: Path, tmp_path: Path) -> None:
    topic = broker.create("cli-shop", 2)
    row = '{"before":null,"after":{"id":%d,"v":%s},"op":"c","source":{"db":"shop","table":"t"}}'
    broker.send(topic, [(None, (row % (n, n)).encode()) for n in range(10)])
    text = _YAML.replace("topic: shop", f"topic: {topic}").replace("/lake", str(tmp_path / "lake"))
    text = "\n".join(line for line in text.splitlines() if "sasl" not in line)
    pipeline.write_text(text + "\npipeline:\n  trigger: available-now\n")
    given = ("ingest", pipeline, "--set", f"kafka.bootstrap={broker.bootstrap}", "--checkpoint", tmp_path / "ck")
    metrics = tmp_path / "kvformat.prom"
    for run_number in range(2):
        result = run(*given, *(["--once", "--metrics-file", metrics] if run_number else []))
        assert result.exit_code == 0, result.stderr
        assert "the query has stopped" in result.stderr
        if run_number == 0:
            assert "batch 0: 10 records in " in result.stderr
            assert "lag 0 records; ingestion: bad 0; 1 tables, the slowest shop.t " in result.stderr
            assert "batch 0: wrote 1 tables (1 source tables), 10 records in " in result.stderr
    assert re.search(r'kvformat_query_running\{query="[^"]+"\} 0\.0', metrics.read_text())
    assert read_table(spark, tmp_path / "lake", "shop.t").count() == 10
    shown = run("schemas", tmp_path / "ck", "--history").stdout.splitlines()
    assert len(shown) == 2
    assert "create.table" in shown[1]
    assert "cli-shop, partition " in shown[1]

    broker.send(topic, [(None, b'{"before":')])
    result = run(*given)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith("Error: the query has stopped: ")
    assert "shop" in result.stderr.splitlines()[-1]
    assert len(result.stderr) < 2000


@pytest.mark.spark
@pytest.mark.services
@pytest.mark.slow
@pytest.mark.once
def test_a_job_of_sql_runs_a_query_for_each_followed_table(spark: Any, broker: Any, tmp_path: Path) -> None:
    topics = [broker.create(name, 1) for name in ("cli-sql-orders", "cli-sql-items")]
    names = [topic.replace("-", "_") for topic in topics]
    text = _sql(*names).replace("/lake", str(tmp_path / "lake"))
    for topic, name in zip(topics, names, strict=True):
        text = text.replace(f"'topic' = '{name}'", f"'topic' = '{topic}'")
        broker.send(topic, [(None, json.dumps({"id": n, "of": topic}).encode()) for n in range(3)])
    file, checkpoint = tmp_path / "job.sql", tmp_path / "ck"
    file.write_text(text)
    given = ("ingest", file, "--set", f"kafka.bootstrap={broker.bootstrap}", "--checkpoint", checkpoint, "--once")
    for count in (3, 4):
        result = run(*given)
        assert result.exit_code == 0, result.stderr
        assert [f"the query that follows '{name}' has stopped" in result.stderr for name in names] == [True, True]
        for topic, name in zip(topics, names, strict=True):
            found = read_table(spark, tmp_path / "lake", f"lake.{name}")
            assert found.columns == ["offset", "id", "of"]
            assert sorted(map(tuple, found.collect())) == [(n, n, topic) for n in range(count)]
            broker.send(topic, [(None, json.dumps({"id": count, "of": topic}).encode())])
    assert sorted(path.name for path in checkpoint.iterdir()) == sorted(names)
    assert f"source  {topics[0]}" in run("schemas", checkpoint / names[0]).stdout
