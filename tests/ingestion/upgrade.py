"""Queries whose checkpoints and tables a release stores, so that later releases show that they continue them.

    python -m tests.ingestion.upgrade fixtures/upgrade/0.2.0.tar.xz

writes the archive with the code of the checkout: a release does it once, and the archives of older releases stay. It
has a folder for each query, which have read the first half of the records. `test_upgrade.py` sends the records to a
broker of its own, and replaces what belongs to the writer: the ids of the topics, and the path of the folder.
"""

from __future__ import annotations

import random
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvformat.ingestion import ingest
from tests.connectors.crashes import session
from tests.connectors.tables import change, upsert
from tests.ingestion.history import History, generated
from tests.support import services
from tests.support.starting import started

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PEOPLE, SHOP = "people", "shop"
PARTITIONS = {PEOPLE: 2, SHOP: 3}
TABLES = ("orders", "items")
FOLDER = "<folder>"
"""What an archive has instead of the path of its folder."""
KEYS = 20
SEED = 12
BAD = b'{"n":'
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
NOW: dict[str, Any] = {"availableNow": True}

Records = dict[tuple[str, int], list[tuple[bytes | None, bytes | None]]]


@dataclass
class Generated:
    """The records of both topics in two halves, and the rows at the end: of people by key, of a shop's table by key."""

    halves: tuple[Records, Records]
    people: dict[int, int]
    shop: History


def records() -> Generated:
    """Return the records, always the same. A bad record of `people` is in each half."""
    rng = random.Random(SEED)
    halves: tuple[Records, Records] = ({}, {})
    people: dict[int, int] = {}
    for half in halves:
        for n in range(120):
            key = rng.randrange(KEYS)
            gone = rng.random() < 0.2
            people.pop(key, None)
            if not gone:
                people[key] = n
            half.setdefault((PEOPLE, key % PARTITIONS[PEOPLE]), []).append(change(key, None if gone else n))
        half[(PEOPLE, 0)].append((b'{"id":0}', BAD))
    history = generated(SEED, 90, TABLES)
    for number, (_, value, _, partition, *_) in enumerate(history.records):
        half = halves[number * 2 // len(history.records)]
        half.setdefault((SHOP, partition), []).append((None, value))
    return Generated(halves, people, history)


# --- the queries -------------------------------------------------------------------------------------------


def maintained(spark: SparkSession, bootstrap: str, folder: Path) -> StreamingQuery:
    """Start `maintain` of a table, with dead letters."""
    checkpoint = str(folder / "checkpoint")
    return upsert(bootstrap, PEOPLE).maintain(
        spark, folder / "table", checkpoint_location=checkpoint, dead_letters=folder / "dead", trigger=NOW
    )


def normalized(spark: SparkSession, bootstrap: str, folder: Path) -> StreamingQuery:
    """Start a query whose state has the rows of all keys."""
    table = upsert(bootstrap, PEOPLE).with_options({"value.json.ignore-parse-errors": "true"})

    def keep(rows: DataFrame, batch_id: int) -> None:
        rows.write.mode("overwrite").parquet(str(folder / "changes" / f"batch={batch_id}"))

    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    rows = table.read_stream(spark, normalize=True)
    writer = rows.writeStream.foreachBatch(keep).option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(**NOW).start()


def ingested(spark: SparkSession, bootstrap: str, folder: Path) -> StreamingQuery:
    """Start an ingestion of tables that get columns, and wider types."""
    source = {
        "type": "kafka",
        "topic": SHOP,
        "properties.bootstrap.servers": bootstrap,
        "scan.startup.mode": "earliest-offset",
        "value.format": "debezium-json",
    }
    by_id = [{"source-table": r"\.*.\.*", "primary-keys": "id"}]
    return ingest(
        spark, source, str(folder / "lake"), checkpoint_location=folder / "checkpoint", transform=by_id, trigger=NOW
    )


QUERIES: dict[str, Callable[[SparkSession, str, Path], StreamingQuery]] = {
    "maintained": maintained,
    "normalized": normalized,
    "ingested": ingested,
}


def run(spark: SparkSession, bootstrap: str, folder: Path, name: str) -> StreamingQuery:
    """Run a query until it has read what is there, in its folder below `folder`."""
    query = started(lambda: QUERIES[name](spark, bootstrap, folder / name))
    assert query.awaitTermination(300), "the query did not end"
    if query.exception() is not None:
        raise query.exception()
    return query


# --- archives ----------------------------------------------------------------------------------------------


def replace_texts(folder: Path, texts: dict[str, str]) -> None:
    """Replace texts in all files of text, and remove Hadoop's checksums."""
    for file in [file for file in folder.rglob("*") if file.is_file()]:
        if file.name.endswith(".crc"):
            file.unlink()
            continue
        try:
            content = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for old, new in texts.items():
            content = content.replace(old, new)
        file.write_text(content, encoding="utf-8")


def topic_ids(broker: services.KafkaBroker) -> dict[str, str]:
    """Return the ids of the topics."""
    from confluent_kafka import TopicCollection

    admin = broker.admin()  # its answers end with it
    described = admin.describe_topics(TopicCollection([*PARTITIONS]))
    return {topic: str(answer.result(30).topic_id) for topic, answer in described.items()}


def main() -> None:
    """Write the archive of a release."""
    archive = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "written")
        folder.mkdir()
        broker = services.KafkaBroker(Path(scratch))
        broker.start()
        try:
            broker.create_all(PARTITIONS)
            broker.send_all(records().halves[0])
            spark = session()
            for name in QUERIES:
                run(spark, broker.bootstrap, folder, name)
            spark.stop()
            ids = {identifier: _id_of(topic) for topic, identifier in topic_ids(broker).items()}
        finally:
            broker.kill()
        replace_texts(folder, {str(folder): FOLDER, **ids})
        with tarfile.open(archive, "w:xz") as target:
            for file in sorted(folder.rglob("*")):
                if file.is_file():
                    target.add(file, str(file.relative_to(folder)), filter=_plain)
    print(f"{archive}: {archive.stat().st_size:,} bytes")


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a member of an archive without what tells of the machine."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def unpack(archive: Path, folder: Path, ids: dict[str, str]) -> None:
    """Unpack an archive into a folder, for the topics of a broker with these ids."""
    with tarfile.open(archive) as source:
        source.extractall(folder, filter="data")
    replace_texts(folder, {FOLDER: str(folder), **{_id_of(topic): identifier for topic, identifier in ids.items()}})


def _id_of(topic: str) -> str:
    """Return what an archive has instead of the id of a topic."""
    return f"<id of {topic}>"


if __name__ == "__main__":
    main()
