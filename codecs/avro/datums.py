"""Datums of Avro after the frames of a registry: reading by the schemas of their ids, and writing.

avro-confluent, avro-registry                       a datum is a row
debezium-avro-confluent, avro-debezium-registry     a datum is an envelope with the row before and after a change
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._arrays import Ints, Mask
from kvformat.codecs.avro.fit import fit
from kvformat.codecs.avro.format import AvroTable, encode_rows
from kvformat.codecs.avro.read import Decoded, read_batch
from kvformat.codecs.avro.reading import READ_ENUM_AND_FIXED, AvroReading
from kvformat.codecs.avro.references import parse_complete
from kvformat.codecs.avro.resolve import plan
from kvformat.codecs.avro.schema import Schema
from kvformat.codecs.registries.cache import schemas_of_kind
from kvformat.codecs.registries.format_registry import Registry
from kvformat.codecs.registries.framing import Frames, distinct_ids
from kvformat.codecs.registries.registry import AVRO, unknown_schema, unreadable_schema
from kvformat.registry.contract.batches import EncodedBatch
from kvformat.registry.contract.error_codes import Reason, reason_arrays
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema
from kvformat.registry.contract.schemas import row_type
from kvformat.registry.contract.types import FlinkType

_read_lists = partial(read_batch, with_nulls=False)


class AvroDatums:
    """The datums of one format with a registry.

    options: those of the format. registry: its registry.
    table: returns the type and the schema of the datums of a table. type: returns the type of the datums of a table
    with rows of a type. legacy: whether timestamps are those of Flink's option `timestamp_mapping.legacy`.
    record: the full name of the rows' type, whose branch of a union is written.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        registry: Registry,
        table: Callable[[pa.Schema], AvroTable],
        type: Callable[[FlinkType], FlinkType],
        *,
        legacy: bool,
        record: str | None = None,
    ) -> None:
        self._options, self._registry, self._record = options, registry, record
        self._table, self._type, self._legacy = table, type, legacy

    def reading(self, record: Schema) -> AvroReading:
        """Return how the rows of a record schema are read."""
        return AvroReading(record, self._options[READ_ENUM_AND_FIXED], self._legacy)

    # --- writing -----------------------------------------------------------------------------------------

    def own_schema(self, schema: pa.Schema) -> RegistrySchema:
        text = self._options["schema"]
        if self._options["schema-id"] is None or text is None:
            return RegistrySchema(AVRO, self._table(schema).schema.text)
        return self.accepted(RegistrySchema(AVRO, text), schema)

    def accepted(self, latest: RegistrySchema, schema: pa.Schema) -> RegistrySchema:
        parsed = parse_complete(latest)
        self._fitted(parsed, schema)
        return RegistrySchema(AVRO, parsed.text)

    def _fitted(self, written: Schema, schema: pa.Schema) -> Schema:
        """Return the schema for writing the datums of a table as those of a registered schema."""
        return fit(written, self._type(row_type(schema)), self._legacy, self._record)

    def writer(self, rows: pa.StructArray, schema: pa.Schema) -> Callable[[int | str, RegistrySchema], EncodedBatch]:
        """Return a function that encodes rows of the datums' type after an id, given the id and its schema."""
        if not self._registry.writes_latest:
            self.own_schema(schema)  # raises `SchemaError`, also without rows

        def write(schema_id: int | str, written: RegistrySchema) -> EncodedBatch:
            fitted, prefix = self._fitted(parse_complete(written), schema), self._registry.framing.prefix(schema_id)
            return encode_rows(rows, fitted, self._type(row_type(schema)), prefix=prefix)

        return write

    # --- reading -----------------------------------------------------------------------------------------

    def decode(
        self,
        messages: pa.BinaryArray,
        reader: Schema,
        present: Mask,
        on_writer: Callable[[int | str, Schema], Reason | None] | None = None,
        *,
        read: Callable[..., Decoded] = _read_lists,
    ) -> Decoded:
        """Decode messages with the schemas of their ids.

        reader: the schema of the values. present: which messages are not null.
        on_writer: called with each id or GUID and its schema; returns an error of the schema's messages, or None.
        read: reads the datums, with the arguments of `read_batch`.
        """
        frames = self._registry.framing.read(messages, present)
        all_good = bool(frames.good.all())
        distinct, which = distinct_ids(frames.ids if all_good else frames.ids[frames.good])
        schemas = self.schemas_of(distinct.tolist(), frames)
        if on_writer is not None:
            for key, (number, schema) in zip(frames.schemas([*schemas]), schemas.items(), strict=True):
                error = on_writer(key, schema) if isinstance(schema, Schema) else None
                schemas[number] = schema if error is None else error
        writers = [schema for schema in schemas.values() if isinstance(schema, Schema)]
        is_known = np.array([isinstance(schema, Schema) for schema in schemas.values()], np.bool_)
        writer_index = np.where(is_known, np.cumsum(is_known) - 1, -1)[which] if len(distinct) > len(writers) else which
        if not all_good:
            of_good, writer_index = writer_index, np.full(len(messages), -1, np.int64)
            writer_index[frames.good] = of_good
        plans = [plan(writer, reader, self._options[READ_ENUM_AND_FIXED], self._legacy) for writer in writers]
        decoded = read(frames.messages, plans, reader, writer_index, frames.size)
        if len(distinct) == len(writers) and (all_good or (frames.good | ~present).all()):
            return decoded
        reasons = frames.errors()
        reasons[frames.good] = np.array([None if isinstance(s, Schema) else s for s in schemas.values()], object)[which]
        errors, codes = reason_arrays(reasons)
        if decoded.errors is not None:
            errors, codes = pc.coalesce(errors, decoded.errors), pc.coalesce(codes, decoded.codes)
        return Decoded(decoded.values, errors, codes)

    def writers(self, messages: pa.BinaryArray, present: Mask) -> tuple[Ints, dict[int, Schema]]:
        """Return the id of each message, -1 if it has none, and the valid schemas by their ids.

        The id of a message with a GUID is a number that stands for the GUID in this batch only.
        """
        frames = self._registry.framing.read(messages, present, only_ids=True)
        ids = np.where(frames.good, frames.ids, -1)
        known = self.schemas_of(distinct_ids(frames.ids[frames.good])[0].tolist(), frames)
        return ids, {schema_id: schema for schema_id, schema in known.items() if isinstance(schema, Schema)}

    def schemas_of(self, ids: list[int], frames: Frames) -> dict[int, Schema | Reason]:
        """Return the schema of each id, or the error of its messages. Requests and returns the ids in this order."""
        keys = frames.schemas(ids)
        answers = schemas_of_kind(self._registry.settings, keys, AVRO)
        return {schema_id: self._schema(key, answers[key]) for schema_id, key in zip(ids, keys, strict=True)}

    def _schema(self, schema_id: int | str, answer: RegistrySchema | Refused) -> Schema | Reason:
        if isinstance(answer, Refused):
            return unknown_schema(self._registry.settings, schema_id, answer.reason)
        try:
            return parse_complete(answer)
        except SchemaError as bad:
            return unreadable_schema(self._registry.settings, schema_id, str(bad))
