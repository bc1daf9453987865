"""A client of Spark Connect that reads, copies and ingests topics: `python -m tests.cluster.client SETTINGS`.

Its Python has neither jars nor py4j (`thin_client`). It prints its results as JSON, after the word RESULT.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kvformat import KafkaTable, ingest, read_table
from tests.support.starting import started

ALL = {"trigger": {"availableNow": True}}
LONGEST = 200
"""Seconds that a query may take."""


def plain(bootstrap: str, topic: str, **options: str) -> KafkaTable:
    """Return a table in JSON without a key."""
    given = {"connector": "kafka", "topic": topic, "properties.bootstrap.servers": bootstrap, "format": "json"}
    return KafkaTable("id INT, name STRING", given | {"scan.startup.mode": "earliest-offset"} | options)


def finish(query: Any) -> None:
    """Wait for the end of a query, and raise its error."""
    assert query.awaitTermination(LONGEST), "the query did not end"
    if query.exception() is not None:
        raise query.exception()


def run(settings: dict[str, str]) -> dict[str, Any]:
    """Read a topic, copy it exactly once, and ingest another one."""
    from pyspark.sql import SparkSession
    from pyspark.util import is_remote_only

    assert is_remote_only()  # PySpark has found no classic session
    spark = SparkSession.builder.remote(settings["url"]).getOrCreate()
    folder, bootstrap = Path(settings["folder"]), settings["bootstrap"]
    source = plain(bootstrap, settings["source"])
    read = sorted([row.id, row.name] for row in source.read(spark).collect())

    checkpoint, once = (
        str(folder / "copy"),
        {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "client"},
    )
    target = plain(bootstrap, settings["target"], **once)
    for _ in range(2):  # the second start goes on from the checkpoint
        finish(started(lambda: target.write_stream(source.read_stream(spark), checkpoint_location=checkpoint, **ALL)))

    changes = {
        "topic": settings["changes"],
        "properties.bootstrap.servers": bootstrap,
        "scan.startup.mode": "earliest-offset",
        "key.format": "json",
        "value.format": "debezium-json",
    }
    lake = folder / "lake"
    finish(started(lambda: ingest(spark, changes, str(lake), checkpoint_location=folder / "ingest", **ALL)))
    tables = {
        name: sorted([*row] for row in read_table(spark, lake, name).select("id", "n").collect())
        for name in ("shop.orders", "shop.items")
    }
    return {"read": read, "tables": tables}


if __name__ == "__main__":
    print("RESULT", json.dumps(run(json.loads(sys.argv[1]))))
