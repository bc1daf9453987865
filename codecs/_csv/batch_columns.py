"""Convert columns of texts to columns of values, a batch at a time.

Arrow's casts parse numbers, dates and times. A check of the bytes before the cast, or of the values after it, finds
texts that Java's parser may parse differently. If a column fails this check or the cast, a regular expression finds the
plain texts. The other texts are refused, and the message reader parses their messages.
"""

from __future__ import annotations

import abc
import binascii
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._columnar import Mask, validity
from kvformat.codecs._csv.parse_record import BLANKS
from kvformat.codecs._csv.scalars import INTEGER_BITS, MOST_TIME_DIGITS
from kvformat.codecs._csv.settings import ReadSettings
from kvformat.codecs._csv.split_batch import text_bytes, text_offsets
from kvformat.registry.contract.types import FlinkType, arrow_type, nullable

_LAST = ord(":")  # the largest character of numbers and times without letters
_MOST_DIGITS = 38  # of a decimal128

Converted = tuple[pa.Array, Mask | None]
"""The values, null for missing texts, and a mask of the refused texts (None if no text is refused)."""


class CsvColumn(abc.ABC):
    """Converts the texts of one column."""

    @abc.abstractmethod
    def convert(self, texts: pa.StringArray, present: Mask | None) -> Converted:
        """Convert the texts that are present (None: all). The other texts are empty and become null."""


def column_reader(t: FlinkType, settings: ReadSettings) -> CsvColumn:
    """Make the reader of a column of any type."""
    if t.root == "ARRAY":
        return _ArrayColumn(t, settings)
    return _RowColumn(t, settings) if t.root == "ROW" else _ScalarColumn(t, settings)


class _ScalarColumn(CsvColumn):
    """A scalar column, or the elements of an ARRAY or ROW column. It converts NULL."""

    def __init__(self, t: FlinkType, settings: ReadSettings) -> None:
        self._plain = _PLAIN[t.root](t)
        literal = settings.null_literal
        self._literal = literal.encode("utf-8", "surrogatepass") if literal else None
        # empty text is not a number or a time; a lenient reader reads it as NULL
        unreadable = settings.lenient and not self._plain.reads_nothing
        self._nothing_is_null = settings.empty_string_as_null or literal == "" or unreadable

    def convert(self, texts: pa.StringArray, present: Mask | None) -> Converted:
        null = self._nulls(texts)
        if null is not None:
            present = ~null if present is None else present & ~null
            if self._literal is not None:
                texts = texts.take(pa.array(np.arange(len(texts)), mask=null))
        if present is not None:
            texts = pa.Array.from_buffers(texts.type, len(texts), [validity(present), *texts.buffers()[1:]])
        return self._plain.convert(texts)

    def _nulls(self, texts: pa.StringArray) -> Mask | None:
        """Return a mask of the texts that mean NULL, None if there are none."""
        if self._literal is None and not self._nothing_is_null:
            return None
        offsets = text_offsets(texts)
        length = offsets[1:] - offsets[:-1]
        null: Mask = (length == 0) & self._nothing_is_null
        if self._literal is not None:
            rows = np.flatnonzero(length == len(self._literal))
            same = pc.equal(texts.take(pa.array(rows)).cast(pa.binary()), pa.scalar(self._literal))
            null[rows[_flags(same)]] = True
        return null if null.any() else None


# --- arrays and rows -----------------------------------------------------------------------------------


class _Elements:
    """The elements of all texts of a column: `count` elements per text, from index `first`."""

    def __init__(self, texts: pa.StringArray, settings: ReadSettings) -> None:
        lists = pc.split_pattern(texts, settings.element_delimiter)
        self.texts: pa.StringArray = pc.utf8_trim(lists.values, BLANKS) if settings.trim else lists.values
        offsets = np.asarray(lists.offsets).astype(np.int64)
        self.first, self.count = offsets[:-1], np.diff(offsets)
        blank = (self.count == 1) & _flags(pc.equal(pc.utf8_trim(texts, BLANKS), ""))
        if blank.any():
            kept = np.ones(len(self.texts), bool)
            kept[self.first[blank]] = False
            self.texts = self.texts.filter(pa.array(kept))
            self.count[blank] = 0
            self.first = np.cumsum(self.count) - self.count


class _ArrayColumn(CsvColumn):
    def __init__(self, t: FlinkType, settings: ReadSettings) -> None:
        self._kind, self._settings = arrow_type(nullable(t)), settings
        self._element = _ScalarColumn(t.fields[0].type, settings)

    def convert(self, texts: pa.StringArray, present: Mask | None) -> Converted:
        found = _Elements(texts, self._settings)
        values, bad = self._element.convert(found.texts, None)
        offsets = np.zeros(len(texts) + 1, np.int32)
        np.cumsum(found.count, out=offsets[1:])
        valid = None if present is None else validity(present)
        lists = pa.Array.from_buffers(self._kind, len(texts), [valid, pa.py_buffer(offsets)], children=[values])
        if bad is None:
            return lists, None
        refused = np.zeros(len(texts), bool)
        refused[np.repeat(np.arange(len(texts)), found.count)[bad]] = True
        return lists, refused


class _RowColumn(CsvColumn):
    def __init__(self, t: FlinkType, settings: ReadSettings) -> None:
        self._kind, self._settings = arrow_type(nullable(t)), settings
        self._members = [_ScalarColumn(field.type, settings) for field in t.fields]

    def convert(self, texts: pa.StringArray, present: Mask | None) -> Converted:
        found = _Elements(texts, self._settings)
        refused = np.zeros(len(texts), bool)
        if not self._settings.lenient:
            refused = (found.count > 0) & (found.count < len(self._members))
        members = []
        for index, member in enumerate(self._members):
            there = found.count > index
            values, bad = member.convert(found.texts.take(pa.array(found.first + index, mask=~there)), there)
            members.append(values)
            if bad is not None:
                refused |= bad
        null = pa.array(found.count == 0)
        return pa.StructArray.from_arrays(members, fields=list(self._kind), mask=null), refused


# --- plain texts ---------------------------------------------------------------------------------------


class _Plain(abc.ABC):
    """Converts plain texts of one scalar type."""

    reads_nothing = False
    """Whether the empty text has a value."""

    def __init__(self, t: FlinkType) -> None:
        self._kind = arrow_type(nullable(t))

    @abc.abstractmethod
    def convert(self, texts: pa.StringArray) -> Converted:
        """Convert texts. Null stays null."""


class _Cast(_Plain):
    """A type that Arrow's casts can parse.

    `pattern` matches texts that the cast parses as Java does. The cast rejects any other text without letters and with
    at least `least` bytes. With `trims`, blanks around the text are ignored.
    """

    least = 0
    pattern = ""
    trims = True

    def convert(self, texts: pa.StringArray) -> Converted:
        values = self._cast_all(texts)
        if values is not None:
            return values, None
        trimmed = pc.utf8_trim(texts, BLANKS) if self.trims else texts
        fits = pc.match_substring_regex(trimmed, self.pattern)
        bad = _flags(pc.invert(fits))
        values, beyond = self._cast_matching(pc.if_else(fits, trimmed, pa.scalar(None, texts.type)))
        return values, bad if beyond is None else bad | beyond

    def _cast_all(self, texts: pa.StringArray) -> pa.Array | None:
        """Cast all texts. Returns None if a text may not be plain."""
        data = text_bytes(texts)
        if len(data) and data.max() > _LAST:
            return None
        if self.least:
            offsets = text_offsets(texts)
            length = offsets[1:] - offsets[:-1]
            if ((length < self.least) & (length > 0)).any():
                return None
        try:
            return self._cast(texts)
        except pa.ArrowInvalid:
            return None

    @abc.abstractmethod
    def _cast(self, texts: pa.StringArray) -> pa.Array:
        """Cast texts. Raises `ArrowInvalid` if a text is not plain."""

    def _cast_matching(self, texts: pa.StringArray) -> Converted:
        """Convert texts that match the pattern."""
        return self._cast(texts), None


class _Integer(_Cast):
    pattern = r"^-?[0-9]{1,18}$"

    def __init__(self, t: FlinkType) -> None:
        super().__init__(t)
        self._most = 2 ** (INTEGER_BITS[t.root] - 1) - 1

    def _cast(self, texts: pa.StringArray) -> pa.Array:
        return texts.cast(self._kind)

    def _cast_matching(self, texts: pa.StringArray) -> Converted:
        numbers = texts.cast(pa.int64())
        beyond = pc.or_(pc.greater(numbers, self._most), pc.less(numbers, -self._most - 1))
        return pc.if_else(beyond, pa.scalar(None, pa.int64()), numbers).cast(self._kind), _flags(beyond)


class _Floating(_Cast):
    """FLOAT and DOUBLE. The cast also accepts words, but only for values that are not finite: inf, infinity, nan."""

    pattern = r"^-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,5})?$"

    def _cast_all(self, texts: pa.StringArray) -> pa.Array | None:
        try:
            values = self._cast(texts)
        except pa.ArrowInvalid:
            return None
        numbers = np.frombuffer(values.buffers()[1], values.type.to_pandas_dtype()) if len(values) else np.zeros(1)
        return values if np.isfinite(numbers[: len(values)]).all() else None

    def _cast(self, texts: pa.StringArray) -> pa.Array:
        return texts.cast(self._kind)


class _Decimal(_Cast):
    """DECIMAL, rounded half up to the scale. A number that does not fit becomes null.

    The text is rounded, not the number. Arrow's rounding uses its division of decimals, which is wrong for some numbers
    (9223372036854775806 with 18 fraction digits, by 10**15). Arrow's cast to a smaller scale refuses texts with a
    remainder.
    """

    _most_whole, _most_behind = 19, 18  # digits before and after the point
    pattern = rf"^-?(?:[0-9]{{1,{_most_whole}}}(?:\.[0-9]{{0,{_most_behind}}})?|\.[0-9]{{1,{_most_behind}}})$"
    trims = False

    def __init__(self, t: FlinkType) -> None:
        super().__init__(t)
        scale, self._whole = t.scale or 0, (t.precision or 0) - (t.scale or 0)
        self._digits = min(scale, self._most_behind)
        # Arrow's cast pads a number to the scale. The result is wrong if it has more digits than a decimal.
        self._longest = _MOST_DIGITS - scale
        self._parts = rf"^-?(?P<kept>[0-9]*(?:\.[0-9]{{0,{self._digits}}})?)(?P<next>[0-9]?)"

    def _cast_all(self, texts: pa.StringArray) -> pa.Array | None:
        offsets = text_offsets(texts)
        if (offsets[1:] - offsets[:-1] > self._longest).any():
            return None
        return super()._cast_all(texts)

    def _cast(self, texts: pa.StringArray) -> pa.Array:
        return texts.cast(self._kind)

    def _cast_matching(self, texts: pa.StringArray) -> Converted:
        kind = pa.decimal128(self._most_whole + self._digits, self._digits)
        kept, following = pc.extract_regex(texts, self._parts).flatten()
        numbers = pc.binary_join_element_wise("0", kept, "").cast(kind)
        last = pa.scalar(Decimal(1).scaleb(-self._digits), kind)
        numbers = pc.if_else(pc.greater_equal(following, "5"), pc.add(numbers, last), numbers)
        numbers = pc.if_else(pc.starts_with(texts, "-"), pc.negate(numbers), numbers)
        if self._whole <= self._most_whole:  # rounding may add a digit
            fits = pc.less(pc.abs(numbers), pa.scalar(Decimal(10**self._whole), pa.decimal128(38, self._digits)))
            numbers = pc.if_else(fits, numbers, pa.scalar(None, numbers.type))
        return numbers.cast(self._kind), None


_DAY = r"[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
_MINUTES = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"


class _Date(_Cast):
    least = len("2024-01-31")
    pattern = f"^{_DAY}$"
    trims = False

    def _cast(self, texts: pa.StringArray) -> pa.Array:
        return texts.cast(self._kind)


class _Time(_Cast):
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
    least = len("2024-01-31 12:00:00")
    pattern = rf"^{_DAY} {_MINUTES}:[0-5][0-9](?:\.[0-9]{{1,6}})?$"

    def _cast(self, texts: pa.StringArray) -> pa.Array:
        return texts.cast(self._kind)


class _ZonedTimestamp(_Timestamp):
    pattern = rf"{_Timestamp.pattern[:-1]}Z$"

    def _cast_all(self, texts: pa.StringArray) -> pa.Array | None:
        if not pc.all(pc.ends_with(texts, "Z"), min_count=0).as_py():
            return None
        return super()._cast_all(pc.utf8_slice_codeunits(texts, 0, -1))

    def _cast(self, texts: pa.StringArray) -> pa.Array:
        return texts.cast(pa.timestamp("us")).view(self._kind)

    def _cast_matching(self, texts: pa.StringArray) -> Converted:
        return self._cast(pc.utf8_slice_codeunits(texts, 0, -1)), None


class _Boolean(_Plain):
    """BOOLEAN: every text except true is false."""

    reads_nothing = True

    def convert(self, texts: pa.StringArray) -> Converted:
        data = text_bytes(texts)
        if len(data) and data.min() >= ord("a"):  # excludes 1 and TRUE, which the cast accepts as true
            try:
                return texts.cast(self._kind), None
            except pa.ArrowInvalid:
                pass
        return pc.equal(pc.ascii_lower(pc.utf8_trim(texts, BLANKS)), "true"), None


class _String(_Plain):
    reads_nothing = True

    def convert(self, texts: pa.StringArray) -> Converted:
        return texts, None


class _Binary(_Plain):
    """BINARY: base64 without blanks."""

    reads_nothing = True
    _pattern = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"

    def convert(self, texts: pa.StringArray) -> Converted:
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
