"""The options of Spark's data source `kvformat`: those of the data source itself, and those of a table of Flink.

Spark gives the keys of options in small letters, and their values as text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvformat.connectors.data_source import DDL, NAME
from kvformat.registry.contract.errors import OptionError, did_you_mean, listed
from kvformat.registry.contract.options import Option, OptionValues, split_list
from kvformat.registry.sql.connector_options import KAFKA, UPSERT_KAFKA, masked, options_of
from kvformat.registry.sql.statements import is_path

REGISTRY = "registry"
OPTIONS = (
    Option(
        name=DDL,
        doc="the table: a text of Flink SQL with its CREATE TABLE, or the path of such a file on Spark's driver",
        sensitive=True,
    ),
    Option(name="table", doc="the table of a `ddl` that creates several"),
    Option(
        name="primary_key",
        type="list",
        default=(),
        doc="columns of the PRIMARY KEY, separated by `;`, for a table without a `ddl`",
    ),
    Option(
        name="changelog",
        type="boolean",
        doc="`true` or left out: changes with `row_kind`. The data source does not reduce changes to current rows",
    ),
    Option(
        name="metadata",
        doc="metadata columns after those of the table: keys separated by commas, each with its column before it if "
        "that has another name: `partition,at:timestamp`; or a JSON object of columns and keys",
    ),
    Option(
        name="errors",
        type="enum",
        default="raise",
        allowed=("raise", "capture"),
        doc="`capture` keeps bad records as rows with a column `error`; `raise` fails the job",
    ),
    Option(
        name="row_index",
        type="boolean",
        default=False,
        doc="adds the index of each row in its record, the column `row_index`",
    ),
    Option(name="skip_computed", type="list", default=(), doc="computed columns to leave out, separated by `;`"),
    Option(
        name="columns",
        type="list",
        doc="the only columns to read, separated by `;`: JSON and change data in JSON do not decode the others",
    ),
    Option(
        name="push_filters",
        type="boolean",
        default=False,
        doc="filters on metadata columns (`topic`, `partition`, `offset`, and from a `timestamp` on) narrow what a "
        "batch reads; needs `spark.sql.python.filterPushdown.enabled` = `true` in the session",
    ),
    Option(
        name="time_zone",
        doc="time zone of computed columns and of local timestamps; by default that of the session",
    ),
    Option(
        name="failOnDataLoss",
        type="boolean",
        default=True,
        doc="`false` reads on with a warning if records were deleted before they were read",
    ),
    Option(
        name="maxOffsetsPerTrigger",
        type="long",
        least=1,
        doc="largest number of offsets that a micro-batch reads; PySpark 4.1 has no such limit",
    ),
    Option(
        name="minPartitions",
        type="int",
        least=1,
        doc="smallest number of tasks; partitions of a topic are split for it",
    ),
    Option(
        name="maxRecordsPerPartition",
        type="long",
        least=1,
        doc="largest number of offsets that a task reads; partitions of a topic are split for it",
    ),
    Option(
        name=REGISTRY,
        type="map",
        default={},
        doc="`registry.url` and other options of `avro-confluent`: a schema registry that is asked for the columns, if "
        "they are proposed from messages",
        sensitive=True,
    ),
    Option(
        name="extra_columns",
        type="enum",
        default="warn",
        allowed=("warn", "error", "ignore"),
        doc="what happens if rows to be written have columns that the table does not have",
    ),
)
"""The options of the data source itself. All other options are those of a table, as in Flink's WITH clause."""
WIRE = f"{NAME}.wire"
"""Set by `KafkaTable`: columns have the types that the decoder gives them, and Spark casts them."""


RECORDS = f"{NAME}.records"
"""Set by `KafkaTable`: the rows are Kafka's records, with the columns of Spark's Kafka source."""
RANGES = f"{NAME}.ranges"
"""Set by ingestion: the rows are ranges of offsets, and a later step reads their records."""
_OF_SPARK = ("checkpointlocation", "queryname", "outputmode")
"""Options that Spark gives a data source for itself."""
_CATALOG = "provider"
"""An option that Spark gives for CREATE TABLE ... USING."""


@dataclass(frozen=True)
class SourceOptions:
    """Parsed options: `values` of the data source by name, `table` as given; `repr` masks secrets.

    wire: whether the columns have the types of the decoder. records: whether the rows are the records themselves.
    ranges: whether the rows are ranges of offsets.
    """

    values: Mapping[str, Any]
    table: Mapping[str, str]
    wire: bool = False
    records: bool = False
    ranges: bool = False

    @property
    def metadata(self) -> Mapping[str, str] | None:
        """The key of each metadata column, by the column's name."""
        text = self.values["metadata"]
        return None if text is None else _metadata(text)


def parse(options: Mapping[str, str]) -> SourceOptions:
    """Parse the options that Spark gives a data source.

    Raises `OptionError` for a wrong value, and for an unknown name if no option of a table could have it.
    """
    if _CATALOG in options or not options:
        raise no_options()
    specs = {spec.name.lower(): spec for spec in OPTIONS}
    values = {spec.name: spec.default for spec in OPTIONS}
    table: dict[str, str] = {}
    for key, text in options.items():
        spec = specs.get(key.lower())
        if key.startswith(f"{REGISTRY}."):
            values[REGISTRY] = {**values[REGISTRY], key.removeprefix(f"{REGISTRY}."): text}
        elif spec is not None:
            values[spec.name] = _parsed(spec, text)
            if spec.name == DDL and is_path(text):
                values[DDL] = _file_text(text.strip())
        elif key.lower() not in (WIRE, RECORDS, RANGES, *_OF_SPARK):
            _check_name(key)
            table[key] = text
    shown_values = {spec.name: spec.masked(values[spec.name]) for spec in OPTIONS}
    shown_table = {key: masked(key, text) for key, text in table.items()}
    return SourceOptions(
        OptionValues(values, shown_values),
        OptionValues(table, shown_table),
        WIRE in options,
        RECORDS in options,
        RANGES in options,
    )


def _file_text(path: str) -> str:
    """Return the text of a file. SQL has no way to read one."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        why = cause.strerror if isinstance(cause, OSError) else "it is not UTF-8"
        raise OptionError(
            f"data source '{NAME}': '{DDL}' is the path {path!r}, and Spark's driver can't read this file: {why}",
            option=DDL,
        ) from None


def no_options() -> OptionError:
    """Make the error for a data source without the options of a table, as Spark's tables in a catalog are."""
    return OptionError(
        f"data source '{NAME}' has no options of a table: give it '{DDL}' (a CREATE TABLE of Flink SQL), or 'topic' "
        f"and 'properties.bootstrap.servers'. Spark's CREATE TABLE ... USING {NAME} would lose the options, and store "
        f"secrets in its catalog: use CREATE TEMPORARY VIEW name USING {NAME} OPTIONS (...) instead",
        option=DDL,
    )


def _parsed(spec: Option, text: str) -> Any:
    try:
        return spec.parse(text)
    except ValueError as cause:
        raise OptionError(
            f"data source '{NAME}': invalid value {spec.shown(text)} for option '{spec.name}': {cause}",
            option=spec.name,
            reason=str(cause),
        ) from None


def _check_name(key: str) -> None:
    """Raise `OptionError` for a name that only an option of the data source could have: one word."""
    of_tables = {spec.name for connector in (KAFKA, UPSERT_KAFKA) for spec in options_of(connector)}
    if "." in key or "-" in key or key in of_tables:
        return  # the table checks it, with the options of its formats
    names = [spec.name for spec in OPTIONS]
    hint = ""
    if key in ("path", "paths"):
        hint = " A table has no path: name its topic with option 'topic', and call load() without an argument."
    raise OptionError(
        f"data source '{NAME}' has no option '{key}'.{did_you_mean(key, (*names, *of_tables))}{hint} Its options: "
        f"{listed(names)}, and those of a table of Flink, such as 'topic', 'format' and 'properties.bootstrap.servers'",
        option=key,
    )


def _metadata(text: str) -> Mapping[str, str]:
    if text.lstrip().startswith("{"):
        try:
            keys = json.loads(text)
        except ValueError as cause:
            raise OptionError(f"option 'metadata' is not a JSON object: {cause}", option="metadata") from None
        return {str(column): str(key) for column, key in keys.items()}
    pairs = (entry.rpartition(":") for entry in split_list(text, ",") if entry)
    return {(column or key).strip(): key.strip() for column, _, key in pairs}
