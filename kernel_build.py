"""Compiles the kernel: every module of codecs/_kernel/ with a .pxd file beside it.

    python kernel_build.py          compiles changed modules, as every import of an editable install does
    python kernel_build.py check    prints what is missing to compile here

The extension modules are in build/kernel/, and setup.py adds them to wheels. Their file names contain Python's ABI and
a hash of everything they are compiled from, so a file never changes. Running processes, branches and environments do
not conflict. The environment variable KVFORMAT_KERNEL_CACHE names a folder for the modules of several checkouts, which
then compile each source once. Only its owner may be able to write to it.

Cython needs a module's package as folders, so it compiles a copy of the sources in build/kernel/source/.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
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
CACHE = os.environ.get("KVFORMAT_KERNEL_CACHE")
BUILT = Path(CACHE or ROOT / "build" / "kernel").absolute()
SHARED = "_cython_shared"
"""The module with Cython's own code, such as memoryviews. Without it, each module would have a copy."""
SUFFIX: str = sysconfig.get_config_var("EXT_SUFFIX")
KEPT = 12
"""The number of builds of a module that are kept, so that switching between branches does not compile again."""

DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,
    "infer_types": True,
    "wraparound": False,
    "boundscheck": True,
    "initializedcheck": True,
    "cdivision": False,
    "embedsignature": False,
    "auto_pickle": False,  # no reader is pickled, and the code for it doubles the compile time
    "show_performance_hints": False,
}
FLAGS = os.environ.get("KVFORMAT_KERNEL_FLAGS", "-O2 -g0")
"""Flags for gcc and clang. scripts/sanitize has others. -O3 is not faster, and takes longer to compile."""

INLINE = ("CYTHON_INLINE", "inline __attribute__((always_inline))")

HINT = """\
The kernel is not compiled: {reason}
It works, but reads many times slower. To compile it, install a C compiler and Python's headers
(Debian, Ubuntu: apt-get install gcc libc6-dev python3-dev) and then kvformat again, with pip's options
--force-reinstall --no-deps --no-cache-dir."""


class BuildError(Exception):
    """Compiling failed. The message is the first error, and `output` is the output of the compilers."""

    def __init__(self, reason: str, output: str = "") -> None:
        super().__init__(reason)
        self.output = output


class CompilerMissingError(BuildError):
    """The kernel can't be compiled here. The message says what is missing."""


def modules(sources: Path = SOURCES) -> dict[str, Path]:
    """Return the file of each compiled module for its current source. A file may not exist yet."""
    declared = {file.stem: file.read_bytes() for file in sorted(sources.glob("*.pxd"))}
    used = {
        name: set(re.findall(rf"^from {re.escape(PACKAGE)}\.(\w+) cimport ", text.decode(), re.MULTILINE))
        for name, text in declared.items()
    }
    settings = f"{_cython_version()} {_c_library()} {FLAGS} "
    shared = hashlib.sha256(settings.encode() + Path(__file__).read_bytes())
    found = {SHARED: shared}
    for name in declared:
        source = sources / f"{name}.py"
        if source.exists():
            content = shared.copy()
            needed, more = {name}, used[name]
            while more := more - needed:  # Cython also reads the declarations that the declarations need
                needed |= more
                more = set().union(*(used[other] for other in more))
            for other in sorted(needed):
                content.update(other.encode() + declared[other])
            content.update(source.read_bytes())
            found[name] = content
    return {name: BUILT / f"{name}-{content.hexdigest()[:16]}{SUFFIX}" for name, content in found.items()}


@functools.cache
def _cython_version() -> str:
    """Return the version of the installed Cython, or else of the Cython that built the newest modules.

    Modules work together only if they come from one version.
    """
    try:
        return importlib.metadata.version("Cython")
    except importlib.metadata.PackageNotFoundError:
        with contextlib.suppress(OSError):
            return (BUILT / "cython").read_text(encoding="utf-8")
        return ""


def _c_library() -> str | None:
    """Return the version of glibc: a module needs the version that it was compiled with, or a newer one."""
    with contextlib.suppress(AttributeError, OSError, ValueError):  # another system, or another C library
        return os.confstr("CS_GNU_LIBC_VERSION")
    return None


def obstacle() -> str | None:
    """Return what is missing to compile here, or None."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    if sys.platform != "win32" and not shutil.which(command.split()[0]):
        return f"there is no C compiler ({command.split()[0]})"
    headers = sysconfig.get_path("include")
    if not Path(headers, "Python.h").exists():
        return f"Python's headers are not installed (no Python.h in {headers})"
    return None


def build(*, retry: bool = True) -> dict[str, Path]:
    """Compile changed modules, and return the file of each module.

    retry: also compile sources that failed before; otherwise raise the error of then.

    Raises `CompilerMissingError` if the kernel can't be compiled here, and `BuildError` if compiling fails.
    """
    if CACHE:
        _make_private(BUILT)
    wanted = modules()
    if all(file.exists() for file in wanted.values()):
        return wanted
    reason = obstacle()
    if reason is None and not all(map(importlib.util.find_spec, ("Cython", "setuptools"))):
        reason = "Cython and setuptools are not installed in this environment"
    if reason:
        raise CompilerMissingError(reason)
    BUILT.mkdir(0o755, parents=True, exist_ok=True)
    with _lock():
        wanted = modules()  # the source may have changed, or been compiled, while another process had the lock
        old = [name for name, file in wanted.items() if not file.exists()]
        failure = BUILT / f"failed-{hashlib.sha256(repr(wanted).encode()).hexdigest()[:16]}"
        if old and failure.exists() and not retry:
            raise BuildError(failure.read_text(encoding="utf-8"))
        if old:
            print(f"kvformat: compiling the kernel ({', '.join(old)})", file=sys.stderr, flush=True)
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


def _make_private(folder: Path) -> None:
    """Create the folder if needed. Refuse a folder that other users can write to: their code would run here."""
    folder.mkdir(0o700, parents=True, exist_ok=True)
    if sys.platform != "win32" and (folder.stat().st_uid != os.geteuid() or folder.stat().st_mode & 0o022):
        raise CompilerMissingError(f"other users can write to {folder}, which KVFORMAT_KERNEL_CACHE names")


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    """Allow one build at a time. Windows needs no lock: it has no editable installs, which would build too."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with open(BUILT / "lock", "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _first_error(output: str) -> str:
    """Return the first error `file:line:column: message` of Cython or the C compiler, or else the last line."""
    error = re.search(r"^(?!warning:)\S+:\d+:\d+: (?!warning:|note:).+$", output, re.MULTILINE)
    return error[0] if error else (output.strip().splitlines() or ["the compiler printed nothing"])[-1]


def _forget_old(names: list[str]) -> None:
    for name in names:
        files = BUILT.glob(f"{name}-{'?' * 16}{SUFFIX}")
        for file in sorted(files, key=lambda file: file.stat().st_mtime)[:-KEPT]:
            file.unlink()
    for file in BUILT.glob("failed-*"):
        file.unlink()


def _compile(names: list[str]) -> None:
    """Compile modules. This runs in its own process, because it prints to stdout and imports many modules."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    class BuildExtensions(build_ext):
        def build_extensions(self) -> None:
            if self.compiler.compiler_type != "msvc":
                for extension in self.extensions:
                    extension.extra_compile_args = FLAGS.split()
                    extension.define_macros = [INLINE]
            super().build_extensions()

    os.chdir(BUILT)  # so that the compilers print short paths
    folder = Path("source", *PACKAGE.split("."))
    for outdated in folder.glob("*.p*"):  # the C files of other modules stay: a sanitizer's report names their lines
        outdated.unlink()
    shutil.copytree(SOURCES, folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    files = modules(folder)  # the files for the copy, which does not change
    # Cython writes the C file of the shared module. The longest compilation starts first.
    sources = {name: folder / f"{name}.{'c' if name == SHARED else 'py'}" for name in names}
    longest = sorted(names, key=lambda name: -sources[name].stat().st_size if name != SHARED else 0)
    extensions = cythonize(
        [Extension(f"{PACKAGE}.{name}", [str(sources[name])]) for name in longest],
        include_path=["source"],
        compiler_directives=DIRECTIVES,
        shared_utility_qualified_name=f"{PACKAGE}.{SHARED}",
        nthreads=os.cpu_count(),
        force=True,
    )
    with tempfile.TemporaryDirectory(dir=BUILT) as scratch:
        command = BuildExtensions(Distribution({"name": "kernel", "ext_modules": extensions}))
        command.build_lib, command.build_temp, command.parallel = scratch, scratch, os.cpu_count()
        command.ensure_finalized()
        command.run()
        for name in names:
            os.replace(command.get_ext_fullpath(f"{PACKAGE}.{name}"), files[name])
    Path("cython").write_text(_cython_version(), encoding="utf-8")


def main() -> int:
    """Run a command and return the exit code."""
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
