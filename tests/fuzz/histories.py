"""Histories of a table whose columns change type between messages: the table does not depend on where batches end.

A column begins with values of one kind, and may go on with values of others. Rows are inserted, updated and deleted by
a key, which may itself change type.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.ingestion.folding import Folded, batchings

Row = dict[str, str]
"""The columns of a row, each with the JSON text of its value."""
_DAY = "2024-02-29"
_Kind = Callable[[random.Random], str]
_NULL: _Kind = lambda r: "null"  # noqa: E731
_KEYS: tuple[_Kind, ...] = (
    lambda r: str(r.choice([0, 5, -7, 2**31, 2**63, 10**30])),
    lambda r: r.choice(["2.5", "0.1", "12345.25"]),  # DOUBLEs have one text: no zeros, no exponent
    lambda r: r.choice(["true", "false"]),
    lambda r: f'"{_DAY} {r.randrange(10, 24)}:00:00"',
    lambda r: f'"{_DAY} 00:00:00.{r.choice(["5", "50", "000", "120", "123456", "123456789"])}"',
    lambda r: f'"{_DAY}{r.choice([" ", "T"])}12:00:00{r.choice(["", "Z"])}"',
    lambda r: f'"2024-02-{r.randrange(10, 30)}"',
    lambda r: r.choice(
        ['""', '"abc"', '"0000-00-00"', '"0000-00-00 00:00:00"', '"12:00:00"', '"007"', '"1.50"', '"2"']
    ),
)
_KINDS = (*_KEYS, lambda r: r.choice(["[1,2]", '["a"]', '{"a":1.50}', "[]", "{}"]), _NULL)
_DECLARED: dict[str, _Kind] = {
    "int": lambda r: f'"{r.randrange(-9, 9)}"',
    "tinyint(1)": lambda r: r.choice(['"0"', '"1"']),
    "datetime": lambda r: f'"{_DAY} {r.randrange(10, 24)}:00:00"',
    "datetime(3)": lambda r: f'"{_DAY} 00:00:00.{r.randrange(1000):03}"',
    "date": lambda r: f'"2024-02-{r.randrange(10, 30)}"',
    "decimal(10,2)": lambda r: f'"{r.randrange(-9, 9)}.{r.randrange(100):02}"',
    "double": lambda r: r.choice(['"2.5"', '"0.125"', '"7"']),
    "bit(8)": lambda r: f'"{r.randrange(256)}"',
    "varchar(3)": lambda r: r.choice(['"abc"', '""', '"5"']),
}
"""Types of MySQL, and how Canal writes their values."""
_STRATEGY = {"canal-json.infer-schema.strategy": "MYSQL_TYPE"}


class History(NamedTuple):
    """Messages of one table, the format and the options of its source, and its key."""

    value_format: str
    options: Mapping[str, str]
    key: str
    messages: Sequence[str]


def history(rng: random.Random) -> History:
    """Return a random history of at most ten messages."""
    value_format = rng.choice(["debezium-json", "canal-json", "maxwell-json", "json"])
    options = {f"{value_format}.timestamp-format.standard": "ISO-8601"} if rng.random() < 0.3 else {}
    changes = rng.randrange(1, 3)
    kinds = {name: rng.choices(_KEYS if name == "k" else _KINDS, k=changes + 1) for name in ("k", "v", "w")}
    declared = {}
    if value_format == "canal-json" and rng.random() < 0.5:
        options |= _STRATEGY
        declared = {name: rng.choice([*_DECLARED]) for name in kinds}
        for name, t in declared.items():
            kinds[name] = [_DECLARED[t], *(rng.choice([_DECLARED[t], _KEYS[-1], _NULL]) for _ in range(changes))]
        kinds["k"] = [kind if kind is not _NULL else _KEYS[-1] for kind in kinds["k"]]
    count = rng.randrange(2, 8)
    rows: dict[str, Row] = {}
    messages = []
    for number in range(count):
        place = number * (changes + 1) // count
        row = {name: rng.choice(of[: place + 1])(rng) for name, of in sorted(kinds.items())}
        if rng.random() < 0.2:
            del row[rng.choice(["v", "w"])]
        before = rows.get(row["k"])
        messages.append(_message(value_format, before, row, declared))
        rows[row["k"]] = row
        if value_format != "json" and rng.random() < 0.25:
            gone = rng.choice([*rows])
            messages.append(_message(value_format, rows.pop(gone), None, declared))
    return History(value_format, options, "k", messages)


def compare_batchings(given: History) -> None:
    """The history gives the same columns and rows in one batch, in batches of one, and split at each place."""
    first = None
    for batches in batchings(given.messages):
        folded = Folded(given.value_format, given.options, given.key)
        for batch in batches:
            folded.add(batch)
        tables = folded.tables()
        found = {table: folded.types(table) for table in tables}, tables, sorted(folded.errors)
        first = first or found
        assert found == first, batches


def _message(value_format: str, before: Row | None, after: Row | None, declared: Mapping[str, str]) -> str:
    """Return the message of a change. Canal writes values as texts."""
    row = _object(after if after is not None else before or {})
    if value_format == "json":
        return row
    if value_format == "debezium-json":
        operation = "c" if before is None else "d" if after is None else "u"
        images = [json.dumps(None) if image is None else _object(image) for image in (before, after)]
        source = '"source":{"db":"shop","table":"o"}'
        return f'{{"before":{images[0]},"after":{images[1]},"op":"{operation}",{source}}}'
    kind = "insert" if before is None else "delete" if after is None else "update"
    common = '"database":"shop","table":"o"'
    if value_format == "maxwell-json":
        return f'{{{common},"type":"{kind}","data":{row},"old":{_object(before or {})}}}'
    texts = {name: _as_text(value) for name, value in (after if after is not None else before or {}).items()}
    old = [{name: _as_text(value) for name, value in before.items()}] if before and after else None
    return json.dumps(
        {"database": "shop", "table": "o", "type": kind.upper(), "data": [texts], "old": old, "isDdl": False}
        | {"pkNames": ["k"], "mysqlType": declared or None}
    )


def _object(row: Mapping[str, Any]) -> str:
    return "{" + ",".join(f'"{name}":{value}' for name, value in row.items()) + "}"


def _as_text(value: str) -> str | None:
    found = json.loads(value)
    return None if found is None else found if isinstance(found, str) else value
