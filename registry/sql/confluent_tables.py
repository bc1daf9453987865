"""Tables of Flink on Confluent Cloud, as SHOW CREATE TABLE shows them there, as tables of Kafka.

    CREATE TABLE `env`.`cluster`.`orders` (...) DISTRIBUTED BY HASH(`id`) INTO 6 BUCKETS
    WITH ('connector' = 'confluent', 'changelog.mode' = 'append', ...)

| on Confluent Cloud | here |
| --- | --- |
| `changelog.mode` = `append` | connector `kafka`; a PRIMARY KEY only says which columns are the key |
| `upsert` | connector `upsert-kafka` |
| `retract` or `upsert` with a Debezium format | connector `kafka`; `upsert` is the format's `changelog.mode` |
| name of the table | `topic`, unless it is given |
| DISTRIBUTED BY, else PRIMARY KEY | `key.fields` |
| `key.format`, `value.format` | the same, by default `avro-registry` |
| `value.fields-include`, by default `except-key` | `ALL`, `EXCEPT_KEY` |
| `scan.startup.mode`, by default `earliest-offset` | the same |
| `kafka.consumer.isolation-level`, by default `read-committed` | `properties.isolation.level` |
| `kafka.producer.compression.type` | `properties.compression.type` |
| `error-handling.mode` = `ignore` | `ingestion.ignore-errors` |
| `key.format.schema-context`, `value.format.schema-context` | the option `schema-context` of the format |
| metadata `$rowtime`, also without a column for a WATERMARK | `timestamp` |
| settings of the topic (`TOPIC_SETTINGS`), INTO n BUCKETS | no effect, because the topic exists |

Confluent Cloud knows its brokers and registry. Here options name them: `properties.bootstrap.servers`, and `url` of the
formats. An option of a format without `key.` or `value.` before it, such as `avro-registry.url`, counts for both.
Rules: "CREATE TABLE" in the documentation of Confluent Cloud for Apache Flink.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from kvformat.registry.contract.errors import OptionError, SchemaError
from kvformat.registry.contract.types import FlinkType, quoted
from kvformat.registry.sql.connector_options import CONFLUENT, KAFKA, UPSERT_KAFKA, masked
from kvformat.registry.sql.table_definition import TableColumn, TableDefinition

ROWTIME: Final = "$rowtime"
TOPIC_SETTINGS: Final = (
    "kafka.cleanup-policy",
    "kafka.compaction.time",
    "kafka.max-message-size",
    "kafka.message-timestamp-type",
    "kafka.partitions",
    "kafka.retention.size",
    "kafka.retention.time",
)
"""Options that Confluent Cloud makes a topic with. They have no effect here."""
_APPEND, _UPSERT, _RETRACT = "append", "upsert", "retract"
_MODE, _BROKERS, _STARTUP = "changelog.mode", "properties.bootstrap.servers", "scan.startup.mode"
_FORMAT: Final = "avro-registry"
_EARLIEST: Final = "earliest-offset"
_PARTS: Final = ("key", "value")
_TIMESTAMP: Final = "timestamp"


def rowtime_column() -> TableColumn:
    """Return the system column `$rowtime`, which every table on Confluent Cloud has: the time of the record."""
    instant = FlinkType("TIMESTAMP_LTZ", nullable=False, precision=3)
    return TableColumn(ROWTIME, "metadata", instant, ROWTIME, virtual=True)


def is_confluent(table: TableDefinition) -> bool:
    """Return whether a table is one of Flink on Confluent Cloud."""
    return table.options.get("connector") == CONFLUENT


def kafka_table(table: TableDefinition) -> TableDefinition:
    """Return a table of the connector `confluent` as one of `kafka` or `upsert-kafka`, and other tables as they are.

    Raises `OptionError` for options that Spark can't serve, or that lack brokers and registries, and `SchemaError` for
    a table that is DISTRIBUTED, but of another connector.
    """
    if is_confluent(table):
        return _Translation(table).table()
    if table.distribution is not None:
        raise SchemaError(
            f"table '{table.name}' is DISTRIBUTED, which only tables with 'connector' = '{CONFLUENT}' are; a table of "
            "Kafka has its key in 'key.fields'"
        )
    return table


class _Translation:
    """The translation of one table. `options` are those that are left, and those of the Kafka table."""

    def __init__(self, table: TableDefinition) -> None:
        self._table, self._options = table, dict(table.options)
        del self._options["connector"]

    def table(self) -> TableDefinition:
        """Return the table of Kafka."""
        table, options = self._table, self._options
        key_columns = table.distribution or table.partition_keys or table.primary_key or ()
        value_format = options.setdefault("value.format", _FORMAT)
        if key_columns:
            options.setdefault("key.format", _FORMAT)
        else:  # without a key, its options have no effect
            for key in [key for key in options if key.startswith("key.")]:
                del options[key]
        self._translate_formats()
        options.setdefault(_STARTUP, _EARLIEST)
        connector, primary_key = self._mode(value_format, key_columns)
        if connector == KAFKA and key_columns:
            options["key.fields"] = ";".join(key_columns)
        include = options.pop("value.fields-include", "except-key")
        if key_columns:
            options["value.fields-include"] = include.upper().replace("-", "_")
        options.setdefault("topic", table.short_name)
        self._translate_settings()
        self._check_addresses()
        return replace(
            table,
            columns=tuple(self._columns()),
            options={"connector": connector, **options},
            primary_key=primary_key,
            partition_keys=(),
            distribution=None,
        )

    def _mode(self, value_format: str, key_columns: Sequence[str]) -> tuple[str, tuple[str, ...] | None]:
        """Return the connector and the PRIMARY KEY for a changelog mode."""
        key = self._table.primary_key
        changes = "-debezium-" in value_format
        default = _RETRACT if changes else _APPEND if key is None else _UPSERT
        mode = self._choice(_MODE, default, (_APPEND, _UPSERT, _RETRACT))
        if changes and mode == _APPEND:
            why = "with a Debezium format it makes inserts of changes. Set 'retract', and filter the rows by 'row_kind'"
            raise self._refused(_MODE, mode, why)
        if changes:
            if mode == _UPSERT:
                self._options.setdefault(f"value.{value_format}.{_MODE}", _UPSERT)
            return KAFKA, key
        if mode == _RETRACT:
            why = "the kinds of rows are in the headers 'op' of the records. Set 'append' for a topic of inserts only"
            raise self._refused(_MODE, mode, why)
        if mode == _APPEND:
            return KAFKA, None
        if key is None or set(key_columns) != set(key):
            raise self._refused(_MODE, mode, "it needs a PRIMARY KEY, and the same columns in DISTRIBUTED BY")
        if self._options.pop(_STARTUP) != _EARLIEST:
            why = f"an upsert table is read from '{_EARLIEST}'. Replace the option"
            raise self._refused(_STARTUP, masked(_STARTUP, self._table.options[_STARTUP]), why)
        return UPSERT_KAFKA, key

    def _translate_formats(self) -> None:
        """Give each part the options of its format."""
        options = self._options
        for part in _PARTS:
            format = options.get(f"{part}.format")
            context = options.pop(f"{part}.format.schema-context", None)
            if context is not None:
                options[f"{part}.{format}.schema-context"] = context
        formats = {part: options[f"{part}.format"] for part in _PARTS if f"{part}.format" in options}
        for format in set(formats.values()):
            for key in [key for key in options if key.startswith(f"{format}.")]:
                value = options.pop(key)
                for part in formats:
                    if formats[part] == format:
                        options.setdefault(f"{part}.{key}", value)

    def _translate_settings(self) -> None:
        """Translate the options of readers and writers, and remove those without effect."""
        options = self._options
        for key in (*TOPIC_SETTINGS, "error-handling.log.target"):
            options.pop(key, None)
        level = self._choice("kafka.consumer.isolation-level", "read-committed", ("read-committed", "read-uncommitted"))
        options.setdefault("properties.isolation.level", level.replace("-", "_"))
        compression = options.pop("kafka.producer.compression.type", None)
        if compression is not None:
            options.setdefault("properties.compression.type", compression)
        errors = self._choice("error-handling.mode", "fail", ("fail", "ignore", "log"))
        if errors == "log":
            raise self._refused(
                "error-handling.mode", errors, "errors='capture' and dead_letters keep bad records. Set 'fail'"
            )
        if errors == "ignore":
            options.setdefault("ingestion.ignore-errors", "true")
        late = self._choice("late-handling.mode", "pass-through", ("pass-through", "filter"))
        if late == "filter":
            raise self._refused("late-handling.mode", late, "a query can drop late rows. Set 'pass-through'")

    def _choice(self, option: str, default: str, allowed: tuple[str, ...]) -> str:
        """Remove an option and return its value."""
        value = self._options.pop(option, default).lower()
        if value not in allowed:
            raise OptionError(
                f"option '{option}' must be one of {', '.join(allowed)}, not '{masked(option, value)}'", option=option
            )
        return value

    def _refused(self, option: str, value: str, why: str) -> OptionError:
        return OptionError(
            f"option '{option}' = '{value}' of table '{self._table.name}' is not supported: {why}", option=option
        )

    def _check_addresses(self) -> None:
        """Check that the brokers and the registries are given."""
        options = self._options
        missing = [] if _BROKERS in options else [_BROKERS]
        for part in _PARTS:
            begin = f"{part}.{options.get(f'{part}.format')}."
            needed = begin.endswith("-registry.") and "json-" not in begin  # JSON is read without its schema
            if needed and not any(f"{begin}{name}" in options for name in ("url", "schema-registry.url")):
                missing.append(f"{begin.removeprefix(f'{part}.')}url")
        if missing:
            names = ", ".join(f"'{name}'" for name in dict.fromkeys(missing))
            raise OptionError(
                f"table '{self._table.name}' with 'connector' = '{CONFLUENT}' does not say where the brokers and the "
                f"schema registry are, because Confluent Cloud knows them. Add {names}, for example by "
                "from_ddl(text, options={...}), and the options for authentication",
                option=missing[0],
            )

    def _columns(self) -> Iterator[TableColumn]:
        """Yield the columns; `$rowtime` gets the metadata key of Kafka's connector."""
        timestamp = next((c.name for c in self._table.columns if c.kind == "metadata" and c.key == _TIMESTAMP), None)
        for column in self._table.columns:
            if column.kind != "metadata" or column.key != ROWTIME:
                yield column
            elif timestamp is None:
                yield replace(column, key=_TIMESTAMP)
            else:  # only one column may have the key
                name = quoted(timestamp)
                yield TableColumn(column.name, "computed", column.type, source=name)
