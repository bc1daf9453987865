"""What a table is, and what Spark is asked for to read and write it, in words: no broker is asked, no secret shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kvformat.connectors import offsets, reading, sink, source
from kvformat.connectors.effects import READING, WRITING, Effect
from kvformat.registry.changelog import ChangelogMode
from kvformat.registry.connector_options import masked
from kvformat.registry.create_table import TableColumn
from kvformat.registry.errors import ConfigurationError
from kvformat.registry.key_value import KeyValueFormat

_BEGINS = {
    "earliest-offset": "the earliest record of each partition",
    "latest-offset": "what arrives after the query has begun",
    "group-offsets": "what the group '{group}' has committed, which the brokers are asked for; {reset}",
    "timestamp": "the first record of each partition as new as {scan.startup.timestamp-millis} (milliseconds)",
    "specific-offsets": "{scan.startup.specific-offsets}, the other partitions where the group is, else the earliest",
}
_ENDS = {
    "unbounded": "the last record there is",
    "latest-offset": "the last record there is",
    "group-offsets": "what the group '{group}' has committed, which the brokers are asked for",
    "timestamp": "the first record of each partition as new as {scan.bounded.timestamp-millis} (milliseconds)",
    "specific-offsets": "{scan.bounded.specific-offsets}, the other partitions where the group is, else not read",
}
_RESETS = {
    "none": "a partition for which it has none is an error",
    "earliest": "a partition for which it has none begins at the earliest",
    "latest": "a partition for which it has none begins at the end",
}


def explain(kv: KeyValueFormat) -> str:
    """The text, a line for each column and for each of Spark's options."""
    return "\n".join([*_table(kv), *_reading(kv), *_writing(kv)])


def _table(kv: KeyValueFormat) -> list[str]:
    given = kv.options
    key, value = kv.key_schema, kv.value_schema
    lines = [f"Table '{kv.name}', connector {given['connector']}", *_indented(map(_column, kv.columns))]
    if kv.primary_key:
        lines.append(f"  PRIMARY KEY {', '.join(kv.primary_key)}")
    if kv.watermark:
        lines.append(f"  WATERMARK {kv.watermark.column}, {kv.watermark.delay_ms} ms late at most; in streams")
    if key is not None:
        lines.append(f"Key: {given['key.format']}: {_names(key.names)}")
    value_format = given.get("format") or given["value.format"]
    lines.append(f"Value: {value_format}: {_names(value.names)}; {kv.changelog_mode.name}")
    return lines


def _column(column: TableColumn) -> str:
    if column.kind == "computed":
        refused = f" (refused by decode: {column.refused})" if column.refused else ""
        return f"{column.name} AS {column.source}{refused}"
    of = f" METADATA FROM '{column.key}'{' VIRTUAL' if column.virtual else ''}" if column.kind == "metadata" else ""
    return f"{column.name}{f' {column.type}' if column.type else ''}{of}"


def _reading(kv: KeyValueFormat) -> list[str]:
    lines = []
    for streaming in (False, True):
        what = "a stream" if streaming else "a batch"
        try:
            headers = reading.needs_headers(kv, None, "raise")
            plan = source.planned(kv, streaming=streaming, headers=headers, ask=False)
        except ConfigurationError as error:
            lines.append(f"Reading {what} is refused: {error}")
            continue
        lines += [f"Reading {what}: {_gives(kv, streaming)}", f"  from {_words(kv, _BEGINS, 'startup')}"]
        if not streaming:
            lines.append(f"  to {_words(kv, _ENDS, 'bounded')}")
        else:
            lines.append(
                "  a checkpoint with offsets counts before that; new partitions are looked for in each micro-batch"
            )
        lines += _indented([*_steps(kv, _SOURCE_STEPS, READING), *_shown(plan.options), *plan.notes.values()])
    return lines


def _gives(kv: KeyValueFormat, streaming: bool) -> str:
    if kv.changelog_mode is ChangelogMode.INSERT_ONLY:
        return "rows"
    if streaming or not kv.primary_key:
        return "changes, with row_kind"
    return "the current row of each key, or with changelog=True the changes"


def _words(kv: KeyValueFormat, of: Mapping[str, str], side: str) -> str:
    values = {key: value for key, value in kv.connector_options("decode").items() if value is not None}
    group, reset = kv.options.get(offsets.GROUP, ""), kv.options.get(offsets.RESET, "none").lower()
    text = of[offsets.mode(kv, side)].replace("{group}", group).replace("{reset}", _RESETS.get(reset, reset))
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", str(value))
    return text


_SOURCE_STEPS = ("scan.header-filter", "scan.parallelism")
_SINK_STEPS = ("sink.parallelism", "sink.buffer-flush.max-rows", "sink.partitioner")


def _steps(kv: KeyValueFormat, steps: Iterable[str], effects: Mapping[str, Effect]) -> list[str]:
    """Options that become a step behind Spark's source or before its sink, and not an option of it."""
    return [f"{key} = {kv.options[key]}: {effects[key].why}" for key in steps if key in kv.options]


def _writing(kv: KeyValueFormat) -> list[str]:
    try:
        options = sink.options(kv)
    except ConfigurationError as error:
        return [f"Writing is refused: {error}"]
    steps = _steps(kv, _SINK_STEPS, WRITING)
    return ["Writing, at least once:", *_indented([*steps, *_shown(options), *sink.otherwise(kv)])]


def _shown(options: Mapping[str, str]) -> list[str]:
    """Spark's options by name, without their secrets."""
    return [f"{name} = {masked(name, options[name])!r}" for name in sorted(options)]


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "(no columns)"
