"""Options of all JSON formats, and the settings that the reader and the writer take from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvformat.codecs._timestamps.options import TimestampForms
from kvformat.registry.contract.options import Option

_ISO = "ISO-8601"
TIMESTAMP_OPTION = Option(
    name="timestamp-format.standard",
    default="SQL",
    allowed=("SQL", _ISO),
    doc="Timestamps are `2024-02-29 23:59:59.123` or `2024-02-29T23:59:59.123`. TIMESTAMP_LTZ ends with `Z`.",
)
WRITE_OPTIONS = (
    Option(
        name="map-null-key.mode",
        type="enum",
        default="FAIL",
        allowed=("LITERAL", "FAIL", "DROP"),
        doc="Writing a map entry with a null key: `FAIL` is an error, `DROP` skips the entry, `LITERAL` "
        "writes the key `map-null-key.literal`.",
        checked="encode",
    ),
    Option(name="map-null-key.literal", default="null", doc="The key that mode `LITERAL` writes for a null key."),
    Option(
        name="encode.decimal-as-plain-number",
        type="boolean",
        default=False,
        doc="Whether decimals are written with all digits of their scale and without an exponent.",
    ),
    Option(
        name="encode.ignore-null-fields",
        type="boolean",
        default=False,
        doc="Whether fields that are NULL are omitted, in nested rows as well.",
    ),
)


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How values are read.

    `streaming` is `decode.json-parser.enabled`: it selects the rules of Flink's streaming reader. Without it, the rules
    of Flink's tree reader apply, as in all change-data formats. `lenient` is `ignore-parse-errors`, `fail_on_missing`
    is `fail-on-missing-field`, and `iso` selects ISO-8601 timestamps. With `epochs`, dates and times are also read from
    numbers, as Kafka Connect writes them. With `forms`, timestamps are read in these forms instead.
    """

    streaming: bool = True
    lenient: bool = False
    fail_on_missing: bool = False
    iso: bool = False
    epochs: bool = False
    forms: TimestampForms | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any], forms: TimestampForms | None = None) -> ReadSettings:
        """Take the settings from options. Change-data formats lack the parser option and `fail-on-missing-field`."""
        return cls(
            streaming=options.get("decode.json-parser.enabled", False),
            lenient=options["ignore-parse-errors"],
            fail_on_missing=options.get("fail-on-missing-field", False),
            iso=options[TIMESTAMP_OPTION.name] == _ISO,
            forms=forms,
        )


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """How values are written. `null_key_mode` is FAIL, DROP or LITERAL.

    `trimmed_decimals`: whether plain decimals have no zeros at their ends, as in Flink 1. `epochs`: whether dates and
    times are numbers, as Kafka Connect writes them. With `forms`, timestamps are written in one of these forms instead.
    """

    iso: bool = False
    null_key_mode: str = "FAIL"
    null_key_literal: str = "null"
    plain_decimals: bool = False
    ignore_null_fields: bool = False
    trimmed_decimals: bool = False
    epochs: bool = False
    forms: TimestampForms | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any], forms: TimestampForms | None = None) -> WriteSettings:
        """Take the settings from options."""
        return cls(
            iso=options[TIMESTAMP_OPTION.name] == _ISO,
            null_key_mode=options["map-null-key.mode"],
            null_key_literal=options["map-null-key.literal"],
            plain_decimals=options["encode.decimal-as-plain-number"],
            ignore_null_fields=options["encode.ignore-null-fields"],
            forms=forms,
        )
