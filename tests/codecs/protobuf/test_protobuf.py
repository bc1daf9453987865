"""`protobuf` beyond the vectors: both kernels, hostile messages, google's own package, and what is refused."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvformat.codecs import KERNEL
from kvformat.registry import ErrorCode, Format, MissingExtraError, OptionError, SchemaError, get_format
from kvformat.registry.contract.ddl import parse_type
from tests.support import cost, protobuf_mutation, vectors
from tests.support.decoding import answers, decoded
from tests.support.extent import case_count
from tests.support.protobuf_types import a_file, a_format, descriptor_set, fields

_ROOT = Path(__file__).parents[3]
MUTATIONS = case_count("KVFORMAT_MUTATIONS", quick=6_000, night=20_000) // 5
"""How many messages both kernels read."""

_EVERY_FIELD = fields(
    "bool b = 1; int32 i = 2; sint32 s = 3; sfixed32 f = 4; int64 l = 5; sint64 t = 6; sfixed64 g = 7; "
    "float x = 8; double y = 9; string w = 10; bytes z = 11; repeated sint64 n = 12; repeated string r = 13; "
    ".acme.Every m = 5000; repeated .acme.Every e = 14; repeated .acme.Every.PEntry p = 15;"
)
_EVERY_TYPE = f"""name: "every.proto" package: "acme" message_type {{ name: "Every" {_EVERY_FIELD}
        nested_type {{ name: "PEntry" options {{ map_entry: true }} {fields("string key = 1; int64 value = 2;")} }}
    }}"""
_INNER = "i INT, w STRING, n ARRAY<BIGINT>"
_COLUMNS = (
    "b BOOLEAN, i INT, s INT, f INT, l BIGINT, t BIGINT, g BIGINT, x FLOAT, y DOUBLE, w STRING, z BYTES, "
    f"n ARRAY<BIGINT>, r ARRAY<STRING>, m ROW<{_INNER}>, e ARRAY<ROW<{_INNER}>>, p MAP<STRING, BIGINT>"
)
_SMALL = f"""name: "user-orders.proto" package: "acme" options {{ java_package: "com.acme" }}
    message_type {{ name: "Order"
        {fields("int32 id = 1; string name = 2; repeated int32 n = 3; .acme.Order.Item item = 4;")}
        nested_type {{ name: "Item" {fields("required int32 x = 1; bytes raw = 2;")} }} }}"""


@pytest.fixture
def small(tmp_path: Path) -> Format:
    return a_format(tmp_path, "acme.Order", _SMALL)


def _rows(format: Format, messages: list[bytes | None], schema: str) -> tuple[list[Any], list[str | None]]:
    batch = decoded(format, messages, schema)
    errors = batch.errors.to_pylist() if batch.errors is not None else [None] * len(messages)
    return batch.rows.to_pylist(), errors


# --- both kernels, and neighbours -----------------------------------------------------------------------


def test_both_kernels_give_the_same_rows_and_errors() -> None:
    if KERNEL != "compiled":
        pytest.skip("no compiled kernel")
    command = [sys.executable, "-m", "tests.support.protobuf_mutation", str(MUTATIONS)]
    environment = {**os.environ, "KVFORMAT_KERNEL": "python"}
    good = bad = 0
    with subprocess.Popen(command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE) as source:
        assert source.stdout is not None
        assert pickle.load(source.stdout) == "python"
        for case, messages, found in protobuf_mutation.batches(MUTATIONS):
            *same, wanted = pickle.load(source.stdout)
            assert same == [case, messages]
            for message, one, other in zip(messages, found, wanted, strict=True):
                assert one == other, f"{case}: {message!r}"
                good += one.error is None
                bad += one.error is not None
        assert source.wait() == 0
    assert good + bad >= MUTATIONS
    assert min(good, bad) > 0.2 * MUTATIONS


@pytest.mark.parametrize("number", range(0, len(protobuf_mutation.cases()), 5))
def test_a_message_does_not_change_its_neighbours(number: int) -> None:
    """Each changed message between good ones, in one batch and alone."""
    case = protobuf_mutation.cases()[number]
    format, schema, rng = vectors.format_of(case), vectors.columns(case), random.Random(number)
    known = [vectors.message_bytes(message["in"]) or b"" for message in case["messages"]]
    changed = [protobuf_mutation.changed(rng, rng.choice(known), known) for _ in range(30)]
    together = [part for message in changed for part in (rng.choice(known), message)]
    for message, answer in zip(together, answers(decoded(format, together, schema)), strict=True):
        assert [answer] == answers(decoded(format, [message], schema)), message


# --- hostile messages -----------------------------------------------------------------------------------

_HOSTILE: dict[str, tuple[bytes, str | None]] = {
    "a text of 2 GB": (b"\x12\xff\xff\xff\xff\x07", "ends in the middle"),
    "a size of 2^31": (b"\x12\x80\x80\x80\x80\x08", "a negative size"),
    "a size of 2^40 is 0": (b"\x12\x80\x80\x80\x80\x80\x80\x01", None),
    "a megabyte of groups": (b"\x0b" * 2**20, "more than 100 levels"),
    "100 groups": (b"\x0b" * 100 + b"\x0c" * 100, None),
    "101 groups": (b"\x0b" * 101 + b"\x0c" * 101, "more than 100 levels"),
    "groups that end too often": (b"\x0b\x0c\x0c", "end of a group"),
    "a megabyte of unknown fields": (b"\xf8\x07\x01" * (2**20 // 3), None),
    "a megabyte of far unknown fields": (b"\xf8\xff\xff\xff\x0f\x01" * (2**20 // 6), None),
    "a megabyte of one number": (b"\x08\x01" * 2**19, None),
    "a megabyte of one text": (b"\x12\x01a" * (2**20 // 3), None),
    "a megabyte of a varint": (b"\x08" + b"\xff" * 2**20, "more than ten bytes"),
    "a megabyte of elements": (b"\x1a\x80\x80\x40" + b"\x01" * 2**20, None),
    "a megabyte of zeros": (bytes(2**20), "field number zero"),
    "a message that is merged again and again": (b"\x22\x02\x08\x01" * 2**18, None),
    "one that lacks a field each time": (b"\x22\x00" * 2**18, "missing required fields: item.x"),
}


@pytest.mark.parametrize("name", _HOSTILE)
def test_hostile_messages_are_answered(name: str, small: Format) -> None:
    message, wanted = _HOSTILE[name]
    if KERNEL == "python" and len(message) > 50_000:
        pytest.skip("the source takes its time")
    schema = "id INT, name STRING, n ARRAY<INT>, item ROW<x INT>"
    with cost.at_most(5):
        rows, errors = _rows(small, [b"\x08\x07", message, b"\x08\x07"], schema)
    assert rows[0] == rows[2] == [{"id": 7, "name": None, "n": None, "item": None}]
    if wanted is None:
        assert errors == [None, None, None]
    else:
        assert wanted in str(errors[1])
        assert len(str(errors[1])) < 300


def test_names_of_an_enum_fill_no_more_than_an_array(tmp_path: Path) -> None:
    """A byte on the wire is a name of a thousand: two million of them would be 2 GB of text."""
    if KERNEL == "python":
        pytest.skip("the source takes its time")
    long = "LONG_" * 200
    file = f"""name: "e.proto" message_type {{ name: "M" {fields("repeated .LongEnum e = 1;")} }}
        enum_type {{ name: "LongEnum" value {{ name: "{long}" number: 0 }} }}"""
    format = a_format(tmp_path, "M", file)
    count = 2_200_000
    size = bytes([count & 127 | 128, count >> 7 & 127 | 128, count >> 14 & 127 | 128, count >> 21])
    rows, errors = _rows(format, [b"\x08\x00", b"\x0a" + size + bytes(count), b"\x08\x00"], "e ARRAY<STRING>")
    assert rows[0] == rows[2] == [{"e": [long]}]
    assert "too many cells" in str(errors[1])
    assert (errors[0], errors[2]) == (None, None)


def test_an_entry_that_lacks_a_field_may_be_replaced(tmp_path: Path) -> None:
    """Of two entries of a key the last one counts, also for required fields, however the key is written."""
    entry = """nested_type { name: "PEntry" options { map_entry: true } """
    file = f"""name: "m.proto" message_type {{ name: "M" {fields("repeated .M.PEntry p = 1; repeated .M.TEntry t = 2;")}
        {entry} {fields("int32 key = 1; .R value = 2;")} }}
        {entry.replace("PEntry", "TEntry")} {fields("string key = 1; .R value = 2;")} }} }}
        message_type {{ name: "R" {fields("required int32 x = 1;")} }}"""
    lacks, zero, long = b"\x0a\x04\x08\x07\x12\x00", b"\x0a\x02\x12\x00", b"\x0a\x07\x08\x87\x00\x12\x02\x08\x01"
    text, named = b"\x12\x05\x0a\x01a\x12\x00", b"\x12\x07\x0a\x01a\x12\x02\x08\x01"
    has = b"\x0a\x06\x08\x07\x12\x02\x08\x01"
    many = b"".join(b"\x0a\x04\x08" + bytes([key]) + b"\x12\x00" for key in range(100))
    mended = b"".join(b"\x0a\x06\x08" + bytes([key]) + b"\x12\x02\x08\x01" for key in range(100))
    zeros = zero + b"\x0a\x06\x08\x00\x12\x02\x08\x01"
    messages = [
        lacks + has,
        lacks + long,
        text + named,
        zeros,
        many + mended,
        has + lacks,
        zero + has,
        many + mended[:-8],
    ]
    google = vectors.protobuf_class(descriptor_set(file), "M")
    good = [google.FromString(message).IsInitialized() for message in messages]
    assert good == [True] * 5 + [False] * 3
    for schema in ("p MAP<INT, ROW<x INT>>", "t MAP<STRING, ROW<x INT>>"):
        _, errors = _rows(a_format(tmp_path, "M", file), messages, schema)
        assert [error is None for error in errors] == good
        assert str(errors[5]) == "Message missing required fields: p.value.x"
        assert str(errors[7]) == "Message missing required fields: p"


def test_errors_say_what_and_where_and_have_a_code(small: Format) -> None:
    messages = [None, b"\x08", b"\x22\x00", b"\x22\x04\x08\x01\x12\x05", b"\x0b" * 101]
    batch = decoded(small, messages, "id INT, item ROW<x INT, raw BYTES>")
    assert batch.errors is not None
    assert batch.codes is not None
    assert list(zip(batch.codes.to_pylist(), batch.errors.to_pylist(), strict=True)) == [
        ("NULL_VALUE", "a null message. A protobuf message without fields has zero bytes, but is not null"),
        ("MALFORMED", "field 'id': not protobuf: the input ends in the middle of a field at byte 2"),
        ("MISSING_FIELD", "Message missing required fields: item.x"),
        ("MALFORMED", "field 'item.raw': not protobuf: the input ends in the middle of a field at byte 6"),
        ("TOO_DEEP", "field 'id': not protobuf: more than 100 levels at byte 102"),
    ]


def _groups(levels: int) -> bytes:
    """Return groups in groups, of a field that no message has."""
    return b"\x7b" * levels + b"\x7c" * levels


def _item(data: bytes) -> bytes:
    """Return the field `item` with a required field and further data."""
    size = len(data) + 2
    return b"\x22" + bytes([size & 127 | 128, size >> 7]) + b"\x08\x01" + data


@pytest.mark.parametrize(
    ("make", "least"),
    [
        (_groups, 100),
        (lambda levels: _groups(levels) + _groups(levels), 100),  # levels that are left do not count
        (lambda levels: _item(b"") + _groups(levels), 100),
        (lambda levels: _groups(levels) + b"\x08\x07", 100),
        (lambda levels: _item(_groups(levels)), 99),
        (lambda levels: _item(_groups(5) + _groups(levels)) + _item(_groups(levels)), 99),
    ],
)
def test_a_message_may_have_exactly_100_levels(small: Format, make: Callable[[int], bytes], least: int) -> None:
    good, bad = make(least), make(least + 1)
    batch = decoded(small, [good, bad, good, bad, good], "id INT, item ROW<x INT, raw BYTES>")
    assert batch.codes is not None
    assert batch.codes.to_pylist() == [None, "TOO_DEEP", None, "TOO_DEEP", None]


def test_with_ignore_parse_errors_bad_messages_give_no_row(tmp_path: Path) -> None:
    format = a_format(tmp_path, "acme.Order", _SMALL, ignore_parse_errors="true")
    rows, errors = _rows(format, [None, b"\x08", b"\x08\x07", b"\x22\x00"], "id INT")
    assert rows == [None, [], [{"id": 7}], []]
    assert errors == [None] * 4


# --- google's package as a second opinion ---------------------------------------------------------------

_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_INNER_ROWS = st.fixed_dictionaries(
    {}, optional={"i": _INT32, "w": _TEXT, "n": st.lists(_INT64, min_size=1, max_size=4)}
)
_ROWS = st.fixed_dictionaries(
    {},
    optional={
        "b": st.booleans(),
        **dict.fromkeys("isf", _INT32),
        **dict.fromkeys("ltg", _INT64),
        "x": st.floats(width=32, allow_nan=False),
        "y": st.floats(allow_nan=False),
        "w": _TEXT,
        "z": st.binary(max_size=12),
        "n": st.lists(_INT64, min_size=1, max_size=20),
        "r": st.lists(_TEXT, min_size=1, max_size=4),
        "m": _INNER_ROWS,
        "e": st.lists(_INNER_ROWS, min_size=1, max_size=4),
        "p": st.dictionaries(_TEXT, _INT64, min_size=1, max_size=20),
    },
)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_ROWS, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_google_reads_and_writes_the_same(rows: list[dict[str, Any]], rng: random.Random) -> None:
    format, of = _every()
    written = [of(**row) for row in rows]
    messages = [message.SerializeToString(deterministic=True) for message in written]
    found = format.decode_batch(pa.array(messages), _COLUMNS).rows
    assert [_without_nulls(row) for row in found.values.to_pylist()] == rows
    again = format.encode_batch(found.values, _COLUMNS).messages.to_pylist()
    assert list(map(of.FromString, again)) == written
    assert list(map(len, again)) == list(map(len, messages))
    # two messages in sequence are one that is merged
    both = [rng.choice(messages) + rng.choice(messages) for _ in range(4)]
    merged = format.decode_batch(pa.array(both), _COLUMNS).rows.values
    assert [of(**_without_nulls(row)) for row in merged.to_pylist()] == list(map(of.FromString, both))


_MADE: list[tuple[Format, Any]] = []


def _every() -> tuple[Format, Any]:
    if not _MADE:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            format = a_format(folder, "acme.Every", _EVERY_TYPE)
        _MADE.append((format, vectors.protobuf_class(descriptor_set(_EVERY_TYPE), "acme.Every")))
    return _MADE[0]


def _without_nulls(value: Any) -> Any:
    """A row as it was given: fields without a value are left out, a map is a dict."""
    if isinstance(value, dict):
        return {name: dict(of) if name == "p" else _without_nulls(of) for name, of in value.items() if of is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


# --- what is refused, before any job --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"message-class-name": "acme.Order"}, "descriptor-file"),
        ({"descriptor-file": "types.desc"}, "message-class-name"),
        ({"message-class-name": "acme.Order", "descriptor-file": "/no/such.desc"}, "cannot read the file '/no/such"),
        ({"message-class-name": "acme.Order", "descriptor-file": "a\0b"}, "cannot read the file"),
        (
            {"message-class-name": "a.B", "descriptor-file": "http://me:pw@h/a.desc"},
            "cannot read the file 'http://******@h",
        ),
        ({"message-class-name": "acme.Order", "descriptor-file": __file__}, "is not a FileDescriptorSet"),
        ({"message-class-name": "acme.Order", "descriptor-file": os.devnull}, "is not a FileDescriptorSet"),
        ({"message-class-name": "acme.Ordr", "descriptor-file": "types.desc"}, "Did you mean 'acme.Order'"),
        ({"message-class-name": "com.acme.Order", "descriptor-file": "types.desc"}, "com.acme.UserOrders$Order$Item"),
        ({"message-class-name": " acme.Order", "descriptor-file": "types.desc"}, "descriptors error!"),
        ({"message-class-name": "acme.Order", "descriptor-file": "torn.desc"}, "lacks 'other.proto'"),
        ({"message-class-name": "acme.Order", "descriptor-file": "wrong.desc"}, "has errors in 'wrong.proto'"),
    ],
)
def test_options_that_fit_no_message_are_refused(
    given: dict[str, str], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    a_file(tmp_path, _SMALL)
    (tmp_path / "torn.desc").write_bytes(descriptor_set('name: "a.proto" dependency: "other.proto"'))
    unknown = f'name: "wrong.proto" message_type {{ name: "M" {fields(".acme.Gone a = 1;")} }}'
    (tmp_path / "wrong.desc").write_bytes(descriptor_set(unknown))
    with pytest.raises(OptionError) as caught:
        get_format("protobuf", given)
    assert error in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ("nam STRING", "Column nam does not exists in definition of proto class. .*Did you mean 'name'"),
        ("Name STRING", "Column Name does not exists"),
        ("id BIGINT", r"INT\(protobuf\) is not compatible of BIGINT"),
        ("id STRING", r"INT\(protobuf\) is not compatible of VARCHAR"),
        ("n INT", r"INT\(protobuf\) is not compatible of INT. A repeated int32 is read as: ARRAY"),
        ("item INT", "Unexpected LogicalType: INT. It should be RowType"),
        ("item ROW<y INT>", r"Column y does not exists .*\(column 'item.y'\)"),
        ("item ROW<x ARRAY<INT>>", r"not compatible of ARRAY.*\(column 'item.x'\)"),
    ],
)
def test_columns_that_fit_no_field_are_refused_both_ways(schema: str, error: str, small: Format) -> None:
    for call in (
        lambda: small.decode_batch(pa.array([], pa.binary()), schema),
        lambda: small.encode_batch(vectors.to_arrow([], parse_type(f"ROW<{schema}>")), schema),
    ):
        with pytest.raises(SchemaError, match=error):
            call()


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(MissingExtraError, match=r"install kvformat\[protobuf\]"):
        get_format("protobuf", {"message-class-name": "M", "descriptor-file": "x"})


def test_workers_need_neither_the_file_nor_the_package(tmp_path: Path) -> None:
    format = a_format(tmp_path, "com.acme.UserOrders$Order", _SMALL)
    twin = a_format(tmp_path, "com.acme.UserOrders$Order", _SMALL)
    assert (format, hash(format)) == (twin, hash(twin))
    Path(format.options["descriptor-file"]).unlink()
    again = pickle.loads(pickle.dumps(format))
    assert (again, hash(again)) == (format, hash(format))
    program = (
        "import pickle, sys, pyarrow as pa\n"
        "sys.modules['google.protobuf'] = None\n"
        "format = pickle.load(sys.stdin.buffer)\n"
        "rows = format.decode_batch(pa.array([b'\\x08\\x07']), 'id INT').rows.values\n"
        "print(rows.to_pylist(), format.encode_batch(rows, 'id INT').messages.to_pylist())\n"
    )
    run = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(format), capture_output=True, check=True)
    assert run.stdout.decode() == "[{'id': 7}] [b'\\x08\\x07']\n"


def test_another_content_of_the_same_file_is_another_format(tmp_path: Path) -> None:
    before = a_format(tmp_path, "acme.Order", _SMALL)
    after = a_format(tmp_path, "acme.Order", _SMALL.replace('"name"', '"title"'))
    assert before != after
    assert before.encode_batch(pa.array([{"name": "a"}]), "name STRING").messages[0].as_py() == b"\x12\x01a"
    with pytest.raises(SchemaError, match="Column name does not exists"):
        after.decode_batch(pa.array([b""]), "name STRING")


# --- names of Java's classes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "more", "java"),
    [
        ("user-event_v2.proto", 'options { java_package: "com.acme" }', "com.acme.UserEventV2$Order$Item"),
        ("a/b/orders.proto", "", "acme.Orders$Order$Item"),
        ("order.proto", "", "acme.OrderOuterClass$Order$Item"),
        ("item.proto", "", "acme.ItemOuterClass$Order$Item"),
        ("bill.proto", 'service { name: "Bill" }', "acme.BillOuterClass$Order$Item"),
        ("bill.proto", 'enum_type { name: "Bill" value { name: "A" number: 0 } }', "acme.BillOuterClass$Order$Item"),
        ("HTTPEvent.proto", "", "acme.HTTPEvent$Order$Item"),
        ("a1b2_3c.proto", "", "acme.A1B23C$Order$Item"),
        ("x.proto", 'options { java_outer_classname: "Protos" java_package: "" }', "Protos$Order$Item"),
        ("x.proto", "options { java_multiple_files: true }", "acme.Order$Item"),
    ],
)
def test_messages_have_the_names_that_protoc_gives_to_java(file: str, more: str, java: str, tmp_path: Path) -> None:
    text = f"""name: "{file}" package: "acme" {more} message_type {{ name: "Order"
        nested_type {{ name: "Item" {fields("int32 x = 1;")} }} }}"""
    assert decoded(a_format(tmp_path, java, text), [b"\x08\x07"], "x INT").rows.to_pylist() == [[{"x": 7}]]
    with pytest.raises(OptionError, match=r"Did you mean|Messages:"):
        a_format(tmp_path, java.replace("Item", "Itm"), text)


# --- writing --------------------------------------------------------------------------------------------


def test_a_row_without_a_required_field_is_its_own_error(small: Format) -> None:
    schema = "id INT, item ROW<x INT>"
    rows = vectors.to_arrow([(1, (1,)), (2, (None,)), (3, None), None], parse_type(f"ROW<{schema}>"))
    batch = small.encode_batch(rows, schema)
    assert batch.messages.to_pylist() == [b"\x08\x01\x22\x02\x08\x01", None, b"\x08\x03", None]
    assert batch.errors is not None
    assert batch.errors.to_pylist() == [None, "Message missing required fields: item.x", None, None]
    assert batch.codes is not None
    assert batch.codes.to_pylist() == [None, ErrorCode.MISSING_FIELD, None, None]


_NAMES = (("A", 0), ("B", 1), ("LOW", -5), ("ALSO_B", 1))
_WITH_ENUMS = f"""name: "enums.proto" package: "acme" syntax: "proto3"
    enum_type {{ name: "KindEnum" options {{ allow_alias: true }}
        {" ".join(f'value {{ name: "{name}" number: {number} }}' for name, number in _NAMES)} }}
    message_type {{ name: "M" {fields("int32 id = 1; .acme.KindEnum k = 2; repeated .acme.KindEnum many = 3; ")}
        {fields(".acme.M inner = 4; repeated .acme.M.ByNameEntry by_name = 5; repeated .acme.M rows = 6;")}
        nested_type {{ name: "ByNameEntry" options {{ map_entry: true }}
            {fields("string key = 1; .acme.KindEnum value = 2;")} }} }}"""


def test_a_value_that_the_enum_does_not_have_is_an_error_of_its_row(tmp_path: Path) -> None:
    format = a_format(tmp_path, "acme.M", _WITH_ENUMS)
    schema = (
        "id INT, k STRING, many ARRAY<STRING>, `inner` ROW<k STRING, many ARRAY<STRING>>, by_name MAP<STRING, STRING>, "
        "`rows` ARRAY<ROW<k STRING>>"
    )
    rows: list[tuple[Any, ...] | None] = [
        (1, "B", ["A", None, "LOW"], ("B", ["LOW"]), [("x", "B")], [("A",), ("B",)]),
        (2, "C", None, None, None, None),
        None,
        (3, None, ["A", "b", "c"], None, None, None),
        (4, None, None, (" A", ["no"]), None, None),
        (5, None, None, (None, ["A", "no"]), None, None),
        (6, None, None, None, [("x", "B"), ("y", "")], None),
        (7, None, None, None, None, [("A",), ("UNRECOGNIZED",)]),
        (8, "ALSO_B", [], None, [], []),
        (9, "x" * 1000, ["y"], None, None, None),
    ]
    batch = format.encode_batch(vectors.to_arrow(rows, parse_type(f"ROW<{schema}>")), schema)
    good = [0, 2, 8]
    alone = format.encode_batch(vectors.to_arrow([rows[at] for at in good], parse_type(f"ROW<{schema}>")), schema)
    assert alone.errors is None
    written: list[bytes | None] = [None] * len(rows)
    for at, message in zip(good, alone.messages.to_pylist(), strict=True):
        written[at] = message
    assert written[8] == b"\x08\x08\x10\x01"
    assert batch.messages.to_pylist() == written
    assert batch.errors is not None
    assert batch.codes is not None
    has = "is not in the enum; it has A, B, LOW, ALSO_B"
    assert batch.errors.to_pylist() == [
        None,
        f"field 'k': \"C\" {has}",
        None,
        f"field 'many': \"b\" {has}",
        f"field 'inner.k': \" A\" {has}",
        f"field 'inner.many': \"no\" {has}",
        f"field 'by_name.value': \"\" {has}",
        f"field 'rows.k': \"UNRECOGNIZED\" {has}",
        None,
        f"field 'k': \"{'x' * 60}...\" {has}",
    ]
    assert batch.codes.to_pylist() == [None if at in good else ErrorCode.WRONG_TYPE for at in range(len(rows))]


@pytest.mark.parametrize("column", ["INT", "BIGINT"])
def test_a_number_that_the_enum_does_not_have_is_an_error_of_its_row(column: str, tmp_path: Path) -> None:
    format = a_format(tmp_path, "acme.M", _WITH_ENUMS)
    large, kind = (2**32, pa.int64()) if column == "BIGINT" else (2**31 - 1, pa.int32())
    batch = format.encode_batch(pa.StructArray.from_arrays([pa.array([1, 2, -5, large], kind)], ["k"]), f"k {column}")
    has = "is not in the enum; it has 0 (A), 1 (B), -5 (LOW), 1 (ALSO_B)"
    assert batch.messages.to_pylist() == [b"\x10\x01", None, b"\x10\xfb" + b"\xff" * 8 + b"\x01", None]
    assert batch.errors is not None
    assert batch.errors.to_pylist() == [None, f"field 'k': 2 {has}", None, f"field 'k': {large} {has}"]
    assert batch.codes is not None
    assert batch.codes.to_pylist() == [None, ErrorCode.OUT_OF_RANGE, None, ErrorCode.OUT_OF_RANGE]


@pytest.mark.parametrize(
    ("kind", "column", "default", "value"),
    [
        ("uint32", "INT", 2**32 - 1, -1),
        ("fixed32", "INT", 2**31, -(2**31)),
        ("fixed32", "INT", 2**31 - 1, 2**31 - 1),
        ("uint64", "BIGINT", 2**64 - 1, -1),
        ("fixed64", "BIGINT", 2**63, -(2**63)),
        ("sfixed32", "INT", -7, -7),
        ("sint64", "BIGINT", -7, -7),
        ("bool", "BOOLEAN", "true", True),
        ("float", "FLOAT", -1.5, -1.5),
        ("double", "DOUBLE", "inf", float("inf")),
        ("string", "STRING", "é", "é"),
    ],
)
def test_an_absent_field_has_the_default_of_its_file(
    kind: str, column: str, default: object, value: object, tmp_path: Path
) -> None:
    field = f'name: "v" number: 1 label: LABEL_OPTIONAL type: TYPE_{kind.upper()} default_value: "{default}"'
    file = f'name: "d.proto" message_type {{ name: "M" field {{ {field} }} }}'
    for option, wanted in (("true", value), ("false", None)):
        format = a_format(tmp_path, "M", file, read_default_values=option)
        assert decoded(format, [b""], f"v {column}").rows.to_pylist() == [[{"v": wanted}]]


def test_null_in_a_list_of_enums_is_written_as_the_first_value(tmp_path: Path) -> None:
    values = 'value { name: "FIVE" number: 5 } value { name: "ZERO" number: 0 }'
    file = f"""name: "e.proto" message_type {{ name: "M" {fields("repeated .FirstEnum e = 1;")} }}
        enum_type {{ name: "FirstEnum" {values} }}"""
    rows = pa.StructArray.from_arrays([pa.array([["ZERO", None]])], ["e"])
    batch = a_format(tmp_path, "M", file).encode_batch(rows, "e ARRAY<STRING>")
    assert batch.messages.to_pylist() == [b"\x08\x00\x08\x05"]


@pytest.mark.parametrize(("count", "more"), [(20, ""), (21, " and 1 more")])
def test_an_error_names_the_first_20_values_of_an_enum(count: int, more: str, tmp_path: Path) -> None:
    values = " ".join(f'value {{ name: "V{at}" number: {at} }}' for at in range(count))
    file = f"""name: "e.proto" message_type {{ name: "M" {fields("required .NamedEnum e = 1;")} }}
        enum_type {{ name: "NamedEnum" {values} }}"""
    batch = a_format(tmp_path, "M", file).encode_batch(pa.StructArray.from_arrays([pa.array(["W"])], ["e"]), "e STRING")
    assert batch.errors is not None
    assert batch.errors[0].as_py().endswith(f", V18, V19{more}")


def test_a_number_with_several_names_is_read_as_the_first_one(tmp_path: Path) -> None:
    format = a_format(tmp_path, "acme.M", _WITH_ENUMS)
    assert decoded(format, [b"\x10\x01"], "k STRING").rows.to_pylist() == [[{"k": "B"}]]


def test_an_error_names_the_first_values_of_a_large_enum_and_shows_any_bytes(tmp_path: Path) -> None:
    values = " ".join(f'value {{ name: "V{at}" number: {at} }}' for at in range(1000))
    file = f"""name: "e.proto" message_type {{ name: "M" {fields("required .LargeEnum e = 1; required int32 n = 2;")} }}
        enum_type {{ name: "LargeEnum" {values} }}"""
    format = a_format(tmp_path, "M", file)
    texts = pa.array([b"V999", b"\xff", b"W"], pa.binary()).view(pa.string())
    rows = pa.StructArray.from_arrays([texts, pa.array([1, 1, None], pa.int32())], ["e", "n"])
    batch = format.encode_batch(rows, "e STRING, n INT")
    assert batch.messages.to_pylist() == [b"\x08\xe7\x07\x10\x01", None, None]
    assert batch.errors is not None
    assert batch.errors[1].as_py() == (
        r"field 'e': "
        r'"\\xff" is not in the enum; it has ' + ", ".join(f"V{at}" for at in range(20)) + " and 980 more"
    )
    assert batch.errors[2].as_py() == "Message missing required fields: n"


def test_the_descriptor_set_of_a_python_module_is_taken(tmp_path: Path) -> None:
    """As the documentation says to do where there is no protoc."""
    from google.protobuf import timestamp_pb2

    made = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(made.file.add())
    (tmp_path / "t.desc").write_bytes(made.SerializeToString())
    given = {"message-class-name": "com.google.protobuf.Timestamp", "descriptor-file": str(tmp_path / "t.desc")}
    message = timestamp_pb2.Timestamp(seconds=7, nanos=5).SerializeToString()
    rows = decoded(get_format("protobuf", given), [message], "seconds BIGINT, nanos INT").rows
    assert rows.to_pylist() == [[{"seconds": 7, "nanos": 5}]]


# --- each message, element and entry begins with nothing ------------------------------------------------

_ENTRY = 'nested_type {{ name: "{}" options {{ map_entry: true }} {} }}'
_STATE_FIELDS = (
    "int32 i = 1; string w = 2; repeated int32 n = 3; .S m = 4; repeated .S e = 5; repeated .S.PEntry p = 6; "
    "repeated .S.QEntry q = 7; .AnEnum c = 8; repeated .AnEnum k = 9; repeated .S.EEntry x = 10; bytes z = 11;"
)
_STATE = f"""name: "s.proto" message_type {{ name: "S" {fields(_STATE_FIELDS)}
        {_ENTRY.format("PEntry", fields("int32 key = 1; int32 value = 2;"))}
        {_ENTRY.format("QEntry", fields("string key = 1; .S value = 2;"))}
        {_ENTRY.format("EEntry", fields("int32 key = 1; .AnEnum value = 2;"))} }}
    enum_type {{ name: "AnEnum" value {{ name: "A" number: 0 }} value {{ name: "B" number: 1 }} }}"""
_LEAVES = "i INT, w STRING, n ARRAY<INT>, z BYTES"
_STATE_INNER = f"{_LEAVES}, m ROW<{_LEAVES}>, e ARRAY<ROW<{_LEAVES}>>, p MAP<INT, INT>, q MAP<STRING, ROW<{_LEAVES}>>"
_STATE_COLUMNS = (
    f"{_LEAVES}, m ROW<{_STATE_INNER}>, e ARRAY<ROW<{_STATE_INNER}>>, p MAP<INT, INT>, "
    f"q MAP<STRING, ROW<{_STATE_INNER}>>, c STRING, k ARRAY<STRING>, x MAP<INT, STRING>"
)
_VALUES = {  # fields that a message may begin with before it fails
    "number": b"\x08\x07",
    "text": b"\x12\x01a",
    "text that is not UTF-8": b"\x12\x01\xff",
    "list": b"\x18\x01\x18\x02",
    "packed list": b"\x1a\x02\x01\x02",
    "row": b"\x22\x02\x08\x07",
    "rows": b"\x2a\x02\x08\x07\x2a\x03\x12\x01a",
    "map": b"\x32\x04\x08\x01\x10\x02",
    "map of rows": b"\x3a\x07\x0a\x01a\x12\x02\x08\x07",
    "enum": b"\x40\x01",
    "bytes": b"\x5a\x01\xff",
    "map of enums": b"\x52\x04\x08\x01\x10\x01",
}
_PLACES = ("the message", "a row", "an element", "the value of an entry")


def _sized(head: bytes, body: bytes) -> bytes:
    """A field with a body. `head` has the tag."""
    return head + bytes([len(body)]) + body


def _failing(where: str, value: bytes) -> bytes:
    """A message that has a value and then fails at a text that is too long."""
    body = value + b"\x12\x05"
    if where == "a row":
        return _sized(b"\x22", body)
    if where == "an element":
        return b"\x2a\x00" + _sized(b"\x2a", body)
    if where == "the value of an entry":
        return _sized(b"\x3a", b"\x0a\x01a" + _sized(b"\x12", body))
    return body


@pytest.mark.parametrize("where", _PLACES)
def test_nothing_of_a_message_that_fails_shows_in_the_next_one(where: str, tmp_path: Path) -> None:
    """The next message has the same rows, elements and entries, but none of the fields."""
    format = a_format(tmp_path, "S", _STATE)
    bare = b"\x22\x00\x2a\x00\x32\x00\x3a\x02\x12\x00\x52\x00"
    full = b"".join(value * 3 for name, value in _VALUES.items() if "UTF-8" not in name)
    before, *wanted = answers(decoded(format, [full, b"", bare], _STATE_COLUMNS))
    assert wanted[0].error is None
    for name, value in _VALUES.items():
        for following, answer in zip((b"", bare), wanted, strict=True):
            _, found = answers(decoded(format, [_failing(where, value), following], _STATE_COLUMNS))
            assert found == answer, name
            good, *_, found = answers(decoded(format, [full, _failing(where, value), full, following], _STATE_COLUMNS))
            assert found == answer, name
            assert good == before, name
        (error, _) = answers(decoded(format, [_failing(where, value), b""], _STATE_COLUMNS))
        assert error.error is not None, name


@pytest.mark.parametrize("head", [b"\x2a", b"\x3a", b"\x22"], ids=["elements", "entries", "rows"])
def test_nothing_of_a_value_shows_in_the_next_one(head: bytes, tmp_path: Path) -> None:
    """An element, an entry or a row with all fields, and then one without: google reads the second as if alone."""
    format = a_format(tmp_path, "S", _STATE)
    full = b"".join(value for name, value in _VALUES.items() if "UTF-8" not in name)
    one = _sized(head, full if head != b"\x3a" else b"\x0a\x01k" + _sized(b"\x12", full))
    bare = head + b"\x00"
    rows, errors = _rows(format, [one + bare, bare, one], _STATE_COLUMNS)
    assert errors == [None] * 3
    name = {b"\x2a": "e", b"\x3a": "q", b"\x22": "m"}[head]
    both, alone, first = (row[0][name] for row in rows)
    assert both == (first if head == b"\x22" else first + alone)


def test_a_field_that_ends_in_the_middle_with_another_wire_type_does_not_hide_the_next_value(tmp_path: Path) -> None:
    format = a_format(tmp_path, "S", _STATE)
    cut: list[bytes | None] = [b"\x1d\x01", b"\x4d\x01", b"\x0d\x01"]
    for message, column, value in ((b"\x18\x01", "n ARRAY<INT>", [1]), (b"\x48\x01", "k ARRAY<STRING>", ["B"])):
        rows, errors = _rows(format, [*cut, message], f"{column}, i INT")
        assert [error is None for error in errors] == [False] * 3 + [True]
        assert rows[-1] == [{column.partition(" ")[0]: value, "i": None}]


def test_an_entry_with_an_unknown_enum_number_leaves_nothing_to_the_next_entry(tmp_path: Path) -> None:
    format = a_format(tmp_path, "S", _STATE)
    unknown, bare = b"\x52\x04\x08\x07\x10\x63", b"\x52\x02\x10\x01"
    assert _rows(format, [unknown + bare, unknown, bare], "x MAP<INT, STRING>, i INT") == (
        [[{"x": x, "i": None}] for x in ([(0, "B")], None, [(0, "B")])],
        [None] * 3,
    )


def test_unknown_enum_numbers_are_left_out_of_a_packed_list_and_the_next_field_counts(tmp_path: Path) -> None:
    format = a_format(tmp_path, "S", _STATE)
    messages: list[bytes | None] = [b"\x4a\x03\x01\x63\x00\x08\x07", b"\x4a\x02\x00\x63\x08\x07", b"\x40\x63\x08\x07"]
    rows, errors = _rows(format, messages, "i INT, c STRING, k ARRAY<STRING>")
    assert errors == [None] * 3
    assert [row[0]["k"] for row in rows] == [["B", "A"], ["A"], None]
    assert [row[0]["i"] for row in rows] == [7] * 3
    assert [row[0]["c"] for row in rows] == [None] * 3


# --- limits ---------------------------------------------------------------------------------------------


def _nested(levels: int, head: bytes, innermost: bytes = b"") -> bytes:
    """A message with so many messages in each other, each in the field with this tag."""
    body = innermost
    for _ in range(levels):
        size, left = b"", len(body)
        while left > 127:
            size, left = size + bytes([left & 127 | 128]), left >> 7
        body = head + size + bytes([left]) + body
    return body


@pytest.mark.parametrize("columns", ["i INT", "m ROW<i INT>, e ARRAY<ROW<i INT>>"])
@pytest.mark.parametrize("head", [b"\x22", b"\x2a"], ids=["row", "element"])
@pytest.mark.parametrize("innermost", [b"", b"\x32\x00", b"\x0b\x0c"], ids=["nothing", "an entry", "an unknown group"])
def test_a_hundred_levels_are_read_and_one_more_is_an_error(
    head: bytes, innermost: bytes, columns: str, tmp_path: Path
) -> None:
    format = a_format(tmp_path, "S", _STATE)
    own = 1 if innermost else 0
    most = _nested(100 - own, head, innermost)
    over = _nested(101 - own, head, innermost)
    _, errors = _rows(format, [most, over, most, most * 3], columns)
    assert [error is None for error in errors] == [True, False, True, True]
    assert "more than 100 levels" in str(errors[1])


@pytest.mark.parametrize("value", [b"\x22\x00", b"\x2a\x00", b"\x32\x00", b"\x3a\x02\x12\x00", b"\x52\x02\x10\x63"])
def test_levels_are_not_counted_twice_for_values_side_by_side(value: bytes, tmp_path: Path) -> None:
    format = a_format(tmp_path, "S", _STATE)
    assert _rows(format, [value * 150], _STATE_COLUMNS)[1] == [None]


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 18])
@pytest.mark.parametrize("text", [False, True], ids=["number", "text"])
def test_the_last_value_of_a_key_counts_at_the_key_s_first_position(count: int, text: bool, tmp_path: Path) -> None:
    """For any number of entries before the repeated one; keys of which one begins with the other are different."""
    file = f"""name: "k.proto" message_type {{ name: "K" {fields("repeated .K.PEntry p = 1;")}
        {_ENTRY.format("PEntry", fields(f"{'string' if text else 'int32'} key = 1; int32 value = 2;"))} }}"""
    format = a_format(tmp_path, "K", file)

    def entry(number: int, value: int) -> bytes:
        key = _sized(b"\x0a", b"a" * number) if text else bytes([8, number])
        return _sized(b"\x0a", key + bytes([16, value]))

    def key(number: int) -> Any:
        return "a" * number if text else number

    distinct = b"".join(entry(number, number) for number in range(count))
    schema = f"p MAP<{'STRING' if text else 'INT'}, INT>"
    for again in {0, count // 2, count - 1}:
        messages: list[bytes | None] = [distinct, distinct + entry(again, 99), distinct]
        plain = [(key(number), number) for number in range(count)]
        merged = [(name, 99 if name == key(again) else value) for name, value in plain]
        for _ in range(2):
            rows, errors = _rows(format, messages, schema)
            assert errors == [None] * 3
            assert [row[0]["p"] for row in rows] == [plain, merged, plain]


@pytest.mark.parametrize("number", [4094, 4095, 4096, 4097, 2**29 - 1])
def test_fields_of_any_number_are_found_and_their_neighbours_are_not(number: int, tmp_path: Path) -> None:
    file = f"""name: "n.proto" message_type {{ name: "N" {fields(f"int32 a = {number};")} }}"""
    format = a_format(tmp_path, "N", file)

    def message(of: int) -> bytes:
        tag, found = of << 3, b""
        while tag > 127:
            found, tag = found + bytes([tag & 127 | 128]), tag >> 7
        return found + bytes([tag, 5])

    rows, errors = _rows(format, [message(number), message(number - 1)], "a INT")
    assert errors == [None, None]
    assert rows == [[{"a": 5}], [{"a": None}]]
    if number < 2**29 - 1:
        assert _rows(format, [message(number + 1)], "a INT") == ([[{"a": None}]], [None])
