"""Lets Spark find the data source `kvformat` by itself, in the environment of its Python workers.

Spark imports every module whose name begins with `pyspark_`, before it uses a data source in Python for the first time,
and takes their `DefaultSource`. An exception here would end the lookup for all data sources, so there is none.
"""

from __future__ import annotations

import warnings

try:
    from kvformat.connectors.data_source.source import KvformatDataSource as DefaultSource
except Exception as cause:  # also of a library that does not fit another one
    warnings.warn(f"Spark can't use the data source 'kvformat': {cause}", ImportWarning, stacklevel=2)
else:
    __all__ = ["DefaultSource"]
