"""Settings of the consumers that read ranges, from the `properties.*` of a table.

    reader_settings(kv)    the settings, which tasks get
    unsupported(kv)        why librdkafka can't read the table, or None

brokers.py has the settings for security, java_settings.py those of connections and consumers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kvformat.connectors import brokers
from kvformat.connectors.java_settings import consumer_settings, milliseconds, number, properties
from kvformat.connectors.properties import PREFIX
from kvformat.registry.contract.errors import OptionError
from kvformat.registry.sql.connector_options import masked

if TYPE_CHECKING:
    from kvformat.registry.key_value_format import KeyValueFormat

PREFETCHED: Final = 16 << 10
"""Kilobytes of records that a consumer fetches ahead. The last response may exceed them."""
LOOK_UP: Final = 1.0
"""Seconds that a consumer waits for the leader of a partition that is not the first one that it reads. By itself,
librdkafka asks when it connects, and otherwise once a second."""
_WAIT: Final = 120_000  # milliseconds: Spark's default of kafkaConsumer.pollTimeoutMs
_GROUP: Final = "kvformat"
# Settings that a reader of ranges needs, whatever the table says.
_OWN: Final = {
    "auto.offset.reset": "error",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "log_level": "0",
    "max.poll.interval.ms": "86400000",  # a day, the longest: the consumer joins no group
    "receive.message.max.bytes": "2147483647",  # no limit, as in Java: a record may be as large as its topic allows
}
# Defaults, which the table's properties replace.
_DEFAULTS: Final = {
    "check.crcs": "true",  # as in Java
    "fetch.queue.backoff.ms": "5",  # 1000 by default: the time without fetches after the queue was full
    "fetch.wait.max.ms": "50",  # brokers answer this late at the end of a partition
    "group.id": _GROUP,
    "isolation.level": "read_uncommitted",  # as in Java
    "queued.max.messages.kbytes": str(PREFETCHED),
    "queued.min.messages": "20000",
    "reconnect.backoff.max.ms": "1000",  # as in Java
    "topic.metadata.propagation.max.ms": "5000",  # until a topic that is not there is an error
}
# Sizes of responses that librdkafka allows, in bytes; outside of them it refuses the setting.
_SIZES: Final = {"fetch.max.bytes": (1_000_000, 2_147_483_135), "max.partition.fetch.bytes": (1, 1_000_000_000)}


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """The `properties.*` of a table's consumers, by their full names, and how long a consumer waits.

    `wait` is the time in milliseconds without a record, after which a range is given up. The object can be pickled and
    hashed; `repr` masks secrets.
    """

    options: tuple[tuple[str, str], ...]
    wait: int

    def for_client(self) -> dict[str, Any]:
        """Return librdkafka's settings, with secrets. Raises `OptionError` as `brokers.client_settings` does."""
        options = dict(self.options)
        settings = _DEFAULTS | brokers.client_settings(options) | consumer_settings(options)
        if options.get(f"{PREFIX}group.id"):
            settings["group.id"] = options[f"{PREFIX}group.id"]  # permissions may depend on it
        for name, (least, most) in _SIZES.items():
            if name in settings:
                settings[name] = str(min(max(number(settings, name, least), least), most))
        return settings | _OWN

    def without_secrets(self, text: str) -> str:
        """Return a text of librdkafka with the secrets masked."""
        return brokers.without_secrets(text, dict(self.options))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name!r}: {masked(name, text)!r}" for name, text in self.options)
        return f"ReaderSettings({{{shown}}}, wait={self.wait})"


def reader_settings(kv: KeyValueFormat) -> ReaderSettings:
    """Return the settings for a table's consumers.

    `default.api.timeout.ms` of the table is the time to wait for a record; two minutes by default, as in Spark.
    Raises `OptionError` naming a setting that librdkafka does not support, or that is not valid.
    """
    return settings_of(kv.options)


def settings_of(options: Mapping[str, str]) -> ReaderSettings:
    """Return the settings for consumers from `properties.*` among some options; raises as `reader_settings` does."""
    client_options = {f"{PREFIX}{name}": text for name, text in properties(options).items()}
    settings = ReaderSettings(
        tuple(sorted(client_options.items())), milliseconds(client_options, "default.api.timeout.ms", _WAIT)
    )
    settings.for_client()
    return settings


def unsupported(kv: KeyValueFormat) -> str | None:
    """Return why only Java's client can read the table, naming its option; None if librdkafka can.

    Raises `OptionError` for an option that no client supports.
    """
    try:
        reader_settings(kv)
    except OptionError as error:
        if error.reason is None:
            raise
        return error.reason
    return None
