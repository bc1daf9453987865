"""Tables of the documentation, generated from declarations in the code: options, error codes, rules of the test kit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from kvformat.connectors.metric_declarations import METRICS
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.options import Option, display_value
from kvformat.registry.testing.rules import RULES, Part

Row = tuple[str, ...]
_PAGE_OF_RULES = "plugins.md#the-rules"


def options_table(specs: Sequence[Option], elsewhere: Mapping[Row, str] | None = None) -> str:
    """Return the options of a format or connector as a table in Markdown.

    elsewhere: links to the tables that describe an option already. Such options get no row; after the table is a list
        of them with their links.
    """
    lines: list[str] = []
    names: dict[str, list[str]] = {}
    for spec in specs:
        row = option_row(spec)
        if link := (elsewhere or {}).get(same_option(row)):
            names.setdefault(link, []).append(f"{row[0]} (required)" if spec.required else row[0])
        else:
            lines.append(f"| {' | '.join(row)} |")
    if lines:
        lines[:0] = ["| option | type | default | allowed | meaning |", "| --- | --- | --- | --- | --- |"]
    if names:
        lines += [*([""] if lines else []), "Options that another table describes:", ""]
        lines += [f"- {link}: {', '.join(found)}" for link, found in names.items()]
    return "\n".join(lines)


def option_row(spec: Option) -> Row:
    """Return the cells of an option's row: key, type, default, allowed values and meaning."""
    default = "required" if spec.required else "(none)" if spec.default is None else f"`{display_value(spec.default)}`"
    allowed = ", ".join(f"`{value}`" for value in spec.allowed or ())
    also = f" Also as {', '.join(f'`{key}`' for key in spec.fallback)}." if spec.fallback else ""
    return f"`{spec.key}`", spec.type, default, allowed, f"{spec.doc}{also}"


def copied_rows(pages: Iterable[str]) -> list[str]:
    """Return the rows of the option tables of pages that say the same of an option as an earlier row.

    A row says the same if only its mark *Ours* or the first letter of its meaning differs.
    """
    seen: set[Row] = set()
    copies: list[str] = []
    for page in pages:
        for table in re.findall(r"(?m)^\| option \| type \|.*\n\|[- |]+\n((?:\|.*\n?)+)", page):
            for line in table.splitlines():
                row = same_option(tuple(line.strip("| ").split(" | ", 4)))
                copies += [line] if row in seen else []
                seen.add(row)
    return copies


def same_option(row: Row) -> Row:
    """Return a row without its mark *Ours*, and with a small first letter of its meaning."""
    meaning = row[-1].removeprefix("Ours. ")
    return (*row[:-1], meaning[:1].lower() + meaning[1:])


def codes_table() -> str:
    """Return the error codes as a table in Markdown."""
    lines = [f"| `{code}` | {code.doc} |" for code in ErrorCode]
    return "\n".join(["| code | when |", "| --- | --- |", *lines])


def metrics_table() -> str:
    """Return the exported metrics as a table in Markdown."""
    lines = [f"| `{m.name}` | {m.kind} | {', '.join(f'`{label}`' for label in m.labels)} | {m.doc} |" for m in METRICS]
    return "\n".join(["| metric | type | labels | meaning |", "| --- | --- | --- | --- |", *lines])


def rules_table() -> str:
    """Return the rules of the test kit as a table in Markdown; a rule's name links to the page that explains it."""
    lines = ["| rule | of | what it says |", "| --- | --- | --- |"]
    for rule in sorted(RULES.values(), key=lambda rule: get_args(Part).index(rule.part)):
        page = rule.page.removeprefix("docs/")
        name = f"`{rule.name}`" if page == _PAGE_OF_RULES else f"[`{rule.name}`]({page})"
        lines.append(f"| {name} | {rule.part} | {rule.sentence} |")
    return "\n".join(lines)
