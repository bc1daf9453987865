"""Options: declared once, as data, from which parsing, checks, error texts and the tables in the docs follow.

The syntax of values is that of Flink's `WITH (...)` clauses: `true`/`false` in any case, `10 s` and `PT10S`,
`64 mb`, lists with `;` and quotes, maps as `k1:v1,k2:v2` (its `ConfigurationUtils` and `StructuredOptionsSplitter`).
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

    `type` gives the syntax of the value and the Python type it becomes: str, bool, int, float, `timedelta`
    (duration), int bytes (memory), tuple of str (list), dict (map). `allowed` restricts a `string` exactly and an
    `enum` whatever its case, which then takes the spelling given here. `checked` names the one direction in which
    `allowed` is enforced, where Flink does it in one only. A `sensitive` value never reaches a repr or an error.
    `fallback` names keys that count where the option itself is not given. A map is given as one text, as entries of
    its own (`properties.<key>`), or both; an entry of its own wins. A `format` is named by `<name>.format`, its options
    are `<name>.<format>.<option>`, its value is a `Format`, which may be given as it is; it has no default.
    """

    name: str
    type: OptionType = "string"
    default: Any = None
    allowed: tuple[str, ...] | None = None
    doc: str = ""
    since: str = "0.1"
    sensitive: bool = False
    required: bool = False
    checked: Direction | None = None
    fallback: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What a user gives it by."""
        return f"{self.name}.format" if self.type == "format" else self.name

    def masked(self, value: Any) -> Any:
        """The value as it may be shown: without secrets, those in an URL included."""
        if self.sensitive and value is not None:
            return _MASK
        return without_userinfo(value) if isinstance(value, str) else value

    def shown(self, value: str) -> str:
        """The value as it may appear in texts."""
        return repr(self.masked(value))

    def keys(self, given: Mapping[str, Any]) -> list[str]:
        """The given keys that are this option's: those of a map's entries first, then the one whose value counts."""
        has_entries = self.type in ("map", "format")
        entries = [key for key in given if key.startswith(f"{self.name}.")] if has_entries else []
        named = [key for key in (self.name, *self.fallback) if key in given]
        return [*entries, *named[:1]]

    def parse(self, text: str) -> Any:
        """The value of a text; `ValueError` says what is allowed."""
        value = _PARSERS[self.type](text)
        if self.type == "enum" and self.allowed:
            value = next((name for name in self.allowed if name.casefold() == text.casefold()), value)
        if self.allowed and value not in self.allowed:
            raise ValueError(f"supported values are [{', '.join(self.allowed)}]")
        return value


class OptionValues(Mapping[str, Any]):
    """Values of options by name. `options[name]` is the value itself; what shows them all shows no secret.

    So `repr`, `str`, `pprint` and logs have what is in `shown`, the same names with values that may be seen.
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
        """The same names with values that may be seen."""
        return self._shown


@dataclass(frozen=True)
class ParsedOptions:
    """Option values by declared name, and the errors that only one direction makes of them."""

    values: OptionValues
    deferred: Mapping[Direction, OptionError]


def parse_options(
    format: str,
    specs: Sequence[Option],
    given: Mapping[str, Any],
    inner_format: Callable[[str, Option, Sequence[str], Mapping[str, Any]], Any],
) -> ParsedOptions:
    """Check and parse what a user gave; raises `OptionError` for what is unknown, missing or malformed."""
    known = {name: spec for spec in specs for name in (spec.key, *spec.fallback)}
    for name in given:
        if owner(specs, name) is None:
            raise OptionError(
                f"format '{format}' has no option {name!r}.{did_you_mean(str(name), known)} "
                f"Supported options: {listed(known)}",
                format=format,
                option=name,
            )
    values: dict[str, Any] = {}
    deferred: dict[Direction, OptionError] = {}
    for spec in specs:
        keys = spec.keys(given)
        if not keys:
            if spec.required:
                raise OptionError(
                    f"format '{format}' needs the option '{spec.key}': {spec.doc}", format=format, option=spec.key
                )
            values[spec.name] = spec.default
            continue
        if spec.type == "format":
            values[spec.name] = inner_format(format, spec, keys, given)
            continue
        text = given[keys[-1]]
        try:
            values[spec.name] = _map_of(spec, keys, given) if spec.type == "map" else spec.parse(_as_text(text))
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


def owner(specs: Sequence[Option], key: str) -> Option | None:
    """The option that a given key belongs to, by its name, a fallback, or as an entry of a map."""
    return next((spec for spec in specs if spec.keys({key: ""})), None)


def without_userinfo(text: str) -> str:
    """A value, one URL or several with commas between, in which none names a user or a password."""
    return _USERINFO.sub(f"://{_MASK}@", text)


def without_userinfo_in(text: str) -> str:
    """Words of any kind, such as an error's, in which no URL names a user or a password."""
    return _WORD.sub(_word_without_userinfo, text)


def _word_without_userinfo(word: re.Match[str]) -> str:
    head, mark, rest = word[0].partition("://")
    _, at, host = rest.rpartition("@")
    return f"{head}{mark}{_MASK}{at}{host}" if at else word[0]


def _map_of(spec: Option, keys: Sequence[str], given: Mapping[str, Any]) -> dict[str, str]:
    """A map from its one text and its entries."""
    prefix = f"{spec.name}."
    whole: dict[str, str] = {}
    for key in keys:
        if not key.startswith(prefix):
            whole = spec.parse(_as_text(given[key]))
    return whole | {key[len(prefix) :]: _as_text(given[key]) for key in keys if key.startswith(prefix)}


def _as_text(value: Any) -> str:
    """Options are texts, as in a WITH clause; a Python bool or number is taken as its text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise ValueError(f"a text is needed, not {type(value).__name__}")
    text = str(value)
    if _SURROGATE.search(text):
        raise ValueError("it has half of a character, which no message can have: a surrogate without its other half")
    return text


def shown_value(value: Any) -> str:
    """A parsed value as people write it."""
    if isinstance(value, dt.timedelta):
        return f"{value.total_seconds():g} s"
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
    """The entries of a list: trimmed; quotes protect, and double themselves inside.

    A separator at the beginning or the end is passed over, between two of them is an empty entry (Flink's
    `StructuredOptionsSplitter`). `[a, b]`, its newer notation, is read too.
    """
    text = text.strip()
    if separator == ";" and text.startswith("[") and text.endswith("]"):
        return split_list(text[1:-1], ",")
    entries, place = [], 0
    while place <= len(text):
        entry, place = _next_entry(text, place, separator)
        entries.append(entry)
    first, last = entries[0] == "", len(entries) > 1 and entries[-1] == ""
    return tuple(entries[first : len(entries) - last])


def _next_entry(text: str, place: int, separator: str) -> tuple[str, int]:
    """The entry that begins at `place`, and where the next one begins."""
    while text[place : place + 1].isspace():
        place += 1
    quote = text[place : place + 1]
    if quote not in ("'", '"') or not quote:
        stop = text.find(separator, place)
        stop = len(text) if stop < 0 else stop
        return text[place:stop].strip(), stop + 1
    quoted = re.compile(f"{quote}((?:[^{quote}]|{quote}{quote})*){quote}\\s*(?:{separator}|$)").match(text, place)
    if not quoted:
        raise ValueError(f"the quote at character {place + 1} is not closed, or text follows it")
    return quoted[1].replace(quote * 2, quote), quoted.end() + (0 if quoted[0].endswith(separator) else 1)


def _map(text: str) -> dict[str, str]:
    """Pairs such as `a:b,c:'d:e'`; quotes protect a value, and an entry with a comma in it is quoted as a whole.

    `{a: b}`, Flink's newer notation, is read too.
    """
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    found: dict[str, str] = {}
    for entry in split_list(text, ","):
        key, _, rest = entry.partition(":")
        value, end = _next_entry(rest, 0, ":")
        if not key.strip() or not rest.strip() or end <= len(rest):
            raise ValueError("expected key:value pairs with commas between")  # what was found may be a secret
        if key.strip() in found:
            raise ValueError("a key comes twice")
        found[key.strip()] = value
    return found


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
