"""The contents of the wheel, and both kinds of installation."""

from __future__ import annotations

import json
import re
import tomllib
import zipfile
from email import message_from_string
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.environments import run

ROOT = Path(__file__).resolve().parents[2]
_FOLDERS = ("registry", "codecs", "connectors", "ingestion")
_ROOT_FILES = ("__init__.py", "__main__.py", "py.typed")
"""Modules of the folder `package`, the root of the installed package."""


@pytest.fixture(scope="module")
def contents(pure_wheel: tuple[Path, str]) -> dict[str, str]:
    """Files of the wheel without extension modules. test_kernel.py tests the other wheel."""
    with zipfile.ZipFile(pure_wheel[0]) as archive:
        return {name: archive.read(name).decode(errors="replace") for name in archive.namelist()}


def test_a_wheel_without_extension_modules_is_for_all_platforms(
    pure_wheel: tuple[Path, str], contents: dict[str, str]
) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert pure_wheel[0].name == f"kvformat-{version}-py3-none-any.whl"
    (about,) = (text for name, text in contents.items() if name.endswith(".dist-info/WHEEL"))
    assert "Root-Is-Purelib: true" in about


def test_the_changelog_begins_with_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == version


def test_the_wheel_holds_every_module_and_nothing_else(contents: dict[str, str]) -> None:
    modules = {f"kvformat/{path.relative_to(ROOT)}" for top in _FOLDERS for path in (ROOT / top).rglob("*.py")}
    packed = {name for name in contents if ".dist-info/" not in name}
    typed = {f"kvformat/{top}/py.typed" for top in _FOLDERS}
    template = {f"kvformat/{path.relative_to(ROOT)}" for path in (ROOT / "connectors/cli/template").iterdir()}
    assert len(template) == 6
    others = {f"kvformat/{name}" for name in (*_ROOT_FILES, "registry/java/charset_tables.json.xz")}
    assert packed == modules | typed | template | others | {
        "_kvformat_alias.py",
        "kvformat.pth",
        "kvformat/registry/build.json",
        "pyspark_kvformat/__init__.py",
        "pyspark_kvformat/launcher.py",
    }


def test_the_metadata_is_complete(contents: dict[str, str]) -> None:
    (text,) = (text for name, text in contents.items() if name.endswith(".dist-info/METADATA"))
    about = message_from_string(text)
    assert about["License-Expression"] == "Apache-2.0"
    assert about["Requires-Python"] == ">=3.11"
    plain = [line for line in about.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert sorted(re.split(r"[<>=~!]", line)[0] for line in plain) == ["click", "numpy", "pyarrow", "regex"]
    assert any(re.match(r"pyspark\b.*extra == .spark.", line) for line in about.get_all("Requires-Dist", []))
    (licence,) = (text for name, text in contents.items() if name.endswith("/LICENSE"))
    assert "Apache License" in licence


def test_the_built_in_formats_are_entry_points(contents: dict[str, str]) -> None:
    (text,) = (text for name, text in contents.items() if name.endswith(".dist-info/entry_points.txt"))
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["kvformat.formats"]
    assert {"raw", "json"} <= set(declared)
    for name, value in declared.items():
        assert f"{name} = {value}" in text
        # One format per module; the names of module, class and identifier match.
        stem = name.replace("-", "_")
        assert value == f"kvformat.codecs.{stem}:{stem.title().replace('_', '')}Format"
        assert metadata.EntryPoint(name, value, "kvformat.formats").load().identifier == name


def test_the_start_up_file_is_one_line(contents: dict[str, str]) -> None:
    assert contents["kvformat.pth"] == "import _kvformat_alias; _kvformat_alias.install()\n"


def test_the_installed_package_finds_its_formats(installed) -> None:
    script = """
import json
from codecs import available_formats, get_format
print(json.dumps([available_formats(), [get_format(name).identifier for name in ("raw", "json")]]))
"""
    available, identifiers = json.loads(installed.python("-c", script))
    assert set(available) >= {"raw", "json"}
    assert identifiers == ["raw", "json"]


def test_an_editable_install_shows_the_checkout(with_editable, source: Path) -> None:
    script = "import kvformat.codecs, os; print(os.path.realpath(kvformat.codecs.__file__))"
    assert Path(with_editable.python("-c", script).strip()) == (source / "codecs" / "__init__.py").resolve()


MISSING = """
import codecs
try:
    import kvformat
except ModuleNotFoundError as error:
    print(error.name, hasattr(codecs, "get_format"))
"""


def test_the_command_line_is_a_script_and_a_module(installed) -> None:
    for arguments in ((installed.executable, "-m", "kvformat"), (installed.folder / "bin" / "kvformat",)):
        told = run([*arguments, "formats", "--json"], cwd=installed.folder)
        assert '"name": "debezium-json"' in told
        assert run([*arguments, "--version"], cwd=installed.folder).startswith("kvformat ")


def test_help_loads_no_arrow_and_no_spark(with_wheel) -> None:
    script = "import sys; from kvformat.connectors.cli import main; sys.argv[1:] = ['--help']\ntry: main()\n"
    told = with_wheel.python("-c", f"{script}finally: print(*sys.modules)")
    assert "Commands:" in told
    loaded = {name.split(".")[0] for name in told.splitlines()[-1].split()}
    assert "click" in loaded
    assert not loaded & {"pyspark", "pyarrow", "numpy", "confluent_kafka"}


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_uninstalling_leaves_nothing(kind: str, new_environment, wheel: Path, source: Path) -> None:
    environment = new_environment(f"uninstalled_{kind}")
    before = environment.files()
    environment.install(*([wheel] if kind == "wheel" else ["-e", source]))
    assert environment.files() > before
    environment.python("-c", "from codecs import get_format; get_format('json')")  # creates bytecode files
    environment.uninstall()
    assert environment.files() == before
    assert environment.python("-c", MISSING).strip() == "kvformat False"


def test_import_loads_neither_pyspark_nor_any_format_library(with_wheel) -> None:
    heavy = {"pyspark", "pandas", "fastavro", "avro", "click", "confluent_kafka", "orjson", "msgspec"}
    script = "import sys, kvformat.registry, kvformat.codecs; print(*sys.modules)"
    loaded = {name.split(".")[0] for name in with_wheel.python("-c", script).split()}
    assert "kvformat" in loaded
    assert not loaded & heavy


def test_a_format_loads_no_other_format(with_wheel) -> None:
    heavy = {"pyspark", "pandas", "fastavro", "avro", "confluent_kafka", "orjson", "msgspec"}
    script = "import sys; from codecs import get_format; get_format('raw'); print(*sys.modules)"
    loaded = set(with_wheel.python("-c", script).split())
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["kvformat.formats"]
    others = {value.partition(":")[0] for name, value in declared.items() if name != "raw"}
    assert "kvformat.codecs.raw" in loaded
    assert not loaded & others
    assert not {name.split(".")[0] for name in loaded} & heavy
