"""A format under test: made once per sample, asked and compared; it counts what was compared."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from kvformat.registry.contract.discovery import format_class
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.format import Format
from kvformat.registry.contract.schemas import resolve_schema, result_arrow_type, row_type
from kvformat.registry.contract.types import nullable
from kvformat.registry.testing.answers import Answer, Written, answers, arrow_rows, row_texts, shown, written
from kvformat.registry.testing.declaration import Declaration, Sample
from kvformat.registry.testing.edges import known_type, rows_of
from kvformat.registry.testing.mutation import changed
from kvformat.registry.testing.rules import Breach, LeftOut

SEED: Final = 20_240_229
SECRET: Final = "hunter2-do-not-show"
MUTATIONS: Final = 400
"""Changed messages of all samples together."""
LARGE: Final = 20_011
"""Messages, or rows, of a large batch: more than most formats take at once that take a part at a time."""
_SHOWN: Final = 300
"""Characters of a row or an answer that a sentence quotes."""


@dataclass(frozen=True)
class Case:
    """A sample with all that follows from it: `rows` are None for a format that only reads."""

    name: str
    sample: Sample
    format: Format
    schema: pa.Schema
    rows: pa.StructArray
    kinds: pa.StringArray | None
    messages: pa.BinaryArray

    @property
    def stored(self) -> pa.DataType:
        """The Arrow type that decoded rows have."""
        return result_arrow_type(self.format.result_type(self.schema))

    @property
    def good(self) -> list[bytes]:
        """The messages that are none of them null."""
        return [message for message in self.messages.to_pylist() if message is not None]

    def null_answer(self, declared: Declaration) -> Answer:
        """What a null message gives; an error says what the format says."""
        if declared.null_is_error:
            (found,) = self.decode([None])
            return Answer(None, (), found.error or "an error")
        nulls = ", ".join(f"{name!r}: None" for name in self.schema.names)
        return Answer(f"[{{{nulls}}}]", ("+I",), None) if declared.null_is_row else Answer(None, (), None)

    def decode(self, messages: pa.Array | Sequence[bytes | None]) -> list[Answer]:
        """What comes of messages."""
        return answers(self.format.decode_batch(as_array(messages), self.schema))

    def encode(self, rows: pa.StructArray, kinds: pa.StringArray | None = None) -> list[Written]:
        """What comes of rows."""
        return written(self.format.encode_batch(rows, self.schema, row_kinds=kinds))


class Subject:
    """A format and what its author says about it; `compared` counts, `doing` says for errors what is looked at."""

    def __init__(self, declared: Declaration) -> None:
        self.declared = declared
        self.compared = 0
        self.doing = "the samples"
        self.cls = format_class(declared.format) if isinstance(declared.format, str) else declared.format
        self.identifier = self.cls.identifier

    def make(self, options: Mapping[str, Any] | None = None) -> Format:
        """A new object of the format with these options, by default those of all samples."""
        return self.cls(self.declared.options if options is None else options)

    @cached_property
    def format(self) -> Format:
        """The format with the options of all samples."""
        return self.make()

    def reads(self) -> None:
        """Leave a rule out for a format that only writes."""
        if self.declared.direction == "encode":
            raise LeftOut("the format only writes")

    def writes(self) -> None:
        """Leave a rule out for a format that only reads."""
        if self.declared.direction == "decode":
            raise LeftOut("the format only reads")

    @cached_property
    def cases(self) -> list[Case]:
        """The samples."""
        return [self._case(number, sample) for number, sample in enumerate(self.declared.samples, start=1)]

    def _case(self, number: int, sample: Sample) -> Case:
        name = f"sample {number} ({cut(sample.schema)})"
        self.doing = name
        format, schema = self.make(sample.options), resolve_schema(sample.schema)
        rows = arrow_rows(_with_pairs(sample.rows, schema), result_arrow_type(row_type(schema)))
        kinds = None if sample.row_kinds is None else pa.array(list(sample.row_kinds), pa.string())
        if sample.messages is not None:
            messages = pa.array(sample.messages, pa.binary())
        elif self.declared.direction == "decode":
            raise Breach(f"{name} has no messages, which a format that only reads needs")
        else:
            batch = format.encode_batch(rows, schema, row_kinds=kinds)
            for row, one in enumerate(written(batch)):
                if one.error is not None:
                    raise Breach(f"{name}, row {row}, {self.row(rows, row)}: a message was expected, but {one} came")
            messages = batch.messages
        return Case(name, sample, format, schema, rows, kinds, messages)

    def row(self, rows: pa.StructArray, place: int) -> str:
        """A row for a sentence."""
        return cut(row_texts(rows.slice(place, 1))[0])

    # --- messages that nobody declared -------------------------------------------------------------------

    @cached_property
    def changed(self) -> dict[str, list[bytes]]:
        """Changed messages of each case by its name; seeded, so that they are the same in every run."""
        rng, share = random.Random(SEED), MUTATIONS // max(len(self.cases), 1) + 1
        return {case.name: changed(rng, case.good or [b""], share) for case in self.cases}

    @cached_property
    def bad(self) -> dict[str, list[bytes]]:
        """Messages of each case that are errors: those that are declared and changed ones."""
        found = {}
        for at, case in enumerate(self.cases):
            maybe = [*(self.declared.bad if at == 0 else ()), *self.changed[case.name]]
            tried = zip(maybe, case.decode(maybe), strict=True)
            found[case.name] = [message for message, answer in tried if answer.error is not None]
        return found

    # --- types -------------------------------------------------------------------------------------------

    def is_unsupported(self, flink: str) -> bool:
        """Whether the author says that the format refuses the type."""
        _, *walked = row_type(resolve_schema(f"v {flink}")).walk()
        names = {name for _, t in walked for name in (t.root, known_type(str(nullable(t))))}
        return any(text in names for text in self.declared.unsupported)

    @property
    def served(self) -> list[str]:
        """The types that the format serves as its author says."""
        return [flink for flink in self.declared.types if not self.is_unsupported(flink)]

    def refuses(self, flink: str) -> dict[str, SchemaError | None]:
        """What an empty batch of a type raises in each direction that the format has."""
        schema = resolve_schema(f"v {flink}")
        found: dict[str, SchemaError | None] = {}
        empty: dict[str, Callable[[], object]] = {
            "encode": lambda: self.format.encode_batch(rows_of(flink)[:0], schema),
            "decode": lambda: self.format.decode_batch(pa.array([], pa.binary()), schema),
        }
        for direction, call in empty.items():
            if self.declared.direction in ("both", direction):
                try:
                    call()
                    found[direction] = None
                except SchemaError as error:
                    found[direction] = error
        return found

    # --- comparing -----------------------------------------------------------------------------------------

    def same(self, where: str, found: object, expected: object) -> None:
        """Count a comparison; raises `Breach` with what came and what was expected."""
        self.compared += 1
        if found != expected:
            texts = _around_difference(str(expected), str(found))
            raise Breach(f"{cut(where)}: {texts[0]} was expected, but {texts[1]} came")

    def same_answers(
        self,
        where: str,
        messages: pa.Array | Sequence[bytes | None],
        found: Sequence[Answer],
        expected: Sequence[Answer],
    ) -> None:
        """Compare what comes of messages, one by one."""
        values = as_array(messages).to_pylist()
        self.same(f"{where}, the number of lists", len(found), len(expected))
        for place, (message, one, wanted) in enumerate(zip(values, found, expected, strict=True)):
            self.same(f"{where}, message {place} of {len(values)}, {shown(message)}", one, wanted)

    def same_written(
        self, where: str, rows: pa.StructArray, found: Sequence[Written], expected: Sequence[Written]
    ) -> None:
        """Compare what comes of rows, one by one."""
        self.same(f"{where}, the number of messages", len(found), len(expected))
        for place, (one, wanted) in enumerate(zip(found, expected, strict=True)):
            if one != wanted:
                self.same(f"{where}, row {place} of {len(rows)}, {self.row(rows, place)}", one, wanted)
            self.compared += 1


def as_array(messages: pa.Array | Sequence[bytes | None]) -> pa.Array:
    """Messages as an Arrow array."""
    return messages if isinstance(messages, pa.Array) else pa.array(messages, pa.binary())


def cut(text: str) -> str:
    """The beginning of a text for a sentence."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _around_difference(a: str, b: str) -> tuple[str, str]:
    """Two texts for a sentence: of long ones what begins shortly before they differ."""
    start = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), 0) - _SHOWN // 4
    if start <= 0 or max(len(a), len(b)) <= _SHOWN:
        return cut(a), cut(b)
    return f"...{cut(a[start:])}", f"...{cut(b[start:])}"


def _with_pairs(rows: Sequence[Mapping[str, Any] | None], schema: pa.Schema) -> list[Any]:
    """Rows with the entries of maps as pairs, as older versions of PyArrow need them."""
    return [None if row is None else {f.name: _pairs(row.get(f.name), f.type) for f in schema} for row in rows]


def _pairs(value: Any, of: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(of):
        entries = value.items() if isinstance(value, Mapping) else value
        return [(_pairs(key, of.key_type), _pairs(item, of.item_type)) for key, item in entries]
    if pa.types.is_struct(of):
        return {field.name: _pairs(value.get(field.name), field.type) for field in of}
    if pa.types.is_list(of):
        return [_pairs(item, of.value_type) for item in value]
    return value
