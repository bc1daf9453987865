"""Mutants: formats that break one rule each. The test kit reports the broken rule."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kvformat.codecs.debezium_json import DebeziumJsonFormat
from kvformat.registry import (
    ChangelogMode,
    DecodedBatch,
    EncodedBatch,
    Format,
    Option,
    SchemaError,
)
from kvformat.registry.testing import RULES, Declaration, Sample
from kvformat.registry.testing.rules import check_rule
from kvformat.registry.testing.subject import Subject
from tests.registry.testing import wrong_objects, wrong_values  # noqa: F401 - further mutants of Good
from tests.registry.testing.good import Good, GoodChanges, in_capitals, rebuilt

# --- decoding -----------------------------------------------------------------------------------------------


class DropsTheLast(Good):
    identifier = "drops-the-last"
    rule = "shapes"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        return super().read(messages[:-1], schema)


class OtherOrder(Good):
    identifier = "other-order"
    rule = "shapes"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        return super().read(messages, pa.schema(list(schema)[::-1]))


class NullIsARow(Good):
    identifier = "null-is-a-row"
    rule = "null_messages"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        return super().read(pc.fill_null(messages, b"{}"), schema)


class OnlyNullsAreRows(Good):
    """Reads null messages as rows in a batch without others."""

    identifier = "only-nulls-are-rows"
    rule = "null_messages"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        only = messages.null_count == len(messages)
        return super().read(pc.fill_null(messages, b"{}") if only else messages, schema)


class SkippedIsAnError(Good):
    identifier = "skipped-is-an-error"
    rule = "skipped_messages"
    declared: ClassVar[dict[str, Any]] = {"skipped": [b""]}

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        batch = super().read(messages, schema)
        empty = [message == b"" for message in messages.to_pylist()]
        errors = [None] * len(messages) if batch.errors is None else batch.errors.to_pylist()
        rows = [None if one else row for one, row in zip(empty, batch.rows.to_pylist(), strict=True)]
        return rebuilt(batch, rows, ["empty" if one else error for one, error in zip(empty, errors, strict=True)])


class ErrorWithoutWords(Good):
    identifier = "error-without-words"
    rule = "errors_have_no_rows"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        batch = super().read(messages, schema)
        return batch if batch.errors is None else replace(batch, errors=pc.if_else(batch.errors.is_valid(), "", None))


class ErrorWithRows(Good):
    identifier = "error-with-rows"
    rule = "errors_have_no_rows"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        batch = super().read(messages, schema)
        errors = [False] * len(messages) if batch.errors is None else batch.errors.is_valid().to_pylist()
        return rebuilt(batch, [[None] if bad else row for bad, row in zip(errors, batch.rows.to_pylist(), strict=True)])


class ForgetsTheOffset(Good):
    identifier = "forgets-the-offset"
    rule = "layouts"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        return super().read(pa.Array.from_buffers(pa.binary(), len(messages), messages.buffers()), schema)


class ReadsUnderNulls(Good):
    identifier = "reads-under-nulls"
    rule = "garbage_under_nulls"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        _, offsets, data = messages.buffers()
        all_of = pa.Array.from_buffers(pa.binary(), len(messages), [None, offsets, data], offset=messages.offset)
        null = pc.and_(messages.is_null(), pc.equal(pc.binary_length(all_of), 0))
        return super().read(pc.if_else(null, pa.scalar(None, pa.binary()), all_of), schema)


class FailsOnNothing(Good):
    identifier = "fails-on-nothing"
    rule = "empty_batches"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        messages[0]
        return super().read(messages, schema)


class FailsWithoutColumns(Good):
    identifier = "fails-without-columns"
    rule = "zero_columns"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        if len(messages):
            schema.field(0)
        return super().read(messages, schema)


class RefusesTooLate(Good):
    identifier = "refuses-too-late"
    rule = "types"
    declared: ClassVar[dict[str, Any]] = {"unsupported": ["MAP"], "types": ["MAP<STRING, BIGINT>"]}

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        if len(messages) and any(pa.types.is_map(field.type) for field in schema):
            raise SchemaError("no maps")
        return super().read(messages, schema)


class ByFloat(Good):
    """Reads a DOUBLE as a FLOAT first."""

    identifier = "by-float"
    rule = "edges"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        half = pa.schema([f.with_type(pa.float32()) if pa.types.is_float64(f.type) else f for f in schema])
        batch = super().read(messages, half)
        wanted = pa.list_(pa.struct([pa.field(f.name, f.type) for f in schema]))
        return replace(batch, rows=batch.rows.cast(wanted)) if half != schema else batch


class Wraps(Good):
    """Reads an INT as 64 bits and drops the upper 32 bits."""

    identifier = "wraps"
    rule = "overflow"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        if schema.types != [pa.int32()]:
            return super().read(messages, schema)
        batch = super().read(messages, pa.schema([schema.field(0).with_type(pa.int64())]))
        values = batch.rows.values.field(0).cast(pa.int32(), safe=False)
        rows = pa.StructArray.from_arrays([values], names=schema.names)
        mask = batch.rows.is_null()
        return replace(batch, rows=pa.ListArray.from_arrays(batch.rows.offsets, rows, mask=mask))


class AtMost128Columns(Good):
    identifier = "at-most-128-columns"
    rule = "wide_schemas"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        batch = super().read(messages, schema)
        rows = batch.rows.values
        if rows.type.num_fields <= 128:
            return batch
        columns = [rows.field(at) if at < 128 else pa.nulls(len(rows), f.type) for at, f in enumerate(rows.type)]
        lists = pa.ListArray.from_arrays(
            batch.rows.offsets, pa.StructArray.from_arrays(columns, fields=list(rows.type))
        )
        return replace(batch, rows=lists)


class Shouts(Good):
    identifier = "shouts"
    rule = "round_trip"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        return in_capitals(super().read(messages, schema))


class OtherBytes(Good):
    identifier = "other-bytes"
    rule = "round_trip"
    declared: ClassVar[dict[str, Any]] = {
        "samples": [Sample("id INT", [{"id": 1}], messages=[b'{"id":1}'])],
    }

    def encode_arrow(self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: Any = None) -> EncodedBatch:
        batch = super().encode_arrow(rows, schema, row_kinds=row_kinds)
        return replace(batch, messages=pc.binary_replace_slice(batch.messages, 0, 1, b"{ "))


class Raises(Good):
    identifier = "raises"
    rule = "never_raises"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        batch = super().read(messages, schema)
        if batch.errors is not None and batch.errors.null_count < len(batch.errors):
            raise ValueError("bad bytes")
        return batch


class ShiftsAfterABadOne(Good):
    identifier = "shifts-after-a-bad-one"
    rule = "neighbours"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        batch = super().read(messages, schema)
        bad = batch.errors is not None and batch.errors.null_count < len(messages)
        rows, last = [], None
        for row in batch.rows.to_pylist():
            rows.append(last[:1] if last and row and bad else row)
            last = row or last
        return rebuilt(batch, rows)


class SaysTheFirstError(Good):
    """Gives all bad messages of a batch the error of the first."""

    identifier = "says-the-first-error"
    rule = "neighbours"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        batch = super().read(messages, schema)
        errors = pa.nulls(0, pa.string()) if batch.errors is None else batch.errors.drop_null()
        return replace(batch, errors=pc.if_else(batch.errors.is_valid(), errors[0], None)) if len(errors) else batch


class LearnsFromTheFirst(Good):
    """Sets the columns that are NULL in the first message to NULL in the whole batch."""

    identifier = "learns-from-the-first"
    rule = "batches_of_one"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        batch = super().read(messages, schema)
        rows = batch.rows.to_pylist()
        first = next((row[0] for row in rows if row), {})
        none = {name for name, value in first.items() if value is None}
        return rebuilt(batch, [row and [one | dict.fromkeys(none) for one in row] for row in rows])


class CarriesOver(Good):
    """Replaces NULL with the value of the message before."""

    identifier = "carries-over"
    rule = "order"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        batch = super().read(messages, schema)
        rows, last = [], {}
        for row in batch.rows.to_pylist():
            rows.append(row and [{k: last.get(k) if v is None else v for k, v in one.items()} for one in row])
            last = rows[-1][-1] if rows[-1] else last
        return rebuilt(batch, rows)


class MetadataCostsRows(GoodChanges):
    identifier = "metadata-costs-rows"
    rule = "metadata"

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        batch = super().decode_arrow(messages, schema, metadata=metadata)
        if not metadata:
            return batch
        return replace(rebuilt(batch, [row and [] for row in batch.rows.to_pylist()]), row_kinds=None)


class SaysOnlyInserts(GoodChanges):
    identifier = "says-only-inserts"
    rule = "decoded_kinds"

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self.changelog_mode = ChangelogMode.INSERT_ONLY


# --- encoding -----------------------------------------------------------------------------------------------


class WritesTooFew(Good):
    identifier = "writes-too-few"
    rule = "encoded_shapes"

    def encode_arrow(self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: Any = None) -> EncodedBatch:
        batch = super().encode_arrow(rows, schema, row_kinds=row_kinds)
        return EncodedBatch(batch.messages.drop_null()[1:])


class ErrorsElsewhere(Good):
    """Has fewer errors than rows."""

    identifier = "errors-elsewhere"
    rule = "encoded_shapes"

    def encode_arrow(self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: Any = None) -> EncodedBatch:
        batch = super().encode_arrow(rows, schema, row_kinds=row_kinds)
        return replace(batch, errors=pa.nulls(max(len(rows) - 1, 0), pa.string()))


class NullIsText(Good):
    identifier = "null-is-text"
    rule = "null_rows"

    def encode_arrow(self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: Any = None) -> EncodedBatch:
        batch = super().encode_arrow(rows, schema, row_kinds=row_kinds)
        return replace(batch, messages=pc.fill_null(batch.messages, b"null"))


class NullBetweenRowsIsText(Good):
    identifier = "null-between-rows-is-text"
    rule = "null_rows"

    def encode_arrow(self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: Any = None) -> EncodedBatch:
        batch = super().encode_arrow(rows, schema, row_kinds=row_kinds)
        return replace(batch, messages=pc.fill_null(batch.messages, b"null")) if rows.null_count < len(rows) else batch


class NoRowsAreTexts(Good):
    identifier = "no-rows-are-texts"
    rule = "encoded_shapes"

    def encode_arrow(self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: Any = None) -> EncodedBatch:
        batch = super().encode_arrow(rows, schema, row_kinds=row_kinds)
        return batch if len(rows) else EncodedBatch(pa.array([], pa.string()))


class WritesKinds(Good):
    """Marks deleted rows, but is insert-only."""

    identifier = "writes-kinds"
    rule = "row_kinds"

    def encode_arrow(self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: Any = None) -> EncodedBatch:
        batch = super().encode_arrow(rows, schema, row_kinds=row_kinds)
        mark = b" " if row_kinds is not None and "-D" in row_kinds.to_pylist() else b""
        return replace(batch, messages=pc.binary_join_element_wise(batch.messages, mark, b""))


class ForgetsTheOffsetOfRows(Good):
    identifier = "forgets-the-offset-of-rows"
    rule = "rows_alone"

    def encode_arrow(self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: Any = None) -> EncodedBatch:
        whole = pa.Array.from_buffers(
            rows.type,
            len(rows),
            [None],
            children=[pa.Array.from_buffers(c.type, len(c), c.buffers()) if pa.types.is_integer(c.type) else c
                      for c in map(rows.field, range(rows.type.num_fields))],
        )  # fmt: skip
        return super().encode_arrow(pc.if_else(rows.is_valid(), whole, pa.scalar(None, rows.type)), schema)


class ForgetsKinds(GoodChanges):
    identifier = "forgets-kinds"
    rule = "row_kinds"

    def encode_arrow(self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: Any = None) -> EncodedBatch:
        return super().encode_arrow(rows, schema)


# --- objects ------------------------------------------------------------------------------------------------


class ReprWithoutOptions(Good):
    identifier = "repr-without-options"
    rule = "repr_is_a_call"

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class LosesOptions(Good):
    identifier = "loses-options"
    rule = "values"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()


class EqualByIdentity(Good):
    identifier = "equal-by-identity"
    rule = "values"
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class TellsSecrets(Good):
    identifier = "tells-secrets"
    rule = "secrets"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self._raw_options)!r})"


class SecretInAnError(Good):
    identifier = "secret-in-an-error"
    rule = "secrets"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        batch = super().read(messages, schema)
        if batch.errors is None:
            return batch
        text = f"no access with {self.options['password']}"
        return replace(batch, errors=pc.if_else(batch.errors.is_valid(), text, pa.scalar(None, pa.string())))


class OptionWithoutWords(Good):
    identifier = "option-without-words"
    rule = "options_are_declared"
    option_specs = (*Good.option_specs, Option(name="more"))


class WrongDefault(Good):
    identifier = "wrong-default"
    rule = "options_are_declared"
    option_specs = (*Good.option_specs, Option(name="more", type="int", default="7", doc="A number."))


class TakesAnyOption(Good):
    identifier = "takes-any-option"
    rule = "options_are_checked"

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__({k: v for k, v in (options or {}).items() if any(s.name == k for s in self.option_specs)})


class KeepsWhatIsGiven(Good):
    identifier = "keeps-what-is-given"
    rule = "immutable"

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self._raw_options = options or {}  # type: ignore[assignment]


class OptionsCanBeSet(Good):
    identifier = "options-can-be-set"
    rule = "immutable"

    @property
    def options(self) -> Mapping[str, Any]:
        return self.__dict__.setdefault("_own", dict(super().options))


class Counts(Good):
    """Appends a changing number of blanks to each batch's messages."""

    identifier = "counts"
    rule = "determinism"
    _count = itertools.count(1)

    def encode_arrow(self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: Any = None) -> EncodedBatch:
        batch = super().encode_arrow(rows, schema, row_kinds=row_kinds)
        blanks = b" " * (next(self._count) % 7)
        return replace(batch, messages=pc.binary_join_element_wise(batch.messages, blanks, b""))


class BecomesLenient(Good):
    """Ignores errors after the first batch with a bad message."""

    identifier = "becomes-lenient"
    rule = "no_state"

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        batch = super().read(messages, schema)
        had = self.__dict__.setdefault("_had", 0)
        if batch.errors is None or not batch.errors.drop_null():
            return batch
        self.__dict__["_had"] = had + 1
        return (
            batch
            if had == 0
            else replace(rebuilt(batch, [row or [] for row in batch.rows.to_pylist()]), errors=None, codes=None)
        )


class SharesABuffer(Good):
    """Eight threads share a class attribute, so that all read the messages of the first thread."""

    identifier = "shares-a-buffer"
    rule = "threads"
    _count = itertools.count(1)
    _all_here = threading.Event()
    _waiting: ClassVar[list[pa.BinaryArray]] = []

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        if threading.current_thread() is threading.main_thread():
            return super().read(messages, schema)
        self._waiting.append(messages)
        if next(self._count) < 8:
            assert self._all_here.wait(timeout=60)
        self._all_here.set()
        return super().read(self._waiting[0], schema)


class WritesAllTheSame(Good):
    """Can encode, but is declared as decode-only."""

    identifier = "writes-all-the-same"
    rule = "one_way"
    declared: ClassVar[dict[str, Any]] = {
        "direction": "decode",
        "samples": [Sample("id INT", [{"id": 1}], messages=[b'{"id":1}'])],
    }


class OtherInATable(Good):
    """Behaves differently in a table: `complete_options` changes an option."""

    identifier = "other-in-a-table"
    rule = "key_and_value"
    option_specs = (*Good.option_specs, Option(name="shout", type="boolean", default=False, doc="Shout."))

    @classmethod
    def complete_options(cls, options: Mapping[str, Any], *, topic: str, part: Any) -> Mapping[str, Any]:
        return {**options, "shout": "true"}

    def read(self, messages: pa.BinaryArray, schema: pa.Schema) -> DecodedBatch:
        batch = super().read(messages, schema)
        return in_capitals(batch) if self.options["shout"] else batch


MUTANTS: Final = {cls.__name__: cls for cls in (*Good.__subclasses__(), *GoodChanges.__subclasses__())}
ROWS: Final = [{"id": 1, "name": "a"}, {"id": None, "name": "bß"}, {"id": -7, "name": None}, {"id": 2**40, "name": ""}]
SCHEMA: Final = "id BIGINT, name STRING"
LEAST_MUTANTS: Final = 77


def declaration(cls: type[Format], **further: Any) -> Declaration:
    """Return the declaration of a mutant or of a correct format."""
    kinds = ["+I", "-D", "+I", "-D"] if issubclass(cls, DebeziumJsonFormat) else None
    declared = {
        "samples": [Sample(SCHEMA, ROWS, row_kinds=kinds), Sample("r ROW<x INT>", [{"r": {"x": 1}}, {"r": None}])],
        "options": {"map-null-key.literal": "n", "map-null-key.mode": "LITERAL"},
        "bad": [b"{torn"],
        "changed_reads": {f"DOUBLE as {whole}": {"7.9": "7", "-0.5": "0"} for whole in ("INT", "BIGINT")},
        **getattr(cls, "declared", {}),
        **further,
    }
    return Declaration(cls, **declared)


@pytest.mark.parametrize("name", MUTANTS)
def test_the_rule_that_a_mutant_breaks_is_reported(name: str) -> None:
    mutant = MUTANTS[name]
    rule = RULES[mutant.rule]
    found = check_rule(rule, Subject(declaration(mutant)))
    assert found.broken is not None, f"{found.compared} comparisons, not applicable: {found.left_out}"
    print(found.broken)
    assert found.broken.startswith(f"format '{mutant.identifier}' breaks the rule {rule.name}: {rule.sentence} ")
    assert found.broken.endswith(f"See {rule.page}")
    assert "compared nothing" not in found.broken
    assert "hunter2" not in found.broken


@pytest.mark.parametrize("good", [Good, GoodChanges])
def test_the_base_classes_of_the_mutants_follow_all_rules(good: type[Format]) -> None:
    subject = Subject(declaration(good, skipped=[b""]))
    found = [check_rule(rule, subject) for rule in RULES.values() if rule.part != "spark"]
    assert [outcome.broken for outcome in found if outcome.broken] == []


def test_every_rule_has_a_mutant() -> None:
    without_spark = {name for name, rule in RULES.items() if rule.part != "spark"}
    assert without_spark == {mutant.rule for mutant in MUTANTS.values() if mutant.rule in without_spark}
    assert len(MUTANTS) >= LEAST_MUTANTS
