"""`json`: an object per message, or an array of objects, one row each.

    {"id": 1, "price": 12.5, "at": "2024-02-29 23:59:59.123", "tags": ["a", null], "rec": {"x": 1}}

Columns are found by name; what is not in the schema is skipped, but it must be JSON.
Rules: Flink's "JSON Format" page, its `JsonParserRowDataDeserializationSchema` (the streaming reader, default),
`JsonRowDataDeserializationSchema` (the tree reader) and `JsonRowDataSerializationSchema`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from kvformat.codecs._json.read import JsonReader
from kvformat.codecs._json.settings import ReadSettings, WriteSettings
from kvformat.codecs._json.write import JsonWriter
from kvformat.registry._cache import cached_by_identity
from kvformat.registry.errors import OptionError
from kvformat.registry.format import DecodedBatch, EncodedBatch, Format
from kvformat.registry.options import Direction, Option
from kvformat.registry.types import FlinkType, row_type

if TYPE_CHECKING:
    from pyspark.sql import Column

READ_OPTIONS = (
    Option(
        name="fail-on-missing-field",
        type="boolean",
        default=False,
        doc="Whether a column that the message does not have is an error. Not together with `ignore-parse-errors`.",
    ),
    Option(
        name="ignore-parse-errors",
        type="boolean",
        default=False,
        doc="Whether a value that can't be read becomes NULL, and a message that can't be read is skipped.",
    ),
)
TIMESTAMP_OPTION = Option(
    name="timestamp-format.standard",
    default="SQL",
    allowed=("SQL", "ISO-8601"),
    doc="Timestamps as `2024-02-29 23:59:59.123` or as `2024-02-29T23:59:59.123`; TIMESTAMP_LTZ ends in `Z`.",
)
WRITE_OPTIONS = (
    Option(
        name="map-null-key.mode",
        type="enum",
        default="FAIL",
        allowed=("LITERAL", "FAIL", "DROP"),
        doc="What a null key makes of a map entry: an error, nothing, or one with the key `map-null-key.literal`.",
        checked="encode",
    ),
    Option(name="map-null-key.literal", default="null", doc="The key written for a null key in mode LITERAL."),
    Option(
        name="encode.decimal-as-plain-number",
        type="boolean",
        default=False,
        doc="Whether decimals are written with all digits of their scale and never an exponent.",
    ),
    Option(
        name="encode.ignore-null-fields",
        type="boolean",
        default=False,
        doc="Whether NULL columns are left out, at every level of rows.",
    ),
)


class JsonFormat(Format):
    """The `json` format."""

    identifier: ClassVar[str] = "json"
    option_specs: ClassVar[tuple[Option, ...]] = (
        *READ_OPTIONS,
        TIMESTAMP_OPTION,
        *WRITE_OPTIONS,
        Option(
            name="decode.json-parser.enabled",
            type="boolean",
            default=True,
            doc="Whether values are read by the rules of Flink's streaming reader, else by those of its tree reader.",
        ),
    )

    def validate(self, direction: Direction) -> None:
        check_read_options(self, direction)

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        settings = ReadSettings(
            streaming=self.options["decode.json-parser.enabled"],
            lenient=self.options["ignore-parse-errors"],
            fail_on_missing=self.options["fail-on-missing-field"],
            iso=self.options["timestamp-format.standard"] == "ISO-8601",
        )
        return _reader(row_type(schema), settings).read(messages)

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        messages, errors = _writer(row_type(schema), write_settings(self)).write(rows)
        return EncodedBatch(messages, errors)

    def native_encode(self, row: Column, schema: FlinkType, row_kind: Column | None) -> Column | None:
        from kvformat.codecs._json.native import encode_native

        return encode_native(row, schema, write_settings(self))


def check_read_options(format: Format, direction: Direction) -> None:
    """The rule of all JSON formats on options that exclude each other."""
    if direction == "decode" and format.options["fail-on-missing-field"] and format.options["ignore-parse-errors"]:
        raise OptionError(
            f"format '{format.identifier}': fail-on-missing-field and ignore-parse-errors shouldn't both be true; "
            "take one of them away",
            format=format.identifier,
            option="fail-on-missing-field",
        )


def write_settings(format: Format) -> WriteSettings:
    """What the options of a JSON format say about writing."""
    return WriteSettings(
        iso=format.options["timestamp-format.standard"] == "ISO-8601",
        null_key_mode=format.options["map-null-key.mode"],
        null_key_literal=format.options["map-null-key.literal"],
        plain_decimals=format.options["encode.decimal-as-plain-number"],
        ignore_null_fields=format.options["encode.ignore-null-fields"],
    )


@cached_by_identity
def _reader(row: FlinkType, settings: ReadSettings) -> JsonReader:
    return JsonReader(row, settings)


@cached_by_identity
def _writer(row: FlinkType, settings: WriteSettings) -> JsonWriter:
    return JsonWriter(row, settings)
