"""The option `on-new-schema`: schemas of writers with fields or types that a table does not show."""

from __future__ import annotations

import json
import uuid
import warnings
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs.registry_formats.new_schemas import NewSchemas
from kvformat.registry import NewSchemaWarning, OptionError, get_format
from kvformat.registry.contract import fork_safe
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.schema_registries import RegistrySettings
from tests.support.decoding import decoded_rows, first_rows
from tests.support.new_schemas import SCHEMAS, avro_record, json_object, old_and_new
from tests.support.registry_server import Registry

_TEXT = "more. Columns that show them, as changes of the table: ADD (`more` STRING)"


@pytest.mark.parametrize("format", SCHEMAS)
def test_new_fields_are_errors_of_their_messages(format: str, registry: Registry) -> None:
    fmt, (old, new) = old_and_new(format, registry, "fail")
    guid = b"\1" + uuid.UUID(registry.guid(2)).bytes + new[5:]
    for messages in ([old, new, None, old, new, b"\0", guid], [new, new], [old, old]):
        batch = fmt.decode_batch(pa.array(messages, pa.binary()), "id INT")
        found = decoded_rows(fmt, "id INT", *messages)
        for message, one in zip(messages, found, strict=True):
            if message == old:
                assert one == [("+I", 7)]
            elif message in (new, guid):
                schema = "2" if message == new else registry.guid(2)
                assert one == (
                    f"format '{format}': schema {schema} has fields or types that the table does not show: {_TEXT}"
                )
        codes = [None] * len(messages) if batch.codes is None else batch.codes.to_pylist()
        assert codes.count("UNEXPECTED_FIELD") == sum(message in (new, guid) for message in messages)
    assert decoded_rows(fmt, "id INT, more STRING", old, new) == [[("+I", 7, None)], [("+I", 7, "x")]]


@pytest.mark.parametrize("format", SCHEMAS)
def test_an_error_belongs_to_its_schema_if_another_one_is_asked_for(format: str, registry: Registry) -> None:
    """The second batch has a schema that is known, and one that is more frequent and not known yet."""
    fmt, (old, new) = old_and_new(format, registry, "fail")
    (error,) = decoded_rows(fmt, "id INT", new)
    assert isinstance(error, str)
    assert decoded_rows(fmt, "id INT", old, old, new) == [[("+I", 7)], [("+I", 7)], error]


@pytest.mark.parametrize("format", SCHEMAS)
def test_new_fields_are_named_once_by_a_warning(format: str, registry: Registry) -> None:
    fmt, (old, new) = old_and_new(format, registry, "warn")
    with pytest.warns(NewSchemaWarning) as told:
        rows = decoded_rows(fmt, "id INT", old, new, new)
    assert rows == [[("+I", 7)]] * 3
    texts = [str(one.message) for one in told if one.category is NewSchemaWarning]
    assert [text.partition("not show: ")[2] for text in texts] == [_TEXT]
    with warnings.catch_warnings():
        warnings.simplefilter("error", NewSchemaWarning)
        assert decoded_rows(fmt, "id INT", new) == [[("+I", 7)]]
    fork_safe.renew_all()  # as in another process
    with pytest.warns(NewSchemaWarning):
        decoded_rows(fmt, "id INT", new)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NewSchemaWarning)
        assert decoded_rows(fmt, "id INT, more STRING", new) == [[("+I", 7, "x")]]


@pytest.mark.parametrize("format", SCHEMAS)
@pytest.mark.parametrize("policy", [None, "ignore"])
def test_by_default_new_fields_are_ignored(format: str, policy: str | None, registry: Registry) -> None:
    fmt, messages = old_and_new(format, registry, policy)
    assert decoded_rows(fmt, "id INT", *messages) == [[("+I", 7)]] * 2
    if format.startswith("json"):
        assert registry.requests == []


@pytest.mark.parametrize("format", ["avro-confluent", "debezium-avro-confluent", "proto-registry"])
def test_a_wider_type_is_an_error_that_says_how_to_declare_the_column(format: str, registry: Registry) -> None:
    fmt, (_, new) = old_and_new(format, registry, "fail")
    registry.ids[2] = registry.ids[2].replace('"int"', '"long"').replace("int32", "int64")
    (error,) = decoded_rows(fmt, "id INT, more STRING", new)
    assert error.endswith(
        "does not show: id as BIGINT. Columns that show them, as changes of the table: MODIFY (`id` BIGINT)"
    )
    assert decoded_rows(fmt, "id BIGINT, more STRING", new) == [[("+I", 7, "x")]]


def test_json_needs_the_registry_only_for_the_option(registry: Registry) -> None:
    with pytest.raises(OptionError, match="'url' of format 'json-registry' is missing"):
        get_format("json-registry", {"on-new-schema": "warn"}).decode_batch(pa.array([b""]), "id INT")
    fmt, (old, _) = old_and_new("json-registry", registry, "fail")
    assert decoded_rows(fmt, "id INT", b"\0\0\0\0\x09" + old[5:]) == [[("+I", 7)]]  # its schema is unknown


@pytest.mark.parametrize(
    ("table", "schema", "new"),
    [
        ("a INT, b STRING", "a INT, b STRING", None),
        ("a INT, b STRING, c INT", "a INT", None),
        ("a BIGINT, b DOUBLE, c DECIMAL(12, 3)", "a INT, b FLOAT, c DECIMAL(5, 2)", None),
        ("a DECIMAL(12, 3) NOT NULL", "a DECIMAL(5, 2)", None),
        ("a STRING, b BYTES, c VARCHAR(3)", "a BIGINT, b STRING, c STRING", None),
        ("a TIMESTAMP(3), b DATE", "a TIMESTAMP_LTZ(6), b TIMESTAMP(3)", None),
        ("a INT", "a STRING", None),
        ("a INT NOT NULL", "a BIGINT", "a as BIGINT; MODIFY (`a` BIGINT NOT NULL)"),
        ("a TIMESTAMP(3)", "a TIMESTAMP(6)", "a as TIMESTAMP(6); MODIFY (`a` TIMESTAMP(6))"),
        ("a DECIMAL(10, 2)", "a DECIMAL(12, 4)", "a as DECIMAL(12, 4); MODIFY (`a` DECIMAL(12, 4))"),
        (
            "r ROW<x INT, s ROW<y INT>>",
            "r ROW<x INT, s ROW<y INT, z STRING NOT NULL>, w INT>, q INT NOT NULL",
            "r.s.z, r.w, q; ADD (`q` INT); MODIFY (`r` ROW<`x` INT, `s` ROW<`y` INT, `z` STRING>, `w` INT>)",
        ),
        (
            "r ARRAY<ROW<x INT>>, m MAP<STRING, INT>",
            "r ARRAY<ROW<x INT, y INT>>, m MAP<STRING, BIGINT>",
            "r.y, m as BIGINT; MODIFY (`r` ARRAY<ROW<`x` INT, `y` INT>>, `m` MAP<STRING, BIGINT>)",
        ),
        ("r ROW<x INT>", "r INT", None),
    ],
)
def test_what_is_new(table: str, schema: str, new: str | None) -> None:
    row = parse_type(f"ROW<{table}>")
    compared = NewSchemas("fail", RegistrySettings(f"mock://{table}{schema}"), "avro-registry", row)
    error = compared.error(7, lambda: parse_type(f"ROW<{schema}>").fields)
    if new is None:
        assert error is None
        return
    names, _, ddl = new.partition("; ")
    assert error is not None
    assert error.code == "UNEXPECTED_FIELD"
    assert error.text == (
        "format 'avro-registry': schema 7 has fields or types that the table does not show: "
        f"{names}. Columns that show them, as changes of the table: {ddl}"
    )


@pytest.mark.parametrize(("count", "more"), [(20, ""), (21, " and 1 more"), (1000, " and 980 more")])
def test_the_first_20_new_fields_are_named(count: int, more: str) -> None:
    settings = RegistrySettings(f"mock://many{count}")
    compared = NewSchemas("fail", settings, "avro-registry", parse_type("ROW<a INT>"))
    columns = ", ".join(f"c{number} INT" for number in range(count))
    error = compared.error(7, lambda: parse_type(f"ROW<{columns}>").fields)
    assert error is not None
    assert f"c19{more}. Columns" in error.text
    assert len(error.text) < 1000


@pytest.mark.parametrize("format", ["avro-confluent", "json-registry"])
def test_the_branch_of_a_union_is_compared(format: str, registry: Registry) -> None:
    if format == "json-registry":
        order, refund = ({**json_object(id="integer"), "title": name} for name in ("Order", "Refund"))
        for kind, branch in enumerate((order, refund)):
            branch |= {"properties": {**branch["properties"], "kind": {"const": str(kind)}}, "required": ["kind"]}
        refund["properties"]["more"] = {"type": "string"}
        union: Any = {"oneOf": [order, refund]}
        messages = [b'{"id":7,"kind":"0"}', b'{"id":7,"kind":"1","more":"x"}']
        registry.types[1] = "JSON"
    else:
        order, refund = (avro_record("Order", ("id", "int"), ("kind", "string")), avro_record("Refund", ("id", "int")))
        refund["fields"] += [{"name": "kind", "type": "string"}, {"name": "more", "type": "string"}]
        union, messages = [order, refund], [b"\x00\x0e\x020", b"\x02\x0e\x021\x02x"]
    registry.ids[1] = json.dumps(union)
    framed = [b"\0\0\0\0\1" + message for message in messages]
    common = {"url": registry.url, "on-new-schema": "fail"}
    row = "id INT, kind STRING"

    named = {**common, "other-messages": "skip"}
    assert first_rows(get_format(format, {**named, "record-name": "Order"}), row, *framed) == [
        {"id": 7, "kind": "0"},
        [],
    ]
    skipped, error = first_rows(get_format(format, {**named, "record-name": "Refund"}), row, *framed)
    assert skipped == []
    assert error.endswith(_TEXT)
    columns = get_format(format, {**common, "record-columns": "o:Order,r:Refund"})
    found = first_rows(columns, f"o ROW<{row}>, r ROW<{row}>", *framed)
    assert found[0] == {"o": {"id": 7, "kind": "0"}, "r": None}
    assert found[1].endswith(_TEXT)
    assert all(error.endswith(_TEXT) for error in first_rows(get_format(format, common), row, *framed))
    every = first_rows(get_format(format, common), f"{row}, more STRING", *framed)
    assert [found["more"] for found in every] == [None, "x"]


@pytest.mark.parametrize(
    ("format", "name"), [("avro-registry", "Value"), ("avro-confluent", "Value"), ("proto-registry", "R")]
)
def test_new_fields_are_errors_in_a_table_with_a_column_for_each_type(
    format: str, name: str, registry: Registry
) -> None:
    _, (old, new) = old_and_new(format, registry, None)
    fmt = get_format(format, {"url": registry.url, "on-new-schema": "fail", "record-columns": f"v:{name}"})
    first, error = first_rows(fmt, "v ROW<id INT>", old, new)
    assert first == {"v": {"id": 7}}
    assert error.endswith(_TEXT)


_ENUM = {"type": "enum", "name": "E", "symbols": ["P"]}
_FIXED = {"type": "fixed", "name": "F", "size": 2}


def _decimal(precision: int, scale: int, base: str = "bytes", **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": "decimal", "precision": precision, "scale": scale, **more}


def _read_by(table: str, schema: Any, data: str, registry: Registry, **options: str) -> Any:
    text = json.dumps({"type": "record", "name": "A", "fields": [{"name": "a", "type": "int"}, schema]})
    registry.ids = {1: text}
    fmt = get_format("avro-confluent", {"url": registry.url, "on-new-schema": "fail", **options})
    return fmt.decode_batch(pa.array([bytes.fromhex("000000000102" + data)]), table)


@pytest.mark.parametrize(
    ("column", "kind", "data", "named", "ddl"),
    [
        (None, _ENUM, "00", "e", "ADD (`e` STRING)"),
        (None, ["null", _ENUM], "0200", "e", "ADD (`e` STRING)"),
        (None, _FIXED, "6162", "e", "ADD (`e` VARBINARY(2))"),
        (None, _decimal(4, 2, "fixed", name="D", size=2), "007d", "e", "ADD (`e` DECIMAL(4, 2))"),
        (None, {"type": "array", "items": _ENUM}, "020000", "e", "ADD (`e` ARRAY<STRING>)"),
        (
            None,
            {"type": "record", "name": "I", "fields": [{"name": "k", "type": _ENUM}]},
            "00",
            "e",
            "ADD (`e` ROW<`k` STRING>)",
        ),
        ("e STRING", _ENUM, "00", "e", None),
        ("e BYTES", _FIXED, "6162", "e", None),
        ("e INT", "string", "0261", "e as STRING", "MODIFY (`e` STRING)"),
        ("e DECIMAL(10, 2)", "string", "0261", "e as STRING", "MODIFY (`e` STRING)"),
        ("e DECIMAL(10, 2)", _decimal(10, 4), "027d", "e as DECIMAL(10, 4)", "MODIFY (`e` DECIMAL(12, 4))"),
        ("e DECIMAL(10, 2)", _decimal(12, 2), "027d", "e as DECIMAL(12, 2)", "MODIFY (`e` DECIMAL(12, 2))"),
        (
            "e TIMESTAMP(3)",
            {"type": "long", "logicalType": "timestamp-micros"},
            "02",
            "e as BIGINT",
            "MODIFY (`e` BIGINT)",
        ),
        ("e DATE", {"type": "int", "logicalType": "time-millis"}, "02", "e as TIME(3)", "MODIFY (`e` TIME(3))"),
        ("e STRING", _decimal(4, 2), "027d", "e as DECIMAL(4, 2)", "MODIFY (`e` DECIMAL(4, 2))"),
        ("e INT", "long", "02", "e as BIGINT", "MODIFY (`e` BIGINT)"),
        ("e INT", _ENUM, "00", "e as STRING", "MODIFY (`e` STRING)"),
    ],
)
def test_the_advice_names_what_is_lost_and_reads_it(
    column: str | None, kind: Any, data: str, named: str, ddl: str | None, registry: Registry
) -> None:
    table = f"a INT, {column}" if column else "a INT"
    (text,) = _read_by(table, {"name": "e", "type": kind}, data, registry).errors.to_pylist()
    assert ddl is None or f"does not show: {named}. Columns that show them, as changes of the table: {ddl}" in text
    options = {"read-enum-and-fixed": "true"} if "Set 'read-enum-and-fixed' = 'true', which e needs" in text else {}
    assert bool(options) == ("enum" in str(kind) or "fixed" in str(kind))
    changed = table if ddl is None else f"a INT, {ddl.partition('(')[2][:-1]}"
    assert _read_by(changed, {"name": "e", "type": kind}, data, registry, **options).errors is None


@pytest.mark.parametrize(
    ("column", "kind", "data"),
    [
        ("e BIGINT", "int", "02"),
        ("e BIGINT", {"type": "long", "logicalType": "timestamp-millis"}, "02"),
        ("e INT", {"type": "int", "logicalType": "date"}, "02"),
        ("e BYTES", "string", "0261"),
        ("e DECIMAL(12, 4)", _decimal(10, 2), "027d"),
        ("e DOUBLE", "float", "0000c03f"),
    ],
)
def test_columns_that_read_all_of_a_schema_are_no_news(column: str, kind: Any, data: str, registry: Registry) -> None:
    assert _read_by(f"a INT, {column}", {"name": "e", "type": kind}, data, registry).errors is None
