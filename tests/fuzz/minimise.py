"""Reduce a failing input by removing parts while it still fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tests.fuzz.cases import Message

_T = TypeVar("_T", str, bytes, list[Any])
TRIALS = 600
"""Maximum number of runs to reduce a failing input."""


class Minimiser:
    """Counts the runs of one failing input."""

    def __init__(self, fails: Callable[[Any], bool]) -> None:
        self._fails, self._left = fails, TRIALS

    def cut(self, whole: _T, rebuilt: Callable[[_T], Any] = lambda part: part) -> _T:
        """Remove pieces of a text, bytes or list that are not needed to fail. `rebuilt` converts it to the input."""
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
        """Reduce the number of messages, then their length."""
        messages = self.cut(messages)
        for row, part in [(row, part) for row, message in enumerate(messages) for part in range(len(message))]:
            messages = self._shorter(messages, row, part)
        return messages

    def _shorter(self, messages: list[Message], row: int, part: int) -> list[Message]:
        """Yield the messages with one part shortened."""

        def rebuilt(data: bytes) -> list[Message]:
            message = (*messages[row][:part], data, *messages[row][part + 1 :])
            return [*messages[:row], message, *messages[row + 1 :]]

        data = messages[row][part]
        return messages if data is None else rebuilt(self.cut(data, rebuilt))
