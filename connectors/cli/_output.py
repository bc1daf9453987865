"""Output of the commands: rows and listings to stdout, errors to stderr, colours only on terminals.

All text goes through `printable`, so that a name, value or message cannot send control sequences to a terminal. The
commands write only through this module; click itself writes the help.
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
"""Unicode categories that are escaped: control, format, surrogate, line separator, paragraph separator."""
_START_OF_LINE, _SHOW_CURSOR = "\r\x1b[K", "\x1b[?25h"
_hides: list[Callable[[], None]] = []
"""Functions that hide what is at the bottom of a terminal while text is written."""
_HEAD = 100
"""Maximum number of bytes of a bad message in the output."""


def _note_json(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
    ctx.meta[JSON_ERRORS] = value
    return value


def json_option(what: str) -> Callable[[_F], _F]:
    """Return the option `--json`, which every command has."""
    return click.option("--json", "as_json", is_flag=True, callback=_note_json, is_eager=True, help=what)


def errors_option(bad: str) -> Callable[[_F], _F]:
    """Return the option `--errors`: whether to continue after errors. `bad` names the erroneous input in the help."""
    return click.option(
        "--errors",
        type=click.Choice(("report", "stop")),
        default="report",
        help=f"Whether to go on after {bad}. Default: report.",
    )


class ClosedPipe(Exception):
    """The reader of stdout has closed the pipe, as `head` does after its last line."""


class Styled(NamedTuple):
    """A text with a style for terminals, such as `bold` or the colour `fg`."""

    text: str
    style: Mapping[str, Any]


Words = str | Styled
"""A piece of output: a plain or a styled text."""


def styled(text: str, **style: Any) -> Styled:
    """Return a text with a style of `click.style`."""
    return Styled(text, style)


# --- writing -------------------------------------------------------------------------------------------------


def printable(text: str, *, lines: bool = False) -> str:
    r"""Escape all characters that can control a terminal or change the order of letters.

    Control and format characters, line separators and lone surrogates are escaped as in JSON: `\u001b`. With `lines`,
    line feeds are not escaped.
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
    """Write pieces of text. All text to a terminal goes through this function. `before` moves the cursor."""
    shown = "".join(
        printable(word, lines=True) if isinstance(word, str) else click.style(printable(word.text), **word.style)
        for word in words
    )
    if err:
        for hide in _hides:
            hide()
        click.echo(f"{before}{shown}{end}", nl=False, err=True)
        return
    with _stdout():
        click.echo(f"{before}{shown}{end}", nl=False)


@contextlib.contextmanager
def _stdout() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        # Otherwise the rest of the buffer would fail again when the process ends.
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
    """Return a value as a line of JSON, with control characters escaped."""
    return printable(json.dumps(value, ensure_ascii=False))


def write_json(values: Iterable[Any]) -> None:
    """Write a line of JSON for each value."""
    lines = "".join(f"{json_line(value)}\n" for value in values)
    if lines:
        write(lines.encode())


def show(*words: Words) -> None:
    """Write words and a line feed to stdout, in colours on a terminal; raises `ClosedPipe`."""
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
    """Replace the status line at the bottom of a terminal; an empty text removes it."""
    _echo([text], err=True, before=_START_OF_LINE, end="")


def clear_line(*, cursor: bool = False) -> None:
    """Remove what is in the line of a terminal's cursor; with `cursor`, show the cursor again."""
    click.echo(f"{_START_OF_LINE}{_SHOW_CURSOR if cursor else ''}", nl=False, err=True)


@contextlib.contextmanager
def while_shown(hide: Callable[[], None]) -> Iterator[None]:
    """Call a function before text goes to stderr, until the end of the context."""
    _hides.append(hide)
    try:
        yield
    finally:
        _hides.remove(hide)


def head(message: bytes | None) -> str | None:
    r"""Return the first bytes of a message as text; bytes that are not UTF-8 are written as `\xff`."""
    if message is None:
        return None
    return message[:_HEAD].decode("utf-8", "backslashreplace") + ("..." if len(message) > _HEAD else "")


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Words]:
    """Format rows as aligned columns below a line of column names."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [names, *cells]) for i in range(len(names) - 1)]

    def line(row: Sequence[str]) -> str:
        return "  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[-1]]).rstrip()

    return [styled(line(names), bold=True), *(f"\n{line(row)}" for row in cells)]
