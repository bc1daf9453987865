"""The examples as wheels in a new environment, and the steps of docs/plugins.md."""

from __future__ import annotations

import json
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.environments import ROOT, Environment, build_wheel, run
from tests.support.sessions import JAVA

EXAMPLES = {"kvformat-msgpack": 45, "kvformat-framed": 120}
"""The packages and the minimum number of their passing tests."""

JOB = """
import gzip, json, msgpack
from codecs import KeyValueFormat, split_errors
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
table = KeyValueFormat.from_ddl('''
    CREATE TABLE users (id BIGINT, name STRING, score DOUBLE, PRIMARY KEY (id) NOT ENFORCED) WITH (
      'connector' = 'upsert-kafka', 'topic' = 'users', 'properties.bootstrap.servers' = 'broker:9092',
      'key.format' = 'msgpack', 'value.format' = 'framed', 'value.fields-include' = 'EXCEPT_KEY',
      'value.framed.framing' = 'gzip', 'value.framed.payload.format' = 'json',
      'value.framed.payload.json.encode.ignore-null-fields' = 'true')''')
changes = spark.createDataFrame(
    [(1, "Ada", 0.5, "+U"), (2, None, 1.5, "+I"), (3, None, None, "-D")],
    "id BIGINT, name STRING, score DOUBLE, row_kind STRING",
)
records = table.encode(changes)
bad = [(msgpack.packb({"id": "x"}), None), (msgpack.packb({"id": 4}), b"not gzip")]
decoded = table.decode(records.unionAll(spark.createDataFrame(bad, records.schema)), errors="capture")
rows, wrong = split_errors(decoded)
print("RESULT", json.dumps({
    "keys": [msgpack.unpackb(row.key) for row in records.collect()],
    "values": [row.value and gzip.decompress(row.value).decode() for row in records.collect()],
    "rows": [list(row) for row in rows.select("id", "name", "score", "row_kind").orderBy("id").collect()],
    "wrong": sorted(str(row.asDict(recursive=True)) for row in wrong.collect()),
}))
spark.stop()
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Copies of the examples, so that builds leave no files in the checkout."""
    folder = tmp_path_factory.mktemp("examples")
    ignore = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    return {name: shutil.copytree(ROOT / "examples" / name, folder / name, ignore=ignore) for name in EXAMPLES}


@pytest.fixture(scope="module")
def wheels(packages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: build_wheel(folder, tmp_path_factory.mktemp(name))[0] for name, folder in packages.items()}


@pytest.fixture(scope="module")
def with_examples(new_environment, wheel: Path, wheels: dict[str, Path]) -> Environment:
    environment: Environment = new_environment("with_examples")
    environment.install(wheel, *wheels.values())
    return environment


def test_every_example_is_tested() -> None:
    assert {path.name for path in (ROOT / "examples").iterdir() if (path / "pyproject.toml").exists()} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_wheel_of_an_example_has_its_modules_and_no_tests(
    name: str, packages: dict[str, Path], wheels: dict[str, Path]
) -> None:
    source = packages[name] / "src"
    sources = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.suffix in (".py", ".typed")}
    with zipfile.ZipFile(wheels[name]) as archive:
        packed = {entry for entry in archive.namelist() if ".dist-info/" not in entry}
    assert packed == sources
    assert any(entry.endswith("py.typed") for entry in packed)


def test_the_examples_are_found_by_name(with_examples: Environment) -> None:
    told = with_examples.python("-m", "kvformat", "formats", "--json")
    found = {each["name"]: each["distribution"] for each in map(json.loads, told.splitlines())}
    assert (found["msgpack"], found["framed"]) == ("kvformat-msgpack 0.1.0", "kvformat-framed 0.1.0")


@pytest.mark.spark
@pytest.mark.once
def test_the_examples_pass_their_own_tests(with_examples: Environment, packages: dict[str, Path]) -> None:
    for name, least in EXAMPLES.items():
        command = [with_examples.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        told = run(command, cwd=packages[name], extra={"JAVA_TOOL_OPTIONS": JAVA})
        (passed,) = re.findall(r"^(\d+) passed", told, re.MULTILINE)
        assert int(passed) >= least, told


@pytest.mark.spark
@pytest.mark.once
def test_a_job_with_the_examples_as_key_and_value(
    with_examples: Environment, dependencies: Path, tmp_path: Path
) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB, encoding="utf-8")
    told = with_examples.submit(dependencies, job)
    (line,) = (line for line in told.splitlines() if line.startswith("RESULT "))
    found = json.loads(line.removeprefix("RESULT "))
    assert found["keys"] == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert found["values"] == ['{"name":"Ada","score":0.5}', '{"score":1.5}', None]
    assert found["rows"] == [[1, "Ada", 0.5, "+U"], [2, None, 1.5, "+U"], [3, None, None, "-D"]]
    assert len(found["wrong"]) == 2
    assert "cannot read 'x' as BIGINT" in "".join(found["wrong"])
    assert "not gzip: " in "".join(found["wrong"])


# --- the tutorial ------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.once
def test_the_steps_of_the_tutorial_work(wheel: Path, tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "scripts" / "tutorial", "--no-network", "--wheel", wheel]
    told = run(command, cwd=tmp_path, extra={"JAVA_TOOL_OPTIONS": JAVA})
    (steps,) = re.findall(r"^docs/plugins\.md: (\d+) steps done$", told, re.MULTILINE)
    assert int(steps) >= 25
