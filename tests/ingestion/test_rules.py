"""The rules of plans and looks, from the blocks of a pipeline. No Spark."""

from __future__ import annotations

from typing import Any

import pytest

from kvformat.codecs.discovery.text_forms import ANY, FRACTIONS, INFERRED, WHOLE_NUMBERS
from kvformat.ingestion import Pipeline
from kvformat.ingestion.planning import BatchNews, NewColumn, Planner, PlanRules
from kvformat.ingestion.rules import look_stage, plan_rules
from kvformat.ingestion.schemas.known import IngestState, SourceTable
from kvformat.ingestion.schemas.state import Cause
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.format_hooks import Part
from kvformat.registry.contract.look import KnownTable
from tests.support.sources import BASE

SHOP, _INT = TableId(("shop",)), parse_type("INT")


def _pipeline(**source: str) -> Pipeline:
    return Pipeline({**BASE, "value.format": "json", **source}, {"type": "values"})


def _rules(**source: str) -> PlanRules:
    return plan_rules(_pipeline(**source), quarantine=False)


def test_a_first_schema_has_its_key_and_nullable_columns() -> None:
    text = "CREATE TABLE shop (id INT NOT NULL, v INT, PRIMARY KEY (id) NOT ENFORCED); CREATE TABLE db.t (v INT)"
    assert _rules(**{"scan.value.initial-schemas.ddls": text}).first == {
        TableId(("shop",)): KnownTable({"id": _INT, "v": _INT}, key=("id",)),
        TableId(("db", "t")): KnownTable({"v": _INT}),
    }


@pytest.mark.parametrize(
    ("name", "has_changes"), [("json", False), ("csv", False), ("debezium-json", True), ("canal-json", True)]
)
def test_only_a_format_of_changes_has_updates_and_deletes(name: str, has_changes: bool) -> None:
    assert _rules(**{"value.format": name}).has_changes is has_changes


def test_the_advice_of_a_warning_is_an_option_that_the_format_has() -> None:
    """Each format has that of the first schemas."""
    avro = {"value.format": "avro-confluent", "avro-confluent.url": "mock://x"}
    assert _rules().advice == "'json.infer-schema.fixed-types' sets another type"
    assert _rules(**avro).advice == "'scan.value.initial-schemas.ddls' of a new query sets another type"


def test_prefixes_and_metadata_are_those_of_the_source() -> None:
    options = {"key.format": "json", "key.fields-prefix": "k_", "value.fields-prefix": "v_"}
    columns = {"table.columns": "part BIGINT NOT NULL METADATA FROM 'partition'", "metadata.list": "topic"}
    rules = _rules(**options, **columns)
    assert (rules.key_prefix, rules.value_prefix) == ("k_", "v_")
    assert rules.metadata == {"part": "BIGINT", "topic": "STRING"}
    assert (_rules().key_prefix, _rules().value_prefix, _rules().metadata) == ("", "", {})


@pytest.mark.parametrize("strategy", ["continuous", "static"])
def test_keys_and_values_are_looked_at_by_their_declared_types_and_the_strategy(strategy: str) -> None:
    keyed = {"key.format": "json", "key.fields": "k_id", "key.fields-prefix": "k_", "table.columns": "k_id INT, v INT"}
    options = {"value.fields-include": "EXCEPT_KEY", "json.infer-schema.primitive-as-string": "true"}
    made = _pipeline(**keyed, **options, **{"schema.inference.strategy": strategy})
    stage, rules = look_stage(made), plan_rules(made, quarantine=True)
    assert stage.key is not None
    assert (stage.value.fixed, stage.key.fixed) == ({"v": _INT}, {"id": _INT})
    assert stage.value.static is stage.key.static is rules.static is (strategy == "static")
    assert (stage.value.part, stage.key.part) == ("value", "key")
    assert (rules.quarantine, rules.declared) == (True, made.source.declared)
    name = "infer-schema.primitive-as-string"
    assert (stage.value.options[name], stage.key.options[name]) == (True, False), "they are options of the value"
    assert look_stage(_pipeline()).key is None


def _merged(planner: Planner, known: IngestState, part: Part, name: str, t: str, **more: Any) -> SourceTable:
    """Return what is known of the table of the topic after a message with a column."""
    column = NewColumn(SHOP, part, name, (parse_type(t),), Cause("shop", 0, 0), **more)
    return planner.merged(known, BatchNews(columns=(column,)))[SHOP]


def test_a_declared_column_of_keys_keeps_its_type_and_is_read_as_text_if_keys_have_texts() -> None:
    rules = _rules(**{"key.format": "json", "key.fields": "id", "table.columns": "id INT"})
    key = _merged(Planner(rules, lambda *_: TableSchema(())), IngestState(), "key", "id", "STRING", as_text=True).key
    assert key.columns == {"id": _INT}
    assert key.as_text == {"id"}


@pytest.mark.parametrize(
    ("known", "given", "forms"),
    [
        (None, ANY | INFERRED, ANY | INFERRED),
        ("BIGINT", ANY | INFERRED, WHOLE_NUMBERS),  # whole numbers of earlier messages
        ("DOUBLE", ANY | INFERRED, ANY),  # a declared column
        ("DOUBLE", ANY & ~FRACTIONS, 0),  # no form writes all of its texts
    ],
)
def test_a_column_has_the_forms_of_all_its_texts(known: str | None, given: int, forms: int) -> None:
    columns = {} if known is None else {"v": parse_type(known)}
    state, planner = (
        IngestState({SHOP: SourceTable(KnownTable(columns))}),
        Planner(_rules(), lambda *_: TableSchema(())),
    )
    assert _merged(planner, state, "value", "v", "DOUBLE", forms=given).value.forms == {"v": forms}


def test_columns_that_a_transform_uses_have_no_prefix_in_messages() -> None:
    made = Pipeline(
        {**BASE, "value.format": "json", "value.fields-prefix": "v_"},
        {"type": "values"},
        transform=[{"source-table": "shop", "filter": "v_a IS NULL AND b > 1"}],
    )
    nulls = look_stage(made).value.nulls
    assert nulls is not None
    assert nulls(("shop",)) == {"a"}
