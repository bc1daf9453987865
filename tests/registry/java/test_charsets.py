"""Charsets decode and encode as in Java, including malformed and unmappable text."""

from __future__ import annotations

import codecs
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs import _json_documents as encodings
from kvformat.registry.java import charsets
from kvformat.registry.java.charsets import find_charset

DECODED = [  # what OpenJDK 17's `new String(bytes, charset)` answered
    ("US-ASCII", "41ff80", "A\ufffd\ufffd"),
    ("ISO-8859-15", "a4e9", "€é"),
    ("ISO-8859-7", "a4aed2ff", "€\ufffd\ufffd\ufffd"),
    ("windows-1252", "80819f", "€\ufffdŸ"),
    ("KOI8-U", "a4b4c1", "єЄа"),
    ("TIS-620", "80a1ff", "\ufffdก\ufffd"),
    ("IBM037", "c1152541", "A\n\n\xa0"),
    ("IBM273", "bc4a", "¯Ä"),
    ("IBM00858", "d5", "€"),
    ("x-IBM875", "dcfd", "\ufffd\ufffd"),
    ("x-MacCroatian", "a9d8", "Š\uf8ff"),
    ("UTF-16", "", ""),
    ("UTF-16", "feff0041", "A"),
    ("UTF-16", "fffe4100", "A"),
    ("UTF-16", "0041", "A"),
    ("UTF-16", "fffe", ""),
    ("UTF-16", "d83dde00", "😀"),
    ("UTF-16", "d83d0041", "\ufffd"),
    ("UTF-16", "d83d", "\ufffd"),
    ("UTF-16", "de000041", "\ufffdA"),
    ("UTF-16", "0041d83dde", "A\ufffd"),
    ("UTF-16", "fffefffe", "\ufeff"),
    ("UTF-16", "004100", "A\ufffd"),
    ("UTF-16BE", "feff0041", "\ufeffA"),
    ("UTF-16BE", "d83dde00d8", "😀\ufffd"),
    ("UTF-16LE", "fffe4100", "\ufeffA"),
    ("UTF-16LE", "3dd800de", "😀"),
    ("UTF-16LE", "3dd84100", "\ufffd"),
    ("UTF-16LE", "3dd841", "\ufffd"),
    ("UTF-16LE", "00de410041", "\ufffdA\ufffd"),
    ("x-UTF-16LE-BOM", "4100", "A"),
    ("x-UTF-16LE-BOM", "feff0041", "A"),
    ("UTF-32", "0000feff00000041", "A"),
    ("UTF-32", "fffe000041000000", "A"),
    ("UTF-32", "00000041", "A"),
    ("UTF-32", "00110000", "\ufffd"),
    ("UTF-32", "0000d83d0000de00", "😀"),
    ("UTF-32", "0000d83d", "?"),
    ("UTF-32", "000000410000", "A\ufffd"),
    ("UTF-32BE", "0000feff00000041", "A"),
    ("UTF-32BE", "fffe000000000041", "\ufffdA"),
    ("UTF-32LE", "fffe000041000000", "A"),
    ("UTF-32LE", "410000004200", "A\ufffd"),
    ("Big5", "a15aa1c3", "＿\ufffd\ufffd"),
    ("Big5", "a440a4", "一\ufffd"),
    ("Big5", "a4ff41", "\ufffdA"),
    ("Big5", "80a440", "\ufffd一"),
    ("Big5", "a4a4a4", "中\ufffd"),
    ("GBK", "a892a1a4", "♁·"),
    ("GBK", "8140fe", "丂\ufffd"),
    ("GBK", "817f41", "\ufffd\x7fA"),
    ("GBK", "a6d9", "\ue78d"),
    ("GBK", "80ff", "\ufffd\ufffd"),
    ("GBK", "fefe41", "\ue4c5A"),
    ("GB2312", "b0a1b0", "啊\ufffd"),
    ("GB2312", "b041b0a1", "\ufffdA啊"),
    ("GB2312", "a2a1", "\ufffd\ufffd"),
    ("GB18030", "a6d9a8bc", "︐ḿ"),
    ("GB18030", "8130813041", "\x80A"),
    ("GB18030", "8430", "\ufffd"),
    ("GB18030", "81308141", "\ufffd"),
    ("GB18030", "8130ff3041", "\ufffd0A"),
    ("GB18030", "8120b0a1", "\ufffd 啊"),
    ("GB18030", "817f41", "\ufffdA"),
    ("GB18030", "90308130", "𐀀"),
    ("GB18030", "e3329a36ff", "\ufffd\ufffd"),
    ("GB18030", "80ff41", "\ufffd\ufffdA"),
    ("GB18030", "8135f437", "\ue7c7"),
    ("EUC-KR", "b0a1a4d4a4a1a4bfa4a2", "가ㅤㄱㅏㄲ"),
    ("EUC-KR", "b041ff", "\ufffdA\ufffd"),
    ("EUC-KR", "b0", "\ufffd"),
    ("x-windows-949", "8141c9a1", "갂\ue000"),
    ("x-windows-949", "81ff41", "\ufffdA"),
    ("x-Johab", "8861d931", "가\u3000"),
    ("x-Johab", "8441ff", "\ufffdA\ufffd"),
    ("EUC-JP", "a1bda1c0", "—＼"),
    ("EUC-JP", "8eb18e41", "ｱ\ufffd"),
    ("EUC-JP", "8fb0a18fa1", "丂\ufffd"),
    ("EUC-JP", "8f41428f", "\ufffd\ufffd"),
    ("EUC-JP", "a141a1", "\ufffd\ufffd"),
    ("EUC-JP", "80ff41", "\ufffdA"),
    ("Shift_JIS", "815c5c7eb1", "—\\~ｱ"),
    ("Shift_JIS", "8140ff41", "\u3000\ufffdA"),
    ("Shift_JIS", "8181", "＝"),
    ("Shift_JIS", "85408541", "\ufffd@\ufffdA"),
    ("Shift_JIS", "fc", "\ufffd"),
    ("windows-31j", "815c8160fa40", "―～ⅰ"),
    ("windows-31j", "8740f040", "①\ue000"),
    ("windows-31j", "80a0ff41", "\ufffd\ufffd\ufffdA"),
]
ENCODED = [  # what its `text.getBytes(charset)` answered
    ("US-ASCII", "Aé😀", "413f3f"),
    ("ISO-8859-15", "€é¤", "a4e93f"),
    ("windows-1252", "€\x81Ž", "803f8e"),
    ("KOI8-R", "Жé", "f63f"),
    ("IBM037", "A\n\x85é€", "c11515513f"),
    ("IBM01140", "€", "9f"),
    ("IBM424", "א€", "413f"),
    ("IBM420", "٪ﺀ", "6c46"),
    ("UTF-16", "é😀", "feff00e9d83dde00"),
    ("UTF-16LE", "é😀", "e9003dd800de"),
    ("x-UTF-16LE-BOM", "é", "fffee900"),
    ("UTF-32", "é😀", "000000e90001f600"),
    ("UTF-32LE", "é", "e9000000"),
    ("X-UTF-32BE-BOM", "é", "0000feff000000e9"),
    ("Big5", "中═兀é", "a4a4a2a4a4613f"),
    ("GBK", "中⊕€", "d6d03fa2e3"),
    ("GB2312", "中é", "d6d0a8a6"),
    ("GB18030", "中é😀ḿ", "d6d0a8a69439fc36a8bc"),
    ("EUC-KR", "가갂한", "b0a13fc7d1"),
    ("x-windows-949", "갂", "8141"),
    ("EUC-JP", "―—ｱ丂¥", "3fa1bd8eb18fb0a15c"),
    ("Shift_JIS", "―—¥ｱ", "3f815c5cb1"),
    ("windows-31j", "～〜①¥", "81603f87405c"),
]


@pytest.mark.parametrize(("name", "data", "text"), DECODED)
def test_decodes_as_java(name: str, data: str, text: str) -> None:
    messages = pa.array([b"\xff", None, bytes.fromhex(data), b"", None], pa.binary())[1:]  # a slice with nulls
    decoded = find_charset(name).decode(messages)
    decoded.validate(full=True)
    assert decoded.type == pa.string()
    assert decoded.to_pylist() == [None, text, "", None]


@pytest.mark.parametrize(("name", "text", "data"), ENCODED)
def test_encodes_as_java(name: str, text: str, data: str) -> None:
    texts = pa.array(["é", None, text, "", None], pa.string())[1:]
    encoded = find_charset(name).encode(texts)
    encoded.validate(full=True)
    assert encoded.type == pa.binary()
    assert encoded.to_pylist() == [None, bytes.fromhex(data), b"", None]


@pytest.mark.parametrize("name", ["UTF-16", "US-ASCII", "ISO-8859-1", "IBM037", "EUC-JP"])
def test_an_empty_array_stays_empty(name: str) -> None:
    assert find_charset(name).decode(pa.array([], pa.binary())).equals(pa.array([], pa.string()))
    assert find_charset(name).encode(pa.array([], pa.string())).equals(pa.array([], pa.binary()))


def test_utf8_is_not_copied() -> None:
    messages = pa.array([b"\xff", b"A", None, "é".encode()], pa.binary())[1:]
    for texts in (find_charset("UTF-8").decode(messages), find_charset("UTF-8").decode_strictly(messages)[0]):
        assert texts.type == pa.string()
        assert texts.buffers()[2].address == messages.buffers()[2].address
        assert find_charset("utf8").encode(texts).to_pylist() == [b"A", None, b"\xc3\xa9"]


@pytest.mark.parametrize(("name", "data", "text"), DECODED)
def test_a_strict_reader_finds_the_bytes_that_java_replaces(name: str, data: str, text: str) -> None:
    """Text without U+FFFD in Java is valid. Surrogates in UTF-32, which Java decodes, are malformed."""
    messages = pa.array([b"\xff", None, bytes.fromhex(data), b""], pa.binary())[1:]
    texts, faults = find_charset(name).decode_strictly(messages)
    texts.validate(full=True)
    if (name, data) in {("UTF-32", "0000d83d0000de00"), ("UTF-32", "0000d83d")} or "\ufffd" in text:
        assert texts.to_pylist() == [None, None, ""]
        assert list(faults) == [1]
        before = bytes.fromhex(data)[: faults[1]]
        assert find_charset(name).decode(pa.array([before])).to_pylist() == [
            text[: text.find("\ufffd")] if before else ""
        ]
    else:
        assert (texts.to_pylist(), faults) == ([None, text, ""], {})


@pytest.mark.parametrize(
    ("name", "data", "at"),
    [
        ("UTF-8", "41ff", 1),
        ("UTF-8", "c3a9eda080", 2),
        ("UTF-8", "41f09f98", 1),
        ("US-ASCII", "4180", 1),
        ("GB18030", "84_31_a4_37_ff", 4),
        ("EUC-JP", "b0a1_8fa1", 2),
        ("UTF-16", "feff_0041_d83d", 4),
        ("UTF-16LE", "4100_42", 2),
        ("UTF-32", "0000feff_00000041_0000d83d", 8),
        ("UTF-32", "0000d83d", 0),
    ],
)
def test_the_first_malformed_byte_is_known(name: str, data: str, at: int) -> None:
    messages = pa.array([bytes.fromhex(data.replace("_", ""))])
    assert find_charset(name).decode_strictly(messages) == (pa.nulls(1, pa.string()), {0: at})


@pytest.mark.parametrize(("name", "data"), [("GB18030", "8431a437"), ("UTF-8", "efbfbd"), ("UTF-16", "fffd")])
def test_a_replacement_character_in_the_text_is_valid(name: str, data: str) -> None:
    texts, faults = find_charset(name).decode_strictly(pa.array([bytes.fromhex(data)]))
    assert (texts.to_pylist(), faults) == (["\ufffd"], {})


@pytest.mark.parametrize("name", ["ISO-8859-1", "windows-1252", "GBK", "Shift_JIS"])
def test_ascii_is_not_copied(name: str) -> None:
    messages = pa.array([b"\xff", b"ab\\~\x00", None], pa.binary())[1:]
    texts = find_charset(name).decode(messages)
    assert texts.to_pylist() == ["ab\\~\x00", None]
    assert texts.buffers()[2].address == messages.buffers()[2].address
    assert find_charset(name).encode(texts).buffers()[2].address == messages.buffers()[2].address


@pytest.mark.parametrize(
    ("data", "encoded"),
    [  # malformed UTF-8 as Java decodes it, each U+FFFD written as "?"
        ("ff41", "3f41"),
        ("eda08041", "3f41"),
        ("eda041", "3f41"),
        ("f0908041", "3f41"),
        ("c0af", "3f3f"),
        ("f4908080", "3f3f3f3f"),
    ],
)
def test_unchecked_text_that_is_malformed_utf8_is_replaced(data: str, encoded: str) -> None:
    texts = pa.array([bytes.fromhex(data), None], pa.binary()).view(pa.string())
    for name in ("ISO-8859-1", "GBK"):
        assert find_charset(name).encode(texts).to_pylist() == [bytes.fromhex(encoded), None]


def test_a_character_split_between_two_texts_is_not_joined() -> None:
    texts = pa.array([b"\xc3", b"\xa9"], pa.binary()).view(pa.string())
    assert find_charset("ISO-8859-1").encode(texts).to_pylist() == [b"?", b"?"]


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("utf-8", "UTF-8"),
        ("UTF8", "UTF-8"),
        ("unicode-1-1-utf-8", "UTF-8"),
        ("unicode", "UTF-16"),
        ("Latin1", "ISO-8859-1"),
        ("8859_1", "ISO-8859-1"),
        ("Cp1251", "windows-1251"),
        ("037", "IBM037"),
        ("cp936", "GBK"),
        ("MS936", "x-mswin-936"),
        ("sjis", "Shift_JIS"),
        ("MS932", "windows-31j"),
        ("default", "US-ASCII"),
    ],
)
def test_names_are_those_of_java(name: str, canonical: str) -> None:
    assert find_charset(name).name == canonical
    assert find_charset(name) is find_charset(canonical)


@pytest.mark.parametrize(
    "name", ["", "UTF 8", "UTF-16 ", " UTF-8", "UTF-7", "cp65001", "no-such", "utf_8", "latin-1", "\u0130BM037"]
)
def test_a_name_that_java_does_not_know_is_an_error(name: str) -> None:
    with pytest.raises(LookupError, match=r"Java has no charset of that name\..* Supported are UTF-8, "):
        find_charset(name)


def test_a_near_miss_gets_a_hint() -> None:
    with pytest.raises(LookupError, match=r"Did you mean 'UTF-16'\?"):
        find_charset("UTF-16 ")


@pytest.mark.parametrize("name", ["ISO-2022-JP", "jis", "CESU-8", "Big5-HKSCS", "x-IBM930"])
def test_an_unsupported_charset_is_an_error(name: str) -> None:
    with pytest.raises(LookupError, match=r"but it is not supported here\. Supported are "):
        find_charset(name)


# --- long messages ---------------------------------------------------------------------------------------

_MULTI_BYTE = ("GB18030", "GBK", "Big5", "Shift_JIS", "EUC-JP", "EUC-KR", "UTF-16", "UTF-16LE")
_LONG = 200_000


@pytest.mark.parametrize("name", [*_MULTI_BYTE, "windows-1252", "IBM037", "UTF-32"])
@pytest.mark.parametrize("seed", range(3))
def test_the_size_of_pieces_does_not_matter(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result does not depend on the size of the pieces in which a message is converted."""
    rng = random.Random(f"{name} {seed}")
    lengths = [0, 1, 2, 3, 4, *(rng.randrange(60) for _ in range(30))]
    data = [rng.randbytes(length) for length in lengths] + ["aé價格😀\ue000".encode() * 9, None]
    messages = pa.array(data, pa.binary())[1:]
    monkeypatch.setattr(charsets, "_PIECE", 1 << 20)
    texts = find_charset(name).decode(messages)
    encoded = find_charset(name).encode(texts)
    for piece in (8, 9, 10, 11, 13, 64):
        monkeypatch.setattr(charsets, "_PIECE", piece)
        assert find_charset(name).decode(messages).equals(texts)
        assert find_charset(name).encode(texts).equals(encoded)


@pytest.mark.parametrize("unit", ["é", "a", "價", "😀", "\x80"])
def test_a_long_text_with_one_byte_per_character(unit: str) -> None:
    for name in ("windows-1252", "ISO-8859-1", "IBM037"):
        one = find_charset(name)
        values = [unit * _LONG, None, "", unit * 5, unit * _LONG]
        messages = one.encode(pa.array(values, pa.string()))
        assert messages.to_pylist() == [None if value is None else one._encode_one(value) for value in values]
        texts = one.decode(messages)
        assert texts.to_pylist() == [None if m is None else one._decode_one(m) for m in messages.to_pylist()]


def test_long_malformed_utf8_is_encoded() -> None:
    for data in (b"\x80" * _LONG, b"a" * _LONG + b"\xc3", b"a\xc3" * _LONG):
        texts = pa.array([data, b"b"], pa.binary()).view(pa.string())
        expected = data.decode("ascii", "replace").encode("latin-1", "replace")
        assert find_charset("ISO-8859-1").encode(texts).to_pylist() == [expected, b"b"]


def _peak(call: Callable[[], object]) -> int:
    """The most bytes that Python and numpy allocate during a call."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize(
    ("name", "unit", "times"),
    [
        ("windows-1252", b"\xe9a", 4),
        ("IBM037", b"\x81", 4),
        *((name, b"\xff", 10) for name in _MULTI_BYTE[:6]),
        ("GB18030", b"\x84\x31\xa5\x30", 10),
        ("UTF-16LE", b"\0\xd8a\0", 10),
        ("UTF-32", b"\0\0\xd8\1", 10),
    ],
)
def test_memory_is_a_few_times_the_message(name: str, unit: bytes, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charsets, "_PIECE", 1 << 12)
    found, size = find_charset(name), 200_000
    found.decode(pa.array([unit * 2]))  # builds the tables
    messages = pa.array([unit * (size // len(unit))])
    assert _peak(lambda: found.decode(messages)) < times * size
    texts = found.decode(messages)
    if name in ("windows-1252", "IBM037"):
        assert _peak(lambda: found.encode(texts)) < times * size


@pytest.mark.parametrize("unit", [b"\0\0\xd8\1", b"\0\0\0\\\0\0\xd8\1"])
def test_lone_surrogates_in_json_are_escaped_in_linear_time(unit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0

    class Counted(str):
        __slots__ = ()

        def __getitem__(self, place: Any) -> str:
            nonlocal looked_at
            found = str.__getitem__(self, place)
            looked_at += len(found)
            return found

    def escaped(fault: UnicodeError) -> tuple[str, int]:
        nonlocal looked_at
        assert isinstance(fault, UnicodeEncodeError)
        looked_at += fault.end - fault.start
        fault.object = Counted(fault.object)
        return encodings._escape_surrogates(fault)

    works = []
    codecs.register_error("tests.halves", escaped)
    monkeypatch.setattr(encodings, "_LONE_SURROGATES", "tests.halves")
    for count in (1000, 4000):
        looked_at = 0
        encodings.recoded(b"\0\0\0{" + unit * count)
        works.append(looked_at)
    assert works[1] < 5 * works[0]
