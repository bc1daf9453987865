"""`kvformat new-format`: write a package with a new format as a starting point.

The files come from the folder `template`. Placeholders such as `$name` are replaced.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from string import Template

import click

from kvformat.connectors.cli._output import json_option, show, write_json
from kvformat.registry.contract.discovery import available_formats

_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_FILES = {  # .txt, so that tools do not treat them as files of this project
    "pyproject.toml.txt": "pyproject.toml",
    "README.md": "README.md",
    "gitignore": ".gitignore",
    "module.py.txt": "src/$module/__init__.py",
    "conftest.py.txt": "tests/conftest.py",
    "tests.py.txt": "tests/test_$short.py",
}
"""Path of each template file in the new package."""


@click.command()
@click.argument("name")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="The new folder. Default: kvformat-NAME in the working directory."
)
@json_option("A line of JSON for each file.")
def new_format_command(name: str, folder: Path | None, as_json: bool) -> None:
    """Write a package for the format NAME: a module, a pyproject.toml, a README, and tests by the kit, which pass.

    NAME is the name of the format in tables: `'value.format' = 'NAME'`. It has letters a to z, digits and hyphens.
    """
    if not _NAME.fullmatch(name):
        raise click.UsageError(f"{name!r} is not a format name: use letters a to z, digits and hyphens, as in my-url")
    if name in available_formats():
        raise click.UsageError(f"there is a format {name!r} already, `kvformat formats` lists all: use another name")
    folder = folder or Path(f"kvformat-{name}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise click.UsageError(f"{folder} is there already, and not an empty folder: give another one by --folder")
    written = list(_files(name, folder))
    for path, text in written:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as cause:
            raise click.FileError(str(path), f"{cause.strerror}. Give another folder by --folder") from None
    if as_json:
        write_json({"file": str(path)} for path, _ in written)
        return
    lines = [str(path) for path, _ in written]
    show("\n".join([*lines, "", f"Now: cd {folder}, pip install -e '.[test]', pytest"]))


def _files(name: str, folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the path and text of each file of the package."""
    short = name.replace("-", "_")
    module = f"kvformat_{short}"
    words = {
        "name": name,
        "short": short,
        "module": module,
        "class": "".join(word.capitalize() for word in name.split("-")) + "Format",
        "version": ".".join(importlib.metadata.version("kvformat").split(".")[:2]),
    }
    for template, path in _FILES.items():
        text = resources.files(__package__).joinpath("template", template).read_text(encoding="utf-8")
        yield folder / Template(path).substitute(words), Template(text).substitute(words)
    yield folder / "src" / module / "py.typed", ""
