"""The connector's metadata of Kafka's columns in Arrow. Others test the same columns by Spark's functions."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry.table.metadata import MetadataColumn, connector_type
from kvformat.registry.table.record_headers import HEADERS_TYPE, checked_headers, last_header
from kvformat.registry.table.record_input import metadata_array

_Headers = list[tuple[str, bytes | None]] | None


def _metadata(key: str, column: str, array: pa.Array) -> list[Any]:
    """Return the values of a metadata key."""
    type_ = connector_type(key)
    found = metadata_array(MetadataColumn("m", key, type_, type_), pa.record_batch({column: array}))
    found.validate(full=True)
    values: list[Any] = found.to_pylist()
    return values


def _array(records: list[_Headers]) -> pa.ListArray:
    entries = [None if one is None else [{"key": k, "value": v} for k, v in one] for one in records]
    return pa.array(entries, HEADERS_TYPE)


@pytest.mark.parametrize("start", [0, 1, 3])
def test_each_record_has_its_own_headers_of_which_the_last_of_a_name_counts(start: int) -> None:
    records: list[_Headers] = [
        [("h", b"1")], [("h", b"2")], [("h", b"3"), ("a", b"4")], [], [("a", b"5"), ("h", None), ("a", b"6")], None,
        [("a", b"7"), ("a", None)], [("a", b"8")],
    ]  # fmt: skip
    given = _array(records).slice(start)
    wanted = [sorted(dict(one or ()).items()) for one in records[start:]]
    assert _metadata("headers", "headers", given) == wanted
    lists = [[{"key": k, "value": v} for k, v in one or ()] for one in records[start:]]
    assert _metadata("header-list", "headers", given) == lists
    with_value = [{k: v for k, v in one or () if v is not None} for one in records[start:]]
    for name in ("h", "a", "none"):
        assert last_header(given, name).to_pylist() == [one.get(name) for one in with_value]


def test_headers_of_random_records_are_those_of_a_dictionary() -> None:
    randoms = random.Random(7)
    records: list[_Headers] = [
        [(randoms.choice("abc"), randoms.choice([None, b"", b"x", b"y"])) for _ in range(randoms.randrange(5))]
        for _ in range(2000)
    ]
    assert _metadata("headers", "headers", _array(records)) == [sorted(dict(one or ()).items()) for one in records]


def test_headers_may_have_chunks_and_other_types_of_text() -> None:
    records: list[_Headers] = [[("h", b"1")], None, [("a", b"2"), ("h", None)]]
    entries = pa.list_(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
    chunked = pa.chunked_array([_array(records[:1]), _array(records[1:])])
    for given in (chunked, _array(records).cast(entries)):
        assert checked_headers(given, 3).equals(_array(records))


def test_records_without_entries_have_no_headers() -> None:
    for records in ([], [None], [[], None]):
        assert _metadata("headers", "headers", _array(records)) == [[] for _ in records]
        assert _metadata("header-list", "headers", _array(records)) == [[] for _ in records]


def test_types_of_timestamps_have_names() -> None:
    types = pa.array([0, 1, -1, 2, None], pa.int32())
    names = ["CreateTime", "LogAppendTime", "NoTimestampType", "NoTimestampType", None]
    assert _metadata("timestamp-type", "timestampType", types) == names
