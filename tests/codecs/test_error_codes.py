"""Error codes: the codes of each format, of tables, and their documentation."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from tables import codes_table

from kvformat.codecs.json.settings import WriteSettings
from kvformat.codecs.json.write import JsonWriter
from kvformat.registry import DecodedBatch, EncodedBatch, ErrorCode, Format, KeyValueFormat, get_format
from kvformat.registry.contract import error_codes
from kvformat.registry.contract.error_codes import split_codes
from kvformat.registry.contract.schemas import resolve_schema, result_arrow_type, row_type
from kvformat.registry.table.decode_records import decode_records
from tests.support import vectors
from tests.support.registry_server import Registry

DEEP = b'{"a":' + b"[" * 1001 + b"]" * 1001 + b"}"
DIGITS = b'{"a":' + b"1" * 1001 + b"}"
INSERT = b'{"before":null,"after":{"a":1},"op":"c"}'

MESSAGES: list[tuple[str, dict[str, str], str, bytes, str]] = [
    ("json", {}, "a INT", b'{"a":', "MALFORMED"),
    ("json", {}, "a INT", b'{"a":1} x', "MALFORMED"),
    ("json", {}, "a STRING", b'{"a":"\xff"}', "WRONG_CHARSET"),
    ("json", {}, "a INT", b'{"a":"x"}', "WRONG_TYPE"),
    ("json", {}, "a INT", b"7", "WRONG_TYPE"),
    ("json", {}, "a TINYINT", b'{"a":1.5}', "WRONG_TYPE"),
    ("json", {}, "a TINYINT", b'{"a":300}', "OUT_OF_RANGE"),
    ("json", {}, "a INT", b'{"a":"3000000000"}', "OUT_OF_RANGE"),
    ("json", {}, "a INT", b'{"a":3e9}', "OUT_OF_RANGE"),
    ("json", {"fail-on-missing-field": "true"}, "a INT, b INT", b'{"a":1}', "MISSING_FIELD"),
    ("json", {}, "a INT", DEEP, "TOO_DEEP"),
    ("json", {}, "a INT", DIGITS, "TOO_LARGE"),
    ("debezium-json", {}, "a INT", b"{", "MALFORMED"),
    ("debezium-json", {}, "a STRING", b'{"op":"\xff"}', "WRONG_CHARSET"),
    ("debezium-json", {}, "a INT", b'{"after":{"a":"x"},"op":"c"}', "WRONG_TYPE"),
    ("debezium-json", {}, "a INT", b"[]", "WRONG_TYPE"),
    ("debezium-json", {}, "a INT", b'{"after":{"a":3000000000},"op":"c"}', "OUT_OF_RANGE"),
    ("debezium-json", {}, "a INT", b'{"after":{"a":1},"op":"u"}', "MISSING_FIELD"),
    ("debezium-json", {}, "a INT", b'{"after":{"a":1}}', "MISSING_FIELD"),
    ("debezium-json", {"schema-include": "true"}, "a INT", INSERT, "MISSING_FIELD"),
    ("debezium-json", {}, "a INT", b'{"after":{"a":1},"op":"t"}', "UNKNOWN_OPERATION"),
    ("debezium-json", {}, "a INT", DEEP, "TOO_DEEP"),
    ("debezium-json", {}, "a INT", DIGITS, "TOO_LARGE"),
    ("canal-json", {}, "a INT", b'{"data":[{"a":1}],"type":"UPDATE"}', "MISSING_FIELD"),
    ("canal-json", {}, "a INT", b'{"data":[{"a":1}],"type":"GRANT"}', "UNKNOWN_OPERATION"),
    ("canal-json", {}, "a INT", b'{"data":[{"a":"x"}],"type":"INSERT"}', "WRONG_TYPE"),
    ("canal-json", {}, "a INT", b"x", "MALFORMED"),
    ("maxwell-json", {}, "a INT", b'{"data":{"a":1},"type":"grant"}', "UNKNOWN_OPERATION"),
    ("maxwell-json", {}, "a INT", b'{"type":"insert"}', "MISSING_FIELD"),
    ("maxwell-json", {}, "a INT", b'{"data":{"a":[]},"type":"insert"}', "WRONG_TYPE"),
    ("maxwell-json", {}, "a INT", b"x", "MALFORMED"),
    ("ogg-json", {}, "a INT", b'{"after":{"a":1},"op_type":"X"}', "UNKNOWN_OPERATION"),
    ("ogg-json", {}, "a INT", b'{"after":{"a":1},"op_type":"U"}', "MISSING_FIELD"),
    ("ogg-json", {}, "a INT", b'{"after":{"a":{}},"op_type":"I"}', "WRONG_TYPE"),
    ("ogg-json", {}, "a INT", b"x", "MALFORMED"),
    ("csv", {}, "a STRING, b INT", b'"x', "MALFORMED"),
    ("csv", {}, "a STRING, b INT", b"x\xff,1", "WRONG_CHARSET"),
    ("csv", {}, "a STRING, b INT", b"\0x\0\0", "WRONG_CHARSET"),
    ("csv", {}, "a STRING, b INT", b"x,y", "WRONG_TYPE"),
    ("csv", {}, "a STRING, b INT", b"x,1.5", "WRONG_TYPE"),
    ("csv", {}, "a STRING, b INT", b"x,3000000000", "OUT_OF_RANGE"),
    ("csv", {}, "a STRING, b INT", b"x", "MISSING_FIELD"),
    ("csv", {}, "a ROW<x INT, y INT>, b INT", b"1,2", "MISSING_FIELD"),
    ("csv", {"fail-on-missing-columns": "true"}, "a STRING, b INT", b"x", "MISSING_FIELD"),
    ("csv", {}, "a STRING, b INT", b"x,1,2,3", "UNEXPECTED_FIELD"),
    ("avro", {}, "a STRING NOT NULL", b"\x08ab", "MALFORMED"),
    ("avro", {}, "a TINYINT NOT NULL", b"\xd8\x04", "OUT_OF_RANGE"),
    ("avro", {"encoding": "json"}, "a INT NOT NULL", b"{", "MALFORMED"),
    ("avro", {"encoding": "json"}, "a INT NOT NULL", b'{"a":"x"}', "WRONG_TYPE"),
    ("avro", {"encoding": "json"}, "a INT NOT NULL", b'{"a":3000000000}', "OUT_OF_RANGE"),
    ("avro", {"encoding": "json"}, "a INT NOT NULL", b"{}", "MISSING_FIELD"),
    ("avro", {"encoding": "json"}, "a INT NOT NULL", DEEP.replace(b"a", b"x"), "TOO_DEEP"),
    ("avro", {"encoding": "json"}, "a INT NOT NULL", DIGITS, "TOO_LARGE"),
    ("raw", {}, "a INT", b"abc", "MALFORMED"),
    ("raw", {}, "a STRING", b"a\xff", "WRONG_CHARSET"),
    ("raw", {"charset": "UTF-16", "invalid-text": "error"}, "a STRING", b"a", "WRONG_CHARSET"),
]


@pytest.mark.parametrize(("format", "options", "schema", "message", "code"), MESSAGES)
def test_a_bad_message_has_a_code(format: str, options: dict[str, str], schema: str, message: bytes, code: str) -> None:
    batch = get_format(format, options).decode_batch(pa.array([None, message, None]), schema)
    assert batch.codes is not None
    assert batch.codes.to_pylist() == [None, code, None]
    assert batch.errors is not None
    assert not batch.errors[1].as_py().startswith("[")


def _record(fields: str, name: str = "R") -> str:
    return f'{{"type":"record","name":"{name}","fields":[{fields}]}}'


WRITERS = {
    1: _record('{"name":"a","type":"string"}'),
    2: _record('{"name":"b","type":"int"}'),
    3: "no schema",
    4: _record(
        '{"name":"a","type":"int"},{"name":"l","type":["null",'
        + _record('{"name":"n","type":["null","L"]}', "L")
        + "]}"
    ),
}


REGISTRY_MESSAGES = [
    (b"\1\0\0\0\1", "MALFORMED"),
    (b"\2\0\0\0\1", "MALFORMED"),
    (b"\0\0", "MALFORMED"),
    (b"\0\0\0\0\1\2x", "INCOMPATIBLE_SCHEMA"),
    (b"\0\0\0\0\2\2", "INCOMPATIBLE_SCHEMA"),
    (b"\0\0\0\0\3\2", "UNKNOWN_SCHEMA"),
    (b"\0\0\0\0\x63\2", "UNKNOWN_SCHEMA"),
    (b"\0\0\0\0\4\2" + b"\2" * 300 + b"\0", "TOO_DEEP"),
]


@pytest.mark.parametrize(("message", "code"), REGISTRY_MESSAGES)
@pytest.mark.schemas(WRITERS)
def test_a_bad_message_of_a_registry_has_a_code(message: bytes, code: str, registry: Registry) -> None:
    format = get_format("avro-confluent", {"url": registry.url})
    batch = format.decode_batch(pa.array([message, None]), "a INT NOT NULL")
    assert batch.codes is not None
    assert batch.codes.to_pylist() == [code, None]


# --- encoding ------------------------------------------------------------------------------------------------

ENUM = _record('{"name":"a","type":["null",{"type":"enum","name":"E","symbols":["A"]}]}')
FIXED = _record('{"name":"a","type":["null",{"type":"fixed","name":"F","size":2}]}')
ROWS: list[tuple[str, dict[str, str], str, Any, str]] = [
    ("avro", {}, "a INT NOT NULL", None, "NULL_VALUE"),
    ("avro", {"encoding": "json"}, "a INT NOT NULL", None, "NULL_VALUE"),
    ("avro-confluent", {"schema": ENUM}, "a STRING", "B", "WRONG_TYPE"),
    ("avro-confluent", {"schema": FIXED}, "a VARBINARY(2)", b"abc", "WRONG_TYPE"),
    ("avro-confluent", {"subject": "refused"}, "a INT", 1, "UNKNOWN_SCHEMA"),
    ("avro-confluent", {"subject": "unknown", "auto-register-schemas": "false"}, "a INT", 1, "UNKNOWN_SCHEMA"),
]


@pytest.mark.parametrize(("format", "options", "schema", "value", "code"), ROWS)
def test_a_bad_row_has_a_code(
    format: str, options: dict[str, str], schema: str, value: Any, code: str, registry: Registry
) -> None:
    registry.refused = ("refused",)
    if format == "avro-confluent":
        options = {"subject": "s", "url": registry.url, **options}
    kind = result_arrow_type(row_type(resolve_schema(schema)))
    rows = pa.array([None, {"a": value}], kind)
    batch = get_format(format, options).encode_batch(rows, schema)
    assert batch.codes is not None
    assert batch.codes.to_pylist() == [None, code]
    assert batch.errors is not None
    assert not batch.errors[1].as_py().startswith("[")


def test_a_map_with_a_null_as_key_has_a_code() -> None:
    pairs = pa.list_(pa.struct({"key": pa.string(), "value": pa.int32()}))  # a pa.MapArray takes no null
    rows = pa.array([{"a": [{"key": None, "value": 1}]}], pa.struct({"a": pairs}))
    row = row_type(resolve_schema("a MAP<STRING, INT>"))
    batch = JsonWriter(row, WriteSettings.of(get_format("json").options)).write(rows)
    assert batch.errors is not None
    assert batch.errors[0].as_py().startswith("Fail to serialize at field: a.")
    assert batch.codes.to_pylist() == ["NULL_VALUE"]  # type: ignore[union-attr]


def test_a_row_that_fails_in_several_columns_has_the_error_of_the_first_one() -> None:
    pairs = pa.list_(pa.struct({"key": pa.string(), "value": pa.int32()}))
    good, bad = [{"key": "k", "value": 1}], [{"key": None, "value": 1}]
    columns = {"a": pairs, "r": pa.struct({"b": pairs}), "c": pairs}
    values = [(good, good, good), (good, bad, bad), (bad, bad, good), (good, good, bad), (bad, good, bad)]
    rows = pa.array([{"a": a, "r": {"b": b}, "c": c} for a, b, c in values], pa.struct(columns))
    row = row_type(resolve_schema("a MAP<STRING, INT>, r ROW<b MAP<STRING, INT>>, c MAP<STRING, INT>"))
    batch = JsonWriter(row, WriteSettings.of(get_format("json").options)).write(rows)
    assert batch.errors is not None
    fields = [error and error.partition("field: ")[2].partition(". ")[0] for error in batch.errors.to_pylist()]
    assert fields == [None, "r.b", "a", "c", "a"]
    assert batch.messages.is_valid().to_pylist() == [True, False, False, False, False]


# --- tables and metadata ---------------------------------------------------------------------------------------

UPSERT = {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"}
RECORDS = [
    (UPSERT, b'{"k":1}', b'{"k":1,"v":1}', None, None),
    (UPSERT, b'{"k":1}', None, None, None),
    (UPSERT, None, b'{"k":1,"v":1}', "key", "NULL_KEY"),
    (UPSERT, b"", b'{"k":1,"v":1}', "key", "SKIPPED"),
    (UPSERT, b"{}", None, "record", "NULL_KEY"),
    (UPSERT, b'{"k":', b'{"k":1,"v":"x"}', "record", "MALFORMED"),
    (UPSERT, b'{"k":1}', b'{"k":1,"v":"x"}', "value", "WRONG_TYPE"),
    (UPSERT, b'{"k":1}', b"", "value", "SKIPPED"),
    ({"format": "json"}, None, b"", "value", "SKIPPED"),
    (
        {"key.format": "json", "key.fields": "k", "value.format": "json", "value.fields-include": "EXCEPT_KEY"},
        b"[" + b'{"k":1},' * 40 + b"{}]",
        b"[" + b'{"v":1},' * 40 + b"{}]",
        "record",
        "TOO_LARGE",
    ),
]


@pytest.mark.parametrize(("options", "key", "value", "part", "code"), RECORDS)
def test_a_bad_record_has_a_code(
    options: dict[str, str], key: bytes | None, value: bytes | None, part: str | None, code: str | None
) -> None:
    primary_key = ["k"] if "connector" in options else []
    layout = KeyValueFormat("k INT, v INT", options, primary_key=primary_key)._plan("decode").layout
    keys = pa.array([b'{"k":9}', key], pa.binary()) if layout.key_format is not None else None
    values = pa.array([b'{"k":9,"v":9}', value], pa.binary())
    rows = decode_records(layout, keys, values, capture=True)
    found = [None if texts is None else texts.to_pylist() for texts in (rows.parts, rows.codes)]
    assert found == [None if part is None else [None, part], None if code is None else [None, code]]


def test_a_row_with_a_null_in_its_key_has_a_code() -> None:
    kv = KeyValueFormat("k INT, v INT", UPSERT, primary_key=["k"])
    rows = pa.array([{"k": 1, "v": 1}, {"k": None, "v": 1}], pa.struct({"k": pa.int32(), "v": pa.int32()}))
    encoded = kv.encode_batch(rows)
    assert encoded.codes is not None
    assert encoded.codes.to_pylist() == [None, "NULL_KEY"]


def test_metadata_that_many_rows_would_repeat_has_a_code() -> None:
    row = b'{"a":1}'
    large = b'{"data":[' + b",".join([row] * 500) + b'],"type":"INSERT","database":"' + b"x" * 2**20 + b'"}'
    batch = get_format("canal-json").decode_batch(pa.array([large]), "a INT", metadata=["database"])
    assert batch.codes is not None
    assert batch.codes.to_pylist() == ["TOO_LARGE"]


class _Others(Format):
    """A format of another package."""

    identifier = "others"
    says: tuple[str | None, ...] = ()

    def decode_arrow(self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()) -> Any:
        rows = pa.array([None] * len(messages), pa.list_(pa.struct(list(schema))))
        return DecodedBatch(rows, errors=pa.array(self.says, pa.string()))

    def encode_arrow(self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: Any = None) -> EncodedBatch:
        return EncodedBatch(pa.nulls(len(rows), pa.binary()), pa.array(self.says, pa.string()))


def test_an_error_without_a_code_gets_the_default_code() -> None:
    class Says(_Others):
        says = (None, "no idea", "[TOO_DEEP] of [2] rows", "[NO_CODE] of ours", "TOO_DEEP] not", "[TOO_DEEP]", "")

    batch = Says().decode_batch(pa.nulls(7, pa.binary()), "a INT")
    texts = [None, "no idea", "of [2] rows", "[NO_CODE] of ours", "TOO_DEEP] not", "[TOO_DEEP]", ""]
    codes = [None, "BAD_RECORD", "TOO_DEEP", *["BAD_RECORD"] * 4]
    assert (batch.errors.to_pylist(), batch.codes.to_pylist()) == (texts, codes)  # type: ignore[union-attr]
    encoded = Says().encode_batch(pa.array([{"a": 1}] * 7, pa.struct({"a": pa.int32()})), "a INT")
    assert (encoded.errors.to_pylist(), encoded.codes.to_pylist()) == (texts, codes)  # type: ignore[union-attr]


def test_a_format_keeps_the_codes_of_its_inner_format() -> None:
    class Around(_Others):
        def decode_arrow(self, messages: pa.BinaryArray, schema: pa.Schema, **_: Any) -> DecodedBatch:
            return get_format("json").decode_batch(messages, schema)

    messages = pa.array([b'{"a":1}', b"{", b'{"a":"x"}', None])
    batch = Around().decode_batch(messages, "a INT")
    inner = get_format("json").decode_batch(messages, "a INT")
    assert batch.codes.to_pylist() == [None, "MALFORMED", "WRONG_TYPE", None]  # type: ignore[union-attr]
    assert (batch.errors, batch.codes) == (inner.errors, inner.codes)


def test_without_errors_there_are_no_codes() -> None:
    class Says(_Others):
        says = (None, None)

    batch = Says().decode_batch(pa.nulls(2, pa.binary()), "a INT")
    assert (batch.errors, batch.codes) == (None, None)
    assert split_codes(pa.array(["[SKIPPED] a", None, "b"]).slice(1, 1)) == (None, None)


@pytest.mark.kernel_raises
def test_large_error_texts_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = pa.array([b'{"a":1}', b"{", b'{"a":"x"}', None] * 50)
    batch = get_format("json").decode_batch(messages, "a INT")
    assert batch.errors is not None
    monkeypatch.setattr(error_codes, "_MOST_BYTES", len("".join(batch.errors.drop_null().to_pylist())) // 3)
    parts = get_format("json").decode_batch(messages, "a INT")
    assert (parts.rows, parts.errors, parts.codes) == (batch.rows, batch.errors, batch.codes)


def test_errors_keep_their_indices_in_any_number() -> None:
    rng = random.Random(7)
    for count in (1, 2, 9, 500):
        for share in (0.01, 0.5, 1):
            bad = [rng.random() < share for _ in range(count)]
            messages = [rng.choice((b"{", b'{"a":"\xff"}', b'{"a":"z"}')) if b else b'{"a":1}' for b in bad]
            format = get_format("json")
            alone = {message: format.decode_batch(pa.array([message]), "a INT") for message in set(messages)}
            batch = format.decode_batch(pa.array(messages), "a INT")
            for found, name in ((batch.errors, "errors"), (batch.codes, "codes")):
                wanted = [getattr(alone[message], name) for message in messages]
                texts = [None if one is None else one[0].as_py() for one in wanted]
                assert (found or pa.nulls(count)).to_pylist() == texts
                if found is not None:
                    found.validate(full=True)


# --- all of them -----------------------------------------------------------------------------------------------

BAD_MESSAGES = {
    "avro": 500,
    "avro-confluent": 726,
    "canal-json": 367,
    "csv": 1652,
    "debezium-avro-confluent": 1347,
    "debezium-json": 510,
    "json": 2111,
    "maxwell-json": 316,
    "ogg-json": 101,
    "protobuf": 1013,
    "raw": 194,
}
"""The minimum number of bad messages in each format's vectors. A smaller number means that cases were lost."""


@pytest.mark.parametrize("format", sorted(BAD_MESSAGES))
def test_every_bad_message_of_the_vectors_has_a_specific_code(format: str) -> None:
    codes = Counter(code for case in vectors.cases(format) for code in vectors.error_codes(case))
    assert ErrorCode.BAD_RECORD not in codes
    assert set(codes) <= set(ErrorCode)
    assert codes.total() >= BAD_MESSAGES[format]


def test_every_code_is_used() -> None:
    given = {code for *_, code in (*MESSAGES, *REGISTRY_MESSAGES, *ROWS, *RECORDS)}
    # codes of other packages' formats: test_results; codes of `decode`: tests/spark; SCHEMA: tests/ingestion;
    # TABLE_ID: tests/codecs/look; COMPUTED_COLUMN: tests/registry/table
    elsewhere = {ErrorCode.BAD_RECORD, ErrorCode.KERNEL_FAILED, ErrorCode.SEVERAL_ROWS}
    elsewhere |= {ErrorCode.SCHEMA, ErrorCode.TABLE_ID, ErrorCode.COMPUTED_COLUMN}
    assert given - {None} == set(ErrorCode) - elsewhere


def test_every_code_is_documented() -> None:
    for code in ErrorCode:
        assert pickle.loads(pickle.dumps(code)) is code
        assert ErrorCode(code.value) is code
        assert list(ErrorCode)[code.number] is code
        assert str(code) == code.value == code.name
        assert f"| `{code}` | {code.doc} |" in codes_table().splitlines()
