"""Keys of Debezium's records: the connector writes them by the types, settings and schemas of the values.

    {"id": 7, "day": 18266}                                      without schemas in the keys
    {"schema": {...}, "payload": {"id": 7, "day": 18266}}        with them

Beside values of `debezium-json` with `types` = `debezium` or `schema-include`, keys of format json are read so; whether
a key has a schema says the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._debezium.rows import joined
from kvformat.codecs.debezium_json import DebeziumJsonFormat
from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.format import DecodedBatch, EncodedBatch, Format

_TAKEN = ("types", "decimal.handling.mode", "time.precision.mode", "binary.handling.mode")
"""Options of the value's format that count for its keys."""
_WRAPPED = r"^\s*\{\s*\"schema\"\s*:\s*(?:\{|null).*\"payload\"\s*:"


class ConnectKeyFormat(DebeziumJsonFormat):
    """Format `json` for the keys of Debezium's records; for reading."""

    identifier: ClassVar[str] = "json"

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self.changelog_mode = ChangelogMode.INSERT_ONLY

    @classmethod
    def beside(cls, key: Format, value: DebeziumJsonFormat) -> ConnectKeyFormat:
        """The format for keys that were declared as json, beside values of a format."""
        given = {name: value.options[name] for name in _TAKEN if value.options[name] is not None}
        own = ("ignore-parse-errors", "timestamp-format.standard")
        return cls({**given, **{name: key.options[name] for name in own}, "flattened": True})

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        wrapped = np.zeros(len(messages), np.bool_)
        if not {"schema", "payload"} <= set(schema.names):
            found = pc.match_substring_regex(messages, f"(?s){_WRAPPED}")
            wrapped = np.asarray(pc.fill_null(found, False))
        parts = []
        for is_wrapped in (False, True):
            at = np.flatnonzero(wrapped == is_wrapped)
            if len(at) or (is_wrapped and not len(messages)):
                parts.append((at, self._part(messages.take(pa.array(at)), schema, wrapped=is_wrapped)))
        batch = parts[0][1] if len(parts) == 1 else joined(parts)
        return replace(batch, row_kinds=None)

    def _part(self, messages: pa.BinaryArray, schema: pa.Schema, *, wrapped: bool) -> DecodedBatch:
        """Keys that are all with, or all without a schema."""
        options = {**self._given, "schema-include": wrapped}
        try:
            return DebeziumJsonFormat(options).decode_arrow(messages, schema)
        except SchemaError:
            if wrapped or not len(messages):
                raise
            return DebeziumJsonFormat({**options, "schema-include": True}).decode_arrow(messages, schema)

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        raise self.no("encode")
