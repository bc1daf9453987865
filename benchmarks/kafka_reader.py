"""The reader of Kafka's records, without Spark: the compiled loop compared with confluent-kafka's Message objects.

    scripts/benchmark kafka_reader
    scripts/benchmark kafka_reader --only rows --records 200000

Two parts, each with its figures in `results/kafka_reader.json`:

    records   reads a partition of orders of about 220 bytes, and one of nested records of about 2 KB, to Arrow: values
              alone, and with keys, offsets and timestamps. The consumer's threads count
    rows      `KafkaTable.read_arrow` of the same topics: records decoded from json

`tests/support/services.py` downloads the broker (Java, on this machine); its CPU time does not count.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # its types are in a separate package
from _measure import Speed, Task, grid, grid_table, measure, run
from _nested import generated_kinds
from _records import SEED, Kind

from kvformat.connectors import KafkaTable
from kvformat.connectors.reader import clients
from kvformat.connectors.reader.client_settings import reader_settings
from kvformat.connectors.reader.ranges import PartitionRange
from kvformat.connectors.reader.read import read_range

sys.path.append(str(Path(__file__).parent.parent))

from tests.support import services

KINDS = ("orders", "events")
COLUMNS = {"value": ("value",), "key, value, offset, timestamp": ("key", "value", "offset", "timestamp")}
LOOP, MESSAGES = "loop", "messages"


def process_cpu_seconds() -> float:
    """Return the CPU seconds of this process, with the threads of consumers, without the broker."""
    times = psutil.Process().cpu_times()
    return float(times.user + times.system)


@contextmanager
def _filled(records: int) -> Iterator[dict[str, tuple[Kind, KafkaTable]]]:
    """Yield the tables of topics with so many records of each kind."""
    with tempfile.TemporaryDirectory() as folder:
        broker = services.KafkaBroker(Path(folder))
        broker.start()
        try:
            found = {}
            for kind in generated_kinds():
                if kind.name in KINDS:
                    topic = broker.create(kind.name.replace(" ", "-"))
                    pool = itertools.islice(itertools.cycle(kind.pool), records)
                    broker.send(topic, ((b"%d" % number, value) for number, value in enumerate(pool)))
                    options = {"connector": "kafka", "topic": topic, "format": "json"}
                    options |= {f"json.{name}": value for name, value in kind.options.items()}
                    options["properties.bootstrap.servers"] = broker.bootstrap
                    table = KafkaTable(kind.schema, {**options, "scan.startup.mode": "earliest-offset"})
                    found[kind.name] = (kind, table)
            yield found
        finally:
            clients.close_all()
            broker.kill()


def _by_messages(task: Callable[[], int], records: int) -> Task:
    """Return a task that reads by Message objects."""

    def read() -> None:
        found, clients.librdkafka = clients.librdkafka, lambda: "measured"
        clients.close_all()
        try:
            assert task() == records
        finally:
            clients.librdkafka = found
            clients.close_all()

    return read


def _by_loop(task: Callable[[], int], records: int) -> Task:
    def read() -> None:
        clients.close_all()
        assert task() == records

    return read


def _measured(tasks: dict[str, Callable[[], int]], records: int, rounds: int) -> dict[str, Speed]:
    both: dict[str, Task] = {}
    for name, task in tasks.items():
        both |= {f"{name}, {LOOP}": _by_loop(task, records), f"{name}, {MESSAGES}": _by_messages(task, records)}
    return measure(both, records=records, rounds=rounds, clock=process_cpu_seconds)


def _document(speeds: dict[str, dict[str, Speed]], sizes: dict[str, dict[str, Any]], title: str) -> dict[str, Any]:
    def compared(row: str, column: str) -> tuple[str, str, str] | None:
        task, _, way = column.rpartition(", ")
        return (row, f"{task}, {MESSAGES}", "Message objects") if way == LOOP else None

    found = grid("records", speeds, compared, sizes)
    print(grid_table(f"{title}, records per CPU-second", found))
    return found


def _sizes(found: dict[str, tuple[Kind, KafkaTable]]) -> dict[str, dict[str, Any]]:
    return {name: {"bytes": round(kind.size)} for name, (kind, _) in found.items()}


def measure_records(records: int, rounds: int) -> dict[str, Any]:
    """Measure the reader alone."""

    def read(table: KafkaTable, columns: tuple[str, ...]) -> int:
        (topic,) = table.kv.connector_options("decode")["topic"]
        at = PartitionRange(topic, 0, 0, records)
        return sum(len(batch) for batch in read_range(reader_settings(table.kv), at, columns))

    speeds = {}
    with _filled(records) as found:
        for kind, (_, table) in found.items():
            tasks = {name: (lambda table=table, names=names: read(table, names)) for name, names in COLUMNS.items()}
            speeds[kind] = _measured(tasks, records, rounds)
        return _document(speeds, _sizes(found), "records")


def measure_rows(records: int, rounds: int) -> dict[str, Any]:
    """Measure the reader together with the decoder."""
    speeds = {}
    with _filled(records) as found:
        for kind, (_, table) in found.items():
            tasks = {"rows": (lambda table=table: sum(len(batch) for batch in table.read_arrow()))}
            speeds[kind] = _measured(tasks, records, rounds)
        return _document(speeds, _sizes(found), "rows")


if __name__ == "__main__":
    run(
        "kafka_reader",
        __doc__ or "",
        {"records": measure_records, "rows": measure_rows},
        {"kinds": list(KINDS), "seed": SEED},
        records=500_000,
    )
