"""Helpers for authors of formats: types and schemas, caches and locks, errors of messages, limits.

The built-in formats use only these names and the names of `kvformat.registry`; a format of another package can do the
same.
"""

from __future__ import annotations

from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.cells import CELLS_PER_BYTE, MOST_CELLS, MOST_CELLS_OF_A_BATCH
from kvformat.registry.contract.changelog import UNCHANGED
from kvformat.registry.contract.common_types import holds, merge_types
from kvformat.registry.contract.error_codes import Reason, error_arrays, reason_arrays, reasons_of, split_codes
from kvformat.registry.contract.errors import did_you_mean, listed
from kvformat.registry.contract.fork_safe import Guarded, cached_property
from kvformat.registry.contract.format_hooks import HeaderNames, Part
from kvformat.registry.contract.join_batches import fail_rows, join_decoded, join_encoded
from kvformat.registry.contract.look import (
    KnownTable,
    Looked,
    Looker,
    LookRequest,
    SeenColumn,
    SeenKey,
    TableName,
    WrittenColumns,
)
from kvformat.registry.contract.options import Direction, mask_userinfo, mask_userinfo_in_text
from kvformat.registry.contract.samples import columns_text
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema, RegistrySettings, SchemaRegistry
from kvformat.registry.contract.schemas import resolve_schema, row_type
from kvformat.registry.contract.types import (
    BYTES,
    INTEGER_BITS,
    MAX_LENGTH,
    STRING,
    FlinkField,
    FlinkType,
    arrow_type,
    nullable,
    quoted,
    spark_type,
)

__all__ = [
    "BYTES",
    "CELLS_PER_BYTE",
    "INTEGER_BITS",
    "MAX_LENGTH",
    "MOST_CELLS",
    "MOST_CELLS_OF_A_BATCH",
    "STRING",
    "UNCHANGED",
    "Direction",
    "FlinkField",
    "FlinkType",
    "Guarded",
    "HeaderNames",
    "KnownTable",
    "LookRequest",
    "Looked",
    "Looker",
    "Part",
    "Reason",
    "Refused",
    "RegistrySchema",
    "RegistrySettings",
    "SchemaRegistry",
    "SeenColumn",
    "SeenKey",
    "TableName",
    "WrittenColumns",
    "arrow_type",
    "cached_by_identity",
    "cached_property",
    "columns_text",
    "did_you_mean",
    "error_arrays",
    "fail_rows",
    "holds",
    "join_decoded",
    "join_encoded",
    "listed",
    "mask_userinfo",
    "mask_userinfo_in_text",
    "merge_types",
    "nullable",
    "quoted",
    "reason_arrays",
    "reasons_of",
    "resolve_schema",
    "row_type",
    "spark_type",
    "split_codes",
]
