"""The schemas in a registry that the messages of a sample have, by ids before them or in headers of their records."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from kvformat.codecs._confluent import HEADERS, frame_size
from kvformat.codecs._confluent.protobuf_messages import is_frame
from kvformat.codecs._confluent.schema_ids import schema_ids
from kvformat.registry.contract.format_hooks import Part
from kvformat.registry.table.record_headers import checked_headers, last_header

Messages = tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True)
class SchemaUse:
    """The messages of a sample that have the same schema in a registry.

    part: 'key' or 'value'.
    schema: the schema's id or GUID, as text.
    messages: their number.
    first, last: the earliest and the latest timestamp of their records, in UTC; None if it is unknown.
    """

    part: Part
    schema: str
    messages: int
    first: dt.datetime | None = None
    last: dt.datetime | None = None


def schema_uses(
    part: Part, messages: Sequence[bytes | None], timestamps: Sequence[int | None] | None
) -> list[SchemaUse]:
    """Return the schemas of messages, in the order of their first timestamps, or else of their first messages.

    `timestamps` are those of the records, in milliseconds since 1970. Messages without a frame are left out.
    """
    found: dict[str, list[int | None]] = {}
    times = [None] * len(messages) if timestamps is None else timestamps
    for schema, time in zip(schema_ids(pa.array(messages, pa.binary())).to_pylist(), times, strict=True):
        if schema is not None:
            found.setdefault(schema, []).append(time)
    uses = []
    for schema, all_times in found.items():
        known = [time for time in all_times if time is not None]
        first, last = (_instant(min(known)), _instant(max(known))) if known else (None, None)
        uses.append(SchemaUse(part, schema, len(all_times), first, last))
    latest = dt.datetime.max.replace(tzinfo=dt.UTC)
    return sorted(uses, key=lambda use: use.first or latest)


def _instant(millis: int) -> dt.datetime | None:
    try:
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=millis)
    except OverflowError:
        return None


def with_header_ids(messages: Messages, headers: pa.Array | None, part: Part) -> Messages:
    """Return the messages after the bytes of the header with the schema's id, as formats decode them.

    `headers` are those of the records, as Spark's Kafka source has them. A header with other bytes is left out.
    """
    if headers is None:
        return messages
    frames = last_header(checked_headers(headers, len(messages)), HEADERS[part]).to_pylist()
    return tuple(_framed(messages, frames))


def _framed(messages: Messages, frames: Sequence[bytes | None]) -> Iterator[bytes | None]:
    for message, frame in zip(messages, frames, strict=True):
        is_usable = frame and (frame_size(frame) == len(frame) or is_frame(frame))
        yield frame + message if frame and is_usable and message is not None else message
