"""`json-registry`: frames, values, JSON Schemas both ways, and Confluent's serializers."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs.discovery.column_types import Notes
from kvformat.codecs.json.schema_columns import columns_of_json_schema
from kvformat.codecs.registries import cache
from kvformat.codecs.registries.registry import JSON
from kvformat.codecs.registry_formats.record_types import names_of_schema
from kvformat.connectors import infer_schema, inspect_topic
from kvformat.connectors.infer.subject import ddl_from_subject
from kvformat.registry import Format, KeyValueFormat, OptionError, SchemaError, get_format
from kvformat.registry.contract.samples import columns_text
from kvformat.registry.contract.schema_registries import RegistrySchema
from kvformat.registry.contract.schemas import resolve_schema, row_type
from kvformat.registry.contract.types import arrow_type, nullable
from tests.support import cost, random_rows, services
from tests.support.all_types import COLUMNS, ROW
from tests.support.confluent import BY_TOPIC
from tests.support.extent import case_count
from tests.support.registry_server import Registry

_TEXT = (
    '{"id":7,"name":"Ada","at":-1,"z":1709168523123456,"d":-1,"t":86399999,"p":1.50,"tags":["a",null],"m":{"k":1},'
    '"r":{"a":1,"b":"eHk="},"c":"abc","v":"é","f":1.5,"b1":-1,"b2":300,"g":0.1,"ok":true,"h":"AAE=","w":"",'
    '"ms":{"e":2}}'
)


def _rows(schema: str, *values: dict[str, Any] | None) -> pa.StructArray:
    return pa.array(values, arrow_type(nullable(row_type(resolve_schema(schema)))))


def _format(**options: str) -> Format:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return get_format("json-registry", {"url": "mock://json-registry", "subject": "s-value", **named})


def _errors(fmt: Format, *messages: bytes | None, schema: str = "a INT") -> list[str | None]:
    found = fmt.decode_batch(pa.array(messages, pa.binary()), schema).errors
    return [None] * len(messages) if found is None else found.to_pylist()


# --- values --------------------------------------------------------------------------------------------


def test_every_type_is_written_as_confluent_cloud_writes_it_and_read_again() -> None:
    fmt = _format()
    batch = fmt.encode_batch(_rows(COLUMNS, ROW, {"id": 1}, None), COLUMNS)
    assert batch.errors is None
    first, second, none = batch.messages.to_pylist()
    assert (first[5:].decode(), second[5:], none) == (_TEXT, b'{"id":1}', None)
    assert first[:5] == second[:5]
    assert first[0] == 0
    decoded = fmt.decode_batch(batch.messages, COLUMNS)
    assert decoded.errors is None
    nulls = dict.fromkeys(ROW) | {"id": 1}
    assert decoded.rows.to_pylist() == [[ROW], [nulls], None]


def test_numbers_for_times_may_have_any_form_and_texts_are_read_as_by_json() -> None:
    schema = "at TIMESTAMP(3), z TIMESTAMP_LTZ(3), d DATE, t TIME(3)"
    texts = [
        '{"at":1709168523123.0,"z":1.709168523123e12,"d":19782.0,"t":0}',
        '{"at":"2024-02-29 01:02:03.123","z":"2024-02-29 01:02:03.123Z","d":"2024-02-29","t":"00:00:00"}',
    ]
    frame = b"\0\0\0\0\1"
    batch = _format().decode_batch(pa.array([frame + text.encode() for text in texts], pa.binary()), schema)
    assert batch.errors is None
    first, second = batch.rows.to_pylist()
    assert first == second
    iso = pa.array([frame + b'{"at":"2024-02-29T01:02:03.123","z":"2024-02-29T01:02:03.123Z"}'], pa.binary())
    fmt = _format(**{"timestamp-format.standard": "ISO-8601"})
    (found,) = fmt.decode_batch(iso, schema).rows.to_pylist()
    assert {**first[0], "d": None, "t": None} == found[0]


def test_times_before_1970_are_written_as_numbers_that_are_rounded_down() -> None:
    micros = [-1, -999, -1000, -1001, -1500, 1500, None, -(2**53) - 1, 2**53 + 1]
    columns = [pa.array(micros, pa.timestamp("us", zone)) for zone in (None, "UTC")]
    rows = pa.StructArray.from_arrays(columns, ["a", "z"])
    for digits, unit in ((3, 1000), (6, 1)):
        fmt = _format()
        written = fmt.encode_batch(rows, f"a TIMESTAMP({digits}), z TIMESTAMP_LTZ({digits})").messages.to_pylist()
        numbers = [None if one is None else one // unit for one in micros]
        wanted = ["{}" if number is None else f'{{"a":{number},"z":{number}}}' for number in numbers]
        assert [message[5:].decode() for message in written] == wanted


@pytest.mark.parametrize(
    ("value", "schema", "error"),
    [
        ("1.5", "a TIME(3)", "field 'a': cannot read 1.5 as TIME(3)"),
        ("99999999999", "a DATE", "field 'a': cannot read 99999999999 as DATE"),
        ("9223372036854775807", "a TIMESTAMP(3)", "field 'a': cannot read 9223372036854775807 as TIMESTAMP(3)"),
        (f"{2**64}", "a TIMESTAMP(6)", f"field 'a': cannot read {2**64} as TIMESTAMP(6)"),
        ("true", "a TIMESTAMP(3)", "field 'a': cannot read true as TIMESTAMP(3)"),
        ("-1", "a TIME(3)", "field 'a': a TIME must be at least 00:00:00"),
        ('"x"', "a INT", "field 'a': cannot read \"x\" as INT"),
    ],
)
def test_a_bad_value_is_an_error_of_its_message(value: str, schema: str, error: str) -> None:
    frame = b"\0\0\0\0\1"
    messages = [frame + b'{"a":null}', frame + f'{{"a":{value}}}'.encode(), frame + b'{"a":0}']
    found = _errors(_format(), *messages, schema=schema)
    assert (found[0], found[2]) == (None, None)
    assert error in str(found[1])


@pytest.mark.spark
def test_sparks_function_writes_the_same_bytes_after_the_id(spark: Any) -> None:
    from pyspark.sql import functions as F

    schema = "a INT NOT NULL, b STRING"
    fmt, struct = get_format("json-registry", {"schema-id": "5", "subject": "s"}), F.struct("a", "b")
    rows = spark.createDataFrame([(1, "x"), (2, None)], schema).coalesce(1)
    expected = [b'\0\0\0\0\5{"a":1,"b":"x"}', b'\0\0\0\0\5{"a":2}']
    for engine in ("native", "arrow"):
        assert [bytes(one[0]) for one in rows.select(fmt.encode(struct, schema, engine=engine)).collect()] == expected


# --- frames --------------------------------------------------------------------------------------------


def test_bad_frames_are_errors_that_name_what_was_found() -> None:
    good, large = b'\0\0\0\0\1{"a":1}', b'\0\x80\xff\xca\xfe{"a":"2"}'
    bad = [b"\0\0\0", b'{"a":1}', b"", b"\2\0\0\0\1{}", b"\0\0\0\0\1null", b"\0\0\0\0\1[1"]
    found = _errors(_format(), good, *bad, None, large)
    assert (found[0], found[-2], found[-1]) == (None, None, None)
    for error, words in zip(
        found[1:-2],
        [
            "3 bytes, fewer than the 5",
            "7b, not 00",
            "0 bytes, fewer",
            "02, not 00",
            "found nothing or null",
            "at character 3",
        ],
        strict=True,
    ):
        assert words in str(error)
    alone = [_errors(_format(), message)[0] for message in bad]
    assert alone == found[1:-2]


def test_messages_may_have_other_encodings() -> None:
    texts = ['{"a":1}', '{"a":2,"é":"ü"}', '{"a":3}']
    messages = [
        b"\0\0\1\x86\xca" + text.encode(code) for text, code in zip(texts, ("utf-8", "utf-8", "utf-16"), strict=True)
    ]
    batch = _format().decode_batch(pa.array([*messages, b'\0\0\1\x86\xca{"a":"\xff"}'], pa.binary()), "a INT")
    assert batch.rows.to_pylist()[:3] == [[{"a": 1}], [{"a": 2}], [{"a": 3}]]
    assert batch.errors is not None
    assert batch.errors.null_count == 3


def test_ids_and_invalid_bytes_of_neighbours_change_nothing() -> None:
    """UTF-8 is checked across messages and the bytes of ids, some of which are text and others are not."""
    rng, compared, bad = random.Random(31), 0, 0
    ids = [b"\0\0\0\1", b"\0\1\x86\xca", b"\0\0\xc3\xa9", b"\0\0\0\xc3", b"\0\xe4\xb8\x96", b"\x7f\x7f\x7f\xf0"]
    heads = [b"\0" + some for some in ids] + [b"\1" + rng.randbytes(16), b"\0\0\0", b"\2\0\0\0\1", b""]
    for _ in range(case_count(quick=300, night=1200)):
        likely = rng.sample(heads, rng.choice([1, 1, 1, 2, 3]))
        messages: list[bytes | None] = []
        for _ in range(rng.randint(1, 12)):
            text = rng.choice(["x", "\u00e9", "\u4e16", "\U0001f600", "xyz\u00e9" * 9]) * rng.choice([0, 1, 2, 7, 30])
            body = f'{{"a":"{text}"}}'.encode()
            if rng.random() < 0.3:
                at = rng.randrange(len(body) + 1)
                body = (
                    body[:at]
                    + rng.choice([b"\xc3", b"\xe4\xb8", b"\x96", b"\xff", b""])
                    + body[at + rng.randrange(2) :]
                )
            head = rng.choice(heads) if rng.random() < 0.05 else rng.choice(likely)
            messages.append(None if rng.random() < 0.05 else head + body[rng.randrange(2) * (rng.random() < 0.1) :])
        batch = _format().decode_batch(pa.array(messages, pa.binary()), "a STRING")
        errors = [None] * len(messages) if batch.errors is None else batch.errors.to_pylist()
        for message, row, error in zip(messages, batch.rows.to_pylist(), errors, strict=True):
            one = _format().decode_batch(pa.array([message], pa.binary()), "a STRING")
            assert ([row], [error]) == (one.rows.to_pylist(), [None] if one.errors is None else one.errors.to_pylist())
            compared, bad = compared + 1, bad + (error is not None)
    assert compared > 1500
    assert bad > 100


def test_reading_asks_no_registry(registry: Registry) -> None:
    fmt = get_format("json-registry", {"url": registry.url})
    assert fmt.decode_batch(pa.array([b'\0\0\0\0\x09{"a":1}'], pa.binary()), "a INT").errors is None
    assert get_format("json-registry").decode_batch(pa.array([b'\0\0\0\0\x09{"a":1}']), "a INT").errors is None
    assert registry.requests == []


# --- options -------------------------------------------------------------------------------------------


def test_the_schema_is_registered_once_under_its_subject(registry: Registry) -> None:
    fmt = get_format("json-registry", {"url": registry.url, "subject-names": "orders"})
    rows = _rows("a INT NOT NULL, b STRING", {"a": 1, "b": "x"})
    for _ in range(2):
        assert fmt.encode_batch(rows, "a INT NOT NULL, b STRING").messages[0].as_py() == b'\0\0\0\0\1{"a":1,"b":"x"}'
    assert registry.requests == ["POST /subjects/orders/versions"]
    assert registry.types == {1: "JSON"}
    assert json.loads(registry.ids[1]) == {
        "type": "object",
        "title": "Record",
        "additionalProperties": False,
        "required": ["a"],
        "properties": {
            "a": {"type": "number", "connect.type": "int32", "connect.index": 0},
            "b": {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 1},
        },
    }
    planned = fmt.for_encoding(resolve_schema("a INT NOT NULL, b STRING"))
    assert planned.options["schema-id"] == 1
    assert (
        get_format("json-registry", {"schema-id": "5", "subject": "s"})
        .encode_batch(rows, "a INT NOT NULL, b STRING")
        .messages[0]
        .as_py()
        .startswith(b"\0\0\0\0\5{")
    )


def test_the_context_is_a_part_of_the_url(registry: Registry) -> None:
    fmt = get_format("json-registry", {"url": registry.url, "subject": "s", "schema-context": ".flink-dev"})
    assert fmt.settings.url == f"{registry.url}/contexts/.flink-dev"  # type: ignore[attr-defined]
    several = get_format("json-registry", {"url": "http://a/, http://b", "schema-context": ":.x:"})
    assert several.settings.url == "http://a/contexts/.x,http://b/contexts/.x"  # type: ignore[attr-defined]


def test_options_that_are_missing_or_not_supported() -> None:
    with pytest.raises(OptionError, match="option 'url' of format 'json-registry' is missing"):
        get_format("json-registry", {"subject": "s"}).encode_batch(_rows("a INT", {"a": 1}), "a INT")
    with pytest.raises(OptionError, match=r"json-registry\.subject is required"):
        get_format("json-registry", {"url": "mock://x"}).encode_batch(_rows("a INT", {"a": 1}), "a INT")
    with pytest.raises(OptionError, match="has 2 subjects"):
        get_format("json-registry", {"subject-names": "a;b"}).decode_batch(pa.array([], pa.binary()), "a INT")
    with pytest.raises(OptionError, match="'id-encoding' = 'header' of format 'json-registry' is not supported"):
        _format(id_encoding="header").encode_batch(_rows("a INT", {"a": 1}), "a INT")
    for schema in ("a TIME(4)", "a TIMESTAMP(9)", "a INTERVAL DAY TO SECOND"):
        with pytest.raises(SchemaError, match="no JSON Schema for column 'a'"):
            _format().encode_batch(_rows(schema, None, {"a": None}), schema)


def test_the_latest_schema_must_have_the_columns(registry: Registry) -> None:
    registry.ids[3], registry.types[3], registry.subjects["s"] = "", "JSON", [3]
    fmt = get_format("json-registry", {"url": registry.url, "subject": "s", "use-latest-version": "true"})

    def written(schema: dict[str, Any]) -> Any:
        registry.ids[3] = json.dumps({"type": "object", "properties": {"a": {}, "b": {}}, **schema})
        fresh = get_format(
            "json-registry", {**dict(fmt._raw_options), "registry-retries": str(len(registry.requests) + 4)}
        )
        return fresh.encode_batch(_rows("a INT", {"a": 1}), "a INT").messages[0].as_py()

    more: Any
    for more in ({}, {"additionalProperties": False}, {"properties": {"b": {}}}, {"required": ["a"]}):
        assert written(more) == b'\0\0\0\0\3{"a":1}'
    for more in (True, {}, {"type": "string"}):  # a member that is not named has this schema
        assert written({"properties": {"b": {}}, "additionalProperties": more}) == b'\0\0\0\0\3{"a":1}'
    with pytest.raises(SchemaError, match="requires b, the table has the columns a"):
        written({"required": ["a", "b"]})
    with pytest.raises(SchemaError, match="allows no a"):
        written({"properties": {"b": {}}, "additionalProperties": False})


def test_a_table_of_confluent_cloud_is_read() -> None:
    options = {
        "connector": "kafka",
        "topic": "orders",
        "properties.bootstrap.servers": "localhost:9092",
        "key.format": "json-registry",
        "key.fields": "id",
        "value.format": "json-registry",
        "value.fields-include": "EXCEPT_KEY",
        "key.json-registry.schema-context": ".flink-dev",
        "value.json-registry.schema-context": ".flink-dev",
        "value.json-registry.url": "mock://cloud",
        "key.json-registry.url": "mock://cloud",
    }
    table = KeyValueFormat("id INT, name STRING, at TIMESTAMP_LTZ(3)", options)
    rows = _rows("id INT, name STRING, at TIMESTAMP_LTZ(3)", {"id": 7, "name": "Ada", "at": 5})
    encoded = table.encode_batch(rows)
    assert encoded.keys[0].as_py()[5:] == b'{"id":7}'
    assert encoded.values[0].as_py()[5:] == b'{"name":"Ada","at":0}'


# --- JSON Schemas to columns ------------------------------------------------------------------------------


def _columns(schema: Any, **references: Any) -> tuple[str, tuple[str, ...]]:
    notes = Notes()
    texts = tuple((f"{name}.json", json.dumps(other)) for name, other in references.items())
    return columns_text(columns_of_json_schema(RegistrySchema(JSON, json.dumps(schema), texts), notes)), notes.texts()


def test_the_columns_of_a_registered_schema_are_those_of_its_table() -> None:
    schema = _format().own_schema(resolve_schema(COLUMNS))  # type: ignore[attr-defined]
    found, notes = _columns(json.loads(schema.text))
    assert row_type(resolve_schema(found)) == row_type(resolve_schema(COLUMNS))
    assert notes == ()


@pytest.mark.parametrize(
    "t",
    [
        *(f"TIME({p})" for p in range(4)),
        *(f"{root}({p})" for root in ("TIMESTAMP", "TIMESTAMP_LTZ") for p in range(7)),
        *(f"{root}({n})" for root in ("CHAR", "VARCHAR", "BINARY", "VARBINARY") for n in (1, 2)),
        *("DECIMAL(1, 0)", "DECIMAL(38, 38)"),
    ],
)
def test_each_precision_and_length_is_kept_in_the_schema(t: str) -> None:
    columns = f"a {t}, b ARRAY<{t} NOT NULL>, c ROW<d {t}> NOT NULL"
    found, notes = _columns(json.loads(_format().own_schema(resolve_schema(columns)).text))  # type: ignore[attr-defined]
    assert row_type(resolve_schema(found)) == row_type(resolve_schema(columns))
    assert notes == ()


def test_a_schema_has_no_empty_list_of_required_members() -> None:
    text = _format().own_schema(resolve_schema("a INT, r ROW<b INT> NOT NULL")).text  # type: ignore[attr-defined]
    schema = json.loads(text)
    assert schema["required"] == ["r"]
    assert "required" not in schema["properties"]["r"]


def test_a_member_that_can_t_be_a_column_is_left_out_alone() -> None:
    found, notes = _columns({"type": "object", "properties": {name: {"type": "integer"} for name in ("a", " ", "b")}})
    assert found == "`a` BIGINT, `b` BIGINT"
    assert notes == ("the member ' ' can't be a column name and is left out",)


def test_schemas_of_other_producers() -> None:
    found, notes = _columns(
        {
            "title": "Order",
            "type": "object",
            "required": ["id", "kind"],
            "definitions": {"Item": {"type": "object", "properties": {"sku": {"type": "string"}}}},
            "properties": {
                "id": {"type": "integer"},
                "price": {"type": ["null", "number"]},
                "kind": {"enum": ["a", "b"]},
                "at": {"type": "string", "format": "date-time"},
                "items": {"type": "array", "items": {"$ref": "#/definitions/Item"}},
                "who": {"$ref": "person.json"},
                "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                "both": {"allOf": [{"properties": {"x": {"type": "integer"}}}, {"$ref": "#/definitions/Item"}]},
                "tree": {"$ref": "#/definitions/Tree"},
                "any": True,
                "nothing": {"type": "null"},
                "pairs": {
                    "type": "array",
                    "connect.type": "map",
                    "items": {"properties": {"key": {"type": "integer"}}},
                },
            },
        },
        person={"type": "object", "properties": {"name": {"$ref": "#/$defs/N"}}, "$defs": {"N": {"type": "string"}}},
    )
    assert found == (
        "`id` BIGINT NOT NULL, `price` DOUBLE, `kind` STRING NOT NULL, `at` STRING, "
        "`items` ARRAY<ROW<`sku` STRING> NOT NULL>, `who` ROW<`name` STRING>, `either` STRING, "
        "`both` ROW<`x` BIGINT, `sku` STRING>, `tree` STRING, `any` STRING, `pairs` ARRAY<ROW<`key` BIGINT> NOT NULL>"
    )
    told = "\n".join(notes)
    for words in ("either: one of 2 types", "leads nowhere", "any: any value", "nothing: always null", "pairs: a map"):
        assert words in told


@pytest.mark.parametrize(
    ("node", "t"),
    [
        ({"type": "boolean"}, "BOOLEAN"),
        ({"type": "integer"}, "BIGINT"),
        ({"type": "number"}, "DOUBLE"),
        ({"type": "number", "connect.type": "float32"}, "FLOAT"),
        ({"type": "number", "title": "org.apache.kafka.connect.data.Decimal"}, "DECIMAL(38, 18)"),
        ({"type": "integer", "title": "org.apache.kafka.connect.data.Date"}, "DATE"),
        ({"type": "integer", "title": "org.apache.kafka.connect.data.Time"}, "TIME(3)"),
        ({"type": "integer", "title": "org.apache.kafka.connect.data.Timestamp"}, "TIMESTAMP_LTZ(3)"),
        ({"type": "integer", "flink.type": "timestamp"}, "TIMESTAMP(3)"),
        ({"type": "string"}, "STRING"),
        ({"type": "string", "minLength": 2, "maxLength": 2}, "CHAR(2)"),
        ({"type": "string", "connect.type": "bytes"}, "BYTES"),
        ({"enum": ["a", "b"]}, "STRING"),
        ({"type": "array"}, "ARRAY<STRING>"),
        ({"type": "array", "items": {"type": "integer"}}, "ARRAY<BIGINT NOT NULL>"),
        ({"type": "object", "properties": {"x": {"type": "integer"}}}, "ROW<`x` BIGINT>"),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            "MAP<STRING NOT NULL, BIGINT NOT NULL>",
        ),
        (
            {"type": "object", "flink.type": "multiset", "additionalProperties": {"type": "integer"}},
            "MULTISET<STRING NOT NULL>",
        ),
    ],
)
def test_a_type_is_not_null_unless_its_member_may_be_missing_or_null(node: dict[str, Any], t: str) -> None:
    members = {
        "must": node,
        "may": node,
        "null": {"anyOf": [{"type": "null"}, node]},
        "list": {"type": "array", "items": node},
        "nulls": {"type": "array", "items": {"oneOf": [node, {"type": "null"}]}},
        "map": {"type": "object", "additionalProperties": node},
    }
    schema = {"type": "object", "properties": members, "required": [name for name in members if name != "may"]}
    assert _columns(schema)[0] == (
        f"`must` {t} NOT NULL, `may` {t}, `null` {t}, `list` ARRAY<{t} NOT NULL> NOT NULL, "
        f"`nulls` ARRAY<{t}> NOT NULL, `map` MAP<STRING NOT NULL, {t} NOT NULL> NOT NULL"
    )


@pytest.mark.parametrize("other", [{"enum": ["a", None]}, {"enum": [None, "a"]}, {"type": ["string", "null"]}])
def test_a_required_member_of_texts_and_null_is_nullable(other: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"a": other, "b": {"enum": ["a"]}}, "required": ["a", "b"]}
    assert _columns(schema) == ("`a` STRING, `b` STRING NOT NULL", ())


def test_words_of_a_schema_with_invalid_values_do_not_count() -> None:
    decimal = {"type": "number", "title": "Decimal", "connect.parameters": "5"}
    members = {"a": {"type": "integer", "connect.type": ["int8"]}, "b": decimal, "c": {"type": "string"}}
    schema = {"type": "object", "properties": members}
    for length in (0, -1, True, "5", 2**31, 2**31 - 1):
        assert _columns({"type": "object", "properties": {"c": {"type": "string", "maxLength": length}}}) == (
            "`c` STRING",
            (),
        )
    for precision, scale, t in (("5", "7", "5, 5"), ("40", "39", "38, 38"), ("x", "2", "38, 2"), ("5", None, "5, 5")):
        parameters = {"connect.decimal.precision": precision} | ({} if scale is None else {"scale": scale})
        member = {**decimal, "connect.parameters": parameters}
        assert _columns({"type": "object", "properties": {"b": member}}) == (f"`b` DECIMAL({t})", ())
    for required in (["c", {}], ["c", ["a"]]):
        found = _columns({**schema, "required": required})
        assert found == ("`a` BIGINT, `b` DECIMAL(38, 18), `c` STRING NOT NULL", ())
    both = {"allOf": [{**schema, "required": 5}, {"required": ["a"]}]}
    assert _columns(both) == ("`a` BIGINT NOT NULL, `b` DECIMAL(38, 18), `c` STRING", ())


@pytest.mark.parametrize("word", ["oneOf", "anyOf"])
def test_alternatives_that_only_require_members_are_no_union(word: str) -> None:
    members = {"mail": {"type": "string"}, "phone": {"type": "integer"}}
    conditions: list[Any] = [{"required": ["mail"]}, {"type": "object", "required": ["phone"], "not": {}}]
    contact = {"type": "object", "title": "Contact", "properties": members, word: conditions}
    assert _columns({**contact, "required": ["mail"]}) == ("`mail` STRING NOT NULL, `phone` BIGINT", ())
    inner = {"type": "object", "properties": {"c": {**contact, "type": ["object", "null"]}}, "required": ["c"]}
    assert _columns(inner) == ("`c` ROW<`mail` STRING, `phone` BIGINT>", ())
    assert names_of_schema(RegistrySchema(JSON, json.dumps(contact))) == ("Contact",)
    union = {**contact, word: [*conditions, {"title": "Post", "properties": {}}]}
    assert len(names_of_schema(RegistrySchema(JSON, json.dumps(union)))) == 3


def test_schemas_that_contain_themselves_or_are_too_large() -> None:
    loop = {"type": "object", "properties": {"next": {"$ref": "#"}, "a": {"type": "integer"}}}
    found, notes = _columns(loop)
    assert found == "`next` STRING, `a` BIGINT"
    assert notes == ("next: contains itself: kept as text",)
    doubling = {
        f"d{i}": {"type": "object", "properties": {n: {"$ref": f"#/$defs/d{i + 1}"} for n in "ab"}} for i in range(40)
    }
    with pytest.raises(SchemaError, match="stands for more than"):
        _columns({"$ref": "#/$defs/d0", "$defs": {**doubling, "d40": {"type": "string"}}})
    with pytest.raises(SchemaError, match="only an object with properties"):
        _columns({"type": "array", "items": {"type": "string"}})
    with pytest.raises(SchemaError, match="not valid JSON"):
        columns_of_json_schema(RegistrySchema(JSON, "{"), Notes())


def _registered(registry: Registry, schema: dict[str, Any], subject: str = "orders-value") -> int:
    registry.ids[registry.next_id] = json.dumps(schema)
    registry.types[registry.next_id] = "JSON"
    registry.subjects.setdefault(subject, []).append(registry.next_id)
    registry.next_id += 1
    return registry.next_id - 1


def test_columns_of_a_subject_and_of_messages(registry: Registry) -> None:
    old = _registered(registry, {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}})
    new = _registered(
        registry,
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}}},
    )
    assert ddl_from_subject(registry.url, "orders-value", version=1) == "`a` BIGINT NOT NULL"
    table = ddl_from_subject(registry.url, "orders-value", name="orders")
    assert "'format' = 'json-registry'" in table
    assert KeyValueFormat.from_ddl(table).decode_batch(None, pa.array([], pa.binary())).errors is None
    messages = [b"\0" + schema_id.to_bytes(4, "big") + b'{"a":1}' for schema_id in (old, new)]
    found = infer_schema(messages, format="json-registry", options={"url": registry.url})
    assert found.ddl == "`a` BIGINT NOT NULL, `b` BOOLEAN"
    assert found.notes == ("b: not in all of the schemas that the messages have: nullable",)
    inspected = inspect_topic(messages, registry=registry.url)
    assert (inspected.guesses[0].format, inspected.guesses[0].confidence) == ("json-registry", 1.0)
    assert inspected.ddl is not None
    batch = KeyValueFormat.from_ddl(inspected.ddl).decode_batch(None, pa.array(messages, pa.binary()))
    assert batch.errors is None


def test_columns_without_a_registry_are_those_of_the_values() -> None:
    inspected = inspect_topic([b'\0\0\0\0\x07{"a":1,"b":"x"}'] * 3)
    assert inspected.guesses[0].format == "json-registry"
    assert inspected.ddl is not None
    assert "`a` INT" in inspected.ddl
    assert any("give a schema registry" in note for note in inspected.notes)


# --- Confluent's serializers ------------------------------------------------------------------------------


def _peers(url: str) -> tuple[Any, Any, Any]:
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    client: Any = cache._registry(get_format("json-registry", {"url": url}).settings)  # type: ignore[attr-defined]
    client = client.registry._client  # a registry in memory belongs to its client
    reader = JSONDeserializer(None, schema_registry_client=client, conf=BY_TOPIC)  # validates by the registered schema
    return client, reader, SerializationContext("orders", MessageField.VALUE)


def _check_peers(url: str, count: int) -> int:
    """Let Confluent's classes read ours, by values, and write what we read, by bytes. Returns the number of rows."""
    from confluent_kafka.schema_registry.json_schema import JSONSerializer

    client, reader, context = _peers(url)
    rng, compared = random.Random(7), 0
    for number in range(count):
        # the peer reads decimals, and long numbers of a VARIANT, as doubles
        text = random_rows.schema(rng, columns=rng.randint(1, 6), depth=2).replace("(38, 18)", "(15, 3)")
        text = text.replace("VARIANT", "INT").replace("CHAR(3)", "STRING")  # lengths are not enforced when writing
        fmt = get_format("json-registry", {"url": url, "subject": f"orders-{number}"})
        try:
            rows = random_rows.rows(rng, row_type(resolve_schema(text)), 10)
            batch = fmt.encode_batch(rows, text)
        except SchemaError:
            continue
        own = fmt.own_schema(resolve_schema(text)).text  # type: ignore[attr-defined]
        conf = {"auto.register.schemas": True, "validate": True, **BY_TOPIC}
        writer = JSONSerializer(own, client, conf=conf)
        for message in filter(None, batch.messages.to_pylist()):
            if b'"NaN"' in message or b'Infinity"' in message:
                continue  # texts, as in Flink, where the schema has a number
            value = reader(message, context)
            assert value == json.loads(message[5:])
            theirs = writer(value, context)
            both = pa.array([message, theirs], pa.binary())
            decoded = fmt.decode_batch(both, text)
            assert decoded.errors is None, (text, decoded.errors)
            assert decoded.rows[0] == decoded.rows[1], text
            compared += 1
    return compared


def test_confluents_serializers_in_memory() -> None:
    assert _check_peers("mock://json-registry-peers", case_count(quick=40, night=120)) > 150


@pytest.mark.services
@pytest.mark.slow
def test_confluents_serializers_with_a_real_registry(apicurio: services.SchemaRegistry) -> None:
    assert _check_peers(apicurio.url, 30) > 100
    fmt = get_format("json-registry", {"url": apicurio.url, "subject": "json-value"})
    batch = fmt.encode_batch(_rows(COLUMNS, ROW), COLUMNS)
    assert batch.errors is None
    assert row_type(resolve_schema(ddl_from_subject(apicurio.url, "json-value"))) == row_type(resolve_schema(COLUMNS))
    _, reader, context = _peers(apicurio.url)
    assert reader(batch.messages[0].as_py(), context) == json.loads(_TEXT)


def test_a_folder_of_schemas(tmp_path: Path) -> None:
    fmt = get_format("json-registry", {"url": f"file:{tmp_path}", "subject": "s"})
    messages = fmt.encode_batch(_rows("a INT", {"a": 1}), "a INT").messages
    assert [file.name for file in tmp_path.iterdir()] == ["1.json"]
    assert fmt.encode_batch(_rows("a INT", {"a": 1}), "a INT").messages == messages
    assert infer_schema(messages, format="json-registry", options={"url": f"file:{tmp_path}"}).ddl == "`a` INT"


@pytest.mark.parametrize("t", ["DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP_LTZ(6)"])
def test_a_number_for_a_time_with_a_huge_exponent_is_an_error_at_once(t: str) -> None:
    numbers = (b"1e999999999", b"-1e99999999", b"1e-999999999", b"0")
    messages = pa.array([b'\0\0\0\0\1{"d":%s}' % number for number in numbers])
    with cost.at_most(5):
        batch = get_format("json-registry").decode_batch(messages, f"d {t}")
    assert batch.errors is not None
    assert ["cannot read" in str(error) for error in batch.errors.to_pylist()] == [True, True, True, False]
