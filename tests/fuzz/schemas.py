"""Batches of messages with several schemas, without a schema, and with broken schemas.

JSON messages contain a schema and a payload. The schema may be one of several, missing, null, or malformed. Avro
messages have a schema id before the datum. The id may belong to several schemas, to a broken schema, or be unknown.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import fastavro

from kvformat.codecs.avro.parse import parse_schema
from kvformat.codecs.avro.types import schema_text
from kvformat.registry import SchemaError
from kvformat.registry.contract.ddl import parse_schema as parse_table
from tests.support import random_rows as rows
from tests.support.avro_mutation import evolved
from tests.support.avro_random import Maker, written

FORMATS = ("debezium-json", "avro-confluent", "debezium-avro-confluent", "avro-glue", "avro-apicurio")
_TIME, _CONNECT, _DATA = "io.debezium.time.", "org.apache.kafka.connect.data.", "io.debezium.data."
_COLUMNS = (
    *("DECIMAL(10, 2)", "DECIMAL(38, 10)", "STRING", "BYTES", "INT", "BIGINT", "DOUBLE", "BOOLEAN", "DATE", "TIME(3)"),
    *("TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "ARRAY<STRING>", "ROW<a DECIMAL(10, 2), b TIMESTAMP(3)>"),
)
_NOT_ALLOWED = "1e99999999999"
"""A number that Jackson refuses only if the table has a DECIMAL column."""
_UNKNOWN, _BROKEN = 900, 901
"""Ids without a schema, and with a text that is not a schema."""


class _Said(NamedTuple):
    """A Connect type: primitive, name, parameters, and a function for random values. Bytes are Base64 in JSON."""

    type: str
    name: str
    make: Callable[[random.Random], Any]
    scale: int | None = None


def _bytes(rng: random.Random) -> bytes:
    return rng.randbytes(rng.randint(0, 5))


def _whole(rng: random.Random) -> int:
    return rng.choice([0, 1, -1, 20_150, 1_740_998_941_000, 2**31 - 1, rng.randint(-(2**31), 2**31)])


def _small(rng: random.Random) -> int:
    return rng.choice([0, 1, -1, 20_150, 86_399_999, rng.randint(-(2**20), 2**20)])


def _text(rng: random.Random) -> str:
    times = ["2025-03-03T09:30:00.123+02:00", "2025-03-03T09:30:00Z", "2025-03-03Z", "09:30:00Z", "2025-03-03"]
    return rng.choice([*times, "1.25", "", "x", "-7", "true", "AP8+"])


def _said(rng: random.Random) -> _Said:
    """Return a random Connect type."""
    counted = ["MicroTimestamp", "NanoTimestamp", "Timestamp", "MicroTime", "NanoTime", "MicroDuration"]
    made = [
        _Said("bytes", f"{_CONNECT}Decimal", _bytes, rng.randint(-2, 12)),
        _Said("bytes", f"{_CONNECT}Decimal", _bytes, rng.choice([0, 2])),
        _Said("int64", _TIME + rng.choice(counted), _whole),
        _Said("int32", _TIME + rng.choice(["Date", "Time"]), _small),
        _Said("int64", f"{_CONNECT}Timestamp", _whole),
        _Said("string", _TIME + rng.choice(["ZonedTimestamp", "IsoTimestamp", "IsoDate", "ZonedTime"]), _text),
        _Said("string", "", _text),
        _Said("bytes", rng.choice(["", f"{_DATA}Bits"]), _bytes),
        _Said(rng.choice(["int32", "int64"]), "", _small),
        _Said("double", "", lambda rng: rng.choice([0.0, 1.5, -2e10])),
        _Said("boolean", "", lambda rng: rng.random() < 0.5),
    ]
    return rng.choice(made)


_FITTING = {
    "DECIMAL": ("Decimal", "int32", "int64", "string"),
    "STRING": ("string", "Decimal", "bytes"),
    "BYTES": ("bytes", "Bits", "Decimal"),
    "INT": ("int32",),
    "BIGINT": ("int32", "int64"),
    "DOUBLE": ("double",),
    "BOOLEAN": ("boolean",),
    "DATE": ("Date", "IsoDate"),
    "TIME": ("Time", "MicroTime", "NanoTime", "ZonedTime"),
    "TIMESTAMP": ("Timestamp", "MicroTimestamp", "NanoTimestamp", "IsoTimestamp"),
    "TIMESTAMP_LTZ": ("Timestamp", "ZonedTimestamp"),
}
"""Connect types that usually fit a column, by the last part of their name or by their primitive type."""


def _said_of(rng: random.Random, column: str) -> _Said:
    """Return a random Connect type that usually fits the column."""
    wanted = _FITTING.get(column.partition("(")[0], ())
    said = _said(rng)
    for _ in range(40 if rng.random() < 0.85 else 0):
        if (said.name or said.type).rpartition(".")[2] in wanted:
            break
        said = _said(rng)
    return said


def table(rng: random.Random, format: str) -> tuple[str, dict[str, str]]:
    """Return a random schema, and its columns with their types. The messages' schemas determine the first column."""
    types = [rng.choice(_COLUMNS[:2] + _COLUMNS[8:13]), *(rng.choice(_COLUMNS) for _ in range(rng.randint(0, 3)))]
    if format == "avro-confluent":
        types = [rng.choice(_COLUMNS[2:8] * 3 + _COLUMNS[:11]) for _ in types]  # Flink's Avro supports no other types
    columns = {f"c{number}": type for number, type in enumerate(types)}
    return ", ".join(f"{name} {type}" for name, type in columns.items()), columns


def _kinds(rng: random.Random, table: dict[str, str]) -> list[dict[str, _Said]]:
    """Return the columns of several writer schemas. Each may lack a column or have an additional one."""
    found = []
    for _ in range(rng.choice([2, 3, 5, 10])):
        columns = {name: _said_of(rng, type) for name, type in table.items() if rng.random() < 0.9}
        found.append(columns | ({"other": _said(rng)} if rng.random() < 0.3 else {}))
    return found


# --- JSON ------------------------------------------------------------------------------------------------


def json_options(rng: random.Random) -> dict[str, str]:
    """Return options of `debezium-json` for messages with a schema."""
    found = {"schema-include": "true"}
    if rng.random() < 0.9:
        found["types"] = "debezium"
        if rng.random() < 0.5:
            found["time.precision.mode"] = rng.choice(["adaptive_time_microseconds", "connect", "nanoseconds"])
        if rng.random() < 0.5:
            found["decimal.handling.mode"] = rng.choice(["precise", "string", "double"])
    for option, chance in (("ignore-parse-errors", 0.5), ("flattened", 0.3)):
        if rng.random() < chance:
            found[option] = "true"
    return found


def json_messages(rng: random.Random, table: dict[str, str], flat: bool, count: int) -> list[bytes]:
    """Return messages with several schemas, some without a schema, with null, or with a malformed schema."""
    kinds = _kinds(rng, table)
    return [_json_message(rng, rng.choice(kinds), flat) for _ in range(count)]


def _json_message(rng: random.Random, columns: dict[str, _Said], flat: bool) -> bytes:
    row = {name: _json_value(rng, said) for name, said in columns.items()}
    if rng.random() < 0.1:
        row[rng.choice(["other", *columns])] = "NUMBER"
    if flat:
        payload: dict[str, Any] = row | rng.choice([{}, {"__op": "u"}, {"__deleted": "true"}, {"__op": "z"}])
    else:
        op = rng.choice("cccrud")
        payload = {"before": row if op in "ud" else None, "after": None if op == "d" else row, "op": op}
    schema = json.dumps(_json_schema(columns, flat))
    broken = ("null", "{}", "[]", '"x"', "7", _NOT_ALLOWED, '{"type":"struct"}', schema.replace("struct", "map"))
    if rng.random() < 0.25:
        schema = rng.choice(broken)
    parts = [f'"schema":{schema}', f'"payload":{json.dumps(payload)}']
    chance = rng.random()
    if chance < 0.1:
        parts = parts[1:]
    elif chance < 0.2:
        parts.insert(rng.randrange(3), f'"schema":{rng.choice(broken)}')  # the last duplicate counts
    elif chance < 0.4:
        parts.reverse()
    text = "{" + ",".join(parts) + "}"
    text = text.replace('"NUMBER"', rng.choice([_NOT_ALLOWED, "1e400", "-0.0", "12345678901234567890.5"]))
    if rng.random() < 0.05:
        text = rng.choice(["[%s]", "[null,%s]", "[%s,{}]", "%s x", "%s"]) % text
    return text.encode(rng.choice(["utf-8"] * 20 + ["utf-16", "utf-8-sig"]))


def _json_value(rng: random.Random, said: _Said) -> Any:
    if rng.random() < 0.08:
        return None
    value = (_said(rng) if rng.random() < 0.1 else said).make(rng)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _json_schema(columns: dict[str, _Said], flat: bool) -> Any:
    fields = []
    for name, said in columns.items():
        field: dict[str, Any] = {"type": said.type, "optional": True, "field": name}
        field |= {"name": said.name, "version": 1} if said.name else {}
        field |= {} if said.scale is None else {"parameters": {"scale": str(said.scale)}}
        fields.append(field)
    if flat:
        return {"type": "struct", "fields": fields}
    images = [{"type": "struct", "fields": fields, "field": image} for image in ("before", "after")]
    return {"type": "struct", "fields": [*images, {"type": "string", "field": "op"}]}


# --- Avro ------------------------------------------------------------------------------------------------

_OF_CONNECT = {"int32": "int", "int64": "long"}


def avro_options(rng: random.Random, format: str) -> dict[str, str]:
    """Return options of an Avro format, without its registry."""
    if format == "avro-confluent":
        return {}
    return {"types": "debezium"} | ({"flattened": "true"} if rng.random() < 0.3 else {})


def avro_messages(
    rng: random.Random, table: dict[str, str], envelope: bool, count: int
) -> tuple[dict[int, str], list[bytes]]:
    """Return schema texts by id, and messages with these ids and with unknown ids."""
    kinds = _kinds(rng, table)
    schemas = [_avro_schema(columns, envelope) for columns in kinds]
    parsed = [fastavro.parse_schema(json.loads(json.dumps(schema))) for schema in schemas]
    texts = {number + 1: json.dumps(schema) for number, schema in enumerate(schemas)} | {_BROKEN: '{"type": "?"}'}
    found = []
    for _ in range(count):
        number = rng.randrange(len(kinds))
        row = {name: None if rng.random() < 0.1 else said.make(rng) for name, said in kinds[number].items()}
        op = rng.choice("cccrudz")
        datum: Any = {"before": row if op in "ud" else None, "after": None if op == "d" else row, "op": op}
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed[number], datum if envelope else row)
        schema_id = rng.choice([_UNKNOWN, _BROKEN]) if rng.random() < 0.08 else number + 1
        found.append(b"\0" + schema_id.to_bytes(4, "big") + out.getvalue())
    return texts, found


def nested(rng: random.Random, count: int) -> tuple[str, dict[int, str], list[bytes]]:
    """Return a schema with nested columns, texts of writer schemas by id, and messages with these and unknown ids.

    The writer schemas differ from the table's schema in the order and types of fields at all levels.
    """
    node: Any = None
    while node is None:
        text = rows.schema(rng)
        with contextlib.suppress(SchemaError):  # Flink's Avro does not support all types
            node = json.loads(schema_text(parse_table(text), legacy=True))
    del node["namespace"]  # fastavro would need it in the names of a union's branches
    maker, writers = Maker(rng.randrange(2**32)), [node]
    for _ in range(rng.choice([1, 3, 9])):
        changed = evolved(rng, node)
        with contextlib.suppress(SchemaError):  # a removed field defined a name
            parse_schema(json.dumps(changed))
            writers.append(changed)
    datums = [written(schema, [maker.value(schema) for _ in range(4)]) for schema in writers]
    texts = {number: json.dumps(schema) for number, schema in enumerate(writers, 1)}
    found = []
    for _ in range(count):
        number = rng.randrange(len(writers))
        schema_id = _UNKNOWN if rng.random() < 0.03 else number + 1
        found.append(b"\0" + schema_id.to_bytes(4, "big") + rng.choice(datums[number]))
    return text, texts, found


def _avro_schema(columns: dict[str, _Said], envelope: bool) -> Any:
    fields = [{"name": name, "type": ["null", _avro_type(said)], "default": None} for name, said in columns.items()]
    row = {"type": "record", "name": "Value", "fields": fields}
    if not envelope:
        return row
    images: list[Any] = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}]
    return {"type": "record", "name": "Envelope", "fields": [*images, {"name": "op", "type": "string"}]}


def _avro_type(said: _Said) -> Any:
    found: dict[str, Any] = {"type": _OF_CONNECT.get(said.type, said.type)}
    if said.name:
        found |= {"connect.name": said.name, "connect.version": 1}
    if said.scale is not None:
        found["connect.parameters"] = {"scale": str(said.scale)}
    return found
