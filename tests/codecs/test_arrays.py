"""Functions on parts of Arrow arrays."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pyarrow as pa

from kvformat.codecs._arrays import as_integers, field_lookup, row_lookup, spread, text_bytes, valid_mask
from kvformat.registry.contract.schemas import resolve_schema, row_type
from kvformat.registry.contract.types import arrow_type, nullable
from tests.support import random_rows
from tests.support.extent import case_count


def test_spread_values_are_those_of_take() -> None:
    rng, kinds, compared = random.Random(5), set[str](), 0
    for _ in range(case_count(quick=150, night=600)):
        row = row_type(resolve_schema(random_rows.schema(rng, columns=3, depth=2)))
        count = rng.choice([0, 1, 7, 30])
        values = random_rows.rows(rng, row, count).cast(arrow_type(nullable(row)))
        if count > 3 and rng.random() < 0.5:
            values = values.slice(rng.randint(1, 3))
        at = np.zeros(len(values) + rng.randint(0, 20), np.bool_)
        at[rng.sample(range(len(at)), len(values))] = True
        found = spread(values, at)
        found.validate(full=True)
        assert found.to_pylist() == values.take(pa.array(np.cumsum(at) - 1, mask=~at)).to_pylist()
        kinds |= {t.root for _, t in row.walk()}
        compared += len(at)
    print(f"{compared} values of {len(kinds)} types")
    assert compared > 1500
    assert len(kinds) > 15


def test_a_mask_of_values_is_that_of_arrow() -> None:
    rng, compared = random.Random(6), 0
    values = {pa.int64(): 1, pa.string(): "a", pa.bool_(): True, pa.list_(pa.int8()): [1], pa.null(): None}
    for _ in range(300):
        for kind, value in values.items():
            given = [value if rng.random() < 0.7 else None for _ in range(rng.randrange(60))]
            start = rng.randint(0, len(given))
            array = pa.array(given, kind).slice(start, rng.randint(0, len(given) - start))
            expected = array.is_valid().to_pylist()
            mask = valid_mask(array)
            assert (expected if mask is None else mask.tolist()) == expected
            assert (mask is None) == all(expected)
            compared += len(array)
    assert compared > 10_000


def test_a_value_inside_a_null_has_no_row() -> None:
    offsets, valid = pa.py_buffer(np.array([0, 2, 3, 5, 5, 6], np.int32)), pa.py_buffer(b"\x1b")
    lists = pa.Array.from_buffers(pa.list_(pa.int8()), 5, [valid, offsets], children=[pa.array(range(6), pa.int8())])
    assert lists.is_valid().to_pylist() == [True, True, False, True, True]
    elements = np.array([-1, 0, 1, 2, 3, 4, 5, 6])
    found = row_lookup(lists, lambda places: np.where(places < 0, places, places + 10))(elements)
    assert found.tolist() == [-1, 10, 10, 11, -1, -1, 14, -1]
    structs = pa.array([{"a": 1}, None, {"a": 2}])
    assert field_lookup(structs, lambda places: places)(np.array([0, 1, -1, 2])).tolist() == [0, -1, -1, 2]


def test_offsets_and_bytes_of_a_slice_are_its_own() -> None:
    texts = pa.array(["aé", "b", None, "", "cd"], pa.large_string())
    for start in range(6):
        for count in range(6 - start):
            some = texts.slice(start, count)
            offsets, data = text_bytes(some)
            found = [bytes(data[begin:end]).decode() for begin, end in pairwise(offsets)]
            assert found == [text or "" for text in some.to_pylist()]
            assert (offsets[0], offsets[-1]) == (0, len(data))
    numbers = pa.array([1, -2, None, 3], pa.int16())
    assert [as_integers(numbers.slice(at)).tolist()[-1] for at in range(4)] == [3] * 4
    assert as_integers(numbers.slice(4)).tolist() == []
