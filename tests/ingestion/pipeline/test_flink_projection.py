"""Transforms in Flink SQL: what is translated, what is refused with its reason, what is an error."""

from __future__ import annotations

from typing import Any

import pytest

from kvformat.ingestion import Pipeline
from kvformat.ingestion.pipeline.flink_projection import translate_flink_filter, translate_flink_projection
from kvformat.ingestion.pipeline.transform import parse_transforms
from kvformat.registry import ConfigurationError
from kvformat.registry.contract.ddl import parse_type
from tests.support.sources import BASE

_TYPES = {"price": parse_type("DOUBLE"), "flag": parse_type("BOOLEAN"), "date": parse_type("DATE")}


@pytest.mark.parametrize(
    ("flink", "columns"),
    [
        (r"\*", ["*"]),
        ("*, id", ["*", "`id` AS `id`"]),
        (r"\*, CAST(`timestamp` AS DATE) AS `date`", ["*", "CAST(`timestamp` AS DATE) AS `date`"]),
        ("COALESCE(a, 'it''s') AS b, c AS d", ["COALESCE(a, 'it''s') AS `b`", "c AS `d`"]),
        ("price / 2 AS half", ["price / 2 AS `half`"]),
        ("a / b AS c", ["a / b AS `c`"]),
        ("JSON_VALUE(a, '$.b') AS c", ["JSON_VALUE(a, '$.b') AS `c`"]),
        ("CASE WHEN a > 1 THEN 'x' ELSE UPPER(b) END AS c", ["CASE WHEN a > 1 THEN 'x' ELSE UPPER(b) END AS `c`"]),
        ("a IN (1, 2) AS b", ["a IN(1, 2) AS `b`"]),
        ("__table_name__ AS t", ["__table_name__ AS `t`"]),
    ],
)
def test_projections(flink: str, columns: list[str]) -> None:
    found = translate_flink_projection(flink, _TYPES)
    assert (list(map(str, found.columns)), found.refused) == (columns, ())
    computed = [column for column in found.columns if column.flink]
    again = translate_flink_projection(", ".join(f"{c.flink} AS `{c.name}`" for c in computed) or "*", _TYPES)
    assert not computed or list(again.columns) == computed


@pytest.mark.parametrize(
    ("flink", "reason"),
    [
        ("price % 2 AS c", "column 'c': %: Flink does not have this operation"),
        ("java_method('a', 'b') AS c", "column 'c': JAVA_METHOD: no function that can be evaluated here"),
        ("a AND AS c", "column 'c': "),
        ("a b AS c", "column 'c': 'b': unexpected here, at line 1, column 3"),
        ("f(a)) AS c", "column 'c': F: no function"),
        ("LOWER(a)) AS c", "column 'c': ')': unexpected here, at line 1, column 9"),
        ("id,\n TRIM(x) || NOPE(y) AS c", "column 'c': NOPE: no function"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(flink: str, reason: str) -> None:
    found = translate_flink_projection(flink, _TYPES)
    (why,) = found.refused
    assert why.startswith(reason)
    assert (why.option, ", at line " in why) == ("c", True)
    assert "c" not in [column.name for column in found.columns]


@pytest.mark.parametrize(
    ("flink", "reason"),
    [
        ("", "expected a column or an expression, at line 1, column 1"),
        ("a,\n,b", "expected a column or an expression, at line 2, column 1"),
        ("a + 1", "an expression needs a name: write <expression> AS <name>, at line 1, column 6"),
        ("UPPER(a) b", "an expression needs a name"),
        ("a AS b, c AS b", "there are two columns named 'b', at line 1, column 9"),
        ("*, \\*", "'*' is written twice"),
        ("a AS b c", "'c': unexpected after the name of a column"),
        ("__tabel_name__ AS t", "there is no such metadata column. Did you mean '__table_name__'?"),
        ("UPPER('a) AS b", "the quote is not closed"),
    ],
)
def test_errors(flink: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_transforms([{"source-table": "t", "dialect": "flink", "projection": flink}])
    assert str(caught.value).startswith("transform 1: cannot read the projection: ")
    assert reason in str(caught.value)


def test_filters() -> None:
    found = translate_flink_filter("a > 1 AND __data_event_type__ <> '-D'", {})
    assert (found.flink, found.metadata) == ("a > 1 AND __data_event_type__ <> '-D'", {"__data_event_type__"})
    (why,) = translate_flink_filter("NOPE(a) > 0", {}).refused
    assert why.startswith("the condition: NOPE: ")
    with pytest.raises(ConfigurationError, match="expected a condition"):
        translate_flink_filter("", {})


def _pipeline(**rule: Any) -> Pipeline:
    columns = {"table.columns": "price DOUBLE, ts TIMESTAMP_LTZ METADATA FROM 'timestamp'", "value.format": "json"}
    transform = {"source-table": "t", "dialect": "flink", **rule}
    return Pipeline({**BASE, **columns}, {"type": "values"}, transform=[transform])


def test_a_pipeline_knows_the_types_of_declared_columns() -> None:
    made = _pipeline(projection=r"\*, price / 2 AS half, CAST(ts AS DATE) AS `day`")
    assert (made.refused, made.transforms[0].is_flink) == ((), True)
    assert "  columns: *, price / 2 AS `half`, CAST(ts AS DATE) AS `day`" in made.explain().splitlines()
    (why,) = _pipeline(projection=r"\*, NOPE(v) AS a").refused
    assert why.startswith("transform 1: column 'a': NOPE: no function that can be evaluated here")
    assert "skip_computed" not in why
