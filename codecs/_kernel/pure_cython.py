"""The parts of the module `cython` that a kernel module needs when it runs as plain Python.

A kernel module starts with

    from typing import TYPE_CHECKING

    if TYPE_CHECKING:
        import cython
    else:
        from kvformat.codecs._kernel import pure_cython as cython

Cython recognizes the name `cython` by the import that never runs, and drops `if not cython.compiled:` blocks. Plain
Python imports this module even if Cython is installed, because importing Cython takes longer than the whole kernel.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

compiled = False
gil = nogil = nullcontext()


def cast(kind: Any, value: Any) -> Any:
    """Return the value. Compiled, Cython treats it as an object of type `kind` without a check."""
    return value
