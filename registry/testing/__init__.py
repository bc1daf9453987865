"""The test kit: what every built-in format must pass, for the formats of other packages.

    FormatContract      a class for pytest to inherit: a test for each rule, without Spark
    SparkContract       the same for the rules of Columns; it needs a fixture `spark`, such as that of `fixtures`
    check_format        the rules without Spark, without pytest: a report, or a `ContractError` with what is broken
    RULES               the rules, each with the sentence that it is and the page that explains it

Only the classes' tests, when they run, and `fixtures` import pytest: `pip install 'kvformat[testing]'`.
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
