"""VARIANT in JSON: arrays of VARIANT as texts, and texts as arrays; and the errors of values."""

from __future__ import annotations

import base64
import struct
import uuid
from decimal import Context, Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kvformat.codecs._arrays import replace_malformed, text_bytes
from kvformat.codecs._kernel import variant_codes as codes
from kvformat.codecs._kernel.codes import FAULT
from kvformat.codecs._kernel.messages import Said
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs._kernel.variant_texts import VariantTexts
from kvformat.codecs._kernel.variants import Variants
from kvformat.codecs._timestamps.texts import date_texts, timestamp_texts
from kvformat.codecs.json.errors import JsonErrorMessages
from kvformat.codecs.json.scalars import BadValue, preview
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.types import FlinkType, arrow_type
from kvformat.registry.java.numbers import double_texts

Problems = list[tuple[int, Said]]
"""The index of each value that has an error, and the error's code and text."""
_VARIANT = FlinkType("VARIANT")
_MIB = 2**20
_MOST_DIGITS = 38  # of a decimal in VARIANT
_EXACT = Context(prec=_MOST_DIGITS)
_NOT_WRITTEN = {
    codes.MALFORMED_VARIANT: (ErrorCode.MALFORMED, "the bytes of the value or of its metadata are not a VARIANT"),
    codes.TOO_DEEP_VARIANT: (ErrorCode.TOO_DEEP, "the VARIANT has more than 1000 levels"),
    codes.TOO_LARGE_TEXT: (
        ErrorCode.TOO_LARGE,
        f"the VARIANT needs more than {codes.MOST_OF_A_TEXT // _MIB} MiB as JSON",
    ),
}


def refusal(problem: int, key: str) -> BadValue:
    """Return the error of a value that is valid JSON but not a VARIANT; `problem` is a number of the kernel."""
    if problem == codes.DUPLICATE_KEY:
        return BadValue(f"an object has the key {preview(key)} twice, which VARIANT does not allow")
    most = codes.MOST_OF_A_VARIANT // _MIB
    return BadValue(f"the value needs more than {most} MiB as VARIANT, Spark's limit", ErrorCode.TOO_LARGE)


def read_variants(texts: pa.StringArray) -> tuple[pa.StructArray, Problems]:
    """Read JSON texts as VARIANT. A null, the text `null`, and a text with an error are null."""
    column = Variants(_VARIANT, arrow_type(_VARIANT), refusal)
    problems = column.read_texts(Reader(), *_views(texts), _valid_bytes(texts), _reading_error)
    return column.finish(), problems


def variant_texts(values: pa.StructArray) -> tuple[pa.LargeStringArray, Problems]:
    """Write VARIANT as JSON texts. A null, and a value with an error, is null."""
    value, metadata = map(_views, values.flatten())
    texts, problems = VariantTexts(_uncommon_text).write(value, metadata, _valid_bytes(values))
    return replace_malformed(texts), [(place, _NOT_WRITTEN[problem]) for place, problem in problems]


def _views(values: pa.Array) -> tuple[memoryview[int], memoryview[int]]:
    """Return the offsets and the bytes of texts or byte strings."""
    offsets, data = text_bytes(values.cast(pa.large_binary()))
    return offsets.data, data.data


def _valid_bytes(values: pa.Array) -> memoryview[int]:
    """Return a byte for each value: 0 for null, else 1."""
    valid: npt.NDArray[np.uint8] = values.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
    return valid.data


def _reading_error(reader: Reader, code: int) -> Said:
    """Return the error of a text, after the kernel's result `code`."""
    return JsonErrorMessages.fault(reader) if code == FAULT else reader.reason.said


def _uncommon_text(value: bytes) -> bytes | None:
    """Return the JSON text of a primitive value of VARIANT, or None if it is malformed. Times are in UTC.

    Takes decimals of 16 bytes, floating-point numbers, dates, timestamps, bytes and UUIDs.
    """
    kind, content = value[0], value[1:]
    if kind == codes.DECIMAL16:
        return _decimal_text(content[0], int.from_bytes(content[1:], "little", signed=True))
    if kind in (codes.DOUBLE, codes.FLOAT):
        is_double = kind == codes.DOUBLE
        (number,) = struct.unpack("<d" if is_double else "<f", content)
        text = double_texts(pa.array([number], pa.float64() if is_double else pa.float32()))[0].as_py()
        return (text if number - number == 0 else f'"{text}"').encode()
    if kind == codes.BINARY:
        return b'"' + base64.b64encode(content[4:]) + b'"'
    if kind == codes.UUID:
        return f'"{uuid.UUID(bytes=content)}"'.encode()
    if kind == codes.DATE:
        texts = date_texts(pa.array(struct.unpack("<i", content), pa.int32()).view(pa.date32()))
    else:
        texts = timestamp_texts(pa.array(struct.unpack("<q", content), pa.timestamp("us")), " ")
    zone = "+00:00" if kind == codes.TIMESTAMP else ""
    return f'"{texts[0].as_py()}{zone}"'.encode()


def _decimal_text(scale: int, unscaled: int) -> bytes | None:
    if scale > _MOST_DIGITS or abs(unscaled) >= 10**_MOST_DIGITS:
        return None
    number = Decimal(unscaled).scaleb(-scale, _EXACT).normalize(_EXACT)
    return f"{number:f}".encode() if unscaled else b"0"
