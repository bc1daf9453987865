"""Options that all JSON formats have, and what they mean to the value kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvformat.registry.contract.options import Option

_ISO = "ISO-8601"
TIMESTAMP_OPTION = Option(
    name="timestamp-format.standard",
    default="SQL",
    allowed=("SQL", _ISO),
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


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How values are read.

    `streaming` picks the rules of Flink's streaming reader (`decode.json-parser.enabled`), else those of its tree
    reader, which all change-data formats use. `lenient` is `ignore-parse-errors`, `iso` the ISO-8601 timestamps.
    """

    streaming: bool = True
    lenient: bool = False
    fail_on_missing: bool = False
    iso: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> ReadSettings:
        """As the options of a format say; those of change data have neither the reader nor `fail-on-missing-field`."""
        return cls(
            streaming=options.get("decode.json-parser.enabled", False),
            lenient=options["ignore-parse-errors"],
            fail_on_missing=options.get("fail-on-missing-field", False),
            iso=options[TIMESTAMP_OPTION.name] == _ISO,
        )


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """How values are written. `null_key_mode` is FAIL, DROP or LITERAL."""

    iso: bool = False
    null_key_mode: str = "FAIL"
    null_key_literal: str = "null"
    plain_decimals: bool = False
    ignore_null_fields: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> WriteSettings:
        """As the options of a format say."""
        return cls(
            iso=options[TIMESTAMP_OPTION.name] == _ISO,
            null_key_mode=options["map-null-key.mode"],
            null_key_literal=options["map-null-key.literal"],
            plain_decimals=options["encode.decimal-as-plain-number"],
            ignore_null_fields=options["encode.ignore-null-fields"],
        )
