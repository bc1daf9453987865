"""The reference: every public name is on its page, and says what it does."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kvformat.codecs
import kvformat.connectors
import kvformat.registry
import kvformat.registry.testing

PAGE = (Path(__file__).parent.parent / "docs" / "reference.md").read_text(encoding="utf-8")
FACADES = (kvformat.codecs, kvformat.registry, kvformat.connectors, kvformat.registry.testing)
VALUES = ("KERNEL", "RULES")
"""Public names of a text and of a list, which have no docstring of their own."""
PUBLIC = {
    f"{value.__module__}.{value.__name__}": value
    for facade in FACADES
    for value in (getattr(facade, name) for name in facade.__all__ if name not in VALUES)
}


def _shown() -> Iterator[tuple[str, Any]]:
    for module, name in re.findall(r"^::: ([\w.]+)\.(\w+)$", PAGE, re.MULTILINE):
        yield f"{module}.{name}", getattr(importlib.import_module(module), name)


def test_every_public_name_is_on_the_page_and_no_other() -> None:
    shown = list(_shown())
    assert len(shown) == len(dict(shown)) > 50
    assert dict(shown) == PUBLIC
    for name in VALUES:
        assert f"`{name}`" in PAGE


def test_every_public_name_and_its_methods_say_what_they_do() -> None:
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
