"""The rules as pytest classes and as the function `check_format`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final

import pyarrow as pa

from kvformat.registry.contract.errors import ContractError
from kvformat.registry.format import Format
from kvformat.registry.testing import columns, decoding, encoding, objects  # noqa: F401 - they fill RULES
from kvformat.registry.testing.declaration import Declaration, FormatDirection, Sample
from kvformat.registry.testing.edges import EDGES
from kvformat.registry.testing.rules import RULES, Outcome, Rule, check_rule
from kvformat.registry.testing.subject import Subject

_MESSAGES: Final = 20_000
"""Number of messages or rows that are timed for the report of speed."""


class BrokenRules(ContractError, AssertionError):
    """A format breaks rules of the contract. The text has one sentence for each broken rule.

    It is an `AssertionError`, so that pytest reports a failed test instead of an error.

    rules: the names of the broken rules.
    """

    def __init__(self, broken: Sequence[Outcome], *, format: str) -> None:
        self.rules = tuple(outcome.rule.name for outcome in broken)
        text = "\n".join(dict.fromkeys(outcome.broken or "" for outcome in broken))
        super().__init__(text, format=format, reason=", ".join(self.rules))


@dataclass(frozen=True)
class Report:
    """The checks of a format that follows all rules.

    compared: the number of comparisons of each rule.
    left_out: the rules that do not apply to the format, and why.
    speed: messages or rows per CPU second, by direction. For information only; no rule depends on it.
    """

    format: str
    compared: Mapping[str, int]
    left_out: Mapping[str, str]
    speed: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"format '{self.format}': {sum(self.compared.values()):,} comparisons by {len(self.compared)} rules"]
        lines += [f"  {name}: {count:,}" for name, count in self.compared.items()]
        lines += [f"  {name}: not applicable, {why}" for name, why in self.left_out.items()]
        lines += [f"  {name}: {speed:,} per CPU second" for name, speed in self.speed.items()]
        return "\n".join(lines)


def check_format(
    format: Format,
    rows: Sequence[Mapping[str, Any] | None],
    *,
    schema: str,
    row_kinds: Sequence[str] | None = None,
    messages: Sequence[bytes | None] | None = None,
    **declared: Any,
) -> Report:
    """Check all rules that do not need Spark, with one sample and the format's options.

    format: the format to check.
    rows, schema, row_kinds, messages: the attributes of a `Sample`.
    declared: further attributes of a `Declaration`. By default, `types` are the types of the schema's columns.

    Returns a `Report`. Raises `BrokenRules`, a `ContractError` and `AssertionError` with one sentence for each broken
    rule.
    """
    sample = Sample(schema, rows, row_kinds=row_kinds, messages=messages)
    options = {name: format._raw_options[name] for name in format._raw_options}
    if "types" not in declared:
        from kvformat.registry.contract.ddl import parse_schema, parse_type

        roots = {column.type.root for column in parse_schema(schema).fields}
        declared["types"] = tuple(flink for flink in EDGES if parse_type(flink).root in roots)
    subject = Subject(Declaration(type(format), options=options, samples=[sample], **declared))
    outcomes = [check_rule(rule, subject) for rule in RULES.values() if rule.part != "spark"]
    broken = [outcome for outcome in outcomes if outcome.broken is not None]
    if broken:
        raise BrokenRules(broken, format=format.identifier)
    return Report(
        format.identifier,
        {outcome.rule.name: outcome.compared for outcome in outcomes if outcome.left_out is None},
        {outcome.rule.name: outcome.left_out for outcome in outcomes if outcome.left_out is not None},
        speed(subject),
    )


def speed(subject: Subject) -> dict[str, int]:
    """Measure messages and rows per CPU second with the repeated first sample. One run gives only an estimate."""
    case = subject.cases[0]
    speeds, times = {}, _MESSAGES // max(len(case.messages), 1) + 1
    calls: dict[str, Callable[[], Any]] = {}
    if subject.declared.direction != "encode":
        messages = pa.concat_arrays([case.messages] * times)
        calls["decode"] = lambda: case.format.decode_batch(messages, case.schema)
    if subject.declared.direction != "decode":
        rows = pa.concat_arrays([case.rows] * times)
        calls["encode"] = lambda: case.format.encode_batch(rows, case.schema)
    for name, call in calls.items():
        start = time.process_time()
        call()
        speeds[name] = int(times * len(case.messages) / max(time.process_time() - start, 1e-9))
    return speeds


class _Contract:
    """The attributes of `Declaration` as class attributes."""

    format: ClassVar[str | type[Format]]
    options: ClassVar[Mapping[str, Any]] = {}
    samples: ClassVar[Sequence[Sample]] = ()
    direction: ClassVar[FormatDirection] = "both"
    types: ClassVar[Sequence[str]] = tuple(EDGES)
    unsupported: ClassVar[Sequence[str]] = ()
    most_columns: ClassVar[int | None] = None
    changed_values: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    unlike_wider: ClassVar[Sequence[str]] = ()
    changed_reads: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    untyped: ClassVar[str] = ""
    by_position: ClassVar[bool] = False
    null_is_row: ClassVar[bool] = False
    null_is_error: ClassVar[bool] = False
    skipped: ClassVar[Sequence[bytes]] = ()
    bad: ClassVar[Sequence[bytes]] = ()
    never_bad: ClassVar[str] = ""
    _subjects: ClassVar[dict[type, Subject]] = {}

    @classmethod
    def subject(cls) -> Subject:
        """The format under test, shared by all tests of the class."""
        if cls not in cls._subjects:
            declared = {of.name: getattr(cls, of.name) for of in fields(Declaration)}
            cls._subjects[cls] = Subject(Declaration(**declared))
        return cls._subjects[cls]

    def check(self, rule: Rule, *further: Any) -> None:
        """Check one rule. Raises `BrokenRules` if the format breaks it; skips the test if it does not apply."""
        outcome = check_rule(rule, self.subject(), *further)
        if outcome.left_out is not None:
            import pytest

            pytest.skip(outcome.left_out)
        if outcome.broken is not None:
            raise BrokenRules([outcome], format=self.subject().identifier)


class FormatContract(_Contract):
    """One test for each rule that does not need Spark, such as `test_null_messages`.

    class TestMsgpack(FormatContract):
        format = "msgpack"
        samples = [Sample("id BIGINT, name STRING", [{"id": 1, "name": "a"}, {"id": None, "name": ""}])]

    The class attributes are those of `Declaration`. Set a test to None in the class to leave it out.
    """

    def test_speed_is_reported(self) -> None:
        """Print the speed for `pytest -s`. The test never fails."""
        for name, per_second in speed(self.subject()).items():
            print(f"\nformat '{self.subject().identifier}': {name} {per_second:,} per CPU second")


class SparkContract(_Contract):
    """One test for each rule of Columns. It needs a fixture `spark`: a classic or Spark Connect session.

    from kvformat.registry.testing.fixtures import spark  # in conftest.py

    class TestMsgpackInSpark(SparkContract):
        format = "msgpack"
        samples = TestMsgpack.samples
    """


def _arrow_test(rule: Rule) -> Callable[[Any], None]:
    def test(self: _Contract) -> None:
        self.check(rule)

    return test


def _spark_test(rule: Rule) -> Callable[[Any, Any, Any], None]:
    def test(self: _Contract, spark: Any, tmp_path: Any) -> None:
        self.check(rule, spark, tmp_path)

    return test


for _rule in RULES.values():
    _contract, _make = (SparkContract, _spark_test) if _rule.part == "spark" else (FormatContract, _arrow_test)
    _test = _make(_rule)
    _test.__name__, _test.__doc__ = f"test_{_rule.name}", _rule.sentence
    setattr(_contract, _test.__name__, _test)
