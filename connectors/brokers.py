"""Clients of Kafka's brokers, from the `properties.*` of a table, for requests that Spark does not make.

    client_settings(options)       librdkafka's settings for those of Java's client
    admin(options)                 a client for topics, groups and offsets
    consumer(options, group_id=)   a client that reads records
    make_client(kind, ...)         any client; a setting that librdkafka refuses is an `OptionError`
    ask(client, options, ...)      the answer to a request; a failure is a `BrokerError` that names the brokers
    patiently(question)            the answer for a running query, also after a restart of the brokers

Spark uses Java's client and gives it all of `properties.*`. The clients here are those of confluent-kafka, the extra
`kvformat[kafka]`. Both have the same names of settings, except for security. A security setting without a counterpart
raises an error with its name, because the client would fail without it, with an unclear message.
"""

from __future__ import annotations

import collections
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from kvformat.connectors import msk_iam, token_function
from kvformat.connectors.java_settings import consumer_settings, properties
from kvformat.connectors.properties import PREFIX
from kvformat.registry.contract.errors import BrokerError, OptionError, needs_extra
from kvformat.registry.contract.secrets import scrubbed

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

TIMEOUT = 15.0
"""Seconds that an answer may take: a broker nearby needs a hundredth of it, with a slow network a few seconds."""

Answer = TypeVar("Answer")
Client = TypeVar("Client")
# Temporary errors, and the seconds in which a request is repeated after them: a topic was just created, a broker was
# just lost, a transaction is being committed. A connection also breaks at once if the security settings are wrong.
_PASSING = dict.fromkeys(
    (
        *("LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"),
        *("REPLICA_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR", "OFFSET_NOT_AVAILABLE", "UNSTABLE_OFFSET_COMMIT"),
        *("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"),
    ),
    TIMEOUT,
) | {"_TRANSPORT": 3.0}
_PAUSE = 0.2  # seconds before the next attempt
_PATIENCE, _LONG_PAUSE = 120.0, 1.0  # seconds for which a running query asks, and between two questions
# Settings with the same name and meaning.
_SAME = ("bootstrap.servers", "client.id", "client.rack", "client.dns.lookup", "security.protocol", "sasl.mechanism")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# Settings with PEM text.
_PEM = {
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.key.password": "ssl.key.password",
}
# Settings that name Java classes.
_JAVAS = (
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "security.providers",
    "ssl.engine.factory.class",
)
_END = "scan.bounded.mode"
_ASKING = ("group-offsets", "specific-offsets")  # modes that need offsets from the brokers
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_OAUTH, _HANDLER = "OAUTHBEARER", "sasl.login.callback.handler.class"
# Java's classes that fetch a token from an endpoint; librdkafka does the same without a class.
_TOKEN_HANDLERS = tuple(
    f"org.apache.kafka.common.security.oauthbearer.{package}OAuthBearerLoginCallbackHandler"
    for package in ("", "secured.")
)
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
# Credentials for the endpoint: librdkafka's name, the option of Java's JAAS, and Java's setting since Kafka 4.1.
_OF_TOKENS = (
    ("sasl.oauthbearer.client.id", "clientId", "sasl.oauthbearer.client.credentials.client.id"),
    ("sasl.oauthbearer.client.secret", "clientSecret", "sasl.oauthbearer.client.credentials.client.secret"),
    ("sasl.oauthbearer.scope", "scope", "sasl.oauthbearer.scope"),
)
_BY_FUNCTION = f"set '{PREFIX}{token_function.SETTING}' to a function in Python that returns tokens"
_EXTENSION = "extension_"
_JAAS = re.compile(r"\s*(?P<module>[\w.$]+)\s+(?P<flag>\w+)\s*(?P<rest>.*?);?\s*", re.DOTALL)
_JAAS_OPTION = re.compile(r"""([\w.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
# The last errors of clients' connections; an exception only says that there was no answer.
_said: collections.deque[str] = collections.deque(maxlen=3)


def client_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Return confluent-kafka's settings, with secrets, for the brokers of `properties.*`.

    Settings that only tune Java's client are left out. Raises `OptionError` naming a security setting that librdkafka
    does not support, if there are no brokers, and for an unknown protocol.
    """
    client_properties = properties(options)
    if not client_properties.get("bootstrap.servers") or "@" in client_properties["bootstrap.servers"]:
        raise OptionError(
            f"'{PREFIX}bootstrap.servers' must be a list host:port,host:port; user and password belong in "
            f"'{PREFIX}sasl.jaas.config'",
            option=f"{PREFIX}bootstrap.servers",
        )
    mechanism = client_properties.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism == msk_iam.MECHANISM:
        client_properties = _without_msk_handler(client_properties)
    function = client_properties.get(token_function.SETTING)
    if function is not None:  # it stands for the class of Java
        client_properties = {name: text for name, text in client_properties.items() if name != _HANDLER}
    for name in _JAVAS:
        if name in client_properties and not (
            name == _HANDLER and mechanism == _OAUTH and client_properties[name] in _TOKEN_HANDLERS
        ):
            raise _unusable(name, "is a class of Java", _BY_FUNCTION if mechanism == _OAUTH else "")
    settings: dict[str, Any] = {name: client_properties[name] for name in _SAME if name in client_properties}
    protocol = client_properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise OptionError(
            f"'{PREFIX}security.protocol' is '{protocol}', not one of {', '.join(_PROTOCOLS)}",
            option=f"{PREFIX}security.protocol",
        )
    if protocol.endswith("SSL"):
        settings |= _ssl(client_properties, options)
    if protocol.startswith("SASL"):
        if function is not None:
            settings |= _by_function(function, mechanism)
        elif mechanism == msk_iam.MECHANISM:
            settings |= _msk(client_properties)
        else:
            settings |= _oauth(client_properties) if mechanism == _OAUTH else _sasl(client_properties, mechanism)
    return settings


def _store(client_properties: Mapping[str, str], which: str, kind: str) -> str:
    """Describe the type of a store of certificates or keys, and the option that sets it."""
    name = f"ssl.{which}.type"
    return f"is a file of type {kind} ('{PREFIX}{name}'{'' if name in client_properties else ', by default'})"


_TO_PEM = (
    "write the certificates as PEM (keytool -list -rfc -keystore FILE > ca.pem) and set "
    f"'{PREFIX}ssl.truststore.type' = 'PEM' and '{PREFIX}ssl.truststore.location' to that file, which Spark reads, too"
)
_TO_PKCS12 = (
    "write the key as PKCS12 (keytool -importkeystore -srckeystore FILE -destkeystore me.p12 -deststoretype PKCS12) "
    f"and set '{PREFIX}ssl.keystore.type' = 'PKCS12', which Spark reads, too"
)


def _unusable(name: str, why: str, mend: str = "", options: Mapping[str, str] | None = None) -> OptionError:
    """Make the error for a setting that only Java's client supports; `why` contains no secret.

    `mend` names a replacement that librdkafka supports. `options` are the table's; the advice depends on them.
    """
    table_options = options or {}
    begins = table_options.get("scan.startup.mode", "group-offsets")
    advice = [mend] if mend else []
    if not mend or begins in _ASKING or table_options.get(_END) in _ASKING:
        advice.append(
            "choose a start that needs no broker: 'scan.startup.mode' = 'earliest-offset' or 'timestamp', or give the "
            "offsets, spark_options={'startingOffsets': ...}"
        )
    told = "; or ".join(advice)
    return OptionError(
        f"'{PREFIX}{name}' {why}. Spark supports that, but the client that asks brokers for offsets does not. "
        f"{told[:1].upper()}{told[1:]}",
        option=f"{PREFIX}{name}",
        reason=f"'{PREFIX}{name}' {why}",
    )


def _ssl(client_properties: Mapping[str, str], options: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings for certificates (PEM) and keys (PEM or PKCS12); only Java reads JKS."""
    settings: dict[str, Any] = {
        ours: client_properties[name] for name, ours in _PEM.items() if name in client_properties
    }
    if "ssl.truststore.location" in client_properties:
        kind = client_properties.get("ssl.truststore.type", "JKS").upper()
        if kind != "PEM":
            raise _unusable("ssl.truststore.location", _store(client_properties, "truststore", kind), _TO_PEM, options)
        settings["ssl.ca.location"] = client_properties["ssl.truststore.location"]
    if "ssl.keystore.location" in client_properties:
        place, kind = (
            client_properties["ssl.keystore.location"],
            client_properties.get("ssl.keystore.type", "JKS").upper(),
        )
        if kind == "PEM":
            settings |= {"ssl.key.location": place, "ssl.certificate.location": place}
        elif kind == "PKCS12":
            settings["ssl.keystore.location"] = place
            if "ssl.keystore.password" in client_properties:
                settings["ssl.keystore.password"] = client_properties["ssl.keystore.password"]
        else:
            raise _unusable("ssl.keystore.location", _store(client_properties, "keystore", kind), _TO_PKCS12, options)
    if "ssl.endpoint.identification.algorithm" in client_properties:
        settings["ssl.endpoint.identification.algorithm"] = (
            client_properties["ssl.endpoint.identification.algorithm"] or "none"
        )
    return settings


def _sasl(client_properties: Mapping[str, str], mechanism: str) -> dict[str, Any]:
    """Return the settings for user and password."""
    if mechanism not in _MECHANISMS:
        raise _unusable("sasl.mechanism", f"is {mechanism}, not one of {', '.join((*_MECHANISMS, _OAUTH))}")
    values = _jaas(client_properties, 'username="..." password="..."')
    if "username" not in values or "password" not in values:
        raise _unusable("sasl.jaas.config", "has no username and password")
    return {"sasl.username": values["username"], "sasl.password": values["password"]}


def _oauth(client_properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings for the endpoint that gives tokens, and the credentials for it."""
    if client_properties.get(_HANDLER) not in _TOKEN_HANDLERS:
        raise _unusable(
            "sasl.mechanism", f"is {_OAUTH} without '{PREFIX}{_HANDLER}' = '{_TOKEN_HANDLERS[0]}'", _BY_FUNCTION
        )
    if not client_properties.get(_ENDPOINT):
        raise _unusable(_ENDPOINT, "is missing, the URL from which tokens are fetched")
    values = _jaas(client_properties, 'clientId="..." clientSecret="..."')
    settings: dict[str, Any] = {"sasl.oauthbearer.method": "oidc", _ENDPOINT: client_properties[_ENDPOINT]}
    for ours, option, setting in _OF_TOKENS:
        text = client_properties.get(setting) or values.get(option)
        if text is not None:
            settings[ours] = text
    if _OF_TOKENS[0][0] not in settings or _OF_TOKENS[1][0] not in settings:
        raise _unusable("sasl.jaas.config", "has no clientId and clientSecret")
    extensions = [(name.removeprefix(_EXTENSION), text) for name, text in values.items() if name.startswith(_EXTENSION)]
    if extensions:
        settings["sasl.oauthbearer.extensions"] = ",".join(f"{name}={text}" for name, text in extensions)
    return settings


def _by_function(function: str, mechanism: str) -> dict[str, Any]:
    """Return the settings for tokens that a function of the user makes. Raises `OptionError`."""
    name = f"{PREFIX}{token_function.SETTING}"
    if mechanism != _OAUTH:
        raise OptionError(f"'{name}' needs '{PREFIX}sasl.mechanism' = '{_OAUTH}', not '{mechanism}'", option=name)
    try:
        return token_function.settings(function)
    except ValueError as error:
        raise OptionError(
            f"'{name}' {error}. Write 'module:function', of a module that the driver and the workers can import",
            option=name,
        ) from error


def _without_msk_handler(client_properties: Mapping[str, str]) -> dict[str, str]:
    """Return the settings without the class that signs for Amazon MSK in Java."""
    names = ("sasl.client.callback.handler.class", _HANDLER)
    return {name: text for name, text in client_properties.items() if name not in names or text != msk_iam.HANDLER}


def _msk(client_properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings for Amazon MSK's sign-in by IAM."""
    values = _jaas(client_properties, 'awsProfileName="..."')
    unknown = [name for name in values if name not in msk_iam.OPTIONS]
    if unknown:
        raise _unusable("sasl.jaas.config", f"has the option '{unknown[0]}', not one of {', '.join(msk_iam.OPTIONS)}")
    region = msk_iam.region_of(client_properties["bootstrap.servers"])
    if region is None:
        why = "does not show the region of Amazon MSK, and neither do AWS_REGION and AWS_DEFAULT_REGION"
        raise _unusable("bootstrap.servers", why)
    return msk_iam.settings(region, values)


def _jaas(client_properties: Mapping[str, str], options: str) -> dict[str, str]:
    """Parse the options of the login module; `options` is an example for the error."""
    statement = _JAAS.fullmatch(client_properties.get("sasl.jaas.config", ""))
    if statement is None:
        raise _unusable("sasl.jaas.config", f"is not of the form 'module required {options};'")
    return {name: _ESCAPED.sub(r"\1", a or b) or c for name, a, b, c in _JAAS_OPTION.findall(statement["rest"])}


def admin(options: Mapping[str, str]) -> AdminClient:
    """Make a client for topics, groups and offsets; use it through `ask`. Raises `MissingExtraError`."""
    _check_client()
    from confluent_kafka.admin import AdminClient

    return make_client(AdminClient, client_settings(options) | _quiet(), options)


def consumer(options: Mapping[str, str], *, group_id: str) -> Consumer:
    """Make a client that reads records and commits nothing; use it through `ask`. Raises `MissingExtraError`."""
    _check_client()
    from confluent_kafka import Consumer

    settings = client_settings(options) | _quiet() | {"group.id": group_id, "enable.auto.commit": False}
    return make_client(Consumer, settings | consumer_settings(options), options)


def make_client(
    kind: Callable[[dict[str, Any]], Client], settings: dict[str, Any], options: Mapping[str, str]
) -> Client:
    """Make a client of confluent-kafka. Raises `OptionError` if librdkafka refuses a setting or can't read a file."""
    from confluent_kafka import KafkaException

    try:
        return kind(settings)
    except KafkaException as cause:
        raise refused_setting(cause.args[0].str(), options) from cause


def refused_setting(said: str, options: Mapping[str, str]) -> OptionError:
    """Make the error for a setting that librdkafka refuses; `said` is its text."""
    reason = without_secrets(said, options)
    return OptionError(
        f"confluent-kafka can't be configured by '{PREFIX}*': {reason}. Correct the option; in this message it has "
        "librdkafka's name",
        reason=reason,
    )


def _quiet() -> dict[str, Any]:
    """Settings that keep errors off the terminal; they are in the exception."""
    return {"log_level": 0, "error_cb": lambda error: _said.append(error.str())}


def ask(
    client: AdminClient | Consumer, options: Mapping[str, str], what: str, question: Callable[[], Answer]
) -> Answer:
    """Send a request about `what` and return its answer; a client's exception becomes a `BrokerError`.

    The request is repeated when its connection breaks, and while a partition has no leader or a group no coordinator,
    as Java's client does.
    """
    from confluent_kafka import KafkaError, KafkaException

    _said.clear()
    begun = time.monotonic()
    while True:
        try:
            return question()
        except (KafkaException, TimeoutError) as cause:
            error = cause.args[0] if cause.args else None
            repeated = _PASSING.get(error.name(), 0.0) if isinstance(error, KafkaError) else 0.0
            if time.monotonic() < begun + repeated:
                time.sleep(_PAUSE)
                continue
            client.poll(0)  # calls `error_cb`
            reason = error.str() if isinstance(error, KafkaError) else str(cause) or "there was no answer in time"
            reason = without_secrets(reason, options)
            said = f" ({without_secrets('; '.join(dict.fromkeys(_said)), options)})" if _said else ""
            raise BrokerError(
                f"the brokers at '{options[PREFIX + 'bootstrap.servers']}' could not be asked for {what}: "
                f"{reason}{said}. Check that this machine reaches them, and that '{PREFIX}*' has the security settings "
                "that they need",
                option=f"{PREFIX}bootstrap.servers",
                reason=reason,
            ) from cause


def patiently(question: Callable[[], Answer]) -> Answer:
    """Return the answer to a question of a running query; ask again while no broker answers: it may be restarting.

    Raises `BrokerError` after two minutes.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return question()
        except BrokerError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LONG_PAUSE)


def without_secrets(text: str, options: Mapping[str, str]) -> str:
    """Mask a client's secrets in a text of librdkafka, because an endpoint for tokens may repeat the credentials."""
    return scrubbed(text, secrets(options))


def secrets(options: Mapping[str, str]) -> list[str]:
    """Return a client's passwords and secrets, also in the form `user:secret`."""
    settings = client_settings(options)
    texts = [text for name, text in settings.items() if name.endswith(("password", "secret"))]
    user, secret = _OF_TOKENS[0][0], _OF_TOKENS[1][0]
    return [*texts, f"{settings[user]}:{settings[secret]}"] if user in settings else texts


def _check_client() -> None:
    with needs_extra("requests to Kafka's brokers need confluent-kafka, which is not installed", extra="kafka"):
        import confluent_kafka  # noqa: F401 - only checked
