"""The public names, of formats and of tables on Kafka, in one list: `__all__`.

`from kvformat import ...` and `from codecs import ...` give the same names. The standard library's `codecs` is always
loaded first, so a start-up hook adds our names to it (`_kvformat_alias.py`). Importing this package does the same
where the hook does not run, as in a zip given to `--py-files`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

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
    from kvformat.connectors import KafkaTable, ddl_from_subject, infer_schema, inspect_topic, schema_from_subject

__all__ = [
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
    "inspect_topic",
    "latest_by_key",
    "normalize_changes",
    "observe_records",
    "recommended_settings",
    "register_format",
    "schema_from_subject",
    "split_errors",
    "write_dead_letters",
]

_kvformat_alias.install()


_LAZY: Final = {
    "KERNEL": "kvformat.codecs._kernel",
    "KafkaTable": "kvformat.connectors",
    "ddl_from_subject": "kvformat.connectors",
    "infer_schema": "kvformat.connectors",
    "inspect_topic": "kvformat.connectors",
    "schema_from_subject": "kvformat.connectors",
}
"""Where the names are that are imported when they are asked for. Only the JSON formats need the kernel, and connectors
import this package, never the reverse."""


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
