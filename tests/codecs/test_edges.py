"""Edge values of every type, converted from every format to every other format.

The second format encodes and decodes the rows that the first format decoded. A value must be unchanged or be an error
of its own row or message. `KNOWN` lists the exceptions. `pytest -s` shows the counts of each pair of formats.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import NamedTuple

import pyarrow as pa
import pytest

from kvformat.registry import Format, SchemaError, get_format
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.types import arrow_type
from kvformat.registry.testing.edges import EDGES, NO_TIMES, rows_of, value_texts

FORMATS: dict[str, tuple[str, dict[str, str]]] = {
    "json": ("json", {}),
    "json tree": ("json", {"decode.json-parser.enabled": "false", "timestamp-format.standard": "ISO-8601"}),
    "csv": ("csv", {"null-literal": "<null>"}),
    "avro": ("avro", {"timestamp_mapping.legacy": "false"}),
    "avro json": ("avro", {"timestamp_mapping.legacy": "false", "encoding": "json"}),
    "confluent": ("avro-confluent", {"url": "file:", "subject": "edges"}),
    "debezium avro": ("debezium-avro-confluent", {"url": "file:", "subject": "edges-of-changes"}),
    "debezium": ("debezium-json", {}),
    "canal": ("canal-json", {}),
    "maxwell": ("maxwell-json", {}),
    "ogg": ("ogg-json", {}),
    "raw": ("raw", {}),
}
LEAST_CASES = 44_000

_FAR_DATES = (-2440550, -719893, 2932897, 35804357, -720930, 2932956, -719529, 2147483647, -2147483648)
KNOWN: dict[tuple[str, str], dict[str, str]] = {
    # Flink's csv writes these as an empty message, or as a NULL inside the ARRAY or ROW
    ("csv", "STRING"): {
        "b''": "decode: there is no record",
        r"b'\x00'": "decode: no closing quote",  # Jackson reads these bytes as UTF-16
    },
    ("csv", "BYTES"): {"b''": "decode: there is no record"},
    ("csv", "ARRAY<INT>"): {"[]": "decode: there is no record", "None": "[None]"},
    ("csv", "ARRAY<STRING>"): {"[]": "decode: there is no record", "None": "[None]"},
    ("csv", "ROW<a INT, b STRING>"): {"None": "decode: field 'v': row length mismatch"},
    # csv writes years that it cannot read
    ("csv", "DATE"): {str(day): "decode: field 'v': cannot read" for day in _FAR_DATES},
    # Avro's JSON encoding writes words that it cannot read
    ("avro json", "FLOAT"): dict.fromkeys(("nan", "inf", "-inf"), "decode: field 'v': expected a number"),
    ("avro json", "DOUBLE"): dict.fromkeys(("nan", "inf", "-inf"), "decode: field 'v': expected a number"),
}


class RoundTrip(NamedTuple):
    """The result of encoding and decoding rows.

    messages: the encoded messages.
    rows: the decoded rows, null for an error.
    texts: the value or the error of each row.
    is_error: whether each row is an error.
    """

    messages: list[bytes | None]
    rows: pa.StructArray
    texts: list[str]
    is_error: list[bool]


def _error_texts(errors: pa.StringArray | None, count: int, direction: str) -> list[str | None]:
    texts = [None] * count if errors is None else errors.to_pylist()
    return [None if text is None else f"{direction}: {text}" for text in texts]


def _round_trip(format: Format, rows: pa.StructArray, flink: str) -> RoundTrip:
    encoded = format.encode_batch(rows, f"v {flink}")
    batch = format.decode_batch(encoded.messages, f"v {flink}")
    batch.rows.validate(full=True)
    bounds = batch.rows.offsets.to_pylist()
    places = [start if stop > start else None for start, stop in itertools.pairwise(bounds)]
    found = batch.rows.values.take(pa.array(places, pa.int32()))
    errors = [
        first or second
        for first, second in zip(
            _error_texts(encoded.errors, len(rows), "encode"),
            _error_texts(batch.errors, len(rows), "decode"),
            strict=True,
        )
    ]
    texts = [error or value for error, value in zip(errors, value_texts(found), strict=True)]
    return RoundTrip(encoded.messages.to_pylist(), found, texts, [error is not None for error in errors])


def _supports(format: Format, flink: str) -> bool:
    try:
        format.encode_batch(rows_of(flink)[:0], f"v {flink}")
        format.decode_batch(pa.array([], pa.binary()), f"v {flink}")
    except SchemaError:
        return False
    return True


def _expected(name: str, flink: str, value: str) -> str:
    """Return the expected value after the round trip, or the beginning of the expected error."""
    if flink == "TIME(3)" and value in NO_TIMES:
        return "encode: field 'v': a TIME must be at least 00:00:00 and before 24:00:00"
    return KNOWN.get((name, flink), {}).get(value, value)


@pytest.fixture(scope="module")
def formats(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Format]:
    folder = tmp_path_factory.mktemp("registry")
    made = {}
    for name, (identifier, options) in FORMATS.items():
        options = {key: f"file:{folder}" if key == "url" else value for key, value in options.items()}
        made[name] = get_format(identifier, options)
    return made


@pytest.mark.parametrize("flink", EDGES)
def test_every_format_keeps_edge_values_or_reports_an_error(formats: dict[str, Format], flink: str) -> None:
    rows = rows_of(flink)
    for name, format in formats.items():
        if not _supports(format, flink):
            continue
        result = _round_trip(format, rows, flink)
        for value, text in zip(value_texts(rows), result.texts, strict=True):
            expected = _expected(name, flink, value)
            assert text.startswith(expected) if expected != value else text == value, (name, value)
        assert not any(b"<value" in message for message in result.messages if message)  # Arrow's text for such values


def test_every_format_writes_the_rows_that_other_formats_read(formats: dict[str, Format]) -> None:
    kept: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    for flink in EDGES:
        rows = rows_of(flink)
        values = value_texts(rows)
        supported = {name: format for name, format in formats.items() if _supports(format, flink)}
        direct = {name: _round_trip(format, rows, flink) for name, format in supported.items()}
        done: dict[tuple[str, ...], RoundTrip] = {}  # most formats decode equal rows; write them once
        for a in supported:
            first = direct[a]
            unchanged = [x == y for x, y in zip(first.texts, values, strict=True)]
            for b, other in supported.items():
                key = (b, str(first.rows.is_valid().to_pylist()), *value_texts(first.rows))
                if key not in done:
                    done[key] = _round_trip(other, first.rows, flink)
                second = done[key]
                for row, text in enumerate(first.texts):
                    if first.is_error[row]:
                        failed[a, b] += 1
                        continue
                    expected = _expected(b, flink, text)
                    assert second.texts[row].startswith(expected), (a, b, flink, text)
                    if unchanged[row]:
                        assert second.messages[row] == direct[b].messages[row], (a, b, flink, text)
                    (failed if second.is_error[row] else kept)[a, b] += 1
    _print_matrix(kept, failed)
    assert kept.total() + failed.total() >= LEAST_CASES
    assert failed.total() < kept.total() / 10


def _print_matrix(kept: Counter[tuple[str, str]], failed: Counter[tuple[str, str]]) -> None:
    print("\nunchanged edge values/errors, from each format (lines) to each format (columns)")
    print(" " * 10, *(f"{name:>10}" for name in FORMATS))
    for a in FORMATS:
        print(f"{a:10}", *(f"{f'{kept[a, b]}/{failed[a, b]}':>10}" for b in FORMATS))
    print(f"{kept.total() + failed.total()} cases, {failed.total()} errors")


_WIDER = {"TINYINT": ("SMALLINT", 8), "SMALLINT": ("INT", 16), "INT": ("BIGINT", 32), "BIGINT": ("DECIMAL(20, 0)", 64)}


@pytest.mark.parametrize(
    ("name", "narrow"),
    [
        (name, narrow)
        for name, (identifier, _) in FORMATS.items()
        # Avro has different bytes for wider types, except TINYINT, SMALLINT and INT, which are all its int
        for narrow in (("TINYINT", "SMALLINT") if "avro" in identifier else _WIDER)
        if name != "raw"
    ],
)
def test_numbers_just_outside_the_range_are_errors(formats: dict[str, Format], name: str, narrow: str) -> None:
    wide, bits = _WIDER[narrow]
    numbers = pa.array([0, 2 ** (bits - 1), -(2 ** (bits - 1)) - 1], pa.decimal128(20, 0))
    rows = pa.StructArray.from_arrays([numbers.cast(arrow_type(parse_type(wide)))], names=["v"])
    batch = formats[name].decode_batch(formats[name].encode_batch(rows, f"v {wide}").messages, f"v {narrow}")
    assert batch.errors is not None
    assert batch.errors.is_valid().to_pylist() == [False, True, True]
    assert batch.rows.value_lengths().fill_null(0).to_pylist() == [1, 0, 0]
