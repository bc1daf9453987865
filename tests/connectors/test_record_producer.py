"""The producer of the data source, with a client in memory, and the settings that librdkafka accepts."""

from __future__ import annotations

from typing import Any

import pytest

from kvformat.connectors import KafkaTable, brokers, record_producer
from kvformat.connectors.cli import produce
from kvformat.connectors.record_producer import ProducerSettings

GIVEN = {"connector": "kafka", "topic": "t", "format": "json", "properties.bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize(
    ("given", "idempotent"),
    [
        ({}, True),
        ({"acks": "-1", "retries": "1", "max.in.flight.requests.per.connection": "5"}, True),
        ({"acks": "1"}, False),
        ({"acks": "0"}, False),
        ({"retries": "0"}, False),
        ({"enable.idempotence": "False"}, False),
        ({"max.in.flight.requests.per.connection": "6"}, False),
    ],
)
def test_settings_of_java_that_rule_out_idempotence_turn_it_off(
    given: dict[str, str], idempotent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java's producer then goes on without it, and librdkafka would refuse to start."""
    monkeypatch.setattr(record_producer, "largest_messages", lambda *_: [])
    made: list[dict[str, Any]] = []
    make = brokers.make_client
    monkeypatch.setattr(brokers, "make_client", lambda kind, of, options: made.append(of) or make(kind, of, options))
    options = GIVEN | {f"properties.{name}": text for name, text in given.items()}
    record_producer._Client(ProducerSettings.of(KafkaTable("id INT", options).kv))
    with produce._producing(options, 77):
        pass
    of_source, of_command = (settings.get("enable.idempotence", "false").lower() == "true" for settings in made)
    assert of_source is idempotent
    assert of_command is (idempotent or "max.in.flight.requests.per.connection" in given), "it does not take that one"
