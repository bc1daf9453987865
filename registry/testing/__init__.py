"""The test kit for authors of formats. Every built-in format passes the same tests.

    FormatContract      a pytest class to inherit from: one test for each rule that does not need Spark
    SparkContract       a pytest class to inherit from: one test for each rule of Columns; needs a fixture `spark`
    check_format        checks the rules that do not need Spark, without pytest; returns a `Report` or raises
    RULES               all rules, each with its sentence and the page of the docs that explains it

`fixtures` has a `spark` fixture. pytest is imported only by `fixtures` and by the tests when they run, and is in
the extra `kvformat[testing]`.
"""

from __future__ import annotations

from kvformat.registry.contract.errors import ContractError
from kvformat.registry.testing.contract import BrokenRules, FormatContract, Report, SparkContract, check_format
from kvformat.registry.testing.declaration import Declaration, Sample
from kvformat.registry.testing.rules import RULES, Rule

__all__ = [
    "RULES",
    "BrokenRules",
    "ContractError",
    "Declaration",
    "FormatContract",
    "Report",
    "Rule",
    "Sample",
    "SparkContract",
    "check_format",
]
