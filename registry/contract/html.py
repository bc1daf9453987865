"""HTML for formats and tables in notebooks. Texts are escaped here; the caller must mask secrets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html(title: str, about: str, *tables: tuple[Sequence[str], Iterable[Sequence[object]]]) -> str:
    """Return HTML with a title, a description and tables.

    A table is a pair of column names and rows. Tables without rows are left out; empty cells stay empty.
    """
    parts = [f"<div><strong>{escape(title)}</strong> {escape(about)}"]
    for names, rows in tables:
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
        if body:
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
    return "\n".join([*parts, "</div>"])


def _cell(value: object) -> str:
    # in <code>, because notebooks render formulas in plain text
    return f"<td>{f'<code>{escape(str(value))}</code>' if str(value) else ''}</td>"
