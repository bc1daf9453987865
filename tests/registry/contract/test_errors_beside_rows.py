"""An error of one message or row leaves the kinds, the errors and the values of the others as they are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry import DecodedBatch, EncodedBatch, get_format
from kvformat.registry.contract.check_results import times_outside_a_day
from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.contract.errors import EncodeError
from kvformat.registry.contract.types import arrow_type, nullable
from tests.support.probe import ProbeFormat

_DAY = 86_400_000_000_000
_TIMES = pa.time64("ns")


def _column(numbers: list[int | None], kind: pa.DataType) -> pa.StructArray:
    return pa.StructArray.from_arrays([pa.array(numbers, pa.int64()).view(kind)], names=["a"])


@pytest.mark.parametrize(
    ("flink", "kind", "good", "bad"),
    [("TIME(3)", _TIMES, 0, _DAY), ("TIMESTAMP(6)", pa.timestamp("s"), 0, 2**62)],
)
@pytest.mark.parametrize("name", ["debezium-json", "canal-json", "maxwell-json", "ogg-json"])
def test_kinds_stay_with_their_rows_beside_one_out_of_range(
    name: str, flink: str, kind: pa.DataType, good: int, bad: int
) -> None:
    format, kinds = get_format(name), pa.array(["+I", "-D", "+I", "-D", "-D"])
    mixed = format.encode_batch(_column([bad, good, good, bad, good], kind), f"a {flink}", row_kinds=kinds)
    alone = format.encode_batch(_column([good] * 5, kind), f"a {flink}", row_kinds=kinds).messages.to_pylist()
    assert alone[1] != alone[2]
    assert mixed.messages.to_pylist() == [None, alone[1], alone[2], None, alone[4]]
    assert mixed.codes is not None
    assert mixed.codes.to_pylist() == ["OUT_OF_RANGE", None, None, "OUT_OF_RANGE", None]


def test_errors_of_other_rows_stay_beside_a_time_outside_a_day() -> None:
    rows = [(1, 0), (None, 0), (1, _DAY), (None, _DAY), (2, -1), (None, 5), (3, 7)]
    numbers = pa.array([number for number, _ in rows], pa.int32())
    times = pa.array([time for _, time in rows], pa.int64()).view(_TIMES)
    struct = pa.StructArray.from_arrays([numbers, times], names=["a", "t"])
    batch = get_format("avro").encode_batch(struct, "a INT NOT NULL, t TIME(3)")
    assert batch.codes is not None
    assert batch.codes.to_pylist() == [None, "NULL_VALUE", *["OUT_OF_RANGE"] * 3, "NULL_VALUE", None]
    assert batch.messages.is_valid().to_pylist() == [True, *[False] * 5, True]


def test_errors_of_other_messages_stay_beside_a_time_outside_a_day() -> None:
    outside = b"\x02\x80\xf0\xb2\x52"
    batch = get_format("avro").decode_batch(pa.array([b"\x02\x00", b"\x02", outside, None, outside, b""]), "t TIME(3)")
    assert batch.codes is not None
    assert batch.codes.to_pylist() == [None, "MALFORMED", "OUT_OF_RANGE", None, "OUT_OF_RANGE", "MALFORMED"]
    assert batch.rows.is_valid().to_pylist() == [True, *[False] * 5]


def test_times_in_keys_are_checked_and_those_under_a_null_list_are_not() -> None:
    row = parse_schema("m MAP<TIME(3), INT>, s MULTISET<TIME(3)>, v MAP<STRING, ARRAY<TIME(3)>>")
    number = pa.struct(
        [
            ("m", pa.map_(pa.int64(), pa.int32())),
            ("s", pa.map_(pa.int64(), pa.int32())),
            ("v", pa.map_(pa.string(), pa.list_(pa.int64()))),
        ]
    )
    fine = {"m": [(0, 1)], "s": [(5, 86_400)], "v": [("a", [0, None]), ("b", None)]}
    given = [fine, fine | {"m": [(1, 1), (_DAY, 1)]}, fine | {"s": [(-1, 1)]}, fine | {"v": [("a", [_DAY])]}, None]
    rows = pa.array([fine, *given], number)[1:].cast(arrow_type(nullable(row)))
    found = {index: reason.text.partition(":")[0] for index, reason in times_outside_a_day(rows, row).items()}
    assert found == {1: "field 'm.key'", 2: "field 's.key'", 3: "field 'v.value.element'"}

    class Hiding(ProbeFormat):
        def decode_arrow(self, messages: Any, schema: Any, *, metadata: tuple[str, ...] = ()) -> DecodedBatch:
            times = _column([_DAY, 1][: len(messages)], _TIMES)
            offsets = pa.array(range(len(messages) + 1), pa.int32())
            return DecodedBatch(pa.ListArray.from_arrays(offsets, times, mask=messages.is_null()))

    batch = Hiding().decode_batch(pa.array([None, b"x"]), "a TIME(3)")
    assert (batch.errors, batch.rows.is_valid().to_pylist()) == (None, [False, True])


class _Refusing(ProbeFormat):
    """Raises for the text "boom", with its password."""

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        texts = rows.field(0).to_pylist()
        if "boom" in texts:
            raise ValueError(f"no access with {self.options['password']}")
        if "refused" in texts:
            raise EncodeError("long", reason="short", code="WRONG_TYPE")
        return super().encode_arrow(rows, schema, row_kinds=row_kinds)


def _encoded(*texts: str, kinds: list[str] | None = None) -> EncodedBatch:
    rows = pa.array([{"v": text} for text in texts])
    kinds_of = None if kinds is None else pa.array(kinds)
    return _Refusing({"password": "hunter22"}).encode_batch(rows, "v STRING", row_kinds=kinds_of)


def test_kinds_and_errors_stay_with_their_rows_beside_one_that_raises() -> None:
    texts = ["a", "boom", "bad", "b", "refused", "c"]
    batch = _encoded(*texts, kinds=["+I", "+I", "-D", "-U", "+I", "+U"])
    assert batch.messages.to_pylist() == [b"+Ia", None, None, b"-Ub", None, b"+Uc"]
    assert batch.codes is not None
    assert batch.codes.to_pylist() == [None, "KERNEL_FAILED", "BAD_RECORD", None, "WRONG_TYPE", None]
    assert batch.errors is not None
    assert batch.errors.to_pylist()[2:5] == ["'bad' can't be written", None, "short"]


def test_an_exception_of_an_encoder_shows_no_secret() -> None:
    errors = _encoded("a", "boom").errors
    assert errors is not None
    assert errors[1].as_py().endswith("failed with ValueError: no access with ******")


def test_a_batch_without_errors_has_neither_texts_nor_codes() -> None:
    """A kernel may return arrays of nulls."""

    class Silent(ProbeFormat):
        def encode_arrow(self, rows: Any, schema: Any, *, row_kinds: Any = None) -> EncodedBatch:
            nulls = pa.nulls(len(rows), pa.string())
            return EncodedBatch(rows.field(0).cast(pa.binary()), nulls, nulls)

    batch = Silent().encode_batch(pa.array([{"v": "a"}]), "v STRING")
    assert (batch.errors, batch.codes) == (None, None)
    decoded = ProbeFormat().decode_batch(pa.array([b"+Ia"]), "v STRING")
    assert (decoded.errors, decoded.codes) == (None, None)
