"""Error codes of records: stable names for kinds of errors, in addition to the texts that people read.

    Reason(ErrorCode.OUT_OF_RANGE, "field 'n': ...")  ->  a batch: errors "field 'n': ...", codes "OUT_OF_RANGE"

The format of another package may write the code at the beginning of the text, `[OUT_OF_RANGE] field 'n': ...`, instead
of returning codes. A batch without errors has no codes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


class ErrorCode(StrEnum):
    """Codes of errors. Codes are stable, error texts may change. `doc` says when a code is used."""

    doc: str
    mark: str
    number: int

    def __new__(cls, name: str, doc: str) -> ErrorCode:
        """Create the member with this name."""
        member = str.__new__(cls, name)
        member._value_, member.doc, member.mark = name, doc, f"[{name}] "
        member.number = len(cls.__members__)
        return member

    MALFORMED = "MALFORMED", "The bytes are not valid in the format: invalid JSON, an unclosed quote, a cut datum."
    WRONG_CHARSET = "WRONG_CHARSET", "The bytes are not in a text encoding that the format supports."
    WRONG_TYPE = "WRONG_TYPE", "A value, or the whole message, does not have the declared type."
    OUT_OF_RANGE = "OUT_OF_RANGE", "A number or a time is out of range of its type."
    MISSING_FIELD = "MISSING_FIELD", "A column is missing, or a part of the envelope that its rows need."
    UNEXPECTED_FIELD = "UNEXPECTED_FIELD", "The message has columns or members that are not in the schema."
    NULL_VALUE = "NULL_VALUE", "A NULL that the format can't write: in a NOT NULL column, or as a key of a map."
    NULL_KEY = "NULL_KEY", "A record of an upsert table without a key, or a row with a NULL in its PRIMARY KEY."
    UNKNOWN_OPERATION = "UNKNOWN_OPERATION", "The operation of a change is unknown to the format."
    UNKNOWN_SCHEMA = "UNKNOWN_SCHEMA", "The schema registry lacks or refuses the schema, or it can't be parsed."
    INCOMPATIBLE_SCHEMA = "INCOMPATIBLE_SCHEMA", "Data of the writer's schema can't be read with the reader's schema."
    TOO_DEEP = "TOO_DEEP", "A value is nested more deeply than the limit."
    TOO_LARGE = "TOO_LARGE", "A number, a text or the rows of a message exceed a limit of size or time."
    SCHEMA = "SCHEMA", "A value does not fit the column of the table to write, or is NULL in a NOT NULL column."
    TABLE_ID = "TABLE_ID", "A message of ingestion that does not name its table, or whose rows name several."
    SEVERAL_ROWS = "SEVERAL_ROWS", "A message has several rows, and `decode` returns only one: use `decode_rows`."
    COMPUTED_COLUMN = "COMPUTED_COLUMN", "A computed column has no value for a row of the record, and Flink would fail."
    SKIPPED = "SKIPPED", "The format skips the message, and `KeyValueFormat` keeps skipped messages."
    KERNEL_FAILED = "KERNEL_FAILED", "The format's code raised an exception for the record; the text contains it."
    BAD_RECORD = "BAD_RECORD", "Another error; the format gives no code."

    def marked(self, reason: str) -> str:
        """Return an error text with the code at the beginning: `[OUT_OF_RANGE] field 'n': ...`."""
        return self.mark + reason


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a message or a row has an error. It is not a tuple, because NumPy would make two values of one."""

    code: ErrorCode
    text: str


_Ints = npt.NDArray[np.int64]
_MOST_BYTES = 2**31 - 1  # of texts in one array: the largest offset of a string array
_NAMES = [code.value.encode() for code in ErrorCode]
_SIZES = np.array([len(name) for name in _NAMES])
_KNOWN = frozenset(code.value for code in ErrorCode)


@functools.cache
def _codes_with_bracket() -> tuple[pa.StringArray, pa.StringArray]:
    """Return the codes with a leading bracket, and the codes.

    The arrays are not created on import, because the first `pa.array` looks for pandas.
    """
    return pa.array([f"[{code}" for code in ErrorCode]), pa.array([code.value for code in ErrorCode])


def split_codes(errors: pa.StringArray | None) -> tuple[pa.StringArray | None, pa.StringArray | None]:
    """Separate error texts and the codes at their beginning.

    Returns texts and codes, each null for a record without an error; or None and None if there are no errors. A text
    without a code gets BAD_RECORD.
    """
    if errors is None or errors.null_count == len(errors):
        return None, None
    marked = errors.drop_null()
    first: str = marked[0].as_py()
    code = first[1 : max(first.find("] "), 1)]
    if code in _KNOWN and pc.all(pc.starts_with(marked, f"[{code}] ")).as_py():  # usually all errors have the same code
        texts, codes = pc.binary_replace_slice(marked, 0, len(code) + 3, ""), pa.repeat(pa.scalar(code), len(marked))
    else:
        pieces = pc.split_pattern(marked, "] ", max_splits=1)
        flat, offsets = pieces.flatten(), pieces.offsets
        marks, known = _codes_with_bracket()
        which = pc.index_in(flat.take(offsets[:-1]), marks)
        texts, codes = flat.take(pc.subtract(offsets[1:], 1)), known.take(which)
        if which.null_count:
            texts, codes = pc.if_else(which.is_valid(), texts, marked), codes.fill_null(ErrorCode.BAD_RECORD.value)
    if len(marked) == len(errors):
        return texts, codes
    sparse = _SparseTexts(np.flatnonzero(np.asarray(errors.is_valid())), len(errors))
    return sparse.from_array(texts), sparse.from_array(codes)


def reason_arrays(reasons: Iterable[Reason | None]) -> tuple[pa.StringArray | None, pa.StringArray | None]:
    """Return error texts and codes, one element per message or row; None and None if there are no errors."""
    per_row = list(reasons)
    if not any(per_row):
        return None, None
    texts = pa.array([None if reason is None else escape_surrogates(reason.text) for reason in per_row], pa.string())
    return texts, pa.array([None if reason is None else reason.code.value for reason in per_row], pa.string())


def reasons_of(errors: pa.StringArray | None, codes: pa.StringArray | None, count: int) -> list[Reason | None]:
    """Return the reasons of `count` messages or rows, given texts and codes as a batch has them."""
    if errors is None:
        return [None] * count
    if codes is None:
        errors, codes = split_codes(errors)
    if errors is None or codes is None:
        return [None] * count
    pairs = zip(errors.to_pylist(), codes.to_pylist(), strict=True)
    return [None if text is None else Reason(ErrorCode[code], text) for text, code in pairs]


def escape_surrogates(text: str) -> str:
    """Escape single surrogates, which UTF-8 can't encode: an error may show a text of a message that has some."""
    return text.encode(errors="backslashreplace").decode()


def error_arrays(
    places: _Ints, numbers: _Ints, ends: _Ints, texts: bytes, count: int
) -> tuple[pa.StringArray, pa.StringArray]:
    """Build the arrays of error texts and codes from concatenated texts.

    places: indices of the messages with an error, at least one, ascending. numbers: `ErrorCode.number` of each error.
    ends: end offset of each text in `texts`. count: number of messages; the length of both arrays.
    Raises `OverflowError` if the texts do not fit a string array.
    """
    if len(texts) > _MOST_BYTES:
        raise OverflowError(f"{len(places)} errors have {len(texts)} bytes of text")
    sparse = _SparseTexts(places, count)
    codes = b"".join(map(_NAMES.__getitem__, numbers.tolist()))
    return sparse.from_ends(ends, texts), sparse.from_ends(np.cumsum(_SIZES[numbers]), codes)


class _SparseTexts:
    """Builds string arrays of a given length with texts at some indices and null elsewhere."""

    def __init__(self, places: npt.NDArray[np.int64], count: int) -> None:
        self._count = count
        self._gaps = np.empty(len(places) + 1, np.int64)  # number of equal offsets at the start of each text
        self._gaps[0], self._gaps[-1] = places[0] + 1, count - places[-1]
        np.subtract(places[1:], places[:-1], out=self._gaps[1:-1])
        valid = np.zeros(count, np.bool_)
        valid[places] = True
        self._bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))

    def from_array(self, texts: pa.StringArray) -> pa.StringArray:
        """Build from an array of one text per index; the array must have no offset."""
        _, offsets, data = texts.buffers()
        return self.from_ends(np.frombuffer(offsets, np.int32, len(texts), 4), data or b"")

    def from_ends(self, ends: npt.NDArray[Any], data: pa.Buffer | bytes) -> pa.StringArray:
        """Build from concatenated texts and their end offsets."""
        bounds = np.zeros(len(ends) + 1, np.int32)
        bounds[1:] = ends
        buffers = [self._bitmap, pa.py_buffer(np.repeat(bounds, self._gaps)), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.string(), self._count, buffers)
