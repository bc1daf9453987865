"""Load the golden vectors of Flink CDC 3.6 and compare answers with them (fixtures/flink-cdc-3.6/README.md)."""

from __future__ import annotations

import json
import lzma
from typing import Any

from kvformat.ingestion.testing import answer
from tests.support.vectors import FIXTURES

Line = dict[str, Any]
_NOTES = {"id", "tags", "deviation", "sane", "head"}
_ANSWERS = {"compatible", "merged", "coerced", "error", "sink_error", "records", "matches", "routed", "steps"}
_NO_Z = "a TIMESTAMP_LTZ as text ends with Z, as the answers to merged types ask for; Flink CDC leaves Z out"
_NO_DAY = "a number is not a day; Flink CDC counts it from 1970 on"
DOCUMENTED = {
    "evolve-0127": "an INT that fits a SMALLINT is kept; Flink CDC looks at the types only, and writes NULL",
    "evolve-0223": _NO_DAY,
    "evolve-0225": _NO_DAY,
    "evolve-0438": "a number does not fit a BOOLEAN; Flink CDC writes false",
    "evolve-0519": "a number is not a time; Flink CDC counts it in days",
    **dict.fromkeys(("evolve-0357", "evolve-0396", "evolve-0445", "evolve-0446", "evolve-0447"), _NO_Z),
    **dict.fromkeys(("evolve-0477", "evolve-0478", "evolve-0509"), _NO_Z),
}
"""Lines with other answers than Flink CDC's, and the reason."""


def lines(name: str) -> list[Line]:
    """Return the lines of a file that have a wanted answer."""
    with lzma.open(FIXTURES / "flink-cdc-3.6" / f"{name}.jsonl.xz", "rt", encoding="ascii") as text:
        found = [json.loads(line) for line in text]
    return [line for line in found if "deviation" not in line or "sane" in line]


def difference(line: Line) -> str | None:
    """Return how the library's answer to a line differs from the wanted one, or None."""
    answers = _ANSWERS | ({"events"} if "upcoming_schema" in line else set())
    case = {key: value for key, value in line.items() if key not in answers | _NOTES}
    wanted = {key: value for key, value in line.items() if key in answers}
    if "sane" in line:
        wanted = {key: value for key, value in wanted.items() if key != "error"} | line["sane"]
    got = answer(case)
    if {"error", "sink_error"} & wanted.keys():
        return None if {"error", "sink_error"} & got.keys() else f"{line['id']}: wanted an error, got {got}"
    for key, value in wanted.items():
        if _plain(got.get(key)) != _plain(value):
            return f"{line['id']}, {key}:\n  wanted {value}\n  got    {got.get(key)}"
    return None


def _plain(value: Any) -> Any:
    """Reduce errors to their presence."""
    if isinstance(value, dict):
        return "error" if value.get("error") else {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
