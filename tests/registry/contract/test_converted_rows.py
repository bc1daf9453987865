"""Columns of rows that are not of their declared type: which types are cast, and that nothing is lost then."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry import KeyValueFormat, SchemaError, get_format


@pytest.mark.parametrize(
    ("given", "fits", "others"),
    [
        (pa.int8(), "TINYINT; BIGINT; DECIMAL(3, 0); DECIMAL(5, 2)", "DECIMAL(2, 0); DECIMAL(4, 2); FLOAT; BOOLEAN"),
        (pa.int32(), "INT; BIGINT; DECIMAL(10, 0); DECIMAL(12, 2)", "SMALLINT; DECIMAL(9, 0); DECIMAL(10, 2); DOUBLE"),
        (pa.int64(), "BIGINT; DECIMAL(19, 0)", "INT; DECIMAL(18, 0); DECIMAL(38, 20); DOUBLE; DATE; TIMESTAMP(3)"),
        (pa.uint8(), "", "TINYINT; SMALLINT; BIGINT; DECIMAL(38, 0)"),
        (pa.bool_(), "BOOLEAN", "TINYINT; STRING"),
        (pa.float32(), "FLOAT; DOUBLE", "INT; DECIMAL(38, 18)"),
        (pa.float64(), "DOUBLE", "FLOAT; BIGINT"),
        (pa.decimal128(5, 2), "DECIMAL(5, 2); DECIMAL(6, 3); DECIMAL(38, 2)", "DECIMAL(5, 3); DECIMAL(9, 1); DOUBLE"),
        (pa.large_string(), "STRING; CHAR(2); VARCHAR(3)", "BYTES; INT; DATE"),
        (pa.binary(3), "BYTES; BINARY(3)", "STRING"),
        (pa.date64(), "DATE", "TIMESTAMP(3); INT; STRING"),
        (pa.time32("ms"), "TIME(3); TIME(0)", "TIMESTAMP(3); INT"),
        (pa.timestamp("ns"), "TIMESTAMP(3); TIMESTAMP(9)", "TIMESTAMP_LTZ(3); DATE; BIGINT"),
        (pa.timestamp("s", "Europe/Berlin"), "TIMESTAMP_LTZ(3)", "TIMESTAMP(3); TIME(0)"),
        (pa.duration("ms"), "INTERVAL DAY TO SECOND", "INTERVAL YEAR TO MONTH; TIME(3); BIGINT"),
        (pa.int16(), "SMALLINT", "INTERVAL YEAR TO MONTH"),
        (pa.list_(pa.int8()), "ARRAY<INT>; ARRAY<DECIMAL(3, 0)>", "ARRAY<DECIMAL(2, 0)>; STRING; MAP<INT, INT>"),
        (pa.list_(pa.int8(), 2), "ARRAY<INT>; ARRAY<TINYINT>", "ARRAY<DECIMAL(2, 0)>; BYTES"),
        (pa.map_(pa.string(), pa.int16()), "MAP<STRING, INT>; MULTISET<STRING>", "MAP<STRING, TINYINT>; ARRAY<INT>"),
        (pa.map_(pa.string(), pa.int64()), "MAP<STRING, BIGINT>", "MULTISET<STRING>; ROW<a INT>"),
        (pa.dictionary(pa.int8(), pa.int16()), "INT", "TINYINT"),
        (pa.null(), "INT; ARRAY<INT>; ROW<a INT>; MAP<STRING, INT>", ""),
    ],
    ids=str,
)
def test_a_column_is_cast_if_every_value_of_its_type_fits(given: pa.DataType, fits: str, others: str) -> None:
    rows = pa.StructArray.from_arrays([pa.nulls(2, given)], names=["a"])
    for flink in filter(None, fits.split("; ")):
        assert get_format("json").encode_batch(rows, f"a {flink}").messages.to_pylist() == [b'{"a":null}'] * 2, flink
    for flink in filter(None, others.split("; ")):
        with pytest.raises(SchemaError, match=r"column 'a(\.\w+)*' is .*, which does not fit ") as caught:
            get_format("json").encode_batch(rows, f"a {flink}")
        assert (caught.value.field or "").startswith("a"), flink


def test_null_arrays_and_maps_stay_null() -> None:
    """They become no empty ones, at any depth and in slices."""
    kind = pa.struct(
        [
            ("l", pa.large_list(pa.int8())),
            ("f", pa.list_(pa.int8(), 2)),
            ("m", pa.map_(pa.string(), pa.int8())),
            ("r", pa.struct([("l", pa.list_(pa.map_(pa.string(), pa.int8())))])),
        ]
    )
    rows: list[Any] = [
        {"l": [1, None], "f": [1, None], "m": [("k", None)], "r": {"l": [None, [], [("k", 1)]]}},
        {"l": None, "f": None, "m": None, "r": {"l": None}},
        {"l": [], "f": [3, 4], "m": [], "r": None},
        None,
    ]
    wanted: list[Any] = [
        {"l": [1, None], "f": [1, None], "m": {"k": None}, "r": {"l": [None, {}, {"k": 1}]}},
        {"l": None, "f": None, "m": None, "r": {"l": None}},
        {"l": [], "f": [3, 4], "m": {}, "r": None},
        None,
    ]
    schema = "l ARRAY<INT>, f ARRAY<BIGINT>, m MAP<STRING, BIGINT>, r ROW<l ARRAY<MAP<STRING, INT>>>"
    for start in range(3):
        batch = get_format("json").encode_batch(pa.array(rows, kind)[start:], schema)
        assert [message and json.loads(message) for message in batch.messages.to_pylist()] == wanted[start:]


@pytest.mark.parametrize(
    ("names", "told"), [(["x"], r"column 'r\.a' is missing; .* columns x"), (["a", "a"], "exists more than once")]
)
def test_a_nested_column_is_there_exactly_once(names: list[str], told: str) -> None:
    inner = pa.StructArray.from_arrays([pa.array([1], pa.int8())] * len(names), names=names)
    with pytest.raises(SchemaError, match=told) as caught:
        get_format("json").encode_batch(pa.StructArray.from_arrays([inner], names=["r"]), "r ROW<a INT>")
    assert caught.value.field == "r.a"


_UPSERT = {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"}


@pytest.mark.parametrize("chunked", ["rows", "kinds", "both"])
@pytest.mark.parametrize("name", ["debezium-json", "canal-json", "maxwell-json", "ogg-json", "json"])
def test_rows_and_their_kinds_may_be_in_chunks(name: str, chunked: str) -> None:
    """As the columns of a pyarrow.Table are."""
    kinds, rows = pa.array(["+I", "-D", "+I"]), pa.array([{"id": number} for number in (1, 2, 3)])
    some_kinds = kinds if chunked == "rows" else pa.chunked_array([kinds[:1], kinds[1:1], kinds[1:]])
    some_rows = rows if chunked == "kinds" else pa.chunked_array([rows[:2], rows[2:]])
    format = get_format(name)
    found = format.encode_batch(some_rows, "id BIGINT", row_kinds=some_kinds)
    assert found == format.encode_batch(rows, "id BIGINT", row_kinds=kinds)
    table = KeyValueFormat("id BIGINT", {"format": name} if name != "json" else _UPSERT, primary_key=["id"])
    assert table.encode_batch(some_rows, row_kinds=some_kinds) == table.encode_batch(rows, row_kinds=kinds)


def test_kinds_that_are_no_arrow_array_are_reported() -> None:
    rows, table = pa.array([{"id": 1}]), KeyValueFormat("id BIGINT", {"format": "debezium-json"})
    given: Any = ["+I"]
    for encode in (
        lambda: get_format("json").encode_batch(rows, "id BIGINT", row_kinds=given),
        lambda: table.encode_batch(rows, row_kinds=given),
    ):
        with pytest.raises(
            SchemaError, match=r"row_kinds must be a pyarrow Array of strings, not list: pyarrow\.array"
        ):
            encode()


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("format", ["debezium-json", "json"])
def test_there_is_a_kind_for_each_row(format: str, count: int) -> None:
    with pytest.raises(SchemaError, match=f"one element per row: 2 rows, but {count} row kinds"):
        get_format(format).encode_batch(pa.array([{"id": 1}] * 2), "id BIGINT", row_kinds=pa.array(["+I"] * count))


@pytest.mark.parametrize(("keys", "values"), [(1, 2), (2, 1), (0, 1)])
def test_there_is_a_key_for_each_value(keys: int, values: int) -> None:
    table = KeyValueFormat("id INT, v INT", {"key.format": "json", "key.fields": "id", "value.format": "json"})
    given = [pa.chunked_array([pa.array([b"{}"] * count, pa.binary())]) for count in (keys, values)]
    without_key = KeyValueFormat("id INT, v INT", {"format": "json"})
    for call in (
        lambda: table.decode_batch(*given),
        lambda: without_key.decode_batch(*given, metadata=["__raw_value__", "__raw_key__"]),
    ):
        with pytest.raises(SchemaError, match=f"there are {keys} keys, but {values} values"):
            call()
    assert len(without_key.decode_batch(*given, metadata=["__raw_value__"]).rows) == values
