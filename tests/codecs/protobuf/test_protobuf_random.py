"""`protobuf` with random types and messages; google's package is the second opinion.

KVFORMAT_PROTOBUF_SEED=7 draws other types. A failure names the seed of its descriptor set.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from kvformat.registry import Format, get_format
from tests.codecs.protobuf.protobuf_java import as_java
from tests.codecs.protobuf.protobuf_random import Expected, RandomFile, ddl, fill, plain, table_of
from tests.support import protobuf_mutation, vectors
from tests.support.decoding import answers, decoded
from tests.support.extent import case_count

SETS = case_count("KVFORMAT_PROTOBUF_SETS", quick=40, night=150)
"""How many descriptor sets; of each, `MESSAGES` messages and as many changed ones."""
MESSAGES = 20
SEED = int(os.environ.get("KVFORMAT_PROTOBUF_SEED", "0")) * 1_000_000


class _Drawn(NamedTuple):
    """A format and a table, google's class of the message, messages, and what their rows must be."""

    seed: int
    rng: random.Random
    format: Format
    schema: str
    google: Any
    table: dict[str, tuple[Any, Any]]
    expected: Expected
    messages: list[bytes]


def _packed_otherwise(files: bytes) -> bytes:
    """The descriptor set with each packed field unpacked, and the other way round."""
    made = descriptor_pb2.FileDescriptorSet.FromString(files)
    for file in made.file:
        waiting = list(file.message_type)
        while waiting:
            message = waiting.pop()
            waiting.extend(message.nested_type)
            for field in message.field:
                if field.options.HasField("packed"):
                    field.options.packed = not field.options.packed
    return made.SerializeToString()


def _drawn(seed: int, folder: Path) -> _Drawn | None:
    rng = random.Random(seed)
    first = RandomFile(rng, "one", None)
    files = [first, RandomFile(rng, "two", first)] if rng.random() < 0.5 else [first]
    data = descriptor_pb2.FileDescriptorSet(file=[file.file for file in files]).SerializeToString()
    (folder / "types.desc").write_bytes(data)
    name = f"{files[-1].file.package}.{rng.choice(files[-1].file.message_type).name}"
    google = vectors.protobuf_class(data, name)
    writer = vectors.protobuf_class(_packed_otherwise(data), name) if rng.random() < 0.5 else google
    table = table_of(rng, google.DESCRIPTOR, rng.randint(0, 3))
    if not table:
        return None
    defaults = rng.random() < 0.3
    options = {"message-class-name": name, "descriptor-file": str(folder / "types.desc")}
    format = get_format("protobuf", {**options, "read-default-values": str(defaults).lower()})
    messages = []
    for _ in range(MESSAGES):
        message = writer()
        fill(rng, message, rng.randint(0, 4))
        messages.append(message.SerializePartialToString())
    expected = Expected(proto3=files[-1].syntax == "proto3", defaults=defaults)
    return _Drawn(seed, rng, format, ddl(table), google, table, expected, messages)


def _sets(folder: Path) -> Iterator[_Drawn]:
    for seed in range(SEED, SEED + SETS):
        drawn = _drawn(seed, folder)
        if drawn is not None:
            yield drawn


def _wanted(drawn: _Drawn, message: bytes) -> str | None:
    """The row that google reads from the message as Java reads it, None for an error."""
    try:
        read = drawn.google.FromString(as_java(message, drawn.google.DESCRIPTOR))
        return plain(drawn.expected.row(read, drawn.table)) if read.IsInitialized() else None
    except DecodeError:
        return None


def _found(drawn: _Drawn, messages: list[bytes]) -> list[tuple[str | None, str | None]]:
    """Our row and error of each message."""
    batch = decoded(drawn.format, messages, drawn.schema)
    rows = [None if rows is None else plain(rows[0]) for rows in batch.rows.to_pylist()]
    errors = batch.errors.to_pylist() if batch.errors is not None else [None] * len(rows)
    return list(zip(rows, errors, strict=True))


def test_rows_are_what_google_reads(tmp_path: Path) -> None:
    """Also of two messages that are one, which merges them."""
    good = bad = columns = 0
    for drawn in _sets(tmp_path):
        messages = [*drawn.messages, *(drawn.rng.choice(drawn.messages) + one for one in drawn.messages)]
        columns += drawn.schema.count("`") // 2
        for message, (row, error) in zip(messages, _found(drawn, messages), strict=True):
            where = f"seed {drawn.seed}: {message!r} as {drawn.schema}: {error}"
            assert row == _wanted(drawn, message), where
            assert error is None or "missing required fields" in error, where
            good += error is None
            bad += error is not None
    assert good > 30 * SETS
    assert bad > SETS // 20
    assert columns > 5 * SETS


def test_changed_messages_are_what_google_reads_and_leave_their_neighbours_alone(tmp_path: Path) -> None:
    rows = errors = 0
    for drawn in _sets(tmp_path):
        known = drawn.messages
        changed = [protobuf_mutation.changed(drawn.rng, drawn.rng.choice(known), known) for _ in range(MESSAGES)]
        together = [part for pair in zip(known, changed, strict=True) for part in pair] + known[:1]
        around = answers(decoded(drawn.format, together, drawn.schema))[::2]
        assert around == answers(decoded(drawn.format, [*known, known[0]], drawn.schema)), f"seed {drawn.seed}"
        for message, (row, error) in zip(changed, _found(drawn, together)[1::2], strict=True):
            assert row == _wanted(drawn, message), f"seed {drawn.seed}: {message!r} as {drawn.schema}: {error}"
            rows += row is not None
            errors += row is None
    print(f"{rows} changed messages give a row and {errors} an error")
    assert rows > 4 * SETS
    assert errors > 6 * SETS
