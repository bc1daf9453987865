"""The README and the docs: their snippets run, their tables are current."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvformat.registry import discovery

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.spark
@pytest.mark.parametrize("page", ["README.md", "docs/plugins.md"])
def test_snippets_run(page: str, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "_registered", {})
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    assert snippets
    scope: dict[str, Any] = {"__name__": "__snippet__"}
    for snippet in snippets:
        exec(compile(snippet, page, "exec"), scope)
    for name, value in scope.items():
        if hasattr(value, "toArrow"):
            assert value.toArrow().num_rows > 0, name


def test_option_tables_are_current() -> None:
    run = subprocess.run([sys.executable, str(ROOT / "scripts" / "docs"), "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)[^)]*\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
