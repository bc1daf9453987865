"""Bytes that are not valid text never reach a STRING column, except with raw's option to keep them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from kvformat.connectors import cli
from kvformat.registry import ErrorCode, Format, KeyValueFormat, OptionError, get_format
from tests.support.protobuf_types import a_file, fields

_GOOD, _BAD, _HALF = "é".encode(), b"a\xff", b"\xed\xa0\x80"
_MESSAGES = [_GOOD, _BAD, None, _HALF, b"", b"caf\xe9"]


def _decoded(options: dict[str, str], messages: list[bytes | None], schema: str = "s STRING") -> tuple[Any, Any]:
    batch = get_format("raw", options).decode_batch(pa.array(messages, pa.binary()), schema)
    batch.rows.validate(full=True)
    rows = [row and row[0]["s"] for row in batch.rows.to_pylist()]
    return rows, [None] * len(messages) if batch.errors is None else batch.errors.to_pylist()


@pytest.mark.parametrize("schema", ["s STRING", "s CHAR(3)", "s VARCHAR(2)"])
def test_invalid_text_is_an_error_of_its_message(schema: str) -> None:
    rows, errors = _decoded({}, _MESSAGES, schema)
    assert rows == ["é", None, None, None, "", None]
    assert [error is not None for error in errors] == [False, True, False, True, False, True]
    assert errors[1].startswith("field 's': not valid UTF-8 at byte 1 (0xff). ")
    assert errors[5].startswith("field 's': not valid UTF-8 at byte 3 (0xe9). ")
    assert "'charset'" in errors[1]
    assert "'invalid-text' = 'replace'" in errors[1]
    assert "BYTES" in errors[1]


def test_invalid_text_can_be_replaced() -> None:
    rows, errors = _decoded({"invalid-text": "replace"}, _MESSAGES)
    assert rows == ["é", "a\ufffd", None, "\ufffd", "", "caf\ufffd"]  # as in Java: one replacement for half a character
    assert errors == [None] * 6


def test_invalid_text_can_be_kept() -> None:
    raw = get_format("raw", {"invalid-text": "keep"})
    batch = raw.decode_batch(pa.array(_MESSAGES, pa.binary()), "s STRING")
    assert batch.errors is None
    assert batch.rows.flatten().field(0).cast(pa.binary()).to_pylist() == _MESSAGES
    assert raw.encode_batch(batch.rows.flatten(), "s STRING").messages.to_pylist() == _MESSAGES


def test_other_charsets_are_read_as_in_flink_by_default() -> None:
    assert _decoded({"charset": "US-ASCII"}, [b"a\xff", b"b"]) == (["a\ufffd", "b"], [None, None])
    rows, errors = _decoded({"charset": "US-ASCII", "invalid-text": "error"}, [b"a\xff", b"b"])
    assert rows == [None, "b"]
    assert errors[0].startswith("field 's': not valid US-ASCII at byte 1 (0xff). ")


def test_only_invalid_utf8_can_be_kept() -> None:
    assert get_format("raw", {"charset": "utf8", "invalid-text": "keep"}).decode_batch(pa.array([b""]), "s STRING")
    with pytest.raises(OptionError, match=r"'charset' is ISO-8859-1\. .* use 'error' or 'replace'") as caught:
        get_format("raw", {"charset": "latin1", "invalid-text": "keep"}).decode_batch(pa.array([b""]), "s STRING")
    assert caught.value.option == "invalid-text"


def test_bytes_at_nulls_and_of_other_messages_do_not_matter() -> None:
    values = pa.array([b"\xff", b"\xc3", b"\xa9", b"\xff"])
    hidden = pa.Array.from_buffers(pa.binary(), 4, [pa.py_buffer(b"\x06"), *values.buffers()[1:]])
    batch = get_format("raw").decode_batch(hidden, "s STRING")
    assert batch.codes is not None
    assert batch.codes.to_pylist() == [None, ErrorCode.WRONG_CHARSET, ErrorCode.WRONG_CHARSET, None]
    assert get_format("raw").decode_batch(hidden[3:], "s STRING").errors is None


def test_a_table_keeps_the_record_with_its_error() -> None:
    options = {"key.format": "raw", "key.fields": "k", "value.format": "raw", "value.fields-include": "EXCEPT_KEY"}
    table = KeyValueFormat("k STRING, v STRING", options)
    found = table.decode_batch(pa.array([_BAD, b"k"]), pa.array([b"v", _BAD]))
    assert found.codes is not None
    assert found.codes.to_pylist() == [ErrorCode.WRONG_CHARSET] * 2


# --- every format ---------------------------------------------------------------------------------------------


def _long(data: bytes) -> bytes:
    """Return the bytes with Avro's length before them."""
    return bytes([2 * len(data)]) + data


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def _cases(folder: Path) -> dict[str, tuple[Format, str, tuple[str, ...], list[bytes]]]:
    """Yield a schema, metadata and messages with `BAD` in every text, for each format."""
    change = [
        b'{"op":"c","after":{"s":"BAD"}}',
        b'{"op":"c","after":{"BAD":1,"s":"x"}}',
        b'{"op":"c","after":{"m":{"BAD":"x"}}}',
        b'{"op":"c","after":{"s":"x"},"source":{"table":"BAD","BAD":"x"}}',
    ]
    swapped = {
        "canal-json": (b'"op":"c","after":{', b'"type":"INSERT","data":[{', b"}}", b"}]}"),
        "maxwell-json": (b'"op":"c","after":', b'"type":"insert","data":', b"", b""),
        "ogg-json": (b'"op":"c","after":', b'"op_type":"I","after":', b"", b""),
    }
    text = "s STRING, m MAP<STRING, STRING>"
    rows = [b'{"s":"BAD"}', b'{"BAD":1}', b'{"m":{"BAD":"BAD"}}', b'{"s":{"BAD":"x"}}', b'"BAD"']
    found = {
        "json": (get_format("json"), text, (), rows),
        "csv": (get_format("csv"), "s STRING, a ARRAY<STRING>", (), [b"BAD,x", b"x,BAD;y", b'"BAD",x', b"x,y\nBAD"]),
        "avro": (
            get_format("avro"),
            "s STRING NOT NULL, m MAP<STRING NOT NULL, STRING NOT NULL> NOT NULL",
            (),
            [_long(b"BAD") + b"\0", _long(b"x") + b"\x02" + _long(b"BAD") + _long(b"BAD") + b"\0"],
        ),
        "debezium-json": (get_format("debezium-json"), text, ("source.table", "source.properties"), change),
    }
    for name, (old, new, end, ends) in swapped.items():
        messages = [m.replace(old, new).replace(end, ends) if end else m.replace(old, new) for m in change]
        found[name] = (get_format(name), text, ("table",), messages)
    of = f"""name: "f.proto" message_type {{ name: "M" {fields("string s = 1; repeated string a = 2;")} }}"""
    options = {"message-class-name": "M", "descriptor-file": a_file(str(folder), of)}
    found["protobuf"] = (
        get_format("protobuf", options),
        "s STRING, a ARRAY<STRING>",
        (),
        [_field(1, b"BAD"), _field(2, b"BAD")],
    )
    return found


@pytest.mark.parametrize("lenient", [False, True])
def test_no_format_returns_invalid_text(tmp_path: Path, lenient: bool) -> None:
    tried = 0
    for name, (format, schema, metadata, messages) in _cases(tmp_path).items():
        if lenient and any(option.name == "ignore-parse-errors" for option in format.option_specs):
            format = get_format(name, {**format._raw_options, "ignore-parse-errors": "true"})
        for bad in (b"a\xffb", _HALF, b"\xc3", b"\xf0\x9f\x98", b"\xc0\xaf\x80"):
            made = [message.replace(_long(b"BAD"), _long(bad)) for message in messages]
            made = [m.replace(b"\x03BAD", bytes([len(bad)]) + bad).replace(b"BAD", bad) for m in made]
            keys = tuple(key for key in metadata if key in format.metadata_types)
            batch = format.decode_batch(pa.array(made), schema, metadata=keys)
            for array in (batch.rows, batch.errors, batch.row_kinds):
                if array is not None:
                    array.validate(full=True)
                    array.to_pylist()
            tried += len(made)
    assert tried >= 140


@pytest.mark.parametrize("name", ["avro", "protobuf"])
def test_halves_of_a_character_in_two_values_are_not_a_character(name: str, tmp_path: Path) -> None:
    """All bytes of a column together may be valid text that no value has."""
    format, schema, _, _ = _cases(tmp_path)[name]
    halves = [_field(1, data) if name == "protobuf" else _long(data) + b"\0" for data in (b"\xc3", b"\xa9")]
    batch = format.decode_batch(pa.array(halves), schema)
    assert [row[0]["s"] for row in batch.rows.to_pylist()] == ["\ufffd", "\ufffd"]


_NONE, _VERIFY = (f"options {{ features {{ utf8_validation: {value} }} }}" for value in ("NONE", "VERIFY"))
_EDITION = 'syntax: "editions" edition: EDITION_2023 '


@pytest.mark.parametrize(
    ("file", "field", "checked"),
    [
        ("", "", False),
        ("options { java_string_check_utf8: true }", "", True),
        ('syntax: "proto3"', "", True),
        (_EDITION, "", True),
        (_EDITION + _NONE, "", False),
        (_EDITION + _NONE, _VERIFY, True),
        (_EDITION + _VERIFY, _NONE, False),
    ],
)
def test_protobuf_checks_text_where_the_java_class_does(file: str, field: str, checked: bool, tmp_path: Path) -> None:
    of = f'field {{ name: "s" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING {field} }}'
    path = a_file(str(tmp_path), f'name: "f.proto" {file} message_type {{ name: "M" {of} }}')
    format = get_format("protobuf", {"message-class-name": "M", "descriptor-file": path})
    batch = format.decode_batch(pa.array([_field(1, b"a\xff")]), "s STRING")
    assert batch.rows.to_pylist() == ([None] if checked else [[{"s": "a\ufffd"}]])


_WRITERS: list[tuple[str, dict[str, str]]] = [
    *((name, {}) for name in ("json", "csv", "debezium-json", "canal-json", "maxwell-json", "ogg-json")),
    *(("avro", {"encoding": encoding}) for encoding in ("binary", "json")),
    *(("protobuf", {"syntax": syntax}) for syntax in ("proto2", "proto3")),
    *((f"{kind}-registry", {"url": "mock://invalid-text", "subject": kind}) for kind in ("avro", "json", "proto")),
    ("debezium-avro-confluent", {"url": "mock://invalid-text", "subject": "changes"}),
]


@pytest.mark.parametrize(("name", "options"), _WRITERS)
def test_no_format_writes_invalid_text(name: str, options: dict[str, str], tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are written as U+FFFD, as in Java. Readers of proto3 refuse messages with others."""
    if name == "protobuf":
        nested = f"""nested_type {{ name: "R" {fields("string t = 1;")} }}
            nested_type {{ name: "E" options {{ map_entry: true }} {fields("string key = 1; string value = 2;")} }}"""
        of = fields("string s = 1; repeated string a = 2; .M.R r = 3; repeated .M.E m = 4;")
        file = f'name: "f.proto" syntax: "{options["syntax"]}" message_type {{ name: "M" {of} {nested} }}'
        options = {"message-class-name": "M", "descriptor-file": a_file(str(tmp_path), file)}
    columns = "s STRING, a ARRAY<STRING>, r ROW<t STRING>" + (", m MAP<STRING, STRING>" if name != "csv" else "")
    written = []
    for text in (b"a\xffb", "a\ufffdb".encode()):
        texts = pa.array([text, text, b"ok"]).view(pa.string())
        parts = [texts, pa.ListArray.from_arrays([0, 2, 2, 3], texts), pa.StructArray.from_arrays([texts], ["t"])]
        parts += [pa.MapArray.from_arrays([0, 1, 1, 3], texts, texts)] if name != "csv" else []
        rows = pa.StructArray.from_arrays(parts, ["s", "a", "r", "m"][: len(parts)])
        written.append(get_format(name, options).encode_batch(rows, columns))
    assert [batch.errors for batch in written] == [None, None]
    assert written[0].messages.to_pylist() == written[1].messages.to_pylist()


@pytest.mark.kernel_raises
def test_an_exception_may_have_any_characters() -> None:
    class Raising(type(get_format("raw"))):  # type: ignore[misc]
        def decode_arrow(self, messages: Any, schema: Any, *, metadata: Any = ()) -> Any:
            if len(messages):
                raise ValueError("half a pair: \ud800")
            return super().decode_arrow(messages, schema)

    batch = Raising().decode_batch(pa.array([b"x"]), "s STRING")
    assert batch.errors.to_pylist() == [r"the decoder of format 'raw' failed with ValueError: half a pair: \ud800"]


# --- the command line -------------------------------------------------------------------------------------------


def _run(*options: str) -> tuple[int, list[Any], list[Any]]:
    arguments = ["decode", "-f", "raw", "-s", "v STRING", "--framing", "length", *options]
    given = b"".join(len(m).to_bytes(4, "big") + m for m in (b"x", _BAD))
    result = CliRunner().invoke(cli._group, arguments, input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, list(map(json.loads, result.stdout.splitlines())), result.stderr.splitlines()


def test_the_command_line_shows_invalid_bytes() -> None:
    code, rows, told = _run()
    assert (code, rows) == (1, [{"v": "x"}])
    assert json.loads(told[0])["code"] == "WRONG_CHARSET"
    assert _run("-o", "invalid-text=keep")[:2] == (0, [{"v": "x"}, {"v": "a\ufffd"}])
