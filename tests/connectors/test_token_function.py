"""Tokens of OAUTHBEARER from a function that the table names."""

from __future__ import annotations

import pickle

import pytest

from kvformat.connectors import brokers
from kvformat.connectors.reader.client_settings import reader_settings, unsupported
from kvformat.registry.contract.errors import OptionError
from kvformat.registry.key_value_format import KeyValueFormat

NOT_A_FUNCTION = "text"
AZURE = {
    "properties.bootstrap.servers": "shop.servicebus.windows.net:9093",
    "properties.security.protocol": "SASL_SSL",
    "properties.sasl.mechanism": "OAUTHBEARER",
    "properties.sasl.login.callback.handler.class": "com.example.AzureLogin",  # of the Flink job
    "properties.kvformat.token-function": f"{__name__}:token",
}


def token(setting: str) -> tuple[str, float]:
    return f"token of {setting!r}", 1.5


def test_tasks_call_the_function_that_the_table_names() -> None:
    given = {"connector": "kafka", "topic": "t", "format": "json", "scan.startup.mode": "earliest-offset", **AZURE}
    kv = KeyValueFormat("id INT", given).planned()
    assert unsupported(kv) is None
    settings = pickle.loads(pickle.dumps(reader_settings(kv))).for_client()
    assert (settings["sasl.mechanism"], settings["security.protocol"]) == ("OAUTHBEARER", "SASL_SSL")
    assert settings["oauth_cb"]("") == ("token of ''", 1.5)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("", "must be module:function"),
        (f"{__name__}.token", "must be module:function"),
        (f"{__name__}:", "must be module:function"),
        ("no_such_module_of_tokens:token", "can't be imported here: No module named 'no_such_module_of_tokens'"),
        (f"{__name__}:missing", "names no function of the module"),
        (f"{__name__}:NOT_A_FUNCTION", "does not name a function"),
    ],
)
def test_a_function_that_can_not_be_called_is_an_error_that_says_why(function: str, why: str) -> None:
    with pytest.raises(OptionError, match=why) as raised:
        brokers.client_settings({**AZURE, "properties.kvformat.token-function": function})
    assert "Write 'module:function', of a module that the driver and the workers can import" in str(raised.value)
    assert raised.value.option == "properties.kvformat.token-function"


def test_other_mechanisms_have_no_tokens() -> None:
    with pytest.raises(OptionError, match=r"needs 'properties.sasl.mechanism' = 'OAUTHBEARER', not 'PLAIN'"):
        brokers.client_settings({**AZURE, "properties.sasl.mechanism": "PLAIN"})


@pytest.mark.parametrize("handler", [True, False])
def test_without_a_function_the_error_names_it_as_a_way(handler: bool) -> None:
    left_out = {"properties.kvformat.token-function"}
    left_out |= set() if handler else {"properties.sasl.login.callback.handler.class"}
    given = {name: text for name, text in AZURE.items() if name not in left_out}
    with pytest.raises(OptionError, match=r"Set 'properties\.kvformat\.token-function' to a function in Python"):
        brokers.client_settings(given)
