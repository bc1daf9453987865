"""Samples with messages of several types of records: the messages of each type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kvformat.codecs._arrays import Ints
from kvformat.codecs.changes.other_messages import SKIP
from kvformat.codecs.registry_formats.record_options import OTHER_MESSAGES, RECORD_NAME
from kvformat.codecs.registry_formats.record_types import NAMELESS
from kvformat.registry.contract.discovery import get_format
from kvformat.registry.contract.errors import ConfigurationError, SchemaRegistryError
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal

if TYPE_CHECKING:
    from kvformat.codecs.registry_formats.record_format import RecordFormat

_MOST_SHOWN = 10  # types in a note


def split_by_type(sample: MessageSample, known: Recognition, format: str) -> Iterator[Recognition]:
    """Yield a recognition for each type of records among recognized values, or the given one if there is one type.

    There is none without messages.
    """
    if not known.messages:
        return
    if sample.part == "key" or not known.options:  # nothing names the registry
        yield known
        return
    by_name = _by_name(sample.only(known.messages), format, known.options)
    if len(by_name) < 2:
        yield known
        return
    indices = np.asarray(known.messages)
    is_named = np.zeros(len(indices), np.bool_)
    for name, at in by_name.items():
        if name != NAMELESS:
            is_named[at] = True
            options = {**known.options, RECORD_NAME: name, OTHER_MESSAGES: SKIP}
            are = f"{known.description} of the type {name}"
            yield replace(known, messages=tuple(indices[at].tolist()), description=are, options=options)
    if not is_named.all():
        yield replace(known, messages=tuple(indices[~is_named].tolist()))


def options_for_type(
    sample: MessageSample, indices: Sequence[int], format: str, options: Mapping[str, Any]
) -> dict[str, str]:
    """Return the options with which a format reads only the type of the messages at these indices.

    None are needed if all messages have this type. There are none if the messages at the indices have several types.
    """
    known = {spec.name for spec in get_format(format, options).option_specs}
    if not options or RECORD_NAME not in known:
        return {}
    by_name, wanted = _by_name(sample, format, options), set(indices)
    names = [name for name, at in by_name.items() if not wanted.isdisjoint(at.tolist())]
    if len(by_name) < 2 or len(names) != 1 or names == [NAMELESS]:
        return {}
    return {RECORD_NAME: names[0], OTHER_MESSAGES: SKIP}


def _by_name(sample: MessageSample, format: str, options: Mapping[str, Any]) -> dict[str, Ints]:
    """Return the indices of the messages of each type; no types if reading the messages fails."""
    try:
        return cast("RecordFormat", get_format(format, options)).record_types(sample.array()).by_name()
    except (ConfigurationError, OverflowError, SchemaRegistryError):  # the proposal of columns reports it
        return {}


def records_of_type(sample: MessageSample, format: RecordFormat, name: str) -> MessageSample:
    """Return the sample with the messages of one type."""
    by_name = format.record_types(sample.array()).by_name()
    return sample.only(by_name[name].tolist() if name in by_name else [])


def with_note_of_types(proposal: SchemaProposal, sample: MessageSample, format: RecordFormat) -> SchemaProposal:
    """Return a proposal with a note if the messages have several types."""
    counts = {name: len(at) for name, at in format.record_types(sample.array()).by_name().items()}
    if len(counts) < 2:
        return proposal
    shown = ", ".join(f"{name} ({count})" for name, count in list(counts.items())[:_MOST_SHOWN])
    more = f" and {len(counts) - _MOST_SHOWN} more" if len(counts) > _MOST_SHOWN else ""
    note = f"the messages have {len(counts)} types: {shown}{more}. The option '{RECORD_NAME}' reads one of them"
    if sample.part == "key":
        note += ". The columns of several types are no key together: a row has those of one type"
    return replace(proposal, notes=(*proposal.notes, note))
