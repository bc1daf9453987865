"""`properties.*` of a table: the settings for Spark's Kafka client, without those that Spark sets itself."""

from __future__ import annotations

import base64
import difflib
import re
from collections.abc import Mapping

PREFIX = "properties."
# Spark sets these itself, and refuses a job that names them. A group it takes, and then fails where one application
# reads a partition twice with other settings; it joins none, commits to none, and so needs no right to one.
_SPARKS_OWN = (
    "auto.offset.reset",
    "enable.auto.commit",
    "group.id",
    "interceptor.classes",
    "key.deserializer",
    "key.serializer",
    "value.deserializer",
    "value.serializer",
)
# Flink's own, which it keeps among those of the client.
_FLINKS = (
    "client.id.prefix",
    "commit.offsets.on.checkpoint",
    "partition.discovery.interval.ms",
    "register.consumer.metrics",
)

_SETTINGS = """
    acks allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter auto.offset.reset batch.size
    bootstrap.controllers bootstrap.resolve.timeout.ms bootstrap.servers buffer.memory
    buffer.memory.allocation.strategy check.crcs client.dns.lookup client.id client.rack compression.gzip.level
    compression.lz4.level compression.type compression.zstd.level config.providers connections.max.idle.ms
    default.api.timeout.ms delivery.timeout.ms enable.auto.commit enable.idempotence enable.metrics.push
    exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id group.instance.id
    group.protocol group.remote.assignor heartbeat.interval.ms interceptor.classes internal.leave.group.on.close
    internal.throw.on.fetch.stable.offset.unsupported isolation.level key.deserializer key.serializer linger.ms
    max.block.ms max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms
    max.poll.records max.request.size metadata.cluster.check.enable metadata.max.age.ms metadata.max.idle.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms partition.assignment.strategy
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
    partitioner.ignore.keys partitioner.rack.aware receive.buffer.bytes reconnect.backoff.max.ms
    reconnect.backoff.ms request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms
    sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism
    sasl.oauthbearer.allow.unverified.audience sasl.oauthbearer.allow.unverified.issuer
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
    sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
    sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url security.protocol security.providers send.buffer.bytes session.timeout.ms
    share.acknowledgement.mode share.acquire.mode socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm
    ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain
    ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location
    ssl.truststore.password ssl.truststore.type transaction.timeout.ms transaction.two.phase.commit.enable
    transactional.id value.deserializer value.serializer
"""
CLIENT_SETTINGS = frozenset(_SETTINGS.split())
"""The settings that Kafka's own clients know (consumer, producer, admin; kafka-clients 3.9 and 4.4)."""
_NEAR = 0.8  # least similarity, from 0 to 1, of a misspelt name; a less similar name may be a setting of a plugin


def misspelt(options: Mapping[str, str]) -> dict[str, str]:
    """Return a note for each of `properties.*` that Kafka's clients do not know and that is similar to a setting.

    Kafka's clients ignore unknown settings, so a misspelt setting has no effect. Other unknown names may belong to a
    plugin, such as the login class of a cloud; they get no note.
    """
    notes = {}
    for key in options:
        name = key.removeprefix(PREFIX)
        if name == key or name in CLIENT_SETTINGS or name in _FLINKS:
            continue
        near = difflib.get_close_matches(name.lower(), CLIENT_SETTINGS, n=1, cutoff=_NEAR)
        if near:
            notes[key] = (
                f"'{key}' is not a setting of Kafka's clients and has no effect. Did you mean '{PREFIX}{near[0]}'?"
            )
    return notes


_LARGEST_KEY = 1 << 20  # bytes of a file that are read: a key has a few thousand
_PBES2 = bytes.fromhex("2a864886f70d01050d")  # the object identifier 1.2.840.113549.1.5.13
_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]*)PRIVATE KEY-----(.*?)-----END", re.DOTALL)
_PKCS8 = "openssl pkcs8 -topk8 -in KEY -out NEW"


def unreadable_key(options: Mapping[str, str]) -> dict[str, str]:
    """Return a note, by its option, if a PEM key can be read by OpenSSL and not by Spark's Kafka client in Java.

    Java's client reads PKCS#8. Java 17 can't decrypt keys encrypted with PBES2, OpenSSL's default
    (`EncryptedPrivateKeyInfo.getAlgName` names no algorithm for it); Java 25 can.
    """
    protocol = options.get(f"{PREFIX}security.protocol", "").upper()
    name, place = f"{PREFIX}ssl.keystore.key", f"{PREFIX}ssl.keystore.location"
    if not protocol.endswith("SSL"):
        return {}
    text = options.get(name, "")
    if not text and options.get(f"{PREFIX}ssl.keystore.type", "").upper() == "PEM":
        name, text = place, _key_file(options.get(place, ""))
    match = _PEM.search(text)
    if match is None:
        return {}
    kind, body = match[1].strip(), match[2]
    if kind == "ENCRYPTED" and _PBES2 in _decoded(body):
        return {
            name: f"'{name}' is a key encrypted with PBES2, OpenSSL's default, which Java 17 can't decrypt: there "
            f"reading and writing fail. Encrypt the key with another cipher ({_PKCS8} -v1 PBE-SHA1-3DES), do not "
            "encrypt it (-nocrypt), or run Spark on a newer Java"
        }
    if kind in ("RSA", "EC", "DSA"):
        return {
            name: f"'{name}' is a key in OpenSSL's form ({kind} PRIVATE KEY), which Spark's Kafka client can't read. "
            f"Convert it to PKCS#8: {_PKCS8} -v1 PBE-SHA1-3DES, or -nocrypt for an unencrypted key"
        }
    return {}


def _key_file(path: str) -> str:
    """Read a file; returns an empty text if it can't be read here, because Spark may run on another machine."""
    try:
        with open(path, encoding="latin-1") as file:
            return file.read(_LARGEST_KEY)
    except (OSError, ValueError):
        return ""


def _decoded(body: str) -> bytes:
    try:
        return base64.b64decode("".join(body.split()))
    except ValueError:
        return b""


def client_options(options: Mapping[str, str]) -> dict[str, str]:
    """Rename `properties.x` to `kafka.x`; leaves out settings that Spark sets, and those of Flink's source."""
    names = [key.removeprefix(PREFIX) for key in options if key.startswith(PREFIX)]
    return {f"kafka.{name}": options[PREFIX + name] for name in names if name not in (*_SPARKS_OWN, *_FLINKS)}
