"""Writes rows with kinds as change messages: the row as JSON, between the two texts of the frame of its kind.

An update is written as a deletion of the row before it and an insertion of the row after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs.changes.envelope import DELETE, INSERT, KINDS, UPDATE_AFTER, UPDATE_BEFORE, Frame
from kvformat.codecs.json.settings import WriteSettings
from kvformat.codecs.json.write import JsonWriter
from kvformat.registry.contract.batches import EncodedBatch
from kvformat.registry.contract.error_codes import reason_arrays
from kvformat.registry.contract.types import FlinkType

if TYPE_CHECKING:
    from pyspark.sql import Column

_TEXT = pa.large_string()
_INSERTS = (KINDS[INSERT], KINDS[UPDATE_AFTER])
_DELETES = (KINDS[UPDATE_BEFORE], KINDS[DELETE])


class ChangeWriter:
    """Writes rows of one type in the frames of insertions and deletions.

    Raises `SchemaError` for a type that JSON can't hold.
    """

    def __init__(self, row: FlinkType, settings: WriteSettings, frames: tuple[Frame, Frame]) -> None:
        self._writer, self._frames = JsonWriter(row, settings), frames

    def write(self, rows: pa.StructArray, row_kinds: pa.StringArray | None) -> EncodedBatch:
        """Return a message per row, null for a null row or an error. Without kinds, all rows are insertions."""
        texts, reasons = self._writer.texts(rows)
        inserts, deletes = self._frames
        if row_kinds is None:
            opening, closing = (pa.scalar(text, _TEXT) for text in inserts)
        else:
            is_insert = pc.is_in(row_kinds, pa.array(_INSERTS))
            opening, closing = (
                pc.if_else(is_insert, pa.scalar(insert, _TEXT), pa.scalar(delete, _TEXT))
                for insert, delete in zip(inserts, deletes, strict=True)
            )
        framed = pc.binary_join_element_wise(opening, texts, closing, pa.scalar("", _TEXT))
        return EncodedBatch(framed.cast(pa.large_binary()).cast(pa.binary()), *reason_arrays(reasons))


def native_frames(text: Column, row_kind: Column | None, frames: tuple[Frame, Frame]) -> Column:
    """Return an expression that puts `text`, a row's JSON in binary, into the frame of its kind. Null stays null."""
    from pyspark.sql import functions as F

    inserts, deletes = frames
    if row_kind is None:
        opening, closing = (F.lit(part.encode()) for part in inserts)
    else:
        wrong = F.concat(F.coalesce(row_kind, F.lit("NULL")), F.lit(" is not a row kind; use '+I', '-U', '+U' or '-D'"))
        # use the text once: with a copy for each kind, Spark takes much longer
        opening, closing = (
            F.when(row_kind.isin(*_INSERTS), F.lit(insert.encode()))
            .when(row_kind.isin(*_DELETES), F.lit(delete.encode()))
            .otherwise(F.raise_error(wrong).cast("binary"))
            for insert, delete in zip(inserts, deletes, strict=True)
        )
    return F.concat(opening, text, closing)
