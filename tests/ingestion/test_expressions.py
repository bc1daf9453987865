"""Expressions of transforms on rows that they can't be evaluated for: columns without a value yet, and failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvformat.ingestion.errors import SchemaChangeError
from kvformat.ingestion.pipeline.transform import parse_transforms
from kvformat.ingestion.rules import UsedColumns
from tests.ingestion.history import BatchQuery

_BY_ID = {"primary-keys": "id"}
_UNKNOWN = {
    "is_null": ({"filter": "deleted_at IS NULL"}, [1, 2]),
    "compared": ({"filter": "deleted_at = '2024-01-01'"}, []),
    "not_equal": ({"filter": "deleted_at <> '2024-01-01'"}, []),
    "coalesced": ({"filter": "COALESCE(amount, 0) = 0"}, [1, 2]),
    "either": ({"filter": "amount > 5 OR id = 2"}, [2]),
    "quoted": ({"filter": "`a b` IS NULL AND id > 1"}, [2]),
    "projected": ({"projection": "id, deleted_at"}, [1, 2]),
    "computed": ({"projection": r"\*, UPPER(deleted_at) AS u, COALESCE(amount, 7) AS c"}, [1, 2]),
    "passed": ({"projection": "id, deleted_at AS d"}, [1, 2]),
    "flink_null": ({"dialect": "flink", "filter": "deleted_at IS NULL"}, [1, 2]),
    "flink_compared": ({"dialect": "flink", "filter": "amount > 5 OR id = 2"}, [2]),
    "flink_computed": ({"dialect": "flink", "projection": "id, COALESCE(amount, 7) AS c"}, [1, 2]),
}
"""A rule for each table, and the keys of two rows whose columns `deleted_at`, `amount` and `a b` are NULL."""
_FAILING = {
    "cast": ({"projection": "id, CAST(x AS INT) AS n"}, [1, 3]),
    "nested": ({"projection": "id, array(CAST(x AS INT)) AS n"}, [1, 3]),
    "guarded": ({"projection": "id, CASE WHEN x = 'x' THEN 0 ELSE CAST(x AS INT) END AS n"}, [1, 2, 3]),
    "divided": ({"projection": "id, 1 / (id - 2) AS n"}, [1, 3]),
    "date": ({"projection": "id, to_date(x, 'd') AS n"}, [1, 3]),
    "filtered": ({"filter": "CAST(x AS INT) > 4 OR x IS NULL"}, [1, 3]),
    "implicit": ({"filter": "x > 4"}, [1]),
    "both": ({"projection": "id, CAST(x AS INT) AS n", "filter": "n > 4"}, [1]),
    "two": ({"projection": "id, CAST(x AS INT) AS n, element_at(array(1, 2), CAST(id AS INT)) AS e"}, [1]),
    "tried": ({"projection": "id, TRY_CAST(x AS INT) AS n"}, [1, 2, 3]),
    "flink": ({"dialect": "flink", "projection": "id, CAST(x AS INT) AS n"}, [1, 3]),
}
"""A rule for each table, and the keys of those of its rows (1, '5'), (2, 'x'), (3, NULL) that it gives."""


def _rules(cases: dict[str, tuple[dict[str, str], list[int]]]) -> list[dict[str, str]]:
    return [{"source-table": rf"shop.{table}", **_BY_ID, **rule} for table, (rule, _) in cases.items()]


def _records(tables: Any, *rows: dict[str, Any], first: int = 0) -> list[Any]:
    found = []
    for table in tables:
        for row in rows:
            source = {"db": "shop", "table": table}
            value = json.dumps({"before": None, "after": row, "op": "c", "source": source}).encode()
            found.append((None, value, "shop", 0, first + len(found), None, 0, None))
    return found


def test_a_rule_names_the_columns_that_it_may_use() -> None:
    rules = [
        {"source-table": "shop.o", "projection": "id, UPPER(`a b`) AS u, x.y AS z", "filter": "v_c > 'not d'"},
        {"source-table": "shop.o", "filter": "other = 1"},
        {"source-table": "shop.f", "dialect": "flink", "projection": "v_a, v_b + 1 AS c"},
    ]
    used = UsedColumns(parse_transforms(rules))
    found = used(("shop", "o"))
    assert {"id", "a b", "x", "v_c"} <= found
    assert not {"d", "not", "other"} & found
    assert {"v_a", "v_b"} <= used(("shop", "f"))
    assert used(("shop", "p")) == frozenset()
    assert UsedColumns(parse_transforms(rules), "v_")(("shop", "f")) == {"a", "b"}


@pytest.mark.spark
def test_a_column_that_had_no_value_yet_is_null_in_expressions(spark: Any, tmp_path: Path) -> None:
    query = BatchQuery(spark, tmp_path, transform=_rules(_UNKNOWN))
    nothing = {"deleted_at": None, "amount": None, "a b": None}
    query.run(_records(_UNKNOWN, {"id": 1, **nothing}, {"id": 2, **nothing}))
    for table, (_, keys) in _UNKNOWN.items():
        assert [row["id"] for row in query.rows(f"shop.{table}")] == keys, table
    assert query.table("shop.projected").columns == ["id"]
    assert query.table("shop.passed").columns == ["id"]
    assert [row["c"] for table in ("computed", "flink_computed") for row in query.rows(f"shop.{table}")] == [7] * 4
    query.restart()
    value = {"id": 3, "deleted_at": "2024-01-01", "amount": 9, "a b": "x"}
    query.run(_records(_UNKNOWN, value, {"id": 4}, first=100))
    expected = {"compared": [3], "either": [2, 3], "is_null": [1, 2, 4], "flink_null": [1, 2, 4]}
    for table, keys in expected.items():
        assert [row["id"] for row in query.rows(f"shop.{table}")] == keys, table
    assert [row["c"] for row in query.rows("shop.computed")] == [7, 7, 9, 7]
    assert [row["d"] is None for row in query.rows("shop.passed")] == [True, True, False, True]
    assert len(_UNKNOWN) >= 12


@pytest.mark.spark
def test_a_column_that_no_message_has_is_an_error(spark: Any, tmp_path: Path) -> None:
    rules = _rules({"o": ({"filter": "deletedat IS NULL"}, [])})
    query = BatchQuery(spark, tmp_path, transform=rules)
    with pytest.raises(SchemaChangeError, match=r"`deletedat` cannot be resolved.* columns are id\. 'table\.columns'"):
        query.run(_records(["o"], {"id": 1, "deleted_at": None}))


@pytest.mark.spark
def test_a_record_is_bad_if_an_expression_fails_for_one_of_its_rows(spark: Any, tmp_path: Path) -> None:
    kept = str(tmp_path / "dead")
    source = {"ingestion.ignore-errors": "true"}
    query = BatchQuery(spark, tmp_path, source, letters=kept, transform=_rules(_FAILING))
    query.run(_records(_FAILING, {"id": 1, "x": "5"}, {"id": 2, "x": "x"}, {"id": 3, "x": None}))
    for table, (_, keys) in _FAILING.items():
        assert [row["id"] for row in query.rows(f"shop.{table}")] == keys, table
    letters = spark.read.parquet(kept).toArrow().to_pylist()
    bad: dict[str, list[int]] = {}
    for letter in letters:
        bad.setdefault(letter["table"].removeprefix("shop."), []).append(json.loads(letter["value"])["after"]["id"])
    expected = {table: {1, 2, 3} - {*keys} for table, (_, keys) in _FAILING.items()}
    expected["implicit"] = expected["both"] = {2}  # NULL does not match
    assert {table: {*keys} for table, keys in bad.items()} == {table: keys for table, keys in expected.items() if keys}
    reasons = {letter["table"]: letter["reason"] for letter in letters}
    assert reasons["shop.cast"] == "Spark can't evaluate CAST(x AS INT) for this row"
    assert {letter["code"] for letter in letters} == {"COMPUTED_COLUMN"}
    assert len(letters) >= 8
