"""Structured Streaming: decode and encode in a stream of files, bad messages kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from kvformat.registry import get_format

pytestmark = pytest.mark.spark


def test_a_stream_of_files(spark: Any, tmp_path: Path) -> None:
    source, sink = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    fmt = get_format("json")
    stream = (
        spark.readStream.schema("value STRING")
        .text(str(source))
        .select("value", fmt.decode("value", "id INT, name STRING", errors="capture").alias("v"))
        .select(
            "value",
            "v.row.*",
            "v.error.reason",
            fmt.encode(F.col("v.row"), "id INT, name STRING").cast("string").alias("again"),
        )
    )

    def run() -> None:
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(sink))
        )
        query.awaitTermination()

    (source / "a.txt").write_text("\n".join(json.dumps({"id": n, "name": f"n{n}"}) for n in range(100)))
    run()
    (source / "b.txt").write_text('{"id":100}\n{"id":"broken"}\n')
    run()  # a restart reads only what is new
    rows = {row.value: row for row in spark.read.parquet(str(sink)).collect()}
    assert len(rows) == 102
    assert rows['{"id": 7, "name": "n7"}'].name == "n7"
    assert rows['{"id":100}'].again == '{"id":100,"name":null}'
    broken = rows['{"id":"broken"}']
    assert broken.id is None
    assert broken.reason.startswith("json: field 'id'")
