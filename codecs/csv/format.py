r"""`csv`: one record per message, without a line end.

    1,"Anna Smith",12.50,"2024-02-29 23:59:59.123",true,a;b;c,Berlin;10115
    INT STRING     DECIMAL TIMESTAMP(3)            BOOLEAN ARRAY ROW<city STRING, zip STRING>

Columns are found by position. Text is quoted if it has more than 24 characters, or a character that is not greater
than the larger of delimiter and quote. Numbers, booleans and NULL are never quoted. `array-element-delimiter` joins the
elements of an ARRAY or ROW, without quotes and escapes. Only the first record of a message is read.
Rules: Flink's "CSV Format" page, its `CsvRowDataDeserializationSchema`, `CsvRowDataSerializationSchema` and
`CsvFormatFactory`, and Jackson's csv module under them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from kvformat.codecs._timestamps.options import FORM_OPTIONS, TimestampForms
from kvformat.codecs._timestamps.write import TIMESTAMPS
from kvformat.codecs.csv.read import CsvReader
from kvformat.codecs.csv.settings import ReadSettings, WriteSettings, unescaped
from kvformat.codecs.csv.types import check_types
from kvformat.codecs.csv.write import CsvWriter
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.errors import OptionError
from kvformat.registry.contract.options import Direction, Option
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.contract.schemas import row_type
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.format import Format

if TYPE_CHECKING:
    from pyspark.sql import Column

_CHARACTERS = ("field-delimiter", "quote-character", "array-element-delimiter", "escape-character")


class CsvFormat(Format):
    """The `csv` format: scalars, and ARRAY and ROW of scalars."""

    identifier: ClassVar[str] = "csv"
    option_specs: ClassVar[tuple[Option, ...]] = (
        Option(
            name="field-delimiter",
            default=",",
            doc="One character between the columns. It may be a Java escape such as `\\t` or `\\u0001`.",
        ),
        Option(
            name="disable-quote-character",
            type="boolean",
            default=False,
            doc="Whether nothing is quoted. Quote characters are then ordinary characters.",
        ),
        Option(name="quote-character", doc='One character around text, by default `"`.'),
        Option(
            name="allow-comments",
            type="boolean",
            default=False,
            doc="Whether lines that begin with `#`, and empty lines, are skipped when reading.",
        ),
        Option(
            name="ignore-parse-errors",
            type="boolean",
            default=False,
            doc="Whether missing columns and values that can't be parsed become NULL. Malformed records are skipped.",
        ),
        Option(
            name="array-element-delimiter", default=";", doc="One character between the elements of an ARRAY or ROW."
        ),
        Option(name="escape-character", doc="One character that escapes the next character."),
        Option(name="null-literal", doc="The text of NULL. Unset, NULL is written as an empty column, and not read."),
        Option(
            name="write-bigdecimal-in-scientific-notation",
            type="boolean",
            doc="Whether decimals are written without trailing zeros, for example as `1E+2`. False by default.",
        ),
        Option(
            name="trim-spaces",
            type="boolean",
            default=False,
            doc="Whether whitespace around values and around their quotes is skipped when reading.",
        ),
        Option(
            name="ignore-trailing-unmappable",
            type="boolean",
            default=False,
            doc="Whether columns after those of the schema are skipped. If false, the record is malformed.",
        ),
        Option(
            name="allow-trailing-comma",
            type="boolean",
            default=True,
            doc="Whether one empty column after those of the schema is skipped.",
        ),
        Option(
            name="fail-on-missing-columns",
            type="boolean",
            default=False,
            doc="Whether a record with too few columns is malformed, also with `ignore-parse-errors`.",
        ),
        Option(name="empty-string-as-null", type="boolean", default=False, doc="Whether empty text is read as NULL."),
        *FORM_OPTIONS,
    )

    @classmethod
    def recognize(cls, sample: MessageSample) -> Sequence[Recognition]:
        from kvformat.codecs.csv.columns import recognize_csv

        return recognize_csv(sample)

    def propose_schema(self, sample: MessageSample) -> SchemaProposal:
        from kvformat.codecs.csv.columns import propose_csv

        return propose_csv(sample, self._raw_options)

    def validate(self, direction: Direction) -> None:
        for name in _CHARACTERS:
            value = self.options[name]
            text = unescaped(value) if value is not None and name == "field-delimiter" else value
            if text is not None and (len(text) != 1 or text > "\uffff"):
                raise self._option_error(
                    name, f"Option 'csv.{name}' must be a string with single character, but was: {value}"
                )
        if self.options["disable-quote-character"] and self.options["quote-character"] is not None:
            raise self._option_error(
                "quote-character",
                "Format cannot define a quote character and disabled quote character at the same time: remove "
                "'csv.quote-character' or 'csv.disable-quote-character'",
            )
        TimestampForms.of(self.options, self.identifier)

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        settings = ReadSettings.of(self.options)
        return _reader(row_type(schema), settings).read(messages)

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        return EncodedBatch(_writer(row_type(schema), WriteSettings.of(self.options)).write(rows))

    def native_encode(self, row: Column, schema: FlinkType, row_kind: Column | None) -> Column | None:
        from kvformat.codecs.csv.native import encode_native

        settings = WriteSettings.of(self.options)
        if settings.forms is not None and any(t.root in TIMESTAMPS for _, t in schema.walk()):
            return None  # Spark's own functions write no forms
        return encode_native(row, schema, settings)

    def _option_error(self, option: str, text: str) -> OptionError:
        return OptionError(text, format=self.identifier, option=option)


@cached_by_identity
def _reader(row: FlinkType, settings: ReadSettings) -> CsvReader:
    check_types(row, "decode")
    return CsvReader(row, settings)


_writer = cached_by_identity(CsvWriter)
