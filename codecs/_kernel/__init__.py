"""The kernel that decodes messages: Python source that Cython can compile.

`kernel_build.py` compiles each `X.py` with an `X.pxd` beside it when a wheel is built. An import loads:

    a wheel with extension modules       the compiled modules
    a zip with extension modules         the compiled modules, from files in a private folder (`zipped.py`)
    a wheel or a zip without them        the source
    an editable install                  modules compiled from the current source. The import compiles them first if
                                         needed, and falls back to the source if it can't

The environment variable `KVFORMAT_KERNEL=python` forces the source. `KVFORMAT_KERNEL=compiled` makes a kernel that is
not compiled an ImportError.
"""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import sys
import warnings
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from types import ModuleType
from typing import Any, Final, Literal

from kvformat.codecs._kernel.zipped import unpack
from kvformat.registry.contract.errors import UncompiledKernelWarning

__all__ = ["ADVICE", "COMPILED", "KERNEL", "WHY", "count_messages"]

_FOLDER = os.path.dirname(os.path.realpath(__file__))
_WARN_AFTER = 5_000
"""The process warns after it has read this many messages uncompiled. Interactive work stays below it."""
_NAME = "the kernel"


class _Finder:
    """Import finder for submodules in files outside the package's folder, or with other names."""

    def __init__(self, files: dict[str, str]) -> None:
        self._files = {f"{__name__}.{name}": file for name, file in files.items()}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = self._files.get(fullname)
        return None if file is None else importlib.util.spec_from_file_location(fullname, file)


def _choose(kernel: str) -> tuple[bool, str]:
    """Make imports find the requested kernel. Return whether it is compiled, and the reason if it is not."""
    if kernel not in ("", "python", "compiled"):
        raise ImportError(f"the environment variable KVFORMAT_KERNEL is {kernel!r}; allowed: python, compiled")
    try:
        names = os.listdir(_FOLDER)
    except OSError:  # a zip
        if kernel == "python":
            return False, ""
        files, why = unpack(_read_in_zip)
        sys.meta_path.insert(0, _Finder(files))
        return bool(files), why
    # Wheels contain no .pxd files, so this is a checkout.
    if any(name.endswith(".pxd") for name in names):
        if kernel == "python":
            return False, ""
        files, why = _built()
        sys.meta_path.insert(0, _Finder(files))
        return bool(files), why
    # A wheel has all extension modules or none.
    beside = [name.partition(".")[0] for name in names if name[name.find(".") :] in EXTENSION_SUFFIXES]
    if kernel == "python":
        sys.meta_path.insert(0, _Finder({name: os.path.join(_FOLDER, f"{name}.py") for name in beside}))
    return bool(beside) and kernel != "python", "kvformat was installed without a C compiler"


def _read_in_zip(name: str) -> bytes:
    return pkgutil.get_data(__name__, name) or b""


def _built() -> tuple[dict[str, str], str]:
    """Compile the checkout's outdated modules. Return the files by module, or an empty dict and the reason."""
    file = os.path.join(_FOLDER, "..", "..", "kernel_build.py")
    spec = importlib.util.spec_from_file_location("kvformat_kernel_build", file)
    assert spec is not None
    assert spec.loader is not None
    builder: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    try:
        return {name: str(built) for name, built in builder.build(retry=False).items()}, ""
    except (builder.CompilerMissingError, OSError) as error:  # OSError: no write permission
        return {}, str(error)
    except builder.BuildError as error:
        why = f"compiling it failed: {error}"
        warnings.warn(
            f"{_NAME} runs uncompiled, {why}. `python {os.path.realpath(file)}` shows the full output",
            RuntimeWarning,
            stacklevel=2,
        )
        return {}, why


_ASKED = os.environ.get("KVFORMAT_KERNEL", "")
_compiled, WHY = _choose(_ASKED)
COMPILED: Final = _compiled
"""Whether this package's modules are compiled."""
KERNEL: Final[Literal["compiled", "python"]] = "compiled" if COMPILED else "python"
"""The kernel that runs; public as `kvformat.codecs.KERNEL`."""
# WHY is the reason why the kernel is not compiled, "" if the user asked for the source. ADVICE is the next step.
ADVICE: Final = (
    "Install a wheel for this platform, or gcc and python3-dev and then kvformat again (docs/install.md). "
    "Set KVFORMAT_KERNEL=python to accept the uncompiled kernel"
)
if _ASKED == "compiled" and not COMPILED:
    raise ImportError(f"KVFORMAT_KERNEL=compiled, but {_NAME} is not compiled: {WHY}. {ADVICE}")

_read = 0


def count_messages(messages: int) -> None:
    """Count messages that were read. Warn once if the kernel runs uncompiled and the count is high."""
    global _read
    if COMPILED or _ASKED or _read > _WARN_AFTER:
        return
    _read += messages
    if _read > _WARN_AFTER:
        warnings.warn(
            f"{_NAME} runs uncompiled, many times slower: {WHY}. {ADVICE}", UncompiledKernelWarning, stacklevel=2
        )
