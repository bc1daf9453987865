"""The compiled and the uncompiled kernel in every kind of installation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.packaging.conftest import NO_COMPILER, PAIRS, SHARED
from tests.support.environments import BUILT, ROOT, Environment, build_wheel, copy_sources, run

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
FOLDER = "kvformat/codecs/_kernel"
needs_pairs = pytest.mark.skipif(not PAIRS, reason="the kernel has no module to compile")

REPORT = f"""
import importlib, json, sys
from codecs import KERNEL
from kvformat.codecs import _kernel
modules = [importlib.import_module("kvformat.codecs._kernel." + name) for name in {PAIRS}]
print(json.dumps([KERNEL, [module.__file__ for module in modules], sorted({{"Cython", "cython"}} & set(sys.modules))]))
"""


def report(environment: Environment, **extra: str) -> tuple[str, set[str]]:
    """Return the kernel that a process reports, and the file suffixes of its modules."""
    kernel, files, cython = json.loads(environment.python("-c", REPORT, **extra))
    assert cython == [], "Cython is only needed for building"
    return kernel, {SUFFIX if file.endswith(SUFFIX) else Path(file).suffix for file in files}


def refusal(environment: Environment, script: str, **extra: str) -> str:
    """Run a process that must fail, and return the last line of its stderr."""
    command = [environment.executable, "-c", script]
    done = subprocess.run(
        command, cwd=environment.folder, env={**os.environ, **extra}, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    return done.stderr.splitlines()[-1]


def in_kernel(names: Iterable[str]) -> set[str]:
    return {name.rpartition("/")[2] for name in names if f"{FOLDER}/" in f"kvformat/{name}"}


SOURCE_NAMES = {file.name for file in (ROOT / "codecs" / "_kernel").glob("*.py")}
PXD_NAMES = {file.name for file in (ROOT / "codecs" / "_kernel").glob("*.pxd")}


@needs_pairs
def test_a_wheel_with_extension_modules_is_for_this_platform(wheel: Path) -> None:
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name.endswith(f"-{python}-{python}-{platform}.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert in_kernel(archive.namelist()) == SOURCE_NAMES | {f"{name}{SUFFIX}" for name in [*PAIRS, SHARED]}
        (about,) = (archive.read(name) for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
    assert b"Root-Is-Purelib: false" in about


@needs_pairs
def test_the_compiled_kernel_runs(installed: Environment) -> None:
    assert report(installed) == ("compiled", {SUFFIX})
    assert installed.python(str(ROOT / "tests" / "packaging" / "try_kernel.py")).startswith("the kernel is compiled")


@needs_pairs
def test_the_uncompiled_kernel_can_be_requested(installed: Environment) -> None:
    assert report(installed, KVFORMAT_KERNEL="python") == ("python", {".py"})
    assert report(installed, KVFORMAT_KERNEL="compiled") == ("compiled", {SUFFIX})


@needs_pairs
def test_without_a_compiler_the_source_is_installed(with_pure_wheel: Environment, pure_wheel: tuple[Path, str]) -> None:
    assert report(with_pure_wheel) == ("python", {".py"})
    told = pure_wheel[1]
    assert "The kernel is not compiled: there is no C compiler (/nonexistent/cc)" in told
    assert "apt-get install gcc" in told


@needs_pairs
def test_a_wheel_for_distribution_needs_a_compiler(tmp_path: Path) -> None:
    source = copy_sources(tmp_path / "source")
    with pytest.raises(AssertionError, match="Failed building wheel"):
        build_wheel(source, tmp_path, KVFORMAT_COMPILE="1", **NO_COMPILER)
    assert "there is no C compiler" in (tmp_path / "log").read_text(encoding="utf-8")


def test_the_compiled_kernel_can_be_required(with_pure_wheel: Environment) -> None:
    told = refusal(with_pure_wheel, "import kvformat.codecs._kernel", KVFORMAT_KERNEL="compiled")
    reason = "KVFORMAT_KERNEL=compiled, but the kernel is not compiled: "
    assert told.startswith("ImportError: " + reason)


def test_an_unknown_kernel_is_refused(with_pure_wheel: Environment) -> None:
    told = refusal(with_pure_wheel, "import kvformat.codecs._kernel", KVFORMAT_KERNEL="rust")
    assert told == "ImportError: the environment variable KVFORMAT_KERNEL is 'rust'; allowed: python, compiled"


NOTES = """
import warnings
from kvformat.codecs._kernel import count_messages
from kvformat.registry.contract.errors import UncompiledKernelWarning
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    count_messages(5_000)
    print(len(caught), end=" ")
    count_messages(1)
    count_messages(100_000)
print(len(caught), *{w.category.__name__ for w in caught}, *(w.message for w in caught))
"""


def test_much_work_for_the_uncompiled_kernel_gives_one_warning(with_pure_wheel: Environment) -> None:
    told = with_pure_wheel.python("-c", NOTES)
    assert told.startswith("0 1 UncompiledKernelWarning the kernel runs uncompiled")
    assert "gcc" in told
    assert with_pure_wheel.python("-c", NOTES, KVFORMAT_KERNEL="python").strip() == "0 0"


@needs_pairs
def test_the_compiled_kernel_gives_no_warning(with_wheel: Environment) -> None:
    assert with_wheel.python("-c", NOTES).strip() == "0 0"


def test_importing_the_formats_does_not_load_the_kernel(with_wheel: Environment) -> None:
    script = "import sys, kvformat.codecs; print('kvformat.codecs._kernel' in sys.modules)"
    assert with_wheel.python("-c", script).strip() == "False"


def test_the_source_distribution_has_declarations_and_no_c(source: Path, tmp_path: Path) -> None:
    script = f"from setuptools import build_meta; print(build_meta.build_sdist({str(tmp_path)!r}))"
    run([sys.executable, "-P", "-c", script], cwd=source)
    (archive,) = tmp_path.iterdir()
    with tarfile.open(archive) as opened:
        names = [name.partition("/")[2] for name in opened.getnames()]
    assert in_kernel(names) - {"", "_kernel"} == SOURCE_NAMES | PXD_NAMES
    assert {"kernel_build.py", "setup.py", "_kvformat_alias.py", "pyproject.toml"} <= set(names)
    assert not [name for name in names if name.endswith((".c", SUFFIX))]


@pytest.fixture(scope="module")
def edited(new_environment, source: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Environment, Path]:
    """An editable install with a source that tests may change, and the kernel's folder in this source."""
    folder = copy_sources(tmp_path_factory.mktemp("edited"))
    run(["cp", "-r", source / "build", folder], cwd=folder)
    environment = new_environment("with_edited")
    environment.install("-e", folder)
    return environment, folder / "codecs" / "_kernel"


def smallest(folder: Path) -> Path:
    """The module with the shortest compile time."""
    return min((folder / f"{name}.py" for name in PAIRS), key=lambda file: file.stat().st_size)


@needs_pairs
def test_an_editable_install_compiles_changed_modules(edited: tuple[Environment, Path]) -> None:
    environment, folder = edited
    built = folder.parent.parent / BUILT
    before = set(built.glob(f"*{SUFFIX}"))
    module = smallest(folder)
    with module.open("a", encoding="utf-8") as file:
        file.write("\n\ndef edited() -> int:\n    return 1\n")
    command = [environment.executable, "-c", REPORT]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    together = [subprocess.Popen(command, cwd=environment.folder, **pipes) for _ in range(3)]
    told = [process.communicate() for process in together]
    assert [json.loads(out)[0] for out, _ in told] == ["compiled"] * 3
    assert sum(err.count(b"compiling the kernel") for _, err in told) == 1, "only one compiles"
    (new,) = set(built.glob(f"*{SUFFIX}")) - before
    assert new.name.startswith(f"{module.stem}-")
    script = f"from kvformat.codecs._kernel.{module.stem} import edited; print(edited())"
    assert environment.python("-c", script).strip() == "1"
    assert not list(folder.glob(f"*{SUFFIX}")), "the checkout has new files"


@needs_pairs
def test_an_editable_install_without_a_compiler_runs_the_source(edited: tuple[Environment, Path]) -> None:
    environment, folder = edited
    module = smallest(folder)
    with module.open("a", encoding="utf-8") as file:
        file.write("\n\ndef broken() -> int:\n    return no_such_name\n")
    # Without a compiler the source runs.
    assert report(environment, **NO_COMPILER) == ("python", {".py"})
    # Cython refuses errors that Python finds only at runtime. The second process does not compile again.
    for _ in range(2):
        told = environment.python("-c", f"import warnings; warnings.simplefilter('always'){REPORT}")
        assert json.loads(told)[0] == "python"
    command = [environment.executable, "-W", "error", "-c", REPORT]
    done = subprocess.run(command, cwd=environment.folder, capture_output=True, text=True, check=False)
    assert f"{module.name}:" in done.stderr
    assert "undeclared name not builtin: no_such_name" in done.stderr
    assert "compiling the kernel (" not in done.stderr
    # The warning says how to see the details, and this works.
    script = folder.parent.parent / "kernel_build.py"
    done = subprocess.run([environment.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "return no_such_name" in done.stderr
