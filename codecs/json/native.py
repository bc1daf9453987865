r"""Write Flink's JSON with Spark's own functions: one expression, without Python workers and Arrow.

`to_json` and Flink both write with Jackson, so that most values need no conversion. The others are converted before
`to_json`:

| type | `to_json` alone would write | converted to |
| --- | --- | --- |
| DATE, TIME, TIMESTAMP, TIMESTAMP_LTZ | by patterns, zone and parser policy of the session | variant; text in UTC |
| INTERVAL | `INTERVAL '1-2' YEAR TO MONTH` | months or milliseconds |
| DECIMAL | `1.10` | a variant, which is written as `1.1`; or a fenced text |
| characters above U+FFFF | unescaped | no conversion; the finished text is escaped: `\uD83D\uDE00` |

A variant never has an exponent (`1E+2`). Multiples of ten and tiny numbers need one. Such a decimal becomes a text with
a *fence*: an object that no value can imitate, `{"_0":0,"_1":"100E+2","_2":0}`. The fence is removed afterwards. A row
with such a decimal or with a character above U+FFFF takes this complete form, which costs several times as much as the
plain form. A cheap check of the values chooses the form.

Rules: Flink's "JSON Format" page and its `RowDataToJsonConverters`; Spark's `JacksonGenerator`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampNTZType, TimeType

from kvformat.codecs._timestamps.write import TIMESTAMPS
from kvformat.codecs.json.settings import WriteSettings
from kvformat.registry.contract.types import FlinkField, FlinkType, nullable, spark_type

_STRINGS = ("CHAR", "VARCHAR")
_MAPS = ("MAP", "MULTISET")
_REWRITTEN = (
    "DECIMAL",
    "DATE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP_LTZ",
    "INTERVAL YEAR TO MONTH",
    "INTERVAL DAY TO SECOND",
)
_MOST_DECIMALS = 1  # DECIMAL columns of a row, because each is expensive
_MOST_PARTS = 24  # converted columns of a row: the most that fit in a method that HotSpot compiles
_FIRST_ASTRAL = "\U00010000"
_ASTRAL = r"[\x{10000}-\x{10FFFF}]"
_PLAIN_SCALE = 6  # with a larger scale, BigDecimal.toString may write an exponent
_LARGEST_TINY = 1e-6  # BigDecimal.toString may write an exponent up to this number
_LONG_DIGITS = 18
_DOUBLE_DIGITS = 15  # decimals with at most this many digits are distinct doubles

_Scalar = Callable[[Column, FlinkType], Column]


def encode_native(row: Column, schema: FlinkType, settings: WriteSettings) -> Column | None:
    """Return `json_text` if it is cheaper than writing with Arrow, else None.

    A decimal costs half a microsecond here, more than Arrow needs for five plain columns. HotSpot interprets methods of
    more than 8000 bytes; a decimal takes 1200 of these, any other converted column 100 to 900.
    """
    roots = [t.root for _, t in schema.walk()]
    if "VARIANT" in roots:
        return None
    if settings.forms is not None and any(root in TIMESTAMPS for root in roots):
        return None
    decimals = 0 if settings.plain_decimals else roots.count("DECIMAL")
    parts = sum(root in (*_REWRITTEN, *_STRINGS, *_MAPS) for root in roots)
    return json_text(row, schema, settings) if decimals <= _MOST_DECIMALS and parts <= _MOST_PARTS else None


def json_text(row: Column, schema: FlinkType, settings: WriteSettings) -> Column | None:
    """Return a Spark expression for the JSON message of each row.

    `row` is a struct Column of the type `spark_type(schema)`. The result is BINARY, null for a null row. The session's
    time zone and SQL settings do not change it. FLOAT and DOUBLE are the JVM's own text, as in Flink.
    Returns None if a map has keys that are not strings: Flink's format does not write these, either. Maps in Spark have
    no null keys, so that the options for null keys have no effect.
    """
    if any(t.root in _MAPS and t.fields[0].type.root not in _STRINGS for _, t in schema.walk()):
        return None
    ambiguous = has_ambiguous_names(schema)
    if ambiguous:  # Spark finds fields by name and ignores case: rename them by position
        row = row.cast(spark_type(nullable(numbered_type(schema))))
    return _Encoder(settings, _marker(schema), ambiguous).text(row, schema).cast("binary")


@dataclass(frozen=True, slots=True)
class _Encoder:
    """Builds the expression for one schema.

    No field name begins with `marker`. With `numbered`, the fields of a value have the names `f0`, `f1`, ...
    """

    settings: WriteSettings
    marker: str
    numbered: bool

    def text(self, row: Column, schema: FlinkType) -> Column:
        """Format each row: in the plain form, or in the complete form if a value needs it."""
        needs_fence = list(self.fence_conditions(row, schema))
        plain = self.to_json(row, schema, self.plain_decimal)
        complete = self.without_fences(self.to_json(row, schema, self.fenced_decimal)) if needs_fence else plain
        if _astral_names(schema):
            return _escaped(complete)
        strings = self.strings(row, schema)
        if strings is None:  # some strings are nested too deeply to check: check the text
            text = F.when(_any(needs_fence), complete).otherwise(plain) if needs_fence else plain
            return _let(text, lambda text: F.when(_has_astral([_Strings(text)]), _escaped(text)).otherwise(text))
        conditions = [*needs_fence, _has_astral(strings)] if strings else needs_fence
        if not conditions:
            return plain
        # a null condition selects `otherwise`
        return F.when(_any(conditions), _escaped(complete) if strings else complete).otherwise(plain)

    def to_json(self, row: Column, schema: FlinkType, decimal: _Scalar) -> Column:
        value = self.rewritten(row, replace(schema, nullable=True), decimal)
        return F.to_json(value, {"ignoreNullFields": str(self.settings.ignore_null_fields).lower()})

    def rewritten(self, value: Column, t: FlinkType, decimal: _Scalar) -> Column:
        """Convert a value for `to_json`. `decimal` converts DECIMAL."""
        if not self._is_rewritten(t):
            return value
        if t.root == "ROW":
            members = [self.rewritten(v, f.type, decimal).alias(f.name) for f, v in self.members(value, t)]
            struct = F.struct(*members)
            return F.when(value.isNotNull(), struct) if t.nullable else struct
        if t.root == "ARRAY":
            return F.transform(value, lambda element: self.rewritten(element, t.fields[0].type, decimal))
        if t.root == "MAP":
            return F.transform_values(value, lambda _, item: self.rewritten(item, t.fields[1].type, decimal))
        if t.root == "DECIMAL":
            return decimal(value, t)
        return _SCALARS[t.root](value, self.settings)

    def _is_rewritten(self, t: FlinkType) -> bool:
        return any(part.root in _REWRITTEN or (self.numbered and part.root == "ROW") for _, part in t.walk())

    def members(self, value: Column, t: FlinkType) -> Iterator[tuple[FlinkField, Column]]:
        """Yield the fields of a ROW with their values."""
        for i, field in enumerate(t.fields):
            yield field, value.getField(f"f{i}" if self.numbered else field.name)

    # --- decimals ------------------------------------------------------------------------------------

    def plain_decimal(self, value: Column, t: FlinkType) -> Column:
        """Convert a decimal without exponent. A variant loses trailing zeros, a decimal keeps them."""
        return value if self.settings.plain_decimals else value.cast("variant")

    def fenced_decimal(self, value: Column, t: FlinkType) -> Column:
        """Convert any decimal, with a fence if `to_json` would not write it as Flink does."""
        needs_fence = next(self.fence_conditions(value, t), None)
        if needs_fence is None:
            return self.plain_decimal(value, t)
        text = full_text(value, t) if self.settings.plain_decimals else _raw_scientific(value, t)
        parts = (F.lit(0), text, F.lit(0))
        fence = F.struct(*(part.alias(f"{self.marker}{i}") for i, part in enumerate(parts)))
        if self.settings.plain_decimals:  # a variant would lose zeros: every decimal becomes a text
            return F.when(value.isNotNull(), fence)
        return F.when(needs_fence, F.to_variant_object(fence)).otherwise(value.cast("variant"))

    def without_fences(self, text: Column) -> Column:
        """Replace fenced texts by bare numbers in the JSON.

        A string can't imitate a fence, because its quotes are escaped. A map can't, because its values have one type. A
        row can't, because no field name begins with the marker.
        """
        opening, closing = rf'\{{"{self.marker}0":0,"{self.marker}1":"', rf'","{self.marker}2":0\}}'
        if self.settings.plain_decimals:
            return F.regexp_replace(text, f'{opening}([^"]*){closing}', "$1")
        first, exponent = rf"{opening}\[?(-?\d)\.?", rf"(E[-+]\d+)\]?{closing}"
        text = F.regexp_replace(text, rf"{first}(\d*[1-9])0*{exponent}", "$1.$2$3")
        return F.regexp_replace(text, rf"{first}0*{exponent}", "$1$2")

    def fence_conditions(self, value: Column, t: FlinkType) -> Iterator[Column]:
        """Yield a condition for each decimal: `to_json` would not write its plain form as Flink does."""
        if t.root == "DECIMAL":
            tiny = [_is_tiny(value)] if _may_have_exponent(t) else []
            if not self.settings.plain_decimals:  # a variant is a plain zero
                tiny = [condition & (value.cast("double") != 0) for condition in tiny]
            round_ = [_is_round(value, t)] if _digits_before_point(t) > 1 and not self.settings.plain_decimals else []
            if tiny or round_:
                yield _any([*tiny, *round_])
        elif t.root == "ROW":
            for field, member in self.members(value, t):
                yield from self.fence_conditions(member, field.type)
        elif t.root in ("ARRAY", "MAP") and any(part.root == "DECIMAL" for _, part in t.walk()):
            element = t.fields[-1].type
            if next(self.fence_conditions(F.lit(None), element), None) is not None:
                elements = F.map_values(value) if t.root == "MAP" else value
                yield F.exists(elements, lambda item: _any(list(self.fence_conditions(item, element))))

    # --- characters past U+FFFF ----------------------------------------------------------------------

    def strings(self, value: Column, t: FlinkType, *, in_array: bool = False) -> list[_Strings] | None:
        """Return all strings in a value, or None if some are nested too deeply for a Column."""
        if t.root in _STRINGS:
            return [_Strings(value, in_array=in_array)]
        if t.root == "ROW":
            return _all([self.strings(v, f.type, in_array=in_array) for f, v in self.members(value, t)])
        if not any(part.root in _STRINGS for _, part in t.walk()):
            return []
        if in_array:
            return None
        if t.root == "ARRAY":
            return self.strings(value, t.fields[0].type, in_array=True)
        parts = [F.map_keys(value), F.map_values(value)][: len(t.fields)]
        return _all([self.strings(part, f.type, in_array=True) for part, f in zip(parts, t.fields, strict=True)])


@dataclass(frozen=True, slots=True)
class _Strings:
    """A Column of strings, or of arrays of strings."""

    value: Column
    in_array: bool = False

    def beyond_ascii(self) -> Column:
        """Whether a string has characters that are not ASCII. Also right for malformed UTF-8."""
        return F.exists(self.value, _beyond_ascii) if self.in_array else _beyond_ascii(self.value)


def _all(parts: Sequence[list[_Strings] | None]) -> list[_Strings] | None:
    """Join the parts to one list. Returns None if a part is None."""
    joined: list[_Strings] = []
    for part in parts:
        if part is None:
            return None
        joined += part
    return joined


def _let(value: Column, body: Callable[[Column], Column]) -> Column:
    """Return `body(value)`. Spark computes the value once."""
    return F.transform(F.array(value), body).getItem(0)


def _any(conditions: Sequence[Column]) -> Column:
    return reduce(or_, conditions)


# --- names ---------------------------------------------------------------------------------------------


def has_ambiguous_names(schema: FlinkType) -> bool:
    """Whether a ROW has names that differ only in case."""
    rows = (t for _, t in schema.walk() if t.root == "ROW")
    return any(len({field.name.casefold() for field in t.fields}) < len(t.fields) for t in rows)


def numbered_type(t: FlinkType) -> FlinkType:
    """Rename the fields of each ROW to `f0`, `f1`, ..."""
    name = (lambda i, old: f"f{i}") if t.root == "ROW" else (lambda i, old: old)
    return replace(t, fields=tuple(FlinkField(name(i, f.name), numbered_type(f.type)) for i, f in enumerate(t.fields)))


def _marker(schema: FlinkType) -> str:
    """Return a string of underscores that no field name begins with."""
    names = [field.name for _, t in schema.walk() for field in t.fields]
    return "_" * (1 + max((len(name) - len(name.lstrip("_")) for name in names), default=0))


def _astral_names(schema: FlinkType) -> bool:
    rows = (t for _, t in schema.walk() if t.root == "ROW")
    return any(character > "\uffff" for t in rows for field in t.fields for character in field.name)


# --- text ----------------------------------------------------------------------------------------------


def _beyond_ascii(string: Column) -> Column:
    return F.octet_length(string) != F.length(string)


def _has_astral(strings: Sequence[_Strings]) -> Column:
    """Whether strings have characters above U+FFFF. Only strings that are not ASCII are searched."""
    return _any([s.beyond_ascii() for s in strings]) & F.concat_ws("", *(s.value for s in strings)).rlike(_ASTRAL)


def _escaped(text: Column) -> Column:
    """Escape characters above U+FFFF: two escapes in upper case, as Jackson writes them to bytes."""
    parts = F.split(text, f"(?={_ASTRAL})", -1)
    return F.array_join(F.transform(parts, _escaped_head), "")


def _escaped_head(part: Column) -> Column:
    """Escape the first character if it is above U+FFFF."""
    halves = F.hex(F.encode(F.left(part, F.lit(1)), "UTF-16BE"))
    escaped = F.concat(F.regexp_replace(halves, "(....)", r"\\u$1"), F.substr(part, F.lit(2)))
    return F.when(part >= _FIRST_ASTRAL, escaped).otherwise(part)


# --- decimals ------------------------------------------------------------------------------------------


def _digits_before_point(t: FlinkType) -> int:
    return (t.precision or 0) - (t.scale or 0)


def _may_have_exponent(t: FlinkType) -> bool:
    """Whether Java may write a value of the type with a negative exponent, such as `1E-7` or `0E-7`."""
    return (t.scale or 0) > _PLAIN_SCALE


def _is_tiny(value: Column) -> Column:
    """Whether Java writes a decimal with a negative exponent: `1E-7`, or `0E-7` for zero."""
    return (F.abs(value.cast("double")) <= _LARGEST_TINY) & F.to_json(F.array(value)).contains("E")


def _is_round(value: Column, t: FlinkType) -> Column:
    """Whether a decimal is a multiple of ten and not zero. Flink writes it as `1E+2`."""
    number, exact = value.cast("double"), (value % 10).cast("double") == 0
    if _digits_before_point(t) > _LONG_DIGITS:
        return (number != 0) & exact
    whole = _whole(value, t)
    likely = (whole % 10 == 0) & (whole != 0) & (whole.cast("double") == number)
    return likely if (t.precision or 0) <= _DOUBLE_DIGITS else likely & exact


def _whole(value: Column, t: FlinkType) -> Column:
    digits = _digits_before_point(t)
    return value.cast("long" if digits <= _LONG_DIGITS else f"decimal({digits}, 0)")


def _raw_scientific(value: Column, t: FlinkType) -> Column:
    """Format a round or tiny decimal with an exponent: `-1200E+3` or `[2.70E-8]`."""
    tiny, whole = F.to_json(F.array(value)), _whole(value, t)
    exponent = F.length(F.abs(whole).cast("string")) - 1
    round_ = F.concat(whole.cast("string"), F.lit("E+"), exponent.cast("string"))
    if not _may_have_exponent(t):
        return round_
    return F.when(_is_tiny(value), tiny).otherwise(round_) if _digits_before_point(t) > 1 else tiny


def _java_text(value: Column, t: FlinkType) -> Column:
    """Format as `BigDecimal.toString`. A cast writes no exponent under ANSI rules, so `to_json` writes it if needed."""
    if not _may_have_exponent(t):
        return value.cast("string")
    return F.when(value.isNotNull(), F.btrim(F.to_json(F.array(value)), F.lit("[]")))


def full_text(value: Column, t: FlinkType) -> Column:
    """Format all digits of the scale, without an exponent: `0.0000000012`."""
    text = _java_text(value, t)
    sign = F.when(text.startswith("-"), "-0.").otherwise("0.")
    digits = F.lpad(F.translate(F.substring_index(text, "E", 1), "-.", ""), t.scale or 0, "0")
    return F.when(text.contains("E"), F.concat(sign, digits)).otherwise(text)


def stripped_text(value: Column, t: FlinkType) -> Column:
    """Format as `BigDecimal.stripTrailingZeros().toString()`: `1.1`, `1E+2`, `1.2E-8`, `0`."""
    text = _java_text(value, t)
    short = F.rtrim(F.rtrim(text, F.lit("0")), F.lit(".")) if t.scale else text
    digits = F.length(F.ltrim(short, F.lit("-")))
    coefficient = F.regexp_replace(F.rtrim(short, F.lit("0")), "^(-?[0-9])([0-9]+)$", "$1.$2")
    scientific = F.concat(coefficient, F.lit("E+"), (digits - 1).cast("string"))
    return (
        F.when(value.cast("double") == 0, "0")
        .when(text.contains("E"), F.regexp_replace(text, r"\.?0+E", "E"))
        .when(short.endswith("0") & ~short.contains("."), scientific)
        .otherwise(short)
    )


# --- dates, times, intervals ---------------------------------------------------------------------------


def _epoch() -> Column:
    """Return the start of 1970 as a timestamp without time zone."""
    return F.lit("1970-01-01 00:00:00").cast(TimestampNTZType())


def _date(value: Column, settings: WriteSettings) -> Column:
    """Convert to a variant: a cast to text uses another calendar if the session has the legacy time parser policy."""
    return value.cast("variant")


def _time(value: Column, settings: WriteSettings) -> Column:
    """Format with milliseconds, as Flink's TIME has."""
    return value.cast(TimeType(3)).cast("string")


def _timestamp(value: Column, settings: WriteSettings) -> Column:
    text = value.cast("string")
    return F.translate(text, " ", "T") if settings.iso else text


def utc_time(value: Column) -> Column:
    """Convert a TIMESTAMP_LTZ to UTC through its microseconds since 1970. A cast would use the session's time zone."""
    return F.timestamp_add("MICROSECOND", F.unix_micros(value), _epoch())


def _timestamp_ltz(value: Column, settings: WriteSettings) -> Column:
    return F.concat(_timestamp(utc_time(value), settings), F.lit("Z"))


def _months(value: Column, settings: WriteSettings) -> Column:
    value = value.cast("interval year to month")  # Spark does not extract months of an INTERVAL YEAR
    return F.date_part(F.lit("YEAR"), value) * 12 + F.date_part(F.lit("MONTH"), value)


def _milliseconds(value: Column, settings: WriteSettings) -> Column:
    """Add up the interval's parts. `timestamp_diff` would use the session's time zone, even without time zones."""
    value = value.cast("interval day to second")
    days, hours, minutes, seconds = (F.date_part(F.lit(part), value) for part in ("DAY", "HOUR", "MINUTE", "SECOND"))
    whole = ((days.cast("long") * 24 + hours) * 60 + minutes) * 60_000
    return whole + (seconds * 1000).cast("long")  # all parts have the same sign, so that this truncates towards zero


_SCALARS: dict[str, Callable[[Column, WriteSettings], Column]] = {
    "DATE": _date,
    "TIME": _time,
    "TIMESTAMP": _timestamp,
    "TIMESTAMP_LTZ": _timestamp_ltz,
    "INTERVAL YEAR TO MONTH": _months,
    "INTERVAL DAY TO SECOND": _milliseconds,
}
