"""Plans of batches: merged columns, events, keys, and the same plan in any order of what is seen."""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from kvformat.codecs.discovery.text_forms import forms_of
from kvformat.ingestion.batch_decoder import usable_rows
from kvformat.ingestion.behaviors import SchemaChangeBehavior, SchemaEvolution, accepted_tags
from kvformat.ingestion.errors import SchemaChangeError
from kvformat.ingestion.pipeline.declared_columns import DeclaredColumns
from kvformat.ingestion.pipeline.routes import Route, Router
from kvformat.ingestion.pipeline.transform import TransformRule, parse_transforms
from kvformat.ingestion.planning import BatchNews, NewColumn, NewKey, Planner, PlanRules, WholeTableChange
from kvformat.ingestion.schemas.events import AddColumns, AlterColumnTypes, CreateTable, TruncateTable
from kvformat.ingestion.schemas.known import BatchPlan, IngestState, SourceTable
from kvformat.ingestion.schemas.state import Cause
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.look import KnownTable

ORDERS = TableId(("shop", "orders"))
ONE, TWO, BOTH = TableId(("shop", "one")), TableId(("shop", "two")), TableId(("ods", "both"))


def _evolution(behavior: str = "lenient", routes: Iterable[Route] = (), exclude: Any = None) -> SchemaEvolution:
    found = SchemaChangeBehavior(behavior)
    return SchemaEvolution(Router(tuple(routes)), found, accepted_tags((), exclude, found))


def _planner(transforms: Any = (), **rules: Any) -> Planner:
    made = PlanRules(rules.pop("evolution", _evolution()), parse_transforms(list(transforms)), **rules)
    return Planner(made, _projected)


def _projected(rule: TransformRule, table: TableId, schema: TableSchema, nulls: frozenset[str]) -> TableSchema:
    """Analyze names and `*` only."""
    assert rule.columns is not None
    columns: list[SchemaColumn] = []
    for item in rule.columns:
        found = schema.column(item.name)
        columns += schema.columns if not item.name else [found or SchemaColumn(item.name, parse_type("STRING"))]
    return TableSchema(tuple(columns))


def _news(columns: str = "", *, table: TableId = ORDERS, offset: int = 0, **more: Any) -> BatchNews:
    """News of `id BIGINT, v INT|DOUBLE`."""
    texts = [text.split(maxsplit=1) for text in columns.split(", ") if text]
    found = [
        NewColumn(table, "value", name, tuple(map(parse_type, types.split("|"))), _at(offset), place)
        for place, (name, types) in enumerate(texts)
    ]
    return BatchNews({table: _at(offset)}, tuple(found), **more)


def _at(offset: int, partition: int = 0) -> Cause:
    return Cause("t", partition, offset)


def _columns(schema: TableSchema) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schema.columns)


def _target(plan: BatchPlan, table: TableId = ORDERS) -> str:
    return _columns(plan.state.schemas.targets[table])


def test_a_new_table_is_created_and_then_grows() -> None:
    planner = _planner()
    plan = planner.plan(IngestState(), _news("id BIGINT, v DOUBLE"))
    assert [type(event.event) for event in plan.events] == [CreateTable]
    assert _target(plan) == "id BIGINT, v DOUBLE"
    assert planner.plan(plan.state, _news()).entries(plan.state) == []
    later = planner.plan(plan.state, _news("v STRING, w DATE", offset=7))
    assert [type(event.event) for event in later.events] == [AddColumns, AlterColumnTypes]
    assert [event.cause for event in later.events] == [_at(7), _at(7)]
    assert _target(later) == "id BIGINT, v STRING, w DATE"
    assert [type(change.caused.event) for change in later.changes] == [AddColumns, AlterColumnTypes]


def test_the_order_of_tasks_changes_nothing() -> None:
    columns = [
        NewColumn(ORDERS, "value", name, (parse_type(t),), _at(offset, partition), place)
        for name, t, partition, offset, place in [
            ("a", "BIGINT", 0, 1, 0),
            ("a", "DOUBLE", 1, 0, 0),
            ("b", "DATE", 0, 1, 1),
            ("c", "STRING", 1, 0, 1),
            ("b", "TIMESTAMP(3)", 2, 9, 5),
        ]
    ]
    planner = _planner()
    found = set()
    orders = list(itertools.permutations(columns))
    for order in orders:
        found.add(_target(planner.plan(IngestState(), BatchNews({ORDERS: _at(0)}, order))))
    assert found == {"a DOUBLE, b TIMESTAMP(9), c STRING"}
    assert len(orders) == 120


def test_batches_of_any_size_give_the_same_types() -> None:
    rng = random.Random(1)
    types = ["BIGINT", "DOUBLE", "DATE", "TIMESTAMP(3)", "STRING", "BOOLEAN", "DECIMAL(20, 0)"]
    compared = 0
    for _ in range(60):
        seen = [(f"c{rng.randrange(4)}", rng.choice(types), offset) for offset in range(rng.randrange(1, 12))]
        found = []
        for size in (1, 3, 100):
            planner, state = _planner(), IngestState()
            for start in range(0, len(seen), size):
                columns = [
                    NewColumn(ORDERS, "value", name, (parse_type(t),), _at(offset), 0)
                    for name, t, offset in seen[start : start + size]
                ]
                state = planner.plan(state, BatchNews({ORDERS: _at(0)}, tuple(columns))).state
            found.append(_columns(state.schemas.targets[ORDERS]))
            compared += 1
        assert len({*found}) == 1, (seen, found)
    assert compared == 180


def test_a_plan_survives_its_json_form() -> None:
    first = {ORDERS: KnownTable({"id": parse_type("INT")}, key=("id",))}
    planner = _planner(first=first, evolution=_evolution("evolve"))
    state = IngestState()
    for news in (
        _news("v DECIMAL(5,2)|BIGINT, n ROW<a INT>, t DATE|TIMESTAMP(3)"),
        _news("v STRING", changes=(WholeTableChange(ORDERS, "truncate", _at(9), 12),)),
        replace(_news("w DATE"), keys=(NewKey(ORDERS, ("id",), _at(3)),)),
    ):
        plan = planner.plan(state, news)
        again = BatchPlan.from_entries(state, plan.entries(state))
        assert again == plan
        assert list(again.state.sources[ORDERS].value.columns) == list(plan.state.sources[ORDERS].value.columns)
        state = plan.state
    assert state.sources[ORDERS].value.as_text == {"t"}
    assert {*IngestState().with_entries(state.entries()).schemas.targets} == {ORDERS}


def test_the_forms_of_texts_survive_the_json_form_of_a_plan() -> None:
    """The columns of the second plan have the same types, and a batch that is repeated writes the same texts again."""
    planner = _planner(evolution=_evolution(routes=[Route(r"shop.\.*", "ods.both")]))
    kind, state = parse_type("TIMESTAMP(9)"), IngestState()
    for text, fewer in (("2024-02-29 12:00:00.123", False), ("2024-02-29 12:00:00.500", True)):
        column = NewColumn(ONE, "value", "v", (kind,), _at(0), forms=forms_of(text, kind))
        plan = planner.plan(state, BatchNews({ONE: _at(0)}, (column,)))
        again = BatchPlan.from_entries(state, plan.entries(state)).state
        for now, stored, before in (
            (plan.state.schemas.sources[ONE], again.schemas.sources[ONE], state.schemas.sources.get(ONE)),
            (plan.state.schemas.targets[BOTH], again.schemas.targets[BOTH], state.schemas.targets.get(BOTH)),
        ):
            assert stored.forms() == now.forms() != {}
            assert (before is not None and before == now and before.forms() != now.forms()) == fewer
        state = plan.state
        assert state.entries(again) == []


@pytest.mark.parametrize("order", [*itertools.permutations((ONE, TWO, ORDERS))])
def test_the_texts_of_a_target_have_the_forms_that_all_of_its_sources_have(order: tuple[TableId, ...]) -> None:
    """A source that has no texts, but values of a declared type, does not count."""
    planner, kind = _planner(evolution=_evolution(routes=[Route(r"shop.\.*", "ods.both")])), parse_type("TIMESTAMP(9)")
    texts, state = {ONE: "2024-02-29 12:00:00.123", TWO: "2024-02-29 12:00:00.5"}, IngestState()
    forms = {table: forms_of(text, kind) for table, text in texts.items()}
    for table in order:
        column = NewColumn(table, "value", "v", (kind,), _at(0), forms=forms.get(table))
        state = planner.plan(state, BatchNews({table: _at(0)}, (column,))).state
    assert state.schemas.targets[BOTH].forms() == {"v": forms[ONE] & forms[TWO]}
    assert forms[ONE] & forms[TWO] not in forms.values()


def test_first_schemas_keep_their_types_and_key() -> None:
    first = {ORDERS: KnownTable({"id": parse_type("INT"), "v": parse_type("VARCHAR(10)")}, key=("id",))}
    planner = _planner(first=first)
    plan = planner.plan(IngestState(), _news("v STRING"))
    assert _target(plan) == "id INT NOT NULL, v STRING"
    assert plan.state.schemas.targets[ORDERS].primary_key == ("id",)
    assert planner.plan(plan.state, BatchNews()).events == ()


def test_a_declared_table_is_not_created_before_its_first_row() -> None:
    other = TableId(("shop", "items"))
    first = {ORDERS: KnownTable({"id": parse_type("INT")})}
    plan = _planner(first=first).plan(IngestState(), _news("a INT", table=other))
    assert [*plan.state.schemas.targets] == [other]
    assert [*plan.state.sources] == [ORDERS, other]


def test_dates_in_a_column_of_timestamps_are_read_as_texts() -> None:
    planner = _planner()
    both = planner.plan(IngestState(), _news("a DATE|TIMESTAMP(0), b TIMESTAMP(0)|TIMESTAMP(3), c DATE, d INT|DOUBLE"))
    assert both.state.sources[ORDERS].value.as_text == {"a"}
    later = planner.plan(both.state, _news("b TIMESTAMP_LTZ(3), c TIMESTAMP(0)"))
    assert later.state.sources[ORDERS].value.as_text == {"a", "b", "c"}


def test_fixed_types_do_not_widen() -> None:
    planner = _planner(fixed={"id": parse_type("INT")})
    plan = planner.plan(IngestState(), _news("id STRING, v BIGINT"))
    assert _target(planner.plan(plan.state, _news("id DOUBLE"))) == "id INT, v BIGINT"


def test_static_schemas_do_not_change(caplog: pytest.LogCaptureFixture) -> None:
    planner = _planner(static=True)
    plan = planner.plan(IngestState(), _news("id BIGINT"))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            later = planner.plan(plan.state, _news("id STRING, w DATE"))
    assert _target(later) == "id BIGINT"
    assert [record.getMessage() for record in caplog.records] == [
        "table shop.orders: the new column 'w' is left out, because 'schema.inference.strategy' is static"
    ]


def test_a_widening_that_loses_digits_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    planner = _planner()
    state = planner.plan(IngestState(), _news("id BIGINT")).state
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            planner.plan(state, _news("id DOUBLE"))
    (record,) = caplog.records
    assert "table shop.orders, column 'id'" in record.getMessage()
    assert "2^53" in record.getMessage()


def test_keys_of_messages_and_of_transforms() -> None:
    keyed = replace(_news("id BIGINT, k STRING"), keys=(NewKey(ORDERS, ("id",), _at(0)),))
    plan = _planner().plan(IngestState(), keyed)
    assert _target(plan) == "id BIGINT NOT NULL, k STRING"
    changed = replace(_news(), keys=(NewKey(ORDERS, ("k",), _at(5, 2)),))
    with pytest.raises(SchemaChangeError, match=r"\(id\), and is now \(k\) \(topic t, partition 2, offset 5\)"):
        _planner().plan(plan.state, changed)
    transform = [{"source-table": r"shop.\.*", "primary-keys": "k"}]
    own = _planner(transform).plan(IngestState(), replace(keyed, keys=(*keyed.keys, *changed.keys)))
    assert own.state.schemas.targets[ORDERS].primary_key == ("k",)
    with pytest.raises(SchemaChangeError, match=r"was \(id\), and is now \(k\)"):
        _planner(transform).plan(plan.state, _news())


def test_the_key_of_records_is_the_key_of_changes_only() -> None:
    id_ = NewColumn(ORDERS, "key", "id", (parse_type("BIGINT"),), _at(0))
    news = replace(_news("id BIGINT, v INT"), columns=(id_, *_news("id BIGINT, v INT").columns))
    for has_changes, key in ((True, ("k_id",)), (False, ())):
        plan = _planner(key_prefix="k_", has_changes=has_changes).plan(IngestState(), news)
        assert plan.state.schemas.targets[ORDERS].primary_key == key
        assert plan.state.schemas.targets[ORDERS].names == ("k_id", "id", "v")
    assert _target(_planner().plan(IngestState(), news)) == "id BIGINT NOT NULL, v INT"


@pytest.mark.parametrize(("of_key", "of_value"), [("BIGINT", "STRING"), ("STRING", "BIGINT")])
@pytest.mark.parametrize("forms", [{}, {"id": 5}])
def test_a_column_that_key_and_value_have_is_that_of_the_value(
    of_key: str, of_value: str, forms: dict[str, int]
) -> None:
    value = KnownTable({"v": parse_type("INT"), "id": parse_type(of_value)}, forms=forms)
    key = KnownTable({"id": parse_type(of_key), "k": parse_type("INT")}, forms={"id": 3, "k": 7})
    schema = _planner().message_schema(IngestState({ORDERS: SourceTable(value, key)}), ORDERS)
    assert _columns(schema) == f"k INT, v INT, id {of_value}"
    assert schema.forms() == {"k": 7, **forms}
    assert schema.primary_key == ("id", "k")


def test_columns_of_the_record_and_their_clashes() -> None:
    metadata = {"offset": "BIGINT"}
    assert _target(_planner(metadata=metadata).plan(IngestState(), _news("id INT"))) == "id INT, offset BIGINT"
    with pytest.raises(SchemaChangeError, match=r"'offset', and so has the metadata of the record"):
        _planner(metadata=metadata).plan(IngestState(), _news("offset INT"))
    for name in ("Row_Kind", "unchanged_columns", "_kvformat_topic", "_KVFORMAT_x"):  # a table of changes has them
        with pytest.raises(SchemaChangeError, match=f"'{name}', which is a name of kvformat's own columns"):
            _planner().plan(IngestState(), _news(f"id INT, {name} STRING"))
    for one, other in (("STRA\u00dfE", "stra\u00dfe"), ("\u017f", "S"), ("\u03c2", "\u03a3")):
        with pytest.raises(SchemaChangeError, match="differ in upper and lower case only"):
            _planner().plan(IngestState(), _news(f"{one} INT, {other} INT"))
    plan = _planner().plan(IngestState(), _news("ma\u00dfe INT, masse INT"))  # Spark tells them apart
    assert _target(plan) == "ma\u00dfe INT, masse INT"
    with pytest.raises(SchemaChangeError, match="'Id' and 'id' differ in upper and lower case only"):
        _planner().plan(IngestState(), _news("Id INT, id INT"))


def test_a_table_without_a_key_value_waits() -> None:
    planner = _planner()
    plan = planner.plan(IngestState(), replace(_news("v INT"), keys=(NewKey(ORDERS, ("id",), _at(0)),)))
    assert plan.events == ()
    assert str(planner.why_not(plan.state, ORDERS)).startswith("the key column 'id' is not a column of the table")
    plan = planner.plan(plan.state, _news("id INT"))
    assert _target(plan) == "v INT, id INT NOT NULL"
    assert planner.why_not(planner.plan(IngestState(), _news()).state, ORDERS) is not None


def test_truncate_passes_in_evolve_only() -> None:
    changes = (WholeTableChange(ORDERS, "truncate", _at(4), 99), WholeTableChange(TableId(("x",)), "drop", _at(5), 99))
    for behavior, count in (("lenient", 0), ("evolve", 1)):
        planner = _planner(evolution=_evolution(behavior))
        plan = planner.plan(IngestState(), _news("id INT", changes=changes))
        found = [change for change in plan.changes if isinstance(change.caused.event, TruncateTable)]
        assert len(found) == count
        assert all(change.place() == (99, "t", 0, 4) for change in found)
        assert len(plan.events) == 2


def test_several_sources_of_one_target() -> None:
    evolution = _evolution(routes=[Route(r"shop.orders_\.*", "ods.orders")])
    one, two, ods = (TableId(parts) for parts in (("shop", "orders_1"), ("shop", "orders_2"), ("ods", "orders")))
    planner = _planner(evolution=evolution)
    first, second = _news("id INT, v INT", table=one), _news("id BIGINT, w DATE", table=two)
    plan = planner.plan(IngestState(), BatchNews({**first.tables, **second.tables}, first.columns + second.columns))
    assert _target(plan, ods) == "id BIGINT, v INT, w DATE"
    keyed = replace(second, keys=(NewKey(two, ("id",), _at(0)),))
    state = planner.plan(IngestState(), first).state
    with pytest.raises(SchemaChangeError, match="have different primary keys"):
        planner.plan(state, keyed)
    quarantined = _planner(evolution=evolution, quarantine=True).plan(state, keyed)
    assert [*quarantined.failed] == [*quarantined.state.quarantined] == [two]
    assert _target(quarantined, ods) == "id INT, v INT"
    again = _planner(evolution=evolution, quarantine=True).plan(quarantined.state, keyed)
    assert again.entries(quarantined.state) == []


def test_a_table_whose_route_leads_nowhere_is_quarantined_alone() -> None:
    bad, evolution = TableId(("a.b.c.d",)), _evolution(routes=[Route(r"a\.*", "ods.<>", "<>")])
    one, other = _news("id INT"), _news("id INT", table=bad)
    news = BatchNews({**one.tables, **other.tables}, (*one.columns, *other.columns))
    plan = _planner(evolution=evolution, quarantine=True).plan(IngestState(), news)
    assert [*plan.failed] == [bad]
    assert [*plan.state.schemas.targets] == [ORDERS]


def test_exception_stops_at_any_change() -> None:
    planner = _planner(evolution=_evolution("exception"))
    state = planner.plan(IngestState(), _news("id INT")).state
    with pytest.raises(SchemaChangeError, match=r"add.column, caused by the table shop.orders"):
        planner.plan(state, _news("v INT"))


def test_equal_keys_of_several_sources_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    routes = [Route(r"shop.\.*", "ods.all")]
    tables = [TableId(("shop", name)) for name in ("a", "b")]

    def told(transform: dict[str, str]) -> list[str]:
        rules = [{"source-table": r"shop.\.*", **transform}]
        planner, started_again = (_planner(rules, evolution=_evolution(routes=routes)) for _ in range(2))
        caplog.clear()
        state = IngestState()
        with caplog.at_level(logging.WARNING):
            for table in (*tables, *tables):
                state = planner.plan(state, _news("id BIGINT", table=table)).state
            started_again.plan(state, _news("id BIGINT", table=TableId(("another",))))
        return [record.getMessage() for record in caplog.records]

    (found,) = told({"primary-keys": "id"})
    assert "target ods.all: rows of the tables shop.a, shop.b with equal keys overwrite each other" in found
    assert "__table_name__" in found
    assert told({}) == []
    for dialect in ("spark", "flink"):
        named = {"dialect": dialect, "projection": r"\*, CONCAT(__table_name__, '') AS t"}
        assert told({"primary-keys": "id, t", **named}) == []
        assert len(told({"primary-keys": "id", **named})) == 1


def test_a_column_that_becomes_text_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    planner = _planner()
    with caplog.at_level(logging.WARNING):
        state = planner.plan(IngestState(), _news("id BIGINT, v INT|STRING")).state
        for _ in range(2):
            state = planner.plan(state, _news("id BOOLEAN")).state
    assert [record.getMessage() for record in caplog.records] == [
        "table shop.orders, column 'v': INT and STRING become STRING, the only type that holds both. "
        "'scan.value.initial-schemas.ddls' of a new query sets another type",
        "table shop.orders, column 'id': BIGINT and BOOLEAN become STRING, the only type that holds both. "
        "'scan.value.initial-schemas.ddls' of a new query sets another type",
    ]


def test_times_are_texts_where_spark_has_no_type_for_them() -> None:
    cause = Cause("t", 0, 0)
    news = BatchNews({ORDERS: cause}, (NewColumn(ORDERS, "value", "at", (parse_type("TIME(6)"),), cause),))
    for has_time, expected in ((True, "TIME(6)"), (False, "STRING")):
        planner = _planner(has_time=has_time)
        state = planner.plan(IngestState(), news).state
        assert str(state.schemas.targets[ORDERS].columns[0].type) == expected
        assert str(planner.message_schema(state, ORDERS).columns[0].type) == "TIME(6)"
        assert str(planner.row_schema(state, ORDERS).columns[0].type) == expected


def test_the_cause_of_new_columns_is_the_record_with_the_lowest_offset() -> None:
    """The offsets differ in the last digit and arrive in reverse."""
    columns = [NewColumn(ORDERS, "value", f"c{n}", (parse_type("INT"),), _at(100 + n)) for n in (3, 1, 2)]
    plan = _planner().plan(IngestState(), BatchNews({ORDERS: _at(100)}, tuple(columns)))
    assert [event.cause for event in plan.events] == [_at(101)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([("drop", 1000, 0, 12), ("truncate", 1000, 0, 11)], [11, 12]),  # the same millisecond: by offset
        ([("truncate", 1001, 0, 11), ("drop", 1000, 0, 12)], [12, 11]),  # by the millisecond
        ([("truncate", 1000, 1, 11), ("drop", 1000, 0, 12)], [12, 11]),  # by partition before offset
    ],
)
def test_changes_of_whole_tables_are_in_the_order_of_time_partition_and_offset(
    changes: list[tuple[str, int, int, int]], expected: list[int]
) -> None:
    planner = _planner(evolution=_evolution("evolve"))
    state = planner.plan(IngestState(), _news("id INT")).state
    found = tuple(WholeTableChange(ORDERS, kind, _at(offset, part), time) for kind, time, part, offset in changes)
    plan = planner.plan(state, BatchNews(changes=found))
    assert [event.cause.offset for event in plan.events if event.cause] == expected
    times = {offset: time for _, time, _, offset in changes}
    assert [change.timestamp for change in plan.changes] == [times[offset] for offset in expected]


@pytest.mark.parametrize("later", [_at(12), _at(10, partition=1)])
def test_the_key_of_the_first_record_counts_whatever_arrives_first(later: Cause) -> None:
    keys = (NewKey(ORDERS, ("b", "a"), later), NewKey(ORDERS, ("a", "b"), _at(11)))
    sources = _planner().merged(IngestState(), _news("a INT, b INT", keys=keys))
    assert sources[ORDERS].value.key == ("a", "b")


def test_a_table_in_quarantine_learns_nothing() -> None:
    state = IngestState(quarantined={ORDERS: "broken"})
    planner = _planner()
    sources = planner.merged(state, _news("a INT", keys=(NewKey(ORDERS, ("a",), _at(1)),)))
    assert not sources[ORDERS].value.columns
    assert sources[ORDERS].value.key is None
    known = replace(_planner().plan(IngestState(), _news("id INT")).state, quarantined={ORDERS: "broken"})
    evolve = _planner(evolution=_evolution("evolve"))
    plan = evolve.plan(known, _news("a INT", changes=(WholeTableChange(ORDERS, "truncate", _at(1), 5),)))
    assert (plan.events, plan.changes) == ((), ())


def test_each_failed_table_goes_into_quarantine_beside_those_that_are_there() -> None:
    earlier, bad, worse = (TableId((name,)) for name in ("earlier", "bad", "worse"))
    columns = tuple(
        NewColumn(table, "value", name, (parse_type("INT"),), _at(n))
        for table in (bad, worse)
        for n, name in enumerate(("a", "A"))
    )
    planner = _planner(quarantine=True)
    state = IngestState(quarantined={earlier: "why"})
    plan = planner.plan(state, BatchNews({bad: _at(0), worse: _at(0)}, columns))
    assert {*plan.failed} == {bad, worse}
    assert {*plan.state.quarantined} == {earlier, bad, worse}


def test_a_known_table_keeps_what_it_learned_beyond_its_first_schema() -> None:
    planner = _planner(first={ORDERS: KnownTable({"id": parse_type("INT")})})
    state = planner.plan(IngestState(), _news("id BIGINT, v INT")).state
    assert {name: str(t) for name, t in planner.known(state).sources[ORDERS].value.columns.items()} == {
        "id": "BIGINT",
        "v": "INT",
    }


def test_static_inference_takes_all_columns_of_the_batch_that_creates_a_table() -> None:
    planner = _planner(static=True)
    plan = planner.plan(IngestState(), _news("a INT, b INT"))
    assert _target(plan) == "a INT, b INT"
    assert _target(planner.plan(plan.state, _news("c INT"))) == "a INT, b INT"


def test_a_fixed_type_is_for_columns_of_values_and_not_of_keys() -> None:
    columns = tuple(NewColumn(ORDERS, part, "a", (parse_type("INT"),), _at(1)) for part in ("key", "value"))  # type: ignore[arg-type]
    planner = _planner(fixed={"a": parse_type("STRING")})
    source = planner.merged(IngestState(), BatchNews({ORDERS: _at(1)}, columns))[ORDERS]
    assert (str(source.key.columns["a"]), str(source.value.columns["a"])) == ("INT", "STRING")
    wider = replace(columns[0], types=(parse_type("BIGINT"),)), replace(columns[1], types=(parse_type("BIGINT"),))
    later = planner.merged(IngestState({ORDERS: source}), BatchNews({ORDERS: _at(2)}, wider))[ORDERS]
    assert (str(later.key.columns["a"]), str(later.value.columns["a"])) == ("BIGINT", "STRING")


def test_a_key_with_the_same_columns_in_another_order_is_the_same_key() -> None:
    planner = _planner()
    state = planner.plan(IngestState(), _news("a INT, b INT", keys=(NewKey(ORDERS, ("a", "b"), _at(1)),))).state
    plan = planner.plan(state, _news(keys=(NewKey(ORDERS, ("b", "a"), _at(2)),)))
    assert plan.entries(state) == []
    with pytest.raises(SchemaChangeError, match=r"was \(a, b\), and is now \(b\) \(topic t, partition 0, offset 3\)"):
        planner.plan(state, _news(keys=(NewKey(ORDERS, ("b",), _at(3)),)))


def test_a_transform_may_name_the_columns_of_the_key_in_another_order() -> None:
    one, other = (_planner([{"source-table": r"shop.\.*", "primary-keys": keys}]) for keys in ("a, b", "b, a"))
    state = one.plan(IngestState(), _news("a INT, b INT")).state
    assert other.plan(state, _news()).entries(state) == []


def test_each_table_of_a_batch_has_its_own_key() -> None:
    tables = dict.fromkeys((ONE, TWO), _at(0))
    columns = sum((_news("a INT, b INT", table=table).columns for table in tables), ())
    keys = (NewKey(ONE, ("a",), _at(0)), NewKey(TWO, ("b",), _at(1)))
    plan = _planner().plan(IngestState(), BatchNews(tables, columns, keys))
    assert {table: schema.primary_key for table, schema in plan.state.schemas.targets.items()} == {
        ONE: ("a",),
        TWO: ("b",),
    }


def test_declared_columns_come_first_in_their_order_and_keep_a_wider_type() -> None:
    types = {name: parse_type("INT") for name in ("b", "a")}
    planner = _planner(declared=DeclaredColumns(names=("b", "a"), value=types))
    assert _target(planner.plan(IngestState(), _news("x INT, a INT"))) == "b INT, a INT, x INT"
    before = _planner().plan(IngestState(), _news("a BIGINT")).state
    assert _target(planner.plan(before, _news())) == "a BIGINT, b INT"
    assert str(planner.known(before).sources[ORDERS].value.columns["a"]) == "BIGINT"


def test_the_key_of_messages_has_the_prefix_of_value_columns() -> None:
    planner = _planner(value_prefix="v_", key_prefix="k_")
    state = planner.plan(IngestState(), _news("a INT", keys=(NewKey(ORDERS, ("a",), _at(1)),))).state
    assert state.schemas.targets[ORDERS].primary_key == ("v_a",)


def _planned(planner: Planner, before: IngestState, *tables: TableId, columns: str = "id INT") -> BatchPlan:
    news = [_news(columns, table=table) for table in tables]
    return planner.plan(before, BatchNews(dict.fromkeys(tables, _at(0)), sum((one.columns for one in news), ())))


def test_a_failed_table_leaves_a_plan_as_it_was_before_the_batch() -> None:
    planner = _planner()
    before = _planned(planner, IngestState(quarantined={BOTH: "earlier"}), ONE, TWO).state
    plan = _planned(planner, before, ONE, TWO, ORDERS, columns="v STRING")
    left = planner.without(plan, [ONE, ORDERS], "why", before.schemas)
    assert [caused.event.table for caused in left.events] == [TWO]
    assert [change.caused.event.table for change in left.changes] == [TWO]
    assert {table: _columns(schema) for table, schema in left.state.schemas.sources.items()} == {
        ONE: "id INT",
        TWO: "id INT, v STRING",
    }
    assert {*left.state.schemas.targets} == {ONE, TWO}, "a table that the batch creates is not created"
    assert left.state.quarantined == {BOTH: "earlier", ONE: "why", ORDERS: "why"}
    assert left.failed == {ONE: "why", ORDERS: "why"}
    again = planner.without(left, [TWO], "too", before.schemas)
    assert again.failed == {ONE: "why", ORDERS: "why", TWO: "too"}
    assert again.events == again.changes == ()


def test_a_target_that_another_table_feeds_keeps_its_changes() -> None:
    planner = _planner(evolution=_evolution(routes=[Route(r"shop.\.*", "ods.both")]))
    plan = _planned(planner, IngestState(), ONE, TWO)
    left = planner.without(plan, [TWO], "why", IngestState().schemas)
    assert [change.caused.event.table for change in left.changes] == [BOTH]
    assert {*left.state.schemas.sources} == {ONE}
    assert {*left.state.schemas.targets} == {BOTH}
    none = planner.without(left, [ONE], "why", IngestState().schemas)
    assert (none.changes, none.state.schemas.targets) == ((), {})


def test_the_records_of_a_table_are_refused_with_the_reason() -> None:
    planner = _planner(evolution=_evolution(exclude=["create.table"]))
    assert planner.refusal(_planned(planner, IngestState(), ONE).state, ONE) == (
        "the table is not created, because 'exclude.schema.changes' has 'create.table'"
    )
    planner = _planner()
    state = _planned(planner, IngestState(), ONE).state
    assert planner.refusal(state, ONE) is None
    assert planner.refusal(state, TWO) == "the messages have no column with a value yet"
    assert planner.refusal(replace(state, quarantined={ONE: "why"}), ONE) == "the table is quarantined: why"
    keyed = planner.plan(IngestState(), _news("v INT", keys=(NewKey(ORDERS, ("id",), _at(0)),))).state
    assert "the key column 'id' is not a column" in str(planner.refusal(keyed, ORDERS))


@pytest.mark.parametrize(
    ("decoded", "planned", "expected"),
    [
        ({ONE: 3}, {ONE: "a", TWO: "b"}, [ONE]),
        ({ONE: 3, TWO: 2}, {ONE: "a", TWO: "b"}, [ONE, TWO]),
        ({}, {ONE: "a"}, []),
        ({ONE: 2}, {ONE: "a"}, None),  # a task has not decoded all records
        ({ONE: 3, TWO: 2}, {ONE: "a", TWO: "other"}, None),  # the columns changed
        ({ONE: 3}, {}, None),  # the table is refused now
    ],
)
def test_rows_of_the_look_are_used_if_they_are_those_of_the_plan(
    decoded: dict[TableId, int], planned: dict[TableId, str], expected: list[TableId] | None
) -> None:
    news = BatchNews(records={ONE: 3, TWO: 2}, decoded=decoded)
    assert usable_rows(news, {ONE: "a", TWO: "b"}, planned) == expected


def test_a_column_that_came_with_null_only_has_no_type_until_a_value_comes() -> None:
    planner = _planner(value_prefix="v_")
    null = NewColumn(ORDERS, "value", "b", (), _at(1))
    news = _news("a INT")
    plan = planner.plan(IngestState(), BatchNews(news.tables, (*news.columns, null)))
    assert _target(plan) == "v_a INT"
    assert planner.nulls(plan.state, ORDERS) == {"v_b"}
    stored = BatchPlan.from_entries(IngestState(), plan.entries(IngestState())).state
    assert planner.nulls(stored, ORDERS) == {"v_b"}
    after = planner.plan(stored, _news("b STRING")).state
    assert planner.nulls(after, ORDERS) == frozenset()
    assert planner.nulls(after, ONE) == frozenset()
