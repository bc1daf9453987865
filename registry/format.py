"""A format with its options: what users call.

The author of a format derives from `Format` and writes the methods of its base, `contract/format_hooks.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, final

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.changelog import ChangelogMode, RowKind
from kvformat.registry.contract.check_results import Checker, times_outside_a_day
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.error_codes import Reason
from kvformat.registry.contract.errors import ConfigurationError, MetadataError, SchemaError, did_you_mean, listed
from kvformat.registry.contract.fork_safe import cached_property
from kvformat.registry.contract.format_hooks import FormatHooks, Part
from kvformat.registry.contract.html import html
from kvformat.registry.contract.isolate_errors import isolate_errors, message_slices
from kvformat.registry.contract.join_batches import (
    fail_rows,
    failed_messages,
    failed_rows,
    insert_failed_rows,
    join_decoded,
    join_encoded,
    with_codes,
)
from kvformat.registry.contract.nested_formats import (
    complete_nested_options,
    find_nested_option,
    make_nested_format,
    nested_error,
)
from kvformat.registry.contract.normalize_input import binary_arrays, normalize_kinds, normalize_rows
from kvformat.registry.contract.options import Direction, OptionValues, display_value, parse_options
from kvformat.registry.contract.schemas import resolve_schema, result_arrow_type, row_type
from kvformat.registry.contract.secrets import scrubbed
from kvformat.registry.contract.types import FlinkField, FlinkType, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

Engine = Literal["auto", "arrow", "native"]
Errors = Literal["raise", "capture"]
_NO_COLUMNS = pa.schema([])


class Format(FormatHooks):
    """A format with its options: immutable, comparable, picklable; `repr` is a constructor call without secrets.

    `options` holds the parsed values by their declared names, with defaults.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        raw_options = dict(options or {})
        self._parsed = parse_options(self.identifier, self.option_specs, raw_options, make_nested_format)
        specs = {name: find_nested_option(self.option_specs, name) for name in raw_options}
        self._raw_options = OptionValues(
            raw_options, {name: spec.masked(raw_options[name]) for name, spec in specs.items() if spec}
        )
        # the formats among the options, by the names of the options
        self._inner = {name: value for name, value in self._parsed.values.items() if isinstance(value, Format)}

    # --- Arrow, no Spark -------------------------------------------------------------------------------

    @final
    def decode_batch(
        self, messages: pa.Array, schema: StructType | pa.Schema | str, *, metadata: Sequence[str] = ()
    ) -> DecodedBatch:
        """Decode a binary (or string) Arrow array with one element per message; see `DecodedBatch`.

        `metadata` names keys of `readable_metadata`; their columns follow those of the schema. Large arrays are decoded
        in slices. An exception of the kernel becomes the error of the message that causes it.
        Raises `OptionError`, `SchemaError` or `MetadataError`; `ContractError` if the kernel's result breaks the
        contract; `BatchSizeError` if the rows of all messages do not fit one Arrow array. Bad data raises no error.
        """
        resolved, keys = self.prepare("decode", schema, metadata), tuple(metadata)
        stored = _decoded_type(resolved, self, keys)
        try:
            arrays = binary_arrays(messages)
        except SchemaError as error:
            raise SchemaError(f"format '{self.identifier}': {error}", format=self.identifier) from None

        def failed(count: int, reason: Reason) -> DecodedBatch:
            return failed_rows(count, self._masked(reason), stored)

        slices = [part for array in arrays for part in message_slices(array)]
        parts = [
            failed(1, part) if isinstance(part, Reason) else self._decode_slice(part, resolved, keys, stored, failed)
            for part in slices
        ]
        return with_codes(join_decoded(parts))

    def _decode_slice(
        self,
        messages: pa.BinaryArray,
        schema: pa.Schema,
        metadata: tuple[str, ...],
        stored: pa.DataType,
        failed: Callable[[int, Reason], DecodedBatch],
    ) -> DecodedBatch:
        """Decode a slice of a batch; `failed` returns the result of a number of messages with the same error."""

        def run(start: int, count: int) -> DecodedBatch:
            some = messages.slice(start, count) if count < len(messages) else messages
            batch = self.decode_arrow(some, schema, metadata=metadata)
            Checker(self.identifier, "decode_arrow").decoded(batch, some, stored)
            reasons = times_outside_a_day(batch.rows.values, row_type(schema))
            return fail_rows(batch, reasons) if reasons else batch

        what = f"the decoder of format '{self.identifier}'"
        return isolate_errors(run, len(messages), failed=failed, join=join_decoded, what=what)

    @final
    def encode_batch(
        self, rows: pa.StructArray, schema: StructType | pa.Schema | str, *, row_kinds: pa.Array | None = None
    ) -> EncodedBatch:
        """Encode a struct array with one message per row; see `EncodedBatch`.

        Columns are found by name and cast if the cast is lossless. A null struct becomes a null message. `row_kinds`
        is a string array of the same length, or None for inserts; insert-only formats ignore it, as in Flink.
        An exception of the kernel, and a value out of range of its type, become the error of their row.
        Raises `OptionError` or `SchemaError`; `ContractError` if the kernel's result breaks the contract;
        `BatchSizeError` if the messages do not fit one Arrow array.
        """
        resolved = self.prepare("encode", schema)
        if row_kinds is not None:
            row_kinds = self._checked_kinds(row_kinds, len(rows))

        def failed(count: int, reason: Reason) -> EncodedBatch:
            return failed_messages(count, self._masked(reason))

        def run(start: int, count: int) -> EncodedBatch:
            some = normalize_rows(rows.slice(start, count) if count < len(rows) else rows, resolved)
            kinds = None if row_kinds is None else row_kinds.slice(start, count)
            reasons = times_outside_a_day(some, row_type(resolved))
            if not reasons:
                return self._encode_possible(some, resolved, kinds)
            good = pa.array([row not in reasons for row in range(count)], pa.bool_())
            kinds = None if kinds is None else kinds.filter(good)
            return insert_failed_rows(self._encode_possible(some.filter(good), resolved, kinds), good, reasons)

        what = f"the encoder of format '{self.identifier}'"
        return with_codes(isolate_errors(run, len(rows), failed=failed, join=join_encoded, what=what))

    def _encode_possible(
        self, rows: pa.StructArray, schema: pa.Schema, row_kinds: pa.StringArray | None
    ) -> EncodedBatch:
        batch = self.encode_arrow(rows, schema, row_kinds=row_kinds)
        Checker(self.identifier, "encode_arrow").encoded(batch, len(rows))
        return batch

    def _masked(self, reason: Reason) -> Reason:
        return replace(reason, text=self._mask_secrets(reason.text))

    def _mask_secrets(self, text: str) -> str:
        """Mask the values of secret options, and users and passwords of URLs, in any text."""
        return scrubbed(text, self._secrets())

    def _secrets(self) -> Iterator[str]:
        """Yield the values of secret options, also those of inner formats."""
        for name, value in self._raw_options.items():
            spec = find_nested_option(self.option_specs, name)
            if spec is not None and spec.sensitive:
                yield str(value)
        for inner in self._inner.values():
            yield from inner._secrets()

    def prepare(
        self, direction: Direction, schema: StructType | pa.Schema | str, metadata: Sequence[str] = ()
    ) -> pa.Schema:
        """Check options, metadata keys and schema for one direction; return the canonical schema.

        The options of nested formats are checked too, but not against the schema, which may be different for them.
        Raises `OptionError`, `MetadataError` or `SchemaError`.
        """
        if direction in self._parsed.deferred:
            raise self._parsed.deferred[direction]
        for name, inner in self._inner.items():
            try:
                inner.prepare(direction, _NO_COLUMNS)
            except ConfigurationError as error:
                raise nested_error(error, self.identifier, name, inner.identifier) from error
        self.validate(direction)
        for key in metadata:
            if key not in self.metadata_types:
                raise MetadataError(
                    f"format '{self.identifier}' has no metadata key {key!r}.{did_you_mean(key, self.metadata_types)} "
                    f"Readable metadata keys: {listed(self.metadata_types)}",
                    format=self.identifier,
                    field=key,
                )
        if isinstance(metadata, str) or len(set(metadata)) < len(metadata):
            raise MetadataError(f"metadata must be a list of distinct keys, not {metadata!r}", format=self.identifier)
        return resolve_schema(schema)

    def _checked_kinds(self, row_kinds: pa.Array, rows: int) -> pa.StringArray:
        kinds = normalize_kinds(row_kinds)
        if len(kinds) != rows:
            raise SchemaError(
                f"row_kinds must have one element per row: {rows} rows, but {len(kinds)} row kinds",
                format=self.identifier,
            )
        known = pc.is_in(kinds, pa.array([kind.value for kind in RowKind]))
        if not pc.all(known, min_count=0).as_py():
            wrong = kinds.filter(pc.invert(known))[0].as_py()
            raise SchemaError(
                f"{wrong!r} is not a row kind; use '+I', '-U', '+U' or '-D'", format=self.identifier, field="row_kind"
            )
        return kinds

    # --- Spark -----------------------------------------------------------------------------------------

    @final
    def decode(
        self,
        message: Column | str,
        schema: StructType | pa.Schema | str,
        *,
        metadata: Sequence[str] = (),
        errors: Errors = "raise",
        engine: Engine = "auto",
    ) -> Column:
        """Decode a message to a struct of the schema's columns and the requested metadata.

        For insert-only formats. A null or skipped message gives a null struct. A message with several rows is an error;
        use `decode_rows` for it. Columns are nullable at every level. `errors="raise"` fails the job at a bad message.
        `errors="capture"` returns `struct<row, error: struct<reason, message, code>>` and keeps bad messages.
        """
        from kvformat.registry.spark import columns as spark

        if self.changelog_mode is not ChangelogMode.INSERT_ONLY:
            raise ConfigurationError(
                f"format '{self.identifier}' decodes rows with row kinds: use decode_rows, not decode",
                format=self.identifier,
            )
        return spark.decode(self, message, schema, tuple(metadata), errors, engine)

    @final
    def decode_rows(
        self,
        message: Column | str,
        schema: StructType | pa.Schema | str,
        *,
        metadata: Sequence[str] = (),
        errors: Errors = "raise",
        engine: Engine = "auto",
    ) -> Column:
        """Decode a message to `array<struct<row_kind, columns...>>`.

        For every format. The array is null for a null message and empty for a skipped message. `errors="capture"`
        returns `struct<rows, error: struct<reason, message, code>>`.
        """
        from kvformat.registry.spark import columns as spark

        return spark.decode_rows(self, message, schema, tuple(metadata), errors, engine)

    @final
    def encode(
        self,
        row: Column | str,
        schema: StructType | pa.Schema | str | None = None,
        *,
        row_kind: Column | str | None = None,
        engine: Engine = "auto",
    ) -> Column:
        """Encode a struct column to a binary column of messages; a null struct gives null.

        Without `schema`, the column's own types are used, always with the Arrow engine. With `schema`, fields are found
        by name. A row that can't be encoded fails the job.
        """
        from kvformat.registry.spark import columns as spark

        if schema is None and self.encode_needs_schema:
            raise SchemaError(
                f"format '{self.identifier}' needs the declared types: encode(row, schema)", format=self.identifier
            )
        return spark.encode(self, row, schema, row_kind, engine)

    @property
    def readable_metadata(self) -> Mapping[str, DataType]:
        """Metadata keys that can be read, with their Spark types."""
        return self._readable_metadata

    @cached_property
    def _readable_metadata(self) -> Mapping[str, DataType]:
        return {key: spark_type(parse_type(text)) for key, text in self.metadata_types.items()}

    # --- options and equality ----------------------------------------------------------------------------

    @property
    def options(self) -> Mapping[str, Any]:
        """Parsed option values by their declared names. The `repr` masks secrets, `options[name]` does not."""
        return self._parsed.values

    def _with_inner(self, change: Callable[[Format], Format]) -> Format:
        """Return the format with `change` applied to the formats among its options."""
        changed = {name: change(inner) for name, inner in self._inner.items()}
        if all(changed[name] is inner for name, inner in self._inner.items()):
            return self
        replaced = {key for spec in self.option_specs if spec.name in changed for key in spec.keys(self._raw_options)}
        others = {key: value for key, value in self._raw_options.items() if key not in replaced}
        return type(self)({**others, **changed})

    @classmethod
    def _complete_inner_options(cls, options: Mapping[str, Any], *, topic: str, part: Part) -> Mapping[str, Any]:
        """Return the options with the additions of the formats among them."""
        return complete_nested_options(cls.option_specs, options, topic=topic, part=part)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._raw_options!r})" if self._raw_options else f"{type(self).__name__}()"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: options that are not None, and whether each was given. Secrets are masked."""
        shown = self._parsed.values.shown
        options = (
            (spec.name, display_value(shown[spec.name]), "given" if spec.keys(self._raw_options) else "default")
            for spec in self.option_specs
            if shown[spec.name] is not None
        )
        rows = ", ".join(kind for kind in RowKind if self.changelog_mode.contains(kind))
        return html(self.identifier, f"format with rows {rows}", (("option", "value", ""), options))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._raw_options == self._raw_options

    def __hash__(self) -> int:
        return hash((type(self), frozenset((name, str(value)) for name, value in self._raw_options.items())))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self._raw_options),)

    def result_type(self, schema: pa.Schema, metadata: Sequence[str] = ()) -> FlinkType:
        """Return the ROW type of decoded rows: the schema's columns, the requested metadata, `own_columns`."""
        columns = row_type(schema).fields
        beside = {**{key: self.metadata_types[key] for key in metadata}, **self.own_columns}
        return FlinkType(
            "ROW", fields=(*columns, *(FlinkField(name, parse_type(text)) for name, text in beside.items()))
        )


@cached_by_identity
def _decoded_type(schema: pa.Schema, format: Format, metadata: tuple[str, ...]) -> pa.DataType:
    """Return the Arrow type of decoded rows."""
    return result_arrow_type(format.result_type(schema, metadata))
