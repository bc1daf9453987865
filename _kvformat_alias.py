"""Makes `from codecs import get_format` work beside the standard library's `codecs`.

Python loads the standard `codecs` before any other module, so it never finds another package of that name. This module
gives the standard module a `__getattr__` (PEP 562). Python calls it only for names that the module does not have. It
imports `kvformat.codecs` and returns our names. It does not replace anything in the standard library.

`kvformat.pth` runs this module at the start of every Python process. So it imports only modules that are already
loaded, and not even `__future__`.
"""

import codecs
import sys

_HOME = "kvformat.codecs"


def install() -> None:
    """Add our public names to the standard `codecs`. A second call does nothing."""
    earlier = vars(codecs).get("__getattr__")
    if getattr(earlier, "__module__", None) == __name__:
        return

    def __getattr__(name: str) -> object:
        if not name.startswith("_"):  # tools look up names such as __wrapped__
            try:
                __import__(_HOME)
            except ModuleNotFoundError as cause:
                if cause.name not in ("kvformat", _HOME):
                    raise
                # kvformat was uninstalled while this process runs.
            else:
                # __import__ of a dotted name returns its root package. sys.modules has the module itself. While it is
                # being imported, it has no __all__ yet.
                home = sys.modules[_HOME]
                if name in getattr(home, "__all__", ()):
                    return getattr(home, name)
        if earlier is not None:
            return earlier(name)
        raise AttributeError(f"module 'codecs' has no attribute {name!r}", name=name, obj=codecs)

    vars(codecs)["__getattr__"] = __getattr__
