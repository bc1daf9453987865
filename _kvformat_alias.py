"""Makes ``from codecs import get_format`` work beside the standard library's ``codecs``.

``codecs`` is loaded before any other module, so a package of that name can never be found. This module gives
the standard module a ``__getattr__`` (PEP 562) that is asked only for names the module lacks, and that imports
``kvformat.codecs`` for ours. Nothing of the standard library is replaced.

It runs at the start of every Python process (``kvformat.pth``), so it imports nothing that isn't loaded by then,
not even ``__future__``.
"""

import codecs
import sys

NAMES = (
    "KERNEL",
    "ChangelogMode",
    "DecodedBatch",
    "EncodedBatch",
    "ErrorCode",
    "Format",
    "KafkaTable",
    "KeyValueFormat",
    "Option",
    "RowKind",
    "available_formats",
    "current_table",
    "ddl_from_subject",
    "explode_changes",
    "get_format",
    "infer_schema",
    "latest_by_key",
    "normalize_changes",
    "observe_records",
    "recommended_settings",
    "register_format",
    "schema_from_subject",
    "inspect_topic",
    "split_errors",
    "write_dead_letters",
)
"""The names of ``kvformat.codecs.__all__``, repeated here so that start-up needn't import it."""

_HOME = "kvformat.codecs"
_MARK = "_kvformat_alias"


def install() -> None:
    """Give the standard ``codecs`` our public names; a second call does nothing."""
    earlier = vars(codecs).get("__getattr__")
    if hasattr(earlier, _MARK):
        return

    def __getattr__(name: str) -> object:
        # Once the package is imported its own list counts: a program may have put another version on sys.path.
        if name in getattr(sys.modules.get(_HOME), "__all__", NAMES):
            # __import__ of a dotted name returns its root; sys.modules has the module itself.
            try:
                __import__(_HOME)
            except ModuleNotFoundError as cause:
                if cause.name not in ("kvformat", _HOME):
                    raise
                # The package is gone, and only what starts it is left: then codecs has no such name.
                raise AttributeError(
                    f"module 'codecs' has no attribute {name!r}: kvformat is no longer installed", name=name, obj=codecs
                ) from cause
            return getattr(sys.modules[_HOME], name)
        if earlier is not None:
            return earlier(name)
        raise AttributeError(f"module 'codecs' has no attribute {name!r}", name=name, obj=codecs)

    setattr(__getattr__, _MARK, True)
    vars(codecs)["__getattr__"] = __getattr__
