"""How often Java 17 allows each letter in patterns of times."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

from kvformat.registry.expressions.java_times import formatter_patterns, simple_writing

_JAVA_TIME = {
    "AgnNuy": range(1, 20), "Y": range(1, 21), "HKdhkmsw": range(1, 3), "D": range(1, 4), "S": range(1, 10),
    "FWa": range(1, 2), "EGLMQqeXxZ": range(1, 6), "c": (1, 3, 4, 5), "B": (1, 4, 5), "Ov": (1, 4), "V": (2,),
    "z": range(1, 5),
}  # fmt: skip
_SIMPLE = {"DEFGHKLMSWYZadhkmsuwyz": range(1, 21), "X": range(1, 4)}


def _counts(compiled: Callable[[str], Any], refusal: type[Exception], letter: str) -> list[int]:
    counts = []
    for count in range(1, 21):
        try:
            compiled(letter * count)
        except refusal:
            continue
        counts.append(count)
    return counts


def test_letters_of_java_time() -> None:
    expected = {letter: list(counts) for letters, counts in _JAVA_TIME.items() for letter in letters}
    for letter in string.ascii_letters:
        counts = _counts(formatter_patterns.compiled, formatter_patterns.PatternError, letter)
        assert counts == expected.get(letter, []), letter


def test_letters_of_simple_date_format() -> None:
    expected = {letter: list(counts) for letters, counts in _SIMPLE.items() for letter in letters}
    for letter in string.ascii_letters:
        counts = _counts(simple_writing.compiled, simple_writing.SimplePatternError, letter)
        assert counts == expected.get(letter, []), letter
