"""Protobuf schemas for rows, as Flink on Confluent Cloud registers them.

| Flink | proto3 |
| --- | --- |
| BOOLEAN, INT, BIGINT, FLOAT, DOUBLE | bool, int32, int64, float, double |
| TINYINT, SMALLINT | int32 with the parameter `connect.type` |
| CHAR, VARCHAR, BINARY, VARBINARY | string, bytes, with their lengths as parameters |
| DATE, TIME, DECIMAL | google.type.Date, google.type.TimeOfDay, confluent.type.Decimal |
| TIMESTAMP, TIMESTAMP_LTZ | google.protobuf.Timestamp; TIMESTAMP with the parameter `flink.type` |
| ROW | a message in the message, `<name>_Row` |
| ARRAY, MAP, MULTISET | repeated; of a message of key and value, `<Name>Entry` |
| a nullable ARRAY, MAP or MULTISET | a message with the field `value`, `<name>RepeatedWrapper` |
| elements that are nullable, or repeated | a message with the field `value`, `<name>ElementWrapper` |
| nullable | optional; a message that is NOT NULL has the parameter `flink.notNull` |

Parameters are those of the option `(confluent.field_meta)`.
Rules: "Data Type Mappings" in the documentation of Confluent Cloud for Apache Flink.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from kvformat.codecs.protobuf.registry_schema import DATE, DECIMAL, FILES, META, TIME_OF_DAY, TIMESTAMP
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import MAX_LENGTH, FlinkField, FlinkType

WRAPPED, FLINK_TYPE, FLINK_PRECISION, NOT_NULL = "flink.wrapped", "flink.type", "flink.precision", "flink.notNull"
FLINK_MIN, FLINK_MAX, CONNECT_TYPE = "flink.minLength", "flink.maxLength", "connect.type"
PRECISION, SCALE, VALUE = "precision", "scale", "value"
ROOT = "io.confluent.protobuf.generated.Row"
"""The full name of the message of a table's rows."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PLAIN = {"BOOLEAN": "bool", "INT": "int32", "BIGINT": "int64", "FLOAT": "float", "DOUBLE": "double"}
_SMALL = {"TINYINT": "int8", "SMALLINT": "int16"}
_TEXTS = {"CHAR": "string", "VARCHAR": "string", "BINARY": "bytes", "VARBINARY": "bytes"}
_MESSAGES = {"DATE": DATE, "TIME": TIME_OF_DAY, "DECIMAL": DECIMAL, "TIMESTAMP": TIMESTAMP, "TIMESTAMP_LTZ": TIMESTAMP}
_REPEATED = ("ARRAY", "MAP", "MULTISET")
_NO_PRECISION = 9
"""Digits of the messages' nanoseconds, which need no parameter."""


def proto_text(row: FlinkType, format: str, name: str = ROOT) -> str:
    """Return the text of the Protobuf schema for rows, which are messages with this full name.

    Raises `SchemaError` for a type or name that it can't have.
    """
    package, _, message = name.rpartition(".")
    if not all(map(_NAME.fullmatch, name.split("."))):
        raise SchemaError(f"format '{format}': {name!r} can't be the full name of a Protobuf message", format=format)
    writer = _Writer(format)
    body = list(writer.message(row, message, ""))
    imports = [f'import "{name}";' for name in sorted(writer.imports)]
    packages = [f"package {package};"] if package else []
    head = ['syntax = "proto3";', *packages, "", *imports, *([""] if imports else [])]
    return "\n".join([*head, *body]) + "\n"


class _Writer:
    """Writes messages, and notes the files that they import."""

    def __init__(self, format: str) -> None:
        self._format = format
        self.imports: set[str] = set()

    def message(self, row: FlinkType, name: str, path: str) -> Iterator[str]:
        """Yield the lines of a message with a field for each field of a ROW."""
        nested: list[str] = []
        yield f"message {name} {{"
        for number, field in enumerate(row.fields, 1):
            yield f"  {self._field(field, number, nested, f'{path}.{field.name}' if path else field.name)}"
        yield from (f"  {line}" if line else line for line in nested)
        yield "}"

    def _field(self, field: FlinkField, number: int, nested: list[str], path: str) -> str:
        t, name = field.type, field.name
        if not _NAME.fullmatch(name):
            raise SchemaError(
                f"format '{self._format}': column '{path}' can't be a field of a Protobuf message, whose names have "
                "letters, digits and _",
                format=self._format,
                field=path,
            )
        if t.root in _REPEATED and t.nullable:
            inner = FlinkType("ROW", fields=(FlinkField(VALUE, replace(t, nullable=False)),))
            more = {FLINK_TYPE: "multiset"} if t.root == "MULTISET" else {}
            return self._of_message(
                "", inner, f"{name}RepeatedWrapper", field, number, nested, path, {WRAPPED: "true"} | more
            )
        if t.root == "ARRAY":
            return self._array(field, number, nested, path)
        if t.root in _REPEATED:
            key = FlinkField("key", t.fields[0].type)
            value = t.fields[1].type if t.root == "MAP" else FlinkType("INT", nullable=False)
            inner = FlinkType("ROW", fields=(key, FlinkField(VALUE, value)))
            more = {FLINK_TYPE: "multiset"} if t.root == "MULTISET" else {}
            words = [*name.split("_"), "entry"]
            entry = "".join(word[:1].upper() + word[1:].lower() for word in words)
            return self._of_message("repeated ", inner, entry, field, number, nested, path, more)
        label = "optional " if t.nullable else ""
        if t.root == "ROW":
            return self._of_message(label, t, f"{name}_Row", field, number, nested, path, _not_null(t))
        kind, params = self._scalar(t, path)
        return self._line(label, kind, name, number, params)

    def _array(self, field: FlinkField, number: int, nested: list[str], path: str) -> str:
        element = field.type.fields[0].type
        if element.nullable or element.root in _REPEATED:
            inner = FlinkType("ROW", fields=(FlinkField(VALUE, element),))
            wrapper = f"{field.name}ElementWrapper"
            return self._of_message("repeated ", inner, wrapper, field, number, nested, path, {WRAPPED: "true"})
        if element.root == "ROW":
            of = f"{field.name}_Row"
            return self._of_message("repeated ", element, of, field, number, nested, path, _not_null(element))
        kind, params = self._scalar(element, f"{path}.element")
        return self._line("repeated ", kind, field.name, number, params)

    def _of_message(
        self,
        label: str,
        row: FlinkType,
        name: str,
        field: FlinkField,
        number: int,
        nested: list[str],
        path: str,
        params: Mapping[str, str],
    ) -> str:
        nested += ["", *self.message(row, name, path)]
        return self._line(label, name, field.name, number, params)

    def _scalar(self, t: FlinkType, path: str) -> tuple[str, dict[str, str]]:
        """Return the type of a field and its parameters."""
        if t.root in _PLAIN:
            return _PLAIN[t.root], {}
        if t.root in _SMALL:
            return "int32", {CONNECT_TYPE: _SMALL[t.root]}
        if t.root in _TEXTS:
            return _TEXTS[t.root], _lengths(t)
        name = _MESSAGES.get(t.root)
        if name is None:
            raise SchemaError(
                f"format '{self._format}' has no Protobuf schema for column '{path}': {t} is not supported",
                format=self._format,
                field=path,
            )
        self.imports.add(FILES[name])
        params = _not_null(t)
        if t.root == "DECIMAL":
            params |= {PRECISION: str(t.precision), SCALE: str(t.scale)}
        elif t.root != "DATE" and t.precision != _NO_PRECISION:
            params |= {FLINK_PRECISION: str(t.precision)}
        return f".{name}", params | ({FLINK_TYPE: "timestamp"} if t.root == "TIMESTAMP" else {})

    def _line(self, label: str, kind: str, name: str, number: int, params: Mapping[str, str]) -> str:
        if not params:
            return f"{label}{kind} {name} = {number};"
        self.imports.add(META)
        pairs = {**params, "flink.version": "1"}.items()
        texts = ", ".join(f'{{ key: "{key}", value: "{value}" }}' for key, value in pairs)
        return f"{label}{kind} {name} = {number} [(confluent.field_meta) = {{ params: [{texts}] }}];"


def _not_null(t: FlinkType) -> dict[str, str]:
    """Return the parameter of a message that is NOT NULL, which the wire format can't tell."""
    return {} if t.nullable else {NOT_NULL: "true"}


def _lengths(t: FlinkType) -> dict[str, str]:
    if t.length in (None, MAX_LENGTH):
        return {}
    fixed = {FLINK_MIN: str(t.length)} if t.root in ("CHAR", "BINARY") else {}
    return {**fixed, FLINK_MAX: str(t.length)}
