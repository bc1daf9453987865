"""`raw`: the message is the value of one column.

    STRING   text in `charset`              BYTES   the bytes as they are
    BOOLEAN  1 byte, true unless 00        TINYINT, SMALLINT, INT, BIGINT   1, 2, 4, 8 bytes, two's complement
    FLOAT, DOUBLE   4, 8 bytes, IEEE 754    `endianness` is the byte order

A null message is a row with NULL. NULL is written as a null message; as a Kafka value this is a tombstone. Text that is
not valid UTF-8 is an error, unless the option `invalid-text` allows it.
Rules: Flink's "Raw Format" page and its `RawFormatDeserializationSchema` and `RawFormatSerializationSchema`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.error_codes import ErrorCode, Reason, reason_arrays
from kvformat.registry.contract.errors import OptionError, SchemaError
from kvformat.registry.contract.options import Direction, Option
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.contract.schemas import row_type
from kvformat.registry.contract.types import FlinkType, quoted
from kvformat.registry.format import Format
from kvformat.registry.java.charsets import Charset, find_charset

if TYPE_CHECKING:
    from pyspark.sql import Column

_NUMBERS = {
    "BOOLEAN": "u1",
    "TINYINT": "i1",
    "SMALLINT": "i2",
    "INT": "i4",
    "BIGINT": "i8",
    "FLOAT": "f4",
    "DOUBLE": "f8",
}
_TEXTS, _BYTES = ("CHAR", "VARCHAR"), ("BINARY", "VARBINARY")
_ERROR, _REPLACE, _KEEP = "error", "replace", "keep"


class RawFormat(Format):
    """The `raw` format: a schema of exactly one column, of a text, binary, boolean or number type."""

    identifier: ClassVar[str] = "raw"
    option_specs: ClassVar[tuple[Option, ...]] = (
        Option(name="charset", default="UTF-8", doc="The charset of text, by any name that Java accepts."),
        Option(
            name="endianness",
            type="enum",
            default="big-endian",
            allowed=("big-endian", "little-endian"),
            doc="The byte order of numbers.",
        ),
        Option(
            name="invalid-text",
            type="enum",
            allowed=(_ERROR, _REPLACE, _KEEP),
            doc="Ours. How text is read that is not valid in its charset: `error` fails the message, `replace` "
            "reads U+FFFD for each malformed part. `keep`, only for UTF-8, keeps the bytes; Python functions and "
            "`toPandas()` then fail. Default: `error` for UTF-8, and `replace` for other charsets, as in Flink.",
        ),
    )

    @classmethod
    def recognize(cls, sample: MessageSample) -> Sequence[Recognition]:
        from kvformat.codecs.raw.columns import recognize_raw

        return recognize_raw(sample)

    def propose_schema(self, sample: MessageSample) -> SchemaProposal:
        from kvformat.codecs.raw.columns import propose_raw

        return propose_raw(sample, has_charset="charset" in self._raw_options)

    def validate(self, direction: Direction) -> None:
        charset = self._charset()
        if self.options["invalid-text"] == _KEEP and charset.name != "UTF-8":
            raise OptionError(
                f"'invalid-text' = '{_KEEP}' is only allowed for UTF-8, and 'charset' is {charset.name}. Text in this "
                f"charset must be converted: use '{_ERROR}' or '{_REPLACE}', or declare the column as BYTES",
                format=self.identifier,
                option="invalid-text",
            )

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        name, t = self._column(schema)
        values, reasons = messages, list[Reason | None]()
        if t.root in _NUMBERS:
            values, reasons = self._numbers(messages, t)
        elif t.root in _TEXTS:
            values, reasons = self._texts(messages, name)
        rows = pa.StructArray.from_arrays([values], names=[name])
        errors, codes = reason_arrays(reasons)
        if errors is None:
            return DecodedBatch(pa.ListArray.from_arrays(pa.array(np.arange(len(rows) + 1, dtype=np.int32)), rows))
        bad = errors.is_valid()
        good = np.asarray(pc.invert(bad))
        offsets = pa.array(np.concatenate(([0], np.cumsum(good, dtype=np.int32))).astype(np.int32))
        return DecodedBatch(
            pa.ListArray.from_arrays(offsets, rows.filter(pa.array(good)), mask=bad), None, errors, codes
        )

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        _, t = self._column(schema)
        values = rows.flatten()[0]  # a null row is a null message
        if t.root in _TEXTS:
            return EncodedBatch(self._charset().encode(values))
        return EncodedBatch(values if t.root in _BYTES else self._number_bytes(values, t))

    def native_encode(self, row: Column, schema: FlinkType, row_kind: Column | None) -> Column | None:
        (column,) = schema.fields
        is_utf8 = column.type.root in _TEXTS and self._charset().name == "UTF-8"
        return row.getField(column.name).cast("binary") if is_utf8 or column.type.root in _BYTES else None

    def _charset(self) -> Charset:
        try:
            return find_charset(self.options["charset"])
        except LookupError as cause:
            raise OptionError(
                f"Unsupported 'raw.charset' name: {self.options['charset']}. {cause.args[0]}",
                format=self.identifier,
                option="charset",
            ) from None

    def _column(self, schema: pa.Schema) -> tuple[str, FlinkType]:
        columns = row_type(schema).fields
        if len(columns) != 1:
            there = ", ".join(f"{quoted(column.name)} {column.type}" for column in columns)
            raise SchemaError(
                "The 'raw' format only supports single physical column. However the defined schema contains multiple "
                f"physical columns: [{there}]",
                format=self.identifier,
            )
        name, t = columns[0].name, columns[0].type
        if t.root not in _NUMBERS and t.root not in _TEXTS and t.root not in _BYTES:
            raise SchemaError(
                f"The 'raw' format doesn't supports '{t.summary()}' as column type. Column '{name}' must be one of "
                f"{', '.join((*_TEXTS, *_BYTES, *_NUMBERS))}",
                format=self.identifier,
                field=name,
            )
        return name, t

    def _texts(self, messages: pa.BinaryArray, name: str) -> tuple[pa.StringArray, list[Reason | None]]:
        charset = self._charset()
        policy = self.options["invalid-text"] or (_ERROR if charset.name == "UTF-8" else _REPLACE)
        if policy == _KEEP:
            return messages.view(pa.string()), []
        if policy == _REPLACE:
            return charset.decode(messages), []
        texts, faults = charset.decode_strictly(messages)
        if not faults:
            return texts, []
        errors: list[Reason | None] = [None] * len(messages)
        for place, at in faults.items():
            byte = messages[place].as_py()[at]
            errors[place] = Reason(
                ErrorCode.WRONG_CHARSET,
                f"field '{name}': not valid {charset.name} at byte {at} (0x{byte:02x}). Set 'charset' to the right "
                f"charset, or 'invalid-text' = '{_REPLACE}' to read U+FFFD here, or declare the column as BYTES",
            )
        return texts, errors

    def _dtype(self, t: FlinkType) -> np.dtype[np.void]:
        order = ">" if self.options["endianness"] == "big-endian" else "<"
        return np.dtype(order + _NUMBERS[t.root])

    def _numbers(self, messages: pa.BinaryArray, t: FlinkType) -> tuple[pa.Array, list[Reason | None]]:
        dtype = self._dtype(t)
        fits = pc.equal(pc.binary_length(messages), dtype.itemsize)  # null for a null message
        good = messages if messages.null_count == 0 and pc.all(fits, min_count=0).as_py() else messages.filter(fits)
        offset = np.frombuffer(good.buffers()[1], np.int32)[good.offset] if len(good) else 0
        data = np.frombuffer(good.buffers()[2] or b"", np.uint8)[offset : offset + len(good) * dtype.itemsize]
        numbers = data.view(dtype).astype(dtype.newbyteorder("="))
        values = pa.array(numbers != 0 if t.root == "BOOLEAN" else numbers)
        if len(good) == len(messages):
            return values, []
        place = np.cumsum(np.asarray(pc.fill_null(fits, False))) - 1
        values = values.take(pc.if_else(fits, pa.array(place), pa.scalar(None, pa.int64())))
        wrong = pc.fill_null(pc.invert(fits), False)
        if not pc.any(wrong, min_count=0).as_py():
            return values, []
        wanted = f"Size of data received for deserializing {t.root} type is not {dtype.itemsize}, but "
        sizes = pc.binary_length(messages).to_pylist()
        return values, [
            Reason(ErrorCode.MALFORMED, f"{wanted}{size}") if is_wrong else None
            for size, is_wrong in zip(sizes, wrong.to_pylist(), strict=True)
        ]

    def _number_bytes(self, values: pa.Array, t: FlinkType) -> pa.BinaryArray:
        dtype = self._dtype(t)
        stored = pa.from_numpy_dtype(dtype.newbyteorder("="))
        filled = np.asarray(pc.fill_null(values, False if t.root == "BOOLEAN" else 0).cast(stored))
        data = pa.py_buffer(np.ascontiguousarray(filled.astype(dtype)))
        fixed = pa.Array.from_buffers(pa.binary(dtype.itemsize), len(values), [None, data])
        messages = fixed.cast(pa.binary())
        return pc.if_else(values.is_valid(), messages, pa.scalar(None, pa.binary())) if values.null_count else messages
