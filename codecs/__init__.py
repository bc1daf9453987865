"""The public door: `from codecs import get_format` in any process where the distribution is installed.

The stdlib's `codecs` is always loaded first, so a small start-up hook lends it our public names; importing
this package does the same where the hook does not run (a zip given to `--py-files`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import _kvformat_alias
from kvformat.registry import (
    ChangelogMode,
    DecodedBatch,
    EncodedBatch,
    ErrorCode,
    Format,
    KeyValueFormat,
    Option,
    RowKind,
    available_formats,
    current_table,
    explode_changes,
    get_format,
    latest_by_key,
    normalize_changes,
    observe_records,
    recommended_settings,
    register_format,
    split_errors,
    write_dead_letters,
)

if TYPE_CHECKING:
    from kvformat.codecs._kernel import KERNEL

__all__ = [
    "KERNEL",
    "ChangelogMode",
    "DecodedBatch",
    "EncodedBatch",
    "ErrorCode",
    "Format",
    "KeyValueFormat",
    "Option",
    "RowKind",
    "available_formats",
    "current_table",
    "explode_changes",
    "get_format",
    "latest_by_key",
    "normalize_changes",
    "observe_records",
    "recommended_settings",
    "register_format",
    "split_errors",
    "write_dead_letters",
]

_kvformat_alias.install()


def __getattr__(name: str) -> object:
    # Only the JSON formats load the kernel, and whoever asks which one it is.
    if name == "KERNEL":
        from kvformat.codecs._kernel import KERNEL

        return KERNEL
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
