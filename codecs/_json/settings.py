"""What the options of the JSON formats mean to the value kernels."""

from __future__ import annotations

from dataclasses import dataclass


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


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """How values are written. `null_key_mode` is FAIL, DROP or LITERAL."""

    iso: bool = False
    null_key_mode: str = "FAIL"
    null_key_literal: str = "null"
    plain_decimals: bool = False
    ignore_null_fields: bool = False
