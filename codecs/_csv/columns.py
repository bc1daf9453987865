"""Columns of texts to columns of values, a whole batch at once, where the texts are plain enough.

Arrow's casts read numbers, dates and times, after a look at the bytes has made sure that the cast and Java's parser
agree on all texts of such bytes. Where a column fails that, or the cast, a regular expression finds the texts that
are plain; the others are refused, for the exact reader to look at.
"""

from __future__ import annotations

import abc
import binascii
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._columnar import Bytes, Ints, Mask, pieces_of, validity
from kvformat.codecs._csv.records import BLANKS
from kvformat.codecs._csv.scalars import INTEGER_BITS, MOST_TIME_DIGITS
from kvformat.codecs._csv.settings import ReadSettings
from kvformat.codecs._csv.split import text_bytes
from kvformat.registry.types import FlinkType, arrow_type, nullable

Read = tuple[pa.Array, Mask | None]
"""The values, null where there was nothing to read, and which texts are refused (None: none)."""


class Column(abc.ABC):
    """Reads the texts of one column, given as runs of bytes."""

    @abc.abstractmethod
    def read(self, data: Bytes, start: Ints, end: Ints, present: Mask | None) -> Read:
        """The values of those texts that are present (None: all); the others become null."""


def column_of(t: FlinkType, settings: ReadSettings) -> Column:
    """The reader of a column of any type."""
    if t.root == "ARRAY":
        return _ArrayColumn(t, settings)
    return _RowColumn(t, settings) if t.root == "ROW" else _ScalarColumn(t, settings)


class _ScalarColumn(Column):
    """A column, or the elements of one, that knows NULL."""

    def __init__(self, t: FlinkType, settings: ReadSettings) -> None:
        self._plain = _PLAIN[t.root](t)
        literal = settings.null_literal
        self._literal = literal.encode("utf-8", "surrogatepass") if literal else None
        # nothing at all is no number and no time, which a lenient reader takes for NULL
        unreadable = settings.lenient and not self._plain.reads_nothing
        self._nothing_is_null = settings.empty_string_as_null or literal == "" or unreadable

    def read(self, data: Bytes, start: Ints, end: Ints, present: Mask | None) -> Read:
        null = self._nulls(data, start, end)
        if null is not None:
            present = ~null if present is None else present & ~null
        return self._plain.read(pieces_of(data, start, end, pa.string(), present))

    def _nulls(self, data: Bytes, start: Ints, end: Ints) -> Mask | None:
        """Where NULL is written; None if nowhere."""
        if self._literal is None and not self._nothing_is_null:
            return None
        length = end - start
        null: Mask = (length == 0) & self._nothing_is_null
        if self._literal is not None:
            rows = np.flatnonzero(length == len(self._literal))
            if len(rows):
                texts = pieces_of(data, start[rows], end[rows], pa.binary(), None)
                null[rows[_flags(pc.equal(texts, pa.scalar(self._literal)))]] = True
        return null if null.any() else None


# --- arrays and rows -----------------------------------------------------------------------------------


class _Elements:
    """The elements of all texts of a column: runs of bytes, `count` of them per text, the first one at `first`."""

    def __init__(self, texts: pa.StringArray, settings: ReadSettings) -> None:
        lists = pc.split_pattern(texts, settings.element_delimiter)
        offsets = np.asarray(lists.offsets).astype(np.int64)
        elements = lists.values
        if settings.trim:
            elements = pc.utf8_trim(elements, BLANKS)
        bounds = np.frombuffer(elements.buffers()[1], np.int32)[elements.offset :][: len(elements) + 1]
        self.data = text_bytes(elements)
        self.start, self.end = bounds[:-1].astype(np.int64), bounds[1:].astype(np.int64)
        self.first, self.count = offsets[:-1], np.diff(offsets)
        blank = (self.count == 1) & _flags(pc.equal(pc.utf8_trim(texts, BLANKS), ""))
        if blank.any():
            kept = np.ones(len(self.start), bool)
            kept[self.first[blank]] = False
            self.start, self.end = self.start[kept], self.end[kept]
            self.count[blank] = 0
            self.first = np.cumsum(self.count) - self.count


class _ArrayColumn(Column):
    def __init__(self, t: FlinkType, settings: ReadSettings) -> None:
        self._kind, self._settings = arrow_type(nullable(t)), settings
        self._element = _ScalarColumn(t.fields[0].type, settings)

    def read(self, data: Bytes, start: Ints, end: Ints, present: Mask | None) -> Read:
        found = _Elements(pieces_of(data, start, end, pa.string(), present), self._settings)
        values, bad = self._element.read(found.data, found.start, found.end, None)
        offsets = np.zeros(len(start) + 1, np.int32)
        np.cumsum(found.count, out=offsets[1:])
        valid = None if present is None else validity(present)
        lists = pa.Array.from_buffers(self._kind, len(start), [valid, pa.py_buffer(offsets)], children=[values])
        if bad is None:
            return lists, None
        refused = np.zeros(len(start), bool)
        refused[np.repeat(np.arange(len(start)), found.count)[bad]] = True
        return lists, refused


class _RowColumn(Column):
    def __init__(self, t: FlinkType, settings: ReadSettings) -> None:
        self._kind, self._settings = arrow_type(nullable(t)), settings
        self._members = [_ScalarColumn(field.type, settings) for field in t.fields]

    def read(self, data: Bytes, start: Ints, end: Ints, present: Mask | None) -> Read:
        found = _Elements(pieces_of(data, start, end, pa.string(), present), self._settings)
        refused = np.zeros(len(start), bool)
        if not self._settings.lenient:
            refused = (found.count > 0) & (found.count < len(self._members))
        # a place behind the last element, for members that are missing
        starts, ends = np.append(found.start, 0), np.append(found.end, 0)
        members = []
        for index, member in enumerate(self._members):
            there = found.count > index
            at = np.where(there, found.first + index, len(starts) - 1)
            values, bad = member.read(found.data, starts[at], ends[at], there)
            members.append(values)
            if bad is not None:
                refused |= bad
        null = pa.array(found.count == 0)
        return pa.StructArray.from_arrays(members, fields=list(self._kind), mask=null), refused


# --- plain texts ---------------------------------------------------------------------------------------


class _Plain(abc.ABC):
    """Reads plain texts of one scalar type."""

    reads_nothing = False
    """Whether the empty text has a value."""

    def __init__(self, t: FlinkType) -> None:
        self._kind = arrow_type(nullable(t))

    @abc.abstractmethod
    def read(self, texts: pa.StringArray) -> Read:
        """The values; null stays null."""


class _Cast(_Plain):
    """A type that Arrow's casts can read: `characters` are what the texts of most columns are made of.

    `pattern` is a regular expression of texts that the cast reads and reads as Java does; `trims` says whether blanks
    around them don't matter.
    """

    characters = b""
    least = 0
    pattern = ""
    trims = True

    def read(self, texts: pa.StringArray) -> Read:
        if self._is_plain(texts):
            try:
                return self._cast(texts), None
            except pa.ArrowInvalid:
                pass
        trimmed = pc.utf8_trim(texts, BLANKS) if self.trims else texts
        fits = pc.match_substring_regex(trimmed, self.pattern)
        bad = _flags(pc.invert(fits))
        values, beyond = self._careful(pc.if_else(fits, trimmed, pa.scalar(None, texts.type)))
        return values, bad if beyond is None else bad | beyond

    def _is_plain(self, texts: pa.StringArray) -> bool:
        """Whether all texts are made of the type's characters, and of enough of them."""
        data = text_bytes(texts)
        if self.least:
            length = np.diff(np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1])
            if ((length < self.least) & (length > 0)).any():
                return False
        plain = data - np.uint8(ord("0")) <= 9
        for character in self.characters:
            plain |= data == character
        return bool(plain.all())

    @abc.abstractmethod
    def _cast(self, texts: pa.StringArray) -> pa.Array:
        """The values of plain texts; `ArrowInvalid` if one is none."""

    def _careful(self, texts: pa.StringArray) -> Read:
        """The values of texts that match the pattern."""
        return self._cast(texts), None


class _Integer(_Cast):
    characters = b"-"
    pattern = r"^-?[0-9]{1,18}$"

    def __init__(self, t: FlinkType) -> None:
        super().__init__(t)
        self._most = 2 ** (INTEGER_BITS[t.root] - 1) - 1

    def _cast(self, texts: pa.StringArray) -> pa.Array:
        return texts.cast(self._kind)

    def _careful(self, texts: pa.StringArray) -> Read:
        numbers = texts.cast(pa.int64())
        beyond = pc.or_(pc.greater(numbers, self._most), pc.less(numbers, -self._most - 1))
        return pc.if_else(beyond, pa.scalar(None, pa.int64()), numbers).cast(self._kind), _flags(beyond)


class _Floating(_Cast):
    characters = b"-.+eE"
    pattern = r"^-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,5})?$"

    def _cast(self, texts: pa.StringArray) -> pa.Array:
        return texts.cast(self._kind)


class _Decimal(_Cast):
    """Rounded half up to the scale, null where it does not fit."""

    characters = b"-."
    pattern = r"^-?(?:[0-9]{1,19}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})$"
    trims = False
    _wide = pa.decimal128(38, 18)

    def __init__(self, t: FlinkType) -> None:
        super().__init__(t)
        self._scale, self._whole = t.scale or 0, (t.precision or 0) - (t.scale or 0)

    def _cast(self, texts: pa.StringArray) -> pa.Array:
        return texts.cast(self._kind)

    def _careful(self, texts: pa.StringArray) -> Read:
        numbers = texts.cast(self._wide)
        if self._scale < self._wide.scale:
            numbers = pc.round(numbers, self._scale, "half_towards_infinity")
        if self._whole < self._wide.precision - self._wide.scale:
            fits = pc.less(pc.abs(numbers), pa.scalar(Decimal(10**self._whole), self._wide))
            numbers = pc.if_else(fits, numbers, pa.scalar(None, numbers.type))
        return numbers.cast(self._kind), None


_DAY = r"[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
_MINUTES = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"


class _Date(_Cast):
    characters = b"-"
    least = len("2024-01-31")
    pattern = f"^{_DAY}$"
    trims = False

    def _cast(self, texts: pa.StringArray) -> pa.Array:
        return texts.cast(self._kind)


class _Time(_Cast):
    characters = b":."
    least = len("12:00")
    pattern = rf"^{_MINUTES}(?::[0-5][0-9](?:\.[0-9]{{1,9}})?)?$"
    trims = False

    def __init__(self, t: FlinkType) -> None:
        super().__init__(t)
        self._unit = 10 ** (9 - min(t.precision or 0, MOST_TIME_DIGITS))

    def _cast(self, texts: pa.StringArray) -> pa.Array:
        whole = pc.binary_join_element_wise("1970-01-01 ", texts, "").cast(pa.timestamp("ns")).cast(pa.int64())
        return pc.multiply(pc.divide(whole, self._unit), self._unit).view(self._kind)


class _Timestamp(_Cast):
    characters = b"-: ."
    least = len("2024-01-31 12:00:00")
    pattern = rf"^{_DAY} {_MINUTES}:[0-5][0-9](?:\.[0-9]{{1,6}})?$"

    def _cast(self, texts: pa.StringArray) -> pa.Array:
        return texts.cast(self._kind)


class _ZonedTimestamp(_Timestamp):
    characters = b"-: .Z"
    least = len("2024-01-31 12:00:00Z")
    pattern = rf"{_Timestamp.pattern[:-1]}Z$"

    def _cast(self, texts: pa.StringArray) -> pa.Array:
        local = pc.utf8_slice_codeunits(texts, 0, -1)
        if pc.sum(pc.binary_length(local)).as_py() != pc.sum(pc.binary_length(pc.utf8_rtrim(texts, "Z"))).as_py():
            raise pa.ArrowInvalid("no single Z at the end")
        return local.cast(pa.timestamp("us")).view(self._kind)


class _Boolean(_Plain):
    """Whatever is not true is false."""

    reads_nothing = True

    def read(self, texts: pa.StringArray) -> Read:
        true = pc.equal(texts, "true")
        if pc.all(pc.or_(true, pc.equal(texts, "false")), min_count=0).as_py():
            return true, None
        return pc.equal(pc.ascii_lower(pc.utf8_trim(texts, BLANKS)), "true"), None


class _String(_Plain):
    reads_nothing = True

    def read(self, texts: pa.StringArray) -> Read:
        return texts, None


class _Binary(_Plain):
    """Base64 without gaps."""

    reads_nothing = True
    _pattern = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"

    def read(self, texts: pa.StringArray) -> Read:
        fits = pc.match_substring_regex(texts, self._pattern)
        decode = binascii.a2b_base64
        found = [None if text is None else decode(text) for text in _kept(texts, fits).to_pylist()]
        return pa.array(found, self._kind), _flags(pc.invert(fits))


def _kept(texts: pa.StringArray, fits: pa.BooleanArray) -> pa.StringArray:
    return pc.if_else(fits, texts, pa.scalar(None, texts.type))


def _flags(values: pa.BooleanArray) -> Mask:
    flags: Any = values.fill_null(False).to_numpy(zero_copy_only=False)
    return np.array(flags, bool)


_PLAIN: dict[str, type[_Plain]] = {
    "BOOLEAN": _Boolean,
    "TINYINT": _Integer,
    "SMALLINT": _Integer,
    "INT": _Integer,
    "BIGINT": _Integer,
    "FLOAT": _Floating,
    "DOUBLE": _Floating,
    "DECIMAL": _Decimal,
    "CHAR": _String,
    "VARCHAR": _String,
    "BINARY": _Binary,
    "VARBINARY": _Binary,
    "DATE": _Date,
    "TIME": _Time,
    "TIMESTAMP": _Timestamp,
    "TIMESTAMP_LTZ": _ZonedTimestamp,
}
