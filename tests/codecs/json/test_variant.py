"""VARIANT in JSON: the bytes of values, nulls, errors, and the text of values."""

from __future__ import annotations

import json
import random
import re
import struct
import uuid
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs._kernel import variant_codes as codes
from kvformat.registry import EncodedBatch, Format, SchemaError, get_format
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.types import arrow_type
from tests.support.decoding import alone, answers, decoded
from tests.support.extent import case_count
from tests.support.registry_server import Registry
from tests.support.variants import random_document

_VARIANT = arrow_type(parse_type("VARIANT"))
_JSON = get_format("json")
_EMPTY = b"\x01\0\0"


def _read(document: str, format: Format = _JSON) -> tuple[bytes, bytes] | None:
    """The value and metadata of a document."""
    batch = decoded(format, [b'{"v":%s}' % document.encode()], "v VARIANT")
    assert batch.errors is None or batch.errors.null_count == 1, batch.errors[0]
    found = batch.rows[0][0]["v"].as_py()
    return found and (found["value"], found["metadata"])


def _write(*values: tuple[bytes, bytes] | None) -> EncodedBatch:
    array = pa.array([value and dict(zip(("value", "metadata"), value, strict=True)) for value in values], _VARIANT)
    return _JSON.encode_batch(pa.StructArray.from_arrays([array], fields=[pa.field("v", _VARIANT)]), "v VARIANT")


def _text(value: bytes, metadata: bytes = _EMPTY) -> str:
    batch = _write((value, metadata))
    assert batch.errors is None or batch.errors.null_count == 1, batch.errors[0]
    message = batch.messages[0].as_py().decode()
    assert message.startswith('{"v":')
    return message[5:-1]


# --- reading --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "value", "metadata"),
    [  # of Spark's parse_json
        ('{"a":1,"b":[1.50,"x",null]}', "020200010002110c01030300060809200296000000057800", "01020001026162"),
        ('{"z":1,"a":{"z":2}}', "020201000200090c0102010000020c02", "01020001027a61"),
        ("[]", "030000", "010000"),
        ("{}", "020000", "010000"),
        ("[{}]", "03010003020000", "010000"),
        ("true", "04", "010000"),
        ("-0", "0c00", "010000"),
        ("-0.0", "200100000000", "010000"),
        ("127", "0c7f", "010000"),
        ("128", "108000", "010000"),
        ("-128", "0c80", "010000"),
        ("-129", "107fff", "010000"),
        ("32767", "10ff7f", "010000"),
        ("32768", "1400800000", "010000"),
        ("-32768", "100080", "010000"),
        ("-32769", "14ff7fffff", "010000"),
        ("2147483647", "14ffffff7f", "010000"),
        ("2147483648", "180000008000000000", "010000"),
        ("-2147483648", "1400000080", "010000"),
        ("-2147483649", "18ffffff7fffffffff", "010000"),
        ("9223372036854775807", "18ffffffffffffff7f", "010000"),
        ("9223372036854775808", "2800" + "00" * 7 + "80" + "00" * 8, "010000"),
        ("-9223372036854775808", "180000000000000080", "010000"),
        ("-9223372036854775809", "2800" + "ff" * 7 + "7f" + "ff" * 8, "010000"),
        ("123456789012345678901", "2800356c362f819f4eb10600000000000000", "010000"),
        ("99999999.9", "2001ffc99a3b", "010000"),
        ("-0.999999999", "2009013665c4", "010000"),
        ("100000000.0", "240100ca9a3b00000000", "010000"),
        ("0.0000000001", "240a0100000000000000", "010000"),
        ("99999999999999999.9", "2401ffff63a7b3b6e00d", "010000"),
        ("0.000000000000000001", "24120100000000000000", "010000"),
        ("100000000000000000.0", "28010000" + "64a7b3b6e00d" + "00" * 8, "010000"),
        ("0.0000000000000000001", "281301" + "00" * 15, "010000"),
        ("0." + "0" * 37 + "1", "282601" + "00" * 15, "010000"),
        ("0." + "0" * 38 + "1", "1c" + struct.pack("<d", 1e-39).hex(), "010000"),
        ("9" * 38, "2800" + (10**38 - 1).to_bytes(16, "little").hex(), "010000"),
        ("9" * 37 + ".99", "1c" + struct.pack("<d", 1e37).hex(), "010000"),
        ('"' + "s" * 63 + '"', "fd" + "73" * 63, "010000"),
        ('"' + "s" * 64 + '"', "4040000000" + "73" * 64, "010000"),
        ('"' + "\\n" * 64 + '"', "4040000000" + "0a" * 64, "010000"),
        ("0.1e1", "1c000000000000f03f", "010000"),
        ("1e400", "1c000000000000f07f", "010000"),
        ("1" + "0" * 38, "1cb1a1162ad3ced247", "010000"),
    ],
)
def test_the_bytes_are_those_of_spark(document: str, value: str, metadata: str) -> None:
    assert _read(document) == (bytes.fromhex(value), bytes.fromhex(metadata))


def test_keys_are_in_the_order_of_utf_16() -> None:
    value, metadata = _read('{"\ue000":1,"\U00010000":2,"z":3}') or (b"", b"")
    assert value[2:5] == bytes([2, 1, 0])  # ids: z, the surrogates, U+E000
    assert metadata.decode("utf-8", "replace").endswith("\ue000\U00010000z")


@pytest.mark.parametrize("count", [255, 256, 257, 65_535, 65_536, 65_537])
def test_ids_and_offsets_have_as_many_bytes_as_they_need(count: int) -> None:
    """Ids of the keys of an object, the bytes of the keys, and those of the elements of an array."""
    keys = "{" + ",".join(f'"{i:05}":{i % 10}' for i in range(count)) + "}"
    value, metadata = _read(keys) or (b"", b"")
    assert value[0] >> 4 & 3 == (count > 256) + (count > 65_536)  # an id is less than their number
    assert value[0] >> 6 == (count > 255)  # whether their number has four bytes
    assert _text(value, metadata) == keys
    width = 1 + (count > 255) + (count > 65_535)
    long_key = f'{{"a":1,"{"b" * (count - 1)}":2}}'
    value, metadata = _read(long_key) or (b"", b"")
    assert (metadata[0] >> 6) + 1 == width
    assert _text(value, metadata) == long_key
    value, metadata = _read(f'["{"x" * (count - 7)}",7]') or (b"", b"")
    assert (value[0] >> 2 & 3) + 1 == width
    assert int.from_bytes(value[2 + 2 * width : 2 + 3 * width], "little") == count
    value, metadata = _read(f"[{','.join('7' * count)}]") or (b"", b"")
    assert value[0] >> 4 == (count > 255)
    assert int.from_bytes(value[1 : 5 if count > 255 else 2], "little") == count


@pytest.mark.parametrize("seed", range(5))
def test_keys_with_the_same_beginning_are_in_the_order_of_utf_16_too(seed: int) -> None:
    rng = random.Random(seed)
    ends = ["", "\x7f", "a", "ab", "b", "\u00e9", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "a\u0301"]
    keys = [start + end for start in ("", "key", "a_long_prefix_") for end in ends]
    rng.shuffle(keys)
    value, metadata = _read(json.dumps(dict.fromkeys(keys, 1), ensure_ascii=False)) or (b"", b"")
    assert value[1] == metadata[1] == len(keys)
    ids = value[2 : 2 + len(keys)]
    assert [keys[id] for id in ids] == sorted(keys, key=lambda key: key.encode("utf-16-be"))


def test_null_is_sql_null_at_the_place_of_a_column_and_a_value_within_one() -> None:
    schema = "v VARIANT, l ARRAY<VARIANT>, m MAP<STRING, VARIANT>, r ROW<x VARIANT>"
    message = b'{"v":null,"l":[null,[null]],"m":{"a":null,"b":{"c":null}},"r":{}}'
    (row,) = decoded(_JSON, [message], schema).rows[0].as_py()
    assert row["v"] is None
    assert row["l"] == [None, {"value": b"\x03\x01\0\x01\0", "metadata": _EMPTY}]
    assert row["m"] == [("a", None), ("b", {"value": b"\x02\x01\0\0\x01\0", "metadata": b"\x01\x01\0\x01c"})]
    assert row["r"] == {"x": None}


def test_a_missing_member_is_null_or_an_error() -> None:
    assert decoded(_JSON, [b"{}"], "v VARIANT").rows[0].as_py() == [{"v": None}]
    strict = get_format("json", {"fail-on-missing-field": "true"})
    assert alone(strict, [b"{}"], "v VARIANT")[0].error == "field 'v' is missing"


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (b'{"v":{"a":1,"b":2,"a":3}}', "field 'v': an object has the key \"a\" twice, which VARIANT does not allow"),
        (b'{"l":[1,[{"a":1,"\\u0061":1}]]}', "field 'l[1]': an object has the key \"a\" twice"),
        (b'{"r":{"x":{"\\"":{"":1,"":2}}}}', "field 'r.x': an object has the key \"\" twice"),
        (b'{"v":{"a":1,"a":2}', "not JSON: "),
        (b'{"v":{"a":1,}}', "not JSON: expecting property name"),
        (b'{"v":[1,]}', "not JSON: expecting value"),
        (b'{"v":[01]}', "not JSON: "),
        (b'{"v":["\\x"]}', "not JSON: invalid \\escape"),
        (b'{"v":%s}' % (b"[" * 1000 + b"]" * 1000), "not JSON: more than 1000 levels"),
    ],
)
def test_a_bad_value_is_an_error_of_its_record(message: bytes, error: str) -> None:
    schema = "v VARIANT, l ARRAY<VARIANT>, r ROW<x VARIANT>"
    good = b'{"v":{"a":{"b":[1,2]}}}'
    before, bad, after = answers(decoded(_JSON, [good, message, good], schema))
    assert bad.error is not None
    assert bad.error.startswith(error)
    assert before == after == alone(_JSON, [good], schema)[0]
    lenient = answers(decoded(get_format("json", {"ignore-parse-errors": "true"}), [good, message, good], schema))
    assert [answer.error for answer in lenient] == [None] * 3
    assert lenient[0] == lenient[2] == before
    if error.startswith("field"):
        assert lenient[1].rows is not None
        assert "'v': None" in lenient[1].rows


def test_999_levels_are_allowed() -> None:
    value, _ = _read("[" * 999 + "]" * 999) or (b"", b"")
    assert len(value) > 4 * 999


def test_the_last_of_repeated_members_counts_as_for_other_columns() -> None:
    batch = decoded(_JSON, [b'{"v":{"a":1,"a":2},"v":7}', b'{"v":7,"v":{"a":1,"a":2}}'], "v VARIANT")
    assert batch.rows[0][0]["v"]["value"].as_py() == b"\x0c\x07"
    assert batch.errors is not None
    assert batch.errors[1].is_valid


def test_the_table_of_keys_is_emptied_between_values() -> None:
    """Values with more keys than the table keeps, between small ones; their metadata repeat."""
    small = '{"a":{"b":1},"k5":2}'
    large = "{" + ",".join(f'"k{i}":{i}' for i in range(20_000)) + "}"
    documents = [small, small, large, small, large.replace("k", "é"), small, "3", small]
    batch = decoded(_JSON, [f'{{"v":{document}}}'.encode() for document in documents], "v VARIANT")
    rows = [row[0]["v"].as_py() for row in batch.rows]
    for document, row in zip(documents, rows, strict=True):
        assert (row["value"], row["metadata"]) == _read(document)
    assert (
        len(
            {
                (row["value"], row["metadata"])
                for row, document in zip(rows, documents, strict=True)
                if document == small
            }
        )
        == 1
    )


@pytest.mark.parametrize("name", ["debezium-json", "canal-json", "maxwell-json", "ogg-json"])
def test_change_data_has_it_too(name: str) -> None:
    messages = {
        "debezium-json": b'{"before":null,"after":{"v":{"a":1}},"op":"c"}',
        "canal-json": b'{"data":[{"v":{"a":1}}],"type":"INSERT"}',
        "maxwell-json": b'{"data":{"v":{"a":1}},"type":"insert"}',
        "ogg-json": b'{"after":{"v":{"a":1}},"op_type":"I"}',
    }
    format = get_format(name)
    batch = decoded(format, [messages[name]], "v VARIANT")
    row = batch.rows[0][0]["v"].as_py()
    assert (row["value"], row["metadata"]) == _read('{"a":1}')
    encoded = format.encode_batch(batch.rows.flatten(), "v VARIANT", row_kinds=pa.array(["+I"]))
    assert b'"v":{"a":1}' in encoded.messages[0].as_py()


def test_a_json_schema_has_any_value(registry: Registry) -> None:
    format = get_format("json-registry", {"url": registry.url, "subject": "s"})
    messages = [b'{"v":{"a":1},"w":[]}', b'{"w":{"b":null}}']
    rows = decoded(_JSON, messages, "v VARIANT, w VARIANT NOT NULL").rows.flatten()
    encoded = format.encode_batch(rows, "v VARIANT, w VARIANT NOT NULL")
    assert [message[5:] for message in encoded.messages.to_pylist()] == messages
    assert decoded(format, encoded.messages, "v VARIANT, w VARIANT").rows.flatten() == rows
    (text,) = registry.ids.values()
    schema = json.loads(text)
    assert schema["properties"] == {"v": {"connect.index": 0}, "w": {"connect.index": 1}}
    assert schema["required"] == ["w"]


@pytest.mark.parametrize("name", ["csv", "raw"])
def test_other_formats_refuse_it(name: str) -> None:
    with pytest.raises(SchemaError, match="VARIANT"):
        get_format(name).decode_batch(pa.array([b"x"]), "v VARIANT")


# --- writing --------------------------------------------------------------------------------------------


def _decimal(unscaled: int, scale: int, size: int) -> bytes:
    kind = {4: codes.DECIMAL4, 8: codes.DECIMAL8, 16: codes.DECIMAL16}[size]
    return bytes([kind, scale]) + unscaled.to_bytes(size, "little", signed=True)


def _number(kind: int, form: str, value: float) -> bytes:
    return bytes([kind]) + struct.pack(form, value)


@pytest.mark.parametrize(
    ("value", "text"),
    [  # of Spark's to_json, in UTC
        (b"\0", "null"),
        (b"\x04", "true"),
        (b"\x08", "false"),
        (_number(codes.INT1, "<b", -128), "-128"),
        (_number(codes.INT8, "<q", -(2**63)), "-9223372036854775808"),
        (_number(codes.INT8, "<q", 2**63 - 1), "9223372036854775807"),
        (_decimal(150, 2, 4), "1.5"),
        (_decimal(0, 2, 4), "0"),
        (_decimal(10_000, 2, 4), "100"),
        (_decimal(-5, 9, 4), "-0.000000005"),
        (_decimal(10**17, 18, 8), "0.1"),
        (_decimal(10**9 - 1, 9, 4), "0.999999999"),
        (_decimal(1 - 10**18, 18, 8), "-0." + "9" * 18),
        (_decimal(1 - 10**18, 0, 8), "-" + "9" * 18),
        (_decimal(10**37, 38, 16), "0.1"),
        (_decimal(-(10**37) - 10, 2, 16), "-100000000000000000000000000000000000.1"),
        (_decimal(10**38 - 1, 0, 16), "9" * 38),
        (_number(codes.DOUBLE, "<d", 1e10), "1.0E10"),
        (_number(codes.DOUBLE, "<d", -0.0), "-0.0"),
        (_number(codes.DOUBLE, "<d", float("inf")), '"Infinity"'),
        (_number(codes.FLOAT, "<f", 1.1), "1.1"),
        (_number(codes.FLOAT, "<f", float("nan")), '"NaN"'),
        (_number(codes.DATE, "<i", -1), '"1969-12-31"'),
        (_number(codes.DATE, "<i", 2**31 - 1), '"+5881580-07-11"'),
        (_number(codes.DATE, "<i", -719_529), '"-0001-12-31"'),
        (_number(codes.TIMESTAMP, "<q", 1_500_000), '"1970-01-01 00:00:01.5+00:00"'),
        (_number(codes.TIMESTAMP, "<q", 0), '"1970-01-01 00:00:00+00:00"'),
        (_number(codes.TIMESTAMP_NTZ, "<q", 2**63 - 1), '"+294247-01-10 04:00:54.775807"'),
        (bytes([codes.BINARY]) + struct.pack("<I", 3) + b"abc", '"YWJj"'),
        (bytes([codes.UUID]) + bytes(range(16)), f'"{uuid.UUID(bytes=bytes(range(16)))}"'),
        (b'\x19"\\\x7f/\n\x1f', '"\\"\\\\\x7f/\\n\\u001F"'),
        (b"\x09\xff\xfe", '"\ufffd\ufffd"'),
        (b"\x11\xf0\x9f\x98\x80", '"\U0001f600"'),
        (bytes([codes.LONG_STRING]) + struct.pack("<I", 3) + b"abc", '"abc"'),
    ],
)
def test_texts_of_primitive_values(value: bytes, text: str) -> None:
    assert _text(value) == text


def test_null_is_not_the_null_of_variant() -> None:
    omitting = get_format("json", {"encode.ignore-null-fields": "true"})
    values = pa.array([None, {"value": b"\0", "metadata": _EMPTY}], _VARIANT)
    rows = pa.StructArray.from_arrays([values], fields=[pa.field("v", _VARIANT)])
    assert _JSON.encode_batch(rows, "v VARIANT").messages.to_pylist() == [b'{"v":null}'] * 2
    assert omitting.encode_batch(rows, "v VARIANT").messages.to_pylist() == [b"{}", b'{"v":null}']


def test_documents_are_written_as_they_were_read() -> None:
    rng, compared = random.Random(11), 0
    for _ in range(case_count(quick=600, night=2000)):
        document = random_document(rng)
        answer = alone(_JSON, [b'{"v":%s}' % document.encode()], "v VARIANT")[0]
        read = None if answer.error else _read(document)
        if read is None:
            continue
        assert json.loads(_text(*read), parse_float=_plain) == json.loads(
            document, parse_float=_plain, parse_int=_plain
        )
        compared += 1
    assert compared > case_count(quick=500, night=1700)


def _plain(text: str) -> Any:
    """A number, however it was written; JSON's infinity is a text in the value."""
    number = float(text)
    return (
        int(text)
        if re.fullmatch(r"-?\d{1,38}", text)
        else str(number).replace("inf", "Infinity")
        if number - number
        else number
    )


@pytest.mark.parametrize(
    ("value", "metadata", "error"),
    [
        (b"", _EMPTY, "the bytes of the value or of its metadata are not a VARIANT"),
        (b"\0", b"", "not a VARIANT"),
        (b"\0", b"\x02\0\0", "not a VARIANT"),
        (b"\0", b"\x01\x05\0", "not a VARIANT"),
        (b"\x0d", _EMPTY, "not a VARIANT"),
        (b"\x44", _EMPTY, "not a VARIANT"),
        (bytes([codes.LONG_STRING]) + b"\xff\xff\xff\xff", _EMPTY, "not a VARIANT"),
        (b"\x02\x01\x05\0\x01\0", _EMPTY, "not a VARIANT"),
        (b"\x03\x01\x09\x01\0", _EMPTY, "not a VARIANT"),
        (b"\x03\x03\0\0\0\x02\x05a", _EMPTY, "not a VARIANT"),  # three elements at one place
        (b"\x54", _EMPTY, "not a VARIANT"),
        (bytes([codes.LONG_STRING]) + b"\0\0\0", _EMPTY, "not a VARIANT"),
        (bytes([codes.BINARY]) + b"\0\0\0", _EMPTY, "not a VARIANT"),
        (bytes([codes.BINARY]) + b"\2\0\0\0a", _EMPTY, "not a VARIANT"),
        (bytes([codes.INT4]) + b"\0\0\0", _EMPTY, "not a VARIANT"),
        (_decimal(10**9, 0, 4), _EMPTY, "not a VARIANT"),
        (_decimal(-(10**9), 0, 4), _EMPTY, "not a VARIANT"),
        (_decimal(1, 10, 4), _EMPTY, "not a VARIANT"),
        (_decimal(10**18, 0, 8), _EMPTY, "not a VARIANT"),
        (_decimal(1, 19, 8), _EMPTY, "not a VARIANT"),
        (_decimal(10**38, 0, 16), _EMPTY, "not a VARIANT"),
        (_decimal(1, 39, 16), _EMPTY, "not a VARIANT"),
        (b"\x03\x01\0\x05" * 1001 + b"\0", _EMPTY, "more than 1000 levels"),
    ],
)
def test_bad_bytes_are_an_error_of_their_row(value: bytes, metadata: bytes, error: str) -> None:
    good = _read('{"a":1}')
    batch = _write(good, (value, metadata), None, good)
    assert batch.messages.to_pylist() == [b'{"v":{"a":1}}', None, b'{"v":null}', b'{"v":{"a":1}}']
    assert batch.errors is not None
    assert [text is None for text in batch.errors.to_pylist()] == [True, False, True, True]
    assert error in batch.errors[1].as_py()
    assert "'v'" in batch.errors[1].as_py()


def test_a_long_key_that_comes_often_is_an_error() -> None:
    key, count = b"k" * 2**16, 2**13
    metadata = b"\x81\x01\0\0" + b"\0\0\0" + len(key).to_bytes(3, "little") + key
    element = b"\x02\x01\0\0\x01\0"
    offsets = b"".join((i * len(element)).to_bytes(3, "little") for i in range(count + 1))
    value = b"\x1b" + count.to_bytes(4, "little") + offsets + element * count
    batch = _write((value, metadata))
    assert batch.errors is not None
    assert "the VARIANT needs more than 256 MiB as JSON" in batch.errors[0].as_py()
    few = b"\x1b" + (9).to_bytes(4, "little") + offsets[:30] + element * 9
    assert len(_text(few, metadata)) == 9 * (len(key) + 9) + 10


def test_changed_bytes_are_written_or_an_error_and_harm_no_neighbour() -> None:
    rng = random.Random(5)
    good = _read('{"a":[1,{"b":"x"}]}')
    assert good
    known = [read for _ in range(150) if (read := _read_or_none(random_document(rng)))]
    failed = written = 0
    for _ in range(case_count(quick=3000, night=9000)):
        value, metadata = (bytearray(part) for part in rng.choice(known))
        for _ in range(rng.randint(1, 3)):
            part = rng.choice((value, metadata))
            place = rng.randrange(len(part) + 1)
            part[place : place + rng.choice((0, 1, 1, 1, 4))] = rng.randbytes(rng.choice((0, 1, 1, 1, 4)))
        batch = _write(good, (bytes(value), bytes(metadata)), good)
        assert batch.messages[0].as_py() == batch.messages[2].as_py() == b'{"v":{"a":[1,{"b":"x"}]}}'
        message = batch.messages[1].as_py()
        if message is None:
            assert batch.errors is not None
            failed += "VARIANT" in batch.errors[1].as_py()
        else:
            json.loads(message)
            written += 1
    assert failed > 300
    assert written > 300


def _read_or_none(document: str) -> tuple[bytes, bytes] | None:
    answer = alone(_JSON, [b'{"v":%s}' % document.encode()], "v VARIANT")[0]
    return None if answer.error or len(document) > 5000 else _read(document)
