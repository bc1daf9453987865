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
    if len(types.names) < 2:
        yield known
        return
    of_names = {number: name for number, name in enumerate(types.names) if name != NAMELESS}
    indices = np.asarray(known.messages)
    for number, name in of_names.items():
        options = {**known.options, RECORD_NAME: name, OTHER_MESSAGES: SKIP}
        own = tuple(indices[types.which == number].tolist())
        yield replace(known, messages=own, description=f"{known.description} of the type {name}", options=options)
    rest = tuple(indices[~np.isin(types.which, list(of_names))].tolist())
    if rest:
        yield replace(known, messages=rest)


def records_of_type(sample: MessageSample, format: RecordFormat, name: str) -> MessageSample:
    """Return the sample with the messages of one type."""
    types = format.record_types(sample.array())
    number = types.names.index(name) if name in types.names else -2
    return sample.only(np.flatnonzero(types.which == number).tolist())


def with_note_of_types(found: SchemaProposal, sample: MessageSample, format: RecordFormat) -> SchemaProposal:
    """Return a proposal with a note if the messages have several types."""
    types = format.record_types(sample.array())
    if len(types.names) < 2:
        return found
    counts = np.bincount(types.which[types.which >= 0], minlength=len(types.names)).tolist()
    shown = ", ".join(f"{name} ({count})" for name, count in list(zip(types.names, counts, strict=True))[:_MOST_SHOWN])
    more = f" and {len(counts) - _MOST_SHOWN} more" if len(counts) > _MOST_SHOWN else ""
    note = f"the messages have {len(counts)} types: {shown}{more}. The option '{RECORD_NAME}' reads one of them"
    return replace(found, notes=(*found.notes, note))
