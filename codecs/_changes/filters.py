"""Which messages of a topic are read, by the names of their database and table: `database.include`, `table.include`."""

from __future__ import annotations

from typing import ClassVar

from kvformat.codecs._changes.format import JsonChangeFormat
from kvformat.codecs._java.regex import JavaPattern, RegexError, compile_java
from kvformat.registry.contract.errors import OptionError, ReadingOnlyError
from kvformat.registry.contract.options import Direction, Option

_FILTERED = ("database", "table")
"""Members that are filtered."""


def filter_options(*, ours: bool = False) -> tuple[Option, ...]:
    """The two options; `ours` says that Flink's format does not have them."""
    origin, end = ("Ours. ", " For reading only.") if ours else ("", "")
    return tuple(
        Option(
            name=f"{member}.include",
            doc=f"{origin}A Java regular expression; messages of {member}s whose name it does not match as a whole are "
            f"skipped.{end}",
        )
        for member in _FILTERED
    )


class FilteredFormat(JsonChangeFormat):
    """A format of change data whose messages name their database and table in members of these names.

    Where the options are `filters_are_ours`, a table that is written has none, as in Flink.
    """

    filters_are_ours: ClassVar[bool] = False

    def validate(self, direction: Direction) -> None:
        super().validate(direction)
        if direction == "decode":
            self.filters()
        elif self.filters_are_ours:
            for member in _FILTERED:
                name = f"{member}.include"
                if self.options[name] is not None:
                    raise ReadingOnlyError(
                        f"format '{self.identifier}' writes all rows: '{name}' is for reading only",
                        format=self.identifier,
                        option=name,
                    )

    def filters(self) -> tuple[tuple[str, JavaPattern], ...]:
        given = ((member, self.options[f"{member}.include"]) for member in _FILTERED)
        return tuple((member, self._pattern(member, text)) for member, text in given if text is not None)

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
