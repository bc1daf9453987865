"""What a command reads or writes by: a table of a DDL, or a format and a schema as a table of its own.

One object for both, so that a format alone has the same way through the commands as key and value together.
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
from kvformat.registry.contract.types import FlinkField
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.sql.statements import find_table
from kvformat.registry.sql.table_definition import TableDefinition
from kvformat.registry.table.metadata import READABLE, VALUE_PREFIX

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class ShownColumn:
    """A column of the rows that are shown: a physical one by its place, or metadata by its key."""

    name: str
    place: int = -1
    key: str = ""


@dataclass(frozen=True)
class ShownTable:
    """A table: what it means, its physical columns, those that are shown, and those that only Spark can compute.

    `framing` is how its messages are parted if nothing else is said.
    """

    kv: KeyValueFormat
    physical: tuple[FlinkField, ...]
    columns: tuple[ShownColumn, ...]
    framing: str
    left_out: tuple[str, ...] = ()

    @property
    def has_kinds(self) -> bool:
        """Whether its rows are more than inserts."""
        return self.kv.changelog_mode is not ChangelogMode.INSERT_ONLY

    @property
    def has_key(self) -> bool:
        """Whether its records have a key that is read and written."""
        return "key.format" in self.kv.options


def of_format(name: str, schema: str | None, options: Mapping[str, str], metadata: Sequence[str] = ()) -> ShownTable:
    """The table whose values are messages of a format, `metadata` by the format's own keys."""
    if schema is None:
        raise click.UsageError("a format needs a schema: --schema 'id BIGINT, name STRING'")
    get_format(name, options)  # so that its errors name the options as they were given
    fields = row_type(resolve_schema(schema)).fields
    kv = KeyValueFormat(schema, {"format": name} | {f"{name}.{key}": text for key, text in options.items()})
    known = {key: f"{VALUE_PREFIX}{key}" for key in format_class(name).metadata_types}
    known |= {key: key for key in READABLE}
    columns = [ShownColumn(field.name, place) for place, field in enumerate(fields)]
    return ShownTable(kv, fields, (*columns, *_extra(metadata, known)), "lines")


def of_ddl(file: Path, table: str | None, options: Mapping[str, str], metadata: Sequence[str] = ()) -> ShownTable:
    """A table of a file of Flink SQL, with options instead of its own; `metadata` is asked for beside what it declares.

    Columns of metadata are in the types of their keys, whatever they are declared as: casts are Spark's.
    """
    text = read_text(file)
    definition = find_table(text, table, choose="--table '{}'".format)
    kv = KeyValueFormat.from_ddl(text, table=table).with_options(options)
    option = "format" if "format" in kv.options else "value.format"
    known = [*READABLE, *(f"{VALUE_PREFIX}{key}" for key in format_class(kv.options[option]).metadata_types)]
    extra = _extra(metadata, {key: key for key in known})
    computed = tuple(column.name for column in definition.columns if column.kind == "computed")
    return ShownTable(kv, definition.physical().fields, (*_declared(definition), *extra), "records", computed)


def _extra(keys: Sequence[str], known: Mapping[str, str]) -> list[ShownColumn]:
    """Columns for metadata that is asked for; `known` has each key's full name."""
    for key in keys:
        if key not in known:
            raise MetadataError(
                f"there is no metadata key {key!r}.{did_you_mean(key, known)} Readable metadata keys: "
                f"{', '.join(known)}",
                field=key,
            )
    return [ShownColumn(key, key=known[key]) for key in keys]


def _declared(definition: TableDefinition) -> list[ShownColumn]:
    """The columns in their order, without those that are computed."""
    places = {field.name: place for place, field in enumerate(definition.physical().fields)}
    return [
        ShownColumn(column.name, places.get(column.name, -1), column.key)
        for column in definition.columns
        if column.kind != "computed"
    ]


def read_text(file: Path) -> str:
    """The text of a file of Flink SQL, `-` is stdin."""
    try:
        with click.open_file(str(file), "rb") as opened:
            text: str = opened.read().decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        raise SchemaError(f"cannot read {file} as UTF-8: {cause.reason} at byte {cause.start}") from None
    return text


# --- arguments ---------------------------------------------------------------------------------------------


def _pairs(ctx: click.Context, _: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter("an option is given as NAME=VALUE")  # what was found may be a secret
        found[name.strip()] = value
    return found


def option_option(what: str) -> Callable[[_F], _F]:
    """The option `-o NAME=VALUE`."""
    words = f"{what} Repeatable."
    return click.option("-o", "--option", "options", multiple=True, metavar="NAME=VALUE", callback=_pairs, help=words)


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
framing_option: Final = click.option(
    "--framing",
    type=click.Choice(FRAMINGS),
    help="How messages are parted: a line each; after four bytes of length; each file one; or records, JSON with key "
    "and value, as `kcat -J` prints them. Default: lines with --format, records with --ddl.",
)


def table_options(command: _F) -> _F:
    """The options by which `chosen` finds its table."""
    return _with(_OPTIONS, command)


def format_options(command: _F) -> _F:
    """The options for a format and its columns."""
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
) -> ShownTable:
    """The table that is meant; raises `click.UsageError` where that is not clear."""
    if ddl is None:
        if format_name is None:
            raise click.UsageError("say what the messages are: --format and --schema, or --ddl")
        if table is not None:
            raise click.UsageError("--table names a table of a --ddl, which is missing")
        return of_format(format_name, schema, options, metadata)
    if format_name is not None or schema is not None:
        raise click.UsageError("a --ddl has format and schema in it: leave out --format and --schema")
    return of_ddl(ddl, table, options, metadata)


def with_bootstrap(options: Mapping[str, str], bootstrap: str | None) -> dict[str, str]:
    """The options with the brokers that were named."""
    return dict(options) | ({} if bootstrap is None else {BOOTSTRAP: bootstrap})


def registry_options(options: Mapping[str, str], url: str) -> dict[str, str]:
    """The options of a schema registry: its URL, and what else `avro-confluent.*` says, such as credentials."""
    prefix = f"{OF_REGISTRIES}."
    return {key.removeprefix(prefix): text for key, text in options.items() if key.startswith(prefix)} | {"url": url}
