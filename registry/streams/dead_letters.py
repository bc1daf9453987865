"""Dead letters: bad records kept elsewhere, with their bytes, where they were, and why they are bad.

    split_errors(kv.decode(records, errors="capture")) -> good, bad
    write_dead_letters(bad, "orders-dead", ...)   to a topic: key and value as they came, the rest in headers
    write_dead_letters(bad, "./dead")             to a path: Parquet, a folder for each batch

Both may be done again after a failure: a folder is written again as it was, and of a topic's repeats the headers tell
the topic, partition and offset that the record had. The idea of the headers is that of Kafka Connect's dead letters.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, TypeAlias

from kvformat.registry.contract.errors import ConfigurationError, listed
from kvformat.registry.streams.changes import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    DeadLetterTarget: TypeAlias = str | PathLike[str] | Callable[[DataFrame, int], None]

HEADER = "__kvformat.errors."
"""What the names of our headers begin with."""
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")  # as Kafka's Topic.validate
_TOLD = ("topic", "partition", "offset", "timestamp", "part", "code", "reason")
#: what makes a bad record itself, whatever is said about it
_ITSELF = ("topic", "partition", "offset", "key", "value", "message")


def is_topic(to: object) -> bool:
    """Whether a text names a topic: it has Kafka's letters only and is not `.` or `..`; any other is a path."""
    return isinstance(to, str) and _TOPIC.fullmatch(to) is not None and to not in (".", "..")


def write_dead_letters(
    bad: DataFrame, to: DeadLetterTarget, *, options: Mapping[str, str] | None = None, batch_id: int | None = None
) -> None:
    """Write bad records, as `split_errors` gives them, to a topic or a path.

    A text of letters, digits, `.`, `_` and `-` is a topic, any other a path ("./dead", "s3://bucket/dead"), and so is a
    `Path`. A topic needs `options`, those of Spark's Kafka sink (`kafka.bootstrap.servers`; see
    `KafkaTable.sink_options`). In `foreachBatch` hand on `batch_id`: what is written to a path again after a failure
    then takes the place of the first try. A function is called with the records and `batch_id`, -1 for none.

    In a topic key and value are as they were, and so are the headers; behind these there are `__kvformat.errors.topic`,
    `.partition`, `.offset`, `.timestamp` (milliseconds), `.part`, `.code` and `.reason`, as text, as far as the records
    have the columns. Raises `ConfigurationError` for a target that can't be written.
    """
    DeadLetters.of(to, {} if options is None else options).write(bad, batch_id)


@dataclass(frozen=True, repr=False)
class DeadLetters:
    """Where dead letters go: checked before a job, pickled to `foreachBatch`."""

    to: DeadLetterTarget
    #: those of Spark's Kafka sink; there are secrets among them
    options: Mapping[str, str]

    @classmethod
    def of(cls, to: DeadLetterTarget, options: Mapping[str, str]) -> DeadLetters:
        """Raises `ConfigurationError` for what is no target, and for a topic without brokers."""
        if isinstance(to, PathLike):
            to = os.path.join(".", os.fspath(to))
        if not callable(to) and (not isinstance(to, str) or not to.strip()):
            raise ConfigurationError(
                "dead letters go to a topic, a path, or a function of the records and the batch's number, not to "
                f"{to!r}"
            )
        if is_topic(to) and "kafka.bootstrap.servers" not in options:
            raise ConfigurationError(
                f"dead letters to the topic '{to}' need brokers: 'properties.bootstrap.servers' of the table, or the "
                f"option 'kafka.bootstrap.servers'. For a folder of that name write './{to}'"
            )
        return cls(to, {name: text for name, text in options.items() if name != "topic"})

    @property
    def topic(self) -> str | None:
        """The topic that they go to, if they do."""
        return self.to if isinstance(self.to, str) and is_topic(self.to) else None

    @property
    def topics(self) -> tuple[str, ...]:
        """The same as none or one."""
        return () if self.topic is None else (self.topic,)

    def write(self, bad: DataFrame, batch_id: int | None) -> None:
        """Write those of one batch; `bad` is read several times."""
        if callable(self.to):
            self.to(bad, -1 if batch_id is None else batch_id)
        elif self.topic is not None:
            _as_records(bad).write.format("kafka").options(**self.options, topic=self.topic).save()
        else:
            _to_path(bad, str(self.to), batch_id)


def _as_records(bad: DataFrame) -> DataFrame:
    """Bad records as Spark's Kafka sink takes them."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    names = bad.columns
    value = next((name for name in ("value", "message") if name in names), None)
    if value is None:
        raise ConfigurationError(
            f"dead letters have the column 'value' or 'message', as split_errors gives them, not {listed(names)}"
        )
    header = T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.BinaryType())])
    told = []
    for name in _TOLD:
        if name in names:
            text = F.unix_millis(quoted(name)) if name == "timestamp" else quoted(name)
            told.append(F.struct(F.lit(HEADER + name), text.cast("string").cast("binary")).cast(header))
    headers = F.filter(F.array(*told), lambda one: one["value"].isNotNull())
    if "headers" in names:
        theirs = quoted("headers").cast(T.ArrayType(header))
        headers = F.concat(F.coalesce(theirs, F.array().cast(T.ArrayType(header))), headers)
    key = quoted("key") if "key" in names else F.lit(None)
    columns = [key.cast("binary").alias("key"), quoted(value).cast("binary").alias("value")]
    return bad.select(*columns, headers.cast(T.ArrayType(header)).alias("headers"))


def records_of_letters(letters: DataFrame) -> DataFrame:
    """The records that dead letters were, with Kafka's columns, as `KeyValueFormat.decode` takes them.

    `letters` are the records of a topic of dead letters, with `headers`, or the rows of a path. Where a letter of a
    topic has none of our headers, it is its own record.
    """
    from pyspark.sql import functions as F

    names = letters.columns
    if "timestampType" not in names:  # not as Spark's Kafka source gives them: rows of a path
        return letters.drop("part", "reason", "code", "batch")

    def said(name: str) -> Column:
        ours = F.filter("headers", lambda header: header["key"] == HEADER + name)
        return F.get(ours, F.size(ours) - 1)["value"].cast("string")

    theirs = F.filter("headers", lambda header: ~header["key"].startswith(HEADER))
    time = F.timestamp_millis(said("timestamp").cast("long"))
    return letters.select(
        "key",
        "value",
        F.coalesce(said("topic"), "topic").alias("topic"),
        F.coalesce(said("partition").cast("int"), "partition").alias("partition"),
        F.coalesce(said("offset").cast("long"), "offset").alias("offset"),
        F.coalesce(time, "timestamp").alias("timestamp"),
        F.when(F.size(theirs) > 0, theirs).alias("headers"),
    )


def content_name(bad: DataFrame) -> str:
    """A name made of how many letters there are and of what is in them: the same letters again have the same name."""
    count, mark = _content(bad)
    return f"{count}-{mark}"


def _content(bad: DataFrame) -> tuple[int, str]:
    from pyspark.sql import functions as F

    count, mark = F.count(F.lit(1)), F.hex(F.bit_xor(F.xxhash64(*(quoted(n) for n in _ITSELF if n in bad.columns))))
    found = bad.agg(count, mark).collect()[0]
    return found[0], found[1]


def _to_path(bad: DataFrame, path: str, batch_id: int | None) -> None:
    """A folder named by the batch and by what is in it: the same batch again has the same name, no other one has."""
    count, mark = _content(bad)
    if count == 0:
        return
    name = f"{batch_id:09}-{mark}" if batch_id is not None else f"once-{uuid.uuid4().hex}"
    bad.write.mode("overwrite").parquet(f"{path.rstrip('/')}/batch={name}")
