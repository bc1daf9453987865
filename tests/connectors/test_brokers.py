"""Kafka clients configured from a table's `properties.*`."""

from __future__ import annotations

import builtins
import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kvformat.connectors import KafkaTable, brokers, sink
from kvformat.connectors.properties import unreadable_key
from kvformat.connectors.source import planned
from kvformat.registry.contract.errors import BrokerError, MissingExtraError, OptionError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
SECRET = "Tr0ub4dor"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
OAUTH = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.login.callback.handler.class": HANDLER,
    "sasl.oauthbearer.token.endpoint.url": "https://tokens.example/token",
    "sasl.jaas.config": f'{BEARER} required clientId="job" clientSecret="{SECRET}";',
}
TOKENS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "https://tokens.example/token",
    "sasl.oauthbearer.client.id": "job",
    "sasl.oauthbearer.client.secret": SECRET,
}


def _given(properties: dict[str, str]) -> dict[str, str]:
    return {f"properties.{name}": value for name, value in {"bootstrap.servers": "b:9092", **properties}.items()}


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"client.id": "me", "max.poll.records": "5", "group.id": "g"}, {"client.id": "me"}),
        (
            {**SASL, "sasl.jaas.config": f'{PLAIN} required username="alice" password="{SECRET}";'},
            {**SASL, "sasl.username": "alice", "sasl.password": SECRET},
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f"{SCRAM} required\n username='al;ice'\n password=\"a\\\"b=c'd\";",
            },
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "al;ice",
                "sasl.password": "a\"b=c'd",
            },
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": "/ca.pem",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": "/me.pem",
                "ssl.key.password": SECRET,
                "ssl.endpoint.identification.algorithm": "",
            },
            {
                "security.protocol": "SSL",
                "ssl.ca.location": "/ca.pem",
                "ssl.key.location": "/me.pem",
                "ssl.certificate.location": "/me.pem",
                "ssl.key.password": SECRET,
                "ssl.endpoint.identification.algorithm": "none",
            },
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/me.p12"}
            | {"ssl.keystore.password": SECRET, "ssl.truststore.certificates": "PEM"},
            {"security.protocol": "SSL", "ssl.ca.pem": "PEM", "ssl.keystore.location": "/me.p12"}
            | {"ssl.keystore.password": SECRET},
        ),
        (OAUTH, TOKENS),
        (
            OAUTH
            | {
                "sasl.login.callback.handler.class": HANDLER.replace("oauthbearer.", "oauthbearer.secured."),
                "sasl.jaas.config": f"{BEARER} required clientId='job' clientSecret='{SECRET}' scope='a b' "
                "extension_logicalCluster='lkc-1' extension_identityPoolId='pool-2';",
            },
            TOKENS
            | {
                "sasl.oauthbearer.scope": "a b",
                "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-2",
            },
        ),
        (
            OAUTH
            | {
                "sasl.jaas.config": f"{BEARER} required;",
                "sasl.oauthbearer.client.credentials.client.id": "job",
                "sasl.oauthbearer.client.credentials.client.secret": SECRET,
                "sasl.oauthbearer.scope": "a",
            },
            TOKENS | {"sasl.oauthbearer.scope": "a"},
        ),
        # Stores are ignored if the protocol does not use them.
        ({"ssl.truststore.location": "/ca.jks"}, {}),
    ],
)
def test_settings_of_java_become_those_of_librdkafka(properties: dict[str, str], expected: dict[str, Any]) -> None:
    assert brokers.client_settings(_given(properties)) == {"bootstrap.servers": "b:9092", **expected}


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"security.protocol": "SSL", "ssl.truststore.location": "/ca.jks"}, "ssl.truststore.location"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "/me.jks"}, "ssl.keystore.location"),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism"),  # Java creates an unsigned token
        ({**OAUTH, "sasl.oauthbearer.token.endpoint.url": ""}, "sasl.oauthbearer.token.endpoint.url"),
        ({**OAUTH, "sasl.jaas.config": f'{BEARER} required clientSecret="{SECRET}";'}, "sasl.jaas.config"),
        (
            {**OAUTH, "sasl.login.callback.handler.class": "software.amazon.msk.IAMOAuthBearerLoginCallbackHandler"},
            "sasl.login.callback.handler.class",
        ),
        ({**SASL, "sasl.login.callback.handler.class": HANDLER}, "sasl.login.callback.handler.class"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism"),  # Java's default is GSSAPI
        ({**SASL, "sasl.jaas.config": f"username=a password={SECRET}"}, "sasl.jaas.config"),
        ({**SASL, "sasl.jaas.config": f'{PLAIN} required password="{SECRET}";'}, "sasl.jaas.config"),
        ({"sasl.login.callback.handler.class": "software.amazon.Own"}, "sasl.login.callback.handler.class"),
        ({"ssl.engine.factory.class": "org.acme.Own"}, "ssl.engine.factory.class"),
        ({"bootstrap.servers": ""}, "bootstrap.servers"),
        ({"bootstrap.servers": f"alice:{SECRET}@b:9092"}, "bootstrap.servers"),
    ],
)
def test_settings_that_only_java_supports_are_refused_by_name(properties: dict[str, str], named: str) -> None:
    with pytest.raises(OptionError, match=rf"'properties\.{named}'") as raised:
        brokers.client_settings(_given(properties))
    assert raised.value.option == f"properties.{named}"
    assert SECRET not in str(raised.value)
    assert "bootstrap" in named or "spark_options={'startingOffsets'" in str(raised.value)


def test_librdkafka_accepts_all_settings() -> None:
    """The client refuses unknown names and values."""
    properties = {**SASL, "sasl.jaas.config": f'{PLAIN} required username="a" password="b";', "client.id": "me"}
    more = {"ssl.endpoint.identification.algorithm": "https", "isolation.level": "read_committed", "client.rack": "r"}
    brokers.admin(_given({**properties, **more, "client.dns.lookup": "use_all_dns_ips"}))
    brokers.admin(_given(OAUTH))
    brokers.consumer(_given({**properties, **more, "max.partition.fetch.bytes": "100000"}), group_id="g").close()


def test_error_names_unreachable_brokers_and_the_reason() -> None:
    given = _given({"bootstrap.servers": "127.0.0.1:1"})
    client = brokers.admin(given)
    with pytest.raises(BrokerError, match=r"'127.0.0.1:1' .* its topics: .*refused") as raised:
        brokers.ask(client, given, "its topics", lambda: client.list_topics(timeout=3))
    assert raised.value.__cause__ is not None


@pytest.mark.parametrize(
    "code",
    # UNKNOWN_LEADER_EPOCH: the client already knows the leader of a new topic, and the broker does not
    [
        "NOT_LEADER_FOR_PARTITION",
        "UNKNOWN_LEADER_EPOCH",
        "OFFSET_NOT_AVAILABLE",
        "_TRANSPORT",
        "UNSTABLE_OFFSET_COMMIT",
    ],
)
def test_requests_are_repeated_after_temporary_errors(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given, asked = _given({}), []

    def answer(code: int, times: int) -> Any:
        asked.append(code)
        if len(asked) <= times:
            raise KafkaException(KafkaError(code))
        return "here"

    client = brokers.admin(given)
    monkeypatch.setattr(brokers, "_PAUSE", 0)
    number = getattr(KafkaError, code)
    assert brokers.ask(client, given, "it", lambda: answer(number, 3)) == "here"
    assert len(asked) == 4
    asked.clear()
    with pytest.raises(BrokerError, match="Group authorization failed"):
        brokers.ask(client, given, "it", lambda: answer(KafkaError.GROUP_AUTHORIZATION_FAILED, 3))
    assert len(asked) == 1
    monkeypatch.setitem(brokers._PASSING, code, 0)
    asked.clear()
    with pytest.raises(BrokerError, match=re.escape(KafkaError(number).str())):
        brokers.ask(client, given, "it", lambda: answer(number, 3))
    assert len(asked) == 1


def test_missing_client_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name.startswith("confluent_kafka"):
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"kvformat\[kafka\]"):
        brokers.admin(_given({}))


@pytest.mark.parametrize("kind", [None, "JKS", "PKCS12"])
def test_error_names_the_type_of_a_java_only_truststore(kind: str | None) -> None:
    """The error does not speak of PEM, and does not advise settings that are already given."""
    properties = {"security.protocol": "SSL", "ssl.truststore.location": "/ca.jks"}
    properties |= {} if kind is None else {"ssl.truststore.type": kind}
    by_default = ", by default" if kind is None else ""
    words = rf"is a file of type {kind or 'JKS'} \('properties\.ssl\.truststore\.type'{by_default}\)"
    with pytest.raises(OptionError, match=words) as raised:
        brokers.client_settings(_given(properties))
    assert "keytool -list -rfc" in str(raised.value)
    assert "spark_options={'startingOffsets'" in str(raised.value)
    for mode in ("earliest-offset", "timestamp"):
        with pytest.raises(OptionError, match="keytool") as raised:
            brokers.client_settings(_given(properties) | {"scan.startup.mode": mode})
        assert "scan.startup.mode" not in str(raised.value)


OPTIONS = {"connector": "kafka", "topic": "t", "format": "json", "scan.startup.mode": "earliest-offset"}
# The first bytes of keys from openssl pkcs8 -topk8: by default, and with -v1 PBE-SHA1-3DES.
PBES2 = "MIIFLTBXBgkqhkiG9w0BBQ0wSjApBgkqhkiG9w0BBQwwHAQIO87NPmwUQD0CAggA"
PBES1 = "MIIE6jAcBgoqhkiG9w0BDAEDMA4ECGnTrX7oTGq1AgIIAASCBMj8CXaBuLQ1"


def _pem(kind: str, body: str) -> str:
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (_pem("ENCRYPTED ", PBES2), "is a key encrypted with PBES2"),
        (_pem("RSA ", "Proc-Type: 4,ENCRYPTED\n\nMIIE"), r"OpenSSL's form \(RSA PRIVATE KEY\)"),
        (_pem("EC ", "MHcC"), r"OpenSSL's form \(EC PRIVATE KEY\)"),
        (_pem("ENCRYPTED ", PBES1), None),
        (_pem("", "MIIE"), None),
        ("", None),
    ],
)
def test_error_for_a_key_that_spark_cannot_read(text: str, told: str | None, tmp_path: Path) -> None:
    """The command line uses OpenSSL, which reads all of these keys."""
    (tmp_path / "me.pem").write_text("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n" + text)
    in_file = {"ssl.keystore.location": str(tmp_path / "me.pem"), "ssl.keystore.type": "PEM"}
    for properties in ({"ssl.keystore.key": text}, in_file):
        table = KafkaTable("id INT", OPTIONS | {**_given(properties | {"security.protocol": "SASL_SSL"})})
        notes = planned(table.kv, streaming=False, ask=False).notes
        said = [*sink.differences(table.kv)]
        if told is None:
            assert (dict(notes), said) == ({}, [])
            continue
        (note,) = notes.values()
        assert said == [note]
        assert note.startswith(f"'properties.{next(iter(properties))}' is a key ")
        assert re.search(told, note)
        assert "openssl pkcs8 -topk8" in note
        assert "MII" not in note
    elsewhere = {"ssl.keystore.location": "/not/here.pem", "ssl.keystore.type": "PEM", "security.protocol": "SSL"}
    assert unreadable_key(_given(elsewhere)) == {}
    assert unreadable_key(_given({"ssl.keystore.key": text})) == {}, "the protocol has no use for a key"


# --- requests ------------------------------------------------------------------------------------------------


class Clock:
    """Replaces the module `time`: nobody sleeps, but time goes on."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Client:
    """A client whose connection says something when it is polled."""

    def __init__(self, *said: str) -> None:
        self.said = said

    def poll(self, _: float) -> None:
        brokers._said.extend(self.said)


def _failure(client: Any, given: dict[str, str], cause: Exception) -> BrokerError:
    def question() -> None:
        raise cause

    with pytest.raises(BrokerError) as raised:
        brokers.ask(client, given, "its topics", question)
    return raised.value


DENIED = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))


def test_errors_of_an_earlier_request_are_not_those_of_a_later_one() -> None:
    assert " (first is gone)" in str(_failure(Client("first is gone"), _given({}), DENIED))
    again = str(_failure(Client(), _given({}), DENIED))
    assert "first is gone" not in again
    assert "Topic authorization failed. Check that" in again


def test_an_error_tells_the_last_three_of_the_connection_once_each() -> None:
    told = str(_failure(Client("one", "two", "three", "two"), _given({}), DENIED))
    assert " (two; three). Check" in told


@pytest.mark.parametrize(("cause", "reason"), [(TimeoutError(), "there was no answer in time"),
                                               (TimeoutError("late"), "late")])  # fmt: skip
def test_a_late_answer_is_an_error_of_the_brokers(cause: Exception, reason: str) -> None:
    error = _failure(Client(), _given({}), cause)
    assert (error.reason, error.option) == (reason, "properties.bootstrap.servers")
    assert f"the brokers at 'b:9092' could not be asked for its topics: {reason}. Check" in str(error)


@pytest.mark.parametrize(
    ("code", "seconds"), [("LEADER_NOT_AVAILABLE", 15.0), ("COORDINATOR_NOT_AVAILABLE", 15.0), ("_TRANSPORT", 3.0)]
)
def test_temporary_errors_are_repeated_for_some_seconds(
    code: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(brokers, "time", clock)
    _failure(Client(), _given({}), KafkaException(KafkaError(getattr(KafkaError, code))))
    assert clock.now - 100.0 == pytest.approx(seconds, abs=0.25)


def test_the_time_of_a_request_begins_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, code = Clock(), KafkaError._TRANSPORT
    monkeypatch.setattr(brokers, "time", clock)
    for _ in range(2):
        begun = clock.now
        _failure(Client(), _given({}), KafkaException(KafkaError(code)))
        assert clock.now - begun >= 2.9


# --- secrets of which one begins with the other ------------------------------------------------------------------

SEVERAL = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{PLAIN} required username="alice" password="hunter";',
    "ssl.keystore.type": "PKCS12",
    "ssl.keystore.location": "/me.p12",
    "ssl.keystore.password": "hunter2000",
    "ssl.key.password": "old-hunter2000",
}


def test_no_part_of_a_longer_secret_is_left_of_an_error() -> None:
    given = _given(SEVERAL)
    assert sorted(brokers.secrets(given)) == ["hunter", "hunter2000", "old-hunter2000"]
    cause = KafkaException(KafkaError(KafkaError._SSL, "old-hunter2000, hunter2000 and hunter are wrong"))
    error = _failure(Client("hunter2000", "hunter and old-hunter2000"), given, cause)
    assert error.reason == "******, ****** and ****** are wrong"
    assert "(******; ****** and ******)" in str(error)
    for word in ("hunter", "2000", "old-"):
        assert word not in str(error), word


def test_a_refused_setting_shows_no_part_of_a_secret() -> None:
    def client(settings: dict[str, Any]) -> Any:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, f"bad {settings['ssl.key.password']} hunter"))

    given = _given(SEVERAL)
    with pytest.raises(OptionError, match="confluent-kafka can't be configured") as raised:
        brokers.make_client(client, brokers.client_settings(given), given)
    assert raised.value.reason == "bad ****** ******"


def test_the_secret_of_tokens_is_masked_alone_and_with_its_user() -> None:
    given = _given(OAUTH | {"sasl.jaas.config": f'{BEARER} required clientId="job" clientSecret="hunter";'})
    assert brokers.secrets(given) == ["hunter", "job:hunter"]
    cause = KafkaException(KafkaError(KafkaError._AUTHENTICATION, "job:hunter, am9iOmh1bnRlcg==, hunter"))
    assert _failure(Client(), given, cause).reason == "******, ******, ******"


def test_secrets_of_a_table_that_begin_with_each_other_are_shown_nowhere() -> None:
    table = KafkaTable("id INT", OPTIONS | _given(SEVERAL))
    plan = planned(table.kv, streaming=False, ask=False)
    shown = {"repr": repr(table), "explain": table.explain(), "html": table._repr_html_(), "plan": repr(plan)}
    assert len(shown) == 4
    for what, text in shown.items():
        for word in ("hunter", "2000", "old-"):
            assert word not in text, what
    assert plan.options["kafka.ssl.keystore.password"] == "hunter2000"


# --- clients -----------------------------------------------------------------------------------------------------


def test_a_consumer_commits_nothing_and_has_the_settings_of_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(brokers, "make_client", lambda kind, settings, options: made.append(settings))
    given = {"isolation.level": "read_committed", "fetch.max.bytes": "5", "max.partition.fetch.bytes": "6"}
    brokers.consumer(_given(given | {"group.id": "theirs", "max.poll.records": "7"}), group_id="ours")
    (settings,) = made
    settings.pop("error_cb")
    assert settings == {"bootstrap.servers": "b:9092", "group.id": "ours", "enable.auto.commit": False,
                        "log_level": 0, **given}  # fmt: skip


@pytest.mark.parametrize("protocol", [None, "plaintext"])
def test_without_security_no_credentials_are_needed(protocol: str | None) -> None:
    given = {"sasl.jaas.config": "nothing", "ssl.keystore.location": "/k.jks"}
    given |= {} if protocol is None else {"security.protocol": protocol}
    found = brokers.client_settings(_given(given))
    assert found.keys() <= {"bootstrap.servers", "security.protocol"}


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(OptionError, match="is 'TLS', not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"):
        brokers.client_settings(_given({"security.protocol": "tls"}))


def test_a_setting_of_java_has_priority_over_the_login_modules_option() -> None:
    jaas = f'{BEARER} required clientId="old" clientSecret="old" scope="old";'
    new = {"sasl.oauthbearer.client.credentials.client.id": "new", "sasl.oauthbearer.scope": ""}
    found = brokers.client_settings(_given(OAUTH | {"sasl.jaas.config": jaas} | new))
    assert {name: found[f"sasl.oauthbearer.{name}"] for name in ("client.id", "client.secret")} == {
        "client.id": "new",
        "client.secret": "old",
    }


def test_an_empty_scope_is_none() -> None:
    jaas = f'{BEARER} required clientId="a" clientSecret="b";'
    found = brokers.client_settings(_given(OAUTH | {"sasl.jaas.config": jaas, "sasl.oauthbearer.scope": ""}))
    assert "sasl.oauthbearer.scope" not in found
