"""Formats of change data as Columns: row kinds, metadata, filters, errors, both engines for encoding, a stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from kvformat.registry import get_format
from kvformat.registry.contract.errors import ConfigurationError, OptionError
from tests.support import vectors

pytestmark = pytest.mark.spark

_FORMATS = ("debezium-json", "canal-json", "maxwell-json", "ogg-json")
_SCHEMA = (
    "b BOOLEAN, i INT, l BIGINT, d DOUBLE, de DECIMAL(10, 2) NOT NULL, s STRING, by BYTES, da DATE, t TIME(3), "
    "ts TIMESTAMP(3), z TIMESTAMP_LTZ(3), a ARRAY<INT>, m MAP<STRING, BIGINT>, r ROW<x INT NOT NULL, y ARRAY<STRING>>"
)
_ROW = (
    '{"b":true,"i":7,"l":9007199254740993,"d":-0.0025,"de":12.5,"s":"é😀 x","by":"AAH/","da":"2024-02-29",'
    '"t":"10:11:12.5","ts":"2024-03-10 02:30:00.123","z":"2024-03-10 02:30:00.5Z","a":[1,null],"m":{"k":1},'
    '"r":{"x":1,"y":["q"]}}'
)
_NIGHT = '{"z":"2024-11-03 05:30:00Z","ts":"1969-12-31 23:59:59.999","de":100,"i":8,"r":{}}'
_MESSAGES: dict[str, list[str | None]] = {
    "debezium-json": [
        f'{{"before":null,"after":{_ROW},"op":"c","source":{{"table":"t","ts_ms":1710037800500}},"ts_ms":1730611800000}}',
        f'{{"before":{_ROW},"after":{_NIGHT},"op":"u"}}',
        f'{{"before":{_NIGHT},"op":"d"}}',
        f'{{"after":{_ROW},"op":"u"}}',
        None,
    ],
    "canal-json": [
        f'{{"data":[{_ROW},{_NIGHT}],"type":"INSERT","table":"t","ts":1710037800500,"sqlType":{{"i":4}}}}',
        f'{{"data":[{_ROW}],"old":[{{"i":1,"s":null}}],"type":"UPDATE","table":"u"}}',
        f'{{"data":[{_NIGHT}],"type":"DELETE","table":"t"}}',
        f'{{"data":[{_ROW}],"type":"UPDATE","table":"t"}}',
        None,
    ],
    "maxwell-json": [
        f'{{"data":{_ROW},"type":"insert","table":"t","ts":1710037800}}',
        f'{{"data":{_ROW},"old":{{"i":1,"s":null}},"type":"update"}}',
        f'{{"data":{_NIGHT},"type":"delete"}}',
        '{"type":"bootstrap-start"}',
        None,
    ],
    "ogg-json": [
        f'{{"after":{_ROW},"op_type":"I","op_ts":"2024-03-10 02:30:00.123456","primary_keys":["i"]}}',
        f'{{"before":{_ROW},"after":{_NIGHT},"op_type":"U","current_ts":"2024-11-03T05:30:00.000000"}}',
        f'{{"before":{_NIGHT},"op_type":"D"}}',
        f'{{"after":{_ROW},"op_type":"D"}}',
        None,
    ],
}


def _frame(spark: Any, messages: list[str | None]) -> Any:
    rows = [(n, message and message.encode()) for n, message in enumerate(messages)]
    return spark.createDataFrame(rows, "n INT, value BINARY").repartition(3)


def _collected(frame: Any) -> list[dict[str, Any]]:
    """Return rows in the order of `n`, as Python values without conversion to a time zone."""
    return sorted(frame.toArrow().to_pylist(), key=lambda row: row["n"])


def _plain(value: Any) -> Any:
    """Normalize values of Arrow: instants become seconds, tuples become lists."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if getattr(value, "tzinfo", None) is not None:
        return value.timestamp()
    return value


@pytest.mark.parametrize("format", _FORMATS)
def test_columns_equal_decode_batch(spark: Any, time_zone: str, format: str) -> None:
    fmt, messages = get_format(format), _MESSAGES[format]
    keys = tuple(fmt.readable_metadata)
    decoded = fmt.decode_rows("value", _SCHEMA, metadata=keys, errors="capture")
    rows = _collected(_frame(spark, messages).select("n", decoded.alias("v")))
    batch = fmt.decode_batch(pa.array([m and m.encode() for m in messages], pa.binary()), _SCHEMA, metadata=keys)
    assert batch.row_kinds is not None
    for n, row in enumerate(rows):
        start, stop = batch.rows.offsets[n].as_py(), batch.rows.offsets[n + 1].as_py()
        got = row["v"]["rows"] or []
        assert [change.pop("row_kind") for change in got] == batch.row_kinds[start:stop].to_pylist()
        assert _plain(got) == _plain(batch.rows.values[start:stop].to_pylist())
    assert [row["n"] for row in rows if row["v"]["error"]] == [3]
    assert rows[3]["v"]["error"]["reason"].startswith(f"{format}: field ")
    assert rows[3]["v"]["error"]["message"].decode() == messages[3]
    assert rows[4]["v"] == {"rows": None, "error": None}


def test_the_error_of_a_missing_before_has_a_next_step(spark: Any) -> None:
    frame = _frame(spark, _MESSAGES["debezium-json"])
    with pytest.raises(Exception, match=r"'debezium-json' cannot decode a message: field 'before'.*REPLICA IDENTITY"):
        frame.select(get_format("debezium-json").decode_rows("value", _SCHEMA)).collect()


def test_metadata_has_the_types_of_flink(spark: Any) -> None:
    fmt = get_format("canal-json")
    keys = ["sql-type", "pk-names", "ingestion-timestamp", "database"]
    decoded = _frame(spark, []).select(F.inline(fmt.decode_rows("value", "i INT", metadata=keys)))
    types = dict(decoded.dtypes)
    assert types == {
        "row_kind": "string",
        "i": "int",
        "sql-type": "map<string,int>",
        "pk-names": "array<string>",
        "ingestion-timestamp": "timestamp",
        "database": "string",
    }


def test_filters_and_mistakes(spark: Any) -> None:
    fmt = get_format("canal-json", {"table.include": "(?i)T"})
    rows = _collected(
        _frame(spark, _MESSAGES["canal-json"][:3]).select("n", fmt.decode_rows("value", "i INT").alias("v"))
    )
    assert [[change["row_kind"] for change in row["v"]] for row in rows] == [["+I", "+I"], [], ["-D"]]
    with pytest.raises(OptionError, match="Java regular expression"):
        get_format("canal-json", {"table.include": "*"}).decode_rows("value", "i INT")
    with pytest.raises(ConfigurationError, match="use decode_rows"):
        get_format("ogg-json").decode("value", "i INT")
    with pytest.raises(OptionError, match="schema-include"):
        get_format("debezium-json", {"schema-include": "true"}).encode("row", "i INT")


@pytest.mark.parametrize("options", [
    {},
    pytest.param(
        {"encode.ignore-null-fields": "true", "timestamp-format.standard": "ISO-8601"}, marks=pytest.mark.once
    ),
])  # fmt: skip
@pytest.mark.parametrize("format", _FORMATS)
def test_both_engines_equal_encode_batch(spark: Any, time_zone: str, format: str, options: dict[str, str]) -> None:
    json_format, fmt = get_format("json"), get_format(format, options)
    texts = [_ROW, _NIGHT, _ROW, _NIGHT, None]
    kinds = ["+I", "-U", "+U", "-D", "-D"]
    rows = json_format.decode_batch(pa.array([text and text.encode() for text in texts[:4]]), _SCHEMA).rows.values
    wanted = [*fmt.encode_batch(rows, _SCHEMA, row_kinds=pa.array(kinds[:4])).messages.to_pylist(), None]
    values = [(n, *value) for n, value in enumerate(zip(texts, kinds, strict=True))]
    frame = spark.createDataFrame(values, "n INT, t STRING, kind STRING")
    frame = frame.select("n", "kind", json_format.decode("t", _SCHEMA).alias("row"))
    for engine in ("auto", "arrow", "native"):
        written = fmt.encode("row", _SCHEMA, row_kind="kind", engine=engine)  # type: ignore[arg-type]
        assert [row["m"] for row in _collected(frame.select("n", written.alias("m")))] == wanted, engine
        inserts = fmt.encode("row", _SCHEMA, engine=engine)  # type: ignore[arg-type]
        assert _collected(frame.select("n", inserts.alias("m")))[0]["m"] == wanted[0], engine


def test_an_unknown_row_kind_fails_in_both_engines(spark: Any) -> None:
    frame = spark.createDataFrame([(5, "+X")], "i INT, kind STRING")
    for engine in ("arrow", "native"):
        written = get_format("ogg-json").encode(F.struct("i"), "i INT", row_kind="kind", engine=engine)  # type: ignore[arg-type]
        with pytest.raises(Exception, match="row kind; use"):
            frame.select(written).collect()


@pytest.mark.once
@pytest.mark.parametrize("format", _FORMATS)
def test_columns_equal_the_golden_vectors(spark: Any, format: str) -> None:
    """For some golden vectors, the Column gives the same rows and errors as `decode_batch`."""
    chosen = [
        c for c in vectors.cases(format) if c["direction"] == "decode" and c["messages"] and "factory_error" not in c
    ]
    for case in chosen[:: len(chosen) // 4]:
        fmt, schema, metadata = get_format(format, case["options"]), vectors.columns(case), case.get("metadata", ())
        messages = [vectors.message_bytes(message["in"]) for message in case["messages"]]
        batch = fmt.decode_batch(pa.array(messages, pa.binary()), schema, metadata=metadata)
        frame = spark.createDataFrame(list(enumerate(messages)), "n INT, value BINARY")
        decoded = fmt.decode_rows("value", schema, metadata=metadata, errors="capture")
        got = _collected(frame.select("n", decoded.alias("v")))
        rows = [
            r["v"]["rows"] and [{k: v for k, v in x.items() if k != "row_kind"} for x in r["v"]["rows"]] for r in got
        ]
        assert repr(_plain(rows)) == repr(_plain(batch.rows.to_pylist())), case["id"]
        errors = batch.errors.to_pylist() if batch.errors is not None else [None] * len(messages)
        assert [r["v"]["error"] and r["v"]["error"]["reason"] for r in got] == [e and f"{format}: {e}" for e in errors]


def test_a_stream_of_changes(spark: Any, tmp_path: Path) -> None:
    source, sink = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    fmt = get_format("debezium-json")
    decoded = fmt.decode_rows("value", "id INT, name STRING", metadata=["source.table"], errors="capture")
    stream = (
        spark.readStream.schema("value STRING")
        .text(str(source))
        .select(decoded.alias("v"))
        .select(F.inline_outer("v.rows"), "v.error.reason")
    )

    def run() -> None:
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(sink))
        )
        query.awaitTermination()

    def message(op: str, before: int | None, after: int | None) -> str:
        rows = (None if n is None else {"id": n, "name": f"n{n}"} for n in (before, after))
        return json.dumps(dict(zip(("before", "after"), rows, strict=True)) | {"op": op, "source": {"table": "t"}})

    (source / "a.txt").write_text("\n".join(message("c", None, n) for n in range(200)))
    run()
    (source / "b.txt").write_text("\n".join([message("u", 5, 500), message("d", 6, None), message("t", None, None)]))
    run()
    rows = spark.read.parquet(str(sink)).collect()
    assert {row["source.table"] for row in rows if row.reason is None} == {"t"}
    late = sorted((row.row_kind, row.id, row.name) for row in rows if row.row_kind not in ("+I", None))
    assert late == [("+U", 500, "n500"), ("-D", 6, "n6"), ("-U", 5, "n5")]
    assert sum(row.row_kind == "+I" for row in rows) == 200
    assert next(row.reason for row in rows if row.reason).startswith("debezium-json: field 'op': unknown value \"t\"")
