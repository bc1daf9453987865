"""Writing by a registered schema that others have made: by name, with its defaults, enums, fixed and unions."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry import Format, SchemaError, get_format
from kvformat.registry.contract.schemas import resolve_schema
from tests.support.avro_schemas import decimal_of, enum_of, fixed_of, record_of, time_of
from tests.support.registry_server import Registry

_UTC = dt.UTC
_SECOND = dt.datetime(1970, 1, 1, 0, 0, 1)


def _latest(registry: Registry, schema: Any, identifier: str = "avro-registry", **options: str) -> Format:
    """Register a schema as the latest one of a subject, and return the format that writes by it."""
    registry.ids[7] = json.dumps(schema)
    registry.subjects["s"] = [7]
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return get_format(identifier, {"url": registry.url, "subject": "s", "use-latest-version": "true", **named})


def _written(fmt: Format, table: str, *rows: Any) -> list[Any]:
    """Return the datum of each row in hexadecimal digits, or its error."""
    schema = resolve_schema(table)
    batch = fmt.encode_batch(pa.array(rows, pa.struct(list(schema))), schema)
    errors = [None] * len(rows) if batch.errors is None else batch.errors.to_pylist()
    for message, error in zip(batch.messages.to_pylist(), errors, strict=True):
        assert (message is None) == (error is not None)
        assert message is None or message[:5] == b"\0\0\0\0\x07"
    return [error or message[5:].hex(" ") for message, error in zip(batch.messages.to_pylist(), errors, strict=True)]


# --- what is written -----------------------------------------------------------------------------------


def test_fields_are_matched_by_name_and_the_others_get_their_defaults(registry: Registry) -> None:
    inner = record_of(("more", ["int", "null"], 5), ("x", "int"), name="Inner")
    schema = record_of(
        ("note", "string", "é"),
        ("inner", ["null", inner]),
        ("ratio", "double", 0.5),
        ("id", "long"),
        ("color", enum_of("Color", "RED", "BLUE"), "BLUE"),
        ("tags", {"type": "array", "items": "string"}, ["a"]),
        ("mark", fixed_of("Mark", 2), "\u00ff\u0001"),
        ("owner", record_of(("a", "int", 1), ("b", ["null", "int"], None), name="Owner"), {"a": 2}),
        ("counts", {"type": "map", "values": "long"}, {"k": 3}),
    )
    fmt = _latest(registry, schema)
    found = _written(fmt, "id BIGINT, inner ROW<x INT>", {"id": 1, "inner": {"x": 9}}, {"id": 2, "inner": None})
    after = "02 02 02 61 00 ff 01 04 00 02 02 6b 06 00"
    half = "00 00 00 00 00 00 e0 3f"
    assert found == [f"04 c3 a9 02 00 0a 12 {half} 02 {after}", f"04 c3 a9 00 {half} 04 {after}"]
    assert registry.registered == []


@pytest.mark.parametrize(
    ("avro", "default", "datum"),
    [
        ("bytes", "\u00ff\u0001", "04 ff 01"),
        (fixed_of("F", 2), "\u00ff", "ff 00"),  # as Java pads and cuts it
        (fixed_of("F", 2), "abc", "61 62"),
        (decimal_of(4, 2), "\u0001", "02 01"),
        ("float", 1, "00 00 80 3f"),
        ("null", None, ""),
        (["int", "string"], "a", "02 02 61"),  # since Avro 1.12
        ({"type": "array", "items": ["null", "int"]}, [], "00"),
        ({"type": "map", "values": ["null", "int"]}, {"k": 5}, "02 02 6b 02 0a 00"),
        (["null", record_of(("x", ["null", "int"]), name="R")], {"x": 5}, "02 02 0a"),
        ({"type": "map", "values": {"type": "array", "items": "string"}}, {"k": ["a"]}, "02 02 6b 02 02 61 00 00"),
    ],
)
def test_defaults(registry: Registry, avro: Any, default: Any, datum: str) -> None:
    fmt = _latest(registry, record_of(("c", avro, default), ("n", "int")))
    assert _written(fmt, "n INT", {"n": 1}) == [f"{datum} 02".strip()]


def test_an_enum_and_a_fixed_are_written(registry: Registry) -> None:
    schema = record_of(("color", ["null", enum_of("Color", "RED", "BLUE")]), ("mark", fixed_of("Mark", 2)))
    rows = [{"color": c, "mark": m} for c, m in (("BLUE", b"xy"), (None, b"xy"), ("PINK", b"xy"), ("RED", b"x"))]
    assert _written(_latest(registry, schema), "color STRING, mark BYTES", *rows) == [
        "02 02 78 79",
        "00 78 79",
        "field color: 'PINK' is not a symbol of enum com.acme.Color; it has RED, BLUE",
        "field 'mark': 1 bytes, but the schema's fixed has 2",
    ]


def test_an_enum_s_default_is_for_readers_only(registry: Registry) -> None:
    schema = record_of(("color", enum_of("Color", "RED", "BLUE") | {"default": "RED"}))
    (error,) = _written(_latest(registry, schema), "color STRING", {"color": "PINK"})
    assert "'PINK' is not a symbol" in error


@pytest.mark.parametrize(
    ("union", "column", "value", "datum"),
    [
        (["null", "int"], "INT", 1, "02 02"),
        (["int", "null"], "INT", 1, "00 02"),
        (["int", "null"], "INT", None, "02"),
        (["int"], "INT", 1, "00 02"),
        (["null", "long", "string"], "STRING", "a", "04 02 61"),
        (["string", "null", "long"], "INT", 1, "04 02"),
        (["string", "null", "long"], "INT", None, "02"),
        (["double", "int", "long"], "INT", 1, "02 02"),
        (["double", "int", "long"], "TINYINT", 1, "02 02"),
        (["double", "int", "long"], "BIGINT", 1, "04 02"),
        ([enum_of("E", "a"), "string"], "STRING", "a", "02 02 61"),
        ([fixed_of("F", 1), fixed_of("G", 2)], "BINARY(2)", b"ab", "02 61 62"),
        (["string", {"type": "array", "items": "int"}], "ARRAY<INT>", [1], "02 02 02 00"),
        (
            ["null", {"type": "map", "values": ["int", "string"]}],
            "MAP<STRING, STRING>",
            [("k", "v")],
            "02 02 02 6b 02 02 76 00",
        ),
        (
            ["null", record_of(("x", "int"), name="A"), record_of(("y", "int"), name="B")],
            "ROW<y INT>",
            {"y": 1},
            "04 02",
        ),
        ([*(record_of(("x", "int"), name=f"R{i}") for i in range(70)), "int"], "INT", 1, "8c 01 02"),
        ([*(record_of(("x", "int"), name=f"R{i}") for i in range(70)), "int", "null"], "INT", None, "8e 01"),
    ],
)
def test_the_branch_of_a_union(registry: Registry, union: Any, column: str, value: Any, datum: str) -> None:
    assert _written(_latest(registry, record_of(("c", union))), f"c {column}", {"c": value}) == [datum]


def test_many_branches_beside_nulls(registry: Registry) -> None:
    union = [
        *(record_of(("x", "int"), name=f"R{i}") for i in range(70)),
        "int",
        "null",
        record_of(("y", "int"), name="Y"),
    ]
    rows = [{"c": 1, "d": {"y": 1}, "e": 5}, {"c": None, "d": None, "e": 6}]
    schema = record_of(("c", union), ("d", ["Y", "null"]), ("e", "int"))
    fmt = _latest(registry, schema)
    assert _written(fmt, "c INT, d ROW<y INT>, e INT", *rows) == ["8c 01 02 00 02 0a", "8e 01 02 0c"]


def test_a_union_of_records_at_the_top(registry: Registry) -> None:
    schema = [record_of(("a", "int"), name="Created"), record_of(("b", "int"), name="Deleted")]
    assert _written(_latest(registry, schema), "b INT", {"b": 3}) == ["02 06"]
    with pytest.raises(
        SchemaError, match=r"the row of the table is ROW<`c` INT>, which does not fit \[Created, Deleted\]"
    ):
        _written(_latest(registry, schema), "c INT", {"c": 3})


_TYPES = [
    record_of(("id", "int"), name="com.acme.Order"),
    record_of(("id", "int"), ("why", "string", "-"), name="com.acme.Refund"),
]


@pytest.mark.parametrize(
    ("schema", "name", "datum"),
    [
        (_TYPES, "com.acme.Order", "00 06"),
        (_TYPES, "com.acme.Refund", "02 06 02 2d"),
        (["null", *_TYPES], "com.acme.Refund", "04 06 02 2d"),
        ([_TYPES[0], "null"], "com.acme.Order", "00 06"),
        ([_TYPES[0], "null"], None, "00 06"),
        (["null", _TYPES[1]], None, "02 06 02 2d"),
        ([_TYPES[0]], None, "00 06"),
        ([_TYPES[0]], "com.acme.Order", "00 06"),
    ],
)
def test_the_name_of_the_type_is_the_branch(registry: Registry, schema: Any, name: str | None, datum: str) -> None:
    for identifier in ("avro-registry", "avro-confluent"):
        fmt = _latest(registry, schema, identifier, **({} if name is None else {"record_name": name}))
        job = pickle.loads(pickle.dumps(fmt.for_encoding(resolve_schema("id INT"))))
        for one in (fmt, job):
            assert _written(one, "id INT", {"id": 3}) == [datum]
            rows = pa.array([None, {"id": 3}], pa.struct([("id", pa.int32())]))
            messages = one.encode_batch(rows, "id INT").messages
            assert fmt.decode_batch(messages, "id INT").rows.to_pylist() == [None, [{"id": 3}]]


def test_a_union_without_the_type_says_what_to_set(registry: Registry) -> None:
    choose = "Set the option 'record-name' to the full name of the type to write"
    fmt = _latest(registry, _TYPES)
    with pytest.raises(
        SchemaError, match=f"fits 2 types of the union .*: record com.acme.Order, record .*Refund. {choose}$"
    ):
        fmt.for_encoding(resolve_schema("id INT"))
    with pytest.raises(SchemaError, match=f"which does not fit .*{choose}. Then the error says what does not fit"):
        fmt.for_encoding(resolve_schema("id INT, more INT"))
    named = _latest(registry, _TYPES, record_name="com.acme.Refund")
    with pytest.raises(
        SchemaError, match=r"record com\.acme\.Refund has no field for column 'wy'\. Did you mean 'why'"
    ):
        named.for_encoding(resolve_schema("id INT, wy STRING"))
    other = _latest(registry, _TYPES, record_name="com.acme.Refnd")
    with pytest.raises(SchemaError, match=f"has no type com.acme.Refnd. Did you mean 'com.acme.Refund'. {choose}"):
        other.for_encoding(resolve_schema("id INT"))


def test_columns_of_types_are_branches_of_a_union(registry: Registry) -> None:
    fmt = _latest(registry, _TYPES, record_columns="o:com.acme.Order,r:com.acme.Refund")
    table = "o ROW<id INT>, r ROW<id INT, why STRING>"
    rows = [{"o": {"id": 1}}, {"r": {"id": 2, "why": "x"}}, {"o": {"id": 3}}]
    assert _written(fmt, table, *rows) == ["00 02", "02 04 02 78", "00 06"]
    job = fmt.for_encoding(resolve_schema(table))
    assert _written(job, table, *rows) == ["00 02", "02 04 02 78", "00 06"]


@pytest.mark.parametrize(
    ("avro", "column", "value", "datum"),
    [
        ("long", "INT", -1, "01"),
        ("float", "INT", 3, "00 00 40 40"),
        ("double", "BIGINT", 2**53, "00 00 00 00 00 00 40 43"),
        ("double", "FLOAT", 0.5, "00 00 00 00 00 00 e0 3f"),
        ("double", "SMALLINT", -1, "00 00 00 00 00 00 f0 bf"),
        (decimal_of(9, 4), "DECIMAL(4, 2)", Decimal("1.5"), "04 3a 98"),
        (fixed_of("D", 3, logicalType="decimal", precision=6, scale=3), "DECIMAL(4, 2)", Decimal("-1.5"), "ff fa 24"),
        (decimal_of(50, 2), "DECIMAL(38, 2)", Decimal("1.50"), "04 00 96"),
        (time_of("time-millis"), "TIME(3)", dt.time(0, 0, 1), "d0 0f"),
        (time_of("time-micros"), "TIME(3)", dt.time(0, 0, 1), "80 89 7a"),
        (time_of("local-timestamp-millis"), "TIMESTAMP(6)", _SECOND, "d0 0f"),
        (time_of("local-timestamp-micros"), "TIMESTAMP(3)", _SECOND, "80 89 7a"),
        (time_of("timestamp-micros"), "TIMESTAMP_LTZ(6)", _SECOND.replace(tzinfo=_UTC), "80 89 7a"),
        (time_of("timestamp-nanos"), "TIMESTAMP_LTZ(6)", _SECOND.replace(tzinfo=_UTC), "80 a8 d6 b9 07"),
        ({"type": "string", "logicalType": "uuid"}, "STRING", "a", "02 61"),
        ({"type": "map", "values": "long"}, "MULTISET<STRING>", [("k", 2)], "02 02 6b 04 00"),
    ],
)
def test_a_column_may_be_narrower_than_its_field(
    registry: Registry, avro: Any, column: str, value: Any, datum: str
) -> None:
    assert _written(_latest(registry, record_of(("c", avro))), f"c {column}", {"c": value}) == [datum]


@pytest.mark.parametrize(
    ("avro", "column", "good", "bad", "error"),
    [
        ("float", "INT", 2**24 + 2, 2**24 + 1, "field 'c': 16777217 has more digits than a float"),
        ("double", "BIGINT", 2**62, 2**63 - 1, "field 'c': 9223372036854775807 has more digits than a double"),
        (
            time_of("time-millis"),
            "TIME(6)",
            dt.time(1),
            dt.time(0, 0, 0, 1),
            "field 'c': 1000 ns of a TIME(6) have more digits",
        ),
        (
            time_of("local-timestamp-millis"),
            "TIMESTAMP(6)",
            dt.datetime(1970, 1, 1),
            dt.datetime(1970, 1, 1, 0, 0, 0, 1),
            "field 'c': 1 us of a TIMESTAMP(6) have more digits than the milliseconds",
        ),
        (
            time_of("local-timestamp-nanos"),
            "TIMESTAMP(6)",
            dt.datetime(1970, 1, 1),
            dt.datetime(3000, 1, 1),
            "are too far from 1970",
        ),
        ("int", "INT", 1, None, "field c: null value for (non-nullable) int"),
        (["int", "string"], "INT", 1, None, "field c: null value for (non-nullable) [int, string]"),
        (
            {"type": "array", "items": enum_of("E", "a")},
            "ARRAY<STRING>",
            ["a"],
            ["a", "b"],
            "field c.element: 'b' is not a symbol",
        ),
        (
            {"type": "map", "values": "float"},
            "MAP<STRING, INT>",
            [("k", 1)],
            [("k", 2**24 + 1)],
            "field 'c.value': 16777217 has more digits",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_of_its_row(
    registry: Registry, avro: Any, column: str, good: Any, bad: Any, error: str
) -> None:
    fmt = _latest(registry, record_of(("x", "string", "x"), ("c", avro), ("n", "int")))
    (alone,) = _written(fmt, f"n INT, c {column}", {"n": 5, "c": good})
    first, wrong, last = _written(fmt, f"n INT, c {column}", *({"n": 5, "c": c} for c in (good, bad, good)))
    assert first == last == alone
    assert error in wrong


def test_digits_beyond_the_declared_ones_are_cut_off(registry: Registry) -> None:
    """A TIMESTAMP(3) of Spark may have microseconds, which the declaration cuts off, as with a derived schema."""
    schema = record_of(("c", time_of("local-timestamp-millis")))
    row = {"c": dt.datetime(1970, 1, 1, 0, 0, 1, 1999)}
    assert _written(_latest(registry, schema), "c TIMESTAMP(3)", row) == ["d2 0f"]


def test_legacy_timestamps(registry: Registry) -> None:
    """With a registered schema, avro-confluent also writes the types that no derived schema has."""
    millis, micros = time_of("timestamp-millis"), time_of("timestamp-micros")
    local = time_of("local-timestamp-micros")
    fmt = _latest(registry, record_of(("a", millis), ("b", micros), ("c", local)), "avro-confluent")
    row = {"a": _SECOND.replace(tzinfo=_UTC), "b": _SECOND, "c": _SECOND}
    found = _written(fmt, "a TIMESTAMP_LTZ(3), b TIMESTAMP(6), c TIMESTAMP(6)", row)
    assert found == ["d0 0f 80 89 7a 80 89 7a"]


def test_a_recursive_field_needs_no_column(registry: Registry) -> None:
    tree = record_of(
        ("value", "int"),
        ("left", ["null", "com.acme.Order"], None),
        ("all", {"type": "array", "items": "com.acme.Order"}, []),
    )
    assert _written(_latest(registry, tree), "value INT", {"value": 3}) == ["06 00 00"]


def test_a_field_that_is_always_null_needs_no_column(registry: Registry) -> None:
    assert _written(_latest(registry, record_of(("z", "null"), ("n", "int"))), "n INT", {"n": 1}) == ["02"]


def test_references_are_followed(registry: Registry) -> None:
    registry.ids[5] = json.dumps(enum_of("com.acme.Color", "RED", "BLUE"))
    registry.subjects["colors"] = [5]
    registry.references[7] = [{"name": "com.acme.Color", "subject": "colors", "version": 1}]
    fmt = _latest(registry, record_of(("n", "int", 1), ("color", "com.acme.Color")))
    assert _written(fmt, "color STRING", {"color": "BLUE"}) == ["02 02"]
    job = fmt.for_encoding(resolve_schema("color STRING"))
    registry.failing = 10**6
    assert _written(pickle.loads(pickle.dumps(job)), "color STRING", {"color": "BLUE"}) == ["02 02"]


# --- jobs ----------------------------------------------------------------------------------------------


def test_executors_get_the_schema_with_the_job(registry: Registry) -> None:
    schema = record_of(("more", ["null", "int"], 4), ("id", "long"))  # a default that only Avro 1.12 allows
    fmt, table = _latest(registry, schema), resolve_schema("id INT")
    job = pickle.loads(pickle.dumps(fmt.for_encoding(table)))
    registry.failing = 10**6
    assert _written(job, "id INT", {"id": 1}) == ["02 08 02"]
    assert registry.registered == []


def test_a_job_fails_before_its_start(registry: Registry) -> None:
    for identifier in ("avro-registry", "avro-confluent"):
        fmt = _latest(registry, record_of(("a", "int"), ("b", "int")), identifier)
        with pytest.raises(SchemaError, match=r"field 'b' of record .* has neither a column nor a default"):
            fmt.for_encoding(resolve_schema("a INT"))


def test_a_known_id_and_its_schema_need_no_registry() -> None:
    schema = json.dumps(record_of(("b", "int", 2), ("a", "long")))
    given = {"url": "http://127.0.0.1:1", "subject": "s", "schema-id": "7", "schema": schema}
    for identifier in ("avro-registry", "avro-confluent"):
        assert _written(get_format(identifier, given), "a INT", {"a": 1}) == ["04 02"]
        with pytest.raises(SchemaError, match="has no field for column 'c'"):
            _written(get_format(identifier, given), "a INT, c INT")


def test_the_option_schema_alone_is_as_strict_as_flink(registry: Registry) -> None:
    given = {"url": registry.url, "subject": "s", "schema": json.dumps(record_of(("b", "int", 2), ("a", "long")))}
    with pytest.raises(SchemaError, match="does not match the table schema"):
        _written(get_format("avro-confluent", given), "a BIGINT NOT NULL", {"a": 1})


def test_debezium_envelopes(registry: Registry) -> None:
    """A schema of a connector fits if `source` has a default, in its own order."""
    value = record_of(("name", ["null", "string"]), ("id", "long"), ("flag", "boolean", False), name="Value")
    source = record_of(("db", "string", "shop"), name="Source")
    envelope = record_of(
        ("op", "string"),
        ("source", source, {}),
        ("after", ["null", value], None),
        ("before", ["null", "com.acme.Value"], None),
        ("ts_ms", ["null", "long"], None),
    )
    fmt = _latest(registry, envelope, "debezium-avro-confluent")
    schema = resolve_schema("id INT, name STRING")
    rows = pa.array([{"id": 1, "name": "a"}] * 2, pa.struct(list(schema)))
    batch = fmt.encode_batch(rows, schema, row_kinds=pa.array(["+I", "-D"]))
    assert batch.errors is None
    shop, row = "08 73 68 6f 70", "02 02 02 61 02 00"
    assert [m[5:].hex(" ") for m in batch.messages.to_pylist()] == [
        f"02 63 {shop} {row} 00 00",
        f"02 64 {shop} 00 {row} 00",
    ]
    assert fmt.decode_batch(batch.messages, "id BIGINT, name STRING").rows.to_pylist() == [[{"id": 1, "name": "a"}]] * 2


# --- errors before a job -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "table", "error"),
    [
        (
            [("userId", "int")],
            "userid INT",
            "no field for column 'userid'. Did you mean 'userId'? Its fields are userId. Rename or leave",
        ),
        (
            [("a", "int"), ("b", "int")],
            "a INT",
            "field 'b' of record com.acme.Order has neither a column nor a default. The columns are a.",
        ),
        (
            [("r", record_of(("x", "int"), ("y", "int"), name="R"))],
            "r ROW<x INT>",
            "field 'y' of record com.acme.R has neither a column of column 'r' nor a default",
        ),
        (
            [("r", record_of(("x", "int"), name="R"))],
            "r ROW<x INT, z INT>",
            "record com.acme.R has no field for column 'z' of column 'r'",
        ),
        ([("a", ["null", "int"])], "b INT", "no field for column 'b'"),
        ([("a", "int")], "a BIGINT", "column 'a' is BIGINT, which does not fit int. Declare it as INT"),
        ([("a", "int")], "a STRING", "column 'a' is STRING, which does not fit int. Declare it as INT"),
        ([("a", "null")], "a STRING", "column 'a' is STRING, which does not fit null"),
        ([("a", "float")], "a DOUBLE", "Declare it as FLOAT"),
        ([("a", time_of("date"))], "a INT", "does not fit int (date). Declare it as DATE"),
        ([("a", time_of("timestamp-millis"))], "a TIMESTAMP(3)", "Declare it as TIMESTAMP_LTZ(3)"),
        ([("a", time_of("local-timestamp-micros"))], "a TIMESTAMP_LTZ(3)", "Declare it as TIMESTAMP(6)"),
        ([("a", decimal_of(6, 2))], "a DECIMAL(6, 3)", "Declare it as DECIMAL(6, 2)"),
        ([("a", decimal_of(6, 4))], "a DECIMAL(6, 2)", "Declare it as DECIMAL(6, 4)"),
        ([("a", decimal_of(60, 10))], "a DECIMAL(38, 2)", "column 'a' is DECIMAL(38, 2), which does not fit bytes"),
        ([("a", decimal_of(6, 2))], "a BYTES", "Declare it as DECIMAL(6, 2)"),
        ([("a", fixed_of("F", 3))], "a BINARY(4)", "column 'a' is BINARY(4), which does not fit fixed com.acme.F"),
        ([("a", {"type": "map", "values": "int"})], "a MAP<INT, INT>", "does not fit map"),
        ([("a", ["null", "string", "bytes"])], "a INT", "column 'a' is INT, which does not fit [null, string, bytes]"),
        (
            [("a", [fixed_of("F", 3), fixed_of("G", 3)])],
            "a BYTES",
            "fits 2 types of the union [com.acme.F, com.acme.G] equally well: fixed com.acme.F, fixed com.acme.G",
        ),
        (
            [("l", {"type": "array", "items": record_of(("x", "int"), name="R")})],
            "l ARRAY<ROW<x STRING>>",
            "column 'l.element.x' is STRING",
        ),
        (
            [("a", "int"), ("b", enum_of("E", "X"), "Y")],
            "a INT",
            "field 'b' has no column, and its default can't be written: 'Y' is not a symbol",
        ),
        (
            [("a", "int"), ("b", "int", "Y")],
            "a INT",
            "field 'b' has no column, and its default can't be written: \"Y\" is not a valid int",
        ),
    ],
)
def test_what_does_not_fit(registry: Registry, fields: list[Any], table: str, error: str) -> None:
    fmt = _latest(registry, record_of(*fields))
    with pytest.raises(SchemaError) as caught:
        fmt.for_encoding(resolve_schema(table))
    assert error in str(caught.value)
    assert str(caught.value).startswith("the table can't be written by the latest schema of subject 's', id 7: ")


# --- refusals of the registry --------------------------------------------------------------------------


def test_a_refusal_names_the_reasons_of_the_registry(registry: Registry) -> None:
    registry.refused = ("s",)
    registry.reasons = [
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'b' has no default'}",
        "{compatibility: 'BACKWARD'}",
    ]
    fmt = get_format("avro-confluent", {"url": registry.url, "subject": "s"})
    with pytest.raises(SchemaError) as caught:
        fmt.for_encoding(resolve_schema("a INT"))
    text = str(caught.value)
    assert "refuses the schema for subject 's': Schema being registered is incompatible with an earlier schema" in text
    assert f"Its reasons: {'; '.join(registry.reasons)}" in text
    assert "Change the columns of the table, set 'use-latest-version' = 'true'" in text
    assert "choose another subject with the option 'subject'" in text
    assert registry.requests == ["POST /subjects/s/versions", "POST /compatibility/subjects/s/versions"]


@pytest.mark.parametrize("reasons", [None, [], "no list", [1], {"a": 1}, ["incompatible with an earlier schema"]])
def test_a_registry_may_give_no_reasons(registry: Registry, reasons: Any) -> None:
    registry.refused, registry.reasons = ("s",), reasons
    fmt = get_format("avro-confluent", {"url": registry.url, "subject": "s"})
    with pytest.raises(SchemaError, match=r"earlier schema \(HTTP status code 409, SR code 409\)\. Change the columns"):
        fmt.for_encoding(resolve_schema("a INT"))


def test_reasons_that_repeat_a_secret_are_scrubbed(registry: Registry) -> None:
    registry.refused, registry.credentials = ("s",), "alice:sesame"
    registry.reasons = ["sent by alice:sesame", "Basic YWxpY2U6c2VzYW1l"]
    secret = {"basic-auth.credentials-source": "USER_INFO", "basic-auth.user-info": "alice:sesame"}
    fmt = get_format("avro-confluent", {"url": registry.url, "subject": "s", **secret})
    with pytest.raises(SchemaError, match=r"Its reasons: sent by \*+; Basic \*+") as caught:
        fmt.for_encoding(resolve_schema("a INT"))
    assert "sesame" not in str(caught.value)
