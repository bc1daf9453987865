"""Keys of changed rows in rows of a table, and merged rows, compared with a dictionary."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.streams.delta.files import DataFile
from kvformat.registry.streams.delta.matching import KeyIndex, can_match, merged

_VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [None, *range(12)]),
    "string": (pa.string(), [None, "", "a", "b", "é", "a\0"]),
    "double": (pa.float64(), [None, 0.0, 1.5, float("inf"), -2.0]),
    "decimal": (pa.decimal128(12, 2), [None, Decimal("0.00"), Decimal("1.10"), Decimal("-1.10")]),
    "boolean": (pa.bool_(), [None, True, False]),
    "date": (pa.date32(), [None, dt.date(1, 1, 1), dt.date(2024, 2, 29)]),
    "timestamp": (pa.timestamp("us", "UTC"), [None, dt.datetime(2024, 2, 29, tzinfo=dt.UTC)]),
    "bytes": (pa.binary(), [None, b"", b"\0", b"a"]),
}


@pytest.mark.parametrize("seed", range(40))
def test_rows_are_merged_as_in_a_dictionary(seed: int) -> None:
    """One to three columns of any types are the key; NULL is a value of it. Columns may be unchanged."""
    rng = random.Random(seed)
    kinds = [rng.choice(list(_VALUES)) for _ in range(rng.randrange(1, 4))]
    keys = [f"k{n}" for n in range(len(kinds))]
    types = [pa.field(key, _VALUES[kind][0]) for key, kind in zip(keys, kinds, strict=True)]
    schema = pa.schema(
        [*types, ("v", pa.list_(pa.struct([("x", pa.int32())]))), ("w", pa.string()), ("own", pa.int64())]
    )

    def some_keys(most: int) -> list[tuple[Any, ...]]:
        return list({tuple(rng.choice(_VALUES[kind][1]) for kind in kinds) for _ in range(rng.randrange(1, most))})

    def value(number: int) -> Any:
        return rng.choice([None, [], [{"x": number}, None]])

    table = {key: (value(n), f"w{n}", n) for n, key in enumerate(some_keys(40))}
    rows = [dict(zip(schema.names, (*key, *values), strict=True)) for key, values in table.items()]
    halves = [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
    old = pa.concat_tables([pa.Table.from_pylist(half, schema) for half in halves])
    changes, expected = [], dict(table)
    for number, key in enumerate(some_keys(12)):
        unchanged = rng.choice([None, [], ["v"], ["w", "v"]])
        change = {"v": value(-number), "w": rng.choice([None, "new"]), "row_kind": rng.choice(["+U", "-D"])}
        changes.append({**dict(zip(keys, key, strict=True)), **change, "unchanged_columns": unchanged})
        if key in table:
            v, w, own = table[key]
            expected[key] = (
                v if "v" in (unchanged or ()) else change["v"],
                w if "w" in (unchanged or ()) else change["w"],
                own,
            )
            if change["row_kind"] == "-D":
                del expected[key]
    of_changes = [f for f in schema if f.name != "own"]
    kinds_of = [("row_kind", pa.string()), ("unchanged_columns", pa.list_(pa.string()))]
    changed = pa.Table.from_pylist(changes, pa.schema([*of_changes, *kinds_of]))
    index = KeyIndex(changed, keys)
    places = index.places(old)
    assert index.places(changed).tolist() == [*range(len(changes))]
    found = merged(old, changed, places).to_pylist()
    assert {tuple(row[key] for key in keys): (row["v"], row["w"], row["own"]) for row in found} == expected
    assert len(found) == len(expected)


@pytest.mark.parametrize("keys", [["a"], ["a", "b"]])
def test_without_changes_no_row_has_a_changed_key(keys: list[str]) -> None:
    rows = pa.table({"a": [1.5, None], "b": ["x", None]})
    assert KeyIndex(rows.slice(0, 0), keys).places(rows).tolist() == [-1, -1]


def test_a_key_that_is_there_twice_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"have the same key twice \(a, b\)"):
        KeyIndex(pa.table({"a": [1, 1], "b": pa.nulls(2, pa.string())}), ["a", "b"])


def test_zeros_and_nan_are_equal_as_in_spark() -> None:
    index = KeyIndex(pa.table({"a": [0.0, float("nan")]}), ["a"])
    assert index.places(pa.table({"a": [-0.0, float("nan"), 1.0]})).tolist() == [0, 1, -1]


@pytest.mark.parametrize(
    ("low", "high", "inside"),
    [({"a": 1}, {"a": 4}, False), ({"a": 1}, {"a": 5}, True), ({"a": 7}, {"a": 8}, False), ({}, {}, True)],
)
def test_files_are_left_out_by_their_least_and_greatest_values(low: Any, high: Any, inside: bool) -> None:
    index = KeyIndex(pa.table({"a": [5, 9]}), ["a"])
    assert index.may_be_in(DataFile("f", 1, 1, low, high)) is inside
    with_null = KeyIndex(pa.table({"a": [5, None]}), ["a"])
    assert with_null.may_be_in(DataFile("f", 1, 1, low, high))


@pytest.mark.parametrize(
    ("low", "high", "inside"),
    [
        ({"a": 1, "b": "m"}, {"a": 9, "b": "m"}, True),
        ({"a": 1, "b": "n"}, {"a": 9, "b": "z"}, False),
        ({"a": 6, "b": "a"}, {"a": 9, "b": "z"}, False),
        ({"a": 6}, {"a": 9}, False),
        ({"b": "n"}, {"b": "z"}, False),
        ({"a": 1, "b": "n"}, {"a": 9}, True),  # without a greatest value
    ],
)
def test_a_file_is_left_out_if_any_column_of_the_key_excludes_it(low: Any, high: Any, inside: bool) -> None:
    index = KeyIndex(pa.table({"a": [5], "b": ["m"]}), ["a", "b"])
    assert index.may_be_in(DataFile("f", 1, 1, low, high)) is inside


def test_a_key_with_one_unknown_column_is_in_no_row() -> None:
    index = KeyIndex(pa.table({"a": [1, 1, 2], "b": ["x", "y", "x"]}), ["a", "b"])
    asked = pa.table({"a": [1, 2, 2, 3, 1, None, 2], "b": ["z", "y", "?", "x", None, "x", "x"]})
    assert index.places(asked).tolist() == [-1] * 6 + [2]


def test_nested_keys_are_left_to_spark() -> None:
    schema = pa.schema([("a", pa.struct([("x", pa.int32())])), ("b", pa.int32())])
    assert not can_match(schema, ["b", "a"])
    assert can_match(schema, ["b"])
