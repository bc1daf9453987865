"""Options of Spark's JVM in tests, and an archive of its classes, with which it starts in half the time.

    python -m tests.support.spark_jvm      makes the archive (scripts/test), in a minute

Java compares the archive with its own version and with the class path, and does not use it if they differ.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark

# Tests run most code only briefly, so Java's second compiler and its parallel collectors cost more than they save. The
# code cache keeps the size that it has with both compilers.
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
_JARS = Path(pyspark.__file__).parent / "jars"
_ARCHIVES = Path(__file__).parents[2] / "build" / "jvm"


def _archive() -> Path:
    java = Path(os.environ.get("JAVA_HOME", "")).resolve()
    place = hashlib.sha256(f"{_JARS} {java}".encode()).hexdigest()[:8]
    return _ARCHIVES / f"spark-{pyspark.__version__}-{place}.jsa"


def java_options() -> str:
    """Return the options, as a value for `spark.driver.extraJavaOptions`."""
    return f"{_OPTIONS} -XX:SharedArchiveFile={_archive()}" if _archive().exists() else _OPTIONS


def remember_classes() -> None:
    """Let Py4J ask the JVM for each class and static method once.

    PySpark asks for them with each Column, and Java looks for a class in all jars of Spark for each of a dozen imports.
    That took an eighth of the time of tests with small batches.
    """
    from py4j.java_gateway import JavaClass, JavaMember, JVMView

    for owner in (JVMView, JavaClass):
        lookup = owner.__getattr__
        if lookup.__name__ == "remembered":
            continue

        def remembered(self: Any, name: str, lookup: Callable[[Any, str], Any] = lookup) -> Any:
            found = lookup(self, name)
            if isinstance(found, JavaClass | JavaMember):
                vars(self)[name] = found
            return found

        owner.__getattr__ = remembered


def make_archive() -> None:
    """Run the kinds of queries that tests run, and write the archive of the classes that they used."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    archive = _archive()
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_suffix(f".{os.getpid()}")
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    options = f"{_OPTIONS} -Xlog:cds=off -Xlog:cds+dynamic=off -XX:ArchiveClassesAtExit={partial}"
    spark: Any = builder.config("spark.driver.extraJavaOptions", options).getOrCreate()
    with tempfile.TemporaryDirectory() as scratch:
        rows = spark.createDataFrame(
            [(n, f"v{n}", b"x", [n]) for n in range(20)], "id INT, v STRING, b BINARY, a ARRAY<INT>"
        )
        rows.mapInArrow(lambda batches: batches, rows.schema).write.parquet(f"{scratch}/rows")
        stored = spark.read.parquet(f"{scratch}/rows")
        latest = stored.groupBy("v").agg(F.max_by(F.struct("id", "a"), "id").alias("last")).orderBy("v")
        stored.join(latest, "v", "left").where("id > 3").cache().collect()
        stored.selectExpr("row_number() OVER (PARTITION BY v ORDER BY id) AS n", "to_json(struct(*)) AS j").toArrow()
        stream = spark.readStream.schema(stored.schema).parquet(f"{scratch}/rows").dropDuplicates(["id"])
        for sink in (stream.writeStream.format("parquet").option("path", f"{scratch}/sunk"), _in_batches(stream)):
            place = f"{scratch}/{id(sink)}"
            sink.option("checkpointLocation", place).trigger(availableNow=True).start().awaitTermination()
    gateway = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(300)
    partial.rename(archive)


def _in_batches(stream: Any) -> Any:
    def write(batch: Any, _: int) -> None:
        batch.collect()

    return stream.writeStream.foreachBatch(write)


if __name__ == "__main__":
    if not _archive().exists():
        make_archive()
    print(f"{_archive()}: {_archive().stat().st_size >> 20} MB", file=sys.stderr)
