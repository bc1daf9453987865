"""Schema inference: the types for a sample, and reading the sample with them without loss."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks._records import record_kinds
from kvformat.codecs._json_documents import JsonDocuments, JsonSyntaxError
from kvformat.codecs._kernel.tree import Fraction, Integer, Repeated
from kvformat.connectors import InferredSchema, infer_schema, inspect_topic
from kvformat.connectors.infer.sample import sample_of
from kvformat.registry import (
    ConfigurationError,
    KeyValueFormat,
    OptionError,
    SchemaError,
    UnknownFormatError,
    get_format,
)
from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.contract.schemas import resolve_schema, row_type
from kvformat.registry.contract.types import FlinkType
from tests.codecs.debezium import debezium_types
from tests.support import interop, recordings, vectors
from tests.support.registry_server import Registry

Messages = list[bytes | None]
FLINK = {"types": "flink"}


def inferred(*rows: Any, format: str = "json", **more: Any) -> InferredSchema:
    """Infer the schema of messages, which are Python values (written as JSON), bytes or None."""
    texts = [row if isinstance(row, bytes | None) else json.dumps(row).encode() for row in rows]
    return infer_schema(texts, format=format, **more)


def ddl(*rows: Any, **more: Any) -> str:
    return inferred(*rows, **more).ddl.replace("`", "")


def read(found: InferredSchema, messages: Messages) -> list[Any]:
    """Decode all messages with the inferred schema and return the rows."""
    batch = get_format(found.format, found.options).decode_batch(pa.array(messages, pa.binary()), found.ddl)
    assert batch.errors is None, [text for text in batch.errors.to_pylist() if text]
    rows: list[Any] = batch.rows.values.to_pylist(maps_as_pydicts="strict")
    return rows


def lost(node: Any, t: FlinkType, value: Any) -> Iterator[str]:
    """Yield the parts of a JSON value that its column value lacks."""
    if isinstance(node, Repeated):
        return  # only one value of a duplicate name is kept
    if t.root == "VARCHAR":
        if (node is None) != (value is None) or (type(node) is str and node != value):
            yield f"{node!r} became {value!r}"
    elif isinstance(node, dict) and t.root == "ROW":
        types = {field.name: field.type for field in t.fields}
        yield from (f"no column {name!r}" for name in node if name not in types)
        for name, member in node.items():
            yield from lost(member, types[name], value[name])
    elif isinstance(node, dict):
        assert t.root == "MAP"
        for name, member in node.items():
            yield from lost(member, t.fields[1].type, value[name])
    elif isinstance(node, list):
        assert len(node) == len(value)
        for element, got in zip(node, value, strict=True):
            yield from lost(element, t.fields[0].type, got)
    elif isinstance(node, Integer | Fraction):
        # A double equals its shortest text or its exact number: for 2**55, 3.602879701896397e+16 or 2**55.
        if Decimal(node) not in (Decimal(str(value)), Decimal(value)):
            yield f"{node} became {value!r}"
    elif (node is None or isinstance(node, bool)) and node is not value:
        yield f"{node!r} became {value!r}"


def check(messages: Messages) -> InferredSchema:
    """Infer a schema from JSON messages of one object each, and compare the rows with the messages."""
    found = infer_schema(messages, format="json")
    documents, t = JsonDocuments(), row_type(resolve_schema(found.ddl))
    for message, row in zip(messages, read(found, messages), strict=True):
        assert message is not None
        assert list(lost(documents.parse(message), t, row)) == []
    return found


# --- json ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([True, None], "BOOLEAN"),
        ([1, -(2**31), None], "INT"),
        ([1, 2**31], "BIGINT"),
        ([2**63 - 1, -(2**63)], "BIGINT"),
        ([2**63], "DECIMAL(20, 0)"),
        ([-(2**63) - 1], "DECIMAL(20, 0)"),
        ([10**20 - 1], "DECIMAL(20, 0)"),
        ([10**20], "DECIMAL(38, 0)"),
        ([2**64 - 1], "DECIMAL(20, 0)"),
        ([-(10**21)], "DECIMAL(38, 0)"),
        ([10**38], "STRING"),
        ([12.5, 3], "DOUBLE"),
        ([1e300, 0.1], "DOUBLE"),
        ([b"12345678901234567.25", 1], "DECIMAL(38, 2)"),
        ([2**53, 0.5], "DOUBLE"),
        ([2**53 + 1, 0.5], "DECIMAL(38, 1)"),
        ([10**38, 0.5], "STRING"),
        ([10**38 - 1], "DECIMAL(38, 0)"),
        ([b"1234567890123456789012345678901234567.5"], "DECIMAL(38, 1)"),
        ([b"12345678901234567890123456789012345678.5"], "STRING"),
        ([b"0.1000000000000000055511151231257827", b"99999.5"], "STRING"),
        ([b"1e999999999"], "STRING"),
        ([b"1e99999999999999999999"], None),  # not read as JSON: Java does not support this exponent
        (["a", ""], "STRING"),
        (["2024-02-29", None], "DATE"),
        (["2023-02-29"], "STRING"),
        (["0000-00-00"], "STRING"),
        (["23:59:59", "00:00:00.12"], "TIME(3)"),
        (["23:59:59.123456"], "STRING"),
        (["24:00:00"], "STRING"),
        (["2024-02-29 23:59:59"], "TIMESTAMP(3)"),
        (["2024-02-29 23:59:59.1234", "2024-02-29 23:59:59"], "TIMESTAMP(6)"),
        (["2024-02-29 23:59:59.123456789"], "TIMESTAMP(9)"),
        (["2024-02-29 23:59:59Z"], "TIMESTAMP_LTZ(3)"),
        (["2024-02-29T23:59:59.5"], "TIMESTAMP(3)"),
        (["2024-02-29T23:59Z"], "TIMESTAMP_LTZ(3)"),
        (["2024-02-29T23:59:59+01:00"], "STRING"),
        (["2024-02-29 23:59:59", "2024-02-29T23:59:59"], "STRING"),
        (["2024-02-29", "soon"], "STRING"),
        ([1, "1"], "STRING"),
        ([{"a": 1}, []], "STRING"),
        ([None], "STRING"),
        ([[], [1], [2**40]], "ARRAY<BIGINT>"),
        ([[[1.5]], [[]]], "ARRAY<ARRAY<DOUBLE>>"),
        ([[]], "ARRAY<STRING>"),
        ([[1, "a"]], "ARRAY<STRING>"),
        ([{}], "MAP<STRING, STRING>"),
        ([{"a": 1}, {"b": "x"}], "ROW<a INT, b STRING>"),
        ([{"1": 1, "2": 2}], "MAP<STRING, INT>"),
        ([{"1": 2**40, "2": 1}], "MAP<STRING, BIGINT>"),
        ([{"1": 1, "2": -(2**40)}], "MAP<STRING, BIGINT>"),
        ([{"1": [1], "2": [2**40]}], "MAP<STRING, ARRAY<BIGINT>>"),
        ([{"1": 1, "2": 10**20}], "MAP<STRING, DECIMAL(38, 0)>"),
        ([b'{"1":0.5,"2":12345678901234567.25}'], "MAP<STRING, DECIMAL(38, 2)>"),
        ([b'{"1":12345678901234567.25,"2":0.5}'], "MAP<STRING, DECIMAL(38, 2)>"),
        ([{"1": "2024-02-29 23:59:59.1234", "2": "2024-02-29 23:59:59"}], "MAP<STRING, TIMESTAMP(6)>"),
        ([{"1": "2024-02-29T23:59Z", "2": "2024-02-29T23:59:59.1234567Z"}], "MAP<STRING, TIMESTAMP_LTZ(9)>"),
        ([{"1": "23:59:59", "2": "23:59:59.1234"}], "MAP<STRING, STRING>"),
        ([{"1": 1, "2": "b"}], "ROW<1 INT, 2 STRING>"),
        ([{"1": 1}, {"1": 2}], "ROW<1 INT>"),
        ([{"": 1, "a": 2}], "MAP<STRING, INT>"),
        ([{" ": 1, "a": "b"}], "STRING"),
    ],
)
def test_types_are_inferred_from_values(values: list[Any], wanted: str | None) -> None:
    texts = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    messages: Messages = [b'{"c":' + text + b"}" for text in texts]
    if wanted is None:
        with pytest.raises(SchemaError, match="are not valid JSON"):
            infer_schema(messages, format="json")
        return
    assert check(messages).ddl.replace("`", "") == f"c {wanted}"


def test_the_longest_timestamp_with_an_offset_is_told_from_a_text() -> None:
    for text, noted in (("2024-02-29T23:59:59.123456789+01:00", True), ("2024-02-29T23:59:59.1234567890+01:00", False)):
        assert [note.startswith("v: timestamps with an offset") for note in inferred({"v": text}).notes] == [
            True
        ] * noted


def test_many_names_of_one_type_are_a_map() -> None:
    few = [{"m": {f"k{i}": i, f"k{i + 1}": i}} for i in range(18)]
    many = [{"m": {f"k{i}": i, f"k{i + 1}": i}} for i in range(19)]
    assert "ROW<k0 INT" in ddl(*few)
    assert ddl(*many) == "m MAP<STRING, INT>"
    assert inferred(*many).notes == ("m: 20 different names of values of one type: a MAP",)
    assert "ROW<k0 STRING, k1 INT" in ddl(*many, {"m": {"k0": "text"}})
    in_half = [{"m": {f"k{i}": i for i in range(start, start + 10)}} for start in (0, 10)]
    assert "ROW<k0 INT" in ddl(*in_half)
    everywhere = [{"m": {f"k{i}": i for i in range(30)}}] * 10
    assert "ROW<k0 INT" in ddl(*everywhere)


def test_objects_with_too_many_names_are_maps_or_texts() -> None:
    one_type = {"m": {f"k{i}": i for i in range(1001)}}
    assert ddl(one_type) == "m MAP<STRING, INT>"
    one_type["m"]["k0"] = "text"  # type: ignore[assignment]
    found = inferred(one_type)
    assert found.ddl == "`m` STRING"
    assert found.notes == ("m: members that can't be fields of a ROW, of several types: kept as text",)


def test_nesting_depth_is_limited() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = {"d": deep}
    found = check([json.dumps({"a": deep, "b": [deep]}).encode()])
    assert max(path.count(".d") for path, _ in found.row.walk()) < 40
    assert any("nested too deeply" in note for note in found.notes)


def test_values_of_a_map_are_texts_if_one_of_them_is_nested_too_deeply() -> None:
    deep: Any = {"1": 1, "2": {"x": 1}}
    for _ in range(31):
        deep = {"d": deep}
    found = check([json.dumps(deep).encode()])
    assert "ROW<`d` MAP<STRING, STRING>>" in found.ddl
    assert any("{}: values are nested too deeply" in note for note in found.notes)


def test_nested_maps_do_not_take_exponential_time() -> None:
    nested: Any = "end"
    for _ in range(30):
        nested = {"1": nested, "2": None}
    merges = 0

    def counted(places: Any) -> Any:
        nonlocal merges
        merges += 1
        return merged(places)

    from kvformat.codecs.discovery import column_types

    merged = column_types.merge_summaries
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_types, "merge_summaries", counted)
        nested["1"]["1"]["3"] = 1
        check([json.dumps({"a": nested}).encode()])
    assert 3 <= merges < 10_000


def test_timestamp_standard_follows_most_columns() -> None:
    sql, iso = "2024-02-29 23:59:59", "2024-02-29T23:59:59Z"
    found = inferred({"a": iso, "b": iso, "c": sql})
    assert dict(found.options) == {"timestamp-format.standard": "ISO-8601"}
    assert found.ddl == "`a` TIMESTAMP_LTZ(3), `b` TIMESTAMP_LTZ(3), `c` STRING"
    assert found.notes == ("c: timestamps in the form that only 'timestamp-format.standard' = 'SQL' reads",)
    assert dict(inferred({"a": iso, "c": sql}).options) == {}
    given = inferred({"a": iso, "b": iso, "c": sql}, options={"timestamp-format.standard": "SQL"})
    assert given.ddl == "`a` STRING, `b` STRING, `c` TIMESTAMP(3)"


def test_notes_name_conflicting_values() -> None:
    found = inferred({"a": 1, "b": None, "at": "2024-02-29"}, {"a": "x", "at": "soon"}, b"{", [{"a": 1}, 7], b"8")
    assert found.notes == (
        "1 messages are not valid JSON and are skipped",
        "2 values are not JSON objects and are skipped",
        "1 messages are arrays, of a row for each element: read them with decode_rows",
        "a: values of several kinds (2 numbers and 1 texts): kept as text",
        "b: only null was found: STRING reads any value",
        "at: of 2 texts some are times (1 DATE), but not all of one form",
    )


def test_any_member_name_can_be_a_column() -> None:
    found = check(
        [json.dumps({"select": 1, "a`b": 2, "a.b": 3, "ü\n": 4, "ID": 5, "id": "x", "r": {"x y": 6}}).encode()]
    )
    assert [field.name for field in found.fields] == ["select", "a`b", "a.b", "ü\n", "ID", "id", "r"]
    assert any("'ID' and 'id' differ in the case of letters only" in note for note in found.notes)
    table = KeyValueFormat.from_ddl(found.create_table("t", topic="x", bootstrap="b:9092"))
    assert [f.name for f in table.value_schema.fields] == [field.name for field in found.fields]
    blank = inferred({" ": 1, "a": 2})
    assert (blank.ddl, blank.notes) == (
        "`a` INT",
        ("the member ' ' can't be a column name and is left out",),
    )


def test_duplicate_names_count_with_all_values() -> None:
    found = inferred(b'{"a":"x","a":1}', b'{"a":2}')
    assert found.ddl == "`a` STRING"
    assert any("comes twice" in note for note in found.notes)
    of_map = inferred(b'{"m":{"1":{"a":1,"a":2},"2":{"a":3}}}')
    assert of_map.ddl == "`m` MAP<STRING, ROW<`a` INT>>"
    assert any("comes twice" in note for note in of_map.notes)


def test_encodings_are_read_as_the_format_reads_them() -> None:
    assert ddl('{"a":"ü"}'.encode("utf-16"), '{"a":1.5}'.encode("utf-8-sig")) == "a STRING"


_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**45), 10**45),
    st.integers(-9, 9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=12).map(lambda d: Fraction(f"{d:f}")),
    st.text(max_size=4),
    st.sampled_from(["2024-02-29", "12:00:01", "2024-02-29 12:00:01.5", "2024-02-29T12:00:01Z", "0.50"]),
)
_NAMES = st.sampled_from(["a", "b", "A", "1", "2", "value", "", " ", "x.y", "`", "ü"])
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4), max_leaves=12
)
_ROWS = st.lists(st.dictionaries(st.sampled_from(["a", "b", "c", "user"]), _VALUES, min_size=1, max_size=4), min_size=1)


def _written(value: Any) -> str:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return json.dumps(value)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, derandomize=True)
@given(_ROWS)
@example([{"a": [2**55, 0.0]}])
def test_inferred_columns_read_the_sample_without_loss(rows: list[Any]) -> None:
    check([_written(row).encode() for row in rows])


@pytest.mark.parametrize("kind", record_kinds(200), ids=lambda kind: kind.name)
def test_records_of_real_shape_are_read_without_a_loss(kind: Any) -> None:
    found = check(list(kind.pool))
    # the columns declared by hand for these records exist, most of them with the declared type
    mine = {path: t.root for path, t in found.row.walk()}
    theirs = {path: t.root for path, t in parse_schema(kind.schema).walk()}
    assert theirs.keys() <= mine.keys()
    same = sum(mine[path] == root or (root, mine[path]) == ("BIGINT", "INT") for path, root in theirs.items())
    assert same >= 0.9 * len(theirs)


@pytest.mark.parametrize("format", ["json", "debezium-json", "canal-json", "maxwell-json", "ogg-json", "csv"])
def test_inferred_columns_read_the_vectors_as_well_as_texts(format: str) -> None:
    tried = 0
    for case in vectors.cases(format):
        if case["direction"] != "decode" or "messages" not in case or "fail-on-missing-field" in case["options"]:
            continue
        messages = [vectors.message_bytes(message["in"]) for message in case["messages"]]
        try:
            found = infer_schema(messages, format=format, options=case["options"])
        except (OptionError, SchemaError):
            continue
        tried += 1
        array, decoder = pa.array(messages, pa.binary()), get_format(format, found.options)
        texts = ", ".join(f"{name} STRING" for name in _names(found))
        plain = get_format(format, found.options).decode_batch(array, texts).errors
        bad = {i for i, message in enumerate(messages) if message and format != "csv" and not _is_json(message)}
        bad |= set() if plain is None else {i for i, text in enumerate(plain.to_pylist()) if text}
        errors = decoder.decode_batch(array, found.ddl).errors
        worse = [t for i, t in enumerate([] if errors is None else errors.to_pylist()) if t and i not in bad]
        assert not worse, (case["id"], found.ddl, worse[:2])
    assert tried > 20


def _is_json(message: bytes) -> bool:
    try:
        JsonDocuments().parse(message)
    except JsonSyntaxError:
        return False
    return True


def _names(found: InferredSchema) -> list[str]:
    return ["`" + field.name.replace("`", "``") + "`" for field in found.fields]


# --- change data -----------------------------------------------------------------------------------------


def debezium(topic: str) -> tuple[Messages, Messages]:
    """Return keys and values of a topic."""
    records = recordings.records(topic)
    return [record.key for record in records], [record.value for record in records]


def test_debezium_schema_gives_types_and_key() -> None:
    keys, values = debezium("orders")
    found = infer_schema(values, format="debezium-json", keys=keys)
    assert found.ddl == (
        "`order_id` INT, `customer` STRING, `amount` STRING, `status` STRING, `order_date` DATE, "
        "`created_at` TIMESTAMP(6), `updated_at` TIMESTAMP_LTZ(6)"
    )
    assert dict(found.options) == {"schema-include": "true", "types": "debezium"}
    assert found.primary_key == ("order_id",)
    assert found.notes == ()
    assert len(read(found, values)) > len(values)
    kv = KeyValueFormat.from_ddl(found.create_table("orders", topic="t", bootstrap="b:9092"))
    assert kv.decode_batch(None, pa.array(values, pa.binary())).errors is None
    proposed = inspect_topic(values, keys).ddl
    assert proposed is not None
    assert "`created_at` TIMESTAMP(6)" in proposed
    assert "'debezium-json.types' = 'debezium'" in proposed


def test_debezium_schema_with_flink_types() -> None:
    keys, values = debezium("orders")
    found = infer_schema(values, format="debezium-json", keys=keys, options=FLINK)
    assert found.ddl == (
        "`order_id` INT, `customer` STRING, `amount` STRING, `status` STRING, `order_date` INT, `created_at` BIGINT, "
        "`updated_at` TIMESTAMP_LTZ(6)"
    )
    assert dict(found.options) == {**FLINK, "schema-include": "true", "timestamp-format.standard": "ISO-8601"}
    assert found.primary_key == ("order_id",)
    assert any(note.startswith("created_at: MicroTimestamp") and "microseconds" in note for note in found.notes)
    assert len(read(found, values)) > len(values)
    kv = KeyValueFormat.from_ddl(found.create_table("orders", topic="t", bootstrap="b:9092"))
    assert kv.decode_batch(None, pa.array(values, pa.binary())).errors is None
    assert kv.primary_key == ("order_id",)


def test_debezium_without_a_schema_is_inferred_from_rows() -> None:
    keys, values = debezium("accounts")
    found = infer_schema(values, format="debezium-json", keys=keys)
    assert found.ddl == (
        "`account_id` INT, `owner` STRING, `balance` STRING, `active` BOOLEAN, `opened` INT, `last_seen` BIGINT, "
        "`updated_at` TIMESTAMP_LTZ(6)"
    )
    assert "schema-include" not in found.options
    assert found.primary_key == ("account_id",)
    read(found, values)


def _connect(fields: list[dict[str, Any]], after: dict[str, Any]) -> bytes:
    row = {"type": "struct", "fields": fields, "optional": True}
    schema = {"type": "struct", "fields": [{**row, "field": "before"}, {**row, "field": "after"}]}
    return json.dumps({"schema": schema, "payload": {"before": None, "after": after, "op": "c"}}).encode()


def test_debezium_encodings_are_read_unchanged() -> None:
    decimal = {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    variable = [{"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"}]
    fields = [
        {"field": "amount", "type": "bytes", **decimal},
        {"field": "flag", "type": "boolean"},
        {"field": "small", "type": "int16"},
        {"field": "tags", "type": "array", "items": {"type": "string"}},
        {"field": "any", "type": "struct", "name": "io.debezium.data.VariableScaleDecimal", "fields": variable},
        {"field": "labels", "type": "map", "keys": {"type": "string"}, "values": {"type": "int64"}},
        {"field": "zoned", "type": "string", "name": "io.debezium.time.ZonedTimestamp"},
        {"field": "ratio", "type": "float32"},
    ]
    after = {"amount": "AdTA", "flag": True, "small": 3, "tags": ["a"], "any": {"scale": 1, "value": "Ag=="}}
    message = _connect(fields, {**after, "labels": {"x": 1}, "zoned": "2025-03-03T09:30:00Z", "ratio": 0.5})
    found = infer_schema([message], format="debezium-json", options=FLINK)
    assert found.ddl.replace("`", "") == (
        "amount BYTES, flag BOOLEAN, small SMALLINT, tags ARRAY<STRING>, any ROW<scale INT, value BYTES>, "
        "labels MAP<STRING, BIGINT>, zoned TIMESTAMP_LTZ(6), ratio FLOAT"
    )
    assert any(note.startswith("amount: Decimal of scale 2") for note in found.notes)
    read(found, [message])
    # the declared type does not fit all values, or the declared types differ
    other = _connect(
        [{"field": "flag", "type": "boolean"}, {"field": "small", "type": "int32"}], {"flag": 1, "small": 1}
    )
    found = infer_schema([other], format="debezium-json", options=FLINK)
    assert found.ddl == "`flag` INT, `small` INT"
    assert "flag: declared as BOOLEAN, which does not take all values: they decide" in found.notes
    found = infer_schema([message, other], format="debezium-json", options=FLINK)
    assert "small: declared as SMALLINT and INT: the values decide" in found.notes
    read(found, [message, other])


def test_a_member_that_the_schema_does_not_have_keeps_types_from_being_those_of_debezium() -> None:
    field = {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"}
    declared, beyond = _connect([field], {"at": 1}), _connect([field], {"at": 1, "x": "a"})
    assert infer_schema([declared], format="debezium-json").options["types"] == "debezium"
    found = infer_schema([declared, beyond], format="debezium-json")
    assert (found.ddl, "types" in found.options) == ("`at` BIGINT, `x` STRING", False)


OWN = [
    (one, type, value)
    for one, type, value in debezium_types.GOOD
    if one.name.startswith((debezium_types.TIME, debezium_types.CONNECT))
    or one.name.rpartition(".")[2] in ("Bits", "VariableScaleDecimal")
]


@pytest.mark.parametrize("carrier", ["json", "avro"])
def test_debezium_types_are_proposed_and_read_without_loss(registry: Registry, carrier: str) -> None:
    """Each value equals the value of the first known column type for it, or the wire value."""
    compared = 0
    for one, _, _ in OWN:
        columns = {"id": debezium_types.decimal(5, 0), "v": one}
        rows = [{"id": columns["id"].value, "v": value} for value in (one.value, None)]
        if carrier == "avro" and one.parameters.get("scale", "0").startswith("-"):
            continue
        if carrier == "json":
            messages = [debezium_types.event(row, debezium_types.envelope(columns)) for row in rows]
            found = infer_schema(messages, format="debezium-json")
        else:
            schema, schema_id = debezium_types.avro_envelope(columns), len(registry.ids) + 1
            registry.ids[schema_id] = json.dumps(schema)
            messages = [debezium_types.avro_event(schema_id, schema, row) for row in rows]
            found = infer_schema(messages, format="debezium-avro-confluent", options={"url": registry.url})
            proposed = inspect_topic(messages, registry=registry.url).ddl
            assert proposed is not None
            assert "'debezium-avro-confluent.types' = 'debezium'" in proposed
        assert found.options["types"] == "debezium"
        first, nothing = read(found, messages)
        assert nothing["v"] is None
        known = {row_type(resolve_schema(f"v {t}")).fields[0].type.root: v for g, t, v in OWN if g == one}
        root, value = found.fields[1].type.root, first["v"]
        if root in known:
            assert value == known[root]
            compared += 1
        elif root in ("VARCHAR", "BIGINT"):  # digits, or the wire value
            wanted = Decimal(value) if "DECIMAL" in known else value
            assert wanted in (*known.values(), one.value)
            compared += 1
    assert compared >= 35
    print(f"{compared} types compared")


def test_debezium_types_that_do_not_fit_the_sample() -> None:
    time, micros = debezium_types.Given("int64", f"{debezium_types.TIME}MicroTime", -5), "io.debezium.time.MicroTime"
    nanos = debezium_types.Given("int64", f"{debezium_types.TIME}NanoTimestamp", 1_500)
    zoned = debezium_types.Given("string", f"{debezium_types.TIME}ZonedTimestamp", "2025-03-03T09:30:00.1234567Z")
    columns = {"time": time, "nanos": nanos, "zoned": zoned}
    message = debezium_types.event({n: g.value for n, g in columns.items()}, debezium_types.envelope(columns))
    found = infer_schema([message], format="debezium-json")
    assert found.ddl == "`time` BIGINT, `nanos` BIGINT, `zoned` STRING"
    assert f"time: {micros}, but TIME(6) does not take all values as they are" in found.notes
    assert read(found, [message]) == [{"time": -5, "nanos": 1500, "zoned": zoned.value}]
    alone = debezium_types.event({"zoned": zoned.value}, debezium_types.envelope({"zoned": zoned}))
    assert infer_schema([alone], format="debezium-json").ddl == "`zoned` TIMESTAMP_LTZ(9)"
    later = {"time": time._replace(type="string", name="", value="x"), "amount": debezium_types.decimal(5, 2)}
    more = debezium_types.event({n: g.value for n, g in later.items()}, debezium_types.envelope(later))
    found = infer_schema([message, more], format="debezium-json")
    assert found.ddl == "`time` STRING, `nanos` BIGINT, `zoned` STRING, `amount` DECIMAL(10, 2)"
    assert [row["time"] for row in read(found, [message, more])] == ["-00:00:00.000005", "x"]
    wider = [debezium_types.decimal(5, 2, 4), debezium_types.decimal(12_345, 4, 6)]
    both = [debezium_types.event({"v": g.value}, debezium_types.envelope({"v": g})) for g in wider]
    found = infer_schema([*both, b"{"], format="debezium-json")
    assert found.ddl == "`v` DECIMAL(6, 4)"
    assert read(found, both) == [{"v": Decimal("0.05")}, {"v": Decimal("1.2345")}]


def test_keys_of_several_tables_give_no_primary_key() -> None:
    values: Messages = [b'{"after":{"a":1,"b":2},"op":"c"}'] * 2
    found = infer_schema(values, format="debezium-json", keys=[b'{"a":1}', b'{"b":1}'])
    assert found.primary_key == ()
    assert "the keys of messages differ: (a) and (b); no PRIMARY KEY is proposed" in found.notes
    assert infer_schema(values, format="debezium-json", keys=[b'{"z":1}', None]).primary_key == ()


def test_a_key_that_is_not_json_names_no_column_and_hides_no_other_key() -> None:
    values: Messages = [b'{"after":{"a":1,"b":2},"op":"c"}'] * 3
    for keys in ([b"{", b'{"a":1}', None], [b'{"a":1}', b"7", b"{"], [None, b'{"a":1', b'{"a":1}']):
        assert infer_schema(values, format="debezium-json", keys=keys).primary_key == ("a",)


def canal(data: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"data": [data], "old": None, "type": "INSERT", "pkNames": ["id"], **more}).encode()


def test_canal_types_of_mysql() -> None:
    declared = {
        "id": "bigint(20) unsigned",
        "n": "int(10) unsigned",
        "flag": "tinyint(1)",
        "price": "decimal(10,2)",
        "at": "datetime(3)",
        "day": "date",
        "kind": "enum('a','b')",
        "extra": "json",
        "ratio": "double",
        "zero": "datetime",
        "big": "decimal(65,2)",
        "unset": "bigint(20)",
    }
    texts = [
        "18446744073709551615",
        "4294967295",
        "1",
        "5.18",
        "2020-05-13 15:40:06.123",
        "2020-05-13",
        "a",
        "{}",
        "0.5",
    ]
    row = dict(zip(declared, [*texts, "0000-00-00 00:00:00", "1.5", None], strict=True))
    message = canal(row, mysqlType=declared)
    found = infer_schema([message], format="canal-json")
    assert found.ddl.replace("`", "") == (
        "id DECIMAL(20, 0), n BIGINT, flag TINYINT, price DECIMAL(10, 2), at TIMESTAMP(3), day DATE, kind STRING, "
        "extra STRING, ratio DOUBLE, zero STRING, big STRING, unset BIGINT"
    )
    assert found.primary_key == ("id",)
    (got,) = read(found, [message])
    assert (got["id"], got["n"], got["price"]) == (Decimal(2**64 - 1), 2**32 - 1, Decimal("5.18"))


def test_canal_types_of_jdbc() -> None:
    message = canal({"id": "4294967295", "w": "5.15", "at": "2020-05-13 15:40:06"}, sqlType={"id": 4, "w": 7, "at": 93})
    found = infer_schema([message], format="canal-json")
    assert found.ddl.replace("`", "") == "id BIGINT, w FLOAT, at TIMESTAMP(6)"  # JDBC type 4 does not tell unsigned
    read(found, [message])
    for unknown in ({}, None, "int"):
        both = canal({"w": "5.15"}, sqlType={"w": 7}, mysqlType=unknown)
        assert infer_schema([both], format="canal-json").ddl == "`w` FLOAT"


def test_decimals_with_more_digits_than_declared_are_not_rounded() -> None:
    message = canal({"id": "1", "w": "5.185"}, mysqlType={"id": "int(11)", "w": "decimal(10,2)"})
    assert infer_schema([message], format="canal-json").ddl == "`id` INT, `w` STRING"


@pytest.mark.parametrize("values", ['"x","id":"1"', '"1","id":"x"'])
def test_a_declared_type_must_read_all_values_of_a_name_that_comes_twice(values: str) -> None:
    message = f'{{"data":[{{"id":{values}}}],"type":"INSERT","mysqlType":{{"id":"int(11)"}}}}'.encode()
    assert infer_schema([message], format="canal-json").ddl == "`id` STRING"


def test_members_of_changes_beyond_the_limit_are_noted() -> None:
    row = {f"c{number}": 1 for number in range(1001)}
    found = inferred({"type": "insert", "data": row}, format="maxwell-json")
    assert len(found.fields) == 1000
    assert found.notes == ("rows have more than 1000 members; the others are left out",)


def test_tombstones_among_changes_are_not_messages_of_another_kind() -> None:
    row = {"type": "insert", "data": {"id": 1}}
    wrapped = {"schema": None, "payload": None}
    assert inferred(row, None, b"null", wrapped, format="maxwell-json").notes == ()
    assert inferred(row, b"7", format="maxwell-json").notes == ("1 messages are not maxwell-json and are skipped",)


def test_maxwell_and_ogg_are_inferred_from_rows() -> None:
    maxwell = {"type": "update", "data": {"id": 1, "w": 5.15}, "old": {"w": 2**40}, "primary_key_columns": ["id"]}
    found = inferred(maxwell, {"type": "table-create"}, b"x", format="maxwell-json")
    assert (found.ddl, found.primary_key) == ("`id` INT, `w` DOUBLE", ("id",))
    assert found.notes == ("1 messages are not maxwell-json and are skipped",)
    ogg = {"op_type": "D", "before": {"id": 1, "at": "2020-05-13 15:40:06"}, "after": None, "primary_keys": ["id"]}
    found = inferred(ogg, format="ogg-json")
    assert (found.ddl, found.primary_key) == ("`id` INT, `at` TIMESTAMP(3)", ("id",))
    read(found, [json.dumps(ogg).encode()])


@pytest.mark.parametrize("bad", [[b"x"], [b"1", None], [{"type": 7, "payload": []}]])
def test_messages_of_another_kind_do_not_end_a_sample(bad: list[Any]) -> None:
    """Whether they are the first ones, between the others, or the last ones."""
    rows = [{"type": "insert", "data": {"id": 1}}, {"type": "insert", "data": {"id": 2**40, "name": "Ada"}}]
    for messages in (bad + rows, [rows[0], *bad, rows[1]], rows + bad, bad + rows[:1] + bad + rows[1:] + bad):
        found = inferred(*messages, format="maxwell-json")
        assert found.ddl == "`id` BIGINT, `name` STRING"


def test_a_column_that_only_the_types_of_a_message_name_is_proposed() -> None:
    message = canal({"id": "1"}, mysqlType={"id": "int(11)", "note": "varchar(9)", "day": "date"})
    assert infer_schema([message], format="canal-json").ddl.replace("`", "") == "id INT, note STRING, day DATE"


@pytest.mark.parametrize("name", sorted(interop.cases()))
def test_records_that_flink_wrote_are_read(name: str) -> None:
    case = interop.cases()[name]
    options = interop.table(case).options
    format = options.get("value.format", options.get("format", ""))
    if format not in ("json", "csv", "debezium-json", "canal-json", "maxwell-json", "ogg-json") or "bad" in name:
        return
    values = interop.binary(case, "value")
    if not any(value and value.strip(b" ,{}") for value in values.to_pylist()):
        return
    found = infer_schema(values, format=format)
    errors = get_format(format, found.options).decode_batch(values, found.ddl).errors
    texts = (
        get_format(format, found.options).decode_batch(values, ", ".join(f"{n} STRING" for n in _names(found))).errors
    )
    assert (errors and errors.null_count) == (texts and texts.null_count)


# --- csv, raw --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("delimiter", "option"), [(",", None), (";", ";"), ("\t", "\\t"), ("|", "|")])
def test_csv_columns_are_numbered(delimiter: str, option: str | None) -> None:
    rows = [["1", '"Anna, ""S""; x"', "12.5", "true", "2024-01-02", "007", "2024-01-02 10:00:00"]]
    rows += [["2147483648", "x", "3", "FALSE", "2024-01-03", "008", "2024-01-02 10:00:00.5"]]
    messages: Messages = [delimiter.join(row).encode() for row in rows]
    found = infer_schema(messages, format="csv")
    assert found.ddl.replace("`", "") == (
        "f0 BIGINT, f1 STRING, f2 DOUBLE, f3 BOOLEAN, f4 DATE, f5 STRING, f6 TIMESTAMP(3)"
    )
    assert found.options.get("field-delimiter") == option
    assert read(found, messages)[0]["f1"] == 'Anna, "S"; x'
    KeyValueFormat.from_ddl(found.create_table("t", topic="x", bootstrap="b:9092"))


def test_csv_that_does_not_fit_is_text() -> None:
    messages: Messages = [b"1,", b"2,7", b"3,8,x", None, b"n/a,2024-01-01T00:00:00Z"]
    found = infer_schema(messages, format="csv")
    assert found.ddl == "`f0` STRING, `f1` STRING"
    assert "3 messages have 2 columns, others not: 1 of 3" in found.notes


def test_raw_is_text_or_bytes() -> None:
    assert infer_schema(["ü".encode(), None], format="raw").ddl == "`value` STRING"
    assert infer_schema([b"\xff"], format="raw").ddl == "`value` BYTES"
    assert infer_schema([b"\xff"], format="raw", options={"charset": "ISO-8859-1"}).ddl == "`value` STRING"


# --- sources ---------------------------------------------------------------------------------------------


def test_sample_size_is_limited() -> None:
    endless = (json.dumps({f"c{i}": 1}).encode() for i in itertools.count())
    found = infer_schema(endless, format="json", sample=3)
    assert (len(found.fields), found.notes[-1]) == (3, "only the first 3 messages were read")
    big = (b'{"a":"' + b"x" * (40 << 20) + b'"}' for _ in itertools.count())
    assert infer_schema(big, format="json").notes == ("only the first 1 messages, of 64 MiB, were read",)


@pytest.mark.parametrize(("count", "cut"), [(2, ""), (3, ""), (4, "only the first 3 messages were read")])
def test_a_sample_has_exactly_as_many_messages_as_asked(count: int, cut: str) -> None:
    found = sample_of([b"x", None, b"y", b"z"][:count], None, 3).messages
    assert (len(found.values), found.cut) == (min(count, 3), cut)


def test_a_sample_has_exactly_64_mebibytes() -> None:
    """One message may be larger."""
    half = bytes(32 << 20)
    assert len(sample_of([half, None, half, b""], None, 9).messages.values) == 4
    assert len(sample_of([half, half, b"x"], None, 9).messages.values) == 2
    assert len(sample_of([half + half + b"x"], None, 9).messages.values) == 1


def test_keys_headers_and_timestamps_belong_to_the_messages() -> None:
    headers = [[{"key": "h", "value": b"1"}], [], []]
    found = sample_of([b"a", b"b", b"c"], [b"k", None, b"m"], 2, headers=headers, timestamps=[5, None, 7])
    assert (found.messages.keys, found.timestamps) == ((b"k", None), (5, None))
    assert found.headers is not None
    assert found.headers.to_pylist() == headers[:2]
    for what, few in (("keys", [b"k"]), ("headers", [[]]), ("timestamps", [5])):
        more: dict[str, Any] = {"keys": None} | {what: few}
        with pytest.raises(ConfigurationError, match=f"there are 1 {what} for 2 messages: give None for a"):
            sample_of([b"a", b"b"], more.pop("keys"), 9, **more)


def test_arrow_arrays_are_sources() -> None:
    array = pa.array([b'{"a":1}', None, b'{"a":2}'], pa.binary())
    for source in (array, array.cast(pa.large_binary()), pa.chunked_array([array, array]), array.cast(pa.string())):
        assert infer_schema(source, format="json").ddl == "`a` INT"


def test_errors_say_why_inference_failed() -> None:
    with pytest.raises(SchemaError, match="format 'json': no columns can be inferred: 2 messages are not valid JSON"):
        infer_schema([b"x", b"y", None], format="json")
    with pytest.raises(SchemaError, match="there are 0 messages"):
        infer_schema([], format="json")
    with pytest.raises(ConfigurationError, match="a DataFrame with a column 'value', an Arrow array or an iterable"):
        infer_schema(b"{}", format="json")
    with pytest.raises(ConfigurationError, match="a message that is int; messages are bytes"):
        infer_schema([1], format="json")
    with pytest.raises(ConfigurationError, match="sample must be a number of messages, at least 1, not 0"):
        infer_schema([], format="json", sample=0)
    with pytest.raises(UnknownFormatError, match="Did you mean 'json'"):
        infer_schema([], format="jsn")
    with pytest.raises(OptionError, match="timestamp-format"):
        infer_schema([], format="json", options={"timestamp-format": "SQL"})
    with pytest.raises(OptionError, match="needs the option 'url'"):
        infer_schema([], format="avro-confluent")


def test_inferred_schema_becomes_a_table() -> None:
    found = inferred({"id": 1, "at": "2024-02-29T12:00:00Z"})
    text = found.create_table(
        "my table", topic="it's", bootstrap="b:9092", options={"scan.startup.mode": "latest-offset"}
    )
    assert text == (
        "CREATE TABLE `my table` (\n  `id` INT,\n  `at` TIMESTAMP_LTZ(3)\n) WITH (\n"
        "  'connector' = 'kafka',\n  'topic' = 'it''s',\n  'properties.bootstrap.servers' = 'b:9092',\n"
        "  'scan.startup.mode' = 'latest-offset',\n  'format' = 'json',\n"
        "  'json.timestamp-format.standard' = 'ISO-8601'\n)"
    )
    KeyValueFormat.from_ddl(text)


def test_reading_tables_does_not_import_inference() -> None:
    code = (
        "import sys, kvformat.connectors as c; print('kvformat.codecs._kernel' in sys.modules, c.infer_schema.__name__)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "infer_schema"]


@pytest.mark.spark
def test_dataframes_are_sources(spark: Any) -> None:
    records = [(b'{"a":1}', b'{"after":{"a":1,"b":"x"},"op":"c"}'), (b'{"a":2}', b'{"after":{"a":2},"op":"c"}')]
    df = spark.createDataFrame(records, "key BINARY, value BINARY")
    found = infer_schema(df, format="debezium-json")
    assert (found.ddl, found.primary_key) == ("`a` INT, `b` STRING", ("a",))
    assert found.schema.simpleString() == "struct<a:int,b:string>"
    assert infer_schema(df.select("value"), format="debezium-json", sample=1).primary_key == ()
    with pytest.raises(ConfigurationError, match="has no column 'value', only key"):
        infer_schema(df.select("key"), format="json")
    stream = spark.readStream.format("rate").load().selectExpr("CAST(CAST(value AS STRING) AS BINARY) AS value")
    with pytest.raises(ConfigurationError, match="be taken from a stream"):
        infer_schema(stream, format="json")


@pytest.mark.spark
def test_timestamps_of_a_dataframe_keep_each_millisecond(spark: Any) -> None:
    """As a number of seconds, some of them are a little less in floating point."""
    wanted = [1_079_337_347_472, 2_183_226_373_411, 2_165_497_250_430, *range(1_709_208_000_000, 1_709_208_001_000), -1]
    df = spark.createDataFrame([(at,) for at in wanted], "at LONG")
    records = df.selectExpr("X'00' AS value", "timestamp_millis(at) AS timestamp").coalesce(1)
    assert sorted(filter(None, sample_of(records, None, 2000).timestamps or ())) == sorted(wanted)


@pytest.mark.spark
def test_spark_reads_the_proposed_table(spark: Any) -> None:
    odd = [json.dumps({"select": 1, "a`b": 2, "a.b": {"x y": 3, "1": "2"}, "ü": ["12:00:01"]}).encode()]
    for pool in (odd, *(list(kind.pool) for kind in record_kinds(40))):
        keys = [b"%d" % i for i in range(len(pool))]
        df = spark.createDataFrame(list(zip(keys, pool, strict=True)), "key BINARY, value BINARY")
        found = inspect_topic(df)
        assert (found.counts["keys"], found.guesses[0].format) == (len(pool), "json")
        rows = KeyValueFormat.from_ddl(found.ddl or "").decode(df).collect()
        assert sorted(row["key"].encode() for row in rows) == sorted(keys)


# --- the style of ingestion --------------------------------------------------------------------------------------


def test_columns_as_ingestion_makes_them() -> None:
    rows = [
        {"n": 1, "big": 2**63, "x": 1, "day": "2024-02-29", "mixed": True, "o": {"a": [1]}, "none": None},
        {"n": 2**40, "big": 10**30, "x": 0.5, "day": "2024-02-29 10:00:00.5", "mixed": "y", "late": [1]},
    ]
    messages = [json.dumps(row).encode() for row in rows]
    expected = {
        **{"n": "BIGINT", "big": "DECIMAL(31, 0)", "x": "DOUBLE", "day": "TIMESTAMP(9)", "mixed": "STRING"},
        **{"o": "STRING", "late": "STRING"},
    }
    for ordered in (messages, messages[::-1]):
        found = infer_schema([*ordered, None, b"{"], format="json", style="ingestion")
        assert {field.name: str(field.type) for field in found.fields} == expected
        assert found.notes == ("day: the format does not read all values as TIMESTAMP(9); ingestion reads their texts",)
    assert infer_schema(messages, format="json").ddl != found.ddl


def test_tables_and_keys_as_ingestion_makes_them() -> None:
    def message(table: str, **more: Any) -> bytes:
        row = {"id": "1", "at": "2024-01-01"}
        return json.dumps(
            {"database": "d", "table": table, "type": "INSERT", "data": [row], "pkNames": ["id"], "isDdl": False} | more
        ).encode()

    found = infer_schema([message("t"), message("t")], format="canal-json", style="ingestion")
    assert (found.ddl, found.primary_key) == ("`id` STRING, `at` DATE", ("id",))
    with pytest.raises(SchemaError, match=r"the messages belong to 2 tables, d\.t, d\.u: give those of one table"):
        infer_schema([message("t"), message("u")], format="canal-json", style="ingestion")
    for keys, shown in ((["at"], "(at), (id)"), (["id", "at"], "(id), (id, at)"), (["id"], "")):
        keyed = infer_schema([message("t"), message("t", pkNames=keys)], format="canal-json", style="ingestion")
        note = f"the messages declare different keys, {shown}: a query stops at such messages"
        assert keyed.notes == ((note,) if shown else ())
    nameless = infer_schema([message("t"), message("t", database=None)], format="canal-json", style="ingestion")
    assert "bad messages, which are left out: 1; the first: " in nameless.notes[0]
    with pytest.raises(SchemaError, match="no columns can be inferred: there are 1 messages"):
        infer_schema([b'{"a":null}'], format="json", style="ingestion")
    with pytest.raises(ConfigurationError, match="style must be 'table' or 'ingestion', not 'flink'"):
        infer_schema([], format="json", style="flink")  # type: ignore[arg-type]


def test_types_of_the_database_as_ingestion_makes_them() -> None:
    columns = {"day": debezium_types.Given("int32", f"{debezium_types.TIME}Date", 19782)}
    change = json.loads(debezium_types.event({"day": 19782}, debezium_types.envelope(columns)))
    change["payload"]["source"] = {"db": "d", "table": "t"}
    message = json.dumps(change).encode()
    found = infer_schema([message], format="debezium-json", options={"schema-include": "true"}, style="ingestion")
    assert found.ddl == "`day` DATE"
    assert dict(found.options) == {"schema-include": "true", "types": "debezium", "other-messages": "skip-all"}
    assert read(found, [message]) == [{"day": dt.date(2024, 2, 29)}]
