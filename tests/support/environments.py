"""New virtual environments with the wheel of the checkout, or without kvformat, and its zip.

To be fast, they do not contain pip or copies of packages. Links to the running environment provide everything except
kvformat. The fixtures of this module are imported by the `conftest.py` of the folders that use them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.sessions import JAVA

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("pyproject.toml", "setup.py", "kernel_build.py", "_kvformat_alias.py", "MANIFEST.in", "README.md", "LICENSE")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
BUILT = Path("build", "kernel")


def variables(**more: str) -> dict[str, str]:
    """Return the variables of this process without those that lead to its installation, and more."""
    hidden = {"PYTHONPATH", "PYTHONHOME", "SPARK_HOME", "VIRTUAL_ENV", "KVFORMAT_KERNEL_CACHE"}
    return {name: value for name, value in os.environ.items() if name not in hidden} | more


def run(command: Iterable[str | Path], *, cwd: Path, extra: dict[str, str] | None = None) -> str:
    """Run a command and return its stdout. Fails with all of its output."""
    environment = variables(**(extra or {}))
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr[-8000:]}"
    return done.stdout


@dataclass(frozen=True)
class Environment:
    """A virtual environment."""

    folder: Path

    @property
    def executable(self) -> Path:
        return self.folder / "bin" / "python"

    def files(self) -> set[Path]:
        """Return the installed files and folders, without bytecode, which pip leaves in site-packages."""
        found = self.folder.glob("lib/python*/site-packages/**/*")
        return {path for path in found if not path.is_dir() or path.name != "__pycache__"}

    def python(self, *arguments: str, **extra: str) -> str:
        """Run Python in the environment's folder, outside the checkout."""
        return run([self.executable, *arguments], cwd=self.folder, extra=extra)

    def install(self, *arguments: str | Path, **extra: str) -> None:
        """Run the running environment's pip for this environment."""
        options = ["install", "-q", "--no-deps", "--no-index", "--no-build-isolation"]
        run([*PIP, "--python", self.executable, *options, *arguments], cwd=self.folder, extra=extra)

    def uninstall(self) -> None:
        run([*PIP, "--python", self.executable, "uninstall", "-q", "-y", "kvformat"], cwd=self.folder)

    def submit(self, dependencies: Path, *arguments: str | Path) -> str:
        """Run spark-submit with this environment's Python for driver and workers."""
        home = dependencies / "pyspark"
        extra = {name: str(self.executable) for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")}
        options = ["--master", "local[1]", "--conf", "spark.ui.enabled=false", "--conf", "spark.log.level=WARN"]
        options += ["--driver-java-options", JAVA]
        return run(
            [home / "bin" / "spark-submit", *options, *arguments],
            cwd=self.folder,
            extra={**extra, "SPARK_HOME": str(home)},
        )


def link_all(folder: Path, target: Path, without: Container[str] = ()) -> None:
    """Create links in `target` to what is in a folder."""
    for entry in folder.iterdir():
        if entry.name not in without:
            (target / entry.name).symlink_to(entry)


def link_thin_pyspark(folder: Path, target: Path) -> None:
    """Create links to what the package `pyspark-client` has of a PySpark: no jars, no classic sessions."""
    (target / "sql").mkdir(parents=True)
    servers = ("__pycache__", "bin", "core", "data", "examples", "jars", "licenses", "python", "sbin")
    link_all(folder, target, (*servers, "sql"))
    link_all(folder / "sql", target / "sql", ("__pycache__", "classic"))


@pytest.fixture(scope="session")
def dependencies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create links to all installed packages except kvformat."""
    folder, installed = tmp_path_factory.mktemp("dependencies"), Path(sysconfig.get_path("purelib"))
    ours = ("kvformat", "_kvformat", "__pycache__")
    others = {entry.name for entry in installed.iterdir() if entry.suffix == ".pth" or entry.name.startswith(ours)}
    link_all(installed, folder, others)
    return folder


@pytest.fixture(scope="session")
def new_environment(tmp_path_factory: pytest.TempPathFactory, dependencies: Path):
    def new(name: str, packages: Path = dependencies) -> Environment:
        folder = tmp_path_factory.mktemp(name)
        venv.create(folder, symlinks=True)
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "dependencies.pth").write_text(f"{packages}\n")
        return Environment(folder)

    return new


def copy_sources(folder: Path) -> Path:
    """Copy the files that a build needs, so that it leaves no files in the checkout."""
    for name in ("package", "registry", "codecs", "connectors", "ingestion", "pyspark_kvformat"):
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in SOURCES:
        shutil.copy(ROOT / name, folder / name)
    return folder


def build_wheel(source: Path, folder: Path, **extra: str) -> tuple[Path, str]:
    """Build a wheel. Returns its path and the output of `pip -v`."""
    options = ["-q", "--log", folder / "log", "--no-deps", "--no-index", "--no-build-isolation"]
    run([*PIP, "wheel", *options, "-w", folder, source], cwd=folder, extra=extra)
    (built,) = folder.glob("*.whl")
    return built, (folder / "log").read_text(encoding="utf-8")


def make_zip(target: Path, *wheels: Path) -> Path:
    """Run scripts/zip in a new folder, in which it may leave no other files."""
    target.parent.mkdir()
    told = run([sys.executable, ROOT / "scripts" / "zip", target.name, *wheels], cwd=target.parent)
    assert "It has the compiled kernel" in told
    assert list(target.parent.iterdir()) == [target]
    return target


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout with its compiled modules. Their file names show whether they are up to date."""
    folder = copy_sources(tmp_path_factory.mktemp("source"))
    if (ROOT / BUILT).exists():
        shutil.copytree(ROOT / BUILT, folder / BUILT)
    return folder


@pytest.fixture(scope="session")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(source, tmp_path_factory.mktemp("wheel"))[0]


@pytest.fixture(scope="session")
def bare(new_environment) -> Environment:
    """An environment with the dependencies, but without kvformat."""
    return new_environment("bare")


@pytest.fixture(scope="session")
def with_wheel(new_environment, wheel: Path) -> Environment:
    environment = new_environment("with_wheel")
    environment.install(wheel)
    return environment
