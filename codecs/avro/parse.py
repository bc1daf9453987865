"""Parse schemas: resolve names and check defaults.

Rules: `org.apache.avro.Schema.Parser`. It is stricter than the specification in some places and less strict in others.
It allows letters of any alphabet in names, and comments where JSON allows whitespace.
"""

from __future__ import annotations

import copyreg
import functools
import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from kvformat.codecs._json_documents import BYTE_ORDER_MARK
from kvformat.codecs.avro.logical import TIMES
from kvformat.codecs.avro.schema import BIG_DECIMAL, MISSING, NAMED, PRIMITIVES, Field, LogicalType, Schema
from kvformat.registry.contract.errors import SchemaError, did_you_mean, listed
from kvformat.registry.java.parse import BLANKS, parse_double, python_float_text

MAX_DEPTH: Final = 64
"""Levels of nesting in a schema: far more than real schemas have, and far fewer than Python's stack allows."""
MAX_NODES: Final = 100_000
"""Types in a schema after every reference is replaced by its definition."""

_RESERVED: Final = frozenset(  # Avro's parser keeps these attributes only where they have a meaning
    {"type", "name", "namespace", "doc", "aliases", "fields", "items", "values", "symbols", "size"}
)
_FIELD: Final = frozenset({"name", "type", "doc", "default", "order", "aliases"})
_ORDERS: Final = ("ascending", "descending", "ignore")
_INT, _LONG = 2**31, 2**63
_UUID_BYTES, _DURATION_BYTES = 16, 12
_COMMENT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|/\*.*?\*/|//[^\r\n]*', re.DOTALL)
"""A comment, or a string, which may contain `//` or `/*`."""


def parse_schema(source: str | Mapping[str, Any] | list[Any], *, check_defaults: bool = True) -> Schema:
    """Parse a schema from JSON text, or from JSON as Python values. A string is always JSON text: '"string"'.

    Schemas are cached: the same text mostly gives the same object. With `check_defaults=False`, the default of a field
    need not fit its type, as in clients of a schema registry. Such a default is an error only when it is used.
    Raises `SchemaError` with the path of the error.
    """
    text = source if isinstance(source, str) else json.dumps(source)
    return _parsed(text, check_defaults)


def _reduce(schema: Schema) -> tuple[Any, ...]:
    """Pickle a schema as its text. The process that loads it parses the text or finds the schema in its cache."""
    return parse_schema, (schema.text,)


copyreg.pickle(Schema, _reduce)


@functools.lru_cache(maxsize=1024)
def _parsed(text: str, check_defaults: bool) -> Schema:
    try:
        node = _json(text.removeprefix(BYTE_ORDER_MARK))
    except RecursionError:
        raise _too_deep("") from None
    except ValueError as cause:
        raise SchemaError(f"not an Avro schema, because it is not valid JSON: {cause}") from cause
    return _Parser(check_defaults).schema(node, "", "", 0)


def _json(text: str) -> Any:
    """Parse JSON text with comments, except after the value. Raises `ValueError`."""
    plain = _COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else " " * len(match[0]), text)
    value, end = _JSON.raw_decode(plain, len(plain) - len(plain.lstrip(" \t\n\r")))
    if text[end:].strip(BLANKS):
        raise ValueError(f"unexpected text after the end of the schema at character {end + 1}")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


_JSON: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def check_name(name: Any, path: str = "") -> None:
    """Raise `SchemaError` unless `name` is a letter or `_`, followed by letters, digits and `_`.

    Letters and digits are those of Unicode's Basic Multilingual Plane, as for Java's `char`.
    """
    if not isinstance(name, str) or not name:
        _fail("a name is missing, or empty", path)
    if not (_is_letter(name[0]) or name[0] == "_"):
        _fail(f"Illegal initial character: {name}", path)
    if not all(_is_letter(c) or c == "_" or (c.isdecimal() and c <= "\uffff") for c in name):
        _fail(f"Illegal character in: {name}. A name has letters, digits and '_'", path)


def is_valid_default(schema: Schema, value: Any) -> bool:
    """Return whether a JSON value is a valid default of the schema; of a union, of any branch, as since Avro 1.12."""
    is_valid, kind = is_valid_default, schema.type
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in ("int", "long"):
        bound = _INT if kind == "int" else _LONG
        return isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound
    if kind in ("float", "double"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind in ("string", "bytes", "enum", "fixed"):
        return isinstance(value, str)
    if kind == "union":
        return any(is_valid(branch, value) for branch in schema.branches)
    if schema.items is not None:
        items = schema.items
        return isinstance(value, list) and all(is_valid(items, item) for item in value)
    if schema.values is not None:
        values = schema.values
        return isinstance(value, dict) and all(is_valid(values, item) for item in value.values())
    return isinstance(value, dict) and all(is_valid(f.schema, value.get(f.name, f.default)) for f in schema.fields)


def _is_letter(character: str) -> bool:
    return character.isalpha() and character <= "\uffff"


def _fail(reason: str, path: str) -> NoReturn:
    where = f" at {path}" if path else ""
    raise SchemaError(f"not an Avro schema{where}: {reason}", field=path or None, reason=reason)


def _too_deep(path: str) -> SchemaError:
    return SchemaError(f"the Avro schema is nested deeper than {MAX_DEPTH} levels", field=path or None)


def joined(path: str, name: str) -> str:
    """Return the path of a field of the record at a path."""
    return f"{path}.{name}" if path else name


class _Parser:
    """Parses one text and keeps the names defined so far."""

    def __init__(self, check_defaults: bool) -> None:
        self._names: dict[str, Schema] = {}
        self._check_defaults = check_defaults
        self._extent: dict[int, tuple[Schema, int, int]] = {}

    def schema(self, node: Any, space: str, path: str, depth: int) -> Schema:
        """Parse a schema from JSON values. Names without a dot belong to the namespace `space`."""
        if depth > MAX_DEPTH:
            raise _too_deep(path)
        parsed = self._schema(node, space, path, depth)
        if id(parsed) not in self._extent:
            self._measure(parsed, path)
        return parsed

    def _measure(self, schema: Schema, path: str) -> None:
        """Refuse schemas that get too large with all references resolved. A hundred records can become 2^100."""
        if schema.type == "record" and self._names.get(schema.full_name) is schema and not schema.fields:
            return  # a reference to a record that is not complete yet, or a record without fields
        inner = [self._extent.get(id(child), (child, 1, 0)) for child in schema.children]
        nodes, levels = 1 + sum(n for _, n, _ in inner), 1 + max((k for _, _, k in inner), default=0)
        if levels > MAX_DEPTH:
            raise _too_deep(path)
        if nodes > MAX_NODES:
            _fail(f"with all references resolved, it has more than {MAX_NODES} types", path)
        self._extent[id(schema)] = schema, nodes, levels

    def _schema(self, node: Any, space: str, path: str, depth: int) -> Schema:
        if isinstance(node, str):
            return self._reference(node, space, path)
        if isinstance(node, list):
            return self._union(node, space, path, depth)
        if not isinstance(node, dict):
            _fail(f"{json.dumps(node)} is not a schema; a schema is a name, a list (a union) or an object", path)
        kind = node.get("type")
        if not isinstance(kind, str):
            _fail("an object needs a 'type' that is a string", path)
        if kind in PRIMITIVES:
            return Schema(kind, logical=_logical(kind, node), properties=_properties(node))
        if kind in (*NAMED, "error"):
            return self._named(node, kind, space, path, depth)
        if kind == "array":
            items = self._inner(node, "items", space, joined(path, "element"), depth)
            return Schema("array", items=items, properties=_properties(node))
        if kind == "map":
            values = self._inner(node, "values", space, joined(path, "value"), depth)
            return Schema("map", values=values, properties=_properties(node))
        return self._reference(kind, space, path)

    def _inner(self, node: dict[str, Any], key: str, space: str, path: str, depth: int) -> Schema:
        if key not in node:
            _fail(f"{node['type']} without '{key}'", path)
        return self.schema(node[key], space, path, depth + 1)

    def _reference(self, name: str, space: str, path: str) -> Schema:
        if name in PRIMITIVES:
            return Schema(name)
        full = name if "." in name or not space else f"{space}.{name}"
        known = self._names.get(full) or self._names.get(name)
        if known is None:
            near = did_you_mean(name, (*PRIMITIVES, "array", "map", *NAMED, *self._names))
            _fail(f"{name!r} is not a defined name.{near} Names defined before: {listed(self._names)}", path)
        return known

    def _union(self, nodes: list[Any], space: str, path: str, depth: int) -> Schema:
        branches = tuple(self.schema(node, space, path, depth + 1) for node in nodes)
        if any(branch.type == "union" for branch in branches):
            _fail("a union may not contain a union", path)
        names = [branch.full_name for branch in branches]
        if len(set(names)) < len(names):
            _fail(f"a union may contain a type only once: [{', '.join(names)}]", path)
        return Schema("union", branches=branches)

    def _named(self, node: dict[str, Any], kind: str, space: str, path: str, depth: int) -> Schema:
        name, namespace = _full_name(node.get("name"), node.get("namespace"), space, path)
        aliases = tuple(dict.fromkeys(_alias(alias, namespace, path) for alias in _texts(node, "aliases", path)))
        full = f"{namespace}.{name}" if namespace else name
        if full in self._names:
            _fail(f"Can't redefine: {full}", path)
        if kind == "fixed":
            schema = _fixed(node, name, namespace, aliases, path)
        elif kind == "enum":
            schema = _enum(node, name, namespace, aliases, path)
        else:
            schema = Schema("record", name, namespace, aliases, is_error=kind == "error")
            return self._record(node, schema, path, depth)
        self._names[full] = schema
        return schema

    def _record(self, node: dict[str, Any], schema: Schema, path: str, depth: int) -> Schema:
        """Parse the fields of a record. They may refer to the record, so its name is defined first."""
        object.__setattr__(schema, "properties", {**_doc(node), **_properties(node)})
        self._names[schema.full_name] = schema
        nodes = node.get("fields")
        if not isinstance(nodes, list):
            _fail("a record needs a list of 'fields'", path)
        fields = tuple(self._field(inner, schema.namespace, path, depth) for inner in nodes)
        names = [f.name for f in fields]
        if len(set(names)) < len(names):
            _fail(f"Duplicate field {next(n for n in names if names.count(n) > 1)} in record {schema.full_name}", path)
        object.__setattr__(schema, "fields", fields)
        return schema

    def _field(self, node: Any, space: str, path: str, depth: int) -> Field:
        if not isinstance(node, dict):
            _fail(f"{json.dumps(node)} is not a field; a field is an object", path)
        name = node.get("name")
        check_name(name, path)
        path = joined(path, str(name))
        if "type" not in node:
            _fail("a field without 'type'", path)
        schema = self.schema(node["type"], space, path, depth + 1)
        default = _default(schema, node.get("default", MISSING), path)
        if self._check_defaults and default is not MISSING and not is_valid_default(schema, default):
            _fail(f"Invalid default for field {name}: {json.dumps(default)} not a {schema}", path)
        aliases = tuple(dict.fromkeys(_texts(node, "aliases", path)))
        properties = {**_doc(node), **_order(node, path), **_properties(node, _FIELD)}
        return Field(str(name), schema, aliases, default, properties)


def _properties(node: dict[str, Any], reserved: frozenset[str] = _RESERVED) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key not in reserved}


def _doc(node: dict[str, Any]) -> dict[str, str]:
    return {"doc": node["doc"]} if isinstance(node.get("doc"), str) else {}


def _order(node: dict[str, Any], path: str) -> dict[str, str]:
    """Return the sort order of a field, unless it is the default."""
    order = node.get("order", "ascending")
    if not isinstance(order, str) or order.lower() not in _ORDERS:
        _fail(f"'order' must be one of {', '.join(_ORDERS)}, not {json.dumps(order)}", path)
    return {} if order.lower() == _ORDERS[0] else {"order": order.lower()}


def _default(schema: Schema, value: Any, path: str) -> Any:
    """Return the default of a field. A string for a float or double is parsed as Java does."""
    if schema.type not in ("float", "double") or not isinstance(value, str):
        return value
    try:
        return parse_double(python_float_text(value))
    except ValueError:
        _fail(f"the default {json.dumps(value)} is not a number", path)


def _texts(node: dict[str, Any], key: str, path: str) -> list[str]:
    texts = node.get(key, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        _fail(f"{key!r} must be a list of strings, not {json.dumps(texts)}", path)
    return texts


def _full_name(name: Any, namespace: Any, space: str, path: str) -> tuple[str, str]:
    """Return name and namespace: from a name with dots, else from the attribute, else the enclosing one `space`."""
    if not isinstance(name, str):
        _fail("a record, enum or fixed needs a 'name'", path)
    if "." in name:
        space, _, name = name.rpartition(".")
    elif isinstance(namespace, str):
        space = namespace
    check_name(name, path)
    if name in PRIMITIVES and not space:
        _fail(f"Schemas may not be named after primitives: {name}", path)
    return name, space


def _alias(alias: str, namespace: str, path: str) -> str:
    name, space = _full_name(alias, None, namespace, path)
    return f"{space}.{name}" if space else name


def _fixed(node: dict[str, Any], name: str, namespace: str, aliases: tuple[str, ...], path: str) -> Schema:
    size = node.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < _INT:
        _fail(f"a fixed needs a 'size' of 0 or more, not {json.dumps(size)}", path)
    logical = _logical("fixed", node)
    properties = {**_doc(node), **_properties(node)}
    return Schema("fixed", name, namespace, aliases, size=size, logical=logical, properties=properties)


def _enum(node: dict[str, Any], name: str, namespace: str, aliases: tuple[str, ...], path: str) -> Schema:
    if not isinstance(node.get("symbols"), list):
        _fail("an enum needs a list of 'symbols'", path)
    symbols = _texts(node, "symbols", path)
    for symbol in symbols:
        check_name(symbol, path)
    if len(set(symbols)) < len(symbols):
        _fail(f"Duplicate enum symbol: {next(s for s in symbols if symbols.count(s) > 1)}", path)
    default = node.get("default")
    if not isinstance(default, str):
        default = None
    elif default not in symbols:
        _fail(f"The Enum Default: {default} is not in the enum symbol set: {symbols}", path)
    properties = {**_doc(node), **_properties(node, _RESERVED | {"default"})}
    return Schema("enum", name, namespace, aliases, symbols=tuple(symbols), default=default, properties=properties)


def _logical(kind: str, node: dict[str, Any]) -> LogicalType | None:
    """Return the logical type if the schema has one that is valid for its type."""
    name, size = node.get("logicalType"), node.get("size", 0)
    if not isinstance(name, str):
        return None
    if name == "decimal":
        return _decimal(kind, node)
    if name == "uuid":
        return LogicalType(name) if kind == "string" or (kind == "fixed" and size == _UUID_BYTES) else None
    if name == BIG_DECIMAL:
        return LogicalType(name) if kind == "bytes" else None
    if name == "duration":
        return LogicalType(name) if kind == "fixed" and size == _DURATION_BYTES else None
    return LogicalType(name) if name in TIMES and TIMES[name].type == kind else None


def _decimal(kind: str, node: dict[str, Any]) -> LogicalType | None:
    precision, scale = node.get("precision"), node.get("scale", 0)
    if kind not in ("bytes", "fixed") or not isinstance(precision, int) or not isinstance(scale, int):
        return None
    if precision <= 0 or not 0 <= scale <= precision:
        return None
    if kind == "fixed" and precision > math.floor(math.log10(2) * (8 * node["size"] - 1)):
        return None
    return LogicalType("decimal", precision, scale)
