"""Expressions of a projection: the expressions of columns in place of their names."""

from __future__ import annotations

import pytest

from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.sql.projected_expressions import SomeColumns, projected_expression

_TYPES = {field.name: field.type for field in parse_schema("a INT, upper STRING, r ROW<total INT>").fields}
_INLINED = {"total": "a * 2", "a`b": "a + 1"}


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("total + 1", "(a * 2) + 1"),
        ("1 + total", "1 + (a * 2)"),
        ("`total` + `a``b`", "(a * 2) + (a + 1)"),
        ("r.total + total", "r.total + (a * 2)"),  # a member, and the column
        ("a + a", "a + a"),
    ],
)
def test_a_column_is_replaced_by_its_expression_in_brackets(text: str, source: str) -> None:
    found = projected_expression(text, columns=_TYPES, inlined=_INLINED)
    assert (found.refused, found.source.replace(" ", "")) == ("", source.replace(" ", ""))
    assert str(found.type) == "INT"


def test_a_function_with_the_name_of_a_column_stays() -> None:
    found = projected_expression("UPPER(s)", columns=SomeColumns(), inlined={"UPPER": "a", "s": "t || 'x'"})
    assert found.source.replace(" ", "") == "UPPER((t||'x'))"


def test_an_expression_of_a_column_of_unknown_type_has_no_type_yet() -> None:
    found = projected_expression("b + 1", columns=SomeColumns(_TYPES))
    assert (found.refused, found.type) == ("", None)
    assert str(projected_expression("a + 1", columns=SomeColumns(_TYPES)).type) == "INT"
