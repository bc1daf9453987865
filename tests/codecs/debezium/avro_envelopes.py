"""Random envelopes in Avro with fields in any order, random changes of the messages, and what comes of them.

python -m tests.codecs.debezium.avro_envelopes COUNT    writes the kernel, then the answers for each batch
"""

from __future__ import annotations

import atexit
import io
import json
import pickle
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from kvformat.codecs import KERNEL
from kvformat.registry import Format, get_format
from tests.support.avro_mutation import mutated

COLUMNS = "id INT, name STRING, small TINYINT, tags ARRAY<STRING>"
_ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "small", "type": "int"},
        {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}]},
    ],
}
_SOURCE = {"type": "record", "name": "Source", "fields": [{"name": "db", "type": "string"}]}
_KINDS = {"c": "+I", "r": "+I", "u": "+U", "d": "-D"}
_OPS = ("c", "r", "u", "d", "u", "t", "x", None)
_SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {"changelog.mode": "upsert"},
    {"other-messages": "skip"},
    {"flattened": "true"},
    {"flattened": "true", "other-messages": "skip-all"},
)

_folder = tempfile.TemporaryDirectory()
atexit.register(_folder.cleanup)

Row = dict[str, Any] | None
Event = dict[str, Any]


def envelope_schema(rng: random.Random) -> Any:
    """Return a connector's schema with its fields in a random order."""
    first, second = rng.sample(["before", "after"], 2)
    fields = [
        {"name": first, "type": ["null", _ROW]},
        {"name": second, "type": ["null", "Value"]},
        {"name": "op", "type": ["null", "string"]},
        {"name": "source", "type": ["null", _SOURCE]},
        {"name": "ts_ms", "type": "long"},
    ]
    order = sorted(range(5), key=lambda i: rng.random() if i > 1 else i / 2)  # `Value` is defined before it is used
    return {"type": "record", "name": "Envelope", "fields": [fields[i] for i in order]}


def flat_schema(rng: random.Random) -> Any:
    """Return the schema of rows without an envelope, with their marks."""
    marks = [{"name": "__op", "type": ["null", "string"]}, {"name": "__deleted", "type": ["null", "string"]}]
    fields = [*_ROW["fields"], *marks[: rng.randint(1, 2)]]
    rng.shuffle(fields)
    return {"type": "record", "name": "Value", "fields": fields}


def random_row(rng: random.Random) -> dict[str, Any]:
    """Return a row of a message. The column `small` is TINYINT, but its number may be larger."""
    return {
        "id": rng.randrange(1000),
        "name": rng.choice([None, "", "é", "a name of some length"]),
        "small": rng.randrange(128) if rng.random() < 0.95 else 300,
        "tags": rng.choice([None, [], ["a", None]]),
    }


def random_event(rng: random.Random) -> Event:
    """Return an envelope. Mostly, it has the rows that its operation needs."""
    op = rng.choice(_OPS) if rng.random() < 0.2 else rng.choice("crud")
    has_before, has_after = op in ("u", "d"), op in ("c", "r", "u")
    if rng.random() < 0.2:
        has_before, has_after = rng.random() < 0.7, rng.random() < 0.7
    return {
        "before": random_row(rng) if has_before else None,
        "after": random_row(rng) if has_after else None,
        "op": op,
        "source": rng.choice([None, {"db": "shop"}]),
        "ts_ms": 1_700_000_000_000,
    }


def message(schema_id: int, schema: Any, value: Event) -> bytes:
    """Return a value as a message."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, value)
    return b"\0" + schema_id.to_bytes(4, "big") + stream.getvalue()


class Envelopes:
    """Random schemas, events and their messages with the schemas' ids, and the format that reads them."""

    def __init__(self, seed: int, count: int = 60, settings: Mapping[str, str] | None = None) -> None:
        self.rng = rng = random.Random(seed)
        self.settings = dict(_SETTINGS[seed % len(_SETTINGS)] if settings is None else settings)
        flat = "flattened" in self.settings
        schemas = [flat_schema(rng) if flat else envelope_schema(rng) for _ in range(rng.choice([1, 2, 10]))]
        self.folder = Path(tempfile.mkdtemp(dir=_folder.name))
        for number, schema in enumerate(schemas):
            (self.folder / f"{number + 1}.avsc").write_text(json.dumps(schema), encoding="utf-8")
        parsed = [fastavro.parse_schema(json.loads(json.dumps(schema))) for schema in schemas]
        self.events, self.messages = [], []
        for _ in range(count):
            number, event = rng.randrange(len(schemas)), random_event(rng)
            self.events.append(event)
            if flat:
                event = random_row(rng) | {"__op": event["op"], "__deleted": rng.choice([None, "true", "false"])}
            self.messages.append(message(number + 1, parsed[number], event))
        made = get_format("debezium-avro-confluent", {"url": f"file:{self.folder}", **self.settings})
        self.format: Format = made

    def mutated(self) -> list[bytes | None]:
        """Return the messages with changes in two of three, and some nulls."""
        rng = self.rng
        changed = [m[:5] + mutated(rng, m[5:]) if i % 3 else m for i, m in enumerate(self.messages)]
        return [rng.choice([None, b"", b"\0\0"]) if rng.random() < 0.02 else m for m in changed]

    def rows(self, messages: list[bytes | None]) -> list[tuple[str | None, list[tuple[str, Row]] | None]]:
        """Return for each message its error, and its rows with their kinds."""
        batch = self.format.decode_batch(pa.array(messages, pa.binary()), COLUMNS)
        batch.rows.validate(full=True)
        assert batch.row_kinds is not None
        kinds, bounds = batch.row_kinds.to_pylist(), batch.rows.offsets.to_pylist()
        errors = [None] * len(messages) if batch.errors is None else batch.errors.to_pylist()
        rows = [
            None if found is None else list(zip(kinds[start:], found, strict=False))
            for found, start in zip(batch.rows.to_pylist(), bounds, strict=False)
        ]
        return list(zip(errors, rows, strict=True))


def expected(event: Event, settings: Mapping[str, str], *, bare_deletes: bool = False) -> list[tuple[str, Row]] | None:
    """Return the rows of an event, None for an error: the rule of the format, written again."""
    before, after, op = event["before"], event["after"], event["op"]
    if any(row is not None and row["small"] > 127 for row in (before, after)):
        return None
    if op not in _KINDS:
        return None
    row = before if op == "d" else after
    if row is None:
        return [("-D", dict.fromkeys(random_row(random.Random(0))))] if op == "d" and bare_deletes else None
    rows: list[tuple[str, Row]] = [(_KINDS[op], row)]
    if op == "u" and "changelog.mode" not in settings:
        return None if before is None else [("-U", before), *rows]
    return rows


def is_usual(event: Event) -> bool:
    """Return whether an event has exactly the rows of its operation. Without other events, rows are not reordered."""
    op = event["op"] or ""
    return (event["before"] is not None) == (op in "ud") and (event["after"] is not None) == (op in "cru")


def batches(count: int) -> Iterator[tuple[list[bytes | None], Any]]:
    """Yield at least so many messages: those of a batch, and what `rows` returns for them."""
    seed = 0
    while count > 0:
        case = Envelopes(seed)
        messages = case.mutated()
        # the folder of the schemas differs between processes
        yield messages, repr(case.rows(messages)).replace(str(case.folder), "")
        count -= len(messages)
        seed += 1


if __name__ == "__main__":
    pickle.dump(KERNEL, sys.stdout.buffer)
    for batch in batches(int(sys.argv[1])):
        pickle.dump(batch, sys.stdout.buffer)
