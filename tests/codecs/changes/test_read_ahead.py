"""Reading rows ahead (`codecs/_kernel/read_ahead.py`) makes change data faster, and must not change answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs.changes import format as changes_format
from kvformat.codecs.changes.read import EnvelopePlan
from kvformat.registry import get_format
from kvformat.registry.contract.cells import MOST_CELLS
from tests.support import vectors
from tests.support.decoding import Answer, answers, decoded
from tests.support.json_mutation import CHANGED, PRODUCERS, Producer, mutated

_FORMATS = ("debezium-json", "canal-json", "maxwell-json", "ogg-json")
_UPSERT = {"changelog.mode": "upsert"}
Read = Callable[..., list[Answer]]


@pytest.fixture
def read_both_ways(monkeypatch: pytest.MonkeyPatch) -> Read:
    """Return a function that decodes messages with and without reading ahead, compares the answers and returns them."""
    asked: list[bool] = []

    def read(format: str, options: dict[str, Any], messages: Sequence[Any], schema: Any, **how: Any) -> list[Answer]:
        made = get_format(format, options)
        with_it = answers(decoded(made, messages, schema, **how))
        asked.clear()
        with monkeypatch.context() as patch:
            patch.setattr(EnvelopePlan, "reads_ahead", property(lambda _: bool(asked.append(True))))
            patch.setattr(changes_format, "_reader", changes_format._reader.__wrapped__)  # no cached reader
            without = answers(decoded(made, messages, schema, **how))
        assert asked or options.get("flattened")
        for message, one, other in zip(messages, with_it, without, strict=True):
            assert one == other, message
        return with_it

    return read


@pytest.mark.parametrize("upsert", [{}, _UPSERT], ids=["all", "upsert"])
@pytest.mark.parametrize("producer", PRODUCERS, ids=str)
def test_mutated_messages_get_the_same_answers_without_reading_ahead(
    producer: Producer, upsert: dict[str, str], read_both_ways: Read
) -> None:
    rng = random.Random(str(producer))
    whole = producer.texts(rng, 300)
    messages = [*whole, *(mutated(rng, message) for message in whole)]
    options = {**dict(producer.options), **upsert}
    compared = good = 0
    for metadata in ((), tuple(get_format(producer.format, options).metadata_types)):
        for _ in range(2):
            rng.shuffle(messages)
            found = read_both_ways(producer.format, options, messages, CHANGED, metadata=metadata)
            compared += len(found)
            good += sum(answer.error is None for answer in found)
    assert compared == 2400
    assert good > 0.3 * compared


@pytest.mark.parametrize("format", _FORMATS)
def test_flinks_vectors_get_the_same_answers_without_reading_ahead(format: str, read_both_ways: Read) -> None:
    compared = 0
    for case in vectors.cases(format):
        if case["direction"] != "decode" or "factory_error" in case or "deviation" in case:
            continue
        messages = [vectors.message_bytes(message["in"]) for message in case["messages"]]
        compared += len(read_both_ways(format, case["options"], messages, vectors.columns(case)))
    assert compared > 400


_ONE = {  # an update; the placeholders are the row after it and the row before it
    "debezium-json": '{"after":%s,"before":%s,"op":"u"}',
    "ogg-json": '{"after":%s,"before":%s,"op_type":"U"}',
    "maxwell-json": '{"data":%s,"old":%s,"type":"update"}',
    "canal-json": '{"data":[%s],"old":[%s],"type":"UPDATE"}',
}


@pytest.mark.slow  # 100,000 rows of 2000 columns
@pytest.mark.parametrize("format", ["debezium-json", "canal-json"])  # without and with rows that stay open
def test_the_limit_of_cells_is_the_same_without_reading_ahead(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages near the limit of cells of a message. The table has an array of rows with 2000 columns."""
    columns = ", ".join(f"c{number} BOOLEAN" for number in range(2000))
    schema, made = f"l ARRAY<ROW<{columns}>>", get_format(format)
    limit = MOST_CELLS // 2000
    pairs = [("{}", "{}")]
    for times in (1, 2, 3):  # how often the rows of a message have the array
        for count in (limit // times - 20, limit // times + 10, limit // times + 60):
            text = f'{{"l":[{",".join(["{}"] * count)}]}}'
            pairs += [(text, "{}")] if times < 2 else [(text, text), (text, "{}")]
    messages = [pa.array([(_ONE[format] % pair).encode()]) for pair in pairs]
    with_it = [made.decode_batch(message, schema) for message in messages]
    monkeypatch.setattr(EnvelopePlan, "reads_ahead", False)
    monkeypatch.setattr(changes_format, "_reader", changes_format._reader.__wrapped__)
    for message, one in zip(messages, with_it, strict=True):
        other = made.decode_batch(message, schema)
        assert (one.errors is None) == (other.errors is None), message
        assert one.rows.equals(other.rows)
    failed = sum(batch.errors is not None for batch in with_it)
    assert 1 <= failed < len(messages)
