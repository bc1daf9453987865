"""Columns give the same results as `decode_batch` and `encode_batch`, in classic Spark, Connect and two time zones."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kvformat.registry import Format, get_format
from kvformat.registry.contract.errors import ConfigurationError, KvFormatError, MetadataError, OptionError, SchemaError
from tests.support import vectors
from tests.support.probe import ProbeFormat

pytestmark = pytest.mark.spark

_EVERYTHING = (
    "b BOOLEAN, i1 TINYINT, i2 SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, de DECIMAL(10, 2) NOT NULL, "
    "s STRING, c CHAR(3), by BYTES, da DATE, t TIME(3), ts TIMESTAMP(3), z TIMESTAMP_LTZ(3), a ARRAY<INT>, "
    "m MAP<STRING, BIGINT>, ms MULTISET<STRING>, r ROW<x INT NOT NULL, y ARRAY<ROW<z STRING>>>"
)
_MESSAGES = [
    b'{"b":true,"i1":-1,"i2":300,"i":7,"l":9007199254740993,"f":1.5,"d":-2.5E-3,"de":12.5,'
    b'"s":"\xc3\xa9\\ud83d\\ude00 x","c":"ab","by":"AAH/",'
    b'"da":"2024-02-29","t":"10:11:12.5","ts":"2024-03-10 02:30:00.123","z":"2024-03-10 02:30:00.5Z",'
    b'"a":[1,null,3],"m":{"k":1,"n":null},"ms":{"e":2},"r":{"x":1,"y":[{"z":"q"},null]}}',
    b'{"z":"2024-11-03 05:30:00Z","ts":"1969-12-31 23:59:59.999","de":100,"r":{}}',
    b"{}",
    b"{torn",
    None,
    b"",
    b'[{"i":1},{"i":2}]',
    b'{"i":"x"}',
]


def _frame(spark: Any, messages: list[bytes | None]) -> Any:
    rows = [(n, message) for n, message in enumerate(messages)]
    return spark.createDataFrame(rows, "n INT, value BINARY").repartition(3)


def _collected(frame: Any) -> list[dict[str, Any]]:
    """Return rows in the order of `n`, as Python values without conversion to a time zone."""
    return sorted(frame.toArrow().to_pylist(), key=lambda row: row["n"])


def _kernel_rows(fmt: Format, messages: list[bytes | None], schema: str) -> list[list[Any] | None]:
    rows: list[list[Any] | None] = fmt.decode_batch(pa.array(messages, pa.binary()), schema).rows.to_pylist()
    return rows


def test_columns_equal_decode_batch(spark: Any, time_zone: str) -> None:
    fmt = get_format("json")
    frame = _frame(spark, _MESSAGES)
    captured = _collected(frame.select("n", fmt.decode_rows("value", _EVERYTHING, errors="capture").alias("v")))
    for got, message, rows in zip(captured, _MESSAGES, _kernel_rows(fmt, _MESSAGES, _EVERYTHING), strict=True):
        stripped = got["v"]["rows"] and [{k: v for k, v in row.items() if k != "row_kind"} for row in got["v"]["rows"]]
        assert _plain(stripped) == _plain(rows), message
    bad = [row["n"] for row in captured if row["v"]["error"] is not None]
    assert bad == [3, 7]
    assert captured[7]["v"]["error"]["reason"].startswith("json: field 'i'")
    assert captured[7]["v"]["error"]["message"] == _MESSAGES[7]


def _plain(value: Any) -> Any:
    """Normalize values of Arrow: instants become UTC, maps become pairs."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "tzinfo") and value.tzinfo is not None and hasattr(value, "timestamp"):
        return value.timestamp()
    return value


def test_columns_have_the_declared_types(spark: Any) -> None:
    decoded = _frame(spark, _MESSAGES[:1]).select(get_format("json").decode("value", _EVERYTHING).alias("o"))
    types = {field.name: field for field in decoded.schema["o"].dataType.fields}
    assert types["t"].dataType == T.TimeType(3)
    assert types["ts"].dataType == T.TimestampNTZType()
    assert types["z"].dataType == T.TimestampType()
    assert types["de"].nullable
    assert types["r"].dataType["x"].nullable
    struct = T.StructType([T.StructField("i", T.LongType(), False), T.StructField("s", T.StringType())])
    assert (
        _collected(_frame(spark, _MESSAGES[:1]).select("n", get_format("json").decode("value", struct).alias("o")))[0][
            "o"
        ]["i"]
        == 7
    )


def test_decode_and_capture_of_single_rows(spark: Any) -> None:
    fmt = get_format("json")
    rows = _collected(_frame(spark, _MESSAGES).select("n", fmt.decode("value", "i INT", errors="capture").alias("v")))
    assert [row["v"]["row"] for row in rows] == [{"i": 7}, {"i": None}, {"i": None}, None, None, None, None, None]
    assert [row["n"] for row in rows if row["v"]["error"]] == [3, 6, 7]
    assert rows[6]["v"]["error"] == {
        "reason": "json: the message holds 2 rows: use decode_rows",
        "message": _MESSAGES[6],
        "code": "SEVERAL_ROWS",
    }
    codes = [row["v"]["error"]["code"] for row in rows if row["v"]["error"]]
    assert codes == ["MALFORMED", "SEVERAL_ROWS", "WRONG_TYPE"]


def test_a_raised_error_names_format_reason_and_bytes(spark: Any) -> None:
    frame = _frame(spark, [b'{"i":1}', b'{"i":"x"}'])
    text = r"\[WRONG_TYPE\] format 'json' cannot decode a message: field 'i'.*\{\"i\":\"x\"\}"
    with pytest.raises(Exception, match=text) as caught:
        frame.select(get_format("json").decode("value", "i INT").alias("o")).collect()
    assert "errors='capture'" in str(caught.value)


def test_row_kinds_and_metadata(spark: Any) -> None:
    frame = _frame(spark, [b"-Ua\n+Ub", b"", None, b"!why"])
    decoded = ProbeFormat().decode_rows("value", "v STRING", metadata=["probe.length"], errors="capture")
    rows = _collected(frame.select("n", decoded.alias("v")))
    assert rows[0]["v"]["rows"] == [
        {"row_kind": "-U", "v": "a", "probe.length": 7},
        {"row_kind": "+U", "v": "b", "probe.length": 7},
    ]
    assert [row["v"]["rows"] for row in rows[1:]] == [[], None, None]
    assert rows[3]["v"]["error"] == {"reason": "probe: why", "message": b"!why", "code": "BAD_RECORD"}
    with pytest.raises(ConfigurationError, match="use decode_rows"):
        ProbeFormat().decode("value", "v STRING")
    with pytest.raises(MetadataError):
        ProbeFormat().decode_rows("value", "v STRING", metadata=["nope"])


def test_encode_with_kinds_and_errors(spark: Any) -> None:
    frame = spark.createDataFrame([(0, "a", "+I"), (1, "b", "-D"), (2, None, "+I")], "n INT, v STRING, k STRING")
    rows = _collected(
        frame.select("n", ProbeFormat({"mark": "="}).encode(F.struct("v"), "v STRING", row_kind="k").alias("m"))
    )
    assert [row["m"] for row in rows] == [b"+I=a", b"-D=b", None]
    with pytest.raises(Exception, match="format 'probe' cannot encode a row: 'bad' can't be written"):
        frame.select(ProbeFormat().encode(F.struct(F.lit("bad").alias("v")), "v STRING")).collect()


@pytest.mark.parametrize("schema", [_EVERYTHING, None])
def test_encode_equals_encode_batch(spark: Any, time_zone: str, schema: str | None) -> None:
    fmt = get_format("json")
    good = [m for m, bad in zip(_MESSAGES, [0, 0, 0, 1, 1, 1, 1, 1], strict=True) if not bad]
    frame = _frame(spark, good).select("n", fmt.decode("value", _EVERYTHING).alias("row"))
    kernel = fmt.decode_batch(pa.array(good), _EVERYTHING).rows.values
    wanted = fmt.encode_batch(kernel, _EVERYTHING).messages.to_pylist()
    for engine in ("auto", "arrow"):
        got = _collected(frame.select("n", fmt.encode("row", schema, engine=engine).alias("m")))  # type: ignore[arg-type]
        assert [row["m"] for row in got] == wanted, engine


def test_rows_of_other_types_use_the_arrow_engine(spark: Any) -> None:
    frame = spark.createDataFrame([(0, 5, "x")], "n INT, a SMALLINT, b STRING")
    encoded = get_format("json").encode(F.struct("b", "a"), "a BIGINT, b STRING")  # other order, narrower type
    assert _collected(frame.select("n", encoded.alias("m")))[0]["m"] == b'{"a":5,"b":"x"}'
    with pytest.raises(Exception, match="does not fit"):
        frame.select(get_format("json").encode(F.struct("a", "b"), "a TINYINT, b STRING", engine="arrow")).collect()


@pytest.mark.parametrize(
    ("declared", "interval", "expected"),
    [
        ("INTERVAL YEAR TO MONTH", "INTERVAL '3' YEAR", 36),
        ("INTERVAL YEAR TO MONTH", "INTERVAL '-5' MONTH", -5),
        ("INTERVAL YEAR TO MONTH", "INTERVAL '-1-2' YEAR TO MONTH", -14),
        ("INTERVAL DAY TO SECOND", "INTERVAL '2' DAY", 172_800_000),
        ("INTERVAL DAY TO SECOND", "INTERVAL '90' MINUTE", 5_400_000),
        ("INTERVAL DAY TO SECOND", "INTERVAL '1 2' DAY TO HOUR", 93_600_000),
    ],
)
def test_intervals_of_other_fields_are_whole_intervals(spark: Any, declared: str, interval: str, expected: int) -> None:
    row = spark.sql(f"SELECT named_struct('i', {interval}, 'l', array({interval}, NULL)) AS row")
    for engine in ("auto", "arrow"):
        column = get_format("json").encode("row", f"i {declared}, l ARRAY<{declared}>", engine=engine)
        (found,) = row.select(column.alias("message")).collect()[0]
        assert json.loads(found) == {"i": expected, "l": [expected, None]}, engine


def test_wrong_arguments_are_errors_before_a_job(spark: Any) -> None:
    fmt = get_format("json")
    for call, error in (
        (lambda: fmt.decode("value", "a INTT"), SchemaError),
        (lambda: fmt.decode("value", "a MAP<INT, INT>"), SchemaError),
        (lambda: fmt.decode("value", "a INT", errors="ignore"), ConfigurationError),
        (lambda: fmt.decode("value", "a INT", engine="rust"), ConfigurationError),
        (lambda: fmt.decode("value", "a INT", engine="native"), ConfigurationError),
        (lambda: fmt.encode("row", "a MULTISET<INT>"), SchemaError),
        (lambda: get_format("json", {"map-null-key.mode": "x"}).encode("row", "a INT"), OptionError),
        (lambda: get_format("raw").decode("value", "a INT, b INT"), SchemaError),
        (lambda: get_format("raw", {"charset": "no-such"}).decode("value", "a STRING"), OptionError),
    ):
        with pytest.raises(error) as caught:
            call()
        assert isinstance(caught.value, KvFormatError)


def test_a_message_of_another_type_is_refused_before_a_job(spark: Any) -> None:
    frame = spark.createDataFrame([(b'{"i":1}', '{"i":2}', 3, [4])], "b BINARY, s STRING, n INT, a ARRAY<INT>")
    json, canal = get_format("json"), get_format("canal-json")
    for name in ("n", "a"):
        columns = json.decode(name, "i INT"), json.decode_rows(F.col(name), "i INT"), canal.decode_rows(name, "i INT")
        for column in columns:
            with pytest.raises(AnalysisException, match="json' decodes a column of BINARY or STRING"):
                frame.select(column).schema  # noqa: B018 - Spark analyses it here
    decoded = frame.select(json.decode("b", "i INT"), json.decode(F.col("s"), "i INT", errors="capture"))
    assert decoded.columns == ["json_decode(b)", "json_decode(s)"]
    assert frame.select(json.decode(F.lit(None), "i INT").isNull()).first()[0]
    assert [row.asDict(recursive=True) for row in decoded.collect()] == [
        {"json_decode(b)": {"i": 1}, "json_decode(s)": {"row": {"i": 2}, "error": None}}
    ]


def test_a_filter_does_not_decode_twice(spark: Any, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--spark-mode") == "connect":
        pytest.skip("plans are read from the classic session")
    decoded = (
        _frame(spark, _MESSAGES[:2])
        .select(get_format("json").decode("value", "i INT, s STRING").alias("o"))
        .select("o.*")
    )
    plan = decoded.where("i = 7 AND s LIKE '%x'")._jdf.queryExecution().executedPlan().toString()
    assert plan.count("ArrowEvalPython") == 1, plan


def test_no_setting_is_changed(spark: Any) -> None:
    before = dict(spark.conf.getAll if isinstance(spark.conf.getAll, dict) else spark.conf.getAll())
    test_decode_and_capture_of_single_rows(spark)
    assert dict(spark.conf.getAll if isinstance(spark.conf.getAll, dict) else spark.conf.getAll()) == before


@pytest.mark.parametrize(("schema", "options", "values"), [
    ("v STRING", {}, [b"x\n", b"", None, "é".encode()]),
    ("v INT", {"endianness": "little-endian"}, [b"\x01\x00\x00\x00", None]),
    ("v STRING", {"charset": "UTF-16"}, ["\ufeffab".encode("utf-16-be"), None]),
])  # fmt: skip
def test_raw_columns(spark: Any, schema: str, options: dict[str, str], values: list[bytes | None]) -> None:
    fmt = get_format("raw", options)
    frame = _frame(spark, values).select("n", "value", fmt.decode("value", schema).alias("o"))
    rows = _collected(frame.select("*", fmt.encode("o", schema).alias("again")))
    assert [[row["o"]] for row in rows] == _kernel_rows(fmt, values, schema)
    assert [row["again"] for row in rows] == values


@pytest.mark.parametrize("type", ["STRING", "CHAR(3)", "BYTES", "BINARY(3)"])
def test_raw_text_and_bytes_are_written_without_python(spark: Any, type: str) -> None:
    messages = [b"abc", None, b"", "h\u00e9llo \u20ac \U0001f600".encode(), b"a\xff", b"\xed\xa0\x80x", b"\x00"]
    frame = spark.createDataFrame([(m,) for m in messages], "m BINARY")
    value = F.col("m").cast("binary" if "B" in type else "string").alias("a.b")
    row = F.when(F.hex("m") == "00", None).otherwise(F.struct(value))  # a null row is a null message
    fmt, schema = get_format("raw"), f"`a.b` {type}"
    for engine in ("native", "arrow"):
        rows = frame.select(fmt.encode(row, schema, engine=engine).alias("v")).collect()
        assert [row.v for row in rows] == [*messages[:-1], None]


def test_other_columns_of_raw_have_no_native_engine() -> None:
    for schema, options in (("n INT", {}), ("s STRING", {"charset": "ISO-8859-1"})):
        with pytest.raises(ConfigurationError, match="no native encode"):
            get_format("raw", options).encode("row", schema, engine="native")


@pytest.mark.once
def test_columns_equal_the_golden_vectors(spark: Any, time_zone: str) -> None:
    """For some golden vectors, the Column gives the same rows and errors as `decode_batch`."""
    chosen = [
        c for c in vectors.cases("json") if c["direction"] == "decode" and c["messages"] and "factory_error" not in c
    ]
    for case in chosen[:: len(chosen) // 12]:
        fmt, schema = get_format("json", case["options"]), vectors.columns(case)
        messages = [vectors.message_bytes(message["in"]) for message in case["messages"]]
        batch = fmt.decode_batch(pa.array(messages, pa.binary()), schema)
        got = _collected(
            _frame(spark, messages).select("n", fmt.decode_rows("value", schema, errors="capture").alias("v"))
        )
        rows = [
            r["v"]["rows"] and [{k: v for k, v in x.items() if k != "row_kind"} for x in r["v"]["rows"]] for r in got
        ]
        assert repr(_plain(rows)) == repr(_plain(batch.rows.to_pylist())), case["id"]
        errors = batch.errors.to_pylist() if batch.errors is not None else [None] * len(messages)
        assert [r["v"]["error"] and r["v"]["error"]["reason"] for r in got] == [e and f"json: {e}" for e in errors]
