"""Formats of MySQL's binlog, Canal and Maxwell: filters by database and table, and MySQL's BOOLEAN.

The members `database` and `table` of a message name its database and its table. The options `database.include` and
`table.include` are patterns that these names must match.
"""

from __future__ import annotations

from typing import ClassVar

from kvformat.codecs.changes.envelope import BatchReader, ChangeSettings
from kvformat.codecs.changes.format import JsonChangeFormat
from kvformat.codecs.changes.reading_only import check_reading_only
from kvformat.codecs.json.value_converters import with_flexible_booleans
from kvformat.registry.contract.errors import OptionError
from kvformat.registry.contract.options import Direction, Option
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.java.regex import JavaPattern, RegexError, compile_java

_FILTERED = ("database", "table")
"""The members that a filter may match."""
_MYSQL = "mysql"
MYSQL_TYPES = Option(
    name="types",
    type="enum",
    default="flink",
    allowed=("flink", _MYSQL),
    doc="Ours. How BOOLEAN is read. With `flink`, everything but `true` is false. With `mysql`, 0 and 1 are read too, "
    "as numbers or texts, because a TINYINT(1) is written so; any other value is an error. For reading only.",
)


def filter_options(*, ours: bool = False) -> tuple[Option, ...]:
    """Return the options `database.include` and `table.include`. With `ours`, Flink's format does not have them."""
    origin, end = ("Ours. ", " For reading only.") if ours else ("", "")
    return tuple(
        Option(
            name=f"{member}.include",
            doc=f"{origin}A Java regular expression. A message is skipped if it does not match the whole name of the "
            f"{member}.{end}",
        )
        for member in _FILTERED
    )


class MySqlChangeFormat(JsonChangeFormat):
    """The base class of the formats of changes in MySQL's binlog.

    With `filters_are_ours`, Flink's format does not have the filters, and writing a table with them is an error.
    """

    filters_are_ours: ClassVar[bool] = False

    def validate(self, direction: Direction) -> None:
        super().validate(direction)
        check_reading_only(self, direction, MYSQL_TYPES, "Flink's types only")
        if direction == "decode":
            self.filters()
        elif self.filters_are_ours:
            for option in filter_options():
                check_reading_only(self, direction, option, "all rows")

    def reader(self, row: FlinkType, settings: ChangeSettings, metadata: tuple[str, ...]) -> BatchReader:
        return super().reader(self.value_types(row), settings, metadata)

    def value_types(self, row: FlinkType) -> FlinkType:
        """Return the type by which the row's values are read. With option `types` = `mysql` it has MySQL's BOOLEAN."""
        return with_flexible_booleans(row) if self.options[MYSQL_TYPES.name] == _MYSQL else row

    def filters(self) -> tuple[tuple[str, JavaPattern], ...]:
        patterns = ((member, self.options[f"{member}.include"]) for member in _FILTERED)
        return tuple((member, self._pattern(member, text)) for member, text in patterns if text is not None)

    def _pattern(self, member: str, text: str) -> JavaPattern:
        option = f"{member}.include"
        try:
            return compile_java(text)
        except RegexError as cause:
            raise OptionError(
                f"invalid value {text!r} for option '{option}' of format '{self.identifier}': {cause}. "
                f"It must be a Java regular expression that matches the whole name of the {member}, such as 'shop_.*'",
                format=self.identifier,
                option=option,
                reason=str(cause),
            ) from None
