"""Choose the kernel's column for each Flink type. A column parses JSON values and stores them for Arrow."""

from __future__ import annotations

from kvformat.codecs._arrays import map_value_type, stored_type
from kvformat.codecs._kernel.columns import Booleans, Column, Decimals, Doubles, Integers
from kvformat.codecs._kernel.containers import Lists, Maps, Rows
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs._kernel.text_columns import Binaries, Texts
from kvformat.codecs._kernel.time_forms import FormTimestamps
from kvformat.codecs._kernel.times import Dates, Times, Timestamps
from kvformat.codecs._kernel.tree import Node
from kvformat.codecs._kernel.variants import Variants
from kvformat.codecs._timestamps.read import FormReader
from kvformat.codecs.json.scalars import (
    BadValue,
    Converter,
    ScalarRules,
    conversion_error_text,
    epoch_converter,
    epoch_factor,
    scalar_converter,
)
from kvformat.codecs.json.settings import ReadSettings
from kvformat.codecs.json.value_converters import ConvertedType
from kvformat.codecs.json.variant import refusal
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import INTEGER_BITS, FlinkField, FlinkType

EPOCHS = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")
"""Types that are numbers with the setting `epochs`."""
_BITS = {**INTEGER_BITS, "INTERVAL YEAR TO MONTH": 32}


class JsonSchema:
    """Makes columns for the types of one schema, and the reader for them.

    `row` is the type of the whole message: a DECIMAL anywhere in it changes how Flink reads every number. Raises
    `SchemaError` for a MAP or MULTISET with keys that are not strings.
    """

    def __init__(self, row: FlinkType, settings: ReadSettings) -> None:
        for path, t in row.walk():
            if t.root in ("MAP", "MULTISET") and t.fields[0].type.root not in ("CHAR", "VARCHAR"):
                raise SchemaError(
                    f"JSON format doesn't support non-string as key type of map. The type is: {t}", field=path
                )
        self._settings = settings
        decimals = any(t.root == "DECIMAL" and not isinstance(t, ConvertedType) for _, t in row.walk())
        self.rules = ScalarRules(settings.streaming, settings.iso, decimals)

    def reader(self) -> Reader:
        """Make a reader with the rules of the settings."""
        return Reader(
            streaming=self._settings.streaming,
            lenient=self._settings.lenient,
            fail_on_missing=self._settings.fail_on_missing,
            decimals=self.rules.decimals and not self._settings.streaming,
        )

    def row(self, t: FlinkType) -> Rows:
        """Make the column of a ROW."""
        return self.row_of_columns(t, [self.column(field.type) for field in t.fields])

    @staticmethod
    def row_of_columns(t: FlinkType, columns: list[Column]) -> Rows:
        """Make the column of a ROW from the columns of its fields."""
        return Rows(t, stored_type(t), [field.name for field in t.fields], columns)

    def column(self, t: FlinkType) -> Column:
        """Make the column of any type."""
        if isinstance(t, ConvertedType):
            return self._converted_column(t)
        if t.root == "ROW":
            return self.row(t)
        if t.root == "ARRAY":
            return Lists(t, stored_type(t), self.column(t.fields[0].type))
        if t.root in ("MAP", "MULTISET"):
            keys = self.column(t.fields[0].type)
            assert isinstance(keys, Texts)
            return Maps(t, stored_type(t), keys, self.column(map_value_type(t)))
        if t.root == "VARIANT":
            return Variants(t, stored_type(t), refusal)
        epochs = self._settings.epochs and t.root in EPOCHS
        kind, convert = stored_type(t), (epoch_converter if epochs else scalar_converter)(t, self.rules)
        factor = epoch_factor(t) if epochs else 0
        if t.root in _BITS:
            return Integers(t, kind, convert, _BITS[t.root])
        if t.root == "INTERVAL DAY TO SECOND":
            return Integers(t, kind, convert, 64, factor=1000)  # milliseconds, stored as microseconds
        if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
            if self._settings.forms is not None:
                form_reader = FormReader(t, self._settings.forms, convert if epochs else None)
                return FormTimestamps(t, kind, _with_hint(form_reader, t.summary()), form_reader.kernel, factor)
            zoned = t.root == "TIMESTAMP_LTZ"
            return Timestamps(t, kind, convert, iso=self._settings.iso, zoned=zoned, factor=factor)
        if t.root in ("DATE", "TIME"):
            return (Dates if t.root == "DATE" else Times)(t, kind, convert, factor)
        return _SCALARS[t.root](t, kind, convert)

    def _converted_column(self, t: ConvertedType) -> Column:
        """Make the column of a type with its own converter."""
        kind = stored_type(t)
        convert = t.convert if t.root == "ARRAY" else t.convert.wrap(scalar_converter(t, self.rules))
        column: Column
        if t.root == "ARRAY":
            column = Lists(t, kind, self.column(t.fields[0].type), convert)
        elif t.root in _BITS:
            column = Integers(t, kind, convert, _BITS[t.root], factor=t.factor)
        else:
            column = _SCALARS[t.root](t, kind, convert)
        column.other_forms = True
        return column


_SCALARS = {
    "BOOLEAN": Booleans,
    "FLOAT": Doubles,
    "DOUBLE": Doubles,
    "DECIMAL": Decimals,
    "CHAR": Texts,
    "VARCHAR": Texts,
    "BINARY": Binaries,
    "VARBINARY": Binaries,
    "DATE": Dates,
    "TIME": Times,
}


def _with_hint(form_reader: FormReader, name: str) -> Converter:
    """Return the converter, with errors that name the forms."""

    def convert(value: Node) -> int:
        try:
            return form_reader(value)
        except ValueError:
            raise BadValue(conversion_error_text(value, name) + form_reader.hint(value)) from None

    return convert


def row_of(members: dict[str, FlinkType]) -> FlinkType:
    """Make a ROW type from field names and types."""
    return FlinkType("ROW", fields=tuple(FlinkField(name, t) for name, t in members.items()))
