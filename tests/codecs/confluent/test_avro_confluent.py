"""`avro-confluent`: framing, options, requests to a registry, and failures of a registry."""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import itertools
import json
import logging
import pickle
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kvformat.codecs.avro.references import parse_complete
from kvformat.codecs.registries import cache
from kvformat.codecs.registries.framing import distinct_ids
from kvformat.codecs.registries.registry import AVRO
from kvformat.registry import Format, MissingExtraError, OptionError, SchemaError, SchemaRegistryError, get_format
from kvformat.registry.contract import fork_safe
from kvformat.registry.contract.schema_registries import RegistrySchema
from kvformat.registry.contract.schemas import resolve_schema
from tests.support import services
from tests.support.confluent import registry_client
from tests.support.registry_server import Registry, RegistryServer

_SCHEMA = "a BIGINT, b STRING"
_ACME = {"type": "record", "name": "Rec", "namespace": "com.acme", "fields": []}


_WRITERS = {
    1: [{"name": "a", "type": ["null", "long"]}, {"name": "b", "type": ["null", "string"]}],
    7: [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}],
    300: [{"name": "b", "type": "string"}, {"name": "more", "type": "double"}, {"name": "a", "type": "long"}],
    -2: [{"name": "a", "type": "int"}],
}
"""Four writers: the table's schema, narrower types, another order with more columns, a missing column."""
pytestmark = pytest.mark.schemas(
    {number: json.dumps(_ACME | {"fields": fields}) for number, fields in _WRITERS.items()}
)


def _format(registry: Registry | str, **options: str) -> Format:
    url = registry if isinstance(registry, str) else registry.url
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return get_format("avro-confluent", {"url": url, "registry-backoff": "1 ms", **named})


def _framed(schema_id: int, datum: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big", signed=True) + datum


def _decoded(fmt: Format, *messages: bytes | None, schema: str = _SCHEMA) -> list[Any]:
    batch = fmt.decode_batch(pa.array(messages, pa.binary()), schema)
    errors = [None] * len(messages) if batch.errors is None else batch.errors.to_pylist()
    return [
        error or (row and tuple(row[0].values())) for row, error in zip(batch.rows.to_pylist(), errors, strict=True)
    ]


def _encoded(fmt: Format, *rows: tuple[Any, ...] | None) -> tuple[list[bytes | None], list[str | None]]:
    values = [row and dict(zip(("a", "b"), row, strict=True)) for row in rows]
    batch = fmt.encode_batch(pa.array(values, pa.struct([("a", pa.int64()), ("b", pa.string())])), _SCHEMA)
    return batch.messages.to_pylist(), [None] * len(rows) if batch.errors is None else batch.errors.to_pylist()


# --- framing -------------------------------------------------------------------------------------------


def test_messages_of_several_writers_keep_their_order(registry: Registry) -> None:
    messages = [
        _framed(300, b"\x02x" + bytes(8) + b"\x0c"),
        _framed(1, b"\x02\x02\x02\x02y"),
        None,
        _framed(-2, b"\x0e"),
        _framed(7, b"\x0a\x02z"),
        _framed(5, b"\x0a"),
        _framed(300, b"\x02w" + bytes(8) + b"\x0d"),
        b"\0\0\0",
        _framed(7, b"\x0a"),
    ]
    found = _decoded(_format(registry), *messages)
    assert found[:5] == [(6, "x"), (1, "y"), None, (7, None), (5, "z")]
    assert found[5].startswith(f"Could not find schema with id 5 in the schema registry at {registry.url}")
    assert found[6] == (-7, "w")
    assert found[7] == (
        "the message has 3 bytes, fewer than the 5 of 00 and a schema id, or the 17 of 01 and a schema's GUID"
    )
    assert "field" in found[8]  # truncated
    assert len(registry.requests) == 5  # one per id


def test_the_error_explains_ids_in_headers(registry: Registry) -> None:
    short, magic = _decoded(_format(registry), b"\x01" + bytes(15), b"\x0a\x02z")
    assert short.startswith("the message has 16 bytes")
    assert magic.startswith("Unknown data format. Magic number does not match: 0a, not 00")
    assert "'__value_schema_id' or '__key_schema_id'" in magic
    assert registry.requests == []


def test_the_registry_may_return_an_invalid_schema(registry: Registry) -> None:
    registry.ids |= {10: "no schema", 11: '{"type":"record"}'}
    first, second, good = _decoded(_format(registry), _framed(10, b""), _framed(11, b""), _framed(-2, b"\x02"))
    assert "the schema with id 10" in first
    assert "the schema with id 11" in second
    assert good == (1, None)


# --- requests ------------------------------------------------------------------------------------------


def test_ids_are_requested_once(registry: Registry) -> None:
    for _ in range(2):
        _decoded(_format(registry), _framed(7, b"\x0a\x02z"))
        _decoded(pickle.loads(pickle.dumps(_format(registry))), _framed(7, b"\x0a\x02z"))
    assert registry.requests == ["GET /schemas/ids/7"]
    fork_safe.renew_all()  # a child does not share its parent's connections
    _decoded(_format(registry), _framed(7, b"\x0a\x02z"))
    assert registry.requests == ["GET /schemas/ids/7"] * 2


def test_a_newly_registered_id_is_known_at_once(tmp_path: Path) -> None:
    fmt = get_format("avro-confluent", {"url": f"file:{tmp_path}", "subject": "s"})
    early = fmt.decode_batch(pa.array([b"\0\0\0\0\1\2\x0e"]), "i INT")
    assert "schema with id 1" in early.errors[0].as_py()
    messages = fmt.encode_batch(pa.array([{"i": 7}], pa.struct([("i", pa.int32())])), "i INT").messages
    assert messages[0].as_py()[:5] == b"\0\0\0\0\1"
    assert fmt.decode_batch(messages, "i INT").rows.to_pylist() == [[{"i": 7}]]


def test_an_unknown_id_is_requested_with_increasing_waits(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(cache, "time", types.SimpleNamespace(monotonic=lambda: now))
    schema, when = registry.ids.pop(300), []
    for now in map(float, range(4 * 3600)):
        before = len(registry.requests)
        first, second = _decoded(_format(registry), _framed(300, b""), _framed(7, b"\x0a\x02z"))
        assert "schema with id 300" in first
        assert second == (5, "z")
        if registry.requests[before:] == ["GET /schemas/ids/300"]:
            when.append(now)
        if len(when) == 12:
            break
    assert when == [2.0, 6.0, 14.0, 30.0, 62.0, 126.0, 254.0, 510.0, 1022.0, 1622.0, 2222.0, 2822.0]
    registry.ids[300] = schema
    now += 600
    assert _decoded(_format(registry), _framed(300, b"\x02w" + bytes(8) + b"\x0d")) == [(-7, "w")]


def test_new_ids_beside_known_ids_do_not_change_the_schemas_of_messages(registry: Registry) -> None:
    """Ids are requested in the order of their frequency, but the answers of known ids come first."""
    narrow, wide = _framed(7, b"\x0a\x02z"), _framed(300, b"\x02w" + bytes(8) + b"\x0d")
    missing, unknown = _framed(-2, b"\x04"), _framed(5000, b"")
    assert _decoded(_format(registry), narrow, missing) == [(5, "z"), (2, None)]
    *rows, error = _decoded(_format(registry), wide, narrow, wide, missing, unknown, wide, unknown)
    assert rows[:4] + rows[5:] == [(-7, "w"), (5, "z"), (-7, "w"), (2, None), (-7, "w")]
    assert "schema with id 5000" in rows[4]
    assert "schema with id 5000" in error


def test_any_number_of_known_ids_is_read(registry: Registry) -> None:
    good = range(1000, 1000 + 3 * cache._MOST_UNKNOWN)
    registry.ids |= dict.fromkeys(good, registry.ids[-2])
    messages = [_framed(schema_id, b"\x02") for schema_id in good]
    assert _decoded(_format(registry), *messages) == [(1, None)] * len(messages)
    assert sorted(registry.requests) == sorted(f"GET /schemas/ids/{schema_id}" for schema_id in good)


def test_many_unknown_ids_cause_few_requests(registry: Registry) -> None:
    foreign = [_framed(schema_id, b"\x02") for schema_id in range(5000, 5500)]
    good = [_framed(7, b"\x0a\x02z"), _framed(-2, b"\x02")] * 2
    fmt = _format(registry)
    found = _decoded(fmt, *foreign[:250], *good, *foreign[250:])
    assert found[250:254] == [(5, "z"), (1, None)] * 2  # the ids of most messages are requested first
    errors = found[:250] + found[254:]
    assert all(error.startswith("Could not find schema with id") for error in errors)
    left = [error for error in errors if "it was not requested" in error]
    most = cache._MOST_UNKNOWN + cache._AT_ONCE
    assert cache._MOST_UNKNOWN <= len(errors) - len(left) < most
    assert all("The message may be valid: read it again" in error for error in left)
    assert len(registry.requests) == len(errors) - len(left) + 2
    again = _decoded(fmt, *foreign)  # requests the ids that were not requested; the others are cached
    assert [error for error, before in zip(again, errors, strict=True) if before not in left] == [
        before for before in errors if before not in left
    ]
    assert len(set(registry.requests)) == len(registry.requests) < 2 * most + 2


def test_ids_are_requested_in_parallel(registry: Registry) -> None:
    registry.ids |= dict.fromkeys(range(20, 28), registry.ids[-2])
    registry.together = threading.Barrier(8)  # every answer waits for seven other requests
    messages = [_framed(schema_id, b"\x02") for schema_id in range(20, 28)]
    assert _decoded(_format(registry), *messages) == [(1, None)] * 8


def test_a_registry_that_is_too_slow_for_a_batch(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.ids |= dict.fromkeys(range(20, 60), registry.ids[-2])
    clock = itertools.count(step=0.4)
    monkeypatch.setattr(cache, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    messages = [_framed(schema_id, b"\x02") for schema_id in range(20, 60)]
    fmt = _format(registry, registry_timeout="1 s")
    with pytest.raises(SchemaRegistryError, match=r"of 40 schema ids of a batch.*registry-timeout"):
        _decoded(fmt, *messages)
    assert 0 < len(registry.requests) < 40
    while len(registry.requests) < 40:  # the next attempt continues where the last one stopped
        with contextlib.suppress(SchemaRegistryError):
            _decoded(fmt, *messages)
    assert _decoded(fmt, *messages) == [(1, None)] * 40


def test_an_empty_batch_sends_no_request(registry: Registry) -> None:
    assert _decoded(_format(registry), None) == [None]
    assert _encoded(_format(registry, subject="s"), None) == ([None], [None])
    assert registry.requests == []


def test_writing_registers_once(registry: Registry) -> None:
    for _ in range(2):
        messages, errors = _encoded(_format(registry, subject="a/b c"), (1, "y"), None, (None, None))
        assert messages == [_framed(1, b"\x02\x02\x02\x02y"), None, _framed(1, b"\0\0")] or registry.ids
        assert errors == [None] * 3
    assert registry.requests == ["POST /subjects/a/b c/versions"]
    ((subject, schema_id, schema),) = registry.registered
    assert (subject, schema["namespace"]) == ("a/b c", "org.apache.flink.avro.generated")
    assert messages[0] == _framed(schema_id, b"\x02\x02\x02\x02y")
    assert _decoded(_format(registry), messages[0]) == [(1, "y")]


def test_a_refused_schema_is_an_error_of_its_rows(registry: Registry) -> None:
    registry.refused = ("s",)
    messages, errors = _encoded(_format(registry, subject="s"), (1, "y"), None)
    assert messages == [None, None]
    assert errors[0] is not None
    assert "incompatible with an earlier schema" in errors[0]
    assert errors[1] is None
    with pytest.raises(SchemaError, match="incompatible with an earlier schema"):
        _format(registry, subject="s").for_encoding(pa.schema([("a", pa.int64()), ("b", pa.string())]))


def test_without_auto_register_the_schema_must_be_registered(registry: Registry) -> None:
    fmt = _format(registry, subject="s", auto_register_schemas="false")
    _, errors = _encoded(fmt, (1, "y"))
    assert errors[0] is not None
    assert "the schema is not registered for subject 's'" in errors[0]
    assert registry.registered == []
    registered, _ = _encoded(_format(registry, subject="s"), (1, "y"))
    assert _encoded(fmt, (1, "y")) == (registered, [None])


def test_the_latest_version(registry: Registry) -> None:
    fmt = _format(registry, subject="s", use_latest_version="true")
    _, errors = _encoded(fmt, (1, "y"))
    assert errors[0] is not None
    assert "subject 's' has no latest schema" in errors[0]
    registry.subjects["s"] = [1]
    assert _encoded(fmt, (1, "y")) == ([_framed(1, b"\x02\x02\x02\x02y")], [None])
    registry.subjects["t"] = [7]
    with pytest.raises(SchemaError, match=r"id 7: column 'a' is BIGINT, which does not fit int. Declare it as INT"):
        _encoded(_format(registry, subject="t", use_latest_version="true"), (1, "y"))


def test_the_option_schema_id_needs_no_registry() -> None:
    fmt = _format("http://127.0.0.1:1", subject="s", schema_id="258")
    assert _encoded(fmt, (1, "y")) == ([b"\0\0\0\1\2\x02\x02\x02\x02y"], [None])


def test_for_encoding_requests_the_id(registry: Registry) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    fmt = _format(registry, subject="s").for_encoding(schema)
    assert len(registry.requests) == 1
    registry.failing = 10**6
    assert _encoded(pickle.loads(pickle.dumps(fmt)), (1, "y"))[1] == [None]
    late = _format(registry, subject="s", register_in_executors="true")
    assert late.for_encoding(schema) is late


@pytest.mark.parametrize("latest", ["false", "true"])
def test_a_derived_schema_is_always_accepted_for_its_table(registry: Registry, latest: str) -> None:
    # Avro has fewer types than Flink: these come back as TIME(3), TIMESTAMP(3), STRING, BYTES and INT
    table = "t TIME, u TIMESTAMP(0), c CHAR(1), b BINARY(1), i TINYINT"
    schema = resolve_schema(table)
    _format(registry, subject="s").for_encoding(schema)
    fmt = _format(registry, subject="s", use_latest_version=latest).for_encoding(schema)
    registry.failing = 10**6
    row = {"t": dt.time(0, 0, 1), "u": dt.datetime(1970, 1, 1, 0, 0, 1), "c": "x", "b": b"y", "i": 3}
    batch = fmt.encode_batch(pa.array([row], pa.struct(list(schema))), schema)
    assert batch.errors is None
    datum = b"\x02\xd0\x0f\x02\xd0\x0f\x02\x02x\x02\x02y\x02\x06"
    assert batch.messages.to_pylist() == [_framed(registry.registered[0][1], datum)]


def test_the_latest_version_of_a_job_may_have_another_text(registry: Registry) -> None:
    registry.subjects["s"] = [1]
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    fmt = _format(registry, subject="s", use_latest_version="true").for_encoding(schema)
    assert json.loads(fmt.options["schema"]) == json.loads(registry.ids[1])
    assert _encoded(pickle.loads(pickle.dumps(fmt)), (1, "y")) == ([_framed(1, b"\x02\x02\x02\x02y")], [None])


# --- the option `schema` -------------------------------------------------------------------------------


def test_the_option_schema(registry: Registry) -> None:
    fields = [{"name": "a", "type": ["long", "null"]}, {"name": "b", "type": ["null", "string"], "default": None}]
    given = json.dumps(_ACME | {"fields": fields})
    fmt = _format(registry, subject="s", schema=given)
    messages, errors = _encoded(fmt, (1, None), (None, "x"))
    assert errors == [None, None]
    assert [message and message[5:] for message in messages] == [b"\x00\x02\x00", b"\x02\x02\x02x"]
    assert registry.registered[0][2] == json.loads(given)
    assert _decoded(fmt, *messages) == [(1, None), (None, "x")]
    for wrong, reason in (
        ("{", "Could not parse Avro schema string"),
        (given + " x", "Could not parse Avro schema string"),
        (json.dumps(_ACME | {"fields": fields[::-1]}), "does not match the table schema"),
        (json.dumps(_ACME | {"fields": [fields[0]]}), "does not match the table schema"),
        (json.dumps(_ACME | {"fields": [{"name": "a", "type": "int", "default": "x"}]}), "Invalid default for field a"),
    ):
        with pytest.raises(SchemaError, match=reason):
            _decoded(_format(registry, schema=wrong))


def test_schemas_with_references(registry: Registry) -> None:
    order: dict[str, Any] = {"type": "record", "name": "Order", "namespace": "shop", "fields": []}
    order["fields"] = [{"name": "to", "type": "geo.Place"}, {"name": "from", "type": ["null", "geo.Place"]}]
    place = {"type": "record", "name": "Place", "namespace": "geo", "fields": [{"name": "x", "type": "int"}]}
    registry.ids |= {40: json.dumps(order), 41: json.dumps(place)}
    registry.subjects["place"] = [41]
    registry.references[40] = [{"name": "geo.Place", "subject": "place", "version": 1}]
    found = _decoded(_format(registry), _framed(40, b"\x02\x02\x04"), schema="`to` ROW<x INT>, `from` ROW<x BIGINT>")
    assert found == [({"x": 1}, {"x": 2})]


def test_a_schema_that_two_others_refer_to_does_not_hide_the_next_one(registry: Registry) -> None:
    def record(name: str, *types: str) -> str:
        fields = [{"name": t.lower(), "type": t} for t in types] or [{"name": "x", "type": "int"}]
        return json.dumps({"type": "record", "name": name, "fields": fields})

    for number, (name, used) in enumerate({"O": "BC", "B": "DE", "C": "DF", "D": "", "E": "", "F": ""}.items(), 50):
        registry.ids[number], registry.subjects[name] = record(name, *used), [number]
        registry.references[number] = [{"name": t, "subject": t, "version": 1} for t in used]
    schema = "b ROW<d ROW<x INT>, e ROW<x INT>>, c ROW<d ROW<x INT>, f ROW<x INT>>"
    (found,) = _decoded(_format(registry), _framed(50, b"\x02\x04\x06\x08"), schema=schema)
    assert found == ({"d": {"x": 1}, "e": {"x": 2}}, {"d": {"x": 3}, "f": {"x": 4}})


def test_types_within_schemas_that_are_referred_to() -> None:
    place = {"type": "record", "name": "Place", "namespace": "geo", "fields": []}
    place["fields"] = [{"name": "land", "type": {"type": "enum", "name": "Land", "symbols": ["DE", "FR"]}}]
    code = {"type": "fixed", "name": "Code", "size": 1}
    order: dict[str, Any] = {"type": "record", "name": "Order", "namespace": "shop", "fields": []}
    types = ("geo.Land", "geo.Place", "geo.Land", ["null", "geo.Place"], "Code", {"type": "array", "items": "Code"})
    order["fields"] = [{"name": f"c{at}", "type": t} for at, t in enumerate(types)]
    for names in (("geo.Place", "Code"), ("place.avsc", "code.avsc")):  # names of references are free
        references = tuple(zip(names, map(json.dumps, (place, code)), strict=True))
        found = parse_complete(RegistrySchema(AVRO, json.dumps(order), references))
        assert [f.schema.full_name for f in found.fields[:3]] == ["geo.Land", "geo.Place", "geo.Land"]
        assert found.fields[4].schema.full_name == "Code"  # which has no namespace


@pytest.mark.parametrize("field", [{"name": "a"}, 7, None, ["a"]])
def test_an_invalid_schema_with_references_is_an_error_of_its_messages(field: Any, registry: Registry) -> None:
    place = {"type": "record", "name": "geo.Place", "fields": [{"name": "x", "type": "int"}]}
    registry.ids |= {40: json.dumps({**place, "name": "Order", "fields": [field]}), 41: json.dumps(place)}
    registry.ids[42] = json.dumps({**place, "fields": [{"name": "x", "type": "int"}, field]})
    registry.subjects |= {"place": [41], "bad": [42]}
    registry.references[40] = [{"name": "geo.Place", "subject": "place", "version": 1}]
    registry.ids[43] = json.dumps({**place, "name": "Order", "fields": [{"name": "p", "type": "geo.Place"}]})
    registry.references[43] = [{"name": "geo.Place", "subject": "bad", "version": 1}]
    for number in (40, 43):
        good, error = _decoded(_format(registry), _framed(41, b"\2"), _framed(number, b"\2"), schema="x INT")
        assert good == (1,)
        assert f"the schema with id {number} in the schema registry" in error
        assert "can't be read: not an Avro schema" in error


# --- options -------------------------------------------------------------------------------------------

_SECRETS = {
    "basic-auth.user-info": "alice:sesame-open",
    "ssl.keystore.password": "sesame-key",
    "ssl.truststore.password": "sesame-trust",
    "properties.basic.auth.user.info": "bob:sesame-other",
    "properties": "schema.registry.ssl.key.password:sesame-map",
}


def test_required_options_and_their_fallbacks() -> None:
    with pytest.raises(OptionError, match="needs the option 'url'"):
        get_format("avro-confluent", {"subject": "s"})
    with pytest.raises(OptionError, match=r"avro-confluent\.subject is required for serialization"):
        _encoded(_format("mock://none"), None)
    for unknown in ("Url", "schema-registry.properties", "ignore-parse-errors", "encoding", "timestamp_mapping.legacy"):
        with pytest.raises(OptionError, match="has no option"):
            get_format("avro-confluent", {"url": "mock://none", unknown: "true"})
    with pytest.raises(OptionError, match="key:value"):
        get_format("avro-confluent", {"url": "mock://none", "properties": "nonsense"})
    given = {
        "schema-registry.url": "mock://other",
        "schema-registry.subject": "fallback",
        "subject": "explicit",
        "properties": "a:b,c:d",
        "properties.c": "e",
    }
    fmt = get_format("avro-confluent", given)
    assert fmt.options["url"] == "mock://other"
    assert fmt.options["subject"] == "explicit"
    assert fmt.options["properties"] == {"a": "b", "c": "e"}


def test_two_methods_of_authentication_are_refused(registry: Registry) -> None:
    both = {"basic-auth.credentials-source": "USER_INFO", "bearer-auth.credentials-source": "STATIC_TOKEN"}
    fmt = get_format("avro-confluent", {"url": registry.url, "subject": "s", **both})
    assert _encoded(fmt, None) == ([None], [None])  # an error at the first row, as in Flink
    for call in (lambda: _decoded(fmt), lambda: _encoded(fmt, (1, "y"))):
        with pytest.raises(OptionError, match="Only one of"):
            call()


@pytest.mark.parametrize(("options", "header"), [
    ({"basic-auth.credentials-source": "USER_INFO", "basic-auth.user-info": "alice:pa:ss"}, "Basic YWxpY2U6cGE6c3M="),
    ({"basic-auth.user-info": "alice:pa:ss"}, "Basic YWxpY2U6cGE6c3M="),
    ({"properties.basic.auth.user.info": "bob:x", "basic-auth.user-info": "alice:pa:ss"}, "Basic YWxpY2U6cGE6c3M="),
    ({"url": "alice:pa%3Ass"}, "Basic YWxpY2U6cGE6c3M="),
    ({"url": "alice:pa%3Ass", "basic-auth.user-info": "bob:x"}, "Basic YWxpY2U6cGE6c3M="),
    (
        {"url": "bob:x", "basic-auth.credentials-source": "USER_INFO", "basic-auth.user-info": "alice:pa:ss"},
        "Basic YWxpY2U6cGE6c3M=",
    ),
    (
        {"url": "alice:pa%3Ass", "basic-auth.credentials-source": "URL", "basic-auth.user-info": "bob:x"},
        "Basic YWxpY2U6cGE6c3M=",
    ),
    ({"bearer-auth.credentials-source": "STATIC_TOKEN", "bearer-auth.token": "abc.def"}, "Bearer abc.def"),
    ({"basic-auth.credentials-source": "NOPE", "basic-auth.user-info": "alice:pa:ss"}, None),
    ({}, None),
])  # fmt: skip
def test_authentication(registry: Registry, options: dict[str, str], header: str | None) -> None:
    url = registry.url
    if "url" in options:
        url = url.replace("://", f"://{options['url']}@")
    fmt = get_format("avro-confluent", {**options, "url": url})
    assert _decoded(fmt, _framed(-2, b"\x02")) == [(1, None)]
    assert registry.authorization == [header]


def test_secrets_are_masked(server: RegistryServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with server.serving(Registry(credentials="nobody:else")) as registry:
        url = registry.url.replace("://", "://carol:sesame-url@")
        texts = []
        for options in (
            {"url": url, "subject": "s", **_SECRETS},
            {"url": url},
            {"url": url, "bearer-auth.token": "sesame-t"},
        ):
            fmt = get_format("avro-confluent", options)
            texts += [repr(fmt), repr(fmt.settings)]  # type: ignore[attr-defined]
            with pytest.raises(SchemaRegistryError) as caught:
                _decoded(fmt, _framed(3, b""))
            texts += [str(caught.value), repr(caught.value.__cause__), repr(vars(caught.value))]
        for wrong in ({**_SECRETS, "no-such": "1"}, {**_SECRETS, "properties": "sesame-broken"}):
            with pytest.raises(OptionError) as refused:
                get_format("avro-confluent", {"url": url, **wrong})
            texts.append(str(refused.value))
        get_format("avro-confluent", {"url": url, "ssl.keystore.location": "/none", **_SECRETS})
        found = "\n".join([*texts, caplog.text])
    assert "sesame" not in found
    assert "127.0.0.1" in found


def test_key_stores_must_be_pem(tmp_path: Path) -> None:
    store = tmp_path / "store.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed")
    fmt = get_format("avro-confluent", {"url": "https://127.0.0.1:1", "ssl.truststore.location": str(store)})
    with pytest.raises(OptionError, match=r"ssl\.truststore\.location.*not a PEM file.*keytool"):
        _decoded(fmt, _framed(3, b""))


def test_a_missing_client_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['confluent_kafka'] = None\n"
        "import pyarrow as pa\n"
        "from kvformat.registry import get_format, MissingExtraError\n"
        "fmt = get_format('avro-confluent', {'url': 'http://127.0.0.1:1'})\n"
        "fmt.decode_batch(pa.array([], pa.binary()), 'a INT')\n"
        "try: fmt.decode_batch(pa.array([bytes(5)], pa.binary()), 'a INT')\n"
        "except MissingExtraError as error: assert 'kvformat[confluent]' in str(error)\n"
        "else: raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert issubclass(MissingExtraError, ImportError)


# --- failures of a registry ----------------------------------------------------------------------------


def test_a_registry_that_is_down_is_not_bad_data(registry: Registry) -> None:
    fmt = _format(registry, registry_retries="2")
    assert _decoded(fmt, _framed(7, b"\x0a\x02z")) == [(5, "z")]
    registry.failing = 10**6
    assert _decoded(fmt, _framed(7, b"\x0a\x02z")) == [(5, "z")]  # known ids need no registry
    before = len(registry.requests)
    with pytest.raises(SchemaRegistryError, match=r"schema id 300.*500") as caught:
        _decoded(fmt, _framed(7, b"\x0a\x02z"), _framed(300, b""))
    assert (caught.value.schema_id, caught.value.url) == (300, registry.url)
    assert len(registry.requests) == before + 3
    registry.failing = 2
    assert _decoded(fmt, _framed(300, b"\x02w" + bytes(8) + b"\x0d")) == [(-7, "w")]  # the third attempt succeeds
    with pytest.raises(SchemaRegistryError, match="ConnectError"):
        _decoded(_format("http://127.0.0.1:1", registry_retries="1"), _framed(1, b""))


@pytest.mark.parametrize(("status", "body"), [
    (200, b"<html>log in</html>"), (200, b"[]"), (200, b"{}"), (200, b'{"schema": 5}'), (404, b"<html>"), (401, b"{}"),
    (404, b'{"error_code":404,"message":"HTTP 404 Not Found"}'), (302, b""),
])  # fmt: skip
def test_an_invalid_answer_is_not_bad_data_and_not_retried(registry: Registry, status: int, body: bytes) -> None:
    registry.failing, registry.status, registry.body = 10**6, status, body
    with pytest.raises(SchemaRegistryError, match="schema id 7"):
        _decoded(_format(registry), _framed(7, b"\x0a\x02z"))
    assert len(registry.requests) == 1
    with pytest.raises(SchemaRegistryError, match="registering a schema under subject 's'") as caught:
        _encoded(_format(registry, subject="s"), (1, "y"))
    assert caught.value.subject == "s"


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_failure_that_may_pass_is_requested_again(registry: Registry, status: int) -> None:
    registry.failing, registry.status = 2, status
    assert _decoded(_format(registry), _framed(7, b"\x0a\x02z")) == [(5, "z")]
    assert len(registry.requests) == 3


@pytest.mark.parametrize(
    ("status", "code", "refused"),
    [
        (409, 409, True),
        (422, 42201, True),
        (404, 40400, True),
        (404, 40499, True),
        (404, 40399, False),
        (404, 40500, False),
        (400, 40403, False),
        (403, 40301, False),
        (501, 50101, False),
    ],
)
def test_an_error_about_a_schema_is_an_error_of_its_messages(
    registry: Registry, status: int, code: int, refused: bool
) -> None:
    registry.failing, registry.status = 1, status
    registry.body = json.dumps({"error_code": code, "message": "not this one"}).encode()
    if refused:
        (error,) = _decoded(_format(registry), _framed(7, b"\x0a\x02z"))
        assert "Could not find schema with id 7" in error
        assert "not this one" in error
    else:
        with pytest.raises(SchemaRegistryError, match="not this one"):
            _decoded(_format(registry), _framed(7, b"\x0a\x02z"))
    assert len(registry.requests) == 1


def test_a_slow_registry_does_not_hang_a_task(registry: Registry) -> None:
    registry.delay = 30
    with pytest.raises(SchemaRegistryError, match="registry-timeout") as caught:
        _decoded(_format(registry, registry_timeout="200 ms"), _framed(7, b""))
    assert isinstance(caught.value.__cause__, TimeoutError)


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("kvformat")]


def _all_end(seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while _threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not _threads()


@pytest.mark.parametrize("chunked", [False, True])
def test_a_huge_answer_is_aborted(registry: Registry, chunked: bool) -> None:
    registry.endless = itertools.repeat(b"x" * 65536, 480)  # 30 MB
    registry.chunked = chunked
    with pytest.raises(SchemaRegistryError, match=r"the answer has more than 8388608 bytes"):
        _decoded(_format(registry), _framed(7, b""))
    assert len(registry.requests) == 1
    assert len(list(registry.endless)) > 240  # the rest was not sent


def test_an_endless_answer_ends(registry: Registry) -> None:
    registry.endless, registry.chunked = (time.sleep(0.02) or b" " for _ in itertools.count()), True
    with pytest.raises(SchemaRegistryError, match="registry-timeout"):
        _decoded(_format(registry, registry_timeout="200 ms", registry_retries="0"), _framed(7, b""))
    assert _all_end()  # the thread that reads the answer ends too


def test_a_compressed_answer_is_not_decompressed(registry: Registry) -> None:
    registry.failing, registry.status, registry.body = 1, 200, gzip.compress(bytes(1 << 20))
    registry.headers = {"Content-Encoding": "gzip"}
    with pytest.raises(SchemaRegistryError, match="the answer is compressed"):
        _decoded(_format(registry), _framed(7, b""))


def test_a_page_as_an_answer_is_shortened_in_the_error(registry: Registry) -> None:
    registry.failing, registry.status, registry.body = 10**6, 401, b"<p>" * 100_000
    with pytest.raises(SchemaRegistryError, match="401") as caught:
        _decoded(_format(registry), _framed(7, b""))
    assert len(str(caught.value)) < 2000


def test_endless_references(registry: Registry) -> None:
    registry.ids[40] = json.dumps(_ACME)
    registry.references[40] = [{"name": "next0", "subject": "endless", "version": 1}]
    registry.next_reference = True
    with pytest.raises(SchemaRegistryError, match="refers to more than 1000 others"):
        _decoded(_format(registry), _framed(40, b""))
    assert _all_end()


def test_the_next_url_is_tried(registry: Registry) -> None:
    assert _decoded(_format(f"http://127.0.0.1:1, {registry.url}/"), _framed(-2, b"\x02")) == [(1, None)]


def test_an_empty_url() -> None:
    with pytest.raises(SchemaRegistryError, match="'url' is empty"):
        _decoded(_format(""), _framed(-2, b"\x02"))
    with pytest.raises(OptionError, match="no schema registry has URLs of the scheme 'ftp'"):
        _decoded(_format("ftp://x"), _framed(-2, b"\x02"))


# --- without a server ----------------------------------------------------------------------------------


def test_a_registry_in_memory() -> None:
    messages, _ = _encoded(_format("mock://here", subject="s"), (1, "y"))
    assert _decoded(_format("mock://here"), *messages) == [(1, "y")]
    (elsewhere,) = _decoded(_format("mock://there"), *messages)
    assert "Could not find schema with id 1" in elsewhere


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text(json.dumps(_ACME | {"fields": _WRITERS[7]}))
    fmt = _format(f"file:{tmp_path}", subject="s")
    messages, errors = _encoded(fmt, (1, "y"), (2, None))
    assert errors == [None, None]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["7.avsc", "8.avsc"]
    found = _decoded(fmt, *messages, _framed(7, b"\x0a\x02z"), _framed(9, b""))
    assert found[:3] == [(1, "y"), (2, None), (5, "z")]
    assert "there is no file 9.avsc" in found[3]
    assert _encoded(_format(f"file://{tmp_path}", subject="t"), (1, "y"))[0] == messages[:1]
    with pytest.raises(SchemaRegistryError, match="no folder"):
        _decoded(_format(f"file:{tmp_path}/none"), _framed(7, b""))


# --- Confluent's serializers ------------------------------------------------------------------------------------


def test_confluents_serializers(registry: Registry) -> None:
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    client = registry_client(registry.url)
    context = SerializationContext("orders", MessageField.VALUE)
    text = json.dumps(_ACME | {"fields": _WRITERS[300]})
    theirs = AvroSerializer(client, text)({"a": 5, "b": "é", "more": 0.5}, context)
    assert _decoded(_format(registry), theirs) == [(5, "é")]
    (ours,), _ = _encoded(_format(registry, subject="orders-value"), (5, "é"))
    assert AvroDeserializer(client)(ours, context) == {"a": 5, "b": "é"}


# --- a real registry ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def apicurio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[services.SchemaRegistry]:
    registry = services.SchemaRegistry(tmp_path_factory.mktemp("apicurio"), keeps=True, user="alice", password="sesame")
    registry.start()
    yield registry
    registry.kill()


@pytest.mark.services
@pytest.mark.slow
def test_a_real_registry(apicurio: services.SchemaRegistry) -> None:
    def fmt(**options: str) -> Format:
        auth = {"basic-auth.credentials-source": "USER_INFO", "basic-auth.user-info": "alice:sesame"}
        return get_format("avro-confluent", {"url": apicurio.url, "subject": "orders-value", **auth, **options})

    first, errors = _encoded(fmt(), (1, "y"))
    assert errors == [None]
    assert _decoded(fmt(), *first, _framed(4242, b""))[0] == (1, "y")
    assert "Could not find schema with id 4242" in _decoded(fmt(), _framed(4242, b""))[0]
    client = registry_client(apicurio.url, **{"basic.auth.user.info": "alice:sesame"})
    client._rest_client.put("config/orders-value", {"compatibility": "BACKWARD"})
    more = pa.array([{"a": 1, "b": "y", "c": 2}], pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.int32())]))
    evolved = fmt().encode_batch(more, "a BIGINT, b STRING, c INT")  # a new column with a default is compatible
    assert evolved.errors is None
    found = _decoded(fmt(), *first, *evolved.messages.to_pylist())
    assert found == [(1, "y"), (1, "y")]
    assert first[0] is not None
    assert first[0][:5] != evolved.messages[0].as_py()[:5]
    refused = fmt().encode_batch(more, "a BIGINT, b STRING, c INT NOT NULL")
    assert refused.errors is not None
    assert "refuses the schema for subject 'orders-value': " in refused.errors[0].as_py()
    assert "Incompatible artifact: orders-value" in refused.errors[0].as_py()  # the registry's own words
    assert "set 'use-latest-version' = 'true' to write by" in refused.errors[0].as_py()
    with pytest.raises(SchemaRegistryError, match="401"):
        _decoded(fmt(**{"basic-auth.user-info": "alice:wrong"}), *first)
    apicurio.kill()
    assert _decoded(fmt(), *first) == [(1, "y")]
    quick = {"registry-retries": "0"}
    with pytest.raises(SchemaRegistryError):
        _decoded(fmt(**quick), *first)  # another client with empty caches
    apicurio.start()
    assert _decoded(fmt(**quick), *first) == [(1, "y")]


def test_short_messages_are_refused_alone_and_in_batches(tmp_path: Path) -> None:
    fmt = _format(f"file:{tmp_path}")
    messages = [b"", b"\x03", b"\x01\x00", b"\x00\x00", b"\x00\x00\x00\x00\x09\x00"]
    together = fmt.decode_batch(pa.array(messages, pa.binary()), _SCHEMA).errors.to_pylist()
    alone = [fmt.decode_batch(pa.array([message], pa.binary()), _SCHEMA).errors[0].as_py() for message in messages]
    assert together == alone
    assert "03, not 00" in alone[1]
    assert "fewer than the 5" in alone[3]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_batch_may_have_only_bad_messages(tmp_path: Path, count: int) -> None:
    """Conversions of empty columns work too."""
    messages = pa.array([b"\x03"] * count, pa.binary())
    for schema in ("t TIMESTAMP(3)", "l ARRAY<TIMESTAMP(3)>", "m MAP<STRING, ARRAY<TIME(3)>>", "l ARRAY<TINYINT>"):
        batch = _format(f"file:{tmp_path}").decode_batch(messages, schema)
        batch.rows.validate(full=True)
        assert batch.rows.to_pylist() == [None] * count
        assert batch.errors.null_count == 0


@pytest.mark.parametrize(
    "ids",
    [
        [],
        [7, 7],
        [3, 9, 3, -1, 9, 3],
        [0, 2**16, 5],
        [2**31 - 1, 5, -(2**31), 5],
        [0, 1, 1, 1, 2, 2],
        [0, *[2**16] * 3, *[2**17] * 2],
    ],
)
def test_distinct_ids_begin_with_the_most_frequent_one(ids: list[int]) -> None:
    found, which = distinct_ids(np.array(ids, np.int32))
    assert found[which].tolist() == ids
    counts = [ids.count(schema_id) for schema_id in found.tolist()]
    assert counts == sorted(counts, reverse=True)
    assert sorted(found.tolist()) == sorted(set(ids))
