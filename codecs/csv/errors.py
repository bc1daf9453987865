"""Error messages for csv, made from the state of the kernel's reader, and messages recoded for the kernel."""

from __future__ import annotations

import json

from kvformat.codecs._kernel import csv_codes as codes
from kvformat.codecs._kernel.csv import ArrayCell, Cell, RowCell
from kvformat.codecs._kernel.messages import Recoded, Said
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs._timestamps.read import FormReader
from kvformat.codecs.csv.settings import ReadSettings
from kvformat.codecs.json.scalars import conversion_error_code
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.java import jackson_text

_SHOWN = 60
_NULL_HINT = "; without 'null-literal' Flink writes NULL as an empty column: set 'null-literal' = '' to read it as NULL"
_SIMPLE = {
    codes.NO_RECORD: (ErrorCode.MALFORMED, "there is no record in the message"),
    codes.NOT_TEXT: (ErrorCode.WRONG_CHARSET, "bytes that are not UTF-8"),
    codes.UNKNOWN_ENCODING: (ErrorCode.WRONG_CHARSET, "UTF-32 in an unusual byte order"),
    codes.TOO_MUCH_TEXT: (ErrorCode.TOO_LARGE, "more than 2 GB of text in one column of the batch"),
}


class CsvErrorMessages:
    """The functions that `CsvBatch` calls: for other encodings than UTF-8, and for the texts of errors."""

    def __init__(self, settings: ReadSettings, count: int) -> None:
        self._settings, self._count = settings, count

    @staticmethod
    def recoded(message: bytes) -> Recoded | None:
        """Return a message as UTF-8 and whether it was malformed, or None if its encoding is not supported.

        A malformed message ends where Jackson fails. Lone surrogates are encoded like other characters.
        """
        try:
            text, malformed = jackson_text.CSV.decode(message)
        except jackson_text.BadEncoding:
            return None
        return text.encode("utf-8", "surrogatepass"), malformed

    def fault(self, reader: Reader, columns: int) -> Said:
        """Return why the reader's message, in which `columns` columns were found, is not a record."""
        code = reader.code
        if code in _SIMPLE:
            return _SIMPLE[code]
        if code == codes.TOO_MANY_COLUMNS:
            reason = f"expected at most {self._count}; set ignore-trailing-unmappable to skip the others"
            return ErrorCode.UNEXPECTED_FIELD, f"too many columns: {reason}"
        if code == codes.NOT_ENOUGH_COLUMNS:
            return ErrorCode.MISSING_FIELD, f"not enough columns: expected {self._count}, found {columns}"
        if code == codes.LENGTH_MISMATCH:
            return ErrorCode.MISSING_FIELD, _length_mismatch(self._count, columns)
        if code == codes.OPEN_QUOTE:
            reason = "no closing quote for the value that begins"
        elif code == codes.OPEN_ESCAPE:
            reason = "nothing after the escape character"
        else:
            character = _character(reader, reader.where)
            reason = f"expected {self._settings.delimiter!r} or the end after a closing quote, found {character!r}"
        return ErrorCode.MALFORMED, f"{reason} at character {reader.characters(reader.begin, reader.where) + 1}"

    def bad_value(self, cell: Cell) -> Said:
        """Return why a cell can't take its text."""
        if isinstance(cell, ArrayCell):
            return self.bad_value(cell.element)
        if isinstance(cell, RowCell):
            if cell.bad_member is not None:
                return self.bad_value(cell.bad_member)
            return ErrorCode.MISSING_FIELD, f"field {cell.path!r}: {_length_mismatch(cell.count, cell.found)}"
        text = cell.bad_text
        shown = json.dumps(text[:_SHOWN] + ("..." if len(text) > _SHOWN else ""))
        hint = cell.convert.hint(text) if isinstance(cell.convert, FormReader) else ""
        if not text and self._settings.null_literal is None:
            hint = _NULL_HINT
        code = conversion_error_code(text, cell.type.root)
        return code, f"field {cell.path!r}: cannot read {shown} as {cell.type.summary()}{hint}"


def _length_mismatch(fields: int, columns: int) -> str:
    return f"row length mismatch: {fields} fields expected but was {columns}"


def _character(reader: Reader, at: int) -> str:
    """Return the character at an offset. Surrogates may be encoded."""
    first = reader.data[at]
    size = 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    return bytes(reader.data[at : at + size]).decode("utf-8", "surrogatepass")
