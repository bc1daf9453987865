"""Spark's Python workers: whether they can import the library, and what their garbage collection costs.

Local workers may run a different Python than the driver. Clusters and Spark Connect are not checked: only a job on the
cluster could tell, and with Spark Connect the driver runs elsewhere.
"""

from __future__ import annotations

import gc
import itertools
import os
import re
import shutil
import sys
import weakref
from typing import TYPE_CHECKING, Final

from kvformat.registry.contract.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_IMPORT_ERROR = re.compile(r"^(?:ModuleNotFound|Import)Error: (.+)", re.MULTILINE)
_OLDEST: Final = 2
"""The generation of a full collection."""
_FREEZES: Final = (1, 8, 64)
"""The numbers of the full collections after which all objects that are left are exempt from the next ones."""
_missing: dict[str, str] = {}
"""Import errors of workers by the path of their Python; "" if the import succeeded."""
_modules: weakref.WeakKeyDictionary[SparkSession, dict[str, str]] = weakref.WeakKeyDictionary()
"""Import errors of other modules by session."""


def check_workers() -> None:
    """Raise `ConfigurationError` if Spark's local workers can't import the library.

    Workers that run a different Python than the driver are tested once, with a job of one row, so `--py-files` and
    similar options are respected.
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
        _missing[python] = _import_error(session, "kvformat.registry")
    if _missing[python]:
        raise ConfigurationError(
            f"Spark's workers run the Python {python!r}, which can't import kvformat: {_missing[python]}. The driver "
            f"runs {sys.executable!r}: set PYSPARK_PYTHON to it in the environment before the session is created, or "
            "install kvformat for the workers"
        )


def missing_module(session: SparkSession, name: str) -> str | None:
    """Return why a module can't be imported by Spark's Python workers; None if it can.

    Workers with the driver's own Python have what it has. Others are asked once for a session, by a job of one row.
    """
    if _has_drivers_python(session):
        return None
    known = _modules.setdefault(session, {})
    if name not in known:
        known[name] = _import_error(session, name)
    return known[name] or None


def spark_version(session: SparkSession | None) -> str:
    """Return the version of a session's Spark.

    Without a session, and in a function of a declarative pipeline, where a server refuses to tell it, it is PySpark's.
    """
    import pyspark
    from pyspark.errors import PySparkException

    try:
        return str(pyspark.__version__ if session is None else session.version)
    except PySparkException:
        return str(pyspark.__version__)


def _has_drivers_python(session: SparkSession) -> bool:
    from pyspark.sql.utils import is_remote

    if is_remote() or not (session.conf.get("spark.master", "") or "").startswith("local"):
        return False
    return _is_ours(session.sparkContext.pythonExec)


def freeze_modules() -> None:
    """Let a worker exempt from garbage collection what its first tasks load; elsewhere, do nothing.

    A worker collects all garbage after each task. It looks at the 80,000 objects of PySpark's, PyArrow's and our
    modules each time, and a small task needs less time than that.
    """
    if "pyspark.worker" not in sys.modules:
        return
    number = itertools.count(1)

    def after_collection(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == _OLDEST and next(number) in _FREEZES:
            gc.freeze()

    gc.callbacks.append(after_collection)


def _is_ours(python: str) -> bool:
    """Return whether a Python is the driver's Python, in the driver's environment."""
    executable = shutil.which(python)
    if executable is None:
        return False
    same_folder = os.path.dirname(os.path.abspath(executable)) == os.path.dirname(os.path.abspath(sys.executable))
    return same_folder and os.path.realpath(executable) == os.path.realpath(sys.executable)


def _import_error(session: SparkSession, module: str) -> str:
    """Return a worker's error when it imports a module; "" if the import succeeds."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType

    try:
        # a lambda is pickled by value, so it does not need the library
        probe = F.udf(lambda _: __import__(module).__name__, StringType())
        session.range(1).select(probe("id")).collect()
    except PySparkException as error:
        match = _IMPORT_ERROR.search(str(error))
        return match[1] if match else ""  # the job reports other errors
    return ""
