"""Messages and statements that are expensive to read, each in its own process with limits of time and memory.

The processes are forked from one process that has imported all modules and has not read any message.
"""

from __future__ import annotations

import atexit
import multiprocessing
import resource
import shutil
import tempfile
import time
import uuid
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, text_format

from kvformat.registry import Format, KeyValueFormat, KvFormatError, get_format
from tests.support import cost

SECONDS = 10
"""Maximum CPU time of a bomb in seconds, without the start of Python. The slowest takes less than two seconds."""
ADDRESSES = 4 << 30
"""Maximum address space of the process in bytes. Arrow and numpy alone need 1.5 GB."""
MEGABYTES = 600
"""Maximum additional memory in MB, compared with a process that has read a small message."""
_NEIGHBOURS = 2


@dataclass(frozen=True)
class Bomb:
    """A message of a format, or the text of a statement. A message is read between two good messages.

    make: a function that returns the message or statement.
    good: a good message.
    file: a descriptor set as text, for protobuf; the writer's schema, for avro-glue.
    microseconds: the allowed CPU time per byte, in addition to one second. 0 means that `SECONDS` are allowed.
    """

    name: str
    format: str
    make: Callable[[], bytes | str]
    schema: str = "a STRING, b INT"
    options: dict[str, str] = field(default_factory=dict)
    good: bytes = b'{"b":1}'
    file: str = ""
    microseconds: float = 0.0

    @property
    def seconds(self) -> float:
        """The allowed CPU time in seconds."""
        return 1 + self.microseconds * len(self.make()) / 1e6 if self.microseconds else SECONDS


@dataclass(frozen=True)
class Result:
    """The time and memory that a bomb took, the result of reading it, and the failure, or None."""

    name: str
    size: int = 0
    seconds: float = 0.0
    megabytes: float = 0.0
    answer: str = ""
    failure: str | None = None


def _many(head: str, item: str, tail: str, count: int = 200_000) -> Callable[[], bytes]:
    return lambda: (head + ",".join(item.replace("%", str(n)) for n in range(count)) + tail).encode()


def _long(number: int) -> bytes:
    """Return a number in Avro's encoding."""
    number, out = (number << 1) ^ (number >> 63), bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _nulls() -> bytes:
    return b"\x02" + _long(_A_MILLION) + b"\x00" * _A_MILLION + b"\x00\x02\x02"


_A_MILLION = 10**6
_FAR = "1e999999999"
_ROWS = "a STRING, b INT"
_LIST = "a ARRAY<STRING>, b INT"
_CSV = b"1,1"
_MANY_COLUMNS = ", ".join(f"c{n} INT" for n in range(2000))
_LENIENT = {"ignore_parse_errors": "true"}
_AVRO = b"\x02\x02x\x02\x02"
_AVRO_LIST = b"\x02\x02\x02\x02x\x00\x02\x02"
_NOTHING = b"\x02\x00\x02\x02"  # an empty list, and b
_CANAL = '{"type":"UPDATE","data":['
_AVRO_JSON = b'{"a":{"string":"x"},"b":{"int":1}}'
_DEEP_TYPE = "ROW<a " * 60 + "INT" + ">" * 60


def _json(name: str, make: Callable[[], bytes | str], schema: str = _ROWS, **options: str) -> Bomb:
    return Bomb(name, "json", make, schema, {key.replace("_", "-"): value for key, value in options.items()})


def _csv(name: str, make: Callable[[], bytes], schema: str = _ROWS, **options: str) -> Bomb:
    return Bomb(name, "csv", make, schema, {key.replace("_", "-"): value for key, value in options.items()}, _CSV)


def _glue(name: str, make: Callable[[], bytes]) -> Bomb:
    """Return a bomb whose datum is compressed."""
    head = b"\3\5" + uuid.UUID(int=1).bytes
    schema = """{"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "string"]},
        {"name": "b", "type": ["null", "int"]}]}"""
    good = head + zlib.compress(b"\x00\x00")
    return Bomb(name, "avro-glue", lambda: head + zlib.compress(make()), good=good, file=schema)


def _avro(name: str, make: Callable[[], bytes], schema: str = _LIST, good: bytes = _AVRO_LIST) -> Bomb:
    return Bomb(name, "avro", make, schema, {}, good)


def _change(name: str, format: str, make: Callable[[], bytes], good: bytes, **options: str) -> Bomb:
    return Bomb(name, format, make, _ROWS, {key.replace("_", "-"): value for key, value in options.items()}, good)


def _raw(name: str, charset: str, make: Callable[[], bytes]) -> Bomb:
    return Bomb(
        name, "raw", make, "a STRING", {"charset": charset}, "x".encode("utf-16-le") if "16" in charset else b"x"
    )


def _text(name: str, make: Callable[[], str]) -> Bomb:
    return Bomb(name, "ddl", make)


def _wide(name: str, make: Callable[[], bytes | str], format: str, schema: str, good: bytes, **options: str) -> Bomb:
    """Return a bomb with many rows or elements of thousands of columns."""
    return Bomb(name, format, make, schema, {key.replace("_", "-"): value for key, value in options.items()}, good)


def _protobuf(name: str, make: Callable[[], bytes], file: str, schema: str, good: bytes = b"") -> Bomb:
    return Bomb(name, "protobuf", make, schema, {"message-class-name": "M"}, good, file, _PER_BYTE)


def _columns(count: int) -> str:
    return ", ".join(f"c{n} INT" for n in range(count))


def _numbers(count: int, label: str = "optional", more: str = "") -> str:
    return " ".join(_number(n, label, more) for n in range(count))


def _number(n: int, label: str, more: str = "") -> str:
    return f'field {{ name: "c{n}" number: {n + 1} label: LABEL_{label.upper()} type: TYPE_INT32 {more} }}'


def _message_file(fields: str, nested: str = "", oneof: str = "") -> str:
    inner = f'nested_type {{ name: "N" {nested} }}' if nested else ""
    return f'file {{ name: "m.proto" message_type {{ name: "M" {fields} {inner} {oneof} }} }}'


def _field(name: str, number: int, label: str = "optional", more: str = "") -> str:
    return (
        f'field {{ name: "{name}" number: {number} label: LABEL_{label.upper()} type: TYPE_MESSAGE type_name: ".M.N" '
        f"{more} }}"
    )


def _tag(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _nested_maps(depth: int) -> bytes:
    """Return nested maps, each with a duplicate name."""
    value = b'{"k":1,"k":1}'
    for _ in range(depth - 1):
        value = b'{"k":{},"k":%s}' % value
    return value


_TREE = {"decode.json-parser.enabled": "false"}
_PER_BYTE = 2.0
_WIDE = _columns(2000)
_WIDE_ROW = f"a ARRAY<ROW<{_WIDE}>>, b INT"
_CANAL_WIDE = b'{"type":"INSERT","data":[{"c0":1}]}'
_ONEOF = 'oneof_decl { name: "o" }'
_DEEP = 80
_DEEP_MAPS = f"a {'MAP<STRING, ' * _DEEP}INT{'>' * _DEEP}, b INT"
_WIDE_BOMBS = (
    _wide("rows of 2,000 columns", _many("[", "{}", "]"), "json", _WIDE, b'{"c0":1}'),
    _wide(
        "rows of 2,000 columns, errors ignored",
        _many("[", "{}", "]"),
        "json",
        _WIDE,
        b'{"c0":1}',
        ignore_parse_errors="true",
    ),
    _wide("elements of 2,000 columns", _many('{"a":[', "{}", "]}"), "json", _WIDE_ROW, b'{"b":1}'),
    _wide("nulls of 2,000 columns", _many('{"a":[', "null", "]}"), "json", _WIDE_ROW, b'{"b":1}'),
    _wide(
        "bad elements of 2,000", _many('{"a":[', "1", "]}"), "json", _WIDE_ROW, b'{"b":1}', ignore_parse_errors="true"
    ),
    _wide(
        "entries of 2,000 columns",
        _many('{"a":{', '"%":{}', "}}"),
        "json",
        f"a MAP<STRING, ROW<{_WIDE}>>, b INT",
        b'{"b":1}',
    ),
    _wide(
        "one row of 2,000 columns, repeated", _many("{", '"a":{}', "}"), "json", f"a ROW<{_WIDE}>, b INT", b'{"b":1}'
    ),
    _wide("rows of 2,000", _many('{"type":"INSERT","data":[', "{}", "]}"), "canal-json", _WIDE, _CANAL_WIDE),
    _wide("old rows of 2,000", _many(_CANAL + '{"c0":1}],"old":[', "{}", "]}"), "canal-json", _WIDE, _CANAL_WIDE),
    _wide(
        "elements of 2,000",
        _many('{"before":null,"after":{"a":[', "{}", ']},"op":"c"}'),
        "debezium-json",
        _WIDE_ROW,
        b'{"before":null,"after":{"b":1},"op":"c"}',
    ),
    _wide("nulls of 2,000 columns", _nulls, "avro", f"a ARRAY<ROW<{_WIDE}>>, b INT", _NOTHING),
    _wide(
        "nulls of 2,000 in JSON",
        _many('{"a":{"array":[', "null", ']},"b":{"int":1}}'),
        "avro",
        f"a ARRAY<ROW<{_WIDE}>>, b INT",
        b'{"a":{"array":[]},"b":{"int":1}}',
        encoding="json",
    ),
    _protobuf(
        "elements of 2,000 fields",
        lambda: b"\x0a\x00" * 200_000,
        _message_file(_field("a", 1, "repeated"), _numbers(2000)),
        f"a ARRAY<ROW<{_WIDE}>>",
    ),
    _protobuf(
        "elements that lack one of 300 fields",
        lambda: b"\x0a\x02\x08\x01" * 100_000,
        _message_file(_field("a", 1, "repeated"), _numbers(299) + _number(299, "required")),
        "a ARRAY<ROW<c0 INT>>",
    ),
    _protobuf(
        "60 required fields in turn",
        lambda: b"".join(b"\x0a" + _varint(len(f)) + f for f in (_tag(n, 0) + b"\x01" for n in range(1, 300))) * 600,
        _message_file(_field("a", 1), _numbers(240) + " ".join(_number(240 + n, "required") for n in range(60))),
        "a ROW<c0 INT>",
    ),
    _protobuf(
        "a required field beside a oneof of 1,000",
        lambda: b"".join(_tag(n, 0) + b"\x01" for n in range(1, 1001)) * 200,
        _message_file(_numbers(1000, more="oneof_index: 0") + _number(1999, "required"), "", _ONEOF),
        "c0 INT",
        _tag(2000, 0) + b"\x01",
    ),
    _protobuf(
        "a oneof of 1,000 columns",
        lambda: b"".join(_tag(n, 0) + b"\x01" for n in range(1, 1001)) * 600,
        _message_file(_numbers(1000, more="oneof_index: 0"), "", _ONEOF),
        _columns(1000),
    ),
    _protobuf(
        "messages of 2,000 fields in a oneof",
        lambda: b"\x0a\x02\x08\x01\x12\x00" * 300_000,
        _message_file(
            _field("a", 1, more="oneof_index: 0") + _field("b", 2, more="oneof_index: 0"), _numbers(2000), _ONEOF
        ),
        f"a ROW<{_WIDE}>, b ROW<{_WIDE}>",
    ),
    Bomb(
        "maps in maps, each with a name twice",
        "json",
        lambda: b"[" + b",".join([b'{"a":%s}' % _nested_maps(_DEEP)] * 1000) + b"]",
        _DEEP_MAPS,
        microseconds=_PER_BYTE,
    ),
    Bomb(
        "maps in maps by the tree reader",
        "json",
        lambda: b"[" + b",".join([b'{"a":%s}' % _nested_maps(_DEEP)] * 1000) + b"]",
        _DEEP_MAPS,
        _TREE,
        microseconds=_PER_BYTE,
    ),
)


_TABLE = (
    "CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b', "
    "'format' = 'json')"
)
_DECIMAL = "a DECIMAL(38, 9), b INT"
_CANAL_GOOD = b'{"type":"INSERT","data":[{"a":"x","b":1}]}'
_DEBEZIUM_GOOD = b'{"before":null,"after":{"a":"x","b":1},"op":"c"}'


def _variant(name: str, make: Callable[[], bytes | str], microseconds: float = 0.1) -> Bomb:
    return Bomb(name, "json", make, "v VARIANT, b INT", good=b'{"v":{"a":[1]},"b":1}', microseconds=microseconds)


def _backwards() -> bytes:
    return ('{"v":{' + ",".join(f'"k{n:07}":{n}' for n in reversed(range(300_000))) + "}}").encode()


_VARIANT_BOMBS = (
    _variant("open arrays in a VARIANT", lambda: b'{"v":' + b"[" * _A_MILLION),
    _variant("keys of a VARIANT in the wrong order", _backwards),
    _variant("deep arrays in a VARIANT", lambda: b'{"v":[%s]}' % b",".join([b"[" * 990 + b"]" * 990] * 1000)),
    _variant("deep objects in a VARIANT", lambda: b'{"v":[%s]}' % b",".join([b'{"":' * 990 + b"1" + b"}" * 990] * 500)),
    _variant("long keys of a VARIANT that end differently", _many('{"v":{', f'"{"k" * 200}%":1', "}}", 30_000)),
    _variant("one key of a VARIANT, repeated", _many('{"v":{', '"k":%', "}}")),
    _variant("empty objects in a VARIANT", _many('{"v":[', "{}", "]}", 2_000_000)),
    _variant("numbers of 1000 digits in a VARIANT", _many('{"v":[', "9" * 1000, "]}", 5000)),
    _variant("numbers of 40 digits in a VARIANT", _many('{"v":[', "9" * 40, "]}", 100_000), 0.3),
    _variant("escaped keys in a VARIANT", _many('{"v":{', '"\\u0041%":1', "}}")),
    _variant("a key of ten megabytes in a VARIANT", lambda: b'{"v":{"' + b"k" * 10**7 + b'":1}}'),
)
BOMBS = (
    _json("a million open arrays", lambda: b'{"a":' + b"[" * _A_MILLION),
    _json("a million open objects", lambda: b'{"a":' * _A_MILLION),
    _json("nesting in a skipped member", lambda: b'{"x":' + b"[" * _A_MILLION + b"]" * _A_MILLION + b"}"),
    _json("a number of a million digits", lambda: b'{"b":' + b"9" * _A_MILLION + b"}"),
    _json("a decimal of a million digits in quotes", lambda: b'{"a":"' + b"9" * _A_MILLION + b'"}', _DECIMAL),
    _json("a huge exponent", lambda: f'{{"a":{_FAR},"b":1}}', _DECIMAL),
    _json("a huge exponent in quotes", lambda: f'{{"a":"{_FAR}","b":1}}', _DECIMAL),
    Bomb("a huge exponent by the tree reader", "json", lambda: f'{{"a":{_FAR},"b":1}}', "a BIGINT, b INT", _TREE),
    _json("huge exponents in a text", _many('{"a":[', _FAR, "]}"), "a STRING, b INT"),
    _json("a key of ten megabytes", lambda: b'{"' + b"k" * 10**7 + b'":1,"b":2}'),
    _json("one key, repeated", _many("{", '"a":"%"', "}")),
    _json("other keys", _many("{", '"k%":%', "}")),
    _json("other keys in a text", _many('{"a":{', '"k%":%', "}}")),
    _json("one key in a map", _many('{"a":{', '"k":%', "}}"), "a MAP<STRING, INT>, b INT"),
    _json("rows of nothing", _many("[", "{}", "]"), ", ".join(f"c{n} INT" for n in range(40)) + ", a STRING, b INT"),
    _json("lists of nothing", _many('{"a":[', "[]", "]}"), "a ARRAY<ARRAY<ROW<x INT, y STRING>>>, b INT"),
    _json("escapes", lambda: b'{"a":"' + b"\\u0041" * _A_MILLION + b'"}'),
    _json("open escapes", lambda: b'{"a":"' + b"\\" * _A_MILLION),
    _json("blanks", lambda: b" " * 10**7 + b'{"a":"x"}'),
    _json("a typed depth of sixty", lambda: b'{"a":' * 61 + b"1" + b"}" * 61, f"a {_DEEP_TYPE}, b INT"),
    _csv("a million delimiters", lambda: b"," * _A_MILLION),
    _csv("a million quotes", lambda: b'"' * _A_MILLION),
    _csv("an odd million of quotes", lambda: b'"' * (_A_MILLION + 1)),
    _csv("a million elements", lambda: b";" * _A_MILLION + b",1", _LIST),
    _csv("a million comments", lambda: b"#\n" * _A_MILLION + b"x,1", allow_comments="true"),
    _csv("a million blanks", lambda: b" " * _A_MILLION + b",1", trim_spaces="true"),
    _csv("a million escapes", lambda: b"\\" * _A_MILLION + b",1", escape_character="\\"),
    _csv("a decimal of a million digits", lambda: b"9" * _A_MILLION + b",1", _DECIMAL),
    _csv("a huge exponent", lambda: f"{_FAR},1".encode(), _DECIMAL),
    _csv("a double of a million digits", lambda: b"0." + b"7" * _A_MILLION + b",1", "a DOUBLE, b INT"),
    _csv("an integer of a million digits", lambda: b"9" * _A_MILLION + b",1", "a BIGINT, b INT"),
    _csv("a million columns to skip", lambda: b"1,1" + b"," * _A_MILLION, ignore_trailing_unmappable="true"),
    _csv("a million quotes in quotes", lambda: b'"' + b'""' * _A_MILLION + b'",1'),
    _csv("a million elements of a row", lambda: b"1" + b";" * _A_MILLION + b",1", "a ROW<x STRING>, b INT"),
    _csv("a million bad elements", lambda: b"x;" * _A_MILLION + b",1", "a ARRAY<INT>, b INT", **_LENIENT),
    _csv("nothing for two thousand columns", lambda: b"1", _MANY_COLUMNS, **_LENIENT),
    _avro("a text of an exabyte", lambda: b"\x02" + _long(2**60), _ROWS, _AVRO),
    _avro("a text of negative length", lambda: b"\x02" + _long(-(2**40)) + b"x", _ROWS, _AVRO),
    _avro("a block of 2^60 items", lambda: b"\x02" + _long(2**60)),
    _avro("a block of -2^63 items", lambda: b"\x02" + _long(-(2**63)) + _long(2**62)),
    _avro("a million blocks", lambda: b"\x02" + (_long(1) + b"\x02\x02x") * 200_000 + b"\x00\x02\x02"),
    _avro("items of no bytes", lambda: b"\x02" + _long(2**40) + b"\x00", "a ARRAY<ROW<>>, b INT", _NOTHING),
    _avro("nulls of one byte", _nulls, "a ARRAY<ROW<x INT, y STRING, z DOUBLE>>, b INT", _NOTHING),
    _glue("200 MB of zeros", lambda: bytes(200 << 20)),
    _glue("16 MB of a text", lambda: b"\x02" + _long((16 << 20) - 10) + b"x" * ((16 << 20) - 10) + b"\x00"),
    _glue("a block of 2^60 items", lambda: b"\x02" + _long(2**60)),
    Bomb("nested JSON", "avro", lambda: b'{"a":{"string":' * _A_MILLION, _ROWS, {"encoding": "json"}, _AVRO_JSON),
    _change("many rows", "canal-json", _many('{"type":"INSERT","data":[', '{"a":"%"}', "]}"), _CANAL_GOOD),
    _change("many old rows", "canal-json", _many(_CANAL + '{"a":"x"}],"old":[', '{"a":"%"}', "]}"), _CANAL_GOOD),
    _change("rows of nothing", "canal-json", _many('{"type":"INSERT","data":[', "{}", "]}"), _CANAL_GOOD),
    _change("a million open objects", "debezium-json", lambda: b'{"after":' * _A_MILLION, _DEBEZIUM_GOOD),
    _change("one envelope in many", "debezium-json", _many("{", '"after":{"a":"%"}', ',"op":"c"}'), _DEBEZIUM_GOOD),
    _raw("no UTF-16", "UTF-16LE", lambda: b"\x00\xd8" * _A_MILLION),
    _raw("no GB18030", "GB18030", lambda: b"\x81" * 200_000),
    _raw("no Shift_JIS", "Shift_JIS", lambda: b"\x81" * _A_MILLION),
    _text("a comment that is not closed", lambda: _TABLE + "/*" * 100_000),
    _text("a hundred thousand brackets", lambda: _TABLE.replace("INT", "ARRAY<" * 100_000)),
    _text("ten thousand columns", lambda: _TABLE.replace("a INT", ", ".join(f"c{n} INT" for n in range(10_000)))),
    _text("a precision of a million digits", lambda: _TABLE.replace("INT", f"DECIMAL({'9' * _A_MILLION}, 1)")),
    _text("a hundred thousand quotes", lambda: _TABLE + "'" * 100_001),
    *_VARIANT_BOMBS,
    *_WIDE_BOMBS,
)  # fmt: skip
QUICK = (*BOMBS[: -len(_VARIANT_BOMBS + _WIDE_BOMBS) : 7], *_VARIANT_BOMBS[1::2], *_WIDE_BOMBS[::4])
"""The bombs that a test runs."""


_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__])


def run(bomb: Bomb) -> Result:
    """Read a bomb in its own process. Returns time, memory and failure."""
    limits = [(resource.RLIMIT_AS, ADDRESSES), (resource.RLIMIT_CPU, SECONDS + 20)]
    ours, theirs = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=_read_within, args=(f"{bomb.format}/{bomb.name}", limits, theirs))
    process.start()
    theirs.close()
    try:
        told = ours.recv()
    except EOFError:
        told = None
    ours.close()
    process.join()
    name, status = f"{bomb.format}: {bomb.name}", process.exitcode
    process.close()
    if status or not isinstance(told, dict):
        return Result(name, failure=f"ended with {status}: {str(told or '')[:300]}")
    failure = None
    if told["seconds"] > bomb.seconds and told["seconds"] > bomb.seconds * cost.slowness():
        failure = f"took {told['seconds']:.1f} s"
    elif told["megabytes"] > MEGABYTES:
        failure = f"took {told['megabytes']:.0f} MB"
    elif told["neighbours"] != _NEIGHBOURS:
        failure = "the good messages lost their rows"
    return Result(name, told["size"], told["seconds"], told["megabytes"], told["answer"], failure)


def table(results: list[Result]) -> str:
    """Return a table with one line for each bomb."""
    lines = [f"{'bomb':55} {'bytes':>10} {'CPU s':>6} {'MB':>5}  answer"]
    for result in results:
        told = result.failure and f"FAILED: {result.failure}"
        lines.append(
            f"{result.name:55} {result.size:10,} {result.seconds:6.2f} {result.megabytes:5.0f}  {told or result.answer}"
        )
    return "\n".join(lines)


def _peak() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _format(bomb: Bomb) -> Format:
    if bomb.format == "avro-glue":
        folder = tempfile.mkdtemp(prefix="kvformat-bomb-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        (Path(folder) / f"{uuid.UUID(int=1)}.avsc").write_text(bomb.file)
        return get_format(bomb.format, {"url": f"file:{folder}"})
    if not bomb.file:
        return get_format(bomb.format, bomb.options)
    with tempfile.NamedTemporaryFile(suffix=".desc") as file:
        file.write(text_format.Parse(bomb.file, descriptor_pb2.FileDescriptorSet()).SerializeToString())
        file.flush()
        return get_format(bomb.format, {**bomb.options, "descriptor-file": file.name})


def _read(bomb: Bomb, message: bytes) -> tuple[int, str]:
    """Read the bomb between two good messages. Returns how many good messages have rows, and the bomb's result."""
    batch = _format(bomb).decode_batch(pa.array([bomb.good, message, bomb.good], pa.binary()), bomb.schema)
    counts = batch.rows.value_lengths().to_pylist()
    errors: list[Any] = [None] * 3 if batch.errors is None else batch.errors.to_pylist()
    answer = f"{counts[1]} rows" if errors[1] is None else errors[1]
    return sum(errors[at] is None and counts[at] == 1 for at in (0, 2)), answer


def _parse(text: str) -> str:
    try:
        return f"{len(KeyValueFormat.from_ddl(text).options)} options"
    except KvFormatError as error:
        return str(error)


def _read_within(name: str, limits: list[tuple[int, int]], told: Connection) -> None:
    """Set limits and read the bomb in this process. Sends time and memory, or the error, to the connection."""
    for kind, most in limits:
        resource.setrlimit(kind, (most, most))
    try:
        told.send(_took(name))
    except BaseException as error:
        told.send(repr(error))
        raise SystemExit(1) from None


def _took(name: str) -> dict[str, Any]:
    """Read the bomb in this process. Returns time, memory and result."""
    (bomb,) = (bomb for bomb in BOMBS if f"{bomb.format}/{bomb.name}" == name)
    made = bomb.make()
    message = made.encode() if isinstance(made, str) else made
    if bomb.format == "ddl":
        _parse(_TABLE)
    else:
        _read(bomb, bomb.good)  # modules and caches of the first use do not count for the bomb
    before, started = _peak(), time.process_time()
    neighbours, answer = (_NEIGHBOURS, _parse(message.decode())) if bomb.format == "ddl" else _read(bomb, message)
    took = {"seconds": time.process_time() - started, "megabytes": _peak() - before, "neighbours": neighbours}
    return {**took, "size": len(message), "answer": answer[:60]}
