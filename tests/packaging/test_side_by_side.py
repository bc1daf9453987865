"""The installed package next to a checkout, next to another version, and in read-only folders."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from tests.packaging.conftest import PAIRS, SHARED
from tests.support.environments import BUILT, ROOT, Environment, copy_sources, make_zip, run

WHERE = """
import importlib, json, os, pkgutil, sys
from codecs import KERNEL, available_formats, get_format
from importlib.metadata import version
import kvformat
for module in list(pkgutil.walk_packages(kvformat.__path__, "kvformat.")):
    if module.name != "kvformat.__main__":
        importlib.import_module(module.name)
files = {name: module.__file__ for name, module in sys.modules.items() if name.startswith(("kvformat", "_kvformat"))}
told = {"files": files, "kernel": KERNEL, "version": version("kvformat"), "formats": available_formats()}
told["json"] = os.path.realpath(sys.modules[type(get_format("json")).__module__].__file__)
print(json.dumps(told))
"""
"""A program that imports all modules of `import kvformat` and prints their files."""

DECODE = """
import pyarrow as pa
from codecs import KERNEL, get_format
rows = get_format("json").decode_batch(pa.array([b'{"id":1}']), "id INT").rows.to_pylist()
print(KERNEL, rows)
"""


def where(environment: Environment, folder: Path, **extra: str) -> dict[str, object]:
    told: dict[str, object] = json.loads(run([environment.executable, "-c", WHERE], cwd=folder, extra=extra))
    assert len(told["files"]) > 150
    return told


def outside(told: dict[str, object], folder: Path) -> list[str]:
    """Return the modules outside a folder."""
    return [name for name, file in told["files"].items() if not Path(file).is_relative_to(folder)]


def site_packages(environment: Environment) -> Path:
    (packages,) = environment.folder.glob("lib/python*/site-packages")
    return packages


# --- a checkout next to the job ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone named kvformat, with the uncommitted changes."""
    if not (ROOT / ".git").exists():
        pytest.skip("these sources are not a git checkout")
    folder = tmp_path_factory.mktemp("job") / "kvformat"
    run(["git", "-c", "safe.directory=*", "clone", "-q", "--depth", "1", f"file://{ROOT}", folder], cwd=folder.parent)
    copy_sources(folder)
    shutil.copytree(ROOT / BUILT, folder / BUILT)
    return folder


@pytest.fixture(scope="module", params=["wheel", "editable"])
def beside_checkout(request: pytest.FixtureRequest, new_environment, checkout: Path) -> tuple[Environment, Path]:
    """An environment with the clone installed, and the folder that must contain all its files."""
    environment = new_environment(f"beside_checkout_{request.param}")
    if request.param == "wheel":
        environment.install(checkout)
        return environment, site_packages(environment)
    environment.install("-e", checkout)
    return environment, checkout / "build" / "editable"


def shadows(folder: Path) -> bool:
    """Return whether Python would import the checkout in this folder as kvformat if it found no other package."""
    spec = PathFinder.find_spec("kvformat", [str(folder)])
    assert spec is not None
    return spec.loader is None


def test_a_checkout_beside_the_job_does_not_shadow_the_package(
    beside_checkout: tuple[Environment, Path], checkout: Path
) -> None:
    environment, home = beside_checkout
    assert shadows(checkout.parent), "the checkout's folder must not be a regular package"
    told = where(environment, checkout.parent)
    kernel = {f"kvformat.codecs._kernel.{name}" for name in [*PAIRS, SHARED]} if home.name == "editable" else set()
    others = {"_kvformat_alias", "kvformat_kernel_build"}  # in site-packages, and the builder that the import loads
    assert set(outside(told, home)) - others == kernel
    assert Path(told["files"]["_kvformat_alias"]).parent == site_packages(environment)
    assert told["kernel"] == ("compiled" if PAIRS else "python")
    # With -P the job's folder is not on the path, so it cannot shadow the package.
    assert json.loads(environment.python("-P", "-c", WHERE)) == told


def test_a_checkout_does_not_shadow_the_package_for_scripts(
    beside_checkout: tuple[Environment, Path], checkout: Path
) -> None:
    environment, home = beside_checkout
    told = run([environment.executable, "-m", "kvformat", "formats", "--json"], cwd=checkout.parent)
    assert '"name": "debezium-json"' in told
    job = checkout.parent / "job.py"
    job.write_text("from kvformat import KafkaTable\nimport kvformat\nprint(kvformat.__file__)\n", encoding="utf-8")
    assert Path(run([environment.executable, job], cwd=checkout.parent).strip()).is_relative_to(home)
    # PYTHONPATH comes before installed packages.
    told = run([environment.executable, job], cwd=home, extra={"PYTHONPATH": str(checkout.parent)})
    assert Path(told.strip()).is_relative_to(home)


def test_a_checkout_does_not_shadow_a_zip(bare: Environment, checkout: Path, tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "zip" / "kvformat.zip")
    told = run(
        [bare.executable, "-c", "import kvformat.codecs; print(kvformat.codecs.__file__)"],
        cwd=checkout.parent,
        extra={"PYTHONPATH": str(archive)},
    )
    assert told.strip() == str(archive / "kvformat" / "codecs" / "__init__.py")


# --- two versions ------------------------------------------------------------------------------------------------


def unpack(wheel: Path, folder: Path, version: str) -> Path:
    """Unpack a wheel as another version, with a package and a format that only exist in this version."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    name = f"only_{version.replace('.', '_')}"
    (metadata,) = folder.glob("kvformat-*.dist-info")
    about = metadata / "METADATA"
    about.write_text(re.sub(r"(?m)^Version: .*$", f"Version: {version}", about.read_text(encoding="utf-8")))
    points = metadata / "entry_points.txt"
    added = f"[kvformat.formats]\n{name.replace('_', '-')} = kvformat.codecs.raw:RawFormat\n"
    points.write_text(points.read_text(encoding="utf-8").replace("[kvformat.formats]\n", added), encoding="utf-8")
    metadata.rename(folder / f"kvformat-{version}.dist-info")
    for package in ("", "codecs"):
        room = folder / "kvformat" / package / name
        room.mkdir()
        (room / "__init__.py").write_text("", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def versions(wheel: Path, pure_wheel: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with two versions: the older without a compiled kernel, the newer with it."""
    folder = tmp_path_factory.mktemp("versions")
    return {"0.0.8": unpack(pure_wheel[0], folder / "older", "0.0.8"), "9.0": unpack(wheel, folder / "newer", "9.0")}


@pytest.mark.parametrize("first", ["0.0.8", "9.0"])
@pytest.mark.parametrize("installed_version", [None, "wheel", "editable"])
def test_only_the_first_of_two_versions_is_used(
    first: str, installed_version: str | None, versions: dict[str, Path], request: pytest.FixtureRequest
) -> None:
    environment: Environment = request.getfixturevalue(f"with_{installed_version}" if installed_version else "bare")
    (second,) = (version for version in versions if version != first)
    path = os.pathsep.join(str(versions[version]) for version in (first, second))
    # Without a .pth file the names in codecs exist after the first import.
    script = WHERE if installed_version else f"import kvformat.codecs\n{WHERE}"
    told = json.loads(environment.python("-c", script, PYTHONPATH=path))
    assert len(told["files"]) > 150
    assert outside(told, versions[first]) == []
    assert told["version"] == first
    assert told["kernel"] == ("compiled" if PAIRS and first == "9.0" else "python")
    only = {version: f"only-{version.replace('.', '-')}" for version in versions}
    assert only[first] in told["formats"]
    assert only[second] not in told["formats"]
    for package in ("kvformat.", "kvformat.codecs."):
        script = f"""
import importlib
import {package}{only[first].replace("-", "_")}
try:
    import {package}{only[second].replace("-", "_")}
except ModuleNotFoundError as error:
    print(error.name)
"""
        missing = environment.python("-c", script, PYTHONPATH=path).strip()
        assert missing == f"{package}{only[second].replace('-', '_')}"


def test_a_checkout_first_on_the_path_has_its_own_kernel(
    with_wheel: Environment, with_editable: Environment, source: Path
) -> None:
    """A checkout's compiled modules are not next to the source; their file names contain a hash of the source."""
    told = where(with_wheel, with_wheel.folder, PYTHONPATH=str(source / "build" / "editable"))
    kernel = {f"kvformat.codecs._kernel.{name}" for name in [*PAIRS, SHARED]}
    others = {"_kvformat_alias", "kvformat_kernel_build"}
    assert set(outside(told, source / "build" / "editable")) - others == kernel
    assert {name for name in kernel if not Path(told["files"][name]).is_relative_to(source / BUILT)} == set()


def test_codecs_has_the_names_of_the_imported_version(with_wheel: Environment, versions: dict[str, Path]) -> None:
    """A program adds another version to its path after the start-up file loaded the installed version."""
    codecs = versions["9.0"] / "kvformat" / "codecs" / "__init__.py"
    before = codecs.read_text(encoding="utf-8")
    codecs.write_text(f"{before}\n__all__ += ['later_name']\nlater_name = 'of 9.0'\n", encoding="utf-8")
    script = f"""
import sys
sys.path.insert(0, {str(versions["9.0"])!r})
import kvformat.codecs
from codecs import later_name
print(later_name)
"""
    try:
        assert with_wheel.python("-c", script).strip() == "of 9.0"
    finally:
        codecs.write_text(before, encoding="utf-8")


# --- read-only folders -------------------------------------------------------------------------------------------


def unprivileged() -> list[str]:
    """Return a command prefix that prevents root from writing to read-only folders; empty for other users."""
    if os.geteuid() != 0:
        return []
    if not (setpriv := shutil.which("setpriv")):
        pytest.skip("root can write everywhere, and there is no setpriv (Debian: util-linux)")
    without = "-dac_override,-dac_read_search,-fowner"
    return [setpriv, f"--bounding-set={without}", f"--inh-caps={without}", "--"]


@pytest.fixture(params=["wheel", "editable"])
def read_only(
    request: pytest.FixtureRequest, new_environment, wheel: Path, tmp_path: Path
) -> Iterator[tuple[Environment, Path]]:
    """A read-only environment and the read-only folder with the package."""
    environment: Environment = new_environment(f"read_only_{request.param}")
    home = environment.folder
    if request.param == "wheel":
        environment.install("--no-compile", wheel)
    else:
        home = copy_sources(tmp_path / "somebody_elses")
        shutil.copytree(ROOT / BUILT, home / BUILT)
        environment.install("--no-compile", "-e", home)
    folders = {environment.folder, home}
    for folder in folders:
        run(["chmod", "-R", "a-w", folder], cwd=folder)
    yield environment, home
    for folder in folders:
        run(["chmod", "-R", "u+w", folder], cwd=folder)


def contents(folder: Path) -> dict[str, int]:
    return {str(file): file.stat().st_mtime_ns for file in folder.rglob("*") if not file.is_symlink()}


@pytest.mark.parametrize("bytecode", ["", "1"], ids=["writes bytecode", "PYTHONDONTWRITEBYTECODE"])
def test_the_package_works_in_read_only_folders(
    read_only: tuple[Environment, Path], bytecode: str, tmp_path: Path
) -> None:
    environment, home = read_only
    before = contents(home)
    assert len(before) > 150

    def python(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        settings = {**os.environ, "PYTHONDONTWRITEBYTECODE": bytecode, "HOME": "/nonexistent", **extra}
        return subprocess.run(
            [*unprivileged(), environment.executable, "-W", "error", *arguments],
            cwd=tmp_path,
            env={name: value for name, value in settings.items() if value},
            capture_output=True,
            text=True,
            check=False,
        )

    refused = python("-c", f"open({str(home / 'written')!r}, 'w')")
    assert "PermissionError" in refused.stderr
    expected = "compiled" if PAIRS else "python"
    decoded = python("-c", DECODE)
    assert (decoded.stdout, decoded.stderr) == (f"{expected} [[{{'id': 1}}]]\n", "")
    source = python("-c", DECODE, KVFORMAT_KERNEL="python")
    assert (source.stdout, source.stderr) == ("python [[{'id': 1}]]\n", "")
    listed = python("-m", "kvformat", "formats", "--json")
    assert '"name": "debezium-json"' in listed.stdout
    assert (listed.returncode, listed.stderr) == (0, "")
    assert contents(home) == before


@pytest.mark.skipif(not PAIRS, reason="the kernel has no module to compile")
def test_a_changed_read_only_checkout_runs_as_source(new_environment, tmp_path: Path) -> None:
    """The compiled modules belong to another source, and the folder is read-only."""
    home = copy_sources(tmp_path / "somebody_elses")
    shutil.copytree(ROOT / BUILT, home / BUILT)
    environment: Environment = new_environment("changed_checkout")
    environment.install("-e", home)
    module = min((home / "codecs" / "_kernel" / f"{name}.py" for name in PAIRS), key=lambda file: file.stat().st_size)
    with module.open("a", encoding="utf-8") as file:
        file.write("\n\ndef edited() -> int:\n    return 1\n")
    run(["chmod", "-R", "a-w", home], cwd=tmp_path)
    try:
        script = f"{DECODE}\nfrom kvformat.codecs import _kernel\nprint(_kernel.WHY)"
        told = run([*unprivileged(), environment.executable, "-c", script], cwd=tmp_path)
    finally:
        run(["chmod", "-R", "u+w", home], cwd=tmp_path)
    first, why = told.splitlines()
    assert first == "python [[{'id': 1}]]"
    assert "Permission denied" in why
