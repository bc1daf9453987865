"""What a kernel module needs of `cython` while it runs as plain Python.

A kernel module starts with

    from typing import TYPE_CHECKING

    if TYPE_CHECKING:
        import cython
    else:
        from kvformat.codecs._kernel import pure_cython as cython

Cython takes the name for its own, by the import that never runs, and leaves `if not cython.compiled:` out. Plain Python
gets this module, also where Cython is installed: importing that takes longer than importing the kernel.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

compiled = False
gil = nogil = nullcontext()


def cast(kind: Any, value: Any) -> Any:
    """The value: Cython takes it for one of that kind, without looking."""
    return value
