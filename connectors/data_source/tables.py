"""The table of a data source: from its `ddl`, from Flink's options and a schema, or proposed from the topic's messages.

table_of(options, schema)    the table; `schema` is the one of spark.read.schema(...), or of rows to be written
proposed_ddl(options)        a CREATE TABLE for the newest messages of the topic
named_as_proposed(options)   options for that table, whose format is `format` and not `value.format`
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from kvformat.connectors.data_source import DDL, NAME
from kvformat.connectors.data_source.options import REGISTRY, SourceOptions, no_options
from kvformat.connectors.offset_plan import OffsetPlan
from kvformat.connectors.reader.client_settings import reader_settings
from kvformat.connectors.reader.read import read_range
from kvformat.connectors.reader.records import KAFKA_FIELDS
from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.errors import OptionError, SchemaError
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.spark.decoded_columns import ERROR, ROW_INDEX, ROW_KIND

if TYPE_CHECKING:
    from pyspark.sql import types as T

_log = logging.getLogger("kvformat.data_source")
_SERVERS = "properties.bootstrap.servers"
_SAMPLE = 1000
"""Records of each partition from which columns are proposed."""
_FIELDS = ("key", "value", "headers")


def table_of(options: SourceOptions, schema: T.StructType | None = None) -> KeyValueFormat:
    """Return the table of the options.

    Without a `ddl` its columns are those of `schema`, except metadata columns and those that reading adds.
    Raises `OptionError`, `SchemaError` or another `ConfigurationError`.
    """
    values = options.values
    if values[DDL] is not None:
        if values["primary_key"]:
            raise OptionError("'primary_key' is for tables without a 'ddl': write PRIMARY KEY there", option=DDL)
        kv = KeyValueFormat.from_ddl(values[DDL], table=values["table"], options=options.table)
        if values["skip_computed"]:
            kv = kv.without_computed(*values["skip_computed"])
        # The columns of `metadata` may be among the chosen ones, and are not columns of the table.
        chosen = [name for name in values["columns"] or () if name not in (options.metadata or ())]
        return kv.only(chosen) if values["columns"] is not None else kv
    if not options.table:
        raise no_options()
    assert schema is not None
    table = {"connector": "kafka", **options.table}
    added = {*(options.metadata or ()), *([ROW_INDEX] if values["row_index"] else [])}
    added |= {ERROR} if values["errors"] == "capture" else set()
    kv = _of_columns(schema, table, values["primary_key"], {*added, ROW_KIND})
    if ROW_KIND in schema.names and kv.changelog_mode is ChangelogMode.INSERT_ONLY:
        return _of_columns(schema, table, values["primary_key"], added)  # its own column of this name
    return kv


def _of_columns(
    schema: T.StructType, table: Mapping[str, str], key: tuple[str, ...], added: set[str]
) -> KeyValueFormat:
    from pyspark.sql import types as T

    columns = T.StructType([field for field in schema.fields if field.name not in added])
    return KeyValueFormat(columns, table, primary_key=key).planned()


def proposed_ddl(options: SourceOptions) -> str:
    """Return a CREATE TABLE that reads the newest messages of the topic, and log it, with secrets masked.

    The format is that of the options, or a guess. Raises `OptionError` without a topic, `SchemaError` if the messages
    give no columns, `BrokerError`.
    """
    table_options = named_as_proposed(options.table)
    for key in ("topic", _SERVERS):
        if key not in table_options:
            raise OptionError(
                f"data source '{NAME}': without 'ddl' and without a schema, the columns are proposed from the messages "
                f"of a topic, which needs '{key}'",
                option=key,
            )
    if "key.format" in table_options:
        raise OptionError(
            "with 'key.format' the columns of the key must be declared: in a 'ddl', or with a schema and 'key.fields'; "
            "or leave the formats out, and those of key and value are guessed",
            option="key.format",
        )
    if options.values["primary_key"]:
        raise OptionError(
            "with 'primary_key' the columns must be declared, with spark.read.schema(...); or in a 'ddl' with its "
            "PRIMARY KEY",
            option="primary_key",
        )
    topic, format = table_options["topic"], table_options.get("format")
    records = _newest(table_options)
    if not len(records):
        raise SchemaError(
            f"topic '{topic}' has no messages from which columns can be proposed: declare them in a 'ddl', or with "
            "spark.read.schema(...)"
        )
    from kvformat.connectors.infer import infer_schema, inspect_topic  # imports all formats

    headers = [entries or [] for entries in records["headers"].to_pylist()]
    if format is None:
        inspection = inspect_topic(
            records["value"],
            records["key"],
            headers=headers,
            name=topic,
            topic=topic,
            bootstrap=table_options[_SERVERS],
            registry=options.values[REGISTRY] or None,
        )
        ddl, notes = inspection.ddl, inspection.notes
        if ddl is None:
            raise SchemaError(f"no table reads the newest messages of topic '{topic}': {'; '.join(inspection.notes)}")
    else:
        schema = infer_schema(
            records["value"],
            format=format,
            keys=records["key"],
            headers=headers,
            options=_format_options(table_options, format),
        )
        ddl, notes = schema.create_table(topic, topic=topic, bootstrap=table_options[_SERVERS]), schema.notes
    told = "".join(f"\n-- {note}" for note in notes)
    _log.warning("columns of topic '%s' as its newest messages propose them:\n%s%s", topic, ddl, told)
    return ddl


def named_as_proposed(options: Mapping[str, str]) -> dict[str, str]:
    """Return options with the names that a proposed table has: those of `value.format` without `value.`."""
    format = options.get("value.format")
    if format is None or "format" in options:
        return dict(options)
    renamed = {key for key in options if key == "value.format" or key.startswith(f"value.{format}.")}
    return {key.removeprefix("value.") if key in renamed else key: text for key, text in options.items()}


def _format_options(table_options: Mapping[str, str], format: str) -> dict[str, str]:
    """Return the options of a format without their prefix."""
    prefix = f"{format}."
    return {key.removeprefix(prefix): text for key, text in table_options.items() if key.startswith(prefix)}


def _newest(table_options: Mapping[str, str]) -> pa.Table:
    """Return the newest records of each partition, with the columns that proposals are made from."""
    client = {key: text for key, text in table_options.items() if key == "topic" or key.startswith("properties.")}
    raw = {"connector": "kafka", "format": "raw", "scan.startup.mode": "earliest-offset"}
    kv = KeyValueFormat("value BYTES", {**client, **raw}).planned()
    settings = reader_settings(kv)
    batches = [
        batch for partition in OffsetPlan(kv).newest(_SAMPLE) for batch in read_range(settings, partition, _FIELDS)
    ]
    return pa.Table.from_batches(batches, pa.schema([KAFKA_FIELDS.field(name) for name in _FIELDS])).combine_chunks()
