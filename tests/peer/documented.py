"""The SQL of the documentation in real Flink: each table is created and planned, each INSERT is planned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kvformat.registry import KeyValueFormat
from kvformat.registry.sql.statements import find_table, statements
from tests.peer.flink import Failed, Flink

ROOT = Path(__file__).parent.parent.parent
LEAST = 16
"""The minimum number of statements in the pages. A smaller number means that statements were not found."""
_SQL = re.compile(r"```sql\n(.*?)```", re.DOTALL)
_IN_PYTHON = re.compile(r'"""(.*?)"""', re.DOTALL)
_FLINKS = ("avro", "canal-json", "csv", "debezium-json", "json", "maxwell-json", "ogg-json", "raw")
_FLINKS += ("avro-confluent", "debezium-avro-confluent")
_FORMAT = re.compile(r"(?:.*\.)?format")
_COMMENT = re.compile(r"--[^\n]*")  # Flink is given each statement on one line
_SETTINGS = ("SET", "RESET")


@dataclass(frozen=True)
class Documented:
    """Flink SQL of one block of a page."""

    page: str
    sql: str


def documented() -> Iterator[Documented]:
    """Return all Flink SQL of the README and the pages, without the SQL of databases."""
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]):
        text = page.read_text(encoding="utf-8")
        for sql in [*_SQL.findall(text), *_IN_PYTHON.findall(text)]:
            if re.search(r"\bWITH\s*\(\s*'connector'", sql):
                yield Documented(page.relative_to(ROOT).as_posix(), sql)


def plan(flink: Flink) -> int:
    """Plan all statements with Flink. Returns their number. Raises `Failed` with the name of the page."""
    taken = 0
    for block in documented():
        try:
            taken += _plan(flink, block.sql)
        except Failed as error:
            raise Failed(f"{block.page}: {error}") from None
    if taken < LEAST:
        raise Failed(f"expected at least {LEAST} statements in the pages, found {taken}")
    return taken


def _plan(flink: Flink, sql: str) -> int:
    sql = _COMMENT.sub("", sql)
    found = [(one, sql[one._start : one._end].strip()) for one in statements(sql)]
    created = []
    try:
        for one, text in found:
            if one.kind == "CREATE TABLE":
                flinks = _as_flinks(sql, one.name, text)
                created.append(one.name)
                flink.run(flinks or text)
                if flinks is not None:
                    flink.run(f"EXPLAIN SELECT * FROM {one.name}")
            elif one.kind == "INSERT":
                flink.run(f"EXPLAIN {text}")
            elif one.kind not in _SETTINGS:
                raise Failed(f"{one.kind}: the comparison does not support this kind of statement")
    finally:
        for name in created:
            flink.run(f"DROP TABLE IF EXISTS {name}")
    return len(found)


def _as_flinks(sql: str, name: str, text: str) -> str | None:
    """Return the CREATE TABLE without kvformat's own options, or None if Flink does not have the format."""
    options = find_table(sql, name).options
    if any(value not in _FLINKS for key, value in options.items() if _FORMAT.fullmatch(key)):
        return None
    kv = KeyValueFormat.from_ddl(sql, table=name)
    for key in options:
        spec = kv._spec(key)
        if spec is not None and spec.doc.startswith("Ours."):
            text = re.sub(rf"'{re.escape(key)}'\s*=\s*'[^']*'\s*,?", "", text)
    return re.sub(r",\s*\)$", ")", text)
