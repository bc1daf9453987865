"""Flink and kvformat write the same rows to a topic each and read both topics. Records and rows must be equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kvformat.connectors import KafkaTable
from kvformat.registry import ChangelogMode, get_format
from kvformat.registry.contract.types import FlinkField, FlinkType, arrow_type, nullable, spark_type
from tests.peer.flink import Flink
from tests.peer.tables import Table
from tests.support import interop, vectors
from tests.support.interop import Row
from tests.support.services import KafkaBroker

WRITERS = ("flink", "ours")
_INSERT, _DELETE = b'{"before":null,"after":', (b'{"before":', b',"after":null,"op":"d"}')
_KIND = FlinkField("row_kind", FlinkType("CHAR", length=2))


class Differs(AssertionError):
    """Flink and kvformat have different results."""


@dataclass(frozen=True)
class Compared:
    """Counts for a table: written changes, records in each topic, rows that both read from each topic."""

    table: Table
    written: int
    records: int
    read: int


@dataclass(frozen=True)
class Peers:
    """The running services."""

    flink: Flink
    spark: Any
    broker: KafkaBroker
    registry: str

    @property
    def services(self) -> dict[str, str]:
        return {"bootstrap": self.broker.bootstrap, "registry": self.registry}

    def compare(self, table: Table, rows: list[Row]) -> Compared:
        """Write and read the rows with Flink and with kvformat. Raises `Differs`."""
        self._write(table, rows)
        records = 0
        for theirs, ours in zip(*map(table.topics, WRITERS), strict=True):
            wanted, got = records_of(self.broker, theirs), records_of(self.broker, ours)
            _expect_equal(table, f"records of topic {ours}, and of Flink's", got, wanted)
            records += len(got)
        read = {}
        for writer in WRITERS:
            by_flink, by_us = self._read_by_flink(table, writer), self._read_by_us(table, writer)
            expect_rows(table, f"rows of the topic of {writer}, read by us and by Flink", by_us, by_flink)
            read[writer] = _alike(table, by_us)
        expect_rows(table, "rows of the topics of us and of Flink", read["ours"], read["flink"])
        physical = [(kind, values[: len(table.written.fields)]) for kind, values in read["flink"]]
        expect_rows(table, "rows read and rows given", physical, _alike(table, _kept(table, rows)))
        return Compared(table, len(rows), records, len(read["flink"]))

    def _write(self, table: Table, rows: list[Row]) -> None:
        for writer in WRITERS:
            for topic in table.topics(writer):
                self.broker.create(topic, 3 if table.key else 1)  # without a key the partition is random
            self.flink.run(table.ddl(writer, self.services))
        source = self.broker.create(f"{table.name}.source")
        self.broker.send(source, [(None, message) for message in source_messages(table, rows)])
        self.flink.run(table.source_ddl(self.services))
        self.flink.run(f"INSERT INTO `{table.name}.flink` SELECT * FROM `{source}`")
        names = dict(zip(*map(table.topics, WRITERS), strict=True))
        given = [(kind, _renamed(values, names)) for kind, values in rows]
        mode = ChangelogMode.ALL if table.changes else ChangelogMode.INSERT_ONLY
        frame = frame_of(self.spark, table, given)
        self._table(table, "ours").write(frame, changelog_mode=mode)

    def _table(self, table: Table, writer: str) -> KafkaTable:
        return KafkaTable.from_ddl(table.ddl(writer, self.services))

    def _read_by_flink(self, table: Table, writer: str) -> list[Row]:
        names = ", ".join(f"`{field.name}`" for field in table.read.fields)
        found = self.flink.run(f"SELECT {names} FROM `{table.name}.{writer}`")
        return [(kind, vectors.to_python(values, table.read)) for kind, values in found]

    def _read_by_us(self, table: Table, writer: str) -> list[Row]:
        """Return all changes of the topics, for an upsert table as Flink emits them."""
        rows = rows_of(self._table(table, writer).read(self.spark, changelog=table.changes), table.read)
        if table.connector == "upsert-kafka":
            names = [field.name for field in table.read.fields]
            return interop.normalized(rows, [names.index(name) for name in table.key], table.read)
        return rows


def source_messages(table: Table, rows: list[Row]) -> list[bytes]:
    """Return the rows as JSON, and changes in Debezium's envelope. An update is one message."""
    given = [vectors.to_arrow([values for _, values in rows], table.written)]
    format = get_format("debezium-json" if table.changes else "json")
    kinds = pa.array([kind for kind, _ in rows]) if table.changes else None
    schema = pa.schema(list(arrow_type(nullable(table.written))))
    written = format.encode_batch(given[0], schema, row_kinds=kinds)
    assert written.errors is None, written.errors.drop_null()[0]
    found: list[bytes] = []
    before = b""
    for (kind, _), message in zip(rows, written.messages.to_pylist(), strict=True):
        if kind == "-U":
            before = message.removeprefix(_DELETE[0]).removesuffix(_DELETE[1])
        elif kind == "+U":
            after = message.removeprefix(_INSERT).removesuffix(b',"op":"c"}')
            found.append(_DELETE[0] + before + b',"after":' + after + b',"op":"u"}')
        else:
            found.append(message)
    return found


def frame_of(spark: Any, table: Table, rows: list[Row]) -> Any:
    """Return the rows in order, with their kinds if they are changes."""
    fields = nullable(table.written).fields + ((_KIND,) if table.changes else ())
    given = FlinkType("ROW", fields=fields)
    values = [(*values, kind) if table.changes else values for kind, values in rows]
    arrow = pa.Table.from_struct_array(vectors.to_arrow(values, given))
    return spark.createDataFrame(arrow, spark_type(given, wire=True)).coalesce(1)


def rows_of(frame: Any, row: FlinkType) -> list[Row]:
    """Return kinds and rows as canonical Python values."""
    table = frame.toArrow()
    kinds = table["row_kind"].to_pylist() if "row_kind" in table.column_names else ["+I"] * table.num_rows
    fields = nullable(row).fields
    columns = [table[field.name].combine_chunks().cast(arrow_type(field.type)) for field in fields]
    return [
        (kind, tuple(vectors.from_arrow(column[i], f.type) for column, f in zip(columns, fields, strict=True)))
        for i, kind in enumerate(kinds)
    ]


def records_of(broker: KafkaBroker, topic: str) -> list[tuple[Any, ...]]:
    """Return partition, key, value and headers of each record."""
    return [(m.partition(), m.key(), m.value(), m.headers()) for m in broker.records(topic)]


def _renamed(values: tuple[Any, ...], names: dict[str, str]) -> tuple[Any, ...]:
    """Return a row with other topic names."""
    return tuple(names.get(value, value) if isinstance(value, str) else value for value in values)


def _alike(table: Table, rows: list[Row]) -> list[Row]:
    """Return rows without the topic's name and the timestamp, which Spark's sink does not set."""
    names = dict(zip(table.topics("ours"), table.topics("flink"), strict=True))
    timed = [i for i, field in enumerate(table.read.fields) if field.name == "timestamp_"]
    found = []
    for kind, values in rows:
        given = _renamed(values, names)
        found.append((kind, tuple(None if i in timed else value for i, value in enumerate(given))))
    return found


def _kept(table: Table, rows: list[Row]) -> list[Row]:
    """Return changes as they are read. Flink and kvformat write updates of change data as deletes and inserts."""
    if table.connector == "upsert-kafka":
        return rows
    return [({"-U": "-D", "+U": "+I"}.get(kind, kind), values) for kind, values in rows]


def _expect_equal(table: Table, what: str, got: list[Any], wanted: list[Any]) -> None:
    for number, (a, b) in enumerate(zip(got, wanted, strict=False)):
        if a != b:
            raise Differs(f"{table.name}: {what}, number {number}\n    {a}\n    {b}")
    if len(got) != len(wanted):
        raise Differs(f"{table.name}: {what}: {len(got)} and {len(wanted)}")


def expect_rows(table: Table, what: str, got: list[Row], wanted: list[Row]) -> None:
    """Check that rows are equal in any order, because partitions are read in any order. Raises `Differs`."""
    got, wanted = sorted(got, key=repr), sorted(wanted, key=repr)
    row = table.read if not got or len(got[0][1]) == len(table.read.fields) else table.written
    for number, (a, b) in enumerate(zip(got, wanted, strict=False)):
        if a[0] != b[0] or not vectors.same(a[1], b[1], row):
            raise Differs(f"{table.name}: {what}, number {number}\n    {a}\n    {b}")
    if len(got) != len(wanted):
        raise Differs(f"{table.name}: {what}: {len(got)} and {len(wanted)}")
