"""The methods and attributes that the author of a format writes.

Required are `identifier`, `decode_arrow` and `encode_arrow`. By default a format has no options, is insert-only, has no
metadata, and makes Spark Columns through Arrow.

A kernel does not raise for bad data. It reports the error of a message and decodes the others; the caller decides what
to do about errors. It does raise for options or a schema that the format does not support, also for an empty batch.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import pyarrow as pa

from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.errors import DirectionError, SchemaError
from kvformat.registry.contract.look import Looker, LookRequest, WrittenColumns
from kvformat.registry.contract.look_by_proposal import ProposalLooker
from kvformat.registry.contract.options import Direction, Option
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.contract.types import FlinkType

if TYPE_CHECKING:
    from pyspark.sql import Column

    from kvformat.registry.format import Format

Part = Literal["key", "value"]
HeaderNames: TypeAlias = str | tuple[str, ...]


class FormatHooks(abc.ABC):
    """Methods that the author of a format implements. The class derives from `Format`, which adds the public methods.

    `self.options` holds the parsed options by their declared names, with defaults.
    """

    identifier: ClassVar[str]
    """Name of the format in `get_format` and in tables."""
    option_specs: ClassVar[tuple[Option, ...]] = ()
    """Declarations of the options."""
    changelog_mode: ChangelogMode = ChangelogMode.INSERT_ONLY
    """Row kinds that messages may contain."""
    metadata_types: Mapping[str, str] = {}
    """Metadata keys and the text of their Flink types, in the order in which Flink lists them."""
    nulls_delete: bool = False
    """Whether a null value deletes the row of its key in every table that reads the key, not only in upsert tables."""
    time_digits: int = 0
    """Least number of fraction digits of TIME columns in Spark, even if the schema declares fewer."""
    own_columns: Mapping[str, str] = {}
    """Columns after those of the schema and the metadata in decoded rows: name -> text of the Flink type."""
    reads_by_name: ClassVar[bool] = False
    """Whether `decode` finds columns by their names, so that a schema may leave out columns that messages have."""
    record_headers: ClassVar[Mapping[Part, HeaderNames]] = {}
    """Headers of a record that belong to its key or value: part -> name or names. `add_header` reads them."""
    encode_needs_schema: ClassVar[bool] = False
    """Whether `encode` needs the declared types, because the bytes depend on more than the values."""

    @abc.abstractmethod
    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        """Decode a batch of messages.

        `Format.decode_batch` calls this with checked arguments: a plain binary array, a canonical schema and known
        metadata keys. The type of a row is `arrow_type(nullable(...))` of the schema. A format that can only encode
        raises `self.unsupported("decode")`.
        """

    @abc.abstractmethod
    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        """Encode a batch of rows.

        `Format.encode_batch` calls this with checked arguments: the columns of the schema, in its order and with its
        Arrow types. A format that can only decode raises `self.unsupported("encode")`.
        """

    def unsupported(self, direction: Direction) -> DirectionError:
        """Return the error of a format that supports only the other direction."""
        other = "encode" if direction == "decode" else "decode"
        return DirectionError(f"format '{self.identifier}' can only {other}, not {direction}", format=self.identifier)

    def validate(self, direction: Direction) -> None:  # noqa: B027 - a hook that few formats need
        """Check the options together. Raises `OptionError` for options that are invalid in this direction."""

    @classmethod
    def complete_options(cls, options: Mapping[str, Any], *, topic: str, part: Part) -> Mapping[str, Any]:
        """Return the options with additions for a table of one Kafka topic, such as the subject of a schema registry.

        `part` is 'key' or 'value'. Options given by the user must stay unchanged. By default, the formats among
        the options complete theirs.
        """
        return cls._complete_inner_options(options, topic=topic, part=part)

    @classmethod
    def look_options(cls, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options with additions for tables whose columns are not declared; see `looker`.

        Options given by the user must stay unchanged. Raises `OptionError` for one that declares columns. By default
        nothing is added.
        """
        return options

    def for_encoding(self, schema: pa.Schema) -> Format:
        """Return the format that a Spark job sends to its executors, after work that must happen once per job.

        `encode` calls this once, with the canonical schema; showing or running a plan does not. By default, the formats
        among the options are replaced by the results of their own `for_encoding` for the same schema.
        """
        return self._with_inner(lambda inner: inner.for_encoding(schema))

    def for_rows(self, key: Sequence[str], *, in_record: bool) -> Format:
        """Return the format for the values of a table with a primary key.

        `key` names the columns of the key that the value contains. `in_record` says that each record's key contains all
        columns of the primary key, even if its value contains none. By default, the formats among the options are
        replaced by the results of their own `for_rows`.
        """
        return self._with_inner(lambda inner: inner.for_rows(key, in_record=in_record))

    def for_key(self, key: Format) -> Format:
        """Return the format that reads the keys of records whose values this format reads; by default `key`.

        `key` is the declared key format. A format of change data may know how its connector writes keys.
        """
        return key

    def add_header(self, messages: pa.BinaryArray, headers: pa.BinaryArray | pa.StructArray) -> pa.BinaryArray:
        """Return the messages to decode for keys or values whose records have the header of `record_headers`.

        `headers` has the bytes of the header for each message, null if its record does not have it. For a tuple of
        names, it has a struct of them, with a field for each name; null if the record has none. A null message must
        stay null, and a message without a header unchanged. Called only if a record of the batch has a header.
        """
        return messages

    def is_tombstone(self, message: bytes) -> bool:
        """Return whether a message without rows deletes the row of its key, as a null value does; by default False.

        An example is `null` in JSON. Called for values of tables that change rows by their key.
        """
        return False

    @classmethod
    def recognize(cls, sample: MessageSample) -> Sequence[Recognition]:
        """Find the messages of a sample that are probably of this format; see `Recognition`.

        `inspect_topic` asks all formats. The default finds none.
        """
        return ()

    def propose_schema(self, sample: MessageSample) -> SchemaProposal:
        """Propose columns for the messages of a sample, and options that they need beside those of this format.

        `infer_schema` calls it. Messages that are malformed are skipped, with a note. The default raises `SchemaError`.
        """
        raise SchemaError(
            f"format '{self.identifier}' does not propose columns: its messages do not describe them. Give the schema "
            "yourself",
            format=self.identifier,
        )

    def looker(self, request: LookRequest) -> Looker:
        """Return a looker: it says of batches of messages to which tables they belong and what is new in them.

        Ingestion calls it for tables whose columns are not declared, before it decodes. A looker reports no error that
        `decode_batch` reports too, except for messages whose table can't be told. By default the table is the topic,
        and `propose_schema` proposes its columns; a format that proposes none has the known columns.
        """
        return ProposalLooker(self.propose_schema, request)

    def written_columns(self, messages: pa.BinaryArray) -> WrittenColumns | None:
        """Return the columns of messages by their own schemas, as `looker` finds them; by default None: no schemas.

        Ingestion decodes a message by the types of its own schema, and converts the values, if its table's column has
        a wider type that this schema does not have.
        """
        return None

    def native_decode(self, message: Column, schema: FlinkType, metadata: tuple[str, ...]) -> Column | None:
        """Return a Spark expression with exactly the kernel's result, if it is faster; by default None."""
        return None

    def native_encode(self, row: Column, schema: FlinkType, row_kind: Column | None) -> Column | None:
        """Return a Spark expression of the same bytes as the kernel's, if it is faster; by default None.

        `row` has the types of `schema`.
        """
        return None

    # --- `Format` implements these for the defaults above -----------------------------------------------

    @abc.abstractmethod
    def _with_inner(self, change: Callable[[Format], Format]) -> Format:
        """Return the format with `change` applied to the formats among its options."""

    @classmethod
    @abc.abstractmethod
    def _complete_inner_options(cls, options: Mapping[str, Any], *, topic: str, part: Part) -> Mapping[str, Any]:
        """Return the options with the additions of the formats among them."""
