"""A failing input made smaller, by leaving out parts of it for as long as it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tests.fuzz.cases import Message

_T = TypeVar("_T", str, bytes, list[Any])
TRIALS = 600
"""How often a failing input is tried again, before what is left is taken as it is."""


class Minimiser:
    """Counts the trials of one failing input."""

    def __init__(self, fails: Callable[[Any], bool]) -> None:
        self._fails, self._left = fails, TRIALS

    def cut(self, whole: _T, rebuilt: Callable[[_T], Any] = lambda part: part) -> _T:
        """A text, bytes or a list without the pieces that failing doesn't need; `rebuilt` makes the input of it."""
        size = max(len(whole) // 2, 1)
        while whole:
            at = 0
            while at < len(whole) and self._left > 0:
                shorter = whole[:at] + whole[at + size :]
                self._left -= 1
                if self._fails(rebuilt(shorter)):
                    whole = shorter
                else:
                    at += size
            if size == 1 or self._left <= 0:
                break
            size //= 2
        return whole

    def messages(self, messages: list[Message]) -> list[Message]:
        """Fewer messages, then shorter ones."""
        messages = self.cut(messages)
        for row, part in [(row, part) for row, message in enumerate(messages) for part in range(len(message))]:
            messages = self._shorter(messages, row, part)
        return messages

    def _shorter(self, messages: list[Message], row: int, part: int) -> list[Message]:
        """The messages, one of their parts cut."""

        def rebuilt(data: bytes) -> list[Message]:
            message = (*messages[row][:part], data, *messages[row][part + 1 :])
            return [*messages[:row], message, *messages[row + 1 :]]

        data = messages[row][part]
        return messages if data is None else rebuilt(self.cut(data, rebuilt))
