"""The settings that the reader and the writer of `csv` take from its options."""

from __future__ import annotations

from dataclasses import dataclass

from kvformat.codecs._timestamps.options import TimestampForms


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How records are read.

    `delimiter`, `quote`, `escape` and `element_delimiter` are single characters. `quote` and `escape` may be None.
    `lenient` is `ignore-parse-errors`, `comments` is `allow-comments`, and `trim` is `trim-spaces`. With `forms`,
    timestamps are read in these forms. All other settings are the options with their names.
    """

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    element_delimiter: str = ";"
    null_literal: str | None = None
    lenient: bool = False
    comments: bool = False
    trim: bool = False
    ignore_trailing_unmappable: bool = False
    allow_trailing_comma: bool = True
    fail_on_missing_columns: bool = False
    empty_string_as_null: bool = False
    forms: TimestampForms | None = None


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """How records are written.

    `delimiter`, `quote`, `escape` and `element_delimiter` are single characters. `quote` and `escape` may be None.
    NULL is written as `null_text`. `scientific` is `write-bigdecimal-in-scientific-notation`. With `forms`,
    timestamps are written in one of these forms.
    """

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    element_delimiter: str = ";"
    null_text: str = ""
    scientific: bool = False
    forms: TimestampForms | None = None
