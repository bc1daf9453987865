r"""Parse the first record of a text into columns, by the grammar of Jackson's csv reader.

    1,"a ""b"", c",x      ['1', 'a "b", c', 'x']

A quote opens a quoted column only as its first character. Whitespace may follow the closing quote. An escape
character escapes the next character; `n`, `r`, `t` and `0` become control characters. A line break ends the record.
Rules: Jackson's `CsvDecoder` and `CsvParser`. They work on UTF-16 units. All special characters are single units, so
that this parser can work on code points.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvformat.codecs._csv.settings import ReadSettings
from kvformat.registry.contract.error_codes import ErrorCode

BLANKS = "".join(map(chr, range(33)))
"""The characters that Jackson skips and that Java's `String.trim` removes."""
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}


class CsvRecordError(ValueError):
    """A message is not a csv record of the schema. `str()` has the code, the reason, and the position if known."""

    def __init__(self, reason: str, at: int | None = None, *, code: ErrorCode = ErrorCode.MALFORMED) -> None:
        super().__init__(code.marked(reason if at is None else f"{reason} at character {at + 1}"))


class RecordParser:
    """Parses the first record of a text into at most `count` columns.

    Fewer columns are an error only with `fail_on_missing_columns`. `allow_trailing_comma` and
    `ignore_trailing_unmappable` decide whether more columns are an error.
    """

    def __init__(self, settings: ReadSettings, count: int) -> None:
        self._settings, self._count = settings, count
        self._delimiter, self._quote, self._escape = settings.delimiter, settings.quote, settings.escape
        blanks = "".join(c for c in BLANKS if c not in "\r\n" + settings.delimiter)
        self._blanks = re.compile(f"[{re.escape(blanks)}]*")
        self._plain = _none_of("\r\n", settings.delimiter, settings.escape)
        self._inner = _none_of(settings.quote, settings.escape)

    def columns(self, text: str, *, malformed: bool = False) -> list[str] | None:
        """Parse the columns of the first record. Returns None if the text has no record.

        `malformed` says that malformed bytes follow the text. They are an error if the record is not complete before
        them. Raises `CsvRecordError`.
        """
        at = self._record_start(text, 0)
        if at == len(text):
            if malformed:
                raise _unreadable()
            return None
        found: list[str] = []
        skipped, last = 0, ""
        for last, end in self._all(text, at):
            at = end
            if len(found) < self._count:
                found.append(last)
                continue
            skipped += 1
            if skipped > 1 and not self._settings.ignore_trailing_unmappable:
                break
        if skipped:
            self._check_trailing(skipped, last)
        if malformed and self._record_start(text, at) == len(text):
            raise _unreadable()
        if len(found) < self._count and self._settings.fail_on_missing_columns:
            raise CsvRecordError(
                f"not enough columns: expected {self._count}, found {len(found)}", code=ErrorCode.MISSING_FIELD
            )
        return found

    def _check_trailing(self, count: int, text: str) -> None:
        if self._settings.ignore_trailing_unmappable:
            return
        if count > 1 or text.strip(BLANKS) or not self._settings.allow_trailing_comma:
            raise CsvRecordError(
                f"too many columns: expected at most {self._count}; set ignore-trailing-unmappable to skip the others",
                code=ErrorCode.UNEXPECTED_FIELD,
            )

    def _record_start(self, text: str, at: int) -> int:
        """Return the offset of the next record: after comments and empty lines, if they are allowed."""
        if not self._settings.comments:
            return at
        return _end(_BETWEEN_RECORDS, text, at)

    def _all(self, text: str, at: int) -> Iterator[tuple[str, int]]:
        """Yield the columns of the record at an offset, each with the offset after it."""
        more = True
        while more:
            if self._settings.trim:
                at = _end(self._blanks, text, at)
            first = text[at : at + 1]
            if first and first in "\r\n":
                value, at, more = "", _skip_line_break(text, at), False
            elif first and first == self._quote:
                value, at, more = self._quoted(text, at + 1)
            else:
                value, at, more = self._unquoted(text, at)
            yield value, at

    def _unquoted(self, text: str, at: int) -> tuple[str, int, bool]:
        """Parse a column without quotes. Returns it, the offset after its delimiter, and whether a column follows."""
        end = _end(self._plain, text, at)
        value = text[at:end]
        if self._escape and text.startswith(self._escape, end) and self._escape != self._delimiter:
            pieces = [value]
            while text.startswith(self._escape, end):
                character, at = _escaped(text, end)
                end = _end(self._plain, text, at)
                pieces += character, text[at:end]
            value = "".join(pieces)
        if self._settings.trim:
            value = value.rstrip(BLANKS)
        return value, *self._skip_delimiter(text, end)

    def _quoted(self, text: str, at: int) -> tuple[str, int, bool]:
        """Parse a quoted column. `at` is the offset after the opening quote; returns as `_unquoted` does."""
        pieces: list[str] = []
        start = at
        while True:
            end = _end(self._inner, text, at)
            pieces.append(text[at:end])
            if end == len(text):
                raise CsvRecordError("no closing quote for the value that begins", start - 1)
            if text[end] != self._quote:
                character, at = _escaped(text, end)
            elif text.startswith(text[end], end + 1):
                character, at = text[end], end + 2
            else:
                break
            pieces.append(character)
        end = _end(self._blanks, text, end + 1)
        if end < len(text) and text[end] not in ("\r", "\n", self._delimiter):
            raise CsvRecordError(
                f"expected {self._delimiter!r} or the end after a closing quote, found {text[end]!r}", end
            )
        return "".join(pieces), *self._skip_delimiter(text, end)

    def _skip_delimiter(self, text: str, at: int) -> tuple[int, bool]:
        """Skip a delimiter or the end of the record. Returns the offset after it, and whether it was a delimiter."""
        if text.startswith(self._delimiter, at):
            return at + 1, True
        return (_skip_line_break(text, at) if at < len(text) else at), False


_BETWEEN_RECORDS = re.compile(r"(?:[ \r\n]++|#[^\r\n]*+)*+")


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return the end offset of a match. The pattern may match the empty string."""
    return pattern.match(text, at).end()  # type: ignore[union-attr]  # it always matches


def _none_of(*characters: str | None) -> re.Pattern[str]:
    special = re.escape("".join(filter(None, characters)))
    return re.compile(f"[^{special}]*" if special else "(?s:.*)")


def _escaped(text: str, at: int) -> tuple[str, int]:
    """Parse an escape sequence. Returns its character and the offset after it."""
    character = text[at + 1 : at + 2]
    if not character:
        raise CsvRecordError("nothing after the escape character", at)
    return _ESCAPED.get(character, character), at + 2


def _skip_line_break(text: str, at: int) -> int:
    return at + 2 if text.startswith("\r\n", at) else at + 1


def _unreadable() -> CsvRecordError:
    return CsvRecordError("bytes that are not UTF-8", code=ErrorCode.WRONG_CHARSET)
