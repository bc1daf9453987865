"""Apicurio's frames: the id of a schema before the datum, or in a header of the record.

    00  00 00 00 07               an id of four bytes, big-endian, as Apicurio 3 writes it and Confluent
    00  00 00 00 00 00 00 00 07   an id of eight bytes, as Apicurio 2 writes it

    apicurio.value.contentId      the id of a schema's content, eight bytes
    apicurio.value.globalId       the id of a version, eight bytes; counts if there is no id of a content
    apicurio.value.encoding       the text BINARY or JSON, of the datum

and the same with `key`. No real id of four bytes is 0, so that four zeros begin an id of eight bytes. A record with an
id in a header has only the datum. `add_header` puts the id there, after `fd` for a global id or `fe` for an id of a
content, so that the readers find all frames in one place.
Rules: Apicurio's `DefaultHeadersHandler`, `Default4ByteIdHandler`, `Legacy8ByteIdHandler` and
`OptimisticFallbackIdHandler`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Mask
from kvformat.codecs.registries.confluent_frames import PREFIX
from kvformat.codecs.registries.framing import Frames, Framing, cut, layout
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.format_hooks import HeaderNames, Part

LONG_PREFIX = 9
"""Bytes before the datum, with an id of eight bytes."""
CONTENT_ID, GLOBAL_ID = "contentId", "globalId"
APICURIO, APICURIO_LONG_ID = "apicurio", "apicurio long id"
"""The kind of messages whose id is in a header, and of messages that begin with an id of eight bytes."""
HEADERS: Mapping[Part, tuple[str, ...]] = {
    "key": ("apicurio.key.contentId", "apicurio.key.globalId", "apicurio.key.encoding"),
    "value": ("apicurio.value.contentId", "apicurio.value.globalId", "apicurio.value.encoding"),
}
"""The headers that belong to the key or the value; `add_header` gets them in this order."""
ID_WIDTH = "id-width"
AUTO, FOUR, EIGHT = "auto", "4", "8"
"""The option for the width of ids, and its values."""
_MARKS = {CONTENT_ID: 0xFE, GLOBAL_ID: 0xFD}
_BAD_HEADER = b"\xff\xffapicurio: "
_SHOWN = 32  # bytes of a wrong header
_LONGEST_REASON = 300  # bytes of a reason, which quotes `_SHOWN` bytes


class ApicurioFraming(Framing):
    """Apicurio's frames.

    width: AUTO, FOUR or EIGHT. kind: CONTENT_ID or GLOBAL_ID, what ids before the datum are. format: for errors.
    """

    text: ClassVar[str] = "00 and the id of a schema"
    headers: ClassVar[Mapping[Part, HeaderNames]] = HEADERS
    kinds: ClassVar[tuple[str, ...]] = (APICURIO, APICURIO_LONG_ID)

    def __init__(self, width: str, kind: str, format: str) -> None:
        self._width, self._kind, self._format = width, kind, format

    def prefix(self, schema_id: Any) -> bytes:
        try:
            return b"\0" + int(schema_id).to_bytes(8 if self._width == EIGHT else 4, "big", signed=True)
        except OverflowError:
            raise SchemaError(
                f"format '{self._format}': the schema id {schema_id} does not fit in four bytes; set '{ID_WIDTH}' = "
                f"'{EIGHT}', which readers must know",
                format=self._format,
            ) from None

    def read(self, messages: pa.BinaryArray, present: Mask, *, only_ids: bool = False) -> Frames:
        """Return the frames. The keys of schemas are ids of the kind before the datum, or texts like `globalId 7`."""
        if not len(messages):
            return Frames(messages, np.zeros(0, np.int64), present, present, messages, _reason, size=PREFIX)
        data, starts, lengths, long = layout(messages, present, PREFIX)
        short_ids = np.ndarray((len(data) - PREFIX + 1,), ">i4", data, offset=1, strides=(1,))[starts].astype(np.int64)
        magic = data[starts]
        plain = Frames(messages, short_ids, long & (magic == 0), present, messages, _reason, size=PREFIX)
        marked = (magic == _MARKS[CONTENT_ID]) | (magic == _MARKS[GLOBAL_ID])
        if self._width == EIGHT:
            wide = (magic == 0) | marked
        elif self._width == AUTO:
            wide = ((magic == 0) & (short_ids == 0)) | marked
        else:
            wide = marked
        if not wide.any():
            return plain
        wide &= (lengths >= LONG_PREFIX) & present
        all_wide = bool(wide.all())
        good = wide | (plain.good & (self._width != EIGHT))
        ids = short_ids
        places = starts if all_wide else starts[wide]
        if len(places):
            long_ids = np.ndarray((len(data) - LONG_PREFIX + 1,), ">i8", data, offset=1, strides=(1,))[places]
            if all_wide:
                ids = long_ids.astype(np.int64)
            else:
                ids[wide] = long_ids
        frames = replace(plain, ids=ids, good=good)
        of_other_kind = wide & marked & (magic != _MARKS[self._kind])
        if of_other_kind.any():
            frames = _with_kinds(frames, of_other_kind, self._kind)
        if (wide == good).all():
            return replace(frames, size=LONG_PREFIX)
        return replace(frames, messages=cut(messages, wide, LONG_PREFIX - PREFIX))

    def add_header(self, messages: pa.BinaryArray, headers: pa.StructArray) -> pa.BinaryArray:
        """Put the ids in headers before their messages. A message whose headers are wrong becomes its own error."""
        content, version, encoding = headers.flatten()
        marks = ((content, headers.type[0].name, CONTENT_ID), (version, headers.type[1].name, GLOBAL_ID))
        prefixes, errors = zip(*(_marked(values, name, _MARKS[kind]) for values, name, kind in marks), strict=True)
        framed = pc.coalesce(pc.binary_join_element_wise(pc.coalesce(*prefixes), messages, b""), messages)
        bad = pc.coalesce(_wrong_encoding(encoding, headers.type[2].name), errors[0], errors[1])
        if bad.null_count == len(bad):
            return framed
        return pc.if_else(pc.and_(bad.is_valid(), messages.is_valid()), bad, framed)

    @classmethod
    def id_headers(cls, part: Part) -> tuple[str, ...]:
        return HEADERS[part][:2]

    @classmethod
    def kind_of(cls, message: bytes, *, in_header: bool) -> str:
        if in_header:
            return APICURIO if message[:1] and message[0] in _MARKS.values() else ""
        is_long = len(message) > LONG_PREFIX and not any(message[:PREFIX]) and any(message[PREFIX:LONG_PREFIX])
        return APICURIO_LONG_ID if is_long else ""


def _marked(values: pa.BinaryArray, name: str, mark: int) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """Return the bytes to put before the messages, and the errors of headers that are not an id."""
    distinct = values.dictionary_encode()
    frames: list[bytes | None] = []
    errors: list[bytes | None] = []
    for value in distinct.dictionary.to_pylist():
        is_id = len(value) == 8
        frames.append(bytes([mark]) + value if is_id else None)
        shown = value[:_SHOWN].hex(" ") + (" ..." if len(value) > _SHOWN else "")
        why = f"the record's header '{name}' has the bytes '{shown}': it must be an id of eight bytes, big-endian"
        errors.append(None if is_id else _BAD_HEADER + why.encode())
    return tuple(pa.array(per_id, pa.binary()).take(distinct.indices) for per_id in (frames, errors))


def _wrong_encoding(values: pa.BinaryArray, name: str) -> pa.BinaryArray:
    """Return the error of each header that says that the datum is not binary."""
    distinct = values.dictionary_encode()
    errors = [
        None
        if value == b"BINARY"
        else _BAD_HEADER
        + f"the record's header '{name}' is {value[:_SHOWN].decode(errors='replace')!r}: only data in Avro's binary "
        "encoding can be read, BINARY".encode()
        for value in distinct.dictionary.to_pylist()
    ]
    return pa.array(errors, pa.binary()).take(distinct.indices)


def _with_kinds(frames: Frames, of_other_kind: Mask, kind: str) -> Frames:
    """Return the frames with numbers that stand for ids of both kinds."""
    other = GLOBAL_ID if kind == CONTENT_ID else CONTENT_ID
    distinct, numbers = np.unique(frames.ids, return_inverse=True)
    marked, numbers = np.unique(numbers * 2 + of_other_kind, return_inverse=True)
    ids = ((int(distinct[number // 2]), number % 2) for number in marked.tolist())
    keys = tuple(f"{other} {schema_id}" if is_other else schema_id for schema_id, is_other in ids)
    return replace(frames, ids=numbers, keys=keys)


def _reason(message: pa.Buffer) -> str:
    """Return what is wrong with the frame of a message."""
    length, head = message.size, message[: len(_BAD_HEADER) + _LONGEST_REASON].to_pybytes()
    if head.startswith(_BAD_HEADER):
        text: str = head[len(_BAD_HEADER) :].decode(errors="replace")
        return text
    if length and head[0] not in (0, *_MARKS.values()):
        return (
            f"Unknown magic byte: the message begins with {head[0]:02x}, not with 00. If the schema's id is in the "
            f"record's header '{HEADERS['value'][0]}' or '{HEADERS['value'][1]}', decode records with their column "
            "'headers'"
        )
    return f"the message has {length} bytes, fewer than 00 and a schema id of four or eight bytes ('id-width')"
