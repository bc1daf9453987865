"""Functions of JSON texts.

    JSON_VALUE(j, '$.a')                   the text of a string, number or boolean
    JSON_QUERY(j, '$.a' WITH WRAPPER)      the text of an array or object
    JSON_EXISTS(j, 'lax $.a[0]')           TRUE if there is a value
    JSON_STRING(r)                         the JSON of any value
    j IS JSON OBJECT

Rules: Flink's `SqlJsonUtils`, `JsonValueCallGen`, `JsonQueryCallGen`, `JsonGenerateUtils`, `JsonQuoteFunction`,
`JsonUnquoteFunction`.
"""

from __future__ import annotations

import base64
import datetime as dt
import functools
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from kvformat.registry.contract.types import STRING, FlinkType
from kvformat.registry.expressions import decimals
from kvformat.registry.expressions.bound import (
    BINARIES,
    BOOLEAN,
    INTEGERS,
    NULL,
    TEXTS,
    TIMESTAMPS,
    BindError,
    Bound,
    by_value,
    constant,
    shown,
)
from kvformat.registry.expressions.functions.json_documents import (
    JsonError,
    RawJson,
    read_json,
    scalar_text,
    write_json,
)
from kvformat.registry.expressions.functions.json_paths import Failed, Find, Unsupported, compile_path, find
from kvformat.registry.expressions.functions.signatures import ANY_COUNT, Function, by_values
from kvformat.registry.expressions.rows import RowError
from kvformat.registry.expressions.tree import Call, Tree
from kvformat.registry.java.numbers import double_text_java17
from kvformat.registry.java.parse import replace_lone_surrogates

_JSON_CALLS: Final = ("JSON_ARRAY", "JSON_OBJECT")
_Handle = Callable[[str], Any]
"""Returns the result for a reason: what ON EMPTY or ON ERROR says. Raises `RowError` for ERROR."""


# --- JSON_VALUE ----------------------------------------------------------------------------------------------


def _bind_value(call: Call, arguments: Sequence[Bound]) -> Bound:
    text, path, *defaults = arguments
    _check_text(call, text, path)
    returned = call.type or STRING
    if returned.root not in ("VARCHAR", "BOOLEAN", "INT", "DOUBLE"):
        raise BindError(
            f"{call.name}: RETURNING {shown(returned)} does not exist in Flink; use STRING, INT, DOUBLE or BOOLEAN, or "
            "cast the result",
            call.offset,
        )
    rest = iter(defaults)
    handlers: list[_Handle] = []
    for event, behavior in zip(("EMPTY", "ERROR"), call.words, strict=True):
        if behavior != "DEFAULT":
            handlers.append(_raise if behavior == "ERROR" else _null)
            continue
        default = next(rest)
        if not default.is_literal or default.type == NULL:
            raise BindError(f"{call.name}: the DEFAULT ON {event} must be a literal that is not NULL", call.offset)
        if default.literal is None:
            return constant(returned, None)
        handlers.append(_default(call, default, returned))
    convert = _returned_text if returned.root == "VARCHAR" else functools.partial(_returned, root=returned.root)
    on_empty, on_error = handlers

    def of_path(evaluate: Find, lax: bool) -> Callable[[str], Any]:
        def value(document: str) -> Any:
            result = evaluate(document)
            kind = type(result)
            if kind is Failed:
                return on_error(result.reason)
            if result is None or (lax and kind in (list, dict)):
                return on_empty("no single value at the path")
            if kind in (list, dict):
                return on_error("the value at the path is an array or object")
            return convert(result)

        return value

    return _with_path(call, returned, of_path, text, path)


def _null(reason: str) -> None:
    """NULL ON EMPTY and NULL ON ERROR."""


def _raise(reason: str) -> Any:
    """ERROR ON EMPTY and ERROR ON ERROR."""
    raise RowError(f"JSON: {reason}")


def _default(call: Call, default: Bound, returned: FlinkType) -> _Handle:
    """Return the handler of DEFAULT. Flink does not cast a default: of another type it fails the rows that need it."""
    root = default.type.root
    if returned.root == "VARCHAR":
        value = _default_text(call, default)
        return lambda _: value
    if root == returned.root and root != "DOUBLE":
        literal = default.literal
        return lambda _: literal

    def fail(reason: str) -> Any:
        raise RowError(f"{call.name}: {reason}; Flink can't return a DEFAULT of {shown(default.type)} here")

    return fail


def _default_text(call: Call, default: Bound) -> str:
    value, root = default.literal, default.type.root
    if root in (*TEXTS, *INTEGERS):
        return str(value)
    if root == "DECIMAL":
        return decimals.text(value, default.type.scale or 0)
    if root == "DOUBLE":
        return double_text_java17(value)
    if root == "BOOLEAN":
        return "true" if value else "false"
    raise BindError(f"{call.name}: a DEFAULT of {shown(default.type)} is not supported; write a text", call.offset)


def _returned_text(value: Any) -> str:
    return replace_lone_surrogates(value) if type(value) is str else scalar_text(value)


def _returned(value: Any, root: str) -> Any:
    """Return a value as an INT, BOOLEAN or DOUBLE, to which Flink does not cast others."""
    kind = type(value)
    if (root == "INT" and kind is int and -(2**31) <= value < 2**31) or (root == "BOOLEAN" and kind is bool):
        return value
    if root == "DOUBLE" and kind is Decimal:
        return 0.0 if value.is_zero() else float(value)  # a BigDecimal has no negative zero
    what = {str: "a string", int: "an integer", bool: "a boolean"}.get(kind, "a number with a point")
    why = "Flink only takes 1.5 or 1e0" if root == "DOUBLE" else "Flink does not cast it"
    raise RowError(f"JSON_VALUE: {what} can't be RETURNING {root}; {why}")


# --- JSON_QUERY and JSON_EXISTS ------------------------------------------------------------------------------


def _bind_query(call: Call, arguments: Sequence[Bound]) -> Bound:
    text, path = arguments
    _check_text(call, text, path)
    returned = call.type or STRING
    is_list = returned.root == "ARRAY" and returned.fields[0].type.root == "VARCHAR"
    if returned.root != "VARCHAR" and not is_list:
        raise BindError(
            f"{call.name}: RETURNING {shown(returned)} does not exist in Flink; use STRING or ARRAY<STRING>",
            call.offset,
        )
    wrapper, *behaviors = call.words
    if is_list and "EMPTY OBJECT" in behaviors:
        raise BindError(f"{call.name}: EMPTY OBJECT does not exist with RETURNING ARRAY", call.offset)
    on_empty, on_error = (_query_handler(behavior, is_list) for behavior in behaviors)
    convert: Callable[[Any], Any] = _written_items if is_list else _written

    def of_path(evaluate: Find, lax: bool) -> Callable[[str], Any]:
        def query(document: str) -> Any:
            result = evaluate(document)
            kind = type(result)
            if kind is Failed:
                return on_error(result.reason)
            if result is None:
                return on_empty("no value at the path")
            if wrapper == "UNCONDITIONAL" or (wrapper == "CONDITIONAL" and kind is not list):
                result = [result]
            elif kind not in (list, dict):
                return (on_empty if lax else on_error)("the value at the path is neither an array nor an object")
            try:
                return convert(result)
            except JsonError as error:
                return on_error(str(error))

        return query

    return _with_path(call, returned, of_path, text, path)


def _query_handler(behavior: str, is_list: bool) -> _Handle:
    if behavior == "ERROR":
        return _raise
    if behavior == "EMPTY ARRAY":
        return (lambda _: []) if is_list else (lambda _: "[]")
    return (lambda _: "{}") if behavior == "EMPTY OBJECT" else _null


def _written(value: Any) -> str:
    return replace_lone_surrogates(write_json(value))


def _written_items(value: Any) -> list[str | None]:
    if type(value) is not list:
        raise JsonError("an object can't be RETURNING ARRAY")
    return [None if item is None else _written_item(item) for item in value]


def _written_item(item: Any) -> str:
    return _written(item) if type(item) in (list, dict) else _returned_text(item)


def _bind_exists(call: Call, arguments: Sequence[Bound]) -> Bound:
    text, path = arguments
    _check_text(call, text, path)
    if path.type.root != "CHAR":
        raise BindError(f"{call.name}: in Flink the path must be a literal", call.offset)
    on_error: dict[str, _Handle] = {"TRUE": lambda _: True, "UNKNOWN": _null, "ERROR": _raise}
    handle: _Handle = on_error.get(call.words[0], lambda _: False)

    def of_path(evaluate: Find, lax: bool) -> Callable[[str], Any]:
        def exists(document: str) -> Any:
            result = evaluate(document)
            return handle(result.reason) if type(result) is Failed else result is not None

        return exists

    return _with_path(call, BOOLEAN, of_path, text, path)


def _check_text(call: Call, text: Bound, path: Bound) -> None:
    for i, argument in enumerate((text, path)):
        if argument.type.root not in TEXTS:
            raise BindError(f"{call.name}: argument {i + 1} must be a text, not {shown(argument.type)}", call.offset)


def _with_path(
    call: Call, type_: FlinkType, of_path: Callable[[Find, bool], Callable[[str], Any]], text: Bound, path: Bound
) -> Bound:
    """Return a call that evaluates a path; `of_path` gets its evaluation, and whether its mode is lax."""
    if path.is_literal:
        if path.literal is None:
            return constant(type_, None)
        try:
            compiled = compile_path(path.literal)
        except Unsupported as error:
            raise BindError(f"{call.name}: {error}", call.offset) from None
        compute_text = of_path(find(compiled), compiled.lax)
        if text.is_literal and type_.root == "VARCHAR":
            compute_text = _cut_to(type_.length or 0, compute_text)
        return by_value(type_, compute_text, [text])
    cache: dict[str, Callable[[str], Any]] = {}

    def compute(document: str, path_text: str) -> Any:
        known = cache.get(path_text)
        if known is None:
            if len(cache) >= _MOST_CACHED:
                cache.clear()
            try:
                compiled = compile_path(path_text)
            except Unsupported as error:
                raise RowError(f"{call.name}: {error}") from None
            known = cache[path_text] = of_path(find(compiled), compiled.lax)
        return known(document)

    return by_value(type_, compute, [text, path])


_MOST_CACHED: Final = 400
"""Results of one expression, because texts repeat."""


def _cut_to(length: int, compute: Callable[[str], Any]) -> Callable[[str], Any]:
    """Cut results to VARCHAR(n), which Flink only does for literals, when it plans the query."""

    def cut(document: str) -> Any:
        text = compute(document)
        return None if text is None else text[:length]

    return cut


# --- IS JSON -------------------------------------------------------------------------------------------------


def _bind_is_json(call: Call, arguments: Sequence[Bound]) -> Bound:
    value = arguments[0]
    if value.type.root not in TEXTS:
        raise BindError(f"{call.name}: only a text can be JSON, not {shown(value.type)}", call.offset)
    kind, negated = call.words[0], call.name == "IS NOT JSON"

    def is_json(text: str | None) -> bool:
        try:
            # NULL is not JSON
            matches = text is not None and _is_kind(kind, read_json(text))
        except JsonError:
            matches = False
        return matches != negated

    return by_value(BOOLEAN, is_json, [value], nulls=True)


def _is_kind(kind: str, value: Any) -> bool:
    if kind == "VALUE":
        return True
    if kind == "SCALAR":
        return type(value) not in (list, dict)
    return type(value) is (dict if kind == "OBJECT" else list)


# --- JSON_STRING, JSON_ARRAY and JSON_OBJECT -----------------------------------------------------------------

_Node = Callable[[Any], Any]
"""Returns what `write_json` writes for a value that is not NULL. Raises `RowError`."""


def _node(call: Call, type_: FlinkType) -> _Node:
    """Return the function that makes JSON of the values of a type, as `JsonGenerateUtils.createNodeTerm`."""
    root = type_.root
    if root in (*TEXTS, *INTEGERS, "BOOLEAN"):
        return lambda value: value
    if root in ("FLOAT", "DOUBLE"):
        return _float_node
    if root == "DECIMAL":
        scale = type_.scale or 0
        return lambda value: Decimal((value < 0, tuple(map(int, str(abs(value)))), -scale))
    if root in BINARIES:
        return lambda value: base64.b64encode(value).decode()
    if root in TIMESTAMPS:
        end = "Z" if root == "TIMESTAMP_LTZ" else ""
        return lambda value: _iso_text(value) + end
    if root in ("ARRAY", "ROW", "MAP", "MULTISET"):
        return _nested_node(call, type_)
    raise BindError(f"{call.name}: Flink does not convert {shown(type_)} to JSON; cast it to STRING", call.offset)


def _nested_node(call: Call, type_: FlinkType) -> _Node:
    members = [_or_null(_node(call, field.type)) for field in type_.fields]
    if type_.root == "ARRAY":
        return lambda value: [members[0](item) for item in value]
    if type_.root == "ROW":
        names = [field.name for field in type_.fields]
        return lambda value: {name: member(item) for name, member, item in zip(names, members, value, strict=True)}
    if type_.fields[0].type.root not in TEXTS:
        raise BindError(f"{call.name}: in JSON the keys of a {type_.root} must be texts", call.offset)
    items = members[1] if type_.root == "MAP" else _or_null(lambda count: count)

    def of_map(value: list[tuple[Any, Any]]) -> dict[str, Any]:
        if any(key is None for key, _ in value):
            raise RowError(f"{call.name}: a key that is NULL can't be a name in JSON")
        return {key: items(item) for key, item in value}

    return of_map


def _or_null(node: _Node) -> _Node:
    return lambda value: None if value is None else node(value)


def _float_node(value: float) -> Any:
    """Return `BigDecimal.valueOf` of a number; of a FLOAT its double. NaN and the infinities become strings."""
    return Decimal(double_text_java17(value)) if math.isfinite(value) else double_text_java17(value)


_EPOCH: Final = dt.datetime(1970, 1, 1)


def _iso_text(micros: int) -> str:
    """Return `DateTimeFormatter.ISO_LOCAL_DATE_TIME` of a timestamp."""
    try:
        text = (_EPOCH + dt.timedelta(microseconds=micros)).isoformat()
    except OverflowError:
        raise RowError("a timestamp out of the years 1 to 9999 can't become JSON here") from None
    return text.rstrip("0") if "." in text else text


def _bind_string(call: Call, arguments: Sequence[Bound]) -> Bound:
    value = arguments[0]
    if value.type == NULL:
        return constant(STRING, None)
    node = _node(call, value.type)
    return by_value(STRING, lambda item: _written_node(node(item)), [value])


def _written_node(value: Any) -> str:
    try:
        return _written(value)
    except JsonError as error:
        raise RowError(str(error)) from None


def _bind_array(call: Call, arguments: Sequence[Bound]) -> Bound:
    nodes = [_member_node(call, tree, argument) for tree, argument in zip(call.arguments, arguments, strict=True)]
    absent = call.words != ("NULL",)

    def array(*values: Any) -> str:
        members = zip(nodes, values, strict=True)
        return _written_node(
            [None if value is None else node(value) for node, value in members if value is not None or not absent]
        )

    return by_value(STRING, array, arguments, nulls=True)


def _bind_object(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Bind JSON_OBJECT, whose arguments are keys and values by turns."""
    if len(arguments) % 2:
        raise BindError(f"{call.name}: each key needs a value", call.offset)
    keys = [key.literal for key in arguments[::2]]
    if not all(isinstance(key, str) for key in keys):
        raise BindError(f"{call.name}: a key must be a text in quotes", call.offset)
    values = arguments[1::2]
    nodes = [_member_node(call, tree, value) for tree, value in zip(call.arguments[1::2], values, strict=True)]
    absent = call.words == ("ABSENT",)

    def object_(*items: Any) -> str:
        members = zip(keys, nodes, items, strict=True)
        return _written_node(
            {
                key: None if value is None else node(value)
                for key, node, value in members
                if value is not None or not absent
            }
        )

    return by_value(STRING, object_, values, nulls=True)


def _member_node(call: Call, tree: Tree, value: Bound) -> _Node:
    """Return the function that makes JSON of an argument; the result of these functions is JSON already."""
    if isinstance(tree, Call) and tree.name in _JSON_CALLS:
        return RawJson
    if value.type == NULL:
        raise BindError(f"{call.name}: Flink does not take NULL here", call.offset)
    return _node(call, value.type)


# --- JSON_QUOTE and JSON_UNQUOTE -----------------------------------------------------------------------------

_quotable = re.compile(r'["\\/\b\f\n\r\t]|[^\x00-\x7f]').sub
_QUOTED: Final = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_escaped = re.compile(r"\\(u?)(.?)", re.DOTALL)
_UNQUOTED: Final = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _quote(text: str) -> str:
    return f'"{_quotable(_quoted, text)}"'


def _quoted(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if code < 128:
        return _QUOTED.get(character, f"\\{character}")
    if code < 0x10000:
        return f"\\u{code:04x}"
    # Flink writes the whole number, and then the second half of the character
    return f"\\u{code:04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def _unquote(text: str) -> str:
    """Return what is between the quotes at both ends of a JSON text, without escapes; other texts as they are."""
    try:
        read_json(text)
    except JsonError:
        return text
    if not (text.startswith('"') and text.endswith('"')):
        return text
    plain = _without_escapes(text[1:-1])
    return text if plain is None else replace_lone_surrogates(plain)


def _without_escapes(text: str) -> str | None:
    """Replace escapes; None if one is unknown. Raises `RowError` where Flink reads past the end."""
    parts: list[str] = []
    at = 0
    while True:
        slash = text.find("\\", at)
        if slash < 0 or slash == len(text) - 1:
            parts.append(text[at:])
            break
        parts.append(text[at:slash])
        escape = text[slash + 1]
        at = slash + 2
        if escape == "u":
            code = text[at : at + 4]
            at += 4
            character = _character(code)
            if character is None:
                return None
            parts.append(character)
        elif escape in _UNQUOTED:
            parts.append(_UNQUOTED[escape])
        else:
            return None
    joined = "".join(parts)
    return (
        joined if joined.isascii() else joined.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    )


def _character(code: str) -> str | None:
    if len(code.encode("utf-16-le", "surrogatepass")) < 8:
        raise RowError("JSON_UNQUOTE: \\u needs four digits")
    if not code.isascii():
        raise RowError("JSON_UNQUOTE: \\u with digits that are not ASCII can't be read here")
    if not re.fullmatch(r"[0-9a-fA-F]{4}|[+-][0-9a-fA-F]{3}", code):
        return None
    return chr(int(code, 16) & 0xFFFF)


FUNCTIONS: dict[str, Function] = {
    "JSON_VALUE": Function(_bind_value, 2, 4),
    "JSON_QUERY": Function(_bind_query, 2, 2),
    "JSON_EXISTS": Function(_bind_exists, 2, 2),
    "IS JSON": Function(_bind_is_json, 1, 1),
    "IS NOT JSON": Function(_bind_is_json, 1, 1),
    "JSON_STRING": Function(_bind_string, 1, 1),
    "JSON_ARRAY": Function(_bind_array, 0, ANY_COUNT),
    "JSON_OBJECT": Function(_bind_object, 0, ANY_COUNT),
    "JSON_QUOTE": by_values(_quote, "TEXT", STRING),
    "JSON_UNQUOTE": by_values(_unquote, "TEXT", STRING),
}
