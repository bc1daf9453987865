"""What releases have written is continued: checkpoints, state, maintained tables and lakes (docs/operating.md)."""

from __future__ import annotations

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
            read[name] = sum(progress.numInputRows for progress in query.recentProgress)
        yield folder, read
    finally:
        broker.kill()


def test_there_is_an_archive_of_a_release() -> None:
    assert len(ARCHIVES) >= 1


def test_a_query_reads_only_what_is_new(continued: Any) -> None:
    _, read = continued
    people = sum(len(some) for (topic, _), some in upgrade.records().halves[1].items() if topic == upgrade.PEOPLE)
    assert people == 121
    assert read == {"maintained": people, "normalized": people - 1, "ingested": read["ingested"]}  # one is bad


def test_a_maintained_table_has_old_and_new_rows(continued: Any, spark: Any) -> None:
    folder, _ = continued
    people = upgrade.records().people
    assert len(people) >= 10
    assert rows(spark, folder / "maintained" / "table") == sorted(people.items())
    dead = spark.read.parquet(str(folder / "maintained" / "dead")).collect()
    assert [bytes(row.value) for row in dead] == [upgrade.BAD] * 2


def test_the_state_of_changes_knows_the_rows_before(continued: Any, spark: Any) -> None:
    """An update of a row of the first half begins with that row, and a delete has all columns of it."""
    folder, _ = continued
    table: dict[int, int] = {}
    frame = spark.read.parquet(str(folder / "normalized" / "changes"))
    batches = sorted({row.batch for row in frame.select("batch").distinct().collect()})
    assert len(batches) >= 2
    before = 0
    for batch in batches:
        changes = frame.where(frame.batch == batch).collect()
        for kind in ("-D", "-U", "+I", "+U"):
            for row in (row for row in changes if row.row_kind == kind):
                if kind in ("-D", "-U"):
                    before += 1
                    if row.id in table and kind == "-D":
                        del table[row.id]
                else:
                    table[row.id] = row.n
    assert before >= 20


def test_a_lake_has_old_and_new_rows(continued: Any, spark: Any) -> None:
    folder, _ = continued
    history, compared = upgrade.records().shop, 0
    for name in history.tables:
        frame = read_table(spark, folder / "ingested" / "lake", name)
        found = {row["id"]: row for row in frame.toArrow().to_pylist()}
        assert found == expected(history, name, dict(frame.dtypes)), name
        compared += len(found)
    assert compared >= 5
