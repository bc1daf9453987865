"""Rules of Columns, for classic Spark and Spark Connect. Each rule runs one or two jobs for all samples together."""

from __future__ import annotations

import contextlib
import io
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.schemas import result_arrow_type, row_type
from kvformat.registry.contract.types import nullable, spark_type
from kvformat.registry.format import Engine
from kvformat.registry.testing.results import (
    DecodeResult,
    EncodeResult,
    decode_results,
    hex_text,
    row_texts,
    select_columns,
)
from kvformat.registry.testing.rules import NotApplicable, rule
from kvformat.registry.testing.subject import SECRET, Case, Subject, cut

_CHANGED: Final = 30
"""Number of changed messages of each sample."""
_ZONES: Final = ("America/New_York", "UTC")
"""New York has daylight saving time: some local hours occur twice and others do not exist."""


@dataclass(frozen=True)
class _SampleTable:
    """Messages, rows and row kinds of each sample, padded with nulls to the same length."""

    cases: list[Case]
    messages: list[pa.Array]
    rows: list[pa.Array]
    kinds: list[pa.Array]

    @property
    def table(self) -> pa.Table:
        """A table of messages as columns `m0`, `m1`, row kinds as `k0`, `k1`, and the line number `n`."""
        lines = pa.array(range(len(self.messages[0])), pa.int64())
        messages = {f"m{at}": column for at, column in enumerate(self.messages)}
        return pa.table({"n": lines, **messages, **{f"k{at}": column for at, column in enumerate(self.kinds)}})

    def frame(self, spark: Any) -> Any:
        """Return the table as a DataFrame of several partitions, with the rows as columns `r0`, `r1`."""
        return self.with_rows(spark.createDataFrame(self.table).repartition(3))

    def with_rows(self, frame: Any) -> Any:
        """Add the rows as columns, with the conversion to Spark that decoded rows use."""
        from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # PySpark's stubs leave it out

        columns = []
        for at, (case, rows) in enumerate(zip(self.cases, self.rows, strict=True)):
            of = nullable(row_type(case.schema))
            plain = rows.cast(result_arrow_type(of))

            def udf(lines: pa.Array, plain: pa.Array = plain) -> pa.Array:
                return plain.take(lines)

            columns.append(arrow_udf(udf, spark_type(of, wire=True))("n").cast(spark_type(of)).alias(f"r{at}"))
        return frame.select("*", *columns)

    def decoded(self) -> list[Any]:
        """Return columns `d0`, `d1` that decode the messages."""
        return [
            case.format.decode_rows(f"m{at}", case.schema, errors="capture").alias(f"d{at}")
            for at, case in enumerate(self.cases)
        ]

    def encoded(self, engine: Engine) -> list[Any]:
        """Return columns `e0`, `e1` that encode the rows. Samples that the engine does not support are left out."""
        columns = []
        for at, case in enumerate(self.cases):
            with contextlib.suppress(ConfigurationError):  # there is no native engine for these types
                kind = None if case.kinds is None else f"k{at}"
                column = case.format.encode(f"r{at}", case.schema, row_kind=kind, engine=engine)
                columns.append(column.alias(f"e{at}"))
        return columns


def _sample_table(subject: Subject, *, changed_count: int = _CHANGED) -> _SampleTable:
    """Return good messages, changed messages and a null, and the rows of each sample."""
    cases = subject.cases
    messages = [[*case.messages.to_pylist(), *subject.changed[case.name][:changed_count]] for case in cases]
    count = max(max(map(len, messages)), *(len(case.rows) for case in cases)) + 1
    kinds = [pa.nulls(0, pa.string()) if case.kinds is None else case.kinds for case in cases]
    return _SampleTable(
        cases,
        [_filled(pa.array(of, pa.binary()), count) for of in messages],
        [_filled(case.rows, count) for case in cases],
        [_filled(of, count).fill_null("+I") for of in kinds],
    )


def _filled(values: pa.Array, count: int) -> pa.Array:
    return pa.concat_arrays([values, pa.nulls(count - len(values), values.type)])


def _collected(frame: Any, *columns: Any) -> dict[str, pa.Array]:
    """Run the frame and return its columns, ordered by `n`."""
    table = frame.select("n", *columns).toArrow().sort_by("n")
    return {name: table[name].combine_chunks() for name in table.column_names}


def _requested_columns(subject: Subject, samples: _SampleTable) -> list[Any]:
    """Return columns that decode and encode the samples, for the directions of the format."""
    decoded = [] if subject.declared.direction == "encode" else samples.decoded()
    return [*decoded, *([] if subject.declared.direction == "decode" else samples.encoded("auto"))]


def _compare(subject: Subject, samples: _SampleTable, arrays: Mapping[str, pa.Array], where: str) -> None:
    """Compare Spark's results with the results of `decode_batch` and `encode_batch`."""
    for at, case in enumerate(samples.cases):
        if f"d{at}" in arrays:
            pairs, expected = _read_captured(arrays[f"d{at}"], case), _decode_without_spark(case, samples.messages[at])
            results, wanted = [result for result, _ in pairs], [result for result, _ in expected]
            subject.check_decoded(f"{case.name}, {where}", samples.messages[at], results, wanted)
            codes = [code for _, code in expected]
            subject.check_equal(f"{case.name}, {where}, error codes", [code for _, code in pairs], codes)
        if f"e{at}" in arrays:
            rows, messages = samples.rows[at], [EncodeResult(message, None) for message in arrays[f"e{at}"].to_pylist()]
            expected_messages = case.encode(rows, None if case.kinds is None else samples.kinds[at])
            subject.check_encoded(f"{case.name}, {where}", rows, messages, expected_messages)


def _read_captured(captured: pa.StructArray, case: Case) -> list[tuple[DecodeResult, str | None]]:
    """Convert Spark's result of `decode_rows(..., errors="capture")` to a result and an error code per message."""
    lists, error = captured.field("rows"), captured.field("error")
    prefix = f"{case.format.identifier}: "
    reasons = [None if value is None else str(value["reason"]).removeprefix(prefix) for value in error.to_pylist()]
    codes = [None if value is None else value["code"] for value in error.to_pylist()]
    rows = select_columns(lists, range(1, lists.type.value_type.num_fields))
    results = decode_results(DecodedBatch(rows, lists.values.field(0), pa.array(reasons, pa.string())))
    return list(zip(results, codes, strict=True))


def _decode_without_spark(case: Case, messages: pa.Array) -> list[tuple[DecodeResult, str | None]]:
    batch = case.format.decode_batch(messages, case.schema)
    codes = [None] * len(messages) if batch.codes is None else batch.codes.to_pylist()
    return list(zip(decode_results(batch), codes, strict=True))


@contextlib.contextmanager
def _time_zone(spark: Any, name: str) -> Iterator[None]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", name)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@rule("spark")
def columns(subject: Subject, spark: Any, _: Path) -> None:
    """Columns give the same rows, row kinds, errors, error codes and messages as `decode_batch` and `encode_batch`, in
    classic sessions and with Spark Connect.
    """
    subject.context, samples = "in Spark", _sample_table(subject)
    _compare(subject, samples, _collected(samples.frame(spark), *_requested_columns(subject, samples)), "in Spark")


@rule("spark")
def time_zones(subject: Subject, spark: Any, _: Path) -> None:
    """The time zone of the Spark session does not change the results of Columns."""
    zone = next(zone for zone in _ZONES if zone != spark.conf.get("spark.sql.session.timeZone"))
    subject.context, samples = f"in Spark, in the time zone {zone}", _sample_table(subject)
    with _time_zone(spark, zone):
        arrays = _collected(samples.frame(spark), *_requested_columns(subject, samples))
    _compare(subject, samples, arrays, f"in the time zone {zone}")


@rule("spark", needs=("decode",))
def policies(subject: Subject, spark: Any, _: Path) -> None:
    """With errors="raise" a bad message fails the job. With errors="capture" the `error` column has the message."""
    case = next((case for case in subject.cases if subject.bad[case.name]), None)
    if case is None:
        raise NotApplicable("no changed message is an error; declare some in `bad`")
    subject.context = f"{case.name}, in Spark"
    bad = subject.bad[case.name][0]
    messages = pa.array([*case.good, bad, *case.good], pa.binary())
    frame = spark.createDataFrame(pa.table({"n": pa.array(range(len(messages))), "m": messages})).repartition(3)
    captured = case.format.decode_rows("m", case.schema, errors="capture").alias("d")
    kept = [error and error["message"] for error in _collected(frame, captured)["d"].field("error").to_pylist()]
    wanted = [message if message == bad else None for message in messages.to_pylist()]
    subject.check_equal(f"{case.name}, the messages in `error` with errors='capture'", kept, wanted)
    code = _decode_without_spark(case, pa.array([bad], pa.binary()))[0][1]
    try:
        _collected(frame, case.format.decode_rows("m", case.schema).alias("d"))
        text = "no error"
    except Exception as error:
        text = str(error)
    for part in (f"[{code}]", f"format '{subject.identifier}' cannot decode a message", "errors='capture'"):
        subject.check(f"{case.name}, errors='raise'", part in text, f"expected an error with {part}, got: {cut(text)}")


@rule("spark")
def engines(subject: Subject, spark: Any, _: Path) -> None:
    """A format's native engine gives the same results as its Arrow engine."""
    subject.context, samples = "the native engine", _sample_table(subject, changed_count=0)
    encoded = [] if subject.declared.direction == "decode" else samples.encoded("native")
    decoded: dict[int, list[Any]] = {}
    if subject.declared.direction != "encode" and subject.format.changelog_mode is ChangelogMode.INSERT_ONLY:
        for at, case in enumerate(samples.cases):
            with contextlib.suppress(ConfigurationError):  # there is no native engine for these types
                decoded[at] = [
                    case.format.decode(f"m{at}", case.schema, engine=engine).alias(f"{engine}{at}")
                    for engine in ("native", "arrow")
                ]
    if not encoded and not decoded:
        raise NotApplicable("the format has no native engine for the samples")
    requested = [*encoded, *(column for pair in decoded.values() for column in pair)]
    arrays = _collected(samples.frame(spark), *requested)
    _compare(
        subject, samples, {name: array for name, array in arrays.items() if name[0] == "e"}, "by the native engine"
    )
    for at in decoded:
        native, arrow = row_texts(arrays[f"native{at}"]), row_texts(arrays[f"arrow{at}"])
        for message, result, wanted in zip(samples.messages[at].to_pylist(), native, arrow, strict=True):
            where = f"{samples.cases[at].name}, message {hex_text(message)}, by the native engine"
            subject.check_equal(where, result, wanted)


@rule("spark")
def streams(subject: Subject, spark: Any, folder: Path) -> None:
    """A streaming query gives the same results as a batch query."""
    subject.context, samples = "in a stream", _sample_table(subject)
    source, name = folder / "messages", f"kvformat_contract_{uuid.uuid4().hex}"
    source.mkdir()
    for part, lines in enumerate((samples.table[:7], samples.table[7:])):
        pq.write_table(lines, source / f"part{part}.parquet")
    texts = {"n": "BIGINT", "m": "BINARY", "k": "STRING"}
    schema = ", ".join(f"{column} {texts[column[0]]}" for column in samples.table.column_names)
    read = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    results = samples.with_rows(read).select("n", *_requested_columns(subject, samples))
    stream = results.writeStream.format("memory").queryName(name)
    query = stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    table = spark.table(name)
    arrays = _collected(table, *(column for column in table.columns if column != "n"))
    spark.catalog.dropTempView(name)
    _compare(subject, samples, arrays, "in a stream")


def _plan(frame: Any) -> str:
    """Return the output of `explain`: all plans of a frame, the physical plan last."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        frame.explain(extended=True)
    return printed.getvalue()


@rule("spark", needs=("decode",))
def one_python_node(subject: Subject, spark: Any, _: Path) -> None:
    """A plan has one Python node for each decode, also if a filter and several columns use its result."""
    from pyspark.sql import functions as F

    samples = _sample_table(subject)
    frame = spark.createDataFrame(samples.table)
    for case, column in zip(samples.cases, samples.decoded(), strict=True):
        subject.context = f"{case.name}, the plan"
        used = frame.select(column.alias("d")).where(F.size("d.rows") > 0).select("d.rows", "d.error.reason")
        physical = _plan(used).partition("== Physical Plan ==")[2]
        subject.check_equal(f"{case.name}, the Python nodes of the plan", physical.count("ArrowEvalPython"), 1)


@rule("spark", page="robustness.md")
def secrets_in_plans(subject: Subject, spark: Any, _: Path) -> None:
    """The value of a sensitive option never appears in a plan or in the text of a Column."""
    specs = [spec for spec in subject.cls.option_specs if spec.sensitive]
    if not specs:
        raise NotApplicable("no option is declared as sensitive")
    samples = _sample_table(subject)
    frame = samples.frame(spark)
    for spec in specs:
        subject.context = f"option '{spec.name}'"
        try:
            value = f"a:{SECRET}" if spec.type == "map" else SECRET
            format = subject.make({**subject.declared.options, spec.name: value})
            requested = _requested_columns(subject, replace(samples, cases=[replace(samples.cases[0], format=format)]))
        except ConfigurationError:
            continue
        for name, text in (("the plan", _plan(frame.select(*requested))), ("the columns", str(requested))):
            subject.check(f"option '{spec.name}'", SECRET not in text, f"{name} shows the secret")
