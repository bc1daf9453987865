"""Read a range of a partition: its records as Arrow batches, complete or an error.

    read_range(settings, range, fields)    batches of the columns `fields` of KAFKA_FIELDS

A range is complete when a record, or the end of the partition, at or after its end was seen. Not every offset has a
record: control records, aborted transactions and compaction leave gaps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from kvformat.connectors.reader.client_settings import ReaderSettings
from kvformat.connectors.reader.clients import RangeClient, consuming, give_up_loop
from kvformat.connectors.reader.fetched import Fetched, LayoutError
from kvformat.connectors.reader.ranges import PartitionRange
from kvformat.connectors.reader.records import KAFKA_FIELDS, checked_fields
from kvformat.registry.contract.errors import DataLossError, ReadError

_POLL: Final = 0.5  # seconds of a call: an interrupt is seen after it
_EDGES: Final = 15.0  # seconds that brokers have to tell which offsets are there, for an error
_MISSING: Final = 3.0  # seconds after which a topic that brokers do not know is not there

# Errors of librdkafka by their names: the offsets, or the topic, are not there.
_OUT_OF_RANGE: Final = ("_AUTO_OFFSET_RESET", "_LOG_TRUNCATION", "OFFSET_OUT_OF_RANGE")
_NO_TOPIC: Final = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID")
# Errors after which librdkafka tries again. That of the group does not matter: a reader of ranges joins none.
_PASSING: Final = (
    *("_TRANSPORT", "_RESOLVE", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_WAIT_COORD", "_OUTDATED", "_RETRY"),
    *("LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "REQUEST_TIMED_OUT", "BROKER_NOT_AVAILABLE"),
    *("REPLICA_NOT_AVAILABLE", "NETWORK_EXCEPTION", "OFFSET_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR"),
    *("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "LISTENER_NOT_FOUND", "PREFERRED_LEADER_NOT_AVAILABLE"),
    *("FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "THROTTLING_QUOTA_EXCEEDED"),
    *("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "GROUP_AUTHORIZATION_FAILED"),
)

_ADVICE_LOST: Final = (
    ". The records were deleted (retention.ms, retention.bytes), or the topic was deleted or created again. Start at "
    "what is there ('scan.startup.mode' = 'earliest-offset', a stream with a new checkpoint), or skip what is lost, in "
    "Spark by failOnDataLoss = false"
)
_ADVICE_LATE: Final = (
    ". Check that the brokers are up and that this machine reaches them; if they are only slow, set "
    "'properties.default.api.timeout.ms' to a longer time"
)

OnLoss = Callable[[DataLossError], None]


def read_range(
    settings: ReaderSettings,
    at: PartitionRange,
    fields: Sequence[str] = tuple(KAFKA_FIELDS.names),
    *,
    on_loss: OnLoss | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range, in order, with these columns.

    Only what `fields` names is read of a record. The size of batches is bounded, but one record may be larger. Records
    that are not there any more raise `DataLossError`; `on_loss` gets the error instead, and they are skipped. Raises
    `ReadError` if no record arrives for the settings' `wait`, or if a broker refuses or a record is damaged.
    """
    names = checked_fields(fields)
    try:
        yield from _read(settings, at, names, on_loss)
    except LayoutError as fault:  # of the first record: none was returned
        give_up_loop(fault)
        yield from _read(settings, at, names, on_loss)


def _read(
    settings: ReaderSettings, at: PartitionRange, names: tuple[str, ...], on_loss: OnLoss | None
) -> Iterator[pa.RecordBatch]:
    if not at.count:
        return
    with consuming(settings) as client:
        reading = _Reading(settings, at, client, on_loss)
        client.begin(at, names)
        while reading.left.count:
            fetched = client.fetch(_POLL)
            if fetched.batch is not None:
                yield fetched.batch
            if reading.after(fetched) and reading.left.count:
                client.begin(reading.left, names)


class _Reading:
    """The state of a range that is read: `left` is what was not seen of it yet."""

    def __init__(
        self, settings: ReaderSettings, at: PartitionRange, client: RangeClient, on_loss: OnLoss | None
    ) -> None:
        self._settings, self._whole, self._client, self._on_loss = settings, at, client, on_loss
        self.left, self._last, self._since = at, -1, time.monotonic()
        self._missing_since: float | None = None

    def after(self, fetched: Fetched) -> bool:
        """Note what was fetched; returns whether fetching must begin again at `left`.

        Raises `ReadError` for an error that does not pass, and if there was no record for too long.
        """
        now = time.monotonic()
        self._last = max(self._last, fetched.position)
        if fetched.position > self.left.start:
            self.left, self._since, self._missing_since = replace(self.left, start=fetched.position), now, None
        names = [fetched.error, *(name for name, _ in self._client.said())]
        if fetched.error in _OUT_OF_RANGE or self._is_missing(names, now):
            return self._lose(fetched.reason or "Unknown topic or partition")
        if fetched.error and fetched.error not in (*_PASSING, *_NO_TOPIC):
            raise ReadError(**self._failure(fetched.reason))
        if self.left.count and now - self._since > self._settings.wait / 1000:
            raise self._late()
        return fetched.error in _NO_TOPIC

    def _is_missing(self, names: Sequence[str], now: float) -> bool:
        """Return whether brokers have not known the topic for some time; one that starts may not know all topics."""
        if self._missing_since is None and not any(name in _NO_TOPIC for name in names):
            return False
        self._missing_since = now if self._missing_since is None else self._missing_since
        return now - self._missing_since > _MISSING

    def _lose(self, reason: str) -> bool:
        """Skip the records that are not there any more, or raise `DataLossError`. Returns True: begin again."""
        start, end, there, self._missing_since = self.left.start, self.left.end, "", None
        try:
            edges = self._client.edges(self.left, _EDGES)
        except ConnectionError as cause:
            reason = f"{reason}; the brokers could not be asked which offsets are there: {cause}"
            raise ReadError(**self._failure(reason)) from cause
        if edges is not None and edges[0] <= start <= edges[1]:
            return True  # a broker had just become the leader, or had just started
        begin = end
        if edges is not None:
            there = f"; the partition has offsets {edges[0]} to {edges[1]}"
            begin = min(edges[0], end) if start < edges[0] else end
        error = DataLossError(**self._failure(f"{reason}{there}", _ADVICE_LOST))
        if self._on_loss is None:
            raise error
        self._on_loss(error)
        self.left, self._since = replace(self.left, start=begin), time.monotonic()
        return True

    def _late(self) -> ReadError:
        """Make the error for a range of which no record arrives."""
        reason = f"no record arrived for {self._settings.wait / 1000:g} s"
        if self._last >= 0:
            reason += f", after the end of the partition was seen at offset {self._last}"
        said = "; ".join(text for _, text in self._client.said())
        return ReadError(**self._failure(f"{reason} ({said})" if said else reason, _ADVICE_LATE))

    def _failure(self, reason: str, advice: str = "") -> dict[str, Any]:
        """Return the arguments of an error about the range; `reason` may be a text of librdkafka, with secrets."""
        at, begin = self._whole, self.left.start
        reason = self._settings.without_secrets(reason)
        read = "" if begin == at.start else f", of which those before {begin} were read"
        message = f"cannot read {at}{read}: {reason}{advice}"
        place = {"topic": at.topic, "partition": at.partition, "start": at.start, "end": at.end, "offset": begin}
        return {"message": message, **place, "reason": reason}
