"""Rows with kinds as change messages: the text of the row, by json's writer, in the frame of its kind.

An update is written as the deletion of the row before it and the insertion of the one after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._changes.envelope import DELETE, INSERT, KINDS, UPDATE_AFTER, UPDATE_BEFORE, Frame
from kvformat.codecs._json.settings import WriteSettings
from kvformat.codecs._json.write import JsonWriter
from kvformat.registry.contract.format import EncodedBatch
from kvformat.registry.contract.types import FlinkType

if TYPE_CHECKING:
    from pyspark.sql import Column

_TEXT = pa.large_string()
_INSERTS = (KINDS[INSERT], KINDS[UPDATE_AFTER])
_DELETES = (KINDS[UPDATE_BEFORE], KINDS[DELETE])


class ChangeWriter:
    """Writes rows of one type, in the frames of inserts and deletes. Raises `SchemaError` as `JsonWriter` does."""

    def __init__(self, row: FlinkType, settings: WriteSettings, frames: tuple[Frame, Frame]) -> None:
        self._writer, self._frames = JsonWriter(row, settings), frames

    def write(self, rows: pa.StructArray, row_kinds: pa.StringArray | None) -> EncodedBatch:
        """Messages, null for a null or failed row. Without kinds all rows are inserts."""
        texts, errors = self._writer.texts(rows)
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
        return EncodedBatch(framed.cast(pa.large_binary()).cast(pa.binary()), errors)


def native_frames(text: Column, row_kind: Column | None, frames: tuple[Frame, Frame]) -> Column:
    """The texts of rows (binary Columns) in their frames, as a Spark expression; a null stays null."""
    from pyspark.sql import functions as F

    inserts, deletes = frames
    if row_kind is None:
        opening, closing = (F.lit(part.encode()) for part in inserts)
    else:
        wrong = F.concat(F.coalesce(row_kind, F.lit("NULL")), F.lit(" is no row kind; use '+I', '-U', '+U' or '-D'"))
        # the text stands in the expression once: with a copy of it for each kind, Spark takes much longer
        opening, closing = (
            F.when(row_kind.isin(*_INSERTS), F.lit(insert.encode()))
            .when(row_kind.isin(*_DELETES), F.lit(delete.encode()))
            .otherwise(F.raise_error(wrong).cast("binary"))
            for insert, delete in zip(inserts, deletes, strict=True)
        )
    return F.concat(opening, text, closing)
