"""How fast one column of timestamps is read in forms of the user's choice, compared with the form that Flink reads.

    scripts/benchmark timestamp_forms
    scripts/benchmark timestamp_forms --records 200000 --only json

Two parts, json and csv, each with its figures in `results/timestamp_forms.json`: `decode_batch` on one thread, no
Spark, batches of 5,000 messages with one TIMESTAMP(3).
"""

from __future__ import annotations

import datetime as dt
import functools
import random
import time
from typing import Any

from _kernel import BATCH, batches, decoding
from _measure import document, measure, run, table

from kvformat.registry.contract.schemas import resolve_schema

SCHEMA = "at TIMESTAMP(3)"
_BUILT_IN, _WITH_MILLIS = "SQL (built in)", "SQL with milliseconds (built in)"
_SECONDS, _MILLIS = "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.123"
_TASKS = {  # the task, its forms, and how the texts are written
    _BUILT_IN: (None, _SECONDS),
    "yyyy-MM-dd HH:mm:ss": ("yyyy-MM-dd HH:mm:ss", _SECONDS),
    "epoch-millis": ("epoch-millis", ""),
    "the last of ISO-8601, epoch-millis, SQL": ("ISO-8601; epoch-millis; SQL", _SECONDS),
    "dd/MM/yyyy hh:mm:ss a": ("dd/MM/yyyy hh:mm:ss a", "%d/%m/%Y %I:%M:%S %p"),
    "ISO-8601 with an offset": ("ISO-8601", "%Y-%m-%dT%H:%M:%S+02:00"),
    "yyyy-MM-dd HH:mm:ss VV": ("yyyy-MM-dd HH:mm:ss VV", "%Y-%m-%d %H:%M:%S Europe/Berlin"),
    _WITH_MILLIS: (None, _MILLIS),
    "yyyy-MM-dd HH:mm:ss[.SSS]": ("yyyy-MM-dd HH:mm:ss[.SSS]", _MILLIS),
}


def measure_format(kind: str, records: int, rounds: int) -> dict[str, Any]:
    """Measure all forms in messages of one format."""
    rng = random.Random(1)
    moments = [dt.datetime(2000, 1, 1) + dt.timedelta(seconds=rng.randrange(10**9)) for _ in range(records)]
    schema = resolve_schema(SCHEMA)
    inputs = {}
    for _, written in _TASKS.values():
        values = [moment.strftime(written) if written else str(int(moment.timestamp()) * 1000) for moment in moments]
        if kind == "json":
            values = [f'{{"at":"{value}"}}' if written else f'{{"at":{value}}}' for value in values]
        inputs[written] = batches(value.encode() for value in values)
    tasks = {
        name: decoding(
            kind, inputs[written], schema, options={} if forms is None else {"timestamp-format.patterns": forms}
        )
        for name, (forms, written) in _TASKS.items()
    }
    speeds = measure(tasks, records=records, rounds=rounds, clock=time.process_time)
    print(table(f"{kind}, one thread, records per CPU-second", speeds, _BUILT_IN))
    millis = [*_TASKS][[*_TASKS].index(_WITH_MILLIS) + 1 :]
    pairs = [(name, _WITH_MILLIS if name in millis else _BUILT_IN) for name in tasks if "built in" not in name]
    return document(speeds, pairs, records)


if __name__ == "__main__":
    run(
        "timestamp_forms",
        __doc__,
        {kind: functools.partial(measure_format, kind) for kind in ("json", "csv")},
        {"schema": SCHEMA, "batch": BATCH},
        records=1_000_000,
    )
