"""SPLIT, SPLIT_INDEX and STR_TO_MAP: the pieces of a text between separators.

Rules: `SqlFunctionUtils`, `SplitFunction`, `org.apache.commons.lang3.StringUtils`, `String.split`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from kvformat.registry.contract.types import STRING, FlinkField, FlinkType
from kvformat.registry.expressions.bound import BindError, Bound
from kvformat.registry.expressions.functions.signatures import Function
from kvformat.registry.expressions.functions.text_signatures import accepted, fixed, text_function
from kvformat.registry.expressions.rows import RowError
from kvformat.registry.expressions.tree import Call
from kvformat.registry.java.hash_maps import in_hash_order
from kvformat.registry.java.parse import replace_lone_surrogates
from kvformat.registry.java.regex import RegexError, SlowMatchError, UnsupportedRegexError
from kvformat.registry.java.regex_search import UnsupportedMatchError, as_units, compile_search, split

_STRINGS = FlinkType("ARRAY", fields=(FlinkField("element", STRING),))
_MAP = FlinkType("MAP", fields=(FlinkField("key", STRING), FlinkField("value", STRING)))
_PATTERN_SIGNS = frozenset("\\[](){}.*+?^$|")
# `Character.isWhitespace`
_BLANK = re.compile("[\t-\r\x1c-\x1f \u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]")


def _split(text: str, delimiter: str) -> list[str]:
    """Split at a delimiter; an empty one makes a piece of each unit of UTF-16."""
    if not delimiter:
        return [replace_lone_surrogates(unit) for unit in as_units(text)]
    return text.split(delimiter) if text else []


def _split_index(text: str, separator: str | int, index: int) -> str | None:
    """Return the piece of a text at an index from 0; an empty separator stands for each blank."""
    if isinstance(separator, int):
        if not 1 <= separator <= 255:
            return None
        separator = chr(separator)
    if index < 0 or not text:
        return None
    pieces = text.split(separator) if separator else re.split(_BLANK, text)
    return pieces[index] if index < len(pieces) else None


def _splitter(delimiter: str) -> Callable[[str, int], list[str]]:
    """Return `String.split` for a delimiter, which is a regular expression, with a limit or 0."""
    if delimiter and not _PATTERN_SIGNS & set(delimiter):

        def split_plain(text: str, limit: int) -> list[str]:
            pieces = text.split(delimiter, limit - 1)
            while not limit and len(pieces) > 1 and not pieces[-1]:
                pieces.pop()
            return pieces if pieces != [""] or not text else []

        return split_plain
    try:
        pattern = compile_search(delimiter)
    except RegexError as error:
        raise RowError(f"STR_TO_MAP: the delimiter '{delimiter:.60}': {error}") from None
    return lambda text, limit: split(pattern, text, limit)


_remembered_splitter = functools.lru_cache(256)(_splitter)


def _str_to_map(text: str, entries: str = ",", pair: str = "=") -> list[tuple[str, str | None]]:
    """Return the map of the pairs in a text, in the order of Java's `HashMap`."""
    if not text:
        return []
    try:
        pieces = _remembered_splitter(entries)(text, 0)
        split_pair = _remembered_splitter(pair)
        pairs: dict[str, str | None] = {}
        for piece in pieces:
            key, *value = split_pair(piece, 2) or [piece]
            pairs[key if value else piece] = value[0] if value else None
        return in_hash_order(pairs, len(pieces))
    except SlowMatchError as error:
        raise RowError(f"STR_TO_MAP: a delimiter takes more than {error.seconds} seconds") from None
    except (UnsupportedMatchError, ValueError) as error:
        raise RowError(f"STR_TO_MAP: {error}") from None


def _bind_str_to_map(call: Call, arguments: Sequence[Bound]) -> Bound:
    if len(arguments) == 2:
        raise BindError("STR_TO_MAP: needs 1 or 3 arguments in Flink, not 2", call.offset)
    values = accepted(call, arguments, "TEXT TEXT? TEXT?")
    for delimiter in values[1:]:
        if delimiter.is_literal and delimiter.literal is not None:
            try:
                compile_search(delimiter.literal)
            except UnsupportedRegexError as error:
                raise BindError(f"STR_TO_MAP: the delimiter '{delimiter.literal:.60}': {error}", call.offset) from None
            except RegexError:
                pass  # the rows fail that are not empty
    return fixed(_MAP, _str_to_map, values)


FUNCTIONS: dict[str, Function] = {
    "SPLIT": text_function(_split, "TEXT TEXT", _STRINGS, null_literals=True),
    "SPLIT_INDEX": text_function(_split_index, "TEXT TEXT|INT INT", STRING),
    "STR_TO_MAP": Function(_bind_str_to_map, 1, 3),
}
