"""A first Spark job: decode Kafka records that Flink wrote, encode the rows, and compare the bytes with Flink's.

Run it with `scripts/demo`. fixtures/interop/ has `CREATE TABLE` statements of Flink and the records that Flink wrote
for them. The job passes the statements to `KeyValueFormat` unchanged and decodes keys and values in Spark. It shows the
tables and the effect of a broken record. Then it encodes the rows and compares the bytes with Flink's. Then
demo_changes.py turns two Debezium topics into tables, and demo_ingest.py does so without a declared schema.
"""

from __future__ import annotations

import base64
import json
import lzma
import os
import sys
import tempfile
from codecs import KeyValueFormat, split_errors
from pathlib import Path
from typing import Any

os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from demo_changes import show_changes
from demo_ingest import show_ingestion
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

CASES = Path(__file__).parent.parent / "fixtures" / "interop" / "cases.jsonl.xz"
BROKEN = {
    "kafka_json_json_all": b'{"id": 4, "amount": "a lot"}',
    "kafka_raw_json_prefix": b'{"id": 50, "ts": "2024-02-',
    "upsert_raw_json": b'{"k1": "a", "cnt": [1]}',
    "kafka_csv_csv_all": b"1,A,too few",
    "kafka_json_debezium-json_prefix": b'{"before": null, "after": null, "op": "u"}',
    "kafka_csv_canal-json_prefix": b'{"data": [{"id": "1"}], "old": [], "type": "UPDATE"}',
    "kafka_avro_maxwell-json_all": b'{"type": "truncate", "data": {}}',
    "upsert_composite_avro_avro": b"\x02\x06ab",
    "kafka_json_avro-confluent_all": b"Obj\x01\x00\x00",
}
"""The names of the tables to show. Each has a message that its value format can't read."""


def main() -> None:
    """Run the job for all tables and print the total counts."""
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("kvformat demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.timeType.enabled", "true")  # without this setting Spark has no TIME type
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    with lzma.open(CASES, "rt", encoding="ascii") as lines:
        cases = {case["case"]: case for case in map(json.loads, lines)}
    totals = [0, 0, 0, 0]
    with tempfile.TemporaryDirectory() as folder:
        for name, broken in BROKEN.items():
            table = KeyValueFormat.from_ddl(ddl(cases[name], Path(folder, name)))
            totals = [a + b for a, b in zip(totals, show(spark, table, cases[name], broken), strict=True)]
    show_changes(spark)
    show_ingestion(spark)
    spark.stop()
    decoded, bad, encoded, equal = totals
    print(
        f"{decoded} records decoded, {bad} bad kept, {encoded} encoded again, {equal} of {encoded} equal Flink's bytes"
    )


def ddl(case: dict[str, Any], registry: Path) -> str:
    """Return Flink's statement with options for this demo.

    The broker is never contacted. The schema registry is a folder with a file `<id>.avsc` for each schema.
    """
    registry.mkdir()
    for schema_id, schema in case.get("schemas", {}).items():
        text = schema if isinstance(schema, str) else json.dumps(schema.get("schema", schema))
        (registry / f"{schema_id}.avsc").write_text(text, encoding="utf-8")
    statement: str = case["ddl"]
    return statement.replace("{bootstrap}", "127.0.0.1:9092").replace("{registry}", f"file:{registry}")


def show(spark: SparkSession, table: KeyValueFormat, case: dict[str, Any], broken: bytes) -> tuple[int, int, int, int]:
    """Decode, show and encode one table.

    Returns four counts: good records, bad records, encoded records, and encoded records equal to Flink's.
    """
    options = {name: text for name, text in table.options.items() if "format" in name or "fields" in name}
    print(f"\n== {case['case']}: {', '.join(f'{name}={text}' for name, text in options.items())} ==\n")
    records = read(spark, case)
    flinks = [(row["key"], row["value"]) for row in records.collect()]

    decoded = table.decode(records.union(records.limit(1).withColumn("value", F.lit(broken))), errors="capture")
    good, bad = split_errors(decoded.cache())
    good.show(truncate=22)
    print("A broken record does not affect the others, and it is kept:\n")
    text = F.col("value").cast("string")
    shown = F.when(text.rlike("^[ -~]*$"), text).otherwise(F.hex("value"))
    bad.select("part", "reason", shown.alias("value")).show(truncate=110)

    again = [(row["key"], row["value"]) for row in table.encode(good).collect()]
    same = sum(ours == flink for ours, flink in zip(again, flinks, strict=True))
    return good.count(), bad.count(), len(again), same


def read(spark: SparkSession, case: dict[str, Any]) -> DataFrame:
    """Return the records in the form of Spark's Kafka source, in one partition."""

    def data(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    return spark.createDataFrame(
        [(r["topic"], r["partition"], r["offset"], data(r["key"]), data(r["value"])) for r in case["records"]],
        "topic STRING, partition INT, offset BIGINT, key BINARY, value BINARY",
    ).coalesce(1)


if __name__ == "__main__":
    main()
