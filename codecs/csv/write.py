"""Write rows as csv records, column by column, with the same bytes as Flink.

A column becomes an array of texts without nulls, and a mask of the texts that need quotes. A single join then makes
the records. Only characters above U+FFFF, some floating-point numbers and years outside of 0 to 9999 are formatted one
at a time. Rules: Flink's `RowDataToCsvConverters`, Jackson's `CsvGenerator` and `CsvEncoder` (the loose check for
quotes), with the number texts of `registry/java/numbers.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Mask, replace_malformed, text_bytes
from kvformat.codecs._timestamps.texts import TEXT, date_texts, time_texts, timestamp_texts
from kvformat.codecs._timestamps.write import TIMESTAMPS, check_forms, form_writer
from kvformat.codecs.csv.settings import WriteSettings
from kvformat.codecs.csv.types import check_types
from kvformat.codecs.json.write import base64_texts, list_counts, list_offsets
from kvformat.registry.contract.types import INTEGER_BITS, FlinkType
from kvformat.registry.java.numbers import double_texts, plain_decimal_texts, stripped_decimal_texts

MOST_UNQUOTED = 24
"""Texts with more UTF-16 units are always quoted."""
RAW = ("BOOLEAN", *INTEGER_BITS, "FLOAT", "DOUBLE", "DECIMAL")
"""The types that are never quoted."""
_FIRST_SURROGATE, _FIRST_ASTRAL = 0xD800, 0x10000


class CsvWriter:
    """Writes rows of one type. Raises `SchemaError` for types that csv does not support."""

    def __init__(self, row: FlinkType, settings: WriteSettings) -> None:
        check_types(row, "encode")
        check_forms(row, settings.forms)
        self._row, self._settings = row, settings
        self._quoting = Quoting(settings)

    def write(self, rows: pa.StructArray) -> pa.BinaryArray:
        """Write a message per row, null for a null row. Every value can be written."""
        parts: list[pa.Array | str] = []
        for field, values in zip(self._row.fields, rows.flatten(), strict=True):
            if parts:
                parts.append(self._settings.delimiter)
            parts += self._column(values, field.type)
        pieces = [pa.scalar(part, TEXT) if isinstance(part, str) else part for part in parts]
        records = (
            pc.binary_join_element_wise(*pieces, pa.scalar("", TEXT))
            if pieces
            else pa.repeat(pa.scalar("", TEXT), len(rows))
        )
        if rows.null_count:
            records = pc.if_else(rows.is_valid(), records, pa.scalar(None, TEXT))
        return records.cast(pa.large_binary()).cast(pa.binary())

    def _column(self, values: pa.Array, t: FlinkType) -> list[pa.Array | str]:
        null = self._settings.null_text
        texts = self._texts(values, t)
        if t.root in RAW or self._settings.quote is None:
            return [texts.fill_null(null)]
        texts, quoted = self._quoting.apply(texts)
        if values.null_count:
            quoted &= values.is_valid().to_numpy(zero_copy_only=False)
            texts = texts.fill_null(null)
        if not quoted.any():
            return [texts]
        quote = self._settings.quote
        if quoted.all():
            return [quote, texts, quote]
        marks = pa.array(["", quote], TEXT).take(pa.array(quoted.view(np.uint8)))
        return [marks, texts, marks]

    def _texts(self, values: pa.Array, t: FlinkType) -> pa.LargeStringArray:
        """Format the values of a column, without quotes. Null stays null."""
        if t.root == "ARRAY":
            return self._lists(values, t.fields[0].type)
        if t.root == "ROW":
            return self._rows(values, t)
        if t.root == "DECIMAL":
            text = stripped_decimal_texts if self._settings.scientific else plain_decimal_texts
            return text(values).cast(TEXT)
        if self._settings.forms is not None and t.root in TIMESTAMPS:
            return form_writer(t, self._settings.forms).texts(values)
        return _SCALARS[t.root](values)

    def _lists(self, values: pa.ListArray, element: FlinkType) -> pa.LargeStringArray:
        offsets = list_offsets(list_counts(pc.list_value_length(values)))
        elements = self._texts(values.flatten(), element).fill_null(self._settings.null_text)
        lists = pa.LargeListArray.from_arrays(pa.array(offsets), elements)
        return _null_where(values, pc.binary_join(lists, pa.scalar(self._settings.element_delimiter, TEXT)))

    def _rows(self, values: pa.StructArray, t: FlinkType) -> pa.LargeStringArray:
        null = self._settings.null_text
        members = [self._texts(v, f.type).fill_null(null) for f, v in zip(t.fields, values.flatten(), strict=True)]
        join_texts = pc.binary_join_element_wise(*members, pa.scalar(self._settings.element_delimiter, TEXT))
        return _null_where(values, join_texts)


def _null_where(values: pa.Array, texts: pa.LargeStringArray) -> pa.LargeStringArray:
    return pc.if_else(values.is_valid(), texts, pa.scalar(None, TEXT)) if values.null_count else texts


# --- quotes --------------------------------------------------------------------------------------------


class Quoting:
    """Decides which texts need quotes, and doubles the characters that must be doubled inside quotes.

    A text is quoted if it has more than 24 UTF-16 units, or a character that is not greater than the larger of
    delimiter and quote. It is also quoted if it has the escape character, or a backslash if there is none.
    """

    def __init__(self, settings: WriteSettings) -> None:
        self.safe = max(ord(settings.delimiter), ord(settings.quote or "\0")) + 1
        others = settings.escape or "\\"
        self._others = others
        self.pattern = _unsafe_pattern(self.safe, others)
        special = [code for code in range(128) if code < self.safe or chr(code) in others]
        self._table = np.zeros(256, bool)
        self._table[special] = True
        self._by_bytes = self.safe <= 128 and others.isascii()
        self.doubled = sorted({character for character in (settings.quote, settings.escape) if character})

    def is_unsafe(self, character: str) -> bool:
        """Whether a text with this character is quoted."""
        return ord(character) < self.safe or character in self._others

    def apply(self, texts: pa.LargeStringArray) -> tuple[pa.LargeStringArray, Mask]:
        """Return the texts with doubled characters, and a mask of the texts that need quotes.

        The mask is undefined for nulls.
        """
        if self._by_bytes:
            offsets, data = text_bytes(texts)
            counts = np.zeros(len(data) + 1, np.int32)
            np.cumsum(self._table[data], out=counts[1:])
            quoted: Mask = counts[offsets[1:]] > counts[offsets[:-1]]
        else:
            quoted = _flags(pc.match_substring_regex(texts, self.pattern))
        quoted |= _is_long(texts)
        for character in self.doubled:
            if not quoted.any():
                break
            has_character = quoted & _flags(pc.match_substring(texts, character))
            if not has_character.any():
                continue
            texts = pc.if_else(pa.array(has_character), pc.replace_substring(texts, character, character * 2), texts)
        return texts, quoted


def _unsafe_pattern(safe: int, others: str) -> str:
    """Return a regular expression for the characters that need quotes: those below `safe`, and `others`.

    Java compares UTF-16 units, so that a character above U+FFFF counts as two surrogates.
    """
    ranges = f"\\x{{0}}-\\x{{{min(safe, _FIRST_ASTRAL) - 1:X}}}"
    if safe > _FIRST_SURROGATE:
        ranges += "\\x{10000}-\\x{10FFFF}"
    characters = "".join(f"\\x{{{ord(character):X}}}" for character in others)
    return f"[{ranges}{characters}]"


def _is_long(texts: pa.LargeStringArray) -> Mask:
    lengths = pc.binary_length(texts).fill_null(0).to_numpy(zero_copy_only=False)
    long: Mask = lengths > MOST_UNQUOTED
    if long.any():
        some = texts.filter(pa.array(long))
        units = pc.add(pc.utf8_length(some), pc.count_substring_regex(some, r"[\x{10000}-\x{10FFFF}]"))
        long[long] = pc.greater(units, MOST_UNQUOTED).to_numpy(zero_copy_only=False)
    return long


def _flags(values: pa.BooleanArray) -> Mask:
    flags: Mask = values.fill_null(False).to_numpy(zero_copy_only=False).copy()
    return flags


# --- scalars -------------------------------------------------------------------------------------------


def _plain(values: pa.Array) -> pa.LargeStringArray:
    return values.cast(TEXT)


def _floating(values: pa.Array) -> pa.LargeStringArray:
    return double_texts(values).cast(TEXT)


def _string(values: pa.Array) -> pa.LargeStringArray:
    return replace_malformed(values.cast(TEXT))


def _binary(values: pa.Array) -> pa.LargeStringArray:
    return base64_texts(values.cast(pa.large_binary()))


def _zoned(values: pa.Array) -> pa.LargeStringArray:
    return pc.binary_join_element_wise(timestamp_texts(values), pa.scalar("Z", TEXT), pa.scalar("", TEXT))


_SCALARS: dict[str, Callable[[pa.Array], pa.LargeStringArray]] = {
    "BOOLEAN": _plain,
    "TINYINT": _plain,
    "SMALLINT": _plain,
    "INT": _plain,
    "BIGINT": _plain,
    "FLOAT": _floating,
    "DOUBLE": _floating,
    "CHAR": _string,
    "VARCHAR": _string,
    "BINARY": _binary,
    "VARBINARY": _binary,
    "DATE": date_texts,
    "TIME": time_texts,
    "TIMESTAMP": timestamp_texts,
    "TIMESTAMP_LTZ": _zoned,
}
