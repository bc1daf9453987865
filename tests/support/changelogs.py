"""Random changelogs, and what Flink's ChangelogNormalize makes of a changelog."""

from __future__ import annotations

import random
from typing import Any


def random_changes(seed: int, count: int) -> list[tuple[Any, ...]]:
    """Return random changes of a few keys. Some keys are NULL; several rows have the same offset."""
    chosen = random.Random(seed)
    rows = []
    for n in range(count):
        kind = chosen.choice(["+I", "+U", "+U", "-U", "-D"])
        key = chosen.choice([None, *range(count // 6)])
        rows.append((0, n // 3, n % 3, key, None if kind == "-D" else chosen.choice("abc"), kind))
    return rows


def flinks_changes(state: dict[Any, Any], rows: list[tuple[Any, ...]], *, update_before: bool) -> list[tuple[Any, ...]]:
    """Flink's DeduplicateFunctionHelper.processLastRowOnChangelog for (key, value, kind), without -U rows."""
    out = []
    for n, (key, value, kind) in enumerate(rows):
        following = [row for row in rows[n + 1 :] if row[0] == key][:1]
        if kind == "-U" and following and following[0][2] in ("+I", "+U"):
            continue
        known = key in state
        if kind in ("-D", "-U"):
            if known:
                out.append((key, state.pop(key), "-D"))
        elif not known:
            out.append((key, value, "+I"))
        elif state[key] != value:
            out += [(key, state[key], "-U")] if update_before else []
            out.append((key, value, "+U"))
        if kind in ("+I", "+U"):
            state[key] = value
    return out


def split_by_key(rows: list[tuple[Any, ...]]) -> dict[Any, list[tuple[Any, ...]]]:
    """Return the rows of each key, which is the first value of a row, in their order."""
    lists: dict[Any, list[tuple[Any, ...]]] = {}
    for row in rows:
        lists.setdefault(row[0], []).append(row)
    return lists
