"""Columns of every built-in format pass the test kit: two formats with every PySpark, the others once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Final

import pytest
from pyspark.sql import functions as F

from kvformat.codecs.json.format import JsonFormat
from kvformat.registry import Option
from kvformat.registry.testing import RULES, Declaration, Sample, SparkContract
from kvformat.registry.testing.rules import check_rule
from kvformat.registry.testing.subject import Subject
from tests.registry.testing import test_formats as formats

pytestmark = pytest.mark.spark


class TestJsonInSpark(SparkContract):
    format = "json"
    samples = formats.TestJson.samples
    bad = formats.TestJson.bad


class TestDebeziumJsonInSpark(SparkContract):
    format = "debezium-json"
    samples = formats.TestDebeziumJson.samples


@pytest.mark.once
@pytest.mark.slow
class TestCsvInSpark(SparkContract):
    format = "csv"
    options = formats.TestCsv.options
    samples = formats.TestCsv.samples


@pytest.mark.once
class TestRawInSpark(SparkContract):
    format = "raw"
    samples = formats.TestRaw.samples


@pytest.mark.once
@pytest.mark.slow
class TestAvroInSpark(SparkContract):
    format = "avro"
    options = formats.TestAvro.options
    samples = formats.TestAvro.samples


@pytest.mark.once
class TestAvroConfluentInSpark(SparkContract):
    format = "avro-confluent"
    options = formats.TestAvroConfluent.options
    samples = formats.TestAvroConfluent.samples


# --- mutants ------------------------------------------------------------------------------------------------

_SECRET: Final = Option(name="password", sensitive=True, doc="A secret.")


class Good(JsonFormat):
    """The base class of the mutants. Only their Columns are wrong; Spark's workers run the json format."""

    identifier: ClassVar[str] = "json"
    option_specs: ClassVar[tuple[Option, ...]] = (*JsonFormat.option_specs, _SECRET)

    def decode_rows(self, message: Any, schema: Any, **how: Any) -> Any:
        return JsonFormat().decode_rows(message, schema, **how)

    def encode(self, row: Any, schema: Any = None, **how: Any) -> Any:
        return JsonFormat().encode(row, schema, **how)


def _null_if(condition: Any, column: Any) -> Any:
    return F.when(~condition, column)


class LosesEmptyTexts(Good):
    rule = "columns"

    def encode(self, row: Any, schema: Any = None, **how: Any) -> Any:
        return _null_if(row_is(row, "name", ""), super().encode(row, schema, **how))


class OnlyInOneZone(Good):
    rule = "time_zones"

    def encode(self, row: Any, schema: Any = None, **how: Any) -> Any:
        return _null_if(F.current_timezone() == "America/New_York", super().encode(row, schema, **how))


class NeverFails(Good):
    rule = "policies"

    def decode_rows(self, message: Any, schema: Any, **how: Any) -> Any:
        captured = super().decode_rows(message, schema, errors="capture")
        return captured if how.get("errors") == "capture" else captured.getField("rows")


class OtherNative(Good):
    rule = "engines"

    def encode(self, row: Any, schema: Any = None, **how: Any) -> Any:
        encoded = super().encode(row, schema, **how)
        return F.concat(encoded, F.lit(b" ")) if how.get("engine") == "native" else encoded


class NotInFiles(Good):
    rule = "streams"

    def decode_rows(self, message: Any, schema: Any, **how: Any) -> Any:
        return super().decode_rows(F.when(F.input_file_name() == "", F.col(message)), schema, **how)


class RunsTwice(Good):
    """Uses a deterministic UDF, which Spark plans twice. No job runs it."""

    rule = "one_python_node"

    def decode_rows(self, message: Any, schema: Any, **how: Any) -> Any:
        rows = "rows ARRAY<STRUCT<row_kind STRING, id BIGINT, name STRING>>"
        return F.arrow_udf(lambda messages: messages, f"{rows}, error STRUCT<reason STRING>")(message)


class ShowsASecret(Good):
    rule = "secrets_in_plans"

    def decode_rows(self, message: Any, schema: Any, **how: Any) -> Any:
        hidden = F.lit(self.options["password"]).isNull()
        return super().decode_rows(_null_if(hidden, F.col(message)), schema, **how)


def row_is(row: str, name: str, value: str) -> Any:
    """Return a condition: a column of the row has this value."""
    return F.coalesce(F.col(row).getField(name) == value, F.lit(False))


def _declared(cls: type[Good]) -> Declaration:
    rows = [{"id": 1, "name": "a"}, {"id": None, "name": ""}]
    return Declaration(cls, samples=[Sample("id BIGINT, name STRING", rows)], bad=[b"{torn"])


@pytest.mark.once
@pytest.mark.parametrize("mutant", Good.__subclasses__(), ids=lambda mutant: mutant.__name__)
def test_the_rule_that_a_mutant_breaks_is_reported(spark: Any, tmp_path: Path, mutant: type[Good]) -> None:
    rule = RULES[mutant.rule]  # type: ignore[attr-defined]
    assert check_rule(rule, Subject(_declared(Good)), spark, tmp_path).broken is None
    (tmp_path / "mutant").mkdir()
    found = check_rule(rule, Subject(_declared(mutant)), spark, tmp_path / "mutant")
    assert found.broken is not None
    assert found.broken.startswith(f"format 'json' breaks the rule {rule.name}: {rule.sentence} ")
    assert ": unexpected " not in found.broken
    assert "hunter2" not in found.broken


def test_every_rule_of_columns_has_a_mutant() -> None:
    names = {mutant.rule for mutant in Good.__subclasses__()}  # type: ignore[attr-defined]
    assert names == {name for name, rule in RULES.items() if rule.part == "spark"}
