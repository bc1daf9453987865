"""Functions of ARRAY, MAP and ROW: what is refused, rows that fail, and the order of NaN."""

from __future__ import annotations

import math
import re
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import MAX_LENGTH, FlinkField, FlinkType, arrow_type, nullable
from kvformat.registry.expressions.rows import Rows, Session
from kvformat.registry.sql.expressions import read_expression
from tests.support import cost

_INT, _DOUBLE, _TEXT = FlinkType("INT"), FlinkType("DOUBLE"), FlinkType("VARCHAR", length=MAX_LENGTH)


def _array(element: FlinkType) -> FlinkType:
    return FlinkType("ARRAY", fields=(FlinkField("element", element),))


def _map(key: FlinkType) -> FlinkType:
    return FlinkType("MAP", fields=(FlinkField("key", key), FlinkField("value", _INT)))


_MAP = _map(_TEXT)
_TYPES = {
    "i": _INT, "d": _DOUBLE, "s": _TEXT, "ints": _array(_INT), "doubles": _array(_DOUBLE), "texts": _array(_TEXT),
    "nested": _array(_array(_INT)), "m": _MAP, "m2": _MAP, "longs": _array(FlinkType("BIGINT")),
    "of_doubles": _map(_DOUBLE), "of_arrays": _map(_array(_DOUBLE)),
    "multiset": FlinkType("MULTISET", fields=(FlinkField("element", _TEXT),)),
}  # fmt: skip


def _evaluated(expression: str, **columns: Any) -> tuple[Any, str]:
    """Return the value of one row, and the reason of its failure or ""."""
    arrays = {name: pa.array([columns.get(name)], arrow_type(nullable(type_))) for name, type_ in _TYPES.items()}
    rows = Rows(arrays, _TYPES, 1, Session())
    found = read_expression(expression, _TYPES).evaluate(rows).array()
    found.validate(full=True)
    return found.to_pylist()[0], rows.failures.get(0, "")


def _value(expression: str, **columns: Any) -> Any:
    found, failure = _evaluated(expression, **columns)
    assert failure == ""
    return found


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("ARRAY_APPEND(ints, 'a')", "not the type of the elements"),
        ("ARRAY_APPEND(ints, CAST(1 AS BIGINT))", "not the type of the elements"),
        ("ARRAY_CONTAINS(ARRAY['a'], s)", "not the type of the elements"),
        ("ARRAY_UNION(ints, longs)", "several types"),
        ("ARRAY_EXCEPT(ints, texts)", "no common type"),
        ("ARRAY_MAX(ARRAY[TRUE, FALSE])", "no order of BOOLEAN"),
        ("ARRAY_SORT(nested)", "no order of ARRAY"),
        ("ARRAY_DISTINCT(ARRAY[m, m2])", "can't be compared"),
        ("ARRAY_DISTINCT(ARRAY[doubles])", "can't be compared"),
        ("ARRAY_JOIN(ints, ',')", "must be texts"),
        ("ARRAY_SLICE(ints, CAST(1 AS BIGINT))", "must be an INT"),
        ("ARRAY_SORT(ints, 1)", "must be BOOLEAN"),
        ("ARRAY_JOIN(texts, 1)", "must be a text"),
        ("ARRAY[NULL]", "no common type"),
        ("ARRAY[1, 'a']", "no common type"),
        ("ARRAY[CAST(s AS TIMESTAMP(3)), CAST(s AS TIMESTAMP_LTZ(3))]", "no common type"),
        ("ARRAY[ints, longs]", "no common type"),
        ("MAP['a']", "2 arguments"),
        ("MAP['a', 1, 'b']", "needs a value"),
        ("MAP['a', NULL]", "every value is NULL"),
        ("MAP[s, 1]", "may be NULL"),
        ("MAP_FROM_ARRAYS(texts, ints)", "may be NULL"),
        ("MAP_FROM_ARRAYS(ARRAY['a', CAST(NULL AS STRING)], ints)", "may be NULL"),
        ("MAP_FROM_ARRAYS(ARRAY['a', NULL], ints)", "may be NULL"),
        ("ROW(1, NULL)", "cast it"),
        ("CARDINALITY(ROW(1, 2))", "ARRAY or MAP"),
        ("MAP_KEYS(ints)", "MAP"),
    ],
)
def test_what_can_not_be_computed_is_refused(expression: str, reason: str) -> None:
    with pytest.raises(SchemaError) as found:
        read_expression(expression, _TYPES)
    assert reason in str(found.value)


def test_a_row_fails_where_flink_converts_null() -> None:
    assert _value("ARRAY_CONCAT(ints, longs)", ints=[1], longs=[2**40]) == [1, 2**40]
    assert "convert NULL" in _evaluated("ARRAY_CONCAT(ints, longs)", ints=[None], longs=[1])[1]
    assert _value("ARRAY_CONCAT(texts, ARRAY['a'])", texts=[None]) == [None, "a"]
    assert dict(_value("MAP_UNION(m, MAP['c', 9.5])", m=[("b", None)])).keys() == {"b", "c"}


def test_arrays_of_float_and_double_become_one_of_double() -> None:
    floats = "ARRAY[CAST(0.5 AS FLOAT)]"
    assert _value(f"ARRAY_CONCAT({floats}, doubles)", doubles=[0.1]) == [0.5, 0.1]
    assert _value(f"ARRAY_CONCAT(doubles, {floats})", doubles=[0.1]) == [0.1, 0.5]


@pytest.mark.parametrize(
    ("element", "value"),
    [
        *(("SMALLINT", "TINYINT"), ("BIGINT", "INT"), ("DECIMAL(4, 1)", "DOUBLE"), ("FLOAT", "BIGINT")),
        *(("FLOAT", "DECIMAL(4, 1)"), ("DOUBLE", "FLOAT"), ("DATE", "TIMESTAMP(3)"), ("TIME", "TIMESTAMP(3)")),
        *(("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)"), ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3)"), ("STRING", "CHAR(2)")),
        *(("BYTES", "BINARY(2)"), ("ROW<a ROW<b INT>>", "ROW<c ROW<d INT>>")),
    ],
)
def test_a_value_is_cast_to_the_type_of_the_elements_in_one_direction(element: str, value: str) -> None:
    contains = "ARRAY_CONTAINS(ARRAY[CAST(NULL AS {})], CAST(NULL AS {}))"
    assert _value(contains.format(element, value)) is True
    if not re.search(r"TIMESTAMP\(|ROW|DECIMAL", element + value):
        with pytest.raises(SchemaError, match="not the type of the elements"):
            read_expression(contains.format(value, element), _TYPES)


def test_null_is_an_element_of_any_type() -> None:
    assert _value("ARRAY[ints, NULL]", ints=[1]) == [[1], None]
    assert _value("ARRAY[NULL, s]", s="a") == [None, "a"]


def test_arrays_with_null_in_them_are_not_compared() -> None:
    assert _value("ARRAY_DISTINCT(nested)", nested=[[1], None, [1], [2], None]) == [[1], None, [2]]
    assert _value("ARRAY_POSITION(nested, ARRAY[2])", nested=[[1], [2]]) == 2
    assert _value("ARRAY_EXCEPT(nested, ARRAY[ints])", nested=[[1], [2], [2]], ints=[1]) == [[2]]
    for expression in (
        *("ARRAY_DISTINCT(nested)", "ARRAY_CONTAINS(nested, ints)", "ARRAY_INTERSECT(nested, nested)"),
        *("ARRAY_DISTINCT(ARRAY[nested, nested])", "ARRAY_DISTINCT(ARRAY[ROW(nested), ROW(nested)])"),
    ):
        assert "NULL in it" in _evaluated(expression, nested=[[1], [None]], ints=[3])[1]
    for ints in ([1], None):
        row = {"EXPR$0": ints, "EXPR$1": None}
        assert _value("ARRAY_DISTINCT(ARRAY[ROW(ints, i), ROW(ints, i)])", ints=ints) == [row]


def test_nan_equals_nothing_and_zeros_are_equal_but_not_for_a_hash() -> None:
    numbers = [math.nan, 0.0, -0.0, math.nan, 1.0]
    assert [str(one) for one in _value("ARRAY_DISTINCT(doubles)", doubles=numbers)] == ["nan", "0.0", "nan", "1.0"]
    assert _value("ARRAY_INTERSECT(doubles, doubles)", doubles=[math.nan, 1.0]) == [1.0]
    assert _value("ARRAY_POSITION(doubles, d)", doubles=numbers, d=math.nan) == 0
    assert _value("ARRAY_POSITION(doubles, d)", doubles=numbers, d=-0.0) == 2
    assert _value("ARRAY_EXCEPT(doubles, ARRAY[d])", doubles=[0.0], d=-0.0) == [0.0]


def test_few_numbers_with_nan_are_sorted_as_java_inserts_them() -> None:
    nan = math.nan
    assert str(_value("ARRAY_SORT(doubles)", doubles=[3.0, nan, 1.0, None, 2.0])) == "[None, 1.0, 2.0, nan, 3.0]"
    assert str(_value("ARRAY_SORT(doubles)", doubles=[0.0, -0.0, 0.0])) == "[0.0, -0.0, 0.0]"
    assert _value("ARRAY_SORT(doubles, FALSE)", doubles=[float(i) for i in range(100)])[:2] == [99.0, 98.0]
    assert "can't be computed" in _evaluated("ARRAY_SORT(doubles)", doubles=[nan] * 32)[1]


def test_an_order_that_depends_on_how_flink_holds_texts_fails_the_row() -> None:
    for expression in ("ARRAY_SORT(texts)", "ARRAY_MAX(texts)"):
        assert "U+E000" in _evaluated(expression, texts=["\uffff", "😀"])[1]
    assert _value("ARRAY_MIN(texts)", texts=["\uffff", "😀", "a"]) == "a"
    assert _value("ARRAY_SORT(texts)", texts=["😀", "é", None]) == [None, "é", "😀"]


def test_of_equal_literals_as_keys_the_last_value_counts_in_the_place_of_the_first() -> None:
    assert _value("MAP['a', 1, 'b', 2, 'a', 3]") == [("a", 3), ("b", 2)]
    assert _value("MAP_KEYS(MAP_UNION(m, m2))", m=[("a", 1), ("b", 2)], m2=[("c", 3), ("a", 4)]) == ["c", "a", "b"]


def test_of_keys_that_are_equal_after_a_cast_the_last_value_counts() -> None:
    keys, values = [1.2, 2.5, 1.7], [1, 2, 3]
    found = _value("CAST(of_doubles AS MAP<INT, INT>)", of_doubles=list(zip(keys, values, strict=True)))
    assert (dict(found), len(found)) == ({1: 3, 2: 2}, 2)
    of_arrays = [([key], number) for key, number in zip(keys, values, strict=True)]
    found = _value("CAST(of_arrays AS MAP<ARRAY<INT>, INT>)", of_arrays=of_arrays)
    assert sorted(found) == [([1], 3), ([2], 2)]


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("CAST(multiset AS MULTISET<INT>)", [(0, 2)]),
        ("CAST(CAST(multiset AS MULTISET<BOOLEAN>) AS STRING)", "{FALSE=2}"),
        ("JSON_STRING(multiset)", '{"0":2}'),
    ],
)
def test_the_elements_of_a_multiset_are_converted_and_their_counts_stay(expression: str, found: Any) -> None:
    assert _value(expression, multiset=[("0", 2)]) == found


@pytest.mark.parametrize("key", ["COALESCE(i, 0)", "IFNULL(i, 0)", "COALESCE(NULL, i, 0)"])
def test_a_key_is_never_null_if_its_last_choice_is_a_literal(key: str) -> None:
    assert _value(f"MAP[{key}, 1]", i=None) == [(0, 1)]
    assert _value(f"MAP[{key}, 1, {key}, 2]", i=7) == [(7, 2)]
    cast = f"CAST(MAP[{key}, 1] AS MAP<DECIMAL(1, 0), INT>)"
    assert _value(cast, i=7) == [(7, 1)]
    assert "the key 12 of a map would be NULL" in _evaluated(cast, i=12)[1]


@pytest.mark.parametrize(
    "key", ["COALESCE(i, NULL)", "COALESCE(0, i)", "COALESCE(i, 0) + i", "CASE WHEN i > 1 THEN COALESCE(i, 0) END", "i"]
)
def test_a_key_that_may_be_null_is_refused_with_a_next_step(key: str) -> None:
    with pytest.raises(SchemaError, match=r"use literals, or COALESCE\(key, 'none'\)"):
        read_expression(f"MAP[{key}, 1]", _TYPES)


@pytest.mark.parametrize("keys", ["SPLIT(s, ',')", "MAP_KEYS(m)", "ARRAY['a', 'b']"])
def test_arrays_that_have_no_null_are_keys(keys: str) -> None:
    found = _value(f"MAP_FROM_ARRAYS({keys}, ints)", s="a,b", m=[("a", 8), ("b", 9)], ints=[1, 2])
    assert dict(found) == {"a": 1, "b": 2}


def test_slices_beyond_the_ends_are_cut() -> None:
    ints = [1, 2, 3]
    for start, end, wanted in ((0, 0, [1]), (-9, 2, [1, 2]), (2, 99, [2, 3]), (3, 2, []), (4, 9, []), (-2, -2, [2])):
        assert _value(f"ARRAY_SLICE(ints, {start}, {end})", ints=ints) == wanted
    assert _value("ARRAY_SLICE(ints, 2147483647, -2147483648)", ints=ints) == []


@pytest.mark.parametrize(
    "expression",
    ["ARRAY_DISTINCT(ints)", "ARRAY_UNION(ints, ints)", "ARRAY_EXCEPT(ints, ints)", "ARRAY_INTERSECT(ints, ints)",
     "ARRAY_SORT(ints)", "MAP_UNION(m, m)", "ARRAY_REMOVE(ints, 1)"],
)  # fmt: skip
def test_long_arrays_and_maps_do_not_take_quadratic_time(expression: str) -> None:
    count = 100_000
    with cost.at_most(5):
        _value(expression, ints=list(range(count)), m=[(str(i), i) for i in range(count)])
