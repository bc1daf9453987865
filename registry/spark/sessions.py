"""Sessions of Spark: of which kind they are, and whose Python their workers run."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def active_session() -> SparkSession | None:
    """Return the active session, classic or of Spark Connect."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def is_connect(spark: object) -> bool:
    """Return whether a session or a DataFrame is one of Spark Connect, whose client may not reach the brokers."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_local(session: SparkSession) -> bool:
    """Return whether Spark has no executors but the driver, or but the server of Spark Connect."""
    return (session.conf.get("spark.master", "") or "").startswith("local")


def has_drivers_python(session: SparkSession) -> bool:
    """Return whether the workers run this Python, in this environment."""
    return not is_connect(session) and is_local(session) and _is_this(session.sparkContext.pythonExec)


def python_missing_here(session: SparkSession) -> str | None:
    """Return the workers' Python if this machine does not have it; None if it does, and with Spark Connect.

    Spark's driver starts it too, to plan what a data source in Python reads.
    """
    if is_connect(session):
        return None
    python: str = session.sparkContext.pythonExec
    return python if shutil.which(python) is None else None


def _is_this(python: str) -> bool:
    executable = shutil.which(python)
    if executable is None:
        return False
    same_folder = os.path.dirname(os.path.abspath(executable)) == os.path.dirname(os.path.abspath(sys.executable))
    return same_folder and os.path.realpath(executable) == os.path.realpath(sys.executable)


def workers_of(session: SparkSession) -> tuple[str, str]:
    """Return what tells sessions with other workers apart; the clone for a micro-batch has those of its session."""
    if is_connect(session):
        return (str(session.session_id), "")  # type: ignore[attr-defined]
    return (str(session.sparkContext.applicationId), session.sparkContext.pythonExec)


def in_pipeline() -> bool:
    """Return whether a declarative pipeline is being defined, whose functions may not run jobs."""
    registry = sys.modules.get("pyspark.pipelines.graph_element_registry")
    if registry is None:
        return False
    from pyspark.errors import PySparkException

    try:
        registry.get_active_graph_element_registry()
    except PySparkException:
        return False
    return True
