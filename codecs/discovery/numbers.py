"""Numbers as Kafka's own serializers write them: 4 or 8 bytes in big-endian order."""

from __future__ import annotations

import re
import struct

from kvformat.codecs.discovery.message_kinds import BINARY, is_utf8, message_kinds, text_indices
from kvformat.codecs.registries.confluent_frames import CONFLUENT
from kvformat.registry.contract.samples import MessageSample

_WIDTHS = {4: "INT", 8: "BIGINT"}
_SIGN_BYTES = (0x00, 0xFF)  # that a number begins with, unless it is huge
_DOUBLE_BYTES = (0x3F, 0x40, 0xBF, 0xC0)
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")


def number_type(sample: MessageSample) -> str | None:
    """INT, BIGINT or DOUBLE if all messages of a sample are such numbers; otherwise None."""
    kinds, texts = sample.computed(message_kinds), set(text_indices(sample))
    if not kinds or any(kind not in (BINARY, CONFLUENT) and index not in texts for index, kind in kinds.items()):
        return None
    messages = [message for _, message in sample.indexed()]
    sizes = set(map(len, messages))
    size = sizes.pop() if len(sizes) == 1 else 0
    if size not in _WIDTHS or all(is_utf8(message) and not _CONTROL.search(message) for message in messages):
        return None
    heads = {message[0] for message in messages}
    if heads.issubset(_DOUBLE_BYTES) and size == struct.calcsize("d"):
        return "DOUBLE"
    return _WIDTHS[size] if heads.issubset(_SIGN_BYTES) else None
