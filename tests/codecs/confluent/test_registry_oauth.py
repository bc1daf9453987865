"""A schema registry that requires OAuth tokens, with an endpoint that issues and counts tokens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry import OptionError, SchemaRegistryError, get_format
from tests.support.registry_server import Registry, RegistryServer
from tests.support.token_server import TokenServer

_SCHEMA = '{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}'
_AUTH = "properties.bearer.auth."


@pytest.fixture
def tokens() -> Iterator[TokenServer]:
    running = TokenServer()
    yield running
    running.close()


def _format(registry: Registry, tokens: TokenServer, **changed: str | None) -> Any:
    auth = {
        "issuer.endpoint.url": tokens.url,
        "client.id": tokens.client_id,
        "client.secret": tokens.client_secret,
        "scope": "read",
        **{name.replace("_", "."): value for name, value in changed.items()},
    }
    options = {"url": registry.url, "bearer-auth.credentials-source": "OAUTHBEARER", "registry-backoff": "10 ms"}
    options |= {f"{_AUTH}{name}": value for name, value in auth.items() if value is not None}
    return get_format("avro-confluent", options)


def _read(format: Any, *ids: int) -> Any:
    batch = format.decode_batch(pa.array([b"\0\0\0\0%c\x02" % id for id in ids]), "a INT NOT NULL")
    assert batch.errors is None
    return batch.rows.to_pylist()


def _registry(tokens: TokenServer) -> Registry:
    return Registry(ids=dict.fromkeys(range(1, 9), _SCHEMA), bearer=lambda token: token == tokens.tokens[-1])


@pytest.mark.parametrize("scope", ["read", None])
def test_a_token_is_fetched_once_and_sent(server: RegistryServer, tokens: TokenServer, scope: str | None) -> None:
    with server.serving(_registry(tokens)) as registry:
        format = _format(registry, tokens, scope=scope)
        for number in range(1, 9):
            assert _read(format, number) == [[{"a": 1}]]
    assert tokens.clients == [tokens.client_id]
    assert tokens.scopes == [scope]
    assert registry.authorization == [f"Bearer {tokens.tokens[0]}"] * 8


def test_a_token_is_renewed_before_it_expires(server: RegistryServer, tokens: TokenServer) -> None:
    tokens.lifetime = 1
    with server.serving(_registry(tokens)) as registry:
        format = _format(registry, tokens)
        assert _read(format, 1) == [[{"a": 1}]]
        time.sleep(1.1)
        assert _read(format, 2) == [[{"a": 1}]]
    assert len(tokens.tokens) == 2


def test_a_token_without_an_expiry_time_is_used_for_a_while(server: RegistryServer, tokens: TokenServer) -> None:
    tokens.lifetime = None
    with server.serving(_registry(tokens)) as registry:
        format = _format(registry, tokens)
        assert [_read(format, number) for number in (1, 2, 3)] == [[[{"a": 1}]]] * 3
    assert len(tokens.tokens) == 1


def test_a_temporary_failure_of_the_endpoint_is_retried(server: RegistryServer, tokens: TokenServer) -> None:
    tokens.failing = 2
    with server.serving(_registry(tokens)) as registry:
        assert _read(_format(registry, tokens), 1) == [[{"a": 1}]]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"client_secret": "hunter2-secret"}, "invalid_client"),
        ({"issuer_endpoint_url": "http://127.0.0.1:1/token"}, "refused"),
    ],
)
def test_no_token_is_an_error_of_the_registry_without_the_secret(
    server: RegistryServer, tokens: TokenServer, changed: dict[str, str], reason: str
) -> None:
    with server.serving(_registry(tokens)) as registry:
        format = _format(registry, tokens, **changed)
        with pytest.raises(SchemaRegistryError, match=f"Failed to retrieve token .*{reason}") as raised:
            _read(format, 1)
    told = f"{raised.value} {raised.value!r} {raised.value.__cause__!r} {format!r}"
    assert "hunter2" not in told
    assert tokens.client_secret not in told
    assert registry.requests == []


def test_missing_settings_are_named(server: RegistryServer, tokens: TokenServer) -> None:
    missing = pytest.raises(OptionError, match=r"bearer\.auth\.client\.secret")
    with server.serving(_registry(tokens)) as registry, missing:
        _read(_format(registry, tokens, client_secret=None), 1)
