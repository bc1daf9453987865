"""The base class of formats checks results, and an error of one message does not affect other messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from kvformat.registry import (
    BatchSizeError,
    ChangelogMode,
    ContractError,
    DecodedBatch,
    EncodedBatch,
    Format,
    KeyValueFormat,
    Option,
    SchemaError,
    SchemaRegistryError,
    get_format,
)
from kvformat.registry.contract import isolate_errors
from kvformat.registry.contract.errors import EncodeError
from kvformat.registry.contract.normalize_input import binary_arrays
from tests.support.decoding import decoded

_ROW = pa.struct([pa.field("a", pa.string())])
_LISTS = pa.list_(_ROW)


class PlainFormat(Format):
    """Reads each message as one text. Tests replace its functions."""

    identifier: ClassVar[str] = "plain"
    changelog_mode = ChangelogMode.ALL
    option_specs: ClassVar[tuple[Option, ...]] = (Option(name="password", sensitive=True, doc="A secret."),)

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        return _rows_of(messages)

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        return EncodedBatch(rows.field(0).cast(pa.binary()))


def _rows_of(messages: pa.BinaryArray) -> DecodedBatch:
    texts = messages.to_pylist()
    return DecodedBatch(pa.array([None if text is None else [{"a": text.decode()}] for text in texts], _LISTS))


def _decoding(kernel: Callable[[pa.BinaryArray], Any], options: dict[str, str] | None = None) -> Format:
    class Made(PlainFormat):
        def decode_arrow(
            self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
        ) -> DecodedBatch:
            result: DecodedBatch = kernel(messages)
            return result

    return Made(options)


def _encoding(kernel: Callable[[pa.StructArray], Any]) -> Format:
    class Made(PlainFormat):
        def encode_arrow(
            self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
        ) -> EncodedBatch:
            result: EncodedBatch = kernel(rows)
            return result

    return Made()


_TWO = pa.array([b"x", b"y"])
_GOOD = _rows_of(_TWO).rows
_LOST = pa.array([None, [{"a": "y"}]], _LISTS)
_ROWS = pa.array([{"a": "x"}, {"a": "y"}], _ROW)
_WRONG_ROWS: dict[str, tuple[Any, str]] = {
    "no batch": ([1, 2], "the result must be a DecodedBatch, not list"),
    "no lists": (DecodedBatch(_GOOD.values), "rows must be a pyarrow ListArray of structs, not an array of struct"),
    "a list too few": (DecodedBatch(_GOOD[:1]), "one list per message: 2 messages, but 1 lists"),
    "another type": (
        DecodedBatch(pa.array([[{"a": 1}], []], pa.list_(pa.struct([pa.field("a", pa.int64())])))),
        r"rows must be structs of the schema and the metadata, struct<a: string>, not struct<a: int64>",
    ),
    "a kind too few": (DecodedBatch(_GOOD, pa.array(["+I"])), "one element per row: 2 rows, but 1 kinds"),
    "kinds of another type": (DecodedBatch(_GOOD, pa.array([1, 2])), "row_kinds must be a pyarrow StringArray or None"),
    "an unknown kind": (DecodedBatch(_GOOD, pa.array(["+I", "+X"])), r"row_kinds must be \+I, -U, \+U, -D, not '\+X'"),
    "a longer kind": (DecodedBatch(_GOOD, pa.array(["+", "I+I"])), r"row_kinds must be .*, not '\+'"),
    "no kind": (DecodedBatch(_GOOD, pa.array(["+I", None])), "row_kinds must be .*, not None"),
    "errors of another type": (DecodedBatch(_GOOD, errors=pa.array([1, 2])), "errors must be a pyarrow StringArray"),
    "an error too many": (
        DecodedBatch(_GOOD, errors=pa.array([None] * 3, pa.string())),
        "errors must have one element per message: 2 messages, but 3 elements",
    ),
    "an error beside rows": (
        DecodedBatch(_GOOD, errors=pa.array(["bad", None])),
        "the list of a message with an error must be null",
    ),
    "an error beside rows, of a slice": (
        DecodedBatch(_GOOD, errors=pa.array([None, None, "bad"])[1:]),
        "the list of a message with an error must be null",
    ),
    "codes of another type": (
        DecodedBatch(_LOST, None, pa.array(["bad", None]), pa.array([1, None])),
        "codes must be None or a pyarrow StringArray with one element per message",
    ),
    "a code too few": (
        DecodedBatch(_LOST, None, pa.array(["bad", None]), pa.array(["WRONG_TYPE"])),
        "codes must be None or a pyarrow StringArray with one element per message",
    ),
    "a code elsewhere": (
        DecodedBatch(_LOST, None, pa.array(["bad", None]), pa.array([None, "WRONG_TYPE"])),
        "codes must have a code for each error and null for the others",
    ),
    "a code too many": (
        DecodedBatch(_LOST, None, pa.array(["bad", None]), pa.array(["WRONG_TYPE", "WRONG_TYPE"])),
        "codes must have a code for each error and null for the others",
    ),
    "lost without an error": (
        DecodedBatch(_LOST),
        "1 lists and 0 messages are null, 0 messages have an error",
    ),
}
_WRONG_MESSAGES: dict[str, tuple[Any, str]] = {
    "no batch": (None, "the result must be an EncodedBatch, not NoneType"),
    "texts": (EncodedBatch(pa.array(["x", "y"])), "messages must be a pyarrow BinaryArray, not an array of string"),
    "a message too few": (EncodedBatch(_TWO[:1]), "one message per row: 2 rows, but 1 messages"),
    "an error too few": (EncodedBatch(_TWO, pa.array(["bad"])), "one element per row: 2 rows, but 1 elements"),
    "errors of another type": (EncodedBatch(_TWO, pa.array([1, 2])), "errors must be a pyarrow StringArray"),
    "an error beside a message": (
        EncodedBatch(_TWO, pa.array([None, "bad"])),
        "the message of a row with an error must be null",
    ),
}


@pytest.mark.parametrize("name", _WRONG_ROWS)
def test_bad_decode_results_raise_an_error_with_format_and_rule(name: str) -> None:
    result, rule = _WRONG_ROWS[name]
    with pytest.raises(ContractError, match=rule) as caught:
        _decoding(lambda messages: result).decode_batch(_TWO, "a STRING")
    assert caught.value.format == "plain"
    assert "format 'plain': decode_arrow breaks the contract" in str(caught.value)


@pytest.mark.parametrize("name", _WRONG_MESSAGES)
def test_bad_encode_results_raise_an_error_with_format_and_rule(name: str) -> None:
    result, rule = _WRONG_MESSAGES[name]
    with pytest.raises(ContractError, match=rule) as caught:
        _encoding(lambda rows: result).encode_batch(_ROWS, "a STRING")
    assert caught.value.format == "plain"
    assert "encode_arrow breaks the contract" in str(caught.value)


def test_valid_results_are_returned_unchanged() -> None:
    kinds = pa.array(["+I", "-U", "+U", "-D"]).slice(1)
    rows = pa.array([[{"a": "x"}, {"a": None}, None], None, [], None], _LISTS)
    errors, codes = (pa.array([None, text, None, None]) for text in ("bad", "MALFORMED"))
    batch = DecodedBatch(rows, kinds, errors, codes)
    messages = pa.array([b"x", b"y", b"z", None])
    assert _decoding(lambda some: batch if len(some) else _rows_of(some)).decode_batch(messages, "a STRING") is batch


@pytest.mark.parametrize("count", [1, 7, 8, 9])
def test_bits_after_the_last_value_are_ignored(count: int) -> None:
    """All bits of a kernel's bitmaps that belong to no message are set."""

    def kernel(messages: pa.BinaryArray) -> DecodedBatch:
        failed = np.arange(16) % 2 == 0

        def array(kind: pa.DataType, valid: Any, filled: pa.Array) -> Any:
            bits = np.where(np.arange(16) < len(messages), valid, True)
            children = [filled.values] if pa.types.is_list(kind) else []
            buffers = [pa.py_buffer(np.packbits(bits, bitorder="little")), *filled.buffers()[1 : 2 if children else 3]]
            return pa.Array.from_buffers(kind, len(messages), buffers, children=children)

        texts = array(pa.string(), failed, pa.array(["MALFORMED"] * 16))
        return DecodedBatch(array(_LISTS, ~failed, pa.array([[]] * 16, _LISTS)), None, texts, texts)

    batch = _decoding(kernel).decode_batch(_numbered(count), "a STRING")
    assert batch.codes is not None
    assert batch.codes.to_pylist() == [None if number % 2 else "MALFORMED" for number in range(count)]


# --- exceptions --------------------------------------------------------------------------------------------


class _Counted:
    """Raises for some messages and counts its calls."""

    def __init__(self, raises: Callable[[bytes], bool], error: Exception | None = None) -> None:
        self._raises, self._error, self.calls = raises, error, 0

    def __call__(self, messages: pa.BinaryArray) -> DecodedBatch:
        self.calls += 1
        for message in messages.to_pylist():
            if message is not None and self._raises(message):
                raise self._error or RuntimeError(f"no {message.decode()}\nhere")
        return _rows_of(messages)


def _numbered(count: int) -> pa.BinaryArray:
    return pa.array([b"%d" % number for number in range(count)])


def test_one_message_that_raises_costs_few_calls_and_affects_no_other_message() -> None:
    kernel = _Counted(lambda message: message == b"6789")
    batch = decoded(_decoding(kernel), _numbered(10_000), "a STRING")
    assert batch.errors is not None
    assert batch.errors.drop_null().to_pylist() == [
        "the decoder of format 'plain' failed with RuntimeError: no 6789 here"
    ]
    assert batch.errors[6789].is_valid
    assert [list_[0]["a"] for i, list_ in enumerate(batch.rows.to_pylist()) if i != 6789] == [
        str(i) for i in range(10_000) if i != 6789
    ]
    assert kernel.calls <= 32  # the batch, an empty one, and two for each halving


def test_every_message_that_raises_is_found() -> None:
    kernel = _Counted(lambda message: int(message) % 3 == 1)
    batch = decoded(_decoding(kernel), _numbered(1000), "a STRING")
    assert batch.errors is not None
    assert batch.errors.is_valid().to_pylist() == [number % 3 == 1 for number in range(1000)]


def test_a_format_that_always_raises_is_not_called_for_each_message() -> None:
    kernel = _Counted(lambda message: True)
    batch = decoded(_decoding(kernel), _numbered(100_000), "a STRING")
    assert batch.errors is not None
    assert batch.errors.null_count == 0
    told = "RuntimeError: no 0 here. It also failed for 64 single messages of the batch; the others were not tried"
    assert told in str(batch.errors[99_999])
    assert kernel.calls < 200


def test_kinds_and_errors_of_split_batches_keep_their_positions() -> None:
    def kernel(messages: pa.BinaryArray) -> DecodedBatch:
        texts = messages.to_pylist()
        if b"boom" in texts:
            raise ValueError("boom")
        rows = [None if text in (None, b"bad") else [] if text == b"" else [{"a": "o"}, {"a": "n"}] for text in texts]
        kinds = pa.array([kind for row in rows if row for kind in ("-U", "+U")], pa.string())
        errors = pa.array(["bad" if text == b"bad" else None for text in texts], pa.string())
        return DecodedBatch(pa.array(rows, _LISTS), kinds if len(kinds) else None, errors if b"bad" in texts else None)

    batch = decoded(_decoding(kernel), [b"x", b"boom", b"", b"bad", None, b"boom", b"y", b""], "a STRING")
    assert batch.errors is not None
    assert batch.row_kinds is not None
    assert [len(row) if row is not None else None for row in batch.rows.to_pylist()] == [
        2,
        None,
        0,
        None,
        None,
        None,
        2,
        0,
    ]
    assert batch.row_kinds.to_pylist() == ["-U", "+U"] * 2
    failed = "the decoder of format 'plain' failed with ValueError: boom"
    assert batch.errors.to_pylist() == [None, failed, None, "bad", None, failed, None, None]


@pytest.mark.parametrize(
    "error", [SchemaError("no such type"), SchemaRegistryError("no answer"), ImportError("no library")]
)
def test_configuration_and_registry_errors_are_raised(error: Exception) -> None:
    kernel = _Counted(lambda message: True, error)
    with pytest.raises(type(error), match=str(error)):
        _decoding(kernel).decode_batch(_TWO, "a STRING")
    assert kernel.calls == 1


def test_an_exception_of_an_empty_batch_is_raised() -> None:
    def kernel(messages: pa.BinaryArray) -> DecodedBatch:
        raise NotImplementedError("nothing at all")

    with pytest.raises(NotImplementedError, match="nothing at all"):
        _decoding(kernel).decode_batch(_TWO, "a STRING")


def test_a_batch_is_split_after_a_memory_error() -> None:
    def kernel(messages: pa.BinaryArray) -> DecodedBatch:
        if len(messages) > 3:
            raise MemoryError
        return _rows_of(messages)

    assert decoded(_decoding(kernel), _numbered(100), "a STRING").errors is None
    with pytest.raises(MemoryError):
        _decoding(_Counted(lambda message: message == b"7", MemoryError())).decode_batch(_numbered(9), "a STRING")


def test_a_worker_without_memory_makes_no_bad_records_of_good_ones() -> None:
    """It has memory for an empty batch. 300 messages are more than those that are tried one by one."""
    with pytest.raises(MemoryError):
        _decoding(_Counted(lambda message: True, MemoryError())).decode_batch(_numbered(300), "a STRING")


def test_an_exception_shows_no_secret() -> None:
    kernel = _Counted(lambda message: True, ValueError("no answer to hunter22 from http://me:hunter22@host/x"))
    errors = _decoding(kernel, {"password": "hunter22"}).decode_batch(_TWO, "a STRING").errors
    assert errors is not None
    assert "no answer to" in errors[0].as_py()
    assert "hunter22" not in str(errors)


def test_one_row_that_raises_affects_no_other_row() -> None:
    def kernel(rows: pa.StructArray) -> EncodedBatch:
        if "5" in rows.field(0).to_pylist():
            raise KeyError("five")
        return EncodedBatch(rows.field(0).cast(pa.binary()))

    rows = pa.array([{"a": str(number)} for number in range(10)], _ROW)
    batch = _encoding(kernel).encode_batch(rows, "a STRING", row_kinds=pa.array(["+I"] * 10))
    assert batch.messages.to_pylist() == [b"%d" % n if n != 5 else None for n in range(10)]
    assert batch.errors is not None
    assert batch.errors.drop_null().to_pylist() == ["the encoder of format 'plain' failed with KeyError: 'five'"]


# --- large batches -----------------------------------------------------------------------------------------

_TEXTS = [b"abc", None, b"", b"de", b"fghij", None, b"k"] * 5


@pytest.mark.parametrize("most", [1, 4, 9, 1000])
@pytest.mark.parametrize(
    "make",
    [
        lambda: pa.array(_TEXTS, pa.binary()),
        lambda: pa.array([b"?", *_TEXTS, b"?"], pa.binary()).slice(1, len(_TEXTS)),
        lambda: pa.array([b"?", *_TEXTS, b"?"], pa.large_binary()).slice(1, len(_TEXTS)),
        lambda: pa.array(_TEXTS, pa.binary_view()),
        lambda: pa.array([text and text.decode() for text in _TEXTS], pa.large_string()),
        lambda: pa.array(_TEXTS, pa.binary()).dictionary_encode(),
        lambda: pa.chunked_array([pa.array(_TEXTS[:9]), pa.array(_TEXTS[9:9], pa.binary()), pa.array(_TEXTS[9:])]),
    ],
)
def test_messages_of_any_array_are_read_in_slices(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any], most: int
) -> None:
    monkeypatch.setattr(isolate_errors, "MOST_BYTES", most)
    seen: list[pa.BinaryArray] = []

    def kernel(messages: pa.BinaryArray) -> DecodedBatch:
        assert messages.type == pa.binary()
        messages.validate(full=True)
        seen.append(messages)
        return _rows_of(messages)

    batch = _decoding(kernel).decode_batch(make(), "a STRING")
    assert batch.rows.to_pylist() == [None if text is None else [{"a": text.decode()}] for text in _TEXTS]
    assert all(len(part) == 1 or sum(map(len, part.drop_null().to_pylist())) <= most for part in seen)


def test_an_array_of_more_than_two_gigabytes_is_read_in_slices() -> None:
    lengths = [4, 700_000_000, 4, 700_000_000, 700_000_000, 2**31, 4, 700_000_000]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    data = np.zeros(int(offsets[-1]), np.uint8)  # memory is only used when it is written
    messages = pa.Array.from_buffers(pa.large_binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    for given in (messages, pa.chunked_array([messages.slice(0, 3), messages.slice(3)])):
        batch = get_format("raw").decode_batch(given, "a INT")
        assert batch.rows.to_pylist() == [[{"a": 0}] if length == 4 else None for length in lengths]
        assert batch.errors is not None
        assert batch.errors[1].as_py() == "Size of data received for deserializing INT type is not 4, but 700000000"
        assert batch.errors[5].as_py() == "the message has 2147483648 bytes, the limit is 2147483647 bytes"


def test_too_large_results_are_reported() -> None:
    data = np.zeros(2**31, np.uint8)
    offsets = np.arange(5) * 2**29
    messages = pa.Array.from_buffers(pa.large_binary(), 4, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    with pytest.raises(BatchSizeError, match=r"do not fit one Arrow array.*smaller batches"):
        get_format("raw").decode_batch(messages, "a BYTES")


@pytest.mark.parametrize("of", [pa.int64(), pa.list_(pa.binary()), pa.dictionary(pa.int8(), pa.int32())])
def test_messages_of_another_type_are_refused(of: pa.DataType) -> None:
    told = "format 'json': messages must be a binary or string column, not .*: pass the column with the messages"
    with pytest.raises(SchemaError, match=told) as caught:
        get_format("json").decode_batch(pa.array([None], of), "a INT")
    assert caught.value.format == "json"


def test_empty_inputs_are_accepted() -> None:
    assert [len(part) for part in binary_arrays(pa.chunked_array([], pa.binary()))] == [0]
    assert len(get_format("json").decode_batch(pa.chunked_array([], pa.large_binary()), "a INT").rows) == 0
    assert len(get_format("json").decode_batch(pa.array([], pa.null()), "a INT").rows) == 0


# --- values outside a type's range -------------------------------------------------------------------------


def _stored(numbers: list[int | None], kind: pa.DataType) -> pa.Array:
    return pa.array(numbers, pa.int64() if kind.bit_width == 64 else pa.int32()).view(kind)


@pytest.mark.parametrize(
    ("kind", "flink", "far", "near"),
    [
        (pa.timestamp("s"), "TIMESTAMP(6)", 2**62, 1_700_000_000),
        (pa.timestamp("ms", "Europe/Berlin"), "TIMESTAMP_LTZ(6)", -(2**62), 1_700_000_000_000),
        (pa.duration("s"), "INTERVAL DAY TO SECOND", 2**62, 86_400),
        (pa.time64("us"), "TIME(3)", 2**62, 1_000_000),
        (pa.time32("s"), "TIME(3)", 86_400, 86_399),
        (pa.date64(), "DATE", 2**62, 86_400_000),
    ],
)
def test_a_number_outside_the_range_of_its_type_is_an_error_of_its_row(
    kind: pa.DataType, flink: str, far: int, near: int
) -> None:
    format, rows = get_format("json"), [near, far, None, near]
    values = pa.StructArray.from_arrays([_stored(rows, kind)], names=["a"])
    fine = pa.StructArray.from_arrays([_stored([near], kind)], names=["a"])
    good = format.encode_batch(fine, f"a {flink}").messages[0].as_py()
    batch = format.encode_batch(values, f"a {flink}")
    assert batch.messages.to_pylist() == [good, None, b'{"a":null}', good]
    assert batch.errors is not None
    assert batch.errors[1].as_py().startswith(("column 'a': a value of", "field 'a': a TIME must be"))
    assert batch.errors.null_count == 3


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("name", ["json", "csv", "avro"])
def test_nanoseconds_below_a_microsecond_are_dropped_also_of_times_before_1970(name: str, zone: str | None) -> None:
    nanos = [-1, None, -999, -1000, -1001, 0, 999, 1000, -(2**63), 2**63 - 1]
    wanted = [None if one is None else one // 1000 for one in nanos]
    schema, options = f"a TIMESTAMP{'_LTZ' if zone else ''}(6)", {"timestamp_mapping.legacy": "false"}
    format = get_format(name, options if name == "avro" else {"null-literal": "-"} if name == "csv" else {})
    values = _stored([7, *nanos], pa.timestamp("ns", zone))[1:]
    written = format.encode_batch(pa.StructArray.from_arrays([values], ["a"]), schema)
    assert written.errors is None
    exact = pa.StructArray.from_arrays([_stored(wanted, pa.timestamp("us", zone and "UTC"))], ["a"])
    assert written.messages.equals(format.encode_batch(exact, schema).messages)
    found = format.decode_batch(written.messages, schema).rows.flatten().field("a")
    assert found.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist() == wanted


def test_an_encode_error_becomes_the_error_of_its_row() -> None:
    def kernel(rows: pa.StructArray) -> EncodedBatch:
        if "x" in rows.field(0).to_pylist():
            raise EncodeError("long text", reason="x is bad")
        return EncodedBatch(rows.field(0).cast(pa.binary()))

    batch = _encoding(kernel).encode_batch(_ROWS, "a STRING")
    assert batch.errors is not None
    assert batch.errors.to_pylist() == ["x is bad", None]


_DAY = 86_400_000_000_000
_NO_TIME = "a TIME must be at least 00:00:00 and before 24:00:00"


@pytest.mark.parametrize("format", ["json", "csv", "avro", "debezium-json", "canal-json", "maxwell-json", "ogg-json"])
def test_a_time_outside_a_day_is_an_error_of_its_row_in_every_format(format: str) -> None:
    codec = get_format(format)
    times = [0, -1, _DAY, _DAY - 1_000_000, None, 2**63 - 1, -(2**63)]
    rows = pa.StructArray.from_arrays([_stored(times, pa.time64("ns"))], names=["t"])
    good = codec.encode_batch(rows.take(pa.array([0, 3, 4])), "t TIME(3)")
    assert good.errors is None
    kinds = pa.array(["+I"] * len(times))
    batch = codec.encode_batch(rows, "t TIME(3)", row_kinds=kinds)
    why = f"field 't': {_NO_TIME}"
    assert batch.errors is not None
    assert batch.errors.to_pylist() == [None, why, why, None, None, why, why]
    assert batch.messages.drop_null() == good.messages


def test_nested_times_are_checked_except_at_nulls() -> None:
    day = pa.array([_DAY], pa.int64()).view(pa.time64("ns"))
    nine = pa.array([1], pa.int64()).view(pa.time64("ns"))
    fine, bad = nine[0], day[0]
    hidden = pa.StructArray.from_arrays([day], names=["t"], mask=pa.array([True]))
    kind = pa.struct(
        [
            pa.field("r", pa.struct([pa.field("t", pa.time64("ns"))])),
            pa.field("l", pa.list_(pa.time64("ns"))),
            pa.field("m", pa.map_(pa.string(), pa.struct([pa.field("t", pa.time64("ns"))]))),
        ]
    )
    rows = [
        {"r": {"t": fine}, "l": [fine, None], "m": [("a", {"t": fine}), ("b", None)]},
        {"r": {"t": bad}, "l": [bad], "m": None},
        {"r": None, "l": [fine, bad], "m": []},
        {"r": None, "l": None, "m": [("a", {"t": fine}), ("b", {"t": bad})]},
        None,
    ]
    format, schema = get_format("json"), "r ROW<t TIME(3)>, l ARRAY<TIME(3)>, m MAP<STRING, ROW<t TIME(3)>>"
    batch = format.encode_batch(pa.array([rows[0], *rows], kind).slice(1), schema)
    assert batch.errors is not None
    assert batch.errors.to_pylist() == [
        None, *(f"field '{path}': {_NO_TIME}" for path in ("r.t", "l.element", "m.value.t")), None
    ]  # fmt: skip
    assert batch.messages.is_valid().to_pylist() == [True, False, False, False, False]
    under = pa.StructArray.from_arrays([hidden], names=["r"])
    assert format.encode_batch(under, "r ROW<t TIME(3)>").messages.to_pylist() == [b'{"r":null}']


@pytest.mark.parametrize("encoding", ["binary", "json"])
def test_avro_times_outside_a_day_are_errors(encoding: str) -> None:
    format, schema = get_format("avro", {"encoding": encoding}), "t TIME(3), a ARRAY<TIME(3)>"
    texts = [b"\x02\x00\x02\x00"] * 30
    texts[3:6] = [b"\x02\x09\x02\x00", b"\x02\x80\xf0\xb2\x52\x02\x00", b"\x02\x00\x02\x02\x02\xfe\xff\xff\xff\x0f\x00"]
    if encoding == "json":
        texts = [b'{"t":{"int":0},"a":{"array":[]}}'] * 30
        texts[3:6] = [
            b'{"t":{"int":%d},"a":{"array":%s}}' % pair
            for pair in ((-5, b"[]"), (86_400_000, b"[]"), (0, b'[{"int":2147483647}]'))
        ]
    batch = decoded(format, texts, schema)
    assert batch.errors is not None
    assert {row: text for row, text in enumerate(batch.errors.to_pylist()) if text} == {
        3: f"field 't': {_NO_TIME}",
        4: f"field 't': {_NO_TIME}",
        5: f"field 'a.element': {_NO_TIME}",
    }
    assert batch.rows.value_lengths().fill_null(0).to_pylist() == [0 if row in (3, 4, 5) else 1 for row in range(30)]


def test_row_kinds_keep_their_positions_after_a_time_outside_a_day() -> None:
    kind = pa.list_(pa.struct([pa.field("t", pa.time64("ns"))]))
    numbers = [[1], [2, _DAY], [], None, [3, 4]]

    def kernel(messages: pa.BinaryArray) -> DecodedBatch:
        rows = [None if row is None else [{"t": number} for number in row] for row in numbers[: len(messages)]]
        stored = pa.array(rows, pa.list_(pa.struct([pa.field("t", pa.int64())])))
        times = pa.StructArray.from_arrays([stored.values.field(0).view(pa.time64("ns"))], names=["t"])
        lists = pa.ListArray.from_arrays(stored.offsets, times, type=kind, mask=stored.is_null())
        return DecodedBatch(lists, pa.array(["+I", "-U", "+U", "-U", "+U"][: len(times)]))

    batch = decoded(_decoding(kernel), [b"", b"", b"", None, b""], "t TIME(3)")
    assert batch.rows.value_lengths().to_pylist() == [1, None, 0, None, 2]
    assert batch.row_kinds is not None
    assert batch.row_kinds.to_pylist() == ["+I", "-U", "+U"]
    assert batch.errors is not None
    assert batch.errors.to_pylist() == [None, f"field 't': {_NO_TIME}", None, None, None]


@pytest.mark.parametrize("format", ["json", "csv", "debezium-json", "canal-json", "maxwell-json", "ogg-json"])
def test_the_lowest_and_the_highest_timestamp_are_written(format: str) -> None:
    numbers = [-(2**63), -(2**63) + 1, 2**63 - 1, 0]
    local, zoned = _stored(numbers, pa.timestamp("us")), _stored(numbers, pa.timestamp("us", "UTC"))
    rows = pa.StructArray.from_arrays([local, zoned], names=["a", "b"])
    batch = get_format(format).encode_batch(rows, "a TIMESTAMP(6), b TIMESTAMP_LTZ(6)")
    assert batch.errors is None
    texts = ["-290308-12-21 19:59:05.224192", "-290308-12-21 19:59:05.224193", "+294247-01-10 04:00:54.775807"]
    for message, text in zip(batch.messages.to_pylist(), texts, strict=False):
        assert message.decode().count(f'"{text}"') == 1
        assert message.decode().count(f'"{text}Z"') == 1


@pytest.mark.parametrize("given", [[b""], b"", None, ({"id": 1},)])
def test_inputs_that_are_not_arrow_arrays_are_reported(given: Any) -> None:
    for name in ("json", "csv", "canal-json"):
        with pytest.raises(SchemaError, match=rf"a pyarrow Array.*not {type(given).__name__}: pyarrow\.array"):
            get_format(name).decode_batch(given, "id INT")
        if given is None:
            continue  # encode_batch counts its rows first
        with pytest.raises(SchemaError, match=rf"a pyarrow StructArray.*not {type(given).__name__}: pyarrow\.array"):
            get_format(name).encode_batch(given, "id INT")
    table = KeyValueFormat("id INT", {"key.format": "json", "key.fields": "id", "value.format": "json"})
    for keys, values in ((given, pa.array([b"{}"])), (pa.array([b"{}"]), given)):
        if keys is not None:
            with pytest.raises(SchemaError, match="a pyarrow Array"):
                table.decode_batch(keys, values)
