"""What the producer within Spark's Kafka sink gets of a table's `properties.*`, and what it puts at risk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_PREFIX = "properties."
#: Spark sets these itself, and refuses a job that names them.
_SPARKS_OWN = ("key.serializer", "value.serializer")
#: Spark begins no transaction, and a producer with such a name refuses every record that is in none.
_TRANSACTIONS = "transactional.id"
#: A producer has no consumer group. Kafka's client would only warn that it does not know the setting.
_GROUP = "group.id"
_MOST_IN_FLIGHT = 5  # requests on their way at once, of which a broker knows the order (Kafka's documentation)


def producer_options(given: Mapping[str, str]) -> dict[str, str]:
    """`properties.x` as `kafka.x`, without what Spark sets itself, without transactions and without the group."""
    left_out = (*_SPARKS_OWN, _TRANSACTIONS, _GROUP)
    return {f"kafka.{name}": text for name, text in _properties(given).items() if name not in left_out}


def producer_risks(given: Mapping[str, str]) -> Iterator[str]:
    """What these properties do to the delivery or the order of records, each in words that name the property."""
    properties = {name: text.strip().lower() for name, text in _properties(given).items()}
    acks = properties.get("acks", "all")
    retries = properties.get("retries", "")
    in_flight = properties.get("max.in.flight.requests.per.connection", str(_MOST_IN_FLIGHT))
    if _TRANSACTIONS in properties:
        yield f"'properties.{_TRANSACTIONS}' is left out: Spark's Kafka sink has no transactions"
    if acks not in ("all", "-1"):
        yield (
            f"'properties.acks' = '{acks}': a record counts as written before all replicas have it, and is lost with "
            "the broker that has it. At least once needs 'all', the default"
        )
    # As Kafka's client decides: a setting that does not go with idempotence turns off what is on by default.
    many = in_flight.isdigit() and int(in_flight) > _MOST_IN_FLIGHT
    idempotent = properties.get("enable.idempotence", str(acks in ("all", "-1") and not many).lower()) == "true"
    if not idempotent and retries != "0" and in_flight != "1":
        yield (
            "the properties leave 'enable.idempotence' off: where a request is tried again, records of a key may "
            "change their order. Leave out 'properties.enable.idempotence', 'properties.acks' and "
            f"'properties.max.in.flight.requests.per.connection' (at most {_MOST_IN_FLIGHT}), or set the last to 1"
        )


def _properties(given: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix(_PREFIX): text for key, text in given.items() if key.startswith(_PREFIX)}
