"""Declarations of options, which define parsing, checks, error texts and the tables in the docs.

Values have the syntax of Flink's `WITH (...)` clauses: `true`/`false` in any case, `10 s` and `PT10S`, `64 mb`, lists
with `;` and quotes, maps as `k1:v1,k2:v2`. Source: Flink's `ConfigurationUtils` and `StructuredOptionsSplitter`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kvformat.registry.contract.errors import OptionError, did_you_mean, listed

Direction = Literal["decode", "encode"]
_MASK = "******"
_SURROGATE = re.compile("[\ud800-\udfff]")
_USERINFO = re.compile(r"://(?:(?!,\s*[A-Za-z][A-Za-z0-9+.-]{0,30}://).)*@", re.DOTALL)  # up to the next url of a list
_WORD = re.compile(r"[^\s,\"']+")
OptionType = Literal[
    "string", "boolean", "int", "long", "double", "enum", "duration", "memory", "list", "map", "format"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """The declaration of one option of a format.

    type: syntax of the value and its Python type: str, bool, int, float, `timedelta` (duration), int bytes (memory),
        tuple of str (list), dict (map) or `Format` (format). A map is set as one text, as entries (`properties.<key>`),
        or both; an entry replaces the same key of the text. A format is set by `<name>.format` and its options by
        `<name>.<format>.<option>`, or in Python as a `Format`; it has no default.
    allowed: allowed values. A `string` must be equal to one. An `enum` matches in any case and gets the spelling here.
    least: least value of an `int` or a `long`.
    sensitive: whether the value is a secret, which must not appear in a repr or an error.
    checked: the direction in which `allowed` is enforced, if Flink enforces it in only one direction.
    fallback: keys that are used if the option itself is not set.
    """

    name: str
    type: OptionType = "string"
    default: Any = None
    allowed: tuple[str, ...] | None = None
    least: int | None = None
    doc: str = ""
    since: str = "0.1"
    sensitive: bool = False
    required: bool = False
    checked: Direction | None = None
    fallback: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The key that sets the option."""
        return f"{self.name}.format" if self.type == "format" else self.name

    def masked(self, value: Any) -> Any:
        """Return the value with secrets masked, also those in a URL."""
        if self.sensitive and value is not None:
            return _MASK
        return mask_userinfo(value) if isinstance(value, str) else value

    def shown(self, value: str) -> str:
        """Return the value for error texts: quoted, with secrets masked."""
        return repr(self.masked(value))

    def keys(self, options: Mapping[str, Any]) -> list[str]:
        """Return the keys in `options` that set this option: entries of a map, then the key of highest priority."""
        has_entries = self.type in ("map", "format")
        entries = [key for key in options if key.startswith(f"{self.name}.")] if has_entries else []
        named = [key for key in (self.name, *self.fallback) if key in options]
        return [*entries, *named[:1]]

    def parse(self, text: str) -> Any:
        """Parse a value. Raises `ValueError` naming the allowed values."""
        value = _PARSERS[self.type](text)
        if self.type == "enum" and self.allowed:
            value = next((name for name in self.allowed if name.casefold() == text.casefold()), value)
        if self.allowed and value not in self.allowed:
            raise ValueError(f"supported values are [{', '.join(self.allowed)}]")
        if self.least is not None and value < self.least:
            raise ValueError(f"it must be at least {self.least}")
        return value


class OptionValues(Mapping[str, Any]):
    """Values of options by name. `options[name]` is the real value; `repr` masks secrets.

    `repr`, `str`, `pprint` and logs use the values of `shown`.
    """

    __slots__ = ("_shown", "_values")

    def __init__(self, values: Mapping[str, Any], shown: Mapping[str, Any]) -> None:
        self._values, self._shown = dict(values), dict(shown)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._shown)

    @property
    def shown(self) -> Mapping[str, Any]:
        """The values with secrets masked, by the same names."""
        return self._shown


@dataclass(frozen=True)
class ParsedOptions:
    """Option values by declared name, and errors that apply to only one direction."""

    values: OptionValues
    deferred: Mapping[Direction, OptionError]


def parse_options(
    format: str,
    specs: Sequence[Option],
    options: Mapping[str, Any],
    make_nested_format: Callable[[str, Option, Sequence[str], Mapping[str, Any]], Any],
) -> ParsedOptions:
    """Check and parse the options of the format named `format`.

    `make_nested_format` creates the value of an option of type `format` from the name of the outer format, the
    declaration, the keys and all options. Raises `OptionError` for an unknown, missing or malformed option.
    """
    known = {name: spec for spec in specs for name in (spec.key, *spec.fallback)}
    for name in options:
        if find_option(specs, name) is None:
            raise OptionError(
                f"format '{format}' has no option {name!r}.{did_you_mean(str(name), known)} "
                f"Supported options: {listed(known)}",
                format=format,
                option=name,
            )
    values: dict[str, Any] = {}
    deferred: dict[Direction, OptionError] = {}
    for spec in specs:
        keys = spec.keys(options)
        if not keys:
            if spec.required:
                raise OptionError(
                    f"format '{format}' needs the option '{spec.key}': {spec.doc}", format=format, option=spec.key
                )
            values[spec.name] = spec.default
            continue
        if spec.type == "format":
            values[spec.name] = make_nested_format(format, spec, keys, options)
            continue
        text = options[keys[-1]]
        try:
            values[spec.name] = _map_of(spec, keys, options) if spec.type == "map" else spec.parse(_as_text(text))
        except ValueError as cause:
            error = OptionError(
                f"invalid value {spec.shown(str(text))} for option '{spec.name}' of format '{format}': {cause}",
                format=format,
                option=spec.name,
                reason=str(cause),
            )
            if spec.checked is None:
                raise error from None
            values[spec.name] = text
            deferred[spec.checked] = error
    shown = {spec.name: spec.masked(values[spec.name]) for spec in specs}
    return ParsedOptions(OptionValues(values, shown), deferred)


def find_option(specs: Sequence[Option], key: str) -> Option | None:
    """Return the option that a key belongs to, by name, fallback or as an entry of a map; None if there is none."""
    return next((spec for spec in specs if spec.keys({key: ""})), None)


def mask_userinfo(text: str) -> str:
    """Mask users and passwords in a value that is a URL, or URLs separated by commas."""
    return _USERINFO.sub(f"://{_MASK}@", text)


def mask_userinfo_in_text(text: str) -> str:
    """Mask users and passwords of URLs in a text, such as an error."""
    return _WORD.sub(_word_without_userinfo, text)


def _word_without_userinfo(word: re.Match[str]) -> str:
    head, mark, rest = word[0].partition("://")
    _, at, host = rest.rpartition("@")
    return f"{head}{mark}{_MASK}{at}{host}" if at else word[0]


def _map_of(spec: Option, keys: Sequence[str], options: Mapping[str, Any]) -> dict[str, str]:
    """Build a map from its text and its entries."""
    prefix = f"{spec.name}."
    whole: dict[str, str] = {}
    for key in keys:
        if not key.startswith(prefix):
            whole = spec.parse(_as_text(options[key]))
    return whole | {key[len(prefix) :]: _as_text(options[key]) for key in keys if key.startswith(prefix)}


def _as_text(value: Any) -> str:
    """Return an option as text, as in a WITH clause; a Python bool or number is converted."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise ValueError(f"expected a text, not {type(value).__name__}")
    text = str(value)
    if _SURROGATE.search(text):
        raise ValueError("it contains a single surrogate, which is half of a character and is not valid Unicode")
    return text


def display_value(value: Any) -> str:
    """Return a parsed value as text for people. A number, a duration and a boolean can be parsed again."""
    if isinstance(value, dt.timedelta):
        units = {"s": dt.timedelta(seconds=1), "ms": dt.timedelta(milliseconds=1), "µs": dt.timedelta.resolution}
        return next(f"{value // unit} {name}" for name, unit in units.items() if not value % unit)
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- the syntax of values ------------------------------------------------------------------------------

_UNITS: dict[str, int] = {}  # names of a unit of time -> nanoseconds
for _names, _nanos in (
    ("d day days", 86_400 * 10**9),
    ("h hour hours", 3_600 * 10**9),
    ("m min minute minutes", 60 * 10**9),
    ("s sec secs second seconds", 10**9),
    ("ms milli millis millisecond milliseconds", 10**6),
    ("µs micro micros microsecond microseconds", 10**3),
    ("ns nano nanos nanosecond nanoseconds", 1),
):
    _UNITS |= dict.fromkeys(_names.split(), _nanos)
_BYTES: dict[str, int] = {}
for _names, _count in (
    ("b bytes", 1),
    ("k kb kibibytes", 2**10),
    ("m mb mebibytes", 2**20),
    ("g gb gibibytes", 2**30),
    ("t tb tebibytes", 2**40),
):
    _BYTES |= dict.fromkeys(_names.split(), _count)
_ISO_DURATION = re.compile(r"(-?)P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false (in any letter case)")
    return text.lower() == "true"


def _integer(bits: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d+", text) or not -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1):
            raise ValueError(f"expected a whole number of {bits} bits")
        return int(text)

    return parse


def _double(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("expected a number") from None


def _measure(text: str, units: Mapping[str, int], bare: str, what: str) -> int:
    match = re.fullmatch(r"(\d+)\s*([a-zµ]*)", text.strip().lower())
    if not match or (match[2] or bare) not in units:
        raise ValueError(f"expected {what}, with one of the units {', '.join(units)}")
    return int(match[1]) * units[match[2] or bare]


def _duration(text: str) -> dt.timedelta:
    match = _ISO_DURATION.fullmatch(text.strip())
    try:
        if match and any(match.groups()[1:]):
            days, hours, minutes, seconds = (float(part or 0) for part in match.groups()[1:])
            length = dt.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
            if match[1] and length:
                raise ValueError("a duration can't be negative")
            return length
        return dt.timedelta(microseconds=_measure(text, _UNITS, "ms", "a duration such as '10 s' or 'PT10S'") / 1000)
    except OverflowError:
        raise ValueError(f"a duration can't be longer than {dt.timedelta.max.days} days") from None


def _memory(text: str) -> int:
    return _measure(text, _BYTES, "b", "a size such as '64 mb'")


def split_list(text: str, separator: str = ";") -> tuple[str, ...]:
    """Split a list into trimmed entries.

    Quotes protect separators; a doubled quote inside quotes is a quote. A separator at the beginning or the end is
    skipped. Two consecutive separators give an empty entry. Flink's newer notation `[a, b]` is supported too. Source:
    Flink's `StructuredOptionsSplitter`.
    """
    text = text.strip()
    if separator == ";" and text.startswith("[") and text.endswith("]"):
        return split_list(text[1:-1], ",")
    entries, offset = [], 0
    while offset <= len(text):
        entry, offset = _next_entry(text, offset, separator)
        entries.append(entry)
    first, last = entries[0] == "", len(entries) > 1 and entries[-1] == ""
    return tuple(entries[first : len(entries) - last])


def _next_entry(text: str, offset: int, separator: str) -> tuple[str, int]:
    """Return the entry that starts at an offset, and the offset of the next entry."""
    while text[offset : offset + 1].isspace():
        offset += 1
    quote = text[offset : offset + 1]
    if quote not in ("'", '"') or not quote:
        stop = text.find(separator, offset)
        stop = len(text) if stop < 0 else stop
        return text[offset:stop].strip(), stop + 1
    quoted = re.compile(f"{quote}((?:[^{quote}]|{quote}{quote})*){quote}\\s*(?:{separator}|$)").match(text, offset)
    if not quoted:
        raise ValueError(f"the quote at character {offset + 1} is not closed, or text follows it")
    return quoted[1].replace(quote * 2, quote), quoted.end() + (0 if quoted[0].endswith(separator) else 1)


def _map(text: str) -> dict[str, str]:
    """Parse pairs such as `a:b,c:'d:e'`.

    Quotes protect a value; an entry with a comma must be quoted as a whole. Flink's newer notation `{a: b}` is
    supported too.
    """
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    pairs: dict[str, str] = {}
    for entry in split_list(text, ","):
        key, _, rest = entry.partition(":")
        value, end = _next_entry(rest, 0, ":")
        if not key.strip() or not rest.strip() or end <= len(rest):
            raise ValueError("expected key:value pairs separated by commas")  # the text may be a secret
        if key.strip() in pairs:
            raise ValueError("a key is set twice")
        pairs[key.strip()] = value
    return pairs


_PARSERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "enum": str,
    "boolean": _boolean,
    "int": _integer(32),
    "long": _integer(64),
    "double": _double,
    "duration": _duration,
    "memory": _memory,
    "list": split_list,
    "map": _map,
}
