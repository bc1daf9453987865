"""Rules of encoding."""

from __future__ import annotations

import random
from typing import Final

import pyarrow as pa

from kvformat.registry.contract.changelog import ChangelogMode, RowKind
from kvformat.registry.contract.check_results import Checker
from kvformat.registry.contract.schemas import resolve_schema
from kvformat.registry.testing.edges import rows_of
from kvformat.registry.testing.results import EncodeResult, decode_results, encode_results, hex_text
from kvformat.registry.testing.rules import rule
from kvformat.registry.testing.subject import LARGE, SEED, Subject

_NULL: Final = EncodeResult(None, None)
_REMOVED: Final = {RowKind.UPDATE_BEFORE, RowKind.DELETE}


@rule("encode")
def encoded_shapes(subject: Subject) -> None:
    """The result is a binary array with one message per row, and one error or null per row. A row with an error has a
    null message.
    """
    for case in subject.each_case():
        for rows in (case.rows, case.rows[:0], case.rows[1:]):
            kinds = None if case.kinds is None else case.kinds[len(case.rows) - len(rows) :][: len(rows)]
            batch = case.format.encode_arrow(rows, case.schema, row_kinds=kinds)
            Checker(subject.identifier, "encode_arrow").encoded(batch, len(rows))
            batch.messages.validate(full=True)
            subject.compared += len(rows)


@rule("encode")
def null_rows(subject: Subject) -> None:
    """A null row becomes a null message without an error, whatever its columns store at this row."""
    for case in subject.each_case():
        count = len(case.rows)
        columns = [case.rows.field(at) for at in range(case.rows.type.num_fields)]
        for name, mask in (("all rows", [True] * count), ("every other row", [at % 2 == 0 for at in range(count)])):
            rows = pa.StructArray.from_arrays(columns, fields=list(case.rows.type), mask=pa.array(mask, pa.bool_()))
            results = case.encode(rows, case.kinds)
            nulls = [result for result, is_null in zip(results, mask, strict=True) if is_null]
            subject.check_encoded(f"{case.name}, {name} null", rows, nulls, [_NULL] * len(nulls))


@rule("encode")
def rows_alone(subject: Subject) -> None:
    """A row has the same message or error when it is encoded alone, in a batch, in a slice and in another order."""
    rng = random.Random(SEED)
    for case in subject.each_case():
        alone = [
            case.encode(case.rows[at : at + 1], None if case.kinds is None else case.kinds[at : at + 1])[0]
            for at in range(len(case.rows))
        ]
        subject.check_encoded(f"{case.name}, in one batch", case.rows, case.encode(case.rows, case.kinds), alone)
        indices = rng.sample(range(len(alone)), len(alone))
        mixed, kinds = case.rows.take(pa.array(indices)), case.kinds and case.kinds.take(pa.array(indices))
        results = case.encode(mixed, kinds)
        subject.check_encoded(f"{case.name}, in another order", mixed, results, [alone[at] for at in indices])
    for flink in subject.served:
        subject.context = f"the edge values of {flink}"
        rows, schema = rows_of(flink), resolve_schema(f"v {flink}")
        results = encode_results(subject.format.encode_batch(rows, schema))
        part = encode_results(subject.format.encode_batch(rows[1:], schema))
        subject.check_encoded(f"the edge values of {flink} without the first", rows[1:], part, results[1:])
        for at in rng.sample(range(len(rows)), min(len(rows), 6)):
            single = encode_results(subject.format.encode_batch(rows[at : at + 1], schema))
            subject.check_encoded(f"an edge value of {flink}", rows[at : at + 1], single, results[at : at + 1])


@rule("encode")
def large_batches_of_rows(subject: Subject) -> None:
    """The rows of a batch of 20,011 rows have the same messages, in the same order, as in small batches."""
    rng = random.Random(SEED)
    for case in subject.cases[:1]:
        subject.context = case.name
        expected = case.encode(case.rows, case.kinds)
        indices = rng.choices(range(len(case.rows)), k=LARGE)
        chosen = pa.array(indices)
        rows, kinds = case.rows.take(chosen), case.kinds and case.kinds.take(chosen)
        where = f"{case.name}, in a batch of {LARGE}"
        subject.check_encoded(where, rows, case.encode(rows, kinds), [expected[at] for at in indices])


@rule("encode", page="changes.md")
def row_kinds(subject: Subject) -> None:
    """A changelog format distinguishes added rows (+I, +U) from removed rows (-U, -D). An insert-only format writes all
    row kinds the same way.
    """
    mode = subject.format.changelog_mode
    for case in subject.each_case():
        plain = case.encode(case.rows)
        for kind in RowKind:
            if not mode.contains(kind) and mode is not ChangelogMode.INSERT_ONLY:
                continue
            results = case.encode(case.rows, pa.array([str(kind)] * len(case.rows), pa.string()))
            where = f"{case.name}, rows of kind {kind}"
            if mode is ChangelogMode.INSERT_ONLY:
                subject.check_encoded(where, case.rows, results, plain)
            elif subject.declared.direction == "both":
                messages = [result.message for result in results]
                for message, decoded in zip(messages, case.decode(messages), strict=True):
                    if message is not None:
                        removed = [RowKind(of) in _REMOVED for of in decoded.kinds]
                        where_decoded = f"{where}, message {hex_text(message)}, whether each row is removed"
                        subject.check_equal(where_decoded, removed, [kind in _REMOVED])
            subject.compared += 1


@rule("decode", page="changes.md")
def decoded_kinds(subject: Subject) -> None:
    """Decoded rows have only the row kinds of the format's changelog mode."""
    mode = subject.format.changelog_mode
    for case in subject.each_case():
        messages = [*case.good, *subject.changed[case.name]]
        results = decode_results(case.format.decode_batch(pa.array(messages, pa.binary()), case.schema))
        for message, result in zip(messages, results, strict=True):
            wrong = [kind for kind in result.kinds if not mode.contains(kind)]
            where = f"{case.name}, message {hex_text(message)}, row kinds outside {mode!r}"
            subject.check_equal(where, wrong, [])
