"""Dead letters: bad records kept elsewhere, with their bytes, their position in Kafka, and the reason.

    split_errors(kv.decode(records, errors="capture")) -> good, bad
    write_dead_letters(bad, "orders-dead", ...)   to a topic: key and value unchanged, everything else in headers
    write_dead_letters(bad, "./dead")             to a path: Parquet, one folder per batch

Both may be repeated after a failure. A folder is overwritten with the same rows. In a topic the headers of a repeated
letter name the topic, partition and offset of its record. The headers are modelled on Kafka Connect's dead letters.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

from kvformat.registry.contract.errors import ConfigurationError, listed
from kvformat.registry.java.regex import RegexError, SlowMatchError, compile_java
from kvformat.registry.spark.decoded_columns import exact_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    DeadLetterTarget: TypeAlias = str | PathLike[str] | Callable[[DataFrame, int], None]

HEADER = "__kvformat.errors."
"""The prefix of the names of our headers."""
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")  # as Kafka's Topic.validate
_HEADER_COLUMNS = ("table", "topic", "partition", "offset", "timestamp", "part", "code", "reason")
_RECORD_COLUMNS = ("topic", "partition", "offset", "key", "value", "message")
"""The columns that identify a bad record; the others describe its error."""


def is_topic(to: object) -> bool:
    """Return whether `to` is a valid topic name, of Kafka's characters, and not `.` or `..`. Other texts are paths."""
    return isinstance(to, str) and _TOPIC.fullmatch(to) is not None and to not in (".", "..")


def write_dead_letters(
    bad: DataFrame, to: DeadLetterTarget, *, options: Mapping[str, str] | None = None, batch_id: int | None = None
) -> None:
    """Write bad records, from `split_errors`, to a topic or a path.

    A text of letters, digits, `.`, `_` and `-` is a topic. Any other text is a path ("./dead", "s3://bucket/dead"), and
    so is a `Path`. A topic needs `options`, the options of Spark's Kafka sink (`kafka.bootstrap.servers`; see
    `KafkaTable.sink_options`). In `foreachBatch` pass `batch_id`: when a batch is repeated after a failure, its folder
    then replaces the one of the first attempt. A function is called with the records and `batch_id`, -1 for None.

    In a topic key, value and headers are unchanged. These headers are added after them, as text, if `bad` has the
    columns: `__kvformat.errors.table`, `.topic`, `.partition`, `.offset`, `.timestamp` (milliseconds), `.part`, `.code`
    and `.reason`. Raises `ConfigurationError` for a target that cannot be written to.
    """
    DeadLetters.of(to, {} if options is None else options).write(bad, batch_id)


@dataclass(frozen=True, repr=False)
class DeadLetters:
    """A target of dead letters: checked before a job, pickled to `foreachBatch`.

    `options` are those of Spark's Kafka sink, and may contain secrets.
    """

    to: DeadLetterTarget
    options: Mapping[str, str]

    @classmethod
    def of(cls, to: DeadLetterTarget, options: Mapping[str, str]) -> DeadLetters:
        """Check a target. Raises `ConfigurationError` if it is invalid, or if it is a topic without brokers."""
        if isinstance(to, PathLike):
            to = os.path.join(".", os.fspath(to))
        if not callable(to) and (not isinstance(to, str) or not to.strip()):
            raise ConfigurationError(
                "the target of dead letters must be a topic, a path, or a function of the records and the batch id, "
                f"not {to!r}"
            )
        if is_topic(to) and "kafka.bootstrap.servers" not in options:
            raise ConfigurationError(
                f"dead letters to the topic '{to}' need brokers: set the table's 'properties.bootstrap.servers' or the "
                f"option 'kafka.bootstrap.servers'. For a folder of that name write './{to}'"
            )
        return cls(to, {name: text for name, text in options.items() if name != "topic"})

    @property
    def topic(self) -> str | None:
        """The topic to write to; None for a path or a function."""
        return self.to if isinstance(self.to, str) and is_topic(self.to) else None

    @property
    def topics(self) -> tuple[str, ...]:
        """The topic to write to, as a tuple; empty for a path or a function."""
        return () if self.topic is None else (self.topic,)

    def is_topic_of(self, values: Mapping[str, Any]) -> bool:
        """Whether the topic is one of a table, by its name or by `topic-pattern`. `values` are its parsed options."""
        if self.topic is None:
            return False
        pattern = values["topic-pattern"]
        return self.topic in (values["topic"] or ()) or (pattern is not None and _matches(pattern, self.topic))

    def check_reading(self, values: Mapping[str, Any]) -> None:
        """Raise `ConfigurationError` for a topic of the table that is read: the letters would be read, too."""
        if self.is_topic_of(values):
            by = "" if values["topic"] else ": its name matches 'topic-pattern'"
            raise ConfigurationError(f"dead letters cannot go to the topic that is read, '{self.topic}'{by}")

    def write(self, bad: DataFrame, batch_id: int | None) -> None:
        """Write the bad records of one batch; reads `bad` several times."""
        if callable(self.to):
            self.to(bad, -1 if batch_id is None else batch_id)
        elif self.topic is not None:
            letter_records(bad).write.format("kafka").options(**self.options, topic=self.topic).save()
        else:
            _write_folder(bad, str(self.to), batch_id)


def _matches(pattern: str, topic: str) -> bool:
    """Whether a topic's name matches a pattern; False for one that only Java can read, which Spark checks."""
    try:
        return compile_java(pattern).matches(topic)
    except (RegexError, SlowMatchError):
        return False


def letter_records(bad: DataFrame) -> DataFrame:
    """Return the dead letters with the columns that Spark's Kafka sink writes: `key`, `value`, `headers`."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    names = bad.columns
    value = next((name for name in ("value", "message") if name in names), None)
    if value is None:
        raise ConfigurationError(
            f"dead letters need the column 'value' or 'message', as split_errors returns them, not {listed(names)}"
        )
    header = T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.BinaryType())])
    added = []
    for name in _HEADER_COLUMNS:
        if name in names:
            text = F.unix_millis(exact_column(name)) if name == "timestamp" else exact_column(name)
            added.append(F.struct(F.lit(HEADER + name), text.cast("string").cast("binary")).cast(header))
    headers = F.filter(F.array(*added), lambda header: header["value"].isNotNull())
    if "headers" in names:
        record_headers = exact_column("headers").cast(T.ArrayType(header))
        headers = F.concat(F.coalesce(record_headers, F.array().cast(T.ArrayType(header))), headers)
    key = exact_column("key") if "key" in names else F.lit(None)
    columns = [key.cast("binary").alias("key"), exact_column(value).cast("binary").alias("value")]
    return bad.select(*columns, headers.cast(T.ArrayType(header)).alias("headers"))


def original_records(letters: DataFrame) -> DataFrame:
    """Return the original records of dead letters, with Kafka's columns, as `KeyValueFormat.decode` takes them.

    `letters` are the records of a dead-letter topic, with `headers`, or the rows of a dead-letter path. A letter in a
    topic without our headers is returned as a record of that topic.
    """
    from pyspark.sql import functions as F

    names = letters.columns
    if "timestampType" not in names:  # rows of a path: Spark's Kafka source always has this column
        return letters.drop("table", "part", "reason", "code", "batch")

    def header_value(name: str) -> Column:
        ours = F.filter("headers", lambda header: header["key"] == HEADER + name)
        return F.get(ours, F.size(ours) - 1)["value"].cast("string")

    others = F.filter("headers", lambda header: ~header["key"].startswith(HEADER))
    time = F.timestamp_millis(header_value("timestamp").cast("long"))
    return letters.select(
        "key",
        "value",
        F.coalesce(header_value("topic"), "topic").alias("topic"),
        F.coalesce(header_value("partition").cast("int"), "partition").alias("partition"),
        F.coalesce(header_value("offset").cast("long"), "offset").alias("offset"),
        F.coalesce(time, "timestamp").alias("timestamp"),
        F.when(F.size(others) > 0, others).alias("headers"),
    )


def content_name(bad: DataFrame) -> str:
    """Return a name built from the number of letters and their content: equal letters have equal names."""
    count, content_hash = _content(bad)
    return f"{count}-{content_hash}"


def _content(bad: DataFrame) -> tuple[int, str]:
    """Return the number of letters and a hash of their content that does not depend on their order."""
    from pyspark.sql import functions as F

    columns = [exact_column(name) for name in _RECORD_COLUMNS if name in bad.columns]
    row_hash = F.xxhash64(*columns, *(column.isNull() for column in columns))  # Spark's hash skips nulls
    # The sum of decimals has all digits. With bit_xor, two equal letters would hash like none.
    count, total = bad.agg(F.count(F.lit(1)), F.sum(row_hash.cast("decimal(20,0)"))).collect()[0]
    return count, f"{int(total or 0) % 2**64:X}"


def _write_folder(bad: DataFrame, path: str, batch_id: int | None) -> None:
    """Write a folder named after the batch and its content: a repeated batch overwrites its own folder only."""
    count, content_hash = _content(bad)
    if count == 0:
        return
    name = f"{batch_id:09}-{content_hash}" if batch_id is not None else f"once-{uuid.uuid4().hex}"
    bad.write.mode("overwrite").parquet(f"{path.rstrip('/')}/batch={name}")
