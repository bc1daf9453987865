"""The blocks `transform` and `route`."""

from __future__ import annotations

from typing import Any

import pytest

from kvformat.ingestion.pipeline.routes import Route
from kvformat.ingestion.pipeline.transform import parse_routes, parse_transforms
from kvformat.ingestion.pipeline.yaml import Secret
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.registry import ConfigurationError

TABLE = {"source-table": r"shop.\.*"}


def test_a_rule_without_options_changes_nothing() -> None:
    (rule,) = parse_transforms([TABLE])
    assert (rule.columns, rule.filter, rule.primary_keys, rule.partition_keys) == (None, "", (), ())
    assert rule.selector.matches(TableId(("SHOP", "orders")))
    assert (dict(rule.table_options), rule.soft_delete, rule.notes, rule.metadata) == ({}, False, (), frozenset())


def test_all_options_of_a_rule() -> None:
    (rule,) = parse_transforms(
        [
            {
                **TABLE,
                "projection": r"\*, __data_event_type__ AS op, a / b AS c",
                "filter": "a > 1",
                "primary-keys": "id, `shard`",
                "partition-keys": "day",
                "table-options": "a=b=c;; d = e ;",
                "table-options.delimiter": ";",
                "converter-after-transform": "soft_delete",
                "description": "text",
            }
        ]
    )
    assert list(map(str, rule.columns or ())) == ["*", "__data_event_type__ AS `op`", "a / b AS `c`"]
    assert rule.filter == "a > 1"
    assert (rule.primary_keys, rule.partition_keys) == (("id", "shard"), ("day",))
    assert rule.table_options == {"a": "b=c", "d": "e"}
    assert rule.soft_delete
    assert rule.metadata == {"__data_event_type__"}
    assert rule.notes == (
        "transform 1: '/' of two integers has a fraction in Spark, not in Flink; use DIV for whole numbers",
    )


@pytest.mark.parametrize("dialect", ["spark", "flink"])
def test_projection_and_filter_count_together(dialect: str) -> None:
    """Their metadata columns, and what is refused or told of them."""
    given = {**TABLE, "dialect": dialect, "projection": r"\*, __table_name__ AS t", "filter": "__schema_name__ = 'a'"}
    (rule,) = parse_transforms([given])
    assert rule.metadata == {"__table_name__", "__schema_name__"}
    for key, text in (("projection", "a / b AS c"), ("filter", "a / b > 1")):
        (divided,) = parse_transforms([{**TABLE, "dialect": dialect, key: text}])
        assert len(divided.notes) == (dialect == "spark")
    texts = {"projection": "NOPE(a) AS b", "filter": "NOT_THERE(a)"}
    (refused,) = parse_transforms([{**TABLE, "dialect": dialect, **texts}])
    assert [why.option for why in refused.refused] == ([] if dialect == "spark" else ["b", "filter"])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a, `b`,c", ("a", "b", "c")),
        ("` a`, `we``ird`", (" a", "we`ird")),
        ("`a` , ````", ("a", "`")),
        ("a`b", ("a`b",)),
    ],
)
@pytest.mark.parametrize("key", ["primary-keys", "partition-keys"])
def test_names_of_keys_may_be_in_backticks(key: str, text: str, names: tuple[str, ...]) -> None:
    (rule,) = parse_transforms([{**TABLE, key: text}])
    assert {"primary-keys": rule.primary_keys, "partition-keys": rule.partition_keys}[key] == names


@pytest.mark.parametrize("items", ["", [], ()])
def test_an_empty_block_has_no_rules(items: Any) -> None:
    assert parse_transforms(items) == parse_routes(items) == ()


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        (TABLE, "transform: must be a list of rules: put '- ' before the first key of each rule"),
        ("a text", "transform: must be a list of rules"),
        (["a"], "transform 1: a rule must be a map, such as 'source-table: db.t'"),
        ([TABLE, {}], "transform 2: the option 'source-table' is missing: selector of the tables"),
        ([{"source-table": " "}], "transform 1: 'source-table' must not be empty"),
        ([{"source-table": "a.b.c.d"}], "transform 1: 'transform.source-table' is 'a.b.c.d'"),
        ([{"source-table": "("}], "transform 1: 'transform.source-table' is '('"),
        ([{**TABLE, "projekt": "a"}], "transform 1: there is no option 'projekt'. Did you mean 'projection'?"),
        ([{**TABLE, "projection": "a b"}], "transform 1: cannot read the projection: an expression needs a name"),
        ([{**TABLE, "projection": ["a"]}], "transform 1: option 'projection' must be a text, not a list"),
        ([{**TABLE, "filter": ""}], "transform 1: cannot read the filter: expected a condition"),
        ([{**TABLE, "primary-keys": "a,,b"}], "'primary-keys' must be names of columns, separated by ','"),
        ([{**TABLE, "primary-keys": "a,``"}], "'primary-keys' must be names of columns, separated by ','"),
        ([{**TABLE, "primary-keys": "a, a"}], "'primary-keys' has the column 'a' twice"),
        ([{**TABLE, "partition-keys": ""}], "'partition-keys' must be names of columns"),
        ([{**TABLE, "table-options": "a"}], "'table-options': 'a' must be 'name=value', separated by ','"),
        ([{**TABLE, "table-options": "a=b,a=c"}], "'table-options': 'a=c' is set twice"),
        ([{**TABLE, "table-options.delimiter": ""}], "'table-options.delimiter' must not be empty"),
        ([{**TABLE, "converter-after-transform": "HARD"}], "supported values are [SOFT_DELETE]"),
        ([{**TABLE, "filter": Secret("s3same")}], "transform 1: option 'filter' has a secret (secret_values)"),
    ],
)
def test_malformed_transforms_are_errors(items: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_transforms(items)
    assert reason in str(caught.value)
    assert "s3same" not in str(caught.value)


def test_rules_without_effect_are_said() -> None:
    other = {"source-table": "other"}
    for number, rules in ((2, [TABLE, TABLE]), (3, [TABLE, other, TABLE])):
        last = parse_transforms(rules)[-1]
        assert last.notes == (f"transform {number}: no effect, because an earlier rule has the same 'source-table'",)
    (words,) = parse_transforms([{"source-table": "[a|b].c"}])
    assert "has a class of characters, [a|b]" in words.notes[0]
    for more in ({}, {"projection": "*, __table_name__ AS t"}):
        (soft,) = parse_transforms([{**TABLE, "converter-after-transform": "SOFT_DELETE", **more}])
        assert "'__data_event_type__ AS op_type'" in soft.notes[0]


def test_routes() -> None:
    first, same, second = parse_routes(
        [
            {"source-table": "a", "sink-table": "b"},
            {"source-table": "a", "sink-table": "b", "replace-symbol": ""},
            {"source-table": r"c.\.*", "sink-table": "d.<>", "replace-symbol": "<>", "description": "x"},
        ]
    )
    assert first == same == Route("a", "b")
    assert second == Route(r"c.\.*", "d.<>", "<>")


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ({"source-table": "a", "sink-table": "b"}, "route: must be a list of rules: put '- '"),
        ([{"source-table": "a"}], "route 1: the option 'sink-table' is missing: the target table"),
        ([{"source-table": "(", "sink-table": "b"}], "route 1: 'route.source-table' is '(', which is not a pattern"),
        ([{"source-table": "a(b)", "sink-table": "$2"}], "route 1: 'route.sink-table' is '$2'"),
        ([{"source-table": "a", "sink-table": ""}], "route 1: 'sink-table' must not be empty"),
        ([{"source-table": "a", "sinktable": "b"}], "there is no option 'sinktable'. Did you mean 'sink-table'?"),
    ],
)
def test_malformed_routes_are_errors(items: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_routes(items)
    assert reason in str(caught.value)
