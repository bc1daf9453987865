"""The last row of each key, of rows that are in the driver; the rows before and after a TRUNCATE."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from kvformat.ingestion.batch_report import BatchReport
from kvformat.ingestion.decoded_rows import POSITION, ROW_ERROR, ROW_INDEX, TIMESTAMP, in_order, latest_rows
from kvformat.ingestion.errors import SchemaChangeError
from kvformat.ingestion.schemas.events import AddColumns, DropTable, TruncateTable
from kvformat.ingestion.schemas.known import BatchPlan, IngestState, PlannedChange, SourceTable
from kvformat.ingestion.schemas.state import Cause, CausedEvent, SchemaState
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.target_writer import TableFailedError, TargetWriter, _is_before
from kvformat.ingestion.targets.target import BatchWrite, TableOptions
from kvformat.ingestion.testing.targets import table_schema
from kvformat.registry import latest_by_key
from kvformat.registry.spark.decoded_columns import ROW_KIND

_KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "number": (pa.int32(), [None, 0, 1, -1]),
    "fraction": (pa.float64(), [None, 0.0, -0.0, 1.5, float("nan")]),
    "text": (pa.string(), [None, "", "a", "b"]),
}


def _changes(random: Random, count: int) -> pa.Table:
    """Return changes in the order of their offsets."""
    columns = {name: pa.array([random.choice(values) for _ in range(count)], t) for name, (t, values) in _KEYS.items()}
    kinds = pa.array([random.choice(["+I", "-U", "+U", "-D"]) for _ in range(count)])
    return pa.table({**columns, "offset": pa.array(range(count)), ROW_KIND: kinds})


def test_without_a_key_all_rows_are_left() -> None:
    rows = _changes(Random(1), 20)
    assert latest_rows(rows, ()).column_names == [*_KEYS, "offset"]
    assert latest_rows(rows, ())["offset"].to_pylist() == [*range(20)]
    assert latest_rows(rows.slice(0, 0), ["text"]).num_rows == 0


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_several_tasks_are_put_in_order(seed: int) -> None:
    rng = Random(seed)
    places = sorted((rng.choice("abc"), rng.randrange(2), rng.randrange(40)) for _ in range(rng.randrange(60)))
    if seed % 2 and len(places) > 1:
        at = rng.randrange(1, len(places))
        places = [*places[at:], *places[:at]]
    if seed % 3 == 1 and len(places) > 1:  # neighbours, which differ in the last digit
        places[-1], places[-2] = places[-2], places[-1]
    rows = [{"topic": t, "partition": p, "offset": o, "n": n} for n, (t, p, o) in enumerate(places)]
    types = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("n", pa.int64())])
    table = pa.concat_tables([pa.Table.from_pylist(rows[:7], types), pa.Table.from_pylist(rows[7:], types)])
    names = ("topic", "partition", "offset")
    found = in_order(table, names)
    assert found.select(names).to_pylist() == table.sort_by([(n, "ascending") for n in names]).select(names).to_pylist()
    assert sorted(found["n"].to_pylist()) == [*range(len(rows))]


@pytest.mark.parametrize("last", [("t", 1, 3, 1001), ("t", 1, 3, 1000), ("t", 0, 6, 1000), ("u", 0, 1, 1000)])
def test_the_last_truncate_of_a_target_counts_whatever_arrives_first(last: tuple[str, int, int, int]) -> None:
    """By the time of its record, and then by topic, partition and offset, which differ in the last digit."""
    table, other = TableId(("ods",)), TableId(("other",))
    changes = [
        PlannedChange(CausedEvent(event, Cause(*place)), time)
        for event, (*place, time) in (
            (TruncateTable(table), ("t", 0, 5, 1000)),
            (DropTable(table), last),
            (TruncateTable(other), ("a", 0, 0, 0)),
            (AddColumns(table, ()), ("z", 9, 9, 9999)),
        )
    ]
    nothing = mock.Mock()
    for given in (changes, changes[::-1]):
        writer = TargetWriter(nothing, BatchPlan(IngestState(), changes=tuple(given)), BatchReport(0), nothing)
        assert writer.truncations() == {table: changes[1], other: changes[2]}


@pytest.mark.parametrize(
    ("kind", "written"), [("latest", [(2, 4), (1, 9)]), ("changes", [(1, 1), (2, 4), (1, 5), (1, 9)])]
)
def test_rows_of_several_sources_are_written_in_the_order_of_their_records(
    kind: str, written: list[tuple[int, int]]
) -> None:
    """Each source has its rows in order, and those of the other one are between them. A bad record has no row."""
    sources = [
        pa.Table.from_pylist(
            [
                {
                    **{"id": key, "offset": offset, ROW_KIND: "+I", ROW_INDEX: 0, TIMESTAMP: 0},
                    **dict(zip(POSITION, ("t", 0, offset), strict=True)),
                    ROW_ERROR: "bad" if offset == 10 else None,
                }
                for key, offset in places
            ]
        )
        for places in ([(1, 1), (1, 9), (1, 10)], [(2, 4), (1, 5)])
    ]
    target, nothing = mock.Mock(rows=kind), mock.Mock()
    writer = TargetWriter(mock.Mock(target=target, query="q"), nothing, BatchReport(3), nothing)
    writer._write_returned(TableId(("ods",)), table_schema("id BIGINT", "offset BIGINT", key=["id"]), sources)
    _, _, rows, batch = target.write_rows.call_args.args
    assert [(row["id"], row["offset"]) for row in rows.to_pylist()] == written
    assert batch == BatchWrite("q", 3)


def test_rows_without_a_column_that_their_target_got_meanwhile_are_an_error() -> None:
    frame, nothing = mock.Mock(), mock.Mock()
    frame.rows.drop.return_value.columns = ["v"]
    writer, given = TargetWriter(nothing, nothing, BatchReport(3), nothing), (TableId(("ods",)), table_schema("id INT"))
    text = r"table ods: the rows have no column 'id'; run the batch again"
    with pytest.raises(SchemaChangeError, match=text):
        writer._write_returned(*given, [pa.table({name: [1] for name in ("v", TIMESTAMP, ROW_ERROR)})])
    with pytest.raises(SchemaChangeError, match=text):
        writer._write_part(*given, [frame], 0)


def test_a_table_is_created_with_the_options_of_the_first_of_its_sources_that_has_a_transform() -> None:
    a, b, c = (TableId((name,)) for name in "abc")
    rules = {table: SimpleNamespace(partition_keys=(str(table),), table_options={"k": str(table)}) for table in (b, c)}
    writer = TargetWriter(mock.Mock(rules=mock.Mock(rule=rules.get)), mock.Mock(), BatchReport(0), mock.Mock())
    assert writer._options([c, b, a]) == TableOptions(("b",), {"k": "b"})
    assert writer._options([a]) == TableOptions()


@pytest.mark.parametrize(("given", "failed"), [(["a"], {"a"}), ([], {"a", "b"})])
def test_a_target_that_is_not_changed_fails_its_tables_with_rows_or_all_that_feed_it(
    given: list[str], failed: set[str]
) -> None:
    """A table may be truncated only by a batch without rows of it."""
    ods, other = TableId(("ods",)), TableId(("other",))
    memory = mock.Mock()
    memory.planner.targets = lambda _, table: [other] if str(table) == "c" else [ods]
    memory.tables.ready.side_effect = SchemaChangeError("no")
    sources = {TableId((name,)): SourceTable() for name in "abc"}
    plan = BatchPlan(IngestState(sources, SchemaState(targets={ods: table_schema("id INT")})))
    change = PlannedChange(CausedEvent(TruncateTable(ods), Cause("t", 0, 1)))
    returned = {TableId((name,)): pa.table({}) for name in given}
    with pytest.raises(TableFailedError) as caught:
        TargetWriter(memory, plan, BatchReport(0), mock.Mock())._write(ods, [], returned, change)
    assert {*map(str, caught.value.tables)} == failed
    assert memory.store.check_driver.called is not bool(given)  # a commit at a path keeps older drivers away by itself


@pytest.mark.spark
def test_the_last_row_of_a_key_is_that_of_latest_by_key(spark: Any) -> None:
    random, compared = Random(2), 0
    for keys in (["number"], ["fraction", "text"], ["text", "number", "fraction"]):
        rows = _changes(random, 150)
        expected = latest_by_key(spark.createDataFrame(rows), keys, ["offset"], deletes=True).toArrow()
        found = latest_rows(rows, keys)
        assert sorted(found.column_names) == sorted(expected.column_names)
        assert found["offset"].to_pylist() == sorted(found["offset"].to_pylist())
        by_offset = [table.select(found.column_names).sort_by("offset").to_pylist() for table in (found, expected)]
        assert repr(by_offset[0]) == repr(by_offset[1])
        compared += found.num_rows
    assert compared >= 60


@pytest.mark.spark
def test_rows_before_a_truncate_have_a_lower_offset_or_in_other_partitions_no_later_time(spark: Any) -> None:
    change = PlannedChange(CausedEvent(TruncateTable(TableId(("t",))), Cause("a", 0, 10)), timestamp=1000)
    rows = [
        (("a", 0, 9, 5000), True),
        (("a", 0, 10, 0), False),
        (("a", 0, 11, 0), False),
        (("a", 1, 50, 999), True),
        (("a", 1, 51, 1000), True),
        (("a", 1, 0, 1001), False),
        (("b", 0, 9, 1001), False),
        (("b", 0, 11, 1000), True),
        (("b", 0, 12, None), True),
    ]
    types = ", ".join(
        f"`{name}` {t}" for name, t in zip((*POSITION, TIMESTAMP), ("STRING", "INT", "BIGINT", "BIGINT"), strict=True)
    )
    found = spark.createDataFrame([row for row, _ in rows], types).withColumn("before", _is_before(change)).collect()
    assert [row["before"] for row in found] == [before for _, before in rows]
