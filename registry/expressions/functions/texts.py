"""Functions of texts.

Some of Flink's functions count characters, those of `BinaryStringData`. Others work on Java's texts, whose units are
those of UTF-16: LPAD, RPAD, OVERLAY, REPLACE, SPLIT. They can cut a character of two units in half, which becomes `?`.
Rules: `BinaryStringDataUtil`, `SqlFunctionUtils`, and the classes in `org.apache.flink.table.runtime.functions.scalar`.
"""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow.compute as pc

from kvformat.registry.contract.types import MAX_LENGTH, STRING, FlinkType
from kvformat.registry.expressions.bound import BOOLEAN, FLOATS, INT, INTEGERS, NULL, TEXTS, BindError, Bound, by_value
from kvformat.registry.expressions.functions import text_pieces
from kvformat.registry.expressions.functions.printf import bind_printf
from kvformat.registry.expressions.functions.signatures import ANY_COUNT, Function, checked, same_type
from kvformat.registry.expressions.functions.text_signatures import (
    Result,
    accepted,
    as_varying,
    fixed,
    is_constant,
    text_function,
)
from kvformat.registry.expressions.rows import RowError, Rows, Session, check_length
from kvformat.registry.expressions.tree import Call, Name, Tree
from kvformat.registry.expressions.types import common_type
from kvformat.registry.expressions.vectors import Vector
from kvformat.registry.java.letter_case import UnknownWordEndError, lower, upper
from kvformat.registry.java.parse import is_java_text, python_float_text, replace_lone_surrogates
from kvformat.registry.java.regex_search import as_units, unit_count

_MOST_INT = 2**31 - 1
"""Java's Integer.MAX_VALUE."""
_INTEGER = re.compile(r"[+-]?\d+")
_MOST_DIGITS = 30  # more than a long has
_ASCII_WORD = re.compile("[0-9A-Za-z]+")


# --- letters -------------------------------------------------------------------------------------------------


def _lower(text: str) -> str:
    try:
        return lower(text)
    except UnknownWordEndError as error:
        raise RowError(f"LOWER: {error} is not known here") from None


def _bind_case(convert: Callable[[str], str]) -> Function:
    """Return UPPER or LOWER. A constant that becomes longer than its type is refused.

    Flink cuts it if it is not a part of another constant.
    """

    def bind(call: Call, arguments: Sequence[Bound]) -> Bound:
        value = accepted(call, arguments, "TEXT")[0]
        length = value.type.length or 0

        def of_constant(text: str) -> str:
            converted = convert(text)
            if unit_count(converted) > max(length, unit_count(text)):
                raise RowError(f"{call.name}: a constant that becomes longer is not supported: '{text:.60}'")
            return converted

        if not is_constant(call.arguments[0]):
            return fixed(same_type([value.type]), convert, [value])
        for text in value.evaluate(Rows({}, {}, 1, Session())).values():
            try:
                of_constant(text or "")
            except RowError as error:
                raise BindError(str(error), call.offset) from None
        return fixed(same_type([value.type]), of_constant, [value])

    return Function(bind, 1, 1)


def _initcap(text: str) -> str:
    """Begin words of ASCII letters and digits with a capital. All other characters separate words."""
    return _ASCII_WORD.sub(lambda word: word[0][:1].upper() + word[0][1:].lower(), text)


def _ascii(text: str) -> int:
    """Return the first byte as a Java byte: negative for a character that is not ASCII."""
    if not text:
        return 0
    first = text[0].encode()[0]
    return first - 256 if first > 127 else first


# --- parts of texts ------------------------------------------------------------------------------------------


def _substring(text: str, start: int, length: int = _MOST_INT) -> str | None:
    """Return the part of a text from a position, counted from 1, or from its end if it is negative."""
    if length < 0:
        return None
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[first : first + length] if first >= 0 else ""


def _left(text: str, count: int) -> str:
    return text[:count] if count > 0 else ""


def _overlay(text: str, other: str, start: int, length: int | None = None) -> str:
    """Replace units of UTF-16 from a position. The rest is dropped if no unit is replaced."""
    units, other_units = as_units(text), as_units(other)
    if not 0 < start <= len(units):
        return text
    count = _int(len(other_units) if length is None else length)
    after = _int(start + count)
    rest = ""
    if count > 0 and after <= len(units):
        if after < 1:
            raise RowError(f"OVERLAY: FROM {start} FOR {count} exceeds Java's int")
        rest = units[after - 1 :]
    return replace_lone_surrogates(units[: start - 1] + other_units + rest)


# --- positions -----------------------------------------------------------------------------------------------


def _position(sought: str, text: str, start: int = 1) -> int:
    """Return the position of a text in another from a position on, 0 if there is none, 1 for an empty text."""
    if not sought:
        return 1
    return text.find(sought, max(_int(start - 1), 0)) + 1


def _instr(text: str, sought: str, start: int = 1, occurrence: int = 1) -> int:
    """Return the position of an occurrence; with a negative start it is searched from the end."""
    if occurrence <= 0:
        raise RowError("INSTR: the occurrence must be positive")
    if start == 0:
        return 0
    if start < 0:
        if _int(-start) < 0:
            raise RowError("INSTR: Flink does not end for this start")
        place = _instr(text[::-1], sought[::-1], -start, occurrence)
        return place and len(text) + 2 - place - len(sought)
    if not sought:
        return 1
    at = start - 1
    for _ in range(occurrence):
        at = text.find(sought, at) + 1
        if not at:
            return 0
    return at


# --- changes -------------------------------------------------------------------------------------------------


def _repeat(text: str, count: int) -> str:
    check_length(len(text) * count, text)
    return text * count


def _padding(pad: str, count: int) -> str:
    """Return `count` units of a pad that is repeated."""
    return (pad * (count // len(pad) + 1))[:count] if count > 0 else ""


def _pad(text: str, length: int, pad: str, *, left: bool) -> str | None:
    """Pad or cut a text to a number of units of UTF-16."""
    if length < 0 or not pad:
        return None
    check_length(length, text, pad)
    units, pad_units = as_units(text), as_units(pad)
    if len(units) >= length:
        return replace_lone_surrogates(units[:length])
    padding = _padding(pad_units, length - len(units))
    return replace_lone_surrogates(padding + units if left else units + padding)


def _replace(text: str, old: str, new: str) -> str:
    """Replace a text by another. An empty one is before and after each unit of UTF-16."""
    if not old:
        units = as_units(text)
        check_length((len(units) + 1) * len(new), text, new)
        return replace_lone_surrogates(units.replace("", as_units(new)))
    if len(new) > len(old):
        check_length(len(text) + text.count(old) * (len(new) - len(old)), text, new)
    return text.replace(old, new)


@functools.lru_cache(256)
def _translation(old: str, new: str) -> dict[int, str]:
    table: dict[int, str] = {}
    for i, character in enumerate(old):
        table.setdefault(ord(character), new[i : i + 1])
    return table


def _translate(text: str | None, old: str | None, new: str | None) -> str | None:
    """Replace characters by those at the same places of another text, and remove those that have none."""
    if not text or not old:
        return text
    return text.translate(_translation(old, new or ""))


def _bind_trim(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Bind `TRIM([LEADING | TRAILING | BOTH] characters FROM text)`."""
    sides = {"BOTH": str.strip, "LEADING": str.lstrip, "TRAILING": str.rstrip}
    characters, text = accepted(call, arguments, "TEXT TEXT")
    strip = _trimmer(sides[call.words[0]], call.arguments[0])
    return fixed(as_varying([text.type]), strip, [text, characters])


def _trimming(strip: Callable[[str, str], str], type_: Result, *, null_literals: bool = False) -> Function:
    """Return LTRIM, RTRIM or BTRIM: the characters are the second argument, or a blank."""

    def bind(call: Call, arguments: Sequence[Bound]) -> Bound:
        values = accepted(call, arguments, "TEXT TEXT?", null_literals=null_literals)
        result_type = type_ if isinstance(type_, FlinkType) else type_([values[0].type])
        if len(values) == 1:
            return fixed(result_type, lambda text: strip(text, " "), values)
        return fixed(result_type, _trimmer(strip, call.arguments[1]), values)

    return Function(bind, 1, 2)


def _trimmer(strip: Callable[[str, str], str], characters: Tree) -> Callable[[str, str], str]:
    """Return the function that removes characters from the ends of a text.

    If a text of characters is computed and begins with a blank, Flink removes only blanks, unless it has converted the
    text to Java's before. It fails for an empty one. So a row with such a text fails here.
    """
    of_column = isinstance(characters, Name) or (isinstance(characters, Call) and characters.name == ".")
    if of_column or is_constant(characters):
        return strip

    def checked_strip(text: str, removed: str) -> str:
        if not removed or (removed[0] == " " and len(removed) > 1):
            raise RowError("TRIM: a computed text of characters may not be empty, or begin with a blank")
        return strip(text, removed)

    return checked_strip


# --- several texts -------------------------------------------------------------------------------------------


def _bind_concat(call: Call, arguments: Sequence[Bound]) -> Bound:
    values = accepted(call, arguments, "TEXT*")

    def evaluate(rows: Rows) -> Vector:
        arrays = [value.evaluate(rows).array() for value in values]
        return Vector.of_array(STRING, pc.binary_join_element_wise(*arrays, ""))

    return Bound(STRING, evaluate)


def _concat_ws(separator: str | None, *texts: str | None) -> str | None:
    """Join the texts that are not NULL."""
    return None if separator is None else separator.join([text for text in texts if text is not None])


def _bind_elt(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Bind `ELT(index, values...)`. Flink casts an index that is in the range to Java's Integer."""
    index = accepted(call, arguments[:1], "INTEGER")[0]
    if index.is_literal and index.literal is not None and index.literal < 0:
        raise BindError("ELT: Flink refuses a negative index", call.offset)
    values = checked(call, arguments, "INTEGER TEXT|BYTES*")[1:]
    type_ = common_type([value.type for value in values])
    if type_ is None:
        raise BindError("ELT: the values must be either texts or bytes", call.offset)

    def element(at: int | None, *items: Any) -> Any:
        if at is None or not 1 <= at <= len(items):
            return None
        if index.type.root != "INT":
            raise RowError(f"ELT: the index must be an INT, Flink fails for {index.type.root}")
        return items[at - 1]

    return by_value(type_, element, [index, *values], nulls=True)


def _bind_pair(compute: Callable[[Any, Any], bool]) -> Function:
    """Return STARTSWITH or ENDSWITH: both arguments are texts, or both are bytes."""

    def bind(call: Call, arguments: Sequence[Bound]) -> Bound:
        values = accepted(call, arguments, "TEXT|BYTES TEXT|BYTES", null_literals=True)
        known = {argument.type.root in TEXTS for argument in arguments if argument.type != NULL}
        if len(known) > 1:
            raise BindError(f"{call.name}: both arguments must be texts, or both bytes", call.offset)
        return fixed(BOOLEAN, compute, values)

    return Function(bind, 2, 2)


# --- kinds of texts ------------------------------------------------------------------------------------------


def _is_digit(text: str) -> bool:
    """Return whether a text has only digits, of any script."""
    return text.isdecimal() and is_java_text(text)


def _is_decimal(text: str) -> bool:
    """Return whether Java parses a text as an `int`, a `long` or a `double`."""
    if _INTEGER.fullmatch(text) and is_java_text(text) and abs(int(text[:_MOST_DIGITS])) < 2**63:
        return len(text) < _MOST_DIGITS or text.isascii()
    try:
        return bool(text) and bool(python_float_text(text))
    except ValueError:
        return False


def _bind_is_kind(of_text: Callable[[str], bool], types: Sequence[str]) -> Function:
    """Return IS_ALPHA, IS_DIGIT or IS_DECIMAL. They are TRUE for numbers of some types, also for NULL."""

    def bind(call: Call, arguments: Sequence[Bound]) -> Bound:
        value = accepted(call, arguments, "TEXT|NUMBER")[0]
        if value.type.root not in TEXTS:
            return by_value(BOOLEAN, lambda _: value.type.root in types, [value], nulls=True)
        return by_value(BOOLEAN, lambda text: text is not None and of_text(text), [value], nulls=True)

    return Function(bind, 1, 1)


def _bind_uuid(call: Call, arguments: Sequence[Bound]) -> Bound:
    return by_value(FlinkType("CHAR", length=36), lambda: str(uuid.uuid4()), [])


# --- helpers -------------------------------------------------------------------------------------------------


def _int(number: int) -> int:
    """Return the low 32 bits as a Java int."""
    return (number + 2**31) % 2**32 - 2**31


def _overlay_type(types: Sequence[FlinkType]) -> FlinkType:
    return FlinkType("VARCHAR", length=min(MAX_LENGTH, (types[0].length or 0) + (types[1].length or 0)))


FUNCTIONS: dict[str, Function] = {
    **text_pieces.FUNCTIONS,
    "CHAR_LENGTH": text_function(len, "TEXT", INT),
    "CHARACTER_LENGTH": text_function(len, "TEXT", INT),
    "UPPER": _bind_case(upper),
    "LOWER": _bind_case(_lower),
    "INITCAP": text_function(_initcap, "TEXT", same_type),
    "ASCII": text_function(_ascii, "TEXT", INT),
    # the character of the low byte; none for a negative number
    "CHR": text_function(lambda code: "" if code < 0 else chr(code & 0xFF), "INTEGER", STRING),
    "REVERSE": text_function(lambda text: text[::-1], "TEXT", STRING),
    "SUBSTRING": text_function(_substring, "TEXT INT INT?", as_varying),
    "SUBSTR": text_function(_substring, "TEXT INT INT?", as_varying),
    "LEFT": text_function(_left, "TEXT INT", as_varying),
    "RIGHT": text_function(lambda text, count: text[-count:] if count > 0 else "", "TEXT INT", as_varying),
    "OVERLAY": text_function(_overlay, "TEXT TEXT INTEGER INTEGER?", _overlay_type),
    "POSITION": text_function(_position, "TEXT TEXT INT?", INT),
    "LOCATE": text_function(_position, "TEXT TEXT INT?", INT),
    "INSTR": text_function(_instr, "TEXT TEXT INT? INT?", INT),
    "REPEAT": text_function(_repeat, "TEXT INT", STRING),
    "LPAD": text_function(functools.partial(_pad, left=True), "TEXT INT TEXT", STRING, may_be_null=True),
    "RPAD": text_function(functools.partial(_pad, left=False), "TEXT INT TEXT", STRING, may_be_null=True),
    "REPLACE": text_function(_replace, "TEXT TEXT TEXT", STRING),
    "TRANSLATE": text_function(_translate, "TEXT TEXT TEXT", STRING, nulls=True),
    "TRIM": Function(_bind_trim, 2, 2),
    "LTRIM": _trimming(str.lstrip, as_varying),
    "RTRIM": _trimming(str.rstrip, as_varying),
    "BTRIM": _trimming(str.strip, STRING, null_literals=True),
    "CONCAT": Function(_bind_concat, 1, ANY_COUNT),
    "CONCAT_WS": text_function(_concat_ws, "TEXT TEXT*", STRING, nulls=True),
    "ELT": Function(_bind_elt, 2, ANY_COUNT),
    "STARTSWITH": _bind_pair(lambda text, start: text.startswith(start)),
    "ENDSWITH": _bind_pair(lambda text, end: text.endswith(end)),
    # only letters of a single unit of UTF-16
    "IS_ALPHA": _bind_is_kind(lambda text: text.isalpha() and is_java_text(text), ()),
    "IS_DIGIT": _bind_is_kind(_is_digit, INTEGERS),
    "IS_DECIMAL": _bind_is_kind(_is_decimal, (*INTEGERS, *FLOATS)),
    "PRINTF": Function(bind_printf, 1, ANY_COUNT),
    "UUID": Function(_bind_uuid, 0, 0),
}
