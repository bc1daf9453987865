"""Arrow helpers that decoding and encoding of records share."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


def struct_array(columns: Sequence[pa.Array], fields: Sequence[pa.Field], length: int) -> pa.StructArray:
    """Return the columns as one struct array of this length, which may have no fields."""
    if not columns:
        return pa.array([{}] * length, pa.struct([]))
    return pa.StructArray.from_arrays(columns, fields=list(fields))


def with_prefix(prefix: str, texts: pa.StringArray | None) -> pa.StringArray | None:
    """Return the texts with a prefix; null stays null, and None stays None."""
    return None if texts is None else pc.binary_join_element_wise(prefix, texts, "")


def any_valid(texts: pa.StringArray | None) -> bool:
    """Return whether any element is not null."""
    return texts is not None and bool(texts.null_count < len(texts))
