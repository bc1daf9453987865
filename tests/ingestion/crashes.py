"""Kill queries that ingest a topic, at each step of a batch and at any time, and compare the tables at the end.

    scripts/crash_tests --only ingest --kills 28                      Delta tables below a path
    scripts/crash_tests --only ingest --kills 6 --target delta        a catalog of Delta or Iceberg, with PySpark 4.1

The topic has three partitions and the changes of a generated database (`database.py`). A query runs in its own process.
At a step it kills itself, its JVM and its workers with SIGKILL. It starts again until it was killed at each step.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kvformat.ingestion import DeltaPathTarget, Pipeline, read_table
from kvformat.ingestion.schemas.state import SchemaState
from kvformat.ingestion.start import start_query
from kvformat.ingestion.store import SchemaStore
from kvformat.ingestion.targets.delta import DeltaTarget
from kvformat.ingestion.targets.iceberg import IcebergTarget
from kvformat.ingestion.targets.target import Target
from kvformat.ingestion.targets.types import CHANGE_COLUMNS
from kvformat.registry import ConfigurationError
from kvformat.registry.streams.delta.log import DeltaLog
from tests.connectors.crashes import Query, session
from tests.ingestion.database import Database, check_tables, generated
from tests.support import services
from tests.support.sessions import QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = {
    "type": "kafka",
    "value.format": "canal-json",
    "canal-json.infer-schema.strategy": "MYSQL_TYPE",
    "scan.startup.mode": "earliest-offset",
    "scan.max.pre.fetch.records": "0",  # else the newest records decide on the order of the columns
    "ingestion.ignore-errors": "true",
}
SINK = {"type": "delta", "path": "x", "exclude.schema.changes": []}  # TRUNCATE and DROP TABLE are applied
STEPS = ("looked", "planned", "stored", "decoded", "checked", "changed", "before", "truncated", "committed", "table")
STEPS += ("written", "letters")
"""The steps of a batch, each of which is passed before the kill. `committed`: the files of rows are written, and are
not in the log yet."""
_OF_TABLES = ("changed", "committed", "table")
_ANY_TIME = "any time"
CHANGES = {column.name for column in CHANGE_COLUMNS}


@dataclass
class Report:
    """What was done: `kills` by step, batches that were in work at a kill, records, and compared rows."""

    target: str
    write_mode: str
    kills: dict[str, int] = field(default_factory=dict)
    mid_batch: int = 0
    batches: int = 0
    records: int = 0
    rows: int = 0
    letters: int = 0
    seconds: float = 0.0


class IngestQuery(Query):
    """A query that ingests a topic in its own process."""

    module = "tests.ingestion.crashes"

    def ends_itself(self) -> bool:
        """Return whether the process was killed."""
        return self.code == -signal.SIGKILL

    def kill_or_wait(self, until: Callable[[], bool]) -> bool:
        """Wait until the process has killed itself, or for a condition. Returns whether it was killed."""
        self.wait(lambda: self.ends_itself() or until())
        killed = self.ends_itself()
        self.kill()
        return killed


# --- the process of a query --------------------------------------------------------------------------------


class _Kill:
    """Kills the process, with its JVM and workers, when it passes a step for the n-th time after some batches."""

    step, passes, batches = "", 0, 0

    def at(self, step: str) -> None:
        words = step.split(" ")
        kind = "table" if words[0] == "written" and len(words) > 1 else words[0]
        if words[-1] == "before":
            kind = "before"
        if kind == "letters" and self.batches > 0:
            self.batches -= 1
        elif kind == self.step and self.batches == 0:
            self.passes -= 1
            if self.passes == 0:
                os.killpg(0, signal.SIGKILL)


_KILL = _Kill()


def lake_settings(target: str, folder: Path) -> dict[str, str]:
    """Return the settings of a session for a target. Its tables are below a folder."""
    if target == "path":
        return QUICK
    names = {
        "delta": ("io.delta.sql.DeltaSparkSessionExtension", "org.apache.spark.sql.delta.catalog.DeltaCatalog"),
        "iceberg": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "org.apache.iceberg.spark.SparkCatalog",
        ),
    }
    extension, catalog = names[target]
    if target == "iceberg":
        more = {
            "spark.sql.catalog.lake": catalog,
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": str(folder / "lake"),
        }
    else:
        derby = f"jdbc:derby:;databaseName={folder}/metastore;create=true"
        more = {
            "spark.sql.catalog.spark_catalog": catalog,
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.javax.jdo.option.ConnectionURL": derby,
        }
    return {
        "spark.jars": services.jars(target),
        "spark.sql.extensions": extension,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **QUICK,
        **more,
    }


def target_of(name: str, folder: Path, write_mode: Any) -> Target:
    """Return a target that writes below a folder."""
    if name == "delta":
        return DeltaTarget(write_mode=write_mode)
    if name == "iceberg":
        return IcebergTarget(catalog="lake", write_mode=write_mode)
    return DeltaPathTarget(str(folder / "tables"), write_mode=write_mode, upkeep_commits=3)


def _pass_a_step_before_commits() -> None:
    commit = DeltaLog.commit

    def commit_after_step(log: DeltaLog, *arguments: Any) -> None:
        _KILL.at(f"committed {log.storage.uri}")
        commit(log, *arguments)

    DeltaLog.commit = commit_after_step  # type: ignore[method-assign]


def run_query(settings: dict[str, Any]) -> None:
    """Run a query until its process is killed."""
    _KILL.step, _KILL.passes, _KILL.batches = settings["step"], settings["passes"], settings["batches"]
    folder = Path(settings["folder"])
    _pass_a_step_before_commits()
    spark = session(**lake_settings(settings["target"], folder) | settings.get("conf", {}))
    source = SOURCE | {"topic": settings["topic"], "properties.bootstrap.servers": settings["bootstrap"]}
    query = start_query(
        Pipeline(source, SINK),
        spark,
        checkpoint_location=folder / "checkpoint",
        target=target_of(settings["target"], folder, settings["write_mode"]),
        dead_letters=settings["dead_letters"],
        on_table_error="quarantine",
        probe=False,
        spark_options={"maxOffsetsPerTrigger": settings["batch"]},
        step=_KILL.at,
    )
    query.awaitTermination()


# --- kills -------------------------------------------------------------------------------------------------


def send(broker: services.KafkaBroker, database: Database, topic: str) -> None:
    """Send the records of a database, each to its partition."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "log_level": 0})
    for _, value, _, partition, _, time_, *_ in database.records:
        producer.produce(topic, value, None, partition, timestamp=int(time_.timestamp() * 1000))
    assert producer.flush(60) == 0


def ingest_with_kills(
    broker: services.KafkaBroker,
    folder: Path,
    kills: int,
    chance: random.Random,
    *,
    target: str = "path",
    write_mode: str = "merge",
    batch: int = 24,
    spare: int = 5,
    seconds: float = 3600,
    spark: SparkSession | None = None,
    place: Callable[[IngestQuery], None] | None = None,
    others: Mapping[str, Callable[[], None]] = MappingProxyType({}),
) -> Report:
    """Ingest a generated database, kill the query at each step and at any time, and compare the tables.

    After some `seconds` it is killed no more. `spare` are batches beyond those that must end before a kill: not every
    batch has every step. `place` says where the query runs. `others` kill something else within a batch, after which
    the query goes on.
    """
    begun, report = time.monotonic(), Report(target, write_mode)
    database = generated(chance.randrange(10**6), batch * (spare + kills // 2 + len(others)))
    topic = broker.create(f"ingest-{chance.randrange(10**9)}", 3)
    send(broker, database, topic)
    total = len(database.records)
    steps = [step for step in STEPS if step != "committed" or target == "path"]
    chance.shuffle(steps)
    wanted = [(*steps, _ANY_TIME, _ANY_TIME)[n % (len(steps) + 2)] for n in range(kills)]
    done: Counter[str] = Counter()
    query = IngestQuery(
        folder,
        "ingest",
        bootstrap=broker.bootstrap,
        topic=topic,
        target=target,
        write_mode=write_mode,
        batch=str(batch),
        dead_letters=str(folder / "dead"),
        passes=0,
        batches=0,
    )
    if place is not None:
        place(query)
    try:
        for number, step in enumerate(wanted):
            if time.monotonic() - begun > seconds:
                break
            passes = chance.randrange(1, 4) if step in _OF_TABLES else 1
            query.settings(step=step, passes=passes, batches=number % 2)
            query.start()
            if step == _ANY_TIME:
                started = query.batches()
                query.wait(lambda started=started: query.in_flight() >= started or query.read() >= total)
                time.sleep(chance.random() * 8)
                query.kill()
                killed = True
            else:
                killed = query.kill_or_wait(lambda: query.read() >= total)
            assert killed, f"the query has read all and never passed the step {step!r}"
            done[step] += 1
            report.mid_batch += query.in_flight() >= 0
        query.settings(step="")
        query.start()
        for name, kill in others.items():
            started = query.batches()
            query.wait(lambda started=started: query.in_flight() >= started)
            kill()
            done[name] += 1
            report.mid_batch += query.in_flight() >= 0
            query.wait(lambda started=started: query.batches() > started)
        query.wait(lambda: query.read() >= total)
        report.batches = query.batches()
    finally:
        query.kill()
    report.kills, report.records = dict(done), total
    spark = spark or session(**lake_settings(target, folder))
    letters = [(row.partition, row.offset) for row in spark.read.parquet(str(folder / "dead")).collect()]
    report.letters = len(letters)
    report.rows = check_tables(
        database, lambda name: read(spark, folder, target, name), letters, changes=write_mode == "append"
    )
    check_store(spark, folder, target)
    report.seconds = round(time.monotonic() - begun, 1)
    return report


def read(spark: SparkSession, folder: Path, target: str, name: str, tables: str = "tables") -> Any:
    """Return the frame of a table, None if there is no such table."""
    from pyspark.errors import AnalysisException

    try:
        if target == "path":
            return read_table(spark, str(folder / tables), name)
        return spark.table(f"lake.{name}" if target == "iceberg" else name)
    except (ConfigurationError, AnalysisException):
        return None


def check_store(spark: SparkSession, folder: Path, target: str) -> None:
    """Check that the stored schemas are those of the tables, and that the stored history makes them."""
    store = SchemaStore(spark, str(folder / "checkpoint"))
    state, _ = store.load()
    events = [caused.event for _, caused in store.history()]
    made = SchemaState()
    for event in events:
        made = made.change_source(event)
    assert made.sources == state.schemas.sources
    for table, schema in state.schemas.targets.items():
        frame = read(spark, folder, target, str(table))
        assert frame is None or [name for name in frame.columns if name not in CHANGES] == [*schema.names]


def main() -> None:
    """Run the scenario once and print a report."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kills", type=int, default=len(STEPS) + 2)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--batch", type=int, default=24, help="records of a batch, at most")
    arguments.add_argument("--spare", type=int, default=5, help="batches beyond those that must end before a kill")
    arguments.add_argument("--seconds", type=float, default=3600, help="kill no more after this time")
    arguments.add_argument("--target", choices=("path", "delta", "iceberg"), default="path")
    arguments.add_argument("--write-mode", choices=("merge", "append"), default="merge")
    arguments.add_argument("--only", choices=("ingest",), help=argparse.SUPPRESS)
    arguments.add_argument("--query", help=argparse.SUPPRESS)
    asked = arguments.parse_args()
    if asked.query:
        run_query(json.loads(asked.query))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "ingest")
        folder.mkdir()
        broker = services.KafkaBroker(Path(scratch))
        broker.start()
        try:
            chance = random.Random(asked.seed)
            more = {"target": asked.target, "write_mode": asked.write_mode}
            more |= {"batch": asked.batch, "spare": asked.spare}
            report = ingest_with_kills(broker, folder, asked.kills, chance, seconds=asked.seconds, **more)
            print(json.dumps(asdict(report)), flush=True)
        finally:
            broker.kill()


if __name__ == "__main__":
    main()
