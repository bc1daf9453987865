"""`KafkaTable.read_arrow`: the rows of a topic as Arrow batches, without Spark."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from kvformat.connectors import KafkaTable, brokers, latest_rows, range_records
from kvformat.connectors.latest_rows import LatestRows
from kvformat.connectors.reader.records import KAFKA_FIELDS
from kvformat.registry.contract.errors import (
    ConfigurationError,
    DecodeError,
    KafkaSourceWarning,
    OptionError,
    SchemaError,
)
from tests.support.memory_brokers import Admin

ROOT = Path(__file__).parents[2]
SERVERS = "127.0.0.1:1"  # nobody answers there


def ddl(servers: str, topic: str, columns: str, options: str = "", connector: str = "kafka", form: str = "json") -> str:
    given = f"'connector' = '{connector}', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}', "
    given += "'scan.startup.mode' = 'earliest-offset', " if connector == "kafka" else ""
    return f"CREATE TABLE t ({columns}) WITH ({given}'{'value.' * (connector != 'kafka')}format' = '{form}'{options})"


def table(servers: str, topic: str, columns: str, options: str = "", **more: str) -> KafkaTable:
    return KafkaTable.from_ddl(ddl(servers, topic, columns, options, **more))


KEYED = {"connector": "upsert-kafka"}
KEY_OPTIONS = ", 'key.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY'"
KEY_COLUMNS = "id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED"


@pytest.mark.services
def test_rows_without_spark(broker: Any) -> None:
    """In a process that has no PySpark: metadata, headers, computed columns, and the table's types."""
    topic = broker.create("arrow-rows", 2)
    for n in range(6):
        value = json.dumps({"id": n, "at": "2024-02-29 12:00:00.123", "n": {"a": [n]}}).encode()
        broker.send(topic, [(None, value)], partition=n % 2, headers=[("h", b"%d" % n)], timestamp=1000 * (n + 1))
    columns = """id INT, `at` TIMESTAMP(3), n ROW<a ARRAY<INT>>, twice AS id * 2,
        p INT METADATA FROM 'partition' VIRTUAL,
        o STRING METADATA FROM 'offset' VIRTUAL, h MAP<STRING, BYTES> METADATA FROM 'headers' VIRTUAL,
        e INT METADATA FROM 'leader-epoch' VIRTUAL, k STRING METADATA FROM 'timestamp-type' VIRTUAL"""
    statement = ddl(broker.bootstrap, topic, columns, ", 'scan.header-filter' = '!h:4'")
    code = f"""
        import sys
        class NoSpark:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("pyspark", "py4j"):
                    raise ModuleNotFoundError(name)
        sys.meta_path.insert(0, NoSpark())
        from kvformat.connectors import KafkaTable
        found = KafkaTable.from_ddl({statement!r}).read_arrow(metadata={{"time": "timestamp"}}).read_all()
        found.validate(full=True)
        print(found.schema.to_string(show_field_metadata=False))
        for row in found.to_pylist():
            print({{name: str(value) if name in ("at", "time") else value for name, value in row.items()}})
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=90)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert {"id: int32", "at: timestamp[us]", "o: string", "time: timestamp[us, tz=UTC]", "e: int32"} <= set(lines)
    rows = [eval(line) for line in lines if line.startswith("{")]
    assert [(row["id"], row["p"], row["o"]) for row in rows] == [
        *((0, 0, "0"), (2, 0, "1")),
        *((1, 1, "0"), (3, 1, "1"), (5, 1, "2")),
    ]
    assert rows[1] == {
        **{"id": 2, "at": "2024-02-29 12:00:00.123000", "n": {"a": [2]}, "twice": 4, "p": 0, "o": "1"},
        **{"h": [("h", b"2")], "e": 0, "k": "CreateTime", "time": "1970-01-01 00:00:03+00:00"},
    }


@pytest.mark.services
def test_the_end_is_that_of_the_call_and_of_the_options(broker: Any) -> None:
    topic = broker.create("arrow-end")
    for n in range(5):
        broker.send(topic, [(None, b"%d" % n)], timestamp=1000 * (n + 1))
    whole = table(broker.bootstrap, topic, "v STRING", form="raw")
    reader = whole.read_arrow()
    broker.send(topic, [(None, b"later")])
    assert reader.read_all()["v"].to_pylist() == ["0", "1", "2", "3", "4"]
    part = whole.with_options(
        {
            "scan.startup.mode": "timestamp",
            "scan.startup.timestamp-millis": "2000",
            "scan.bounded.mode": "specific-offsets",
            "scan.bounded.specific-offsets": "partition:0,offset:4",
            "properties.group.id": "arrow",
        }
    )
    assert part.read_arrow().read_all()["v"].to_pylist() == ["1", "2", "3"]
    with pytest.raises(OptionError, match="a batch that starts at the end reads nothing"):
        whole.with_options({"scan.startup.mode": "latest-offset"}).read_arrow()
    with pytest.raises(OptionError, match="there is no topic 'arrow-nowhere'"):
        table(broker.bootstrap, "arrow-nowhere", "v STRING", form="raw").read_arrow()


@pytest.mark.services
def test_pandas_and_duckdb_take_the_reader(broker: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    topic = broker.create("arrow-takers", 3)
    broker.send(topic, [(None, json.dumps({"id": n, "v": str(n % 7)}).encode()) for n in range(5000)])
    orders = table(broker.bootstrap, topic, "id INT, v STRING")
    assert orders.read_arrow().read_pandas()["id"].sum() == sum(range(5000))
    reader = orders.read_arrow()  # noqa: F841 - DuckDB finds it by its name
    found = duckdb.sql("SELECT v, count(*) FROM reader GROUP BY v ORDER BY v").fetchall()
    assert found == [(str(n), len(range(n, 5000, 7))) for n in range(7)]


# --- bad records -------------------------------------------------------------------------------------------


@pytest.mark.services
def test_bad_records_are_raised_captured_or_dropped(broker: Any) -> None:
    topic = broker.create("arrow-bad")
    broker.send(topic, [(None, b'{"id":1}'), (b"k", b'{"id":'), (None, b'{"id":3}')], headers=[("h", b"1")])
    bad = table(broker.bootstrap, topic, "id INT")
    with pytest.raises(DecodeError, match=r"The record: topic arrow-bad, partition 0, offset 1, value b'\{\"id\":'"):
        bad.read_arrow().read_all()
    found = bad.read_arrow(errors="capture", row_index=True).read_all()
    found.validate(full=True)
    assert found["id"].to_pylist() == [1, None, 3]
    assert found["row_index"].to_pylist() == [0, None, 0]
    good, error, _ = found["error"].to_pylist()
    assert good is None
    assert (error["part"], error["key"], error["value"]) == ("value", b"k", b'{"id":')
    assert (error["topic"], error["partition"], error["offset"]) == (topic, 0, 1)
    assert error["headers"] == [{"key": "h", "value": b"1"}]
    dropped = bad.with_options({"ingestion.ignore-errors": "true", "ingestion.error-tolerance.max-count": "-1"})
    assert dropped.read_arrow().read_all()["id"].to_pylist() == [1, 3]


# --- changes -----------------------------------------------------------------------------------------------


@pytest.mark.services
def test_current_rows_of_an_upsert_table_or_its_changes(broker: Any) -> None:
    topic = broker.create("arrow-upsert", 3)
    random_ = random.Random(7)
    wanted: dict[int, str] = {}
    records: list[tuple[bytes, bytes | None]] = []
    for n in range(3000):
        key = random_.randrange(400)
        deleted = random_.random() < 0.3
        records.append((b'{"id":%d}' % key, None if deleted else b'{"v":"%d"}' % n))
        wanted.pop(key, None)
        if not deleted:
            wanted[key] = str(n)
    broker.send(topic, records)
    keyed = table(broker.bootstrap, topic, KEY_COLUMNS, KEY_OPTIONS, **KEYED)
    found = keyed.read_arrow().read_all()
    assert found.column_names == ["id", "v"]
    assert dict(zip(*found.to_pydict().values(), strict=True)) == wanted
    assert len(found) == len(wanted) > 200
    changes = keyed.read_arrow(changelog=True, metadata=["offset"]).read_all()
    assert changes.column_names == ["id", "v", "offset", "row_kind"]
    kinds = changes["row_kind"].to_pylist()
    assert (len(kinds), kinds.count("-D")) == (3000, sum(value is None for _, value in records))


@pytest.mark.services
def test_current_rows_of_debezium_messages(broker: Any) -> None:
    topic = broker.create("arrow-debezium")
    messages = [
        {"op": "c", "after": {"id": 1, "v": "a"}},
        {"op": "c", "after": {"id": 2, "v": "b"}},
        {"op": "u", "before": {"id": 1, "v": "a"}, "after": {"id": 3, "v": "c"}},  # a new key
        {"op": "d", "before": {"id": 2, "v": "b"}},
        {"op": "u", "before": {"id": 3, "v": "c"}, "after": {"id": 3, "v": "d"}},
    ]
    broker.send(topic, [(None, json.dumps(message).encode()) for message in messages])
    changed = table(broker.bootstrap, topic, KEY_COLUMNS, form="debezium-json")
    assert changed.read_arrow().read_all().to_pylist() == [{"id": 3, "v": "d"}]
    changes = changed.read_arrow(changelog=True).read_all()["row_kind"].to_pylist()
    assert changes == ["+I", "+I", "-U", "+U", "-D", "-U", "+U"]
    without_key = table(broker.bootstrap, topic, "id INT, v STRING", form="debezium-json")
    assert len(without_key.read_arrow().read_all()) == 7


@pytest.mark.parametrize("kind", [pa.int32(), pa.string(), pa.float64(), pa.decimal128(25, 2), pa.timestamp("us")])
def test_latest_rows_reduce_again_and_again(kind: pa.DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of several batches and key columns, some NULL: the last one of each key counts."""
    monkeypatch.setattr(latest_rows, "_LEAST", 20)
    random_ = random.Random(3)
    schema = pa.schema([("a", kind), ("b", pa.string()), ("v", pa.int64()), ("row_kind", pa.string())])
    wanted: dict[tuple[Any, Any], int] = {}
    batches = []
    for number in range(40):
        rows = []
        for n in range(random_.randrange(30)):
            key = (random_.choice([None, *range(9)]), random_.choice([None, "x", "y"]))
            row_kind = random_.choice(["+I", "-U", "+U", "-D"])
            rows.append((*key, number * 100 + n, row_kind))
            wanted.pop(key, None)
            if row_kind.startswith("+"):
                wanted[key] = number * 100 + n
        columns = [pa.array([row[i] for row in rows]) for i in range(4)] if rows else [pa.nulls(0)] * 4
        keys = columns[0].cast(pa.int64()).cast(kind)
        batches.append(pa.record_batch([keys, *(columns[i].cast(schema.types[i]) for i in (1, 2, 3))], schema=schema))
    latest = LatestRows(schema, ["a", "b"])
    found = pa.Table.from_batches(latest.of(iter(batches)), latest.schema)
    back = found["a"] if kind == pa.int64() else found["a"].cast(pa.int64())
    pairs = zip(back.to_pylist(), found["b"].to_pylist(), found["v"].to_pylist(), strict=True)
    assert {(a, b): v for a, b, v in pairs} == wanted
    assert found["v"].to_pylist() == sorted(wanted.values())
    assert len(wanted) > 10


def test_changes_are_kept_only_until_they_are_as_many_as_the_current_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or as many as the least number. So memory is bounded by the current rows, however many changes there are."""
    monkeypatch.setattr(latest_rows, "_LEAST", 5)
    reduced: list[tuple[int, int]] = []
    usual = LatestRows._reduce

    def counted(latest: LatestRows) -> None:
        reduced.append((len(latest._rows), sum(map(len, latest._new))))
        usual(latest)

    monkeypatch.setattr(LatestRows, "_reduce", counted)
    schema = pa.schema([("id", pa.int32()), ("row_kind", pa.string())])
    batches = [pa.record_batch([pa.array([n], pa.int32()), pa.array(["+I"])], schema=schema) for n in range(14)]
    latest = LatestRows(schema, ["id"])
    assert pa.Table.from_batches(latest.of(iter(batches)), latest.schema)["id"].to_pylist() == [*range(14)]
    assert reduced == [(0, 6), (6, 7), (13, 1)]  # current rows and changes: more than 5, more than 6, and the rest


# --- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "options", "more", "arguments", "error", "told"),
    [
        ("v STRING", ", 'properties.security.protocol' = 'SSL', 'properties.ssl.truststore.location' = '/x'", {}, {},
         OptionError, "ssl.truststore.location' is a file of type JKS .* Only Java's Kafka client supports that"),
        *(("v STRING", f", 'ingestion.ignore-errors' = 'true', 'ingestion.error-tolerance.max-count' = '{n}'", {}, {},
           OptionError, "'ingestion.error-tolerance.max-count' counts the bad records of the whole topic")
          for n in (3, 0)),
        ("v STRING", "", {}, {"changelog": True}, ConfigurationError, "has only inserts and no changes"),
        (KEY_COLUMNS, KEY_OPTIONS, KEYED, {"row_index": True}, ConfigurationError, "row_index=True needs records"),
        (KEY_COLUMNS, KEY_OPTIONS, KEYED, {"errors": "capture"}, ConfigurationError, "errors='capture' needs records"),
        ("id ROW<a INT>, v STRING, PRIMARY KEY (id) NOT ENFORCED", KEY_OPTIONS, KEYED, {}, ConfigurationError,
         r"column 'id' of the key has fields: read the changes, changelog=True, or the current rows by Spark"),
        ("v STRING, o DATE METADATA FROM 'timestamp' VIRTUAL", "", {}, {}, SchemaError, "only Spark casts that"),
    ],
)  # fmt: skip
def test_what_is_refused_before_a_broker_is_asked(
    columns: str,
    options: str,
    more: dict[str, str],
    arguments: dict[str, Any],
    error: type[Exception],
    told: str,
) -> None:
    refused = table(SERVERS, "t", columns, options, **more)
    with pytest.raises(error, match=told):
        refused.read_arrow(**arguments)


# --- brokers in memory -------------------------------------------------------------------------------------


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The records of partition 0 of topic `t`, which a test may add."""
    records: list[dict[str, Any]] = []

    def read_range(_: Any, at: Any, fields: tuple[str, ...], on_loss: Any) -> list[pa.RecordBatch]:
        schema = pa.schema([KAFKA_FIELDS.field(name) for name in fields])
        return [pa.RecordBatch.from_pylist(records[at.start : at.end], schema)]

    monkeypatch.setattr(range_records, "read_range", read_range)
    monkeypatch.setattr(brokers, "admin", lambda _: Admin({"t": {0: 0}}, {"t": {0: len(records)}}))
    return records


@pytest.mark.parametrize(("zone", "hour"), [("UTC", 12), ("Asia/Tokyo", 21)])
def test_local_times_are_those_of_the_time_zone(zone: str, hour: int, memory: list[dict[str, Any]]) -> None:
    """Those of computed columns, and those of instants in columns that are local timestamps. The default is UTC."""
    columns = "ts TIMESTAMP_LTZ(3), c AS CAST(ts AS TIMESTAMP(3)), wall TIMESTAMP(3) METADATA FROM 'timestamp'"
    noon = dt.datetime(2024, 2, 29, 12)
    memory.append({"value": b'{"ts":"2024-02-29 12:00:00Z"}', "timestamp": noon.replace(tzinfo=dt.UTC)})
    given = {} if zone == "UTC" else {"time_zone": zone}
    (row,) = table(SERVERS, "t", columns).read_arrow(**given).read_all().to_pylist()
    assert row == {"ts": noon.replace(tzinfo=dt.UTC), "c": noon.replace(hour=hour), "wall": noon.replace(hour=hour)}


def test_notes_on_offsets_are_warnings_of_the_caller(memory: list[dict[str, Any]]) -> None:
    memory.extend([{"value": b"0"}, {"value": b"1"}])
    specific = {"scan.startup.specific-offsets": "partition:0,offset:1;partition:7,offset:1"}
    given = table(SERVERS, "t", "v STRING", form="raw").with_options(
        specific | {"scan.startup.mode": "specific-offsets"}
    )
    with pytest.warns(KafkaSourceWarning, match="table 't': .*names partitions that do not exist: t-7") as found:
        rows = given.read_arrow().read_all()
    assert rows["v"].to_pylist() == ["1"]
    assert [warning.filename for warning in found] == [__file__]


def test_current_rows_need_all_columns_of_a_change_but_changes_do_not(memory: list[dict[str, Any]]) -> None:
    options = ", 'debezium-json.unchanged.columns' = 'keep'"
    memory.append({"value": b'{"op":"c","after":{"id":1,"v":"a"}}'})
    given = table(SERVERS, "t", KEY_COLUMNS, options, form="debezium-json")
    with pytest.raises(ConfigurationError, match=r"an update does not contain all columns"):
        given.read_arrow()
    assert len(given.read_arrow(changelog=True).read_all()) == 1


def test_the_changes_of_a_table_may_have_a_nested_key(memory: list[dict[str, Any]]) -> None:
    memory.append({"key": b'{"id":{"a":1}}', "value": b'{"v":"x"}'})
    columns = "id ROW<a INT>, v STRING, PRIMARY KEY (id) NOT ENFORCED"
    found = table(SERVERS, "t", columns, KEY_OPTIONS, **KEYED).read_arrow(changelog=True).read_all()
    assert found.to_pylist() == [{"id": {"a": 1}, "v": "x", "row_kind": "+U"}]


# --- memory ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.services
def test_memory_does_not_grow_with_the_topic(broker: Any) -> None:
    """Also if the reader is slow: what is fetched ahead is bounded."""
    topic = broker.create("arrow-memory")
    for _ in range(8):
        broker.send(topic, [(None, os.urandom(100_000)) for _ in range(500)])
    reader = table(broker.bootstrap, topic, "v BYTES", form="raw").read_arrow()
    reader.read_next_batch()
    process, total = psutil.Process(), 0
    before = process.memory_info().rss
    most = 0
    for batch in reader:
        total += batch.nbytes
        most = max(most, process.memory_info().rss - before)
    assert total > 380_000_000
    assert most < 150_000_000, f"{most >> 20} MiB more"
