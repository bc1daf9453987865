"""The base class of Avro formats with a schema registry: options, reading by schema ids, and the id to write.

avro-confluent              the datum is a row
debezium-avro-confluent     the datum is an envelope with the row before and after a change
"""

from __future__ import annotations

import datetime as dt
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs import _avro
from kvformat.codecs._avro import Schema, parse_schema
from kvformat.codecs._avro.read import read_batch
from kvformat.codecs._avro.types import check_provided
from kvformat.codecs._confluent import (
    PREFIX,
    Refused,
    RegistrySettings,
    distinct_ids,
    id_of_schema,
    latest_schema,
    prefix,
    read_frames,
    schemas_by_id,
)
from kvformat.codecs.avro import AvroTable, encode_rows
from kvformat.registry.contract.batches import EncodedBatch
from kvformat.registry.contract.error_codes import ErrorCode, split_codes
from kvformat.registry.contract.errors import OptionError, SchemaError, SchemaRegistryError
from kvformat.registry.contract.fork_safe import cached_property
from kvformat.registry.contract.format_hooks import Part
from kvformat.registry.contract.options import Direction, Option
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.format import Format

_Mask = npt.NDArray[np.bool_]

_PROPERTIES = {  # Flink's options and their names in Confluent's Java client
    "ssl.keystore.location": "schema.registry.ssl.keystore.location",
    "ssl.keystore.password": "schema.registry.ssl.keystore.password",
    "ssl.truststore.location": "schema.registry.ssl.truststore.location",
    "ssl.truststore.password": "schema.registry.ssl.truststore.password",
    "basic-auth.credentials-source": "basic.auth.credentials.source",
    "basic-auth.user-info": "basic.auth.user.info",
    "bearer-auth.credentials-source": "bearer.auth.credentials.source",
    "bearer-auth.token": "bearer.auth.token",
}


REGISTRY_OPTIONS = (
    Option(
        name="url",
        required=True,
        fallback=("schema-registry.url",),
        doc="The URL of the schema registry, or several URLs with commas; also `mock://<scope>` (in memory) and "
        "`file:<folder>` (`<id>.avsc` files).",
    ),
    Option(
        name="subject",
        fallback=("schema-registry.subject",),
        doc="The subject that the schema is registered under. Required for writing.",
    ),
    Option(
        name="schema",
        fallback=("schema-registry.schema",),
        doc="The Avro schema for reading and writing, instead of the schema derived from the table. Its types must be "
        "the table's types.",
    ),
    Option(
        name="read-enum-and-fixed",
        type="boolean",
        default=False,
        doc="Ours. Whether an enum is read as STRING and a fixed as BYTES. Otherwise, only the option `schema` reads "
        "them, as in Flink. Ingestion sets it.",
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
        doc="Ours. Whether writing uses the latest schema of the subject. Its types must be the table's types.",
    ),
    Option(
        name="schema-id",
        type="int",
        doc="Ours. The schema id to write. The registry is then not asked for it.",
    ),
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


_read_lists = partial(read_batch, with_nulls=False)


class RegistryFormat(Format):
    """A format whose messages start with the id of a schema, followed by a datum of this schema."""

    encode_needs_schema: ClassVar[bool] = True
    option_specs: ClassVar[tuple[Option, ...]] = REGISTRY_OPTIONS

    @classmethod
    def complete_options(cls, options: Mapping[str, Any], *, topic: str, part: Part) -> Mapping[str, Any]:
        given = "subject" in options or "schema-registry.subject" in options
        return options if given else {**options, "subject": f"{topic}-{part}"}

    @classmethod
    def look_options(cls, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Read enum and fixed too, because no table says which fields it needs."""
        (schema,) = (spec for spec in cls.option_specs if spec.name == "schema")
        for key in schema.keys(options):
            raise OptionError(
                f"the option '{key}' sets one schema, but the columns of each table come from the schemas of its "
                "messages. Remove the option; a 'projection' in 'transform' selects columns",
                format=cls.identifier,
                option=key,
            )
        return {"read-enum-and-fixed": "true", **options}

    def validate(self, direction: Direction) -> None:
        super().validate(direction)
        if direction == "decode":
            self.settings.check_authentication()
        elif self.options["subject"] is None:
            raise OptionError(
                f"Option {self.identifier}.subject is required for serialization",
                format=self.identifier,
                option="subject",
            )

    def for_encoding(self, schema: pa.Schema) -> Format:
        """Return the format with the id to write. Requests the id here, once for all executors.

        With the option `register-in-executors`, each executor requests it.
        """
        if self.options["register-in-executors"] or self.options["schema-id"] is not None:
            return self
        table = self.table(schema)
        try:
            found = self._writer_schema(table)
        except SchemaRegistryError as error:
            error.add_note(
                "encode requests the schema's id in the process that plans the job. If only the executors can reach "
                "the registry, set the option 'register-in-executors' = 'true'"
            )
            raise
        if isinstance(found, Refused):
            raise SchemaError(f"format '{self.identifier}': {found.reason}", format=self.identifier)
        schema_id, written = found
        known = {**self._given, "schema-id": str(schema_id)}
        return type(self)(known if written is table.schema else {**known, "schema": written.text})

    @abstractmethod
    def table(self, schema: pa.Schema) -> AvroTable:
        """Return the type and the schema of the datums of a table."""

    def check(self, provided: Schema, row: FlinkType) -> None:
        """Raise `SchemaError` if a schema does not have the type of the datums."""
        check_provided(provided, row, self.identifier)

    @cached_property
    def settings(self) -> RegistrySettings:
        """The settings of the registry."""
        options = self.options
        named = {name: options[option] for option, name in _PROPERTIES.items() if options[option] is not None}
        return RegistrySettings(
            url=options["url"],
            properties=tuple(sorted(({**(options["properties"] or {}), **named}).items())),
            timeout=options["registry-timeout"].total_seconds(),
            retries=max(options["registry-retries"], 0),
            backoff=options["registry-backoff"].total_seconds(),
        )

    # --- writing -----------------------------------------------------------------------------------------

    def _writer_schema(self, table: AvroTable) -> tuple[int, Schema] | Refused:
        """Return the id to write and its schema, or the registry's refusal."""
        options, subject = self.options, self.options["subject"]
        if options["schema-id"] is not None:
            return options["schema-id"], table.schema
        if not subject:
            return Refused("the option 'subject' is empty")
        if options["use-latest-version"]:
            latest = latest_schema(self.settings, subject)
            if isinstance(latest, Refused):
                return Refused(f"subject {subject!r} has no latest schema: {latest.reason}")
            try:
                schema = parse_schema(latest[1], check_defaults=False)
                if schema != table.schema:
                    self.check(schema, table.row)
            except SchemaError as bad:  # the message quotes the registry's answer
                raise SchemaError(self.settings.scrubbed(str(bad)), format=self.identifier, field=bad.field) from None
            return latest[0], table.schema if schema == table.schema else schema
        register = options["auto-register-schemas"]
        found = id_of_schema(self.settings, subject, table.schema.text, register=register)
        if isinstance(found, Refused):
            refused = "the schema registry refuses the schema" if register else "the schema is not registered"
            how = "" if register else ". Register it, or set 'auto-register-schemas' = 'true'"
            return Refused(f"{refused} for subject {subject!r}: {found.reason}{how}. The schema: {table.schema.text}")
        return found, table.schema

    def encode_datums(self, rows: pa.StructArray, table: AvroTable) -> EncodedBatch:
        """Encode rows as datums after the id to write. A null row is a null message. Without an id, all rows fail."""
        if rows.null_count == len(rows):
            return EncodedBatch(pa.nulls(len(rows), pa.binary()))
        found = self._writer_schema(table)
        if isinstance(found, Refused):
            error = ErrorCode.UNKNOWN_SCHEMA.marked(found.reason)
            errors = pc.if_else(rows.is_valid(), pa.scalar(error), pa.scalar(None, pa.string()))
            return EncodedBatch(pa.nulls(len(rows), pa.binary()), errors)
        schema_id, written = found
        return encode_rows(rows, written, table.row, prefix=prefix(schema_id))

    # --- reading -----------------------------------------------------------------------------------------

    def decode_datums(
        self,
        messages: pa.BinaryArray,
        reader: Schema,
        present: _Mask,
        on_writer: Callable[[Schema], None] | None = None,
        *,
        read: Callable[..., _avro.Decoded] = _read_lists,
    ) -> _avro.Decoded:
        """Decode messages with the schemas of their ids.

        reader: the schema of the values. present: which messages are not null.
        on_writer: called with the schema of each id. read: reads the datums, with the arguments of `read_batch`.
        """
        frames = read_frames(messages, present)
        all_good = bool(frames.good.all())
        found, which = distinct_ids(frames.ids if all_good else frames.ids[frames.good])
        schemas = self._schemas_of(found.tolist())
        writers = [schema for schema in schemas.values() if isinstance(schema, Schema)]
        if on_writer is not None:
            for writer in writers:
                on_writer(writer)
        is_known = np.array([isinstance(schema, Schema) for schema in schemas.values()], np.bool_)
        writer_index = np.where(is_known, np.cumsum(is_known) - 1, -1)[which] if len(found) > len(writers) else which
        if not all_good:
            of_good, writer_index = writer_index, np.full(len(messages), -1, np.int64)
            writer_index[frames.good] = of_good
        plans = [_avro.plan(writer, reader, self.options["read-enum-and-fixed"]) for writer in writers]
        decoded = read(messages, plans, reader, writer_index, PREFIX)
        if len(found) == len(writers) and (all_good or (frames.good | ~present).all()):
            return decoded
        reasons = frames.errors()
        reasons[frames.good] = np.array([None if isinstance(s, Schema) else s for s in schemas.values()], object)[which]
        errors, codes = split_codes(pa.array(reasons, pa.string()))
        if decoded.errors is not None:
            errors, codes = pc.coalesce(errors, decoded.errors), pc.coalesce(codes, decoded.codes)
        return _avro.Decoded(decoded.values, errors, codes)

    def writers(self, messages: pa.BinaryArray, present: _Mask) -> tuple[npt.NDArray[np.int32], dict[int, Schema]]:
        """Return the id of each message, -1 if it has none, and the valid schemas by their ids."""
        frames = read_frames(messages, present)
        ids = np.where(frames.good, frames.ids, -1)
        known = self._schemas_of(distinct_ids(frames.ids[frames.good])[0].tolist())
        return ids, {schema_id: schema for schema_id, schema in known.items() if isinstance(schema, Schema)}

    def _schemas_of(self, ids: list[int]) -> dict[int, Schema | str]:
        """Return the schema of each id, or the error of its messages. Requests and returns the ids in this order."""
        texts = schemas_by_id(self.settings, ids)
        return {schema_id: self._schema(schema_id, texts[schema_id]) for schema_id in ids}

    def _schema(self, schema_id: int, text: str | Refused) -> Schema | str:
        registry = f"the schema registry at {self.settings.shown_url}"
        if isinstance(text, Refused):
            return ErrorCode.UNKNOWN_SCHEMA.marked(
                f"Could not find schema with id {schema_id} in {registry}: {text.reason}"
            )
        try:
            return parse_schema(text, check_defaults=False)
        except SchemaError as bad:
            reason = self.settings.scrubbed(str(bad))
            return ErrorCode.UNKNOWN_SCHEMA.marked(
                f"the schema with id {schema_id} in {registry} can't be read: {reason}"
            )
