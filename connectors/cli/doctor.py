"""`kvformat doctor`: check the installation and its services, and advise what to do."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click
import pyarrow as pa

from kvformat.connectors.cli._output import json_option, show, styled, write_json
from kvformat.connectors.cli._table import (
    BOOTSTRAP,
    FILE,
    OF_REGISTRIES,
    bootstrap_option,
    conf_option,
    option_option,
    read_text,
    registry_options,
    with_bootstrap,
)
from kvformat.connectors.cli._topics import partitions_of
from kvformat.connectors.cli.formats import missing_extras
from kvformat.registry.build import build_identity
from kvformat.registry.contract.discovery import get_format
from kvformat.registry.contract.errors import KvFormatError, install_extra
from kvformat.registry.contract.options import mask_userinfo, mask_userinfo_in_text
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.spark.workers import SHIP, batch_python_refused
from kvformat.registry.sql.connector_options import KAFKA_OPTIONS, parse_option
from kvformat.registry.sql.create_as_table import following_tables, read_job
from kvformat.registry.sql.statements import statements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kvformat.registry.spark.probe import PythonReport

_TIMEOUT: Final = 60
"""Seconds that another program may take to print its version."""
_CLUSTER_TIMEOUT: Final = 120
"""Seconds that a cluster may take to run a small job."""
_OF_EXECUTORS: Final = "check that executors start (with --conf spark.executor.memory=... if need be), and their logs"
_REGISTRY_TIMEOUT: Final = "10 s"
_UNKNOWN_ID: Final = b"\x00\x7f\xff\xff\xff\x00"
"""A message with a schema id so large that no registry has assigned it."""
_JAVAS: Final = (17, 21)
"""Java versions that Spark 4 supports."""
_PACKAGES: Final = {
    "Spark's Kafka source and sink": ("spark-sql-kafka-0-10_2.13", "tables on Kafka can't be read or written"),
    "Spark's Avro functions": ("spark-avro_2.13", "avro is written by the Arrow engine, which takes longer"),
}
_EXTRAS: Final = {
    "confluent": ("confluent_kafka", "avro-confluent can't ask a schema registry"),
    "glue": ("boto3", "avro-glue can't ask AWS for schemas"),
    "ingest": ("yaml", "kvformat ingest can't read pipelines"),
    "kafka": ("confluent_kafka", "brokers can't be asked: for topics, records and offsets of groups"),
    "metrics": ("prometheus_client", "export_metrics can't export to Prometheus"),
    "protobuf": ("google.protobuf", "the format protobuf can't be set up"),
    "state": ("google.protobuf", "normalize_changes can't be used on streams"),
}
"""A module of each extra, and what is not possible without it."""
_PRINT_VERSIONS: Final = (
    "import sys; from kvformat.codecs import KERNEL; import pyarrow; "
    "print('%d.%d.%d' % sys.version_info[:3], KERNEL, pyarrow.__version__)"
)
_PANDAS: Final = ((2, 2, 2), (3,))
"""Lowest supported version, and first unsupported one: 2.2.2 supports NumPy 2, and PySpark 4 does not support 3."""
_COLOURS: Final = {"ok": "green", "warning": "yellow", "failed": "red"}

Status = Literal["ok", "warning", "failed"]


@dataclass(frozen=True)
class Finding:
    """One line of the report. `advice` says what to do; it is empty if nothing is wrong."""

    status: Status
    what: str
    text: str
    advice: str = ""


@click.command()
@click.argument("ddl", type=FILE, required=False, metavar="[FILE.sql]")
@click.option("--table", metavar="NAME", help="Only this table of the file; default: all that it creates.")
@bootstrap_option
@option_option("How brokers and --registry are asked, `properties.*` and `avro-confluent.*`; else a table's option.")
@click.option("--registry", metavar="URL", help="A schema registry to check.")
@click.option("--master", metavar="URL", help="Start Spark with this master, such as spark://..., and ask executors.")
@click.option("--remote", metavar="URL", help="A Spark Connect server, sc://...: ask executors, and its own Python.")
@conf_option
@json_option("A line of JSON for each finding.")
def doctor_command(
    ddl: Path | None,
    table: str | None,
    bootstrap: str | None,
    options: Mapping[str, str],
    registry: str | None,
    master: str | None,
    remote: str | None,
    settings: Mapping[str, str],
    as_json: bool,
) -> None:
    """Check what jobs need: Python, Java, Spark and its packages, the compiled kernel, brokers, topics, registries.

    With a DDL, the brokers, topics and registries of its tables are asked, with its settings. With --master or
    --remote, a small job asks the executors of a cluster which build of kvformat they have; without them, Spark is not
    started. The exit status is 1 if a check failed. Secrets are not shown.
    """
    if master is not None and remote is not None:
        raise click.UsageError("--master and --remote can't be given together")
    if table is not None and ddl is None:
        raise click.UsageError("--table names a table of a FILE.sql, which is missing")
    failed = False
    findings = _findings(ddl, table, with_bootstrap(options, bootstrap), registry)
    for finding in itertools.chain(findings, _cluster(master, remote, settings)):
        failed = failed or finding.status == "failed"
        if as_json:
            write_json([asdict(finding)])
        else:
            advice = f"\n         -> {finding.advice}" if finding.advice else ""
            mark = styled(f"{finding.status:<8}", fg=_COLOURS[finding.status])
            show(mark, f" {finding.what}: {finding.text}{advice}")
    raise SystemExit(1 if failed else 0)


def _findings(
    ddl: Path | None, table: str | None, options: Mapping[str, str], registry: str | None
) -> Iterator[Finding]:
    yield Finding("ok", "kvformat", build_identity())
    yield Finding("ok", "Python", f"{platform.python_version()}, {sys.executable}")
    yield _kernel()
    yield from _extras()
    yield from _reader()
    yield from _spark()
    if registry is not None:
        yield _registry(registry_options(options, registry))
        options = {key: text for key, text in options.items() if not key.startswith(f"{OF_REGISTRIES}.")}
    if ddl is not None:
        yield from _tables(read_text(ddl), table, options)
    elif BOOTSTRAP in options:
        yield _brokers(options)


# --- the installation --------------------------------------------------------------------------------------


def _kernel() -> Finding:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the finding contains the reason of the warning
        from kvformat.codecs import _kernel
    if _kernel.COMPILED:
        return Finding("ok", "kernel", "compiled")
    why = _kernel.WHY or "KVFORMAT_KERNEL=python"
    return Finding("warning", "kernel", f"runs as Python, many times slower: {why}", _kernel.ADVICE)


def _extras() -> Iterator[Finding]:
    missing = missing_extras(importlib.metadata.distribution("kvformat"))
    for extra, (module, use) in _EXTRAS.items():
        if extra in missing or not _is_installed(module):
            yield Finding("warning", f"extra {extra}", f"is not installed; {use}", install_extra(extra))
        else:
            yield Finding("ok", f"extra {extra}", "installed")


def _reader() -> Iterator[Finding]:
    """Check how records of Kafka are read without Spark, if they can be."""
    if not _is_installed(_EXTRAS["kafka"][0]):
        return
    from kvformat.connectors.reader.librdkafka import librdkafka

    found = librdkafka()
    if isinstance(found, str):
        yield Finding("warning", "records of Kafka", f"are read by Message objects, at several times the CPU: {found}")
    else:
        yield Finding("ok", "records of Kafka", "are copied by the compiled loop")


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing, too
        return False


# --- Spark -------------------------------------------------------------------------------------------------


def _spark() -> Iterator[Finding]:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        yield Finding(
            "warning",
            "PySpark",
            "is not installed; only decode_batch, encode_batch and commands without Spark work",
            install_extra("spark"),
        )
        return
    home = Path(os.environ.get("SPARK_HOME") or Path(spec.origin).parent)
    version = _spark_version(Path(spec.origin))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if (4, 1) <= numbers < (5,):
        yield Finding("ok", "PySpark", f"{version}, {home}")
    else:
        yield Finding("failed", "PySpark", f"{version}, {home}", "kvformat needs PySpark 4.1 or newer, below 5")
    yield _pandas()
    yield _java()
    yield _worker()
    configured = _configured_jars(home)
    for what, (package, without) in _PACKAGES.items():
        yield _jar(what, package, without, home, version, configured)


def _spark_version(module: Path) -> str:
    """Return PySpark's version from its file, because the import takes a second."""
    text = (module.parent / "version.py").read_text(encoding="utf-8")
    match = re.search(r"__version__[^=]*=\s*['\"]([^'\"]+)", text)
    return match[1] if match else "of unknown version"


def _pandas() -> Finding:
    """Check pandas: without it, PySpark refuses `mapInArrow`, which every read of a table uses."""
    lowest, limit = (".".join(map(str, numbers)) for numbers in _PANDAS)
    advice = f"pip install 'pandas>={lowest},<{limit}'"
    try:
        version = importlib.metadata.version("pandas")
    except importlib.metadata.PackageNotFoundError:
        return Finding("failed", "pandas", "is not installed; PySpark can't read tables without it", advice)
    numbers = tuple(map(int, re.findall(r"\d+", version)[:3]))
    if numbers < _PANDAS[0]:
        return Finding("failed", "pandas", f"{version} is too old for PySpark with NumPy 2", advice)
    if numbers >= _PANDAS[1]:
        return Finding("warning", "pandas", f"{version}: PySpark does not fully support pandas {limit}", advice)
    return Finding("ok", "pandas", version)


def _java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    advice = "install Java 17 or 21, and set JAVA_HOME to its folder"
    if java is None:
        return Finding("failed", "Java", "java is not on the PATH, and JAVA_HOME is not set", advice)
    output = _output_of([java, "-version"])
    match = re.search(r'version "([^"]+)"', output)
    if match is None:
        return Finding("failed", "Java", f"{java} does not run: {output.strip()[:200]}", advice)
    if int(re.split(r"\D", match[1])[0]) not in _JAVAS:
        return Finding("warning", "Java", f"{match[1]}, {java}: Spark 4 is made for 17 and 21", advice)
    return Finding("ok", "Java", f"{match[1]}, {java}")


def _worker() -> Finding:
    python = os.environ.get("PYSPARK_PYTHON") or sys.executable
    what = "Python of local workers"
    output = _output_of([python, "-c", _PRINT_VERSIONS])
    match = re.search(r"^([\d.]+) (compiled|python) (\S+)$", output, re.MULTILINE)
    advice = f"set PYSPARK_PYTHON to {sys.executable}, or install kvformat in the other one"
    if match is None:
        lines = output.strip().splitlines() or ["no answer"]
        return Finding("failed", what, f"{python} can't import kvformat: {lines[-1][:300]}", advice)
    version, kernel, arrow = match.groups()
    text = f"{version}, {python}, kernel {kernel}, PyArrow {arrow}"
    if version.split(".")[:2] != platform.python_version().split(".")[:2]:
        return Finding("failed", what, f"{text}: Spark wants the same minor version as here", advice)
    return Finding("ok", what, text)


def _output_of(command: list[str]) -> str:
    """Return the output of a program on both streams; the reason if it cannot be run."""
    try:
        run = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=_TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired) as cause:
        return str(cause)
    return run.stdout


def _configured_jars(home: Path) -> str:
    """Return the lines of spark-defaults.conf that set jars and packages, and no other lines."""
    folder = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")
    try:
        lines = (folder / "spark-defaults.conf").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(line for line in lines if re.match(r"\s*spark\.(jars|jars\.packages)[\s=:]", line))


def _jar(what: str, package: str, without: str, home: Path, version: str, configured: str) -> Finding:
    found = sorted((home / "jars").glob(f"{package}-*.jar"))
    if found:
        return Finding("ok", what, found[0].name)
    if package in configured:
        return Finding("ok", what, "named in spark-defaults.conf")
    return Finding(
        "warning",
        what,
        f"not in Spark's jars, nor in spark-defaults.conf; without it {without}",
        f"unless the job names it: spark.jars.packages=org.apache.spark:{package}:{version}",
    )


# --- a cluster ---------------------------------------------------------------------------------------------


def _cluster(master: str | None, remote: str | None, settings: Mapping[str, str]) -> Iterator[Finding]:
    """Check the executors of a cluster with a small job, and the own Python of a Spark Connect server."""
    if master is None and remote is None:
        return
    from kvformat.registry.spark.probe import ask_executors, ask_server

    try:
        session = _session(master, remote, settings)
    except Exception as cause:  # PySpark's, or Java's
        yield Finding("failed", "cluster", f"Spark did not start: {_first_line(cause)}", "check the URL")
        return
    cancel = session.sparkContext.cancelAllJobs if remote is None else session.interruptAll
    timer = threading.Timer(_CLUSTER_TIMEOUT, cancel)
    timer.start()
    try:
        for report in ask_executors(session):
            yield _python(f"executor on {report.host}".removesuffix(" on "), report, SHIP)
        if remote is not None:
            yield _server(ask_server(session))
    except Exception as cause:
        why = f"it did not end within {_CLUSTER_TIMEOUT} seconds" if timer.finished.is_set() else _first_line(cause)
        yield Finding("failed", "cluster", f"a small job failed: {why}", _OF_EXECUTORS)
    finally:
        timer.cancel()
        session.stop()


def _session(master: str | None, remote: str | None, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(remote) if remote is not None else SparkSession.builder.master(str(master))
    quiet = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"} if remote is None else {}
    for name, value in {**quiet, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _python(what: str, report: PythonReport, advice: str) -> Finding:
    """Return the finding for a Python elsewhere: whether it has this build."""
    where = f"{report.version}, {report.executable}"
    if report.problem:
        return Finding("failed", what, f"{where} can't import kvformat: {report.problem}", advice)
    if report.build:
        return Finding(
            "failed", what, f"{where} has another kvformat: {report.build}; here it is {build_identity()}", advice
        )
    text = f"{where}, kernel {report.kernel}, PyArrow {report.pyarrow}, kvformat of this build"
    if report.why_uncompiled:
        text = f"{text}; the kernel runs as Python, many times slower: {report.why_uncompiled}"
        return Finding("warning", what, text, "build the wheel or the zip for this platform and this minor version")
    return Finding("ok", what, text)


def _server(report: PythonReport) -> Finding:
    """Return the finding for the own Python of a Spark Connect server, which runs `foreachBatch`."""
    what, refused = "Python of the server", batch_python_refused(report)
    if refused is None:
        return _python(what, report, "")
    return Finding("warning", what, f"streams with foreachBatch can't run: {refused[0]}", refused[1])


def _first_line(cause: Exception) -> str:
    text = re.sub(r"(token=)[^;\s]+", r"\1******", str(cause))  # of Spark Connect's URLs
    return mask_userinfo_in_text(next(iter(text.splitlines()), type(cause).__name__))[:300]


# --- services ----------------------------------------------------------------------------------------------


def _tables(text: str, table: str | None, options: Mapping[str, str]) -> Iterator[Finding]:
    created = dict.fromkeys(s.name for s in statements(text) if s.kind == "CREATE TABLE")
    following = following_tables(text)
    try:
        job = read_job(text).tables if following else ()
    except KvFormatError as error:
        yield Finding("failed", "job", str(error))
        return
    followed = {statement.source.name: {**statement.source.table.options, **options} for statement in job}
    for name in [name for name in created if name not in following] if table is None else [table]:
        if name in followed:
            yield from _followed(name, followed[name])
            continue
        try:
            kv = KeyValueFormat.from_ddl(text, table=name, options=options)
            values, verdict = _checked_options(kv)
        except KvFormatError as error:
            yield Finding("failed", f"table {name}", str(error))
            continue
        yield Finding("ok", f"table {name}", verdict)
        yield _brokers(kv.options, name, values["topic"], values["topic-pattern"])
        for part, given in _registries(kv.options):
            yield _registry(given, f"{name} ({part})")


def _checked_options(kv: KeyValueFormat) -> tuple[Mapping[str, Any], str]:
    """Return the connector's options and what is to be said of them; a table may be declared only to be written."""
    try:
        return kv.connector_options("decode"), "its DDL is valid"
    except KvFormatError as reading:
        with contextlib.suppress(KvFormatError):
            return kv.connector_options("encode"), f"its DDL is valid to write it, but not to read it: {reading}"
        raise


def _followed(name: str, options: Mapping[str, str]) -> Iterator[Finding]:
    """Check a table that a CREATE TABLE ... AS TABLE follows; its columns come from the messages."""
    yield Finding(
        "ok", f"table {name}", "is followed by a CREATE TABLE ... AS TABLE; 'kvformat ingest' checks its options"
    )
    specs = {spec.name: spec for spec in KAFKA_OPTIONS}
    try:
        topics = parse_option(specs["topic"], options)
        yield _brokers(options, name, topics, options.get("topic-pattern"))
    except KvFormatError as error:
        yield Finding("failed", f"brokers of {name}", str(error))
    for part, given in _registries(options):
        yield _registry(given, f"{name} ({part})")


def _registries(options: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the format option and the registry options of each part of a table that uses a registry."""
    for option in ("key.format", "value.format", "format"):
        if options.get(option) == OF_REGISTRIES:
            prefix = f"{option.removesuffix('format')}{OF_REGISTRIES}."
            yield option, {key.removeprefix(prefix): text for key, text in options.items() if key.startswith(prefix)}


def _brokers(
    options: Mapping[str, str], table: str = "", topics: tuple[str, ...] | None = None, pattern: str | None = None
) -> Finding:
    what = f"brokers of {table}" if table else "brokers"
    try:
        found = partitions_of(options, topics, pattern)
    except KvFormatError as error:
        return Finding("failed", what, str(error))
    shown = ", ".join(f"{name} ({len(numbers)} partitions)" for name, numbers in found.items())
    return Finding("ok", what, f"{options[BOOTSTRAP]} answer" + (f"; topics {shown}" if shown else ""))


def _registry(given: Mapping[str, str], of: str = "") -> Finding:
    """Check whether a registry answers with the settings of jobs. 'Unknown id' is the expected answer."""
    what = f"registry of {of}" if of else "registry"
    try:
        reader = get_format(OF_REGISTRIES, {**given, "registry-timeout": _REGISTRY_TIMEOUT, "registry-retries": "0"})
        reader.decode_batch(pa.array([_UNKNOWN_ID], pa.binary()), "a INT")
    except KvFormatError as error:
        return Finding(
            "failed", what, mask_userinfo_in_text(str(error)), "check that it runs, its URL, and its credentials"
        )
    url = given.get("url") or given.get("schema-registry.url", "")
    return Finding("ok", what, f"{mask_userinfo(url)} answers")
