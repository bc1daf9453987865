"""Columns of Debezium's own types, read with 'types' = 'debezium'; schemas in messages or a registry declare them.

| Connect, Debezium | column |
| --- | --- |
| `Decimal` | DECIMAL(p, s), up to 38 digits; else STRING |
| `VariableScaleDecimal`, `Interval`, texts | STRING |
| days; times of a day; moments; durations | DATE; TIME; TIMESTAMP; INTERVAL DAY TO SECOND |
| `ZonedTimestamp` | TIMESTAMP_LTZ(6) |
| `EnumSet`, `Bits` | ARRAY<STRING>, BIGINT (BYTES beyond 63 bits) |

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

from kvformat.codecs.debezium.connect_schema import DECIMAL, ConnectSchema
from kvformat.codecs.debezium.parse_texts import parse_instant
from kvformat.codecs.debezium.value_readings import has_debezium_type
from kvformat.codecs.discovery.column_types import Notes, array_of, is_name, map_of, shown
from kvformat.codecs.discovery.value_summary import MOST_DIGITS
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.common_types import merge_types
from kvformat.registry.contract.discovery import get_format
from kvformat.registry.contract.fork_safe import cached_property
from kvformat.registry.contract.samples import columns_text
from kvformat.registry.contract.schemas import resolve_schema
from kvformat.registry.contract.types import BYTES, INTEGER_BITS, STRING, FlinkField, FlinkType

TYPES = {"types": "debezium"}
BIGINT = FlinkType("BIGINT")
MOMENT = FlinkType("TIMESTAMP_LTZ", precision=6)
MARKS = ("__op", "__deleted")
"""Members that state the operation in flattened rows; they are not columns."""
_TIME, _DATA, _CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
_SET = f"{_DATA}EnumSet"
PRIMITIVES = {
    "boolean": FlinkType("BOOLEAN"),
    "int8": FlinkType("TINYINT"),
    "int16": FlinkType("SMALLINT"),
    "int32": FlinkType("INT"),
    "int64": BIGINT,
    "float32": FlinkType("FLOAT"),
    "float64": FlinkType("DOUBLE"),
    "bytes": BYTES,
}
_LOGICAL = {
    f"{_TIME}Date": FlinkType("DATE"),
    f"{_CONNECT}Date": FlinkType("DATE"),
    f"{_TIME}IsoDate": FlinkType("DATE"),
    f"{_TIME}Time": FlinkType("TIME", precision=3),
    f"{_CONNECT}Time": FlinkType("TIME", precision=3),
    f"{_TIME}MicroTime": FlinkType("TIME", precision=6),
    f"{_TIME}Timestamp": FlinkType("TIMESTAMP", precision=3),
    f"{_CONNECT}Timestamp": FlinkType("TIMESTAMP", precision=3),
    f"{_TIME}MicroTimestamp": FlinkType("TIMESTAMP", precision=6),
    f"{_TIME}MicroDuration": FlinkType("INTERVAL DAY TO SECOND"),
    f"{_DATA}VariableScaleDecimal": STRING,
    _SET: array_of(STRING),
}
_HIGH_PRECISION = {
    f"{_TIME}NanoTime": FlinkType("TIME", precision=6),
    f"{_TIME}NanoTimestamp": FlinkType("TIMESTAMP", precision=6),
    f"{_TIME}NanoDuration": FlinkType("INTERVAL DAY TO SECOND"),
    f"{_TIME}ZonedTimestamp": MOMENT,
    f"{_TIME}ZonedTime": FlinkType("TIME", precision=6),
    f"{_TIME}IsoTime": FlinkType("TIME", precision=6),
    f"{_TIME}IsoTimestamp": FlinkType("TIMESTAMP", precision=6),
}
"""Types whose values may have digits below a microsecond, or a UTC offset that a column does not keep."""
_INSTANT = r"^[^.]*(\.[0-9]{1,6})?(Z|[+-][0-9:]+)$|^-?infinity$"
_OF_UTC = r"^[^.]*(\.[0-9]{1,6})?Z$"
_MOST_BITS = 63  # of a BIGINT, without the sign


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
        return any(schema.name == f"{_TIME}ZonedTimestamp" for schemas in self.declared.values() for schema in schemas)

    def columns(self, notes: Notes) -> tuple[FlinkField, ...]:
        """Return the columns, each with a type that reads all values of the sample unchanged."""
        return tuple(FlinkField(name, self._type(name, notes)) for name in self.declared if is_name(name))

    def _type(self, name: str, notes: Notes) -> FlinkType:
        schemas = self.declared[name]
        found = [type_of_connect(schema) for schema in schemas]
        usual = _common_type(found)
        wire = [t for kind, t in (("int64", BIGINT), ("bytes", BYTES)) if any(_is_plain(s, kind) for s in schemas)]
        for t in (usual, *wire):
            if t is not None and not self._errors(name, t) and self._is_whole(name, schemas, t):
                if t != usual:
                    types = " and ".join(sorted({*map(str, schemas)}))
                    notes.add(f"{types}, but {usual or 'one type'} does not take all values as they are", shown(name))
                return t
        if usual != STRING:
            notes.add(f"{' and '.join(sorted({*map(str, schemas)}))}: no type but text takes all", shown(name))
        return STRING

    def _is_whole(self, name: str, schemas: list[ConnectSchema], t: FlinkType) -> bool:
        """Return whether the type keeps all digits and offsets of the values."""
        finer = {schema.type for schema in schemas if schema.name in _HIGH_PRECISION}
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
        errors = self._decode(name, t).errors
        return 0 if errors is None else len(errors) - int(errors.null_count)

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
    return schema.name == _SET or any(map(_has_set, inner))


def _is_plain(schema: ConnectSchema, kind: str) -> bool:
    return schema.type == kind and schema.name != DECIMAL


def type_of_connect(schema: ConnectSchema, inside: bool = False) -> FlinkType:
    """Return the type for a schema. With `inside` (a row, array or map), the type keeps all values unchanged."""
    if schema.name == DECIMAL:
        return _decimal(schema)
    if schema.name in _HIGH_PRECISION:
        return _HIGH_PRECISION[schema.name] if not inside else BIGINT if schema.type == "int64" else STRING
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    if schema.name == f"{_DATA}Bits":
        length = schema.parameters.get("length", "0")
        return BIGINT if length.isdecimal() and int(length) <= _MOST_BITS else BYTES
    if schema.type == "struct":
        fields = tuple(FlinkField(n, type_of_connect(part, True)) for n, part in schema.fields.items() if is_name(n))
        return FlinkType("ROW", fields=fields) if fields else STRING
    if schema.items is not None:
        items = type_of_connect(schema.items, True)
        return array_of(items) if schema.type == "array" else map_of(items)
    return PRIMITIVES.get(schema.type, STRING)


def _decimal(schema: ConnectSchema) -> FlinkType:
    """Return DECIMAL with the precision of the schema, else the maximum; STRING if a DECIMAL is too small."""
    texts = [schema.parameters.get(name, "") for name in ("scale", "connect.decimal.precision")]
    scale, precision = (int(t) if t.lstrip("-").isdecimal() and len(t) < 5 else None for t in texts)
    if scale is None:
        return STRING
    digits = MOST_DIGITS if precision is None else precision - min(scale, 0)
    scale = max(scale, 0)
    return FlinkType("DECIMAL", precision=digits, scale=scale) if scale <= digits <= MOST_DIGITS else STRING


def _common_type(types: list[FlinkType]) -> FlinkType | None:
    """Return a common type for several types; None if only text can hold all of them."""
    roots = {t.root for t in types}
    if roots == {"TIME"}:
        return max(types, key=lambda t: t.precision or 0)
    if len(roots) > 1 and not roots <= INTEGER_BITS.keys():
        return None
    found = functools.reduce(merge_types, types)
    return found if found.root in roots else None
