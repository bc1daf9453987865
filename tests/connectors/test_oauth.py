"""A broker that requires tokens (SASL/OAUTHBEARER). Both clients get them from a token endpoint."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kvformat.connectors import KafkaTable, brokers
from kvformat.connectors.reader import clients
from kvformat.connectors.reader.client_settings import ReaderSettings
from kvformat.connectors.reader.ranges import PartitionRange
from kvformat.connectors.reader.read import read_range
from kvformat.registry.contract.errors import BrokerError
from tests.support.services import KafkaBroker
from tests.support.token_server import TokenServer

pytestmark = [pytest.mark.spark, pytest.mark.services]

_OF_KAFKA = "org.apache.kafka.common.security.oauthbearer"


@pytest.fixture(scope="module")
def tokens() -> Iterator[TokenServer]:
    running = TokenServer(lifetime=20)
    yield running
    running.close()


@pytest.fixture(scope="module")
def guarded(tokens: TokenServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Start a broker that accepts the endpoint's tokens at its secured port."""
    listener = "listener.name.sasl_plaintext.oauthbearer"
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        f"{listener}.sasl.jaas.config": f"{_OF_KAFKA}.OAuthBearerLoginModule required;",
        f"{listener}.sasl.server.callback.handler.class": f"{_OF_KAFKA}.OAuthBearerValidatorCallbackHandler",
        f"{listener}.sasl.oauthbearer.jwks.endpoint.url": tokens.keys_url,
        f"{listener}.sasl.oauthbearer.expected.audience": tokens.audience,
        f"{listener}.sasl.oauthbearer.expected.issuer": tokens.issuer,
        f"{listener}.connections.max.reauth.ms": "15000",
    }
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={tokens.keys_url}"
    running = KafkaBroker(tmp_path_factory.mktemp("guarded"), settings, allowed)
    running.start()
    yield running
    running.kill()


def _table(broker: KafkaBroker, tokens: TokenServer, topic: str, secret: str, **options: str) -> KafkaTable:
    jaas = f'{_OF_KAFKA}.OAuthBearerLoginModule required clientId="{tokens.client_id}" clientSecret="{secret}"'
    given = {
        "connector": "kafka",
        "topic": topic,
        "format": "json",
        "properties.bootstrap.servers": broker.secured,
        "properties.group.id": "readers",
        "properties.security.protocol": "SASL_PLAINTEXT",
        "properties.sasl.mechanism": "OAUTHBEARER",
        "properties.sasl.login.callback.handler.class": f"{_OF_KAFKA}.OAuthBearerLoginCallbackHandler",
        "properties.sasl.oauthbearer.token.endpoint.url": tokens.url,
        "properties.sasl.jaas.config": f'{jaas} scope="read";',
        "scan.startup.mode": "group-offsets",
        "properties.auto.offset.reset": "earliest",
    }
    return KafkaTable("id INT", given | options)


def test_tables_are_written_and_read_with_tokens(
    spark: Any, guarded: KafkaBroker, tokens: TokenServer, tmp_path: Any
) -> None:
    table = _table(guarded, tokens, guarded.create("with-tokens", 2), tokens.client_secret)
    asked_before = len(tokens.tokens)
    table.write(spark.createDataFrame([(n,) for n in range(20)], "id INT"))
    by_java = len(tokens.tokens)
    assert by_java > asked_before
    client = brokers.admin(table.kv.options)  # confluent-kafka's
    topics = brokers.ask(client, table.kv.options, "topics", lambda: client.list_topics(timeout=15)).topics
    assert len(topics["with-tokens"].partitions) == 2
    assert len(tokens.tokens) > by_java
    assert sorted(row["id"] for row in table.read(spark).collect()) == list(range(20))
    stream = table.read_stream(spark).writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = stream.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert query.lastProgress.numInputRows == 20
    assert {*tokens.scopes} == {"read"}
    shown = [repr(table), table.explain()]
    for frame in (table.read(spark), table.read_stream(spark)):
        with contextlib.redirect_stdout(io.StringIO()) as plan:
            frame.explain(True)
        shown.append(plan.getvalue())
    assert all(tokens.client_secret not in text for text in shown)


def test_refused_tokens_are_reported_without_the_secret(
    spark: Any, guarded: KafkaBroker, tokens: TokenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers, "TIMEOUT", 4.0)
    table = _table(guarded, tokens, guarded.create("refused"), "Wr0ng-secret")
    with pytest.raises(BrokerError, match=r"invalid_client|token|oauth|OAUTH") as raised:
        table.read(spark)
    assert "Wr0ng" not in f"{raised.value} {raised.value.__cause__}"


@pytest.mark.parametrize("loop", ["compiled", "messages"])
def test_readers_of_ranges_get_tokens_from_a_function(
    guarded: KafkaBroker, tokens: TokenServer, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiled loop calls the function again if it fails; confluent-kafka's own consumer raises its error."""
    topic = guarded.create(f"tokens-{loop}")
    guarded.send(topic, [(None, b"v")] * 5)
    asked: list[str] = []

    def token(setting: str) -> tuple[str, float]:
        asked.append(setting)
        if len(asked) == 1 and loop == "compiled":
            raise ConnectionError(f"no token for {tokens.client_secret}")
        return tokens.token(), time.time() + 20

    given = {"bootstrap.servers": guarded.secured, "security.protocol": "SASL_PLAINTEXT"}
    given |= {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": token}
    monkeypatch.setattr(brokers, "client_settings", lambda _: given)
    if loop == "messages":
        monkeypatch.setattr(clients, "librdkafka", lambda: "taken away")
    settings, at = (
        ReaderSettings((("properties.bootstrap.servers", guarded.secured),), 60_000),
        PartitionRange(topic, 0, 0, 5),
    )
    try:
        assert sum(map(len, read_range(settings, at, ["value"]))) == 5
        assert len(asked) >= 1 + (loop == "compiled")
    finally:
        clients.close_all()
