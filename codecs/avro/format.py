"""`avro`: one datum per message, with the schema derived from the table. No header, no fingerprint.

    id BIGINT NOT NULL, name STRING      row (7, "ab")      binary: 0e 02 04 61 62
                                                            json:   {"id":7,"name":{"string":"ab"}}

Messages must be written with the same schema: fields are not matched by name. Bytes after the datum are ignored; Flink
reads them as the start of the next message.
Rules: Flink's "Avro Format" page, its `AvroRowDataDeserializationSchema` and `AvroRowDataSerializationSchema`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs.avro.batches import encode
from kvformat.codecs.avro.json_encoding import AvroJsonReader, AvroJsonWriter
from kvformat.codecs.avro.parse import parse_schema
from kvformat.codecs.avro.read import read_batch
from kvformat.codecs.avro.resolve import plan
from kvformat.codecs.avro.schema import Schema
from kvformat.codecs.avro.table import lists_of_rows, read_table, write_table
from kvformat.codecs.avro.types import VARIANT_COLUMNS, check_variants, schema_text
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.error_codes import reason_arrays, reasons_of
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.options import Direction, Option
from kvformat.registry.contract.samples import MessageSample, SchemaProposal
from kvformat.registry.contract.schemas import row_type
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.format import Format

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType


class AvroFormat(Format):
    """The `avro` format."""

    identifier: ClassVar[str] = "avro"
    encode_needs_schema: ClassVar[bool] = True
    option_specs: ClassVar[tuple[Option, ...]] = (
        Option(
            name="encoding",
            type="enum",
            default="binary",
            allowed=("binary", "json"),
            doc="Avro's binary encoding or its JSON encoding. The JSON encoding is not the format `json`.",
        ),
        Option(
            name="timestamp_mapping.legacy",
            type="boolean",
            default=True,
            doc="With `true`, TIMESTAMP is `timestamp-millis`, up to TIMESTAMP(3), and TIMESTAMP_LTZ is refused. With "
            "`false`, TIMESTAMP is `local-timestamp-*` and TIMESTAMP_LTZ `timestamp-*`, both up to microseconds.",
        ),
        Option(
            name="timestamp-micros-as-millis",
            type="boolean",
            default=False,
            doc="Ours. Whether numbers of a `*-micros` schema are milliseconds, as in Flink up to 2.3.",
        ),
        VARIANT_COLUMNS,
    )

    def prepare(
        self, direction: Direction, schema: StructType | pa.Schema | str, metadata: Sequence[str] = ()
    ) -> pa.Schema:
        resolved = super().prepare(direction, schema, metadata)
        check_variants(row_type(resolved), self.options[VARIANT_COLUMNS.name] or (), self.identifier)
        return resolved

    def propose_schema(self, sample: MessageSample) -> SchemaProposal:
        from kvformat.codecs.avro.columns import propose_avro_files

        return propose_avro_files(sample)

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        table = self._table(schema)
        if self.options["encoding"] == "json":
            reader = AvroJsonReader(table.row, table.schema, micros_as_millis=table.micros_as_millis)
            rows, reasons = reader.read(messages)
            return DecodedBatch(lists_of_rows(rows), None, *reason_arrays(reasons))
        decoded = read_batch(messages, [plan(table.schema, table.schema)], table.schema, with_nulls=False)
        return read_table(decoded, table.row, micros_as_millis=table.micros_as_millis)

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        table = self._table(schema)
        if self.options["encoding"] == "json":
            writer = AvroJsonWriter(table.row, table.schema, micros_as_millis=table.micros_as_millis)
            return writer.write(rows)
        return encode_rows(rows, table.schema, table.row, micros_as_millis=table.micros_as_millis)

    def native_decode(self, message: Column, schema: FlinkType, metadata: tuple[str, ...]) -> Column | None:
        if not self._is_plain:
            return None
        from kvformat.codecs.avro.native import decode_native

        return decode_native(message, self._schema(schema), schema)

    def native_encode(self, row: Column, schema: FlinkType, row_kind: Column | None) -> Column | None:
        if not self._is_plain:
            return None
        from kvformat.codecs.avro.native import encode_native

        return encode_native(row, self._schema(schema), schema)

    @property
    def _is_plain(self) -> bool:
        """Whether Spark's own functions support the options."""
        return self.options["encoding"] == "binary" and not self.options["timestamp-micros-as-millis"]

    def _schema(self, row: FlinkType) -> Schema:
        return parse_schema(schema_text(row, legacy=self.options["timestamp_mapping.legacy"]))

    def _table(self, schema: pa.Schema) -> AvroTable:
        options = self.options
        if options["encoding"] == "json":
            for path, t in row_type(schema).walk():
                if t.root == "VARIANT":
                    raise SchemaError(
                        f"column '{path}': VARIANT needs 'encoding' = 'binary'. Declare it as STRING, the JSON text",
                        format=self.identifier,
                        field=path,
                    )
        return _table(schema, options["timestamp_mapping.legacy"], options["timestamp-micros-as-millis"])


@dataclass(frozen=True, slots=True)
class AvroTable:
    """A table's type and its Avro schema: the one derived from the type, or that of an option."""

    row: FlinkType
    schema: Schema
    micros_as_millis: bool = False


@cached_by_identity
def _table(schema: pa.Schema, legacy: bool, micros_as_millis: bool) -> AvroTable:
    row = row_type(schema)
    return AvroTable(row, parse_schema(schema_text(row, legacy=legacy)), micros_as_millis)


def encode_rows(
    rows: pa.StructArray, schema: Schema, row: FlinkType, *, prefix: bytes = b"", micros_as_millis: bool = False
) -> EncodedBatch:
    """Encode rows as datums of a schema for the type `row`, after a prefix. A null row is a null message."""
    values, reasons = write_table(rows, schema.arrow_type, row, micros_as_millis=micros_as_millis)
    encoded = encode(values, schema, prefix=prefix)
    errors, codes = encoded.errors, encoded.codes
    if reasons:
        all_reasons = reasons_of(errors, codes, len(rows))
        errors, codes = reason_arrays(reasons.get(index, reason) for index, reason in enumerate(all_reasons))
    elif not rows.null_count:
        return encoded
    absent = rows.is_null()
    blank = absent if errors is None else pc.or_(errors.is_valid(), absent)
    return EncodedBatch(pc.if_else(blank, pa.scalar(None, pa.binary()), encoded.messages), errors, codes)
