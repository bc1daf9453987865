"""Compiles the kernel: every module of codecs/_kernel/ that has an augmenting .pxd beside it.

    python kernel_build.py      builds what is not up to date, as every import of an editable install does
    python kernel_build.py check    says what is missing to compile here

setup.py takes the extension modules into wheels. They are kept in build/kernel/, named by the content they were built
from and by Python's ABI, so a file never changes: processes that run, branches and environments don't disturb each
other. Cython wants a module's package as folders, so it gets a copy of the sources in build/kernel/source/.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent
PACKAGE = "kvformat.codecs._kernel"
SOURCES = ROOT / "codecs" / "_kernel"
BUILT = ROOT / "build" / "kernel"
SUFFIX: str = sysconfig.get_config_var("EXT_SUFFIX")
KEPT = 8
"""Builds of a module that stay: enough to go to and fro between branches."""

DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,
    "infer_types": True,
    "wraparound": False,
    "boundscheck": True,
    "initializedcheck": True,
    "cdivision": False,
    "embedsignature": False,
    "show_performance_hints": False,
}
FLAGS = "-O3 -g0"
"""For gcc and clang; KVFORMAT_KERNEL_FLAGS replaces them (scripts/sanitize)."""

INLINE = ("CYTHON_INLINE", "inline __attribute__((always_inline))")

HINT = """\
The kernel for JSON and protobuf is not compiled: {reason}
It works all the same, but reads many times slower. To compile it, install a C compiler and Python's headers
(Debian, Ubuntu: apt-get install gcc libc6-dev python3-dev) and then kvformat again, with pip's options
--force-reinstall --no-deps --no-cache-dir."""


class BuildError(Exception):
    """Compiling failed; the text is the first error, `output` all that the compilers said."""

    def __init__(self, reason: str, output: str = "") -> None:
        super().__init__(reason)
        self.output = output


class CompilerMissingError(BuildError):
    """Nothing can be compiled here; the text says what is missing."""


def modules(sources: Path = SOURCES) -> dict[str, Path]:
    """The file that each compiled module has, or will have, as its source is now."""
    shared = hashlib.sha256(Path(__file__).read_bytes())
    for declarations in sorted(sources.glob("*.pxd")):
        shared.update(declarations.name.encode() + declarations.read_bytes())
    found = {}
    for declarations in sorted(sources.glob("*.pxd")):
        source = declarations.with_suffix(".py")
        if source.exists():
            content = shared.copy()
            content.update(source.read_bytes())
            found[source.stem] = BUILT / f"{source.stem}-{content.hexdigest()[:16]}{SUFFIX}"
    return found


def obstacle() -> str | None:
    """What is missing to compile here."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    if sys.platform != "win32" and not shutil.which(command.split()[0]):
        return f"there is no C compiler ({command.split()[0]})"
    headers = sysconfig.get_path("include")
    if not Path(headers, "Python.h").exists():
        return f"Python's headers are not installed (no Python.h in {headers})"
    return None


def build(*, afresh: bool = False, again: bool = True) -> dict[str, Path]:
    """Compile what is not up to date, and return the file of each module.

    `afresh`: compile all of it. `again`: also what failed before.
    """
    wanted = modules()
    if not afresh and all(file.exists() for file in wanted.values()):
        return wanted
    reason = obstacle()
    if reason is None and not all(map(importlib.util.find_spec, ("Cython", "setuptools"))):
        reason = "Cython and setuptools are not installed in this environment"
    if reason:
        raise CompilerMissingError(reason)
    BUILT.mkdir(parents=True, exist_ok=True)
    with _lock():
        wanted = modules()  # the source may have changed, or been compiled, while another process had the lock
        old = [name for name, file in wanted.items() if afresh or not file.exists()]
        failure = BUILT / f"failed-{hashlib.sha256(repr(wanted).encode()).hexdigest()[:16]}"
        if old and failure.exists() and not again:
            raise BuildError(failure.read_text(encoding="utf-8"))
        if old:
            what = f"the kernel for JSON and protobuf ({', '.join(old)})"
            print(f"kvformat: compiling {what}", file=sys.stderr, flush=True)
            command = [sys.executable, "-P", __file__, "compile", *old]
            run = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            if run.returncode:
                reason = _first_error(run.stdout)
                failure.write_text(reason, encoding="utf-8")
                raise BuildError(reason, run.stdout)
            _forget_old(old)
            if not all(file.exists() for file in wanted.values()):
                raise BuildError("its source changed while it was compiled")
    return wanted


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    """One build at a time. On Windows editable installs can't be made (they need links), so nobody else builds."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with open(BUILT / "lock", "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _first_error(output: str) -> str:
    """`file:line:column: what is wrong` as Cython or the C compiler said it first, or else the last line."""
    told = re.search(r"^(?!warning:)\S+:\d+:\d+: (?!warning:|note:).+$", output, re.MULTILINE)
    return told[0] if told else (output.strip().splitlines() or ["the compiler said nothing"])[-1]


def _forget_old(names: list[str]) -> None:
    for name in names:
        files = BUILT.glob(f"{name}-{'?' * 16}{SUFFIX}")
        for file in sorted(files, key=lambda file: file.stat().st_mtime)[:-KEPT]:
            file.unlink()
    for file in BUILT.glob("failed-*"):
        file.unlink()


def _compile(names: list[str]) -> None:
    """Compile the modules of these names; in a process of its own, for its output and its many imports."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    class BuildExtensions(build_ext):
        def build_extensions(self) -> None:
            if self.compiler.compiler_type != "msvc":
                for extension in self.extensions:
                    extension.extra_compile_args = os.environ.get("KVFORMAT_KERNEL_FLAGS", FLAGS).split()
                    extension.define_macros = [INLINE]
            super().build_extensions()

    os.chdir(BUILT)  # what the compilers print has short names
    folder = Path("source", *PACKAGE.split("."))
    for outdated in folder.glob("*.p*"):  # the C of other modules stays, for readers of a sanitizer's report
        outdated.unlink()
    shutil.copytree(SOURCES, folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    files = modules(folder)  # of the copy, which nobody edits
    extensions = cythonize(
        [Extension(f"{PACKAGE}.{name}", [str(folder / f"{name}.py")]) for name in names],
        include_path=["source"],
        compiler_directives=DIRECTIVES,
        force=True,
    )
    with tempfile.TemporaryDirectory(dir=BUILT) as scratch:
        command = BuildExtensions(Distribution({"name": "kernel", "ext_modules": extensions}))
        command.build_lib, command.build_temp, command.parallel = scratch, scratch, os.cpu_count()
        command.ensure_finalized()
        command.run()
        for name in names:
            os.replace(command.get_ext_fullpath(f"{PACKAGE}.{name}"), files[name])


def main() -> int:
    """Returns the exit code."""
    if sys.argv[1:2] == ["compile"]:
        _compile(sys.argv[2:])
    elif sys.argv[1:2] == ["check"]:
        if reason := obstacle():
            print(reason)
            return 1
    else:
        try:
            build()
        except BuildError as error:
            print(error.output or error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
