"""Settings of the Spark sessions of tests: small, on 127.0.0.1, and quick with small batches."""

from __future__ import annotations

from collections.abc import Mapping

JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""Options of a JVM that runs most code only briefly: its second compiler and its parallel collectors would cost more
than they save. The code cache keeps the size that it has with both compilers."""

LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.sql.shuffle.partitions": "2",
}
"""Settings of every session."""

OWN_FILES = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}
"""Settings for many small files. Otherwise Hadoop starts a process (`chmod`, `readlink`) for each file and its
checksum, which is half of the CPU time of a stream with small batches. Tests of crashes keep what users have."""

QUICK = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings for small batches: to compile their plans would take most of the time."""


def as_options(settings: Mapping[str, str]) -> list[str]:
    """Return settings as options of `spark-submit`."""
    return [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
