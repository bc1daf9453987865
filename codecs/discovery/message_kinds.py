"""Recognize the kind of a message by its bytes: JSON, text, Confluent's frame, compressed data, ... No bytes raise.

Each format decides which kinds are its own (`Format.recognize`). Kinds that no format reads have a remedy in
`connectors/infer/unreadable.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kvformat.codecs._json_documents import JsonDocuments, is_tombstone, without_array
from kvformat.codecs._kernel.tree import Node
from kvformat.codecs.registries.confluent_frames import CONFLUENT, body, frame_size, schema_of
from kvformat.codecs.registries.known import kind_of_frame
from kvformat.registry.contract.samples import MessageSample, Recognition

JSON, BROKEN_JSON, TOMBSTONE = "json", "broken json", "tombstone"
"""A JSON object or an array of objects; malformed JSON; null as JSON, or as the payload of Connect's wrapper."""
CONFLUENT_JSON = "confluent json"
"""JSON in Confluent's frame. The other frames of registries have the kinds of their `Framing`."""
TEXT, UTF16, OTHER_TEXT, BINARY = "text", "utf-16", "other text", "binary"
AVRO_FILE, SINGLE_OBJECT, JAVA = "avro file", "avro single object", "java"
AVRO_FILE_MAGIC = b"Obj\x01"
_BZIP2 = "bzip2"
_MAGIC = (
    (AVRO_FILE_MAGIC, AVRO_FILE),
    (b"\xc3\x01", SINGLE_OBJECT),
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xff\x06\x00\x00sNaPpY", "snappy"),
    (b"\x82SNAPPY\x00", "snappy"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"LZ4Block", "lz4"),
    (b"BZh", _BZIP2),
    (b"\xfd7zXZ\x00", "xz"),
    (b"PK\x03\x04", "zip"),
    (b"PAR1", "parquet"),
    (b"\xac\xed\x00\x05", JAVA),
)
COMPRESSED = ("gzip", "zstd", "snappy", "lz4", _BZIP2, "xz", "zip", "parquet")
_SINGLE_OBJECT_HEADER = 10
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_MAX_KEPT = 8 << 20  # bytes of messages: the trees of more would take too much memory


def message_kinds(sample: MessageSample) -> dict[int, str]:
    """The kind of each message that is neither null nor blank, by its index."""
    documents = JsonDocuments()
    return {
        index: (index in sample.framed and _framed_kind(message, documents, in_header=True))
        or kind_of(message, documents)
        for index, message in sample.indexed()
    }


def kind_of(message: bytes, documents: JsonDocuments) -> str:
    """The kind of a message that is not blank, and whose frame was not in a header."""
    for magic, kind in _MAGIC:
        if message.startswith(magic) and (kind != SINGLE_OBJECT or len(message) > _SINGLE_OBJECT_HEADER):
            return BINARY if kind == _BZIP2 and is_utf8(message) else kind
    tree = documents.parse_valid(message)
    if isinstance(tree, dict | list):
        return _kind_of_tree(tree)
    framed = _framed_kind(message, documents)
    if framed:
        return framed
    if tree is None and message.strip() == b"null":
        return TOMBSTONE
    if message.startswith((b"\xff\xfe", b"\xfe\xff")):
        return UTF16
    if is_utf8(message):
        if _CONTROL.search(message):
            return BINARY
        return BROKEN_JSON if message.lstrip()[:1] in (b"{", b"[") and tree is None else TEXT
    if not _CONTROL.search(message) and 3 * len(_NOT_ASCII.findall(message)) <= len(message):
        return OTHER_TEXT
    return BINARY


def _framed_kind(message: bytes, documents: JsonDocuments, *, in_header: bool = False) -> str:
    """The kind of a message that begins with the frame of a schema registry, "" for others."""
    kind = kind_of_frame(message, in_header=in_header)
    is_json = kind == CONFLUENT and isinstance(documents.parse_valid(body(message)), dict | list)
    return CONFLUENT_JSON if is_json else kind


def _kind_of_tree(tree: Node) -> str:
    row = without_array(tree)
    if isinstance(row, dict):
        return TOMBSTONE if is_tombstone(row) else JSON
    return JSON if isinstance(tree, list) and all(isinstance(element, dict) for element in tree) else TEXT


def is_utf8(message: bytes) -> bool:
    """Return whether the bytes are text in UTF-8."""
    try:
        message.decode()
    except UnicodeDecodeError:
        return False
    return True


def schema_id_of(message: bytes) -> int | str | None:
    """The id or the GUID of the schema in Confluent's frame; None for a message without the frame."""
    size = frame_size(message)
    return schema_of(message[:size]) if size else None


def indices_of(sample: MessageSample, kind: str) -> tuple[int, ...]:
    """The indices of the messages of a kind."""
    return tuple(index for index, kind_of_message in sample.computed(message_kinds).items() if kind_of_message == kind)


def text_indices(sample: MessageSample) -> tuple[int, ...]:
    """The indices of text. JSON null is text, too, unless it is a tombstone among values that are JSON."""
    has_tombstones = sample.part == "value" and indices_of(sample, JSON)
    texts = (TEXT,) if has_tombstones else (TEXT, TOMBSTONE)
    return tuple(index for index, kind in sample.computed(message_kinds).items() if kind in texts)


# --- JSON ------------------------------------------------------------------------------------------------


def json_messages(sample: MessageSample) -> Iterator[tuple[int, Node]]:
    """Index and tree of each message that is a JSON object or an array of objects."""
    if sum(map(len, sample.present())) <= _MAX_KEPT:
        return iter(sample.computed(_kept_json_messages))
    return _json_messages(sample)


def _kept_json_messages(sample: MessageSample) -> list[tuple[int, Node]]:
    return list(_json_messages(sample))


def _json_messages(sample: MessageSample) -> Iterator[tuple[int, Node]]:
    documents = JsonDocuments()
    return ((index, documents.parse(sample.values[index] or b"")) for index in indices_of(sample, JSON))


def recognize_json(
    sample: MessageSample, test: Callable[[Mapping[str, Any]], bool], description: str
) -> tuple[Recognition, ...]:
    """Recognize the JSON objects, alone or in an array of one, that pass a test."""
    rows = ((index, without_array(tree)) for index, tree in json_messages(sample))
    indices = tuple(index for index, row in rows if isinstance(row, dict) and test(row))
    return (Recognition(indices, 1.0, description),) if indices else ()
