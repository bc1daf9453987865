"""A batch of change messages: the fast reader over all of them, the exact one over those it refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._changes.envelope import KINDS, ChangeSettings, Envelope
from kvformat.codecs._changes.exact import ExactChanges
from kvformat.codecs._changes.fast import FastChanges
from kvformat.codecs._columnar import Ints, Mask, spread, validity
from kvformat.codecs._two_paths import to_arrow
from kvformat.registry.format import DecodedBatch
from kvformat.registry.types import FlinkField, FlinkType

_KIND = FlinkField("", FlinkType("TINYINT"))
_KINDS = np.frombuffer("".join(KINDS).encode(), "<u2")


class ChangeReader:
    """Reads change messages as rows of one type with their kinds, and the metadata asked for.

    Raises `SchemaError` for types that JSON has no place for.
    """

    def __init__(self, row: FlinkType, envelope: Envelope, settings: ChangeSettings, metadata: tuple[str, ...]) -> None:
        columns = (FlinkField(key, envelope.metadata[key].type) for key in metadata)
        self._changes = FlinkType("ROW", fields=(_KIND, *row.fields, *columns))
        self._exact = ExactChanges(row, envelope, settings, metadata)
        self._fast = FastChanges(row, self._changes, envelope, settings, metadata)

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """One list of rows per message: null for a null message or an error, empty for a skipped one."""
        sizes = pc.binary_length(messages)
        valid = np.asarray(messages.is_valid())
        present = np.flatnonzero(np.asarray(sizes.fill_null(0)) > 0)
        counts = np.zeros(len(messages), np.int64)
        if len(present) < len(messages):  # tombstones come with every deletion
            messages = messages.take(pa.array(present))
        lists, refused = self._fast.read(messages)
        rows, counts[present] = lists.values, pc.list_value_length(lists).fill_null(0)
        where = np.flatnonzero(refused)
        if not len(where):
            return _batch(rows, counts, valid)
        answers = [self._exact.read(message) for message in messages.take(pa.array(where)).to_pylist()]
        others = to_arrow([change for changes, _ in answers for change in changes or ()], self._changes)
        lengths = np.array([len(changes or ()) for changes, _ in answers], np.int64)
        first = np.asarray(lists.offsets)[:-1].astype(np.int64)
        first[where] = len(rows) + np.cumsum(lengths) - lengths
        counts[present[where]] = lengths
        valid[present[where]] = [changes is not None for changes, _ in answers]
        rows = pa.concat_arrays([rows, others]).take(pa.array(spread(first, counts[present])))
        errors = np.full(len(counts), None, object)
        errors[present[where]] = [error for _, error in answers]
        return _batch(rows, counts, valid, None if valid.all() else pa.array(errors, pa.string()))


def _batch(changes: pa.StructArray, counts: Ints, valid: Mask, errors: pa.StringArray | None = None) -> DecodedBatch:
    """Changes in the order of their messages as lists of rows."""
    kind, *columns = (changes.field(place) for place in range(changes.type.num_fields))
    if columns:
        rows = pa.StructArray.from_arrays(columns, fields=list(changes.type)[1:])
    else:
        rows = pa.array([{}] * len(changes), pa.struct([]))
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    buffers = [validity(valid), pa.py_buffer(offsets)]
    lists = pa.Array.from_buffers(pa.list_(pa.field("element", rows.type)), len(counts), buffers, children=[rows])
    return DecodedBatch(lists, _kinds(kind), errors)


def _kinds(kind: pa.Int8Array) -> pa.StringArray:
    """The texts of kinds; all have two characters."""
    offsets = np.arange(0, 2 * len(kind) + 1, 2, dtype=np.int32)
    texts = _KINDS.take(np.asarray(kind))
    return pa.Array.from_buffers(pa.string(), len(kind), [None, pa.py_buffer(offsets), pa.py_buffer(texts)])
