"""Golden answers of real Flink for expressions of computed columns, and their comparison with the evaluator.

The files are described in fixtures/flink-2.3/README.md.
"""

from __future__ import annotations

import base64
import datetime as dt
import functools
import json
import lzma
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import FlinkType, nullable
from kvformat.registry.expressions import decimals
from kvformat.registry.expressions.rows import Rows, Session
from kvformat.registry.expressions.vectors import values_of_array
from kvformat.registry.sql.expressions import read_expression

_FOLDER = Path(__file__).parents[2] / "fixtures" / "flink-2.3"
_COUNT = FlinkType("INT")
_CYCLE = 146_097 * 86_400_000_000
_CONSTANT = "IFNULL('a', 'abc')"
"""Flink's planner has the first literal for it, with a type of its own; here it has the common type."""
_NOW = 1_764_000_000_000_000
"""The current time in microseconds since 1970; two digits of a year are those of the 80 years before it."""


@dataclass(frozen=True)
class Answers:
    """A table, and what Flink answered for expressions on its rows."""

    columns: str
    rows: list[dict[str, Any]]
    answers: list[dict[str, Any]]


@functools.cache
def answers(name: str) -> Answers:
    """Return the answers of a file: "computed" or "computed-json"."""
    with lzma.open(_FOLDER / f"{name}.jsonl.xz", "rt", encoding="ascii") as file:
        table, *found = map(json.loads, file)
    columns = ", ".join(f"`{column}` {type_}" for column, type_ in table["columns"])
    return Answers(columns, table["rows"], found)


def arrays(given: Answers) -> tuple[dict[str, pa.Array], dict[str, FlinkType]]:
    """Return the columns of the rows, and their types."""
    from kvformat.codecs import get_format

    messages = pa.array([json.dumps(row).encode() for row in given.rows], pa.binary())
    decoded = get_format("json").decode_batch(messages, given.columns)
    assert decoded.errors is None
    fields = parse_schema(given.columns).fields
    rows = decoded.rows.values
    return {f.name: rows.field(i) for i, f in enumerate(fields)}, {f.name: nullable(f.type) for f in fields}


@dataclass(frozen=True)
class Result:
    """The result of an expression: what is different in type and values, or why it is refused."""

    zone: str
    expression: str
    differences: list[str]
    refused: str = ""


def results(given: Answers) -> Iterator[Result]:
    """Evaluate all expressions; yields a result for each."""
    columns, types = arrays(given)
    for answer in given.answers:
        zone, expression = answer["zone"], answer["expression"]
        try:
            bound = read_expression(expression, types)
        except SchemaError as error:
            yield Result(zone, expression, [], str(error.reason))
            continue
        rows = Rows(columns, types, len(given.rows), Session(zone, _NOW))
        vector = bound.evaluate(rows)
        array = vector.array()
        array.validate(full=True)
        got = [plain(vector.type, value) for value in values_of_array(vector.type, array)]
        yield Result(zone, expression, list(_differences(answer, bound.type, got, rows.failures)))


def _differences(answer: dict[str, Any], type_: FlinkType, got: list[Any], failed: Mapping[int, str]) -> Iterator[str]:
    if "error" in answer or "deviation" in answer:
        return
    wanted, given = (str(one).replace(" NOT NULL", "") for one in (answer["type"], type_))
    if wanted != given and answer["expression"] != _CONSTANT:
        yield f"type: Flink {wanted}, here {given}"
    failing = set(answer.get("rows_failing", ()))
    for i, (want, value) in enumerate(zip(answer["values"], got, strict=True)):
        if i in answer.get("not_compared", ()):
            continue
        if (i in failing) != (i in failed):
            yield f"row {i}: Flink {'fails' if i in failing else want!r}, here {failed.get(i, value)!r}"
        elif i not in failing and not same(answer["type"], want, value):
            yield f"row {i}: Flink {want!r}, here {value!r}"


def plain(type_: FlinkType, value: Any) -> Any:
    """Return a value of the evaluator in the form of the answers."""
    root = type_.root
    if value is None or root in ("CHAR", "VARCHAR", "BOOLEAN"):
        return value
    if root == "DECIMAL":
        return decimals.text(value, type_.scale or 0)
    if root in ("FLOAT", "DOUBLE"):
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
    if root in ("BINARY", "VARBINARY"):
        return base64.b64encode(value).decode()
    if root in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"):
        return _time_text(root, value)
    if root == "ARRAY":
        return [plain(type_.fields[0].type, item) for item in value]
    if root in ("MAP", "MULTISET"):
        of_item = type_.fields[1].type if root == "MAP" else _COUNT
        of_key = type_.fields[0].type
        texts = [key if isinstance(key, str) else json.dumps(plain(of_key, key)) for key, _ in value]
        return {text: plain(of_item, item) for text, (_, item) in zip(texts, value, strict=True)}
    if root == "ROW":
        return [plain(field.type, item) for field, item in zip(type_.fields, value, strict=True)]
    return value


def _time_text(root: str, value: int) -> str:
    """Return ISO text, with the years outside of 0 to 9999 as Java writes them."""
    micros = value * {"DATE": 86_400_000_000, "TIME": 1000}.get(root, 1)
    cycles, micros = divmod(micros, _CYCLE)  # 400 years have the same number of days everywhere
    time = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)
    year = time.year + 400 * cycles
    fraction = f".{time.microsecond:06}".rstrip("0") if time.microsecond else ""
    clock = f"{time:%H:%M:%S}{fraction}"
    if root == "TIME":
        return clock
    date = f"{'-' if year < 0 else '+' if year > 9999 else ''}{abs(year):04}-{time:%m-%d}"
    return date if root == "DATE" else f"{date}T{clock}{'Z' * (root == 'TIMESTAMP_LTZ')}"


def same(type_: str, want: Any, got: Any) -> bool:
    """Return whether a value is that of Flink: decimals as numbers, doubles within 1e-14, maps in any order."""
    if want is None or got is None or isinstance(want, bool):
        return want is got
    kind = type_.removesuffix(" NOT NULL")
    if kind.startswith("DECIMAL"):
        return Decimal(str(want)) == Decimal(str(got))
    if isinstance(want, float) or isinstance(got, float):
        if isinstance(want, str) or isinstance(got, str):
            return bool(want == got)
        if kind == "FLOAT":
            want, got = (struct.unpack("f", struct.pack("f", number))[0] for number in (want, got))
        return bool(math.isclose(want, got, rel_tol=1e-14, abs_tol=0.0))
    if isinstance(want, dict):
        if isinstance(got, list):  # a ROW
            return same("", list(want.values()), got)
        return want.keys() == got.keys() and all(same("", want[key], got[key]) for key in want)
    if isinstance(want, list):
        return len(want) == len(got) and all(same("", one, other) for one, other in zip(want, got, strict=True))
    return bool(want == got)
