"""The table of a command: from a DDL, or from a format and a schema.

Both give a `ShownTable`, so that the commands handle a single format like a table with key and value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from kvformat.connectors.cli._framing import FRAMINGS
from kvformat.connectors.properties import PREFIX
from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.discovery import format_class, get_format
from kvformat.registry.contract.errors import MetadataError, SchemaError, did_you_mean
from kvformat.registry.contract.schemas import resolve_schema, row_type
from kvformat.registry.contract.types import FlinkField, FlinkType
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.sql.statements import find_table
from kvformat.registry.sql.table_definition import TableDefinition
from kvformat.registry.table.computed_columns import ComputedColumns
from kvformat.registry.table.metadata import RAW, READABLE, VALUE_PREFIX, connector_type

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class ShownColumn:
    """A column of the printed rows: a physical column with its index `place`, metadata with its `key`, or computed.

    `type` is that of a metadata column of the connector, or of a computed column.
    """

    name: str
    place: int = -1
    key: str = ""
    type: FlinkType | None = None
    computed: bool = False


@dataclass(frozen=True)
class ShownTable:
    """A table with its physical columns and the columns that commands print.

    `framing` is the default framing of its messages. `requested` is the metadata that was requested beside the table's.
    """

    kv: KeyValueFormat
    physical: tuple[FlinkField, ...]
    columns: tuple[ShownColumn, ...]
    framing: str
    computed: ComputedColumns | None = None
    requested: tuple[str, ...] = ()

    @property
    def has_kinds(self) -> bool:
        """Whether rows have a kind, because the table is not insert-only."""
        return self.kv.changelog_mode is not ChangelogMode.INSERT_ONLY

    @property
    def has_key(self) -> bool:
        """Whether the table writes the keys of records."""
        return "key.format" in self.kv.options or any(RAW[column.key] == "key" for column in self.written_raw)

    @property
    def written_raw(self) -> tuple[ShownColumn, ...]:
        """The columns that are written as key or value as they are: those that are not VIRTUAL, and requested ones."""
        virtual = {column.name for column in self.kv.columns if column.virtual} - {*self.requested}
        raw = {column.name: column for column in reversed(self.columns) if column.key in RAW}
        return tuple(column for column in raw.values() if column.name not in virtual)


def of_format(name: str, schema: str | None, options: Mapping[str, str], metadata: Sequence[str] = ()) -> ShownTable:
    """Return the table of a single format. `metadata` contains keys of the format or of Kafka."""
    if schema is None or not schema.strip():
        raise click.UsageError("a format needs a schema: --schema 'id BIGINT, name STRING'")
    get_format(name, options)  # checks the options first, so that errors use the names that the user gave
    fields = row_type(resolve_schema(schema)).fields
    kv = KeyValueFormat(schema, {"format": name} | {f"{name}.{key}": text for key, text in options.items()})
    known = {key: f"{VALUE_PREFIX}{key}" for key in format_class(name).metadata_types}
    known |= {key: key for key in READABLE}
    columns = [ShownColumn(field.name, place) for place, field in enumerate(fields)]
    return ShownTable(kv, fields, (*columns, *_extra(metadata, known)), "lines", requested=tuple(metadata))


def of_ddl(
    file: Path,
    table: str | None,
    options: Mapping[str, str],
    metadata: Sequence[str] = (),
    *,
    skip_computed: Sequence[str] | None = None,
) -> ShownTable:
    """Return a table of a Flink SQL file. `options` replace its own, and `metadata` adds to its metadata columns.

    Metadata columns have the types of their keys, not their declared types, because Spark does the casts. Raw keys and
    values have their declared types. `skip_computed` names computed columns to leave out; None does not evaluate any.
    """
    text = read_text(file)
    definition = find_table(text, table, options=options, choose="--table '{}'".format)
    kv = KeyValueFormat.from_ddl(text, table=table, options=options).without_computed(*skip_computed or ())
    option = "format" if "format" in kv.options else "value.format"
    known = [*READABLE, *(f"{VALUE_PREFIX}{key}" for key in format_class(kv.options[option]).metadata_types)]
    extra = _extra(metadata, {key: key for key in known})
    columns = (*_declared(definition, kv), *extra)
    computed = None if skip_computed is None else kv.computed_columns()
    return ShownTable(kv, definition.physical().fields, columns, "records", computed, tuple(metadata))


def _extra(keys: Sequence[str], known: Mapping[str, str]) -> list[ShownColumn]:
    """Return columns for requested metadata keys; `known` maps each key to its full name."""
    for key in keys:
        if key not in known:
            raise MetadataError(
                f"there is no metadata key {key!r}.{did_you_mean(key, known)} Readable metadata keys: "
                f"{', '.join(known)}",
                field=key,
            )
    return [ShownColumn(key, -1, known[key], connector_type(key) if key in READABLE else None) for key in keys]


def _declared(definition: TableDefinition, kv: KeyValueFormat) -> list[ShownColumn]:
    """Return the table's columns in order."""
    places = {field.name: place for place, field in enumerate(definition.physical().fields)}
    return [
        ShownColumn(
            column.name,
            places.get(column.name, -1),
            column.key,
            connector_type(column.key, column.type)
            if column.key in READABLE
            else column.type
            if column.kind == "computed"
            else None,
            column.kind == "computed",
        )
        for column in kv.columns
    ]


def read_text(file: Path) -> str:
    """Read a UTF-8 file of Flink SQL; `-` is stdin."""
    try:
        with click.open_file(str(file), "rb") as opened:
            text: str = opened.read().decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        raise SchemaError(f"cannot read {file} as UTF-8: {cause.reason} at byte {cause.start}") from None
    return text


# --- arguments ---------------------------------------------------------------------------------------------


def _pairs(ctx: click.Context, _: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    options = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter("an option is given as NAME=VALUE")  # the text is not quoted: it may be a secret
        options[name.strip()] = value
    return options


def option_option(what: str) -> Callable[[_F], _F]:
    """Return the command-line option `-o NAME=VALUE`."""
    words = f"{what} Repeatable."
    return click.option("-o", "--option", "options", multiple=True, metavar="NAME=VALUE", callback=_pairs, help=words)


conf_option: Final = click.option(
    "--conf",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_pairs,
    help="A setting of the Spark session. Repeatable.",
)
FILE: Final = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
BOOTSTRAP: Final = f"{PREFIX}bootstrap.servers"
OF_REGISTRIES: Final = "avro-confluent"
bootstrap_option: Final = click.option("-b", "--bootstrap", metavar="HOST:PORT,...", help="The brokers to ask.")
_OF_FORMAT: Final = (
    click.option("-f", "--format", "format_name", metavar="FORMAT", help="The format of the messages."),
    click.option("-s", "--schema", metavar="COLUMNS", help="The columns: 'id BIGINT, name STRING'."),
)
_OPTIONS: Final = (
    *_OF_FORMAT,
    option_option("An option of the format; with --ddl one of the table's, instead of its own."),
    click.option("--ddl", type=FILE, help="A file of Flink SQL with the table, instead of format and schema."),
    click.option("--table", metavar="NAME", help="The table, where the DDL creates several."),
)
skip_computed_option: Final = click.option(
    "--skip-computed",
    multiple=True,
    metavar="NAME",
    help="A computed column to leave out, such as one that can't be evaluated. Repeatable.",
)
framing_option: Final = click.option(
    "--framing",
    type=click.Choice(FRAMINGS),
    help="How messages are separated: a line each; after four bytes of length; each file one; or records, JSON with "
    "key and value, as `kcat -J` prints them. Default: lines with --format, records with --ddl.",
)


def table_options(command: _F) -> _F:
    """Add the options by which `chosen` finds its table: the command passes them on as they are."""
    return _with(_OPTIONS, command)


def format_options(command: _F) -> _F:
    """Add the options for a format and its columns."""
    return _with(_OF_FORMAT, command)


def _with(options: Sequence[Callable[[_F], _F]], command: _F) -> _F:
    for option in reversed(options):
        command = option(command)
    return command


def chosen(
    format_name: str | None,
    schema: str | None,
    options: Mapping[str, str],
    ddl: Path | None,
    table: str | None,
    metadata: Sequence[str] = (),
    *,
    skip_computed: Sequence[str] | None = None,
) -> ShownTable:
    """Return the table that the options select; raises `click.UsageError` if they are incomplete or contradict."""
    if ddl is None:
        if format_name is None:
            raise click.UsageError("say what the messages are: --format and --schema, or --ddl")
        if table is not None:
            raise click.UsageError("--table names a table of a --ddl, which is missing")
        if skip_computed:
            raise click.UsageError("--skip-computed names columns of a --ddl, which is missing")
        return of_format(format_name, schema, options, metadata)
    if format_name is not None or schema is not None:
        raise click.UsageError("a --ddl has format and schema in it: leave out --format and --schema")
    return of_ddl(ddl, table, options, metadata, skip_computed=skip_computed)


def with_bootstrap(options: Mapping[str, str], bootstrap: str | None) -> dict[str, str]:
    """Return the options with the brokers of `--bootstrap`, if given."""
    return dict(options) | ({} if bootstrap is None else {BOOTSTRAP: bootstrap})


def registry_options(options: Mapping[str, str], url: str) -> dict[str, str]:
    """Return the options of a schema registry: its URL, and other `avro-confluent.*` options such as credentials."""
    return options_of(OF_REGISTRIES, options) | {"url": url}


def options_of(format_name: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a format, without its name before them."""
    prefix = f"{format_name}."
    return {key.removeprefix(prefix): text for key, text in options.items() if key.startswith(prefix)}
