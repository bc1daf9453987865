"""Java's charsets: find them by name, decode and encode with Java's replacement characters.

`Charset.decode` replaces malformed bytes. `Charset.decode_strictly` reports which messages have malformed bytes. Valid
UTF-8 is not copied.
Rules: `java.nio.charset.Charset`, `String.getBytes(Charset)` and `new String(byte[], Charset)`.
"""

from __future__ import annotations

import codecs
import functools
import itertools
import json
import lzma
import pkgutil
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.errors import did_you_mean

_Numbers: TypeAlias = np.ndarray[Any, Any]

_BAD = "\ufffd"
_PIECE = 1 << 16  # bytes that are converted at a time, more than two characters
_LONGEST = 4  # bytes of a character, in any charset
_UTF16 = ("UTF-16", "UTF-16BE", "UTF-16LE", "x-UTF-16LE-BOM")
_JACKSON_BLOCK = 2 * 4000  # bytes of UTF-16
_UTF32 = ("UTF-32", "UTF-32BE", "UTF-32LE", "X-UTF-32BE-BOM", "X-UTF-32LE-BOM")
_UNICODE = ("UTF-8", *_UTF16, *_UTF32)
# A surrogate encoded as UTF-8, complete or truncated. Java replaces it once, Python replaces each byte.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


class Charset:
    """One charset. `name` is Java's canonical name. Nulls stay null in both directions."""

    def __init__(
        self,
        name: str,
        decode_one: Callable[[bytes], str],
        encode_one: Callable[[str], bytes],
        fault_of: Callable[[bytes], int],
        *,
        ascii: bool = False,
    ) -> None:
        """Take functions that decode, encode and check one value.

        `ascii` says whether ASCII text has the same bytes in this charset. `fault_of` returns the offset of the first
        malformed byte, -1 if there is none.
        """
        self.name = name
        self._decode_one = decode_one
        self._encode_one = encode_one
        self._fault_of = fault_of
        self._ascii = ascii

    def __repr__(self) -> str:
        return f"charset({self.name!r})"

    def decode(self, messages: pa.BinaryArray) -> pa.StringArray:
        """Decode messages. U+FFFD replaces each malformed part, as in Java."""
        if self._same_bytes(messages):
            return messages.view(pa.string())
        texts = [None if data is None else self._decode_one(data) for data in messages.to_pylist()]
        return pa.array(texts, pa.string())

    def decode_strictly(self, messages: pa.BinaryArray) -> tuple[pa.StringArray, dict[int, int]]:
        """Decode messages. Returns the texts, null for malformed messages, and the first malformed byte of each.

        The dictionary maps the index of a message to the offset of the byte.
        """
        texts = self.decode(messages)
        faults = {}
        for place in self._suspects(texts):
            at = self._fault_of(messages[place].as_py())
            if at >= 0:
                faults[place] = at
        return _with_nulls(texts, faults), faults

    def _suspects(self, texts: pa.StringArray) -> list[int]:
        """Return the indices of messages that may be malformed: their texts contain U+FFFD."""
        marked: list[int] = np.flatnonzero(pc.fill_null(pc.match_substring(texts, _BAD), False)).tolist()
        return marked

    def encode(self, texts: pa.StringArray) -> pa.BinaryArray:
        """Encode texts. The charset's replacement is written for characters that it does not have."""
        if self._same_bytes(texts):
            return texts.view(pa.binary())
        values = texts.view(pa.binary()).to_pylist()  # a text that was read without a check may be malformed UTF-8
        return pa.array([None if data is None else self._encode_one(java_text(data)) for data in values], pa.binary())

    def _same_bytes(self, values: pa.Array) -> bool:
        return len(values) == 0 or (self._ascii and bool(_content(values)[1].max(initial=0) < 0x80))


class _Utf8(Charset):
    """UTF-8: valid bytes are the text."""

    def decode(self, messages: pa.BinaryArray) -> pa.StringArray:
        try:
            return messages.cast(pa.string())
        except pa.ArrowInvalid:
            return super().decode(messages)

    def decode_strictly(self, messages: pa.BinaryArray) -> tuple[pa.StringArray, dict[int, int]]:
        try:
            return messages.cast(pa.string()), {}
        except pa.ArrowInvalid:
            offsets = enumerate(-1 if data is None else self._fault_of(data) for data in messages.to_pylist())
        faults = {place: at for place, at in offsets if at >= 0}
        return _with_nulls(messages.view(pa.string()), faults), faults

    def encode(self, texts: pa.StringArray) -> pa.BinaryArray:
        return texts.view(pa.binary())  # also malformed bytes: they were read without a check


class _Utf32(Charset):
    """UTF-32. Java also decodes surrogates, which are malformed."""

    def _suspects(self, texts: pa.StringArray) -> list[int]:
        return [place for place, there in enumerate(texts.is_valid().to_pylist()) if there]


class _SingleByte(Charset):
    """A charset with one byte per character. A batch is converted as one long text."""

    def __init__(self, name: str, chars: str, table: Mapping[int, bytes], *, ascii: bool) -> None:
        """Take the 256 characters, and the byte of each code point, with a replacement for unknown ones."""
        super().__init__(
            name,
            lambda data: codecs.charmap_decode(data, "strict", chars)[0],
            lambda text: codecs.charmap_encode(text, "strict", table)[0],
            lambda data: codecs.charmap_decode(data, "strict", chars)[0].find(_BAD),
            ascii=ascii,
        )
        self._sizes = np.array([len(char.encode()) for char in chars])

    def decode(self, messages: pa.BinaryArray) -> pa.StringArray:
        if self._same_bytes(messages):
            return messages.view(pa.string())
        offsets, data = _content(messages)
        pieces = ((at, min(at + _PIECE, len(data))) for at in range(0, len(data), _PIECE))
        converted = _convert_pieces(
            offsets, data, pieces, lambda piece: self._decode_one(piece.tobytes()).encode(), self._sizes.__getitem__
        )
        return _make_array(messages, pa.string(), *converted)

    def encode(self, texts: pa.StringArray) -> pa.BinaryArray:
        if self._same_bytes(texts):
            return texts.view(pa.binary())
        offsets, data = _content(texts)
        if not _begins(data[offsets[offsets < len(data)]]).all():
            return super().encode(texts)  # a text begins within a character: it is malformed UTF-8
        try:
            converted = _convert_pieces(
                offsets, data, _characters(data), lambda piece: self._encode_one(piece.tobytes().decode()), _begins
            )
        except UnicodeDecodeError:
            return super().encode(texts)
        return _make_array(texts, pa.binary(), *converted)


class _Chars(dict[bytes, str]):
    """Characters by their bytes. Unknown bytes are U+FFFD; they are cached if there are at most two."""

    def __missing__(self, data: bytes) -> str:
        return self.setdefault(data, _BAD) if len(data) <= 2 else _BAD


class _Gb18030Chars(_Chars):
    """Characters of GB18030 by their bytes. The four-byte sequences are computed."""

    def __missing__(self, data: bytes) -> str:
        return _python_char(data, "gb18030") if len(data) == 4 else super().__missing__(data)


class _Encoded(dict[int, bytes]):
    """Bytes by code point, with a replacement for unknown code points."""

    def __init__(self, replacement: bytes) -> None:
        self._replacement = replacement

    def __missing__(self, code: int) -> bytes:
        return self._replacement


class _Gb18030Encoded(_Encoded):
    """Bytes of GB18030 by code point. The four-byte sequences are computed."""

    def __missing__(self, code: int) -> bytes:
        return chr(code).encode("gb18030", "replace")


def find_charset(name: str) -> Charset:
    """Find a charset by Java's canonical name or an alias, in any case.

    Raises LookupError for a name that Java does not know, and for a charset that is not supported. The message lists
    the supported charsets.
    """
    canonical = _names().get(name.lower()) if name.isascii() else None
    if canonical is not None and (canonical in _UNICODE or "single" in _tables()[canonical]):
        return _charset(canonical)
    multi = ", ".join(known for known, entry in _tables().items() if "base" in entry)
    supported = f"Supported are {', '.join(_UNICODE)}, {multi}, and Java's single-byte charsets such as IBM037"
    if canonical is not None:
        raise LookupError(f"Java has the charset '{canonical}', but it is not supported here. {supported}")
    raise LookupError(f"Java has no charset of that name.{did_you_mean(name, _names().values())} {supported}")


@functools.cache
def _tables() -> dict[str, Any]:
    """The answers of OpenJDK 17's charsets: `{canonical name: {"aliases": [...], and the charset's tables}}`.

    `scripts/charset_tables/generate` wrote the file.
    """
    packed = pkgutil.get_data(__package__, "charset_tables.json.xz")
    assert packed is not None
    tables: dict[str, Any] = json.loads(lzma.decompress(packed))
    return tables


@functools.cache
def _names() -> dict[str, str]:
    """Return canonical names by name and alias in lower case."""
    return {alias.lower(): name for name, entry in _tables().items() for alias in (name, *entry["aliases"])}


@functools.cache
def _charset(name: str) -> Charset:
    if name == "UTF-8":
        return _Utf8(name, java_text, str.encode, functools.partial(_unicode_fault, "utf-8"))
    if name in _UTF16:
        return Charset(
            name,
            functools.partial(_utf16, name),
            functools.partial(_utf_bytes, name),
            lambda data: _fault_after_mark(data, *_utf16_form(name, data)),
        )
    if name in _UTF32:
        return _Utf32(
            name,
            functools.partial(_utf32, name),
            functools.partial(_utf_bytes, name),
            lambda data: _fault_after_mark(data, *_utf32_form(name, data)),
        )
    entry = _tables()[name]
    chars, encoded = _build_tables(entry)
    ascii = all(entry["single"][i] == chr(i) and encoded[i] == bytes([i]) for i in range(128))
    if "base" not in entry:
        return _SingleByte(name, entry["single"], encoded, ascii=ascii)
    pattern = _pattern(entry, chars)
    return Charset(
        name,
        lambda data: _decode_pieces(pattern, chars.__getitem__, data),
        lambda text: codecs.charmap_encode(text, "strict", encoded)[0],
        lambda data: _fault_by_pattern(data, pattern, chars, encoded[ord(_BAD)]),
        ascii=ascii,
    )


def _build_tables(entry: dict[str, Any]) -> tuple[_Chars, _Encoded]:
    """Build the tables of a charset for decoding and encoding: one inverts the other, with exceptions."""
    four = "fours" in entry
    chars = _Gb18030Chars() if four else _Chars()
    chars.update((bytes([i]), char) for i, char in enumerate(entry["single"]) if char != _BAD)
    if "base" in entry:
        chars.update(_sequences(entry))
    replacement = bytes.fromhex(entry.get("replacement", "3f"))
    encoded = _Gb18030Encoded(replacement) if four else _Encoded(replacement)
    for data, char in chars.items():
        encoded.setdefault(ord(char), data)
    for code, text in _expand_runs(entry["encode"], " "):
        encoded[code] = bytes.fromhex(text) or replacement
    return chars, encoded


def _sequences(entry: dict[str, Any]) -> Iterator[tuple[bytes, str]]:
    """Yield sequences of several bytes with their characters: those of a Python codec, with Java's differences."""
    pairs = dict(_expand_runs(entry["pairs"]))
    kinds = [(pairs, b"", lead) for lead in bytes.fromhex(entry["leads"])]
    if "triples" in entry:
        kinds += [(dict(_expand_runs(entry["triples"])), b"\x8f", lead) for lead in range(0x80, 0x100)]
    for (differences, begin, lead), last in itertools.product(kinds, range(0x100)):
        data = begin + bytes([lead, last])
        char = differences.get(lead << 8 | last) or _python_char(data, entry["base"])
        if char != _BAD:
            yield data, char
    for i, char in _expand_runs(entry.get("fours", [])):
        yield bytes([0x81 + i // 12600, 0x30 + i // 1260 % 10, 0x81 + i // 10 % 126, 0x30 + i % 10]), char


def _python_char(data: bytes, base: str) -> str:
    text = data.decode(base, "replace")
    return text if len(text) == 1 else _BAD


def _expand_runs(runs: list[Any], glue: str | None = None) -> Iterator[tuple[int, str]]:
    """Expand the runs of a table, `[first number, texts from this number on, ...]`, to numbers and texts."""
    for first, texts in zip(runs[::2], runs[1::2], strict=True):
        yield from enumerate(texts.split(glue) if glue else texts, first)


def _pattern(entry: dict[str, Any], chars: _Chars) -> re.Pattern[bytes]:
    """Return a pattern that splits bytes into sequences of one character or one U+FFFD."""
    if "fours" in entry:
        return re.compile(rb"[\x81-\xfe](?:[0-9](?:[\x81-\xfe].|.)?|[\x3a-\xff])?|.", re.DOTALL)
    if "triples" in entry:
        return re.compile(rb"\x8f.{0,2}|[\x80-\xff].?|.", re.DOTALL)
    leads = bytes.fromhex(entry["leads"])
    by_seconds: dict[bytes, bytes] = {}
    for lead in leads:
        seconds = bytes(second for second in range(0x100) if bytes([lead, second]) in chars)
        by_seconds[seconds] = by_seconds.get(seconds, b"") + bytes([lead])
    valid = [_one_of(lead) + _one_of(seconds) for seconds, lead in by_seconds.items() if seconds]
    # The second byte of a malformed pair is decoded again if it can begin a character.
    begins = bytes(byte for byte in range(0x100) if byte in leads or bytes([byte]) in chars)
    rest = bytes(byte for byte in range(0x100) if byte not in begins)
    bad = [_one_of(leads) + _one_of(rest)] if rest else []
    return re.compile(b"|".join([*valid, *bad, b"."]), re.DOTALL)


def _one_of(data: bytes) -> bytes:
    return b"[" + b"".join(b"\\x%02x" % byte for byte in data) + b"]"


def _utf16(name: str, data: bytes) -> str:
    codec, start = _utf16_form(name, data)
    return utf16_text(data[start:], codec)


def _utf16_form(name: str, data: bytes) -> tuple[str, int]:
    """Python's codec for a message, and where its text starts, after a byte order mark."""
    little = "LE" in name
    if name in ("UTF-16", "x-UTF-16LE-BOM") and data[:2] in (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE):
        return "utf-16-le" if data[:2] == codecs.BOM_UTF16_LE else "utf-16-be", 2
    return "utf-16-le" if little else "utf-16-be", 0


def _unicode_fault(codec: str, data: bytes) -> int:
    """The offset of the first malformed byte, -1 if there is none."""
    try:
        data.decode(codec)
    except UnicodeDecodeError as fault:
        return fault.start
    return -1


def _fault_after_mark(data: bytes, codec: str, start: int) -> int:
    """The offset of the first malformed byte of a text that starts at `start`, -1 if there is none."""
    fault = _unicode_fault(codec, data[start:])
    return fault if fault < 0 else start + fault


def _fault_by_pattern(data: bytes, pattern: re.Pattern[bytes], chars: _Chars, replacement: bytes) -> int:
    """The offset of the first sequence that is not a character, -1 if there is none.

    A charset that has the character U+FFFD encodes it as `replacement`.
    """
    for match in pattern.finditer(data):
        if chars[match[0]] == _BAD and match[0] != replacement:
            return match.start()
    return -1


def utf16_text(data: bytes, codec: str) -> str:
    """Decode `utf-16-le` or `utf-16-be` as Java does: a high surrogate and the unit after it become one U+FFFD."""
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        pattern = rb".[\xd8-\xdb].{0,2}|..?" if codec == "utf-16-le" else rb"[\xd8-\xdb].{1,3}|..?"
        return _decode_pieces(re.compile(pattern, re.DOTALL), lambda unit: _python_char(unit, codec), data)


def utf32_text(data: bytes, codec: str) -> tuple[str, bool]:
    """Decode `utf-32-le` or `utf-32-be` as Jackson's `UTF32Reader` does. Returns the text before malformed bytes.

    The second result says whether there are malformed bytes. Surrogates are decoded. Jackson decodes blocks of 4000
    UTF-16 units, and drops a block with an invalid code point. It keeps the text before a truncated last character.
    """
    try:
        return data.decode(codec, "surrogatepass"), False
    except UnicodeDecodeError as fault:
        text, torn = data[: fault.start].decode(codec, "surrogatepass"), fault.start + 4 > len(data)
    if torn:
        return text, True
    units = text.encode("utf-16-le", "surrogatepass")
    return units[: len(units) // _JACKSON_BLOCK * _JACKSON_BLOCK].decode("utf-16-le", "surrogatepass"), True


def _utf32_form(name: str, data: bytes) -> tuple[str, int]:
    """Python's codec for a message, and where its text starts, after a byte order mark."""
    little = "LE" in name
    boms = {"UTF-32": (codecs.BOM_UTF32_BE, codecs.BOM_UTF32_LE)}.get(
        name, (codecs.BOM_UTF32_LE if little else codecs.BOM_UTF32_BE,)
    )
    if data[:4] in boms:
        return "utf-32-le" if data[:4] == codecs.BOM_UTF32_LE else "utf-32-be", 4
    return "utf-32-le" if little else "utf-32-be", 0


def _utf32(name: str, data: bytes) -> str:
    codec, start = _utf32_form(name, data)
    data = data[start:]
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        codes = np.frombuffer(data, "<u4" if codec == "utf-32-le" else ">u4", len(data) // 4)
    numbers = np.where(codes <= 0x10FFFF, codes, ord(_BAD)).astype("<u4").tobytes()
    text = numbers.decode("utf-32-le", "surrogatepass") + (_BAD if len(data) % 4 else "")
    # Java decodes surrogates here: a pair is a character, a lone surrogate is written as "?".
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return joined.encode("utf-8", "replace").decode()


def _utf_bytes(name: str, text: str) -> bytes:
    little = "LE" in name
    codec = ("utf-16" if name in _UTF16 else "utf-32") + ("-le" if little else "-be")
    marked = "BOM" in name or name == "UTF-16"  # UTF-32 writes no mark
    return ("\ufeff" + text if marked and text else text).encode(codec)


def java_text(data: bytes) -> str:
    """Decode UTF-8 as Java does, with U+FFFD for malformed parts."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_BAD.encode(), data).decode(errors="replace")


def _decode_pieces(pattern: re.Pattern[bytes], text: Callable[[bytes], str], data: bytes) -> str:
    """Split bytes by a pattern, and join the texts of the sequences. Works in pieces to limit memory."""
    texts, at = [], 0
    while at < len(data):
        end = at + _PIECE
        sequences = pattern.findall(data, at, end)
        while end < len(data) and end > at + _PIECE - _LONGEST:
            end -= len(sequences.pop())  # with more bytes, these may be another sequence
        texts.append("".join(map(text, sequences)))
        at = end
    return "".join(texts)


def _convert_pieces(
    offsets: _Numbers,
    data: _Numbers,
    pieces: Iterable[tuple[int, int]],
    convert: Callable[[_Numbers], bytes],
    sizes: Callable[[_Numbers], _Numbers],
) -> tuple[_Numbers, bytearray]:
    """Convert bytes to another encoding. Returns the new offsets of the values, and the bytes.

    The bytes are converted in `pieces`, given by start and end, to limit memory. `sizes` returns how many bytes each
    byte of a piece becomes.
    """
    places, converted = np.empty(len(offsets), np.int64), bytearray()
    for at, end in pieces:
        here = slice(*np.searchsorted(offsets, (at, end)))
        totals = np.concatenate(([0], np.cumsum(sizes(data[at:end]))))
        places[here] = len(converted) + totals[offsets[here] - at]
        converted += convert(data[at:end])
    places[np.searchsorted(offsets, len(data)) :] = len(converted)
    return places, converted


def _begins(data: _Numbers) -> _Numbers:
    """Return a mask of the bytes of UTF-8 that begin a character."""
    begins: _Numbers = (data & 0xC0) != 0x80
    return begins


def _characters(data: _Numbers) -> Iterator[tuple[int, int]]:
    """Yield start and end of pieces of UTF-8, at ends of characters. Malformed UTF-8 may be cut anywhere."""
    at = 0
    while at < len(data):
        end = min(at + _PIECE, len(data))
        while end < len(data) and end > at + _PIECE - _LONGEST and not _begins(data[end]):
            end -= 1
        yield at, end
        at = end


def _content(values: pa.Array) -> tuple[_Numbers, _Numbers]:
    """Return the offsets, which begin at 0, and the bytes of a binary or string array that is not empty."""
    _, offsets, data = values.buffers()
    places = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    content = np.frombuffer(data if data is not None else b"", np.uint8)[places[0] : places[-1]]
    return places - places[0], content


def _with_nulls(texts: pa.StringArray, places: Collection[int]) -> pa.StringArray:
    """Set the texts at some indices to null."""
    if not places:
        return texts
    gone = np.zeros(len(texts), np.bool_)
    gone[list(places)] = True
    return pc.if_else(pa.array(gone), pa.scalar(None, pa.string()), texts)


def _make_array(values: pa.Array, type: pa.DataType, offsets: _Numbers, data: bytearray) -> pa.Array:
    """Make an array from offsets and bytes, null where `values` is null."""
    if offsets[-1] > np.iinfo(np.int32).max:
        raise pa.ArrowCapacityError(f"the text of a batch has {offsets[-1]} bytes, more than an array can hold")
    valid = None
    if values.null_count:
        mask = np.asarray(values.is_valid())
        valid = pa.py_buffer(np.packbits(mask, bitorder="little"))
    buffers = [valid, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(type, len(values), buffers, values.null_count)
