"""Changes in Spark: explode_changes, latest_by_key and normalize_changes, in batches and in restarted streams."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from kvformat.registry import (
    KeyValueFormat,
    explode_changes,
    get_format,
    latest_by_key,
    normalize_changes,
    split_errors,
)
from kvformat.registry.contract.errors import ConfigurationError, MissingExtraError, SchemaError
from tests.support import interop, vectors
from tests.support.changelogs import flinks_changes, random_changes, split_by_key
from tests.support.probe import ProbeFormat

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parent.parent.parent
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_LINES = [b"-Ua\n+Ub", b"", None, b"!why", b"+Ic"]
_CHANGES = "partition INT, offset BIGINT, row_index INT, id INT, v STRING, row_kind STRING"


@pytest.fixture
def rocksdb(spark: Any) -> Iterator[None]:
    before = spark.conf.get(_PROVIDER)
    spark.conf.set(_PROVIDER, _ROCKSDB)
    yield
    spark.conf.set(_PROVIDER, before)


@pytest.fixture
def classic(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--spark-mode") == "connect":
        pytest.skip("plans are read from the classic session")


def _rows(df: Any, *order: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (df.orderBy(*order) if order else df).toArrow().to_pylist()
    return rows


def _plan(df: Any) -> str:
    plan: str = df._jdf.queryExecution().executedPlan().toString()
    return plan


# --- explode_changes -------------------------------------------------------------------------------------


def _messages(spark: Any) -> Any:
    return spark.createDataFrame(list(enumerate(_LINES)), "n INT, value BINARY").withColumn("x.y", F.lit("kept"))


def test_explode_changes_gives_one_line_per_row(spark: Any) -> None:
    good = _messages(spark).where("n <> 3")
    rows = ProbeFormat().decode_rows("value", "v STRING", metadata=["probe.length"])
    changes = explode_changes(good, rows, keep=["n", "x.y"])
    assert changes.columns == ["n", "x.y", "v", "probe.length", "row_kind", "row_index"]
    assert _rows(changes, "n", "row_index") == [
        {"n": 0, "x.y": "kept", "v": "a", "probe.length": 7, "row_kind": "-U", "row_index": 0},
        {"n": 0, "x.y": "kept", "v": "b", "probe.length": 7, "row_kind": "+U", "row_index": 1},
        {"n": 4, "x.y": "kept", "v": "c", "probe.length": 3, "row_kind": "+I", "row_index": 0},
    ]
    assert explode_changes(good, rows).columns == ["v", "probe.length", "row_kind", "row_index"]
    everything = explode_changes(good.withColumn("rows", rows), "rows", keep="*", outer=True)
    assert everything.columns[:4] == ["n", "value", "x.y", "rows"]
    assert [(row["n"], row["v"], row["row_kind"], row["row_index"]) for row in _rows(everything, "n", "row_index")] == [
        (0, "a", "-U", 0), (0, "b", "+U", 1), (1, None, None, None), (2, None, None, None), (4, "c", "+I", 0)
    ]  # fmt: skip


def test_explode_changes_keeps_bad_messages(spark: Any) -> None:
    rows = ProbeFormat().decode_rows("value", "v STRING", errors="capture")
    changes = explode_changes(_messages(spark), rows, keep="n")
    assert changes.columns == ["n", "v", "row_kind", "row_index", "error"]
    bad = {"n": 3, "v": None, "row_kind": None, "row_index": None}
    assert _rows(changes, "n", "row_index") == [
        {"n": 0, "v": "a", "row_kind": "-U", "row_index": 0, "error": None},
        {"n": 0, "v": "b", "row_kind": "+U", "row_index": 1, "error": None},
        bad | {"error": {"reason": "probe: why", "message": b"!why", "code": "BAD_RECORD"}},
        {"n": 4, "v": "c", "row_kind": "+I", "row_index": 0, "error": None},
    ]
    outer = _rows(explode_changes(_messages(spark), rows, keep="n", outer=True), "n", "row_index")
    assert [row["n"] for row in outer] == [0, 0, 1, 2, 3, 4]
    assert [row["n"] for row in outer if row["error"]] == [3]


def test_bad_messages_are_split_off_with_their_other_columns(spark: Any) -> None:
    rows = ProbeFormat().decode_rows("value", "v STRING", errors="capture")
    changes = explode_changes(_messages(spark), rows, keep=["n", "x.y"])
    good, bad = split_errors(changes)
    assert good.columns == ["n", "x.y", "v", "row_kind", "row_index"]
    assert [row["n"] for row in _rows(good, "n", "row_index")] == [0, 0, 4]
    assert _rows(bad) == [{"n": 3, "x.y": "kept", "reason": "probe: why", "message": b"!why", "code": "BAD_RECORD"}]
    assert _rows(split_errors(explode_changes(_messages(spark), rows))[1]) == [
        {"reason": "probe: why", "message": b"!why", "code": "BAD_RECORD"}
    ]
    assert latest_by_key(good, "v", "n").count() == 2
    with pytest.raises(ConfigurationError, match="two columns would be named 'reason'"):
        split_errors(explode_changes(_messages(spark), rows, keep=F.col("n").alias("reason")))
    with pytest.raises(ConfigurationError, match="split_errors takes"):
        split_errors(good)


def test_explode_changes_reports_wrong_input(spark: Any) -> None:
    messages = _messages(spark)
    with pytest.raises(ConfigurationError, match="column that decode_rows returns, not one of type binary"):
        explode_changes(messages, "value")
    with pytest.raises(ConfigurationError, match="decode_rows"):
        explode_changes(messages, get_format("json").decode("value", "a INT"))
    rows = ProbeFormat().decode_rows("value", "n STRING")
    with pytest.raises(ConfigurationError, match=r"two columns would be named 'n'.*F.col\('n'\).alias"):
        explode_changes(messages, rows, keep=["n"])
    with pytest.raises(ConfigurationError, match="'row_index'"):
        explode_changes(messages, ProbeFormat().decode_rows("value", "row_index STRING"))
    assert explode_changes(messages, rows, keep=[F.col("n").alias("number")]).columns[:2] == ["number", "n"]


@pytest.mark.parametrize("errors", ["raise", "capture"])
def test_explode_leaves_one_python_node(spark: Any, classic: None, errors: Any) -> None:
    rows = ProbeFormat().decode_rows("value", "v STRING", metadata=["probe.length"], errors=errors)
    changes = explode_changes(_messages(spark), rows, keep="n")
    plan = _plan(changes.where("v = 'a' AND row_kind <> '-D' AND `probe.length` > 1 AND n < 9").select("v", "n"))
    assert plan.count("ArrowEvalPython") == 1, plan


# --- latest_by_key ---------------------------------------------------------------------------------------


def test_latest_by_key_keeps_the_last_row(spark: Any) -> None:
    rows = random_changes(1, 600)
    last = {row[3]: row for row in rows}
    shuffled = random.Random(2).sample(rows, len(rows))
    changes = spark.createDataFrame(shuffled, _CHANGES).repartition(4)
    table = latest_by_key(changes, "id")
    assert table.columns == ["partition", "offset", "id", "v"]
    assert {(row["id"], row["v"]) for row in _rows(table)} == {
        (key, row[4]) for key, row in last.items() if row[5] in ("+I", "+U")
    }
    marked = _rows(latest_by_key(changes, ["id"], ["offset"], deletes=True))
    assert {(row["id"], row["v"], row["row_kind"]) for row in marked} == {
        (key, row[4], "+U" if row[5] in ("+I", "+U") else "-D") for key, row in last.items()
    }
    assert len(marked) == len(last)


def test_an_update_may_change_its_key(spark: Any) -> None:
    rows = [(0, 0, 0, 1, "a", "+I"), (0, 1, 0, 1, "a", "-U"), (0, 1, 1, 2, "a", "+U")]
    rows += [(0, 2, 0, 3, "c", "+I"), (0, 3, 0, 3, "c", "-D"), (0, 4, 0, 3, "d", "+I")]
    table = latest_by_key(spark.createDataFrame(rows, _CHANGES), "id")
    assert [(row["id"], row["v"]) for row in _rows(table, "id")] == [(2, "a"), (3, "d")]


def test_the_new_row_of_an_update_counts_without_an_order(spark: Any) -> None:
    for first, second in itertools.permutations([(0, 1, 0, 1, "a", "-U"), (0, 1, 0, 1, "b", "+U")]):
        changes = spark.createDataFrame([first, second], _CHANGES).coalesce(1).drop("row_index")
        assert [row["v"] for row in _rows(latest_by_key(changes, "id"))] == ["b"]


def test_keys_and_order_of_every_kind(spark: Any) -> None:
    schema = "`k.x` STRING, s STRUCT<a: INT, m: ARRAY<STRING>>, m MAP<STRING, INT>, at TIMESTAMP, n INT"
    rows = [
        ("p", (1, ["q"]), {"z": 1}, dt.datetime(2024, 1, 2), 1),
        ("p", (1, ["q"]), {"z": 2}, None, 2),
        ("p", (1, ["r"]), None, dt.datetime(2024, 1, 1), 3),
        ("p", (None, None), {}, None, 4),
        ("p", None, {"n": 0}, None, 5),
    ]
    inserts = spark.createDataFrame(rows, schema)

    def numbers(keys: Any) -> list[int]:
        return [row["n"] for row in _rows(latest_by_key(inserts, keys, ["at", F.col("n")]), "n")]

    assert numbers(["k.x", "s"]) == [1, 3, 4, 5]
    assert numbers("s.a") == [1, 5]  # a null struct and a null field are the same key
    assert numbers([F.col("s.m")[0], "k.x"]) == [1, 3, 5]


def test_a_table_can_be_given_instead_of_its_key(spark: Any) -> None:
    changes = spark.createDataFrame(random_changes(3, 40), _CHANGES)
    wanted = sorted(latest_by_key(changes, "id").collect())
    upsert = {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"}
    kafka = {"key.format": "json", "key.fields": "id", "value.format": "debezium-json"}
    for table in (
        KeyValueFormat("id INT, v STRING", upsert, primary_key=["id"]),
        KeyValueFormat("id INT, v STRING", kafka),
        KeyValueFormat("id INT, v STRING", {"format": "debezium-json"}, primary_key=["id"]),
    ):
        assert table.key_columns == ("id",)
        assert sorted(latest_by_key(changes, table).collect()) == wanted
    with pytest.raises(ConfigurationError, match=r"neither a PRIMARY KEY nor 'key.fields': name the key columns"):
        latest_by_key(changes, KeyValueFormat("id INT, v STRING", {"format": "debezium-json"}))


def test_latest_by_key_needs_one_shuffle_and_no_python(spark: Any, classic: None) -> None:
    changes = spark.range(9).selectExpr("id % 3 AS id", "id AS n", "'+I' AS row_kind")
    plan = _plan(latest_by_key(changes, "id", "n"))
    assert "Python" not in plan
    assert plan.count("Exchange hashpartitioning") == 1, plan


def test_wrong_input_of_latest_by_key_is_reported(spark: Any) -> None:
    changes = spark.createDataFrame(random_changes(3, 9), _CHANGES)
    with pytest.raises(ConfigurationError, match="no column 'partition' to sort the changes by"):
        latest_by_key(changes.drop("partition"), "id")
    with pytest.raises(ConfigurationError, match="at least one key"):
        latest_by_key(changes, [])
    for keys, name in (("idd", "idd"), (["id", "id.nope"], "id.nope")):
        with pytest.raises(SchemaError, match=rf"no column '{name}' to use as a key\..* The columns: id, "):
            latest_by_key(changes, keys)
    with pytest.raises(SchemaError, match="no column 'nope' to sort the changes by"):
        latest_by_key(changes, "id", ["partition", "nope"])
    captured = ProbeFormat().decode_rows("value", "v STRING", errors="capture")
    with pytest.raises(ConfigurationError, match=r"holds bad records too.*split_errors"):
        latest_by_key(explode_changes(_messages(spark), captured, keep="n"), "v", "n")
    with pytest.raises(ConfigurationError, match="call it in foreachBatch"):
        latest_by_key(spark.readStream.format("rate").load(), "value", "timestamp")
    for kind, shown in (("'X'", "'X'"), ("CAST(NULL AS STRING)", "NULL")):
        with pytest.raises(Exception, match=f"row_kind must be .*, not {shown}"):
            latest_by_key(changes.withColumn("row_kind", F.expr(kind)), "id").collect()


def test_unchanged_columns_take_the_last_value_of_their_key(spark: Any) -> None:
    schema = "n INT, id INT, a STRING, `b.c` INT, unchanged_columns ARRAY<STRING>, row_kind STRING"
    rows: list[tuple[Any, ...]] = [
        (1, 1, "x", 1, None, "+I"),
        (2, 1, None, 2, ["a"], "+U"),
        (3, 1, None, None, ["a", "b.c"], "+U"),
        (1, 2, "x", 1, None, "+I"),
        (2, 2, None, None, None, "+U"),  # NULL is a value, too
        (3, 2, None, 3, ["a"], "+U"),
        (1, 3, None, 1, ["a"], "+U"),  # only the table has this value
        (1, 4, "x", 1, None, "+I"),
        (2, 4, None, None, None, "-D"),
        (3, 4, None, 2, ["a"], "+U"),
        (1, 5, "x", 1, None, "+I"),
        (2, 5, None, None, ["a"], "-D"),
    ]
    changes = spark.createDataFrame(random.Random(1).sample(rows, len(rows)), schema).repartition(3)
    table = latest_by_key(changes, "id", "n")
    assert table.columns == ["n", "id", "a", "b.c", "unchanged_columns"]
    wanted = [[3, 1, "x", 2, None], [3, 2, None, 3, None], [1, 3, None, 1, ["a"]], [3, 4, None, 2, ["a"]]]
    assert [list(row.values()) for row in _rows(table, "id")] == wanted
    marked = _rows(latest_by_key(changes, "id", "n", deletes=True), "id")
    kinds = [(row["id"], row["row_kind"], row["unchanged_columns"]) for row in marked]
    assert kinds == [(1, "+U", None), (2, "+U", None), (3, "+U", ["a"]), (4, "+U", ["a"]), (5, "-D", None)]


def test_maintain_gets_the_names_of_unchanged_columns(spark: Any, tmp_path: Path) -> None:
    options = {"changelog.mode": "upsert", "unchanged.columns": "keep"}
    kv = KeyValueFormat(
        "id INT, v STRING",
        {"format": "debezium-json"} | {f"debezium-json.{name}": value for name, value in options.items()},
        primary_key=["id"],
    )
    source, merged = str(tmp_path / "in"), str(tmp_path / "merged")
    untouched = {"id": 1, "v": "__debezium_unavailable_value"}
    _put(spark, source, 0, [_goods("u", None, untouched), _goods("d", {"id": 2, "v": None}, None), None])
    stream = spark.readStream.schema("partition INT, offset BIGINT, value BINARY").parquet(source)

    def merge(changes: Any, _: int) -> None:  # with Spark Connect it runs in another process
        changes.write.parquet(merged)

    query = kv.maintain(stream, merge, checkpoint_location=str(tmp_path / "checkpoint"), trigger={"availableNow": True})
    query.awaitTermination()
    assert _rows(spark.read.parquet(merged), "id") == [
        {"id": 1, "v": None, "unchanged_columns": ["v"], "row_kind": "+U"},
        {"id": 2, "v": None, "unchanged_columns": None, "row_kind": "-D"},
    ]


# --- normalize_changes -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("update_before", [True, False])
def test_a_stream_is_normalised_over_restarts(spark: Any, rocksdb: None, tmp_path: Path, update_before: bool) -> None:
    source, sink = tmp_path / "in", tmp_path / "out"
    changes = random_changes(5, 240)
    state: dict[Any, Any] = {}
    for run, schema in enumerate([_CHANGES, _CHANGES + ", new DECIMAL(5, 2)"]):  # adds a column
        batch = changes[run * 120 : run * 120 + 120]
        shuffled = random.Random(run).sample(batch, len(batch))
        spark.createDataFrame(shuffled, _CHANGES).repartition(2).write.mode("append").parquet(str(source))
        known = {row["file"] for row in _written(spark, sink)} if run else set()
        stream = spark.readStream.schema(schema).parquet(str(source))
        query = (
            normalize_changes(stream, "id", update_before=update_before)
            .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(sink))
        )
        query.awaitTermination()
        got = [(row["id"], row["v"], row["row_kind"]) for row in _written(spark, sink) if row["file"] not in known]
        wanted = flinks_changes(state, [row[3:] for row in batch], update_before=update_before)
        assert split_by_key(got) == split_by_key(wanted), f"run {run}"
        assert len(got) > 20


def _written(spark: Any, sink: Path) -> list[dict[str, Any]]:
    """Return the rows of all files in the order of writing."""
    rows = spark.read.parquet(str(sink)).select("*", F.col("_metadata.file_name").alias("file"), "_metadata.row_index")
    return _rows(rows, "file", "row_index")


_TYPED = (  # a type and two values; the third value is NULL
    ("STRUCT<a: INT, `b.c`: STRING>", "named_struct('a', 1, 'b.c', 'x')", "named_struct('a', NULL, 'b.c', '')"),
    ("BOOLEAN", "true", "false"),
    ("TINYINT", "-128", "127"),
    ("BIGINT", "9007199254740993", "-1"),
    ("FLOAT", "1.1", "'-0.0'"),
    ("DOUBLE", "2e23", "'-Infinity'"),
    ("DECIMAL(38, 18)", "12345678901234567890.100000000000000001", "0"),
    ("STRING", "'é\"\\n😀'", "''"),
    ("BINARY", "X'00FF'", "X''"),
    ("DATE", "'0001-01-01'", "'9999-12-31'"),
    ("TIMESTAMP_NTZ", "'2024-03-10 02:30:00.000001'", "'0001-01-01 00:00:00'"),
    ("TIMESTAMP", "timestamp_micros(1730610000123456)", "timestamp_micros(1730613600123456)"),  # one wall clock
    ("TIME(6)", "'23:59:59.999999'", "'00:00:00'"),
    ("INTERVAL DAY TO SECOND", "INTERVAL '-1 02:03:04.000005' DAY TO SECOND", "INTERVAL '0' SECOND"),
    ("INTERVAL YEAR TO MONTH", "INTERVAL '-1-2' YEAR TO MONTH", "INTERVAL '7' MONTH"),
    ("ARRAY<TIMESTAMP>", "array(timestamp_micros(1730613600000001), NULL)", "array()"),
    ("MAP<DATE, DECIMAL(5, 2)>", "map(DATE'1969-12-31', NULL, DATE'2024-02-29', 1.5)", "map()"),
    (
        "STRUCT<x: ARRAY<STRUCT<y: FLOAT>>, m: MAP<STRING, STRUCT<z: TIMESTAMP>>>",
        "named_struct('x', array(named_struct('y', 'NaN'), NULL), 'm', map('', named_struct('z', DATE'1969-12-31')))",
        "named_struct('x', NULL, 'm', NULL)",
    ),
)


def test_values_of_every_type_survive(spark: Any, rocksdb: None, time_zone: str) -> None:
    rows = [", ".join(f"CAST({of[n]} AS {of[0]}) AS c{c}" for c, of in enumerate(_TYPED)) for n in (1, 2)]
    rows.append(", ".join(f"CAST(NULL AS {type_}) AS c{c}" for c, (type_, *_) in enumerate(_TYPED)))
    table = spark.sql(" UNION ALL ".join(f"SELECT {n} AS offset, {row}" for n, row in enumerate(rows)))
    twice = table.unionByName(table.withColumn("offset", F.col("offset") + 10))  # duplicates, which are dropped
    result = normalize_changes(twice, "c0", "offset")
    assert result.drop("row_kind").schema.simpleString() == table.drop("offset").schema.simpleString()
    assert [row["row_kind"] for row in _rows(result.select("row_kind"))] == ["+I"] * 3
    texts = [_exact(name, type_).alias(name) for name, (type_, *_) in zip(table.columns[1:], _TYPED, strict=True)]
    assert sorted(map(repr, _rows(result.select(*texts)))) == sorted(map(repr, _rows(table.select(*texts))))


def _exact(name: str, type_: str) -> Any:
    """Return Spark's text of a value; for an instant its number, because a local time may be ambiguous."""
    exact = {"TIMESTAMP": F.unix_micros, "BINARY": F.hex}.get(type_, F.col)
    return exact(name).cast("string")


def test_a_map_in_another_order_is_the_same_row(spark: Any, rocksdb: None) -> None:
    maps = ["map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)", "map('b', 2, 'a', 1, 'c', NULL)"]
    df = spark.sql(" UNION ALL ".join(f"SELECT {n} AS n, 1 AS id, {m} AS m" for n, m in enumerate(maps)))
    got = _rows(normalize_changes(df, "id", "n").select("row_kind", F.size("m").alias("size")))
    assert [(row["row_kind"], row["size"]) for row in got] == [("+I", 2), ("-U", 2), ("+U", 3)]


@pytest.mark.parametrize(
    "name",
    [
        "hand_upsert_identical",
        "hand_upsert_tombstone_first",
        "upsert_composite_avro_avro",
        "upsert_composite_prefix_except_json_json",
        "upsert_csv_avro-confluent",
        "upsert_csv_csv",
    ],
)
def test_normalize_changes_equals_flink(spark: Any, rocksdb: None, tmp_path: Path, name: str) -> None:
    """Compare with the result of Flink's ChangelogNormalize for an upsert topic. The order of keys may differ."""
    case = interop.cases()[name]
    table, row = interop.table(case), interop.row_type(interop.table(case))
    places = [[field.name for field in row.fields].index(key) for key in table.primary_key or ()]
    data = [interop.binary(case, part).to_pylist() for part in ("key", "value")]
    kafka = [(r["partition"], r["offset"], *kv) for r, *kv in zip(case["records"], *data, strict=True)]
    df = spark.createDataFrame(kafka, "partition INT, offset BIGINT, key BINARY, value BINARY").repartition(3)
    fmt = KeyValueFormat.from_ddl(interop.ddl(case, tmp_path))
    complete = normalize_changes(fmt.decode(df, metadata=["partition", "offset"]), table.primary_key or ())
    columns = [complete.columns.index(field.name) for field in row.fields]
    got = [
        (
            str(batch["row_kind"][i]),
            tuple(vectors.from_arrow(batch[n][i], f.type) for n, f in zip(columns, row.fields, strict=True)),
        )
        for batch in complete.toArrow().to_batches()
        for i in range(batch.num_rows)
    ]

    def by_key(rows: list[interop.Row]) -> list[interop.Row]:
        return sorted(rows, key=lambda row: repr([row[1][place] for place in places]))

    found, wanted = by_key(got), by_key(interop.wanted_rows(case, row))
    assert [kind for kind, _ in found] == [kind for kind, _ in wanted]
    assert all(vectors.same(a, b, row) for (_, a), (_, b) in zip(found, wanted, strict=True))


@pytest.mark.once
def test_the_order_equals_sparks_order(spark: Any, rocksdb: None) -> None:
    """NULL is first, NaN is last, and the row's index in its message decides ties."""
    nan = float("nan")
    rows = [(None, 0, "a"), (-1.0, 0, "b"), (0.5, 1, "d"), (0.5, 0, "c"), (nan, 0, "e"), (nan, 1, "f")]
    df = spark.createDataFrame(rows[::-1], "at DOUBLE, row_index INT, v STRING").withColumn("id", F.lit(1))
    got = _rows(normalize_changes(df, "id", "at", update_before=False))
    assert [row["v"] for row in got] == list("abcdef")
    kept = normalize_changes(df, "id", "at", columns=["id", "at"])
    assert kept.columns == ["id", "at", "row_kind"]
    assert [row["at"] for row in _rows(kept)][:2] == [None, None]


@pytest.mark.once
def test_an_unchanged_column_keeps_the_value_of_the_last_row_of_its_key(spark: Any, rocksdb: None) -> None:
    schema = "n INT, id INT, a STRING, b INT, unchanged_columns ARRAY<STRING>, row_kind STRING"
    rows = [(2, 1, None, 2, ["a"], "+U"), (1, 1, "x", 1, None, "+I"), (1, 2, None, 3, ["a"], "+U")]
    got = _rows(normalize_changes(spark.createDataFrame(rows, schema), "id", "n", update_before=False), "id", "b")
    assert [tuple(row.values()) for row in got] == [(1, "x", 1, "+I"), (1, "x", 2, "+U"), (2, None, 3, "+I")]


def test_missing_arguments_are_errors_before_a_query_starts(spark: Any, rocksdb: None, monkeypatch: Any) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ConfigurationError, match="no column 'partition'"):
        normalize_changes(stream, "value")
    with pytest.raises(SchemaError, match="no column 'nope'"):
        normalize_changes(stream, "value", "timestamp", columns=["nope"])
    with pytest.raises(SchemaError, match="the table would have no columns"):
        normalize_changes(stream, "value", ["timestamp", "value"])
    structs = stream.select("value", F.struct("timestamp").alias("at"))
    with pytest.raises(SchemaError, match="in order by a column of type struct"):
        normalize_changes(structs, "value", "at")
    with pytest.raises(SchemaError, match="can't hold a column of type variant"):
        normalize_changes(stream.withColumn("v", F.expr("parse_json('1')")), "value", "timestamp")
    spark.conf.set(_PROVIDER, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    with pytest.raises(ConfigurationError, match=re.escape(f'spark.conf.set("{_PROVIDER}", "{_ROCKSDB}")')) as caught:
        normalize_changes(stream, "value", "timestamp")
    assert caught.value.option == _PROVIDER
    spark.conf.set(_PROVIDER, _ROCKSDB)
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(MissingExtraError, match=r"kvformat\[state\]"):
        normalize_changes(stream, "value", "timestamp")


# --- the docs, and Debezium ------------------------------------------------------------------------------


def _goods(op: str, before: Any, after: Any) -> str:
    return json.dumps({"before": before, "after": after, "op": op})


@pytest.mark.once
def test_the_snippets_of_the_page_of_changes_run(spark: Any, rocksdb: None, tmp_path: Path) -> None:
    """The snippets of docs/changes.md give the results of the page. The stream keeps its table for two batches."""
    page = (ROOT / "docs" / "changes.md").read_text(encoding="utf-8")
    source, table = str(tmp_path / "in"), str(tmp_path / "table")
    scope: dict[str, Any] = {"__name__": "__snippet__", "spark": spark, "source": source, "table": table}
    for snippet in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(snippet, "changes.md", "exec"), scope)
    assert _texts(scope["changes"], "offset", "row_index") == _shown(page, "partition")
    assert _texts(scope["goods"].select("id", "name")) == [["1", "red pen"]]
    assert [row["row_kind"] for row in _rows(scope["complete"].where("id = 1"))] == ["+I", "-U", "+U"]

    a, b, c = ({"id": n, "name": name} for n, name in ((1, "a"), (2, "b"), (None, "c")))
    _put(spark, source, 0, [_goods("c", None, a), _goods("r", None, b), _goods("c", None, c), None])
    scope["run_stream"]()
    assert _texts(scope["current_table"](spark, table), "id") == [["NULL", "c"], ["1", "a"], ["2", "b"]]
    moved, new = {"id": 9, "name": "a"}, {"id": 4, "name": "d"}
    changed = [_goods("u", a, moved), _goods("d", b, None), None, _goods("u", c, {"id": None, "name": "C"})]
    changed += [_goods("c", None, new), _goods("d", new, None), None, _goods("c", None, b | {"name": "B"})]
    _put(spark, source, 4, changed)
    scope["run_stream"]()
    assert _texts(scope["current_table"](spark, table), "id") == [["NULL", "C"], ["2", "B"], ["9", "a"]]


def _put(spark: Any, source: str, offset: int, messages: list[str | None]) -> None:
    rows = [(0, offset + n, message and message.encode()) for n, message in enumerate(messages)]
    df = spark.createDataFrame(rows, "partition INT, offset BIGINT, value BINARY")
    df.coalesce(1).write.mode("append").parquet(source)


def _texts(df: Any, *order: str) -> list[list[str]]:
    """Return values as Spark prints them."""
    cells = [F.coalesce(F.col(f"`{name}`").cast("string"), F.lit("NULL")).alias(name) for name in df.columns]
    return [list(row.values()) for row in _rows((df.orderBy(*order) if order else df).select(*cells))]


def _shown(page: str, head: str) -> list[list[str]]:
    """Return the rows of the page's table with this beginning of the header."""
    lines = page.split(f"\n| {head}", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
