"""Errors that the documentation quotes: the library produces them, a test expects them, or another program has them."""

from __future__ import annotations

import builtins
import json
import re
from pathlib import Path

import pyarrow as pa

import kvformat.registry
from kvformat.registry import get_format

ROOT = Path(__file__).parent.parent
PAGES = {
    page.name: page.read_text(encoding="utf-8")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if page.name != "plugins.md"  # scripts/tutorial compares its outputs
}
OF_OTHERS = {
    "No module named 'kvformat'": "Python",
    "cannot import name 'get_format' from 'codecs'": "Python",
    "Pandas >= 2.2.0 must be installed": "PySpark",
    "Failed to get committed offsets: Local: Timed out": "librdkafka",
    "No space left on device": "the operating system",
    "NoSuchMethodError": "Java",
    "NullPointerException": "Java",
}
"""Texts and classes of errors that the library does not raise, and the program that does."""
_WORDS = re.compile(r"\b(cannot|can't|must be|no|No|not JSON|expecting|[Ff]ailed) ")
_VALUE = re.compile(r"(?:(\w+): )?field '(\w+)': cannot read \"(\w[^\"]*)\" as (.+)")
_COMPARED = re.compile(r"```(?:console|pycon)\n.*?```|```python\n(?:(?!```).)*```\n\n```text\n.*?```", re.DOTALL)
"""Blocks whose output other tests compare: examples, snippets with the text that they print, and the command line."""


def _quoted() -> dict[str, str]:
    """Return the texts of errors on the pages, and their pages."""
    found: dict[str, str] = {}
    for page, text in PAGES.items():
        left = _COMPARED.sub("", text)
        prose = re.sub(r"```.*?```", "", left, flags=re.DOTALL)
        spans = [span for span in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose) if len(span.split()) > 2]
        cells = re.findall(r"\|([^|\n]*)(?=\|)", "".join(re.findall(r"```text\n(.*?)```", left, re.DOTALL)))
        found |= {span.strip(): page for span in (*spans, *cells) if _WORDS.search(span)}
    return found


def _produced(text: str) -> str | None:
    """Return the error for the value in a text such as `field 'id': cannot read "x" as INT`, None for other texts."""
    if not (match := _VALUE.fullmatch(text)):
        return None
    identifier, field, value, type_name = match.groups()
    message = value if identifier == "csv" else json.dumps({field: value})
    batch = get_format(identifier or "json").decode_batch(pa.array([message.encode()]), f"{field} {type_name}")
    return f"{identifier}: {batch.errors[0]}" if identifier else str(batch.errors[0])


def test_quoted_errors_are_produced_or_expected_by_a_test() -> None:
    sources = [file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("*.py") if file != Path(__file__)]
    tests = "".join(sources).replace("\\", "")
    quoted = _quoted()
    produced = {text: error for text in quoted if (error := _produced(text))}
    assert produced == {text: text for text in produced}
    others = {text: page for text, page in quoted.items() if text not in produced and text not in OF_OTHERS}
    assert len(produced) >= 2
    assert len(others) >= 2
    assert {text: page for text, page in others.items() if text.removesuffix(" ...") not in tests} == {}


def test_named_errors_exist() -> None:
    named = {name for text in PAGES.values() for name in re.findall(r"`(\w+(?:Error|Warning|Exception))`", text)}
    assert len(named) > 20
    assert {name for name in named if not hasattr(kvformat.registry, name) and not hasattr(builtins, name)} == {
        name for name in OF_OTHERS if " " not in name
    }


def test_errors_of_other_programs_are_on_a_page() -> None:
    """A text that no page quotes any more is not in the list."""
    assert [text for text in OF_OTHERS if not any(f"`{text}`" in page for page in PAGES.values())] == []
