"""Spark settings that make the transfer to Python and back cheaper, and the setting that TIME needs.

The library reads settings but does not set them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from kvformat.registry.contract.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kvformat.registry.contract.types import FlinkField

_MAX_BYTES_PER_BATCH = "spark.sql.execution.arrow.maxBytesPerBatch"
_TIME_TYPE = "spark.sql.timeType.enabled"
_SETTINGS = {
    "decode": {_MAX_BYTES_PER_BATCH: str(2**21)},
    "encode": {_MAX_BYTES_PER_BATCH: str(2**31 - 1)},
}


def recommended_settings(direction: Literal["decode", "encode"] = "decode") -> dict[str, str]:
    """Return recommended settings for jobs that mostly decode or mostly encode.

    All of them can be changed while a session runs.

    >>> for name, value in recommended_settings().items():
    ...     spark.conf.set(name, value)  # or builder.config(name, value)

    `spark.sql.execution.arrow.maxBytesPerBatch` (Spark 4.0 and newer, not in Spark's list of settings) limits the bytes
    of rows in an Arrow batch for Python. Arrow UDFs and `mapInArrow` use it, and so does every Column and every
    `KeyValueFormat` that runs in Python. The default in Spark 4.1.1 and 4.3.0 is 64 MB, and the limit of 10,000 records
    usually applies first.

    - "decode": 2 MB (2097152). Batches of messages of some KB then fit the processor's caches. Decoding is 1.1 to 1.5
      times as fast and needs less memory. Messages of 200 bytes gain almost nothing. In smaller batches, such as 250
      messages of 4 KB, the cost of each batch (about 0.2 ms in Python) becomes noticeable.
    - "encode": no limit (2147483647). With a limit, Spark adds up the bytes of all columns after each row
      (`BatchedPythonArrowInput.writeSizedBatch`, `ArrowWriter.sizeInBytes`). For a row of nine columns this takes 20 to
      40 percent of the time of its transfer to Python. Without it, only the limit of 10,000 records remains
      (`spark.sql.execution.arrow.maxRecordsPerBatch`). Keep Spark's default for rows of 100 KB and more.

    The settings do not change results. Leave `spark.sql.execution.arrow.compression.codec` at `none`: it also applies
    to the transfer to Python. Measured by `benchmarks/transport.py`; figures in docs/speed.md.
    """
    if direction not in _SETTINGS:
        raise ConfigurationError(f"direction must be 'decode' or 'encode', not {direction!r}")
    return dict(_SETTINGS[direction])


def check_time(columns: Iterable[FlinkField], session: SparkSession | None = None) -> None:
    """Raise `ConfigurationError` if a column is or contains TIME and the Spark session does not allow that type.

    Without `session`, the active session is checked. If there is none, or Spark does not have the setting, nothing is
    checked.
    """
    found = next(((path, t) for c in columns for path, t in c.type.walk(c.name) if t.root == "TIME"), None)
    if found is None:
        return
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() if session is None else session
    try:
        allowed = session is None or (session.conf.get(_TIME_TYPE) or "").lower() != "false"
    except PySparkException:
        return
    if not allowed:
        path, t = found
        raise ConfigurationError(
            f"column '{path}' is {t.summary()}, but the Spark session does not allow the type TIME: "
            f"'{_TIME_TYPE}' is false. Set it to true: spark.conf.set('{_TIME_TYPE}', 'true') while the session runs, "
            f"or .config('{_TIME_TYPE}', 'true') of its builder",
            option=_TIME_TYPE,
        )
