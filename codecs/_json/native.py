r"""Flink's JSON text written by Spark itself: one expression of public functions, no Python worker, no Arrow.

`to_json` and Flink both write with Jackson, so most values need nothing. The others are rewritten before
`to_json` sees them:

| type | what `to_json` would write | what it is given |
| --- | --- | --- |
| DATE, TIME, TIMESTAMP, TIMESTAMP_LTZ | by patterns, zone and parser policy of the session | variant; text in UTC |
| INTERVAL | `INTERVAL '1-2' YEAR TO MONTH` | months or milliseconds |
| DECIMAL | `1.10` | a variant, which is written as `1.1`; or a fenced text |
| characters past U+FFFF | themselves | themselves; the finished text is escaped: `\uD83D\uDE00` |

A variant never has an exponent (`1E+2`). A decimal that needs one, a multiple of ten or a tiny number, is a text in an
object that no value can imitate, `{"_0":0,"_1":"100E+2","_2":0}`, and the fence around it is removed afterwards. A row
with such a decimal or with a character past U+FFFF takes this complete form, which costs several times as much as
the plain one. A cheap look at the values picks the form.

Rules: Flink's "JSON Format" page and its `RowDataToJsonConverters`; Spark's `JacksonGenerator`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from kvformat.codecs._json.settings import WriteSettings
from kvformat.registry.contract.types import FlinkField, FlinkType, nullable, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

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
_MOST_DECIMALS = 1  # columns of a row, for the cost of each
_MOST_PARTS = 24  # of a row, not written as `to_json` does: so many fit a method that HotSpot compiles
_FIRST_ASTRAL = "\U00010000"
_ASTRAL = r"[\x{10000}-\x{10FFFF}]"
_PLAIN_SCALE = 6  # with more digits after the point BigDecimal.toString may write an exponent
_LARGEST_TINY = 1e-6  # BigDecimal.toString may write an exponent up to here
_LONG_DIGITS = 18
_DOUBLE_DIGITS = 15  # of decimals with so many digits, each is another double

_Scalar = Callable[["Column", FlinkType], "Column"]


def encode_native(row: Column, schema: FlinkType, settings: WriteSettings) -> Column | None:
    """`json_text` where that costs less than the way through Arrow, else None.

    A decimal costs it half a microsecond, more than Arrow needs for five plain columns; and HotSpot leaves methods of
    more than 8000 bytes to its interpreter, of which a decimal takes 1200 and any other part 100 to 900.
    """
    roots = [t.root for _, t in schema.walk()]
    decimals = 0 if settings.plain_decimals else roots.count("DECIMAL")
    parts = sum(root in (*_REWRITTEN, *_STRINGS, *_MAPS) for root in roots)
    return json_text(row, schema, settings) if decimals <= _MOST_DECIMALS and parts <= _MOST_PARTS else None


def json_text(row: Column, schema: FlinkType, settings: WriteSettings) -> Column | None:
    """The JSON message of each row, as a Spark expression.

    `row` is a struct Column whose type is `spark_type(schema)`. The result is BINARY, null for a null row. It depends
    neither on the session's time zone nor on its SQL settings; FLOAT and DOUBLE are the JVM's own text, as in Flink.
    None when a map has keys that are not strings, which Flink's format doesn't write either. (Maps in Spark have no
    null keys, so the options about them have no effect.)
    """
    if any(t.root in _MAPS and t.fields[0].type.root not in _STRINGS for _, t in schema.walk()):
        return None
    ambiguous = has_ambiguous_names(schema)
    if ambiguous:  # members are found by name, in any letter case: give them other names by position
        row = row.cast(spark_type(nullable(numbered_type(schema))))
    return _Encoder(settings, _marker(schema), ambiguous).text(row, schema).cast("binary")


@dataclass(frozen=True, slots=True)
class _Encoder:
    """Builds the expression for one schema.

    No field's name begins with `marker`. With `numbered` the members of a value are called `f0`, `f1`, ...
    """

    settings: WriteSettings
    marker: str
    numbered: bool

    def text(self, row: Column, schema: FlinkType) -> Column:
        """The text of each row: in the plain form, unless some value asks for the complete one."""
        from pyspark.sql import functions as F

        odd = list(self.odd_decimals(row, schema))
        plain = self.to_json(row, schema, self.plain_decimal)
        complete = self.without_fences(self.to_json(row, schema, self.fenced_decimal)) if odd else plain
        if _astral_names(schema):
            return _escaped(complete)
        strings = self.strings(row, schema)
        if strings is None:  # somewhere too deep to look at: look at the text
            text = F.when(_any(odd), complete).otherwise(plain) if odd else plain
            return _let(text, lambda text: F.when(_has_astral([_Strings(text)]), _escaped(text)).otherwise(text))
        doubts = [*odd, _has_astral(strings)] if strings else odd
        if not doubts:
            return plain
        # null is no doubt to CASE
        return F.when(_any(doubts), _escaped(complete) if strings else complete).otherwise(plain)

    def to_json(self, row: Column, schema: FlinkType, decimal: _Scalar) -> Column:
        from pyspark.sql import functions as F

        value = self.rewritten(row, replace(schema, nullable=True), decimal)
        return F.to_json(value, {"ignoreNullFields": str(self.settings.ignore_null_fields).lower()})

    def rewritten(self, value: Column, t: FlinkType, decimal: _Scalar) -> Column:
        """The value as `to_json` has to see it; `decimal` does it for DECIMAL."""
        from pyspark.sql import functions as F

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
        """The fields of a ROW, each with its value."""
        for i, field in enumerate(t.fields):
            yield field, value.getField(f"f{i}" if self.numbered else field.name)

    # --- decimals ------------------------------------------------------------------------------------

    def plain_decimal(self, value: Column, t: FlinkType) -> Column:
        """A decimal that is not odd: a variant loses the zeros at the end, a decimal keeps them."""
        return value if self.settings.plain_decimals else value.cast("variant")

    def fenced_decimal(self, value: Column, t: FlinkType) -> Column:
        """Any decimal; behind a fence where `to_json` would write it in another way."""
        from pyspark.sql import functions as F

        odd = next(self.odd_decimals(value, t), None)
        if odd is None:
            return self.plain_decimal(value, t)
        text = full_text(value, t) if self.settings.plain_decimals else _raw_scientific(value, t)
        parts = (F.lit(0), text, F.lit(0))
        fence = F.struct(*(part.alias(f"{self.marker}{i}") for i, part in enumerate(parts)))
        if self.settings.plain_decimals:  # a variant would lose zeros, so that all have to be texts
            return F.when(value.isNotNull(), fence)
        return F.when(odd, F.to_variant_object(fence)).otherwise(value.cast("variant"))

    def without_fences(self, text: Column) -> Column:
        """The JSON with bare numbers where fenced texts were.

        A string can't imitate a fence, as its quotes are escaped; nor can a map, as its values have one type; nor can a
        row, as no field's name begins with the marker.
        """
        from pyspark.sql import functions as F

        opening, closing = rf'\{{"{self.marker}0":0,"{self.marker}1":"', rf'","{self.marker}2":0\}}'
        if self.settings.plain_decimals:
            return F.regexp_replace(text, f'{opening}([^"]*){closing}', "$1")
        first, exponent = rf"{opening}\[?(-?\d)\.?", rf"(E[-+]\d+)\]?{closing}"
        text = F.regexp_replace(text, rf"{first}(\d*[1-9])0*{exponent}", "$1.$2$3")
        return F.regexp_replace(text, rf"{first}0*{exponent}", "$1$2")

    def odd_decimals(self, value: Column, t: FlinkType) -> Iterator[Column]:
        """For each decimal, whether `to_json` can't write its plain form as Flink does."""
        from pyspark.sql import functions as F

        if t.root == "DECIMAL":
            tiny = [_is_tiny(value)] if _may_have_exponent(t) else []
            if not self.settings.plain_decimals:  # a variant is a plain zero
                tiny = [condition & (value.cast("double") != 0) for condition in tiny]
            round_ = [_is_round(value, t)] if _digits_before_point(t) > 1 and not self.settings.plain_decimals else []
            if tiny or round_:
                yield _any([*tiny, *round_])
        elif t.root == "ROW":
            for field, member in self.members(value, t):
                yield from self.odd_decimals(member, field.type)
        elif t.root in ("ARRAY", "MAP") and any(part.root == "DECIMAL" for _, part in t.walk()):
            element = t.fields[-1].type
            if next(self.odd_decimals(F.lit(None), element), None) is not None:
                elements = F.map_values(value) if t.root == "MAP" else value
                yield F.exists(elements, lambda item: _any(list(self.odd_decimals(item, element))))

    # --- characters past U+FFFF ----------------------------------------------------------------------

    def strings(self, value: Column, t: FlinkType, *, in_array: bool = False) -> list[_Strings] | None:
        """All text in a value; None if some of it is nested too deep to be had as a Column."""
        from pyspark.sql import functions as F

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
        """Whether there is text with other characters than ASCII. Also right for bytes that aren't valid UTF-8."""
        from pyspark.sql import functions as F

        return F.exists(self.value, _beyond_ascii) if self.in_array else _beyond_ascii(self.value)


def _all(parts: Sequence[list[_Strings] | None]) -> list[_Strings] | None:
    """The parts as one list, or None if one is None."""
    found: list[_Strings] = []
    for part in parts:
        if part is None:
            return None
        found += part
    return found


def _let(value: Column, body: Callable[[Column], Column]) -> Column:
    """`body(value)`, with the value computed once."""
    from pyspark.sql import functions as F

    return F.transform(F.array(value), body).getItem(0)


def _any(conditions: Sequence[Column]) -> Column:
    return reduce(or_, conditions)


# --- names ---------------------------------------------------------------------------------------------


def has_ambiguous_names(schema: FlinkType) -> bool:
    """Whether some ROW has names that differ in letter case only."""
    rows = (t for _, t in schema.walk() if t.root == "ROW")
    return any(len({field.name.casefold() for field in t.fields}) < len(t.fields) for t in rows)


def numbered_type(t: FlinkType) -> FlinkType:
    """The type with fields called `f0`, `f1`, ... in each ROW."""
    name = (lambda i, old: f"f{i}") if t.root == "ROW" else (lambda i, old: old)
    return replace(t, fields=tuple(FlinkField(name(i, f.name), numbered_type(f.type)) for i, f in enumerate(t.fields)))


def _marker(schema: FlinkType) -> str:
    """Underscores, more than any name begins with."""
    names = [field.name for _, t in schema.walk() for field in t.fields]
    return "_" * (1 + max((len(name) - len(name.lstrip("_")) for name in names), default=0))


def _astral_names(schema: FlinkType) -> bool:
    rows = (t for _, t in schema.walk() if t.root == "ROW")
    return any(character > "\uffff" for t in rows for field in t.fields for character in field.name)


# --- text ----------------------------------------------------------------------------------------------


def _beyond_ascii(string: Column) -> Column:
    from pyspark.sql import functions as F

    return F.octet_length(string) != F.length(string)


def _has_astral(strings: Sequence[_Strings]) -> Column:
    """Whether there are characters past U+FFFF; the search is only done beyond ASCII."""
    from pyspark.sql import functions as F

    return _any([s.beyond_ascii() for s in strings]) & F.concat_ws("", *(s.value for s in strings)).rlike(_ASTRAL)


def _escaped(text: Column) -> Column:
    """The JSON with characters past U+FFFF as two escapes, in upper case, as Jackson writes them into bytes."""
    from pyspark.sql import functions as F

    parts = F.split(text, f"(?={_ASTRAL})", -1)
    return F.array_join(F.transform(parts, _escaped_head), "")


def _escaped_head(part: Column) -> Column:
    """The text with its first character escaped, if that is past U+FFFF."""
    from pyspark.sql import functions as F

    halves = F.hex(F.encode(F.left(part, F.lit(1)), "UTF-16BE"))
    escaped = F.concat(F.regexp_replace(halves, "(....)", r"\\u$1"), F.substr(part, F.lit(2)))
    return F.when(part >= _FIRST_ASTRAL, escaped).otherwise(part)


# --- decimals ------------------------------------------------------------------------------------------


def _digits_before_point(t: FlinkType) -> int:
    return (t.precision or 0) - (t.scale or 0)


def _may_have_exponent(t: FlinkType) -> bool:
    """Whether Java may write an unscaled value of the type with an exponent, `1E-7` or `0E-7`."""
    return (t.scale or 0) > _PLAIN_SCALE


def _is_tiny(value: Column) -> Column:
    """Whether Java writes a decimal with a negative exponent: `1E-7`, or `0E-7` for zero."""
    from pyspark.sql import functions as F

    return (F.abs(value.cast("double")) <= _LARGEST_TINY) & F.to_json(F.array(value)).contains("E")


def _is_round(value: Column, t: FlinkType) -> Column:
    """Whether a decimal is a multiple of ten other than zero, which Flink writes as `1E+2`."""
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
    """Digits and exponent of a decimal that is round or tiny, as `-1200E+3` or `[2.70E-8]`."""
    from pyspark.sql import functions as F

    tiny, whole = F.to_json(F.array(value)), _whole(value, t)
    exponent = F.length(F.abs(whole).cast("string")) - 1
    round_ = F.concat(whole.cast("string"), F.lit("E+"), exponent.cast("string"))
    if not _may_have_exponent(t):
        return round_
    return F.when(_is_tiny(value), tiny).otherwise(round_) if _digits_before_point(t) > 1 else tiny


def _java_text(value: Column, t: FlinkType) -> Column:
    """`BigDecimal.toString`. A cast writes no exponent under ANSI rules, so where one is due `to_json` has to do it."""
    from pyspark.sql import functions as F

    if not _may_have_exponent(t):
        return value.cast("string")
    return F.when(value.isNotNull(), F.btrim(F.to_json(F.array(value)), F.lit("[]")))


def full_text(value: Column, t: FlinkType) -> Column:
    """All digits of the scale, without an exponent: `0.0000000012`."""
    from pyspark.sql import functions as F

    text = _java_text(value, t)
    sign = F.when(text.startswith("-"), "-0.").otherwise("0.")
    digits = F.lpad(F.translate(F.substring_index(text, "E", 1), "-.", ""), t.scale or 0, "0")
    return F.when(text.contains("E"), F.concat(sign, digits)).otherwise(text)


def stripped_text(value: Column, t: FlinkType) -> Column:
    """`BigDecimal.stripTrailingZeros().toString()`: `1.1`, `1E+2`, `1.2E-8`, `0`."""
    from pyspark.sql import functions as F

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
    """The beginning of 1970 without a time zone."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import TimestampNTZType

    return F.lit("1970-01-01 00:00:00").cast(TimestampNTZType())


def _date(value: Column, settings: WriteSettings) -> Column:
    """As a variant, because a cast to text has another calendar where the session asks for the legacy time parser."""
    return value.cast("variant")


def _time(value: Column, settings: WriteSettings) -> Column:
    """Flink's times have milliseconds."""
    from pyspark.sql.types import TimeType

    return value.cast(TimeType(3)).cast("string")


def _timestamp(value: Column, settings: WriteSettings) -> Column:
    from pyspark.sql import functions as F

    text = value.cast("string")
    return F.translate(text, " ", "T") if settings.iso else text


def utc_time(value: Column) -> Column:
    """A TIMESTAMP_LTZ as UTC, by way of the microseconds since 1970: a cast would go through the session's zone."""
    from pyspark.sql import functions as F

    return F.timestamp_add("MICROSECOND", F.unix_micros(value), _epoch())


def _timestamp_ltz(value: Column, settings: WriteSettings) -> Column:
    from pyspark.sql import functions as F

    return F.concat(_timestamp(utc_time(value), settings), F.lit("Z"))


def _months(value: Column, settings: WriteSettings) -> Column:
    from pyspark.sql import functions as F

    return F.date_part(F.lit("YEAR"), value) * 12 + F.date_part(F.lit("MONTH"), value)


def _milliseconds(value: Column, settings: WriteSettings) -> Column:
    """From the interval's own parts, because `timestamp_diff` goes through the session's zone, even without one."""
    from pyspark.sql import functions as F

    days, hours, minutes, seconds = (F.date_part(F.lit(part), value) for part in ("DAY", "HOUR", "MINUTE", "SECOND"))
    whole = ((days.cast("long") * 24 + hours) * 60 + minutes) * 60_000
    return whole + (seconds * 1000).cast("long")  # all parts have one sign, so that this cuts towards zero


_SCALARS: dict[str, Callable[[Column, WriteSettings], Column]] = {
    "DATE": _date,
    "TIME": _time,
    "TIMESTAMP": _timestamp,
    "TIMESTAMP_LTZ": _timestamp_ltz,
    "INTERVAL YEAR TO MONTH": _months,
    "INTERVAL DAY TO SECOND": _milliseconds,
}
