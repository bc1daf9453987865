"""The paths of SQL/JSON as Flink has them: a mode, and a path of the library Jayway JsonPath.

    $.a.b[0]          strict: a value that is missing is an error
    lax $['a'][-1]    lax: it does not give a result
    $.a[*].b          a list of all results, maybe empty

Supported are members, lists of members, indexes, slices, wildcards, one deep scan (`..`), and at the end a function
without arguments, such as `length()`. `Unsupported` is raised for filters (Flink lacks a library that most of them
need, and fails the job) and for other functions.

The compiler follows Jayway's, with what it lets pass: `$.*a` is `$.*`, and `$[0]a` is `$[0]`. The words of its
functions are those of `PathCompiler`, so that they can be compared.
Rules: Flink's `SqlJsonUtils`; Jayway's `PathCompiler`, `CharacterIndex`, `PathToken` and its subclasses.
"""

from __future__ import annotations

import functools
import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from kvformat.registry.expressions.functions.json_documents import Double, JsonError, read_json
from kvformat.registry.java.parse import BLANKS

_mode = re.compile(r"\s*(strict|lax)\s+(.+)", re.IGNORECASE | re.DOTALL | re.ASCII).fullmatch
_MOST_PATHS: Final = 400  # as many as Flink keeps
_MOST_LENGTH: Final = 10_000
"""Characters of a path; a path is read recursively."""
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_OF_ARRAYS: Final = frozenset("0123456789-:")


class Unsupported(Exception):
    """A path that can't be evaluated as Flink does; the text says why."""


class InvalidPath(Exception):
    """A path that Jayway does not compile."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An error of a document or path, which ON ERROR handles."""

    reason: str


@dataclass(frozen=True, slots=True)
class PathMembers:
    """Members of objects. Several at the end of a path make an object of their own, else each is followed."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Indexes:
    """Elements of arrays, from 0 or, with a negative index, from the end."""

    indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """The elements of arrays from one index to another."""

    start: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class Wildcard:
    """All members of objects, and all elements of arrays."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The objects and arrays at all levels to which the next step applies."""


@dataclass(frozen=True, slots=True)
class PathCall:
    """A function of the value."""

    name: str


Step = PathMembers | Indexes | Slice | Wildcard | Scan | PathCall


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A compiled path. `invalid` says why Jayway does not compile it; then every document fails."""

    lax: bool
    steps: tuple[Step, ...]
    invalid: str = ""

    @property
    def definite(self) -> bool:
        """Whether the result is one value, not a list."""
        return all(_is_definite(step, last=i == len(self.steps) - 1) for i, step in enumerate(self.steps))


def _is_definite(step: Step, *, last: bool) -> bool:
    if isinstance(step, PathMembers):
        return last or len(step.names) == 1
    return isinstance(step, PathCall) or (isinstance(step, Indexes) and len(step.indexes) == 1)


# --- evaluation ----------------------------------------------------------------------------------------------

Find = Callable[[str], Any]
"""Returns the result for a JSON text: a value, None for none, or `Failed`."""


def find(path: JsonPath) -> Find:
    """Return the function that evaluates a path, as `SqlJsonUtils.jsonApiCommonSyntax` does."""
    read, name, lax = _reader(path), _needed_name(path), path.lax
    missing = None if lax else Failed("no value at the path")

    def evaluate(text: str) -> Any:
        if name not in text and "\\" not in text and not (lax and text.lstrip(BLANKS)[:1] == "n"):
            return missing  # in strict mode also if the text is not valid, in lax mode except for `null`
        try:
            document = read_json(text)
        except JsonError as error:
            return None if lax else Failed(str(error))
        if document is None:
            return Failed("the JSON text is null")
        value = read(document)
        return missing if value is None else value

    return evaluate


def _needed_name(path: JsonPath) -> str:
    """Return a text that JSON without escapes must contain to have a result, which may be empty."""
    if path.invalid or any(_key(step) is None for step in path.steps):
        return ""
    names = [f'"{key}"' for key in map(_key, path.steps) if isinstance(key, str) and _is_plain(key)]
    return max(names, key=len, default="")


def _reader(path: JsonPath) -> Callable[[Any], Any]:
    """Return the function that evaluates a path for a document."""
    if path.invalid:
        failed = Failed(path.invalid)
        return lambda _: failed
    keys = [_key(step) for step in path.steps]
    if None not in keys:
        return functools.partial(_follow, keys)
    return functools.partial(_read, path.steps, path.lax, path.definite)


def _key(step: Step) -> str | int | None:
    """Return the name or index of a step that leads to one value; None for others."""
    if isinstance(step, PathMembers) and len(step.names) == 1:
        return step.names[0]
    return step.indexes[0] if isinstance(step, Indexes) and len(step.indexes) == 1 else None


def _follow(keys: list[Any], document: Any) -> Any:
    """Return the value at a path of single members and elements; None if there is none."""
    for key in keys:
        if type(key) is str:
            document = document.get(key) if type(document) is dict else None
        elif type(document) is list and -len(document) <= key < len(document):
            document = document[key]
        else:
            return None
    return document


def _read(steps: tuple[Step, ...], lax: bool, single: bool, document: Any) -> Any:
    """Evaluate any path, step by step, with all values that the steps so far have led to."""
    values, definite = [document], True
    for i, step in enumerate(steps):
        last = i == len(steps) - 1
        if isinstance(step, Scan):
            values, definite = list(_scan(steps[i + 1], values)), False
            continue
        if definite and not lax and not _applies(step, values[0], last):
            return Failed("the path does not fit the document")
        try:
            values = list(_take(step, values, last))
        except _NoResult as error:
            return Failed(str(error))
        definite = definite and _is_definite(step, last=last)
        if not values:
            break
    if single:
        return values[-1] if values else None
    return values


def _applies(step: Step, value: Any, last: bool) -> bool:
    """Return whether Jayway does not fail at a value that single members and elements have led to."""
    if isinstance(step, PathMembers):
        return type(value) is dict and (last or len(step.names) > 1 or step.names[0] in value)
    return type(value) is list or not isinstance(step, Indexes | Slice)


def _take(step: Step, values: list[Any], last: bool) -> Iterator[Any]:
    """Yield what a step leads to from each of some values."""
    for value in values:
        if isinstance(step, PathCall):
            yield _FUNCTIONS[step.name](value)
        elif isinstance(step, PathMembers):
            if type(value) is dict:
                yield from _members(step.names, value, last)
        elif isinstance(step, Wildcard):
            if type(value) is dict:
                yield from value.values()
            elif type(value) is list:
                yield from value
        elif type(value) is list:
            for index in _indexes(step, len(value)):
                if -len(value) <= index < len(value):
                    yield value[index]


class _NoResult(Exception):
    """A value that a function fails for, in both modes."""


def _length(value: Any) -> int | None:
    return len(value) if type(value) in (list, dict) else None


def _numbers(value: Any) -> list[float]:
    """Return the numbers in an array as doubles."""
    numbers = [_double(item) for item in value if type(item) in (int, Decimal)] if type(value) is list else []
    if not numbers:
        raise _NoResult("a function of numbers, but there is none in an array")
    return numbers


def _double(number: int | Decimal) -> float:
    try:
        return float(number) + 0.0  # without a negative zero
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _sum(numbers: list[float]) -> float:
    total = 0.0
    for number in numbers:  # not `sum`, which is more exact from Python 3.12 on
        total += number
    return total


def _deviation(numbers: list[float]) -> float:
    total, count = _sum(numbers), float(len(numbers))
    variance = _sum([number * number for number in numbers]) / count - total * total / count / count
    return math.sqrt(variance) if variance >= 0 else math.nan


_FUNCTIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "length": _length,
    "size": _length,
    "min": lambda value: Double(min([sys.float_info.max, *_numbers(value)])),
    "max": lambda value: Double(max([5e-324, *_numbers(value)])),  # Java's `Double.MIN_VALUE`, which is not the least
    "sum": lambda value: Double(_sum(_numbers(value))),
    "avg": lambda value: Double(_sum(_numbers(value)) / len(_numbers(value))),
    "stddev": lambda value: Double(_deviation(_numbers(value))),
}


def _members(names: tuple[str, ...], value: dict[str, Any], last: bool) -> Iterator[Any]:
    if last and len(names) > 1:
        yield {name: value[name] for name in names if name in value}
    else:
        for name in names:
            if name in value:
                yield value[name]


def _indexes(step: Step, size: int) -> range | tuple[int, ...]:
    """Return the indexes of an array. A slice with both ends counts a negative start upwards through 0."""
    if isinstance(step, Indexes):
        return step.indexes
    assert isinstance(step, Slice)
    start, end = step.start, step.end
    if end is None:
        assert start is not None
        return range(max(0, start + size if start < 0 else start), size)
    if start is None:
        return range(min(size, end + size if end < 0 else end))
    return range(max(start, -size), min(size, end)) if size else range(0)


def _scan(step: Step, values: list[Any]) -> Iterator[Any]:
    """Yield the objects and arrays in some values to which a step applies, each before those in it."""
    stack = values[::-1]
    while stack:
        value = stack.pop()
        if type(value) is dict:
            if isinstance(step, Wildcard) or (isinstance(step, PathMembers) and _has_all(step.names, value)):
                yield value
            stack += [child for child in reversed(value.values()) if type(child) in (dict, list)]
        elif type(value) is list:
            if not isinstance(step, PathMembers):
                yield value
            stack += [child for child in reversed(value) if type(child) in (dict, list)]


def _has_all(names: tuple[str, ...], value: dict[str, Any]) -> bool:
    return all(name in value for name in names)


# --- compiler ------------------------------------------------------------------------------------------------


@functools.lru_cache(_MOST_PATHS)
def compile_path(text: str) -> JsonPath:
    """Compile a path. Raises `Unsupported`."""
    if len(text) > _MOST_LENGTH:
        raise Unsupported(f"a path of more than {_MOST_LENGTH:,} characters is not supported")
    match = _mode(text)
    lax = match is not None and match[1].lower() == "lax"
    try:
        steps = _Compiler(match[2] if match else text).steps()
    except (InvalidPath, IndexError, ValueError) as error:
        return JsonPath(lax, (), f"'{text:.60}' is not a path of JSON: {error}")
    _check_supported(steps)
    return JsonPath(lax, steps)


def _check_supported(steps: tuple[Step, ...]) -> None:
    scans = [i for i, step in enumerate(steps) if isinstance(step, Scan)]
    calls = [i for i, step in enumerate(steps) if isinstance(step, PathCall)]
    if len(scans) > 1 or (scans and calls):
        raise Unsupported("a path with two deep scans (..), or with one and a function, is not supported")
    if calls and calls[0] < len(steps) - 1:
        raise Unsupported("a path with a function that is not its end is not supported")
    if scans and scans[0] < len(steps) - 2:
        scanned = steps[scans[0] + 1]
        if not isinstance(scanned, PathMembers):
            raise Unsupported(
                "a path with a deep scan (..) for elements of arrays that is not its end is not supported"
            )
        if len(scanned.names) > 1:
            raise Unsupported("a path with a deep scan (..) for several members that is not its end is not supported")


class _Compiler:
    """Reads the steps of a path. Raises `InvalidPath`, and `IndexError` where Jayway reads past the end."""

    def __init__(self, text: str) -> None:
        if not text:
            raise InvalidPath("it is empty")
        self._set_text(text)
        if self.char(0) not in "$@":
            self._set_text(f"$.{text}")
        if self.char(self.last) == ".":
            raise InvalidPath("it ends with a point")
        self.compiled: list[Step] = []

    def _set_text(self, text: str) -> None:
        """Start with a text, without the blanks around it, which remain readable."""
        self.text, self.at, self.last = text, 0, len(text) - 1
        while self.at < self.last and self.text[self.at] == " ":
            self.at += 1
        while self.at < self.last and self.text[self.last] == " ":
            self.last -= 1

    def char(self, at: int) -> str:
        """Return a character. Raises `IndexError`."""
        if at < 0:
            raise IndexError("it ends too early")
        return self.text[at]

    def in_bounds(self, at: int) -> bool:
        """Return whether an index is within the text without blanks around it."""
        return 0 <= at <= self.last

    def next_significant(self, at: int) -> int:
        """Return the index of the next character after `at` that is not a blank; it may be out of bounds."""
        at += 1
        while self.in_bounds(at) and self.text[at] == " ":
            at += 1
        return at

    def next_significant_char(self, at: int) -> str:
        """Return the next character after `at` that is not a blank; a blank at the end."""
        at = self.next_significant(at)
        return self.text[at] if self.in_bounds(at) else " "

    def index_of_next_significant(self, at: int, wanted: str) -> int:
        """Return the index of the next character that is not a blank if it is `wanted`, else -1."""
        at = self.next_significant(at)
        return at if self.char(at) == wanted else -1

    def steps(self) -> tuple[Step, ...]:
        """Read the whole path."""
        while self.in_bounds(self.at) and self.text[self.at] in " \t\n\r":
            self.at += 1
        if self.char(self.at) not in "$@":
            raise InvalidPath("it does not begin with $")
        if self.at < self.last:
            self.at += 1
            if self.char(self.at) not in ".[":
                raise InvalidPath("neither . nor [ after $")
            self._read_token()
            while self.at < self.last:
                self._read_token()
        return tuple(self.compiled)

    def _read_token(self) -> None:
        first = self.char(self.at)
        if first == "[":
            readers = (self._bracket_properties, self._array, self._wildcard, self._filter)
            if not any(read() for read in readers):
                raise InvalidPath("neither a name in quotes, an index nor * in [ ]")
        elif first == ".":
            self._dot()
        elif first == "*":
            if not self._wildcard():
                raise InvalidPath("* is not expected here")
        else:
            self._property_or_function()

    def _dot(self) -> None:
        if self.in_bounds(self.at + 1) and self.text[self.at + 1] == ".":
            self.compiled.append(Scan())
            self.at += 2
        else:
            if not self.in_bounds(self.at + 1):
                raise InvalidPath("it ends with a point")
            self.at += 1
        if self.char(self.at) == ".":
            raise InvalidPath("a point too many")
        self._read_token()

    def _property_or_function(self) -> None:
        start = at = self.at
        if self.char(start) in "[*. ":
            raise InvalidPath("no name after a point")
        while self.in_bounds(at) and self.text[at] not in ".[(":
            if self.text[at] == " ":
                raise InvalidPath("a blank in a name, which needs ['...']")
            at += 1
        name = self.text[start:at]
        if self.in_bounds(at) and self.text[at] == "(":
            self._function(name, at)
        else:
            self.at = at
            self.compiled.append(PathMembers((name,)))

    def _function(self, name: str, at: int) -> None:
        opened = 1
        for i in range(at + 1, self.last + 1):
            opened += {"(": 1, ")": -1}.get(self.text[i], 0)
            if not opened:
                break
        if opened:
            raise InvalidPath(f"the bracket of {name} is not closed")
        if self.text[at + 1] != ")" or name not in _FUNCTIONS:
            raise Unsupported(f"the function {name:.30}() of paths is not supported")
        self.at = at + 1
        self.compiled.append(PathCall(name))

    def _bracket_properties(self) -> bool:
        quote = self.next_significant_char(self.at)
        if quote not in "'\"":
            return False
        names: list[str] = []
        start = at = self.at + 1
        end = 0
        in_name = in_escape = after_comma = False
        while self.in_bounds(at):
            character = self.text[at]
            if in_escape:
                in_escape = False
            elif character == "\\":
                in_escape = True
            elif character == "]" and not in_name:
                if not after_comma:
                    break
                raise InvalidPath("an empty name")
            elif character == quote:
                if in_name:
                    if self.next_significant_char(at) not in "],":
                        raise InvalidPath("neither , nor ] after a name")
                    end = at
                    names.append(_unescape(self.text[start:end]))
                    in_name = False
                else:
                    start, in_name, after_comma = at + 1, True, False
            elif character == "," and not in_name:
                if after_comma:
                    raise InvalidPath("an empty name")
                after_comma = True
            at += 1
        if in_name:
            raise InvalidPath("the quotes of a name are not closed")
        closing = self.index_of_next_significant(end, "]")
        if closing < 0 or not names:
            raise InvalidPath("a [ is not closed")
        self.at = closing + 1
        self.compiled.append(PathMembers(tuple(names)))
        return True

    def _array(self) -> bool:
        first = self.next_significant_char(self.at)
        if first not in _OF_ARRAYS and not first.isdecimal():
            return False
        closing = self.text.find("]", self.at + 1, self.last + 1)
        if closing < 0:
            return False
        operation = self.text[self.at + 1 : closing].strip(BLANKS)
        if any(character.isdecimal() for character in operation if not character.isascii()):
            raise Unsupported("a path with digits that are not ASCII is not supported")
        if not set(operation) <= _OF_ARRAYS | {",", " "}:
            return False
        if ":" in operation:
            self.compiled.append(_slice(operation))
        else:
            self.compiled.append(Indexes(tuple(_integer(token) for token in re.split(r" *, *", operation))))
        self.at = closing + 1
        return True

    def _wildcard(self) -> bool:
        if self.char(self.at) == "[":
            if self.next_significant_char(self.at) != "*":
                return False
            star = self.next_significant(self.at)
            if self.next_significant_char(star) != "]":
                raise InvalidPath("no ] after *")
            self.at = self.next_significant(star)
        self.at += 1
        self.compiled.append(Wildcard())
        return True

    def _filter(self) -> bool:
        question = self.index_of_next_significant(self.at, "?")
        if question < 0:
            return False
        if self.index_of_next_significant(question, "(") >= 0:
            raise Unsupported("a path with a filter [?(...)] is not supported")
        if self.next_significant_char(question) in "],":
            raise InvalidPath("[?] has no filter")
        return False


def _slice(operation: str) -> Slice:
    if set(operation) & {",", " "}:
        raise InvalidPath("not a slice of an array")
    tokens = [*operation.rstrip(":").split(":"), "", ""]
    start, end = (_integer(token) if token else None for token in tokens[:2])
    if start is None and end is None:
        raise InvalidPath("not a slice of an array")
    return Slice(start, end)


def _integer(token: str) -> int:
    if not _INTEGER.fullmatch(token) or len(token) > 20 or not -(2**31) <= int(token) < 2**31:
        raise InvalidPath(f"{token:.20!a} is not an index")
    return int(token)


_ESCAPES: Final = {"r": "\r", "f": "\f", "t": "\t", "n": "\n", "b": "\b"}
_is_plain = re.compile(r'[^"\\\x00-\x1f]*').fullmatch
_escaped = re.compile(r"\\(?:u(.{0,4})|(.)|$)", re.DOTALL).sub


def _unescape(name: str) -> str:
    """Replace the escapes of a name, as Jayway's `Utils.unescape`."""
    if "\\" not in name:
        return name
    unescaped = _escaped(_unescaped, name)
    return unescaped.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _unescaped(match: re.Match[str]) -> str:
    code, character = match.groups()
    if code is not None:
        if len(code) < 4:
            return ""  # Jayway drops what is not complete
        if not re.fullmatch(r"[0-9a-fA-F]{4}", code):
            if not code.isascii() or code[0] in "+-":
                raise Unsupported("a path with an escape that Java reads in its own way is not supported")
            raise InvalidPath(f"\\u{code!a} is not a character")
        return chr(int(code, 16))
    return "\\" if character is None else _ESCAPES.get(character, character)
