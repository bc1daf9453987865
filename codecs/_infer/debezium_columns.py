"""Columns by Debezium's own types: 'types' = 'debezium' reads what the schemas in messages, or in a registry, say.

| Connect, Debezium | column |
| --- | --- |
| `Decimal` | DECIMAL(p, s), up to 38 digits; else STRING |
| `VariableScaleDecimal`, `Interval`, texts | STRING |
| days; times of a day; moments; durations | DATE; TIME; TIMESTAMP; INTERVAL DAY TO SECOND |
| `ZonedTimestamp` | TIMESTAMP_LTZ(6) |
| `EnumSet`, `Bits` | ARRAY<STRING>, BIGINT (BYTES beyond 63 bits) |

A column that does not read all values of the sample, or would cut digits below a microsecond off, is what is on the
wire instead: BIGINT, STRING or BYTES. What is in rows, arrays and maps is so from the start where that may happen.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs._debezium.connect_schema import DECIMAL, ConnectSchema
from kvformat.codecs._debezium.parse_texts import parse_instant
from kvformat.codecs._debezium.value_readings import has_debezium_type
from kvformat.codecs._infer.column_types import BYTES, STRING, Notes, array_of, is_name, map_of, shown
from kvformat.codecs._infer.value_summary import MOST_DIGITS
from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.discovery import get_format
from kvformat.registry.contract.samples import columns_text
from kvformat.registry.contract.schemas import resolve_schema
from kvformat.registry.contract.types import FlinkField, FlinkType

TYPES = {"types": "debezium"}
BIGINT = FlinkType("BIGINT")
MOMENT = FlinkType("TIMESTAMP_LTZ", precision=6)
MARKS = ("__op", "__deleted")
"""Members of rows alone that say what was done; they are not columns."""
_TIME, _DATA, _CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
_SET = f"{_DATA}EnumSet"
_PRIMITIVES = {
    "boolean": FlinkType("BOOLEAN"),
    "int8": FlinkType("TINYINT"),
    "int16": FlinkType("SMALLINT"),
    "int32": FlinkType("INT"),
    "int64": BIGINT,
    "float32": FlinkType("FLOAT"),
    "float64": FlinkType("DOUBLE"),
    "bytes": BYTES,
}
_MEANT = {
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
_FINER = {
    f"{_TIME}NanoTime": FlinkType("TIME", precision=6),
    f"{_TIME}NanoTimestamp": FlinkType("TIMESTAMP", precision=6),
    f"{_TIME}NanoDuration": FlinkType("INTERVAL DAY TO SECOND"),
    f"{_TIME}ZonedTimestamp": MOMENT,
    f"{_TIME}ZonedTime": FlinkType("TIME", precision=6),
    f"{_TIME}IsoTime": FlinkType("TIME", precision=6),
    f"{_TIME}IsoTimestamp": FlinkType("TIMESTAMP", precision=6),
}
"""What may have digits below a microsecond, or an offset that a column does not keep."""
_INSTANT = r"^[^.]*(\.[0-9]{1,6})?(Z|[+-][0-9:]+)$|^-?infinity$"
_OF_UTC = r"^[^.]*(\.[0-9]{1,6})?Z$"
_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_MOST_BITS = 63  # of a number, the sign apart


@dataclass(frozen=True)
class DebeziumColumns:
    """The columns of a sample of messages of one format, with its options but for `types`.

    `said` is what the schemas say of each column, each once.
    """

    format: str
    options: Mapping[str, Any]
    messages: pa.BinaryArray
    said: dict[str, list[ConnectSchema]] = field(default_factory=dict)

    def declare(self, image: ConnectSchema | None, *, without: Collection[str] = ()) -> None:
        """Note what a schema says of the rows, but for members that are not columns."""
        for name, said in ({} if image is None else image.fields).items():
            if name in without:
                continue
            known = self.said.setdefault(name, [])
            if said not in known:
                known.append(said)

    @property
    def have_own_types(self) -> bool:
        """Whether a column is anything that Flink reads as something else, or is proposed as it does not read it."""
        return any(has_debezium_type(said) or _has_set(said) for known in self.said.values() for said in known)

    @property
    def have_moments(self) -> bool:
        """Whether a column is a moment in text, which Avro reads by its own type alone."""
        return any(said.name == f"{_TIME}ZonedTimestamp" for known in self.said.values() for said in known)

    def columns(self, notes: Notes) -> tuple[FlinkField, ...]:
        """A type for each column that reads all values of the sample as they are."""
        return tuple(FlinkField(name, self._type(name, notes)) for name in self.said if is_name(name))

    def _type(self, name: str, notes: Notes) -> FlinkType:
        said = self.said[name]
        found = [_type_of(one) for one in said]
        usual = _together(found)
        wire = [t for kind, t in (("int64", BIGINT), ("bytes", BYTES)) if any(_is_plain(one, kind) for one in said)]
        for t in (usual, *wire):
            if t is not None and not self._errors(name, t) and self._is_whole(name, said, t):
                if t != usual:
                    told = " and ".join(sorted({str(one) for one in said}))
                    notes.add(f"{told}, but {usual or 'one type'} does not take all values as they are", shown(name))
                return t
        if usual != STRING:
            notes.add(f"{' and '.join(sorted({str(one) for one in said}))}: no type but text takes all", shown(name))
        return STRING

    def _is_whole(self, name: str, said: list[ConnectSchema], t: FlinkType) -> bool:
        """Whether nothing of the values is cut off."""
        finer = {one.type for one in said if one.name in _FINER}
        if not finer or t in (BIGINT, STRING):
            return True
        if finer == {"int64"}:
            counts = self._read(name, BIGINT)
            return bool(pc.all(pc.equal(pc.multiply(pc.divide(counts, 1000), 1000), counts), min_count=0).as_py())
        pattern = _INSTANT if t.root == "TIMESTAMP_LTZ" else _OF_UTC
        return bool(pc.all(pc.match_substring_regex(self._read(name, STRING), pattern), min_count=0).as_py())

    def _errors(self, name: str, t: FlinkType) -> bool:
        """Whether messages are errors by the column, and not by what else they are."""
        return self._count(name, t) > self._others

    @functools.cached_property
    def _others(self) -> int:
        """How many messages are errors whatever the columns."""
        return self._count(f"no_{''.join(self.said)}", STRING)

    def _count(self, name: str, t: FlinkType) -> int:
        errors = self._decode(name, t).errors
        return 0 if errors is None else len(errors) - int(errors.null_count)

    def _read(self, name: str, t: FlinkType) -> pa.Array:
        return self._decode(name, t).rows.values.field(0)

    def _decode(self, name: str, t: FlinkType) -> DecodedBatch:
        schema = resolve_schema(columns_text((FlinkField(name, t),)))
        return get_format(self.format, {**self.options, **TYPES}).decode_batch(self.messages, schema)


def is_instant(text: str) -> bool:
    """Whether TIMESTAMP_LTZ(6) keeps a text of `ZonedTimestamp` as it is."""
    try:
        parse_instant(text)
    except ValueError:
        return False
    return re.match(_INSTANT, text) is not None


def _has_set(said: ConnectSchema) -> bool:
    """Whether there is a text of words with commas between, which becomes an array."""
    inner = (*said.fields.values(), *(() if said.items is None else (said.items,)))
    return said.name == _SET or any(map(_has_set, inner))


def _is_plain(said: ConnectSchema, kind: str) -> bool:
    return said.type == kind and said.name != DECIMAL


def _type_of(said: ConnectSchema, inside: bool = False) -> FlinkType:
    """The column for what a schema says; of what is `inside` others, one that takes all values as they are."""
    if said.name == DECIMAL:
        return _decimal(said)
    if said.name in _FINER:
        return _FINER[said.name] if not inside else BIGINT if said.type == "int64" else STRING
    if said.name in _MEANT:
        return _MEANT[said.name]
    if said.name == f"{_DATA}Bits":
        length = said.parameters.get("length", "0")
        return BIGINT if length.isdecimal() and int(length) <= _MOST_BITS else BYTES
    if said.type == "struct":
        fields = tuple(FlinkField(n, _type_of(part, True)) for n, part in said.fields.items() if is_name(n))
        return FlinkType("ROW", fields=fields) if fields else STRING
    if said.items is not None:
        items = _type_of(said.items, True)
        return array_of(items) if said.type == "array" else map_of(items)
    return _PRIMITIVES.get(said.type, STRING)


def _decimal(said: ConnectSchema) -> FlinkType:
    """With the digits that the schema says, else as many as there can be."""
    texts = [said.parameters.get(name, "") for name in ("scale", "connect.decimal.precision")]
    scale, precision = (int(t) if t.lstrip("-").isdecimal() and len(t) < 5 else None for t in texts)
    if scale is None:
        return STRING
    digits = MOST_DIGITS if precision is None else precision - min(scale, 0)
    scale = max(scale, 0)
    return FlinkType("DECIMAL", precision=digits, scale=scale) if scale <= digits <= MOST_DIGITS else STRING


def _together(types: list[FlinkType]) -> FlinkType | None:
    """One type for all of these; None where there is none but text."""
    roots = {t.root for t in types}
    if len(set(types)) == 1:
        return types[0]
    if roots <= set(_WHOLE):
        return max(types, key=lambda t: _WHOLE.index(t.root))
    if len(roots) == 1 and roots <= {"TIME", "TIMESTAMP"}:
        return max(types, key=lambda t: t.precision or 0)
    if roots == {"DECIMAL"}:
        scale = max(t.scale or 0 for t in types)
        digits = scale + max((t.precision or 0) - (t.scale or 0) for t in types)
        return FlinkType("DECIMAL", precision=digits, scale=scale) if digits <= MOST_DIGITS else None
    return None
