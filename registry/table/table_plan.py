"""Check a table for one direction, in the order and with the messages of Flink's factories, and plan its records.

    formats, their options -> missing, malformed, unknown options -> the connector's checks -> columns of key and value

Rules: `KafkaDynamicTableFactory`, `UpsertKafkaDynamicTableFactory`, `FactoryUtil`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kvformat.registry.contract.changelog import ChangelogMode, RowKind
from kvformat.registry.contract.discovery import format_class
from kvformat.registry.contract.errors import ConfigurationError, OptionError, add_context
from kvformat.registry.contract.format_hooks import Part
from kvformat.registry.contract.options import Direction, find_option
from kvformat.registry.contract.schemas import arrow_schema, row_type
from kvformat.registry.contract.types import arrow_type, nullable
from kvformat.registry.format import Format
from kvformat.registry.sql.connector_options import KAFKA, UPSERT_KAFKA, masked, options_of, parse_option
from kvformat.registry.sql.table_definition import TableDefinition
from kvformat.registry.table import connector_checks as checks
from kvformat.registry.table.metadata import MetadataColumn, check_raw, readable, writable
from kvformat.registry.table.projection import key_columns, projected, value_columns
from kvformat.registry.table.record_layout import RecordLayout

_NO_COLUMNS = pa.schema([])


@dataclass(frozen=True)
class TablePlan:
    """One direction of a table, fully checked. `values` are the connector's options, parsed.

    `topics` is None for a table with a `topic_pattern`, and for one without either. `ignore_errors` drops bad records,
    at most `most_errors` of a batch; -1 means no limit.
    """

    table: TableDefinition
    layout: RecordLayout
    metadata: tuple[MetadataColumn, ...]
    topics: tuple[str, ...] | None
    topic_pattern: str | None
    ignore_errors: bool
    most_errors: int
    values: Mapping[str, Any]


def plan_table(table: TableDefinition, strict: bool, direction: Direction) -> TablePlan:
    """Return the plan, or raise the first error that Flink's factories would raise.

    `strict` requires a connector, a topic and brokers, as Flink does for a CREATE TABLE.
    """
    return _TablePlanner(table, strict, direction).plan()


class _TablePlanner:
    """Plans one direction of a table. `known` are the names of supported options; each format adds its own."""

    def __init__(self, table: TableDefinition, strict: bool, direction: Direction) -> None:
        self.table, self.strict, self.direction = table, strict, direction
        self.options = table.options
        checks.check_case(self.options)
        if strict and "connector" not in self.options:
            raise OptionError(
                "Table options do not contain an option key 'connector' for discovering a connector.",
                option="connector",
            )
        self.connector = self.options.get("connector", KAFKA)
        self.known = {spec.name for spec in options_of(self.connector)}
        self.upsert = self.connector == UPSERT_KAFKA
        self.values = _ParsedOptions(self.connector, self.options)
        self.physical = table.physical()

    def plan(self) -> TablePlan:
        """Run the checks in Flink's order; raises the first error."""
        reading = self.direction == "decode"
        if not reading:
            checks.check_topic(self.values, required=self.strict)
        key_format = self._key_format()
        value_key = "format" if "format" in self.options and not self.upsert else "value.format"
        value_format = self._format(value_key, "value")
        self._check_options()
        self._check_connector(reading, key_format, value_format)
        if reading and key_format is not None:
            key_format = value_format.for_key(key_format)
        layout = self._layout(key_format, value_format)
        self._check_row_key(layout)
        if self.table.partition_keys and not reading:
            raise ConfigurationError(f"table '{self.table.name}' is PARTITIONED BY: it can't be written to Kafka")
        topics = self.values["topic"]
        if reading:
            metadata = readable(self.table.name, self.table.metadata(), value_format)
        else:
            metadata = writable(self.table.name, self.table.metadata(), topics)
            check_raw(self.table.name, metadata, layout)
        self._check_runtime(reading)
        self._check_schema("key", key_format, layout.key_schema)
        self._check_schema("value", value_format, layout.value_schema)
        return TablePlan(
            self.table,
            layout,
            metadata,
            topics,
            self.values["topic-pattern"],
            self.values["ingestion.ignore-errors"],
            self.values["ingestion.error-tolerance.max-count"],
            dict(self.values),
        )

    # --- formats -------------------------------------------------------------------------------------------

    def _key_format(self) -> Format | None:
        if "key.format" not in self.options and not self.upsert:
            return None
        key_format = self._format("key.format", "key")
        if not self.upsert and key_format.changelog_mode is not ChangelogMode.INSERT_ONLY:
            kinds = ", ".join(kind.name for kind in RowKind if key_format.changelog_mode.contains(kind))
            raise OptionError(
                f"A key format should only deal with INSERT-only records. But {key_format.identifier} has a changelog "
                f"mode of [{kinds}]. ('key.format')",
                format=key_format.identifier,
                option="key.format",
            )
        return key_format

    def _format(self, option: str, part: Part) -> Format:
        """Return the format that an option names, with its own options, which begin with the format's name."""
        purpose = "scan" if self.direction == "decode" else "sink"
        if option not in self.options:
            raise OptionError(f"Could not find required {purpose} format '{option}'.", option=option)
        identifier = self.options[option]
        if masked(option, identifier) != identifier:  # a quote is missing, so the name contains other options
            raise OptionError(f"option '{option}': there is no format of this name", option=option)
        try:
            cls = format_class(identifier)
        except ConfigurationError as error:
            raise add_context(error, f"option '{option}': ") from error
        prefix = f"{option.removesuffix('format')}{identifier}."
        keys = {key.removeprefix(prefix): key for key in self.options if key.startswith(prefix)}
        known_keys = {short: key for short, key in keys.items() if find_option(cls.option_specs, short) is not None}
        self.known |= {f"{prefix}{spec.key}" for spec in cls.option_specs} | set(known_keys.values())
        options: Mapping[str, Any] = {short: self.options[key] for short, key in known_keys.items()}
        topics: tuple[str, ...] = self.values["topic"] or ()
        if len(topics) == 1:
            options = cls.complete_options(options, topic=topics[0], part=part)
        try:
            created = cls(options)
            created.prepare(self.direction, _NO_COLUMNS)
        except ConfigurationError as error:
            where = f"Error creating {purpose} format '{identifier}' in option space '{prefix}': "
            key = f" (option '{prefix}{error.option}')" if error.option else ""
            raise add_context(error, where, key) from error
        return created

    # --- connector -----------------------------------------------------------------------------------------

    def _check_options(self) -> None:
        """Check for missing, malformed and unknown options, in this order."""
        if self.strict and "properties.bootstrap.servers" not in self.options:
            raise OptionError(
                "One or more required options are missing.\n\nMissing required options are:\n\n"
                "properties.bootstrap.servers",
                option="properties.bootstrap.servers",
            )
        for key in self.values:
            self.values[key]  # raises if the value is malformed
        checks.check_unknown(self.connector, self.options, self.known)
        checks.check_alignment(self.connector, self.values)
        checks.check_tolerance(self.values)

    def _check_connector(self, reading: bool, key_format: Format | None, value_format: Format) -> None:
        if self.upsert:
            if reading:
                checks.check_offsets(self.values, "bounded")
            self._check_insert_only("key", key_format)
            if value_format.changelog_mode is not ChangelogMode.UPSERT:
                self._check_insert_only("value", value_format)
            if not self.table.primary_key:
                raise ConfigurationError(
                    "'upsert-kafka' tables require to define a PRIMARY KEY constraint. The PRIMARY KEY specifies which "
                    "columns should be read from or write to the Kafka message key. The PRIMARY KEY also defines "
                    "records in the 'upsert-kafka' table should update or delete on which keys."
                )
            if not reading:
                checks.check_flush(self.values)
                checks.check_guarantee(self.values)
            return
        if reading:
            checks.check_topic(self.values, required=self.strict)
            checks.check_offsets(self.values, "startup")
            checks.check_offsets(self.values, "bounded")
        else:
            checks.check_partitioner(self.values)
            checks.check_guarantee(self.values)
        if self.table.primary_key and value_format.changelog_mode is ChangelogMode.INSERT_ONLY:
            raise ConfigurationError(
                f"The Kafka table '{self.table.name}' with '{value_format.identifier}' format doesn't support defining "
                "PRIMARY KEY constraint on the table, because it can't guarantee the semantic of primary key.",
                format=value_format.identifier,
            )

    def _check_row_key(self, layout: RecordLayout) -> None:
        if layout.by_key and not layout.row_key:
            raise ConfigurationError(
                f"Table '{self.table.name}' produces a changelog stream that contains UPDATE_AFTER but no "
                "UPDATE_BEFORE. This requires defining a primary key constraint on the table. Declare one, or "
                "'key.fields'",
                format=layout.value_format.identifier,
            )

    def _check_insert_only(self, part: str, format: Format | None) -> None:
        if format is not None and format.changelog_mode is not ChangelogMode.INSERT_ONLY:
            raise OptionError(
                f"'upsert-kafka' connector doesn't support '{format.identifier}' as {part} format, because "
                f"'{format.identifier}' is not in insert-only mode.",
                format=format.identifier,
                option=f"{part}.format",
            )

    def _check_runtime(self, reading: bool) -> None:
        """Check what Flink checks when it creates the source or sink."""
        checks.check_parallelism("scan.parallelism" if reading else "sink.parallelism", self.values)
        if not self.strict:
            return
        topic, pattern = self.values["topic"], self.values["topic-pattern"]
        if reading and self.upsert and (topic is None) == (pattern is None):
            raise OptionError("Either Topic or Topic Pattern must be set for source. ('topic')", option="topic")
        if not reading and topic == ():
            raise OptionError("Either Topic or Topic Pattern must be set. ('topic' is empty)", option="topic")
        if reading:
            checks.check_group(self.values, self.options)

    # --- schemas -------------------------------------------------------------------------------------------

    def _layout(self, key_format: Format | None, value_format: Format) -> RecordLayout:
        fields = (self.table.primary_key or ()) if self.upsert else self.values["key.fields"]
        key_prefix = self.values["key.fields-prefix"] or ""
        value_prefix = self.values["value.fields-prefix"] or ""
        key = key_columns(self.physical, fields, key_prefix, has_format=key_format is not None)
        value = value_columns(self.physical, key, self.values["value.fields-include"], key_prefix, value_prefix)
        names = [field.name for field in self.physical.fields]
        row_key = tuple(names.index(name) for name in self.table.primary_key or ()) or key
        of_value = projected(self.physical, value, value_prefix)
        in_value = [name.name for place, name in zip(value, of_value.fields, strict=True) if place in row_key]
        return RecordLayout(
            physical=self.physical,
            key_format=key_format,
            value_format=value_format.for_rows(in_value, in_record=key_format is not None and set(row_key) <= set(key)),
            key_schema=None if key_format is None else arrow_schema(projected(self.physical, key, key_prefix)),
            value_schema=arrow_schema(of_value),
            key_indexes=key,
            value_indexes=value,
            upsert=self.upsert,
            row_key=row_key,
        )

    def _check_schema(self, part: Part, format: Format | None, schema: pa.Schema | None) -> None:
        """Run an empty batch, which fails for types that the format does not support."""
        if format is None or schema is None:
            return
        try:
            if self.direction == "decode":
                format.decode_batch(pa.nulls(0, pa.binary()), schema)
            else:
                format.encode_batch(pa.nulls(0, arrow_type(nullable(row_type(schema)))), schema)
        except ConfigurationError as error:
            raise add_context(error, f"{part} format '{format.identifier}': ") from error


class _ParsedOptions(Mapping[str, Any]):
    """The connector's options, each parsed when it is read, because Flink reports errors in the order it reads them."""

    def __init__(self, connector: str, options: Mapping[str, str]) -> None:
        self._specs = {spec.name: spec for spec in options_of(connector)}
        self._options = options

    def __getitem__(self, key: str) -> Any:
        return parse_option(self._specs[key], self._options)

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)
