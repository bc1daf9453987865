"""The options of the connectors `kafka` and `upsert-kafka`: their declarations and values, and which are secret.

`registry/table/connector_checks.py` checks how the options fit together. `properties.*` goes to the Kafka client
unchecked. Rules: Flink's "Kafka" and "Upsert Kafka" pages, `KafkaConnectorOptions`, `KafkaConnectorOptionsUtil`,
`KafkaDynamicTableFactory`, `UpsertKafkaDynamicTableFactory`; `ingestion.*`, `value.fields-prefix`, `scan.header-filter`
and `scan.check.duplicated.group.id` are those of Ververica's Kafka connector.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kvformat.registry.contract.errors import OptionError, did_you_mean
from kvformat.registry.contract.options import Option, mask_userinfo

KAFKA, UPSERT_KAFKA = "kafka", "upsert-kafka"
CONFLUENT = "confluent"  # of Flink on Confluent Cloud; `confluent_tables.py` translates its tables
_MASK = "******"
_PROPERTIES = "properties."
# Words in the names of options with secret values: those of Flink's GlobalConfiguration, and Kafka's own.
_SECRET = re.compile(
    r"password|passwd|secret|token|credential|jaas|api-?key|basic-auth|user-info|auth-params|keystore\.key|\.key\.pem|"
    r"truststore\.certificates|service-key|account\.key|http-headers"
)
_ASSIGNED = re.compile(r"(?<![\w.-])[\w.-]++(?=['\"`]?\s*+=)")  # names inside a value, as in JAAS: password="..."
_OFFSETS = re.compile(r"partition:\+?0*(\d{1,10}),offset:([+-]?)0*(\d{1,19})")
_GUARANTEES = ("exactly-once", "at-least-once", "none")
_MODES = ("group-offsets", "timestamp", "specific-offsets")

_ONE_WATERMARK = "no effect, with a warning: Spark has one watermark for a query"
_SHARED = (
    Option(name="connector", doc="`kafka` or `upsert-kafka`; a DDL of Confluent Cloud has `confluent`"),
    Option(name="topic", type="list", doc="topics, separated by `;`; a table to write to needs exactly one"),
    Option(name="topic-pattern", doc="regular expression (Java's) for the topics, instead of `topic`"),
    Option(name="properties.bootstrap.servers", doc="brokers; required in a DDL"),
    Option(name="key.format", doc="format of the key; it must be insert-only"),
    Option(name="value.format", doc="format of the value"),
    Option(name="key.fields-prefix", doc="prefix of the key columns in the table, which the key itself does not have"),
    Option(
        name="value.fields-prefix",
        doc="prefix of the value columns in the table, which the value itself does not have (Ververica)",
    ),
    Option(
        name="value.fields-include",
        type="enum",
        default="ALL",
        allowed=("ALL", "EXCEPT_KEY"),
        doc="whether the value contains the key columns, too",
    ),
    Option(
        name="ingestion.ignore-errors",
        type="boolean",
        default=False,
        doc="drop bad records instead of failing (Ververica)",
    ),
    Option(
        name="ingestion.error-tolerance.max-count",
        type="int",
        default=-1,
        doc="number of bad records of a batch that are dropped, one more fails it; -1 means no limit (Ververica)",
    ),
    Option(
        name="scan.bounded.mode",
        type="enum",
        default="unbounded",
        allowed=("unbounded", "latest-offset", *_MODES),
        doc="where a batch ends; a stream supports `latest-offset`, with the trigger `availableNow`",
    ),
    Option(
        name="scan.bounded.specific-offsets",
        doc="`partition:0,offset:42;partition:1,offset:300`: end before these offsets",
    ),
    Option(
        name="scan.bounded.timestamp-millis",
        type="long",
        doc="milliseconds since 1970: end before the first record with this time or a later one",
    ),
    Option(
        name="scan.topic-partition-discovery.interval",
        type="duration",
        doc="no effect: Spark looks for partitions before each micro-batch; `0` gives a warning",
    ),
    Option(name="scan.parallelism", type="int", doc="largest number of tasks; a partition is never split"),
    Option(name="scan.watermark.alignment.group", doc=_ONE_WATERMARK),
    Option(name="scan.watermark.alignment.max-drift", type="duration", doc=_ONE_WATERMARK),
    Option(name="scan.watermark.alignment.update-interval", type="duration", doc=_ONE_WATERMARK),
    Option(name="scan.watermark.emit.strategy", type="enum", allowed=("on-event", "on-periodic"), doc=_ONE_WATERMARK),
    Option(name="scan.watermark.emit.on-event.gap", type="int", doc=_ONE_WATERMARK),
    Option(name="scan.watermark.idle-timeout", type="duration", doc=_ONE_WATERMARK),
    Option(
        name="sink.parallelism",
        type="int",
        doc="number of tasks that write, each key in one of them; without a key the largest number",
    ),
    Option(
        name="sink.delivery-guarantee",
        type="enum",
        default="at-least-once",
        allowed=_GUARANTEES,
        doc="`at-least-once` and `none` are the same, by Spark's sink; `exactly-once` writes transactions",
    ),
    Option(
        name="sink.transactional-id-prefix",
        doc="begins the names of transactions; required for `exactly-once`, otherwise without effect, with a warning",
    ),
    Option(
        name="sink.transaction-naming-strategy",
        type="enum",
        allowed=("INCREMENTING", "POOLING"),
        doc="no effect, with a warning: a transaction is named after its query and its task",
    ),
    Option(name="property-version", doc="no effect: the options have had one meaning so far"),
)
KAFKA_OPTIONS = (
    *_SHARED,
    Option(name="format", doc="format of the value; has precedence over `value.format`"),
    Option(name="key.fields", type="list", doc="the key's columns, separated by `;`"),
    Option(
        name="properties.group.id",
        doc="the group whose committed offsets are used; Spark does not join it and commits nothing",
    ),
    Option(
        name="scan.startup.mode",
        type="enum",
        default="group-offsets",
        allowed=("earliest-offset", "latest-offset", *_MODES),
        doc="where to begin; a Spark checkpoint has precedence",
    ),
    Option(
        name="scan.startup.specific-offsets",
        doc="`partition:0,offset:42;partition:1,offset:300`: begin at these offsets",
    ),
    Option(
        name="scan.startup.timestamp-millis",
        type="long",
        doc="milliseconds since 1970: begin at the first record with this time or a later one",
    ),
    Option(
        name="scan.header-filter",
        doc="read only matching records: `depart:toy|depart:book&!env:test`, evaluated left to right (Ververica)",
    ),
    Option(
        name="scan.check.duplicated.group.id",
        type="boolean",
        default=False,
        doc="not checked; `true` gives a warning (Ververica)",
    ),
    Option(
        name="sink.partitioner",
        default="default",
        doc="`default` (by the key), `fixed` (one partition per task) or `round-robin` (Kafka's client chooses)",
    ),
    Option(name="sink.semantic", doc="old name of `sink.delivery-guarantee`"),
)
UPSERT_KAFKA_OPTIONS = (
    *_SHARED,
    Option(
        name="sink.buffer-flush.max-rows",
        type="int",
        default=0,
        doc="size of a task's buffer in records; of each key in it only the last record is written",
    ),
    Option(
        name="sink.buffer-flush.interval",
        type="duration",
        doc="required with `max-rows`; records wait at most until the end of their micro-batch",
    ),
)


def options_of(connector: str) -> tuple[Option, ...]:
    """Return the declared options of a connector; raises `OptionError` for an unknown connector."""
    if connector not in (KAFKA, UPSERT_KAFKA):
        known, shown = (KAFKA, UPSERT_KAFKA), masked("connector", connector)
        raise OptionError(
            f"option 'connector': unknown connector {shown!r}.{did_you_mean(connector, known)} "
            f"Supported connectors: {', '.join(known)}; in a DDL also {CONFLUENT}",
            option="connector",
        )
    return UPSERT_KAFKA_OPTIONS if connector == UPSERT_KAFKA else KAFKA_OPTIONS


def is_client_property(key: str) -> bool:
    """Return whether an option is passed to the Kafka client."""
    return key.startswith(_PROPERTIES)


def is_secret(name: str) -> bool:
    """Return whether the value of an option with this name is a secret."""
    return _SECRET.search(name.lower()) is not None


def masked(key: str, value: Any, spec: Option | None = None) -> Any:
    """Return the value of an option for display: `******` for a secret, and URLs without credentials."""
    if is_secret(key) or (spec is not None and spec.sensitive):
        return _MASK
    if not isinstance(value, str):
        return value
    return _MASK if any(map(is_secret, _ASSIGNED.findall(value))) else mask_userinfo(value)


def shown_option(key: str) -> str:
    """Return the name of an option for a syntax error, unless it may be a value that a missing quote made a name."""
    known = any(spec.name == key for spec in (*KAFKA_OPTIONS, *UPSERT_KAFKA_OPTIONS))
    return f"option '{key}'" if known else "an option"


def parse_option(spec: Option, options: Mapping[str, str]) -> Any:
    """Return the value of an option, or its default; raises `OptionError` for an invalid value."""
    key = spec.name
    if key not in options:
        return spec.default
    try:
        return spec.parse(options[key])
    except ValueError as cause:
        raise OptionError(
            f"Could not parse value {masked(key, options[key])!r} for option '{key}': {cause}",
            option=key,
            reason=str(cause),
        ) from None


def parse_offsets(key: str, text: str) -> dict[int, int]:
    """Parse `partition:0,offset:42;partition:1,offset:300` into the offset of each partition.

    Of equal partitions the last counts. Raises `OptionError`.
    """
    entries = [_OFFSETS.fullmatch(entry) for entry in text.rstrip(";").split(";")]
    offsets = {int(entry[1]): int(entry[2] + entry[3]) for entry in entries if entry}
    if not all(entries) or any(not 0 <= p < 2**31 or not -(2**63) <= o < 2**63 for p, o in offsets.items()):
        raise OptionError(
            f"Invalid properties '{key}' should follow the format 'partition:0,offset:42;partition:1,offset:300', "
            f"but is '{masked(key, text)}'.",
            option=key,
        )
    return offsets


def delivery_guarantee(values: Mapping[str, Any]) -> tuple[str, str]:
    """Return the option that sets the delivery guarantee, and the guarantee. The option has an old name, too.

    Raises `OptionError` for an unknown guarantee.
    """
    key = "sink.delivery-guarantee" if values.get("sink.semantic") is None else "sink.semantic"
    guarantee = values[key].lower().replace("_", "-")
    if guarantee not in _GUARANTEES:
        raise OptionError(f"option '{key}' must be one of {', '.join(_GUARANTEES)}, not {values[key]!r}", option=key)
    return key, guarantee
