"""The source of a pipeline: topics of Kafka, the formats of their records, and how schemas are found.

    parse_source(block)     the checked source; `records` is the table that reads the topics' bytes

What Flink CDC can do and Spark can't is a refusal: the pipeline can be explained, but not started. Anything malformed
is an `OptionError`. Rules: Ververica's page "Kafka connector", section "Flink CDC".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kvformat.connectors import source as spark_source
from kvformat.connectors.broker_offsets import GROUP
from kvformat.connectors.kafka import KafkaTable
from kvformat.ingestion.pipeline.declared_columns import LEADER_EPOCH, METADATA, DeclaredColumns, parse_declared
from kvformat.ingestion.pipeline.options import (
    FIXED_TYPES,
    FORMAT_OPTIONS,
    SOURCE_OPTIONS,
    TABLE_FIELDS,
    Refusal,
    option_values,
    other_type,
    parse_values,
    plain_text,
    unknown_option,
)
from kvformat.ingestion.pipeline.yaml import Secret, shown_key
from kvformat.ingestion.schemas.table_id import MOST_PARTS, TableId
from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.ddl import parse_schema, parse_type
from kvformat.registry.contract.discovery import format_class, is_available
from kvformat.registry.contract.errors import ConfigurationError, OptionError, add_context, did_you_mean
from kvformat.registry.contract.format_hooks import Part
from kvformat.registry.contract.options import OptionValues, find_option
from kvformat.registry.contract.types import FlinkType, nullable
from kvformat.registry.format import Format
from kvformat.registry.sql.connector_options import KAFKA_OPTIONS, is_client_property
from kvformat.registry.sql.statements import created_tables
from kvformat.registry.sql.table_definition import TableColumn, TableDefinition
from kvformat.registry.table import connector_checks as checks

_OTHER_SOURCES = (
    *("db2", "doris", "mongodb", "mysql", "oceanbase", "oracle", "paimon", "polardb", "postgres", "sls"),
    *("sqlserver", "tidb", "values", "vitess"),
)
_DEFAULT_FORMAT = next(spec.default for spec in SOURCE_OPTIONS if spec.name == "value.format")
_ALIYUN = "aliyun."
RECORDS = "records"
"""The type of a source whose records are a stream that `Pipeline.start` gets."""
_MODE, _DUPLICATED = "scan.startup.mode", "scan.check.duplicated.group.id"
_FIRST_SCHEMAS = "scan.value.initial-schemas.ddls"
_OF_RECORDS = (_FIRST_SCHEMAS, "scan.bounded.mode")  # those of `scan.*` that a stream of given records follows, too
_OF_TABLE = frozenset(spec.name for spec in KAFKA_OPTIONS) & frozenset(spec.name for spec in SOURCE_OPTIONS)
_OF_COLUMNS = (
    *("key.format", "value.format", "key.fields", "key.fields-prefix", "value.fields-prefix"),
    "value.fields-include",
)


@dataclass(frozen=True)
class PipelineSource:
    """A checked source.

    options: the options as given. `repr` shows the type only, because any value may be a secret.
    values: the parsed options by their names, with defaults, also those of the value's format that only ingestion has.
    records: the table that reads the topics; its only column is the bytes of the value. None for given records.
    value_format, key_format: the formats of the records; the key's is None if keys are not read.
    schemas: first schemas by table; `fixed_types` are the types of columns in all tables. `declared` are the columns
        that all tables have.
    metadata: the metadata columns by name, also the declared ones; `table_id` are the members that name the table.
    refused: reasons why the source can't be read here; `notes` are on options without effect.
    """

    type: str
    options: OptionValues = field(repr=False)
    values: OptionValues = field(repr=False)
    records: KafkaTable | None = field(default=None, repr=False)
    value_format: Format | None = field(default=None, repr=False)
    key_format: Format | None = field(default=None, repr=False)
    schemas: Mapping[TableId, TableDefinition] = field(default_factory=dict, repr=False)
    fixed_types: Mapping[str, FlinkType] = field(default_factory=dict, repr=False)
    declared: DeclaredColumns = field(default_factory=DeclaredColumns, repr=False)
    metadata: Mapping[str, TableColumn] = field(default_factory=dict, repr=False)
    table_id: tuple[str, ...] = field(default=(), repr=False)
    refused: tuple[Refusal, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)

    def column_types(self) -> dict[str, FlinkType]:
        """Return the types of the columns that are known before any message, by their names in the table."""
        prefixes = (
            {part: self.values[f"{part}.fields-prefix"] or "" for part in ("key", "value")} if self.values else {}
        )
        parts = {"key": self.declared.key, "value": self.fixed_types}
        columns = {prefixes[part] + name: t for part, types in parts.items() for name, t in types.items()}
        return columns | {name: column.type for name, column in self.metadata.items() if column.type is not None}


def parse_source(options: Mapping[str, str]) -> PipelineSource:
    """Check the block `source`. Raises `ConfigurationError`, never with a secret."""
    if "type" not in options:
        raise OptionError(
            "source: the option 'type' is missing; it is 'kafka', or 'records' for a stream of given records",
            option="type",
        )
    if options["type"].lower() not in ("kafka", RECORDS):
        other = other_type("source", options["type"], ("kafka", RECORDS), _OTHER_SOURCES)
        why = f"source '{other}': run Debezium or Flink CDC into Kafka, and read that topic with a source 'kafka'"
        return PipelineSource(other, option_values(options), OptionValues({}, {}), refused=(Refusal(why, "type"),))
    return _SourceParser(options).parse()


class _SourceParser:
    """Parses a source of Kafka. `refused` and `notes` grow as the options are checked."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options
        self.has_records = options["type"].lower() == RECORDS
        self.refused: list[Refusal] = []
        self.notes: list[str] = []
        aliyun = sorted(key for key in options if key.startswith(_ALIYUN))
        if aliyun:
            self.notes.append(f"source: no effect: {', '.join(aliyun)}; use 'properties.sasl.*'")
        self.used_options = {key: text for key, text in options.items() if not key.startswith(_ALIYUN)}

    def parse(self) -> PipelineSource:
        checks.check_case(self.used_options)
        formats = _FormatOptions(self.used_options)
        plain = {key: text for key, text in self.used_options.items() if key not in formats.keys}
        self._check_records(plain)
        specs = [replace(spec, required=False) for spec in SOURCE_OPTIONS] if self.has_records else SOURCE_OPTIONS
        values = parse_values("source", specs, _without_client(plain))
        if not self.has_records:
            checks.check_topic(values, required=True)
        checks.check_tolerance(values)
        if values["scan.max.pre.fetch.records"] < 0:
            raise OptionError(
                "source: 'scan.max.pre.fetch.records' must be at least 0", option="scan.max.pre.fetch.records"
            )
        _check_prefixes(self.used_options)
        records = None if self.has_records else self._records(values)
        if formats.value_name == "avro":
            self._refuse(
                "value.format",
                "source: 'value.format' = 'avro': the messages don't have their schema; use 'avro-confluent'",
            )
        value_format, key_format = formats.value(values["topic"]), formats.key(values["topic"])
        values |= formats.ingestion
        declared = parse_declared(values, formats.value_name)
        metadata = {**declared.metadata, **self._metadata(values["metadata.list"], declared)}
        fixed_types = f"{formats.value_name}.{FIXED_TYPES}"
        text = values.get(fixed_types)  # also given as an option of the value's format
        fixed = {} if text is None else _parsed({fixed_types: text}, fixed_types, _fixed_types)
        table_id = _table_id(values, f"{formats.value_name}.{TABLE_FIELDS}")
        schemas = _parsed(self.options, _FIRST_SCHEMAS, _first_schemas)
        _check_declared(declared, fixed, schemas, fixed_types)
        self._note_options_without_effect(values)
        return PipelineSource(
            RECORDS if self.has_records else "kafka",
            option_values(self.options),
            option_values(self.options, values),
            records,
            value_format,
            key_format,
            schemas,
            {**fixed, **declared.fixed},
            declared,
            metadata,
            table_id,
            tuple(self.refused),
            tuple(self.notes),
        )

    def _check_records(self, options: Mapping[str, str]) -> None:
        """Note the options of topics, which a stream of given records does not have."""
        if not self.has_records:
            return
        for key in options:
            if key in ("topic", "topic-pattern") or (key.startswith("scan.") and key not in _OF_RECORDS):
                self.notes.append(f"source: no effect: '{key}', because a stream of records is given")

    def _refuse(self, option: str, why: str) -> None:
        self.refused.append(Refusal(why, option))

    def _records(self, values: Mapping[str, Any]) -> KafkaTable:
        """Return the table of the records, which checks the options of the connector."""
        texts = {key: text for key, text in self.used_options.items() if key in _OF_TABLE or is_client_property(key)}
        options = {key: plain_text(text) for key, text in texts.items() if key not in _OF_COLUMNS}
        if values[_MODE] == "group-offsets" and GROUP not in texts:
            self._refuse(
                _MODE,
                f"source: '{_MODE}' = 'group-offsets'{'' if _MODE in texts else ' (the default)'} needs '{GROUP}'; "
                "set it, or another mode such as 'earliest-offset'",
            )
            options[_MODE] = "earliest-offset"
        bounded = "scan.bounded.mode"
        if values[bounded] not in ("unbounded", "latest-offset"):
            self._refuse(
                bounded,
                f"source: '{bounded}' = '{values[bounded]}': a stream of Spark can't stop there. Use 'latest-offset', "
                "which reads what is there when the query starts",
            )
            options.pop(bounded)
        try:
            table = KafkaTable("value BYTES", {**options, "connector": "kafka", "format": "raw"})
            notes = dict(spark_source.planned(table.kv, streaming=True, ask=False).notes)
        except ConfigurationError as error:
            raise add_context(error, "source: ") from None
        for key in (_DUPLICATED, bounded):
            notes.pop(key, None)
        self.notes += [f"source: {note}" for note in notes.values()]
        return table

    def _metadata(self, text: str | None, declared: DeclaredColumns) -> dict[str, TableColumn]:
        """Return the columns of `metadata.list`."""
        columns: dict[str, TableColumn] = {}
        for name in text.split(",") if text else ():
            name = name.strip()
            if name == LEADER_EPOCH:
                why = "source: 'metadata.list': Spark's Kafka source does not have 'leader-epoch'"
                self._refuse("metadata.list", why)
                continue
            if name not in METADATA:
                raise OptionError(
                    f"source: 'metadata.list' has no column {shown_key(name)}.{did_you_mean(name, METADATA)} "
                    f"Columns: {', '.join(METADATA)}",
                    option="metadata.list",
                )
            if name in columns:
                raise OptionError(f"source: 'metadata.list' has the column '{name}' twice", option="metadata.list")
            if name in declared.names:
                raise OptionError(
                    f"source: 'metadata.list' and 'table.columns' have the column '{name}'", option="metadata.list"
                )
            columns[name] = TableColumn(name, "metadata", parse_type(METADATA[name]), name)
        return columns

    def _note_options_without_effect(self, values: Mapping[str, Any]) -> None:
        options = self.options
        tolerance = "ingestion.error-tolerance.max-count"
        if tolerance in options and not values["ingestion.ignore-errors"]:
            self.notes.append(f"source: no effect: '{tolerance}', because 'ingestion.ignore-errors' is not true")
        if values[_DUPLICATED] and GROUP not in options:
            self.notes.append(f"source: no effect: '{_DUPLICATED}', because there is no '{GROUP}'")
        for key in options:
            if key.endswith(".distributed-tables"):
                self.notes.append(f"source: no effect: '{key}'; a table may always be in several partitions")
        tiny = "canal-json.mysql.treat-tinyint1-as-boolean.enabled"
        if tiny in options and values["canal-json.infer-schema.strategy"] != "MYSQL_TYPE":
            self.notes.append(f"source: no effect: '{tiny}', because it needs 'MYSQL_TYPE'")


class _FormatOptions:
    """The options of a source that belong to the formats of value and key, by their prefix.

    `json.x` is an option of the value's format if that is json, otherwise of the key's. `value.json.x` and `key.json.x`
    are always those of one part. `keys` are all given keys that belong to a format.

    A format may have other defaults than in a declared table: see `FormatHooks.look_options`.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options
        named = {name: options.get(f"{name}.format") for name in ("key", "value")}
        self.value_name = named["value"] or _DEFAULT_FORMAT
        self.key_name = named["key"]
        self.keys: set[str] = set()
        self.of_value = self._of("value", self.value_name)
        self.of_key = {} if self.key_name is None else self._of("key", self.key_name)
        self._check_others()
        specs = FORMAT_OPTIONS.get(self.value_name, ())
        texts = {short: text for short, text in self.of_value.items() if any(spec.keys({short: ""}) for spec in specs)}
        parsed = parse_values("source", specs, texts, f"{self.value_name}.")
        self.ingestion = {f"{self.value_name}.{name}": value for name, value in parsed.items()}
        self.of_codec = {short: text for short, text in self.of_value.items() if short not in texts}

    def _of(self, part: str, name: str) -> dict[str, str]:
        options: dict[str, str] = {}
        for prefix in (f"{part}.{name}.", f"{name}."):
            for key, text in self.options.items():
                if key.startswith(prefix) and key not in self.keys:
                    short = key.removeprefix(prefix)
                    if short in options:
                        raise OptionError(
                            f"source: '{part}.{name}.{short}' and '{name}.{short}' are the same option; write one",
                            option=key,
                        )
                    options[short] = text
                    self.keys.add(key)
        return options

    def _check_others(self) -> None:
        """Check that no option belongs to a format that is not in use."""
        for key in self.options:
            name, dot, _ = key.removeprefix("key.").removeprefix("value.").partition(".")
            if dot and key not in self.keys and is_available(name):
                raise OptionError(
                    f"source: '{key}' is an option of the format '{name}', but 'value.format' is '{self.value_name}'"
                    + ("" if self.key_name is None else f" and 'key.format' is '{self.key_name}'"),
                    option=key,
                )

    def value(self, topics: Sequence[str] | None) -> Format:
        """Return the value's format."""
        specs = FORMAT_OPTIONS.get(self.value_name, ())
        return _create_format("value", self.value_name, self.of_codec, topics, [spec.name for spec in specs])

    def key(self, topics: Sequence[str] | None) -> Format | None:
        """Return the key's format, None if keys are not read."""
        if self.key_name is None:
            return None
        key_format = _create_format("key", self.key_name, self.of_key, topics)
        if key_format.changelog_mode is not ChangelogMode.INSERT_ONLY:
            raise OptionError(
                f"source: 'key.format' = '{key_format.identifier}': a key's format must be insert-only, such as 'json'",
                format=key_format.identifier,
                option="key.format",
            )
        return key_format


def _create_format(
    part: Part, name: str, texts: Mapping[str, str], topics: Sequence[str] | None, also: Sequence[str] = ()
) -> Format:
    """Create a format from its options; `also` are names for the error of an unknown option."""
    if isinstance(name, Secret):
        raise OptionError(f"source: '{part}.format' must not be a secret", option=f"{part}.format")
    try:
        cls = format_class(name)
    except ConfigurationError as error:
        raise add_context(error, f"source: option '{part}.format': ", option=f"{part}.format") from None
    for short in texts:
        if find_option(cls.option_specs, short) is None:
            known = [*(spec.key for spec in cls.option_specs), *also]
            raise unknown_option("source", f"{name}.{short}", [f"{name}.{key}" for key in known])
    options: Mapping[str, Any] = {short: plain_text(text) for short, text in texts.items()}
    if topics is not None and len(topics) == 1:
        options = cls.complete_options(options, topic=topics[0], part=part)
    try:
        decoder = cls(cls.look_options(options))
        decoder.validate("decode")
    except ConfigurationError as error:
        raise add_context(error, f"source: format of the {part}: ") from None
    return decoder


# --- single options --------------------------------------------------------------------------------------------


def _without_client(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options without those of the client that have no declaration."""
    declared = {spec.name for spec in SOURCE_OPTIONS}
    return {key: text for key, text in options.items() if key in declared or not is_client_property(key)}


def _check_prefixes(options: Mapping[str, str]) -> None:
    key, value = (options.get(f"{part}.fields-prefix") for part in ("key", "value"))
    if key is not None and "key.format" not in options:
        raise OptionError("source: 'key.fields-prefix' needs 'key.format'", option="key.fields-prefix")
    if key is not None and value is not None:
        first, second = plain_text(key), plain_text(value)
        if first.startswith(second) or second.startswith(first):
            raise OptionError(
                "source: of 'key.fields-prefix' and 'value.fields-prefix' neither may begin with the other",
                option="key.fields-prefix",
            )


def _table_id(values: Mapping[str, Any], key: str) -> tuple[str, ...]:
    text = values.get(key)
    if text is None:
        return ()
    names = tuple(name.strip() for name in plain_text(text).split(","))
    if not all(names) or len(names) > MOST_PARTS:
        raise OptionError(f"source: '{key}' must be 1 to {MOST_PARTS} names, separated by ','", option=key)
    return names


def _parsed(options: Mapping[str, str], key: str, parse: Callable[[str], Any]) -> Any:
    """Parse the text of an option, {} if it is not given."""
    if key not in options:
        return {}
    try:
        return parse(plain_text(options[key]))
    except ConfigurationError as error:
        raise add_context(error, f"source: option '{key}': ", option=key) from None


def _first_schemas(text: str) -> dict[TableId, TableDefinition]:
    tables = {TableId(name): table for name, table in created_tables(text).items()}
    for name, table in tables.items():
        refused = [
            *(["WITH (...)"] if table.options else []),
            *(f"the {column.kind} column '{column.name}'" for column in table.columns if column.kind != "physical"),
            *(["the WATERMARK"] if table.watermark is not None else []),
            *(["PARTITIONED BY"] if table.partition_keys else []),
            *(["DISTRIBUTED"] if table.distribution is not None else []),
        ]
        if refused:
            raise OptionError(
                f"table '{name}': {refused[0]} is not allowed in a first schema; it has only columns of the messages "
                "and a PRIMARY KEY"
            )
    if not tables:
        raise OptionError("the text has no CREATE TABLE")
    return tables


def _check_declared(
    declared: DeclaredColumns,
    fixed: Mapping[str, FlinkType],
    schemas: Mapping[TableId, TableDefinition],
    fixed_types: str,
) -> None:
    """Check that no column has two declarations."""
    if declared.names and schemas:
        raise OptionError(
            f"source: '{_FIRST_SCHEMAS}' and 'table.columns' both declare columns; write one of them",
            option=_FIRST_SCHEMAS,
        )
    both = sorted(fixed.keys() & declared.fixed.keys())
    if both:
        raise OptionError(
            f"source: '{fixed_types}' and 'table.columns' both have the column '{both[0]}'", option=fixed_types
        )


def _fixed_types(text: str) -> dict[str, FlinkType]:
    return {column.name: nullable(column.type) for column in parse_schema(text).fields}
