"""Requests to registries: attempts, waits, caches and secrets; without a server and without waiting."""

from __future__ import annotations

import itertools
import json
import types
from pathlib import Path
from typing import Any

import pytest

from kvformat.codecs.registries import cache, requests
from kvformat.codecs.registries.apicurio_client import Apicurio
from kvformat.codecs.registries.confluent_client import client_configuration
from kvformat.codecs.registries.registry import Folder, registry_error, shorten
from kvformat.codecs.registries.requests import Requests
from kvformat.registry import SchemaRegistryError, get_format
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema, RegistrySettings, SchemaRegistry

_SCHEMA = RegistrySchema("AVRO", '"long"')
_NUMBERS = itertools.count()


class _Scripted(SchemaRegistry):
    """Answers with the next of `answers`, or raises it. `known` are the secrets that it finds."""

    def __init__(self, *answers: Any, known: tuple[str, ...] = ()) -> None:
        self.answers, self.asked, self.known = [*answers], 0, known

    def secrets(self) -> tuple[str, ...]:
        return self.known

    def _next(self, *_: Any) -> Any:
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    schema = register = lookup = latest = version = _next


class _Clock:
    """A clock that only `sleep` moves."""

    def __init__(self) -> None:
        self.now, self.waits = 1000.0, list[float]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    clock = _Clock()
    monkeypatch.setattr(requests, "time", clock)
    monkeypatch.setattr(cache, "time", clock)
    monkeypatch.setattr(requests, "random", types.SimpleNamespace(uniform=lambda low, high: high))
    return clock


def _settings(**more: Any) -> RegistrySettings:
    """Settings that no other test has, because they are the keys of the caches."""
    return RegistrySettings(f"http://requests-{next(_NUMBERS)}", **more)


def _opened(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> _Scripted:
    registry = _Scripted(*answers)
    monkeypatch.setattr(cache, "open_registry", lambda settings: registry)
    return registry


# --- attempts and waits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_there_is_one_attempt_more_than_retries_and_each_request_has_its_own(retries: int, clock: _Clock) -> None:
    registry = _Scripted(*[OSError("down")] * retries, _SCHEMA, *[OSError("down")] * (retries + 1), _SCHEMA)
    asked = Requests(registry, _settings(retries=retries, backoff=0.01))
    assert asked.schema(1) == _SCHEMA
    assert registry.asked == retries + 1
    with pytest.raises(SchemaRegistryError):
        asked.schema(1)
    assert registry.asked == 2 * (retries + 1)
    assert asked.schema(1) == _SCHEMA


def test_each_wait_is_twice_as_long_up_to_twenty_seconds(clock: _Clock) -> None:
    registry = _Scripted(*[OSError("down")] * 8, _SCHEMA)
    assert Requests(registry, _settings(retries=8, backoff=0.5, timeout=1000.0)).schema(1) == _SCHEMA
    assert clock.waits == [0.5, 1, 2, 4, 8, 16, 20, 20]


@pytest.mark.parametrize(("timeout", "attempts"), [(3.5, 3), (3.0, 2), (1.5, 2), (0.5, 1), (0.4, 1)])
def test_no_attempt_begins_after_the_timeout(timeout: float, attempts: int, clock: _Clock) -> None:
    """The waits are 1 s and 2 s or half a second more; a wait that ends at the timeout is left out."""
    registry = _Scripted(*[OSError("down")] * 9)
    with pytest.raises(SchemaRegistryError):
        Requests(registry, _settings(retries=8, backoff=1.0, timeout=timeout)).schema(1)
    assert registry.asked == attempts


def test_all_attempts_have_the_timeout_together(clock: _Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[float] = []

    def took_two_seconds(seconds: float, call: Any) -> Any:
        left.append(seconds)
        clock.now += 2
        return call()

    monkeypatch.setattr(requests, "call_with_timeout", took_two_seconds)
    registry = _Scripted(*[OSError("down")] * 2, _SCHEMA)
    assert Requests(registry, _settings(backoff=1.0, timeout=10.0)).schema(1) == _SCHEMA
    assert left == [10, 7, 3]  # after waits of 1 s and 2 s


@pytest.mark.parametrize("error", [ValueError("x"), TypeError("x"), KeyError("x"), AttributeError("x")])
def test_an_invalid_answer_is_not_requested_again(error: Exception, clock: _Clock) -> None:
    registry = _Scripted(error, _SCHEMA)
    with pytest.raises(SchemaRegistryError):
        Requests(registry, _settings()).schema(1)
    assert (registry.asked, clock.waits) == (1, [])


def test_an_error_has_the_id_or_the_subject_of_its_request(clock: _Clock) -> None:
    asked = Requests(_Scripted(*[ValueError("x")] * 5), _settings())
    for call, what, schema_id, subject in (
        (lambda: asked.schema(7), "schema id 7", 7, None),
        (lambda: asked.register("s", _SCHEMA), "registering a schema under subject 's'", None, "s"),
        (lambda: asked.lookup("s", _SCHEMA), "the schema's id under subject 's'", None, "s"),
        (lambda: asked.latest("s"), "the latest schema of subject 's'", None, "s"),
        (lambda: asked.version("s", 3), "version 3 of the schema of subject 's'", None, "s"),
    ):
        with pytest.raises(SchemaRegistryError, match=what) as caught:
            call()  # type: ignore[no-untyped-call]
        assert (caught.value.schema_id, caught.value.subject) == (schema_id, subject)


@pytest.mark.parametrize(("given", "retries"), [("0", 0), ("-5", 0), ("1", 1), (None, 3)])
@pytest.mark.parametrize("format", ["avro-confluent", "avro-glue", "avro-apicurio", "json-registry"])
def test_an_option_sets_the_number_of_further_attempts(format: str, given: str | None, retries: int) -> None:
    options = {"url": "http://r"} | ({} if given is None else {"registry-retries": given})
    assert get_format(format, options).settings.retries == retries  # type: ignore[attr-defined]


def test_an_option_of_flink_has_priority_over_a_property_of_the_client() -> None:
    name = "basic.auth.user.info"
    given = {"url": "http://r", "basic-auth.user-info": "a:b", f"properties.{name}": "c:d", "properties": "x:y"}
    settings = get_format("avro-confluent", given).settings  # type: ignore[attr-defined]
    assert dict(settings.properties) == {name: "a:b", "x": "y"}


# --- caches ------------------------------------------------------------------------------------------------


def test_a_cache_drops_the_entry_that_was_not_used_for_the_longest_time() -> None:
    known: cache._Cache[int] = cache._Cache(2)
    known.put("a", 1)
    known.put("b", 2)
    assert known.get("a") == 1
    known.put("c", 3)
    assert [known.get(key) for key in "abc"] == [1, None, 3]
    assert (known.put("a", 5), known.get("a")) == (1, 1)
    assert (known.put("a", 5, replace=True), known.get("a")) == (5, 5)
    known.drop("a")
    known.drop("a")
    assert known.get("a") is None


def test_an_unknown_id_is_requested_again_after_2_s_4_s_and_so_on_up_to_10_minutes(
    clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, settings = _opened(monkeypatch, *[Refused("no")] * 12, _SCHEMA), _settings()
    for number, seconds in enumerate([2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600], start=1):
        assert cache.schemas_by_id(settings, [1]) == {1: Refused("no")}
        assert registry.asked == number
        clock.now += seconds - 0.001
        assert cache.schemas_by_id(settings, [1]) == {1: Refused("no")}
        assert registry.asked == number
        clock.now += 0.001
    assert cache.schemas_by_id(settings, [1]) == {1: _SCHEMA}
    clock.now += 10_000
    assert cache.schemas_by_id(settings, [1]) == {1: _SCHEMA}


def test_an_error_is_not_cached_and_other_registries_have_other_answers(
    clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, settings = _opened(monkeypatch, OSError("down"), _SCHEMA, Refused("no")), _settings()
    with pytest.raises(OSError, match="down"):
        cache.schemas_by_id(settings, [1])
    assert cache.schemas_by_id(settings, [1]) == {1: _SCHEMA}
    assert cache.schemas_by_id(_settings(), [1]) == {1: Refused("no")}
    assert cache.schemas_by_id(settings, [1]) == {1: _SCHEMA}
    assert registry.asked == 3


def test_a_refused_schema_is_requested_again_and_its_id_is_cached_by_subject(
    clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [RegistrySchema("AVRO", '"int"'), RegistrySchema("JSON", '"long"')]
    others.append(RegistrySchema("AVRO", '"long"', (("a", '"int"'),)))
    registry, settings = _opened(monkeypatch, Refused("no"), 7, 8, 9, 10, 11), _settings()

    def request(subject: str, schema: RegistrySchema) -> Any:
        return cache.id_of_schema(settings, subject, schema, register=True)

    assert request("s", _SCHEMA) == Refused("no")
    assert [request("s", _SCHEMA) for _ in range(2)] == [7, 7]
    assert [request("t", _SCHEMA), *(request("s", other) for other in others)] == [8, 9, 10, 11]
    assert request("s", _SCHEMA) == 7
    assert registry.asked == 6


def test_an_id_that_was_unknown_is_known_after_its_schema_is_registered(
    clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, settings = _opened(monkeypatch, Refused("no"), 7, _SCHEMA), _settings()
    assert cache.schemas_by_id(settings, [7]) == {7: Refused("no")}
    assert cache.id_of_schema(settings, "s", _SCHEMA, register=True) == 7
    assert cache.schemas_by_id(settings, [7]) == {7: _SCHEMA}
    assert registry.asked == 3


def test_the_latest_schema_is_cached_with_its_id_and_a_refusal_is_not(
    clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = RegistrySchema("AVRO", '"int"')
    registry, settings = _opened(monkeypatch, Refused("no"), (7, _SCHEMA), (8, later)), _settings()
    assert cache.latest_schema(settings, "s") == Refused("no")
    assert [cache.latest_schema(settings, "s") for _ in range(2)] == [(7, _SCHEMA)] * 2
    assert cache.latest_schema(settings, "t") == (8, later)
    assert cache.schemas_by_id(settings, [7, 8]) == {7: _SCHEMA, 8: later}
    assert registry.asked == 3


def test_the_latest_schema_has_its_own_id_when_it_is_requested_again(
    clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache of schemas may have dropped it, while its id is still known."""
    later = RegistrySchema("AVRO", '"int"')
    _opened(monkeypatch, (7, _SCHEMA), _SCHEMA, (8, later))
    monkeypatch.setattr(cache, "_schemas", cache._Cache[RegistrySchema](1))
    settings = _settings()
    assert cache.latest_schema(settings, "s") == (7, _SCHEMA)
    assert cache.schemas_by_id(settings, [1]) == {1: _SCHEMA}
    assert cache.latest_schema(settings, "s") == cache.latest_schema(settings, "s") == (8, later)


def test_a_version_that_is_inspected_is_requested_each_time_by_a_new_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client has a cache of its own. Only a registry in memory is gone with its client."""
    opened = list[str]()

    def opens(settings: RegistrySettings) -> SchemaRegistry:
        opened.append(settings.url)
        return _Scripted((7, _SCHEMA), (8, _SCHEMA))

    monkeypatch.setattr(cache, "open_registry", opens)
    settings, in_memory = _settings(), RegistrySettings(f"mock://requests-{next(_NUMBERS)}")
    assert [cache.subject_schema(settings, "s", version) for version in (None, 1)] == [(7, _SCHEMA)] * 2
    assert [cache.subject_schema(in_memory, "s", version) for version in (None, 1)] == [(7, _SCHEMA), (8, _SCHEMA)]
    assert opened == [settings.url, settings.url, in_memory.url]


@pytest.mark.parametrize(
    ("unknown", "known", "asked"),
    [
        (99, 21, 120),
        (100, 20, 104),
        (104, 16, 104),
        (104, 0, 104),
        (130, 0, 104),
        (0, 130, 130),
        (0, 9, 9),
        (1, 16, 17),
    ],
)
def test_after_a_hundred_unknown_ids_of_a_batch_no_more_are_requested(
    unknown: int, known: int, asked: int, clock: _Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight are requested at once. The others are refused, and are not cached."""
    answers = [*[Refused("no")] * unknown, *[_SCHEMA] * known]
    registry, settings = _opened(monkeypatch, *answers), _settings()
    ids = range(unknown + known)
    found = cache.schemas_by_id(settings, ids)
    assert registry.asked == asked
    assert sorted(found) == list(ids)  # type: ignore[type-var]
    rest = [answer for answer in found.values() if isinstance(answer, Refused) and "not requested" in answer.reason]
    assert len(rest) == len(ids) - asked


# --- texts and secrets -------------------------------------------------------------------------------------


def test_texts_of_more_than_a_thousand_characters_are_shortened() -> None:
    text = "".join(chr(0x4E00 + number) for number in range(1001))
    assert shorten(text[:1000]) == text[:1000]
    assert shorten(text) == f"{text[:500]} ... {text[-500:]}"


_NESTED = [("sesame", "sesame-open"), ("sesame", "open-sesame"), ("sesame", "open-sesame-now"), ("token", "token-1")]


@pytest.mark.parametrize("reverse", [False, True], ids=["short first", "long first"])
@pytest.mark.parametrize(("short", "long"), _NESTED)
def test_of_two_secrets_of_which_one_contains_the_other_no_part_shows(short: str, long: str, reverse: bool) -> None:
    values = [long, short] if reverse else [short, long]
    names = ("basic.auth.user.info", "schema.registry.ssl.keystore.password")
    settings = RegistrySettings("http://r", properties=tuple(zip(names, values, strict=True)))
    user = RegistrySettings(f"http://me:{values[0]}@r", properties=((names[1], values[1]),))
    for found in (settings.scrubbed, user.scrubbed, lambda text: RegistrySettings("http://r").scrubbed(text, values)):
        assert found(f"sent '{long}' and '{short}'; {short}{long}") == "sent '******' and '******'; ************"
    why = str(registry_error(settings, f"HTTP 401: '{long}' and '{short}'"))
    assert "'******' and '******'" in why
    text, masked = f"not '{long}', not '{short}'", "not '******', not '******'"
    half = RegistrySettings("http://r", properties=((names[0], values[0]),))
    for of, known in ((settings, ()), (half, (values[1],)), (RegistrySettings("http://r"), tuple(values))):
        registry = Requests(_Scripted(Refused(text), ValueError(text), known=known), of)
        assert registry.schema(1) == Refused(masked)
        with pytest.raises(SchemaRegistryError) as caught:
            registry.schema(1)
        assert f"ValueError: {masked}." in str(caught.value)
        assert caught.value.__cause__ is None


@pytest.mark.parametrize("place", [470, 490, 500])
def test_a_secret_is_masked_before_its_text_is_shortened(place: int) -> None:
    secret = "sesame-open-the-door-and-close-it"
    settings = RegistrySettings("http://r", properties=(("basic.auth.user.info", secret),))
    text = "x" * place + secret + "y" * 900
    refused = Requests(_Scripted(Refused(text)), settings).schema(1)
    assert isinstance(refused, Refused)
    for shown in (str(registry_error(settings, text)), refused.reason):
        assert "xxx" in shown
        assert not any(secret[at : at + 6] in shown for at in range(len(secret) - 5))


# --- folders -----------------------------------------------------------------------------------------------


def test_a_folder_gives_the_number_after_the_highest_one_and_finds_the_lowest(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert Folder(RegistrySettings(f"file:{tmp_path}/empty")).register("s", _SCHEMA) == 1
    for name, text in {"9.avsc": '"int"', "10.avsc": '"long"', "2.json": '"long"', "x.avsc": '"bytes"'}.items():
        (tmp_path / name).write_text(text)
    folder = Folder(RegistrySettings(f"file:{tmp_path}"))
    assert folder.register("s", RegistrySchema("AVRO", '"string"')) == 11
    assert folder.register("s", RegistrySchema("AVRO", ' "string"')) == 11
    assert folder.lookup("s", _SCHEMA) == 10
    assert folder.lookup("s", RegistrySchema("JSON", '"long"')) == 2
    assert isinstance(folder.lookup("s", RegistrySchema("AVRO", '"bytes"')), Refused)
    (tmp_path / "3.avsc").write_text(json.dumps("long"))
    assert folder.lookup("s", _SCHEMA) == 3


def test_the_client_gets_addresses_without_users_and_the_files_of_tls(tmp_path: Path) -> None:
    for name in ("trusted", "own"):
        (tmp_path / name).write_bytes(b"-----BEGIN CERTIFICATE-----")
    files = {"ssl.truststore.location": f"{tmp_path}/trusted", "ssl.keystore.location": f"{tmp_path}/own"}
    given = {"url": "https://me:pw@a/x, https://you:pw@b", "ssl.keystore.password": "sesame", **files}
    format: Any = get_format("avro-confluent", {**given, "properties": "proxy:p,ssl.key.location:k,other:o"})
    found = client_configuration(format.settings)
    assert found["url"] == "https://a/x,https://b"
    assert {name: value for name, value in found.items() if name.startswith(("ssl", "proxy", "other"))} == {
        "proxy": "p",
        "ssl.ca.location": f"{tmp_path}/trusted",
        "ssl.certificate.location": f"{tmp_path}/own",
        "ssl.key.location": "k",
        "ssl.key.password": "sesame",
    }


def test_a_slash_in_the_name_of_a_group_or_an_artifact_is_no_part_of_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def text(_: Apicurio, path: str, *more: Any) -> str:
        asked.append(path)
        raise ConnectionError

    monkeypatch.setattr(Apicurio, "_text", text)
    format: Any = get_format("avro-apicurio", {"url": "http://r", "group-id": "g/h"})
    with pytest.raises(ConnectionError):
        Apicurio(format.settings).latest("a/b")
    assert asked == ["/groups/g%2Fh/artifacts/a%2Fb/versions/branch=latest"]
