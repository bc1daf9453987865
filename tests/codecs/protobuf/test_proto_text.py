"""Texts of `.proto` files: the same fields, types and defaults as protoc's, and what protoc's grammar allows."""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from typing import Any

import pytest

from kvformat.codecs.protobuf.proto_text import params_of, parse_proto

pytest.importorskip("google.protobuf")

_DEFAULTS = [
    r'bytes b = 2 [default = "a\\"]',
    r'bytes b = 2 [default = "\\d+"]',
    r'bytes b = 2 [default = "\377\x00\"\'\n"]',
    r'bytes b = 2 [default = "a" "b\0"]',
    r'string b = 2 [default = "\303\251\u00e9\\\" é"]',
    "float b = 2 [default = 1e40]",
    "float b = 2 [default = -1e40]",
    "float b = 2 [default = -nan]",
    "float b = 2 [default = -inf]",
    "float b = 2 [default = 1e-50]",
    "float b = 2 [default = 0.1]",
    "float b = 2 [default = 0x10]",
    "double b = 2 [default = 1e400]",
    "double b = 2 [default = 010]",
    "double b = 2 [default = -.5]",
    "int32 b = 2 [default = -0x10]",
    "int64 b = 2 [default = -9223372036854775808]",
    "uint64 b = 2 [default = 0xffffffffffffffff]",
    "sint32 b = 2 [default = 017]",
    "bool b = 2 [default = true]",
    "E b = 2 [default = B]",
]
_FILES = [
    *(f'syntax = "proto2"; enum E {{ A = 0; B = 1; }} message M {{ optional {field}; }}' for field in _DEFAULTS),
    'syntax = "proto2"; message M { extensions 100 to 200 [declaration = {number: 100, full_name: ".x.y", '
    'type: ".int32"}, verification = DECLARATION]; optional int32 a = 1; }',
    'syntax = "proto2"; message M { extensions 100 to max; reserved 5, 7 to 9; reserved "x"; optional int32 a = 1; }',
    'syntax = "proto2"; message M { extensions 100 [declaration = {number: 100, reserved: true}, '
    "declaration = {number: 101, reserved: true}], 101; extend M { optional int32 e = 100; } optional int32 a = 1; }",
    'syntax = "proto3"; import "google/protobuf/descriptor.proto"; '
    "extend google.protobuf.MessageOptions { O o = 50001; } message O { repeated int32 a = 1; string t = 2; } "
    'message M { option (o) = { a: [1, 2] t: "}" }; oneof x { option (p).a = 1; int32 a = 1; } } '
    "extend google.protobuf.OneofOptions { O p = 50001; }",
    'edition = "2023"; message M { int32 a = 1 [default = 5]; }',
    'syntax = "proto3"; message local { int32 x = 1; } message M { local message = 1; map<string, local> export = 2; }',
]


def _by_protoc(text: str, folder: Path) -> Any:
    protoc = pytest.importorskip("grpc_tools.protoc")
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    (folder / "f.proto").write_text(text, encoding="utf-8")
    include = importlib.resources.files("grpc_tools") / "_proto"
    command = ["protoc", f"-I{folder}", f"-I{include}", f"--descriptor_set_out={folder}/out", str(folder / "f.proto")]
    if protoc.main(command):
        pytest.skip("this protoc refuses the file")
    return FileDescriptorSet.FromString((folder / "out").read_bytes()).file[0]


def _shown(message: Any) -> list[Any]:
    """Return what reading depends on."""
    fields = [
        (
            f.name,
            f.number,
            f.label,
            f.type if f.HasField("type") else 11,
            f.type_name.rpartition(".")[2],
            f.default_value,
        )
        for f in message.field
    ]
    nested = sorted(([n.name, _shown(n)] for n in message.nested_type), key=str)
    return [fields, nested, [o.name for o in message.oneof_decl]]


@pytest.mark.parametrize("text", _FILES)
def test_a_file_is_parsed_as_by_protoc(text: str, tmp_path: Path) -> None:
    ours, theirs = parse_proto(text, "f.proto"), _by_protoc(text, tmp_path)
    assert [m.name for m in ours.message_type] == [m.name for m in theirs.message_type]
    for mine, other in zip(ours.message_type, theirs.message_type, strict=True):
        for field, of_protoc in zip(mine.field, other.field, strict=True):
            if of_protoc.type in (1, 2) and of_protoc.default_value:  # 1e-50 is 0 for a float
                numbers = [float(field.default_value), float(of_protoc.default_value)]
                assert str(numbers[0]) == str(numbers[1]) or abs(numbers[0] - numbers[1]) < 1e-40
                field.default_value = of_protoc.default_value
            if of_protoc.type == 14:
                field.type = 14
        assert _shown(mine) == _shown(other)


@pytest.mark.parametrize("text", _FILES)
def test_a_pool_takes_the_descriptor(text: str) -> None:
    from google.protobuf import descriptor_pb2, descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor_pb2.FileDescriptorProto.FromString(descriptor_pb2.DESCRIPTOR.serialized_pb))
    pool.Add(parse_proto(text, "f.proto"))
    assert pool.FindMessageTypeByName("M") is not None


@pytest.mark.parametrize(
    "name", ["descriptor", "any", "api", "duration", "struct", "type", "wrappers", "timestamp", "field_mask", "empty"]
)
def test_googles_own_files_are_parsed_as_by_protoc(name: str, tmp_path: Path) -> None:
    grpc_tools = pytest.importorskip("grpc_tools")
    folder = Path(grpc_tools.__file__).parent / "_proto" / "google" / "protobuf"
    text = (folder / f"{name}.proto").read_text(encoding="utf-8")
    ours, theirs = parse_proto(text, "f.proto"), _by_protoc(text, tmp_path)
    for mine, other in zip(ours.message_type, theirs.message_type, strict=True):
        assert [(f.name, f.number, f.label) for f in mine.field] == [(f.name, f.number, f.label) for f in other.field]


@pytest.mark.parametrize(
    "text",
    [
        'edition = "2024"; export message M { int32 a = 1; }',
        'edition = "2024"; local enum E { Z = 0; } message M { int32 a = 1; local message N { } }',
        'edition = "2024"; import option "google/protobuf/descriptor.proto"; message M { int32 a = 1; }',
        'edition = "2024"; import option "not/there.proto"; option (x).y = 1; message M { int32 a = 1; }',
        '\ufeffedition = "2024"; package p; local message M { int32 a = 1; }',
    ],
)
def test_edition_2024_is_read(text: str) -> None:
    file = parse_proto(text, "f.proto")
    assert [field.name for field in file.message_type[0].field] == ["a"]
    assert not file.dependency


@pytest.mark.parametrize(
    "params",
    [
        'params: [{ key: "a", value: "1" }, { key: "b", value: "2" }]',
        'params: { key: "a", value: "1" } params: { key: "b", value: "2" }',
        "params { key: 'a'; value: '1' }; params < value: '2' key: 'b' >",
        'params [{ key: "a" value: "1" }], params { key: "b" value: "2" }',
    ],
)
def test_parameters_of_a_field_are_all_read_however_they_are_written(params: str) -> None:
    text = f'syntax = "proto3"; message M {{ int32 a = 1 [(confluent.field_meta) = {{ {params} }}]; }}'
    (field,) = parse_proto(text, "f.proto").message_type[0].field
    assert params_of(field.options.SerializeToString()) == (("a", "1"), ("b", "2"))


@pytest.mark.parametrize(
    "one", ["message N{} {{ }}", "option (o{}) = {{ a: [1] }};", "option (o{}) = {{ a {{ b: 1 }} }};"]
)
def test_levels_are_not_counted_twice_for_parts_side_by_side(one: str) -> None:
    text = f'syntax = "proto3"; message M {{ {" ".join(map(one.format, range(100)))} int32 a = 1; }}'
    assert [field.name for field in parse_proto(text, "f.proto").message_type[0].field] == ["a"]


@pytest.mark.parametrize(
    "other",
    [b"\xc0\xb8\2\xff\1", b"\xc1\xb8\2" + b"\xff" * 8, b"\xc2\xb8\2\2ab", b"\xc5\xb8\2" + b"\xff" * 4],
)
def test_parameters_of_a_field_are_found_after_other_options(other: bytes) -> None:
    """Here of the number 5000, of each wire type."""
    text = 'message M { optional int32 a = 1 [(confluent.field_meta) = { params: { key: "a", value: "1" } }]; }'
    (field,) = parse_proto(text, "f.proto").message_type[0].field
    assert params_of(other + field.options.SerializeToString()) == (("a", "1"),)
