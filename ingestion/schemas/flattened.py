"""Decodes columns that are named by the paths of members: `json.infer-schema.flatten-nested-columns.enable`.

    columns   id BIGINT, a.b BIGINT, a.c.d STRING
    schema    id BIGINT, a ROW<b BIGINT, c ROW<d STRING>>
    message   {"id": 1, "a": {"b": 2, "c": {"d": "x"}}}     1, 2, 'x'

A member may be an object in some messages and another value in others. Then `a` is a column, and so are `a.b` and
`a.c.d`. The schema has `a` as text; its objects are decoded once more, for the columns below it. A BOOLEAN is text in
the schema, too: the format reads an object as false.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.ingestion.schemas.coerce import arrow_type_of
from kvformat.ingestion.schemas.from_texts import from_texts
from kvformat.ingestion.schemas.types import STRING
from kvformat.registry.contract.samples import columns_text
from kvformat.registry.contract.types import FlinkField, FlinkType
from kvformat.registry.format import Format


class FlattenedColumns:
    """The columns of a table by their names, which are paths with dots, and how a message is decoded to them.

    `schema` is the type of the rows that the format decodes.
    """

    def __init__(self, columns: Mapping[str, FlinkType]) -> None:
        self._types = dict(columns)
        self._leaves: dict[str, FlinkType] = {}
        below: dict[str, dict[str, FlinkType]] = {}
        for name, t in columns.items():
            head, _, rest = name.partition(".")
            inside = below.setdefault(head, {})
            if rest:
                inside[rest] = t
            else:
                self._leaves[head] = t
        self._inner = {head: FlattenedColumns(inside) if inside else None for head, inside in below.items()}
        self.schema = FlinkType("ROW", nullable=False, fields=tuple(self._fields()))

    def _fields(self) -> list[FlinkField]:
        fields = []
        for head, inner in self._inner.items():
            if inner is None:
                leaf = self._leaves[head]
                fields.append(FlinkField(head, STRING if leaf.root == "BOOLEAN" else leaf))
            else:
                both = head in self._leaves
                t = FlinkType("ROW", fields=inner.schema.fields)
                fields.append(FlinkField(head, STRING if both else t))
        return fields

    def select(self, rows: pa.StructArray, format: Format, time_zone: str) -> pa.StructArray:
        """Return rows with the flat columns, in their order, of rows of type `schema`.

        `format` is the format json that decoded the rows; it decodes objects in columns that also have other values.
        An object in such a column is null there. `time_zone` is the session's.
        """
        columns = self._select(rows, format, time_zone)
        fields = [pa.field(name, columns[name].type) for name in self._types]
        mask = rows.is_null() if rows.null_count else None
        return pa.StructArray.from_arrays([columns[name] for name in self._types], fields=fields, mask=mask)

    def _select(self, rows: pa.StructArray, format: Format, time_zone: str) -> dict[str, pa.Array]:
        columns: dict[str, pa.Array] = {}
        for (head, inner), values in zip(self._inner.items(), rows.flatten(), strict=True):
            if inner is None:
                leaf = self._leaves[head]
                columns[head] = from_texts(values, leaf, time_zone) if leaf.root == "BOOLEAN" else values
                continue
            if head in self._leaves:
                values, texts = inner._objects(values, format)
                columns[head] = from_texts(texts, self._leaves[head], time_zone)
            columns |= {f"{head}.{name}": column for name, column in inner._select(values, format, time_zone).items()}
        return columns

    def _objects(self, texts: pa.StringArray, format: Format) -> tuple[pa.StructArray, pa.StringArray]:
        """Return the rows of texts that are JSON objects, null for others, and the other texts, null for objects."""
        kind = arrow_type_of(FlinkType("ROW", fields=self.schema.fields))
        maybe = np.flatnonzero(pc.fill_null(pc.starts_with(texts, "{"), False).to_numpy(zero_copy_only=False))
        if not len(maybe):
            return pa.nulls(len(texts), kind), texts
        batch = format.decode_batch(texts.take(pa.array(maybe)).cast(pa.binary()), columns_text(self.schema.fields))
        good = batch.rows.value_lengths().fill_null(0).to_numpy(zero_copy_only=False) == 1
        places = np.full(len(texts), -1)
        places[maybe[good]] = np.asarray(batch.rows.offsets)[:-1][good]
        rows = batch.rows.values.cast(kind).take(pa.array(places, mask=places < 0))
        return rows, pc.if_else(pa.array(places < 0), texts, pa.scalar(None, pa.string()))
