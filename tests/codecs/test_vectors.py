"""Compare every format with the results of real Flink."""

from __future__ import annotations

import functools

import pytest

from tests.support import vectors

COMPARED = {
    ("avro", "decode"): 1444,
    ("avro", "encode"): 619,
    ("avro-confluent", "decode"): 1926,
    ("avro-confluent", "encode"): 676,
    ("canal-json", "decode"): 1793,
    ("canal-json", "encode"): 253,
    ("csv", "decode"): 5119,
    ("csv", "encode"): 2668,
    ("debezium-avro-confluent", "decode"): 3828,
    ("debezium-avro-confluent", "encode"): 979,
    ("debezium-json", "decode"): 2069,
    ("debezium-json", "encode"): 263,
    ("json", "decode"): 7935,
    ("json", "encode"): 1772,
    ("maxwell-json", "decode"): 1355,
    ("maxwell-json", "encode"): 253,
    ("ogg-json", "decode"): 452,
    ("ogg-json", "encode"): 92,
    ("protobuf", "decode"): 6752,
    ("protobuf", "encode"): 1496,
    ("raw", "decode"): 1409,
    ("raw", "encode"): 940,
}
"""The minimum number of compared messages by format and direction. A smaller number means that cases were lost."""

_NOTHING = {("avro", "encode", "invalid-utf8~0"), ("csv", "encode", "more-types"), ("protobuf", "encode", "utf8")}
"""Groups of cases that Spark's types cannot hold."""


@functools.cache
def _outcomes(format: str, direction: str, section: str) -> list[str | None]:
    group = [c for c in vectors.cases(format) if c["direction"] == direction and c["id"].split("/")[1] == section]
    return [outcome for case in group for outcome in vectors.outcomes(case)]


@pytest.mark.parametrize(
    ("format", "direction", "section"), vectors.groups(), ids=["-".join(group) for group in vectors.groups()]
)
def test_results_equal_flink(format: str, direction: str, section: str) -> None:
    outcomes = _outcomes(format, direction, section)
    problems = [problem for problem in outcomes if problem]
    assert not problems, f"{len(problems)} messages differ from Flink, the first:\n" + "\n".join(problems[:5])
    assert bool(outcomes) == ((format, direction, section) not in _NOTHING)


@pytest.mark.parametrize(("format", "direction"), sorted({group[:2] for group in vectors.groups()}))
def test_enough_messages_are_compared(format: str, direction: str) -> None:
    compared = sum(len(_outcomes(*group)) for group in vectors.groups() if group[:2] == (format, direction))
    assert compared >= COMPARED[format, direction]
