"""Parses the text of a `.proto` file to a `FileDescriptorProto`, because a schema registry has texts.

Names of types stay as they are written: a descriptor pool resolves them. Of options, only those change how messages are
read that are fields of Google's option messages, and Confluent's `(confluent.field_meta)`; others are ignored. Services
and extensions are skipped.
Rules: protobuf's language specifications of proto2, proto3 and editions.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from kvformat.codecs._json_documents import BYTE_ORDER_MARK
from kvformat.registry.contract.errors import SchemaError

FIELD_META = 1088
"""The number of the extension `(confluent.field_meta)` of `FieldOptions`; its field 2 is a map of parameters."""
_PARAMS = 2
_MAX_LEVELS = 64
"""Levels of messages and of option values, so that no text exhausts the stack."""
_TOKEN = re.compile(
    r"(?P<blank>\s+|//[^\n]*|/\*.*?\*/)|(?P<text>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
    r"|(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<symbol>[{}\[\]()<>=;,.:/+-])",
    re.DOTALL | re.ASCII,
)
SCALARS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8, "string": 9,
    "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
"""FieldDescriptorProto.Type."""
_GROUP, _MESSAGE = 10, 11
_LABELS = {"optional": 1, "required": 2, "repeated": 3}
_ESCAPE = re.compile(
    rb"\\(?:([abfnrtv\\'\"?])|([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))"
)
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_FLOATS = {1: (sys.float_info.max, sys.float_info.min), 2: ((2 - 2**-23) * 2.0**127, 2.0**-126)}
"""The largest and the smallest numbers of double and float: a descriptor pool refuses others."""
_NUMBERS = {number for word, number in SCALARS.items() if word not in ("bool", "string", "bytes")}
_Option = tuple[list[str], Any]
"""The parts of an option's name, an extension in parentheses, and its value."""


def parse_proto(text: str, name: str) -> Any:
    """Parse a file. Returns a `FileDescriptorProto` with this name; raises `SchemaError` with the line of an error."""
    return _Parser(text.removeprefix(BYTE_ORDER_MARK)).file(name)


class _Parser:
    """Parses one text, token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._scan())
        self._at = 0
        self._proto3 = False
        self._levels = 0

    def _scan(self) -> Iterator[tuple[str, str, int]]:
        """Yield the kind, the text and the offset of each token."""
        at = 0
        while at < len(self._text):
            match = _TOKEN.match(self._text, at)
            if match is None:
                self._fail(at, f"an unexpected character {self._text[at]!a}")
            if match.lastgroup != "blank":
                yield str(match.lastgroup), match.group(), at
            at = match.end()

    def _fail(self, at: int, why: str) -> NoReturn:
        line = self._text.count("\n", 0, at) + 1
        raise SchemaError(f"the Protobuf schema has an error in line {line}: {why}")

    # --- tokens --------------------------------------------------------------------------------------------

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at][1] if at < len(self._tokens) else ""

    def _next(self, kind: str = "") -> str:
        if self._at >= len(self._tokens):
            self._fail(len(self._text), "the text ends too early")
        token, text, at = self._tokens[self._at]
        if kind and token != kind:
            self._fail(at, f"expected a {kind}, found {text[:40]!a}")
        self._at += 1
        return text

    def _skip(self, text: str) -> bool:
        """Skip the next token if it is this one."""
        same = self._peek() == text
        self._at += same
        return same

    def _expect(self, text: str) -> None:
        if self._at >= len(self._tokens):
            self._fail(len(self._text), f"the text ends before {text!r}")
        if not self._skip(text):
            self._fail(self._tokens[self._at][2], f"expected {text!r}, found {self._peek()[:40]!a}")

    def _deeper(self) -> None:
        self._levels += 1
        if self._levels > _MAX_LEVELS:
            self._fail(self._tokens[self._at - 1][2], f"more than {_MAX_LEVELS} levels")

    def _string(self) -> _Text:
        """Read a text, which may be written in several parts."""
        parts = [self._next("text")[1:-1]]
        while self._at < len(self._tokens) and self._tokens[self._at][0] == "text":
            parts.append(self._next()[1:-1])
        return _Text(b"".join(_ESCAPE.sub(_unescaped, part.encode("utf-8", "replace")) for part in parts))

    def _type_name(self) -> str:
        """Read a name with dots, which may begin with one."""
        name = "." if self._skip(".") else ""
        name += self._next("name")
        while self._skip("."):
            name += "." + self._next("name")
        return name

    def _integer(self) -> int:
        sign = -1 if self._skip("-") else 1
        text = self._next("number")
        try:
            number = sign * (int(text, 8) if re.fullmatch(r"0[0-7]+", text) else int(text, 0))
        except ValueError:
            self._fail(self._tokens[self._at - 1][2], f"{text[:40]} is not an integer")
        if not -(2**31) <= number < 2**31:
            self._fail(self._tokens[self._at - 1][2], f"{text[:40]} is not an integer of 32 bits")
        return number

    def _skip_statement(self) -> None:
        """Skip everything up to the next semicolon, or a block in braces. Both may be in brackets, which go on."""
        depth = 0
        while True:
            token = self._next()
            depth += (token in ("{", "[")) - (token in ("}", "]"))
            if depth <= 0 and token in (";", "}"):
                return

    # --- declarations ----------------------------------------------------------------------------------------

    def file(self, name: str) -> Any:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        file = FileDescriptorProto(name=name)
        while self._at < len(self._tokens):
            self._skip_visibility()
            word = self._next()
            if word in ("syntax", "edition"):
                self._expect("=")
                self._set_syntax(file, word, self._string())
                self._expect(";")
            elif word == "package":
                file.package = self._type_name()
                self._expect(";")
            elif word == "import":
                kind = self._next() if self._peek() in ("public", "weak", "option") else ""
                imported = self._string()
                if kind != "option":  # whose file only has options, which are not read
                    file.dependency.append(imported)
                self._expect(";")
            elif word == "option":
                self._apply([self._option()], file.options)
                self._expect(";")
            elif word == "message":
                self._message(file.message_type.add(name=self._next("name")))
            elif word == "enum":
                self._enum(file.enum_type.add(name=self._next("name")))
            elif word in ("service", "extend"):
                self._skip_statement()
            elif word != ";":
                self._fail(self._tokens[self._at - 1][2], f"an unexpected {word[:40]!a}")
        return file

    def _skip_visibility(self) -> None:
        """Skip the word before a type that says, from edition 2024 on, which files may use it."""
        if self._peek() in ("export", "local") and self._peek(1) in ("message", "enum") and self._peek(3) == "{":
            self._next()

    def _set_syntax(self, file: Any, word: str, value: str) -> None:
        from google.protobuf.descriptor_pb2 import Edition

        self._proto3 = value == "proto3"
        file.syntax = "editions" if word == "edition" else value
        if word == "edition":
            try:
                file.edition = Edition.Value(f"EDITION_{value}")
            except ValueError:
                self._fail(self._tokens[self._at - 1][2], f"edition {value!a} is not known")

    def _message(self, message: Any) -> None:
        self._expect("{")
        self._deeper()
        optional: list[Any] = []
        while not self._skip("}"):
            self._skip_visibility()
            word = self._peek()  # protoc takes these words for keywords, too, even where they could name a type
            if word == ";":
                self._next()
            elif word == "message":
                self._next()
                self._message(message.nested_type.add(name=self._next("name")))
            elif word == "enum":
                self._next()
                self._enum(message.enum_type.add(name=self._next("name")))
            elif word == "oneof":
                self._oneof(message, optional)
            elif word in ("reserved", "extensions", "extend"):
                self._skip_statement()
            elif word == "option":
                self._next()
                self._apply([self._option()], message.options)
                self._expect(";")
            else:
                self._field(message, optional)
        for field in optional:  # protoc puts these after the real ones
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")
        self._levels -= 1

    def _oneof(self, message: Any, optional: list[Any]) -> None:
        self._next()
        number = len(message.oneof_decl)
        message.oneof_decl.add(name=self._next("name"))
        self._expect("{")
        while not self._skip("}"):
            if self._peek() == "option":
                self._skip_statement()
            elif not self._skip(";"):
                self._field(message, optional).oneof_index = number

    def _field(self, message: Any, optional: list[Any]) -> Any:
        label = ""
        if self._peek() in _LABELS:
            label = self._next()
        if self._peek() == "map" and self._peek(1) == "<":
            return self._map_field(message)
        field = message.field.add(label=_LABELS[label or "optional"])
        word = self._type_name()
        if word == "group":
            field.type = _GROUP
        elif word in SCALARS:
            field.type = SCALARS[word]
        else:
            field.type_name = word
        field.name = self._next("name")
        self._expect("=")
        field.number = self._integer()
        if self._proto3 and label == "optional":
            field.proto3_optional = True
            optional.append(field)
        self._field_options(field)
        if word == "group":
            field.type_name = field.name
            field.name = field.name.lower()
            self._message(message.nested_type.add(name=field.type_name))
        else:
            self._expect(";")
        return field

    def _map_field(self, message: Any) -> Any:
        self._next()
        self._expect("<")
        types = [self._type_name()]
        self._expect(",")
        types.append(self._type_name())
        self._expect(">")
        name = self._next("name")
        self._expect("=")
        entry = message.nested_type.add(name="".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry")
        entry.options.map_entry = True
        for number, (member, word) in enumerate(zip(("key", "value"), types, strict=True), 1):
            inner = entry.field.add(name=member, number=number, label=1)
            if word in SCALARS:
                inner.type = SCALARS[word]
            else:
                inner.type_name = word
        field = message.field.add(name=name, number=self._integer(), label=3, type=_MESSAGE, type_name=entry.name)
        self._field_options(field)
        self._expect(";")
        return field

    def _field_options(self, field: Any) -> None:
        if not self._skip("["):
            return
        options = [self._option()]
        while self._skip(","):
            options.append(self._option())
        self._expect("]")
        self._apply(options, field.options)
        for path, value in options:
            if path == ["default"]:
                field.default_value = self._default(field.type if field.HasField("type") else 0, value)
            elif path[0].lstrip("(.").removesuffix(")") == "confluent.field_meta" and isinstance(value, dict):
                params = [entry for entry in value.get("params", ()) if isinstance(entry, dict)]
                pairs = [(str(entry.get("key", [""])[0]), str(entry.get("value", [""])[0])) for entry in params]
                field.options.MergeFromString(_encoded_params(pairs))

    def _default(self, kind: int, value: Any) -> str:
        """Return the default of a field as a descriptor has it, which is not always as a file has it."""
        from google.protobuf import text_encoding

        if kind == SCALARS["bytes"] and isinstance(value, _Text):
            return str(text_encoding.CEscape(value.data, False))
        if kind not in _NUMBERS or not isinstance(value, _Word):
            return str(value)
        sign, digits = ("-", value[1:]) if value.startswith("-") else ("", str(value))
        try:
            whole = int(digits, 8) if re.fullmatch(r"0[0-7]+", digits) else int(digits, 0)
            if kind not in _FLOATS:
                return f"{sign}{whole}"
            number = float(whole)
        except OverflowError:
            number = math.inf
        except ValueError:
            try:
                number = float(digits)
            except ValueError:
                self._fail(self._tokens[self._at - 1][2], f"the default {value[:40]!a} is not a number")
        if math.isnan(number):
            return "nan"
        most, least = _FLOATS[kind]
        return sign + ("inf" if number > most else "0" if number < least else repr(number))

    def _enum(self, enum: Any) -> None:
        self._expect("{")
        while not self._skip("}"):
            word = self._next()
            if word == "option":
                self._apply([self._option()], enum.options)
                self._expect(";")
            elif word == "reserved":
                self._skip_statement()
            elif word != ";":
                self._expect("=")
                value = enum.value.add(name=word, number=self._integer())
                self._field_options(value)
                self._expect(";")

    # --- options ---------------------------------------------------------------------------------------------

    def _option(self) -> _Option:
        """Read the name and the value of an option."""
        path: list[str] = []
        while not path or self._skip("."):
            if self._skip("("):
                path.append(f"({self._type_name()})")
                self._expect(")")
            else:
                path.append(self._next("name"))
        self._expect("=")
        return path, self._value()

    def _value(self) -> Any:
        """Read a value: a text, a number, a name, a list, or the members of a message, each a list of values."""
        token = self._peek()
        if token in ("{", "<"):
            return self._aggregate()
        if token == "[":
            self._next()
            self._deeper()
            values = []
            while not self._skip("]"):
                values.append(self._value())
                self._skip(",")
            self._levels -= 1
            return values
        if self._at < len(self._tokens) and self._tokens[self._at][0] == "text":
            return self._string()
        sign = self._next() if token in ("-", "+") else ""
        return _Word(sign + self._next())

    def _aggregate(self) -> dict[str, list[Any]]:
        end = "}" if self._next() == "{" else ">"
        self._deeper()
        members: dict[str, list[Any]] = {}
        while not self._skip(end):
            if self._skip("["):  # an extension, or the name of a type in Any
                while not self._skip("]"):
                    self._next()
                name = "[]"
            else:
                name = self._next("name")
            self._skip(":")
            value = self._value()
            members.setdefault(name, []).extend(value if isinstance(value, list) else [value])
            if not self._skip(","):
                self._skip(";")
        self._levels -= 1
        return members

    @staticmethod
    def _apply(options: list[_Option], target: Any) -> None:
        """Set options that are fields of Google's message; ignore all others."""
        from google.protobuf import text_encoding, text_format

        for path, value in options:
            if any(part.startswith("(") for part in path) or isinstance(value, dict | list):
                continue
            quoted = value if isinstance(value, _Word) else f'"{text_encoding.CEscape(value.encode(), False)}"'
            text = f"{path[-1]}: {quoted}"
            for part in reversed(path[:-1]):
                text = f"{part} {{ {text} }}"
            try:
                text_format.Merge(text, target)
            except (text_format.ParseError, ValueError):
                continue


class _Word(str):
    """A value that is not a text: a number, a boolean, the name of an enum's value."""

    __slots__ = ()


class _Text(str):
    """A value that is a text. `data` are its bytes, which need not be UTF-8."""

    __slots__ = ("data",)
    data: bytes

    def __new__(cls, data: bytes) -> _Text:
        text = super().__new__(cls, data.decode("utf-8", "replace"))
        text.data = data
        return text


def _unescaped(match: re.Match[bytes]) -> bytes:
    character, octal, hexadecimal, *unicode = match.groups()
    if character is not None:
        return _ESCAPED.get(character, character)
    if octal is not None:
        return bytes([int(octal, 8) & 255])
    if hexadecimal is not None:
        return bytes([int(hexadecimal, 16)])
    number = int(next(digits for digits in unicode if digits is not None), 16)
    return chr(min(number, 0x10FFFF)).encode("utf-8", "replace")


def _encoded_params(params: list[tuple[str, str]]) -> bytes:
    """Return the bytes of field options with these parameters of Confluent's `field_meta`."""
    entries = (_sized(1, key.encode()) + _sized(2, value.encode()) for key, value in params)
    return _sized(FIELD_META, b"".join(_sized(_PARAMS, entry) for entry in entries))


def _sized(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    data.append(number)
    return bytes(data)


def params_of(options: bytes) -> tuple[tuple[str, str], ...]:
    """Return the parameters of Confluent's `field_meta` in the bytes of field options, sorted by name."""
    params: dict[str, str] = {}
    for number, meta in _sized_fields(options):
        if number == FIELD_META:
            for inner, entry in _sized_fields(meta):
                if inner == _PARAMS:
                    parts = dict(_sized_fields(entry))
                    key, value = (parts.get(part, b"").decode("utf-8", "replace") for part in (1, 2))
                    params[key] = value
    return tuple(sorted(params.items()))


def _sized_fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of each field with a size, of a message that is valid."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        if tag & 7 == 0:
            _, at = _read_varint(data, at)
        elif tag & 7 == 2:
            size, at = _read_varint(data, at)
            yield tag >> 3, data[at : at + size]
            at += size
        else:
            at += 8 if tag & 7 == 1 else 4


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return number, at
