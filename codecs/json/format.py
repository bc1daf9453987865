"""`json`: an object per message, or an array of objects, one row each.

    {"id": 1, "price": 12.5, "at": "2024-02-29 23:59:59.123", "tags": ["a", null], "rec": {"x": 1}}

Columns are found by name. Fields that are not in the schema are skipped, but must be valid JSON.
Rules: Flink's "JSON Format" page, its `JsonParserRowDataDeserializationSchema` (the streaming reader, default),
`JsonRowDataDeserializationSchema` (the tree reader) and `JsonRowDataSerializationSchema`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from kvformat.codecs._timestamps.options import FORM_OPTIONS, PATTERNS, ZONE, TimestampForms
from kvformat.codecs.json.nulls import is_null
from kvformat.codecs.json.read import JsonReader
from kvformat.codecs.json.settings import TIMESTAMP_OPTION, WRITE_OPTIONS, ReadSettings, WriteSettings
from kvformat.codecs.json.write import JsonWriter
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.errors import OptionError
from kvformat.registry.contract.look import Looker, LookRequest
from kvformat.registry.contract.options import Direction, Option
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.contract.schemas import row_type
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.format import Format

if TYPE_CHECKING:
    from pyspark.sql import Column


class JsonFormat(Format):
    """The `json` format."""

    identifier: ClassVar[str] = "json"
    reads_by_name = True
    option_specs: ClassVar[tuple[Option, ...]] = (
        Option(
            name="fail-on-missing-field",
            type="boolean",
            default=False,
            doc="Whether a missing field is an error. It can't be combined with `ignore-parse-errors`.",
        ),
        Option(
            name="ignore-parse-errors",
            type="boolean",
            default=False,
            doc="Whether a value that can't be parsed becomes NULL, and a message that can't be parsed is skipped.",
        ),
        TIMESTAMP_OPTION,
        *FORM_OPTIONS,
        *WRITE_OPTIONS,
        Option(
            name="decode.json-parser.enabled",
            type="boolean",
            default=True,
            doc="Whether values follow the rules of Flink's streaming reader, otherwise those of its tree reader.",
        ),
    )

    @classmethod
    def recognize(cls, sample: MessageSample) -> Sequence[Recognition]:
        from kvformat.codecs.json.columns import recognize_rows

        return recognize_rows(sample)

    def propose_schema(self, sample: MessageSample) -> SchemaProposal:
        from kvformat.codecs.json.columns import propose_rows

        return propose_rows(sample, self._raw_options)

    @classmethod
    def look_options(cls, options: Mapping[str, Any]) -> Mapping[str, Any]:
        for option in (PATTERNS, ZONE):
            if option in options:
                raise OptionError(
                    f"option '{option}' of format '{cls.identifier}' needs declared columns: types that are found in "
                    "messages follow 'timestamp-format.standard'. Remove it, or declare a table",
                    format=cls.identifier,
                    option=option,
                )
        return options

    def looker(self, request: LookRequest) -> Looker:
        from kvformat.codecs.json.discover import JsonLooker

        return JsonLooker(self, request)

    def validate(self, direction: Direction) -> None:
        if direction == "decode" and self.options["fail-on-missing-field"] and self.options["ignore-parse-errors"]:
            raise OptionError(
                f"format '{self.identifier}': fail-on-missing-field and ignore-parse-errors shouldn't both be true; "
                "remove one of them",
                format=self.identifier,
                option="fail-on-missing-field",
            )
        self._forms()

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        return _reader(row_type(schema), ReadSettings.of(self.options, self._forms())).read(messages)

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        return _writer(row_type(schema), WriteSettings.of(self.options, self._forms())).write(rows)

    def is_tombstone(self, message: bytes) -> bool:
        return is_null(message)

    def native_encode(self, row: Column, schema: FlinkType, row_kind: Column | None) -> Column | None:
        from kvformat.codecs.json.native import encode_native

        return encode_native(row, schema, WriteSettings.of(self.options, self._forms()))

    def _forms(self) -> TimestampForms | None:
        return TimestampForms.of(self.options, self.identifier)


_reader = cached_by_identity(JsonReader)
_writer = cached_by_identity(JsonWriter)
