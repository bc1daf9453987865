"""The kernel of the JSON reader: plain Python that Cython compiles, or that runs as it stands.

Every `X.py` here with an `X.pxd` beside it is compiled by `kernel_build.py` where the wheel is made. Who imports such a
module gets what is there:

    a wheel with extension modules       the compiled modules
    a wheel without them, a zip          the source
    an editable install                  compiled modules of the source as it is now, built by the import when they are
                                         not there; the source where that is not possible

`KVFORMAT_KERNEL=python` in the environment takes the source in any case, `KVFORMAT_KERNEL=compiled` refuses it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from types import ModuleType
from typing import Any, Final, Literal

from kvformat.registry.contract.errors import UncompiledKernelWarning

__all__ = ["ADVICE", "COMPILED", "KERNEL", "WHY", "note"]

_FOLDER = os.path.dirname(os.path.realpath(__file__))
_PATIENCE = 5_000
"""Messages that a process reads with the source before it is told: someone who tries things out stays below."""


class _Finder:
    """Finds submodules in files that do not stand in the package's folder under their names."""

    def __init__(self, files: dict[str, str]) -> None:
        self._files = {f"{__name__}.{name}": file for name, file in files.items()}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = self._files.get(fullname)
        return None if file is None else importlib.util.spec_from_file_location(fullname, file)


def _choose(asked: str) -> tuple[bool, str]:
    """Make imports find the kernel that is asked for; returns whether it is compiled, and if not, why."""
    if asked not in ("", "python", "compiled"):
        raise ImportError(f"the environment variable KVFORMAT_KERNEL is {asked!r}; allowed: python, compiled")
    try:
        names = os.listdir(_FOLDER)
    except OSError:
        return False, "it can't be loaded from a zip; install a wheel"
    # Wheels are made without declarations, so this is a checkout.
    if any(name.endswith(".pxd") for name in names):
        if asked == "python":
            return False, ""
        files, why = _built()
        sys.meta_path.insert(0, _Finder(files))
        return bool(files), why
    # A wheel has all of the extension modules or none.
    beside = [name.partition(".")[0] for name in names if name[name.find(".") :] in EXTENSION_SUFFIXES]
    if asked == "python":
        sys.meta_path.insert(0, _Finder({name: os.path.join(_FOLDER, f"{name}.py") for name in beside}))
    return bool(beside) and asked != "python", "kvformat was installed without a C compiler"


def _built() -> tuple[dict[str, str], str]:
    """The checkout's compiled modules, brought up to date; none, and why, where that is not possible."""
    file = os.path.join(_FOLDER, "..", "..", "kernel_build.py")
    spec = importlib.util.spec_from_file_location("kvformat_kernel_build", file)
    assert spec is not None
    assert spec.loader is not None
    builder: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    try:
        return {name: str(built) for name, built in builder.build(again=False).items()}, ""
    except (builder.CompilerMissingError, OSError) as error:  # OSError: the checkout is somebody else's
        return {}, str(error)
    except builder.BuildError as error:
        why = f"compiling it failed: {error}"
        warnings.warn(
            f"the JSON kernel runs uncompiled, {why}. `python {os.path.realpath(file)}` shows everything",
            RuntimeWarning,
            stacklevel=2,
        )
        return {}, why


_ASKED = os.environ.get("KVFORMAT_KERNEL", "")
_compiled, WHY = _choose(_ASKED)
COMPILED: Final = _compiled
"""Whether the modules of this package are the compiled ones."""
KERNEL: Final[Literal["compiled", "python"]] = "compiled" if COMPILED else "python"
"""The same as a word, for users: `kvformat.codecs.KERNEL`."""
# WHY says why not, and is empty where that is meant so; ADVICE is what to do.
ADVICE: Final = (
    "Install a wheel for this platform, or gcc and python3-dev and then kvformat again (docs/install.md). "
    "KVFORMAT_KERNEL=python in the environment says that it is meant so"
)
if _ASKED == "compiled" and not COMPILED:
    raise ImportError(f"KVFORMAT_KERNEL=compiled, but the JSON kernel is not compiled: {WHY}. {ADVICE}")

_read = 0


def note(messages: int) -> None:
    """Count messages that a reader read; warns once where that many should not be read by the source."""
    global _read
    if COMPILED or _ASKED or _read > _PATIENCE:
        return
    _read += messages
    if _read > _PATIENCE:
        warnings.warn(
            f"the JSON kernel runs uncompiled, many times slower: {WHY}. {ADVICE}",
            UncompiledKernelWarning,
            stacklevel=2,
        )
