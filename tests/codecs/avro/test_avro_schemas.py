"""Avro schemas: errors, names, texts, deep and recursive schemas."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvformat.codecs.avro.batches import encode
from kvformat.codecs.avro.parse import parse_schema
from kvformat.codecs.avro.resolve import plan
from kvformat.registry.contract.errors import SchemaError
from tests.support.avro_cases import MANY, array, decode, error, read, record, schema_of, texts
from tests.support.avro_random import Maker

_SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not valid JSON"),
        ('{"type":"int"} x', "not valid JSON"),
        ("{'type':'int'}", "not valid JSON"),
        ("5", "5 is not a schema"),
        ('"strng"', "Did you mean 'string'"),
        ('{"type":"record","fields":[]}', "needs a 'name'"),
        ('{"type":"record","name":"R"}', "needs a list of 'fields'"),
        ('{"type":"record","name":"a-b","fields":[]}', "Illegal character in: a-b"),
        ('{"type":"record","name":"R","fields":[{"name":"1a","type":"int"}]}', "Illegal initial character: 1a"),
        ('{"type":"record","name":"\U0001d49c","fields":[]}', "Illegal initial character: \U0001d49c"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"S"}]}', "at a: 'S' is not a defined name"),
        ('{"type":"record","name":"R","fields":[{"name":"a"}]}', "without 'type'"),
        (
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
            "Duplicate field a",
        ),
        (
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}',
            'Invalid default for field a: "x"',
        ),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":2147483648}]}', "Invalid default"),
        ('["int","int"]', "only once"),
        ('["int",["null"]]', "may not contain a union"),
        ('[{"type":"fixed","name":"F","size":1},{"type":"fixed","name":"F","size":1}]', "Can't redefine: F"),
        ('{"type":"fixed","name":"F"}', "needs a 'size'"),
        ('{"type":"enum","name":"E","symbols":["A","A"]}', "Duplicate enum symbol: A"),
        ('{"type":"enum","name":"E","symbols":["A"],"default":"B"}', "Enum Default"),
        ('{"type":"array"}', "without 'items'"),
        ('{"type":"record","name":"int","fields":[]}', "named after primitives"),
    ],
)
def test_invalid_schemas(text: str, reason: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema(text)
    assert reason in str(caught.value)


def test_defaults_need_not_be_checked() -> None:
    text = json.dumps(record({"name": "a", "type": "int", "default": "x"}))
    reader = parse_schema(text, check_defaults=False)
    decoded = decode(array(b""), schema_of(record()), reader)
    assert decoded.errors is not None
    assert "the default of field a" in decoded.errors[0].as_py()


@settings(max_examples=50, deadline=None)
@given(_SEEDS)
def test_the_text_of_a_schema_parses_to_the_schema(seed: int) -> None:
    schema = schema_of(Maker(seed).schema())
    assert parse_schema(schema.text) == schema
    assert parse_schema(schema.text).arrow_type == schema.arrow_type
    assert pickle.loads(pickle.dumps(schema)) == schema


def test_the_text_is_what_avro_writes() -> None:
    """The text is sent to registries. It omits attributes that have no meaning in their place."""
    inner = {
        "type": "enum", "name": "E", "symbols": ["A"], "default": 5, "size": 3, "doc": 7,
        "aliases": ["F", "F", "x.y.G", "int"],
    }  # fmt: skip
    node = {
        "type": "error", "name": "x.y.R", "doc": "what", "symbols": [], "owner": {"team": 1},
        "fields": [
            {"name": "a", "type": inner, "order": "IGNORE", "aliases": ["b", "b"], "size": 4},
            {"name": "c", "type": {"type": "double", "name": "n", "u": 1}, "default": " 0x1p4d", "order": "ASCENDING"},
            {"name": "d", "type": "float", "default": "-Infinity", "doc": None},
        ],
    }  # fmt: skip
    schema = schema_of(node)
    assert json.loads(schema.text) == {
        "type": "error", "name": "R", "namespace": "x.y", "doc": "what", "owner": {"team": 1},
        "fields": [
            {
                "name": "a", "order": "ignore", "aliases": ["b"], "size": 4,
                "type": {"type": "enum", "name": "E", "symbols": ["A"], "aliases": ["F", "G", "x.y.int"]},
            },
            {"name": "c", "type": {"type": "double", "u": 1}, "default": 16.0},
            {"name": "d", "type": "float", "default": "-Infinity"},
        ],
    }  # fmt: skip
    assert parse_schema(schema.text) == schema


def test_the_text_has_letters_as_they_are() -> None:
    """Errors show a part of it, and a registry shows it to people."""
    field = '{"name":"a","type":"string","default":"Größe"}'
    text = f'{{"type":"record","name":"R","fields":[{field}],"doc":"日"}}'
    assert parse_schema(text).text == text


def test_comments_in_a_schema() -> None:
    text = '/* "*/ {"type": "record", //\r\n "name": "R", "doc": "// none", "fields": [/**/]} \0\n'
    assert json.loads(parse_schema(text).text) == {"type": "record", "name": "R", "doc": "// none", "fields": []}


@pytest.mark.parametrize(
    "text", ['"int" // done', '"int"/**/', '{"type": "int", "x": NaN}', "/* int", '"in/**/t"', '#\n"int"']
)
def test_comments_and_texts_that_are_not_a_schema(text: str) -> None:
    with pytest.raises(SchemaError, match="not an Avro schema"):
        parse_schema(text)


@pytest.mark.parametrize(
    ("t", "default"),
    [(["null", "int"], "x"), (["int", "null"], 1.5), ({"type": "array", "items": ["null", "int"]}, [True]), ([], None)],
)
def test_the_default_of_a_union_is_one_of_a_branch(t: object, default: object) -> None:
    with pytest.raises(SchemaError, match="Invalid default for field a"):
        schema_of(record({"name": "a", "type": t, "default": default}))


_RECORD = record({"name": "b", "type": "int"}, {"name": "c", "type": "int", "default": 7}) | {"name": "Inner"}
_DEFAULTS: list[tuple[object, list[object], list[object]]] = [  # type, valid defaults, others
    ("null", [None], [0, "null", False]),
    ("boolean", [True, False], [0, "true", None]),
    ("int", [2**31 - 1, -(2**31), 0], [2**31, -(2**31) - 1, True, 1.5, "1", None]),
    ("long", [2**63 - 1, -(2**63)], [2**63, -(2**63) - 1, False, 0.5, None]),
    ("double", [1, -0.5], [True, None, [1]]),
    ("string", ["", "x"], [1, None, ["x"]]),
    ("bytes", ["", "\u00ff"], [1, None, []]),
    ({"type": "array", "items": "int"}, [[], [1, 2]], [[1, "x"], {}, 1, None]),
    ({"type": "map", "values": "int"}, [{}, {"k": 1, "m": 2}], [{"k": 1, "m": "x"}, [], 1, None]),
    (_RECORD, [{"b": 1}, {"b": 1, "c": 2}], [{}, {"b": "x"}, {"b": 1, "c": "x"}, [], None]),
]


@pytest.mark.parametrize(("t", "valid", "invalid"), _DEFAULTS, ids=[str(one[0])[:40] for one in _DEFAULTS])
def test_a_default_is_a_value_of_its_type(t: object, valid: list[object], invalid: list[object]) -> None:
    for default in valid:
        schema_of(record({"name": "a", "type": t, "default": default}))
    for default in invalid:
        with pytest.raises(SchemaError, match="Invalid default for field a"):
            schema_of(record({"name": "a", "type": t, "default": default}))


@pytest.mark.parametrize(
    ("attribute", "reason"),
    [
        ({"order": "up"}, "'order' must be one of"),
        ({"order": 3}, "'order' must be one of"),
        ({"default": "x"}, "not a number"),
    ],
)
def test_invalid_attributes_of_a_field(attribute: dict[str, object], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        schema_of(record({"name": "a", "type": "double", **attribute}))


def test_names_are_resolved_with_namespaces() -> None:
    node = record(
        {"type": "enum", "name": "E", "symbols": ["A"]},
        {"type": "fixed", "name": "other.F", "size": 1},
        record("E", "a.b.E", "other.F", name="S"),
        ["null", "a.b.S"],
        name="a.b.R",
    )
    schema = schema_of(node)
    inner = schema.fields[2].schema
    assert schema.full_name == "a.b.R"
    assert inner.full_name == "a.b.S"
    assert [f.schema.full_name for f in inner.fields] == ["a.b.E", "a.b.E", "other.F"]
    assert schema.fields[3].schema.optional is inner
    assert parse_schema(inner.text) == inner


def test_a_name_with_dots_is_complete() -> None:
    """Also where the namespace has another type of that name."""
    kinds = [{"type": "fixed", "name": name, "size": size} for size, name in ((1, "b.F"), (2, "a.b.F"))]
    schema = schema_of(record(*kinds, "b.F", "a.b.F", name="a.R"))
    assert [field.schema.size for field in schema.fields] == [1, 2, 1, 2]


def test_a_name_that_its_namespace_does_not_have_is_one_without_a_namespace() -> None:
    enum = {"type": "enum", "name": "E", "namespace": "", "symbols": ["A"]}
    schema = schema_of(record(enum, "E", name="a.R"))
    for one in (schema, parse_schema(schema.text)):
        assert [field.schema.full_name for field in one.fields] == ["E", "E"]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("int", {"logicalType": "date"}, {"logicalType": "timestamp-millis"}),
        ("string", {"logicalType": "uuid"}, {"logicalType": "big-decimal"}),
        ("bytes", {"logicalType": "big-decimal"}, {"logicalType": "uuid"}),
        ("bytes", {"logicalType": "decimal", "precision": 2, "scale": 2}, {"precision": 2, "scale": 3}),
        ("fixed", {"logicalType": "decimal", "precision": 4, "size": 2}, {"precision": 5, "size": 2}),
        ("fixed", {"logicalType": "uuid", "size": 16}, {"size": 15}),
        ("fixed", {"logicalType": "duration", "size": 12}, {"size": 16}),
    ],
)
def test_a_logical_type_counts_only_where_it_is_valid(kind: str, good: dict[str, Any], bad: dict[str, Any]) -> None:
    node = {"type": kind, "name": "F"}
    assert str(schema_of({**node, **good}).logical).startswith(good["logicalType"])
    assert schema_of({**node, **good, **bad}).logical is None


_LIST = '{"type":"record","name":"Node","fields":[{"name":"v","type":"int"},{"name":"next","type":["null","Node"]}]}'


def test_a_recursive_reader_schema_is_refused() -> None:
    schema = parse_schema(_LIST)
    with pytest.raises(SchemaError, match="Node is recursive"):
        decode(array("0200"), schema)
    assert parse_schema(schema.text) == schema


def test_recursive_data_is_skipped() -> None:
    writer = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "l", "type": json.loads(_LIST)}, {"name": "a", "type": "int"}],
    }
    reader = record({"name": "a", "type": "int"})
    assert read("02020402060008", writer, reader) == {"a": 4}
    assert "levels" in error("0202" * 100_000, writer, reader)


_RECURSIVE = {  # a field of a record A that contains A, the bytes of a level, of the innermost one, and after each one
    "null and a record": (["null", "A"], "02", "00", ""),
    "a union of three": (["null", "int", "A"], "04", "00", ""),
    "an array": ({"type": "array", "items": "A"}, "02", "00", "00"),
    "a map": ({"type": "map", "values": "A"}, "020261", "00", "00"),
    "an array of unions": ({"type": "array", "items": ["null", "A"]}, "0202", "00", "00"),
    "a record with an array": (record({"type": "array", "items": "A"}, name="B"), "02", "00", "00"),
}


_FIRST_REFUSED = {
    "null and a record": 99,
    "a union of three": 99,
    "an array": 100,
    "a map": 100,
    "an array of unions": 67,
    "a record with an array": 66,
}
"""The number of records in each other that is refused first. Each of them is two or three of the 200 levels."""


@pytest.mark.parametrize("name", _RECURSIVE)
def test_skipped_levels_are_limited_per_message_and_not_by_values_side_by_side(name: str) -> None:
    node, begin, innermost, end = _RECURSIVE[name]
    writer = schema_of(
        record({"name": "l", "type": {"type": "array", "items": record(node, name="A")}}, {"name": "a", "type": "int"})
    )
    reader = schema_of(record({"name": "a", "type": "int"}))

    def message(levels: int, count: int = 1) -> str:
        value = begin * levels + innermost + end * levels
        return (
            f"{2 * count & 127 | (128 if count > 63 else 0):02x}"
            + (f"{2 * count >> 7:02x}" if count > 63 else "")
            + (value * count + "00" + "08")
        )

    limit = next(n for n in range(1, 300) if decode(array(message(n)), writer, reader).errors is not None)
    assert limit == _FIRST_REFUSED[name]
    many, most, over = message(1, 1000), message(limit - 1, 3), message(limit)
    decoded = decode(array(many, most, over, most, over, many), writer, reader)
    assert [text is None for text in texts(decoded)] == [True, True, False, True, False, True]
    assert {row["a"] for row in decoded.values.to_pylist() if row is not None} == {4}


@pytest.mark.parametrize(
    ("values", "one"),
    [
        ({"type": "array", "items": "int"}, "020200"),
        ({"type": "array", "items": ["null", "int"]}, "02020200"),
        ({"type": "map", "values": "int"}, "0202610200"),
    ],
)
def test_a_skipped_array_or_map_after_the_last_level_must_be_empty(values: dict[str, Any], one: str) -> None:
    node = record({"name": "n", "type": {"type": "array", "items": "A"}}, {"name": "v", "type": values}, name="A")
    writer = record({"name": "l", "type": {"type": "array", "items": node}}, {"name": "a", "type": "int"})
    reader = record({"name": "a", "type": "int"})

    def message(levels: int, innermost: str) -> str:
        return "02" + "02" * levels + "00" + innermost + "0000" * levels + "00" + "08"

    assert read(message(99, "00"), writer, reader) == read(message(98, one), writer, reader) == {"a": 4}
    assert "levels" in error(message(99, one), writer, reader)
    assert "levels" in error(message(100, "00"), writer, reader)


def test_an_array_of_recursive_records_is_skipped() -> None:
    outer = record({"name": "b", "type": record({"name": "n", "type": ["null", "A"]}, name="B")}, name="A")
    writer = record({"name": "l", "type": {"type": "array", "items": outer}}, {"name": "a", "type": "int"})
    reader = record({"name": "a", "type": "int"})
    assert read("06000200000008", writer, reader) == {"a": 4}


@pytest.mark.parametrize("depth", [60, 1000, 100_000])
def test_deep_schemas(depth: int) -> None:
    text = '{"type":"array","items":' * depth + '"int"' + "}" * depth
    if depth > 64:
        with pytest.raises(SchemaError, match="nested deeper"):
            parse_schema(text)
        return
    schema = parse_schema(text)
    message = b"\x02" * depth + b"\x08" + b"\x00" * depth
    assert decode(array(*[message] * MANY), schema).errors is None
    assert encode(decode(array(message), schema).values, schema).messages[0].as_py() == message
    assert decode(array(*[b"\x02" * 200] * MANY), schema).errors is not None


def test_a_schema_too_large_with_references_resolved_is_refused() -> None:
    records = [record("int", name="R0")]
    records += [record(f"R{i}", f"R{i}", name=f"R{i + 1}") for i in range(50)]
    with pytest.raises(SchemaError, match="with all references resolved, it has more than"):
        parse_schema(json.dumps(records))


def test_plans_are_cached() -> None:
    writer = record(
        {"name": "a", "type": "int"}, {"name": "b", "type": {"type": "enum", "name": "E", "symbols": ["A"]}}
    )
    reader = record({"name": "b", "type": "string"})
    compiled = plan(schema_of(writer), schema_of(reader))
    assert plan(schema_of(writer), schema_of(reader)) is compiled
    assert plan(schema_of(writer), schema_of(reader), True) is not compiled
