"""Parse csv messages one at a time, exactly as Flink does. The batch reader refuses the messages that come here."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from kvformat.codecs._csv.parse_record import BLANKS, CsvRecordError, RecordParser
from kvformat.codecs._csv.scalars import scalar_converter
from kvformat.codecs._csv.settings import ReadSettings
from kvformat.codecs._java import jackson_text
from kvformat.codecs._json.scalars import conversion_error_code
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.types import FlinkField, FlinkType

Row = tuple[Any, ...]
_Convert = Callable[[str], Any]

_SHOWN = 60
_NULL_HINT = "; without 'null-literal' Flink writes NULL as an empty column: set 'null-literal' = '' to read it as NULL"


class CsvMessageReader:
    """Parses messages as rows of a schema: tuples of values in column order."""

    def __init__(self, row: FlinkType, settings: ReadSettings) -> None:
        self._settings = settings
        self._parser = RecordParser(settings, len(row.fields))
        self._columns = [self._column(field) for field in row.fields]

    def read(self, message: bytes | None) -> tuple[list[Row] | None, str | None]:
        """Parse a message. Returns a list of its row and None, or None and the error.

        The list is empty for a skipped message. Both results are None for a null message. Never raises.
        """
        if message is None:
            return None, None
        try:
            return [self._row(message)], None
        except (jackson_text.BadEncoding, CsvRecordError) as fault:
            return ([], None) if self._settings.lenient else (None, str(fault))

    def _row(self, message: bytes) -> Row:
        text, malformed = jackson_text.CSV.decode(message)
        columns = self._parser.columns(text, malformed=malformed)
        if columns is None:
            raise CsvRecordError("there is no record in the message")
        missing = len(self._columns) - len(columns)
        if missing and not self._settings.lenient:
            raise CsvRecordError(
                f"row length mismatch: {len(self._columns)} fields expected but was {len(columns)}",
                code=ErrorCode.MISSING_FIELD,
            )
        values = [convert(column) for convert, column in zip(self._columns, columns, strict=False)]
        return (*values, *(None,) * missing)

    # --- converters ----------------------------------------------------------------------------------

    def _column(self, field: FlinkField) -> _Convert:
        if field.type.root == "ARRAY":
            return self._array(field)
        return self._nested_row(field) if field.type.root == "ROW" else self._scalar(field.name, field.type)

    def _scalar(self, path: str, t: FlinkType) -> _Convert:
        """Make the converter of a scalar column or nested field. It also converts NULL."""
        convert, lenient = scalar_converter(t), self._settings.lenient
        nulls = {self._settings.null_literal, "" if self._settings.empty_string_as_null else None} - {None}

        def read(text: str) -> Any:
            if text in nulls:
                return None
            try:
                return convert(text)
            except ValueError:
                if lenient:
                    return None
                shown = json.dumps(text[:_SHOWN] + ("..." if len(text) > _SHOWN else ""))
                hint = "" if text or self._settings.null_literal is not None else _NULL_HINT
                raise CsvRecordError(
                    f"field {path!r}: cannot read {shown} as {t.summary()}{hint}",
                    code=conversion_error_code(text, t.root),
                ) from None

        return read

    def _elements(self, text: str) -> list[str]:
        """Split the elements of an ARRAY or ROW. Blank text has no elements, unless the delimiter is blank."""
        elements = text.split(self._settings.element_delimiter)
        if len(elements) == 1 and not text.strip(BLANKS):
            return []
        return [element.strip(BLANKS) for element in elements] if self._settings.trim else elements

    def _array(self, field: FlinkField) -> _Convert:
        convert = self._scalar(f"{field.name}[]", field.type.fields[0].type)
        return lambda text: [convert(element) for element in self._elements(text)]

    def _nested_row(self, field: FlinkField) -> _Convert:
        members = [self._scalar(f"{field.name}.{member.name}", member.type) for member in field.type.fields]

        def read(text: str) -> Row | None:
            elements = self._elements(text)
            if not elements:
                return None
            missing = max(0, len(members) - len(elements))
            if missing and not self._settings.lenient:
                reason = f"row length mismatch: {len(members)} fields expected but was {len(elements)}"
                raise CsvRecordError(f"field {field.name!r}: {reason}", code=ErrorCode.MISSING_FIELD)
            values = [convert(element) for convert, element in zip(members, elements, strict=False)]
            return (*values, *(None,) * missing)

        return read
