"""Random descriptor sets, messages of them as google's package makes them, and what these read as."""

from __future__ import annotations

import math
import random
from typing import Any

from google.protobuf import descriptor_pb2

from kvformat.registry.java.charsets import java_text

_Proto = descriptor_pb2.FieldDescriptorProto
_NAMES = (
    *(
        "id",
        "Id",
        "ID",
        "_",
        "_x",
        "x_",
        "a__b",
        "class",
        "def",
        "value",
        "key",
        "item",
        "item_count",
        "select",
        "null",
    ),
    *("serialized_size", "fields", "a1b2", "camelCase", "SHOUT", "n" * 70, "None", "row", "descriptor"),
)
_INTEGERS = {
    **dict.fromkeys((_Proto.TYPE_INT32, _Proto.TYPE_SINT32, _Proto.TYPE_SFIXED32), (-(2**31), 2**31 - 1)),
    **dict.fromkeys((_Proto.TYPE_INT64, _Proto.TYPE_SINT64, _Proto.TYPE_SFIXED64), (-(2**63), 2**63 - 1)),
    **dict.fromkeys((_Proto.TYPE_UINT32, _Proto.TYPE_FIXED32), (0, 2**32 - 1)),
    **dict.fromkeys((_Proto.TYPE_UINT64, _Proto.TYPE_FIXED64), (0, 2**64 - 1)),
}
_SCALARS = (
    *_INTEGERS,
    *(_Proto.TYPE_BOOL, _Proto.TYPE_FLOAT, _Proto.TYPE_DOUBLE, _Proto.TYPE_STRING, _Proto.TYPE_BYTES),
)
_KEYS = (*_INTEGERS, _Proto.TYPE_BOOL, _Proto.TYPE_STRING)
_COLUMNS = {
    _Proto.TYPE_BOOL: "BOOLEAN",
    _Proto.TYPE_FLOAT: "FLOAT",
    _Proto.TYPE_DOUBLE: "DOUBLE",
    _Proto.TYPE_STRING: "STRING",
    _Proto.TYPE_BYTES: "BYTES",
    **{kind: "INT" if high < 2**32 else "BIGINT" for kind, (_, high) in _INTEGERS.items()},
}
_MESSAGES = (_Proto.TYPE_MESSAGE, _Proto.TYPE_GROUP)
_TEXTS = ("", "a", "plain", "é ß 世界", "😀", "\0", "x" * 127, "y" * 128, '"\\\n')
_FLOATS = (0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, 2.0**-149, 3.4028234663852886e38)


# --- random descriptor sets -----------------------------------------------------------------------------


class RandomFile:
    """A file of two to four messages, in proto2, proto3 or an edition. Its fields may be messages of an imported file.

    The names of enum values, of maps and of groups are plain; those of other fields are legal but odd.
    """

    def __init__(self, rng: random.Random, name: str, imported: RandomFile | None) -> None:
        self.rng, self.file = rng, descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package=f"acme.{name}")
        self.syntax = self.file.syntax = rng.choice(("proto2", "proto3", "proto3", "proto2", "editions"))
        self.implicit = self.syntax == "proto3"
        if self.syntax == "editions":
            self.file.edition = descriptor_pb2.EDITION_2023
            self.implicit = rng.random() < 0.5
            presence = descriptor_pb2.FeatureSet.IMPLICIT if self.implicit else descriptor_pb2.FeatureSet.EXPLICIT
            self.file.options.features.field_presence = presence
        self.foreign = list(imported.known) if imported else []
        if imported:
            self.file.dependency.append(imported.file.name)
        self.enums = [self._enum(f"E{number}") for number in range(2)]
        made: list[tuple[str, Any]] = []
        for number in range(rng.randint(2, 4)):
            made.append((f".{self.file.package}.M{number}", self.file.message_type.add(name=f"M{number}")))
            if rng.random() < 0.4:
                made.append((f"{made[-1][0]}.Inner", made[-1][1].nested_type.add(name="Inner")))
        self.known = [name for name, _ in made]
        for number, (name, message) in enumerate(made):
            self._fill(name, message, [*self.known[:number], *self.foreign])

    def _enum(self, name: str) -> tuple[str, list[str]]:
        numbers = [0, *self.rng.sample((1, 2, 3, -1, 127, 128, 2**31 - 1, -(2**31)), 4)]
        enum = self.file.enum_type.add(name=name)
        if self.rng.random() < 0.5:
            enum.options.allow_alias = True
            numbers.append(numbers[1])
        if self.syntax == "proto2":
            self.rng.shuffle(numbers)
        for at, number in enumerate(numbers):
            enum.value.add(name=f"{name}_{at}", number=number)
        return f".{self.file.package}.{name}", [value.name for value in enum.value]

    def _fill(self, path: str, message: Any, earlier: list[str]) -> None:
        """Add fields to a message. A required message is an earlier one: none needs itself."""
        rng, proto2 = self.rng, self.syntax == "proto2"
        names = rng.sample([*_NAMES, "f1", "f2", "f3", "f4", "f5"], rng.randint(1, 10))
        numbers = rng.sample([*range(1, 20), 2047, 2048, 18999, 20000, 2**18, 2**21, 2**29 - 1], len(names))
        oneof = rng.random() < 0.5 and len(names) > 3
        if oneof:
            message.oneof_decl.add(name="either")
        for at, (name, number) in enumerate(zip(names, numbers, strict=True)):
            field = message.field.add(name=name, number=number, label=_Proto.LABEL_OPTIONAL)
            draw = rng.random()
            if oneof and at < 3:
                self._type(field)
                field.oneof_index = 0
            elif draw < 0.15:
                self._map(path, message, field, f"P{at}Entry")
            elif draw < 0.4:
                field.label = _Proto.LABEL_REPEATED
                self._type(field)
                if self.syntax != "editions" and field.type not in (*_MESSAGES, _Proto.TYPE_STRING, _Proto.TYPE_BYTES):
                    field.options.packed = rng.random() < 0.5
            elif draw < 0.5 and proto2:
                field.label = _Proto.LABEL_REQUIRED
                self._type(field, earlier)
            elif draw < 0.6 and proto2:
                group = message.nested_type.add(name=f"G{at}")
                field.name, field.type, field.type_name = f"g{at}", _Proto.TYPE_GROUP, f"{path}.G{at}"
                field.label = rng.choice((_Proto.LABEL_OPTIONAL, _Proto.LABEL_REPEATED))
                self._type(group.field.add(name="in_group", number=1, label=_Proto.LABEL_OPTIONAL))
            else:
                self._type(field)
                if rng.random() < 0.4 and not self.implicit and field.type not in _MESSAGES:
                    field.default_value = self._default(field)
                field.proto3_optional = self.syntax == "proto3" and rng.random() < 0.3
        for field in message.field:  # the oneofs of these come after the others
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_of_{field.name}")
            else:
                field.ClearField("proto3_optional")

    def _type(self, field: Any, messages: list[str] | None = None) -> None:
        messages = [*self.known, *self.foreign] if messages is None else messages
        draw = self.rng.random()
        if draw < 0.25 and messages:
            field.type, field.type_name = _Proto.TYPE_MESSAGE, self.rng.choice(messages)
        elif draw < 0.4:
            field.type, field.type_name = _Proto.TYPE_ENUM, self.rng.choice(self.enums)[0]
        else:
            field.type = self.rng.choice(_SCALARS)

    def _map(self, path: str, message: Any, field: Any, name: str) -> None:
        field.name = name.removesuffix("Entry").lower()
        entry = message.nested_type.add(name=name)
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=_Proto.LABEL_OPTIONAL, type=self.rng.choice(_KEYS))
        self._type(entry.field.add(name="value", number=2, label=_Proto.LABEL_OPTIONAL))
        field.label, field.type, field.type_name = _Proto.LABEL_REPEATED, _Proto.TYPE_MESSAGE, f"{path}.{name}"

    def _default(self, field: Any) -> str:
        rng = self.rng
        if field.type in _INTEGERS:
            return str(rng.choice((*_INTEGERS[field.type], 7)))
        if field.type == _Proto.TYPE_ENUM:
            return rng.choice(dict(self.enums)[field.type_name])
        if field.type in (_Proto.TYPE_FLOAT, _Proto.TYPE_DOUBLE):
            return rng.choice(("inf", "-inf", "nan", "-0", "1.5", "1e30"))
        return {_Proto.TYPE_BOOL: "true", _Proto.TYPE_BYTES: r"a\377\000"}.get(field.type, "é 世")


# --- random messages, and what they read as -------------------------------------------------------------


def _value(rng: random.Random, field: Any) -> Any:
    if field.type in _INTEGERS:
        low, high = _INTEGERS[field.type]
        return rng.choice((low, high, 0, 1, 127, 128, rng.randint(low, high)))
    if field.enum_type is not None:
        return rng.choice([*field.enum_type.values_by_number, *([] if field.enum_type.is_closed else [77, -77])])
    if field.type in (_Proto.TYPE_FLOAT, _Proto.TYPE_DOUBLE):
        return rng.choice(_FLOATS)
    if field.type == _Proto.TYPE_BOOL:
        return rng.random() < 0.5
    return rng.choice(_TEXTS) if field.type == _Proto.TYPE_STRING else rng.choice((b"", b"\0", b"\xff\xc3", b"z" * 130))


def fill(rng: random.Random, message: Any, depth: int) -> None:
    """Set fields at random. Rarely a required one is missing."""
    message.SetInParent()
    for field in rng.sample(list(message.DESCRIPTOR.fields), len(message.DESCRIPTOR.fields)):
        left_out = rng.random() < 0.4 or (field.message_type is not None and depth <= 0)
        if left_out and not (field.is_required and rng.random() < 0.9):
            continue
        if is_map(field):
            target, (key, value) = getattr(message, field.name), field.message_type.fields
            for _ in range(rng.choice((0, 1, 3))):
                chosen = _value(rng, key)
                if value.message_type is not None:
                    fill(rng, target[chosen], depth - 1)
                else:
                    target[chosen] = _value(rng, value)
        elif field.is_repeated:
            target = getattr(message, field.name)
            for _ in range(rng.choice((0, 1, 2, 9))):
                if field.message_type is not None:
                    fill(rng, target.add(), depth - 1)
                else:
                    target.append(_value(rng, field))
        elif field.message_type is not None:
            fill(rng, getattr(message, field.name), depth - 1)
        else:
            setattr(message, field.name, _value(rng, field))


def is_map(field: Any) -> bool:
    """Whether google's field is a map."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def table_of(rng: random.Random, message: Any, depth: int) -> dict[str, tuple[Any, Any]]:
    """Columns for fields: by name, the field and the type of one value, which is a table for a ROW."""
    columns = {}
    for field in message.fields:
        of = field.message_type.fields_by_name["value"] if is_map(field) else field
        kind: Any = rng.choice(("STRING", "INT", "BIGINT")) if of.enum_type else _COLUMNS.get(of.type)
        if of.message_type is not None:
            kind = table_of(rng, of.message_type, depth - 1) if depth > 0 else {}
        if kind and rng.random() < 0.9:
            columns[field.name] = (field, kind)
    return columns


def ddl(table: dict[str, tuple[Any, Any]]) -> str:
    """The columns as a table's schema."""
    parts = []
    for name, (field, kind) in table.items():
        t = kind if isinstance(kind, str) else f"ROW<{ddl(kind)}>"
        if is_map(field):
            t = f"MAP<{_COLUMNS[field.message_type.fields_by_name['key'].type]}, {t}>"
        elif field.is_repeated:
            t = f"ARRAY<{t}>"
        parts.append(f"`{name}` {t}")
    return ", ".join(parts)


class Expected:
    """Convert google's message to a row, by the rules of the documentation."""

    def __init__(self, *, proto3: bool, defaults: bool) -> None:
        self.proto3, self.defaults = proto3, defaults

    def row(self, message: Any, table: dict[str, tuple[Any, Any]]) -> dict[str, Any]:
        return {name: self._field(message, field, kind) for name, (field, kind) in table.items()}

    def _field(self, message: Any, field: Any, kind: Any) -> Any:
        value = getattr(message, field.name)
        if is_map(field):
            key, of = field.message_type.fields
            pairs = [(self._one(name, key, "INT"), self._one(value[name], of, kind)) for name in value]
            return pairs if pairs or self.defaults else None
        if field.is_repeated:
            return [self._one(item, field, kind) for item in value] if value or self.defaults else None
        if field.has_presence and not message.HasField(field.name) and not self.defaults:
            return self._one(value, field, kind) if self.proto3 and field.message_type is None else None
        return self._one(value, field, kind)

    def _one(self, value: Any, field: Any, kind: Any) -> Any:
        if field.message_type is not None:
            return self.row(value, kind)
        if field.enum_type is not None and kind == "STRING":
            return next((known.name for known in field.enum_type.values if known.number == value), "UNRECOGNIZED")
        if field.type == _Proto.TYPE_STRING and isinstance(value, bytes):
            return java_text(value)  # google's package leaves text of proto2 that is not UTF-8 as bytes
        if field.type in _INTEGERS:
            high = _INTEGERS[field.type][1]
            return value - high - 1 if high in (2**32 - 1, 2**64 - 1) and value > high // 2 else value
        return value


def plain(value: Any) -> str:
    """A value as text. NaN equals NaN, -0.0 is not 0.0, and pairs have no order."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {plain(of)}' for name, of in value.items())}}}"
    if isinstance(value, list):
        pairs = bool(value) and isinstance(value[0], tuple)
        return f"[{', '.join(sorted(f'{plain(k)}={plain(v)}' for k, v in value) if pairs else map(plain, value))}]"
    return repr(value)
