"""Rows of a table from Debezium's envelopes that were read as rows of `before`, `after` and `op`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Ints, Mask, validity
from kvformat.codecs.changes.other_messages import ERROR
from kvformat.codecs.changes.upsert import without_before_rows
from kvformat.codecs.debezium.envelopes import CHANGE, NEEDED_BY
from kvformat.codecs.registries.framing import with_errors
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.error_codes import ErrorCode, Reason
from kvformat.registry.contract.types import STRING, FlinkField, FlinkType


@cached_by_identity
def envelope_of(row: FlinkType) -> FlinkType:
    """Return the type of an envelope with rows of a type."""
    image = replace(row, nullable=True)
    return FlinkType("ROW", fields=(FlinkField("before", image), FlinkField("after", image), FlinkField("op", STRING)))


def rows_of_envelopes(
    batch: DecodedBatch, present: Mask, filled: Mask, *, upsert: bool, bare_deletes: bool, other_messages: str
) -> DecodedBatch:
    """Return the rows of the table for a batch of envelopes, one a message.

    `present`: which messages are not null. `filled`: which have an envelope; the others have no rows.
    `upsert`: whether the rows before updates are left out. `bare_deletes`: whether then a deletion without a row gives
    a row of nulls, which the record's key names.
    """
    envelope = without_before_rows(CHANGE) if upsert else CHANGE
    count = len(batch.rows)
    sound = present if batch.errors is None else present & np.asarray(batch.errors.is_null())
    which = np.full(count, -1, np.int64)
    which[np.flatnonzero(np.diff(np.asarray(batch.rows.offsets)) == 1)] = np.arange(len(batch.rows.values))
    good = sound & filled & (which >= 0)
    whole = batch.rows.values
    images = {"before": whole.field("before"), "after": whole.field("after")}
    has = {name: np.asarray(image.is_valid()) for name, image in images.items()}
    operations = np.asarray(pc.fill_null(pc.index_in(whole.field("op"), pa.array(list(envelope.rows))), -1))
    messages = np.flatnonzero(good)
    places = which[messages]
    errors: dict[int, Reason] = {}
    for message, place in zip(*(of[operations[places] < 0].tolist() for of in (messages, places)), strict=True):
        error = _operation_error(whole.field("op")[place].as_py(), other_messages)
        if error:
            errors[message] = error
    counts = np.zeros(count, np.int64)
    parts: list[tuple[Ints, Ints, list[str]]] = []  # messages, their rows, kinds
    shift = {"before": 0, "after": len(whole)}
    for operation, (op, rows) in enumerate(envelope.rows.items()):
        of_operation = operations[places] == operation
        some, at = messages[of_operation], places[of_operation]
        for row in () if op == "d" and bare_deletes and upsert else rows:
            complete = has[row.member][at]
            hint = envelope.no_before_hint if row.member == "before" else ""
            reason = f"'{row.member}': is missing or null, but {NEEDED_BY[op]} needs it{hint}"
            errors |= dict.fromkeys(some[~complete].tolist(), Reason(ErrorCode.MISSING_FIELD, reason))
            some, at = some[complete], at[complete]
        counts[some] = len(rows)
        parts += [(some, at + shift[row.member], [row.kind] * len(some)) for row in rows]
    order = np.argsort(np.concatenate([part[0] for part in parts]), kind="stable")  # rows of a message keep their order
    taken = np.concatenate([part[1] for part in parts])[order]
    kinds = pa.array([kind for part in parts for kind in part[2]], pa.string()).take(pa.array(order))
    both = pa.concat_arrays([images["before"], images["after"]])
    values = both.take(pa.array(taken))
    struct = pa.Array.from_buffers(values.type, len(values), [None], children=values.flatten())
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    failed = np.isin(np.arange(count), list(errors))
    lists = pa.list_(pa.field("element", struct.type))
    buffers = [validity(sound & ~failed), pa.py_buffer(offsets)]
    list_array = pa.Array.from_buffers(lists, count, buffers, children=[struct])
    changed = DecodedBatch(list_array, kinds, batch.errors, batch.codes)
    if not errors:
        return changed
    return with_errors(changed, [errors.get(message) for message in range(count)])


def _operation_error(op: str | None, other_messages: str) -> Reason | None:
    """Return the error of a message with another operation; None if such messages are skipped."""
    known = ", ".join(f'"{name}"' for name in CHANGE.rows)
    if not op:
        hint = ". Heartbeats do not have it: set 'other-messages' to 'skip' to skip them"
        missing = f"'op': is missing or null; it must be one of {known}{hint}"
        return None if other_messages != ERROR else Reason(ErrorCode.MISSING_FIELD, missing)
    other = CHANGE.other_by_operation.get(op)
    if other is not None and other.is_skipped(other_messages):
        return None
    return Reason(
        ErrorCode.UNKNOWN_OPERATION,
        f"'op': unknown value {op!r:.40}; it must be one of {known}, in this spelling"
        f"{'' if other is None else other.hint()}",
    )
