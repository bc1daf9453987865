"""Exactly-once jobs on several executors: speculative attempts, and executors that Spark has given up (zombies)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.connectors.speculation import KEYS, RECORDS, Job
from tests.support.cluster import Cluster, wait

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow, pytest.mark.once]

HOSTS = ("localhost", "127.0.0.1", "127.0.0.2")
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.interval": "100ms",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("cluster"), HOSTS)
    try:
        running.start()
        yield running
    finally:
        running.kill()


@pytest.fixture
def job(request: pytest.FixtureRequest, cluster: Cluster, broker: Any, tmp_path: Path) -> Job:
    """A job of the kind and with the settings of the parameter."""
    what, executors, conf = request.param
    topic = broker.create(f"speculation-{what}", 3)
    return Job(cluster, tmp_path, broker.bootstrap, topic, what, **{"spark.cores.max": 2 * executors} | conf)


def aborted(broker: Any, job: Job) -> int:
    """Check that each record is there once, and those of a key in order. Return the number of aborted records."""
    found: dict[int, list[int]] = {key: [] for key in range(KEYS)}
    messages = broker.records(job.topic)
    for message in messages:
        found[json.loads(message.key())["id"]].append(json.loads(message.value())["n"])
    assert found == {key: list(range(key, RECORDS, KEYS)) for key in range(KEYS)}
    return len(broker.records(job.topic, committed_only=False)) - len(messages)


@pytest.mark.parametrize("job", [("fenced", 2, SPECULATION)], indirect=True)
def test_a_speculative_attempt_fences_the_first_one_which_writes_nothing_more(job: Job, broker: Any) -> None:
    job.start()
    job.end()
    first, second = job.attempts()
    assert (first.speculative, second.speculative) == (False, True)
    assert first.host != second.host
    assert "Success" in (first.reason, second.reason)  # a fenced one waits for the rows, and may be heard of first
    assert "ExceptionFailure" not in (first.reason, second.reason)
    told = job.told()
    assert "was fenced" in told["0.failed"]
    assert "0.committed" not in told
    assert "1.committed" in told
    assert aborted(broker, job) > 0


@pytest.mark.parametrize("job", [("committed", 2, SPECULATION)], indirect=True)
def test_a_speculative_attempt_finds_the_mark_of_the_first_one(job: Job, broker: Any) -> None:
    job.start()
    job.end()
    first, second = job.attempts()
    assert (first.speculative, second.speculative) == (False, True)
    told = job.told()
    assert "0.committed" in told
    assert "1.closed" in told
    assert "1.open" not in told  # it wrote no record
    assert aborted(broker, job) == 0


@pytest.mark.parametrize("job", [("long", 3, SPECULATION | {"spark.task.maxFailures": 2})], indirect=True)
def test_a_long_task_is_repeated_once_only(job: Job, broker: Any) -> None:
    """A fenced attempt that failed would let Spark start a third attempt on the third host, and end the job."""
    job.start()
    job.end()
    assert [attempt.speculative for attempt in job.attempts()] == [False, True]
    assert "ExceptionFailure" not in [attempt.reason for attempt in job.attempts()]
    assert "was fenced" in job.told()["0.failed"]
    assert aborted(broker, job) > 0


@pytest.mark.parametrize(
    "job",
    [
        (
            "stopped",
            2,
            {
                "spark.network.timeout": "15s",
                "spark.network.timeoutInterval": "1s",
                "spark.executor.heartbeatInterval": "2s",
                "spark.shuffle.io.maxRetries": "0",
            },
        )
    ],
    indirect=True,
)
def test_an_executor_that_spark_gave_up_writes_nothing_when_it_wakes_up(job: Job, broker: Any) -> None:
    job.start()
    job.wait("0.open")
    worker = psutil.Process(int(job.told()["0.open"]))
    _, executor, spark_worker = worker.parents()[:3]
    assert [executor.name(), spark_worker.name()] == ["java", "java"]
    machine = (spark_worker, *spark_worker.children(recursive=True))  # the Spark worker would kill its executor
    for process in machine:
        process.suspend()
    try:
        job.end()
        assert "0.failed" not in job.told()
        before = aborted(broker, job)
        assert before > 0
        worker.resume()  # first, so that nothing can end it before it has tried to write
        wait(lambda: "0.failed" in job.told(), "the first attempt did not go on")
    finally:
        for process in machine:
            process.resume()
    assert "was fenced" in job.told()["0.failed"]
    assert "0.committed" not in job.told()
    assert "1.committed" in job.told()
    assert aborted(broker, job) == before
    assert not any(attempt.speculative for attempt in job.attempts())
