"""The loop that copies messages of librdkafka to Arrow: with messages in memory, compiled and as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvformat.codecs import KERNEL
from kvformat.codecs._kernel.kafka_records import COLUMNS, KafkaRecords
from tests.support.extent import case_count
from tests.support.kafka_messages import END_OF_PARTITION, KafkaMessage, MemoryQueue, answers, cases

_ROOT = Path(__file__).parents[3]
QUEUES = case_count("KVFORMAT_QUEUES", quick=400, night=1_200)
"""How many queues with random messages both kernels read."""
_MOST_MICROS = 9_223_372_036_854_775_000


def expected(message: KafkaMessage) -> dict[str, Any]:
    headers = None if not message.headers else [{"key": key, "value": value} for key, value in message.headers]
    return {
        "key": message.key,
        "value": message.value,
        "headers": headers,
        "offset": message.offset,
        "timestamp": min(message.timestamp * 1000, _MOST_MICROS),
        "timestampType": message.timestamp_type - 1,
        "leaderEpoch": message.epoch if message.epoch >= 0 else None,
    }


def test_records_errors_and_positions_of_random_messages() -> None:
    """Every message is destroyed once, and its wanted columns are right."""
    rows = errors = limited = 0
    for bursts, end, names, most, capacity in cases(QUEUES):
        *found, (destroyed, alive) = answers(bursts, end, names, most, capacity)
        messages = [message for burst in bursts for message in burst]
        assert (destroyed, alive) == ([message.offset for message in messages], 0)
        wanted = [expected(message) for message in messages if not message.error and message.offset < end]
        batches = [answer for answer in found if len(answer) == 3]
        for name in names:
            assert [value for _, _, columns in batches for value in columns[name]] == [row[name] for row in wanted]
        assert sum(count for count, _, _ in batches) == len(wanted)
        others = [message.error for message in messages if message.error not in (0, END_OF_PARTITION)]
        assert [answer[0] for answer in found if len(answer) == 2 and answer[0]] == others
        positions = [
            message.offset + (not message.error) for message in messages if message.error in (0, END_OF_PARTITION)
        ]
        assert max((answer[1] for answer in found), default=-1) == max(positions, default=-1)
        rows, errors, limited = rows + len(wanted), errors + len(others), limited + (most == 1 and len(batches) > 1)
    assert (rows > 15 * QUEUES, errors > 0.2 * QUEUES, limited > 0.1 * QUEUES) == (True, True, True)


def test_both_kernels_copy_the_same() -> None:
    if KERNEL != "compiled":
        pytest.skip("the kernel is not compiled")
    found = []
    for kernel in ("compiled", "python"):
        command = [sys.executable, "-m", "tests.support.kafka_messages", str(QUEUES // 4)]
        environment = {**os.environ, "KVFORMAT_KERNEL": kernel}
        run = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, check=True)
        assert run.stderr == b"", "an exception of a callback is only printed"
        found.append(run.stdout)
    assert found[0].count(b"\n") > QUEUES
    assert found[0] == found[1]


def test_bytes_limit_a_batch_and_one_record_may_be_larger() -> None:
    sizes = [10, 80, 9, 1, 500, 100, 0, 0, 101]
    burst = [KafkaMessage(offset, value=bytes(size)) for offset, size in enumerate(sizes)]
    *found, _ = answers([burst], 100, ["value"], 100, 100)
    assert [[len(value) for value in columns["value"]] for _, _, columns in found] == [
        *([10, 80, 9, 1], [500], [100, 0, 0], [101]),
    ]
    burst = [KafkaMessage(offset, b"k" * 10, bytes(20), [(b"name", b"value")]) for offset in range(9)]
    *found, _ = answers([burst], 100, ["key", "value", "headers"], 100, 100)
    assert [count for count, _, _ in found] == [2, 2, 2, 2, 1], "headers count, too"


def test_a_new_range_drops_what_is_held() -> None:
    queue = MemoryQueue([[KafkaMessage(offset, value=b"x") for offset in range(9)]])
    records = KafkaRecords(queue.library, 1, 5)
    records.begin(3, 9, COLUMNS["value"])
    assert records.receive(1) == 5
    assert records.peek() == (0, 7, 3, 0)
    assert queue.destroyed == []
    records.begin(3, 9, COLUMNS["offset"])
    assert queue.destroyed == [0, 1, 2, 3, 4]
    assert records.receive(1) == 4
    assert records.copy(100) == 4
    assert list(records.arrays()) == ["offset"]
    assert records.arrays()["offset"].to_pylist() == [5, 6, 7, 8]
    assert (records.first(), records.receive(1), records.copy(100), records.position) == (0, 0, 0, 9)
    records.begin(4, 9, COLUMNS["offset"])
    assert (records.position, records.receive(1), records.copy(100), records.position) == (-1, 0, 0, -1)
