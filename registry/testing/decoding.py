"""Rules of decoding."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from kvformat.registry.contract.batches import DecodedBatch
from kvformat.registry.contract.check_results import Checker
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import DataError, SchemaError
from kvformat.registry.contract.schemas import resolve_schema
from kvformat.registry.contract.types import arrow_type
from kvformat.registry.testing.edges import NO_TIMES, OTHERS, WIDER, in_range, rows_of, value_texts
from kvformat.registry.testing.results import (
    LAYOUTS,
    DecodeResult,
    decode_results,
    hex_text,
    select_columns,
    with_garbage_under_nulls,
)
from kvformat.registry.testing.rules import NotApplicable, RuleBroken, rule
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
"""Pairs of different names that differ only in case or in Unicode normalization."""
_NULL: Final = DecodeResult(None, (), None)


def _mixed(subject: Subject, case: Case, count: int) -> list[bytes | None]:
    """Return `count` good, changed and null messages in random order."""
    rng = random.Random(SEED)
    some: list[bytes | None] = [*case.messages.to_pylist(), *subject.changed[case.name], None, None]
    rng.shuffle(some)
    return some[:count]


@rule("decode")
def shapes(subject: Subject) -> None:
    """The result has one list of rows per message. The rows are structs with the schema's columns, in order and with
    the exact types, and their text is valid UTF-8. There is a valid row kind per row, and an error or null per message.
    """
    for case in subject.each_case():
        for messages in (case.messages, as_array([None, *case.good, None])):
            batch = case.format.decode_arrow(messages, case.schema)
            Checker(subject.identifier, "decode_arrow").decoded(batch, messages, case.stored)
            _validate(case.name, batch)
            subject.compared += len(messages)


def _validate(where: str, batch: DecodedBatch) -> None:
    """Raise `RuleBroken` for invalid Arrow data, such as text that is not UTF-8."""
    try:
        for array in (batch.rows, batch.row_kinds, batch.errors):
            if array is not None:
                array.validate(full=True)
    except pa.ArrowException as error:
        raise RuleBroken(f"{where}: invalid Arrow data: {error}") from None


@rule("decode")
def null_messages(subject: Subject) -> None:
    """A null message gives a null list without an error, anywhere in a batch. Formats that declare `null_is_row` or
    `null_is_error` give a row or an error instead.
    """
    for case in subject.each_case():
        null, good = case.null_answer(subject.declared), case.good
        subject.check_decoded(f"{case.name}, only null messages", [None] * 2, case.decode([None] * 2), [null] * 2)
        decoded = case.decode([part for message in good for part in (None, message)])
        subject.check_decoded(f"{case.name}, between messages", [None] * len(good), decoded[::2], [null] * len(good))


@rule("decode")
def skipped_messages(subject: Subject) -> None:
    """A message that the format skips gives an empty list and no error."""
    if not subject.declared.skipped:
        raise NotApplicable("`skipped` declares no messages")
    case, skipped = subject.cases[0], list(subject.declared.skipped)
    subject.context = case.name
    subject.check_decoded(case.name, skipped, case.decode(skipped), [DecodeResult("[]", (), None)] * len(skipped))


@rule("decode")
def errors_have_no_rows(subject: Subject) -> None:
    """A message with an error has a null list and a text that says what is wrong. A null list without an error is only
    given for a null message.
    """
    for case in subject.each_case():
        messages = _mixed(subject, case, 200)
        try:
            batch = case.format.decode_arrow(as_array(messages), case.schema)
        except Exception as error:
            raise NotApplicable(f"the format raised {type(error).__name__}: see the rule never_raises") from None
        for message, result in zip(messages, decode_results(batch), strict=True):
            where = f"{case.name}, message {hex_text(message)}"
            subject.check(where, result.error is None or bool(result.error.strip()), "the error has no text")
            if result.error is not None or result.rows is None:
                subject.check_equal(where, result, DecodeResult(None, (), result.error))
                is_error = message is not None or subject.declared.null_is_error
                actual, expected = ("an error" if yes else "no error" for yes in (result.error is not None, is_error))
                subject.check_equal(where, actual, expected)


@rule("decode", page="plugins.md#checks-of-the-kit")
def bad_messages(subject: Subject) -> None:
    """A malformed message is an error, never a row of NULLs. The author declares some in `bad`."""
    declared, case = subject.declared, subject.cases[0]
    subject.context = case.name
    if declared.never_bad:
        messages = [message for some in subject.bad.values() for message in some]
        problem = f"the message {hex_text(next(iter(messages), None))} is an error, but `never_bad` is declared"
        subject.check(case.name, not messages, f"{problem} ({declared.never_bad})")
        return
    if not declared.bad:
        raise RuleBroken(
            "`bad` declares no messages. Add messages that are errors with the first sample's schema, such as "
            "truncated ones, or say in `never_bad` why no message is an error"
        )
    for message, result in zip(declared.bad, case.decode(declared.bad), strict=True):
        text = "an error" if result.error is not None else str(result)
        subject.check_equal(f"{case.name}, the bad message {hex_text(message)}", text, "an error")


@rule("decode")
def layouts(subject: Subject) -> None:
    """Messages decode the same way in any array: a slice, chunks, large_binary, binary_view, a dictionary."""
    for case in subject.each_case():
        messages = as_array(_mixed(subject, case, 60))
        expected = case.decode(messages)
        for name, layout in LAYOUTS.items():
            decoded = decode_results(case.format.decode_batch(layout(messages), case.schema))
            subject.check_decoded(f"{case.name}, as {name}", messages, decoded, expected)
        for start, stop in ((1, len(messages)), (0, len(messages) // 2), (3, 3), (5, 6)):
            part = messages[start:stop]
            subject.check_decoded(f"{case.name}, as [{start}:{stop}]", part, case.decode(part), expected[start:stop])


@rule("decode")
def garbage_under_nulls(subject: Subject) -> None:
    """The bytes that the array stores at a null message do not matter."""
    for case in subject.each_case():
        messages = as_array([part for message in case.good for part in (None, message)])
        decoded = case.decode(with_garbage_under_nulls(messages))
        subject.check_decoded(f"{case.name}, bytes under nulls", messages, decoded, case.decode(messages))


@rule("decode")
def empty_batches(subject: Subject) -> None:
    """An empty batch gives an empty batch of the same types."""
    for case in subject.cases:
        subject.context = f"{case.name}, an empty batch"
        batch = case.format.decode_arrow(as_array([]), case.schema)
        Checker(subject.identifier, "decode_arrow").decoded(batch, as_array([]), case.stored)
        subject.check_equal(subject.context, decode_results(batch), [])


@rule("decode")
def zero_columns(subject: Subject) -> None:
    """A schema without columns raises SchemaError, or gives a list for each message."""
    for case in subject.cases:
        subject.context = f"{case.name}, without columns"
        try:
            batch = case.format.decode_batch(case.messages, pa.schema([]))
        except SchemaError:
            subject.compared += 1
            continue
        _check_no_kernel_failure(subject, subject.context, case.messages.to_pylist(), batch)


@rule("decode", page="flink.md#schemas", needs=())
def types(subject: Subject) -> None:
    """A supported type raises no error. An unsupported type raises SchemaError at the first call, also for an empty
    batch.
    """
    if not subject.declared.types:
        raise NotApplicable("`types` is empty")
    for flink in subject.declared.types:
        subject.context = f"an empty batch of {flink}"
        for direction, refusal in subject.refuses(flink).items():
            where = f"{direction} of an empty batch of {flink}{f' ({refusal})' if refusal else ''}"
            expected = "SchemaError, because the type is unsupported" if subject.is_unsupported(flink) else "no error"
            result = "no error" if refusal is None else "SchemaError, because the type is unsupported"
            subject.check_equal(where, result, expected)
            if refusal is not None:
                subject.check(where, len(str(refusal).split()) > 2, "the error does not say what is wrong")


@rule("decode", page="flink.md#schemas", needs=("decode", "encode"))
def edges(subject: Subject) -> None:
    """An edge value of a type is unchanged after encoding and decoding, or is an error of its row or message. At least
    half of a type's edge values must not be errors.
    """
    if not subject.served:
        raise NotApplicable("no type is supported")
    for flink in subject.served:
        subject.context = f"the edge values of {flink}"
        rows, schema = rows_of(flink), resolve_schema(f"v {flink}")
        encoded = subject.format.encode_batch(rows, schema)
        results = decode_results(subject.format.decode_batch(encoded.messages, schema))
        failed = [False] * len(rows) if encoded.errors is None else encoded.errors.is_valid().to_pylist()
        changes = subject.declared.changed_values.get(flink, {})
        messages = encoded.messages.to_pylist()
        errors = sum(is_error or result.error is not None for is_error, result in zip(failed, results, strict=True))
        subject.check(flink, 2 * errors <= len(rows), f"{errors} of {len(rows)} edge values are errors, expected half")
        for value, message, result, is_error in zip(value_texts(rows), messages, results, failed, strict=True):
            where = f"{flink}, the value {cut(value)}, message {hex_text(message)}"
            impossible = flink == "TIME(3)" and value in NO_TIMES
            subject.check(where, is_error or not impossible, "a time outside a day was encoded, expected an error")
            if not is_error and result.error is None:
                subject.check_equal(where, result.rows, f"[{{'v': {changes.get(value, value)}}}]")


@rule("decode", page="flink.md#schemas", needs=("decode", "encode"))
def overflow(subject: Subject) -> None:
    """A number outside its type's range is an error of its message, never another number."""
    served = set(subject.served).difference(subject.declared.unlike_wider)
    pairs = [(narrow, *of) for narrow, of in WIDER.items() if narrow in served and of[0] in subject.served]
    if not pairs:
        raise NotApplicable("no integer type and its next wider type are both supported")
    for narrow, wide, bits in pairs:
        subject.context = f"{wide} read as {narrow}"
        numbers = [2 ** (bits - 1), -(2 ** (bits - 1)) - 1, 2**bits, 2**bits + 1]
        kind = arrow_type(parse_type(wide))
        numbers = [number for number in numbers if in_range(number, wide)]
        rows = pa.StructArray.from_arrays([pa.array(numbers, kind)], names=["v"])
        messages = subject.format.encode_batch(rows, f"v {wide}").messages
        results = decode_results(subject.format.decode_batch(messages, f"v {narrow}"))
        for number, message, result in zip(numbers, messages.to_pylist(), results, strict=True):
            where = f"{number} of {wide}, message {hex_text(message)}, read as {narrow}"
            subject.check(where, _is_error_or_null(result), f"expected an error or NULL, got {result}")


def _is_error_or_null(result: DecodeResult) -> bool:
    return result.error is not None or result.rows in (None, "[]", "[{'v': None}]")


@rule("decode", page="plugins.md#checks-of-the-kit", needs=("decode", "encode"))
def other_types(subject: Subject) -> None:
    """A value of another type is an error or NULL, never another value. For example, 7.9 and true are not an INT, and
    a text is not a number.
    """
    if subject.declared.untyped:
        raise NotApplicable(f"`untyped` is declared: {subject.declared.untyped}")
    before = subject.compared
    for written, (values, others) in OTHERS.items():
        messages = _encode_values(subject, written, values)
        for read in others:
            if read in subject.served and messages:
                subject.context = f"{written} read as {read}"
                changes = subject.declared.changed_reads.get(f"{written} as {read}", {})
                results = decode_results(subject.format.decode_batch(as_array([*messages.values()]), f"v {read}"))
                for (value, message), result in zip(messages.items(), results, strict=True):
                    expected = f"[{{'v': {changes[value]}}}]" if value in changes else "an error or NULL"
                    is_equal = value not in changes and _is_error_or_null(result)
                    where = f"{value} of {written}, message {hex_text(message)}, read as {read}"
                    subject.check_equal(where, expected if is_equal else result.rows, expected)
    if subject.compared == before:
        raise NotApplicable("no two supported types have different values")


def _encode_values(subject: Subject, flink: str, values: list[Any]) -> dict[str, bytes]:
    """Encode values of a type. Returns messages by the value's text, without the values that are errors."""
    rows = pa.StructArray.from_arrays([pa.array(values, arrow_type(parse_type(flink)))], names=["v"])
    if subject.is_unsupported(flink):
        return {}
    try:
        batch = subject.format.encode_batch(rows, f"v {flink}")
    except SchemaError:  # the author did not declare the type as unsupported
        return {}
    pairs = zip(value_texts(rows), batch.messages.to_pylist(), strict=True)
    return {value: message for value, message in pairs if message is not None}


@rule("decode", page="plugins.md#checks-of-the-kit", needs=("decode", "encode"))
def names(subject: Subject) -> None:
    """Column names are compared exactly. Names that differ in case or in Unicode normalization are different."""
    flink = next((flink for flink in ("BIGINT", "INT", "STRING") if flink in subject.served), None)
    if flink is None:
        raise NotApplicable("none of BIGINT, INT and STRING is supported")
    value = "seven" if flink == "STRING" else 7
    before = subject.compared
    for written, read in _NAMES:
        subject.context = f"a column {written!r} read as {read!r}"
        rows = pa.StructArray.from_arrays([pa.array([value], arrow_type(parse_type(flink)))], names=[written])
        try:
            messages = subject.format.encode_batch(rows, f"`{written}` {flink}").messages
            (by_own_name,) = decode_results(subject.format.decode_batch(messages, f"`{written}` {flink}"))
            (by_similar_name,) = decode_results(subject.format.decode_batch(messages, f"`{read}` {flink}"))
        except (SchemaError, DataError):  # the format does not allow this name
            continue
        expected = (by_own_name.rows or "").partition(": ")[2]
        is_found = bool(expected) and expected != "None}]"
        subject.check(subject.context, is_found, f"the column is not found by its own name {written!r}")
        names, wanted = (
            "a value" if yes else "no value"
            for yes in ((by_similar_name.rows or "").partition(": ")[2] == expected, subject.declared.by_position)
        )
        subject.check_equal(subject.context, names, wanted)
    if subject.compared == before:
        raise NotApplicable("the format allows none of the tested names")


@rule("decode")
def large_batches(subject: Subject) -> None:
    """The messages of a batch of 20,011 messages give the same rows, in the same order, as in small batches."""
    rng = random.Random(SEED)
    for case in subject.cases[:1]:
        subject.context = case.name
        some = _mixed(subject, case, 100)
        expected = case.decode(some)
        indices = rng.choices(range(len(some)), k=LARGE)
        messages = as_array(some).take(pa.array(indices))
        where = f"{case.name}, in a batch of {LARGE}"
        subject.check_decoded(where, messages, case.decode(messages), [expected[at] for at in indices])


@rule("decode", needs=("decode", "encode"))
def wide_schemas(subject: Subject) -> None:
    """A schema may have 200 columns."""
    if subject.declared.most_columns is not None:
        raise NotApplicable(f"a schema has at most {subject.declared.most_columns} columns")
    plain = [flink for flink in subject.served if "<" not in flink]
    if not plain:
        raise NotApplicable("no type is supported")
    rng = random.Random(SEED)
    chosen = [plain[at % len(plain)] for at in range(_COLUMNS)]
    subject.context = f"{_COLUMNS} columns"
    schema = ", ".join(f"c{at} {flink}" for at, flink in enumerate(chosen))
    columns = []
    for flink in chosen:
        values = _unchanged_edges(subject, flink)
        columns.append(values.take(pa.array([rng.randrange(len(values)) for _ in range(4)])))
    rows = pa.StructArray.from_arrays(columns, names=[f"c{at}" for at in range(_COLUMNS)])
    messages = subject.format.encode_batch(rows, schema).messages
    decoded = decode_results(subject.format.decode_batch(messages, schema))
    lists = pa.ListArray.from_arrays(pa.array(range(len(rows) + 1), pa.int32()), rows)
    subject.check_decoded(f"{_COLUMNS} columns", messages, decoded, decode_results(DecodedBatch(lists)))


def _unchanged_edges(subject: Subject, flink: str) -> pa.Array:
    """Return the edge values of a type that are unchanged after encoding and decoding.

    -0.0 is left out: Flink reads it as 0.0 if the row also has a DECIMAL.
    """
    rows, schema = rows_of(flink), resolve_schema(f"v {flink}")
    batch = subject.format.decode_batch(subject.format.encode_batch(rows, schema).messages, schema)
    unchanged = [
        result.rows == f"[{{'v': {value}}}]" and value != "-0.0"
        for result, value in zip(decode_results(batch), value_texts(rows), strict=True)
    ]
    return rows.field(0).filter(pa.array(unchanged, pa.bool_()))


@rule("decode", needs=())
def round_trip(subject: Subject) -> None:
    """Rows are unchanged after encoding and decoding. Rows with declared messages are encoded to these exact bytes."""
    for case in subject.each_case():
        lists = pa.ListArray.from_arrays(pa.array(range(len(case.rows) + 1), pa.int32()), case.rows)
        expected = decode_results(DecodedBatch(lists, case.kinds))
        expected = [_NULL if result.rows == "[None]" else result for result in expected]
        if subject.declared.direction != "encode":
            subject.check_decoded(case.name, case.messages, case.decode(case.messages), expected)
        if case.sample.messages is not None and subject.declared.direction != "decode":
            for message, result in zip(case.messages.to_pylist(), case.encode(case.rows, case.kinds), strict=True):
                subject.check_equal(f"{case.name}, encoded", str(result), hex_text(message))


@rule("decode", page="robustness.md#guarantees")
def never_raises(subject: Subject) -> None:
    """A format never raises for bad data. It reports an error for each bad message."""
    for case in subject.each_case():
        messages = subject.changed[case.name]
        for start in range(0, len(messages), 50):
            some = messages[start : start + 50]
            try:
                case.format.decode_arrow(as_array(some), case.schema)
            except Exception:
                _find_raising_message(case, some)
            _check_no_kernel_failure(subject, case.name, some, case.format.decode_batch(as_array(some), case.schema))


def _find_raising_message(case: Case, messages: list[bytes]) -> None:
    """Raise `RuleBroken` that names the message for which the format raises."""
    for message in messages:
        try:
            case.format.decode_arrow(as_array([message]), case.schema)
        except Exception as error:
            raise RuleBroken(
                f"{case.name}, message {hex_text(message)}: expected an error of the message, but the format raised "
                f"{type(error).__name__}: {cut(str(error))}"
            ) from error
    raise RuleBroken(f"{case.name}: the format raises for a batch of {len(messages)} messages, but for no single one")


def _check_no_kernel_failure(
    subject: Subject, where: str, messages: list[bytes | None] | list[bytes], batch: DecodedBatch
) -> None:
    codes = [None] * len(messages) if batch.codes is None else batch.codes.to_pylist()
    for message, result, code in zip(messages, decode_results(batch), codes, strict=True):
        problem = f"decode_arrow raised an exception, which became {result}"
        subject.check(f"{where}, message {hex_text(message)}", code != ErrorCode.KERNEL_FAILED, problem)


@rule("decode", page="robustness.md#guarantees")
def neighbours(subject: Subject) -> None:
    """A bad message does not change the results of the messages around it, and its error is at its own index."""
    if not any(subject.bad.values()):
        raise NotApplicable("no changed message is an error; declare some in `bad`")
    for case in subject.each_case():
        bad, good = subject.bad[case.name][:30], case.good
        if not bad or not good:
            continue
        expected = case.decode(good)
        pairs = [(message, good[at % len(good)]) for at, message in enumerate(bad)]
        messages = [message for pair in pairs for message in pair]
        decoded = case.decode(messages)
        wanted = [expected[at % len(good)] for at in range(len(bad))]
        subject.check_decoded(f"{case.name}, after a bad message", messages[1::2], decoded[1::2], wanted)
        alone = [case.decode([message])[0] for message in bad]
        subject.check_decoded(f"{case.name}, a bad message", bad, decoded[::2], alone)


@rule("decode")
def batches_of_one(subject: Subject) -> None:
    """A message has the same result in a batch and in a batch of its own."""
    for case in subject.each_case():
        messages = _mixed(subject, case, 80)
        alone = [case.decode([message])[0] for message in messages]
        subject.check_decoded(f"{case.name}, in a batch of {len(messages)}", messages, case.decode(messages), alone)


@rule("decode")
def order(subject: Subject) -> None:
    """The order of the messages in a batch does not change their results."""
    rng = random.Random(SEED)
    for case in subject.each_case():
        messages = _mixed(subject, case, 150)
        indices = rng.sample(range(len(messages)), len(messages))
        before = case.decode(messages)
        mixed, expected = [messages[at] for at in indices], [before[at] for at in indices]
        subject.check_decoded(f"{case.name}, in another order", mixed, case.decode(mixed), expected)


@rule("decode", page="key-value.md")
def metadata(subject: Subject) -> None:
    """Metadata columns follow the schema's columns, have the declared types, and do not change the rows."""
    keys = tuple(subject.format.metadata_types)
    if not keys:
        raise NotApplicable("the format has no metadata columns")
    for case in subject.each_case():
        messages = as_array(_mixed(subject, case, 40))
        expected = case.decode(messages)
        for requested in (keys, *((key,) for key in keys)):
            batch = case.format.decode_batch(messages, case.schema, metadata=requested)
            wanted = [*case.schema.names, *requested]
            names = [field.name for field in batch.rows.type.value_type]
            where = f"{case.name}, with the metadata {', '.join(requested)}"
            subject.check_equal(f"{where}, the columns", names[: len(wanted)], wanted)
            without_metadata = [*range(len(case.schema.names)), *range(len(wanted), len(names))]
            decoded = decode_results(replace(batch, rows=select_columns(batch.rows, without_metadata)))
            # an error may have another text, because metadata is read first
            decoded = [
                before if now.error and before.error else now for now, before in zip(decoded, expected, strict=True)
            ]
            subject.check_decoded(where, messages, decoded, expected)
