"""`kvformat produce`: rows, lines of JSON, to the records of a table's topic."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kvformat.connectors import brokers
from kvformat.connectors.cli._output import errors_option, head, json_option, note, tell
from kvformat.connectors.cli._progress import FilesRead, progress
from kvformat.connectors.cli._table import FILE, ShownTable, bootstrap_option, of_ddl, option_option, with_bootstrap
from kvformat.connectors.cli._topics import partitions_of
from kvformat.connectors.cli._values import ValueRefused, python_value
from kvformat.connectors.cli.decode import files_argument
from kvformat.connectors.cli.encode import EncodedRow, Encoder
from kvformat.connectors.producer_settings import LARGEST_BATCH, largest_messages
from kvformat.connectors.properties import PREFIX
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import OptionError
from kvformat.registry.sql.connector_options import delivery_guarantee
from kvformat.registry.table.metadata import RAW, READABLE
from kvformat.registry.table.producer import is_idempotent

if TYPE_CHECKING:
    from confluent_kafka import Message, Producer

_WRITTEN: Final = ("topic", "partition", "headers", "header-list", "timestamp")
"""Metadata of a record that its producer sets, beside key and value."""
_SETTINGS: Final = {
    **{name: name for name in ("acks", "compression.type", "linger.ms", "retries", "request.timeout.ms")},
    "enable.idempotence": "enable.idempotence",
    "delivery.timeout.ms": "delivery.timeout.ms",
    "max.request.size": "message.max.bytes",
}
"""Settings of Java's producer, and their names in librdkafka."""
_DELIVERY: Final = "120000"  # milliseconds: Java's default of delivery.timeout.ms
_PATIENCE: Final = 0.5
"""Seconds to wait before a record is added to a full queue again."""
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@click.command()
@click.argument("ddl", type=FILE, metavar="FILE.sql")
@files_argument
@click.option("--table", metavar="NAME", help="The table, if the file creates several.")
@bootstrap_option
@option_option("An option of the table, instead of its own.")
@click.option(
    "-m",
    "--metadata",
    multiple=True,
    type=click.Choice((*_WRITTEN, *RAW)),
    help="A column of this name is metadata of the record, as `tail -m` shows it. Repeatable.",
)
@errors_option("a row that can't be written")
@json_option("Also the counts at the end as JSON, on stderr.")
def produce_command(
    ddl: Path,
    files: tuple[str, ...],
    table: str | None,
    bootstrap: str | None,
    options: Mapping[str, str],
    metadata: tuple[str, ...],
    errors: str,
    as_json: bool,
) -> None:
    """Write rows, lines of JSON as `tail` prints them, to the topic of a table.

    The DDL defines the encoding of key and value. A record goes to the partition that Java's client chooses for its
    key, or to the partition in its row. Rows that can't be written, and records that no broker accepted, are reported
    on stderr, as JSON. The exit status is 1 if there are any, 2 if the command line is wrong.

    echo '{"id": 1, "name": "Anna"}' | kvformat produce users.sql
    """
    shown_table = of_ddl(ddl, table, with_bootstrap(options, bootstrap), metadata)
    about = _Metadata(shown_table, metadata)
    topics = shown_table.kv.connector_options("encode")["topic"] or ()
    if len(topics) != 1 and not about.names("topic"):
        raise OptionError(
            "the table has several topics: choose one with -o topic=NAME, or use -m topic and a topic in each row",
            option="topic",
        )
    if delivery_guarantee(shown_table.kv.connector_options("encode"))[1] == "exactly-once":
        note("records are written at least once, without transactions")
    partitions = partitions_of(shown_table.kv.options, topics, None)
    batch_size = min([LARGEST_BATCH, *largest_messages(shown_table.kv.options, topics)])
    with _producing(shown_table.kv.options, batch_size) as producer:
        sink = _Topic(producer, shown_table.kv.options, topics, partitions, stop=errors == "stop")
        encoder = Encoder(shown_table, sink, stop=errors == "stop", about=about.of)
        read = FilesRead(files)
        with progress("producing", read.total, "rows") as bar:
            encoder.run(read, lambda count: read.show(bar, count))
            sink.wait()
    counts = encoder.counts
    told = {"rows": counts["rows"], "delivered": sink.delivered, "bad": counts["bad"], "failed": sink.failed}
    if as_json:
        tell(told)
    else:
        note(", ".join(f"{count} {what}" for what, count in told.items()))
    raise SystemExit(1 if told["bad"] or told["failed"] else 0)


class _Metadata:
    """Row columns that become record metadata: the columns that the table declares, and those of `-m`."""

    def __init__(self, table: ShownTable, requested: tuple[str, ...]) -> None:
        declared = (column for column in table.kv.columns if column.kind == "metadata" and not column.virtual)
        self._keys = {column.name: column.key for column in declared if column.key in _WRITTEN}
        self._keys |= {key: key for key in requested if key in _WRITTEN}
        self._types = {key: parse_type(READABLE[key]) for key in _WRITTEN}

    def names(self, key: str) -> list[str]:
        """The columns for a key of metadata."""
        return [name for name, known in self._keys.items() if known == key]

    def of(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metadata of a row's record, by key, for a producer; raises `ValueRefused`."""
        values = {}
        for name, key in self._keys.items():
            value = python_value(row.get(name), self._types[key], name)
            if value is not None:
                values[key] = value
        # as jobs write them: of a map without null values, of a list without null names
        if "headers" in values:
            values["headers"] = [(name, data) for name, data in values["headers"] if data is not None]
        if "header-list" in values:
            named = (header for header in values.pop("header-list") if header and header["key"] is not None)
            values["headers"] = [(header["key"], header["value"]) for header in named]
        if "timestamp" in values:
            values["timestamp"] = _millis(values["timestamp"])
            if values["timestamp"] <= 0:
                raise ValueRefused(
                    ErrorCode.OUT_OF_RANGE,
                    f"the timestamp {values['timestamp']} (milliseconds since 1970) can't be written: librdkafka takes "
                    "0 for the time of writing, and brokers refuse negative ones",
                )
        return values


def _millis(moment: Any) -> int:
    """Milliseconds since 1970 of a moment, which is microseconds where no calendar has it."""
    if isinstance(moment, int):
        return moment // 1000
    millis: int = (moment - _EPOCH) // dt.timedelta(milliseconds=1)
    return millis


class _Topic:
    """Sends records to the brokers. `delivered` and `failed` count the records with an answer."""

    def __init__(
        self,
        producer: Producer,
        options: Mapping[str, str],
        topics: Sequence[str],
        partitions: Mapping[str, Sequence[int]],
        *,
        stop: bool,
    ) -> None:
        self._producer, self._options, self._stop = producer, options, stop
        self._topic = next(iter(topics), None) if len(topics) == 1 else None
        self._partitions: dict[str, Sequence[int] | str] = dict(partitions)  # or why a topic has none
        self.delivered = self.failed = 0

    def put(self, message: EncodedRow) -> str:
        from confluent_kafka import KafkaException

        about = dict(message.about)
        topic = about.pop("topic", self._topic)
        if topic is None:
            return "the row has no topic"
        known = self._known(topic)
        if isinstance(known, str):
            return known
        if "partition" in about and about["partition"] not in known:
            return f"there is no partition {about['partition']}: topic '{topic}' has {len(known)}"

        def told(error: Any, _: Message) -> None:
            self._told(message, error)

        while True:
            try:
                self._producer.produce(topic, message.value, message.key, on_delivery=told, **about)
            except BufferError:  # the queue is full
                self._producer.poll(_PATIENCE)
            except KafkaException as cause:
                return str(cause.args[0].str())
            else:
                return ""

    def _known(self, topic: str) -> Sequence[int] | str:
        """Return the partitions of a topic, or the reason why they are unknown."""
        if topic not in self._partitions:
            try:
                self._partitions |= partitions_of(self._options, [topic], None)
            except OptionError as missing:
                self._partitions[topic] = str(missing)
        return self._partitions[topic]

    def flush(self) -> bool:
        self._producer.poll(0)
        return not (self._stop and self.failed)

    def wait(self) -> None:
        """Wait until each record is delivered or has failed; failures are reported."""
        while len(self._producer):
            self._producer.flush(_PATIENCE)

    def _told(self, message: EncodedRow, error: Any) -> None:
        if error is None:
            self.delivered += 1
            return
        self.failed += 1
        fault = {"message": message.number, "code": error.name(), "reason": error.str(), "head": head(message.line)}
        tell(fault)


@contextlib.contextmanager
def _producing(options: Mapping[str, str], batch_size: int) -> Iterator[Producer]:
    """Make a client that writes records. After an interrupt it tries for some time to send its queue."""
    from confluent_kafka import Producer

    client_properties = {key.removeprefix(PREFIX): text for key, text in options.items() if key.startswith(PREFIX)}
    given = {name: text for name in _SETTINGS if (text := client_properties.get(name))}
    defaults = {"enable.idempotence": str(is_idempotent(given)).lower(), "delivery.timeout.ms": _DELIVERY}
    producer_settings = {_SETTINGS[name]: text for name, text in (defaults | given).items()}
    said: list[str] = []
    settings = {
        **brokers.client_settings(options),
        **producer_settings,
        "partitioner": "murmur2_random",
        "batch.size": batch_size,
        "log_level": 0,
        "error_cb": lambda error: _say(said, brokers.without_secrets(error.str(), options)),
    }
    producer = brokers.make_client(Producer, settings, options)
    try:
        yield producer
    except KeyboardInterrupt:
        producer.flush(brokers.TIMEOUT)
        raise


def _say(said: list[str], text: str) -> None:
    """Print each error of the client once; it continues to try."""
    if text not in said:
        said.append(text)
        note(text)
