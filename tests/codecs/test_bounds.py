"""Memory and time for a message are proportional to its bytes, in every format."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvformat.codecs import KERNEL
from kvformat.registry import Format, get_format
from kvformat.registry.contract.cells import CELLS_PER_BYTE, MOST_CELLS, MOST_CELLS_OF_A_BATCH
from tests.support.decoding import decoded
from tests.support.protobuf_types import a_format, fields

COLUMNS = 2000
ENOUGH = MOST_CELLS // COLUMNS - 60
"""A number of rows of `COLUMNS` columns that is always allowed."""
TOO_MANY = MOST_CELLS // COLUMNS * 6 // 5
_NAMES = ", ".join(f"c{n} INT" for n in range(COLUMNS))
_ROW = f"ROW<{_NAMES}>"
_LIST = f"a ARRAY<{_ROW}>, b INT"
_FIELDS = fields(" ".join(f"int32 c{n} = {n + 1};" for n in range(COLUMNS)))
_LONG = "x" * 8 * COLUMNS


class Shape(NamedTuple):
    """A message with many cells from few bytes.

    make: a function from a number of rows or elements to the message.
    good: a small good message.
    """

    make: Callable[[int], bytes]
    good: bytes
    schema: str
    format: str
    options: dict[str, str] = {}  # noqa: RUF012  # never changed
    file: str = ""


def _joined(head: str, item: str, tail: str) -> Callable[[int], bytes]:
    return lambda count: (head + ",".join(item.replace("%", str(n)) for n in range(count)) + tail).encode()


def _avro_nulls(count: int) -> bytes:
    return b"\x02" + _avro_long(count) + b"\x00" * count + b"\x00\x02\x02"


def _avro_long(number: int) -> bytes:
    number, out = number << 1, bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


_JSON, _DEBEZIUM = b'{"b":1}', b'{"before":null,"after":{"b":1},"op":"c"}'
_ENTRY = (
    f"""nested_type {{ name: "AEntry" options {{ map_entry: true }} {fields("int32 key = 1; .M.N value = 2;")} }}"""
)


def _file(more: str, *nested: str) -> str:
    return f'name: "m.proto" message_type {{ name: "M" {more} {" ".join(nested)} }}'


_N = f'nested_type {{ name: "N" {_FIELDS} }}'
_N_DEFAULT = f"""nested_type {{ name: "N" field {{
    name: "t" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING default_value: "{_LONG}" }} }}"""
_ENUM = f'enum_type {{ name: "LongEnum" value {{ name: "L{_LONG}" number: 0 }} }}'
SHAPES = {
    "rows": Shape(_joined("[", "{}", "]"), b'{"c0":1}', _NAMES, "json"),
    "elements": Shape(_joined('{"a":[', "{}", "]}"), _JSON, _LIST, "json"),
    "nulls": Shape(_joined('{"a":[', "null", "]}"), _JSON, _LIST, "json"),
    "elements within": Shape(_joined('{"a":[[', "{}", "]]}"), _JSON, f"a ARRAY<ARRAY<ROW<x {_ROW}>>>, b INT", "json"),
    "entries": Shape(_joined('{"a":{', '"%":{}', "}}"), _JSON, f"a MAP<STRING, {_ROW}>, b INT", "json"),
    "a name again": Shape(_joined("{", '"a":{}', "}"), _JSON, f"a {_ROW}, b INT", "json"),
    "canal": Shape(
        _joined('{"type":"INSERT","data":[', "{}", "]}"), b'{"type":"INSERT","data":[{}]}', _NAMES, "canal-json"
    ),
    "canal's old": Shape(
        _joined('{"type":"INSERT","data":[{}],"old":[', "{}", "]}"),
        b'{"type":"INSERT","data":[{}]}',
        _NAMES,
        "canal-json",
    ),
    "debezium": Shape(
        _joined('{"before":null,"after":{"a":[', "{}", ']},"op":"c"}'), _DEBEZIUM, _LIST, "debezium-json"
    ),
    "maxwell": Shape(
        _joined('{"type":"insert","data":{"a":[', "{}", "]}}"),
        b'{"type":"insert","data":{"b":1}}',
        _LIST,
        "maxwell-json",
    ),
    "ogg": Shape(
        _joined('{"op_type":"I","after":{"a":[', "{}", "]}}"), b'{"op_type":"I","after":{"b":1}}', _LIST, "ogg-json"
    ),
    "avro": Shape(_avro_nulls, b"\x00\x00", _LIST, "avro"),
    "avro in JSON": Shape(
        _joined('{"a":{"array":[', "null", ']},"b":{"int":1}}'),
        b'{"a":{"array":[]},"b":{"int":1}}',
        _LIST,
        "avro",
        {"encoding": "json"},
    ),
    "protobuf": Shape(
        lambda count: b"\x0a\x00" * count,
        b"",
        f"a ARRAY<{_ROW}>",
        "protobuf",
        {},
        _file(fields("repeated .M.N a = 1;"), _N),
    ),
    "protobuf's entries": Shape(
        lambda count: b"\x0a\x00" * count,
        b"",
        f"a MAP<INT, {_ROW}>",
        "protobuf",
        {},
        _file(fields("repeated .M.AEntry a = 1;"), _N, _ENTRY),
    ),
    "protobuf's defaults": Shape(
        lambda count: b"\x0a\x00" * count,
        b"",
        "a ARRAY<ROW<t STRING>>",
        "protobuf",
        {"read-default-values": "true"},
        _file(fields("repeated .M.N a = 1;"), _N_DEFAULT),
    ),
    "protobuf's enums": Shape(
        lambda count: b"\x08\x00" * count,
        b"",
        "a ARRAY<STRING>",
        "protobuf",
        {},
        _file(fields("repeated .M.LongEnum a = 1;"), _ENUM),
    ),
}
_QUICK = ("a name again", "canal", "debezium", "protobuf's defaults")
_LENIENT = ("json", "canal-json", "debezium-json", "maxwell-json", "ogg-json", "protobuf")


def _format(shape: Shape, folder: Path, **more: str) -> Format:
    options = {**shape.options, **more}
    if shape.file:
        return a_format(folder, "M", shape.file, **{name.replace("-", "_"): text for name, text in options.items()})
    return get_format(shape.format, options)


@pytest.mark.parametrize("name", SHAPES)
def test_the_number_of_cells_is_limited(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    enough, too_many = shape.make(ENOUGH), shape.make(TOO_MANY + len(shape.make(TOO_MANY)) * CELLS_PER_BYTE // COLUMNS)
    assert len(too_many) < 20 * TOO_MANY  # it has few bytes
    found = decoded(_format(shape, tmp_path), [shape.good, too_many, shape.good, enough], shape.schema)
    assert found.errors is not None
    assert found.codes is not None
    assert found.codes.to_pylist() == [None, "TOO_LARGE", None, None]
    assert "too many cells" in str(found.errors[1]) or "items that each add" in str(found.errors[1])
    assert str(MOST_CELLS) in str(found.errors[1]) or "the limit for this message" in str(found.errors[1])
    counts = found.rows.value_lengths().to_pylist()
    assert counts[0] == counts[2] == 1
    assert counts[1] is None
    assert counts[3] in (1, ENOUGH)


@pytest.mark.parametrize(
    "name",
    [
        name if name in _QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name, shape in SHAPES.items()
        if shape.format in _LENIENT
    ],
)
def test_too_many_cells_are_an_error_with_ignore_parse_errors(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    format = _format(shape, tmp_path, **{"ignore-parse-errors": "true"})
    found = decoded(format, [shape.good, shape.make(TOO_MANY * 2), shape.good], shape.schema)
    # old rows without a change are not read
    wanted = [None, None if name == "canal's old" else "TOO_LARGE", None]
    assert (found.codes.to_pylist() if found.codes is not None else [None] * 3) == wanted
    assert found.rows.value_lengths().to_pylist()[::2] == [1, 1]


@pytest.mark.parametrize(
    ("format", "message", "rows"),
    [
        ("json", b"{}", 1),
        ("json", b'{"c7":1}', 1),
        ("json", b"[" + b",".join([b'{"c0":1,"c1":2,"c2":3}'] * 1500) + b"]", 1500),
        ("canal-json", b'{"type":"INSERT","data":[' + b",".join([b'{"c0":"1"}'] * 1000) + b"]}", 1000),
        (
            "canal-json",
            b'{"type":"UPDATE","data":[%s],"old":[%s]}'
            % (b",".join([b'{"c0":"1","c1":"2"}'] * 1000), b",".join([b'{"c1":"1"}'] * 1000)),
            2000,
        ),
    ],
)
def test_realistic_wide_messages_are_read(format: str, message: bytes, rows: int) -> None:
    found = decoded(get_format(format), [message], _NAMES)
    assert found.errors is None
    assert found.rows.value_lengths().to_pylist() == [rows]


def test_the_first_row_of_a_message_does_not_count() -> None:
    """A message of one row is always read, for any number of columns and any number of messages in the batch."""
    found = decoded(get_format("json"), [b"{}"] * (MOST_CELLS_OF_A_BATCH // COLUMNS // 32), _NAMES)
    assert found.errors is None


def test_the_number_of_cells_of_a_batch_is_limited() -> None:
    if KERNEL == "python":
        pytest.skip("the source takes its time")
    message = SHAPES["a name again"].make(ENOUGH)  # its cells are replaced, so they take no memory
    often = MOST_CELLS_OF_A_BATCH // MOST_CELLS
    messages = [message] * (often + 3) + [b'{"a":{"c0":1},"b":2}'] * 3
    found = decoded(get_format("json"), messages, f"a {_ROW}, b INT")
    assert found.codes is not None
    codes = found.codes.to_pylist()
    assert codes[:often] == [None] * often
    assert codes[-4:] == ["TOO_LARGE", None, None, None]
    again = decoded(get_format("json"), [message], f"a {_ROW}, b INT")  # each batch has its own limit
    assert again.errors is None


# --- time -------------------------------------------------------------------------------------------------


def _spent(format: Format, message: bytes, schema: str) -> float:
    """Return the CPU time of a message minus that of an empty message. Each is the minimum of three runs."""
    least = []
    for each in (b"", message):
        found = []
        for _ in range(3):
            start = time.process_time()
            decoded(format, [each], schema)
            found.append(time.process_time() - start)
        least.append(min(found))
    return least[1] - least[0]


def _numbers(count: int, label: str = "", oneof: str = "") -> str:
    text = fields(" ".join(f"{label} int32 c{n} = {n + 1};" for n in range(count)))
    return text.replace("label:", f"{oneof} label:") if oneof else text


def _varint_tag(number: int) -> bytes:
    key = number << 3
    return bytes([key]) if key < 128 else bytes([key & 127 | 128, key >> 7])


_FEW, _MANY = 4, 1000


def _lacking(count: int) -> tuple[str, bytes, str]:
    nested = f'nested_type {{ name: "N" {_numbers(count)} {fields(f"required int32 r = {count + 1};")} }}'
    return _file(fields("repeated .M.N a = 1;"), nested), b"\x0a\x02\x08\x01" * 20_000, "a ARRAY<ROW<c0 INT>>"


def _lacking_beside_a_oneof(count: int) -> tuple[str, bytes, str]:
    file = _file(
        _numbers(count, oneof="oneof_index: 0") + fields("required int32 r = 5000;"), 'oneof_decl { name: "o" }'
    )
    message = b"".join(_varint_tag(n % 4 + 1) + b"\x01" for n in range(20_000))
    return file, message, "c0 INT"


def _oneof(count: int) -> tuple[str, bytes, str]:
    file = _file(_numbers(count, oneof="oneof_index: 0"), 'oneof_decl { name: "o" }')
    message = b"".join(_varint_tag(n % 4 + 1) + b"\x01" for n in range(100_000))
    return file, message, ", ".join(f"c{n} INT" for n in range(count))


def _oneof_of_messages(count: int) -> tuple[str, bytes, str]:
    nested = f'nested_type {{ name: "N" {_numbers(count)} }}'
    two = fields(".M.N a = 1; .M.N b = 2;").replace("label:", "oneof_index: 0 label:")
    row = f"ROW<{', '.join(f'c{n} INT' for n in range(count))}>"
    return _file(two, nested, 'oneof_decl { name: "o" }'), b"\x0a\x02\x08\x01\x12\x00" * 50_000, f"a {row}, b {row}"


@pytest.mark.parametrize("make", [_lacking, _lacking_beside_a_oneof, _oneof, _oneof_of_messages])
def test_the_time_per_byte_of_protobuf_does_not_depend_on_fields(
    make: Callable[[int], tuple[str, bytes, str]], tmp_path: Path
) -> None:
    """Compare the time for the same bytes with a type of few fields and a type of many fields."""
    if KERNEL == "python":
        pytest.skip("the source takes its time")
    spent: dict[int, Any] = {}
    for count in (_FEW, _MANY):
        file, message, schema = make(count)
        spent[count] = _spent(a_format(tmp_path, "M", file), message, schema)
    assert spent[_MANY] < 5 * spent[_FEW]


def test_the_time_per_byte_of_maps_does_not_depend_on_depth() -> None:
    """Compare the time for maps of 8 and of 80 levels. Each map has a name twice."""
    if KERNEL == "python":
        pytest.skip("the source takes its time")
    spent = {}
    for depth in (8, 80):
        value = b'{"k":1,"k":1}'
        for _ in range(depth - 1):
            value = b'{"k":{},"k":%s}' % value
        message = b"[" + b",".join([b'{"a":%s}' % value] * (24_000 // depth)) + b"]"
        spent[depth] = _spent(get_format("json"), message, f"a {'MAP<STRING, ' * depth}INT{'>' * depth}")
    assert spent[80] < 5 * spent[8]


def test_a_duplicate_name_counts_once_at_every_level() -> None:
    """The entry keeps its first position and has the last value, also if an outer map has a name twice."""
    messages = [
        b'{"a":{"k":{"x":{"p":1},"x":{"p":2,"q":3,"p":4}},"l":{},"k":{"y":{"p":5,"p":6}}}}',
        b'{"a":{"k":{"x":{"p":1}},"l":{"x":{"p":2,"p":3}}}}',
        b'{"a":{"k":{"x":{"p":1}},"k":{"x":{"p":2}}}}',
        b'{"a":{"k":{"x":{"p":1}}}}',
    ]
    found = decoded(get_format("json"), messages, "a MAP<STRING, MAP<STRING, MAP<STRING, INT>>>")
    assert found.errors is None
    assert [row[0]["a"] for row in found.rows.to_pylist()] == [
        [("k", [("y", [("p", 6)])]), ("l", [])],
        [("k", [("x", [("p", 1)])]), ("l", [("x", [("p", 3)])])],
        [("k", [("x", [("p", 2)])])],
        [("k", [("x", [("p", 1)])])],
    ]


def test_a_duplicate_name_after_a_bad_map() -> None:
    """The state that is left by a bad map does not affect the next map."""
    message = b'{"a":[{"k":{"p":1,"p":"x"}},{"k":{"p":1,"p":2}}],"b":{"c":[[{"k":{"p":3,"p":4},"k":{"p":5,"p":6}}]]}}'
    schema = "a ARRAY<MAP<STRING, MAP<STRING, INT>>>, b ROW<c ARRAY<ARRAY<MAP<STRING, MAP<STRING, INT>>>>>"
    found = decoded(get_format("json", {"ignore-parse-errors": "true"}), [message], schema)
    assert found.errors is None
    ((row,),) = found.rows.to_pylist()
    assert row["a"] == [[("k", [("p", None)])], [("k", [("p", 2)])]]
    assert row["b"] == {"c": [[[("k", [("p", 6)])]]]}
