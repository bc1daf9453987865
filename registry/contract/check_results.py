"""What a kernel hands back, checked before anyone builds on it.

A result that breaks the contract of `DecodedBatch` or `EncodedBatch` raises `ContractError`: it is the format's fault,
no message's. A TIME that is no time of day is a message's, or a row's: Arrow has room for it, Spark's type has not.
Of every batch lengths, types and counts are looked at; a whole column only where there are kinds, errors or TIME.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.changelog import RowKind
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import ContractError
from kvformat.registry.contract.types import FlinkType

_Places = npt.NDArray[np.int64]

_NANOS_OF_A_DAY: Final = 86_400_000_000_000
_KNOWN: Final = np.zeros(2**16, bool)
"""Which pairs of bytes are a row kind."""
_KNOWN[np.frombuffer("".join(RowKind).encode(), "<u2")] = True
_COUNT: Final = FlinkType("INT")


class Checker:
    """Checks the results of one format. `call` is the author's method, for the errors."""

    def __init__(self, format: str, call: str) -> None:
        self._format, self._call = format, call

    def decoded(self, batch: Any, messages: pa.Array, stored: pa.DataType) -> None:
        """Check a `DecodedBatch` of these messages, whose rows are to have this type. Raises `ContractError`."""
        for name in ("rows", "row_kinds", "errors", "codes"):
            if not hasattr(batch, name):
                raise self._broken(f"returns a DecodedBatch, not {type(batch).__name__}")
        rows, count = batch.rows, len(messages)
        if not isinstance(rows, pa.ListArray):
            raise self._broken(f"rows are a pyarrow ListArray of structs, not {_kind_of(rows)}")
        if len(rows) != count:
            raise self._broken(f"rows have one list per message: {count} messages, but {len(rows)} lists")
        if rows.type.value_type != stored:
            raise self._broken(f"rows are structs of the schema and the metadata, {stored}, not {rows.type.value_type}")
        if batch.row_kinds is not None:
            self._kinds(batch.row_kinds, len(rows.values))
        failed = self._errors(batch.errors, batch.codes, count, "message")
        if failed and _are_both_valid(batch.errors, rows):
            raise self._broken("a message with an error has a null list")
        if rows.null_count > messages.null_count + failed:
            raise self._broken(
                "a null list is that of a null message or of one with an error (of a skipped message it is empty): "
                f"{rows.null_count} lists are null, {messages.null_count} messages are, and {failed} have an error"
            )

    def encoded(self, batch: Any, count: int) -> None:
        """Check an `EncodedBatch` of so many rows. Raises `ContractError`."""
        for name in ("messages", "errors", "codes"):
            if not hasattr(batch, name):
                raise self._broken(f"returns an EncodedBatch, not {type(batch).__name__}")
        messages = batch.messages
        if not isinstance(messages, pa.BinaryArray):
            raise self._broken(f"messages are a pyarrow BinaryArray, not {_kind_of(messages)}")
        if len(messages) != count:
            raise self._broken(f"there is one message per row: {count} rows, but {len(messages)} messages")
        failed = self._errors(batch.errors, batch.codes, count, "row")
        if failed and _are_both_valid(batch.errors, messages):
            raise self._broken("a row with an error has a null message")

    def _errors(self, errors: Any, codes: Any, count: int, what: str) -> int:
        """How many errors there are."""
        if errors is None:
            return 0
        if not isinstance(errors, pa.StringArray):
            raise self._broken(f"errors are a pyarrow StringArray or None, not {_kind_of(errors)}")
        if len(errors) != count:
            raise self._broken(f"errors have one place per {what}: {count} of them, but {len(errors)} places")
        if codes is not None:
            if not isinstance(codes, pa.StringArray) or len(codes) != count:
                raise self._broken(f"codes are None, or a pyarrow StringArray with one place per {what}")
            if codes.null_count != errors.null_count or not _are_both_valid(errors, codes, everywhere=True):
                raise self._broken("there is a code beside each error, and nowhere else")
        return count - int(errors.null_count)

    def _kinds(self, kinds: Any, count: int) -> None:
        if not isinstance(kinds, pa.StringArray):
            raise self._broken(f"row_kinds are a pyarrow StringArray or None, not {_kind_of(kinds)}")
        if len(kinds) != count:
            raise self._broken(f"row_kinds have one place per row: {count} rows, but {len(kinds)} kinds")
        if not _are_known(kinds):
            known = pc.is_in(kinds, pa.array(list(RowKind), pa.string()))
            wrong = kinds.filter(pc.invert(known))[0].as_py()
            raise self._broken(f"row_kinds are {', '.join(RowKind)}, not {wrong!r}")

    def _broken(self, rule: str) -> ContractError:
        return ContractError(
            f"format '{self._format}': its {self._call} breaks the contract of a format: {rule}. This is a fault of "
            "the format, not of the records: tell its author",
            format=self._format,
            reason=rule,
        )


def _kind_of(value: Any) -> str:
    return f"an array of {value.type}" if isinstance(value, pa.Array) else type(value).__name__


def _are_both_valid(a: pa.Array, b: pa.Array, *, everywhere: bool = False) -> bool:
    """Whether two arrays of one length have values at the same place; `everywhere`: wherever the first one has any."""
    bits = []
    for array in (a, b):
        buffer = array.buffers()[0]
        if buffer is None or array.offset:
            buffer = pa.py_buffer(np.packbits(np.asarray(array.is_valid()), bitorder="little"))
        bits.append(np.frombuffer(buffer, np.uint8, (len(a) + 7) // 8))
    found = bits[0] & ~bits[1] if everywhere else bits[0] & bits[1]
    if len(a) % 8 and len(found):
        found[-1] &= (1 << len(a) % 8) - 1  # behind the last value may be anything
    return not found.any() if everywhere else bool(found.any())


def _are_known(kinds: pa.StringArray) -> bool:
    """Whether all are row kinds, all of which have two characters."""
    count = len(kinds)
    if kinds.null_count or not count:
        return not kinds.null_count
    _, offsets_buffer, data = kinds.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, count + 1, kinds.offset * 4)
    first = int(offsets[0])
    if int(offsets[-1]) - first != 2 * count or not (offsets[1:] - offsets[:-1] == 2).all():
        return False
    return bool(_KNOWN[np.frombuffer(data, "<u2", count, first)].all())


# --- values that a type can't hold -----------------------------------------------------------------------


def impossible_values(rows: pa.StructArray, row: FlinkType) -> dict[int, str]:
    """Why rows can't be, by their index: a TIME at any depth that is below 00:00:00 or not below 24:00:00.

    The columns of `row` are the first ones of `rows`. The first reason of a row counts.
    """
    reasons: dict[int, str] = {}
    if not _has_time(row):
        return reasons
    for places, path in _outside(rows, row):
        why = f"field '{path}': a TIME is from 00:00:00 to before 24:00:00, and the value is not"
        for place in np.unique(places).tolist():
            reasons.setdefault(place, ErrorCode.OUT_OF_RANGE.marked(why))
    return reasons


@cached_by_identity
def _has_time(t: FlinkType) -> bool:
    return any(part.root == "TIME" for _, part in t.walk())


def _outside(values: pa.Array, t: FlinkType) -> Iterator[tuple[_Places, str]]:
    """The places whose values hold such a TIME, with the path to it."""
    if t.root == "TIME":
        yield from ((places, "") for places in (_not_in_a_day(values),) if len(places))
    elif t.root == "ROW":
        for field, child in zip(t.fields, values.flatten(), strict=False):
            if _has_time(field.type):
                for places, path in _outside(child, field.type):
                    yield places, f"{field.name}.{path}" if path else field.name
    elif _has_time(t):
        entries = _list_of(values, t)
        parents: _Places = pc.list_parent_indices(entries).to_numpy()
        inner = entries.flatten()
        if t.root == "ARRAY":
            parts = [("element", inner, t.fields[0].type)]
        else:
            counts = t.fields[1].type if t.root == "MAP" else _COUNT
            keys, items = inner.flatten()
            parts = [("key", keys, t.fields[0].type), ("value", items, counts)]
        for name, part, kind in parts:
            for places, path in _outside(part, kind):
                yield parents[places], f"{name}.{path}" if path else name


def _list_of(values: pa.Array, t: FlinkType) -> pa.ListArray:
    """Lists as they are, maps as lists of their entries."""
    if t.root == "ARRAY":
        return values
    entries = pa.StructArray.from_arrays([values.keys, values.items], names=["key", "value"])
    buffers = values.buffers()[:2]
    return pa.Array.from_buffers(pa.list_(entries.type), len(values), buffers, offset=values.offset, children=[entries])


def _not_in_a_day(values: pa.Array) -> _Places:
    numbers = values.view(pa.int64())
    least, most = (bound.as_py() for bound in pc.min_max(numbers).values())
    if least is None or (least >= 0 and most < _NANOS_OF_A_DAY):
        return np.zeros(0, np.int64)
    wrong = pc.or_(pc.less(numbers, 0), pc.greater_equal(numbers, _NANOS_OF_A_DAY))
    found: _Places = np.flatnonzero(wrong.fill_null(False).to_numpy(zero_copy_only=False))
    return found
