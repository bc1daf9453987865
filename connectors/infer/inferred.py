"""What was inferred: columns, the options they need, and the CREATE TABLE of both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kvformat.registry.contract.discovery import format_class
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.options import OptionValues, find_option
from kvformat.registry.contract.samples import SchemaProposal, columns_text
from kvformat.registry.contract.schemas import spark_schema
from kvformat.registry.contract.types import FlinkField, FlinkType, quoted
from kvformat.registry.sql.connector_options import masked

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class InferredSchema:
    """A schema that was guessed from a sample, or that follows from another one.

    format: the format that reads it. fields: the columns, of Flink's types.
    options: what the format has to be told, without a prefix; their `repr` shows no secret.
    primary_key: the columns of the key, where the messages say so.
    notes: what was guessed, what did not fit together, what was left out.
    unreadable: why no format reads such messages as they are; empty where one does.
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
    def of(cls, format: str, given: Mapping[str, Any], proposal: SchemaProposal) -> InferredSchema:
        """Make the schema of a format's proposal; `given` are the options that the user gave."""
        options = {**given, **proposal.options}
        return cls(format, proposal.fields, options, proposal.primary_key, proposal.notes, proposal.unreadable)

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

    def create_table(
        self,
        name: str,
        *,
        topic: str,
        bootstrap: str,
        options: Mapping[str, Any] | None = None,
    ) -> str:
        """A CREATE TABLE for Flink, `KafkaTable.from_ddl` and `KeyValueFormat.from_ddl`, of the value of a topic.

        It reads from the beginning; `options` are further ones of the table, or others. In place of a secret the text
        has `******`: give the secret itself by `with_options`, or write it in. Raises `SchemaError` where no format
        reads such messages.
        """
        if self.unreadable or not self.fields:
            raise SchemaError(f"no table reads these messages: {self.unreadable or 'they have no columns'}")
        given = {
            "connector": "kafka",
            "topic": topic,
            "properties.bootstrap.servers": bootstrap,
            "scan.startup.mode": "earliest-offset",
            "format": self.format,
            **self.prefixed(f"{self.format}."),
            **(options or {}),
        }
        return table_text(name, self.fields, self.primary_key, given)

    def prefixed(self, prefix: str) -> dict[str, str]:
        """The options with a prefix, and masks for secrets."""
        return {f"{prefix}{key}": value for key, value in shown_options(self.format, self.options).items()}


def shown_options(format: str, options: Mapping[str, Any]) -> dict[str, str]:
    """The options of a format as they may be shown."""
    specs = format_class(format).option_specs
    return {key: str(masked(key, value, find_option(specs, key))) for key, value in options.items()}


def table_text(
    name: str, columns: Iterable[FlinkField], primary_key: tuple[str, ...], options: Mapping[str, Any]
) -> str:
    """A CREATE TABLE on several lines."""
    parts = [columns_text((column,)) for column in columns]
    if primary_key:
        parts.append(f"PRIMARY KEY ({', '.join(map(quoted, primary_key))}) NOT ENFORCED")
    given = [f"{_literal(key)} = {_literal(masked(key, str(value)))}" for key, value in options.items()]
    lines = ",\n  ".join(parts), ",\n  ".join(given)
    return f"CREATE TABLE {quoted(name)} (\n  {lines[0]}\n) WITH (\n  {lines[1]}\n)"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
