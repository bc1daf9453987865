"""csv written by Spark itself: one expression of public functions, no Python worker, no Arrow.

Each column becomes its text, which is put in quotes where Flink would (`write.Quoting` has the rule); NULL becomes the
null literal. The bytes are those of `write.CsvWriter`, but for FLOAT and DOUBLE, which are the JVM's own text, as in
Flink. Spark's `to_csv` is of no use here: it has another idea of what needs quotes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvformat.codecs._csv.settings import WriteSettings
from kvformat.codecs._csv.write import MOST_UNQUOTED, RAW, Quoting
from kvformat.codecs._json.native import full_text, has_ambiguous_names, numbered_type, stripped_text, utc_time
from kvformat.registry.contract.types import FlinkType, nullable, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

_PLAIN_SCALE = 6  # a cast writes no exponent for decimals of so many digits after the point
_ALWAYS_THERE = {"DATE": "-", "TIME": ":", "TIMESTAMP": " -:", "TIMESTAMP_LTZ": " -:Z"}
_OF_TIMES = "0123456789+-:. Z"
"""What can be in the text of a date or time."""


def encode_native(row: Column, schema: FlinkType, settings: WriteSettings) -> Column:
    """The csv message of each row, as a Spark expression: BINARY, null for a null row.

    `row` is a struct Column whose type is `spark_type(schema)`. The result depends neither on the session's time zone
    nor on its SQL settings.
    """
    from pyspark.sql import functions as F

    names = [field.name for field in schema.fields]
    if has_ambiguous_names(schema):  # members are found by name, in any letter case: give them other names
        numbered = numbered_type(schema)
        row, schema = row.cast(spark_type(nullable(numbered))), numbered
        names = [field.name for field in schema.fields]
    encoder = _Encoder(settings)
    parts = []
    for name, field in zip(names, schema.fields, strict=True):
        parts += [F.lit(settings.delimiter), encoder.column(row.getField(name), field.type)]
    return F.when(row.isNotNull(), F.concat(F.lit(""), *parts[1:])).cast("binary")


class _Encoder:
    """Builds the expressions of columns."""

    def __init__(self, settings: WriteSettings) -> None:
        self._settings = settings
        self._quoting = Quoting(settings)

    def column(self, value: Column, t: FlinkType) -> Column:
        """The text of a column, quoted where that is due; never null."""
        text = self.text(value, t)
        if t.root not in RAW and self._settings.quote is not None:
            text = self._quoted(text, t, self._settings.quote)
        return self._or_null_text(text)

    def _or_null_text(self, text: Column) -> Column:
        from pyspark.sql import functions as F

        return F.coalesce(text, F.lit(self._settings.null_text))

    def text(self, value: Column, t: FlinkType) -> Column:
        """The text of a value without quotes; null for null."""
        from pyspark.sql import functions as F

        delimiter = F.lit(self._settings.element_delimiter)
        if t.root == "ARRAY":
            element = t.fields[0].type
            texts = F.transform(value, lambda item: self._or_null_text(self.text(item, element)))
            return F.array_join(texts, self._settings.element_delimiter)
        if t.root == "ROW":
            parts: list[Column] = []
            for field in t.fields:
                parts += [delimiter, self._or_null_text(self.text(value.getField(field.name), field.type))]
            return F.when(value.isNotNull(), F.concat(F.lit(""), *parts[1:]))
        return self._scalar(value, t)

    def _scalar(self, value: Column, t: FlinkType) -> Column:
        from pyspark.sql import functions as F
        from pyspark.sql.types import TimeType

        if t.root == "DECIMAL":
            if not self._settings.scientific and (t.scale or 0) <= _PLAIN_SCALE:
                return value.cast("string")
            return stripped_text(value, t) if self._settings.scientific else full_text(value, t)
        if t.root in ("CHAR", "VARCHAR"):
            return F.make_valid_utf8(value)
        if t.root in ("BINARY", "VARBINARY"):
            return F.replace(F.base64(value), F.lit("\r\n"), F.lit(""))  # a setting of Spark breaks it into lines
        if t.root == "DATE":
            return value.cast("variant").cast("string")  # else the session's time parser decides on the calendar
        if t.root == "TIME":
            return value.cast(TimeType(3)).cast("string")
        if t.root == "TIMESTAMP_LTZ":
            return F.concat(utc_time(value).cast("string"), F.lit("Z"))
        return value.cast("string")

    def _quoted(self, text: Column, t: FlinkType, quote: str) -> Column:
        from pyspark.sql import functions as F

        if any(self._quoting.is_unsafe(character) for character in _ALWAYS_THERE.get(t.root, "")):
            found_there = [character for character in self._quoting.doubled if character in _OF_TIMES]
            return F.concat(F.lit(quote), _with_doubled(text, found_there), F.lit(quote))
        octets, units = F.octet_length(text), F.octet_length(F.encode(text, "UTF-16LE"))
        unsafe = text.rlike(self._quoting.pattern) | ((octets > MOST_UNQUOTED) & (units > 2 * MOST_UNQUOTED))
        if self._quoting.is_unsafe(" "):
            unsafe = text.contains(" ") | unsafe  # by far the most frequent reason, and the cheapest to see
        doubled = _with_doubled(text, self._quoting.doubled)
        return F.when(unsafe, F.concat(F.lit(quote), doubled, F.lit(quote))).otherwise(text)


def _with_doubled(text: Column, characters: list[str]) -> Column:
    """The text with each of these characters written twice."""
    from pyspark.sql import functions as F

    for character in characters:  # `replace` is several times as slow to find nothing as `contains`
        doubled = F.replace(text, F.lit(character), F.lit(character * 2))
        text = F.when(text.contains(character), doubled).otherwise(text)
    return text
