"""What kind of fault a record has: codes to count by, beside the words that a person reads.

    kernel: "[OUT_OF_RANGE] field 'n': ..."  ->  decode_batch: errors "field 'n': ...", codes "OUT_OF_RANGE"

A kernel writes the code into the text, so that both take one way through it and a batch without errors pays nothing.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


class ErrorCode(StrEnum):
    """Codes of errors; they stay as they are, while the words beside them may change. `doc` says when each is given."""

    doc: str
    mark: str

    def __new__(cls, name: str, doc: str) -> ErrorCode:
        """A member of that name."""
        member = str.__new__(cls, name)
        member._value_, member.doc, member.mark = name, doc, f"[{name}] "
        return member

    MALFORMED = "MALFORMED", "The bytes are not of the format: no JSON, a quote that does not close, a torn datum."
    WRONG_CHARSET = "WRONG_CHARSET", "The bytes are not in an encoding of text that the format reads."
    WRONG_TYPE = "WRONG_TYPE", "A value, or the message as a whole, is none of the type that was declared."
    OUT_OF_RANGE = "OUT_OF_RANGE", "A number or a time is beyond what its type holds."
    MISSING_FIELD = "MISSING_FIELD", "A column, or a part of an envelope that its rows need, is not there."
    UNEXPECTED_FIELD = "UNEXPECTED_FIELD", "There are columns or members that the schema does not have."
    NULL_VALUE = "NULL_VALUE", "A NULL where the format writes none: a NOT NULL column, a key of a map."
    NULL_KEY = "NULL_KEY", "A record of an upsert table without a key, or a row with a NULL in its PRIMARY KEY."
    UNKNOWN_OPERATION = "UNKNOWN_OPERATION", "A change is none of the operations that the format knows."
    UNKNOWN_SCHEMA = "UNKNOWN_SCHEMA", "The schema registry does not know the schema, refuses it, or it can't be read."
    INCOMPATIBLE_SCHEMA = "INCOMPATIBLE_SCHEMA", "What was written by one schema can't be read by the other one."
    TOO_DEEP = "TOO_DEEP", "A value is nested more deeply than is read."
    TOO_LARGE = "TOO_LARGE", "A number, a text, or what a message would become is larger than is read."
    SEVERAL_ROWS = "SEVERAL_ROWS", "A message of several rows, where `decode` gives one: use `decode_rows`."
    SKIPPED = "SKIPPED", "The format passes over the message, and `KeyValueFormat` keeps what it skipped."
    BAD_RECORD = "BAD_RECORD", "Another fault: the kernel of the format gives no code."

    def marked(self, reason: str) -> str:
        """The text of an error as a kernel gives it: `[OUT_OF_RANGE] field 'n': ...`."""
        return self.mark + reason


_KNOWN = frozenset(code.value for code in ErrorCode)
_MARKS = pa.array([f"[{code}" for code in ErrorCode])
_CODES = pa.array([code.value for code in ErrorCode])


def parted(errors: pa.StringArray | None) -> tuple[pa.StringArray | None, pa.StringArray | None]:
    """Texts of errors without the codes that they begin with, and the codes: null where there is no error.

    A text that begins with none is left as it is, its code is BAD_RECORD. Both are None when there are no errors.
    """
    if errors is None or errors.null_count == len(errors):
        return None, None
    valid = errors.is_valid()
    first: str = errors[pc.index(valid, True).as_py()].as_py()
    code = first[1 : max(first.find("] "), 1)]
    if code in _KNOWN and pc.all(pc.starts_with(errors, f"[{code}] ")).as_py():  # all alike, as they mostly are
        texts = pc.binary_replace_slice(errors, 0, len(code) + 3, "")
        return texts, pc.if_else(valid, code, pa.scalar(None, pa.string()))
    places = np.flatnonzero(np.asarray(valid)) if errors.null_count else None
    marked = errors if places is None else errors.take(pa.array(places))
    pieces = pc.split_pattern(marked, "] ", max_splits=1)
    flat, offsets = pieces.flatten(), pieces.offsets
    which = pc.index_in(flat.take(offsets[:-1]), _MARKS)
    texts, codes = flat.take(pc.subtract(offsets[1:], 1)), _CODES.take(which)
    if which.null_count:
        texts, codes = pc.if_else(which.is_valid(), texts, marked), codes.fill_null(ErrorCode.BAD_RECORD.value)
    if places is None:
        return texts, codes
    return _spread(texts, places, len(errors)), _spread(codes, places, len(errors))


def _spread(texts: pa.StringArray, places: npt.NDArray[np.intp], length: int) -> pa.StringArray:
    """So many texts: those given at their places, null elsewhere."""
    _, starts, data = texts.buffers()
    offsets, valid = np.zeros(length + 1, np.int32), np.zeros(length, np.bool_)
    offsets[places + 1], valid[places] = np.diff(np.frombuffer(starts, np.int32, len(texts) + 1)), True
    np.cumsum(offsets, out=offsets)
    buffers = [np.packbits(valid, bitorder="little"), offsets, data or b""]
    return pa.Array.from_buffers(pa.string(), length, list(map(pa.py_buffer, buffers)))


def codes_table() -> str:
    """The codes as a table for the docs."""
    lines = [f"| `{code}` | {code.doc} |" for code in ErrorCode]
    return "\n".join(["| code | when |", "| --- | --- |", *lines])
