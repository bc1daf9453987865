"""Samples of messages: the first of a DataFrame, an Arrow array or an iterable of bytes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from kvformat.connectors.infer.schema_uses import Messages, with_header_ids
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.format_hooks import Part
from kvformat.registry.contract.samples import MessageSample
from kvformat.registry.table.record_headers import HEADERS_TYPE

SAMPLE = 1000
"""Messages in a sample by default."""
MAX_BYTES = 64 << 20
"""Size of a sample; later messages are not read."""
_NONE = "give None for a record without"


@dataclass(frozen=True)
class RecordSample:
    """The first messages of a source, and what is known of their records.

    headers: lists of structs of `key` and `value`. timestamps: milliseconds since 1970. None if they are unknown.
    """

    messages: MessageSample
    headers: pa.Array | None = None
    timestamps: tuple[int | None, ...] | None = None

    def with_header_ids(self) -> MessageSample:
        """Return the messages after the ids of schemas that headers have, as formats with a registry decode them."""
        framed = self._framed(self.messages.values, "value")
        return replace(framed, cut=self.messages.cut, keys=None if self.messages.keys is None else self.keys().values)

    def keys(self) -> MessageSample:
        """Return the keys after the ids of schemas that headers have, as a sample of their own."""
        return self._framed(self.messages.keys or (), "key")

    def _framed(self, messages: Messages, part: Part) -> MessageSample:
        with_ids = with_header_ids(messages, self.headers if messages else None, part)
        framed = frozenset(index for index, message in enumerate(with_ids) if message != messages[index])
        return MessageSample(with_ids, part=part, framed=framed)


def sample_of(source: Any, keys: Any, most: int, *, headers: Any = None, timestamps: Any = None) -> RecordSample:
    """Return the first `most` messages of a source, and what is known of their records.

    A DataFrame has the column `value`, and perhaps `key`, `headers` and `timestamp`. `headers` are an Arrow array or an
    iterable of lists of `{"key": ..., "value": ...}`, `timestamps` numbers of milliseconds since 1970.
    Raises `ConfigurationError` for an unsupported source.
    """
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ConfigurationError(f"sample must be a number of messages, at least 1, not {most!r}")
    if hasattr(source, "isStreaming"):
        source, keys, headers, timestamps = _collected(source, most)
    values, cut = _taken(source, most, "source")
    known = None
    if keys is not None:
        known = _as_many(_messages(keys, "keys"), len(values), "keys", "give None for a null key")
    if headers is not None and not isinstance(headers, pa.Array):
        headers = pa.array(_as_many(headers, len(values), "headers", _NONE), HEADERS_TYPE)
    if timestamps is not None:
        timestamps = _as_many(timestamps, len(values), "timestamps", _NONE)
    messages = MessageSample(values, known, cut)
    return RecordSample(messages, None if headers is None else headers[: len(values)], timestamps)


def _as_many(values: Iterable[Any], count: int, what: str, remedy: str) -> tuple[Any, ...]:
    known = tuple(itertools.islice(values, count))
    if len(known) < count:
        raise ConfigurationError(f"there are {len(known)} {what} for {count} messages: {remedy}")
    return known


def _collected(df: Any, most: int) -> tuple[Any, Any, Any, Any]:
    """Return values, keys, headers and timestamps of Kafka's records; None for columns that `df` does not have."""
    if df.isStreaming:
        raise ConfigurationError(
            "a sample can't be taken from a stream: give a batch DataFrame of the same topic, such as "
            "spark.read.format('kafka')..., or the DataFrame of a batch in foreachBatch"
        )
    if "value" not in df.columns:
        raise ConfigurationError(
            f"the DataFrame has no column 'value', only {', '.join(df.columns)}: rename the column with the messages"
        )
    columns = [df[name].cast("binary").alias(name) for name in ("value", "key") if name in df.columns]
    if "headers" in df.columns:
        columns.append(df["headers"].cast("array<struct<key: string, value: binary>>").alias("headers"))
    if "timestamp" in df.columns:
        from pyspark.sql import functions as F

        columns.append(F.unix_millis(df["timestamp"].cast("timestamp")).alias("timestamp"))
    table = df.select(*columns).limit(most + 1).toArrow().combine_chunks()
    known = {name: table[name].combine_chunks() for name in table.column_names}
    timestamps = known["timestamp"].to_pylist() if "timestamp" in known else None
    return known["value"], known.get("key"), known.get("headers"), timestamps


def _taken(source: Any, most: int, what: str) -> tuple[tuple[bytes | None, ...], str]:
    messages: list[bytes | None] = []
    size = 0
    for message in _messages(source, what):
        if len(messages) == most:
            return tuple(messages), f"only the first {most} messages were read"
        size += len(message or b"")
        if size > MAX_BYTES and messages:
            return tuple(messages), f"only the first {len(messages)} messages, of {MAX_BYTES >> 20} MiB, were read"
        messages.append(message)
    return tuple(messages), ""


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
