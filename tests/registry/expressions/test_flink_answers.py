"""Expressions of computed columns have the types and values of real Flink, in three time zones."""

from __future__ import annotations

import collections

import pytest

from tests.support import computed

_LEAST_EQUAL = {"computed": 10_450, "computed-json": 890}
_MOST_REFUSED = {"computed": 160, "computed-json": 40}
_MOST_NOT_COMPARED = {"computed": 785, "computed-json": 0}


@pytest.mark.parametrize("name", _LEAST_EQUAL)
def test_expressions_have_the_types_and_values_of_flink(name: str) -> None:
    counts: collections.Counter[str] = collections.Counter()
    wrong = []
    given = computed.answers(name)
    in_error = {(answer["zone"], answer["expression"]) for answer in given.answers if "error" in answer}
    for result in computed.results(given):
        fails = (result.zone, result.expression) in in_error
        counts["refused" if result.refused and not fails else "Flink fails" if fails else "equal"] += 1
        if result.differences:
            wrong.append((result.zone, result.expression, result.differences[:3]))
    print(f"{name}: {dict(counts)}, {len(wrong)} different")
    assert wrong == []
    assert counts["equal"] >= _LEAST_EQUAL[name]
    assert counts["refused"] <= _MOST_REFUSED[name]
    not_compared = sum(len(answer.get("not_compared", ())) for answer in given.answers)
    assert not_compared <= _MOST_NOT_COMPARED[name]
