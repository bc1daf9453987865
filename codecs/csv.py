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

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from kvformat.codecs._csv.read import CsvReader
from kvformat.codecs._csv.settings import ReadSettings, WriteSettings
from kvformat.codecs._csv.types import check_types
from kvformat.codecs._csv.write import CsvWriter
from kvformat.codecs._timestamps.options import FORM_OPTIONS, TimestampForms
from kvformat.codecs._timestamps.write import TIMESTAMPS
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
            name="array-element-delimiter",
            default=";",
            doc="One character between the elements of an ARRAY or ROW.",
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
        Option(
            name="empty-string-as-null",
            type="boolean",
            default=False,
            doc="Whether empty text is read as NULL.",
        ),
        *FORM_OPTIONS,
    )

    @classmethod
    def recognize(cls, sample: MessageSample) -> Sequence[Recognition]:
        from kvformat.codecs._infer.delimited import recognize_csv

        return recognize_csv(sample)

    def propose_schema(self, sample: MessageSample) -> SchemaProposal:
        from kvformat.codecs._infer.delimited import propose_csv

        return propose_csv(sample, self._given)

    def validate(self, direction: Direction) -> None:
        for name in _CHARACTERS:
            value = self.options[name]
            if value is not None and _units(self._character(name)) != 1:
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
        options = self.options
        settings = ReadSettings(
            delimiter=self._character("field-delimiter"),
            quote=self._quote(),
            escape=options["escape-character"],
            element_delimiter=options["array-element-delimiter"],
            null_literal=options["null-literal"],
            lenient=options["ignore-parse-errors"],
            comments=options["allow-comments"],
            trim=options["trim-spaces"],
            ignore_trailing_unmappable=options["ignore-trailing-unmappable"],
            allow_trailing_comma=options["allow-trailing-comma"],
            fail_on_missing_columns=options["fail-on-missing-columns"],
            empty_string_as_null=options["empty-string-as-null"],
            forms=TimestampForms.of(options, self.identifier),
        )
        return _reader(row_type(schema), settings).read(messages)

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        return EncodedBatch(_writer(row_type(schema), self._write_settings()).write(rows))

    def native_encode(self, row: Column, schema: FlinkType, row_kind: Column | None) -> Column | None:
        from kvformat.codecs._csv.native import encode_native

        settings = self._write_settings()
        if settings.forms is not None and any(t.root in TIMESTAMPS for _, t in schema.walk()):
            return None  # Spark's own functions write no forms
        return encode_native(row, schema, settings)

    def _write_settings(self) -> WriteSettings:
        return WriteSettings(
            delimiter=self._character("field-delimiter"),
            quote=self._quote(),
            escape=self.options["escape-character"],
            element_delimiter=self.options["array-element-delimiter"],
            null_text=self.options["null-literal"] or "",
            scientific=bool(self.options["write-bigdecimal-in-scientific-notation"]),
            forms=TimestampForms.of(self.options, self.identifier),
        )

    def _character(self, name: str) -> str:
        text: str = self.options[name]
        return _unescaped(text) if name == "field-delimiter" else text

    def _quote(self) -> str | None:
        if self.options["disable-quote-character"]:
            return None
        return self.options["quote-character"] or '"'

    def _option_error(self, option: str, text: str) -> OptionError:
        return OptionError(text, format=self.identifier, option=option)


@cached_by_identity
def _reader(row: FlinkType, settings: ReadSettings) -> CsvReader:
    check_types(row, "decode")
    return CsvReader(row, settings)


@cached_by_identity
def _writer(row: FlinkType, settings: WriteSettings) -> CsvWriter:
    return CsvWriter(row, settings)


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


_JAVA_ESCAPE = re.compile(r"\\(?:u+([0-9a-fA-F]{4})|([0-3]?[0-7]{1,2})|(.)|)", re.DOTALL)
_JAVA_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}


def _unescaped(text: str) -> str:
    """Replace Java's escapes, as commons-text's `unescapeJava` does. It removes a backslash before other characters."""

    def character(found: re.Match[str]) -> str:
        unicode, octal, other = found.groups()
        if unicode or octal:
            return chr(int(unicode, 16) if unicode else int(octal, 8))
        return _JAVA_ESCAPES.get(other, other or "")

    return _JAVA_ESCAPE.sub(character, text)
