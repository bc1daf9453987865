"""Decode JSON messages to rows with the kernel."""

from __future__ import annotations

import pyarrow as pa

from kvformat.codecs._json.error_messages import JsonErrorMessages
from kvformat.codecs._json.schema import JsonSchema
from kvformat.codecs._json.settings import ReadSettings
from kvformat.codecs._kernel import count_messages
from kvformat.codecs._kernel.messages import JsonBatch
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.fork_safe import Guarded
from kvformat.registry.contract.types import FlinkType


class JsonReader:
    """Decodes batches of messages to rows of one type. Raises `SchemaError` for types that JSON does not support."""

    def __init__(self, row: FlinkType, settings: ReadSettings) -> None:
        def batch() -> JsonBatch:
            schema = JsonSchema(row, settings)
            return JsonBatch(schema.row(row), schema.reader(), JsonErrorMessages())

        self._batch = Guarded(batch)

    def read(self, messages: pa.BinaryArray, *, skip: int = 0) -> DecodedBatch:
        """Decode each message to a list of rows: null for a null message or an error, empty if it is skipped.

        `skip` is the number of bytes before the text of each message.
        """
        count_messages(len(messages))
        with self._batch.use() as batch:  # the columns grow in place
            batch.skip = skip
            rows = batch.read_batch(messages)
            errors, codes = batch.errors()
        return DecodedBatch(rows, None, errors, codes)
