"""What pyproject.toml can't say: the packages behind the folders, the compiled kernel, the .pth file of both wheels.

KVFORMAT_COMPILE=1 in the environment makes it an error that the kernel can't be compiled, and uses nothing that was
compiled before; KVFORMAT_COMPILE=0 leaves the compiling out.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import shutil
import sys
import zipfile
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).resolve().parent
sys.path.append(str(ROOT))

import kernel_build  # noqa: E402  # builds don't run with the checkout on the path

FOLDERS = {
    "kvformat": "package",
    "kvformat.registry": "registry",
    "kvformat.codecs": "codecs",
    "kvformat.connectors": "connectors",
}
"""The folder of each package. The checkout itself has no `__init__.py`: a checkout called kvformat would otherwise
shadow the installed package in every program that runs beside it."""
PTH = "kvformat.pth"
START_UP = "import _kvformat_alias; _kvformat_alias.install()\n"


def packages() -> list[str]:
    """The names of all packages: every folder of ours with Python files, as it is imported."""
    found = set()
    for package, top in FOLDERS.items():
        for file in (ROOT / top).rglob("*.py"):
            found.add(".".join((package, *file.parent.relative_to(ROOT / top).parts)))
    return sorted(found)


def editable_tree() -> Path:
    """A folder that shows the checkout as it is imported. A plain path: type checkers follow it, start-up is quick."""
    tree = ROOT / "build" / "editable"
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "kvformat").mkdir(parents=True)
    checkout = Path("..", "..", "..")
    for package, folder in FOLDERS.items():
        if package != "kvformat":
            link = tree.joinpath(*package.split("."))
            link.symlink_to(checkout / folder, target_is_directory=True)
    for file in (ROOT / FOLDERS["kvformat"]).iterdir():
        if file.is_file():
            (tree / "kvformat" / file.name).symlink_to(checkout / FOLDERS["kvformat"] / file.name)
    return tree


def rewrite_as_pth(wheel: Path, pth: str) -> None:
    """Leave only the metadata, the start-up module and our .pth; setuptools' import hook would cost start-up time."""
    with zipfile.ZipFile(wheel) as old:
        files = {name: old.read(name) for name in old.namelist() if ".dist-info/" in name}
    record = next(name for name in files if name.endswith(".dist-info/RECORD"))
    del files[record]
    files[PTH] = pth.encode()
    # A copy, not a link: pip compiles it, also where Python is told to write no bytecode.
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
    """The kernel's extension modules; none where they can't be compiled, or are not wanted."""
    choice = os.environ.get("KVFORMAT_COMPILE", "")
    if choice not in ("", "0", "1"):
        sys.exit(f"KVFORMAT_COMPILE is {choice!r}; allowed: 0, 1")
    if choice == "0":
        return {}
    try:
        return kernel_build.build(afresh=choice == "1")
    except kernel_build.BuildError as error:
        told = f"{error.output}\n{kernel_build.HINT.format(reason=error)}"
        if choice == "1":
            sys.exit(told)
        print(told, file=sys.stderr, flush=True)
        return {}


class BuildPy(build_py):
    """Adds the .pth and the kernel's extension modules to the wheel."""

    def run(self) -> None:
        if not self.editable_mode:
            # Modules deleted since an earlier build would be packed again.
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        if not self.editable_mode:
            Path(self.build_lib, PTH).write_text(START_UP, encoding="utf-8")
            for file, target in self.extensions().items():
                shutil.copyfile(file, target)

    def extensions(self) -> dict[Path, str]:
        """Where each extension module goes: beside its source, which Python then passes over."""
        folder = os.path.join(self.build_lib, *kernel_build.PACKAGE.split("."))
        return {file: os.path.join(folder, name + kernel_build.SUFFIX) for name, file in kernel().items()}

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        outputs: list[str] = super().get_outputs(include_bytecode)
        if self.editable_mode:
            return outputs
        return [*outputs, os.path.join(self.build_lib, PTH), *self.extensions().values()]


class BdistWheel(bdist_wheel):
    """A wheel for this platform if the kernel is compiled, otherwise one for all."""

    def run(self) -> None:
        self.root_is_pure = not kernel()
        self.distribution.has_ext_modules = lambda: bool(kernel())
        super().run()


class EditableWheel(editable_wheel):
    """A wheel whose .pth names the tree of links, then does what the regular wheel's does."""

    def run(self) -> None:
        super().run()
        kernel()  # so that the first import needn't
        (wheel,) = Path(self.dist_dir).glob("kvformat-*editable*.whl")
        rewrite_as_pth(wheel, f"{editable_tree()}\n{START_UP}")


# Metadata of a build belongs with the build, not in the checkout, where importlib.metadata would find it too.
(ROOT / "build").mkdir(exist_ok=True)

setup(
    packages=packages(),
    package_dir=FOLDERS,
    py_modules=["_kvformat_alias"],
    package_data={"": ["py.typed"], "kvformat.connectors.cli": ["template/*"]},
    # Of use to nobody else: what is compiled against them must be compiled by the same Cython, from the same source.
    exclude_package_data={"": ["*.pxd"]},
    cmdclass={"bdist_wheel": BdistWheel, "build_py": BuildPy, "editable_wheel": EditableWheel},
    options={"egg_info": {"egg_base": "build"}},
)
