"""Values of columns that are decoded as text, and columns that are named by paths."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kvformat.ingestion.schemas.flattened import FlattenedColumns
from kvformat.ingestion.schemas.from_texts import from_numbers, from_texts
from kvformat.registry import SchemaError, get_format
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.samples import columns_text

_NOON = dt.datetime(2024, 2, 29, 12, 0, 0)


@pytest.mark.parametrize(
    ("t", "text", "expected"),
    [
        ("DATE", "2024-02-29", dt.date(2024, 2, 29)),
        ("DATE", "2023-02-29", None),
        ("DATE", "2024-02-29 12:00:00", None),
        ("TIMESTAMP(9)", "2024-02-29", dt.datetime(2024, 2, 29)),
        ("TIMESTAMP(9)", "2024-02-29 12:00:00", _NOON),
        ("TIMESTAMP(9)", "2024-02-29T12:00", _NOON),
        ("TIMESTAMP(9)", "2024-02-29 12:00:00.123456789", _NOON.replace(microsecond=123456)),
        ("TIMESTAMP(9)", "2024-02-29T12:00:00.5", _NOON.replace(microsecond=500000)),
        ("TIMESTAMP(9)", "2024-02-29 12:00:00Z", None),
        ("TIMESTAMP(9)", "0000-00-00 00:00:00", None),
        ("TIMESTAMP(9)", "2024-02-29 24:00:00", None),
        ("TIMESTAMP_LTZ(3)", "2024-02-29 12:00:00Z", _NOON.replace(tzinfo=dt.UTC)),
        ("TIMESTAMP_LTZ(3)", "2024-02-29 20:00:00", _NOON.replace(tzinfo=dt.UTC)),
        ("TIMESTAMP_LTZ(3)", "2024-02-29T12:00Z", _NOON.replace(tzinfo=dt.UTC)),
        ("TIMESTAMP_LTZ(3)", "2024-02-29 12:00Z", None),
        ("TIMESTAMP_LTZ(3)", "2024-02-29", dt.datetime(2024, 2, 28, 16, tzinfo=dt.UTC)),
        ("BOOLEAN", "1", True),
        ("BOOLEAN", "FALSE", False),
        ("BOOLEAN", "2", None),
        ("BYTES", "a\u00ff", b"a\xff"),
        ("BYTES", "\u20ac", None),
        ("INT", "5", 5),
        ("INT", "5.5", None),
        ("BIGINT", "9223372036854775808", None),
        ("DECIMAL(5, 2)", "1.5", Decimal("1.50")),
        ("DECIMAL(5, 2)", "1.555", None),
        ("DOUBLE", "1.5", 1.5),
        ("TIME(3)", "12:00:00", dt.time(12)),
        ("VARCHAR(3)", "abcd", "abcd"),
    ],
)
def test_texts_as_values(t: str, text: str, expected: Any) -> None:
    for others in ([], ["x", "2023-02-29", ""]):
        found = from_texts(pa.array([text, None, *others], pa.string()), parse_type(t), "Asia/Shanghai")
        value, nothing = found[:2].to_pylist()
        assert value == expected
        assert nothing is None


@pytest.mark.parametrize(
    ("size", "text", "expected"),
    [
        (1, "0", b"\0"),
        (1, "255", b"\xff"),
        (1, "256", None),
        (2, "256", b"\1\0"),
        (8, str(2**64 - 1), b"\xff" * 8),
        (8, str(2**64), None),
        (8, "9" * 5000, None),
        (1, "-1", None),
        (1, "1.0", None),
        (1, "\u0661", None),
        (1, "", None),
    ],
)
def test_numbers_as_bytes(size: int, text: str, expected: bytes | None) -> None:
    assert from_numbers(pa.array([text, None, "1"]), size).to_pylist() == [expected, None, (1).to_bytes(size, "big")]


def test_nested_types_are_refused() -> None:
    with pytest.raises(SchemaError, match="texts can't be converted to ARRAY<INT>"):
        from_texts(pa.array(["[]"]), parse_type("ARRAY<INT>"), "UTC")


def _flat(columns: dict[str, str], *messages: Any, zone: str = "UTC") -> list[Any]:
    flattened = FlattenedColumns({name: parse_type(t) for name, t in columns.items()})
    json_format = get_format("json")
    array = pa.array([json.dumps(message).encode() for message in messages], pa.binary())
    batch = json_format.decode_batch(array, columns_text(flattened.schema.fields))
    assert batch.errors is None
    return [tuple(row.values()) for row in flattened.select(batch.rows.values, json_format, zone).to_pylist()]


def test_flattened_columns() -> None:
    columns = {"id": "BIGINT", "a.b": "BIGINT", "x": "STRING", "a.c.d": "STRING", "a.c.e": "DATE"}
    found = _flat(
        columns,
        {"id": 1, "a": {"b": 2, "c": {"d": "x", "e": "2024-02-29"}}},
        {"a": None, "x": {"y": 1}},
        {"a": {"c": None}},
        {},
    )
    assert found == [(1, 2, None, "x", dt.date(2024, 2, 29)), (None, None, '{"y":1}', None, None), *[(None,) * 5] * 2]


def test_an_object_is_no_boolean() -> None:
    messages = [{"a": a, "b": {"c": a}} for a in (True, False, None, {}, {"x": None}, "1")]
    truths = [True, False, None, None, None, True]
    assert _flat({"a": "BOOLEAN", "b.c": "BOOLEAN"}, *messages) == [(truth, truth) for truth in truths]


def test_a_member_that_is_an_object_or_another_value() -> None:
    columns = {"a": "BIGINT", "a.b": "STRING", "a.b.c": "BIGINT"}
    found = _flat(columns, {"a": 5}, {"a": {"b": "x"}}, {"a": {"b": {"c": 7}}}, {"a": None}, {"a": {"b": "{"}})
    assert found == [(5, None, None), (None, "x", None), (None, None, 7), (None, None, None), (None, "{", None)]


def test_a_time_beside_objects_is_one_of_the_session_at_every_level() -> None:
    columns = {f"{name}{end}": t for name in ("a", "b.a") for end, t in (("", "TIMESTAMP_LTZ(3)"), (".x", "BIGINT"))}
    times = ["2024-02-29 20:00:00", "2024-02-29T20:00:00", "2024-02-29 12:00:00Z", {"x": 7}]
    found = _flat(columns, *({"a": time, "b": {"a": time}} for time in times), zone="Asia/Shanghai")
    noon = _NOON.replace(tzinfo=dt.UTC)
    assert found == [(noon, None) * 2] * 3 + [(None, 7) * 2]
