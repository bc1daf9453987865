"""`doctor`: how brokers, registries and clusters are asked, and where it looks for Spark's parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark.sql
import pytest

from kvformat.connectors.cli import doctor
from kvformat.ingestion import cli as ingestion
from kvformat.registry.build import build_identity
from kvformat.registry.spark import probe
from kvformat.registry.spark.probe import PythonReport
from tests.support.cli import lines, run


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record how brokers and registries are asked; all of them answer."""
    calls: list[Any] = []

    def partitions_of(options: Mapping[str, str], topics: Any, pattern: Any) -> dict[str, list[int]]:
        calls.append((options["properties.bootstrap.servers"], topics, pattern))
        return {}

    def get_format(_: str, options: Mapping[str, str]) -> Any:
        calls.append({name: text for name, text in options.items() if not name.startswith("registry-")})
        return SimpleNamespace(decode_batch=lambda *_: None)

    monkeypatch.setattr(doctor, "_spark", lambda: iter(()))
    monkeypatch.setattr(doctor, "partitions_of", partitions_of)
    monkeypatch.setattr(doctor, "get_format", get_format)
    return calls


def _findings(file: Path, text: str, *arguments: str) -> dict[str, tuple[str, str]]:
    file.write_text(text)
    found = lines(run("doctor", file, "--json", *arguments).stdout)
    return {finding["what"]: (finding["status"], finding["text"]) for finding in found}


def _with(**options: str) -> str:
    pairs = {"connector": "kafka", "properties.bootstrap.servers": "b:1", "scan.startup.mode": "earliest-offset"}
    return "WITH (" + ", ".join(f"'{name}' = '{text}'" for name, text in {**pairs, **options}.items()) + ")"


def test_a_registry_is_asked_with_the_settings_of_its_part(asked: list[Any], tmp_path: Path) -> None:
    parts = {"key.fields": "id", "value.fields-include": "EXCEPT_KEY", "topic": "t"}
    for part, old in (("key", ""), ("value", "schema-registry.")):
        parts |= {f"{part}.format": "avro-confluent", f"{part}.avro-confluent.{old}url": f"http://{part}:1"}
    found = _findings(tmp_path / "t.sql", f"CREATE TABLE t (id INT, v INT) {_with(**parts)}")
    assert asked[1:] == [{"url": "http://key:1"}, {"schema-registry.url": "http://value:1"}]
    assert found["registry of t (key.format)"] == ("ok", "http://key:1 answers")
    assert found["registry of t (value.format)"] == ("ok", "http://value:1 answers")


def test_services_of_a_followed_table_are_asked(asked: list[Any], tmp_path: Path) -> None:
    options = {"topic-pattern": "k.*", "format": "avro-confluent", "avro-confluent.url": "http://own:1"}
    job = f"CREATE TABLE k (p INT METADATA FROM 'partition') {_with(**options)};"
    job += "CREATE TABLE lake.t WITH ('connector' = 'delta') AS TABLE k"
    found = _findings(tmp_path / "job.sql", job)
    assert asked == [("b:1", None, "k.*"), {"url": "http://own:1"}]
    assert {"table k", "brokers of k", "registry of k (format)"} <= found.keys()
    asked.clear()
    given = {"properties.bootstrap.servers": "given:1", "avro-confluent.url": "http://given:1"}
    _findings(tmp_path / "job.sql", job, *(part for pair in given.items() for part in ("-o", "=".join(pair))))
    assert asked == [("given:1", None, "k.*"), {"url": "http://given:1"}]


def test_a_wrong_table_does_not_end_the_check(asked: list[Any], tmp_path: Path) -> None:
    wrong, good = _with(topic="w", format="jsn"), _with(topic="g", format="json")
    found = _findings(tmp_path / "t.sql", f"CREATE TABLE wrong (id INT) {wrong}; CREATE TABLE good (id INT) {good}")
    assert [found[f"table {name}"][0] for name in ("wrong", "good")] == ["failed", "ok"]
    assert asked == [("b:1", ("g",), None)]


def test_options_of_the_registry_to_check_are_not_those_of_tables(asked: list[Any], tmp_path: Path) -> None:
    options = ("--registry", "http://r:1", "-o", "avro-confluent.basic-auth.user-info=a:b")
    found = _findings(tmp_path / "t.sql", f"CREATE TABLE t (id INT) {_with(topic='t', format='json')}", *options)
    assert asked == [{"url": "http://r:1", "basic-auth.user-info": "a:b"}, ("b:1", ("t",), None)]
    assert found["table t"][0] == "ok"


# --- Spark's parts -----------------------------------------------------------------------------------------------

_KAFKA = "spark-sql-kafka-0-10_2.13"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (f"spark.jars.packages org.apache.spark:{_KAFKA}:4.1.0", True),
        (f"  spark.jars=/jars/{_KAFKA}-4.1.0.jar", True),
        (f"# spark.jars.packages org.apache.spark:{_KAFKA}:4.1.0", False),
        (f"spark.jars.excludes org.apache.spark:{_KAFKA}", False),
    ],
)
def test_settings_of_jars_name_packages(
    line: str, found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the folder `conf` of Spark, or in SPARK_CONF_DIR instead."""
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    for home, more in ((tmp_path / "spark", "conf"), (tmp_path / "other", "")):
        (home / more).mkdir(parents=True)
        (home / more / "spark-defaults.conf").write_text(f"spark.a b\n{line}\n")
        assert (_KAFKA in doctor._configured_jars(home)) == found
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "other"))


def test_jars_are_those_of_spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_pandas", "_java", "_worker"):
        monkeypatch.setattr(doctor, name, lambda: None)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / f"{_KAFKA}-4.1.0.jar").write_text("")
    spark, *_, kafka, avro = doctor._spark()
    assert spark.text.endswith(f", {tmp_path}")
    assert (kafka.status, kafka.text) == ("ok", f"{_KAFKA}-4.1.0.jar")
    assert avro.status == "warning"


@pytest.mark.parametrize("command", ["doctor --master", "doctor --remote", "ingest"])
def test_given_settings_replace_those_of_the_command(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Builder:
        def __init__(self) -> None:
            self.settings: dict[str, str] = {}

        def config(self, name: str, value: str) -> Builder:
            self.settings[name] = value
            return self

        def appName(self, _: str) -> Builder:
            return self

        master = remote = appName

        def getOrCreate(self) -> dict[str, str]:
            return self.settings

    monkeypatch.setattr(pyspark.sql, "SparkSession", SimpleNamespace(builder=Builder()))
    given = {"spark.ui.showConsoleProgress": "true", "spark.log.level": "INFO"}
    if command == "ingest":
        made: Any = ingestion._session(given)
    else:
        made = doctor._session(*(("m", None) if "master" in command else (None, "sc://s")), given)
    assert made == given


# --- a cluster ---------------------------------------------------------------------------------------------------


HERE = PythonReport("node1", "env/bin/python", "3.11.9", "20.0.0", kernel="compiled")


class Session:
    """A session whose executors and server give these reports, or this error."""

    def __init__(self, executors: list[PythonReport] | Exception, server: PythonReport = HERE) -> None:
        self.executors, self.server, self.stopped = executors, server, 0
        self.sparkContext = SimpleNamespace(cancelAllJobs=lambda: None)

    def interruptAll(self) -> None:
        pass

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def of_cluster(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[dict[str, str]], int]]:
    """Return the findings of a cluster that gives these reports, and the exit status."""

    def ask_executors(session: Session) -> list[PythonReport]:
        if isinstance(session.executors, Exception):
            raise session.executors
        return session.executors

    def findings(*arguments: str, **reports: Any) -> tuple[list[dict[str, str]], int]:
        session = Session(**reports)
        monkeypatch.setattr(doctor, "_findings", lambda *_: iter(()))
        monkeypatch.setattr(doctor, "_session", lambda *_: session)
        monkeypatch.setattr(probe, "ask_executors", ask_executors)
        monkeypatch.setattr(probe, "ask_server", lambda session: session.server)
        result = run("doctor", "--json", *arguments)
        assert session.stopped == 1
        return lines(result.stdout), result.exit_code

    return findings


def test_doctor_asks_executors(of_cluster: Callable[..., tuple[list[dict[str, str]], int]]) -> None:
    (found,), status = of_cluster("--master", "spark://m:7077", executors=[HERE])
    assert (found["status"], found["what"], status) == ("ok", "executor on node1", 0)
    assert found["text"] == "3.11.9, env/bin/python, kernel compiled, PyArrow 20.0.0, kvformat of this build"
    without = PythonReport("node2", "env/bin/python", "3.11.9", problem="No module named 'kvformat'")
    other = replace(HERE, build="0.0.9 (sources 0123456789ab)")
    slow = replace(HERE, kernel="python", why_uncompiled="no compiler")
    found, status = of_cluster("--master", "spark://m:7077", executors=[without, other, slow])
    assert ([finding["status"] for finding in found], status) == (["failed", "failed", "warning"], 1)
    assert "can't import kvformat: No module named 'kvformat'" in found[0]["text"]
    assert "spark-submit --py-files kvformat.zip" in found[0]["advice"]
    assert found[1]["text"].endswith(f"kvformat: 0.0.9 (sources 0123456789ab); here it is {build_identity()}")
    assert found[2]["text"].endswith("the kernel runs as Python, many times slower: no compiler")


def test_doctor_asks_the_python_of_a_connect_server(
    of_cluster: Callable[..., tuple[list[dict[str, str]], int]],
) -> None:
    found, status = of_cluster("--remote", "sc://s:15002", executors=[HERE], server=HERE)
    assert [finding["what"] for finding in found] == ["executor on node1", "Python of the server"]
    assert status == 0
    lacking = replace(HERE, lacks=("grpcio>=1.48.1", "zstandard>=0.25.0"))
    (_, server), status = of_cluster("--remote", "sc://s:15002", executors=[HERE], server=lacking)
    assert (server["status"], status) == ("warning", 0)
    assert "foreachBatch can't run: env/bin/python on node1 lacks 'grpcio>=1.48.1' 'zstandard" in server["text"]
    assert server["advice"] == "there, env/bin/python -m pip install 'grpcio>=1.48.1' 'zstandard>=0.25.0'"


def test_doctor_tells_why_a_cluster_does_not_answer(
    of_cluster: Callable[..., tuple[list[dict[str, str]], int]],
) -> None:
    (found,), status = of_cluster(
        "--remote", "sc://s:15002", executors=RuntimeError("no sc://u:secret@s/;token=abc\nat x")
    )
    assert (found["what"], found["status"], status) == ("cluster", "failed", 1)
    assert found["text"] == "a small job failed: no sc://******@s/;token=******"
    assert run("doctor", "--master", "local", "--remote", "sc://s").exit_code == 2
