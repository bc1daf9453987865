"""Whether Spark's local workers have the library: their Python may be another one than the driver's.

On a cluster only a job can tell, and the classic driver is not here with Spark Connect: neither is looked at.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import TYPE_CHECKING

from kvformat.registry.contract.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_IMPORT_ERROR = re.compile(r"^(?:ModuleNotFound|Import)Error: (.+)", re.MULTILINE)
_missing: dict[str, str] = {}
"""What workers by some Python could not import; an empty text if they could."""


def check_workers() -> None:
    """Raise `ConfigurationError` before a job whose local workers can't import the library.

    Workers by another Python than the driver's are asked once, by a job of one row; `--py-files` and the like count.
    """
    from pyspark.sql import SparkSession
    from pyspark.sql.utils import is_remote

    session = None if is_remote() else SparkSession.getActiveSession()
    if session is None or not (session.conf.get("spark.master", "") or "").startswith("local"):
        return
    python = session.sparkContext.pythonExec
    if _is_ours(python):
        return
    if python not in _missing:
        _missing[python] = _missing_in(session)
    if _missing[python]:
        raise ConfigurationError(
            f"Spark's workers run the Python {python!r}, which can't import kvformat: {_missing[python]}. The driver's "
            f"is {sys.executable!r}: set PYSPARK_PYTHON to it in the environment before the session is made, or "
            "install kvformat in the other one"
        )


def _is_ours(python: str) -> bool:
    """Whether it is the driver's Python, in the driver's environment."""
    found = shutil.which(python)
    if found is None:
        return False
    same_folder = os.path.dirname(os.path.abspath(found)) == os.path.dirname(os.path.abspath(sys.executable))
    return same_folder and os.path.realpath(found) == os.path.realpath(sys.executable)


def _missing_in(session: SparkSession) -> str:
    """What a worker says when it can't import the library; an empty text if it can."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    # a lambda is pickled by value, and needs nothing of ours
    probe = F.udf(lambda _: __import__("kvformat.registry").__name__, "string")
    try:
        session.range(1).select(probe("id")).collect()
    except PySparkException as error:
        found = _IMPORT_ERROR.search(str(error))
        return found[1] if found else ""  # what else is wrong the job itself will say
    return ""
