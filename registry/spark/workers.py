"""Spark's Python workers: whether they have the driver's build of the library, and what their garbage collection costs.

    check_workers        once a session, before its first job: the executors have this build
    check_batch_python   before a query with `foreachBatch`: the same, and with Spark Connect the server's own Python
    for_workers          a function that says in a worker why it can't run there: executors may come later

Nothing is asked if the workers are local and run the driver's own Python, nor in a function of a declarative pipeline,
where Spark allows no jobs. A session that was refused is asked again by the next call: an artifact may have come.
"""

from __future__ import annotations

import gc
import itertools
import pickle
import re
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kvformat.registry.build import build_identity, sources_digest
from kvformat.registry.contract.errors import ConfigurationError, UncompiledKernelWarning
from kvformat.registry.spark.sessions import (
    active_session,
    has_drivers_python,
    in_pipeline,
    is_connect,
    is_local,
    workers_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kvformat.registry.spark.probe import PythonReport

_Function = TypeVar("_Function", bound=Callable[..., Any])
_OLDEST: Final = 2
"""The generation of a full collection."""
_FREEZES: Final = (1, 8, 64)
"""The numbers of the full collections after which all objects that are left are exempt from the next ones."""
SHIP: Final = (
    "install the driver's wheel for the executors, or ship the driver's kvformat.zip (scripts/zip): spark-submit "
    "--py-files kvformat.zip; in a running session spark.sparkContext.addPyFile('kvformat.zip'), or with Spark "
    "Connect spark.addArtifacts('kvformat.zip', pyfile=True)"
)
"""What to do about executors without the driver's build."""
_ARTIFACT: Final = re.compile(r"userFiles-[^/]+/[0-9a-f]{8}-[0-9a-f-]{27}/")
"""In the path of a file that is an artifact of a session, on the server."""
_checked: set[tuple[str, str]] = set()
"""The sessions whose workers fit: a classic one by its application and Python, one of Spark Connect by its id."""
_have: set[tuple[str, str, str]] = set()
"""The sessions whose workers can import a module, and the module."""


def check_workers(session: SparkSession | None = None) -> None:
    """Raise `ConfigurationError` if Spark's executors lack the library, or have another build of it.

    Without `session`, the active session is checked. A job asks all executors, once. A kernel that is not compiled
    there gives an `UncompiledKernelWarning`.
    """
    if "pyspark.worker" in sys.modules:  # a foreachBatch on a server: its client has compared all three
        return
    session = session or active_session()
    if session is None or in_pipeline() or has_drivers_python(session):
        return
    key = workers_of(session)
    if key in _checked:
        return
    reports = _reports(session)
    for report in reports:
        _check(report, session)
    if reports:
        _checked.add(key)
    slow = next((report for report in reports if report.why_uncompiled), None)
    if slow is not None:
        warnings.warn(
            f"the kernel of Spark's executors ({slow.place}) is not compiled, and reads many times slower: "
            f"{slow.why_uncompiled}. Build the wheel or the zip for their platform and their minor version of Python "
            "(docs/clusters.md)",
            UncompiledKernelWarning,
            stacklevel=3,
        )


def _check(report: PythonReport, session: SparkSession) -> None:
    if report.problem and not is_connect(session) and is_local(session):
        raise ConfigurationError(
            f"Spark's workers run the Python {report.executable!r}, which can't import kvformat: {report.problem}. The "
            f"driver runs {sys.executable!r}: set PYSPARK_PYTHON to it in the environment before the session is "
            "created, or install kvformat for the workers"
        )
    if report.problem:
        raise ConfigurationError(
            f"Spark's executors can't import kvformat: {report.problem} ({report.place}). To use it there, {SHIP}"
        )
    if report.build:
        raise ConfigurationError(
            f"Spark's executors have another kvformat than the driver: {report.build} ({report.place}), and the driver "
            f"{build_identity()}. To have the same, {SHIP}"
        )


def check_batch_python(session: SparkSession) -> None:
    """Check the executors, and raise `ConfigurationError` if Spark Connect can't run the library's `foreachBatch`.

    The server's own Python runs it. It is a client of the server, and needs what each client needs. In a classic
    session the driver runs it.
    """
    check_workers(session)
    if not is_connect(session) or in_pipeline():
        return
    from pyspark.errors import PySparkException

    from kvformat.registry.spark.probe import ask_server

    try:
        report = ask_server(session)
    except PySparkException:
        return  # Spark says itself what is wrong
    refused = batch_python_refused(report)
    if refused is not None:
        raise ConfigurationError(
            f"a stream with foreachBatch can't run: {refused[0]}. The server of Spark Connect runs it with its own "
            f"Python: {refused[1]}"
        )


def batch_python_refused(report: PythonReport) -> tuple[str, str] | None:
    """Return why the own Python of a server can't run the library's `foreachBatch`, and what to do; None if it can."""
    if report.lacks:
        lacks = " ".join(f"'{requirement}'" for requirement in report.lacks)
        return f"{report.place} lacks {lacks}", f"there, {report.executable} -m pip install {lacks}"
    install = "install the client's wheel there"
    if report.problem:
        return f"{report.place} can't import kvformat: {report.problem}", install
    if _ARTIFACT.search(report.location):
        return f"{report.place} has kvformat only in an artifact, which Spark passes to no stream", install
    if report.build:
        here = build_identity()
        return f"{report.place} has another kvformat than the client: {report.build}, and the client {here}", install
    return None


def missing_module(session: SparkSession, name: str) -> str | None:
    """Return why a module can't be imported by Spark's Python workers; None if it can.

    Workers with the driver's own Python have what it has. Others are asked by a job, until they have it.
    """
    if in_pipeline() or has_drivers_python(session):
        return None
    key = (*workers_of(session), name)
    if key in _have:
        return None
    reports = _reports(session, name)
    missing = next((report.missing[name] for report in reports if name in report.missing), None)
    if reports and missing is None:
        _have.add(key)
    return missing


def _reports(session: SparkSession, *modules: str) -> list[PythonReport]:
    """Return the reports of the executors; none if the job fails for a reason that the next one tells, too."""
    from pyspark.errors import PySparkException

    from kvformat.registry.spark.probe import ask_executors

    try:
        return ask_executors(session, modules)
    except PySparkException:
        return []


def for_workers(function: _Function, session: SparkSession | None = None) -> _Function:
    """Return a function that does the same in a worker with the driver's build, and in others says what is wrong there.

    `check_workers` asks the executors that are there. Others may come later, with another installation. There the
    function would fail while it is unpickled, or run the code of the other build. The result is pickled by value, and
    unpickles the function when it is first called.
    """
    session = session or active_session()
    if session is None or has_drivers_python(session):
        return function
    from pyspark import cloudpickle

    pickler: Any = cloudpickle  # it has no types
    checking: Any = _checking(pickler.dumps(function), sources_digest(), build_identity())
    checking.__name__ = function.__name__  # plans show it
    return checking  # type: ignore[no-any-return]


def _checking(pickled: bytes, sources: str, driver: str) -> Callable[..., Any]:
    loaded: list[Callable[..., Any]] = []

    def run(*arguments: Any) -> Any:
        if not loaded:
            import platform
            import sys

            at = f"{sys.executable} on {platform.node()}"
            try:
                from kvformat.registry.build import build_identity, sources_digest
            except ImportError as cause:
                text = f"this executor ({at}) has no kvformat, or an older one than the driver's {driver}: {cause}"
                raise RuntimeError(text) from None
            if sources_digest() != sources:
                raise RuntimeError(f"this executor ({at}) has kvformat {build_identity()}, and the driver {driver}")
            loaded.append(pickle.loads(pickled))
        return loaded[0](*arguments)

    return run


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
