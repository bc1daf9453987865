"""`avro` and `avro-confluent` as Columns: the Arrow and the native engine, streams, and an unavailable registry."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import random
import re
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from kvformat.codecs.avro.types import schema_text
from kvformat.registry import ConfigurationError, KeyValueFormat, SchemaError, SchemaRegistryError, get_format
from kvformat.registry.contract.schemas import resolve_schema, row_type
from tests.support import services, vectors
from tests.support.confluent import registry_client
from tests.support.registry_server import Registry

pytestmark = pytest.mark.spark

_PLAIN = (
    "b BOOLEAN, i INT, l BIGINT NOT NULL, f FLOAT, d DOUBLE, by BYTES, da DATE, ts TIMESTAMP(3), "
    "a ARRAY<INT>, ad ARRAY<ROW<w DATE>>, p ROW<x INT, y ROW<w DATE>>"
)
_COMMON = _PLAIN + ", s STRING, at ARRAY<STRING>, r ROW<x INT, y ROW<z STRING, w DATE>>"
_ALL = _COMMON + ", i1 TINYINT, de DECIMAL(10, 2), t TIME(3), m MAP<STRING, BIGINT>, ms MULTISET<STRING>"
_NEW = "z TIMESTAMP_LTZ(3), z6 TIMESTAMP_LTZ(6), n6 TIMESTAMP(6), zs ARRAY<TIMESTAMP_LTZ(3)>"
_ROW: dict[str, Any] = {
    "b": True,
    "i": -7,
    "l": 2**40,
    "f": 1.5,
    "d": -2.5e-3,
    "s": "é😀",
    "by": b"\0\xff",
    "da": dt.date(1500, 2, 28),
    "ts": dt.datetime(1969, 12, 31, 23, 59, 59, 999000),
    "a": [1, None],
    "at": ["x", None],
    "ad": [{"w": dt.date(1500, 2, 28)}, None],
    "p": {"x": 1, "y": {"w": None}},
    "r": {"x": 1, "y": {"z": "q", "w": dt.date(2024, 2, 29)}},
    "i1": -1,
    "de": decimal.Decimal("12.50"),
    "t": dt.time(10, 11, 12, 500000),
    "m": [("k", 1)],
    "ms": [("e", 2)],
    "z": dt.datetime(2024, 3, 10, 7, 30, tzinfo=dt.UTC),
    "z6": dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
    "n6": dt.datetime(2024, 3, 10, 2, 30, 0, 123456),
    "zs": [dt.datetime(2024, 11, 3, 5, 30, tzinfo=dt.UTC)],
}


def _messages(schema: str, options: dict[str, str]) -> list[bytes | None]:
    """Return the messages of one row of values and one row of nulls."""
    from kvformat.registry.contract.ddl import parse_schema
    from kvformat.registry.contract.types import arrow_type, nullable

    t = nullable(parse_schema(schema))
    full = {field.name: _ROW[field.name] for field in t.fields}
    rows = pa.array([full, dict.fromkeys(full) | ({"l": 0} if "l" in full else {})], arrow_type(t))
    batch = get_format("avro", options).encode_batch(rows, schema)
    assert batch.errors is None
    return [*batch.messages.to_pylist(), None]


def _frame(spark: Any, messages: list[bytes | None]) -> Any:
    return spark.createDataFrame(list(enumerate(messages)), "n INT, value BINARY").repartition(2)


def _collected(frame: Any) -> list[Any]:
    """Return the column `v` in the order of `n`, as Python values without conversion to a time zone."""
    rows = frame.select("n", "v").toArrow().to_pylist()
    return [_plain(row["v"]) for row in sorted(rows, key=lambda row: int(row["n"]))]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value.timestamp() if getattr(value, "tzinfo", None) is not None else value


@pytest.mark.parametrize(("schema", "options"), [
    (_ALL, {}),
    (_ALL, {"encoding": "json"}),
    (f"{_COMMON}, {_NEW}", {"timestamp_mapping.legacy": "false"}),
], ids=["legacy", "json", "new"])  # fmt: skip
def test_columns_equal_decode_batch(spark: Any, time_zone: str, schema: str, options: dict[str, str]) -> None:
    fmt, messages = get_format("avro", options), _messages(schema, options)
    wanted = _plain(fmt.decode_batch(pa.array(messages, pa.binary()), schema).rows.to_pylist())
    frame = _frame(spark, messages)
    for engine in ("auto", "arrow"):
        decoded = frame.select("n", "value", fmt.decode("value", schema, engine=engine).alias("v"))
        assert _collected(decoded) == [row and row[0] for row in wanted], engine
        again = decoded.select("n", fmt.encode("v", schema, engine=engine).alias("v"))
        assert _collected(again) == messages, engine


def test_bad_messages(spark: Any) -> None:
    fmt = get_format("avro")
    frame = _frame(spark, [b"\x02\x02", b"\x04", None])
    captured = _collected(frame.select("n", fmt.decode("value", "i INT", errors="capture").alias("v")))
    assert captured[0] == {"row": {"i": 1}, "error": None}
    assert captured[1]["error"]["reason"].startswith("avro: field")
    for engine in ("auto", "arrow"):
        with pytest.raises(Exception, match=r"(?i)malformed|cannot decode a message"):
            frame.select(fmt.decode("value", "i INT", engine=engine).alias("v")).collect()


def test_wrong_arguments_are_errors_before_a_job(spark: Any) -> None:
    mistakes: tuple[tuple[Callable[[], object], type[Exception]], ...] = (
        (lambda: get_format("avro").decode("value", "ts TIMESTAMP"), SchemaError),
        (lambda: get_format("avro").encode("row"), SchemaError),
        (lambda: get_format("avro").decode("value", "m MAP<STRING, INT>", engine="native"), ConfigurationError),
    )
    for call, error in mistakes:
        with pytest.raises(error):
            call()


# --- the native engine ---------------------------------------------------------------------------------


@pytest.mark.services
@pytest.mark.parametrize(("schema", "options"), [
    (_PLAIN, {}),
    (f"{_PLAIN}, {_NEW}", {"timestamp_mapping.legacy": "false"}),
], ids=["legacy", "new"])  # fmt: skip
def test_the_native_engine_reads_as_the_arrow_engine(
    spark: Any, time_zone: str, schema: str, options: dict[str, str]
) -> None:
    fmt, messages = get_format("avro", options), _messages(schema, options)
    frame = _frame(spark, [*messages, messages[0] + b"\xff\xff"])  # type: ignore[operator]
    found = {}
    for engine in ("native", "arrow"):
        decoded = frame.select("n", fmt.decode("value", schema, engine=engine).alias("v"))
        encoded = decoded.select("n", fmt.encode("v", schema, engine=engine).alias("v"))
        found[engine] = (_collected(decoded), _collected(encoded), decoded.schema["v"].dataType)
    assert found["native"] == found["arrow"]
    assert found["native"][1] == [*messages, messages[0]]


@pytest.mark.services
def test_the_native_engine_writes_text_as_java(spark: Any) -> None:
    fmt, rng = get_format("avro"), random.Random(5)
    texts = [b"\xff", b"a\xc3", b"\xed\xa0\x80x", b"\xed\xa0", b"\xf0\x9f\x98", b"\xe0\x80\x80", b"\xc3\xa9", b""]
    parts = [b"a", b"\x80", b"\x9f", b"\xa0", b"\xbf", b"\xc0", b"\xc3", b"\xe0", b"\xe2", b"\xed", b"\xf0", b"\xf4"]
    texts += [b"".join(rng.choices(parts, k=rng.randint(1, 6))) for _ in range(1000)]
    frame = spark.createDataFrame(list(enumerate(texts)), "n INT, b BINARY")
    text, day = F.col("b").cast("string"), F.lit(dt.date(1500, 2, 28))
    row = F.struct(
        text.alias("s"), F.array(F.lit("x"), text).alias("a"), F.struct(text.alias("t")).alias("r"), day.alias("d")
    )
    schema = "s STRING, a ARRAY<STRING>, r ROW<t STRING>, d DATE"
    native, arrow = (
        _collected(frame.select("n", fmt.encode(row, schema, engine=engine).alias("v")))
        for engine in ("native", "arrow")
    )
    assert native == arrow
    assert native[2].startswith(b"\x02\x08\xef\xbf\xbdx")


@pytest.mark.services
def test_unsupported_types_of_the_native_engine_are_reported(spark: Any) -> None:
    for schema in ("i TINYINT", "m MAP<STRING, INT>", "t TIME(3)", "d DECIMAL(5, 2)", "s STRING", "a INT, `A` INT"):
        with pytest.raises(ConfigurationError, match="no native decode"):
            get_format("avro").decode("value", schema, engine="native")
    texts = [f"s{i}" for i in range(9)]
    with pytest.raises(ConfigurationError, match="no native encode"):
        get_format("avro").encode(F.struct(*texts), ", ".join(f"{t} STRING" for t in texts), engine="native")
    for options in ({"encoding": "json"}, {"timestamp-micros-as-millis": "true"}):
        with pytest.raises(ConfigurationError, match="no native encode"):
            get_format("avro", options).encode(F.struct(F.lit(1).alias("i")), "i INT", engine="native")


# --- a registry ----------------------------------------------------------------------------------------


def test_encode_registers_the_schema_once(spark: Any, registry: Registry) -> None:
    fmt = get_format("avro-confluent", {"url": registry.url, "subject": "once-value"})
    rows = spark.range(200).selectExpr("id AS a", "concat('n', id) AS b").repartition(4)
    before = len(registry.requests)
    encoded = rows.select(F.col("a").alias("n"), fmt.encode(F.struct("a", "b"), "a BIGINT, b STRING").alias("v"))
    assert registry.requests[before:] == ["POST /subjects/once-value/versions"]
    encoded.explain()
    messages = _collected(encoded)
    assert registry.requests[before:] == ["POST /subjects/once-value/versions"]
    decoded = get_format("avro-confluent", {"url": registry.url}).decode("v", "a BIGINT, b STRING")
    assert _collected(encoded.select("n", decoded.alias("v")))[7] == {"a": 7, "b": "n7"}
    batch = fmt.encode_batch(pa.array([{"a": 7, "b": "n7"}]), "a BIGINT, b STRING")
    assert batch.messages.to_pylist() == [messages[7]]


@pytest.mark.services
def test_spark_s_function_writes_only_the_derived_schema(spark: Any, registry: Registry) -> None:
    """With another schema it would write other bytes, or match fields by their places."""
    registry.ids |= {
        90: '{"type":"record","name":"R","fields":[{"name":"b","type":"string"},{"name":"a","type":"long"}]}',
        91: schema_text(row_type(resolve_schema("a BIGINT, b STRING")), legacy=True),
    }
    registry.subjects |= {"other": [90], "derived": [91]}
    struct = F.struct(F.col("id").alias("a"), F.lit("x").alias("b"))
    given = {"url": registry.url, "use-latest-version": "true"}
    other, derived = (get_format("avro-confluent", {**given, "subject": name}) for name in ("other", "derived"))
    with pytest.raises(ConfigurationError, match="no native encode"):
        other.encode(struct, "a BIGINT, b STRING", engine="native")
    frame = spark.range(2).select(
        F.col("id").alias("n"),
        other.encode(struct, "a BIGINT, b STRING").alias("other"),
        *(derived.encode(struct, "a BIGINT, b STRING", engine=engine).alias(engine) for engine in ("native", "arrow")),
    )
    _, row = frame.orderBy("n").collect()
    assert row["other"] == b"\0\0\0\0\x5a\x02x\x02"
    assert row["native"] == row["arrow"] == b"\0\0\0\0\x5b\x02\x02\x02\x02x"


def test_the_error_of_a_registered_schema_names_the_table(spark: Any, registry: Registry) -> None:
    registry.ids[92] = '{"type":"record","name":"R","fields":[{"name":"b","type":"string"},{"name":"a","type":"long"}]}'
    registry.subjects["orders-value"] = [92]
    orders = KeyValueFormat.from_ddl(
        "CREATE TABLE orders (a BIGINT) WITH ('connector' = 'kafka', 'topic' = 'orders', 'format' = 'avro-confluent', "
        f"'properties.bootstrap.servers' = 'x', 'avro-confluent.url' = '{registry.url}', "
        "'avro-confluent.use-latest-version' = 'true')"
    )
    with pytest.raises(SchemaError, match=r"^table 'orders': .* 'orders-value', id 92: field 'b' of record R"):
        orders.encode(spark.range(1).selectExpr("id AS a"))


def test_a_registry_may_be_reachable_only_from_executors(spark: Any, registry: Registry) -> None:
    down = {"url": "http://127.0.0.1:1", "subject": "s", "registry-retries": "0"}
    with pytest.raises(SchemaRegistryError) as caught:
        get_format("avro-confluent", down).encode(F.struct("a"), "a BIGINT")
    assert "register-in-executors" in caught.value.__notes__[0]
    fmt = get_format("avro-confluent", {"url": registry.url, "subject": "late", "register-in-executors": "true"})
    before = len(registry.requests)
    encoded = spark.range(3).select(
        F.col("id").alias("n"), fmt.encode(F.struct(F.col("id").alias("a")), "a BIGINT").alias("v")
    )
    assert registry.requests[before:] == []
    assert [message[5:] for message in _collected(encoded)] == [b"\x02\x00", b"\x02\x02", b"\x02\x04"]
    assert "POST /subjects/late/versions" in registry.requests[before:]


def test_an_unavailable_registry_always_fails_the_job(
    spark: Any, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"url": registry.url.replace("://", "://alice:sesame-open@"), "registry-retries": "0"}
    decoded = get_format("avro-confluent", options).decode("value", "a BIGINT", errors="capture")
    frame, other = (
        _frame(spark, [b"\0\0\0\x10" + number + b"\x00"]).select("n", decoded.alias("v"))
        for number in (b"\x01", b"\x02")
    )
    (unknown,) = _collected(frame)
    assert "Could not find schema with id 4097" in unknown["error"]["reason"]
    registry.failing = 1000
    try:
        with pytest.raises(Exception, match=r"SchemaRegistryError.*schema id 4098") as caught:
            other.collect()
    finally:
        registry.failing = 0
    frame.explain(True)
    plan = capsys.readouterr().out
    assert "decode" in plan
    for text in (str(caught.value), "".join(traceback.format_exception(caught.value)), str(frame), plan):
        assert not re.search("sesame|YWxpY2U6", text)  # as plain text, and as it is sent in the header


@pytest.mark.services
def test_both_engines_write_the_same_bytes_after_the_id(spark: Any, registry: Registry) -> None:
    fmt = get_format("avro-confluent", {"url": registry.url, "subject": "both-value"})
    messages = _messages(_COMMON, {})
    rows = _frame(spark, messages).select("n", get_format("avro").decode("value", _COMMON).alias("row"))
    native, arrow = (
        _collected(rows.select("n", fmt.encode("row", _COMMON, engine=engine).alias("v")))
        for engine in ("native", "arrow")
    )
    assert native == arrow
    assert native[0][5:] == messages[0]
    assert native[2] is None


@pytest.mark.once
@pytest.mark.services
@pytest.mark.slow
def test_a_registry_can_restart_during_a_job(spark: Any, tmp_path: Path) -> None:
    """Messages of one id are read before the restart, those of the other after it. All are right."""
    from confluent_kafka.schema_registry import Schema

    server = services.SchemaRegistry(tmp_path, keeps=True)
    server.start()
    client = registry_client(server.url)
    ids = []
    for subject, t in (("old", "int"), ("new", "long")):
        fields = [{"name": "a", "type": t}, {"name": "b", "type": "string"}]
        ids.append(
            client.register_schema(
                subject, Schema(json.dumps({"type": "record", "name": "R", "fields": fields}), "AVRO")
            )
        )
    source, sink = tmp_path / "in", tmp_path / "out"
    source.mkdir()

    def put(name: str, schema_id: int, first: int) -> None:
        lines = [
            (b"\0" + schema_id.to_bytes(4, "big") + bytes([2 * (n - first), 2]) + b"x").hex()
            for n in range(first, first + 60)
        ]
        (source / name).write_text("\n".join(lines))

    options = {"url": server.url, "registry-timeout": "120 s", "registry-retries": "1000", "registry-backoff": "100 ms"}
    decoded = get_format("avro-confluent", options).decode(F.unhex("value"), "a BIGINT, b STRING")
    query = (
        spark.readStream.schema("value STRING")
        .text(str(source))
        .select("value", decoded.alias("v"))
        .select("value", "v.*")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start(str(sink))
    )
    try:
        put("1.txt", ids[0], 0)
        query.processAllAvailable()
        server.kill()
        restart = threading.Timer(1, server.start)
        restart.start()
        put("2.txt", ids[0], 100)
        put("3.txt", ids[1], 200)
        query.processAllAvailable()
        restart.join()
    finally:
        query.stop()
        server.kill()
    rows = spark.read.parquet(str(sink)).collect()
    assert len(rows) == 180
    assert sorted(row.a for row in rows) == sorted(list(range(60)) * 3)
    assert {row.b for row in rows} == {"x"}


@pytest.mark.once
def test_columns_equal_the_golden_vectors(spark: Any, time_zone: str) -> None:
    """For some golden vectors, the Column gives the same rows and errors as `decode_batch`."""
    chosen = [
        c for c in vectors.cases("avro") if c["direction"] == "decode" and c["messages"] and "factory_error" not in c
    ]
    for case in chosen[:: len(chosen) // 8]:
        fmt, schema = get_format("avro", case["options"]), vectors.columns(case)
        messages = [vectors.message_bytes(message["in"]) for message in case["messages"]]
        batch = fmt.decode_batch(pa.array(messages, pa.binary()), schema)
        got = _collected(_frame(spark, messages).select("n", fmt.decode("value", schema, errors="capture").alias("v")))
        assert repr([r["row"] and [r["row"]] for r in got]) == repr(_plain(batch.rows.to_pylist())), case["id"]
        errors = batch.errors.to_pylist() if batch.errors is not None else [None] * len(messages)
        assert [r["error"] and r["error"]["reason"] for r in got] == [e and f"avro: {e}" for e in errors]
