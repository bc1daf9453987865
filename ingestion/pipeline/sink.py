"""The sink of a pipeline: topics or tables, their options, and which changes of schemas they take.

    parse_sink(block)      the checked sink

What Flink CDC can do and Spark can't is a refusal, as in `source`. Rules: Ververica's pages "Kafka connector" and
"Upsert Kafka connector", Flink CDC's `KafkaDataSinkFactory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kvformat.connectors.producer_settings import without_effect
from kvformat.connectors.properties import misspelt, unreadable_key
from kvformat.ingestion.pipeline.options import (
    OF_TABLES,
    SINK_FORMAT_OPTIONS,
    SINK_NAME,
    Refusal,
    option_values,
    other_type,
    parse_values,
    plain_text,
    texts,
    unknown_option,
    writing_options,
)
from kvformat.ingestion.pipeline.routes import Selector
from kvformat.ingestion.pipeline.yaml import MASK, Secret, shown_key
from kvformat.ingestion.targets.discovery import BUILT_IN, GROUP, is_plugged, sink_options
from kvformat.registry.contract.discovery import is_available
from kvformat.registry.contract.errors import ConfigurationError, OptionError
from kvformat.registry.contract.options import Option, OptionValues
from kvformat.registry.sql.connector_options import is_client_property
from kvformat.registry.table.connector_checks import check_case
from kvformat.registry.table.producer import producer_risks

if TYPE_CHECKING:
    from kvformat.ingestion.targets.target import Target

TOPICS = ("kafka", "upsert-kafka")
"""The types of sinks that write records of topics."""
OTHER_SINKS = (
    *("clickhouse", "doris", "elasticsearch", "fluss", "hologres", "hudi", "maxcompute", "mysql", "oceanbase"),
    *("paimon", "postgres", "starrocks"),
)
"""Types of sinks that Flink has and Spark has not."""
_INCLUDE, _EXCLUDE = "include.schema.changes", "exclude.schema.changes"
_MAPPING, _HEADERS, _GUARANTEE = "sink.tableId-to-topic.mapping", "sink.custom-header", "sink.delivery-guarantee"
_PREFIX = "sink.transactional-id-prefix"
_ALIYUN = "aliyun."
_PROTOBUF = "canal-protobuf"
_SINK_FORMATS = ("json", "csv", *SINK_FORMAT_OPTIONS)
"""The formats of keys and values of the sink `kafka`."""
_BOOTSTRAP = "properties.bootstrap.servers"


@dataclass(frozen=True)
class PipelineSink:
    """A checked sink.

    options: the options as given. `repr` shows the type only, because any value may be a secret.
    values: the parsed options by their names, with defaults; those of the formats with the format's name in front.
    include, exclude: names of changes of schemas; `exclude` is None if it is not given.
    topics: selectors of tables, each group with the topic of the tables; the first that matches counts.
    headers: headers of each record.
    refused: reasons why the sink can't be written here; `notes` are on options without effect.
    target: a target that was made in Python. It has no options here.
    """

    type: str
    options: OptionValues = field(repr=False)
    values: OptionValues = field(repr=False)
    include: tuple[str, ...] = field(default=(), repr=False)
    exclude: tuple[str, ...] | None = field(default=None, repr=False)
    topics: tuple[tuple[tuple[str, ...], str], ...] = field(default=(), repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    refused: tuple[Refusal, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)
    target: Target | None = field(default=None, repr=False)


def parse_sink(block: Mapping[str, Any] | Target) -> PipelineSink:
    """Check the block `sink`, or take a target. Raises `ConfigurationError`, never with a secret."""
    if not isinstance(block, Mapping):
        return PipelineSink(type(block).__name__, OptionValues({}, {}), OptionValues({}, {}), target=block)
    options = texts("sink", block, (_INCLUDE, _EXCLUDE))
    options = {key: Secret(plain_text(text)) if _is_credential(key) else text for key, text in options.items()}
    include, exclude = (_schema_changes(key, block[key]) if key in block else None for key in (_INCLUDE, _EXCLUDE))
    if "type" not in options:
        raise OptionError(f"sink: the option 'type' is missing. Types: {', '.join(BUILT_IN)}", option="type")
    type_ = options["type"].lower()
    plugged = type_ not in BUILT_IN and is_plugged(type_)
    if type_ not in BUILT_IN and not plugged:
        other = other_type("sink", options["type"], BUILT_IN, OTHER_SINKS)
        strategy = "'sink.type-normalize-strategy' is known there. "
        why = (
            f"sink '{other}' is not supported: use 'delta' or 'iceberg'. "
            f"{strategy if 'sink.type-normalize-strategy' in options else ''}"
            f"Other targets can be added with an entry point of the group '{GROUP}'"
        )
        refusal = Refusal(why, "type")
        return PipelineSink(
            other, option_values(options), OptionValues({}, {}), include or (), exclude, refused=(refusal,)
        )
    check_case(options)
    refused: list[Refusal] = []
    notes: list[str] = []
    if plugged:
        specs = sink_options(type_)
        values = parse_values("sink", specs, options)
        secrets = {spec.name for spec in specs if spec.sensitive}
        shown = {key: MASK if key in secrets else text for key, text in option_values(options).shown.items()}
        parsed = option_values(options, values).shown
        return PipelineSink(
            type_,
            OptionValues(option_values(options), shown),
            OptionValues(values, {key: MASK if key in secrets else value for key, value in parsed.items()}),
            include or (),
            exclude,
        )
    values = _parsed(type_, options, refused, notes)
    return PipelineSink(
        type_,
        option_values(options),
        option_values(options, values),
        include or (),
        exclude,
        _topics(options.get(_MAPPING, "")),
        _headers(options.get(_HEADERS, "")),
        tuple(refused),
        tuple(notes),
    )


def _is_credential(key: str) -> bool:
    return key.partition(".")[0] == "storage-options"


def _schema_changes(key: str, value: Any) -> tuple[str, ...]:
    """Return the names of changes; `Pipeline` checks them."""
    if not isinstance(value, list | tuple):
        raise ConfigurationError(
            f"sink: '{key}' must be a list: put '- ' before each entry, or write [create.table, add.column]"
        )
    if not all(isinstance(entry, str) and not isinstance(entry, Secret) for entry in value):
        raise OptionError(f"sink: '{key}' must be a list of texts", option=key)
    return tuple(entry.lower() for entry in value)


def _parsed(type_: str, options: Mapping[str, str], refused: list[Refusal], notes: list[str]) -> dict[str, Any]:
    """Parse all options of a known type."""
    specs = sink_options(type_)
    used_options = {key: text for key, text in options.items() if not (type_ in TOPICS and key.startswith(_ALIYUN))}
    if len(used_options) < len(options):
        without = sorted(key for key in options if key not in used_options)
        notes.append(f"sink: no effect: {', '.join(without)}; use 'properties.sasl.*'")
    if used_options.get("value.format", "").lower() == _PROTOBUF and type_ == "kafka":
        why = f"sink: 'value.format' = '{_PROTOBUF}' is not supported; use 'debezium-json' or 'canal-json'"
        refused.append(Refusal(why, "value.format"))
        used_options = {
            key: text for key, text in used_options.items() if not key.startswith(_PROTOBUF) and key != "value.format"
        }
    formats = _format_keys(type_, used_options, notes)
    plain = {key: text for key, text in used_options.items() if key not in formats}
    if type_ in TOPICS:
        plain = {key: text for key, text in plain.items() if key == _BOOTSTRAP or not is_client_property(key)}
    values = parse_values("sink", specs, plain)
    if type_ == "delta":
        _check_path(options, notes)
        if values["upkeep.commits"] < 0:
            raise OptionError("sink: 'upkeep.commits' must be at least 0, which is never", option="upkeep.commits")
    if type_ in TOPICS:
        properties = {key: plain_text(text) for key, text in used_options.items()}
        notes += [f"sink: {note}" for note in (misspelt(properties) | unreadable_key(properties)).values()]
        if values[_GUARANTEE] == "exactly-once":
            notes += [f"sink: {note}" for note in without_effect(properties).values()]
            if not values[_PREFIX]:
                raise OptionError(f"sink: '{_PREFIX}' must not be empty with 'exactly-once'", option=_PREFIX)
        else:
            notes += [f"sink: {risk}" for risk in producer_risks(properties)]
            if _PREFIX in options:
                notes.append(f"sink: no effect: '{_PREFIX}'; only 'exactly-once' has transactions")
        if values[_GUARANTEE] == "none":
            notes.append(f"sink: no effect: '{_GUARANTEE}' = 'none' is 'at-least-once'")
    if type_ == "kafka":
        values["topic"] = values["topic"] or None
        if values["topic"] and _MAPPING in options:
            notes.append(f"sink: no effect: '{_MAPPING}', because 'topic' is set")
        values |= _format_values("value", values["value.format"], used_options, notes)
        values |= _format_values("key", values["key.format"], used_options, notes)
    return values


def _check_path(options: Mapping[str, str], notes: list[str]) -> None:
    """Raise `OptionError` for a path and a catalog, and note options that only tables at a path have."""
    if "path" not in options:
        names = {spec.name for spec in sink_options("delta") if spec not in (*SINK_NAME, *OF_TABLES)}
        without = [key for key in options if key in names or _is_credential(key)]
        notes += [f"sink: no effect: '{key}', because there is no 'path'" for key in without]
        return
    for key in ("catalog", "namespace"):
        if key in options:
            raise OptionError(
                f"sink: '{key}' and 'path' exclude each other: a sink 'delta' writes tables of a catalog of Spark, or "
                "tables below a path",
                option=key,
            )
    if not options["path"]:
        raise OptionError("sink: 'path' must not be empty", option="path")


# --- options of formats ----------------------------------------------------------------------------------------


def _format_keys(type_: str, options: Mapping[str, str], notes: list[str]) -> set[str]:
    """Return the keys that belong to formats of the sink. Raises `OptionError` for those of other formats.

    Options of a format that is not in use have no effect, as in Flink CDC.
    """
    if type_ != "kafka":
        return set()
    specs = {spec.name: spec for spec in sink_options("kafka")}
    used = {
        str(parse_values("sink", [specs[name]], {name: options[name]} if name in options else {})[name])
        for name in ("key.format", "value.format")
    }
    keys = set()
    for key in options:
        name, dot, _ = key.partition(".")
        if dot and name in (*used, *_SINK_FORMATS):
            keys.add(key)
            if name not in used:
                notes.append(f"sink: no effect: '{key}', because the formats are {', '.join(sorted(used))}")
        elif dot and is_available(name):
            raise OptionError(
                f"sink: '{key}' is an option of the format '{name}', but the formats are {', '.join(sorted(used))}",
                option=key,
            )
    return keys


def _format_specs(part: str, name: str) -> tuple[Option, ...]:
    """Return the options of a format. Flink CDC writes keys in csv without any options."""
    if part == "value":
        return (*SINK_FORMAT_OPTIONS[name], *writing_options())
    return () if name == "csv" else writing_options()


def _format_values(part: str, name: str, options: Mapping[str, str], notes: list[str]) -> dict[str, Any]:
    """Parse the options of a format. Flink ignores unknown ones, so they only give a note."""
    prefix = f"{name}."
    specs = _format_specs(part, name)
    known = [spec.name for spec in specs]
    short = {key.removeprefix(prefix): text for key, text in options.items() if key.startswith(prefix)}
    for key in short:
        if not known:
            notes.append(f"sink: no effect: '{prefix}{key}', because keys in {name} have no options")
        elif key not in known:
            error = unknown_option("sink", prefix + key, [prefix + other for other in known])
            notes.append(f"no effect: {error}")
    parsed = parse_values("sink", specs, {key: text for key, text in short.items() if key in known}, prefix)
    return {prefix + key: value for key, value in parsed.items()}


# --- single options --------------------------------------------------------------------------------------------


def _entries(key: str, text: str, form: str) -> list[tuple[str, str]]:
    """Split `a:b;c:d` into pairs; a `;` at the end is skipped."""
    plain = plain_text(text)
    pairs = []
    for entry in plain.rstrip("; ").split(";") if plain.strip("; ") else ():
        name, colon, value = entry.partition(":")
        if not colon or ":" in value or not name.strip() or not value.strip():
            raise OptionError(
                f"sink: an entry of '{key}' must be {form}, with one ':': {shown_key(entry.strip())}", option=key
            )
        pairs.append((name.strip(), value.strip()))
    return pairs


def _topics(text: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Parse the topics by tables."""
    pairs = _entries(_MAPPING, text, "table[,table]:topic")
    for tables, _ in pairs:
        Selector(tables, _MAPPING)
    return tuple(((tables,), topic) for tables, topic in pairs)


def _headers(text: str) -> tuple[tuple[str, str], ...]:
    return tuple(_entries(_HEADERS, text, "name:value"))
