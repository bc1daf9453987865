"""Describe a pipeline in words: what runs, what is refused and why, what has no effect. No secret is shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kvformat.connectors import source as spark_source
from kvformat.connectors.broker_offsets import GROUP
from kvformat.connectors.explain import start_in_words
from kvformat.ingestion.behaviors import TAGS
from kvformat.ingestion.pipeline.routes import Route
from kvformat.ingestion.pipeline.settings import PipelineSettings
from kvformat.ingestion.pipeline.sink import TOPICS, PipelineSink
from kvformat.ingestion.pipeline.source import PipelineSource
from kvformat.ingestion.pipeline.transform import TransformRule
from kvformat.ingestion.targets.discovery import target_class
from kvformat.registry.format import Format
from kvformat.registry.sql.connector_options import masked
from kvformat.registry.sql.table_definition import TableColumn

_TABLE_IDS = {
    "debezium-json": "the database, the schema if there is one, and the table in 'source'",
    "debezium-avro-confluent": "the database, the schema if there is one, and the table in 'source'",
    "canal-json": "'database' and 'table' of the message",
    "maxwell-json": "'database' and 'table' of the message",
    "ogg-json": "'table' of the message, with its dots",
}
_TYPES = {
    "AUTO": "the values",
    "SQL_TYPE": "'sqlType' of the message",
    "MYSQL_TYPE": "'mysqlType' of the message",
}
_BEHAVIOURS = {
    "lenient": "columns are added at the end and types widened; no column is dropped",
    "evolve": "they are applied as they are",
    "try_evolve": "they are applied as they are; those that the target does not support are left out",
    "ignore": "only new tables are created; rows are fitted to the table",
    "exception": "only new tables are created; any other change stops the query",
}
_INDENT = "  "


def explain(
    source: PipelineSource,
    sink: PipelineSink,
    transforms: Sequence[TransformRule],
    routes: Sequence[Route],
    settings: PipelineSettings,
    changes: frozenset[str],
    refused: Sequence[str],
    notes: Sequence[str],
) -> str:
    """Return the text, with a paragraph for each block.

    `changes` are the kinds of schema changes that the sink takes.
    """
    name = settings.values["name"]
    lines = [f"Pipeline '{name}'" if name else "Pipeline"]
    lines += _source(source, settings)
    for number, rule in enumerate(transforms, 1):
        lines += _transform(number, rule)
    lines += _routes(routes, settings)
    lines += _sink(sink, settings, changes)
    lines += _settings(settings)
    lines += ["Refused, this pipeline can't be started:", *_indented(refused)] if refused else []
    lines += ["Notes:", *_indented(notes)] if notes else []
    return "\n".join(lines)


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"{_INDENT}{line}" for line in lines]


# --- source ----------------------------------------------------------------------------------------------------


def _source(source: PipelineSource, settings: PipelineSettings) -> list[str]:
    if source.value_format is None:
        return [f"Source: {source.type} (refused)"]
    values = source.values.shown
    name = f" '{values['name']}'" if values["name"] else ""
    lines = [
        f"value: {_in_words(source.value_format)}",
        "key: not read" if source.key_format is None else f"key: {_in_words(source.key_format)}",
    ]
    if source.records is not None:
        lines.append(f"start: {_start(source)}; a checkpoint has priority")
    if values["scan.bounded.mode"] == "latest-offset":
        lines.append("end: the last record when the query starts")
    lines.append(f"tables: {_table_ids(source)}")
    lines += _schemas(source, settings)
    if source.metadata:
        lines.append(f"columns of the record: {', '.join(map(_metadata, source.metadata.values()))}")
    lines.append(f"bad records: {_errors(source, settings)}")
    if source.records is None:
        return [f"Source{name}: {source.type}, a stream of Kafka records that `start` gets", *_indented(lines)]
    kv = source.records.kv
    if values["scan.check.duplicated.group.id"] and GROUP in kv.options:
        lines.append("the consumer group must have no member when the query starts")
    plan = spark_source.planned(kv, streaming=True, ask=False)
    lines += [f"{key} = {masked(key, text)!r}" for key, text in sorted(plan.options.items())]
    topics = values["topic"]
    subscribed = f"topics that match {values['topic-pattern']}" if topics is None else f"topics {_listed(topics)}"
    return [f"Source{name}: kafka, {subscribed}", *_indented(lines)]


def _start(source: PipelineSource) -> str:
    without_group = source.values["scan.startup.mode"] == "group-offsets" and GROUP not in source.options
    if without_group or source.records is None:
        return "the committed offsets of a group"
    return start_in_words(source.records.kv)


def _in_words(format: Format) -> str:
    """Return the format and the options that are set, with secrets masked."""
    options = repr(format).removeprefix(type(format).__name__)[1:-1]
    return f"{format.identifier} {options}".rstrip()


def _listed(names: Sequence[str] | str) -> str:
    """Return names with commas; a text is a mask."""
    return names if isinstance(names, str) else ", ".join(names)


def _metadata(column: TableColumn) -> str:
    """Return a column of the record, with its metadata if that has another name."""
    return f"{column.name} {column.type}{f' from {column.key}' if column.key != column.name else ''}"


def _declared(source: PipelineSource) -> list[str]:
    """Return the columns that the user declares."""
    declared, values = source.declared, source.values
    parts = {
        "value": [(values["value.fields-prefix"] or "", *column) for column in declared.value.items()],
        "key": [(values["key.fields-prefix"] or "", *column) for column in declared.key.items()],
    }
    lines = [
        f"columns of the {part}: {', '.join(f'{prefix}{name} {t}' for prefix, name, t in columns)}"
        for part, columns in parts.items()
        if columns
    ]
    if declared.key_members is not None:
        others = sorted(declared.key_members - declared.key.keys())
        if others:
            prefix = values["key.fields-prefix"] or ""
            lines.append(f"columns of the key, types by its values: {', '.join(prefix + name for name in others)}")
        lines.append("other members of the key: no columns")
    return lines


def _table_ids(source: PipelineSource) -> str:
    if source.table_id:
        return f"named by the members {', '.join(source.table_id)} of the message"
    identifier = source.value_format.identifier if source.value_format is not None else ""
    return f"named by {_TABLE_IDS.get(identifier, 'the topic')}"


def _schemas(source: PipelineSource, settings: PipelineSettings) -> list[str]:
    values = source.values
    count = values["scan.max.pre.fetch.records"]
    first = ["the given schemas"] if source.schemas else []
    first += [f"the newest {count} messages of each partition"] if count and source.records is not None else []
    lines = [f"first schemas: {', then '.join([*first, 'the first batch of the table'])}"]
    lines += [f"first schema of {name}: {table.physical()}" for name, table in source.schemas.items()]
    lines += _declared(source)
    fixed = {name: t for name, t in source.fixed_types.items() if name not in source.declared.fixed}
    if fixed:
        lines.append(f"fixed types: {', '.join(f'{name} {type_}' for name, type_ in fixed.items())}")
    strategy = values.get("canal-json.infer-schema.strategy")
    if strategy is not None:
        lines.append(f"types: by {_TYPES[strategy]}")
    if any(value is True and key.endswith("primitive-as-string") for key, value in values.items()):
        lines.append("types: booleans and numbers are STRING")
    if values.get("json.infer-schema.flatten-nested-columns.enable"):
        lines.append("members of objects are columns")
    if values["schema.inference.strategy"] == "static":
        lines.append("changes of schemas: none; new columns are left out, values of other types are bad records")
    else:
        lines.append("changes of schemas: found by comparing each batch with the known columns")
    return lines


def _errors(source: PipelineSource, settings: PipelineSettings) -> str:
    if not source.values["ingestion.ignore-errors"]:
        return "the first one fails the query"
    most = source.values["ingestion.error-tolerance.max-count"]
    limit = "without a limit" if most < 0 else f"at most {most} since the checkpoint began"
    collector, location = (settings.values[f"dirty-data.collector.{key}"] for key in ("type", "location"))
    if collector is None:
        return f"dropped, {limit}"
    to = "logged as warnings" if collector == "logger" else f"written to the {collector} '{location}'"
    return f"dropped, {limit}; {to}"


# --- transforms, routes, sink ----------------------------------------------------------------------------------


def _transform(number: int, rule: TransformRule) -> list[str]:
    lines = [] if rule.columns is None else [f"columns: {', '.join(map(str, rule.columns))}"]
    lines += [f"where: {rule.filter}"] if rule.filter else []
    lines += [f"primary key: {', '.join(rule.primary_keys)}"] if rule.primary_keys else []
    lines += [f"partitions: {', '.join(rule.partition_keys)}"] if rule.partition_keys else []
    lines += [f"property {key} = {masked(key, value)!r}" for key, value in rule.table_options.items()]
    lines += ["a deleted row is written as a row with its old values"] if rule.soft_delete else []
    return [f"Transform {number}: tables {rule.source_table}", *_indented(lines)]


def _routes(routes: Sequence[Route], settings: PipelineSettings) -> list[str]:
    if not routes:
        return []
    which = "the first that matches" if settings.values["route-mode"] == "FIRST_MATCH" else "all that match"
    lines = [f"{route.source} -> {_target(route)}" for route in routes]
    return [f"Routes, {which}; other tables keep their names:", *_indented(lines)]


def _target(route: Route) -> str:
    return f"{route.sink}{f', {route.symbol} is the name of the table' if route.symbol else ''}"


def _sink(sink: PipelineSink, settings: PipelineSettings, changes: frozenset[str]) -> list[str]:
    if sink.target is not None:
        return [f"Sink: {sink.target!r}", *_indented(_changes(changes, settings))]
    if not sink.values:
        return [f"Sink: {sink.type} (refused)"]
    name = f" '{sink.values.shown['name']}'" if sink.values["name"] else ""
    lines = target_class(sink.type).describe(sink)
    if sink.type not in TOPICS:
        lines += _changes(changes, settings)
    return [f"Sink{name}: {sink.type}", *_indented(lines)]


def _changes(changes: frozenset[str], settings: PipelineSettings) -> list[str]:
    behavior = settings.values["schema.change.behavior"]
    without = sorted({*TAGS} - changes)
    left_out = [f"left out: {', '.join(without)}"] if without else []
    return [f"changes of schemas ({behavior}): {_BEHAVIOURS[behavior]}", *left_out]


def _settings(settings: PipelineSettings) -> list[str]:
    values = settings.values
    lines = [f"{key}: {values[key]}" for key in ("parallelism", "local-time-zone", "checkpoint") if values[key]]
    trigger: Mapping[str, Any] = settings.trigger
    lines += [f"batches: every {trigger['processingTime']}"] if "processingTime" in trigger else []
    lines += ["batches: what is there, then the query stops"] if "availableNow" in trigger else []
    lines += [f"function {name}: {place}" for name, place in settings.functions.items()]
    return ["Query:", *_indented(lines)] if lines else []
