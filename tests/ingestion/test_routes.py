"""Patterns of table names and routes."""

from __future__ import annotations

import pickle

import pytest

from kvformat.ingestion.errors import SchemaChangeError
from kvformat.ingestion.pipeline.routes import Route, Router, Selector, pattern_warning
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.registry.contract.errors import OptionError


def _targets(*routes: Route, table: str, mode: str = "ALL_MATCH") -> list[str]:
    return [str(target) for target in Router(routes, mode).targets(TableId.parse(table))]  # type: ignore[arg-type]


def test_groups_replace_their_numbers_as_in_java() -> None:
    assert _targets(Route(r"mydb.(\.*)_(\.*)", "$2.${1}x".replace("{1}", "1")), table="mydb.a_b") == ["b.ax"]
    assert _targets(Route(r"db.(t)(\d)", r"$12.\$1"), table="db.t7") == ["t2.$1"]
    twelve = r"db.(t)" + r"(\d)" * 11
    assert _targets(Route(twelve, "ods.$12_$1_$123"), table="db.t12345678907") == ["ods.7_t_73"]
    assert _targets(Route(r"db.t(x)?", "ods.t$1_"), table="db.t") == ["ods.t_"]
    assert _targets(Route(r"db.t", "ods.$0"), table="db.t") == ["ods.db.t"]


def test_a_symbol_wins_over_groups() -> None:
    assert _targets(Route(r"db.(t)", "ods.<>_$1", "<>"), table="db.t") == ["ods.t_$1"]
    assert _targets(Route("db.t", "<>.<>_<>", "<>"), table="db.t") == ["t.t_t"]


def test_each_target_comes_once() -> None:
    one, other = Route(r"db.\.*", "ods.t"), Route("db.t", "ods.t")
    assert _targets(one, other, table="db.t") == ["ods.t"]
    rest = Route(r"\.*.\.*", "rest.t")
    assert _targets(one, rest, table="db.t") == ["ods.t", "rest.t"]
    assert _targets(one, rest, table="db.t", mode="FIRST_MATCH") == ["ods.t"]


def test_routes_match_the_text_of_a_name_with_dots() -> None:
    topic = TableId(("shop.orders",))
    assert Router([Route("shop.orders", "ods.orders")]).targets(topic) == (TableId(("ods", "orders")),)
    assert Router([Route("x", "y")]).targets(topic) == (topic,)
    assert Selector("shop.orders", "source-table").matches(topic)
    assert not Selector("orders", "source-table").matches(topic)


@pytest.mark.parametrize(
    ("route", "message"),
    [
        (Route("(", "x"), r"'route\.source-table' is '\(', which is not a pattern of table names"),
        (Route("db.t{1,2}", "x"), "A comma separates alternatives, so it can't be part of a pattern"),
        (Route(r"db.(\.*)", "$2.t"), r"has 1 groups: write one of \$1 to \$n"),
        (Route("db.t", "costs$"), r"'route\.sink-table' is 'costs\$'"),
    ],
)
def test_a_wrong_route_is_an_error_at_the_start(route: Route, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Router([route]).check()


def test_a_target_that_is_no_name_is_an_error_of_its_table() -> None:
    text = r"table db\.t: the route of .* leads to '\$1\.x': '\.x' is not the name of a table"
    with pytest.raises(SchemaChangeError, match=text) as caught:
        _targets(Route(r"db.(\.*)t", "$1.x"), table="db.t")
    assert caught.value.table == "db.t"
    topic, route = TableId(("a.b.c.d",)), Route(r"a\.*", "ods.<>", "<>")
    with pytest.raises(SchemaChangeError, match=r"'ods\.a\.b\.c\.d' is not the name of a table"):
        Router([route]).targets(topic)


def test_a_slow_pattern_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvformat.registry.java.regex._LONGEST_MATCH", 0.05)
    with pytest.raises(OptionError, match="repeats are nested"):
        _targets(Route(r"(a|aa)+(?<!a)", "x"), table="a" * 60)


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (("a.b.c.d", "a.b.c.d.e", "t,a.b.c.d", "."), "has one to three parts"),
        (("", ",", ",,"), "names no table"),
        (("(", "t,a.("), "is not a pattern"),
        (("a\\", "\\", "t,a.b\\", "a\\.b\\"), "ends with a backslash"),
    ],
)
def test_what_is_wrong_with_a_selector_is_told(texts: tuple[str, ...], why: str) -> None:
    for text in texts:
        with pytest.raises(OptionError, match=f"'source-table' is .*{why}") as caught:
            Selector(text, "source-table")
        assert caught.value.option == "source-table"


def test_a_selector_needs_a_part_for_each_part_of_a_name() -> None:
    tables = [TableId.parse(text) for text in ("orders", "shop.orders", "lake.shop.orders", "shop.items")]
    exact = ("orders", tables[:1]), ("shop.orders", tables[:2]), ("lake.shop.orders", tables[:3])
    for text, expected in (*exact, (r"\.*", tables[:1]), (r"\.*.orders", tables[:2]), (r"\.*.\.*.\.*", tables)):
        assert [table for table in tables if Selector(text, "source-table").matches(table)] == expected


@pytest.mark.parametrize("text", ["shop.orders , lake.x", ",shop.orders,,", "x, shop . orders "])
def test_blanks_and_empty_alternatives_of_a_selector_are_skipped(text: str) -> None:
    assert Selector(text, "source-table").matches(TableId.parse("shop.orders"))
    assert not Selector(text, "source-table").matches(TableId.parse("shop.x"))


def test_alternatives_in_a_class_have_a_warning() -> None:
    assert pattern_warning(r"[app|web].order_\.*") == (
        r"the pattern '[app|web].order_\\.*' has a class of characters, [app|web]; for one of several words, "
        "write (app|web)"
    )
    assert pattern_warning("(app|web).t[0-9]") == ""


def test_routes_and_selectors_travel_to_workers() -> None:
    table = TableId.parse("db.t")
    router = Router([Route("db.(t)", "ods.$1")], "FIRST_MATCH")
    assert router.targets(table) == pickle.loads(pickle.dumps(router)).targets(table) == (TableId.parse("ods.t"),)
    selector = Selector("DB.T", "source-table")
    assert selector.matches(table)
    assert pickle.loads(pickle.dumps(selector)).matches(table)
