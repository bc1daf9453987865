"""Makes ``from codecs import get_format`` work beside the standard library's ``codecs``.

``codecs`` is loaded before any other module, so a package of that name can never be found. This module gives
the standard module a ``__getattr__`` (PEP 562) that is asked only for names the module lacks, and that imports
``kvformat.codecs`` for ours. Nothing of the standard library is replaced.

It runs at the start of every Python process (``kvformat.pth``), so it imports nothing that isn't loaded by then,
not even ``__future__``.
"""

import codecs
import sys

_HOME = "kvformat.codecs"
_MARK = "_kvformat_alias"


def install() -> None:
    """Give the standard ``codecs`` our public names; a second call does nothing."""
    earlier = vars(codecs).get("__getattr__")
    if hasattr(earlier, _MARK):
        return

    def __getattr__(name: str) -> object:
        if not name.startswith("_"):  # such as __wrapped__, which tools look up
            try:
                __import__(_HOME)
            except ModuleNotFoundError as cause:
                if cause.name not in ("kvformat", _HOME):
                    raise
                # kvformat was uninstalled while this process runs.
            else:
                # __import__ of a dotted name returns its root; sys.modules has the module itself. While the module is
                # being imported it has no list yet.
                home = sys.modules[_HOME]
                if name in getattr(home, "__all__", ()):
                    return getattr(home, name)
        if earlier is not None:
            return earlier(name)
        raise AttributeError(f"module 'codecs' has no attribute {name!r}", name=name, obj=codecs)

    setattr(__getattr__, _MARK, True)
    vars(codecs)["__getattr__"] = __getattr__
