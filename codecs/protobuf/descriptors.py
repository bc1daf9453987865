"""Reads the types of a message from a descriptor set of `protoc --include_imports --descriptor_set_out`.

Google's package `protobuf` reads it once, when the options are checked.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from kvformat.codecs.protobuf.java import java_names
from kvformat.codecs.protobuf.proto_text import SCALARS, params_of
from kvformat.codecs.protobuf.types import ENUM, GROUP, MESSAGE, EnumType, FieldType, MessageType, MessageTypes
from kvformat.registry.contract.errors import MissingExtraError, OptionError, did_you_mean, listed
from kvformat.registry.contract.options import mask_userinfo

FILE_OPTION, CLASS_OPTION = "descriptor-file", "message-class-name"
_HOW = "Make one by: protoc --include_imports --descriptor_set_out=orders.desc orders.proto"
_MOST_LISTED = 20
"""The number of messages that the error of an unknown message lists."""
_PACKABLE = frozenset(range(1, 19)) - {9, 10, 11, 12}
_KINDS = {**{number: name for name, number in SCALARS.items()}, 10: GROUP, 11: MESSAGE, 14: ENUM}
"""The kinds of fields by FieldDescriptorProto.Type."""


def load_types(path: str, name: str, format: str) -> MessageTypes:
    """Read the types of a message from the descriptor set in a file. `name` is its Java name or its full name.

    Raises `OptionError` if the file can't be read, is not a descriptor set, lacks an import, or does not contain the
    message. Raises `MissingExtraError` without the package `protobuf`.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool
        from google.protobuf.message import DecodeError
    except ImportError as cause:
        raise MissingExtraError(
            f"format '{format}' reads its option '{FILE_OPTION}' with the package 'protobuf'; only the driver needs it",
            extra="protobuf",
            format=format,
        ) from cause

    def refused(reason: str) -> OptionError:
        return OptionError(
            f"option '{FILE_OPTION}' of format '{format}': {reason}. {_HOW}",
            format=format,
            option=FILE_OPTION,
            reason=reason,
        )

    shown = repr(mask_userinfo(path))
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as cause:  # ValueError: the name is invalid for a file
        raise refused(f"cannot read the file {shown}: {getattr(cause, 'strerror', None) or cause}") from cause
    try:
        files = {file.name: file for file in descriptor_pb2.FileDescriptorSet.FromString(data).file}
    except DecodeError as cause:
        raise refused(f"the file {shown} is not a FileDescriptorSet") from cause
    if not files:
        raise refused(f"the file {shown} is not a FileDescriptorSet, or has no files")
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(file: Any) -> None:
        if file.name in added:
            return
        added.add(file.name)
        for imported in file.dependency:
            if imported not in files:
                raise refused(f"the file {shown} lacks {imported!r}, which {file.name!r} imports")
            add(files[imported])
        try:
            pool.Add(file)
        except (TypeError, DecodeError) as cause:
            raise refused(f"the file {shown} has errors in {file.name!r}: {cause}") from cause

    for file in files.values():
        add(file)
    names = _names(files.values())
    full = names.get(name)
    if full is None:
        raise OptionError(
            f"get {name} descriptors error! The descriptor file {shown} has no message of this Java name or full name."
            f"{did_you_mean(name, names)} Messages: {listed(list(names)[:_MOST_LISTED])}",
            format=format,
            option=CLASS_OPTION,
            reason="no such message",
        )
    return read_types(files, pool.FindMessageTypeByName(full), hashlib.sha256(data + full.encode()).hexdigest())


def read_types(files: dict[str, Any], root: Any, digest: str) -> MessageTypes:
    """Return the type of a message and all types that it uses, from the descriptor `root` and the files by name."""
    return _Reading(files).types(root, digest)


def _names(files: Any) -> dict[str, str]:
    """Return full names by Java name, and by full name unless a Java name is the same."""
    names = {java: full for file in files for java, full in java_names(file)}
    return names | {full: full for full in list(names.values()) if full not in names}


class _Reading:
    """Converts descriptors to plain data. `files` has the files by name, for options that descriptors lack."""

    def __init__(self, files: dict[str, Any]) -> None:
        self._files = files
        self._messages: dict[str, MessageType] = {}
        self._enums: dict[str, EnumType] = {}
        self._features: dict[str, dict[int, Any]] = {}  # of fields, by the message and the field's number

    def types(self, root: Any, digest: str) -> MessageTypes:
        """Return the type of the message `root` and all types that it uses."""
        waiting = [root]
        while waiting:
            message = waiting.pop()
            if message.full_name in self._messages:
                continue
            self._messages[message.full_name] = self._message(message)
            for field in message.fields:
                if field.message_type is not None:
                    waiting.append(field.message_type)
                if field.enum_type is not None:
                    values = tuple((value.name, value.number) for value in field.enum_type.values)
                    self._enums[field.enum_type.full_name] = EnumType(values, field.enum_type.is_closed)
        proto3 = self._files[root.file.name].syntax == "proto3"
        return MessageTypes(root.full_name, digest, proto3, self._messages, self._enums)

    def _message(self, message: Any) -> MessageType:
        is_entry = message.GetOptions().map_entry
        real = [oneof for oneof in message.oneofs if len(oneof.fields) > 1]
        fields = []
        for field in message.fields:
            kind = _KINDS[field.type]
            default = None if field.message_type is not None else field.default_value
            of = field.message_type or field.enum_type
            fields.append(
                FieldType(
                    field.name,
                    field.number,
                    kind,
                    of.full_name if of is not None else "",
                    repeated=field.is_repeated,
                    required=field.is_required,
                    packed=field.is_repeated and field.type in _PACKABLE and field.is_packed,
                    presence=field.has_presence,
                    checked=kind == "string" and (is_entry or self._checks_text(field)),
                    oneof=real.index(field.containing_oneof) if field.containing_oneof in real else -1,
                    default=_default(kind, default, repeated=field.is_repeated),
                    params=params_of(field.GetOptions().SerializeToString()) if field.has_options else (),
                )
            )
        return MessageType(message.full_name, tuple(fields), is_entry)

    def _checks_text(self, field: Any) -> bool:
        """Return whether the Java class rejects text in a field that is not UTF-8."""
        file = self._files[field.file.name]
        if file.syntax != "editions":
            return file.syntax == "proto3" or bool(file.options.java_string_check_utf8)
        for features in (self._declared_features(field), file.options.features):
            if features.HasField("utf8_validation"):
                return bool(features.utf8_validation != features.NONE)
        return True

    def _declared_features(self, field: Any) -> Any:
        """Return the features that a field declares. The options of its descriptor do not have them."""
        message = field.containing_type
        if message.full_name not in self._features:
            from google.protobuf import descriptor_pb2

            declared = descriptor_pb2.DescriptorProto()
            message.CopyToProto(declared)
            self._features[message.full_name] = {one.number: one.options.features for one in declared.field}
        return self._features[message.full_name][field.number]


def _default(kind: str, value: Any, *, repeated: bool) -> Any:
    if repeated:
        return {"string": b"", "bytes": b"", MESSAGE: None, GROUP: None}.get(kind, 0)
    return value.encode() if isinstance(value, str) else value
