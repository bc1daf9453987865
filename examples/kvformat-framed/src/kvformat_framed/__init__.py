"""`framed`: a message is a frame around the payload of another format: compressed, with a length, or behind an id.

    'value.format' = 'framed', 'value.framed.framing' = 'zstd',
    'value.framed.payload.format' = 'json', 'value.framed.payload.json.ignore-parse-errors' = 'true'

All that a message says is said by its payload: rows, kinds of rows and metadata are those of the other format.
`frames.py` has the frames. A null message is a null payload, without a frame.
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
_Fault = tuple[str, ErrorCode]
_FRAMINGS = ("gzip", "zstd", "length-prefix", "apicurio", "glue")


class FramedFormat(Format):
    """A frame around any format's payload, both ways."""

    identifier = "framed"
    encode_needs_schema = True  # as some payloads do
    option_specs = (
        Option(
            name="payload",
            type="format",
            required=True,
            doc="The format of the payload; its options are `payload.<format>.<option>`.",
        ),
        Option(name="framing", type="enum", required=True, allowed=_FRAMINGS, doc="What is around the payload."),
        Option(
            name="max-size",
            type="memory",
            default=16 * 2**20,
            doc="How many bytes a payload may have, also when it comes out of compression.",
        ),
        Option(name="schema-id", type="long", doc="The id that `apicurio` writes; required there. All ids are read."),
        Option(
            name="schema-version-id",
            doc="The version of a schema, a UUID, that `glue` writes; required there. All versions are read.",
        ),
        Option(name="compress", type="boolean", default=False, doc="Whether `glue` compresses. Both ways are read."),
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
            self._refuse("schema-version-id", "it is no UUID such as 7b9b4ea1-3f5e-4a37-a7d0-2b2f8e0d3c11")

    def validate(self, direction: Any) -> None:
        """Look at the options together."""
        needed = {"apicurio": "schema-id", "glue": "schema-version-id"}.get(self.options["framing"])
        if direction == "encode" and needed and self.options[needed] is None:
            self._refuse(needed, f"'framing' = '{self.options['framing']}' needs it for writing")

    def _refuse(self, option: str, reason: str) -> NoReturn:
        raise OptionError(f"format 'framed', option '{option}': {reason}", format=self.identifier, option=option)

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        """The rows of the payloads."""
        payloads, faults = _each(messages, lambda message: self._frame.read(message, self.options["max-size"]))
        decoded = self.payload.decode_batch(payloads, schema, metadata=metadata)
        return _with_faults(decoded, faults, len(messages))

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        """The payloads of the rows in frames."""
        encoded, most = self.payload.encode_batch(rows, schema, row_kinds=row_kinds), self.options["max-size"]
        messages, faults = _each(encoded.messages, lambda payload: self._frame.write(frames.within(payload, most)))
        return _with_faults(replace(encoded, messages=messages), faults, len(rows))


def _each(values: pa.BinaryArray, change: Callable[[bytes], bytes]) -> tuple[pa.BinaryArray, dict[int, _Fault]]:
    """Messages or payloads, each changed; null where that can't be, and what is wrong there, by place."""
    changed: list[bytes | None] = []
    faults: dict[int, _Fault] = {}
    for place, value in enumerate(values.to_pylist()):
        changed.append(None)
        try:
            changed[place] = None if value is None else change(value)
        except ValueError as cause:
            faults[place] = (str(cause), ErrorCode.MALFORMED)
        except OverflowError as cause:
            faults[place] = (str(cause), ErrorCode.TOO_LARGE)
    return pa.array(changed, pa.binary()), faults


def _with_faults(batch: _Batch, faults: dict[int, _Fault], count: int) -> _Batch:
    """What the payload's format gives, with the faults of frames among its errors."""
    if not faults:
        return batch
    found = [faults.get(place, (None, None)) for place in range(count)]
    errors, codes = (pa.array(each, pa.string()) for each in zip(*found, strict=True))
    if batch.errors is not None:
        errors, codes = pc.coalesce(errors, batch.errors), pc.coalesce(codes, batch.codes)
    return replace(batch, errors=errors, codes=codes)
