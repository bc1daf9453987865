"""Registries that are elsewhere than their URL says: contexts of subjects, and redirects."""

from __future__ import annotations

import json
import urllib.parse
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs import get_format
from kvformat.registry.contract.errors import SchemaRegistryError
from tests.support.registry_server import Registry, RegistryServer

_FIELDS = {"id": 7, "age": 40}


def _schema(*names: str) -> str:
    fields = [{"name": name, "type": "int"} for name in names]
    return json.dumps({"type": "record", "name": "User", "fields": fields})


def _message(fmt: Any) -> Any:
    kind = pa.struct([("age", pa.int32()), ("id", pa.int32())])
    return fmt.encode_batch(pa.array([_FIELDS], kind), "age INT NOT NULL, id INT NOT NULL").messages


def _read(fmt: Any, *messages: bytes) -> list[Any]:
    batch = fmt.decode_batch(pa.array(messages, pa.binary()), "id INT, age INT")
    return list(batch.rows.to_pylist() if batch.errors is None else batch.errors.to_pylist())


_DATUM = b"\0\0\0\0\1" + bytes([80, 14])  # the first field is 40, the second 7


@pytest.mark.parametrize(
    ("subject", "row"),
    [
        (":.stg:orders-value", {"id": 7, "age": 40}),
        (":.stg:other", {"id": 7, "age": 40}),
        ("orders-value", {"id": 40, "age": 7}),
        (":.:orders-value", {"id": 40, "age": 7}),
        (":stg:orders-value", {"id": 40, "age": 7}),
        (None, {"id": 40, "age": 7}),
    ],
)
def test_an_id_is_the_schema_of_the_context_of_the_subject(
    subject: str | None, row: dict[str, int], server: RegistryServer
) -> None:
    staging, default = Registry(ids={1: _schema("age", "id")}), Registry(ids={1: _schema("id", "age")})
    default.contexts = {".stg": staging, ".": default}
    with server.serving(default) as registry:
        options = {"url": registry.url} | ({} if subject is None else {"subject": subject})
        assert _read(get_format("avro-confluent", options), _DATUM) == [[row]]


def test_references_are_in_the_context_of_the_subject(server: RegistryServer) -> None:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "User"}]})
    staging = Registry(ids={1: text, 2: _schema("age")}, subjects={"user": [2]})
    staging.references[1] = [{"name": "User", "subject": "user", "version": 1}]
    with server.serving(Registry(contexts={".stg": staging})) as registry:
        fmt = get_format("avro-confluent", {"url": registry.url, "subject": ":.stg:r"})
        batch = fmt.decode_batch(pa.array([_DATUM[:-1]]), "id ROW<age INT>")
    assert batch.rows.to_pylist() == [[{"id": {"age": 40}}]]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_within_the_server_is_followed(status: int, server: RegistryServer) -> None:
    with server.serving(Registry(ids={1: _schema("age", "id")})) as new, server.serving() as old:
        old.moved, old.moved_status, new.credentials = new.url, status, "me:secret"
        options = {"url": old.url, "basic-auth.user-info": "me:secret", "basic-auth.credentials-source": "USER_INFO"}
        assert _read(get_format("avro-confluent", options), _DATUM) == [[_FIELDS]]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirected_registration_is_repeated_or_an_error(status: int, server: RegistryServer) -> None:
    with server.serving() as new, server.serving() as old:
        old.moved, old.moved_status = new.url, status
        fmt = get_format("avro-confluent", {"url": old.url, "subject": "s"})
        if status in (307, 308):
            assert _message(fmt).to_pylist() == [_DATUM]
            assert len(new.registered) == 1
        else:
            with pytest.raises(SchemaRegistryError, match=r"would not repeat the POST request. Set the option 'url'"):
                _message(fmt)
            assert new.requests == []


@pytest.mark.parametrize(
    "target",
    ["https://127.0.0.1:PORT", "http://me:hush@elsewhere.test/a", "http://127.0.0.1:1", "http://localhost:PORT/new"],
)
def test_a_redirect_to_another_server_is_an_error_that_names_it(target: str, server: RegistryServer) -> None:
    """Its scheme, its host or its port is another one."""
    with server.serving() as old:
        target = old.moved = target.replace("PORT", str(urllib.parse.urlsplit(old.url).port))
        fmt = get_format("avro-confluent", {"url": old.url})
        with pytest.raises(SchemaRegistryError) as caught:
            _read(fmt, _DATUM)
        assert old.requests == ["GET /schemas/ids/1"]
    shown = target.replace("me:hush@", "")
    assert f"redirects (HTTP 308) to {shown}/schemas/ids/1, another server" in str(caught.value)
    assert "hush" not in str(caught.value)


def test_an_endless_redirect_is_an_error(server: RegistryServer) -> None:
    with server.serving() as old:
        old.moved = old.url
        fmt = get_format("avro-confluent", {"url": old.url, "registry-retries": "0"})
        with pytest.raises(SchemaRegistryError, match="redirects"):
            _read(fmt, _DATUM)
