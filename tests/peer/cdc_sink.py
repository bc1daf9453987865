"""Tables to topics: `tables_to_topics` writes changes as Flink CDC does, and Flink reads them as the same changes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from kvformat.ingestion import tables_to_topics
from tests.peer.compare import Differs, Peers, expect_rows, frame_of, records_of
from tests.peer.tables import Table
from tests.support import vectors
from tests.support.interop import Row

PARTITIONS = 3
_COLUMNS = (
    "shop STRING NOT NULL, id INT NOT NULL, flag BOOLEAN, many BIGINT, ratio DOUBLE, amount DECIMAL(18, 4), "
    "name STRING, data BYTES, born DATE, ts TIMESTAMP(3), moment TIMESTAMP_LTZ(3), tags ARRAY<STRING>, "
    "counts MAP<STRING, INT>, place ROW<city STRING, codes ARRAY<INT>>"
)
_CHANGES = Table("sink", _COLUMNS, {}, ("shop", "id"), changes=True)


@dataclass(frozen=True)
class Sunk:
    """Records that were written to each topic and read by Flink: the value's format, the partitioning, and counts."""

    format: str
    strategy: str
    key: str
    changes: int
    records: int


def write_and_read(peers: Peers, seed: int, count: int) -> Iterator[Sunk]:
    """Run the comparison for each format of the sinks. Raises `Differs`."""
    rows = [(kind, tuple(map(_readable, values))) for kind, values in _CHANGES.rows(seed, count)]
    frame = frame_of(peers.spark, _CHANGES, rows)
    updates = sum(kind == "-U" for kind, _ in rows)
    formats = ("debezium-json", "canal-json")
    for format, strategy, key in itertools.product(formats, ("all-to-zero", "hash-by-key"), ("json", "csv")):
        options = {"value.format": format, "partition.strategy": strategy, "key.format": key}
        table = replace(_CHANGES, name=f"sink.{format}.{strategy}.{key}", options={"format": format})
        records = _write(peers, table, frame, options)
        if records != len(rows) - updates:
            raise Differs(f"{table.name}: {records} records for {len(rows)} changes, of which {updates} are updates")
        _read(peers, table, rows)
        yield Sunk(format, strategy, key, len(rows), records)
    upsert = {"key.format": "json", "value.format": "json"}
    table = replace(_CHANGES, name="sink.upsert", options=upsert, connector="upsert-kafka")
    records = _write(peers, table, frame, {"type": "upsert-kafka"})
    _read(peers, table, rows)
    yield Sunk("json (upsert-kafka)", "hash-by-key", "json", len(rows), records)


def _readable(value: Any) -> Any:
    """Return a value that Flink can read: from an envelope it reads -0.0 as 0.0."""
    return 0.0 if isinstance(value, float) and value == 0 else value


def _write(peers: Peers, table: Table, frame: Any, options: dict[str, str]) -> int:
    """Write the changes to a new topic, and return the number of records."""
    topic = f"{table.name}.ours"
    peers.broker.create(topic, PARTITIONS)
    topic_of = {} if table.connector == "upsert-kafka" else {"topic": topic}
    name = topic if table.connector == "upsert-kafka" else "shop.goods"  # an upsert topic has the table's name
    records = tables_to_topics(frame, table=name, primary_key=table.key, options=options | topic_of)
    records.write.format("kafka").option("kafka.bootstrap.servers", peers.broker.bootstrap).save()
    found = records_of(peers.broker, topic)
    partitions = {partition for partition, *_ in found}
    if partitions != ({0} if options.get("partition.strategy") == "all-to-zero" else set(range(PARTITIONS))):
        raise Differs(f"{table.name}: records are in the partitions {partitions}")
    return len(found)


def _read(peers: Peers, table: Table, rows: list[Row]) -> None:
    """Let Flink read the topic, and compare with the given changes, kinds included."""
    peers.flink.run(table.ddl("ours", peers.services))
    names = ", ".join(f"`{field.name}`" for field in table.read.fields)
    found = peers.flink.run(f"SELECT {names} FROM `{table.name}.ours`")
    read = [(kind, vectors.to_python(values, table.read)) for kind, values in found]
    expect_rows(table, "changes read by Flink, and given", read, rows)
