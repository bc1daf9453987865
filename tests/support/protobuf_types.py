"""Descriptor sets for tests, written as the text of descriptors: no protoc is needed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from kvformat.codecs.protobuf.proto_text import parse_proto
from kvformat.codecs.protobuf.registry_schema import _well_known
from kvformat.registry import get_format
from kvformat.registry.format import Format

_FIELD = re.compile(r"(repeated|optional|required)?\s*([\w.]+) (\w+) = (\d+);")
_LABELS = {"repeated": "LABEL_REPEATED", "required": "LABEL_REQUIRED"}


def fields(text: str) -> str:
    """`int32 a = 1; repeated Item b = 2;` as the text of descriptors; a type that begins with a dot is a message's, or
    an enum's if it ends with `Enum`.
    """
    made = ""
    for label, kind, name, number in _FIELD.findall(text):
        of = f"type: TYPE_{kind.upper()}"
        if kind.startswith("."):
            of = f'type: TYPE_{"ENUM" if kind.endswith("Enum") else "MESSAGE"} type_name: "{kind}"'
        made += f'field {{ name: "{name}" number: {number} label: {_LABELS.get(label, "LABEL_OPTIONAL")} {of} }} '
    return made


def descriptor_set(*files: str) -> bytes:
    """The files, each as the text of a FileDescriptorProto."""
    text = " ".join(f"file {{ {file} }}" for file in files)
    made: bytes = text_format.Parse(text, descriptor_pb2.FileDescriptorSet()).SerializeToString()
    return made


def a_file(folder: Path | str, *files: str) -> str:
    """The path of a descriptor set of these files."""
    path = Path(folder, "types.desc")
    path.write_bytes(descriptor_set(*files))
    return str(path)


def a_format(folder: Path | str, message: str, *files: str, **options: Any) -> Format:
    """The format for a message of these files."""
    given = {name.replace("_", "-"): value for name, value in options.items()}
    return get_format("protobuf", {"message-class-name": message, "descriptor-file": a_file(folder, *files), **given})


def class_of(text: str) -> Any:
    """Return the generated class of the first message of a schema, independent of our types."""
    pool = descriptor_pool.DescriptorPool()

    def add(file: Any) -> None:
        for imported in file.dependency:
            try:
                pool.FindFileByName(imported)
            except KeyError:
                add(_well_known(imported))
        pool.Add(file)

    file = parse_proto(text, f"peer{abs(hash(text))}.proto")
    add(file)
    name = f"{file.package}.{file.message_type[0].name}" if file.package else file.message_type[0].name
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
