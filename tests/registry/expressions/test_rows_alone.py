"""An expression has the same value, or the same failure, for a row alone and among others; no row makes it raise."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs import get_format
from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import nullable
from kvformat.registry.expressions.rows import Rows, Session
from kvformat.registry.expressions.vectors import values_of_array
from kvformat.registry.sql.expressions import read_expression
from tests.support import computed

_NOW = 1_764_000_000_000_000
_PICKED = {"computed": 1500, "computed-json": 400}
_ROWS = 24
_CHANGES = ["", "0", "-", " ", ".", "e9", "\u00df", "\U0001f600", "\u0301", "%", "\\", "[", "{", '"', "9" * 40, "\x00"]


def _changed(value: Any, chosen: random.Random) -> Any:
    """Return a text with a piece put in or taken out; other values as they are."""
    if not isinstance(value, str) or chosen.random() < 0.5:
        return value
    at = chosen.randrange(len(value) + 1)
    return value[:at] + chosen.choice(_CHANGES) + value[at + chosen.randrange(3) :]


def _random_rows(given: computed.Answers, chosen: random.Random) -> list[dict[str, Any]]:
    """Return rows that mix the values of the given ones; texts are changed."""
    types = {field.name: field.type.root for field in parse_schema(given.columns).fields}
    rows = []
    for _ in range(_ROWS):
        row = {name: chosen.choice(given.rows)[name] for name in types}
        rows.append({n: _changed(v, chosen) if types[n] == "VARCHAR" else v for n, v in row.items()})
    return rows


@pytest.mark.parametrize("name", _PICKED)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_row_has_no_effect_on_others(name: str, zone: str) -> None:
    chosen, given = random.Random(f"{name} {zone} 5"), computed.answers(name)
    fields = parse_schema(given.columns).fields
    types = {field.name: nullable(field.type) for field in fields}
    messages = pa.array([json.dumps(row).encode() for row in _random_rows(given, chosen)], pa.binary())
    decoded = get_format("json").decode_batch(messages, given.columns)
    assert decoded.errors is None
    columns = {field.name: decoded.rows.values.field(i) for i, field in enumerate(fields)}
    expressions = sorted({answer["expression"] for answer in given.answers if "RAND" not in answer["expression"]})
    compared, different = 0, []
    for expression in chosen.sample([e for e in expressions if "UUID" not in e], _PICKED[name]):
        try:
            bound = read_expression(expression, types)
        except SchemaError:
            continue
        together = Rows(columns, types, _ROWS, Session(zone, _NOW))
        array = bound.evaluate(together).array()
        array.validate(full=True)
        values = [computed.plain(bound.type, value) for value in values_of_array(bound.type, array)]
        for i in chosen.sample(range(_ROWS), 4):
            one = {column: array.slice(i, 1) for column, array in columns.items()}
            alone = Rows(one, types, 1, Session(zone, _NOW))
            value = values_of_array(bound.type, bound.evaluate(alone).array())[0]
            compared += 1
            if str((computed.plain(bound.type, value), alone.failures.get(0))) != str(
                (values[i], together.failures.get(i))
            ):
                different.append((expression, i, value, values[i], alone.failures.get(0), together.failures.get(i)))
    print(f"{name} in {zone}: {compared} rows compared")
    assert different == []
    assert compared > 3 * _PICKED[name]
