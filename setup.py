"""What pyproject.toml can't say: the packages behind the folders, and the .pth file of both kinds of wheel."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import zipfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).resolve().parent
FOLDERS = ("registry", "codecs")
PTH = "kvformat.pth"
START_UP = "import _kvformat_alias; _kvformat_alias.install()\n"


def packages() -> list[str]:
    """Every folder of ours that holds Python files, by the name it is imported as."""
    folders = {file.parent.relative_to(ROOT) for top in FOLDERS for file in (ROOT / top).rglob("*.py")}
    return sorted(".".join(("kvformat", *folder.parts)) for folder in folders)


def editable_tree() -> Path:
    """A folder that shows the checkout as it is imported. A plain path: type checkers follow it, start-up is quick."""
    tree = ROOT / "build" / "editable"
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "kvformat").mkdir(parents=True)
    for folder in FOLDERS:
        (tree / "kvformat" / folder).symlink_to(Path("..", "..", "..", folder), target_is_directory=True)
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


class BuildPy(build_py):
    """Adds the .pth to the wheel's root."""

    def run(self) -> None:
        if not self.editable_mode:
            # Modules deleted since an earlier build would be packed again.
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        if not self.editable_mode:
            Path(self.build_lib, PTH).write_text(START_UP, encoding="utf-8")

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        pth = [] if self.editable_mode else [os.path.join(self.build_lib, PTH)]
        return [*super().get_outputs(include_bytecode), *pth]


class EditableWheel(editable_wheel):
    """A wheel whose .pth names the tree of links, then does what the regular wheel's does."""

    def run(self) -> None:
        super().run()
        (wheel,) = Path(self.dist_dir).glob("kvformat-*editable*.whl")
        rewrite_as_pth(wheel, f"{editable_tree()}\n{START_UP}")


# Metadata of a build belongs with the build, not in the checkout, where importlib.metadata would find it too.
(ROOT / "build").mkdir(exist_ok=True)

setup(
    packages=packages(),
    package_dir={f"kvformat.{folder}": folder for folder in FOLDERS},
    py_modules=["_kvformat_alias"],
    package_data={"": ["py.typed"]},
    cmdclass={"build_py": BuildPy, "editable_wheel": EditableWheel},
    options={"egg_info": {"egg_base": "build"}},
)
