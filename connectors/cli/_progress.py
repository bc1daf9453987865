"""A progress bar at the bottom of a terminal, for what takes longer than two seconds: position, rest, and rate.

    with progress("decoding", total, "messages") as bar:
        bar.to(done, count)

Click draws it: a command line without a further dependency. It is only shown if stderr is a terminal, without `--json`,
and not beside rows that go to the same terminal. Text that `_output` writes to stderr hides it for a moment.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import IO, Any, Final

import click

from kvformat.connectors.cli._framing import MessageBatch
from kvformat.connectors.cli._output import JSON_ERRORS, clear_line, while_shown

_DELAY: Final = 2.0
"""Seconds after which a bar is shown."""
_EVERY: Final = 0.2  # seconds between two states of a bar


class Bar:
    """A progress bar that shows itself when its work takes long. `total` may be unknown."""

    def __init__(self, label: str, total: int | None, unit: str, *, shown: bool) -> None:
        self._label, self._total, self._unit, self._shown = label, total, unit, shown
        self._begun = self._last = time.monotonic()
        self._count = 0
        self._bar: Any = None

    def to(self, done: int, count: int | None = None, total: int | None = None) -> None:
        """Move to a position. `count` is the number of units so far, if positions are others; `total` a new total."""
        now = time.monotonic()
        self._count = done if count is None else count
        self._total = total if total is not None else self._total
        if not self._shown or now - self._begun < _DELAY or (self._bar is not None and now - self._last < _EVERY):
            return
        self._last = now
        if self._bar is None:
            self._bar = self._made()
            self._bar.__enter__()  # an interrupt may come now: `close` must know the bar
        self._bar.length, self._bar.show_percent = self._total, self._total is not None
        self._bar.finished = False  # a total may grow
        self._bar.update(done - self._bar.pos)

    def _made(self) -> Any:
        # Without a length, click takes one from the iterable, which a generator does not have.
        unknown: Any = (None for _ in ())
        bar = click.progressbar(
            unknown if self._total is None else None,
            self._total,
            self._label,
            item_show_func=lambda _: self._rate(),
            file=sys.stderr,
            width=0,  # as wide as the terminal
        )
        bar.start -= time.monotonic() - self._begun
        bar.last_eta = 0.0  # the rest is known at once
        return bar

    def _rate(self) -> str:
        seconds = max(time.monotonic() - self._begun, 0.001)
        return f"{self._count:,} {self._unit}, {self._count / seconds:,.0f}/s"

    def hide(self) -> None:
        """Remove the bar from its line; the next state shows it again."""
        if self._bar is not None:
            clear_line()
            self._bar._last_line = None
            self._last = 0.0

    def close(self) -> None:
        """Remove the bar, and show the cursor again."""
        if self._bar is not None:
            clear_line(cursor=True)
            self._bar = None
        self._shown = False


@contextlib.contextmanager
def progress(label: str, total: int | None, unit: str, *, beside_rows: bool = False) -> Iterator[Bar]:
    """Show a bar until the end of the context, also after an interrupt.

    `beside_rows` says that rows go to stdout meanwhile: then a terminal shows the rows, and no bar.
    """
    context = click.get_current_context(silent=True)
    as_json = context is not None and bool(context.meta.get(JSON_ERRORS))
    is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    bar = Bar(label, total, unit, shown=is_terminal and not as_json and not (beside_rows and sys.stdout.isatty()))
    with while_shown(bar.hide):
        try:
            yield bar
        finally:
            bar.close()


class FilesRead:
    """Files that are opened one after the other, with the position in all of them. `-`, or no files, means stdin.

    total: the bytes of all files; None if they are not known, as those of a pipe.
    """

    def __init__(self, files: tuple[str, ...]) -> None:
        self._files = files or ("-",)
        sizes = [os.path.getsize(name) if os.path.isfile(name) else None for name in self._files]
        self.total = None if None in sizes else sum(size for size in sizes if size is not None)
        self._before = 0
        self._current: IO[bytes] | None = None

    def __iter__(self) -> Iterator[IO[bytes]]:
        for name in self._files:
            with click.open_file(name, "rb") as file:
                self._current = file
                yield file
                self._before = self.position
                self._current = None

    @property
    def position(self) -> int:
        """The bytes that were read, if the total is known."""
        if self.total is None or self._current is None:
            return self._before
        return self._before + self._current.tell()

    def show(self, bar: Bar, count: int) -> None:
        """Move a bar to the position in the files, or to the number of units if their size is unknown."""
        bar.to(count if self.total is None else self.position, count)


def shown_batches(batches: Iterator[MessageBatch], label: str, most: int) -> Iterator[MessageBatch]:
    """Yield batches of records, and show a bar meanwhile."""
    count = 0
    with progress(label, most, "records") as bar:
        for batch in batches:
            count += len(batch.values)
            bar.to(min(count, most))
            yield batch
