"""Nothing of a message that fails half-way, or is skipped, shows in the next one, which omits the same fields.

Each batch has a whole message, then the message cut off after each of its bytes, or with one other value, and after
each of these messages that omit its fields. They must give what they give in a format that has read nothing before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kvformat.registry import Format, get_format
from tests.support.decoding import alone, answers, decoded
from tests.support.protobuf_types import a_format, fields

_NESTED = "x INT, y STRING, z ROW<x INT, y STRING>, k MAP<STRING, INT>"
_COLUMNS = (
    f"i INT, s STRING, b BYTES, o BOOLEAN, n DECIMAL(10, 2), f DOUBLE, d DATE, t TIME, ts TIMESTAMP(3), "
    f"r ROW<{_NESTED}>, a ARRAY<INT>, l ARRAY<ROW<{_NESTED}>>, aa ARRAY<ARRAY<STRING>>, "
    f"m MAP<STRING, INT>, mr MAP<STRING, ROW<{_NESTED}>>, ma MAP<STRING, ARRAY<INT>>"
)
_INNER = '{"x":1,"y":"é","z":{"x":2,"y":"w"},"k":{"p":1,"q":2}}'
_ROW = (
    '{"i":7,"s":"text","b":"AQID","o":true,"n":12.34,"f":1.5,"d":"2024-02-29","t":"12:34:56",'
    f'"ts":"2024-02-29 12:34:56.789","r":{_INNER},"a":[1,2],"l":[{_INNER},{_INNER}],"aa":[["u"],["v","w"]],'
    f'"m":{{"k":1,"l":2}},"mr":{{"k":{_INNER},"l":{_INNER}}},"ma":{{"k":[1],"l":[2,3]}}}}'
)
_OMITTING = (
    "{}",
    '{"r":{},"a":[],"l":[{}],"aa":[[]],"m":{},"mr":{"k":{}},"ma":{"k":[]}}',
    '{"r":{"z":{}},"l":[{"z":{}},{},null],"aa":[null,[null]],"m":{"k":null},"mr":{"k":null,"l":{"z":{}}},"ma":{"k":null}}',
    '{"s":null,"r":{"x":3},"l":[{"y":"o"}],"mr":{"l":{"y":"o"}}}',
)
_SOURCE = '{"version":"3.1","ts_ms":1709210096789,"db":"shop","schema":"public","table":"orders","file":"f","pos":%d}'
_ENVELOPES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "json": ("%s", ("%s",), ()),
    "debezium-json": (
        f'{{"before":%s,"after":%s,"source":{_SOURCE % 4711},"op":"u","ts_ms":1709210096790}}',
        ('{"after":%s,"op":"c"}', '{"before":%s,"op":"d"}', '{"before":%s,"after":%s,"op":"u","source":{}}'),
        ("ingestion-timestamp", "source.timestamp", "source.database", "source.table", "source.properties"),
    ),
    "canal-json": (
        '{"data":[%s,%s],"old":[{"i":6,"r":null},{"s":"old"}],"type":"UPDATE","database":"shop","table":"orders","es":1,'
        '"ts":1709210096790,"pkNames":["i"],"sqlType":{"i":4},"mysqlType":{"i":"int"}}',
        ('{"data":[%s],"type":"INSERT"}', '{"data":[%s],"old":[{}],"type":"UPDATE"}', '{"data":[%s],"type":"DELETE"}'),
        ("database", "table", "sql-type", "pk-names", "ingestion-timestamp", "event-timestamp"),
    ),
    "maxwell-json": (
        '{"data":%s,"old":{"i":6,"r":null},"type":"update","database":"shop","table":"orders","ts":1709210096,'
        '"primary_key_columns":["i"]}',
        ('{"data":%s,"type":"insert"}', '{"data":%s,"old":{},"type":"update"}', '{"data":%s,"type":"delete"}'),
        ("database", "table", "primary-key-columns", "ingestion-timestamp"),
    ),
    "ogg-json": (
        '{"before":%s,"after":%s,"op_type":"U","table":"shop.orders","op_ts":"2024-02-29 12:34:56.000000",'
        '"current_ts":"2024-02-29 12:34:57.000000","primary_keys":["i"]}',
        ('{"after":%s,"op_type":"I"}', '{"before":%s,"op_type":"D"}', '{"before":%s,"after":%s,"op_type":"U"}'),
        ("table", "primary-keys", "event-timestamp", "ingestion-timestamp"),
    ),
}


def _filled(envelope: str, row: str) -> bytes:
    return envelope.replace("%s", row).encode()


def _damaged(message: bytes) -> Iterator[bytes]:
    """Yield the message cut off after each byte, and with another value in place of each of its own."""
    for end in range(1, len(message)):
        yield message[:end]
    for value in re.finditer(rb'(?<=[:\[,])(?:"[^"]*"(?![:\w])|[\d.]+|true|null)', message):
        for other in (b'{"x":"?"}', b"[[0]]", b'"?"', b"1e99", b"null", b"{"):
            yield message[: value.start()] + other + message[value.end() :]


def _check(made: Callable[[], Format], damaged: Sequence[bytes], omitting: Sequence[bytes], *given: Any) -> int:
    """Compare each message of a batch with its answer in a new format; return the number of damaged ones that fail."""
    schema, metadata = given
    expected = {message: alone(made(), [message], schema, metadata=metadata)[0] for message in omitting}
    batch = [part for i, message in enumerate(damaged) for part in (message, omitting[i % len(omitting)])]
    batch += [
        part for i, message in enumerate(damaged) for part in (message, omitting[i // len(omitting) % len(omitting)])
    ]
    format = made()
    got = answers(decoded(format, batch, schema, metadata=metadata))
    for i in range(1, len(batch), 2):
        assert got[i] == expected[batch[i]], f"{batch[i]!r} after {batch[i - 1]!r}"
    again = answers(decoded(format, list(omitting), schema, metadata=metadata))
    assert again == [expected[message] for message in omitting], "in the next batch"
    return sum(answer.error is not None for answer in got[: len(batch) // 2 : 2])


@pytest.mark.parametrize("lenient", ["false", "true"])
@pytest.mark.parametrize("name", _ENVELOPES)
def test_values_of_a_damaged_json_message_are_not_in_the_next(name: str, lenient: str) -> None:
    whole, envelopes, metadata = _ENVELOPES[name]
    damaged = list(_damaged(_filled(whole, _ROW)))
    omitting = [_filled(envelope, row) for row in _OMITTING for envelope in envelopes]
    failed = _check(lambda: get_format(name, {"ignore-parse-errors": lenient}), damaged, omitting, _COLUMNS, metadata)
    print(f"{name}: {len(damaged)} damaged messages, of which {failed} are errors")
    assert len(damaged) > 600
    assert failed == 0 if lenient == "true" else failed > 500


def test_values_of_a_wrapped_message_are_not_in_the_next() -> None:
    whole, envelopes, metadata = _ENVELOPES["debezium-json"]
    wrapped = '{"schema":{"type":"struct"},"payload":%s}'
    damaged = list(_damaged(_filled(wrapped, _filled(whole, _ROW).decode())))
    omitting = [_filled(wrapped, _filled(one, row).decode()) for row in _OMITTING for one in envelopes]
    options = {"schema-include": "true", "ignore-parse-errors": "false"}
    failed = _check(lambda: get_format("debezium-json", options), damaged, omitting, _COLUMNS, metadata)
    assert failed > 700


def test_values_of_a_damaged_element_are_not_in_the_next_element() -> None:
    """With `ignore-parse-errors` a bad value is NULL. The elements and entries beside it are as without it."""
    format = get_format("json", {"ignore-parse-errors": "true"})
    values = re.finditer(r'(?<=:)(?:"[^"]*"|[\d.]+|\{"(?:x":2|p)[^}]*\})', _INNER)
    damaged = [
        _INNER[: value.start()] + other + _INNER[value.end() :]
        for value in values
        for other in ('{"x":"?"}', "[[0]]", '"?"', "1e99", '{"x":5,"y":[],"x":{}}', "null")
    ]
    damaged += ["[]", "5", '"?"', "{}", "null", '{"z":{"x":5,"x":[]}}']
    schema = f"r ROW<{_NESTED}>, l ARRAY<ROW<{_NESTED}>>, mr MAP<STRING, ROW<{_NESTED}>>, q ROW<{_NESTED}>"
    empty = {"x": None, "y": None, "z": None, "k": None}
    messages = []
    for one in damaged:
        for other in ("{}", '{"z":{}}'):
            messages.append(f'{{"r":{one},"l":[{one},{other}],"mr":{{"k":{one},"l":{other}}},"q":{other}}}'.encode())
            messages.append(f'{{"mr":{{"l":{one},"k":{other},"l":{other}}},"l":[{other},{one},{other}]}}'.encode())
    rows = decoded(format, messages, schema).rows.flatten().to_pylist()
    assert len(rows) == len(messages) >= 80
    for message, row in zip(messages, rows, strict=True):
        wanted = empty if b'"z":{}}]' not in message else {**empty, "z": {"x": None, "y": None}}
        assert row["l"][-1] == wanted, message
        assert dict(row["mr"])["l"] == wanted, message
        assert row["q"] in (None, wanted), message


@pytest.mark.parametrize("lenient", ["false", "true"])
def test_values_of_a_damaged_csv_line_are_not_in_the_next(lenient: str) -> None:
    columns = (
        "i INT, s STRING, n DECIMAL(10, 2), ts TIMESTAMP(3), a ARRAY<INT>, r ROW<x INT, y STRING>, o BOOLEAN, b BYTES"
    )
    whole = b'7,"te""xt",12.34,2024-02-29 12:34:56.789,1;2;3,4;w,true,AQID'
    damaged = [whole[:end] for end in range(1, len(whole))]
    parts = whole.split(b",")
    for at in range(len(parts)):
        for other in (b"", b"?", b'"', b'""', b"1;?;", b";;;;", b"1;2;3;4"):
            damaged.append(b",".join([*parts[:at], other, *parts[at + 1 :]]))
    omitting = [b"", b",,,,,,,", b",,,,;,;,,", b"1", b'"",,,,5,,,', b"1,a", b",,,,,6,,", b",,,,,;v,,"]
    for more in ({}, {"null-literal": "x"}, {"allow-comments": "true", "disable-quote-character": "true"}):
        options = {"ignore-parse-errors": lenient, **more}
        failed = _check(lambda: get_format("csv", options), damaged, omitting, columns, ())  # noqa: B023  # used at once
        assert (failed > 0) == (lenient == "false")


def test_values_of_a_damaged_protobuf_message_are_not_in_the_next(tmp_path: Path) -> None:
    inner = fields(
        "int32 x = 1; string y = 2; .acme.Inner z = 3; repeated int32 a = 4; repeated .acme.Inner.KEntry k = 5;"
    )
    outer = fields(
        "int32 i = 1; string s = 2; bytes b = 3; double f = 4; .acme.Inner r = 5; repeated int32 a = 6; "
        "repeated .acme.Inner l = 7; repeated string t = 8; repeated .acme.Outer.MEntry m = 9; "
        "repeated .acme.Outer.NEntry n = 10;"
    )
    entry = 'nested_type {{ name: "{}" options {{ map_entry: true }} {} }}'
    text = f"""name: "outer.proto" package: "acme" syntax: "proto3"
        message_type {{ name: "Inner" {inner}
            {entry.format("KEntry", fields("string key = 1; int32 value = 2;"))} }}
        message_type {{ name: "Outer" {outer}
            {entry.format("MEntry", fields("string key = 1; int32 value = 2;"))}
            {entry.format("NEntry", fields("string key = 1; .acme.Inner value = 2;"))} }}"""
    nested = "x INT, y STRING, z ROW<x INT, y STRING>, a ARRAY<INT>, k MAP<STRING, INT>"
    schema = (
        f"i INT, s STRING, b BYTES, f DOUBLE, r ROW<{nested}>, a ARRAY<INT>, l ARRAY<ROW<{nested}>>, t ARRAY<STRING>, "
        f"m MAP<STRING, INT>, n MAP<STRING, ROW<{nested}>>"
    )
    row = {"x": 1, "y": "é", "z": {"x": 2, "y": "w"}, "a": [3, 4], "k": [("p", 5), ("q", 6), ("r", 7)]}
    whole_row = {"i": 7, "s": "text", "b": b"\x01\x02", "f": 1.5, "r": row, "a": [1, 300], "l": [row, row]}
    whole_row |= {"t": ["u", "v"], "m": [("k", 1), ("l", 2)], "n": [("k", row), ("l", row)]}
    made = a_format(tmp_path, "acme.Outer", text)
    whole = made.encode_batch(_rows([whole_row], made, schema), schema).messages[0].as_py()
    damaged = [whole[:end] for end in range(1, len(whole))]
    damaged += [
        whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :] for at in range(len(whole)) for bit in (1, 2, 8, 128)
    ]
    omitting = [
        b"",
        b"\x2a\x00",  # r, empty
        b"\x2a\x02\x1a\x00",  # r with an empty z
        b"\x3a\x07\x2a\x05\x0a\x01s\x10\x01",  # l with one entry of k
        b"\x3a\x00\x3a\x02\x08\x05",  # l with an empty element, and one with x
        b"\x4a\x00",  # m with an entry without key and value
        b"\x52\x00\x52\x03\x0a\x01k",  # n, the same, and an entry without a value
        b"\x52\x04\x12\x02\x08\x05",  # n with a value without a key
    ]
    failed = _check(lambda: a_format(tmp_path, "acme.Outer", text), damaged, omitting, schema, ())
    assert failed > len(damaged) // 4


def test_values_of_a_damaged_avro_message_are_not_in_the_next() -> None:
    row: dict[str, Any] = {"x": 1, "y": "é", "z": {"x": 2, "y": "w"}, "k": [("p", 5), ("q", 6), ("r", 7)]}
    whole_row = {"i": 7, "s": "text", "b": b"\x01", "o": True, "f": 1.5, "r": row, "a": [1, 300], "l": [row, row]}
    whole_row |= {"aa": [["u"], ["v"]], "m": [("k", 1)], "mr": [("k", row), ("l", row)], "ma": [("k", [1])]}
    columns = re.sub(r"n DECIMAL.*? TIMESTAMP\(3\)", "f DOUBLE", _COLUMNS)
    omitting_rows: list[dict[str, Any]] = [
        {},
        {"r": {}, "a": [], "l": [{}, None], "aa": [[], None], "m": [], "mr": [("k", {})], "ma": [("k", [])]},
        {"r": {"z": {}}, "a": [None], "l": [{"z": {}}], "m": [("k", None)], "mr": [("k", None), ("l", {"z": {}})]},
    ]
    made = get_format("avro")
    whole, *omitting = made.encode_batch(
        _rows([whole_row, *omitting_rows], made, columns), columns
    ).messages.to_pylist()
    damaged = [whole[:end] for end in range(len(whole))]
    for at in range(len(whole)):
        damaged += [whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :] for bit in (1, 2, 8, 128)]
    failed = _check(lambda: get_format("avro"), damaged, omitting, columns, ())
    assert failed > len(damaged) // 3


def _rows(rows: list[dict[str, Any]], format: Format, schema: str) -> Any:
    import pyarrow as pa

    empty = format.decode_batch(pa.array([b""], pa.binary()), schema).rows.values.type
    return pa.array(rows, empty)


def test_the_damaged_messages_are_what_they_should_be() -> None:
    assert json.loads(_ROW)["mr"]["l"]["z"] == {"x": 2, "y": "w"}
    assert [json.loads(row) is not None for row in _OMITTING] == [True] * len(_OMITTING)
