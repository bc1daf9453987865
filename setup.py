"""Build steps that pyproject.toml can't express: the packages of the folders, the compiled kernel, the .pth file.

The environment variable KVFORMAT_COMPILE controls the kernel. With 1, a kernel that can't be compiled is an
error. With 0, the kernel is not compiled. Without it, the kernel is compiled if possible.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent
sys.path.append(str(ROOT))

import kernel_build  # noqa: E402  # a build does not have the checkout on sys.path

FOLDERS = {
    "kvformat": "package",
    "kvformat.registry": "registry",
    "kvformat.codecs": "codecs",
    "kvformat.connectors": "connectors",
    "kvformat.ingestion": "ingestion",
    "pyspark_kvformat": "pyspark_kvformat",
}
"""The folder of each package. The checkout itself has no `__init__.py`. Otherwise a checkout with the name kvformat
would shadow the installed package in every program that runs beside it."""
PTH = "kvformat.pth"
START_UP = "import _kvformat_alias; _kvformat_alias.install()\n"


def packages() -> list[str]:
    """Return the import names of all packages, which are the folders with Python files."""
    found = set()
    for package, top in FOLDERS.items():
        for file in (ROOT / top).rglob("*.py"):
            found.add(".".join((package, *file.parent.relative_to(ROOT / top).parts)))
    return sorted(found)


def write_identity(folder: str) -> None:
    """Write the version and the commit of this build to a folder that has `build.py`."""
    subprocess.run([sys.executable, "-P", str(ROOT / "registry" / "build.py"), folder], check=True)


def editable_tree() -> Path:
    """Create a folder of links to the checkout with the import names, and return its path.

    A plain path on `sys.path` starts quickly, and type checkers can follow it.
    """
    tree = ROOT / "build" / "editable"
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "kvformat").mkdir(parents=True)
    top = ROOT / FOLDERS["kvformat"]
    links = {tree / "kvformat" / file.name: file for file in top.iterdir() if file.is_file()}
    for package, folder in FOLDERS.items():
        if package != "kvformat":
            links[tree.joinpath(*package.split("."))] = ROOT / folder
    for link, target in links.items():
        link.symlink_to(os.path.relpath(target, link.parent), target_is_directory=target.is_dir())
    return tree


def rewrite_as_pth(wheel: Path, pth: str) -> None:
    """Rewrite a wheel so that it has only the metadata, the start-up module and our .pth file.

    Setuptools' import hook is removed, because it would cost time at each start of Python.
    """
    with zipfile.ZipFile(wheel) as old:
        files = {name: old.read(name) for name in old.namelist() if ".dist-info/" in name}
    record = next(name for name in files if name.endswith(".dist-info/RECORD"))
    del files[record]
    files[PTH] = pth.encode()
    # A copy, not a link: then pip compiles it, even if Python is set to write no bytecode.
    files["_kvformat_alias.py"] = (ROOT / "_kvformat_alias.py").read_bytes()
    lines = [f"{record},,"]
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.insert(-1, f"{name},sha256={digest},{len(data)}")
    files[record] = "".join(f"{line}\n" for line in lines).encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as new:
        for name, data in files.items():
            new.writestr(name, data)


@functools.cache
def kernel() -> dict[str, Path]:
    """Compile the kernel and return the path of each extension module.

    Returns an empty dict if the kernel can't be compiled or is not wanted.
    """
    choice = os.environ.get("KVFORMAT_COMPILE", "")
    if choice not in ("", "0", "1"):
        sys.exit(f"KVFORMAT_COMPILE is {choice!r}; allowed: 0, 1")
    if choice == "0":
        return {}
    try:
        return kernel_build.build()
    except kernel_build.BuildError as error:
        message = f"{error.output}\n{kernel_build.HINT.format(reason=error)}"
        if choice == "1":
            sys.exit(message)
        print(message, file=sys.stderr, flush=True)
        return {}


class BuildPy(build_py):
    """Adds the .pth file, the identity of the build and the kernel's extension modules to the wheel."""

    def run(self) -> None:
        if not self.editable_mode:
            # Otherwise the wheel would contain modules that were deleted after an earlier build.
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        if not self.editable_mode:
            Path(self.build_lib, PTH).write_text(START_UP, encoding="utf-8")
            write_identity(os.path.dirname(self.identity()))
            for file, target in self.extensions().items():
                shutil.copyfile(file, target)

    def identity(self) -> str:
        """Return the target path of the file with the identity of the build."""
        return os.path.join(self.build_lib, "kvformat", "registry", "build.json")

    def extensions(self) -> dict[Path, str]:
        """Return the target path of each extension module: beside its source, which Python then ignores."""
        folder = os.path.join(self.build_lib, *kernel_build.PACKAGE.split("."))
        return {file: os.path.join(folder, name + kernel_build.SUFFIX) for name, file in kernel().items()}

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        outputs: list[str] = super().get_outputs(include_bytecode)
        if self.editable_mode:
            return outputs
        return [*outputs, os.path.join(self.build_lib, PTH), self.identity(), *self.extensions().values()]


class BdistWheel(bdist_wheel):
    """Builds a wheel for this platform if the kernel is compiled, otherwise a wheel for all platforms."""

    def run(self) -> None:
        self.root_is_pure = not kernel()
        self.distribution.has_ext_modules = lambda: bool(kernel())
        super().run()


class Sdist(sdist):
    """Adds the identity of the checkout: what is built from a source distribution has no git to ask."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        write_identity(os.path.join(base_dir, "registry"))


class EditableWheel(editable_wheel):
    """Builds an editable wheel. Its .pth file names the tree of links and then runs the start-up module."""

    def run(self) -> None:
        super().run()
        kernel()  # so that the first import does not have to compile it
        (wheel,) = Path(self.dist_dir).glob("kvformat-*editable*.whl")
        rewrite_as_pth(wheel, f"{editable_tree()}\n{START_UP}")


# The metadata of a build goes to build/. In the checkout, importlib.metadata would find it too.
(ROOT / "build").mkdir(exist_ok=True)

setup(
    packages=packages(),
    package_dir=FOLDERS,
    py_modules=["_kvformat_alias"],
    package_data={"": ["py.typed"], "kvformat.registry.java": ["*.xz"], "kvformat.connectors.cli": ["template/*"]},
    # Nobody else can use these files: code that includes them must be compiled with the same Cython and source.
    exclude_package_data={"": ["*.pxd"]},
    cmdclass={"bdist_wheel": BdistWheel, "build_py": BuildPy, "editable_wheel": EditableWheel, "sdist": Sdist},
    options={"egg_info": {"egg_base": "build"}},
)
