"""Read and write csv: options, hostile input, encodings, round trips."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvformat.codecs.csv.settings import WriteSettings
from kvformat.codecs.csv.write import Quoting
from kvformat.registry import get_format
from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.contract.errors import OptionError, SchemaError
from tests.support import vectors
from tests.support.decoding import decoded

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


@pytest.mark.parametrize("lenient", ["false", "true"])
@pytest.mark.parametrize(
    ("text", "row", "found"),
    [
        ("4;w;v", ("4", "w", "v"), 3),
        ("4;w;v;u", ("4", "w", "v"), 3),
        ("4;w;", ("4", "w", ""), 3),
        (";;", ("", "", ""), 3),
        ("4;", ("4", "", None), 2),
        (";", ("", "", None), 2),
        ("4", ("4", None, None), 1),
    ],
)
def test_an_empty_element_of_a_row_is_a_text_and_a_missing_one_is_not(
    text: str, row: tuple[str | None, ...], found: int, lenient: str
) -> None:
    format = get_format("csv", {"ignore-parse-errors": lenient})
    batch = format.decode_batch(pa.array([text.encode()]), "r ROW<x STRING, y STRING, z STRING>")
    if found < 3 and lenient == "false":
        assert batch.errors is not None
        assert batch.errors[0].as_py() == f"field 'r': row length mismatch: 3 fields expected but was {found}"
        return
    assert batch.errors is None
    assert tuple(batch.rows[0][0].as_py()["r"].values()) == row


@pytest.mark.parametrize("text", ["", " ", "\t", "\x01 \t"])
def test_a_blank_text_has_no_elements_unless_the_delimiter_is_a_blank(text: str) -> None:
    schema = "x INT, a ARRAY<STRING>, r ROW<y STRING>"
    message = pa.array([f"1,{text},{text}".encode()])
    assert get_format("csv").decode_batch(message, schema).rows.to_pylist() == [[{"x": 1, "a": [], "r": None}]]
    blanks = get_format("csv", {"array-element-delimiter": " "}).decode_batch(
        message, "x INT, a ARRAY<STRING>, b STRING"
    )
    assert blanks.rows.to_pylist()[0][0]["a"] == (text.split(" ") if " " in text else [])


@pytest.mark.parametrize(("delimiter", "like"), [("é", "ã"), ("世", "丗"), ("世", "亖")])
def test_elements_end_at_their_delimiter_not_at_a_character_with_the_same_first_bytes(
    delimiter: str, like: str
) -> None:
    format = get_format("csv", {"array-element-delimiter": delimiter})
    for texts in ([like], [like, like], ["a" + like, like + "b", like * 3], [like, "", "x"]):
        message = pa.array([delimiter.join(texts).encode()])
        columns = ", ".join(f"f{n} STRING" for n in range(len(texts)))
        assert format.decode_batch(message, "a ARRAY<STRING>").rows.to_pylist() == [[{"a": texts}]]
        (row,) = format.decode_batch(message, f"r ROW<{columns}>").rows.flatten().field("r").to_pylist()
        assert [*row.values()] == texts


def test_comments_take_bounded_memory() -> None:
    message = b"#\n" * 1_000_000 + b"1,x,1"
    batch = get_format("csv", {"allow-comments": "true"}).decode_batch(pa.array([message]), _THREE)
    assert batch.rows.to_pylist()[0][0]["b"] == "x"


@pytest.mark.parametrize(
    ("type", "options"),
    [
        ("INT", {}),
        ("DOUBLE", {}),
        ("TIMESTAMP(3)", {}),
        ("TIMESTAMP(3)", {"timestamp-format.patterns": "yyyy-MM-dd HH:mm:ss"}),
        ("ARRAY<INT>", {}),
    ],
)
def test_an_error_shows_the_text_with_the_blanks_around_it(type: str, options: dict[str, str]) -> None:
    """Up to 60 characters of it."""
    format = get_format("csv", options)
    for text, shown in ((" 1x ", " 1x "), ("\t1x", "\\t1x"), ("x" * 60, "x" * 60), ("x" * 61, "x" * 60 + "...")):
        batch = format.decode_batch(pa.array([text.encode()]), f"v {type}")
        assert batch.errors is not None
        assert f'cannot read "{shown}" as ' in batch.errors[0].as_py()


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


def test_a_lone_surrogate_of_utf_32_becomes_a_question_mark_also_in_an_unescaped_text() -> None:
    texts = ['"a""\ud800",b', '"a\ud800",b', "a\ud800,b", '"a""b",b']
    messages = [text.encode("utf-32-be", "surrogatepass") for text in texts]
    batch = decoded(get_format("csv"), [*messages, b'"a""c",b'], "a STRING, b STRING")
    assert [row["a"] for row in batch.rows.values.to_pylist()] == ['a"?', "a?", "a?", 'a"b', 'a"c']


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


@pytest.mark.parametrize("escape", [None, "^", "é"])
@pytest.mark.parametrize(("delimiter", "quote"), [(",", '"'), ("\t", '"'), ("|", "'"), ("é", '"'), (",", "世")])
def test_a_text_is_quoted_for_a_character_up_to_the_delimiter_or_quote_or_for_the_escape_character(
    delimiter: str, quote: str, escape: str | None
) -> None:
    quoting = Quoting(WriteSettings(delimiter=delimiter, quote=quote, escape=escape))
    most = max(ord(delimiter), ord(quote))
    characters = [chr(code) for code in (*range(0x180), most - 1, most, most + 1, 0xFFFD)]
    wanted = [ord(character) <= most or character == (escape or "\\") for character in characters]
    assert 10 < sum(wanted) < len(wanted)
    assert [quoting.is_unsafe(character) for character in characters] == wanted
    _, quoted = quoting.apply(pa.array([f"zz{character}" for character in characters], pa.large_string()))
    safe = ord("z") > most
    assert quoted.tolist() == ([*wanted] if safe else [True] * len(wanted))


@pytest.mark.parametrize("character", ["z", "é", "世", "\U0001f600"])
def test_a_text_of_more_than_24_utf_16_units_is_quoted(character: str) -> None:
    most = 24 // (len(character.encode("utf-16-le")) // 2)
    texts = [character * most, character * most + "z", character * (most - 1) + "z"]
    batch = get_format("csv").encode_batch(pa.StructArray.from_arrays([pa.array(texts)], ["a"]), "a STRING")
    assert [message.as_py().startswith(b'"') for message in batch.messages] == [False, True, False]


@pytest.mark.parametrize("literal", ["", " ", " - ", "\t", "NULL "])
def test_the_null_literal_keeps_its_blanks(literal: str) -> None:
    format = get_format("csv", {"null-literal": literal})
    rows = pa.array([{"a": None, "b": None, "c": 1}], pa.struct({"a": pa.string(), "b": pa.int32(), "c": pa.int32()}))
    written = format.encode_batch(rows, "a STRING, b INT, c INT").messages
    assert written.to_pylist() == [f"{literal},{literal},1".encode()]
    assert format.decode_batch(written, "a STRING, b INT, c INT").rows.values.to_pylist() == rows.to_pylist()


def test_a_null_is_not_quoted_whatever_bytes_are_behind_it() -> None:
    offsets, data = pa.array([0, 3, 6], pa.int32()).buffers()[1], pa.py_buffer(b'x yx"y')
    texts = pa.StringArray.from_buffers(2, offsets, data, pa.py_buffer(b"\2"))
    rows = pa.StructArray.from_arrays([texts, pa.array([1, 2])], ["a", "b"])
    assert get_format("csv").encode_batch(rows, "a STRING, b BIGINT").messages.to_pylist() == [b",1", b'"x""y",2']


def test_quote_and_escape_character_are_doubled_each_for_itself() -> None:
    texts = ["a^b c", 'a"b c', '^"', "a^b", "ab c", "ab"]
    wanted = [b'"a^^b c"', b'"a""b c"', b'"^^"""', b'"a^^b"', b'"ab c"', b"ab"]
    format = get_format("csv", {"escape-character": "^"})
    for batch in ([0], [1], [0, 4], [3, 5], [5], range(6)):  # with both, with one, with none of them
        rows = pa.array([{"a": texts[i]} for i in batch], pa.struct([("a", pa.string())]))
        assert format.encode_batch(rows, "a STRING").messages.to_pylist() == [wanted[i] for i in batch]


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
