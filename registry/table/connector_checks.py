"""Checks of a table's connector options, with the messages of Flink's factories.

Each function checks one rule and raises `OptionError`; `registry/table/table_plan.py` calls them in Flink's order.
Rules: `KafkaConnectorOptionsUtil`, `KafkaDynamicTableFactory`, `UpsertKafkaDynamicTableFactory`, `FactoryUtil`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from kvformat.registry.contract.errors import ConfigurationError, OptionError, did_you_mean
from kvformat.registry.sql.connector_options import UPSERT_KAFKA, delivery_guarantee, is_client_property, parse_offsets

_RESET = "properties.auto.offset.reset"
_NAME_PATTERN = re.compile(r"[A-Z]?[a-z]+(?:[._-][a-z]+)*")
_SIMILARITY = 0.85  # from 0 to 1, of a name and its misspelling
_MOST_UNKNOWN = 20  # options that an error lists
# Options of `kafka` that `upsert-kafka` does not have, with what to do instead.
_NOT_OF_UPSERT = {
    "format": "set the value's format with 'value.format'",
    "key.fields": "the key is the table's PRIMARY KEY, remove the option",
    "scan.startup.": "an upsert table is always read from the earliest offset, remove the option",
    "sink.partitioner": "Kafka's own partitioner is used, which keeps the records of a key together",
    "sink.semantic": "use 'sink.delivery-guarantee'",
}
_ALIGNMENT = (
    "scan.watermark.alignment.group",
    "scan.watermark.alignment.max-drift",
    "scan.watermark.alignment.update-interval",
)


def check_topic(values: Mapping[str, Any], *, required: bool) -> None:
    """Check that at most one of `topic` and `topic-pattern` is set; with `required` exactly one."""
    if values["topic"] is not None and values["topic-pattern"] is not None:
        raise OptionError("Option 'topic' and 'topic-pattern' shouldn't be set together.", option="topic-pattern")
    if required and values["topic"] is None and values["topic-pattern"] is None:
        raise OptionError("Either 'topic' or 'topic-pattern' must be set.", option="topic")


def check_offsets(values: Mapping[str, Any], side: str) -> None:
    """Check the offsets or the time that a scan mode needs; `side` is 'startup' or 'bounded'."""
    mode = values[f"scan.{side}.mode"]
    needed_option = {"timestamp": "timestamp-millis", "specific-offsets": "specific-offsets"}.get(mode)
    if needed_option is None:
        return
    key = f"scan.{side}.{needed_option}"
    if values[key] is None:
        raise OptionError(f"'{key}' is required in '{mode}' {side} mode but missing.", option=key)
    if mode == "specific-offsets":
        if len(values["topic"] or ()) != 1:
            raise OptionError("Currently Kafka source only supports specific offset for single topic.", option="topic")
        parse_offsets(key, values[key])


def check_group(values: Mapping[str, Any], options: Mapping[str, str]) -> None:
    """Check that a scan from committed offsets has a consumer group and a valid `auto.offset.reset`."""
    for side in ("startup", "bounded"):
        if values.get(f"scan.{side}.mode") == "group-offsets" and "properties.group.id" not in options:
            raise OptionError(
                f"Property group.id is required when using committed offset for offsets initializer: with "
                f"'scan.{side}.mode' = 'group-offsets'{' (the default)' if f'scan.{side}.mode' not in options else ''} "
                "set 'properties.group.id', or set another mode",
                option="properties.group.id",
            )
    reset = options.get(_RESET, "none")
    if values.get("scan.startup.mode") == "group-offsets" and reset.lower() not in ("latest", "earliest", "none"):
        raise OptionError(
            f"auto.offset.reset can not be set to {reset}. Valid values: [latest,earliest,none] ('{_RESET}')",
            option=_RESET,
        )


def check_parallelism(key: str, values: Mapping[str, Any]) -> None:
    """Check that the number of tasks is at least 1."""
    if values[key] is not None and values[key] < 1:
        raise OptionError(f"Invalid configured parallelism {values[key]}: '{key}' must be at least 1", option=key)


def check_alignment(connector: str, values: Mapping[str, Any]) -> None:
    """Check that watermark alignment has both a group and a maximum drift, or nothing at all."""
    needed = _ALIGNMENT[:2]
    missing = [key for key in needed if values[key] is None]
    if missing and any(values[key] is not None for key in _ALIGNMENT):
        raise OptionError(
            f"Error configuring watermark for '{connector}', '{needed[0]}' and '{needed[1]}' must be set when "
            "configuring watermark alignment",
            option=missing[0],
        )


def check_partitioner(values: Mapping[str, Any]) -> None:
    """Check the name of the partitioner; Flink's Java classes cannot run here."""
    name = values["sink.partitioner"]
    if name == "":
        raise OptionError("Option 'sink.partitioner' should be a non-empty string.", option="sink.partitioner")
    if name == "round-robin" and values["key.fields"] is not None:
        raise OptionError(
            "Currently 'round-robin' partitioner only works when option 'key.fields' is not specified. "
            "(option 'sink.partitioner')",
            option="sink.partitioner",
        )
    if name not in ("default", "fixed", "round-robin"):
        raise OptionError(
            f"Could not find and instantiate partitioner class '{name}': 'sink.partitioner' may be 'default', 'fixed' "
            "or 'round-robin', because Java classes for Flink cannot run here",
            option="sink.partitioner",
        )


def check_guarantee(values: Mapping[str, Any]) -> None:
    """Check that exactly-once has a prefix for the names of transactions."""
    key, guarantee = delivery_guarantee(values)
    if guarantee == "exactly-once" and values["sink.transactional-id-prefix"] is None:
        raise OptionError(
            "sink.transactional-id-prefix must be specified when using DeliveryGuarantee.EXACTLY_ONCE. "
            f"('{key}' = '{values[key]}')",
            option="sink.transactional-id-prefix",
        )


def check_flush(values: Mapping[str, Any]) -> None:
    """Check that both limits of the sink's buffer are set, or none."""
    interval = values["sink.buffer-flush.interval"]
    rows = values["sink.buffer-flush.max-rows"] > 0
    if rows != (interval is not None and interval.total_seconds() > 0):
        raise OptionError(
            "'sink.buffer-flush.max-rows' and 'sink.buffer-flush.interval' must be set to be greater than zero "
            "together to enable sink buffer flushing.",
            option="sink.buffer-flush.interval" if rows else "sink.buffer-flush.max-rows",
        )


def check_tolerance(values: Mapping[str, Any]) -> None:
    """Check that the number of tolerated errors is at least -1."""
    if values["ingestion.error-tolerance.max-count"] < -1:
        raise OptionError(
            "'ingestion.error-tolerance.max-count' must be a number of records, or -1 for no limit",
            option="ingestion.error-tolerance.max-count",
        )


def check_unknown(connector: str, options: Mapping[str, str], known: set[str]) -> None:
    """Check that the connector or a format knows every option; the message is Flink's."""
    unknown = sorted(key for key in options if key not in known and not is_client_property(key))
    if unknown:
        supported = sorted(known)
        names = [_shown_name(key, supported) for key in unknown[:_MOST_UNKNOWN]]
        hint = "".join(_hint(connector, key, supported) for key in names)
        if len(unknown) > len(names):
            names.append(f"... and {len(unknown) - len(names)} more")
        lines = "\n".join(names), "\n".join(supported)
        raise OptionError(
            f"Unsupported options found for '{connector}'.\n\nUnsupported options:\n\n{lines[0]}\n\n"
            f"{hint.strip()}{chr(10) * 2 if hint else ''}Supported options:\n\n{lines[1]}",
            option=names[0],
        )


def _shown_name(key: str, known: Iterable[str]) -> str:
    """Return the name of an unknown option, unless it may be a value that a missing quote made a name."""
    near = difflib.get_close_matches(key.lower(), known, n=1, cutoff=_SIMILARITY)
    return (
        key
        if near or _NAME_PATTERN.fullmatch(key)
        else "(hidden, as it does not look like an option; is a quote missing?)"
    )


def _hint(connector: str, key: str, supported: list[str]) -> str:
    """Return advice for an unsupported option, "" if there is none."""
    if connector == UPSERT_KAFKA:
        for begin, why in _NOT_OF_UPSERT.items():
            if key == begin or (begin.endswith(".") and key.startswith(begin)):
                return f" '{connector}' does not have the option '{key}': {why}."
    return did_you_mean(key, supported)


def check_case(options: Mapping[str, str]) -> None:
    """Check that no two options differ in letter case only: Flink ignores the case."""
    seen: dict[str, str] = {}
    for key in options:
        if key.lower() in seen:
            raise ConfigurationError(
                f"Property already present: {key.lower()} (as '{seen[key.lower()]}' and '{key}')", option=key
            )
        seen[key.lower()] = key
