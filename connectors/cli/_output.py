"""What commands print: rows and listings to stdout, what is wrong to stderr, colours on terminals only."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import click

from kvformat.connectors.cli import JSON_ERRORS

_F = TypeVar("_F", bound=Callable[..., Any])
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
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


@contextlib.contextmanager
def _stdout() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        # What is left in the buffer would fail again when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ClosedPipe from None


def write(data: bytes) -> None:
    """Write to stdout at once; raises `ClosedPipe`."""
    with _stdout():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def json_line(value: Any) -> str:
    """A value as a line of JSON, in which nothing can command a terminal."""
    return printable(json.dumps(value, ensure_ascii=False))


def printable(text: str) -> str:
    r"""A text with its control characters written as JSON does: `\u001b`."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def write_json(values: Iterable[Any]) -> None:
    """Write a line of JSON for each value."""
    lines = "".join(f"{json_line(value)}\n" for value in values)
    if lines:
        write(lines.encode())


def show(text: str) -> None:
    """Write words to stdout, in colours where it is a terminal; raises `ClosedPipe`."""
    with _stdout():
        click.echo(text)


def tell(value: Any) -> None:
    """A line of JSON on stderr."""
    click.echo(json_line(value), err=True)


def note(text: str) -> None:
    """Words on stderr."""
    click.echo(f"kvformat: {text}", err=True)


def head(message: bytes | None) -> str | None:
    """The first bytes of a message as a text: what is no text is written in hex, with backslashes."""
    if message is None:
        return None
    return message[:_HEAD].decode("utf-8", "backslashreplace") + ("..." if len(message) > _HEAD else "")


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns with blanks between, the names of the columns above them."""
    widths = [max(len(row[i]) for row in [names, *rows]) for i in range(len(names) - 1)]

    def line(row: Sequence[str]) -> str:
        return "  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[-1]]).rstrip()

    return "\n".join([click.style(line(names), bold=True), *map(line, rows)])
