"""`proto-registry`: frames with paths, values, Protobuf schemas both ways, and Confluent's serializers."""

from __future__ import annotations

import base64
import random
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, json_format

from kvformat.codecs.discovery.column_types import Notes
from kvformat.codecs.protobuf import schema_columns
from kvformat.codecs.protobuf.proto_text import parse_proto
from kvformat.codecs.protobuf.schema_columns import columns_of_proto_schema
from kvformat.codecs.registries import cache
from kvformat.codecs.registries.registry import PROTOBUF
from kvformat.connectors import infer_schema, inspect_topic
from kvformat.connectors.infer.subject import ddl_from_subject
from kvformat.registry import Format, OptionError, SchemaError, get_format
from kvformat.registry.contract.samples import columns_text
from kvformat.registry.contract.schema_registries import RegistrySchema
from kvformat.registry.contract.schemas import resolve_schema, row_type
from kvformat.registry.contract.types import arrow_type, nullable
from tests.support import random_rows, services
from tests.support.all_types import COLUMNS, ROW
from tests.support.confluent import BY_TOPIC
from tests.support.extent import case_count
from tests.support.protobuf_types import class_of
from tests.support.registry_server import Registry

_ORDERS = """syntax = "proto3";
package shop;
message Order { int32 id = 1; optional string name = 2; message Item { string sku = 1; } repeated Item items = 3; }
message Other { string x = 1; message Inner { int64 z = 1; } }
"""


def _rows(schema: str, *values: dict[str, Any] | None) -> pa.StructArray:
    return pa.array(values, arrow_type(nullable(row_type(resolve_schema(schema)))))


def _format(url: str = "mock://proto-registry", **options: str) -> Format:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return get_format("proto-registry", {"url": url, "subject": "s-value", **named})


def _decoded(fmt: Format, schema: str, *messages: bytes | None) -> list[Any]:
    batch = fmt.decode_batch(pa.array(messages, pa.binary()), schema)
    errors = [None] * len(messages) if batch.errors is None else batch.errors.to_pylist()
    return [error or (row and row[0]) for row, error in zip(batch.rows.to_pylist(), errors, strict=True)]


@pytest.fixture
def orders(registry: Registry) -> Registry:
    """A schema of orders with id 1, and a later one, with another field and an import, with id 2."""
    newer = _ORDERS.replace("int32 id = 1;", "int32 id = 1; common.Price price = 4;").replace(
        "package shop;", 'package shop; import "common.proto";'
    )
    registry.ids |= {1: _ORDERS, 2: newer, 3: 'syntax = "proto3"; package common; message Price { double cents = 1; }'}
    registry.types |= dict.fromkeys((1, 2, 3), PROTOBUF)
    registry.subjects |= {"orders-value": [1, 2], "common": [3]}
    registry.references[2] = [{"name": "common.proto", "subject": "common", "version": 1}]
    registry.next_id = 4
    return registry


# --- values --------------------------------------------------------------------------------------------


def test_every_type_is_written_and_read_again() -> None:
    fmt = _format("mock://every-type")  # whose first id is 1
    batch = fmt.encode_batch(_rows(COLUMNS, ROW, {"id": 1}, None), COLUMNS)
    assert batch.errors is None
    first, second, none = batch.messages.to_pylist()
    assert (second[5:], none) == (b"\0\x08\x01", None)
    assert first[:6] == b"\0\0\0\0\1\0"
    assert _decoded(fmt, COLUMNS, *batch.messages.to_pylist()) == [ROW, dict.fromkeys(ROW) | {"id": 1}, None]
    empty = {name: ROW[name] for name in ("id",)} | {"tags": [], "m": [], "ms": [], "name": "", "b1": 0, "r": {}}
    (found,) = _decoded(fmt, COLUMNS, *fmt.encode_batch(_rows(COLUMNS, empty), COLUMNS).messages.to_pylist())
    assert found == dict.fromkeys(ROW) | empty | {"r": {"a": None, "b": None}}


def test_collections_of_every_nullability() -> None:
    schema = (
        "a ARRAY<INT NOT NULL> NOT NULL, b ARRAY<INT>, c ARRAY<ARRAY<DATE>> NOT NULL, "
        "d MAP<INT NOT NULL, ROW<`x` DECIMAL(5, 1)>> NOT NULL, e MAP<STRING, ARRAY<TINYINT>>, "
        "f ARRAY<ROW<`y` TIMESTAMP(3) NOT NULL> NOT NULL> NOT NULL, g ROW<`h` MULTISET<STRING> NOT NULL> NOT NULL"
    )
    value: dict[str, Any] = {
        "a": [1, 2],
        "b": [None, 3],
        "c": [[None], None, []],
        "d": [(7, {"x": None}), (8, None)],
        "e": [("k", [1, None]), ("l", None)],
        "f": [{"y": None}],
        "g": {"h": [("s", 3)]},
    }
    fmt = _format(subject="collections")
    rows = _rows(schema, value, {name: [] if name != "g" else {"h": []} for name in value})
    batch = fmt.encode_batch(rows, schema)
    assert batch.errors is None
    assert _decoded(fmt, schema, *batch.messages.to_pylist()) == rows.to_pylist()


def test_decimals_keep_all_their_digits() -> None:
    schema = "d DECIMAL(38, 18)"
    texts = ["99999999999999999999.999999999999999999", "-99999999999999999999.999999999999999999", "0", "1e-18", None]
    rows = _rows(schema, *({"d": None if text is None else Decimal(text)} for text in texts))
    fmt = _format(subject="decimals")
    batch = fmt.encode_batch(rows, schema)
    assert batch.errors is None
    assert _decoded(fmt, schema, *batch.messages.to_pylist()) == rows.to_pylist()


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (b"", "0.00"),
        (b"\x12\x01\x01\x18\x02", "0.00"),  # of two digits after the point, without bytes
        (b"\n\x02\x30\x39\x18\x03", "12.35"),  # 12.345, rounded half up
        (b"\n\x01\x07", "7.00"),
        (b"\n\x03\x01\x86\xa0", None),  # 100000
        (b"\n\x01\x07\x18\x80\x80\x80\x80\x08", None),  # its scale is the least INT
    ],
)
def test_decimals_of_other_scales(registry: Registry, value: bytes, number: str | None) -> None:
    text = 'syntax = "proto3"; import "confluent/type/decimal.proto"; message A { confluent.type.Decimal d = 1; }'
    registry.ids, registry.types = {1: text}, {1: PROTOBUF}
    message = b"\0\0\0\0\1\0\n" + bytes([len(value)]) + value
    (found,) = _decoded(_format(registry.url), "d DECIMAL(6, 2)", message)
    if number is None:
        assert found.startswith("field 'd': cannot read {'value': ")
    else:
        assert found == {"d": Decimal(number)}


@pytest.mark.parametrize(
    ("proto", "column", "body", "error"),
    [
        (
            "google.type.Date",
            "DATE",
            b"\x08\xe7\x0f\x10\x02\x18\x1d",
            "cannot read {'year': 2023, 'month': 2",
        ),
        ("google.type.Date", "DATE", b"", "'month': 0"),
        ("google.type.Date", "DATE", b"\x08\xe7\x0f\x10\x0d\x18\x01", "'month': 13"),
        ("google.type.Date", "DATE", b"\x08\x90\x4e\x10\x01\x18\x01", "'year': 10000"),
        ("google.type.TimeOfDay", "TIME(3)", b"\x08\x18", "cannot read {'hours': 24"),
        ("google.type.TimeOfDay", "TIME(3)", b"\x10\x3c", "'minutes': 60"),
        ("google.type.TimeOfDay", "TIME(3)", b"\x18\x3c", "'seconds': 60"),
        ("google.protobuf.Timestamp", "TIMESTAMP(3)", b"\x08" + b"\x80" * 9 + b"\x01", f"'seconds': {-(2**63)}"),
        ("google.protobuf.Timestamp", "TIMESTAMP(3)", b"\x10\x80\x94\xeb\xdc\x03", "'nanos': 1000000000"),
        ("confluent.type.Decimal", "DECIMAL(3, 1)", b"\x0a\x02\x7f\xff", "as DECIMAL(3, 1)"),
    ],
)
def test_messages_that_are_no_values(registry: Registry, proto: str, column: str, body: bytes, error: str) -> None:
    imports = {"google.type.Date": "google/type/date.proto", "google.type.TimeOfDay": "google/type/timeofday.proto"}
    file = imports.get(proto, proto.lower().replace(".", "/") + ".proto")
    registry.ids[1] = f'syntax = "proto3"; import "{file}"; message M {{ .{proto} a = 1; }}'
    registry.types[1] = PROTOBUF
    bad = b"\0\0\0\0\1\0\x0a" + bytes([len(body)]) + body
    found = _decoded(_format(registry.url), f"a {column}", b"\0\0\0\0\1\0", bad, b"\0\0\0\0\1\0")
    assert (found[0], found[2]) == ({"a": None}, {"a": None})
    assert error in found[1]


def test_numbers_of_other_widths_and_wrappers(registry: Registry) -> None:
    registry.ids[1] = """syntax = "proto3"; import "google/protobuf/wrappers.proto";
        message M { uint32 a = 1; fixed32 b = 2; int32 c = 3; google.protobuf.Int64Value d = 4;
                    repeated google.protobuf.StringValue e = 5; map<string, google.protobuf.BoolValue> f = 6; }"""
    registry.types[1] = PROTOBUF
    fmt = _format(registry.url)
    body = b"\x08\xff\xff\xff\xff\x0f\x15\xff\xff\xff\xff\x18\xac\x02\x22\x02\x08\x07\x2a\x03\x0a\x01s\x2a\x00"
    body += b"\x32\x07\x0a\x01k\x12\x02\x08\x01"
    schema = "a BIGINT, b BIGINT, c SMALLINT, d BIGINT, e ARRAY<STRING>, f MAP<STRING, BOOLEAN>"
    value = {"a": 2**32 - 1, "b": 2**32 - 1, "c": 300, "d": 7, "e": ["s", ""], "f": [("k", True)]}
    assert _decoded(fmt, schema, b"\0\0\0\0\1\0" + body) == [value]
    assert "cannot read 300 (int32) as TINYINT" in _decoded(fmt, "c TINYINT", b"\0\0\0\0\1\0" + body)[0]
    with pytest.raises(SchemaError, match="column 'a' is BIGINT, but its field is uint32"):
        get_format("proto-registry", {"url": registry.url, "subject": "w", "schema": registry.ids[1]}).encode_batch(
            _rows("a BIGINT", {"a": 1}), "a BIGINT"
        )


# --- frames --------------------------------------------------------------------------------------------


def test_messages_of_several_schemas_and_types_keep_their_order(orders: Registry) -> None:
    first, second = b"\0\0\0\0\1", b"\0\0\0\0\2"
    messages = [
        second + b"\0\x08\x07\x22\x09\x09" + bytes(6) + b"\xf0\x3f",
        first + b"\0\x08\x05\x12\x01a",
        None,
        first + b"\x02\x02\x0a\x01o",  # the path 1: message Other
        first + b"\x04\x02\x00\x08\x2a",  # the path 1, 0: message Other.Inner
        first + b"\0",
        second + b"\0\x08\x09",
        first + b"\x02\x04\x08\x01",
        first,
        first + b"\x80",
        b"\0\0\0\0\x09\0\x08\x01",
        b"\x08\x01",
        first + b"\0\x08",
        first + b"\x02\x02\x0a\x01p",  # after messages without a path, it has one
    ]
    schema = "id INT, name STRING, price ROW<cents DOUBLE>, x STRING, z BIGINT"
    found = _decoded(_format(orders.url), schema, *messages)
    nothing = dict.fromkeys(("id", "name", "price", "x", "z"))
    assert found[:7] == [
        nothing | {"id": 7, "price": {"cents": 1.0}},
        nothing | {"id": 5, "name": "a"},
        None,
        nothing | {"x": "o"},
        nothing | {"z": 21 * 2},
        nothing | {"id": 0},
        nothing | {"id": 9},
    ]
    assert "no message at the index path [2]" in found[7]
    assert "no path of a type" in found[8]
    assert "no path of a type" in found[9]
    assert "Could not find schema with id 9" in found[10]
    assert "08, not 00" in found[11]
    assert "the input ends in the middle of a field" in found[12]
    assert found[13] == nothing | {"x": "p"}
    alone = [_decoded(_format(orders.url), schema, message)[0] for message in messages]
    assert alone == found
    assert [request for request in orders.requests if "ids" in request] == [
        f"GET /schemas/ids/{schema_id}" for schema_id in (1, 2, 9)
    ]


def test_types_whose_paths_begin_with_the_same_bytes_are_told_apart(registry: Registry) -> None:
    inner = "message A { int32 a = 1; } message B { int32 b = 1; }"
    types = [f"message M{n} {{ int32 m{n} = 1; {inner if n == 1 else ''} }}" for n in range(129)]
    registry.ids[1], registry.types[1] = f'syntax = "proto3"; {" ".join(types)}', PROTOBUF
    paths = {"a": b"\4\2\0", "b": b"\4\2\2", "m64": b"\2\x80\1", "m128": b"\2\x80\2", "m2": b"\2\4", "m3": b"\2\6"}
    wanted = list(paths) * 2
    messages = [b"\0\0\0\0\1" + paths[name] + b"\x08\7" for name in wanted]
    found = _decoded(_format(registry.url), ", ".join(f"{name} INT" for name in paths), *messages)
    assert [[name for name, value in row.items() if value is not None] for row in found] == [[name] for name in wanted]


def test_one_message_of_another_schema_or_none_is_found_anywhere(orders: Registry) -> None:
    rng, fmt, schema, compared = random.Random(37), _format(orders.url), "id INT, x STRING", 0
    usual = [b"\0\0\0\0\1\0", b"\1" + uuid.UUID(orders.guid(1)).bytes + b"\0"]
    others = [b"\0\0\0\0\2\0", b"\0\0\0\0\1\2\2", b"\0\0\0\0\1", b"\0\0\0", b"\0\0\0\0\x09\0", b"\2\0\0\0\1\0"]
    for _ in range(case_count(quick=60, night=240)):
        first = rng.choice(usual)
        heads = [first] * rng.randint(1, 20)
        if rng.random() < 0.8:
            heads[rng.randrange(len(heads))] = rng.choice([*usual, *others])
        messages = [head + rng.choice([b"", b"\x08\x07", b"\x08", b"\x0a\x01o"]) for head in heads]
        found = _decoded(fmt, schema, *messages)
        assert found == [_decoded(fmt, schema, message)[0] for message in messages]
        compared += len(messages)
    assert compared > 400


def test_schemas_that_do_not_fit_are_errors_of_their_messages(orders: Registry) -> None:
    orders.ids |= {5: "message {", 6: '{"type":"int"}'}
    orders.types |= {5: PROTOBUF}
    frames = [b"\0\0\0\0\5\0", b"\0\0\0\0\6\0", b"\0\0\0\0\1\0\x08\x01"]
    broken, avro, good = _decoded(_format(orders.url), "id INT", *frames)
    assert "the schema with id 5" in broken
    assert "error in line 1" in broken
    assert "schema 6 is not a Protobuf schema but AVRO" in avro
    assert good == {"id": 1}
    (wrong,) = _decoded(_format(orders.url), "name BIGINT", frames[2])
    assert "is not compatible of BIGINT" in wrong


def test_descriptors_in_base64(registry: Registry) -> None:
    """Confluent's Python client registers them."""
    file = parse_proto(_ORDERS, "orders.proto")
    registry.ids[1] = base64.b64encode(file.SerializeToString()).decode()
    registry.types[1] = PROTOBUF
    assert _decoded(_format(registry.url), "id INT", b"\0\0\0\0\1\0\x08\x01") == [{"id": 1}]


# --- options -------------------------------------------------------------------------------------------


def test_the_schema_is_registered_once(registry: Registry) -> None:
    fmt = get_format("proto-registry", {"url": registry.url, "subject": "orders"})
    rows = _rows("a INT NOT NULL, b TINYINT", {"a": 1, "b": 2})
    for _ in range(2):
        assert (
            fmt.encode_batch(rows, "a INT NOT NULL, b TINYINT").messages[0].as_py() == b"\0\0\0\0\1\0\x08\x01\x10\x02"
        )
    assert registry.requests == ["POST /subjects/orders/versions"]
    assert registry.types == {1: PROTOBUF}
    params = '{ key: "connect.type", value: "int8" }, { key: "flink.version", value: "1" }'
    assert registry.ids[1] == (
        'syntax = "proto3";\npackage io.confluent.protobuf.generated;\n\nimport "confluent/meta.proto";\n\n'
        "message Row {\n  int32 a = 1;\n"
        f"  optional int32 b = 2 [(confluent.field_meta) = {{ params: [{params}] }}];\n}}\n"
    )


def test_the_latest_schema_may_have_imports(orders: Registry) -> None:
    fmt = get_format("proto-registry", {"url": orders.url, "subject": "orders-value", "use-latest-version": "true"})
    schema = "id INT, price ROW<cents DOUBLE>"
    rows = _rows(schema, {"id": 7, "price": {"cents": 1.0}})
    (message,) = fmt.encode_batch(rows, schema).messages.to_pylist()
    assert message == b"\0\0\0\0\2\0\x08\x07\x22\x09\x09" + bytes(6) + b"\xf0\x3f"
    planned = fmt.for_encoding(resolve_schema(schema))
    assert planned.encode_batch(rows, schema).messages[0].as_py() == message
    with pytest.raises(SchemaError, match="no field for column 'nope'"):
        fmt.encode_batch(_rows("nope INT", {"nope": 1}), "nope INT")


def test_types_and_names_that_protobuf_does_not_have() -> None:
    for schema in ("a INTERVAL DAY TO SECOND", "`a-b` INT"):
        with pytest.raises(SchemaError, match="proto-registry"):
            _format().decode_batch(pa.array([], pa.binary()), schema)
        with pytest.raises(SchemaError, match="proto-registry"):
            _format().encode_batch(_rows(schema), schema)
    with pytest.raises(OptionError, match="option 'url' of format 'proto-registry' is missing"):
        get_format("proto-registry").decode_batch(pa.array([], pa.binary()), "a INT")


# --- Protobuf schemas to columns ---------------------------------------------------------------------------


def _columns(text: str) -> tuple[str, tuple[str, ...]]:
    notes = Notes()
    return columns_text(columns_of_proto_schema(RegistrySchema(PROTOBUF, text), notes)), notes.texts()


def test_the_columns_of_a_registered_schema_are_those_of_its_table() -> None:
    schema = COLUMNS + ", aa ARRAY<ARRAY<INT> NOT NULL> NOT NULL, mm MAP<INT, ROW<`x` TIME(3) NOT NULL>> NOT NULL"
    text = _format().own_schema(resolve_schema(schema)).text  # type: ignore[attr-defined]
    found, notes = _columns(text)
    assert row_type(resolve_schema(found)) == row_type(resolve_schema(schema))
    assert notes == ()


@pytest.mark.parametrize("t", ["ROW<x INT> NOT NULL", "DATE NOT NULL", "DECIMAL(5, 2) NOT NULL"])
def test_a_message_that_is_not_null_says_so_as_a_column_and_as_an_element(t: str) -> None:
    columns = f"a {t}, b ARRAY<{t}> NOT NULL"
    text = _format().own_schema(resolve_schema(columns)).text  # type: ignore[attr-defined]
    assert text.count('key: "flink.notNull", value: "true"') == 2


def test_a_multiset_is_told_from_a_map_by_its_field_and_inside_of_a_wrapper() -> None:
    columns = "a MULTISET<STRING>, b MULTISET<STRING> NOT NULL, c ARRAY<MULTISET<STRING> NOT NULL> NOT NULL"
    text = _format().own_schema(resolve_schema(columns)).text  # type: ignore[attr-defined]
    assert row_type(resolve_schema(_columns(text)[0])) == row_type(resolve_schema(columns))
    told = [line.split() for line in text.splitlines() if 'key: "flink.type", value: "multiset"' in line]
    assert [words[words.index("=") - 1] for words in told] == ["a", "b", "value", "value"]


@pytest.mark.parametrize(
    "t",
    [
        *(f"TIME({p})" for p in range(4)),
        *(f"{root}({p})" for root in ("TIMESTAMP", "TIMESTAMP_LTZ") for p in range(10)),
        *(f"{root}({n})" for root in ("CHAR", "VARCHAR", "BINARY", "VARBINARY") for n in (1, 2)),
        *("DECIMAL(1, 0)", "DECIMAL(38, 38)"),
    ],
)
def test_each_precision_and_length_is_kept_in_the_schema(t: str) -> None:
    columns = f"a {t}, b ARRAY<{t} NOT NULL> NOT NULL, c ROW<d {t}> NOT NULL"
    found, notes = _columns(_format().own_schema(resolve_schema(columns)).text)  # type: ignore[attr-defined]
    assert row_type(resolve_schema(found)) == row_type(resolve_schema(columns))
    assert notes == ()


def test_schemas_of_other_producers() -> None:
    found, notes = _columns(
        """syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
        message M { uint32 a = 1; optional fixed64 b = 2; enum E { X = 0; } E e = 3; google.protobuf.Timestamp t = 4;
            google.protobuf.Int32Value w = 5; map<string, M> self = 6; message Empty {} Empty none = 7;
            oneof pick { string p = 8; int32 q = 9; } repeated bytes r = 10; map<int32, double> m = 11; }"""
    )
    assert found == (
        "`a` BIGINT NOT NULL, `b` BIGINT, `e` STRING NOT NULL, `t` TIMESTAMP_LTZ(9), `w` INT, `p` STRING, `q` INT, "
        "`r` ARRAY<BYTES NOT NULL> NOT NULL, `m` MAP<INT NOT NULL, DOUBLE NOT NULL> NOT NULL"
    )
    assert notes == (
        "self.value: the message M contains itself, which no table type does: left out",
        "none: a message without fields: left out",
    )


@pytest.mark.parametrize(
    ("kind", "params", "column"),
    [
        ("confluent.type.Decimal", {}, "DECIMAL(38, 18)"),
        ("confluent.type.Decimal", {"precision": "18"}, "DECIMAL(18, 18)"),
        ("confluent.type.Decimal", {"precision": "17"}, "DECIMAL(17, 17)"),
        ("confluent.type.Decimal", {"precision": "5", "scale": "6"}, "DECIMAL(5, 5)"),
        ("confluent.type.Decimal", {"precision": "39", "scale": "2"}, "DECIMAL(38, 2)"),
        ("google.type.TimeOfDay", {"flink.precision": "4"}, "TIME(3)"),
        ("google.protobuf.Timestamp", {"flink.precision": "10"}, "TIMESTAMP_LTZ(9)"),
        ("sint32", {"connect.type": "int8"}, "TINYINT NOT NULL"),
        ("int64", {"connect.type": "int8"}, "BIGINT NOT NULL"),
        ("string", {"flink.maxLength": "3", "flink.minLength": "3"}, "CHAR(3) NOT NULL"),
        ("bytes", {"flink.maxLength": "3", "flink.minLength": "2"}, "VARBINARY(3) NOT NULL"),
    ],
)
def test_parameters_beyond_a_type_are_limited_by_it(kind: str, params: dict[str, str], column: str) -> None:
    pairs = ", ".join(f'{{ key: "{key}", value: "{value}" }}' for key, value in params.items())
    imports = ("confluent/meta", "confluent/type/decimal", "google/type/timeofday", "google/protobuf/timestamp")
    text = 'syntax = "proto3"; ' + " ".join(f'import "{name}.proto";' for name in imports)
    text += f" message A {{ {kind} a = 1 [(confluent.field_meta) = {{ params: [{pairs}] }}]; }}"
    assert _columns(text) == (f"`a` {column}", ())


_PAIR = "ROW<`key` STRING NOT NULL, `value` INT NOT NULL>"


@pytest.mark.parametrize(
    ("field", "fields", "column"),
    [
        ("repeated PairEntry", "string key = 1; int32 value = 2;", "MAP<STRING NOT NULL, INT NOT NULL> NOT NULL"),
        ("repeated PairEntry", "int32 value = 1; string key = 2;", "MAP<STRING NOT NULL, INT NOT NULL> NOT NULL"),
        ("PairEntry", "string key = 1; int32 value = 2;", _PAIR),
        ("repeated Pair", "string key = 1; int32 value = 2;", f"ARRAY<{_PAIR} NOT NULL> NOT NULL"),
    ],
)
def test_repeated_messages_of_key_and_value_are_a_map_by_their_name(field: str, fields: str, column: str) -> None:
    name = field.rpartition(" ")[2]
    text = f'syntax = "proto3"; message M {{ {field} p = 1; }} message {name} {{ {fields} }}'
    assert _columns(text) == (f"`p` {column}", ())


def test_a_schema_that_stands_for_too_many_types_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_columns, "_MOST_TYPES", 100)
    levels = " ".join(f"message L{n} {{ L{n - 1} a = 1; L{n - 1} b = 2; }}" for n in range(1, 8))
    with pytest.raises(SchemaError, match="more than 100 types"):
        _columns(f'syntax = "proto3"; message M {{ L7 a = 1; }} message L0 {{ int32 a = 1; }} {levels}')


def test_columns_of_a_subject_and_of_messages(orders: Registry) -> None:
    assert ddl_from_subject(orders.url, "orders-value", version=1) == (
        "`id` INT NOT NULL, `name` STRING, `items` ARRAY<ROW<`sku` STRING NOT NULL> NOT NULL> NOT NULL"
    )
    assert "`price` ROW<`cents` DOUBLE NOT NULL>" in ddl_from_subject(orders.url, "orders-value")
    assert "'format' = 'proto-registry'" in ddl_from_subject(orders.url, "orders-value", name="orders")
    messages = [b"\0\0\0\0\1\0\x08\x01\x12\x03abc", b"\0\0\0\0\2\0\x08\x02\x12\x03abc"]
    found = infer_schema(messages, format="proto-registry", options={"url": orders.url})
    assert found.notes == ("price: not in all of the schemas that the messages have: nullable",)
    inspected = inspect_topic(messages, registry=orders.url)
    assert [guess.format for guess in inspected.guesses] == ["proto-registry"]
    assert inspected.ddl is not None


# --- the text of .proto files ------------------------------------------------------------------------------


def test_a_text_with_everything_has_the_descriptor_of_protoc() -> None:
    text = r"""
        edition = "2023"; /* a
        comment */ package a.b; import public "x.proto"; // another
        option java_package = "com.acme"; option features.field_presence = IMPLICIT;
        option (my.own) = { a: [1, -2] b < c: "}" > };
        message M { extensions 100 to max; reserved 5, 7 to 9; reserved "old", "older"; option deprecated = true;
            int32 a = 1 [features.field_presence = EXPLICIT, deprecated = true, (my.opt).x = 1.5e3, default = -3];
            map<string, .a.b.M> kids = 0x2; repeated sint64 n = 03 [packed = true]; .a.b.M.In in = 4;
            oneof one_of { option (o) = 1; string s = 6 [default = "x\n\"\x41\101" 'y']; bytes t = 10; }
            message In { enum E { option allow_alias = true; reserved -1; A = 0;
                B = -0x1 [deprecated = true]; } E e = 1; };
            extend M { int32 more = 101; } }
        service S { rpc Do (M) returns (stream M) { option (google.api.http) = { get: "/" }; } rpc Re (M) returns (M); }
    """
    file = parse_proto(text, "m.proto")
    message = file.message_type[0]
    assert (file.package, list(file.dependency), file.options.java_package) == ("a.b", ["x.proto"], "com.acme")
    assert file.edition == descriptor_pb2.EDITION_2023
    assert file.options.features.field_presence == descriptor_pb2.FeatureSet.IMPLICIT
    assert [(f.name, f.number, f.label, f.type, f.type_name) for f in message.field] == [
        ("a", 1, 1, 5, ""),
        ("kids", 2, 3, 11, "KidsEntry"),
        ("n", 3, 3, 18, ""),
        ("in", 4, 1, 1, ".a.b.M.In"),
        ("s", 6, 1, 9, ""),
        ("t", 10, 1, 12, ""),
    ]
    assert (message.field[0].default_value, message.field[4].default_value) == ("-3", 'x\n"AAy')
    assert message.field[0].options.features.field_presence == descriptor_pb2.FeatureSet.EXPLICIT
    assert [n.name for n in message.nested_type] == ["KidsEntry", "In"]
    assert message.nested_type[0].options.map_entry
    assert [(v.name, v.number) for v in message.nested_type[1].enum_type[0].value] == [("A", 0), ("B", -1)]
    assert message.options.deprecated
    assert [o.name for o in message.oneof_decl] == ["one_of"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("message M {\n int32 }", "line 2: expected a name, found '}'"),
        ("message M {", "line 1: the text ends too early"),
        ('syntax = "proto3"', "line 1: the text ends before ';'"),
        ("message M { int32 a = x; }", "line 1: expected a number, found 'x'"),
        ("message M { int32 a = 1.5; }", "1.5 is not an integer"),
        ("message M {\nint32 a = 2147483648\n;\n}", "line 2: 2147483648 is not an integer of 32 bits"),
        ("enum E { A = -2147483649; }", "2147483649 is not an integer of 32 bits"),
        ("\n\n§", "line 3: an unexpected character"),
        ("foo", "line 1: an unexpected 'foo'"),
        ("message M {" * 100, "more than 64 levels"),
        ("option x = " + "{a:" * 100, "more than 64 levels"),
        ('edition = "1999";', "edition '1999' is not known"),
    ],
)
def test_errors_of_a_text_name_their_line(text: str, error: str) -> None:
    with pytest.raises(SchemaError, match="the Protobuf schema has an error in line") as raised:
        parse_proto(text, "x.proto")
    assert error in str(raised.value)


def test_any_text_is_parsed_or_an_error() -> None:
    rng, parts, errors = random.Random(5), _ORDERS.split(" "), 0
    for _ in range(case_count(quick=2000, night=8000)):
        text = (
            " ".join(rng.choices(parts, k=rng.randint(1, 30))) if rng.random() < 0.5 else _ORDERS[rng.randrange(40) :]
        )
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(["{", "}", "[", '"', "=", ";", "/*", "\\", "0x", "-", ""]) + text[at + 1 :]
        try:
            parse_proto(text, "x.proto")
        except SchemaError:
            errors += 1
    assert errors > 1000


# --- Confluent's serializers ------------------------------------------------------------------------------


def _check_peers(url: str, count: int) -> int:
    """Let Confluent's classes read ours and write the same bytes again. Returns the number of rows."""
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    context = SerializationContext("orders", MessageField.VALUE)
    rng, compared = random.Random(11), 0
    for number in range(count):
        text = random_rows.schema(rng, columns=rng.randint(1, 6), depth=2).replace("VARIANT", "INT")
        fmt = get_format("proto-registry", {"url": url, "subject": f"proto-{number}"})
        rows = random_rows.rows(rng, row_type(resolve_schema(text)), 10)
        batch = fmt.encode_batch(rows, text)
        own = fmt.own_schema(resolve_schema(text)).text  # type: ignore[attr-defined]
        kind = class_of(own)
        reader = ProtobufDeserializer(kind)
        client: Any = cache._registry(fmt.settings)  # type: ignore[attr-defined]
        writer = ProtobufSerializer(kind, client.registry._client, conf=BY_TOPIC)
        for message, row in zip(batch.messages.to_pylist(), batch.messages, strict=True):
            if message is None:
                continue
            value = reader(message, context)
            theirs = writer(value, context)
            assert theirs[5:] == message[5:], text  # the same path and body, by Google's own writer
            both = fmt.decode_batch(pa.array([message, theirs], pa.binary()), text)
            assert both.errors is None, (text, both.errors)
            assert both.rows[0] == both.rows[1], (text, json_format.MessageToJson(value), row)
            compared += 1
    return compared


def test_confluents_serializers_in_memory() -> None:
    assert _check_peers("mock://proto-registry-peers", case_count(quick=30, night=100)) > 150


@pytest.mark.services
@pytest.mark.slow
def test_confluents_serializers_with_a_real_registry(apicurio: services.SchemaRegistry) -> None:
    assert _check_peers(apicurio.url, 15) > 80
    fmt = _format(apicurio.url, subject="protobuf-value")
    batch = fmt.encode_batch(_rows(COLUMNS, ROW), COLUMNS)
    assert batch.errors is None
    assert _decoded(_format(apicurio.url), COLUMNS, *batch.messages.to_pylist()) == [ROW]
    assert row_type(resolve_schema(ddl_from_subject(apicurio.url, "protobuf-value"))) == row_type(
        resolve_schema(COLUMNS)
    )
