"""Every format's kernels against what real Flink answered."""

from __future__ import annotations

import pytest

from kvformat.registry import available_formats
from tests import vectors

_FORMATS = [name for name in vectors.formats() if name in available_formats()]
_GROUPS = [
    (format, direction, section)
    for format in _FORMATS
    for direction in ("decode", "encode")
    for section in sorted({c["id"].split("/")[1] for c in vectors.cases(format) if c["direction"] == direction})
]


@pytest.mark.parametrize(("format", "direction", "section"), _GROUPS, ids=["-".join(group) for group in _GROUPS])
def test_kernels_answer_as_flink(format: str, direction: str, section: str) -> None:
    group = [c for c in vectors.cases(format) if c["direction"] == direction and c["id"].split("/")[1] == section]
    problems = [problem for case in group for problem in vectors.failures(case)]
    assert not problems, f"{len(problems)} messages differ from Flink, the first:\n" + "\n".join(problems[:5])
    assert group
