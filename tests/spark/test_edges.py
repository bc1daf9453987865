"""The edges of the types in Spark: what is read of Avro is written by both engines as the kernels write it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from kvformat.registry import ConfigurationError, Format, get_format
from tests.edges import EDGES, NO_TIMES, rows_of, shown

_OPTIONS: dict[str, dict[str, str]] = {"json": {}, "csv": {"null-literal": "<null>"}, "debezium-json": {}}
_LEAST_CASES = 2000


def _columns(format: Format, schema: str) -> dict[str, Any]:
    """The row `r` written by each engine that the format has for it."""
    found = {}
    for engine in ("arrow", "native"):
        try:
            found[engine] = format.encode("r", schema, engine=engine)
        except ConfigurationError:
            assert engine == "native"
    return found


def test_both_engines_write_the_edges_as_the_kernels_do(spark: Any, time_zone: str) -> None:
    avro = get_format("avro", {"timestamp_mapping.legacy": "false"})
    cases = 0
    for flink in ("DATE", "TIME(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(6)", "DECIMAL(38, 18)", "STRING", "BYTES", "BIGINT"):
        schema, rows = f"v {flink}", rows_of(flink)
        rows = rows.filter(pa.array([value not in NO_TIMES or flink != "TIME(3)" for value in shown(rows)]))
        messages = avro.encode_batch(rows, schema).messages
        frame = spark.createDataFrame(pa.table({"n": list(range(len(rows))), "m": messages}))
        written = {}
        for name, options in _OPTIONS.items():
            format = get_format(name, options)
            for engine, column in _columns(format, schema).items():
                written[f"{name} {engine}"] = column
        table = frame.withColumn("r", avro.decode("m", schema, engine="arrow")).select(
            "n", *(column.alias(name) for name, column in written.items())
        )
        found = table.toArrow().sort_by("n")
        for name in written:
            wanted = get_format(name.split()[0], _OPTIONS[name.split()[0]]).encode_batch(rows, schema).messages
            got = found[name].combine_chunks()
            differ = [i for i in range(len(rows)) if got[i].as_py() != wanted[i].as_py()]
            for i in differ: print("DIFF", flink, name, shown(rows)[i][:60], got[i].as_py()[:80] if got[i].as_py() else None, wanted[i].as_py()[:80])
            cases += len(rows)
    print(f"\n{cases} messages compared")
