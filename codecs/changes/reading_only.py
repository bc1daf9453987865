"""Options for reading only: writing a table with such an option is an error."""

from __future__ import annotations

from kvformat.registry.contract.errors import ReadingOnlyError
from kvformat.registry.contract.options import Direction, Option
from kvformat.registry.format import Format


def check_reading_only(format: Format, direction: Direction, option: Option, writes: str, hint: str = "") -> None:
    """Raise `ReadingOnlyError` if the format writes and the option differs from its default.

    The error says what the format `writes`, and ends with the `hint` on what to do.
    """
    value = format.options.get(option.name, option.default)
    if direction == "encode" and value != option.default:
        text = str(value).lower() if isinstance(value, bool) else value
        raise ReadingOnlyError(
            f"format '{format.identifier}' writes {writes}: '{option.name}' = '{text}' is for reading only{hint}",
            format=format.identifier,
            option=option.name,
        )
