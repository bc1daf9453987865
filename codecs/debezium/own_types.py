"""Columns of Debezium's own types, read with 'types' = 'debezium'; schemas in messages or a registry declare them.

A column gets the type of the wire (BIGINT, STRING or BYTES) if its own type cannot read all values of the sample or
would cut off digits below a microsecond. In rows, arrays and maps, types that might cut off digits are never used.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._rows import error_count
from kvformat.codecs.debezium.connect_schema import DECIMAL, ConnectSchema
from kvformat.codecs.debezium.connect_types import BIGINT, HIGH_PRECISION, SET, ZONED, own_type
from kvformat.codecs.debezium.parse_texts import parse_instant
from kvformat.codecs.debezium.value_readings import has_debezium_type
from kvformat.codecs.discovery.column_types import Notes, is_name, shown
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.common_types import merge_types
from kvformat.registry.contract.discovery import get_format
from kvformat.registry.contract.fork_safe import cached_property
from kvformat.registry.contract.samples import columns_text
from kvformat.registry.contract.schemas import resolve_schema
from kvformat.registry.contract.types import BYTES, INTEGER_BITS, STRING, FlinkField, FlinkType

TYPES = {"types": "debezium"}
MARKS = ("__op", "__deleted")
"""Members that state the operation in flattened rows; they are not columns."""
_INSTANT = r"^[^.]*(\.[0-9]{1,6})?(Z|[+-][0-9:]+)$|^-?infinity$"
_OF_UTC = r"^[^.]*(\.[0-9]{1,6})?Z$"


@dataclass(frozen=True)
class DebeziumColumns:
    """Proposes columns for messages of one format, given its options without `types`.

    `declared` contains the distinct schemas of each column.
    """

    format: str
    options: Mapping[str, Any]
    messages: pa.BinaryArray
    declared: dict[str, list[ConnectSchema]] = field(default_factory=dict)

    def declare(self, image: ConnectSchema | None, *, without: Collection[str] = ()) -> None:
        """Add the columns of a row's schema, except the members in `without`, which are not columns."""
        for name, schema in ({} if image is None else image.fields).items():
            if name in without:
                continue
            known = self.declared.setdefault(name, [])
            if schema not in known:
                known.append(schema)

    @property
    def have_own_types(self) -> bool:
        """Whether a column has a type that Flink reads differently, or that is proposed differently from Flink."""
        return any(has_debezium_type(s) or _has_set(s) for schemas in self.declared.values() for s in schemas)

    @property
    def have_moments(self) -> bool:
        """Whether a column is a timestamp as text, which Avro reads only with Debezium's types."""
        return any(schema.name == ZONED for schemas in self.declared.values() for schema in schemas)

    def columns(self, notes: Notes) -> tuple[FlinkField, ...]:
        """Return the columns, each with a type that reads all values of the sample unchanged."""
        return tuple(FlinkField(name, self._type(name, notes)) for name in self.declared if is_name(name))

    def _type(self, name: str, notes: Notes) -> FlinkType:
        schemas = self.declared[name]
        usual = _common_type([own_type(schema) for schema in schemas])
        names = " and ".join(sorted({*map(str, schemas)}))
        wire = [t for kind, t in (("int64", BIGINT), ("bytes", BYTES)) if any(_is_plain(s, kind) for s in schemas)]
        for t in (usual, *wire):
            if t is not None and not self._errors(name, t) and self._is_whole(name, schemas, t):
                if t != usual:
                    notes.add(f"{names}, but {usual or 'one type'} does not take all values as they are", shown(name))
                return t
        if usual != STRING:
            notes.add(f"{names}: no type but text takes all", shown(name))
        return STRING

    def _is_whole(self, name: str, schemas: list[ConnectSchema], t: FlinkType) -> bool:
        """Return whether the type keeps all digits and offsets of the values."""
        finer = {schema.type for schema in schemas if schema.name in HIGH_PRECISION}
        if not finer or t in (BIGINT, STRING):
            return True
        if finer == {"int64"}:
            counts = self._decode_column(name, BIGINT)
            return bool(pc.all(pc.equal(pc.multiply(pc.divide(counts, 1000), 1000), counts), min_count=0).as_py())
        pattern = _INSTANT if t.root == "TIMESTAMP_LTZ" else _OF_UTC
        return bool(pc.all(pc.match_substring_regex(self._decode_column(name, STRING), pattern), min_count=0).as_py())

    def _errors(self, name: str, t: FlinkType) -> bool:
        """Return whether the column causes errors, besides the messages that fail with any column."""
        return self._count(name, t) > self._unrelated_errors

    @cached_property
    def _unrelated_errors(self) -> int:
        """Number of messages that fail with any column."""
        return self._count(f"no_{''.join(self.declared)}", STRING)

    def _count(self, name: str, t: FlinkType) -> int:
        return error_count(self._decode(name, t))

    def _decode_column(self, name: str, t: FlinkType) -> pa.Array:
        return self._decode(name, t).rows.values.field(0)

    def _decode(self, name: str, t: FlinkType) -> DecodedBatch:
        schema = resolve_schema(columns_text((FlinkField(name, t),)))
        return get_format(self.format, {**self.options, **TYPES}).decode_batch(self.messages, schema)


def is_instant(text: str) -> bool:
    """Return whether TIMESTAMP_LTZ(6) keeps a text of `ZonedTimestamp` unchanged."""
    try:
        parse_instant(text)
    except ValueError:
        return False
    return re.match(_INSTANT, text) is not None


def _has_set(schema: ConnectSchema) -> bool:
    """Return whether a schema contains an `EnumSet`: a comma-separated text that becomes an array."""
    inner = (*schema.fields.values(), *(() if schema.items is None else (schema.items,)))
    return schema.name == SET or any(map(_has_set, inner))


def _is_plain(schema: ConnectSchema, kind: str) -> bool:
    return schema.type == kind and schema.name != DECIMAL


def _common_type(types: list[FlinkType]) -> FlinkType | None:
    """Return a common type for several types; None if only text can hold all of them."""
    roots = {t.root for t in types}
    if roots == {"TIME"}:
        return max(types, key=lambda t: t.precision or 0)
    if len(roots) > 1 and not roots <= INTEGER_BITS.keys():
        return None
    common = functools.reduce(merge_types, types)
    return common if common.root in roots else None
