"""Decode the history of a random database as connectors write it. The resulting tables must equal the database's.

`KVFORMAT_TRANSACTIONS` sets the number of transactions. The default is a few hundred.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException

from kvformat.registry import KeyValueFormat, current_table, latest_by_key, normalize_changes, split_errors
from tests.registry.streams.history import CONNECTORS, TABLES, Connector, Database, Event, Key, Row, Table

pytestmark = [pytest.mark.spark, pytest.mark.once]

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_KAFKA = "partition INT, offset BIGINT, key BINARY, value BINARY"
_SEED, _CHECKPOINTS = 20, 3
_FEW = 450
_TRANSACTIONS = int(os.environ.get("KVFORMAT_TRANSACTIONS", _FEW))
_LEAST = 200
"""The minimum number of compared rows for each table."""
_FOLDED = [pytest.param(c, t, id=f"{c.name}-{t.name}") for c in CONNECTORS for t in TABLES]
_TOLD_APART = ("debezium, full", "debezium, none", "ogg", "canal", "maxwell")
"""Connectors with distinct row kinds. The other connectors give the same kinds as one of these."""
_STREAMED = [
    pytest.param(c, TABLES[number % 2], id=f"{c.name}-{TABLES[number % 2].name}")
    for number, c in enumerate(CONNECTORS)
    if c.name in _TOLD_APART or _TRANSACTIONS > _FEW
]
"""Each connector with one table, because streams take longer."""


@pytest.fixture(scope="module")
def database() -> Database:
    return Database(_SEED, _TRANSACTIONS, _CHECKPOINTS)


@pytest.fixture(scope="module")
def emptied() -> Database:
    return Database(_SEED, _TRANSACTIONS, _CHECKPOINTS, truncates=True)


@pytest.fixture
def rocksdb(spark: Any) -> Iterator[None]:
    before = spark.conf.get(_PROVIDER)
    spark.conf.set(_PROVIDER, _ROCKSDB)
    yield
    spark.conf.set(_PROVIDER, before)


def _topic(events: list[Event], connector: Connector, table: Table, folder: Path) -> Path:
    """Write the records of each checkpoint to a file."""
    folder.mkdir()
    records = [*connector.records(table, events, _SEED)]
    offsets = dict.fromkeys(range(3), 0)
    for part in range(_CHECKPOINTS):
        columns: dict[str, list[Any]] = {"partition": [], "offset": [], "key": [], "value": []}
        for record in records:
            if record.checkpoint == part:
                for name, value in zip(
                    columns, (record.partition, offsets[record.partition], *record[1:3]), strict=True
                ):
                    columns[name].append(value)
                offsets[record.partition] += 1
        types = zip(columns.values(), (pa.int32(), pa.int64(), pa.binary(), pa.binary()), strict=True)
        arrays = [pa.array(values, type) for values, type in types]
        pq.write_table(pa.Table.from_arrays(arrays, names=[*columns]), folder / f"{part}.parquet")
        os.utime(folder / f"{part}.parquet", (part, 1_700_000_000 + part))
    return folder


def _kv(connector: Connector, table: Table, **more: str) -> KeyValueFormat:
    options = {"key.format": "json", "key.fields": ";".join(table.key), "value.format": connector.format}
    own = {f"value.{connector.format}.{name}": value for name, value in (connector.options | more).items()}
    return KeyValueFormat(table.ddl, options | own, primary_key=table.key)


def _rows(df: Any, table: Table) -> dict[Key, Row]:
    """Return the rows by key. Each key must occur once."""
    return _by_key(df.select(*table.columns).toArrow().to_pylist(), table)


def _by_key(rows: list[Row], table: Table) -> dict[Key, Row]:
    found = {table.key_of(row): row for row in rows}
    assert len(found) == len(rows)
    return found


def _versions(path: str) -> dict[int, DeltaTable]:
    """Return the table after each batch, by the number of the batch."""
    newest = DeltaTable(path).version()
    tables = (DeltaTable(path, version=version) for version in range(newest + 1))
    return {batch: table for table in tables if (batch := table.transaction_version("kvformat maintain")) is not None}


@pytest.mark.parametrize(("connector", "table"), _FOLDED)
def test_a_batch_gives_the_tables_of_the_database(
    spark: Any, database: Database, connector: Connector, table: Table, tmp_path: Path
) -> None:
    topic = _topic(database.events[table.name], connector, table, tmp_path / "topic")
    kv = _kv(connector, table)
    wanted = database.states[table.name][-1]
    records = spark.read.schema(_KAFKA).parquet(str(topic))
    changes = kv.decode(records, metadata=["partition", "offset"], row_index=True)
    assert _rows(latest_by_key(changes, kv), table) == wanted
    assert len(wanted) >= _LEAST // 3
    print(f"{len(wanted)} rows compared")


@pytest.mark.slow
@pytest.mark.parametrize(("connector", "table"), _STREAMED)
def test_a_maintained_table_equals_the_database(
    spark: Any, database: Database, connector: Connector, table: Table, tmp_path: Path
) -> None:
    topic = _topic(database.events[table.name], connector, table, tmp_path / "topic")
    stream = spark.readStream.schema(_KAFKA).option("maxFilesPerTrigger", 1).parquet(str(topic))
    kept = str(tmp_path / "table")
    query = _kv(connector, table).maintain(
        stream, kept, checkpoint_location=str(tmp_path / "checkpoint"), trigger={"availableNow": True}
    )
    query.awaitTermination()
    compared = 0
    versions = _versions(kept)
    for batch, wanted in enumerate(database.states[table.name]):
        rows = versions[batch].to_pyarrow_table()
        assert rows.column_names == [*table.columns]
        assert _by_key(rows.to_pylist(), table) == wanted
        compared += len(wanted)
    assert compared >= _LEAST
    print(f"{compared} rows compared")


@pytest.mark.slow
@pytest.mark.parametrize(("connector", "table"), _STREAMED)
def test_a_changelog_has_the_right_old_rows(
    spark: Any, rocksdb: None, database: Database, connector: Connector, table: Table, tmp_path: Path
) -> None:
    """Each decoded -U and -D has the row of the table at that point."""
    topic, kv = _topic(database.events[table.name], connector, table, tmp_path / "topic"), _kv(connector, table)
    stream = spark.readStream.schema(_KAFKA).option("maxFilesPerTrigger", 1).parquet(str(topic))
    changes = kv.decode(stream, metadata=["partition", "offset"], row_index=True)
    batches: dict[int, list[Row]] = {}

    def collect(batch: Any, number: int) -> None:
        batches[number] = batch.toArrow().to_pylist()

    query = normalize_changes(changes, kv).writeStream.foreachBatch(collect)
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    query.start().awaitTermination()
    rows: dict[Key, Row] = {}
    compared = 0
    for number, wanted in enumerate(database.states[table.name]):
        for row in batches[number]:
            kind, key = row.pop("row_kind"), table.key_of(row)
            if kind in ("-U", "-D"):
                assert rows.pop(key) == row
            else:
                assert key not in rows
                rows[key] = row
        assert rows == wanted
        compared += len(wanted)
    assert compared >= _LEAST
    print(f"{compared} rows compared")


@pytest.mark.parametrize("connector", [pytest.param(c, id=c.name) for c in CONNECTORS if c.name in _TOLD_APART])
def test_a_truncate_is_an_error(spark: Any, emptied: Database, connector: Connector, tmp_path: Path) -> None:
    """A truncate is an error. The rows after the last truncate make the table. If it is ignored, earlier rows stay."""
    table, compared = TABLES[0], 0
    topic = _topic(emptied.events[table.name], connector, table, tmp_path / "topic")
    records = spark.read.schema(_KAFKA).parquet(str(topic))
    kept = emptied.kept[table.name][-1]
    if connector.tells:
        kv = _kv(connector, table, **{"other-messages": "skip"})
        decoded = kv.decode(records, metadata=["partition", "offset"], errors="capture", row_index=True)
        good, bad = split_errors(decoded)
        told = bad.select("offset", "reason").toArrow().to_pylist()
        assert len(told) >= sum(event.kind == "t" for event in emptied.events[table.name]) > 1
        assert {"a TRUNCATE: the table has lost its rows" in row["reason"] for row in told} == {True}
        behind = good.where(good["offset"] > max(row["offset"] for row in told))
        wanted = emptied.states[table.name][-1]
        assert _rows(latest_by_key(behind, kv), table) == wanted
        compared += len(wanted)
    else:
        assert len(kept) > len(emptied.states[table.name][-1])
    kv = _kv(connector, table, **{"other-messages": "skip-all"})
    changes = kv.decode(records, metadata=["partition", "offset"], row_index=True)
    assert _rows(latest_by_key(changes, kv), table) == kept
    compared += len(kept)
    assert compared >= _LEAST // 3
    print(f"{compared} rows compared")


def test_a_truncate_stops_a_stream(spark: Any, emptied: Database, tmp_path: Path) -> None:
    """The table keeps the state before the batch with the truncate."""
    table, connector = TABLES[0], CONNECTORS[0]
    events = emptied.events[table.name]
    first = next(number for number, event in enumerate(events) if event.kind == "t")
    parts = [event._replace(checkpoint=int(number >= first)) for number, event in enumerate(events)]
    topic = _topic(parts, connector, table, tmp_path / "topic")
    stream = spark.readStream.schema(_KAFKA).option("maxFilesPerTrigger", 1).parquet(str(topic))
    kept = tmp_path / "table"
    query = _kv(connector, table, **{"other-messages": "skip"}).maintain(
        stream, kept, checkpoint_location=str(tmp_path / "checkpoint"), trigger={"availableNow": True}
    )
    with pytest.raises(StreamingQueryException, match="a TRUNCATE: the table has lost its rows"):
        query.awaitTermination()
    wanted = {}
    for event in events[:first]:
        wanted.pop(table.key_of(event.before or event.after or {}), None)
        wanted |= {table.key_of(row): row for row in [event.after] if row is not None}
    assert len(wanted) > 50
    assert _rows(current_table(spark, kept), table) == wanted


def test_the_random_database_covers_all_operations(database: Database) -> None:
    """The random history reuses deleted keys, changes keys, and keeps large values unchanged."""
    for table in TABLES:
        events = database.events[table.name]
        kinds = [event.kind for event in events]
        assert {kind: kinds.count(kind) > 20 for kind in "riud"} == dict.fromkeys("riud", True)
        updates = [(e.before, e.after) for e in events if e.before is not None and e.after is not None]
        assert sum(table.key_of(old) != table.key_of(new) for old, new in updates) > 10
        for name in table.large:
            assert sum(old[name] == new[name] is not None for old, new in updates) > 50
        gone = {table.key_of(e.before) for e in events if e.before is not None and e.kind == "d"}
        assert len(gone & {table.key_of(e.after) for e in events if e.after is not None and e.kind == "i"}) > 10
        text = b"".join(r.value or b"" for c in CONNECTORS for r in c.records(table, events, _SEED))
        assert text.count(b"__debezium_unavailable_value") > 50
