"""Spark Declarative Pipelines: the example project, and queries that Spark does not let ask for a schema."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import services
from tests.support.sessions import JAVA, LOCAL, as_options

pytestmark = [pytest.mark.services, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "pipeline"

# Queries of a pipeline whose functions ask Spark for nothing: a decoded stream of Spark's own Kafka source, a stream
# with other columns, and changes for Auto CDC.
START = '''
import os
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from kvformat import KafkaTable, KeyValueFormat

spark = SparkSession.active()
DDL = """CREATE TABLE customers (id BIGINT, name STRING, ts TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL,
    WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'kafka', 'topic' = 'customers', 'format' =
    'debezium-json', 'properties.bootstrap.servers' = 'BOOTSTRAP', 'scan.startup.mode' = 'earliest-offset')"""
DDL = DDL.replace("BOOTSTRAP", os.environ["BOOTSTRAP"])
'''
QUERIES = """
@dp.table
def of_sparks_source():
    records = (spark.readStream.format("kafka").option("kafka.bootstrap.servers", os.environ["BOOTSTRAP"])
        .option("subscribe", "customers").option("startingOffsets", "earliest").load())
    return KeyValueFormat.from_ddl(DDL).decode(records, metadata=["offset"])

@dp.table
def of_other_columns():
    records = spark.readStream.format("rate").load().selectExpr("CAST('{}' AS BINARY) AS value", "timestamp")
    return KeyValueFormat.from_ddl(DDL).decode(records, input_schema="`value` BYTES, `timestamp` TIMESTAMP_LTZ(6)")

@dp.table
def raw_customers():
    return KafkaTable.from_ddl(DDL).records_stream(spark)
"""
AUTO_CDC = """
@dp.temporary_view
def customer_changes():
    options = {"ddl": DDL, "metadata": "partition,offset", "row_index": "true"}
    return spark.readStream.format("kvformat").options(**options).load()

dp.create_streaming_table("customers_history")
dp.create_auto_cdc_flow(target="customers_history", source="customer_changes", keys=["id"],
    sequence_by=F.struct("partition", "offset", "row_index"),
    apply_as_deletes=F.expr("row_kind IN ('-D', '-U')"), stored_as_scd_type=2)
"""


def run(folder: Path, command: str, bootstrap: str, **settings: str) -> tuple[int, str]:
    """Run `spark-pipelines` in a folder, and return its exit code and what it told."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "BOOTSTRAP": bootstrap,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "JDK_JAVA_OPTIONS": JAVA,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        **settings,
    }
    for name in ("SPARK_REMOTE", "SPARK_TESTING", "SPARK_CONNECT_MODE_ENABLED"):
        environment.pop(name, None)
    called = [str(home / "bin" / "spark-pipelines"), command, *as_options(LOCAL)]
    done = subprocess.run(
        called, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500
    )
    return done.returncode, done.stdout


def project(folder: Path) -> Path:
    """Copy the example, so that it keeps its files in another folder."""
    shutil.copytree(EXAMPLE, folder)
    spec = folder / "spark-pipeline.yml"
    given = spec.read_text(encoding="utf-8")
    changed = given.replace("file:///tmp/kvformat-example-pipeline", (folder / "storage").as_uri())
    assert changed != given
    spec.write_text(changed, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def topics(broker: Any) -> Any:
    orders = [b'{"id":%d,"customer":"c%d","price":%d.5}' % (n, n % 3, 10 * n) for n in range(20)]
    customers = [
        b'{"before":null,"after":{"id":1,"name":"a"},"op":"c"}',
        b'{"before":{"id":1,"name":"a"},"after":{"id":1,"name":"b"},"op":"u"}',
    ]
    for topic, messages in {"orders": orders, "customers": customers, "large-orders": []}.items():
        broker.send(broker.create(topic, 2), [(None, message) for message in messages])
    return broker


def test_the_example_runs_without_a_jar(topics: Any, tmp_path: Path) -> None:
    folder = project(tmp_path / "pipeline")
    code, told = run(folder, "run", topics.bootstrap)
    assert code == 0, told
    assert "Run is COMPLETED" in told
    written = sorted(json.loads(message.value())["id"] for message in topics.records("large-orders"))
    assert written == list(range(10, 20))
    import pyarrow.parquet as pq

    tables = folder / "spark-warehouse"
    assert len(pq.read_table(tables / "orders")) == 20
    changes = pq.read_table(tables / "customer_changes").to_pylist()
    assert sorted(row["row_kind"] for row in changes) == ["+I", "+U", "-U"]
    assert pq.read_table(tables / "spent").num_rows == 3


def test_queries_need_no_analysis(topics: Any, tmp_path: Path) -> None:
    """For Auto CDC, Spark has no target yet; the test tells when one comes."""
    from pyspark import pipelines

    folder = project(tmp_path / "pipeline")
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(f"spark.jars {services.kafka_jars()}\n", encoding="utf-8")
    definitions = folder / "definitions" / "orders.py"
    has_cdc = hasattr(pipelines, "create_auto_cdc_flow")
    definitions.write_text(f"{START}{QUERIES}{AUTO_CDC if has_cdc else ''}", encoding="utf-8")
    code, told = run(folder, "dry-run", topics.bootstrap, SPARK_CONF_DIR=str(folder / "conf"))
    assert code == 0, told
    if has_cdc:
        definitions.write_text(f"{START}{AUTO_CDC}", encoding="utf-8")
        code, told = run(folder, "run", topics.bootstrap)
        assert "AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE" in told, told
