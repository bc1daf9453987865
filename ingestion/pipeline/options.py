"""The options of a pipeline's blocks: their declarations, which also make error texts and the tables in the docs.

The source's options are those of a `kafka` table for reading, and those of ingestion. An option whose name begins with
a format's name belongs to that format. Rules: the pages "Kafka connector" and "Upsert Kafka" of Ververica, section
"Flink CDC", and Flink CDC's `KafkaDataSinkOptions`, `PipelineOptions` and `YamlPipelineDefinitionParser`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kvformat.ingestion.pipeline.yaml import MASK, Secret, shown_key
from kvformat.registry.contract.discovery import format_class
from kvformat.registry.contract.errors import ConfigurationError, OptionError, did_you_mean
from kvformat.registry.contract.options import Option, OptionValues
from kvformat.registry.sql.connector_options import KAFKA_OPTIONS, masked

_HUGE = 2**64  # Python refuses to make texts of very large numbers
# Options of a table that ingestion replaces: the columns of a table come from its messages, and not from options.
_OF_DECLARED_TABLES = ("connector", "format")
_DIFFERENT = {
    "topic": {"doc": "topics, separated by `;`; exactly one of `topic` and `topic-pattern`"},
    "topic-pattern": {"doc": "regular expression (Java's) that must match the whole name of a topic"},
    "properties.bootstrap.servers": {"required": True, "doc": "brokers, `host:port,host:port`"},
    "key.format": {"doc": "format of the key; it must be insert-only"},
    "value.format": {"default": "debezium-json", "doc": "format of the value: each installed format but `avro`"},
    "key.fields": {"doc": "columns from the key, with their prefix, separated by `;`; by default all members of keys"},
    "key.fields-prefix": {"doc": "prefix of the columns from the key; needs `key.format`"},
    "value.fields-prefix": {"doc": "prefix of the columns from the value"},
    "value.fields-include": {
        "doc": "`EXCEPT_KEY`: a member of the value with the name of a column of `key.fields` is left out; `ALL`: it "
        "replaces that column"
    },
    "ingestion.error-tolerance.max-count": {
        "doc": "number of bad records that are dropped since the checkpoint began, one more fails the query; -1 is no "
        "limit"
    },
    "scan.check.duplicated.group.id": {"doc": "`true`: the group must have no member when the query starts"},
    "scan.startup.mode": {"doc": "where to begin if there is no checkpoint yet"},
}
_OF_ALL_SOURCES = (
    Option(name="type", required=True, doc="`kafka`; `records` for a stream that `Pipeline.start` gets"),
    Option(name="name", doc="name for people"),
)
_OF_INGESTION = (
    Option(
        name="schema.inference.strategy",
        type="enum",
        default="continuous",
        allowed=("continuous", "static"),
        doc="`continuous`: the columns of each message are compared with the known ones; `static`: once, no changes",
    ),
    Option(
        name="scan.max.pre.fetch.records",
        type="int",
        default=50,
        doc="newest messages of each partition that are looked at before the first batch; 0 for none",
    ),
    Option(name="metadata.list", doc="columns from the record, separated by `,`: `topic`, `partition`, `offset`, ..."),
    Option(
        name="table.columns",
        doc="columns that each table has from its beginning, as in a CREATE TABLE: `id INT, part INT METADATA FROM "
        "'partition'`. They have these types, whatever the values of the messages, and come first",
    ),
    Option(
        name="scan.value.initial-schemas.ddls",
        doc="CREATE TABLE statements, separated by `;`: the first schemas of these tables",
    ),
)
_STRING_COLUMNS = Option(
    name="infer-schema.primitive-as-string",
    type="boolean",
    default=False,
    doc="booleans and numbers become STRING columns",
)
FIXED_TYPES, TABLE_FIELDS = "infer-schema.fixed-types", "decode.parser-table-id.fields"
_FIXED_TYPES = Option(
    name=FIXED_TYPES,
    doc="`id BIGINT, name VARCHAR(10)`: types of these columns in all tables, whatever their values",
)
_TABLE_FIELDS_VALUES = "separated by `,`, whose values are the table's name"
_TABLE_FIELDS = Option(
    name=TABLE_FIELDS,
    doc=f"1 to 3 members of `source`, of rows without an envelope their own (`add.fields`), {_TABLE_FIELDS_VALUES}",
)
_DISTRIBUTED = Option(
    name="distributed-tables",
    type="boolean",
    default=False,
    doc="no effect: a table may always be in several partitions",
)
_TABLES_OF_TYPES = Option(
    name="tables-by-record-name",
    type="boolean",
    default=False,
    doc="a table for each type of records, by the full name of the type (`com.shop.Order`); otherwise the topic's",
)
FORMAT_OPTIONS: Mapping[str, tuple[Option, ...]] = {
    "debezium-json": (_DISTRIBUTED, _STRING_COLUMNS, _FIXED_TYPES, _TABLE_FIELDS),
    "canal-json": (
        _DISTRIBUTED,
        _STRING_COLUMNS,
        _FIXED_TYPES,
        Option(
            name="infer-schema.strategy",
            type="enum",
            default="AUTO",
            allowed=("AUTO", "SQL_TYPE", "MYSQL_TYPE"),
            doc="types of the columns: by the values, by `sqlType`, or by `mysqlType`",
        ),
        Option(
            name="mysql.treat-mysql-timestamp-as-datetime-enabled",
            type="boolean",
            default=True,
            fallback=("mysql.treat-mysql-timestamp-as-datetime.enabled",),
            doc="MySQL's TIMESTAMP becomes TIMESTAMP; `false`: TIMESTAMP_LTZ",
        ),
        Option(
            name="mysql.treat-tinyint1-as-boolean.enabled",
            type="boolean",
            default=True,
            doc="only for `MYSQL_TYPE`: `tinyint(1)` becomes BOOLEAN; `false`: TINYINT",
        ),
    ),
    **dict.fromkeys(("avro-confluent", "avro-registry", "json-registry", "proto-registry"), (_TABLES_OF_TYPES,)),
    "maxwell-json": (_STRING_COLUMNS, _FIXED_TYPES),
    "ogg-json": (_STRING_COLUMNS, _FIXED_TYPES),
    "json": (
        _STRING_COLUMNS,
        Option(
            name="infer-schema.flatten-nested-columns.enable",
            type="boolean",
            default=False,
            doc="members of objects become columns (`nested.col`); otherwise an object is a STRING",
        ),
        replace(_TABLE_FIELDS, doc=f"1 to 3 members, {_TABLE_FIELDS_VALUES}; otherwise it is the topic's"),
        _FIXED_TYPES,
    ),
}
"""Options of a source's format that only ingestion has, by format; the formats have their own, too."""


def _source_options() -> tuple[Option, ...]:
    specs = [*_OF_ALL_SOURCES]
    for spec in KAFKA_OPTIONS:
        if spec.name not in _OF_DECLARED_TABLES and not spec.name.startswith("sink."):
            specs.append(replace(spec, **_DIFFERENT.get(spec.name, {}), since="0.1"))  # type: ignore[arg-type]
    return (*specs, *_OF_INGESTION)


SOURCE_OPTIONS = _source_options()
"""The options of a `kafka` source, without those of its formats and the client's (`properties.*`)."""

SINK_NAME = (
    Option(name="type", required=True, doc="`delta`, `iceberg`, `kafka`, `upsert-kafka` or `values`"),
    Option(name="name", doc="name for people"),
)
"""The options that each sink has."""
SINK_CLIENT = (
    replace(next(spec for spec in SOURCE_OPTIONS if spec.name == "properties.bootstrap.servers")),
    Option(
        name="sink.delivery-guarantee",
        type="enum",
        default="at-least-once",
        allowed=("none", "at-least-once", "exactly-once"),
        doc="`none` is the same as `at-least-once`, by Spark's sink; `exactly-once` writes transactions",
    ),
    Option(
        name="sink.transactional-id-prefix",
        default="kvformat",
        doc="begins the names of transactions; only for `exactly-once`",
    ),
    Option(
        name="sink.add-tableId-to-header-enabled",
        type="boolean",
        default=False,
        doc="headers `namespace`, `schemaName` and `tableName`",
    ),
)
"""The options of all sinks that write records of topics, beside the client's (`properties.*`)."""
OF_TABLES = (
    Option(name="catalog", doc="catalog of the tables"),
    Option(name="namespace", doc="in front of the tables' names"),
    Option(name="table-properties", type="map", doc="properties of created tables"),
    Option(
        name="sink.type-normalize-strategy",
        type="enum",
        default="standard",
        allowed=("standard", "broaden", "only-bigint-or-text"),
        doc="types of the target's columns: as they are; the widest of their kind; BIGINT or STRING",
    ),
    Option(name="create-tables", type="boolean", default=True, doc="create tables that do not exist"),
    Option(
        name="write-mode",
        type="enum",
        default="merge",
        allowed=("merge", "append"),
        doc="`merge`: the last row of each key; `append`: every change, with its row kind and its position in Kafka",
    ),
    Option(
        name="rewrite.max-bytes",
        type="memory",
        default=2**30,
        doc="largest table that is rewritten when the target can't change a column's type",
    ),
)
SINK_FORMAT_OPTIONS: Mapping[str, tuple[Option, ...]] = {
    "debezium-json": (
        Option(
            name="include-schema.enabled",
            type="boolean",
            default=False,
            doc="messages have Connect's schema beside the payload",
        ),
        Option(
            name="emit.full-table-id.enabled",
            type="boolean",
            default=False,
            doc="`source` has `db`, `schema` and `table`, the three parts of the table's name",
        ),
        Option(
            name="payload",
            type="enum",
            default="json",
            allowed=("json", "connect"),
            doc="with the schema: values as the json format writes them, or as the schema says",
        ),
    ),
    "canal-json": (),
}
"""Options of a sink's format of the value that only ingestion has, by format."""
_WRITING = (
    "timestamp-format.standard",
    "encode.decimal-as-plain-number",
    "encode.ignore-null-fields",
    "map-null-key.mode",
    "map-null-key.literal",
)


@functools.cache
def writing_options() -> tuple[Option, ...]:
    """Return the options of the json format for writing, which all JSON formats of a sink have."""
    specs = {spec.name: spec for spec in format_class("json").option_specs}
    return tuple(specs[name] for name in _WRITING)


PIPELINE_OPTIONS = (
    Option(name="name", doc="the query's name"),
    Option(name="parallelism", type="int", default=None, doc="largest number of tasks that decode"),
    Option(
        name="schema.change.behavior",
        type="enum",
        default="lenient",
        allowed=("lenient", "evolve", "try_evolve", "ignore", "exception"),
        doc="what a change of a source's schema does to the target; `_` and `-` are the same",
    ),
    Option(
        name="route-mode",
        type="enum",
        default="ALL_MATCH",
        allowed=("ALL_MATCH", "FIRST_MATCH"),
        doc="a table follows all routes that match, or the first; `_` and `-` are the same",
    ),
    Option(name="local-time-zone", doc="time zone of times without one; the session's by default"),
    Option(
        name="execution.runtime-mode",
        type="enum",
        default="STREAMING",
        allowed=("STREAMING", "BATCH"),
        doc="`BATCH`: read what is there, then stop",
    ),
    Option(
        name="dirty-data.collector.type",
        type="enum",
        allowed=("logger", "topic", "path"),
        doc="where bad records go",
    ),
    Option(name="dirty-data.collector.location", doc="the topic or path of bad records"),
    Option(name="checkpoint", doc="folder of the query's checkpoint"),
    Option(name="trigger", doc="`10 seconds`: time between batches; `available-now`: read what is there, then stop"),
    Option(name="operator.uid.prefix", doc="no effect: operators of Spark have no ids"),
    Option(name="schema.operator.uid", doc="no effect: operators of Spark have no ids"),
    Option(name="schema-operator.rpc-timeout", type="duration", doc="no effect: schemas change between two batches"),
)
TRANSFORM_OPTIONS = (
    Option(name="source-table", required=True, doc="selector of the tables"),
    Option(
        name="dialect",
        type="enum",
        default="spark",
        allowed=("spark", "flink"),
        doc="`spark`: Spark SQL, with Flink's names of functions; `flink`: Flink SQL, with Flink's values; "
        "a computed column must not have the name of a column of the messages",
    ),
    Option(name="projection", doc="a SELECT list; `\\*` is all columns"),
    Option(name="filter", doc="a WHERE condition"),
    Option(name="primary-keys", doc="columns of the key, separated by `,`"),
    Option(name="partition-keys", doc="columns that partition a created table, separated by `,`"),
    Option(name="table-options", doc="properties of a created table, `k=v,k2=v2`"),
    Option(name="table-options.delimiter", default=",", doc="separator of `table-options`"),
    Option(name="description", doc="text for people"),
    Option(
        name="converter-after-transform",
        type="enum",
        allowed=("SOFT_DELETE",),
        doc="a deleted row is written as a row with its old values",
    ),
)
ROUTE_OPTIONS = (
    Option(name="source-table", required=True, doc="pattern of the tables"),
    Option(name="sink-table", required=True, doc="the target table"),
    Option(name="replace-symbol", doc="text in `sink-table` that is replaced by the source table's name"),
    Option(name="description", doc="text for people"),
)


# --- values ----------------------------------------------------------------------------------------------------


class Refusal(str):
    """A reason why a pipeline can't be started, as text. `option` is the option, or the computed column, behind it."""

    option: str

    def __new__(cls, why: str, option: str = "") -> Refusal:
        """Make the reason; pickle and copy pass only the text, and set the option later."""
        refusal = super().__new__(cls, why)
        refusal.option = option
        return refusal


def texts(where: str, block: Mapping[str, Any], lists: Iterable[str] = ()) -> dict[str, str]:
    """Return the values of a block, which must be texts, without the keys of `lists`."""
    options: dict[str, str] = {}
    for key, value in block.items():
        if not isinstance(key, str):
            raise ConfigurationError(f"{where}: the name of an option must be a text, not {type(key).__name__}")
        if key in lists:
            continue
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, float) or (isinstance(value, int) and abs(value) < _HUGE):
            value = str(value)
        if not isinstance(value, str):
            what = "map" if isinstance(value, Mapping) else "list" if isinstance(value, list | tuple) else "value"
            dotted = f". Write its keys as '{key}.<key>: <value>'" if what == "map" else ""
            raise ConfigurationError(f"{where}: option {shown_key(key)} must be a text, not a {what}{dotted}")
        options[key] = value
    return options


def parse_values(where: str, specs: Sequence[Option], options: Mapping[str, str], prefix: str = "") -> dict[str, Any]:
    """Parse the options of a block by their declarations; returns a value for each declared name.

    `prefix` is the beginning of the keys in error texts. Raises `OptionError` for an unknown, missing or malformed
    option. An error never has a secret.
    """
    by_key = {key: spec for spec in specs for key in (spec.name, *spec.fallback)}
    for key in options:
        if key not in by_key and not any(spec.type == "map" and key.startswith(f"{spec.name}.") for spec in specs):
            raise unknown_option(where, prefix + key, [prefix + name for name in by_key])
    values: dict[str, Any] = {}
    for spec in specs:
        keys = spec.keys(options)
        if not keys and spec.required:
            raise OptionError(f"{where}: the option '{prefix}{spec.name}' is missing: {spec.doc}", option=spec.name)
        if spec.type == "map":
            begin = f"{spec.name}."
            entries = {key[len(begin) :]: plain_text(options[key]) for key in keys if key.startswith(begin)}
            whole = parse_value(where, spec, spec.name, options[spec.name], prefix) if spec.name in keys else {}
            values[spec.name] = {**whole, **entries}
        else:
            both = [key for key in (spec.name, *spec.fallback) if key in options]
            if len(both) > 1:
                raise OptionError(
                    f"{where}: '{prefix}{both[0]}' and '{prefix}{both[1]}' are the same option; write one",
                    option=both[0],
                )
            values[spec.name] = parse_value(where, spec, keys[-1], options[keys[-1]], prefix) if keys else spec.default
    return values


def parse_value(where: str, spec: Option, key: str, text: str, prefix: str = "") -> Any:
    """Parse the value of one option; raises `OptionError` with the allowed values."""
    try:
        return spec.parse(plain_text(text))
    except ValueError as cause:
        reason = str(cause)
    shown = MASK if spec.sensitive else shown_value(key, text)
    raise OptionError(
        f"{where}: invalid value {shown!r} for option '{prefix}{key}': {reason}",
        option=prefix + key,
        reason=reason,
    )


def plain_text(text: str) -> str:
    """Return a text that may be a secret as a plain `str`, for use and not for people."""
    return text.reveal() if isinstance(text, Secret) else text


def option_values(options: Mapping[str, str], values: Mapping[str, Any] | None = None) -> OptionValues:
    """Return options, or the values parsed from them, with a `repr` that masks secrets."""
    real = {key: plain_text(text) for key, text in options.items()} if values is None else values
    return OptionValues(real, {key: _shown(key, value, options) for key, value in real.items()})


def _shown(key: str, value: Any, options: Mapping[str, str]) -> Any:
    if isinstance(options.get(key), Secret):
        return MASK
    if isinstance(value, Mapping):
        return {name: _shown(f"{key}.{name}", inner, options) for name, inner in value.items()}
    return shown_value(key, value) if isinstance(value, str) else value


def other_type(block: str, type_: str, known: Sequence[str], others: Sequence[str]) -> str:
    """Return the type if it is one of `others`, of Flink's; raises `OptionError` for an unknown type."""
    if type_.lower() in others:
        return type_.lower()
    shown = MASK if isinstance(type_, Secret) else shown_key(type_)
    raise OptionError(
        f"{block}: unknown type {shown}.{did_you_mean(type_, [*known, *others])} Supported types: {', '.join(known)}",
        option="type",
    )


def unknown_option(where: str, key: str, known: Sequence[str]) -> OptionError:
    """Return the error for an unknown option, with the nearest known one."""
    return OptionError(
        f"{where}: there is no option {shown_key(key)}.{did_you_mean(key, known)} Options: {', '.join(sorted(known))}",
        option=key,
    )


def shown_value(key: str, text: str) -> str:
    """Return the value of an option for people, with secrets masked."""
    return MASK if isinstance(text, Secret) else str(masked(key, text))
