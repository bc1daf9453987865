"""The command line as users see it: stdout, stderr, exit status and error messages."""

from __future__ import annotations

import base64
import io
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tomllib
import uuid
import warnings
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors import KafkaTable, brokers, cli
from kvformat.connectors.cli import _framing, _values, doctor, inspect
from kvformat.registry import available_formats
from kvformat.registry.contract.discovery import format_class
from kvformat.registry.sql.connector_options import KAFKA_OPTIONS
from tests.support import interop
from tests.support.cli import lines, run
from tests.support.registry_server import Registry, RegistryServer

_SECRET = "sesame"
_KV = """CREATE TABLE users (id INT, name STRING, place BIGINT METADATA FROM 'offset' VIRTUAL,
    total AS id + 1, PRIMARY KEY (id) NOT ENFORCED) WITH (
    'connector' = 'upsert-kafka', 'topic' = 'users', 'properties.bootstrap.servers' = 'broker:9092',
    'key.format' = 'json', 'value.format' = 'json')"""


@pytest.fixture
def ddl(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        file = tmp_path / "tables.sql"
        file.write_text(text, encoding="utf-8")
        return file

    return written


# --- decode ----------------------------------------------------------------------------------------------------


def test_a_folder_is_no_file_of_messages(tmp_path: Path) -> None:
    result = run("decode", "--format", "json", "--schema", "id INT", tmp_path)
    assert (result.exit_code, "is a directory" in result.stderr) == (2, True)


def test_bad_messages_do_not_affect_other_rows() -> None:
    given = b'{"id":1,"name":"\xc3\xa4"}\n{"id":"x"}\n\xff\xfe\n{"id":4}'
    result = run("decode", "-f", "json", "-s", "id INT, name STRING", given=given)
    assert lines(result.stdout) == [{"id": 1, "name": "ä"}, {"id": 4, "name": None}]
    first, second, *said = result.stderr.splitlines()
    assert json.loads(first) == {
        "message": 2,
        "part": "value",
        "code": "WRONG_TYPE",
        "reason": "json: field 'id': cannot read \"x\" as INT",
        "head": '{"id":"x"}',
    }
    assert (json.loads(second)["message"], json.loads(second)["head"]) == (3, r"\xff\xfe")
    assert "4 messages, 2 rows, 2 bad" in said[0]
    assert result.exit_code == 1


def test_decoding_can_stop_at_a_bad_message() -> None:
    result = run("decode", "-f", "csv", "-s", "id INT", "--errors", "stop", given=b"1\nx\n3\n" + b"4\n" * 10**6)
    assert lines(result.stdout) == [{"id": 1}]
    assert json.loads(result.stderr.splitlines()[0])["message"] == 2
    assert result.exit_code == 1


def test_rows_of_changes_have_kinds_and_metadata() -> None:
    change = {"before": {"id": 1}, "after": {"id": 2}, "op": "u", "source": {"table": "t", "ts_ms": 5}}
    result = run(
        *("decode", "-f", "debezium-json", "-s", "id INT", "-m", "source.table", "-m", "source.timestamp"),
        given=json.dumps(change),
    )
    added = {"source.table": "t", "source.timestamp": "1970-01-01T00:00:00.005Z"}
    assert lines(result.stdout) == [
        {"row_kind": "-U", "row": {"id": 1} | added},
        {"row_kind": "+U", "row": {"id": 2} | added},
    ]
    assert (result.exit_code, result.stderr) == (0, "")


def test_skipped_messages_are_counted() -> None:
    arguments = ("decode", "-f", "json", "-s", "id INT", "-o", "ignore-parse-errors=true")
    result = run(*arguments, given=b'{"id":1}\n{')
    assert (len(lines(result.stdout)), result.exit_code) == (1, 0)
    assert "1 without a row" in result.stderr
    result = run(*arguments, "--json", given=b'{"id":1}\n{')
    assert json.loads(result.stderr) == {"messages": 2, "rows": 1, "skipped": 1, "bad": 0}


def test_messages_cannot_send_terminal_commands() -> None:
    hostile = "\x1b]0;x\x07\x9b31m\x7f"
    result = run("decode", "-f", "json", "-s", "v STRING", given=json.dumps({"v": hostile}) + f'\n{{"v":{hostile}')
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", result.stdout + result.stderr)
    assert lines(result.stdout) == [{"v": hostile}]
    assert json.loads(result.stderr.splitlines()[0])["head"] == f'{{"v":{hostile}'


def test_hint_if_the_framing_seems_wrong(ddl: Callable[[str], Path]) -> None:
    result = run("decode", "-f", "avro", "-s", "id INT, name STRING", given=b"\x02\x02\xff\n\xff")
    assert "messages were read as lines: perhaps another --framing" in result.stderr
    result = run("decode", "--ddl", ddl(_KV), given=b'{"id": 1}')
    assert "messages were read as records: perhaps another --framing" in result.stderr
    assert "--framing" not in run("decode", "-f", "json", "-s", "id INT", given=b"{").stderr


def test_messages_are_read_from_files_and_framed_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    first.write_bytes(b"1,a\n2,b")
    second.write_bytes(b'3,"c\nd"')
    by_csv = ("decode", "-f", "csv", "-s", "id INT, v STRING")
    assert [row["id"] for row in lines(run(*by_csv, first, "-", first, given=b"9,z\n").stdout)] == [1, 2, 9, 1, 2]
    assert lines(run(*by_csv, "--framing", "whole", second).stdout) == [{"id": 3, "v": "c\nd"}]
    framed = b"".join(len(m).to_bytes(4, "big") + m for m in (b"1,a", b"", b'3,"c\nd"')) + b"\xff\xff\xff\xff"
    result = run(*by_csv, "--framing", "length", "--json", given=framed)
    assert lines(result.stdout) == [{"id": 1, "v": "a"}, {"id": 3, "v": "c\nd"}]
    assert json.loads(result.stderr.splitlines()[-1])["messages"] == 4


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"\x00\x00\x00\x05abc", "the input ends within a message, of which it has 7 of 9 bytes"),
        (b"\x00\x00", "the input ends within a message, of which it has 2 of 4 bytes"),
        (b'{"id": 1}\n', "no valid length at byte 7"),
    ],
)
def test_truncated_input_is_an_error(tail: bytes, reason: str) -> None:
    given = b"\x00\x00\x00\x03abc" + tail
    result = run("decode", "-f", "raw", "-s", "v STRING", "--framing", "length", given=given)
    assert lines(result.stdout) == [{"v": "abc"}]
    fault = json.loads(result.stderr.splitlines()[0])
    assert (fault["message"], fault["part"], fault["code"]) == (2, "record", "MALFORMED")
    assert reason in fault["reason"]
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("length", "reason"),
    [(2**30, "it has 5 of 1073741828 bytes"), (2**30 + 1, "no valid length at byte 0: 1073741825")],
)
def test_a_length_of_more_than_a_gibibyte_is_no_length(length: int, reason: str) -> None:
    given = length.to_bytes(4, "big") + b"x"
    result = run("decode", "-f", "raw", "-s", "v STRING", "--framing", "length", given=given)
    assert reason in json.loads(result.stderr.splitlines()[0])["reason"]


@pytest.mark.parametrize(("length", "more"), [(100, ""), (101, "...")])
def test_a_report_has_a_hundred_bytes_of_a_message(length: int, more: str) -> None:
    result = run("decode", "-f", "json", "-s", "a INT", given=b"x" * length)
    assert json.loads(result.stderr.splitlines()[0])["head"] == "x" * 100 + more


def test_counts_are_those_of_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message is a batch of its own. A good one after a bad one is not bad."""
    monkeypatch.setattr(_framing, "_CHUNK", 1)
    given = b'{"a": 1}\n{"a":"x"}\n\n{"b": 0}\n{"a": 2}\n'
    result = run("decode", "--json", "-f", "json", "-s", "a INT", given=given)
    assert [row["a"] for row in lines(result.stdout)] == [1, None, 2]
    *faults, counts = [line for line in lines(result.stderr) if isinstance(line, dict)]
    assert [fault["message"] for fault in faults] == [2]
    assert counts == {"messages": 5, "rows": 3, "skipped": 1, "bad": 1}


class _Pieces:
    """A file that returns `count` pieces and counts the reads."""

    def __init__(self, piece: bytes, count: int) -> None:
        self.piece, self.count, self.given = piece, count, 0

    def read1(self, size: int) -> bytes:
        self.given += 1
        return self.piece if self.given <= self.count else b""


@pytest.mark.parametrize("framing", ["lines", "length", "records"])
def test_input_is_read_only_as_needed(framing: str) -> None:
    message = b'{"value":"x"}\n' if framing == "records" else b"x\n" if framing == "lines" else b"\x00\x00\x00\x01x"
    file: Any = _Pieces(message * 10, 1000)
    batches = _framing.read_messages([file], framing)
    for number in range(1, 4):
        assert next(batches).values == [b"x"] * 10
        assert file.given == number
    assert 3 + sum(1 for _ in batches) == 1000


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
def test_messages_do_not_depend_on_read_sizes(size: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_framing, "_CHUNK", size)
    messages = [b"", b"abc", b"x" * 100, b"", b"d"]
    file = tmp_path / "messages"
    file.write_bytes(b"\n".join(messages))
    with file.open("rb") as opened:
        assert [value for batch in _framing.read_messages([opened], "lines") for value in batch.values] == messages
    file.write_bytes(b"".join(len(m).to_bytes(4, "big") + m for m in messages))
    with file.open("rb") as opened:
        assert [value for batch in _framing.read_messages([opened], "length") for value in batch.values] == messages


@pytest.mark.parametrize("size", [1, 5, 64])
def test_the_place_of_a_wrong_length_does_not_depend_on_read_sizes(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_framing, "_CHUNK", size)
    file = io.BytesIO(b"".join(len(m).to_bytes(4, "big") + m for m in (b"ab", b"", b"cde")) + b"\x7f\0\0\0")
    *_, last = _framing.read_messages([file], "length")
    assert [*last.faults.values()] == [f"no valid length at byte 17: {0x7F << 24}"]


@pytest.mark.parametrize("name", ["partition", "offset", "timestamp", "ts"])
@pytest.mark.parametrize("value", ["true", '"1"', "1.5", "[1]"])
def test_a_wrong_number_of_a_record_is_a_fault(name: str, value: str) -> None:
    line = f'{{"value":"x","{name}":{value}}}\n'.encode()
    (batch,) = _framing.read_messages([io.BytesIO(line)], "records")
    assert batch.faults[0].startswith(f"the line is not a record: '{name}' is not number")


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime", "NoTimestampType"])
def test_a_record_keeps_its_metadata_as_a_line(kind: str) -> None:
    headers = [("h", b"\xff"), ("e", None), ("h", b"")]
    about = {"topic": "t", "partition": 1, "offset": 7, "timestamp-type": kind, "timestamp": 1500, "headers": headers}
    line = json.dumps(_framing.record_of(b"k", b"\xfe", about)).encode("utf-8", "surrogatepass")
    (batch,) = _framing.read_messages([io.BytesIO(line)], "records")
    assert (batch.keys, batch.values, batch.about) == ([b"k"], [b"\xfe"], [about])


# --- key and value ---------------------------------------------------------------------------------------------


def test_kcat_records_keep_every_byte(ddl: Callable[[str], Path]) -> None:
    table = _KV.replace("'json')", "'raw', 'value.fields-include' = 'EXCEPT_KEY')").replace(
        "'key.format' = 'json'", "'key.format' = 'raw', 'key.raw.charset' = 'ISO-8859-1'"
    )
    table = table.replace("id INT,", "id STRING,").replace("total AS id + 1,", "")
    given = (
        b'{"topic":"users","partition":1,"offset":7,"tstype":"create","ts":1500,"headers":["h","\xff","e",null],'
        b'"key":"\xe4","payload":"anna"}\n'
        b'{"offset":8,"key":"\xe4","payload":null}\n'
    )
    file = ddl(table)
    keys = ("headers", "timestamp", "timestamp-type", "partition")
    result = run("decode", "--ddl", file, *(word for key in keys for word in ("-m", key)), given=given)
    assert result.exit_code == 0, result.stderr
    assert lines(result.stdout) == [
        {
            "row_kind": "+U",
            "row": {
                "id": "ä",
                "name": "anna",
                "place": 7,
                "headers": {"h": "/w==", "e": None},
                "timestamp": "1970-01-01T00:00:01.5Z",
                "timestamp-type": "CreateTime",
                "partition": 1,
            },
        },
        {"row_kind": "-D", "row": {"id": "ä", "name": None, "place": 8} | dict.fromkeys(keys)},
    ]


_RAW = """CREATE TABLE t ({}) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b:9',
    'scan.startup.mode' = 'earliest-offset', 'format' = 'json')"""


def test_raw_keys_and_values_are_shown(ddl: Callable[[str], Path]) -> None:
    given = b'{"key":"\xff","payload":" {\\"id\\": 1}"}\n{"payload":"{}"}\n{"key":"b","payload":"["}\n'
    file = ddl(_RAW.format("id INT, k BYTES METADATA FROM '__raw_key__' VIRTUAL"))
    keys = ("-m", "__raw_key__", "-m", "__raw_value__")
    result = run("decode", "--ddl", file, *keys, given=given)
    assert lines(result.stdout) == [
        {"id": 1, "k": "/w==", "__raw_key__": "\ufffd", "__raw_value__": ' {"id": 1}'},
        {"id": None, "k": None, "__raw_key__": None, "__raw_value__": "{}"},
    ]
    assert [fault["code"] for fault in lines(result.stderr.splitlines()[0])] == ["MALFORMED"]
    result = run("decode", "-f", "csv", "-s", "id INT", *keys, given=b"1\n\n2")
    assert lines(result.stdout) == [
        {"id": 1, "__raw_key__": None, "__raw_value__": "1"},
        {"id": 2, "__raw_key__": None, "__raw_value__": "2"},
    ]


def test_raw_keys_and_values_are_encoded(ddl: Callable[[str], Path]) -> None:
    file = ddl(_RAW.format("k BYTES METADATA FROM '__raw_key__', v STRING METADATA FROM '__raw_value__'"))
    result = run("encode", "--ddl", file, given=b'{"k":"/w==","v":"not JSON"}\n{"v":null}\n{"k":"?"}')
    assert lines(result.stdout) == [{"key_base64": "/w==", "value": "not JSON"}, {"key": None, "value": None}]
    assert [(fault["message"], fault["code"]) for fault in lines(result.stderr.splitlines()[0])] == [(3, "WRONG_TYPE")]
    assert run("decode", "--ddl", file, given=b'{"key":"k","value":"{}"}').stdout == '{"k": "aw==", "v": "{}"}\n'
    file = ddl(_RAW.format("id INT, k STRING METADATA FROM '__raw_key__', p INT METADATA FROM 'partition' VIRTUAL"))
    result = run("encode", "--ddl", file, given=b'{"id":1,"k":"one","p":3}')
    assert lines(result.stdout) == [{"key": "one", "value": '{"id":1}'}]
    virtual = ddl(_RAW.format("id INT, k STRING METADATA FROM '__raw_key__' VIRTUAL"))
    assert lines(run("encode", "--ddl", virtual, given=b'{"id":1,"k":"one"}').stdout) == [{"value": '{"id":1}'}]
    refused = ddl(_RAW.format("id INT, v STRING METADATA FROM '__raw_value__'"))
    result = run("encode", "--ddl", refused, given=b"")
    assert result.exit_code == 2
    assert "would not be written: id" in result.stderr


def test_ids_of_schemas_in_headers_are_read(ddl: Callable[[str], Path]) -> None:
    table = """CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json-registry',
        'properties.bootstrap.servers' = 'b:9', 'scan.startup.mode' = 'earliest-offset')"""
    frame = "\\u0000\\u0000\\u0000\\u0000\\u0001"
    given = (
        f'{{"headers":["\\ud800","x","__value_schema_id","{frame}"],"payload":"{{\\"a\\":1}}"}}\n'
        f'{{"payload":"{frame}{{\\"a\\":2}}"}}\n'
        '{"headers":["__value_schema_id","?"],"payload":"{\\"a\\":3}"}\n'
    )
    result = run("decode", "--ddl", ddl(table), given=given)
    assert lines(result.stdout) == [{"a": 1}, {"a": 2}]
    assert "header with the schema's id has the bytes '3f'" in result.stderr


def test_every_kafka_timestamp_is_shown(ddl: Callable[[str], Path]) -> None:
    record = '{"key":"{\\"id\\":1}","value":"{\\"id\\":1}","ts":%d}'
    given = "\n".join(record % millis for millis in (253_402_300_799_999, -(2**63), 2**63 - 1))
    rows = lines(run("decode", "--ddl", ddl(_KV), "-m", "timestamp", given=given).stdout)
    found = [row["row"]["timestamp"] for row in rows]
    assert found == ["9999-12-31T23:59:59.999Z", -1000 * 2**63, 1000 * (2**63 - 1)]


def test_lines_without_a_record_are_bad_records(ddl: Callable[[str], Path]) -> None:
    good = b'{"key":"{\\"id\\":1}","value":"{\\"id\\":1}"}'
    bad = [b"nope", b"[]", b"{}", b'{"value":1}', b'{"value_base64":"?"}', b'{"value":"","payload":""}', b"[" * 99999]
    bad += [
        b'{"value":"","ts":"x"}',
        b'{"value":"","headers":["h"]}',
        b'{"value":"","headers":[1,"x"]}',
        b'{"value":"","offset":{}}',
        b'{"value":"","key":"","key_base64":""}',
    ]
    result = run("decode", "--ddl", ddl(_KV), given=b"\n".join([good, *bad, good]))
    assert len(lines(result.stdout)) == 2
    told = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
    assert [(fault["message"], fault["part"]) for fault in told] == [(n, "record") for n in range(2, 14)]
    assert result.exit_code == 1


def test_errors_in_keys_name_the_key(ddl: Callable[[str], Path]) -> None:
    result = run("decode", "--ddl", ddl(_KV), given=b'{"offset":3,"key":"{","value":"{}"}')
    fault = json.loads(result.stderr.splitlines()[0])
    assert {"part": "key", "head": "{", "offset": 3}.items() <= fault.items()


def test_computed_columns_are_evaluated(ddl: Callable[[str], Path]) -> None:
    table = _KV.replace("total AS id + 1", "total AS 12 / id, late AS `place` + 1, `now` AS PROCTIME()")
    assert table != _KV
    records = [{"offset": 7 + i, "key": f'{{"id":{id}}}', "value": f'{{"id":{id}}}'} for i, id in enumerate((5, 0))]
    given = "\n".join(map(json.dumps, records))
    result = run("decode", "--ddl", ddl(table), "--skip-computed", "now", given=given)
    (row,) = lines(result.stdout)
    assert {"total": 2, "late": 8}.items() <= row["row"].items()
    assert "now" not in row["row"]
    (fault,) = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
    assert (fault["offset"], fault["part"], fault["code"]) == (8, "record", "COMPUTED_COLUMN")
    assert fault["reason"] == "computed column 'total' of table 'users': /: division by zero"
    unknown = run("decode", "--ddl", ddl(table), "--skip-computed", "nwo")
    assert (unknown.exit_code, "Did you mean 'now'?" in unknown.stderr) == (2, True)
    refused = run("decode", "--ddl", ddl(table.replace("PROCTIME()", "NOPE()")), given=given)
    assert (refused.exit_code, "--skip-computed" in refused.stderr) == (2, True)


def _flinks() -> list[str]:
    """Return the tables that Flink wrote and can read."""
    return sorted(n for n, c in interop.cases().items() if not n.startswith("hand_") and not c.get("flink_errors"))


@pytest.mark.parametrize("name", _flinks())
def test_flink_records_are_unchanged_after_decode_and_encode(name: str, tmp_path: Path) -> None:
    case = interop.cases()[name]
    (tmp_path / "registry").mkdir()
    (tmp_path / "table.sql").write_text(interop.ddl(case, tmp_path / "registry"), encoding="utf-8")
    records = [{"key_base64": r["key"], "value_base64": r["value"], "offset": r["offset"]} for r in case["records"]]
    by_table = ("--ddl", tmp_path / "table.sql", "--framing", "records")
    rows = run("decode", *by_table, given="\n".join(map(json.dumps, records)))
    assert rows.exit_code == 0, rows.stderr
    again = run("encode", *by_table, given=rows.stdout)
    assert again.exit_code == 0, again.stderr

    def written(record: dict[str, Any], part: str) -> str | None:
        text = record.get(part)
        return record.get(f"{part}_base64") if text is None else base64.b64encode(text.encode()).decode()

    has_key = "'key.format'" in case["ddl"]
    found = [(written(r, "key"), written(r, "value")) for r in lines(again.stdout)]
    assert found == [(r["key_base64"] if has_key else None, r["value_base64"]) for r in records]


# --- encode ----------------------------------------------------------------------------------------------------


def test_bad_rows_do_not_affect_other_messages() -> None:
    given = '{"id":1,"name":"a"}\n\n{"id":1,"nmae":"x"}\n{"id":99999999999}\nnope\n{"name":"d"}\n'
    result = run("encode", "-f", "csv", "-s", "id INT NOT NULL, name STRING", given=given)
    assert result.stdout == "1,a\n,d\n"
    told = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
    assert [(fault["message"], fault["code"]) for fault in told] == [
        (3, "UNEXPECTED_FIELD"),
        (4, "OUT_OF_RANGE"),
        (5, "MALFORMED"),
    ]
    assert "Did you mean 'name'" in told[0]["reason"]
    assert result.exit_code == 1


def test_messages_that_do_not_fit_the_framing_are_errors() -> None:
    rows = '{"v":"a"}\n{"v":"b\\nc"}\n{"v":null}\n{"v":"d"}\n'
    by_raw = ("encode", "-f", "raw", "-s", "v STRING")
    result = run(*by_raw, given=rows)
    assert result.stdout == "a\nd\n"
    told = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
    assert [fault["message"] for fault in told] == [2, 3]
    assert all("--framing length" in fault["reason"] for fault in told)
    result = run(*by_raw, "--framing", "length", given=rows)
    assert result.stdout_bytes == b"\0\0\0\x01a\0\0\0\x03b\nc\xff\xff\xff\xff\0\0\0\x01d"
    assert lines(run(*by_raw, "--framing", "records", given=rows).stdout)[2] == {"value": None}
    result = run(*by_raw, "--framing", "whole", given=rows)
    assert (result.stdout, result.exit_code) == ("a", 1)


def test_blank_lines_are_no_rows() -> None:
    result = run("encode", "--json", "-f", "csv", "-s", "id INT", given='{"id":1}\n\n   \n{"id":2}\n')
    assert (result.stdout, lines(result.stderr)) == ("1\n2\n", [{"rows": 2, "messages": 2, "bad": 0}])


@pytest.mark.parametrize(
    ("framing", "empty", "null"),
    [
        ("length", b"\0\0\0\0", b"\xff\xff\xff\xff"),
        ("records", b'{"key": "", "value": ""}\n', b'{"key": null, "value": null}\n'),
        ("lines", b"\n", "a null message can't be written as 'lines': use --framing length or records"),
        ("whole", b"", "a null message can't be written as 'whole': use --framing length or records"),
    ],
)
def test_an_empty_message_is_not_a_null_message(framing: str, empty: bytes, null: bytes | str) -> None:
    assert _framing.frame(b"", b"", framing, with_key=True) == empty
    assert _framing.frame(None, None, framing, with_key=True) == null


def test_row_kinds_are_encoded() -> None:
    by_change = ("encode", "-f", "debezium-json", "-s", "id INT")
    result = run(*by_change, given='{"row_kind":"-D","row":{"id":1}}\n{"id":1}\n{"row_kind":"?","row":{}}\n')
    assert lines(result.stdout) == [{"before": {"id": 1}, "after": None, "op": "d"}]
    assert result.stderr.count("+I, -U, +U, -D") == 2


@pytest.mark.parametrize("size", [1, 30, 1 << 18])
def test_updates_across_batches_are_not_deletes(
    size: int, ddl: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_framing, "_CHUNK", size)
    changes = [("+I", 1), ("-U", 1), ("+U", 1), ("-U", 1), ("+U", 2), ("-D", 2), ("-U", 3)]
    rows = [json.dumps({"row_kind": kind, "row": {"id": number, "name": "a"}}) for kind, number in changes]
    result = run("encode", "--ddl", ddl(_KV), given="\n".join(rows))
    assert result.exit_code == 0, result.stderr
    written = [(json.loads(r["key"])["id"], r["value"] is None) for r in lines(result.stdout)]
    assert written == [(1, False), (1, False), (1, True), (2, False), (2, True), (3, True)]


# --- formats, options, help ------------------------------------------------------------------------------------


def test_formats_are_listed() -> None:
    found = lines(run("formats", "--json").stdout)
    assert [f["name"] for f in found] == available_formats()
    assert {f["rows"] for f in found} == {"+I", "+I, -U, +U, -D"}
    assert all(f["description"] and f["distribution"].startswith("kvformat ") for f in found)
    shown = run("formats").stdout
    assert all(name in shown for name in available_formats())
    assert "\x1b" not in shown


@pytest.mark.parametrize("name", [*available_formats(), "kafka", "upsert-kafka"])
def test_options_command_lists_all_declared_options(name: str) -> None:
    specs = KAFKA_OPTIONS if name == "kafka" else None
    if specs is None and name in available_formats():
        specs = format_class(name).option_specs
    found = lines(run("options", name, "--json").stdout)
    if specs is not None:
        assert [option["name"] for option in found] == [spec.name for spec in specs]
    shown = run("options", name).stdout
    assert all(option["name"] in shown for option in found)


def test_help_lists_every_command() -> None:
    shown = run("--help").stdout
    for name, words in cli.COMMANDS.items():
        assert words in shown
        told = run(name, "--help").stdout
        assert "--json" in told
        assert len(told) > 200


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["decod"], "Did you mean 'decode'?"),
        (["options", "jsn"], "Did you mean 'json'?"),
        (["options", "upsert-kafak"], "Did you mean 'upsert-kafka'?"),
        (["decode", "-f", "jsno", "-s", "a INT"], "Did you mean 'json'?"),
        (["decode", "-f", "csv", "-s", "a INT", "-o", "field-delimeter=;"], "Did you mean 'field-delimiter'?"),
        (["decode", "-f", "csv", "-s", "a INTT"], "Did you mean 'INT'?"),
        (["decode", "-f", "ogg-json", "-s", "a INT", "-m", "tabel"], "Did you mean 'table'?"),
        (["decode", "-f", "csv"], "--schema"),
        (["decode"], "--format and --schema, or --ddl"),
        (["decode", "-f", "csv", "-s", "a INT", "--table", "t"], "--ddl, which is missing"),
        (["encode", "-f", "csv", "-s", "a INT", "--framing", "line"], "lines"),
        (["encode", "-f", "csv", "-s", "a INT", "/nonexistent"], "does not exist"),
        (
            ["decode", "-f", "json", "-s", "a INT", "-o", "timestamp-format.standard=ISO"],
            "supported values are [SQL, ISO-8601]",
        ),
        (["inspect", "--topic", "t"], "--bootstrap host:9092"),
    ],
)
def test_errors_for_mistyped_arguments(arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_errors_can_be_written_as_json() -> None:
    result = run("decode", "--json", "-f", "csv", "-s", "a INT", "-o", "field-delimeter=;")
    told = json.loads(result.stderr)
    assert (told["type"], told["format"], told["option"]) == ("OptionError", "csv", "field-delimeter")


def test_output_never_contains_secrets_of_options(ddl: Callable[[str], Path]) -> None:
    url = f"http://me:{_SECRET}@127.0.0.1:9"
    jaas = f"'properties.sasl.jaas.config' = 'X required username=\"u\" password=\"{_SECRET}\";'"
    confluent = ("-f", "avro-confluent", "-s", "a INT", "-o", f"url={url}", "-o", "registry-retries=0")
    file = ddl(_KV.replace("'key.format'", f"{jaas}, 'key.format'"))
    broken = file.with_name("broken.sql")
    broken.write_text(file.read_text().replace("'value.format' =", "'value.formt' ="))
    results = [
        run("decode", *confluent, "-o", f"basic-auth.user-info=bob:{_SECRET}", given=b"\0\0\0\0\1\0\n"),
        run("decode", *confluent, "-o", f"basic-auth.user-inf=bob:{_SECRET}"),
        run("decode", *confluent, "-o", _SECRET),
        run("decode", "-f", "csv", "-s", "a INT", url),
        run("decode", "--ddl", broken),
        run("encode", "--ddl", broken),
        run("tail", broken),
        run("inspect", url),
    ]
    for result in results:
        assert result.exit_code == 2
        assert _SECRET not in result.output


def test_no_part_of_a_longer_secret_is_shown(ddl: Callable[[str], Path]) -> None:
    """Secrets of which one begins with the other, and one that is a word of a message."""
    jaas = f'x.PlainLoginModule required username="u" password="{_SECRET}";'
    secrets = {"properties.sasl.jaas.config": jaas, "properties.ssl.key.password": f"{_SECRET}-2"}
    secrets |= {"properties.ssl.keystore.password": f"old-{_SECRET}-2", "properties.ssl.truststore.password": "topic"}
    given = ", ".join(f"'{name}' = '{text}'" for name, text in secrets.items())
    file = ddl(_KV.replace("'key.format'", f"{given}, 'key.format'"))
    options = [part for name, text in secrets.items() for part in ("-o", f"{name}={text}")]
    results = [run("explain", file), run("explain", file, "--json"), run("explain", file, *options)]
    results += [run("explain", file, "-o", "value.formt=x"), run("decode", "--ddl", file, "-o", "key.format=jsn")]
    assert [result.exit_code for result in results] == [0, 0, 0, 2, 2]
    for result in results:
        for word in (_SECRET, "old-", "-2'"):
            assert word not in result.output
    assert "kafka.ssl.truststore.password = '******'" in results[0].output
    assert "subscribe = 'users'" in results[0].output


# --- as a process ------------------------------------------------------------------------------------------


_CSV = (sys.executable, "-m", "kvformat", "decode", "-f", "csv", "-s", "id INT")


def test_a_slow_pipe_is_decoded_line_by_line(process: Callable[..., Any]) -> None:
    one = process(*_CSV)
    for number in range(3):
        one.stdin.write(b"%d\n" % number)
        one.stdin.flush()
        assert json.loads(one.stdout.readline()) == {"id": number}
    one.stdin.close()
    assert (one.wait(60), one.stderr.read()) == (0, b"")


def test_a_closed_pipe_ends_quietly(process: Callable[..., Any], tmp_path: Path) -> None:
    many = tmp_path / "many.csv"
    many.write_bytes(b"1\n" * 200_000)
    for command in ((*_CSV, str(many)), (sys.executable, "-m", "kvformat", "options", "kafka")):
        one = process(*command)
        if command[3] == "decode":
            assert json.loads(one.stdout.readline()) == {"id": 1}
        one.stdout.close()
        assert (one.wait(60), one.stderr.read()) == (0, b"")


def test_interrupt_prints_no_traceback(process: Callable[..., Any]) -> None:
    one = process(*_CSV)
    one.stdin.write(b"1\n")
    one.stdin.flush()
    one.stdout.readline()
    one.send_signal(signal.SIGINT)
    assert one.wait(60) == 130
    assert b"Traceback" not in one.stderr.read()


def test_colours_are_used_only_where_terminals_allow_them() -> None:
    pty = pytest.importorskip("pty")

    def shown(**more: str) -> bytes:
        environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | more
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "kvformat", "options", "raw"]
        subprocess.run(command, stdout=theirs, env=environment, check=True)
        os.close(theirs)
        data: bytes = os.read(ours, 1 << 16)
        os.close(ours)
        return data

    assert b"\x1b[1m" in shown()
    assert b"\x1b" not in shown(NO_COLOR="1")


# --- explain, inspect ------------------------------------------------------------------------------------------


_TWO = f"""SET 'a' = 'b'; {_KV}; CREATE TABLE plain (id INT) WITH ('connector' = 'kafka', 'topic' = 'plain',
    'scan.startup.mode' = 'earliest-offset', 'properties.bootstrap.servers' = 'broker:9092', 'format' = 'json')"""


def test_explain_shows_tables(ddl: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KafkaTable, "explain", lambda self: f"this is {self.kv.name}", raising=False)
    file = ddl(_TWO)
    code = (
        "\nViews of these tables for Spark SQL:\n  from pathlib import Path\n  from kvformat import register_tables\n"
        f"  register_tables(spark, Path({str(file)!r}).read_text(encoding='utf-8'){{}})\n"
    )
    assert run("explain", file).stdout == f"this is users\n\nthis is plain\n{code.format('')}"
    chosen = code.format(", tables=['plain']")
    assert run("explain", file, "--table", "plain").stdout == f"this is plain\n{chosen}"
    with_options = run("explain", file, "-o", "topic=other", "-o", f"properties.sasl.jaas.config={_SECRET}").stdout
    assert ", options={'topic': 'other', 'properties.sasl.jaas.config': '******'})\n" in with_options
    of_stdin = run("explain", "-", given=file.read_bytes()).stdout
    assert of_stdin.endswith("  from kvformat import register_tables\n  register_tables(spark, text)\n")
    latest = ddl(_TWO.replace("earliest-offset", "latest-offset"))
    assert ", tables=['users'])\n" in run("explain", latest).stdout, "a batch of plain is refused"
    file = ddl(_TWO)
    result = run("explain", file, "--table", "plane")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "plain" in result.stderr


def test_explain_can_write_json(ddl: Callable[[str], Path]) -> None:
    secret = _KV.replace("'key.format'", f"'properties.sasl.jaas.config' = '{_SECRET}', 'key.format'")
    users, plain = lines(run("explain", ddl(_TWO.replace(_KV, secret)), "--json").stdout)
    assert (users["table"], users["connector"], users["primary_key"]) == ("users", "upsert-kafka", ["id"])
    assert users["columns"][0] == {"name": "id", "kind": "physical", "type": "INT NOT NULL"}
    assert users["columns"][2:] == [
        {"name": "place", "kind": "metadata", "type": "BIGINT", "metadata": "offset", "virtual": True},
        {"name": "total", "kind": "computed", "type": "INT", "expression": "id + 1"},
    ]
    assert users["key"] == {"format": "json", "columns": ["id"]}
    assert plain["key"] is None
    assert plain["reading"]["batch"]["options"]["startingOffsets"] == "earliest"
    assert users["writing"]["options"]["kafka.sasl.jaas.config"] == "******"
    assert (users["changelog_mode"], plain["changelog_mode"]) == ("UPSERT", "INSERT_ONLY")
    assert _SECRET not in str(users)
    latest = ddl(_TWO.replace("earliest-offset", "latest-offset"))
    assert "refused" in lines(run("explain", latest, "--json").stdout)[1]["reading"]["batch"]


def test_an_invalid_table_does_not_hide_the_others(ddl: Callable[[str], Path]) -> None:
    wrong = "CREATE TABLE wrong (id INT) WITH ('connector' = 'kafak')"
    file = ddl(f"{wrong}; {_TWO}; CREATE TABLE worse (id INT, x STRNG) WITH ()")
    result = run("explain", file)
    assert result.exit_code == 2
    assert result.stdout.startswith("Table 'users'")
    assert "\n\nTable 'plain'" in result.stdout
    assert [line.partition(": ")[2][:13] for line in result.stderr.splitlines() if line.startswith("kvformat")] == [
        "table 'wrong'",
        "table 'worse'",
    ]
    as_json = run("explain", file, "--json")
    assert [found["table"] for found in lines(as_json.stdout)] == ["users", "plain"]
    assert [found["table"] for found in lines(as_json.stderr)] == ["wrong", "worse"]
    assert as_json.exit_code == 2
    assert run("explain", file, "--table", "users").exit_code == 0


_JOB = """CREATE TABLE k (`offset` INT METADATA, PRIMARY KEY (`offset`) NOT ENFORCED) WITH ('connector' = 'kafka',
  'topic' = 'k', 'properties.bootstrap.servers' = '127.0.0.1:1', 'format' = 'json');
CREATE TABLE IF NOT EXISTS lake.`t`( WITH ('connector' = 'delta') AS TABLE vvp.`default`.k"""


def test_explain_says_how_a_job_is_run(ddl: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KafkaTable, "explain", lambda self: f"this is {self.kv.name}", raising=False)
    file = ddl(f"{_JOB}; {_TWO}")
    result = run("explain", file)
    run_it = f"Run the statement with 'kvformat ingest {file}'; 'kvformat ingest {file} --explain' describes it"
    tables, _, views = result.stdout.partition("\nViews of these tables for Spark SQL:\n")
    assert tables == f"table lake.`t` follows vvp.`default`.k. {run_it}\n\nthis is users\n\nthis is plain\n"
    assert views.endswith("tables=['users', 'plain'])\n")
    assert result.stderr.startswith(
        f"kvformat: table 'k' is followed by a CREATE TABLE ... AS TABLE; 'kvformat ingest {file}"
    )
    assert "column 'offset' of the PRIMARY KEY is not a physical column" in result.stderr
    assert result.exit_code == 0
    as_json = run("explain", file, "--table", "t", "--json")
    assert (as_json.exit_code, lines(as_json.stdout)) == (
        0,
        [{"table": "lake.`t`", "follows": "vvp.`default`.k", "explained_by": f"kvformat ingest {file} --explain"}],
    )
    (told,) = lines(run("explain", file, "--table", "k", "--json").stderr)
    assert (told["table"], "PRIMARY KEY" in told["not_a_table_by_itself"]) == ("k", True)
    assert run("explain", ddl(_JOB.replace("INT METADATA", "IMT METADATA"))).exit_code == 0  # `ingest` shows the error
    given = _JOB.replace("CREATE TABLE IF", "EXECUTE STATEMENT SET BEGIN CREATE TABLE IF") + "; END"
    assert run("explain", "-", given=given.encode()).stdout.startswith("table lake.`t` follows vvp.`default`.k. Run ")


def test_a_target_does_not_hide_a_table_whose_name_ends_like_its_own(ddl: Callable[[str], Path]) -> None:
    file = ddl(f"{_KV}; CREATE TABLE lake.all_users WITH ('connector' = 'delta') AS TABLE users")
    told = lines(run("explain", file, "--json").stdout)
    assert [(line["table"], line.get("follows")) for line in told] == [("lake.all_users", "users"), ("users", None)]


def test_doctor_asks_the_brokers_of_a_job(ddl: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "TIMEOUT", 0.5)  # no broker answers
    found = {line["what"]: line for line in lines(run("doctor", ddl(_JOB), "--json").stdout)}
    assert found["table k"]["status"] == "ok"
    assert found["brokers of k"]["status"] == "failed"
    assert "127.0.0.1:1" in found["brokers of k"]["text"]
    assert "table lake.`t`" not in found
    with_others = {line["what"]: line for line in lines(run("doctor", ddl(f"{_JOB}; {_TWO}"), "--json").stdout)}
    assert [with_others[f"table {name}"]["status"] for name in ("k", "users", "plain")] == ["ok"] * 3
    broken = {line["what"]: line for line in lines(run("doctor", ddl(f"{_JOB} ADD x"), "--json").stdout)}
    assert "expected 'COLUMN', found 'x', at line 3, column" in broken["job"]["text"]


def test_explain_takes_the_brokers_of_tables_of_confluent_cloud(ddl: Callable[[str], Path]) -> None:
    file = ddl("CREATE TABLE `env`.`cluster`.`a.b` (id INT) WITH ('connector' = 'confluent', 'value.format' = 'raw')")
    assert "does not say where the brokers" in run("explain", file).stderr
    found = run("explain", file, "-o", "properties.bootstrap.servers=x", "--json")
    assert lines(found.stdout)[0]["reading"]["batch"]["options"]["subscribe"] == "a.b"


def test_an_option_selects_one_of_several_tables(ddl: Callable[[str], Path]) -> None:
    result = run("decode", "--ddl", ddl(_TWO))
    assert result.exit_code == 2
    assert "the text creates the tables users, plain: choose one, --table 'users'" in result.stderr
    assert "from_ddl" not in result.stderr


@pytest.mark.parametrize(
    ("words", "found"),
    [("kvformat pro", ["produce"]), ("kvformat tail --whe", ["--where"]), ("kvformat fo", ["formats"])],
)
def test_completion_works_as_documented(words: str, found: list[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    assert "_KVFORMAT_COMPLETE=bash_source kvformat" in page
    given = {"_KVFORMAT_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    program = "import sys; sys.argv[0] = 'kvformat'; from kvformat.connectors.cli import main; main()"
    command, environment = [sys.executable, "-c", program], {**os.environ, **given}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert [line.partition(",")[2] for line in result.stdout.splitlines()] == found


def test_a_plugin_that_exits_is_listed_with_its_error(tmp_path: Path) -> None:
    """Uses a real distribution in its own process, so that nothing of it remains."""
    info = tmp_path / "acme_exit-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-exit\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kvformat.formats]\nending = acme_exit:Format\n")
    (tmp_path / "acme_exit.py").write_text("raise SystemExit(7)\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "kvformat", "formats"]
    result = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=False
    )
    assert result.returncode == 0, result.stderr
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("ending ")]
    assert "cannot load" in line
    assert any(line.startswith("json ") for line in result.stdout.splitlines())


def test_warnings_are_text_on_stderr(ddl: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def explain(_: KafkaTable) -> str:
        warnings.simplefilter("always")
        warnings.warn("mind the gap", UserWarning, stacklevel=1)
        return "explained"

    monkeypatch.setattr(KafkaTable, "explain", explain, raising=False)
    result = run("explain", ddl(_KV))
    assert result.stdout.startswith("explained\n")
    assert result.stderr == "kvformat: warning: mind the gap\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CREATE TABLE t (id INT,\n  name STRNG) WITH ()", "line 2, column 8"),
        ("SET 'a' = 'b';", "the text has no CREATE TABLE; it has SET (line 1)"),
        (_KV.replace("upsert-kafka", "upsert-kafak"), "Did you mean 'upsert-kafka'?"),
    ],
)
def test_errors_for_invalid_ddl(text: str, words: str, ddl: Callable[[str], Path]) -> None:
    result = run("explain", ddl(text))
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_inspect_shows_guesses_with_reasons(inspected: list[Any], tmp_path: Path) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_bytes(b"{}\n" * 5)
    result = run("inspect", file, "--max", "3")
    assert result.stdout.splitlines() == [
        "3 messages",
        "value: json, a = b (98%): all are objects",
        "note: two were cut",
        "",
        "CREATE TABLE x (...)",
    ]
    known = {"headers": [[], [], []], "timestamps": [None] * 3}
    named = {"name": "orders", "topic": None, "bootstrap": None, "registry": None}
    assert inspected == [([b"{}"] * 3, None, known | named)]
    assert run("inspect", file, "--sql").stdout == "CREATE TABLE x (...)\n"
    found = json.loads(run("inspect", file, "--json").stdout)
    assert found["guesses"][0]["confidence"] == 0.98
    assert (found["counts"], found["ddl"]) == ({"messages": 5}, "CREATE TABLE x (...)")


@pytest.mark.parametrize(("most", "read"), [(1, 1), (3, 1), (4, 2), (6, 2), (9, 2)])
def test_inspect_reads_no_more_batches_than_it_needs(most: int, read: int) -> None:
    batches = iter([_framing.MessageBatch(1, [b"a", b"b", b"c"]), _framing.MessageBatch(4, [b"d", b"e", b"f"])])
    sample = inspect._sample(batches, most)
    assert sample.values == [b"a", b"b", b"c", b"d", b"e", b"f"][:most]
    assert len(sample.keys or ()) == len(sample.about or ()) == min(most, 6)
    assert len(list(batches)) == 2 - read


def test_inspect_examines_keys_too(inspected: list[Any]) -> None:
    run("inspect", "--framing", "records", given=b'{"key":"k","value":"v"}\n{"value":null}\n')
    assert inspected[0][:2] == ([b"v", None], [b"k", None])


def test_inspect_shows_the_schemas_of_records_over_time() -> None:
    records = [
        {"key": "k", "value_base64": base64.b64encode(b"\0\0\0\0" + id + b'{"a":1}').decode(), "ts": 86_400_000 * day}
        for id, day in [(b"\5", 3), (b"\5", 1), (b"\7", 2), (b"\5", 2)]
    ]
    guid = b"\1" + bytes(15) + b"\2"
    of_header = {"value": '{"a":2}', "headers": ["__value_schema_id", guid.decode()], "ts": 86_400_000 * 9}
    given = "".join(f"{json.dumps(record)}\n" for record in [*records, of_header]).encode()
    shown = run("inspect", "--framing", "records", given=given).stdout
    assert shown.split("schemas:\n")[1].splitlines()[:3] == [
        "  value 5: 3 messages, 1970-01-02 00:00:00 to 1970-01-04 00:00:00 UTC",
        "  value 7: 1 messages, 1970-01-03 00:00:00 to 1970-01-03 00:00:00 UTC",
        "  value 00000000-0000-0000-0000-000000000002: 1 messages, 1970-01-10 00:00:00 to 1970-01-10 00:00:00 UTC",
    ]
    found = json.loads(run("inspect", "--framing", "records", "--json", given=given).stdout)
    assert found["schemas"][1] == {
        "part": "value",
        "schema": "7",
        "messages": 1,
        "first": "1970-01-03T00:00:00+00:00",
        "last": "1970-01-03T00:00:00+00:00",
    }
    assert "the schema's id is in the header '__value_schema_id' of 1 records" in found["notes"]


def test_inspect_shows_the_schemas_of_aws_glue_and_of_apicurios_headers() -> None:
    version = uuid.UUID("7b9b4ea1-3f5e-4a37-a7d0-2b2f8e0d3c11")
    glue = {"value_base64": base64.b64encode(b"\3\0" + version.bytes + b"\2").decode(), "ts": 86_400_000}
    header = ["apicurio.value.globalId", (bytes(7) + b"\7").decode()]
    given = "".join(f"{json.dumps(record)}\n" for record in [glue, glue, {"value": "\x02", "headers": header, "ts": 0}])
    shown = run("inspect", "--framing", "records", given=given.encode()).stdout
    assert shown.split("schemas:\n")[1].splitlines()[:2] == [
        "  value globalId 7: 1 messages, 1970-01-01 00:00:00 to 1970-01-01 00:00:00 UTC",
        f"  value {version}: 2 messages, 1970-01-02 00:00:00 to 1970-01-02 00:00:00 UTC",
    ]


# --- doctor ----------------------------------------------------------------------------------------------------


def _findings(*arguments: str | Path) -> tuple[dict[str, dict[str, str]], int]:
    result = run("doctor", "--json", *arguments)
    assert result.stderr == ""
    return {finding["what"]: finding for finding in lines(result.stdout)}, result.exit_code


def test_doctor_finds_nothing_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    java = tmp_path / "bin" / "java"  # the machine may have none
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.12\" 2024-07-16' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found, status = _findings()
    assert status == 0
    for what in (
        "Python",
        "PySpark",
        "pandas",
        "Java",
        "Python of local workers",
        "extra kafka",
        "extra ingest",
        "extra metrics",
        "kernel",
    ):
        assert found[what]["status"] in ("ok", "warning"), found[what]
    compiled = found["kernel"]["status"] == "ok"
    assert found["records of Kafka"]["status"] == ("ok" if compiled else "warning")
    kafka = found["Spark's Kafka source and sink"]
    assert kafka["status"] == "warning"
    assert "spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:4." in kafka["advice"]
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.hadoop.password sesame\nspark.jars.packages  org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0\n"
    )
    found, _ = _findings()
    assert found["Spark's Kafka source and sink"]["status"] == "ok"
    assert "sesame" not in json.dumps(found)


def test_doctor_advises_on_missing_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", "/nonexistent/python")
    found, status = _findings()
    assert status == 1
    assert found["Java"]["status"] == "failed"
    assert "JAVA_HOME" in found["Java"]["advice"]
    assert found["Python of local workers"]["status"] == "failed"
    assert sys.executable in found["Python of local workers"]["advice"]
    shown = run("doctor").stdout
    assert "failed   Java: " in shown
    assert "-> install Java 17 or 21" in shown


@pytest.mark.parametrize(
    ("version", "status", "text"),
    [
        (None, "failed", "is not installed"),
        ("2.2.1", "failed", "2.2.1 is too old"),
        ("2.2.2", "ok", "2.2.2"),
        ("2.10.0rc1", "ok", "2.10.0rc1"),
        ("3.0.0", "warning", "does not fully support pandas 3"),
    ],
)
def test_doctor_checks_pandas(version: str | None, status: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version

    def installed(name: str) -> str:
        if name != "pandas":
            return real(name)
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", installed)
    found = doctor._pandas()
    assert (found.what, found.status) == ("pandas", status)
    assert text in found.text
    assert found.advice.startswith("pip install 'pandas>=2.2.2,<3'") == (status != "ok")


def _checked(monkeypatch: pytest.MonkeyPatch, check: Callable[[], Any], **replaced: Any) -> Any:
    """Return the first finding of a check, with other functions of `doctor`."""
    for name in ("_pandas", "_java", "_worker", "_jar"):
        if check is not getattr(doctor, name):
            monkeypatch.setattr(doctor, name, lambda *_: None)
    for name, answer in replaced.items():
        monkeypatch.setattr(doctor, name, lambda *_, answer=answer: answer)
    found = check()
    return next(iter(found)) if isinstance(found, Iterator) else found


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("4.0.9", "failed"),
        ("4.1.0", "ok"),
        ("4.1.0.dev1", "ok"),
        ("4.10.2", "ok"),
        ("5.0.0", "failed"),
        ("3.5", "failed"),
    ],
)
def test_doctor_checks_the_version_of_pyspark(version: str, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _checked(monkeypatch, doctor._spark, _spark_version=version)
    assert (found.what, found.status, found.text.partition(",")[0]) == ("PySpark", status, version)


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("17.0.9", "ok"),
        ("21", "ok"),
        ("21-ea", "ok"),
        ("1.8.0_402", "warning"),
        ("18.0.1", "warning"),
        ("25", "warning"),
    ],
)
def test_doctor_checks_the_version_of_java(version: str, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/java")
    found = _checked(monkeypatch, doctor._java, _output_of=f'openjdk version "{version}" 2024-01-16\n')
    assert (found.status, found.text.partition(",")[0]) == (status, version)


@pytest.mark.parametrize(("minor", "status"), [(0, "ok"), (1, "failed")])
def test_doctor_checks_the_python_of_workers(minor: int, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It must have the same minor version; the last number may differ."""
    major, here, _ = platform.python_version_tuple()
    version = f"{major}.{int(here) + minor}.99"
    output = f"a warning\n{version} compiled 20.0.0\n"
    found = _checked(monkeypatch, doctor._worker, _output_of=output)
    assert (found.status, found.text.partition(",")[0]) == (status, version)


def test_extra_spark_requires_the_pandas_version_of_doctor() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lowest, limit = (".".join(map(str, numbers)) for numbers in doctor._PANDAS)
    for extra in ("spark", "dev"):
        assert f"pandas>={lowest},<{limit}" in project["optional-dependencies"][extra]


def test_doctor_asks_registries_with_the_credentials_of_the_table(
    ddl: Callable[[str], Path], server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers, "TIMEOUT", 0.5)  # no server answers
    with server.serving(Registry(credentials=f"alice:{_SECRET}")) as registry:
        url = registry.url
        table = f"""CREATE TABLE t (id INT) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'avro-confluent',
            'scan.startup.mode' = 'earliest-offset', 'properties.bootstrap.servers' = '127.0.0.1:9',
            'avro-confluent.url' = '{url}', 'avro-confluent.subject' = 's',
            'avro-confluent.basic-auth.credentials-source' = 'USER_INFO',
            'avro-confluent.basic-auth.user-info' = 'alice:{_SECRET}')"""
        found, status = _findings(ddl(table))
        assert found["registry of t (format)"]["status"] == "ok"
        assert (found["brokers of t"]["status"], status) == ("failed", 1)
        assert "127.0.0.1:9" in found["brokers of t"]["text"]
        found, status = _findings("--registry", url)
        assert (found["registry"]["status"], status) == ("failed", 1)
        assert "401" in found["registry"]["text"]
        by_user = ("-o", f"avro-confluent.basic-auth.user-info=alice:{_SECRET}")
        assert _findings("--registry", url, *by_user)[0]["registry"]["status"] == "ok"
        assert _SECRET not in json.dumps(found)


# --- the page --------------------------------------------------------------------------------------------------


def test_examples_in_the_docs_are_correct(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    (tmp_path / "users.sql").write_text(table, encoding="utf-8")
    examples = re.findall(
        r"^\$ (.*)\n((?:[^$`\n].*\n)*)", "".join(re.findall(r"```console\n(.*?)```", page, re.DOTALL)), re.M
    )
    assert len(examples) > 4
    for command, expected in examples:
        script = f'kvformat() {{ "{sys.executable}" -m kvformat "$@"; }}; {command}'
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.stdout == expected, command


def test_docs_list_the_json_form_of_each_type() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    (rows,) = re.findall(r"((?:^\|.*\n)+)", str(_values.__doc__), re.MULTILINE)
    assert rows in page


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ("avro-glue.aws.regoin=eu-west-1", "-o avro-glue.* needs avro-glue.aws.region"),
        ("avro-glu.aws.region=eu-west-1", "-o avro-glu.aws.region: the options here begin with properties., avro-"),
        ("avro-confluent.basic-auth.user-info=a:b", "-o avro-confluent.* needs --registry"),
    ],
)
def test_options_of_no_registry_are_refused_when_inspecting(tmp_path: Path, option: str, error: str) -> None:
    (tmp_path / "messages").write_text('{"a": 1}\n')
    result = run("inspect", tmp_path / "messages", "-o", option)
    assert result.exit_code == 2
    assert error in result.stderr


def test_brokers_without_a_topic_are_refused_when_inspecting() -> None:
    result = run("inspect", "-b", "broker:9092", given='{"a": 1}\n')
    assert result.exit_code == 2
    assert "--bootstrap needs the topic to inspect: --topic orders" in result.stderr


def test_a_command_without_pyspark_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql.types", None)
    table = "CREATE TABLE t (i INT) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json'"
    result = run("explain", "-", given=f"{table}, 'properties.bootstrap.servers' = 'broker:9092')")
    assert result.exit_code == 2
    assert "Error: this command needs PySpark 4.1 or newer: install kvformat[spark]" in result.stderr


def test_a_folder_that_cannot_be_written_is_an_error_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("new-format", "mine", "--folder", tmp_path / "file" / "package")
    assert result.exit_code == 1
    assert "Not a directory. Give another folder by --folder" in result.stderr


def test_a_registry_that_does_not_answer_is_the_reason_without_columns() -> None:
    result = run("inspect", "-", "--registry", "http://127.0.0.1:1", given=b"\0\0\0\0\1x")
    assert "the schema registry at http://127.0.0.1:1 gave no usable answer" in result.stdout
    assert "needs the option 'url'" not in result.stdout


def test_a_registry_without_a_scheme_is_an_error_with_the_allowed_schemes() -> None:
    result = run("inspect", "-", "--registry", "registry:8081", given=b"\0\0\0\0\1x")
    assert result.exit_code == 2
    assert "Invalid url registry:8081. A URL begins with http:// or https://" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["-o", "properties.security.protocol=SSLL"],
            "'properties.security.protocol' is 'SSLL', not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        (
            ["-o", "properties.client.dns.lookup=never"],
            "can't be configured by 'properties.*': Invalid value \"never\"",
        ),
        (["-f", "json", "-s", "id INT", "--where", "id"], "Invalid value for '--where': 'id' is not a condition"),
    ],
)
def test_tail_names_what_is_wrong_before_it_asks_brokers(arguments: list[str], words: str) -> None:
    result = run("tail", "--topic", "t", "-b", "127.0.0.1:1", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
