"""A format with its options: what users call.

The author of a format derives from `Format` and writes the methods of its base, `contract/format_hooks.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, final

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.changelog import ChangelogMode, RowKind
from kvformat.registry.contract.check_results import Checker, impossible_values
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.error_codes import parted
from kvformat.registry.contract.errors import ConfigurationError, MetadataError, SchemaError, did_you_mean, listed
from kvformat.registry.contract.format_hooks import FormatHooks, Part
from kvformat.registry.contract.html import html
from kvformat.registry.contract.isolate_errors import alone, message_slices
from kvformat.registry.contract.join_batches import (
    failed_messages,
    failed_rows,
    joined_messages,
    joined_rows,
    scattered,
    with_reasons,
)
from kvformat.registry.contract.nested_formats import complete_inner, inner_format, innermost, of_inner
from kvformat.registry.contract.normalize_input import conform, wide_messages
from kvformat.registry.contract.options import (
    Direction,
    OptionValues,
    parse_options,
    shown_value,
    without_userinfo_in,
)
from kvformat.registry.contract.schemas import resolve_schema, result_arrow_type, row_type
from kvformat.registry.contract.types import FlinkField, FlinkType, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

Engine = Literal["auto", "arrow", "native"]
Errors = Literal["raise", "capture"]
_Batch = TypeVar("_Batch", DecodedBatch, EncodedBatch)
_NO_COLUMNS = pa.schema([])


def _with_codes(batch: _Batch) -> _Batch:
    """A kernel's batch with the codes of its errors beside their texts."""
    if batch.errors is None or batch.codes is not None:
        return batch
    errors, codes = parted(batch.errors)
    return replace(batch, errors=errors, codes=codes)


class Format(FormatHooks):
    """A format with its options: immutable, comparable, picklable; `repr` is a constructor call without secrets.

    `options` holds the parsed values by their declared names, with defaults.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        given = dict(options or {})
        self._parsed = parse_options(self.identifier, self.option_specs, given, inner_format)
        specs = {name: innermost(self.option_specs, name) for name in given}
        self._given = OptionValues(given, {name: spec.masked(given[name]) for name, spec in specs.items() if spec})
        # the formats among the options, by the names of the options
        self._inner = {name: value for name, value in self._parsed.values.items() if isinstance(value, Format)}

    # --- Arrow, no Spark -------------------------------------------------------------------------------

    @final
    def decode_batch(
        self, messages: pa.Array, schema: StructType | pa.Schema | str, *, metadata: Sequence[str] = ()
    ) -> DecodedBatch:
        """Decode a binary (or string) Arrow array, one element per message; see `DecodedBatch`.

        `metadata` names keys of `readable_metadata`, whose columns follow those of the schema.
        Large arrays are read in slices. A message at which the kernel raises gets that as its error.
        Raises `OptionError`, `SchemaError` or `MetadataError`, never for bad data; `ContractError` if the kernel hands
        back something else than it should, `BatchSizeError` if the rows of all messages don't fit one Arrow array.
        """
        resolved, keys = self.prepare("decode", schema, metadata), tuple(metadata)
        stored = _stored_rows(resolved, self, keys)
        try:
            arrays = wide_messages(messages)
        except SchemaError as error:
            raise SchemaError(f"format '{self.identifier}': {error}", format=self.identifier) from None

        def failed(count: int, reason: str) -> DecodedBatch:
            return DecodedBatch(*failed_rows(count, self._without_secrets(reason), stored))

        slices = [part for array in arrays for part in message_slices(array)]
        parts = [
            failed(1, part) if isinstance(part, str) else self._decode_slice(part, resolved, keys, stored, failed)
            for part in slices
        ]
        return _with_codes(joined_rows(parts))

    def _decode_slice(
        self,
        messages: pa.BinaryArray,
        schema: pa.Schema,
        metadata: tuple[str, ...],
        stored: pa.DataType,
        failed: Callable[[int, str], DecodedBatch],
    ) -> DecodedBatch:
        """The rows of a slice of a batch; `failed` gives those of so many messages that all have an error."""

        def run(start: int, count: int) -> DecodedBatch:
            some = messages.slice(start, count) if count < len(messages) else messages
            batch = self.decode_arrow(some, schema, metadata=metadata)
            Checker(self.identifier, "decode_arrow").decoded(batch, some, stored)
            reasons = impossible_values(batch.rows.values, row_type(schema))
            return with_reasons(batch, reasons) if reasons else batch

        what = f"the decoder of format '{self.identifier}'"
        return alone(run, len(messages), failed=failed, joined=joined_rows, what=what)

    @final
    def encode_batch(
        self, rows: pa.StructArray, schema: StructType | pa.Schema | str, *, row_kinds: pa.Array | None = None
    ) -> EncodedBatch:
        """Encode a struct array, one message per row; see `EncodedBatch`.

        Columns are found by name and cast where nothing is lost; a null struct becomes a null message. `row_kinds`
        is a string array of the same length, None for inserts; insert-only formats don't look at it, as in Flink.
        A row at which the kernel raises, or with a value that its type can't hold, gets that as its error.
        Raises as `decode_batch` does.
        """
        resolved = self.prepare("encode", schema)
        if row_kinds is not None:
            row_kinds = self._checked_kinds(row_kinds, len(rows))

        def failed(count: int, reason: str) -> EncodedBatch:
            return EncodedBatch(*failed_messages(count, self._without_secrets(reason)))

        def run(start: int, count: int) -> EncodedBatch:
            some = conform(rows.slice(start, count) if count < len(rows) else rows, resolved)
            kinds = None if row_kinds is None else row_kinds.slice(start, count)
            reasons = impossible_values(some, row_type(resolved))
            if not reasons:
                return self._encode_possible(some, resolved, kinds)
            good = pa.array([row not in reasons for row in range(count)], pa.bool_())
            kinds = None if kinds is None else kinds.filter(good)
            return scattered(self._encode_possible(some.filter(good), resolved, kinds), good, reasons)

        what = f"the encoder of format '{self.identifier}'"
        return _with_codes(alone(run, len(rows), failed=failed, joined=joined_messages, what=what))

    def _encode_possible(
        self, rows: pa.StructArray, schema: pa.Schema, row_kinds: pa.StringArray | None
    ) -> EncodedBatch:
        batch = self.encode_arrow(rows, schema, row_kinds=row_kinds)
        Checker(self.identifier, "encode_arrow").encoded(batch, len(rows))
        return batch

    def _without_secrets(self, text: str) -> str:
        """A text that may come from anywhere without the values of secret options."""
        for name, value in self._given.items():
            spec = innermost(self.option_specs, name)
            if spec is not None and spec.sensitive and str(value):
                text = text.replace(str(value), str(spec.masked(value)))
        for inner in self._inner.values():
            text = inner._without_secrets(text)
        return without_userinfo_in(text)

    def prepare(
        self, direction: Direction, schema: StructType | pa.Schema | str, metadata: Sequence[str] = ()
    ) -> pa.Schema:
        """Check options, metadata keys and schema for one direction; returns the canonical schema.

        Formats among the options are checked too, but for the schema, which may be another one.
        """
        if direction in self._parsed.deferred:
            raise self._parsed.deferred[direction]
        for name, inner in self._inner.items():
            try:
                inner.prepare(direction, _NO_COLUMNS)
            except ConfigurationError as error:
                raise of_inner(error, self.identifier, name, inner.identifier) from error
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
            raise MetadataError(f"metadata must be a list of different keys, not {metadata!r}", format=self.identifier)
        return resolve_schema(schema)

    def _checked_kinds(self, row_kinds: pa.Array, rows: int) -> pa.StringArray:
        kinds = row_kinds.cast(pa.string())
        if len(kinds) != rows:
            raise SchemaError(f"{rows} rows, but {len(kinds)} row kinds", format=self.identifier)
        known = pc.is_in(kinds, pa.array([kind.value for kind in RowKind]))
        if not pc.all(known, min_count=0).as_py():
            wrong = kinds.filter(pc.invert(known))[0].as_py()
            raise SchemaError(
                f"{wrong!r} is no row kind; use '+I', '-U', '+U' or '-D'", format=self.identifier, field="row_kind"
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
        """A message as a struct: the schema's columns, then the metadata asked for; for insert-only formats.

        A null or skipped message gives a null struct; a message of several rows is an error that names
        `decode_rows`. Columns are nullable at every level. `errors="raise"` fails the job at a bad message;
        `errors="capture"` returns `struct<row, error: struct<reason, message, code>>` and loses nothing.
        """
        from kvformat.registry.spark import columns as spark

        if self.changelog_mode is not ChangelogMode.INSERT_ONLY:
            raise ConfigurationError(
                f"format '{self.identifier}' gives rows with kinds: use decode_rows, not decode", format=self.identifier
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
        """A message as `array<struct<row_kind, columns...>>`: null for a null message, empty for a skipped one.

        For any format. With `errors="capture"`: `struct<rows, error: struct<reason, message, code>>`.
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
        """A struct column as messages (binary); a null struct gives null. A row that can't be written fails the job.

        Without `schema` the column's own types count, always by the Arrow engine. With it, fields are found by name.
        """
        from kvformat.registry.spark import columns as spark

        if schema is None and self.encode_needs_schema:
            raise SchemaError(
                f"format '{self.identifier}' needs the declared types: encode(row, schema)", format=self.identifier
            )
        return spark.encode(self, row, schema, row_kind, engine)

    @property
    def readable_metadata(self) -> Mapping[str, DataType]:
        """The metadata keys that can be read, with their Spark types."""
        return self._readable_metadata

    @cached_property
    def _readable_metadata(self) -> Mapping[str, DataType]:
        return {key: spark_type(parse_type(text)) for key, text in self.metadata_types.items()}

    # --- an object like any other ------------------------------------------------------------------------

    @property
    def options(self) -> Mapping[str, Any]:
        """The parsed option values under their declared names; its `repr` shows no secret, `options[name]` does."""
        return self._parsed.values

    def _with_inner(self, change: Callable[[Format], Format]) -> Format:
        """The format with the formats among its options changed."""
        changed = {name: change(inner) for name, inner in self._inner.items()}
        if all(changed[name] is inner for name, inner in self._inner.items()):
            return self
        replaced = {key for spec in self.option_specs if spec.name in changed for key in spec.keys(self._given)}
        others = {key: value for key, value in self._given.items() if key not in replaced}
        return type(self)({**others, **changed})

    @classmethod
    def _complete_inner_options(cls, options: Mapping[str, Any], *, topic: str, part: Part) -> Mapping[str, Any]:
        """Return the options with the additions of the formats among them."""
        return complete_inner(cls.option_specs, options, topic=topic, part=part)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._given!r})" if self._given else f"{type(self).__name__}()"

    def _repr_html_(self) -> str:
        """What a notebook shows: the options that count, and which of them were given. Without secrets, as `repr`."""
        shown = self._parsed.values.shown
        options = (
            (spec.name, shown_value(shown[spec.name]), "given" if spec.keys(self._given) else "default")
            for spec in self.option_specs
            if shown[spec.name] is not None
        )
        rows = ", ".join(kind for kind in RowKind if self.changelog_mode.contains(kind))
        return html(self.identifier, f"format, of rows {rows}", (("option", "value", ""), options))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._given == self._given

    def __hash__(self) -> int:
        return hash((type(self), frozenset((name, str(value)) for name, value in self._given.items())))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self._given),)

    def result_type(self, schema: pa.Schema, metadata: Sequence[str] = ()) -> FlinkType:
        """The ROW that decoding gives: the schema's columns, the metadata asked for, and the format's own columns."""
        columns = row_type(schema).fields
        beside = {**{key: self.metadata_types[key] for key in metadata}, **self.own_columns}
        return FlinkType(
            "ROW", fields=(*columns, *(FlinkField(name, parse_type(text)) for name, text in beside.items()))
        )


@cached_by_identity
def _stored_rows(schema: pa.Schema, format: Format, metadata: tuple[str, ...]) -> pa.DataType:
    """The Arrow type of the rows that decoding gives."""
    return result_arrow_type(format.result_type(schema, metadata))
