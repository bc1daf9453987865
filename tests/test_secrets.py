"""Secrets in options never appear in texts of objects, logs, errors or rows."""

from __future__ import annotations

import base64
import copy
import json
import logging
import pickle
import pprint
import re
import traceback
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs import inspect_topic
from kvformat.codecs.raw import RawFormat
from kvformat.registry import (
    DecodedBatch,
    Format,
    KeyValueFormat,
    KvFormatError,
    MessageSample,
    Option,
    Recognition,
    SchemaProposal,
    get_format,
)
from kvformat.registry.contract import discovery
from kvformat.registry.contract.options import mask_userinfo
from kvformat.registry.contract.schema_registries import RegistrySettings
from kvformat.registry.contract.secrets import scrubbed
from kvformat.registry.sql.connector_options import masked
from tests.support.registry_server import Registry, RegistryServer

_SECRET = "sesame"
_FORMAT = {
    "url": f"http://me:{_SECRET}-url@registry:8081,http://other:8081",
    "subject": "s",
    "basic-auth.user-info": f"alice:{_SECRET}-user",
    "ssl.keystore.password": f"{_SECRET}-key",
    "bearer-auth.token": f"{_SECRET}-token",
    "properties.basic.auth.user.info": f"bob:{_SECRET}-entry",
    "properties": f"schema.registry.ssl.key.password:{_SECRET}-map",
}
_TABLE = {
    "topic": "t",
    "properties.sasl.jaas.config": f'PlainLoginModule required username="u" password="{_SECRET}";',
    "format": "avro-confluent",
    **{f"avro-confluent.{name}": value for name, value in _FORMAT.items()},
}


def _shown(value: object, caplog: pytest.LogCaptureFixture) -> str:
    """Return all texts of a value: repr, str, formatted, HTML, log."""
    caplog.clear()
    logging.getLogger(__name__).warning("%s %r", value, value)
    html = value._repr_html_() if hasattr(value, "_repr_html_") else ""
    return "\n".join([repr(value), str(value), f"{value}", f"{value!r}", pprint.pformat(value), html, caplog.text])


def _options() -> list[Mapping[str, Any]]:
    return [get_format("avro-confluent", _FORMAT).options, KeyValueFormat("id INT", _TABLE).options]


@pytest.mark.parametrize("options", _options(), ids=["format", "key-value"])
def test_options_hide_secrets_in_texts_only(options: Mapping[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    prefix = "" if "subject" in options else "avro-confluent."
    for value in (options, options.items(), options.values(), {"nested": [options]}):
        shown = _shown(value, caplog)
        assert _SECRET not in shown
        assert "registry:8081" in shown
        assert "http://other:8081" in shown
    assert options[f"{prefix}basic-auth.user-info"] == f"alice:{_SECRET}-user"
    assert options[f"{prefix}url"] == _FORMAT["url"]
    assert dict(options)[f"{prefix}bearer-auth.token"] == f"{_SECRET}-token"


@pytest.mark.parametrize("options", _options(), ids=["format", "key-value"])
def test_options_behave_like_a_mapping(options: Mapping[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    plain = dict(options)
    assert options == plain
    assert options != {**plain, "subject": "another"}
    assert {**options} == plain
    for again in (pickle.loads(pickle.dumps(options)), copy.copy(options), copy.deepcopy(options)):
        assert again == options
        assert _SECRET not in _shown(again, caplog)
    with pytest.raises(TypeError):
        options["subject"] = "another"  # type: ignore[index]


def test_formats_and_tables_hide_secrets(caplog: pytest.LogCaptureFixture) -> None:
    fmt, kv = get_format("avro-confluent", _FORMAT), KeyValueFormat("id INT", _TABLE)
    for value in (fmt, kv, vars(fmt), pickle.loads(pickle.dumps(fmt)), pickle.loads(pickle.dumps(kv))):
        assert _SECRET not in _shown(value, caplog)
    assert pickle.loads(pickle.dumps(fmt)) == fmt
    assert pickle.loads(pickle.dumps(kv)).options == kv.options


@pytest.mark.parametrize(("part", "other"), [("key", "value"), ("value", "key")])
def test_tables_hide_an_option_that_only_its_format_calls_a_secret(
    part: str, other: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Locked(RawFormat):
        identifier = "locked"
        option_specs = (*RawFormat.option_specs, Option(name="pin", sensitive=True, doc="Opens it."))

    monkeypatch.setattr(discovery, "_registered", {"locked": Locked})
    options = {f"{part}.format": "locked", f"{part}.locked.pin": _SECRET, f"{other}.format": "raw"}
    options |= {"key.fields": "k", "value.fields-include": "EXCEPT_KEY"}
    kv = KeyValueFormat("k STRING, v STRING", options)
    for value in (kv, kv.options):
        shown = _shown(value, caplog)
        assert _SECRET not in shown
        assert "******" in shown


def test_samples_recognitions_and_proposals_hide_secrets(caplog: pytest.LogCaptureFixture) -> None:
    """A format gets the options of a registry with the sample, and returns them with its answers."""
    sample = MessageSample((b"a",), registry=_FORMAT)
    recognition = Recognition((0,), 1.0, "are a", sample.registry)
    proposal = SchemaProposal((), sample.registry)
    for value in (sample, recognition, proposal):
        assert _SECRET not in _shown(value, caplog)
    assert sample.registry == recognition.options == proposal.options == _FORMAT


def test_an_error_of_a_format_in_recognition_hides_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    def recognize(cls: type[RawFormat], sample: MessageSample) -> None:
        raise ValueError(f"can't connect with {dict(sample.registry)}")

    monkeypatch.setattr(RawFormat, "recognize", classmethod(recognize))
    registry = {name: value for name, value in _FORMAT.items() if name != "subject"}
    found = inspect_topic([b"a"], [b"k"], registry=registry)
    assert _SECRET not in repr(found)
    start = "format 'raw' can't recognize messages: ValueError (its text is not shown"
    assert any(note.startswith(start) for note in found.notes)
    assert any("can't connect with {}" in note for note in inspect_topic([b"a"]).notes)


@pytest.mark.parametrize("names", [(0, 1), (1, 0)])
def test_an_exception_of_a_decoder_shows_no_part_of_a_secret(
    names: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One secret begins with the other; their options have any order."""
    options = [("ssl.keystore.password", "sesame"), ("bearer-auth.token", "sesame-open")]
    format = get_format("json-registry", dict(options[name] for name in names))
    right = type(format).decode_arrow

    def decode(self: Format, messages: pa.BinaryArray, schema: pa.Schema, **more: Any) -> DecodedBatch:
        if len(messages):
            raise ValueError(f"sent {options[1][1]}, not {options[0][1]}")
        return right(self, messages, schema, **more)

    monkeypatch.setattr(type(format), "decode_arrow", decode)
    errors = format.decode_batch(pa.array([b"a"]), "id INT").errors
    assert errors is not None
    assert "sent ******, not ******" in errors[0].as_py()


def test_a_missing_option_is_shown_as_none() -> None:
    options = get_format("avro-confluent", {"url": "mock://x"}).options
    assert options["bearer-auth.token"] is None
    assert "'bearer-auth.token': None" in repr(options)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:a'b,c/d@h:1/p", "http://******@h:1/p"),
        ('http://me:a "b@c@h', "http://******@h"),
        ("http://me:a\nb@h", "http://******@h"),
        ("http://me:a@h, https://me:b@i,http://j", "http://******@h, https://******@i,http://j"),
        ("http://h/p", "http://h/p"),
        ("me@h", "me@h"),
    ],
)
def test_credentials_in_urls_are_hidden(url: str, shown: str) -> None:
    assert mask_userinfo(url) == shown


# --- registry answers that repeat credentials ------------------------------------------------------------

_PASSWORD = 'ses/ame+\u00fc"? 1'
_USER_INFO = f"alice:{_PASSWORD}"
_WORDS = [
    pytest.param({"basic-auth.user-info": _USER_INFO}, id="basic"),
    pytest.param({"userinfo": f"alice:{urllib.parse.quote(_PASSWORD, safe='')}"}, id="url"),
    pytest.param({"bearer-auth.token": "eyJ.sesame-_1"}, id="bearer"),
    pytest.param({"properties.bearer.auth.token": "eyJ.sesame-_1", "subject": "t"}, id="properties"),
]
_QUOTINGS: list[Callable[[str], str]] = [
    str,
    urllib.parse.quote_plus,
    lambda text: urllib.parse.quote(urllib.parse.quote(text, safe="")),
    lambda text: repr(text.encode()),
    lambda text: _decoded(text),
    lambda text: urllib.parse.quote(_decoded(text)).lower(),
]
_KINDS = {
    "unauthorized": (401, lambda told: {"error_code": 401, "message": f"not for {told}"}),
    "unknown": (404, lambda told: {"error_code": 40403, "message": f"not for {told}"}),
    "refused": (409, lambda told: {"error_code": 409, "message": f"not for {told}"}),
    "page": (502, lambda told: f"<html>{told}</html>"),
    "no-schema": (200, lambda told: {"schema": f"not for {told}", "id": 1, "version": 1}),
    "no-type": (200, lambda told: {"schema": json.dumps({"type": f"not for {told}"}), "id": 1, "version": 1}),
    "other-type": (200, lambda told: {"schema": "x", "schemaType": f"not for {told}", "id": 1, "version": 1}),
    "no-json": (200, lambda told: f"<html>{told}</html>"),
}


def _decoded(header: str) -> str:
    kind, _, value = header.partition(" ")
    return base64.b64decode(value).decode() if kind == "Basic" else value


def _told(error: BaseException | None) -> Iterator[str]:
    """Yield the texts of an error, its cause and its context."""
    if error is not None:
        yield from (str(error), repr(error), repr(vars(error)), "".join(traceback.format_exception(error)))
        yield from _told(error.__cause__)
        if not error.__suppress_context__:
            yield from _told(error.__context__)


def _leaks(text: str) -> list[str]:
    """Return the parts of secrets in a text, quoted in any way."""
    unquoted = urllib.parse.unquote(urllib.parse.unquote_plus(text)).replace("\\", "")
    encoded = base64.b64encode(_USER_INFO.encode()).decode()[:10]
    return re.findall(f"sesame|ses/ame|{encoded}", f"{text} {unquoted}", re.IGNORECASE)


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("options", _WORDS)
def test_credentials_in_a_registry_answer_are_hidden(
    server: RegistryServer, options: dict[str, str], kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    status, answer = _KINDS[kind]
    sent: list[str] = []

    def echo(headers: dict[str, str]) -> tuple[int, bytes]:
        sent.append(headers["Authorization"])
        told = answer(" ".join(quoted(headers["Authorization"]) for quoted in _QUOTINGS))
        return status, (told if isinstance(told, str) else json.dumps(told)).encode()

    with server.serving(Registry(echo=echo)) as registry:
        url = registry.url.replace("://", f"://{options.get('userinfo')}@") if "userinfo" in options else registry.url
        given = {"url": url, "registry-retries": "0", "subject": "s"}
        given |= {key: value for key, value in options.items() if key != "userinfo"}
        messages = pa.array([bytes(5), b"\0\0\0\0\1"], pa.binary())
        rows = pa.array([{"id": 1}])
        texts = []
        for more in ({}, {"auto-register-schemas": "false"}, {"use-latest-version": "true"}):
            fmt = get_format("avro-confluent", given | more)
            for call in (
                lambda: fmt.decode_batch(messages, "id INT").errors,  # noqa: B023 - it is called here
                lambda: fmt.encode_batch(rows, "id BIGINT").errors,  # noqa: B023 - as above
                lambda: fmt.for_encoding(pa.schema([("id", pa.int64())])),  # noqa: B023 - as above
            ):
                try:
                    errors = call()
                    texts.append(repr(errors.to_pylist() if isinstance(errors, pa.Array) else errors))
                except KvFormatError as error:
                    texts += _told(error)
    assert sent[0]
    assert [text for text in (*texts, caplog.text) if _leaks(text)] == []
    assert kind == "no-json" or any("******" in text for text in texts)


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        ("Basic YWxpY2U6c2VzYW1lMQ==", "Basic ******"),
        ("Bearer eyJ0.b1.x-", "Bearer ******"),
        ("bearer%20abcdefgh1", "bearer%20******"),
        ("BASIC\tYWxp1YWxp", "BASIC\t******"),
        ("http://bob:pw@h/x", "http://******@h/x"),
        ("Basic authentication is needed", "Basic authentication is needed"),
    ],
)
def test_unknown_credentials_are_hidden(header: str, shown: str) -> None:
    assert scrubbed(f"refused: {header}, sorry", []) == f"refused: {shown}, sorry"


def test_short_secrets_are_found_as_words() -> None:
    assert scrubbed("me:abc abc (abc) abcd", ["me:abc", "abc"]) == "****** ****** (******) abcd"


def test_scrubbing_takes_linear_time() -> None:
    """The time is linear for a text with many prefixes of the patterns."""
    text = "://" * 1_000_000 + "Basic " * 500_000 + "a" * 1_000_000
    assert scrubbed(text, ["alice:sesame"]) == text


_CODES: list[Any] = [base64.b64encode, base64.urlsafe_b64encode, bytes.hex, lambda data: data.hex().upper()]
_CODES.append(lambda data: data.hex(":"))


@pytest.mark.parametrize("secret", ["alice:sesame/1?+", "sesame", "s\u00e4same-open"])
def test_credentials_in_hex_and_in_base64_are_found(secret: str) -> None:
    """Encoded once, and encoded twice, because an answer may quote an encoded header."""
    looked = 0
    for first in _CODES:
        once = first(secret.encode())
        once = once.encode() if isinstance(once, str) else once
        for second in (None, *_CODES):
            twice = once if second is None else second(once)
            text = twice if isinstance(twice, str) else twice.decode()
            for shown in (text, text.rstrip("=")):
                looked += 1
                assert scrubbed(f"refused [{shown}]", [secret]).startswith("refused [***"), shown
                assert shown not in scrubbed(f"refused [{shown}]", [secret])
    assert looked == 60


def test_a_secret_of_many_kilobytes_costs_nothing_in_a_short_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pattern of all forms of such a secret takes a minute to compile."""
    monkeypatch.setattr("kvformat.registry.contract.secrets._forms", lambda secret: pytest.fail("not needed"))
    assert scrubbed("refused", ['{"type":' * 2500]) == "refused"


_SECRET_NAMES = [
    "properties.sasl.jaas.config",
    "properties.ssl.keystore.password",
    "properties.ssl.key.password",
    "properties.ssl.keystore.key",
    "properties.ssl.truststore.certificates",
    "properties.sasl.oauthbearer.client.secret",
    "properties.ssl.key.pem.password",
    "properties.sasl.login.passwd",
    "basic-auth.user-info",
    "bearer-auth.token",
    "basic-auth.credentials-source",
    "properties.api-key",
    "properties.apikey",
    "auth-params",
    "service-key",
    "fs.azure.account.key",
    "http-headers",
    "properties.ssl.key.pem",
    "properties.SASL.JAAS.Config",
    "credential",
]
_PLAIN_NAMES = [
    "topic",
    "key.format",
    "key.fields",
    "key.fields-prefix",
    "value.format",
    "properties.group.id",
    "properties.security.protocol",
    "properties.sasl.mechanism",
    "properties.ssl.keystore.location",
    "properties.ssl.keystore.type",
    "properties.ssl.truststore.location",
    "scan.startup.mode",
]


@pytest.mark.parametrize("name", _SECRET_NAMES)
def test_the_value_of_an_option_with_this_name_is_a_secret(name: str) -> None:
    assert masked(name, "hunter2") == "******"


@pytest.mark.parametrize("name", _PLAIN_NAMES)
def test_the_value_of_an_option_with_this_name_is_shown(name: str) -> None:
    assert masked(name, "a value") == "a value"


def test_a_value_that_assigns_a_secret_is_hidden_whatever_its_option_is_called() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ada" password="hunter2";'
    assert masked("properties.anything", jaas) == "******"
    assert masked("properties.anything", "a=1, password-free = 2x") == "******", "rather too much than too little"
    assert masked("properties.anything", "https://ada:hunter2@host/x") == "https://******@host/x"


@pytest.mark.parametrize(
    "secret",
    ["ada:hunter@2", "hunter@2", "hunter%402", "bob:second", "second", "eve:third", "third", "me:fourth", "fourth"],
)
def test_all_credentials_of_the_settings_of_a_registry_are_hidden(secret: str) -> None:
    """Each URL of a list may have some, and so may a proxy; a password may come without its user, and decoded."""
    properties = (("proxy", "http://eve:third@p:1"), ("basic.auth.user.info", "me:fourth"), ("ssl.x", "plain"))
    settings = RegistrySettings("http://ada:hunter%402@r:1,http://bob:second@s:2", properties)
    assert settings.scrubbed(f"no access: {secret}!") == "no access: ******!"
    assert settings.scrubbed("plain") == "plain"


@pytest.mark.parametrize(
    ("secrets", "text", "shown"),
    [
        (["hunter", "hunter2"], "a hunter2, a hunter", "a ******, a ******"),
        (["hunter2", "hunter"], "a hunter2, a hunter", "a ******, a ******"),
        (["unter", "hunter2!"], "hunter2!", "******"),
        (["pass", "pass-word", "word"], "pass-word", "******"),
        (["abc", "abcd"], "abcd abc xabc", "****** ****** xabc"),
        (["topic"], "the topic of orders", "the ****** of orders"),
        (["ab+c", "ab c"], "ab+c ab%20c", "****** ******"),
    ],
)
def test_of_two_secrets_that_overlap_nothing_is_left(secrets: list[str], text: str, shown: str) -> None:
    """A secret may begin with another, contain it, or look like a word of the message."""
    assert scrubbed(text, secrets) == shown
