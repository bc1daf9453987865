r"""Flink's JSON text written by Spark itself: one expression of public functions, no Python worker, no Arrow.

`to_json` and Flink both write with Jackson, so most values need nothing. The others are rewritten before
`to_json` sees them:

| type | what `to_json` would write | what it is given |
| --- | --- | --- |
| DATE, TIME, TIMESTAMP, TIMESTAMP_LTZ | by patterns, zone and parser policy of the session | variant; text in UTC |
| INTERVAL | `INTERVAL '1-2' YEAR TO MONTH` | months or milliseconds |
| DECIMAL | `1.10` | a variant, which is written as `1.1`; or a marked text |
| characters past U+FFFF | themselves | themselves; the finished text is escaped: `\uD83D\uDE00` |

A variant never has an exponent (`1E+2`), so a row with a multiple of ten or a tiny number takes the complete form,
which costs about twice as much: its decimals are texts inside an object that no value can imitate,
`{"_":[],"_":"1E+2","_":[]}`, and all of it but the text is removed afterwards. A cheap look at the values picks the
form; it may send a row to the complete form without need, never the other way round.

Rules: Flink's "JSON Format" page and its `RowDataToJsonConverters`; Spark's `JacksonGenerator`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from kvformat.codecs._json.settings import WriteSettings
from kvformat.registry.types import FlinkField, FlinkType, nullable, spark_type

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
_ASTRAL = r"[\x{10000}-\x{10FFFF}]"
_PLAIN_SCALE = 6  # with more digits after the point BigDecimal.toString may write an exponent
_TINY = 1e-6
_LONG_DIGITS = 18
_EXACT_DOUBLE = 1e15

_Scalar = Callable[["Column", FlinkType], "Column"]


def encode_native(row: Column, schema: FlinkType, settings: WriteSettings) -> Column | None:
    """The JSON message of each row, as a Spark expression.

    `row` is a struct Column whose type is `spark_type(schema)`. The result is BINARY, null for a null row. It depends
    neither on the session's time zone nor on its SQL settings; FLOAT and DOUBLE are the JVM's own text, as in Flink.
    None when a map has keys that are not strings, which Flink's format doesn't write either. (Maps in Spark have no
    null keys, so the options about them have no effect.)
    """
    if any(t.root in _MAPS and t.fields[0].type.root not in _STRINGS for _, t in schema.walk()):
        return None
    ambiguous = _has_ambiguous_names(schema)
    if ambiguous:  # members are found by name, in any letter case: give them other names by position
        row = row.cast(spark_type(nullable(_numbered(schema))))
    return _Encoder(settings, _marker_name(schema), ambiguous).text(row, schema).cast("binary")


@dataclass(frozen=True, slots=True)
class _Encoder:
    """Builds the expression for one schema.

    `marker` is a name that no field has. With `numbered` the members of a value are called `f0`, `f1`, ...
    """

    settings: WriteSettings
    marker: str
    numbered: bool

    def text(self, row: Column, schema: FlinkType) -> Column:
        """The text of each row: in the plain form, unless some value asks for the complete one."""
        from pyspark.sql import functions as F

        doubts = list(self.odd_decimals(row, schema))
        plain = self.to_json(row, schema, self.plain_decimal)
        strings = self.strings(row, schema)
        if _astral_names(schema):
            return _escaped(self.complete(row, schema))
        if strings is None:  # somewhere too deep to look at: look at the text
            text = F.when(_any(doubts), self.complete(row, schema)).otherwise(plain) if doubts else plain
            return _let(text, _escaped_if_needed)
        if strings:
            doubts.append(_has_astral(strings))
        if not doubts:
            return plain
        complete = _let(row, lambda row: _let(self.complete(row, schema), _escaped_if_needed))
        return F.when(_any(doubts), complete).otherwise(plain)  # null is no doubt to CASE

    def complete(self, row: Column, schema: FlinkType) -> Column:
        """The text of any row, but for the escapes of characters past U+FFFF."""
        return self.without_markers(self.to_json(row, schema, self.marked_decimal))

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

    def marked_decimal(self, value: Column, t: FlinkType) -> Column:
        """The text of any decimal, wrapped so that its quotes can be removed from the JSON."""
        from pyspark.sql import functions as F

        if self.settings.plain_decimals and not _may_have_exponent(t):
            return value
        text = _full_text(value, t) if self.settings.plain_decimals else _stripped_text(value, t)
        fence = F.array().alias(self.marker)
        return F.when(value.isNotNull(), F.struct(fence, text.alias(self.marker), fence))

    def without_markers(self, text: Column) -> Column:
        """The JSON with bare numbers where marked texts were.

        A string can't imitate a fence, as its quotes are escaped; nor can a map, as its values have one type; nor can a
        row, as none has a field of the marker's name.
        """
        from pyspark.sql import functions as F

        opening, closing = f'{{"{self.marker}":[],"{self.marker}":"', f'","{self.marker}":[]}}'
        return F.replace(F.replace(text, F.lit(opening), F.lit("")), F.lit(closing), F.lit(""))

    def odd_decimals(self, value: Column, t: FlinkType) -> Iterator[Column]:
        """For each decimal, whether it needs the complete form; true too often where that is cheaper to say."""
        from pyspark.sql import functions as F

        if t.root == "DECIMAL":
            odd = _may_be_tiny(value, t) if self.settings.plain_decimals else _may_have_other_text(value, t)
            if odd is not None:
                yield odd
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
            return [_Strings(value, in_array)]
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
    in_array: bool

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
    """`body(value)`, with the value computed once.

    Spark doesn't compile the body. That is what rare and long work needs: in the row's own code it would pass the
    8000 bytes of a method above which the JVM compiles nothing, and all rows would become several times slower.
    """
    from pyspark.sql import functions as F

    return F.transform(F.array(value), body).getItem(0)


def _any(conditions: Sequence[Column]) -> Column:
    return reduce(or_, conditions)


# --- names ---------------------------------------------------------------------------------------------


def _has_ambiguous_names(schema: FlinkType) -> bool:
    """Whether some ROW has names that differ in letter case only."""
    rows = (t for _, t in schema.walk() if t.root == "ROW")
    return any(len({field.name.casefold() for field in t.fields}) < len(t.fields) for t in rows)


def _numbered(t: FlinkType) -> FlinkType:
    """The type with fields called `f0`, `f1`, ... in each ROW."""
    name = (lambda i, old: f"f{i}") if t.root == "ROW" else (lambda i, old: old)
    return replace(t, fields=tuple(FlinkField(name(i, f.name), _numbered(f.type)) for i, f in enumerate(t.fields)))


def _marker_name(schema: FlinkType) -> str:
    names = {field.name for _, t in schema.walk() for field in t.fields}
    return "_" * next(n for n in range(1, len(names) + 2) if "_" * n not in names)


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


def _escaped_if_needed(text: Column) -> Column:
    from pyspark.sql import functions as F

    return F.when(text.rlike(_ASTRAL), _escaped(text)).otherwise(text)


def _escaped(text: Column) -> Column:
    """The JSON with characters past U+FFFF as two escapes, in upper case, as Jackson writes them into bytes."""
    from pyspark.sql import functions as F

    return F.array_join(F.transform(F.split(text, f"(?={_ASTRAL})", -1), _escaped_head), "")


def _escaped_head(part: Column) -> Column:
    """The text with its first character escaped, if that is past U+FFFF."""
    from pyspark.sql import functions as F

    above = F.ascii(part) - 0x10000
    high, low = F.shiftright(above, 10) + 0xD800, above.bitwiseAND(0x3FF) + 0xDC00
    rest = F.right(part, F.length(part) - 1)
    escaped = F.concat(F.lit("\\u"), F.hex(high), F.lit("\\u"), F.hex(low), rest)
    return F.when(above >= 0, escaped).otherwise(part)


# --- decimals ------------------------------------------------------------------------------------------


def _digits_before_point(t: FlinkType) -> int:
    return (t.precision or 0) - (t.scale or 0)


def _may_have_exponent(t: FlinkType) -> bool:
    """Whether Java may write an unscaled value of the type with an exponent, `1E-7` or `0E-7`."""
    return (t.scale or 0) > _PLAIN_SCALE


def _may_be_tiny(value: Column, t: FlinkType) -> Column | None:
    """Whether Java may write the decimal with a negative exponent; None if never."""
    from pyspark.sql import functions as F

    return F.abs(value.cast("double")) <= _TINY if _may_have_exponent(t) else None


def _may_have_other_text(value: Column, t: FlinkType) -> Column:
    """Whether Flink may write the decimal with an exponent: multiples of ten (`1E+2`), and tiny numbers."""
    from pyspark.sql import functions as F

    number = value.cast("double")
    if not t.scale and _digits_before_point(t) > _LONG_DIGITS:
        return value.cast("string").endswith("0") & (number != 0)
    if _digits_before_point(t) > _LONG_DIGITS:
        odd = (F.abs(number) >= _EXACT_DOUBLE) | ((number != 0) & (F.rint(number / 10) * 10 == number))
    else:
        whole = value.cast("long")
        odd = (whole % 10 == 0) & (whole != 0) & (number == whole.cast("double"))
    tiny = _may_be_tiny(value, t)
    return odd if tiny is None else odd | (tiny & (number != 0))


def _java_text(value: Column, t: FlinkType) -> Column:
    """`BigDecimal.toString`. A cast writes no exponent under ANSI rules, so where one is due `to_json` has to do it."""
    from pyspark.sql import functions as F

    if not _may_have_exponent(t):
        return value.cast("string")
    return F.btrim(F.to_json(F.array(value)), F.lit("[]"))


def _full_text(value: Column, t: FlinkType) -> Column:
    """All digits of the scale, without an exponent: `0.0000000012`."""
    from pyspark.sql import functions as F

    text = _java_text(value, t)
    sign = F.when(text.startswith("-"), "-0.").otherwise("0.")
    digits = F.lpad(F.translate(F.substring_index(text, "E", 1), "-.", ""), t.scale or 0, "0")
    return F.when(text.contains("E"), F.concat(sign, digits)).otherwise(text)


def _stripped_text(value: Column, t: FlinkType) -> Column:
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


def _timestamp_ltz(value: Column, settings: WriteSettings) -> Column:
    """In UTC by way of the microseconds since 1970, because a cast would go through the session's zone."""
    from pyspark.sql import functions as F

    utc = F.timestamp_add("MICROSECOND", F.unix_micros(value), _epoch())
    return F.concat(_timestamp(utc, settings), F.lit("Z"))


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
