"""Decode csv messages to rows: makes the kernel's columns, and the cells that fill them."""

from __future__ import annotations

from kvformat.codecs._arrays import stored_type
from kvformat.codecs._kernel import csv as cells
from kvformat.codecs._kernel import csv_times
from kvformat.codecs._kernel.columns import Booleans, Decimals, Doubles, Int64Column
from kvformat.codecs._kernel.containers import Lists, Rows
from kvformat.codecs._kernel.csv_batch import CsvBatch
from kvformat.codecs._kernel.csv_records import CsvTokenizer
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs._kernel.text_columns import Binaries, Texts
from kvformat.codecs._rows import RowReader
from kvformat.codecs._timestamps.read import FormReader
from kvformat.codecs.csv.errors import CsvErrorMessages
from kvformat.codecs.csv.scalars import MOST_TIME_DIGITS, scalar_converter
from kvformat.codecs.csv.settings import ReadSettings
from kvformat.registry.contract.types import INTEGER_BITS, FlinkType


class CsvReader(RowReader):
    """Reads batches of messages as rows. `check_types` must have accepted the type `row`."""

    def __init__(self, row: FlinkType, settings: ReadSettings) -> None:
        super().__init__(lambda: _Schema(settings).batch(row))


class _Schema:
    """Makes the columns and the cells of one table."""

    def __init__(self, settings: ReadSettings) -> None:
        self._settings, self._nulls, self._elements = settings, settings.of_values(), settings.of_elements()

    def batch(self, row: FlinkType) -> CsvBatch:
        settings = self._settings
        records = CsvTokenizer(Reader(), len(row.fields), **settings.of_records())
        columns = [self._cell(field.name, field.type) for field in row.fields]
        errors = CsvErrorMessages(settings, len(columns))
        return CsvBatch(_rows(row, columns), columns, records, errors, **settings.of_rows())

    def _cell(self, path: str, t: FlinkType) -> cells.Cell:
        """Make the cell of a column, or of an element of one."""
        kind = stored_type(t)
        if t.root == "ARRAY":
            element = self._cell(f"{path}[]", t.fields[0].type)
            return cells.ArrayCell(path, Lists(t, kind, element.column), element, **self._elements)
        if t.root == "ROW":
            members = [self._cell(f"{path}.{field.name}", field.type) for field in t.fields]
            return cells.RowCell(path, _rows(t, members), members, **self._elements)
        nulls = self._nulls
        if self._settings.forms is not None and t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
            form_reader = FormReader(t, self._settings.forms)
            return csv_times.FormTimestampCell(
                path, Int64Column(t, kind, form_reader, "i8"), forms=form_reader.kernel, **nulls
            )
        convert = scalar_converter(t)
        if t.root in INTEGER_BITS:
            bits = INTEGER_BITS[t.root]
            return cells.IntegerCell(path, Int64Column(t, kind, convert, f"i{bits // 8}"), bits=bits, **nulls)
        if t.root in ("FLOAT", "DOUBLE"):
            return cells.DoubleCell(path, Doubles(t, kind, convert), **nulls)
        if t.root == "DECIMAL":
            return cells.DecimalCell(path, Decimals(t, kind, convert), **nulls)
        if t.root == "BOOLEAN":
            return cells.BooleanCell(path, Booleans(t, kind, convert), **nulls)
        if t.root in ("CHAR", "VARCHAR"):
            return cells.TextCell(path, Texts(t, kind, convert), **nulls)
        if t.root in ("BINARY", "VARBINARY"):
            return cells.BinaryCell(path, Binaries(t, kind, convert), **nulls)
        if t.root == "DATE":
            return csv_times.DateCell(path, Int64Column(t, kind, convert, "i4"), **nulls)
        words = Int64Column(t, kind, convert, "i8")
        if t.root == "TIME":
            unit = 10 ** (6 - min(t.precision or 0, MOST_TIME_DIGITS))
            return csv_times.TimeCell(path, words, unit=unit, **nulls)
        return csv_times.TimestampCell(path, words, zoned=t.root == "TIMESTAMP_LTZ", **nulls)


def _rows(t: FlinkType, members: list[cells.Cell]) -> Rows:
    return Rows(t, stored_type(t), [field.name for field in t.fields], [member.column for member in members])
