"""A query whose metrics are scraped while it runs: its lag is that of the broker's own numbers."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors.reader.ranges import TopicOffsets
from tests.connectors.crashes import ends
from tests.support import services
from tests.support.cluster import Cluster, wait
from tests.support.environments import Environment

pytest.importorskip("prometheus_client")

RECORDS, MORE, BAD, BATCH = 2000, 700, 20, 500

JOB = """
import logging, sys, time
from pathlib import Path
from kvformat import KafkaTable, observe_records
from kvformat.connectors import export_metrics, log_progress
from pyspark.sql import SparkSession

topic, bootstrap, port, folder, most = sys.argv[1:]
logging.basicConfig(level=logging.INFO)
spark = SparkSession.builder.getOrCreate()
log_progress(spark)
export_metrics(spark, prometheus_port=int(port), prometheus_host="127.0.0.1")

def hold(rows, number):
    rows.count()
    while not Path(folder, f"go-{number}").exists() and not Path(folder, "go").exists():
        time.sleep(0.05)

options = {
    "connector": "kafka", "topic": topic, "properties.bootstrap.servers": bootstrap,
    "scan.startup.mode": "earliest-offset", "format": "json",
}
table = KafkaTable("id INT", options)
rows = table.read_stream(spark, errors="capture", spark_options={"maxOffsetsPerTrigger": int(most)})
writer = observe_records(rows, "orders").writeStream.foreachBatch(hold).queryName("metered")
writer.option("checkpointLocation", folder + "/checkpoint").start().awaitTermination()
"""


def scraped(port: int) -> dict[str, float]:
    """Return the time series of the endpoint, by their names with labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


def test_the_scraped_lag_is_that_of_the_broker_while_records_arrive(
    cluster: Cluster, broker: Any, with_wheel: Environment, tmp_path: Path
) -> None:
    topic, port = broker.create("metered", 3), services.free_port()
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")
    values = [b"no json" if n % (RECORDS // BAD) == 0 else b'{"id":%d}' % n for n in range(RECORDS)]
    broker.send(topic, [(b"%d" % n, value) for n, value in enumerate(values)])
    job = cluster.submit(
        with_wheel.executable,
        *(tmp_path / "job.py", topic, broker.bootstrap, str(port), tmp_path, str(BATCH)),
        log="metered.log",
        PYSPARK_PYTHON=with_wheel.executable,
    )

    def series(name: str, **labels: str) -> float:
        written = ",".join(f'{label}="{value}"' for label, value in sorted({**labels, "query": "metered"}.items()))
        return scraped(port).get(f"kvformat_{name}{{{written}}}", -1.0)

    def read(batch: int) -> int:
        """Return the number of records in all batches up to this one, from Spark's checkpoint."""
        lines = (tmp_path / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()
        return sum(TopicOffsets.from_json(json.loads(lines[-1])).offsets.values())

    def until(condition: Any) -> None:
        wait(lambda: job.ended() or condition(), job.output)
        assert not job.ended(), job.output()[-6000:]

    # Records arrive while the first batch is being written: Spark's own numbers are older.
    until((tmp_path / "checkpoint" / "offsets" / "0").exists)
    broker.send(topic, [(b"%d" % n, b'{"id":%d}' % n) for n in range(MORE)])
    (tmp_path / "go-0").touch()
    until(lambda: series("records_total") > 0 and series("lag_records", topic=topic) >= 0)
    assert series("records_total") == read(0) <= BATCH
    assert series("lag_records", topic=topic) == ends(broker, topic) - read(0) >= RECORDS + MORE - BATCH
    assert series("oldest_unread_seconds", topic=topic) > 0
    assert series("query_running") == 1

    (tmp_path / "go").touch()
    until(lambda: series("records_total") == RECORDS + MORE and series("lag_records", topic=topic) == 0)
    last = max(int(path.name) for path in (tmp_path / "checkpoint" / "offsets").iterdir() if path.name.isdigit())
    assert ends(broker, topic) == read(last) == RECORDS + MORE
    assert series("bad_records_total", code="MALFORMED") == BAD
    assert series("table_rows_total", table="orders") == RECORDS + MORE - BAD
    job.kill()
    assert f"lag {RECORDS + MORE - read(0)} records" in job.output()
