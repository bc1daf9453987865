"""Queries whose executors, workers and driver are killed: each record is there once, and each row is right."""

from __future__ import annotations

import contextlib
import random
import time
from pathlib import Path
from typing import Any

import psutil

from tests.cluster.conftest import HOSTS
from tests.connectors.crashes import Report
from tests.connectors.once_crashes import Copy
from tests.ingestion.crashes import ingest_with_kills
from tests.support.cluster import Cluster
from tests.support.environments import Environment

BATCH = 5000
"""Records of a micro-batch, at most."""


class Faults:
    """What is killed while a batch runs."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def executors(self) -> None:
        """Kill the executors with their Python, as a machine that fails; Spark starts others."""
        for executor in self._cluster.executors():
            with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
                python = executor.children(recursive=True)
                executor.kill()
                for process in python:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()

    def worker(self) -> None:
        """Kill a worker, which takes its executor with it, and start it again after some time."""
        self._cluster.kill_worker(HOSTS[1])
        time.sleep(2)
        self._cluster.start_worker(HOSTS[1])


def test_a_table_is_copied_exactly_once_over_kills_of_executors_worker_and_driver(
    cluster: Cluster, broker: Any, with_wheel: Environment, tmp_path: Path
) -> None:
    faults = Faults(cluster)
    copy = Copy(broker, tmp_path, 6 * BATCH, random.Random(7))
    copy.query.on_cluster(cluster, with_wheel.executable)
    copy.query.settings(batch=BATCH)
    broker.send(copy.source, copy.mixed)
    report = Report("exactly once on a cluster")
    try:
        for fault in (faults.executors, faults.worker, copy.query.kill):
            done = copy.query.batches()
            copy.wait_for_transaction()
            fault()
            report.kills += 1
            report.mid_batch += copy.query.in_flight() >= 0
            copy.wait(lambda done=done: copy.query.batches() > done)
        copy.wait(copy.all_read)
    finally:
        copy.query.kill()
    copy.check(report)
    assert report.mid_batch >= 2
    assert report.records >= 6 * BATCH


def test_tables_are_ingested_over_kills_of_executors_worker_and_driver(
    cluster: Cluster, broker: Any, with_wheel: Environment, spark: Any, tmp_path: Path
) -> None:
    faults = Faults(cluster)
    report = ingest_with_kills(
        broker,
        tmp_path,
        1,
        random.Random(3),
        batch=16,
        spare=3,
        spark=spark,
        place=lambda query: query.on_cluster(cluster, with_wheel.executable),
        others={"executors": faults.executors, "worker": faults.worker},
    )
    assert sum(report.kills.values()) == 3
    assert report.mid_batch >= 2
    assert report.rows >= 12
