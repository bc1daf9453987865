"""Writing by a registered schema: the bytes of Confluent's serializer with `use.latest.version`."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

from kvformat.codecs.avro.fit import fit
from kvformat.codecs.avro.parse import parse_schema
from kvformat.codecs.avro.table import write_table
from kvformat.codecs.avro.write_datum import write_datum
from kvformat.registry import get_format
from kvformat.registry.contract.schemas import resolve_schema, row_type
from tests.support import services
from tests.support.avro_schemas import decimal_of, enum_of, fixed_of, record_of, time_of
from tests.support.confluent import BY_TOPIC, registry_client
from tests.support.extent import case_count
from tests.support.registry_server import Registry

_Typed: TypeAlias = "tuple[Any, str, Callable[[], Any]]"
"""A type of a schema, the type of a column that fits it, and a function that makes values."""


class _Case:
    """A random schema of a registry, the columns of a table that is written by it, and rows."""

    def __init__(self, rng: random.Random) -> None:
        self._rng, self._count = rng, 0
        fields, columns = [], []
        for number in range(rng.randint(1, 7)):
            if rng.random() < 0.3:
                avro, default = self._field_without_column()
                fields.append({"name": f"d{number}", "type": avro, "default": default})
                continue
            avro, column, make = self._optional(rng.randint(0, 2))
            fields.append({"name": f"f{number}", "type": avro})
            columns.append((f"f{number}", column, make))
        rng.shuffle(columns)
        self.schema = {"type": "record", "name": self._name(), "namespace": "com.acme", "fields": fields}
        self.table = ", ".join(f"{name} {column}" for name, column, _ in columns) or "none INT"
        self.has_columns = bool(columns)
        self.rows = [{name: make() for name, _, make in columns} for _ in range(rng.randint(1, 12))]

    def _name(self) -> str:
        self._count += 1
        return f"N{self._count}"

    def _field_without_column(self) -> tuple[Any, Any]:
        """Return a type and a default."""
        own = [
            (["null", "int"], None),
            ("string", "\u00e9x"),
            ("double", 1.5),
            ("boolean", True),
            ({"type": "array", "items": "int"}, [1, 300]),
            ({"type": "map", "values": "string"}, {"k": "v"}),
            (enum_of(self._name(), "A", "B"), "B"),
            (record_of(("x", ["null", "long"], None), ("y", "int", 2), name=self._name()), {"y": -1}),
        ]
        return self._rng.choice(own)

    def _optional(self, depth: int) -> _Typed:
        """Return a type, perhaps in a union."""
        rng, (avro, column, make) = self._rng, self._type(depth)
        other = record_of(("zz", "boolean"), name=self._name())
        form = rng.randrange(5)
        if form == 0:
            return avro, column, make
        if form == 1 and not column.startswith("ROW"):
            return [other, avro], column, make
        branches = ["null", avro] if form < 4 or column.startswith("ROW") else ["null", other, avro]
        rng.shuffle(branches)
        return branches, column, lambda: None if rng.random() < 0.2 else make()

    def _type(self, depth: int) -> _Typed:
        rng = self._rng
        if depth:
            kind = rng.randrange(4)
            if kind == 0:
                avro, column, make = self._optional(depth - 1)
                return (
                    {"type": "array", "items": avro},
                    f"ARRAY<{column}>",
                    lambda: [make() for _ in range(rng.randrange(3))],
                )
            if kind == 1:
                avro, column, make = self._optional(depth - 1)
                return (
                    {"type": "map", "values": avro},
                    f"MAP<STRING, {column}>",
                    lambda: {f"k{i}": make() for i in range(rng.randrange(3))},
                )
            if kind == 2:
                parts = [(f"m{i}", *self._optional(depth - 1)) for i in range(rng.randint(1, 3))]
                record = record_of(
                    *((name, avro) for name, avro, _, _ in parts), ("extra", "int", 7), name=self._name()
                )
                rng.shuffle(record["fields"])
                rng.shuffle(parts)
                row = ", ".join(f"{name} {column}" for name, _, column, _ in parts)
                return record, f"ROW<{row}>", lambda: {name: make() for name, _, _, make in parts}
        return rng.choice(self._scalars())

    def _scalars(self) -> list[_Typed]:
        rng = self._rng

        def moment(unit: int, zone: dt.tzinfo | None) -> Any:
            start = dt.datetime(1970, 1, 1, tzinfo=zone)
            return lambda: start + dt.timedelta(microseconds=rng.randrange(-(10**15), 10**15) // unit * unit)

        def number(digits: int, scale: int) -> Any:
            return lambda: Decimal(rng.randrange(-(10**digits) + 1, 10**digits)).scaleb(-scale)

        small = lambda: rng.randrange(-128, 128)  # noqa: E731 - a value of a list
        wide = lambda: rng.randrange(-(2**53), 2**53)  # noqa: E731 - as above
        half = lambda: rng.randrange(-(2**20), 2**20) / 2  # noqa: E731 - as above
        text = lambda: rng.choice(["", "a", "\u00e9\u4e16", "x" * 300])  # noqa: E731 - as above
        data = lambda: rng.randbytes(rng.randrange(5))  # noqa: E731 - as above
        return [
            ("boolean", "BOOLEAN", lambda: rng.random() < 0.5),
            *((avro, column, small) for avro in ("int", "long", "float", "double") for column in ("TINYINT", "INT")),
            *((avro, "BIGINT", wide) for avro in ("long", "double")),
            ("float", "FLOAT", half),
            *(("double", column, half) for column in ("FLOAT", "DOUBLE")),
            ("string", "STRING", text),
            (enum_of(self._name(), "RED", "BLUE"), "STRING", lambda: rng.choice(["RED", "BLUE"])),
            ("bytes", "BYTES", data),
            (fixed_of(self._name(), 3), "BYTES", lambda: rng.randbytes(3)),
            (decimal_of(6, 2), "DECIMAL(6, 2)", number(6, 2)),
            (decimal_of(20, 5), "DECIMAL(6, 2)", number(6, 2)),
            (decimal_of(38, 9), "DECIMAL(30, 1)", number(30, 1)),
            (fixed_of(self._name(), 9, precision=18, scale=4, logicalType="decimal"), "DECIMAL(6, 2)", number(6, 2)),
            (time_of("date"), "DATE", lambda: dt.date(1970, 1, 1) + dt.timedelta(rng.randrange(-9999, 9999))),
            (time_of("time-millis"), "TIME(3)", lambda: dt.time(rng.randrange(24), 5, 7, 1000)),
            (time_of("time-micros"), "TIME(6)", lambda: dt.time(rng.randrange(24), 5, 7, 1)),
            *((time_of("local-timestamp-millis"), f"TIMESTAMP({p})", moment(1000, None)) for p in (3, 6)),
            *((time_of("local-timestamp-micros"), f"TIMESTAMP({p})", moment(1000, None)) for p in (3, 6)),
            (time_of("timestamp-millis"), "TIMESTAMP_LTZ(3)", moment(1000, dt.UTC)),
            (time_of("timestamp-micros"), "TIMESTAMP_LTZ(6)", moment(1, dt.UTC)),
        ]


def _check_peers(url: str, cases: int) -> int:
    """Compare with Confluent's bytes, and read ours with its deserializer. Returns the number of rows."""
    from confluent_kafka.schema_registry import Schema
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    rng, client, compared = random.Random(23), registry_client(url), 0
    for number in range(cases):
        case = _Case(rng)
        if not case.has_columns:
            continue
        topic, text = f"orders-{number}", json.dumps(case.schema)
        schema_id = client.register_schema(f"{topic}-value", Schema(text, "AVRO"))
        context = SerializationContext(topic, MessageField.VALUE)
        conf = {"auto.register.schemas": False, "use.latest.version": True, **BY_TOPIC}
        theirs = AvroSerializer(client, None, conf=conf)
        reader = AvroDeserializer(client, conf=BY_TOPIC)
        fmt = get_format("avro-registry", {"url": url, "subject": f"{topic}-value", "use-latest-version": "true"})
        schema = resolve_schema(case.table)
        rows = pa.array(case.rows, pa.struct(list(schema)))
        batch = fmt.for_encoding(schema).encode_batch(rows, schema)
        assert batch.errors is None, (text, case.table, batch.errors)
        exact = _exact(text, rows, schema)
        for row, message, datum in zip(case.rows, batch.messages.to_pylist(), exact, strict=True):
            assert message == theirs(row, context), (text, case.table, row)
            assert message == b"\0" + schema_id.to_bytes(4, "big") + datum
            found = reader(message, context)
            assert _without_extra(found, row) == row, (text, found)
            compared += 1
    return compared


def _check_unions(url: str, cases: int) -> int:
    """Compare with Confluent's bytes for the branches of a union of records. Returns the number of rows."""
    from confluent_kafka.schema_registry import Schema, SchemaReference
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    rng, client, compared = random.Random(29), registry_client(url), 0
    for number in range(cases):
        branches = [_Case(rng) for _ in range(rng.randint(1, 3))]
        for branch, case in enumerate(branches):
            case.schema["namespace"] = f"of{number}.branch{branch}"
        topic, names = f"events-{number}", [f"{case.schema['namespace']}.{case.schema['name']}" for case in branches]
        union: list[Any] = [case.schema for case in branches]
        references = []
        if rng.random() < 0.5:  # as Confluent's topics of several types have it
            union = [*names]
            for name, case in zip(names, branches, strict=True):
                client.register_schema(name, Schema(json.dumps(case.schema), "AVRO"))
                references.append(SchemaReference(name, name, 1))
        if rng.random() < 0.3:
            union.insert(rng.randint(0, len(union)), "null")
        schema_id = client.register_schema(f"{topic}-value", Schema(json.dumps(union), "AVRO", references))
        context = SerializationContext(topic, MessageField.VALUE)
        conf = {"auto.register.schemas": False, "use.latest.version": True, **BY_TOPIC}
        theirs, reader = AvroSerializer(client, None, conf=conf), AvroDeserializer(client, conf=BY_TOPIC)
        options = {"url": url, "subject": f"{topic}-value", "use-latest-version": "true"}
        for name, case in zip(names, branches, strict=True):
            if not case.has_columns:
                continue
            fmt = get_format("avro-registry", {**options, "record-name": name})
            schema = resolve_schema(case.table)
            rows = pa.array(case.rows, pa.struct(list(schema)))
            batch = fmt.for_encoding(schema).encode_batch(rows, schema)
            assert batch.errors is None, (union, case.table, batch.errors)
            for row, message in zip(case.rows, batch.messages.to_pylist(), strict=True):
                assert message == theirs((name, row), context), (union, name, row)
                assert message[:5] == b"\0" + schema_id.to_bytes(4, "big")
                assert message[5] == 2 * union.index(name if references else case.schema)
                assert _without_extra(reader(message, context), row) == row
                compared += 1
    return compared


def _exact(text: str, rows: pa.StructArray, schema: pa.Schema) -> list[bytes]:
    """Return the datums of the exact writer, which otherwise gets only rows that the fast writer refuses."""
    fitted = fit(parse_schema(text), row_type(schema), False)
    values, errors = write_table(rows, fitted.arrow_type, row_type(schema), micros_as_millis=False)
    assert errors == {}
    return [write_datum(fitted, value) for value in values.view(fitted.storage_type).to_pylist()]


def _without_extra(found: Any, row: Any) -> Any:
    """Return the members that are also in `row`, at all levels."""
    if isinstance(row, dict):
        return {name: _without_extra(found[name], row[name]) for name in row}
    if isinstance(row, list):
        return [_without_extra(one, other) for one, other in zip(found, row, strict=True)]
    return found


def test_confluents_serializer(registry: Registry) -> None:
    assert _check_peers(registry.url, case_count(quick=60, night=240)) > 300


def test_confluents_serializer_of_unions(registry: Registry) -> None:
    assert _check_unions(registry.url, case_count(quick=40, night=160)) > 300


@pytest.mark.services
@pytest.mark.slow
def test_confluents_serializer_with_a_real_registry(apicurio: services.SchemaRegistry) -> None:
    assert _check_peers(apicurio.url, 60) > 300
    assert _check_unions(apicurio.url, 40) > 300
