"""The columns that decoding adds to a DataFrame, and columns by their exact name.

PySpark is imported when a function is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.types import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

ROW_KIND, ROW_INDEX, ERROR = "row_kind", "row_index", "error"
KINDS_KEY = "kvformat.kinds"
"""Key in the metadata of `row_kind`: the kinds that the DataFrame can hold, separated by commas."""


def exact_column(name: str) -> Column:
    """Return the column of exactly this name, which may contain dots."""
    from pyspark.sql import functions as F

    return F.col(quoted(name))


def with_nullable_parts(t: DataType, leaf: Callable[[DataType], DataType] = lambda t: t) -> DataType:
    """Return a type with all parts of nested values nullable, and with `leaf` applied to types that are not nested."""
    from pyspark.sql import types as T

    if isinstance(t, T.ArrayType):
        return T.ArrayType(with_nullable_parts(t.elementType, leaf))
    if isinstance(t, T.MapType):
        return T.MapType(with_nullable_parts(t.keyType, leaf), with_nullable_parts(t.valueType, leaf))
    if isinstance(t, T.StructType):
        return T.StructType([T.StructField(f.name, with_nullable_parts(f.dataType, leaf)) for f in t.fields])
    return leaf(t)


def check_errors_split(df: DataFrame) -> None:
    """Raise `ConfigurationError` if `df` still contains captured bad records, which are not rows of a table."""
    from pyspark.sql.types import StructType

    if ERROR in df.columns:
        error = df.schema[ERROR].dataType
        if isinstance(error, StructType) and "reason" in error.names:
            raise ConfigurationError(
                "the DataFrame holds bad records too, in its column 'error': good, bad = split_errors(df), go on with "
                "the good rows, and keep the bad ones elsewhere"
            )
