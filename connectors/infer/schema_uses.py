"""The schemas in a registry that the messages of a sample have, by ids before them or in headers of their records.

    00  00 00 00 07, or 01 and a GUID           Confluent's frame, or its header      7, or the GUID
    03  00  and the UUID of a schema's version  AWS Glue's frame                      the UUID
    apicurio.value.contentId, .globalId         Apicurio's headers                    7, globalId 7
    00  00 00 00 00 00 00 00 07                 Apicurio 2                            7

The timestamps of the records tell when each schema was in use.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kvformat.codecs.discovery.message_kinds import glue_version_of
from kvformat.codecs.registries.apicurio_frames import AUTO, CONTENT_ID, add_header, has_long_id, is_marked, read_frames
from kvformat.codecs.registries.apicurio_frames import HEADERS as APICURIO_HEADERS
from kvformat.codecs.registries.confluent_frames import HEADERS, frame_size
from kvformat.codecs.registries.schema_ids import ids_of_frames, schema_ids
from kvformat.codecs.registry_formats.protobuf_frames import is_frame
from kvformat.registry.contract.format_hooks import Part
from kvformat.registry.contract.samples import MessageSample
from kvformat.registry.table.record_headers import checked_headers, last_header, part_headers

Messages = tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True)
class SchemaUse:
    """The messages of a sample that have the same schema in a registry.

    part: 'key' or 'value'.
    schema: the schema's id or GUID, as text; `globalId 7` for this kind of Apicurio's ids.
    messages: their number.
    first, last: the earliest and the latest timestamp of their records, in UTC; None if it is unknown.
    """

    part: Part
    schema: str
    messages: int
    first: dt.datetime | None = None
    last: dt.datetime | None = None


def schema_uses(sample: MessageSample, timestamps: Sequence[int | None] | None) -> list[SchemaUse]:
    """Return the schemas of messages, in the order of their first timestamps, or else of their first messages.

    `timestamps` are those of the records, in milliseconds since 1970. Messages without the id of a schema are left out.
    """
    times_of_schema: dict[str, list[int | None]] = {}
    times = [None] * len(sample.values) if timestamps is None else timestamps
    for schema, time in zip(_ids(sample), times, strict=True):
        if schema is not None:
            times_of_schema.setdefault(schema, []).append(time)
    uses = []
    for schema, all_times in times_of_schema.items():
        known = [time for time in all_times if time is not None]
        first, last = (_instant(min(known)), _instant(max(known))) if known else (None, None)
        uses.append(SchemaUse(sample.part, schema, len(all_times), first, last))
    latest = dt.datetime.max.replace(tzinfo=dt.UTC)
    return sorted(uses, key=lambda use: use.first or latest)


def _ids(sample: MessageSample) -> list[str | None]:
    """Return the id of each message's schema: in a frame, or in a header of the record."""
    messages = sample.array()
    ids: list[str | None] = schema_ids(messages).to_pylist()
    of_apicurio = [at for at in sample.framed if is_marked(sample.values[at] or b"")]
    of_apicurio += [at for at, message in enumerate(sample.values) if has_long_id(message or b"")]
    frames = read_frames(
        messages.take(pa.array(of_apicurio, pa.int64())), np.ones(len(of_apicurio), np.bool_), AUTO, CONTENT_ID
    )
    for at, schema in zip(of_apicurio, ids_of_frames(frames).to_pylist(), strict=True):
        ids[at] = schema
    return [schema or glue_version_of(message or b"") for schema, message in zip(ids, sample.values, strict=True)]


def _instant(millis: int) -> dt.datetime | None:
    try:
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=millis)
    except OverflowError:
        return None


def with_header_ids(messages: Messages, headers: pa.Array | None, part: Part) -> Messages:
    """Return the messages after the ids of schemas in headers of their records, as formats decode them.

    `headers` are those of the records, as Spark's Kafka source has them. A header with other bytes is left out.
    """
    if headers is None:
        return messages
    checked = checked_headers(headers, len(messages))
    framed = tuple(_framed(messages, last_header(checked, HEADERS[part]).to_pylist()))
    apicurio = part_headers(checked, APICURIO_HEADERS[part])
    if apicurio.null_count == len(apicurio):
        return framed
    marked = add_header(pa.array(messages, pa.binary()), apicurio).to_pylist()
    return tuple(
        mine if mine != message and is_marked(mine or b"") else other
        for message, other, mine in zip(messages, framed, marked, strict=True)
    )


def _framed(messages: Messages, frames: Sequence[bytes | None]) -> Iterator[bytes | None]:
    for message, frame in zip(messages, frames, strict=True):
        is_usable = frame and (frame_size(frame) == len(frame) or is_frame(frame))
        yield frame + message if frame and is_usable and message is not None else message
