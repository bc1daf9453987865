"""Plans that convert rows of wire values to rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from kvformat.codecs._conversions import Conversion, RowErrors
from kvformat.codecs._rows import replace_columns
from kvformat.codecs.changes.envelope import ChangeSettings, Envelope
from kvformat.codecs.changes.read import ChangeReader
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.join_batches import fail_rows
from kvformat.registry.contract.types import FlinkType


@dataclass(frozen=True)
class RowPlan:
    """How messages become rows of a table: read as type `wire`, then converted column by column.

    `conversions` has one item for each column of `row`. It is None if the column is not converted.
    """

    row: FlinkType
    wire: FlinkType
    conversions: Sequence[Conversion | None]

    def apply(self, batch: DecodedBatch, *, lenient: bool = False) -> DecodedBatch:
        """Convert a batch of wire rows. Columns after those of the table, such as metadata, stay as they are.

        A value that its column can't hold is an error of its message, or null if `lenient`.
        """
        errors = RowErrors()

        def column(place: int, wire: pa.Array) -> pa.Array:
            conversion = self.conversions[place]
            if conversion is None:
                return wire
            return conversion.convert(wire, self.row.fields[place].name, lambda rows: rows, errors)

        return convert_columns(batch, len(self.conversions), column, errors, lenient=lenient)


class PlannedReader:
    """Reads change messages as rows of the plan's wire type, and converts them to rows of the table."""

    def __init__(self, plan: RowPlan, envelope: Envelope, settings: ChangeSettings, metadata: tuple[str, ...]) -> None:
        self._plan, self._lenient = plan, settings.values.lenient
        self._reader = ChangeReader(plan.wire, envelope, settings, metadata)

    def read(self, messages: pa.BinaryArray) -> DecodedBatch:
        """Return one list of rows per message.

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
    """Convert the first `count` columns of a batch's rows.

    `column` converts a column, given its number and values, and adds to `errors`. A message with a row in `errors`
    becomes an error. If `lenient`, the rows that `column` adds do not count.
    """
    rows = batch.rows.values
    known = dict(errors.reasons)
    columns = [rows.field(place) for place in range(rows.type.num_fields)]
    columns[:count] = [column(place, wire) for place, wire in enumerate(columns[:count])]
    changed = replace_columns(batch, columns)
    reasons = known if lenient else errors.reasons
    return fail_rows(changed, dict(sorted(reasons.items()))) if reasons else changed
