"""Decode JSON messages to rows with the kernel."""

from __future__ import annotations

from kvformat.codecs._kernel.messages import JsonBatch
from kvformat.codecs._rows import RowReader
from kvformat.codecs.json.errors import JsonErrorMessages
from kvformat.codecs.json.settings import ReadSettings
from kvformat.codecs.json.types import JsonSchema
from kvformat.registry.contract.types import FlinkType


class JsonReader(RowReader):
    """Decodes batches of messages to rows of one type. Raises `SchemaError` for types that JSON does not support."""

    def __init__(self, row: FlinkType, settings: ReadSettings) -> None:
        def batch() -> JsonBatch:
            schema = JsonSchema(row, settings)
            return JsonBatch(schema.row(row), schema.reader(), JsonErrorMessages())

        super().__init__(batch)
