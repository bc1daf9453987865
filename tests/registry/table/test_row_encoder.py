"""Rows to records in a Python worker: the same as `encode_batch`, with metadata and the kinds of change feeds."""

from __future__ import annotations

import datetime as dt
from contextlib import nullcontext
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from kvformat.registry.contract.errors import ConfigurationError, EncodeError, KafkaSinkWarning, SchemaError
from kvformat.registry.contract.schemas import resolve_schema, row_type, spark_schema
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.table.encode_frame import _is_event_time, _warn_about_sink, check_metadata

BASE = {"connector": "kafka", "topic": "t", "properties.bootstrap.servers": "b:1", "format": "json"}
UPSERT = {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"}


def table(columns: str, **options: str | None) -> KeyValueFormat:
    given = {key: text for key, text in {**BASE, **options}.items() if text is not None}
    with_ = ", ".join(f"'{key}' = '{text}'" for key, text in given.items())
    return KeyValueFormat.from_ddl(f"CREATE TABLE t ({columns}) WITH ({with_})")


def columns(text: str) -> T.StructType:
    """Return the columns of rows as Spark's type, by Flink's names of types."""
    return spark_schema(row_type(resolve_schema(text)))


def upsert() -> KeyValueFormat:
    return table("id INT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED", format=None, **UPSERT)


def records(kv: KeyValueFormat, rows: pa.Table, schema: T.StructType, *, size: int = 100, **more: Any) -> list[Any]:
    """Encode rows in batches of this size."""
    encoder = kv.row_encoder(schema, **more)
    batches = iter(rows.combine_chunks().to_batches(max_chunksize=size))
    return [record for batch in encoder.records(batches, "America/New_York") for record in batch.to_pylist()]


def test_columns_are_found_by_name_and_cast() -> None:
    kv = table("id BIGINT, name STRING")
    rows = pa.table({"name": ["a", None], "x": [1, 2], "id": pa.array([1, 2], pa.int32())})
    schema = columns("name STRING, x BIGINT, id INT")
    expected = kv.encode_batch(pa.array([{"id": 1, "name": "a"}, {"id": 2, "name": None}])).values.to_pylist()
    assert [record["value"] for record in records(kv, rows, schema)] == expected
    assert expected == [b'{"id":1,"name":"a"}', b'{"id":2,"name":null}']


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_an_update_of_an_upsert_table_is_one_record(size: int) -> None:
    changes = [
        ("insert", 1, 10),
        ("update_preimage", 1, 10),
        ("update_postimage", 1, 11),
        ("update_preimage", 2, 1),
        ("update_postimage", 3, 1),
        ("delete", 1, 11),
    ]
    names = ("_change_type", "id", "n")
    rows = pa.table(dict(zip(names, zip(*changes, strict=True), strict=True))).cast(
        pa.schema({"_change_type": pa.string(), "id": pa.int32(), "n": pa.int64()})
    )
    schema = columns("_change_type STRING, id INT, n BIGINT")
    found = [(record["key"], record["value"]) for record in records(upsert(), rows, schema, size=size)]
    assert found == [
        (b'{"id":1}', b'{"id":1,"n":10}'),
        (b'{"id":1}', b'{"id":1,"n":11}'),
        (b'{"id":2}', None),
        (b'{"id":3}', b'{"id":3,"n":1}'),
        (b'{"id":1}', None),
    ]


def test_metadata_is_written() -> None:
    kv = table("id INT, h MAP<STRING, BYTES> METADATA FROM 'headers', ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'")
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=dt.UTC)
    rows = pa.table(
        {
            "id": pa.array([1, 2], pa.int32()),
            "h": pa.array([[("a", b"1"), ("b", None)], None], pa.map_(pa.string(), pa.binary())),
            "ts": pa.array([moment, None], pa.timestamp("us", "UTC")),
        }
    )
    schema = columns("id INT, h MAP<STRING, BYTES>, ts TIMESTAMP_LTZ(6)")
    first, second = records(kv, rows, schema)
    assert first["headers"] == [{"key": "a", "value": b"1"}]
    assert first["timestamp"] == 1_767_323_045_678
    assert (second["headers"], second["timestamp"]) == ([], None)


def test_headers_of_a_list_may_have_no_value_but_need_a_name() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    given = [{"key": "a", "value": None}, {"key": None, "value": b"1"}, {"key": "a", "value": b"2"}]
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "h": pa.array([given, None], kind)})
    schema = columns("id INT, h ARRAY<ROW<key STRING, value BYTES>>")
    first, second = records(table("id INT"), rows, schema, metadata={"h": "header-list"})
    assert (first["headers"], second["headers"]) == ([given[0], given[2]], [])


def test_a_topic_must_be_one_of_the_table() -> None:
    kv = table("id INT", topic="t;u")
    schema = columns("id INT, to STRING")
    rows = pa.table({"id": pa.array([1], pa.int32()), "to": ["u"]})
    assert records(kv, rows, schema, metadata={"to": "topic"})[0]["topic"] == "u"
    for wrong, told in (("v", "Expected topic to be in: {t, u} but was: v"), (None, "no topic is set")):
        with pytest.raises(EncodeError, match=told):
            records(kv, rows.set_column(1, "to", pa.array([wrong], pa.string())), schema, metadata={"to": "topic"})


@pytest.mark.parametrize("pattern", ["a|b|c.", "(?x) a | b | c. # no other", r"a|b|c.|\Q(d"])
def test_a_topic_must_match_the_whole_pattern_of_the_table(pattern: str) -> None:
    kv = table("id INT", topic=None, **{"topic-pattern": pattern})
    schema = columns("id INT, to STRING")
    rows = pa.table({"id": pa.array([1, 2, 3, 4], pa.int32()), "to": ["b", "a", "b", "cd"]})
    found = records(kv, rows, schema, metadata={"to": "topic"})
    assert [record["topic"] for record in found] == ["b", "a", "b", "cd"]
    for wrong in ("ab", "c", "a\n", ""):
        with pytest.raises(EncodeError, match="Expected topic to match: "):
            records(kv, rows.set_column(1, "to", pa.array(["a", "b", "a", wrong])), schema, metadata={"to": "topic"})


def test_local_times_of_a_watermark_come_with_a_time_zone() -> None:
    kv = table("ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND")
    moments = [None, dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC), None]
    rows = pa.table({"ts": pa.array(moments, pa.timestamp("us", "UTC"))})
    found = [record["value"] for record in records(kv, rows, columns("ts TIMESTAMP_LTZ(6)"))]
    assert found == [b'{"ts":null}', b'{"ts":"2026-01-02 07:00:00"}', b'{"ts":null}']


@pytest.mark.parametrize(
    ("kv", "given", "error", "told"),
    [
        (table("id INT, n INT"), "id INT", SchemaError, "lacks the column n of table 't'"),
        (table("id INT"), "id BIGINT", SchemaError, "column 'id' is BIGINT, which does not fit INT"),
        (table("id INT"), "id INT, error ROW<reason STRING>", ConfigurationError, "good, bad = split_errors"),
        (
            table("id INT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'"),
            "id INT, ts STRING",
            SchemaError,
            "must be TIMESTAMP, not STRING",
        ),
    ],
)
def test_rows_that_do_not_fit_are_errors_before_the_job(kv: KeyValueFormat, given: str, error: Any, told: str) -> None:
    with pytest.raises(error, match=told):
        kv.row_encoder(columns(given))


@pytest.mark.parametrize(
    ("key", "given", "fits"),
    [
        ("topic", "STRING", True),
        ("topic", "INT", True),
        ("topic", "ARRAY<STRING>", False),
        ("headers", "MAP<STRING, BYTES>", True),
        ("headers", "MAP<STRING, STRING>", True),
        ("headers", "MAP<BYTES, BYTES>", False),
        ("headers", "MAP<STRING, INT>", False),
        ("headers", "STRING", False),
        ("header-list", "ARRAY<ROW<key STRING, value BYTES>>", True),
        ("header-list", "ARRAY<ROW<value BYTES, key STRING>>", False),
        ("timestamp", "TIMESTAMP_LTZ(6)", True),
        ("timestamp", "BIGINT", False),
    ],
)
def test_a_column_of_metadata_has_a_type_that_its_key_takes(key: str, given: str, fits: bool) -> None:
    kv = table("id INT", topic="t;u")
    schema = columns(f"id INT, m {given}")
    if fits:
        assert kv.row_encoder(schema, metadata={"m": key}).metadata[0].key == key
        return
    with pytest.raises(SchemaError, match=f"column 'm' is written as metadata '{key}' and must be .*: cast it first"):
        kv.row_encoder(schema, metadata={"m": key})


@pytest.mark.parametrize(
    ("given", "fits"), [("TIMESTAMP(3)", True), ("DATE", True), ("STRING", True), ("BIGINT", False)]
)
def test_spark_casts_what_is_a_time_to_the_time_of_a_record(given: str, fits: bool) -> None:
    (column,) = table("id INT")._written({"m": "timestamp"})
    type_ = columns(f"m {given}")["m"].dataType
    with nullcontext() if fits else pytest.raises(SchemaError, match=r"must be TIMESTAMP, not BIGINT: cast it first"):
        check_metadata(column, type_, T.TimestampType())


@pytest.mark.parametrize("key", ["headers", "header-list", "timestamp"])
def test_metadata_that_is_always_null_is_written_as_null(key: str) -> None:
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "m": pa.nulls(2)})
    schema = T.StructType([*columns("id INT").fields, T.StructField("m", T.NullType())])
    name = "headers" if key == "header-list" else key
    assert [record[name] for record in records(table("id INT"), rows, schema, metadata={"m": key})] == [None] * 2


@pytest.mark.parametrize(("guarantee", "told"), [("at-least-once", True), ("exactly-once", False)])
def test_times_of_records_that_sparks_sink_writes_are_ignored_and_those_of_transactions_are_not(
    guarantee: str, told: bool
) -> None:
    options = {"sink.delivery-guarantee": guarantee, "sink.transactional-id-prefix": "p"}
    plan = table("id INT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'", **options)._plan("encode")
    with pytest.warns(KafkaSinkWarning, match="ignores this column") if told else nullcontext():
        _warn_about_sink(plan, ["timestamp"])


@pytest.mark.parametrize("given", ["error STRING", "error ROW<reason STRING>"])
def test_a_table_may_have_a_column_error_of_its_own(given: str) -> None:
    assert table(f"id INT, {given}").row_encoder(columns(f"id INT, {given}")).kinds is None
    if given == "error STRING":  # no bad records, and not written
        assert table("id INT").row_encoder(columns(f"id INT, {given}")).kinds is None


def test_a_key_that_is_always_null_is_refused_and_another_column_is_not() -> None:
    null = {name: T.StructField(name, T.NullType()) for name in ("id", "n")}
    rows = pa.table({"id": pa.array([1], pa.int32()), "n": pa.nulls(1)})
    schema = T.StructType([*columns("id INT").fields, null["n"]])
    assert [record["value"] for record in records(upsert(), rows, schema)] == [b'{"id":1,"n":null}']
    with pytest.raises(SchemaError, match="column 'id' of the PRIMARY KEY is always NULL"):
        upsert().row_encoder(T.StructType([null["id"], *columns("n BIGINT").fields]))


@pytest.mark.parametrize(
    ("declared", "given", "event_time"),
    [
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(6)", "ts"),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", None),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)", None),
    ],
)
def test_only_local_times_that_have_a_time_zone_in_streams_are_moved(
    declared: str, given: str, event_time: str | None
) -> None:
    kv, rows = table(f"ts {declared}, WATERMARK FOR ts AS ts"), columns(f"ts {given}")
    assert kv.row_encoder(rows).event_time == event_time
    (field,) = kv._plan("encode").layout.physical.fields
    assert _is_event_time(field, rows["ts"], "ts") is (event_time is not None)  # of a DataFrame


def test_the_error_of_the_key_comes_before_that_of_the_value() -> None:
    kv = table("t TIME(0), s TIME(0)", format=None, **{"key.format": "json", "key.fields": "t", "value.format": "json"})
    day = pa.array([86_400_000_000_000], pa.int64()).view(pa.time64("ns"))
    batch = kv.encode_batch(pa.StructArray.from_arrays([day, day], ["t", "s"]))
    assert batch.errors is not None
    assert batch.errors[0].as_py().startswith("key: ")


def test_a_table_of_inserts_writes_no_changes() -> None:
    rows = pa.table({"id": pa.array([1], pa.int32()), "row_kind": ["-D"]})
    with pytest.raises(EncodeError, match="column 'row_kind' is -D, but must be one of \\+I; format 'json' writes"):
        records(table("id INT"), rows, columns("id INT, row_kind STRING"))


def test_a_partitioned_table_is_read_but_not_written() -> None:
    with_ = ", ".join(f"'{key}' = '{text}'" for key, text in BASE.items())
    kv = KeyValueFormat.from_ddl(
        f"CREATE TABLE t (a INT, b INT) PARTITIONED BY (b) WITH ({with_}, 'scan.startup.mode' = 'earliest-offset')"
    )
    assert kv.decode_batch(None, pa.array([b'{"a":1,"b":2}'])).rows.to_pylist() == [[{"a": 1, "b": 2}]]
    told = "table 't' is PARTITIONED BY: it can't be written to Kafka"
    for write in (
        lambda: kv.row_encoder(columns("a INT, b INT")),
        lambda: kv.encode_batch(pa.array([{"a": 1, "b": 2}])),
    ):
        with pytest.raises(ConfigurationError, match=told):
            write()


def test_the_schemas_of_key_and_value_are_requested_before_a_job() -> None:
    """Each worker would request them again, and might get another id."""
    parts = ("key", "value")
    options = {f"{part}.format": "avro-confluent" for part in parts} | {"key.fields": "id"}
    options |= {f"{part}.avro-confluent.url": "mock://before-a-job" for part in parts}
    kv = table("id INT, n BIGINT", format=None, **options)
    layout = kv.row_encoder(columns("id INT, n BIGINT")).layout
    for format in (layout.key_format, layout.value_format):
        assert format is not None
        assert isinstance(format.options["schema-id"], int)
