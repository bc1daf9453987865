"""`framed`: a message is a frame around the payload of another format: compression, a length or a schema id.

    'value.format' = 'framed', 'value.framed.framing' = 'zstd',
    'value.framed.payload.format' = 'json', 'value.framed.payload.json.ignore-parse-errors' = 'true'

Rows, row kinds and metadata are those of the payload's format. `frames.py` implements the frames. A null message is a
null payload without a frame.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry import DecodedBatch, EncodedBatch, ErrorCode, Format, Option, OptionError
from kvformat_framed import frames

__all__ = ["FramedFormat"]

_Batch = TypeVar("_Batch", DecodedBatch, EncodedBatch)
_FrameError = tuple[str, ErrorCode]
_FRAMINGS = ("gzip", "zstd", "length-prefix", "apicurio", "glue")


class FramedFormat(Format):
    """A frame around the payload of any format."""

    identifier = "framed"
    encode_needs_schema = True  # because some payload formats need it
    option_specs = (
        Option(
            name="payload",
            type="format",
            required=True,
            doc="The format of the payload; its options are `payload.<format>.<option>`.",
        ),
        Option(name="framing", type="enum", required=True, allowed=_FRAMINGS, doc="The kind of frame."),
        Option(
            name="max-size",
            type="memory",
            default=16 * 2**20,
            doc="The maximum size of a payload in bytes, after decompression.",
        ),
        Option(name="schema-id", type="long", doc="The schema id that `apicurio` writes. Required for writing."),
        Option(
            name="schema-version-id",
            doc="The UUID of a schema version that `glue` writes. Required for writing.",
        ),
        Option(name="compress", type="boolean", default=False, doc="Whether `glue` compresses when it writes."),
    )

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self.payload: Format = self.options["payload"]
        self.changelog_mode = self.payload.changelog_mode
        self.metadata_types = self.payload.metadata_types
        self.own_columns = self.payload.own_columns
        self._frame = self._framing()

    def _framing(self) -> frames.Frame:
        if self.options["framing"] == "length-prefix":
            return frames.length_prefix()
        if self.options["framing"] == "apicurio":
            return frames.apicurio(self.options["schema-id"] or 0)
        if self.options["framing"] == "glue":
            return frames.glue(self._version(), compress=self.options["compress"])
        return frames.compressed(self.options["framing"])

    def _version(self) -> uuid.UUID:
        try:
            return uuid.UUID(self.options["schema-version-id"] or "0" * 32)
        except ValueError:
            self._raise("schema-version-id", "expected a UUID such as 7b9b4ea1-3f5e-4a37-a7d0-2b2f8e0d3c11")

    def validate(self, direction: Any) -> None:
        """Raise `OptionError` if an option that the frame needs for writing is missing."""
        needed = {"apicurio": "schema-id", "glue": "schema-version-id"}.get(self.options["framing"])
        if direction == "encode" and needed and self.options[needed] is None:
            self._raise(needed, f"it is required for writing with 'framing' = '{self.options['framing']}'")

    def _raise(self, option: str, reason: str) -> NoReturn:
        raise OptionError(f"format 'framed', option '{option}': {reason}", format=self.identifier, option=option)

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        """Remove the frames and decode the payloads."""
        payloads, errors = _convert_each(messages, lambda message: self._frame.read(message, self.options["max-size"]))
        decoded = self.payload.decode_batch(payloads, schema, metadata=metadata)
        return _with_frame_errors(decoded, errors, len(messages))

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        """Encode the rows and add frames."""
        encoded, max_size = self.payload.encode_batch(rows, schema, row_kinds=row_kinds), self.options["max-size"]
        messages, errors = _convert_each(
            encoded.messages, lambda payload: self._frame.write(frames.check_size(payload, max_size))
        )
        return _with_frame_errors(replace(encoded, messages=messages), errors, len(rows))


def _convert_each(
    values: pa.BinaryArray, convert: Callable[[bytes], bytes]
) -> tuple[pa.BinaryArray, dict[int, _FrameError]]:
    """Convert messages to payloads, or payloads to messages.

    Returns the converted values, null if the conversion fails, and the errors by index.
    """
    converted: list[bytes | None] = []
    errors: dict[int, _FrameError] = {}
    for index, value in enumerate(values.to_pylist()):
        converted.append(None)
        try:
            converted[index] = None if value is None else convert(value)
        except ValueError as cause:
            errors[index] = (str(cause), ErrorCode.MALFORMED)
        except OverflowError as cause:
            errors[index] = (str(cause), ErrorCode.TOO_LARGE)
    return pa.array(converted, pa.binary()), errors


def _with_frame_errors(batch: _Batch, frame_errors: dict[int, _FrameError], count: int) -> _Batch:
    """Merge the errors of frames into the result of the payload's format."""
    if not frame_errors:
        return batch
    pairs = [frame_errors.get(index, (None, None)) for index in range(count)]
    errors, codes = (pa.array(column, pa.string()) for column in zip(*pairs, strict=True))
    if batch.errors is not None:
        errors, codes = pc.coalesce(errors, batch.errors), pc.coalesce(codes, batch.codes)
    return replace(batch, errors=errors, codes=codes)
