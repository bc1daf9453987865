"""`protobuf`: each Kafka message is one protobuf message, without a length, a header or a schema id.

    message Order { int32 id = 1; string name = 2; }       row (7, "ab")       08 07  12 02 61 62

Flink gets the message's type from a Java class; kvformat reads it from a descriptor set (`descriptor-file`). Columns
are fields of the same names. A null message is an error.
Rules: Flink's "Protobuf Format" page, its `flink-protobuf` on protobuf-java, and protobuf's encoding guide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from kvformat.codecs.protobuf.binding import check_table
from kvformat.codecs.protobuf.descriptors import CLASS_OPTION, FILE_OPTION, load_types
from kvformat.codecs.protobuf.read import ProtobufReader, Settings
from kvformat.codecs.protobuf.types import MessageTypes
from kvformat.codecs.protobuf.write import ProtobufWriter
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch
from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.options import Option
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.contract.schemas import row_type
from kvformat.registry.format import Format


class ProtobufFormat(Format):
    """The `protobuf` format. The constructor reads the descriptor file once; workers get its content."""

    identifier: ClassVar[str] = "protobuf"
    encode_needs_schema: ClassVar[bool] = True
    option_specs: ClassVar[tuple[Option, ...]] = (
        Option(
            name=CLASS_OPTION,
            required=True,
            doc="The message: the name of its Java class (`com.acme.OrdersProto$Order`), as in Flink, or its full name "
            "in the `.proto` file (`acme.orders.Order`).",
        ),
        Option(
            name=FILE_OPTION,
            required=True,
            doc="Ours. The path of a descriptor set with the message and all imports, as `protoc --include_imports "
            "--descriptor_set_out=orders.desc orders.proto` writes it. It is read when the format is created. "
            "Workers do not need it.",
        ),
        Option(
            name="ignore-parse-errors",
            type="boolean",
            default=False,
            doc="Reading: whether to skip messages that can't be read, including null messages.",
        ),
        Option(
            name="read-default-values",
            type="boolean",
            default=False,
            doc="Reading: whether absent fields become their defaults, at every level. Otherwise they become NULL, "
            "except scalars and enums of proto3.",
        ),
        Option(
            name="write-null-string-literal",
            default="",
            doc="Writing: the text for NULL in an ARRAY of strings, and for NULL as a string key or value of a MAP.",
        ),
    )

    @classmethod
    def recognize(cls, sample: MessageSample) -> Sequence[Recognition]:
        from kvformat.codecs.protobuf.columns import recognize_protobuf

        return recognize_protobuf(sample)

    def propose_schema(self, sample: MessageSample) -> SchemaProposal:
        from kvformat.codecs.protobuf.columns import propose_fields

        return propose_fields(self._types)

    def __init__(self, options: Mapping[str, Any] | None = None, *, types: MessageTypes | None = None) -> None:
        super().__init__(options)
        values = self.options
        self._types = types or load_types(values[FILE_OPTION], values[CLASS_OPTION], self.identifier)

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        options = self.options
        settings = Settings(options["ignore-parse-errors"], options["read-default-values"])
        return _reader(schema, self._types, settings).read(messages)

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        return _writer(schema, self._types, self.options["write-null-string-literal"]).write(rows)

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and isinstance(other, ProtobufFormat) and other._types == self._types

    def __hash__(self) -> int:
        return hash((super().__hash__(), self._types.digest))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (dict(self._raw_options), self._types)


def _restored(options: Mapping[str, Any], types: MessageTypes) -> ProtobufFormat:
    return ProtobufFormat(options, types=types)


@cached_by_identity
def _reader(schema: pa.Schema, types: MessageTypes, settings: Settings) -> ProtobufReader:
    row = row_type(schema)
    check_table(row, types, ProtobufFormat.identifier)
    return ProtobufReader(row, types, settings)


@cached_by_identity
def _writer(schema: pa.Schema, types: MessageTypes, literal: str) -> ProtobufWriter:
    row = row_type(schema)
    check_table(row, types, ProtobufFormat.identifier)
    return ProtobufWriter(row, types, literal)
