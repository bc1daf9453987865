"""The fuzzer: tests random inputs of each subject in turn until the time is over."""

from __future__ import annotations

import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from tests.fuzz import histories, pipelines, stores, texts
from tests.fuzz.cases import FORMATS, TABLES, case, names
from tests.fuzz.looks import known_tables
from tests.fuzz.minimise import Minimiser
from tests.fuzz.properties import PROPERTIES, Batch
from tests.fuzz.source import EVERY, source

MESSAGES = 24
"""Number of messages of a batch. Two of three are changed."""
TEXTS: dict[str, tuple[Callable[[random.Random], Any], Callable[[Any], None]]] = {
    "ddl": (texts.statement, texts.parse_statement),
    "types": (texts.type_text, texts.parse_type_text),
    "options": (texts.options, texts.use_options),
    "yaml": (pipelines.yaml_text, pipelines.use_yaml),
    "jobs": (pipelines.sql_text, pipelines.use_sql),
    "pipelines": (pipelines.blocks, pipelines.use_blocks),
    "stores": (stores.damage, stores.load_damaged),
    "histories": (histories.history, histories.compare_batchings),
}
"""Subjects with texts as input: the function that creates a text, and the function that parses or refuses it."""
ALL_PROPERTIES = {**PROPERTIES, "known": known_tables}
"""The properties of batches, with that of a look that knows tables."""
SUBJECTS = (*FORMATS, TABLES, *TEXTS)
NOT_COMPILED = ("raw", TABLES)
"""Subjects without the property `SOURCE`: the kernel does not read raw, and tables use the kernels of formats."""
ANSWERED = "answered"
"""The property of texts: they are parsed, or refused with a `KvFormatError`."""
SOURCE = "source"
"""The property that the uncompiled kernel gives the same results as the compiled kernel."""
TEXTS_A_TURN = 20
"""Number of texts per turn. Texts are faster than batches."""
SLOW = ("histories",)
"""Subjects with one text per turn."""


@dataclass(frozen=True)
class Finding:
    """A violated property: its subject, the error, and Python code for a test."""

    subject: str
    property: str
    said: str
    paste: str

    def __str__(self) -> str:
        return f"{self.subject}, {self.property}: {self.said}\n{self.paste}"


@dataclass
class Report:
    """The number of tested inputs by subject and property, and the first finding at each position in the code."""

    tried: Counter[tuple[str, str]] = field(default_factory=Counter)
    messages: int = 0
    findings: list[Finding] = field(default_factory=list)
    again: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def table(self) -> str:
        """Return a table of subjects and properties."""
        columns = list(dict.fromkeys(property for _, property in self.tried))
        lines = [["", *columns]]
        for subject in dict.fromkeys(subject for subject, _ in self.tried):
            counts = (self.tried[subject, property] for property in columns)
            lines.append([subject, *(f"{count:,}" if count else "-" for count in counts)])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
        )


class Fuzzer:
    """Creates random inputs and tests them."""

    def __init__(self, seed: int, *, only: Collection[str] = (), told: Callable[[Finding], None] = print) -> None:
        self.seed, self.only, self.report = seed, only, Report()
        self._told = told

    def run(self, seconds: float, subjects: Collection[str] = SUBJECTS, *, turns: int = 10**9) -> Report:
        """Test inputs of the subjects in turn."""
        ends = time.monotonic() + seconds
        with source() as other:
            self.properties = dict(ALL_PROPERTIES) | ({SOURCE: other} if other is not None else {})
            for turn in range(turns):
                for subject in subjects:
                    if time.monotonic() > ends:
                        return self.report
                    rng = random.Random(f"{self.seed}/{subject}/{turn}")
                    (self._text if subject in TEXTS else self._batch)(subject, turn, rng)
        return self.report

    def _batch(self, subject: str, turn: int, rng: random.Random) -> None:
        made = case(names(subject, rng))
        messages = [made.message(rng) for _ in range(MESSAGES)]
        messages = [made.changed(rng, message) if rng.random() < 0.67 else message for message in messages]
        batch = Batch(made, messages)
        self.report.messages += MESSAGES
        for name, holds in self.properties.items():
            if self.only and name not in self.only:
                continue
            every = 1 if self.only else EVERY
            if name == SOURCE and (turn % every or subject in NOT_COMPILED):
                continue
            self._try(subject, name, lambda: holds(batch), lambda: self._shown(holds, batch))  # noqa: B023

    def _text(self, subject: str, turn: int, rng: random.Random) -> None:
        make, use = TEXTS[subject]
        if self.only and ANSWERED not in self.only:
            return
        for _ in range(1 if subject in SLOW else TEXTS_A_TURN):
            text = make(rng)
            self._try(subject, ANSWERED, lambda: use(text), lambda: self._shown_text(use, text))  # noqa: B023

    def _try(self, subject: str, property: str, holds: Callable[[], None], shown: Callable[[], str]) -> None:
        self.report.tried[subject, property] += 1
        try:
            holds()
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            kind = (type(error).__name__, place.filename, str(place.lineno), "" if place.lineno else str(error))
            self.report.again[subject, property, *kind] += 1
            if self.report.again[subject, property, *kind] == 1:
                found = Finding(subject, property, f"{type(error).__name__} {error}"[:1000], shown())
                self.report.findings.append(found)
                self._told(found)

    def _shown(self, holds: Callable[[Batch], None], batch: Batch) -> str:
        """Reduce the batch and return it as Python code."""
        messages = Minimiser(lambda messages: _fails(lambda: holds(Batch(batch.case, messages)))).messages(
            batch.messages
        )
        name = holds.__name__ if hasattr(holds, "__name__") else SOURCE
        return f"    {name}(Batch({batch.case!r}, {messages!r}))    # {batch.case.reader!r:.500}"

    def _shown_text(self, use: Callable[[Any], None], text: Any) -> str:
        if isinstance(text, str):
            text = Minimiser(lambda text: _fails(lambda: use(text))).cut(text)
        return f"    {use.__name__}({text!r})"


def _fails(holds: Callable[[], None]) -> bool:
    try:
        holds()
    except Exception:
        return True
    return False
