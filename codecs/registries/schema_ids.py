"""The metadata `registry.schema-id`: the id or the GUID of each message's schema, as text."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from kvformat.codecs._arrays import with_elements
from kvformat.codecs.registries.confluent_frames import read_frames
from kvformat.codecs.registries.framing import Frames, distinct_ids
from kvformat.registry.contract.batches import DecodedBatch

SCHEMA_ID: Final = "registry.schema-id"
SCHEMA_ID_TYPES: Final = {SCHEMA_ID: "STRING"}


def schema_ids(messages: pa.BinaryArray) -> pa.StringArray:
    """Return the id or the GUID of each message's schema, null for a message without Confluent's frame."""
    return ids_of_frames(read_frames(messages, np.asarray(messages.is_valid())))


def ids_of_frames(frames: Frames) -> pa.StringArray:
    """Return the id or the GUID of each message's schema, null for a message without a frame."""
    distinct, which = distinct_ids(frames.ids)
    texts = pa.array([str(schema) for schema in frames.schemas(distinct.tolist())], pa.string())
    return texts.take(pa.array(which, mask=~frames.good))


def add_to_rows(batch: DecodedBatch, ids: pa.StringArray, at: int) -> DecodedBatch:
    """Return a batch whose rows have the id of their message as one more column, at the place `at`."""
    lists, rows = batch.rows, batch.rows.values
    offsets = np.asarray(lists.offsets)
    of_row = np.zeros(len(rows), np.int64)
    of_row[offsets[0] : offsets[-1]] = np.repeat(np.arange(len(lists)), np.diff(offsets))
    fields, columns = list(rows.type), [rows.field(place) for place in range(rows.type.num_fields)]
    fields.insert(at, pa.field(SCHEMA_ID, pa.string()))
    columns.insert(at, ids.take(pa.array(of_row)))
    mask = rows.is_null() if rows.null_count else None
    added = pa.StructArray.from_arrays(columns, fields=fields, mask=mask)
    element = lists.type.value_field.with_type(added.type)
    return replace(batch, rows=with_elements(lists, pa.list_(element), added))
