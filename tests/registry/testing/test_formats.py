"""Every built-in format passes the test kit, also with options that change how it reads or writes."""

from __future__ import annotations

import atexit
import datetime as dt
import shutil
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from kvformat.registry import available_formats
from kvformat.registry.contract.discovery import format_class
from kvformat.registry.testing import FormatContract, Sample
from tests.support.protobuf_types import a_file, fields

_FOLDER: Final = tempfile.mkdtemp(prefix="kvformat-contract-")
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)

_ROWS: Final[list[dict[str, Any]]] = [
    {"id": 1, "name": "Ada", "price": Decimal("12.50"), "ok": True, "at": dt.datetime(2024, 2, 29, 12, 30, 0, 500_000)},
    {"id": -(2**63), "name": 'quote " and \\ and ,', "price": Decimal("-0.01"), "ok": False, "at": None},
    {"id": None, "name": "ß 世界 😀", "price": None, "ok": None, "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)},
    {"id": 7, "name": None, "price": Decimal("99999999.99"), "ok": True, "at": dt.datetime(1, 1, 1)},
]
_PLAIN: Final = Sample("id BIGINT, name STRING, price DECIMAL(10, 2), ok BOOLEAN, at TIMESTAMP(3)", _ROWS)
_NESTED: Final = Sample(
    "id INT, tags ARRAY<STRING>, r ROW<a INT, b STRING>",
    [
        {"id": 1, "tags": ["a", "b"], "r": {"a": 1, "b": "x"}},
        {"id": 2, "tags": ["c", "d"], "r": {"a": -(2**31), "b": "y"}},
        {"id": 3, "tags": ["c"], "r": {"a": None, "b": "z"}},
    ],
)
_DEEP: Final = Sample(
    "m MAP<STRING, ARRAY<ROW<t TIME(3), d DATE>>>, f DOUBLE",
    [
        {"m": {"a": [{"t": dt.time(1, 2, 3), "d": dt.date(2024, 2, 29)}, None], "": None}, "f": -2.5e-3},
        {"m": {}, "f": 1e300},
        {"m": None, "f": None},
    ],
)
_ZONED: Final = Sample(
    "z TIMESTAMP_LTZ(3), t TIMESTAMP(3)",  # local hours that occur twice in New York, or do not exist there
    [
        {"z": dt.datetime(2024, 11, 3, hour, 30, tzinfo=dt.UTC), "t": dt.datetime(2024, month, day, hour - 4, 30)}
        for hour, month, day in ((5, 11, 3), (6, 3, 10), (7, 3, 10))
    ],
)
_KINDS: Final = Sample(_PLAIN.schema, _ROWS, row_kinds=["+I", "-D", "+I", "-D"])
_INTERVALS: Final = ("INTERVAL YEAR TO MONTH", "INTERVAL DAY TO SECOND")
_VARIANTS: Final = ";".join(("v", *(f"c{number}" for number in range(200))))
"""The columns of the kit's tables, as the option `variant-columns`."""
_FRACTIONS: Final = {"DOUBLE as INT": {"7.9": "7", "-0.5": "0"}, "DOUBLE as BIGINT": {"7.9": "7", "-0.5": "0"}}
"""Flink's json truncates the fraction of a number if the column is an INT or BIGINT."""
_NUMBERS_OF_BOOLEANS: Final = {
    f"BOOLEAN as {integer}": {"True": "1", "False": "0"} for integer in ("TINYINT", "SMALLINT", "INT", "BIGINT")
}
"""Protobuf reads each of its types of varints as any other one."""
_TORN: Final = (b"{torn", b"[1", b'"x"', b"\xff", b'{"id":}')


class TestJson(FormatContract):
    format = "json"
    samples = (
        _PLAIN,
        _NESTED,
        _DEEP,
        _ZONED,
        Sample("id INT, s STRING", [{"id": 7, "s": "é"}], messages=['{"id":7,"s":"é"}'.encode()]),
    )
    bad = (b"{torn", b"[1", b'{"id":"x"}')
    changed_reads = _FRACTIONS


class TestJsonByTree(FormatContract):
    format = "json"
    options = {"decode.json-parser.enabled": "false", "timestamp-format.standard": "ISO-8601"}
    samples = (_PLAIN, _NESTED, _DEEP)
    bad = (*_TORN, b'{"id":"x"}')
    changed_reads = _FRACTIONS


class TestJsonLenient(FormatContract):
    format = "json"
    options = {"ignore-parse-errors": "true"}
    samples = (_PLAIN, _NESTED, _DEEP)
    skipped = (b"", b"{torn")
    never_bad = "'ignore-parse-errors' skips malformed messages"
    changed_reads = _FRACTIONS


class TestCsv(FormatContract):
    format = "csv"
    options = {"null-literal": "<null>"}
    samples = (_PLAIN, _NESTED, _ZONED)
    unsupported = (*_INTERVALS, "VARIANT", "MAP", "MULTISET", "ROW<r ROW<t TIMESTAMP(3)>>")
    # an array of one NULL is written as an empty text, which is read as NULL
    changed_values = {"ARRAY<INT>": {"None": "[None]"}, "ARRAY<STRING>": {"None": "[None]"}}
    bad = (b'"torn', b"x,Ada,1,true,", b"1,Ada", b"1,\xff,1,true,")
    by_position = True


class TestRaw(FormatContract):
    format = "raw"
    samples = (
        Sample("v STRING", [{"v": "é"}, {"v": ""}], messages=["é".encode(), b""]),
        Sample("v BIGINT", [{"v": 1}, {"v": -(2**63)}], messages=[b"\0\0\0\0\0\0\0\x01", b"\x80\0\0\0\0\0\0\0"]),
        Sample("v DOUBLE", [{"v": -2.5}]),
    )
    unsupported = (
        *_INTERVALS,
        "VARIANT",
        "DECIMAL",
        "DATE",
        "TIME",
        "TIMESTAMP",
        "TIMESTAMP_LTZ",
        "ARRAY",
        "MAP",
        "MULTISET",
        "ROW",
    )
    most_columns = 1
    null_is_row = True
    bad = (b"\xff", b"a\xc3")
    untyped = "a message is the bytes of a value and does not store its type"
    by_position = True


class TestAvro(FormatContract):
    format = "avro"
    options = {"timestamp_mapping.legacy": "false", "variant-columns": _VARIANTS}
    samples = (_PLAIN, _NESTED, _DEEP, _ZONED)
    unsupported = _INTERVALS
    unlike_wider = ("INT", "BIGINT")
    bad = (b"", b"\x02", b"\x04\x02")
    untyped = "the bytes of a value do not store its type"
    by_position = True


class TestAvroAsJson(FormatContract):
    format = "avro"
    options = {"timestamp_mapping.legacy": "false", "encoding": "json"}
    samples = (_PLAIN, _NESTED, _DEEP)
    unsupported = (*_INTERVALS, "VARIANT")
    bad = (*_TORN, b"{}", b'{"id":{"long":"x"}}')


class TestAvroConfluent(FormatContract):
    format = "avro-confluent"
    options = {"url": f"file:{_FOLDER}", "subject": "contract", "variant-columns": _VARIANTS}
    samples = (_PLAIN, _NESTED, _DEEP)
    unsupported = (*_INTERVALS, "TIMESTAMP(6)", "TIMESTAMP_LTZ")
    unlike_wider = ("INT", "BIGINT")
    bad = (b"\0\0", b"\x01\0\0\0\x01\x02\x02", b"\0\xff\xff\xff\xff\x02", b"\0\0\0\0\x01\x02")


class TestJsonRegistry(FormatContract):
    format = "json-registry"
    options = {"url": f"file:{_FOLDER}", "subject": "contract-of-json"}
    samples = (_PLAIN, _NESTED, _DEEP)
    unsupported = (*_INTERVALS, "TIMESTAMP(9)")
    bad = (b"\0\0", b"\x02\0\0\0\x01{}", *(b"\0\0\0\0\x01" + torn for torn in _TORN))
    changed_reads = _FRACTIONS


class TestProtoRegistry(FormatContract):
    format = "proto-registry"
    options = {"url": f"file:{_FOLDER}", "subject": "contract-of-proto"}
    samples = (_PLAIN, _NESTED, _DEEP)
    unsupported = (*_INTERVALS, "VARIANT")
    bad = (b"\0\0", b"\x02\0\0\0\x01\0", b"\0\xff\xff\xff\xff\0", b"\0\0\0\0\x01", b"\0\0\0\0\x01\0\x08")
    changed_reads = _NUMBERS_OF_BOOLEANS


_TYPES: Final = {name: Path(_FOLDER, name) for name in ("avsc", "json", "proto")}
"""Registries with a schema of another type, whose id is 1."""
for _ending, _text in {
    "avsc": '{"type": "record", "name": "Other", "fields": []}',
    "json": '{"type": "object", "title": "Other"}',
    "proto": 'syntax = "proto3"; message Other { int32 x = 1; }',
}.items():
    _TYPES[_ending].mkdir()
    (_TYPES[_ending] / f"1.{_ending}").write_text(_text)
_ONE_TYPE: Final = {"record-name": "com.shop.Order", "subject-name-strategy": "record-name", "other-messages": "skip"}


class TestAvroConfluentOfOneType(FormatContract):
    format = "avro-confluent"
    options = {"url": f"file:{_TYPES['avsc']}", "variant-columns": _VARIANTS, **_ONE_TYPE}
    samples = (_PLAIN, _NESTED, _DEEP)
    unsupported = (*_INTERVALS, "TIMESTAMP(6)", "TIMESTAMP_LTZ")
    unlike_wider = ("INT", "BIGINT")
    skipped = (b"\0\0\0\0\x01",)
    bad = (b"\0\0", b"\x01\0\0\0\x01\x02\x02", b"\0\xff\xff\xff\xff\x02")


class TestJsonRegistryOfOneType(FormatContract):
    format = "json-registry"
    options = {"url": f"file:{_TYPES['json']}", **_ONE_TYPE}
    samples = (_PLAIN, _NESTED, _DEEP)
    unsupported = (*_INTERVALS, "TIMESTAMP(9)")
    skipped = (b"\0\0\0\0\x01{}", b"\0\0\0\0\x01torn")
    bad = (b"\0\0", b"\x02\0\0\0\x01{}", b"\0\xff\xff\xff\xff{}")
    changed_reads = _FRACTIONS


class TestProtoRegistryOfOneType(FormatContract):
    format = "proto-registry"
    options = {"url": f"file:{_TYPES['proto']}", **_ONE_TYPE}
    samples = (_PLAIN, _NESTED, _DEEP)
    unsupported = (*_INTERVALS, "VARIANT")
    skipped = (b"\0\0\0\0\x01\0\x08\7",)
    bad = (b"\0\0", b"\x02\0\0\0\x01\0", b"\0\xff\xff\xff\xff\0")
    changed_reads = _NUMBERS_OF_BOOLEANS


class TestDebeziumJson(FormatContract):
    format = "debezium-json"
    samples = (_KINDS, _NESTED, _DEEP, _ZONED)
    bad = (*_TORN, b'{"op":"x","after":{}}')
    changed_reads = _FRACTIONS


class TestDebeziumJsonWithSchema(FormatContract):
    format = "debezium-json"
    options = {"schema-include": "true"}
    direction = "decode"
    samples = (
        Sample(
            "id INT",
            [{"id": 1}, {"id": 2}],
            row_kinds=["+I", "-D"],
            messages=[
                b'{"schema":{},"payload":{"before":null,"after":{"id":1},"op":"c"}}',
                b'{"schema":{},"payload":{"before":{"id":2},"after":null,"op":"d"}}',
            ],
        ),
    )
    bad = (*_TORN, b'{"payload":{"op":"x"}}')


class TestAvroRegistry(FormatContract):
    format = "avro-registry"
    options = {"url": f"file:{_FOLDER}", "subject": "contract-of-cloud", "variant-columns": _VARIANTS}
    samples = (_PLAIN, _NESTED, _DEEP)
    unsupported = _INTERVALS
    unlike_wider = ("INT", "BIGINT")
    bad = (b"\0\0", b"\x02\0\0\0\x01\x02\x02", b"\0\xff\xff\xff\xff\x02", b"\0\0\0\0\x01\x02")


class TestAvroGlue(FormatContract):
    format = "avro-glue"
    options = {
        "url": f"file:{_FOLDER}",
        "schema.name": "contract",
        "schema.autoRegistration": "true",
        "variant-columns": _VARIANTS,
    }
    samples = (_PLAIN, _NESTED, _DEEP)
    unsupported = (*_INTERVALS, "TIMESTAMP(6)", "TIMESTAMP_LTZ")
    unlike_wider = ("INT", "BIGINT")
    bad = (b"\3\0", b"\0\0\0\0\1\2\2", b"\3\0" + bytes(16) + b"\2", b"\3\1" + bytes(16), b"\3\5" + bytes(17))


class TestCompressedAvroGlue(FormatContract):
    format = "avro-glue"
    options = {**TestAvroGlue.options, "schema.compression": "ZLIB"}
    samples = (_PLAIN, _NESTED, _DEEP)
    unsupported = TestAvroGlue.unsupported
    unlike_wider = ("INT", "BIGINT")
    bad = TestAvroGlue.bad


class TestAvroApicurio(FormatContract):
    format = "avro-apicurio"
    options = {"url": f"file:{_FOLDER}", "subject": "contract-of-apicurio", "variant-columns": _VARIANTS}
    samples = (_PLAIN, _NESTED, _DEEP)
    unsupported = (*_INTERVALS, "TIMESTAMP(6)", "TIMESTAMP_LTZ")
    unlike_wider = ("INT", "BIGINT")
    bad = (b"\0\0", b"\1\0\0\0\1\2\2", b"\0\xff\xff\xff\xff\2", bytes(9), b"\0\0\0\0\1\2")


class TestJsonDebeziumRegistry(FormatContract):
    format = "json-debezium-registry"
    direction = "decode"
    samples = (
        Sample(
            "id INT",
            [{"id": 1}, {"id": 2}],
            row_kinds=["+I", "-D"],
            messages=[
                b'\0\0\0\0\x01{"before":null,"after":{"id":1},"op":"c"}',
                b'\0\0\0\0\x01{"before":{"id":2},"after":null,"op":"d"}',
            ],
        ),
    )
    bad = (b"\0\0", b"{}", b'\0\0\0\0\x01{"op":"x"}')


_CHANGES: Final = Path(_FOLDER, "changes")
_CHANGES.mkdir()
(_CHANGES / "1.avsc").write_text(
    """{"type": "record", "name": "Envelope", "fields": [{"name": "before", "type": ["null",
    {"type": "record", "name": "Value", "fields": [{"name": "id", "type": ["null", "int"]}]}]},
    {"name": "after", "type": ["null", "Value"]}, {"name": "op", "type": "string"}]}"""
)
(_CHANGES / "2.proto").write_text(
    """syntax = "proto3"; message Envelope { Value before = 1; Value after = 2; string op = 3;
    message Value { optional int32 id = 1; } }"""
)


class TestAvroDebeziumRegistry(FormatContract):
    format = "avro-debezium-registry"
    options = {"url": f"file:{_CHANGES}", "variant-columns": _VARIANTS}
    direction = "decode"
    samples = (
        Sample(
            "id INT",
            [{"id": 1}, {"id": 2}],
            row_kinds=["+I", "-D"],
            messages=[b"\0\0\0\0\1\0\2\2\2\2c", b"\0\0\0\0\1\2\2\4\0\2d"],
        ),
    )
    unsupported = _INTERVALS
    bad = (b"\0\0", b"{}", b"\0\0\0\0\1\0")


class TestProtoDebeziumRegistry(FormatContract):
    format = "proto-debezium-registry"
    options = {"url": f"file:{_CHANGES}"}
    direction = "decode"
    samples = (
        Sample(
            "id INT",
            [{"id": 1}, {"id": 2}],
            row_kinds=["+I", "-D"],
            messages=[b"\0\0\0\0\2\0\x12\2\x08\1\x1a\1c", b"\0\0\0\0\2\0\x0a\2\x08\2\x1a\1d"],
        ),
    )
    unsupported = (*_INTERVALS, "VARIANT")
    bad = (b"\0\0", b"{}", b"\0\0\0\0\2", b"\0\0\0\0\2\0\x1a\1x")


class TestCanalJson(FormatContract):
    format = "canal-json"
    samples = (_KINDS, _NESTED, _DEEP)
    bad = (*_TORN, b'{"type":"x","data":[{}]}')
    changed_reads = _FRACTIONS


class TestMaxwellJson(FormatContract):
    format = "maxwell-json"
    samples = (_KINDS, _NESTED, _DEEP)
    bad = (*_TORN, b'{"type":"x","data":{}}')
    changed_reads = _FRACTIONS


class TestOggJson(FormatContract):
    format = "ogg-json"
    samples = (_KINDS, _NESTED, _DEEP)
    bad = (*_TORN, b'{"op_type":"x","after":{}}')
    changed_reads = _FRACTIONS


class TestDebeziumAvroConfluent(FormatContract):
    format = "debezium-avro-confluent"
    options = {"url": f"file:{_FOLDER}", "subject": "contract-of-changes", "variant-columns": _VARIANTS}
    samples = (_KINDS, _NESTED, _DEEP)
    unsupported = (*_INTERVALS, "TIMESTAMP(6)", "TIMESTAMP_LTZ")
    unlike_wider = ("INT", "BIGINT")
    bad = (b"\0\0", b"\x01\0\0\0\x01\x02\x02", b"\0\xff\xff\xff\xff\x02", b"\0\0\0\0\x01\x02")


_ORDER: Final = fields(
    "int64 id = 1; string name = 2; bool ok = 3; double f = 4; repeated string tags = 5; .Order.R r = 6; int32 v = 7; "
    + " ".join(f"int32 c{at} = {at + 8};" for at in range(200))
)
_ORDER_TYPE: Final = f"""name: "orders.proto" message_type {{ name: "Order" {_ORDER}
    nested_type {{ name: "R" {fields("int32 a = 1; string b = 2;")} }} }}"""


class TestProtobuf(FormatContract):
    format = "protobuf"
    options = {"message-class-name": "Order", "descriptor-file": a_file(_FOLDER, _ORDER_TYPE)}
    samples = (
        Sample(
            "id BIGINT, name STRING, ok BOOLEAN, f DOUBLE",
            [
                {"id": 1, "name": "Ada", "ok": True, "f": -2.5e-3},
                {"id": -(2**63), "name": "ß 世界 😀", "ok": False, "f": 1e300},
                {"id": None, "name": None, "ok": None, "f": None},
            ],
            messages=[
                bytes.fromhex("0801 1203416461 1801 217b14ae47e17a64bf"),
                bytes.fromhex("0880808080808080808001 120ec39f20e4b896e7958c20f09f9880 1800 219c7500883ce4377e"),
                b"",
            ],
        ),
        Sample(
            "tags ARRAY<STRING>, r ROW<a INT, b STRING>, id BIGINT",
            [
                {"tags": ["a", ""], "r": {"a": 1, "b": "x"}, "id": 7},
                {"tags": None, "r": {"a": None, "b": None}, "id": None},
            ],
        ),
    )
    bad = (b"\x08", b"\x12\x05a", b"\x00", b"\x0c")
    unsupported = tuple(flink for flink in FormatContract.types if flink != "INT")  # the column `v` is an int32
    unlike_wider = ("INT",)
    null_is_error = True


def test_every_built_in_format_is_tested() -> None:
    tested = {of.format for of in FormatContract.__subclasses__() if of.__module__ == __name__}
    ours = {name for name in available_formats() if format_class(name).__module__.startswith("kvformat.")}
    assert tested == ours
