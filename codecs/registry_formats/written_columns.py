"""The columns of messages by the schemas in the registry that wrote them, and a looker of them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kvformat.codecs.avro.discover import avro_columns
from kvformat.codecs.avro.references import parse_complete
from kvformat.codecs.avro.schema import records_of
from kvformat.codecs.discovery.column_types import Notes
from kvformat.codecs.discovery.findings import Findings, schema_contributions
from kvformat.codecs.json.schema_columns import columns_of_json_schema
from kvformat.codecs.protobuf.schema_columns import columns_of_proto_schema
from kvformat.codecs.registries.cache import schemas_of_kind
from kvformat.codecs.registries.confluent_frames import IndexPath
from kvformat.codecs.registries.registry import AVRO, PROTOBUF
from kvformat.codecs.registry_formats.record_types import schema_groups
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.look import Looked, Looker, LookRequest, WrittenColumns
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema
from kvformat.registry.contract.types import FlinkField, FlinkType, nullable

if TYPE_CHECKING:
    from kvformat.codecs.registry_formats.record_format import RecordFormat


def written_columns(messages: pa.BinaryArray, format: RecordFormat) -> WrittenColumns:
    """Return the columns of messages by their schemas: none for a schema that can't be read. Decoding says why."""
    groups, which, _ = schema_groups(messages, format.framing, format.kind)
    answers = schemas_of_kind(format.settings, list(dict.fromkeys(schema_id for schema_id, _ in groups)), format.kind)
    schemas = ((answers[schema_id], path) for schema_id, path in groups)
    columns = tuple({} if isinstance(schema, Refused) else _columns(schema, path) for schema, path in schemas)
    return WrittenColumns(pa.array(which, pa.int32(), mask=which < 0), columns)


@functools.lru_cache(maxsize=1024)
def _columns(schema: RegistrySchema, path: IndexPath) -> Mapping[str, FlinkType]:
    """Return the columns of a schema; none if no table can have them."""
    try:
        if schema.kind == AVRO:
            return _of_all(avro_columns(record) for record in records_of(parse_complete(schema)))
        if schema.kind == PROTOBUF:
            return _of_all([columns_of_proto_schema(schema, Notes(), path)])
        return _of_all([columns_of_json_schema(schema, Notes())])
    except SchemaError:
        return {}


def _of_all(rows: Iterable[Iterable[FlinkField]]) -> Mapping[str, FlinkType]:
    """Return the columns of the records of a union, without those that have another type in another record."""
    types: dict[str, FlinkType] = {}
    differ = set[str]()
    for row in rows:
        for field in row:
            if types.setdefault(field.name, nullable(field.type)) != nullable(field.type):
                differ.add(field.name)
    return {name: t for name, t in types.items() if name not in differ}


class SchemaLooker:
    """Looks at messages by the columns of their schemas; see `Looker`. Without schemas, `inner` looks at the values.

    The types of several schemas are merged by the caller, so it does not matter which messages are in a batch.
    """

    def __init__(self, format: RecordFormat, inner: Looker, request: LookRequest) -> None:
        self._format, self._inner, self._request = format, inner, request

    def look(self, messages: pa.BinaryArray, topics: pa.StringArray) -> Looked:
        """Return what the messages contribute."""
        written = self._format.written_columns(messages)
        if written is None or not any(written.columns):
            return self._inner.look(messages, topics)
        findings = Findings(len(messages), self._request)
        encoded = topics.dictionary_encode()
        names = [(str(topic),) for topic in encoded.dictionary.to_pylist()]
        slots = np.where(np.asarray(messages.is_valid()), np.asarray(encoded.indices.fill_null(-1)), -1)
        groups = np.stack([slots, np.asarray(written.numbers.fill_null(-1))])
        for slot, number in np.unique(groups, axis=1).T.tolist():
            if slot < 0:
                continue
            indexes = np.flatnonzero((groups[0] == slot) & (groups[1] == number))
            table = findings.table(names[slot])
            types = written.columns[number] if number >= 0 else {}
            error = table.add(int(indexes[0]), list(schema_contributions(types.items(), table, self._request)))
            if error is not None:
                slots[indexes] = -1
                for index in indexes.tolist():
                    findings.fail(index, error)
        findings.set_tables(slots.astype(np.int32).data, names)
        return findings.looked()
