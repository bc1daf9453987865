"""Archives of the classes that a JVM has loaded, with which the next one starts in half of the CPU time.

    python -m tests.support.class_archives      # writes those of this environment, in about half a minute

A JVM takes an archive only if its own version and its jars are those that wrote it, and starts as usual otherwise, also
without one.
"""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

SPARK = Path(sys.prefix) / "spark.jsa"
_QUIET = "-Xlog:cds*=off"  # nobody needs to know that an archive does not fit


def options_with(archive: Path) -> str:
    """Return the options of a JVM that uses an archive."""
    return f"-XX:SharedArchiveFile={archive} {_QUIET}"


def _write(archive: Path, version: str, run: Callable[[str], None]) -> None:
    """Write an archive, unless there is one of this version.

    `run` starts a JVM with the options that it gets, and lets it end.
    """
    stamp, partial = archive.with_suffix(".version"), archive.with_suffix(".partial")
    with open(archive.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # environments may share the archive
        if archive.exists() and stamp.exists() and stamp.read_text() == version:
            return
        partial.unlink(missing_ok=True)
        run(f"-XX:ArchiveClassesAtExit={partial} {_QUIET}")
        partial.rename(archive)
        stamp.write_text(version)


def _run_session(java: str) -> None:
    """Do in a session of Spark what most tests do."""
    from pyspark.sql import SparkSession

    from tests.support import sessions

    options = sessions.JAVA.replace(options_with(SPARK), java)
    settings = {**sessions.LOCAL, **sessions.FEW_PROCESSES, "spark.driver.extraJavaOptions": options}
    with tempfile.TemporaryDirectory() as folder:
        builder = SparkSession.builder.master("local[2]").config(map=settings)
        spark = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse").getOrCreate()
        rows = spark.range(100).selectExpr("id", "cast(id AS STRING) AS text", "named_struct('a', array(id)) AS nested")
        rows.mapInArrow(lambda batches: batches, rows.schema).groupBy("text").count().collect()
        rows.write.parquet(f"{folder}/rows")
        stream = spark.readStream.schema(rows.schema).parquet(f"{folder}/rows").dropDuplicates(["text"])
        writer = stream.writeStream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
        writer.foreachBatch(lambda batch, number: batch.toArrow()).start().awaitTermination()
        gateway = spark.sparkContext._gateway
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()  # the JVM writes when it ends


def _run_broker(java: str) -> None:
    from tests.support import services

    with tempfile.TemporaryDirectory() as folder:
        broker = services.KafkaBroker(Path(folder), java=java)
        broker.start()
        broker.stop()


def main() -> None:
    """Write the archives of Spark and of the Kafka broker."""
    import pyspark

    from tests.support import services

    java = Path(os.environ["JAVA_HOME"], "release").read_text()
    _write(SPARK, f"PySpark {pyspark.__version__}\n{java}", _run_session)
    _write(services.BROKER_CLASSES, f"{services.fetched('broker')}\n{java}", _run_broker)


if __name__ == "__main__":
    main()
