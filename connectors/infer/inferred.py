"""The result of schema inference: columns, the options that they need, and a CREATE TABLE of both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kvformat.registry.contract.discovery import format_class
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.fork_safe import cached_property
from kvformat.registry.contract.options import OptionValues, find_option
from kvformat.registry.contract.samples import SchemaProposal, columns_text
from kvformat.registry.contract.schemas import spark_schema
from kvformat.registry.contract.types import FlinkField, FlinkType, quoted
from kvformat.registry.sql.connector_options import masked

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class InferredSchema:
    """A schema that was inferred from a sample, or converted from a schema of a registry.

    format: the format that reads the messages.
    fields: the columns, with Flink's types.
    options: options that the format needs, without a prefix; their `repr` shows no secret.
    primary_key: the columns of the key, if the messages name them.
    notes: sentences about guesses, conflicts and columns that are left out.
    unreadable: why no format reads the messages; empty if one does.
    """

    format: str
    fields: tuple[FlinkField, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    primary_key: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unreadable: str = ""

    def __post_init__(self) -> None:
        shown = OptionValues(dict(self.options), shown_options(self.format, self.options))
        object.__setattr__(self, "options", shown)

    @classmethod
    def of(cls, format: str, options: Mapping[str, Any], proposal: SchemaProposal) -> InferredSchema:
        """Make the schema of a format's proposal; `options` are those that the user gave."""
        merged = {**options, **proposal.options}
        return cls(format, proposal.fields, merged, proposal.primary_key, proposal.notes, proposal.unreadable)

    @property
    def row(self) -> FlinkType:
        """The columns as a ROW."""
        return FlinkType("ROW", nullable=False, fields=self.fields)

    @property
    def ddl(self) -> str:
        """The columns as Flink's text, as every `schema` of the library takes it."""
        return columns_text(self.fields)

    @cached_property
    def schema(self) -> StructType:
        """The columns as a Spark struct."""
        return spark_schema(self.row)

    def create_table(self, name: str, *, topic: str, bootstrap: str, options: Mapping[str, Any] | None = None) -> str:
        """Return a CREATE TABLE for a topic's values, for Flink, `KafkaTable.from_ddl` and `KeyValueFormat.from_ddl`.

        The table is read from its beginning. `options` are more options of the table; they replace those of the same
        name. Secrets are `******` in the text: set them with `with_options`, or write them into the text.
        Raises `SchemaError` if no format reads the messages.
        """
        if self.unreadable or not self.fields:
            raise SchemaError(f"no table reads these messages: {self.unreadable or 'they have no columns'}")
        table_options = {
            "connector": "kafka",
            "topic": topic,
            "properties.bootstrap.servers": bootstrap,
            "scan.startup.mode": "earliest-offset",
            "format": self.format,
            **self.prefixed(f"{self.format}."),
            **(options or {}),
        }
        return table_text(name, self.fields, self.primary_key, table_options)

    def prefixed(self, prefix: str) -> dict[str, str]:
        """Return the options with a prefix, with secrets masked."""
        return {f"{prefix}{key}": value for key, value in shown_options(self.format, self.options).items()}


def shown_options(format: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a format as text, with secrets masked."""
    specs = format_class(format).option_specs
    return {key: str(masked(key, value, find_option(specs, key))) for key, value in options.items()}


def table_text(
    name: str, columns: Iterable[FlinkField], primary_key: tuple[str, ...], options: Mapping[str, Any]
) -> str:
    """Return a CREATE TABLE statement with several lines."""
    parts = [columns_text((column,)) for column in columns]
    if primary_key:
        parts.append(f"PRIMARY KEY ({', '.join(map(quoted, primary_key))}) NOT ENFORCED")
    pairs = [f"{_literal(key)} = {_literal(masked(key, str(value)))}" for key, value in options.items()]
    lines = ",\n  ".join(parts), ",\n  ".join(pairs)
    return f"CREATE TABLE {quoted(name)} (\n  {lines[0]}\n) WITH (\n  {lines[1]}\n)"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
