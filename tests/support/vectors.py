"""Load the golden vectors of Flink 2.3 and compare results with them (fixtures/flink-2.3/README.md)."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import decimal
import functools
import io
import json
import lzma
import math
import pathlib
import re
import ssl
import struct
import tempfile
from collections.abc import Iterator
from typing import Any
from unittest import mock

import fastavro
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kvformat.registry import DecodedBatch, Format, available_formats, get_format
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.types import FlinkField, FlinkType, arrow_type, nullable
from tests.support.decoding import checked
from tests.support.registry_server import Registry, RegistryServer

JSON_FORMATS = ("json", "debezium-json", "canal-json", "maxwell-json", "ogg-json")
FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures"
_EPOCH = dt.datetime(1970, 1, 1)
_TIMESTAMP = re.compile(r"([+-]?\d+)-(\d\d)-(\d\d)(?:T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?)?Z?$")
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
Case = dict[str, Any]
_NOT_IN_ENUM = {
    "enums/proto2/BIGINT/encode~1": (2, 4, 6),
    "enums/proto2/CHAR/encode~0": (3,),
    "enums/proto2/INT/encode~0": (2, 4),
    "enums/proto2/STRING/encode~2": (3, 4, 5),
    "enums/proto3/BIGINT/encode~1": (2, 4, 6),
    "enums/proto3/CHAR/encode~0": (3,),
    "enums/proto3/INT/encode~2": (2, 4),
    "enums/proto3/STRING/encode~0": (3, 4, 5),
    "maps/proto2/sint64/encode~4": (0,),
    "maps/proto3/sint32/encode~3": (0, 3),
    "names/imports/proto2/encode~0": (0,),
    "names/imports/proto3/encode~0": (0,),
    "oneof/proto2/encode~1": (9,),
    "oneof/proto3/encode~0": (9,),
    "proto2/defaults/encode~0": (2,),
    "round-trip/11~2": (0, 5),
    "round-trip/12~0": (2, 9),
    "round-trip/2~0": (0,),
}
"""Rows written as protobuf with a text or number that an enum does not have."""
_OF_ANOTHER_KIND = {
    "avro-confluent/logical/DATE~3": [1],
    "avro-confluent/logical/TIME0~0": [0],
    "avro-confluent/logical/TIME3~0": [0],
    "avro-confluent/resolve/DECIMAL-14/null~0": [4, 7],
    "avro-confluent/resolve/TIME-7/null~0": [4],
    "avro-confluent/resolve/TIMESTAMP-12/null~0": [6],
    "avro-confluent/resolve/VARCHAR-10/null~1": [3],
    "debezium-avro-confluent/logical/DATE~2": [1],
    "debezium-avro-confluent/logical/TIME0~1": [0],
    "debezium-avro-confluent/logical/TIME3~0": [0],
    "debezium-avro-confluent/logical/decimal-10-2~1": [19, 20],
    "debezium-avro-confluent/logical/decimal-20-18~1": [19, 20],
    "debezium-avro-confluent/logical/decimal-38-10~7": [19, 20],
    "debezium-avro-confluent/logical/decimal-5-4~0": [19, 20],
    "debezium-avro-confluent/logical/decimal-6-0~0": [19, 20],
    "debezium-avro-confluent/resolve/DATE/not-null~1": [1, 2],
    "debezium-avro-confluent/resolve/DATE/null~2": [6],
    "debezium-avro-confluent/resolve/DECIMAL-14/not-null~0": [3, 4, 8],
    "debezium-avro-confluent/resolve/DECIMAL-14/null~1": [7, 8, 11],
    "debezium-avro-confluent/resolve/STRING/null~0": [1],
    "debezium-avro-confluent/resolve/TIME-7/not-null~0": [6],
    "debezium-avro-confluent/resolve/VARCHAR-10/not-null~1": [0],
    "debezium-avro-confluent/resolve/VARCHAR-10/null~0": [4],
}
DOCUMENTED = {
    **{
        f"{case}[{row}]": "a value of another kind, such as a text for a DECIMAL, is an error; Flink reads its bytes"
        for case, rows in _OF_ANOTHER_KIND.items()
        for row in rows
    },
    **{
        f"avro-confluent/fields/top-level~0[{row}]": "null beside a record is a message without a row; Flink fails"
        for row in (7, 9)
    },
    "avro/truncated/json~1[40]": "a message without its last brace is an error; Flink does not look for the brace",
    "json/coerce/BOOLEAN/strict~0[11]": "an array for a BOOLEAN is false; Flink fails inside of the array",
    "json/setup/type/VARIANT/decode~1": "json reads VARIANT; Flink does from the version after 2.3 on",
    "json/syntax/strict/3~0[5]": "the last value of a repeated field counts; Flink fails at the first, bad one",
    **{
        f"protobuf/{case}[{row}]": "a value that an enum does not have is an error; Flink writes the enum's first value"
        for case, rows in _NOT_IN_ENUM.items()
        for row in rows
    },
}
"""Messages with other results than in Flink, and the reason. `docs/flink.md` has a row for each."""


class NotComparable(Exception):
    """A value that Spark's types cannot hold."""


def cases(format: str) -> list[Case]:
    """Return all cases of a format, in the order of the file."""
    with lzma.open(FIXTURES / "flink-2.3" / f"{format}.jsonl.xz", "rt", encoding="ascii") as lines:
        return [json.loads(line) for line in lines]


def formats() -> list[str]:
    names = (path.name.removesuffix(".jsonl.xz") for path in (FIXTURES / "flink-2.3").glob("*.jsonl.xz"))
    return sorted(name for name in names if not name.startswith("computed"))  # those are of tests/support/computed.py


def columns(case: Case) -> str:
    """Return the schema as a user writes it: `ROW<a INT>` becomes `a INT`."""
    text: str = case["schema"].strip()
    return text[4:-1]


def message_bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return value["text"].encode() if isinstance(value, dict) else base64.b64decode(value)


def outcomes(case: Case) -> Iterator[str | None]:
    """Compare the library's results with a case. Returns one text per message: the difference, or None.

    Messages that cannot be compared are left out. A refusal or a registered schema counts as a message. A message in
    `DOCUMENTED` must differ from Flink.
    """
    if "deviation" in case:
        return
    if "factory_error" in case:
        for problem in _refusal(case):
            if case["id"] in DOCUMENTED:
                problem = None if problem else f"{case['id']} is refused as in Flink: remove it from DOCUMENTED"
            yield problem
        return
    with _served(case) as (options, registry):
        format = get_format(case["format"], options)
        compare = _decoded if case["direction"] == "decode" else _encoded
        for index, problem in compare(case, format):
            line = f"{case['id']}[{index}]"
            if line in DOCUMENTED:
                yield None if problem else f"{line} answers as Flink: remove it from DOCUMENTED and docs/flink.md"
                continue
            yield problem and (
                f"{line} options={case['options']} schema={case['schema']}\n"
                f"    message {case['messages'][index]['in']!r:.300}\n    {problem:.600}"
            )
        if registry is not None and "registered" in case:
            wanted = [(r["subject"], r["id"], json.loads(r["schema"])) for r in case["registered"]]
            right = registry.registered in (wanted, [])
            yield None if right else f"{case['id']} registered {registry.registered}, Flink {wanted}"


@contextlib.contextmanager
def _served(case: Case) -> Iterator[tuple[dict[str, Any], Registry | None]]:
    """Return the options of a case with a descriptor set in a file, or with the URL of a registry with its schemas."""
    if "descriptor_set" in case:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "types.desc")
            path.write_bytes(base64.b64decode(case["descriptor_set"]))
            name = {"message-class-name": case["message"]} if "full-name" in case["tags"] else {}
            yield {**case["options"], **name, "descriptor-file": str(path)}, None
        return
    if "{registry}" not in str(case["options"]):
        yield case["options"], None
        return
    known = case.get("registry", {}) if case["direction"] == "decode" else {}  # an encoder starts empty
    registry = Registry(
        ids={int(schema_id): text for schema_id, text in known.items()},
        next_id=case.get("registry_first_id") or 1,
        refused=tuple(case.get("registry_reject") or ()),
    )
    with _server().serving(registry), mock.patch("ssl.create_default_context", _tls_context):
        yield {key: value.replace("{registry}", registry.url) for key, value in case["options"].items()}, registry


_tls_context = functools.cache(ssl.create_default_context)
"""Makes one context for all clients. The registries use plain HTTP, and to load all certificates takes 20 to 60 ms."""


def format_of(case: Case) -> Format:
    """Return the format with the options of a case that does not need a registry."""
    with _served(case) as (options, _):
        return get_format(case["format"], options)


@functools.cache
def _server() -> RegistryServer:
    return RegistryServer()


def _refusal(case: Case) -> Iterator[str | None]:
    if case["factory_error"]["phase"] == "metadata" and not case["metadata"]:
        return  # the recorder requested no metadata keys from a format without metadata, which callers cannot notice
    try:
        with _served(case) as (options, _):
            format = get_format(case["format"], options)
            if case["direction"] == "decode":
                format.decode_batch(pa.array([], pa.binary()), columns(case), metadata=case.get("metadata", ()))
            else:
                format.encode_batch(pa.array([], arrow_type(row_of(case))), columns(case))
    except Exception as error:
        crashed = isinstance(error, AttributeError | NameError | AssertionError | IndexError | RecursionError)
        yield f"{case['id']} crashed: {error!r}" if crashed else None
    else:
        yield f"{case['id']} was accepted, but Flink says: {case['factory_error']['message']:.200}"


def row_of(case: Case) -> FlinkType:
    try:
        return parse_type(case["schema"])
    except ValueError:
        return FlinkType("ROW")


def _wanted(message: dict[str, Any]) -> Any:
    return message.get("sane", NotComparable) if "deviation" in message else message["out"]


def _is_error(wanted: Any) -> bool:
    return isinstance(wanted, dict) and "error" in wanted


def error_codes(case: Case) -> list[str]:
    """Return the error codes of the messages of a case that cannot be decoded."""
    if "factory_error" in case or case["direction"] != "decode":
        return []
    with _served(case) as (options, _):
        batch = _batch(case, get_format(case["format"], options))
    assert (batch.errors is None) == (batch.codes is None)
    if batch.errors is None or batch.codes is None:
        return []
    assert batch.errors.is_valid().equals(batch.codes.is_valid())
    codes: list[str] = batch.codes.drop_null().to_pylist()
    return codes


_batches: dict[str, DecodedBatch] = {}
"""Decoded messages by the id of their case. Several tests use them."""


def _batch(case: Case, format: Format) -> DecodedBatch:
    """Decode the messages of a case. The result is cached in the process."""
    found = _batches.get(case["id"])
    if found is None:
        array = pa.array([message_bytes(message["in"]) for message in case["messages"]], pa.binary())
        found = format.decode_batch(array, columns(case), metadata=tuple(case.get("metadata", ())))
        if format.identifier.endswith("json"):
            checked(found, array)
        _batches[case["id"]] = found
    return found


def _decoded(case: Case, format: Format) -> Iterator[tuple[int, str | None]]:
    metadata, messages = tuple(case.get("metadata", ())), case["messages"]
    batch = _batch(case, format)
    errors = batch.errors.to_pylist() if batch.errors is not None else [None] * len(messages)
    assert len(batch.rows) == len(errors) == len(messages)
    kinds = batch.row_kinds.to_pylist() if batch.row_kinds is not None else ["+I"] * len(batch.rows.values)
    extra = tuple(FlinkField(key, parse_type(format.metadata_types[key])) for key in metadata)
    row = FlinkType("ROW", fields=(*row_of(case).fields, *extra))
    for index, message in enumerate(case["messages"]):
        wanted = _wanted(message)
        if wanted is NotComparable:
            continue
        if _is_error(wanted):
            message_of = wanted["error"].get("message", "")
            yield index, None if errors[index] is not None else f"wanted an error ({message_of}), got rows"
            continue
        try:
            expected = [(r["kind"], to_python(r["row"], row)) for r in wanted["rows"]]
        except NotComparable:
            continue
        start, stop = batch.rows.offsets[index].as_py(), batch.rows.offsets[index + 1].as_py()
        got = [(kinds[i], from_arrow(batch.rows.values[i], row)) for i in range(start, stop)]
        if errors[index] is not None:
            yield index, f"wanted {expected}, got the error {errors[index]!r}"
        elif len(got) != len(expected) or not all(
            k1 == k2 and same(a, b, row) for (k1, a), (k2, b) in zip(got, expected, strict=True)
        ):
            yield index, f"wanted {expected}\n    got    {got}"
        else:
            yield index, None


def _encoded(case: Case, format: Format) -> Iterator[tuple[int, str | None]]:
    row, rows, kinds, kept = row_of(case), [], [], []
    for index, message in enumerate(case["messages"]):
        if _wanted(message) is NotComparable or "nanos" in message.get("spark", ""):
            continue
        try:
            rows.append(to_python(message["in"]["row"], row))
        except NotComparable:
            continue
        kinds.append(message["in"]["kind"])
        kept.append(index)
    batch = format.encode_batch(to_arrow(rows, row), columns(case), row_kinds=pa.array(kinds, pa.string()))
    errors = batch.errors.to_pylist() if batch.errors is not None else [None] * len(kept)
    for index, got, error in zip(kept, batch.messages.to_pylist(), errors, strict=True):
        message = case["messages"][index]
        wanted = _wanted(message)
        if _is_error(wanted):
            right = error is not None and got is None
            message_of = wanted["error"].get("message", "")
            yield index, None if right else f"wanted an error ({message_of}), got {got!r} error={error!r}"
            continue
        expected = message_bytes(wanted)
        equal = got == expected or ("jdk" in message and same_numbers(got, expected))
        if not equal and "avro_schema" in case:
            equal = same_avro(got, expected, case)
        if not equal and "map-order" in case["tags"]:
            equal = same_protobuf(got, expected, case)
        right = error is None and equal
        yield index, None if right else f"wanted {expected!r}\n    got    {got!r} error={error!r}"


# --- canonical Python values ----------------------------------------------------------------------------


def to_python(value: Any, t: FlinkType) -> Any:
    """Convert a vector's value to the canonical Python value, which is also the input of `to_arrow`."""
    if value is None:
        return None
    if t.root == "ROW":
        return tuple(to_python(v, f.type) for v, f in zip(value, t.fields, strict=True))
    if t.root == "ARRAY":
        return [to_python(v, t.fields[0].type) for v in value]
    if t.root in ("MAP", "MULTISET"):
        if any(key is None for key, _ in value):
            raise NotComparable(value)
        value_type = t.fields[1].type if t.root == "MAP" else FlinkType("INT")
        return [(to_python(k, t.fields[0].type), to_python(v, value_type)) for k, v in value]
    if t.root in ("CHAR", "VARCHAR"):
        if not isinstance(value, str):
            raise NotComparable(value)
        return value
    if t.root in ("BINARY", "VARBINARY"):
        return base64.b64decode(value)
    if t.root == "DECIMAL":
        return decimal.Decimal(value)
    if t.root == "FLOAT":
        return struct.unpack("f", struct.pack("f", float(value)))[0]
    if t.root == "DOUBLE":
        return float(value)
    if t.root == "DATE":
        return _micros(value) // 86_400_000_000
    if t.root == "TIME":
        if not isinstance(value, str):
            raise NotComparable(value)
        hours, minutes, seconds = value.split(":")
        whole, _, fraction = seconds.partition(".")
        return (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 10**9 + int((fraction + "0" * 9)[:9])
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return _micros(value)
    return value * 1000 if t.root == "INTERVAL DAY TO SECOND" else value


def _micros(text: str) -> int:
    match = _TIMESTAMP.match(text)
    assert match, text
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    if not 1 <= year <= 9999:
        raise NotComparable(text)
    days = (dt.datetime(year, month, day) - _EPOCH).days
    return (days * 86400 + hour * 3600 + minute * 60 + second) * 1_000_000 + int(((match[7] or "") + "0" * 6)[:6])


def from_arrow(scalar: pa.Scalar, t: FlinkType) -> Any:
    """Convert an Arrow scalar to the canonical Python value."""
    if not scalar.is_valid:
        return None
    if t.root == "ROW":
        return tuple(from_arrow(scalar[i], field.type) for i, field in enumerate(t.fields))
    if t.root == "ARRAY":
        return [from_arrow(item, t.fields[0].type) for item in scalar.values]
    if t.root in ("MAP", "MULTISET"):
        value_type = t.fields[1].type if t.root == "MAP" else FlinkType("INT")
        return [(from_arrow(e[0], t.fields[0].type), from_arrow(e[1], value_type)) for e in scalar.values]
    if t.root in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "INTERVAL DAY TO SECOND"):
        return scalar.cast(pa.int32() if t.root == "DATE" else pa.int64()).as_py()
    return scalar.as_py()


def to_arrow(rows: list[Any], row: FlinkType) -> pa.StructArray:
    """Convert canonical Python values to an array of the canonical Arrow type."""

    def build(values: list[Any], t: FlinkType) -> pa.Array:
        mask = pa.array([value is None for value in values], pa.bool_())
        if t.root == "ROW":
            if not t.fields:
                return pa.array([None if value is None else {} for value in values], pa.struct([]))
            children = [build([None if v is None else v[i] for v in values], f.type) for i, f in enumerate(t.fields)]
            return pa.StructArray.from_arrays(children, fields=list(arrow_type(t)), mask=mask)
        if t.root in ("ARRAY", "MAP", "MULTISET"):
            flat, offsets = [], [0]
            for value in values:
                flat += value or []
                offsets.append(len(flat))
            places = pa.array(offsets, pa.int32())
            if t.root == "ARRAY":
                return pa.ListArray.from_arrays(places, build(flat, t.fields[0].type), type=arrow_type(t), mask=mask)
            value_type = t.fields[1].type if t.root == "MAP" else FlinkType("INT")
            keys, items = build([k for k, _ in flat], t.fields[0].type), build([v for _, v in flat], value_type)
            return pa.MapArray.from_arrays(places, keys, items, type=arrow_type(t), mask=mask)
        if t.root in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "INTERVAL DAY TO SECOND"):
            return pa.array(values, pa.int32() if t.root == "DATE" else pa.int64()).cast(arrow_type(t))
        if t.root == "VARIANT":
            parts = [pa.array([value[part] if value else b"" for value in values]) for part in ("value", "metadata")]
            return pa.StructArray.from_arrays(parts, fields=list(arrow_type(t)), mask=mask)
        return pa.array(values, arrow_type(t))

    built: pa.StructArray = build(rows, nullable(row))
    return built


def same(a: Any, b: Any, t: FlinkType) -> bool:
    """Return whether values are equal: maps in any order, floating-point numbers by their bits."""
    if a is None or b is None:
        return a is b
    if t.root == "ROW":
        return all(same(x, y, f.type) for x, y, f in zip(a, b, t.fields, strict=True))
    if t.root == "ARRAY":
        return len(a) == len(b) and all(same(x, y, t.fields[0].type) for x, y in zip(a, b, strict=True))
    if t.root in ("MAP", "MULTISET"):
        value_type = t.fields[1].type if t.root == "MAP" else FlinkType("INT")
        left, right = sorted(a, key=repr), sorted(b, key=repr)
        return len(a) == len(b) and all(
            k1 == k2 and same(x, y, value_type) for (k1, x), (k2, y) in zip(left, right, strict=True)
        )
    if t.root in ("FLOAT", "DOUBLE"):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return type(a) is type(b) and str(a) == str(b)


def same_avro(a: bytes | None, b: bytes | None, case: Case) -> bool:
    """Return whether Avro messages are equal except for the order of map entries. Flink uses a Java HashMap."""
    if a is None or b is None:
        return False
    if case["options"].get("encoding", "").lower() == "json":
        return bool(json.loads(a) == json.loads(b))
    head = 5 if case["format"].endswith("avro-confluent") else 0
    schema = fastavro.parse_schema(_without_logical_types(json.loads(case["avro_schema"])))
    streams = [io.BytesIO(data[head:]) for data in (a, b)]
    left, right = (fastavro.schemaless_reader(stream, schema, None) for stream in streams)
    return a[:head] == b[:head] and len(a) == len(b) and repr(_sorted(left)) == repr(_sorted(right))


def same_protobuf(a: bytes | None, b: bytes | None, case: Case) -> bool:
    """Return whether protobuf messages are equal except for the order of map entries."""
    if a is None or b is None or len(a) != len(b):
        return False
    kind = protobuf_class(base64.b64decode(case["descriptor_set"]), case["message"])
    left, right = (kind.FromString(data).SerializePartialToString(deterministic=True) for data in (a, b))
    return bool(left == right)


def protobuf_class(descriptor_set: bytes, name: str) -> Any:
    """Return Google's message class for a message of a descriptor set."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _without_logical_types(value) for key, value in schema.items() if key != "logicalType"}


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((key, _sorted(inner)) for key, inner in value.items())
    return [_sorted(inner) for inner in value] if isinstance(value, list) else value


def same_numbers(a: bytes | None, b: bytes | None) -> bool:
    """Return whether texts are equal except for the spelling of floating-point numbers."""
    if a is None or b is None or _NUMBER.sub(b"#", a) != _NUMBER.sub(b"#", b):
        return False
    pairs = zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=True)
    return all(float(x) == float(y) or struct.pack("f", float(x)) == struct.pack("f", float(y)) for x, y in pairs)


@functools.cache
def groups() -> list[tuple[str, str, str]]:
    """Return format, direction and section of each group of cases."""
    return [
        (format, direction, section)
        for format in formats()
        if format in available_formats()
        for direction in ("decode", "encode")
        for section in sorted({c["id"].split("/")[1] for c in cases(format) if c["direction"] == direction})
    ]
