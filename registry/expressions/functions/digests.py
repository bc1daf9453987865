"""Digests and encodings of texts and bytes.

Rules: `SqlFunctionUtils`, `EncodingUtils`, `java.util.Base64`, `StringCallGen`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from kvformat.registry.contract.types import BYTES, STRING, FlinkType
from kvformat.registry.expressions.bound import BindError, Bound, constant
from kvformat.registry.expressions.functions.signatures import Function
from kvformat.registry.expressions.functions.text_signatures import accepted, fixed, text_function
from kvformat.registry.expressions.rows import RowError, Rows
from kvformat.registry.expressions.tree import Call
from kvformat.registry.expressions.vectors import Vector
from kvformat.registry.java.charsets import Charset, find_charset, java_text

_SHA2 = {224: hashlib.sha224, 256: hashlib.sha256, 384: hashlib.sha384, 512: hashlib.sha512}
_SHA_OF_COLUMNS = {**_SHA2, 1: hashlib.sha1}
_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?")
_HEX = re.compile("[0-9A-Fa-f]*")


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


# --- digests -------------------------------------------------------------------------------------------------


def _digest(name: str) -> Function:
    """Return a function that writes a digest in hexadecimal digits."""
    make: Callable[..., Any] = getattr(hashlib, name)
    length = 2 * make(usedforsecurity=False).digest_size

    def compute(value: str | bytes) -> str:
        digest: str = make(_bytes(value), usedforsecurity=False).hexdigest()
        return digest

    return text_function(compute, "TEXT|BYTES", FlinkType("CHAR", length=length))


def _bind_sha2(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Bind `SHA2(value, bits)`. A literal number of bits must be one of SHA-2."""
    value, bits = accepted(call, arguments, "TEXT|BYTES INTEGER")
    if bits.is_literal and bits.literal not in (*_SHA2, None):
        raise BindError("SHA2: the number of bits must be 224, 256, 384 or 512", call.offset)
    if not bits.is_literal and value.type.root in ("BINARY", "VARBINARY"):
        raise BindError("SHA2: of bytes, Flink needs a number of bits that is a literal", call.offset)

    def compute(data: str | bytes, size: int) -> str:
        make = _SHA_OF_COLUMNS.get(size)
        if make is None:
            raise RowError(f"SHA2: Java has no digest SHA-{size}")
        return make(_bytes(data), usedforsecurity=False).hexdigest()

    return fixed(FlinkType("VARCHAR", length=128), compute, [value, bits])


# --- encodings -----------------------------------------------------------------------------------------------


def _from_base64(value: str | bytes) -> str:
    """Decode base64, whose padding may be missing. The text of bytes that are not UTF-8 has replacements."""
    data = _bytes(value)
    if not _BASE64.fullmatch(data):
        raise RowError(f"FROM_BASE64: '{java_text(data):.60}' is not base64")
    data = data.rstrip(b"=")
    return java_text(binascii.a2b_base64(data + b"=" * (-len(data) % 4)))


def _hex(value: int | str) -> str:
    """Return hexadecimal digits of a number of 64 bits, or of a text's bytes."""
    return value.encode().hex().upper() if isinstance(value, str) else f"{value % 2**64:X}"


def _unhex(text: str) -> bytes | None:
    """Return the bytes of hexadecimal digits. Flink ignores the first of an odd number of digits."""
    if not _HEX.fullmatch(text):
        return None
    return b"\0" + bytes.fromhex(text[1:]) if len(text) % 2 else bytes.fromhex(text)


def _charset(name: str) -> Charset:
    try:
        return find_charset(name)
    except LookupError as error:
        raise RowError(f"the charset '{name:.60}': {error}") from None


def _encode(text: str, charset: str) -> Any:
    return _charset(charset).encode(pa.array([text], pa.string()))[0].as_py()


def _decode(data: bytes, charset: str) -> Any:
    return _charset(charset).decode(pa.array([data], pa.binary()))[0].as_py()


def _charset_function(parameters: str, type_: FlinkType, compute: Callable[..., Any], *, encodes: bool) -> Function:
    """Return ENCODE or DECODE. With a literal charset a batch is converted at once."""

    def bind(call: Call, arguments: Sequence[Bound]) -> Bound:
        value, name = accepted(call, arguments, parameters)
        if not name.is_literal:
            return fixed(type_, compute, [value, name])
        if name.literal is None:
            return constant(type_, None)
        try:
            charset = _charset(name.literal)
        except RowError as error:
            raise BindError(f"{call.name}: {error}", call.offset) from None
        convert = charset.encode if encodes else charset.decode

        def evaluate(rows: Rows) -> Vector:
            return Vector.of_array(type_, convert(value.evaluate(rows).array()))

        return Bound(type_, evaluate)

    return Function(bind, 2, 2)


FUNCTIONS: dict[str, Function] = {
    "MD5": _digest("md5"),
    "SHA1": _digest("sha1"),
    "SHA224": _digest("sha224"),
    "SHA256": _digest("sha256"),
    "SHA384": _digest("sha384"),
    "SHA512": _digest("sha512"),
    "SHA2": Function(_bind_sha2, 2, 2),
    "TO_BASE64": text_function(lambda value: base64.b64encode(_bytes(value)).decode(), "TEXT|BYTES", STRING),
    "FROM_BASE64": text_function(_from_base64, "TEXT|BYTES", STRING),
    "ENCODE": _charset_function("TEXT TEXT", BYTES, _encode, encodes=True),
    "DECODE": _charset_function("BYTES TEXT", STRING, _decode, encodes=False),
    "HEX": text_function(_hex, "LONG|TEXT", STRING),
    "BIN": text_function(lambda number: f"{number % 2**64:b}", "LONG", STRING),
    "UNHEX": text_function(_unhex, "TEXT", BYTES, null_literals=True),
}
