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
    "start": {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": "/tmp"},
}


def recommended_settings(use: Literal["decode", "encode", "start"] = "decode") -> dict[str, str]:
    """Return recommended settings for jobs that mostly decode or mostly encode, or for the start of a session.

    Those of "decode" and "encode" can be changed while a session runs. Those of "start" only take effect if they are
    set before: in the session's builder, in `spark-submit --conf`, or for the server of Spark Connect.

    >>> builder = SparkSession.builder
    >>> for name, value in recommended_settings("start").items():
    ...     builder = builder.config(name, value)
    >>> spark = builder.getOrCreate()
    >>> for name, value in recommended_settings().items():
    ...     spark.conf.set(name, value)

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
    - "start": Unix sockets instead of TCP between the JVM and its Python workers (Spark 4.1 and newer, not on Windows).
      The way to Python and back is 1.05 to 1.2 times as fast, decoding to a table 1.04 to 1.1 times. The sockets are
      files in `/tmp`. Spark's default is the JVM's temporary folder, but the path of a socket has at most 107 bytes.
      Folders of YARN's containers are longer, and every Python function would fail there. If `/tmp` can't be used, set
      `spark.python.unix.domain.socket.dir` to another short path that exists on every node. A killed process does not
      delete its socket files.

    The settings do not change results. Leave `spark.sql.execution.arrow.compression.codec` at `none`: it also applies
    to the transfer to Python. Measured by `benchmarks/transport.py`; figures in docs/speed.md.
    """
    if use not in _SETTINGS:
        raise ConfigurationError(f"use must be 'decode', 'encode' or 'start', not {use!r}")
    return dict(_SETTINGS[use])


def check_time(columns: Iterable[FlinkField], session: SparkSession | None = None) -> None:
    """Raise `ConfigurationError` if a column is or contains TIME and the Spark session does not allow that type.

    Without `session`, the active session is checked. If there is none, or Spark does not have the setting, nothing is
    checked.
    """
    time_column = next(((path, t) for c in columns for path, t in c.type.walk(c.name) if t.root == "TIME"), None)
    if time_column is None:
        return
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() if session is None else session
    if session is not None and not allows_time(session):
        path, t = time_column
        raise ConfigurationError(
            f"column '{path}' is {t.summary()}, but the Spark session does not allow the type TIME: "
            f"'{_TIME_TYPE}' is false. Set it to true: spark.conf.set('{_TIME_TYPE}', 'true') while the session runs, "
            f"or .config('{_TIME_TYPE}', 'true') of its builder",
            option=_TIME_TYPE,
        )


def allows_time(session: SparkSession) -> bool:
    """Whether a Spark session allows the type TIME. True if Spark does not have the setting."""
    from pyspark.errors import PySparkException

    try:
        return (session.conf.get(_TIME_TYPE) or "").lower() != "false"
    except PySparkException:
        return True
