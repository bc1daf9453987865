"""A schema registry that is down in the middle of a stream."""

from __future__ import annotations

import io
import json
import random
import time
from pathlib import Path
from typing import Any

import fastavro

from tests.connectors.crashes import Report
from tests.connectors.once_crashes import BATCH, Copy
from tests.support.cluster import Cluster
from tests.support.environments import Environment
from tests.support.registry_server import Registry, RegistryServer

PHASES = 3
"""Parts of the topic, each with a schema of its own."""
_DOWN = 5.0  # seconds
_PATIENT = {"value.avro-confluent.registry-retries": "100", "value.avro-confluent.registry-timeout": "120 s"}


def schema(phase: int) -> dict[str, Any]:
    """Return the writer's schema of a part: each one has a further field."""
    more = [{"name": f"more{number}", "type": "int", "default": 0} for number in range(phase)]
    fields = [{"name": "n", "type": "long"}, {"name": "pad", "type": "string"}, *more]
    return {"type": "record", "name": "value", "fields": fields}


def frame(phase: int) -> bytes:
    """Return the first bytes of a message: its schema's id is the number of the part and 1."""
    return b"\0" + (phase + 1).to_bytes(4, "big")


class Registered(Copy):
    """Changes in Avro, written with one schema after the other."""

    def sent(self, key: bytes, value: bytes | None) -> bytes | None:
        if value is None:
            return None
        row = {**json.loads(value), "pad": "x" * 100}
        phase = row["n"] * PHASES // self.count
        message = io.BytesIO()
        message.write(frame(phase))
        fastavro.schemaless_writer(message, schema(phase), row)
        return message.getvalue()

    def parts(self) -> list[list[tuple[bytes, bytes | None]]]:
        """Return the records of each part of the topic. A part begins with the first message of its schema."""
        begins = [frame(phase) for phase in range(PHASES)]
        starts = [next(n for n, (_, value) in enumerate(self.mixed) if (value or b"")[:5] == begin) for begin in begins]
        starts[0] = 0
        return [self.mixed[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]


def test_a_query_survives_a_registry_that_is_down_and_loses_nothing(
    cluster: Cluster,
    broker: Any,
    with_wheel: Environment,
    server: RegistryServer,
    registry: Registry,
    tmp_path: Path,
) -> None:
    registry.ids |= {phase + 1: json.dumps(schema(phase)) for phase in range(PHASES)}
    avro = {"value.format": "avro-confluent", "value.avro-confluent.url": registry.url}
    copy = Registered(broker, tmp_path, BATCH, random.Random(7))
    copy.query.on_cluster(cluster, with_wheel.executable)
    copy.query.settings(source_options=avro)

    parts = copy.parts()

    def copied(phases: int) -> bool:
        return copy.query.read() >= sum(map(len, parts[:phases]))

    try:
        broker.send(copy.source, parts[0])
        copy.wait(lambda: copied(1))
        # The query ends with an error that names the registry. Started again with more patience, it waits.
        with server.stopped():
            broker.send(copy.source, parts[1])
            copy.query.wait(lambda: not copy.query.alive())
            log = (tmp_path / "query.log").read_text(errors="replace")
            assert "SchemaRegistryError" in log
            assert "schema id 2" in log
            assert registry.url in log
            copy.query.settings(source_options=avro | _PATIENT)
            copy.query.start()
            begun = copy.query.batches()
            copy.query.wait(lambda: copy.query.in_flight() >= begun)
            time.sleep(_DOWN)
            assert not copied(2)
        copy.query.wait(lambda: copied(2))
        with server.stopped():
            broker.send(copy.source, parts[2])
            begun = copy.query.batches()
            copy.query.wait(lambda: copy.query.in_flight() >= begun)
            time.sleep(_DOWN)
            assert copy.query.alive()
            assert not copied(PHASES)
        copy.query.wait(copy.all_read)  # raises if the query has ended
    finally:
        copy.query.kill()
    report = Report("a registry that is down")
    copy.check(report)
    assert report.records >= BATCH
