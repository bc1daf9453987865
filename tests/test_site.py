"""Links to the source in the documentation. `scripts/site` builds the site."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import `scripts/site_hooks.py` without mkdocs, which is only installed for building the documentation."""
    for name, names in (("mkdocs.exceptions", ["PluginError"]), ("mkdocs.structure.files", ["File", "Files"])):
        module = types.ModuleType(name)
        for each in names:
            setattr(module, each, object)
        monkeypatch.setitem(sys.modules, name, module)
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "scripts" / "site_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://example.org/owner/kvformat.git", "https://example.org/owner/kvformat"),
        ("https://example.org/owner/kvformat/", "https://example.org/owner/kvformat"),
        ("https://alice:sesame@example.org/owner/kvformat", "https://example.org/owner/kvformat"),
        ("https://example.org:8443/group/owner/kvformat.git", "https://example.org/group/owner/kvformat"),
        ("git@example.org:owner/kvformat.git", "https://example.org/owner/kvformat"),
        ("ssh://git@example.org:22/owner/kvformat.git", "https://example.org/owner/kvformat"),
        ("", ""),
        ("/home/alice/kvformat", ""),
        ("file:///home/alice/kvformat", ""),
        ("../kvformat", ""),
        ("server:kvformat", ""),
    ],
)
def test_the_repository_address_comes_from_the_remote(hooks: Any, remote: str, address: str) -> None:
    assert hooks.web_address(remote) == address


def test_the_repository_address_can_be_set(hooks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVFORMAT_REPOSITORY", "https://example.org/ours/")
    assert hooks.repository() == "https://example.org/ours"


@pytest.mark.parametrize(
    ("address", "link"),
    [
        ("https://example.org/kvformat", "[the source](https://example.org/kvformat/blob/HEAD/README.md)"),
        (None, "the source (`README.md` in the repository)"),
    ],
)
def test_files_are_linked_if_the_repository_address_is_known(hooks: Any, address: str | None, link: str) -> None:
    page = types.SimpleNamespace(file=types.SimpleNamespace(src_uri="index.md"))
    config = types.SimpleNamespace(extra={"repository": address} if address else {})
    text = hooks.on_page_markdown((ROOT / "docs" / "index.md").read_text(encoding="utf-8"), page=page, config=config)
    assert link in text
    assert "[Quick start](quickstart.md)" in text
    assert "[Reference](reference/index.md)" in text
