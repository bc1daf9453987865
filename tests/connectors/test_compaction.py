"""An upsert table on a compacted topic: the broker compares key bytes and keeps the last row of each key."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from kvformat.connectors import KafkaTable
from kvformat.registry import ChangelogMode

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]  # waits until the broker compacts

_PARTITIONS = 3
_KEYS = 40
_LONGEST = 120.0
_STOCK = """CREATE TABLE stock (shop STRING, id INT, name STRING, amount DECIMAL(8, 2),
    PRIMARY KEY (id, shop) NOT ENFORCED) WITH (
    'connector' = 'upsert-kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
    'key.format' = 'json', 'value.format' = 'json')"""
Goods = dict[tuple[int, str], tuple[str, str]]


def test_compaction_keeps_the_last_row_of_each_key(spark: Any, broker: Any) -> None:
    topic = broker.create(
        "compacted",
        _PARTITIONS,
        cleanup_policy="compact",
        segment_ms="1000",
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="1000",
        delete_retention_ms="3600000",  # tombstones stay
    )
    table = KafkaTable.from_ddl(_STOCK.format(topic=topic, bootstrap=broker.bootstrap))
    changes, current = _changes(random.Random(7), 400)
    frame = spark.createDataFrame(changes, "shop STRING, id INT, name STRING, amount STRING, row_kind STRING")
    table.write(
        frame.withColumn("amount", frame.amount.cast("DECIMAL(8, 2)")).coalesce(1), changelog_mode=ChangelogMode.UPSERT
    )
    written = broker.records(topic)
    assert len(written) == len(changes)
    deletes = sum(kind == "-D" for *_, kind in changes)
    assert sum(message.value() is None for message in written) == deletes > 0
    assert _stock(spark, table) == current

    # Keys are in the partition that Java's client chooses; another client confirms it.
    other = broker.create("compacted-by-librdkafka", _PARTITIONS)
    broker.send(other, [(message.key(), b"") for message in written])
    assert _places(written) == _places(broker.records(other))
    assert len(set(_places(written).values())) == _PARTITIONS

    last = {message.key(): message.value() for message in written}
    kept = _compacted(broker, topic, set(last))
    assert {message.key(): message.value() for message in kept} == last
    assert sum(message.value() is None for message in kept) == len(last) - len(current) > 0
    assert _stock(spark, table) == current


def _changes(rng: random.Random, count: int) -> tuple[list[tuple[Any, ...]], Goods]:
    """Return changes of some keys, and the resulting table."""
    current: Goods = {}
    changes: list[tuple[Any, ...]] = []
    for n in range(count):
        number = rng.randrange(_KEYS)
        key = (number, f"shop {number % 3}, é")
        if key in current and rng.random() < 0.3:
            name, amount = current.pop(key)
            changes.append((key[1], key[0], name, amount, "-D"))
        else:
            kind = "+U" if key in current else "+I"
            current[key] = (f"n{n}", f"{n}.50")
            changes.append((key[1], key[0], *current[key], kind))
    return changes, current


def _stock(spark: Any, table: KafkaTable) -> Goods:
    """Return the current rows."""
    return {(row.id, row.shop): (row.name, str(row.amount)) for row in table.read(spark).collect()}


def _places(messages: list[Any]) -> dict[bytes, int]:
    """Return the partition of each key; every key has only one."""
    places = {(message.key(), message.partition()) for message in messages}
    assert len(dict(places)) == len(places)
    return dict(places)


def _compacted(broker: Any, topic: str, keys: set[bytes]) -> list[Any]:
    """Wait until each of the keys has one record, and return the records. The newest segment is never compacted."""
    deadline = time.monotonic() + _LONGEST
    while True:
        for partition in range(_PARTITIONS):
            broker.send(topic, [(b'{"id":-1,"shop":"nobody"}', None)], partition=partition)
        found = [message for message in broker.records(topic) if message.key() in keys]
        if len(found) == len(keys):
            return found
        assert time.monotonic() < deadline, f"{len(found)} records of {len(keys)} keys"
        time.sleep(0.5)
