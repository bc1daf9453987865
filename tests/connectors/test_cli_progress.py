"""Progress bars in a terminal: after two seconds, with rate and rest, never in a pipe, and gone at the end."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvformat.connectors.cli import _progress
from kvformat.connectors.cli._framing import MessageBatch
from kvformat.connectors.cli._output import note, while_shown

DECODE = ("decode", "-f", "json", "-s", "id INT")
# Runs the command line, but shows bars after a tenth of a second, and takes some time for each batch.
_MAIN = """
import sys, time
from kvformat.connectors.cli import _decoding, _progress, main
_progress._DELAY, _progress._EVERY = {delay}, 0.0
batch = _decoding.Decoder.batch
def slow(self, given):
    time.sleep(0.05)
    return batch(self, given)
_decoding.Decoder.batch = slow
sys.argv = ["kvformat", *sys.argv[1:]]
main()
"""


@pytest.fixture
def messages(tmp_path: Path) -> Path:
    """A file of some megabytes, with a bad message at its end."""
    file = tmp_path / "messages"
    file.write_bytes(b"".join(b'{"id": %d, "text": "%s"}\n' % (n, b"x" * 60) for n in range(40_000)) + b"{\n")
    return file


def _command(*arguments: object, delay: float = 0.1) -> list[str]:
    return [sys.executable, "-c", _MAIN.format(delay=delay), *map(str, arguments)]


def _in_terminal(command: list[str], interrupt: bool = False, rows: Any = subprocess.DEVNULL, **more: Any) -> str:
    """Return what a command writes to stderr, a terminal."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        command, stdout=slave if rows is None else rows, stderr=slave, preexec_fn=_take_interrupts, **more
    ) as process:
        os.close(slave)
        shown, interrupted = b"", not interrupt
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            shown += piece
            if not interrupted and b"/s" in shown:
                process.send_signal(signal.SIGINT)
                interrupted = True
    os.close(master)
    return shown.decode().replace("\r\n", "\n")


def _take_interrupts() -> None:
    """A shell in the background makes all its processes ignore interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _assert_clean(shown: str) -> None:
    """The line of the bar is removed, and the cursor is shown."""
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l")
    assert shown.rfind("\r\x1b[K") > shown.rfind("/s")


def test_a_terminal_shows_position_rest_and_rate(messages: Path) -> None:
    shown = _in_terminal(_command(*DECODE, messages))
    assert re.search(r"decoding  \[#+-*\] +\d+%  \d\d:\d\d:\d\d  [\d,]+ messages, [\d,]+/s", shown), shown[-2000:]
    _assert_clean(shown)
    # The bad message has a line of its own, and the counts are the last line.
    assert re.search(r"\r\x1b\[K\{\"message\": 40001, .*\}\n", shown)
    assert shown.endswith(
        "kvformat: 40001 messages, 40000 rows, 1 bad, 0 without a row (null, or skipped by the format)\n"
    )


def test_without_a_known_size_there_is_a_rate(messages: Path) -> None:
    with messages.open("rb") as file, subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE) as cat:
        shown = _in_terminal(_command(*DECODE), stdin=cat.stdout)
    assert re.search(r"decoding  \[[-#]+\]  [\d,]+ messages, [\d,]+/s", shown), shown[-2000:]
    assert "%" not in shown
    _assert_clean(shown)


def test_an_interrupt_leaves_the_terminal_clean(messages: Path) -> None:
    shown = _in_terminal(_command(*DECODE, messages), interrupt=True)
    _assert_clean(shown)
    assert "Traceback" not in shown
    assert "40001 messages" not in shown


@pytest.mark.parametrize("how", ["json", "dumb", "rows", "fast"])
def test_no_bar_where_it_does_not_belong(messages: Path, how: str) -> None:
    more: dict[str, Any] = {"env": {**os.environ, "TERM": "dumb"}} if how == "dumb" else {}
    command = _command(*DECODE, messages, *(["--json"] if how == "json" else []), delay=60 if how == "fast" else 0.1)
    if how == "rows":  # stdout is the same terminal
        more["rows"] = None
    shown = _in_terminal(command, **more)
    assert "\x1b" not in shown
    assert "40001" in shown


def test_a_pipe_gets_no_bar(messages: Path) -> None:
    ran = subprocess.run(_command(*DECODE, messages), capture_output=True, check=False)
    assert b"\x1b" not in ran.stderr
    assert ran.stderr.count(b"\n") == 2
    assert len(ran.stdout.splitlines()) == 40_000


class _Terminal:
    """A bar of click that notes its states."""

    def __init__(self) -> None:
        self.pos, self.states, self.start, self.last_eta = 0, list[Any](), time.time(), 0.0
        self.length: int | None = None

    def __enter__(self) -> None: ...

    def update(self, steps: int) -> None:
        self.pos += steps
        self.states.append((self.pos, self.length))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> _Terminal:
    made = _Terminal()
    monkeypatch.setattr(_progress.click, "progressbar", lambda *_, **__: made)
    monkeypatch.setattr(_progress, "clear_line", lambda **_: None)
    monkeypatch.setattr(_progress, "_EVERY", 0.0)
    return made


def test_a_bar_is_shown_after_two_seconds(terminal: _Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _progress._DELAY == 2.0
    now = [100.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    bar = _progress.Bar("x", 10, "rows", shown=True)
    for second in (0.0, 1.9, 2.1):
        now[0] = 100 + second
        bar.to(int(second) + 1)
    assert terminal.states == [(3, 10)]
    bar.to(20, total=40)  # a total that grows
    assert terminal.states[-1] == (20, 40)
    bar.close()
    bar.to(30)  # a late event
    assert len(terminal.states) == 2


def test_batches_of_a_topic_move_the_bar(terminal: _Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "_DELAY", 0.0)
    monkeypatch.setattr(_progress.sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    batches = [MessageBatch(1, [b""] * 4), MessageBatch(5, [b""] * 4)]
    assert list(_progress.shown_batches(iter(batches), "reading", 6)) == batches
    assert terminal.states == [(4, 6), (6, 6)]


def test_positions_are_those_in_all_files(tmp_path: Path) -> None:
    file, states = tmp_path / "file", list[Any]()
    file.write_bytes(b"1234567")
    bar: Any = SimpleNamespace(to=lambda *state: states.append(state))
    read = _progress.FilesRead((str(file), str(file)))
    for opened in read:
        for _ in range(2):
            opened.read(4)
            read.show(bar, len(states))
    assert (read.total, read.position) == (14, 14)
    assert states == [(4, 0), (7, 1), (11, 2), (14, 3)]


@pytest.mark.parametrize("others", [(), ("-",)])
def test_a_bar_counts_units_if_the_size_of_a_file_is_unknown(others: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1234567")
    states: list[Any] = []
    bar: Any = SimpleNamespace(to=lambda *state: states.append(state))
    read = _progress.FilesRead((str(tmp_path / "file"), *others) if others else ())
    read.show(bar, 5)
    assert (read.total, states) == (None, [(5, 5)])


def test_a_hidden_bar_is_shown_again_at_once(terminal: _Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "_DELAY", 0.0)
    monkeypatch.setattr(_progress, "_EVERY", 60.0)
    bar = _progress.Bar("x", 10, "rows", shown=True)
    for number in (1, 2):
        bar.to(number)
    assert terminal.states == [(1, 10)]
    bar.hide()
    bar.to(3)
    assert terminal.states == [(1, 10), (3, 10)]


def test_text_does_not_hide_a_bar_that_has_ended() -> None:
    hidden: list[int] = []
    for number in (1, 2):
        with contextlib.suppress(ValueError), while_shown(lambda: hidden.append(1)):
            note("text")
            raise ValueError(number)
    assert hidden == [1, 1]
    note("text")
    assert hidden == [1, 1]
