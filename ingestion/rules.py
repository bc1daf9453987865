"""The rules of plans and looks, from the blocks of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvformat.ingestion.behaviors import SchemaEvolution
from kvformat.ingestion.looking import LookStage
from kvformat.ingestion.pipeline.options import FIXED_TYPES, FORMAT_OPTIONS
from kvformat.ingestion.pipeline.routes import Router
from kvformat.ingestion.pipeline.transform import TransformRule
from kvformat.ingestion.planning import PlanRules
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.look import KnownTable, LookRequest, TableName
from kvformat.registry.contract.types import nullable

if TYPE_CHECKING:
    from kvformat.ingestion.pipeline.pipeline import Pipeline
    from kvformat.registry.format import Format


def plan_rules(pipeline: Pipeline, *, quarantine: bool, has_time: bool = True) -> PlanRules:
    """Return the rules by which the batches of a pipeline are planned."""
    source, settings = pipeline.source, pipeline.settings.values
    assert source.value_format is not None
    router = Router(pipeline.routes, settings["route-mode"])
    first = {
        table: KnownTable(
            {column.name: nullable(column.type) for column in declared.columns if column.type is not None},
            key=declared.primary_key,
        )
        for table, declared in source.schemas.items()
    }
    return PlanRules(
        SchemaEvolution(router, pipeline.behavior, pipeline.schema_changes),
        pipeline.transforms,
        first,
        source.fixed_types,
        source.values["schema.inference.strategy"] == "static",
        source.values["key.fields-prefix"] or "",
        source.values["value.fields-prefix"] or "",
        {name: str(nullable(column.type)) for name, column in source.metadata.items() if column.type is not None},
        source.value_format.changelog_mode is not ChangelogMode.INSERT_ONLY,
        quarantine,
        has_time,
        source.declared,
        **_advice(source.value_format),
    )


@dataclass(frozen=True, slots=True)
class UsedColumns:
    """Returns the names that the transform of a table uses, as its messages have them: without the prefix."""

    rules: tuple[TransformRule, ...]
    prefix: str = ""

    def __call__(self, table: TableName) -> frozenset[str]:
        """Return the names; none for a table without a transform."""
        rule = next((rule for rule in self.rules if rule.selector.matches(TableId(table))), None)
        if rule is None:
            return frozenset()
        return frozenset(n.removeprefix(self.prefix) for n in rule.used_names() if n.startswith(self.prefix))


def _advice(format: Format) -> dict[str, str]:
    if all(spec.name != FIXED_TYPES for spec in FORMAT_OPTIONS.get(format.identifier, ())):
        return {}
    return {"advice": f"'{format.identifier}.{FIXED_TYPES}' sets another type"}


def look_stage(pipeline: Pipeline) -> LookStage:
    """Return the stage that looks at the records of a pipeline, without known tables."""
    source = pipeline.source
    assert source.value_format is not None
    static = source.values["schema.inference.strategy"] == "static"
    nulls = UsedColumns(pipeline.transforms, source.values["value.fields-prefix"] or "")
    options = _options(source.value_format, source.values)
    value = LookRequest({}, source.fixed_types, options, static=static, nulls=nulls)
    if source.key_format is None:
        return LookStage(source.value_format, value)
    key_format = source.value_format.for_key(source.key_format)
    key = LookRequest({}, source.declared.key, _options(source.key_format, {}), "key", static)
    return LookStage(source.value_format, value, key_format, key, declared=source.declared)


def _options(format: Format, values: Any) -> dict[str, Any]:
    """Return the format's options that only ingestion has; the defaults for those that `values` does not have."""
    specs = FORMAT_OPTIONS.get(format.identifier, ())
    return {spec.name: values.get(f"{format.identifier}.{spec.name}", spec.default) for spec in specs}
