"""The options about a schema registry, of all formats that have one."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from kvformat.registry.contract.options import Option

PROPERTIES = {  # Flink's options and their names in Confluent's Java client
    "ssl.keystore.location": "schema.registry.ssl.keystore.location",
    "ssl.keystore.password": "schema.registry.ssl.keystore.password",
    "ssl.truststore.location": "schema.registry.ssl.truststore.location",
    "ssl.truststore.password": "schema.registry.ssl.truststore.password",
    "basic-auth.credentials-source": "basic.auth.credentials.source",
    "basic-auth.user-info": "basic.auth.user.info",
    "bearer-auth.credentials-source": "bearer.auth.credentials.source",
    "bearer-auth.token": "bearer.auth.token",
}
SCHEMA_CONTEXT, SUBJECT_NAMES, ID_ENCODING = "schema-context", "subject-names", "id-encoding"
HEADER = "header"

SUBJECT = Option(
    name="subject",
    fallback=("schema-registry.subject",),
    doc="The subject that the schema is registered under. Required for writing.",
)
ON_NEW_SCHEMA, IGNORE, WARN, FAIL = "on-new-schema", "ignore", "warn", "fail"
CLIENT_OPTIONS = (
    Option(
        name=ON_NEW_SCHEMA,
        type="enum",
        default=IGNORE,
        allowed=(IGNORE, WARN, FAIL),
        doc="Ours. Reading: what happens if the schema of a message has fields or wider types that the table does not "
        "show: nothing, a warning once for each schema and process, or an error of its messages.",
    ),
    Option(name="ssl.keystore.location", doc="A PEM file with the client's certificate and key."),
    Option(name="ssl.keystore.password", sensitive=True, doc="The password of the client's key."),
    Option(name="ssl.truststore.location", doc="A PEM file with the certificates to trust."),
    Option(name="ssl.truststore.password", sensitive=True, doc="Not needed for a PEM file."),
    Option(name="basic-auth.credentials-source", doc="`USER_INFO` or `URL`."),
    Option(name="basic-auth.user-info", sensitive=True, doc="`<user>:<password>`."),
    Option(name="bearer-auth.credentials-source", doc="`STATIC_TOKEN` or `OAUTHBEARER`."),
    Option(name="bearer-auth.token", sensitive=True, doc="The token of `STATIC_TOKEN`."),
    Option(
        name="properties",
        type="map",
        sensitive=True,
        doc="Further settings of the registry's client, with Confluent's names: `properties.<name>`, or one string.",
    ),
    Option(
        name="auto-register-schemas",
        type="boolean",
        default=True,
        doc="Ours. Whether writing registers the schema. Otherwise, it must already be registered under the subject.",
    ),
    Option(
        name="use-latest-version",
        type="boolean",
        default=False,
        doc="Ours. Whether writing uses the latest schema of the subject, and registers none. The table must fit it.",
    ),
    Option(name="schema-id", type="int", doc="Ours. The schema id to write. The registry is then not asked for it."),
    Option(
        name="register-in-executors",
        type="boolean",
        default=False,
        doc="Ours. Whether Spark's executors request the id to write. Set it if the process that plans the job can't "
        "reach the registry.",
    ),
    Option(
        name="registry-timeout",
        type="duration",
        default=dt.timedelta(seconds=30),
        doc="Ours. The timeout of one request to the registry, including all attempts.",
    ),
    Option(
        name="registry-retries", type="int", default=3, doc="Ours. The number of attempts after a failed first one."
    ),
    Option(
        name="registry-backoff",
        type="duration",
        default=dt.timedelta(seconds=0.5),
        doc="Ours. The wait before the second attempt. Each further wait is twice as long, up to 20 s.",
    ),
)
"""The registry's client, and the id to write."""


def url_option(files: str, *, cloud: bool) -> Option:
    """Return the option for the registry's URL. `files` are the names of schemas in a folder."""
    return Option(
        name="url",
        required=not cloud,
        fallback=("schema-registry.url",),
        doc=f"{'Ours, where Confluent Cloud knows the registry. ' if cloud else ''}The URL of the schema registry, or "
        f"several URLs with commas; also `mock://<scope>` (in memory) and `file:<folder>` (`{files}` files).",
    )


_CLOUD = (
    Option(name=SCHEMA_CONTEXT, doc="The context of the registry that has the schemas, such as `.flink-dev`."),
    Option(
        name=SUBJECT_NAMES,
        type="list",
        doc="The subject of the topic's schemas, in place of the topic's name with `-key` or `-value`.",
    ),
    Option(
        name=ID_ENCODING,
        type="enum",
        default="payload",
        allowed=("payload", HEADER),
        doc="Writing: where the schema's id is, only before the value. Reading finds it there and in headers.",
    ),
)


def cloud_options(files: str, *options: Option) -> tuple[Option, ...]:
    """Return the options of a format of Flink on Confluent Cloud, where no table names the registry.

    `files` are the names of schemas in a folder. `options` are those of the format itself.
    """
    of_ours = f"Ours. The subject that the schema is registered under; another name for `{SUBJECT_NAMES}`."
    return (url_option(files, cloud=True), *_CLOUD, *options, replace(SUBJECT, doc=of_ours), *CLIENT_OPTIONS)
