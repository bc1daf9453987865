"""A registry goes down during a stream and comes back: no record is lost, and no failure is cached."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry import Format, SchemaRegistryError, get_format
from tests.support.registry_server import Registry, RegistryServer

RECORDS, BATCH = 600, 20
RECORD = {"type": "record", "name": "r", "fields": [{"name": "i", "type": "long"}]}
ENVELOPE = {
    "type": "record",
    "name": "e",
    "fields": [
        {"name": "before", "type": ["null", RECORD]},
        {"name": "after", "type": ["null", "r"]},
        {"name": "op", "type": "string"},
    ],
}
FORMATS: dict[str, dict[str, str]] = {
    "avro-confluent": {},
    "debezium-avro-confluent": {},
    "debezium-avro-confluent types": {"types": "debezium"},
}
IDS = {name: 100 + 10 * number for number, name in enumerate(FORMATS)}


def _varint(number: int) -> bytes:
    rest, found = number << 1, b""
    while rest > 127:
        found, rest = found + bytes([rest & 127 | 128]), rest >> 7
    return found + bytes([rest])


def _message(name: str, number: int, schema_id: int) -> bytes:
    datum = _varint(number) if name == "avro-confluent" else b"\0\2" + _varint(number) + b"\2c"
    return b"\0" + schema_id.to_bytes(4, "big") + datum


@contextmanager
def _answers_503(server: RegistryServer, registry: Registry) -> Iterator[None]:
    registry.failing, registry.status, registry.body = 10**6, 503, b"<html>Service Unavailable</html>"
    yield
    registry.failing = 0


@contextmanager
def _says_that_it_knows_nothing(server: RegistryServer, registry: Registry) -> Iterator[None]:
    """Answer as a proxy without its registry: 404, but not with the registry's error code."""
    registry.failing, registry.status, registry.body = 10**6, 404, b"<html>no such page</html>"
    yield
    registry.failing = 0


@contextmanager
def _never_answers(server: RegistryServer, registry: Registry) -> Iterator[None]:
    registry.delay = 3
    yield
    registry.delay = 0


@contextmanager
def _is_gone(server: RegistryServer, registry: Registry) -> Iterator[None]:
    with server.stopped():
        yield


DEATHS = [_answers_503, _says_that_it_knows_nothing, _never_answers, _is_gone]


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    server = RegistryServer()
    yield server
    server.close()


def _read(format: Format, messages: list[bytes]) -> list[int]:
    """Return the numbers in the records of a batch. Fails if a record has an error."""
    batch = format.decode_batch(pa.array(messages, pa.binary()), "i BIGINT")
    assert batch.errors is None or not len(batch.errors.drop_null()), batch.errors.drop_null()
    return [row["i"] for rows in batch.rows.to_pylist() for row in rows]


@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.__name__.strip("_"))
@pytest.mark.parametrize("name", FORMATS)
def test_no_record_is_lost_and_no_failure_is_cached(
    server: RegistryServer, name: str, death: Callable[[RegistryServer, Registry], Any]
) -> None:
    first, schema = IDS[name], json.dumps(RECORD if name == "avro-confluent" else ENVELOPE)
    with server.serving() as registry:
        registry.ids = dict.fromkeys(range(first, first + 6), schema)
        timeout = "2 s" if death is _never_answers else "30 s"  # on a busy machine, an answer may take a second
        options = {
            "url": registry.url,
            "registry-backoff": "1 ms",
            "registry-timeout": timeout,
            "registry-retries": "1",
        }
        format = get_format(name.split()[0], options | FORMATS[name])
        rng = random.Random(name)
        # first known ids, in the middle a new one, and later several more
        ids = [rng.choice([first, first + 1] if n < RECORDS // 2 else range(first, first + 6)) for n in range(RECORDS)]
        messages = [_message(name, number, schema_id) for number, schema_id in enumerate(ids)]
        batches = [messages[at : at + BATCH] for at in range(0, RECORDS, BATCH)]
        half = len(batches) // 2
        read = [number for batch in batches[: half - 2] for number in _read(format, batch)]
        with death(server, registry):
            read += [
                number for batch in batches[half - 2 : half] for number in _read(format, batch)
            ]  # these ids are cached
            for _ in range(2):  # the stream's first and second attempt
                began = time.monotonic()
                with pytest.raises(SchemaRegistryError) as caught:
                    _read(format, batches[half])
                assert time.monotonic() - began < 20
                assert f"{registry.url}" in str(caught.value)
                assert "schema id" in str(caught.value)
                assert caught.value.url == registry.url
                assert caught.value.schema_id in range(first + 2, first + 6)
        read += [number for batch in batches[half:] for number in _read(format, batch)]
        assert read == list(range(RECORDS))


def test_an_unknown_id_is_an_error_of_its_message_until_it_is_registered(server: RegistryServer) -> None:
    """Unlike with a registry that is down, other messages are read, and the id is requested again."""
    with server.serving() as registry:
        registry.ids = {200: json.dumps(RECORD)}
        format = get_format("avro-confluent", {"url": registry.url})
        messages = [_message("avro-confluent", 1, 200), _message("avro-confluent", 2, 201)]

        def codes() -> list[str | None]:
            batch = format.decode_batch(pa.array(messages, pa.binary()), "i BIGINT")
            return [None, None] if batch.codes is None else batch.codes.to_pylist()

        assert codes() == [None, "UNKNOWN_SCHEMA"]
        registry.ids[201] = registry.ids[200]
        ends = time.monotonic() + 60
        while codes() != [None, None]:
            assert time.monotonic() < ends
            time.sleep(0.2)
