"""Sign-in with tokens that a Python function makes: for Azure, Google and others, whose login is a class of Java.

    'properties.sasl.mechanism' = 'OAUTHBEARER'
    'properties.kvformat.token-function' = 'my_tokens:azure'

The function takes a text and returns a token and the time at which it expires, in seconds since 1970; perhaps also the
name of the principal and a dict of SASL extensions. It is `oauth_cb` of confluent-kafka. The driver and the workers
import it. Java's client, which Spark's own source and sink use, still needs its class.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, Final

SETTING: Final = "kvformat.token-function"
"""The name of the setting, without the prefix `properties.`."""


def settings(name: str) -> dict[str, Any]:
    """Return librdkafka's settings. Raises `ValueError` that says why the function can't be called."""
    _imported(name)
    return {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": functools.partial(_token, name)}


def _token(name: str, setting: str) -> tuple[Any, ...]:
    return _imported(name)(setting)


def _imported(name: str) -> Callable[[str], tuple[Any, ...]]:
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise ValueError("must be module:function")
    try:
        imported = importlib.import_module(module)
    except Exception as cause:  # the module of a user may raise anything
        raise ValueError(f"names a module that can't be imported here: {cause}") from cause
    token_function = getattr(imported, function, None)
    if token_function is None:
        raise ValueError(f"names no function of the module {module!r}")
    if not callable(token_function):
        raise ValueError("does not name a function")
    return token_function  # type: ignore[no-any-return]
