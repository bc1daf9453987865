"""What commands print: rows and listings to stdout, what is wrong to stderr, colours on terminals only.

All text goes through `printable`, so that no name, value or message can command a terminal. Nothing else in the command
line writes, but click where it shows help.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import click

JSON_ERRORS: Final = f"{__name__}.json"
"""Key in a context's `meta`: whether errors are written as JSON."""
_F = TypeVar("_F", bound=Callable[..., Any])
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Categories of characters that are not shown as themselves: control, format, surrogate; line and paragraph ends."""
_START_OF_LINE = "\r\x1b[K"
_HEAD = 100
"""Bytes of a bad message that are shown."""


def _note_json(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
    ctx.meta[JSON_ERRORS] = value
    return value


def json_option(what: str) -> Callable[[_F], _F]:
    """The option `--json`, which every command has."""
    return click.option("--json", "as_json", is_flag=True, callback=_note_json, is_eager=True, help=what)


def errors_option(bad: str) -> Callable[[_F], _F]:
    """The option `--errors`: whether to go on after what is bad."""
    return click.option(
        "--errors",
        type=click.Choice(("report", "stop")),
        default="report",
        help=f"Whether to go on after {bad}. Default: report.",
    )


class ClosedPipe(Exception):
    """Nobody reads stdout any more: `head` has what it wants."""


class Styled(NamedTuple):
    """A text with a style for terminals, such as `bold` or the colour `fg`."""

    text: str
    style: Mapping[str, Any]


Words = str | Styled
"""A piece of what is shown."""


def styled(text: str, **style: Any) -> Styled:
    """A text with a style of `click.style`."""
    return Styled(text, style)


# --- the one way out -----------------------------------------------------------------------------------------


def printable(text: str, *, lines: bool = False) -> str:
    r"""A text in which nothing can command a terminal or change the order of letters.

    Control and format characters, line separators and halves of surrogates are written as JSON does: `\u001b`. With
    `lines` a line feed stays what it is.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or (lines and c == "\n") else _escaped(c) for c in text)


@functools.lru_cache(maxsize=1024)
def _escaped(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN:
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _echo(words: Iterable[Words], *, err: bool = False, before: str = "", end: str = "\n") -> None:
    """Write pieces of text, which is the only way of text to a terminal. `before` moves the cursor."""
    shown = "".join(
        printable(one, lines=True) if isinstance(one, str) else click.style(printable(one.text), **one.style)
        for one in words
    )
    if err:
        click.echo(f"{before}{shown}{end}", nl=False, err=True)
        return
    with _stdout():
        click.echo(f"{before}{shown}{end}", nl=False)


@contextlib.contextmanager
def _stdout() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        # What is left in the buffer would fail again when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ClosedPipe from None


def write(data: bytes) -> None:
    """Write bytes to stdout at once, to a terminal as text; raises `ClosedPipe`."""
    if sys.stdout.isatty():
        _echo([data.decode("utf-8", "backslashreplace")], end="")
        return
    with _stdout():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def json_line(value: Any) -> str:
    """A value as a line of JSON, in which nothing can command a terminal."""
    return printable(json.dumps(value, ensure_ascii=False))


def write_json(values: Iterable[Any]) -> None:
    """Write a line of JSON for each value."""
    lines = "".join(f"{json_line(value)}\n" for value in values)
    if lines:
        write(lines.encode())


def show(*words: Words) -> None:
    """Write words and a line feed to stdout, in colours where it is a terminal; raises `ClosedPipe`."""
    _echo(words)


def tell(value: Any) -> None:
    """Write a line of JSON to stderr."""
    _echo([json_line(value)], err=True)


def note(*words: Words) -> None:
    """Write words to stderr, after the name of the program."""
    _echo(["kvformat: ", *words], err=True)


def complain(*words: Words) -> None:
    """Write words to stderr."""
    _echo(words, err=True)


def status(text: str) -> None:
    """Write the line at the bottom of a terminal, in place of the one before; none for an empty text."""
    _echo([text], err=True, before=_START_OF_LINE, end="")


def head(message: bytes | None) -> str | None:
    """The first bytes of a message as a text: what is no text is written in hex, with backslashes."""
    if message is None:
        return None
    return message[:_HEAD].decode("utf-8", "backslashreplace") + ("..." if len(message) > _HEAD else "")


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Words]:
    """Columns with blanks between, the names of the columns above them."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [names, *cells]) for i in range(len(names) - 1)]

    def line(row: Sequence[str]) -> str:
        return "  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[-1]]).rstrip()

    return [styled(line(names), bold=True), *(f"\n{line(row)}" for row in cells)]
