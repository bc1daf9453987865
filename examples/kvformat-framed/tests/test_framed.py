"""The rules of formats with several payloads, the bytes of each frame, and errors of frames."""

from __future__ import annotations

import gzip
import random
import uuid
import zlib
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry import ChangelogMode, ErrorCode, OptionError, get_format
from kvformat.registry.testing import FormatContract, Sample, SparkContract
from kvformat_framed import FramedFormat

VERSION = "7b9b4ea1-3f5e-4a37-a7d0-2b2f8e0d3c11"
JSON = {"payload.format": "json", "schema-id": "7", "schema-version-id": VERSION}
DDL = "id BIGINT, name STRING"
ROWS: list[Any] = [{"id": 7, "name": "Ada"}, {"id": None, "name": "ä" * 200}, None]
TYPES = ("BOOLEAN", "BIGINT", "DOUBLE", "STRING", "BYTES")
"""Types that all payload formats here support. Frames do not depend on types."""
FRACTIONS = {f"DOUBLE as {whole}": {"7.9": "7", "-0.5": "0"} for whole in ("INT", "BIGINT")}
"""Flink's json truncates the fraction of a number if the column is an INT or BIGINT."""
FRAMES: list[dict[str, str]] = [
    {"framing": "gzip"},
    {"framing": "zstd"},
    {"framing": "length-prefix"},
    {"framing": "apicurio"},
    {"framing": "glue"},
    {"framing": "glue", "compress": "true"},
]
FRAME_IDS = ["-".join(frame.values()) for frame in FRAMES]


class TestFramed(FormatContract):
    """Every rule that does not need Spark, with each frame."""

    format = "framed"
    options = {**JSON, "framing": "length-prefix"}
    samples = [Sample(DDL, ROWS, options={**JSON, **frame}) for frame in FRAMES]
    bad = (b"", b'{"id":7}', gzip.compress(b"{torn"), gzip.compress(b'{"id":7}')[:-1])
    changed_reads = FRACTIONS


class TestFramedAvro(FormatContract):
    """Frames around binary data."""

    format = "framed"
    types = TYPES
    options = {"payload.format": "avro", "framing": "zstd"}
    samples = (Sample(DDL, ROWS),)
    bad = (b"", b"\x02\x0e", gzip.compress(b"\x02\x0e"), pa.compress(b"\x02", "zstd", asbytes=True))
    untyped = "Avro's bytes do not store the type of a value"
    by_position = True


class TestFramedChanges(FormatContract):
    """Frames around a changelog format."""

    format = "framed"
    types = TYPES
    options = {"payload.format": "debezium-json", "framing": "gzip"}
    samples = (Sample(DDL, ROWS[:2], row_kinds=["+I", "-D"]),)
    bad = (b"", b"{}", gzip.compress(b"{torn"), gzip.compress(b'{"op":"x"}'))
    changed_reads = FRACTIONS


class TestFramedInSpark(SparkContract):
    """Every rule of Columns."""

    format = "framed"
    options = TestFramed.options
    samples = (Sample(DDL, ROWS),)


def framed(**options: str) -> FramedFormat:
    return FramedFormat(JSON | {name.replace("_", "-"): value for name, value in options.items()})


def errors_of(format: FramedFormat, *messages: bytes) -> list[tuple[str, str]]:
    """Decode bad messages between two good messages. Returns the code and text of each error."""
    good = format.encode_batch(pa.array([{"id": 1, "name": "a"}]), DDL).messages[0].as_py()
    batch = format.decode_batch(pa.array([good, *messages, good]), DDL)
    rows = batch.rows.to_pylist()
    assert [rows[0], rows[-1]] == [[{"id": 1, "name": "a"}]] * 2
    assert rows[1:-1] == [None] * len(messages)
    return list(zip(batch.codes.to_pylist()[1:-1], batch.errors.to_pylist()[1:-1], strict=True))


def test_other_libraries_can_read_the_frames() -> None:
    (payload,) = get_format("json").encode_batch(pa.array([{"id": 1, "name": "a"}]), DDL).messages.to_pylist()
    written = [FramedFormat(JSON | frame).encode_batch(pa.array([{"id": 1, "name": "a"}]), DDL) for frame in FRAMES]
    zipped, zstd, length, apicurio, glue, glue_zipped = (batch.messages[0].as_py() for batch in written)
    assert gzip.decompress(zipped) == payload
    assert zstd[:4] == bytes.fromhex("28b52ffd")
    assert pa.Codec("zstd").decompress(zstd, len(payload), asbytes=True) == payload
    assert length == bytes.fromhex("00000013") + payload
    assert apicurio == bytes.fromhex("000000000000000007") + payload
    assert glue == bytes.fromhex("0300") + uuid.UUID(VERSION).bytes + payload
    assert glue_zipped[:18] == bytes.fromhex("0305") + uuid.UUID(VERSION).bytes
    assert zlib.decompress(glue_zipped[18:]) == payload


def test_frames_of_other_libraries_are_read() -> None:
    payload = b'{"id":1}'
    other = uuid.uuid5(uuid.NAMESPACE_URL, "another version")
    messages = [
        ("gzip", gzip.compress(payload, 9)),
        ("gzip", gzip.compress(payload[:3]) + gzip.compress(payload[3:])),
        ("apicurio", (2**40).to_bytes(9, "big") + payload),
        ("glue", b"\x03\x00" + other.bytes + payload),
        ("glue", b"\x03\x05" + other.bytes + zlib.compress(payload, 1)),
    ]
    for framing, message in messages:
        batch = framed(framing=framing).decode_batch(pa.array([message]), "id INT")
        assert batch.rows.to_pylist() == [[{"id": 1}]], framing


@pytest.mark.parametrize(
    ("framing", "message", "reason"),
    [
        ("gzip", b"", "not gzip: the message is empty"),
        ("gzip", b'{"id":1}', "not gzip"),
        ("gzip", gzip.compress(b"{}")[:-1], "not gzip: Truncated"),
        ("gzip", gzip.compress(b"{}") + b"x", "not gzip"),
        ("zstd", b"", "not zstd: the message is empty"),
        ("zstd", gzip.compress(b"{}"), "not zstd"),
        ("length-prefix", b"\0\0\0", "the message has 3 bytes, its header alone has 4"),
        ("length-prefix", b"\0\0\0\x03{}", "the length is 3, but 2 bytes follow"),
        ("length-prefix", b"\xff\xff\xff\xff{}", "the length is 4294967295, but 2 bytes follow"),
        ("apicurio", b"\x01" + bytes(8) + b"{}", "expected 00 as the first byte, got 01"),
        ("apicurio", b"\0{}", "the message has 3 bytes, its header alone has 9"),
        ("glue", b"\x02\0" + bytes(16) + b"{}", "expected 03 as the first byte (version), got 02"),
        ("glue", b"\x03\x01" + bytes(16) + b"{}", "expected 00 or 05 as the second byte (compression), got 01"),
        ("glue", b"\x03\x05" + bytes(16) + b"{}", "not zlib: "),
        ("glue", b"\x03\x05" + bytes(16) + zlib.compress(b"{}")[:-1], "not zlib: the data is truncated"),
        ("glue", b"\x03\x05" + bytes(16) + zlib.compress(b"{}") + b"x", "not zlib: bytes follow the compressed data"),
    ],
)
def test_a_bad_frame_is_an_error_of_its_message(framing: str, message: bytes, reason: str) -> None:
    ((code, text),) = errors_of(framed(framing=framing), message)
    assert code == ErrorCode.MALFORMED
    assert reason in text


def test_errors_of_the_payload_keep_their_text() -> None:
    format = framed(framing="length-prefix")
    assert errors_of(format, b"\0\0\0\x02no", b"\0", b'\0\0\0\x0a{"id":"x"}') == [
        ("MALFORMED", "not JSON: expecting value at character 1"),
        ("MALFORMED", "the message has 1 bytes, its header alone has 4"),
        ("WRONG_TYPE", "field 'id': cannot read \"x\" as BIGINT"),
    ]


@pytest.mark.parametrize("frame", FRAMES, ids=FRAME_IDS)
def test_the_size_of_a_payload_is_limited(frame: dict[str, str]) -> None:
    tight, wide = (FramedFormat({**JSON, **frame, "max-size": size}) for size in ("1 kb", "64 mb"))
    ((code, text),) = errors_of(tight, *_encoded(wide, "x" * 5_000_000))  # compressed, these are some kilobytes
    assert (code, text) == ("TOO_LARGE", "the payload has more than 'max-size' = 1024 bytes")
    room = 1024 - len(b'{"id":1,"name":""}')
    kept = tight.decode_batch(pa.array(_encoded(tight, "x" * room)), DDL)
    assert kept.rows.to_pylist() == [[{"id": 1, "name": "x" * room}]]
    refused = tight.encode_batch(pa.array([{"id": 1, "name": "x" * (room + 1)}, {"id": 1, "name": ""}]), DDL)
    assert refused.codes.to_pylist() == ["TOO_LARGE", None]
    assert [message is None for message in refused.messages.to_pylist()] == [True, False]


def _encoded(format: FramedFormat, name: str) -> list[bytes]:
    messages: list[bytes] = format.encode_batch(pa.array([{"id": 1, "name": name}]), DDL).messages.to_pylist()
    return messages


@pytest.mark.parametrize("frame", FRAMES, ids=FRAME_IDS)
def test_broken_messages_do_not_affect_other_messages(frame: dict[str, str]) -> None:
    random.seed(15)
    format = FramedFormat({**JSON, **frame})
    (good,) = _encoded(format, "Ada")
    broken = []
    for _ in range(500):
        changed = bytearray(good)
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
        broken.append(bytes(changed[: random.randrange(len(changed) + 1)] if random.random() < 0.3 else changed))
    mixed = [message for each in broken for message in (good, each)]
    batch = format.decode_batch(pa.array(mixed), DDL)
    rows = batch.rows.to_pylist()
    assert rows[::2] == [[{"id": 1, "name": "Ada"}]] * 500
    assert sum(row is None for row in rows[1::2]) > 100


def test_rows_kinds_and_metadata_are_those_of_the_payload() -> None:
    format = framed(framing="gzip", **{"payload.format": "debezium-json"})
    assert format.changelog_mode is ChangelogMode.ALL
    message = b'{"before":null,"after":{"id":1},"op":"c","source":{"table":"t"}}'
    batch = format.decode_batch(pa.array([gzip.compress(message)]), "id INT", metadata=["source.table"])
    assert batch.rows.to_pylist() == [[{"id": 1, "source.table": "t"}]]


@pytest.mark.parametrize(
    ("options", "option", "reason"),
    [
        ({"framing": "apicurio"}, "schema-id", "it is required for writing with 'framing' = 'apicurio'"),
        ({"framing": "glue"}, "schema-version-id", "it is required for writing with 'framing' = 'glue'"),
        ({"framing": "glue", "schema-version-id": "7"}, "schema-version-id", "expected a UUID"),
        ({"framing": "brotli"}, "framing", r"supported values are \[gzip, zstd"),
        ({}, "framing", "needs the option 'framing'"),
    ],
)
def test_missing_and_malformed_options_are_reported(options: dict[str, str], option: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason) as caught:
        FramedFormat({"payload.format": "json", **options}).encode_batch(pa.array([{"id": 1}]), "id BIGINT")
    assert caught.value.option == option
