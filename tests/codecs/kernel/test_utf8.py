"""The check of UTF-8, at every offset in the blocks of 64 bytes that the kernel checks at once."""

from __future__ import annotations

import itertools
import random

import pyarrow as pa

from kvformat.registry import get_format
from kvformat.registry.java.charsets import java_text
from tests.support.extent import case_count

_LEADS = b"\x41\x80\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5\xf8\xff"
_SECONDS = b"\x41\x80\x8f\x90\x9f\xa0\xbf\xc2"
_LAST = b"\x41\x80\xbf\xe0"
_AROUND = ("é", "漢", "\U0001f600", "aé", "abc漢")


def _size(data: bytes) -> bytes:
    """Return the size of a text in Avro."""
    return bytes([len(data) << 1 & 127 | 128, len(data) >> 6])


def test_every_sequence_of_bytes_in_long_texts() -> None:
    count = case_count(quick=6_000, night=18_000)
    rng = random.Random(53)
    sequences = [bytes(some) for some in itertools.product(_LEADS, _SECONDS, _LAST, _LAST)]
    sequences += [bytes([lead]) for lead in _LEADS] + [bytes(some) for some in itertools.product(_LEADS, _SECONDS)]
    avro, json = get_format("avro"), get_format("json")
    good = 0
    for number in range(count):
        around = rng.choice(_AROUND).encode()
        before = bytes(rng.randrange(4)).replace(b"\0", b"a") + around * rng.randrange(30)
        data = before + rng.choice(sequences) + around * rng.randrange(40)
        if number % 4 == 0:  # so that most of these are valid
            data = data.decode(errors="ignore").encode()
        read = avro.decode_batch(pa.array([_size(data) + data], pa.binary()), "s STRING NOT NULL")
        assert read.errors is None, data
        assert read.rows.to_pylist() == [[{"s": java_text(data)}]], data
        try:
            text = data.decode()
        except UnicodeDecodeError:
            continue
        good += 1
        found = json.decode_batch(pa.array([b'{"s":"' + data + b'"}'], pa.binary()), "s STRING")
        assert found.errors is None, data
        assert found.rows.to_pylist() == [[{"s": text}]], data
    assert count // 5 < good < count // 2, good
