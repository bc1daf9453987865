"""`avro`: derived schemas, both encodings, options for timestamps, errors of messages."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import json
import random
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvformat.codecs.avro import json_encoding
from kvformat.codecs.avro.types import row_of_schema, schema_text
from kvformat.registry import OptionError, SchemaError, get_format
from kvformat.registry.contract.ddl import parse_schema
from tests.support import cost, vectors

# A row of ten columns and its bytes, as Flink's encoder writes it.
_EVERYTHING = (
    "id BIGINT NOT NULL, name STRING, ts TIMESTAMP(3), d DECIMAL(10,2), dt DATE, t TIME(3), arr ARRAY<INT>, "
    "m MAP<STRING,INT>, r ROW<x INT, y ROW<z STRING>>, b BYTES"
)
_ROW = {
    "id": 7,
    "name": "ab",
    "ts": dt.datetime(2020, 1, 2, 3, 4, 5),
    "d": decimal.Decimal("1.50"),
    "dt": dt.date(2020, 1, 2),
    "t": dt.time(12, 13, 14, 123000),
    "arr": [1, None, 3],
    "m": [("j", None), ("k", 1)],
    "r": {"x": 1, "y": {"z": "q"}},
    "b": b"\0\xff",
}
_BYTES = bytes.fromhex(
    "0e 02046162 0290b2aec3ec5b 02040096 02ae9d02 0296b0fa29 02060202000206 00 0204026a00026b020200 "
    "02020202020271 020400ff".replace(" ", "")
)
_JSON = (
    '{"id":7,"name":{"string":"ab"},"ts":{"long":1577934245000},"d":{"bytes":"\\u0000\x96"},"dt":{"int":18263},'
    '"t":{"int":43994123},"arr":{"array":[{"int":1},null,{"int":3}]},"m":{"map":{"j":null,"k":{"int":1}}},'
    '"r":{"org.apache.flink.avro.generated.record_r":{"x":{"int":1},'
    '"y":{"org.apache.flink.avro.generated.record_r_y":{"z":{"string":"q"}}}}},"b":{"bytes":"\\u0000ÿ"}}'
).encode()


def _rows(schema: str, *rows: dict[str, Any] | None) -> pa.StructArray:
    from kvformat.registry.contract.types import arrow_type, nullable

    array: pa.StructArray = pa.array(rows, arrow_type(nullable(parse_schema(schema))))
    return array


def _encoded(schema: str, *rows: dict[str, Any] | None, **options: str) -> list[bytes]:
    batch = get_format("avro", options).encode_batch(_rows(schema, *rows), schema)
    assert batch.errors is None, batch.errors
    found: list[bytes] = batch.messages.to_pylist()
    return found


def _decoded(schema: str, *messages: bytes | None, **options: str) -> list[Any]:
    """Return the row of each message, or its error."""
    batch = get_format("avro", options).decode_batch(pa.array(messages, pa.binary()), schema)
    errors = [None] * len(messages) if batch.errors is None else batch.errors.to_pylist()
    rows = batch.rows.to_pylist(maps_as_pydicts=None)
    return [error or (row and row[0]) for row, error in zip(rows, errors, strict=True)]


# --- schemas -------------------------------------------------------------------------------------------


def test_derived_schema() -> None:
    row = parse_schema("id BIGINT NOT NULL, name STRING, r ROW<x INT>")
    assert schema_text(row, legacy=True) == (
        '{"type":"record","name":"record","namespace":"org.apache.flink.avro.generated","fields":'
        '[{"name":"id","type":"long"},{"name":"name","type":["null","string"],"default":null},'
        '{"name":"r","type":["null",{"type":"record","name":"record_r","fields":'
        '[{"name":"x","type":["null","int"],"default":null}]}],"default":null}]}'
    )


def test_nested_rows_and_rows_of_the_same_name() -> None:
    row = parse_schema(
        "a ARRAY<ROW<q DECIMAL(5, 2) NOT NULL>>, b ROW<c ROW<x INT>>, b_c ROW<x INT>, m MULTISET<STRING>"
    )
    fields = {f["name"]: f["type"] for f in json.loads(schema_text(row, legacy=True))["fields"]}
    assert fields["a"][1]["items"][1]["name"] == "record_a"
    assert fields["b"][1]["fields"][0]["type"][1]["name"] == "record_b_c"
    assert fields["b_c"] == ["null", "record_b_c"]  # a reference, because the shapes are the same
    assert fields["m"] == ["null", {"type": "map", "values": ["null", "int"]}]


@pytest.mark.parametrize(("legacy", "t", "logical"), [
    (True, "TIMESTAMP(3)", "timestamp-millis"),
    (False, "TIMESTAMP(3)", "local-timestamp-millis"),
    (False, "TIMESTAMP(4)", "local-timestamp-micros"),
    (False, "TIMESTAMP_LTZ(3)", "timestamp-millis"),
    (False, "TIMESTAMP_LTZ(6)", "timestamp-micros"),
])  # fmt: skip
def test_timestamp_mapping(legacy: bool, t: str, logical: str) -> None:
    (field,) = json.loads(schema_text(parse_schema(f"a {t} NOT NULL"), legacy=legacy))["fields"]
    assert field["type"] == {"type": "long", "logicalType": logical}


@pytest.mark.parametrize(("schema", "options", "reason"), [
    ("ts TIMESTAMP", {}, r"column 'ts'.*TIMESTAMP type with precision: 6.*`ts TIMESTAMP\(3\)`"),
    ("z TIMESTAMP_LTZ(3)", {}, r"column 'z'.*Unsupported to derive Schema.*TIMESTAMP\(3\)"),
    ("a ARRAY<TIMESTAMP(6)>", {}, r"column 'a.element'"),
    ("ts TIMESTAMP(7)", {"timestamp_mapping.legacy": "false"}, "LOCAL TIMESTAMP type with precision: 7"),
    ("r ROW<z TIMESTAMP_LTZ(9)>", {"timestamp_mapping.legacy": "false"}, "column 'r.z'.*precision: 9"),
    ("t TIME(6)", {}, r"TIME type with precision: 6.*TIME\(3\)"),
    ("m MAP<INT, INT>", {}, "column 'm'.*non-string as key type of map"),
    ("m MULTISET<BIGINT>", {}, "The key type is: BIGINT"),
    ("i INTERVAL DAY TO SECOND", {}, "column 'i'.*Unsupported to derive Schema"),
    ("`a-b` INT", {}, "Illegal character in: a-b"),
    ("r ROW<`1a` INT>", {}, "r.1a.*Illegal initial character: 1a"),
    ("`𝕏` INT", {}, "Illegal initial character"),
    ("a ROW<b ROW<x INT>>, a_b ROW<y INT>", {}, "Can't redefine: org.apache.flink.avro.generated.record_a_b"),
])  # fmt: skip
def test_types_without_a_schema(schema: str, options: dict[str, str], reason: str) -> None:
    fmt = get_format("avro", options)
    with pytest.raises(SchemaError, match=reason):
        fmt.decode_batch(pa.array([], pa.binary()), schema)
    with pytest.raises(SchemaError, match=reason):
        fmt.encode_batch(_rows(schema), schema)


def test_names_may_have_letters_of_any_alphabet() -> None:
    assert _decoded("`été` INT, `世` STRING", *_encoded("`été` INT, `世` STRING", {"été": 1, "世": "x"})) == [
        {"été": 1, "世": "x"}
    ]


def test_the_error_for_a_spark_timestamp_says_how_to_declare_milliseconds() -> None:
    T = pytest.importorskip("pyspark.sql.types")
    schema = T.StructType([T.StructField("ts", T.TimestampNTZType())])
    with pytest.raises(SchemaError, match=r"kvformat\.type.*TIMESTAMP\(3\)"):
        get_format("avro").encode_batch(pa.array([], pa.struct([("ts", pa.timestamp("us"))])), schema)
    declared = T.StructType([T.StructField("ts", T.TimestampNTZType(), True, {"kvformat.type": "TIMESTAMP(3)"})])
    rows = pa.array([{"ts": 1}], pa.struct([("ts", pa.timestamp("us"))]))
    assert get_format("avro").encode_batch(rows, declared).messages.to_pylist() == [b"\x02\x00"]


def test_a_derived_schema_converts_back_to_its_type() -> None:
    text = "a INT, b ROW<c DATE NOT NULL, d ARRAY<STRING NOT NULL>>, e DECIMAL(9, 3), f MAP<STRING NOT NULL, BYTES>"
    row = parse_schema(text)
    from kvformat.codecs.avro.parse import parse_schema as parse_avro

    assert row_of_schema(parse_avro(schema_text(row, legacy=True))) == row
    recursive = '{"type":"record","name":"N","fields":[{"name":"n","type":["null","N"]}]}'
    with pytest.raises(SchemaError, match="is recursive"):
        row_of_schema(parse_avro(recursive))


# --- both encodings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "message"), [({}, _BYTES), ({"encoding": "JSON"}, _JSON)], ids=["binary", "json"])
def test_the_worked_example(options: dict[str, str], message: bytes) -> None:
    nulls: dict[str, Any] = dict.fromkeys(_ROW) | {"id": 0}
    first, second, third = _encoded(_EVERYTHING, _ROW, None, nulls, **options)
    assert first == message
    assert second is None
    assert _decoded(_EVERYTHING, message, None, third, **options) == [_ROW, None, nulls]


def test_options() -> None:
    for options in ({"encoding": "xml"}, {"encoding": " json"}, {"timestamp_mapping.legacy": "1"}, {"codec": "snappy"}):
        with pytest.raises(OptionError):
            get_format("avro", options)
    with pytest.raises(SchemaError, match="needs the declared types"):
        get_format("avro").encode("row")


def test_a_bad_message_does_not_change_others() -> None:
    schema = "a INT, s TINYINT, l ARRAY<SMALLINT>"
    good = _encoded(schema, {"a": 1, "s": 2, "l": [3]})[0]
    wide = b"\x02\x02\x02\xd8\x04\x00"  # s = 300
    deep = b"\x02\x02\x00\x02\x02\x02\x80\xf1\x04\x00"  # l[0] = 40000
    first, torn, second, third, last, trailing = _decoded(schema, good, good[:3], wide, deep, good, good + b"\xff" * 9)
    assert first == last == trailing == {"a": 1, "s": 2, "l": [3]}
    assert isinstance(torn, str)
    assert second == "field 's': 300 does not fit TINYINT"
    assert third == "field 'l.element': 40000 does not fit SMALLINT"


def test_a_message_has_one_error_for_all_numbers_that_do_not_fit() -> None:
    wide, schema = "l ARRAY<INT>, r ROW<m MAP<STRING, INT>>", "l ARRAY<TINYINT>, r ROW<m MAP<STRING, SMALLINT>>"
    many = _encoded(wide, {"l": [300] * 1_500_000, "r": None})[0]
    under = _encoded(wide, {"l": None, "r": {"m": [("k", 1), ("l", -40_000)]}})[0]
    good = _encoded(schema, {"l": [1], "r": {"m": [("k", 2)]}})[0]
    with cost.at_most(20):  # a check of each number by itself would take more than a minute
        found = _decoded(schema, many, under, *[good] * 20_000)
    assert found[:2] == [
        "field 'l.element': 300 does not fit TINYINT",
        "field 'r.m.value': -40000 does not fit SMALLINT",
    ]
    assert all(isinstance(row, dict) for row in found[2:])


def test_null_in_a_not_null_column() -> None:
    schema = "r ROW<x INT NOT NULL>, a ARRAY<INT NOT NULL>"
    rows = _rows(schema, {"r": {"x": 1}, "a": [1]}, {"r": {"x": None}, "a": []}, {"r": None, "a": [None]}, {"r": None})
    for encoding in ("binary", "json"):
        batch = get_format("avro", {"encoding": encoding}).encode_batch(rows, schema)
        assert batch.errors is not None
        errors = batch.errors.to_pylist()
        assert [error is None for error in errors] == [True, False, False, True], errors
        assert "r.x" in errors[1]
        assert "a.element" in errors[2]
        assert [message is None for message in batch.messages.to_pylist()] == [False, True, True, False]


# --- timestamps ----------------------------------------------------------------------------------------

_MICROS = "a TIMESTAMP(6), z TIMESTAMP_LTZ(6) NOT NULL"
_MOMENT = {
    "a": dt.datetime(2020, 1, 2, 3, 4, 5, 123456),
    "z": dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
}


def _read_by_fastavro(schema: str, message: bytes) -> Any:
    plain = vectors._without_logical_types(json.loads(schema_text(parse_schema(schema), legacy=False)))
    return fastavro.schemaless_reader(io.BytesIO(message), plain, None)


@pytest.mark.parametrize(("as_millis", "numbers", "read"), [
    ("false", {"a": 1577934245123456, "z": -1}, _MOMENT),
    ("true", {"a": 1577934245123, "z": -1}, {
        "a": dt.datetime(2020, 1, 2, 3, 4, 5, 123000),
        "z": dt.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=dt.UTC),
    }),
])  # fmt: skip
def test_microseconds(as_millis: str, numbers: dict[str, int], read: dict[str, Any]) -> None:
    options = {"timestamp_mapping.legacy": "false", "timestamp-micros-as-millis": as_millis}
    (message,) = _encoded(_MICROS, _MOMENT, **options)
    assert _read_by_fastavro(_MICROS, message) == numbers
    assert _decoded(_MICROS, message, **options) == [read]
    (text,) = _encoded(_MICROS, _MOMENT, **options, encoding="json")
    assert json.loads(text) == {"a": {"long": numbers["a"]}, "z": numbers["z"]}
    assert _decoded(_MICROS, text, **options, encoding="json") == [read]


def test_timestamps_in_containers() -> None:
    """Flink refuses these schemas: in ARRAY and MAP, it only supports the legacy mapping."""
    schema = "a ARRAY<TIMESTAMP_LTZ(3)>, r ROW<z TIMESTAMP_LTZ(6)>"
    row = {"a": [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), None], "r": {"z": _MOMENT["z"]}}
    options = {"timestamp_mapping.legacy": "false"}
    assert _decoded(schema, *_encoded(schema, row, **options), **options) == [row]


def test_timestamps_too_far_away() -> None:
    far = (2**62).to_bytes(8, "big")
    varint, number = b"", 2 * int.from_bytes(far, "big")
    while number > 0x7F:
        varint, number = varint + bytes([number & 0x7F | 0x80]), number >> 7
    found = _decoded("a TIMESTAMP(3) NOT NULL", varint + bytes([number]), b"\x00")
    assert "too far from 1970" in found[0]
    assert found[1] == {"a": dt.datetime(1970, 1, 1)}


def test_a_null_message_has_no_rows_beside_a_number_that_does_not_fit() -> None:
    batch = get_format("avro").decode_batch(pa.array([b"\2", None, b"\xd8\4"]), "a TINYINT NOT NULL")
    assert batch.rows.to_pylist() == [[{"a": 1}], None, None]


# --- the JSON encoding ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "found"), [
    ('{"b":{"string":"x"},"zz":[{}],"a":1}', {"a": 1, "b": "x"}),
    ('{"a":1,"a":2,"b":null}', {"a": 1, "b": None}),
    ('{"b":{"string":"x"},"b":null,"a":1}', {"a": 1, "b": "x"}),
    ('{"a":1,"b":{"null":null}} {"a":', {"a": 1, "b": None}),
    ('{"a":30.5,"b":null}', {"a": 30, "b": None}),
    ('{"a":-30.7,"b":null}', {"a": -30, "b": None}),
    ('{"a":1,"b":{"string":"x"}', "not JSON"),
    ('{"a":1,"b":{"string":"x"},', "not JSON"),
    ('{"a":1,"b":{"string":"x"', "not JSON"),
    ('{"a":1,"b":null', "not JSON"),
    ('{"a":1}', "field 'b': is missing"),
    ('{"a":1,"b":"x"}', "field 'b': expected null or an object with one member, named string"),
    ('{"a":1,"b":{"bytes":"x"}}', "field 'b': \"bytes\" is not a branch"),
    ('{"a":2147483648,"b":null}', "field 'a': 2147483648 is out of the range of int"),
    ('{"a":"1","b":null}', "field 'a': expected a number"),
    ('{"a":1,"b":{"string":"\t"}}', "not JSON"),
    ("[]", "expected an object"),
    ("", "not JSON"),
])  # fmt: skip
def test_json_of_other_writers(text: str, found: Any) -> None:
    (got,) = _decoded("a INT NOT NULL, b STRING", text.encode(), encoding="json")
    assert found in got if isinstance(found, str) else got == found


@pytest.mark.parametrize(("text", "found"), [
    ('{"zz":{"q":{}},"a":1,"r":null,"b":null}', {"a": 1, "r": None, "b": None}),
    ('{"a":1,"r":{"R":{"x":2,"zz":1}},"b":null}', {"a": 1, "r": {"x": 2}, "b": None}),
    ('{"r":{"R":{"zz":{},"x":2}},"b":null,"a":1}', {"a": 1, "r": {"x": 2}, "b": None}),
    ('{"b":{"string":"s"},"b":{"string":"t"},"r":null,"a":1}', {"a": 1, "r": None, "b": "s"}),
    ('{"a":1,"r":{"R":{"x":2},"R":{"x":3}},"b":null}', {"a": 1, "r": {"x": 2}, "b": None}),
    ('{"a":1,"r":null,"b":{"string":"s","zz":[]}}', "field 'b': expected null or an object with one member"),
    ('{"a":1,"r":{"null":null,"R":{"x":2}},"b":null}', "field 'r': expected null or an object with one member"),
    ('{"a":1,"r":{},"b":null}', "field 'r': expected null or an object with one member"),
    ('{"a":1,"r":{"null":0},"b":null}', "field 'r': \"null\" is not a branch"),
    ('{"a":1,"r":{"R":[]},"b":null}', "field 'r': expected an object, found an array"),
    ('{"a":1,"r":{"R":{}},"b":null}', "field 'r.x': is missing"),
    ('{"a":1,"r":null,"b":{"string":"s"},"zz":01}', "not JSON"),
    (" \n", "not JSON"),
])  # fmt: skip
def test_json_members_of_records_and_unions(text: str, found: Any) -> None:
    """Records skip members that are not fields; an object of a union has one member."""
    text = text.replace('"R"', '"org.apache.flink.avro.generated.record_r"')
    (got,) = _decoded("a INT NOT NULL, r ROW<x INT NOT NULL>, b STRING", text.encode(), encoding="json")
    assert found in got if isinstance(found, str) else got == found


@pytest.mark.parametrize(("column", "bits"), [("TINYINT", 8), ("SMALLINT", 16), ("INT", 32), ("BIGINT", 64)])
def test_json_integers_fit_their_column(column: str, bits: int) -> None:
    end = 1 << bits - 1
    good, bad = (-end, end - 1), (-end - 1, end)
    found = _decoded(f"a {column} NOT NULL", *(b'{"a":%d}' % n for n in (*good, *bad)), encoding="json")
    assert found[:2] == [{"a": n} for n in good]
    assert [str(n) in error for n, error in zip(bad, found[2:], strict=True)] == [True, True]


def test_the_first_null_of_a_row_is_its_error_in_json() -> None:
    schema = "a INT NOT NULL, r ROW<b INT NOT NULL> NOT NULL, c INT NOT NULL"
    rows = _rows("a INT, r ROW<b INT>, c INT", {"r": {}}, {"a": 1, "r": {}}, {"a": 1, "r": {"b": 1}})
    errors = get_format("avro", {"encoding": "json"}).encode_batch(rows, schema).errors
    assert [error.partition(":")[0] for error in errors.to_pylist()] == ["field 'a'", "field 'r.b'", "field 'c'"]


@pytest.mark.parametrize("encoding", ["json", "binary"])
@pytest.mark.parametrize("inner", ["ARRAY<{}>", "MAP<STRING, {}>"])
@pytest.mark.parametrize("outer", ["ARRAY<{}>", "MAP<STRING, {}>"])
def test_a_null_in_a_list_or_map_within_another_fails_its_row_and_no_other(
    outer: str, inner: str, encoding: str
) -> None:
    def of(t: str, values: list[Any]) -> list[Any]:
        return values if t.startswith("ARRAY") else [(f"k{at}", value) for at, value in enumerate(values)]

    rng = random.Random(5)
    rows: list[dict[str, Any] | None] = []
    fails = []
    for _ in range(200):
        lists = [rng.choices((1, None), (15, 1), k=rng.randrange(4)) for _ in range(rng.randrange(4))]
        rows.append({"v": of(outer, [of(inner, some) or rng.choice(([], None)) for some in lists])})
        fails.append(any(None in some for some in lists))
    assert 20 < sum(fails) < 100
    schema = f"v {outer.format(inner.format('INT NOT NULL'))}"
    batch = get_format("avro", {"encoding": encoding}).encode_batch(_rows(schema, *rows), schema)
    assert batch.errors is not None
    assert batch.errors.is_valid().to_pylist() == batch.messages.is_null().to_pylist() == fails
    good = [row for row, fail in zip(rows, fails, strict=True) if not fail]
    assert batch.messages.drop_null().to_pylist() == _encoded(schema, *good, encoding=encoding)


@pytest.mark.parametrize("encoding", ["json", "binary"])
def test_nulls_below_a_null_are_no_errors(encoding: str) -> None:
    """Below a null, an array of Arrow may have nulls, values, and entries."""
    numbers, masks = pa.array([None, 1, None, None], pa.int32()), pa.array([True, False, True, True])
    inner = pa.StructArray.from_arrays([numbers], ["x"], mask=masks)
    offsets, null = pa.array([0, 2, 4], pa.int32()), pa.array([True, False])
    texts = pa.array(["a", "b", "c", "d"])
    map_type = pa.map_(pa.string(), pa.int32())
    validity = pa.py_buffer(b"\x02")
    entries = pa.StructArray.from_arrays([texts, pa.array([None, 1, 2, 3], pa.int32())], ["key", "value"])
    columns = {
        "r": inner.slice(0, 2),
        "l": pa.ListArray.from_arrays(offsets, inner, mask=null),
        "m": pa.Array.from_buffers(map_type, 2, [validity, offsets.buffers()[1]], children=[entries]),
    }
    schema = "r ROW<x INT NOT NULL>, l ARRAY<ROW<x INT NOT NULL>>, m MAP<STRING, INT NOT NULL>"
    rows = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    batch = get_format("avro", {"encoding": encoding}).encode_batch(rows, schema)
    assert batch.errors is None
    assert _decoded(schema, *batch.messages.to_pylist(), encoding=encoding) == rows.to_pylist(maps_as_pydicts=None)


def test_json_keys_of_a_map_with_half_a_character_are_question_marks() -> None:
    text = '{"m":{"\\ud800":1,"a":2,"\\udc00":3}}'
    schema = "m MAP<STRING NOT NULL, INT NOT NULL> NOT NULL"
    assert _decoded(schema, text.encode(), encoding="json") == [{"m": [("?", 3), ("a", 2)]}]


@pytest.mark.parametrize(("kind", "item"), [("ARRAY<", "null"), ("MAP<STRING NOT NULL, ", '"k{0}":null')])
def test_json_cells_are_limited_for_a_message_and_for_a_batch(
    kind: str, item: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("CELLS_PER_BYTE", 0), ("MOST_CELLS", 10), ("MOST_CELLS_OF_A_BATCH", 10)):
        monkeypatch.setattr(json_encoding, name, value)

    def message(count: int) -> bytes:
        items = ",".join(item.format(number) for number in range(count))
        begin, end = "[]" if kind == "ARRAY<" else "{}"
        return f'{{"c":{begin}{items}{end}}}'.encode()

    schema = f"c {kind}ROW<a INT, b INT>> NOT NULL"
    found = _decoded(schema, message(3), message(3), message(0), encoding="json")
    assert [isinstance(row, str) for row in found] == [False, True, False]
    assert "too many cells" in _decoded(schema, message(11), encoding="json")[0]


def test_json_characters_that_are_no_byte_are_question_marks() -> None:
    text = '{"b":"\\u00ff\\u0100\\ud83d\\ude00a"}'
    assert _decoded("b BYTES NOT NULL", text.encode(), encoding="json") == [{"b": b"\xff??a"}]


@pytest.mark.parametrize(("text", "value"), [("-0", "0.0"), ("-0.0", "-0.0"), ("-0e0", "-0.0"), ("1", "1.0")])
def test_json_zeros(text: str, value: str) -> None:
    for t in ("FLOAT", "DOUBLE"):
        (row,) = _decoded(f"a {t} NOT NULL", f'{{"a":{text}}}'.encode(), encoding="json")
        assert str(row["a"]) == value


@pytest.mark.parametrize("schema", ["", "r ROW<q ROW<> NOT NULL> NOT NULL"])
def test_json_of_rows_without_values(schema: str) -> None:
    """Rows without values have no bytes, not even braces, and messages are not read."""
    row: dict[str, Any] = {"r": {"q": {}}} if schema else {}
    assert _encoded(schema, row, encoding="json") == [b""]
    assert _decoded(schema, b"", b"{}", b"x", encoding="json") == [row] * 3


# --- messages of fastavro -------------------------------------------------------------------------------


_text = st.text(st.characters(codec="utf-8"), max_size=9)
_digit = st.none() | st.integers(0, 9)
_generated = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "name": st.none() | st.text(st.characters(codec="utf-8"), max_size=70),
        "arr": st.none() | st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=5),
        "m": st.none() | st.dictionaries(_text, _digit, max_size=3),
        "r": st.none()
        | st.fixed_dictionaries({"x": _digit, "y": st.none() | st.fixed_dictionaries({"z": st.none() | _text})}),
        "f": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "b": st.none() | st.binary(max_size=9),
    }
)


@settings(max_examples=30, deadline=None)
@given(st.lists(_generated, min_size=1, max_size=6))
def test_fastavro_reads_our_messages_and_we_read_its_messages(rows: list[dict[str, Any]]) -> None:
    schema = (
        "id BIGINT NOT NULL, name STRING, arr ARRAY<INT>, m MAP<STRING, INT>, r ROW<x INT, y ROW<z STRING>>, f DOUBLE, "
        "b BYTES"
    )
    avro = fastavro.parse_schema(json.loads(schema_text(parse_schema(schema), legacy=True)))
    as_pairs = [row | {"m": row["m"] if row["m"] is None else list(row["m"].items())} for row in rows]
    messages = _encoded(schema, *as_pairs)
    assert [fastavro.schemaless_reader(io.BytesIO(m), avro, None) for m in messages] == rows
    written = []
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, avro, row)
        written.append(stream.getvalue())
    assert written == messages
    assert _decoded(schema, *written) == as_pairs
    for encoding in ("binary", "json"):
        assert _decoded(schema, *_encoded(schema, *as_pairs, encoding=encoding), encoding=encoding) == as_pairs


_MOST = (2**63 - 1) // 1000
_LIMITS: dict[str, dict[int, int | None]] = {  # numbers by the type of their column, with None for an error
    "TINYINT": {127: 127, -128: -128, 128: None, -129: None},
    "SMALLINT": {2**15 - 1: 2**15 - 1, -(2**15): -(2**15), 2**15: None, -(2**15) - 1: None},
    "INT": {2**31 - 1: 2**31 - 1, -(2**31): -(2**31)},
    "BIGINT": {2**63 - 1: 2**63 - 1, -(2**63): -(2**63)},
    "DATE": {2**31 - 1: 2**31 - 1, -(2**31): -(2**31)},
    "TIME(3)": {0: 0, 86_399_999: 86_399_999 * 10**6, 86_400_000: None, -1: None},
    "TIMESTAMP(3)": {-1: -1000, _MOST: _MOST * 1000, -_MOST: -_MOST * 1000, _MOST + 1: None, -_MOST - 1: None},
}


@pytest.mark.parametrize("type", _LIMITS)
@pytest.mark.parametrize("optional", [False, True])
def test_numbers_are_read_up_to_the_limits_of_their_columns(type: str, optional: bool) -> None:
    def message(number: int) -> bytes:
        left, found = 2 * number if number >= 0 else -2 * number - 1, b"\2" if optional else b""
        while left > 127:
            found, left = found + bytes([left & 127 | 128]), left >> 7
        return found + bytes([left])

    wanted = _LIMITS[type]
    messages = [message(number) for number in (*wanted, *wanted)]
    schema = f"v {type}" + ("" if optional else " NOT NULL")
    batch = get_format("avro").decode_batch(pa.array(messages), schema)
    values = batch.rows.flatten().field(0)
    values = values.cast(pa.int32() if type == "DATE" else pa.int64())
    assert values.to_pylist() == [value for value in wanted.values() if value is not None] * 2
    assert batch.rows.value_lengths().to_pylist() == [None if value is None else 1 for value in wanted.values()] * 2
