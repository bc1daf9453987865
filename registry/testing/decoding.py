"""The rules of decoding: what comes of messages, whatever is in them and beside them."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from kvformat.registry.contract.check_results import Checker
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import DataError, SchemaError
from kvformat.registry.contract.format import DecodedBatch
from kvformat.registry.contract.schemas import resolve_schema
from kvformat.registry.contract.types import arrow_type
from kvformat.registry.testing.answers import (
    LAYOUTS,
    Answer,
    answers,
    shown,
    with_columns,
    with_garbage_under_nulls,
)
from kvformat.registry.testing.edges import NO_TIMES, OTHERS, WIDER, in_range, rows_of
from kvformat.registry.testing.edges import shown as values_of
from kvformat.registry.testing.rules import Breach, LeftOut, rule
from kvformat.registry.testing.subject import LARGE, SEED, Case, Subject, as_array, cut

_COLUMNS: Final = 200
_NAMES: Final = (
    ("user_Id", "user_id"),
    ("user_id", "USER_ID"),
    ("caf\u00e9", "cafe\u0301"),
    ("cafe\u0301", "caf\u00e9"),
    ("\ufb01le", "file"),
    ("stra\u00dfe", "strasse"),
)
"""Names that are equal without their case, or in one of Unicode's normal forms, and yet two names."""
_NULL: Final = Answer(None, (), None)


def _mixed(subject: Subject, case: Case, count: int) -> list[bytes | None]:
    """Good messages, changed ones and nulls in a random order, as many as `count`."""
    rng = random.Random(SEED)
    some: list[bytes | None] = [*case.messages.to_pylist(), *subject.changed[case.name], None, None]
    rng.shuffle(some)
    return some[:count]


@rule("decode")
def shapes(subject: Subject) -> None:
    """Rows are a list array of structs, one list per message, with the columns of the schema in their order and
    with their exact types, and text that is UTF-8; there is a known kind per row, and an error or null per message.
    """
    subject.reads()
    for case in subject.cases:
        subject.doing = case.name
        for messages in (case.messages, as_array([None, *case.good, None])):
            batch = case.format.decode_arrow(messages, case.schema)
            Checker(subject.identifier, "decode_arrow").decoded(batch, messages, case.stored)
            _validate(case.name, batch)
            subject.compared += len(messages)


def _validate(where: str, batch: DecodedBatch) -> None:
    """Raise `Breach` for what is not proper Arrow data, such as text that is not UTF-8."""
    try:
        for array in (batch.rows, batch.row_kinds, batch.errors):
            if array is not None:
                array.validate(full=True)
    except pa.ArrowException as error:
        raise Breach(f"{where}: proper Arrow data was expected, but {error}") from None


@rule("decode")
def null_messages(subject: Subject) -> None:
    """A null message gives a null list, no row and no error, wherever it is in a batch; a row, or an error, where that
    is declared.
    """
    subject.reads()
    for case in subject.cases:
        subject.doing = case.name
        null, good = case.null_answer(subject.declared), case.good
        subject.same_answers(f"{case.name}, nothing but null messages", [None] * 2, case.decode([None] * 2), [null] * 2)
        found = case.decode([part for message in good for part in (None, message)])
        subject.same_answers(f"{case.name}, between others", [None] * len(good), found[::2], [null] * len(good))


@rule("decode")
def skipped_messages(subject: Subject) -> None:
    """A message that the format skips gives an empty list and no error."""
    subject.reads()
    if not subject.declared.skipped:
        raise LeftOut("the format is not said to skip any message")
    case, skipped = subject.cases[0], list(subject.declared.skipped)
    subject.doing = case.name
    subject.same_answers(case.name, skipped, case.decode(skipped), [Answer("[]", (), None)] * len(skipped))


@rule("decode")
def errors_have_no_rows(subject: Subject) -> None:
    """A message with an error has a null list, and a text that says why; no other message has an error."""
    subject.reads()
    for case in subject.cases:
        subject.doing = case.name
        messages = _mixed(subject, case, 200)
        try:
            batch = case.format.decode_arrow(as_array(messages), case.schema)
        except Exception as error:
            raise LeftOut(f"the rule never_raises is broken by {type(error).__name__}") from None
        for message, one in zip(messages, answers(batch), strict=True):
            where = f"{case.name}, message {shown(message)}"
            wordless = one.error is not None and not one.error.strip()
            subject.same(f"{where}, whether there is an error without words", wordless, False)
            if one.error is not None or one.rows is None:
                subject.same(where, one, Answer(None, (), one.error))
                is_error = message is not None or subject.declared.null_is_error
                subject.same(f"{where}, whether there is an error", one.error is not None, is_error)


@rule("decode", page="plugins.md#what-the-kit-checks")
def bad_messages(subject: Subject) -> None:
    """A message that is malformed is an error, never a row of NULLs: the author of a format names some."""
    subject.reads()
    declared, case = subject.declared, subject.cases[0]
    subject.doing = case.name
    if declared.never_bad:
        found = [message for some in subject.bad.values() for message in some]
        where = f"no message is an error, as `never_bad` says ({declared.never_bad}): {shown(next(iter(found), None))}"
        subject.same(f"{where}, the number of errors", len(found), 0)
        return
    if not declared.bad:
        raise Breach(
            "`bad` names no message. Give some that the format can't read with the schema of the first sample, such as "
            "torn ones; or say in `never_bad` why there are none"
        )
    for message, one in zip(declared.bad, case.decode(declared.bad), strict=True):
        found_one = "an error" if one.error is not None else str(one)
        subject.same(f"{case.name}, the bad message {shown(message)}", found_one, "an error")


@rule("decode")
def layouts(subject: Subject) -> None:
    """Messages decode the same in any array: a slice, chunks, large_binary, binary_view, a dictionary."""
    subject.reads()
    for case in subject.cases:
        subject.doing = case.name
        messages = as_array(_mixed(subject, case, 60))
        expected = case.decode(messages)
        for name, layout in LAYOUTS.items():
            found = answers(case.format.decode_batch(layout(messages), case.schema))
            subject.same_answers(f"{case.name}, as {name}", messages, found, expected)
        for start, stop in ((1, len(messages)), (0, len(messages) // 2), (3, 3), (5, 6)):
            part = messages[start:stop]
            subject.same_answers(
                f"{case.name}, as {start}:{stop} of them", part, case.decode(part), expected[start:stop]
            )


@rule("decode")
def garbage_under_nulls(subject: Subject) -> None:
    """What bytes lie under a null message does not matter."""
    subject.reads()
    for case in subject.cases:
        subject.doing = case.name
        messages = as_array([part for message in case.good for part in (None, message)])
        found = case.decode(with_garbage_under_nulls(messages))
        subject.same_answers(f"{case.name}, bytes under nulls", messages, found, case.decode(messages))


@rule("decode")
def empty_batches(subject: Subject) -> None:
    """An empty batch gives an empty batch of the same types."""
    subject.reads()
    for case in subject.cases:
        subject.doing = f"{case.name}, an empty batch"
        batch = case.format.decode_arrow(as_array([]), case.schema)
        Checker(subject.identifier, "decode_arrow").decoded(batch, as_array([]), case.stored)
        subject.same(subject.doing, answers(batch), [])


@rule("decode")
def zero_columns(subject: Subject) -> None:
    """A schema without columns is refused by a SchemaError, or gives a list for each message all the same."""
    subject.reads()
    for case in subject.cases:
        subject.doing = f"{case.name}, without columns"
        try:
            batch = case.format.decode_batch(case.messages, pa.schema([]))
        except SchemaError:
            subject.compared += 1
            continue
        _no_failure(subject, subject.doing, case.messages.to_pylist(), batch)


@rule("decode", page="flink.md#schemas")
def types(subject: Subject) -> None:
    """A type that the format serves is served, one that it does not is refused by a SchemaError at the first call,
    also for an empty batch.
    """
    if not subject.declared.types:
        raise LeftOut("no types are tried")
    for flink in subject.declared.types:
        subject.doing = f"an empty batch of {flink}"
        for direction, refusal in subject.refuses(flink).items():
            where = f"{direction} of an empty batch of {flink}{f' ({refusal})' if refusal else ''}"
            expected = "a SchemaError, as the type is unsupported" if subject.is_unsupported(flink) else "no error"
            found = "no error" if refusal is None else "a SchemaError, as the type is unsupported"
            subject.same(where, found, expected)
            if refusal is not None:
                subject.same(f"{where}, whether the error says more than a word", len(str(refusal).split()) > 2, True)


@rule("decode", page="flink.md#schemas")
def edges(subject: Subject) -> None:
    """A value at the edge of its type comes out as it was, or is an error of its own message or row; at least half of
    the edges of a type come out.
    """
    subject.reads()
    subject.writes()
    if not subject.served:
        raise LeftOut("no types are tried")
    for flink in subject.served:
        subject.doing = f"the edges of {flink}"
        rows, schema = rows_of(flink), resolve_schema(f"v {flink}")
        encoded = subject.format.encode_batch(rows, schema)
        found = answers(subject.format.decode_batch(encoded.messages, schema))
        failed = [False] * len(rows) if encoded.errors is None else encoded.errors.is_valid().to_pylist()
        changes = subject.declared.changed_values.get(flink, {})
        messages = encoded.messages.to_pylist()
        errors = sum(is_error or one.error is not None for is_error, one in zip(failed, found, strict=True))
        where = f"{flink}, of which {errors} of {len(rows)} edges are errors: whether most come out"
        subject.same(where, 2 * errors <= len(rows), True)
        for value, message, one, is_error in zip(values_of(rows), messages, found, failed, strict=True):
            where = f"{flink}, the value {cut(value)}, message {shown(message)}"
            impossible = flink == "TIME(3)" and value in NO_TIMES
            subject.same(f"{where}, whether a time of no day is an error", is_error or not impossible, True)
            if not is_error and one.error is None:
                subject.same(where, one.rows, f"[{{'v': {changes.get(value, value)}}}]")


@rule("decode", page="flink.md#schemas")
def overflow(subject: Subject) -> None:
    """A number beyond the range of its type is an error of its message, never another number."""
    subject.reads()
    subject.writes()
    served = set(subject.served).difference(subject.declared.unlike_wider)
    pairs = [(narrow, *of) for narrow, of in WIDER.items() if narrow in served and of[0] in subject.served]
    if not pairs:
        raise LeftOut("no two types of integers are tried, of which one is the wider")
    for narrow, wide, bits in pairs:
        subject.doing = f"{wide} read as {narrow}"
        numbers = [2 ** (bits - 1), -(2 ** (bits - 1)) - 1, 2**bits, 2**bits + 1]
        kind = arrow_type(parse_type(wide))
        numbers = [number for number in numbers if in_range(number, wide)]
        rows = pa.StructArray.from_arrays([pa.array(numbers, kind)], names=["v"])
        messages = subject.format.encode_batch(rows, f"v {wide}").messages
        found = answers(subject.format.decode_batch(messages, f"v {narrow}"))
        for number, message, one in zip(numbers, messages.to_pylist(), found, strict=True):
            expected = one.error is not None or one.rows in (None, "[]", "[{'v': None}]")
            where = f"{number} of {wide}, message {shown(message)}, read as {narrow}"
            subject.same(f"{where}, which gave {one}: whether it is an error or NULL", expected, True)


@rule("decode", page="plugins.md#what-the-kit-checks")
def other_types(subject: Subject) -> None:
    """A value of another type is an error or NULL, never another value: 7.9 and true are not an INT, a text is
    not a number.
    """
    subject.reads()
    subject.writes()
    if subject.declared.untyped:
        raise LeftOut(f"a value may be read as another one: {subject.declared.untyped}")
    before = subject.compared
    for written, (values, others) in OTHERS.items():
        messages = _messages_of(subject, written, values)
        for read in others:
            if read in subject.served and messages:
                subject.doing = f"{written} read as {read}"
                changes = subject.declared.changed_reads.get(f"{written} as {read}", {})
                found = answers(subject.format.decode_batch(as_array([*messages.values()]), f"v {read}"))
                for (value, message), one in zip(messages.items(), found, strict=True):
                    no_value = one.error is not None or one.rows in (None, "[]", "[{'v': None}]")
                    expected = f"[{{'v': {changes[value]}}}]" if value in changes else "an error or NULL"
                    where = f"{value} of {written}, message {shown(message)}, read as {read}"
                    subject.same(where, one.rows if value in changes or not no_value else expected, expected)
    if subject.compared == before:
        raise LeftOut("no two types are tried of which one has values that the other has not")


def _messages_of(subject: Subject, flink: str, values: list[Any]) -> dict[str, bytes]:
    """The message of each value of a type by the value's text, as far as the format writes it."""
    rows = pa.StructArray.from_arrays([pa.array(values, arrow_type(parse_type(flink)))], names=["v"])
    if subject.is_unsupported(flink):
        return {}
    try:
        batch = subject.format.encode_batch(rows, f"v {flink}")
    except SchemaError:  # the author does not name it, and yet it is not served
        return {}
    pairs = zip(values_of(rows), batch.messages.to_pylist(), strict=True)
    return {value: message for value, message in pairs if message is not None}


@rule("decode", page="plugins.md#what-the-kit-checks")
def names(subject: Subject) -> None:
    """A column is found by its very name: not by one in other letters of upper and lower case, or in another of
    Unicode's normal forms.
    """
    subject.reads()
    subject.writes()
    flink = next((flink for flink in ("BIGINT", "INT", "STRING") if flink in subject.served), None)
    if flink is None:
        raise LeftOut("neither BIGINT, INT nor STRING is tried")
    value = "seven" if flink == "STRING" else 7
    before = subject.compared
    for written, read in _NAMES:
        subject.doing = f"a column {written!r} read as {read!r}"
        rows = pa.StructArray.from_arrays([pa.array([value], arrow_type(parse_type(flink)))], names=[written])
        try:
            messages = subject.format.encode_batch(rows, f"`{written}` {flink}").messages
            (same,) = answers(subject.format.decode_batch(messages, f"`{written}` {flink}"))
            (other,) = answers(subject.format.decode_batch(messages, f"`{read}` {flink}"))
        except (SchemaError, DataError):  # not a name for the format
            continue
        said = (same.rows or "").partition(": ")[2]
        subject.same(f"{subject.doing}, whether its own name finds it", bool(said) and said != "None}]", True)
        is_found = (other.rows or "").partition(": ")[2] == said
        subject.same(f"{subject.doing}, whether it is found", is_found, subject.declared.by_position)
    if subject.compared == before:
        raise LeftOut("the format has none of the names that are tried")


@rule("decode")
def large_batches(subject: Subject) -> None:
    """A batch of 20,011 messages decodes as its messages do in small batches, each in its own place."""
    subject.reads()
    rng = random.Random(SEED)
    for case in subject.cases[:1]:
        subject.doing = case.name
        some = _mixed(subject, case, 100)
        expected = case.decode(some)
        places = rng.choices(range(len(some)), k=LARGE)
        messages = as_array(some).take(pa.array(places))
        where = f"{case.name}, in a batch of {LARGE}"
        subject.same_answers(where, messages, case.decode(messages), [expected[at] for at in places])


@rule("decode")
def wide_schemas(subject: Subject) -> None:
    """A schema of 200 columns works as one of few does."""
    subject.reads()
    subject.writes()
    if subject.declared.most_columns is not None:
        raise LeftOut(f"a schema has at most {subject.declared.most_columns} columns")
    plain = [flink for flink in subject.served if "<" not in flink]
    if not plain:
        raise LeftOut("no type is served")
    rng = random.Random(SEED)
    chosen = [plain[at % len(plain)] for at in range(_COLUMNS)]
    subject.doing = f"{_COLUMNS} columns"
    schema = ", ".join(f"c{at} {flink}" for at, flink in enumerate(chosen))
    columns = []
    for flink in chosen:
        kept = _kept(subject, flink)
        columns.append(kept.take(pa.array([rng.randrange(len(kept)) for _ in range(4)])))
    rows = pa.StructArray.from_arrays(columns, names=[f"c{at}" for at in range(_COLUMNS)])
    messages = subject.format.encode_batch(rows, schema).messages
    found = answers(subject.format.decode_batch(messages, schema))
    of_one = pa.ListArray.from_arrays(pa.array(range(len(rows) + 1), pa.int32()), rows)
    subject.same_answers(f"{_COLUMNS} columns", messages, found, answers(DecodedBatch(of_one)))


def _kept(subject: Subject, flink: str) -> pa.Array:
    """The edges of a type that come out as they were; not -0.0, for Flink reads it as 0.0 beside a DECIMAL."""
    rows, schema = rows_of(flink), resolve_schema(f"v {flink}")
    batch = subject.format.decode_batch(subject.format.encode_batch(rows, schema).messages, schema)
    same = [
        one.rows == f"[{{'v': {value}}}]" and value != "-0.0"
        for one, value in zip(answers(batch), values_of(rows), strict=True)
    ]
    return rows.field(0).filter(pa.array(same, pa.bool_()))


@rule("decode")
def round_trip(subject: Subject) -> None:
    """Rows that are encoded and decoded again are as they were, and known messages are written as they are."""
    for case in subject.cases:
        subject.doing = case.name
        of_one = pa.ListArray.from_arrays(pa.array(range(len(case.rows) + 1), pa.int32()), case.rows)
        expected = answers(DecodedBatch(of_one, case.kinds))
        expected = [_NULL if one.rows == "[None]" else one for one in expected]
        if subject.declared.direction != "encode":
            subject.same_answers(case.name, case.messages, case.decode(case.messages), expected)
        if case.sample.messages is not None and subject.declared.direction != "decode":
            for message, one in zip(case.messages.to_pylist(), case.encode(case.rows, case.kinds), strict=True):
                subject.same(f"{case.name}, encoded", str(one), shown(message))


@rule("decode", page="robustness.md#what-is-promised")
def never_raises(subject: Subject) -> None:
    """A kernel never raises for bad data, however the bytes are changed: it reports an error."""
    subject.reads()
    for case in subject.cases:
        subject.doing = case.name
        messages = subject.changed[case.name]
        for start in range(0, len(messages), 50):
            some = messages[start : start + 50]
            try:
                case.format.decode_arrow(as_array(some), case.schema)
            except Exception:
                _raises_alone(case, some)
            _no_failure(subject, case.name, some, case.format.decode_batch(as_array(some), case.schema))


def _raises_alone(case: Case, messages: list[bytes]) -> None:
    """Say which of the messages makes the kernel raise, if one does by itself."""
    for message in messages:
        try:
            case.format.decode_arrow(as_array([message]), case.schema)
        except Exception as error:
            raise Breach(
                f"{case.name}, message {shown(message)}: an error of the message was expected, but the kernel raised "
                f"{type(error).__name__}: {cut(str(error))}"
            ) from error
    raise Breach(f"{case.name}: the kernel raises for {len(messages)} messages together, for none of them alone")


def _no_failure(subject: Subject, where: str, messages: list[bytes | None] | list[bytes], batch: DecodedBatch) -> None:
    codes = [None] * len(messages) if batch.codes is None else batch.codes.to_pylist()
    for message, one, code in zip(messages, answers(batch), codes, strict=True):
        text = f"{one}" if code == ErrorCode.KERNEL_FAILED else "no failure of the kernel"
        subject.same(f"{where}, message {shown(message)}", text, "no failure of the kernel")


@rule("decode", page="robustness.md#what-is-promised")
def neighbours(subject: Subject) -> None:
    """One bad message changes nothing of its neighbours, and has its error in its own place."""
    subject.reads()
    if not any(subject.bad.values()):
        raise LeftOut("none of the changed messages is an error; `bad` may name some")
    for case in subject.cases:
        subject.doing = case.name
        bad, good = subject.bad[case.name][:30], case.good
        if not bad or not good:
            continue
        expected = case.decode(good)
        pairs = [(message, good[at % len(good)]) for at, message in enumerate(bad)]
        messages = [message for pair in pairs for message in pair]
        found = case.decode(messages)
        wanted = [expected[at % len(good)] for at in range(len(bad))]
        subject.same_answers(f"{case.name}, behind a bad message", messages[1::2], found[1::2], wanted)
        alone = [case.decode([message])[0] for message in bad]
        subject.same_answers(f"{case.name}, a bad message", bad, found[::2], alone)


@rule("decode")
def batches_of_one(subject: Subject) -> None:
    """A batch decodes as its messages do each in a batch of its own."""
    subject.reads()
    for case in subject.cases:
        subject.doing = case.name
        messages = _mixed(subject, case, 80)
        alone = [case.decode([message])[0] for message in messages]
        subject.same_answers(f"{case.name}, in a batch of {len(messages)}", messages, case.decode(messages), alone)


@rule("decode")
def order(subject: Subject) -> None:
    """Messages in another order give the same in that order."""
    subject.reads()
    rng = random.Random(SEED)
    for case in subject.cases:
        subject.doing = case.name
        messages = _mixed(subject, case, 150)
        places = rng.sample(range(len(messages)), len(messages))
        before = case.decode(messages)
        mixed = [messages[at] for at in places]
        subject.same_answers(f"{case.name}, in another order", mixed, case.decode(mixed), [before[at] for at in places])


@rule("decode", page="key-value.md")
def metadata(subject: Subject) -> None:
    """The columns of metadata follow those of the schema, with the types that are declared, and change no row."""
    subject.reads()
    keys = tuple(subject.format.metadata_types)
    if not keys:
        raise LeftOut("the format has no metadata")
    for case in subject.cases:
        subject.doing = case.name
        messages = as_array(_mixed(subject, case, 40))
        expected = case.decode(messages)
        for asked in (keys, *((key,) for key in keys)):
            batch = case.format.decode_batch(messages, case.schema, metadata=asked)
            wanted = [*case.schema.names, *asked]
            names = [field.name for field in batch.rows.type.value_type]
            subject.same(f"{case.name}, the columns with the metadata {', '.join(asked)}", names[: len(wanted)], wanted)
            kept = [*range(len(case.schema.names)), *range(len(wanted), len(names))]
            found = answers(replace(batch, rows=with_columns(batch.rows, kept)))
            # the words of an error may be others, as metadata is read first
            same = [was if one.error and was.error else one for one, was in zip(found, expected, strict=True)]
            subject.same_answers(f"{case.name}, with the metadata {', '.join(asked)}", messages, same, expected)
