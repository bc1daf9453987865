"""What Spark's Pythons have: those of the executors, and with Spark Connect the server's own.

    ask_executors   a small job, with a task for each core of the cluster
    ask_server      the schema of a data source, which the server's own Python is asked for: no job

The functions that run there are pickled by value, so they do not need the library, and import everything themselves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kvformat.registry.build import sources_digest
from kvformat.registry.spark.sessions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS: Final = 10_000
"""The rows of the job. Spark cuts them into a partition for each core, if it has no more of them."""
_IMPORT_ERROR: Final = re.compile(r"^(?:ModuleNotFound|Import)Error: (.+)", re.MULTILINE)
_KERNEL: Final = "kvformat.codecs._kernel"


@dataclass(frozen=True)
class PythonReport:
    """What a Python on another machine or in another environment has.

    problem: why it can't import the library, or "". build: who its build is; "" if it is the one of this process.
    location: the file of the library's package.
    why_uncompiled: why its kernel is not compiled; "" if it is, or if the user asked for that.
    missing: the import errors of modules that were asked for.
    lacks: packages that a server needs for `foreachBatch` and does not have, as pip names them.
    """

    host: str
    executable: str
    version: str = ""
    pyarrow: str = ""
    problem: str = ""
    build: str = ""
    kernel: str = ""
    why_uncompiled: str = ""
    location: str = ""
    missing: dict[str, str] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The machine and the Python, for people."""
        return f"{self.executable} on {self.host}" if self.host else self.executable


def ask_executors(session: SparkSession, modules: Sequence[str] = ()) -> list[PythonReport]:
    """Return what the executors' Pythons have, each once. `modules` are imported there, too.

    A Python that lacks what Spark itself needs there is reported, too; Spark's other errors are raised.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType

    report = _first_only(_reporter(sources_digest(), modules))
    # PySpark looks at the type hints of other functions than lambdas.
    probe = F.udf(lambda row: report(row), StringType()).asNondeterministic()
    try:
        rows = session.range(_ROWS).select(probe("id").alias("report")).collect()
    except PySparkException as error:
        failed = _IMPORT_ERROR.search(str(error))
        if failed is None:
            raise
        python = "Python" if is_connect(session) else session.sparkContext.pythonExec
        return [PythonReport("", python, problem=failed[1], missing=dict.fromkeys(modules, failed[1]))]
    return [_parsed(text) for text in dict.fromkeys(row.report for row in rows if row.report)]


def ask_server(session: SparkSession) -> PythonReport:
    """Return what the Python of a Spark Connect server has, which runs each `foreachBatch`."""
    from pyspark.sql.datasource import DataSource

    report = _reporter(sources_digest(), (), of_server=True)

    class Probe(DataSource):  # a class in a function is pickled by value
        @classmethod
        def name(cls) -> str:
            return "kvformat_probe"

        def schema(self) -> str:
            return f"report STRING COMMENT '{report().encode().hex()}'"

    session.dataSource.register(Probe)
    schema = session.read.format("kvformat_probe").load().schema
    return _parsed(bytes.fromhex(schema["report"].metadata["comment"]).decode())


def _parsed(text: str) -> PythonReport:
    values: dict[str, Any] = json.loads(text)
    return PythonReport(**{**values, "lacks": tuple(values["lacks"])})


def _first_only(report: Callable[[], str]) -> Callable[[Any], str | None]:
    """Return the function of a UDF that reports once in each task."""
    done: list[bool] = []

    def of_task(_: Any) -> str | None:
        if done:
            return None
        done.append(True)
        return report()

    return of_task


def _reporter(sources: str, modules: Sequence[str], *, of_server: bool = False) -> Callable[[], str]:
    """Return the function that reports as JSON. It is pickled, and uses nothing of this module."""
    kernel = _KERNEL

    def build_at(package: Any) -> str:
        # The library is not imported: what a worker has imported stays, also if a zip with another build comes.
        import os
        import sys
        import types

        module = types.ModuleType("_build_of_kvformat")
        module.__file__ = os.path.join(os.path.dirname(package.origin), "registry", "build.py")
        module.__loader__ = package.loader
        try:
            code = package.loader.get_data(module.__file__)
        except OSError:
            return "an older build"
        sys.modules[module.__name__] = module  # for its dataclass
        exec(compile(code, module.__file__, "exec"), vars(module))
        del sys.modules[module.__name__]
        return "" if module.sources_digest() == sources else str(module.build_identity())

    def report() -> str:
        import importlib
        import importlib.util
        import json
        import platform
        import sys

        values: dict[str, Any] = {
            "host": platform.node(),
            "executable": sys.executable,
            "version": platform.python_version(),
            "missing": {},
            "lacks": [],
        }
        importlib.invalidate_caches()  # a zip may have come with this job
        try:
            import pyarrow

            values["pyarrow"] = pyarrow.__version__
            package: Any = importlib.util.find_spec("kvformat")
            if package is None:
                raise ModuleNotFoundError("No module named 'kvformat'")
            values["location"], values["build"] = package.origin, build_at(package)
            if not values["build"]:
                loaded = importlib.import_module(kernel)
                values["kernel"], values["why_uncompiled"] = loaded.KERNEL, "" if loaded.COMPILED else loaded.WHY
        except Exception as cause:
            values["problem"] = str(cause)
        for name in modules:
            try:
                importlib.import_module(name)
            except Exception as cause:
                values["missing"][name] = str(cause)
        if of_server:
            import pkgutil

            from pyspark.errors import PySparkImportError

            # An import of this module would import its package, which raises for the first package that is missing.
            checks: dict[str, Any] = {"__name__": "checks"}
            exec(pkgutil.get_data("pyspark.sql", "connect/utils.py") or b"", checks)
            for name in sorted(checks):
                if name.startswith("require_minimum_"):
                    try:
                        checks[name]()
                    except PySparkImportError as cause:
                        needed: Any = cause.getMessageParameters()
                        values["lacks"].append(f"{needed['package_name'].lower()}>={needed['minimum_version']}")
        return json.dumps(values)

    return report
