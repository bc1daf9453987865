"""Flink's records on a real broker, read by Spark's source and written again, in batches and streams.

The topics contain all records of the fixtures, byte for byte. One table for each pair of formats is read and written
in batches, and some tables in streams. tests/registry/table/test_key_value.py reads the others without a broker.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors import KafkaTable
from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.errors import KafkaSinkWarning
from kvformat.registry.contract.types import FlinkType, arrow_type, nullable
from tests.support import interop, vectors

pytestmark = [
    pytest.mark.spark,
    pytest.mark.services,
    pytest.mark.once,
    pytest.mark.usefixtures("each_source"),
    pytest.mark.filterwarnings(f"ignore::{KafkaSinkWarning.__module__}.KafkaSinkWarning"),
]

_AT_ONCE = 4
"""Concurrent jobs. Most of the time, jobs are planned or wait for Kafka."""
_PAIRS = 40
"""Minimum number of format pairs to compare."""


def _formats(case: interop.Case) -> tuple[str, ...]:
    """Return connector, key format and value format."""
    options = interop.table(case).options
    return options["connector"], options.get("key.format", ""), options.get("value.format") or options["format"]


def _of_each_pair() -> list[str]:
    """Return, for each pair of formats, the table with the longest DDL that Flink wrote and can read."""
    found: dict[tuple[str, ...], str] = {}
    for name, case in interop.cases().items():
        pair = _formats(case)
        if case["rows"] and not case.get("flink_errors"):
            found[pair] = max(found.get(pair, name), name, key=lambda other: len(interop.cases()[other]["ddl"]))
    return list(found.values())


def _of_each_value_format(names: Iterable[str]) -> list[str]:
    """Return one table for each connector and value format."""
    return list({(pair[0], pair[2]): name for name in names for pair in [_formats(interop.cases()[name])]}.values())


@pytest.fixture(scope="module")
def records(broker: Any) -> None:
    """Write the records of all cases to topics with their names."""
    from confluent_kafka import Producer

    found = [record for case in interop.cases().values() for record in case["records"]]
    partitions = {topic: 1 + max(r["partition"] for r in found if r["topic"] == topic) for topic in _topics(found)}
    broker.create_all(partitions)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for r in found:
        headers = [(name, _bytes(value)) for name, value in r["headers"]]
        more = {"partition": r["partition"], "timestamp": r["timestamp"], "headers": headers}
        producer.produce(r["topic"], _bytes(r["value"]), _bytes(r["key"]), **more)
    assert producer.flush(60) == 0


def _topics(records: list[dict[str, Any]]) -> list[str]:
    return sorted({record["topic"] for record in records})


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _table(name: str, broker: Any, folder: Path) -> KafkaTable:
    (folder / name).mkdir(exist_ok=True)
    table = KafkaTable.from_ddl(interop.ddl(interop.cases()[name], folder / name))
    return table.with_options({"properties.bootstrap.servers": broker.bootstrap})


def _again(name: str, broker: Any, table: KafkaTable, how: str) -> KafkaTable:
    """Return the table with a new topic."""
    partitions = 1 + max(record["partition"] for record in interop.cases()[name]["records"])
    return table.with_options({"topic": broker.create(f"{how}.{name}", partitions)})


@pytest.mark.slow  # the streams below read and write a table of each format
def test_flink_tables_in_batches(spark: Any, broker: Any, records: None, tmp_path: Path) -> None:
    def compare(name: str) -> str | None:
        case, table = interop.cases()[name], _table(name, broker, tmp_path)
        changes = table.read(spark, changelog=table.kv.changelog_mode is not ChangelogMode.INSERT_ONLY)
        row = interop.row_type(interop.table(case))
        rows = _rows(changes, row)
        if table.kv.changelog_mode is ChangelogMode.UPSERT:
            names = [field.name for field in row.fields]
            rows = interop.normalized(rows, [names.index(column) for column in table.kv.primary_key], row)
        wanted = interop.wanted_rows(case, row)
        if not interop.same_rows(case, _timed(case, rows, row), _timed(case, wanted, row), row):
            return f"{name}: {rows}, Flink {wanted}"
        again = _again(name, broker, table, "batch")
        again.write(changes)
        return _difference(name, broker, "batch")

    _expect_none(compare, _of_each_pair(), _PAIRS)


@pytest.mark.slow
def test_flink_tables_in_streams(spark: Any, broker: Any, records: None, tmp_path: Path) -> None:
    def compare(name: str) -> str | None:
        table = _table(name, broker, tmp_path).with_options({"scan.bounded.mode": None})
        query = _again(name, broker, table, "stream").write_stream(
            table.read_stream(spark),
            checkpoint_location=str(tmp_path / name / "checkpoint"),
            trigger={"availableNow": True},
        )
        query.awaitTermination()
        return _difference(name, broker, "stream")

    _expect_none(compare, _of_each_value_format(_of_each_pair()), 10)


def _expect_none(compare: Callable[[str], str | None], names: list[str], least: int) -> None:
    assert len(names) >= least
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(compare, names))
    assert [difference for difference in found if difference] == []


def _rows(frame: Any, row: FlinkType) -> list[interop.Row]:
    table = frame.toArrow()
    kinds = table["row_kind"].to_pylist() if "row_kind" in table.column_names else ["+I"] * table.num_rows
    fields = nullable(row).fields
    columns = [table[field.name].combine_chunks().cast(arrow_type(field.type)) for field in fields]
    return [
        (kind, tuple(vectors.from_arrow(column[i], f.type) for column, f in zip(columns, fields, strict=True)))
        for i, kind in enumerate(kinds)
    ]


def _timed(case: interop.Case, rows: list[interop.Row], row: FlinkType) -> list[interop.Row]:
    """Replace the timestamp 0 (1970) by NULL, because the sending client takes 0 for the current time."""
    times = {record["timestamp"] * 1000 for record in case["records"]} - {0}
    timed = [field.name == "ktime" for field in row.fields]
    return [
        (kind, tuple(None if of and v not in times else v for of, v in zip(timed, values, strict=True)))
        for kind, values in rows
    ]


def _difference(name: str, broker: Any, how: str) -> str | None:
    """Compare the rewritten records with Flink's: keys, values, headers and the partitions of keys."""
    got = [_record(m.partition(), m.key(), m.value(), m.headers()) for m in broker.records(f"{how}.{name}")]
    wanted = [
        _record(r["partition"], _bytes(r["key"]), _bytes(r["value"]), [(n, _bytes(v)) for n, v in r["headers"]])
        for r in interop.cases()[name]["records"]
    ]
    return None if got == wanted else f"{name}: {got}, Flink {wanted}"


def _record(partition: int, key: bytes | None, value: bytes | None, headers: Any) -> tuple[Any, ...]:
    """Return a comparable record; without a key, the partition is left out because it is arbitrary."""
    return None if key is None else partition, key, value, headers or []
