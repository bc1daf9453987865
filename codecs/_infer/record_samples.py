"""Samples with messages of several types of records: the messages of each type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from kvformat.codecs._changes.other_messages import SKIP
from kvformat.codecs._confluent.record_options import OTHER_MESSAGES, RECORD_NAME
from kvformat.codecs._confluent.record_types import NAMELESS
from kvformat.registry.contract.discovery import get_format
from kvformat.registry.contract.errors import SchemaRegistryError
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal

if TYPE_CHECKING:
    from kvformat.codecs._confluent.record_format import RecordFormat

_MOST_SHOWN = 10  # types in a note


def split_by_type(sample: MessageSample, known: Recognition, format: str) -> Iterator[Recognition]:
    """Yield a recognition for each type of records among recognized values, or the given one if there is one type."""
    if sample.part == "key" or not sample.registry.get("url"):
        yield known
        return
    reader = cast("RecordFormat", get_format(format, known.options))
    try:
        types = reader.record_types(sample.array().take(pa.array(known.messages)))
    except SchemaRegistryError:
        yield known
        return
    found = types.by_name()
    if len(found) < 2:
        yield known
        return
    indices = np.asarray(known.messages)
    is_named = np.zeros(len(indices), np.bool_)
    for name, at in found.items():
        if name != NAMELESS:
            is_named[at] = True
            options = {**known.options, RECORD_NAME: name, OTHER_MESSAGES: SKIP}
            are = f"{known.description} of the type {name}"
            yield replace(known, messages=tuple(indices[at].tolist()), description=are, options=options)
    if not is_named.all():
        yield replace(known, messages=tuple(indices[~is_named].tolist()))


def records_of_type(sample: MessageSample, format: RecordFormat, name: str) -> MessageSample:
    """Return the sample with the messages of one type."""
    found = format.record_types(sample.array()).by_name()
    return sample.only(found[name].tolist() if name in found else [])


def with_note_of_types(found: SchemaProposal, sample: MessageSample, format: RecordFormat) -> SchemaProposal:
    """Return a proposal with a note if the messages have several types."""
    counts = {name: len(at) for name, at in format.record_types(sample.array()).by_name().items()}
    if len(counts) < 2:
        return found
    shown = ", ".join(f"{name} ({count})" for name, count in list(counts.items())[:_MOST_SHOWN])
    more = f" and {len(counts) - _MOST_SHOWN} more" if len(counts) > _MOST_SHOWN else ""
    note = f"the messages have {len(counts)} types: {shown}{more}. The option '{RECORD_NAME}' reads one of them"
    return replace(found, notes=(*found.notes, note))
