"""Message types from Protobuf schemas of a registry: a text or a serialized descriptor, with the files that it imports.

    00  00 00 00 01  00       the first message of the file
    00  00 00 00 01  04 02 00 the path 1, 0: its number of items (zigzag: 2), then each item: the first message that is
                              nested in the second one

Imports are references of the schema. Files of Google's package and Confluent's types need no reference.
"""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import importlib
from dataclasses import replace
from typing import Any

from kvformat.codecs.protobuf.descriptors import read_types
from kvformat.codecs.protobuf.proto_text import parse_proto
from kvformat.codecs.protobuf.types import MessageTypes
from kvformat.codecs.registries.confluent_frames import IndexPath
from kvformat.registry.contract.errors import MissingExtraError, SchemaError
from kvformat.registry.contract.schema_registries import RegistrySchema

DATE, TIME_OF_DAY, DECIMAL, TIMESTAMP = (
    "google.type.Date",
    "google.type.TimeOfDay",
    "confluent.type.Decimal",
    "google.protobuf.Timestamp",
)
FILES = {
    DATE: "google/type/date.proto",
    TIME_OF_DAY: "google/type/timeofday.proto",
    DECIMAL: "confluent/type/decimal.proto",
    TIMESTAMP: "google/protobuf/timestamp.proto",
}
META = "confluent/meta.proto"
_ROOT = "schema.proto"
_OWN = {  # files that no package is needed for
    FILES[
        DATE
    ]: 'syntax = "proto3"; package google.type; message Date { int32 year = 1; int32 month = 2; int32 day = 3; }',
    FILES[TIME_OF_DAY]: 'syntax = "proto3"; package google.type; '
    "message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }",
    FILES[DECIMAL]: 'syntax = "proto3"; package confluent.type; '
    "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }",
    META: 'syntax = "proto3"; package confluent; message Meta { string doc = 1; map<string, string> params = 2; }',
}


@functools.lru_cache(maxsize=1024)
def message_types(schema: RegistrySchema, path: IndexPath, format: str) -> MessageTypes:
    """Return the types of the message at an index path of a schema.

    Raises `SchemaError` if the schema is not valid, lacks an import, or has no such message; `MissingExtraError`
    without the package `protobuf`.
    """
    try:
        from google.protobuf import descriptor_pool
        from google.protobuf.message import DecodeError
    except ImportError as cause:
        raise MissingExtraError(
            f"format '{format}' reads schemas with the package 'protobuf', on the driver and the executors",
            extra="confluent,protobuf",
            format=format,
        ) from cause
    pool, files = descriptor_pool.DescriptorPool(), dict[str, Any]()
    texts = dict(schema.references)

    def add(name: str, file: Any) -> None:
        files[name] = file
        for imported in file.dependency:
            if imported not in files:
                text = texts.get(imported)
                add(imported, _well_known(imported) if text is None else _file(text, imported))
        try:
            pool.Add(file)
        except (TypeError, DecodeError) as cause:
            raise SchemaError(f"the Protobuf schema has errors in {name!r}: {cause}", format=format) from None

    try:
        add(_ROOT, _file(schema.text, _ROOT))
    except RecursionError:
        raise SchemaError("the Protobuf schema imports itself, or too many others", format=format) from None
    digest = hashlib.sha256(f"{schema!r} {path}".encode()).hexdigest()
    types = read_types(files, pool.FindMessageTypeByName(_full_name(files[_ROOT], path, format)), digest)
    return replace(types, proto3=False)  # so that a field that is absent is NULL if it can be absent


def path_of(schema: RegistrySchema, name: str) -> IndexPath | None:
    """Return the index path of the message with a full name in its file, None if there is none."""
    file, path = _file(schema.text, _ROOT), list[int]()
    messages, space = file.message_type, f"{file.package}." if file.package else ""
    while messages:
        near = [at for at, message in enumerate(messages) if f"{name}.".startswith(f"{space}{message.name}.")]
        if not near:
            return None
        path.append(near[0])
        space += f"{messages[near[0]].name}."
        if space == f"{name}.":
            return tuple(path)
        messages = messages[near[0]].nested_type
    return None


def _file(text: str, name: str) -> Any:
    """Return the descriptor of a file: of a text, or serialized in base64, as Confluent's Python client does."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return parse_proto(text, name)
    file.name = name
    return file


def _well_known(name: str) -> Any:
    """Return the descriptor of a file that schemas import without a reference."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if name in _OWN:
        return parse_proto(_OWN[name], name)
    if name.startswith(("google/protobuf/", "google/type/")):
        try:
            module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        except ImportError:
            pass
        else:
            return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    raise SchemaError(f"the Protobuf schema imports {name!r}, but the registry names no reference for it")


def _full_name(file: Any, path: IndexPath, format: str) -> str:
    messages, names = file.message_type, [file.package] if file.package else []
    for number in path:
        if not 0 <= number < len(messages):
            raise SchemaError(f"the Protobuf schema has no message at the index path {list(path)}", format=format)
        names.append(messages[number].name)
        messages = messages[number].nested_type
    return ".".join(names)
