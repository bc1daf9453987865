"""Messages that no format reads, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvformat.codecs.discovery.message_kinds import (
    AVRO_FILE,
    BROKEN_JSON,
    COMPRESSED,
    JAVA,
    SINGLE_OBJECT,
    message_kinds,
)
from kvformat.codecs.registries.registry import AVRO, PROTOBUF
from kvformat.codecs.registry_formats import recognize as frames
from kvformat.registry.contract.samples import MessageSample, Recognition


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """A kind of messages: its name, what the messages are, what to do, and how sure the kind is, from 0 to 1."""

    name: str
    description: str
    remedy: str
    confidence: float = 1.0


_KINDS = {
    BROKEN_JSON: _Unreadable(
        "broken JSON", "begin like JSON, but are not valid", '`errors="capture"` says what is wrong with each'
    ),
    AVRO_FILE: _Unreadable(
        "avro file", "are Avro container files", "Flink's formats read single datums, not whole files"
    ),
    SINGLE_OBJECT: _Unreadable(
        "avro single object",
        "begin with C3 01, Avro's single-object encoding",
        "Cut off the ten bytes of its header, then avro with the schema of the fingerprint",
        0.9,
    ),
    JAVA: _Unreadable("java", "are objects of Java's serialization", "Only Java reads them"),
    **{
        name: _Unreadable(name, f"are {name} data", "Decompress them before: no format reads them as they are")
        for name in COMPRESSED
    },
}
_REMEDIES = {"JSON": "What follows the frame is not JSON: `json-registry` says why"}
_NAMES = {"JSON": "json-schema"}
_READABLE = (frames.NOT_ASKED, AVRO, PROTOBUF, frames.CHANGES, frames.MARKED_ROWS, frames.NAMED_ROWS)


def unreadable_messages(sample: MessageSample) -> Iterator[tuple[Recognition, str]]:
    """Yield the messages of each such kind, and the remedy; `Recognition.format` is the name of the kind."""
    indices: dict[str, list[int]] = {}
    for index, kind in sample.computed(message_kinds).items():
        if kind in _KINDS:
            indices.setdefault(kind, []).append(index)
    for kind, of_kind in indices.items():
        known = _KINDS[kind]
        are = f"{known.description}. {known.remedy}"
        yield Recognition(tuple(of_kind), known.confidence, are, specificity=0, format=known.name), known.remedy
    confluent = sample.computed(frames.confluent_frames)
    for kind, messages in confluent.indices.items():
        if kind == frames.UNKNOWN:
            why = "but the registry does not know their ids: perhaps another registry, or other bytes"
            are = f"{confluent.description}, {why}"
            yield Recognition(messages, 0.3, are, format="binary"), "Look for the registry of the producer"
        elif kind not in _READABLE:
            remedy = _REMEDIES.get(kind, "No format reads schemas of this type")
            are = f"{confluent.description}; the registry says {kind}. {remedy}"
            yield Recognition(messages, 1.0, are, format=_NAMES.get(kind, kind.lower())), remedy
