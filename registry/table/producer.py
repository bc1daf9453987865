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
_IN_FLIGHT = "max.in.flight.requests.per.connection"
_MOST_IN_FLIGHT = 5  # unanswered requests whose order a broker keeps (Kafka's documentation)


def producer_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return `properties.x` as `kafka.x`, without serializers, transactions and the consumer group."""
    left_out = (*_SERIALIZERS, _TRANSACTIONS, _GROUP)
    return {f"kafka.{name}": text for name, text in _properties(options).items() if name not in left_out}


def producer_risks(options: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each property that endangers the delivery or the order of records."""
    properties = {name: text.strip().lower() for name, text in _properties(options).items()}
    acks, retries, in_flight = properties.get("acks", "all"), properties.get("retries"), properties.get(_IN_FLIGHT)
    if _TRANSACTIONS in properties:
        yield f"'properties.{_TRANSACTIONS}' is ignored: Spark's Kafka sink has no transactions"
    if acks not in ("all", "-1"):
        yield (
            f"'properties.acks' = '{acks}': a record counts as written before all replicas have it, and is lost if the "
            "broker that has it fails. At-least-once delivery needs 'all', the default"
        )
    if not is_idempotent(properties) and retries != "0" and in_flight != "1":
        yield (
            "the properties turn 'enable.idempotence' off: when a request is retried, records of a key may change "
            "their order. Remove 'properties.enable.idempotence', 'properties.acks' and "
            f"'properties.{_IN_FLIGHT}' (at most {_MOST_IN_FLIGHT}), or set the last to 1"
        )


def is_idempotent(properties: Mapping[str, str]) -> bool:
    """Return whether Kafka's client in Java is idempotent: by default, unless another setting does not allow it.

    Rule: `ProducerConfig.postProcessAndValidateIdempotenceConfigs`.
    """
    given = {name: text.strip().lower() for name, text in properties.items()}
    in_flight = given.get(_IN_FLIGHT, "")
    many = in_flight.isdecimal() and int(in_flight) > _MOST_IN_FLIGHT
    allowed = given.get("acks", "all") in ("all", "-1") and given.get("retries") != "0" and not many
    return given.get("enable.idempotence", str(allowed).lower()) == "true"


def _properties(options: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix(_PREFIX): text for key, text in options.items() if key.startswith(_PREFIX)}
