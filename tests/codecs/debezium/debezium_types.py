"""Types of Debezium's columns: a value of each, and messages with them in JSON and Avro."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa

from kvformat.registry import DecodedBatch, get_format
from tests.support.registry_server import Registry

TIME, DATA, CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."


def unscaled(number: int) -> bytes:
    """Return the bytes of `BigInteger.toByteArray`."""
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


class Given(NamedTuple):
    """A type of Connect: its primitive, its name, the value in Avro, the parameters, and the schema of its parts."""

    type: str
    name: str
    value: Any
    parameters: dict[str, str] = {}  # noqa: RUF012
    inner: Any = None


def decimal(number: int, scale: int, precision: int = 10) -> Given:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return Given("bytes", f"{CONNECT}Decimal", unscaled(number), parameters)


def variable(number: int, scale: int) -> Given:
    fields = {"scale": Given("int32", "", None), "value": Given("bytes", "", None)}
    value = {"scale": scale, "value": unscaled(number)}
    return Given("struct", f"{DATA}VariableScaleDecimal", value, inner=fields)


def micros(text: str) -> int:
    return (dt.datetime.fromisoformat(text) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)


MOMENT_TEXT = "2025-03-03T09:30:00.123456"
MOMENT = dt.datetime.fromisoformat(MOMENT_TEXT)
_MILLIS = MOMENT.replace(microsecond=123000)
CLOCK = dt.time(9, 30, 0, 123456)
MICROS_OF_DAY = 34_200_123_456
_PLACE = {"wkb": Given("bytes", "", None), "srid": Given("int32", "", None)}
_POINT = {
    "x": Given("float64", "", None),
    "y": Given("float64", "", None),
    "wkb": Given("bytes", "", None),
    "srid": Given("int32", "", None),
}
NUMBER, _WHOLE = Given("float64", "", None), Given("int32", "", None)
DAY_PARTS = {"year": 2025, "month": 3, "day": 3}
NINE_O_CLOCK = {"hour": 9, "minute": 30, "second": 0, "nanos": 123_456_789}
LARGEST_PARTS = {"years": 0, "months": 0, "days": 1, "hours": 2, "minutes": 3, "seconds": 4, "nanos": 5_999}


def parts(name: str, **values: Any) -> Given:
    """Return a type of `StructuredTemporal`. The connector writes parts without a value as null."""
    special = {} if "Duration" in name or name.endswith("Time") else {"specialValue": None}
    values = {**values, **special, "precision": None, **values}
    inner = {field: Given("string", "", None) if field == "specialValue" else _WHOLE for field in values}
    return Given("struct", f"{TIME}{name}", values, inner=inner)


GOOD: list[tuple[Given, str, Any]] = [
    # numbers
    (decimal(120_000, 2), "DECIMAL(10, 2)", Decimal("1200.00")),
    (decimal(-1, 2), "DECIMAL(10, 2)", Decimal("-0.01")),
    (decimal(0, 0), "DECIMAL(10, 2)", Decimal("0.00")),
    (decimal(-(2**63), 0), "DECIMAL(19, 0)", Decimal(-(2**63))),
    (decimal(2**63, 0), "DECIMAL(19, 0)", Decimal(2**63)),
    (decimal(10**38 - 1, 10, 38), "DECIMAL(38, 10)", Decimal("9" * 28 + "." + "9" * 10)),
    (decimal(-(10**37), 3, 38), "DECIMAL(38, 3)", Decimal(-(10**37)).scaleb(-3)),
    (decimal(12_500, 4), "DECIMAL(10, 2)", Decimal("1.25")),
    (decimal(5, -3), "DECIMAL(10, 2)", Decimal("5000.00")),
    (decimal(12_500, 3), "STRING", "12.500"),
    (decimal(7, 2), "BYTES", b"\x07"),
    (variable(-12_500, 3), "DECIMAL(20, 4)", Decimal("-12.5000")),
    (variable(10**20, 0), "DECIMAL(38, 2)", Decimal(10**20)),
    (variable(314, 2), "STRING", "3.14"),
    (variable(314, 2), "ROW<scale INT, `value` BYTES>", {"scale": 2, "value": unscaled(314)}),
    (Given("string", "", "1200.50"), "DECIMAL(10, 2)", Decimal("1200.50")),
    (Given("float64", "", 1200.5), "DECIMAL(10, 2)", Decimal("1200.50")),
    (Given("int16", "", 7), "SMALLINT", 7),
    (Given("int16", "", 7), "DECIMAL(5, 1)", Decimal("7.0")),
    (Given("int64", "", 2**40), "BIGINT", 2**40),
    (Given("boolean", "", True), "BOOLEAN", True),
    (Given("int16", "", 1), "BOOLEAN", True),
    (Given("int16", "", 0), "BOOLEAN", False),
    (Given("float64", "", 1.5), "DOUBLE", 1.5),
    (Given("float32", "", 1.5), "FLOAT", 1.5),
    (Given("int32", "", 7), "INT", 7),
    (Given("string", "", "x"), "STRING", "x"),
    # dates and times of day
    (Given("int32", f"{TIME}Date", 20_150), "DATE", dt.date(2025, 3, 3)),
    (Given("int32", f"{TIME}Date", -1), "DATE", dt.date(1969, 12, 31)),
    (Given("int32", f"{CONNECT}Date", 20_150), "DATE", dt.date(2025, 3, 3)),
    (Given("int32", f"{TIME}Date", 20_150), "INT", 20_150),
    (Given("int32", f"{TIME}Time", 34_200_123), "TIME(3)", CLOCK.replace(microsecond=123_000)),
    (Given("int32", f"{CONNECT}Time", 34_200_123), "TIME(3)", CLOCK.replace(microsecond=123_000)),
    (Given("int64", f"{TIME}MicroTime", MICROS_OF_DAY), "TIME(6)", CLOCK),
    (Given("int64", f"{TIME}MicroTime", MICROS_OF_DAY), "BIGINT", MICROS_OF_DAY),
    (Given("int64", f"{TIME}NanoTime", MICROS_OF_DAY * 1000), "TIME(6)", CLOCK),
    (Given("string", f"{TIME}ZonedTime", "09:30:00.123456Z"), "TIME(6)", CLOCK),
    (Given("string", f"{TIME}ZonedTime", "00:30:00.123456-09:00"), "TIME(6)", CLOCK),
    (Given("string", f"{TIME}ZonedTime", "01:30+02:00"), "TIME(6)", dt.time(23, 30)),
    (Given("string", f"{TIME}IsoTime", "09:30:00.123456Z"), "TIME(6)", CLOCK),
    (Given("string", f"{TIME}IsoDate", "2025-03-03Z"), "DATE", dt.date(2025, 3, 3)),
    (Given("int32", f"{TIME}Year", 2025), "INT", 2025),
    (parts("StructuredDate", **DAY_PARTS), "DATE", dt.date(2025, 3, 3)),
    (parts("StructuredTime", **NINE_O_CLOCK), "TIME(6)", CLOCK),
    (parts("StructuredZonedTime", **NINE_O_CLOCK, offsetSeconds=-7_200), "TIME(6)", CLOCK.replace(hour=11)),
    (parts("StructuredZonedTime", **NINE_O_CLOCK, offsetSeconds=36_000), "TIME(6)", CLOCK.replace(hour=23)),
    (
        parts("StructuredDuration", **dict.fromkeys(LARGEST_PARTS, 0) | {"hours": 9, "minutes": 30}),
        "TIME(0)",
        dt.time(9, 30),
    ),
    # timestamps
    (Given("int64", f"{TIME}Timestamp", micros(MOMENT_TEXT) // 1000), "TIMESTAMP(3)", _MILLIS),
    (Given("int64", f"{CONNECT}Timestamp", micros(MOMENT_TEXT) // 1000), "TIMESTAMP(3)", _MILLIS),
    (Given("int64", f"{CONNECT}Timestamp", 0), "TIMESTAMP_LTZ(3)", dt.datetime(1970, 1, 1, tzinfo=dt.UTC)),
    (Given("int64", f"{TIME}MicroTimestamp", micros(MOMENT_TEXT)), "TIMESTAMP(6)", MOMENT),
    (Given("int64", f"{TIME}MicroTimestamp", -1), "TIMESTAMP(6)", dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)),
    (Given("int64", f"{TIME}MicroTimestamp", micros(MOMENT_TEXT)), "STRING", MOMENT_TEXT),
    (Given("int64", f"{TIME}MicroTimestamp", micros("0099-12-31T23:59:59")), "STRING", "0099-12-31T23:59:59"),
    (Given("int32", f"{TIME}Date", 18321), "STRING", "2020-02-29"),
    (Given("int64", f"{TIME}MicroTime", 3_020_399_000_010), "STRING", "838:59:59.000010"),
    (Given("int32", f"{CONNECT}Time", -1500), "STRING", "-00:00:01.500"),
    (Given("int32", "", 7), "STRING", "7"),
    (Given("boolean", "", True), "STRING", "true"),
    (Given("float64", "", 0.5), "STRING", "0.5"),
    (Given("int64", f"{TIME}NanoTimestamp", micros(MOMENT_TEXT) * 1000 + 999), "TIMESTAMP(6)", MOMENT),
    (Given("string", f"{TIME}ZonedTimestamp", f"{MOMENT_TEXT}Z"), "TIMESTAMP_LTZ(6)", MOMENT.replace(tzinfo=dt.UTC)),
    (Given("string", f"{TIME}ZonedTimestamp", f"{MOMENT_TEXT}789Z"), "TIMESTAMP_LTZ(6)", MOMENT.replace(tzinfo=dt.UTC)),
    (
        Given("string", f"{TIME}ZonedTimestamp", "2018-07-18T14:00:00+04:00"),
        "TIMESTAMP_LTZ(3)",
        dt.datetime(2018, 7, 18, 10, tzinfo=dt.UTC),
    ),
    (Given("string", f"{TIME}ZonedTimestamp", "2018-07-18T14:00:00Z"), "STRING", "2018-07-18T14:00:00Z"),
    (Given("string", f"{TIME}IsoTimestamp", f"{MOMENT_TEXT}Z"), "TIMESTAMP(6)", MOMENT),
    (parts("StructuredTimestamp", **DAY_PARTS, **NINE_O_CLOCK), "TIMESTAMP(6)", MOMENT),
    (
        parts("StructuredZonedTimestamp", **DAY_PARTS, **NINE_O_CLOCK, offsetSeconds=3600, zoneId=None),
        "TIMESTAMP_LTZ(6)",
        MOMENT.replace(hour=8, tzinfo=dt.UTC),
    ),
    (
        parts("StructuredDuration", **LARGEST_PARTS),
        "INTERVAL DAY TO SECOND",
        dt.timedelta(days=1, seconds=7384, microseconds=5),
    ),
    (
        Given("int64", f"{TIME}MicroDuration", 93_784_000_005),
        "INTERVAL DAY TO SECOND",
        dt.timedelta(days=1, seconds=7384, microseconds=5),
    ),
    (Given("int64", f"{TIME}MicroDuration", 5), "BIGINT", 5),
    (Given("int64", f"{TIME}NanoDuration", -1_500), "INTERVAL DAY TO SECOND", dt.timedelta(microseconds=-2)),
    (Given("string", f"{TIME}Interval", "P1Y2M3DT4H5M6.78S"), "STRING", "P1Y2M3DT4H5M6.78S"),
    # texts, bytes
    (Given("string", f"{DATA}Json", '{"a": 1}'), "STRING", '{"a": 1}'),
    (Given("string", f"{DATA}Xml", "<a/>"), "STRING", "<a/>"),
    (
        Given("string", f"{DATA}Uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        "STRING",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    ),
    (Given("string", f"{DATA}Enum", "red", {"allowed": "red,blue"}), "STRING", "red"),
    (Given("string", f"{DATA}EnumSet", "red,blue", {"allowed": "red,blue"}), "ARRAY<STRING>", ["red", "blue"]),
    (Given("string", f"{DATA}EnumSet", ""), "ARRAY<STRING>", []),
    (Given("string", f"{DATA}EnumSet", "red,blue"), "STRING", "red,blue"),
    (Given("string", f"{DATA}Ltree", "Top.Science"), "STRING", "Top.Science"),
    (Given("string", f"{DATA}Tsvector", "'a':1 'b':2"), "STRING", "'a':1 'b':2"),
    (Given("bytes", "", b"\0\xff"), "BYTES", b"\0\xff"),
    (Given("bytes", f"{DATA}Bits", b"\x05\x01"), "BIGINT", 261),
    (Given("bytes", f"{DATA}Bits", b"\xff" * 7 + b"\x7f"), "BIGINT", 2**63 - 1),
    (Given("bytes", f"{DATA}Bits", b"\x05\x01"), "BYTES", b"\x05\x01"),
    # containers
    (
        Given("struct", f"{DATA}geometry.Point", {"x": 1.5, "y": 2.0, "wkb": b"\x01", "srid": None}, inner=_POINT),
        "ROW<x DOUBLE, y DOUBLE, wkb BYTES, srid INT>",
        {"x": 1.5, "y": 2.0, "wkb": b"\x01", "srid": None},
    ),
    *(
        (
            Given("struct", f"{DATA}geometry.{kind}", {"wkb": b"\x01", "srid": 4326}, inner=_PLACE),
            "ROW<wkb BYTES, srid INT>",
            {"wkb": b"\x01", "srid": 4326},
        )
        for kind in ("Geometry", "Geography")
    ),
    (
        Given("struct", f"{DATA}geometry.Circle", {"radius": 2.5}, inner={"radius": NUMBER}),
        "ROW<radius DOUBLE>",
        {"radius": 2.5},
    ),
    (
        Given("struct", f"{DATA}geometry.Line", {"a": 1.0, "b": 2.0, "c": 3.0}, inner=dict.fromkeys("abc", NUMBER)),
        "ROW<a DOUBLE, b DOUBLE, c DOUBLE>",
        {"a": 1.0, "b": 2.0, "c": 3.0},
    ),
    (Given("array", f"{DATA}DoubleVector", [0.5, 2.0], inner=NUMBER), "ARRAY<DOUBLE>", [0.5, 2.0]),
    (Given("array", f"{DATA}FloatVector", [0.5], inner=Given("float32", "", None)), "ARRAY<FLOAT>", [0.5]),
    (Given("map", "", {"a": "b"}, inner=Given("string", "", None)), "MAP<STRING, STRING>", [("a", "b")]),
    (Given("array", "", ["a", None], inner=Given("string", "", None)), "ARRAY<STRING>", ["a", None]),
    (
        Given("array", "", [0, None, 1500], inner=Given("int64", f"{TIME}Timestamp", None)),
        "ARRAY<TIMESTAMP(3)>",
        [dt.datetime(1970, 1, 1), None, dt.datetime(1970, 1, 1, 0, 0, 1, 500_000)],
    ),
    (
        Given("array", "", [unscaled(314)], inner=decimal(0, 2)._replace(value=None)),
        "ARRAY<DECIMAL(10, 2)>",
        [Decimal("3.14")],
    ),
    (
        Given("map", "", {"a": 20_150}, inner=Given("int32", f"{TIME}Date", None)),
        "MAP<STRING, DATE>",
        [("a", dt.date(2025, 3, 3))],
    ),
]


# --- write JSON --------------------------------------------------------------------------------------------


_OF_JSON = {"float32": "float", "float64": "double"}  # the names of JsonConverter


def json_schema(given: Given, field: str | None = None) -> dict[str, Any]:
    """Return the schema as Connect's JsonConverter writes it."""
    schema: dict[str, Any] = {"type": _OF_JSON.get(given.type, given.type), "optional": True}
    schema |= {"name": given.name, "version": 1} if given.name else {}
    schema |= {"parameters": given.parameters} if given.parameters else {}
    if given.type == "struct":
        schema["fields"] = [json_schema(part, name) for name, part in given.inner.items()]
    elif given.type == "array":
        schema["items"] = json_schema(given.inner)
    elif given.type == "map":
        schema |= {"keys": {"type": "string"}, "values": json_schema(given.inner)}
    return schema | ({"field": field} if field else {})


def json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: json_value(part) for name, part in value.items()}
    return [json_value(part) for part in value] if isinstance(value, list) else value


def envelope(columns: dict[str, Given]) -> dict[str, Any]:
    image = {"type": "struct", "optional": True, "name": "srv.db.t.Value"}
    image["fields"] = [json_schema(given, name) for name, given in columns.items()]
    fields = [{**image, "field": "before"}, {**image, "field": "after"}, {"type": "string", "field": "op"}]
    return {"type": "struct", "name": "srv.db.t.Envelope", "fields": fields}


def event(row: dict[str, Any], schema: Any = None) -> bytes:
    payload = {"before": None, "after": {name: json_value(value) for name, value in row.items()}, "op": "c"}
    return json.dumps(payload if schema is None else {"schema": schema, "payload": payload}).encode()


WITH_SCHEMA = {"schema-include": "true", "types": "debezium"}


def decoded_json(columns: dict[str, Given], schema: str, **options: str) -> DecodedBatch:
    row = {name: given.value for name, given in columns.items()}
    message = event(row, envelope(columns))
    return get_format("debezium-json", WITH_SCHEMA | options).decode_batch(pa.array([message]), schema)


# --- write Avro --------------------------------------------------------------------------------------------

_AVRO = {
    "boolean": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float32": "float",
    "float64": "double",
    "string": "string",
    "bytes": "bytes",
}


def avro_type(given: Given, name: str) -> Any:
    """Return the type as Confluent's AvroData writes it."""
    if given.type == "struct":
        fields = [{"name": f, "type": ["null", avro_type(part, f"{name}_{f}")]} for f, part in given.inner.items()]
        full = given.name or f"srv.db.t.{name}"
        return {"type": "record", "name": full, "fields": fields, "connect.name": full}
    if given.type in ("array", "map"):
        of = "items" if given.type == "array" else "values"
        return {"type": given.type, of: ["null", avro_type(given.inner, name)]}
    found: dict[str, Any] = {"type": _AVRO[given.type]}
    found |= {"connect.type": given.type} if given.type in ("int8", "int16") else {}
    found |= {"connect.name": given.name, "connect.version": 1} if given.name else {}
    found |= {"connect.parameters": given.parameters} if given.parameters else {}
    if given.name == f"{CONNECT}Decimal" and given.parameters and int(given.parameters["scale"]) >= 0:
        precision = int(given.parameters["connect.decimal.precision"])
        found |= {"logicalType": "decimal", "precision": precision, "scale": int(given.parameters["scale"])}
    for suffix, logical in (("Date", "date"), ("Time", "time-millis"), ("Timestamp", "timestamp-millis")):
        if given.name == CONNECT + suffix:
            found["logicalType"] = logical
    return found if len(found) > 1 else found["type"]


def avro_envelope(columns: dict[str, Given]) -> dict[str, Any]:
    fields = [{"name": name, "type": ["null", avro_type(g, name)], "default": None} for name, g in columns.items()]
    value = {"type": "record", "name": "srv.db.t.Value", "fields": fields}
    images = [{"name": "before", "type": ["null", value]}, {"name": "after", "type": ["null", "srv.db.t.Value"]}]
    return {"type": "record", "name": "srv.db.t.Envelope", "fields": [*images, {"name": "op", "type": "string"}]}


def without_logical_types(schema: Any) -> Any:
    """Remove logical types from a schema, so that fastavro writes the plain values."""
    if isinstance(schema, list):
        return [without_logical_types(part) for part in schema]
    if isinstance(schema, dict):
        return {key: without_logical_types(part) for key, part in schema.items() if key != "logicalType"}
    return schema


def avro_event(schema_id: int, schema: Any, row: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    plain = fastavro.parse_schema(without_logical_types(schema))
    fastavro.schemaless_writer(stream, plain, {"before": None, "after": row, "op": "c"})
    return b"\0" + schema_id.to_bytes(4, "big") + stream.getvalue()


def decoded_avro(registry: Registry, columns: dict[str, Given], schema: str, **options: str) -> DecodedBatch:
    written = avro_envelope(columns)
    schema_id = len(registry.ids) + 1
    registry.ids[schema_id] = json.dumps(written)
    message = avro_event(schema_id, written, {name: given.value for name, given in columns.items()})
    fmt = get_format("debezium-avro-confluent", {"url": registry.url, "types": "debezium"} | options)
    return fmt.decode_batch(pa.array([message]), schema)
