"""The meaning of values: a value of each kind in a column of each type is right, or an error that names both."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs import get_format

_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
_BIG = {"type": "bytes", "logicalType": "big-decimal"}
_FIXED_DECIMAL = {"type": "fixed", "name": "D", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 2}
_NODE = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
_UUID = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
_DURATION = {"type": "fixed", "name": "P", "size": 12, "logicalType": "duration"}
_DAY, _MILLIS, _MICROS = 19782, 1_709_208_000_123, 1_709_208_000_123_456


def _logical(base: str, name: str) -> dict[str, str]:
    return {"type": base, "logicalType": name}


def _number(n: int) -> str:
    data, n = b"", n << 1
    while n > 127:
        data, n = data + bytes([n & 127 | 128]), n >> 7
    return (data + bytes([n])).hex()


_KINDS: dict[str, tuple[Any, str]] = {
    "text": ("string", "08312e3235"),
    "uuid text": (_logical("string", "uuid"), "08312e3235"),
    "bytes": ("bytes", "04007d"),
    "decimal": (_DECIMAL, "02 7d"),
    "big-decimal": (_BIG, "06 02 7d 04"),
    "fixed decimal": (_FIXED_DECIMAL, "007d"),
    "fixed uuid": (_UUID, "00" * 15 + "7d"),
    "duration": (_DURATION, "00" * 11 + "7d"),
    "int": ("int", _number(_DAY)),
    "date": (_logical("int", "date"), _number(_DAY)),
    "time-millis": (_logical("int", "time-millis"), _number(43_200_123)),
    "long": ("long", _number(_MILLIS)),
    "time-micros": (_logical("long", "time-micros"), _number(43_200_123_456)),
    "timestamp-millis": (_logical("long", "timestamp-millis"), _number(_MILLIS)),
    "timestamp-micros": (_logical("long", "timestamp-micros"), _number(_MICROS)),
    "timestamp-nanos": (_logical("long", "timestamp-nanos"), _number(_MICROS * 1000)),
    "local-timestamp-millis": (_logical("long", "local-timestamp-millis"), _number(_MILLIS)),
    "enum": ({"type": "enum", "name": "E", "symbols": ["P"]}, "00"),
    "double": ("double", struct.pack("<d", 1.25).hex()),
    "boolean": ("boolean", "01"),
}
_MOMENT = datetime(2024, 2, 29, 12, 0, 0, 123_000)
_RIGHT: dict[str, Mapping[str, Any]] = {
    "DECIMAL(10, 2)": {
        **dict.fromkeys(("bytes", "decimal", "big-decimal", "fixed decimal"), Decimal("1.25")),
    },
    "STRING": {"text": "1.25", "uuid text": "1.25", "bytes": "\0}", "enum": "P"},
    "BYTES": {
        **dict.fromkeys(("text", "uuid text"), b"1.25"),
        **dict.fromkeys(("bytes", "fixed decimal"), b"\0}"),
        "decimal": b"}",
        "big-decimal": b"\x02}\x04",
        "fixed uuid": b"\0" * 15 + b"}",
        "duration": b"\0" * 11 + b"}",
    },
    "DATE": {"int": date(2024, 2, 29), "date": date(2024, 2, 29)},
    "TIME(3)": {"int": time(0, 0, 19, 782_000), "time-millis": time(12, 0, 0, 123_000)},
    "TIMESTAMP(3)": {
        "int": datetime(1970, 1, 1, 0, 0, 19, 782_000),
        **dict.fromkeys(
            ("long", "timestamp-millis", "timestamp-micros", "timestamp-nanos", "local-timestamp-millis"), _MOMENT
        ),
    },
    "INT": {"int": _DAY, "date": _DAY, "time-millis": 43_200_123},
    "BIGINT": {
        **dict.fromkeys(("int", "date"), _DAY),
        "time-millis": 43_200_123,
        **dict.fromkeys(("long", "timestamp-millis", "local-timestamp-millis"), _MILLIS),
        "time-micros": 43_200_123_456,
        "timestamp-micros": _MICROS,
        "timestamp-nanos": _MICROS * 1000,
    },
}
"""The kinds that each column reads, with their values. A bare number has the meaning of its column."""
_AROUND: dict[str, tuple[Any, str, str, str]] = {
    "": (lambda t: t, "", "", "{}"),
    "null or it": (lambda t: ["null", t], "02", "", "{}"),
    "it or null": (lambda t: [t, "null"], "00", "", "{}"),
    "array": (lambda t: {"type": "array", "items": t}, "02", "00", "ARRAY<{}>"),
    "map": (lambda t: {"type": "map", "values": ["null", t]}, "02 0261 02", "00", "MAP<STRING, {}>"),
    "record": (lambda t: {"type": "record", "name": "I", "fields": [{"name": "k", "type": t}]}, "", "", "ROW<k {}>"),
}


def _read(folder: Path, schema: Any, message: str, column: str, plain: str = "true") -> tuple[Any, str | None]:
    node = {"type": "record", "name": "A", "fields": [{"name": "x", "type": schema}]}
    (folder / "1.avsc").write_text(json.dumps(node))
    fmt = get_format("avro-confluent", {"url": f"file:{folder}", "read-enum-and-fixed": plain})
    batch = fmt.decode_batch(pa.array([bytes.fromhex("0000000001" + message)]), f"x {column}")
    error = None if batch.errors is None else batch.errors[0].as_py()
    return (None if error else batch.rows[0].as_py()[0]["x"]), error


def _inner(value: Any) -> Any:
    while isinstance(value, (list, dict, tuple)):
        value = value["k"] if isinstance(value, dict) else value[1] if isinstance(value, tuple) else value[0]
    return value


@pytest.mark.parametrize("around", _AROUND)
@pytest.mark.parametrize("column", _RIGHT)
def test_a_value_of_another_kind_is_right_or_an_error_that_names_both(column: str, around: str, tmp_path: Path) -> None:
    wrapped, before, after, columns = _AROUND[around]
    seen = 0
    for kind, (schema, message) in _KINDS.items():
        folder = tmp_path / kind
        folder.mkdir()
        value, error = _read(folder, wrapped(schema), before + message + after, columns.format(column))
        if kind in _RIGHT[column]:
            assert (kind, error, _inner(value)) == (kind, None, _RIGHT[column][kind])
            seen += 1
            continue
        node = {"type": schema} if isinstance(schema, str) else schema
        assert error is not None, (kind, value)
        assert f"Found {node['type']}" in error
        assert str(node.get("logicalType", node["type"])).split("-")[0] in error
        assert column in error
        advice = re.search(r"Declare it as (.*)", error)
        assert advice, error
        assert _read(folder, wrapped(schema), before + message + after, columns.format(advice[1]))[1] is None
    assert seen == len(_RIGHT[column])


@pytest.mark.parametrize(
    ("schema", "message", "column"),
    [
        ({"type": "enum", "name": "E", "symbols": ["P"]}, "00", "STRING"),
        ({"type": "enum", "name": "E", "symbols": ["P"]}, "00", "INT"),
        (["null", {"type": "enum", "name": "E", "symbols": ["P"]}], "0200", "STRING"),
        ({"type": "fixed", "name": "F", "size": 1}, "61", "BYTES"),
        ({"type": "fixed", "name": "F", "size": 1}, "61", "STRING"),
        (_FIXED_DECIMAL, "007d", "DECIMAL(10, 2)"),
        ({"type": "array", "items": {"type": "enum", "name": "E", "symbols": ["P"]}}, "020000", "ARRAY<STRING>"),
    ],
)
def test_the_error_of_an_enum_or_fixed_names_the_option_that_reads_it(
    schema: Any, message: str, column: str, tmp_path: Path
) -> None:
    _, error = _read(tmp_path, schema, message, column, plain="false")
    assert error is not None
    assert error.endswith("et 'read-enum-and-fixed' = 'true'")
    declared = re.search(r"Declare it as (\w+)", error)
    assert _read(tmp_path, schema, message, declared[1] if declared else column)[1] is None


@pytest.mark.parametrize(
    ("schema", "message", "column", "way_out"),
    [
        (
            ["null", "int"],
            "00",
            "INT NOT NULL",
            "the column is INT, SMALLINT or TINYINT NOT NULL. Declare it as INT without NOT NULL",
        ),
        (["null", "int", "long"], "0404", "INT", "Declare it as BIGINT"),
        (["null", "int", "string"], "040261", "INT", "No column reads all values of [null, int, string]: leave it out"),
        (["string", "bytes"], "020161", "INT", "Declare it as STRING"),
        ({"type": "map", "values": "int"}, "0002", "STRING", "Declare it as MAP<STRING, INT>"),
        (_NODE, "00", "INT", "No column reads all values of record N: leave it out"),
        (["null", _NODE], "0200", "INT", "No column reads all values of [null, N]: leave it out"),
        (_DECIMAL | {"precision": 40}, "027d", "DECIMAL(38, 2)", None),
    ],
)
def test_the_way_out_is_what_reads_all_values(
    schema: Any, message: str, column: str, way_out: str | None, tmp_path: Path
) -> None:
    _, error = _read(tmp_path, schema, message, column)
    assert error is None if way_out is None else str(error).endswith(way_out)


@pytest.mark.parametrize(
    ("message", "value"),
    [
        ("06 02 7d 03", Decimal("12500.00")),
        ("08 04 ff83 04", Decimal("-1.25")),
        ("06 02 7d 02", Decimal("12.50")),
        ("06 02 0a 06", Decimal("0.01")),
    ],
)
def test_a_big_decimal_is_read_with_its_own_scale(message: str, value: Decimal, tmp_path: Path) -> None:
    assert _read(tmp_path, _BIG, message, "DECIMAL(10, 2)") == (value, None)


def test_a_big_decimal_that_would_lose_digits_is_an_error(tmp_path: Path) -> None:
    assert "more than 2 digits after the decimal point" in str(
        _read(tmp_path, _BIG, "06 02 7d 06", "DECIMAL(10, 2)")[1]
    )


@pytest.mark.parametrize("message", ["00", "02 7d", "04 027d", "06 04 7d 04", "08 02 7d 04 00", "0e 02 7d ffffffff0f"])
def test_bytes_that_are_not_a_big_decimal_are_an_error(message: str, tmp_path: Path) -> None:
    assert "big-decimal" in str(_read(tmp_path, _BIG, message, "DECIMAL(10, 2)")[1])


@pytest.mark.parametrize(("scale", "value"), [(4, "1.25"), (0, "12500"), (-1, "125.00"), ("4", "125.00")])
def test_a_decimal_whose_precision_is_not_valid_keeps_its_scale(scale: Any, value: str, tmp_path: Path) -> None:
    """A scale that is not valid, either, is that of the column."""
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 1 if scale else 0, "scale": scale}
    assert _read(tmp_path, schema, "04 30d4", "DECIMAL(10, 2)") == (Decimal(value), None)
