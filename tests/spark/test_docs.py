"""The snippets of the README and the docs run, and the generated tables are current."""

from __future__ import annotations

import doctest
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvformat.registry import available_formats
from kvformat.registry.contract import discovery
from tests.fuzz.properties import PROPERTIES
from tests.fuzz.run import ANSWERED, SOURCE

ROOT = Path(__file__).parent.parent.parent
PAGES = {
    page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
    for page in (*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md")))
}
ELSEWHERE = {
    "docs/changes.md": "tests/spark/test_changes.py",
    "docs/from-flink.md": "tests/connectors/test_guides.py",
    "docs/ingestion.md": "tests/ingestion/test_guide.py",
    "docs/operating.md": "tests/connectors/test_guides.py",
    "docs/plugins.md": "tests/packaging/test_examples.py",
    "docs/sql.md": "tests/connectors/test_sql_page.py",
}
"""Pages with snippets that need more than a session, and the tests that run them."""
WITH_PYTHON = [page for page, text in PAGES.items() if "```python\n" in text]
SNIPPETS = [page for page in WITH_PYTHON if page not in ELSEWHERE]


def test_the_snippets_of_each_page_are_tested() -> None:
    assert len(SNIPPETS) > 6
    for page, test in ELSEWHERE.items():
        assert page in WITH_PYTHON
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8"), page


def test_the_examples_of_the_formats_give_the_shown_results() -> None:
    """The statements after `>>>` print the results that the page shows."""
    tried = 0
    for page, text in PAGES.items():
        examples = "\n".join(re.findall(r"```pycon\n(.*?)```", text, re.DOTALL))
        parsed = doctest.DocTestParser().get_doctest(examples, {}, page, page, 0)
        result = doctest.DocTestRunner(verbose=False).run(parsed)
        assert result.failed == 0, page
        tried += result.attempted
    assert tried > 60


def test_each_format_has_a_page_with_its_options() -> None:
    for name in available_formats():
        page = PAGES[f"docs/formats/{name}.md"]
        assert f"<!-- options: {name} -->" in page
        assert "```pycon" in page
        assert f"({name}.md)" in PAGES["docs/formats/index.md"]


@pytest.mark.spark
@pytest.mark.parametrize("page", SNIPPETS)
def test_snippets_run_and_print_the_shown_text(
    page: str, spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A block `text` directly after a snippet is what it prints, but for the width of the columns."""
    monkeypatch.setattr(discovery, "_registered", {})
    snippets = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", PAGES[page], re.DOTALL)
    assert snippets
    scope: dict[str, Any] = {"__name__": "__snippet__"}
    for snippet, shown in snippets:
        capsys.readouterr()
        exec(compile(snippet, page, "exec"), scope)
        if shown:
            assert _cells(capsys.readouterr().out) == _cells(shown)
    for name, value in scope.items():
        if hasattr(type(value), "toArrow"):
            assert value.toArrow().num_rows > 0, name


def _cells(shown: str) -> list[list[str]]:
    """Return the cells of the rows that `DataFrame.show` prints."""
    return [[cell.strip() for cell in line.split("|")] for line in shown.splitlines() if line.startswith("|")]


@pytest.mark.once
@pytest.mark.spark
def test_the_tables_of_the_debezium_page_are_current(spark: Any) -> None:
    page = (ROOT / "docs" / "debezium.md").read_text(encoding="utf-8")
    scope: dict[str, Any] = {"__name__": "__snippet__"}
    for snippet in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(snippet, "debezium.md", "exec"), scope)
    (row,) = scope["now"].drop("row_kind", "row_index", "partition", "offset").collect()
    shown = " | ".join(str(value) for value in row)
    assert f"| {shown} |" in page
    kinds = {name: [row["row_kind"] for row in scope[name].collect()] for name in ("flat_changes", "pens")}
    assert kinds == {"flat_changes": ["+U", "-D"], "pens": ["+U", "-D"]}
    assert [tuple(row) for row in scope["named"].collect()] == [("c", "pen")]


def test_generated_tables_are_current() -> None:
    run = subprocess.run([sys.executable, str(ROOT / "scripts" / "docs"), "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_notebook_is_the_quick_start() -> None:
    """The notebook's cells are the page's snippets, which another test runs. It does not contain outputs."""
    notebook = json.loads((ROOT / "docs" / "notebooks" / "quickstart.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    snippets = re.findall(r"```python\n(.*?)```", PAGES["docs/quickstart.md"], re.DOTALL)
    assert ["".join(cell["source"]) + "\n" for cell in code] == snippets
    assert "docs/quickstart.md" in SNIPPETS
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"]) > len(code) > 4


def test_linked_files_and_headings_exist() -> None:
    links = [
        (page, *link) for page, text in PAGES.items() for link in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", text)
    ]
    assert len(links) > 400
    for page, link, heading in links:
        target = (ROOT / page).parent.joinpath(link).resolve() if link else ROOT / page
        assert target.exists(), f"{page}: {link}"
        if heading:
            assert heading in _anchors(target), f"{page}: {link}#{heading}"


def test_no_page_installs_a_release_from_an_index() -> None:
    """There is no release yet. The page about plugins lets pip find a wheel of the checkout."""
    for page, text in PAGES.items():
        found = re.findall(r"pip install (?:-\S+ )*'?kvformat(?:\[[\w,]+\])?(?! @)['\s]", text)
        assert bool(found) == (page == "docs/plugins.md"), page


def _anchors(page: Path) -> list[str]:
    """Return the anchors of a page's headings, as the site and GitHub make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_the_tests_and_bounds_on_the_robustness_page_exist() -> None:
    page = (ROOT / "docs" / "robustness.md").read_text(encoding="utf-8")
    tests = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", page)
    assert len(named) > 10
    for name in named:
        assert f"def {name}(" in tests, name
    (promises,) = re.findall(r"## Guarantees\n(.*?)\n## ", page, re.DOTALL)
    assert {*PROPERTIES, SOURCE, ANSWERED} <= set(re.findall(r"`(\w+)`", promises))
    rows = [line for line in page.splitlines() if re.match(r"\|.*`(?:codecs|registry|connectors)/[\w/]+\.py`: ", line)]
    bounds = [(row, *told) for row in rows for told in re.findall(r"`(\w+/[\w/]+\.py)`: ([^;|]*)", row)]
    assert len(bounds) > 5
    for row, file, constants in bounds:
        source = (ROOT / file).read_text(encoding="utf-8")
        for constant in re.findall(r"`(\w+)`", constants):
            assert re.search(rf"\b{constant}\b.*= ", source), (file, constant)
            for number in re.findall(rf"^{constant}(?:: \w+)? = ([\d_]+)$", source, re.MULTILINE):
                assert re.search(rf"(?<![\d,]){int(number):,}(?![\d,]*\d)", row), (file, constant)
