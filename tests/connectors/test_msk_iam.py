"""Amazon MSK's sign-in by IAM, from the options that Flink's table has; the signer needs no network."""

from __future__ import annotations

import base64
import pickle
import sys
import time
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

from kvformat.connectors import brokers
from kvformat.connectors.reader.client_settings import reader_settings, unsupported
from kvformat.registry.contract.errors import OptionError
from kvformat.registry.key_value_format import KeyValueFormat

MODULE = "software.amazon.msk.auth.iam.IAMLoginModule"
SERVERS = "b-1.shop.x1.c2.kafka.eu-west-1.amazonaws.com:9098"
MSK = {
    "properties.bootstrap.servers": SERVERS,
    "properties.security.protocol": "SASL_SSL",
    "properties.sasl.mechanism": "AWS_MSK_IAM",
    "properties.sasl.jaas.config": f"{MODULE} required;",
    "properties.sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI"}.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def test_the_options_of_flink_sign_a_token() -> None:
    pytest.importorskip("aws_msk_iam_sasl_signer")
    found = brokers.client_settings(MSK)
    assert found["sasl.mechanism"] == "OAUTHBEARER"
    assert found["security.protocol"] == "SASL_SSL"
    token, expires = found["oauth_cb"]("")
    assert time.time() < expires < time.time() + 3600
    signed = urlparse(base64.urlsafe_b64decode(token + "==").decode())
    assert signed.hostname == "kafka.eu-west-1.amazonaws.com"
    query = parse_qs(signed.query)
    assert query["Action"] == ["kafka-cluster:Connect"]
    assert query["X-Amz-Credential"][0].startswith("AKIDEXAMPLE/")
    assert "eu-west-1/kafka-cluster" in query["X-Amz-Credential"][0]


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ("", ("generate_auth_token", "eu-west-1")),
        ("awsProfileName=p", ("generate_auth_token_from_profile", "eu-west-1", "p")),
        ("awsRoleArn=r", ("generate_auth_token_from_role_arn", "eu-west-1", "r", "aws-msk-iam-auth")),
        ("awsRoleArn=r awsRoleSessionName=s", ("generate_auth_token_from_role_arn", "eu-west-1", "r", "s")),
        ("awsRoleArn=r awsProfileName=p", ("generate_auth_token_from_profile", "eu-west-1", "p")),
    ],
)
def test_a_profile_signs_before_a_role_and_a_role_before_the_environment(
    options: str, asked: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the chain of Java's `MSKCredentialProvider`."""
    calls: list[tuple[str, ...]] = []

    class Signer:
        def __getattr__(self, name: str) -> Any:
            return lambda *given: calls.append((name, *given)) or ("token", 1_500)

    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", SimpleNamespace(MSKAuthTokenProvider=Signer()))
    found = brokers.client_settings({**MSK, "properties.sasl.jaas.config": f"{MODULE} required {options};"})
    assert found["oauth_cb"]("") == ("token", 1.5), "seconds"
    assert calls == [asked]


def test_tasks_get_the_options_and_sign_themselves() -> None:
    given = {"connector": "kafka", "topic": "t", "format": "json", "scan.startup.mode": "earliest-offset", **MSK}
    kv = KeyValueFormat("id INT", given).planned()
    assert unsupported(kv) is None
    settings = pickle.loads(pickle.dumps(reader_settings(kv)))
    assert callable(settings.for_client()["oauth_cb"])


@pytest.mark.parametrize(
    ("servers", "region", "expected"),
    [
        (SERVERS, None, "eu-west-1"),
        ("boot-1.c1.kafka-serverless.us-east-2.amazonaws.com:9098", "eu-central-1", "us-east-2"),
        ("proxy:9098", "eu-central-1", "eu-central-1"),
    ],
)
def test_the_region_is_that_of_the_brokers(
    servers: str, region: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if region is not None:
        monkeypatch.setenv("AWS_REGION", region)
    found = brokers.client_settings({**MSK, "properties.bootstrap.servers": servers})
    assert found["oauth_cb"].args[0] == expected


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"properties.bootstrap.servers": "proxy:9098"}, "does not show the region of Amazon MSK"),
        (
            {"properties.sasl.jaas.config": f"{MODULE} required awsDebugCreds='true';"},
            "option 'awsDebugCreds'",
        ),
        ({"properties.sasl.client.callback.handler.class": "com.x.Y"}, "is a class of Java"),
    ],
)
def test_what_can_t_be_kept_is_for_java_s_client(options: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError, match=told) as raised:
        brokers.client_settings({**MSK, **options})
    assert raised.value.reason
