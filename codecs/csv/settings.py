"""The settings that the reader and the writer of `csv` take from its options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> ReadSettings:
        """Take the settings from the options of `csv`."""
        return cls(
            delimiter=unescaped(options["field-delimiter"]),
            quote=_quote(options),
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
            forms=TimestampForms.of(options, "csv"),
        )

    def of_records(self) -> dict[str, Any]:
        """Return what the kernel takes to find records and columns: the settings of its tokenizer."""
        return {
            "delimiter": _utf8(self.delimiter),
            "quote": None if self.quote is None else _utf8(self.quote),
            "escape": None if self.escape is None else _utf8(self.escape),
            "comments": self.comments,
            "trim": self.trim,
        }

    def of_rows(self) -> dict[str, Any]:
        """Return what the kernel takes to compare the columns of a record with those of the table."""
        return {
            "lenient": self.lenient,
            "ignore_trailing_unmappable": self.ignore_trailing_unmappable,
            "allow_trailing_comma": self.allow_trailing_comma,
            "fail_on_missing_columns": self.fail_on_missing_columns,
        }

    def of_values(self) -> dict[str, Any]:
        """Return what the kernel takes to read the text of a column or an element."""
        return {
            "null_literal": None if self.null_literal is None else _utf8(self.null_literal),
            "empty_is_null": self.empty_string_as_null,
            "lenient": self.lenient,
        }

    def of_elements(self) -> dict[str, Any]:
        """Return what the kernel takes to split an array or a row."""
        return {"delimiter": _utf8(self.element_delimiter), "trim": self.trim, "lenient": self.lenient}


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

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> WriteSettings:
        """Take the settings from the options of `csv`."""
        return cls(
            delimiter=unescaped(options["field-delimiter"]),
            quote=_quote(options),
            escape=options["escape-character"],
            element_delimiter=options["array-element-delimiter"],
            null_text=options["null-literal"] or "",
            scientific=bool(options["write-bigdecimal-in-scientific-notation"]),
            forms=TimestampForms.of(options, "csv"),
        )


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _quote(options: Mapping[str, Any]) -> str | None:
    return None if options["disable-quote-character"] else options["quote-character"] or '"'


_JAVA_ESCAPE = re.compile(r"\\(?:u+([0-9a-fA-F]{4})|([0-3]?[0-7]{1,2})|(.)|)", re.DOTALL)
_JAVA_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}


def unescaped(text: str) -> str:
    """Replace Java's escapes, as commons-text's `unescapeJava` does. It removes a backslash before other characters."""

    def character(match: re.Match[str]) -> str:
        unicode, octal, other = match.groups()
        if unicode or octal:
            return chr(int(unicode, 16) if unicode else int(octal, 8))
        return _JAVA_ESCAPES.get(other, other or "")

    return _JAVA_ESCAPE.sub(character, text)
