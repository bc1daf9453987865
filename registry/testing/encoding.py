"""The rules of encoding."""

from __future__ import annotations

import random
from typing import Final

import pyarrow as pa

from kvformat.registry.contract.changelog import ChangelogMode, RowKind
from kvformat.registry.contract.check_results import Checker
from kvformat.registry.contract.schemas import resolve_schema
from kvformat.registry.testing.answers import Written, answers, shown, written
from kvformat.registry.testing.edges import rows_of
from kvformat.registry.testing.rules import rule
from kvformat.registry.testing.subject import LARGE, SEED, Subject

_NULL: Final = Written(None, None)
_GONE: Final = {RowKind.UPDATE_BEFORE, RowKind.DELETE}


@rule("encode")
def encoded_shapes(subject: Subject) -> None:
    """Messages are a binary array, one per row; there is an error or null per row, and null beside an error."""
    subject.writes()
    for case in subject.cases:
        subject.doing = case.name
        for rows in (case.rows, case.rows[:0], case.rows[1:]):
            kinds = None if case.kinds is None else case.kinds[len(case.rows) - len(rows) :][: len(rows)]
            batch = case.format.encode_arrow(rows, case.schema, row_kinds=kinds)
            Checker(subject.identifier, "encode_arrow").encoded(batch, len(rows))
            batch.messages.validate(full=True)
            subject.compared += len(rows)


@rule("encode")
def null_rows(subject: Subject) -> None:
    """A null row gives a null message and no error, whatever lies under it."""
    subject.writes()
    for case in subject.cases:
        subject.doing = case.name
        count = len(case.rows)
        columns = [case.rows.field(at) for at in range(case.rows.type.num_fields)]
        for name, mask in (("all", [True] * count), ("every other one", [at % 2 == 0 for at in range(count)])):
            rows = pa.StructArray.from_arrays(columns, fields=list(case.rows.type), mask=pa.array(mask, pa.bool_()))
            found = case.encode(rows, case.kinds)
            nulls = [one for one, null in zip(found, mask, strict=True) if null]
            subject.same_written(f"{case.name}, {name} null", rows, nulls, [_NULL] * len(nulls))


@rule("encode")
def rows_alone(subject: Subject) -> None:
    """A row is encoded in a batch, in a slice and in another order as it is alone, and so are its errors."""
    subject.writes()
    rng = random.Random(SEED)
    for case in subject.cases:
        subject.doing = case.name
        alone = [
            case.encode(case.rows[at : at + 1], None if case.kinds is None else case.kinds[at : at + 1])[0]
            for at in range(len(case.rows))
        ]
        subject.same_written(f"{case.name}, in one batch", case.rows, case.encode(case.rows, case.kinds), alone)
        places = rng.sample(range(len(alone)), len(alone))
        mixed, kinds = case.rows.take(pa.array(places)), case.kinds and case.kinds.take(pa.array(places))
        found = case.encode(mixed, kinds)
        subject.same_written(f"{case.name}, in another order", mixed, found, [alone[at] for at in places])
    for flink in subject.served:
        subject.doing = f"the edges of {flink}"
        rows, schema = rows_of(flink), resolve_schema(f"v {flink}")
        found = written(subject.format.encode_batch(rows, schema))
        part = written(subject.format.encode_batch(rows[1:], schema))
        subject.same_written(f"the edges of {flink} without the first one", rows[1:], part, found[1:])
        for at in rng.sample(range(len(rows)), min(len(rows), 6)):
            one = written(subject.format.encode_batch(rows[at : at + 1], schema))
            subject.same_written(f"an edge of {flink}", rows[at : at + 1], one, found[at : at + 1])


@rule("encode")
def large_batches_of_rows(subject: Subject) -> None:
    """A batch of 20,011 rows is encoded as its rows are in small batches, each in its own place."""
    subject.writes()
    rng = random.Random(SEED)
    for case in subject.cases[:1]:
        subject.doing = case.name
        expected = case.encode(case.rows, case.kinds)
        places = rng.choices(range(len(case.rows)), k=LARGE)
        chosen = pa.array(places)
        rows, kinds = case.rows.take(chosen), case.kinds and case.kinds.take(chosen)
        where = f"{case.name}, in a batch of {LARGE}"
        subject.same_written(where, rows, case.encode(rows, kinds), [expected[at] for at in places])


@rule("encode", page="changes.md")
def row_kinds(subject: Subject) -> None:
    """A format of changes keeps apart rows that are there from rows that are gone; one of inserts writes all kinds
    alike.
    """
    subject.writes()
    mode = subject.format.changelog_mode
    for case in subject.cases:
        subject.doing = case.name
        plain = case.encode(case.rows)
        for kind in RowKind:
            if not mode.contains(kind) and mode is not ChangelogMode.INSERT_ONLY:
                continue
            found = case.encode(case.rows, pa.array([str(kind)] * len(case.rows), pa.string()))
            where = f"{case.name}, rows of the kind {kind}"
            if mode is ChangelogMode.INSERT_ONLY:
                subject.same_written(where, case.rows, found, plain)
            elif subject.declared.direction == "both":
                messages = [one.message for one in found]
                for message, one in zip(messages, case.decode(messages), strict=True):
                    if message is not None:
                        gone = [RowKind(of) in _GONE for of in one.kinds]
                        subject.same(f"{where}, message {shown(message)}, whether rows are gone", gone, [kind in _GONE])
            subject.compared += 1


@rule("decode", page="changes.md")
def decoded_kinds(subject: Subject) -> None:
    """Decoded rows have only the kinds of the format's changelog mode."""
    subject.reads()
    mode = subject.format.changelog_mode
    for case in subject.cases:
        subject.doing = case.name
        messages = [*case.good, *subject.changed[case.name]]
        for message, one in zip(
            messages, answers(case.format.decode_batch(pa.array(messages, pa.binary()), case.schema)), strict=True
        ):
            wrong = [kind for kind in one.kinds if not mode.contains(kind)]
            subject.same(f"{case.name}, message {shown(message)}, the kinds that {mode!r} does not have", wrong, [])
