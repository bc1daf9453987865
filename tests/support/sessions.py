"""Settings of the Spark sessions of tests: small, on 127.0.0.1, and quick with small batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support import class_archives

JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:MetaspaceSize=512m "
    f"-Djdk.lang.Process.launchMechanism=VFORK {class_archives.options_with(class_archives.SPARK)}"
)
"""Options of a JVM that runs most code only briefly: its second compiler and its parallel collectors would cost more
than they save. The code cache keeps the size that it has with both compilers. No collection begins because of loaded
classes. Hadoop starts a process for most files that it writes, directly with `VFORK`."""

LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.sql.shuffle.partitions": "2",
}
"""Settings of every session."""

FEW_PROCESSES = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager",
}
"""Settings for many small files. By default, Hadoop starts several processes (`readlink`, `chmod`) for each file of a
checkpoint, which is a third of the CPU time of a stream with small batches. Tests of crashes keep what users have."""

QUICK = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings for small batches: to compile their plans would take most of the time."""


def as_options(settings: Mapping[str, str]) -> list[str]:
    """Return settings as options of `spark-submit`."""
    return [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]


def without_checksums(spark: Any) -> None:
    """Let Hadoop write no file with a checksum beside each local file, for which it starts a process too."""
    hadoop = spark._jvm.org.apache.hadoop
    hadoop.fs.FileSystem.getLocal(spark._jsc.hadoopConfiguration()).setWriteChecksum(False)
