"""Describe a table, and Spark's options to read and write it. No broker is asked and no secret is shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kvformat.connectors import offsets, sink, source, source_choice, table_rows
from kvformat.connectors.broker_offsets import GROUP
from kvformat.connectors.option_effects import READING, WRITING, Effect
from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.sql.connector_options import masked
from kvformat.registry.sql.table_definition import TableColumn

_BEGINS = {
    "earliest-offset": "the earliest record of each partition",
    "latest-offset": "the first record after the start of the query",
    "group-offsets": "the committed offsets of the group '{group}', for which the brokers are asked; {reset}",
    "timestamp": "the first record of each partition not older than {scan.startup.timestamp-millis} (milliseconds)",
    "specific-offsets": "{scan.startup.specific-offsets}; other partitions at the committed offset, or the earliest",
}
_ENDS = {
    "unbounded": "the last record",
    "latest-offset": "the last record",
    "group-offsets": "the committed offsets of the group '{group}', for which the brokers are asked",
    "timestamp": "the first record of each partition not older than {scan.bounded.timestamp-millis} (milliseconds)",
    "specific-offsets": "{scan.bounded.specific-offsets}; other partitions at the committed offset, or not read",
}
_WHAT = ("batch", "stream")
_OF_STREAMS = "a checkpoint with offsets has priority; Spark looks for new partitions before each micro-batch"
_RESETS = {
    "none": "a partition without one is an error",
    "earliest": "a partition without one starts at the earliest record",
    "latest": "a partition without one starts at the end",
}


def explain(kv: KeyValueFormat) -> str:
    """Return the text, with a line for each column and for each of Spark's options."""
    told = explained(kv)
    parts = [_table(told), *(_read(told["reading"][what], what) for what in _WHAT), _written(told["writing"])]
    return "\n".join(line for part in parts for line in part)


def explained(kv: KeyValueFormat) -> dict[str, Any]:
    """Return the description as data for JSON: table, columns, key and value, options for reading and writing."""
    table_options = kv.options
    key, value, mark = kv.key_schema, kv.value_schema, kv.watermark
    return {
        "table": kv.name,
        "connector": table_options["connector"],
        "columns": list(map(_column, kv.columns)),
        "primary_key": list(kv.primary_key),
        "watermark": None if mark is None else {"column": mark.column, "delay_ms": mark.delay_ms},
        "key": None if key is None else {"format": table_options["key.format"], "columns": list(key.names)},
        "value": {"format": table_options.get("format") or table_options["value.format"], "columns": list(value.names)},
        "changelog_mode": kv.changelog_mode.name,
        "reading": {what: _reading(kv, streaming=what == "stream") for what in _WHAT},
        "writing": _writing(kv),
    }


def _column(column: TableColumn) -> dict[str, Any]:
    members: dict[str, Any] = {"name": column.name, "kind": column.kind}
    if column.kind == "computed":
        refused = {"refused": str(column.refused)} if column.refused else {}
        declared = {"type": str(column.type)} if column.type else {}
        return members | declared | {"expression": str(column.source)} | refused
    if column.type:
        members["type"] = str(column.type)
    return members | ({"metadata": column.key, "virtual": column.virtual} if column.kind == "metadata" else {})


def _reading(kv: KeyValueFormat, *, streaming: bool) -> dict[str, Any]:
    try:
        headers = table_rows.needs_headers(kv, None, "raise")
        plan = source.planned(kv, streaming=streaming, headers=headers, ask=False)
    except ConfigurationError as error:
        return {"refused": str(error)}
    choice = source_choice.choose(kv, "auto", streaming=streaming)
    by = source_choice.in_words(choice)
    if not streaming and choice.source == "python":
        by += "; the end is that of a DataFrame's first action"
    members = {"gives": _gives(kv, streaming), "by": by, "from": start_in_words(kv)}
    return {
        **members,
        **({} if streaming else {"to": _words(kv, _ENDS, "bounded")}),
        "steps": _steps(kv, _SOURCE_STEPS, READING),
        "options": _shown(plan.options),
        "notes": list(plan.notes.values()),
    }


def _writing(kv: KeyValueFormat) -> dict[str, Any]:
    try:
        once = sink.is_exactly_once(kv)
        options = sink.transactions(kv).shown() if once else _shown(sink.options(kv))
    except ConfigurationError as error:
        return {"refused": str(error)}
    notes = list(sink.differences(kv))
    return {
        "guarantee": "exactly-once" if once else "at-least-once",
        "steps": _steps(kv, _SINK_STEPS, WRITING),
        "options": options,
        "notes": notes,
    }


def _gives(kv: KeyValueFormat, streaming: bool) -> str:
    if kv.changelog_mode is ChangelogMode.INSERT_ONLY:
        return "rows"
    if streaming or not kv.primary_key:
        return "changes, with row_kind"
    return "the current row of each key, or with changelog=True the changes"


def start_in_words(kv: KeyValueFormat) -> str:
    """Return where reading starts, without a checkpoint."""
    return _words(kv, _BEGINS, "startup")


def _words(kv: KeyValueFormat, of: Mapping[str, str], side: str) -> str:
    values = {key: value for key, value in kv.connector_options("decode").items() if value is not None}
    group, reset = kv.options.get(GROUP, ""), kv.options.get(offsets.RESET, "none").lower()
    text = of[offsets.mode(kv, side)].replace("{group}", group).replace("{reset}", _RESETS.get(reset, reset))
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", str(value))
    return text


_SOURCE_STEPS = ("scan.header-filter", "scan.parallelism")
_SINK_STEPS = ("sink.parallelism", "sink.buffer-flush.max-rows", "sink.partitioner")


def _steps(kv: KeyValueFormat, steps: Iterable[str], effects: Mapping[str, Effect]) -> dict[str, dict[str, str]]:
    """Return options that become a step after Spark's source or before its sink, not an option of Spark."""
    return {key: {"value": kv.options[key], "why": effects[key].why} for key in steps if key in kv.options}


def _shown(options: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's options by name, with secrets masked."""
    return {name: masked(name, options[name]) for name in sorted(options)}


# --- in words ------------------------------------------------------------------------------------------------


def _table(told: Mapping[str, Any]) -> list[str]:
    key, value, mark = told["key"], told["value"], told["watermark"]
    lines = [f"Table '{told['table']}', connector {told['connector']}", *_indented(map(_declared, told["columns"]))]
    if told["primary_key"]:
        lines.append(f"  PRIMARY KEY {', '.join(told['primary_key'])}")
    if mark:
        lines.append(f"  WATERMARK {mark['column']}, {mark['delay_ms']} ms late at most; in streams")
    if key is not None:
        lines.append(f"Key: {key['format']}: {_names(key['columns'])}")
    lines.append(f"Value: {value['format']}: {_names(value['columns'])}; {told['changelog_mode']}")
    return lines


def _declared(column: Mapping[str, Any]) -> str:
    if column["kind"] == "computed":
        refused = f" (refused by decode: {column['refused']})" if "refused" in column else ""
        typed = f", {column['type']}" if "type" in column else ""
        return f"{column['name']} AS {column['expression']}{typed}{refused}"
    kind = f" {column['type']}" if "type" in column else ""
    virtual = " VIRTUAL" if column.get("virtual") else ""
    return f"{column['name']}{kind}" + (
        f" METADATA FROM '{column['metadata']}'{virtual}" if "metadata" in column else ""
    )


def _read(plan: Mapping[str, Any], what: str) -> list[str]:
    if "refused" in plan:
        return [f"Reading a {what} is refused: {plan['refused']}"]
    later = f"to {plan['to']}" if "to" in plan else _OF_STREAMS
    first = [f"Reading a {what}: {plan['gives']}", f"  from {plan['from']}", f"  {later}", f"  by {plan['by']}"]
    return [*first, *_details(plan)]


def _written(plan: Mapping[str, Any]) -> list[str]:
    if "refused" in plan:
        return [f"Writing is refused: {plan['refused']}"]
    return [f"Writing, {plan['guarantee'].replace('-', ' ')}:", *_details(plan)]


def _details(plan: Mapping[str, Any]) -> list[str]:
    steps = (f"{key} = {step['value']}: {step['why']}" for key, step in plan["steps"].items())
    options = (f"{name} = {text!r}" for name, text in plan["options"].items())
    return _indented([*steps, *options, *plan["notes"]])


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "(no columns)"
