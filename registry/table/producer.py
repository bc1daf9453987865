"""The settings of the producer in Spark's Kafka sink, from a table's `properties.*`, and the risks of some of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_PREFIX = "properties."
_SERIALIZERS = ("key.serializer", "value.serializer")
"""Spark sets these itself, and rejects a job that contains them."""
_TRANSACTIONS = "transactional.id"
"""Spark begins no transactions, and a producer with this setting rejects every record outside of one."""
_GROUP = "group.id"
"""A producer has no consumer group. Kafka's client would log a warning about an unknown setting."""
_MOST_IN_FLIGHT = 5  # unanswered requests whose order a broker keeps (Kafka's documentation)


def producer_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return `properties.x` as `kafka.x`, without serializers, transactions and the consumer group."""
    left_out = (*_SERIALIZERS, _TRANSACTIONS, _GROUP)
    return {f"kafka.{name}": text for name, text in _properties(options).items() if name not in left_out}


def producer_risks(options: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each property that endangers the delivery or the order of records."""
    properties = {name: text.strip().lower() for name, text in _properties(options).items()}
    acks = properties.get("acks", "all")
    retries = properties.get("retries", "")
    in_flight = properties.get("max.in.flight.requests.per.connection", str(_MOST_IN_FLIGHT))
    if _TRANSACTIONS in properties:
        yield f"'properties.{_TRANSACTIONS}' is ignored: Spark's Kafka sink has no transactions"
    if acks not in ("all", "-1"):
        yield (
            f"'properties.acks' = '{acks}': a record counts as written before all replicas have it, and is lost if the "
            "broker that has it fails. At-least-once delivery needs 'all', the default"
        )
    # Kafka's client turns idempotence off by itself if another setting does not allow it.
    many = in_flight.isdigit() and int(in_flight) > _MOST_IN_FLIGHT
    idempotent = properties.get("enable.idempotence", str(acks in ("all", "-1") and not many).lower()) == "true"
    if not idempotent and retries != "0" and in_flight != "1":
        yield (
            "the properties turn 'enable.idempotence' off: when a request is retried, records of a key may change "
            "their order. Remove 'properties.enable.idempotence', 'properties.acks' and "
            f"'properties.max.in.flight.requests.per.connection' (at most {_MOST_IN_FLIGHT}), or set the last to 1"
        )


def _properties(options: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix(_PREFIX): text for key, text in options.items() if key.startswith(_PREFIX)}
