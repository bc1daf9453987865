"""KeyValueFormat with DataFrames: Flink's records, metadata, errors, changes, plans and streams."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kvformat.registry import ChangelogMode, KeyValueFormat, latest_by_key, split_errors
from kvformat.registry.contract.errors import ConfigurationError, DataError, KafkaSinkWarning, SchemaError
from kvformat.registry.contract.types import FlinkField, FlinkType, arrow_type, nullable, spark_type
from tests.support import interop, vectors

pytestmark = pytest.mark.spark

_KAFKA_SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
_UPSERT = {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"}
_KAFKA = {"key.format": "json", "key.fields": "id", "value.format": "json", "value.fields-include": "EXCEPT_KEY"}
_META = sorted(name for name, case in interop.cases().items() if "METADATA" in case["ddl"])
_OTHERS = [
    "hand_key_and_value_array",
    "hand_key_null_json",
    "hand_overlap_all",
    "kafka_allcols_key",
    "kafka_nokey_raw",
    "kafka_nullkeys_avro_except",
    "upsert_composite_prefix_except_json_json",
    "upsert_raw_csv",
]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _records(spark: Any, case: interop.Case) -> Any:
    """Return records as Spark's Kafka source returns them. A record without headers has NULL headers."""
    rows = [
        (
            _bytes(record["key"]),
            _bytes(record["value"]),
            record["topic"],
            record["partition"],
            record["offset"],
            dt.datetime.fromtimestamp(record["timestamp"] / 1000, dt.UTC),
            0,
            [(name, _bytes(value)) for name, value in record["headers"]] or None,
        )
        for record in case["records"]
    ]
    return spark.createDataFrame(rows, _KAFKA_SCHEMA).coalesce(1)


def _rows(frame: Any, row: FlinkType) -> list[interop.Row]:
    table = frame.toArrow()
    kinds = table["row_kind"].to_pylist() if "row_kind" in table.column_names else ["+I"] * table.num_rows
    fields = nullable(row).fields
    struct = [table[field.name].combine_chunks().cast(arrow_type(field.type)) for field in fields]
    return [
        (kind, tuple(vectors.from_arrow(column[i], f.type) for column, f in zip(struct, fields, strict=True)))
        for i, kind in enumerate(kinds)
    ]


def _frame(spark: Any, *records: tuple[bytes | str | None, bytes | str | None]) -> Any:
    rows = [tuple(part.encode() if isinstance(part, str) else part for part in record) for record in records]
    return spark.createDataFrame(rows, "key BINARY, value BINARY").coalesce(1)


def _dicts(frame: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return found


def _plan(request: pytest.FixtureRequest, frame: Any) -> str:
    if request.config.getoption("--spark-mode") == "connect":
        pytest.skip("plans are read from the classic session")
    return str(frame._jdf.queryExecution().executedPlan().toString())


# --- Flink's records ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted({*_META, *_OTHERS} - set(interop.OTHER_RECORDS)))
@pytest.mark.filterwarnings("ignore::kvformat.registry.contract.errors.KafkaSinkWarning")
def test_records_of_flink(name: str, spark: Any, tmp_path: Path) -> None:
    case = interop.cases()[name]
    kv = KeyValueFormat.from_ddl(interop.ddl(case, tmp_path))
    table = interop.table(case)
    row = interop.row_type(table)
    wanted = interop.wanted_rows(case, row)
    if interop.fails(case):
        with pytest.raises(Exception, match="cannot decode the value of a record: csv: "):
            kv.decode(_records(spark, case)).collect()
    else:
        decoded = kv.decode(_records(spark, case))
        assert decoded.columns[: len(row.fields)] == [field.name for field in row.fields]
        rows = _rows(decoded, row)
        if table.primary_key and kv.changelog_mode is ChangelogMode.UPSERT:
            names = [field.name for field in row.fields]
            rows = interop.normalized(rows, [names.index(column) for column in table.primary_key], row)
        assert interop.same_rows(case, rows, wanted, row), (rows, wanted)
    if case["rows"]:
        _expect_written(spark, case, kv)


def _expect_written(spark: Any, case: interop.Case, kv: KeyValueFormat) -> None:
    columns = interop.table(case)
    row = nullable(interop.row_type(columns, virtual=False))
    rows = interop.written_rows(case, row)
    given = FlinkType("ROW", fields=(*row.fields, FlinkField("row_kind", FlinkType("CHAR", length=2))))
    table = vectors.to_arrow([(*values, kind) for kind, values in rows], given)
    written = kv.encode(
        spark.createDataFrame(pa.Table.from_struct_array(table), spark_type(given, wire=True)).coalesce(1)
    )
    got = _dicts(written)
    for record in case["records"]:
        found = got.pop(0)
        assert found["value"] == _bytes(record["value"])
        assert found.get("key") == _bytes(record["key"])
        if "headers" in found:
            headers = [] if found["headers"] is None else found["headers"]
            assert [(h["key"], h["value"]) for h in headers] == [(n, _bytes(v)) for n, v in record["headers"]]
        if found.get("timestamp") is not None:
            assert round(found["timestamp"].timestamp() * 1000) == record["timestamp"]
    assert got == []


# --- metadata -----------------------------------------------------------------------------------------------


def test_metadata_of_the_connector(spark: Any, time_zone: str) -> None:
    frame = spark.createDataFrame(
        [
            (None, b'{"v":"a"}', "t", 3, 7, dt.datetime(2024, 3, 10, 12, tzinfo=dt.UTC), 1,
             [("b", b"1"), ("a", b"2"), ("b", None), ("a", b"3")]),
            (None, b'[{"v":"b"},{"v":"c"}]', "t", 3, 8, None, -1, None),
        ],
        _KAFKA_SCHEMA,
    ).coalesce(1)  # fmt: skip
    kv = KeyValueFormat("v STRING", {"format": "json"})
    keys = ["topic", "partition", "offset", "leader-epoch", "timestamp-type", "headers", "header-list", "timestamp"]
    decoded = kv.decode(frame, metadata=keys)
    assert decoded.columns == ["v", *keys]
    first, second, third = _dicts(decoded)
    assert dict(first["headers"]) == {"a": b"3", "b": None}
    assert [h["key"] for h in first["header-list"]] == ["b", "a", "b", "a"]
    assert first["timestamp"].timestamp() == dt.datetime(2024, 3, 10, 12, tzinfo=dt.UTC).timestamp()
    assert [first[k] for k in keys[:5]] == ["t", 3, 7, None, "LogAppendTime"]
    assert (second["v"], third["v"]) == ("b", "c")
    assert {**second, "v": "c"} == third
    assert second["headers"] == []
    assert (second["timestamp"], second["timestamp-type"]) == (None, "NoTimestampType")
    renamed = kv.decode(frame, metadata={"place": "offset"})
    assert [row["place"] for row in _dicts(renamed)] == [7, 8, 8]


@pytest.mark.filterwarnings("ignore::kvformat.registry.contract.errors.KafkaSinkWarning")
def test_metadata_columns_of_a_table_are_cast(spark: Any, time_zone: str) -> None:
    kv = KeyValueFormat.from_ddl(
        "CREATE TABLE t (p BIGINT METADATA FROM 'partition' VIRTUAL, v STRING, `offset` STRING METADATA VIRTUAL, "
        "here TIMESTAMP(3) METADATA FROM 'timestamp') WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json', "
        "'properties.bootstrap.servers' = 'b', 'scan.startup.mode' = 'earliest-offset')"
    )
    moment = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    frame = spark.createDataFrame([(None, b'{"v":"a"}', "t", 3, 7, moment, 1, None)], _KAFKA_SCHEMA)
    local = moment.astimezone(ZoneInfo(time_zone)).replace(tzinfo=None)
    assert _dicts(kv.decode(frame)) == [{"p": 3, "v": "a", "offset": "7", "here": local}]
    (written,) = _dicts(kv.encode(kv.decode(frame)))
    assert written["timestamp"].timestamp() == moment.timestamp()
    with pytest.raises(SchemaError, match="needs the column 'partition'"):
        kv.decode(frame.drop("partition"))


def test_written_metadata(spark: Any) -> None:
    options = {"format": "json", "topic": "a;b"}
    kv = KeyValueFormat("v STRING", options)
    rows = spark.createDataFrame(
        [("x", "a", {"k": b"1", "n": None}, dt.datetime(2024, 1, 1, 0, 0, 0, 123456, dt.UTC)), ("y", "b", None, None)],
        "v STRING, tp STRING, h MAP<STRING, BINARY>, ts TIMESTAMP",
    ).coalesce(1)
    metadata = {"tp": "topic", "h": "headers", "ts": "timestamp"}
    with pytest.warns(KafkaSinkWarning, match="'timestamp', but Spark's Kafka sink ignores this column") as warned:
        records = kv.encode(rows, metadata=metadata)
    assert [Path(warning.filename) for warning in warned] == [Path(__file__)]
    first, second = _dicts(records)
    metadata = {"tp": "topic", "h": "headers"}
    assert (first["value"], first["topic"]) == (b'{"v":"x"}', "a")
    assert first["headers"] == [{"key": "k", "value": b"1"}]
    assert first["timestamp"].microsecond == 123000
    assert (second["headers"], second["timestamp"]) == (None, None)
    for topic, message in (("c", r"Expected topic to be in: \{a, b\} but was: c"), (None, "no topic is set")):
        wrong = rows.withColumn("tp", F.lit(topic).cast("string"))
        with pytest.raises(Exception, match=message):
            kv.encode(wrong, metadata=metadata).collect()
    for pattern in ("[ab]", "(?x) [ab] # no other", r"[ab]|\Q(c"):
        by_pattern = KeyValueFormat("v STRING", {"format": "json", "topic-pattern": pattern})
        assert len(by_pattern.encode(rows, metadata=metadata).collect()) == 2
        for wrong in ("ab", "a\n"):
            with pytest.raises(Exception, match="Expected topic to match"):
                by_pattern.encode(rows.withColumn("tp", F.lit(wrong)), metadata=metadata).collect()
    with pytest.raises(ConfigurationError, match="ambiguous"):
        kv.encode(rows, metadata={"h": "headers", "l": "header-list"})
    with pytest.raises(ConfigurationError, match="Invalid metadata key 'topic'"):
        KeyValueFormat("v STRING", {"format": "json", "topic": "t"}).encode(rows, metadata={"tp": "topic"})


def test_topics_without_a_topic_column_are_checked(spark: Any) -> None:
    rows = spark.createDataFrame([("x", "a")], "v STRING, tp STRING")
    for options, told in (({"topic": "a;b"}, "topics a, b"), ({"topic-pattern": "[ab]"}, r"topics of '\[ab\]'")):
        kv = KeyValueFormat("v STRING", {"format": "json", **options})
        with pytest.warns(KafkaSinkWarning, match=f"table 'table' has .*{told}, but no metadata column with the topic"):
            kv.encode(rows)
        kv.encode(rows, metadata={"tp": "topic"})  # warnings are errors here
    KeyValueFormat("v STRING", {"format": "json", "topic": "a"}).encode(rows)


# --- one stage ----------------------------------------------------------------------------------------------


def test_key_and_value_need_one_python_stage(spark: Any, request: pytest.FixtureRequest) -> None:
    kv = KeyValueFormat("id INT, v STRING, t TIME(3)", _KAFKA)
    frame = _frame(spark, ('{"id":1}', '{"v":"a"}'))
    decoded = kv.decode(frame, errors="capture")
    good, bad = split_errors(decoded)
    for result in (kv.decode(frame).where("v = 'a' AND id > 0"), good.where("v = 'a'"), bad):
        plan = _plan(request, result)
        assert plan.count("MapInArrow") + plan.count("ArrowEvalPython") == 1, plan
        assert "key_value_decode" in plan


def test_encoding_uses_python_only_if_necessary(spark: Any, request: pytest.FixtureRequest) -> None:
    kv = KeyValueFormat("id INT, v STRING", _UPSERT, primary_key=["id"])
    rows = spark.createDataFrame([(1, "a", "+I")], "id INT, v STRING, row_kind STRING")
    native = _plan(request, kv.encode(rows.drop("row_kind")))
    told = _plan(request, kv.encode(rows, changelog_mode=ChangelogMode.UPSERT))
    assert all("InArrow" not in plan and "EvalPython" not in plan for plan in (native, told))
    assert _plan(request, kv.encode(rows)).count("MapInArrow key_value_encode") == 1
    again = _plan(request, kv.encode(kv.decode(_frame(spark, ('{"id":1}', None)))))
    assert again.count("MapInArrow") == 1, again


# --- errors -------------------------------------------------------------------------------------------------

_BAD = [
    ('{"id":1}', '{"v":"good"}'),
    ("{", '{"v":"bad key"}'),
    ('{"id":3}', "{"),
    ("", '{"v":"skipped key"}'),
    ('{"id":5}', "[]"),
    (None, '{"v":"null key"}'),
    ('{"id":7}', None),
]


def test_captured_errors_keep_the_record(spark: Any) -> None:
    kv = KeyValueFormat("id INT, v STRING", _KAFKA)
    captured = kv.decode(_frame(spark, *_BAD), errors="capture")
    assert captured.columns == ["id", "v", "error"]
    good, bad = split_errors(captured)
    assert _dicts(good) == [{"id": 1, "v": "good"}, {"id": None, "v": "null key"}]
    assert bad.columns == ["part", "reason", "key", "value", "code"]
    faults = [(row["part"], row["reason"].partition(":")[0], row["key"], row["value"]) for row in _dicts(bad)]
    assert faults == [
        ("key", "json", b"{", b'{"v":"bad key"}'),
        ("value", "json", b'{"id":3}', b"{"),
        ("key", "skipped", b"", b'{"v":"skipped key"}'),
        ("value", "skipped", b'{"id":5}', b"[]"),
    ]
    assert [row["code"] for row in _dicts(bad)] == ["MALFORMED", "MALFORMED", "SKIPPED", "SKIPPED"]
    with pytest.raises(ConfigurationError, match="split_errors takes"):
        split_errors(kv.decode(_frame(spark, *_BAD)))


def test_captured_errors_have_kafkas_columns(spark: Any, time_zone: str) -> None:
    moment = dt.datetime(2024, 3, 10, 7, 30, tzinfo=dt.UTC)
    frame = spark.createDataFrame(
        [(b"{", b"{", "t", 3, 7, moment, 0, [("h", b"1")]), (b'{"id":1}', b'{"v":"a"}', "t", 3, 8, moment, 0, None)],
        _KAFKA_SCHEMA,
    ).coalesce(1)
    decoded = KeyValueFormat("id INT, v STRING", _UPSERT, primary_key=["id"]).decode(
        frame, metadata=["offset"], errors="capture"
    )
    assert decoded.columns == ["id", "v", "offset", "row_kind", "error"]
    (fault,) = _dicts(split_errors(decoded.drop("offset"))[1].where("part = 'record' AND key = X'7B'"))
    assert list(fault)[-1] == "code"
    assert fault["code"] == "MALFORMED"
    assert fault["reason"].startswith("key: json: ")
    assert "; value: json: " in fault["reason"]
    assert (fault["topic"], fault["partition"], fault["offset"]) == ("t", 3, 7)
    assert fault["timestamp"].timestamp() == moment.timestamp()
    assert fault["headers"] == [{"key": "h", "value": b"1"}]


def test_a_raised_error_names_topic_partition_and_offset(spark: Any) -> None:
    records = [("t", 3, n, b'{"id":1}', b'{"v":"a"}' if n != 2007 else b"{") for n in range(2100)]
    frame = spark.createDataFrame(records, "topic STRING, partition INT, offset BIGINT, key BINARY, value BINARY")
    kv = KeyValueFormat("id INT, v STRING", _KAFKA)
    text = r"\[MALFORMED\] cannot decode the value .* The record: number 2008 of Spark's partition 0, "
    place = r"topic t, partition 3, offset 2007, key b'\{\"id\":1\}', value"
    with pytest.raises(Exception, match=text + place):
        kv.decode(frame.coalesce(1)).collect()
    with pytest.raises(Exception, match=text + place):
        kv.decode(frame.coalesce(1), metadata=["offset", "topic"]).collect()
    of_one_topic = KeyValueFormat("id INT, v STRING", {**_KAFKA, "topic": "orders"})
    with pytest.raises(Exception, match=text + "topic orders, partition 3, key"):
        of_one_topic.decode(frame.coalesce(1).withColumn("offset", F.col("offset").cast("string"))).collect()
    with pytest.raises(Exception, match=text + "key"):
        kv.decode(frame.select("key", "value").coalesce(1)).collect()


def test_rows_have_their_index_in_the_record(spark: Any) -> None:
    update = {"data": [{"id": 1, "v": "b"}, {"id": 1, "v": "c"}], "old": [{"v": "a"}, {"v": "b"}], "type": "UPDATE"}
    records = [(0, 1, b'{"data"'), (0, 2, json.dumps(update).encode()), (0, 3, None)]
    frame = spark.createDataFrame(records, "partition INT, offset BIGINT, value BINARY").coalesce(1)
    kv = KeyValueFormat("id INT, v STRING", {"format": "canal-json"})
    decoded = kv.decode(frame, metadata=["partition", "offset"], row_index=True, errors="capture")
    assert decoded.columns == ["id", "v", "partition", "offset", "row_kind", "row_index", "error"]
    assert [(row["v"], row["row_kind"], row["row_index"]) for row in _dicts(decoded)] == [
        (None, None, None), ("a", "-U", 0), ("b", "+U", 1), ("b", "-U", 2), ("c", "+U", 3)
    ]  # fmt: skip
    good, _ = split_errors(decoded)
    assert _dicts(latest_by_key(good, "id")) == [{"id": 1, "v": "c", "partition": 0, "offset": 2}]
    assert _dicts(kv.encode(good)) == _dicts(kv.encode(good.drop("row_index")))
    with pytest.raises(ConfigurationError, match=r"holds bad records too.*split_errors"):
        kv.encode(decoded)
    inserts = KeyValueFormat("v STRING", {"format": "json"}).decode(
        _frame(spark, (None, '[{},{"v":"x"}]')), row_index=True
    )
    assert _dicts(inserts) == [{"v": None, "row_index": 0}, {"v": "x", "row_index": 1}]
    with pytest.raises(ConfigurationError, match="two columns 'row_index'"):
        KeyValueFormat("row_index INT", {"format": "json"}).decode(frame, row_index=True)


def test_a_bad_record_fails_the_job_with_a_reason(spark: Any) -> None:
    kv = KeyValueFormat("id INT, v STRING", _KAFKA)
    with pytest.raises(Exception, match=r"cannot decode the key of a record: json: .*value b'\{\"v\":\"bad key\"\}'"):
        kv.decode(_frame(spark, *_BAD[:2])).collect()
    with pytest.raises(Exception, match="errors='capture'"):
        kv.decode(_frame(spark, _BAD[2])).collect()
    kept = _dicts(kv.decode(_frame(spark, _BAD[0], *_BAD[3:])))
    assert [row["v"] for row in kept] == ["good", "skipped key", "null key"]
    upsert = KeyValueFormat("id INT, v STRING", _UPSERT, primary_key=["id"])
    with pytest.raises(Exception, match="the key is null, but an upsert table needs one"):
        upsert.decode(_frame(spark, (None, "{}"))).collect()
    with pytest.raises(ConfigurationError, match="errors must be 'raise' or 'capture'"):
        kv.decode(_frame(spark), errors="ignore")  # type: ignore[arg-type]


@pytest.mark.parametrize("most", ["-1", "2", "1"])
def test_tolerated_errors_are_counted_before_the_rows_are_used(most: str, spark: Any) -> None:
    options = {"ingestion.ignore-errors": "true", "ingestion.error-tolerance.max-count": most}
    kv = KeyValueFormat("id INT, v STRING", {**_KAFKA, **options})
    frame = _frame(spark, *_BAD).repartition(3)
    if most == "1":
        with pytest.raises(DataError, match=r"more than 1 bad records.*max-count"):
            kv.decode(frame)
        return
    assert sorted(row["v"] for row in _dicts(kv.decode(frame))) == ["good", "null key", "skipped key"]
    assert kv.decode(frame, errors="capture").where("error IS NOT NULL").count() == 4


def test_wrong_input_is_an_error_before_a_job(spark: Any) -> None:
    kv = KeyValueFormat("id INT, v STRING", _KAFKA)
    frame = _frame(spark, *_BAD)
    for given, message in (
        (frame.drop("value"), "no column 'value'"),
        (frame.drop("key"), "no column 'key', which key format 'json' reads"),
        (frame.withColumn("value", F.lit(1)), "must be BINARY"),
    ):
        with pytest.raises(SchemaError, match=message):
            kv.decode(given)
    with pytest.raises(SchemaError, match="includeHeaders"):
        kv.decode(frame, metadata=["headers"])
    with pytest.raises(ConfigurationError, match="two columns 'v'"):
        kv.decode(frame, metadata={"v": "offset"})
    with pytest.raises(ConfigurationError, match="two columns 'error'"):
        KeyValueFormat("error STRING", {"format": "json"}).decode(frame, errors="capture")
    with pytest.raises(ConfigurationError, match="list of keys"):
        kv.decode(frame, metadata="offset")
    texts = frame.select(F.col("key").cast("string"), F.col("value").cast("string"))
    assert kv.decode(texts, errors="capture").where("error IS NULL").count() == 2


# --- writing ------------------------------------------------------------------------------------------------


def test_columns_are_matched_by_name_and_cast_without_loss(spark: Any) -> None:
    kv = KeyValueFormat("id BIGINT, v DECIMAL(12, 2), r ROW<a BIGINT, b STRING>", {**_KAFKA, "format": "json"})
    rows = spark.createDataFrame(
        [(("x", 1), 5, 7, "unused")], "r STRUCT<b: STRING, a: INT>, v INT, id SMALLINT, z STRING"
    )
    (record,) = _dicts(kv.encode(rows))
    assert record["key"] == b'{"id":7}'
    assert json.loads(record["value"]) == {"v": 5, "r": {"a": 1, "b": "x"}}
    always_null = rows.withColumn("v", F.lit(None))
    assert json.loads(_dicts(kv.encode(always_null))[0]["value"])["v"] is None
    for wrong, message in (
        (rows.drop("v"), "lacks the column v of table.* It has id, r, z"),
        (rows.withColumn("v", F.lit(1.5)), r"column 'v' is DOUBLE, which does not fit DECIMAL\(12, 2\)"),
        (rows.withColumn("id", F.lit("1")), "column 'id' is STRING, which does not fit BIGINT"),
        (rows.withColumn("r", F.lit(1)), "column 'r' is INT, which does not fit ROW"),
        (rows.select("*", F.lit(1).alias("v")), "the DataFrame has column 'v' more than once"),
    ):
        with pytest.raises(SchemaError, match=message):
            kv.encode(wrong)


def test_null_keys_and_unknown_kinds(spark: Any) -> None:
    kv = KeyValueFormat("id INT, v STRING", _UPSERT, primary_key=["id"])
    rows = spark.createDataFrame([(None, "a", "+U")], "id INT, v STRING, row_kind STRING")
    for given in (rows, rows.drop("row_kind")):
        with pytest.raises(Exception, match="column 'id' of the PRIMARY KEY is NULL"):
            kv.encode(given).collect()
    with pytest.raises(SchemaError, match="column 'id' of the PRIMARY KEY is always NULL"):
        kv.encode(rows.withColumn("id", F.lit(None)))
    with pytest.raises(SchemaError, match="'row_kind' must be STRING"):
        kv.encode(rows.withColumn("row_kind", F.lit(1)))
    for kind in ("X", None):
        strange = rows.withColumn("id", F.lit(1)).withColumn("row_kind", F.lit(kind).cast("string"))
        with pytest.raises(Exception, match="column 'row_kind' must be"):
            kv.encode(strange).collect()
    updates = rows.withColumn("id", F.lit(1)).withColumn("row_kind", F.lit("-U"))
    with pytest.raises(Exception, match=r"'row_kind' is -U, but must be one of \+I, \+U, -D; to allow all call encode"):
        kv.encode(updates, changelog_mode=ChangelogMode.UPSERT).collect()
    inserts_only = KeyValueFormat("id INT, v STRING", _KAFKA)
    assert _dicts(inserts_only.encode(rows.withColumn("row_kind", F.lit("+I"))))[0]["key"] == b'{"id":null}'
    with pytest.raises(Exception, match=r"is -D, but must be one of \+I; format 'json' writes inserts only"):
        inserts_only.encode(rows.withColumn("row_kind", F.lit("-D"))).collect()


@pytest.mark.parametrize("include", ["ALL", "EXCEPT_KEY"])
def test_pairs_of_updates_are_found_across_batches(include: str, spark: Any) -> None:
    """The session's Arrow batches have 1000 rows, so they split the pair at row 999."""
    kv = KeyValueFormat("id INT, v STRING", {**_UPSERT, "value.fields-include": include}, primary_key=["id"])
    kinds = ["+I"] * 999 + ["-U", "+U"] + ["-D"] * 998 + ["-U"] + ["-U", "+U"]
    ids = [*range(999), 1, 1, *range(998), 2, 3, 3]
    rows = spark.createDataFrame(list(zip(ids, kinds, strict=True)), "id INT, row_kind STRING").coalesce(1)
    written = _dicts(kv.encode(rows.withColumn("v", F.lit("x"))))
    value = b'"v":"x"}'
    got = [(json.loads(record["key"])["id"], record["value"] and record["value"][-8:]) for record in written]
    wanted: list[tuple[int, bytes | None]] = [(i, value) for i in range(999)] + [(1, value)]
    wanted += [(i, None) for i in range(998)] + [(2, None), (3, value)]
    assert got == wanted


def test_a_table_of_change_data_writes_envelopes(spark: Any) -> None:
    kv = KeyValueFormat("id INT, v STRING", {**_KAFKA, "value.format": "debezium-json"})
    rows = spark.createDataFrame([(1, "a", "-D"), (2, "b", "+I")], "id INT, v STRING, row_kind STRING").coalesce(1)
    written = kv.encode(rows)
    assert [json.loads(record["value"])["op"] for record in _dicts(written)] == ["d", "c"]
    assert kv.changelog_mode is ChangelogMode.ALL
    assert _dicts(kv.decode(written)) == [
        {"id": 1, "v": "a", "row_kind": "-D"},
        {"id": 2, "v": "b", "row_kind": "+I"},
    ]


def test_types_are_unchanged_after_encoding_and_decoding(spark: Any, time_zone: str) -> None:
    schema = (
        "id INT, t TIME(3), ts TIMESTAMP(3), z TIMESTAMP_LTZ(3), de DECIMAL(10, 2) NOT NULL, by BYTES, "
        "a ARRAY<ROW<x INT NOT NULL>>, m MAP<STRING, BIGINT>"
    )
    kv = KeyValueFormat(schema, {**_UPSERT, "value.fields-include": "EXCEPT_KEY"}, primary_key=["id"])
    value = (
        '{"t":"10:11:12","ts":"2024-03-10 02:30:00.123","z":"2024-03-10 02:30:00.5Z","de":1.25,"by":"AAH/",'
        '"a":[{"x":1}],"m":{"k":1}}'
    )
    decoded = kv.decode(_frame(spark, ('{"id":1}', value)))
    types = {field.name: field.dataType for field in decoded.schema.fields}
    assert types["t"] == T.TimeType(3)
    assert types["ts"] == T.TimestampNTZType()
    assert types["de"] == T.DecimalType(10, 2)
    assert all(field.nullable for field in decoded.schema.fields)
    for changes in (decoded, decoded.withColumn("row_kind", F.lit("+U"))):  # native, then Arrow
        (record,) = _dicts(kv.encode(changes))
        assert (record["key"], record["value"].decode()) == (b'{"id":1}', value)


# --- computed columns and watermarks ---------------------------------------------------------------------------

_EVENTS = """CREATE TABLE events (
    id INT, price DECIMAL(10, 2), amount INT, ts TIMESTAMP_LTZ(3),
    total AS price * amount, `day` AS CAST(ts AS DATE), label AS 'it''s \\ ' || UPPER(CAST(id AS STRING)),
    WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b', 'format' = 'json',
        'properties.group.id' = 'g')"""


def test_computed_columns(spark: Any) -> None:
    kv = KeyValueFormat.from_ddl(_EVENTS)
    frame = _frame(spark, (None, '{"id":1,"price":1.5,"amount":3,"ts":"2024-01-02 12:00:00Z"}'), (None, "{"))
    decoded = kv.decode(frame, errors="capture")
    assert decoded.columns == ["id", "price", "amount", "ts", "total", "day", "label", "error"]
    good, bad = split_errors(decoded)
    (row,) = _dicts(good)
    assert (float(row["total"]), row["day"], row["label"]) == (4.5, dt.date(2024, 1, 2), "it's \\ 1")
    assert bad.count() == 1
    assert _dicts(decoded.where("error IS NOT NULL"))[0]["label"] is None
    for expression, message in (("nope(id)", "NOPE"), ("id +", "id [+]"), ("COUNT(id)", "COUNT"), ("id % 1e0", "%: ")):
        refused = KeyValueFormat.from_ddl(_EVENTS.replace("price * amount", expression))
        with pytest.raises(ConfigurationError, match=rf"(?s)column 'total' of table 'events' can't be .*{message}"):
            refused.decode(frame)
    records = kv.encode(
        spark.createDataFrame([(1, Decimal("2"), 3, None)], "id INT, price DECIMAL(2, 0), amount INT, ts TIMESTAMP")
    )
    assert _dicts(records) == [{"value": b'{"id":1,"price":2,"amount":3,"ts":null}'}]


_REFUSED = ("MAP_FROM_ARRAYS(sa, i1)", "INTERVAL '1' DAY")  # its keys may be NULL; a column of an INTERVAL


def test_expressions_give_the_same_results_as_in_flink(spark: Any) -> None:
    columns = "ar2 ARRAY<INT>, ar3 ARRAY<INT>, ar1 ARRAY<INT>, ar23 ARRAY<INT>, sab ARRAY<STRING>, sa ARRAY<STRING>, "
    columns += "i1 ARRAY<INT>, mp MAP<STRING, INT>"
    cases = [case for case in interop.expressions() if case["expression"] not in _REFUSED]
    assert len(cases) >= 191
    computed = "".join(f", x{i} AS {case['expression']}" for i, case in enumerate(cases))
    kv = KeyValueFormat.from_ddl(
        f"CREATE TABLE t ({columns}{computed}) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json', "
        "'properties.bootstrap.servers' = 'b', 'properties.group.id' = 'g')"
    )
    value = '{"ar2":[1,2],"ar3":[1,2,1],"ar1":[2],"ar23":[2,3],"sab":["a","b"],"sa":["a"],"i1":[1],"mp":{"a":1}}'
    decoded = kv.decode(_frame(spark, (None, value)))
    (row,) = _dicts(decoded.select([F.col(f"x{i}") for i in range(len(cases))]))
    got = {case["expression"]: _as_flink_prints(row[f"x{i}"]) for i, case in enumerate(cases)}
    wrong = {case["expression"]: (got[case["expression"]], case["flink"]) for case in cases}
    assert {text: both for text, both in wrong.items() if not _equal(*both)} == {}


def _equal(got: str, flink: str) -> bool:
    """Compare texts; functions of DOUBLE may differ from Java's in the last digit."""
    if got == flink:
        return True
    try:
        return math.isclose(float(got), float(flink), rel_tol=1e-14)
    except ValueError:
        return False


def _as_flink_prints(value: Any) -> str:
    """Return a value of Spark as Flink prints it in a row."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, bytes):
        return str([byte - 256 if byte > 127 else byte for byte in value])
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="auto").removesuffix("000").removesuffix(":00")
        return text + ("Z" if value.tzinfo else "")
    if isinstance(value, dt.timedelta):
        return f"PT{value.total_seconds() / 3600:g}H"
    if isinstance(value, dict):
        return f"+I[{', '.join(map(_as_flink_prints, value.values()))}]"
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return f"{{{', '.join(f'{k}={_as_flink_prints(v)}' for k, v in value)}}}"
    return f"[{', '.join(map(_as_flink_prints, value))}]" if isinstance(value, list) else str(value)


@pytest.mark.parametrize(
    "expression", ["reflect('java.lang.System', 'getProperty', 'user.home')", "(SELECT 1)", "id IN (FROM range(9))"]
)
def test_computed_columns_cannot_call_java_or_read_other_tables(expression: str, spark: Any) -> None:
    frame = _frame(spark, (None, '{"id":1}'))
    refused = KeyValueFormat.from_ddl(_EVENTS.replace("price * amount", expression))
    with pytest.raises(ConfigurationError, match=r"column 'total' of table 'events' can't be .*line 3, column"):
        refused.decode(frame)


# --- streams ----------------------------------------------------------------------------------------------------


def _stream(spark: Any, folder: Path) -> Any:
    """Return a stream of files. Each line is a JSON object with key and value as texts."""
    lines = spark.readStream.schema("line STRING").text(str(folder))
    parsed = F.from_json("line", "key STRING, value STRING, offset BIGINT")
    return lines.select(parsed.alias("r")).select("r.*")


def _add(folder: Path, name: str, *records: tuple[str | None, str | None]) -> None:
    lines = [json.dumps({"key": k, "value": v, "offset": i}) for i, (k, v) in enumerate(records)]
    (folder / name).write_text("\n".join(lines), encoding="utf-8")


def _run(stream: Any, folder: Path, write: Any) -> None:
    started = stream.writeStream.option("checkpointLocation", str(folder)).trigger(availableNow=True)
    started.foreachBatch(write).start().awaitTermination()


def test_dead_letters_of_a_stream(spark: Any, tmp_path: Path) -> None:
    source, good_folder, bad_folder = tmp_path / "in", str(tmp_path / "good"), str(tmp_path / "bad")
    source.mkdir()
    kv = KeyValueFormat("id INT, v STRING", _KAFKA)
    captured = kv.decode(_stream(spark, source), errors="capture")

    def write(batch: Any, batch_id: int) -> None:
        from kvformat.registry import split_errors

        batch.persist()
        good, bad = split_errors(batch)
        good.write.mode("overwrite").parquet(f"{good_folder}/{batch_id}")
        bad.write.mode("overwrite").parquet(f"{bad_folder}/{batch_id}")
        batch.unpersist()

    _add(source, "a.txt", *_BAD)
    _run(captured, tmp_path / "checkpoint", write)
    _add(source, "b.txt", ('{"id":8}', '{"v":"later"}'), ("{", None))
    _run(captured, tmp_path / "checkpoint", write)
    good, bad = spark.read.parquet(f"{good_folder}/*"), spark.read.parquet(f"{bad_folder}/*")
    assert sorted(row["v"] for row in _dicts(good)) == ["good", "later", "null key"]
    assert sorted(row["offset"] for row in _dicts(bad)) == [1, 1, 2, 3, 4]
    assert {row["part"] for row in _dicts(bad)} == {"key", "value"}


def test_tolerated_errors_in_a_stream_are_counted_by_batch(spark: Any, tmp_path: Path) -> None:
    source, folder = tmp_path / "in", str(tmp_path / "out")
    source.mkdir()
    options = {"ingestion.ignore-errors": "true", "ingestion.error-tolerance.max-count": "2"}
    kv = KeyValueFormat("id INT, v STRING", {**_KAFKA, **options})
    stream = _stream(spark, source)
    with pytest.raises(ConfigurationError, match="foreachBatch"):
        kv.decode(stream)

    def write(batch: Any, batch_id: int) -> None:
        kv.decode(batch).write.mode("overwrite").parquet(f"{folder}/{batch_id}")

    _add(source, "a.txt", *_BAD)
    _run(stream, tmp_path / "checkpoint", write)
    _add(source, "b.txt", *_BAD[1:3], _BAD[1])
    with pytest.raises(Exception, match="more than 2 bad records"):
        _run(stream, tmp_path / "checkpoint", write)
    assert spark.read.parquet(f"{folder}/*").count() == 3


@pytest.mark.parametrize("declared", ["TIMESTAMP_LTZ(3)", "TIMESTAMP(3)"])
def test_a_watermark_closes_windows(declared: str, spark: Any, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    kv = KeyValueFormat.from_ddl(_EVENTS.replace("TIMESTAMP_LTZ(3)", declared))
    decoded = kv.decode(_stream(spark, source))
    assert isinstance(decoded.schema["ts"].dataType, T.TimestampType)  # Spark supports only timestamps as event time
    assert kv.encode(decoded).columns == ["value"]
    counts = decoded.groupBy(F.window("ts", "10 seconds")).agg(F.sum("total").alias("total")).select("total")
    zone = "Z" if "LTZ" in declared else ""
    for name, second in (("a", "01"), ("b", "12"), ("c", "16")):  # 16 - 5 is after the end of the first window
        _add(source, f"{name}.txt", (None, f'{{"id":1,"price":1.5,"amount":1,"ts":"2024-01-02 12:00:{second}{zone}"}}'))
        query = (
            counts.writeStream.outputMode("append")
            .format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination()
    assert [float(row["total"]) for row in _dicts(spark.read.parquet(str(tmp_path / "out")))] == [1.5]


_WATERMARK = """CREATE TABLE t (`at.x` {}, v INT, c AS {}, WATERMARK FOR {} AS {} - INTERVAL '1' DAY) WITH (
    'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b', 'format' = 'json',
    'scan.startup.mode' = 'earliest-offset')"""


def test_a_watermark_needs_a_timestamp(spark: Any, tmp_path: Path, time_zone: str) -> None:
    frame = _frame(spark, (None, '{"at.x":"2024-03-10 02:30:00","v":1}'))
    kv = KeyValueFormat.from_ddl(_WATERMARK.format("TIMESTAMP(3)", "v + 1", "`at.x`", "`at.x`"))
    (row,) = _dicts(kv.decode(frame))  # a batch has the declared types, in every time zone
    assert row == {"at.x": dt.datetime(2024, 3, 10, 2, 30), "v": 1, "c": 2}
    assert kv.decode(_stream(spark, tmp_path)).schema["at.x"].dataType == T.TimestampType()
    all_columns = ["at.x", "v", "c", "row_index", "error"]
    assert kv.decode(_stream(spark, tmp_path), errors="capture", row_index=True).columns == all_columns
    computed = KeyValueFormat.from_ddl(_WATERMARK.format("TIMESTAMP(3)", "TO_TIMESTAMP_LTZ(v, 3)", "c", "c"))
    (row,) = _dicts(computed.decode(frame))
    assert row["c"].timestamp() == 0.001
    assert [type(t) for t in (f.dataType for f in computed.decode(_stream(spark, tmp_path)).schema)] == [
        T.TimestampNTZType, T.IntegerType, T.TimestampType
    ]  # fmt: skip
    with pytest.raises(ConfigurationError, match="column 'c' of the WATERMARK is INT, but must be TIMESTAMP or"):
        KeyValueFormat.from_ddl(_WATERMARK.format("DATE", "v + 1", "c", "c"))


def test_a_stream_is_decoded_and_encoded(spark: Any, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    kv = KeyValueFormat("id INT, v STRING", _UPSERT, primary_key=["id"])
    changes = kv.decode(_stream(spark, source)).withColumn(
        "row_kind", F.expr("concat(left(row_kind, 1), substr(row_kind, 2))")
    )
    _add(source, "a.txt", ('{"id":1}', '{"id":1,"v":"a"}'), ('{"id":1}', None))
    query = (
        kv.encode(changes)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    records = {(row["key"], row["value"]) for row in _dicts(spark.read.parquet(str(tmp_path / "out")))}
    assert records == {(b'{"id":1}', b'{"id":1,"v":"a"}'), (b'{"id":1}', None)}


def test_names_that_differ_in_letter_case_or_have_dots(spark: Any) -> None:
    kv = KeyValueFormat("A STRING, a BIGINT, `b.c` INT, Row_Kind INT", {"format": "debezium-json"})
    message = b'{"before":null,"after":{"A":"x","a":5,"b.c":6,"Row_Kind":7},"op":"c"}'
    decoded = kv.decode(spark.createDataFrame([(message,)], "value BINARY"))
    assert decoded.columns == ["A", "a", "b.c", "Row_Kind", "row_kind"]
    assert [tuple(row) for row in decoded.collect()] == [("x", 5, 6, 7, "+I")]
