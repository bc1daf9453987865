"""A short run of the fuzzer (docs/robustness.md), and tests that it finds planted faults."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from kvformat.codecs._arrays import Ints
from kvformat.codecs.debezium.embedded_schema import NO_SCHEMA, EmbeddedSchemaReader
from kvformat.registry import DecodedBatch, EncodedBatch, Format
from tests.fuzz import bombs, cases, schemas, texts
from tests.fuzz.cases import FormatCase, Message, case
from tests.fuzz.minimise import Minimiser
from tests.fuzz.properties import PROPERTIES, Batch, kernel
from tests.fuzz.run import SUBJECTS, TEXTS, Finding, Fuzzer
from tests.support.extent import case_count

TURNS = case_count(quick=10, night=20)
"""Number of batches of each subject. `scripts/fuzz` runs for a given time."""


def test_a_short_run_finds_nothing() -> None:
    told: list[Finding] = []
    report = Fuzzer(20261, told=told.append).run(600, turns=TURNS)
    assert not told, "\n".join(map(str, told))
    assert {subject for subject, _ in report.tried} == set(SUBJECTS)
    batches = (len(SUBJECTS) - len(TEXTS)) * TURNS
    assert sum(report.tried.values()) >= batches * len(PROPERTIES)


@pytest.mark.parametrize("bomb", bombs.QUICK, ids=lambda bomb: f"{bomb.format}-{bomb.name}")
def test_a_bomb_takes_little_time_and_memory(bomb: bombs.Bomb) -> None:
    result = bombs.run(bomb)
    assert result.failure is None


# --- planted faults ---------------------------------------------------------------------------------------


class Upper(Format):
    """A correct format with one text column. Each subclass has a fault for messages that contain `!`."""

    identifier: ClassVar[str] = "upper"

    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        return self.of([[text] for text in self.texts(messages)])

    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        return EncodedBatch(rows.field(0).cast(pa.binary()))

    @staticmethod
    def texts(messages: pa.BinaryArray) -> list[str]:
        return [(data or b"").decode(errors="replace") for data in messages.to_pylist()]

    @staticmethod
    def of(rows: list[list[str]]) -> DecodedBatch:
        structs = [[{"a": text} for text in texts] for texts in rows]
        return DecodedBatch(pa.array(structs, pa.list_(pa.struct([("a", pa.string())]))))


class Raises(Upper):
    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        if any("!" in text for text in self.texts(messages)):
            raise IndexError("planted")
        return super().decode_arrow(messages, schema)


class LosesOne(Upper):
    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        return self.of([[text] for text in self.texts(messages) if "!" not in text])


class HarmsTheNext(Upper):
    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        texts = self.texts(messages)
        return self.of([["!" if "!" in before else text] for before, text in zip(["", *texts], texts, strict=False)])


class SeesTheBuffer(Upper):
    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        before = messages.offset > 0
        return self.of([[f"{text}{before}" if "!" in text else text] for text in self.texts(messages)])


class Grows(Upper):
    def decode_arrow(
        self, messages: pa.BinaryArray, schema: pa.Schema, *, metadata: tuple[str, ...] = ()
    ) -> DecodedBatch:
        return self.of([[text[:-1]] * 5_000 if "!" in text else [text] for text in self.texts(messages)])


class WritesOtherwise(Upper):
    def encode_arrow(
        self, rows: pa.StructArray, schema: pa.Schema, *, row_kinds: pa.StringArray | None = None
    ) -> EncodedBatch:
        texts = [text.replace("!", "?") for text in rows.field(0).to_pylist()]
        return EncodedBatch(pa.array([text.encode() for text in texts], pa.binary()))


MESSAGES: list[Message] = [(f"message {n}{'!' if n % 4 == 1 else ''}".encode(),) for n in range(24)]


@pytest.mark.parametrize(
    ("format", "found"),
    [
        (Upper, set()),
        (Raises, {"kernel"}),
        (LosesOne, {"contract"}),
        (HarmsTheNext, {"neighbours", "permutation", "alone"}),
        (SeesTheBuffer, {"layouts"}),
        (Grows, {"bounded"}),
        (WritesOtherwise, {"written"}),
    ],
)
def test_planted_faults_are_found(format: type[Format], found: set[str]) -> None:
    broken = []
    for name, holds in PROPERTIES.items():
        try:
            holds(Batch(FormatCase("a case", format(), "a STRING", []), MESSAGES))
        except Exception:
            broken.append(name)
    assert found <= set(broken)
    assert bool(found) == bool(broken)


def _as_its_neighbours(
    self: EmbeddedSchemaReader, messages: pa.BinaryArray, found: DecodedBatch, plans: Ints
) -> DecodedBatch:
    """Planted fault: read a message without a schema with the schema of an earlier message."""
    known = np.maximum.accumulate(np.where(plans == NO_SCHEMA, -1, np.arange(len(plans))))
    return _read_by_wire_types(self, messages, found, np.where(known >= 0, plans[known], plans))


def _by_the_usual(self: EmbeddedSchemaReader, messages: pa.BinaryArray, places: Ints) -> Ints:
    """Planted fault: assume that a message without rows has the schema of the previous batch."""
    if self._usual_wire is None:
        return _plans_by_own_schema(self, messages, places)
    usual = [plan for plan in range(len(self._plans)) if self._wire_row(plan) == self._usual_wire]
    return np.full(len(places), usual[0] if usual else NO_SCHEMA)


class _FoundError(Exception):
    """Stops a run at its first finding."""


def _found(finding: Finding) -> None:
    raise _FoundError(finding)


_read_by_wire_types = EmbeddedSchemaReader._read_by_wire_types
_plans_by_own_schema = EmbeddedSchemaReader._plans_by_own_schema


@pytest.mark.parametrize(
    ("method", "planted"), [("_read_by_wire_types", _as_its_neighbours), ("_plans_by_own_schema", _by_the_usual)]
)
def test_reading_with_the_schema_of_another_message_is_found(
    monkeypatch: pytest.MonkeyPatch, method: str, planted: Callable[..., Any]
) -> None:
    monkeypatch.setattr("tests.fuzz.run.names", lambda format, rng: f"{format}/schemas/{rng.randrange(10**6)}")
    monkeypatch.setattr(EmbeddedSchemaReader, method, planted)
    with pytest.raises(_FoundError):
        Fuzzer(1, only=["permutation", "alone"], told=_found).run(600, ["debezium-json"], turns=TURNS)


def _fails_with(format: type[Format]) -> Callable[[list[Message]], bool]:
    def fails(messages: list[Message]) -> bool:
        try:
            case = FormatCase("a case", format(), "a STRING", [])
            kernel(Batch(case, messages))
        except IndexError:
            return True
        return False

    return fails


def test_a_failing_batch_is_reduced() -> None:
    assert Minimiser(_fails_with(Raises)).messages(MESSAGES) == [(b"!",)]
    assert Minimiser(lambda text: "(" in text and "`" in text).cut("CREATE TABLE t (`a` INT)") in ("(`", "(``")


def test_a_bomb_over_the_limits_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = bombs.QUICK[0]
    monkeypatch.setattr(bombs, "SECONDS", -1)
    assert "took" in str(bombs.run(bomb).failure)
    monkeypatch.setattr(bombs, "ADDRESSES", 1 << 26)
    monkeypatch.setattr(bombs, "SECONDS", 10)
    assert "ended with" in str(bombs.run(bomb).failure)


# --- failures are reproducible ----------------------------------------------------------------------------


def test_a_case_is_reproducible_from_its_name() -> None:
    names = ("json/vectors/12", "csv/rows/7", "avro/rows/8", "canal-json/known/1", "key-value/rows/9")
    for name in (*names, *(f"{format}/schemas/3" for format in schemas.FORMATS)):
        made = case.__wrapped__(name)
        assert (made.name, repr(made)) == (name, f"case({name!r})")
        assert made.known == case.__wrapped__(name).known


def test_a_run_is_reproducible_from_its_seed() -> None:
    for subject in (*cases.FORMATS, cases.TABLES):
        one, other = (cases.names(subject, random.Random(f"3/{subject}")) for _ in range(2))
        assert one == other
    for make, _ in TEXTS.values():
        assert make(random.Random(3)) == make(random.Random(3))
    assert texts.statement(random.Random(3)) != texts.statement(random.Random(4))
