"""Streams with a function for each micro-batch: what is checked before, and errors that begin with their cause.

Spark puts the error of such a function after its own text and a traceback: 125 lines, if the error has causes.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvformat.registry.contract.errors import KvFormatError
from kvformat.registry.spark.workers import check_batch_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_LOG = logging.getLogger("kvformat.batches")
_OWN_ERROR = re.compile(r"^(?:[\w.]+: )*kvformat\.[\w.]+: (.+)", re.MULTILINE)
_MOST = 500  # characters of an error that is not ours


def foreach_batch(stream: DataFrame, batch: Callable[[DataFrame, int], object]) -> DataStreamWriter:
    """Return the writer of a stream that calls `batch` with each micro-batch; raises as `check_batch_python` does."""
    check_batch_python(stream.sparkSession)
    return stream.writeStream.foreachBatch(CauseFirst(batch))


@dataclass(frozen=True)
class CauseFirst:
    """A function for `foreachBatch`. A batch that fails logs one line with the reason, at the level ERROR.

    An error of the library keeps its type and text, and loses its traceback and its causes, which are logged at the
    level DEBUG. Other errors pass. Spark Connect pickles the object to its server.
    """

    batch: Callable[[DataFrame, int], object]

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Call the function with a micro-batch."""
        try:
            self.batch(rows, batch_id)
        except Exception as error:
            _LOG.error("batch %d failed: %s", batch_id, reason_of(error))
            _LOG.debug("batch %d failed", batch_id, exc_info=True)
            if isinstance(error, KvFormatError):
                raise error.with_traceback(None) from None
            raise


def own_reason(error: BaseException) -> str | None:
    """Return the text of the library's own error, also of one of a worker, or of a batch, in Spark's text."""
    if isinstance(error, KvFormatError):
        return str(error)
    reasons = _OWN_ERROR.findall(str(error))
    return str(reasons[-1]) if reasons else None


def reason_of(error: BaseException) -> str:
    """Return why a query failed in a line: the library's own error, or the kind and the first line of another one."""
    first = str(error).strip().partition("\n")[0]
    return own_reason(error) or f"{type(error).__name__}: {first[:_MOST]}"
