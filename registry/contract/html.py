"""Formats and tables as a notebook shows them. Texts are escaped here; that there is no secret is the caller's work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html(title: str, about: str, *tables: tuple[Sequence[str], Iterable[Sequence[object]]]) -> str:
    """A title, what it is, and tables: each the names of its columns and its rows, whose empty cells stay so."""
    parts = [f"<div><strong>{escape(title)}</strong> {escape(about)}"]
    for names, rows in tables:
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
        if body:
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
    return "\n".join([*parts, "</div>"])


def _cell(value: object) -> str:
    # As code, in which a notebook looks for no formulas.
    return f"<td>{f'<code>{escape(str(value))}</code>' if str(value) else ''}</td>"
