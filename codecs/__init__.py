"""The public door: `from codecs import get_format` in any process where the distribution is installed.

The stdlib's `codecs` is always loaded first, so a small start-up hook lends it our public names; importing
this package does the same where the hook does not run (a zip given to `--py-files`).
"""

from __future__ import annotations

import _kvformat_alias
from kvformat.registry import (
    ChangelogMode,
    DecodedBatch,
    EncodedBatch,
    Format,
    Option,
    RowKind,
    available_formats,
    get_format,
    register_format,
)

__all__ = [
    "ChangelogMode",
    "DecodedBatch",
    "EncodedBatch",
    "Format",
    "Option",
    "RowKind",
    "available_formats",
    "get_format",
    "register_format",
]

_kvformat_alias.install()
