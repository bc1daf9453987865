"""What releases have written is continued: checkpoints, state, maintained tables and lakes (docs/operating.md)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kvformat.ingestion import read_table
from tests.connectors.tables import rows
from tests.ingestion import upgrade
from tests.ingestion.history import expected

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow, pytest.mark.once]
ARCHIVES = sorted((Path(__file__).parents[2] / "fixtures" / "upgrade").glob("*.tar.xz"))


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda file: file.name.removesuffix(".tar.xz"))
def continued(request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder of a release whose queries have read the second half of the records, and what each query has read."""
    from tests.support import services

    folder = tmp_path_factory.mktemp("upgrade")
    broker = services.KafkaBroker(tmp_path_factory.mktemp("broker"))
    broker.start()
    try:
        broker.create_all(upgrade.PARTITIONS)
        first, second = upgrade.records().halves
        broker.send_all(first)
        upgrade.unpack(request.param, folder, upgrade.topic_ids(broker))
        broker.send_all(second)
        read = {}
        for name in upgrade.QUERIES:
            query = upgrade.run(spark, broker.bootstrap, folder, name)
            batches = [progress for progress in query.recentProgress if progress.numInputRows]
            starts = json.loads(batches[0].sources[0].startOffset)
            begun = sum(sum(starts[topic].values()) for topic in upgrade.PARTITIONS if topic in starts)
            read[name] = batches[0].batchId, begun, sum(progress.numInputRows for progress in batches)
        yield folder, read
    finally:
        broker.kill()


def test_there_is_an_archive_of_a_release() -> None:
    assert len(ARCHIVES) >= 1


def _count(half: int, topic: str) -> int:
    return sum(len(some) for (of, _), some in upgrade.records().halves[half].items() if of == topic)


def test_a_query_continues_after_its_last_batch(continued: Any) -> None:
    """The batch, the offsets that were read before, and the records; the rows of an ingestion are ranges."""
    _, read = continued
    people, shop = _count(0, upgrade.PEOPLE), _count(0, upgrade.SHOP)
    assert people == 121
    assert shop >= 40
    assert read["maintained"] == (1, people, _count(1, upgrade.PEOPLE))
    assert read["normalized"] == (1, people, _count(1, upgrade.PEOPLE) - 1)  # its option skips the bad record
    assert read["ingested"] == (1, shop, upgrade.PARTITIONS[upgrade.SHOP])


def test_a_maintained_table_has_old_and_new_rows(continued: Any, spark: Any) -> None:
    folder, _ = continued
    people = upgrade.records().people
    assert len(people) >= 10
    assert rows(spark, folder / "maintained" / "table") == sorted(people.items())
    dead = spark.read.parquet(str(folder / "maintained" / "dead")).collect()
    assert [bytes(row.value) for row in dead] == [upgrade.BAD] * 2


def test_the_state_of_changes_knows_the_rows_before(continued: Any, spark: Any) -> None:
    """Each row that a change replaces or deletes is there, with its values: also rows of the batch before."""
    folder, _ = continued
    changes = spark.read.parquet(str(folder / "normalized" / "changes")).collect()
    counts: dict[int, Counter[tuple[int, int]]] = {0: Counter(), 1: Counter()}
    for row in changes:
        counts[row.batch][row.id, row.n] += 1 if row.row_kind in ("+I", "+U") else -1
    first, second = counts[0], counts[1]
    assert set(first.values()) <= {0, 1}
    replaced = [row for row, count in second.items() if count < 0]
    assert len(replaced) >= 10
    assert all(first[row] == 1 for row in replaced)
    first.update(second)
    assert {row for row, count in first.items() if count} == set(upgrade.records().people.items())
    assert set(first.values()) <= {0, 1}


def test_a_lake_has_old_and_new_rows(continued: Any, spark: Any) -> None:
    folder, _ = continued
    history, compared = upgrade.records().shop, 0
    for name in history.tables:
        frame = read_table(spark, folder / "ingested" / "lake", name)
        found = {row["id"]: row for row in frame.toArrow().to_pylist()}
        assert found == expected(history, name, dict(frame.dtypes)), name
        compared += len(found)
    assert compared >= 5
