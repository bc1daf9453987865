"""Tables of the documentation, generated from declarations in the code: options, error codes, rules of the test kit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.options import Option, display_value
from kvformat.registry.testing.rules import RULES, Part

_PAGE_OF_RULES = "plugins.md#the-rules"


def options_table(specs: Sequence[Option]) -> str:
    """Return the options of a format or connector as a table in Markdown."""
    lines = ["| option | type | default | allowed | meaning |", "| --- | --- | --- | --- | --- |"]
    for spec in specs:
        default = (
            "required" if spec.required else "(none)" if spec.default is None else f"`{display_value(spec.default)}`"
        )
        allowed = ", ".join(f"`{value}`" for value in spec.allowed or ())
        also = f" Also as {', '.join(f'`{key}`' for key in spec.fallback)}." if spec.fallback else ""
        lines.append(f"| `{spec.key}` | {spec.type} | {default} | {allowed} | {spec.doc}{also} |")
    return "\n".join(lines)


def codes_table() -> str:
    """Return the error codes as a table in Markdown."""
    lines = [f"| `{code}` | {code.doc} |" for code in ErrorCode]
    return "\n".join(["| code | when |", "| --- | --- |", *lines])


def rules_table() -> str:
    """Return the rules of the test kit as a table in Markdown; a rule's name links to the page that explains it."""
    lines = ["| rule | of | what it says |", "| --- | --- | --- |"]
    for rule in sorted(RULES.values(), key=lambda rule: get_args(Part).index(rule.part)):
        page = rule.page.removeprefix("docs/")
        name = f"`{rule.name}`" if page == _PAGE_OF_RULES else f"[`{rule.name}`]({page})"
        lines.append(f"| {name} | {rule.part} | {rule.sentence} |")
    return "\n".join(lines)
