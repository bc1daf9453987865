"""Check the results of kernels.

A result that breaks the contract of `DecodedBatch` or `EncodedBatch` raises `ContractError`: the format is wrong, the
messages are not. A TIME outside a day is an error of its message or row: Arrow can store it, Spark's type cannot.
Lengths, types and counts are checked for every batch. Values are checked only for row kinds, errors and TIME.
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
from kvformat.registry.contract.error_codes import ErrorCode, Reason
from kvformat.registry.contract.errors import ContractError
from kvformat.registry.contract.types import FlinkType

_Indices = npt.NDArray[np.int64]

_NANOS_OF_A_DAY: Final = 86_400_000_000_000
_KNOWN: Final = np.zeros(2**16, bool)
"""Whether two bytes, as a little-endian number, are a row kind."""
_KNOWN[np.frombuffer("".join(RowKind).encode(), "<u2")] = True
_COUNT: Final = FlinkType("INT")


class Checker:
    """Checks the results of a format. `call` is the name of the checked method, for errors."""

    def __init__(self, format: str, call: str) -> None:
        self._format, self._call = format, call

    def decoded(self, batch: Any, messages: pa.Array, stored: pa.DataType) -> None:
        """Check the `DecodedBatch` of `messages`; `stored` is the expected type of its rows. Raises `ContractError`."""
        for name in ("rows", "row_kinds", "errors", "codes"):
            if not hasattr(batch, name):
                raise self._broken(f"the result must be a DecodedBatch, not {type(batch).__name__}")
        rows, count = batch.rows, len(messages)
        if not isinstance(rows, pa.ListArray):
            raise self._broken(f"rows must be a pyarrow ListArray of structs, not {_type_name(rows)}")
        if len(rows) != count:
            raise self._broken(f"rows must have one list per message: {count} messages, but {len(rows)} lists")
        if rows.type.value_type != stored:
            row_type = rows.type.value_type
            raise self._broken(f"rows must be structs of the schema and the metadata, {stored}, not {row_type}")
        if batch.row_kinds is not None:
            self._kinds(batch.row_kinds, len(rows.values))
        failed = self._errors(batch.errors, batch.codes, count, "message")
        if failed and _are_both_valid(batch.errors, rows):
            raise self._broken("the list of a message with an error must be null")
        if rows.null_count > messages.null_count + failed:
            raise self._broken(
                "only the list of a null message or of a message with an error may be null (the list of a skipped "
                f"message is empty): {rows.null_count} lists and {messages.null_count} messages are null, {failed} "
                "messages have an error"
            )

    def encoded(self, batch: Any, count: int) -> None:
        """Check the `EncodedBatch` of `count` rows. Raises `ContractError`."""
        for name in ("messages", "errors", "codes"):
            if not hasattr(batch, name):
                raise self._broken(f"the result must be an EncodedBatch, not {type(batch).__name__}")
        messages = batch.messages
        if not isinstance(messages, pa.BinaryArray):
            raise self._broken(f"messages must be a pyarrow BinaryArray, not {_type_name(messages)}")
        if len(messages) != count:
            raise self._broken(f"there must be one message per row: {count} rows, but {len(messages)} messages")
        failed = self._errors(batch.errors, batch.codes, count, "row")
        if failed and _are_both_valid(batch.errors, messages):
            raise self._broken("the message of a row with an error must be null")

    def _errors(self, errors: Any, codes: Any, count: int, what: str) -> int:
        """Check errors and codes; return the number of errors."""
        if errors is None:
            return 0
        if not isinstance(errors, pa.StringArray):
            raise self._broken(f"errors must be a pyarrow StringArray or None, not {_type_name(errors)}")
        if len(errors) != count:
            raise self._broken(f"errors must have one element per {what}: {count} {what}s, but {len(errors)} elements")
        if codes is not None:
            if not isinstance(codes, pa.StringArray) or len(codes) != count:
                raise self._broken(f"codes must be None or a pyarrow StringArray with one element per {what}")
            if codes.null_count != errors.null_count or not _are_both_valid(errors, codes, everywhere=True):
                raise self._broken("codes must have a code for each error and null for the others")
        return count - int(errors.null_count)

    def _kinds(self, kinds: Any, count: int) -> None:
        if not isinstance(kinds, pa.StringArray):
            raise self._broken(f"row_kinds must be a pyarrow StringArray or None, not {_type_name(kinds)}")
        if len(kinds) != count:
            raise self._broken(f"row_kinds must have one element per row: {count} rows, but {len(kinds)} kinds")
        if not _are_known(kinds):
            known = pc.is_in(kinds, pa.array(list(RowKind), pa.string()))
            wrong = kinds.filter(pc.invert(known))[0].as_py()
            raise self._broken(f"row_kinds must be {', '.join(RowKind)}, not {wrong!r}")

    def _broken(self, rule: str) -> ContractError:
        return ContractError(
            f"format '{self._format}': {self._call} breaks the contract of formats: {rule}. The format is wrong, not "
            "the records: report this to its author",
            format=self._format,
            reason=rule,
        )


def _type_name(value: Any) -> str:
    return f"an array of {value.type}" if isinstance(value, pa.Array) else type(value).__name__


def _are_both_valid(a: pa.Array, b: pa.Array, *, everywhere: bool = False) -> bool:
    """Return whether two arrays of the same length have a value at the same index.

    With `everywhere`: whether the second has a value at every index at which the first has one.
    """
    bits = []
    for array in (a, b):
        buffer = array.buffers()[0]
        if buffer is None or array.offset:
            buffer = pa.py_buffer(np.packbits(np.asarray(array.is_valid()), bitorder="little"))
        bits.append(np.frombuffer(buffer, np.uint8, (len(a) + 7) // 8))
    in_both = bits[0] & ~bits[1] if everywhere else bits[0] & bits[1]
    if len(a) % 8 and len(in_both):
        in_both[-1] &= (1 << len(a) % 8) - 1  # bits after the last value are undefined
    return not in_both.any() if everywhere else bool(in_both.any())


def _are_known(kinds: pa.StringArray) -> bool:
    """Return whether all values are row kinds, each of two characters."""
    count = len(kinds)
    if kinds.null_count or not count:
        return not kinds.null_count
    _, offsets_buffer, data = kinds.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, count + 1, kinds.offset * 4)
    first = int(offsets[0])
    if int(offsets[-1]) - first != 2 * count or not (offsets[1:] - offsets[:-1] == 2).all():
        return False
    return bool(_KNOWN[np.frombuffer(data, "<u2", count, first)].all())


# --- values outside a type's range -------------------------------------------------------------------------


def times_outside_a_day(rows: pa.StructArray, row: FlinkType) -> dict[int, Reason]:
    """Return an error for the index of each row with a TIME before 00:00:00 or after 23:59:59, at any depth.

    `row` has the types of the first columns of `rows`. Only the first error of a row is returned.
    """
    reasons: dict[int, Reason] = {}
    if not _has_time(row):
        return reasons
    for indices, path in _find_outside(rows, row):
        why = f"field '{path}': a TIME must be at least 00:00:00 and before 24:00:00"
        for index in np.unique(indices).tolist():
            reasons.setdefault(index, Reason(ErrorCode.OUT_OF_RANGE, why))
    return reasons


@cached_by_identity
def _has_time(t: FlinkType) -> bool:
    return any(part.root == "TIME" for _, part in t.walk())


def _find_outside(values: pa.Array, t: FlinkType) -> Iterator[tuple[_Indices, str]]:
    """Yield the indices of values that contain a TIME outside a day, with the path of the TIME."""
    if t.root == "TIME":
        yield from ((indices, "") for indices in (_indices_outside(values),) if len(indices))
    elif t.root == "ROW":
        for field, child in zip(t.fields, values.flatten(), strict=False):
            if _has_time(field.type):
                for indices, path in _find_outside(child, field.type):
                    yield indices, f"{field.name}.{path}" if path else field.name
    elif _has_time(t):
        entries = _as_lists(values, t)
        parents: _Indices = pc.list_parent_indices(entries).to_numpy()
        inner = entries.flatten()
        if t.root == "ARRAY":
            parts = [("element", inner, t.fields[0].type)]
        else:
            counts = t.fields[1].type if t.root == "MAP" else _COUNT
            keys, items = inner.flatten()
            parts = [("key", keys, t.fields[0].type), ("value", items, counts)]
        for name, part, kind in parts:
            for indices, path in _find_outside(part, kind):
                yield parents[indices], f"{name}.{path}" if path else name


def _as_lists(values: pa.Array, t: FlinkType) -> pa.ListArray:
    """Return lists unchanged, and maps as lists of their entries."""
    if t.root == "ARRAY":
        return values
    entries = pa.StructArray.from_arrays([values.keys, values.items], names=["key", "value"])
    buffers = values.buffers()[:2]
    return pa.Array.from_buffers(pa.list_(entries.type), len(values), buffers, offset=values.offset, children=[entries])


def _indices_outside(values: pa.Array) -> _Indices:
    numbers = values.view(pa.int64())
    least, most = (bound.as_py() for bound in pc.min_max(numbers).values())
    if least is None or (least >= 0 and most < _NANOS_OF_A_DAY):
        return np.zeros(0, np.int64)
    wrong = pc.or_(pc.less(numbers, 0), pc.greater_equal(numbers, _NANOS_OF_A_DAY))
    indices: _Indices = np.flatnonzero(wrong.fill_null(False).to_numpy(zero_copy_only=False))
    return indices
