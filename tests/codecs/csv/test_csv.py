"""Read and write csv: options, hostile input, the batch reader against the message reader, round trips."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvformat.codecs._arrays import to_arrow
from kvformat.codecs._csv.batch_reader import CsvBatchReader
from kvformat.codecs._csv.message_reader import CsvMessageReader
from kvformat.codecs._csv.settings import ReadSettings
from kvformat.registry import get_format
from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.contract.errors import OptionError, SchemaError
from kvformat.registry.contract.types import FlinkType
from tests.support import vectors

_ORDERS = (
    "id BIGINT, customer STRING, note STRING, price DOUBLE, amount DECIMAL(10, 2), at TIMESTAMP(3), paid BOOLEAN, "
    "tags ARRAY<STRING>, ship ROW<city STRING, zip INT, at TIMESTAMP_LTZ(3)>"
)
_MORE = (
    "i1 TINYINT, i2 SMALLINT, i INT, f FLOAT, d DATE, t TIME(3), b BYTES, z TIMESTAMP_LTZ(3), wide DECIMAL(38, 18), "
    "ns ARRAY<INT>, s CHAR(3)"
)
_EVERYTHING = f"{_ORDERS}, {_MORE}"
_TEXTS = ["", "plain", "with blank", "é ß 世界", 'quote " in it', "a, b", "😀", "x" * 70, "a\\b", "two\nlines", "NULL"]
_INTEGERS = ["0", "-7", "127", "007", " 5 ", "+5", "300", "40000", "9223372036854775807", "9223372036854775808", "1.0"]


def _order(rng: random.Random, elements: str) -> list[str]:
    """Texts for the columns of `_EVERYTHING`; one value of ten is unusual, or wrong."""

    def usual(good: list[str], odd: list[str]) -> str:
        return rng.choice(odd if rng.random() < 0.1 else good)

    number = usual([str(rng.randrange(-(2**63), 2**63)), str(rng.randrange(100))], [*_INTEGERS, "", "x"])
    stamp = usual(
        ["2024-02-29 23:59:59.123", "1969-12-31 00:00:00", "2024-06-01 12:00:00.123456"],
        ["2024-02-30 00:00:00", "2024-02-29 24:00:00", " 2024-06-01 12:00:00 ", "2024-06-01T12:00:00", "", "NULL"],
    )
    price = usual(
        [repr(rng.random() * 1000), "1.5e300", "-0.0", "3", "1E-7"], ["NaN", "1e400", " 1.5 ", "1f", "0x1p3", ".", ""]
    )
    amount = usual(
        ["12.50", str(rng.randrange(10**8)), "-0.01", "1.5"], ["1.005", "1e2", "123456789.1", " 1", "", "1E+400", ".5"]
    )
    small = usual(["-128", "127", "5", "0"], _INTEGERS)
    zoned = usual(["2024-01-01 00:00:00Z", "2024-01-01 00:00:00.5Z"], [stamp, "2024-01-01 00:00:00ZZ"])
    return [
        number,
        f"c-{rng.randrange(10**6)}",
        rng.choice(_TEXTS),
        price,
        amount,
        stamp,
        usual(["true", "false"], ["TRUE", " true ", "yes", ""]),
        elements.join(rng.choice(["a", "b c", ""]) for _ in range(rng.randrange(4))),
        elements.join([rng.choice(["Ulm", ""]), small, zoned][: usual(["3"], ["2", "1", "0"]).count("3") * 3 or 2]),
        small,
        small,
        small,
        price,
        usual(["2024-02-29", "0001-01-01", "9999-12-31"], ["2024-2-9", "2023-02-29", "", "1582-10-10"]),
        usual(["10:11:12", "10:11:12.345", "00:00"], ["24:00:00", "10:11:12.", "1:2:3", "10:11:12.123456789"]),
        usual(["AAH/", "", "YQ=="], ["YQ=", "YWJj YQ==", "!"]),
        zoned,
        usual(["1", "0.123456789012345678", "-12345678901234567.25"], ["1e-18", "0.0000000000000000005", "1e25"]),
        elements.join(rng.choice(["1", " 2", "-3"]) for _ in range(rng.randrange(4))),
        rng.choice(["abc", "abcdef"]),
    ]


def _written(rng: random.Random, columns: list[str], reading: ReadSettings, more_quotes: float) -> str:
    delimiter, quote, escape = reading.delimiter, reading.quote, reading.escape
    texts = []
    for column in columns:
        needed = any(c in column for c in (delimiter, "\n", *filter(None, (quote, escape))))
        if quote is not None and (needed or rng.random() < more_quotes):
            if escape is not None and rng.random() < 0.5:
                column = column.replace(escape, escape * 2).replace(quote, escape + quote)
            else:
                column = column.replace(escape, escape * 2) if escape else column
                column = column.replace(quote, quote * 2)
            column = quote + column + quote + rng.choice(["", "", "", " "])
        texts.append(column)
    return delimiter.join(texts) + rng.choice(["", "", "", "\n", "\r\n"])


def _messages(rng: random.Random, count: int, schema: str, reading: ReadSettings) -> list[bytes]:
    """Ordinary messages of several producers, with a few unusual and wrong values."""
    width = len(parse_schema(schema).fields)
    found = []
    for _ in range(count):
        columns = _order(rng, reading.element_delimiter)[:width]
        found.append(_written(rng, columns, reading, rng.choice([0, 0, 0.3, 1])).encode())
    return found


def _mutated(rng: random.Random, message: bytes) -> bytes:
    data = bytearray(message)
    for _ in range(rng.randrange(1, 3)):
        place = rng.randrange(len(data) or 1)
        kind = rng.randrange(4)
        if kind == 0:
            data[place : place + 1] = bytes([rng.choice(b"\"\\',;|# \n\r\t0-+.eZ:\x00\x1f\x7f\x80\xc3\xed\xef\xff")])
        elif kind == 1:
            del data[place : place + 1]
        elif kind == 2:
            data.insert(place, rng.choice(b"\"\\',;| \n\r01-"))
        else:
            del data[place:]
    return bytes(data)


def _taken_and_equal(schema: str, reading: ReadSettings, messages: list[bytes]) -> float:
    """The share of messages that the batch reader parses; each must have the message reader's result."""
    row: FlinkType = parse_schema(schema)
    exact, fast = CsvMessageReader(row, reading), CsvBatchReader(row, reading)
    rows, refused = fast.read(pa.array(messages, pa.binary()))
    rows.validate(full=True)
    taken = np.flatnonzero(~refused)
    answers = [exact.read(messages[index]) for index in taken]
    wrong = [messages[i] for i, (found, _) in zip(taken, answers, strict=True) if found is None or len(found) != 1]
    assert not wrong, f"taken, but the exact reader has an error or no row: {wrong[:3]}"
    wanted = to_arrow([found[0] for found, _ in answers if found], row)
    for index, got, expected in zip(taken, rows.take(pa.array(taken)), wanted, strict=True):
        a, b = vectors.from_arrow(got, row), vectors.from_arrow(expected, row)
        assert vectors.same(a, b, row), (messages[index], a, b)
    return len(taken) / len(messages)


_SETTINGS = [
    ReadSettings(),
    ReadSettings(lenient=True),
    ReadSettings(null_literal="", comments=True),
    ReadSettings(null_literal="NULL", lenient=True, element_delimiter="|"),
    ReadSettings(escape="\\", empty_string_as_null=True),
    ReadSettings(trim=True, null_literal="NULL"),
    ReadSettings(trim=True, escape="^", lenient=True),
    ReadSettings(delimiter="\t", quote="'", escape="\\"),
    ReadSettings(delimiter=";", quote=None, element_delimiter=","),
]


@pytest.mark.parametrize("reading", _SETTINGS, ids=str)
def test_the_batch_reader_answers_as_the_message_reader(reading: ReadSettings) -> None:
    rng = random.Random(20260101)
    assert _taken_and_equal(_EVERYTHING, reading, _messages(rng, 1500, _EVERYTHING, reading)) > 0.02
    assert _taken_and_equal(_ORDERS, reading, _messages(rng, 1500, _ORDERS, reading)) > 0.15


@pytest.mark.parametrize("reading", _SETTINGS, ids=str)
def test_the_batch_reader_answers_as_the_message_reader_on_broken_messages(reading: ReadSettings) -> None:
    rng = random.Random(7)
    messages = [_mutated(rng, message) for message in _messages(rng, 3000, _ORDERS, reading)]
    _taken_and_equal(_ORDERS, reading, messages)
    narrow = [_mutated(rng, message) for message in _messages(rng, 1000, "id BIGINT, s STRING", reading)]
    _taken_and_equal("id STRING, s STRING", reading, narrow)
    _taken_and_equal("id STRING", reading, narrow)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, '7,Anna,"a b",1.5,12.50,"2024-02-29 23:59:59.123",true,a;b,"Ulm;1;2024-01-01 00:00:00Z"'),
        ({}, '"7","Anna","say ""hi"", you","1.5",12.50,"2024-02-29 23:59:59","true","a;b",\r\n'),
        ({"escape-character": "\\"}, '7,Anna\\, B.,"\\"hi\\"\\n",1.5,12.5,2024-02-29 23:59:59,false,,'),
        ({"trim-spaces": "true"}, ' 7 , Anna, "a, b" ,1.5 ,12.50, "2024-02-29 23:59:59.123" ,true ,a ; b,'),
        ({"null-literal": ""}, ",,,,,,,,"),
        ({"ignore-parse-errors": "true"}, ",,,,,,,,"),
        ({}, " 7 ,Anna, b ,1e3,1.005, 2024-02-28 23:59:59 ,TRUE,,"),
    ],
)
def test_the_batch_reader_parses_ordinary_messages(options: dict[str, str], message: str) -> None:
    row, format = parse_schema(_ORDERS), get_format("csv", options)
    names = {"escape-character": "escape", "null-literal": "null_literal"}
    reading = ReadSettings(
        **{names[k]: v for k, v in options.items() if k in names},
        trim="trim-spaces" in options,
        lenient="ignore-parse-errors" in options,
    )
    messages = [message.encode()] * 20
    assert _taken_and_equal(_ORDERS, reading, messages) == 1.0
    assert CsvMessageReader(row, reading).read(messages[0])[1] is None
    assert format.decode_batch(pa.array(messages), _ORDERS).errors is None


def test_the_batch_reader_answers_as_flink() -> None:
    """A message gives the same rows alone and in a batch. Alone, it more often takes the short path."""
    for case in vectors.cases("csv"):
        if case["direction"] != "decode" or "factory_error" in case or not case["messages"]:
            continue
        format, columns, row = get_format("csv", case["options"]), vectors.columns(case), vectors.row_of(case)
        messages = [vectors.message_bytes(message["in"]) for message in case["messages"]]
        together = format.decode_batch(pa.array(messages, pa.binary()), columns)
        for index, message in enumerate(messages):
            alone = format.decode_batch(pa.array([message], pa.binary()), columns)
            got, wanted = together.rows[index].values, alone.rows[0].values
            assert (got is None) == (wanted is None), message
            for a, b in zip(got or (), wanted or (), strict=True):
                assert vectors.same(vectors.from_arrow(a, row), vectors.from_arrow(b, row), row), message


def test_a_batch_does_not_depend_on_its_neighbours() -> None:
    rng, reading = random.Random(11), ReadSettings()
    messages = _messages(rng, 150, _ORDERS, reading)
    messages += [_mutated(rng, message) for message in _messages(rng, 150, _ORDERS, reading)]
    rng.shuffle(messages)
    format = get_format("csv")
    together = format.decode_batch(pa.array([None, *messages], pa.binary()).slice(1), _ORDERS)
    errors = together.errors.to_pylist() if together.errors is not None else [None] * len(messages)
    for index, message in enumerate(messages):
        alone = format.decode_batch(pa.array([message], pa.binary()), _ORDERS)
        assert repr(together.rows[index].as_py()) == repr(alone.rows[0].as_py()), message
        assert errors[index] == (alone.errors[0].as_py() if alone.errors is not None else None), message


# --- hostile input --------------------------------------------------------------------------------------

_THREE = "a BIGINT, b STRING, c DECIMAL(10, 2)"
_HOSTILE: dict[str, tuple[bytes, bool]] = {  # name -> message, whether it is an error
    "50 MB of text": (b"1," + b"x" * 50_000_000 + b",1", False),
    "50 MB of quoted text": (b'1,"' + b"x" * 50_000_000 + b'",1', False),
    "50 MB of delimiters": (b"," * 50_000_000, True),
    "a million fields": (b"1," * 1_000_000, True),
    "a million pairs of quotes": (b'1,"' + b'""' * 1_000_000 + b'",1', False),
    "a million quotes that are never closed": (b'1,"' + b'""' * 1_000_000 + b",1", True),
    "a number of a million digits": (b"9" * 1_000_000 + b",x,1", True),
    "a decimal of a million digits": (b"1,x," + b"9" * 1_000_000, False),
    "a huge exponent": (b"1,x,1e100000000", False),
    "a tiny exponent": (b"1,x,1e-100000000", False),
    "a million lines": (b"1,x,1\n" * 1_000_000, False),
    "bytes that are not UTF-8": (b"1,\xff\xfe,1", True),
    "nothing but zeros": (b"\x00" * 1000, True),
}


@pytest.mark.parametrize("name", _HOSTILE)
def test_hostile_messages_do_not_affect_neighbours(name: str) -> None:
    message, is_error = _HOSTILE[name]
    good = b"7,c,1.25"
    format = get_format("csv")
    batch = format.decode_batch(pa.array([good, message, good], pa.binary()), _THREE)
    errors = batch.errors.to_pylist() if batch.errors is not None else [None] * 3
    assert (errors[1] is not None) == is_error, errors
    assert is_error == (not batch.rows[1].is_valid)
    assert errors[0] is None
    assert errors[2] is None
    assert (
        batch.rows[0].as_py() == batch.rows[2].as_py() == format.decode_batch(pa.array([good]), _THREE).rows[0].as_py()
    )
    assert all(error is None or len(error) < 300 for error in errors)
    lenient = get_format("csv", {"ignore-parse-errors": "true"}).decode_batch(pa.array([message], pa.binary()), _THREE)
    assert lenient.errors is None


def test_comments_take_bounded_memory() -> None:
    message = b"#\n" * 1_000_000 + b"1,x,1"
    batch = get_format("csv", {"allow-comments": "true"}).decode_batch(pa.array([message]), _THREE)
    assert batch.rows.to_pylist()[0][0]["b"] == "x"


def test_errors_name_the_field() -> None:
    schema = "id INT, ship ROW<zip INT, at DATE>, prices ARRAY<DECIMAL(5, 2)>"
    for message, reason in (
        (b"x,,", "field 'id': cannot read \"x\" as INT"),
        (b"1,5;2023-02-29,", "field 'ship.at': cannot read \"2023-02-29\" as DATE"),
        (b"1,5,", "field 'ship': row length mismatch: 2 fields expected but was 1"),
        (b"1,,1;?", "field 'prices[]': cannot read \"?\" as DECIMAL(5, 2)"),
        (b"1,", "row length mismatch: 3 fields expected but was 2"),
        (b"1,,,x", "too many columns: expected at most 3"),
        (b'1,"x', "no closing quote for the value that begins at character 3"),
        (b'1,"x"y,', "after a closing quote, found 'y' at character 6"),
        (b"", "no record"),
        (b"1,,\xff", "not UTF-8"),
    ):
        batch = get_format("csv").decode_batch(pa.array([message]), schema)
        assert batch.errors is not None, message
        assert reason in batch.errors[0].as_py(), message


# --- options and types ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"field-delimiter": ";;"}, "Option 'csv.field-delimiter' must be a string with single character, but was: ;;"),
        ({"field-delimiter": "\\"}, "must be a string with single character"),
        ({"quote-character": "\\t"}, "'csv.quote-character' must be a string with single character"),
        ({"array-element-delimiter": "😀"}, "'csv.array-element-delimiter' must be"),
        ({"escape-character": ""}, "'csv.escape-character' must be"),
        ({"disable-quote-character": "true", "quote-character": '"'}, "at the same time"),
    ],
)
def test_options_that_cannot_work(options: dict[str, str], text: str) -> None:
    for batch in (
        lambda format: format.decode_batch(pa.array([], pa.binary()), "a INT"),
        lambda format: format.encode_batch(pa.array([], pa.struct([("a", pa.int32())])), "a INT"),
    ):
        with pytest.raises(OptionError, match=r"csv") as caught:
            batch(get_format("csv", options))
        assert text in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("a MAP<STRING, INT>", "Unsupported type 'MAP<STRING, INT>' for field 'a'"),
        ("a INTERVAL DAY TO SECOND", "for field 'a'"),
        ("a ARRAY<ARRAY<INT>>", "Only simple types are supported in the second level nesting of fields 'a'"),
        ("a ROW<b ROW<c INT>>", "second level"),
    ],
)
def test_types_that_csv_does_not_support(schema: str, text: str) -> None:
    with pytest.raises(SchemaError) as caught:
        get_format("csv").decode_batch(pa.array([], pa.binary()), schema)
    assert text in str(caught.value)


def test_time_of_more_than_milliseconds_is_written_but_not_read() -> None:
    with pytest.raises(SchemaError, match="precision: 6"):
        get_format("csv").decode_batch(pa.array([], pa.binary()), "t TIME(6)")
    times = pa.StructArray.from_arrays([pa.array([1_234_567_000], pa.time64("ns"))], ["t"])
    assert get_format("csv").encode_batch(times, "t TIME(6)").messages.to_pylist() == [b"00:00:01.234"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_encodings_are_found(encoding: str) -> None:
    message = '1,"é,😀",2.5'.encode(encoding)
    batch = get_format("csv").decode_batch(pa.array([message, b"1,x,2.5"]), _THREE)
    assert batch.errors is None
    assert batch.rows.to_pylist()[0][0]["b"] == "é,😀"


def test_data_after_the_record_may_be_malformed() -> None:
    batch = get_format("csv").decode_batch(pa.array([b"1,x,2\ny\xff", b"1,x,2\n\xff", b"1,x,2\xff"]), _THREE)
    assert batch.errors is not None
    assert [error is None for error in batch.errors.to_pylist()] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ("1,x,2\n?", False),
        ("1,x,2\ny?", False),
        ("1,x,2\n" + "y" * 3993 + "?", False),
        ("1,x,2\n" + "y" * 3994 + "?", True),
        ("1,x,2\n" + "😀" * 1997 + "?", True),
        ("1,x,2\n" + "y" * 8000 + "?", True),
        ("1,x,2" + "0" * 3995 + "\ny?", False),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-32-le", "utf-32-be"])
def test_utf_32_is_decoded_in_blocks(text: str, is_read: bool, encoding: str) -> None:
    """An invalid code point ("?" here) invalidates its block of 4000 UTF-16 units."""
    message = text.encode(encoding).replace("?".encode(encoding), b"\x3f\x3f\x3f\x3f")
    batch = get_format("csv").decode_batch(pa.array([message]), _THREE)
    assert (batch.errors is None) is is_read


# --- round trips ----------------------------------------------------------------------------------------

_WORD = st.text(st.characters(codec="utf-8"), max_size=30)
_ELEMENT = st.text(st.characters(codec="utf-8", exclude_characters=";"), min_size=1, max_size=9).filter(
    lambda text: text != "NULL" and text.strip() != ""
)
_ROWS = st.fixed_dictionaries(
    {
        "b": st.none() | st.booleans(),
        "i": st.none() | st.integers(-(2**31), 2**31 - 1),
        "l": st.integers(-(2**63), 2**63 - 1),
        "d": st.none() | st.floats(allow_nan=False),
        "f": st.floats(width=32, allow_nan=False),
        "de": st.none() | st.decimals(-(10**15), 10**15, places=4, allow_nan=False),
        "s": st.none() | _WORD.filter(lambda text: text != "NULL"),
        "by": st.none() | st.binary(max_size=20),
        "ts": st.none() | st.integers(-62135596800 * 10**6, 253402300799 * 10**6),
        "z": st.integers(-62135596800 * 10**6, 253402300799 * 10**6),
        "da": st.integers(-719162, 2932896),
        "t": st.integers(0, 86_399_999).map(lambda ms: ms * 10**6),
        "a": st.lists(st.none() | st.integers(-9, 9), max_size=4),
        "r": st.fixed_dictionaries({"x": st.none() | _ELEMENT, "y": st.none() | st.booleans()}),
    }
)
_ROUND = (
    "b BOOLEAN, i INT, l BIGINT, d DOUBLE, f FLOAT, de DECIMAL(20, 4), s STRING, by BYTES, ts TIMESTAMP(6), "
    "z TIMESTAMP_LTZ(6), da DATE, t TIME(3), a ARRAY<INT>, r ROW<x STRING, y BOOLEAN>"
)
_OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "field-delimiter": st.sampled_from([",", "\\t", "|", "é", "\\u0001"]),
        "quote-character": st.sampled_from(['"', "'", "`"]),
        "escape-character": st.sampled_from(["\\", "^"]),
        "write-bigdecimal-in-scientific-notation": st.sampled_from(["true", "false"]),
    },
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_ROWS, max_size=8), _OPTIONS)
def test_written_rows_read_back(rows: list[dict[str, Any]], options: dict[str, str]) -> None:
    format = get_format("csv", {"null-literal": "NULL", **options})
    row = parse_schema(_ROUND)
    nested = [value | {"r": (value["r"]["x"], value["r"]["y"])} for value in rows]
    array = vectors.to_arrow([tuple(value[field.name] for field in row.fields) for value in nested], row)
    encoded = format.encode_batch(array, _ROUND)
    assert encoded.errors is None
    decoded = format.decode_batch(encoded.messages, _ROUND)
    assert decoded.errors is None
    assert repr(decoded.rows.values.to_pylist()) == repr(array.to_pylist())
    assert format.encode_batch(decoded.rows.values, _ROUND).messages.equals(encoded.messages)


def test_an_empty_number_names_the_option_that_reads_it() -> None:
    """Without `null-literal`, Flink writes NULL as an empty column, and can't read it."""
    rows = pa.array([{"a": 1, "n": None}], pa.struct([("a", pa.int32()), ("n", pa.int32())]))
    written = get_format("csv").encode_batch(rows, "a INT, n INT").messages
    assert written.to_pylist() == [b"1,"]
    for message in (written, pa.array([b"1,\n"]), pa.array([b'1,""'])):
        bad = get_format("csv").decode_batch(message, "a INT, n INT")
        assert bad.errors is not None
        assert "cannot read \"\" as INT; without 'null-literal' Flink writes NULL" in bad.errors[0].as_py()
        good = get_format("csv", {"null-literal": ""}).decode_batch(message, "a INT, n INT")
        assert good.errors is None
        assert good.rows.values.to_pylist() == [{"a": 1, "n": None}]
    other = get_format("csv", {"null-literal": "-"}).decode_batch(written, "a INT, n INT")
    assert other.errors is not None
    assert "Flink" not in other.errors[0].as_py()
