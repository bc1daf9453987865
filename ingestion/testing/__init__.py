"""Tests for targets of other packages, and answers to the golden vectors of Flink CDC.

`TargetSuite` has the tests that each target passes: a package subclasses it.
`answer` answers a case of the vectors with the library's own code, so that others can compare:

    answer({"current": "INT", "upcoming": "DOUBLE", "values": [0.5]})
    {"compatible": False, "merged": "DOUBLE", "coerced": [{"double": "0.5"}]}

A case and its answer have the form of `fixtures/flink-cdc-3.6/README.md`.
"""

from __future__ import annotations

import sys

if "pytest" in sys.modules:  # shows the values of an assert of the suite that fails
    sys.modules["pytest"].register_assert_rewrite(f"{__name__}.targets")

from kvformat.ingestion.testing.answers import answer
from kvformat.ingestion.testing.targets import TargetSuite

__all__ = ["TargetSuite", "answer"]
