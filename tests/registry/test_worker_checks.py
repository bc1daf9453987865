"""What the reports of Spark's Pythons mean, and functions that check a worker. tests/spark has real workers."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException

from kvformat.registry import ConfigurationError, UncompiledKernelWarning
from kvformat.registry.build import Build, build_identity, sources_digest
from kvformat.registry.spark import probe, sessions, workers
from kvformat.registry.spark.probe import PythonReport
from kvformat.registry.spark.workers import batch_python_refused, check_batch_python, check_workers, for_workers

HERE = PythonReport("node1", "env/bin/python", "3.11.9", "20.0.0", kernel="compiled")
OTHER = replace(HERE, build="0.0.9 (commit fedcba987654, sources 0123456789ab)")
WITHOUT = PythonReport("node2", "env/bin/python", problem="No module named 'kvformat'")
SLOW = replace(HERE, kernel="python", why_uncompiled="the zip has modules for another Python")


class Cluster:
    """A session of a cluster. `reports` is what its executors say next, or the error of the job; `jobs` counts."""

    def __init__(self, master: str = "spark://m:7077") -> None:
        self.conf = {"spark.master": master}
        self.sparkContext = SimpleNamespace(applicationId=f"app-{id(self)}", pythonExec="env/bin/python")
        self.reports: list[PythonReport] | Exception = [HERE]
        self.jobs = 0


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    def ask_executors(session: Cluster, modules: tuple[str, ...]) -> list[PythonReport]:
        session.jobs += 1
        if isinstance(session.reports, Exception):
            raise session.reports
        return session.reports

    monkeypatch.setattr(probe, "ask_executors", ask_executors)
    monkeypatch.setattr(workers, "_checked", set())
    monkeypatch.setattr(workers, "_have", set())
    monkeypatch.setattr(workers, "_servers", set())
    return Cluster()


def test_executors_are_asked_once(cluster: Any) -> None:
    for _ in range(3):
        check_workers(cluster)
    clone = Cluster()
    clone.sparkContext = cluster.sparkContext  # the session of a micro-batch
    check_workers(clone)
    assert (cluster.jobs, clone.jobs) == (1, 0)
    other = Cluster()
    other.sparkContext = SimpleNamespace(**{**vars(cluster.sparkContext), "pythonExec": "other/bin/python"})
    check_workers(other)
    assert other.jobs == 1
    check_workers(Cluster())


def test_executors_that_do_not_fit_are_asked_again(cluster: Any) -> None:
    cluster.reports = [HERE, WITHOUT]
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"can't import kvformat: No .* \(env/bin/python on node2\)\. "):
            check_workers(cluster)
    cluster.reports = [HERE, OTHER]
    told = r"another kvformat than the driver: 0\.0\.9 \(commit fedcba987654, .* on node1\), and the driver "
    with pytest.raises(ConfigurationError, match=told) as caught:
        check_workers(cluster)
    assert f"{build_identity()}. To have the same, install the driver's wheel" in str(caught.value)
    assert "--py-files kvformat.zip" in str(caught.value)
    cluster.reports = [HERE]
    for _ in range(2):
        check_workers(cluster)
    assert cluster.jobs == 4


def test_a_job_that_fails_for_another_reason_says_nothing_and_is_repeated(cluster: Any) -> None:
    cluster.reports = PySparkException("[PYTHON_VERSION_MISMATCH] Python in worker has another version")
    for _ in range(2):
        check_workers(cluster)
    assert cluster.jobs == 2
    assert workers.missing_module(cluster, "confluent_kafka") is None


def test_an_uncompiled_kernel_is_a_warning_once(cluster: Any) -> None:
    cluster.reports = [HERE, SLOW]
    told = (
        r"Spark's executors \(env/bin/python on node1\) is not compiled, .*: the zip has modules for another Python\. "
    )
    with pytest.warns(UncompiledKernelWarning, match=told):
        check_workers(cluster)
    check_workers(cluster)


def test_modules_are_asked_for_until_they_are_there(cluster: Any) -> None:
    cluster.reports = [HERE, replace(HERE, missing={"confluent_kafka": "No module named 'confluent_kafka'"})]
    assert workers.missing_module(cluster, "confluent_kafka") == "No module named 'confluent_kafka'"
    cluster.reports = [HERE]
    for _ in range(2):
        assert workers.missing_module(cluster, "confluent_kafka") is None
    assert cluster.jobs == 2


def test_local_workers_with_this_python_and_pipelines_run_no_job(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    local = Cluster("local[4]")
    local.sparkContext.pythonExec = sys.executable
    check_workers(local)
    local.sparkContext.pythonExec = "env/bin/python"
    check_workers(local)
    assert local.jobs == 1
    from pyspark.pipelines.graph_element_registry import graph_element_registration_context

    with graph_element_registration_context(object()):  # type: ignore[arg-type]
        check_workers(cluster)
        assert workers.missing_module(cluster, "confluent_kafka") is None
    assert cluster.jobs == 0
    check_workers(cluster)
    assert cluster.jobs == 1


def test_each_session_of_spark_connect_has_workers_of_its_own(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "is_connect", lambda session: True)
    for number, session in enumerate((cluster, Cluster())):
        session.session_id = f"session-{number}"
        for _ in range(2):
            check_workers(session)
        assert session.jobs == 1


def test_a_batch_on_a_server_asks_nothing_again(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.worker", SimpleNamespace())  # type: ignore[arg-type]
    check_workers(cluster)
    assert cluster.jobs == 0


# --- the server's own Python -------------------------------------------------------------------------------------

ARTIFACT = "/tmp/spark-1/userFiles-9d6e0dfc-c6dd-4996-8748-872af964aba7/40c93efa-b580-4e93-8c30-105bef75fe4b/k.zip/k.py"


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (HERE, None),
        (SLOW, None),
        (replace(HERE, location="/tmp/spark-1/userFiles-9d6e0dfc/kvformat.zip/kvformat/__init__.py"), None),
        (OTHER, "has another kvformat than the client: 0.0.9"),
        (WITHOUT, "can't import kvformat: No module named 'kvformat'"),
        (replace(HERE, location=ARTIFACT), "has kvformat only in an artifact"),
        (replace(WITHOUT, lacks=("grpcio>=1.48.1", "zstandard>=0.25.0")), "lacks 'grpcio>=1.48.1' 'zstandard>=0.25.0'"),
    ],
)
def test_what_a_server_needs_for_a_stream(
    report: PythonReport, why: str | None, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = batch_python_refused(report)
    assert (refused is None) == (why is None)
    asked: list[object] = []
    monkeypatch.setattr(probe, "ask_server", lambda session: asked.append(session) or report)
    check_batch_python(cluster)  # a classic session has no server
    assert asked == []
    monkeypatch.setattr(workers, "is_connect", lambda _: True)
    if why is None:
        for _ in range(2):
            check_batch_python(cluster)
        assert len(asked) == 1
        return
    with pytest.raises(ConfigurationError) as caught:
        check_batch_python(cluster)
    assert f"a stream with foreachBatch can't run: {report.place} {why}" in str(caught.value)
    assert refused is not None
    assert str(caught.value).endswith(refused[1])


def test_a_server_that_cannot_be_asked_or_is_refused_is_asked_again(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[PythonReport | None] = [HERE, WITHOUT, None]

    def ask_server(session: object) -> PythonReport:
        answer = answers.pop()
        if answer is None:
            raise PySparkException("the server has no data sources in Python")  # the query says it, too
        return answer

    monkeypatch.setattr(probe, "ask_server", ask_server)
    monkeypatch.setattr(workers, "is_connect", lambda _: True)
    check_batch_python(cluster)
    with pytest.raises(ConfigurationError, match="a stream with foreachBatch can't run"):
        check_batch_python(cluster)
    check_batch_python(cluster)
    assert answers == []


# --- what a Python reports ----------------------------------------------------------------------------------------


def test_a_report_tells_of_each_module_why_it_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_breaks.py").write_text("raise RuntimeError('the licence has expired')")
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = ("json", "acme_breaks", "acme_missing")
    found = probe._parsed(probe._reporter(sources_digest(), modules)())
    assert found.missing == {"acme_breaks": "the licence has expired", "acme_missing": "No module named 'acme_missing'"}
    assert (found.problem, found.build, found.lacks, found.executable) == ("", "", (), sys.executable)
    assert probe._parsed(probe._reporter("another", ())()) == replace(
        found, build=build_identity(), kernel="", why_uncompiled="", missing={}
    )


@pytest.mark.parametrize(
    ("there", "build", "problem"), [(True, "an older build", ""), (False, "", "No module named 'kvformat'")]
)
def test_a_report_tells_an_older_build_from_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool, build: str, problem: str
) -> None:
    file = str(tmp_path / "kvformat" / "__init__.py")
    spec = ModuleSpec("kvformat", SourceFileLoader("kvformat", file), origin=file) if there else None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    found = probe._parsed(probe._reporter(sources_digest(), ())())
    assert (found.build, found.problem, found.kernel) == (build, problem, "")


def test_a_task_reports_once() -> None:
    of_task = probe._first_only(lambda: "report")
    assert [of_task(row) for row in range(3)] == ["report", None, None]


# --- functions that check a worker -------------------------------------------------------------------------------


@pytest.fixture
def run_in_worker(cluster: Any, tmp_path: Path) -> Callable[[Build | None], str]:
    """Return what a function of a driver says in a process with another build of the library, or without it."""

    def loaded(batches: Iterator[int]) -> Iterator[int]:
        for batch in batches:
            yield batch + 1

    def run(build: Build | None) -> str:
        pickled = tmp_path / "function"
        from pyspark.cloudpickle import dumps

        pickled.write_bytes(dumps(for_workers(loaded, cluster)))
        code = "import pickle, sys; f = pickle.load(open(sys.argv[1], 'rb')); print(f.__name__, list(f(iter([1, 2]))))"
        if build is not None:
            registry = tmp_path / "kvformat" / "registry"
            registry.mkdir(parents=True, exist_ok=True)
            (registry.parent / "__init__.py").touch()
            (registry / "__init__.py").touch()
            (registry / "build.py").write_bytes(
                Path(sys.modules["kvformat.registry.build"].__file__ or "").read_bytes()
            )
            (registry / "build.json").write_text(json.dumps(vars(build)))
        packages = tmp_path / "packages"
        packages.mkdir(exist_ok=True)
        for name in ("pyspark", "py4j"):
            if not (packages / name).exists():
                (packages / name).symlink_to(Path(importlib.import_module(name).__file__ or "").parent)
        done = subprocess.run(
            [sys.executable, "-S", "-c", code, str(pickled)],
            env={"PYTHONPATH": f"{tmp_path}:{packages}"},
            capture_output=True,
            text=True,
        )
        return done.stdout or done.stderr.splitlines()[-1]

    return run


def test_a_function_runs_where_the_build_is_the_drivers(run_in_worker: Callable[[Build | None], str]) -> None:
    assert run_in_worker(Build("any", sources_digest())) == "loaded [2, 3]\n"


def test_a_function_says_what_is_wrong_in_a_worker(run_in_worker: Callable[[Build | None], str]) -> None:
    told = run_in_worker(None)
    assert told.startswith(f"RuntimeError: this executor ({sys.executable} on ")
    assert told.endswith(
        f"has no kvformat, or an older one than the driver's {build_identity()}: No module named 'kvformat'"
    )
    other = Build("0.0.9", "0123456789ab")
    assert run_in_worker(other).endswith(f") has kvformat {other}, and the driver {build_identity()}")


def test_local_workers_get_the_function_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "active_session", lambda: None)
    assert for_workers(check_workers) is check_workers
    local = Cluster("local[*]")
    local.sparkContext.pythonExec = sys.executable
    assert for_workers(check_workers, local) is check_workers


def test_a_worker_freezes_what_its_first_tasks_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first, the eighth and the 64th full collection. In other processes nothing is frozen."""
    frozen, now = list[int](), [0]
    callbacks: list[Callable[[str, dict[str, int]], None]] = []
    monkeypatch.setattr(workers, "gc", SimpleNamespace(callbacks=callbacks, freeze=lambda: frozen.extend(now)))
    monkeypatch.delitem(sys.modules, "pyspark.worker", raising=False)
    workers.freeze_modules()
    assert callbacks == []
    monkeypatch.setitem(sys.modules, "pyspark.worker", SimpleNamespace())  # type: ignore[arg-type]
    workers.freeze_modules()
    (after_collection,) = callbacks
    for now[0] in range(1, 100):
        for phase, generation in (("start", 2), ("stop", 1), ("stop", 2)):
            after_collection(phase, {"generation": generation})
    assert frozen == [1, 8, 64]
