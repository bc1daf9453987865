"""The rules of formats, the bytes of messages, and errors."""

from __future__ import annotations

import msgpack
import pyarrow as pa
import pytest

from kvformat.registry import SchemaError
from kvformat.registry.testing import FormatContract, Sample, SparkContract
from kvformat_msgpack import MsgpackFormat

INTERVALS = ("INTERVAL YEAR TO MONTH", "INTERVAL DAY TO SECOND")
FLAT = Sample(
    "id BIGINT, name STRING",
    [{"id": 7, "name": "Ada"}, {"id": None, "name": ""}, None],
    messages=[b"\x82\xa2id\x07\xa4name\xa3Ada", b"\x82\xa2id\xc0\xa4name\xa0", None],
)
NESTED = Sample(
    "tags ARRAY<STRING>, counts MAP<STRING, INT>, place ROW<x DOUBLE, raw BYTES>",
    [
        {"tags": ["a", None], "counts": {"k": 1}, "place": {"x": 0.5, "raw": b"\x00\xff"}},
        {"tags": [], "counts": {}, "place": None},
    ],
)


class TestMsgpack(FormatContract):
    """Every rule that does not need Spark."""

    format = "msgpack"
    samples = (FLAT, NESTED)
    unsupported = ("DECIMAL", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", *INTERVALS, "VARIANT", "MULTISET")
    bad = (b"", b"\xc1", b"\xc0", b"\x82\xa2id\x07", b"\x81\xa2id\xa17", b"\x81\xa4name\xa1\xff")


class TestMsgpackInSpark(SparkContract):
    """Every rule of Columns."""

    format = "msgpack"
    samples = (FLAT,)
    unsupported = TestMsgpack.unsupported


@pytest.mark.parametrize(
    ("message", "code", "reason"),
    [
        (b"\xc1", "MALFORMED", "not MessagePack"),
        (b"", "MALFORMED", "incomplete"),
        (b"\x80\x80", "MALFORMED", "extra data"),
        (b"\x81\x90\x01", "MALFORMED", "unhashable"),
        (b"\x91" * 5000, "MALFORMED", "not MessagePack: StackError"),
        (b"\x81\xa1n" + b"\x91" * 1022 + b"\xc0", "WRONG_TYPE", "$.n: cannot read [[[[[[[...]]]]]]] as TINYINT"),
        (b"\xc0", "WRONG_TYPE", "$: expected a map, got nil"),
        (msgpack.packb([1]), "WRONG_TYPE", "$: cannot read [1] as ROW"),
        (msgpack.packb({"n": "7"}), "WRONG_TYPE", "$.n: cannot read '7' as TINYINT"),
        (msgpack.packb({"n": True}), "WRONG_TYPE", "$.n: cannot read True as TINYINT"),
        (msgpack.packb({"n": 300}), "OUT_OF_RANGE", "$.n: 300 is out of range for TINYINT"),
        (msgpack.packb({"x": 1e39}), "OUT_OF_RANGE", "$.x: 1e+39 is out of range for FLOAT"),
        (msgpack.packb({"a": [1, "x"]}), "WRONG_TYPE", "$.a[1]: cannot read 'x' as INT"),
        (msgpack.packb({"m": {None: 1}}), "WRONG_TYPE", "$.m: a key of MAP<STRING, INT> is nil"),
        (msgpack.packb({"m": {"k": 2**40}}), "OUT_OF_RANGE", "$.m['k']: 1099511627776 is out of range for INT"),
    ],
)
def test_bad_messages_are_reported(message: bytes, code: str, reason: str) -> None:
    good = msgpack.packb({"n": 1})
    schema = "n TINYINT, x FLOAT, a ARRAY<INT>, m MAP<STRING, INT>"
    batch = MsgpackFormat().decode_batch(pa.array([good, message, good]), schema)
    assert [rows and rows[0]["n"] for rows in batch.rows.to_pylist()] == [1, None, 1]
    assert batch.codes.to_pylist() == [None, code, None]
    assert reason in batch.errors[1].as_py()


def test_names_without_a_column_are_ignored() -> None:
    message = msgpack.packb({"other": [1], "n": 7.0, 5: 6})
    rows = MsgpackFormat().decode_batch(pa.array([message]), "n DOUBLE, missing INT").rows
    assert rows.to_pylist() == [[{"n": 7.0, "missing": None}]]


@pytest.mark.parametrize("column", ["d DATE", "m MAP<ARRAY<INT>, INT>", "r ROW<a DECIMAL(3, 1)>"])
def test_unsupported_types_are_refused(column: str) -> None:
    with pytest.raises(SchemaError, match="has the unsupported type"):
        MsgpackFormat().decode_batch(pa.array([], pa.binary()), column)
