"""Settings of the consumers that read ranges."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from confluent_kafka import Consumer

from kvformat.connectors import KafkaTable, java_settings
from kvformat.connectors.reader.client_settings import reader_settings, unsupported
from kvformat.registry.contract.errors import OptionError
from kvformat.registry.key_value_format import KeyValueFormat

SECRET = "Tr0ub4dor"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SASL = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{PLAIN} required username="alice" password="{SECRET}";',
}


def table(properties: dict[str, str]) -> KeyValueFormat:
    given = {"connector": "kafka", "topic": "t", "format": "raw", "scan.startup.mode": "earliest-offset"}
    given |= {f"properties.{name}": text for name, text in {"bootstrap.servers": "b:9092", **properties}.items()}
    return KafkaTable("v BYTES", given).kv


def settings(properties: dict[str, str]) -> dict[str, Any]:
    return reader_settings(table(properties)).for_client()


def test_the_defaults_are_those_of_java_and_of_a_reader_of_ranges() -> None:
    assert settings({}) == {
        **{"bootstrap.servers": "b:9092", "group.id": "kvformat", "isolation.level": "read_uncommitted"},
        **{"auto.offset.reset": "error", "enable.auto.commit": "false", "enable.auto.offset.store": "false"},
        **{"enable.partition.eof": "true", "check.crcs": "true", "log_level": "0", "max.poll.interval.ms": "86400000"},
        **{"queued.max.messages.kbytes": "16384", "queued.min.messages": "20000", "fetch.queue.backoff.ms": "5"},
        **{"fetch.wait.max.ms": "50", "reconnect.backoff.max.ms": "1000", "receive.message.max.bytes": "2147483647"},
        "topic.metadata.propagation.max.ms": "5000",
    }


def test_properties_replace_defaults_and_not_what_the_reader_needs() -> None:
    found = settings(
        {
            **{"group.id": "shop", "isolation.level": "read_committed", "fetch.max.wait.ms": "70"},
            **{"auto.offset.reset": "latest", "enable.auto.commit": "true", "check.crcs": "false"},
            **{"request.timeout.ms": "9000", "reconnect.backoff.max.ms": "77", "receive.buffer.bytes": "-1"},
            **{"fetch.max.bytes": "10", "max.partition.fetch.bytes": "2000000000", "client.id": "me"},
        }
    )
    assert found["group.id"] == "shop"
    assert (found["isolation.level"], found["check.crcs"]) == ("read_committed", "false")
    assert (found["fetch.wait.max.ms"], found["socket.timeout.ms"]) == ("70", "9000")
    assert (found["auto.offset.reset"], found["enable.auto.commit"]) == ("error", "false")
    assert (found["reconnect.backoff.max.ms"], found["socket.receive.buffer.bytes"]) == ("77", "0")
    assert (found["fetch.max.bytes"], found["max.partition.fetch.bytes"]) == ("1000000", "1000000000")
    assert found["client.id"] == "me"


def test_blanks_around_a_property_do_not_count_as_in_java() -> None:
    given = {"security.protocol": " SASL_SSL", "sasl.mechanism": "PLAIN ", "isolation.level": " read_committed "}
    given |= {"default.api.timeout.ms": " 70 ", "metadata.max.age.ms": " 80 ", "fetch.min.bytes": "90 "}
    spaced = reader_settings(table(SASL | given))
    assert spaced == reader_settings(table(SASL | {name: text.strip() for name, text in given.items()}))
    found = spaced.for_client()
    Consumer(found).close()
    names = ("security.protocol", "sasl.mechanism", "isolation.level", "metadata.max.age.ms", "fetch.min.bytes")
    assert [found[name] for name in names] == ["SASL_SSL", "PLAIN", "read_committed", "80", "90"]
    assert spaced.wait == 70


def test_each_setting_of_java_has_its_name_in_librdkafka() -> None:
    names = {
        **{"fetch.max.bytes": "fetch.max.bytes", "fetch.max.wait.ms": "fetch.wait.max.ms"},
        **{"fetch.min.bytes": "fetch.min.bytes", "max.partition.fetch.bytes": "max.partition.fetch.bytes"},
        **{"request.timeout.ms": "socket.timeout.ms", "send.buffer.bytes": "socket.send.buffer.bytes"},
        **{"receive.buffer.bytes": "socket.receive.buffer.bytes"},
        **{name: name for name in java_settings.CONNECTION},
    }
    given = {name: str(2_000_000 + number) for number, name in enumerate(names)}
    found = settings(given)
    assert {name: found[names[name]] for name in names} == given


def test_librdkafka_accepts_all_settings() -> None:
    values = dict.fromkeys((*java_settings.CONNECTION, *java_settings.BUFFERS, *java_settings._CONSUMER), "1000")
    values |= {"isolation.level": "read_committed", "check.crcs": "true", "metadata.recovery.strategy": "none"}
    values |= {"enable.metrics.push": "false", "fetch.max.bytes": "2147483647", "max.partition.fetch.bytes": "0"}
    Consumer(settings(values)).close()
    assert len(values) >= 19


def test_secrets_are_masked_and_kept_in_a_pickle() -> None:
    found = reader_settings(table(SASL))
    assert SECRET not in repr(found)
    assert "'properties.sasl.jaas.config': '******'" in repr(found)
    assert found.without_secrets(f"login of alice:{SECRET} failed") == "login of alice:****** failed"
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert hash(again) == hash(found)
    assert again.for_client()["sasl.password"] == SECRET


def test_the_wait_is_that_of_spark_or_of_the_table() -> None:
    assert reader_settings(table({})).wait == 120_000
    assert reader_settings(table({"default.api.timeout.ms": "1500"})).wait == 1500
    for name in ("default.api.timeout.ms", "fetch.max.bytes", "max.partition.fetch.bytes", "send.buffer.bytes"):
        with pytest.raises(OptionError, match=rf"'properties\.{name}' = 'long' must be a whole number") as raised:
            reader_settings(table({name: "long"}))
        assert raised.value.option == f"properties.{name}"


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({}, None),
        (SASL, None),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/ca.pem", "ssl.truststore.type": "PEM"}, None),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/ca.jks"},
            "'properties.ssl.truststore.location' is a file of type JKS ('properties.ssl.truststore.type', by default)",
        ),
        (
            {"security.protocol": "SASL_SSL"},
            "'properties.sasl.mechanism' is GSSAPI, not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
        ),
        ({"sasl.login.class": "org.acme.Own"}, "'properties.sasl.login.class' is a class of Java"),
    ],
)
def test_what_only_java_reads_is_named(properties: dict[str, str], why: str | None) -> None:
    assert unsupported(table(properties)) == why


def test_an_option_that_no_client_supports_is_an_error() -> None:
    with pytest.raises(OptionError, match=r"'properties\.security\.protocol' is 'TLS', not one of PLAINTEXT"):
        unsupported(table({"security.protocol": "TLS"}))
