"""Samples of messages: the first of a DataFrame, an Arrow array or an iterable of bytes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.samples import MessageSample

SAMPLE = 1000
"""Messages in a sample by default."""
MAX_BYTES = 64 << 20
"""Size of a sample; later messages are not read."""


def sample_of(source: Any, keys: Any, most: int) -> MessageSample:
    """Return the first `most` messages of a source, and their keys.

    A DataFrame has the column `value`, and perhaps `key`. Raises `ConfigurationError` for an unsupported source.
    """
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ConfigurationError(f"sample must be a number of messages, at least 1, not {most!r}")
    if hasattr(source, "isStreaming"):
        source, keys = _collected(source, most)
    values, cut = _taken(source, most, "source")
    if keys is None:
        return MessageSample(values, None, cut)
    known = tuple(itertools.islice(_messages(keys, "keys"), len(values)))
    if len(known) < len(values):
        raise ConfigurationError(f"there are {len(known)} keys for {len(values)} messages: give None for a null key")
    return MessageSample(values, known, cut)


def _collected(df: Any, most: int) -> tuple[Any, Any]:
    """Return values and keys of a DataFrame of Kafka's records."""
    if df.isStreaming:
        raise ConfigurationError(
            "a sample can't be taken from a stream: give a batch DataFrame of the same topic, such as "
            "spark.read.format('kafka')..., or the DataFrame of a batch in foreachBatch"
        )
    if "value" not in df.columns:
        raise ConfigurationError(
            f"the DataFrame has no column 'value', only {', '.join(df.columns)}: rename the column with the messages"
        )
    names = [name for name in ("value", "key") if name in df.columns]
    table = df.select(*(df[name].cast("binary").alias(name) for name in names)).limit(most + 1).toArrow()
    return table["value"], table["key"] if "key" in names else None


def _taken(source: Any, most: int, what: str) -> tuple[tuple[bytes | None, ...], str]:
    found: list[bytes | None] = []
    size = 0
    for message in _messages(source, what):
        if len(found) == most:
            return tuple(found), f"only the first {most} messages were read"
        size += len(message or b"")
        if size > MAX_BYTES and found:
            return tuple(found), f"only the first {len(found)} messages, of {MAX_BYTES >> 20} MiB, were read"
        found.append(message)
    return tuple(found), ""


def _messages(source: Any, what: str) -> Iterator[bytes | None]:
    if isinstance(source, pa.Array | pa.ChunkedArray):
        chunks = source.chunks if isinstance(source, pa.ChunkedArray) else [source]
        source = (value.as_py() for chunk in chunks for value in chunk)
    elif isinstance(source, str | bytes) or not isinstance(source, Iterable):
        raise ConfigurationError(
            f"{what} is a DataFrame with a column 'value', an Arrow array or an iterable of messages (bytes, or None), "
            f"not {type(source).__name__}"
        )
    for message in source:
        if isinstance(message, str):
            message = message.encode("utf-8", "surrogatepass")
        if message is not None and not isinstance(message, bytes | bytearray | memoryview):
            raise ConfigurationError(f"{what} has a message that is {type(message).__name__}; messages are bytes")
        yield None if message is None else bytes(message)
