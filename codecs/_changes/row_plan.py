"""Rows of wire values as rows of a table, and batches of several parts as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from kvformat.codecs._changes.conversions import Conversion, RowErrors
from kvformat.codecs._changes.envelope import ChangeSettings, Envelope
from kvformat.codecs._changes.read import ChangeReader
from kvformat.codecs._columnar import Ints
from kvformat.registry.contract.format import DecodedBatch
from kvformat.registry.contract.join_batches import joined_rows, with_reasons
from kvformat.registry.contract.types import FlinkType


@dataclass(frozen=True)
class RowPlan:
    """How the images of one schema become rows of a table: read as `wire`, then changed column by column."""

    row: FlinkType
    wire: FlinkType
    changes: Sequence[Conversion | None]

    def apply(self, batch: DecodedBatch, *, lenient: bool = False) -> DecodedBatch:
        """The rows of the wire as those of the table, further columns as they are. Rows with errors are errors.

        If `lenient`, a value that the column can't hold is null instead.
        """
        errors = RowErrors()

        def column(place: int, wire: pa.Array) -> pa.Array:
            change = self.changes[place]
            return wire if change is None else change.convert(wire, self.row.fields[place].name, _same, errors)

        return convert_columns(batch, len(self.changes), column, errors, lenient=lenient)


class PlannedReader:
    """Reads change messages as rows of the plan's wire types, and converts these to the table's."""

    def __init__(self, plan: RowPlan, envelope: Envelope, settings: ChangeSettings, metadata: tuple[str, ...]) -> None:
        self._plan, self._lenient = plan, settings.values.lenient
        self._reader = ChangeReader(plan.wire, envelope, settings, metadata)

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """One list of rows per message.

        A value that its column can't hold is an error of its message, or null with `ignore-parse-errors`.
        """
        return self._plan.apply(self._reader.read(messages), lenient=self._lenient)


def convert_columns(
    batch: DecodedBatch,
    count: int,
    column: Callable[[int, pa.Array], pa.Array],
    errors: RowErrors,
    *,
    lenient: bool = False,
) -> DecodedBatch:
    """Convert the first `count` columns of a batch's rows, and make errors of rows with errors.

    `column` converts the column at a place, and adds to `errors`. If `lenient`, only the errors at the call count.
    """
    rows = batch.rows.values
    known = dict(errors.reasons)
    columns = [rows.field(place) for place in range(rows.type.num_fields)]
    columns[:count] = [column(place, wire) for place, wire in enumerate(columns[:count])]
    changed = replace_columns(batch, columns)
    reasons = known if lenient else errors.reasons
    return with_reasons(changed, dict(sorted(reasons.items()))) if reasons else changed


def replace_columns(batch: DecodedBatch, columns: list[pa.Array]) -> DecodedBatch:
    """The batch with other columns in its rows, of the names of the first ones."""
    rows = batch.rows.values
    fields = [pa.field(rows.type[place].name, column.type) for place, column in enumerate(columns)]
    values = pa.Array.from_buffers(pa.struct(fields), len(rows), [None], children=columns)
    items = pa.list_(pa.field("item", values.type))
    lists = pa.Array.from_buffers(items, len(batch.rows), batch.rows.buffers()[:2], children=[values])
    return replace(batch, rows=lists)


def join_parts(parts: list[tuple[Ints, DecodedBatch]]) -> DecodedBatch:
    """One batch of several, given the places of the messages of each part in it."""
    places = np.concatenate([at for at, _ in parts])
    order = np.empty(len(places), np.int64)
    order[places] = np.arange(len(places))
    return take_messages(joined_rows([part for _, part in parts]), order)


def take_messages(batch: DecodedBatch, places: Ints) -> DecodedBatch:
    """The messages of a batch that are at these places."""
    chosen, buffers = pa.array(places), batch.rows.buffers()[:2]
    kinds = pa.Array.from_buffers(pa.list_(pa.string()), len(batch.rows), buffers, children=[batch.row_kinds])
    errors = None if batch.errors is None else batch.errors.take(chosen)
    codes = None if batch.codes is None else batch.codes.take(chosen)
    kinds_taken = kinds.take(chosen).flatten()
    return replace(batch, rows=batch.rows.take(chosen), row_kinds=kinds_taken, errors=errors, codes=codes)


def _same(places: Ints) -> Ints:
    return places
