"""The rules of Columns, in Spark classic and Connect alike. Each needs a job or two for all samples together."""

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

from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.contract.format import DecodedBatch, Engine
from kvformat.registry.contract.schemas import result_arrow_type, row_type
from kvformat.registry.contract.types import nullable, spark_type
from kvformat.registry.testing.answers import Answer, Written, answers, row_texts, shown, with_columns
from kvformat.registry.testing.rules import LeftOut, rule
from kvformat.registry.testing.subject import SECRET, Case, Subject

_CHANGED: Final = 30
"""Changed messages of each sample."""
_ZONES: Final = ("America/New_York", "UTC")
"""Two time zones, of which one has hours that are there twice and such that are not there."""


@dataclass(frozen=True)
class _Sheet:
    """Messages, rows and kinds of each sample, equally many of each: there are nulls at their ends."""

    cases: list[Case]
    messages: list[pa.Array]
    rows: list[pa.Array]
    kinds: list[pa.Array]

    @property
    def table(self) -> pa.Table:
        """Messages as columns `m0`, `m1`, kinds as `k0`, `k1`, and the number `n` of the line."""
        lines = pa.array(range(len(self.messages[0])), pa.int64())
        messages = {f"m{at}": column for at, column in enumerate(self.messages)}
        return pa.table({"n": lines, **messages, **{f"k{at}": column for at, column in enumerate(self.kinds)}})

    def frame(self, spark: Any) -> Any:
        """The table on several partitions, with the rows as columns `r0`, `r1`."""
        return self.with_rows(spark.createDataFrame(self.table).repartition(3))

    def with_rows(self, frame: Any) -> Any:
        """The rows beside their lines; they take the way into Spark that decoded rows take."""
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
        """Columns `d0`, `d1` of what comes of the messages."""
        return [
            case.format.decode_rows(f"m{at}", case.schema, errors="capture").alias(f"d{at}")
            for at, case in enumerate(self.cases)
        ]

    def encoded(self, engine: Engine) -> list[Any]:
        """Columns `e0`, `e1` of what comes of the rows, where the format has the engine for them."""
        columns = []
        for at, case in enumerate(self.cases):
            with contextlib.suppress(ConfigurationError):  # there is no native engine for these types
                kind = None if case.kinds is None else f"k{at}"
                column = case.format.encode(f"r{at}", case.schema, row_kind=kind, engine=engine)
                columns.append(column.alias(f"e{at}"))
        return columns


def _sheet(subject: Subject, *, most_changed: int = _CHANGED) -> _Sheet:
    """Good messages of each sample, changed ones and a null; and its rows."""
    cases = subject.cases
    messages = []
    for case in cases:
        messages.append([*case.messages.to_pylist(), *subject.changed[case.name][:most_changed]])
    count = max(max(map(len, messages)), *(len(case.rows) for case in cases)) + 1
    kinds = [pa.nulls(0, pa.string()) if case.kinds is None else case.kinds for case in cases]
    return _Sheet(
        cases,
        [_filled(pa.array(of, pa.binary()), count) for of in messages],
        [_filled(case.rows, count) for case in cases],
        [_filled(of, count).fill_null("+I") for of in kinds],
    )


def _filled(values: pa.Array, count: int) -> pa.Array:
    return pa.concat_arrays([values, pa.nulls(count - len(values), values.type)])


def _collected(frame: Any, *columns: Any) -> dict[str, pa.Array]:
    """Columns of a frame in the order of `n`."""
    table = frame.select("n", *columns).toArrow().sort_by("n")
    return {name: table[name].combine_chunks() for name in table.column_names}


def _asked(subject: Subject, sheet: _Sheet) -> list[Any]:
    """Columns of all that the format does with the samples."""
    decoded = [] if subject.declared.direction == "encode" else sheet.decoded()
    return [*decoded, *([] if subject.declared.direction == "decode" else sheet.encoded("auto"))]


def _compare(subject: Subject, sheet: _Sheet, found: Mapping[str, pa.Array], where: str) -> None:
    """What Spark has decoded and encoded with what the kernels give."""
    for at, case in enumerate(sheet.cases):
        if f"d{at}" in found:
            pairs, expected = _read(found[f"d{at}"], case), _by_the_kernel(case, sheet.messages[at])
            ones, wanted = [one for one, _ in pairs], [one for one, _ in expected]
            subject.same_answers(f"{case.name}, {where}", sheet.messages[at], ones, wanted)
            codes = [code for _, code in expected]
            subject.same(f"{case.name}, {where}, the codes of errors", [code for _, code in pairs], codes)
        if f"e{at}" in found:
            rows, messages = sheet.rows[at], [Written(message, None) for message in found[f"e{at}"].to_pylist()]
            by_the_kernel = case.encode(rows, None if case.kinds is None else sheet.kinds[at])
            subject.same_written(f"{case.name}, {where}", rows, messages, by_the_kernel)


def _read(captured: pa.StructArray, case: Case) -> list[tuple[Answer, str | None]]:
    """What Spark's rows of `decode_rows(..., errors="capture")` say of each message, and the codes of the errors."""
    lists, error = captured.field("rows"), captured.field("error")
    prefix = f"{case.format.identifier}: "
    reasons = [None if one is None else str(one["reason"]).removeprefix(prefix) for one in error.to_pylist()]
    codes = [None if one is None else one["code"] for one in error.to_pylist()]
    rows = with_columns(lists, range(1, lists.type.value_type.num_fields))
    found = answers(DecodedBatch(rows, lists.values.field(0), pa.array(reasons, pa.string())))
    return list(zip(found, codes, strict=True))


def _by_the_kernel(case: Case, messages: pa.Array) -> list[tuple[Answer, str | None]]:
    batch = case.format.decode_batch(messages, case.schema)
    codes = [None] * len(messages) if batch.codes is None else batch.codes.to_pylist()
    return list(zip(answers(batch), codes, strict=True))


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
    """Columns give what the kernels give, in classic sessions and with Spark Connect: rows, their kinds, errors with
    their codes, and messages.
    """
    subject.doing, sheet = "in Spark", _sheet(subject)
    _compare(subject, sheet, _collected(sheet.frame(spark), *_asked(subject, sheet)), "in Spark")


@rule("spark")
def time_zones(subject: Subject, spark: Any, _: Path) -> None:
    """In another time zone of the session Columns give the same: New York's, or UTC if it is that already."""
    zone = next(zone for zone in _ZONES if zone != spark.conf.get("spark.sql.session.timeZone"))
    subject.doing, sheet = f"in Spark, in the time zone {zone}", _sheet(subject)
    with _time_zone(spark, zone):
        found = _collected(sheet.frame(spark), *_asked(subject, sheet))
    _compare(subject, sheet, found, f"in the time zone {zone}")


@rule("spark")
def policies(subject: Subject, spark: Any, _: Path) -> None:
    """A bad message fails the job with errors="raise"; with errors="capture" it is in the error beside its row."""
    subject.reads()
    case = next((case for case in subject.cases if subject.bad[case.name]), None)
    if case is None:
        raise LeftOut("none of the changed messages is an error; `bad` may name some")
    subject.doing = f"{case.name}, in Spark"
    bad = subject.bad[case.name][0]
    messages = pa.array([*case.good, bad, *case.good], pa.binary())
    frame = spark.createDataFrame(pa.table({"n": pa.array(range(len(messages))), "m": messages})).repartition(3)
    captured = case.format.decode_rows("m", case.schema, errors="capture").alias("d")
    kept = [one and one["message"] for one in _collected(frame, captured)["d"].field("error").to_pylist()]
    wanted = [message if message == bad else None for message in messages.to_pylist()]
    subject.same(f"{case.name}, the bad message that errors='capture' keeps", kept, wanted)
    code = _by_the_kernel(case, pa.array([bad], pa.binary()))[0][1]
    try:
        _collected(frame, case.format.decode_rows("m", case.schema).alias("d"))
        text = "nothing was raised"
    except Exception as error:
        text = str(error)
    for part in (f"[{code}]", f"format '{subject.identifier}' cannot decode a message", "errors='capture'"):
        subject.same(f"{case.name}, errors='raise', which gave {text}: whether {part} is in it", part in text, True)


@rule("spark")
def engines(subject: Subject, spark: Any, _: Path) -> None:
    """A native engine of the format gives what the one of Arrow gives."""
    subject.doing, sheet = "the native engine", _sheet(subject, most_changed=0)
    encoded = [] if subject.declared.direction == "decode" else sheet.encoded("native")
    decoded: dict[int, list[Any]] = {}
    if subject.declared.direction != "encode" and subject.format.changelog_mode is ChangelogMode.INSERT_ONLY:
        for at, case in enumerate(sheet.cases):
            with contextlib.suppress(ConfigurationError):  # there is no native engine for these types
                decoded[at] = [
                    case.format.decode(f"m{at}", case.schema, engine=engine).alias(f"{engine}{at}")
                    for engine in ("native", "arrow")
                ]
    if not encoded and not decoded:
        raise LeftOut("the format has no native engine for the samples")
    asked = [*encoded, *(column for pair in decoded.values() for column in pair)]
    found = _collected(sheet.frame(spark), *asked)
    _compare(subject, sheet, {name: array for name, array in found.items() if name[0] == "e"}, "by the native engine")
    for at in decoded:
        native, arrow = row_texts(found[f"native{at}"]), row_texts(found[f"arrow{at}"])
        for message, one, wanted in zip(sheet.messages[at].to_pylist(), native, arrow, strict=True):
            subject.same(f"{sheet.cases[at].name}, message {shown(message)}, by the native engine", one, wanted)


@rule("spark")
def streams(subject: Subject, spark: Any, folder: Path) -> None:
    """A stream gives what a batch gives."""
    subject.doing, sheet = "in a stream", _sheet(subject)
    source, name = folder / "messages", f"kvformat_contract_{uuid.uuid4().hex}"
    source.mkdir()
    for part, lines in enumerate((sheet.table[:7], sheet.table[7:])):
        pq.write_table(lines, source / f"part{part}.parquet")
    texts = {"n": "BIGINT", "m": "BINARY", "k": "STRING"}
    schema = ", ".join(f"{column} {texts[column[0]]}" for column in sheet.table.column_names)
    read = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    stream = sheet.with_rows(read).select("n", *_asked(subject, sheet)).writeStream.format("memory").queryName(name)
    query = stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    table = spark.table(name)
    found = _collected(table, *(column for column in table.columns if column != "n"))
    spark.catalog.dropTempView(name)
    _compare(subject, sheet, found, "in a stream")


def _plan(frame: Any) -> str:
    """What `explain` prints of a frame: all its plans, the physical one last."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        frame.explain(extended=True)
    return printed.getvalue()


@rule("spark")
def one_python_node(subject: Subject, spark: Any, _: Path) -> None:
    """A plan has one Python node for a decode, also where a filter and several columns use what it gives."""
    subject.reads()
    from pyspark.sql import functions as F

    sheet = _sheet(subject)
    frame = spark.createDataFrame(sheet.table)
    for case, column in zip(sheet.cases, sheet.decoded(), strict=True):
        subject.doing = f"{case.name}, the plan"
        used = frame.select(column.alias("d")).where(F.size("d.rows") > 0).select("d.rows", "d.error.reason")
        physical = _plan(used).partition("== Physical Plan ==")[2]
        subject.same(f"{case.name}, the Python nodes of the plan", physical.count("ArrowEvalPython"), 1)


@rule("spark", page="robustness.md")
def secrets_in_plans(subject: Subject, spark: Any, _: Path) -> None:
    """The value of an option that is declared as a secret is in no plan, and in no text of a Column."""
    specs = [spec for spec in subject.cls.option_specs if spec.sensitive]
    if not specs:
        raise LeftOut("no option is declared as a secret")
    sheet = _sheet(subject)
    frame = sheet.frame(spark)
    for spec in specs:
        subject.doing = f"option '{spec.name}'"
        try:
            value = f"a:{SECRET}" if spec.type == "map" else SECRET
            format = subject.make({**subject.declared.options, spec.name: value})
            asked = _asked(subject, replace(sheet, cases=[replace(sheet.cases[0], format=format)]))
        except ConfigurationError:
            continue
        for name, text in (("the plan", _plan(frame.select(*asked))), ("the columns", str(asked))):
            subject.same(f"option '{spec.name}', {name}: whether the secret is in it", SECRET in text, False)
