"""Write csv with Spark's own functions: one expression, without Python workers and Arrow.

Each column becomes text, quoted by Flink's rule (`write.Quoting`). NULL becomes the null literal. The bytes are equal
to those of `write.CsvWriter`, except for FLOAT and DOUBLE: here they are the JVM's own text, as in Flink. Spark's
`to_csv` can't be used, because it quotes by other rules.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import TimeType

from kvformat.codecs.csv.settings import WriteSettings
from kvformat.codecs.csv.write import MOST_UNQUOTED, RAW, Quoting
from kvformat.codecs.json.native import full_text, has_ambiguous_names, numbered_type, stripped_text, utc_time
from kvformat.registry.contract.types import FlinkType, nullable, spark_type

_PLAIN_SCALE = 6  # up to this scale, a cast never writes an exponent
_ALWAYS_THERE = {"DATE": "-", "TIME": ":", "TIMESTAMP": " -:", "TIMESTAMP_LTZ": " -:Z"}
_OF_TIMES = "0123456789+-:. Z"
"""The characters of dates and times."""


def encode_native(row: Column, schema: FlinkType, settings: WriteSettings) -> Column:
    """Return a Spark expression for the csv message of each row: BINARY, null for a null row.

    `row` is a struct Column of the type `spark_type(schema)`. The session's time zone and SQL settings do not
    change the result.
    """
    names = [field.name for field in schema.fields]
    if has_ambiguous_names(schema):  # Spark finds fields by name and ignores case: rename them
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
        """Format a column, with quotes if it needs them. The result is never null."""
        text = self.text(value, t)
        if t.root not in RAW and self._settings.quote is not None:
            text = self._quoted(text, t, self._settings.quote)
        return self._or_null_text(text)

    def _or_null_text(self, text: Column) -> Column:
        return F.coalesce(text, F.lit(self._settings.null_text))

    def text(self, value: Column, t: FlinkType) -> Column:
        """Format a value without quotes. Null stays null."""
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
        if t.root == "DECIMAL":
            if not self._settings.scientific and (t.scale or 0) <= _PLAIN_SCALE:
                return value.cast("string")
            return stripped_text(value, t) if self._settings.scientific else full_text(value, t)
        if t.root in ("CHAR", "VARCHAR"):
            return F.make_valid_utf8(value)
        if t.root in ("BINARY", "VARBINARY"):
            return F.replace(F.base64(value), F.lit("\r\n"), F.lit(""))  # a Spark setting inserts line breaks
        if t.root == "DATE":
            return value.cast("variant").cast("string")  # a direct cast depends on the session's time parser policy
        if t.root == "TIME":
            return value.cast(TimeType(3)).cast("string")
        if t.root == "TIMESTAMP_LTZ":
            return F.concat(utc_time(value).cast("string"), F.lit("Z"))
        return value.cast("string")

    def _quoted(self, text: Column, t: FlinkType, quote: str) -> Column:
        if any(self._quoting.is_unsafe(character) for character in _ALWAYS_THERE.get(t.root, "")):
            found_there = [character for character in self._quoting.doubled if character in _OF_TIMES]
            return F.concat(F.lit(quote), _with_doubled(text, found_there), F.lit(quote))
        octets, units = F.octet_length(text), F.octet_length(F.encode(text, "UTF-16LE"))
        unsafe = text.rlike(self._quoting.pattern) | ((octets > MOST_UNQUOTED) & (units > 2 * MOST_UNQUOTED))
        if self._quoting.is_unsafe(" "):
            unsafe = text.contains(" ") | unsafe  # by far the most frequent reason, and the cheapest check
        doubled = _with_doubled(text, self._quoting.doubled)
        return F.when(unsafe, F.concat(F.lit(quote), doubled, F.lit(quote))).otherwise(text)


def _with_doubled(text: Column, characters: list[str]) -> Column:
    """Double each of these characters in a text."""
    for character in characters:  # without a match, `replace` is several times slower than `contains`
        doubled = F.replace(text, F.lit(character), F.lit(character * 2))
        text = F.when(text.contains(character), doubled).otherwise(text)
    return text
