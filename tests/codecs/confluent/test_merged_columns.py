"""Columns for messages with several schemas: they read the messages, or a note says which they do not read."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs import get_format
from kvformat.connectors import infer_schema

_ENDINGS = {"avro-confluent": "avsc", "proto-registry": "proto", "json-registry": "json"}
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
_FIXED = {"type": "fixed", "name": "X", "size": 3, "logicalType": "decimal", "precision": 6, "scale": 2}


def _enum(*symbols: str, name: str = "E") -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols)}


def _moment(unit: str) -> dict[str, str]:
    return {"type": "long", "logicalType": f"timestamp-{unit}"}


def _record(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "I", "fields": [{"name": "k", "type": kind}]}


def _avro(kind: Any) -> str:
    return json.dumps({"type": "record", "name": "A", "fields": [{"name": "a", "type": kind}]})


def _proto(kind: str) -> str:
    return (
        f'syntax = "proto3"; message M {{ {kind} a = 1; }} message P {{ int32 x = 1; }} message W {{ int64 x = 1; }}'
        + (
            " message Y { int32 x = 1; string y = 2; } message L { repeated P l = 1; } message S { Y l = 1; }"
            " message E { string key = 1; int32 value = 2; }"
        )
    )


def _json(kind: Any) -> str:
    return json.dumps({"type": "object", "properties": {"a": kind}})


def _both(folder: Path, name: str, *pairs: tuple[str, str]) -> tuple[str, list[Any], list[Any], tuple[str, ...]]:
    """Return the columns of both messages, the values read with them, the errors, and the notes."""
    messages = []
    for number, (schema, data) in enumerate(pairs, 1):
        (folder / f"{number}.{_ENDINGS[name]}").write_text(schema)
        messages.append(number.to_bytes(5, "big") + bytes.fromhex(data))
    array, url = pa.array(messages, pa.binary()), f"file:{folder}"
    found = infer_schema(array, format=name, options={"url": url})
    batch = get_format(name, {**found.options, "url": url}).decode_batch(array, found.ddl)
    errors = [None] * len(messages) if batch.errors is None else batch.errors.to_pylist()
    return found.ddl, [rows and rows[0]["a"] for rows in batch.rows.to_pylist()], errors, tuple(found.notes)


_READ = [
    ("avro-confluent", _avro("long"), "808080808080808001", _avro("int"), "02", "BIGINT"),
    ("avro-confluent", _avro("double"), struct.pack("<d", 2.5).hex(), _avro("long"), "02", "DOUBLE"),
    ("avro-confluent", _avro("float"), struct.pack("<f", 2.5).hex(), _avro("double"), "00" * 8, "DOUBLE"),
    ("avro-confluent", _avro("string"), "0261", _avro("bytes"), "0262", "BYTES"),
    ("avro-confluent", _avro(["null", "int"]), "00", _avro("long"), "02", "BIGINT"),
    ("avro-confluent", _avro(["null", "long"]), "0204", _avro(["int", "null"]), "0002", "BIGINT"),
    ("avro-confluent", _avro(_enum("P", "Q")), "02", _avro(_enum("Z", "P")), "00", "STRING"),
    ("avro-confluent", _avro(_enum("P")), "00", _avro(_enum("P", name="F")), "00", "STRING"),
    ("avro-confluent", _avro(_enum("P")), "00", _avro("string"), "0261", "STRING"),
    ("avro-confluent", _avro("string"), "0261", _avro(_enum("P")), "00", "STRING"),
    ("avro-confluent", _avro(_DECIMAL), "027d", _avro(_FIXED), "00007d", "DECIMAL(6, 2)"),
    ("avro-confluent", _avro(_DECIMAL), "027d", _avro(_DECIMAL | {"scale": 4}), "027d", "DECIMAL(8, 4)"),
    ("avro-confluent", _avro(_moment("millis")), "02", _avro(_moment("micros")), "d00f", "TIMESTAMP(3)"),
    ("avro-confluent", _avro(_moment("micros")), "d00f", _avro(_moment("millis")), "02", "TIMESTAMP(3)"),
    ("avro-confluent", _avro(_moment("millis")), "02", _avro("long"), "04", "TIMESTAMP(3)"),
    (
        "avro-confluent",
        _avro({"type": "array", "items": "long"}),
        "020400",
        _avro({"type": "array", "items": "int"}),
        "020400",
        "ARRAY<BIGINT NOT NULL>",
    ),
    ("avro-confluent", _avro(_record("long")), "04", _avro(_record("int")), "04", "ROW<`k` BIGINT NOT NULL>"),
    ("proto-registry", _proto("int32"), "000805", _proto("int64"), "000805", "BIGINT"),
    ("proto-registry", _proto("int64"), "000805", _proto("int32"), "000805", "BIGINT"),
    ("proto-registry", _proto("bool"), "000801", _proto("int32"), "000805", "INT"),
    ("proto-registry", _proto("bytes"), "000a01ff", _proto("string"), "000a0178", "BYTES"),
    ("proto-registry", _proto("float"), "000d0000c03f", _proto("double"), "00", "DOUBLE"),
    ("proto-registry", _proto("repeated string"), "000a0178", _proto("string"), "000a0178", "ARRAY<STRING NOT NULL>"),
    ("proto-registry", _proto("W"), "000a020805", _proto("P"), "000a020805", "ROW<`x` BIGINT NOT NULL>"),
    ("proto-registry", _proto("repeated P"), "000a020805", _proto("P"), "000a020805", "ARRAY<ROW<`x` INT>>"),
    ("proto-registry", _proto("repeated P"), "000a020805", _proto("W"), "000a020805", "ARRAY<ROW<`x` BIGINT>>"),
    (
        "proto-registry",
        _proto("Y"),
        "000a03120178",
        _proto("repeated P"),
        "000a020805",
        "ARRAY<ROW<`x` INT, `y` STRING>>",
    ),
    (
        "proto-registry",
        _proto("repeated Y"),
        "000a03120178",
        _proto("P"),
        "000a020805",
        "ARRAY<ROW<`x` INT, `y` STRING>>",
    ),
    (
        "proto-registry",
        _proto("repeated Y"),
        "000a03120178",
        _proto("repeated P"),
        "000a020805",
        "ARRAY<ROW<`x` INT, `y` STRING>>",
    ),
    (
        "proto-registry",
        _proto("L"),
        "000a040a020805",
        _proto("S"),
        "000a050a03120178",
        "ROW<`l` ARRAY<ROW<`x` INT, `y` STRING>>>",
    ),
    (
        "proto-registry",
        _proto("repeated L"),
        "000a040a020805",
        _proto("S"),
        "000a050a03120178",
        "ARRAY<ROW<`l` ARRAY<ROW<`x` INT, `y` STRING>>>>",
    ),
    (
        "proto-registry",
        _proto("map<string, int32>"),
        "000a050a01781005",
        _proto("repeated E"),
        "000a050a01781005",
        "ARRAY<ROW<`key` STRING, `value` INT>>",
    ),
    (
        "json-registry",
        _json({"type": "string"}),
        b'{"a":"x"}'.hex(),
        _json({"type": "integer"}),
        b'{"a":1}'.hex(),
        "STRING",
    ),
    (
        "json-registry",
        _json({"type": "number"}),
        b'{"a":1.5}'.hex(),
        _json({"type": "integer"}),
        b'{"a":1}'.hex(),
        "DOUBLE",
    ),
    (
        "json-registry",
        _json({"type": "object", "properties": {"x": {"type": "number"}}}),
        b'{"a":{"x":1.5}}'.hex(),
        _json({"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "string"}}}),
        b'{"a":{"x":1}}'.hex(),
        "ROW<`x` DOUBLE, `y` STRING>",
    ),
    (
        "json-registry",
        _json({"type": "array", "items": {"type": "string"}}),
        b'{"a":["x"]}'.hex(),
        _json({"type": "string"}),
        b'{"a":"y"}'.hex(),
        "STRING",
    ),
]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("name", "one", "first", "two", "second", "column"), _READ)
def test_a_proposal_reads_its_own_sample(
    name: str, one: str, first: str, two: str, second: str, column: str, swapped: bool, tmp_path: Path
) -> None:
    pairs = [(one, first), (two, second)]
    ddl, _, errors, _ = _both(tmp_path, name, *(reversed(pairs) if swapped else pairs))
    assert ddl.replace(" NOT NULL", "") == f"`a` {column.replace(' NOT NULL', '')}"
    assert errors == [None, None]


def _required(name: str, *fields: str) -> str:
    """Return a schema whose `a` has these fields, none of them optional: the number x, the text y."""
    if name == "avro-confluent":
        types = {"x": "long", "y": "string"}
        return _avro({"type": "record", "name": "I", "fields": [{"name": n, "type": types[n]} for n in fields]})
    if name == "proto-registry":
        lines = {"x": "int64 x = 1;", "y": "string y = 2;"}
        return f'syntax = "proto3"; message M {{ I a = 1; }} message I {{ {" ".join(lines[n] for n in fields)} }}'
    kinds = {"x": {"type": "integer"}, "y": {"type": "string"}}
    return _json({"type": "object", "properties": {n: kinds[n] for n in fields}, "required": list(fields)})


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("name", "both", "one"),
    [
        ("avro-confluent", "020278", "02"),
        ("proto-registry", "000a050801120178", "000a020801"),
        ("json-registry", b'{"a":{"x":1,"y":"x"}}'.hex(), b'{"a":{"x":1}}'.hex()),
    ],
)
def test_a_nested_field_that_a_schema_does_not_have_is_nullable(
    name: str, both: str, one: str, swapped: bool, tmp_path: Path
) -> None:
    pairs = [(_required(name, "x", "y"), both), (_required(name, "x"), one)]
    ddl, _, errors, _ = _both(tmp_path, name, *(reversed(pairs) if swapped else pairs))
    assert ddl.startswith("`a` ROW<`x` BIGINT NOT NULL, `y` STRING>")
    assert errors == [None, None]


_OPTIONAL_PROTO = _required("proto-registry", "x").replace("int64 x", "optional int64 x")
_OPTIONAL_JSON = _required("json-registry", "x").replace('"required": ["x"]', '"required": []')


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("name", "required", "first", "optional", "second", "column"),
    [
        ("avro-confluent", _avro("long"), "02", _avro(["null", "long"]), "00", "BIGINT"),
        ("avro-confluent", _avro(_record("long")), "02", _avro(_record(["null", "long"])), "00", "ROW<`k` BIGINT>"),
        ("proto-registry", _proto("int64"), "000805", _proto("optional int64"), "00", "BIGINT"),
        (
            "proto-registry",
            _required("proto-registry", "x"),
            "000a020805",
            _OPTIONAL_PROTO,
            "000a00",
            "ROW<`x` BIGINT>",
        ),
        (
            "json-registry",
            _required("json-registry", "x"),
            b'{"a":{"x":1}}'.hex(),
            _OPTIONAL_JSON,
            b'{"a":{}}'.hex(),
            "ROW<`x` BIGINT>",
        ),
    ],
)
def test_what_is_optional_in_a_schema_is_nullable(
    name: str, required: str, first: str, optional: str, second: str, column: str, swapped: bool, tmp_path: Path
) -> None:
    pairs = [(required, first), (optional, second)]
    ddl, _, errors, _ = _both(tmp_path, name, *(reversed(pairs) if swapped else pairs))
    assert ddl.removesuffix(" NOT NULL" if ">" in ddl else "") == f"`a` {column}"
    assert errors == [None, None]


@pytest.mark.parametrize(
    ("name", "one", "first", "two", "second", "note"),
    [
        ("avro-confluent", _avro("int"), "02", _avro("string"), "0261", "a: int in some schemas"),
        ("avro-confluent", _avro("boolean"), "01", _avro("long"), "02", "a: boolean in some schemas"),
        ("avro-confluent", _avro(_record("int")), "02", _avro("string"), "0261", "a: record I in some schemas"),
        (
            "avro-confluent",
            _avro(_DECIMAL),
            "027d",
            _avro("string"),
            "0261",
            "a: bytes (decimal(6, 2)) in some schemas",
        ),
        ("proto-registry", _proto("string"), "000a0178", _proto("int32"), "000805", "a: STRING in some schemas"),
        ("proto-registry", _proto("P"), "000a00", _proto("int32"), "000805", "a: ROW"),
    ],
)
def test_what_no_column_reads_is_a_note(
    name: str, one: str, first: str, two: str, second: str, note: str, tmp_path: Path
) -> None:
    _, values, errors, notes = _both(tmp_path, name, (one, first), (two, second))
    assert errors[0] is not None
    assert errors[1] is None
    assert values[1] is not None
    assert any(text.startswith(note) for text in notes)


@pytest.mark.parametrize(("count", "end"), [(10, "M9 (1). The option"), (11, "M9 (1) and 1 more. The option")])
def test_a_note_names_the_first_ten_types_of_the_messages(count: int, end: str, tmp_path: Path) -> None:
    types = (f"message M{number} {{ int32 x = 1; }}" for number in range(count))
    (tmp_path / "1.proto").write_text(f'syntax = "proto3"; {" ".join(types)}')
    messages = [b"\0\0\0\0\1\2" + bytes([2 * number]) + b"\x08\5" for number in range(count)]
    found = infer_schema(pa.array(messages), format="proto-registry", options={"url": f"file:{tmp_path}"})
    assert any(end in note for note in found.notes)
