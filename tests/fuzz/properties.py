"""Properties of every batch of messages.

Each property is a function of a `Batch` that raises an `AssertionError` if the property does not hold. Any other
exception is also a finding. Properties are not random, so that a failing batch can be reduced.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from kvformat.registry import ConfigurationError, DecodedBatch, ErrorCode, SchemaRegistryError
from kvformat.registry.authoring import LookRequest
from kvformat.registry.contract.normalize_input import normalize_rows
from kvformat.registry.testing.results import LAYOUTS, with_garbage_under_nulls
from tests.fuzz.cases import Case, FormatCase, Message
from tests.support.decoding import Answer, answers

ROOM = 1 << 16
"""Maximum size in bytes of a batch's rows, in addition to the size that its messages allow."""
PER_BYTE = 16
"""Maximum bytes of rows per byte of a message, in addition to the width of a row, which may be one or two bytes."""


class Batch:
    """Messages of a case and their results."""

    def __init__(self, case: Case, messages: Sequence[Message]) -> None:
        self.case, self.messages = case, list(messages)

    @cached_property
    def decoded(self) -> DecodedBatch:
        """The result of decoding all messages in one batch."""
        return self.case.decode(self.case.arrays(self.messages))

    @cached_property
    def answers(self) -> list[Answer]:
        """The result of each message."""
        return answers(self.decoded)

    def answers_of(self, places: Sequence[int]) -> list[Answer]:
        """Decode some of the messages in this order in a batch of their own. Returns their results."""
        return Batch(self.case, [self.messages[at] for at in places]).answers

    def lot(self, at: int) -> int:
        """Return a number for choosing messages. It depends on the message and its index among equal messages."""
        return zlib.crc32(repr((self.messages[at], self.messages[:at].count(self.messages[at]))).encode())


def contract(batch: Batch) -> None:
    """A batch is valid Arrow data with one list per message, one kind per row, and no rows for an error."""
    found, count = batch.decoded, len(batch.messages)
    found.rows.validate(full=True)
    assert pa.types.is_list(found.rows.type), found.rows.type
    assert len(found.rows) == count
    if isinstance(batch.case, FormatCase):
        format, schema = batch.case.format, batch.case.format.prepare("decode", batch.case.schema)
        wanted = format.result_type(schema, batch.case.metadata)
        assert found.rows.type.value_type.names == [field.name for field in wanted.fields]
    if found.row_kinds is not None:
        found.row_kinds.validate(full=True)
        assert len(found.row_kinds) == len(found.rows.values)
        assert set(found.row_kinds.to_pylist()) <= {"+I", "-U", "+U", "-D"}
    errors: list[str | None] = [None] * count
    if found.errors is not None:
        found.errors.validate(full=True)
        assert len(found.errors) == count
        errors = found.errors.to_pylist()
        assert found.codes is not None
        assert [code is None for code in found.codes.to_pylist()] == [error is None for error in errors]
        assert set(found.codes.drop_null().to_pylist()) <= set(ErrorCode), found.codes
    for message, null, error in zip(batch.messages, found.rows.is_null().to_pylist(), errors, strict=True):
        assert error is None or (error.strip() and null), (message, error)
        assert not null or error is not None or message[-1] is None, message


def kernel(batch: Batch) -> None:
    """A format's `decode_arrow` and `encode_arrow` never raise, although their caller would catch the exception."""
    if not isinstance(batch.case, FormatCase):
        return
    case, format = batch.case, batch.case.format
    (messages,) = case.arrays(batch.messages)
    found = format.decode_arrow(messages, format.prepare("decode", case.schema), metadata=case.metadata)
    try:
        schema = format.prepare("encode", case.schema)
        format.encode_arrow(normalize_rows(case.rows(found)[:0], schema), schema)
    except ConfigurationError:  # it can only decode
        return
    format.encode_arrow(normalize_rows(case.rows(batch.decoded), schema), schema, row_kinds=batch.decoded.row_kinds)


def neighbours(batch: Batch) -> None:
    """Messages have the same results without some of the other messages."""
    places = [at for at in range(len(batch.messages)) if batch.lot(at) & 1]
    assert batch.answers_of(places) == [batch.answers[at] for at in places]


def permutation(batch: Batch) -> None:
    """The order of messages does not change their results."""
    places = sorted(range(len(batch.messages)), key=batch.lot)
    assert batch.answers_of(places) == [batch.answers[at] for at in places]


def alone(batch: Batch) -> None:
    """A message has the same result alone and in a batch. Tests some of the messages."""
    for at in sorted(range(len(batch.messages)), key=batch.lot)[:6]:
        assert batch.answers_of([at]) == [batch.answers[at]], batch.messages[at]


def layouts(batch: Batch) -> None:
    """Messages have the same results in every kind of Arrow array."""
    arrays = batch.case.arrays(batch.messages)
    for name, layout in {**LAYOUTS, "bytes under nulls": with_garbage_under_nulls}.items():
        found = answers(batch.case.decode([layout(array) for array in arrays]))
        assert found == batch.answers, name
    count = len(batch.messages)
    for start, stop in ((1, count), (0, count // 2), (count // 3, count // 3 + 1)):
        found = answers(batch.case.decode([array[start:stop] for array in arrays]))
        assert found == batch.answers[start:stop], f"slice {start}:{stop}"


def bounded(batch: Batch) -> None:
    """The size of rows is proportional to the size of their messages."""
    rows = batch.decoded.rows
    sizes = [sum(len(part or b"") for part in message) for message in batch.messages]
    counts = np.diff(np.asarray(rows.offsets))
    most = ROOM + (PER_BYTE + _width(rows.type.value_type)) * (sum(sizes) + len(sizes))
    if not isinstance(batch.case, FormatCase) or batch.case.metadata:  # key and metadata are repeated for each row
        most += PER_BYTE * sum(size * int(count) for size, count in zip(sizes, counts, strict=True))
    assert rows.nbytes <= most, f"{rows.nbytes} bytes of rows, {sum(sizes)} of messages"


def written(batch: Batch) -> None:
    """Decoded rows can be encoded or have an error, with the same result alone and in a batch.

    If `Case.is_lossless`, they are also unchanged after encoding and decoding.
    """
    case, kinds = batch.case, batch.decoded.row_kinds
    rows = case.rows(batch.decoded)
    try:
        case.encode(rows[:0], None)
    except ConfigurationError:  # it can only decode
        return
    parts, errors = case.encode(rows, kinds)
    failed = [None] * len(rows) if errors is None else errors.to_pylist()
    for part in parts:
        part.validate(full=True)
        assert len(part) == len(failed) == len(rows)
    for place in range(0, len(rows), max(len(rows) // 3, 1)):
        one = slice(place, place + 1)
        some, why = case.encode(rows[one], None if kinds is None else kinds[one])
        assert [part.to_pylist() for part in some] == [part[one].to_pylist() for part in parts], rows[place]
        assert (None if why is None else why[0].as_py()) == failed[place], rows[place]
    if not case.is_lossless:
        return
    texts = _texts(rows)
    # some formats write NaN and infinity as texts that they cannot read
    kept = [at for at, error in enumerate(failed) if error is None and not re.search(r"\b(inf|nan)\b", texts[at])]
    again = case.decode([part.take(pa.array(kept, pa.int64())) for part in parts])
    assert again.errors is None or again.errors.null_count == len(kept), again.errors.drop_null()[0]
    assert _texts(case.rows(again)) == [texts[at] for at in kept]


def _texts(rows: pa.StructArray) -> list[str]:
    """Return each row as text. -0.0 becomes 0.0, because some formats write it as 0."""
    one_each = pa.ListArray.from_arrays(pa.array(range(len(rows) + 1), pa.int32()), rows)
    return [re.sub(r"-0\.0\b", "0.0", answer.rows or "") for answer in answers(DecodedBatch(one_each))]


def _width(t: pa.DataType) -> int:
    """Return the size in bytes of a value with only NULLs: its numbers and offsets at all levels."""
    inner = sum(_width(t.field(i).type) for i in range(t.num_fields))
    if t.num_fields:
        return inner + 5
    return (t.bit_width + 7) // 8 + 1 if pa.types.is_primitive(t) or pa.types.is_decimal(t) else 5


def looked(batch: Batch) -> None:
    """A look finds the table of each message, or its error, alone as in the batch. A second look finds nothing new."""
    if not isinstance(batch.case, FormatCase):
        return
    format = batch.case.format
    (messages,) = batch.case.arrays(batch.messages)
    topics = pa.array(["topic"] * len(messages), pa.string())
    try:
        found = format.looker(LookRequest()).look(messages, topics)
    except (ConfigurationError, SchemaRegistryError):  # such as the option 'schema', which names the columns
        return
    found.indices.validate(full=True)
    tables = [None if place is None else found.tables[place] for place in found.indices.to_pylist()]
    assert len(tables) == len(messages)
    assert all(text.startswith("[") and tables[at] is None for at, text in found.errors.items())
    assert all(tables[column.message] == column.table for column in found.columns)
    for at in sorted(range(len(batch.messages)), key=batch.lot)[:4]:
        one = format.looker(LookRequest()).look(messages[at : at + 1], topics[:1])
        assert [None if place is None else one.tables[place] for place in one.indices.to_pylist()] == [tables[at]]
        assert one.errors.get(0) == found.errors.get(at)


PROPERTIES: dict[str, Callable[[Batch], None]] = {
    "contract": contract,
    "kernel": kernel,
    "neighbours": neighbours,
    "permutation": permutation,
    "alone": alone,
    "layouts": layouts,
    "bounded": bounded,
    "written": written,
    "looked": looked,
}
