"""`raw`: one column of text, bytes, or a number of Kafka's own serializers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kvformat.codecs.discovery.message_kinds import BINARY, OTHER_TEXT, UTF16, indices_of, is_utf8, text_indices
from kvformat.codecs.discovery.numbers import number_type
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.contract.types import BYTES, STRING, FlinkField, FlinkType

_BYTES = {"INT": 4, "BIGINT": 8, "DOUBLE": 8}


def propose_raw(sample: MessageSample, *, has_charset: bool) -> SchemaProposal:
    """Propose one column, `key` or `value`: text if all messages are UTF-8 or the charset is given, else bytes."""
    is_text = has_charset or all(map(is_utf8, sample.present()))
    return SchemaProposal((FlinkField(sample.part, STRING if is_text else BYTES),))


def recognize_raw(sample: MessageSample) -> list[Recognition]:
    """Recognize numbers, and text and bytes that no other format is sure of."""
    number = sample.computed(number_type)
    if number is not None:
        word = "a DOUBLE" if number == "DOUBLE" else f"a whole number ({number})"
        are = (
            f"have {_BYTES[number]} bytes, the first always one of {word} in big-endian order, as Kafka's serializers "
            "write it"
        )
        return [Recognition(tuple(i for i, _ in sample.indexed()), 0.7, are, specificity=0, adapt=_to_type(number))]
    other_text = indices_of(sample, OTHER_TEXT)
    windows = any(0x80 <= byte < 0xA0 for index in other_text for byte in sample.values[index] or b"")
    charset = "windows-1252" if windows else "ISO-8859-1"
    are_bytes = "are bytes of no form that can be told: plain Avro or Protobuf, for two, look like this"
    recognitions = [
        Recognition(indices_of(sample, UTF16), 0.9, "are text in UTF-16", {"charset": "UTF-16"}, specificity=0),
        Recognition(text_indices(sample), 0.6, "are text", specificity=0),
        Recognition(
            other_text, 0.5, f"are text, but not in UTF-8, {charset} perhaps", {"charset": charset}, specificity=0
        ),
        Recognition(indices_of(sample, BINARY), 0.3, are_bytes, specificity=0),
    ]
    return [known for known in recognitions if known.messages]


def _to_type(name: str) -> Callable[[SchemaProposal], SchemaProposal]:
    def adapt(proposal: SchemaProposal) -> SchemaProposal:
        (column,) = proposal.fields
        return replace(proposal, fields=(FlinkField(column.name, FlinkType(name)),))

    return adapt
