"""The rules of Columns, in Spark classic and Connect alike. Each needs a job or two for all samples together."""

from __future__ import annotations

import contextlib
import io
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kvformat.registry.changelog import ChangelogMode
from kvformat.registry.errors import ConfigurationError
from kvformat.registry.format import DecodedBatch, Engine
from kvformat.registry.testing.answers import Answer, Written, answers, row_texts, shown, with_columns
from kvformat.registry.testing.rules import LeftOut, rule
from kvformat.registry.testing.subject import SECRET, Case, Subject
from kvformat.registry.types import nullable, row_type, spark_type

_CHANGED: Final = 30
"""Changed messages of each sample."""
_ZONES: Final = ("America/New_York", "UTC")
"""Two time zones, of which one has hours that are there twice and such that are not there."""


def _messages(subject: Subject, *, proper_text: bool = False) -> list[pa.Array]:
    """Messages of each sample, good ones and changed ones, nulls at the end to make them equally many.

    `proper_text` leaves out messages whose texts are no UTF-8, for which Spark's sinks in memory keep other characters.
    """
    lists: list[list[bytes | None]] = []
    for case in subject.cases:
        changed = subject.changed[case.name][:_CHANGED]
        kept = [message for message in changed if not proper_text or _is_proper(case, message)]
        lists.append([*case.messages.to_pylist(), *kept, None])
    return [_filled(pa.array(messages, pa.binary()), max(map(len, lists))) for messages in lists]


def _is_proper(case: Case, message: bytes) -> bool:
    try:
        case.format.decode_batch(pa.array([message]), case.schema).rows.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _filled(values: pa.Array, count: int) -> pa.Array:
    return pa.concat_arrays([values, pa.nulls(count - len(values), values.type)])


def _good(subject: Subject) -> list[pa.Array]:
    """As `_messages`, only the good ones."""
    longest = max(len(case.messages) for case in subject.cases)
    return [_filled(case.messages, longest) for case in subject.cases]


def _table(**columns: Sequence[pa.Array]) -> pa.Table:
    """A table with a column for each sample, such as `m0`, `m1`, and the number `n` of the row."""
    arrays = {f"{name}{at}": array for name, of_each in columns.items() for at, array in enumerate(of_each)}
    count = len(next(iter(arrays.values())))
    return pa.table({"n": pa.array(range(count), pa.int64()), **arrays})


def _frame_of(spark: Any, table: pa.Table, cases: Sequence[Case]) -> Any:
    """A frame on several partitions; rows have the types of their sample, which Arrow's don't tell."""
    from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

    of = {"n": LongType(), **{f"r{at}": spark_type(nullable(row_type(case.schema))) for at, case in enumerate(cases)}}
    kinds = {"m": BinaryType(), "k": StringType()}
    schema = [StructField(name, of.get(name) or kinds[name[0]]) for name in table.column_names]
    return spark.createDataFrame(table, StructType(schema)).repartition(3)


def _collected(frame: Any, *columns: Any) -> dict[str, pa.Array]:
    """Columns of a frame in the order of `n`."""
    table = frame.select("n", *columns).toArrow().sort_by("n")
    return {name: table[name].combine_chunks() for name in table.column_names}


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


def _same_read(subject: Subject, where: str, messages: pa.Array, found: pa.StructArray, case: Case) -> None:
    pairs, expected = _read(found, case), _by_the_kernel(case, messages)
    subject.same_answers(where, messages, [one for one, _ in pairs], [one for one, _ in expected])
    subject.same(f"{where}, the codes of errors", [code for _, code in pairs], [code for _, code in expected])


def _compare(subject: Subject, spark: Any, where: str) -> None:
    """Columns with the kernels: all messages are decoded and all rows encoded, in one job."""
    if subject.declared.direction != "encode":
        messages = _messages(subject)
        frame = _frame_of(spark, _table(m=messages), subject.cases)
        decoded = [
            case.format.decode_rows(f"m{at}", case.schema, errors="capture").alias(f"d{at}")
            for at, case in enumerate(subject.cases)
        ]
        found = _collected(frame, *decoded)
        for at, case in enumerate(subject.cases):
            _same_read(subject, f"{case.name}, {where}", messages[at], found[f"d{at}"], case)
    if subject.declared.direction != "decode":
        _compare_encoded(subject, spark, where, "auto")


def _compare_encoded(subject: Subject, spark: Any, where: str, engine: Engine) -> None:
    """The messages that Spark writes with those of the kernel, where the format has such an engine."""
    longest = max(len(case.rows) for case in subject.cases)
    rows = [_filled(case.rows, longest) for case in subject.cases]
    kinds = [None if case.kinds is None else _filled(case.kinds, longest).fill_null("+I") for case in subject.cases]
    encoded = []
    for at, case in enumerate(subject.cases):
        with contextlib.suppress(ConfigurationError):  # there is no native engine for these types
            kind = None if kinds[at] is None else f"k{at}"
            column = case.format.encode(f"r{at}", case.schema, row_kind=kind, engine=engine)
            encoded.append(column.alias(f"e{at}"))
    if not encoded:
        return
    inserts = pa.array(["+I"] * longest)
    table = _table(r=rows, k=[inserts if kind is None else kind for kind in kinds])
    found = _collected(_frame_of(spark, table, subject.cases), *encoded)
    for at, case in enumerate(subject.cases):
        if f"e{at}" in found:
            messages = [Written(message, None) for message in found[f"e{at}"].to_pylist()]
            subject.same_written(
                f"{case.name}, {where}, engine {engine}", rows[at], messages, case.encode(rows[at], kinds[at])
            )


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
    subject.doing = "in Spark"
    _compare(subject, spark, "in Spark")


@rule("spark")
def time_zones(subject: Subject, spark: Any, _: Path) -> None:
    """In another time zone of the session Columns give the same: New York's, or UTC if it is that already."""
    zone = next(zone for zone in _ZONES if zone != spark.conf.get("spark.sql.session.timeZone"))
    subject.doing = f"in Spark, in the time zone {zone}"
    with _time_zone(spark, zone):
        _compare(subject, spark, f"in the time zone {zone}")


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
    frame = _frame_of(spark, _table(m=[messages]), [case])
    captured = case.format.decode_rows("m0", case.schema, errors="capture").alias("d0")
    kept = [one and one["message"] for one in _collected(frame, captured)["d0"].field("error").to_pylist()]
    wanted = [message if message == bad else None for message in messages.to_pylist()]
    subject.same(f"{case.name}, the bad message that errors='capture' keeps", kept, wanted)
    code = _by_the_kernel(case, pa.array([bad], pa.binary()))[0][1]
    try:
        _collected(frame, case.format.decode_rows("m0", case.schema).alias("d0"))
        text = "nothing was raised"
    except Exception as error:
        text = str(error)
    for part in (f"[{code}]", f"format '{subject.identifier}' cannot decode a message", "errors='capture'"):
        subject.same(f"{case.name}, errors='raise', which gave {text}: whether {part} is in it", part in text, True)


@rule("spark")
def engines(subject: Subject, spark: Any, _: Path) -> None:
    """A native engine of the format gives what the one of Arrow gives."""
    subject.doing = "the native engine"
    before = subject.compared
    if subject.declared.direction != "decode":
        _compare_encoded(subject, spark, "encoded", "native")
    if subject.declared.direction != "encode" and subject.format.changelog_mode is ChangelogMode.INSERT_ONLY:
        _compare_decoded(subject, spark)
    if subject.compared == before:
        raise LeftOut("the format has no native engine for the samples")


def _compare_decoded(subject: Subject, spark: Any) -> None:
    """The rows that the native engine reads with those of Arrow."""
    pairs: dict[int, list[Any]] = {}
    for at, case in enumerate(subject.cases):
        with contextlib.suppress(ConfigurationError):  # there is no native engine for these types
            pairs[at] = [
                case.format.decode(f"m{at}", case.schema, engine=engine).alias(f"{engine}{at}")
                for engine in ("native", "arrow")
            ]
    if pairs:
        frame = _frame_of(spark, _table(m=_good(subject)), subject.cases)
        found = _collected(frame, *(column for pair in pairs.values() for column in pair))
    for at in pairs:
        native, arrow = row_texts(found[f"native{at}"]), row_texts(found[f"arrow{at}"])
        for message, one, wanted in zip(subject.cases[at].good, native, arrow, strict=False):
            subject.same(f"{subject.cases[at].name}, decoded by the native engine, {shown(message)}", one, wanted)


@rule("spark")
def streams(subject: Subject, spark: Any, folder: Path) -> None:
    """A stream gives what a batch gives."""
    subject.reads()
    subject.doing = "in a stream"
    messages = _messages(subject, proper_text=True)
    source = folder / "messages"
    source.mkdir()
    table = _table(m=messages)
    for part, start in enumerate((0, 7)):
        pq.write_table(table.slice(start, 7 if part == 0 else None), source / f"part{part}.parquet")
    columns = [
        case.format.decode_rows(f"m{at}", case.schema, errors="capture").alias(f"d{at}")
        for at, case in enumerate(subject.cases)
    ]
    schema = ", ".join(["n BIGINT", *(f"m{at} BINARY" for at in range(len(messages)))])
    name = f"kvformat_contract_{uuid.uuid4().hex}"
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    query = stream.select("n", *columns).writeStream.format("memory").queryName(name)
    query = query.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    found = _collected(spark.table(name), *(f"d{at}" for at in range(len(messages))))
    spark.catalog.dropTempView(name)
    for at, case in enumerate(subject.cases):
        _same_read(subject, f"{case.name}, in a stream", messages[at], found[f"d{at}"], case)


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

    for at, case in enumerate(subject.cases):
        subject.doing = f"{case.name}, the plan"
        frame = _frame_of(spark, _table(m=_good(subject)), subject.cases).select(
            case.format.decode_rows(f"m{at}", case.schema, errors="capture").alias("d")
        )
        used = frame.where(F.size("d.rows") > 0).select("d.rows", "d.error.reason")
        physical = _plan(used).partition("== Physical Plan ==")[2]
        subject.same(f"{case.name}, the Python nodes of the plan", physical.count("ArrowEvalPython"), 1)


@rule("spark", page="robustness.md")
def secrets_in_plans(subject: Subject, spark: Any, _: Path) -> None:
    """The value of an option that is declared as a secret is in no plan, and in no text of a Column."""
    specs = [spec for spec in subject.cls.option_specs if spec.sensitive]
    if not specs:
        raise LeftOut("no option is declared as a secret")
    case = subject.cases[0]
    good = _good(subject)[:1]
    for spec in specs:
        subject.doing = f"option '{spec.name}'"
        try:
            value = f"a:{SECRET}" if spec.type == "map" else SECRET
            format = subject.make({**subject.declared.options, spec.name: value})
            columns = []
            if subject.declared.direction != "encode":
                columns.append(format.decode_rows("m0", case.schema, errors="capture").alias("d"))
            if subject.declared.direction != "decode":
                columns.append(format.encode("r0", case.schema).alias("e"))
        except ConfigurationError:
            continue
        frame = _frame_of(spark, _table(m=good, r=[_filled(case.rows, len(good[0]))]), [case]).select(*columns)
        for name, text in (("the plan", _plan(frame)), ("the columns", str(columns))):
            subject.same(f"option '{spec.name}', {name}: whether the secret is in it", SECRET in text, False)
