"""Secrets of options are in nothing that shows them: not in texts of objects, logs, errors or rows."""

from __future__ import annotations

import copy
import logging
import pickle
import pprint
from collections.abc import Mapping
from typing import Any

import pytest

from kvformat.registry import KeyValueFormat, get_format
from kvformat.registry.options import without_userinfo

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
    """Every text that is made of a value in passing."""
    caplog.clear()
    logging.getLogger(__name__).warning("%s %r", value, value)
    return "\n".join([repr(value), str(value), f"{value}", f"{value!r}", pprint.pformat(value), caplog.text])


def _options() -> list[Mapping[str, Any]]:
    return [get_format("avro-confluent", _FORMAT).options, KeyValueFormat("id INT", _TABLE).options]


@pytest.mark.parametrize("options", _options(), ids=["format", "key-value"])
def test_options_show_no_secret_and_give_all(options: Mapping[str, Any], caplog: pytest.LogCaptureFixture) -> None:
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
def test_options_are_a_mapping_like_others(options: Mapping[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    plain = dict(options)
    assert options == plain
    assert options != {**plain, "subject": "another"}
    assert {**options} == plain
    for again in (pickle.loads(pickle.dumps(options)), copy.copy(options), copy.deepcopy(options)):
        assert again == options
        assert _SECRET not in _shown(again, caplog)
    with pytest.raises(TypeError):
        options["subject"] = "another"  # type: ignore[index]


def test_objects_with_options_show_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    fmt, kv = get_format("avro-confluent", _FORMAT), KeyValueFormat("id INT", _TABLE)
    for value in (fmt, kv, vars(fmt), pickle.loads(pickle.dumps(fmt)), pickle.loads(pickle.dumps(kv))):
        assert _SECRET not in _shown(value, caplog)
    assert pickle.loads(pickle.dumps(fmt)) == fmt
    assert pickle.loads(pickle.dumps(kv)).options == kv.options


def test_an_option_that_is_not_given_is_shown_as_that() -> None:
    options = get_format("avro-confluent", {"url": "mock://x"}).options
    assert options["bearer-auth.token"] is None
    assert "'bearer-auth.token': None" in repr(options)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:a'b,c/d@h:1/p", "http://******@h:1/p"),
        ('http://me:a "b@c@h', "http://******@h"),
        ("http://me:a@h, https://me:b@i,http://j", "http://******@h, https://******@i,http://j"),
        ("http://h/p", "http://h/p"),
        ("me@h", "me@h"),
    ],
)
def test_urls_name_no_user(url: str, shown: str) -> None:
    assert without_userinfo(url) == shown
