"""The schemas in a registry that the messages of a sample have, by ids before them or in headers of their records.

    00  00 00 00 07, or 01 and a GUID           Confluent's frame, or its header      7, or the GUID
    03  00  and the UUID of a schema's version  AWS Glue's frame                      the UUID

The frames are those of all registries in `codecs/registries/known.py`. The timestamps of the records tell when each
schema was in use.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kvformat.codecs.registries.known import FRAMINGS
from kvformat.codecs.registries.schema_ids import ids_of_frames, schema_ids
from kvformat.registry.contract.format_hooks import Part
from kvformat.registry.contract.samples import MessageSample
from kvformat.registry.table.record_headers import checked_headers, part_headers

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
    for framing in FRAMINGS:
        places = [
            place
            for place, message in enumerate(sample.values)
            if framing.kind_of(message or b"", in_header=place in sample.framed)
        ]
        framed = messages.take(pa.array(places, pa.int64()))
        frames = framing.read(framed, np.ones(len(places), np.bool_), only_ids=True)
        for place, schema in zip(places, ids_of_frames(frames).to_pylist(), strict=True):
            ids[place] = schema
    return ids


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
    framed = list(messages)
    for framing in FRAMINGS:
        of_part = part_headers(checked, framing.headers[part]) if framing.headers else pa.nulls(0)
        if of_part.null_count == len(of_part):
            continue
        with_ids = framing.add_header(pa.array(messages, pa.binary()), of_part).to_pylist()
        for place, (message, with_id) in enumerate(zip(messages, with_ids, strict=True)):
            if with_id != message and framing.kind_of(with_id, in_header=True):
                framed[place] = with_id
    return tuple(framed)
