"""Two correct formats. The mutants inherit from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Final

import pyarrow as pa

from kvformat.codecs.debezium_json import DebeziumJsonFormat
from kvformat.codecs.json.format import JsonFormat
from kvformat.registry import DecodedBatch, Option

_SECRET_OPTION: Final = Option(name="password", sensitive=True, doc="A secret.")


class Good(JsonFormat):
    """A correct insert-only format, the base class of most mutants."""

    identifier: ClassVar[str] = "good"
    option_specs: ClassVar[tuple[Option, ...]] = (*JsonFormat.option_specs, _SECRET_OPTION)

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        return self.read(messages, schema)

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        return super().decode_arrow(messages, schema)

    def native_encode(self, row: Any, schema: Any, row_kind: Any) -> None:
        return None


class GoodChanges(DebeziumJsonFormat):
    """A correct changelog format, the base class of mutants with row kinds or metadata."""

    identifier: ClassVar[str] = "good-changes"


def rebuilt(batch: DecodedBatch, rows: list[Any], errors: list[str | None] | None = None) -> DecodedBatch:
    """Return the batch with these rows, and with these errors unless they are None."""
    lists = pa.array(rows, batch.rows.type)
    return replace(batch, rows=lists, errors=batch.errors if errors is None else pa.array(errors, pa.string()))


def in_capitals(batch: DecodedBatch) -> DecodedBatch:
    """Return the batch with all texts of its rows in capital letters."""
    rows = batch.rows.to_pylist()
    for row in (row for rows_of_message in rows for row in rows_of_message or []):
        row.update({name: value.upper() for name, value in row.items() if isinstance(value, str)})
    return rebuilt(batch, rows)
