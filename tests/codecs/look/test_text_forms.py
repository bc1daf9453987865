"""The forms of texts: each form of a text writes exactly this text from the value."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

import pytest

from kvformat.codecs.discovery.text_forms import (
    AT_LEAST_ONE,
    GROUPED,
    TRIMMED,
    forms_of,
    forms_of_bits,
    size_of_bits,
    text_steps,
)
from kvformat.registry.contract.ddl import parse_type

_FORMS = [*(1 << digits for digits in range(39)), TRIMMED, GROUPED, AT_LEAST_ONE]


def _usual_time(text: str) -> str:
    return re.sub(r"\.?0+$", "", text) if "." in text else text


@pytest.mark.parametrize(
    ("t", "usual", "begin"),
    [
        ("DECIMAL(38, 6)", lambda text: f"{Decimal(text):.6f}", "-1"),
        ("DOUBLE", lambda text: repr(float(text)), "-1"),
        ("TIME(6)", _usual_time, "12:00:01"),
        ("TIMESTAMP(6)", _usual_time, "2024-02-29 12:00:01"),
    ],
)
@pytest.mark.parametrize(
    "fraction", ["", ".0", ".5", ".50", ".05", ".120", ".500", ".005", ".000", ".1200", ".120500", ".000001", ".100000"]
)
def test_each_form_of_a_text_writes_it(t: str, usual: Callable[[str], str], begin: str, fraction: str) -> None:
    text = begin + fraction
    forms = forms_of(text, parse_type(t))
    assert forms or (t, fraction[-1:]) == ("DOUBLE", "0")
    for form in _FORMS:
        written = usual(text)
        for pattern, end in text_steps(form, parse_type(t).root):
            match = re.match(pattern, written)
            written = written if match is None else match[1] + end
        assert not forms & form or written == text


@pytest.mark.parametrize(("digits", "known"), [(38, True), (39, False)])
def test_a_text_has_a_form_with_at_most_38_digits_after_its_point(digits: int, known: bool) -> None:
    assert bool(forms_of(f"0.{'0' * digits}", parse_type("DECIMAL(38, 38)"))) is known


def test_the_numbers_of_bits_have_the_size_of_the_longest_column() -> None:
    assert [size_of_bits(forms_of_bits(size)) for size in range(1, 9)] == [*range(1, 9)]
    assert size_of_bits(forms_of_bits(3) & forms_of_bits(5) & forms_of_bits(1)) == 5
    assert size_of_bits(None) == size_of_bits(forms_of("1", parse_type("INT"))) == 0
