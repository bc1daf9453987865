"""`raw`: numbers in both byte orders, in slices of batches, beside nulls and messages of another size."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry import SchemaError, get_format
from kvformat.registry.contract.schemas import resolve_schema, row_type
from kvformat.registry.contract.types import arrow_type

_NUMBERS: dict[str, tuple[str, list[Any]]] = {
    "TINYINT": ("b", [0, 1, -1, 127, -128]),
    "SMALLINT": ("h", [0, 1, -1, 2**15 - 1, -(2**15)]),
    "INT": ("i", [0, 1, -1, 2**31 - 1, -(2**31)]),
    "BIGINT": ("q", [0, 1, -1, 2**63 - 1, -(2**63)]),
    "FLOAT": ("f", [0.0, 1.5, -(2.0**-149), float("inf"), 1.0]),
    "DOUBLE": ("d", [0.0, 0.1, -5e-324, float("inf"), 1.0]),
    "BOOLEAN": ("?", [False, True]),
}


@pytest.mark.parametrize("type", _NUMBERS)
@pytest.mark.parametrize(("endianness", "order"), [("big-endian", ">"), ("little-endian", "<")])
def test_numbers_are_read_and_written_in_any_slice_of_a_batch(type: str, endianness: str, order: str) -> None:
    code, numbers = _NUMBERS[type]
    format, schema = get_format("raw", {"endianness": endianness}), f"a {type}"
    wanted: dict[bytes | None, Any] = {struct.pack(order + code, number): number for number in numbers}
    size = struct.calcsize(code)
    bad = dict.fromkeys((b"", b"\1" * (size - 1), b"\1" * (size + 1), b"\1" * 2 * size))
    for messages in (list(wanted), [None, *wanted, None], [*bad, *wanted, None, *bad, *wanted]):
        whole = pa.array([b"12345678", *messages, b"?"], pa.binary())
        for start in range(1, len(messages) + 1):
            some = whole.slice(start, len(messages) + 1 - start)
            batch = format.decode_batch(some, schema)
            batch.rows.validate(full=True)
            given = some.to_pylist()
            assert batch.rows.to_pylist() == [None if m in bad else [{"a": wanted.get(m)}] for m in given]
            errors = [None] * len(given) if batch.errors is None else batch.errors.to_pylist()
            ends = [f"type is not {size}, but {len(message or b'')}" for message in given]
            told = [error is not None and error.endswith(end) for error, end in zip(errors, ends, strict=True)]
            assert told == [message in bad for message in given]
    rows = pa.array([{"a": numbers[0]}, None, *({"a": number} for number in (*numbers, None, *numbers))])
    rows = rows.cast(pa.struct([("a", arrow_type(row_type(resolve_schema(schema)).fields[0].type))]))
    written = format.encode_batch(rows.slice(1), schema)
    assert written.errors is None
    assert written.messages.to_pylist() == [None, *wanted, None, *wanted]


def test_any_byte_but_zero_is_true() -> None:
    messages: list[bytes | None] = [bytes([byte]) for byte in range(256)]
    batch = get_format("raw").decode_batch(pa.array(messages), "a BOOLEAN")
    assert batch.rows.values.field("a").to_pylist() == [False] + [True] * 255


@pytest.mark.parametrize(
    ("charset", "error"),
    [("UTF-8", True), ("utf-8", True), ("UTF8", True), ("unicode-1-1-utf-8", True), ("US-ASCII", False)],
)
def test_malformed_text_is_an_error_by_each_name_of_utf_8_and_is_replaced_in_other_charsets(
    charset: str, error: bool
) -> None:
    messages = pa.array([b"a", b"a\xffb", None])
    batch = get_format("raw", {"charset": charset}).decode_batch(messages, "a STRING")
    assert batch.rows.to_pylist() == [[{"a": "a"}], None if error else [{"a": "a\ufffdb"}], [{"a": None}]]
    assert (batch.codes is not None) == error
    for policy, text in (("error", None), ("replace", "a\ufffdb")):
        other = get_format("raw", {"charset": charset, "invalid-text": policy}).decode_batch(messages, "a STRING")
        assert other.rows.to_pylist()[1] == (None if text is None else [{"a": text}])


@pytest.mark.parametrize(
    ("schema", "text"),
    [("a INT, b STRING", "multiple physical columns: [`a` INT, `b` STRING]"), ("a DATE", "doesn't supports 'DATE'")],
)
def test_a_schema_has_one_column_of_a_type_of_raw(schema: str, text: str) -> None:
    rows = pa.array([], arrow_type(row_type(resolve_schema(schema))))
    format = get_format("raw")
    for use in (lambda: format.decode_batch(pa.array([b"1"]), schema), lambda: format.encode_batch(rows, schema)):
        with pytest.raises(SchemaError) as caught:
            use()
        assert text in str(caught.value)
