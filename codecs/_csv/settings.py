"""What the options of `csv` mean to its kernels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How records are read.

    `delimiter`, `quote`, `escape` and `element_delimiter` are single characters, `quote` and `escape` None where there
    is none. `lenient` is `ignore-parse-errors`, `comments` `allow-comments`, `trim` `trim-spaces`; the last three are
    the options of the same names.
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


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """How records are written: the characters as in `ReadSettings`; `null_text` stands for NULL."""

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    element_delimiter: str = ";"
    null_text: str = ""
    scientific: bool = False
