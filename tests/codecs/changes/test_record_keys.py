"""Keys of records as connectors wrap them, and the key columns of rows before a change."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kvformat.codecs import KeyValueFormat, get_format
from kvformat.codecs._json_documents import WRAPPED, JsonDocuments, is_wrapped
from kvformat.codecs.changes.record_keys import MaxwellKeyFormat, connect_payload, maxwell_columns

_STRUCT = {"type": "struct", "fields": [{"type": "int32", "optional": False, "field": "id"}], "optional": False}


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ('{"schema":{"type":"struct"},"payload":{"id":1.50}}', '{"id":1.50}'),
        ('{ "schema" : {"a":[1]} , "payload" : {"payload":"a\\"}"} } ', '{"payload":"a\\"}"}'),
        ('{"payload":{"id":7},"schema":null}', '{"id":7}'),
        ('{"schema":{"type":"int32"},"payload":7}', "7"),
    ],
)
def test_a_key_with_connects_schema_is_its_payload(key: str, expected: str) -> None:
    assert connect_payload(key) == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ('{"database":"s","table":"o","pk.id":1.50,"pk.b":"x"}', '{"id":1.50,"b":"x"}'),
        ('{"database":"s","table":"o","_uuid":"a"}', "{}"),
        ('["s[1]", "o,", [{"id": 7}, {"b": "x"}]]', '{"id":7,"b":"x"}'),
        ('["s", "a[b", [{"id": 7}]]', '{"id":7}'),
        ('["\u65e5\u672c\u8a9e", "[", [{"id": 7}]]', '{"id":7}'),
        ('["s", "o", []]', "{}"),
        ('["s", "o", [{}, {"id": 7}]]', '{"id":7}'),
        ('{"database":"s","table":"o","pk.a\\"b\\\\":7}', '{"a\\"b\\\\":7}'),
    ],
)
def test_a_key_of_maxwell_is_its_columns(key: str, expected: str) -> None:
    assert maxwell_columns(key) == expected


@pytest.mark.parametrize(
    "key",
    [
        *('{"schema":"public","payload":1}', '{"id":1}', "[1]", "7", '"x"', "{", "{}", "null", "[]"),
        *('["s","o",[{"id":7}]] 8', '["s","o",[{"id":7}]', '{"database":"s","table":"o","pk.id":7} 8'),
        '{"schema":{},"payload":{"id":7}} 8',
    ],
)
def test_a_key_of_another_shape_is_left_as_it_is(key: str) -> None:
    for unwrap in (connect_payload, maxwell_columns):
        with pytest.raises(ValueError):  # noqa: PT011 - no error is shown
            unwrap(key)


@pytest.mark.parametrize("start", range(7))
def test_only_wrapped_keys_of_a_batch_change(start: int) -> None:
    keys = ['["s","o",[{"id":7}]]', '{"database":"d","table":"t","pk.id":8}', None, '{"id":9}', '["s","o",7]', "[1"]
    own = [b'{"id":7}', b'{"id":8}', None, *(key and key.encode() for key in keys[3:])]
    array = pa.array([b"\xff[", *(key and key.encode() for key in keys)], pa.binary())[start:]
    batch = MaxwellKeyFormat().decode_batch(array, "id INT")
    plain = get_format("json").decode_batch(pa.array([b"\xff[", *own], pa.binary())[start:], "id INT")
    assert (batch.rows, batch.errors) == (plain.rows, plain.errors)


def test_a_maxwell_key_may_begin_with_blanks() -> None:
    batch = MaxwellKeyFormat().decode_batch(pa.array([b' \n["s","o",[{"id":7}]]', b'{"id":8}']), "id INT")
    assert batch.rows.to_pylist() == [[{"id": 7}], [{"id": 8}]]


@pytest.mark.parametrize(
    ("format", "begin", "good"),
    [
        ("debezium-json", '{"schema":{},"payload":', '{"schema":{},"payload":{"id":7}}'),
        ("maxwell-json", '["s","o",', '["s","o",[{"id":7}]]'),
    ],
)
def test_a_key_of_too_many_levels_does_not_change_other_keys(format: str, begin: str, good: str) -> None:
    keys = get_format(format, {}).for_key(get_format("json"))
    batch = keys.decode_batch(pa.array([good.encode(), (begin + "[" * 100_000).encode(), good.encode()]), "id INT")
    assert batch.rows.to_pylist() == [[{"id": 7}], None, [{"id": 7}]]


@pytest.mark.parametrize(
    ("format", "key", "columns"),
    [
        ("debezium-json", '{"schema":null,"payload":{"payload":7}}', "payload INT"),
        ("debezium-json", '{"schema":null,"payload":{"schema":7}}', "`schema` INT"),
        ("maxwell-json", '{"database":"d","table":"t","pk.table":7}', "`table` INT"),
    ],
)
def test_a_table_with_one_column_named_as_a_member_of_the_wrapper_has_what_is_in_it(
    format: str, key: str, columns: str
) -> None:
    keys = get_format(format, {}).for_key(get_format("json"))
    assert [*keys.decode_batch(pa.array([key.encode()]), columns).rows.to_pylist()[0][0].values()] == [7]


def _decoded(value_format: str, options: dict[str, str], records: list[tuple[Any, Any]], connector: str) -> Any:
    given = {"connector": connector, "key.format": "json", "value.format": value_format, **options}
    kv = KeyValueFormat("id INT, n STRING", given, primary_key=["id"])
    keys, values = (
        pa.array([None if one is None else json.dumps(one).encode() for one in part], pa.binary())
        for part in zip(*records, strict=True)
    )
    return kv.decode_batch(keys, values)


def test_deletions_by_keys_with_a_schema_beside_values_without_one() -> None:
    key = {"schema": _STRUCT, "payload": {"id": 7}}
    options = {"value.debezium-json.flattened": "true"}
    batch = _decoded("debezium-json", options, [(key, None), ({"id": 8}, {"id": 8, "n": "a"})], "upsert-kafka")
    assert batch.errors is None
    assert [row["id"] for rows in batch.rows.to_pylist() for row in rows] == [7, 8]
    assert batch.row_kinds.to_pylist() == ["-D", "+U"]


@pytest.mark.parametrize("options", [{}, {"types": "debezium"}, {"schema-include": "true"}])
def test_a_table_with_columns_named_schema_and_payload_has_the_whole_key(options: dict[str, str]) -> None:
    key = '{"schema":{"type":"struct"},"payload":{"id":7}}'
    keys = get_format("debezium-json", options).for_key(get_format("json"))
    batch = keys.decode_batch(pa.array([key.encode()] * 2), "`schema` STRING, payload STRING")
    assert batch.errors is None
    assert batch.rows.to_pylist() == [[{"schema": '{"type":"struct"}', "payload": '{"id":7}'}]] * 2


def test_an_update_that_changes_the_key_deletes_the_row_of_the_old_key() -> None:
    key = {"database": "shop", "table": "o", "pk.id": 2}
    message = {"database": "shop", "table": "o", "type": "update", "data": {"id": 2, "n": "a"}, "old": {"id": 1}}
    options = {"key.fields": "id", "value.maxwell-json.changelog.mode": "upsert"}
    batch = _decoded("maxwell-json", options, [(key, message)], "kafka")
    assert batch.errors is None
    assert [row["id"] for row in batch.rows.to_pylist()[0]] == [1, 2]
    assert batch.row_kinds.to_pylist() == ["-D", "+U"]


@pytest.mark.parametrize(
    ("value_format", "rows"), [("canal-json", [{"id": "1", "n": "z"}]), ("maxwell-json", {"id": 1, "n": "z"})]
)
@pytest.mark.parametrize("old", [{}, {"old": None}])
def test_an_update_without_its_old_row_is_an_upsert_of_the_new_one(value_format: str, rows: Any, old: Any) -> None:
    kind = "UPDATE" if value_format == "canal-json" else "update"
    message = json.dumps({"type": kind, "data": rows, "database": "d", "table": "t", **old}).encode()
    upserts = get_format(value_format, {"changelog.mode": "upsert"})
    batch = upserts.decode_batch(pa.array([message, message]), "id INT, n STRING")
    assert batch.errors is None
    assert batch.rows.to_pylist() == [[{"id": 1, "n": "z"}]] * 2
    assert batch.row_kinds.to_pylist() == ["+U", "+U"]
    whole = get_format(value_format, {}).decode_batch(pa.array([message]), "id INT, n STRING")
    assert whole.errors is not None


@pytest.mark.parametrize(
    ("key", "wrapped"),
    [
        ('{"schema":{"type":"struct"},"payload":{"id":7}}', True),
        ('{"schema":null,"payload":{"id":7}}', True),
        (' {\n "schema" : null ,\t"payload" : {"id": 7}\n}', True),
        ('{"payload":{"id":7},"schema":{"type":"struct"}}', True),
        ('{"payload":{"id":7},"schema":null}', True),
        ('{"schema":{"type":"struct"},"payload":null}', True),
        ('{"schema":{"payload":1},"payload":{"id":7}}', True),
        ('{"schema":"public","payload":{"id":7}}', False),
        ('{"schema":{"type":"int32"},"payload":7}', True),
        ('{"schema":"nullable","payload":"x"}', False),
        ('{"payload":{"id":7}}', False),
        ('{"schema":{"payload":{}}}', False),
        ('{"id":7}', False),
    ],
)
def test_all_readers_tell_the_wrapper_of_kafka_connect_in_the_same_way(key: str, wrapped: bool) -> None:
    tree = JsonDocuments().parse(key.encode())
    likely = pc.match_substring_regex(pa.array([key.encode()]), WRAPPED)[0].as_py()
    try:
        payload = connect_payload(key)
    except ValueError:
        payload = None
    assert is_wrapped(tree) == (wrapped and payload != "7")  # a number is not a row, and the key's error says so
    assert (payload is not None) == wrapped
    assert likely == wrapped or (likely and '{"payload":{}}' in key)


_STRUCT_OF_TEXT = {"type": "struct", "fields": [{"type": "string", "optional": True, "field": "k"}], "optional": False}


@pytest.mark.parametrize(
    ("option", "text", "declared", "key", "value"),
    [
        ("value.debezium-json.binary.handling.mode", "hex", "BYTES", {"k": "00ff"}, b"\0\xff"),
        ("value.debezium-json.decimal.handling.mode", "string", "DECIMAL(10, 2)", {"k": "12.30"}, Decimal("12.30")),
        ("value.debezium-json.time.precision.mode", "isostring", "DATE", {"k": "2024-02-29"}, date(2024, 2, 29)),
        (
            *("key.json.timestamp-format.standard", "ISO-8601", "TIMESTAMP(3)"),
            {"schema": _STRUCT_OF_TEXT, "payload": {"k": "2024-02-29T12:00:00"}},
            datetime(2024, 2, 29, 12),
        ),
        ("key.json.ignore-parse-errors", "true", "INT", {"schema": _STRUCT_OF_TEXT, "payload": {"k": "x"}}, None),
    ],
)
def test_a_key_is_read_with_the_modes_of_the_connector_and_its_own_options(
    option: str, text: str, declared: str, key: Any, value: Any
) -> None:
    given = {"connector": "kafka", "key.format": "json", "key.fields": "k", "value.format": "debezium-json"}
    given |= {"value.fields-include": "EXCEPT_KEY", "value.debezium-json.types": "debezium", option: text}
    kv = KeyValueFormat(f"k {declared}, n STRING", given)
    message = b'{"before":null,"after":{"n":"a"},"op":"c"}'
    batch = kv.decode_batch(pa.array([json.dumps(key).encode()]), pa.array([message]))
    assert batch.errors is None
    assert batch.rows.to_pylist() == [[{"k": value, "n": "a"}]]
