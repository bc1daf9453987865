"""The public names, for programs that read and write data. Authors of formats import from `kvformat.registry`.

`from kvformat import ...`, `from kvformat.codecs import ...` and `from codecs import ...` give the same objects. Python
loads the standard library's `codecs` before any other module, so `_kvformat_alias.py` adds our names to it at start-up.
Importing this package does the same where that file does not run, as in a zip given to `--py-files`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

import _kvformat_alias

if TYPE_CHECKING:  # the names of _MODULES, for editors and type checkers
    from kvformat.codecs._kernel import KERNEL as KERNEL
    from kvformat.connectors import KafkaTable as KafkaTable
    from kvformat.connectors import infer_schema as infer_schema
    from kvformat.connectors import inspect_topic as inspect_topic
    from kvformat.connectors import register_tables as register_tables
    from kvformat.registry import KeyValueFormat as KeyValueFormat
    from kvformat.registry import available_formats as available_formats
    from kvformat.registry import build_identity as build_identity
    from kvformat.registry import current_table as current_table
    from kvformat.registry import explode_changes as explode_changes
    from kvformat.registry import get_format as get_format
    from kvformat.registry import latest_by_key as latest_by_key
    from kvformat.registry import normalize_changes as normalize_changes
    from kvformat.registry import observe_records as observe_records
    from kvformat.registry import recommended_settings as recommended_settings
    from kvformat.registry import split_errors as split_errors
    from kvformat.registry import write_dead_letters as write_dead_letters

_MODULES: Final = {
    "KERNEL": "kvformat.codecs._kernel",
    "KafkaTable": "kvformat.connectors",
    "KeyValueFormat": "kvformat.registry",
    "available_formats": "kvformat.registry",
    "build_identity": "kvformat.registry",
    "current_table": "kvformat.registry",
    "explode_changes": "kvformat.registry",
    "get_format": "kvformat.registry",
    "infer_schema": "kvformat.connectors",
    "inspect_topic": "kvformat.connectors",
    "latest_by_key": "kvformat.registry",
    "normalize_changes": "kvformat.registry",
    "observe_records": "kvformat.registry",
    "recommended_settings": "kvformat.registry",
    "register_tables": "kvformat.connectors",
    "split_errors": "kvformat.registry",
    "write_dead_letters": "kvformat.registry",
}
"""The module of each public name. It is imported when the name is first used."""

__all__ = list(_MODULES)  # one list; the imports above are for type checkers

_kvformat_alias.install()


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
