"""The reference documentation: each public name is on one page and has a docstring. The first page lists all names.

Each option is described once, in one table.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tables import copied_rows

import kvformat.codecs
import kvformat.connectors
import kvformat.ingestion
import kvformat.registry
import kvformat.registry.authoring
import kvformat.registry.testing

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
PAGES = {page.name: page.read_text(encoding="utf-8") for page in FOLDER.glob("*.md")}
ROOMS = {
    "formats.md": "kvformat.registry",
    "key-value.md": "kvformat.registry",
    "connectors.md": "kvformat.connectors",
    "ingestion.md": "kvformat.ingestion",
    "errors.md": "kvformat.registry",
    "authoring.md": "kvformat.registry.authoring",
    "testing.md": "kvformat.registry.testing",
}
"""The package that defines the names of each page."""
FACADES = (
    kvformat.codecs,
    kvformat.registry,
    kvformat.connectors,
    kvformat.ingestion,
    kvformat.registry.authoring,
    kvformat.registry.testing,
)
OF_AUTHORS = (kvformat.registry.authoring, kvformat.registry.testing)
VALUES = (
    "KERNEL",
    "RULES",
    "Direction",
    "HeaderNames",
    "Part",
    "TableName",
    *(name for name in kvformat.registry.authoring.__all__ if name.isupper()),
)
"""Public constants, which do not have docstrings."""
PUBLIC = {
    f"{value.__module__}.{value.__name__}": value
    for facade in FACADES
    for value in (getattr(facade, name) for name in facade.__all__ if name not in VALUES)
}


def _shown() -> Iterator[tuple[str, Any]]:
    for page in ROOMS:
        for module, name in _names_on(page):
            yield f"{module}.{name}", getattr(importlib.import_module(module), name)


def _names_on(page: str) -> list[tuple[str, str]]:
    """Return module and name of each object on a page of the reference."""
    return re.findall(r"^::: ([\w.]+)\.(\w+)$", PAGES[page], re.MULTILINE)


def test_every_public_name_is_on_exactly_one_page() -> None:
    assert set(PAGES) == {*ROOMS, "index.md"}
    shown = list(_shown())
    assert len(shown) == len(dict(shown)) > 50
    assert dict(shown) == PUBLIC
    for name in VALUES:
        assert any(f"`{name}`" in PAGES[page] for page in ROOMS)


def test_a_page_has_only_names_of_its_package() -> None:
    for page, room in ROOMS.items():
        found = _names_on(page)
        assert len(found) >= 5, page
        assert {name for _, name in found} <= set(importlib.import_module(room).__all__), page
        assert f"]({page})" in PAGES["index.md"]


def test_the_first_page_lists_the_public_names_of_each_package() -> None:
    rows = [line.split("|")[1:-1] for line in PAGES["index.md"].splitlines() if line.startswith("|")]
    listed = [name for cells in rows for name in re.findall(r"`(\w+)`", cells[1])]
    assert set(listed) >= set(kvformat.codecs.__all__)
    public = {name for facade in FACADES for name in facade.__all__ if facade not in OF_AUTHORS}
    errors = {name for name in public if name.endswith(("Error", "Warning"))}
    assert sorted(listed) == sorted(public - errors | {"KvFormatError"})
    # Each name is in the row of its page.
    for cells in rows:
        pages = re.findall(r"\]\(([\w-]+\.md)\)", cells[2])
        for name in set(re.findall(r"`(\w+)`", cells[1])) - {"KERNEL"}:
            assert name in {shown for _, shown in _names_on(pages[0])}, name


def test_every_public_name_and_method_has_a_docstring() -> None:
    looked = 0
    for name, value in PUBLIC.items():
        own = (
            {key: found for key, found in vars(value).items() if not key.startswith("_")}
            if inspect.isclass(value)
            else {}
        )
        for label, found in ((name, value), *((f"{name}.{key}", found) for key, found in own.items())):
            function = getattr(found, "fget", None) or getattr(found, "func", None) or getattr(found, "__func__", found)
            if inspect.isclass(function) or inspect.isroutine(function):
                looked += 1
                assert (function.__doc__ or "").strip(), f"{label} has no docstring"
    assert looked > 100


def test_each_option_is_described_in_one_table() -> None:
    docs = FOLDER.parent
    pages = [page.read_text(encoding="utf-8") for page in (docs.parent / "README.md", *sorted(docs.rglob("*.md")))]
    assert copied_rows(pages) == []
    assert sum(page.count("| option | type |") for page in pages) > 15
    # A copy is found, also without the mark of our own options.
    row = next(line for page in pages for line in page.splitlines() if "| Ours. Whether" in line)
    copy = row.replace("Ours. Whether", "whether")
    assert copied_rows([*pages, f"| option | type | x |\n| --- | --- | --- |\n{copy}\n"]) == [copy]
