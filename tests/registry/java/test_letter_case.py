"""Upper and lower case as in Java 17."""

from __future__ import annotations

import pytest

from kvformat.registry.java.letter_case import UnknownWordEndError, lower, upper


def test_letters_that_are_newer_than_javas_unicode_stay() -> None:
    assert upper("ⱟ\U00010597é") == "ⱟ\U00010597É"
    assert lower("Ⱟ\U00010570É") == "Ⱟ\U00010570é"
    assert upper("\u0264") == "\u0264"


def test_full_mappings() -> None:
    assert upper("ßŉﬁ") == "SSʼNFI"
    assert lower("İ") == "i̇"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ΟΔΥΣΣΕΥΣ", "οδυσσευς"),
        ("ΑΣ ΣΑ Σ", "ας σα σ"),
        ("ΑΣ, ΑΣ!", "ας, ας!"),
        ("(Σ)", "(σ)"),
    ],
)
def test_a_sigma_at_the_end_of_a_word_is_final(text: str, expected: str) -> None:
    assert lower(text) == expected


@pytest.mark.parametrize("text", ["Α_Σ", "ΑΣ.Α", "Α1Σ", "ΑΣ\u0301", "漢Σ"])
def test_a_sigma_beside_other_characters_is_refused(text: str) -> None:
    with pytest.raises(UnknownWordEndError):
        lower(text)
