"""Settings of Spark: those that make its way to Python and back cheaper, and the one that TIME needs.

They are looked at, never set: that is the user's to do.
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
    """Settings worth having for jobs that mostly decode, or mostly encode; all can be changed while a session runs.

    >>> for name, value in recommended_settings().items():
    ...     spark.conf.set(name, value)  # or builder.config(name, value)

    `spark.sql.execution.arrow.maxBytesPerBatch` (Spark 4.0 and newer, not in Spark's list of settings) says how many
    bytes of rows Spark puts into an Arrow batch for Python. Arrow UDFs and `mapInArrow` heed it, so every Column and
    every `KeyValueFormat` that runs in Python does; of Spark 4.1.1 and 4.3.0 the default is 64 MB, where the limit of
    10,000 records comes first.

    - "decode": 2 MB (2097152). Messages of some KB then travel in batches that fit the processor's caches, at 1.1 to
      1.5 times the speed, and need less memory; those of 200 bytes gain next to nothing. In smaller batches, such as
      250 messages of 4 KB, what each batch costs (about 0.2 ms in Python) begins to show.
    - "encode": no limit (2147483647). Spark otherwise adds up the bytes of all columns after each row
      (`BatchedPythonArrowInput.writeSizedBatch`, `ArrowWriter.sizeInBytes`), a fifth to two fifths of what a row of
      nine columns costs on its way to Python. The limit of 10,000 records (`spark.sql.execution.arrow.
      maxRecordsPerBatch`) is then the only one: for rows of 100 KB and more keep Spark's default.

    No result depends on these. Leave `spark.sql.execution.arrow.compression.codec` at `none`: it also holds for the
    way to Python. Measured by `benchmarks/transport.py`; figures in docs/speed.md.
    """
    if direction not in _SETTINGS:
        raise ConfigurationError(f"direction is 'decode' or 'encode', not {direction!r}")
    return dict(_SETTINGS[direction])


def check_time(columns: Iterable[FlinkField], session: SparkSession | None = None) -> None:
    """Raise `ConfigurationError` where a column is TIME, or has it inside, and the session does not allow that type.

    Without a session it is the active one; without any, and where Spark has no such setting, Spark itself decides.
    """
    found = next((one for c in columns for one in c.type.walk(c.name) if one[1].root == "TIME"), None)
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
