"""References in JSON Schemas, and members that only some objects have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvformat.codecs.discovery.column_types import Notes
from kvformat.codecs.json.references import SchemaDocuments
from kvformat.codecs.json.schema_columns import columns_of_json_schema
from kvformat.codecs.registry_formats.record_types import names_of_schema
from kvformat.registry.contract.schema_registries import RegistrySchema

_INT, _TEXT = {"type": "integer"}, {"type": "string"}
_EX = "http://ex.test/a/root.json"


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _columns(schema: Any, **others: Any) -> tuple[str, str]:
    """Return the columns and the notes."""
    notes, references = Notes(), tuple((name.replace("__", "."), json.dumps(other)) for name, other in others.items())
    found = columns_of_json_schema(RegistrySchema("JSON", json.dumps(schema), references), notes)
    return ", ".join(f"{field.name} {field.type.summary()}" for field in found), "; ".join(notes.texts())


@pytest.mark.parametrize(
    ("reference", "more"),
    [
        ("#/definitions/Foo%3CBar%3E", {"definitions": {"Foo<Bar>": _INT}}),
        ("#/definitions/A%20B~1c", {"definitions": {"A B/c": _INT}}),
        ("#/definitions/a~0b", {"definitions": {"a~b": _INT}}),
        ("#/definitions/%C3%A9", {"definitions": {"\u00e9": _INT}}),
        ("#/allOf/1", {"allOf": [_object(), _INT]}),
        (f"{_EX}#/definitions/X", {"$id": _EX, "definitions": {"X": _INT}}),
        ("root.json#/definitions/X", {"$id": _EX, "definitions": {"X": _INT}}),
        ("/a/root.json#/definitions/X", {"$id": _EX, "definitions": {"X": _INT}}),
        ("#foo", {"$defs": {"A": {"$anchor": "foo", "type": "integer"}}}),
        ("#foo", {"definitions": {"A": {"$id": "#foo", "type": "integer"}}}),
        ("item.json", {"$id": _EX, "$defs": {"A": {"$id": "item.json", "type": "integer"}}}),
        (
            "item.json#foo",
            {"$id": _EX, "$defs": {"A": {"$id": "item.json", "$defs": {"B": {"$anchor": "foo", **_INT}}}}},
        ),
        (
            "item.json",
            {"$id": _EX, "$defs": {"A": {"$id": "item.json", "$ref": "#/$defs/B", "$defs": {"B": _INT}}, "B": _TEXT}},
        ),
        ("other.json", {}),
        ("http://elsewhere.test/other.json", {}),
        ("other.json#/definitions/Y", {}),
        ("http://ex.test/other.json#/definitions/Z", {}),
    ],
)
def test_a_reference_is_followed(reference: str, more: dict[str, Any]) -> None:
    other = {"$id": "http://ex.test/other.json", "type": "integer"}
    other |= {"definitions": {"Y": {"$ref": "#/definitions/Z"}, "Z": _INT}}
    schema = {**_object(x={"$ref": reference}), **more}
    if "allOf" in more:
        schema = _object(x={"$ref": "#/properties/y/allOf/1"}, y=more)
    columns, notes = _columns(schema, other__json=other)
    assert columns.startswith("x BIGINT")
    assert "nowhere" not in notes


def test_a_byte_order_mark_before_a_schema_or_one_that_it_refers_to_is_no_part_of_it() -> None:
    text = json.dumps(_object(x={"$ref": "other.json"}))
    found = RegistrySchema("JSON", f"\ufeff{text}", (("other.json", f"\ufeff{json.dumps(_INT)}"),))
    assert [str(field.type) for field in columns_of_json_schema(found, Notes())] == ["BIGINT"]


@pytest.mark.parametrize(
    "reference", ["#/definitions/None", "#none", "none.json", "http://[", "#/definitions/%ZZ", "%", ""]
)
def test_a_reference_that_leads_nowhere_is_a_text_with_a_note(reference: str) -> None:
    columns, notes = _columns(_object(x={"$ref": reference}, y=_INT))
    assert columns == "x STRING, y BIGINT"
    assert "leads nowhere: kept as text" in notes or "contains itself" in notes


@pytest.mark.parametrize("wrong", [{"$anchor": 5}, {"$id": 5}, {"$defs": [1]}, {"properties": 5}, {"items": "x"}])
def test_a_word_of_a_wrong_type_does_not_hide_other_references(wrong: dict[str, Any]) -> None:
    schema = _object(x={"$ref": "#/definitions/X"}) | {"definitions": {"X": _INT, "W": {"definitions": wrong, **wrong}}}
    assert _columns(schema)[0] == "x BIGINT"


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("#/definitions/A%20x", "A x"),
        ("#/definitions/A~1x", "A/x"),
        ("#/definitions/Foo%3CBar%3E", "Foo<Bar>"),
        ("#A", "A"),
        ("a.json", "a.json"),
    ],
)
def test_the_name_of_a_branch_is_that_of_its_decoded_reference(reference: str, name: str) -> None:
    schema = {"oneOf": [{"$ref": reference}, {"title": "B", **_object(y=_TEXT)}]}
    parts = {"A x": _object(), "A/x": _object(), "Foo<Bar>": _object(), "A": {"$anchor": "A", **_object()}}
    text = json.dumps({**schema, "definitions": parts})
    found = RegistrySchema("JSON", text, (("a.json", json.dumps(_object())),))
    assert names_of_schema(found) == (name, "B")
    assert isinstance(SchemaDocuments.of(found).target(schema["oneOf"][0]).get("type"), str)


@pytest.mark.parametrize(
    ("more", "columns"),
    [
        ({"anyOf": [_object(x=_INT), _object(y=_TEXT)]}, "k STRING, x BIGINT, y STRING"),
        ({"oneOf": [{**_object(x=_INT), "required": ["x"]}, _object(y=_TEXT)]}, "k STRING, x BIGINT, y STRING"),
        ({"if": {}, "then": _object(x=_INT), "else": _object(y=_TEXT)}, "k STRING, x BIGINT, y STRING"),
        ({"if": {}, "then": {"properties": {"x": _INT}}}, "k STRING, x BIGINT"),
        ({"dependentSchemas": {"k": _object(x=_INT), "z": _object(k=_INT)}}, "k STRING, x BIGINT"),
        ({"anyOf": [{"required": ["k"]}, {"required": ["j"]}]}, "k STRING"),
        ({"anyOf": [{"required": ["k"]}, _object(x=_INT)]}, "k STRING, x BIGINT"),
        ({"if": _object(x=_INT), "then": _object(y=_TEXT)}, "k STRING, x BIGINT, y STRING"),
        (
            {"if": {}, "else": {"if": {}, "then": _object(x=_INT), "else": _object(y=_TEXT)}},
            "k STRING, x BIGINT, y STRING",
        ),
        ({"allOf": [{"if": {}, "then": _object(x=_INT)}, {"then": _object(y=_TEXT)}]}, "k STRING, x BIGINT, y STRING"),
        ({"allOf": [{"oneOf": [_object(x=_INT), _object(y=_TEXT)]}]}, "k STRING, x BIGINT, y STRING"),
        ({"dependencies": {"k": _object(x=_INT), "z": ["k"]}}, "k STRING, x BIGINT"),
        ({"then": {"$ref": "#/$defs/T"}, "$defs": {"T": {"allOf": [_object(x=_INT)]}}}, "k STRING, x BIGINT"),
        ({"then": {"$ref": "#"}, "else": {"allOf": [{"$ref": "#"}, _object(x=_INT)]}}, "k STRING, x BIGINT"),
        ({"then": _object(z=_INT), "else": _object(z=_INT)}, "k STRING, z BIGINT"),
        ({"then": _object(z=_INT), "else": _object(z={"type": "number"})}, "k STRING, z DOUBLE"),
        ({"then": _object(z=_INT), "else": _object(z=_TEXT)}, "k STRING, z STRING"),
        ({"oneOf": [_object(z={"const": "a"}, x=_INT), _object(z={"const": "b"})]}, "k STRING, z STRING, x BIGINT"),
    ],
)
def test_members_of_only_some_objects_are_nullable_columns(more: dict[str, Any], columns: str) -> None:
    schema = _object(k=_TEXT) | {"required": ["k"]} | more
    assert _columns(schema)[0] == columns
    found = columns_of_json_schema(RegistrySchema("JSON", json.dumps(schema)), Notes())
    assert [field.type.nullable for field in found] == [field.name != "k" for field in found]


def test_what_a_schema_inherits_over_several_levels_are_columns() -> None:
    base = {"allOf": [{"$ref": "#/$defs/A"}, _object(b=_TEXT)]}
    parts = {"A": {**_object(a=_INT), "required": ["a"]}, "B": base}
    schema = {"allOf": [{"$ref": "#/$defs/B"}, _object(c=_INT)], "oneOf": [_object(d=_INT), _object(e=_TEXT)]}
    columns = "a BIGINT, b STRING, c BIGINT, d BIGINT, e STRING"
    assert _columns({**schema, "$defs": parts}) == (columns, "")
    nested = "p ROW<`a` BIGINT NOT NULL, `b` STRING, `c` BIGINT, `d` BIGINT, `e` STRING>"
    assert _columns({**_object(p=schema), "$defs": parts}) == (nested, "")


@pytest.mark.parametrize(
    ("schema", "note"),
    [
        (_object(p={**_object(x=_INT), "additionalProperties": _TEXT}), "p: members by 'additionalProperties'"),
        (_object(p={**_object(x=_INT), "patternProperties": {"^a": _TEXT}}), "p: members by 'patternProperties'"),
        (
            {**_object(p={"$ref": "#/$defs/A", "properties": {"y": _INT}}), "$defs": {"A": _object(x=_INT)}},
            "p: properties",
        ),
        ({**_object(p=_object(x=_INT)), "then": _object(z=_INT), "else": _object(z=_TEXT)}, "z: one of 2 types"),
        (_object(p={**_object(x=_INT), "unevaluatedProperties": _TEXT}), "p: members by 'unevaluatedProperties'"),
        (_object(p={"allOf": [{**_object(x=_INT), "additionalProperties": _TEXT}]}), "p: members by 'additional"),
    ],
)
def test_members_that_no_column_shows_are_a_note(schema: dict[str, Any], note: str) -> None:
    columns, notes = _columns(schema)
    assert columns.startswith("p ROW<`x` BIGINT>")
    assert note in notes
