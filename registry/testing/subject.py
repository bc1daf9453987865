"""The format under test. It is created once per sample, and all comparisons are counted."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from kvformat.registry.contract.discovery import format_class
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.fork_safe import cached_property
from kvformat.registry.contract.options import Direction
from kvformat.registry.contract.schemas import resolve_schema, result_arrow_type, row_type
from kvformat.registry.contract.types import nullable
from kvformat.registry.format import Format
from kvformat.registry.testing.declaration import Declaration, Sample
from kvformat.registry.testing.edges import known_type, rows_of
from kvformat.registry.testing.mutation import changed
from kvformat.registry.testing.results import (
    DecodeResult,
    EncodeResult,
    arrow_rows,
    decode_results,
    encode_results,
    hex_text,
    row_texts,
)
from kvformat.registry.testing.rules import NotApplicable, RuleBroken

SEED: Final = 20_240_229
SECRET: Final = "hunter2-do-not-show"
MUTATIONS: Final = 400
"""Number of changed messages, over all samples."""
LARGE: Final = 20_011
"""Number of messages or rows of a large batch. It is larger than the parts in which most formats split a batch."""
_SHOWN: Final = 300
"""Maximum number of characters of a row or result that an error message quotes."""


@dataclass(frozen=True)
class Case:
    """A sample with its format, and its rows, row kinds and messages as Arrow arrays."""

    name: str
    sample: Sample
    format: Format
    schema: pa.Schema
    rows: pa.StructArray
    kinds: pa.StringArray | None
    messages: pa.BinaryArray

    @property
    def stored(self) -> pa.DataType:
        """The Arrow type of decoded rows."""
        return result_arrow_type(self.format.result_type(self.schema))

    @property
    def good(self) -> list[bytes]:
        """The messages that are not null."""
        return [message for message in self.messages.to_pylist() if message is not None]

    def null_answer(self, declared: Declaration) -> DecodeResult:
        """Return the expected result of a null message. An error has the format's own text."""
        if declared.null_is_error:
            (null_result,) = self.decode([None])
            return DecodeResult(None, (), null_result.error or "an error")
        nulls = ", ".join(f"{name!r}: None" for name in self.schema.names)
        return DecodeResult(f"[{{{nulls}}}]", ("+I",), None) if declared.null_is_row else DecodeResult(None, (), None)

    def decode(self, messages: pa.Array | Sequence[bytes | None]) -> list[DecodeResult]:
        """Return the result of decoding each message."""
        return decode_results(self.format.decode_batch(as_array(messages), self.schema))

    def encode(self, rows: pa.StructArray, kinds: pa.StringArray | None = None) -> list[EncodeResult]:
        """Return the result of encoding each row."""
        return encode_results(self.format.encode_batch(rows, self.schema, row_kinds=kinds))


class Subject:
    """A format and its declaration.

    compared: the number of comparisons so far.
    context: what is being checked, for error messages.
    """

    def __init__(self, declared: Declaration) -> None:
        self.declared = declared
        self.compared = 0
        self.context = "the samples"
        self.cls = format_class(declared.format) if isinstance(declared.format, str) else declared.format
        self.identifier = self.cls.identifier

    def make(self, options: Mapping[str, Any] | None = None) -> Format:
        """Create the format with these options, or with the declared options."""
        return self.cls(self.declared.options if options is None else options)

    @cached_property
    def format(self) -> Format:
        """The format with the declared options."""
        return self.make()

    def require(self, direction: Direction) -> None:
        """Raise `NotApplicable` for a format that cannot decode, or cannot encode."""
        if self.declared.direction not in ("both", direction):
            raise NotApplicable(f"the format can only {self.declared.direction}")

    def each_case(self) -> Iterator[Case]:
        """Yield the samples, each as the context of errors."""
        for case in self.cases:
            self.context = case.name
            yield case

    @cached_property
    def cases(self) -> list[Case]:
        """The samples."""
        return [self._case(number, sample) for number, sample in enumerate(self.declared.samples, start=1)]

    def _case(self, number: int, sample: Sample) -> Case:
        name = f"sample {number} ({cut(sample.schema)})"
        self.context = name
        format, schema = self.make(sample.options), resolve_schema(sample.schema)
        rows = arrow_rows(_with_pairs(sample.rows, schema), result_arrow_type(row_type(schema)))
        kinds = None if sample.row_kinds is None else pa.array(list(sample.row_kinds), pa.string())
        if sample.messages is not None:
            messages = pa.array(sample.messages, pa.binary())
        elif self.declared.direction == "decode":
            raise RuleBroken(f"{name} has no `messages`; a format that can only decode needs them")
        else:
            batch = format.encode_batch(rows, schema, row_kinds=kinds)
            for row, result in enumerate(encode_results(batch)):
                if result.error is not None:
                    raise RuleBroken(f"{name}, row {row}, {self.row(rows, row)}: expected a message, got {result}")
            messages = batch.messages
        return Case(name, sample, format, schema, rows, kinds, messages)

    def row(self, rows: pa.StructArray, index: int) -> str:
        """Return a row as text for an error message."""
        return cut(row_texts(rows.slice(index, 1))[0])

    # --- generated messages ------------------------------------------------------------------------------

    @cached_property
    def changed(self) -> dict[str, list[bytes]]:
        """Changed messages of each case, by the case's name. They are the same in every run."""
        rng, share = random.Random(SEED), MUTATIONS // max(len(self.cases), 1) + 1
        return {case.name: changed(rng, case.good or [b""], share) for case in self.cases}

    @cached_property
    def bad(self) -> dict[str, list[bytes]]:
        """Declared and changed messages that are errors, by the case's name."""
        messages_of_cases = {}
        for at, case in enumerate(self.cases):
            maybe = [*(self.declared.bad if at == 0 else ()), *self.changed[case.name]]
            tried = zip(maybe, case.decode(maybe), strict=True)
            messages_of_cases[case.name] = [message for message, answer in tried if answer.error is not None]
        return messages_of_cases

    # --- types -------------------------------------------------------------------------------------------

    def is_unsupported(self, flink: str) -> bool:
        """Return whether the type, or a type inside it, is declared as unsupported."""
        _, *walked = row_type(resolve_schema(f"v {flink}")).walk()
        names = {name for _, t in walked for name in (t.root, known_type(str(nullable(t))))}
        return any(text in names for text in self.declared.unsupported)

    @property
    def served(self) -> list[str]:
        """The declared types that are not unsupported."""
        return [flink for flink in self.declared.types if not self.is_unsupported(flink)]

    def refuses(self, flink: str) -> dict[str, SchemaError | None]:
        """Return, for each direction of the format, the `SchemaError` of an empty batch of the type, or None."""
        schema = resolve_schema(f"v {flink}")
        errors: dict[str, SchemaError | None] = {}
        empty: dict[str, Callable[[], object]] = {
            "encode": lambda: self.format.encode_batch(rows_of(flink)[:0], schema),
            "decode": lambda: self.format.decode_batch(pa.array([], pa.binary()), schema),
        }
        for direction, call in empty.items():
            if self.declared.direction in ("both", direction):
                try:
                    call()
                    errors[direction] = None
                except SchemaError as error:
                    errors[direction] = error
        return errors

    # --- comparing -----------------------------------------------------------------------------------------

    def check_equal(self, where: str, actual: object, expected: object) -> None:
        """Count a comparison. Raises `RuleBroken` if the values differ."""
        self.compared += 1
        if actual != expected:
            texts = _around_difference(str(expected), str(actual))
            raise RuleBroken(f"{cut(where)}: expected {texts[0]}, got {texts[1]}")

    def check(self, where: str, holds: bool, problem: str) -> None:
        """Count a comparison. Raises `RuleBroken` with the problem if the condition does not hold."""
        self.compared += 1
        if not holds:
            raise RuleBroken(f"{cut(where)}: {problem}")

    def check_decoded(
        self,
        where: str,
        messages: pa.Array | Sequence[bytes | None],
        results: Sequence[DecodeResult],
        expected: Sequence[DecodeResult],
    ) -> None:
        """Compare the results of decoding, message by message."""
        values = as_array(messages).to_pylist()
        self.check_equal(f"{where}, the number of lists", len(results), len(expected))
        for index, (message, result, wanted) in enumerate(zip(values, results, expected, strict=True)):
            self.check_equal(f"{where}, message {index} of {len(values)}, {hex_text(message)}", result, wanted)

    def check_encoded(
        self, where: str, rows: pa.StructArray, results: Sequence[EncodeResult], expected: Sequence[EncodeResult]
    ) -> None:
        """Compare the results of encoding, row by row."""
        self.check_equal(f"{where}, the number of messages", len(results), len(expected))
        for index, (result, wanted) in enumerate(zip(results, expected, strict=True)):
            if result != wanted:
                self.check_equal(f"{where}, row {index} of {len(rows)}, {self.row(rows, index)}", result, wanted)
            self.compared += 1


def as_array(messages: pa.Array | Sequence[bytes | None]) -> pa.Array:
    """Return messages as an Arrow array."""
    return messages if isinstance(messages, pa.Array) else pa.array(messages, pa.binary())


def cut(text: str) -> str:
    """Return the beginning of a text, for an error message."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _around_difference(a: str, b: str) -> tuple[str, str]:
    """Shorten two texts for an error message. Long texts start shortly before their first difference."""
    start = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), 0) - _SHOWN // 4
    if start <= 0 or max(len(a), len(b)) <= _SHOWN:
        return cut(a), cut(b)
    return f"...{cut(a[start:])}", f"...{cut(b[start:])}"


def _with_pairs(rows: Sequence[Mapping[str, Any] | None], schema: pa.Schema) -> list[Any]:
    """Return rows whose maps are lists of pairs, which older versions of PyArrow need."""
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
